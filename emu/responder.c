/*
 * responder.c - executes requests of connected QPs and answers them (IBTA vol.
 * 1, 9.7.4, 9.7.5, 9.8.2).
 *
 * Theory of operation
 * -------------------
 * A request is judged in the order of 9.7.4.1: its PSN, its place in the message, whether
 * the QP allows it, its length, then resources and keys. execute() ends in a verdict, and
 * verdict() is the one place where it has consequences:
 *
 *	V_OK		epsn moves on; RESP_RUN
 *	V_DROP		nothing happened
 *	V_RNR		RNR NAK; RESP_RNR, until epsn comes again
 *	V_HOLD		RESP_HELD: the packet, and all behind it, wait for a page fault
 *	V_INVALID...	RESP_DYING: the NAK goes out behind the responses that are due,
 *		then the QP enters ERR. A receive WQE in use completes with the error
 *
 * Nothing is sent from here at once. A request leaves behind what is to be sent, and it
 * goes out in PSN order: the responses to READs and atomics (resources.c), then one NAK or
 * one acknowledge of all that was executed. So a burst of requests costs one acknowledge,
 * READ responses are paced by the port, and no acknowledge overtakes a response that it
 * would seem to make up for.
 *
 * One NAK is sent for an expected PSN (9.7.5.2.2), and what comes behind is dropped
 * silently. Where the network reorders, the expected request comes after those, and if it
 * is the last of the requester's window nothing would follow but its timeout. Therefore
 * the highest PSN that was dropped is kept (@gap_psn), and when progress ends before it the
 * next NAK goes out unasked.
 *
 * Page faults: what memory says with -EAGAIN, resp_defer() turns into a verdict by the fault
 * model. A receive WQE that was taken already stays in use (@rwqe_held) for the next
 * attempt. A fault whose end is not known ends the wait of exactly this QP
 * (resp_fault_over); a requester that asks again meanwhile is told to be patient
 * (resp_impatient).
 */
#include <stdlib.h>

#include "base/container.h"
#include "emu/transport_internal.h"

#define LATE_NAK_NS 250000u
/* What comes again while it waits, and not sooner than that, was not doubled on the way */
#define PATIENCE_NS 1000000u
/*
 * How long a requester is told to wait for a fault whose end is not known: a part of what it
 * has waited, so that few requests come in vain and the last wait is not much too long
 */
#define PATIENCE_PART 4

static struct tr_qp *of_timer(struct tr_timer *timer)
{
	return container_of(timer, struct tr_qp, resp.timer);
}

/* The one place where the responder changes its state */
static void resp_enter(struct tr_qp *t, enum resp_state state)
{
	struct tr_resp *resp = &t->resp;

	if (resp->state == RESP_NAKED || resp->state == RESP_RNR)
		resp->nak = 0; /* the expected PSN has come, or never will */
	resp->state = state;
}

void resp_start_timer(struct tr_qp *t, uint64_t when)
{
	if (when < t->resp.timer.when)
		tr_timer_start(&t->qp->hca->tr->timers, &t->resp.timer, when);
}

/* --- life ------------------------------------------------------------------------- */

static void drop_held(struct tr_resp *resp)
{
	struct tr_held *h;

	while ((h = resp->held)) {
		resp->held = h->next;
		free(h);
	}
	resp->held_tail = &resp->held;
	resp->held_count = 0;
}

/* Does nobody wait for a fault whose end is not known? */
static void faults_over(struct tr_resp *resp)
{
	if (resp->fault.linked || resp->read_fault.linked)
		return;
	resp->slow_since = 0;
	if (resp->mute_until == ODP_WHEN_RESOLVED)
		resp->mute_until = 0;
}

static void forget_faults(struct tr_qp *t)
{
	struct odp_domain *dom = t->qp->hca->cfg.odp;

	odp_unwait(dom, &t->resp.fault);
	odp_unwait(dom, &t->resp.read_fault);
	faults_over(&t->resp);
	t->resp.pressed = false;
}

static void forget(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	resp_enter(t, RESP_OFF);
	tr_timer_stop(&resp->timer);
	forget_faults(t);
	drop_held(resp);
	resp->msg = MSG_NONE;
	res_forget(resp);
	resp->nak = 0;
	resp->ack_due = resp->gap = resp->drop_msg = resp->resume = false;
	resp->mute_until = 0;
}

void resp_reset(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	forget(t);
	res_reset(resp);
	free(resp->rwqe);
	resp->rwqe = NULL;
	resp->rwqe_held = resp->comm_est = false;
	resp->epsn = resp->msn = 0;
}

void resp_start(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	resp->epsn = t->qp->attr.rq_psn & ROCE_PSN_MASK;
	resp->msn = 0;
	resp_enter(t, RESP_RUN);
}

