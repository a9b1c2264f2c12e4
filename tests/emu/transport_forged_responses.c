/*
 * Description: responses that no good peer sends. They end in the status that IBTA 9.7.6 and 10.10.3
 * give, or change nothing.
 */
#include <stdlib.h>

#include "transport_forge.h"
#include "tests/check_main.h"

START_TEST(an_acknowledge_of_what_was_not_sent_is_none)
{
	alone();
	post(IBV_WR_RDMA_WRITE, 1, 1024);
	answer(ROCE_ACK, 0x1f, 1, 0);
	answer(ROCE_ACK, 0x1f, 1u << 23, 0);
	answer(ROCE_ACK, 0x1f, ROCE_PSN_MASK, 0); /* the one before */
	answer(ROCE_ACK, ROCE_AETH_NAK | ROCE_NAK_REMOTE_OP, 1, 0);
	answer(ROCE_READ_RESP_ONLY, 0x1f, 1, 8);
	env_expect_none(env.a.scq);
	answer(ROCE_ACK, 0x1f, 0, 0);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
}
END_TEST

/* What a READ of three packets may be answered with, and what ends it */
START_TEST(a_read_response_of_a_wrong_length_or_place_fails_the_read)
{
	static const struct {
		uint8_t op;
		uint32_t len;
	} wrong[] = {
	    {ROCE_READ_RESP_FIRST, 1023}, {ROCE_READ_RESP_FIRST, 1025},
	    {ROCE_READ_RESP_FIRST, 0},	  {ROCE_READ_RESP_LAST, 1024},
	    {ROCE_READ_RESP_ONLY, 1024},  {ROCE_READ_RESP_MIDDLE, 4},
	    {ROCE_ATOMIC_ACK, 0},
	};

	alone();
	post(IBV_WR_RDMA_READ, 1, 3 * 1024);
	answer(wrong[_i].op, 0x1f, 0, wrong[_i].len);
	env_expect(env.a.scq, 1, IBV_WC_BAD_RESP_ERR);
	ck_assert_int_eq(env_state(&env.a), IBV_QPS_ERR);
	ck_assert(untouched(env.a.buf, 4096));
}
END_TEST

START_TEST(a_short_last_response_fails_the_read_and_writes_nothing)
{
	alone();
	post(IBV_WR_RDMA_READ, 1, 1024 + 100);
	answer(ROCE_READ_RESP_FIRST, 0x1f, 0, 1024);
	env_expect_none(env.a.scq);
	answer(ROCE_READ_RESP_LAST, 0x1f, 1, _i ? 99 : 101);
	env_expect(env.a.scq, 1, IBV_WC_BAD_RESP_ERR);
	ck_assert_uint_eq(env.a.buf[1023], 0xee);
	ck_assert(untouched(env.a.buf + 1024, 200));
}
END_TEST

/* An answer of a kind that the request does not have */
START_TEST(an_answer_of_another_kind_fails_the_request)
{
	static const struct {
		int wr;
		uint32_t len;
		uint8_t op, syndrome;
		uint32_t payload;
	} wrong[] = {
	    {IBV_WR_SEND, 8, ROCE_READ_RESP_ONLY, 0x1f, 8},
	    {IBV_WR_RDMA_WRITE, 0, ROCE_READ_RESP_ONLY, 0x1f, 0},
	    {IBV_WR_RDMA_WRITE, 8, ROCE_ATOMIC_ACK, 0x1f, 0},
	    {IBV_WR_ATOMIC_FETCH_AND_ADD, 8, ROCE_READ_RESP_ONLY, 0x1f, 8},
	    {IBV_WR_ATOMIC_FETCH_AND_ADD, 8, ROCE_READ_RESP_ONLY, 0x1f, 0},
	    {IBV_WR_ATOMIC_FETCH_AND_ADD, 8, ROCE_ATOMIC_ACK, 0x60, 0},
	    {IBV_WR_RDMA_READ, 8, ROCE_READ_RESP_ONLY, 0x62, 8},
	    {IBV_WR_RDMA_WRITE, 8, ROCE_ACK, ROCE_AETH_NAK | 4, 0},
	    {IBV_WR_RDMA_WRITE, 8, ROCE_ACK, ROCE_AETH_NAK | 0x1f, 0},
	};

	alone();
	post(wrong[_i].wr, 1, wrong[_i].len);
	answer(wrong[_i].op, wrong[_i].syndrome, 0, wrong[_i].payload);
	env_expect(env.a.scq, 1, IBV_WC_BAD_RESP_ERR);
	ck_assert_int_eq(env_state(&env.a), IBV_QPS_ERR);
	ck_assert(untouched(env.a.buf, 64));
}
END_TEST

