/*
 * Description: the library's own memory: objects do not overlap, are aligned, zeroed where it
 * was asked for, found again, and stand between guards.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/splitmix.h"
#include "tests/check_main.h"
#include "verbs/preload/heap.h"

#define OBJECTS 3000
#define SEGMENT (1u << 20)

START_TEST(every_size_is_aligned_and_has_its_room)
{
	for (size_t size = 0; size < 3 * SEGMENT; size += size < 9000 ? 1 : 4093) {
		char *p = heap_alloc(size, true);
		bool ok = p && (uintptr_t)p % 16 == 0 && heap_room(p) >= size &&
			  (!size || !(p[0] | p[size - 1]));

		if (ok && size)
			p[0] = p[size - 1] = 1;
		ck_assert_msg(ok && heap_free(p), "%zu bytes at %p", size, (void *)p);
	}
}
END_TEST

/* struct object - the bytes are all @mark */
struct object {
	uint8_t *p;
	size_t size;
	uint8_t mark;
};

static void check_object(const struct object *o)
{
	size_t i = 0;

	while (i < o->size && o->p[i] == o->mark)
		i++;
	ck_assert_uint_eq(i, o->size);
}

/* Mostly small, some of units, some of mappings */
static size_t some_size(uint64_t *rng)
{
	uint64_t n = splitmix_next(rng);

	return n % 64 == 0  ? n / 64 % (2 * SEGMENT)
	       : n % 8 == 0 ? n / 8 % 70000
			    : n % 700;
}

START_TEST(random_lives_do_not_overlap)
{
	static struct object object[OBJECTS];
	uint64_t rng = 1;

	for (int round = 0; round < 30000; round++) {
		struct object *o = &object[splitmix_next(&rng) % OBJECTS];
		bool zero = splitmix_next(&rng) & 1;

		if (o->p) {
			check_object(o);
			ck_assert(heap_free(o->p));
			o->p = NULL;
			continue;
		}
		o->size = some_size(&rng);
		o->mark = 0;
		o->p = heap_alloc(o->size, zero);
		ck_assert_ptr_nonnull(o->p);
		if (zero)
			check_object(o);
		o->mark = (uint8_t)(round | 1);
		memset(o->p, o->mark, o->size);
	}
	for (int i = 0; i < OBJECTS; i++)
		if (object[i].p) {
			check_object(&object[i]);
			heap_free(object[i].p);
		}
}
END_TEST

/* The same again needs nothing new from the kernel: addresses come back. */
START_TEST(what_was_freed_is_used_again)
{
	static char *p[2][OBJECTS];
	char *least[2] = {(char *)UINTPTR_MAX, (char *)UINTPTR_MAX},
	     *most[2] = {NULL, NULL};

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < OBJECTS; i++) {
			p[round][i] = heap_alloc((size_t)i * 3, false);
			least[round] =
			    p[round][i] < least[round] ? p[round][i] : least[round];
			most[round] =
			    p[round][i] > most[round] ? p[round][i] : most[round];
		}
		for (int i = 0; i < OBJECTS; i++)
			ck_assert(heap_free(p[round][i]));
	}
	ck_assert(least[1] >= least[0]);
	ck_assert(most[1] <= most[0]);
}
END_TEST

/* However the parts of a place come back, it is whole again. */
START_TEST(free_neighbours_are_one)
{
	const size_t len = 100 << 10;
	char *whole = heap_alloc(4 * len, false), *p[4];

	ck_assert(heap_free(whole));
	for (int order = 0; order < 256; order++) {
		int at[4] = {order & 3, order >> 2 & 3, order >> 4 & 3, order >> 6};

		if ((1 << at[0] | 1 << at[1] | 1 << at[2] | 1 << at[3]) != 15)
			continue; /* one of them twice */
		for (int i = 0; i < 4; i++) {
			p[i] = heap_alloc(len, false);
			ck_assert_ptr_eq(p[i], whole + (size_t)i * len);
		}
		for (int i = 0; i < 4; i++)
			ck_assert(heap_free(p[at[i]]));
		ck_assert_ptr_eq(heap_alloc(4 * len, false), whole);
		ck_assert(heap_free(whole));
	}
}
END_TEST

START_TEST(memory_of_others_is_not_taken)
{
	char on_stack = 0, *common = calloc(1, 100);

	ck_assert_uint_eq(heap_room(common), 0);
	ck_assert(!heap_free(common));
	free(common);
	ck_assert_uint_eq(heap_room(&on_stack), 0);
	ck_assert(!heap_free(&on_stack));
	ck_assert(!heap_free(NULL));
	ck_assert(!heap_free((void *)(UINTPTR_MAX - 4095)));
}
END_TEST

START_TEST(too_much_is_refused)
{
	errno = 0;
	ck_assert_ptr_null(heap_alloc(SIZE_MAX, false));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_ptr_null(heap_alloc(SIZE_MAX / 2, false));
	ck_assert_ptr_null(heap_alloc((size_t)1 << 60, true));
}
END_TEST

static void expect_fault(char *p)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile char *)p = 1;
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

START_TEST(guards_stand_on_both_sides)
{
	char *p = heap_alloc(100, false), *big = heap_alloc(2 * SEGMENT, false);
	char *base = (char *)((uintptr_t)p & ~(uintptr_t)(SEGMENT - 1));

	expect_fault(base);
	expect_fault(base + SEGMENT - 1);
	expect_fault((char *)((uintptr_t)big & ~(uintptr_t)(SEGMENT - 1)));
	expect_fault(big + heap_room(big));
	big[2 * SEGMENT - 1] = 1;
	heap_free(p);
	heap_free(big);
	/* what had a mapping of its own has gone */
	expect_fault(big);
}
END_TEST

static void *churn(void *stop)
{
	uint64_t rng = (uintptr_t)&rng;

	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
		void *p = heap_alloc(splitmix_next(&rng) % 6000, true);

		ck_assert(heap_free(p));
	}
	return NULL;
}

/* Forks while another thread is inside: the child can go on. */
START_TEST(a_child_of_fork_finds_it_whole)
{
	bool stop = false;
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, churn, &stop), 0);
	for (int i = 0; i < 100; i++) {
		int status;
		pid_t pid;

		heap_fork_prepare();
		pid = fork();
		heap_fork_done();
		if (!pid) {
			alarm(60);
			for (size_t n = 0; n < 200; n++)
				if (!heap_free(heap_alloc(n * 50, true)))
					_exit(1);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("heap");
	TCase *tc = tcase_create("heap");

	tcase_set_timeout(tc, 100);
	tcase_add_test(tc, every_size_is_aligned_and_has_its_room);
	tcase_add_test(tc, random_lives_do_not_overlap);
	tcase_add_test(tc, what_was_freed_is_used_again);
	tcase_add_test(tc, free_neighbours_are_one);
	tcase_add_test(tc, memory_of_others_is_not_taken);
	tcase_add_test(tc, too_much_is_refused);
	tcase_add_test(tc, guards_stand_on_both_sides);
	tcase_add_test(tc, a_child_of_fork_finds_it_whole);
	suite_add_tcase(s, tc);
	return check_main(s);
}
