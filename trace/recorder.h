/*
 * recorder.h - the writer: what happens in the HCA goes into a segment of shared memory.
 *
 * One line at the place where a thing happens:
 *
 *	TRACE(recorder, now, qp_state, .qpn = qp->qpn, .from = from, .to = to);
 *
 * Nothing is formatted, no system call is made, no lock is taken and nothing is waited for,
 * so it may be used under any lock and in a signal handler. Without a recorder (NULL) it does
 * nothing. Objects and counters are memory of the segment that their owners write to as they
 * write to their own.
 *
 * Memory order: who writes a record publishes it with release (recorder_put()); objects are
 * published by their kind.
 */
#ifndef URXE_TRACE_RECORDER_H
#define URXE_TRACE_RECORDER_H

#include <stddef.h>

#include "trace/format.h"

/* How many records are kept without --trace */
#define RECORDER_SLOTS 4096

/*
 * struct recorder_cfg
 * @path:	file to be made; NULL: memory of the process only
 * @slots:	records that the ring has room for, a power of two
 * @full:	the busiest kinds, too
 * @also:	of them these, a bit for each
 * @real:	CLOCK_REALTIME at @mono, both 0: the times are no clock's
 * @elsewhere:	this segment only tells where the other one is, or NULL
 * @mapped:	told of each piece of the file that is mapped, or NULL
 */
struct recorder_cfg {
	const char *path;
	uint32_t slots;
	bool full;
	uint64_t also;
	uint64_t mono, real;
	const char *elsewhere;
	void (*mapped)(void *addr, size_t len);
};

/* struct recorder_piece - a part of the file that is mapped at one place */
struct recorder_piece {
	uint64_t offset;
	size_t len;
	char *addr;
};

/* struct recorder_ring - @slot: in the segment; @mask: to find one by its number */
struct recorder_ring {
	struct trace_slot *slot;
	uint64_t mask;
};

/*
 * struct recorder - private to the process
 * @hdr:	in the segment
 * @ring:	where records are put now
 * @kinds:	a bit for each kind that is recorded, or told to @sink
 * @in:		what the rest is (recorder.c)
 */
struct recorder {
	struct trace_header *hdr;
	struct recorder_ring *_Atomic ring;
	_Atomic uint64_t kinds;
	struct recorder_inside *in;
};

/*
 * recorder_open - 0, or -errno: the file is there already (EEXIST), cannot be made, or there
 * is no room for it
 */
int recorder_open(const struct recorder_cfg *cfg, struct recorder **out);
/*
 * recorder_start - from @now on all kinds are recorded, into a ring of at least @slots records
 * (rounded up to a power of two); those that are there stay. -EALREADY: they are already, and not only
 * as long as somebody watches
 */
int recorder_start(struct recorder *r, uint64_t slots, uint64_t now);
/* From @now on the busiest kinds are not recorded any more. -EALREADY: they are not */
int recorder_stop(struct recorder *r, uint64_t now);
/*
 * Is it asked from outside (trace_header.asked) to begin or end that? recorder_obey() does it;
 * not at the same time by two threads.
 */
static inline bool recorder_is_asked(const struct recorder *r)
{
	return r && atomic_load_explicit(&r->hdr->asked, memory_order_relaxed) !=
			atomic_load_explicit(&r->hdr->done, memory_order_relaxed);
}
void recorder_obey(struct recorder *r, uint64_t now);
/* Who watched the trace does not any more (trace_header.lease): then it ends. Not beside the others */
void recorder_expire(struct recorder *r, uint64_t now);
/* Write what there is to @path, a file that is not there or is a trace. 0 or -errno */
int recorder_save(struct recorder *r, const char *path);
/* The end of the process is orderly: @end. The segment stays. */
void recorder_end(struct recorder *r, enum trace_end end);
/* Unmap it; objects must not be used any more. The file stays. */
void recorder_close(struct recorder *r);
/*
 * recorder_forked - in the child of fork: what the parent goes on to write is not touched any
 * more, neither by records nor through objects, which become memory of the child
 */
void recorder_forked(struct recorder *r);
/*
 * recorder_tell - from now on @sink hears of the kinds that have a bit in @kinds, at once and in the
 * thread to which they happen. What the ring has stays as it is.
 */
typedef void recorder_sink(uint16_t device, uint64_t now, enum trace_kind kind,
			   const uint64_t *payload);
void recorder_tell(struct recorder *r, uint64_t kinds, recorder_sink *sink);
/* The file's name; NULL if it has none */
const char *recorder_path(const struct recorder *r);
/*
 * For readers in the same process: @len bytes at @offset of the file, both multiples of 8;
 * false: not there
 */
bool recorder_copy(const struct recorder *r, uint64_t offset, void *buf, size_t len);

/*
 * recorder_object - memory for an object, zeroed but for what is given here. Also without a
 * recorder, and where the segment has no room: then nobody sees it. NULL: out of memory.
 *
 * The owner fills it and calls recorder_object_ready().
 */
struct trace_object *recorder_object(struct recorder *r);
static inline void recorder_object_ready(struct trace_object *o,
					 enum trace_object_kind kind)
{
	atomic_store_explicit(&o->kind, kind, memory_order_release);
}
void recorder_object_free(struct recorder *r, struct trace_object *o);

static inline bool recorder_wants(const struct recorder *r, enum trace_kind kind)
{
	return r && atomic_load_explicit(&r->kinds, memory_order_relaxed) & 1ull << kind;
}

/* @payload: TRACE_PAYLOAD bytes */
void recorder_put_of(struct recorder *r, uint16_t device, uint64_t now,
		     enum trace_kind kind, const uint64_t *payload);
static inline void recorder_put(struct recorder *r, uint64_t now, enum trace_kind kind,
				const uint64_t *payload)
{
	recorder_put_of(r, 0, now, kind, payload);
}

#define TRACE(where, now, name, ...) TRACE_OF(where, 0, now, name, __VA_ARGS__)
/* About the device with the index @device */
#define TRACE_OF(where, device, now, name, ...)                                          \
	do {                                                                             \
		struct recorder *r_ = (where);                                           \
		if (recorder_wants(r_, TRACE_KIND_##name)) {                             \
			union {                                                          \
				uint64_t words[TRACE_PAYLOAD / 8];                       \
				struct trace_rec_##name fields;                          \
			} u_ = {{0}};                                                    \
			u_.fields = (struct trace_rec_##name){__VA_ARGS__};              \
			recorder_put_of(r_, (device), (now), TRACE_KIND_##name,          \
					u_.words);                                       \
		}                                                                        \
	} while (0)

#endif
