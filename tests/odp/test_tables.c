/*
 * Description: what is in the page tables over a simulated operating system: what the bound on
 * pages evicts, what a table begins with, pages of other sizes, and what the report keeps.
 */
#include "tests/odp/one_mr.h"

/* --- eviction --------------------------------------------------------------------- */

START_TEST(least_recently_used_goes)
{
	struct odp_access acc;
	struct odp_counters c;
	struct odp_mr *other;

	begin((struct odp_config){.max_pages = 4}, 16, true);
	other = util_mr(dom, sim_page(20), 4 * PAGE, true);
	for (unsigned int i = 0; i < 4; i++)
		ck_assert_int_eq(read_at(i, PAGE, 0, &acc), 0);
	ck_assert_int_eq(read_at(0, PAGE, 0, &acc), 0);
	ck_assert(!acc.faulted);
	ck_assert_int_eq(util_read(other, sim_page(20)), 0); /* 1 goes */
	ck_assert_uint_eq(state_of(0), 1);
	ck_assert_uint_eq(state_of(1), 0);
	ck_assert_uint_eq(state_of(2), 1);
	ck_assert_int_eq(read_at(4, PAGE, 0, &acc), 0); /* 2 */
	ck_assert_uint_eq(state_of(2), 0);
	odp_domain_counters(dom, &c);
	ck_assert_uint_eq(c.evictions, 2);
	ck_assert_uint_eq(c.invalidations, 0);
	/* an MR that goes away gives its room back */
	odp_mr_put(other);
	ck_assert_int_eq(read_at(5, PAGE, 0, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).evictions, 2);
	/* as does an invalidation */
	odp_invalidate(dom, SIM_BASE, PAGE, TRACE_INVAL_CALL);
	ck_assert_int_eq(read_at(6, PAGE, 0, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).evictions, 2);
	end();
}
END_TEST

/* Random use of pages against a list in order of use */
START_TEST(eviction_is_a_list)
{
	unsigned int list[8], n = 0, seed = 5;
	struct odp_access acc;

	begin((struct odp_config){.max_pages = 8}, 16, true);
	for (unsigned int turn = 0; turn < 2000; turn++) {
		unsigned int page = rand_r(&seed) % 16, at = 0;

		while (at < n && list[at] != page)
			at++;
		if (rand_r(&seed) % 8 == 0) {
			odp_invalidate(dom, SIM_BASE + page * PAGE, PAGE,
				       TRACE_INVAL_CALL);
			if (at < n)
				memmove(&list[at], &list[at + 1],
					(--n - at) * sizeof(list[0]));
			continue;
		}
		ck_assert_int_eq(read_at(page, PAGE, 0, &acc), 0);
		ck_assert_int_eq(acc.faulted, at == n);
		if (at == n && n == 8)
			at = 0; /* the oldest goes */
		else if (at == n)
			n++;
		memmove(&list[at], &list[at + 1], (n - 1 - at) * sizeof(list[0]));
		list[n - 1] = page;
	}
	end();
}
END_TEST

START_TEST(access_larger_than_the_bound)
{
	struct odp_access acc;
	static uint8_t big[1500 * PAGE];
	struct odp_mr *all;

	begin((struct odp_config){.max_pages = 2,
				  .model = _i ? ODP_FAULT_RNR : ODP_FAULT_SYNC},
	      16, true);
	if (_i)
		ck_assert_int_eq(write_at(0, 5 * PAGE, 0, &acc), -EAGAIN);
	ck_assert_int_eq(write_at(0, 5 * PAGE, 0, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).evictions, 3);
	ck_assert_uint_eq(state_of(3), 3);
	ck_assert_uint_eq(state_of(4), 3);
	/* in a sparse table, across leaves */
	all = util_implicit(dom);
	if (_i)
		ck_assert_int_eq(odp_write(all, SIM_BASE, big, sizeof(big), &acc),
				 -EAGAIN);
	ck_assert_int_eq(odp_write(all, SIM_BASE, big, sizeof(big), &acc), 0);
	ck_assert_uint_eq(util_counters(all).evictions, 1498);
	odp_mr_put(all);
	end();
}
END_TEST

START_TEST(bound_has_a_bound)
{
	struct odp_config cfg = {.max_pages = ODP_MAX_BOUND + 1ull};
	struct odp_domain *d;

	ck_assert_int_eq(odp_domain_create(&cfg, &sim_ops, NULL, &d), -EINVAL);
	cfg = (struct odp_config){.model = (enum odp_fault_model)ODP_FAULT_MODELS};
	ck_assert_int_eq(odp_domain_create(&cfg, &sim_ops, NULL, &d), -EINVAL);
}
END_TEST

