/*
 * Description: which memory is in use by requests: each use that a range meets is found, by whatever
 * way, and none that it only touches, while uses come and go.
 */
#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"
#include "check/check.h"
#include "check/frames.h"

/* Check, the framework, has a function of a name that the checker has, too. */
#define check_fork check_fork_of_the_framework
#include "tests/check_main.h"
#undef check_fork

#define USES 600

/* What else the checker does with a use is not the subject. */
void check_frames_begin(struct check_use *u)
{
}
void check_frames_end(struct check_use *u)
{
}
void check_frames_forget(void)
{
}

static struct check_use use[USES];
static bool in_use[USES], met[USES];

static bool meet(struct check_use *u, void *arg)
{
	met[u - use] = true;
	return false;
}

static bool meet_one(struct check_use *u, void *arg)
{
	unsigned int *n = arg;

	return !--*n;
}

static void expect(uint64_t addr, uint64_t len)
{
	memset(met, 0, sizeof(met));
	ck_assert(!check_uses_in(addr, len, meet, NULL));
	for (unsigned int i = 0; i < USES; i++) {
		bool meets = in_use[i] && len && use[i].addr < addr + len &&
			     addr < use[i].addr + use[i].len;

		if (meets != met[i])
			ck_abort_msg("%#lx+%#lx: use %u at %#lx+%#lx", (long)addr,
				     (long)len, i, (long)use[i].addr, (long)use[i].len);
	}
}

static void begin(unsigned int i, uint64_t addr, uint64_t len)
{
	use[i] = (struct check_use){.addr = addr, .len = len};
	in_use[i] = check_use_add(&use[i]);
	ck_assert(in_use[i]);
}

static void end(unsigned int i)
{
	check_use_del(&use[i]);
	use[i].piece = NULL;
	in_use[i] = false;
}

/* A range that ends where a use begins does not meet it, whatever its size. */
START_TEST(a_range_meets_to_the_last_byte)
{
	static const uint64_t lens[] = {
	    1,	     4095,	    4096,     8192,	      8193,
	    1 << 18, (1 << 18) + 1, 16 << 20, (16 << 20) + 1, 1ull << 31};
	static const uint64_t at[] = {0x7f0000000000, 0x7f0000000fff, 0x7f0003ffffff};

	for (size_t k = 0; k < sizeof(at) / sizeof(at[0]); k++)
		for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
			uint64_t last = at[k] + lens[i] - 1;

			begin(0, at[k], lens[i]);
			expect(at[k] - 1, 1);
			expect(at[k] - 1, 2);
			expect(at[k], 1);
			expect(last, 1);
			expect(last + 1, 1);
			expect(last, 2);
			expect(last + 1, 1ull << 32);
			expect(at[k] - 4096, 4096);
			expect(at[k] - (1ull << 32), 1ull << 32);
			expect(at[k] - (1ull << 32), 1ull << 40);
			expect(at[k], 0);
			end(0);
			ck_assert(!check_uses_any());
		}
}
END_TEST

static uint64_t some_len(uint64_t *rng)
{
	unsigned int shift = (unsigned int)(splitmix_next(rng) % 26);

	return 1 + splitmix_next(rng) % (1ull << shift);
}

START_TEST(uses_come_and_go)
{
	const uint64_t base = 0x555500000000;
	unsigned int n = 0;
	uint64_t rng = 5;

	for (int turn = 0; turn < 20000; turn++) {
		unsigned int i = (unsigned int)(splitmix_next(&rng) % USES);

		if (in_use[i]) {
			end(i);
			n--;
		} else {
			begin(i, base + splitmix_next(&rng) % (64 << 20), some_len(&rng));
			n++;
		}
		if (turn % 16 == 0)
			expect(base + splitmix_next(&rng) % (64 << 20), some_len(&rng));
	}
	ck_assert_uint_gt(n, 100);
	/* who has found enough is not told of more */
	n = 3;
	ck_assert(check_uses_in(base, 128 << 20, meet_one, &n));
	ck_assert_uint_eq(n, 0);
	for (unsigned int i = 0; i < USES; i++)
		if (in_use[i])
			end(i);
	ck_assert(!check_uses_any());
	expect(base, 128 << 20);
}
END_TEST

/* A child of fork has none. */
START_TEST(all_uses_are_forgotten_at_once)
{
	for (unsigned int i = 0; i < 100; i++)
		begin(i, 0x1000 + i * 100, 50 + i * 300);
	check_forget_uses();
	memset(in_use, 0, sizeof(in_use));
	ck_assert(!check_uses_any());
	expect(0, 1 << 30);
	begin(5, 0x1000, 10);
	expect(0x1009, 1);
	end(5);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ranges");
	TCase *tc = tcase_create("ranges");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_range_meets_to_the_last_byte);
	tcase_add_test(tc, uses_come_and_go);
	tcase_add_test(tc, all_uses_are_forgotten_at_once);
	suite_add_tcase(s, tc);
	return check_main(s);
}
