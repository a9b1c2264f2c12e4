/*
 * plain.h - memory whose missing pages the kernel makes out of nothing: anonymous memory,
 * and files that have no disk behind them (memfd, System V, /dev/shm, huge pages). Private
 * to odp/.
 *
 * Remembers a few ranges that are such memory. Lookups and plain_forget() wait for nothing.
 */
#ifndef URXE_ODP_PLAIN_H
#define URXE_ODP_PLAIN_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/lock.h"
#include "odp/maps.h"

#define PLAIN_SLOTS 16
#define PLAIN_DEVS  2

/*
 * struct plain
 * @dev:	of file systems that keep files in memory, 0: none
 * @page:	the size of pages
 * @gone:	times that something was unmapped
 * @lock:	of plain_add()
 * @slot:	ranges that are plain; @end 0: none
 * @next:	slot to be used next
 * @swap, @swapped, @swap_asked, @asked: is there any swap space, is some of it in use; when that was
 *		asked (seconds); calls of plain_swapped()
 */
struct plain {
	dev_t dev[PLAIN_DEVS];
	size_t page;
	_Atomic uint64_t gone;
	struct lock lock;
	struct {
		_Atomic uintptr_t start, end;
	} slot[PLAIN_SLOTS];
	unsigned int next;
	_Atomic bool swap, swapped;
	_Atomic uint64_t swap_asked;
	_Atomic uint32_t asked;
};

void plain_init(struct plain *p, size_t page);
void plain_fini(struct plain *p);
bool plain_is(const struct plain *p, const struct vma *vma);
/* Is [@first, @last] known to be plain? */
bool plain_known(const struct plain *p, uintptr_t first, uintptr_t last);
/* @gone: before the mapping was looked up */
void plain_add(struct plain *p, const struct vma *vma, uint64_t gone);
/* What is in this range may be something else now. */
void plain_forget(struct plain *p, uintptr_t first, uintptr_t last);
/* May a page of such memory come to a disk? Is any there? */
bool plain_swaps(struct plain *p);
bool plain_swapped(struct plain *p);

#endif
