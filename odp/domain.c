/*
 * domain.c - the registry of MRs, invalidations, sums of counters.
 *
 * Owns struct odp_domain. See internal.h for the locks and for how invalidations arrive.
 */
#include "odp/internal.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/container.h"
#include "odp/guard.h"

/*
 * To take a range out of the userfaultfd, the kernel looks at each page that is there, which
 * takes 0.1 us. To wait for the monitor takes some 60 us.
 */
#define CHANGE_MAX (2ul << 20)

/* --- invalidations ---------------------------------------------------------------- */

/* Leave an invalidation for whoever has the lock next. Never waits. */
static void inval_push(struct inval *q, uintptr_t first, uintptr_t last,
		       enum trace_inval cause)
{
	uint64_t taken = atomic_load(&q->taken);
	unsigned int n;

	do {
		uint64_t free = ~taken & ((1ull << INVAL_SLOTS) - 1);

		if (!free) {
			atomic_fetch_or(&q->state, INVAL_ALL);
			return;
		}
		n = __builtin_ctzll(free);
	} while (!atomic_compare_exchange_weak(&q->taken, &taken, taken | 1ull << n));
	q->slot[n].first = first;
	q->slot[n].last = last;
	q->slot[n].cause = (uint8_t)cause;
	atomic_fetch_or(&q->state, 1ull << n);
}

/* struct target - a range on its way through the registry; @cause: enum trace_inval */
struct target {
	uintptr_t first, last;
	uint8_t cause;
};

static void invalidate_mr(struct odp_mr *mr, const struct target *gone)
{
	uintptr_t first = gone->first, last = gone->last;
	struct odp_demand *d = mr->demand;
	uint64_t page = first >> mr->shift, last_page = last >> mr->shift;
	uint64_t n =
	    pt_clear(&d->pt, page, last_page - page + 1, false, mr_forget_fn(mr), mr);

	for (struct inflight *f = d->inflight; f; f = f->next)
		if (f->first <= last_page && f->last >= page)
			f->raced = true;
	mr_drop_pending(mr, page, last_page);
	if (n) {
		ODP_TRACE(mr, dom_clock(mr->dom), invalidate, .addr = first,
			  .length = last - first + 1, .pages = n, .cause = gone->cause);
		COUNT(mr, invalidations, 1);
		COUNT(mr, pages_invalidated, n);
	}
}

static struct odp_mr *mr_of_range(struct range_node *n)
{
	return container_of(n, struct odp_mr, range);
}

static bool invalidate_node(struct range_node *n, void *arg)
{
	const struct target *t = arg;

	invalidate_mr(mr_of_range(n), t);
	return false;
}

/* With the lock */
static void apply(struct odp_domain *dom, uintptr_t first, uintptr_t last, uint8_t cause)
{
	struct target t = {first, last, cause};
	unsigned int left = dom->implicit;

	ranges_each(&dom->explicit_mrs, first, last, invalidate_node, &t);
	for (struct odp_mr *mr = dom->mrs; mr && left; mr = mr->next) {
		if (!mr->demand || !mr->implicit)
			continue;
		invalidate_mr(mr, &t);
		left--;
	}
}

/* With the lock. Entries are not believed while INVAL_APPLYING is set. */
static void drain(struct odp_domain *dom)
{
	struct inval *q = &dom->inval;
	uint64_t work;

	if (!(atomic_load(&q->state) & INVAL_WORK))
		return;
	atomic_fetch_or(&q->state, INVAL_APPLYING);
	while ((work = atomic_fetch_and(&q->state, ~INVAL_WORK) & INVAL_WORK)) {
		if (work & INVAL_ALL)
			apply(dom, 0, UINTPTR_MAX, TRACE_INVAL_ALL);
		work &= ~INVAL_ALL;
		for (uint64_t left = work; left; left &= left - 1) {
			unsigned int n = __builtin_ctzll(left);

			apply(dom, q->slot[n].first, q->slot[n].last, q->slot[n].cause);
		}
		atomic_fetch_and(&q->taken, ~work);
	}
	atomic_fetch_and(&q->state, ~INVAL_APPLYING);
}

void dom_lock(struct odp_domain *dom)
{
	lock_take(&dom->lock);
	drain(dom);
}

