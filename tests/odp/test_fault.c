/*
 * Description: faults over a simulated operating system: what is counted, what races,
 * what fails, how the models defer, what scripts do.
 */
#include "odp/internal.h" /* first: its parameters have the names of what is below */
#include "tests/odp/one_mr.h"

/* --- counting --------------------------------------------------------------------- */

START_TEST(cold_then_warm)
{
	struct odp_access acc;
	struct odp_counters c;

	begin((struct odp_config){0}, 8, true);
	ck_assert_int_eq(read_at(1, PAGE, 0, &acc), 0);
	ck_assert(acc.faulted);
	ck_assert_int_eq(read_at(1, PAGE, 0, &acc), 0);
	ck_assert(!acc.faulted);
	ck_assert_int_eq(write_at(1, 10, 0, &acc), 0);
	ck_assert(acc.faulted);
	acc.remote = false;
	ck_assert_int_eq(odp_write(mr, (uintptr_t)sim_page(2) - 1, "xy", 2, &acc), 0);
	ck_assert(acc.faulted);
	ck_assert_int_eq(write_at(1, 2 * PAGE, 0, &acc), 0);
	ck_assert(!acc.faulted);
	c = util_counters(mr);
	ck_assert_uint_eq(c.read_faults, 1);
	ck_assert_uint_eq(c.write_faults, 2);
	ck_assert_uint_eq(c.local_faults, 1);
	ck_assert_uint_eq(c.remote_faults, 2);
	ck_assert_uint_eq(c.pages_faulted, 3);
	ck_assert_uint_eq(c.cache_hits, 2);
	ck_assert_uint_eq(c.fault_ns, 3); /* the clock's one each */
	ck_assert_uint_eq(state_of(0), 0);
	ck_assert_uint_eq(state_of(1), 3);
	ck_assert_uint_eq(state_of(2), 3);
	end();
}
END_TEST

START_TEST(an_access_stays_within_its_region)
{
	struct odp_mr_attr a = {.addr = SIM_BASE + 100,
				.length = 1000,
				.iova = 0x7000,
				.writable = true,
				.on_demand = true};
	struct odp_access acc = {0};
	struct odp_mr *m;
	uint64_t v;
	uint8_t b[8];

	begin((struct odp_config){0}, 1, false);
	ck_assert_int_eq(odp_mr_create(dom, &a, &m), 0);
	ck_assert_int_eq(odp_read(m, 0x7000, b, 8, &acc), 0);
	ck_assert_int_eq(odp_read(m, 0x7000 + 992, b, 8, &acc), 0);
	ck_assert_int_eq(odp_read(m, 0x7000 + 993, b, 8, &acc), -EFAULT);
	ck_assert_int_eq(odp_read(m, 0x7000 - 1, b, 1, &acc), -EFAULT);
	ck_assert_int_eq(odp_read(m, 0x7000 + 1000, b, 0, &acc), 0);
	ck_assert_int_eq(odp_read(m, 0x7000 + 1001, b, 0, &acc), -EFAULT);
	ck_assert_int_eq(odp_read(m, UINT64_MAX, b, 8, &acc), -EFAULT);
	ck_assert_int_eq(odp_write(m, 0x7000, b, SIZE_MAX, &acc), -EFAULT);
	ck_assert_int_eq(odp_fetch_add(m, 0x7001, 1, &v, &acc), -EINVAL);
	/* aligned in memory, not for the HCA */
	ck_assert_int_eq(odp_fetch_add(m, 0x7004, 1, &v, &acc), -EINVAL);
	/* aligned for the HCA, not in memory: 100 + 4 */
	ck_assert_int_eq(odp_fetch_add(m, 0x7008, 1, &v, &acc), -EINVAL);
	ck_assert_int_eq(odp_fault_in(m, 0x7000, 1001, false, &acc), -EFAULT);
	/* not writable: refused without a fault */
	ck_assert_int_eq(write_at(0, 1, 0, &acc), -EFAULT);
	ck_assert_int_eq(odp_store64(mr, SIM_BASE, 1, &acc), -EFAULT);
	ck_assert_int_eq(odp_fault_in(mr, SIM_BASE, 1, true, &acc), -EFAULT);
	ck_assert_uint_eq(util_faults(mr), 0);
	odp_mr_put(m);
	end();
}
END_TEST

