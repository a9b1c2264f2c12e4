/*
 * queue_ring.c - making and replacing the queues that are shared with the application.
 *
 * Geometry as rxe_queue_init() has it: elements padded to a cache line and to a power of
 * two, one slot more than entries, rounded up to a power of two.
 */
#include <errno.h>

#include "emu/objects.h"

#define MIN_ELEM 64 /* a cache line, so that two entries never share one */

static uint32_t log2_up(uint64_t v)
{
	return v <= 1 ? 0 : 64 - (uint32_t)__builtin_clzll(v - 1);
}

int emu_ring_create(struct emu_hca *hca, void *owner, uint32_t entries, uint32_t elem,
		    struct emu_ring *out)
{
	struct emu_ring r = {.owner = owner};

	r.log2_elem = log2_up(elem < MIN_ELEM ? MIN_ELEM : elem);
	r.slots = 1u << log2_up((uint64_t)entries + 1);
	r.bytes = queue_bytes(r.slots, r.log2_elem);
	r.buf = hca->ops->ring_alloc(hca->arg, owner, r.bytes, &r.offset);
	if (!r.buf)
		return -ENOMEM;
	r.buf->log2_elem_size = r.log2_elem;
	r.buf->index_mask = r.slots - 1;
	*out = r;
	return 0;
}

void emu_ring_destroy(struct emu_hca *hca, struct emu_ring *r)
{
	if (r->buf)
		hca->ops->ring_free(hca->arg, r->owner, r->buf, r->bytes, r->offset);
	r->buf = NULL;
}

/*
 * @from is the consumer's index as the caller knows it, @count the entries from there on.
 * The new ring begins with them at index 0.
 */
int emu_ring_resize(struct emu_hca *hca, struct emu_ring *r, uint32_t from,
		    uint32_t count, uint32_t entries)
{
	struct emu_ring new;
	int ret = emu_ring_create(hca, r->owner, entries, 1u << r->log2_elem, &new);

	if (ret)
		return ret;
	for (uint32_t i = 0; i < count; i++)
		memcpy(ring_at(&new, i), ring_at(r, from + i), 1u << r->log2_elem);
	queue_store(&new.buf->producer_index, count);
	new.recorded = count;
	new.recorded_of = r->recorded_of;
	emu_ring_destroy(hca, r);
	*r = new;
	return 0;
}

struct emu_ring_info emu_ring_info(const struct emu_ring *r)
{
	if (!r->buf)
		return (struct emu_ring_info){.offset = r->offset};
	return (struct emu_ring_info){
	    .offset = r->offset,
	    .size = (uint32_t)r->bytes,
	    .mask = r->slots - 1,
	    .log2_elem = r->log2_elem,
	};
}