/* --- the receive queue ------------------------------------------------------------ */

/* The SRQ that a request takes from, NULL for the QP's own queue */
static struct emu_srq *recv_srq(const struct emu_qp *qp, uint32_t srqn)
{
	struct emu_srq *srq;

	if (qp->type != IBV_QPT_XRC_RECV)
		return qp->srq;
	srq = emu_srq_find(qp->hca, srqn);
	return srq && srq->xrcd && srq->xrcd == qp->xrcd ? srq : NULL;
}

static int take(struct tr_qp *t, struct emu_srq *srq)
{
	struct tr_resp *resp = &t->resp;

	if (!resp->rwqe)
		resp->rwqe = malloc(sizeof(*resp->rwqe));
	if (!resp->rwqe)
		return -ENOENT;
	return srq ? emu_srq_take(srq, resp->rwqe) : emu_rq_take(t->qp, resp->rwqe);
}

static void report(struct tr_qp *t, enum ibv_wc_status status, uint32_t wc_opcode)
{
	struct ib_uverbs_wc wc = {.status = status, .opcode = wc_opcode};

	resp_complete_recv(t, &wc, true);
	t->resp.event = 0;
}

void resp_rewind_recv(struct tr_resp *resp)
{
	if (resp->resume)
		return;
	resp->rcur = (struct tr_cursor){0};
	resp->rlen = resp->rpart = 0;
}

static void record_take(struct tr_qp *t, const struct emu_srq *srq)
{
	const struct emu_ring *r = srq ? &srq->ring : &t->qp->rq;
	struct trace_qp *s = &t->qp->seen->qp;

	s->rq.posted = ring_count_from(r, r->local);
	s->rnr_since = 0;
	EMU_TRACE(t->qp->hca, take_receive, .wr_id = t->resp.rwqe->wr_id,
		  .qpn = t->qp->qpn, .srq = srq ? srq->num : 0,
		  .num_sge = t->resp.rwqe->num_sge, .left = s->rq.posted,
		  .length = t->resp.rwqe->length);
}

enum resp_verdict resp_take_wqe(struct tr_qp *t, uint32_t srqn)
{
	struct tr_resp *resp = &t->resp;
	struct emu_srq *srq;
	int err;

	if (resp->rwqe_held)
		return resp->rsrqn == srqn ? V_OK : V_INVALID;
	srq = recv_srq(t->qp, srqn);
	if (!srq && t->qp->type == IBV_QPT_XRC_RECV)
		return V_INVALID;
	err = take(t, srq);
	if (err == -ENOENT) {
		resp->rnr_code = t->qp->attr.min_rnr_timer & 0x1f;
		return V_RNR;
	}
	resp->rwqe_held = true;
	record_take(t, srq);
	resp->rsrqn = srqn;
	resp->resume = false;
	resp_rewind_recv(resp);
	if (!err)
		return V_OK;
	report(t, IBV_WC_LOC_QP_OP_ERR, IBV_WC_RECV);
	return V_OP;
}

/* @wc has what is particular to the message: status, opcode, lengths, flags */
void resp_complete_recv(struct tr_qp *t, struct ib_uverbs_wc *wc, bool solicited)
{
	struct tr_resp *resp = &t->resp;
	struct emu_qp *qp = t->qp;
	struct emu_srq *srq = recv_srq(qp, resp->rsrqn);
	struct emu_cq *cq = qp->recv_cq;

	if (!resp->rwqe_held)
		return;
	resp->rwqe_held = false;
	if (qp->type == IBV_QPT_XRC_RECV)
		cq = srq ? srq->cq : NULL;
	if (!cq)
		return;
	wc->wr_id = resp->rwqe->wr_id;
	wc->qp_num = qp->qpn;
	wc->port_num = EMU_PORT;
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV)
		qp->hca->counter[EMU_CNT_RDMA_RECV]++;
	if (emu_cq_post(cq, wc, solicited || wc->status != IBV_WC_SUCCESS) &&
	    qp->state != IBV_QPS_ERR)
		emu_qp_fail(qp, IBV_EVENT_QP_FATAL, TRACE_CAUSE_CQ_OVERRUN,
			    IBV_WC_SUCCESS);
}

/* --- page faults ------------------------------------------------------------------ */

static void trace_fault(struct tr_qp *t, const struct odp_access *acc)
{
	uint64_t us = (acc->ready_at - t->qp->hca->now) / 1000;

	if (t->resp.faults++ || acc->model == ODP_FAULT_SYNC)
		return;
	if (acc->ready_at == ODP_WHEN_RESOLVED)
		emu_trace(t->qp->hca,
			  "QP 0x%06x: a page fault that takes long puts off a request; "
			  "the requester must retry (fault model %s)",
			  t->qp->qpn, odp_model_name(acc->model));
	else
		emu_trace(t->qp->hca,
			  "QP 0x%06x: a page fault puts off a request for %llu us; the "
			  "requester must retry (fault model %s)",
			  t->qp->qpn, (unsigned long long)us, odp_model_name(acc->model));
}

