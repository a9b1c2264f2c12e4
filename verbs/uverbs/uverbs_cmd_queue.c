/*
 * uverbs_cmd_queue.c - commands by number: completion queues and shared receive queues.
 */
#include <errno.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include "odp/guard.h"
#include "verbs/uverbs/uverbs_cmd.h"

/* --- CQ --------------------------------------------------------------------------- */

/* The answer of the old command is the beginning of the extended one's. */
static int create_any_cq(struct uverbs_call *c, const struct uverbs_cq_args *args,
			 size_t resp_len)
{
	struct ib_uverbs_ex_create_cq_resp resp = {.response_length = sizeof(resp)};
	struct rxe_create_cq_resp hw;
	struct uobject *o;
	int ret;

	if (uverbs_cmd_no_room(c, sizeof(hw)))
		return -EINVAL;
	ret = uverbs_cq_create(c->ctx, args, &o);
	if (ret)
		return ret;
	resp.base.cq_handle = o->handle;
	resp.base.cqe = emu_cq_cqe(o->cq);
	hw.mi = uverbs_mminfo(emu_cq_ring(o->cq));
	return uverbs_cmd_created(c, o, &resp, resp_len, &hw, sizeof(hw));
}

int uverbs_cmd_create_cq(struct uverbs_call *c)
{
	struct ib_uverbs_create_cq cmd;
	struct uverbs_cq_args args;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	args = (struct uverbs_cq_args){
	    .user_handle = cmd.user_handle,
	    .cqe = cmd.cqe,
	    .comp_vector = cmd.comp_vector,
	    .comp_fd = cmd.comp_channel,
	};
	return create_any_cq(c, &args, sizeof(struct ib_uverbs_create_cq_resp));
}

int uverbs_cmd_ex_create_cq(struct uverbs_call *c)
{
	struct ib_uverbs_ex_create_cq cmd;
	struct uverbs_cq_args args;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	if (cmd.comp_mask || cmd.reserved)
		return -EINVAL;
	args = (struct uverbs_cq_args){
	    .user_handle = cmd.user_handle,
	    .cqe = cmd.cqe,
	    .comp_vector = cmd.comp_vector,
	    .comp_fd = cmd.comp_channel,
	    .flags = cmd.flags,
	};
	return create_any_cq(c, &args, sizeof(struct ib_uverbs_ex_create_cq_resp));
}

int uverbs_cmd_resize_cq(struct uverbs_call *c)
{
	struct ib_uverbs_resize_cq_resp resp = {0};
	struct rxe_resize_cq_resp hw;
	struct ib_uverbs_resize_cq cmd;
	struct uobject *o;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	o = uverbs_cmd_find(c, UOBJECT_CQ, cmd.cq_handle);
	if (!o || uverbs_cmd_no_room(c, sizeof(hw)))
		return -EINVAL;
	ret = emu_cq_resize(o->cq, cmd.cqe);
	if (ret)
		return ret;
	resp.cqe = emu_cq_cqe(o->cq);
	hw.mi = uverbs_mminfo(emu_cq_ring(o->cq));
	ret = uverbs_hw_response(c, &hw, sizeof(hw));
	return ret ? ret : uverbs_response(c, &resp, sizeof(resp));
}

int uverbs_cmd_req_notify_cq(struct uverbs_call *c)
{
	struct ib_uverbs_req_notify_cq cmd;
	struct uobject *o;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	o = uverbs_cmd_find(c, UOBJECT_CQ, cmd.cq_handle);
	if (!o)
		return -EINVAL;
	emu_cq_arm(o->cq, cmd.solicited_only);
	c->work = ENGINE_ARMED;
	engine_expect_sleep(c->ctx->engine);
	return 0;
}

int uverbs_cmd_destroy_cq(struct uverbs_call *c)
{
	struct ib_uverbs_destroy_cq_resp resp = {0};
	struct uverbs_reported rep;
	int ret = uverbs_cmd_destroy(c, UOBJECT_CQ, &rep);

	if (ret)
		return ret;
	resp.comp_events_reported = rep.comp;
	resp.async_events_reported = rep.async;
	return uverbs_response(c, &resp, sizeof(resp));
}

