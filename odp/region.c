/*
 * region.c - memory regions, and the accesses of the HCA.
 *
 * The fast path of an access: bounds, no invalidation under way, the states of its pages,
 * a guarded copy. Everything else is in fault.c.
 */
#include "odp/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "odp/guard.h"
#include "odp/memlock.h"

/* --- life ------------------------------------------------------------------------- */

static int check_attr(const struct odp_mr_attr *a)
{
	if (!a->length)
		return -EINVAL;
	if (a->implicit)
		/* mlx5: reg_user_mr with length U64_MAX */
		return a->on_demand && !a->addr && a->length == SIZE_MAX && !a->iova &&
			       !a->hugetlb
			   ? 0
			   : -EINVAL;
	return a->length - 1 > UINTPTR_MAX - a->addr ? -EFAULT : 0;
}

/* Pages that are in several MRs count in each. */
static int count_pinned(struct odp_mr *mr, uint64_t bytes)
{
	struct odp_domain *dom = mr->dom;
	uint64_t limit = memlock_limit(&dom->cfg);
	uint64_t sum = atomic_fetch_add(&dom->pinned, bytes) + bytes;

	mr->pinned = bytes;
	if (sum <= limit)
		return 0;
	if (!atomic_exchange(&dom->pin_told, true))
		memlock_tell(&dom->cfg, sum, limit);
	return -ENOMEM;
}

/*
 * What a pinned MR needs is there now, as ib_umem_get() has it; it stays with the guard
 * later.
 */
static int pin(struct odp_mr *mr)
{
	struct odp_domain *dom = mr->dom;
	struct mr_pages p = mr_pages_of(mr, mr->addr, mr->length);
	uintptr_t addr = p.first << mr->shift;
	size_t len = p.n << mr->shift;
	int ret = count_pinned(mr, len);

	if (ret)
		return ret;
	ret = (dom->os->pin ? dom->os->pin : dom->os->populate)(dom->os_arg, addr, len,
								mr->writable);
	if (!ret && dom->os->fickle)
		mr->fickle = dom->os->fickle(dom->os_arg, addr, len);
	return ret == -ENOMEM || !ret ? ret : -EFAULT;
}

static int demand_init(struct odp_mr *mr)
{
	struct odp_domain *dom = mr->dom;
	struct odp_demand *d = calloc(1, sizeof(*d));
	struct mr_pages p = {0, PT_SPARSE_PAGES};
	int ret;

	if (!d)
		return -ENOMEM;
	mr->demand = d;
	if (!mr->implicit)
		p = mr_pages_of(mr, mr->addr, mr->length);
	d->counter = mr->seen->mr.counter;
	mr->range.first = p.first << mr->shift;
	mr->range.last = ((p.first + p.n) << mr->shift) - 1;
	ret = pt_init(&d->pt, p.first, p.n, mr->implicit || p.n > ODP_FLAT_MAX_PAGES,
		      evict_on(&dom->evict));
	if (!ret && !mr->implicit)
		ret = pt_show_in(&d->pt, &mr->seen->mr);
	if (ret)
		return ret;
	dom_lock(dom);
	d->model = dom->cfg.model;
	d->latency = dom->cfg.latency;
	dom_unlock(dom);
	return 0;
}

/* What others see of it. 0 or -ENOMEM */
static int show(struct odp_mr *mr, const struct odp_mr_attr *attr)
{
	struct trace_object *o = recorder_object(mr->dom->cfg.recorder);

	if (!o)
		return -ENOMEM;
	o->device = attr->device;
	o->created = dom_clock(mr->dom);
	o->mr.addr = mr->addr;
	o->mr.length = mr->length;
	o->mr.iova = mr->iova;
	o->mr.page_size = 1u << mr->shift;
	o->mr.access = attr->access;
	o->mr.pd = attr->pd;
	o->mr.on_demand = attr->on_demand;
	o->mr.implicit = mr->implicit;
	o->mr.writable = mr->writable;
	mr->seen = o;
	return 0;
}

/* How its faults are served has changed. */
static void show_model(struct odp_mr *mr)
{
	if (!mr->demand)
		return;
	mr->seen->mr.model = mr->demand->model;
	mr->seen->mr.latency = mr->demand->latency;
}

static void mr_free(struct odp_mr *mr)
{
	struct odp_demand *d = mr->demand;

	atomic_fetch_sub(&mr->dom->pinned, mr->pinned);
	if (d) {
		pt_fini(&d->pt);
		free(d->rule);
		free(d);
	}
	free(mr->pending);
	free(mr);
}

