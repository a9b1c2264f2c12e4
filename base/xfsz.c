/*
 * xfsz.c - hold SIGXFSZ back; see xfsz.h. The kernel sends it to the thread that wrote.
 */
#include "base/xfsz.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/lock.h"

static void only_xfsz(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGXFSZ);
}

static bool is_waiting(void)
{
	sigset_t set;

	return !sigpending(&set) && sigismember(&set, SIGXFSZ) == 1;
}

void xfsz_hold(struct xfsz *x)
{
	sigset_t set;

	only_xfsz(&set);
	pthread_sigmask(SIG_BLOCK, &set, &x->mask);
	x->waits = is_waiting();
}

void xfsz_release(const struct xfsz *x)
{
	const struct timespec at_once = {0};
	int err = errno;
	sigset_t set;

	only_xfsz(&set);
	cancel_defer(); /* sigtimedwait(2) is a cancellation point */
	if (!x->waits && is_waiting())
		sigtimedwait(&set, NULL, &at_once);
	cancel_restore();
	pthread_sigmask(SIG_SETMASK, &x->mask, NULL);
	errno = err;
}
