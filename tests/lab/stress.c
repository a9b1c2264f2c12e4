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
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "stress_pair.h"
#include "urxe.h"

#define PAGE	    4096u
#define PAGES	    32
#define MAX_THREADS 16
#define GRH_BYTES   40	/* before a received datagram */
#define PAIR_STEPS  256 /* until another kind of connection */
#define LOST_AFTER  5	/* s without the message of an unreliable connection */
#define ACCESS                                                                           \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |     \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* What a page of a slot is */
enum state {
	UNMAPPED,
	NO_ACCESS,
	READ_ONLY,
	MAPPED,
};

/*
 * struct worker
 * @slot:	its memory
 * @state, @value: the model: all 64-bit words of a page hold the same
 * @buf:	pinned memory, as large, and a page more
 * @rng:	xorshift
 */
struct worker {
	unsigned int id;
	pthread_t thread;
	struct ibv_cq *cq;
	struct pair pair;
	char *slot;
	enum state state[PAGES];
	uint64_t value[PAGES];
	uint64_t *buf;
	struct ibv_mr *pinned;
	uint64_t rng;
	unsigned long steps, requests, errors, lost, of_kind[PAIR_KINDS];
};

static struct device dev;
static struct ibv_mr *whole, *implicit;
static struct worker workers[MAX_THREADS];
static _Atomic bool stop;
static uint64_t first_seed = 1;

static void fail(const struct worker *w, const char *what, long a, long b)
{
	fprintf(stderr, "stress: worker %u, step %lu, seed %llu: %s (%ld, %ld)\n", w->id,
		w->steps, (unsigned long long)first_seed, what, a, b);
	abort();
}

static uint64_t rnd(struct worker *w, uint64_t n)
{
	w->rng ^= w->rng << 13;
	w->rng ^= w->rng >> 7;
	w->rng ^= w->rng << 17;
	return w->rng % n;
}

/* --- the range of a step ---------------------------------------------------------- */

struct span {
	unsigned int first, n;
};

static struct span some_pages(struct worker *w)
{
	struct span s = {.first = (unsigned int)rnd(w, PAGES)};

	s.n = 1 + (unsigned int)rnd(w, PAGES - s.first < 8 ? PAGES - s.first : 8);
	return s;
}

static char *at(const struct worker *w, unsigned int page)
{
	return w->slot + page * PAGE;
}

static bool all(const struct worker *w, struct span s, enum state least)
{
	for (unsigned int i = s.first; i < s.first + s.n; i++)
		if (w->state[i] < least)
			return false;
	return true;
}

static void fill(uint64_t *p, uint64_t value)
{
	for (unsigned int i = 0; i < PAGE / 8; i++)
		p[i] = value;
}

static void verify(const struct worker *w, const uint64_t *p, uint64_t value,
		   const char *what, unsigned int page)
{
	for (unsigned int i = 0; i < PAGE / 8; i++)
		if (p[i] != value)
			fail(w, what, page, i);
}

/* The CPU's view against the model */
static void check_pages(const struct worker *w, struct span s)
{
	for (unsigned int i = s.first; i < s.first + s.n; i++)
		if (w->state[i] >= READ_ONLY)
			verify(w, (uint64_t *)at(w, i), w->value[i], "memory is wrong",
			       i);
}

/* --- what is done to memory ------------------------------------------------------- */

static void become(struct worker *w, struct span s, enum state state, bool zero)
{
	for (unsigned int i = s.first; i < s.first + s.n; i++) {
		w->state[i] = state;
		if (zero)
			w->value[i] = 0;
	}
}

