/*
 * resources.c - responder resources (IBTA vol. 1, 9.7.5.1.2): READs, atomics, ATOMIC_WRITE
 * and FLUSH are executed once, and answered as often as the requester asks.
 *
 * Theory of operation
 * -------------------
 * A ring of max_dest_rd_atomic resources remembers the latest of these requests. Executing
 * one pushes a resource whose response is due; res_run() sends what is due, in PSN order. A
 * READ takes no data when it is executed: each response packet reads memory when its turn
 * comes. An atomic is executed once, and what the memory held is kept.
 *
 * A duplicate (9.7.5.1.4) makes the response of its resource due again, a READ's from any
 * packet on. What was never sent is no duplicate, though its PSN was seen before. A response
 * that meets a page fault, or memory that is gone, ends in what the
 * request would have ended in: a wait, an RNR NAK, silence or a fatal NAK, and the
 * requester will ask again for all that it misses.
 *
 * Who may ask is judged by responder_execute.c before.
 */
#include <stdlib.h>

#include "emu/diagnose.h"

/* --- the ring --------------------------------------------------------------------- */

void res_forget(struct tr_resp *resp)
{
	resp->res_first = resp->res_count = resp->res_due = resp->res_next = 0;
	resp->waiting = false;
}

void res_reset(struct tr_resp *resp)
{
	res_forget(resp);
	free(resp->res);
	resp->res = NULL;
	resp->res_size = 0;
}

static struct tr_res *res_at(struct tr_resp *resp, uint32_t i)
{
	i += resp->res_first;
	return &resp->res[i < resp->res_size ? i : i - resp->res_size];
}

static bool res_is_due(const struct tr_res *r)
{
	return r->cur != r->end;
}

/* Room for max_dest_rd_atomic resources, made when the first is needed */
static bool res_grow(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;
	uint32_t size = t->qp->attr.max_dest_rd_atomic, i;
	struct tr_res *res;

	res = malloc(size * sizeof(*res));
	if (!res)
		return false;
	for (i = 0; i < resp->res_count; i++)
		res[i] = *res_at(resp, i);
	free(resp->res);
	resp->res = res;
	resp->res_size = size;
	resp->res_first = 0;
	return true;
}

/*
 * 9.7.5.1.2: is there a resource for another request? It is the requester's duty not to
 * ask for more than max_dest_rd_atomic at once.
 */
static bool res_available(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	if (resp->res_size < t->qp->attr.max_dest_rd_atomic && !res_grow(t))
		return false;
	return resp->res_count < resp->res_size ||
	       (resp->res_size && res_at(resp, 0)->answered);
}

/* Keep the request @h; its response, @npsn packets, is due. */
static struct tr_res *res_push(struct tr_qp *t, const struct roce_hdr *h, uint32_t npsn)
{
	struct tr_resp *resp = &t->resp;
	struct tr_res *r;

	if (resp->res_count == resp->res_size) {
		if (res_is_due(res_at(resp, 0)))
			resp->res_due--;
		resp->res_first = (resp->res_first + 1) % resp->res_size;
		resp->res_count--;
		if (resp->res_next)
			resp->res_next--;
	}
	if (!resp->res_due)
		resp->res_next = resp->res_count;
	r = res_at(resp, resp->res_count++);
	*r = (struct tr_res){
	    .va = h->va,
	    .rkey = h->rkey,
	    .len = h->dma_len,
	    .first_psn = h->psn,
	    .npsn = npsn,
	    .end = npsn,
	    .msn = (resp->msn + 1) & ROCE_MSN_MASK,
	    .srqn = h->xrc_srqn,
	    .opcode = h->opcode & ROCE_OP_MASK,
	};
	resp->res_due++;
	return r;
}

/* Answer again from packet @start to @end. */
static void res_again(struct tr_resp *resp, uint32_t i, uint32_t start, uint32_t end)
{
	struct tr_res *r = res_at(resp, i);

	if (!res_is_due(r)) {
		resp->res_due++;
		if (resp->res_due == 1 || i < resp->res_next)
			resp->res_next = i;
	}
	r->again = true;
	r->start = r->cur = start;
	r->end = end;
}

