/*
 * sim_verbs.c - what libibverbs and librxe do for an application: objects, posting,
 * polling.
 *
 * Rings are used exactly as providers/rxe of rdma-core uses them: geometry and indices
 * from struct rxe_queue_buf, WQEs as struct rxe_send_wqe and struct rxe_recv_wqe,
 * completions as struct ib_uverbs_wc.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "tests/emu/reg_mr.h"

static struct rxe_queue_buf *ring_of(struct emu_ring_info info)
{
	return (struct rxe_queue_buf *)(uintptr_t)info.offset;
}

static void *slot(struct rxe_queue_buf *q, uint32_t index)
{
	return q->data + ((size_t)(index & q->index_mask) << q->log2_elem_size);
}

static bool ring_full(struct rxe_queue_buf *q)
{
	return q->consumer_index == ((q->producer_index + 1) & q->index_mask);
}

static void ring_advance(struct rxe_queue_buf *q)
{
	__atomic_store_n(&q->producer_index, (q->producer_index + 1) & q->index_mask,
			 __ATOMIC_RELEASE);
}

/* --- creation --------------------------------------------------------------------- */

int sim_cq_create(struct sim_host *h, struct sim_cq *cq, uint32_t cqe)
{
	int err = emu_cq_create(h->hca, h, cq, cqe, &cq->cq);

	if (err)
		return err;
	cq->host = h;
	cq->ring = ring_of(emu_cq_ring(cq->cq));
	if (cq->ring->index_mask < cqe ||
	    1u << cq->ring->log2_elem_size < sizeof(struct ib_uverbs_wc))
		sim_fail(h->w, "h%u: a CQ of %u entries has a ring that is too small",
			 h->id, cqe);
	return 0;
}

int sim_cq_resize(struct sim_cq *cq, uint32_t cqe)
{
	int err = emu_cq_resize(cq->cq, cqe);

	if (!err)
		cq->ring = ring_of(emu_cq_ring(cq->cq));
	return err;
}

#define ALL_ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |     \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | SIM_ACCESS_FLUSH)

static const struct {
	enum sim_arena_kind arena;
	uint64_t delta;
	int access;
	bool pd2;
} mr_plan[SIM_MRS] = {
    [SIM_MR_PIN] = {SIM_PINNED, 0, ALL_ACCESS},
    [SIM_MR_PIN_IOVA] = {SIM_PINNED, 0x123450000000, ALL_ACCESS},
    [SIM_MR_ODP] = {SIM_ONDEMAND, 0, ALL_ACCESS | IBV_ACCESS_ON_DEMAND},
    [SIM_MR_ODP_IOVA] = {SIM_ONDEMAND, -0x23456000000ull,
			 ALL_ACCESS | IBV_ACCESS_ON_DEMAND},
    [SIM_MR_IMPLICIT] = {SIM_ONDEMAND, 0, ALL_ACCESS | IBV_ACCESS_ON_DEMAND},
    [SIM_MR_LOCAL] = {SIM_PINNED, 0, IBV_ACCESS_LOCAL_WRITE},
    [SIM_MR_RREAD] = {SIM_PINNED, 0, IBV_ACCESS_REMOTE_READ},
    [SIM_MR_RWRITE] = {SIM_PINNED, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE},
    [SIM_MR_RDONLY] = {SIM_PINNED, 0, 0},
    [SIM_MR_PD2] = {SIM_PINNED, 0, ALL_ACCESS, true},
};

static int mr_create(struct sim_host *h, uint32_t i)
{
	struct sim_mr *mr = &h->mr[i];
	struct emu_pd *pd = mr_plan[i].pd2 ? h->pd2 : h->pd;
	uint64_t start, len = SIM_ARENA_LEN, iova;
	int access = mr_plan[i].access, err;

	mr->arena = mr_plan[i].arena;
	mr->delta = mr_plan[i].delta;
	mr->len = SIM_ARENA_LEN;
	mr->access = access;
	start = (uintptr_t)h->arena[mr->arena].base;
	iova = start + mr->delta;
	if (i == SIM_MR_IMPLICIT) {
		start = iova = 0;
		len = SIZE_MAX;
		/* rxe refuses windows on it; what is asked for is what mlx5 grants */
		access &= ~IBV_ACCESS_MW_BIND;
	}
	err = reg_mr(pd, start, len, iova, access, &mr->mr);
	if (err) {
		sim_fail(h->w, "h%u: MR %u is refused: %s", h->id, i, strerror(-err));
		return err;
	}
	mr->lkey = emu_mr_lkey(mr->mr);
	mr->rkey = emu_mr_rkey(mr->mr);
	return 0;
}

