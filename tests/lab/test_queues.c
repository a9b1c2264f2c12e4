/*
 * Description: completion queues and shared receive queues: events, queues that are full, resized
 * and overrun, limits, the last request of a queue pair.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hca.h"

/* --- completion queues ------------------------------------------------------------ */

static void take_cq_event(struct ibv_comp_channel *ch, struct ibv_cq *want)
{
	struct ibv_cq *cq;
	void *context;

	ck_assert(readable(ch->fd, 10000));
	ck_assert_int_eq(ibv_get_cq_event(ch, &cq, &context), 0);
	ck_assert_ptr_eq(cq, want);
	ibv_ack_cq_events(cq, 1);
}

/* Armed for solicited completions: not by a plain SEND; by one with the bit, by an error */
START_TEST(only_solicited_completions_and_errors_wake_who_asked_for_these)
{
	struct ibv_qp_init_attr attr = usual;
	struct ibv_comp_channel *ch;
	struct ibv_recv_wr rwr = {.wr_id = 7}, *bad;
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;
	struct lab l;

	lab_open(&l);
	ch = ibv_create_comp_channel(l.ctx);
	attr.recv_cq = ibv_create_cq(l.ctx, 64, NULL, ch, 0);
	ck_assert(ch && attr.recv_cq);
	remake(&l, attr);
	ck_assert_int_eq(ibv_req_notify_cq(attr.recv_cq, 1), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ibv_post_recv(l.right, &rwr, &bad), 0);
	post(&l, (struct request){
		     .op = IBV_WR_SEND, .no_sge = true, .flags = IBV_SEND_SIGNALED});
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_SEND);
	ck_assert(!readable(ch->fd, 20));
	post(&l, (struct request){.op = IBV_WR_SEND,
				  .no_sge = true,
				  .flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED});
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_SEND);
	take_cq_event(ch, attr.recv_cq);
	ck_assert_int_eq(ibv_poll_cq(attr.recv_cq, 1, &wc), 1);
	ck_assert_int_eq(ibv_poll_cq(attr.recv_cq, 1, &wc), 1);
	ck_assert_int_eq(ibv_req_notify_cq(attr.recv_cq, 1), 0);
	ck_assert_int_eq(ibv_modify_qp(l.right, &err, IBV_QP_STATE), 0);
	take_cq_event(ch, attr.recv_cq);
	ck_assert_int_eq(ibv_poll_cq(attr.recv_cq, 1, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(ibv_destroy_qp(l.left), 0);
	ck_assert_int_eq(ibv_destroy_qp(l.right), 0);
	ck_assert_int_eq(ibv_destroy_cq(attr.recv_cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(ch), 0);
	ck_assert_int_eq(ibv_destroy_cq(l.cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(l.pd), 0);
	ck_assert_int_eq(ibv_close_device(l.ctx), 0);
}
END_TEST

/* A send queue takes what it has places for, and no more until some are done. */
START_TEST(a_full_send_queue_takes_requests_again_when_some_are_done)
{
	struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	struct ibv_qp_init_attr attr = usual;
	struct request r = {.op = IBV_WR_RDMA_WRITE, .no_sge = true};
	struct lab l;
	uint32_t n = 0;

	lab_open(&l);
	attr.cap.max_send_wr = 20;
	remake(&l, attr);
	ck_assert_int_eq(ibv_modify_qp(l.left, &sqd, IBV_QP_STATE), 0);
	while (!try_post(&l, r))
		n++;
	ck_assert_uint_eq(n, query(l.left).cap.max_send_wr);
	ck_assert_int_eq(try_post(&l, r), ENOMEM);
	ck_assert_int_eq(ibv_modify_qp(l.left, &rts, IBV_QP_STATE), 0);
	r.flags = IBV_SEND_SIGNALED;
	while (try_post(&l, r) == ENOMEM)
		usleep(1000);
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	lab_close(&l);
}
END_TEST

/* Nobody polls: CQ_ERR of the CQ, then QP_FATAL of the QP, which is in ERR. */
START_TEST(a_cq_that_runs_over_fails_its_qp_and_no_other)
{
	struct ibv_qp_init_attr attr = usual;
	struct request r = {
	    .op = IBV_WR_RDMA_WRITE, .no_sge = true, .flags = IBV_SEND_SIGNALED};
	struct ibv_cq *small;
	struct lab l;

	lab_open(&l);
	small = ibv_create_cq(l.ctx, 3, NULL, NULL, 0);
	attr.send_cq = small;
	remake(&l, attr);
	for (int i = 0; i <= small->cqe; i++)
		post(&l, r);
	ck_assert_ptr_eq(expect_event(&l, IBV_EVENT_CQ_ERR).element.cq, small);
	ck_assert_ptr_eq(expect_event(&l, IBV_EVENT_QP_FATAL).element.qp, l.left);
	ck_assert_int_eq(query(l.left).qp_state, IBV_QPS_ERR);
	ck_assert_int_eq(query(l.right).qp_state, IBV_QPS_RTS);
	expect_no_event(&l);
	remake(&l, usual);
	ck_assert_int_eq(ibv_destroy_cq(small), 0);
	lab_close(&l);
}
END_TEST

/* The CQ grows and shrinks between completions; none is lost, none comes twice. */
START_TEST(a_cq_resized_under_traffic_loses_nothing)
{
	uint64_t next = 0, want = 0;
	struct ibv_wc wc[8];
	struct lab l;
	int n;

	lab_open(&l);
	remake(&l, usual);
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 30; i++) {
			if (try_post(&l, (struct request){.op = IBV_WR_RDMA_WRITE,
							  .no_sge = true,
							  .flags = IBV_SEND_SIGNALED,
							  .id = next}))
				break;
			next++;
		}
		ck_assert_int_eq(ibv_resize_cq(l.cq, 100 + round % 7 * 113), 0);
		ck_assert_int_ge(l.cq->cqe, 100 + round % 7 * 113);
		n = ibv_poll_cq(l.cq, 8, wc);
		for (int i = 0; i < n; i++)
			ck_assert_uint_eq(wc[i].wr_id, want++);
		while (next - want > 40)
			ck_assert_uint_eq(lab_wait(&l).wr_id, want++);
	}
	while (want < next)
		ck_assert_uint_eq(lab_wait(&l).wr_id, want++);
	ck_assert_int_eq(ibv_resize_cq(l.cq, 0), EINVAL);
	ck_assert_int_eq(ibv_resize_cq(l.cq, 1 << 30), EINVAL);
	lab_close(&l);
}
END_TEST

/* --- shared receive queues -------------------------------------------------------- */

static int post_srq(struct ibv_srq *srq, struct ibv_mr *mr, char *p, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)p, 64, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static void send_to_srq(struct lab *l, uint64_t want)
{
	struct ibv_wc wc;
	bool got = false;

	post(l, (struct request){.op = IBV_WR_SEND,
				 .no_sge = true,
				 .flags = IBV_SEND_SIGNALED,
				 .id = 1000});
	for (int i = 0; i < 2; i++) {
		wc = lab_wait(l);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == want)
			got = true;
	}
	ck_assert(got);
}

