/*
 * Description: the HCA reads and writes every kind of memory that a program has:
 * anonymous, shared, memfd, files (private, shared, growing), huge pages, stack, heap,
 * read-only data, and what it must not touch ends in -EFAULT.
 */
#include <fcntl.h>
#include <sys/resource.h>

#include "tests/odp/util.h"

static struct odp_domain *dom;

static void begin(void)
{
	struct odp_config cfg = {.uffd = true};

	ck_assert_int_eq(odp_domain_create(&cfg, NULL, NULL, &dom), 0);
}

static void end(void)
{
	odp_domain_destroy(dom);
}

/*
 * The HCA sees what the CPU wrote, and the CPU what the HCA wrote, each page with one
 * fault.
 */
static void both_ways(uint8_t *p, size_t len)
{
	struct odp_mr *mr = util_mr(dom, p, len, true);
	static uint8_t in[64 * PAGE], out[64 * PAGE];

	ck_assert_uint_le(len, sizeof(in));
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 31 + i / PAGE);
	ck_assert_int_eq(util_read_n(mr, p, in, len), 0);
	ck_assert_uint_eq(util_faults(mr), 1);
	ck_assert_int_eq(memcmp(in, p, len), 0);
	for (size_t i = 0; i < len; i++)
		out[i] = (uint8_t)(i * 17 + 3);
	ck_assert_int_eq(util_write_n(mr, p, out, len), 0);
	ck_assert_int_eq(memcmp(out, p, len), 0);
	ck_assert_int_eq(util_write_n(mr, p, in, len), 0);
	ck_assert_uint_eq(util_faults(mr), 2);
	odp_mr_put(mr);
}

START_TEST(anonymous_memory_is_paged)
{
	both_ways(util_map(8 * PAGE), 8 * PAGE);
}
END_TEST

START_TEST(shared_memory_is_paged)
{
	uint8_t *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	both_ways(p, 8 * PAGE);
}
END_TEST

static int temporary_file(size_t len)
{
	char name[] = "/tmp/urxe-odp-XXXXXX";
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	unlink(name);
	ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
	return fd;
}

START_TEST(a_shared_file_is_paged)
{
	int fd = temporary_file(8 * PAGE);
	uint8_t b, *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	both_ways(p, 8 * PAGE);
	ck_assert_int_eq(pread(fd, &b, 1, PAGE), 1);
	ck_assert_uint_eq(b, p[PAGE]);
}
END_TEST

START_TEST(a_private_file_is_paged)
{
	int fd = temporary_file(8 * PAGE);
	uint8_t b, *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	both_ways(p, 8 * PAGE);
	ck_assert_int_eq(pread(fd, &b, 1, PAGE), 1);
	ck_assert_uint_eq(b, 0);
}
END_TEST

/* An MR over more than the file has; it grows later. */
START_TEST(a_region_may_be_more_than_its_file)
{
	int fd = temporary_file(PAGE);
	uint8_t *p = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	struct odp_mr *mr = util_mr(dom, p, 8 * PAGE, true);

	ck_assert_int_eq(util_write(mr, p, 1), 0);
	ck_assert_int_eq(util_write(mr, p + 5 * PAGE, 1), -EFAULT);
	ck_assert_int_eq(odp_prefetch(mr, (uintptr_t)p, 8 * PAGE, ODP_PREFETCH), -EFAULT);
	ck_assert_int_eq(ftruncate(fd, 8 * PAGE), 0);
	ck_assert_int_eq(util_write(mr, p + 5 * PAGE, 1), 0);
	ck_assert_int_eq(odp_prefetch(mr, (uintptr_t)p, 8 * PAGE, ODP_PREFETCH), 0);
	odp_mr_put(mr);
}
END_TEST

START_TEST(stack_and_heap)
{
	uint8_t on_stack[3 * PAGE], *heap = malloc(40000);

	both_ways(on_stack, sizeof(on_stack));
	both_ways(heap, 40000);
	free(heap);
}
END_TEST