int sim_mrs_create(struct sim_host *h)
{
	int err = emu_pd_create(h->hca, &h->pd);

	if (!err)
		err = emu_pd_create(h->hca, &h->pd2);
	for (uint32_t i = 0; i < SIM_MRS && !err; i++)
		err = mr_create(h, i);
	return err;
}

int sim_srq_create(struct sim_host *h, uint32_t wr, uint32_t sge, struct sim_cq *xrc_cq)
{
	struct ibv_srq_attr attr = {.max_wr = wr, .max_sge = sge};
	struct sim_srq *s = &h->srq[h->srqs];
	int err = 0;

	if (xrc_cq && !h->xrcd)
		err = emu_xrcd_create(h->hca, &h->xrcd);
	if (!err)
		err = emu_srq_create(h->pd, h, s, &attr, xrc_cq ? h->xrcd : NULL,
				     xrc_cq ? xrc_cq->cq : NULL, &s->srq);
	if (err)
		return err;
	s->host = h;
	s->id = h->srqs++;
	s->num = emu_srq_num(s->srq);
	s->cq = xrc_cq;
	s->rq.ring = ring_of(emu_srq_ring(s->srq));
	s->rq.max_sge = sge;
	return 0;
}

int sim_qp_create(struct sim_host *h, struct sim_qp *q, uint32_t send_wr,
		  uint32_t recv_wr)
{
	struct emu_qp_init init = {
	    .type = q->type,
	    .pd = h->pd,
	    .send_cq = q->scq->cq,
	    .recv_cq = q->rcq->cq,
	    .srq = q->srq ? q->srq->srq : NULL,
	    .cap = {.max_send_wr = send_wr,
		    .max_recv_wr = q->srq ? 0 : recv_wr,
		    .max_send_sge = SIM_SGES,
		    .max_recv_sge = q->srq ? 0 : SIM_SGES,
		    .max_inline_data = SIM_INLINE_MAX},
	    .sq_sig_all = q->sig_all,
	    .owner = h,
	    .cookie = q,
	};
	int err;

	if (q->type == IBV_QPT_XRC_RECV) {
		init.pd = NULL;
		init.send_cq = init.recv_cq = NULL;
		init.xrcd = h->xrcd;
	}
	if (sim_is_xrc(q->type))
		init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
	err = emu_qp_create(h->hca, &init, &q->qp);

	if (err) {
		sim_fail(h->w, "h%u: a QP is refused: %s", h->id, strerror(-err));
		return err;
	}
	q->host = h;
	q->qpn = emu_qp_num(q->qp);
	q->max_sge = SIM_SGES;
	q->max_inline = SIM_INLINE_MAX;
	q->sq = ring_of(emu_qp_sq_ring(q->qp));
	q->rq.ring =
	    q->srq || sim_is_xrc(q->type) ? NULL : ring_of(emu_qp_rq_ring(q->qp));
	q->rq.max_sge = SIM_SGES;
	if (!emu_hca_qp(h->hca, q->qpn))
		sim_fail(h->w, "h%u: does not know its QPN %#x", h->id, q->qpn);
	return 0;
}

/* --- QP states -------------------------------------------------------------------- */

static int to_init(struct sim_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = EMU_PORT};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	if (q->type == IBV_QPT_UD) {
		a.qkey = q->qkey;
		mask |= IBV_QP_QKEY;
	} else {
		a.qp_access_flags =
		    (unsigned int)ALL_ACCESS & ~(unsigned int)IBV_ACCESS_MW_BIND;
		mask |= IBV_QP_ACCESS_FLAGS;
	}
	return emu_qp_modify(q->qp, &a, mask);
}

static enum ibv_mtu mtu_enum(uint32_t bytes)
{
	enum ibv_mtu m = IBV_MTU_256;

	while (256u << (m - IBV_MTU_256) < bytes)
		m++;
	return m;
}

static int to_rtr(struct sim_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR};
	int mask = IBV_QP_STATE;

	if (q->type != IBV_QPT_UD) {
		struct sim_qp *p = q->peer;

		a.path_mtu = mtu_enum(q->mtu);
		a.dest_qp_num = p->qpn;
		a.rq_psn = q->rq_psn;
		a.ah_attr.is_global = 1;
		a.ah_attr.port_num = EMU_PORT;
		a.ah_attr.grh.hop_limit = 64;
		memcpy(a.ah_attr.grh.dgid.raw, p->host->ip.b, 16);
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	}
	if (q->type == IBV_QPT_RC || q->type == IBV_QPT_XRC_RECV) {
		a.max_dest_rd_atomic = (uint8_t)q->peer->rd_atomic;
		a.min_rnr_timer = q->rnr_timer;
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	return emu_qp_modify(q->qp, &a, mask);
}

