/*
 * uobject.c - what the handles of a context stand for.
 */
#include "verbs/uverbs/uobject.h"

#include <stdlib.h>

#include "base/container.h"
#include "trace/format.h"

#define FIRST_CAP   64
#define MAX_HANDLES (1u << 26)

static void on_comp(struct engine_event_sink *s)
{
	struct uevobject *o = container_of(s, struct uevobject, sink);

	event_post(&o->comp, 0);
}

static void on_async(struct engine_event_sink *s, enum ibv_event_type type)
{
	struct uevobject *o = container_of(s, struct uevobject, sink);

	event_post(&o->async, type);
}

static bool has_events(enum uobject_type type)
{
	return type == UOBJECT_CQ || type == UOBJECT_SRQ || type == UOBJECT_QP;
}

static bool grow(struct uobject_table *t)
{
	uint32_t cap = t->cap ? 2 * t->cap : FIRST_CAP;
	struct uobject **slot;

	if (cap > MAX_HANDLES)
		return false;
	slot = realloc(t->slot, cap * sizeof(*slot));
	if (!slot)
		return false;
	for (uint32_t i = t->cap; i < cap; i++)
		slot[i] = NULL;
	t->slot = slot;
	t->cap = cap;
	return true;
}

/* One more, or one less, of @type */
static void count(struct uobject_table *t, enum uobject_type type, int change)
{
	static const uint8_t kinds[] = {
	    [UOBJECT_PD] = TRACE_OBJ_PD,   [UOBJECT_MR] = TRACE_OBJ_MR,
	    [UOBJECT_MW] = TRACE_OBJ_MW,   [UOBJECT_CQ] = TRACE_OBJ_CQ,
	    [UOBJECT_SRQ] = TRACE_OBJ_SRQ, [UOBJECT_QP] = TRACE_OBJ_QP,
	    [UOBJECT_AH] = TRACE_OBJ_AH,   [UOBJECT_XRCD] = TRACE_OBJ_XRCD,
	};

	if (t->left)
		t->left[kinds[type]] += (uint64_t)(int64_t)change;
}

struct uobject *uobject_new(struct uobject_table *t, enum uobject_type type)
{
	struct uobject *o;
	uint32_t h = t->lowest;

	while (h < t->cap && t->slot[h])
		h++;
	if (h == t->cap && !grow(t))
		return NULL;
	o = calloc(1, has_events(type) ? sizeof(struct uevobject) : sizeof(*o));
	if (!o)
		return NULL;
	o->type = type;
	o->handle = h;
	if (has_events(type))
		uobject_events(o)->sink =
		    (struct engine_event_sink){.comp = on_comp, .async = on_async};
	t->slot[h] = o;
	t->lowest = h + 1;
	t->used++;
	count(t, type, 1);
	return o;
}

void uobject_free(struct uobject_table *t, struct uobject *o)
{
	t->slot[o->handle] = NULL;
	if (o->handle < t->lowest)
		t->lowest = o->handle;
	t->used--;
	count(t, o->type, -1);
	free(o);
}

struct uobject *uobject_find(struct uobject_table *t, enum uobject_type type,
			     uint32_t handle)
{
	struct uobject *o = handle < t->cap ? t->slot[handle] : NULL;

	return o && o->type == type ? o : NULL;
}

void uobject_table_fini(struct uobject_table *t)
{
	free(t->slot);
	*t = (struct uobject_table){0};
}