/* Nothing is due any more: the requester will ask again for what it misses. */
static void res_abandon(struct tr_resp *resp)
{
	uint32_t i;

	for (i = 0; i < resp->res_count; i++) {
		res_at(resp, i)->cur = res_at(resp, i)->end;
		res_at(resp, i)->answered = true;
	}
	resp->res_due = 0;
}

static struct tr_res *res_first_due(struct tr_resp *resp)
{
	while (!res_is_due(res_at(resp, resp->res_next)))
		resp->res_next++;
	return res_at(resp, resp->res_next);
}

/* --- READ, atomics, ATOMIC_WRITE, FLUSH ------------------------------------------- */

uint32_t res_psns(const struct emu_qp *qp, uint32_t len)
{
	return len ? (uint32_t)(((uint64_t)len + qp->mtu - 1) / qp->mtu) : 1;
}

static enum resp_verdict do_read(struct tr_qp *t, const struct roce_hdr *h)
{
	struct resp_remote r = {h->rkey, h->va, h->dma_len, IBV_ACCESS_REMOTE_READ};
	struct emu_mem mem;

	if (!res_available(t))
		return resp_invalid(t, REFUSE_DEPTH);
	if (h->dma_len && resp_remote_get(t, &r, h->xrc_srqn, &mem))
		return V_ACCESS;
	res_push(t, h, res_psns(t->qp, h->dma_len));
	return V_OK;
}

static enum resp_verdict do_atomic(struct tr_qp *t, const struct roce_hdr *h)
{
	struct odp_access acc = {
	    .now = t->qp->hca->now, .remote = true, .waiter = &t->resp.fault};
	struct resp_remote r = {h->rkey, h->va, 8, IBV_ACCESS_REMOTE_ATOMIC};
	struct emu_mem mem;
	uint64_t orig;
	int ret;

	if (h->va & 7)
		return resp_invalid(t, REFUSE_ALIGN);
	if (!res_available(t))
		return resp_invalid(t, REFUSE_DEPTH);
	if (resp_remote_get(t, &r, h->xrc_srqn, &mem))
		return V_ACCESS;
	if ((h->opcode & ROCE_OP_MASK) == ROCE_CMP_SWAP)
		ret =
		    odp_cmp_swap(mem.mr, mem.iova, h->compare, h->swap_add, &orig, &acc);
	else
		ret = odp_fetch_add(mem.mr, mem.iova, h->swap_add, &orig, &acc);
	if (ret == -EAGAIN)
		return resp_defer(t, &acc);
	if (ret)
		return ret == -EINVAL ? V_INVALID : V_ACCESS;
	res_push(t, h, 1)->orig = orig;
	return V_OK;
}

static enum resp_verdict do_atomic_write(struct tr_qp *t, const struct roce_hdr *h,
					 const uint8_t *data, uint32_t len)
{
	struct odp_access acc = {
	    .now = t->qp->hca->now, .remote = true, .waiter = &t->resp.fault};
	struct resp_remote r = {h->rkey, h->va, 8, IBV_ACCESS_REMOTE_WRITE};
	struct emu_mem mem;
	uint64_t value;
	int ret;

	if (len != 8 || h->dma_len != 8 || (h->va & 7) || !res_available(t))
		return V_INVALID;
	if (resp_remote_get(t, &r, h->xrc_srqn, &mem))
		return V_ACCESS;
	memcpy(&value, data, sizeof(value));
	ret = odp_store64(mem.mr, mem.iova, value, &acc);
	if (ret == -EAGAIN)
		return resp_defer(t, &acc);
	if (ret)
		return ret == -EINVAL ? V_INVALID : V_ACCESS;
	res_push(t, h, 1);
	return V_OK;
}

/*
 * Annex A19: memory here is visible as soon as it is written, so that nothing is left to
 * do but to check who asks.
 */
static enum resp_verdict do_flush(struct tr_qp *t, const struct roce_hdr *h)
{
	struct resp_remote r = {h->rkey, h->va, h->dma_len, 0};
	bool whole_mr = h->flush_level == 1;
	struct emu_mem mem;
	int ret;

