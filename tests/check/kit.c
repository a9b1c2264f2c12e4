/* kit.c - see kit.h */
#include "kit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define WAIT 20 /* s; a loaded machine is slow */

void check_that(bool ok, const char *what, int line)
{
	if (ok)
		return;
	fprintf(stderr, "line %d: %s: %s\n", line, what, strerror(errno));
	exit(1);
}

void kit_device_nth(struct kit *k, int nth)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	NEED(list && n);
	*k = (struct kit){.send_wr = 16,
			  .recv_wr = 16,
			  .timeout = 14,
			  .retry = 7,
			  .rnr_retry = 6,
			  .rd_atomic = 4,
			  .mtu = IBV_MTU_1024,
			  .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
			  .gid_index = 1,
			  .type = IBV_QPT_RC};
	NEED(k->ctx = ibv_open_device(list[nth < n ? nth : 0]));
	ibv_free_device_list(list);
	NEED(k->pd = ibv_alloc_pd(k->ctx));
}

void kit_device(struct kit *k)
{
	kit_device_nth(k, 0);
}

struct ibv_qp *kit_qp(struct kit *k, struct ibv_cq *cq, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr init = {.send_cq = cq,
					.recv_cq = cq,
					.srq = srq,
					.qp_type = k->type,
					.cap = {.max_send_wr = k->send_wr,
						.max_recv_wr = k->recv_wr,
						.max_send_sge = 2,
						.max_recv_sge = 2,
						.max_inline_data = 64}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = (unsigned int)k->access};
	struct ibv_qp *qp = ibv_create_qp(k->pd, &init);

	NEED(qp);
	k->send_room = init.cap.max_send_wr;
	NEED(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				IBV_QP_ACCESS_FLAGS));
	return qp;
}

void kit_connect_qp(struct kit *k, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = k->mtu,
	    .dest_qp_num = peer,
	    .max_dest_rd_atomic = k->rd_atomic,
	    .min_rnr_timer = 1,
	    .ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.sgid_index = (uint8_t)k->gid_index, .hop_limit = 1}}};

	NEED(!ibv_query_gid(k->ctx, 1, k->gid_index, &attr.ah_attr.grh.dgid));
	NEED(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				IBV_QP_MIN_RNR_TIMER));
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = k->timeout;
	attr.retry_cnt = k->retry;
	attr.rnr_retry = k->rnr_retry;
	attr.max_rd_atomic = k->rd_atomic;
	NEED(!ibv_modify_qp(qp, &attr,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC));
}

void kit_connect(struct kit *k)
{
	int cqe = k->cqe ? k->cqe : (int)(k->send_wr + k->recv_wr);

	if (!k->left_cq)
		NEED(k->left_cq = ibv_create_cq(k->ctx, cqe, NULL, k->channel, 0));
	NEED(k->right_cq = ibv_create_cq(k->ctx, cqe, NULL, NULL, 0));
	k->right = kit_qp(k, k->right_cq, k->srq);
	k->left = kit_qp(k, k->left_cq, NULL);
	kit_connect_qp(k, k->left, k->right->qp_num);
	kit_connect_qp(k, k->right, k->left->qp_num);
}

void kit_open(struct kit *k)
{
	kit_device(k);
	kit_connect(k);
}

void kit_srq(struct kit *k, uint32_t depth)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = depth, .max_sge = 2}};

	NEED(k->srq = ibv_create_srq(k->pd, &attr));
}

void kit_destroy_qps(struct kit *k)
{
	if (k->left)
		NEED(!ibv_destroy_qp(k->left));
	if (k->right)
		NEED(!ibv_destroy_qp(k->right));
	k->left = k->right = NULL;
}

void kit_close_rest(struct kit *k)
{
	if (k->srq)
		NEED(!ibv_destroy_srq(k->srq));
	if (k->left_cq)
		NEED(!ibv_destroy_cq(k->left_cq));
	if (k->right_cq)
		NEED(!ibv_destroy_cq(k->right_cq));
	if (k->channel)
		NEED(!ibv_destroy_comp_channel(k->channel));
	NEED(!ibv_dealloc_pd(k->pd));
	NEED(!ibv_close_device(k->ctx));
}

void kit_close(struct kit *k)
{
	kit_destroy_qps(k);
	kit_close_rest(k);
}

void kit_to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	NEED(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

char *kit_map(size_t len)
{
	char *p =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	NEED(p != MAP_FAILED);
	return p;
}

struct ibv_mr *kit_reg(struct kit *k, void *p, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(k->pd, p, len, (unsigned int)access);

	NEED(mr);
	return mr;
}

void kit_dereg(struct ibv_mr *mr)
{
	NEED(!ibv_dereg_mr(mr));
}

int kit_send(struct ibv_qp *qp, struct ibv_mr *mr, void *p, uint32_t len,
	     unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)p, len, mr ? mr->lkey : 0};
	struct ibv_send_wr *bad, wr = {.wr_id = 1,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = flags};

	return ibv_post_send(qp, &wr, &bad);
}

int kit_recv(struct ibv_qp *qp, struct ibv_mr *mr, void *p, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)p, len, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1};

	return ibv_post_recv(qp, &wr, &bad);
}

int kit_srq_recv(struct ibv_srq *srq, struct ibv_mr *mr, void *p, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)p, len, mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1};

	return ibv_post_srq_recv(srq, &wr, &bad);
}

int kit_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, struct ibv_mr *mr, void *p,
	     uint32_t len, const void *remote, uint32_t rkey, unsigned int flags)
{
	struct ibv_sge sge = {(uintptr_t)p, len, mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = 4,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = op,
				       .send_flags = flags};

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)remote;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)remote;
		wr.wr.rdma.rkey = rkey;
	}
	return ibv_post_send(qp, &wr, &bad);
}

struct ibv_wc kit_wait(struct ibv_cq *cq)
{
	time_t end = time(NULL) + WAIT;
	struct ibv_wc wc = {.wr_id = 0};
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)) && time(NULL) < end)
		;
	NEED(n == 1);
	return wc;
}

void kit_good(struct ibv_cq *cq)
{
	NEED(kit_wait(cq).status == IBV_WC_SUCCESS);
}

uint64_t kit_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

void kit_sleep(unsigned int ms)
{
	usleep(ms * 1000);
}

/* struct call - of a thread */
struct call {
	void (*fn)(void *arg);
	void *arg;
};

static void *run(void *arg)
{
	struct call *c = arg;

	c->fn(c->arg);
	return NULL;
}

void kit_in_thread(void (*fn)(void *arg), void *arg)
{
	struct call c = {fn, arg};
	pthread_t t;

	NEED(!pthread_create(&t, NULL, run, &c));
	pthread_join(t, NULL);
}
