/*
 * late.c - opens the first device through a libibverbs that is loaded when it is needed, for programs in other languages.
 */
#include <dlfcn.h>
#include <stddef.h>

int late(void)
{
	void *lib = dlopen("libibverbs.so.1", RTLD_NOW), **devices;
	void **(*list)(int *) = lib ? dlsym(lib, "ibv_get_device_list") : NULL;
	void *(*open)(void *) = lib ? dlsym(lib, "ibv_open_device") : NULL;
	int n;

	return list && open && (devices = list(&n)) && n && open(devices[0]);
}

/* What a Java virtual machine calls when it loads this as a library; its answer is a version of JNI, or a wrong one. */
int JNI_OnLoad(void *vm, void *reserved)
{
	(void)vm;
	(void)reserved;
	return late() ? 0x00010008 : 0;
}
