/*
 * uffd.h - events of unmapped, moved and discarded memory, by userfaultfd(2); private to
 * odp/.
 *
 * Mappings are registered for write protection and never protected: that costs the
 * program no page fault and delivers the events. See uffd.c.
 */
#ifndef URXE_ODP_UFFD_H
#define URXE_ODP_UFFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct uffd;

/*
 * struct uffd_hooks - called by the monitor thread, save @needed; none may wait for
 * anything
 * @begin:	events are about to be read
 * @gone:	[@first, @last] was unmapped, moved away or discarded
 * @end:	all that was read was told
 * @needed:	does an MR still want events of the range? Called by uffd_unwatch(), and
 *		may take a lock
 */
struct uffd_hooks {
	void (*begin)(void *arg);
	void (*gone)(void *arg, uintptr_t first, uintptr_t last);
	void (*end)(void *arg);
	bool (*needed)(void *arg, uintptr_t first, uintptr_t last);
};

/* 0 or -errno: EPERM, ENOSYS, EOPNOTSUPP (events or write protection missing) */
int uffd_open(const struct uffd_hooks *hooks, void *arg, struct uffd **out);
void uffd_close(struct uffd *u);
/* In the child of fork: close its copy of the descriptor. No thread is there any more. */
void uffd_abandon(struct uffd *u);
/* The descriptors that it keeps open; -1: none */
#define UFFD_FDS 2
void uffd_fds(const struct uffd *u, int fds[UFFD_FDS]);
/*
 * Register all mappings that overlap the range. 0, or -errno of the first that cannot be
 */
int uffd_watch(struct uffd *u, uintptr_t addr, size_t len);
/* Is the whole range registered, so that no userfaultfd of anybody else is on it? */
bool uffd_watched(struct uffd *u, uintptr_t addr, size_t len);
/*
 * uffd_release - the program is about to unmap, move or discard the whole pages of this
 * range: let the kernel send no event for it. Waits for nobody. True if the range was
 * registered; then uffd_released() must follow, and an invalidation of the range after
 * that.
 */
bool uffd_release(struct uffd *u, uintptr_t addr, size_t len);
/* @again: the mapping is still there, register it as before */
void uffd_released(struct uffd *u, uintptr_t addr, size_t len, bool again);
/*
 * uffd_yield_begin - the program registers a userfaultfd of its own with this range, or takes it
 * back: leave the mappings there, and register none until uffd_yield_end()
 */
void uffd_yield_begin(struct uffd *u, uintptr_t addr, size_t len);
void uffd_yield_end(struct uffd *u);
/* How many events the monitor has read */
uint64_t uffd_events(const struct uffd *u);
/* How many ranges are watched, or were until the program unmapped them */
size_t uffd_areas(struct uffd *u);
/* Give up the mappings that overlap the range and are not needed any more */
void uffd_unwatch(struct uffd *u, uintptr_t addr, size_t len);

#endif