void dom_unlock(struct odp_domain *dom)
{
	bool tell = dom->tell;

	dom->tell = false;
	lock_release(&dom->lock);
	if (tell && dom->told)
		dom->told(dom->told_arg);
}

/* Apply what is there if the lock is free; its holder's successor does it else. */
static void inval_kick(struct odp_domain *dom)
{
	if (!lock_try(&dom->lock))
		return;
	drain(dom);
	dom_unlock(dom);
}

/* The monitor is about to tell. It may need this CPU, below our priority. */
static void wait_for_monitor(unsigned int turn)
{
	struct timespec t = {.tv_nsec = 50000};

	if (turn < 16)
		sched_yield();
	else
		nanosleep(&t, NULL);
}

void dom_settle(struct odp_domain *dom)
{
	for (unsigned int turn = 0; !dom_quiet(dom); turn++) {
		if (atomic_load(&dom->inval.state) & INVAL_READING)
			wait_for_monitor(turn);
		dom_lock(dom);
		dom_unlock(dom);
	}
}

void odp_invalidate(struct odp_domain *dom, uintptr_t addr, size_t len,
		    enum trace_inval cause)
{
	uintptr_t last = len - 1 > UINTPTR_MAX - addr ? UINTPTR_MAX : addr + (len - 1);

	if (!len)
		return;
	if (dom->linux_os)
		os_linux_forget(dom->linux_os, addr, last);
	inval_push(&dom->inval, addr, last, cause);
	inval_kick(dom);
}

bool odp_change_begin(struct odp_domain *dom, uintptr_t addr, size_t len, bool anyway)
{
	uintptr_t mask = ((uintptr_t)1 << dom->page_shift) - 1;

	if (!anyway && len > CHANGE_MAX)
		return false;
	if (!dom->linux_os || !len || ((addr | len) & mask) || len > -addr)
		return false;
	return os_linux_release(dom->linux_os, addr, len);
}

void odp_change_end(struct odp_domain *dom, uintptr_t addr, size_t len, bool remains,
		    enum trace_inval cause)
{
	os_linux_released(dom->linux_os, addr, len, remains);
	odp_invalidate(dom, addr, len, cause);
}

/* Without events interposition must tell. */
void odp_yield_begin(struct odp_domain *dom, uintptr_t addr, size_t len)
{
	dom->blind = true;
	if (dom->linux_os)
		os_linux_yield_begin(dom->linux_os, addr, len);
}

void odp_yield_end(struct odp_domain *dom)
{
	if (dom->linux_os)
		os_linux_yield_end(dom->linux_os);
}

/* --- events of the monitor -------------------------------------------------------- */

static void monitor_begin(void *arg)
{
	struct odp_domain *dom = arg;

	atomic_fetch_or(&dom->inval.state, INVAL_READING);
}

static void monitor_gone(void *arg, uintptr_t first, uintptr_t last)
{
	struct odp_domain *dom = arg;

	if (dom->linux_os)
		os_linux_forget(dom->linux_os, first, last);
	inval_push(&dom->inval, first, last, TRACE_INVAL_EVENT);
}

static void show_events(struct odp_domain *dom)
{
	struct odp_caps caps = {0};

	if (!dom->cfg.recorder || !dom->linux_os)
		return;
	os_linux_caps(dom->linux_os, &caps);
	dom->cfg.recorder->hdr->uffd_events = caps.uffd_events;
}

static void monitor_end(void *arg)
{
	struct odp_domain *dom = arg;

	atomic_fetch_and(&dom->inval.state, ~INVAL_READING);
	inval_kick(dom);
	show_events(dom);
}

static bool yes(struct range_node *n, void *arg)
{
	return true;
}

static bool monitor_needed(void *arg, uintptr_t first, uintptr_t last)
{
	struct odp_domain *dom = arg;
	bool needed;

	dom_lock(dom);
	needed = dom->implicit || ranges_each(&dom->explicit_mrs, first, last, yes, NULL);
	dom_unlock(dom);
	return needed;
}

static const struct uffd_hooks monitor_hooks = {
    .begin = monitor_begin,
    .gone = monitor_gone,
    .end = monitor_end,
    .needed = monitor_needed,
};

/* --- life ------------------------------------------------------------------------- */