/* RNR timer: until the fault is due, if that is known */
static uint8_t patience(const struct tr_qp *t, uint64_t ready_at)
{
	uint64_t now = t->qp->hca->now, ns;

	if (ready_at != ODP_WHEN_RESOLVED)
		return tr_rnr_code(ready_at > now ? ready_at - now : 0);
	ns = (now - t->resp.slow_since) / PATIENCE_PART;
	if (ns < tr_rnr_ns(t->qp->attr.min_rnr_timer))
		ns = tr_rnr_ns(t->qp->attr.min_rnr_timer);
	return tr_rnr_code(ns);
}

/* Memory is not there yet. What to do is the fault model's business. */
enum resp_verdict resp_defer(struct tr_qp *t, const struct odp_access *acc)
{
	struct tr_resp *resp = &t->resp;

	trace_fault(t, acc);
	if (acc->ready_at == ODP_WHEN_RESOLVED && !resp->slow_since)
		resp->slow_since = t->qp->hca->now;
	switch (acc->model) {
	case ODP_FAULT_SYNC:
		if (acc->ready_at == ODP_WHEN_RESOLVED && resp->pressed) {
			resp->rnr_code = patience(t, acc->ready_at);
			return V_RNR;
		}
		resp_start_timer(t, acc->ready_at);
		return V_HOLD;
	case ODP_FAULT_RNR:
		resp->rnr_code = patience(t, acc->ready_at);
		return V_RNR;
	case ODP_FAULT_FLOOD:
		resp->rnr_code = tr_rnr_code(0);
		return V_RNR;
	case ODP_FAULT_DAMMING:
		resp->mute_until = acc->ready_at;
		return V_DROP;
	case ODP_FAULT_DROP:
		break;
	}
	return V_DROP;
}

/*
 * A requester that hears nothing of a request for its timeout sends it again, and fails when
 * it has done so retry_cnt times. So the first time that it does while a fault whose end is
 * not known keeps the request, it is told that this side is there and not ready; and from
 * then on each time.
 */
bool resp_impatient(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	if (!tr_reliable(t->qp) || !resp->slow_since ||
	    t->qp->hca->now - resp->slow_since < PATIENCE_NS)
		return false;
	resp->pressed = true;
	resp->rnr_code = patience(t, ODP_WHEN_RESOLVED);
	return true;
}

int resp_remote_get(struct tr_qp *t, const struct resp_remote *r, uint32_t srqn,
		    struct emu_mem *mem)
{
	struct emu_srq *srq;

	if (t->qp->type == IBV_QPT_XRC_RECV) {
		srq = recv_srq(t->qp, srqn);
		t->qp->xrc_pd = srq ? srq->pd : NULL;
	}
	return emu_rkey_check(t->qp->hca, t->qp, r->rkey, r->va, r->rest, r->access, mem);
}

/* --- SEND ------------------------------------------------------------------------- */

/*
 * The message is longer than the receive buffer (9.9.3). Reliable: class C. Unreliable,
 * class D: it is dropped, and the receive WQE serves the next message; class E, from an
 * SRQ: the WQE completes in error, and the QP goes on.
 */
static enum resp_verdict too_long(struct tr_qp *t)
{
	struct ib_uverbs_wc wc = {.status = IBV_WC_LOC_LEN_ERR, .opcode = IBV_WC_RECV};

	if (tr_reliable(t->qp)) {
		report(t, IBV_WC_LOC_LEN_ERR, IBV_WC_RECV);
		return V_INVALID;
	}
	if (t->qp->srq)
		resp_complete_recv(t, &wc, true);
	return t->resp.state == RESP_OFF ? V_GONE : V_DROP;
}

enum resp_verdict resp_scatter(struct tr_qp *t, const uint8_t *data, uint32_t len)
{
	struct odp_access acc = {
	    .now = t->qp->hca->now, .remote = true, .waiter = &t->resp.fault};
	struct tr_resp *resp = &t->resp;
	struct emu_srq *srq = recv_srq(t->qp, resp->rsrqn);
	struct tr_sg sg = {
	    .hca = t->qp->hca,
	    .pd = srq ? srq->pd : t->qp->pd,
	    .sge = resp->rwqe->sge,
	    .num_sge = resp->rwqe->num_sge,
	};
	uint32_t done;
	int err;

