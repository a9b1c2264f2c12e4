/*
 * die.c - opens a device, prefetches the 16 pages of a memory region, and ends in the way that
 * its argument names.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES 16

static int use_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	size_t len = PAGES * (size_t)sysconf(_SC_PAGESIZE);
	void *p =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr =
	    pd ? ibv_reg_mr(pd, p, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND)
	       : NULL;
	struct ibv_sge sge = {.addr = (uintptr_t)p, .length = (uint32_t)len};

	if (!mr)
		return -1;
	sge.lkey = mr->lkey;
	return ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	volatile int spin = 1;

	if (use_device()) {
		perror("die");
		return 1;
	}
	puts("ready");
	fflush(stdout);
	if (!strcmp(how, "_exit"))
		_exit(0);
	if (!strcmp(how, "quick_exit"))
		quick_exit(0);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "kill"))
		kill(getpid(), SIGKILL);
	if (!strcmp(how, "segv"))
		raise(SIGSEGV);
	if (!strcmp(how, "exec"))
		execlp("sleep", "sleep", "1", (char *)NULL);
	if (!strcmp(how, "again"))
		execl("/proc/self/exe", argv[0], "_exit", (char *)NULL);
	if (!strcmp(how, "full"))
		while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
			;
	if (!strcmp(how, "spin"))
		while (spin)
			;
	if (!strcmp(how, "full") || !strcmp(how, "wait"))
		pause();
	return 0;
}
