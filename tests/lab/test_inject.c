/*
 * Description: injections through verbs: calls that fail leave nothing behind and succeed the
 * next time, accesses and faults that go wrong, completions, QPs, events.
 */
#include "lab.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct lab l;

static void inject(const char *rules)
{
	ck_assert_int_eq(urxe_inject(l.ctx, rules), 0);
}

START_TEST(a_registration_fails_once)
{
	char *p = lab_map(1);
	struct ibv_mr *mr;

	lab_begin(&l);
	inject("call=ibv_reg_mr,n=2,do=ENOMEM");
	mr = lab_reg(&l, p, LAB_PAGE, LAB_ODP);
	errno = 0;
	ck_assert_ptr_null(ibv_reg_mr(l.pd, p, LAB_PAGE, LAB_ODP));
	ck_assert_int_eq(errno, ENOMEM);
	ibv_dereg_mr(mr);
	mr = lab_reg(&l, p, LAB_PAGE, LAB_ODP);
	ibv_dereg_mr(mr);
	lab_close(&l); /* the PD has no users: nothing was left */
}
END_TEST

START_TEST(what_cannot_be_destroyed_is_still_there)
{
	struct ibv_pd *pd;

	lab_begin(&l);
	pd = ibv_alloc_pd(l.ctx);
	inject("call=ibv_dealloc_pd,do=EBUSY");
	ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	lab_close(&l);
}
END_TEST

START_TEST(all_verbs_that_make_something_fail_cleanly)
{
	struct ibv_qp_init_attr qp = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;

	lab_begin(&l);
	inject("call=ibv_alloc_pd,do=ENOMEM;call=ibv_create_cq,do=ENOMEM;"
	       "call=ibv_create_qp,do=ENOMEM;call=ibv_create_srq,do=ENOMEM;"
	       "call=ibv_create_comp_channel,do=EMFILE");
	ck_assert(!ibv_alloc_pd(l.ctx) && errno == ENOMEM);
	ck_assert(!ibv_create_cq(l.ctx, 4, NULL, NULL, 0) && errno == ENOMEM);
	qp.send_cq = qp.recv_cq = l.cq;
	ck_assert(!ibv_create_qp(l.pd, &qp) && errno == ENOMEM);
	ck_assert(!ibv_create_srq(l.pd, &srq) && errno == ENOMEM);
	ck_assert(!ibv_create_comp_channel(l.ctx) && errno == EMFILE);
	channel = ibv_create_comp_channel(l.ctx);
	cq = ibv_create_cq(l.ctx, 4, NULL, channel, 0);
	ck_assert_ptr_nonnull(cq);
	ck_assert_int_eq(ibv_destroy_cq(cq), 0);
	ibv_destroy_comp_channel(channel);
	lab_close(&l);
}
END_TEST

