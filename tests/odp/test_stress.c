/*
 * Description: threads that map, unmap, discard, move, protect and prefetch while others
 * access the same memory as the HCA does. No byte may ever be wrong, nothing may crash or
 * hang, and the counters add up. Run it under the sanitizers.
 *
 * Each slot of the arena has a lock that orders the changes of the program, and a value
 * that all its bytes have; who holds the lock writes and reads the slot as the HCA does
 * and compares. Other accesses of the HCA take no lock, as on hardware: they end well or
 * in -EFAULT.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/odp/util.h"

#define SLOTS	   16u
#define SLOT_PAGES 4u
#define SLOT_BYTES (SLOT_PAGES * PAGE)
#define BYTES	   (SLOTS * SLOT_BYTES)

static struct odp_domain *dom;
static struct odp_mr *mrs[3];
static uint8_t *arena, *elsewhere;
/* Which world this is, see test_invalidate.c */
static bool interposed, announced;
static __thread bool released;
static _Atomic bool stop;
static _Atomic uint64_t accesses, refused;

static pthread_mutex_t slots[SLOTS];

static uint8_t *slot_at(unsigned int i)
{
	return arena + i * SLOT_BYTES;
}

/* What interposition does before a call, and after it */
static void about(const void *p, size_t len)
{
	released = announced && odp_change_begin(dom, (uintptr_t)p, len, true);
}

static void told(const void *p, size_t len, bool remains)
{
	if (interposed)
		odp_invalidate(dom, (uintptr_t)p, len, TRACE_INVAL_CALL);
	if (released)
		odp_change_end(dom, (uintptr_t)p, len, remains, TRACE_INVAL_UNMAP);
	released = false;
}

/* What the program writes, through the HCA so that no CPU access of the test can fault */
static void fill(unsigned int i, uint8_t value)
{
	uint8_t buf[SLOT_BYTES];

	memset(buf, value, sizeof(buf));
	MUST(!util_write_n(mrs[i % 2], slot_at(i), buf, SLOT_BYTES));
}

/* Read a slot back while nobody changes it: all one value */
static void verify(unsigned int i, uint8_t value)
{
	uint8_t buf[SLOT_BYTES];

	MUST(!util_read_n(mrs[i % 3], slot_at(i), buf, SLOT_BYTES));
	for (unsigned int k = 0; k < SLOT_BYTES; k++)
		MUST(buf[k] == value);
}