	if (len > resp->rwqe->length - resp->rlen)
		return too_long(t);
	if (len < resp->rpart)
		return V_INVALID; /* another packet than the first time */
	err = sg_write(&sg, &resp->rcur, data + resp->rpart, len - resp->rpart,
		       resp->rwqe->length - resp->rlen - len, &acc, &done);
	resp->rpart = err ? resp->rpart + done : 0;
	resp->resume = err == -EAGAIN;
	if (resp->resume)
		return resp_defer(t, &acc);
	if (err) {
		report(t, IBV_WC_LOC_PROT_ERR, IBV_WC_RECV);
		return V_OP;
	}
	resp->rlen += len;
	return V_OK;
}

/*
 * 9.9.3 class J: an R_Key that cannot be invalidated. The consumer here is told, the requester is
 * not: the QP ends without a NAK, once what was executed before has been answered.
 */
static enum resp_verdict cannot_invalidate(struct tr_qp *t)
{
	report(t, IBV_WC_REM_INV_REQ_ERR, IBV_WC_RECV);
	if (t->resp.state == RESP_OFF)
		return V_GONE;
	resp_enter(t, RESP_DYING);
	tr_sched(t);
	return V_GONE;
}

static enum resp_verdict finish_send(struct tr_qp *t, const struct roce_hdr *h,
				     uint32_t info)
{
	struct ib_uverbs_wc wc = {.opcode = IBV_WC_RECV, .byte_len = t->resp.rlen};

	if (info & ROCE_F_IETH) {
		if (emu_invalidate_key(t->qp, h->inv_rkey))
			return cannot_invalidate(t);
		wc.wc_flags = IBV_WC_WITH_INV;
		wc.ex.invalidate_rkey = h->inv_rkey;
	} else if (info & ROCE_F_IMM) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.ex.imm_data = h->imm_be;
	}
	wc.src_qp = t->qp->attr.dest_qp_num;
	resp_complete_recv(t, &wc, h->se);
	return t->resp.state == RESP_OFF ? V_GONE : V_OK;
}

static enum resp_verdict do_send(struct tr_qp *t, const struct roce_hdr *h, uint32_t info,
				 const uint8_t *data, uint32_t len)
{
	struct tr_resp *resp = &t->resp;
	enum resp_verdict v;

	if (info & ROCE_F_FIRST) {
		v = resp_take_wqe(t, h->xrc_srqn);
		if (v)
			return v;
		resp_rewind_recv(resp);
	}
	v = resp_scatter(t, data, len);
	if (v || !(info & ROCE_F_LAST))
		return v;
	return finish_send(t, h, info);
}

/* --- WRITE ------------------------------------------------------------------------ */

static enum resp_verdict write_data(struct tr_qp *t, uint32_t srqn, const uint8_t *data,
				    uint32_t len)
{
	struct odp_access acc = {.now = t->qp->hca->now,
				 .remote = true,
				 .ahead = t->resp.resid - len,
				 .waiter = &t->resp.fault};
	struct tr_resp *resp = &t->resp;
	struct resp_remote r = {resp->rkey, resp->va, resp->resid,
				IBV_ACCESS_REMOTE_WRITE};
	struct emu_mem mem;
	int err;

	if (resp_remote_get(t, &r, srqn, &mem))
		return V_ACCESS;
	err = odp_write(mem.mr, mem.iova, data, len, &acc);
	if (err)
		return err == -EAGAIN ? resp_defer(t, &acc) : V_ACCESS;
	resp->va += len;
	resp->resid -= len;
	return V_OK;
}

static enum resp_verdict do_write(struct tr_qp *t, const struct roce_hdr *h,
				  uint32_t info, const uint8_t *data, uint32_t len)
{
	struct tr_resp *resp = &t->resp;
	struct ib_uverbs_wc wc = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
				  .wc_flags = IBV_WC_WITH_IMM};
	enum resp_verdict v;

	if (info & ROCE_F_RETH) {
		resp->va = h->va;
		resp->rkey = h->rkey;
		resp->resid = resp->dma_len = h->dma_len;
	}
	/* 9.7.4.1.6: the DMA length and the packets must agree */
	if ((info & ROCE_F_LAST) ? len != resp->resid : len >= resp->resid)
		return V_INVALID;
	if (info & ROCE_F_IMM) {
		v = resp_take_wqe(t, h->xrc_srqn);
		if (v)
			return v;
	}
	v = len ? write_data(t, h->xrc_srqn, data, len) : V_OK;
	if (v || !(info & ROCE_F_IMM))
		return v;
	wc.byte_len = resp->dma_len;
	wc.ex.imm_data = h->imm_be;
	wc.src_qp = t->qp->attr.dest_qp_num;
	resp_complete_recv(t, &wc, h->se);
	return resp->state == RESP_OFF ? V_GONE : V_OK;
}

/* --- judging requests ------------------------------------------------------------- */

