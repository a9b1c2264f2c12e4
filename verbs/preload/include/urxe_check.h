/*
 * urxe_check.h - what a program may tell the checker of `urxe run --check`.
 *
 * Needs no library: without the checker the functions are not there, and URXE_CHECK_IGNORE() and
 * URXE_CHECK_EXPECT() do nothing.
 */
#ifndef URXE_CHECK_H
#define URXE_CHECK_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Findings about these bytes are not wanted: the program knows what it does there. */
__attribute__((weak, visibility("default"))) void urxe_check_ignore(const void *addr,
								    size_t len);
/* Findings with this identifier will come, and are no reason for the run to fail. */
__attribute__((weak, visibility("default"))) void urxe_check_expect(const char *id);

#define URXE_CHECK_IGNORE(addr, len)                                                     \
	do {                                                                             \
		if (urxe_check_ignore)                                                   \
			urxe_check_ignore((addr), (len));                                \
	} while (0)

#define URXE_CHECK_EXPECT(id)                                                            \
	do {                                                                             \
		if (urxe_check_expect)                                                   \
			urxe_check_expect(id);                                           \
	} while (0)

#ifdef __cplusplus
}
#endif

#endif