/* Pages that are present enter the table, as mlx5 does at registration. Best effort. */
static void take_snapshot(struct odp_mr *mr)
{
	struct odp_demand *d = mr->demand;
	struct resolve r = {.retries = ODP_MAX_RETRIES};
	uint64_t step = 1ull << 14;

	for (uint64_t i = 0; i < d->pt.count; i += step) {
		r.first = d->pt.first + i;
		r.n = d->pt.count - i < step ? d->pt.count - i : step;
		r.write = mr->writable;
		if (mr_resolve_present(mr, &r) < 0)
			return;
	}
}

static bool starts_warm(const struct odp_domain *dom, const struct odp_mr_attr *attr)
{
	if (attr->implicit)
		return false;
	return attr->start == ODP_START_DEFAULT ? dom->cfg.snapshot
						: attr->start == ODP_START_SNAPSHOT;
}

int odp_mr_create(struct odp_domain *dom, const struct odp_mr_attr *attr,
		  struct odp_mr **out)
{
	struct odp_mr *mr;
	int ret = check_attr(attr);

	if (ret)
		return ret;
	if (dom->linux_os)
		guard_init(); /* somebody may have taken our handler's place */
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -ENOMEM;
	mr->dom = dom;
	mr->addr = attr->addr;
	mr->length = attr->length;
	mr->iova = attr->iova;
	mr->writable = attr->writable;
	mr->implicit = attr->implicit;
	mr->hugetlb = attr->hugetlb && attr->on_demand;
	mr->shift = mr->hugetlb ? dom->huge_shift : dom->page_shift;
	mr->number = attr->number;
	mr->refs = 1;
	ret = show(mr, attr);
	if (!ret)
		ret = attr->on_demand ? demand_init(mr) : pin(mr);
	if (ret) {
		recorder_object_free(dom->cfg.recorder, mr->seen);
		mr_free(mr);
		return ret;
	}
	show_model(mr);
	dom_register(dom, mr);
	recorder_object_ready(mr->seen, TRACE_OBJ_MR);
	if (mr->demand && starts_warm(dom, attr))
		take_snapshot(mr);
	*out = mr;
	return 0;
}

uint32_t odp_mr_number(const struct odp_mr *mr)
{
	return mr->number;
}

struct odp_mr *odp_mr_get(struct odp_mr *mr)
{
	atomic_fetch_add_explicit(&mr->refs, 1, memory_order_relaxed);
	return mr;
}

void odp_mr_put(struct odp_mr *mr)
{
	struct odp_domain *dom = mr->dom;

	if (atomic_fetch_sub(&mr->refs, 1) != 1)
		return;
	dom_unregister(dom, mr);
	if (mr->demand && mr->demand->watched && dom->os->unwatch)
		dom->os->unwatch(dom->os_arg, mr->range.first,
				 mr->range.last - mr->range.first + 1);
	mr_free(mr);
}

/* With the lock: the faults that the options want for an MR of this name */
static void obey_name(struct odp_mr *mr)
{
	const struct odp_config *cfg = &mr->dom->cfg;

	for (unsigned int i = 0; mr->demand && i < cfg->n_named; i++) {
		const struct odp_fault_rule *r = &cfg->named[i];

		if (strcmp(r->name, mr->name))
			continue;
		if (r->has_model)
			mr->demand->model = r->model;
		if (r->has_latency)
			mr->demand->latency = r->latency;
	}
	show_model(mr);
}

void odp_mr_set_label(struct odp_mr *mr, uint32_t key, const char *name)
{
	dom_lock(mr->dom);
	mr->key = key;
	if (name && *name)
		snprintf(mr->name, sizeof(mr->name), "%s", name);
	else
		snprintf(mr->name, sizeof(mr->name), "mr%u", mr->number);
	mr->seen->id = key;
	memcpy(mr->seen->name, mr->name, sizeof(mr->seen->name));
	mr_match_rules(mr);
	obey_name(mr);
	dom_unlock(mr->dom);
}

void odp_mr_set_model(struct odp_mr *mr, enum odp_fault_model model, uint64_t latency)
{
	if (!mr->demand)
		return;
	mr->demand->model = model;
	mr->demand->latency = latency;
	show_model(mr);
}

size_t odp_mr_page_map(struct odp_mr *mr, uint64_t iova, uint8_t *map, size_t max)
{
	uintptr_t addr;
	uint64_t first, n;

	if (!mr->demand || !mr_translate(mr, iova, 1, &addr))
		return 0;
	first = addr >> mr->shift;
	n = mr->demand->pt.first + mr->demand->pt.count - first;
	if (n > max)
		n = max;
	dom_settle(mr->dom);
	for (uint64_t i = 0; i < n; i++) {
		/* not for too long at a time */
		if (i % 4096 == 0) {
			if (i)
				dom_unlock(mr->dom);
			dom_lock(mr->dom);
		}
		map[i] = pt_state(&mr->demand->pt, first + i) &
			 (PT_READ | PT_WRITE | PT_PREFETCHED);
	}
	if (n)
		dom_unlock(mr->dom);
	return n;
}

