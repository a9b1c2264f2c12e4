/*
 * bad_memory.c - the error path of ibv_create_qp(3) reads what it has freed, and that of ibv_alloc_pd(3) forgets what it
 * has allocated: seen by nobody but AddressSanitizer and valgrind.
 */
#include "side.h"

#include <stdlib.h>

static volatile int *volatile kept;

/* A note of the failure, and what becomes of it */
static int fail(bool read_after)
{
	int *note = malloc(64);

	if (!note)
		return 1;
	*note = 1;
	kept = note;
	if (read_after || !FAULTY)
		free(note);
	if (FAULTY && read_after)
		return *kept ? 1 : 2;
	kept = NULL;
	return 1;
}

int main(void)
{
	struct side s;

	if (!side_open(&s))
		return fail(false);
	s.left = side_qp(&s);
	if (!s.left) {
		side_close(&s);
		return fail(true);
	}
	side_close(&s);
	return 0;
}
