/*
 * uverbs_write.c - the commands of the uverbs device by number: write(2), and
 * INVOKE_WRITE of ioctl(2), which carries the same structures.
 *
 * <rdma/ib_user_verbs.h> defines the structures; the sizes and the errors are those of
 * the kernel's ib_uverbs_write(). Commands that rxe does not have answer EOPNOTSUPP.
 */
#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "odp/guard.h"
#include "verbs/uverbs.h"
#include "verbs/uverbs_convert.h"

/*
 * struct command - one that exists
 * @req, @resp:	the smallest sizes of request and answer, in bytes
 * @hw:		rxe may add its own parts
 * @has_resp:	the request begins with a pointer to the answer (legacy commands)
 */
struct command {
	int (*run)(struct uverbs_call *c);
	uint16_t req;
	uint16_t resp;
	bool hw;
};

/* IB_QP_ATTR_STANDARD_BITS of the kernel: up to IB_QP_DEST_QPN */
#define QP_ATTR_STANDARD_BITS ((IBV_QP_DEST_QPN << 1) - 1)

static struct uobject *find(struct uverbs_call *c, enum uobject_type type,
			    uint32_t handle)
{
	return uobject_find(&c->ctx->objects, type, handle);
}

/* The answer to a creation: when it cannot be delivered, nothing was created. */
static int answer_new(struct uverbs_call *c, struct uobject *o, const void *resp,
		      size_t len, const void *hw, size_t hw_len)
{
	int err = uverbs_hw_response(c, hw, hw_len);

	if (!err)
		err = uverbs_response(c, resp, len);
	if (err)
		uverbs_undo(c->ctx, o);
	return err;
}

/* --- device ----------------------------------------------------------------------- */

static int get_context(struct uverbs_call *c)
{
	struct ib_uverbs_get_context_resp resp = {.num_comp_vectors =
						      uverbs_comp_vectors()};
	int fd, err;

	if (c->ctx->ready)
		return -EINVAL;
	fd = uverbs_make_channel(c->ctx, true);
	if (fd < 0)
		return fd;
	resp.async_fd = (uint32_t)fd;
	err = uverbs_response(c, &resp, sizeof(resp));
	if (err) {
		vfile_discard(fd);
		c->ctx->async = NULL;
		return err;
	}
	return uverbs_get_context(c->ctx);
}

static int query_device(struct uverbs_call *c)
{
	struct ib_uverbs_query_device_resp resp;
	struct ibv_device_attr_ex attr = {0};

	emu_query_device(c->ctx->hca, &attr);
	uverbs_from_device_attr(&attr, &resp);
	return uverbs_response(c, &resp, sizeof(resp));
}

static int ex_query_device(struct uverbs_call *c)
{
	struct ib_uverbs_ex_query_device_resp resp;
	struct ib_uverbs_ex_query_device cmd;
	struct ibv_device_attr_ex attr = {0};
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if (cmd.comp_mask || cmd.reserved)
		return -EINVAL;
	emu_query_device(c->ctx->hca, &attr);
	uverbs_from_device_attr_ex(&attr, &resp);
	resp.response_length =
	    (uint32_t)(c->out_len < sizeof(resp) ? c->out_len : sizeof(resp));
	return uverbs_response(c, &resp, sizeof(resp));
}

static int query_port(struct uverbs_call *c)
{
	struct ib_uverbs_query_port_resp resp;
	struct ib_uverbs_query_port cmd;
	struct ibv_port_attr attr = {0};
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if (cmd.port_num != EMU_PORT)
		return -EINVAL;
	emu_query_port(c->ctx->hca, &attr);
	uverbs_from_port_attr(&attr, &resp);
	return uverbs_response(c, &resp, sizeof(resp));
}

static int create_comp_channel(struct uverbs_call *c)
{
	struct ib_uverbs_create_comp_channel_resp resp;
	struct ib_uverbs_create_comp_channel cmd;
	int err = uverbs_request(c, &cmd, sizeof(cmd));
	int fd;

	if (err)
		return err;
	fd = uverbs_make_channel(c->ctx, false);
	if (fd < 0)
		return fd;
	resp.fd = (uint32_t)fd;
	err = uverbs_response(c, &resp, sizeof(resp));
	if (err)
		vfile_discard(fd);
	return err;
}

/* --- PD, MR, MW, AH --------------------------------------------------------------- */

static int alloc_pd(struct uverbs_call *c)
{
	struct ib_uverbs_alloc_pd_resp resp;
	struct uobject *o = uobject_new(&c->ctx->objects, UOBJECT_PD);
	int err;

	if (!o)
		return -ENOMEM;
	err = emu_pd_create(c->ctx->hca, &o->pd);
	if (err) {
		uobject_free(&c->ctx->objects, o);
		return err;
	}
	resp.pd_handle = o->handle;
	return answer_new(c, o, &resp, sizeof(resp), NULL, 0);
}

