/*
 * Description: RC moves messages of every length whole, in order, by SEND, WRITE, READ
 * and atomics, and completes what it should.
 */
#include <stdlib.h>

#include "transport_env.h"
#include "tests/check_main.h"

static const uint32_t lengths[] = {0,	 1,    3,    4,	    1023,  1024,
				   1025, 2048, 5000, 65536, 300001};

START_TEST(send_each_length)
{
	uint32_t len = lengths[_i];
	struct ib_uverbs_wc wc;

	env_connect((struct env_qp){0});
	env_fill(env.a.buf, len, len + 1);
	env_recv(&env.b, 7, 0, 400000);
	env_post(&env.a,
		 (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = len, .flags = 2});
	env_run(MS);
	wc = env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_SEND);
	ck_assert_uint_eq(wc.qp_num, emu_qp_num(env.a.qp));
	wc = env_expect(env.b.rcq, 7, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_RECV);
	ck_assert_uint_eq(wc.byte_len, len);
	ck_assert(!memcmp(env.a.buf, env.b.buf, len));
	ck_assert_uint_eq(env.b.buf[len], 0);
}
END_TEST

START_TEST(write_each_length)
{
	uint32_t len = lengths[_i];

	env_connect((struct env_qp){.psn = 0xfffff0});
	env_fill(env.a.buf, len, len + 1);
	env_post(&env.a, (struct env_wr){.id = 1,
					 .op = IBV_WR_RDMA_WRITE,
					 .len = len,
					 .remote = 333,
					 .flags = 2,
					 .num_sge = 7});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect_none(env.b.rcq);
	ck_assert(!memcmp(env.a.buf, env.b.buf + 333, len));
	ck_assert_uint_eq(env.b.buf[333 + len], 0);
}
END_TEST

START_TEST(read_each_length)
{
	uint32_t len = lengths[_i];
	struct ib_uverbs_wc wc;

	env_connect((struct env_qp){.psn = 0xffffff});
	env_fill(env.b.buf + 77, len, len + 1);
	env_post(&env.a, (struct env_wr){.id = 1,
					 .op = IBV_WR_RDMA_READ,
					 .len = len,
					 .remote = 77,
					 .flags = 2,
					 .num_sge = 5});
	env_run(MS);
	wc = env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_RDMA_READ);
	ck_assert_uint_eq(wc.byte_len, len);
	ck_assert(!memcmp(env.a.buf, env.b.buf + 77, len));
	ck_assert_uint_eq(env.a.buf[len], 0);
}
END_TEST

