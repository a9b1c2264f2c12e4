/*
 * requester.c - turns send WQEs into request packets (IBTA vol. 1, 9.7.3, 9.8.1).
 *
 * Theory of operation
 * -------------------
 * A WQE is taken from the ring when it is its turn to be sent, and gets its PSNs then:
 * one for each packet of a SEND or WRITE, one for each response packet of a READ, one for
 * an atomic, none for local operations. It stays in the small array @wqe until the
 * completer has retired it.
 *
 *	head                 cur                tail
 *	 |--- acknowledged ---|--- to be sent ---|--- still in the ring
 *	 una               (cur, cur_psn)      next_psn
 *
 * Sending is a cursor (cur, cur_psn). Going back N is setting it to where @una is; what
 * was sent before is computed anew, from the same numbers, out of the same memory. So
 * there is no separate path for retransmission.
 *
 * req_send_one() does one step. What stops it leaves the QP out of the ready list; who
 * removes the obstacle puts it back (tr_sched):
 *
 *	nothing posted		doorbell
 *	window full		acknowledge
 *	no READ credit, fence	response to a READ or atomic
 *	REQ_RNR, REQ_MEM	wait_timer, or the fault's end
 *	port full		stays in the list
 *	WQE_FAILED		the WQEs before it complete; comp_retire() ends it
 *
 * READs are asked for in chunks of at most half a window: a responder answers as fast as
 * it can, and a whole READ of 2 GiB in one request would overrun every receive buffer on
 * the way. On the wire a chunk is a READ request like any other, and what a retry asks for
 * ends where the chunk ends. The window counts PSNs, so it bounds responses as it bounds
 * requests.
 *
 * UC and UD go the same way without window and timer: a WQE is complete when its last
 * packet is handed to the port (9.8.2).
 */
#include <stdlib.h>

#include "base/container.h"
#include "emu/transport_internal.h"

static struct tr_qp *of_wait_timer(struct tr_timer *timer)
{
	return container_of(timer, struct tr_qp, req.wait_timer);
}

/* The one place where the requester changes its state */
void req_enter(struct tr_qp *t, enum req_state state, uint64_t until)
{
	struct tr_req *req = &t->req;

	req->state = state;
	if (state != REQ_MEM)
		odp_unwait(t->qp->hca->cfg.odp, &req->fault);
	switch (state) {
	case REQ_OFF:
		tr_timer_stop(&req->ack_timer);
		tr_timer_stop(&req->wait_timer);
		break;
	case REQ_RUN:
		tr_timer_stop(&req->wait_timer);
		tr_sched(t);
		break;
	case REQ_RNR:
	case REQ_MEM:
		tr_timer_stop(&req->ack_timer);
		tr_timer_stop(&req->wait_timer);
		if (until != TR_NEVER) /* a fault: until it is resolved */
			tr_timer_start(&t->qp->hca->tr->timers, &req->wait_timer, until);
		break;
	}
}

void req_wait_done(struct tr_timer *timer)
{
	struct tr_qp *t = of_wait_timer(timer);

	EMU_TRACE(t->qp->hca, timer, .qpn = t->qp->qpn, .psn = t->req.una,
		  .timer = t->req.state == REQ_RNR ? TRACE_TIMER_RNR : TRACE_TIMER_FAULT,
		  .retries_left = t->req.rnr_left);
	req_enter(t, REQ_RUN, 0);
	req_arm_ack_timer(t);
}

void req_fault_over(struct odp_waiter *w)
{
	struct tr_qp *t = container_of(w, struct tr_qp, req.fault);

	if (t->req.state == REQ_MEM)
		req_wait_done(&t->req.wait_timer);
}

static void free_wqes(struct tr_req *req)
{
	if (req->wqe != &req->spare)
		free(req->wqe);
}

void req_reset(struct tr_qp *t)
{
	struct tr_req *req = &t->req;

	req_enter(t, REQ_OFF, 0);
	free_wqes(req);
	free(req->stash);
	req->wqe = NULL;
	req->stash = NULL;
	req->wqe_size = req->stash_len = 0;
	req->sg_psn = UINT32_MAX;
	req->head = req->tail = req->cur = req->cur_psn = 0;
	req->unasked = req->rd_out = 0;
	req->recovering = req->no_new = req->primed = false;
	req->rnr_naks = req->timeouts = req->ghosts = req->seq_naks = req->silent = 0;
	req->una = req->max_psn = req->next_psn = 0;
}