static int reg_mr(struct uverbs_call *c)
{
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	struct ib_uverbs_reg_mr_resp resp;
	struct ib_uverbs_reg_mr cmd;
	struct uobject *pd, *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if ((cmd.start & in_page) != (cmd.hca_va & in_page))
		return -EINVAL;
	pd = find(c, UOBJECT_PD, cmd.pd_handle);
	if (!pd)
		return -EINVAL;
	o = uobject_new(&c->ctx->objects, UOBJECT_MR);
	if (!o)
		return -ENOMEM;
	err = emu_mr_reg(pd->pd, cmd.start, cmd.length, cmd.hca_va,
			 (int)(cmd.access_flags & ~UVERBS_ACCESS_OPTIONAL), &o->mr);
	if (err) {
		uobject_free(&c->ctx->objects, o);
		return err;
	}
	o->length = cmd.length;
	o->iova = cmd.hca_va;
	resp.mr_handle = o->handle;
	resp.lkey = emu_mr_lkey(o->mr);
	resp.rkey = emu_mr_rkey(o->mr);
	return answer_new(c, o, &resp, sizeof(resp), NULL, 0);
}

static int rereg_mr(struct uverbs_call *c)
{
	const uint32_t known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
			       IBV_REREG_MR_CHANGE_ACCESS;
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	struct ib_uverbs_rereg_mr_resp resp;
	struct uobject *o, *pd = NULL;
	struct ib_uverbs_rereg_mr cmd;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if (!cmd.flags)
		return -EINVAL;
	if (cmd.flags & ~known)
		return -EOPNOTSUPP;
	if (cmd.flags & IBV_REREG_MR_CHANGE_TRANSLATION &&
	    (cmd.start & in_page) != (cmd.hca_va & in_page))
		return -EINVAL;
	o = find(c, UOBJECT_MR, cmd.mr_handle);
	if (cmd.flags & IBV_REREG_MR_CHANGE_PD)
		pd = find(c, UOBJECT_PD, cmd.pd_handle);
	if (!o || (cmd.flags & IBV_REREG_MR_CHANGE_PD && !pd))
		return -EINVAL;
	err =
	    emu_mr_rereg(o->mr, (int)cmd.flags, pd ? pd->pd : NULL, cmd.start, cmd.length,
			 cmd.hca_va, (int)(cmd.access_flags & ~UVERBS_ACCESS_OPTIONAL));
	if (err)
		return err;
	if (cmd.flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		o->length = cmd.length;
		o->iova = cmd.hca_va;
	}
	resp.lkey = emu_mr_lkey(o->mr);
	resp.rkey = emu_mr_rkey(o->mr);
	return uverbs_response(c, &resp, sizeof(resp));
}

static int alloc_mw(struct uverbs_call *c)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ib_uverbs_alloc_mw cmd;
	struct uobject *pd, *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	pd = find(c, UOBJECT_PD, cmd.pd_handle);
	if (!pd || (cmd.mw_type != IBV_MW_TYPE_1 && cmd.mw_type != IBV_MW_TYPE_2))
		return -EINVAL;
	o = uobject_new(&c->ctx->objects, UOBJECT_MW);
	if (!o)
		return -ENOMEM;
	err = emu_mw_alloc(pd->pd, (enum ibv_mw_type)cmd.mw_type, &o->mw);
	if (err) {
		uobject_free(&c->ctx->objects, o);
		return err;
	}
	resp.rkey = emu_mw_rkey(o->mw);
	resp.mw_handle = o->handle;
	return answer_new(c, o, &resp, sizeof(resp), NULL, 0);
}

static int create_ah(struct uverbs_call *c)
{
	struct ib_uverbs_create_ah_resp resp;
	struct rxe_create_ah_resp hw = {0};
	struct ib_uverbs_create_ah cmd;
	struct ibv_ah_attr attr;
	struct uobject *pd, *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if (cmd.attr.port_num != EMU_PORT)
		return -EINVAL;
	pd = find(c, UOBJECT_PD, cmd.pd_handle);
	if (!pd)
		return -EINVAL;
	uverbs_to_ah_attr(&cmd.attr, &attr);
	o = uobject_new(&c->ctx->objects, UOBJECT_AH);
	if (!o)
		return -ENOMEM;
	err = emu_ah_create(pd->pd, &attr, &o->ah);
	if (err) {
		uobject_free(&c->ctx->objects, o);
		return err;
	}
	resp.ah_handle = o->handle;
	hw.ah_num = emu_ah_num(o->ah);
	return answer_new(c, o, &resp, sizeof(resp), &hw, sizeof(hw));
}

/* Requests that are nothing but a handle */
static int destroy_by_handle(struct uverbs_call *c, enum uobject_type type)
{
	uint32_t handle;
	int err = uverbs_request(c, &handle, sizeof(handle));

	return err ? err : uverbs_destroy(c->ctx, type, handle, NULL);
}

