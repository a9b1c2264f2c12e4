/*
 * diagnose_request.c - why the responder refuses a request, or puts it off.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "emu/diagnose.h"
#include "trace/names.h"
#include "trace/render.h"

#define WHAT_BYTES 288
#define LOOK_INTO  8 /* refused requests of a QP */

static const char *packet_name(const struct roce_hdr *h)
{
	const char *name = trace_name(TRACE_OPCODE, h->opcode);

	return name ? name : "packet";
}

/* The right of the QP that a request of this kind needs */
static const char *right_of(const struct roce_hdr *h)
{
	switch (h->opcode & ROCE_OP_MASK) {
	case ROCE_READ_REQ:
		return "IBV_ACCESS_REMOTE_READ";
	case ROCE_CMP_SWAP:
	case ROCE_FETCH_ADD:
		return "IBV_ACCESS_REMOTE_ATOMIC";
	case ROCE_FLUSH:
		return "IBV_ACCESS_FLUSH_GLOBAL or _PERSISTENT";
	default:
		return "IBV_ACCESS_REMOTE_WRITE";
	}
}

static enum trace_note_code no_room(const struct tr_qp *t, uint32_t len, bool last,
				    char what[WHAT_BYTES])
{
	const struct tr_resp *resp = &t->resp;

	snprintf(
	    what, WHAT_BYTES,
	    "a message of %s%u bytes does not fit the receive request wr_id 0x%" PRIx64
	    ", which has %" PRIu64,
	    last ? "" : "more than ", resp->rlen + len, resp->rwqe->wr_id,
	    resp->rwqe->length);
	return TRACE_NOTE_RECEIVE_SMALL;
}

/* The commonest reason: the two ends do not agree about the path MTU */
static enum trace_note_code wrong_length(const struct tr_qp *t, uint32_t info,
					 uint32_t len, char what[WHAT_BYTES])
{
	if (len > t->qp->mtu || !(info & ROCE_F_LAST)) {
		snprintf(
		    what, WHAT_BYTES,
		    "a packet with %u bytes is refused, path MTU here is %u: that of "
		    "the peer, QP 0x%06x, must be the same",
		    len, t->qp->mtu, t->qp->attr.dest_qp_num);
		return TRACE_NOTE_PATH_MTU;
	}
	snprintf(what, WHAT_BYTES,
		 "a packet with %u bytes is refused: no message looks like it", len);
	return TRACE_NOTE_REQUEST;
}

static enum trace_note_code wrong_request(const struct tr_qp *t, const struct roce_hdr *h,
					  const char *why, char what[WHAT_BYTES])
{
	snprintf(what, WHAT_BYTES, "%s of QP 0x%06x is refused: %s", packet_name(h),
		 t->qp->attr.dest_qp_num, why);
	return TRACE_NOTE_REQUEST;
}

/* What is wrong with a request that was V_INVALID */
static enum trace_note_code invalid(const struct tr_qp *t, const struct roce_hdr *h,
				    uint32_t info, uint32_t len, char what[WHAT_BYTES])
{
	switch (t->resp.refusal) {
	case REFUSE_RIGHT:
		snprintf(what, WHAT_BYTES,
			 "%s of QP 0x%06x is refused: qp_access_flags of this QP lack %s "
			 "(they are 0x%x)",
			 packet_name(h), t->qp->attr.dest_qp_num, right_of(h),
			 t->qp->attr.qp_access_flags);
		return TRACE_NOTE_QP_RIGHT;
	case REFUSE_ROOM:
		return no_room(t, len, info & ROCE_F_LAST, what);
	case REFUSE_LENGTH:
		return wrong_length(t, info, len, what);
	case REFUSE_DEPTH:
		snprintf(what, WHAT_BYTES,
			 "%s of QP 0x%06x is refused: max_dest_rd_atomic here is %u, and "
			 "so many READs and atomics are not answered yet; max_rd_atomic "
			 "there must not be larger",
			 packet_name(h), t->qp->attr.dest_qp_num,
			 t->qp->attr.max_dest_rd_atomic);
		return TRACE_NOTE_REQUEST;
	case REFUSE_ALIGN:
		snprintf(what, WHAT_BYTES,
			 "%s of QP 0x%06x is refused: its address, 0x%" PRIx64
			 ", is no multiple of 8",
			 packet_name(h), t->qp->attr.dest_qp_num, h->va);
		return TRACE_NOTE_REQUEST;
	case REFUSE_SEQUENCE:
		return wrong_request(t, h, "it does not continue the message at hand",
				     what);
	case REFUSE_DMA:
		return wrong_request(t, h, "the message has not the length that it says",
				     what);
	case REFUSE_SGES:
	case REFUSE_OTHER:
		break;
	}
	return wrong_request(t, h, "a field has a value that it cannot have", what);
}

