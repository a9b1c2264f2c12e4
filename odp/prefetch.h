/*
 * prefetch.h - the worker that does asynchronous prefetch; private to odp/.
 *
 * Owns the requests and the thread, which starts at the first of them. A request whose
 * pages somebody must be waited for leaves the worker and becomes a job.
 */
#ifndef URXE_ODP_PREFETCH_H
#define URXE_ODP_PREFETCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"

struct odp_domain;
struct prefetch_work;

/*
 * struct prefetcher
 * @lock:	of what follows; not held while work is done
 * @more, @done: there is work, or an end; something was finished
 * @first, @last: requests that are not finished, oldest first
 * @next:	the oldest that was not begun
 * @slow:	of those that were begun, how many are jobs
 * @submitted:	requests ever
 */
struct prefetcher {
	struct lock lock;
	pthread_cond_t more, done;
	pthread_t thread;
	bool running, stop;
	struct prefetch_work *first, *last, *next;
	unsigned int slow;
	uint64_t submitted;
};

void prefetcher_init(struct prefetcher *p);
/* Drops what is queued, finishes what is being done, has jobs cancelled */
void prefetcher_stop(struct prefetcher *p);
/* No job is left */
void prefetcher_fini(struct prefetcher *p);

#endif
