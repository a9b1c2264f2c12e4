/*
 * sim_os.h - an operating system made of arrays: pages that are mapped or not, that fail
 * on demand, and a hook that runs while pages are made present.
 */
#ifndef URXE_TESTS_ODP_SIM_OS_H
#define URXE_TESTS_ODP_SIM_OS_H

#include "tests/odp/util.h"

#define SIM_BASE  0x10000000ul
#define SIM_PAGES 4096u

/* What the program may do with a page; pages begin with all of it */
enum { SIM_NONE, SIM_RO, SIM_RW };

/*
 * struct sim_os
 * @prot:	SIM_, per page
 * @resident:	bit 0 present, bit 1 writable
 * @fail:	error of populate, 0 for none
 * @small:	backed by small pages (for page_size)
 * @slow:	per page: somebody must be waited for, until fetch
 * @away:	per page: a copy would wait, until fetch, or for ever if 2
 * @job, @jobs:	deferred and not yet run by sim_run_job()
 * @full:	defer refuses
 * @during:	runs inside populate and resident, before the answer
 * @populates, @watches: calls
 * @now:	advances by 1 with each call of the clock
 */
struct sim_os {
	uint8_t mem[SIM_PAGES * PAGE];
	uint8_t prot[SIM_PAGES], resident[SIM_PAGES];
	int fail;
	bool small;
	bool slow[SIM_PAGES];
	uint8_t away[SIM_PAGES];
	struct odp_job *job[64];
	_Atomic unsigned int jobs;
	bool full;
	void (*during)(void *arg);
	void *during_arg;
	unsigned int populates, watches, unwatches;
	uint64_t now;
};

static inline bool sim_in(uintptr_t addr)
{
	return addr >= SIM_BASE && addr < SIM_BASE + SIM_PAGES * PAGE;
}

static inline bool sim_allowed(struct sim_os *os, uintptr_t addr, size_t len, bool write)
{
	if (!sim_in(addr) || !sim_in(addr + len - 1))
		return false;
	for (size_t i = (addr - SIM_BASE) / PAGE; i <= (addr + len - 1 - SIM_BASE) / PAGE;
	     i++)
		if (os->prot[i] < (write ? SIM_RW : SIM_RO))
			return false;
	return true;
}

static inline int sim_populate(void *arg, uintptr_t addr, size_t len, bool write)
{
	struct sim_os *os = arg;
	int ret = os->fail;

	os->populates++;
	ck_assert_uint_eq(addr % PAGE, 0);
	ck_assert_uint_eq(len % PAGE, 0);
	if (!ret && !sim_allowed(os, addr, len, write))
		ret = -EFAULT;
	for (size_t i = 0; !ret && i < len / PAGE; i++)
		os->resident[(addr - SIM_BASE) / PAGE + i] |= write ? 3 : 1;
	if (os->during)
		os->during(os->during_arg);
	return ret;
}

static inline int sim_copy(void *arg, void *dst, const void *src, size_t len)
{
	struct sim_os *os = arg;

	if (sim_in((uintptr_t)dst)) {
		if (!sim_allowed(os, (uintptr_t)dst, len, true))
			return -EFAULT;
		dst = os->mem + ((uintptr_t)dst - SIM_BASE);
	}
	if (sim_in((uintptr_t)src)) {
		if (!sim_allowed(os, (uintptr_t)src, len, false))
			return -EFAULT;
		src = os->mem + ((uintptr_t)src - SIM_BASE);
	}
	memmove(dst, src, len);
	return 0;
}

static inline int sim_atomic(struct sim_os *os, uint64_t *p, uint64_t **real)
{
	if (!sim_allowed(os, (uintptr_t)p, 8, true))
		return -EFAULT;
	*real = (uint64_t *)(os->mem + ((uintptr_t)p - SIM_BASE));
	return 0;
}

static inline int sim_cmp_swap(void *arg, uint64_t *p, uint64_t cmp, uint64_t swap,
			       uint64_t *orig)
{
	uint64_t *real;
	int ret = sim_atomic(arg, p, &real);

	if (ret)
		return ret;
	*orig = *real;
	if (*real == cmp)
		*real = swap;
	return 0;
}

static inline int sim_fetch_add(void *arg, uint64_t *p, uint64_t add, uint64_t *orig)
{
	uint64_t *real;
	int ret = sim_atomic(arg, p, &real);

	if (ret)
		return ret;
	*orig = *real;
	*real += add;
	return 0;
}