START_TEST(write_with_immediate)
{
	struct ib_uverbs_wc wc;

	env_connect((struct env_qp){0});
	env_recv(&env.b, 5, 0, 0);
	env_fill(env.a.buf, 3000, 3);
	env_post(&env.a, (struct env_wr){.id = 1,
					 .op = IBV_WR_RDMA_WRITE_WITH_IMM,
					 .len = 3000,
					 .flags = 2,
					 .imm = 0xaabbccdd});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	wc = env_expect(env.b.rcq, 5, IBV_WC_SUCCESS);
	ck_assert_int_eq(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	ck_assert_uint_eq(wc.byte_len, 3000);
	ck_assert_uint_eq(wc.ex.imm_data, 0xaabbccdd);
	ck_assert_uint_eq(wc.wc_flags, IBV_WC_WITH_IMM);
	ck_assert(!memcmp(env.a.buf, env.b.buf, 3000));
}
END_TEST

START_TEST(atomics_return_what_was_there)
{
	uint64_t value = 40, got;

	env_connect((struct env_qp){0});
	memcpy(env.b.buf + 8, &value, 8);
	env_post(&env.a, (struct env_wr){.id = 1,
					 .op = IBV_WR_ATOMIC_FETCH_AND_ADD,
					 .len = 8,
					 .remote = 8,
					 .compare = 2,
					 .flags = 2});
	env_post(&env.a, (struct env_wr){.id = 2,
					 .op = IBV_WR_ATOMIC_CMP_AND_SWP,
					 .len = 8,
					 .remote = 8,
					 .compare = 42,
					 .swap = 99,
					 .off = 8,
					 .flags = 2,
					 .num_sge = 2});
	env_post(&env.a, (struct env_wr){.id = 3,
					 .op = IBV_WR_ATOMIC_CMP_AND_SWP,
					 .len = 8,
					 .remote = 8,
					 .compare = 42,
					 .swap = 1,
					 .off = 16,
					 .flags = 2});
	value = 0x1122334455667788;
	memcpy(env.a.buf + 32, &value, 8);
	env_post(&env.a, (struct env_wr){.id = 4,
					 .op = IBV_WR_ATOMIC_WRITE,
					 .len = 8,
					 .off = 32,
					 .remote = 16,
					 .flags = 2});
	env_run(MS);
	ck_assert_int_eq(env_expect(env.a.scq, 1, IBV_WC_SUCCESS).opcode,
			 IBV_WC_FETCH_ADD);
	ck_assert_int_eq(env_expect(env.a.scq, 2, IBV_WC_SUCCESS).opcode,
			 IBV_WC_COMP_SWAP);
	env_expect(env.a.scq, 3, IBV_WC_SUCCESS);
	ck_assert_int_eq(env_expect(env.a.scq, 4, IBV_WC_SUCCESS).opcode,
			 IBV_WC_ATOMIC_WRITE);
	memcpy(&got, env.a.buf, 8);
	ck_assert_uint_eq(got, 40);
	memcpy(&got, env.a.buf + 8, 8);
	ck_assert_uint_eq(got, 42);
	memcpy(&got, env.a.buf + 16, 8);
	ck_assert_uint_eq(got, 99);
	memcpy(&got, env.b.buf + 8, 8);
	ck_assert_uint_eq(got, 99);
	memcpy(&got, env.b.buf + 16, 8);
	ck_assert_uint_eq(got, value);
}
END_TEST

/* Unsignaled requests complete silently and make room; order is that of posting. */
START_TEST(unsignaled_requests_complete_silently)
{
	uint32_t i;

	env_connect((struct env_qp){.max_wr = 15});
	for (i = 0; i < 100; i++) {
		env_post(&env.a,
			 (struct env_wr){.id = i,
					 .op = IBV_WR_RDMA_WRITE,
					 .len = 10,
					 .off = i,
					 .remote = i,
					 .flags = i % 10 == 9 ? IBV_SEND_SIGNALED : 0});
		env_run(US);
	}
	env_run(MS);
	for (i = 9; i < 100; i += 10)
		env_expect(env.a.scq, i, IBV_WC_SUCCESS);
	env_expect_none(env.a.scq);
}
END_TEST

START_TEST(inline_data_is_taken_when_posted)
{
	struct rxe_send_wqe *w;

	env_connect((struct env_qp){.sig_all = true});
	env_recv(&env.b, 1, 0, 4096);
	env_recv(&env.b, 2, 4096, 4096);
	env_fill(env.a.buf, 100, 8);
	env_post(&env.a,
		 (struct env_wr){
		     .id = 1, .op = IBV_WR_SEND, .len = 100, .flags = IBV_SEND_INLINE});
	/* ibv_wr_set_inline_data() of librxe: no flag, no SGE */
	w = env_slot(&env.a);
	w->wr.wr_id = 2;
	w->wr.opcode = IBV_WR_SEND;
	w->dma.length = 60;
	memcpy(w->dma.inline_data, env.a.buf, 60);
	env_ring(&env.a);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	ck_assert_uint_eq(env_expect(env.b.rcq, 1, IBV_WC_SUCCESS).byte_len, 100);
	ck_assert_uint_eq(env_expect(env.b.rcq, 2, IBV_WC_SUCCESS).byte_len, 60);
	ck_assert(!memcmp(env.b.buf, env.a.buf, 100));
	ck_assert(!memcmp(env.b.buf + 4096, env.a.buf, 60));
}
END_TEST

/*
 * Mixed operations in flight together, both ways, with a port that takes little at once
 */
START_TEST(many_at_once)
{
	uint32_t i;

	env_connect((struct env_qp){.rd_atomic = 2, .sig_all = true});
	env.tx_room = 3;
	env_fill(env.a.buf, 200000, 1);
	env_fill(env.b.buf, 100000, 2);
	for (i = 0; i < 20; i++) {
		env_recv(&env.b, i, 500000 + i * 5000, 5000);
		env_post(&env.a, (struct env_wr){.id = 3 * i,
						 .op = IBV_WR_SEND,
						 .len = 5000,
						 .off = i * 5000});
		env_post(&env.a, (struct env_wr){.id = 3 * i + 1,
						 .op = IBV_WR_RDMA_READ,
						 .len = 5000,
						 .off = 300000 + i * 5000,
						 .remote = i * 5000});
		env_post(&env.a, (struct env_wr){.id = 3 * i + 2,
						 .op = IBV_WR_RDMA_WRITE,
						 .len = 5000,
						 .off = 100000 + i * 5000,
						 .remote = 200000 + i * 5000});
		env_post(&env.b, (struct env_wr){.id = i,
						 .op = IBV_WR_RDMA_WRITE,
						 .len = 3000,
						 .remote = 700000 + i * 3000,
						 .off = i * 3000});
	}
	env_run(100 * MS);
	for (i = 0; i < 60; i++)
		env_expect(env.a.scq, i, IBV_WC_SUCCESS);
	for (i = 0; i < 20; i++)
		env_expect(env.b.scq, i, IBV_WC_SUCCESS);
	for (i = 0; i < 20; i++)
		env_expect(env.b.rcq, i, IBV_WC_SUCCESS);
	ck_assert(!memcmp(env.a.buf, env.b.buf + 500000, 100000));
	ck_assert(!memcmp(env.b.buf, env.a.buf + 300000, 100000));
	ck_assert(!memcmp(env.a.buf + 100000, env.b.buf + 200000, 100000));
	ck_assert(!memcmp(env.b.buf, env.a.buf + 700000, 60000));
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_COMP_RETRY], 0);
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_DUP_REQ], 0);
}
END_TEST

