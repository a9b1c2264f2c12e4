/*
 * timer.h - timers of the transport: a binary heap, times given by the caller.
 *
 * A timer that is moved later or stopped stays where it is in the heap and is sorted out
 * when its old time comes: moving the acknowledge timer with each response costs nothing.
 * So the deadline may be early, never late. Knows nothing of QPs.
 */
#ifndef URXE_EMU_TIMER_H
#define URXE_EMU_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#define TR_NEVER UINT64_MAX

struct tr_timer;
typedef void (*tr_timer_fn)(struct tr_timer *timer);

/*
 * struct tr_timer - part of its owner
 * @when:	when it is to fire, TR_NEVER when stopped
 * @key:	by which the heap has it sorted, at most @when
 * @pos:	1 + index in the heap, 0 when not in it
 */
struct tr_timer {
	uint64_t when;
	uint64_t key;
	uint32_t pos;
	tr_timer_fn fn;
};

/* struct tr_timers - the heap; @reserved timers can be started without allocation */
struct tr_timers {
	struct tr_timer **heap;
	uint32_t count;
	uint32_t size;
	uint32_t reserved;
};

/* Make room for @n more timers. 0 or -ENOMEM */
int tr_timers_reserve(struct tr_timers *ts, uint32_t n);
/* Give the room of @n timers back; they must not be in the heap. */
void tr_timers_release(struct tr_timers *ts, uint32_t n);
void tr_timers_fini(struct tr_timers *ts);

void tr_timer_init(struct tr_timer *t, tr_timer_fn fn);
void tr_timer_start(struct tr_timers *ts, struct tr_timer *t, uint64_t when);
/* Take it out of the heap, before its memory goes */
void tr_timer_remove(struct tr_timers *ts, struct tr_timer *t);

static inline void tr_timer_stop(struct tr_timer *t)
{
	t->when = TR_NEVER;
}

static inline bool tr_timer_running(const struct tr_timer *t)
{
	return t->when != TR_NEVER;
}

/* Fire what is due at @now, at most @max; true if more is due */
bool tr_timers_run(struct tr_timers *ts, uint64_t now, uint32_t max);

static inline uint64_t tr_timers_next(const struct tr_timers *ts)
{
	return ts->count ? ts->heap[0]->key : TR_NEVER;
}

#endif