START_TEST(transparent_huge_pages)
{
	uint8_t *p = util_map(8 << 20);

	p = (uint8_t *)(((uintptr_t)p + (2 << 20)) & -(uintptr_t)(2 << 20));
	madvise(p, 4 << 20, MADV_HUGEPAGE);
	both_ways(p + (2 << 20) - 8 * PAGE, 16 * PAGE);
}
END_TEST

START_TEST(read_only_data)
{
	static const uint8_t constant[2 * PAGE] = {1, 2, 3};
	struct odp_mr *mr =
	    util_mr(dom, (void *)(uintptr_t)constant, sizeof(constant), true);

	ck_assert_int_eq(util_read(mr, &constant[2]), 3);
	ck_assert_int_eq(util_write(mr, &constant[2], 4), -EFAULT);
	ck_assert_int_eq(util_read(mr, &constant[2]), 3);
	odp_mr_put(mr);
}
END_TEST

START_TEST(forbidden_memory_is_refused)
{
	uint8_t *p = mmap(NULL, 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct odp_mr *mr = util_mr(dom, p, 2 * PAGE, true), *kernel, *null;
	uint64_t orig;
	struct odp_access acc = {0};

	ck_assert_int_eq(util_read(mr, p), -EFAULT);
	ck_assert_int_eq(util_write(mr, p, 1), -EFAULT);
	ck_assert_int_eq(odp_fetch_add(mr, (uintptr_t)p, 1, &orig, &acc), -EFAULT);
	odp_mr_put(mr);
	null = util_mr(dom, NULL, PAGE, true);
	ck_assert_int_eq(util_read(null, NULL), -EFAULT);
	odp_mr_put(null);
	kernel = util_mr(dom, (void *)0xffff800000000000, PAGE, true);
	ck_assert_int_eq(util_read(kernel, (void *)0xffff800000000000), -EFAULT);
	odp_mr_put(kernel);
	kernel = util_mr(dom, (void *)(UINTPTR_MAX - PAGE + 1), PAGE, true);
	ck_assert_int_eq(util_read(kernel, (void *)UINTPTR_MAX), -EFAULT);
	odp_mr_put(kernel);
}
END_TEST

START_TEST(pinned_memory_takes_no_faults)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr_attr a = {
	    .addr = (uintptr_t)p, .length = 4 * PAGE, .iova = 0, .writable = true};
	struct odp_access acc = {0};
	struct odp_counters c;
	struct odp_mr *mr;
	uint64_t orig;

	ck_assert_int_eq(odp_mr_create(dom, &a, &mr), 0);
	ck_assert_int_eq(odp_write(mr, PAGE, "abcdefgh", 8, &acc), 0);
	ck_assert_int_eq(memcmp(p + PAGE, "abcdefgh", 8), 0);
	ck_assert_int_eq(odp_fetch_add(mr, 8, 5, &orig, &acc), 0);
	ck_assert(!acc.faulted);
	ck_assert_int_eq(odp_prefetch(mr, 0, PAGE, ODP_PREFETCH), -EINVAL);
	c = util_counters(mr);
	ck_assert_uint_eq(c.cache_hits + c.read_faults + c.write_faults, 0);
	munmap(p + PAGE, PAGE);
	ck_assert_int_eq(odp_write(mr, PAGE, "abcdefgh", 8, &acc), -EFAULT);
	odp_mr_put(mr);
	ck_assert_int_eq(odp_mr_create(dom, &a, &mr), -EFAULT);
	a.length = PAGE;
	mprotect(p, PAGE, PROT_READ);
	ck_assert_int_eq(odp_mr_create(dom, &a, &mr), -EFAULT);
	a.writable = false;
	ck_assert_int_eq(odp_mr_create(dom, &a, &mr), 0);
	odp_mr_put(mr);
}
END_TEST