static int dealloc_pd(struct uverbs_call *c)
{
	return destroy_by_handle(c, UOBJECT_PD);
}

static int dereg_mr(struct uverbs_call *c)
{
	return destroy_by_handle(c, UOBJECT_MR);
}

static int dealloc_mw(struct uverbs_call *c)
{
	return destroy_by_handle(c, UOBJECT_MW);
}

static int destroy_ah(struct uverbs_call *c)
{
	return destroy_by_handle(c, UOBJECT_AH);
}

static int close_xrcd(struct uverbs_call *c)
{
	return destroy_by_handle(c, UOBJECT_XRCD);
}

static int open_xrcd(struct uverbs_call *c)
{
	struct ib_uverbs_open_xrcd_resp resp;
	struct ib_uverbs_open_xrcd cmd;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (!err)
		err = uverbs_xrcd_open(c->ctx, (int)cmd.fd, (int)cmd.oflags, &o);
	if (err)
		return err;
	resp.xrcd_handle = o->handle;
	return answer_new(c, o, &resp, sizeof(resp), NULL, 0);
}

/* --- CQ --------------------------------------------------------------------------- */

/* rxe writes all of its part or refuses */
static bool no_room(const struct uverbs_call *c, size_t len)
{
	return c->hw_out_len < len;
}

static int create_cq(struct uverbs_call *c)
{
	struct ib_uverbs_create_cq_resp resp;
	struct rxe_create_cq_resp hw;
	struct ib_uverbs_create_cq cmd;
	struct uverbs_cq_args args;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if (no_room(c, sizeof(hw)))
		return -EINVAL;
	args = (struct uverbs_cq_args){
	    .user_handle = cmd.user_handle,
	    .cqe = cmd.cqe,
	    .comp_vector = cmd.comp_vector,
	    .comp_fd = cmd.comp_channel,
	};
	err = uverbs_cq_create(c->ctx, &args, &o);
	if (err)
		return err;
	resp.cq_handle = o->handle;
	resp.cqe = emu_cq_cqe(o->cq);
	hw.mi = uverbs_mminfo(emu_cq_ring(o->cq));
	return answer_new(c, o, &resp, sizeof(resp), &hw, sizeof(hw));
}

static int ex_create_cq(struct uverbs_call *c)
{
	struct ib_uverbs_ex_create_cq_resp resp = {.response_length = sizeof(resp)};
	struct rxe_create_cq_resp hw;
	struct ib_uverbs_ex_create_cq cmd;
	struct uverbs_cq_args args;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if (cmd.comp_mask || cmd.reserved || no_room(c, sizeof(hw)))
		return -EINVAL;
	args = (struct uverbs_cq_args){
	    .user_handle = cmd.user_handle,
	    .cqe = cmd.cqe,
	    .comp_vector = cmd.comp_vector,
	    .comp_fd = cmd.comp_channel,
	    .flags = cmd.flags,
	};
	err = uverbs_cq_create(c->ctx, &args, &o);
	if (err)
		return err;
	resp.base.cq_handle = o->handle;
	resp.base.cqe = emu_cq_cqe(o->cq);
	hw.mi = uverbs_mminfo(emu_cq_ring(o->cq));
	return answer_new(c, o, &resp, sizeof(resp), &hw, sizeof(hw));
}

static int resize_cq(struct uverbs_call *c)
{
	struct ib_uverbs_resize_cq_resp resp = {0};
	struct rxe_resize_cq_resp hw;
	struct ib_uverbs_resize_cq cmd;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	o = find(c, UOBJECT_CQ, cmd.cq_handle);
	if (!o || no_room(c, sizeof(hw)))
		return -EINVAL;
	err = emu_cq_resize(o->cq, cmd.cqe);
	if (err)
		return err;
	resp.cqe = emu_cq_cqe(o->cq);
	hw.mi = uverbs_mminfo(emu_cq_ring(o->cq));
	err = uverbs_hw_response(c, &hw, sizeof(hw));
	return err ? err : uverbs_response(c, &resp, sizeof(resp));
}

static int req_notify_cq(struct uverbs_call *c)
{
	struct ib_uverbs_req_notify_cq cmd;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	o = find(c, UOBJECT_CQ, cmd.cq_handle);
	if (!o)
		return -EINVAL;
	emu_cq_arm(o->cq, cmd.solicited_only);
	engine_quiet(c->ctx->engine);
	engine_expect_sleep(c->ctx->engine);
	return 0;
}

static int destroy_cq(struct uverbs_call *c)
{
	struct ib_uverbs_destroy_cq_resp resp = {0};
	struct ib_uverbs_destroy_cq cmd;
	struct uverbs_reported rep;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (!err)
		err = uverbs_destroy(c->ctx, UOBJECT_CQ, cmd.cq_handle, &rep);
	if (err)
		return err;
	resp.comp_events_reported = rep.comp;
	resp.async_events_reported = rep.async;
	return uverbs_response(c, &resp, sizeof(resp));
}

