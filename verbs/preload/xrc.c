/*
 * xrc.c - the extended reliable connection, and what else librxe lacks of libibverbs's
 * API.
 *
 * Theory of operation
 *
 * librxe has no XRC domains and target QPs, and its work requests have no remote SRQ
 * number. Its operations that we do not replace (modify, query, destroy) still get the
 * objects, whose memory must therefore be its own: a target QP is created by asking it
 * for an RC QP, with stand-ins for PD, CQ and SRQ, while uverbs_xrc_target makes the
 * device create or open an XRC target instead. Initiator QPs it creates itself; work
 * requests are written into their rings here, the remote SRQ number in
 * rxe_send_wr.reserved, where the HCA looks for it.
 *
 * An XRCD begins like libibverbs's struct verbs_xrcd, in which the library itself looks
 * for the handle when an SRQ is created.
 */
#include "verbs/preload/xrc.h"

#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "emu/queue_layout.h"
#include "verbs/uverbs/uverbs.h"

#define VERBS_XRCD_HANDLE 1u

/* As struct verbs_xrcd of libibverbs's driver.h */
struct xrc_domain {
	struct ibv_xrcd xrcd;
	uint32_t comp_mask;
	uint32_t handle;
};

/* --- commands --------------------------------------------------------------------- */

/*
 * Run a command of the device in our own name. @req begins after the header, as with
 * INVOKE_WRITE. 0 or -errno
 */
static int command(struct ibv_context *context, uint32_t number, const void *req,
		   size_t len, void *resp, size_t resp_len)
{
	struct uverbs_context *ctx = uverbs_lookup(context->cmd_fd);
	struct uverbs_call c = {
	    .ctx = ctx, .in = req, .in_len = len, .out = resp, .out_len = resp_len};
	int ret;

	if (!ctx)
		return -EOPNOTSUPP;
	if (number == IB_USER_VERBS_CMD_POST_SEND)
		engine_enter_to_post(ctx->engine);
	else
		engine_enter(ctx->engine);
	ret = uverbs_invoke(&c, number);
	uverbs_leave(ctx, c.work);
	vfile_put(&ctx->vf);
	return ret;
}

struct ibv_xrcd *xrc_open_xrcd(struct ibv_context *context,
			       struct ibv_xrcd_init_attr *attr)
{
	const uint32_t needed = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	struct ib_uverbs_open_xrcd_resp resp;
	struct ib_uverbs_open_xrcd cmd = {0};
	struct xrc_domain *d;
	int ret;

	if (attr->comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if ((attr->comp_mask & needed) != needed) {
		errno = EINVAL;
		return NULL;
	}
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	cmd.fd = (uint32_t)attr->fd;
	cmd.oflags = (uint32_t)attr->oflags;
	ret = command(context, IB_USER_VERBS_CMD_OPEN_XRCD, &cmd, sizeof(cmd), &resp,
		      sizeof(resp));
	if (ret) {
		free(d);
		errno = -ret;
		return NULL;
	}
	d->xrcd.context = context;
	d->comp_mask = VERBS_XRCD_HANDLE;
	d->handle = resp.xrcd_handle;
	return &d->xrcd;
}

int xrc_close_xrcd(struct ibv_xrcd *xrcd)
{
	struct xrc_domain *d = (struct xrc_domain *)xrcd;
	const struct ib_uverbs_close_xrcd cmd = {.xrcd_handle = d->handle};
	int err = command(xrcd->context, IB_USER_VERBS_CMD_CLOSE_XRCD, &cmd, sizeof(cmd),
			  NULL, 0);

	if (!err)
		free(d);
	return -err;
}

int xrc_get_srq_num(struct ibv_srq *srq, uint32_t *num)
{
	struct uverbs_context *ctx = uverbs_lookup(srq->context->cmd_fd);
	struct uobject *o;
	int err = EINVAL;

	if (!ctx)
		return EOPNOTSUPP;
	engine_enter(ctx->engine);
	o = uobject_find(&ctx->objects, UOBJECT_SRQ, srq->handle);
	if (o) {
		*num = emu_srq_num(o->srq);
		err = 0;
	}
	engine_progress(ctx->engine, ENGINE_CHANGED);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	return err;
}

int xrc_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		 size_t length, int access)
{
	const struct ib_uverbs_rereg_mr cmd = {
	    .mr_handle = mr->handle,
	    .flags = (uint32_t)flags,
	    .start = (uintptr_t)addr,
	    .length = length,
	    .hca_va = (uintptr_t)addr,
	    .pd_handle = flags & IBV_REREG_MR_CHANGE_PD ? pd->handle : 0,
	    .access_flags = (uint32_t)access,
	};
	struct ib_uverbs_rereg_mr_resp resp;
	int err = command(mr->context, IB_USER_VERBS_CMD_REREG_MR, &cmd, sizeof(cmd),
			  &resp, sizeof(resp));

	if (err)
		return -err;
	mr->lkey = resp.lkey;
	mr->rkey = resp.rkey;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = addr;
		mr->length = length;
	}
	return 0;
}