/* An acknowledge is no answer to a READ or atomic; a reserved syndrome is no answer */
START_TEST(what_answers_nothing_changes_nothing)
{
	uint8_t kind = _i ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD;

	alone();
	post(kind, 1, 8);
	post(IBV_WR_RDMA_WRITE, 2, 8);
	answer(ROCE_ACK, 0x1f, 0, 0);
	answer(ROCE_ACK, 0x40, 0, 0);
	answer(ROCE_ACK, 0x80, 0, 0);
	answer(ROCE_ACK, 0xe1, 0, 0);
	env_expect_none(env.a.scq);
	answer(_i ? ROCE_READ_RESP_ONLY : ROCE_ATOMIC_ACK, 0x1f, 0, _i ? 8 : 0);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	answer(ROCE_ACK, 0x40, 1, 0);
	env_expect_none(env.a.scq);
	answer(ROCE_ACK, 0x1f, 1, 0);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
}
END_TEST

/* 9.6.1: another address, partition or QP is not the peer's, in either direction */
START_TEST(a_response_from_a_foreigner_is_dropped)
{
	static const struct wrong how[] = {
	    {.src = 0x40}, {.dst = 0x40}, {.pkey = 0x8001}};
	struct roce_hdr h = {.opcode = ROCE_ACK, .syndrome = 0x1f, .psn = PSN};

	alone();
	post(IBV_WR_RDMA_WRITE, 1, 8);
	for (size_t i = 0; i < sizeof(how) / sizeof(how[0]); i++) {
		inject(&env.a, h, 0, how[i]);
		env_expect_none(env.a.scq);
	}
	h.dqpn = emu_qp_num(env.a.qp) + 1;
	inject(&env.a, h, 0, (struct wrong){0});
	env_expect_none(env.a.scq);
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_RX_BAD_QPN], 3);
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_RX_BAD_PKEY], 1);
	h.dqpn = 0;
	inject(&env.a, h, 0, (struct wrong){0});
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
}
END_TEST

/* 9.6.1.1: congestion marks say something to the network, not to the QP */
START_TEST(congestion_marks_do_not_keep_a_packet_out)
{
	struct roce_hdr h = {.opcode = ROCE_ACK,
			     .syndrome = 0x1f,
			     .psn = PSN,
			     .fecn = _i & 1,
			     .becn = _i & 2,
			     .mig = _i & 4,
			     .se = true};

	alone();
	post(IBV_WR_RDMA_WRITE, 1, 8);
	inject(&env.a, h, 0, (struct wrong){0});
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
}
END_TEST

/* An error that a NAK tells is that of its PSN; what is before succeeded */
START_TEST(a_nak_acknowledges_what_is_before_it)
{
	static const enum ibv_wc_status status[] = {
	    0, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR};

	alone();
	post(IBV_WR_RDMA_WRITE, 1, 2048);
	post(IBV_WR_RDMA_WRITE, 2, 2048);
	post(IBV_WR_RDMA_WRITE, 3, 8);
	answer(ROCE_ACK, (uint8_t)(ROCE_AETH_NAK | _i), 3, 0);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, status[_i]);
	env_expect(env.a.scq, 3, IBV_WC_WR_FLUSH_ERR);
	env_expect_none(env.a.scq);
}
END_TEST

/* 9.7.5.2.8: neither the consumer's modify nor more NAKs end the wait, or lengthen it */
START_TEST(a_modify_in_the_wait_after_an_rnr_nak_changes_nothing)
{
	struct ibv_qp_attr at = {.qp_access_flags = IBV_ACCESS_REMOTE_READ};

	/* the ACK timeout, 4.2 ms, is not running in the wait */
	alone_with(10, IBV_MTU_1024);
	post(IBV_WR_SEND, 1, 8);
	answer(ROCE_ACK, ROCE_AETH_RNR | 20, 0, 0); /* 10.24 ms */
	env_run(5 * MS);
	ck_assert_int_eq(emu_qp_modify(env.a.qp, &at, IBV_QP_ACCESS_FLAGS), 0);
	answer(ROCE_ACK, ROCE_AETH_RNR | 20, 0, 0);
	env_run(5 * MS);
	ck_assert_uint_eq(env.a.sent[ROCE_SEND_ONLY], 1);
	env_run(MS);
	ck_assert_uint_eq(env.a.sent[ROCE_SEND_ONLY], 2);
	answer(ROCE_ACK, 0x1f, 0, 0);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
}
END_TEST

