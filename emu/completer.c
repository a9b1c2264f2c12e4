/*
 * completer.c - takes responses and retires send WQEs (IBTA vol. 1, 9.7.6).
 *
 * Theory of operation
 * -------------------
 * The truth about progress is one number, @una: all PSNs before it are done. It moves in
 * order only. A response for PSN p says two things:
 *
 * - everything before p was executed (9.7.5.1.2 coalescing). SENDs and WRITEs before p
 *   are thereby done. A READ or atomic before p is not: its data did not come, so a
 *   response was lost, and it must be asked for again ("implied NAK", 9.7.6.1.2).
 * - something about p: acknowledged, READ data, not ready, error.
 *
 * comp_rx() therefore moves @una to p as far as it goes; only if it arrives there, the
 * response is looked at. WQEs are complete when @una is behind their last PSN, and they
 * are completed from the head on, which makes the order of completions that of the queue
 * (10.8.6).
 *
 * Losses are noticed by a NAK, an implied NAK, or the timer, and all are cured by
 * req_rewind(), which costs one of retry_cnt. Progress gives the budget back. An implied
 * NAK is concluded once only, from the first response that shows it: those under way
 * behind it show the same.
 *
 * The window halves with each loss and grows by one packet for each full window
 * acknowledged, as several QPs may share a receive buffer that is smaller than the sum of
 * their windows.
 */
#include "base/container.h"
#include "emu/diagnose.h"
#include "inject/inject.h"
#include "trace/names.h"

#define LONG_RNR_NS                                                                      \
	10000000000u	/* a peer that is not ready for so long has forgotten something */
#define FLOOD_NS 20000u /* between requests that are sent in vain */

static struct tr_qp *of_ack_timer(struct tr_timer *timer)
{
	return container_of(timer, struct tr_qp, req.ack_timer);
}

/* --- completions ------------------------------------------------------------------ */

/*
 * One completion of the send queue; the slot is free before the application can know of
 * it
 */
static void complete(struct emu_qp *qp, uint64_t wr_id, uint32_t wr_opcode, uint32_t len,
		     enum ibv_wc_status status, bool signaled)
{
	struct ib_uverbs_wc wc = {
	    .wr_id = wr_id,
	    .status = status,
	    .opcode = wqe_wc_opcode(wr_opcode),
	    .byte_len = len,
	    .qp_num = qp->qpn,
	    .port_num = EMU_PORT,
	};

	ring_set_consumer(&qp->sq, qp->sq.local + 1);
	/* 10.7.3.1: an error is reported even of an unsignaled request */
	if (!signaled && status == IBV_WC_SUCCESS) {
		if (++tr_of(qp)->req.silent == qp->cap.max_send_wr + 1)
			diagnose_unsignaled(qp);
		return;
	}
	tr_of(qp)->req.silent = 0;
	if (emu_cq_post(qp->send_cq, &wc, status != IBV_WC_SUCCESS) &&
	    qp->state != IBV_QPS_ERR)
		emu_qp_fail(qp, IBV_EVENT_QP_FATAL, TRACE_CAUSE_CQ_OVERRUN,
			    IBV_WC_SUCCESS);
}

/* The head is done, one way or the other: it leaves. False when that made the QP fail. */
static bool complete_head(struct tr_qp *t, enum ibv_wc_status status)
{
	struct tr_req *req = &t->req;
	struct emu_qp *qp = t->qp;
	struct tr_wqe w = *req_wqe(req, req->head);

	if (req->cur == req->head) {
		req->cur++;
		req->cur_psn = 0;
		req->sg_psn = UINT32_MAX;
	}
	req->head++;
	if (w.kind == WQE_SEND && status == IBV_WC_SUCCESS)
		qp->hca->counter[EMU_CNT_RDMA_SEND]++;
	complete(qp, w.wr_id, w.opcode, w.length, status, w.signaled);
	return req->state != REQ_OFF;
}

