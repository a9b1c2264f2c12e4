/*
 * Description: the fault models on the wire, between two queue pairs of a program: what
 * each does to a request, and what is told when it ends in an error.
 */
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull

static struct lab l;
static struct ibv_mr *pinned, *odp;
static char *here, *there;

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

static void begin(enum urxe_fault_model model, uint64_t latency)
{
	here = lab_map(16);
	there = lab_map(16);
	lab_open(&l);
	pinned = lab_reg(&l, here, 16 * LAB_PAGE, LAB_ACCESS);
	odp = lab_reg(&l, there, 16 * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(urxe_mr_set_fault_model(odp, model, latency), 0);
	lab_fill(here, 16 * LAB_PAGE, 1);
	lab_fill(there, 16 * LAB_PAGE, 2);
	lab_connect(&l);
}

static void end(void)
{
	ibv_dereg_mr(pinned);
	ibv_dereg_mr(odp);
	lab_close(&l);
}

static uint64_t hw(const char *name)
{
	uint64_t v;

	ck_assert_int_eq(urxe_device_hw_counter(l.ctx, name, &v), 0);
	return v;
}

/* --- operations of which "there" is the target, or the place for data ------------- */

static enum ibv_wc_status op_write(void)
{
	return lab_write(&l, pinned, here, odp, there, 3 * LAB_PAGE);
}

static enum ibv_wc_status op_read(void)
{
	return lab_read(&l, pinned, here, odp, there, 3 * LAB_PAGE);
}

static enum ibv_wc_status op_send(void)
{
	return lab_send(&l, pinned, here, odp, there, 3 * LAB_PAGE);
}

static enum ibv_wc_status op_atomic(void)
{
	return lab_add(&l, pinned, (uint64_t *)here, odp, (uint64_t *)there, 1);
}

static enum ibv_wc_status op_gather(void)
{
	return lab_write(&l, odp, there, pinned, here, 3 * LAB_PAGE);
}

static enum ibv_wc_status op_scatter(void)
{
	return lab_read(&l, odp, there, pinned, here, 3 * LAB_PAGE);
}

static const struct {
	enum ibv_wc_status (*run)(void);
	bool remote;   /* the fault is the peer's */
	bool to_there; /* data goes there */
} ops[] = {
    {op_write, true, true},  {op_read, true, false},	{op_send, true, true},
    {op_atomic, true, true}, {op_gather, false, false}, {op_scatter, false, true},
};
#define OPS	 6
#define RESPONDS 4 /* the first of them fault at the peer */

static void check_data(int i)
{
	if (ops[i].run == op_atomic) {
		ck_assert_uint_eq(*(uint64_t *)there, *(uint64_t *)here + 1);
		return;
	}
	ck_assert(!memcmp(here, there, 3 * LAB_PAGE));
	ck_assert(lab_is(there, 3 * LAB_PAGE, ops[i].to_there ? 1 : 2));
}

/* Whatever the model: it takes as long as the fault, and the data is right */
START_TEST(all_of_them)
{
	enum urxe_fault_model model = (enum urxe_fault_model)(_i / OPS);
	int i = _i % OPS;
	struct urxe_counters c;
	double start;

	begin(model, 20 * MS);
	start = now_ms();
	ck_assert_int_eq(ops[i].run(), IBV_WC_SUCCESS);
	ck_assert_double_ge(now_ms() - start, 19.9);
	check_data(i);
	c = lab_counters(odp);
	ck_assert_uint_ge(c.read_faults + c.write_faults, 1);
	if (ops[i].remote)
		ck_assert_uint_eq(c.local_faults, 0);
	else
		ck_assert_uint_eq(c.remote_faults, 0);
	ck_assert_uint_ge(c.fault_ns, 20 * MS);
	end();
}
END_TEST

/*
 * Synchronous: nothing of it is on the wire, but that a READ whose data finds no page at
 * the requester is asked for again, as hardware does
 */
START_TEST(sync_is_silent)
{
	begin(URXE_FAULT_SYNC, 20 * MS);
	l.timeout = 19; /* 2 s: a loaded machine is no reason to ask again */
	lab_connect(&l);
	ck_assert_int_eq(ops[_i].run(), IBV_WC_SUCCESS);
	ck_assert_uint_eq(hw("rcvd_rnr_err"), 0);
	ck_assert_uint_eq(hw("completer_retry_err"), 0);
	ck_assert_uint_eq(hw("duplicate_request"), ops[_i].run == op_scatter);
	end();
}
END_TEST

START_TEST(rnr_is_answered_by_naks)
{
	begin(URXE_FAULT_RNR, 20 * MS);
	ck_assert_int_eq(ops[_i].run(), IBV_WC_SUCCESS);
	ck_assert_uint_ge(hw("rcvd_rnr_err"), 1);
	ck_assert_uint_le(hw("rcvd_rnr_err"), 4);
	ck_assert_uint_eq(hw("rcvd_rnr_err"), hw("send_rnr_err"));
	end();
}
END_TEST

START_TEST(drop_is_retried)
{
	begin(URXE_FAULT_DROP, 20 * MS);
	ck_assert_int_eq(ops[_i].run(), IBV_WC_SUCCESS);
	ck_assert_uint_eq(hw("rcvd_rnr_err"), 0);
	ck_assert_uint_ge(hw("completer_retry_err"), 1);
	end();
}
END_TEST

START_TEST(flood_sends_over_and_over)
{
	begin(URXE_FAULT_FLOOD, 20 * MS);
	ck_assert_int_eq(ops[_i].run(), IBV_WC_SUCCESS);
	ck_assert_uint_ge(hw("rcvd_rnr_err"), 10);
	end();
}
END_TEST

/*
 * Two requests, of which only the first faults: the second is lost with it, and both wait
 * for the timer (67 ms), though the page is there after 20 ms.
 */
START_TEST(damming_loses_what_follows)
{
	struct ibv_sge sge = {.addr = (uintptr_t)here, .length = 64};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_READ,
				 .send_flags = IBV_SEND_SIGNALED};
	double start;

	begin(URXE_FAULT_DAMMING, 20 * MS);
	sge.addr = (uintptr_t)here;
	sge.lkey = pinned->lkey;
	wr.wr.rdma.rkey = odp->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)there;
	start = now_ms();
	lab_post(l.left, &wr);
	wr.wr.rdma.rkey = pinned->rkey;
	wr.wr.rdma.remote_addr = (uintptr_t)here + LAB_PAGE;
	lab_post(l.left, &wr);
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	ck_assert_double_ge(now_ms() - start, 60);
	end();
}
END_TEST

