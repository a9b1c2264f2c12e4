/*
 * sim_mem.c - the application memory of a simulated host and the operating system under
 * it.
 *
 * Theory of operation: each host has a pinned and an on-demand arena, at addresses that
 * do not change from run to run. Beside the bytes there is a shadow, which the model
 * brings to what the bytes must become; at the end both must be equal everywhere, so
 * every stray write is found.
 *
 * The on-demand arena keeps for each page whether it was populated since it was last
 * invalidated. A copy that touches a page without that is a use of a stale translation,
 * the failure that a page-table cache exists to prevent. Pages are invalidated by
 * program, inside populate (the race that mmu_interval_read_retry() detects), inside a
 * copy, and silently (as mprotect(2) and swap-out do: no event, only a fault of the
 * guarded copy). Some faults are not resolved on the spot: somebody must be waited for, a
 * while or for ever, and they end in any order.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sim.h"

/* Far from what libc, ASan and the kernel choose */
#define SIM_BASE 0x200000000000ull

/* The memory of a process that runs many worlds one after the other */
static struct {
	uint8_t *base, *shadow, *pattern;
	uint32_t dirty;		 /* up to where all is to be made anew */
	uint8_t page[SIM_PAGES]; /* those behind that were written to */
} pool[SIM_HOSTS][SIM_ARENAS];

