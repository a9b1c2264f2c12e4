/*
 * threads.c - many threads of one process, each with a queue pair of its own; run it under
 * `urxe run`.
 *
 *   threads N [events]     round trips of 64 bytes a second, all of N threads together
 *   threads fair N [events]   round trips of the slowest thread in parts of the fastest's
 *
 * Two processes with N threads each play ping-pong over N queue pairs. Each thread has a completion
 * queue and a channel of its own, so nothing of the program's makes them wait for each other.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define SIZE	    64
#define MAX_THREADS 64
#define SECONDS	    1

/* struct end - what an end of a queue pair tells the other */
struct end {
	uint32_t qpn;
	union ibv_gid gid;
};

/* struct player - a thread; @sent, @received: completions that it has not used yet */
struct player {
	pthread_t thread;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char buf[2][SIZE];
	int sent, received;
	long trips;
};

static struct player player[MAX_THREADS];
static struct ibv_context *ctx;
static struct ibv_pd *pd;
static bool events, first;
static atomic_bool over;

static void need(bool ok, const char *what)
{
	if (!ok)
		bench_die("%s: %s", what, strerror(errno));
}

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	need(list && list[0], "no RDMA device (start this under `urxe run`)");
	need((ctx = ibv_open_device(list[0])), "device");
	need((pd = ibv_alloc_pd(ctx)), "PD");
	ibv_free_device_list(list);
}

static void make_queues(struct player *p)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {16, 16, 1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	need((p->channel = ibv_create_comp_channel(ctx)), "channel");
	need((p->cq = ibv_create_cq(ctx, 64, NULL, p->channel, 0)), "CQ");
	init.send_cq = init.recv_cq = p->cq;
	need((p->qp = ibv_create_qp(pd, &init)), "QP");
	need((p->mr = ibv_reg_mr(pd, p->buf, sizeof(p->buf), IBV_ACCESS_LOCAL_WRITE)),
	     "MR");
	need(!ibv_modify_qp(p->qp, &attr,
			    IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				IBV_QP_ACCESS_FLAGS),
	     "INIT");
}

static void connect_queues(struct player *p, const struct end *to)
{
	struct ibv_qp_attr rtr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_4096,
	    .dest_qp_num = to->qpn,
	    .min_rnr_timer = 1,
	    .ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = to->gid, .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {
	    .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7};

	need(!ibv_modify_qp(p->qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	need(!ibv_modify_qp(p->qp, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

static void post_receive(struct player *p)
{
	struct ibv_sge sge = {(uintptr_t)p->buf[0], SIZE, p->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	need(!ibv_post_recv(p->qp, &wr, &bad), "receive");
}

static void post_send(struct player *p)
{
	struct ibv_sge sge = {(uintptr_t)p->buf[1], SIZE, p->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	need(!ibv_post_send(p->qp, &wr, &bad), "send");
}

/* How many completions there were */
static int take(struct player *p)
{
	struct ibv_wc wc[4];
	int n = ibv_poll_cq(p->cq, 4, wc);

	need(n >= 0, "poll");
	for (int i = 0; i < n; i++) {
		/* the other process may have ended */
		if (wc[i].status && !over)
			bench_die("completion: %s", ibv_wc_status_str(wc[i].status));
		p->received += wc[i].opcode == IBV_WC_RECV;
		p->sent += wc[i].opcode != IBV_WC_RECV;
	}
	return n;
}

static void sleep_for_event(struct player *p)
{
	struct ibv_cq *cq;
	void *context;

	need(!ibv_req_notify_cq(p->cq, 0), "notify");
	if (take(p))
		return;
	need(!ibv_get_cq_event(p->channel, &cq, &context), "event");
	ibv_ack_cq_events(cq, 1);
}

/* One of what @count counts is there; it is used. */
static void wait_for(struct player *p, const int *count)
{
	while (!*count && !over) {
		if (!take(p) && events)
			sleep_for_event(p);
	}
}

static void *play(void *arg)
{
	struct player *p = arg;

	if (first)
		post_send(p);
	while (!over) {
		wait_for(p, &p->received);
		p->received--;
		post_receive(p);
		if (first || p->trips) {
			wait_for(p, &p->sent);
			p->sent--;
		}
		post_send(p);
		p->trips++;
	}
	return NULL;
}

static void setup(int n, int sock)
{
	struct end mine = {0}, theirs;

	open_device();
	need(!ibv_query_gid(ctx, 1, 0, &mine.gid), "GID");
	for (int i = 0; i < n; i++) {
		make_queues(&player[i]);
		mine.qpn = player[i].qp->qp_num;
		bench_exchange(sock, &mine, &theirs, sizeof(mine));
		connect_queues(&player[i], &theirs);
		post_receive(&player[i]);
		post_receive(&player[i]);
	}
	bench_barrier(sock);
}

static void tell(int n, bool fair)
{
	long all = 0, least = player[0].trips, most = player[0].trips;

	for (int i = 0; i < n; i++) {
		all += player[i].trips;
		if (player[i].trips < least)
			least = player[i].trips;
		if (player[i].trips > most)
			most = player[i].trips;
	}
	if (fair)
		bench_result("slowest/fastest", most ? (double)least / (double)most : 0,
			     "");
	else
		bench_result("round-trips", (double)all / SECONDS, "1/s");
}

int main(int argc, char **argv)
{
	bool fair = argc > 1 && !strcmp(argv[1], "fair");
	int at = fair ? 2 : 1, n = argc > at ? atoi(argv[at]) : 0, sock;

	events = argc > at + 1 && !strcmp(argv[at + 1], "events");
	if (n < 1 || n > MAX_THREADS || argc > at + 1 + events)
		bench_die("usage: threads [fair] N [events], N from 1 to %d",
			  MAX_THREADS);
	first = bench_fork(&sock) == 0;
	setup(n, sock);
	for (int i = 0; i < n; i++)
		need(!pthread_create(&player[i].thread, NULL, play, &player[i]),
		     "thread");
	sleep(SECONDS);
	over = true;
	if (first)
		tell(n, fair);
	/* its peers may wait for an answer that does not come any more */
	bench_barrier(sock);
	_exit(0);
}