static int domain_init_os(struct odp_domain *dom, const struct odp_os *os, void *os_arg)
{
	int ret;

	dom->os = os;
	dom->os_arg = os_arg;
	if (os)
		return 0;
	ret = guard_init();
	if (ret)
		return ret;
	ret = os_linux_create(dom->cfg.uffd, &monitor_hooks, dom, &dom->linux_os);
	dom->os = &os_linux_ops;
	dom->os_arg = dom->linux_os;
	return ret;
}

static int domain_init(struct odp_domain *dom, const struct odp_config *cfg,
		       const struct odp_os *os, void *os_arg)
{
	pthread_condattr_t clock;
	int ret;

	dom->cfg = *cfg;
	dom->cfg.script = NULL;
	dom->page_shift = (uint8_t)__builtin_ctzl(sysconf(_SC_PAGESIZE));
	/* One level of page tables above, HPAGE_SHIFT of the kernel */
	dom->huge_shift = 2 * dom->page_shift - 3;
	lock_init_adaptive(&dom->lock);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&dom->job_over, &clock);
	pthread_condattr_destroy(&clock);
	prefetcher_init(&dom->prefetcher);
	dom->script_no = 1;
	ret = cfg->script ? script_parse(cfg->script, &dom->script, NULL, 0) : 0;
	if (!ret)
		ret = evict_init(&dom->evict, cfg->max_pages);
	if (ret)
		return ret;
	dom->retired = calloc(ODP_RETIRED, sizeof(*dom->retired));
	if (!dom->retired)
		return -ENOMEM;
	return domain_init_os(dom, os, os_arg);
}

int odp_domain_create(const struct odp_config *cfg, const struct odp_os *os, void *os_arg,
		      struct odp_domain **out)
{
	struct odp_domain *dom;
	int ret;

	if ((unsigned int)cfg->model >= ODP_FAULT_MODELS)
		return -EINVAL;
	dom = calloc(1, sizeof(*dom));
	if (!dom)
		return -ENOMEM;
	ret = domain_init(dom, cfg, os, os_arg);
	if (ret) {
		odp_domain_destroy(dom);
		return ret;
	}
	*out = dom;
	return 0;
}

/* A reference to an MR that only its jobs hold any more, NULL: there is none */
static struct odp_mr *mr_with_jobs(struct odp_domain *dom)
{
	struct odp_mr *mr;

	dom_lock(dom);
	for (mr = dom->mrs; mr && !mr->jobs; mr = mr->next)
		;
	if (mr)
		odp_mr_get(mr);
	dom_unlock(dom);
	return mr;
}

void odp_domain_destroy(struct odp_domain *dom)
{
	struct odp_mr *mr;

	prefetcher_stop(&dom->prefetcher);
	while ((mr = mr_with_jobs(dom))) {
		odp_mr_quiesce(mr);
		odp_mr_put(mr);
	}
	prefetcher_fini(&dom->prefetcher);
	if (dom->linux_os)
		os_linux_destroy(dom->linux_os);
	for (size_t i = 0; i < ODP_RETIRED; i++)
		recorder_object_free(dom->cfg.recorder, dom->retired_seen[i]);
	evict_fini(&dom->evict);
	pthread_cond_destroy(&dom->job_over);
	lock_fini(&dom->lock);
	free(dom->retired);
	free(dom->script);
	free(dom);
}

void odp_domain_abandon(struct odp_domain *dom)
{
	if (dom->linux_os)
		os_linux_abandon(dom->linux_os);
}

bool odp_domain_blind(const struct odp_domain *dom)
{
	return dom->blind;
}

static void forked_private(void *arg, uintptr_t addr, size_t len)
{
	odp_invalidate(arg, addr, len, TRACE_INVAL_FORK);
}

void odp_domain_forked(struct odp_domain *dom)
{
	if (dom->linux_os)
		os_linux_private(dom->linux_os, forked_private, dom);
	else
		odp_invalidate(dom, 0, SIZE_MAX, TRACE_INVAL_FORK);
}

int odp_domain_fds(const struct odp_domain *dom, int *fds, int max)
{
	return dom->linux_os ? os_linux_fds(dom->linux_os, fds, max) : 0;
}

void odp_domain_caps(struct odp_domain *dom, struct odp_caps *out)
{
	dom_settle(dom);
	memset(out, 0, sizeof(*out));
	if (dom->linux_os)
		os_linux_caps(dom->linux_os, out);
}

static bool needs_care(const struct odp_domain *dom)
{
	return evict_on(&dom->evict) || dom->script || inject_on(INJECT_ACCESS);
}

