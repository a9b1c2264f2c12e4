/*
 * slow_clock.c - to be preloaded: time that goes SLOWER times as slow. What is executed by an
 * instrument that makes all slow (valgrind) then sees the times that it sees without.
 */
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLOWER 40
#define SECOND 1000000000ll

int clock_gettime(clockid_t clock, struct timespec *ts)
{
	long long ns;
	int ret = (int)syscall(SYS_clock_gettime, clock, ts);

	if (ret || clock != CLOCK_MONOTONIC)
		return ret;
	ns = (ts->tv_sec * SECOND + ts->tv_nsec) / SLOWER;
	ts->tv_sec = ns / SECOND;
	ts->tv_nsec = ns % SECOND;
	return 0;
}

int ppoll(struct pollfd *p, nfds_t n, const struct timespec *limit, const sigset_t *mask)
{
	struct timespec ts;
	long long ns;

	if (limit) {
		ns = (limit->tv_sec * SECOND + limit->tv_nsec) * SLOWER;
		ts.tv_sec = ns / SECOND;
		ts.tv_nsec = ns % SECOND;
	}
	return (int)syscall(SYS_ppoll, p, n, limit ? &ts : NULL, mask, _NSIG / 8);
}
