/*
 * loading.c - prints how many devices libibverbs finds that was loaded in the way that the
 * first argument says
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *must(void *p)
{
	if (p)
		return p;
	fprintf(stderr, "%s\n", dlerror());
	exit(1);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	int deep = RTLD_NOW | (strstr(how, "deep") ? RTLD_DEEPBIND : 0), n = -1;
	struct ibv_device **(*list)(int *);
	int (*count)(void);
	void *lib;

	if (strstr(how, "plug-in")) {
		/* found by the RUNPATH of this program only */
		lib = must(dlopen("libloaded.so", deep));
		count = (int (*)(void))must(dlsym(lib, "count_devices"));
		n = count();
	} else {
		lib = must(strstr(how, "namespace")
			       ? dlmopen(LM_ID_NEWLM, "libibverbs.so.1", RTLD_NOW)
			       : dlopen("libibverbs.so.1", deep));
		list = (struct ibv_device * *(*)(int *))
		    must(dlvsym(lib, "ibv_get_device_list", "IBVERBS_1.1"));
		list(&n);
	}
	printf("%d devices\n", n);
	return 0;
}
