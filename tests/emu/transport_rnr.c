/*
 * Description: a receiver that is not ready: RNR NAK, the timer table of IBTA table 46,
 * rnr_retry, and what follows when it is used up. And page faults of each model, which
 * use the same means.
 */
#include <stdlib.h>

#include "transport_env.h"
#include "tests/check_main.h"

static const uint64_t timer_us[32] = {
    655360, 10,	   20,	  30,	 40,	60,	80,	120,	160,	240,	320,
    480,    640,   960,	  1280,	 1920,	2560,	3840,	5120,	7680,	10240,	15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

START_TEST(timer_of_each_code)
{
	uint64_t us = timer_us[_i];

	if (_i == 0)
		return; /* env_connect() takes 0 for its default */
	env_connect((struct env_qp){.min_rnr_timer = (uint8_t)_i, .sig_all = true});
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 10});
	env_run(5 * US);
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_SND_RNR], 1);
	env_recv(&env.b, 9, 0, 100);
	env_run(us * US - 5 * US);
	env_expect_none(env.b.rcq);
	env_run(10 * US);
	env_expect(env.b.rcq, 9, IBV_WC_SUCCESS);
	env_run(10 * US);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
}
END_TEST

/* 7 is for ever: more than any retry count */
START_TEST(seven_rnr_retries_are_for_ever)
{
	env_connect((struct env_qp){.sig_all = true, .min_rnr_timer = 1});
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 10});
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_SEND, .len = 5000});
	env_run(100 * MS);
	env_expect_none(env.a.scq);
	ck_assert_uint_gt(env.a.hca->counter[EMU_CNT_RCV_RNR], 100);
	env_recv(&env.b, 1, 0, 100);
	env_recv(&env.b, 2, 0, 5000);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	env_expect(env.b.rcq, 1, IBV_WC_SUCCESS);
	env_expect(env.b.rcq, 2, IBV_WC_SUCCESS);
}
END_TEST

/* rnr_retry 2: three tries, then the request fails and the rest is flushed. */
START_TEST(rnr_retries_come_to_an_end)
{
	env_connect((struct env_qp){.rnr_retry = 2});
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 10});
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(10 * MS);
	env_expect(env.a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	env_expect(env.a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(env.a.sent[ROCE_SEND_ONLY], 3);
	ck_assert_int_eq(env_state(&env.a), IBV_QPS_ERR);
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_RTS);
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_RNR_RETRY_EXCEEDED], 1);
	ck_assert_ptr_nonnull(strstr(env.a.trace, "RNR_RETRY_EXC"));
}
END_TEST

START_TEST(without_rnr_retries_the_first_nak_ends_it)
{
	env_connect((struct env_qp){.no_rnr_retry = true});
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 10});
	env_run(10 * MS);
	env_expect(env.a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	ck_assert_uint_eq(env.a.sent[ROCE_SEND_ONLY], 1);
}
END_TEST

/* A modify gives a QP its retries again, but not to what waits, nor does it end the wait */
START_TEST(a_modify_in_the_wait_after_an_rnr_nak_changes_nothing)
{
	env_connect((struct env_qp){.rnr_retry = 1, .min_rnr_timer = 31}); /* 492 ms */
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 10});
	env_run(MS);
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_SND_RNR], 1);
	env_modify(&env.a, IBV_QPS_RTS);
	env_run(480 * MS);
	env_expect_none(env.a.scq);
	ck_assert_uint_eq(env.a.sent[ROCE_SEND_ONLY], 1);
	env_run(20 * MS);
	env_expect(env.a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	ck_assert_uint_eq(env.a.sent[ROCE_SEND_ONLY], 2);
}
END_TEST

/* The WRITE is done, only its immediate has no receive request. */
START_TEST(write_with_immediate)
{
	env_connect((struct env_qp){.sig_all = true});
	env_fill(env.a.buf, 3000, 1);
	env_post(&env.a,
		 (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE_WITH_IMM, .len = 3000});
	env_run(100 * US);
	ck_assert(!memcmp(env.a.buf, env.b.buf, 2048));
	env_recv(&env.b, 3, 0, 0);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(env_expect(env.b.rcq, 3, IBV_WC_SUCCESS).byte_len, 3000);
}
END_TEST

/* --- page faults ------------------------------------------------------------------ */

