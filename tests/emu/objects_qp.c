/*
 * Description: queue pairs: limits at creation, values at modify, what query reports,
 * reset, error, use counts, many of them.
 */
#include "objects_fake.h"
#include "tests/check_main.h"

#include <stdlib.h>
#include <time.h>

static struct emu_pd *pd;
static struct emu_cq *cq;

static void setup(void)
{
	fake_setup();
	pd = fake_pd();
	cq = fake_cq(64);
}

static void teardown(void)
{
	ck_assert_int_eq(emu_cq_destroy(cq), 0);
	ck_assert_int_eq(emu_pd_destroy(pd), 0);
	fake_teardown();
}

static struct emu_qp_init rc_init(void)
{
	return (struct emu_qp_init){
	    .type = IBV_QPT_RC, .pd = pd, .send_cq = cq, .recv_cq = cq, .cookie = &pd};
}

static int try(struct emu_qp_init init)
{
	struct emu_qp *qp;
	int ret = emu_qp_create(fake.hca, &init, &qp);

	if (!ret)
		ck_assert_int_eq(emu_qp_destroy(qp), 0);
	return ret;
}

START_TEST(wrong_attributes_make_no_qp)
{
	struct emu_qp_init i = rc_init();

	ck_assert_int_eq(try(i), 0);
#define WITH(field, v)                                                                   \
	({                                                                               \
		struct emu_qp_init j = i;                                                \
		j.field = (v);                                                           \
		try(j);                                                                  \
	})
	ck_assert_int_eq(WITH(type, 0), -EINVAL); /* SMI */
	ck_assert_int_eq(WITH(type, 1), -EINVAL); /* GSI */
	ck_assert_int_eq(WITH(type, 77), -EINVAL);
	ck_assert_int_eq(WITH(type, IBV_QPT_RAW_PACKET), -EOPNOTSUPP);
	ck_assert_int_eq(WITH(type, IBV_QPT_DRIVER), -EOPNOTSUPP);
	ck_assert_int_eq(WITH(type, IBV_QPT_XRC_RECV), -EINVAL); /* no domain */
	ck_assert_int_eq(WITH(pd, NULL), -EINVAL);
	ck_assert_int_eq(WITH(send_cq, NULL), -EINVAL);
	ck_assert_int_eq(WITH(recv_cq, NULL), -EINVAL);
	ck_assert_int_eq(WITH(cap.max_send_wr, 1048577), -EINVAL);
	ck_assert_int_eq(WITH(cap.max_recv_wr, 1048577), -EINVAL);
	ck_assert_int_eq(WITH(cap.max_send_sge, 33), -EINVAL);
	ck_assert_int_eq(WITH(cap.max_recv_sge, 33), -EINVAL);
	ck_assert_int_eq(WITH(cap.max_inline_data, 513), -EINVAL);
	ck_assert_int_eq(WITH(cap.max_inline_data, 512), 0);
	ck_assert_int_eq(WITH(cap.max_send_sge, 32), 0);
#undef WITH
	fake.ring_limit = 1; /* the second ring fails: the first is given back */
	ck_assert_int_eq(try(i), -ENOMEM);
	ck_assert_int_eq(fake.rings, 1); /* the CQ's */
	fake.ring_limit = -1;
	ck_assert_uint_eq(pd->users, 0);
	ck_assert_uint_eq(cq->users, 0);
}
END_TEST

START_TEST(without_a_qpn_there_is_no_qp)
{
	struct emu_qp_init i = rc_init();

	fake.leases = 0;
	ck_assert_int_eq(try(i), -ENOMEM);
	ck_assert_int_eq(fake.rings, 1);
}
END_TEST

