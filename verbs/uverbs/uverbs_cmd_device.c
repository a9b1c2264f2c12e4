/*
 * uverbs_cmd_device.c - commands by number: the context, the device, and the objects
 * without queues.
 */
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include "verbs/uverbs/uverbs_cmd.h"
#include "verbs/uverbs/uverbs_convert.h"

/* --- device ----------------------------------------------------------------------- */

int uverbs_cmd_get_context(struct uverbs_call *c)
{
	struct ib_uverbs_get_context_resp resp = {.num_comp_vectors =
						      uverbs_comp_vectors()};
	int fd, ret;

	if (c->ctx->ready)
		return -EINVAL;
	fd = uverbs_make_channel(c->ctx, true);
	if (fd < 0)
		return fd;
	resp.async_fd = (uint32_t)fd;
	ret = uverbs_response(c, &resp, sizeof(resp));
	if (ret) {
		vfile_discard(fd);
		c->ctx->async = NULL;
		return ret;
	}
	return uverbs_get_context(c->ctx);
}

int uverbs_cmd_query_device(struct uverbs_call *c)
{
	struct ib_uverbs_query_device_resp resp;
	struct ibv_device_attr_ex attr = {0};

	emu_query_device(c->ctx->hca, &attr);
	uverbs_from_device_attr(&attr, &resp);
	return uverbs_response(c, &resp, sizeof(resp));
}

int uverbs_cmd_ex_query_device(struct uverbs_call *c)
{
	struct ib_uverbs_ex_query_device_resp resp;
	struct ib_uverbs_ex_query_device cmd;
	struct ibv_device_attr_ex attr = {0};
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	if (cmd.comp_mask || cmd.reserved)
		return -EINVAL;
	emu_query_device(c->ctx->hca, &attr);
	uverbs_from_device_attr_ex(&attr, &resp);
	resp.response_length =
	    (uint32_t)(c->out_len < sizeof(resp) ? c->out_len : sizeof(resp));
	return uverbs_response(c, &resp, sizeof(resp));
}

int uverbs_cmd_query_port(struct uverbs_call *c)
{
	struct ib_uverbs_query_port_resp resp;
	struct ib_uverbs_query_port cmd;
	struct ibv_port_attr attr = {0};
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	if (cmd.port_num != EMU_PORT)
		return -EINVAL;
	emu_query_port(c->ctx->hca, &attr);
	uverbs_from_port_attr(&attr, &resp);
	return uverbs_response(c, &resp, sizeof(resp));
}

int uverbs_cmd_create_comp_channel(struct uverbs_call *c)
{
	struct ib_uverbs_create_comp_channel_resp resp;
	struct ib_uverbs_create_comp_channel cmd;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));
	int fd;

	if (ret)
		return ret;
	fd = uverbs_make_channel(c->ctx, false);
	if (fd < 0)
		return fd;
	resp.fd = (uint32_t)fd;
	ret = uverbs_response(c, &resp, sizeof(resp));
	if (ret)
		vfile_discard(fd);
	return ret;
}

/* --- PD, MR, MW, AH --------------------------------------------------------------- */

int uverbs_cmd_alloc_pd(struct uverbs_call *c)
{
	struct ib_uverbs_alloc_pd_resp resp;
	struct uobject *o = uobject_new(&c->ctx->objects, UOBJECT_PD);
	int ret;

	if (!o)
		return -ENOMEM;
	ret = emu_pd_create(c->ctx->hca, &o->pd);
	if (ret) {
		uobject_free(&c->ctx->objects, o);
		return ret;
	}
	resp.pd_handle = o->handle;
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), NULL, 0);
}

/*
 * Memory is made present without the lock, as in the kernel: that may take as long as a disk
 * or a handler of the program likes, who may use the device meanwhile.
 */
static int register_memory(struct uverbs_call *c, struct emu_mr *mr)
{
	int made;

	engine_leave(c->ctx->engine);
	made = emu_mr_memory_make(mr);
	engine_enter(c->ctx->engine);
	return emu_mr_reg_end(mr, made);
}

int uverbs_cmd_reg_mr(struct uverbs_call *c)
{
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	struct ib_uverbs_reg_mr_resp resp;
	struct ib_uverbs_reg_mr cmd;
	struct uobject *pd, *o;
	struct emu_mr *mr;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	if ((cmd.start & in_page) != (cmd.hca_va & in_page))
		return -EINVAL;
	pd = uverbs_cmd_find(c, UOBJECT_PD, cmd.pd_handle);
	if (!pd)
		return -EINVAL;
	engine_called(c->ctx->engine);
	ret = emu_mr_reg_begin(pd->pd, cmd.start, cmd.length, cmd.hca_va,
			       (int)cmd.access_flags, &mr);
	if (!ret)
		ret = register_memory(c, mr);
	if (ret)
		return ret;
	o = uobject_new(&c->ctx->objects, UOBJECT_MR);
	if (!o) {
		emu_mr_dereg(mr);
		return -ENOMEM;
	}
	o->mr = mr;
	o->length = cmd.length;
	o->iova = cmd.hca_va;
	resp.mr_handle = o->handle;
	resp.lkey = emu_mr_lkey(mr);
	resp.rkey = emu_mr_rkey(mr);
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), NULL, 0);
}

