/*
 * pending.c - faults that are not over: those that the fault model defers to a time, and
 * those whose pages somebody must be waited for.
 *
 * Theory of operation
 *
 * A pending fault is a note in its MR: which pages, since when, and when it is due. One that
 * the model defers is due at a time. One whose pages take long (odp_os.slow: they are on a
 * disk, at a file server, in the hands of a userfaultfd handler of the program) has a job, a
 * struct odp_job, which the operating system's part runs where it may wait. When the job
 * is through, the fault is due. In both cases the access that comes then publishes the
 * pages, as if it had found them missing and present in memory; the job itself changes no
 * page table.
 *
 * Who waits for a job is in its list, and moves to that of the domain when it is over,
 * from where the core fetches it (odp_resolved). So a job wakes those who wait for it and
 * nobody else, and nothing waits for a job by holding a lock.
 *
 * An invalidation voids the pending faults that it overlaps, and tells who waits: the next
 * access finds what is there now. A job under way cannot be undone; it is cancelled, and
 * whatever it still does is not looked at. The same when its MR goes away, except that
 * odp_mr_quiesce() waits until it is out of the MR's memory.
 */
#include "odp/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ODP_FAULT_FLOOD: what a request that comes in vain costs the handler */
#define FLOOD_COST 10000u /* ns */
/*
 * Between attempts to end a job, whose thread may just be on its way into the kernel: at
 * first, and at most
 */
#define CANCEL_AGAIN_MS	    1
#define CANCEL_AGAIN_MAX_MS 512

/* --- notes ------------------------------------------------------------------------ */

static bool pending_covers(const struct pending *p, uint64_t page, bool write)
{
	return page >= p->first && page - p->first < p->n && (p->write || !write);
}

struct pending *pending_find(struct odp_mr *mr, uint64_t page, bool write)
{
	for (unsigned int i = 0; i < mr->n_pending; i++)
		if (pending_covers(&mr->pending[i], page, write))
			return &mr->pending[i];
	return NULL;
}

void pending_drop(struct odp_mr *mr, struct pending *p)
{
	*p = mr->pending[--mr->n_pending];
}

struct pending *pending_new(struct odp_mr *mr, uint64_t now, struct pending **first)
{
	if (mr->n_pending < mr->room_pending)
		return &mr->pending[mr->n_pending++];
	*first = &mr->pending[0];
	for (unsigned int i = 1; i < mr->n_pending; i++)
		if (mr->pending[i].ready_at < (*first)->ready_at)
			*first = &mr->pending[i];
	return (*first)->ready_at > now ? NULL : *first;
}

/* The handler is kept from its work, so that all faults take longer. */
void pending_flood(struct odp_mr *mr)
{
	for (unsigned int i = 0; i < mr->n_pending; i++) {
		struct pending *p = &mr->pending[i];

		if (p->model == ODP_FAULT_FLOOD && p->ready_at < p->limit)
			p->ready_at = p->limit - p->ready_at > FLOOD_COST
					  ? p->ready_at + FLOOD_COST
					  : p->limit;
	}
}

int pending_room(struct odp_mr *mr)
{
	struct pending *more, *unused;
	unsigned int room;

	dom_lock(mr->dom);
	room = mr->room_pending;
	if (mr->n_pending < room || room == ODP_MAX_PENDING) {
		dom_unlock(mr->dom);
		return 0;
	}
	dom_unlock(mr->dom);
	room = room ? 2 * room : ODP_PENDING;
	more = unused = malloc(room * sizeof(*more));
	if (!more)
		return -ENOMEM;
	dom_lock(mr->dom);
	if (mr->room_pending < room) {
		if (mr->n_pending)
			memcpy(more, mr->pending, mr->n_pending * sizeof(*more));
		unused = mr->pending;
		mr->pending = more;
		mr->room_pending = room;
	}
	dom_unlock(mr->dom);
	free(unused);
	return 0;
}

/* --- waiters, with the lock ------------------------------------------------------- */

static void waiter_push(struct odp_waiter **list, struct odp_waiter *w)
{
	w->next = *list;
	w->pprev = list;
	if (*list)
		(*list)->pprev = &w->next;
	*list = w;
}

static void waiter_del(struct odp_waiter *w)
{
	*w->pprev = w->next;
	if (w->next)
		w->next->pprev = w->pprev;
}

/* May be among the resolved ones, whose number then is one too many for a moment. */
static void waiter_unlink(struct odp_domain *dom, struct odp_waiter *w)
{
	if (!w->linked)
		return;
	waiter_del(w);
	w->linked = false;
	if (!dom->resolved)
		dom->n_resolved = 0;
}

static void tell_waiters(struct odp_domain *dom, struct odp_job *job)
{
	struct odp_waiter *w;

	while ((w = job->waiters)) {
		waiter_del(w);
		waiter_push(&dom->resolved, w);
		dom->n_resolved++;
		dom->tell = true;
	}
}