/* Packets of @mtu in one call of the port, at most @max */
static uint32_t batch_of(uint32_t mtu, uint32_t max)
{
	uint32_t n = TR_BATCH_BYTES / (mtu + ROCE_BTH_LEN + ROCE_ICRC_LEN);

	if (n > TR_BATCH_MAX)
		n = TR_BATCH_MAX;
	return n < max ? n : max;
}

void req_start(struct tr_qp *t)
{
	struct tr_req *req = &t->req;
	const struct emu_qp *qp = t->qp;
	uint32_t window;

	if (!req->primed) {
		req->primed = true;
		req->una = req->max_psn = req->next_psn = qp->attr.sq_psn & ROCE_PSN_MASK;
		req->cur_psn = 0;
		req->retry_left = qp->attr.retry_cnt;
		req->rnr_left = qp->attr.rnr_retry;
		req->rd_out = 0;
		window = TR_WINDOW_BYTES / qp->mtu;
		req->window_max = window < TR_WINDOW_MAX ? window : TR_WINDOW_MAX;
		req->window = req->window_max;
		req->batch = batch_of(qp->mtu, req->window_max / 2);
		req->chunk = req->window_max / 2 / req->batch * req->batch;
	}
	req->no_new = false;
	if (req->state == REQ_OFF)
		req_enter(t, REQ_RUN, 0);
	else
		tr_sched(t);
}

void req_sqd(struct tr_qp *t)
{
	t->req.no_new = true;
	comp_retire(t);
}

/*
 * The local ACK timeout is 4.096 us * 2^timeout, and it may expire up to four times later
 * (9.7.6.1.3). Short ones use that: a peer whose process is not running answers when it
 * runs.
 */
#define ACK_TIMER_FLOOR 4000000u

static uint64_t ack_interval(const struct tr_qp *t)
{
	uint64_t ns = 4096ull << (t->qp->attr.timeout & 31);

	if (ns < ACK_TIMER_FLOOR)
		return 4 * ns < ACK_TIMER_FLOOR ? 4 * ns : ACK_TIMER_FLOOR;
	return ns;
}

void req_arm_ack_timer(struct tr_qp *t)
{
	struct tr_req *req = &t->req;

	if (!tr_reliable(t->qp) || !t->qp->attr.timeout || req->una == req->max_psn) {
		tr_timer_stop(&req->ack_timer);
		return;
	}
	req->armed = t->qp->hca->now;
	tr_timer_start(&t->qp->hca->tr->timers, &req->ack_timer,
		       req->armed + ack_interval(t));
}

void req_rewind(struct tr_qp *t)
{
	struct tr_req *req = &t->req;

	if (req->head == req->tail)
		return;
	req->cur = req->head;
	req->cur_psn = psn_diff(req->una, req_wqe(req, req->head)->first_psn);
	if (req_wqe(req, req->head)->npsn == 0)
		req->cur_psn = 0;
	req->sg_psn = UINT32_MAX;
	req->rd_out = 0;
	req->unasked = 0;
	tr_sched(t);
}

/* --- taking WQEs ------------------------------------------------------------------ */

/*
 * Room for another WQE. If there is no memory for it, those that are under way make room when
 * they complete; and there is always room for one.
 */
static bool grow(struct tr_req *req)
{
	uint32_t size = req->wqe_size ? 2 * req->wqe_size : TR_INFLIGHT_MIN;
	struct tr_wqe *wqe;
	uint32_t i;

	if (size > TR_INFLIGHT_MAX)
		return false;
	wqe = malloc(size * sizeof(*wqe));
	if (!wqe && req->wqe_size)
		return false;
	if (!wqe) {
		wqe = &req->spare;
		size = 1;
	}
	for (i = req->head; i != req->tail; i++)
		wqe[i & (size - 1)] = *req_wqe(req, i);
	free_wqes(req);
	req->wqe = wqe;
	req->wqe_size = size;
	return true;
}

/* The next WQE from the ring, or NULL */
static struct tr_wqe *take(struct tr_qp *t)
{
	struct tr_req *req = &t->req;
	struct tr_wqe *w;

