/*
 * Description: the last page, the last moment, the last byte of the address space: what
 * must not wrap, and what is counted where part is there already. Over a simulated
 * operating system.
 */
#include "tests/odp/sim_os.h"

static struct sim_os *os;
static struct odp_domain *dom;
static struct odp_mr *mr;

static void begin(struct odp_config cfg, unsigned int pages)
{
	os = sim_new();
	ck_assert_int_eq(odp_domain_create(&cfg, &sim_ops, os, &dom), 0);
	mr = util_mr(dom, sim_page(0), pages * PAGE, true);
}

static void end(void)
{
	odp_mr_put(mr);
	odp_domain_destroy(dom);
	free(os);
}

static int read_at(unsigned int page, size_t len, uint64_t now, struct odp_access *acc)
{
	static uint8_t buf[64 * PAGE];

	*acc = (struct odp_access){.now = now};
	return odp_read(mr, (uintptr_t)sim_page(page), buf, len, acc);
}

/* A fault that takes for ever is over at the end of time, not before its beginning */
START_TEST(a_latency_without_end_does_not_wrap)
{
	struct odp_access acc;

	begin((struct odp_config){.model = ODP_FAULT_RNR, .latency = UINT64_MAX}, 4);
	ck_assert_int_eq(read_at(0, PAGE, 5000, &acc), -EAGAIN);
	ck_assert_uint_eq(acc.ready_at, UINT64_MAX);
	ck_assert_int_eq(read_at(0, PAGE, 1ull << 62, &acc), -EAGAIN);
	end();
}
END_TEST

/* A range that goes to the end of the address space, from any page on */
START_TEST(an_invalidation_to_the_end_of_memory_does_not_wrap)
{
	struct odp_access acc;

	begin((struct odp_config){0}, 4);
	ck_assert_int_eq(read_at(0, 4 * PAGE, 0, &acc), 0);
	odp_invalidate(dom, (uintptr_t)sim_page(2), SIZE_MAX, TRACE_INVAL_CALL);
	ck_assert_int_eq(read_at(0, 2 * PAGE, 0, &acc), 0);
	ck_assert(!acc.faulted);
	ck_assert_uint_eq(util_counters(mr).pages_invalidated, 2);
	odp_invalidate(dom, (uintptr_t)sim_page(1), 1, TRACE_INVAL_CALL);
	ck_assert_uint_eq(util_counters(mr).pages_invalidated, 3);
	odp_invalidate(dom, 0, SIZE_MAX, TRACE_INVAL_CALL);
	ck_assert_uint_eq(util_counters(mr).pages_invalidated, 4);
	end();
}
END_TEST

/* A fault over pages of which one in the middle is there counts those that came */
START_TEST(a_page_that_is_there_is_not_faulted_again)
{
	struct odp_access acc;

	begin((struct odp_config){0}, 8);
	ck_assert_int_eq(read_at(2, PAGE, 0, &acc), 0);
	ck_assert_int_eq(read_at(1, 3 * PAGE, 0, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 3);
	end();
}
END_TEST

/* The map of pages ends with the MR, wherever it is asked for from */
START_TEST(the_map_of_pages_ends_with_the_mr)
{
	struct odp_access acc;
	uint8_t map[16];

	begin((struct odp_config){0}, 8);
	ck_assert_int_eq(read_at(7, PAGE, 0, &acc), 0);
	memset(map, 0xee, sizeof(map));
	ck_assert_uint_eq(odp_mr_page_map(mr, (uintptr_t)sim_page(5), map, 16), 3);
	ck_assert_uint_eq(map[0], 0);
	ck_assert_uint_eq(map[2], 1);
	ck_assert_uint_eq(map[3], 0xee);
	ck_assert_uint_eq(odp_mr_page_map(mr, (uintptr_t)sim_page(5), map, 2), 2);
	ck_assert_uint_eq(odp_mr_page_map(mr, (uintptr_t)sim_page(8), map, 2), 0);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("edges");
	TCase *tc = tcase_create("edges");

	tcase_add_test(tc, a_latency_without_end_does_not_wrap);
	tcase_add_test(tc, an_invalidation_to_the_end_of_memory_does_not_wrap);
	tcase_add_test(tc, a_page_that_is_there_is_not_faulted_again);
	tcase_add_test(tc, the_map_of_pages_ends_with_the_mr);
	suite_add_tcase(s, tc);
	return util_run(s);
}
