/* frames.c - programs that let the HCA use the stack of functions that have returned */
#include <pthread.h>
#include <string.h>

#include "corpus.h"
#include "kit.h"

#define SIGNALED IBV_SEND_SIGNALED
#define LOCAL	 IBV_ACCESS_LOCAL_WRITE
#define READABLE (LOCAL | IBV_ACCESS_REMOTE_READ)
#define STACK	 (256u << 10)
#define DEEP	 (64u << 10) /* the functions that come later do not reach */

/* struct job - of a thread on a stack that is registered */
struct job {
	struct kit k;
	struct ibv_mr *stack, *there;
	bool wrong;
};

/* On its own frame, or on its caller's */
static __attribute__((noinline)) void receive_on_stack(struct job *j, char *callers)
{
	char mine[DEEP];

	memset(mine, 1, 64);
	NEED(!kit_recv(j->k.right, j->stack, j->wrong ? mine : callers, 64));
}

static void receives(void *job)
{
	struct job *j = job;
	char mine[64] = {0};

	receive_on_stack(j, mine);
	NEED(!kit_send(j->k.left, j->there, j->there->addr, 64, SIGNALED));
	kit_good(j->k.left_cq);
	kit_good(j->k.right_cq);
}

static __attribute__((noinline)) void read_to_stack(struct job *j)
{
	char mine[DEEP];

	NEED(!kit_rdma(j->k.left, IBV_WR_RDMA_READ, j->stack, mine + 100, 200,
		       j->there->addr, j->there->rkey, SIGNALED));
	if (!j->wrong)
		kit_good(j->k.left_cq);
}

static void reads(void *job)
{
	struct job *j = job;

	read_to_stack(j);
	if (j->wrong)
		kit_good(j->k.left_cq);
}

/* The whole thread ends. */
static void leaves(void *job)
{
	struct job *j = job;
	char mine[64];

	NEED(!kit_recv(j->k.right, j->stack, mine, 64));
	if (j->wrong)
		return;
	NEED(!kit_send(j->k.left, j->there, j->there->addr, 64, SIGNALED));
	kit_good(j->k.left_cq);
	kit_good(j->k.right_cq);
}

/* struct call - @fn(@job) */
struct call {
	void (*fn)(void *job);
	struct job *job;
};

static void *run(void *arg)
{
	struct call *c = arg;

	c->fn(c->job);
	return NULL;
}

/* @fn in a thread whose whole stack is registered */
static void on_stack(bool wrong, void (*fn)(void *job))
{
	struct job j = {.wrong = wrong};
	struct call call = {fn, &j};
	char *stack = kit_map(STACK);
	pthread_attr_t attr;
	pthread_t t;

	kit_open(&j.k);
	j.stack = kit_reg(&j.k, stack, STACK, LOCAL);
	j.there = kit_reg(&j.k, kit_map(KIT_PAGE), KIT_PAGE, READABLE);
	pthread_attr_init(&attr);
	NEED(!pthread_attr_setstack(&attr, stack, STACK));
	NEED(!pthread_create(&t, &attr, run, &call));
	pthread_join(t, NULL);
	kit_destroy_qps(&j.k);
	kit_dereg(j.stack);
	kit_dereg(j.there);
	kit_close_rest(&j.k);
}

static void frame_ended(bool wrong)
{
	on_stack(wrong, receives);
}

static void frame_ended_read(bool wrong)
{
	on_stack(wrong, reads);
}

static void frame_ended_with_its_thread(bool wrong)
{
	on_stack(wrong, leaves);
}

const struct program frame_programs[] = {
    {"frame-ended", "plain", frame_ended},
    {"frame-ended", "read", frame_ended_read},
    {"frame-ended", "thread", frame_ended_with_its_thread},
    {NULL, NULL, NULL},
};
