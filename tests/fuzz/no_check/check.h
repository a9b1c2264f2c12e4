/*
 * check.h - in place of Check's, for helpers of tests that are used where no suite runs: what is
 * not as it must be ends the process.
 */
#ifndef URXE_TESTS_FUZZ_CHECK_H
#define URXE_TESTS_FUZZ_CHECK_H

#include <stdlib.h>
#include <string.h>

#define ck_assert(x)		  ((x) ? (void)0 : abort())
#define ck_assert_msg(x, ...)	  ck_assert(x)
#define ck_abort_msg(...)	  abort()
#define ck_assert_int_eq(a, b)	  ck_assert((a) == (b))
#define ck_assert_int_ge(a, b)	  ck_assert((a) >= (b))
#define ck_assert_int_le(a, b)	  ck_assert((a) <= (b))
#define ck_assert_uint_eq(a, b)	  ck_assert((a) == (b))
#define ck_assert_uint_ne(a, b)	  ck_assert((a) != (b))
#define ck_assert_uint_lt(a, b)	  ck_assert((a) < (b))
#define ck_assert_uint_le(a, b)	  ck_assert((a) <= (b))
#define ck_assert_uint_ge(a, b)	  ck_assert((a) >= (b))
#define ck_assert_ptr_eq(a, b)	  ck_assert((a) == (b))
#define ck_assert_ptr_nonnull(a)  ck_assert((a) != NULL)
#define ck_assert_str_eq(a, b)	  ck_assert(!strcmp(a, b))
#define ck_assert_mem_eq(a, b, n) ck_assert(!memcmp(a, b, n))

#endif
