/*
 * rc_write_read.c - reliable connection: write into, read from, and send to a peer.
 *
 * WRITE and READ are one-sided: the peer's processor takes no part and the peer's program
 * is not told. SEND is two-sided: it needs a receive request that the peer posted before.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "setup.h"

enum { WRITE = 1, READ, SEND, RECV };

static char left_mem[64], right_mem[64];

/* One request with one piece of local memory; SIGNALED asks for a completion. */
static void post(struct ibv_qp *qp, uint64_t id, enum ibv_wr_opcode opcode,
		 struct ibv_mr *local, uint32_t len, const struct ibv_mr *remote)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)local->addr, .length = len, .lkey = local->lkey};
	struct ibv_send_wr *bad, wr = {
				     .wr_id = id,
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = opcode,
				     .send_flags = IBV_SEND_SIGNALED,
				 };

	if (remote) {
		/* A program elsewhere must have told us this address and key. */
		wr.wr.rdma.remote_addr = (uintptr_t)remote->addr;
		wr.wr.rdma.rkey = remote->rkey;
	}
	check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
}

static void post_recv(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)mr->addr, .length = sizeof(right_mem), .lkey = mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = RECV, .sg_list = &sge, .num_sge = 1};

	check(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
}

int main(void)
{
	struct device dev;
	struct ibv_qp *left, *right;
	struct ibv_mr *left_mr, *right_mr;

	device_open(&dev);
	/*
	 * The device may touch only memory that was registered, and only as it is allowed
	 * to.
	 */
	left_mr = ibv_reg_mr(dev.pd, left_mem, sizeof(left_mem), IBV_ACCESS_LOCAL_WRITE);
	right_mr = ibv_reg_mr(dev.pd, right_mem, sizeof(right_mem),
			      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				  IBV_ACCESS_REMOTE_READ);
	check(left_mr && right_mr, "ibv_reg_mr");
	left = make_qp(&dev, IBV_QPT_RC, NULL);
	right = make_qp(&dev, IBV_QPT_RC, NULL);
	connect_qps(&dev, left, right);

	strcpy(left_mem, "written by the left side");
	post(left, WRITE, IBV_WR_RDMA_WRITE, left_mr, sizeof(left_mem), right_mr);
	wait_completion(dev.cq);
	printf("WRITE: the right side has \"%s\"\n", right_mem);

	strcpy(right_mem, "fetched from the right side");
	memset(left_mem, 0, sizeof(left_mem));
	post(left, READ, IBV_WR_RDMA_READ, left_mr, sizeof(left_mem), right_mr);
	wait_completion(dev.cq);
	printf("READ:  the left side has \"%s\"\n", left_mem);

	strcpy(left_mem, "a message");
	post_recv(right, right_mr);
	post(left, SEND, IBV_WR_SEND, left_mr, sizeof("a message"), NULL);
	/* Two completions, one for each end, in any order */
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = wait_completion(dev.cq);

		if (wc.wr_id == RECV)
			printf("SEND:  the right side received %u bytes: \"%s\"\n",
			       wc.byte_len, right_mem);
	}

	ibv_destroy_qp(left);
	ibv_destroy_qp(right);
	ibv_dereg_mr(left_mr);
	ibv_dereg_mr(right_mr);
	device_close(&dev);
	return 0;
}