/* --- errors that follow, and the line on stderr that explains them ---------------- */

static char told[8192];

static void with_stderr(enum ibv_wc_status (*op)(void), enum ibv_wc_status expected)
{
	int fd[2], saved = dup(2);
	ssize_t n;

	ck_assert(saved >= 0 && !pipe(fd));
	dup2(fd[1], 2);
	close(fd[1]);
	ck_assert_int_eq(op(), expected);
	dup2(saved, 2);
	close(saved);
	n = read(fd[0], told, sizeof(told) - 1);
	told[n > 0 ? n : 0] = '\0';
	close(fd[0]);
}

static int lines_with(const char *what)
{
	int n = 0;

	for (const char *p = told; (p = strstr(p, what)); p++)
		n++;
	return n;
}

START_TEST(no_retry_left)
{
	begin(URXE_FAULT_RNR, 20 * MS);
	l.rnr_retry = 0;
	lab_connect(&l);
	with_stderr(ops[_i].run, IBV_WC_RNR_RETRY_EXC_ERR);
	ck_assert_int_eq(lines_with("IBV_WC_RNR_RETRY_EXC_ERR"), 1);
	ck_assert_int_eq(lines_with("its memory was being faulted in (ODP)"), 1);
	ck_assert_int_eq(lines_with("no receive request"), 0);
	end();
}
END_TEST

START_TEST(drop_gives_no_answer)
{
	begin(URXE_FAULT_DROP, 5000 * MS);
	l.retry_cnt = 1;
	l.timeout = 8; /* 1 ms */
	lab_connect(&l);
	with_stderr(ops[_i].run, IBV_WC_RETRY_EXC_ERR);
	ck_assert_int_eq(lines_with("IBV_WC_RETRY_EXC_ERR"), 1);
	ck_assert_int_eq(lines_with("its memory was being faulted in (ODP)"), 1);
	ck_assert_int_eq(lines_with("cannot be reached"), 0);
	end();
}
END_TEST

/* The same error without any fault: it says what else it can be */
static enum ibv_wc_status send_to_nobody(void)
{
	struct ibv_sge sge = {.addr = (uintptr_t)here, .length = 8, .lkey = pinned->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};

	lab_post(l.left, &wr);
	return lab_wait(&l).status;
}

START_TEST(a_missing_receive_request_is_no_fault)
{
	begin(URXE_FAULT_SYNC, 0);
	l.rnr_retry = 1;
	lab_connect(&l);
	with_stderr(send_to_nobody, IBV_WC_RNR_RETRY_EXC_ERR);
	ck_assert_int_eq(lines_with("no receive request"), 1);
	end();
}
END_TEST

/*
 * From outside: a model and a latency for all, for a device, for MRs by name. Each is told
 * apart by what it does to the wire, or by its time.
 */