/* IBTA 10.3.1: an error of the send queue stops an unreliable QP's sending only */
static void send_queue_failed(struct emu_qp *qp, enum ibv_wc_status status)
{
	enum ibv_qp_state from = qp->state;

	if (qp->type == IBV_QPT_UC || qp->type == IBV_QPT_UD) {
		qp->state = IBV_QPS_SQE;
		emu_qp_show_state(qp, from, TRACE_CAUSE_SEND_QUEUE, status);
		comp_flush(tr_of(qp));
	} else {
		emu_qp_fail(qp, 0, TRACE_CAUSE_COMPLETION, status);
	}
}

/* Complete the oldest WQE with an error: the QP fails. */
static void fail_head(struct tr_qp *t, enum ibv_wc_status status)
{
	if (t->req.head == t->req.tail)
		return;
	diagnose_send(t, req_wqe(&t->req, t->req.head), status);
	if (complete_head(t, status))
		send_queue_failed(t->qp, status);
}

static void check_drained(struct tr_qp *t)
{
	struct emu_qp *qp = t->qp;

	if (!t->req.no_new || t->req.head != t->req.tail || !qp->sq_draining)
		return;
	qp->sq_draining = false;
	if (qp->attr.en_sqd_async_notify)
		emu_qp_event(qp, IBV_EVENT_SQ_DRAINED);
}

/* A request is done: does a rule of inject/ want it to fail? With which status; or SUCCESS */
static enum ibv_wc_status injected(const struct tr_wqe *w)
{
	const char *name = trace_name(TRACE_WR, w->opcode);
	const struct inject_point p = {
	    .kind = INJECT_COMPLETION, .name = name ? name : "", .object = ""};
	struct inject_what what;

	return inject_ask(&p, &what) ? (enum ibv_wc_status)what.value : IBV_WC_SUCCESS;
}

void comp_retire(struct tr_qp *t)
{
	enum ibv_wc_status status;
	struct tr_req *req = &t->req;
	struct tr_wqe *w;

	while (req->head != req->tail) {
		w = req_wqe(req, req->head);
		if (w->state == WQE_FAILED) {
			fail_head(t, w->status);
			return;
		}
		if (wqe_local(w) ? w->state != WQE_DONE
				 : psn_diff(req->una, w->first_psn) < w->npsn)
			break;
		status = inject_on(INJECT_COMPLETION) ? injected(w) : IBV_WC_SUCCESS;
		if (status != IBV_WC_SUCCESS) {
			fail_head(t, status);
			return;
		}
		if (!complete_head(t, IBV_WC_SUCCESS))
			return;
	}
	check_drained(t);
}

/* IBTA 10.8.5.2: flush what is in flight, then what is in the ring */
void comp_flush(struct tr_qp *t)
{
	struct tr_req *req = &t->req;
	struct emu_qp *qp = t->qp;
	uint32_t n;

	req_enter(t, REQ_OFF, 0);
	while (req->head != req->tail)
		complete_head(t, IBV_WC_WR_FLUSH_ERR);
	/*
	 * the count first: the application may go on posting; and a full CQ ends it early
	 */
	for (n = ring_count_from(&qp->sq, qp->sq.local);
	     n && ring_count_from(&qp->sq, qp->sq.local); n--)
		complete(qp, wqe_wr_id(qp, qp->sq.local),
			 wqe_ring_opcode(qp, qp->sq.local), 0, IBV_WC_WR_FLUSH_ERR, true);
	/* SQE: the peer expects the PSN behind what was sent */
	req->una = req->next_psn = req->max_psn;
}

/* --- progress and loss ------------------------------------------------------------ */

static void grow_window(struct tr_req *req, uint32_t n)
{
	if (req->window == req->window_max)
		return;
	req->grown += n;
	if (req->grown < req->window)
		return;
	req->grown = 0;
	req->window++;
}

