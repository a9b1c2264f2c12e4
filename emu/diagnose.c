/*
 * diagnose.c - why a send request completes with an error, and what a requester waits for too
 * long.
 *
 * The facts are those of the requester, and what struct emu_ops can tell of the QP at the other
 * end: processes of one host see each other's; of other hosts there is only what they answer.
 */
#include "emu/diagnose.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace/names.h"
#include "trace/render.h"

#define WHY_BYTES 320

static bool is_loopback(const struct net_ip *ip)
{
	static const struct net_ip v6 = {.b = {[15] = 1}};

	return net_ip_is_v4(ip) ? ip->b[12] == 127 : net_ip_eq(ip, &v6);
}

static const char *ip_text(const struct net_ip *ip, char buf[64])
{
	struct trace_ip t;

	memcpy(t.b, ip->b, sizeof(t.b));
	return trace_ip_text(&t, buf);
}

/* "QP 0x704000 at 127.0.0.1" */
static const char *peer_name(const struct emu_qp *qp, char buf[96])
{
	char ip[64];

	snprintf(buf, 96, "QP 0x%06x at %s", qp->attr.dest_qp_num,
		 ip_text(&qp->path.dst, ip));
	return buf;
}

static const char *word(enum trace_unit unit, uint64_t v)
{
	const char *name = trace_name(unit, v);

	return name ? name : "?";
}

static void look_at_peer(const struct emu_qp *qp, struct emu_peer *out)
{
	*out = (struct emu_peer){.kind = EMU_PEER_UNKNOWN};
	if (qp->hca->ops->peer)
		qp->hca->ops->peer(qp->hca->arg, &qp->path.dst, qp->attr.dest_qp_num,
				   out);
}

/* Noted already? Else in *@about what is to be noted */
static bool known(struct emu_qp *qp, enum trace_note_code cause, uint32_t detail,
		  struct emu_about *about)
{
	*about = (struct emu_about){.cause = cause,
				    .object = TRACE_OBJ_QP,
				    .id = qp->qpn,
				    .detail = detail,
				    .say = true};
	return !emu_note_is_new(qp->hca, about);
}

/* --- no answer -------------------------------------------------------------------- */

/* Nothing on the way tells when the MTU is smaller at the other end. */
static const char *large_packets(const struct tr_qp *t, char text[64])
{
	if (t->qp->mtu <= 1024)
		return "";
	snprintf(text, 64, "; or packets of its path MTU, %u, are lost", t->qp->mtu);
	return text;
}

/* The peer, where it is a QP of this process, put off requests because of page faults. */
static bool peer_faults(const struct tr_qp *t)
{
	const struct emu_qp *peer = emu_hca_qp(t->qp->hca, t->qp->attr.dest_qp_num);

	const struct tr_qp *p = peer ? peer->tr.priv : NULL;

	return p && p->resp.faults;
}

/* It is on another host, or it should have answered: what is known of it here */
static void why_silent(const struct tr_qp *t, char why[WHY_BYTES])
{
	const struct trace_packet *in = &t->qp->seen->qp.in;
	char text[64], ago[32];

	if (peer_faults(t))
		snprintf(why, WHY_BYTES, "its memory was being faulted in (ODP)");
	else if (in->count)
		snprintf(why, WHY_BYTES,
			 "the last packet came %s ago; it is gone, cannot be reached any "
			 "more, or its memory was being faulted in (ODP)%s",
			 trace_time_text(t->qp->hca->now - in->time, ago),
			 large_packets(t, text));
	else
		snprintf(
		    why, WHY_BYTES,
		    "nothing ever came from there: the address or QPN is wrong, it is "
		    "gone or not in RTR, UDP port 4791 is closed, or its memory was "
		    "being faulted in (ODP)%s",
		    large_packets(t, text));
}