/* --- target QPs ------------------------------------------------------------------- */

static struct ibv_qp *make_target(xrc_create_qp_ex_fn create, struct ibv_context *context,
				  const struct uverbs_xrc_target *target,
				  void *qp_context)
{
	/* what the provider takes the handles of; the device ignores them */
	struct ibv_pd pd = {.context = context};
	struct ibv_cq cq = {.context = context};
	struct ibv_srq srq = {.context = context};
	struct ibv_qp_init_attr_ex attr = {
	    .qp_context = qp_context,
	    .send_cq = &cq,
	    .recv_cq = &cq,
	    .srq = &srq,
	    .cap = {.max_send_wr = 1, .max_send_sge = 1},
	    .qp_type = IBV_QPT_RC,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = &pd,
	};
	struct ibv_qp *qp;

	uverbs_xrc_target = *target;
	qp = create(context, &attr);
	uverbs_xrc_target = (struct uverbs_xrc_target){0};
	if (!qp)
		return NULL;
	qp->pd = NULL;
	qp->send_cq = NULL;
	qp->recv_cq = NULL;
	qp->srq = NULL;
	qp->qp_type = IBV_QPT_XRC_RECV;
	return qp;
}

struct ibv_qp *xrc_create_target(xrc_create_qp_ex_fn create, struct ibv_context *context,
				 struct ibv_qp_init_attr_ex *attr)
{
	struct uverbs_xrc_target target = {.pending = true};
	struct ibv_qp *qp;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD)) {
		errno = EINVAL;
		return NULL;
	}
	target.xrcd = ((struct xrc_domain *)attr->xrcd)->handle;
	qp = make_target(create, context, &target, attr->qp_context);
	/*
	 * A target QP belongs to no PD, but librdmacm finds here the one that it named.
	 */
	if (qp && attr->comp_mask & IBV_QP_INIT_ATTR_PD)
		qp->pd = attr->pd;
	return qp;
}

struct ibv_qp *xrc_open_target(xrc_create_qp_ex_fn create, struct ibv_context *context,
			       struct ibv_qp_open_attr *attr)
{
	const uint32_t needed =
	    IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
	struct uverbs_xrc_target target = {.pending = true, .open = true};
	void *qp_context =
	    attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT ? attr->qp_context : NULL;
	struct ibv_qp *qp;

	if ((attr->comp_mask & needed) != needed || attr->qp_type != IBV_QPT_XRC_RECV) {
		errno = EINVAL;
		return NULL;
	}
	target.xrcd = ((struct xrc_domain *)attr->xrcd)->handle;
	target.qpn = attr->qp_num;
	qp = make_target(create, context, &target, qp_context);
	if (qp)
		qp->state = IBV_QPS_UNKNOWN;
	return qp;
}

/* --- work requests of initiators -------------------------------------------------- */

/*
 * struct xrc_sq - a send ring, seen from the producer
 * @q:		in memory that the program can write
 * @info:	how it is laid out, from the HCA
 * @prod:	index of the next element to be written
 */
struct xrc_sq {
	struct rxe_queue_buf *q;
	struct emu_ring_info info;
	uint32_t prod;
};

static bool open_sq(struct uverbs_context *ctx, const struct uobject *o,
		    struct xrc_sq *sq)
{
	sq->info = emu_qp_sq_ring(o->qp);
	sq->q = ring_space_at(&ctx->rings, sq->info.offset, sq->info.size);
	if (!sq->q || !sq->info.size)
		return false;
	sq->prod = sq->q->producer_index & sq->info.mask;
	return true;
}

static bool is_full(const struct xrc_sq *sq)
{
	return ((sq->prod + 1) & sq->info.mask) ==
	       queue_load(&sq->q->consumer_index, sq->info.mask);
}

