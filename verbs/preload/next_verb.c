/* next_verb.c - see next_verb.h */
#include "verbs/preload/next_verb.h"

#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

/* @name of @file, which is loaded, or of what that needs; NULL */
static void *of_file(const char *file, const char *name)
{
	void *lib = dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
	void *p = lib ? dlsym(lib, name) : NULL;

	if (lib)
		dlclose(lib);
	return p;
}

void *next_verb(const char *name)
{
	void *p = dlsym(RTLD_NEXT, name);

	/*
	 * Where libibverbs was loaded for a plug-in only (Python's extensions), it is not
	 * in the global scope behind us.
	 */
	if (!p)
		p = of_file("libibverbs.so.1", name);
	if (!p)
		errno = ENOSYS;
	return p;
}

void *next_rdmacm(const char *name, const void *caller)
{
	void *p = dlsym(RTLD_NEXT, name);
	Dl_info info;

	if (!p)
		p = of_file("librdmacm.so.1", name);
	if (!p && dladdr(caller, &info))
		p = of_file(info.dli_fname, name);
	if (!p)
		errno = ENOSYS;
	return p;
}