/* The limit says it once; the queue grows with what is in it. */
START_TEST(an_srq_tells_once_that_few_are_left_and_may_be_resized)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 7, .max_sge = 1}};
	struct ibv_srq_attr sattr = {.srq_limit = 5};
	struct ibv_qp_init_attr attr = usual;
	char *mem = lab_map(1);
	struct ibv_mr *mr;
	struct lab l;
	uint64_t in = 0, out = 0;

	lab_open(&l);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	attr.srq = ibv_create_srq(l.pd, &init);
	ck_assert(attr.srq);
	remake(&l, attr);
	while (!post_srq(attr.srq, mr, mem, in))
		in++;
	ck_assert_uint_eq(in, init.attr.max_wr);
	ck_assert_int_eq(ibv_modify_srq(attr.srq, &sattr, IBV_SRQ_LIMIT), 0);
	while (in - out > 5)
		send_to_srq(&l, out++);
	expect_no_event(&l);
	send_to_srq(&l, out++);
	ck_assert_ptr_eq(expect_event(&l, IBV_EVENT_SRQ_LIMIT_REACHED).element.srq,
			 attr.srq);
	send_to_srq(&l, out++);
	expect_no_event(&l);
	ck_assert_int_eq(ibv_query_srq(attr.srq, &sattr), 0);
	ck_assert_uint_eq(sattr.srq_limit, 0);
	sattr.max_wr = 2; /* less than are in it */
	ck_assert_int_eq(ibv_modify_srq(attr.srq, &sattr, IBV_SRQ_MAX_WR), EINVAL);
	sattr.max_wr = 100;
	ck_assert_int_eq(ibv_modify_srq(attr.srq, &sattr, IBV_SRQ_MAX_WR), 0);
	ck_assert_int_eq(ibv_query_srq(attr.srq, &sattr), 0);
	ck_assert_uint_ge(sattr.max_wr, 100);
	while (!post_srq(attr.srq, mr, mem, in))
		in++;
	ck_assert_uint_eq(in - out, sattr.max_wr);
	sattr.srq_limit = sattr.max_wr + 1;
	ck_assert_int_eq(ibv_modify_srq(attr.srq, &sattr, IBV_SRQ_LIMIT), EINVAL);
	while (out < in)
		send_to_srq(&l, out++);
	remake(&l, usual);
	ck_assert_int_eq(ibv_destroy_srq(attr.srq), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* A QP of an SRQ that enters ERR leaves the SRQ its requests, and says that it is done. */
START_TEST(a_qp_in_error_tells_that_it_takes_no_more_of_the_srq)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 7, .max_sge = 1}};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr attr = usual;
	char *mem = lab_map(1);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct lab l;

	lab_open(&l);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	attr.srq = ibv_create_srq(l.pd, &init);
	remake(&l, attr);
	ck_assert_int_eq(post_srq(attr.srq, mr, mem, 0), 0);
	ck_assert_int_eq(ibv_modify_qp(l.right, &err, IBV_QP_STATE), 0);
	ck_assert_ptr_eq(expect_event(&l, IBV_EVENT_QP_LAST_WQE_REACHED).element.qp,
			 l.right);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	lab_connect(&l);
	send_to_srq(&l, 0);
	remake(&l, usual);
	ck_assert_int_eq(ibv_destroy_srq(attr.srq), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* How often other threads of this process than the first went to sleep by themselves */
static unsigned long times_slept(void)
{
	unsigned long sum = 0, n;
	char path[300], line[128];
	struct dirent *e;
	DIR *d = opendir("/proc/self/task");
	FILE *f;

	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		if (!atoi(e->d_name) || atoi(e->d_name) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
		f = fopen(path, "r");
		while (f && fgets(line, sizeof(line), f))
			if (sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1)
				sum += n;
		if (f)
			fclose(f);
	}
	closedir(d);
	return sum;
}

/* For a while somebody looks at its queues; then nobody wakes for anything, for longer than that is apart */
START_TEST(a_program_that_does_nothing_is_not_woken)
{
	struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
	unsigned long before;
	struct lab l;
	int tries = 0;

	lab_open(&l);
	lab_connect(&l);
	ck_assert_int_eq(ibv_post_recv(l.right, &wr, &bad), 0);
	do {
		before = times_slept();
		usleep(1200000);
	} while (times_slept() > before && ++tries < 25);
	ck_assert_int_lt(tries, 25);
	lab_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("queues");
	TCase *tc = tcase_create("queues");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc,
		       only_solicited_completions_and_errors_wake_who_asked_for_these);
	tcase_add_test(tc, a_full_send_queue_takes_requests_again_when_some_are_done);
	tcase_add_test(tc, a_cq_that_runs_over_fails_its_qp_and_no_other);
	tcase_add_test(tc, a_cq_resized_under_traffic_loses_nothing);
	tcase_add_test(tc, an_srq_tells_once_that_few_are_left_and_may_be_resized);
	tcase_add_test(tc, a_qp_in_error_tells_that_it_takes_no_more_of_the_srq);
	tcase_add_test(tc, a_program_that_does_nothing_is_not_woken);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
