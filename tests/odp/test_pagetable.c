/*
 * Description: the page table does what an array of bytes would do, flat and sparse,
 * under random publications, touches and clears.
 */
#include "odp/pagetable.h"

#include "tests/odp/util.h"

#define PAGES 3000u

/* struct world - a table, its model, and the pages that the callbacks reported */
struct world {
	struct pagetable pt;
	uint64_t base, stride;
	uint8_t model[PAGES];
	uint8_t listed[PAGES];
};

/* The sparse table has its pages far apart, in groups of 600. */
static uint64_t page_of(const struct world *w, unsigned int i)
{
	return w->base + i + i / 600 * w->stride;
}

static unsigned int index_of(const struct world *w, uint64_t page)
{
	unsigned int group = (page - w->base) / (w->stride + 600);

	return group * 600 + (page - w->base - group * (w->stride + 600));
}

static void came(void *arg, struct pt_leaf *leaf, unsigned int i, uint64_t page)
{
	struct world *w = arg;
	unsigned int n = index_of(w, page);

	MUST((w->listed[n]) == (0));
	w->listed[n] = 1;
	leaf->slot[i] = n;
}

static void went(void *arg, struct pt_leaf *leaf, unsigned int i, uint64_t page)
{
	struct world *w = arg;
	unsigned int n = index_of(w, page);

	MUST((leaf->slot[i]) == (n));
	MUST((w->listed[n]) == (1));
	w->listed[n] = 0;
}

static void do_publish(struct world *w, unsigned int i, unsigned int n, unsigned int r)
{
	uint8_t rw = r & 1 ? PT_READ : PT_READ | PT_WRITE;
	uint8_t flags = r & 2 ? PT_PREFETCHED | PT_FRESH : 0;
	uint64_t expect = 0;

	for (unsigned int k = i; k < i + n; k++) {
		if ((w->model[k] & rw) == rw)
			continue;
		w->model[k] = (w->model[k] & ~PT_FRESH) | rw | flags;
		expect++;
	}
	while (!pt_ready(&w->pt, page_of(w, i), n))
		MUST((pt_prepare(&w->pt, page_of(w, i), n)) == (0));
	MUST((pt_publish(&w->pt, page_of(w, i), n, rw, flags, came, w)) == (expect));
}

static void do_clear(struct world *w, unsigned int i, unsigned int n, bool keep)
{
	uint64_t expect = 0;

	for (unsigned int k = i; k < i + n; k++) {
		expect += w->model[k] != 0;
		w->model[k] = 0;
	}
	MUST((pt_clear(&w->pt, page_of(w, i), n, keep, went, w)) == (expect));
}

static void do_look(struct world *w, unsigned int i, unsigned int n, uint8_t want)
{
	struct pt_span miss = pt_missing(&w->pt, page_of(w, i), n, want);
	unsigned int first = 0, last = 0, missing = 0;
	bool fresh = false;

	for (unsigned int k = i; k < i + n; k++) {
		fresh |= (w->model[k] & PT_FRESH) != 0;
		if ((w->model[k] & want) == want)
			continue;
		if (!missing++)
			first = k;
		last = k;
	}
	MUST((miss.n) == (missing ? last - first + 1 : 0));
	if (missing)
		MUST(miss.first == page_of(w, first));
	MUST((pt_hit(&w->pt, page_of(w, i), n, want)) == (!missing && !fresh));
}

static void do_touch(struct world *w, unsigned int i, unsigned int n, uint8_t want)
{
	uint64_t expect = 0;

	for (unsigned int k = i; k < i + n; k++) {
		if (!(w->model[k] & PT_FRESH) || (w->model[k] & want) != want)
			continue;
		w->model[k] &= ~PT_FRESH;
		expect++;
	}
	MUST((pt_touch(&w->pt, page_of(w, i), n, want)) == (expect));
}

static void check_all(const struct world *w)
{
	uint64_t live = 0;

	for (unsigned int k = 0; k < PAGES; k++) {
		MUST((pt_state(&w->pt, page_of(w, k))) == (w->model[k]));
		MUST((w->listed[k]) == (w->model[k] != 0));
		live += w->model[k] != 0;
	}
	MUST((w->pt.live) == (live));
}