/* A burst of messages costs few acknowledges. */
START_TEST(a_burst_costs_few_acknowledges)
{
	uint32_t i;

	env_connect((struct env_qp){0});
	for (i = 0; i < 32; i++)
		env_post(&env.a,
			 (struct env_wr){.id = i, .op = IBV_WR_RDMA_WRITE, .len = 64});
	env_run(MS);
	ck_assert_uint_eq(env.a.sent[ROCE_WRITE_ONLY], 32);
	ck_assert_uint_le(env.b.sent[ROCE_ACK], 4);
}
END_TEST

static uint32_t last_msn;

static int note_msn(struct side *from, const struct roce_hdr *h, uint8_t *data,
		    uint32_t len)
{
	if (from == &env.b && h->opcode != ROCE_READ_RESP_MIDDLE)
		last_msn = h->msn;
	return 1;
}

/* Responses count the messages that were completed (9.7.7.1). */
START_TEST(message_sequence_number)
{
	static const int ops[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
				  IBV_WR_ATOMIC_FETCH_AND_ADD};
	uint32_t i;

	env.filter = note_msn;
	env_connect((struct env_qp){.sig_all = true});
	env_recv(&env.b, 1, 0, 9000);
	for (i = 0; i < 4; i++) {
		env_post(&env.a, (struct env_wr){
				     .id = i, .op = ops[i], .len = i == 3 ? 8 : 5000});
		env_run(MS);
		env_expect(env.a.scq, i, IBV_WC_SUCCESS);
		ck_assert_uint_eq(last_msn, i + 1);
	}
}
END_TEST

static void to_rtr_again(struct side *s)
{
	struct ibv_qp_attr at = {.port_num = 1,
				 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
				 .path_mtu = IBV_MTU_1024,
				 .min_rnr_timer = 1,
				 .max_dest_rd_atomic = 1,
				 .dest_qp_num = emu_qp_num(env.a.qp),
				 .ah_attr = {.is_global = 1, .port_num = 1}};

	memcpy(&at.ah_attr.grh.dgid, &env.a.ip, 16);
	env_modify(s, IBV_QPS_RESET);
	at.qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(emu_qp_modify(s->qp, &at,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS),
			 0);
	at.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(emu_qp_modify(s->qp, &at,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
					   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER),
			 0);
}

