/*
 * fault.c - page faults: how they are resolved, deferred, scripted, and counted.
 *
 * Theory of operation
 *
 * Resolving: note the fault in flight, have the range watched, make the pages present,
 * then publish them unless an invalidation hit the range since the note was made; if one
 * did, begin again. This is mmu_interval_read_begin()/retry() of the kernel with ranges
 * in the place of a sequence number, so that unrelated unmappings repeat nothing.
 *
 * An access looks at its pages under the lock. What is missing is one fault, counted once
 * however often it must be repeated. With it the rest of the access's operation is asked
 * for, as far as it is in the same MR, so that an operation takes one fault wherever its
 * buffer begins. Served synchronously it is resolved on the spot, unless somebody would
 * have to be waited for: then a job does it (pending.c), and the answer is -EAGAIN. A
 * model that defers (or a latency) notes a pending fault and answers -EAGAIN, too; the
 * first access at or after its time resolves the whole of it, exactly as if the handler
 * had done so at that time, and goes on as a hit. So everything hangs on the times that
 * callers pass in, and on no clock. An invalidation voids pending faults that it
 * overlaps.
 *
 * Then the data is moved, guarded. If that faults, a page was lost without any event
 * (mprotect, truncation, or the event is still to come): the entries are dropped, which
 * counts as an invalidation, and the access begins again. The same where the copy would not
 * fail but wait, since the page is away (odp_os.away): on a disk, or in the hands of a
 * userfaultfd handler of the program. So it is with pinned MRs, too, which have no table: the
 * page is fetched by a job, and the access comes again.
 */
#include "odp/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* How often an access begins again */
#define MAX_ATTEMPTS ODP_MAX_RETRIES
/* How often it is not made since pages went away that had just come */
#define AWAY_LOOKS 2
/*
 * ODP_FAULT_FLOOD: how much longer than without a flood a fault can take ("3 to 4 orders of
 * magnitude", ISPASS 2021)
 */
#define FLOOD_FACTOR 1000u
/* mlx5 takes in up to 4 MiB behind an access */
#define AHEAD_BYTES (4ull << 20)

/* --- eviction --------------------------------------------------------------------- */

static void forget_page(void *arg, struct pt_leaf *leaf, unsigned int i, uint64_t page)
{
	struct odp_mr *mr = arg;

	evict_remove(&mr->dom->evict, leaf->slot[i]);
}

pt_page_fn *mr_forget_fn(struct odp_mr *mr)
{
	return evict_on(&mr->dom->evict) ? forget_page : NULL;
}

/* A page enters a table: make room for it. With the lock. */
static void enter_page(void *arg, struct pt_leaf *leaf, unsigned int i, uint64_t page)
{
	struct odp_mr *mr = arg;
	struct evict *e = &mr->dom->evict;
	uint32_t n = evict_victim(e);

	if (n) {
		struct odp_mr *victim = e->node[n].mr;

		/* Leaves stay: one of them may be the one that is being filled. */
		pt_clear(&victim->demand->pt, e->node[n].page, 1, true, forget_page,
			 victim);
		COUNT(victim, evictions, 1);
		ODP_TRACE(victim, dom_clock(mr->dom), evict,
			  .addr = e->node[n].page << victim->shift);
	}
	leaf->slot[i] = evict_add(e, mr, page);
}

static void use_pages(struct odp_mr *mr, uint64_t first, uint64_t n)
{
	struct pagetable *pt = &mr->demand->pt;

	for (uint64_t page = first; page < first + n; page++) {
		struct pt_leaf *leaf = pt_leaf(pt, page);
		unsigned int i = pt_index(pt, page);

		if (leaf && leaf->state[i])
			evict_touch(&mr->dom->evict, leaf->slot[i]);
	}
}

static uint64_t publish(struct odp_mr *mr, uint64_t first, uint64_t n, bool write,
			uint8_t flags)
{
	return pt_publish(&mr->demand->pt, first, n, write ? PT_READ | PT_WRITE : PT_READ,
			  flags, evict_on(&mr->dom->evict) ? enter_page : NULL, mr);
}

/* --- resolving -------------------------------------------------------------------- */

