/*
 * late_receive.c - a receiver that is late: requests wait for receive buffers of the peer.
 *
 * A SEND needs a receive request that the peer posted before. Without one the peer's device
 * answers "receiver not ready" (RNR), and the sender's tries again after the time that the
 * answer names, as often as its rnr_retry says (7: for ever). Neither program is told: the
 * requests are only late. Record it and look (`urxe run --trace`, `urxe report`).
 */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "setup.h"

enum { MESSAGES = 14, LATE_US = 200000 };

static char left_mem[512], right_mem[512];

static void post_send(struct ibv_qp *qp, uint64_t id, struct ibv_mr *mr)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)mr->addr, .length = sizeof(left_mem), .lkey = mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = id,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};

	check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
}

static void post_recv(struct ibv_qp *qp, uint64_t id, struct ibv_mr *mr)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)mr->addr, .length = sizeof(right_mem), .lkey = mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	check(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
}

int main(void)
{
	struct device dev;
	struct ibv_qp *left, *right;
	struct ibv_mr *left_mr, *right_mr;

	device_open(&dev);
	left_mr = ibv_reg_mr(dev.pd, left_mem, sizeof(left_mem), IBV_ACCESS_LOCAL_WRITE);
	right_mr =
	    ibv_reg_mr(dev.pd, right_mem, sizeof(right_mem), IBV_ACCESS_LOCAL_WRITE);
	check(left_mr && right_mr, "ibv_reg_mr");
	left = make_qp(&dev, IBV_QPT_RC, NULL);
	right = make_qp(&dev, IBV_QPT_RC, NULL);
	connect_qps(&dev, left, right);

	for (uint64_t i = 0; i < MESSAGES; i++)
		post_send(left, i, left_mr);
	usleep(LATE_US);
	for (uint64_t i = 0; i < MESSAGES; i++)
		post_recv(right, 100 + i, right_mr);
	/* one completion at each end of each message */
	for (int i = 0; i < 2 * MESSAGES; i++)
		wait_completion(dev.cq);
	printf("%d messages came, after %d ms\n", MESSAGES, LATE_US / 1000);

	ibv_destroy_qp(left);
	ibv_destroy_qp(right);
	ibv_dereg_mr(left_mr);
	ibv_dereg_mr(right_mr);
	device_close(&dev);
	return 0;
}