/* 9.7.4.1.2, 9.8.2.2.2: does the packet continue, or begin, a message? */
static bool in_sequence(const struct tr_resp *resp, uint32_t info)
{
	bool first = info & ROCE_F_FIRST;

	switch (resp->msg) {
	case MSG_SEND:
		return !first && (info & ROCE_F_SEND);
	case MSG_WRITE:
		return !first && (info & ROCE_F_WRITE);
	case MSG_NONE:
		break;
	}
	return first;
}

/* 9.7.4.1.3: what the QP lets its peer do */
static bool allowed(const struct emu_qp *qp, const struct roce_hdr *h, uint32_t info)
{
	unsigned int have = qp->attr.qp_access_flags;

	switch (h->opcode & ROCE_OP_MASK) {
	case ROCE_READ_REQ:
		return have & IBV_ACCESS_REMOTE_READ;
	case ROCE_CMP_SWAP:
	case ROCE_FETCH_ADD:
		return have & IBV_ACCESS_REMOTE_ATOMIC;
	case ROCE_ATOMIC_WRITE:
		return have & IBV_ACCESS_REMOTE_WRITE;
	case ROCE_FLUSH:
		return (!(h->flush_type & 1) || (have & EMU_ACCESS_FLUSH_GLOBAL)) &&
		       (!(h->flush_type & 2) || (have & EMU_ACCESS_FLUSH_PERSISTENT));
	default:
		return !(info & ROCE_F_WRITE) || (have & IBV_ACCESS_REMOTE_WRITE);
	}
}

/* 9.7.4.1.4 */
static bool length_right(const struct emu_qp *qp, const struct roce_hdr *h, uint32_t info,
			 uint32_t len)
{
	/* what is flushed is no message */
	if ((info & ROCE_F_RETH) && !(info & ROCE_F_FETH) && h->dma_len > WQE_MAX_LENGTH)
		return false;
	if (!(info & ROCE_F_PAYLOAD))
		return true;
	if (!(info & ROCE_F_LAST))
		return len == qp->mtu;
	return len <= qp->mtu && (len || (info & ROCE_F_FIRST));
}

/* The commonest reason of a wrong length: the two ends do not agree about the path MTU */
static enum resp_verdict wrong_length(const struct tr_qp *t, uint32_t info, uint32_t len)
{
	/* where it ends the connection, so that it is said once */
	if (tr_reliable(t->qp) && (len > t->qp->mtu || !(info & ROCE_F_LAST)))
		emu_trace(
		    t->qp->hca,
		    "QP 0x%06x: a packet with %u bytes is refused, path MTU here is "
		    "%u: that of the peer, QP 0x%06x, must be the same",
		    t->qp->qpn, len, t->qp->mtu, t->qp->attr.dest_qp_num);
	return V_INVALID;
}

static enum resp_verdict execute(struct tr_qp *t, const struct roce_hdr *h, uint32_t info,
				 const uint8_t *data, uint32_t len)
{
	if (!in_sequence(&t->resp, info) || !allowed(t->qp, h, info))
		return V_INVALID;
	if (!length_right(t->qp, h, info, len))
		return wrong_length(t, info, len);
	if (info & ROCE_F_SEND)
		return do_send(t, h, info, data, len);
	if (info & ROCE_F_WRITE)
		return do_write(t, h, info, data, len);
	return res_execute(t, h, data, len);
}

static void message_moves_on(struct tr_resp *resp, uint32_t info)
{
	if (info & ROCE_F_LAST) {
		resp->msg = MSG_NONE;
		resp->msn = (resp->msn + 1) & ROCE_MSN_MASK;
	} else {
		resp->msg = (info & ROCE_F_SEND) ? MSG_SEND : MSG_WRITE;
	}
}

/* epsn moved: has all come that was sent? */
static void watch_gap(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	if (roce_psn_cmp(resp->epsn, resp->gap_psn) > 0) {
		resp->gap = false;
		return;
	}
	resp->gap_until = t->qp->hca->now + LATE_NAK_NS;
	resp_start_timer(t, resp->gap_until);
}

static void executed(struct tr_qp *t, const struct roce_hdr *h, uint32_t info)
{
	struct tr_resp *resp = &t->resp;
	uint32_t n = (info & ROCE_F_READ) ? res_psns(t->qp, h->dma_len) : 1;

	resp_enter(t, RESP_RUN);
	resp->pressed = false;
	resp->epsn = roce_psn_add(resp->epsn, n);
	message_moves_on(resp, info);
	if (resp->gap)
		watch_gap(t);
	if (!(info & ROCE_F_ACKED)) {
		resp->ack_due = false; /* the response says it */
		tr_sched(t);
	} else if (h->ack_req) {
		if (resp->ack_due)
			t->qp->hca->counter[EMU_CNT_SENDER_SCHED]++;
		resp->ack_due = true;
		tr_sched(t);
	}
}