/*
 * The first packet tells a QP in RTR that its peer is there, once; in RTS it is no news.
 */
START_TEST(the_first_packet_says_that_the_peer_is_there)
{
	env_connect((struct env_qp){.sig_all = true});
	if (_i)
		to_rtr_again(&env.b);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 5000});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(env.b.events, (unsigned int)_i);
	ck_assert(!_i || env_event(&env.b, IBV_EVENT_COMM_EST));
}
END_TEST

static bool migration_requested;

static int look_at_mig(struct side *from, const struct roce_hdr *h, uint8_t *data,
		       uint32_t len)
{
	ck_assert_int_eq(h->mig, migration_requested);
	return 1;
}

/* MigReq of every packet says that the QP is MIGRATED, as those do that have one path only */
START_TEST(migration_state_is_on_the_wire)
{
	struct ibv_qp_attr at = {.path_mig_state = IBV_MIG_REARM};

	env_connect((struct env_qp){.sig_all = true});
	env.filter = look_at_mig;
	migration_requested = true;
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_READ, .len = 5000});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert_int_eq(emu_qp_modify(env.a.qp, &at, IBV_QP_PATH_MIG_STATE), 0);
	ck_assert_int_eq(emu_qp_modify(env.b.qp, &at, IBV_QP_PATH_MIG_STATE), 0);
	migration_requested = false;
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 5000});
	env_run(MS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
}
END_TEST

static uint64_t sent_by(const struct side *s)
{
	uint64_t n = 0;

	for (unsigned int op = 0; op < 256; op++)
		n += s->sent[op];
	return n;
}

/* Each packet of a burst, though others are shown the last one alone */
START_TEST(whoever_looks_sees_how_many_packets_went_and_came)
{
	const struct trace_qp *a, *b;

	env_connect((struct env_qp){.mtu = IBV_MTU_256, .sig_all = true});
	a = &env.a.qp->seen->qp;
	b = &env.b.qp->seen->qp;
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 5000});
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_READ, .len = 5000});
	env_run(MS);
	emu_hca_show(env.a.hca);
	emu_hca_show(env.b.hca);
	ck_assert_uint_gt(sent_by(&env.a), 20);
	ck_assert_uint_eq(a->out.count, sent_by(&env.a));
	ck_assert_uint_eq(b->in.count, sent_by(&env.a));
	ck_assert_uint_ge(sent_by(&env.b), 20);
	ck_assert_uint_eq(b->out.count, sent_by(&env.b));
	ck_assert_uint_eq(a->in.count, sent_by(&env.b));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport_rc");
	TCase *tc = tcase_create("rc");
	int n = sizeof(lengths) / sizeof(lengths[0]);

	tcase_add_checked_fixture(tc, env_setup, env_teardown);
	tcase_add_loop_test(tc, send_each_length, 0, n);
	tcase_add_loop_test(tc, write_each_length, 0, n);
	tcase_add_loop_test(tc, read_each_length, 0, n);
	tcase_add_test(tc, write_with_immediate);
	tcase_add_test(tc, atomics_return_what_was_there);
	tcase_add_test(tc, unsignaled_requests_complete_silently);
	tcase_add_test(tc, inline_data_is_taken_when_posted);
	tcase_add_test(tc, many_at_once);
	tcase_add_test(tc, a_burst_costs_few_acknowledges);
	tcase_add_test(tc, message_sequence_number);
	tcase_add_loop_test(tc, the_first_packet_says_that_the_peer_is_there, 0, 2);
	tcase_add_test(tc, migration_state_is_on_the_wire);
	tcase_add_test(tc, whoever_looks_sees_how_many_packets_went_and_came);
	suite_add_tcase(s, tc);
	return check_main(s);
}