START_TEST(a_qp_has_what_is_asked_for_or_more)
{
	struct emu_qp_init i = rc_init();
	struct emu_qp *qp;

	i.cap = (struct ibv_qp_cap){
	    .max_send_wr = 16,
	    .max_recv_wr = 1,
	    .max_send_sge = 2,
	    .max_recv_sge = 3,
	    .max_inline_data = 100,
	};
	ck_assert_int_eq(emu_qp_create(fake.hca, &i, &qp), 0);
	ck_assert_uint_eq(i.cap.max_send_wr, 31);
	ck_assert_uint_eq(i.cap.max_recv_wr, 1);
	ck_assert_uint_eq(i.cap.max_send_sge, 6); /* 100 bytes have room for 6 */
	ck_assert_uint_eq(i.cap.max_inline_data, 100);
	ck_assert_uint_eq(i.cap.max_recv_sge, 3);
	ck_assert_uint_eq(1u << qp->rq.log2_elem, 128);
	emu_qp_destroy(qp);

	i.cap = (struct ibv_qp_cap){.max_send_sge = 4};
	ck_assert_int_eq(emu_qp_create(fake.hca, &i, &qp), 0);
	ck_assert_uint_eq(i.cap.max_inline_data, 64);
	emu_qp_destroy(qp);
}
END_TEST

START_TEST(xrc_qps_have_one_side)
{
	struct emu_qp_init i = rc_init();
	struct emu_xrcd *xrcd;
	struct emu_qp *s, *r;

	ck_assert_int_eq(emu_xrcd_create(fake.hca, &xrcd), 0);
	i.cap = (struct ibv_qp_cap){3, 3, 3, 3, 0};
	i.type = IBV_QPT_XRC_SEND;
	i.recv_cq = NULL;
	ck_assert_int_eq(emu_qp_create(fake.hca, &i, &s), 0);
	ck_assert_uint_eq(i.cap.max_recv_wr, 0);
	ck_assert_uint_eq(emu_qp_rq_ring(s).size, 0);
	ck_assert_uint_gt(emu_qp_sq_ring(s).size, 0);
	i = (struct emu_qp_init){.type = IBV_QPT_XRC_RECV, .xrcd = xrcd};
	ck_assert_int_eq(emu_qp_create(fake.hca, &i, &r), 0);
	ck_assert_uint_eq(emu_qp_rq_ring(r).size, 0);
	ck_assert_uint_eq(emu_qp_sq_ring(r).size, 0);
	ck_assert_int_eq(emu_xrcd_destroy(xrcd), -EBUSY);
	fake_qp_to(s, IBV_QPS_RTS);
	fake_qp_to(r, IBV_QPS_RTS);
	emu_qp_destroy(s);
	emu_qp_destroy(r);
	ck_assert_int_eq(emu_xrcd_destroy(xrcd), 0);
}
END_TEST