/* As register_memory(). The handle cannot go: what it stands for is busy */
static int change_memory(struct uverbs_call *c, struct emu_mr *mr, struct emu_mr *want)
{
	struct odp_mr *memory = odp_mr_get(emu_mr_odp(mr));
	int made, ret;

	engine_leave(c->ctx->engine);
	made = emu_mr_rereg_memory(mr, want);
	engine_enter(c->ctx->engine);
	ret = emu_mr_rereg_end(mr, want, made);
	if (emu_mr_odp(mr) == memory)
		odp_mr_put(memory);
	else
		c->ctx->left = memory;
	return ret;
}

int uverbs_cmd_rereg_mr(struct uverbs_call *c)
{
	const uint32_t known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
			       IBV_REREG_MR_CHANGE_ACCESS;
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	struct ib_uverbs_rereg_mr_resp resp;
	struct uobject *o, *pd = NULL;
	struct ib_uverbs_rereg_mr cmd;
	struct emu_mr *want;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	if (!cmd.flags)
		return -EINVAL;
	if (cmd.flags & ~known)
		return -EOPNOTSUPP;
	if (cmd.flags & IBV_REREG_MR_CHANGE_TRANSLATION &&
	    (cmd.start & in_page) != (cmd.hca_va & in_page))
		return -EINVAL;
	o = uverbs_cmd_find(c, UOBJECT_MR, cmd.mr_handle);
	if (cmd.flags & IBV_REREG_MR_CHANGE_PD)
		pd = uverbs_cmd_find(c, UOBJECT_PD, cmd.pd_handle);
	if (!o || (cmd.flags & IBV_REREG_MR_CHANGE_PD && !pd))
		return -EINVAL;
	ret = emu_mr_rereg_begin(o->mr, (int)cmd.flags, pd ? pd->pd : NULL, cmd.start,
				 cmd.length, cmd.hca_va, (int)cmd.access_flags, &want);
	if (!ret)
		ret = change_memory(c, o->mr, want);
	if (ret)
		return ret;
	if (cmd.flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		o->length = cmd.length;
		o->iova = cmd.hca_va;
	}
	resp.lkey = emu_mr_lkey(o->mr);
	resp.rkey = emu_mr_rkey(o->mr);
	return uverbs_response(c, &resp, sizeof(resp));
}

int uverbs_cmd_alloc_mw(struct uverbs_call *c)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ib_uverbs_alloc_mw cmd;
	struct uobject *pd, *o;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	pd = uverbs_cmd_find(c, UOBJECT_PD, cmd.pd_handle);
	if (!pd || (cmd.mw_type != IBV_MW_TYPE_1 && cmd.mw_type != IBV_MW_TYPE_2))
		return -EINVAL;
	o = uobject_new(&c->ctx->objects, UOBJECT_MW);
	if (!o)
		return -ENOMEM;
	ret = emu_mw_alloc(pd->pd, (enum ibv_mw_type)cmd.mw_type, &o->mw);
	if (ret) {
		uobject_free(&c->ctx->objects, o);
		return ret;
	}
	resp.rkey = emu_mw_rkey(o->mw);
	resp.mw_handle = o->handle;
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), NULL, 0);
}

int uverbs_cmd_create_ah(struct uverbs_call *c)
{
	struct ib_uverbs_create_ah_resp resp;
	struct rxe_create_ah_resp hw = {0};
	struct ib_uverbs_create_ah cmd;
	struct ibv_ah_attr attr;
	struct uobject *pd, *o;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	if (cmd.attr.port_num != EMU_PORT)
		return -EINVAL;
	pd = uverbs_cmd_find(c, UOBJECT_PD, cmd.pd_handle);
	if (!pd)
		return -EINVAL;
	uverbs_to_ah_attr(&cmd.attr, &attr);
	o = uobject_new(&c->ctx->objects, UOBJECT_AH);
	if (!o)
		return -ENOMEM;
	ret = emu_ah_create(pd->pd, &attr, &o->ah);
	if (!ret) {
		ret = uverbs_route(c->ctx, &attr);
		if (ret)
			emu_ah_destroy(o->ah);
	}
	if (ret) {
		uobject_free(&c->ctx->objects, o);
		return ret;
	}
	resp.ah_handle = o->handle;
	hw.ah_num = emu_ah_num(o->ah);
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), &hw, sizeof(hw));
}

/* Requests that are nothing but a handle */
static int destroy_by_handle(struct uverbs_call *c, enum uobject_type type)
{
	uint32_t handle;
	int ret = uverbs_request(c, &handle, sizeof(handle));

	return ret ? ret : uverbs_destroy(c->ctx, type, handle, NULL);
}

int uverbs_cmd_dealloc_pd(struct uverbs_call *c)
{
	return destroy_by_handle(c, UOBJECT_PD);
}

int uverbs_cmd_dereg_mr(struct uverbs_call *c)
{
	return destroy_by_handle(c, UOBJECT_MR);
}

int uverbs_cmd_dealloc_mw(struct uverbs_call *c)
{
	return destroy_by_handle(c, UOBJECT_MW);
}

int uverbs_cmd_destroy_ah(struct uverbs_call *c)
{
	return destroy_by_handle(c, UOBJECT_AH);
}

int uverbs_cmd_close_xrcd(struct uverbs_call *c)
{
	return destroy_by_handle(c, UOBJECT_XRCD);
}

int uverbs_cmd_open_xrcd(struct uverbs_call *c)
{
	struct ib_uverbs_open_xrcd_resp resp;
	struct ib_uverbs_open_xrcd cmd;
	struct uobject *o;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (!ret)
		ret = uverbs_xrcd_open(c->ctx, (int)cmd.fd, (int)cmd.oflags, &o);
	if (ret)
		return ret;
	resp.xrcd_handle = o->handle;
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), NULL, 0);
}
