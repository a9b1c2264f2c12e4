/* peers.c - programs whose memory several change at once: peers, or a peer and the program itself */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "corpus.h"
#include "kit.h"

#define SIGNALED IBV_SEND_SIGNALED
#define LOCAL	 IBV_ACCESS_LOCAL_WRITE
#define REMOTE	 (LOCAL | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define BIG	 (32u << 10)
#define MANY	 100
#define LARGE	 (256u << 10)
#define ROUNDS	 20
#define BURST	 16u
#define MEETINGS 40
#define ENOUGH	 2000000 /* us, in which they have met often enough */
#define QUICK	 150	 /* us: nobody was made to wait for the CPU */
#define LONG	 300000	 /* us, in which two processes meet */

/* struct two - peers of the same memory; from @large to @there they write much, @note is for messages */
struct two {
	struct kit a, b;
	char *from, *to, *large, *there, *note;
	struct ibv_mr *from_mr, *to_mr, *large_mr, *there_mr, *note_mr;
};

static void two_open(struct two *t)
{
	kit_open(&t->a);
	t->b = t->a;
	t->b.left_cq = t->b.right_cq = NULL;
	kit_connect(&t->b);
	t->from = kit_map(BIG);
	t->to = kit_map(2 * BIG);
	t->from_mr = kit_reg(&t->a, t->from, BIG, LOCAL);
	t->to_mr = kit_reg(&t->a, t->to, 2 * BIG, REMOTE);
}

static void two_close(struct two *t)
{
	kit_destroy_qps(&t->a);
	kit_destroy_qps(&t->b);
	kit_dereg(t->from_mr);
	kit_dereg(t->to_mr);
	NEED(!ibv_destroy_cq(t->b.left_cq));
	NEED(!ibv_destroy_cq(t->b.right_cq));
	kit_close_rest(&t->a);
}

/* The second peer changes @len bytes at @there while the first writes to the first half. */
static void both_write(struct two *t, enum ibv_wr_opcode op, uint32_t len, char *there,
		       bool waits)
{
	for (int i = 0; i < ROUNDS; i++) {
		NEED(!kit_rdma(t->a.left, IBV_WR_RDMA_WRITE, t->from_mr, t->from, BIG,
			       t->to, t->to_mr->rkey, SIGNALED));
		if (waits)
			kit_good(t->a.left_cq);
		NEED(!kit_rdma(t->b.left, op, t->from_mr, t->from, len, there,
			       t->to_mr->rkey, SIGNALED));
		kit_good(t->b.left_cq);
		if (!waits)
			kit_good(t->a.left_cq);
	}
}

static void remote_unordered(bool wrong)
{
	struct two t;

	two_open(&t);
	both_write(&t, IBV_WR_RDMA_WRITE, BIG, t.to, !wrong);
	two_close(&t);
}

/* By one byte; the right one writes behind it */
/* One that writes to the same bytes twice has an order, also where there are others */
static void remote_unordered_beside_one_that_is(bool wrong)
{
	struct two t;

	two_open(&t);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_qp *again = wrong ? t.b.left : t.a.left;

		NEED(!kit_rdma(t.b.left, IBV_WR_RDMA_WRITE, t.from_mr, t.from, 8,
			       t.to + BIG, t.to_mr->rkey, SIGNALED));
		kit_good(t.b.left_cq);
		NEED(!kit_rdma(t.a.left, IBV_WR_RDMA_WRITE, t.from_mr, t.from, BIG, t.to,
			       t.to_mr->rkey, SIGNALED));
		NEED(!kit_rdma(again, IBV_WR_RDMA_WRITE, t.from_mr, t.from, BIG, t.to,
			       t.to_mr->rkey, SIGNALED));
		kit_good(t.a.left_cq);
		kit_good(wrong ? t.b.left_cq : t.a.left_cq);
	}
	two_close(&t);
}

static void remote_unordered_by_a_byte(bool wrong)
{
	struct two t;

	two_open(&t);
	both_write(&t, IBV_WR_RDMA_WRITE, 1000, t.to + BIG - wrong, false);
	two_close(&t);
}