/* One value is bad, all else is good; nothing must change. */
START_TEST(a_bad_value_changes_nothing)
{
	struct emu_qp *qp = fake_qp(IBV_QPT_RC, pd, cq);
	const struct ibv_qp_attr good = fake_qp_attr();
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	const int init =
	    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	struct net_ip v6 = fake_v6(0xfe, 2), any = {{0}};
	struct ibv_qp_attr a;

#define BAD(mask, to, errno_, stmt)                                                      \
	do {                                                                             \
		a = good;                                                                \
		a.qp_state = (to);                                                       \
		stmt;                                                                    \
		ck_assert_int_eq(emu_qp_modify(qp, &a, mask), -(errno_));                \
		ck_assert_int_eq(qp->state, (to)-1);                                     \
	} while (0)
#define GOOD(mask, to, stmt)                                                             \
	do {                                                                             \
		a = good;                                                                \
		a.qp_state = (to);                                                       \
		stmt;                                                                    \
		ck_assert_int_eq(emu_qp_modify(qp, &a, mask), 0);                        \
	} while (0)
	BAD(init, IBV_QPS_INIT, EINVAL, a.port_num = 0);
	BAD(init, IBV_QPS_INIT, EINVAL, a.port_num = 2);
	BAD(init, IBV_QPS_INIT, EINVAL, a.pkey_index = 1);
	BAD(init, IBV_QPS_INIT, EINVAL, a.qp_access_flags = 1 << 12);
	GOOD(init, IBV_QPS_INIT, (void)0);
	ck_assert_uint_eq(qp->attr.qp_access_flags, good.qp_access_flags);

	BAD(rtr, IBV_QPS_RTR, EINVAL, a.ah_attr.is_global = 0);
	BAD(rtr, IBV_QPS_RTR, EINVAL, a.ah_attr.port_num = 0);
	BAD(rtr, IBV_QPS_RTR, EINVAL, a.ah_attr.grh.sgid_index = EMU_GID_TABLE_LEN);
	BAD(rtr, IBV_QPS_RTR, EINVAL, a.ah_attr.grh.sgid_index = 255);
	BAD(rtr, IBV_QPS_RTR, ENODATA, a.ah_attr.grh.sgid_index = 5);
	BAD(rtr, IBV_QPS_RTR, EINVAL, memcpy(a.ah_attr.grh.dgid.raw, &v6, 16));
	BAD(rtr, IBV_QPS_RTR, EINVAL, memcpy(a.ah_attr.grh.dgid.raw, &any, 16));
	BAD(rtr, IBV_QPS_RTR, EINVAL, a.path_mtu = 0);
	BAD(rtr, IBV_QPS_RTR, EINVAL, a.path_mtu = 6);
	BAD(rtr, IBV_QPS_RTR, EINVAL, a.max_dest_rd_atomic = 129);
	BAD(rtr, IBV_QPS_RTR, EINVAL, a.min_rnr_timer = 32);
	BAD(rtr, IBV_QPS_RTR, EINVAL, a.dest_qp_num = 1 << 24);
	BAD(rtr | IBV_QP_ALT_PATH, IBV_QPS_RTR, EINVAL, (void)0);
	ck_assert_uint_eq(qp->mtu, 256);
	/* it was refused, not taken with a warning */
	ck_assert_ptr_null(strstr(fake.line, "is above the port's"));
	GOOD(rtr, IBV_QPS_RTR, {
		a.rq_psn = 0xab000001;
		a.path_mtu = IBV_MTU_4096;
		a.ah_attr.grh.traffic_class = 9;
		a.ah_attr.grh.hop_limit = 3;
		a.ah_attr.grh.flow_label = 0xfffabcde;
	});
	ck_assert_str_eq(fake.tr, "rtr");
	ck_assert_uint_eq(qp->attr.rq_psn, 1);
	ck_assert_uint_eq(qp->mtu, 4096);
	ck_assert(strstr(fake.line, "path MTU 4096 is above the port's 1024"));
	ck_assert(net_ip_eq(&qp->path.src, &fake.hca->gid[0]));
	ck_assert_int_eq(memcmp(qp->path.dst.b, good.ah_attr.grh.dgid.raw, 16), 0);
	ck_assert_uint_eq(qp->path.tclass, 9);
	ck_assert_uint_eq(qp->path.ttl, 3);
	ck_assert_uint_eq(qp->path.flow, 0xabcde);

	BAD(rts, IBV_QPS_RTS, EINVAL, a.timeout = 32);
	BAD(rts, IBV_QPS_RTS, EINVAL, a.retry_cnt = 8);
	BAD(rts, IBV_QPS_RTS, EINVAL, a.rnr_retry = 8);
	BAD(rts, IBV_QPS_RTS, EINVAL, a.max_rd_atomic = 129);
	GOOD(rts, IBV_QPS_RTS, {
		a.timeout = 31;
		a.max_rd_atomic = 128;
		a.sq_psn = 0xffffffff;
	});
	ck_assert_str_eq(fake.tr, "rts");
	ck_assert_uint_eq(qp->attr.sq_psn, 0xffffff);
	ck_assert_uint_eq(qp->attr.max_rd_atomic, 128);
	emu_qp_destroy(qp);
}
END_TEST