void odp_domain_look_again(struct odp_domain *dom)
{
	dom_lock(dom);
	for (struct odp_mr *mr = dom->mrs; mr; mr = mr->next)
		if (mr->demand)
			mr->demand->careful = needs_care(dom);
	dom_unlock(dom);
}

int odp_domain_set_script(struct odp_domain *dom, const char *text)
{
	struct script *script = NULL, *old;
	int ret = text ? script_parse(text, &script, NULL, 0) : 0;

	if (ret)
		return ret;
	dom_lock(dom);
	old = dom->script;
	dom->script = script;
	dom->script_no++;
	dom_unlock(dom);
	odp_domain_look_again(dom);
	free(old);
	return 0;
}

/* --- counters --------------------------------------------------------------------- */

static void counters_add(struct odp_counters *sum, const struct odp_counters *c)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)c;

	for (size_t i = 0; i < ODP_N_COUNTERS; i++)
		to[i] += from[i];
}

static void counters_read(const struct odp_mr *mr, struct odp_counters *out)
{
	uint64_t *to = (uint64_t *)out;

	memset(out, 0, sizeof(*out));
	for (size_t i = 0; mr->demand && i < ODP_N_COUNTERS; i++)
		to[i] =
		    atomic_load_explicit(&mr->demand->counter[i], memory_order_relaxed);
}

/* What the program is told: since it has reset them */
static void counters_since(const struct odp_mr *mr, struct odp_counters *out)
{
	uint64_t *to = (uint64_t *)out;

	counters_read(mr, out);
	for (size_t i = 0; mr->demand && i < ODP_N_COUNTERS; i++)
		to[i] -= atomic_load_explicit(&mr->demand->base[i], memory_order_relaxed);
}

void odp_mr_counters(const struct odp_mr *mr, struct odp_counters *out)
{
	dom_settle(mr->dom);
	counters_since(mr, out);
}

void odp_mr_reset_counters(struct odp_mr *mr)
{
	struct odp_counters now;
	const uint64_t *from = (const uint64_t *)&now;

	dom_settle(mr->dom);
	counters_read(mr, &now);
	for (size_t i = 0; mr->demand && i < ODP_N_COUNTERS; i++)
		atomic_store_explicit(&mr->demand->base[i], from[i],
				      memory_order_relaxed);
}

void odp_mr_lost(struct odp_mr *mr)
{
	if (mr->demand)
		COUNT(mr, lost_messages, 1);
}

void odp_domain_counters(struct odp_domain *dom, struct odp_counters *out)
{
	struct odp_counters c;

	dom_settle(dom);
	dom_lock(dom);
	*out = dom->total;
	for (struct odp_mr *mr = dom->mrs; mr; mr = mr->next) {
		counters_read(mr, &c);
		counters_add(out, &c);
	}
	dom_unlock(dom);
}

/* With the lock: the sums over MRs that are gone have changed. */
static void show_gone(struct odp_domain *dom)
{
	const uint64_t *from = (const uint64_t *)&dom->total;

	for (size_t i = 0; dom->cfg.recorder && i < ODP_N_COUNTERS; i++)
		dom->cfg.recorder->hdr->gone[i] = from[i];
}

/* --- the registry ----------------------------------------------------------------- */

static void info_read(const struct odp_mr *mr, struct odp_mr_info *info)
{
	memset(info, 0, sizeof(*info));
	info->key = mr->key;
	memcpy(info->name, mr->name, sizeof(info->name));
	info->addr = mr->addr;
	info->length = mr->length;
	info->iova = mr->iova;
	info->on_demand = mr->demand;
	info->implicit = mr->implicit;
	info->live = true;
	info->page_size = 1u << mr->shift;
	if (mr->demand)
		info->pages_cached =
		    atomic_load_explicit(&mr->demand->pt.live, memory_order_relaxed);
	counters_since(mr, &info->counters);
}

void odp_mr_describe(struct odp_mr *mr, struct odp_mr_info *out)
{
	dom_settle(mr->dom);
	dom_lock(mr->dom);
	info_read(mr, out);
	dom_unlock(mr->dom);
}