	if (req->no_new || !ring_count_from(&t->qp->sq, req_ring_index(t, req->tail)))
		return NULL;
	if (req->tail - req->head == req->wqe_size && !grow(req))
		return NULL;
	w = req_wqe(req, req->tail);
	wqe_decode(t->qp, req_ring_index(t, req->tail), w);
	w->first_psn = req->next_psn;
	req->next_psn = roce_psn_add(req->next_psn, w->npsn);
	EMU_TRACE(t->qp->hca, begin_send, .wr_id = w->wr_id, .qpn = t->qp->qpn,
		  .psn = w->first_psn, .packets = w->npsn,
		  .number = req_ring_index(t, req->tail), .length = w->length,
		  .opcode = w->opcode);
	req->tail++;
	req->cur_psn = 0;
	req->sg_psn = UINT32_MAX;
	return w;
}

static void next_wqe(struct tr_req *req)
{
	req->cur++;
	req->cur_psn = 0;
	req->sg_psn = UINT32_MAX;
}

/* The WQE cannot go on. It completes, with @status, when those before it have. */
enum tr_step req_wqe_failed(struct tr_qp *t, struct tr_wqe *w, enum ibv_wc_status status)
{
	w->state = WQE_FAILED;
	w->status = status;
	comp_retire(t);
	return TR_IDLE;
}

/* --- local operations (IBTA 10.6.7, 10.7.2) --------------------------------------- */

static enum tr_step local_op(struct tr_qp *t, struct tr_wqe *w)
{
	struct tr_req *req = &t->req;
	int ret;

	/*
	 * What was sent before may have to be sent again, out of the memory that is about
	 * to be taken away: invalidate when nothing is outstanding.
	 */
	if (w->kind == WQE_LOCAL_INV) {
		if (req->cur != req->head)
			return TR_IDLE;
		ret = emu_invalidate_key(t->qp, w->ex);
		if (ret)
			return req_wqe_failed(t, w, IBV_WC_LOC_QP_OP_ERR);
	} else {
		ret = emu_mw_bind(t->qp, w->rkey, w->mw.new_rkey, w->mw.mr_lkey, w->va,
				  w->mw.length, w->mw.access);
		if (ret)
			return req_wqe_failed(t, w, IBV_WC_MW_BIND_ERR);
	}
	w->state = WQE_DONE;
	next_wqe(req);
	comp_retire(t);
	return TR_SENT;
}

/* --- packets ---------------------------------------------------------------------- */

/* A page fault interrupts a packet: keep the part that was gathered. */
static bool stash(struct tr_req *req, const uint8_t *data, uint32_t len)
{
	uint8_t *p;

	if (len == req->stash_len)
		return true;
	p = realloc(req->stash, len);
	if (!p)
		return false;
	memcpy(p, data, len);
	req->stash = p;
	req->stash_len = len;
	return true;
}

/*
 * What sg_read() does, for a list of one entry: there is no place in it to be looked for, and nothing
 * behind it to be faulted in
 */
static int gather_one(const struct tr_sg *sg, uint64_t pos, uint8_t *data, uint32_t len,
		      uint64_t rest, struct odp_access *acc)
{
	struct rxe_sge sge = sge_load(sg->sge);
	struct emu_mem mem;
	int ret;

	if (pos + len > sge.length)
		return -ENOSPC;
	acc->ahead = sge.length - pos - len;
	if (acc->ahead > rest)
		acc->ahead = rest;
	ret = emu_lkey_check(sg->hca, sg->pd, sge.lkey, sge.addr + pos, len, 0, &mem);
	return ret ? ret : odp_read(mem.mr, mem.iova, data, len, acc);
}

int req_gather(struct tr_qp *t, const struct tr_wqe *w, uint32_t k, uint8_t *data,
	       uint32_t len, struct odp_access *acc)
{
	struct tr_req *req = &t->req;
	uint32_t index = req_ring_index(t, req->cur);
	uint64_t pos = (uint64_t)k * t->qp->mtu;
	uint32_t from, done;
	struct tr_sg sg;
	int ret;

	if (w->is_inline) {
		memcpy(data, wqe_inline(t->qp, index) + pos, len);
		return 0;
	}
	sg = wqe_sg(t->qp, index, w);
	if (w->num_sge == 1)
		return gather_one(&sg, pos, data, len, w->length - pos - len, acc);
	if (req->sg_psn != k) {
		sg_seek(&sg, pos, &req->sg);
		req->stash_len = 0;
	}
	req->sg_psn = k;
	if (req->stash_len)
		memcpy(data, req->stash, req->stash_len);
	from = req->stash_len;
	ret = sg_read(&sg, &req->sg, data + from, len - from, w->length - pos - len, acc,
		      &done);
	if (ret)
		return stash(req, data, from + done) ? ret : -ENOMEM;
	req->sg_psn = k + 1;
	req->stash_len = 0;
	return 0;
}