static void send_nak(struct tr_qp *t, enum resp_state state, uint8_t syndrome,
		     uint32_t psn)
{
	resp_enter(t, state);
	/* that of a READ response is about what comes first */
	if (state == RESP_RNR && t->resp.nak && roce_psn_cmp(t->resp.nak_psn, psn) < 0)
		return;
	t->resp.nak = syndrome;
	t->resp.nak_psn = psn;
	t->resp.nak_msn = t->resp.msn;
	t->resp.ack_due = false; /* a NAK acknowledges what is before it */
	tr_sched(t);
}

/* 9.9.3: errors of classes A and C; the QP fails once the requester has been told */
void resp_fatal(struct tr_qp *t, enum resp_verdict v, uint32_t psn, bool reported)
{
	static const struct {
		uint8_t nak;
		int event;
	} consequence[] = {
	    [V_INVALID] = {ROCE_NAK_INVALID_REQUEST, IBV_EVENT_QP_REQ_ERR},
	    [V_ACCESS] = {ROCE_NAK_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR},
	    [V_OP] = {ROCE_NAK_REMOTE_OP, IBV_EVENT_QP_FATAL},
	};

	t->resp.event = reported ? 0 : consequence[v].event;
	send_nak(t, RESP_DYING, ROCE_AETH_NAK | consequence[v].nak, psn);
}

/*
 * A request that has a receive WQE is refused: the WQE says so (class C). 11.6.2 names the error
 * of memory that a WRITE with immediate may not touch; what is wrong with the request itself has
 * the status that the requester gets.
 */
static bool refuse_receive(struct tr_qp *t, enum resp_verdict v)
{
	if (!t->resp.rwqe_held)
		return false;
	report(t, v == V_ACCESS ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR,
	       t->resp.msg == MSG_SEND ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM);
	return true;
}

/* --- requests that wait for a page fault ------------------------------------------ */

static void hold(struct tr_qp *t, const struct net_rx *pkt)
{
	struct tr_resp *resp = &t->resp;
	struct tr_held *h;

	if (resp->held_count == TR_HELD_MAX)
		return;
	h = malloc(sizeof(*h) + pkt->len);
	if (!h)
		return;
	h->next = NULL;
	h->path = *pkt->path;
	h->len = pkt->len;
	memcpy(h->data, pkt->data, pkt->len);
	*resp->held_tail = h;
	resp->held_tail = &h->next;
	resp->held_count++;
}

void resp_wait(struct tr_qp *t, const struct net_rx *pkt)
{
	resp_enter(t, RESP_HELD);
	hold(t, pkt);
}

/* --- RC, XRC ---------------------------------------------------------------------- */

static void verdict(struct tr_qp *t, const struct net_rx *pkt, const struct roce_hdr *h,
		    uint32_t info, enum resp_verdict v, bool reported)
{
	switch (v) {
	case V_OK:
		executed(t, h, info);
		break;
	case V_RNR:
		send_nak(t, RESP_RNR, ROCE_AETH_RNR | t->resp.rnr_code, h->psn);
		break;
	case V_HOLD:
		resp_wait(t, pkt);
		break;
	case V_INVALID:
	case V_ACCESS:
	case V_OP:
		reported |= refuse_receive(t, v);
		resp_fatal(t, v, h->psn, reported);
		break;
	case V_DROP:
	case V_GONE:
		break;
	}
}

static void duplicate(struct tr_qp *t, const struct roce_hdr *h, uint32_t info)
{
	struct tr_resp *resp = &t->resp;

	t->qp->hca->counter[EMU_CNT_DUP_REQ]++;
	if (info & ROCE_F_ACKED) {
		resp->ack_due = true;
		tr_sched(t);
		return;
	}
	res_duplicate(t, h);
}

/* A request is missing before this one, which is dropped: the requester sends it again. */
static void out_of_sequence(struct tr_qp *t, uint32_t psn)
{
	struct tr_resp *resp = &t->resp;

	if (resp->state != RESP_RUN && resp->state != RESP_NAKED)
		return;
	if (!resp->gap || roce_psn_cmp(psn, resp->gap_psn) > 0)
		resp->gap_psn = psn;
	resp->gap = true;
	if (resp->state == RESP_NAKED)
		return;
	t->qp->hca->counter[EMU_CNT_OUT_OF_SEQ_REQ]++;
	send_nak(t, RESP_NAKED, ROCE_AETH_NAK | ROCE_NAK_PSN, resp->epsn);
}

