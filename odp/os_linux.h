/*
 * os_linux.h - struct odp_os on the real kernel; private to odp/.
 */
#ifndef URXE_ODP_OS_LINUX_H
#define URXE_ODP_OS_LINUX_H

#include <stdbool.h>
#include <stdint.h>

#include "odp/odp.h"
#include "odp/uffd.h"

struct os_linux;
extern const struct odp_os os_linux_ops;

/*
 * @hooks are called with @arg. 0 or -errno; userfaultfd that cannot be had is no error.
 */
int os_linux_create(bool uffd, const struct uffd_hooks *hooks, void *arg,
		    struct os_linux **out);
void os_linux_destroy(struct os_linux *os);
/* In the child of fork */
void os_linux_abandon(struct os_linux *os);
/* uffd_release() and uffd_released(), if there is a userfaultfd; else false */
bool os_linux_release(struct os_linux *os, uintptr_t addr, size_t len);
void os_linux_released(struct os_linux *os, uintptr_t addr, size_t len, bool again);
/* See odp_yield_begin() */
void os_linux_yield_begin(struct os_linux *os, uintptr_t addr, size_t len);
void os_linux_yield_end(struct os_linux *os);
/* The range was unmapped, moved or replaced, or will be. Waits for nothing */
void os_linux_forget(struct os_linux *os, uintptr_t first, uintptr_t last);
void os_linux_caps(const struct os_linux *os, struct odp_caps *caps);
/* The descriptors that it keeps open, at most @max; how many */
int os_linux_fds(const struct os_linux *os, int *fds, int max);
/* Call @fn for each mapping that fork shares for copy on write */
void os_linux_private(struct os_linux *os,
		      void (*fn)(void *arg, uintptr_t first, size_t len), void *arg);

#endif
