/*
 * cq.c - completion queues: posting, arming, overrun, resizing.
 *
 * We are the producer of the ring, the application (librxe) the consumer. An entry is a
 * struct ib_uverbs_wc.
 *
 * Entries of a QP that was reset are forgotten (emu_cq_forget()), but they are the application's
 * until it polls past them, so they take room in the ring. To the application there are none: when
 * it is their fault that the ring is full, what comes is kept aside, as many entries as they are,
 * and moved to the ring when the application has polled.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/note.h"

/* struct cq_aside - an entry that waits for room in the ring */
struct cq_aside {
	struct ib_uverbs_wc wc;
	bool solicited;
};

static uint32_t cq_count(const struct emu_cq *cq)
{
	return (cq->ring.local - ring_consumer(&cq->ring)) & ring_mask(&cq->ring);
}

static bool ring_is_full(const struct emu_cq *cq)
{
	return cq_count(cq) == ring_mask(&cq->ring);
}

static struct ib_uverbs_wc *entry(const struct emu_cq *cq, uint32_t i)
{
	return ring_at(&cq->ring, i);
}

/* What others see of it. 0 or -ENOMEM */
static int show(struct emu_cq *cq)
{
	struct trace_object *o = recorder_object(cq->hca->cfg.recorder);

	if (!o)
		return -ENOMEM;
	cq->num = ++cq->hca->next_cq;
	cq->cqe = cq->ring.slots - 1;
	o->id = cq->num;
	o->device = cq->hca->cfg.device;
	o->created = cq->hca->now;
	o->cq.size = cq->cqe;
	cq->seen = o;
	recorder_object_ready(o, TRACE_OBJ_CQ);
	return 0;
}

int emu_cq_create(struct emu_hca *hca, void *owner, void *cookie, uint32_t cqe,
		  struct emu_cq **out)
{
	struct emu_cq *cq;
	int ret;

	if (cqe == 0 || cqe > hca->limits.max_cqe) {
		emu_made(hca, TRACE_OBJ_CQ, 0, 0, cqe, -EINVAL);
		return -EINVAL;
	}
	if (hca->num_cqs >= hca->limits.max_cq)
		return -ENOMEM;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	*cq = (struct emu_cq){.hca = hca, .owner = owner, .cookie = cookie};
	ret = emu_ring_create(hca, owner, cqe, sizeof(struct ib_uverbs_wc), &cq->ring);
	if (!ret)
		ret = show(cq);
	if (ret) {
		emu_made(hca, TRACE_OBJ_CQ, 0, 0, cqe, ret);
		emu_ring_destroy(hca, &cq->ring);
		free(cq);
		return ret;
	}
	hca->num_cqs++;
	emu_made(hca, TRACE_OBJ_CQ, cq->num, 0, cq->cqe, 0);
	*out = cq;
	return 0;
}

uint32_t emu_cq_cqe(const struct emu_cq *cq)
{
	return cq->cqe;
}

uint32_t emu_cq_num(const struct emu_cq *cq)
{
	return cq->num;
}

struct emu_ring_info emu_cq_ring(const struct emu_cq *cq)
{
	return emu_ring_info(&cq->ring);
}

void emu_cq_arm(struct emu_cq *cq, bool solicited_only)
{
	EMU_TRACE(cq->hca, arm_cq, .cq = cq->num, .solicited = solicited_only);
	if (cq->armed && !cq->solicited_only)
		return;
	cq->seen->cq.armed = solicited_only ? 2 : 1;
	cq->armed = true;
	cq->solicited_only = solicited_only;
}

/* Entries of the ring that are forgotten; counted once while the application does not poll */
static uint32_t count_forgotten(struct emu_cq *cq)
{
	uint32_t from = ring_consumer(&cq->ring), i, n = 0;

	if (cq->forgotten_known && cq->forgotten_from == from)
		return cq->forgotten;
	for (i = from; i != cq->ring.local; i = (i + 1) & ring_mask(&cq->ring))
		n += entry(cq, i)->vendor_err == EMU_WC_FORGOTTEN;
	cq->forgotten_known = true;
	cq->forgotten_from = from;
	cq->forgotten = n;
	return n;
}