/* After a loss half as much is under way, and then one packet more for each window */
START_TEST(a_loss_halves_the_window_and_it_grows_again)
{
	uint32_t i, sent;

	alone_with(20, IBV_MTU_4096); /* a window of 64 packets */
	for (i = 0; i < 200; i++)
		env_post(&env.a,
			 (struct env_wr){.id = i, .op = IBV_WR_RDMA_WRITE, .len = 8});
	env_run(0);
	sent = env.a.sent[ROCE_WRITE_ONLY];
	ck_assert_uint_eq(sent, 64);
	answer(ROCE_ACK, ROCE_AETH_NAK | ROCE_NAK_PSN, 0, 0);
	ck_assert_uint_eq(env.a.sent[ROCE_WRITE_ONLY] - sent, 32);
	sent = env.a.sent[ROCE_WRITE_ONLY];
	answer(ROCE_ACK, 0x1f, 31, 0);
	ck_assert_uint_eq(env.a.sent[ROCE_WRITE_ONLY] - sent, 33);
	sent = env.a.sent[ROCE_WRITE_ONLY];
	answer(ROCE_ACK, 0x1f, 31 + 33, 0);
	ck_assert_uint_eq(env.a.sent[ROCE_WRITE_ONLY] - sent, 34);
}
END_TEST

static uint32_t asked, unasked; /* packets of @a that ask for an acknowledge, or do not */

static int count_asking(struct side *from, const struct roce_hdr *h, uint8_t *data,
			uint32_t len)
{
	if (from == &env.a)
		*(h->ack_req ? &asked : &unasked) += 1;
	return from == &env.a ? 0 : 1;
}

/* One acknowledge is asked for in each batch of packets, and for the last */
START_TEST(each_batch_asks_for_one_acknowledge)
{
	alone();
	asked = unasked = 0;
	env.filter = count_asking;
	env_post(&env.a,
		 (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 200 << 10});
	env_run(0);
	ck_assert_uint_eq(asked + unasked, 200);
	ck_assert_uint_eq(asked, 200 / (65000 / (1024 + 16)) + 1);
}
END_TEST

static bool any_se;

static int note_se(struct side *from, const struct roce_hdr *h, uint8_t *data,
		   uint32_t len)
{
	any_se |= h->se;
	return 1;
}

/* 9.3.1: a WRITE without immediate data calls nobody */
START_TEST(a_plain_write_is_never_solicited)
{
	env_connect((struct env_qp){.sig_all = true});
	env.filter = note_se;
	any_se = false;
	env_post(&env.a, (struct env_wr){.id = 1,
					 .op = IBV_WR_RDMA_WRITE,
					 .len = 3000,
					 .flags = IBV_SEND_SOLICITED});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert(!any_se);
}
END_TEST

/* Else nothing would open a window again that is smaller than a batch */
START_TEST(the_last_packet_of_a_full_window_asks_for_an_acknowledge)
{
	alone();
	env_post(&env.a,
		 (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 300 << 10});
	env_run(0);
	for (int i = 0; i < 6; i++)
		answer(ROCE_ACK, ROCE_AETH_NAK | ROCE_NAK_PSN, 0, 0);
	/* the smallest window has four packets */
	asked = unasked = 0;
	env.filter = count_asking;
	answer(ROCE_ACK, 0x1f, 3, 0);
	ck_assert_uint_eq(asked, 1);
	ck_assert_uint_le(unasked, 4);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport_forged_responses");
	TCase *tc = tcase_create("responses");

	tcase_add_checked_fixture(tc, env_setup, env_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, an_acknowledge_of_what_was_not_sent_is_none);
	tcase_add_loop_test(tc, a_read_response_of_a_wrong_length_or_place_fails_the_read,
			    0, 7);
	tcase_add_loop_test(tc, a_short_last_response_fails_the_read_and_writes_nothing,
			    0, 2);
	tcase_add_loop_test(tc, an_answer_of_another_kind_fails_the_request, 0, 9);
	tcase_add_loop_test(tc, what_answers_nothing_changes_nothing, 0, 2);
	tcase_add_test(tc, a_response_from_a_foreigner_is_dropped);
	tcase_add_loop_test(tc, congestion_marks_do_not_keep_a_packet_out, 0, 8);
	tcase_add_loop_test(tc, a_nak_acknowledges_what_is_before_it, 1, 4);
	tcase_add_test(tc, a_modify_in_the_wait_after_an_rnr_nak_changes_nothing);
	tcase_add_test(tc, a_loss_halves_the_window_and_it_grows_again);
	tcase_add_test(tc, each_batch_asks_for_one_acknowledge);
	tcase_add_test(tc, a_plain_write_is_never_solicited);
	tcase_add_test(tc, the_last_packet_of_a_full_window_asks_for_an_acknowledge);
	suite_add_tcase(s, tc);
	return check_main(s);
}