	if (!h->flush_type || (h->flush_type & ~3) || h->flush_level > 1 ||
	    !res_available(t))
		return V_INVALID;
	if (h->flush_type & 1)
		r.access |= EMU_ACCESS_FLUSH_GLOBAL;
	if (h->flush_type & 2)
		r.access |= EMU_ACCESS_FLUSH_PERSISTENT;
	if (whole_mr)
		r.rest = 0;
	if (whole_mr || r.rest) {
		ret = resp_remote_get(t, &r, h->xrc_srqn, &mem);
		if (ret && !(whole_mr && ret == -ERANGE))
			return V_ACCESS;
	}
	res_push(t, h, 1);
	return V_OK;
}

enum resp_verdict res_execute(struct tr_qp *t, const struct roce_hdr *h,
			      const uint8_t *data, uint32_t len)
{
	switch (h->opcode & ROCE_OP_MASK) {
	case ROCE_READ_REQ:
		return do_read(t, h);
	case ROCE_CMP_SWAP:
	case ROCE_FETCH_ADD:
		return do_atomic(t, h);
	case ROCE_ATOMIC_WRITE:
		return do_atomic_write(t, h, data, len);
	case ROCE_FLUSH:
		return do_flush(t, h);
	default:
		return V_INVALID;
	}
}

/* --- duplicates ------------------------------------------------------------------- */

/* The memory of a READ response failed or is not there: say so instead of it. */
static void read_stops(struct tr_qp *t, const struct tr_res *r, enum resp_verdict v)
{
	uint32_t psn = roce_psn_add(r->first_psn, r->cur), pos = r->cur * t->qp->mtu;
	uint32_t before = (r->msn - 1) & ROCE_MSN_MASK; /* the READ is not complete */

	if (v == V_HOLD) {
		t->resp.waiting = true;
		return;
	}
	res_abandon(&t->resp);
	if (v == V_RNR) {
		/* in the state that the requests have: it is about what was executed */
		t->resp.nak = ROCE_AETH_RNR | t->resp.rnr_code;
		t->resp.nak_psn = psn;
		t->resp.nak_msn = before;
		t->resp.unready_psn = psn;
		t->resp.unready_until = t->qp->hca->now + tr_rnr_ns(t->resp.rnr_code);
	} else if (v == V_ACCESS) {
		diagnose_read(t, r->rkey, r->va + pos, r->len - pos);
		resp_fatal(t, v, psn, false);
		t->resp.nak_msn = before;
	} else if (v == V_DROP) {
		t->resp.ack_due = false; /* it would say that a response was lost */
	}
}

/*
 * Asked for again while the responses wait for a fault whose end is not known: try again, and
 * this time say so if they must wait still.
 */
static void read_pressed(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	if (resp->waiting && resp->read_fault.linked && resp->state != RESP_DYING &&
	    resp_impatient(t))
		resp->waiting = false;
}

/* A READ asked for again: all of it, or from a packet on. Was any of it sent before? */
static bool read_again(struct tr_qp *t, const struct roce_hdr *h, uint32_t i)
{
	struct tr_res *r = res_at(&t->resp, i);
	uint32_t k = psn_diff(h->psn, r->first_psn);
	uint64_t pos = (uint64_t)k * t->qp->mtu;
	uint64_t end = pos + h->dma_len;

	/* 9.7.5.1.4: it must lie within what was asked for the first time */
	if (h->rkey != r->rkey || h->va != r->va + pos || end > r->len ||
	    (end != r->len && end % t->qp->mtu))
		return true;
	read_pressed(t);
	res_again(&t->resp, i, k, k + res_psns(t->qp, h->dma_len));
	tr_sched(t);
	return k < r->sent;
}

