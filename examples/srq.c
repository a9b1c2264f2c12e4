/*
 * srq.c - shared receive queue: many connections draw their receive buffers from one
 * pool.
 *
 * A server with thousands of clients cannot keep buffers for each of them. The SRQ is
 * filled once for all; when it runs low, the device raises an event, so that the program
 * can refill it.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "setup.h"

#define CLIENTS 3
#define BUFFERS 8
#define LOW	4 /* fewer than this many: tell me */
#define SIZE	32

static char pool[BUFFERS][SIZE], out[CLIENTS][SIZE];

static void refill(struct ibv_srq *srq, struct ibv_mr *mr, uint64_t slot)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)pool[slot], .length = SIZE, .lkey = mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};

	check(ibv_post_srq_recv(srq, &wr, &bad) == 0, "ibv_post_srq_recv");
}

static void say(struct ibv_qp *qp, struct ibv_mr *mr, int client, int round)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)out[client], .length = SIZE, .lkey = mr->lkey};
	struct ibv_send_wr *bad, wr = {
				     .wr_id = 1000,
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = IBV_WR_SEND,
				     .send_flags = IBV_SEND_SIGNALED,
				 };

	snprintf(out[client], SIZE, "message %d of client %d", round, client);
	check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
}

/* Both completions of one message: sent, and received by some buffer of the pool */
static void wait_message(struct device *dev, struct ibv_qp **servers)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = wait_completion(dev->cq);

		if (!(wc.opcode & IBV_WC_RECV))
			continue;
		/* wr_id tells the buffer, qp_num the connection */
		for (int c = 0; c < CLIENTS; c++)
			if (servers[c]->qp_num == wc.qp_num)
				printf("connection %d, buffer %d: %s\n", c, (int)wc.wr_id,
				       pool[wc.wr_id]);
	}
}

static void wait_low(struct device *dev)
{
	struct ibv_async_event event;

	check(ibv_get_async_event(dev->ctx, &event) == 0, "ibv_get_async_event");
	printf("event: %s\n", ibv_event_type_str(event.event_type));
	ibv_ack_async_event(&event);
}

int main(void)
{
	struct device dev;
	struct ibv_srq_init_attr init = {.attr = {.max_wr = BUFFERS, .max_sge = 1}};
	struct ibv_srq_attr limit = {.srq_limit = LOW};
	struct ibv_qp *clients[CLIENTS], *servers[CLIENTS];
	struct ibv_mr *pool_mr, *out_mr;
	struct ibv_srq *srq;

	device_open(&dev);
	pool_mr = ibv_reg_mr(dev.pd, pool, sizeof(pool), IBV_ACCESS_LOCAL_WRITE);
	out_mr = ibv_reg_mr(dev.pd, out, sizeof(out), 0);
	check(pool_mr && out_mr, "ibv_reg_mr");
	srq = ibv_create_srq(dev.pd, &init);
	check(srq != NULL, "ibv_create_srq");
	for (uint64_t i = 0; i < BUFFERS; i++)
		refill(srq, pool_mr, i);
	check(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == 0, "ibv_modify_srq");
	for (int c = 0; c < CLIENTS; c++) {
		clients[c] = make_qp(&dev, IBV_QPT_RC, NULL);
		servers[c] = make_qp(&dev, IBV_QPT_RC, srq);
		connect_qps(&dev, clients[c], servers[c]);
	}

	for (int round = 0; round < 2; round++) {
		for (int c = 0; c < CLIENTS; c++) {
			say(clients[c], out_mr, c, round);
			wait_message(&dev, servers);
		}
	}
	wait_low(&dev);

	for (int c = 0; c < CLIENTS; c++) {
		ibv_destroy_qp(clients[c]);
		ibv_destroy_qp(servers[c]);
	}
	ibv_destroy_srq(srq);
	ibv_dereg_mr(pool_mr);
	ibv_dereg_mr(out_mr);
	device_close(&dev);
	return 0;
}