/* The memory that a request named */
static enum trace_note_code no_access(struct tr_qp *t, const struct roce_hdr *h,
				      uint32_t info, char what[WHAT_BYTES],
				      uint32_t *detail)
{
	bool atomic =
	    (info & ROCE_F_ATOMIC_ETH) || (h->opcode & ROCE_OP_MASK) == ROCE_ATOMIC_WRITE;
	struct emu_use use = {.pd = t->qp->type == IBV_QPT_XRC_RECV ? t->qp->xrc_pd
								    : t->qp->pd,
			      .qp = t->qp,
			      .key = h->rkey,
			      .va = h->va,
			      .len = atomic ? 8 : h->dma_len,
			      .access = IBV_ACCESS_REMOTE_WRITE};
	struct trouble trouble;

	if (info & ROCE_F_WRITE) {
		use.key = t->resp.rkey;
		use.va = t->resp.va;
		use.len = t->resp.resid;
	} else if (info & ROCE_F_READ) {
		use.access = IBV_ACCESS_REMOTE_READ;
	} else if (info & ROCE_F_ATOMIC_ETH) {
		use.access = IBV_ACCESS_REMOTE_ATOMIC;
	} else if ((h->opcode & ROCE_OP_MASK) == ROCE_FLUSH) {
		use.access = (h->flush_type & 1 ? EMU_ACCESS_FLUSH_GLOBAL : 0) |
			     (h->flush_type & 2 ? EMU_ACCESS_FLUSH_PERSISTENT : 0);
	}
	diagnose_key(t->qp->hca, &use, &trouble);
	*detail = trouble.detail;
	snprintf(what, WHAT_BYTES, "%s of QP 0x%06x is refused: %.230s", packet_name(h),
		 t->qp->attr.dest_qp_num, trouble.text);
	return trouble.cause;
}

/* The memory of the receive request */
static enum trace_note_code no_receive_memory(struct tr_qp *t, char what[WHAT_BYTES])
{
	const struct emu_recv_wqe *r = t->resp.rwqe;
	struct trouble trouble = {.cause = TRACE_NOTE_REQUEST};
	struct tr_sg sg = {.hca = t->qp->hca,
			   .pd = t->qp->srq ? t->qp->srq->pd : t->qp->pd,
			   .sge = r->sge,
			   .num_sge = r->num_sge};

	if (t->resp.refusal == REFUSE_SGES) {
		snprintf(what, WHAT_BYTES,
			 "receive request wr_id 0x%" PRIx64
			 " has more SGEs than the queue",
			 r->wr_id);
		return trouble.cause;
	}
	diagnose_sg(&sg, IBV_ACCESS_LOCAL_WRITE, &trouble);
	snprintf(what, WHAT_BYTES, "receive request wr_id 0x%" PRIx64 ": %.230s",
		 r->wr_id, trouble.text);
	return trouble.cause;
}

void diagnose_request(struct tr_qp *t, const struct roce_hdr *h, uint32_t info,
		      uint32_t len, enum resp_verdict v)
{
	struct emu_about about = {.object = TRACE_OBJ_QP, .id = t->qp->qpn, .say = true};
	char what[WHAT_BYTES];

	/* an unreliable QP goes on, and the next requests are refused as these were */
	if (t->resp.looked_into == LOOK_INTO)
		return;
	t->resp.looked_into++;
	if (v == V_INVALID)
		about.cause = invalid(t, h, info, len, what);
	else if (v == V_ACCESS)
		about.cause = no_access(t, h, info, what, &about.detail);
	else
		about.cause = no_receive_memory(t, what);
	emu_note(t->qp->hca, &about, "%s", what);
}

