/*
 * ud_hello.c - unreliable datagrams: one queue pair talks to anybody, nothing is
 * repeated.
 *
 * Who is addressed is in the request: an address handle for the port, a queue pair
 * number, and a Q_Key that both must agree on. The receiver gets 40 bytes in front of the
 * data, where the network header of the packet is; an answer can be addressed from them.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "setup.h"

#define QKEY	 0x11111111
#define GRH_SIZE 40

static char left_mem[GRH_SIZE + 64], right_mem[GRH_SIZE + 64];

/* A datagram QP has no peer; its states need little. */
static void make_ready(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	check(ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				IBV_QP_QKEY) == 0,
	      "to INIT");
	attr.qp_state = IBV_QPS_RTR;
	check(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN) == 0, "to RTS");
}

static void receive(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = {.addr = (uintptr_t)mr->addr,
			      .length = (uint32_t)mr->length,
			      .lkey = mr->lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	check(ibv_post_recv(qp, &wr, &bad) == 0, "ibv_post_recv");
}

static void say(struct ibv_qp *qp, struct ibv_mr *mr, const char *text, struct ibv_ah *ah,
		uint32_t to)
{
	char *data = (char *)mr->addr + GRH_SIZE;
	struct ibv_sge sge = {.addr = (uintptr_t)data,
			      .length = (uint32_t)strlen(text) + 1,
			      .lkey = mr->lkey};
	struct ibv_send_wr *bad,
	    wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = {.ah = ah, .remote_qpn = to, .remote_qkey = QKEY},
	    };

	strcpy(data, text);
	check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
}

/* The completion of the receive; that of the send passes by. */
static struct ibv_wc wait_receive(struct ibv_cq *cq)
{
	struct ibv_wc wc, received = {0};

	for (int i = 0; i < 2; i++) {
		wc = wait_completion(cq);
		if (wc.opcode & IBV_WC_RECV)
			received = wc;
	}
	return received;
}

int main(void)
{
	struct device dev;
	struct ibv_qp *left, *right;
	struct ibv_mr *left_mr, *right_mr;
	struct ibv_ah *to_right, *to_left;
	struct ibv_ah_attr addr = {.is_global = 1, .port_num = 1};
	struct ibv_wc wc;

	device_open(&dev);
	left_mr = ibv_reg_mr(dev.pd, left_mem, sizeof(left_mem), IBV_ACCESS_LOCAL_WRITE);
	right_mr =
	    ibv_reg_mr(dev.pd, right_mem, sizeof(right_mem), IBV_ACCESS_LOCAL_WRITE);
	check(left_mr && right_mr, "ibv_reg_mr");
	left = make_qp(&dev, IBV_QPT_UD, NULL);
	right = make_qp(&dev, IBV_QPT_UD, NULL);
	make_ready(left);
	make_ready(right);

	addr.grh.dgid = dev.gid;
	addr.grh.hop_limit = 64;
	to_right = ibv_create_ah(dev.pd, &addr);
	check(to_right != NULL, "ibv_create_ah");

	receive(right, right_mr);
	say(left, left_mr, "hello", to_right, right->qp_num);
	wc = wait_receive(dev.cq);
	printf("right got \"%s\" (%u bytes) from queue pair 0x%x\n", right_mem + GRH_SIZE,
	       wc.byte_len - GRH_SIZE, wc.src_qp);

	to_left = ibv_create_ah_from_wc(dev.pd, &wc, (struct ibv_grh *)right_mem, 1);
	check(to_left != NULL, "ibv_create_ah_from_wc");
	receive(left, left_mr);
	say(right, right_mr, "hello to you", to_left, wc.src_qp);
	wc = wait_receive(dev.cq);
	printf("left got \"%s\" (%u bytes) from queue pair 0x%x\n", left_mem + GRH_SIZE,
	       wc.byte_len - GRH_SIZE, wc.src_qp);

	ibv_destroy_ah(to_left);
	ibv_destroy_ah(to_right);
	ibv_destroy_qp(left);
	ibv_destroy_qp(right);
	ibv_dereg_mr(left_mr);
	ibv_dereg_mr(right_mr);
	device_close(&dev);
	return 0;
}