START_TEST(a_post_that_fails_was_not_posted)
{
	char *p = lab_map(2);
	struct ibv_sge sge = {.addr = (uintptr_t)p, .length = 8};
	struct ibv_send_wr send = {.sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_SEND,
				   .send_flags = IBV_SEND_SIGNALED},
			   *bad = NULL;
	struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1}, *bad_recv = NULL;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	lab_begin(&l);
	mr = lab_reg(&l, p, 2 * LAB_PAGE, LAB_ODP);
	sge.lkey = mr->lkey;
	inject("call=ibv_post_send,do=ENOMEM;call=ibv_post_recv,do=ENOMEM");
	ck_assert_int_eq(ibv_post_send(l.left, &send, &bad), ENOMEM);
	ck_assert_ptr_eq(bad, &send);
	ck_assert_int_eq(ibv_post_recv(l.right, &recv, &bad_recv), ENOMEM);
	ck_assert_ptr_eq(bad_recv, &recv);
	usleep(20000);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	ck_assert_int_eq(lab_send(&l, mr, p, mr, p + LAB_PAGE, 8), IBV_WC_SUCCESS);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(advice_fails_and_nothing_else)
{
	char *p = lab_map(4);
	struct ibv_mr *mr;

	lab_begin(&l);
	mr = lab_reg(&l, p, 4 * LAB_PAGE, LAB_ODP);
	inject("call=ibv_advise_mr,do=EOPNOTSUPP");
	ck_assert_int_eq(lab_advise(&l, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				    IBV_ADVISE_MR_FLAG_FLUSH, mr, p, 4 * LAB_PAGE),
			 EOPNOTSUPP);
	ck_assert_uint_eq(lab_counters(mr).pages_cached, 0);
	ck_assert_int_eq(lab_advise(&l, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				    IBV_ADVISE_MR_FLAG_FLUSH, mr, p, 4 * LAB_PAGE),
			 0);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

/* An MR whose pages are all in the table, and one from which it is written */
static void warm(struct ibv_mr **from, struct ibv_mr **to)
{
	char *p = lab_map(8);

	lab_begin(&l);
	*from = lab_reg(&l, p, 4 * LAB_PAGE, LAB_ACCESS);
	*to = lab_reg(&l, p + 4 * LAB_PAGE, 4 * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(lab_write(&l, *from, p, *to, (*to)->addr, 4 * LAB_PAGE),
			 IBV_WC_SUCCESS);
	urxe_mr_reset_counters(*to);
}

static enum ibv_wc_status write_all(struct ibv_mr *from, struct ibv_mr *to)
{
	return lab_write(&l, from, from->addr, to, to->addr, 4 * LAB_PAGE);
}

static void end(struct ibv_mr *from, struct ibv_mr *to)
{
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	lab_close(&l);
}

START_TEST(regions_have_names_by_the_order_of_registration)
{
	struct ibv_mr *from, *to;

	warm(&from, &to);
	inject("access,mr=mr1,from=1,do=error");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS); /* it is pinned */
	inject("access,mr=mr2,page=2,do=absent");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_faults(to), 1);
	ck_assert_int_eq(urxe_mr_set_name(to, "ring"), 0);
	inject("access,mr=mr2,do=absent");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_faults(to), 1);
	inject("access=write,mr=ring,do=absent");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_faults(to), 2);
	inject("access=read,mr=ring,do=absent");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_faults(to), 2);
	ck_assert_int_eq(urxe_mr_set_name(to, NULL), 0);
	inject("access,mr=mr2,do=absent");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_faults(to), 3);
	end(from, to);
}
END_TEST

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

START_TEST(accesses_are_slow_by_each_model_and_succeed)
{
	static const char *const actions[] = {"slow:30ms", "rnr", "drop", "damming",
					      "flood"};
	struct ibv_mr *from, *to;
	char rule[80];
	uint64_t begin;

	warm(&from, &to);
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
		snprintf(rule, sizeof(rule), "access,mr=mr2,n=3,do=%s", actions[i]);
		inject(rule);
		urxe_mr_reset_counters(to);
		begin = now_ms();
		ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
		ck_assert_uint_eq(lab_faults(to), 1);
		if (!i)
			ck_assert_uint_ge(now_ms() - begin, 29);
	}
	/* each access of a write: every one is put off once, none for ever */
	inject("access,mr=mr2,from=1,do=slow:1ms");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	end(from, to);
}
END_TEST

