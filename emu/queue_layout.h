/*
 * queue_layout.h - struct rxe_queue_buf of <rdma/rdma_user_rxe.h>: how a queue that the HCA
 * and the application share lies in memory, and how its two ends may touch it.
 *
 * Behind the header are 2^n elements of 2^m bytes. An index counts elements, modulo 2^n;
 * one element stays empty, so that equal indices mean an empty queue. Each index has one
 * writer. Storing an index hands over what was done with the elements before it, loading it
 * takes that over. Both ends know n and m from their own books and never from this memory,
 * which the program can write.
 */
#ifndef URXE_EMU_QUEUE_LAYOUT_H
#define URXE_EMU_QUEUE_LAYOUT_H

#include <rdma/rdma_user_rxe.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of a queue of @slots elements */
static inline size_t queue_bytes(uint32_t slots, uint32_t log2_elem)
{
	return sizeof(struct rxe_queue_buf) + ((size_t)slots << log2_elem);
}

/* The element at @index, which may be any number; @mask: 2^n - 1 */
static inline void *queue_element(struct rxe_queue_buf *q, uint32_t index, uint32_t mask,
				  uint32_t log2_elem)
{
	return q->data + ((size_t)(index & mask) << log2_elem);
}

/* The other end's index: acquire, pairs with its queue_store() or librxe's release */
static inline uint32_t queue_load(const __u32 *index, uint32_t mask)
{
	return __atomic_load_n(index, __ATOMIC_ACQUIRE) & mask;
}

/* Our own index: release, what we did with the elements is done before the other end sees it */
static inline void queue_store(__u32 *index, uint32_t value)
{
	__atomic_store_n(index, value, __ATOMIC_RELEASE);
}

#endif
