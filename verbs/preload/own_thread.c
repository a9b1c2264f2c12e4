/*
 * own_thread.c - the library's threads do not keep the process alive.
 *
 * A process whose main thread called pthread_exit(3) ends with its last thread. The
 * library's threads never end, so when only they are left the process must. The library's
 * own calls of pthread_create come here (ld's --wrap, see meson.build), to be counted; a
 * watch on the number of threads begins when the main thread says goodbye, no sooner.
 */
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "odp/thread.h"
#include "verbs/host/libc.h"

#define LOOK_US 10000

int __real_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);

static atomic_int own;

struct start {
	void *(*fn)(void *);
	void *arg;
};

static void *run(void *arg)
{
	struct start s = *(struct start *)arg;
	void *ret;

	free(arg);
	ret = s.fn(s.arg);
	atomic_fetch_sub(&own, 1);
	return ret;
}

/* Threads do not survive fork. */
static void fork_child(void)
{
	atomic_store(&own, 0);
}

static void watch_forks(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct start *s = malloc(sizeof(*s));
	int ret;

	if (!s)
		return ENOMEM;
	pthread_once(&once, watch_forks);
	*s = (struct start){fn, arg};
	atomic_fetch_add(&own, 1);
	ret = __real_pthread_create(t, attr, run, s);
	if (ret) {
		atomic_fetch_sub(&own, 1);
		free(s);
	}
	return ret;
}

/* The number of threads, the main thread's remains included; 0 if it cannot be known */
static int count_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	int n = 0;

	while (d && (e = readdir(d)))
		n += e->d_name[0] != '.';
	if (d)
		closedir(d);
	return n;
}

static void *watch(void *arg)
{
	int n;

	do {
		usleep(LOOK_US);
		n = count_threads();
	} while (n && n != atomic_load(&own) + 1);
	if (n)
		exit(0);
	return NULL;
}

INTERPOSE void pthread_exit(void *ret)
{
	pthread_t t;

	if (atomic_load(&own) && gettid() == getpid() &&
	    !odp_thread_create(&t, NULL, watch, NULL, "urxe-last"))
		pthread_detach(t);
	REAL(pthread_exit)(ret);
	__builtin_unreachable();
}
