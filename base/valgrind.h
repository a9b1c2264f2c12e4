/*
 * valgrind.h - does the program run under valgrind? It knows neither every system call nor every
 * way to make a process, and says so loudly, or ends the program.
 */
#ifndef URXE_BASE_VALGRIND_H
#define URXE_BASE_VALGRIND_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* It is known by what it preloads. */
static inline bool under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "vgpreload_");
}

#endif