/* @una moved by @n packets: retire, give back budgets, let the requester go on. */
static void progress(struct tr_qp *t, uint32_t n)
{
	struct tr_req *req = &t->req;

	req->recovering = false;
	req->retry_left = t->qp->attr.retry_cnt;
	req->rnr_left = t->qp->attr.rnr_retry;
	req->rnr_naks = req->timeouts = req->ghosts = req->seq_naks = 0;
	grow_window(req, n);
	comp_retire(t);
	if (req->state == REQ_OFF)
		return;
	/* an acknowledge of what was sent before going back: no need to send it again */
	if (roce_psn_cmp(req->una, req_cur_psn(req)) > 0)
		req_rewind(t);
	if (req->state == REQ_RUN) {
		req_arm_ack_timer(t);
		tr_sched(t);
	}
}

static void retry(struct tr_qp *t, enum trace_why why)
{
	struct emu_hca *hca = t->qp->hca;
	struct tr_req *req = &t->req;

	if (!req->retry_left) {
		hca->counter[EMU_CNT_RETRY_EXCEEDED]++;
		fail_head(t, IBV_WC_RETRY_EXC_ERR);
		return;
	}
	req->retry_left--;
	req->why = (uint8_t)why;
	hca->counter[EMU_CNT_COMP_RETRY]++;
	req->window = req->window / 2 > TR_WINDOW_MIN ? req->window / 2 : TR_WINDOW_MIN;
	req->grown = 0;
	req_rewind(t);
	/* what waits for its memory is behind; it will ask for it again */
	if (req->state == REQ_MEM)
		req_enter(t, REQ_RUN, 0);
	req_arm_ack_timer(t);
}

/*
 * Is a loss that a response tells of news? Not in the wait after an RNR NAK, and not when
 * nothing was sent since the last going back: then it is a copy, or of that time.
 */
static bool loss_is_news(const struct tr_req *req)
{
	return (req->state == REQ_RUN || req->state == REQ_MEM) &&
	       req_cur_psn(req) != req->una;
}

/*
 * A responder in hardware would have answered. That ours has not run is no loss, so nothing
 * is sent again and no retry used up; it may be stopped for as long as somebody wants.
 */
static bool peer_has_not_run(const struct tr_qp *t)
{
	const struct emu_hca *hca = t->qp->hca;

	return hca->ops->unread &&
	       hca->ops->unread(hca->arg, &t->qp->path, t->qp->attr.dest_qp_num,
				t->req.armed);
}

void comp_timeout(struct tr_timer *timer)
{
	struct tr_qp *t = of_ack_timer(timer);

	if (t->req.state == REQ_OFF || t->req.una == t->req.max_psn)
		return;
	if (peer_has_not_run(t)) {
		req_arm_ack_timer(t);
		return;
	}
	t->req.timeouts++;
	t->req.recovering = false;
	EMU_TRACE(t->qp->hca, timer, .qpn = t->qp->qpn, .psn = t->req.una,
		  .timer = TRACE_TIMER_ACK, .retries_left = t->req.retry_left);
	retry(t, TRACE_WHY_RETRY_TIMEOUT);
}

static void implied_nak(struct tr_qp *t)
{
	if (t->req.recovering || !loss_is_news(&t->req))
		return;
	t->req.recovering = true;
	retry(t, TRACE_WHY_RETRY_IMPLIED);
}

/*
 * Acknowledge SENDs and WRITEs before @psn. False when a READ or atomic is in between,
 * whose response did not come; *@n: by how many packets @una moved.
 */
static bool advance(struct tr_req *req, uint32_t psn, uint32_t *n)
{
	uint32_t i = req->head, left;
	const struct tr_wqe *w;

	*n = 0;
	for (; req->una != psn && i != req->tail; i++) {
		w = req_wqe(req, i);
		if (wqe_local(w))
			continue;
		left = psn_diff(roce_psn_add(w->first_psn, w->npsn), req->una);
		if (left && wqe_nonposted(w))
			return false;
		if (left > psn_diff(psn, req->una))
			left = psn_diff(psn, req->una);
		req->una = roce_psn_add(req->una, left);
		*n += left;
	}
	return req->una == psn;
}

/* The WQE that has PSN @una */
static struct tr_wqe *wqe_at_una(struct tr_req *req)
{
	uint32_t i;
	struct tr_wqe *w;