START_TEST(memory_that_cannot_be_had)
{
	struct ibv_mr *from, *to;

	warm(&from, &to);
	inject("access,mr=mr2,n=2,do=error");
	ck_assert_int_eq(write_all(from, to), IBV_WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(lab_counters(to).failed_faults, 1);
	lab_connect(&l);
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	end(from, to);
}
END_TEST

START_TEST(faults_are_slow_or_fail)
{
	struct ibv_mr *from, *to;
	uint64_t begin;

	warm(&from, &to);
	inject("access,mr=mr2,do=absent;fault,mr=mr2,do=slow:30ms");
	begin = now_ms();
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	ck_assert_uint_ge(now_ms() - begin, 29);
	inject("access,mr=mr2,do=absent;fault=read,do=error");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	inject("access,mr=mr2,do=absent;fault=write,do=error");
	ck_assert_int_eq(write_all(from, to), IBV_WC_REM_ACCESS_ERR);
	end(from, to);
}
END_TEST

START_TEST(a_completion_fails_and_its_qp_with_it)
{
	struct ibv_qp_init_attr init;
	struct ibv_mr *from, *to;
	struct ibv_qp_attr attr;

	warm(&from, &to);
	inject("completion=WRITE,n=2,do=RNR_RETRY_EXC_ERR");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	ck_assert_int_eq(write_all(from, to), IBV_WC_RNR_RETRY_EXC_ERR);
	ck_assert_int_eq(ibv_query_qp(l.left, &attr, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_ERR);
	lab_connect(&l);
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	end(from, to);
}
END_TEST

START_TEST(a_qp_enters_err_before_a_post)
{
	struct ibv_mr *from, *to;

	warm(&from, &to);
	inject("call=ibv_post_send,n=2,do=qp-error");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	ck_assert_int_eq(write_all(from, to), IBV_WC_WR_FLUSH_ERR);
	end(from, to);
}
END_TEST

START_TEST(an_injected_event_comes)
{
	static const struct {
		const char *rule;
		enum ibv_event_type type;
	} events[] = {
	    {"call=ibv_alloc_pd,do=async:PKEY_CHANGE", IBV_EVENT_PKEY_CHANGE},
	    {"call=ibv_alloc_pd,do=async:CLIENT_REREGISTER", IBV_EVENT_CLIENT_REREGISTER},
	    {"call=ibv_alloc_pd,do=async:PORT_ACTIVE", IBV_EVENT_PORT_ACTIVE},
	    {"call=ibv_post_send,do=async:COMM_EST", IBV_EVENT_COMM_EST}};
	struct ibv_async_event e;
	struct ibv_mr *from, *to;
	struct pollfd p;

	warm(&from, &to);
	p = (struct pollfd){.fd = l.ctx->async_fd, .events = POLLIN};
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
		inject(events[i].rule);
		ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
		ck_assert_int_eq(ibv_dealloc_pd(ibv_alloc_pd(l.ctx)), 0);
		ck_assert_int_eq(poll(&p, 1, 10000), 1);
		ck_assert_int_eq(ibv_get_async_event(l.ctx, &e), 0);
		ck_assert_int_eq(e.event_type, events[i].type);
		if (e.event_type == IBV_EVENT_COMM_EST)
			ck_assert_ptr_eq(e.element.qp, l.left);
		ibv_ack_async_event(&e);
		ck_assert_int_eq(poll(&p, 1, 0), 0);
	}
	end(from, to);
}
END_TEST

/* The next event of the device; it is acknowledged */
static enum ibv_event_type next_event(void)
{
	struct pollfd p = {.fd = l.ctx->async_fd, .events = POLLIN};
	struct ibv_async_event e;

	ck_assert_int_eq(poll(&p, 1, 10000), 1);
	ck_assert_int_eq(ibv_get_async_event(l.ctx, &e), 0);
	ibv_ack_async_event(&e);
	return e.event_type;
}

static enum ibv_port_state port_state(void)
{
	struct ibv_port_attr port;

	ck_assert_int_eq(ibv_query_port(l.ctx, 1, &port), 0);
	return port.state;
}

/* What sysfs says of the port: "4: ACTIVE" */
static int state_in_sysfs(void)
{
	char path[300], text[40] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/state",
		 ibv_get_device_name(l.ctx->device));
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
	fclose(f);
	return atoi(text);
}

START_TEST(a_qp_of_which_an_event_tells_an_error_is_in_err)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_mr *from, *to;

	warm(&from, &to);
	inject("call=ibv_post_send,do=async:QP_ACCESS_ERR");
	ck_assert_int_eq(write_all(from, to), IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(next_event(), IBV_EVENT_QP_ACCESS_ERR);
	ck_assert_int_eq(ibv_query_qp(l.left, &attr, IBV_QP_STATE, &init), 0);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_ERR);
	end(from, to);
}
END_TEST