static void flight_begin(struct odp_mr *mr, struct inflight *f, uint64_t first,
			 uint64_t n)
{
	f->first = first;
	f->last = first + n - 1;
	f->raced = false;
	dom_lock(mr->dom);
	f->next = mr->demand->inflight;
	mr->demand->inflight = f;
	dom_unlock(mr->dom);
}

/* With the lock */
static void flight_end(struct odp_mr *mr, struct inflight *f)
{
	struct inflight **p = &mr->demand->inflight;

	while (*p != f)
		p = &(*p)->next;
	*p = f->next;
}

static void watch(struct odp_mr *mr, uintptr_t addr, size_t len)
{
	struct odp_domain *dom = mr->dom;

	if (!dom->os->watch)
		return;
	/* Without events, interposition and the guard do what they can. */
	if (!dom->os->watch(dom->os_arg, addr, len))
		mr->demand->watched = true;
	else
		dom->blind = true;
}

/* IBV_ACCESS_HUGETLB: the pages are as large as promised (mlx5 refuses smaller ones) */
static int check_page_size(struct odp_mr *mr, uint64_t first, uint64_t n)
{
	struct odp_domain *dom = mr->dom;

	if (!mr->hugetlb || !dom->os->page_size)
		return 0;
	for (uint64_t page = first; page < first + n; page++) {
		size_t size = dom->os->page_size(dom->os_arg, page << mr->shift);

		if (size && size < (size_t)1 << mr->shift)
			return -EINVAL;
	}
	return 0;
}

static int make_present(struct odp_mr *mr, const struct resolve *r)
{
	struct odp_domain *dom = mr->dom;
	uintptr_t addr = r->first << mr->shift;
	size_t len = r->n << mr->shift;
	static _Atomic bool never;
	bool slow;
	int ret;

	watch(mr, addr, len);
	ret = check_page_size(mr, r->first, r->n);
	if (ret)
		return ret;
	slow = dom->os->slow && dom->os->slow(dom->os_arg, addr, len, r->write, r->again);
	if (!mr->fickle && dom->os->fickle && dom->os->fickle(dom->os_arg, addr, len))
		mr->fickle = true;
	if (!slow)
		return dom->os->populate(dom->os_arg, addr, len, r->write);
	if (r->nowait)
		return -EINPROGRESS;
	return dom->os->fetch(dom->os_arg, addr, len, r->write,
			      r->cancelled ? r->cancelled : &never);
}

/*
 * Take the lock with leaves for all of the pages (unless the fault failed or was raced,
 * then they do not matter). @ret or -ENOMEM
 */
static int lock_with_leaves(struct odp_mr *mr, const struct inflight *f, uint64_t n,
			    int ret)
{
	struct pagetable *pt = &mr->demand->pt;

	for (;;) {
		dom_lock(mr->dom);
		if (ret || f->raced || pt_ready(pt, f->first, n))
			return ret;
		dom_unlock(mr->dom);
		ret = pt_prepare(pt, f->first, n);
	}
}

int64_t mr_resolve(struct odp_mr *mr, const struct resolve *r)
{
	struct inflight f;

	for (unsigned int i = 0; i <= r->retries; i++) {
		int64_t changed = 0;
		int ret;

		if (i)
			COUNT(mr, retries, 1);
		flight_begin(mr, &f, r->first, r->n);
		ret = make_present(mr, r);
		ret = lock_with_leaves(mr, &f, r->n, ret);
		flight_end(mr, &f);
		if (!ret && !f.raced)
			changed = publish(mr, r->first, r->n, r->write, r->flags);
		dom_unlock(mr->dom);
		if (!f.raced)
			return ret ? ret : changed;
	}
	return -EAGAIN;
}

/* With the lock: publish the pages that are present */
static uint64_t publish_present(struct odp_mr *mr, const struct resolve *r,
				const uint8_t *present)
{
	uint64_t changed = 0;

	for (uint64_t i = 0; i < r->n; i++)
		/* resident() has written all of it, or we would not be here */
		/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult) */
		if (present[i] & 1)
			changed += publish(mr, r->first + i, 1,
					   r->write && (present[i] & 2), r->flags);
	return changed;
}

