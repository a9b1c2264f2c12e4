/*
 * Description: prefetch, now and by the worker: what it fills, what it counts, which
 * errors it has, and that it may be overtaken by deregistration.
 */
#include "tests/odp/util.h"

#define PAGES 64u

static struct odp_domain *dom;
static uint8_t *mem;

static void begin(void)
{
	struct odp_config cfg = {.uffd = true};

	ck_assert_int_eq(odp_domain_create(&cfg, NULL, NULL, &dom), 0);
	mem = util_map(PAGES * PAGE);
}

static void end(void)
{
	odp_domain_destroy(dom);
}

static unsigned int pages_with(struct odp_mr *mr, uint8_t bits)
{
	uint8_t map[PAGES];
	unsigned int n = 0;

	ck_assert_uint_eq(odp_mr_page_map(mr, (uintptr_t)mem, map, PAGES), PAGES);
	for (unsigned int i = 0; i < PAGES; i++)
		n += (map[i] & bits) == bits;
	return n;
}

START_TEST(prefetch_removes_faults)
{
	struct odp_mr *mr = util_mr(dom, mem, PAGES * PAGE, true);
	struct odp_counters c;
	uint8_t b[PAGES * PAGE];
	struct odp_access acc = {0};

	ck_assert_int_eq(
	    odp_prefetch(mr, (uintptr_t)mem + 10, PAGES * PAGE - 10, ODP_PREFETCH_WRITE),
	    0);
	ck_assert_uint_eq(pages_with(mr, 7), PAGES);
	ck_assert_int_eq(odp_write(mr, (uintptr_t)mem, b, 2 * PAGE, &acc), 0);
	ck_assert_int_eq(odp_write(mr, (uintptr_t)mem, b, 2 * PAGE, &acc), 0);
	ck_assert_int_eq(odp_read(mr, (uintptr_t)mem, b, 3 * PAGE, &acc), 0);
	c = util_counters(mr);
	ck_assert_uint_eq(c.read_faults + c.write_faults, 0);
	ck_assert_uint_eq(c.pages_faulted, 0);
	ck_assert_uint_eq(c.prefetches, 1);
	ck_assert_uint_eq(c.pages_prefetched, PAGES);
	ck_assert_uint_eq(c.prefetch_hits, 3);
	ck_assert_uint_eq(c.cache_hits, 3);
	/* what is there already is not prefetched again */
	ck_assert_int_eq(odp_prefetch(mr, (uintptr_t)mem, PAGES * PAGE, ODP_PREFETCH), 0);
	ck_assert_uint_eq(util_counters(mr).pages_prefetched, PAGES);
	ck_assert_uint_eq(util_counters(mr).prefetches, 2);
	odp_mr_put(mr);
}
END_TEST

START_TEST(prefetch_for_reading_is_for_reading_only)
{
	struct odp_mr *mr = util_mr(dom, mem, PAGES * PAGE, true);

	ck_assert_int_eq(odp_prefetch(mr, (uintptr_t)mem, 4 * PAGE, ODP_PREFETCH), 0);
	ck_assert_uint_eq(pages_with(mr, 1), 4);
	ck_assert_uint_eq(pages_with(mr, 2), 0);
	ck_assert_int_eq(util_write(mr, mem, 1), 0);
	ck_assert_uint_eq(util_counters(mr).write_faults, 1);
	ck_assert_uint_eq(util_counters(mr).prefetch_hits, 0);
	ck_assert_int_eq(odp_prefetch(mr, (uintptr_t)mem, 4 * PAGE, ODP_PREFETCH_WRITE),
			 0);
	ck_assert_uint_eq(pages_with(mr, 2), 4);
	ck_assert_uint_eq(util_counters(mr).pages_prefetched, 4 + 3);
	odp_mr_put(mr);
}
END_TEST

START_TEST(no_fault_takes_what_is_there)
{
	struct odp_mr *mr = util_mr(dom, mem, PAGES * PAGE, true);
	unsigned char core[PAGES];

	mem[3 * PAGE] = 1;
	(void)*(volatile uint8_t *)(mem + 5 * PAGE);
	ck_assert_int_eq(
	    odp_prefetch(mr, (uintptr_t)mem, PAGES * PAGE, ODP_PREFETCH_NO_FAULT), 0);
	ck_assert_uint_eq(pages_with(mr, 1), 2);
	ck_assert_uint_eq(pages_with(mr, 2), 0);
	ck_assert_int_eq(util_read(mr, mem + 3 * PAGE), 1);
	ck_assert_uint_eq(util_faults(mr), 0);
	ck_assert_uint_eq(util_counters(mr).prefetch_hits, 1);
	ck_assert_int_eq(mincore(mem, PAGES * PAGE, core), 0);
	ck_assert_int_eq(core[10] & 1, 0);
	munmap(mem, PAGE);
	ck_assert_int_eq(
	    odp_prefetch(mr, (uintptr_t)mem, PAGES * PAGE, ODP_PREFETCH_NO_FAULT), 0);
	odp_mr_put(mr);
}
END_TEST