/* --- SRQ -------------------------------------------------------------------------- */

static int finish_srq(struct uverbs_call *c, struct uverbs_srq_args *args)
{
	struct ib_uverbs_create_srq_resp resp;
	struct rxe_create_srq_resp hw = {0};
	struct uobject *o;
	int err;

	if (no_room(c, sizeof(hw)))
		return -EINVAL;
	err = uverbs_srq_create(c->ctx, args, &o);
	if (err)
		return err;
	resp = (struct ib_uverbs_create_srq_resp){
	    .srq_handle = o->handle,
	    .max_wr = args->attr.max_wr,
	    .max_sge = args->attr.max_sge,
	    .srqn = args->type == IB_UVERBS_SRQT_XRC ? emu_srq_num(o->srq) : 0,
	};
	hw.mi = uverbs_mminfo(emu_srq_ring(o->srq));
	hw.srq_num = emu_srq_num(o->srq);
	return answer_new(c, o, &resp, sizeof(resp), &hw, sizeof(hw));
}

static int create_srq(struct uverbs_call *c)
{
	struct ib_uverbs_create_srq cmd;
	struct uverbs_srq_args args;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	args = (struct uverbs_srq_args){
	    .user_handle = cmd.user_handle,
	    .type = IB_UVERBS_SRQT_BASIC,
	    .pd = cmd.pd_handle,
	    .attr = {cmd.max_wr, cmd.max_sge, cmd.srq_limit},
	};
	return finish_srq(c, &args);
}

static int create_xsrq(struct uverbs_call *c)
{
	struct ib_uverbs_create_xsrq cmd;
	struct uverbs_srq_args args;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	args = (struct uverbs_srq_args){
	    .user_handle = cmd.user_handle,
	    .type = cmd.srq_type,
	    .pd = cmd.pd_handle,
	    .xrcd = cmd.xrcd_handle,
	    .cq = cmd.cq_handle,
	    .attr = {cmd.max_wr, cmd.max_sge, cmd.srq_limit},
	};
	return finish_srq(c, &args);
}

/* A resized ring's place goes where the provider asked for it. */
static int modify_srq(struct uverbs_call *c)
{
	struct rxe_modify_srq_cmd hw = {0};
	struct ib_uverbs_modify_srq cmd;
	struct ibv_srq_attr attr = {0};
	struct uobject *o;
	struct mminfo mi;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	o = find(c, UOBJECT_SRQ, cmd.srq_handle);
	if (!o)
		return -EINVAL;
	if (c->hw_in_len) {
		if (c->hw_in_len < sizeof(hw))
			return -EINVAL;
		if (guard_copy(&hw, c->hw_in, sizeof(hw)))
			return -EFAULT;
	}
	attr.max_wr = cmd.max_wr;
	attr.srq_limit = cmd.srq_limit;
	err = emu_srq_modify(o->srq, &attr, (int)cmd.attr_mask);
	if (err || !(cmd.attr_mask & IBV_SRQ_MAX_WR) || !hw.mmap_info_addr)
		return err;
	mi = uverbs_mminfo(emu_srq_ring(o->srq));
	return guard_copy((void *)(uintptr_t)hw.mmap_info_addr, &mi, sizeof(mi));
}

static int query_srq(struct uverbs_call *c)
{
	struct ib_uverbs_query_srq_resp resp = {0};
	struct ib_uverbs_query_srq cmd;
	struct ibv_srq_attr attr;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	o = find(c, UOBJECT_SRQ, cmd.srq_handle);
	if (!o)
		return -EINVAL;
	emu_srq_query(o->srq, &attr);
	resp.max_wr = attr.max_wr;
	resp.max_sge = attr.max_sge;
	resp.srq_limit = attr.srq_limit;
	return uverbs_response(c, &resp, sizeof(resp));
}

static int destroy_srq(struct uverbs_call *c)
{
	struct ib_uverbs_destroy_srq_resp resp;
	struct ib_uverbs_destroy_srq cmd;
	struct uverbs_reported rep;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (!err)
		err = uverbs_destroy(c->ctx, UOBJECT_SRQ, cmd.srq_handle, &rep);
	if (err)
		return err;
	resp.events_reported = rep.async;
	return uverbs_response(c, &resp, sizeof(resp));
}

/* --- QP --------------------------------------------------------------------------- */

static void qp_resp(const struct uobject *o, const struct uverbs_qp_args *args,
		    struct ib_uverbs_create_qp_resp *resp)
{
	*resp = (struct ib_uverbs_create_qp_resp){
	    .qp_handle = o->handle,
	    .qpn = emu_qp_num(o->qp),
	    .max_send_wr = args->cap.max_send_wr,
	    .max_recv_wr = args->cap.max_recv_wr,
	    .max_send_sge = args->cap.max_send_sge,
	    .max_recv_sge = args->cap.max_recv_sge,
	    .max_inline_data = args->cap.max_inline_data,
	};
}

