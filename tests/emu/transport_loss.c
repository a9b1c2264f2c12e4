/*
 * Description: what the network loses or doubles is made up for: each message arrives
 * once and whole, retries are bounded by retry_cnt, and duplicates change nothing.
 */
#include <stdlib.h>

#include "transport_env.h"
#include "tests/check_main.h"

static uint32_t count, drop_nth;
static uint64_t rng;

static int drop_one(struct side *from, const struct roce_hdr *h, uint8_t *data,
		    uint32_t len)
{
	return ++count == drop_nth ? 0 : 1;
}

static int twice(struct side *from, const struct roce_hdr *h, uint8_t *data, uint32_t len)
{
	return 2;
}

static int nothing(struct side *from, const struct roce_hdr *h, uint8_t *data,
		   uint32_t len)
{
	return 0;
}

static int random_loss(struct side *from, const struct roce_hdr *h, uint8_t *data,
		       uint32_t len)
{
	rng = rng * 6364136223846793005u + 1442695040888963407u;
	if ((rng >> 33) % 100 < 4)
		return 0;
	return (rng >> 33) % 100 < 8 ? 2 : 1;
}

/* SEND, WRITE, READ, atomic, SEND: one of everything, 14 packets or so each way */
static void post_all(void)
{
	env_fill(env.a.buf, 20000, 5);
	env_fill(env.b.buf, 20000, 6);
	memset(env.b.buf + 20000, 0, 8);
	env_recv(&env.b, 1, 100000, 10000);
	env_recv(&env.b, 2, 110000, 10000);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 5000});
	env_post(&env.a,
		 (struct env_wr){
		     .id = 2, .op = IBV_WR_RDMA_WRITE, .len = 5000, .remote = 200000});
	env_post(
	    &env.a,
	    (struct env_wr){.id = 3, .op = IBV_WR_RDMA_READ, .len = 5000, .off = 100000});
	env_post(&env.a, (struct env_wr){.id = 4,
					 .op = IBV_WR_ATOMIC_FETCH_AND_ADD,
					 .len = 8,
					 .off = 200000,
					 .remote = 20000,
					 .compare = 1});
	env_post(&env.a, (struct env_wr){
			     .id = 5, .op = IBV_WR_SEND_WITH_IMM, .len = 3000, .imm = 9});
}

static void check_all(void)
{
	uint64_t v;
	uint32_t i;

	for (i = 1; i <= 5; i++)
		env_expect(env.a.scq, i, IBV_WC_SUCCESS);
	env_expect_none(env.a.scq);
	ck_assert_uint_eq(env_expect(env.b.rcq, 1, IBV_WC_SUCCESS).byte_len, 5000);
	ck_assert_uint_eq(env_expect(env.b.rcq, 2, IBV_WC_SUCCESS).byte_len, 3000);
	env_expect_none(env.b.rcq);
	ck_assert(!memcmp(env.a.buf, env.b.buf + 100000, 5000));
	ck_assert(!memcmp(env.a.buf, env.b.buf + 200000, 5000));
	ck_assert(!memcmp(env.b.buf, env.a.buf + 100000, 5000));
	ck_assert(!memcmp(env.a.buf, env.b.buf + 110000, 3000));
	memcpy(&v, env.b.buf + 20000, 8);
	ck_assert_uint_eq(v, 1);
	memcpy(&v, env.a.buf + 200000, 8);
	ck_assert_uint_eq(v, 0);
}

START_TEST(
    a_port_that_is_down_sends_and_receives_nothing_and_what_waits_goes_on_when_it_is_up)
{
	uint32_t sent;

	env_connect((struct env_qp){.sig_all = true});
	post_all();
	emu_port_fail(env.b.hca, env.now + 30 * MS);
	ck_assert(env_event(&env.b, IBV_EVENT_PORT_ERR));
	env_run(29 * MS);
	env_expect_none(env.a.scq);
	env_expect_none(env.b.rcq);
	/* its peer has tried again, and it has not answered */
	sent = env.a.sent[ROCE_SEND_FIRST];
	ck_assert_uint_ge(sent, 2);
	for (int op = 0; op < 256; op++)
		ck_assert_uint_eq(env.b.sent[op], 0);
	env_run(1000 * MS);
	ck_assert(env_event(&env.b, IBV_EVENT_PORT_ACTIVE));
	check_all();
}
END_TEST

START_TEST(a_port_that_is_down_loses_what_its_own_qp_sends)
{
	env_connect((struct env_qp){.sig_all = true});
	emu_port_fail(env.a.hca, 0);
	post_all();
	env_run(29 * MS);
	for (int op = 0; op < 256; op++)
		ck_assert_uint_eq(env.a.sent[op], 0);
	emu_port_repair(env.a.hca);
	env_run(1000 * MS);
	check_all();
}
END_TEST

START_TEST(each_packet_lost_once)
{
	count = 0;
	drop_nth = (uint32_t)_i + 1;
	env.filter = drop_one;
	env_connect((struct env_qp){.sig_all = true, .psn = 0xfffff8});
	post_all();
	env_run(1000 * MS);
	check_all();
}
END_TEST

START_TEST(every_packet_twice)
{
	env.filter = twice;
	env_connect((struct env_qp){.sig_all = true});
	post_all();
	env_run(1000 * MS);
	check_all();
	ck_assert_uint_gt(env.b.hca->counter[EMU_CNT_DUP_REQ], 0);
}
END_TEST