static inline int sim_store64(void *arg, uint64_t *p, uint64_t v)
{
	uint64_t *real;
	int ret = sim_atomic(arg, p, &real);

	if (ret)
		return ret;
	*real = v;
	return 0;
}

static inline int sim_resident(void *arg, uintptr_t addr, size_t len, uint8_t *pages)
{
	struct sim_os *os = arg;

	if (os->fail)
		return os->fail;
	for (size_t i = 0; i < len / PAGE; i++)
		pages[i] = sim_in(addr + i * PAGE)
			       ? os->resident[(addr - SIM_BASE) / PAGE + i]
			       : 0;
	if (os->during)
		os->during(os->during_arg);
	return 0;
}

static inline bool sim_slow(void *arg, uintptr_t addr, size_t len, bool write, bool again)
{
	struct sim_os *os = arg;
	bool slow = false;

	for (size_t i = 0; i < len / PAGE; i++)
		slow |= sim_in(addr + i * PAGE) && os->slow[(addr - SIM_BASE) / PAGE + i];
	return slow;
}

static inline bool sim_away(void *arg, uintptr_t addr, size_t len, bool write,
			    bool fickle)
{
	struct sim_os *os = arg;
	bool away = false;

	for (size_t i = addr / PAGE; i <= (addr + len - 1) / PAGE; i++)
		away |= sim_in(i * PAGE) && os->away[i - SIM_BASE / PAGE];
	return away;
}

static inline int sim_defer(void *arg, struct odp_job *job)
{
	struct sim_os *os = arg;

	if (os->full || os->jobs == 64)
		return -EAGAIN;
	os->job[os->jobs] = job;
	os->jobs++;
	return 0;
}

/* Take the job of this number out, and run it */
static inline void sim_run_job(struct sim_os *os, unsigned int n)
{
	struct odp_job *job = os->job[n];

	memmove(&os->job[n], &os->job[n + 1], (--os->jobs - n) * sizeof(job));
	odp_job_run(job);
}

static inline bool sim_cancel(void *arg, struct odp_job *job)
{
	struct sim_os *os = arg;

	for (unsigned int i = 0; i < os->jobs; i++) {
		if (os->job[i] != job)
			continue;
		memmove(&os->job[i], &os->job[i + 1], (--os->jobs - i) * sizeof(job));
		return true;
	}
	return false;
}

static inline int sim_fetch(void *arg, uintptr_t addr, size_t len, bool write,
			    _Atomic bool *cancelled)
{
	struct sim_os *os = arg;

	for (size_t i = 0; i < len / PAGE; i++)
		if (sim_in(addr + i * PAGE)) {
			size_t page = (addr - SIM_BASE) / PAGE + i;

			os->slow[page] = false;
			if (os->away[page] == 1)
				os->away[page] = 0;
		}
	return sim_populate(arg, addr, len, write);
}

static inline int sim_watch(void *arg, uintptr_t addr, size_t len)
{
	((struct sim_os *)arg)->watches++;
	return 0;
}

static inline void sim_unwatch(void *arg, uintptr_t addr, size_t len)
{
	((struct sim_os *)arg)->unwatches++;
}

static inline size_t sim_page_size(void *arg, uintptr_t addr)
{
	return ((struct sim_os *)arg)->small ? PAGE : 2 << 20;
}

static inline uint64_t sim_now(void *arg)
{
	return ((struct sim_os *)arg)->now++;
}

static const struct odp_os sim_ops = {
    .populate = sim_populate,
    .copy = sim_copy,
    .cmp_swap = sim_cmp_swap,
    .fetch_add = sim_fetch_add,
    .store64 = sim_store64,
    .resident = sim_resident,
    .slow = sim_slow,
    .defer = sim_defer,
    .cancel = sim_cancel,
    .fetch = sim_fetch,
    .away = sim_away,
    .watch = sim_watch,
    .unwatch = sim_unwatch,
    .page_size = sim_page_size,
    .now = sim_now,
};

static inline struct sim_os *sim_new(void)
{
	struct sim_os *os = calloc(1, sizeof(*os));

	ck_assert_ptr_nonnull(os);
	memset(os->prot, SIM_RW, sizeof(os->prot));
	return os;
}

static inline void *sim_page(unsigned int n)
{
	return (void *)(SIM_BASE + n * PAGE);
}

#endif
