/*
 * Description: threads that map, unmap, discard, protect, move and prefetch memory and
 * verify every byte, while RDMA of all kinds (RC with and without SRQ, XRC, UC, UD) runs
 * over the same memory.
 *
 * Each worker has a slot of the address space, of 32 pages, and a model of what each page
 * holds; the slots lie side by side in one on-demand MR, and an implicit one covers them,
 * too. A worker changes its own slot only, but all share the device, the page tables and
 * the monitor of unmappings. Its neighbours' unmappings hit the same MR at any moment, so
 * that invalidations race faults and prefetches all the time. What is asserted: each
 * request ends as the mapping wants it (success, or the error for memory that is not
 * there), and after each step memory and what was transferred are what the model says.
 *
 * usage: stress [--seconds N] [--threads N] [--seed N]
 */
#include <getopt.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stress.h"
#include "urxe.h"

#define MAX_THREADS 16
#define PAIR_STEPS  256 /* until another kind of connection */
#define ACCESS                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |     \
	 IBV_ACCESS_REMOTE_ATOMIC)

struct stress stress = {.seed = 1};

static struct worker workers[MAX_THREADS];
static _Atomic bool stop;

void fail(const struct worker *w, const char *what, long a, long b)
{
	fprintf(stderr, "stress: worker %u, step %lu, seed %llu: %s (%ld, %ld)\n", w->id,
		w->steps, (unsigned long long)stress.seed, what, a, b);
	abort();
}

uint64_t rnd(struct worker *w, uint64_t n)
{
	w->rng ^= w->rng << 13;
	w->rng ^= w->rng >> 7;
	w->rng ^= w->rng << 17;
	return w->rng % n;
}

static void step(struct worker *w)
{
	static void (*const steps[])(struct worker *, struct span) = {
	    map,      map,	unmap,	  protect,  protect,  discard,	move_in,  store,
	    prefetch, prefetch, transfer, transfer, transfer, transfer, transfer, atomic,
	};
	struct span s = some_pages(w);

	steps[rnd(w, sizeof(steps) / sizeof(steps[0]))](w, s);
	check_pages(w, s);
	if (w->steps++ % 64 == 0)
		check_pages(w, (struct span){0, PAGES});
	if (w->steps % PAIR_STEPS == 0)
		reconnect(w);
}

static void *worker(void *arg)
{
	struct worker *w = arg;

	while (!stop)
		step(w);
	check_pages(w, (struct span){0, PAGES});
	return NULL;
}

static void prepare(struct worker *w, unsigned int id, char *slot)
{
	*w = (struct worker){.id = id, .slot = slot};
	w->rng = stress.seed * 2654435761u + id * 97 + 1;
	w->buf = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(w->buf != MAP_FAILED, "mmap");
	w->pinned = ibv_reg_mr(stress.dev.pd, w->buf, (PAGES + 1) * PAGE, ACCESS);
	w->cq = ibv_create_cq(stress.dev.ctx, 64, NULL, NULL, 0);
	check(w->pinned && w->cq, "ibv_reg_mr, ibv_create_cq");
	connect_worker(w);
}

static void finish(struct worker *w)
{
	disconnect(w);
	ibv_destroy_cq(w->cq);
	ibv_dereg_mr(w->pinned);
}

static void report(unsigned int n)
{
	unsigned long steps = 0, requests = 0, errors = 0, lost = 0;
	struct urxe_counters c;

	for (unsigned int i = 0; i < n; i++) {
		steps += workers[i].steps;
		requests += workers[i].requests;
		errors += workers[i].errors;
		lost += workers[i].lost;
	}
	for (int k = 0; k < PAIR_KINDS; k++) {
		unsigned long of_kind = 0;

		for (unsigned int i = 0; i < n; i++)
			of_kind += workers[i].of_kind[k];
		printf("%lu of %s, ", of_kind, pair_name((enum pair_kind)k));
	}
	check(urxe_device_counters(stress.dev.ctx, &c, sizeof(c)) == 0,
	      "urxe_device_counters");
	printf("%lu steps, %lu requests (%lu failed as they must, %lu lost), %llu pages "
	       "faulted, %llu "
	       "prefetched, %llu invalidated, %llu faults repeated; no wrong byte\n",
	       steps, requests, errors, lost, (unsigned long long)c.page_faults,
	       (unsigned long long)c.page_prefetch,
	       (unsigned long long)c.page_invalidations,
	       (unsigned long long)c.fault_retries);
}

int main(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"seconds", 1, 0, 's'}, {"threads", 1, 0, 't'}, {"seed", 1, 0, 'r'}, {0}};
	unsigned int seconds = 5, n = 4;
	char *area;
	int o;

	while ((o = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (o == 's')
			seconds = (unsigned int)atoi(optarg);
		else if (o == 't')
			n = (unsigned int)atoi(optarg);
		else if (o == 'r')
			stress.seed = strtoull(optarg, NULL, 10);
		else
			return 2;
	}
	check(n >= 1 && n <= MAX_THREADS, "--threads");
	device_open(&stress.dev);
	area = mmap(NULL, MAX_THREADS * PAGES * PAGE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(area != MAP_FAILED, "mmap");
	stress.whole = ibv_reg_mr(stress.dev.pd, area, MAX_THREADS * PAGES * PAGE,
				  ACCESS | IBV_ACCESS_ON_DEMAND);
	stress.implicit =
	    ibv_reg_mr(stress.dev.pd, NULL, SIZE_MAX, ACCESS | IBV_ACCESS_ON_DEMAND);
	check(stress.whole && stress.implicit, "ibv_reg_mr");
	for (unsigned int i = 0; i < n; i++)
		prepare(&workers[i], i, area + i * PAGES * PAGE);
	for (unsigned int i = 0; i < n; i++)
		check(!pthread_create(&workers[i].thread, NULL, worker, &workers[i]),
		      "pthread_create");
	sleep(seconds);
	stop = true;
	for (unsigned int i = 0; i < n; i++)
		pthread_join(workers[i].thread, NULL);
	report(n);
	for (unsigned int i = 0; i < n; i++)
		finish(&workers[i]);
	ibv_dereg_mr(stress.whole);
	ibv_dereg_mr(stress.implicit);
	device_close(&stress.dev);
	return 0;
}