/* A large WRITE by one connection, and a message by @teller that is taken for its end */
static void write_and_tell(struct two *t, struct kit *teller, enum ibv_wr_opcode op,
			   bool waits)
{
	char copy[64];

	NEED(!kit_recv(teller->right, t->note_mr, t->note, 64));
	NEED(!kit_rdma(t->a.left, IBV_WR_RDMA_WRITE, t->large_mr, t->large, LARGE,
		       t->there, t->there_mr->rkey, SIGNALED));
	if (waits)
		kit_good(t->a.left_cq);
	NEED(!kit_rdma(teller->left, op, t->from_mr, t->from,
		       op == IBV_WR_SEND_WITH_IMM ? 64 : 0, t->to, t->to_mr->rkey,
		       SIGNALED));
	kit_good(teller->right_cq);
	memcpy(copy, t->there + LARGE - sizeof(copy), sizeof(copy));
	NEED(copy[63] == 0 || copy[63] == 1);
	if (!waits)
		kit_good(t->a.left_cq);
	kit_good(teller->left_cq);
}

static void told(bool wrong, enum ibv_wr_opcode op)
{
	struct two t;

	two_open(&t);
	t.large = kit_map(LARGE);
	t.there = kit_map(LARGE);
	t.note = kit_map(KIT_PAGE);
	memset(t.large, 1, LARGE);
	t.large_mr = kit_reg(&t.a, t.large, LARGE, LOCAL);
	t.there_mr = kit_reg(&t.a, t.there, LARGE, REMOTE);
	t.note_mr = kit_reg(&t.a, t.note, KIT_PAGE, LOCAL);
	/* a peer uses the rest, too */
	NEED(!kit_rdma(t.a.left, IBV_WR_RDMA_WRITE, t.from_mr, t.from, 8, t.to,
		       t.to_mr->rkey, SIGNALED));
	kit_good(t.a.left_cq);
	for (int i = 0; i < MANY; i++) {
		/* that of the WRITE itself has an order with it */
		if (!wrong && i % 2)
			write_and_tell(&t, &t.a, op, false);
		else
			write_and_tell(&t, &t.b, op, !wrong);
	}
	kit_destroy_qps(&t.a);
	kit_destroy_qps(&t.b);
	kit_dereg(t.large_mr);
	kit_dereg(t.there_mr);
	kit_dereg(t.note_mr);
	two_close(&t);
}

static void other_qp_told(bool wrong)
{
	told(wrong, IBV_WR_RDMA_WRITE_WITH_IMM);
}

static void other_qp_told_by_a_send(bool wrong)
{
	told(wrong, IBV_WR_SEND_WITH_IMM);
}

/* struct told - by one process to the other */
struct told {
	uint32_t qpn, rkey;
	uint64_t addr;
};

static void tell(int fd, struct told t)
{
	NEED(write(fd, &t, sizeof(t)) == sizeof(t));
}

static struct told hear(int fd)
{
	struct told t;

	NEED(read(fd, &t, sizeof(t)) == sizeof(t));
	return t;
}

/* The other process has one QP, and hears from the first one where to write. */
static struct told child_open(struct kit *k, int from, int to)
{
	struct told there;

	kit_device(k);
	NEED(k->left_cq = ibv_create_cq(k->ctx, 32, NULL, NULL, 0));
	k->left = kit_qp(k, k->left_cq, NULL);
	tell(to, (struct told){.qpn = k->left->qp_num});
	there = hear(from);
	kit_connect_qp(k, k->left, there.qpn);
	return there;
}

static void write_from_child(int from, int to)
{
	struct ibv_mr *mr;
	struct told there;
	struct kit k;

	there = child_open(&k, from, to);
	mr = kit_reg(&k, kit_map(BIG), BIG, LOCAL);
	for (uint64_t end = kit_us() + LONG; kit_us() < end;) {
		NEED(!kit_rdma(k.left, IBV_WR_RDMA_WRITE, mr, mr->addr, BIG,
			       (char *)(uintptr_t)there.addr, there.rkey, SIGNALED));
		kit_good(k.left_cq);
	}
	kit_destroy_qps(&k);
	kit_dereg(mr);
	kit_close_rest(&k);
	tell(to, (struct told){.qpn = 0});
}