	for (i = req->head; i != req->tail; i++) {
		w = req_wqe(req, i);
		if (!wqe_local(w) && psn_diff(req->una, w->first_psn) < w->npsn)
			return w;
	}
	return NULL;
}

/* --- what a response says --------------------------------------------------------- */

static void rnr_nak(struct tr_qp *t, uint8_t timer)
{
	struct emu_hca *hca = t->qp->hca;
	struct tr_req *req = &t->req;

	if (req->state != REQ_RUN && req->state != REQ_MEM)
		return;
	hca->counter[EMU_CNT_RCV_RNR]++;
	if (!req->rnr_naks++)
		req->rnr_since = hca->now;
	if (t->qp->attr.rnr_retry == 7 && hca->now - req->rnr_since > LONG_RNR_NS)
		diagnose_long_rnr(t);
	if (t->qp->attr.rnr_retry != 7) {
		if (!req->rnr_left) {
			hca->counter[EMU_CNT_RNR_RETRY_EXCEEDED]++;
			fail_head(t, IBV_WC_RNR_RETRY_EXC_ERR);
			return;
		}
		req->rnr_left--;
	}
	req->why = TRACE_WHY_RETRY_RNR;
	req_rewind(t);
	req_enter(t, REQ_RNR, hca->now + tr_rnr_ns(timer));
}

static void nak(struct tr_qp *t, uint8_t code)
{
	static const uint8_t status[] = {
	    [ROCE_NAK_INVALID_REQUEST] = IBV_WC_REM_INV_REQ_ERR,
	    [ROCE_NAK_REMOTE_ACCESS] = IBV_WC_REM_ACCESS_ERR,
	    [ROCE_NAK_REMOTE_OP] = IBV_WC_REM_OP_ERR,
	};

	if (code == ROCE_NAK_PSN) {
		t->qp->hca->counter[EMU_CNT_RCV_SEQ_ERR]++;
		t->req.seq_naks++;
		if (loss_is_news(&t->req))
			retry(t, TRACE_WHY_RETRY_NAK);
		return;
	}
	fail_head(t, code < sizeof(status) ? status[code] : IBV_WC_BAD_RESP_ERR);
}

static void acknowledge(struct tr_qp *t, const struct roce_hdr *h, struct tr_wqe *w)
{
	struct tr_req *req = &t->req;

	switch (h->syndrome & ROCE_AETH_TYPE_MASK) {
	case ROCE_AETH_ACK:
		/* of a READ or atomic it says nothing: the answer to that is data */
		if (wqe_nonposted(w))
			return;
		req->una = roce_psn_add(req->una, 1);
		progress(t, 1);
		break;
	case ROCE_AETH_RNR:
		rnr_nak(t, h->syndrome & ROCE_AETH_VALUE_MASK);
		break;
	case ROCE_AETH_NAK:
		nak(t, h->syndrome & ROCE_AETH_VALUE_MASK);
		break;
	default:
		/* reserved: dropped (9.7.5.2) */
		break;
	}
}

/*
 * A page fault where data of a response should go: the data is dropped and asked for
 * again, when the page is there, or by the fault model
 */
static void no_place(struct tr_qp *t, const struct odp_access *acc)
{
	uint64_t again = acc->ready_at;

	/* it waits already, and goes back to this response then */
	if (t->req.state == REQ_RNR)
		return;
	switch (odp_model_requester(acc->model)) {
	case ODP_REQUESTER_LOSES:
		if (!t->qp->attr.timeout)
			break;
		t->req.recovering = true; /* until the timer says so */
		return;
	case ODP_REQUESTER_ASKS_AGAIN:
		if (t->qp->hca->now + FLOOD_NS < again)
			again = t->qp->hca->now + FLOOD_NS;
		break;
	case ODP_REQUESTER_WAITS:
		break;
	}
	t->req.why = TRACE_WHY_RETRY_FAULT;
	req_rewind(t);
	req_enter(t, REQ_MEM, again);
}