void diagnose_read(struct tr_qp *t, uint32_t rkey, uint64_t va, uint32_t len)
{
	struct emu_use use = {.pd = t->qp->type == IBV_QPT_XRC_RECV ? t->qp->xrc_pd
								    : t->qp->pd,
			      .qp = t->qp,
			      .key = rkey,
			      .va = va,
			      .len = len,
			      .access = IBV_ACCESS_REMOTE_READ};
	struct emu_about about = {.object = TRACE_OBJ_QP, .id = t->qp->qpn, .say = true};
	struct trouble trouble;

	diagnose_key(t->qp->hca, &use, &trouble);
	about.cause = trouble.cause;
	about.detail = trouble.detail;
	emu_note(t->qp->hca, &about, "READ of QP 0x%06x cannot be answered: %s",
		 t->qp->attr.dest_qp_num, trouble.text);
}

/* What a dropped packet is a cause of; false: nothing that the user can do something about */
static bool dropped_because(const struct emu_qp *qp, const struct roce_hdr *h,
			    enum trace_drop why, struct emu_about *about)
{
	if (why == TRACE_DROP_QKEY) {
		about->cause = TRACE_NOTE_QKEY;
		about->detail = h->qkey;
	} else if (why == TRACE_DROP_NO_RECEIVE) {
		about->cause = TRACE_NOTE_NO_RECEIVE;
	} else if (why == TRACE_DROP_QP_STATE && qp->state < IBV_QPS_RTR) {
		about->cause = TRACE_NOTE_NOT_RTR;
	} else {
		return false;
	}
	return true;
}

/* None of these is said unasked: others may send what this program never wanted. */
void diagnose_drop(const struct emu_qp *qp, const struct net_rx *pkt,
		   const struct roce_hdr *h, enum trace_drop why)
{
	struct emu_about about = {.object = TRACE_OBJ_QP, .id = qp->qpn};
	struct trace_ip from;
	char ip[64];

	if (!dropped_because(qp, h, why, &about) || !emu_note_is_new(qp->hca, &about))
		return;
	memcpy(from.b, pkt->path->src.b, sizeof(from.b));
	trace_ip_text(&from, ip);
	if (why == TRACE_DROP_QKEY)
		emu_note(qp->hca, &about,
			 "a datagram of QP 0x%06x at %s was dropped: its Q_Key is 0x%x, "
			 "that of this QP is 0x%x",
			 h->sqpn, ip, h->qkey, qp->attr.qkey);
	else if (why == TRACE_DROP_NO_RECEIVE)
		emu_note(
		    qp->hca, &about,
		    "a datagram of QP 0x%06x at %s was dropped: no receive request was "
		    "posted",
		    h->sqpn, ip);
	else
		emu_note(
		    qp->hca, &about,
		    "packets come from %s, and this QP is in %s: ibv_modify_qp() must "
		    "bring it to RTR before",
		    ip, trace_name(TRACE_STATE, qp->state));
}

void diagnose_fault(struct tr_qp *t, const struct odp_access *acc)
{
	uint64_t us = (acc->ready_at - t->qp->hca->now) / 1000;
	struct emu_about about = {.cause = TRACE_NOTE_FAULT,
				  .object = TRACE_OBJ_QP,
				  .id = t->qp->qpn,
				  .say = true};

	if (acc->model == ODP_FAULT_SYNC)
		return;
	if (!tr_reliable(t->qp))
		emu_note(
		    t->qp->hca, &about,
		    "a page fault is waited for, and the message that needs the page is "
		    "lost, as are all that come before it is there: nobody sends "
		    "messages of %s again (fault model %s)",
		    t->qp->type == IBV_QPT_UC ? "UC" : "UD", odp_model_name(acc->model));
	else if (acc->ready_at == ODP_WHEN_RESOLVED)
		emu_note(t->qp->hca, &about,
			 "a page fault that takes long puts off a request; the requester "
			 "must retry (fault model %s)",
			 odp_model_name(acc->model));
	else
		emu_note(t->qp->hca, &about,
			 "a page fault puts off a request for %" PRIu64
			 " us; the requester must retry (fault model %s)",
			 us, odp_model_name(acc->model));
}