static uint8_t *map_at(uint64_t addr, size_t len)
{
	void *p = mmap((void *)(uintptr_t)addr, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static int pool_get(uint32_t host, uint32_t a)
{
	uint64_t addr = SIM_BASE + ((uint64_t)host << 36) + ((uint64_t)a << 32);
	struct sim_rng rng;

	if (pool[host][a].base)
		return 0;
	pool[host][a].base = map_at(addr, SIM_ARENA_LEN);
	pool[host][a].shadow = malloc(SIM_ARENA_LEN);
	pool[host][a].pattern = malloc(SIM_ARENA_LEN);
	if (!pool[host][a].base || !pool[host][a].shadow || !pool[host][a].pattern)
		return -ENOMEM;
	sim_rng_seed(&rng, 1 + host * SIM_ARENAS + a);
	for (uint32_t i = 0; i < SIM_ARENA_LEN; i += 8) {
		uint64_t v = sim_rand(&rng);

		memcpy(pool[host][a].pattern + i, &v, 8);
	}
	pool[host][a].dirty = SIM_ARENA_LEN;
	return 0;
}

int sim_mem_init(struct sim_host *h)
{
	for (uint32_t a = 0; a < SIM_ARENAS; a++) {
		struct sim_arena *ar = &h->arena[a];
		uint32_t dirty;

		if (pool_get(h->id, a))
			return -ENOMEM;
		dirty = pool[h->id][a].dirty;
		ar->base = pool[h->id][a].base;
		ar->shadow = pool[h->id][a].shadow;
		ar->used = SIM_SRC_LEN;
		memcpy(ar->base, pool[h->id][a].pattern, dirty);
		memcpy(ar->shadow, pool[h->id][a].pattern, dirty);
		for (uint32_t i = dirty / SIM_PAGE; i < SIM_PAGES; i++) {
			if (pool[h->id][a].page[i])
				memcpy(ar->base + i * SIM_PAGE,
				       pool[h->id][a].pattern + i * SIM_PAGE, SIM_PAGE);
		}
		memset(pool[h->id][a].page, 0, SIM_PAGES);
		memset(ar->page, SIM_PG_MAPPED | SIM_PG_WRITABLE, sizeof(ar->page));
	}
	return 0;
}

/* Say how much of the pool has to be made anew */
void sim_mem_reset(struct sim_host *h)
{
	for (uint32_t a = 0; a < SIM_ARENAS; a++) {
		pool[h->id][a].dirty = h->w->failed ? SIM_ARENA_LEN : h->arena[a].used;
	}
}

uint32_t sim_mem_room(const struct sim_host *h, enum sim_arena_kind a)
{
	return SIM_ARENA_LEN - h->arena[a].used;
}

uint32_t sim_mem_alloc(struct sim_host *h, enum sim_arena_kind a, uint32_t len,
		       uint32_t align)
{
	struct sim_arena *ar = &h->arena[a];
	/* a gap, so that writes before and behind a region show */
	uint32_t gap = 1 + sim_below(&h->w->rng, 24);
	uint32_t off = (ar->used + gap + align - 1) & ~(align - 1);

	if (off + len + 32 > SIM_ARENA_LEN)
		return SIM_ARENA_LEN;
	ar->used = off + len + 8;
	return off;
}

/* Which arena has [@p, @p+@len)? NULL: none */
static struct sim_arena *find_arena(struct sim_host *h, uintptr_t p, size_t len,
				    uint32_t *off)
{
	for (uint32_t a = 0; a < SIM_ARENAS; a++) {
		uintptr_t base = (uintptr_t)h->arena[a].base;

		if (p < base || p >= base + SIM_ARENA_LEN)
			continue;
		if (len > base + SIM_ARENA_LEN - p)
			return NULL;
		*off = (uint32_t)(p - base);
		return &h->arena[a];
	}
	return NULL;
}

static bool in_arena(struct sim_host *h, uintptr_t p)
{
	uint32_t off;

	return find_arena(h, p, 0, &off) != NULL;
}

static void drop(struct sim_host *h, struct sim_arena *ar, uint32_t page, uint32_t n)
{
	for (uint32_t i = page; i < page + n; i++)
		ar->page[i] &=
		    ~(SIM_PG_READ_OK | SIM_PG_WRITE_OK | SIM_PG_SILENT | SIM_PG_LAX);
	odp_invalidate(h->dom, (uintptr_t)ar->base + page * SIM_PAGE,
		       (size_t)n * SIM_PAGE, TRACE_INVAL_CALL);
}

void sim_mem_move(struct sim_host *h, uint32_t off, uint32_t len)
{
	uint32_t first = off / SIM_PAGE, last = (off + (len ? len - 1 : 0)) / SIM_PAGE;

	if (last >= SIM_PAGES)
		last = SIM_PAGES - 1;
	if (sim_tracing(h->w))
		sim_trace(h->w, "h%u pages %u..%u move", h->id, first, last);
	drop(h, &h->arena[SIM_ONDEMAND], first, last - first + 1);
}

void sim_mem_unmap(struct sim_host *h, enum sim_arena_kind a, uint32_t off, uint32_t len)
{
	struct sim_arena *ar = &h->arena[a];
	uint32_t first = off / SIM_PAGE, last = (off + (len ? len - 1 : 0)) / SIM_PAGE;

	if (sim_tracing(h->w))
		sim_trace(h->w, "h%u pages %u..%u are unmapped", h->id, first, last);
	for (uint32_t i = first; i <= last; i++)
		ar->page[i] &= SIM_PG_WATCHED;
	drop(h, ar, first, last - first + 1);
}

void sim_mem_protect(struct sim_host *h, enum sim_arena_kind a, uint32_t off,
		     uint32_t len)
{
	struct sim_arena *ar = &h->arena[a];
	uint32_t first = off / SIM_PAGE, last = (off + (len ? len - 1 : 0)) / SIM_PAGE;

	if (sim_tracing(h->w))
		sim_trace(h->w, "h%u pages %u..%u are made read-only", h->id, first,
			  last);
	for (uint32_t i = first; i <= last; i++)
		ar->page[i] &= ~SIM_PG_WRITABLE;
}

/* --- struct odp_os ---------------------------------------------------------------- */

static int os_populate(void *arg, uintptr_t addr, size_t len, bool write)
{
	struct sim_host *h = arg;
	struct sim_world *w = h->w;
	uint32_t off, first, n;
	struct sim_arena *ar = find_arena(h, addr, len, &off);

	if (!ar || !len)
		return ar ? 0 : -EFAULT;
	first = off / SIM_PAGE;
	n = (off + (uint32_t)len - 1) / SIM_PAGE - first + 1;
	w->faults_seen++;
	for (uint32_t i = first; i < first + n; i++) {
		if (!(ar->page[i] & SIM_PG_MAPPED) ||
		    (write && !(ar->page[i] & SIM_PG_WRITABLE)))
			return -EFAULT;
		ar->page[i] |= SIM_PG_READ_OK | (write ? SIM_PG_WRITE_OK : 0);
		ar->page[i] &= ~SIM_PG_SILENT;
	}
	/*
	 * the race: gone again before the caller can publish. Not for ever: it gives up
	 */
	if (ar == &h->arena[SIM_ONDEMAND] && h->races < 3 &&
	    sim_chance(&w->rng, w->mem.race)) {
		h->races++;
		drop(h, ar, first + sim_below(&w->rng, n), 1);
	} else {
		h->races = 0;
	}
	return 0;
}

/*
 * may_touch - is the access legal now? 0; -EFAULT: no, by a guarded fault. A use of a
 * page that was not populated since its last invalidation fails the scenario.
 */
static int may_touch(struct sim_host *h, struct sim_arena *ar, uint32_t off, size_t len,
		     bool write)
{
	struct sim_world *w = h->w;
	uint32_t need = SIM_PG_READ_OK | (write ? SIM_PG_WRITE_OK : 0);

	for (uint32_t i = off / SIM_PAGE; i <= (off + len - 1) / SIM_PAGE; i++) {
		uint8_t *pg = &ar->page[i];

		if (!(*pg & SIM_PG_MAPPED) || (write && !(*pg & SIM_PG_WRITABLE)))
			return -EFAULT;
		if (ar != &h->arena[SIM_ONDEMAND])
			continue;
		if (sim_chance(&w->rng, w->mem.silent)) {
			*pg &= ~(SIM_PG_READ_OK | SIM_PG_WRITE_OK);
			*pg |= SIM_PG_SILENT | SIM_PG_LAX;
		}
		if (*pg & SIM_PG_SILENT)
			return -EFAULT;
		if ((*pg & need) != need && !(*pg & SIM_PG_LAX)) {
			sim_fail(w,
				 "h%u: the HCA %s page %u, which it has no valid "
				 "translation for",
				 h->id, write ? "wrote" : "read", i);
			return -EFAULT;
		}
	}
	return 0;
}

static void mark_dirty(struct sim_host *h, struct sim_arena *ar, uint32_t off, size_t len)
{
	uint8_t *page = pool[h->id][ar - h->arena].page;

	for (uint32_t i = off / SIM_PAGE; i <= (off + len - 1) / SIM_PAGE; i++)
		page[i] = 1;
}

static void invalidate_meanwhile(struct sim_host *h, struct sim_arena *ar, uint32_t off)
{
	struct sim_world *w = h->w;

	if (ar == &h->arena[SIM_ONDEMAND] && sim_chance(&w->rng, w->mem.mid_copy))
		drop(h, ar, off / SIM_PAGE, 1);
}

static int os_copy(void *arg, void *dst, const void *src, size_t len)
{
	struct sim_host *h = arg;
	uint32_t doff = 0, soff = 0;
	struct sim_arena *d, *s;
	int err = 0;

	if (!len)
		return 0;
	d = find_arena(h, (uintptr_t)dst, len, &doff);
	s = find_arena(h, (uintptr_t)src, len, &soff);
	if ((!d && in_arena(h, (uintptr_t)dst)) || (!s && in_arena(h, (uintptr_t)src)))
		return -EFAULT;
	if (!d && !s) {
		sim_fail(h->w, "h%u: a guarded copy that touches no application memory",
			 h->id);
		return -EFAULT;
	}
	if (d) {
		mark_dirty(h, d, doff, len);
		err = may_touch(h, d, doff, len, true);
	}
	if (!err && s)
		err = may_touch(h, s, soff, len, false);
	if (err) {
		/* a part may have been copied; up to the page that is missing */
		size_t part = SIM_PAGE - (d ? doff : soff) % SIM_PAGE;
		struct sim_arena *ar = d ? d : s;
		uint8_t pg = ar->page[(d ? doff : soff) / SIM_PAGE];

		if (part < len && (pg & SIM_PG_MAPPED) &&
		    (!d || (pg & SIM_PG_WRITABLE)) && sim_chance(&h->w->rng, 500))
			memmove(dst, src, part);
		return err;
	}
	memmove(dst, src, len);
	invalidate_meanwhile(h, d ? d : s, d ? doff : soff);
	return 0;
}

/* The page under an aligned 8-byte atomic */
static int touch64(struct sim_host *h, uint64_t *p)
{
	uint32_t off;
	struct sim_arena *ar = find_arena(h, (uintptr_t)p, 8, &off);
	int err;

	if (!ar)
		return -EFAULT;
	if ((uintptr_t)p % 8) {
		sim_fail(h->w, "h%u: a misaligned atomic reached the memory", h->id);
		return -EFAULT;
	}
	mark_dirty(h, ar, off, 8);
	err = may_touch(h, ar, off, 8, true);
	if (!err)
		invalidate_meanwhile(h, ar, off);
	return err;
}

static int os_cmp_swap(void *arg, uint64_t *p, uint64_t cmp, uint64_t swap,
		       uint64_t *orig)
{
	int err = touch64(arg, p);

	if (err)
		return err;
	*orig = *p;
	if (*p == cmp)
		*p = swap;
	return 0;
}

static int os_fetch_add(void *arg, uint64_t *p, uint64_t add, uint64_t *orig)
{
	int err = touch64(arg, p);

	if (err)
		return err;
	*orig = *p;
	*p += add;
	return 0;
}

static int os_store64(void *arg, uint64_t *p, uint64_t v)
{
	int err = touch64(arg, p);

	if (!err)
		*p = v;
	return err;
}

static int os_resident(void *arg, uintptr_t addr, size_t len, uint8_t *pages)
{
	struct sim_host *h = arg;
	uint32_t off, first, n;
	struct sim_arena *ar = find_arena(h, addr, len, &off);

	if (!ar || !len)
		return ar ? 0 : -ENOMEM;
	first = off / SIM_PAGE;
	n = (off + (uint32_t)len - 1) / SIM_PAGE - first + 1;
	for (uint32_t i = 0; i < n; i++) {
		uint8_t *pg = &ar->page[first + i];

		pages[i] = 0;
		if (!(*pg & SIM_PG_MAPPED) || !sim_chance(&h->w->rng, 500))
			continue;
		pages[i] = 1;
		*pg |= SIM_PG_READ_OK;
		if ((*pg & SIM_PG_WRITABLE) && sim_chance(&h->w->rng, 500)) {
			pages[i] |= 2;
			*pg |= SIM_PG_WRITE_OK;
		}
	}
	return 0;
}

/* Pages from never_from on are not to be had until sim_jobs_finish(). */
static bool never(const struct sim_host *h, const struct sim_arena *ar, uint32_t page,
		  bool write)
{
	uint8_t need = SIM_PG_READ_OK | (write ? SIM_PG_WRITE_OK : 0);

	return h->never_from && page >= h->never_from && (ar->page[page] & need) != need;
}

static bool os_slow(void *arg, uintptr_t addr, size_t len, bool write, bool again)
{
	struct sim_host *h = arg;
	uint32_t off;
	struct sim_arena *ar = find_arena(h, addr, len, &off);

	h->stuck = false;
	if (ar != &h->arena[SIM_ONDEMAND] || !len)
		return false;
	for (uint32_t i = off / SIM_PAGE; i <= (off + len - 1) / SIM_PAGE; i++)
		h->stuck |= never(h, ar, i, write);
	return h->stuck || sim_chance(&h->w->rng, h->w->mem.slow / (again ? 4 : 1));
}

/* Pages that were there, pinned ones too, are on a disk now and then. */
static bool os_away(void *arg, uintptr_t addr, size_t len, bool write, bool fickle)
{
	struct sim_host *h = arg;
	uint32_t off;

	if (!find_arena(h, addr, len, &off))
		return false;
	h->stuck = false;
	return sim_chance(&h->w->rng, h->w->mem.slow / 8);
}

static bool take_job(struct sim_host *h, const struct odp_job *job)
{
	for (uint32_t i = 0; i < h->jobs; i++) {
		if (h->job[i] != job)
			continue;
		h->job[i] = h->job[--h->jobs];
		return true;
	}
	return false;
}

static void run_job(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_host *h = arg;
	struct odp_job *job = (struct odp_job *)(uintptr_t)val;

	if (!h->hca || !take_job(h, job))
		return;
	if (sim_tracing(w))
		sim_trace(w, "h%u a page fault is over", h->id);
	odp_job_run(job);
	sim_host_work(h);
}

static int os_defer(void *arg, struct odp_job *job)
{
	struct sim_host *h = arg;
	struct sim_world *w = h->w;

	if (h->jobs == SIM_JOBS)
		return -EAGAIN;
	h->job[h->jobs++] = job;
	if (!h->stuck)
		sim_at(w, w->now + 1 + sim_below(&w->rng, (uint32_t)w->mem.fetch + 1),
		       run_job, h, (uintptr_t)job);
	return 0;
}

static bool os_cancel(void *arg, struct odp_job *job)
{
	return take_job(arg, job);
}

static int os_fetch(void *arg, uintptr_t addr, size_t len, bool write,
		    _Atomic bool *cancelled)
{
	return *cancelled ? -ECANCELED : os_populate(arg, addr, len, write);
}

void sim_jobs_finish(struct sim_host *h)
{
	h->never_from = 0;
	while (h->jobs) {
		struct odp_job *job = h->job[sim_below(&h->w->rng, h->jobs)];

		take_job(h, job);
		odp_job_run(job);
	}
}

/* Watching is idempotent; @on: begin or end it for a range of pages */
static void watch_pages(struct sim_host *h, uintptr_t addr, size_t len, bool on)
{
	for (uint32_t a = 0; a < SIM_ARENAS; a++) {
		struct sim_arena *ar = &h->arena[a];

		for (uint32_t i = 0; i < SIM_PAGES; i++) {
			uintptr_t p = (uintptr_t)ar->base + i * SIM_PAGE;

			if (p + SIM_PAGE <= addr || p - addr >= len ||
			    on == !!(ar->page[i] & SIM_PG_WATCHED))
				continue;
			ar->page[i] ^= SIM_PG_WATCHED;
			h->watches += on ? 1 : -1;
		}
	}
}

static int os_watch(void *arg, uintptr_t addr, size_t len)
{
	struct sim_host *h = arg;

	if (h->no_watch)
		return -EPERM; /* no userfaultfd here: interposition has to do */
	watch_pages(h, addr, len, true);
	return 0;
}

static void os_unwatch(void *arg, uintptr_t addr, size_t len)
{
	watch_pages(arg, addr, len, false);
}

const struct odp_os sim_os = {
    .populate = os_populate,
    .copy = os_copy,
    .cmp_swap = os_cmp_swap,
    .fetch_add = os_fetch_add,
    .store64 = os_store64,
    .resident = os_resident,
    .slow = os_slow,
    .defer = os_defer,
    .cancel = os_cancel,
    .fetch = os_fetch,
    .away = os_away,
    .watch = os_watch,
    .unwatch = os_unwatch,
};

/* --- what must be ----------------------------------------------------------------- */

void sim_mem_forgive(struct sim_host *h, enum sim_arena_kind a, uint32_t off,
		     uint32_t len)
{
	struct sim_arena *ar = &h->arena[a];

	memcpy(ar->shadow + off, ar->base + off, len);
}

void sim_mem_check(struct sim_host *h)
{
	for (uint32_t a = 0; a < SIM_ARENAS; a++) {
		struct sim_arena *ar = &h->arena[a];
		uint32_t len = ar->used + 2 * SIM_PAGE;

		/* all of it now and then: most scenarios use little */
		if (len > SIM_ARENA_LEN || h->w->seed % 16 == 0)
			len = SIM_ARENA_LEN;
		if (!memcmp(ar->base, ar->shadow, len))
			continue;
		for (uint32_t i = 0; i < len; i++) {
			if (ar->base[i] == ar->shadow[i])
				continue;
			sim_fail(h->w, "h%u: %s memory at +%#x is %02x and must be %02x",
				 h->id, a == SIM_PINNED ? "pinned" : "on-demand", i,
				 ar->base[i], ar->shadow[i]);
			return;
		}
	}
}