/* os->resident is about base pages; a larger page is present if all of it is. */
static int resident(struct odp_mr *mr, const struct resolve *r, uint8_t *present)
{
	struct odp_domain *dom = mr->dom;
	unsigned int per = 1u << (mr->shift - dom->page_shift);
	uint8_t *base = present;
	int ret;

	if (!dom->os->resident)
		return -EOPNOTSUPP;
	if (per != 1) {
		base = malloc(r->n * per);
		if (!base)
			return -ENOMEM;
	}
	ret = dom->os->resident(dom->os_arg, r->first << mr->shift, r->n << mr->shift,
				base);
	if (per == 1)
		return ret;
	memset(present, 3, r->n);
	for (uint64_t i = 0; !ret && i < r->n * per; i++)
		present[i / per] &= base[i];
	free(base);
	return ret;
}

int64_t mr_resolve_present(struct odp_mr *mr, const struct resolve *r)
{
	uint8_t *present = malloc(r->n);
	int64_t changed = -EAGAIN;
	struct inflight f;

	if (!present)
		return -ENOMEM;
	for (unsigned int i = 0; i <= r->retries && changed == -EAGAIN; i++) {
		int ret;

		if (i)
			COUNT(mr, retries, 1);
		flight_begin(mr, &f, r->first, r->n);
		watch(mr, r->first << mr->shift, r->n << mr->shift);
		ret = resident(mr, r, present);
		ret = lock_with_leaves(mr, &f, r->n, ret);
		flight_end(mr, &f);
		if (!f.raced)
			changed = ret ? ret : (int64_t)publish_present(mr, r, present);
		dom_unlock(mr->dom);
	}
	free(present);
	return changed;
}

/* --- an access -------------------------------------------------------------------- */

/*
 * struct service - an access on its way
 * @page, @n:	its pages
 * @end:	the page behind the last that its operation wants
 * @write:	needs PT_WRITE
 * @touch:	transfers nothing
 * @model, @latency: how its faults are served
 * @asked:	the rules of inject/ have been asked about its fault
 * @acc:	the caller's
 */
struct service {
	struct odp_mr *mr;
	uint64_t page, n, end;
	bool write, touch;
	enum odp_fault_model model;
	uint64_t latency;
	bool asked;
	struct odp_access *acc;
};

static uint64_t clock_ns(const struct odp_domain *dom)
{
	return dom->os->now ? dom->os->now(dom->os_arg) : 0;
}

/* A fault is counted once per access; faulting in ahead of one is part of it. */
static void count_fault(const struct service *s)
{
	if (s->acc->faulted || s->touch)
		return;
	s->acc->faulted = true;
	if (s->write)
		COUNT(s->mr, write_faults, 1);
	else
		COUNT(s->mr, read_faults, 1);
	if (s->acc->remote)
		COUNT(s->mr, remote_faults, 1);
	else
		COUNT(s->mr, local_faults, 1);
}

static int count_failed(const struct service *s)
{
	if (!s->touch && s->mr->demand)
		COUNT(s->mr, failed_faults, 1);
	return -EFAULT;
}

/*
 * What a fault takes in: what is missing, and what the operation wants behind it. Under a
 * bound on pages only half of them, since the other end of the operation may need the other
 * half: what is taken in ahead must not be gone before it is used.
 */
static struct pt_span with_ahead(const struct service *s, struct pt_span miss)
{
	const struct evict *e = &s->mr->dom->evict;
	struct pt_span span = miss;

	if (s->end > miss.first + miss.n)
		span.n = s->end - miss.first;
	if (evict_on(e) && span.n > e->max / 2)
		span.n = miss.n > e->max / 2 ? miss.n : e->max / 2;
	return span;
}

static int defer(const struct service *s, const struct pending *p)
{
	s->acc->ready_at = p->ready_at;
	s->acc->model = p->model;
	s->acc->mr = s->mr;
	if (p->job)
		job_wait(p->job, s->acc->waiter);
	return -EAGAIN;
}

/*
 * Somebody must be waited for until these pages can be had: have a job do it. @started: when
 * the fault was taken. -EAGAIN, -EFAULT: no memory
 */
