/*
 * frames.c - requests whose memory is on the stack of a thread, in a function that has returned.
 *
 * Theory of operation
 *
 * When a thread of the program calls a verb, all of its stack below the caller belongs to no
 * function any more. A request that is outstanding and uses memory there uses what the next functions
 * put there. So each call looks whether there is such a request, which costs nothing as long as
 * no request uses a stack. Of other threads it is not known where they are; when one ends, all of
 * its stack does.
 *
 * Whoever is on another stack (coroutines, sigaltstack(2)) tells nothing about this one.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "check/check.h"
#include "check/frames.h"

#define THREADS 256

/* struct range - the stack of a thread; @high 0: free */
struct range {
	uint64_t low, high;
};

static struct range ranges[THREADS];
static unsigned int n_ranges; /* so many were ever taken */
static unsigned int n_used;
static pthread_key_t at_end;
static __thread struct range *mine __attribute__((tls_model("initial-exec")));
static __thread bool asked __attribute__((tls_model("initial-exec")));

static void learn(void)
{
	pthread_attr_t attr;
	void *low;
	size_t len;

	asked = true;
	if (pthread_getattr_np(pthread_self(), &attr))
		return;
	for (unsigned int i = 0; i < THREADS && !mine; i++)
		if (!ranges[i].high && !pthread_attr_getstack(&attr, &low, &len)) {
			mine = &ranges[i];
			*mine = (struct range){(uintptr_t)low, (uintptr_t)low + len};
			n_ranges = i < n_ranges ? n_ranges : i + 1;
		}
	pthread_attr_destroy(&attr);
	if (mine)
		pthread_setspecific(at_end, mine);
}

void check_frames_begin(struct check_use *u)
{
	if (!asked)
		learn();
	for (unsigned int i = 0; i < n_ranges; i++)
		if (u->addr >= ranges[i].low && u->addr < ranges[i].high) {
			u->on_stack = true;
			n_used++;
			return;
		}
}

void check_frames_end(struct check_use *u)
{
	n_used -= u->on_stack;
	u->on_stack = false;
}

static bool ended(struct check_use *u, void *arg)
{
	const struct check_with with[] = {{arg, check_stack()},
					  {"posted", u->request->posted}};
	char what[96];

	if (!u->on_stack || !check_is_active(u->request) ||
	    check_ignored(u->addr, u->len))
		return false;
	check_frames_end(u);
	check_report(CHECK_FRAME_ENDED, with + 1, 1,
		     "%s, %" PRIu64 " bytes at 0x%" PRIx64 "; the thread has %s",
		     check_request_name(u->request, what), u->len, u->addr, (char *)arg);
	return false;
}

static bool on_signal_stack(void)
{
	stack_t now;

	return sigaltstack(NULL, &now) || now.ss_flags & SS_ONSTACK;
}

void check_frames_look(const void *caller)
{
	uint64_t at = (uintptr_t)caller;

	if (!n_used || !mine || at <= mine->low || at > mine->high || on_signal_stack())
		return;
	check_uses_in(mine->low, at - mine->low, ended, "returned");
}

/* A thread ends */
static void forget_stack(void *range)
{
	struct range *r = range;

	if (!check_lock())
		return;
	if (n_used)
		check_uses_in(r->low, r->high - r->low, ended, "ended");
	*r = (struct range){0, 0};
	mine = NULL;
	asked = false;
	check_unlock();
}

void check_frames_start(void)
{
	pthread_key_create(&at_end, forget_stack);
}

void check_frames_forget(void)
{
	for (unsigned int i = 0; i < THREADS; i++)
		if (&ranges[i] != mine)
			ranges[i] = (struct range){0, 0};
	n_used = 0;
}