/* Account for @n PSNs that were sent from the cursor on. */
void req_sent(struct tr_qp *t, const struct tr_wqe *w, uint32_t n)
{
	struct tr_req *req = &t->req;
	uint32_t end = roce_psn_add(w->first_psn, req->cur_psn + n);

	req->cur_psn += n;
	if (psn_diff(end, req->una) > psn_diff(req->max_psn, req->una))
		req->max_psn = end;
	if (req->cur_psn == w->npsn)
		next_wqe(req);
	if (tr_reliable(t->qp)) {
		if (!tr_timer_running(&req->ack_timer))
			req_arm_ack_timer(t);
		return;
	}
	/* unreliable: sent is complete */
	req->una = req->max_psn;
	comp_retire(t);
}

static bool window_full_behind(const struct tr_req *req, uint32_t psn)
{
	return psn_diff(psn, req->una) + 1 >= req->window;
}

enum tr_step req_memory_error(struct tr_qp *t, struct tr_wqe *w, int err,
			      const struct odp_access *acc)
{
	if (err == -EAGAIN) {
		req_enter(t, REQ_MEM, acc->ready_at);
		return TR_IDLE;
	}
	return req_wqe_failed(
	    t, w, err == -ENOSPC ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR);
}

/* What was sent before is sent again. */
static enum trace_why why_sent(const struct tr_req *req, uint32_t psn)
{
	if (psn == req->max_psn ||
	    psn_diff(psn, req->una) >= psn_diff(req->max_psn, req->una))
		return TRACE_WHY_FIRST;
	return (enum trace_why)req->why;
}

/* One packet of a SEND or WRITE */
static enum tr_step send_data(struct tr_qp *t, struct tr_wqe *w)
{
	struct odp_access acc = {.now = t->qp->hca->now, .waiter = &t->req.fault};
	struct tr_req *req = &t->req;
	struct emu_qp *qp = t->qp;
	uint32_t k = req->cur_psn;
	uint32_t len = w->length - k * qp->mtu;
	bool last = k == w->npsn - 1;
	struct roce_hdr *h = &req->hdr;
	uint32_t total;
	uint8_t *data;
	int ret;

	if (len > qp->mtu)
		len = qp->mtu;
	if (!h->pkey)
		tr_hdr(qp, h, 0);
	h->opcode = (h->opcode & ROCE_TRANSPORT_MASK) | wqe_packet_op(w, k == 0, last);
	h->psn = req_cur_psn(req);
	h->se = last && w->solicited && wqe_takes_receive(w);
	h->ack_req = tr_reliable(qp) && (last || req->unasked + 1 >= req->batch ||
					 window_full_behind(req, h->psn));
	h->va = w->va;
	h->rkey = w->rkey;
	h->dma_len = w->length;
	h->imm_be = w->ex;
	h->inv_rkey = w->ex;
	h->xrc_srqn = w->srqn;
	data = tr_tx_open(qp->hca, &qp->path, h, len, &total);
	if (!data)
		return TR_FULL;
	ret = len ? req_gather(t, w, k, data, len, &acc) : 0;
	if (ret)
		return req_memory_error(t, w, ret, &acc);
	tr_tx_close_data(t, len, total, why_sent(req, h->psn));
	req->unasked = h->ack_req ? 0 : req->unasked + 1;
	req_sent(t, w, 1);
	return TR_SENT;
}

/* PSNs that the next request of a READ covers: up to the end of its chunk */
static uint32_t read_span(const struct tr_req *req, const struct tr_wqe *w)
{
	uint32_t end = (req->cur_psn / req->chunk + 1) * req->chunk;

	return (end < w->npsn ? end : w->npsn) - req->cur_psn;
}

static void fill_read(const struct tr_qp *t, const struct tr_wqe *w, uint32_t span,
		      struct roce_hdr *h)
{
	uint32_t pos = t->req.cur_psn * t->qp->mtu;
	uint64_t len = (uint64_t)span * t->qp->mtu;

	h->va = w->va + pos;
	h->dma_len = len < w->length - pos ? (uint32_t)len : w->length - pos;
}

static void fill_flush(const struct tr_wqe *w, struct roce_hdr *h)
{
	h->va = w->va;
	h->dma_len = w->length;
	h->flush_type = w->flush.type;
	h->flush_level = w->flush.level;
}

/*
 * Is there a place for what will come? Told now, not by the response: what is behind a
 * request that must fail here is not to be executed there.
 */
