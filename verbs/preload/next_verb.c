/* next_verb.c - see next_verb.h */
#include "verbs/preload/next_verb.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

void *next_verb(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);
	void *lib;

	if (p)
		return p;
	/*
	 * Where libibverbs was loaded for a plug-in only (Python's extensions), it is not
	 * in the global scope behind us.
	 */
	lib = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
	p = lib ? dlsym(lib, name) : NULL;
	if (lib)
		dlclose(lib);
	if (!p)
		errno = ENOSYS;
	return p;
}