void dom_register(struct odp_domain *dom, struct odp_mr *mr)
{
	dom_lock(dom);
	mr->next = dom->mrs;
	if (mr->next)
		mr->next->prev = mr;
	dom->mrs = mr;
	dom->n_mrs++;
	if (!mr->number)
		mr->number = ++dom->n_made;
	if (mr->demand)
		mr->demand->careful = needs_care(dom);
	if (mr->demand && mr->implicit)
		dom->implicit++;
	else if (mr->demand)
		ranges_insert(&dom->explicit_mrs, &mr->range);
	dom_unlock(dom);
}

/*
 * With the lock: an on-demand MR ends, which is shown as long as it is among the last that
 * did. What need not be shown any more
 */
static struct trace_object *show_retired(struct odp_domain *dom, struct odp_mr *mr)
{
	struct trace_object **place = &dom->retired_seen[dom->n_retired++ % ODP_RETIRED];
	struct trace_object *unused = *place;

	*place = mr->seen;
	mr->seen->ended = dom_clock(dom);
	mr->seen->mr.cached = 0;
	memset(mr->seen->mr.map, 0, sizeof(mr->seen->mr.map));
	mr->seen->gone = true;
	show_gone(dom);
	return unused;
}

void dom_unregister(struct odp_domain *dom, struct odp_mr *mr)
{
	struct trace_object *unused = mr->demand ? NULL : mr->seen;
	struct odp_mr_info *info;
	struct odp_counters all;

	dom_lock(dom);
	if (mr->prev)
		mr->prev->next = mr->next;
	else
		dom->mrs = mr->next;
	if (mr->next)
		mr->next->prev = mr->prev;
	dom->n_mrs--;
	if (mr->demand) {
		if (mr->implicit)
			dom->implicit--;
		else
			ranges_remove(&dom->explicit_mrs, &mr->range);
		info = &dom->retired[dom->n_retired % ODP_RETIRED];
		info_read(mr, info);
		info->live = false;
		info->pages_cached = 0;
		counters_read(mr, &all);
		counters_add(&dom->total, &all);
		if (evict_on(&dom->evict))
			pt_clear(&mr->demand->pt, mr->demand->pt.first,
				 mr->demand->pt.count, true, mr_forget_fn(mr), mr);
		unused = show_retired(dom, mr);
	}
	dom_unlock(dom);
	recorder_object_free(dom->cfg.recorder, unused);
}

/* References to all MRs, oldest first; the lock is not held while memory is allocated. */
static struct odp_mr **snapshot_mrs(struct odp_domain *dom, size_t *n)
{
	struct odp_mr **all = NULL;
	size_t room = 0, i;

	dom_lock(dom);
	while (room < dom->n_mrs) {
		room = dom->n_mrs;
		dom_unlock(dom);
		free(all);
		all = malloc(room * sizeof(*all));
		if (!all) {
			*n = 0;
			return NULL;
		}
		dom_lock(dom);
	}
	*n = 0;
	/* there are n_mrs of them, and so much room */
	for (struct odp_mr *mr = all ? dom->mrs : NULL; mr; mr = mr->next) {
		uint32_t refs = atomic_load(&mr->refs);

		while (refs && !atomic_compare_exchange_weak(&mr->refs, &refs, refs + 1))
			;
		if (refs)
			all[(*n)++] = mr;
	}
	dom_unlock(dom);
	for (i = 0; i < *n / 2; i++) {
		struct odp_mr *swap = all[i];

		all[i] = all[*n - 1 - i];
		all[*n - 1 - i] = swap;
	}
	return all;
}

void odp_domain_each(struct odp_domain *dom,
		     void (*fn)(void *arg, const struct odp_mr_info *), void *arg)
{
	struct odp_mr_info info;
	struct odp_mr **all;
	size_t n;

	dom_settle(dom);
	all = snapshot_mrs(dom, &n);
	for (size_t i = 0; i < n; i++) {
		dom_lock(dom);
		info_read(all[i], &info);
		info.mr = all[i];
		dom_unlock(dom);
		fn(arg, &info);
		odp_mr_put(all[i]);
	}
	free(all);
	dom_lock(dom);
	for (uint64_t i = dom->n_retired > ODP_RETIRED ? dom->n_retired - ODP_RETIRED : 0;
	     i < dom->n_retired; i++) {
		info = dom->retired[i % ODP_RETIRED];
		dom_unlock(dom);
		fn(arg, &info);
		dom_lock(dom);
	}
	dom_unlock(dom);
}
