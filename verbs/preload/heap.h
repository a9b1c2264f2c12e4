/*
 * heap.h - memory of the library's own, apart from the program's heap.
 *
 * What the program overruns, frees too early or lets the HCA write to is memory of the program:
 * no object of the HCA is its neighbour. Which calls come here is the matter of own_memory.c.
 *
 * May be used by all threads, not in handlers of signals.
 */
#ifndef URXE_VERBS_PRELOAD_HEAP_H
#define URXE_VERBS_PRELOAD_HEAP_H

#include <stdbool.h>
#include <stddef.h>

/* heap_alloc - @size bytes, aligned for any object; @zero: zeroed. NULL with ENOMEM */
void *heap_alloc(size_t size, bool zero);
/* heap_room - bytes that the memory at @p has; 0: it is not of this heap, or @p is NULL */
size_t heap_room(const void *p);
/* heap_free - false: it is not of this heap, nothing was done */
bool heap_free(void *p);

/*
 * heap_fork_prepare, heap_fork_done - around fork(2), in both processes: nobody else is
 * inside while the memory is copied
 */
void heap_fork_prepare(void);
void heap_fork_done(void);

#endif