/* --- accesses --------------------------------------------------------------------- */

/* Are all pages there, and may that be believed? */
static inline bool mr_hit(const struct odp_mr *mr, uintptr_t addr, size_t len,
			  uint8_t want)
{
	const struct odp_demand *d = mr->demand;
	struct mr_pages p;

	if (d->careful || !dom_quiet(mr->dom))
		return false;
	p = mr_pages_of(mr, addr, len);
	return pt_hit(&d->pt, p.first, p.n, want);
}

static int access_pinned(struct odp_mr *mr, const struct access *a,
			 struct odp_access *acc)
{
	if (__builtin_expect(mr->n_pending != 0, 0) ||
	    mr_away(mr, a->addr, a->len, access_writes(a->kind)))
		return mr_access_pinned(mr, a, acc);
	return access_transfer(mr, a);
}

int odp_read(struct odp_mr *mr, uint64_t iova, void *dst, size_t len,
	     struct odp_access *acc)
{
	struct odp_domain *dom = mr->dom;
	struct access a = {.kind = ACCESS_READ, .buf = dst, .len = len};

	acc->faulted = false;
	if (!mr_translate(mr, iova, len, &a.addr))
		return -EFAULT;
	if (!len)
		return 0;
	if (!mr->demand)
		return access_pinned(mr, &a, acc);
	if (mr_hit(mr, a.addr, len, PT_READ)) {
		if (!mr_away(mr, a.addr, len, false) &&
		    !dom->os->copy(dom->os_arg, dst, (const void *)a.addr, len)) {
			mr_count_hit(mr);
			return 0;
		}
		mr_stale(mr, a.addr, len);
	}
	return mr_access(mr, &a, acc);
}

int odp_write(struct odp_mr *mr, uint64_t iova, const void *src, size_t len,
	      struct odp_access *acc)
{
	struct odp_domain *dom = mr->dom;
	struct access a = {.kind = ACCESS_WRITE, .buf = (void *)src, .len = len};

	acc->faulted = false;
	if (!mr->writable || !mr_translate(mr, iova, len, &a.addr))
		return -EFAULT;
	if (!len)
		return 0;
	if (!mr->demand)
		return access_pinned(mr, &a, acc);
	if (mr_hit(mr, a.addr, len, PT_READ | PT_WRITE)) {
		if (!mr_away(mr, a.addr, len, true) &&
		    !dom->os->copy(dom->os_arg, (void *)a.addr, src, len)) {
			mr_count_hit(mr);
			return 0;
		}
		mr_stale(mr, a.addr, len);
	}
	return mr_access(mr, &a, acc);
}

static int access64(struct odp_mr *mr, uint64_t iova, struct access *a,
		    struct odp_access *acc)
{
	acc->faulted = false;
	a->len = 8;
	if (iova % 8)
		return -EINVAL;
	if (!mr->writable || !mr_translate(mr, iova, 8, &a->addr))
		return -EFAULT;
	if (a->addr % 8)
		return -EINVAL;
	return mr->demand ? mr_access(mr, a, acc) : access_pinned(mr, a, acc);
}

int odp_cmp_swap(struct odp_mr *mr, uint64_t iova, uint64_t cmp, uint64_t swap,
		 uint64_t *orig, struct odp_access *acc)
{
	struct access a = {.kind = ACCESS_CMP_SWAP, .operand = {cmp, swap}, .orig = orig};

	return access64(mr, iova, &a, acc);
}

int odp_fetch_add(struct odp_mr *mr, uint64_t iova, uint64_t add, uint64_t *orig,
		  struct odp_access *acc)
{
	struct access a = {.kind = ACCESS_FETCH_ADD, .operand = {add}, .orig = orig};

	return access64(mr, iova, &a, acc);
}

int odp_store64(struct odp_mr *mr, uint64_t iova, uint64_t value, struct odp_access *acc)
{
	struct access a = {.kind = ACCESS_STORE64, .operand = {value}};

	return access64(mr, iova, &a, acc);
}

int odp_fault_in(struct odp_mr *mr, uint64_t iova, size_t len, bool write,
		 struct odp_access *acc)
{
	struct access a = {.kind = write ? ACCESS_TOUCH_WRITE : ACCESS_TOUCH_READ,
			   .len = len};

	acc->faulted = false;
	if ((write && !mr->writable) || !mr_translate(mr, iova, len, &a.addr))
		return -EFAULT;
	if (!len || !mr->demand ||
	    mr_hit(mr, a.addr, len, write ? PT_READ | PT_WRITE : PT_READ))
		return 0;
	return mr_access(mr, &a, acc);
}
