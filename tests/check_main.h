/*
 * check_main.h - what main() of a test with Check ends in.
 */
#ifndef URXE_TESTS_CHECK_MAIN_H
#define URXE_TESTS_CHECK_MAIN_H

#include <check.h>
#include <stdlib.h>

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
