/*
 * thread.h - threads of the layer; private to odp/.
 */
#ifndef URXE_ODP_THREAD_H
#define URXE_ODP_THREAD_H

#include <pthread.h>

/*
 * Start a thread on which no handler of the application ever runs: all signals are
 * blocked but those that the guard needs. 0 or an errno
 */
int odp_thread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
		      void *arg, const char *name);

#endif