static struct {
	enum odp_fault_model model;
	uint64_t ready;
	uint32_t faults, denied;
	const uint8_t *of, *end; /* what faults */
} fault;

/* The first access of the buffer faults; it is there 3 ms later. */
static int one_fault(const uint8_t *addr, size_t len, bool write, struct odp_access *acc)
{
	if (addr < fault.of || addr >= fault.end)
		return 0;
	if (!fault.ready) {
		fault.ready = acc->now + 3 * MS;
		fault.faults++;
	}
	if (acc->now >= fault.ready)
		return 0;
	fault.denied++;
	acc->ready_at = fault.ready;
	acc->model = fault.model;
	return -EAGAIN;
}

static void fault_of(const struct side *s, enum odp_fault_model model)
{
	memset(&fault, 0, sizeof(fault));
	fault.of = s->buf;
	fault.end = s->buf + ENV_BUF;
	fault.model = model;
	env.memory = one_fault;
}

static const int ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
			  IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE_WITH_IMM};
#define OPS 5

static void one_of_each(int op, uint32_t retry_cnt)
{
	bool atomic = op == IBV_WR_ATOMIC_FETCH_AND_ADD;

	env_connect((struct env_qp){
	    .sig_all = true, .retry_cnt = (uint8_t)retry_cnt, .no_retry = !retry_cnt});
	env_fill(env.a.buf, 9000, 1);
	env_recv(&env.b, 1, 20000, 9000);
	env_post(
	    &env.a,
	    (struct env_wr){
		.id = 1, .op = op, .len = atomic ? 8 : 9000, .remote = 40000, .off = 0});
	env_post(&env.a,
		 (struct env_wr){
		     .id = 2, .op = IBV_WR_RDMA_WRITE, .len = 100, .remote = 60000});
}

static void check_both(void)
{
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	ck_assert_uint_eq(fault.faults, 1);
}

/* A slow fault is waited for: no NAK, nothing sent again, even without retries */
START_TEST(sync_at_responder)
{
	fault_of(&env.b, ODP_FAULT_SYNC);
	one_of_each(ops[_i], 0);
	env_run(2 * MS);
	env_expect_none(env.a.scq);
	env_run(2 * MS);
	check_both();
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_SND_RNR], 0);
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_COMP_RETRY], 0);
}
END_TEST

/* RNR NAK with a timer that ends when the page is there */
START_TEST(rnr_at_responder)
{
	fault_of(&env.b, ODP_FAULT_RNR);
	one_of_each(ops[_i], 0);
	env_run(2 * MS);
	env_expect_none(env.a.scq);
	env_run(3 * MS);
	check_both();
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_SND_RNR], 1);
	ck_assert_ptr_nonnull(strstr(env.b.trace, "page fault"));
}
END_TEST

/*
 * A READ of which no response was sent is no duplicate when it comes again, nor is the part
 * of it that was not: its first page, or its second, faults. That is so in each model; with the
 * second READ the first time it is behind the fault, too.
 */
START_TEST(what_a_fault_put_off_is_no_duplicate)
{
	static const enum odp_fault_model models[] = {
	    ODP_FAULT_SYNC,  ODP_FAULT_RNR,	ODP_FAULT_DROP,
	    ODP_FAULT_FLOOD, ODP_FAULT_DAMMING,
	};

	fault_of(&env.b, models[_i / 2]);
	fault.of += _i % 2 ? 44000 : 0;
	env_connect((struct env_qp){.sig_all = true, .timeout = 8});
	env_fill(env.b.buf, ENV_BUF, 1);
	env_post(&env.a,
		 (struct env_wr){
		     .id = 1, .op = IBV_WR_RDMA_READ, .len = 9000, .remote = 40000});
	env_post(&env.a, (struct env_wr){.id = 2,
					 .op = IBV_WR_RDMA_READ,
					 .len = 9000,
					 .off = 10000,
					 .remote = 50000});
	env_run(100 * MS);
	check_both();
	ck_assert(!memcmp(env.a.buf, env.b.buf + 40000, 9000));
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_DUP_REQ], 0);
	if (models[_i / 2] != ODP_FAULT_SYNC)
		ck_assert_uint_gt(env.a.sent[ROCE_READ_REQ], 2);
}
END_TEST