static int wait_for(const struct service *s, struct pt_span span, uint64_t started)
{
	struct odp_mr *mr = s->mr;
	struct odp_domain *dom = mr->dom;
	struct odp_job *job = job_new(mr, span.first, span.n, s->write);
	struct pending *p, *first = NULL;
	bool mine;

	if (!job || pending_room(mr)) {
		if (job)
			job_free(job);
		return count_failed(s);
	}
	dom_lock(dom);
	p = pending_find(mr, span.first, s->write);
	mine = !p && (p = pending_new(mr, s->acc->now, &first));
	if (mine) {
		*p = (struct pending){
		    .first = span.first,
		    .n = span.n,
		    .started = started,
		    .ready_at = ODP_WHEN_RESOLVED,
		    .job = job,
		    .write = s->write,
		    .ahead = s->touch,
		    .model = s->model,
		};
		job_add(job);
	}
	defer(s, p ? p : first);
	dom_unlock(dom);
	if (!mine)
		job_free(job);
	else if (dom->os->defer(dom->os_arg, job))
		odp_job_run(job); /* nobody else can: the caller waits */
	return -EAGAIN;
}

static int64_t resolve(const struct service *s, struct pt_span span, bool again)
{
	struct resolve r = {
	    .first = span.first,
	    .n = span.n,
	    .write = s->write,
	    .retries = ODP_MAX_RETRIES,
	    .nowait = true,
	    .again = again,
	};

	return mr_resolve(s->mr, &r);
}

/* What is missing is there, the rest of the operation is with somebody: ask for it. */
static void ask_ahead(const struct service *s, struct pt_span miss, struct pt_span span)
{
	struct odp_access acc = {.now = s->acc->now};
	struct service rest = *s;

	rest.touch = true;
	rest.acc = &acc;
	span.n -= miss.n;
	span.first += miss.n;
	wait_for(&rest, span, s->acc->now);
}

/* Now; where nobody records, the clock is not read */
static uint64_t record_clock(const struct odp_domain *dom)
{
	return dom->cfg.recorder ? clock_ns(dom) : 0;
}

/* A fault is over that took so long: @changed pages, or -errno */
static void record_fault(const struct service *s, struct pt_span span, uint64_t took,
			 int64_t changed)
{
	uint64_t clock = record_clock(s->mr->dom), now = clock ? clock : s->acc->now;

#define FIELDS                                                                           \
	.addr = span.first << s->mr->shift, .duration = took, .pages = (uint32_t)span.n, \
	.write = s->write, .remote = s->acc->remote, .model = (uint8_t)s->model
	if (changed < 0)
		ODP_TRACE(s->mr, now, fault_failed, FIELDS, .result = (int32_t)changed);
	else
		ODP_TRACE(s->mr, now, fault, FIELDS, .made = (uint32_t)changed);
#undef FIELDS
}

/* What is missing with the rest of the operation if that can be had, else alone */
static int fault_now(const struct service *s, struct pt_span miss)
{
	struct pt_span span = with_ahead(s, miss);
	uint64_t begin = record_clock(s->mr->dom);
	int64_t changed = resolve(s, span, false), whole = changed;

	if (changed < 0 && span.n > miss.n)
		changed = resolve(s, miss, false);
	if (changed == -EINPROGRESS)
		return wait_for(s, whole == changed ? span : miss, s->acc->now);
	record_fault(s, whole == changed ? span : miss, record_clock(s->mr->dom) - begin,
		     changed);
	if (changed < 0)
		return count_failed(s);
	COUNT(s->mr, pages_faulted, changed);
	if (whole == -EINPROGRESS)
		ask_ahead(s, miss, span);
	return 0;
}

static int serve_sync(const struct service *s, struct pt_span miss)
{
	uint64_t begin = clock_ns(s->mr->dom);
	int ret;

	count_fault(s);
	ret = fault_now(s, miss);
	if (ret != -EAGAIN && !s->touch)
		COUNT(s->mr, fault_ns, clock_ns(s->mr->dom) - begin);
	return ret;
}

/*
 * How long a fault was waited for by now: until it was due, or its job through. What it took the
 * access to come again, if that waited at all, is not the fault's.
 */
static uint64_t time_waited(const struct service *s, const struct pending *p)
{
	uint64_t over = p->again ? p->over : p->ready_at, now = s->acc->now;

	return (over >= p->started && over < now ? over : now) - p->started;
}

