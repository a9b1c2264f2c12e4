/*
 * ucma_show.c - what others see of identifiers: a CM ID of the recorder for each, and records of
 * calls and events. The connection's part is written by emu/cm_show.c.
 *
 * Owns: the objects of the recorder. Must not know: what calls do.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "trace/names.h"
#include "trace/recorder.h"
#include "verbs/ucma/ucma.h"
#include "verbs/ucma/ucma_internal.h"

#define SAME(ours, theirs) _Static_assert((int)(ours) == (int)TRACE_ID_##theirs, #theirs)
SAME(UCMA_IDLE, IDLE);
SAME(UCMA_ADDR_BOUND, ADDR_BOUND);
SAME(UCMA_ADDR_DONE, ADDR_RESOLVED);
SAME(UCMA_ROUTE_DONE, ROUTE_RESOLVED);
SAME(UCMA_CONNECT, CONNECT);
SAME(UCMA_DISCONNECT, DISCONNECT);
SAME(UCMA_LISTEN, LISTEN);

static struct recorder *recorder_of(const struct ucma_id *id)
{
	return engine_recorder(id->file->u->engine);
}

static void put_state(struct trace_cm_id *s, unsigned int state)
{
	const char *name = trace_name(TRACE_ID_STATE, state);

	if (!strncmp(s->state, name, sizeof(s->state)))
		return;
	snprintf(s->state, sizeof(s->state), "%s", name);
	s->since = engine_now();
}

static struct trace_ip ip_of(const union ucma_addr *a)
{
	struct net_ip from = ucma_addr_ip(a);
	struct trace_ip ip;

	memcpy(ip.b, from.b, sizeof(ip.b));
	return ip;
}

/* Recorded when they are other ones, and known */
static void put_addresses(struct ucma_id *id)
{
	struct trace_cm_id *s = &id->seen->cm;
	struct trace_ip local = ip_of(&id->src), remote = ip_of(&id->dst);
	uint16_t local_port = ucma_addr_port(&id->src);
	uint16_t remote_port = ucma_addr_port(&id->dst);

	if (!memcmp(&s->local, &local, sizeof(local)) &&
	    !memcmp(&s->remote, &remote, sizeof(remote)) && s->local_port == local_port &&
	    s->remote_port == remote_port)
		return;
	s->local = local;
	s->remote = remote;
	s->local_port = local_port;
	s->remote_port = remote_port;
	if (local_port)
		TRACE(recorder_of(id), engine_now(), cm_address, .local = local,
		      .remote = remote, .id = id->handle, .local_port = local_port,
		      .remote_port = remote_port);
}

void ucma_show(struct ucma_id *id)
{
	struct trace_cm_id *s = &id->seen->cm;

	put_state(s, id->state);
	put_addresses(id);
	if (id->dev)
		id->seen->device = (uint16_t)id->dev->index;
	if (id->qp_num)
		s->qpn = id->qp_num;
	s->backlog = id->backlog;
}

int ucma_show_new(struct ucma_id *id)
{
	struct trace_object *o = recorder_object(recorder_of(id));

	if (!o)
		return -ENOMEM;
	o->id = id->handle;
	o->created = engine_now();
	o->cm.type = id->qp_type;
	o->cm.ps = id->ps;
	id->seen = o;
	ucma_show(id);
	recorder_object_ready(o, TRACE_OBJ_CM_ID);
	return 0;
}

/*
 * struct destroying - a thread in rdma_destroy_id(3)
 * @seen:	of the identifier that is gone meanwhile, of @rec
 */
static __thread struct destroying {
	bool inside;
	struct recorder *rec;
	struct trace_object *seen;
} destroying;

void ucma_destroy_begins(void)
{
	destroying.inside = true;
}

void ucma_destroy_ends(void *unused)
{
	if (destroying.seen)
		recorder_object_free(destroying.rec, destroying.seen);
	destroying = (struct destroying){0};
}

void ucma_show_gone(struct ucma_id *id)
{
	struct trace_object *o = id->seen;

	id->seen = NULL;
	if (!destroying.inside || destroying.seen || !o->cm.given) {
		recorder_object_free(recorder_of(id), o);
		return;
	}
	o->cm.protocol = TRACE_CM_STATE_IDLE;
	o->cm.queued = 0;
	put_state(&o->cm, TRACE_ID_DESTROYED);
	destroying.rec = recorder_of(id);
	destroying.seen = o;
}

/* --- events ----------------------------------------------------------------------- */

void ucma_show_queued(const struct ucma_event *ev)
{
	struct trace_cm_id *s = &ev->id->seen->cm;

	s->event = (uint8_t)ev->resp.event;
	s->event_status = (int32_t)ev->resp.status;
	s->event_at = ev->since;
	if (!s->queued++) {
		s->queued_since = ev->since;
		s->queued_event = (uint8_t)ev->resp.event;
	}
	TRACE(recorder_of(ev->id), ev->since, cm_event, .id = ev->id->handle,
	      .status = (int32_t)ev->resp.status, .event = (uint8_t)ev->resp.event);
}

/* One less is queued, of which the oldest is now another one */
static void show_unqueued(const struct ucma_event *ev)
{
	struct trace_cm_id *s = &ev->id->seen->cm;
	const struct ucma_event *next;

	if (!s->queued || !--s->queued) {
		s->queued_since = 0;
		return;
	}
	for (next = ev->id->file->events; next; next = next->next)
		if (next->id == ev->id && next != ev)
			break;
	if (!next)
		return;
	s->queued_since = next->since;
	s->queued_event = (uint8_t)next->resp.event;
}

void ucma_show_given(const struct ucma_event *ev)
{
	uint64_t now = engine_now();

	ev->id->seen->cm.given++;
	if (ev->conn)
		ev->conn->seen->cm.known_since = now;
	show_unqueued(ev);
	TRACE(recorder_of(ev->id), now, cm_given, .id = ev->id->handle,
	      .status = (int32_t)ev->resp.status, .event = (uint8_t)ev->resp.event,
	      .waited = now - ev->since);
}

void ucma_show_dropped(const struct ucma_event *ev)
{
	show_unqueued(ev);
}

/* --- calls ------------------------------------------------------------------------ */

void ucma_show_call(struct ucma *u, struct ucma_id *id, uint32_t handle, uint32_t command,
		    uint32_t private_len, int ret)
{
	if (id)
		ucma_show(id);
	/* its event is recorded, if there was one */
	if (command == RDMA_USER_CM_CMD_GET_EVENT && (!ret || ret == -EAGAIN))
		return;
	TRACE(engine_recorder(u->engine), engine_now(), cm_call, .id = handle,
	      .result = ret, .call = (uint8_t)command,
	      .state = id ? (uint8_t)id->state : TRACE_ID_DESTROYED,
	      .private_length = (uint16_t)private_len, .qp = id ? id->qp_num : 0);
}