static void put_operands(const struct ibv_send_wr *wr, struct rxe_send_wqe *wqe)
{
	switch (wr->opcode) {
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		wqe->wr.wr.atomic.remote_addr = wr->wr.atomic.remote_addr;
		wqe->wr.wr.atomic.compare_add = wr->wr.atomic.compare_add;
		wqe->wr.wr.atomic.swap = wr->wr.atomic.swap;
		wqe->wr.wr.atomic.rkey = wr->wr.atomic.rkey;
		wqe->iova = wr->wr.atomic.remote_addr;
		break;
	case IBV_WR_BIND_MW:
		wqe->wr.wr.mw.addr = wr->bind_mw.bind_info.addr;
		wqe->wr.wr.mw.length = wr->bind_mw.bind_info.length;
		wqe->wr.wr.mw.mr_lkey = wr->bind_mw.bind_info.mr->lkey;
		wqe->wr.wr.mw.mw_rkey = wr->bind_mw.mw->rkey;
		wqe->wr.wr.mw.rkey = wr->bind_mw.rkey;
		wqe->wr.wr.mw.access = wr->bind_mw.bind_info.mw_access_flags;
		break;
	default:
		wqe->wr.wr.rdma.remote_addr = wr->wr.rdma.remote_addr;
		wqe->wr.wr.rdma.rkey = wr->wr.rdma.rkey;
		wqe->iova = wr->wr.rdma.remote_addr;
		break;
	}
}

/* Copy the data of an inline request, or the list of where it is; 0 or an error number */
static int put_data(const struct ibv_send_wr *wr, struct rxe_send_wqe *wqe, size_t room)
{
	uint64_t length = 0;

	if (wr->num_sge < 0 || (size_t)wr->num_sge > room / sizeof(struct rxe_sge))
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	if (length > UINT32_MAX || (wr->send_flags & IBV_SEND_INLINE && length > room))
		return EINVAL;
	wqe->dma.length = wqe->dma.resid = (uint32_t)length;
	wqe->dma.num_sge = (uint32_t)wr->num_sge;
	for (int i = 0, at = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *s = &wr->sg_list[i];

		if (wr->send_flags & IBV_SEND_INLINE)
			memcpy(wqe->dma.inline_data + at, (void *)(uintptr_t)s->addr,
			       s->length);
		else
			wqe->dma.sge[i] = (struct rxe_sge){
			    .addr = s->addr, .length = s->length, .lkey = s->lkey};
		at += (int)s->length;
	}
	return 0;
}

static int post_one(struct xrc_sq *sq, const struct ibv_send_wr *wr)
{
	struct rxe_send_wqe *wqe;
	size_t elem = (size_t)1 << sq->info.log2_elem;
	int ret;

	if (is_full(sq))
		return ENOMEM;
	wqe = queue_element(sq->q, sq->prod, sq->info.mask, sq->info.log2_elem);
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr.wr_id = wr->wr_id;
	wqe->wr.opcode = wr->opcode;
	wqe->wr.send_flags = wr->send_flags;
	wqe->wr.ex.imm_data = wr->imm_data;
	wqe->wr.reserved = wr->qp_type.xrc.remote_srqn;
	put_operands(wr, wqe);
	ret = put_data(wr, wqe, elem - offsetof(struct rxe_send_wqe, dma.sge));
	if (ret)
		return ret;
	sq->prod = (sq->prod + 1) & sq->info.mask;
	return 0;
}

/*
 * Post what can be of a list, or, if @all, all or nothing. 0, or an error number and the
 * first that was not posted in *@bad
 */
static int post_list(struct ibv_qp *qp, struct ibv_send_wr *wr, bool all,
		     struct ibv_send_wr **bad)
{
	struct uverbs_context *ctx = uverbs_lookup(qp->context->cmd_fd);
	struct uobject *o;
	struct xrc_sq sq;
	int err = 0;

	*bad = wr;
	if (!ctx)
		return EINVAL;
	engine_enter(ctx->engine);
	o = uobject_find(&ctx->objects, UOBJECT_QP, qp->handle);
	if (!o || !open_sq(ctx, o, &sq)) {
		err = EINVAL;
		goto out;
	}
	for (; wr && !err; wr = err ? wr : wr->next)
		err = post_one(&sq, wr);
	if (!err || !all)
		queue_store(&sq.q->producer_index, sq.prod);
	if (emu_qp_doorbell(o->qp))
		err = EINVAL;
	else
		*bad = wr;
out:
	engine_progress(ctx->engine, ENGINE_CHANGED);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	return err;
}

int xrc_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct ibv_send_wr *unposted;
	int ret = post_list(qp, wr, false, &unposted);

	if (ret)
		*bad = unposted;
	return ret;
}

int xrc_post_all(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *unposted;

	return post_list(qp, wr, true, &unposted);
}