static int to_rts(struct sim_qp *q)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS, .sq_psn = q->sq_psn};
	int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

	if (q->type == IBV_QPT_XRC_RECV) {
		a.timeout = q->timeout;
		mask |= IBV_QP_TIMEOUT;
	} else if (sim_is_reliable(q->type)) {
		a.timeout = q->timeout;
		a.retry_cnt = q->retry_cnt;
		a.rnr_retry = q->rnr_retry;
		a.max_rd_atomic = (uint8_t)q->rd_atomic;
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	}
	return emu_qp_modify(q->qp, &a, mask);
}

int sim_qp_connect(struct sim_qp *q)
{
	int err = to_init(q);

	if (!err)
		err = to_rtr(q);
	if (!err && !q->stay_rtr)
		err = to_rts(q);
	if (err)
		sim_fail(q->host->w, "q%u cannot be connected: %s", q->id,
			 strerror(-err));
	return err;
}

int sim_qp_state(struct sim_qp *q, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = {.qp_state = state, .cur_qp_state = IBV_QPS_SQD};
	int mask = IBV_QP_STATE;

	if (state == IBV_QPS_SQD) {
		a.en_sqd_async_notify = 1;
		mask |= IBV_QP_EN_SQD_ASYNC_NOTIFY;
	}
	if (sim_tracing(q->host->w))
		sim_trace(q->host->w, "q%u is moved to state %d", q->id, state);
	emu_hca_set_time(q->host->hca, q->host->w->now);
	return emu_qp_modify(q->qp, &a, mask);
}

/* --- posting ---------------------------------------------------------------------- */

static void fill_sges(struct rxe_dma_info *dma, const struct sim_sge *sge, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		dma->sge[i] = (struct rxe_sge){sge[i].addr, sge[i].len, sge[i].lkey};
}

/* union wr.flush of newer <rdma/rdma_user_rxe.h> */
struct flush_wr {
	uint64_t remote_addr;
	uint32_t length, rkey;
	uint8_t type, level;
};

static void fill_wr(struct rxe_send_wr *wr, const struct sim_qp *q,
		    const struct sim_op *op)
{
	struct flush_wr flush = {op->va, op->len, op->rkey, 1 /* IB_FLUSH_GLOBAL */, 0};

	switch (op->opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wr->wr.atomic.remote_addr = op->va;
		wr->wr.atomic.rkey = op->rkey;
		wr->wr.atomic.compare_add = op->compare_add;
		wr->wr.atomic.swap = op->swap;
		break;
	case IBV_WR_BIND_MW:
		wr->wr.mw.addr = op->mw.addr;
		wr->wr.mw.length = op->mw.length;
		wr->wr.mw.mr_lkey = op->mw.mr_lkey;
		wr->wr.mw.mw_rkey = op->mw.mw_rkey;
		wr->wr.mw.rkey = op->mw.rkey;
		wr->wr.mw.access = op->mw.access;
		break;
	case SIM_WR_FLUSH:
		memcpy(&wr->wr, &flush, sizeof(flush));
		break;
	default:
		if (q->type == IBV_QPT_UD) {
			wr->wr.ud.remote_qpn = op->ud.qpn;
			wr->wr.ud.remote_qkey = op->ud.qkey;
			wr->wr.ud.ah_num = emu_ah_num(op->ud.ah);
		} else {
			wr->wr.rdma.remote_addr = op->va;
			wr->wr.rdma.rkey = op->rkey;
		}
	}
}

static void post_send(struct sim_qp *q, struct sim_op *op)
{
	struct rxe_send_wqe *wqe = slot(q->sq, q->sq->producer_index);

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr.wr_id = op->wr_id;
	wqe->wr.opcode = op->opcode;
	wqe->wr.send_flags = op->flags;
	if (op->xsrq)
		wqe->wr.reserved = op->xsrq->num; /* see emu/wqe.c */
	wqe->wr.ex.imm_data = op->ex;
	fill_wr(&wqe->wr, q, op);
	if (op->opcode == SIM_WR_ATOMIC_WRITE || (op->flags & IBV_SEND_INLINE))
		memcpy(wqe->dma.inline_data, op->inl, op->len);
	else
		fill_sges(&wqe->dma, op->sge, op->nsge);
	wqe->iova = op->va;
	wqe->dma.length = wqe->dma.resid = op->len;
	/* wr_set_sge_list() of librxe before v60 sums up the first SGE n times */
	if (op->nsge > 1 && !(op->flags & IBV_SEND_INLINE) && op->wr_id % 3 == 0)
		wqe->dma.length = wqe->dma.resid = op->nsge * op->sge[0].len;
	wqe->dma.num_sge = op->nsge;
	wqe->ssn = q->ssn++;
	ring_advance(q->sq);
	op->state = SIM_OP_POSTED;
}

