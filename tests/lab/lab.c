/* lab.c - see lab.h */
#include "lab.h"
#include "../check_main.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct ibv_qp *make_qp(struct lab *l)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = l->cq,
	    .recv_cq = l->cq,
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = 64,
		    .max_recv_wr = 64,
		    .max_send_sge = 6,
		    .max_recv_sge = 6},
	};
	struct ibv_qp *qp = ibv_create_qp(l->pd, &attr);

	ck_assert_msg(qp != NULL, "ibv_create_qp: %s", strerror(errno));
	return qp;
}

void lab_open(struct lab *l)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	ck_assert(list && list[0]);
	ck_assert_int_eq(urxe_active(), 1);
	*l = (struct lab){.rnr_retry = 7, .retry_cnt = 7, .timeout = 14, .reads = 16};
	l->ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	ck_assert(l->ctx);
	l->pd = ibv_alloc_pd(l->ctx);
	l->cq = ibv_create_cq(l->ctx, 256, NULL, NULL, 0);
	ck_assert(l->pd && l->cq);
	ck_assert_int_eq(ibv_query_gid(l->ctx, 1, 0, &l->gid), 0);
	l->left = make_qp(l);
	l->right = make_qp(l);
}

void lab_close(struct lab *l)
{
	ck_assert_int_eq(ibv_destroy_qp(l->left), 0);
	ck_assert_int_eq(ibv_destroy_qp(l->right), 0);
	ck_assert_int_eq(ibv_destroy_cq(l->cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(l->pd), 0);
	ck_assert_int_eq(ibv_close_device(l->ctx), 0);
}

static void connect_qp(const struct lab *l, struct ibv_qp *qp, const struct ibv_qp *peer)
{
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_qp_attr init = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags = LAB_ACCESS,
	};
	struct ibv_qp_attr rtr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_4096,
	    .dest_qp_num = peer->qp_num,
	    .max_dest_rd_atomic = l->reads,
	    .min_rnr_timer = 1, /* 10 us */
	    .ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = l->gid, .hop_limit = 1}},
	};
	struct ibv_qp_attr rts = {
	    .qp_state = IBV_QPS_RTS,
	    .timeout = l->timeout,
	    .retry_cnt = l->retry_cnt,
	    .rnr_retry = l->rnr_retry,
	    .max_rd_atomic = l->reads,
	};

	ck_assert_int_eq(ibv_modify_qp(qp, &reset, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_modify_qp(qp, &init,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS),
			 0);
	ck_assert_int_eq(ibv_modify_qp(qp, &rtr,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER),
			 0);
	ck_assert_int_eq(ibv_modify_qp(qp, &rts,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

void lab_connect(struct lab *l)
{
	struct ibv_wc wc;

	connect_qp(l, l->left, l->right);
	connect_qp(l, l->right, l->left);
	while (ibv_poll_cq(l->cq, 1, &wc) > 0)
		;
}

void lab_begin(struct lab *l)
{
	lab_open(l);
	lab_connect(l);
}

struct ibv_mr *lab_reg(struct lab *l, void *addr, size_t len, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(l->pd, addr, len, access);

	ck_assert_msg(mr != NULL, "ibv_reg_mr: %s", strerror(errno));
	return mr;
}

struct ibv_wc lab_wait(struct lab *l)
{
	double end = now() + LAB_WAIT;
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(l->cq, 1, &wc)) == 0)
		ck_assert_msg(now() < end, "no completion");
	ck_assert_int_eq(n, 1);
	return wc;
}

void lab_post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	ck_assert_int_eq(ibv_post_send(qp, wr, &bad), 0);
}

void lab_post_recv(struct ibv_qp *qp, struct ibv_mr *mr, void *p, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)p, .length = len, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
}

static enum ibv_wc_status one_sided(struct lab *l, enum ibv_wr_opcode op,
				    struct ibv_mr *local, const void *lp,
				    struct ibv_mr *remote, const void *rp, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)lp, .length = len, .lkey = local->lkey};
	struct ibv_send_wr wr = {
	    .wr_id = 1,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = op,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr.rdma = {.remote_addr = (uintptr_t)rp, .rkey = remote->rkey},
	};

	lab_post(l->left, &wr);
	return lab_wait(l).status;
}

enum ibv_wc_status lab_write(struct lab *l, struct ibv_mr *from, const void *src,
			     struct ibv_mr *to, void *dst, uint32_t len)
{
	return one_sided(l, IBV_WR_RDMA_WRITE, from, src, to, dst, len);
}

enum ibv_wc_status lab_read(struct lab *l, struct ibv_mr *to, void *dst,
			    struct ibv_mr *from, const void *src, uint32_t len)
{
	return one_sided(l, IBV_WR_RDMA_READ, to, dst, from, src, len);
}

enum ibv_wc_status lab_send(struct lab *l, struct ibv_mr *from, const void *src,
			    struct ibv_mr *to, void *dst, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)src, .length = len, .lkey = from->lkey};
	struct ibv_send_wr wr = {
	    .wr_id = 1,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = IBV_WR_SEND,
	    .send_flags = IBV_SEND_SIGNALED,
	};
	enum ibv_wc_status status = IBV_WC_GENERAL_ERR;
	int left = 2;

	lab_post_recv(l->right, to, dst, len);
	lab_post(l->left, &wr);
	while (left--) {
		struct ibv_wc wc = lab_wait(l);

		if (wc.wr_id == 1)
			status = wc.status;
	}
	return status;
}

enum ibv_wc_status lab_add(struct lab *l, struct ibv_mr *result, uint64_t *old,
			   struct ibv_mr *to, uint64_t *p, uint64_t add)
{
	struct ibv_sge sge = {.addr = (uintptr_t)old, .length = 8, .lkey = result->lkey};
	struct ibv_send_wr wr = {
	    .wr_id = 1,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr.atomic = {.remote_addr = (uintptr_t)p,
			  .rkey = to->rkey,
			  .compare_add = add},
	};

	lab_post(l->left, &wr);
	return lab_wait(l).status;
}

int lab_advise(struct lab *l, enum ibv_advise_mr_advice advice, uint32_t flags,
	       struct ibv_mr *mr, const void *addr, uint32_t len)
{
	struct ibv_sge sge = {.addr = (uintptr_t)addr, .length = len, .lkey = mr->lkey};

	return ibv_advise_mr(l->pd, advice, flags, &sge, 1);
}

char *lab_map(size_t pages)
{
	char *p = mmap(NULL, pages * LAB_PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert(p != MAP_FAILED);
	return p;
}

static char pattern(size_t i, unsigned int seed)
{
	return (char)((i * 2654435761u + seed * 40503u) >> 13);
}

void lab_fill(void *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		((char *)p)[i] = pattern(i, seed);
}

bool lab_is(const void *p, size_t len, unsigned int seed)
{
	for (size_t i = 0; i < len; i++)
		if (((const char *)p)[i] != pattern(i, seed))
			return false;
	return true;
}

struct urxe_counters lab_counters(struct ibv_mr *mr)
{
	struct urxe_counters c;

	ck_assert_int_eq(urxe_mr_counters(mr, &c, sizeof(c)), 0);
	return c;
}

uint64_t lab_faults(struct ibv_mr *mr)
{
	struct urxe_counters c = lab_counters(mr);

	return c.read_faults + c.write_faults;
}

bool lab_cached(struct ibv_mr *mr, const void *addr, unsigned int want)
{
	uint8_t bit;

	ck_assert_int_eq(urxe_mr_page_map(mr, addr, 1, want, &bit, 1), 0);
	return bit & 1;
}

int lab_main(Suite *s)
{
	return check_main(s);
}