static void remap(uint8_t *p)
{
	about(p, SLOT_BYTES);
	MUST(mmap(p, SLOT_BYTES, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p);
	told(p, SLOT_BYTES, false);
}

/* One change of a slot, with the lock; what it holds afterwards */
static uint8_t change(unsigned int i, unsigned int what, uint8_t value)
{
	uint8_t *p = slot_at(i), *q;

	switch (what % 6) {
	case 0:
		about(p, SLOT_BYTES);
		munmap(p, SLOT_BYTES);
		told(p, SLOT_BYTES, false);
		sched_yield();
		remap(p);
		return 0;
	case 1:
		about(p, SLOT_BYTES);
		madvise(p, SLOT_BYTES, MADV_DONTNEED);
		told(p, SLOT_BYTES, true);
		return 0;
	case 2:
		remap(p);
		return 0;
	case 3:
		mprotect(p, SLOT_BYTES, PROT_NONE);
		told(p, SLOT_BYTES, false);
		sched_yield();
		mprotect(p, SLOT_BYTES, PROT_READ | PROT_WRITE);
		told(p, SLOT_BYTES, false);
		return value;
	case 4:
		/* away and back: the contents travel */
		q = elsewhere + i * SLOT_BYTES;
		about(p, SLOT_BYTES);
		mremap(p, SLOT_BYTES, SLOT_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, q);
		told(p, SLOT_BYTES, false);
		about(q, SLOT_BYTES);
		mremap(q, SLOT_BYTES, SLOT_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, p);
		told(q, SLOT_BYTES, false);
		return value;
	default:
		madvise(p, PAGE, MADV_PAGEOUT);
		return value;
	}
}

static void *changer(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;

	while (!stop) {
		unsigned int i = rand_r(&seed) % SLOTS;
		uint8_t value = (uint8_t)(1 + rand_r(&seed) % 255);

		pthread_mutex_lock(&slots[i]);
		fill(i, value);
		verify(i, value);
		value = change(i, rand_r(&seed), value);
		verify(i, value);
		verify(i, value);
		pthread_mutex_unlock(&slots[i]);
	}
	return NULL;
}

/* The HCA reads anywhere at any time: success or -EFAULT, never anything else. */
static void *reader(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	uint8_t buf[2 * PAGE];

	while (!stop) {
		size_t len = 1 + rand_r(&seed) % sizeof(buf);
		size_t off = rand_r(&seed) % (BYTES - sizeof(buf));
		int ret = util_read_n(mrs[rand_r(&seed) % 3], arena + off, buf, len);

		MUST(!ret || ret == -EFAULT);
		accesses++;
		refused += ret != 0;
	}
	return NULL;
}

static void *prefetcher(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	uint8_t map[BYTES / PAGE];
	struct odp_mr_attr a = {.writable = true, .on_demand = true};
	struct odp_counters c;

	while (!stop) {
		size_t off = rand_r(&seed) % BYTES;
		size_t len = rand_r(&seed) % (BYTES - off);
		struct odp_mr *mr = mrs[rand_r(&seed) % 3], *brief;
		enum odp_advice advice = rand_r(&seed) % 3;
		int ret = odp_prefetch(mr, (uintptr_t)arena + off, len, advice);

		MUST(!ret || ret == -EFAULT || ret == -EAGAIN || ret == -EPERM);
		odp_prefetch_async(mr, (uintptr_t)arena + off, len, rand_r(&seed) % 3);
		odp_mr_page_map(mr, (uintptr_t)arena, map, sizeof(map));
		odp_domain_counters(dom, &c);
		/* MRs come and go */
		a.addr = (uintptr_t)arena + off;
		a.length = len + 1;
		a.iova = a.addr;
		MUST(!odp_mr_create(dom, &a, &brief));
		odp_prefetch_async(brief, (uintptr_t)arena + off, len,
				   ODP_PREFETCH_WRITE);
		odp_mr_put(brief);
		if (rand_r(&seed) % 16 == 0)
			odp_prefetch_drain(dom);
	}
	return NULL;
}

/*
 * Memory far from where the kernel puts what it is asked for: else something of the C
 * library or of a sanitizer could come into a slot while it is unmapped, and be mapped
 * over.
 */
static uint8_t *remote_map(uintptr_t where)
{
	uint8_t *p = mmap((void *)where, BYTES, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	return p;
}

static void sum(void *arg, const struct odp_mr_info *info)
{
	*(uint64_t *)arg += info->pages_cached;
}

/* @both: userfaultfd and interposition */
static void run(struct odp_config cfg, bool both)
{
	void *(*const fns[])(void *) = {changer, changer, reader, prefetcher};
	struct timespec t = {.tv_sec = getenv("ODP_STRESS_SECONDS")
					   ? atoi(getenv("ODP_STRESS_SECONDS"))
					   : 2};
	pthread_t thread[4];
	struct odp_counters c;
	uint64_t cached = 0;

	interposed = !cfg.uffd;
	announced = both;
	ck_assert_int_eq(odp_domain_create(&cfg, NULL, NULL, &dom), 0);
	arena = remote_map(0x7e9000000000);
	elsewhere = remote_map(0x7e9100000000);
	mrs[0] = util_mr(dom, arena, BYTES, true);
	mrs[1] = util_implicit(dom);
	mrs[2] = util_mr(dom, arena, BYTES, false);
	for (unsigned int i = 0; i < SLOTS; i++)
		pthread_mutex_init(&slots[i], NULL);
	for (uintptr_t i = 0; i < 4; i++)
		ck_assert_int_eq(
		    pthread_create(&thread[i], NULL, fns[i], (void *)(i + 1)), 0);
	nanosleep(&t, NULL);
	stop = true;
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	odp_prefetch_drain(dom);
	odp_domain_counters(dom, &c);
	ck_assert_uint_eq(c.read_faults + c.write_faults,
			  c.local_faults + c.remote_faults);
	ck_assert_uint_gt(c.invalidations, 0);
	ck_assert_uint_gt(c.cache_hits, 0);
	if (!cfg.max_pages) /* else the prefetched pages may go before they are used */
		ck_assert_uint_gt(c.prefetch_hits, 0);
	ck_assert_uint_gt(accesses, 0);
	printf("%llu accesses of the reader, %llu refused; faults %llu, retries %llu, "
	       "invalidations %llu, evictions %llu\n",
	       (unsigned long long)accesses, (unsigned long long)refused,
	       (unsigned long long)(c.read_faults + c.write_faults),
	       (unsigned long long)c.retries, (unsigned long long)c.invalidations,
	       (unsigned long long)c.evictions);
	/* nothing is left in the tables when nothing is left in memory */
	munmap(arena, BYTES);
	odp_invalidate(dom, 0, SIZE_MAX, TRACE_INVAL_CALL);
	odp_domain_each(dom, sum, &cached);
	ck_assert_uint_eq(cached, 0);
	for (unsigned int i = 0; i < 3; i++)
		odp_mr_put(mrs[i]);
	odp_domain_destroy(dom);
}

START_TEST(changes_are_seen_by_userfaultfd)
{
	run((struct odp_config){.uffd = true}, false);
}
END_TEST

START_TEST(changes_are_seen_by_both)
{
	run((struct odp_config){.uffd = true}, true);
}
END_TEST

START_TEST(changes_are_seen_by_interposition)
{
	run((struct odp_config){0}, false);
}
END_TEST

START_TEST(with_a_bound)
{
	run((struct odp_config){.uffd = true, .max_pages = 20}, true);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("stress");
	TCase *tc = tcase_create("stress");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, changes_are_seen_by_userfaultfd);
	tcase_add_test(tc, changes_are_seen_by_both);
	tcase_add_test(tc, changes_are_seen_by_interposition);
	tcase_add_test(tc, with_a_bound);
	suite_add_tcase(s, tc);
	return util_run(s);
}
