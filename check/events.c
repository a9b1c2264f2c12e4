/*
 * events.c - asynchronous events that the program has read and not acknowledged: to destroy what they are
 * about waits for that. Those of completions are in verbs.c.
 */
#include <errno.h>

#include "check/check.h"
#include "verbs/host/libc.h"
#include "verbs/preload/next_verb.h"

#define OBJECTS 64

/* struct unacked - an object of the program with events that were read; @n: and not acknowledged */
struct unacked {
	const void *object;
	unsigned int n;
	const struct check_stack *read;
};

static struct unacked unacked[OBJECTS];

/* What the event is about; NULL: the port or the device, which wait for nothing */
static const void *object_of(const struct ibv_async_event *e)
{
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		return e->element.cq;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return e->element.srq;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return e->element.qp;
	default:
		return NULL;
	}
}

/* Its place, or an empty one; NULL: there is none */
static struct unacked *place_of(const void *object)
{
	struct unacked *empty = NULL;

	for (unsigned int i = 0; i < OBJECTS; i++) {
		if (unacked[i].object == object)
			return &unacked[i];
		if (!unacked[i].object)
			empty = &unacked[i];
	}
	return empty;
}

static void count(const struct ibv_async_event *e, int change)
{
	const void *object = object_of(e);
	struct unacked *u;

	if (!object || !check_lock())
		return;
	u = place_of(object);
	if (u) {
		u->object = object;
		u->n = change < 0 && !u->n ? 0 : u->n + (unsigned int)change;
		u->read = change > 0 ? check_stack() : u->read;
		u->object = u->n ? object : NULL;
	}
	check_unlock();
}

static void ends(const char *kind, uint32_t number, const void *object)
{
	struct unacked *u;

	if (!check_lock())
		return;
	u = place_of(object);
	if (u && u->object) {
		const struct check_with with[] = {{"destroyed", check_stack()},
						  {"the last event read", u->read}};

		check_report(CHECK_EVENTS_UNACKED, with, 2,
			     "%s %u: %u asynchronous events are not acknowledged", kind,
			     number, u->n);
		u->object = NULL;
	}
	check_unlock();
}

/* A pointer to the real function @name of libibverbs */
#define VERB(name)                                                                       \
	({                                                                               \
		static void *slot_;                                                      \
		if (!slot_)                                                              \
			slot_ = next_verb(#name);                                        \
		(__typeof__(&name))slot_;                                                \
	})

INTERPOSE int ibv_get_async_event(struct ibv_context *context,
				  struct ibv_async_event *event)
{
	int ret = VERB(ibv_get_async_event)(context, event);
	int err = errno;

	if (!ret)
		count(event, 1);
	errno = err;
	return ret;
}

INTERPOSE void ibv_ack_async_event(struct ibv_async_event *event)
{
	count(event, -1);
	VERB(ibv_ack_async_event)(event);
}

INTERPOSE int ibv_destroy_qp(struct ibv_qp *qp)
{
	ends("QP", qp->qp_num, qp);
	return VERB(ibv_destroy_qp)(qp);
}

INTERPOSE int ibv_destroy_srq(struct ibv_srq *srq)
{
	ends("SRQ", srq->handle, srq);
	return VERB(ibv_destroy_srq)(srq);
}