bool res_duplicate(struct tr_qp *t, const struct roce_hdr *h)
{
	struct tr_resp *resp = &t->resp;
	struct tr_res *r;
	uint32_t i;

	/* the newest first: with long READs the PSNs of old ones come around */
	for (i = resp->res_count; i-- > 0;) {
		r = res_at(resp, i);
		if (psn_diff(h->psn, r->first_psn) >= r->npsn ||
		    r->opcode != (h->opcode & ROCE_OP_MASK))
			continue;
		if (r->opcode == ROCE_READ_REQ)
			return read_again(t, h, i);
		res_again(resp, i, 0, 1);
		tr_sched(t);
		return true;
	}
	return true;
}

/* --- answering -------------------------------------------------------------------- */

static uint8_t read_response_op(const struct tr_res *r)
{
	bool first = r->cur == r->start, last = r->cur + 1 == r->end;

	if (last)
		return first ? ROCE_READ_RESP_ONLY : ROCE_READ_RESP_LAST;
	return first ? ROCE_READ_RESP_FIRST : ROCE_READ_RESP_MIDDLE;
}

/* Data of packet @r->cur of a READ. V_OK, or why not */
static enum resp_verdict read_data(struct tr_qp *t, const struct tr_res *r, uint8_t *data,
				   uint32_t len)
{
	struct odp_access acc = {
	    .now = t->qp->hca->now, .remote = true, .waiter = &t->resp.read_fault};
	uint32_t pos = r->cur * t->qp->mtu;
	struct resp_remote rem = {r->rkey, r->va + pos, r->len - pos,
				  IBV_ACCESS_REMOTE_READ};
	struct emu_mem mem;
	int ret;

	if (resp_remote_get(t, &rem, r->srqn, &mem))
		return V_ACCESS;
	acc.ahead = rem.rest - len;
	ret = odp_read(mem.mr, mem.iova, data, len, &acc);
	if (ret == -EAGAIN && t->resp.state == RESP_DYING) {
		/* the last word is a NAK, behind this response */
		resp_start_timer(t, acc.ready_at);
		return V_HOLD;
	}
	if (ret)
		return ret == -EAGAIN ? resp_defer(t, &acc) : V_ACCESS;
	return V_OK;
}

static void response_sent(struct tr_resp *resp, struct tr_res *r)
{
	resp->pressed = false;
	if (++r->cur > r->sent)
		r->sent = r->cur;
	if (r->cur != r->end)
		return;
	r->answered = true;
	resp->res_due--;
}

static enum tr_step send_response(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;
	struct tr_res *r = res_first_due(resp);
	struct emu_qp *qp = t->qp;
	enum resp_verdict v = V_OK;
	struct roce_hdr h;
	uint32_t len = 0, total;
	uint8_t *data;

	if (r->opcode == ROCE_CMP_SWAP || r->opcode == ROCE_FETCH_ADD) {
		tr_hdr(qp, &h, ROCE_ATOMIC_ACK);
		h.orig = r->orig;
	} else {
		tr_hdr(qp, &h, read_response_op(r));
	}
	if (r->opcode == ROCE_READ_REQ) {
		len = r->len - r->cur * qp->mtu;
		if (len > qp->mtu)
			len = qp->mtu;
	}
	h.psn = roce_psn_add(r->first_psn, r->cur);
	h.syndrome = ROCE_AETH_ACK | ROCE_AETH_CREDIT_INVALID;
	h.msn = r->msn;
	data = tr_tx_open(qp->hca, &qp->path, &h, len, &total);
	if (!data)
		return TR_FULL;
	if (len)
		v = read_data(t, r, data, len);
	if (v != V_OK) {
		read_stops(t, r, v);
		return TR_IDLE;
	}
	tr_tx_close(qp, &h, len, total,
		    r->again ? TRACE_WHY_RESPONSE_AGAIN : TRACE_WHY_RESPONSE);
	response_sent(resp, r);
	return TR_SENT;
}

enum tr_step res_run(struct tr_qp *t, uint32_t *budget)
{
	struct tr_resp *resp = &t->resp;
	enum tr_step step;

	while (resp->state != RESP_OFF && resp->res_due) {
		if (resp->waiting)
			return TR_IDLE;
		if (!*budget)
			return TR_SENT;
		--*budget;
		step = send_response(t);
		if (step == TR_FULL)
			return step;
	}
	return TR_IDLE;
}