static bool place_ok(const struct tr_qp *t, const struct tr_wqe *w)
{
	struct tr_sg sg;

	if ((w->kind != WQE_READ && w->kind != WQE_ATOMIC) || t->req.cur_psn)
		return true;
	sg = wqe_sg(t->qp, req_ring_index(t, t->req.cur), w);
	return sg_check_writable(&sg) == 0;
}

/* A request that the responder answers with data: READ, atomics, ATOMIC_WRITE, FLUSH */
static enum tr_step send_nonposted(struct tr_qp *t, struct tr_wqe *w)
{
	struct odp_access acc = {.now = t->qp->hca->now, .waiter = &t->req.fault};
	struct tr_req *req = &t->req;
	struct emu_qp *qp = t->qp;
	uint32_t len = w->kind == WQE_ATOMIC_WRITE ? 8 : 0;
	uint32_t span = w->kind == WQE_READ ? read_span(req, w) : 1;
	struct roce_hdr h;
	uint32_t total;
	uint8_t *data;
	int ret;

	if (!place_ok(t, w))
		return req_wqe_failed(t, w, IBV_WC_LOC_PROT_ERR);
	tr_hdr(qp, &h, wqe_packet_op(w, true, true));
	h.psn = req_cur_psn(req);
	h.ack_req = true;
	h.va = w->va;
	h.rkey = w->rkey;
	h.dma_len = w->length;
	h.xrc_srqn = w->srqn;
	if (w->kind == WQE_READ) {
		fill_read(t, w, span, &h);
	} else if (w->kind == WQE_FLUSH) {
		fill_flush(w, &h);
	} else if (w->kind == WQE_ATOMIC) {
		h.compare = w->atomic.compare;
		h.swap_add = w->atomic.swap_add;
	}
	data = tr_tx_open(qp->hca, &qp->path, &h, len, &total);
	if (!data)
		return TR_FULL;
	ret = len ? req_gather(t, w, 0, data, len, &acc) : 0;
	if (ret)
		return req_memory_error(t, w, ret, &acc);
	tr_tx_close(qp, &h, len, total, why_sent(req, h.psn));
	req->unasked = 0;
	req->rd_out++;
	req_sent(t, w, span);
	return TR_SENT;
}

/* What the message has for the next batch, which is not to be cut by the window */
static uint32_t whole_batch(const struct tr_req *req, const struct tr_wqe *w)
{
	uint32_t left = w->npsn - req->cur_psn;

	if (left > req->batch)
		left = req->batch;
	return left < req->window ? left : req->window;
}

/* May (cur, cur_psn) be sent now? */
static bool may_send(const struct tr_qp *t, const struct tr_wqe *w)
{
	const struct tr_req *req = &t->req;
	uint32_t under_way = psn_diff(req_cur_psn(req), req->una);
	uint32_t span = 1;

	if (!tr_reliable(t->qp))
		return true;
	/* 10.8.3.3: prior READs and atomics first */
	if (w->fence && req->cur_psn == 0 && req->rd_out)
		return false;
	if (wqe_nonposted(w)) {
		if (req->rd_out >= t->qp->attr.max_rd_atomic)
			return false;
		if (w->kind == WQE_READ)
			span = read_span(req, w);
	} else if (req->unasked == 0 && w->npsn > 1)
		span = whole_batch(req, w);
	return !under_way || under_way + span <= req->window;
}

static enum tr_step req_send_one(struct tr_qp *t)
{
	struct tr_req *req = &t->req;
	struct tr_wqe *w;

	w = req->cur != req->tail ? req_wqe(req, req->cur) : take(t);
	if (!w)
		return TR_IDLE;
	if (w->state == WQE_DONE) {
		next_wqe(req);
		return TR_SENT;
	}
	if (w->state == WQE_FAILED) {
		comp_retire(t);
		return TR_IDLE;
	}
	if (!may_send(t, w))
		return TR_IDLE;
	if (wqe_local(w))
		return local_op(t, w);
	if (t->qp->type == IBV_QPT_UD)
		return ud_send(t, w);
	return wqe_nonposted(w) ? send_nonposted(t, w) : send_data(t, w);
}

enum tr_step req_run(struct tr_qp *t, uint32_t *budget)
{
	enum tr_step step = TR_SENT;

	t->req.hdr.pkey = 0; /* it is to be made anew */
	while (*budget && step == TR_SENT) {
		if (t->req.state != REQ_RUN)
			return TR_IDLE;
		step = req_send_one(t);
		--*budget;
	}
	return step;
}