/* --- snapshot, hugetlb, implicit -------------------------------------------------- */

START_TEST(snapshot_takes_what_is_there)
{
	struct odp_config cfg = {.snapshot = true};
	struct odp_mr *ro, *all;
	struct odp_access acc;

	begin(cfg, 1, true);
	odp_mr_put(mr);
	os->resident[2] = 1;
	os->resident[3] = 3;
	mr = util_mr(dom, sim_page(0), 8 * PAGE, true);
	ck_assert_uint_eq(state_of(1), 0);
	ck_assert_uint_eq(state_of(2), 1);
	ck_assert_uint_eq(state_of(3), 3);
	ck_assert_int_eq(write_at(3, PAGE, 0, &acc), 0);
	ck_assert(!acc.faulted);
	ck_assert_uint_eq(util_counters(mr).pages_prefetched, 0);
	ro = util_mr(dom, sim_page(0), 8 * PAGE, false);
	ck_assert_int_eq(util_read(ro, sim_page(3)), 0);
	ck_assert_uint_eq(util_faults(ro), 0);
	odp_mr_put(ro);
	/* an implicit MR begins empty, as in mlx5 */
	all = util_implicit(dom);
	ck_assert_int_eq(util_read(all, sim_page(3)), 0);
	ck_assert_uint_eq(util_faults(all), 1);
	odp_mr_put(all);
	end();
}
END_TEST

