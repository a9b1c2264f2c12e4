/*
 * memlock.c - how much memory may be pinned.
 *
 * The kernel counts the pages of each pinned registration (ib_umem_get()) and refuses what
 * would exceed RLIMIT_MEMLOCK, unless the process has CAP_IPC_LOCK in the first user namespace:
 * that it is root in one of its own does not help. Nothing is locked here, so that is a
 * question of what a program would meet, which the configuration answers.
 */
#include "odp/memlock.h"

#include <inttypes.h>
#include <linux/capability.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FIRST_USER_NS 0xeffffffdu /* PROC_USER_INIT_INO */

static bool may_lock_all(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{0}};
	struct stat ns;

	if (syscall(SYS_capget, &h, d) || !(d[0].effective >> CAP_IPC_LOCK & 1))
		return false;
	return stat("/proc/self/ns/user", &ns) || ns.st_ino == FIRST_USER_NS;
}

uint64_t memlock_limit(const struct odp_config *cfg)
{
	struct rlimit limit;

	switch (cfg->memlock) {
	case ODP_MEMLOCK_NONE:
		return UINT64_MAX;
	case ODP_MEMLOCK_BYTES:
		return cfg->memlock_bytes;
	case ODP_MEMLOCK_KERNEL:
		break;
	}
	/* the program may have changed it */
	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY ||
	    may_lock_all())
		return UINT64_MAX;
	return limit.rlim_cur;
}

void memlock_tell(const struct odp_config *cfg, uint64_t bytes, uint64_t limit)
{
	fprintf(
	    stderr,
	    "urxe: a memory region is refused: %" PRIu64
	    " KiB pinned would exceed %s, %" PRIu64
	    " KiB (--memlock); on-demand regions (IBV_ACCESS_ON_DEMAND) do not count\n",
	    bytes >> 10,
	    cfg->memlock == ODP_MEMLOCK_KERNEL ? "RLIMIT_MEMLOCK (ulimit -l)"
					       : "the bound",
	    limit >> 10);
}