/* Without those of QP @qpn */
static void forget_aside(struct emu_cq *cq, uint32_t qpn)
{
	uint32_t i, kept = 0;

	for (i = 0; i < cq->n_aside; i++)
		if (cq->aside[i].wc.qp_num != qpn)
			cq->aside[kept++] = cq->aside[i];
	cq->n_aside = kept;
}

struct trace_object *emu_cq_watch(struct emu_cq *cq, uint64_t app)
{
	struct trace_cq *seen = &cq->seen->cq;

	seen->polled = seen->produced - cq_count(cq);
	seen->watched = true;
	seen->app = app;
	return cq->seen;
}

void emu_cq_forget(struct emu_cq *cq, uint32_t qpn)
{
	uint32_t i;

	for (i = ring_consumer(&cq->ring); i != cq->ring.local;
	     i = (i + 1) & ring_mask(&cq->ring))
		if (entry(cq, i)->qp_num == qpn)
			entry(cq, i)->vendor_err = EMU_WC_FORGOTTEN;
	cq->forgotten_known = false;
	forget_aside(cq, qpn);
}

/* One more, and @count before it were not consumed: that is what the ring says. */
static void show_produced(struct emu_cq *cq, uint32_t count)
{
	struct trace_cq *seen = &cq->seen->cq;
	uint64_t n = atomic_load_explicit(&seen->produced, memory_order_relaxed);

	if (!seen->watched)
		atomic_store_explicit(&seen->polled, n - count, memory_order_relaxed);
	if (!count)
		seen->waiting = cq->hca->now;
	seen->last = cq->hca->now;
	atomic_store_explicit(&seen->produced, n + 1, memory_order_relaxed);
}

static void record(struct emu_cq *cq, const struct ib_uverbs_wc *wc, uint32_t unpolled)
{
#define FIELDS                                                                           \
	.wr_id = wc->wr_id, .qpn = wc->qp_num, .cq = cq->num,                            \
	.status = (uint8_t)wc->status, .opcode = (uint8_t)wc->opcode,                    \
	.receive = wc->opcode >= IBV_WC_RECV, .flags = (uint8_t)wc->wc_flags,            \
	.length = wc->byte_len, .unpolled = unpolled
	if (wc->status == IBV_WC_SUCCESS)
		EMU_TRACE(cq->hca, completion, FIELDS);
	else
		EMU_TRACE(cq->hca, completion_error, FIELDS);
#undef FIELDS
}

static void put(struct emu_cq *cq, const struct ib_uverbs_wc *wc)
{
	uint32_t count = cq_count(cq);

	memcpy(entry(cq, cq->ring.local), wc, sizeof(*wc));
	show_produced(cq, count);
	record(cq, wc, count + 1);
	ring_set_producer(&cq->ring, cq->ring.local + 1);
}

static void notify(struct emu_cq *cq, bool solicited)
{
	if (!cq->armed || (!solicited && cq->solicited_only))
		return;
	cq->armed = false;
	cq->seen->cq.armed = 0;
	cq->seen->cq.events++;
	EMU_TRACE(cq->hca, cq_event, .cq = cq->num);
	cq->hca->ops->comp_event(cq->hca->arg, cq->cookie);
}

/* False: no room, not even for this, or no memory */
static bool put_aside(struct emu_cq *cq, const struct ib_uverbs_wc *wc, bool solicited)
{
	struct cq_aside *a;

	if (cq->n_aside >= count_forgotten(cq))
		return false;
	if (cq->n_aside == cq->aside_room) {
		a = realloc(cq->aside, (2 * cq->aside_room + 16) * sizeof(*a));
		if (!a)
			return false;
		cq->aside = a;
		cq->aside_room = 2 * cq->aside_room + 16;
	}
	cq->aside[cq->n_aside++] = (struct cq_aside){*wc, solicited};
	if (!cq->aside_listed) {
		cq->aside_listed = true;
		cq->aside_next = cq->hca->cqs_aside;
		cq->hca->cqs_aside = cq;
	}
	return true;
}

