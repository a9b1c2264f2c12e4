/*
 * prefetch.c - filling the page table before it is needed; see prefetch.h.
 *
 * Work goes in steps of a few MiB, so that an invalidation repeats little and that a
 * worker whose MR was deregistered stops soon.
 */
#include "odp/prefetch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "odp/internal.h"
#include "odp/thread.h"

/* mlx5 prefetches 4 MiB at a time */
#define STEP_BYTES (4ull << 20)
/* Repeated faults before -EAGAIN */
#define STEP_RETRIES 100
#define STACK_SIZE   (256 << 10)

/* struct prefetch_work - a request, with a reference to the MR */
struct prefetch_work {
	struct prefetch_work *next;
	struct odp_mr *mr;
	struct mr_pages pages;
	enum odp_advice advice;
};

/* The pages of a step that lack what is asked for */
static struct pt_span missing(struct odp_mr *mr, uint64_t first, uint64_t n, bool write)
{
	struct pt_span miss;

	dom_settle(mr->dom);
	dom_lock(mr->dom);
	miss =
	    pt_missing(&mr->demand->pt, first, n, write ? PT_READ | PT_WRITE : PT_READ);
	dom_unlock(mr->dom);
	return miss;
}

static int prefetch_step(struct odp_mr *mr, uint64_t first, uint64_t n,
			 enum odp_advice advice)
{
	bool write = advice == ODP_PREFETCH_WRITE;
	struct pt_span miss = missing(mr, first, n, write);
	struct resolve r = {miss.first, miss.n, write, PT_PREFETCHED | PT_FRESH,
			    STEP_RETRIES};
	int64_t changed;

	if (!miss.n)
		return 0;
	changed = advice == ODP_PREFETCH_NO_FAULT ? mr_resolve_present(mr, &r)
						  : mr_resolve(mr, &r);
	if (changed < 0)
		/* nothing tells what is present: then nothing is */
		return changed == -EOPNOTSUPP ? 0 : (int)changed;
	COUNT(mr, pages_prefetched, changed);
	return 0;
}

/* Does somebody besides the worker want this MR? */
static bool wanted(struct odp_mr *mr)
{
	return atomic_load(&mr->refs) > atomic_load(&mr->worker_refs);
}

static int prefetch_pages(struct odp_mr *mr, struct mr_pages p, enum odp_advice advice)
{
	uint64_t step = STEP_BYTES >> mr->shift ? STEP_BYTES >> mr->shift : 1;
	int rc = 0;

	COUNT(mr, prefetches, 1);
	for (uint64_t i = 0; i < p.n && !rc && wanted(mr); i += step)
		rc = prefetch_step(mr, p.first + i, p.n - i < step ? p.n - i : step,
				   advice);
	return rc;
}

static int check(struct odp_mr *mr, uint64_t iova, size_t len, enum odp_advice advice,
		 struct mr_pages *p)
{
	uintptr_t addr;

	if (!mr->demand || (unsigned int)advice > ODP_PREFETCH_NO_FAULT)
		return -EINVAL;
	if (!mr_translate(mr, iova, len, &addr))
		return -EFAULT;
	if (advice == ODP_PREFETCH_WRITE && !mr->writable)
		return -EPERM;
	*p = len ? mr_pages_of(mr, addr, len) : (struct mr_pages){0};
	return 0;
}

static int outcome(int rc)
{
	switch (rc) {
	case 0:
	case -EAGAIN:
	case -EINVAL:
	case -ENOMEM:
		return rc;
	default:
		return -EFAULT;
	}
}

int odp_prefetch(struct odp_mr *mr, uint64_t iova, size_t len, enum odp_advice advice)
{
	struct mr_pages p;
	int rc = check(mr, iova, len, advice, &p);

	if (rc || !p.n)
		return rc;
	return outcome(prefetch_pages(mr, p, advice));
}

/* --- the worker ------------------------------------------------------------------- */

void prefetcher_init(struct prefetcher *p)
{
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->more, NULL);
	pthread_cond_init(&p->done, NULL);
	p->tail = &p->head;
}

static void work_free(struct prefetch_work *w)
{
	struct odp_mr *mr = w->mr;

	atomic_fetch_sub(&mr->worker_refs, 1);
	odp_mr_put(mr);
	free(w);
}

static void *worker(void *arg)
{
	struct prefetcher *p = arg;

	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		struct prefetch_work *w = p->head;

		if (!w) {
			pthread_cond_wait(&p->more, &p->lock);
			continue;
		}
		p->head = w->next;
		if (!p->head)
			p->tail = &p->head;
		pthread_mutex_unlock(&p->lock);
		if (wanted(w->mr))
			prefetch_pages(w->mr, w->pages, w->advice);
		work_free(w);
		pthread_mutex_lock(&p->lock);
		p->finished++;
		pthread_cond_broadcast(&p->done);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

void prefetcher_fini(struct prefetcher *p)
{
	struct prefetch_work *w;

	pthread_mutex_lock(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->more);
	pthread_mutex_unlock(&p->lock);
	if (p->running)
		pthread_join(p->thread, NULL);
	while ((w = p->head)) {
		p->head = w->next;
		work_free(w);
	}
	pthread_cond_destroy(&p->more);
	pthread_cond_destroy(&p->done);
	pthread_mutex_destroy(&p->lock);
}

/* With the queue's lock */
static bool start(struct prefetcher *p)
{
	pthread_attr_t attr;

	if (p->running)
		return true;
	if (pthread_attr_init(&attr))
		return false;
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	p->running = !odp_thread_create(&p->thread, &attr, worker, p, "urxe-prefetch");
	pthread_attr_destroy(&attr);
	return p->running;
}

static bool submit(struct prefetcher *p, struct prefetch_work *w)
{
	bool started;

	pthread_mutex_lock(&p->lock);
	started = start(p);
	if (started) {
		*p->tail = w;
		p->tail = &w->next;
		p->submitted++;
		pthread_cond_signal(&p->more);
	}
	pthread_mutex_unlock(&p->lock);
	return started;
}

int odp_prefetch_async(struct odp_mr *mr, uint64_t iova, size_t len,
		       enum odp_advice advice)
{
	struct prefetch_work *w;
	struct mr_pages p;
	int rc = check(mr, iova, len, advice, &p);

	if (rc || !p.n)
		return rc;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->mr = odp_mr_get(mr);
	atomic_fetch_add(&mr->worker_refs, 1);
	w->pages = p;
	w->advice = advice;
	if (!submit(&mr->dom->prefetcher, w)) {
		/* no thread: it is a hint */
		work_free(w);
		prefetch_pages(mr, p, advice);
	}
	return 0;
}

void odp_prefetch_drain(struct odp_domain *dom)
{
	struct prefetcher *p = &dom->prefetcher;
	uint64_t until;

	pthread_mutex_lock(&p->lock);
	until = p->submitted;
	while (p->finished < until)
		pthread_cond_wait(&p->done, &p->lock);
	pthread_mutex_unlock(&p->lock);
}