START_TEST(rnr_without_retry)
{
	fault_of(&env.b, ODP_FAULT_RNR);
	env_connect((struct env_qp){.no_rnr_retry = true});
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 9000});
	env_run(20 * MS);
	env_expect(env.a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
}
END_TEST

START_TEST(drop_at_responder)
{
	fault_of(&env.b, ODP_FAULT_DROP);
	one_of_each(ops[_i], 7);
	env_run(100 * MS);
	check_both();
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_SND_RNR], 0);
	ck_assert_uint_gt(env.a.hca->counter[EMU_CNT_COMP_RETRY], 0);
}
END_TEST

/* All that comes during the fault is lost; only the timer (16.8 ms) helps. */
START_TEST(damming_at_responder)
{
	fault_of(&env.b, ODP_FAULT_DAMMING);
	one_of_each(ops[_i], 7);
	env_run(16 * MS);
	env_expect_none(env.a.scq);
	env_run(20 * MS);
	check_both();
}
END_TEST

/* Sent again and again until it is there */
START_TEST(flood_at_responder)
{
	fault_of(&env.b, ODP_FAULT_FLOOD);
	one_of_each(ops[_i], 7);
	env_run(5 * MS);
	check_both();
	ck_assert_uint_gt(fault.denied, 50);
}
END_TEST

/* Nobody sends a message of UC again: those that need the page before it is there are lost. */
START_TEST(unreliable_messages_are_lost)
{
	static const enum odp_fault_model models[] = {ODP_FAULT_RNR, ODP_FAULT_DROP,
						      ODP_FAULT_DAMMING, ODP_FAULT_FLOOD};
	bool dammed = models[_i] == ODP_FAULT_DAMMING;

	fault_of(&env.b, models[_i]);
	env_connect((struct env_qp){.type = IBV_QPT_UC, .sig_all = true});
	env_recv(&env.b, 9, 20000, 9000);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 9000});
	env_post(&env.a,
		 (struct env_wr){
		     .id = 2, .op = IBV_WR_RDMA_WRITE, .len = 9000, .remote = 40000});
	env_run(2 * MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	env_expect_none(env.b.rcq);
	/* messages, not packets; and what does not come to memory is not known to need it */
	ck_assert_uint_eq(env.lost, dammed ? 1 : 2);
	ck_assert_ptr_nonnull(strstr(env.b.trace, "lost"));
	ck_assert_ptr_null(strstr(env.b.trace, "retry"));
	env_run(2 * MS);
	env_post(&env.a, (struct env_wr){.id = 3, .op = IBV_WR_SEND, .len = 5000});
	env_run(MS);
	ck_assert_uint_eq(env_expect(env.b.rcq, 9, IBV_WC_SUCCESS).byte_len, 5000);
	ck_assert_uint_eq(env.lost, dammed ? 1 : 2);
}
END_TEST

START_TEST(unreliable_messages_wait_here)
{
	fault_of(&env.b, ODP_FAULT_SYNC);
	env_connect((struct env_qp){.type = IBV_QPT_UC, .sig_all = true});
	env_recv(&env.b, 9, 20000, 9000);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 9000});
	env_run(5 * MS);
	env_expect(env.b.rcq, 9, IBV_WC_SUCCESS);
	ck_assert_uint_eq(env.lost, 0);
}
END_TEST

/* At the requester a fault is waited for, whatever the model, and uses up no retry */
START_TEST(a_fault_at_the_requester_uses_up_no_retry)
{
	static const enum odp_fault_model models[] = {ODP_FAULT_SYNC, ODP_FAULT_RNR,
						      ODP_FAULT_DROP, ODP_FAULT_FLOOD};

	fault_of(&env.a, models[_i / OPS]);
	one_of_each(ops[_i % OPS], 0);
	env_run(2 * MS);
	env_expect_none(env.a.scq);
	env_run(3 * MS);
	check_both();
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_COMP_RETRY], 0);
	if (models[_i / OPS] == ODP_FAULT_FLOOD && ops[_i % OPS] == IBV_WR_RDMA_READ)
		ck_assert_uint_gt(env.a.sent[ROCE_READ_REQ], 10);
}
END_TEST

