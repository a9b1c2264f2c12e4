/*
 * libc.h - the real functions behind those that the library interposes.
 *
 * REAL(NAME) is the next definition of NAME after ours, looked up at its first use; a
 * lookup allocates nothing and takes no lock of ours, so that it may happen in an early
 * constructor or inside malloc. It is for those who interpose. What the rest of the library
 * calls by its plain name never comes to an interposer either: see
 * verbs/preload/own_calls.c. Exceptions are descriptors that the library opens for the
 * program (eventfd), since own_fd.c would make them its own.
 */
#ifndef URXE_VERBS_HOST_LIBC_H
#define URXE_VERBS_HOST_LIBC_H

#include <dlfcn.h>
#include <stdlib.h>

/*
 * Marks what may be called while a sanitizer's runtime is being initialised: nothing of it may
 * be called back.
 */
#define EARLY __attribute__((no_sanitize("address", "thread", "undefined")))

/* Marks a function of the library that takes the place of libc's. */
#define INTERPOSE __attribute__((visibility("default"))) EARLY

/*
 * libc_next - the next definition of @name, kept in *@slot; NULL if there is none. Racing
 * lookups store the same value.
 */
EARLY static inline void *libc_next(void **slot, const char *name)
{
	void *p = __atomic_load_n(slot, __ATOMIC_RELAXED);

	if (!p) {
		p = dlsym(RTLD_NEXT, name);
		__atomic_store_n(slot, p, __ATOMIC_RELAXED);
	}
	return p;
}

/* A pointer to the real @name of the type of its declaration */
#define REAL(name)                                                                       \
	({                                                                               \
		static void *slot_;                                                      \
		(__typeof__(&name))libc_next(&slot_, #name);                             \
	})

#endif
