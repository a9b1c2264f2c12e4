/*
 * agent.c - RDMA in a Java virtual machine: an agent (JVMTI, Agent_OnLoad) with a thread
 * that drives traffic over memory that comes and goes, while the Java program runs.
 *
 * A JVM has SIGSEGV for its own business: null checks, stack banging, safepoints. At the
 * end the agent prints "agent: N requests, N errors, N wrong".
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "examples/setup.h"

#define PAGE   4096u
#define PAGES  16
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static _Atomic bool stop;
static pthread_t thread;
static unsigned long requests, errors, wrong;

static enum ibv_wc_status one(struct device *dev, struct ibv_qp *qp,
			      enum ibv_wr_opcode op, struct ibv_mr *local,
			      struct ibv_mr *remote, size_t at)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)local->addr + at, .length = PAGE, .lkey = local->lkey};
	struct ibv_send_wr *bad,
	    wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = op,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)remote->addr + at,
			    .rkey = remote->rkey},
	    };
	struct ibv_wc wc;

	check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
	while (!ibv_poll_cq(dev->cq, 1, &wc))
		;
	requests++;
	return wc.status;
}

static void turn(struct device *dev, struct ibv_mr *pinned, struct ibv_mr *odp, bool fail)
{
	struct ibv_qp *left = make_qp(dev, IBV_QPT_RC, NULL);
	struct ibv_qp *right = make_qp(dev, IBV_QPT_RC, NULL);
	char *from = pinned->addr, *to = odp->addr;
	int value = (int)(requests & 0x7f);

	connect_qps(dev, left, right);
	memset(from, value, PAGES * PAGE);
	for (size_t i = 0; i < PAGES; i++) {
		wrong += one(dev, left, IBV_WR_RDMA_WRITE, pinned, odp, i * PAGE) !=
			 IBV_WC_SUCCESS;
		wrong += to[i * PAGE] != value || to[i * PAGE + PAGE - 1] != value;
	}
	madvise(to, PAGES * PAGE, MADV_DONTNEED);
	wrong += one(dev, left, IBV_WR_RDMA_READ, pinned, odp, 0) != IBV_WC_SUCCESS;
	wrong += from[0] != 0;
	if (fail) {
		mprotect(to, PAGE, PROT_NONE);
		errors += one(dev, left, IBV_WR_RDMA_READ, pinned, odp, 0) ==
			  IBV_WC_REM_ACCESS_ERR;
		mprotect(to, PAGE, PROT_READ | PROT_WRITE);
	}
	ibv_destroy_qp(left);
	ibv_destroy_qp(right);
}

static void *traffic(void *arg)
{
	struct ibv_mr *pinned, *odp;
	struct device dev;
	char *mem = mmap(NULL, 2 * PAGES * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(mem != MAP_FAILED, "mmap");
	device_open(&dev);
	pinned = ibv_reg_mr(dev.pd, mem, PAGES * PAGE, ACCESS);
	odp = ibv_reg_mr(dev.pd, mem + PAGES * PAGE, PAGES * PAGE,
			 ACCESS | IBV_ACCESS_ON_DEMAND);
	check(pinned && odp, "ibv_reg_mr");
	while (!stop)
		turn(&dev, pinned, odp, requests % 3 == 0);
	ibv_dereg_mr(pinned);
	ibv_dereg_mr(odp);
	device_close(&dev);
	return NULL;
}

__attribute__((visibility("default"))) int Agent_OnLoad(void *vm, char *options,
							void *reserved);
__attribute__((visibility("default"))) void Agent_OnUnload(void *vm);

int Agent_OnLoad(void *vm, char *options, void *reserved)
{
	return pthread_create(&thread, NULL, traffic, NULL);
}

void Agent_OnUnload(void *vm)
{
	stop = true;
	pthread_join(thread, NULL);
	printf("agent: %lu requests, %lu errors, %lu wrong\n", requests, errors, wrong);
	fflush(stdout);
}
