/*
 * interpose_signal.c - the program's handlers for SIGSEGV and SIGBUS.
 *
 * The guard (odp/guard.h) owns these two signals, because memory may vanish under the HCA
 * at any instruction; what the program installs is kept there and called for all faults
 * that are the program's own. Other signals go to libc untouched.
 */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <signal.h>

#include "odp/guard.h"
#include "verbs/engine/engine.h"
#include "verbs/preload/interpose.h"

int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);
sighandler_t bsd_signal(int sig, sighandler_t handler);
sighandler_t sysv_signal(int sig, sighandler_t handler);
sighandler_t __sysv_signal(int sig, sighandler_t handler);
sighandler_t ssignal(int sig, sighandler_t handler);

/* 0, -1 with errno, or 1: not the guard's business */
EARLY static int guarded(int sig, const struct sigaction *act, struct sigaction *old)
{
	int ret;

	if (sig != SIGSEGV && sig != SIGBUS)
		return 1;
	if (!paths_dir())
		return 1;
	ret = guard_sigaction(sig, act, old);
	if (ret >= 0)
		return ret;
	errno = -ret;
	return -1;
}

EARLY static int change(int sig, const struct sigaction *act, struct sigaction *old)
{
	int r = guarded(sig, act, old);

	return r <= 0 ? r : REAL(sigaction)(sig, act, old);
}

INTERPOSE int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return change(sig, act, old);
}

INTERPOSE int __sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return change(sig, act, old);
}

/* signal(2) in terms of sigaction(2), with the flags of the flavour; 1: not ours */
static int simple(int sig, sighandler_t handler, int flags, sighandler_t *old)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags}, was;
	int r;

	sigemptyset(&act.sa_mask);
	if (flags & SA_RESTART)
		sigaddset(&act.sa_mask, sig);
	r = guarded(sig, &act, &was);
	*old = r ? SIG_ERR : was.sa_handler;
	return r;
}

static sighandler_t signal_bsd(int sig, sighandler_t handler)
{
	sighandler_t old;

	return simple(sig, handler, SA_RESTART, &old) <= 0 ? old
							   : REAL(signal)(sig, handler);
}

INTERPOSE sighandler_t signal(int sig, sighandler_t handler)
{
	return signal_bsd(sig, handler);
}

INTERPOSE sighandler_t bsd_signal(int sig, sighandler_t handler)
{
	return signal_bsd(sig, handler);
}

INTERPOSE sighandler_t ssignal(int sig, sighandler_t handler)
{
	return signal_bsd(sig, handler);
}

static sighandler_t signal_sysv(int sig, sighandler_t handler)
{
	sighandler_t old;

	return simple(sig, handler, (int)(SA_RESETHAND | SA_NODEFER), &old) <= 0
		   ? old
		   : REAL(sysv_signal)(sig, handler);
}

INTERPOSE sighandler_t sysv_signal(int sig, sighandler_t handler)
{
	return signal_sysv(sig, handler);
}

INTERPOSE sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return signal_sysv(sig, handler);
}

/*
 * A blocked SIGSEGV kills the thread that a guarded copy faults in. Threads that block
 * all signals are common; they keep these two.
 */
static const sigset_t *spare(int how, const sigset_t *set, sigset_t *copy)
{
	if (!set || how == SIG_UNBLOCK || !engine_running())
		return set;
	*copy = *set;
	guard_sigmask(copy);
	return copy;
}

INTERPOSE int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;

	return REAL(sigprocmask)(how, spare(how, set, &copy), old);
}

INTERPOSE int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;

	return REAL(pthread_sigmask)(how, spare(how, set, &copy), old);
}
