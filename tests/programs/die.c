/*
 * die.c - opens a device, prefetches the 16 pages of a memory region, and ends in the way that
 * its argument names. "lose" loses a page in each of several ways before.
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

static char *memory;
static struct ibv_pd *pd;
static struct ibv_sge sge;

static int prefetch(void)
{
	return ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
}

static int use_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	size_t len = PAGES * (size_t)sysconf(_SC_PAGESIZE);
	void *p =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	mr = pd ? ibv_reg_mr(pd, p, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND)
		: NULL;

	if (!mr)
		return -1;
	memory = p;
	sge = (struct ibv_sge){
	    .addr = (uintptr_t)p, .length = (uint32_t)len, .lkey = mr->lkey};
	return prefetch();
}

/* Pages 0, 2, 4, 6 and 8; the last pages are asked for again, so that all is seen */
static void lose(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *away = mmap(NULL, page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(memory, page, MADV_DONTNEED);
	mprotect(memory + 2 * page, page, PROT_READ);
	mremap(memory + 4 * page, page, page, MREMAP_MAYMOVE | MREMAP_FIXED, away);
	mmap(memory + 6 * page, page, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	munmap(memory + 8 * page, page);
	sge.addr += 12 * page;
	sge.length = (uint32_t)page;
	prefetch();
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "";
	volatile int spin = 1;

	if (use_device()) {
		perror("die");
		return 1;
	}
	if (!strcmp(how, "lose"))
		lose();
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