START_TEST(attributes_of_a_region_are_checked)
{
	static const struct {
		struct odp_mr_attr attr;
		int ret;
	} t[] = {
	    {{.addr = SIM_BASE, .length = 0, .on_demand = true}, -EINVAL},
	    {{.addr = UINTPTR_MAX - 10, .length = 12, .on_demand = true}, -EFAULT},
	    {{.addr = UINTPTR_MAX - 10, .length = 12}, -EFAULT},
	    {{.addr = 0x5000, .length = 12}, -EFAULT},
	    {{.addr = SIM_BASE, .length = 12}, 0},
	    {{.addr = 0x5000, .length = 12, .on_demand = true}, 0},
	    {{.length = SIZE_MAX, .implicit = true}, -EINVAL},
	    {{.length = SIZE_MAX, .implicit = true, .on_demand = true}, 0},
	    {{.length = SIZE_MAX, .iova = 1, .implicit = true, .on_demand = true},
	     -EINVAL},
	    {{.addr = 1, .length = SIZE_MAX, .implicit = true, .on_demand = true},
	     -EINVAL},
	    {{.length = 5, .implicit = true, .on_demand = true}, -EINVAL},
	    {{.length = SIZE_MAX, .implicit = true, .on_demand = true, .hugetlb = true},
	     -EINVAL},
	    {{.addr = 0x1000, .length = 1ull << 40, .on_demand = true}, 0},
	};
	struct odp_mr *m;

	begin((struct odp_config){0}, 1, false);
	for (unsigned int i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		int ret = odp_mr_create(dom, &t[i].attr, &m);

		ck_assert_msg(ret == t[i].ret, "%u: %d", i, ret);
		if (!ret)
			odp_mr_put(m);
	}
	/* pinned: readable is enough for one that only reads */
	os->prot[3] = SIM_RO;
	ck_assert_int_eq(
	    odp_mr_create(
		dom, &(struct odp_mr_attr){.addr = SIM_BASE + 3 * PAGE, .length = 1}, &m),
	    0);
	odp_mr_put(m);
	ck_assert_int_eq(odp_mr_create(dom,
				       &(struct odp_mr_attr){.addr = SIM_BASE + 3 * PAGE,
							     .length = 1,
							     .writable = true},
				       &m),
			 -EFAULT);
	end();
}
END_TEST

START_TEST(atomics_fault_writable)
{
	struct odp_access acc = {0};
	uint64_t orig = 1;

	begin((struct odp_config){0}, 2, true);
	ck_assert_int_eq(odp_fetch_add(mr, SIM_BASE + 8, 5, &orig, &acc), 0);
	ck_assert(acc.faulted);
	ck_assert_uint_eq(orig, 0);
	ck_assert_int_eq(odp_cmp_swap(mr, SIM_BASE + 8, 5, 9, &orig, &acc), 0);
	ck_assert(!acc.faulted);
	ck_assert_uint_eq(orig, 5);
	ck_assert_int_eq(odp_store64(mr, SIM_BASE + PAGE, 77, &acc), 0);
	ck_assert(acc.faulted);
	ck_assert_uint_eq(util_counters(mr).write_faults, 2);
	ck_assert_uint_eq(state_of(0), 3);
	ck_assert_uint_eq(*(uint64_t *)os->mem + 1, 1);
	ck_assert_uint_eq(((uint64_t *)os->mem)[1], 9);
	end();
}
END_TEST

START_TEST(failures_are_counted_and_told)
{
	struct odp_access acc;
	struct odp_counters c;

	begin((struct odp_config){0}, 8, true);
	os->prot[2] = SIM_NONE;
	os->prot[3] = SIM_RO;
	ck_assert_int_eq(read_at(2, 1, 0, &acc), -EFAULT);
	ck_assert_int_eq(read_at(1, 2 * PAGE, 0, &acc), -EFAULT);
	ck_assert_int_eq(read_at(3, 1, 0, &acc), 0);
	ck_assert_int_eq(write_at(3, 1, 0, &acc), -EFAULT);
	os->fail = -EHWPOISON;
	ck_assert_int_eq(read_at(5, 1, 0, &acc), -EFAULT);
	os->fail = -ENOMEM;
	ck_assert_int_eq(read_at(5, 1, 0, &acc), -EFAULT);
	os->fail = 0;
	ck_assert_int_eq(read_at(5, 1, 0, &acc), 0);
	c = util_counters(mr);
	ck_assert_uint_eq(c.failed_faults, 5);
	ck_assert_uint_eq(c.read_faults + c.write_faults, 7);
	ck_assert_uint_eq(c.pages_faulted, 2);
	/* a failure leaves nothing behind */
	ck_assert_uint_eq(state_of(1), 0);
	ck_assert_uint_eq(state_of(2), 0);
	ck_assert_uint_eq(state_of(3), 1);
	end();
}
END_TEST

START_TEST(fault_in_is_no_access)
{
	struct odp_access acc = {.remote = true};

	begin((struct odp_config){0}, 16, true);
	ck_assert_int_eq(odp_fault_in(mr, SIM_BASE, 10 * PAGE, true, &acc), 0);
	ck_assert(!acc.faulted);
	ck_assert_int_eq(odp_fault_in(mr, SIM_BASE, 10 * PAGE, false, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 10);
	ck_assert_uint_eq(util_counters(mr).cache_hits, 0);
	ck_assert_uint_eq(util_faults(mr), 0);
	end();
}
END_TEST

/* --- invalidation ----------------------------------------------------------------- */

START_TEST(invalidate_counts_events_and_pages)
{
	struct odp_access acc = {0};
	struct odp_counters c;

	begin((struct odp_config){0}, 16, true);
	ck_assert_int_eq(odp_fault_in(mr, SIM_BASE, 10 * PAGE, true, &acc), 0);
	odp_invalidate(dom, SIM_BASE + 20 * PAGE, PAGE, TRACE_INVAL_CALL);
	odp_invalidate(dom, SIM_BASE - 1, 1, TRACE_INVAL_CALL);
	odp_invalidate(dom, SIM_BASE, 0, TRACE_INVAL_CALL);
	ck_assert_uint_eq(util_counters(mr).invalidations, 0);
	odp_invalidate(dom, SIM_BASE + 2 * PAGE - 1, 2, TRACE_INVAL_CALL);
	odp_invalidate(dom, SIM_BASE + 2 * PAGE - 1, 2, TRACE_INVAL_CALL);
	odp_invalidate(dom, SIM_BASE + 9 * PAGE, SIZE_MAX, TRACE_INVAL_CALL);
	c = util_counters(mr);
	ck_assert_uint_eq(c.invalidations, 2);
	ck_assert_uint_eq(c.pages_invalidated, 3);
	ck_assert_uint_eq(state_of(1), 0);
	ck_assert_uint_eq(state_of(2), 0);
	ck_assert_uint_eq(state_of(3), 3);
	ck_assert_uint_eq(state_of(9), 0);
	ck_assert_int_eq(read_at(1, 1, 0, &acc), 0);
	ck_assert(acc.faulted);
	end();
}
END_TEST

/* struct race - invalidations during populate */
struct race {
	uintptr_t addr;
	unsigned int times;
};

static void race_run(void *arg)
{
	struct race *r = arg;

	if (!r->times)
		return;
	r->times--;
	odp_invalidate(dom, r->addr, 1, TRACE_INVAL_CALL);
}

START_TEST(race_repeats_the_fault)
{
	struct race r = {.addr = SIM_BASE + PAGE, .times = 3};
	struct odp_access acc;

	begin((struct odp_config){0}, 4, true);
	os->during = race_run;
	os->during_arg = &r;
	ck_assert_int_eq(read_at(0, 2 * PAGE, 0, &acc), 0);
	ck_assert_uint_eq(os->populates, 4);
	ck_assert_uint_eq(util_counters(mr).retries, 3);
	ck_assert_uint_eq(util_faults(mr), 1);
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 2);
	ck_assert_uint_eq(util_counters(mr).invalidations, 0);
	/* another page of the MR is no race */
	r.times = 1;
	r.addr = SIM_BASE;
	ck_assert_int_eq(read_at(2, PAGE, 0, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).retries, 3);
	end();
}
END_TEST

static void forbid_page(void *arg)
{
	os->prot[*(unsigned int *)arg] = SIM_NONE;
}

/* It is there, and gone before it is used: tried again, in vain, which is the same fault */
START_TEST(a_page_that_goes_before_its_use_is_counted_once)
{
	unsigned int page = 1;
	struct odp_access acc;

	begin((struct odp_config){0}, 4, true);
	os->during = forbid_page;
	os->during_arg = &page;
	ck_assert_int_eq(read_at(1, PAGE, 0, &acc), -EFAULT);
	ck_assert_uint_eq(os->populates, 2);
	ck_assert_uint_eq(util_faults(mr), 1);
	ck_assert_uint_eq(util_counters(mr).remote_faults, 1);
	ck_assert_uint_eq(util_counters(mr).failed_faults, 1);
	end();
}
END_TEST

