/*
 * refusing.c - a library that is preloaded behind urxe's, and takes the place of a kernel that refuses.
 *
 *	REFUSE_SENDS=N,ERRNO	one of N sendmsg(2) and sendmmsg(2) fails: in no order, lest what is sent again
 *				meets the same fate again and again
 *	REFUSE_THREADS=N	the Nth pthread_create(3) and all later ones fail with EAGAIN
 *	REFUSE_TIME=1		the time of day jumps by up to a day at each look at it
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/splitmix.h"

#define PUBLIC __attribute__((visibility("default")))
#define DAY    86400

/* Any number, but the same for the same @n */
static uint64_t splitmix(uint64_t n)
{
	return splitmix_next(&n);
}

static bool refused_send(void)
{
	static atomic_uint calls;
	const char *text = getenv("REFUSE_SENDS");
	unsigned int each;
	int err;

	if (!text || sscanf(text, "%u,%d", &each, &err) != 2 || splitmix(++calls) % each)
		return false;
	errno = err;
	return true;
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	return refused_send() ? -1 : syscall(SYS_sendmsg, fd, msg, flags);
}

PUBLIC int sendmmsg(int fd, struct mmsghdr *msg, unsigned int n, int flags)
{
	return refused_send() ? -1 : (int)syscall(SYS_sendmmsg, fd, msg, n, flags);
}

PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
			  void *(*fn)(void *), void *arg)
{
	static atomic_int calls;
	const char *text = getenv("REFUSE_THREADS");
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
	    dlsym(RTLD_NEXT, "pthread_create");

	return text && ++calls >= atoi(text) ? EAGAIN : next(thread, attr, fn, arg);
}

PUBLIC int clock_gettime(clockid_t id, struct timespec *t)
{
	static atomic_uint calls;
	int ret = (int)syscall(SYS_clock_gettime, id, t);

	if (!ret && id == CLOCK_REALTIME && getenv("REFUSE_TIME"))
		t->tv_sec += (time_t)(splitmix(++calls) % (2 * DAY)) - DAY;
	return ret;
}