/*
 * What fits goes into the ring. It was announced when it was put aside, but the application may
 * have looked in vain since.
 */
static void bring_back(struct emu_cq *cq)
{
	uint32_t n = 0;

	if (!cq->n_aside)
		return;
	while (n < cq->n_aside && !ring_is_full(cq)) {
		put(cq, &cq->aside[n].wc);
		notify(cq, cq->aside[n].solicited);
		n++;
	}
	cq->n_aside -= n;
	memmove(cq->aside, cq->aside + n, cq->n_aside * sizeof(*cq->aside));
}

static void unlist(struct emu_cq *cq)
{
	struct emu_cq **p = &cq->hca->cqs_aside;

	while (cq->aside_listed && *p != cq)
		p = &(*p)->aside_next;
	if (cq->aside_listed)
		*p = cq->aside_next;
	cq->aside_listed = false;
}

void emu_cqs_bring_back(struct emu_hca *hca)
{
	struct emu_cq *cq, *next;

	for (cq = hca->cqs_aside; cq; cq = next) {
		next = cq->aside_next;
		bring_back(cq);
		if (!cq->n_aside)
			unlist(cq);
	}
}

static void overrun(struct emu_cq *cq)
{
	const struct emu_about about = {.cause = TRACE_NOTE_CQ_OVERRUN,
					.object = TRACE_OBJ_CQ,
					.id = cq->num,
					.say = true};

	cq->overrun = true;
	emu_note(cq->hca, &about,
		 "CQ %u overrun: more than %u completions and nobody polls", cq->num,
		 cq->cqe);
	cq->seen->cq.overrun = true;
	emu_event(cq->hca, IBV_EVENT_CQ_ERR, TRACE_OBJ_CQ, cq->num, cq->cookie);
}

int emu_cq_post(struct emu_cq *cq, const struct ib_uverbs_wc *wc, bool solicited)
{
	if (cq->overrun)
		return -ENOSPC;
	if (cq->n_aside)
		bring_back(cq);
	if (!cq->n_aside && !ring_is_full(cq)) {
		put(cq, wc);
	} else if (!put_aside(cq, wc, solicited)) {
		overrun(cq);
		return -ENOSPC;
	}
	notify(cq, solicited);
	return 0;
}

int emu_cq_resize(struct emu_cq *cq, uint32_t cqe)
{
	uint32_t count = cq_count(cq);
	int ret;

	if (cqe == 0 || cqe > cq->hca->limits.max_cqe || cqe < count + cq->n_aside)
		return -EINVAL;
	ret = emu_ring_resize(cq->hca, &cq->ring, ring_consumer(&cq->ring), count, cqe);
	if (ret)
		return ret;
	cq->ring.local = count;
	cq->cqe = cq->ring.slots - 1;
	cq->seen->cq.size = cq->cqe;
	EMU_TRACE(cq->hca, verb, .object = TRACE_OBJ_CQ, .verb = TRACE_VERB_RESIZE,
		  .id = cq->num, .size = cq->cqe);
	cq->forgotten_known = false;
	bring_back(cq);
	return 0;
}

int emu_cq_destroy(struct emu_cq *cq)
{
	emu_ended(cq->hca, TRACE_OBJ_CQ, cq->num, cq->users ? -EBUSY : 0);
	if (cq->users)
		return -EBUSY;
	recorder_object_free(cq->hca->cfg.recorder, cq->seen);
	unlist(cq);
	free(cq->aside);
	emu_ring_destroy(cq->hca, &cq->ring);
	cq->hca->num_cqs--;
	free(cq);
	return 0;
}