/* Who has the lock could not apply it yet: the next access does */
START_TEST(an_invalidation_that_was_not_applied_is_believed)
{
	struct odp_access acc;

	begin((struct odp_config){0}, 4, true);
	ck_assert_int_eq(write_at(0, PAGE, 0, &acc), 0);
	dom_lock(dom);
	odp_invalidate(dom, SIM_BASE, PAGE, TRACE_INVAL_CALL);
	dom_unlock(dom);
	ck_assert_int_eq(_i ? write_at(0, PAGE, 0, &acc) : read_at(0, PAGE, 0, &acc), 0);
	ck_assert(acc.faulted);
	ck_assert_uint_eq(util_counters(mr).invalidations, 1);
	end();
}
END_TEST

START_TEST(race_without_end_fails)
{
	struct race r = {.addr = SIM_BASE, .times = UINT32_MAX};
	struct odp_access acc;

	begin((struct odp_config){0}, 4, true);
	os->during = race_run;
	os->during_arg = &r;
	ck_assert_int_eq(read_at(0, PAGE, 0, &acc), -EFAULT);
	ck_assert_int_eq(odp_prefetch(mr, SIM_BASE, PAGE, ODP_PREFETCH), -EAGAIN);
	ck_assert_int_eq(odp_prefetch(mr, SIM_BASE, PAGE, ODP_PREFETCH_NO_FAULT),
			 -EAGAIN);
	ck_assert_uint_eq(state_of(0), 0);
	end();
}
END_TEST

static void unmap_then_map(void *arg)
{
	unsigned int *turn = arg;

	os->prot[0] = (*turn)++ % 2 ? SIM_RW : SIM_NONE;
	odp_invalidate(dom, SIM_BASE, PAGE, TRACE_INVAL_CALL);
	if (*turn == 2)
		os->during = NULL;
}

/* Unmapped while it was made present, and mapped anew: the access goes on. */
START_TEST(race_with_a_new_mapping)
{
	struct odp_access acc;
	unsigned int turn = 0;

	begin((struct odp_config){0}, 4, true);
	os->during = unmap_then_map;
	os->during_arg = &turn;
	ck_assert_int_eq(write_at(0, PAGE, 0, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).retries, 2);
	ck_assert_uint_eq(util_counters(mr).failed_faults, 0);
	end();
}
END_TEST

/* A page was lost without an event: the guard finds out. */
START_TEST(stale_entry_is_an_invalidation)
{
	struct odp_access acc;
	struct odp_counters c;

	/* by the fast path, and by the slow one */
	begin((struct odp_config){.max_pages = _i ? 100 : 0}, 4, true);
	ck_assert_int_eq(write_at(0, PAGE, 0, &acc), 0);
	os->prot[0] = SIM_RO;
	ck_assert_int_eq(read_at(0, PAGE, 0, &acc), 0);
	ck_assert(!acc.faulted);
	ck_assert_int_eq(write_at(0, PAGE, 0, &acc), -EFAULT);
	ck_assert(acc.faulted);
	c = util_counters(mr);
	ck_assert_uint_eq(c.invalidations, 1);
	ck_assert_uint_eq(c.pages_invalidated, 1);
	ck_assert_uint_eq(c.failed_faults, 1);
	os->prot[0] = SIM_RW;
	ck_assert_int_eq(write_at(0, PAGE, 0, &acc), 0);
	ck_assert(acc.faulted);
	end();
}
END_TEST

/* Every overlapping MR hears of it, and none else. */
START_TEST(invalidate_finds_its_mrs)
{
	struct odp_mr *m[200], *all;
	struct odp_access acc = {0};

	begin((struct odp_config){0}, 1, true);
	all = util_implicit(dom);
	ck_assert_int_eq(odp_fault_in(all, SIM_BASE, 200 * PAGE, false, &acc), 0);
	for (unsigned int i = 0; i < 200; i++) {
		m[i] = util_mr(dom, (char *)sim_page(i) + 100, PAGE, false);
		ck_assert_int_eq(
		    odp_fault_in(m[i], SIM_BASE + i * PAGE + 100, PAGE, false, &acc), 0);
	}
	odp_invalidate(dom, SIM_BASE + 50 * PAGE, 3 * PAGE, TRACE_INVAL_CALL);
	for (unsigned int i = 0; i < 200; i++) {
		uint64_t pages = i == 49 || i == 52 ? 1 : i == 50 || i == 51 ? 2 : 0;

		ck_assert_uint_eq(util_counters(m[i]).pages_invalidated, pages);
		odp_mr_put(m[i]);
	}
	ck_assert_uint_eq(util_counters(all).pages_invalidated, 3);
	odp_mr_put(all);
	end();
}
END_TEST