bool sim_qp_push(struct sim_qp *q)
{
	struct sim_world *w = q->host->w;
	uint32_t first = q->next;

	while (q->qp && q->next < q->credit && q->next < q->n && !ring_full(q->sq)) {
		if (sim_tracing(w))
			sim_trace(w, "q%u posts send %u", q->id, q->next);
		post_send(q, &q->op[q->next++]);
	}
	if (q->next == first)
		return false;
	emu_hca_set_time(q->host->hca, w->now);
	emu_qp_doorbell(q->qp);
	return true;
}

void sim_rq_push(struct sim_rq *rq)
{
	while (rq->ring && rq->next < rq->credit && rq->next < rq->n &&
	       !ring_full(rq->ring)) {
		struct sim_recv *r = &rq->recv[rq->next++];
		struct rxe_recv_wqe *wqe = slot(rq->ring, rq->ring->producer_index);

		wqe->wr_id = r->wr_id;
		fill_sges(&wqe->dma, r->sge, r->nsge);
		wqe->dma.length = wqe->dma.resid = r->len;
		wqe->dma.cur_sge = wqe->dma.sge_offset = 0;
		wqe->dma.num_sge = r->nsge;
		ring_advance(rq->ring);
		r->posted = true;
	}
}

/* --- polling ---------------------------------------------------------------------- */

void sim_poll(struct sim_cq *cq)
{
	struct rxe_queue_buf *q = cq->ring;
	struct ib_uverbs_wc wc;

	while (!cq->hold && q->consumer_index !=
				__atomic_load_n(&q->producer_index, __ATOMIC_ACQUIRE)) {
		memcpy(&wc, slot(q, q->consumer_index), sizeof(wc));
		__atomic_store_n(&q->consumer_index,
				 (q->consumer_index + 1) & q->index_mask,
				 __ATOMIC_RELEASE);
		if (wc.vendor_err == EMU_WC_FORGOTTEN)
			continue; /* as the poll that urxe wraps does */
		cq->polled++;
		cq->host->w->wcs++;
		sim_model_wc(cq, &wc);
		if (cq->host->w->failed)
			return;
		q = cq->ring;
	}
}

/* --- destruction ------------------------------------------------------------------ */

static void must(struct sim_host *h, int err, const char *what)
{
	if (err)
		sim_fail(h->w, "h%u: %s: %s", h->id, what, strerror(-err));
}

void sim_qp_destroy(struct sim_qp *q)
{
	if (!q->qp)
		return;
	emu_hca_set_time(q->host->hca, q->host->w->now);
	must(q->host, emu_qp_destroy(q->qp), "a QP cannot be destroyed");
	q->qp = NULL;
	q->sq = q->rq.ring = NULL;
	q->lost = true;
}

void sim_objects_destroy(struct sim_host *h)
{
	struct sim_world *w = h->w;

	if (!h->hca)
		return;
	for (uint32_t i = 0; i < w->nqps; i++) {
		if (w->qp[i].host == h)
			sim_qp_destroy(&w->qp[i]);
	}
	if (h->pd && h->mr[0].mr && emu_pd_destroy(h->pd) != -EBUSY)
		sim_fail(w, "h%u: a PD in use can be destroyed", h->id);
	for (uint32_t i = 0; i < h->mws; i++)
		must(h, emu_mw_dealloc(h->mw[i].mw), "an MW cannot be deallocated");
	for (uint32_t i = 0; i < SIM_MRS; i++) {
		if (h->mr[i].mr)
			must(h, emu_mr_dereg(h->mr[i].mr),
			     "an MR cannot be deregistered");
	}
	for (uint32_t i = 0; i <= SIM_HOSTS; i++) {
		if (h->ah[i])
			must(h, emu_ah_destroy(h->ah[i]), "an AH cannot be destroyed");
	}
	for (uint32_t i = 0; i < h->srqs; i++)
		must(h, emu_srq_destroy(h->srq[i].srq), "an SRQ cannot be destroyed");
	if (h->xrcd)
		must(h, emu_xrcd_destroy(h->xrcd), "an XRC domain cannot be destroyed");
	for (uint32_t i = 0; i < h->cqs; i++)
		must(h, emu_cq_destroy(h->cq[i].cq), "a CQ cannot be destroyed");
	if (h->pd)
		must(h, emu_pd_destroy(h->pd), "a PD cannot be destroyed");
	if (h->pd2)
		must(h, emu_pd_destroy(h->pd2), "a PD cannot be destroyed");
	h->cqs = 0;
}
