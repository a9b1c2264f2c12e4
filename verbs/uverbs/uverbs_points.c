/*
 * uverbs_points.c - see uverbs_points.h.
 */
#include "verbs/uverbs/uverbs_points.h"

#include <errno.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

#include "verbs/engine/event_channel.h"

/* --- which verb a request is ------------------------------------------------------ */

/*
 * The doorbell (POST_SEND) is not here: when it rings the requests are in the ring already, and
 * ibv_post_send(3) cannot take them back. uverbs_point_post() is asked before.
 */
static const char *const commands[] = {
    [IB_USER_VERBS_CMD_GET_CONTEXT] = "ibv_open_device",
    [IB_USER_VERBS_CMD_QUERY_DEVICE] = "ibv_query_device",
    [IB_USER_VERBS_CMD_QUERY_PORT] = "ibv_query_port",
    [IB_USER_VERBS_CMD_ALLOC_PD] = "ibv_alloc_pd",
    [IB_USER_VERBS_CMD_DEALLOC_PD] = "ibv_dealloc_pd",
    [IB_USER_VERBS_CMD_CREATE_AH] = "ibv_create_ah",
    [IB_USER_VERBS_CMD_DESTROY_AH] = "ibv_destroy_ah",
    [IB_USER_VERBS_CMD_REG_MR] = "ibv_reg_mr",
    [IB_USER_VERBS_CMD_REREG_MR] = "ibv_rereg_mr",
    [IB_USER_VERBS_CMD_DEREG_MR] = "ibv_dereg_mr",
    [IB_USER_VERBS_CMD_ALLOC_MW] = "ibv_alloc_mw",
    [IB_USER_VERBS_CMD_DEALLOC_MW] = "ibv_dealloc_mw",
    [IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL] = "ibv_create_comp_channel",
    [IB_USER_VERBS_CMD_CREATE_CQ] = "ibv_create_cq",
    [IB_USER_VERBS_CMD_RESIZE_CQ] = "ibv_resize_cq",
    [IB_USER_VERBS_CMD_DESTROY_CQ] = "ibv_destroy_cq",
    [IB_USER_VERBS_CMD_REQ_NOTIFY_CQ] = "ibv_req_notify_cq",
    [IB_USER_VERBS_CMD_CREATE_QP] = "ibv_create_qp",
    [IB_USER_VERBS_CMD_QUERY_QP] = "ibv_query_qp",
    [IB_USER_VERBS_CMD_MODIFY_QP] = "ibv_modify_qp",
    [IB_USER_VERBS_CMD_DESTROY_QP] = "ibv_destroy_qp",
    [IB_USER_VERBS_CMD_ATTACH_MCAST] = "ibv_attach_mcast",
    [IB_USER_VERBS_CMD_DETACH_MCAST] = "ibv_detach_mcast",
    [IB_USER_VERBS_CMD_CREATE_SRQ] = "ibv_create_srq",
    [IB_USER_VERBS_CMD_MODIFY_SRQ] = "ibv_modify_srq",
    [IB_USER_VERBS_CMD_QUERY_SRQ] = "ibv_query_srq",
    [IB_USER_VERBS_CMD_DESTROY_SRQ] = "ibv_destroy_srq",
    [IB_USER_VERBS_CMD_OPEN_XRCD] = "ibv_open_xrcd",
    [IB_USER_VERBS_CMD_CLOSE_XRCD] = "ibv_close_xrcd",
    [IB_USER_VERBS_CMD_OPEN_QP] = "ibv_open_qp",
    [IB_USER_VERBS_CMD_CREATE_XSRQ] = "ibv_create_srq",
};

static const char *const ex_commands[] = {
    [IB_USER_VERBS_EX_CMD_QUERY_DEVICE] = "ibv_query_device",
    [IB_USER_VERBS_EX_CMD_CREATE_CQ] = "ibv_create_cq",
    [IB_USER_VERBS_EX_CMD_CREATE_QP] = "ibv_create_qp",
    [IB_USER_VERBS_EX_CMD_MODIFY_QP] = "ibv_modify_qp",
};

/* Methods that are a verb by themselves */
static const struct {
	uint16_t object, method;
	const char *verb;
} methods[] = {
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT, "ibv_open_device"},
    {UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT, "ibv_query_port"},
    {UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, "ibv_create_cq"},
    {UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, "ibv_destroy_cq"},
    {UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, "ibv_create_qp"},
    {UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, "ibv_destroy_qp"},
    {UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE, "ibv_create_srq"},
    {UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, "ibv_destroy_srq"},
    {UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, "ibv_dealloc_pd"},
    {UVERBS_OBJECT_MW, UVERBS_METHOD_MW_DESTROY, "ibv_dealloc_mw"},
    {UVERBS_OBJECT_AH, UVERBS_METHOD_AH_DESTROY, "ibv_destroy_ah"},
    {UVERBS_OBJECT_XRCD, UVERBS_METHOD_XRCD_DESTROY, "ibv_close_xrcd"},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, "ibv_dereg_mr"},
    {UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, "ibv_advise_mr"},
};

