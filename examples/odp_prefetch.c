/*
 * odp_prefetch.c - memory that is not pinned: faults, prefetch, and what happens when it
 * goes.
 *
 * With IBV_ACCESS_ON_DEMAND registration pins nothing, so it costs the same for a page as
 * for a terabyte, and the program may unmap, move or swap the memory at any time. The
 * device has a page table of its own. A page that it does not have there is a page fault:
 * the device stops and asks the kernel. ibv_advise_mr() fills the table beforehand.
 *
 * Run it with `urxe run --stats`, and with --odp-latency 100us, as on slow hardware.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "setup.h"

#define SIZE (4u << 20)

static double now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* The time of one RDMA WRITE of everything */
static double timed_write(struct device *dev, struct ibv_qp *qp, struct ibv_mr *from,
			  struct ibv_mr *to)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)from->addr, .length = SIZE, .lkey = from->lkey};
	struct ibv_send_wr *bad,
	    wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)to->addr, .rkey = to->rkey},
	    };
	double start = now_us();

	check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
	wait_completion(dev->cq);
	return now_us() - start;
}

static char *map_memory(void)
{
	char *p =
	    mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(p != MAP_FAILED, "mmap");
	return p;
}

/* Ask for all pages with write access, and return when they are there (FLUSH). */
static void prefetch(struct device *dev, struct ibv_mr *mr)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)mr->addr, .length = SIZE, .lkey = mr->lkey};
	int err = ibv_advise_mr(dev->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);

	if (err) {
		fprintf(stderr, "ibv_advise_mr: %s\n", strerror(err));
		check(0, "prefetch");
	}
}

static void require_odp(struct device *dev)
{
	const uint32_t need = IBV_ODP_SUPPORT_WRITE;
	struct ibv_device_attr_ex attr;

	check(ibv_query_device_ex(dev->ctx, NULL, &attr) == 0, "ibv_query_device_ex");
	check((attr.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
		  (attr.odp_caps.per_transport_caps.rc_odp_caps & need) == need,
	      "the device has no on-demand paging");
}

int main(void)
{
	const int access =
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND;
	struct device dev;
	struct ibv_qp *left, *right;
	struct ibv_mr *from, *cold, *warm;
	char *source = map_memory(), *cold_mem = map_memory(), *warm_mem = map_memory();

	memset(source, 'x', SIZE);
	device_open(&dev);
	require_odp(&dev);
	from = ibv_reg_mr(dev.pd, source, SIZE, 0);
	/* Nobody has touched this memory: there is not a page behind it yet. */
	cold = ibv_reg_mr(dev.pd, cold_mem, SIZE, access);
	warm = ibv_reg_mr(dev.pd, warm_mem, SIZE, access);
	check(from && cold && warm, "ibv_reg_mr");
	left = make_qp(&dev, IBV_QPT_RC, NULL);
	right = make_qp(&dev, IBV_QPT_RC, NULL);
	connect_qps(&dev, left, right);

	printf("4 MiB into cold memory:          %8.0f us (page faults on the way)\n",
	       timed_write(&dev, left, from, cold));
	printf("the same again:                  %8.0f us\n",
	       timed_write(&dev, left, from, cold));
	prefetch(&dev, warm);
	printf("into prefetched memory:          %8.0f us\n",
	       timed_write(&dev, left, from, warm));

	/* The pages go back to the kernel; the device notices and faults them in anew. */
	check(madvise(cold_mem, SIZE, MADV_DONTNEED) == 0, "madvise");
	printf("after madvise(MADV_DONTNEED):    %8.0f us (faults again)\n",
	       timed_write(&dev, left, from, cold));
	check(memcmp(cold_mem, source, SIZE) == 0 && memcmp(warm_mem, source, SIZE) == 0,
	      "the data is wrong");
	printf("the data is right in both\n");

	ibv_destroy_qp(left);
	ibv_destroy_qp(right);
	ibv_dereg_mr(from);
	ibv_dereg_mr(cold);
	ibv_dereg_mr(warm);
	device_close(&dev);
	return 0;
}
