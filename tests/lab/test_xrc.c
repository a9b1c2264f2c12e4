/*
 * Description: XRC through the distribution's libibverbs, whose provider has none: each
 * operation of ibv_qp_ex at an initiator, lists that are posted all or not at all, SRQs of
 * a domain that another context opened by the same file.
 */
#include "lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SEND_OPS                                                                         \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |                \
	 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |                            \
	 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |                       \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

/*
 * struct xrc - an initiator and a target QP in the device of a lab, and memory
 * @mem:	of @mr, four pages; the peer is the same process
 */
struct xrc {
	struct lab l;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint32_t srqn;
	struct ibv_qp *ini, *tgt;
	struct ibv_qp_ex *ex;
	struct ibv_mr *mr;
	char *mem;
};

static struct ibv_xrcd *open_domain(struct ibv_context *ctx, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
						       IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = fd,
					  .oflags = oflags};

	return ibv_open_xrcd(ctx, &attr);
}

static struct ibv_srq *make_srq(struct ibv_context *ctx, struct ibv_pd *pd,
				struct ibv_cq *cq, struct ibv_xrcd *xrcd, uint32_t *srqn)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = 16, .max_sge = 1},
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			 IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
	    .srq_type = IBV_SRQT_XRC,
	    .pd = pd,
	    .xrcd = xrcd,
	    .cq = cq,
	};
	struct ibv_srq *srq = ibv_create_srq_ex(ctx, &attr);

	ck_assert(srq);
	ck_assert_int_eq(ibv_get_srq_num(srq, srqn), 0);
	return srq;
}

static void post_srq(struct ibv_srq *srq, struct ibv_mr *mr, void *p, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)p, len, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = &sge, .num_sge = 1}, *bad;

	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static struct ibv_qp *make_initiator(struct xrc *x, uint64_t ops)
{
	struct ibv_qp_init_attr_ex attr = {
	    .qp_type = IBV_QPT_XRC_SEND,
	    .send_cq = x->l.cq,
	    .cap = {.max_send_wr = 16, .max_send_sge = 4, .max_inline_data = 64},
	    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
	    .pd = x->l.pd,
	    .send_ops_flags = ops};

	return ibv_create_qp_ex(x->l.ctx, &attr);
}

static void connect_qp(const struct lab *l, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags = LAB_ACCESS,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = peer,
	    .max_dest_rd_atomic = 4,
	    .max_rd_atomic = 4,
	    .min_rnr_timer = 1,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = l->gid}},
	};
	bool ini = qp->qp_type == IBV_QPT_XRC_SEND;
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	ck_assert_int_eq(ibv_modify_qp(qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTR;
	mask =
	    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (!ini)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, mask), 0);
	attr.qp_state = IBV_QPS_RTS;
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
	if (ini)
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	ck_assert_int_eq(ibv_modify_qp(qp, &attr, mask), 0);
}

static void begin(struct xrc *x)
{
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = IBV_QP_INIT_ATTR_XRCD};

	lab_open(&x->l);
	x->mem = lab_map(4);
	x->mr = lab_reg(&x->l, x->mem, 4 * LAB_PAGE, LAB_ODP);
	x->xrcd = open_domain(x->l.ctx, -1, O_CREAT);
	ck_assert(x->xrcd);
	x->srq = make_srq(x->l.ctx, x->l.pd, x->l.cq, x->xrcd, &x->srqn);
	attr.xrcd = x->xrcd;
	x->tgt = ibv_create_qp_ex(x->l.ctx, &attr);
	x->ini = make_initiator(x, SEND_OPS);
	ck_assert(x->tgt && x->ini);
	x->ex = ibv_qp_to_qp_ex(x->ini);
	ck_assert(x->ex);
	connect_qp(&x->l, x->tgt, x->ini->qp_num);
	connect_qp(&x->l, x->ini, x->tgt->qp_num);
}

static void finish(struct xrc *x)
{
	ck_assert_int_eq(ibv_destroy_qp(x->ini), 0);
	ck_assert_int_eq(ibv_destroy_qp(x->tgt), 0);
	ck_assert_int_eq(ibv_destroy_srq(x->srq), 0);
	ck_assert_int_eq(ibv_close_xrcd(x->xrcd), 0);
	ck_assert_int_eq(ibv_dereg_mr(x->mr), 0);
	lab_close(&x->l);
}