/* Data for @w came: where it goes. False when @una stays. */
static bool place(struct tr_qp *t, struct tr_wqe *w, const uint8_t *data, uint32_t len,
		  uint64_t rest)
{
	struct odp_access acc = {.now = t->qp->hca->now, .waiter = &t->req.fault};
	uint32_t seq, done;
	struct tr_sg sg;
	int ret;

	if (!len)
		return true;
	for (seq = t->req.head; req_wqe(&t->req, seq) != w; seq++)
		;
	sg = wqe_sg(t->qp, req_ring_index(t, seq), w);
	ret = sg_write(&sg, &w->placed, data + w->part, len - w->part, rest, &acc, &done);
	w->part = ret ? w->part + done : 0;
	if (!ret)
		return true;
	if (ret == -EAGAIN)
		no_place(t, &acc);
	else
		req_wqe_failed(t, w,
			       ret == -ENOSPC ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR);
	return false;
}

/* The response to (part of) a READ or atomic was the one that was missing. */
static void response_done(struct tr_qp *t, const struct tr_wqe *w, uint32_t k)
{
	struct tr_req *req = &t->req;

	if ((k + 1 == w->npsn || (k + 1) % req->chunk == 0) && req->rd_out)
		req->rd_out--;
	req->una = roce_psn_add(req->una, 1);
	progress(t, 1);
}

static void read_response(struct tr_qp *t, const struct roce_hdr *h, uint32_t info,
			  struct tr_wqe *w, const uint8_t *data, uint32_t len)
{
	uint32_t k = psn_diff(t->req.una, w->first_psn);
	uint64_t pos = (uint64_t)k * t->qp->mtu;
	uint32_t want = w->kind == WQE_READ ? w->length - (uint32_t)pos : 0;
	bool last = k + 1 == w->npsn || (k + 1) % t->req.chunk == 0;

	if (want > t->qp->mtu)
		want = t->qp->mtu;
	if (w->kind == WQE_ATOMIC || !wqe_nonposted(w) || len != want ||
	    last != !!(info & ROCE_F_LAST) ||
	    ((info & ROCE_F_AETH) &&
	     (h->syndrome & ROCE_AETH_TYPE_MASK) != ROCE_AETH_ACK)) {
		fail_head(t, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (place(t, w, data, len, w->length - pos - len))
		response_done(t, w, k);
}

static void atomic_response(struct tr_qp *t, const struct roce_hdr *h, struct tr_wqe *w)
{
	uint64_t orig = h->orig;

	if (w->kind != WQE_ATOMIC ||
	    (h->syndrome & ROCE_AETH_TYPE_MASK) != ROCE_AETH_ACK) {
		fail_head(t, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (place(t, w, (const uint8_t *)&orig, sizeof(orig), 0))
		response_done(t, w, 0);
}

/* It answers nothing that is outstanding, but it tells what the peer expects */
static void ghost(struct tr_req *req, const struct roce_hdr *h, uint32_t info)
{
	if (!(info & ROCE_F_AETH))
		return;
	req->ghosts++;
	req->ghost_psn = h->psn;
	req->ghost_syndrome = h->syndrome;
}

void comp_rx(struct tr_qp *t, const struct roce_hdr *h, uint32_t info,
	     const uint8_t *payload, uint32_t len)
{
	struct tr_req *req = &t->req;
	struct tr_wqe *w;
	bool arrived;
	uint32_t n;

	/* 9.7.6.1: a response to nothing that is outstanding is a ghost */
	if (req->state == REQ_OFF ||
	    psn_diff(h->psn, req->una) >= psn_diff(req->max_psn, req->una)) {
		ghost(req, h, info);
		return;
	}
	arrived = advance(req, h->psn, &n);
	if (n)
		progress(t, n);
	if (req->state == REQ_OFF)
		return;
	w = arrived ? wqe_at_una(req) : NULL;
	if (!w)
		implied_nak(t);
	else if (info & ROCE_F_ATOMIC_ACK_ETH)
		atomic_response(t, h, w);
	else if (info & ROCE_F_READ)
		read_response(t, h, info, w, payload, len);
	else
		acknowledge(t, h, w);
}
