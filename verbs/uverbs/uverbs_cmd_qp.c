/*
 * uverbs_cmd_qp.c - commands by number: queue pairs, the doorbell, multicast groups.
 */
#include <errno.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "odp/guard.h"
#include "verbs/uverbs/uverbs_cmd.h"
#include "verbs/uverbs/uverbs_convert.h"

/* IB_QP_ATTR_STANDARD_BITS of the kernel: up to IB_QP_DEST_QPN */
#define QP_ATTR_STANDARD_BITS ((IBV_QP_DEST_QPN << 1) - 1)

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

/* The answer of the old command is the beginning of the extended one's. */
static int create_any_qp(struct uverbs_call *c, struct uverbs_qp_args *args,
			 size_t resp_len)
{
	struct ib_uverbs_ex_create_qp_resp resp = {.response_length = sizeof(resp)};
	struct rxe_create_qp_resp hw;
	struct uobject *o;
	int ret;

	if (uverbs_cmd_no_room(c, sizeof(hw)))
		return -EINVAL;
	ret = uverbs_qp_create(c->ctx, args, &o);
	if (ret)
		return ret;
	qp_resp(o, args, &resp.base);
	hw = uverbs_qp_rings(c->ctx, o);
	return uverbs_cmd_created(c, o, &resp, resp_len, &hw, sizeof(hw));
}

/* The members that the two requests have in common */
#define QP_ARGS(cmd)                                                                     \
	(struct uverbs_qp_args)                                                          \
	{                                                                                \
		.user_handle = (cmd).user_handle, .type = (cmd).qp_type,                 \
		.pd = (cmd).pd_handle, .send_cq = (cmd).send_cq_handle,                  \
		.recv_cq = (cmd).recv_cq_handle, .srq = (cmd).srq_handle,                \
		.xrcd = (cmd).pd_handle, .has_srq = (cmd).is_srq,                        \
		.sq_sig_all = (cmd).sq_sig_all,                                          \
		.cap = {                                                                 \
		    (cmd).max_send_wr,	(cmd).max_recv_wr,     (cmd).max_send_sge,       \
		    (cmd).max_recv_sge, (cmd).max_inline_data,                           \
		},                                                                       \
	}

int uverbs_cmd_create_qp(struct uverbs_call *c)
{
	struct ib_uverbs_create_qp cmd;
	struct uverbs_qp_args args;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	args = QP_ARGS(cmd);
	return create_any_qp(c, &args, sizeof(struct ib_uverbs_create_qp_resp));
}

int uverbs_cmd_ex_create_qp(struct uverbs_call *c)
{
	struct ib_uverbs_ex_create_qp cmd;
	struct uverbs_qp_args args;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	if (cmd.comp_mask & ~(uint32_t)IB_UVERBS_CREATE_QP_SUP_COMP_MASK || cmd.reserved)
		return -EINVAL;
	if (cmd.comp_mask || cmd.create_flags || cmd.source_qpn)
		return -EOPNOTSUPP; /* indirection tables, raw packets: not in rxe */
	args = QP_ARGS(cmd);
	return create_any_qp(c, &args, sizeof(struct ib_uverbs_ex_create_qp_resp));
}

int uverbs_cmd_open_qp(struct uverbs_call *c)
{
	struct uverbs_qp_args args = {0};
	struct ib_uverbs_create_qp_resp resp;
	struct ib_uverbs_open_qp cmd;
	struct uobject *o;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	args.user_handle = cmd.user_handle;
	args.type = cmd.qp_type;
	args.xrcd = cmd.pd_handle;
	args.qpn = cmd.qpn;
	ret = uverbs_qp_open(c->ctx, &args, &o);
	if (ret)
		return ret;
	qp_resp(o, &args, &resp);
	return uverbs_cmd_created(c, o, &resp, sizeof(resp), NULL, 0);
}

int uverbs_cmd_query_qp(struct uverbs_call *c)
{
	struct ib_uverbs_query_qp_resp resp;
	struct ibv_qp_init_attr init = {0};
	struct ib_uverbs_query_qp cmd;
	struct ibv_qp_attr attr = {0};
	struct uobject *o;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	o = uverbs_cmd_find(c, UOBJECT_QP, cmd.qp_handle);
	if (!o)
		return -EINVAL;
	emu_qp_query(o->qp, &attr, &init);
	uverbs_from_qp_attr(&attr, &init, &resp);
	return uverbs_response(c, &resp, sizeof(resp));
}

int uverbs_route(const struct uverbs_context *ctx, const struct ibv_ah_attr *attr)
{
	static const struct net_ip none;
	struct net_ip src, dst;

	memcpy(dst.b, attr->grh.dgid.raw, sizeof(dst.b));
	if (!attr->is_global || net_ip_eq(&dst, &none) ||
	    emu_get_gid(ctx->hca, attr->grh.sgid_index, &src) ||
	    net_ip_is_v4(&src) != net_ip_is_v4(&dst))
		return 0; /* an error of another kind, if it is one */
	return net_port_route(engine_port(ctx->engine), &src, &dst);
}