START_TEST(wrong_prefetches_are_refused)
{
	struct odp_mr *mr = util_mr(dom, mem, 8 * PAGE, false);
	uintptr_t at = (uintptr_t)mem;

	for (int async = 0; async < 2; async++) {
		int (*prefetch)(struct odp_mr *, uint64_t, size_t, enum odp_advice) =
		    async ? odp_prefetch_async : odp_prefetch;

		ck_assert_int_eq(prefetch(mr, at, 8 * PAGE + 1, ODP_PREFETCH), -EFAULT);
		ck_assert_int_eq(prefetch(mr, at - 1, 1, ODP_PREFETCH), -EFAULT);
		ck_assert_int_eq(prefetch(mr, at + 1, SIZE_MAX, ODP_PREFETCH), -EFAULT);
		ck_assert_int_eq(prefetch(mr, at, 1, ODP_PREFETCH_WRITE), -EPERM);
		ck_assert_int_eq(prefetch(mr, at, 1, (enum odp_advice)3), -EINVAL);
		ck_assert_int_eq(prefetch(mr, at, 0, ODP_PREFETCH), 0);
	}
	ck_assert_uint_eq(util_counters(mr).prefetches, 0);
	munmap(mem + 4 * PAGE, PAGE);
	ck_assert_int_eq(odp_prefetch(mr, at, 8 * PAGE, ODP_PREFETCH), -EFAULT);
	/* later errors are dropped */
	ck_assert_int_eq(odp_prefetch_async(mr, at, 8 * PAGE, ODP_PREFETCH), 0);
	odp_prefetch_drain(dom);
	ck_assert_int_eq(odp_prefetch(mr, at, 4 * PAGE, ODP_PREFETCH), 0);
	ck_assert_uint_eq(util_counters(mr).failed_faults, 0);
	odp_mr_put(mr);
	/* pinned memory has no table to fill */
	ck_assert_int_eq(
	    odp_mr_create(
		dom, &(struct odp_mr_attr){.addr = at, .length = PAGE, .iova = at}, &mr),
	    0);
	ck_assert_int_eq(odp_prefetch(mr, at, 1, ODP_PREFETCH), -EINVAL);
	ck_assert_int_eq(odp_prefetch_async(mr, at, 1, ODP_PREFETCH), -EINVAL);
	odp_mr_put(mr);
	mr = util_mr(dom, mem, 8 * PAGE, true);
	mprotect(mem, PAGE, PROT_READ);
	ck_assert_int_eq(odp_prefetch(mr, at, PAGE, ODP_PREFETCH), 0);
	ck_assert_int_eq(odp_prefetch(mr, at, PAGE, ODP_PREFETCH_WRITE), -EFAULT);
	odp_mr_put(mr);
}
END_TEST

START_TEST(worker_does_it)
{
	struct odp_mr *mr = util_mr(dom, mem, PAGES * PAGE, true);

	odp_prefetch_drain(dom); /* nothing asked for yet */
	for (unsigned int i = 0; i < PAGES; i++)
		ck_assert_int_eq(odp_prefetch_async(mr, (uintptr_t)mem + i * PAGE, PAGE,
						    ODP_PREFETCH_WRITE),
				 0);
	odp_prefetch_drain(dom);
	ck_assert_uint_eq(pages_with(mr, 7), PAGES);
	ck_assert_uint_eq(util_counters(mr).prefetches, PAGES);
	odp_mr_put(mr);
}
END_TEST

/* Deregistered while the worker is at it, or before it gets there */
START_TEST(worker_outlives_the_mr)
{
	for (unsigned int i = 0; i < 200; i++) {
		uint8_t *p = util_map(512 * PAGE);
		struct odp_mr *mr = util_mr(dom, p, 512 * PAGE, true);

		for (unsigned int k = 0; k < 4; k++)
			ck_assert_int_eq(odp_prefetch_async(mr, (uintptr_t)p, 512 * PAGE,
							    ODP_PREFETCH_WRITE),
					 0);
		odp_mr_put(mr);
		munmap(p, 512 * PAGE);
	}
	if (_i)
		odp_prefetch_drain(dom);
	/* else the domain goes with work in the queue */
}
END_TEST

START_TEST(large_and_sparse)
{
	size_t len = 1ul << 36;
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct odp_mr *mr;

	ck_assert_ptr_ne(p, MAP_FAILED);
	mr = util_mr(dom, p, len, true);
	ck_assert_int_eq(
	    odp_prefetch(mr, (uintptr_t)p + len - 9 * PAGE, 9 * PAGE, ODP_PREFETCH_WRITE),
	    0);
	ck_assert_int_eq(util_write(mr, p + len - 1, 5), 0);
	ck_assert_int_eq(util_write(mr, p, 5), 0);
	ck_assert_uint_eq(util_faults(mr), 1);
	ck_assert_uint_eq(util_counters(mr).pages_prefetched, 9);
	munmap(p, len);
	odp_invalidate(dom, (uintptr_t)p, len,
		       TRACE_INVAL_CALL); /* there may be no events */
	ck_assert_uint_eq(util_counters(mr).pages_invalidated, 10);
	odp_mr_put(mr);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("prefetch");
	TCase *tc = tcase_create("prefetch");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, prefetch_removes_faults);
	tcase_add_test(tc, prefetch_for_reading_is_for_reading_only);
	tcase_add_test(tc, no_fault_takes_what_is_there);
	tcase_add_test(tc, wrong_prefetches_are_refused);
	tcase_add_test(tc, worker_does_it);
	tcase_add_loop_test(tc, worker_outlives_the_mr, 0, 2);
	tcase_add_test(tc, large_and_sparse);
	suite_add_tcase(s, tc);
	return util_run(s);
}