void job_wait(struct odp_job *job, struct odp_waiter *w)
{
	if (!w)
		return;
	waiter_unlink(job->mr->dom, w);
	waiter_push(&job->waiters, w);
	w->linked = true;
}

void odp_domain_tell(struct odp_domain *dom, void (*fn)(void *arg), void *arg)
{
	dom_lock(dom);
	dom->told = fn;
	dom->told_arg = arg;
	dom_unlock(dom);
}

struct odp_waiter *odp_resolved(struct odp_domain *dom)
{
	struct odp_waiter *w;

	if (!dom->n_resolved)
		return NULL;
	dom_lock(dom);
	w = dom->resolved;
	if (w)
		waiter_unlink(dom, w);
	dom_unlock(dom);
	return w;
}

void odp_unwait(struct odp_domain *dom, struct odp_waiter *w)
{
	if (!w->linked)
		return;
	dom_lock(dom);
	waiter_unlink(dom, w);
	dom_unlock(dom);
}

/* --- jobs ------------------------------------------------------------------------- */

/* The pending fault that a job is about, unless it is void */
static struct pending *pending_of(const struct odp_job *job)
{
	struct odp_mr *mr = job->mr;

	for (unsigned int i = 0; i < mr->n_pending; i++)
		if (mr->pending[i].job == job)
			return &mr->pending[i];
	return NULL;
}

static void fetch_pages(struct odp_job *job)
{
	struct odp_mr *mr = job->mr;
	struct odp_domain *dom = mr->dom;
	struct pending *p;
	int ret = -ECANCELED;

	if (!job->cancelled)
		ret = dom->os->fetch(dom->os_arg, job->first << mr->shift,
				     job->n << mr->shift, job->write, &job->cancelled);
	dom_lock(dom);
	p = pending_of(job);
	if (p) {
		p->job = NULL;
		p->ret = ret;
		p->again = true;
		p->over = dom_clock(dom);
		p->ready_at = 0;
	}
	job_end(job);
	dom_unlock(dom);
	job_free(job);
}

struct odp_job *job_new(struct odp_mr *mr, uint64_t first, uint64_t n, bool write)
{
	struct odp_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->mr = odp_mr_get(mr);
	job->run = fetch_pages;
	job->first = first;
	job->n = n;
	job->write = write;
	return job;
}

void job_free(struct odp_job *job)
{
	odp_mr_put(job->mr);
	free(job);
}

void job_add(struct odp_job *job)
{
	struct odp_mr *mr = job->mr;

	job->mr_next = mr->jobs;
	job->mr_pprev = &mr->jobs;
	if (mr->jobs)
		mr->jobs->mr_pprev = &job->mr_next;
	mr->jobs = job;
}

void job_end(struct odp_job *job)
{
	struct odp_domain *dom = job->mr->dom;

	*job->mr_pprev = job->mr_next;
	if (job->mr_next)
		job->mr_next->mr_pprev = job->mr_pprev;
	tell_waiters(dom, job);
	pthread_cond_broadcast(&dom->job_over);
}

void odp_job_run(struct odp_job *job)
{
	job->run(job);
}

void mr_drop_pending(struct odp_mr *mr, uint64_t first, uint64_t last)
{

	for (unsigned int i = 0; i < mr->n_pending;) {
		struct pending *p = &mr->pending[i];

		if (p->first > last || p->first + p->n - 1 < first) {
			i++;
			continue;
		}
		if (p->job) {
			p->job->cancelled = true;
			tell_waiters(mr->dom, p->job);
		}
		pending_drop(mr, p);
	}
}

/* With the lock. The first of those that were not begun, to be run to their early end */
static struct odp_job *cancel_all(struct odp_mr *mr)
{
	const struct odp_os *os = mr->dom->os;
	struct odp_job *gone = NULL;

	for (struct odp_job *job = mr->jobs; job; job = job->mr_next) {
		job->cancelled = true;
		if (!os->cancel(mr->dom->os_arg, job))
			continue;
		job->next = gone;
		gone = job;
	}
	return gone;
}

/* With the lock, left meanwhile: until a job has ended, or @ms */
static void wait_for_end(struct odp_domain *dom, long ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += ms * 1000000;
	t.tv_sec += t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	lock_wait_until(&dom->lock, &dom->job_over, &t);
}

void odp_mr_quiesce(struct odp_mr *mr)
{
	struct odp_domain *dom = mr->dom;
	struct odp_job *gone, *job;
	long ms = CANCEL_AGAIN_MS;

	dom_lock(dom);
	mr_drop_pending(mr, 0, UINT64_MAX);
	while (mr->jobs) {
		gone = cancel_all(mr);
		if (!gone)
			wait_for_end(dom, ms);
		ms = ms < CANCEL_AGAIN_MAX_MS ? 2 * ms : ms;
		dom_unlock(dom);
		while ((job = gone)) {
			gone = job->next;
			odp_job_run(job);
		}
		dom_lock(dom);
	}
	dom_unlock(dom);
}
