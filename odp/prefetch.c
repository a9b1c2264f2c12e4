/*
 * prefetch.c - filling the page table before it is needed; see prefetch.h.
 *
 * Work goes in steps of a few MiB, so that an invalidation repeats little and that a
 * worker whose MR was deregistered stops soon. The worker waits for nobody: a request that
 * comes to pages for which somebody must be waited for goes on as a job beside it.
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
/* Jobs of prefetch at a time, so that faults find room beside them. More are dropped. */
#define MAX_SLOW 16

/*
 * struct prefetch_work - a request, with a reference to the MR
 * @number:	1 is the first there was
 * @from:	pages that are done
 */
struct prefetch_work {
	struct prefetch_work *prev, *next;
	struct odp_mr *mr;
	struct mr_pages pages;
	uint64_t number, from;
	enum odp_advice advice;
};

/*
 * struct patience - what is to be done with pages for which somebody must be waited for
 * @nowait:	stop there
 * @cancelled:	wait until that is set; neither: wait
 */
struct patience {
	bool nowait;
	_Atomic bool *cancelled;
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
			 enum odp_advice advice, struct patience patience)
{
	bool write = advice == ODP_PREFETCH_WRITE;
	struct pt_span miss = missing(mr, first, n, write);
	struct resolve r = {
	    .first = miss.first,
	    .n = miss.n,
	    .write = write,
	    .flags = PT_PREFETCHED | PT_FRESH,
	    .retries = STEP_RETRIES,
	    .nowait = patience.nowait,
	    .cancelled = patience.cancelled,
	};
	uint64_t begin = dom_clock(mr->dom);
	int64_t changed;