START_TEST(a_port_that_is_down_passes_no_packets)
{
	struct ibv_mr *from, *to;

	warm(&from, &to);
	inject("call=ibv_post_send,do=async:PORT_ERR");
	ck_assert_int_eq(write_all(from, to), IBV_WC_RETRY_EXC_ERR);
	ck_assert_int_eq(next_event(), IBV_EVENT_PORT_ERR);
	ck_assert_int_eq(port_state(), IBV_PORT_DOWN);
	ck_assert_int_eq(state_in_sysfs(), IBV_PORT_DOWN);
	inject("call=ibv_query_device,do=async:PORT_ACTIVE");
	ck_assert_int_eq(ibv_query_device(l.ctx, &(struct ibv_device_attr){0}), 0);
	ck_assert_int_eq(next_event(), IBV_EVENT_PORT_ACTIVE);
	ck_assert_int_eq(port_state(), IBV_PORT_ACTIVE);
	ck_assert_int_eq(state_in_sysfs(), IBV_PORT_ACTIVE);
	lab_connect(&l);
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	end(from, to);
}
END_TEST

START_TEST(a_port_that_comes_up_again_loses_nothing)
{
	struct ibv_mr *from, *to;
	uint64_t begin = now_ms();

	warm(&from, &to);
	inject("call=ibv_post_send,do=link-down:30ms");
	lab_fill(from->addr, 4 * LAB_PAGE, 7);
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	ck_assert_uint_ge(now_ms() - begin, 29);
	ck_assert(lab_is(to->addr, 4 * LAB_PAGE, 7));
	ck_assert_int_eq(next_event(), IBV_EVENT_PORT_ERR);
	ck_assert_int_eq(next_event(), IBV_EVENT_PORT_ACTIVE);
	ck_assert_int_eq(port_state(), IBV_PORT_ACTIVE);
	end(from, to);
}
END_TEST

/* The index of the GID; -1: it has none */
static int index_of(const union ibv_gid *gid)
{
	union ibv_gid g;

	for (int i = 0; i < 64; i++)
		if (!ibv_query_gid(l.ctx, 1, i, &g) && !memcmp(&g, gid, sizeof(g)))
			return i;
	return -1;
}

START_TEST(a_gid_that_changes_has_another_index)
{
	struct ibv_mr *from, *to;
	union ibv_gid gid;

	warm(&from, &to);
	ck_assert_int_eq(ibv_query_gid(l.ctx, 1, 0, &gid), 0);
	inject("call=ibv_post_send,do=async:GID_CHANGE");
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS); /* it has its path */
	ck_assert_int_eq(next_event(), IBV_EVENT_GID_CHANGE);
	ck_assert_int_gt(index_of(&gid), 0);
	end(from, to);
}
END_TEST

START_TEST(a_limit_of_an_srq_is_reached_once_and_if_it_is_armed)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct pollfd p = {.events = POLLIN};
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_srq_attr attr;
	struct ibv_srq *srq;

	lab_begin(&l);
	p.fd = l.ctx->async_fd;
	srq = ibv_create_srq(l.pd, &init);
	ck_assert_ptr_nonnull(srq);
	inject("call=ibv_post_srq_recv,from=1,do=async:SRQ_LIMIT_REACHED");
	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ck_assert_int_eq(poll(&p, 1, 20), 0); /* none is armed */
	attr = (struct ibv_srq_attr){.srq_limit = 2};
	ck_assert_int_eq(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ck_assert_int_eq(ibv_post_srq_recv(srq, &wr, &bad), 0);
	ck_assert_int_eq(next_event(), IBV_EVENT_SRQ_LIMIT_REACHED);
	ck_assert_int_eq(poll(&p, 1, 20), 0);
	ck_assert_int_eq(ibv_query_srq(srq, &attr), 0);
	ck_assert_uint_eq(attr.srq_limit, 0);
	ibv_destroy_srq(srq);
	lab_close(&l);
}
END_TEST

