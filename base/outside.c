/*
 * outside.c - descriptors that cost the program none of its own.
 *
 * Theory of operation
 *
 * RLIMIT_NOFILE bounds the numbers that a process may give to new descriptors, not how many are
 * open: one that has a number above the limit already works like any other, and none below is
 * missing for it. To give a number above the limit takes a process with a higher one. So a child is made that shares memory and
 * descriptors with this process, but has, as every process, limits of its own: it raises them for
 * itself, makes the descriptors, and ends. The limit of the program is the same at any moment, for
 * whoever looks and for whatever is started meanwhile.
 *
 * Without rights the limit is raised up to the hard limit, with CAP_SYS_RESOURCE above it. Where
 * soft and hard limit are equal and that right is missing, there is no outside.
 *
 * Nobody sees the child: signals are blocked in it, it is not followed by debuggers, and since it
 * ends without a signal wait(2) of the program does not find it.
 */
#include "base/outside.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/valgrind.h"

#define LOWEST 4096  /* above what programs raise their limit to, mostly */
#define ROOM   65536 /* a limit as large as this is not worth the trouble */
#define STACK  4096  /* bytes */

/*
 * ThreadSanitizer takes the child for one of fork(2), after which it looks at nothing any more, and
 * forgets that the memory is the same.
 */
#ifdef __SANITIZE_THREAD__
#define WATCHED true
#else
#define WATCHED false
#endif

/*
 * clone(3) by the name that sanitizers do not take the place of: to ThreadSanitizer that one is
 * fork(2), and it gives up if memory stays in common.
 */
int __clone(int (*fn)(void *arg), void *stack, int flags, void *arg, ...);

struct call {
	int (*fn)(void *arg, int lowest);
	void *arg;
	int result;
	bool barred;
};

/* The hard limit, to which the soft one is equal, that could not be exceeded; 0: none */
static _Atomic rlim_t barred;

/* In the child: the first number that is outside, or -errno */
OUTSIDE_CODE static int raise_limit(struct call *c)
{
	struct rlimit64 now, more;
	rlim64_t lowest;

	if (prlimit64(0, RLIMIT_NOFILE, NULL, &now))
		return -errno;
	lowest = now.rlim_cur > LOWEST ? now.rlim_cur : LOWEST;
	more.rlim_cur = lowest + ROOM;
	more.rlim_max = more.rlim_cur > now.rlim_max ? more.rlim_cur : now.rlim_max;
	if (!prlimit64(0, RLIMIT_NOFILE, &more, NULL))
		return (int)lowest;
	more.rlim_cur = more.rlim_max = now.rlim_max;
	c->barred = now.rlim_cur >= now.rlim_max;
	if (c->barred || prlimit64(0, RLIMIT_NOFILE, &more, NULL))
		return -EMFILE;
	return (int)(lowest < now.rlim_max ? lowest : now.rlim_cur);
}

OUTSIDE_CODE static int child(void *arg)
{
	struct call *c = arg;
	int lowest = raise_limit(c);

	c->result = lowest < 0 ? lowest : c->fn(c->arg, lowest);
	syscall(SYS_exit, 0);
	return 0;
}

/* Is it known that there is no outside? */
static bool is_barred(rlim_t *hard)
{
	struct rlimit now;

	if (getrlimit(RLIMIT_NOFILE, &now) || now.rlim_cur >= ROOM)
		return true;
	*hard = now.rlim_max;
	return now.rlim_cur == now.rlim_max && now.rlim_max == atomic_load(&barred);
}

int outside_run(int (*fn)(void *arg, int lowest), void *arg)
{
	uint8_t stack[STACK] __attribute__((aligned(16)));
	struct call c = {.fn = fn, .arg = arg, .result = -EMFILE};
	uint64_t all = ~0ull, old;
	int err = errno; /* the child's calls change ours */
	rlim_t hard;
	long pid;

	if (under_valgrind() || WATCHED || is_barred(&hard))
		return -EMFILE;
	cancel_defer();
	/* also those that pthread_sigmask(3) cannot block */
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &old, sizeof(all));
	pid = __clone(child, stack + sizeof(stack),
		      CLONE_VM | CLONE_VFORK | CLONE_FILES | CLONE_UNTRACED, &c);
	if (pid < 0)
		c.result = -errno;
	else
		syscall(SYS_wait4, pid, NULL, __WALL, NULL);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &old, NULL, sizeof(old));
	cancel_restore();
	if (c.barred)
		atomic_store(&barred, hard);
	errno = err;
	return c.result;
}

OUTSIDE_CODE static int dup_there(void *arg, int lowest)
{
	int copy = (int)syscall(SYS_fcntl, *(int *)arg, F_DUPFD_CLOEXEC, lowest);

	return copy < 0 ? -errno : copy;
}

int outside_dup(int fd)
{
	return outside_run(dup_there, &fd);
}