/* Ten thousand small MRs cost little, pinned or on demand, with what the recorder shows of each. */
START_TEST(ten_thousand_regions_cost_little)
{
	enum { N = 10000 };
	static struct odp_mr *mr[2 * N];
	uint8_t *p = util_map(N * 64);
	struct rusage before, after;

	memset(p, 1, N * 64);
	getrusage(RUSAGE_SELF, &before);
	for (unsigned int i = 0; i < 2 * N; i++) {
		struct odp_mr_attr a = {.addr = (uintptr_t)p + i % N * 64,
					.length = 64,
					.writable = true,
					.on_demand = i >= N};

		ck_assert_int_eq(odp_mr_create(dom, &a, &mr[i]), 0);
	}
	getrusage(RUSAGE_SELF, &after);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	ck_assert_int_lt(after.ru_maxrss - before.ru_maxrss,
			 N * (400 + 1400 + 2 * 600) / 1024);
#endif
	for (unsigned int i = N; i < 2 * N; i++) {
		struct odp_access acc = {0};

		ck_assert_int_eq(odp_write(mr[i], 0, "x", 1, &acc), 0);
	}
	odp_invalidate(dom, (uintptr_t)p, N * 64, TRACE_INVAL_CALL);
	ck_assert_uint_eq(util_counters(mr[N]).invalidations, 1);
	for (unsigned int i = 0; i < 2 * N; i++)
		odp_mr_put(mr[i]);
}
END_TEST

START_TEST(huge_pages_are_paged)
{
	size_t huge = 2 << 20;
	uint8_t *p = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	struct odp_mr_attr a = {
	    .on_demand = true, .hugetlb = true, .writable = true, .length = 2 * huge};
	struct odp_access acc = {0};
	uint8_t *small = util_map(3 * huge);
	struct odp_mr *mr;

	/* small pages under a promise of large ones */
	small = (uint8_t *)(((uintptr_t)small + huge) & -(uintptr_t)huge);
	a.addr = (uintptr_t)small;
	ck_assert_int_eq(odp_mr_create(dom, &a, &mr), 0);
	ck_assert_int_eq(odp_write(mr, 0, "x", 1, &acc), -EFAULT);
	ck_assert_int_eq(odp_prefetch(mr, 0, 1, ODP_PREFETCH), -EINVAL);
	odp_mr_put(mr);
	if (p == MAP_FAILED) {
		fprintf(stderr, "no huge pages here: skipped the rest\n");
		return;
	}
	a.addr = (uintptr_t)p;
	ck_assert_int_eq(odp_mr_create(dom, &a, &mr), 0);
	ck_assert_int_eq(odp_write(mr, 0, "x", 1, &acc), 0);
	ck_assert_int_eq(odp_write(mr, huge - 1, "yz", 2, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 2);
	ck_assert_uint_eq(p[huge], 'z');
	madvise(p, huge, MADV_DONTNEED);
	odp_invalidate(dom, (uintptr_t)p, huge, TRACE_INVAL_CALL);
	ck_assert_uint_eq(util_counters(mr).pages_invalidated, 1);
	ck_assert_int_eq(odp_write(mr, 5, "x", 1, &acc), 0);
	ck_assert(acc.faulted);
	odp_mr_put(mr);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("memory");
	TCase *tc = tcase_create("memory");

	tcase_add_checked_fixture(tc, begin, end);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, anonymous_memory_is_paged);
	tcase_add_test(tc, shared_memory_is_paged);
	tcase_add_test(tc, a_shared_file_is_paged);
	tcase_add_test(tc, a_private_file_is_paged);
	tcase_add_test(tc, a_region_may_be_more_than_its_file);
	tcase_add_test(tc, stack_and_heap);
	tcase_add_test(tc, transparent_huge_pages);
	tcase_add_test(tc, read_only_data);
	tcase_add_test(tc, forbidden_memory_is_refused);
	tcase_add_test(tc, pinned_memory_takes_no_faults);
	tcase_add_test(tc, ten_thousand_regions_cost_little);
	tcase_add_test(tc, huge_pages_are_paged);
	suite_add_tcase(s, tc);
	return util_run(s);
}