START_TEST(models_are_set_from_outside)
{
	uint64_t rnr, retries;
	double start;

	setenv("URXE_ODP_MODEL", "flood,rxe0:rnr,mr=lost:drop,rxe9:flood", 1);
	setenv("URXE_ODP_LATENCY", "5ms,mr=lost:20ms,mr=slow:60ms", 1);
	here = lab_map(16);
	there = lab_map(16);
	lab_begin(&l);
	pinned = lab_reg(&l, here, 16 * LAB_PAGE, LAB_ACCESS);
	odp = lab_reg(&l, there, 16 * LAB_PAGE, LAB_ODP);
	/* the device's model, the latency of all */
	ck_assert_int_eq(lab_write(&l, pinned, here, odp, there, 8), IBV_WC_SUCCESS);
	rnr = hw("rcvd_rnr_err");
	ck_assert_uint_ge(rnr, 1);
	ck_assert_uint_le(rnr, 3);
	ck_assert_uint_ge(lab_counters(odp).fault_ns, 5 * MS);
	/* the name's, from when it is given */
	ck_assert_int_eq(urxe_mr_set_name(odp, "lost"), 0);
	retries = hw("completer_retry_err");
	ck_assert_int_eq(lab_write(&l, pinned, here, odp, there + LAB_PAGE, 8),
			 IBV_WC_SUCCESS);
	ck_assert_uint_eq(hw("rcvd_rnr_err"), rnr);
	ck_assert_uint_gt(hw("completer_retry_err"), retries);
	/* a name with a latency only leaves the model */
	ck_assert_int_eq(urxe_mr_set_name(odp, "slow"), 0);
	ck_assert_int_eq(urxe_mr_set_fault_model(odp, URXE_FAULT_SYNC, 0), 0);
	ck_assert_int_eq(urxe_mr_set_name(odp, "slow"), 0);
	start = now_ms();
	ck_assert_int_eq(lab_write(&l, pinned, here, odp, there + 2 * LAB_PAGE, 8),
			 IBV_WC_SUCCESS);
	ck_assert_double_ge(now_ms() - start, 59.9);
	ck_assert_uint_eq(hw("rcvd_rnr_err"), rnr);
	/* what the program says afterwards counts, and other names change nothing */
	ck_assert_int_eq(urxe_mr_set_fault_model(odp, URXE_FAULT_RNR, MS), 0);
	ck_assert_int_eq(urxe_mr_set_name(odp, "other"), 0);
	ck_assert_int_eq(lab_write(&l, pinned, here, odp, there + 3 * LAB_PAGE, 8),
			 IBV_WC_SUCCESS);
	ck_assert_uint_gt(hw("rcvd_rnr_err"), rnr);
	end();
}
END_TEST

/* What the page table of a new MR has, for all and for a device */
START_TEST(start_by_option)
{
	static const struct {
		const char *value;
		bool there;
	} starts[] = {{"cold", false},
		      {"snapshot", true},
		      {"snapshot,rxe0:cold", false},
		      {"rxe9:cold,rxe0:snapshot,cold", true}};

	setenv("URXE_ODP_START", starts[_i].value, 1);
	here = lab_map(16);
	there = lab_map(16);
	lab_fill(there, 16 * LAB_PAGE, 2);
	lab_begin(&l);
	pinned = lab_reg(&l, here, 16 * LAB_PAGE, LAB_ACCESS);
	odp = lab_reg(&l, there, 16 * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(lab_cached(odp, there, URXE_PAGE_WRITE), starts[_i].there);
	ck_assert_int_eq(lab_write(&l, pinned, here, odp, there, 8), IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_faults(odp), !starts[_i].there);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("models");
	TCase *tc = tcase_create("wire"), *errors = tcase_create("errors");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, all_of_them, 0, 5 * OPS);
	tcase_add_loop_test(tc, sync_is_silent, 0, OPS);
	tcase_add_loop_test(tc, rnr_is_answered_by_naks, 0, RESPONDS);
	tcase_add_loop_test(tc, drop_is_retried, 0, RESPONDS);
	tcase_add_loop_test(tc, flood_sends_over_and_over, 0, RESPONDS);
	tcase_add_test(tc, damming_loses_what_follows);
	tcase_add_test(tc, models_are_set_from_outside);
	tcase_add_loop_test(tc, start_by_option, 0, 4);
	suite_add_tcase(s, tc);
	tcase_set_timeout(errors, 60);
	tcase_add_loop_test(errors, no_retry_left, 0, 2);
	tcase_add_loop_test(errors, drop_gives_no_answer, 0, 2);
	tcase_add_test(errors, a_missing_receive_request_is_no_fault);
	suite_add_tcase(s, errors);
	return lab_main(s);
}