/* The first process, whose memory it is, writes there, too. */
static void write_from_parent(int from, int to, bool wrong)
{
	struct pollfd done = {.fd = from, .events = POLLIN};
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct two t;

	kit_open(&t.a);
	t.from = kit_map(BIG);
	t.to = kit_map(2 * BIG);
	t.from_mr = kit_reg(&t.a, t.from, BIG, LOCAL);
	t.to_mr = kit_reg(&t.a, t.to, 2 * BIG, REMOTE);
	NEED(cq = ibv_create_cq(t.a.ctx, 32, NULL, NULL, 0));
	qp = kit_qp(&t.a, cq, NULL);
	kit_connect_qp(&t.a, qp, hear(from).qpn);
	tell(to, (struct told){qp->qp_num, t.to_mr->rkey,
			       (uintptr_t)t.to + (wrong ? 0 : BIG)});
	while (!poll(&done, 1, 0)) {
		NEED(!kit_rdma(t.a.left, IBV_WR_RDMA_WRITE, t.from_mr, t.from, BIG, t.to,
			       t.to_mr->rkey, SIGNALED));
		kit_good(t.a.left_cq);
	}
	NEED(!ibv_destroy_qp(qp));
	NEED(!ibv_destroy_cq(cq));
	kit_destroy_qps(&t.a);
	kit_dereg(t.from_mr);
	kit_dereg(t.to_mr);
	kit_close_rest(&t.a);
}

/* Each of the two processes waits for its own WRITEs only. */
static void remote_unordered_of_two_processes(bool wrong)
{
	int down[2], up[2], status;
	pid_t child;

	NEED(!pipe(down) && !pipe(up));
	NEED((child = fork()) >= 0);
	if (!child) {
		write_from_child(down[0], up[1]);
		exit(0);
	}
	write_from_parent(up[0], down[1], wrong);
	NEED(waitpid(child, &status, 0) == child && !status);
}

/* struct job - the program's @stores to @word until the peer is done */
struct job {
	_Atomic uint64_t *word, stores;
	atomic_bool done;
};

static void *store(void *arg)
{
	struct job *j = arg;
	while (!atomic_load(&j->done))
		atomic_store(j->word, 1000000 + atomic_fetch_add(&j->stores, 1));
	return NULL;
}

static void *add(void *arg)
{
	struct job *j = arg;

	while (!atomic_load(&j->done)) {
		atomic_fetch_add(j->word, 1u << 20);
		atomic_fetch_add(&j->stores, 1);
	}
	return NULL;
}

/* Many atomics at a time, as a list; the answers go to @mr */
static void atomics(struct kit *k, enum ibv_wr_opcode op, uint64_t word, uint32_t rkey,
		    struct ibv_mr *mr)
{
	struct ibv_send_wr wr[BURST], *bad;
	struct ibv_sge sge[BURST];

	for (unsigned int i = 0; i < BURST; i++) {
		sge[i] = (struct ibv_sge){(uintptr_t)mr->addr + 8 * i, 8, mr->lkey};
		wr[i] = (struct ibv_send_wr){
		    .sg_list = &sge[i],
		    .num_sge = 1,
		    .opcode = op,
		    .send_flags = i + 1 == BURST ? SIGNALED : 0,
		    .next = i + 1 == BURST ? NULL : &wr[i + 1],
		    .wr.atomic = {.remote_addr = word, .rkey = rkey, .compare_add = 1}};
	}
	NEED(!ibv_post_send(k->left, wr, &bad));
	kit_good(k->left_cq);
}

static void atomics_and_stores(bool wrong, enum ibv_wr_opcode op, void *(*fn)(void *job))
{
	struct two t;
	struct job j = {.done = false};
	pthread_t thread;
	uint64_t end;

	two_open(&t);
	/* no peer writes there any more */
	NEED(!kit_rdma(t.a.left, IBV_WR_RDMA_WRITE, t.from_mr, t.from, 8, t.to + BIG,
		       t.to_mr->rkey, SIGNALED));
	kit_good(t.a.left_cq);
	j.word = (void *)(t.to + (wrong ? 0 : 8));
	NEED(!pthread_create(&thread, NULL, fn, &j));
	end = kit_us() + ENOUGH;
	/* on a loaded machine the two seldom run at the same time */
	for (int met = 0; met < MEETINGS && kit_us() < end;) {
		uint64_t before = atomic_load(&j.stores), begin = kit_us();

		atomics(&t.a, op, (uintptr_t)t.to, t.to_mr->rkey, t.from_mr);
		met += atomic_load(&j.stores) != before && kit_us() - begin < QUICK;
		/* between bursts everybody knows */
		if (!wrong)
			atomic_store((_Atomic uint64_t *)t.to, 7);
	}
	atomic_store(&j.done, true);
	pthread_join(thread, NULL);
	two_close(&t);
}