static void start(struct ibv_qp_ex *ex, uint64_t id)
{
	ibv_wr_start(ex);
	ex->wr_id = id;
	ex->wr_flags = IBV_SEND_SIGNALED;
}

/* The request @id completes as @op; what it sent is received, if it was. */
static void expect_sent(struct xrc *x, uint64_t id, enum ibv_wc_opcode op, bool received)
{
	bool sent = false;

	for (int i = 0; i < 1 + received; i++) {
		struct ibv_wc wc = lab_wait(&x->l);

		ck_assert_msg(wc.status == IBV_WC_SUCCESS, "%d: %s", (int)id,
			      ibv_wc_status_str(wc.status));
		if (wc.wr_id != id)
			continue;
		ck_assert_int_eq(wc.opcode, op);
		sent = true;
	}
	ck_assert(sent);
}

START_TEST(each_operation_goes_by_xrc)
{
	struct xrc x = {0};
	char *there;
	uint64_t *word;
	struct ibv_sge sges[2];
	struct ibv_data_buf bufs[2];

	begin(&x);
	there = x.mem + LAB_PAGE;
	word = (uint64_t *)(void *)(there + 1024);
	lab_fill(x.mem, LAB_PAGE, 7);
	sges[0] = (struct ibv_sge){(uintptr_t)x.mem, 1000, x.mr->lkey};
	sges[1] = (struct ibv_sge){(uintptr_t)x.mem + 1000, 1000, x.mr->lkey};
	bufs[0] = (struct ibv_data_buf){x.mem, 10};
	bufs[1] = (struct ibv_data_buf){x.mem + 10, 20};
	for (int i = 0; i < 4; i++)
		post_srq(x.srq, x.mr, there + 2000, 2000);
#define OP(id, call, set, wc, received)                                                  \
	do {                                                                             \
		start(x.ex, (id));                                                       \
		call;                                                                    \
		set;                                                                     \
		ibv_wr_set_xrc_srqn(x.ex, x.srqn);                                       \
		ck_assert_int_eq(ibv_wr_complete(x.ex), 0);                              \
		expect_sent(&x, (id), (wc), (received));                                 \
	} while (0)
	OP(101, ibv_wr_send(x.ex), ibv_wr_set_sge_list(x.ex, 2, sges), IBV_WC_SEND, true);
	ck_assert(lab_is(there + 2000, 2000, 7));
	memset(there + 2000, 0, 2000);
	OP(102, ibv_wr_send_imm(x.ex, htonl(1)),
	   ibv_wr_set_inline_data_list(x.ex, 2, bufs), IBV_WC_SEND, true);
	ck_assert(lab_is(there + 2000, 30, 7) && !there[2030]);
	OP(103, ibv_wr_rdma_write(x.ex, x.mr->rkey, (uintptr_t)there),
	   ibv_wr_set_sge(x.ex, x.mr->lkey, (uintptr_t)x.mem, 900), IBV_WC_RDMA_WRITE,
	   false);
	ck_assert(lab_is(there, 900, 7));
	OP(104, ibv_wr_rdma_write_imm(x.ex, x.mr->rkey, (uintptr_t)there, htonl(2)),
	   ibv_wr_set_inline_data(x.ex, x.mem, 8), IBV_WC_RDMA_WRITE, true);
	*word = 40;
	OP(105, ibv_wr_atomic_fetch_add(x.ex, x.mr->rkey, (uintptr_t)word, 2),
	   ibv_wr_set_sge(x.ex, x.mr->lkey, (uintptr_t)&word[1], 8), IBV_WC_FETCH_ADD,
	   false);
	ck_assert(word[0] == 42 && word[1] == 40);
	OP(106, ibv_wr_atomic_cmp_swp(x.ex, x.mr->rkey, (uintptr_t)word, 42, 7),
	   ibv_wr_set_sge(x.ex, x.mr->lkey, (uintptr_t)&word[1], 8), IBV_WC_COMP_SWAP,
	   false);
	ck_assert(word[0] == 7 && word[1] == 42);
	OP(107, ibv_wr_rdma_read(x.ex, x.mr->rkey, (uintptr_t)x.mem),
	   ibv_wr_set_sge(x.ex, x.mr->lkey, (uintptr_t)there, 1000), IBV_WC_RDMA_READ,
	   false);
	ck_assert(lab_is(there, 1000, 7));
	finish(&x);
}
END_TEST