START_TEST(a_device_that_fails_for_good_takes_all_back)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_mr *from, *to;

	warm(&from, &to);
	inject("call=ibv_post_send,do=async:DEVICE_FATAL");
	ck_assert_int_eq(write_all(from, to), IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(next_event(), IBV_EVENT_DEVICE_FATAL);
	ck_assert_int_eq(next_event(), IBV_EVENT_PORT_ERR);
	errno = 0;
	ck_assert(!ibv_alloc_pd(l.ctx) && errno == EIO);
	ck_assert_int_eq(ibv_query_qp(l.left, &attr, IBV_QP_STATE, &init), EIO);
	inject(""); /* not for want of rules */
	errno = 0;
	ck_assert(!ibv_create_cq(l.ctx, 1, NULL, NULL, 0) && errno == EIO);
	end(from, to); /* every object is destroyed */
}
END_TEST

START_TEST(a_poll_that_fails_leaves_what_there_is)
{
	struct ibv_send_wr send = {.opcode = IBV_WR_RDMA_WRITE,
				   .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mr *from, *to;
	struct ibv_wc wc;

	warm(&from, &to);
	send.wr.rdma.remote_addr = (uintptr_t)to->addr;
	send.wr.rdma.rkey = to->rkey;
	inject("call=ibv_poll_cq,n=2,do=EIO");
	for (int i = 0; i < 1000; i++) /* empty: no points */
		ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	lab_post(l.left, &send);
	for (int i = 0; i < 2000 && (errno = 0, ibv_poll_cq(l.cq, 1, &wc) != -1); i++)
		usleep(1000);
	ck_assert_int_eq(errno, EIO);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	end(from, to);
}
END_TEST

START_TEST(an_extended_poll_fails_and_succeeds_the_next_time)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {2, 2, 1, 1, 0}};
	struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
	struct ibv_poll_cq_attr none = {0};
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;

	lab_begin(&l);
	cq = ibv_create_cq_ex(l.ctx, &attr);
	ck_assert_ptr_nonnull(cq);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	qp = ibv_create_qp(l.pd, &init);
	ck_assert_ptr_nonnull(qp);
	inject("call=ibv_start_poll,do=EIO");
	ck_assert_int_eq(ibv_start_poll(cq, &none), ENOENT);
	ck_assert_int_eq(ibv_modify_qp(qp, &to,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS),
			 0);
	to.qp_state = IBV_QPS_ERR; /* what is posted is flushed */
	ck_assert_int_eq(ibv_modify_qp(qp, &to, IBV_QP_STATE), 0);
	ck_assert_int_eq(ibv_post_recv(qp, &wr, &bad), 0);
	for (int i = 0; i < 2000 && ibv_start_poll(cq, &none) == ENOENT; i++)
		usleep(1000);
	ck_assert_int_eq(ibv_start_poll(cq, &none), 0);
	ck_assert_uint_eq(cq->wr_id, 7);
	ck_assert_int_eq(cq->status, IBV_WC_WR_FLUSH_ERR);
	ibv_end_poll(cq);
	ibv_destroy_qp(qp);
	ibv_destroy_cq(ibv_cq_ex_to_cq(cq));
	lab_close(&l);
}
END_TEST

START_TEST(requests_that_cannot_be_completed_are_not_posted)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_UD,
					   .cap = {4, 4, 1, 1, 0},
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND};
	struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 1};
	struct ibv_qp_ex *ex;
	struct ibv_qp *qp;
	struct ibv_wc wc;

	lab_begin(&l);
	init.pd = l.pd;
	init.send_cq = init.recv_cq = l.cq;
	qp = ibv_create_qp_ex(l.ctx, &init);
	ck_assert_ptr_nonnull(qp);
	ex = ibv_qp_to_qp_ex(qp);
	ck_assert_int_eq(
	    ibv_modify_qp(qp, &to,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	    0);
	to.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_qp(qp, &to, IBV_QP_STATE), 0);
	to.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	to.qp_state = IBV_QPS_ERR; /* all that is posted is flushed */
	ck_assert_int_eq(ibv_modify_qp(qp, &to, IBV_QP_STATE), 0);
	inject("call=ibv_wr_complete,do=ENOMEM");
	for (int i = 0; i < 2; i++) {
		ibv_wr_start(ex);
		ex->wr_id = 10 + i;
		ex->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_send(ex);
		ibv_wr_set_sge_list(ex, 0, NULL);
		ck_assert_int_eq(ibv_wr_complete(ex), i ? 0 : ENOMEM);
	}
	wc = lab_wait(&l);
	ck_assert_uint_eq(wc.wr_id, 11);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	ibv_destroy_qp(qp);
	lab_close(&l);
}
END_TEST

