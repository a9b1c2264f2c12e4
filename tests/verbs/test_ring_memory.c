/*
 * Description: rings are zeroed, apart, reused, and the same memory from both sides.
 */
#include <sys/mman.h>

#include "tests/verbs/util.h"

static struct ring_space rs;
static int fd;

static void setup(void)
{
	ck_assert_int_eq(ring_space_open(&rs, &fd), 0);
}

static void teardown(void)
{
	ring_space_close(&rs);
	close(fd);
}

static uint8_t *take(size_t len, uint64_t *offset)
{
	return rs.owner.alloc(&rs.owner, len, offset);
}

static void give(void *p, size_t len, uint64_t offset)
{
	rs.owner.free(&rs.owner, p, len, offset);
}

START_TEST(both_sides_see_the_same)
{
	uint64_t offset;
	uint8_t *ours = take(10000, &offset), *theirs;

	ck_assert_ptr_nonnull(ours);
	ck_assert_uint_eq(offset % 4096, 0);
	theirs = mmap(NULL, 10000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	ck_assert_ptr_ne(theirs, MAP_FAILED);
	ours[9999] = 1;
	ck_assert_uint_eq(theirs[9999], 1);
	theirs[5] = 2;
	ck_assert_uint_eq(ours[5], 2);
	ck_assert_ptr_eq(ring_space_at(&rs, offset + 5, 9995), ours + 5);
	give(ours, 10000, offset);
	ck_assert_uint_eq(theirs[9999], 0);
	munmap(theirs, 10000);
}
END_TEST

#define RINGS 300

/* Random lives: each ring keeps what was written to it, a new one is zero. */
START_TEST(rings_do_not_overlap)
{
	struct {
		uint8_t *p;
		size_t len;
		uint64_t offset;
	} r[RINGS] = {0};
	unsigned int seed = 5;

	for (int turn = 0; turn < 20000; turn++) {
		int i = rand_r(&seed) % RINGS;

		if (r[i].p) {
			for (size_t j = 0; j < r[i].len; j += 1024)
				ck_assert_uint_eq(r[i].p[j], (uint8_t)(i + 1));
			give(r[i].p, r[i].len, r[i].offset);
			r[i].p = NULL;
			continue;
		}
		r[i].len = 1 + (size_t)rand_r(&seed) % 60000;
		r[i].p = take(r[i].len, &r[i].offset);
		ck_assert_ptr_nonnull(r[i].p);
		for (size_t j = 0; j < r[i].len; j += 1024)
			ck_assert_uint_eq(r[i].p[j], 0);
		memset(r[i].p, i + 1, r[i].len);
	}
}
END_TEST

START_TEST(memory_is_reused)
{
	uint64_t offset;

	for (int i = 0; i < 1000; i++) {
		uint8_t *p = take(500000, &offset);

		ck_assert_ptr_nonnull(p);
		p[0] = 1;
		give(p, 500000, offset);
	}
	ck_assert_uint_le(rs.size, 4u << 20);
}
END_TEST

START_TEST(larger_than_an_arena)
{
	uint64_t offset;
	uint8_t *p = take(300u << 20, &offset);

	ck_assert_ptr_nonnull(p);
	p[(300u << 20) - 1] = 1;
	give(p, 300u << 20, offset);
	ck_assert_ptr_null(take(SIZE_MAX, &offset));
	ck_assert_ptr_null(take(0, &offset));
}
END_TEST

START_TEST(the_program_cannot_shrink_it)
{
	uint64_t offset;

	ck_assert_ptr_nonnull(take(4096, &offset));
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	ck_assert_int_eq(errno, EPERM);
}
END_TEST

START_TEST(bounds_of_a_lookup)
{
	uint64_t offset;
	uint8_t *p = take(4096, &offset);

	ck_assert_ptr_eq(ring_space_at(&rs, offset, 4096), p);
	ck_assert_ptr_null(ring_space_at(&rs, offset, SIZE_MAX));
	ck_assert_ptr_null(ring_space_at(&rs, rs.size, 1));
	ck_assert_ptr_null(ring_space_at(&rs, UINT64_MAX, 1));
}
END_TEST

/* However the parts of an arena come back, it is whole again. */
START_TEST(free_neighbours_are_one)
{
	const size_t len = 256 << 10; /* four of them are the first arena */
	uint64_t offset[4], whole;
	uint8_t *p[4];

	for (int order = 0; order < 256; order++) {
		int at[4] = {order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6};

		if ((1 << at[0] | 1 << at[1] | 1 << at[2] | 1 << at[3]) != 15)
			continue; /* one of them twice */
		for (int i = 0; i < 4; i++)
			ck_assert_ptr_nonnull(p[i] = take(len, &offset[i]));
		for (int i = 0; i < 4; i++)
			give(p[at[i]], len, offset[at[i]]);
		p[0] = take(4 * len, &whole);
		ck_assert_uint_eq(whole, 0);
		ck_assert_uint_eq(rs.size, 4 * len);
		give(p[0], 4 * len, whole);
	}
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, both_sides_see_the_same);
	tcase_add_test(tc, rings_do_not_overlap);
	tcase_add_test(tc, memory_is_reused);
	tcase_add_test(tc, free_neighbours_are_one);
	tcase_add_test(tc, larger_than_an_arena);
	tcase_add_test(tc, the_program_cannot_shrink_it);
	tcase_add_test(tc, bounds_of_a_lookup);
}

int main(void)
{
	return util_run("ring", add);
}