/* ibv_post_send(): what ibv_qp_ex does not have here, too */
START_TEST(local_operations_go_by_xrc)
{
	struct xrc x = {0};
	struct ibv_send_wr *bad, bind = {.wr_id = 1,
					 .opcode = IBV_WR_BIND_MW,
					 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr inv = {
	    .wr_id = 2, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mr *mr;
	struct ibv_mw *mw;

	begin(&x);
	mr = lab_reg(&x.l, x.mem, LAB_PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(x.l.pd, IBV_MW_TYPE_2);
	ck_assert(mw);
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = inv.invalidate_rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info =
	    (struct ibv_mw_bind_info){mr, (uintptr_t)x.mem, 100, IBV_ACCESS_REMOTE_READ};
	ck_assert_int_eq(ibv_post_send(x.ini, &bind, &bad), 0);
	expect_sent(&x, 1, IBV_WC_BIND_MW, false);
	ck_assert_int_ne(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_post_send(x.ini, &inv, &bad), 0);
	expect_sent(&x, 2, IBV_WC_LOCAL_INV, false);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	finish(&x);
}
END_TEST

/* ibv_post_send() posts what is before the request that it refuses, and names that one. */
START_TEST(list_with_a_bad_request)
{
	struct xrc x = {0};
	struct ibv_send_wr third = {
	    .wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr second = {
	    .wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .num_sge = 100, .next = &third};
	struct ibv_send_wr first = {.wr_id = 1,
				    .opcode = IBV_WR_RDMA_WRITE,
				    .send_flags = IBV_SEND_SIGNALED,
				    .next = &second};
	struct ibv_sge sge[100] = {{0}};
	struct ibv_send_wr *bad = NULL;
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_wc wc;

	begin(&x);
	second.sg_list = sge;
	ck_assert_int_eq(ibv_post_send(x.ini, &first, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &second);
	expect_sent(&x, 1, IBV_WC_RDMA_WRITE, false);
	/* in RESET none of them is taken */
	ck_assert_int_eq(ibv_modify_qp(x.ini, &reset, IBV_QP_STATE), 0);
	first.next = &third;
	ck_assert_int_eq(ibv_post_send(x.ini, &first, &bad), EINVAL);
	ck_assert_ptr_eq(bad, &first);
	connect_qp(&x.l, x.ini, x.tgt->qp_num);
	usleep(20000);
	ck_assert_int_eq(ibv_poll_cq(x.l.cq, 1, &wc), 0);
	finish(&x);
}
END_TEST

/* Two lists at once in one thread; what is aborted, or does not fit, leaves nothing. */
START_TEST(all_or_nothing)
{
	struct xrc x = {0};
	struct ibv_qp *other;
	struct ibv_qp_ex *ex2;
	struct ibv_wc wc;

	begin(&x);
	other = make_initiator(&x, IBV_QP_EX_WITH_RDMA_WRITE);
	ex2 = ibv_qp_to_qp_ex(other);
	start(x.ex, 1);
	ibv_wr_rdma_write(x.ex, x.mr->rkey, (uintptr_t)x.mem);
	start(ex2, 2);
	ibv_wr_rdma_write(ex2, 1, 1); /* "other" is not connected */
	ibv_wr_set_xrc_srqn(x.ex, x.srqn);
	ck_assert_int_eq(ibv_wr_complete(ex2), EINVAL);
	x.ex->wr_id = 3;
	ibv_wr_rdma_write(x.ex, x.mr->rkey, (uintptr_t)x.mem);
	ck_assert_int_eq(ibv_wr_complete(x.ex), 0);
	expect_sent(&x, 1, IBV_WC_RDMA_WRITE, false);
	expect_sent(&x, 3, IBV_WC_RDMA_WRITE, false);

	start(x.ex, 4);
	ibv_wr_rdma_write(x.ex, x.mr->rkey, (uintptr_t)x.mem);
	ibv_wr_abort(x.ex);
	start(x.ex, 5);
	for (int i = 0; i < 1000; i++)
		ibv_wr_rdma_write(x.ex, x.mr->rkey, (uintptr_t)x.mem);
	ck_assert_int_eq(ibv_wr_complete(x.ex), ENOMEM);
	start(x.ex, 6);
	ibv_wr_rdma_write(x.ex, x.mr->rkey, (uintptr_t)x.mem);
	ibv_wr_set_inline_data(x.ex, x.mem, LAB_PAGE);
	ck_assert_int_eq(ibv_wr_complete(x.ex), EINVAL);
	usleep(20000);
	ck_assert_int_eq(ibv_poll_cq(x.l.cq, 1, &wc), 0);
	start(x.ex, 7);
	ibv_wr_rdma_write(x.ex, x.mr->rkey, (uintptr_t)x.mem);
	ck_assert_int_eq(ibv_wr_complete(x.ex), 0);
	expect_sent(&x, 7, IBV_WC_RDMA_WRITE, false);
	/* operations that the initiator cannot have */
	ck_assert_ptr_null(make_initiator(&x, IBV_QP_EX_WITH_TSO));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	ck_assert_int_eq(ibv_destroy_qp(other), 0);
	finish(&x);
}
END_TEST

/* Another context opens the domain by the same file; its SRQ receives from the first's QP. */
START_TEST(domain_of_two_contexts)
{
	char name[] = "/tmp/urxe-test-XXXXXX";
	struct ibv_send_wr *bad, wr = {.wr_id = 1,
				       .opcode = IBV_WR_SEND_WITH_IMM,
				       .send_flags = IBV_SEND_SIGNALED};
	struct ibv_qp_init_attr_ex attr = {.qp_type = IBV_QPT_XRC_RECV,
					   .comp_mask = IBV_QP_INIT_ATTR_XRCD};
	int fd = mkstemp(name);
	struct xrc x = {0};
	struct ibv_xrcd *first;
	struct ibv_qp *tgt;
	struct lab l2;
	struct ibv_xrcd *second;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	uint32_t srqn;

	ck_assert(fd >= 0 && !unlink(name));
	begin(&x);
	lab_open(&l2);
	ck_assert_ptr_null(open_domain(x.l.ctx, fd, 0));
	first = open_domain(x.l.ctx, fd, O_CREAT | O_EXCL);
	ck_assert(first);
	ck_assert_ptr_null(open_domain(l2.ctx, fd, O_CREAT | O_EXCL));
	second = open_domain(l2.ctx, fd, 0);
	ck_assert(second);
	attr.xrcd = first;
	tgt = ibv_create_qp_ex(x.l.ctx, &attr);
	ck_assert(tgt);
	mr = lab_reg(&l2, x.mem, LAB_PAGE, LAB_ACCESS);
	srq = make_srq(l2.ctx, l2.pd, l2.cq, second, &srqn);
	post_srq(srq, mr, x.mem, 100);
	{
		struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

		ck_assert_int_eq(ibv_modify_qp(x.ini, &reset, IBV_QP_STATE), 0);
	}
	connect_qp(&x.l, tgt, x.ini->qp_num);
	connect_qp(&x.l, x.ini, tgt->qp_num);
	wr.qp_type.xrc.remote_srqn = srqn;
	ck_assert_int_eq(ibv_post_send(x.ini, &wr, &bad), 0);
	expect_sent(&x, 1, IBV_WC_SEND, false);
	ck_assert_uint_eq(lab_wait(&l2).qp_num, tgt->qp_num);
	ck_assert_int_eq(ibv_close_xrcd(second), EBUSY);
	ck_assert_int_eq(ibv_destroy_srq(srq), 0);
	ck_assert_int_eq(ibv_close_xrcd(second), 0);
	ck_assert_int_eq(ibv_destroy_qp(tgt), 0);
	ck_assert_int_eq(ibv_close_xrcd(first), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l2);
	finish(&x);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("xrc");
	TCase *tc = tcase_create("xrc");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, each_operation_goes_by_xrc);
	tcase_add_test(tc, local_operations_go_by_xrc);
	tcase_add_test(tc, list_with_a_bad_request);
	tcase_add_test(tc, all_or_nothing);
	tcase_add_test(tc, domain_of_two_contexts);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
