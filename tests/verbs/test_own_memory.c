/*
 * Description: what the library allocates keeps its bytes when it grows or shrinks, and what is not
 * its own goes back to where it came from.
 *
 * The names are those that the linker gives these functions (see own_memory.c); without it they are
 * called by them.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "tests/check_main.h"
#include "verbs/preload/heap.h"

void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);
char *__wrap_strdup(const char *s);

/* Libc's, which serve the program */
static unsigned int gone_back;

void *__real_realloc(void *p, size_t size)
{
	gone_back++;
	return realloc(p, size);
}

void __real_free(void *p)
{
	gone_back++;
	free(p);
}

START_TEST(bytes_stay_when_a_block_grows_or_shrinks)
{
	/* of objects, of units, of mappings, and from one kind to the next */
	static const size_t sizes[] = {
	    1,	      16,   17, 200,	  4096,		  4097,
	    100000,   3000, 7,	1u << 19, (1u << 19) + 1, 3u << 20,
	    1u << 20, 5000, 64, 1};
	static uint8_t bytes[3u << 20];
	size_t kept = 0;
	uint8_t *p = NULL;

	for (size_t j = 0; j < sizeof(bytes); j++)
		bytes[j] = (uint8_t)(j * 7 + 1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i];

		p = __wrap_realloc(p, n);
		ck_assert_ptr_nonnull(p);
		ck_assert_uint_ge(heap_room(p), n);
		ck_assert_int_eq(memcmp(p, bytes, kept < n ? kept : n), 0);
		memcpy(p, bytes, n);
		kept = n;
	}
	__wrap_free(p);
	ck_assert_uint_eq(gone_back, 0);
}
END_TEST

START_TEST(what_is_refused_leaves_the_block)
{
	char *p = __wrap_strdup("kept");

	ck_assert_ptr_null(__wrap_realloc(p, SIZE_MAX / 2));
	ck_assert_int_eq(errno, ENOMEM);
	ck_assert_str_eq(p, "kept");
	__wrap_free(p);
	errno = 0;
	ck_assert_ptr_null(__wrap_calloc(SIZE_MAX / 4 + 2, 4));
	ck_assert_int_eq(errno, ENOMEM);
}
END_TEST

START_TEST(memory_of_libc_goes_back_to_it)
{
	char *p = malloc(10);

	strcpy(p, "libc's");
	p = __wrap_realloc(p, 100000);
	ck_assert_uint_eq(gone_back, 1);
	ck_assert_str_eq(p, "libc's");
	ck_assert_uint_eq(heap_room(p), 0);
	__wrap_free(p);
	ck_assert_uint_eq(gone_back, 2);
	__wrap_free(NULL);
	ck_assert_uint_eq(gone_back, 2);
}
END_TEST

START_TEST(zeros_are_zeros_when_memory_is_used_again)
{
	static const size_t sizes[] = {24, 4096, 50000, 2u << 20};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i];
		uint8_t *p = __wrap_malloc(n);

		memset(p, 0xff, n);
		__wrap_free(p);
		p = __wrap_calloc(n / 8, 8);
		ck_assert(!p[0] && !memcmp(p, p + 1, n - 1));
		__wrap_free(p);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("own_memory");
	TCase *tc = tcase_create("own_memory");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, bytes_stay_when_a_block_grows_or_shrinks);
	tcase_add_test(tc, what_is_refused_leaves_the_block);
	tcase_add_test(tc, memory_of_libc_goes_back_to_it);
	tcase_add_test(tc, zeros_are_zeros_when_memory_is_used_again);
	suite_add_tcase(s, tc);
	return check_main(s);
}
