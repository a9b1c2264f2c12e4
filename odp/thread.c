/*
 * thread.c - see thread.h.
 */
#include "odp/thread.h"

#include <signal.h>
#include <stdint.h>

#include "odp/sys.h"

/* Masks of rt_sigprocmask(2); set directly since libc's functions are interposed */
static void set_mask(int how, uint64_t set, uint64_t *old)
{
	syscall(SYS_rt_sigprocmask, how, &set, old, sizeof(set));
}

int odp_thread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
		      void *arg, const char *name)
{
	uint64_t faults = 1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1), old;
	int ret;

	set_mask(SIG_SETMASK, ~faults, &old);
	ret = pthread_create(thread, attr, fn, arg);
	set_mask(SIG_SETMASK, old, NULL);
	if (!ret)
		pthread_setname_np(*thread, name);
	return ret;
}
