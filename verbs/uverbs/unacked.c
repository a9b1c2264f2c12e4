/*
 * unacked.c - events that the program has read and not acknowledged when it destroys their object.
 *
 * libibverbs waits for the acknowledges then, maybe for ever; it counts them in the object that
 * the program has, whose address it told when the object was made. That address is believed only
 * if the handle is there, too.
 *
 * Owns: the layout of struct ibv_cq, ibv_qp and ibv_srq, as far as it is public.
 */
#include <infiniband/verbs.h>
#include <stddef.h>

#include "odp/guard.h"
#include "verbs/uverbs/uverbs.h"

/* struct place - members of the program's object */
struct place {
	size_t handle, completed;
};

/* How many of @reported are not acknowledged */
static uint32_t missing(const struct uobject *o, uint64_t object, const struct place *p,
			uint32_t reported)
{
	const char *at = (const char *)(uintptr_t)object;
	uint32_t handle, completed;

	if (!reported || !object || guard_copy(&handle, at + p->handle, sizeof(handle)) ||
	    guard_copy(&completed, at + p->completed, sizeof(completed)) ||
	    handle != o->handle || completed > reported)
		return 0;
	return reported - completed;
}

void uverbs_unacked(struct uobject *o, struct uverbs_unacked *out)
{
	static const struct place comp = {offsetof(struct ibv_cq, handle),
					  offsetof(struct ibv_cq, comp_events_completed)};
	static const struct place async[] = {
	    [UOBJECT_CQ] = {offsetof(struct ibv_cq, handle),
			    offsetof(struct ibv_cq, async_events_completed)},
	    [UOBJECT_QP] = {offsetof(struct ibv_qp, handle),
			    offsetof(struct ibv_qp, events_completed)},
	    [UOBJECT_SRQ] = {offsetof(struct ibv_srq, handle),
			     offsetof(struct ibv_srq, events_completed)},
	};
	const struct uevobject *ev = uobject_events(o);

	*out = (struct uverbs_unacked){0};
	if (o->type == UOBJECT_CQ) {
		out->object = TRACE_OBJ_CQ;
		out->id = emu_cq_num(o->cq);
		out->comp = missing(o, ev->comp.user_handle, &comp, ev->comp.reported);
	} else if (o->type == UOBJECT_QP) {
		out->object = TRACE_OBJ_QP;
		out->id = emu_qp_num(o->qp);
	} else if (o->type == UOBJECT_SRQ) {
		out->object = TRACE_OBJ_SRQ;
		out->id = emu_srq_num(o->srq);
	} else {
		return;
	}
	out->async =
	    missing(o, ev->async.user_handle, &async[o->type], ev->async.reported);
}
