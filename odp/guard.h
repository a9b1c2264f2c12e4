/*
 * guard.h - touching memory that may vanish.
 *
 * A guarded routine's code range is known to a SIGSEGV/SIGBUS handler that makes it
 * return -EFAULT. guard_init() installs the handler; signals that are not ours go on to
 * what the application installed, which guard_sigaction() keeps (the interposition calls
 * it).
 */
#ifndef URXE_ODP_GUARD_H
#define URXE_ODP_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Install the handler, or take its place again if somebody replaced it behind our back
 * (who is then chained to). 0 or -errno
 */
int guard_init(void);
/* memcpy; the last bytes are stored last. All of these: 0 or -EFAULT */
int guard_copy(void *dst, const void *src, size_t len);
int guard_cmp_swap(uint64_t *p, uint64_t cmp, uint64_t swap, uint64_t *orig);
int guard_fetch_add(uint64_t *p, uint64_t add, uint64_t *orig);
int guard_store64(uint64_t *p, uint64_t v);
/* Touch each page of a range; @write: without changing a byte */
int guard_touch(uintptr_t addr, size_t len, int write);

/*
 * guard_interruptible - from now on SIGSEGV that this process sends to this thread by
 * tgkill(2) is for nobody but the guard: a guarded routine that the thread is in returns
 * -EFAULT, also from a page fault that waits for a userfaultfd handler. guard_interrupted():
 * did that happen since it was asked last?
 */
void guard_interruptible(void);
bool guard_interrupted(void);

/*
 * guard_file - the library's own shared mapping of a file. When somebody has shortened the
 * file and a page is missed, memory full of zeroes takes the place of the mapping, and
 * @message, if it is not NULL, is written to standard error. Up to GUARD_FILES of them;
 * @map NULL: there are none any more.
 */
#define GUARD_FILES 32
void guard_file(void *map, size_t len, const char *message);

/*
 * guard_sigaction - what sigaction(2) does for SIGSEGV and SIGBUS once the guard is
 * installed: the application's action is kept and chained to, and returned in @old, so
 * that the application never sees ours. Returns 0, -errno, or 1 when @sig is not the
 * guard's business (call the real one).
 */
int guard_sigaction(int sig, const struct sigaction *act, struct sigaction *old);

/*
 * Before and after fork(2), the latter in parent and child: the application's actions are
 * whole in the child. The last lock to be taken before, since others are held by callers
 * of guard_init().
 */
void guard_fork_begin(void);
void guard_fork_end(void);

/*
 * guard_sigmask - take out of a set that a thread is about to block what must not be
 * blocked: a synchronous SIGSEGV that is blocked kills (signal(7)). For interposed
 * sigprocmask/pthread_sigmask; a thread that never went through them is unblocked at its
 * first guarded access.
 */
void guard_sigmask(sigset_t *set);

#endif