/* --- SRQ -------------------------------------------------------------------------- */

static int create_any_srq(struct uverbs_call *c, struct uverbs_srq_args *args)
{
	struct ib_uverbs_create_srq_resp resp;
	struct rxe_create_srq_resp hw = {0};
	struct uobject *o;
	int ret;

	if (uverbs_cmd_no_room(c, sizeof(hw)))
		return -EINVAL;
	ret = uverbs_srq_create(c->ctx, args, &o);
	if (ret)
		return ret;
	resp = (struct ib_uverbs_create_srq_resp){
	    .srq_handle = o->handle,
	    .max_wr = args->attr.max_wr,
	    .max_sge = args->attr.max_sge,
	    .srqn = args->type == IB_UVERBS_SRQT_XRC ? emu_srq_num(o->srq) : 0,
	};
	hw.mi = uverbs_mminfo(emu_srq_ring(o->srq));
	hw.srq_num = emu_srq_num(o->srq);
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), &hw, sizeof(hw));
}

int uverbs_cmd_create_srq(struct uverbs_call *c)
{
	struct ib_uverbs_create_srq cmd;
	struct uverbs_srq_args args;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	args = (struct uverbs_srq_args){
	    .user_handle = cmd.user_handle,
	    .type = IB_UVERBS_SRQT_BASIC,
	    .pd = cmd.pd_handle,
	    .attr = {cmd.max_wr, cmd.max_sge, cmd.srq_limit},
	};
	return create_any_srq(c, &args);
}

int uverbs_cmd_create_xsrq(struct uverbs_call *c)
{
	struct ib_uverbs_create_xsrq cmd;
	struct uverbs_srq_args args;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	args = (struct uverbs_srq_args){
	    .user_handle = cmd.user_handle,
	    .type = cmd.srq_type,
	    .pd = cmd.pd_handle,
	    .xrcd = cmd.xrcd_handle,
	    .cq = cmd.cq_handle,
	    .attr = {cmd.max_wr, cmd.max_sge, cmd.srq_limit},
	};
	return create_any_srq(c, &args);
}

/* A resized ring's place goes where the provider asked for it. */
int uverbs_cmd_modify_srq(struct uverbs_call *c)
{
	struct rxe_modify_srq_cmd hw = {0};
	struct ib_uverbs_modify_srq cmd;
	struct ibv_srq_attr attr = {0};
	struct uobject *o;
	struct mminfo mi;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	o = uverbs_cmd_find(c, UOBJECT_SRQ, cmd.srq_handle);
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
	ret = emu_srq_modify(o->srq, &attr, (int)cmd.attr_mask);
	if (ret || !(cmd.attr_mask & IBV_SRQ_MAX_WR) || !hw.mmap_info_addr)
		return ret;
	mi = uverbs_mminfo(emu_srq_ring(o->srq));
	return guard_copy((void *)(uintptr_t)hw.mmap_info_addr, &mi, sizeof(mi));
}

int uverbs_cmd_query_srq(struct uverbs_call *c)
{
	struct ib_uverbs_query_srq_resp resp = {0};
	struct ib_uverbs_query_srq cmd;
	struct ibv_srq_attr attr;
	struct uobject *o;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	o = uverbs_cmd_find(c, UOBJECT_SRQ, cmd.srq_handle);
	if (!o)
		return -EINVAL;
	emu_srq_query(o->srq, &attr);
	resp.max_wr = attr.max_wr;
	resp.max_sge = attr.max_sge;
	resp.srq_limit = attr.srq_limit;
	return uverbs_response(c, &resp, sizeof(resp));
}

int uverbs_cmd_destroy_srq(struct uverbs_call *c)
{
	struct ib_uverbs_destroy_srq_resp resp;
	struct uverbs_reported rep;
	int ret = uverbs_cmd_destroy(c, UOBJECT_SRQ, &rep);

	if (ret)
		return ret;
	resp.events_reported = rep.async;
	return uverbs_response(c, &resp, sizeof(resp));
}
