/*
 * side.c - see side.h.
 */
#include "side.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && *list ? ibv_open_device(*list) : NULL;

	if (list)
		ibv_free_device_list(list);
	return ctx;
}

bool side_open(struct side *s)
{
	*s = (struct side){.ctx = open_device()};
	if (s->ctx && !ibv_query_gid(s->ctx, 1, 0, &s->gid))
		s->channel = ibv_create_comp_channel(s->ctx);
	if (s->channel)
		s->pd = ibv_alloc_pd(s->ctx);
	if (s->pd)
		s->cq = ibv_create_cq(s->ctx, 16, NULL, s->channel, 0);
	if (s->cq)
		s->buf = aligned_alloc(4096, SIDE_BYTES);
	if (s->buf)
		s->mr = ibv_reg_mr(s->pd, s->buf, SIDE_BYTES,
				   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	if (s->mr)
		return true;
	side_close(s);
	return false;
}

struct ibv_qp *side_qp(struct side *s)
{
	struct ibv_qp_init_attr init = {.send_cq = s->cq,
					.recv_cq = s->cq,
					.cap = {.max_send_wr = 8,
						.max_recv_wr = 8,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC,
					.sq_sig_all = 1};

	return ibv_create_qp(s->pd, &init);
}

static bool to_rts(struct side *s, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	if (ibv_modify_qp(qp, &a,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS))
		return false;
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = peer,
				 .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 1,
				 .ah_attr = {.is_global = 1,
					     .port_num = 1,
					     .grh = {.dgid = s->gid, .hop_limit = 64}}};
	if (ibv_modify_qp(qp, &a,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER))
		return false;
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				 .timeout = 12,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .max_rd_atomic = 1};
	return !ibv_modify_qp(qp, &a,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC);
}

bool side_connect(struct side *s)
{
	s->left = side_qp(s);
	s->right = s->left ? side_qp(s) : NULL;
	return s->right && to_rts(s, s->left, s->right->qp_num) &&
	       to_rts(s, s->right, s->left->qp_num);
}

void side_close(struct side *s)
{
	if (s->left)
		ibv_destroy_qp(s->left);
	if (s->right)
		ibv_destroy_qp(s->right);
	if (s->mr)
		ibv_dereg_mr(s->mr);
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->pd)
		ibv_dealloc_pd(s->pd);
	if (s->channel)
		ibv_destroy_comp_channel(s->channel);
	if (s->ctx)
		ibv_close_device(s->ctx);
	free(s->buf);
	*s = (struct side){0};
}

int side_post(struct side *s, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)s->buf, len, s->mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND},
			   *bad;

	return ibv_post_send(s->left, &wr, &bad);
}

int side_receive(struct side *s)
{
	struct ibv_sge sge = {(uintptr_t)s->buf + SIDE_BYTES / 2, SIDE_BYTES / 2,
			      s->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(s->right, &wr, &bad);
}

static uint64_t used_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

bool side_wait(struct side *s, struct ibv_wc *wc)
{
	uint64_t end = used_ms() + SIDE_WAIT_MS;
	int n;

	do
		n = ibv_poll_cq(s->cq, 1, wc);
	while (!n && used_ms() < end);
	return n > 0;
}
