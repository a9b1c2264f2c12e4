/*
 * Description: under the profile of another card a program is refused what that card refuses. Runs
 * with URXE_PROFILE=irdma: no SRQs, atomics, UC or on-demand paging, 6 SGEs, 101 bytes inline.
 */
#include <fcntl.h>

#include "hca.h"

#define IRDMA_QP_WR  8127
#define IRDMA_SGES   6
#define IRDMA_INLINE 101
#define IRDMA_CQE    1048574
#define IRDMA_READS  8

static const struct ibv_qp_init_attr small = {
    .qp_type = IBV_QPT_RC,
    .cap = {.max_send_wr = 8,
	    .max_recv_wr = 8,
	    .max_send_sge = IRDMA_SGES,
	    .max_recv_sge = IRDMA_SGES},
};

/* The errno with which a QP is refused; 0: it is made */
static int try_qp(struct lab *l, struct ibv_qp_init_attr attr)
{
	struct ibv_qp *qp;

	attr.send_cq = attr.recv_cq = l->cq;
	qp = ibv_create_qp(l->pd, &attr);
	if (!qp)
		return errno;
	ck_assert_int_eq(ibv_destroy_qp(qp), 0);
	return 0;
}

START_TEST(the_device_says_the_limits_of_the_card)
{
	struct ibv_device_attr a;
	struct lab l;

	lab_open(&l);
	ck_assert_int_eq(ibv_query_device(l.ctx, &a), 0);
	ck_assert_int_eq(a.max_qp_wr, IRDMA_QP_WR);
	ck_assert_uint_eq(a.vendor_id, 0x8086);
	ck_assert_uint_eq(a.vendor_part_id, 5522);
	ck_assert_str_eq(a.fw_ver, "1.74.0");
	ck_assert_int_eq(a.atomic_cap, IBV_ATOMIC_NONE);
	lab_close(&l);
}
END_TEST

START_TEST(a_queue_pair_may_be_as_large_as_the_limits_and_no_larger)
{
	struct ibv_qp_init_attr a;
	struct lab l;

	lab_open(&l);
	a = small;
	a.cap.max_send_wr = a.cap.max_recv_wr = IRDMA_QP_WR;
	ck_assert_int_eq(try_qp(&l, a), 0);
	a.cap.max_send_wr++;
	ck_assert_int_eq(try_qp(&l, a), EINVAL);
	a = small;
	a.cap.max_recv_wr = IRDMA_QP_WR + 1;
	ck_assert_int_eq(try_qp(&l, a), EINVAL);
	a = small;
	a.cap.max_send_sge++;
	ck_assert_int_eq(try_qp(&l, a), EINVAL);
	a = small;
	a.cap.max_inline_data = IRDMA_INLINE;
	ck_assert_int_eq(try_qp(&l, a), 0);
	a.cap.max_inline_data++;
	ck_assert_int_eq(try_qp(&l, a), EINVAL);
	lab_close(&l);
}
END_TEST

START_TEST(a_completion_queue_may_be_as_large_as_the_limit)
{
	struct ibv_cq *cq;
	struct lab l;

	lab_open(&l);
	ck_assert_ptr_null(ibv_create_cq(l.ctx, IRDMA_CQE + 1, NULL, NULL, 0));
	ck_assert_int_eq(errno, EINVAL);
	cq = ibv_create_cq(l.ctx, IRDMA_CQE, NULL, NULL, 0);
	ck_assert_ptr_nonnull(cq);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	lab_close(&l);
}
END_TEST

START_TEST(what_the_card_does_not_have_is_not_supported)
{
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_xrcd_init_attr xrcd = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
						       IBV_XRCD_INIT_ATTR_OFLAGS,
					  .fd = -1,
					  .oflags = O_CREAT};
	struct ibv_qp_init_attr uc = small;
	char *p = lab_map(1);
	struct lab l;

	lab_open(&l);
	ck_assert_ptr_null(ibv_create_srq(l.pd, &srq));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	ck_assert_ptr_null(ibv_open_xrcd(l.ctx, &xrcd));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	uc.qp_type = IBV_QPT_UC;
	ck_assert_int_eq(try_qp(&l, uc), EOPNOTSUPP);
	ck_assert_ptr_null(ibv_reg_mr(l.pd, p, LAB_PAGE, LAB_ODP));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	ck_assert_ptr_null(ibv_reg_mr(l.pd, NULL, SIZE_MAX, LAB_ODP));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	lab_close(&l);
}
END_TEST

/* "left" to RTR with so many READs of the peer, which ends with @err */
static void to_rtr(struct lab *l, uint8_t reads, int err)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.path_mtu = IBV_MTU_1024,
				.dest_qp_num = l->right->qp_num,
				.max_dest_rd_atomic = reads,
				.min_rnr_timer = 1,
				.ah_attr = {.is_global = 1,
					    .port_num = 1,
					    .grh = {.dgid = l->gid, .hop_limit = 64}}};

	if (query(l->left).qp_state == IBV_QPS_RESET)
		ck_assert_int_eq(ibv_modify_qp(l->left, &a,
					       IBV_QP_STATE | IBV_QP_PKEY_INDEX |
						   IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
				 0);
	a.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_qp(l->left, &a,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER),
			 err);
}

START_TEST(more_reads_at_once_than_the_card_has_are_refused)
{
	const int to_rts = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
	struct ibv_qp_attr a;
	struct lab l;

	lab_open(&l);
	to_rtr(&l, IRDMA_READS + 1, EINVAL);
	to_rtr(&l, IRDMA_READS, 0);
	a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				 .timeout = 14,
				 .retry_cnt = 7,
				 .rnr_retry = 7,
				 .max_rd_atomic = IRDMA_READS + 1};
	ck_assert_int_eq(ibv_modify_qp(l.left, &a, to_rts), EINVAL);
	a.max_rd_atomic = IRDMA_READS;
	ck_assert_int_eq(ibv_modify_qp(l.left, &a, to_rts), 0);
	lab_close(&l);
}
END_TEST

START_TEST(an_atomic_fails_and_all_else_goes_on)
{
	uint64_t *p = (uint64_t *)lab_map(1), old;
	struct ibv_mr *mr;
	struct lab l;

	lab_open(&l);
	l.reads = IRDMA_READS;
	remake(&l, small);
	mr = lab_reg(&l, p, LAB_PAGE, LAB_ACCESS);
	lab_fill(p, 64, 1);
	ck_assert_int_eq(lab_write(&l, mr, p, mr, p + 8, 64), IBV_WC_SUCCESS);
	ck_assert(lab_is(p + 8, 64, 1));
	ck_assert_int_eq(lab_read(&l, mr, p + 16, mr, p + 8, 64), IBV_WC_SUCCESS);
	p[32] = 5;
	ck_assert_int_eq(lab_add(&l, mr, &old, mr, p + 32, 1), IBV_WC_LOC_QP_OP_ERR);
	ck_assert_uint_eq(p[32], 5);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("profile");
	TCase *tc = tcase_create("profile");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, the_device_says_the_limits_of_the_card);
	tcase_add_test(tc, a_queue_pair_may_be_as_large_as_the_limits_and_no_larger);
	tcase_add_test(tc, a_completion_queue_may_be_as_large_as_the_limit);
	tcase_add_test(tc, what_the_card_does_not_have_is_not_supported);
	tcase_add_test(tc, more_reads_at_once_than_the_card_has_are_refused);
	tcase_add_test(tc, an_atomic_fails_and_all_else_goes_on);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