static int create_qp(struct uverbs_call *c)
{
	struct ib_uverbs_create_qp_resp resp;
	struct rxe_create_qp_resp hw;
	struct ib_uverbs_create_qp cmd;
	struct uverbs_qp_args args;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if (no_room(c, sizeof(hw)))
		return -EINVAL;
	args = (struct uverbs_qp_args){
	    .user_handle = cmd.user_handle,
	    .type = cmd.qp_type,
	    .pd = cmd.pd_handle,
	    .send_cq = cmd.send_cq_handle,
	    .recv_cq = cmd.recv_cq_handle,
	    .srq = cmd.srq_handle,
	    .xrcd = cmd.pd_handle,
	    .has_srq = cmd.is_srq,
	    .sq_sig_all = cmd.sq_sig_all,
	    .cap = {cmd.max_send_wr, cmd.max_recv_wr, cmd.max_send_sge, cmd.max_recv_sge,
		    cmd.max_inline_data},
	};
	err = uverbs_qp_create(c->ctx, &args, &o);
	if (err)
		return err;
	qp_resp(o, &args, &resp);
	hw = uverbs_qp_rings(c->ctx, o);
	return answer_new(c, o, &resp, sizeof(resp), &hw, sizeof(hw));
}

static int ex_create_qp(struct uverbs_call *c)
{
	struct ib_uverbs_ex_create_qp_resp resp = {.response_length = sizeof(resp)};
	struct rxe_create_qp_resp hw;
	struct ib_uverbs_ex_create_qp cmd;
	struct uverbs_qp_args args;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if (cmd.comp_mask & ~(uint32_t)IB_UVERBS_CREATE_QP_SUP_COMP_MASK ||
	    cmd.reserved || no_room(c, sizeof(hw)))
		return -EINVAL;
	if (cmd.comp_mask || cmd.create_flags || cmd.source_qpn)
		return -EOPNOTSUPP; /* indirection tables, raw packets: not in rxe */
	args = (struct uverbs_qp_args){
	    .user_handle = cmd.user_handle,
	    .type = cmd.qp_type,
	    .pd = cmd.pd_handle,
	    .send_cq = cmd.send_cq_handle,
	    .recv_cq = cmd.recv_cq_handle,
	    .srq = cmd.srq_handle,
	    .xrcd = cmd.pd_handle,
	    .has_srq = cmd.is_srq,
	    .sq_sig_all = cmd.sq_sig_all,
	    .cap = {cmd.max_send_wr, cmd.max_recv_wr, cmd.max_send_sge, cmd.max_recv_sge,
		    cmd.max_inline_data},
	};
	err = uverbs_qp_create(c->ctx, &args, &o);
	if (err)
		return err;
	qp_resp(o, &args, &resp.base);
	hw = uverbs_qp_rings(c->ctx, o);
	return answer_new(c, o, &resp, sizeof(resp), &hw, sizeof(hw));
}

static int open_qp(struct uverbs_call *c)
{
	struct uverbs_qp_args args = {0};
	struct ib_uverbs_create_qp_resp resp;
	struct ib_uverbs_open_qp cmd;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	args.user_handle = cmd.user_handle;
	args.type = cmd.qp_type;
	args.xrcd = cmd.pd_handle;
	args.qpn = cmd.qpn;
	err = uverbs_qp_open(c->ctx, &args, &o);
	if (err)
		return err;
	qp_resp(o, &args, &resp);
	return answer_new(c, o, &resp, sizeof(resp), NULL, 0);
}

static int query_qp(struct uverbs_call *c)
{
	struct ib_uverbs_query_qp_resp resp;
	struct ibv_qp_init_attr init = {0};
	struct ib_uverbs_query_qp cmd;
	struct ibv_qp_attr attr = {0};
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	o = find(c, UOBJECT_QP, cmd.qp_handle);
	if (!o)
		return -EINVAL;
	emu_qp_query(o->qp, &attr, &init);
	uverbs_from_qp_attr(&attr, &init, &resp);
	return uverbs_response(c, &resp, sizeof(resp));
}

static int modify_qp_by(struct uverbs_call *c, const struct ib_uverbs_modify_qp *cmd)
{
	struct uobject *o = find(c, UOBJECT_QP, cmd->qp_handle);
	struct ibv_qp_attr attr;

	if (!o)
		return -EINVAL;
	if (cmd->attr_mask & IBV_QP_PORT && cmd->port_num != EMU_PORT)
		return -EINVAL;
	if (cmd->attr_mask & IBV_QP_AV && cmd->dest.port_num != EMU_PORT)
		return -EINVAL;
	if ((cmd->attr_mask & IBV_QP_CUR_STATE && cmd->cur_qp_state > IBV_QPS_ERR) ||
	    (cmd->attr_mask & IBV_QP_STATE && cmd->qp_state > IBV_QPS_ERR))
		return -EINVAL;
	uverbs_to_qp_attr(cmd, &attr);
	engine_settle(c->ctx->engine);
	return emu_qp_modify(o->qp, &attr, (int)cmd->attr_mask);
}