static void atomic_stored(bool wrong)
{
	atomics_and_stores(wrong, IBV_WR_ATOMIC_FETCH_AND_ADD, store);
}

/* By an atomic instruction of the CPU, against COMPARE_AND_SWAP */
static void atomic_stored_by_an_atomic(bool wrong)
{
	atomics_and_stores(wrong, IBV_WR_ATOMIC_CMP_AND_SWP, add);
}

/* Bursts of atomics; where the two take turns, each but when the other is done */
static void atomics_from_child(int from, int to, bool turns)
{
	struct told there;
	struct ibv_mr *mr;
	struct kit k;

	there = child_open(&k, from, to);
	mr = kit_reg(&k, kit_map(8 * BURST), 8 * BURST, LOCAL);
	for (uint64_t end = kit_us() + LONG; kit_us() < end;) {
		atomics(&k, IBV_WR_ATOMIC_FETCH_AND_ADD, there.addr, there.rkey, mr);
		if (!turns)
			continue;
		tell(to, (struct told){.qpn = 1});
		hear(from);
	}
	kit_destroy_qps(&k);
	kit_dereg(mr);
	kit_close_rest(&k);
	tell(to, (struct told){.qpn = 0});
}

/* The first process calls nothing meanwhile: only the time tells that it was told. */
static void stores_of_parent(int from, int to, bool turns)
{
	struct pollfd done = {.fd = from, .events = POLLIN};
	_Atomic uint64_t *word;
	struct ibv_mr *mr;
	struct kit k;

	kit_device(&k);
	NEED(k.left_cq = ibv_create_cq(k.ctx, 32, NULL, NULL, 0));
	k.left = kit_qp(&k, k.left_cq, NULL);
	kit_connect_qp(&k, k.left, hear(from).qpn);
	word = (void *)kit_map(64);
	mr = kit_reg(&k, (void *)word, 64, REMOTE);
	tell(to, (struct told){k.left->qp_num, mr->rkey, (uintptr_t)word});
	for (uint64_t n = 0; turns || !poll(&done, 1, 0); n++) {
		if (turns && !hear(from).qpn)
			break;
		if (turns)
			kit_sleep(1);
		for (int i = 0; i < (turns ? 1 : 1000); i++)
			atomic_store(word, 1000000 + n);
		if (turns)
			tell(to, (struct told){.qpn = 1});
	}
	kit_destroy_qps(&k);
	kit_dereg(mr);
	kit_close_rest(&k);
}

static void atomic_stored_by_another_process(bool wrong)
{
	int down[2], up[2], status;
	pid_t child;

	NEED(!pipe(down) && !pipe(up));
	NEED((child = fork()) >= 0);
	if (!child) {
		atomics_from_child(down[0], up[1], !wrong);
		exit(0);
	}
	stores_of_parent(up[0], down[1], !wrong);
	NEED(waitpid(child, &status, 0) == child && !status);
}

const struct program peer_programs[] = {
    {"remote-unordered", "plain", remote_unordered},
    {"remote-unordered", "beside-one-that-is", remote_unordered_beside_one_that_is},
    {"remote-unordered", "by-a-byte", remote_unordered_by_a_byte},
    {"remote-unordered", "two-processes", remote_unordered_of_two_processes},
    {"other-qp-told", "plain", other_qp_told},
    {"other-qp-told", "send", other_qp_told_by_a_send},
    {"atomic-stored", "plain", atomic_stored},
    {"atomic-stored", "two-processes", atomic_stored_by_another_process},
    {"atomic-stored", "cpu-atomic", atomic_stored_by_an_atomic},
    {NULL, NULL, NULL},
};
