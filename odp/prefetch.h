/*
 * prefetch.h - the worker that does asynchronous prefetch; private to odp/.
 *
 * Owns the queue and the thread, which starts at the first request.
 */
#ifndef URXE_ODP_PREFETCH_H
#define URXE_ODP_PREFETCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct odp_domain;
struct prefetch_work;

/*
 * struct prefetcher
 * @lock:	of what follows; not held while work is done
 * @more, @done: there is work, or an end; something was finished
 * @submitted, @finished: requests ever
 */
struct prefetcher {
	pthread_mutex_t lock;
	pthread_cond_t more, done;
	pthread_t thread;
	bool running, stop;
	struct prefetch_work *head, **tail;
	uint64_t submitted, finished;
};

void prefetcher_init(struct prefetcher *p);
/* Drops what is queued, finishes what is being done */
void prefetcher_fini(struct prefetcher *p);

#endif
