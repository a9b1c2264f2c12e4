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

int uverbs_cmd_query_port(struct uverbs_call *c)
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

int uverbs_cmd_create_comp_channel(struct uverbs_call *c)
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

int uverbs_cmd_alloc_pd(struct uverbs_call *c)
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
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), NULL, 0);
}

int uverbs_cmd_reg_mr(struct uverbs_call *c)
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
	pd = uverbs_cmd_find(c, UOBJECT_PD, cmd.pd_handle);
	if (!pd)
		return -EINVAL;
	o = uobject_new(&c->ctx->objects, UOBJECT_MR);
	if (!o)
		return -ENOMEM;
	err = emu_mr_reg(pd->pd, cmd.start, cmd.length, cmd.hca_va, (int)cmd.access_flags,
			 &o->mr);
	if (err) {
		uobject_free(&c->ctx->objects, o);
		return err;
	}
	o->length = cmd.length;
	o->iova = cmd.hca_va;
	resp.mr_handle = o->handle;
	resp.lkey = emu_mr_lkey(o->mr);
	resp.rkey = emu_mr_rkey(o->mr);
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), NULL, 0);
}

int uverbs_cmd_rereg_mr(struct uverbs_call *c)
{
	const uint32_t known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
			       IBV_REREG_MR_CHANGE_ACCESS;
	uint64_t in_page = (uint64_t)sysconf(_SC_PAGESIZE) - 1;
	struct ib_uverbs_rereg_mr_resp resp;
	struct uobject *o, *pd = NULL;
	struct ib_uverbs_rereg_mr cmd;
	struct odp_mr *memory;
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
	o = uverbs_cmd_find(c, UOBJECT_MR, cmd.mr_handle);
	if (cmd.flags & IBV_REREG_MR_CHANGE_PD)
		pd = uverbs_cmd_find(c, UOBJECT_PD, cmd.pd_handle);
	if (!o || (cmd.flags & IBV_REREG_MR_CHANGE_PD && !pd))
		return -EINVAL;
	memory = odp_mr_get(emu_mr_odp(o->mr));
	err = emu_mr_rereg(o->mr, (int)cmd.flags, pd ? pd->pd : NULL, cmd.start,
			   cmd.length, cmd.hca_va, (int)cmd.access_flags);
	if (emu_mr_odp(o->mr) == memory)
		odp_mr_put(memory);
	else
		c->ctx->left = memory;
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

int uverbs_cmd_alloc_mw(struct uverbs_call *c)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ib_uverbs_alloc_mw cmd;
	struct uobject *pd, *o;
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (err)
		return err;
	pd = uverbs_cmd_find(c, UOBJECT_PD, cmd.pd_handle);
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
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), NULL, 0);
}

int uverbs_cmd_create_ah(struct uverbs_call *c)
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
	pd = uverbs_cmd_find(c, UOBJECT_PD, cmd.pd_handle);
	if (!pd)
		return -EINVAL;
	uverbs_to_ah_attr(&cmd.attr, &attr);
	o = uobject_new(&c->ctx->objects, UOBJECT_AH);
	if (!o)
		return -ENOMEM;
	err = emu_ah_create(pd->pd, &attr, &o->ah);
	if (!err) {
		err = uverbs_route(c->ctx, &attr);
		if (err)
			emu_ah_destroy(o->ah);
	}
	if (err) {
		uobject_free(&c->ctx->objects, o);
		return err;
	}
	resp.ah_handle = o->handle;
	hw.ah_num = emu_ah_num(o->ah);
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), &hw, sizeof(hw));
}

/* Requests that are nothing but a handle */
static int destroy_by_handle(struct uverbs_call *c, enum uobject_type type)
{
	uint32_t handle;
	int err = uverbs_request(c, &handle, sizeof(handle));

	return err ? err : uverbs_destroy(c->ctx, type, handle, NULL);
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
	int err = uverbs_request(c, &cmd, sizeof(cmd));

	if (!err)
		err = uverbs_xrcd_open(c->ctx, (int)cmd.fd, (int)cmd.oflags, &o);
	if (err)
		return err;
	resp.xrcd_handle = o->handle;
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), NULL, 0);
}
