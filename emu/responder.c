/*
 * responder.c - takes requests of connected QPs, has them executed and answers them (IBTA vol.
 * 1, 9.7.4, 9.7.5, 9.8.2).
 *
 * Theory of operation
 * -------------------
 * A request is judged in the order of 9.7.4.1: its PSN, its place in the message, whether
 * the QP allows it, its length, then resources and keys. resp_execute() in
 * responder_execute.c ends in a verdict, and verdict() is the one place where it has consequences:
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
 * A request that a page fault puts off (responder_faults.c) waits here, and those behind it, until
 * resp_fault_over() or a timer says that it may be tried again.
 */
#include <stdlib.h>

#include "base/container.h"
#include "emu/diagnose.h"

#define LATE_NAK_NS 250000u

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

static void forget(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	resp_enter(t, RESP_OFF);
	tr_timer_stop(&resp->timer);
	resp_forget_faults(t);
	drop_held(resp);
	resp->msg = MSG_NONE;
	res_forget(resp);
	resp->nak = 0;
	resp->ack_due = resp->gap = resp->drop_msg = resp->resume = false;
	resp->mute_until = resp->unready_until = 0;
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
	resp->looked_into = 0;
}

void resp_start(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	resp->epsn = t->qp->attr.rq_psn & ROCE_PSN_MASK;
	resp->msn = 0;
	resp_enter(t, RESP_RUN);
}

/* --- judging requests ------------------------------------------------------------- */

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

void resp_die(struct tr_qp *t)
{
	resp_enter(t, RESP_DYING);
	tr_sched(t);
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
	resp_report_recv(
	    t, v == V_ACCESS ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR,
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
		    uint32_t info, uint32_t len, enum resp_verdict v, bool reported)
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
		diagnose_request(t, h, info, len, v);
		reported |= refuse_receive(t, v);
		resp_fatal(t, v, h->psn, reported);
		break;
	case V_DROP:
	case V_GONE:
		break;
	}
}

/*
 * A READ that was seen before was answered with an RNR NAK, and what its requester sent behind
 * it is on its way. Answers to that would say that the READ's response was lost. The requester
 * sends it again when it has waited.
 */
static bool behind_unready_read(const struct tr_qp *t, uint32_t psn)
{
	const struct tr_resp *resp = &t->resp;

	return t->qp->hca->now < resp->unready_until &&
	       roce_psn_cmp(psn, resp->unready_psn) > 0;
}

/* What was seen before */
static void again(struct tr_qp *t, const struct net_rx *pkt, const struct roce_hdr *h,
		  uint32_t info)
{
	if (behind_unready_read(t, h->psn)) {
		/* as if it had not come */
	} else if (info & ROCE_F_ACKED) {
		t->resp.ack_due = true;
		tr_sched(t);
	} else if (!res_duplicate(t, h)) {
		return;
	}
	t->qp->hca->counter[EMU_CNT_DUP_REQ]++;
	tr_dropped(t->qp->hca, t->qp, pkt, h, TRACE_DROP_DUPLICATE);
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
		again(t, pkt, h, info);
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
	v = resp_execute(t, h, info, data, len);
	verdict(t, pkt, h, info, len, v, resp->event == 0);
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
	v = resp->drop_msg ? V_DROP : resp_execute(t, h, info, data, len);
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
	if (v != V_DROP && v != V_RNR)
		diagnose_request(t, h, info, len, v);
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
 * that request, or with a READ before it. What was executed before the fault is answered at
 * once: a requester that heard nothing of it may never get to what waits. True: it waits
 */
static bool rx_held(struct tr_qp *t, const struct net_rx *pkt, const struct roce_hdr *h)
{
	struct tr_resp *resp = &t->resp;
	int32_t diff = roce_psn_cmp(h->psn, resp->epsn);
	bool again = diff == 0 && resp->fault.linked;

	if (tr_reliable(t->qp) && diff < 0 && !resp->read_fault.linked)
		return false;
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

	resp_faults_over(&t->resp);
	if (t->resp.state == RESP_HELD)
		release_held(t);
}

void resp_read_fault_over(struct odp_waiter *w)
{
	struct tr_qp *t = container_of(w, struct tr_qp, resp.read_fault);

	resp_faults_over(&t->resp);
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

/* 10.3.1: everything that the receive queue has is flushed; an SRQ keeps its own */
void resp_flush(struct tr_qp *t)
{
	forget(t);
	resp_report_recv(t, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV);
	resp_flush_rq(t);
	if (t->qp->srq)
		emu_qp_event(t->qp, IBV_EVENT_QP_LAST_WQE_REACHED);
}