START_TEST(a_qp_says_what_it_was_told)
{
	struct emu_qp *qp = fake_qp(IBV_QPT_RC, pd, cq);
	const struct ibv_qp_attr g = fake_qp_attr();
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	emu_qp_query(qp, &a, &init);
	ck_assert_int_eq(a.qp_state, IBV_QPS_RESET);
	ck_assert_int_eq(init.qp_type, IBV_QPT_RC);
	ck_assert_int_eq(init.sq_sig_all, 0);
	ck_assert_uint_eq(init.cap.max_send_wr, 7);
	ck_assert_uint_eq(a.cap.max_recv_sge, 2);

	fake_qp_to(qp, IBV_QPS_RTS);
	emu_qp_query(qp, &a, &init);
	ck_assert_int_eq(a.qp_state, IBV_QPS_RTS);
	ck_assert_int_eq(a.cur_qp_state, IBV_QPS_RTS);
	ck_assert_uint_eq(a.sq_psn, 0x111); /* the transport's, not what was set */
	ck_assert_uint_eq(a.rq_psn, 0x222);
	ck_assert_uint_eq(a.dest_qp_num, g.dest_qp_num);
	ck_assert_uint_eq(a.qp_access_flags, g.qp_access_flags);
	ck_assert_int_eq(a.path_mtu, g.path_mtu);
	ck_assert_uint_eq(a.timeout, g.timeout);
	ck_assert_uint_eq(a.retry_cnt, g.retry_cnt);
	ck_assert_uint_eq(a.rnr_retry, g.rnr_retry);
	ck_assert_uint_eq(a.min_rnr_timer, g.min_rnr_timer);
	ck_assert_uint_eq(a.max_rd_atomic, g.max_rd_atomic);
	ck_assert_uint_eq(a.max_dest_rd_atomic, g.max_dest_rd_atomic);
	ck_assert_uint_eq(a.port_num, 1);
	ck_assert_int_eq(memcmp(&a.ah_attr, &g.ah_attr, sizeof(a.ah_attr)), 0);
	emu_qp_destroy(qp);
}
END_TEST

START_TEST(a_drained_queue_takes_new_attributes)
{
	struct emu_qp *qp = fake_qp(IBV_QPT_RC, pd, cq);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};

	fake_qp_to(qp, IBV_QPS_RTS);
	ck_assert_int_eq(emu_qp_modify(qp, &a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY),
			 0);
	ck_assert_str_eq(fake.tr, "sqd");
	ck_assert_uint_eq(qp->attr.en_sqd_async_notify, 1);
	emu_qp_query(qp, &a, &init);
	ck_assert_uint_eq(a.sq_draining, 1);
	a.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(emu_qp_modify(qp, &a, IBV_QP_STATE), -EINVAL);
	qp->sq_draining = false; /* as the transport does */
	ck_assert_int_eq(emu_qp_modify(qp, &a, IBV_QP_STATE), 0);
	a.qp_state = IBV_QPS_SQD;
	ck_assert_int_eq(emu_qp_modify(qp, &a, IBV_QP_STATE), 0);
	ck_assert_uint_eq(qp->attr.en_sqd_async_notify, 0);
	a.qp_state = IBV_QPS_RESET;
	ck_assert_int_eq(emu_qp_modify(qp, &a, IBV_QP_STATE), 0);
	ck_assert(!qp->sq_draining);
	emu_qp_destroy(qp);
}
END_TEST

START_TEST(reset_empties_rings)
{
	struct emu_qp *qp = fake_qp(IBV_QPT_RC, pd, cq);
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RESET};
	struct emu_recv_wqe w;

	fake_qp_to(qp, IBV_QPS_RTS);
	qp->rq.buf->producer_index = 5;
	qp->sq.buf->producer_index = 4;
	ck_assert_int_eq(emu_qp_modify(qp, &a, IBV_QP_STATE), 0);
	ck_assert_str_eq(fake.tr, "reset");
	ck_assert_uint_eq(ring_count_from(&qp->rq, qp->rq.local), 0);
	ck_assert_uint_eq(ring_count_from(&qp->sq, qp->sq.local), 0);
	ck_assert_uint_eq(ring_consumer(&qp->rq), 5);
	ck_assert_int_eq(emu_rq_take(qp, &w), -ENOENT);
	ck_assert_uint_eq(qp->attr.dest_qp_num, 0);
	ck_assert_uint_eq(qp->mtu, 256);
	fake_qp_to(qp, IBV_QPS_RTS);
	emu_qp_destroy(qp);
}
END_TEST

