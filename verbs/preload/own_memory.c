/*
 * own_memory.c - what the library allocates is memory of its own, not the program's.
 *
 * The linker lets each call of malloc(3) and its kin from inside end here (ld's --wrap, see
 * meson.build), and heap.c serves it. What libc has allocated for the library (the text
 * of open_memstream(3)) is the program's kind of memory, and goes back there.
 *
 * For tests: with URXE_FAIL_ALLOCATION=N in the environment of the program, the Nth allocation
 * of the process fails, and a line says so.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/preload/heap.h"

void *__real_realloc(void *p, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t size);
void __wrap_free(void *p);
char *__wrap_strdup(const char *s);

/* How many allocations from now one fails; 0: none does */
static atomic_long fail_in;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin(void)
{
	const char *n = getenv("URXE_FAIL_ALLOCATION");

	atomic_store(&fail_in, n ? strtol(n, NULL, 10) : 0);
	pthread_atfork(heap_fork_prepare, heap_fork_done, heap_fork_done);
}

/*
 * The handlers of fork must be the first that the library sets, since those run last before the
 * fork: other locks are held when memory is allocated, never the other way round.
 */
__attribute__((constructor(101))) static void start(void)
{
	pthread_once(&once, begin);
}

static bool shall_fail(void)
{
	pthread_once(&once, begin);
	if (!atomic_load_explicit(&fail_in, memory_order_relaxed) ||
	    atomic_fetch_sub(&fail_in, 1) != 1)
		return false;
	fprintf(stderr, "urxe: an allocation fails, as URXE_FAIL_ALLOCATION asks\n");
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t size)
{
	return shall_fail() ? NULL : heap_alloc(size, false);
}

void *__wrap_calloc(size_t n, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(n, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return shall_fail() ? NULL : heap_alloc(bytes, true);
}

void *__wrap_realloc(void *p, size_t size)
{
	size_t room = heap_room(p);
	void *more;

	if (p && !room)
		return __real_realloc(p, size);
	if (p && size <= room && size >= room / 2)
		return p;
	more = __wrap_malloc(size);
	if (!more || !p)
		return more;
	memcpy(more, p, size < room ? size : room);
	heap_free(p);
	return more;
}

void __wrap_free(void *p)
{
	if (p && !heap_free(p))
		__real_free(p);
}

char *__wrap_strdup(const char *s)
{
	size_t n = strlen(s) + 1;
	char *copy = __wrap_malloc(n);

	return copy ? memcpy(copy, s, n) : NULL;
}