/* A QP of this host: is it one that can answer? */
static enum trace_note_code why_seen(const struct tr_qp *t, const struct emu_peer *p,
				     char why[WHY_BYTES])
{
	const struct emu_qp *qp = t->qp;
	struct trace_ip us, them;
	char ip[64];

	memcpy(us.b, qp->path.src.b, sizeof(us.b));
	memcpy(them.b, qp->path.dst.b, sizeof(them.b));
	if (p->qp.state == IBV_QPS_ERR) {
		snprintf(why, WHY_BYTES, "it is in ERR (%s) in process %d%s%.150s",
			 word(TRACE_CAUSE, p->qp.cause), p->pid, p->said[0] ? ": " : "",
			 p->said);
		return TRACE_NOTE_PEER_STATE;
	}
	if (p->qp.state < IBV_QPS_RTR) {
		snprintf(why, WHY_BYTES,
			 "it is in %s in process %d, where ibv_modify_qp() has not "
			 "brought it to RTR",
			 word(TRACE_STATE, p->qp.state), p->pid);
		return TRACE_NOTE_PEER_STATE;
	}
	if (p->qp.peer != qp->qpn || memcmp(&p->qp.remote, &us, sizeof(us))) {
		snprintf(
		    why, WHY_BYTES,
		    "it is in process %d and is connected to QP 0x%06x at %s, not to "
		    "this one",
		    p->pid, p->qp.peer, trace_ip_text(&p->qp.remote, ip));
		return TRACE_NOTE_NO_PEER_QP;
	}
	if (memcmp(&p->qp.local, &them, sizeof(them))) {
		snprintf(why, WHY_BYTES,
			 "it is in process %d at %s: that is the address to be given as "
			 "grh.dgid",
			 p->pid, trace_ip_text(&p->qp.local, ip));
		return TRACE_NOTE_NO_PEER;
	}
	if (p->stopped) {
		snprintf(why, WHY_BYTES, "process %d, which has it, is stopped", p->pid);
		return TRACE_NOTE_NO_ANSWER;
	}
	why_silent(t, why);
	return TRACE_NOTE_NO_ANSWER;
}

static enum trace_note_code why_no_answer(const struct tr_qp *t, char why[WHY_BYTES])
{
	const char *hint = "";
	struct emu_peer p;
	char ip[64];

	look_at_peer(t->qp, &p);
	ip_text(&t->qp->path.dst, ip);
	if (is_loopback(&t->qp->path.dst))
		hint =
		    "; a device on lo, whose addresses are of this host only, does not "
		    "reach another one (urxe run --device)";
	switch (p.kind) {
	case EMU_PEER_SEEN:
		return why_seen(t, &p, why);
	case EMU_PEER_NO_QP:
		snprintf(why, WHY_BYTES,
			 "process %d, whose QPNs are like that, has no such QP: it was "
			 "destroyed, or the QPN is wrong",
			 p.pid);
		return TRACE_NOTE_NO_PEER_QP;
	case EMU_PEER_NO_PROCESS:
		snprintf(
		    why, WHY_BYTES,
		    "%s is an address of this host, and no process of this user here "
		    "has that QPN: it has ended, or the QPN is wrong%s",
		    ip, hint);
		return TRACE_NOTE_NO_PEER_QP;
	case EMU_PEER_NOBODY:
		snprintf(why, WHY_BYTES, "no device here has the address %s%s", ip, hint);
		return TRACE_NOTE_NO_PEER;
	case EMU_PEER_UNKNOWN:
		break;
	}
	why_silent(t, why);
	return TRACE_NOTE_NO_ANSWER;
}

/* The PSN that the peer's last answer said it expects; false: it did not answer, or what is sent */
static bool expects_other(const struct tr_req *req, uint32_t *psn)
{
	bool nak = (req->ghost_syndrome & ROCE_AETH_TYPE_MASK) != ROCE_AETH_ACK;

	*psn = nak ? req->ghost_psn : roce_psn_add(req->ghost_psn, 1);
	return req->ghosts && *psn != req->una;
}

