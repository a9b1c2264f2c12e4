/*
 * pool.h - the threads on which faults wait for somebody (struct odp_job); private to odp/.
 *
 * Owns the threads and the queue of jobs. A thread is started when a job finds none idle, up
 * to a bound, and stays. It blocks all signals but those of the guard, by one of which
 * pool_cancel() gets a thread out of a page fault that a userfaultfd handler does not end.
 */
#ifndef URXE_ODP_POOL_H
#define URXE_ODP_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "odp/odp.h"

/* Faults that wait at a time; as many more wait for one of these to end as there are */
#define POOL_THREADS 64

/*
 * struct pool_thread
 * @job:	what it does, maybe freed already; NULL: nothing
 * @cancelled:	of that job while the thread is in pool_fetch(), else NULL
 * @tid:	of the kernel
 */
struct pool_thread {
	struct pool *pool;
	pthread_t thread;
	const struct odp_job *job;
	const _Atomic bool *cancelled;
	int tid;
};

/*
 * struct pool
 * @lock:	of all of it; not held while jobs run. Comes after the domain's
 * @more:	there are jobs, or an end
 * @head, @tail: jobs that wait for a thread
 * @n, @idle:	threads that there are, that have nothing to do
 */
struct pool {
	struct lock lock;
	pthread_cond_t more;
	struct odp_job *head, **tail;
	struct pool_thread thread[POOL_THREADS];
	unsigned int n, idle;
	bool stop;
};

void pool_init(struct pool *p);
/* No job is left */
void pool_fini(struct pool *p);
/* 0 or -EAGAIN: there is no thread and none can be had */
int pool_submit(struct pool *p, struct odp_job *job);
/*
 * True: it had no thread yet, and is not in the queue any more. Else its thread leaves
 * pool_fetch(), once the kernel lets go of it
 */
bool pool_cancel(struct pool *p, struct odp_job *job);
/*
 * pool_fetch - touch the pages of a range, whole pages of @page bytes, however long that
 * takes. 0, -EFAULT, or -ECANCELED: see pool_cancel()
 */
int pool_fetch(uintptr_t addr, size_t len, size_t page, bool write,
	       const _Atomic bool *cancelled);

#endif