START_TEST(a_qp_that_fails_says_so_once)
{
	struct emu_qp_init i = rc_init();
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	struct emu_qp *qp;
	int calls;

	ck_assert_int_eq(emu_qp_create(fake.hca, &i, &qp), 0);
	emu_qp_fail(qp, IBV_EVENT_QP_FATAL, TRACE_CAUSE_RESPONDER, IBV_WC_SUCCESS);
	ck_assert_int_eq(qp->state, IBV_QPS_RESET);
	ck_assert_int_eq(fake.events, 0);
	fake_qp_to(qp, IBV_QPS_RTS);
	emu_qp_fail(qp, IBV_EVENT_QP_FATAL, TRACE_CAUSE_RESPONDER, IBV_WC_SUCCESS);
	ck_assert_int_eq(qp->state, IBV_QPS_ERR);
	ck_assert_str_eq(fake.tr, "error");
	ck_assert_int_eq(fake.events, 1);
	ck_assert_int_eq(fake.type[0], IBV_EVENT_QP_FATAL);
	ck_assert_ptr_eq(fake.cookie[0], &pd);
	calls = fake.tr_calls;
	emu_qp_fail(qp, IBV_EVENT_QP_FATAL, TRACE_CAUSE_RESPONDER,
		    IBV_WC_SUCCESS); /* once */
	ck_assert_int_eq(emu_qp_modify(qp, &a, IBV_QP_STATE), 0);
	ck_assert_int_eq(fake.tr_calls, calls);
	ck_assert_int_eq(fake.events, 1);
	emu_qp_destroy(qp);

	ck_assert_int_eq(emu_qp_create(fake.hca, &i, &qp), 0);
	fake_qp_to(qp, IBV_QPS_RTR);
	emu_qp_fail(qp, 0, TRACE_CAUSE_RESPONDER, IBV_WC_SUCCESS);
	ck_assert_int_eq(qp->state, IBV_QPS_ERR);
	ck_assert_int_eq(fake.events, 1);
	emu_qp_destroy(qp);
}
END_TEST

START_TEST(attr_without_state)
{
	struct emu_qp *qp = fake_qp(IBV_QPT_RC, pd, cq);
	struct ibv_qp_attr a = {.min_rnr_timer = 3};

	fake_qp_to(qp, IBV_QPS_RTS);
	ck_assert_int_eq(emu_qp_modify(qp, &a, IBV_QP_MIN_RNR_TIMER), 0);
	ck_assert_str_eq(fake.tr, "attr");
	ck_assert_uint_eq(qp->attr.min_rnr_timer, 3);
	emu_qp_destroy(qp);
}
END_TEST

START_TEST(objects_in_use_are_counted)
{
	struct emu_cq *rcq = fake_cq(4);
	struct emu_qp_init i = rc_init();
	struct emu_qp *qp;

	i.recv_cq = rcq;
	ck_assert_int_eq(emu_qp_create(fake.hca, &i, &qp), 0);
	ck_assert_int_eq(emu_pd_destroy(pd), -EBUSY);
	ck_assert_int_eq(emu_cq_destroy(cq), -EBUSY);
	ck_assert_int_eq(emu_cq_destroy(rcq), -EBUSY);
	ck_assert(emu_hca_qp(fake.hca, emu_qp_num(qp)));
	ck_assert_ptr_eq(emu_hca_qp(fake.hca, emu_qp_num(qp)), qp);
	ck_assert_int_eq(emu_qp_destroy(qp), 0);
	ck_assert(!emu_hca_qp(fake.hca, 16));
	ck_assert_str_eq(fake.tr, "fini");
	ck_assert_int_eq(emu_cq_destroy(rcq), 0);
}
END_TEST

