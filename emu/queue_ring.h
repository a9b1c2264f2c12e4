/*
 * queue_ring.h - the queues that the HCA shares with the application (struct rxe_queue_buf).
 *
 * The application can write every byte of the mapping at any time. So geometry is kept
 * here and never read back, indices are masked on load, and entries are copied out before
 * they are believed. Only two indices are shared: each has one writer.
 */
#ifndef URXE_EMU_QUEUE_RING_H
#define URXE_EMU_QUEUE_RING_H

#include <rdma/rdma_user_rxe.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "emu/hca.h"

/*
 * struct emu_ring - our view of one queue
 * @buf:	the shared memory
 * @slots:	power of two; one slot stays empty
 * @log2_elem:	element size
 * @local:	our own index, not masked out of the shared word: the consumer of SQ, RQ,
 *		SRQ, the producer of CQ
 */
struct emu_ring {
	struct rxe_queue_buf *buf;
	void *owner;
	uint64_t offset;
	size_t bytes;
	uint32_t slots;
	uint32_t log2_elem;
	uint32_t local;
};

/* Make a ring of at least @entries usable entries of @elem bytes. 0 or -ENOMEM */
int emu_ring_create(struct emu_hca *hca, void *owner, uint32_t entries, uint32_t elem,
		    struct emu_ring *out);
void emu_ring_destroy(struct emu_hca *hca, struct emu_ring *r);
/* Another size, with the @count entries from index @from on. -ENOMEM: as before */
int emu_ring_resize(struct emu_hca *hca, struct emu_ring *r, uint32_t from,
		    uint32_t count, uint32_t entries);
/* For the application's mmap(2); size 0 if there is no ring */
struct emu_ring_info emu_ring_info(const struct emu_ring *r);

static inline uint32_t ring_mask(const struct emu_ring *r)
{
	return r->slots - 1;
}

/* The application's index: acquire, pairs with the release of its producer (librxe) */
static inline uint32_t ring_producer(const struct emu_ring *r)
{
	return __atomic_load_n(&r->buf->producer_index, __ATOMIC_ACQUIRE) & ring_mask(r);
}

static inline uint32_t ring_consumer(const struct emu_ring *r)
{
	return __atomic_load_n(&r->buf->consumer_index, __ATOMIC_ACQUIRE) & ring_mask(r);
}

/* Entries that a queue consumed by us holds from @from on */
static inline uint32_t ring_count_from(const struct emu_ring *r, uint32_t from)
{
	return (ring_producer(r) - from) & ring_mask(r);
}

static inline void *ring_at(const struct emu_ring *r, uint32_t index)
{
	return r->buf->data + ((size_t)(index & ring_mask(r)) << r->log2_elem);
}

/* Release: what we did with the entries is done before the application reuses them */
static inline void ring_set_consumer(struct emu_ring *r, uint32_t index)
{
	r->local = index & ring_mask(r);
	__atomic_store_n(&r->buf->consumer_index, r->local, __ATOMIC_RELEASE);
}

static inline void ring_set_producer(struct emu_ring *r, uint32_t index)
{
	r->local = index & ring_mask(r);
	__atomic_store_n(&r->buf->producer_index, r->local, __ATOMIC_RELEASE);
}

#endif