static void rc_request(struct tr_qp *t, const struct net_rx *pkt,
		       const struct roce_hdr *h, uint32_t info, const uint8_t *data,
		       uint32_t len)
{
	struct tr_resp *resp = &t->resp;
	int32_t diff = roce_psn_cmp(h->psn, resp->epsn);
	enum resp_verdict v;

	if (diff < 0) {
		tr_dropped(t->qp->hca, t->qp, pkt, h, TRACE_DROP_DUPLICATE);
		duplicate(t, h, info);
		return;
	}
	if (diff > 0) {
		tr_dropped(t->qp->hca, t->qp, pkt, h,
			   resp->state == RESP_RNR ? TRACE_DROP_AFTER_RNR
						   : TRACE_DROP_OUT_OF_SEQUENCE);
		out_of_sequence(t, h->psn);
		return;
	}
	resp->event = IBV_EVENT_QP_FATAL;
	v = execute(t, h, info, data, len);
	verdict(t, pkt, h, info, v, resp->event == 0);
}

/* --- UC (9.8.2.2) ----------------------------------------------------------------- */

static void uc_request(struct tr_qp *t, const struct net_rx *pkt,
		       const struct roce_hdr *h, uint32_t info, const uint8_t *data,
		       uint32_t len)
{
	struct tr_resp *resp = &t->resp;
	bool gap = h->psn != resp->epsn;
	enum resp_verdict v;

	if (info & ROCE_F_FIRST) {
		/* what is left of another message will not come */
		resp->msg = MSG_NONE;
		resp->drop_msg = false;
	} else if (gap || resp->drop_msg) {
		resp->msg = MSG_NONE;
		resp->drop_msg = true;
	}
	resp->event = IBV_EVENT_QP_FATAL;
	v = resp->drop_msg ? V_DROP : execute(t, h, info, data, len);
	if (v == V_HOLD) {
		resp->epsn = h->psn;
		resp_wait(t, pkt);
		return;
	}
	if (v == V_GONE)
		return;
	resp->epsn = roce_psn_add(h->psn, 1);
	if (v == V_OK) {
		message_moves_on(resp, info);
		return;
	}
	resp->drop_msg = true;
	resp->resume = false;
	resp->msg = MSG_NONE;
	/* 9.9.3 class D: only what cost a receive WQE stops the QP */
	if (resp->event == 0)
		emu_qp_fail(t->qp, 0, TRACE_CAUSE_RESPONDER, IBV_WC_SUCCESS);
}

/* --- receiving -------------------------------------------------------------------- */

/*
 * 11.6.3.3: the first packet of the peer, while the consumer still waits for it to be
 * there
 */
void resp_communication(struct tr_qp *t)
{
	if (t->resp.comm_est || t->qp->state != IBV_QPS_RTR)
		return;
	t->resp.comm_est = true;
	emu_qp_event(t->qp, IBV_EVENT_COMM_EST);
}

/*
 * It waits behind the request that a fault keeps, unless the requester has lost patience with
 * that request, or with a READ before it. True: it waits
 */
static bool rx_held(struct tr_qp *t, const struct net_rx *pkt, const struct roce_hdr *h)
{
	struct tr_resp *resp = &t->resp;
	int32_t diff = roce_psn_cmp(h->psn, resp->epsn);
	bool again = diff == 0 && resp->fault.linked;

	if ((!again && !(diff < 0 && resp->read_fault.linked)) || !resp_impatient(t)) {
		hold(t, pkt);
		return true;
	}
	drop_held(resp);
	resp_enter(t, RESP_RUN);
	return false;
}

void resp_rx(struct tr_qp *t, const struct net_rx *pkt, const struct roce_hdr *h,
	     uint32_t info, const uint8_t *payload, uint32_t len)
{
	struct tr_resp *resp = &t->resp;

	if (resp->state == RESP_OFF || resp->state == RESP_DYING ||
	    t->qp->hca->now < resp->mute_until) {
		tr_dropped(t->qp->hca, t->qp, pkt, h,
			   t->qp->hca->now < resp->mute_until ? TRACE_DROP_FAULT
							      : TRACE_DROP_QP_STATE);
		return;
	}
	if (t->qp->type != IBV_QPT_UD) /* ud_rx() must look at the Q_Key first */
		resp_communication(t);
	if (resp->state == RESP_HELD && rx_held(t, pkt, h))
		return;
	if (t->qp->type == IBV_QPT_UD)
		ud_rx(t, pkt, h, info, payload, len);
	else if (t->qp->type == IBV_QPT_UC)
		uc_request(t, pkt, h, info, payload, len);
	else
		rc_request(t, pkt, h, info, payload, len);
}

/* A page fault is over: do what waited. It may have to wait again. */
static void release_held(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;
	struct tr_held *list = resp->held, *h;
	struct net_rx pkt;
	const uint8_t *payload;
	struct roce_hdr hdr;
	uint32_t len;

	resp->held = NULL;
	resp->held_tail = &resp->held;
	resp->held_count = 0;
	resp_enter(t, RESP_RUN);
	while ((h = list)) {
		list = h->next;
		hdr = (struct roce_hdr){0};
		pkt = (struct net_rx){.path = &h->path, .data = h->data, .len = h->len};
		if (!roce_parse(pkt.data, pkt.len, &hdr, &payload, &len))
			resp_rx(t, &pkt, &hdr, roce_opcode_info(hdr.opcode, NULL),
				payload, len);
		free(h);
	}
}