START_TEST(huge_pages_have_entries_of_their_size)
{
	struct odp_mr_attr a = {.addr = SIM_BASE + 5 * PAGE,
				.length = 600 * PAGE,
				.iova = 0,
				.on_demand = true,
				.hugetlb = true};
	struct odp_access acc = {0};
	uint8_t b, map[8];

	begin((struct odp_config){0}, 1, false);
	odp_mr_put(mr);
	ck_assert_int_eq(odp_mr_create(dom, &a, &mr), 0);
	ck_assert_int_eq(odp_read(mr, 0, &b, 1, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 1);
	ck_assert_uint_eq(os->resident[511], 1); /* rounded outward */
	ck_assert_uint_eq(os->resident[512], 0);
	ck_assert_uint_eq(odp_mr_page_map(mr, 0, map, 8), 2);
	ck_assert_uint_eq(map[0], 1);
	ck_assert_uint_eq(map[1], 0);
	/* a part of it goes: all of it goes */
	odp_invalidate(dom, SIM_BASE + 3 * PAGE, 1, TRACE_INVAL_CALL);
	ck_assert_uint_eq(util_counters(mr).pages_invalidated, 1);
	os->small = true;
	ck_assert_int_eq(odp_read(mr, 0, &b, 1, &acc), -EFAULT);
	ck_assert_int_eq(odp_prefetch(mr, 0, 1, ODP_PREFETCH), -EINVAL);
	end();
}
END_TEST

START_TEST(implicit_is_everywhere)
{
	struct odp_access acc = {0};
	struct odp_mr *all;
	uint8_t b[16];

	begin((struct odp_config){0}, 1, true);
	all = util_implicit(dom);
	ck_assert_int_eq(util_write(all, sim_page(9), 3), 0);
	ck_assert_int_eq(util_read(all, sim_page(9)), 3);
	ck_assert_int_eq(odp_read(all, UINT64_MAX - 8, b, 16, &acc), -EFAULT);
	ck_assert_int_eq(odp_read(all, UINT64_MAX - 8, b, 8, &acc), -EFAULT);
	ck_assert_int_eq(odp_read(all, 0, b, 8, &acc), -EFAULT);
	ck_assert_int_eq(odp_read(all, 1ull << 60, b, 8, &acc), -EFAULT);
	odp_invalidate(dom, 0, SIZE_MAX, TRACE_INVAL_CALL);
	ck_assert_uint_eq(util_counters(all).pages_invalidated, 1);
	odp_mr_put(all);
	end();
}
END_TEST

/* --- the report ------------------------------------------------------------------- */

struct report {
	unsigned int live, gone, last_key;
	uint64_t faults;
};

static void report_one(void *arg, const struct odp_mr_info *info)
{
	struct report *r = arg;

	if (info->live)
		r->live++;
	else
		r->gone++;
	r->last_key = info->key;
	r->faults += info->counters.read_faults;
}

/* An MR whose one fault the program has reset before its end */
static void reset_and_gone(void)
{
	struct odp_mr *m = util_mr(dom, sim_page(0), PAGE, false);

	ck_assert_int_eq(util_read(m, sim_page(0)), 0);
	odp_mr_reset_counters(m);
	odp_mr_put(m);
}

START_TEST(report_keeps_the_last)
{
	struct report r = {0};
	struct odp_counters c;
	struct odp_access acc;

	begin((struct odp_config){0}, 4, true);
	ck_assert_int_eq(read_at(0, PAGE, 0, &acc), 0);
	for (uint32_t i = 0; i < 300; i++) {
		struct odp_mr *m = util_mr(dom, sim_page(0), PAGE, false);

		odp_mr_set_label(m, i, NULL);
		ck_assert_int_eq(util_read(m, sim_page(0)), 0);
		odp_mr_put(m);
	}
	odp_domain_each(dom, report_one, &r);
	ck_assert_uint_eq(r.live, 1);
	ck_assert_uint_eq(r.gone, 256);
	ck_assert_uint_eq(r.last_key, 299);
	ck_assert_uint_eq(r.faults, 257);
	odp_domain_counters(dom, &c);
	ck_assert_uint_eq(c.read_faults, 301);
	ck_assert_int_eq(read_at(1, PAGE, 0, &acc), 0);
	ck_assert_uint_eq(util_faults(mr), 2);
	odp_mr_reset_counters(mr);
	ck_assert_uint_eq(util_faults(mr), 0);
	/* the program counts anew; reports do not */
	odp_domain_counters(dom, &c);
	ck_assert_uint_eq(c.read_faults, 302);
	ck_assert_int_eq(read_at(2, PAGE, 0, &acc), 0);
	ck_assert_uint_eq(util_faults(mr), 1);
	reset_and_gone();
	odp_domain_counters(dom, &c);
	ck_assert_uint_eq(c.read_faults, 304);
	end();
}
END_TEST

/* What is told of an MR: pinned, on demand, or implicit */
START_TEST(an_mr_is_described_as_what_it_is)
{
	static const struct odp_mr_attr kinds[] = {
	    {.addr = SIM_BASE, .length = PAGE, .iova = 0x7000},
	    {.addr = SIM_BASE, .length = PAGE, .iova = 0x7000, .on_demand = true},
	    {.length = SIZE_MAX, .on_demand = true, .implicit = true},
	};
	struct odp_mr_info info;
	struct odp_mr *m;

	begin((struct odp_config){0}, 4, true);
	ck_assert_int_eq(odp_mr_create(dom, &kinds[_i], &m), 0);
	odp_mr_describe(m, &info);
	ck_assert_int_eq(info.on_demand, kinds[_i].on_demand);
	ck_assert_int_eq(info.implicit, kinds[_i].implicit);
	ck_assert_uint_eq(info.addr, kinds[_i].addr);
	ck_assert_uint_eq(info.length, kinds[_i].length);
	ck_assert_uint_eq(info.iova, kinds[_i].iova);
	ck_assert_uint_eq(info.pages_cached, 0);
	ck_assert(info.live);
	odp_mr_put(m);
	end();
}
END_TEST

START_TEST(watched_until_the_end)
{
	struct odp_mr *cold;

	begin((struct odp_config){0}, 4, true);
	cold = util_mr(dom, sim_page(0), PAGE, false);
	ck_assert_uint_eq(os->watches, 0);
	odp_mr_put(cold);
	ck_assert_uint_eq(os->unwatches, 0);
	ck_assert_int_eq(util_read(mr, sim_page(0)), 0);
	ck_assert_uint_eq(os->watches, 1);
	odp_mr_put(mr);
	ck_assert_uint_eq(os->unwatches, 1);
	mr = util_mr(dom, sim_page(0), PAGE, false);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tables");
	TCase *tc = tcase(s, "tables");

	tcase_add_test(tc, least_recently_used_goes);
	tcase_add_test(tc, eviction_is_a_list);
	tcase_add_loop_test(tc, access_larger_than_the_bound, 0, 2);
	tcase_add_test(tc, bound_has_a_bound);
	tcase_add_test(tc, snapshot_takes_what_is_there);
	tcase_add_test(tc, huge_pages_have_entries_of_their_size);
	tcase_add_test(tc, implicit_is_everywhere);
	tcase_add_test(tc, report_keeps_the_last);
	tcase_add_loop_test(tc, an_mr_is_described_as_what_it_is, 0, 3);
	tcase_add_test(tc, watched_until_the_end);
	return util_run(s);
}
