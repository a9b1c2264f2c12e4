/*
 * poll_watch.c - see poll_watch.h.
 *
 * Polling makes no system call, so nothing but the wrapper of ibv_poll_cq(3) sees it. What is
 * shown of a CQ is found by the address of the program's object, kept in a small table. An
 * entry may be of a CQ that is gone: its place is believed only if it says itself that it is
 * that object's. Of two CQs that would have the same place, the second is not watched.
 */
#include "verbs/preload/poll_watch.h"

#include <stdatomic.h>
#include <stddef.h>

#include "trace/recorder.h"
#include "verbs/engine/engine.h"
#include "verbs/preload/context_hook.h"
#include "verbs/uverbs/uverbs.h"

#define PLACES 256

static struct {
	_Atomic(struct ibv_cq *) cq;
	_Atomic(struct trace_object *) seen;
} known[PLACES];

static size_t place_of(const struct ibv_cq *cq)
{
	return ((uintptr_t)cq >> 5) % PLACES;
}

/* Its first time: all that it has polled up to now is known from the queue. */
static void begin(struct ibv_cq *cq)
{
	struct uverbs_context *ctx = uverbs_lookup(cq->context->cmd_fd);
	struct trace_object *seen = NULL;
	struct uobject *o;

	if (!ctx)
		return;
	engine_enter(ctx->engine);
	o = uobject_find(&ctx->objects, UOBJECT_CQ, cq->handle);
	if (o)
		seen = emu_cq_watch(o->cq, (uintptr_t)cq);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	if (!seen)
		return;
	atomic_store_explicit(&known[place_of(cq)].cq, cq, memory_order_relaxed);
	atomic_store_explicit(&known[place_of(cq)].seen, seen, memory_order_release);
}

/* Does @seen still show @cq? */
static bool shows(struct trace_object *seen, const struct ibv_cq *cq)
{
	return seen &&
	       atomic_load_explicit(&seen->kind, memory_order_relaxed) == TRACE_OBJ_CQ &&
	       atomic_load_explicit(&seen->cq.app, memory_order_relaxed) == (uintptr_t)cq;
}

void poll_watch(struct ibv_cq *cq, int n)
{
	struct trace_object *seen =
	    atomic_load_explicit(&known[place_of(cq)].seen, memory_order_acquire);
	const struct ibv_cq *of =
	    atomic_load_explicit(&known[place_of(cq)].cq, memory_order_relaxed);
	struct engine *e = engine_running();

	if (!e)
		return;
	if (!shows(seen, of)) {
		begin(cq);
		return;
	}
	/* Another has the place: changing it at each poll would cost a lock each time. */
	if (of != cq)
		return;
	atomic_fetch_add_explicit(&seen->cq.polled, (uint64_t)n, memory_order_relaxed);
	if (!recorder_wants(engine_recorder(e), TRACE_KIND_poll))
		return;
	/* a trace that was begun in a running program is to have its receives, too */
	context_hook_receives(cq->context);
	TRACE(engine_recorder(e), engine_now(), poll, .cq = seen->id,
	      .count = (uint32_t)n);
}

void poll_watch_vain(struct ibv_cq *cq)
{
	struct trace_object *seen =
	    atomic_load_explicit(&known[place_of(cq)].seen, memory_order_acquire);
	const struct ibv_cq *of =
	    atomic_load_explicit(&known[place_of(cq)].cq, memory_order_relaxed);
	uint64_t n;

	if (!shows(seen, of)) {
		begin(cq);
		return;
	}
	if (of != cq)
		return;
	/* two threads that poll the same CQ may lose some: it says that somebody polls */
	n = atomic_load_explicit(&seen->cq.vain, memory_order_relaxed);
	atomic_store_explicit(&seen->cq.vain, n + 1, memory_order_relaxed);
}