/* --- asking ----------------------------------------------------------------------- */

static bool ask(const char *verb, struct inject_what *what)
{
	const struct inject_point p = {.kind = INJECT_CALL, .name = verb, .object = ""};

	return inject_ask(&p, what);
}

/* An event of a QP that is an error: the QP is in ERR then */
static void fail_qp(struct uobject *o, enum ibv_event_type type)
{
	const struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	emu_qp_modify(o->qp, &attr, IBV_QP_STATE);
	event_post(&uobject_events(o)->async, type);
}

/*
 * With the engine's lock; @o: what the verb is about, or NULL. What an event tells of is so: a port that
 * is down, another GID, a limit that is used up, a device that is of no use any more.
 */
static void have_event(struct uverbs_context *ctx, struct uobject *o,
		       enum ibv_event_type type)
{
	struct ibv_port_attr port;

	/* not by the enum: later versions of verbs.h have events that rules cannot name */
	switch ((int)type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		if (o && o->type == UOBJECT_QP)
			fail_qp(o, type);
		break;
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_SRQ_ERR:
		if (o)
			event_post(&uobject_events(o)->async, type);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		if (o && o->type == UOBJECT_SRQ)
			emu_srq_limit_reached(o->srq);
		break;
	case IBV_EVENT_PORT_ERR:
		emu_port_fail(ctx->hca, 0);
		break;
	case IBV_EVENT_PORT_ACTIVE:
		emu_query_port(ctx->hca, &port);
		if (port.state == IBV_PORT_ACTIVE)
			engine_port_event(ctx->dev, type);
		emu_port_repair(ctx->hca);
		break;
	case IBV_EVENT_GID_CHANGE:
		emu_gid_move(ctx->hca);
		break;
	case IBV_EVENT_DEVICE_FATAL:
		emu_hca_die(ctx->hca);
		break;
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
		engine_port_event(ctx->dev, type);
		break;
	case IBV_EVENT_CQ_ERR: /* of no verb (inject/rule.c) */
	case IBV_EVENT_WQ_FATAL:
		break;
	}
}

/* What a rule wants; @type is UOBJECT_PD if it is about no object */
static int obey(struct uverbs_context *ctx, const struct inject_what *what,
		enum uobject_type type, uint32_t handle)
{
	const struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct uobject *o = NULL;

	if (what->action == INJECT_DO_ERRNO)
		return -what->error;
	engine_enter(ctx->engine);
	if (type != UOBJECT_PD)
		o = uobject_find(&ctx->objects, type, handle);
	if (what->action == INJECT_DO_QP_ERROR && o && type == UOBJECT_QP)
		emu_qp_modify(o->qp, &attr, IBV_QP_STATE);
	else if (what->action == INJECT_DO_ASYNC)
		have_event(ctx, o, (enum ibv_event_type)what->value);
	else if (what->action == INJECT_DO_LINK_DOWN)
		emu_port_fail(ctx->hca, engine_now() + what->time);
	engine_progress(ctx->engine, ENGINE_CHANGED);
	engine_leave(ctx->engine);
	return 0;
}

/* What is made before can be given back to a device that has failed for good; nothing else works. */
static bool gives_back(const char *verb)
{
	return !strncmp(verb, "ibv_de", 6) || !strncmp(verb, "ibv_close", 9);
}

int uverbs_point(struct uverbs_context *ctx, const char *verb)
{
	struct inject_what what;
	int ret = inject_on(INJECT_CALL) && ask(verb, &what)
		      ? obey(ctx, &what, UOBJECT_PD, 0)
		      : 0;

	return !ret && emu_hca_is_dead(ctx->hca) && !gives_back(verb) ? -EIO : ret;
}

int uverbs_point_post(struct uverbs_context *ctx, const char *verb,
		      enum uobject_type type, uint32_t handle)
{
	struct inject_what what;

	return ask(verb, &what) ? obey(ctx, &what, type, handle) : 0;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

int uverbs_ask_command(struct uverbs_context *ctx, uint32_t command)
{
	uint32_t n = command & IB_USER_VERBS_CMD_COMMAND_MASK;
	const char *verb = NULL;

	if (command & IB_USER_VERBS_CMD_FLAG_EXTENDED)
		verb = n < COUNT(ex_commands) ? ex_commands[n] : NULL;
	else
		verb = n < COUNT(commands) ? commands[n] : NULL;
	return verb ? uverbs_point(ctx, verb) : 0;
}

int uverbs_ask_method(struct uverbs_request *r)
{
	const struct uverbs_method *m = r->method;

	if (m->object == UVERBS_OBJECT_DEVICE && m->id == UVERBS_METHOD_INVOKE_WRITE)
		return uverbs_ask_command(
		    r->ctx, (uint32_t)uattr_number(r, UVERBS_ATTR_WRITE_CMD));
	for (size_t i = 0; i < COUNT(methods); i++)
		if (methods[i].object == m->object && methods[i].method == m->id)
			return uverbs_point(r->ctx, methods[i].verb);
	return 0;
}