/* Nothing follows, though more was sent: it was dropped, and nobody has asked for it. */
static void late_nak(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	if (t->qp->hca->now < resp->gap_until)
		resp_start_timer(t, resp->gap_until);
	else if (!resp->nak)
		send_nak(t, RESP_NAKED, ROCE_AETH_NAK | ROCE_NAK_PSN, resp->epsn);
}

void resp_timer(struct tr_timer *timer)
{
	struct tr_qp *t = of_timer(timer);

	if (t->resp.waiting) {
		t->resp.waiting = false;
		tr_sched(t);
	}
	if (t->resp.gap && t->resp.state == RESP_RUN)
		late_nak(t);
	if (t->resp.state == RESP_HELD)
		release_held(t);
}

void resp_fault_over(struct odp_waiter *w)
{
	struct tr_qp *t = container_of(w, struct tr_qp, resp.fault);

	faults_over(&t->resp);
	if (t->resp.state == RESP_HELD)
		release_held(t);
}

void resp_read_fault_over(struct odp_waiter *w)
{
	struct tr_qp *t = container_of(w, struct tr_qp, resp.read_fault);

	faults_over(&t->resp);
	if (!t->resp.waiting)
		return;
	t->resp.waiting = false;
	tr_sched(t);
}

/* The peer is told that there is no receive request, or no memory yet. */
static void show_rnr(struct emu_qp *qp)
{
	struct trace_qp *s = &qp->seen->qp;

	qp->hca->counter[EMU_CNT_SND_RNR]++;
	s->rnr_sent++;
	if (!s->rnr_since)
		s->rnr_since = qp->hca->now;
}

enum tr_step resp_ack(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;
	struct emu_qp *qp = t->qp;
	struct roce_hdr h;
	uint32_t total;

	if (resp->state == RESP_OFF || resp->res_due)
		return TR_IDLE;
	if (!resp->nak && !resp->ack_due) {
		if (resp->state == RESP_DYING)
			emu_qp_fail(qp, resp->event, TRACE_CAUSE_RESPONDER,
				    IBV_WC_SUCCESS);
		return TR_IDLE;
	}
	tr_hdr(qp, &h, ROCE_ACK);
	h.syndrome = resp->nak ? resp->nak : ROCE_AETH_ACK | ROCE_AETH_CREDIT_INVALID;
	h.psn = resp->nak ? resp->nak_psn : roce_psn_add(resp->epsn, ROCE_PSN_MASK);
	h.msn = resp->nak ? resp->nak_msn : resp->msn;
	if (!tr_tx_open(qp->hca, &qp->path, &h, 0, &total))
		return TR_FULL;
	tr_tx_close(qp, &h, 0, total,
		    (resp->nak & ROCE_AETH_TYPE_MASK) == ROCE_AETH_RNR ? TRACE_WHY_RNR
		    : resp->nak					       ? TRACE_WHY_NAK
								       : TRACE_WHY_ACK);
	if ((resp->nak & ROCE_AETH_TYPE_MASK) == ROCE_AETH_RNR)
		show_rnr(qp);
	resp->nak = 0;
	resp->ack_due = false;
	if (resp->state == RESP_DYING)
		emu_qp_fail(qp, resp->event, TRACE_CAUSE_RESPONDER, IBV_WC_SUCCESS);
	return TR_IDLE;
}

/* --- the end ---------------------------------------------------------------------- */

bool resp_flush_rq(struct tr_qp *t)
{
	struct ib_uverbs_wc wc = {
	    .status = IBV_WC_WR_FLUSH_ERR,
	    .opcode = IBV_WC_RECV,
	    .qp_num = t->qp->qpn,
	    .port_num = EMU_PORT,
	};
	struct emu_recv_wqe wqe;
	bool any = false;
	uint32_t n;

	if (!t->qp->rq.buf)
		return false;
	for (n = ring_count_from(&t->qp->rq, t->qp->rq.local);
	     n && emu_rq_take(t->qp, &wqe) != -ENOENT; n--) {
		wc.wr_id = wqe.wr_id;
		emu_cq_post(t->qp->recv_cq, &wc, true);
		any = true;
	}
	return any;
}

/* 10.3.1: everything that the receive queue has is flushed; an SRQ keeps its own */
void resp_flush(struct tr_qp *t)
{
	forget(t);
	report(t, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
	resp_flush_rq(t);
	if (t->qp->srq)
		emu_qp_event(t->qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}
