/* completions.c - programs that lose completions, or do not look at them */
#include <pthread.h>
#include <stdlib.h>

#include "corpus.h"
#include "kit.h"

#define SIGNALED IBV_SEND_SIGNALED
#define LATE	 300 /* ms, after which a message has come, also on a loaded machine */
#define WRITE	 IBV_WR_RDMA_WRITE
#define LOCAL	 IBV_ACCESS_LOCAL_WRITE
#define REMOTE	 (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

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
	p->from_mr = kit_reg(&p->k, p->from, KIT_PAGE, LOCAL);
	p->to_mr = kit_reg(&p->k, p->to, KIT_PAGE, REMOTE);
}

static void pair_close(struct pair *p)
{
	kit_destroy_qps(&p->k);
	kit_dereg(p->from_mr);
	kit_dereg(p->to_mr);
	kit_close_rest(&p->k);
}

static int write_one(struct pair *p, unsigned int flags)
{
	return kit_rdma(p->k.left, WRITE, p->from_mr, p->from, 64, p->to + KIT_PAGE - 64,
			p->to_mr->rkey, flags);
}

/* --- the send queue ---------------------------------------------------------------- */

static void fill_unsignaled(struct pair *p, bool wrong)
{
	for (uint32_t i = 0; i < 2 * p->k.send_room; i++) {
		bool last = !wrong && i % p->k.send_room == p->k.send_room - 1;

		write_one(p, last ? SIGNALED : 0);
		if (last)
			kit_good(p->k.left_cq);
		kit_sleep(1);
	}
}

static void sq_unsignaled(bool wrong)
{
	struct pair p;

	kit_open(&p.k);
	pair_memory(&p);
	fill_unsignaled(&p, wrong);
	pair_close(&p);
}

/* The ring was once around before, and the posts are a list. */
static void sq_unsignaled_wrapped_list(bool wrong)
{
	struct ibv_send_wr wr[8], *bad;
	struct ibv_sge sge;
	struct pair p;

	kit_device(&p.k);
	p.k.send_wr = 8;
	kit_connect(&p.k);
	pair_memory(&p);
	for (uint32_t i = 0; i < p.k.send_room + 3; i++) {
		write_one(&p, SIGNALED);
		kit_good(p.k.left_cq);
	}
	sge = (struct ibv_sge){(uintptr_t)p.from, 64, p.from_mr->lkey};
	for (int i = 0; i < 8; i++) {
		wr[i] = (struct ibv_send_wr){.wr_id = 9,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = WRITE,
					     .next = i < 7 ? &wr[i + 1] : NULL};
		wr[i].wr.rdma.remote_addr = (uintptr_t)p.to;
		wr[i].wr.rdma.rkey = p.to_mr->rkey;
	}
	wr[7].send_flags = wrong ? 0 : SIGNALED;
	for (uint32_t i = 0; i < 2 * p.k.send_room / 8 + 1; i++) {
		ibv_post_send(p.k.left, wr, &bad);
		if (!wrong)
			kit_good(p.k.left_cq);
		kit_sleep(2);
	}
	pair_close(&p);
}

static void sq_overcommit(bool wrong)
{
	struct pair p;

	kit_device(&p.k);
	p.k.cqe = 200;
	kit_connect(&p.k);
	pair_memory(&p);
	for (uint32_t i = 0; i < p.k.send_room + 4; i++) {
		write_one(&p, SIGNALED);
		if (!wrong)
			kit_good(p.k.left_cq);
		kit_sleep(1);
	}
	pair_close(&p);
}

/* Most make no completion, so that the CQ has room, but the one that does is not polled. */
static void sq_overcommit_mixed(bool wrong)
{
	struct pair p;

	kit_open(&p.k);
	pair_memory(&p);
	for (uint32_t i = 0; i < 2 * p.k.send_room; i++) {
		bool signaled = i % 4 == 3;

		write_one(&p, signaled ? SIGNALED : 0);
		if (signaled && !wrong)
			kit_good(p.k.left_cq);
		kit_sleep(1);
	}
	pair_close(&p);
}