/* --- models ----------------------------------------------------------------------- */

START_TEST(deferred_until_ready)
{
	struct odp_config cfg = {.model = (enum odp_fault_model)_i, .latency = 100};
	struct odp_access acc;
	struct odp_counters c;

	begin(cfg, 8, true);
	ck_assert_int_eq(read_at(0, 2 * PAGE, 1000, &acc), -EAGAIN);
	ck_assert(acc.faulted);
	ck_assert_uint_eq(acc.ready_at, 1100);
	ck_assert_int_eq(acc.model, _i);
	ck_assert_uint_eq(os->populates, 0);
	if (_i != ODP_FAULT_FLOOD) {
		ck_assert_int_eq(read_at(1, PAGE, 1050, &acc), -EAGAIN);
		ck_assert(!acc.faulted);
		ck_assert_uint_eq(acc.ready_at, 1100);
	}
	/* the other page of the same fault resolves both */
	ck_assert_int_eq(read_at(1, PAGE, 1100, &acc), 0);
	ck_assert(!acc.faulted);
	ck_assert_int_eq(read_at(0, PAGE, 1100, &acc), 0);
	c = util_counters(mr);
	ck_assert_uint_eq(c.read_faults, 1);
	ck_assert_uint_eq(c.pages_faulted, 2);
	ck_assert_uint_eq(c.cache_hits, 2);
	ck_assert_uint_eq(c.fault_ns, 101); /* and the clock's one */
	end();
}
END_TEST

/* However late somebody comes again: the fault was over at its time. */
START_TEST(time_of_a_fault_that_nobody_waited_for)
{
	struct odp_access acc;

	begin((struct odp_config){.model = (enum odp_fault_model)_i, .latency = 100}, 8,
	      true);
	ck_assert_int_eq(read_at(0, PAGE, 1000, &acc), -EAGAIN);
	ck_assert_int_eq(read_at(0, PAGE, 900000, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).fault_ns, 101);
	end();
}
END_TEST

