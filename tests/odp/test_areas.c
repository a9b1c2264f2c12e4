/*
 * Description: the set of ranges has exactly the addresses that a bitmap has.
 */
#include "odp/areas.h"

#include "tests/odp/util.h"

#define SPACE 600

static void compare(const struct areas *a, const bool *in)
{
	struct span found;
	uintptr_t at = 0, n = 0;

	for (uintptr_t i = 0; i < SPACE; i++)
		MUST(areas_cover(a, i, i) == in[i]);
	/* one after the other, without overlap, and nothing between */
	while (areas_find(a, at, SPACE, &found)) {
		n++;
		MUST(found.first >= at && found.last >= found.first);
		for (; at < found.first; at++)
			MUST(!in[at]);
		for (; at <= found.last; at++)
			MUST(in[at]);
	}
	for (; at < SPACE; at++)
		MUST(!in[at]);
	MUST(n == a->n);
}

START_TEST(has_what_a_bitmap_has)
{
	static bool in[SPACE];
	struct areas a = {0};
	unsigned int seed = (unsigned int)_i;

	for (unsigned int turn = 0; turn < 3000; turn++) {
		uintptr_t first = rand_r(&seed) % SPACE;
		uintptr_t last = first + rand_r(&seed) % (turn % 9 ? 12 : 200);
		bool add = rand_r(&seed) % 2, all = true;

		if (last >= SPACE)
			last = SPACE - 1;
		for (uintptr_t i = first; i <= last; i++)
			all = all && in[i];
		MUST(areas_cover(&a, first, last) == all);
		if (add)
			MUST(!areas_add(&a, first, last));
		else
			areas_cut(&a, first, last);
		memset(in + first, add, last - first + 1);
		if (turn % 50 == 0)
			compare(&a, in);
	}
	compare(&a, in);
	areas_fini(&a);
	ck_assert_uint_eq(a.n, 0);
	ck_assert(!areas_cover(&a, 0, 0));
}
END_TEST

START_TEST(the_whole_address_space)
{
	struct areas a = {0};
	struct span s;

	ck_assert_int_eq(areas_add(&a, 0, UINTPTR_MAX), 0);
	ck_assert(areas_cover(&a, 0, UINTPTR_MAX));
	areas_cut(&a, 1, UINTPTR_MAX - 1);
	ck_assert_uint_eq(a.n, 2);
	ck_assert(areas_find(&a, 1, UINTPTR_MAX, &s));
	ck_assert_uint_eq(s.first, UINTPTR_MAX);
	ck_assert_uint_eq(s.last, UINTPTR_MAX);
	ck_assert_int_eq(areas_add(&a, 0, UINTPTR_MAX), 0);
	ck_assert_uint_eq(a.n, 1);
	areas_fini(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("areas");
	TCase *tc = tcase_create("areas");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, has_what_a_bitmap_has, 0, 8);
	tcase_add_test(tc, the_whole_address_space);
	suite_add_tcase(s, tc);
	return util_run(s);
}
