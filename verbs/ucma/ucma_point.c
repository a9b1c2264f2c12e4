/*
 * ucma_point.c - where functions and events of rdma_cm can be made to fail (inject/).
 *
 * Owns nothing. A call asks before it is looked at and without the engine's lock; an event
 * asks before it is queued.
 */
#include <errno.h>

#include "inject/inject.h"
#include "trace/names.h"
#include "verbs/ucma/ucma_internal.h"

/* The functions of librdmacm that commands are for */
static const char *const functions[] = {
    [RDMA_USER_CM_CMD_CREATE_ID] = "rdma_create_id",
    [RDMA_USER_CM_CMD_DESTROY_ID] = "rdma_destroy_id",
    [RDMA_USER_CM_CMD_BIND_IP] = "rdma_bind_addr",
    [RDMA_USER_CM_CMD_RESOLVE_IP] = "rdma_resolve_addr",
    [RDMA_USER_CM_CMD_RESOLVE_ROUTE] = "rdma_resolve_route",
    [RDMA_USER_CM_CMD_CONNECT] = "rdma_connect",
    [RDMA_USER_CM_CMD_LISTEN] = "rdma_listen",
    [RDMA_USER_CM_CMD_ACCEPT] = "rdma_accept",
    [RDMA_USER_CM_CMD_REJECT] = "rdma_reject",
    [RDMA_USER_CM_CMD_DISCONNECT] = "rdma_disconnect",
    [RDMA_USER_CM_CMD_INIT_QP_ATTR] = "rdma_init_qp_attr",
    [RDMA_USER_CM_CMD_GET_EVENT] = "rdma_get_cm_event",
    [RDMA_USER_CM_CMD_SET_OPTION] = "rdma_set_option",
    [RDMA_USER_CM_CMD_NOTIFY] = "rdma_notify",
    [RDMA_USER_CM_CMD_JOIN_IP_MCAST] = "rdma_join_multicast",
    [RDMA_USER_CM_CMD_LEAVE_MCAST] = "rdma_leave_multicast",
    [RDMA_USER_CM_CMD_MIGRATE_ID] = "rdma_migrate_id",
    [RDMA_USER_CM_CMD_BIND] = "rdma_bind_addr",
    [RDMA_USER_CM_CMD_RESOLVE_ADDR] = "rdma_resolve_addr",
    [RDMA_USER_CM_CMD_JOIN_MCAST] = "rdma_join_multicast",
};

int ucma_point(const char *function)
{
	const struct inject_point p = {
	    .kind = INJECT_CALL, .name = function, .object = ""};
	struct inject_what what;

	if (!inject_on(INJECT_CALL) || !inject_ask(&p, &what))
		return 0;
	return what.action == INJECT_DO_ERRNO ? -what.error : 0;
}

int ucma_point_command(uint32_t cmd)
{
	return cmd < sizeof(functions) / sizeof(functions[0]) && functions[cmd]
		   ? ucma_point(functions[cmd])
		   : 0;
}

/* The failure that comes instead of an event; the event itself: none does */
static enum ucma_event_type failure_of(enum ucma_event_type type)
{
	switch (type) {
	case UCMA_ADDR_RESOLVED:
		return UCMA_ADDR_ERROR;
	case UCMA_ROUTE_RESOLVED:
		return UCMA_ROUTE_ERROR;
	case UCMA_CONNECT_RESPONSE:
	case UCMA_ESTABLISHED:
		return UCMA_CONNECT_ERROR;
	case UCMA_MULTICAST_JOIN:
		return UCMA_MULTICAST_ERROR;
	case UCMA_ADDR_ERROR:
	case UCMA_ROUTE_ERROR:
	case UCMA_CONNECT_REQUEST:
	case UCMA_CONNECT_ERROR:
	case UCMA_UNREACHABLE:
	case UCMA_REJECTED:
	case UCMA_DISCONNECTED:
	case UCMA_DEVICE_REMOVAL:
	case UCMA_MULTICAST_ERROR:
	case UCMA_ADDR_CHANGE:
	case UCMA_TIMEWAIT_EXIT:
		break;
	}
	return type;
}

bool ucma_point_event(struct ucma_id *id, enum ucma_event_type *type, int *status)
{
	const char *name = trace_name(TRACE_CM_EVENT, *type);
	const struct inject_point p = {
	    .kind = INJECT_EVENT, .name = name ? name : "", .object = ""};
	struct inject_what what;

	if (!inject_on(INJECT_EVENT) || *type == UCMA_CONNECT_REQUEST ||
	    !inject_ask(&p, &what))
		return true;
	if (what.action == INJECT_DO_ERROR && failure_of(*type) != *type) {
		*type = failure_of(*type);
		*status = -ETIMEDOUT;
	}
	if (what.action == INJECT_DO_DISCONNECT)
		ucma_disconnect(id);
	return what.action != INJECT_DO_LOSE;
}

int ucma_point_request(void)
{
	const struct inject_point p = {
	    .kind = INJECT_EVENT, .name = "CONNECT_REQUEST", .object = ""};
	struct inject_what what;

	if (!inject_on(INJECT_EVENT) || !inject_ask(&p, &what))
		return 0;
	return what.action == INJECT_DO_REJECT ? -ECONNREFUSED : -ENOMEM;
}