/* What ib_uverbs looks at before the driver does, and the route */
static int check_modify(const struct uverbs_call *c,
			const struct ib_uverbs_modify_qp *cmd,
			const struct ibv_qp_attr *attr)
{
	if (cmd->attr_mask & IBV_QP_PORT && cmd->port_num != EMU_PORT)
		return -EINVAL;
	if (cmd->attr_mask & IBV_QP_AV && cmd->dest.port_num != EMU_PORT)
		return -EINVAL;
	if ((cmd->attr_mask & IBV_QP_CUR_STATE && cmd->cur_qp_state > IBV_QPS_ERR) ||
	    (cmd->attr_mask & IBV_QP_STATE && cmd->qp_state > IBV_QPS_ERR))
		return -EINVAL;
	return cmd->attr_mask & IBV_QP_AV ? uverbs_route(c->ctx, &attr->ah_attr) : 0;
}

static int modify_qp_by(struct uverbs_call *c, const struct ib_uverbs_modify_qp *cmd)
{
	struct uobject *o = uverbs_cmd_find(c, UOBJECT_QP, cmd->qp_handle);
	struct ibv_qp_attr attr;
	int ret;

	if (!o)
		return -EINVAL;
	uverbs_to_qp_attr(cmd, &attr);
	ret = check_modify(c, cmd, &attr);
	if (ret) {
		emu_qp_refused(o->qp, &attr, (int)cmd->attr_mask, ret);
		return ret;
	}
	engine_progress(c->ctx->engine, ENGINE_CHANGED);
	return emu_qp_modify(o->qp, &attr, (int)cmd->attr_mask);
}

int uverbs_cmd_modify_qp(struct uverbs_call *c)
{
	struct ib_uverbs_modify_qp cmd;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	if (cmd.attr_mask & ~(uint32_t)QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	return modify_qp_by(c, &cmd);
}

int uverbs_cmd_ex_modify_qp(struct uverbs_call *c)
{
	struct ib_uverbs_ex_modify_qp_resp resp = {0};
	struct ib_uverbs_ex_modify_qp cmd;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	if (cmd.base.attr_mask & ~(uint32_t)QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP; /* rate limits: not in rxe */
	ret = modify_qp_by(c, &cmd.base);
	if (ret)
		return ret;
	resp.response_length =
	    (uint32_t)(c->out_len < sizeof(resp) ? c->out_len : sizeof(resp));
	return uverbs_response(c, &resp, sizeof(resp));
}

int uverbs_cmd_destroy_qp(struct uverbs_call *c)
{
	struct ib_uverbs_destroy_qp_resp resp;
	struct uverbs_reported rep;
	int ret = uverbs_cmd_destroy(c, UOBJECT_QP, &rep);

	if (ret)
		return ret;
	resp.events_reported = rep.async;
	return uverbs_response(c, &resp, sizeof(resp));
}

/*
 * What is posted is in the ring already; the request itself is only the doorbell.
 */
int uverbs_cmd_post_send(struct uverbs_call *c)
{
	struct ib_uverbs_post_send_resp resp = {0};
	struct ib_uverbs_post_send cmd;
	struct uobject *o;
	int ret;

	if (guard_copy(&cmd, c->in, sizeof(cmd)))
		return -EFAULT;
	o = uverbs_cmd_find(c, UOBJECT_QP, cmd.qp_handle);
	engine_called(c->ctx->engine);
	ret = o ? emu_qp_doorbell(o->qp) : -EINVAL;
	if (ret)
		return ret;
	c->work = ENGINE_POSTED;
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

int uverbs_cmd_attach_mcast(struct uverbs_call *c)
{
	struct ib_uverbs_attach_mcast cmd;
	struct uobject_mcast **p, *m;
	struct uobject *o;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	o = uverbs_cmd_find(c, UOBJECT_QP, cmd.qp_handle);
	if (!o)
		return -EINVAL;
	p = find_group(o, cmd.gid);
	if (*p)
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return -ENOMEM;
	memcpy(m->group.b, cmd.gid, 16);
	ret = emu_qp_attach_mcast(o->qp, &m->group);
	if (ret) {
		free(m);
		return ret;
	}
	*p = m;
	return 0;
}

int uverbs_cmd_detach_mcast(struct uverbs_call *c)
{
	struct ib_uverbs_detach_mcast cmd;
	struct uobject_mcast **p, *m;
	struct uobject *o;
	int ret = uverbs_request(c, &cmd, sizeof(cmd));

	if (ret)
		return ret;
	o = uverbs_cmd_find(c, UOBJECT_QP, cmd.qp_handle);
	p = o ? find_group(o, cmd.gid) : NULL;
	if (!p || !*p)
		return -EINVAL;
	m = *p;
	ret = emu_qp_detach_mcast(o->qp, &m->group);
	if (ret)
		return ret;
	*p = m->next;
	free(m);
	return 0;
}
