/*
 * srq.c - receive WQEs: shared receive queues, and taking WQEs from them and from a QP's
 * own ring.
 *
 * The application is the producer, we are the consumer. A WQE is copied out, bounded by
 * what the queue was made for, before anything in it is believed.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/qp.h"

uint32_t emu_recv_wqe_size(uint32_t max_sge)
{
	return sizeof(struct rxe_recv_wqe) + max_sge * sizeof(struct rxe_sge);
}

/* ibv_create_srq(3); rxe_srq_chk_init() */
static int check_init(const struct emu_limits *l, struct ibv_srq_attr *attr)
{
	if (!l->max_srq)
		return -EOPNOTSUPP;
	if (attr->max_wr == 0 || attr->max_wr > l->max_srq_wr)
		return -EINVAL;
	if (attr->max_sge > l->max_srq_sge)
		return -EINVAL;
	if (attr->max_sge == 0)
		attr->max_sge = 1;
	return 0;
}

static void take_refs(struct emu_srq *srq, int n)
{
	srq->pd->users += n;
	if (srq->xrcd)
		srq->xrcd->users += n;
	if (srq->cq)
		srq->cq->users += n;
}

/* What others see of it */
static int show_new(struct emu_srq *srq)
{
	struct trace_object *o = recorder_object(srq->hca->cfg.recorder);

	if (!o)
		return -ENOMEM;
	o->id = srq->num;
	o->device = srq->hca->cfg.device;
	o->created = srq->hca->now;
	o->srq.pd = srq->pd->num;
	srq->seen = o;
	emu_show_srq(srq);
	recorder_object_ready(o, TRACE_OBJ_SRQ);
	return 0;
}

int emu_srq_create(struct emu_pd *pd, void *owner, void *cookie,
		   struct ibv_srq_attr *attr, struct emu_xrcd *xrcd, struct emu_cq *cq,
		   struct emu_srq **out)
{
	struct emu_hca *hca = pd->hca;
	struct emu_srq *srq;
	uint8_t last;
	int ret;

	if (!xrcd != !cq)
		return -EINVAL;
	ret = check_init(&hca->limits, attr);
	if (ret) {
		emu_made(hca, TRACE_OBJ_SRQ, 0, pd->num, attr->max_wr, ret);
		return ret;
	}
	if (hca->srqs.used >= hca->limits.max_srq)
		return -ENOMEM;
	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return -ENOMEM;
	*srq = (struct emu_srq){.hca = hca, .pd = pd, .xrcd = xrcd, .cq = cq};
	srq->owner = owner;
	srq->cookie = cookie;
	srq->max_sge = attr->max_sge;
	srq->limit = attr->srq_limit;
	ret = emu_ring_create(hca, owner, attr->max_wr, emu_recv_wqe_size(srq->max_sge),
			      &srq->ring);
	if (ret)
		goto err_free;
	ret = emu_table_add(&hca->srqs, srq, &srq->num, &last);
	if (ret)
		goto err_ring;
	srq->max_wr = srq->ring.slots - 1;
	ret = show_new(srq);
	if (ret)
		goto err_table;
	attr->max_wr = srq->max_wr;
	take_refs(srq, 1);
	emu_made(hca, TRACE_OBJ_SRQ, srq->num, pd->num, srq->max_wr, 0);
	*out = srq;
	return 0;

err_table:
	emu_table_del(&hca->srqs, srq->num, 0);
err_ring:
	emu_ring_destroy(hca, &srq->ring);
err_free:
	free(srq);
	return ret;
}

/*
 * ibv_modify_srq(3); rxe_srq_chk_attr(), but a limit is compared with the size that will
 * be
 */
static int check_modify(const struct emu_srq *srq, const struct ibv_srq_attr *attr,
			int mask)
{
	uint32_t max_wr = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->max_wr;
	const struct emu_limits *l = &srq->hca->limits;

	if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
		return -EINVAL;
	if (mask & IBV_SRQ_MAX_WR) {
		if (!(l->device_cap_flags & IBV_DEVICE_SRQ_RESIZE))
			return -EINVAL;
		if (max_wr == 0 || max_wr > l->max_srq_wr)
			return -EINVAL;
		if (!(mask & IBV_SRQ_LIMIT) && max_wr < srq->limit)
			return -EINVAL;
		if (max_wr < ring_count_from(&srq->ring, srq->ring.local))
			return -EINVAL;
	}
	if ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > max_wr)
		return -EINVAL;
	return 0;
}

