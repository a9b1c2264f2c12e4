/* reads.c - programs that look at memory before they are told that something is there */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "corpus.h"
#include "kit.h"

#define SIGNALED IBV_SEND_SIGNALED
#define LOCAL	 IBV_ACCESS_LOCAL_WRITE
#define REMOTE	 (LOCAL | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define WAIT	 20 /* s; a loaded machine is slow */
#define ROUNDS	 30

/* struct pair - memory of both sides */
struct pair {
	struct kit k;
	char *from, *to;
	struct ibv_mr *from_mr, *to_mr;
};

static void pair_memory(struct pair *p)
{
	p->from = kit_map(KIT_PAGE);
	p->to = kit_map(KIT_PAGE);
	memset(p->from, 1, KIT_PAGE);
	p->from_mr = kit_reg(&p->k, p->from, KIT_PAGE, LOCAL);
	p->to_mr = kit_reg(&p->k, p->to, KIT_PAGE, REMOTE);
	/* a peer uses it */
	NEED(!kit_rdma(p->k.left, IBV_WR_RDMA_READ, p->from_mr, p->from + 2048, 8,
		       p->to + 2048, p->to_mr->rkey, SIGNALED));
	kit_good(p->k.left_cq);
}

static void pair_open(struct pair *p)
{
	kit_open(&p->k);
	pair_memory(p);
}

static void pair_close(struct pair *p)
{
	kit_destroy_qps(&p->k);
	kit_dereg(p->from_mr);
	kit_dereg(p->to_mr);
	kit_close_rest(&p->k);
}

/* Until it is at least @value, and no longer than WAIT */
static void wait_for(volatile char *byte, char value)
{
	uint64_t end = kit_us() + WAIT * 1000000u;

	while (*byte < value)
		NEED(kit_us() < end);
}

/* --- before the completion ----------------------------------------------------------- */

/* The first byte is there, and it takes the rest for there, too. */
static void receive_read(bool wrong)
{
	struct pair p;

	pair_open(&p);
	NEED(!kit_recv(p.k.right, p.to_mr, p.to, 1000));
	NEED(!kit_send(p.k.left, p.from_mr, p.from, 1000, SIGNALED));
	kit_good(p.k.left_cq);
	if (wrong)
		wait_for(p.to, 1);
	kit_good(p.k.right_cq);
	wait_for(p.to, 1);
	pair_close(&p);
}

/* struct looker - a thread that looks at @byte as soon as it is given one */
struct looker {
	char *_Atomic byte;
};

static void *look_once(void *arg)
{
	struct looker *l = arg;

	while (!atomic_load(&l->byte))
		kit_sleep(1);
	NEED(*(volatile char *)atomic_load(&l->byte) >= 0);
	return NULL;
}

/* A shared queue's buffer, its last byte, in a thread, long before a message comes */
static void receive_read_srq(bool wrong)
{
	struct looker l = {NULL};
	struct pair p;
	pthread_t t;

	NEED(!pthread_create(&t, NULL, look_once, &l));
	kit_device(&p.k);
	kit_srq(&p.k, 8);
	kit_connect(&p.k);
	pair_memory(&p);
	NEED(!kit_srq_recv(p.k.srq, p.to_mr, p.to + 100, 33));
	atomic_store(&l.byte, p.to + 132 + !wrong);
	pthread_join(t, NULL);
	NEED(!kit_send(p.k.left, p.from_mr, p.from, 33, SIGNALED));
	kit_good(p.k.left_cq);
	kit_good(p.k.right_cq);
	wait_for(p.to + 132, 1);
	pair_close(&p);
}

/* The target of a READ, copied by libc */
static void receive_read_of_a_read(bool wrong)
{
	struct pair p;
	char copy[512];

	pair_open(&p);
	NEED(!kit_rdma(p.k.left, IBV_WR_RDMA_READ, p.from_mr, p.from, 512, p.to,
		       p.to_mr->rkey, SIGNALED));
	if (!wrong)
		kit_good(p.k.left_cq);
	memcpy(copy, p.from, sizeof(copy));
	NEED(copy[511] == 0 || copy[511] == 1);
	if (wrong)
		kit_good(p.k.left_cq);
	pair_close(&p);
}

/* --- instead of a completion ----------------------------------------------------------- */

static void write_one(struct pair *p, char value, bool tells)
{
	memset(p->from, value, 64);
	if (tells)
		NEED(!kit_recv(p->k.right, p->to_mr, p->to + 1024, 8));
	NEED(!kit_rdma(p->k.left, tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
		       p->from_mr, p->from, 64, p->to, p->to_mr->rkey, SIGNALED));
}

static void *sends(void *arg)
{
	struct pair *p = arg;

	for (char i = 1; i <= ROUNDS; i++) {
		kit_sleep(2);
		write_one(p, i, false);
		kit_good(p->k.left_cq);
		wait_for(p->to + 2000, i);
	}
	return NULL;
}

/* The last byte; the right one has a completion for each */
static void polled_after(bool wrong, int many)
{
	struct pair p;
	pthread_t t;

	pair_open(&p);
	while (many--) {
		write_one(&p, 0, false);
		kit_good(p.k.left_cq);
	}
	if (wrong)
		NEED(!pthread_create(&t, NULL, sends, &p));
	for (char i = 1; i <= ROUNDS; i++) {
		if (!wrong) {
			write_one(&p, i, true);
			kit_good(p.k.left_cq);
			kit_good(p.k.right_cq);
		}
		wait_for(p.to + 63, i);
		*(volatile char *)(p.to + 2000) = i;
	}
	if (wrong)
		pthread_join(t, NULL);
	pair_close(&p);
}

static void memory_polled(bool wrong)
{
	polled_after(wrong, 0);
}

/* More than are counted of one watch */
static void memory_polled_after_many_writes(bool wrong)
{
	polled_after(wrong, 3000);
}

static void *waits(void *byte)
{
	for (char i = 1; i <= ROUNDS; i++)
		wait_for(byte, i);
	return NULL;
}

/* A thread that knows no verbs waits for the first byte; the right one's for a byte of its own */
static void memory_polled_by_a_thread(bool wrong)
{
	char own = 0;
	struct pair p;
	pthread_t t;

	pair_open(&p);
	NEED(!pthread_create(&t, NULL, waits, wrong ? p.to : &own));
	for (char i = 1; i <= ROUNDS; i++) {
		kit_sleep(2);
		write_one(&p, i, !wrong);
		kit_good(p.k.left_cq);
		if (!wrong)
			kit_good(p.k.right_cq);
		*(volatile char *)&own = i;
		kit_sleep(1);
	}
	pthread_join(t, NULL);
	pair_close(&p);
}

const struct program read_programs[] = {
    {"receive-read", "plain", receive_read},
    {"receive-read", "srq", receive_read_srq},
    {"receive-read", "read", receive_read_of_a_read},
    {"memory-polled", "plain", memory_polled},
    {"memory-polled", "after-many-writes", memory_polled_after_many_writes},
    {"memory-polled", "thread", memory_polled_by_a_thread},
    {NULL, NULL, NULL},
};