static void map(struct worker *w, struct span s)
{
	void *p = mmap(at(w, s.first), s.n * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (p == MAP_FAILED)
		fail(w, "mmap", errno, 0);
	become(w, s, MAPPED, true);
}

/*
 * The hole must stay ours, else other threads' stacks and heaps get there: so memory
 * without access takes its place in the same call. To the kernel it is an unmapping as
 * well.
 */
static void unmap(struct worker *w, struct span s)
{
	if (mmap(at(w, s.first), s.n * PAGE, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		fail(w, "unmapping", errno, 0);
	become(w, s, UNMAPPED, true);
}

static void protect(struct worker *w, struct span s)
{
	static const int prot[] = {
	    [NO_ACCESS] = PROT_NONE,
	    [READ_ONLY] = PROT_READ,
	    [MAPPED] = PROT_READ | PROT_WRITE,
	};
	enum state to = NO_ACCESS + (enum state)rnd(w, 3);

	if (!all(w, s, NO_ACCESS))
		return;
	if (mprotect(at(w, s.first), s.n * PAGE, prot[to]))
		fail(w, "mprotect", errno, 0);
	become(w, s, to, false);
}

static void discard(struct worker *w, struct span s)
{
	if (!all(w, s, NO_ACCESS))
		return;
	if (madvise(at(w, s.first), s.n * PAGE, MADV_DONTNEED))
		fail(w, "madvise", errno, 0);
	for (unsigned int i = s.first; i < s.first + s.n; i++)
		w->value[i] = 0;
}

/* Pages change places with new memory from elsewhere */
static void move_in(struct worker *w, struct span s)
{
	uint64_t value = w->rng;
	uint64_t *p = mmap(NULL, s.n * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail(w, "mmap", errno, 0);
	for (unsigned int i = 0; i < s.n; i++)
		fill(p + i * PAGE / 8, value);
	if (mremap(p, s.n * PAGE, s.n * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		   at(w, s.first)) == MAP_FAILED)
		fail(w, "mremap", errno, 0);
	become(w, s, MAPPED, false);
	for (unsigned int i = s.first; i < s.first + s.n; i++)
		w->value[i] = value;
}

static void store(struct worker *w, struct span s)
{
	for (unsigned int i = s.first; i < s.first + s.n; i++) {
		if (w->state[i] != MAPPED)
			continue;
		w->value[i] = w->rng + i;
		fill((uint64_t *)at(w, i), w->value[i]);
	}
}

/* --- what the device does --------------------------------------------------------- */

static struct ibv_mr *some_mr(struct worker *w)
{
	return rnd(w, 4) ? whole : implicit;
}

static void prefetch(struct worker *w, struct span s)
{
	static const enum ibv_advise_mr_advice advice[] = {
	    IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
	    IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT};
	struct ibv_sge sge = {
	    .addr = (uintptr_t)at(w, s.first),
	    .length = s.n * PAGE,
	    .lkey = some_mr(w)->lkey,
	};
	unsigned int which = (unsigned int)rnd(w, 3);
	bool wait = rnd(w, 2);
	enum state least = which == 0 ? READ_ONLY : MAPPED;
	bool can = which == 2 || all(w, s, least);
	int err = ibv_advise_mr(dev.pd, advice[which],
				wait ? IBV_ADVISE_MR_FLAG_FLUSH : 0, &sge, 1);

	/* EAGAIN: neighbours invalidated for too long */
	if (err && err != EAGAIN && (can || !wait || err != EFAULT))
		fail(w, "prefetch", err, can);
	if (!err && wait && !can)
		fail(w, "prefetch of nothing", which, s.n);
}

static bool reliable(const struct worker *w)
{
	return w->pair.kind < PAIR_UC;
}

/*
 * The sender's completion, and the receiver's if there is one to come (after an error of
 * the sender alone there is none). Unreliable messages may be lost on a loaded machine.
 */
static enum ibv_wc_status wait_for(struct worker *w, bool receives, bool *lost)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	time_t limit = time(NULL) + LOST_AFTER;
	bool sent = false;
	struct ibv_wc wc;

	while (!sent || (receives && !status)) {
		int got = ibv_poll_cq(w->cq, 1, &wc);

		if (got < 0)
			fail(w, "ibv_poll_cq", got, 0);
		*lost = !got && sent && !reliable(w) && time(NULL) > limit;
		if (*lost)
			return IBV_WC_SUCCESS;
		if (!got)
			continue;
		if (wc.wr_id == 1) {
			sent = true;
			status = wc.status;
		} else {
			receives = false;
			if (wc.status && !reliable(w))
				fail(w, "receiving", wc.status, w->pair.kind);
		}
	}
	return status;
}

/*
 * New queue pairs, with numbers of their own: what is still under way for the old ones
 * must not be taken for theirs (IBTA 9.7.1.1: ghost packets)
 */
static void connect_worker(struct worker *w)
{
	struct device d = dev;

	d.cq = w->cq;
	pair_open(&w->pair, &d, (enum pair_kind)rnd(w, PAIR_KINDS));
}

static void disconnect(struct worker *w)
{
	struct ibv_wc wc;

	pair_close(&w->pair);
	while (ibv_poll_cq(w->cq, 1, &wc) > 0)
		;
}

static void reconnect(struct worker *w)
{
	disconnect(w);
	connect_worker(w);
}

/* struct request - what a work request is, and on which connections it can be sent */
struct request {
	enum ibv_wr_opcode op;
	bool to_slot;  /* the slot is written */
	bool slot_far; /* the slot is the peer's memory */
	bool receives; /* takes a receive request */
	enum pair_kind last;
};

static const struct request kinds[] = {
    {IBV_WR_RDMA_WRITE, true, true, false, PAIR_XRC},
    {IBV_WR_RDMA_WRITE, false, false, false, PAIR_XRC},
    {IBV_WR_RDMA_READ, false, true, false, PAIR_XRC},
    {IBV_WR_RDMA_READ, true, false, false, PAIR_XRC},
    {IBV_WR_RDMA_WRITE_WITH_IMM, true, true, true, PAIR_UC},
    {IBV_WR_RDMA_WRITE_WITH_IMM, false, false, true, PAIR_UC},
    {IBV_WR_SEND, true, true, true, PAIR_UD},
    {IBV_WR_SEND, false, false, true, PAIR_UD},
};

static const struct request *some_request(struct worker *w)
{
	const struct request *r;

	do
		r = &kinds[rnd(w, sizeof(kinds) / sizeof(kinds[0]))];
	while (w->pair.kind > r->last);
	return r;
}

static void post_recv(struct worker *w, struct ibv_sge *into, bool data)
{
	struct ibv_sge sge[2] = {{.addr = (uintptr_t)w->buf + PAGES * PAGE,
				  .length = GRH_BYTES,
				  .lkey = w->pinned->lkey}};
	bool grh = w->pair.kind == PAIR_UD;
	struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = sge, .num_sge = grh + data};

	if (data)
		sge[grh] = *into;
	if (pair_post_recv(&w->pair, &wr))
		fail(w, "posting a receive", errno, w->pair.kind);
}

static void post(struct worker *w, const struct request *r, struct span s)
{
	struct ibv_mr *mr = some_mr(w);
	struct ibv_sge slot = {
	    .addr = (uintptr_t)at(w, s.first), .length = s.n * PAGE, .lkey = mr->lkey};
	struct ibv_sge mine = {
	    .addr = (uintptr_t)w->buf, .length = s.n * PAGE, .lkey = w->pinned->lkey};
	struct ibv_send_wr wr = {
	    .wr_id = 1,
	    .sg_list = r->slot_far ? &mine : &slot,
	    .num_sge = 1,
	    .opcode = r->op,
	    .send_flags = IBV_SEND_SIGNALED,
	};

	if (r->op != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = r->slot_far ? slot.addr : mine.addr;
		wr.wr.rdma.rkey = r->slot_far ? mr->rkey : w->pinned->rkey;
	}
	if (r->receives)
		post_recv(w, r->slot_far ? &slot : &mine, r->op == IBV_WR_SEND);
	if (pair_post_send(&w->pair, &wr))
		fail(w, "posting a send", errno, w->pair.kind);
}

static enum ibv_wc_status expected(const struct worker *w, const struct request *r,
				   struct span s)
{
	if (all(w, s, r->to_slot ? MAPPED : READ_ONLY))
		return IBV_WC_SUCCESS;
	if (!r->slot_far)
		return IBV_WC_LOC_PROT_ERR;
	return r->op == IBV_WR_SEND ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR;
}

/* After an error some of the pages may hold the new data: make them the model's. */
static void settle(struct worker *w, struct span s)
{
	for (unsigned int i = s.first; i < s.first + s.n; i++)
		if (w->state[i] == MAPPED)
			fill((uint64_t *)at(w, i), w->value[i]);
}

static void transfer(struct worker *w, struct span s)
{
	const struct request *r = some_request(w);
	enum ibv_wc_status want, got;
	uint64_t value = w->rng;
	bool lost = false;

	if (w->pair.kind == PAIR_UD)
		s.n = 1; /* a datagram is one packet */
	want = expected(w, r, s);
	/* who sends unreliably does not learn what became of it */
	if (want && !reliable(w) && r->slot_far)
		return;
	for (unsigned int i = 0; i < s.n; i++)
		fill(w->buf + i * PAGE / 8, value + i);
	post(w, r, s);
	got = wait_for(w, r->receives, &lost);
	if (got != want)
		fail(w, ibv_wc_status_str(got), want, w->pair.kind * 100 + r->op);
	w->requests++;
	w->of_kind[w->pair.kind]++;
	if (got || lost) {
		w->errors += got != 0;
		w->lost += lost;
		reconnect(w);
		settle(w, s);
		return;
	}
	for (unsigned int i = 0; i < s.n; i++) {
		if (r->to_slot)
			w->value[s.first + i] = value + i;
		else
			verify(w, w->buf + i * PAGE / 8, w->value[s.first + i],
			       "data is wrong", s.first + i);
	}
}

static void atomic(struct worker *w, struct span s)
{
	struct ibv_mr *mr = some_mr(w);
	uint64_t *p = (uint64_t *)at(w, s.first), operand = rnd(w, 1000);
	uint64_t old = w->value[s.first];
	bool swap = rnd(w, 2), same = rnd(w, 2), lost;
	struct ibv_sge sge = {
	    .addr = (uintptr_t)w->buf, .length = 8, .lkey = w->pinned->lkey};
	struct ibv_send_wr wr = {
	    .wr_id = 1,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr.atomic = {.remote_addr = (uintptr_t)p,
			  .rkey = mr->rkey,
			  .compare_add = swap ? (same ? old : ~old) : operand,
			  .swap = operand},
	};
	uint64_t then = swap ? (same ? operand : old) : old + operand;
	enum ibv_wc_status want =
	    w->state[s.first] == MAPPED ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
	enum ibv_wc_status got;

	if (!reliable(w))
		return;
	if (pair_post_send(&w->pair, &wr))
		fail(w, "posting an atomic", errno, w->pair.kind);
	got = wait_for(w, false, &lost);
	w->requests++;
	w->of_kind[w->pair.kind]++;
	if (got != want)
		fail(w, ibv_wc_status_str(got), want, -1);
	if (got) {
		w->errors++;
		reconnect(w);
		return;
	}
	if (w->buf[0] != old || *p != then)
		fail(w, "atomic is wrong", (long)w->buf[0], (long)*p);
	*p = old;
}

/* --- the workers ------------------------------------------------------------------ */

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
	w->rng = first_seed * 2654435761u + id * 97 + 1;
	w->buf = mmap(NULL, (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(w->buf != MAP_FAILED, "mmap");
	w->pinned = ibv_reg_mr(dev.pd, w->buf, (PAGES + 1) * PAGE, ACCESS);
	w->cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
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
	check(urxe_device_counters(dev.ctx, &c, sizeof(c)) == 0, "urxe_device_counters");
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
			first_seed = strtoull(optarg, NULL, 10);
		else
			return 2;
	}
	check(n >= 1 && n <= MAX_THREADS, "--threads");
	device_open(&dev);
	area = mmap(NULL, MAX_THREADS * PAGES * PAGE, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	check(area != MAP_FAILED, "mmap");
	whole = ibv_reg_mr(dev.pd, area, MAX_THREADS * PAGES * PAGE,
			   ACCESS | IBV_ACCESS_ON_DEMAND);
	implicit = ibv_reg_mr(dev.pd, NULL, SIZE_MAX, ACCESS | IBV_ACCESS_ON_DEMAND);
	check(whole && implicit, "ibv_reg_mr");
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
	ibv_dereg_mr(whole);
	ibv_dereg_mr(implicit);
	device_close(&dev);
	return 0;
}