int emu_srq_modify(struct emu_srq *srq, const struct ibv_srq_attr *attr, int mask)
{
	int ret = check_modify(srq, attr, mask);

	if (ret)
		return ret;
	if (mask & IBV_SRQ_MAX_WR) {
		uint32_t count = ring_count_from(&srq->ring, srq->ring.local);

		ret = emu_ring_resize(srq->hca, &srq->ring, srq->ring.local, count,
				      attr->max_wr);
		if (ret)
			return ret;
		srq->max_wr = srq->ring.slots - 1;
	}
	if (mask & IBV_SRQ_LIMIT)
		srq->limit = attr->srq_limit;
	emu_show_srq(srq);
	return 0;
}

void emu_srq_query(const struct emu_srq *srq, struct ibv_srq_attr *attr)
{
	*attr = (struct ibv_srq_attr){
	    .max_wr = srq->max_wr, .max_sge = srq->max_sge, .srq_limit = srq->limit};
}

int emu_srq_destroy(struct emu_srq *srq)
{
	emu_ended(srq->hca, TRACE_OBJ_SRQ, srq->num, srq->users ? -EBUSY : 0);
	if (srq->users)
		return -EBUSY;
	take_refs(srq, -1);
	recorder_object_free(srq->hca->cfg.recorder, srq->seen);
	emu_table_del(&srq->hca->srqs, srq->num, 0);
	emu_ring_destroy(srq->hca, &srq->ring);
	free(srq);
	return 0;
}

uint32_t emu_srq_num(const struct emu_srq *srq)
{
	return srq->num;
}

struct emu_ring_info emu_srq_ring(const struct emu_srq *srq)
{
	return emu_ring_info(&srq->ring);
}

struct emu_srq *emu_srq_find(struct emu_hca *hca, uint32_t srqn)
{
	return emu_table_get(&hca->srqs, srqn);
}

/* Take the WQE at our index of a receive ring whose WQEs have room for @max_sge SGEs. */
static int take(struct emu_ring *r, uint32_t max_sge, struct emu_recv_wqe *out)
{
	const uint8_t *p = ring_at(r, r->local);
	struct rxe_recv_wqe wqe;
	int ret = -EINVAL;

	if (ring_count_from(r, r->local) == 0)
		return -ENOENT;
	memcpy(&wqe, p, sizeof(wqe));
	out->wr_id = wqe.wr_id;
	out->num_sge = 0;
	out->length = 0;
	if (wqe.dma.num_sge <= max_sge) {
		out->num_sge = wqe.dma.num_sge;
		memcpy(out->sge, p + sizeof(wqe), out->num_sge * sizeof(out->sge[0]));
		for (uint32_t i = 0; i < out->num_sge; i++)
			out->length += out->sge[i].length;
		ret = 0;
	}
	ring_set_consumer(r, r->local + 1);
	return ret;
}

/* The limit disarms itself: IBTA 10.2.9.2 */
void emu_srq_limit_reached(struct emu_srq *srq)
{
	if (!srq->limit)
		return;
	srq->limit = 0;
	emu_event(srq->hca, IBV_EVENT_SRQ_LIMIT_REACHED, TRACE_OBJ_SRQ, srq->num,
		  srq->cookie);
}

int emu_srq_take(struct emu_srq *srq, struct emu_recv_wqe *out)
{
	int ret = take(&srq->ring, srq->max_sge, out);

	if (ret != -ENOENT && ring_count_from(&srq->ring, srq->ring.local) < srq->limit)
		emu_srq_limit_reached(srq);
	return ret;
}

int emu_rq_take(struct emu_qp *qp, struct emu_recv_wqe *out)
{
	return qp->rq.buf ? take(&qp->rq, qp->cap.max_recv_sge, out) : -ENOENT;
}
