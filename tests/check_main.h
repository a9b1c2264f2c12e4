/*
 * check_main.h - what main() of a test with Check ends in.
 */
#ifndef URXE_TESTS_CHECK_MAIN_H
#define URXE_TESTS_CHECK_MAIN_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Runs this in an emulator of user mode (scripts/test --aarch64)? Such a one hands on no
 * socket option and no advice that it does not know, and knows neither seccomp nor userfaultfd.
 */
static inline bool check_emulated(const char *what)
{
	if (!getenv("URXE_TEST_EMULATED"))
		return false;
	fprintf(stderr, "the emulator has no %s: skipped its tests\n", what);
	return true;
}

/* Run the suite; the exit code */
static inline int check_main(Suite *s)
{
	SRunner *r = srunner_create(s);
	int failed;

	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif
