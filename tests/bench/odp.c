/*
 * odp.c - what on-demand paging costs, in one process.
 *
 *   odp prefetch MIB		ms to prefetch cold memory with write access and FLUSH
 *   odp populate MIB		ms for bare MADV_POPULATE_WRITE of such memory
 *   odp touch cold|prefetched	us for an RDMA WRITE of 8 bytes into a page, median
 *   odp munmap odp|plain	us for munmap(2) of 16 resident pages that are in a page
 *		table, or in none, median
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "examples/setup.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE   4096u
#define ROUNDS 7
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND)

static struct device dev;

static char *map(size_t len)
{
	char *p =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_die("mmap: %s", strerror(errno));
	/* the size of pages must not be a matter of luck */
	madvise(p, len, MADV_NOHUGEPAGE);
	return p;
}

static struct ibv_mr *reg(void *p, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(dev.pd, p, len, access);

	if (!mr)
		bench_die("ibv_reg_mr: %s", strerror(errno));
	return mr;
}

static void advise(const struct ibv_mr *mr, void *p, size_t len)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)p, .length = (uint32_t)len, .lkey = mr->lkey};
	int err = ibv_advise_mr(dev.pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);

	if (err)
		bench_die("ibv_advise_mr: %s", strerror(err));
}

static double us_since(uint64_t start)
{
	return (double)(bench_now() - start) / 1e3;
}

static void bench_prefetch(size_t len, bool bare)
{
	double ms[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		char *p = map(len);
		struct ibv_mr *mr = bare ? NULL : reg(p, len, ACCESS);
		uint64_t start = bench_now();

		if (mr)
			advise(mr, p, len);
		else if (madvise(p, len, MADV_POPULATE_WRITE))
			bench_die("MADV_POPULATE_WRITE: %s", strerror(errno));
		ms[i] = us_since(start) / 1e3;
		if (mr)
			ibv_dereg_mr(mr);
		munmap(p, len);
	}
	bench_result(bare ? "populate" : "prefetch", bench_median(ms, ROUNDS), "ms");
}

static void bench_touch(bool prefetched)
{
	enum { N = 4000 };
	static double us[N];
	char *p = map(N * PAGE), *src = map(PAGE);
	struct ibv_mr *mr = reg(p, N * PAGE, ACCESS), *from = reg(src, PAGE, 0);
	struct ibv_qp *left = make_qp(&dev, IBV_QPT_RC, NULL);
	struct ibv_qp *right = make_qp(&dev, IBV_QPT_RC, NULL);
	struct ibv_sge sge = {.addr = (uintptr_t)src, .length = 8, .lkey = from->lkey};
	struct ibv_send_wr *bad, wr = {
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = IBV_WR_RDMA_WRITE,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.rdma.rkey = mr->rkey,
				 };

	connect_qps(&dev, left, right);
	if (prefetched)
		advise(mr, p, N * PAGE);
	for (int i = 0; i < N; i++) {
		uint64_t start = bench_now();

		wr.wr.rdma.remote_addr = (uintptr_t)p + (size_t)i * PAGE;
		if (ibv_post_send(left, &wr, &bad))
			bench_die("ibv_post_send");
		wait_completion(dev.cq);
		us[i] = us_since(start);
	}
	bench_result("touch", bench_median(us, N), "us");
}

static void bench_munmap(bool odp)
{
	enum { N = 2000, PAGES = 16 };
	static double us[N];
	struct ibv_mr *all = reg(NULL, SIZE_MAX, ACCESS);

	for (int i = 0; i < N; i++) {
		char *p = map(PAGES * PAGE);
		uint64_t start;

		if (odp)
			advise(all, p, PAGES * PAGE);
		else
			memset(p, 1, PAGES * PAGE);
		start = bench_now();
		munmap(p, PAGES * PAGE);
		us[i] = us_since(start);
	}
	bench_result("munmap", bench_median(us, N), "us");
}

/* device_open() is an example's, and talks; stdout is for the result. */
static void open_quietly(void)
{
	int out = dup(1), null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	if (out < 0 || null < 0)
		bench_die("/dev/null: %s", strerror(errno));
	dup2(null, 1);
	device_open(&dev);
	fflush(stdout);
	dup2(out, 1);
	close(out);
	close(null);
}

int main(int argc, char **argv)
{
	const char *mode = argc == 3 ? argv[1] : "";

	open_quietly();
	if (!strcmp(mode, "prefetch") || !strcmp(mode, "populate"))
		bench_prefetch((size_t)atol(argv[2]) << 20, mode[1] == 'o');
	else if (!strcmp(mode, "touch"))
		bench_touch(!strcmp(argv[2], "prefetched"));
	else if (!strcmp(mode, "munmap"))
		bench_munmap(!strcmp(argv[2], "odp"));
	else
		bench_die("usage: odp prefetch|populate MIB | touch cold|prefetched | "
			  "munmap odp|plain");
	return 0;
}