static void no_answer(struct tr_qp *t)
{
	const struct ibv_qp_attr *a = &t->qp->attr;
	char peer[96], why[WHY_BYTES];
	enum trace_note_code cause;
	struct emu_about about;
	uint32_t psn;

	peer_name(t->qp, peer);
	if (expects_other(&t->req, &psn)) {
		if (!known(t->qp, TRACE_NOTE_PSN, 0, &about))
			emu_note(
			    t->qp->hca, &about,
			    "IBV_WC_RETRY_EXC_ERR: %s answers, but it expects PSN %u "
			    "and %u is sent: its rq_psn must be the sq_psn here, "
			    "%u",
			    peer, psn, t->req.una, a->sq_psn);
		return;
	}
	if (t->req.seq_naks) {
		if (!known(t->qp, TRACE_NOTE_LOST, 0, &about))
			emu_note(
			    t->qp->hca, &about,
			    "IBV_WC_RETRY_EXC_ERR: %s answers, but misses PSN %u, sent "
			    "%u times: %s%s",
			    peer, t->req.una, a->retry_cnt + 1,
			    peer_faults(t) ? "its memory was being faulted in (ODP)"
					   : "packets get lost on the way, or its "
					     "memory was being faulted in (ODP)",
			    large_packets(t, why));
		return;
	}
	cause = why_no_answer(t, why);
	if (!known(t->qp, cause, 0, &about))
		emu_note(t->qp->hca, &about,
			 "IBV_WC_RETRY_EXC_ERR: no answer from %s to PSN %u after %u "
			 "retries (timeout %u, retry_cnt %u): %s",
			 peer, t->req.una, a->retry_cnt, a->timeout, a->retry_cnt, why);
}

/* --- not ready -------------------------------------------------------------------- */

/* Does a request of this kind take a receive request? Else only memory can be missing. */
static bool wants_receive(const struct tr_wqe *w)
{
	return !w || wqe_takes_receive(w);
}

static void not_ready(struct tr_qp *t, const struct tr_wqe *w)
{
	struct emu_about about;
	char peer[96];

	if (known(t->qp, TRACE_NOTE_NOT_READY, 0, &about))
		return;
	emu_note(
	    t->qp->hca, &about,
	    "IBV_WC_RNR_RETRY_EXC_ERR: %s was not ready %u times: %sits memory was being "
	    "faulted in (ODP); rnr_retry is %u, 7 would be for ever",
	    peer_name(t->qp, peer), t->req.rnr_naks,
	    wants_receive(w) && !peer_faults(t) ? "it has no receive request, or " : "",
	    t->qp->attr.rnr_retry);
}

void diagnose_long_rnr(struct tr_qp *t)
{
	struct emu_about about;
	char peer[96], time[32];

	if (known(t->qp, TRACE_NOTE_NOT_READY, 1, &about))
		return;
	emu_note(t->qp->hca, &about,
		 "%s answers \"receiver not ready\" since %s, %u times, and rnr_retry 7 "
		 "is for ever: ibv_post_recv() there would end it",
		 peer_name(t->qp, peer),
		 trace_time_text(t->qp->hca->now - t->req.rnr_since, time),
		 t->req.rnr_naks);
}

/* --- what the peer refused -------------------------------------------------------- */

static bool has_remote(const struct tr_wqe *w)
{
	switch ((enum wqe_kind)w->kind) {
	case WQE_WRITE:
	case WQE_READ:
	case WQE_ATOMIC:
	case WQE_ATOMIC_WRITE:
	case WQE_FLUSH:
		return true;
	case WQE_SEND:
	case WQE_LOCAL_INV:
	case WQE_BIND_MW:
		break;
	}
	return false;
}

static const char *usual_reason(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_REM_ACCESS_ERR:
		return "the R_Key, the range or a right of its MR is wrong";
	case IBV_WC_REM_INV_REQ_ERR:
		return "qp_access_flags there do not allow it, a receive request is too "
		       "small, or the path MTUs differ";
	case IBV_WC_REM_OP_ERR:
		return "memory of its receive request cannot be written";
	default:
		return "the answer makes no sense";
	}
}