static int modify_qp(struct uverbs_call *c)
{
	struct ib_uverbs_modify_qp cmd;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if (cmd.attr_mask & ~(uint32_t)QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	return modify_qp_by(c, &cmd);
}

static int ex_modify_qp(struct uverbs_call *c)
{
	struct ib_uverbs_ex_modify_qp_resp resp = {0};
	struct ib_uverbs_ex_modify_qp cmd;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	if (cmd.base.attr_mask & ~(uint32_t)QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP; /* rate limits: not in rxe */
	err = modify_qp_by(c, &cmd.base);
	if (err)
		return err;
	resp.response_length =
	    (uint32_t)(c->out_len < sizeof(resp) ? c->out_len : sizeof(resp));
	return uverbs_response(c, &resp, sizeof(resp));
}

static int destroy_qp(struct uverbs_call *c)
{
	struct ib_uverbs_destroy_qp_resp resp;
	struct ib_uverbs_destroy_qp cmd;
	struct uverbs_reported rep;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (!err)
		err = uverbs_destroy(c->ctx, UOBJECT_QP, cmd.qp_handle, &rep);
	if (err)
		return err;
	resp.events_reported = rep.async;
	return uverbs_response(c, &resp, sizeof(resp));
}

/*
 * What is posted is in the ring already; the request itself is only the doorbell.
 */
static int post_send(struct uverbs_call *c)
{
	struct ib_uverbs_post_send_resp resp = {0};
	struct ib_uverbs_post_send cmd;
	struct uobject *o;
	int err;

	if (guard_copy(&cmd, c->in, sizeof(cmd)))
		return -EFAULT;
	o = find(c, UOBJECT_QP, cmd.qp_handle);
	err = o ? emu_qp_doorbell(o->qp) : -EINVAL;
	if (err)
		return err;
	engine_posted(c->ctx->engine);
	return uverbs_response(c, &resp, sizeof(resp));
}

/* --- multicast -------------------------------------------------------------------- */

static struct uobject_mcast **find_group(struct uobject *qp, const uint8_t gid[16])
{
	struct uobject_mcast **p = &qp->mcast;

	while (*p && memcmp((*p)->group.b, gid, 16))
		p = &(*p)->next;
	return p;
}

static int attach_mcast(struct uverbs_call *c)
{
	struct ib_uverbs_attach_mcast cmd;
	struct uobject_mcast **p, *m;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	o = find(c, UOBJECT_QP, cmd.qp_handle);
	if (!o)
		return -EINVAL;
	p = find_group(o, cmd.gid);
	if (*p)
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	memcpy(m->group.b, cmd.gid, 16);
	err = emu_qp_attach_mcast(o->qp, &m->group);
	if (err) {
		free(m);
		return err;
	}
	*p = m;
	return 0;
}

static int detach_mcast(struct uverbs_call *c)
{
	struct ib_uverbs_detach_mcast cmd;
	struct uobject_mcast **p, *m;
	struct uobject *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	o = find(c, UOBJECT_QP, cmd.qp_handle);
	p = o ? find_group(o, cmd.gid) : NULL;
	if (!p || !*p)
		return -EINVAL;
	m = *p;
	err = emu_qp_detach_mcast(o->qp, &m->group);
	if (err)
		return err;
	*p = m->next;
	free(m);
	return 0;
}

/* --- the tables ------------------------------------------------------------------- */

#define SIZE_TO(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

#define CMD(fn, name)                                                                    \
	{                                                                                \
		.run = fn, .req = sizeof(struct ib_uverbs_##name)                        \
	}
#define CMD_RESP(fn, name)                                                               \
	{                                                                                \
		.run = fn, .req = sizeof(struct ib_uverbs_##name),                       \
		.resp = sizeof(struct ib_uverbs_##name##_resp)                           \
	}
#define CMD_HW(fn, name)                                                                 \
	{                                                                                \
		.run = fn, .req = sizeof(struct ib_uverbs_##name),                       \
		.resp = sizeof(struct ib_uverbs_##name##_resp), .hw = true               \
	}

static const struct command commands[] = {
    [IB_USER_VERBS_CMD_GET_CONTEXT] = CMD_HW(get_context, get_context),
    [IB_USER_VERBS_CMD_QUERY_DEVICE] = CMD_RESP(query_device, query_device),
    [IB_USER_VERBS_CMD_QUERY_PORT] = CMD_RESP(query_port, query_port),
    [IB_USER_VERBS_CMD_ALLOC_PD] = CMD_HW(alloc_pd, alloc_pd),
    [IB_USER_VERBS_CMD_DEALLOC_PD] = CMD(dealloc_pd, dealloc_pd),
    [IB_USER_VERBS_CMD_CREATE_AH] = CMD_HW(create_ah, create_ah),
    [IB_USER_VERBS_CMD_DESTROY_AH] = CMD(destroy_ah, destroy_ah),
    [IB_USER_VERBS_CMD_REG_MR] = CMD_HW(reg_mr, reg_mr),
    [IB_USER_VERBS_CMD_REREG_MR] = CMD_HW(rereg_mr, rereg_mr),
    [IB_USER_VERBS_CMD_DEREG_MR] = CMD(dereg_mr, dereg_mr),
    [IB_USER_VERBS_CMD_ALLOC_MW] = CMD_HW(alloc_mw, alloc_mw),
    [IB_USER_VERBS_CMD_DEALLOC_MW] = CMD(dealloc_mw, dealloc_mw),
    [IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL] =
	CMD_RESP(create_comp_channel, create_comp_channel),
    [IB_USER_VERBS_CMD_CREATE_CQ] = CMD_HW(create_cq, create_cq),
    [IB_USER_VERBS_CMD_RESIZE_CQ] = CMD_HW(resize_cq, resize_cq),
    [IB_USER_VERBS_CMD_DESTROY_CQ] = CMD_RESP(destroy_cq, destroy_cq),
    [IB_USER_VERBS_CMD_REQ_NOTIFY_CQ] = CMD(req_notify_cq, req_notify_cq),
    [IB_USER_VERBS_CMD_CREATE_QP] = CMD_HW(create_qp, create_qp),
    [IB_USER_VERBS_CMD_QUERY_QP] = CMD_RESP(query_qp, query_qp),
    [IB_USER_VERBS_CMD_MODIFY_QP] = CMD(modify_qp, modify_qp),
    [IB_USER_VERBS_CMD_DESTROY_QP] = CMD_RESP(destroy_qp, destroy_qp),
    [IB_USER_VERBS_CMD_POST_SEND] = CMD_RESP(post_send, post_send),
    [IB_USER_VERBS_CMD_ATTACH_MCAST] = CMD(attach_mcast, attach_mcast),
    [IB_USER_VERBS_CMD_DETACH_MCAST] = CMD(detach_mcast, detach_mcast),
    [IB_USER_VERBS_CMD_CREATE_SRQ] = CMD_HW(create_srq, create_srq),
    [IB_USER_VERBS_CMD_MODIFY_SRQ] = {.run = modify_srq,
				      .req = sizeof(struct ib_uverbs_modify_srq),
				      .hw = true},
    [IB_USER_VERBS_CMD_QUERY_SRQ] = CMD_RESP(query_srq, query_srq),
    [IB_USER_VERBS_CMD_DESTROY_SRQ] = CMD_RESP(destroy_srq, destroy_srq),
    [IB_USER_VERBS_CMD_OPEN_XRCD] = CMD_HW(open_xrcd, open_xrcd),
    [IB_USER_VERBS_CMD_CLOSE_XRCD] = CMD(close_xrcd, close_xrcd),
    [IB_USER_VERBS_CMD_OPEN_QP] = {.run = open_qp,
				   .req = sizeof(struct ib_uverbs_open_qp),
				   .resp = sizeof(struct ib_uverbs_create_qp_resp),
				   .hw = true},
    [IB_USER_VERBS_CMD_CREATE_XSRQ] = {.run = create_xsrq,
				       .req = sizeof(struct ib_uverbs_create_xsrq),
				       .resp = sizeof(struct ib_uverbs_create_srq_resp),
				       .hw = true},
};

/* Extended ones may be shorter than their structures: up to the member that all have */
static const struct command ex_commands[] = {
    [IB_USER_VERBS_EX_CMD_QUERY_DEVICE] =
	{.run = ex_query_device,
	 .req = sizeof(struct ib_uverbs_ex_query_device),
	 .resp = SIZE_TO(struct ib_uverbs_ex_query_device_resp, response_length)},
    [IB_USER_VERBS_EX_CMD_CREATE_CQ] =
	{.run = ex_create_cq,
	 .req = SIZE_TO(struct ib_uverbs_ex_create_cq, reserved),
	 .resp = SIZE_TO(struct ib_uverbs_ex_create_cq_resp, response_length)},
    [IB_USER_VERBS_EX_CMD_CREATE_QP] =
	{.run = ex_create_qp,
	 .req = SIZE_TO(struct ib_uverbs_ex_create_qp, comp_mask),
	 .resp = SIZE_TO(struct ib_uverbs_ex_create_qp_resp, response_length)},
    [IB_USER_VERBS_EX_CMD_MODIFY_QP] =
	{.run = ex_modify_qp,
	 .req = SIZE_TO(struct ib_uverbs_ex_modify_qp, base),
	 .resp = SIZE_TO(struct ib_uverbs_ex_modify_qp_resp, response_length)},
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static int find_command(uint32_t number, const struct command **out)
{
	uint32_t n = number & IB_USER_VERBS_CMD_COMMAND_MASK;
	const struct command *cmd = NULL;

	if (number &
	    ~(uint32_t)(IB_USER_VERBS_CMD_FLAG_EXTENDED | IB_USER_VERBS_CMD_COMMAND_MASK))
		return -EINVAL;
	if (number & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		cmd = n < COUNT(ex_commands) ? &ex_commands[n] : NULL;
	else
		cmd = n < COUNT(commands) ? &commands[n] : NULL;
	if (!cmd || !cmd->run)
		return -EOPNOTSUPP;
	*out = cmd;
	return 0;
}

static int run(struct uverbs_call *c, const struct command *cmd)
{
	if (!c->ctx->ready && cmd->run != get_context)
		return -EINVAL;
	return cmd->run(c);
}

int uverbs_invoke(struct uverbs_call *c, uint32_t number)
{
	const struct command *cmd;
	int err = find_command(number, &cmd);

	if (err)
		return err;
	if (c->in_len < cmd->req || c->out_len < cmd->resp)
		return -ENOSPC;
	return run(c, cmd);
}

/* --- write(2) --------------------------------------------------------------------- */

#define HDR    sizeof(struct ib_uverbs_cmd_hdr)
#define EX_HDR sizeof(struct ib_uverbs_ex_cmd_hdr)

/* The application's pointers may be anything: arithmetic with them must not be C's. */
static void *behind(const void *p, size_t len)
{
	return (void *)((uintptr_t)p + len);
}

static int split_legacy(const struct command *cmd, const struct ib_uverbs_cmd_hdr *hdr,
			const void *buf, size_t len, struct uverbs_call *c)
{
	size_t out_len = hdr->out_words * 4u;
	uint64_t response;

	if (hdr->in_words * 4u != len)
		return -EINVAL;
	if (len < HDR + cmd->req || out_len < cmd->resp)
		return -ENOSPC;
	c->in = behind(buf, HDR);
	c->in_len = len - HDR;
	if (cmd->hw) {
		c->in_len = cmd->req;
		c->hw_in = behind(buf, HDR + cmd->req);
		c->hw_in_len = len - HDR - cmd->req;
	}
	if (!cmd->resp)
		return 0;
	if (guard_copy(&response, c->in, sizeof(response)))
		return -EFAULT;
	c->out = (void *)(uintptr_t)response;
	c->out_len = out_len;
	if (cmd->hw) {
		c->out_len = cmd->resp;
		c->hw_out = behind(c->out, cmd->resp);
		c->hw_out_len = out_len - cmd->resp;
	}
	return 0;
}

static int split_ex(const struct command *cmd, const struct ib_uverbs_cmd_hdr *hdr,
		    const void *buf, size_t len, struct uverbs_call *c)
{
	struct ib_uverbs_ex_cmd_hdr ex;

	if (len < HDR + EX_HDR)
		return -EINVAL;
	if (guard_copy(&ex, behind(buf, HDR), sizeof(ex)))
		return -EFAULT;
	if ((hdr->in_words + (size_t)ex.provider_in_words) * 8 != len - HDR - EX_HDR)
		return -EINVAL;
	if (hdr->in_words * 8u < cmd->req)
		return -ENOSPC;
	if (ex.cmd_hdr_reserved)
		return -EINVAL;
	if (!ex.response != (!hdr->out_words && !ex.provider_out_words))
		return -EINVAL;
	if (ex.response && hdr->out_words * 8u < cmd->resp)
		return -ENOSPC;
	c->in = behind(buf, HDR + EX_HDR);
	c->in_len = hdr->in_words * 8u;
	c->hw_in = behind(c->in, c->in_len);
	c->hw_in_len = ex.provider_in_words * 8u;
	c->out = (void *)(uintptr_t)ex.response;
	c->out_len = hdr->out_words * 8u;
	c->hw_out = behind(c->out, c->out_len);
	c->hw_out_len = ex.provider_out_words * 8u;
	return 0;
}

ssize_t uverbs_write(struct vfile *vf, int fd, const void *buf, size_t len)
{
	struct uverbs_call c = {.ctx = (struct uverbs_context *)vf};
	struct ib_uverbs_cmd_hdr hdr;
	const struct command *cmd;
	int err;

	if (len < sizeof(hdr))
		return -EINVAL;
	if (guard_copy(&hdr, buf, sizeof(hdr)))
		return -EFAULT;
	err = find_command(hdr.command, &cmd);
	if (err)
		return err;
	if (hdr.command & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		err = split_ex(cmd, &hdr, buf, len, &c);
	else
		err = split_legacy(cmd, &hdr, buf, len, &c);
	if (err)
		return err;
	engine_lock(c.ctx->engine);
	err = run(&c, cmd);
	engine_unlock(c.ctx->engine);
	return err ? err : (ssize_t)len;
}
