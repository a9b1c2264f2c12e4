/*
 * Description: states of a queue pair: draining, alternate paths, what may be posted in which; and
 * that other work on the device takes nothing from one.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hca.h"

/* --- states ----------------------------------------------------------------------- */

/* Draining ends in SQ_DRAINED when asked for; what is posted meanwhile waits for RTS. */
START_TEST(a_drained_send_queue_goes_on_with_a_changed_path)
{
	struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	struct request r = {
	    .op = IBV_WR_RDMA_WRITE, .no_sge = true, .flags = IBV_SEND_SIGNALED};
	struct ibv_qp_attr attr;
	struct ibv_wc wc;
	struct lab l;

	lab_begin(&l);
	post(&l, r);
	ck_assert_int_eq(
	    ibv_modify_qp(l.left, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	ck_assert_ptr_eq(expect_event(&l, IBV_EVENT_SQ_DRAINED).element.qp, l.left);
	attr = query(l.left);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_SQD);
	ck_assert_int_eq(attr.sq_draining, 0);
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	post(&l, r);
	usleep(20000);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	/* the path may change here */
	attr = query(l.left);
	attr.min_rnr_timer = 9;
	attr.timeout = 11;
	ck_assert_int_eq(ibv_modify_qp(l.left, &attr,
				       IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MIN_RNR_TIMER),
			 0);
	ck_assert_int_eq(ibv_modify_qp(l.left, &rts, IBV_QP_STATE), 0);
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	ck_assert_int_eq(query(l.left).timeout, 11);
	ck_assert_int_eq(query(l.left).min_rnr_timer, 9);
	lab_close(&l);
}
END_TEST

/* Alternate paths are for InfiniBand: the kernel refuses them on RoCE. */
START_TEST(an_alternate_path_is_refused)
{
	struct ibv_qp_attr attr;
	struct lab l;

	lab_begin(&l);
	attr = query(l.left);
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_port_num = 1;
	attr.alt_timeout = 14;
	ck_assert_int_eq(ibv_modify_qp(l.left, &attr, IBV_QP_ALT_PATH), EINVAL);
	attr.path_mig_state = IBV_MIG_REARM;
	ck_assert_int_eq(ibv_modify_qp(l.left, &attr, IBV_QP_PATH_MIG_STATE), 0);
	ck_assert_int_eq(query(l.left).path_mig_state, IBV_MIG_REARM);
	lab_close(&l);
}
END_TEST

/* In each state, what is posted: refused, taken, or completed as flushed */
START_TEST(what_may_be_posted_depends_on_the_state)
{
	struct ibv_qp_attr to = {.port_num = 1};
	struct request r = {
	    .op = IBV_WR_SEND, .no_sge = true, .flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr rwr = {.wr_id = 7}, *bad;
	struct lab l;

	lab_open(&l);
	ck_assert_int_eq(ibv_post_recv(l.left, &rwr, &bad), EINVAL); /* RESET */
	ck_assert_int_eq(try_post(&l, r), EINVAL);
	to.qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(ibv_modify_qp(l.left, &to,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS),
			 0);
	ck_assert_int_eq(ibv_post_recv(l.left, &rwr, &bad), 0);
	ck_assert_int_eq(try_post(&l, r), EINVAL);
	to.qp_state = IBV_QPS_ERR;
	ck_assert_int_eq(ibv_modify_qp(l.left, &to, IBV_QP_STATE), 0);
	ck_assert_uint_eq(expect_wc(&l, IBV_WC_WR_FLUSH_ERR, 0).wr_id, 7);
	ck_assert_int_eq(ibv_post_recv(l.left, &rwr, &bad), 0);
	ck_assert_uint_eq(expect_wc(&l, IBV_WC_WR_FLUSH_ERR, 0).wr_id, 7);
	post(&l, r);
	ck_assert_uint_eq(expect_wc(&l, IBV_WC_WR_FLUSH_ERR, 0).wr_id, 0);
	lab_close(&l);
}
END_TEST

/* --- threads that hold the device's lock for other things --------------------------- */

#define BUSY_WINDOW 150

/* struct busy - @failed: status of a completion that was no success */
static struct busy {
	struct lab l;
	struct ibv_mr *mr;
	char *mem;
	_Atomic bool stop, all_posted;
	_Atomic long posted, polled;
	_Atomic int failed;
} busy;

static void *busy_post(void *qp)
{
	struct ibv_sge sge = {(uintptr_t)busy.mem, 64, busy.mr->lkey};
	struct ibv_send_wr wr = {
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr.rdma = {(uintptr_t)busy.mem + 8192, busy.mr->rkey},
	};
	struct ibv_send_wr *bad;

	while (!busy.stop && !busy.failed) {
		if (busy.posted - busy.polled > BUSY_WINDOW)
			usleep(50);
		else if (!ibv_post_send(qp, &wr, &bad))
			busy.posted++;
	}
	return NULL;
}

static void *busy_poll(void *arg)
{
	struct ibv_wc wc[16];
	int i, n;

	while ((!busy.all_posted || busy.polled < busy.posted) && !busy.failed) {
		n = ibv_poll_cq(busy.l.cq, 16, wc);
		for (i = 0; i < n; i++)
			if (wc[i].status)
				busy.failed = wc[i].status;
		busy.polled += n;
	}
	return NULL;
}

static void *busy_register(void *arg)
{
	struct ibv_mr *mr;

	while (!busy.stop && (mr = ibv_reg_mr(busy.l.pd, busy.mem, 65536, LAB_ODP)))
		ibv_dereg_mr(mr);
	return NULL;
}

/* Who only registers memory must not find timers due of acknowledges that have come. */
START_TEST(registering_beside_traffic_uses_up_no_retries)
{
	void *(*const fn[])(void *) = {busy_poll,     busy_poll,    busy_post,
				       busy_post,     busy_post,    busy_post,
				       busy_register, busy_register};
	pthread_t t[8];
	int i;

	busy.mem = lab_map(16);
	lab_open(&busy.l);
	busy.l.timeout = 12;
	busy.l.retry_cnt = 3;
	lab_connect(&busy.l);
	busy.mr = lab_reg(&busy.l, busy.mem, 65536, LAB_ODP);
	for (i = 0; i < 8; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, fn[i],
						i & 1 ? busy.l.left : busy.l.right),
				 0);
	sleep(2);
	busy.stop = true;
	for (i = 7; i >= 0; i--) {
		busy.all_posted = i < 2;
		pthread_join(t[i], NULL);
	}
	ck_assert_int_eq(busy.failed, 0);
	ck_assert_int_gt(busy.posted, 0);
	ck_assert_int_eq(busy.posted, busy.polled);
	ibv_dereg_mr(busy.mr);
	lab_close(&busy.l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("states");
	TCase *tc = tcase_create("states");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, a_drained_send_queue_goes_on_with_a_changed_path);
	tcase_add_test(tc, an_alternate_path_is_refused);
	tcase_add_test(tc, what_may_be_posted_depends_on_the_state);
	tcase_add_test(tc, registering_beside_traffic_uses_up_no_retries);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
