/*
 * odp_pitfalls.c - two ways in which page faults of real hardware are far slower than the
 * fault itself, side by side.
 *
 * "Pitfalls of InfiniBand with On-Demand Paging" (ISPASS 2021) describes them:
 *
 * Packet damming: requests that arrive on a connection while another request of it waits
 * for a page are lost, and nobody says so. The sender learns it from its timer, which is
 * some hundred times longer than the fault.
 *
 * Packet flood: while pages are faulted in, connections send their requests again and
 * again, and so delay the fault handling that they wait for: with many of them a fault of
 * a millisecond takes a second.
 *
 * Both are fault models of urxe. Each line below is the same work: every connection READs
 * pages that the peer's device does not have yet, and one page that it has.
 *
 * This program uses urxe.h, and so runs under urxe only: urxe run ./odp_pitfalls
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <urxe.h>

#include "setup.h"

#define CONNECTIONS 16
#define READS	    2 /* of cold pages, each connection */
#define PAGE	    4096u
#define COLD_PAGES  (CONNECTIONS * READS)
#define FAULT_NS    1000000 /* what a fault takes, in all models */

/* struct run - what was measured */
struct run {
	double ms;
	uint64_t packets, not_ready, timeouts;
};

static struct device dev;
static struct ibv_qp *left[CONNECTIONS], *right[CONNECTIONS];
static struct ibv_mr *into, *warm;
static char *cold_mem;

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static char *map_pages(size_t n)
{
	char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(p != MAP_FAILED, "mmap");
	return p;
}

static struct run counters(void)
{
	struct run r = {.ms = now_ms()};

	check(!urxe_device_hw_counter(dev.ctx, "sent_pkts", &r.packets) &&
		  !urxe_device_hw_counter(dev.ctx, "rcvd_rnr_err", &r.not_ready) &&
		  !urxe_device_hw_counter(dev.ctx, "completer_retry_err", &r.timeouts),
	      "urxe_device_hw_counter");
	return r;
}

static void post_read(unsigned int connection, struct ibv_mr *from, size_t page)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)into->addr + connection * PAGE,
	    .length = PAGE,
	    .lkey = into->lkey,
	};
	struct ibv_send_wr *bad,
	    wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = {.remote_addr = (uintptr_t)from->addr + page * PAGE,
			    .rkey = from->rkey},
	    };

	check(ibv_post_send(left[connection], &wr, &bad) == 0, "ibv_post_send");
}

static struct run work(struct ibv_mr *cold)
{
	struct run before = counters(), after;

	for (unsigned int i = 0; i < READS; i++)
		for (unsigned int c = 0; c < CONNECTIONS; c++)
			post_read(c, cold, c * READS + i);
	for (unsigned int c = 0; c < CONNECTIONS; c++)
		post_read(c, warm, 0);
	for (unsigned int i = 0; i < CONNECTIONS * (READS + 1); i++)
		wait_completion(dev.cq);
	after = counters();
	return (struct run){after.ms - before.ms, after.packets - before.packets,
			    after.not_ready - before.not_ready,
			    after.timeouts - before.timeouts};
}

static void show(const char *name, const struct run *r, const struct run *plain)
{
	printf("%-22s %8.1f ms %6.1f x %9" PRIu64 " %6.1f x %10" PRIu64 " %9" PRIu64 "\n",
	       name, r->ms, r->ms / plain->ms, r->packets,
	       (double)r->packets / (double)plain->packets, r->not_ready, r->timeouts);
}

/* Registered anew for each run, the MR's page table is empty each time. */
static struct run with_model(enum urxe_fault_model model, int prefetched)
{
	struct ibv_mr *cold = ibv_reg_mr(dev.pd, cold_mem, COLD_PAGES * PAGE,
					 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ON_DEMAND);
	struct ibv_sge all = {.addr = (uintptr_t)cold_mem, .length = COLD_PAGES * PAGE};
	struct run r;

	check(cold != NULL, "ibv_reg_mr");
	all.lkey = cold->lkey;
	check(urxe_mr_set_fault_model(cold, model, FAULT_NS) == 0,
	      "urxe_mr_set_fault_model");
	if (prefetched)
		check(ibv_advise_mr(dev.pd, IBV_ADVISE_MR_ADVICE_PREFETCH,
				    IBV_ADVISE_MR_FLAG_FLUSH, &all, 1) == 0,
		      "ibv_advise_mr");
	r = work(cold);
	ibv_dereg_mr(cold);
	return r;
}

int main(void)
{
	static const struct {
		const char *name;
		enum urxe_fault_model model;
	} models[] = {
	    {"as ConnectX (rnr)", URXE_FAULT_RNR},
	    {"packet damming", URXE_FAULT_DAMMING},
	    {"packet flood", URXE_FAULT_FLOOD},
	};
	char *warm_mem = map_pages(1), *into_mem = map_pages(CONNECTIONS);
	struct run plain, r;

	cold_mem = map_pages(COLD_PAGES);
	device_open(&dev);
	check(urxe_is_emulated(dev.ctx), "not a device of urxe");
	into = ibv_reg_mr(dev.pd, into_mem, CONNECTIONS * PAGE, IBV_ACCESS_LOCAL_WRITE);
	warm = ibv_reg_mr(dev.pd, warm_mem, PAGE, IBV_ACCESS_REMOTE_READ);
	check(into && warm, "ibv_reg_mr");
	for (unsigned int c = 0; c < CONNECTIONS; c++) {
		left[c] = make_qp(&dev, IBV_QPT_RC, NULL);
		right[c] = make_qp(&dev, IBV_QPT_RC, NULL);
		connect_qps(&dev, left[c], right[c]);
	}

	printf("%d connections, %d READs of cold pages each; a fault takes %d us\n\n"
	       "%-22s %11s %8s %9s %8s %10s %9s\n",
	       CONNECTIONS, READS, FAULT_NS / 1000, "", "time", "", "packets", "",
	       "not ready", "resent");
	plain = with_model(URXE_FAULT_SYNC, 0);
	r = with_model(URXE_FAULT_SYNC, 1);
	show("prefetched", &r, &plain);
	show("plain faults (sync)", &plain, &plain);
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		r = with_model(models[i].model, 0);
		show(models[i].name, &r, &plain);
	}

	for (unsigned int c = 0; c < CONNECTIONS; c++) {
		ibv_destroy_qp(left[c]);
		ibv_destroy_qp(right[c]);
	}
	ibv_dereg_mr(into);
	ibv_dereg_mr(warm);
	device_close(&dev);
	return 0;
}
