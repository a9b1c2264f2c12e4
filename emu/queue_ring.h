/*
 * queue_ring.h - the HCA's end of the queues that it shares with the application; their
 * layout is that of queue_layout.h.
 *
 * The application can write every byte of the mapping at any time. So geometry is kept
 * here and never read back, indices are masked on load, and entries are copied out before
 * they are believed.
 */
#ifndef URXE_EMU_QUEUE_RING_H
#define URXE_EMU_QUEUE_RING_H

#include <stdint.h>
#include <string.h>

#include "emu/hca.h"
#include "emu/queue_layout.h"

/*
 * struct emu_ring - our view of one queue
 * @buf:	the shared memory
 * @slots:	power of two; one slot stays empty
 * @log2_elem:	element size
 * @local:	our own index, not masked out of the shared word: the consumer of SQ, RQ,
 *		SRQ, the producer of CQ
 * @recorded:	of RQ and SRQ: the first entry whose post is not in the trace that began at
 *		@recorded_of (trace_header.full_from)
 * @looked:	@local when others were last shown it
 */
struct emu_ring {
	struct rxe_queue_buf *buf;
	void *owner;
	uint64_t offset;
	size_t bytes;
	uint32_t slots;
	uint32_t log2_elem;
	uint32_t local;
	uint32_t recorded, looked;
	uint64_t recorded_of;
};

/* Make a ring of at least @entries usable entries of @elem bytes. 0 or -ENOMEM */
int emu_ring_create(struct emu_hca *hca, void *owner, uint32_t entries, uint32_t elem,
		    struct emu_ring *out);
void emu_ring_destroy(struct emu_hca *hca, struct emu_ring *r);
/* Another size, with the @count entries from index @from on. -ENOMEM: as before */
int emu_ring_resize(struct emu_hca *hca, struct emu_ring *r, uint32_t from,
		    uint32_t count, uint32_t entries);
/* For the application's end; size 0 if there is no ring */
struct emu_ring_info emu_ring_info(const struct emu_ring *r);

static inline uint32_t ring_mask(const struct emu_ring *r)
{
	return r->slots - 1;
}

/* The application's index of SQ, RQ and SRQ */
static inline uint32_t ring_producer(const struct emu_ring *r)
{
	return queue_load(&r->buf->producer_index, ring_mask(r));
}

/* The application's index of CQs */
static inline uint32_t ring_consumer(const struct emu_ring *r)
{
	return queue_load(&r->buf->consumer_index, ring_mask(r));
}

/* Entries that a queue consumed by us holds from @from on */
static inline uint32_t ring_count_from(const struct emu_ring *r, uint32_t from)
{
	return (ring_producer(r) - from) & ring_mask(r);
}

static inline void *ring_at(const struct emu_ring *r, uint32_t index)
{
	return queue_element(r->buf, index, ring_mask(r), r->log2_elem);
}

/* The entries before @index are the application's again. */
static inline void ring_set_consumer(struct emu_ring *r, uint32_t index)
{
	r->local = index & ring_mask(r);
	queue_store(&r->buf->consumer_index, r->local);
}

/* The entries before @index are there for the application. */
static inline void ring_set_producer(struct emu_ring *r, uint32_t index)
{
	r->local = index & ring_mask(r);
	queue_store(&r->buf->producer_index, r->local);
}

#endif