static void refused(struct tr_qp *t, const struct tr_wqe *w, enum ibv_wc_status status)
{
	char peer[96], what[80] = "";
	struct emu_about about;
	struct emu_peer p;

	if (known(t->qp, TRACE_NOTE_REFUSED, status, &about))
		return;
	look_at_peer(t->qp, &p);
	about.say = !(p.said[0] && p.same_stderr);
	if (has_remote(w))
		snprintf(what, sizeof(what), " (R_Key 0x%x, %u bytes at 0x%" PRIx64 ")",
			 w->rkey, w->length, w->va);
	emu_note(t->qp->hca, &about,
		 "IBV_WC_%s: %s wr_id 0x%" PRIx64 " is refused by %s%s: %s",
		 word(TRACE_STATUS, status), word(TRACE_WR, w->opcode), w->wr_id,
		 peer_name(t->qp, peer), what, p.said[0] ? p.said : usual_reason(status));
}

/* --- what is wrong here ----------------------------------------------------------- */

/* Data of READs and atomics goes into the list, that of others comes from it. */
static int list_access(const struct tr_wqe *w)
{
	return w->kind == WQE_READ || w->kind == WQE_ATOMIC ? IBV_ACCESS_LOCAL_WRITE : 0;
}

static void protection(struct tr_qp *t, const struct tr_wqe *w)
{
	struct tr_sg sg = wqe_sg(t->qp, req_ring_index(t, t->req.head), w);
	struct emu_about about;
	struct trouble what;

	diagnose_sg(&sg, list_access(w), &what);
	if (!known(t->qp, what.cause, what.detail, &about))
		emu_note(t->qp->hca, &about,
			 "IBV_WC_LOC_PROT_ERR: %s wr_id 0x%" PRIx64 ": %s",
			 word(TRACE_WR, w->opcode), w->wr_id, what.text);
}

static void operation(struct tr_qp *t, const struct tr_wqe *w, enum ibv_wc_status status)
{
	bool credit =
	    w->opcode != UINT8_MAX && wqe_nonposted(w) && !t->qp->attr.max_rd_atomic;
	struct emu_about about;

	if (known(t->qp, credit ? TRACE_NOTE_NO_CREDIT : TRACE_NOTE_REQUEST, status,
		  &about))
		return;
	if (credit)
		emu_note(t->qp->hca, &about,
			 "IBV_WC_%s: %s wr_id 0x%" PRIx64
			 ": max_rd_atomic is 0, so that this QP "
			 "has neither READs nor atomics (ibv_modify_qp() to RTS)",
			 word(TRACE_STATUS, status), word(TRACE_WR, w->opcode), w->wr_id);
	else
		emu_note(t->qp->hca, &about,
			 "IBV_WC_%s: %s wr_id 0x%" PRIx64
			 " of %u SGEs: no request that a QP of type %s with max_send_sge "
			 "%u and max_inline_data %u takes",
			 word(TRACE_STATUS, status), word(TRACE_WR, w->opcode), w->wr_id,
			 w->num_sge, word(TRACE_TYPE, t->qp->type),
			 t->qp->cap.max_send_sge, t->qp->cap.max_inline_data);
}

void diagnose_send(struct tr_qp *t, const struct tr_wqe *w, enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_RETRY_EXC_ERR:
		no_answer(t);
		break;
	case IBV_WC_RNR_RETRY_EXC_ERR:
		not_ready(t, w);
		break;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_BAD_RESP_ERR:
		refused(t, w, status);
		break;
	case IBV_WC_LOC_PROT_ERR:
		protection(t, w);
		break;
	case IBV_WC_LOC_QP_OP_ERR:
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_MW_BIND_ERR:
		operation(t, w, status);
		break;
	default: /* the rest is a consequence of these, or success */
		break;
	}
}

void diagnose_unsignaled(struct emu_qp *qp)
{
	struct emu_about about;

	if (!known(qp, TRACE_NOTE_UNSIGNALED, 0, &about))
		emu_note(qp->hca, &about,
			 "%u requests in a row without IBV_SEND_SIGNALED, and the send "
			 "queue has room for %u: on hardware its places are free again "
			 "only when a signalled one behind them was polled, and "
			 "ibv_post_send() fails with ENOMEM",
			 qp->cap.max_send_wr + 1, qp->cap.max_send_wr);
}