	if (!miss.n)
		return 0;
	changed = advice == ODP_PREFETCH_NO_FAULT ? mr_resolve_present(mr, &r)
						  : mr_resolve(mr, &r);
	ODP_TRACE(mr, dom_clock(mr->dom), prefetch, .addr = miss.first << mr->shift,
		  .length = miss.n << mr->shift, .duration = dom_clock(mr->dom) - begin,
		  .pages = changed < 0 ? 0 : (uint32_t)changed,
		  .result = changed < 0 ? (int32_t)changed : 0,
		  .advice = (uint8_t)advice);
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

/* Do what is left of it, as far as that goes. 0 or -errno, -EINPROGRESS: see nowait */
static int prefetch_pages(struct prefetch_work *w, struct patience patience)
{
	struct odp_mr *mr = w->mr;
	uint64_t step = STEP_BYTES >> mr->shift ? STEP_BYTES >> mr->shift : 1;
	int ret = 0;

	for (; w->from < w->pages.n && wanted(mr); w->from += step) {
		uint64_t left = w->pages.n - w->from;

		ret = prefetch_step(mr, w->pages.first + w->from,
				    left < step ? left : step, w->advice, patience);
		if (ret)
			break;
	}
	return ret;
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

static int outcome(int ret)
{
	switch (ret) {
	case 0:
	case -EAGAIN:
	case -EINVAL:
	case -ENOMEM:
		return ret;
	default:
		return -EFAULT;
	}
}

int odp_prefetch(struct odp_mr *mr, uint64_t iova, size_t len, enum odp_advice advice)
{
	struct prefetch_work w = {.mr = mr, .advice = advice};
	int ret = check(mr, iova, len, advice, &w.pages);

	if (ret || !w.pages.n)
		return ret;
	COUNT(mr, prefetches, 1);
	return outcome(prefetch_pages(&w, (struct patience){0}));
}

/* --- requests --------------------------------------------------------------------- */

/* With the queue's lock */
static void work_add(struct prefetcher *p, struct prefetch_work *w)
{
	w->number = ++p->submitted;
	w->prev = p->last;
	if (p->last)
		p->last->next = w;
	else
		p->first = w;
	p->last = w;
	if (!p->next)
		p->next = w;
}

/* With the queue's lock */
static void work_del(struct prefetcher *p, struct prefetch_work *w)
{
	if (w->prev)
		w->prev->next = w->next;
	else
		p->first = w->next;
	if (w->next)
		w->next->prev = w->prev;
	else
		p->last = w->prev;
	pthread_cond_broadcast(&p->done);
}

static void work_release(struct prefetch_work *w)
{
	struct odp_mr *mr = w->mr;

	atomic_fetch_sub(&mr->worker_refs, 1);
	odp_mr_put(mr);
}

/* Who waits for it finds the reference gone. */
static void work_finish(struct prefetcher *p, struct prefetch_work *w, bool slow)
{
	work_release(w);
	lock_take(&p->lock);
	p->slow -= slow;
	work_del(p, w);
	lock_release(&p->lock);
	free(w);
}

/* --- requests that take long ------------------------------------------------------ */

static void prefetch_slowly(struct odp_job *job)
{
	struct odp_domain *dom = job->mr->dom;
	struct prefetch_work *w = job->work;

	if (!job->cancelled)
		prefetch_pages(w, (struct patience){.cancelled = &job->cancelled});
	dom_lock(dom);
	job_end(job);
	dom_unlock(dom);
	atomic_fetch_sub(&job->mr->worker_refs, 1);
	job_free(job);
	work_finish(&dom->prefetcher, w, true);
}

/* Go on with it as a job. False: that cannot be had */
static bool go_on_slowly(struct prefetcher *p, struct prefetch_work *w)
{
	struct odp_domain *dom = w->mr->dom;
	struct odp_job *job;
	bool room;

	lock_take(&p->lock);
	room = p->slow < MAX_SLOW && !p->stop;
	p->slow += room;
	lock_release(&p->lock);
	job = room ? job_new(w->mr, w->pages.first, w->pages.n, false) : NULL;
	if (job) {
		job->run = prefetch_slowly;
		job->work = w;
		atomic_fetch_add(&w->mr->worker_refs, 1);
		dom_lock(dom);
		job_add(job);
		dom_unlock(dom);
		if (!dom->os->defer(dom->os_arg, job))
			return true;
		job->cancelled = true;
		odp_job_run(job);
		return true;
	}
	lock_take(&p->lock);
	p->slow -= room;
	lock_release(&p->lock);
	return false;
}

/* --- the worker ------------------------------------------------------------------- */

void prefetcher_init(struct prefetcher *p)
{
	lock_init(&p->lock);
	pthread_cond_init(&p->more, NULL);
	pthread_cond_init(&p->done, NULL);
}

static void work_do(struct prefetcher *p, struct prefetch_work *w)
{
	int ret = 0;

	if (wanted(w->mr)) {
		COUNT(w->mr, prefetches, 1);
		ret = prefetch_pages(w, (struct patience){.nowait = true});
	}
	if (ret != -EINPROGRESS || !go_on_slowly(p, w))
		work_finish(p, w, false);
}

static void *worker(void *arg)
{
	struct prefetcher *p = arg;

	lock_take(&p->lock);
	while (!p->stop) {
		struct prefetch_work *w = p->next;

		if (!w) {
			lock_wait(&p->lock, &p->more);
			continue;
		}
		p->next = w->next;
		lock_release(&p->lock);
		work_do(p, w);
		lock_take(&p->lock);
	}
	lock_release(&p->lock);
	return NULL;
}

void prefetcher_stop(struct prefetcher *p)
{
	struct prefetch_work *w;

	lock_take(&p->lock);
	p->stop = true;
	pthread_cond_broadcast(&p->more);
	lock_release(&p->lock);
	if (p->running)
		pthread_join(p->thread, NULL);
	while ((w = p->next)) {
		p->next = w->next;
		work_finish(p, w, false);
	}
}

void prefetcher_fini(struct prefetcher *p)
{
	pthread_cond_destroy(&p->more);
	pthread_cond_destroy(&p->done);
	lock_fini(&p->lock);
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

	lock_take(&p->lock);
	started = start(p);
	if (started) {
		work_add(p, w);
		pthread_cond_signal(&p->more);
	}
	lock_release(&p->lock);
	return started;
}

int odp_prefetch_async(struct odp_mr *mr, uint64_t iova, size_t len,
		       enum odp_advice advice)
{
	struct prefetch_work *w;
	struct mr_pages p;
	int ret = check(mr, iova, len, advice, &p);

	if (ret || !p.n)
		return ret;
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	w->mr = odp_mr_get(mr);
	atomic_fetch_add(&mr->worker_refs, 1);
	w->pages = p;
	w->advice = advice;
	if (!submit(&mr->dom->prefetcher, w)) {
		/* no thread: it is a hint */
		COUNT(mr, prefetches, 1);
		prefetch_pages(w, (struct patience){.nowait = true});
		work_release(w);
		free(w);
	}
	return 0;
}

void odp_prefetch_drain(struct odp_domain *dom)
{
	struct prefetcher *p = &dom->prefetcher;
	uint64_t until;

	lock_take(&p->lock);
	until = p->submitted;
	while (p->first && p->first->number <= until)
		lock_wait(&p->lock, &p->done);
	lock_release(&p->lock);
}
