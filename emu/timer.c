/*
 * timer.c - binary heap of timers, see timer.h.
 */
#include "emu/timer.h"

#include <errno.h>
#include <stdlib.h>

#define TIMERS_MIN 64

int tr_timers_reserve(struct tr_timers *ts, uint32_t n)
{
	struct tr_timer **heap;
	uint32_t size = ts->size ? ts->size : TIMERS_MIN;

	while (size < ts->reserved + n)
		size *= 2;
	if (size != ts->size) {
		heap = realloc(ts->heap, size * sizeof(*heap));
		if (!heap)
			return -ENOMEM;
		ts->heap = heap;
		ts->size = size;
	}
	ts->reserved += n;
	return 0;
}

void tr_timers_release(struct tr_timers *ts, uint32_t n)
{
	ts->reserved -= n;
}

void tr_timers_fini(struct tr_timers *ts)
{
	free(ts->heap);
	*ts = (struct tr_timers){0};
}

void tr_timer_init(struct tr_timer *t, tr_timer_fn fn)
{
	*t = (struct tr_timer){.when = TR_NEVER, .key = TR_NEVER, .fn = fn};
}

static void place(struct tr_timers *ts, struct tr_timer *t, uint32_t i)
{
	ts->heap[i] = t;
	t->pos = i + 1;
}

static void sift_up(struct tr_timers *ts, uint32_t i)
{
	struct tr_timer *t = ts->heap[i];

	while (i > 0 && t->key < ts->heap[(i - 1) / 2]->key) {
		place(ts, ts->heap[(i - 1) / 2], i);
		i = (i - 1) / 2;
	}
	place(ts, t, i);
}

static void sift_down(struct tr_timers *ts, uint32_t i)
{
	struct tr_timer *t = ts->heap[i];
	uint32_t child;

	while ((child = 2 * i + 1) < ts->count) {
		if (child + 1 < ts->count &&
		    ts->heap[child + 1]->key < ts->heap[child]->key)
			child++;
		if (t->key <= ts->heap[child]->key)
			break;
		place(ts, ts->heap[child], i);
		i = child;
	}
	place(ts, t, i);
}

void tr_timer_start(struct tr_timers *ts, struct tr_timer *t, uint64_t when)
{
	t->when = when;
	if (t->pos && t->key <= when)
		return;
	t->key = when;
	if (!t->pos)
		place(ts, t, ts->count++);
	sift_up(ts, t->pos - 1);
}

void tr_timer_remove(struct tr_timers *ts, struct tr_timer *t)
{
	uint32_t i = t->pos;
	struct tr_timer *last;

	t->when = TR_NEVER;
	if (!i)
		return;
	t->pos = 0;
	last = ts->heap[--ts->count];
	if (last == t)
		return;
	place(ts, last, i - 1);
	sift_down(ts, i - 1);
	sift_up(ts, last->pos - 1);
}

bool tr_timers_run(struct tr_timers *ts, uint64_t now, uint32_t max)
{
	struct tr_timer *t;

	while (tr_timers_next(ts) <= now) {
		t = ts->heap[0];
		if (t->when == TR_NEVER) {
			tr_timer_remove(ts, t);
		} else if (t->when > now) {
			t->key = t->when;
			sift_down(ts, 0);
		} else if (max-- == 0) {
			return true;
		} else {
			tr_timer_remove(ts, t);
			t->fn(t);
		}
	}
	return false;
}