static void random_walk(struct world *w, unsigned int seed)
{
	for (unsigned int turn = 0; turn < 20000; turn++) {
		unsigned int i = rand_r(&seed) % PAGES;
		unsigned int room = 600 - i % 600;
		unsigned int n = 1 + rand_r(&seed) % (rand_r(&seed) % 4 ? 4 : room);
		uint8_t want = rand_r(&seed) % 2 ? PT_READ : PT_READ | PT_WRITE;

		if (n > room)
			n = room;
		switch (rand_r(&seed) % 5) {
		case 0:
			do_publish(w, i, n, rand_r(&seed));
			break;
		case 1:
			do_clear(w, i, n, rand_r(&seed) & 1);
			break;
		case 2:
			do_touch(w, i, n, want);
			break;
		default:
			do_look(w, i, n, want);
		}
		if (turn % 1000 == 0)
			check_all(w);
	}
	check_all(w);
}

START_TEST(flat_is_an_array)
{
	struct world w = {.base = 77777};

	MUST((pt_init(&w.pt, w.base, PAGES, false, true)) == (0));
	random_walk(&w, (unsigned int)_i);
	pt_fini(&w.pt);
}
END_TEST

START_TEST(sparse_is_an_array)
{
	/* groups far enough apart for directories of their own on each level */
	struct world w = {.base = 511, .stride = (1ull << 36) + (1ull << 27) + 12345};

	MUST((pt_init(&w.pt, 0, PT_SPARSE_PAGES, true, true)) == (0));
	random_walk(&w, (unsigned int)_i);
	pt_fini(&w.pt);
}
END_TEST

START_TEST(clear_takes_any_range)
{
	struct pagetable pt;

	MUST((pt_init(&pt, 100, 10, false, false)) == (0));
	pt_publish(&pt, 100, 10, PT_READ, 0, NULL, NULL);
	MUST((pt_clear(&pt, 0, 100, false, NULL, NULL)) == (0));
	MUST((pt_clear(&pt, 110, UINT64_MAX, false, NULL, NULL)) == (0));
	MUST((pt_clear(&pt, 109, UINT64_MAX, false, NULL, NULL)) == (1));
	MUST((pt_clear(&pt, 0, UINT64_MAX, false, NULL, NULL)) == (9));
	pt_fini(&pt);
}
END_TEST

START_TEST(sparse_refuses_what_it_cannot_name)
{
	struct pagetable pt;

	MUST((pt_init(&pt, 0, PT_SPARSE_PAGES, true, false)) == (0));
	MUST(!pt_ready(&pt, PT_SPARSE_PAGES - 1, 2));
	MUST((pt_prepare(&pt, PT_SPARSE_PAGES - 1, 2)) == (-EFAULT));
	MUST((pt_prepare(&pt, UINT64_MAX, 2)) == (-EFAULT));
	MUST(!pt_hit(&pt, PT_SPARSE_PAGES, 1, PT_READ));
	pt_fini(&pt);
}
END_TEST

/* An empty leaf is used again elsewhere instead of a new one. */
START_TEST(leaves_are_used_again)
{
	struct pagetable pt;

	MUST((pt_init(&pt, 0, PT_SPARSE_PAGES, true, false)) == (0));
	MUST((pt_prepare(&pt, 5, 1)) == (0));
	pt_publish(&pt, 5, 1, PT_READ, 0, NULL, NULL);
	MUST((pt_clear(&pt, 5, 1, false, NULL, NULL)) == (1));
	ck_assert_ptr_nonnull(pt.spare);
	ck_assert_ptr_null(pt_leaf(&pt, 5));
	MUST(pt_ready(&pt, 600, 1));
	ck_assert_ptr_null(pt.spare);
	MUST(!pt_hit(&pt, 600, 1, PT_READ));
	pt_fini(&pt);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pagetable");
	TCase *tc = tcase_create("pagetable");

	tcase_add_loop_test(tc, flat_is_an_array, 0, 10);
	tcase_add_loop_test(tc, sparse_is_an_array, 0, 10);
	tcase_add_test(tc, clear_takes_any_range);
	tcase_add_test(tc, sparse_refuses_what_it_cannot_name);
	tcase_add_test(tc, leaves_are_used_again);
	tcase_set_timeout(tc, 30);
	suite_add_tcase(s, tc);
	return util_run(s);
}