/* --- the completion queue ------------------------------------------------------------ */

static void cq_too_small(bool wrong)
{
	struct pair p;
	int n;

	kit_device(&p.k);
	p.k.cqe = wrong ? 4 : 64;
	p.k.recv_wr = 64;
	kit_connect(&p.k);
	pair_memory(&p);
	n = wrong ? p.k.right_cq->cqe + 1 : 16;
	for (int i = 0; i < n; i++)
		NEED(!kit_recv(p.k.right, p.to_mr, p.to + i * 8, 8));
	NEED(!write_one(&p, SIGNALED));
	kit_good(p.k.left_cq);
	pair_close(&p);
}

static void cq_too_small_srq(bool wrong)
{
	struct pair p;
	int n;

	kit_device(&p.k);
	kit_srq(&p.k, 200);
	p.k.cqe = wrong ? 4 : 200;
	kit_connect(&p.k);
	pair_memory(&p);
	n = wrong ? p.k.right_cq->cqe + 1 : 100;
	for (int i = 0; i < n; i++)
		NEED(!kit_srq_recv(p.k.srq, p.to_mr, p.to + i * 8, 8));
	NEED(!write_one(&p, SIGNALED));
	kit_good(p.k.left_cq);
	pair_close(&p);
}

/* Of two devices, whose CQs and QPs have the same numbers, one has CQs of the right size. */
static void cq_too_small_of_two_devices(bool wrong)
{
	struct kit small, large;
	struct pair p;

	kit_device_nth(&small, 0);
	small.cqe = 4;
	small.send_wr = small.recv_wr = 1;
	kit_device_nth(&large, 1);
	large.cqe = 200;
	large.recv_wr = 100;
	if (wrong)
		large.cqe = 4;
	kit_connect(&small);
	kit_connect(&large);
	p.k = large;
	pair_memory(&p);
	for (int i = 0; i < 80; i++)
		NEED(!kit_recv(p.k.right, p.to_mr, p.to + i * 8, 8));
	NEED(!write_one(&p, SIGNALED));
	kit_good(p.k.left_cq);
	pair_close(&p);
	kit_close(&small);
}

/* --- errors ---------------------------------------------------------------------------- */

/* The peer is gone: left's QP goes to ERR. */
static void lose_peer(struct pair *p)
{
	kit_device(&p->k);
	p->k.timeout = 8;
	p->k.retry = 1;
	kit_connect(&p->k);
	pair_memory(p);
	NEED(!write_one(p, SIGNALED));
	kit_good(p->k.left_cq);
	NEED(!ibv_destroy_qp(p->k.right));
	p->k.right = NULL;
	NEED(!write_one(p, SIGNALED));
	NEED(kit_wait(p->k.left_cq).status == IBV_WC_RETRY_EXC_ERR);
}

static void error_ignored(bool wrong)
{
	struct pair p;

	lose_peer(&p);
	if (wrong) {
		NEED(!write_one(&p, SIGNALED));
		kit_wait(p.k.left_cq);
	}
	pair_close(&p);
}

static void receive_once(void *arg)
{
	struct pair *p = arg;

	NEED(!kit_recv(p->k.left, p->to_mr, p->to, 64));
}

static void error_ignored_by_a_receiver(bool wrong)
{
	struct pair p;

	lose_peer(&p);
	if (wrong) {
		kit_in_thread(receive_once, &p);
		kit_wait(p.k.left_cq);
	}
	pair_close(&p);
}

static void flush_unpolled(bool wrong)
{
	struct pair p;

	kit_open(&p.k);
	pair_memory(&p);
	NEED(!write_one(&p, SIGNALED));
	kit_good(p.k.left_cq);
	kit_to_error(p.k.left);
	NEED(!write_one(&p, SIGNALED));
	if (!wrong)
		NEED(kit_wait(p.k.left_cq).status == IBV_WC_WR_FLUSH_ERR);
	pair_close(&p);
}