START_TEST(qpns_are_leased_and_given_back)
{
	struct emu_qp *qp = fake_qp(IBV_QPT_UD, pd, cq), *q;
	uint32_t first = emu_qp_num(qp);

	ck_assert_uint_eq(first,
			  16); /* the lease begins with 0, but those are not for users */
	ck_assert_ptr_null(emu_hca_qp(fake.hca, 0));
	ck_assert_ptr_null(emu_hca_qp(fake.hca, 1));
	ck_assert_ptr_null(emu_hca_qp(fake.hca, 17));
	ck_assert_ptr_null(emu_hca_qp(fake.hca, 0xffffff));
	ck_assert_ptr_null(emu_hca_qp(fake.hca, UINT32_MAX));
	emu_qp_destroy(qp);
	for (int i = 0; i < 200; i++) { /* not at once again */
		q = fake_qp(IBV_QPT_UD, pd, cq);
		ck_assert_uint_ne(emu_qp_num(q), first);
		emu_qp_destroy(q);
	}
	/* leases run out: the oldest comes back */
	fake.leases = 0;
	for (int i = 0;; i++) {
		ck_assert_int_lt(i, 300);
		q = fake_qp(IBV_QPT_UD, pd, cq);
		bool back = emu_qp_num(q) == first;

		ck_assert_ptr_eq(emu_hca_qp(fake.hca, emu_qp_num(q)), q);
		emu_qp_destroy(q);
		if (back)
			break;
	}
}
END_TEST

#define MANY 10000

START_TEST(many_qps_may_exist)
{
	static struct emu_qp *qp[MANY];
	static uint32_t num[MANY];
	struct timespec t0, t1;
	struct emu_qp_init init = rc_init();
	double ms;

	fake.lease = 0x10000;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t0);
	for (int i = 0; i < MANY; i++) {
		struct emu_qp_init in = init;

		ck_assert_int_eq(emu_qp_create(fake.hca, &in, &qp[i]), 0);
		num[i] = emu_qp_num(qp[i]);
	}
	for (int i = 0; i < MANY; i++)
		ck_assert_ptr_eq(emu_hca_qp(fake.hca, num[i]), qp[i]);
	for (int i = 0; i < MANY; i += 2)
		emu_qp_destroy(qp[i]);
	for (int i = 0; i < MANY; i++)
		ck_assert_ptr_eq(emu_hca_qp(fake.hca, num[i]), i % 2 ? qp[i] : NULL);
	for (int i = 1; i < MANY; i += 2)
		emu_qp_destroy(qp[i]);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t1);
	ms = (t1.tv_sec - t0.tv_sec) * 1e3 + (t1.tv_nsec - t0.tv_nsec) / 1e6;
	ck_assert_double_lt(ms,
			    2000); /* some 20 in practice; a scan would take minutes */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("objects_qp");
	TCase *tc = tcase_create("qp");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, wrong_attributes_make_no_qp);
	tcase_add_test(tc, without_a_qpn_there_is_no_qp);
	tcase_add_test(tc, a_qp_has_what_is_asked_for_or_more);
	tcase_add_test(tc, xrc_qps_have_one_side);
	tcase_add_test(tc, a_bad_value_changes_nothing);
	tcase_add_test(tc, a_qp_says_what_it_was_told);
	tcase_add_test(tc, a_drained_queue_takes_new_attributes);
	tcase_add_test(tc, reset_empties_rings);
	tcase_add_test(tc, a_qp_that_fails_says_so_once);
	tcase_add_test(tc, attr_without_state);
	tcase_add_test(tc, objects_in_use_are_counted);
	tcase_add_test(tc, qpns_are_leased_and_given_back);
	tcase_add_test(tc, many_qps_may_exist);
	suite_add_tcase(s, tc);
	return check_main(s);
}
