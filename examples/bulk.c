/*
 * bulk.c - messages that are larger than a packet, one after the other.
 *
 * The device cuts a message into packets of the path MTU, numbers them, and sends again what is
 * lost; the programs see none of it. Run it in a bad network (`urxe run --impair loss=1%`) and
 * look at what the device did (`--trace`, `urxe report`).
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "setup.h"

enum { MESSAGES = 40, SIZE = 16384 };

static char left_mem[SIZE], right_mem[SIZE];

static void post_send(struct ibv_qp *qp, uint64_t id, struct ibv_mr *mr)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)mr->addr, .length = SIZE, .lkey = mr->lkey};
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
	    .addr = (uintptr_t)mr->addr, .length = SIZE, .lkey = mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};

	check(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
}

int main(void)
{
	struct device dev;
	struct ibv_qp *left, *right;
	struct ibv_mr *left_mr, *right_mr;

	device_open(&dev);
	left_mr = ibv_reg_mr(dev.pd, left_mem, SIZE, IBV_ACCESS_LOCAL_WRITE);
	right_mr = ibv_reg_mr(dev.pd, right_mem, SIZE, IBV_ACCESS_LOCAL_WRITE);
	check(left_mr && right_mr, "ibv_reg_mr");
	left = make_qp(&dev, IBV_QPT_RC, NULL);
	right = make_qp(&dev, IBV_QPT_RC, NULL);
	connect_qps(&dev, left, right);

	for (uint64_t i = 0; i < MESSAGES; i++) {
		memset(left_mem, (int)i, SIZE);
		post_recv(right, 100 + i, right_mr);
		post_send(left, i, left_mr);
		/* one completion at each end */
		wait_completion(dev.cq);
		wait_completion(dev.cq);
		check(!memcmp(left_mem, right_mem, SIZE),
		      "what came is not what was sent");
	}
	printf("%d messages of %d bytes came\n", MESSAGES, SIZE);

	ibv_destroy_qp(left);
	ibv_destroy_qp(right);
	ibv_dereg_mr(left_mr);
	ibv_dereg_mr(right_mr);
	device_close(&dev);
	return 0;
}