/* What no access has asked for takes no access' time, however late it is used. */
START_TEST(time_of_what_comes_along)
{
	struct odp_access acc = {.now = 1000};

	begin((struct odp_config){.model = ODP_FAULT_RNR, .latency = 100}, 8, true);
	ck_assert_int_eq(odp_fault_in(mr, SIM_BASE, PAGE, false, &acc), -EAGAIN);
	ck_assert_int_eq(read_at(0, PAGE, 5000, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 1);
	ck_assert_uint_eq(util_counters(mr).fault_ns, 0);
	odp_mr_set_model(mr, ODP_FAULT_SYNC, 0);
	ck_assert_int_eq(odp_fault_in(mr, SIM_BASE + PAGE, PAGE, false, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 2);
	ck_assert_uint_eq(util_counters(mr).fault_ns, 0);
	ck_assert_uint_eq(util_faults(mr), 0);
	end();
}
END_TEST

START_TEST(rnr_without_latency_defers_once)
{
	struct odp_access acc;

	begin((struct odp_config){.model = ODP_FAULT_RNR}, 8, true);
	ck_assert_int_eq(write_at(0, PAGE, 5, &acc), -EAGAIN);
	ck_assert_uint_eq(acc.ready_at, 5);
	ck_assert_int_eq(write_at(0, PAGE, 5, &acc), 0);
	ck_assert_int_eq(write_at(0, PAGE, 5, &acc), 0);
	ck_assert_uint_eq(util_faults(mr), 1);
	/* a read fault does not serve a write */
	ck_assert_int_eq(read_at(1, PAGE, 5, &acc), -EAGAIN);
	ck_assert_int_eq(write_at(1, PAGE, 5, &acc), -EAGAIN);
	ck_assert(acc.faulted);
	ck_assert_int_eq(write_at(1, PAGE, 5, &acc), 0);
	end();
}
END_TEST

START_TEST(sync_with_latency_says_so)
{
	struct odp_access acc;

	begin((struct odp_config){.latency = UINT64_MAX}, 8, true);
	ck_assert_int_eq(write_at(0, PAGE, 5, &acc), -EAGAIN);
	ck_assert_uint_eq(acc.ready_at, UINT64_MAX);
	ck_assert_int_eq(acc.model, ODP_FAULT_SYNC);
	end();
}
END_TEST

START_TEST(model_of_one_mr)
{
	struct odp_access acc;

	begin((struct odp_config){0}, 8, true);
	odp_mr_set_model(mr, ODP_FAULT_DROP, 7);
	ck_assert_int_eq(write_at(0, PAGE, 5, &acc), -EAGAIN);
	ck_assert_int_eq(acc.model, ODP_FAULT_DROP);
	odp_mr_set_model(mr, ODP_FAULT_SYNC, 0);
	ck_assert_int_eq(write_at(1, PAGE, 5, &acc), 0);
	/* a pending fault keeps its time */
	ck_assert_int_eq(write_at(0, PAGE, 11, &acc), -EAGAIN);
	ck_assert_int_eq(write_at(0, PAGE, 12, &acc), 0);
	end();
}
END_TEST

/* What was pending when its memory went away is void: the next access faults anew. */
START_TEST(invalidation_voids_pending)
{
	struct odp_access acc;

	begin((struct odp_config){.model = ODP_FAULT_RNR, .latency = 100}, 8, true);
	ck_assert_int_eq(read_at(0, PAGE, 0, &acc), -EAGAIN);
	odp_invalidate(dom, SIM_BASE, PAGE, TRACE_INVAL_CALL);
	ck_assert_int_eq(read_at(0, PAGE, 100, &acc), -EAGAIN);
	ck_assert(acc.faulted);
	ck_assert_uint_eq(acc.ready_at, 200);
	end();
}
END_TEST

/* A fault for several pages is void when any of them goes */
START_TEST(invalidation_of_any_page_voids_what_is_pending)
{
	struct odp_access acc;

	begin((struct odp_config){.model = ODP_FAULT_RNR, .latency = 100}, 8, true);
	ck_assert_int_eq(read_at(1, 3 * PAGE, 0, &acc), -EAGAIN);
	odp_invalidate(dom, SIM_BASE + (1 + (unsigned int)_i) * PAGE, PAGE,
		       TRACE_INVAL_CALL);
	ck_assert_int_eq(read_at(1, 3 * PAGE, 100, &acc), -EAGAIN);
	ck_assert_uint_eq(acc.ready_at, 200);
	end();
}
END_TEST

START_TEST(a_deferred_fault_may_fail)
{
	struct odp_access acc;

	begin((struct odp_config){.model = ODP_FAULT_RNR, .latency = 100}, 8, true);
	os->prot[1] = SIM_NONE;
	ck_assert_int_eq(read_at(0, 2 * PAGE, 0, &acc), -EAGAIN);
	/* page 0 is there, though the fault as a whole cannot be resolved */
	ck_assert_int_eq(read_at(0, PAGE, 100, &acc), 0);
	ck_assert_int_eq(read_at(1, PAGE, 100, &acc), -EAGAIN);
	ck_assert_int_eq(read_at(1, PAGE, 200, &acc), -EFAULT);
	ck_assert_uint_eq(util_counters(mr).failed_faults, 1);
	ck_assert_uint_eq(util_faults(mr), 2);
	end();
}
END_TEST

/* More faults than the handler has room for wait for the first of them. */
START_TEST(fault_queue_is_bounded)
{
	enum { N = 3000 };
	struct odp_access acc = {0};
	unsigned int i, faults = 0;
	struct odp_mr *all;

	begin((struct odp_config){.model = ODP_FAULT_RNR, .latency = 10000}, 16, true);
	all = util_implicit(dom);
	for (i = 0; i < 2 * N; i++) {
		acc.now = i;
		/* every other page: they do not make one fault */
		MUST(odp_write(all, SIM_BASE + 2 * i * PAGE, "", 1, &acc) == -EAGAIN);
		faults += acc.faulted;
	}
	ck_assert_uint_eq(acc.ready_at, 10000);
	ck_assert_uint_lt(faults, 2 * N);
	ck_assert_uint_eq(util_faults(all), faults);
	/* all are served in the end */
	for (acc.now = 20000; i; acc.now += 20000)
		for (unsigned int k = i = 0; k < SIM_PAGES; k += 2)
			i += odp_write(all, SIM_BASE + k * PAGE, "", 1, &acc) != 0;
	odp_mr_put(all);
	end();
}
END_TEST

/*
 * Two who each wait for their page, fault it in ahead, and then use it, with room for one
 * page: a page that was waited for must not go in favour of the other's before it was used.
 */
START_TEST(waiting_ends_in_progress)
{
	struct odp_access acc = {0};

	begin((struct odp_config){.max_pages = 1, .model = ODP_FAULT_RNR, .latency = 10},
	      16, true);
	for (unsigned int page = 0; page < 2; page++)
		ck_assert_int_eq(write_at(page, PAGE, 0, &acc), -EAGAIN);
	acc.now = 10;
	for (unsigned int page = 0; page < 2; page++)
		ck_assert_int_eq(
		    odp_fault_in(mr, SIM_BASE + page * PAGE, PAGE, true, &acc), 0);
	for (unsigned int page = 0; page < 2; page++)
		ck_assert_int_eq(write_at(page, PAGE, 10, &acc), 0);
	ck_assert_uint_eq(util_faults(mr), 2);
	end();
}
END_TEST

/* However many wait, each finds its page when its time has come, in any order. */
START_TEST(many_wait_at_once)
{
	enum { N = 1000 };
	struct odp_access acc = {0};
	struct odp_mr *all;

	begin((struct odp_config){.model = ODP_FAULT_RNR, .latency = 10}, 16, true);
	all = util_implicit(dom);
	for (unsigned int i = 0; i < N; i++)
		MUST(odp_write(all, SIM_BASE + i * PAGE, "", 1, &acc) == -EAGAIN);
	acc.now = 10;
	for (unsigned int i = N; i-- > 0;)
		MUST(!odp_write(all, SIM_BASE + i * PAGE, "", 1, &acc));
	ck_assert_uint_eq(util_faults(all), N);
	ck_assert_uint_eq(util_counters(all).pages_faulted, N);
	odp_mr_put(all);
	end();
}
END_TEST

/* Each request in vain costs 10 us of all faults' time, up to 1000 times the latency. */
START_TEST(each_request_in_vain_delays_the_others)
{
	const uint64_t us = 1000;
	struct odp_access acc;

	begin((struct odp_config){.model = ODP_FAULT_FLOOD, .latency = 50 * us}, 16,
	      true);
	ck_assert_int_eq(read_at(0, PAGE, 0, &acc), -EAGAIN);
	ck_assert_uint_eq(acc.ready_at, 50 * us);
	ck_assert_int_eq(read_at(1, PAGE, 20 * us, &acc), -EAGAIN);
	ck_assert_uint_eq(acc.ready_at, 70 * us);
	ck_assert_int_eq(read_at(1, PAGE, 40 * us, &acc), -EAGAIN);
	ck_assert_uint_eq(acc.ready_at, 80 * us);
	ck_assert_int_eq(read_at(0, PAGE, 59 * us, &acc), -EAGAIN);
	ck_assert_uint_eq(acc.ready_at, 70 * us);
	ck_assert_int_eq(read_at(0, PAGE, 70 * us, &acc), 0);
	for (unsigned int i = 0; i < 10000; i++)
		MUST(read_at(1, PAGE, 71 * us, &acc) == -EAGAIN);
	ck_assert_uint_eq(acc.ready_at, 20 * us + 1000 * 50 * us);
	ck_assert_int_eq(read_at(1, PAGE, acc.ready_at, &acc), 0);
	ck_assert_uint_eq(util_faults(mr), 2);
	end();
}
END_TEST

/* --- scripts ---------------------------------------------------------------------- */

START_TEST(third_access_faults)
{
	struct odp_config cfg = {.script = "mr=m,page=7,access=3"};
	struct odp_access acc;

	begin(cfg, 16, true);
	for (unsigned int i = 1; i <= 5; i++) {
		ck_assert_int_eq(read_at(6, 2 * PAGE, 0, &acc), 0);
		ck_assert_int_eq(acc.faulted, i == 1 || i == 3);
		ck_assert_int_eq(read_at(8, PAGE, 0, &acc), 0);
	}
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 4);
	ck_assert_uint_eq(util_counters(mr).evictions, 1);
	end();
}
END_TEST

/* Not for those beside it */
START_TEST(a_rule_is_for_its_page_alone)
{
	struct odp_config cfg = {.script = "mr=m,page=7,access=1,fault=error"};
	struct odp_access acc;

	begin(cfg, 16, true);
	ck_assert_int_eq(read_at(5, 2 * PAGE, 0, &acc), 0);
	ck_assert_int_eq(read_at(8, 2 * PAGE, 0, &acc), 0);
	ck_assert_int_eq(read_at(6, 3 * PAGE, 0, &acc), -EFAULT);
	end();
}
END_TEST

START_TEST(script_of_models_and_errors)
{
	struct odp_config cfg = {
	    .script =
		"mr=0x42,page=0,access=2,fault=rnr;mr=*,page=0,access=5,fault=error;"
		"mr=other,page=0,access=1,fault=error",
	};
	struct odp_access acc;

	begin(cfg, 16, true);
	ck_assert_int_eq(write_at(0, 8, 0, &acc), 0);
	ck_assert_int_eq(write_at(0, 8, 0, &acc), -EAGAIN);
	ck_assert_int_eq(acc.model, ODP_FAULT_RNR);
	ck_assert(acc.faulted);
	ck_assert_int_eq(odp_fault_in(mr, SIM_BASE, PAGE, true, &acc), 0);
	ck_assert_int_eq(write_at(0, 8, 0, &acc), 0); /* 3 */
	ck_assert_int_eq(write_at(0, 8, 0, &acc), 0);
	ck_assert_int_eq(write_at(0, 8, 0, &acc), -EFAULT);
	ck_assert_int_eq(write_at(0, 8, 0, &acc), 0);
	ck_assert(acc.faulted);
	ck_assert_uint_eq(util_counters(mr).failed_faults, 1);
	ck_assert_uint_eq(util_faults(mr), 4);
	end();
}
END_TEST

START_TEST(script_comes_and_goes_at_run_time)
{
	struct odp_access acc;

	begin((struct odp_config){0}, 16, true);
	ck_assert_int_eq(read_at(2, PAGE, 0, &acc), 0);
	ck_assert_int_eq(odp_domain_set_script(dom, "nonsense"), -EINVAL);
	ck_assert_int_eq(odp_domain_set_script(dom, "mr=m,page=2,access=2"), 0);
	for (unsigned int i = 1; i <= 3; i++) {
		ck_assert_int_eq(read_at(2, PAGE, 0, &acc), 0);
		ck_assert_int_eq(acc.faulted, i == 2);
	}
	/* the same again: counting begins anew */
	ck_assert_int_eq(odp_domain_set_script(dom, "mr=m,page=2,access=2"), 0);
	for (unsigned int i = 1; i <= 3; i++) {
		ck_assert_int_eq(read_at(2, PAGE, 0, &acc), 0);
		ck_assert_int_eq(acc.faulted, i == 2);
	}
	ck_assert_int_eq(odp_domain_set_script(dom, "mr=*,page=2,access=1"), 0);
	ck_assert_int_eq(odp_domain_set_script(dom, NULL), 0);
	ck_assert_int_eq(read_at(2, PAGE, 0, &acc), 0);
	ck_assert(!acc.faulted);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fault");
	TCase *tc = tcase(s, "counting");

	tcase_add_test(tc, cold_then_warm);
	tcase_add_test(tc, an_access_stays_within_its_region);
	tcase_add_test(tc, attributes_of_a_region_are_checked);
	tcase_add_test(tc, atomics_fault_writable);
	tcase_add_test(tc, failures_are_counted_and_told);
	tcase_add_test(tc, fault_in_is_no_access);
	tc = tcase(s, "invalidation");
	tcase_add_test(tc, invalidate_counts_events_and_pages);
	tcase_add_test(tc, race_repeats_the_fault);
	tcase_add_test(tc, a_page_that_goes_before_its_use_is_counted_once);
	tcase_add_loop_test(tc, an_invalidation_that_was_not_applied_is_believed, 0, 2);
	tcase_add_test(tc, race_without_end_fails);
	tcase_add_test(tc, race_with_a_new_mapping);
	tcase_add_loop_test(tc, stale_entry_is_an_invalidation, 0, 2);
	tcase_add_test(tc, invalidate_finds_its_mrs);
	tc = tcase(s, "models");
	tcase_add_loop_test(tc, deferred_until_ready, 0, ODP_FAULT_MODELS);
	tcase_add_loop_test(tc, time_of_a_fault_that_nobody_waited_for, 0,
			    ODP_FAULT_MODELS);
	tcase_add_test(tc, time_of_what_comes_along);
	tcase_add_test(tc, rnr_without_latency_defers_once);
	tcase_add_test(tc, sync_with_latency_says_so);
	tcase_add_test(tc, model_of_one_mr);
	tcase_add_test(tc, invalidation_voids_pending);
	tcase_add_loop_test(tc, invalidation_of_any_page_voids_what_is_pending, 0, 3);
	tcase_add_test(tc, waiting_ends_in_progress);
	tcase_add_test(tc, many_wait_at_once);
	tcase_add_test(tc, each_request_in_vain_delays_the_others);
	tcase_add_test(tc, a_deferred_fault_may_fail);
	tcase_add_test(tc, fault_queue_is_bounded);
	tcase_add_test(tc, third_access_faults);
	tcase_add_test(tc, a_rule_is_for_its_page_alone);
	tcase_add_test(tc, script_of_models_and_errors);
	tcase_add_test(tc, script_comes_and_goes_at_run_time);
	return util_run(s);
}