/*
 * Its time has come. The whole of it if that can be had, else what this access needs; a job
 * that tried just that needs no other.
 */
static int serve_due(const struct service *s, struct pt_span miss,
		     const struct pending *p)
{
	struct pt_span span = {p->first, p->n};
	uint64_t begin = clock_ns(s->mr->dom), took;
	int64_t changed = p->ret ? p->ret : resolve(s, span, p->again);

	if (changed == -EINPROGRESS)
		return wait_for(s, span, p->started);
	took = time_waited(s, p) + (clock_ns(s->mr->dom) - begin);
	if (!p->ahead)
		COUNT(s->mr, fault_ns, took);
	record_fault(s, span, took, changed);
	if (p->ret && span.first == miss.first && span.n == miss.n)
		return count_failed(s);
	if (changed < 0) {
		struct service alone = *s;

		alone.end = 0;
		return fault_now(&alone, miss);
	}
	COUNT(s->mr, pages_faulted, changed);
	return 0;
}

static uint64_t add_capped(uint64_t a, uint64_t b)
{
	return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

/* With the lock, which it leaves */
static int serve_new(const struct service *s, struct pt_span span)
{
	struct pending *p, *first = NULL;
	uint64_t now = s->acc->now;
	int ret;

	p = pending_new(s->mr, now, &first);
	if (!p) {
		ret = defer(s, first);
		dom_unlock(s->mr->dom);
		return ret;
	}
	*p = (struct pending){
	    .first = span.first,
	    .n = span.n,
	    .started = now,
	    .ready_at = add_capped(now, s->latency),
	    .limit = s->latency > UINT64_MAX / FLOOD_FACTOR
			 ? UINT64_MAX
			 : add_capped(now, s->latency * FLOOD_FACTOR),
	    .write = s->write,
	    .ahead = s->touch,
	    .model = s->model,
	};
	ret = defer(s, p);
	dom_unlock(s->mr->dom);
	count_fault(s);
	ODP_TRACE(s->mr, now, fault_wait, .addr = span.first << s->mr->shift,
		  .latency = s->latency, .pages = (uint32_t)span.n, .write = s->write,
		  .remote = s->acc->remote, .model = (uint8_t)s->model);
	return ret;
}

/* With the lock: what is missing? Pages that are there were used. */
static struct pt_span look(const struct service *s)
{
	struct odp_mr *mr = s->mr;
	uint8_t want = s->write ? PT_READ | PT_WRITE : PT_READ;
	uint64_t fresh = pt_touch(&mr->demand->pt, s->page, s->n, want);

	if (fresh)
		COUNT(mr, prefetch_hits, fresh);
	if (evict_on(&mr->dom->evict))
		use_pages(mr, s->page, s->n);
	return pt_missing(&mr->demand->pt, s->page, s->n, want);
}

static bool span_covers(const struct pending *p, struct pt_span miss)
{
	return p->first <= miss.first && p->first + p->n >= miss.first + miss.n;
}

/* Does a span have all pages of the access? */
static bool has_all(const struct service *s, struct pt_span span)
{
	return span.first <= s->page && span.first + span.n >= s->page + s->n;
}

static bool deferring(const struct service *s)
{
	return s->model != ODP_FAULT_SYNC || s->latency;
}

static struct inject_point point_of(const struct service *s, enum inject_kind kind)
{
	return (struct inject_point){.kind = kind,
				     .name = s->write ? "write" : "read",
				     .object = s->mr->name,
				     .key = s->mr->key,
				     .page = s->page - s->mr->demand->pt.first,
				     .n = s->n};
}

/* How a fault is served that was injected, or injected into. -EFAULT: not at all */
static int serve_as(struct service *s, const struct inject_what *what)
{
	static const struct {
		enum inject_do action;
		enum odp_fault_model model;
	} models[] = {{INJECT_DO_RNR, ODP_FAULT_RNR},
		      {INJECT_DO_DROP, ODP_FAULT_DROP},
		      {INJECT_DO_DAMMING, ODP_FAULT_DAMMING},
		      {INJECT_DO_FLOOD, ODP_FAULT_FLOOD}};

	if (what->action == INJECT_DO_ERROR)
		return -EFAULT;
	s->latency += what->time;
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
		if (models[i].action == what->action)
			s->model = models[i].model;
	return 0;
}

/* A fault begins: does a rule act? Once for an access. 0 or -EFAULT */
static int ask_fault(struct service *s)
{
	struct inject_point p = point_of(s, INJECT_FAULT);
	struct inject_what what;

	s->asked = true;
	if (!inject_ask(&p, &what) || !serve_as(s, &what))
		return 0;
	count_fault(s);
	return count_failed(s);
}

/*
 * Have all pages of the access in the table: 0, -EAGAIN or -EFAULT. The pages of a fault
 * that was waited for are the access's even where the bound on pages has no room for them
 * all: each wait ends in progress. A page that was there may be gone when the fault for the
 * others is over; then all are asked for at once.
 */
static int serve(struct service *s)
{
	struct odp_mr *mr = s->mr;
	bool in_parts = false;

	/* each turn resolves one pending fault */
	for (unsigned int i = 0; i < MAX_ATTEMPTS; i++) {
		struct pending *p, due;
		struct pt_span miss;
		int ret;

		dom_settle(mr->dom);
		if (deferring(s) && pending_room(mr))
			return -EFAULT;
		dom_lock(mr->dom);
		miss = look(s);
		if (!miss.n) {
			dom_unlock(mr->dom);
			return 0;
		}
		if (in_parts)
			miss = (struct pt_span){s->page, s->n};
		p = pending_find(mr, miss.first, s->write);
		if (!p && inject_on(INJECT_FAULT) && !s->asked) {
			dom_unlock(mr->dom);
			ret = ask_fault(s);
			if (ret)
				return ret;
			continue; /* what defers needs room */
		}
		if (!p && deferring(s))
			return serve_new(s, with_ahead(s, miss));
		if (p && s->acc->now < p->ready_at) {
			if (p->model == ODP_FAULT_FLOOD)
				pending_flood(mr);
			ret = defer(s, p);
			dom_unlock(mr->dom);
			return ret;
		}
		if (p) {
			due = *p;
			pending_drop(mr, p);
		}
		dom_unlock(mr->dom);
		ret = p ? serve_due(s, miss, &due) : serve_sync(s, miss);
		if (ret || has_all(s, p ? (struct pt_span){due.first, due.n} : miss))
			return ret;
		in_parts = !p || span_covers(&due, miss);
	}
	return -EFAULT;
}

/*
 * With the lock: what is missing and has no fault yet. Under a bound on pages no more than
 * there is room for: what no access has asked for drops nothing.
 */
static struct pt_span look_ahead(const struct service *s)
{
	struct odp_mr *mr = s->mr;
	const struct evict *e = &mr->dom->evict;
	struct pt_span miss = pt_missing(&mr->demand->pt, s->page, s->n,
					 s->write ? PT_READ | PT_WRITE : PT_READ);
	const struct pending *p;

	while (miss.n && (p = pending_find(mr, miss.first, s->write))) {
		uint64_t skip = p->first + p->n - miss.first;

		miss.first += skip < miss.n ? skip : miss.n;
		miss.n -= skip < miss.n ? skip : miss.n;
	}
	if (evict_on(e) && miss.n > e->max - e->used)
		miss.n = e->max - e->used;
	return miss;
}

/*
 * Faults for pages that an access will come to. Those that are pending already are left to
 * that access, which is to see their end.
 */
static int serve_touch(const struct service *s)
{
	struct odp_mr *mr = s->mr;
	struct pt_span miss;

	dom_settle(mr->dom);
	if (deferring(s) && pending_room(mr))
		return -EFAULT;
	dom_lock(mr->dom);
	miss = look_ahead(s);
	if (miss.n && deferring(s))
		return serve_new(s, miss);
	dom_unlock(mr->dom);
	return miss.n ? serve_sync(s, miss) : 0;
}

int access_transfer(struct odp_mr *mr, const struct access *a)
{
	const struct odp_os *os = mr->dom->os;
	void *arg = mr->dom->os_arg;

	switch (a->kind) {
	case ACCESS_READ:
		return os->copy(arg, a->buf, (const void *)a->addr, a->len);
	case ACCESS_WRITE:
		return os->copy(arg, (void *)a->addr, a->buf, a->len);
	case ACCESS_CMP_SWAP:
		return os->cmp_swap(arg, (uint64_t *)a->addr, a->operand[0],
				    a->operand[1], a->orig);
	case ACCESS_FETCH_ADD:
		return os->fetch_add(arg, (uint64_t *)a->addr, a->operand[0], a->orig);
	case ACCESS_STORE64:
		return os->store64(arg, (uint64_t *)a->addr, a->operand[0]);
	case ACCESS_TOUCH_READ:
	case ACCESS_TOUCH_WRITE:
		break;
	}
	return 0;
}

void mr_stale(struct odp_mr *mr, uintptr_t addr, size_t len)
{
	struct mr_pages p = mr_pages_of(mr, addr, len);
	uint64_t n;

	dom_lock(mr->dom);
	n = pt_clear(&mr->demand->pt, p.first, p.n, false, mr_forget_fn(mr), mr);
	dom_unlock(mr->dom);
	if (!n)
		return; /* the event has come meanwhile */
	ODP_TRACE(mr, dom_clock(mr->dom), invalidate, .addr = addr, .length = len,
		  .pages = n, .cause = TRACE_INVAL_STALE);
	COUNT(mr, invalidations, 1);
	COUNT(mr, pages_invalidated, n);
}

/* --- scripted faults -------------------------------------------------------------- */

void mr_match_rules(struct odp_mr *mr)
{
	const struct script *s = mr->dom->script;
	struct odp_demand *d = mr->demand;

	if (!s || !d || d->rule_script != mr->dom->script_no)
		return;
	for (unsigned int i = 0; i < s->n; i++)
		d->rule[i].on = script_matches(&s->rule[i], mr->key, mr->name);
}

/* With the lock, left for a moment: states of the rules, all new */
static bool make_states(struct odp_mr *mr)
{
	struct odp_domain *dom = mr->dom;
	struct odp_demand *d = mr->demand;
	uint64_t no = dom->script_no;
	unsigned int n = dom->script->n;
	struct script_state *states, *unused;

	dom_unlock(dom);
	states = unused = calloc(n, sizeof(*states));
	dom_lock(dom);
	if (states && dom->script_no == no && d->rule_script != no) {
		unused = d->rule;
		d->rule = states;
		d->rule_script = no;
		mr_match_rules(mr);
	}
	dom_unlock(dom);
	free(unused);
	dom_lock(dom);
	return states;
}

/*
 * With the lock, maybe left for a moment: the script, the MR having a state for each of
 * its rules. NULL: there is none (or no memory: then the rules are not for this access)
 */
static const struct script *script_ready(struct odp_mr *mr)
{
	struct odp_domain *dom = mr->dom;

	while (dom->script && mr->demand->rule_script != dom->script_no)
		if (!make_states(mr))
			return NULL;
	return dom->script;
}

/* With the lock */
static bool rule_due(const struct service *s, const struct script_rule *rule,
		     struct script_state *state)
{
	uint64_t page = s->mr->demand->pt.first + rule->page;

	if (!state->on || page < s->page || page - s->page >= s->n)
		return false;
	return ++state->seen == rule->access;
}

/* With the lock */
static void drop_page(struct odp_mr *mr, uint64_t page)
{
	uint64_t n = pt_clear(&mr->demand->pt, page, 1, false, mr_forget_fn(mr), mr);

	COUNT(mr, evictions, n);
}

/*
 * Count the access for scripted faults, and have those happen that are due. 0 or -EFAULT
 */
static int run_script(struct service *s)
{
	struct odp_mr *mr = s->mr;
	const struct script *script;
	int ret = 0;

	dom_lock(mr->dom);
	script = script_ready(mr);
	for (unsigned int i = 0; script && i < script->n; i++) {
		const struct script_rule *rule = &script->rule[i];

		if (!rule_due(s, rule, &mr->demand->rule[i]))
			continue;
		drop_page(mr, mr->demand->pt.first + rule->page);
		if (serve_as(s, &(struct inject_what){.action = rule->action}))
			ret = -EFAULT;
	}
	dom_unlock(mr->dom);
	if (ret) {
		count_fault(s);
		COUNT(mr, failed_faults, 1);
	}
	return ret;
}

/*
 * Ask the rules of inject/ about an access. One that is repeated since its fault was put off is
 * no other. 0 or -EFAULT
 */
static int ask_access(struct service *s)
{
	struct odp_mr *mr = s->mr;
	struct inject_point p = point_of(s, INJECT_ACCESS);
	uint64_t first = s->page, n = s->n;
	struct inject_what what;
	bool again = false;

	dom_lock(mr->dom);
	for (uint64_t i = 0; i < n && !again; i++)
		again = pending_find(mr, first + i, s->write);
	dom_unlock(mr->dom);
	if (again || !inject_ask(&p, &what))
		return 0;
	if (serve_as(s, &what)) {
		count_fault(s);
		return count_failed(s);
	}
	if (what.by_page) {
		first = mr->demand->pt.first + what.page;
		n = 1;
	}
	dom_lock(mr->dom);
	for (uint64_t i = 0; i < n; i++)
		drop_page(mr, first + i);
	dom_unlock(mr->dom);
	return 0;
}

/* The page behind the last that the operation of an access wants */
static uint64_t end_of_operation(const struct odp_mr *mr, const struct access *a,
				 const struct odp_access *acc)
{
	uint64_t room = mr->addr + (mr->length - 1) - (a->addr + (a->len - 1));
	uint64_t ahead = acc->ahead < AHEAD_BYTES ? acc->ahead : AHEAD_BYTES;

	if (ahead > room)
		ahead = room;
	return ((a->addr + (a->len - 1) + ahead) >> mr->shift) + 1;
}

int mr_access_pinned(struct odp_mr *mr, const struct access *a, struct odp_access *acc)
{
	struct mr_pages p = mr_pages_of(mr, a->addr, a->len);
	struct service s = {
	    .mr = mr,
	    .page = p.first,
	    .n = p.n,
	    .write = access_writes(a->kind),
	    .model = ODP_FAULT_SYNC,
	    .acc = acc,
	};
	struct pt_span span = {p.first, end_of_operation(mr, a, acc) - p.first};
	struct pending *fetched;
	int ret = 0;

	dom_lock(mr->dom);
	fetched = pending_find(mr, s.page, s.write);
	if (fetched && fetched->job)
		ret = defer(&s, fetched);
	else if (fetched)
		pending_drop(mr, fetched);
	dom_unlock(mr->dom);
	if (ret)
		return ret;
	if (!fetched && mr_away(mr, a->addr, a->len, s.write))
		return wait_for(&s, span, acc->now);
	return access_transfer(mr, a);
}

int mr_access(struct odp_mr *mr, const struct access *a, struct odp_access *acc)
{
	struct mr_pages p = mr_pages_of(mr, a->addr, a->len);
	bool touch = a->kind == ACCESS_TOUCH_READ || a->kind == ACCESS_TOUCH_WRITE;
	struct service s = {
	    .mr = mr,
	    .page = p.first,
	    .n = p.n,
	    .end = end_of_operation(mr, a, acc),
	    .write = access_writes(a->kind),
	    .touch = touch,
	    .model = mr->demand->model,
	    .latency = mr->demand->latency,
	    .acc = acc,
	};
	int ret;

	if (touch)
		return serve_touch(&s);
	if (mr->demand->careful) {
		ret = run_script(&s);
		if (!ret && inject_on(INJECT_ACCESS))
			ret = ask_access(&s);
		if (ret)
			return ret;
	}
	for (unsigned int i = 0; i < MAX_ATTEMPTS; i++) {
		if (i && acc->faulted)
			COUNT(mr, retries, 1);
		ret = serve(&s);
		if (ret)
			return ret;
		if (i < AWAY_LOOKS && mr_away(mr, a->addr, a->len, s.write)) {
			mr_stale(mr, a->addr, a->len);
			continue;
		}
		ret = access_transfer(mr, a);
		if (!ret && !acc->faulted)
			mr_count_hit(mr);
		if (ret != -EFAULT)
			return ret;
		mr_stale(mr, a->addr, a->len);
	}
	return -EFAULT;
}