/* A READ whose answers find no room, dammed: it is lost until the timer ends. */
START_TEST(damming_at_requester)
{
	fault_of(&env.a, ODP_FAULT_DAMMING);
	env_connect((struct env_qp){.sig_all = true});
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_READ, .len = 9000});
	env_run(16 * MS);
	env_expect_none(env.a.scq);
	env_run(5 * MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_COMP_RETRY], 1);
}
END_TEST

/* READ responses that fault half way */
static int later_page(const uint8_t *addr, size_t len, bool write, struct odp_access *acc)
{
	return addr < env.b.buf + 5000 ? 0 : one_fault(addr, len, write, acc);
}

START_TEST(read_faults_half_way)
{
	fault_of(&env.b, _i ? ODP_FAULT_RNR : ODP_FAULT_SYNC);
	env.memory = later_page;
	env_connect((struct env_qp){.sig_all = true});
	env_fill(env.b.buf, 9000, 1);
	env_recv(&env.b, 5, 30000, 100);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_READ, .len = 9000});
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_SEND, .len = 0});
	env_run(2 * MS);
	env_expect_none(env.a.scq);
	env_run(3 * MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	env_expect(env.b.rcq, 5, IBV_WC_SUCCESS);
	env_expect_none(env.b.rcq);
	ck_assert(!memcmp(env.a.buf, env.b.buf, 9000));
}
END_TEST

/*
 * MSN counts what is complete: a NAK instead of a READ response counts the
 * WRITE before it, and not the READ.
 */
static uint32_t nak_msn;

static int watch_naks(struct side *from, const struct roce_hdr *h, uint8_t *data,
		      uint32_t len)
{
	if (h->opcode == ROCE_ACK && (h->syndrome & ROCE_AETH_TYPE_MASK) != ROCE_AETH_ACK)
		nak_msn = h->msn;
	return 1;
}

static int never_there(const uint8_t *addr, size_t len, bool write,
		       struct odp_access *acc)
{
	return addr < env.b.buf + 5000 || addr >= env.b.buf + 9000 ? 0 : -EFAULT;
}

START_TEST(nak_of_a_read_does_not_count_it)
{
	nak_msn = UINT32_MAX;
	env.filter = watch_naks;
	fault_of(&env.b, ODP_FAULT_RNR);
	env.memory = _i ? never_there : later_page;
	env_connect((struct env_qp){.sig_all = true});
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 1000});
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_READ, .len = 9000});
	env_run(5 * MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, _i ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
	ck_assert_uint_eq(nak_msn, 1);
	/* what is left of it, from the packet on that fails */
	if (_i)
		ck_assert_ptr_nonnull(strstr(env.b.trace, " 3880 bytes"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport_rnr");
	TCase *tc = tcase_create("rnr");

	tcase_add_checked_fixture(tc, env_setup, env_teardown);
	tcase_set_timeout(tc, 20);
	tcase_add_loop_test(tc, timer_of_each_code, 0, 32);
	tcase_add_test(tc, seven_rnr_retries_are_for_ever);
	tcase_add_test(tc, rnr_retries_come_to_an_end);
	tcase_add_test(tc, without_rnr_retries_the_first_nak_ends_it);
	tcase_add_test(tc, a_modify_in_the_wait_after_an_rnr_nak_changes_nothing);
	tcase_add_test(tc, write_with_immediate);
	tcase_add_loop_test(tc, sync_at_responder, 0, OPS);
	tcase_add_loop_test(tc, rnr_at_responder, 0, OPS);
	tcase_add_loop_test(tc, what_a_fault_put_off_is_no_duplicate, 0, 10);
	tcase_add_test(tc, rnr_without_retry);
	tcase_add_loop_test(tc, unreliable_messages_are_lost, 0, 4);
	tcase_add_test(tc, unreliable_messages_wait_here);
	tcase_add_loop_test(tc, drop_at_responder, 0, OPS);
	tcase_add_loop_test(tc, damming_at_responder, 0, OPS);
	tcase_add_loop_test(tc, flood_at_responder, 0, OPS);
	tcase_add_loop_test(tc, a_fault_at_the_requester_uses_up_no_retry, 0, 4 * OPS);
	tcase_add_test(tc, damming_at_requester);
	tcase_add_loop_test(tc, read_faults_half_way, 0, 2);
	tcase_add_loop_test(tc, nak_of_a_read_does_not_count_it, 0, 2);
	suite_add_tcase(s, tc);
	return check_main(s);
}