static void flush_unpolled_receive(bool wrong)
{
	struct pair p;

	kit_open(&p.k);
	pair_memory(&p);
	NEED(!write_one(&p, SIGNALED));
	kit_good(p.k.left_cq);
	kit_to_error(p.k.right);
	NEED(!kit_recv(p.k.right, p.to_mr, p.to, 8));
	NEED(!kit_recv(p.k.right, p.to_mr, p.to + 8, 8));
	NEED(kit_wait(p.k.right_cq).status == IBV_WC_WR_FLUSH_ERR);
	if (!wrong)
		kit_wait(p.k.right_cq);
	pair_close(&p);
}

/* --- events ---------------------------------------------------------------------------- */

static void with_channel(struct pair *p)
{
	kit_device(&p->k);
	NEED(p->k.channel = ibv_create_comp_channel(p->k.ctx));
	kit_connect(&p->k);
	pair_memory(p);
}

/* Somebody else's completion wakes who would sleep for ever. */
static void *wake(void *arg)
{
	kit_sleep(100);
	NEED(!write_one(arg, SIGNALED));
	return NULL;
}

static void wait_for_event(struct pair *p)
{
	struct ibv_cq *cq;
	void *context;

	NEED(!ibv_get_cq_event(p->k.channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
}

static void lost_wakeup(bool wrong)
{
	struct ibv_wc wc;
	struct pair p;
	pthread_t t;

	with_channel(&p);
	NEED(!write_one(&p, SIGNALED));
	kit_sleep(LATE);
	NEED(!ibv_req_notify_cq(p.k.left_cq, 0));
	if (!wrong)
		NEED(ibv_poll_cq(p.k.left_cq, 1, &wc) == 1);
	NEED(!pthread_create(&t, NULL, wake, &p));
	wait_for_event(&p);
	pthread_join(t, NULL);
	if (wrong)
		kit_good(p.k.left_cq);
	kit_good(p.k.left_cq);
	pair_close(&p);
}

/* The usual loop, which polls once for each event, with two completions for one event */
static void lost_wakeup_in_a_loop(bool wrong)
{
	struct ibv_wc wc[2];
	struct pair p;
	pthread_t t;
	int n = 0;

	with_channel(&p);
	NEED(!ibv_req_notify_cq(p.k.left_cq, 0));
	NEED(!write_one(&p, SIGNALED));
	NEED(!write_one(&p, SIGNALED));
	kit_sleep(LATE);
	wait_for_event(&p);
	NEED(ibv_poll_cq(p.k.left_cq, wrong ? 1 : 2, wc) == (wrong ? 1 : 2));
	NEED(!ibv_req_notify_cq(p.k.left_cq, 0));
	if (!wrong)
		NEED(ibv_poll_cq(p.k.left_cq, 1, wc) == 0);
	NEED(!pthread_create(&t, NULL, wake, &p));
	wait_for_event(&p);
	pthread_join(t, NULL);
	while (n < (wrong ? 2 : 1))
		n += ibv_poll_cq(p.k.left_cq, 1, wc);
	pair_close(&p);
}

/* It hangs until somebody acknowledges. */
static void *acknowledge(void *arg)
{
	struct pair *p = arg;

	kit_sleep(100);
	ibv_ack_cq_events(p->k.left_cq, 1);
	return NULL;
}

static void take_events(struct pair *p, int n)
{
	struct ibv_cq *cq;
	void *context;

	for (int i = 0; i < n; i++) {
		NEED(!ibv_req_notify_cq(p->k.left_cq, 0));
		NEED(!write_one(p, SIGNALED));
		NEED(!ibv_get_cq_event(p->k.channel, &cq, &context));
		kit_good(p->k.left_cq);
	}
}

static void close_unacked(struct pair *p, bool wrong)
{
	pthread_t t;

	kit_destroy_qps(&p->k);
	if (wrong)
		NEED(!pthread_create(&t, NULL, acknowledge, p));
	else
		ibv_ack_cq_events(p->k.left_cq, 1);
	NEED(!ibv_destroy_cq(p->k.left_cq));
	if (wrong)
		pthread_join(t, NULL);
	p->k.left_cq = NULL;
	pair_close(p);
}

static void events_unacked(bool wrong)
{
	struct pair p;

	with_channel(&p);
	take_events(&p, 1);
	close_unacked(&p, wrong);
}

static void events_unacked_last_of_three(bool wrong)
{
	struct pair p;

	with_channel(&p);
	take_events(&p, 3);
	ibv_ack_cq_events(p.k.left_cq, 2);
	close_unacked(&p, wrong);
}

/* When somebody waits for that */
static void *acknowledge_later(void *event)
{
	kit_sleep(100);
	ibv_ack_async_event(event);
	return NULL;
}

/* A shared queue has fewer requests than it should, and the QP of it goes to ERR. */
static void asynchronous(bool wrong, bool of_srq)
{
	struct ibv_srq_attr limit = {.srq_limit = 2};
	struct ibv_async_event event;
	struct pair p;
	pthread_t t;

	kit_device(&p.k);
	kit_srq(&p.k, 16);
	kit_connect(&p.k);
	pair_memory(&p);
	NEED(!write_one(&p, SIGNALED));
	kit_good(p.k.left_cq);
	for (int i = 0; i < 2; i++)
		NEED(!kit_srq_recv(p.k.srq, p.to_mr, p.to + 64 * i, 64));
	if (of_srq) {
		NEED(!ibv_modify_srq(p.k.srq, &limit, IBV_SRQ_LIMIT));
		NEED(!kit_send(p.k.left, p.from_mr, p.from, 64, SIGNALED));
		kit_good(p.k.left_cq);
		kit_good(p.k.right_cq);
	} else {
		kit_to_error(p.k.right);
	}
	NEED(!ibv_get_async_event(p.k.ctx, &event));
	if (wrong)
		NEED(!pthread_create(&t, NULL, acknowledge_later, &event));
	else
		ibv_ack_async_event(&event);
	kit_destroy_qps(&p.k);
	NEED(!ibv_destroy_srq(p.k.srq));
	p.k.srq = NULL;
	if (wrong)
		pthread_join(t, NULL);
	pair_close(&p);
}

static void events_unacked_of_a_shared_queue(bool wrong)
{
	asynchronous(wrong, true);
}

static void events_unacked_of_a_qp(bool wrong)
{
	asynchronous(wrong, false);
}

/* --- not ready --------------------------------------------------------------------------- */

static void rnr(bool wrong)
{
	struct pair p;

	kit_device(&p.k);
	p.k.rnr_retry = 7;
	kit_connect(&p.k);
	pair_memory(&p);
	NEED(!write_one(&p, SIGNALED));
	kit_good(p.k.left_cq);
	if (!wrong)
		NEED(!kit_recv(p.k.right, p.to_mr, p.to, 64));
	NEED(!kit_send(p.k.left, p.from_mr, p.from, 64, SIGNALED));
	if (wrong) {
		kit_sleep(LATE);
		NEED(!kit_recv(p.k.right, p.to_mr, p.to, 64));
	}
	kit_wait(p.k.left_cq);
	pair_close(&p);
}

static void rnr_of_a_shared_queue(bool wrong)
{
	struct pair p;

	kit_device(&p.k);
	kit_srq(&p.k, 16);
	p.k.rnr_retry = 7;
	kit_connect(&p.k);
	pair_memory(&p);
	NEED(!write_one(&p, SIGNALED));
	kit_good(p.k.left_cq);
	NEED(!kit_srq_recv(p.k.srq, p.to_mr, p.to, 64));
	if (!wrong)
		NEED(!kit_srq_recv(p.k.srq, p.to_mr, p.to + 64, 64));
	for (int i = 0; i < 2; i++)
		NEED(!kit_send(p.k.left, p.from_mr, p.from, 64, SIGNALED));
	kit_sleep(LATE);
	if (wrong)
		NEED(!kit_srq_recv(p.k.srq, p.to_mr, p.to + 64, 64));
	for (int i = 0; i < 2; i++) {
		kit_good(p.k.left_cq);
		kit_good(p.k.right_cq);
	}
	pair_close(&p);
}

/* Nobody posts a receive request for long. */
static void nobody_receives(bool wrong, int n)
{
	struct pair p;

	kit_device(&p.k);
	p.k.rnr_retry = 7;
	kit_connect(&p.k);
	pair_memory(&p);
	NEED(!write_one(&p, SIGNALED));
	kit_good(p.k.left_cq);
	for (int i = 0; i < n - wrong; i++)
		NEED(!kit_recv(p.k.right, p.to_mr, p.to + i * 64, 64));
	for (int i = 0; i < n; i++)
		NEED(!kit_send(p.k.left, p.from_mr, p.from, 64, SIGNALED));
	kit_sleep(wrong ? 1500 : 20);
	if (wrong)
		NEED(!kit_recv(p.k.right, p.to_mr, p.to + 1024, 64));
	for (int i = 0; i < n; i++)
		kit_good(p.k.left_cq);
	pair_close(&p);
}

static void rnr_endless(bool wrong)
{
	nobody_receives(wrong, 1);
}

static void rnr_endless_for_the_last_of_three(bool wrong)
{
	nobody_receives(wrong, 3);
}

static void retry_long(bool wrong)
{
	struct kit k;

	kit_device(&k);
	k.timeout = 20;
	k.retry = wrong ? 7 : 1;
	kit_connect(&k);
	kit_close(&k);
}

static void timeout_infinite(bool wrong)
{
	struct kit k;

	kit_device(&k);
	k.timeout = wrong ? 0 : 14;
	kit_connect(&k);
	kit_close(&k);
}

static void connect_later(void *arg)
{
	kit_connect(arg);
}

static void retry_long_in_a_thread(bool wrong)
{
	struct kit k;

	kit_device(&k);
	k.timeout = wrong ? 31 : 18;
	k.retry = wrong ? 0 : 7;
	kit_in_thread(connect_later, &k);
	kit_close(&k);
}

static void timeout_infinite_in_a_thread(bool wrong)
{
	struct kit k;

	kit_device(&k);
	k.timeout = wrong ? 0 : 18;
	kit_in_thread(connect_later, &k);
	kit_close(&k);
}

const struct program completion_programs[] = {
    {"sq-unsignaled", "plain", sq_unsignaled},
    {"sq-unsignaled", "wrapped-list", sq_unsignaled_wrapped_list},
    {"sq-overcommit", "plain", sq_overcommit},
    {"sq-overcommit", "mixed", sq_overcommit_mixed},
    {"cq-too-small", "plain", cq_too_small},
    {"cq-too-small", "srq", cq_too_small_srq},
    {"cq-too-small", "two-devices", cq_too_small_of_two_devices},
    {"error-ignored", "plain", error_ignored},
    {"error-ignored", "receiving-thread", error_ignored_by_a_receiver},
    {"flush-unpolled", "plain", flush_unpolled},
    {"flush-unpolled", "second-receive", flush_unpolled_receive},
    {"lost-wakeup", "plain", lost_wakeup},
    {"lost-wakeup", "loop", lost_wakeup_in_a_loop},
    {"events-unacked", "plain", events_unacked},
    {"events-unacked", "last-of-three", events_unacked_last_of_three},
    {"events-unacked", "srq", events_unacked_of_a_shared_queue},
    {"events-unacked", "qp", events_unacked_of_a_qp},
    {"rnr", "plain", rnr},
    {"rnr", "srq", rnr_of_a_shared_queue},
    {"rnr-endless", "plain", rnr_endless, "rnr"},
    {"rnr-endless", "last-of-three", rnr_endless_for_the_last_of_three, "rnr"},
    {"retry-long", "plain", retry_long},
    {"retry-long", "thread", retry_long_in_a_thread},
    {"timeout-infinite", "plain", timeout_infinite},
    {"timeout-infinite", "thread", timeout_infinite_in_a_thread},
    {NULL, NULL, NULL},
};