START_TEST(random_loss_and_duplication)
{
	uint32_t i;

	rng = (uint64_t)_i + 1;
	env.filter = random_loss;
	env_connect((struct env_qp){.sig_all = true, .rd_atomic = 1 + _i % 4});
	for (i = 0; i < 10; i++) {
		post_all();
		env_run(20000 * MS);
		check_all();
	}
}
END_TEST

START_TEST(large_read_and_write_under_loss)
{
	rng = (uint64_t)_i + 77;
	env.filter = random_loss;
	env_connect((struct env_qp){.sig_all = true, .mtu = IBV_MTU_256});
	env_fill(env.b.buf, 300000, 6);
	env_post(
	    &env.a,
	    (struct env_wr){
		.id = 1, .op = IBV_WR_RDMA_READ, .len = 300000, .off = 0, .num_sge = 32});
	env_post(&env.a, (struct env_wr){.id = 2,
					 .op = IBV_WR_RDMA_WRITE,
					 .len = 300000,
					 .remote = 400000,
					 .num_sge = 11,
					 .flags = IBV_SEND_FENCE});
	env_run(200000 * MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	ck_assert(!memcmp(env.b.buf, env.a.buf, 300000));
	ck_assert(!memcmp(env.b.buf + 400000, env.a.buf, 300000));
}
END_TEST

/* 4.096 us * 2^12 is 16.8 ms: 1 try and 3 retries take 67 ms. */
START_TEST(retries_come_to_an_end)
{
	env.filter = nothing;
	env_connect((struct env_qp){.retry_cnt = 3});
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_READ, .len = 10});
	env_run(67 * MS);
	env_expect_none(env.a.scq);
	env_run(1 * MS);
	env_expect(env.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	env_expect(env.a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(env_state(&env.a), IBV_QPS_ERR);
	ck_assert_uint_eq(env.a.sent[ROCE_WRITE_ONLY], 4);
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_RETRY_EXCEEDED], 1);
	ck_assert_ptr_nonnull(strstr(env.a.trace, "RETRY_EXC"));
}
END_TEST

START_TEST(without_retries_the_first_loss_ends_it)
{
	env.filter = nothing;
	env_connect((struct env_qp){.no_retry = true});
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(100 * MS);
	env_expect(env.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_eq(env.a.sent[ROCE_WRITE_ONLY], 1);
}
END_TEST

/* One NAK for a gap, however much follows it (9.7.5.2.2) */
START_TEST(one_nak_per_gap)
{
	count = 0;
	drop_nth = 3;
	env.filter = drop_one;
	env_connect((struct env_qp){.sig_all = true});
	env_fill(env.a.buf, 30000, 1);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 30000});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_OUT_OF_SEQ_REQ], 1);
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_RCV_SEQ_ERR], 1);
	ck_assert(!memcmp(env.a.buf, env.b.buf, 30000));
}
END_TEST

static int delay_one(struct side *from, const struct roce_hdr *h, uint8_t *data,
		     uint32_t len)
{
	return ++count == drop_nth ? ENV_LATE : 1;
}

/*
 * The expected request comes last of all that were sent, so that none follows it: those
 * that were dropped before it are asked for by a NAK, long before the timeout of 16.8 ms.
 */
START_TEST(gap_that_shows_when_the_last_has_come)
{
	count = 0;
	drop_nth = 1;
	env.filter = delay_one;
	env_connect((struct env_qp){.sig_all = true, .psn = 0xfffffe});
	env_fill(env.a.buf, 5000, 1);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 5000});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert(!memcmp(env.a.buf, env.b.buf, 5000));
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_RCV_SEQ_ERR], 1);
}
END_TEST

/* A packet that only overtook is no gap: nothing is asked for when all has come. */
START_TEST(no_nak_without_a_gap)
{
	count = 0;
	drop_nth = 5;
	env.filter = delay_one;
	env_connect((struct env_qp){.sig_all = true});
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 5000});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_RCV_SEQ_ERR], 0);
	ck_assert_uint_eq(count, 6); /* with the acknowledge */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport_loss");
	TCase *tc = tcase_create("loss");

	tcase_add_test(
	    tc,
	    a_port_that_is_down_sends_and_receives_nothing_and_what_waits_goes_on_when_it_is_up);
	tcase_add_test(tc, a_port_that_is_down_loses_what_its_own_qp_sends);
	tcase_add_checked_fixture(tc, env_setup, env_teardown);
	tcase_set_timeout(tc, 20);
	tcase_add_loop_test(tc, each_packet_lost_once, 0, 30);
	tcase_add_test(tc, every_packet_twice);
	tcase_add_loop_test(tc, random_loss_and_duplication, 0, 20);
	tcase_add_loop_test(tc, large_read_and_write_under_loss, 0, 5);
	tcase_add_test(tc, retries_come_to_an_end);
	tcase_add_test(tc, without_retries_the_first_loss_ends_it);
	tcase_add_test(tc, one_nak_per_gap);
	tcase_add_test(tc, gap_that_shows_when_the_last_has_come);
	tcase_add_test(tc, no_nak_without_a_gap);
	suite_add_tcase(s, tc);
	return check_main(s);
}