START_TEST(a_fork_between_posts_changes_nothing)
{
	struct ibv_mr *from, *to;

	warm(&from, &to);
	inject("call=ibv_post_send,every=2,do=fork");
	for (unsigned int i = 0; i < 6; i++) {
		lab_fill(from->addr, 4 * LAB_PAGE, i);
		ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
		ck_assert(lab_is(to->addr, 4 * LAB_PAGE, i));
	}
	ck_assert_int_eq(wait(NULL), -1);
	end(from, to);
}
END_TEST

START_TEST(packets_need_a_way_where_somebody_asks)
{
	struct ibv_mr *from, *to;

	warm(&from, &to);
	ck_assert_int_eq(urxe_inject(l.ctx, "out,do=lose"), EOPNOTSUPP);
	ck_assert_int_eq(urxe_inject(l.ctx, "what"), EINVAL);
	ck_assert_int_eq(write_all(from, to), IBV_WC_SUCCESS);
	end(from, to);
	setenv("URXE_INJECT", "packets", 1);
	/* a new process, which opens its device with that */
	if (!fork()) {
		warm(&from, &to);
		inject("out=WRITE_LAST,do=lose;in=ACK,do=damage");
		_exit(write_all(from, to) != IBV_WC_SUCCESS);
	}
	int status;
	wait(&status);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("inject");
	TCase *tc = tcase_create("inject");

	tcase_set_timeout(tc, 120);
	suite_add_tcase(s, tc);
	tcase_add_test(tc, a_registration_fails_once);
	tcase_add_test(tc, what_cannot_be_destroyed_is_still_there);
	tcase_add_test(tc, all_verbs_that_make_something_fail_cleanly);
	tcase_add_test(tc, a_post_that_fails_was_not_posted);
	tcase_add_test(tc, advice_fails_and_nothing_else);
	tcase_add_test(tc, regions_have_names_by_the_order_of_registration);
	tcase_add_test(tc, accesses_are_slow_by_each_model_and_succeed);
	tcase_add_test(tc, memory_that_cannot_be_had);
	tcase_add_test(tc, faults_are_slow_or_fail);
	tcase_add_test(tc, a_completion_fails_and_its_qp_with_it);
	tcase_add_test(tc, a_qp_enters_err_before_a_post);
	tcase_add_test(tc, an_injected_event_comes);
	tcase_add_test(tc, a_qp_of_which_an_event_tells_an_error_is_in_err);
	tcase_add_test(tc, a_port_that_is_down_passes_no_packets);
	tcase_add_test(tc, a_port_that_comes_up_again_loses_nothing);
	tcase_add_test(tc, a_gid_that_changes_has_another_index);
	tcase_add_test(tc, a_limit_of_an_srq_is_reached_once_and_if_it_is_armed);
	tcase_add_test(tc, a_device_that_fails_for_good_takes_all_back);
	tcase_add_test(tc, a_poll_that_fails_leaves_what_there_is);
	tcase_add_test(tc, an_extended_poll_fails_and_succeeds_the_next_time);
	tcase_add_test(tc, requests_that_cannot_be_completed_are_not_posted);
	tcase_add_test(tc, a_fork_between_posts_changes_nothing);
	tcase_add_test(tc, packets_need_a_way_where_somebody_asks);
	return lab_main(s);
}
