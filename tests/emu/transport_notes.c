/*
 * Description: what is said when something is wrong: once for each cause, a few lines of each, and
 * the rest only kept; what is known of a peer that does not answer, or answers something else.
 */
#include "emu/note.h"
#include "emu/transport_internal.h"
#include "transport_env.h"
#include "tests/check_main.h"

#define S 1000000000ull

static int lose_all(struct side *from, const struct roce_hdr *h, uint8_t *data,
		    uint32_t len)
{
	return 0;
}

static const struct trace_note *note(const struct side *s, uint32_t i)
{
	ck_assert_uint_lt(i, s->hca->notes.n);
	return &s->hca->notes.seen[i]->note;
}

/* --- once ------------------------------------------------------------------------- */

static void refuse(uint32_t timeout, int more)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .timeout = (uint8_t)timeout};

	ck_assert_int_eq(
	    emu_qp_modify(env.a.qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | more),
	    -EINVAL);
}

START_TEST(the_same_is_counted_and_not_said_again)
{
	env_connect((struct env_qp){0});
	refuse(77, 0);
	ck_assert_uint_eq(env.a.lines, 1);
	ck_assert_ptr_nonnull(strstr(env.a.trace, "timeout is 77, it may be 0 to 31"));
	env_run(5 * MS);
	refuse(99, 0);
	ck_assert_uint_eq(env.a.lines, 1);
	ck_assert_uint_eq(env.a.hca->notes.n, 1);
	ck_assert_uint_eq(note(&env.a, 0)->count, 2);
	ck_assert_uint_gt(note(&env.a, 0)->last, env.a.hca->notes.seen[0]->created);
	ck_assert(note(&env.a, 0)->said);
}
END_TEST

/* Each attribute is a cause of its own; of ibv_modify_qp() four lines are enough. */
START_TEST(four_lines_of_one_kind)
{
	static const int masks[] = {IBV_QP_RETRY_CNT,	  IBV_QP_RNR_RETRY,
				    IBV_QP_MIN_RNR_TIMER, IBV_QP_MAX_QP_RD_ATOMIC,
				    IBV_QP_PKEY_INDEX,	  IBV_QP_PORT};
	struct ibv_qp_attr attr;
	uint32_t i;

	env_connect((struct env_qp){0});
	memset(&attr, 0xee, sizeof(attr));
	for (i = 0; i < 6; i++) {
		ck_assert_int_eq(emu_qp_modify(env.a.qp, &attr, masks[i]), -EINVAL);
		ck_assert_uint_eq(env.a.lines, i < 4 ? i + 1 : 4);
		ck_assert_int_eq(strstr(env.a.trace, "see urxe why") != NULL, i >= 3);
	}
	ck_assert_uint_eq(env.a.hca->notes.n, 6);
	ck_assert(!note(&env.a, 5)->said);
}
END_TEST

START_TEST(more_than_there_is_room_for_is_left_out)
{
	struct emu_mr *mr;
	uint32_t i;

	env_connect((struct env_qp){0});
	for (i = 0; i < 2 * EMU_NOTES_MAX; i++)
		ck_assert_int_eq(
		    emu_mr_reg_begin(env.a.pd, 4096, 4096, 4096,
				     IBV_ACCESS_REMOTE_WRITE | (int)(i << 20), &mr),
		    -EINVAL);
	ck_assert_uint_eq(env.a.hca->notes.n, EMU_NOTES_MAX);
	ck_assert_uint_eq(env.a.lines, 4);
}
END_TEST

START_TEST(what_follows_from_what_was_said_is_not_said)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
	struct emu_qp_init init = {.type = IBV_QPT_RC,
				   .pd = env.a.pd,
				   .send_cq = env.a.scq,
				   .recv_cq = env.a.rcq,
				   .owner = &env.a,
				   .cap = {1, 1, 1, 1, 0}};
	struct emu_qp *qp;

	ck_assert_int_eq(emu_qp_create(env.a.hca, &init, &qp), 0);
	ck_assert_int_eq(emu_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX),
			 -EINVAL);
	ck_assert_uint_eq(env.a.lines, 1);
	ck_assert_ptr_nonnull(strstr(env.a.trace, "lacks IBV_QP_ACCESS_FLAGS"));
	/* so there is no way to RTR, and nothing can be posted */
	attr.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(emu_qp_modify(qp, &attr, IBV_QP_STATE), -EINVAL);
	ck_assert_int_eq(emu_qp_doorbell(qp), -EINVAL);
	ck_assert_uint_eq(env.a.lines, 1);
	ck_assert_uint_eq(env.a.hca->notes.n, 3);
	ck_assert_int_eq(emu_qp_destroy(qp), 0);
}
END_TEST

/* --- a peer that is not ready ----------------------------------------------------- */

START_TEST(not_ready_for_long_is_said_once)
{
	env_connect((struct env_qp){.sig_all = true, .min_rnr_timer = 31}); /* 491 ms */
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 10});
	env_run(99 * S / 10);
	ck_assert_uint_eq(env.a.lines, 0);
	env_run(S);
	ck_assert_uint_eq(env.a.lines, 1);
	ck_assert_ptr_nonnull(strstr(env.a.trace, "ibv_post_recv() there would end it"));
	env_run(30 * S);
	ck_assert_uint_eq(env.a.lines, 1);
	ck_assert_uint_gt(note(&env.a, 0)->count, 10);
	env_recv(&env.b, 9, 0, 100);
	env_run(S);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
}
END_TEST

START_TEST(not_ready_for_long_in_pieces_is_not_said)
{
	env_connect((struct env_qp){.sig_all = true, .min_rnr_timer = 31});
	for (uint64_t i = 0; i < 5; i++) {
		env_post(&env.a, (struct env_wr){.id = i, .op = IBV_WR_SEND, .len = 10});
		env_run(5 * S);
		env_recv(&env.b, i, 0, 100);
		env_run(S);
		env_expect(env.a.scq, i, IBV_WC_SUCCESS);
	}
	ck_assert_uint_eq(env.a.lines, 0);
}
END_TEST

/* --- a peer that does not answer -------------------------------------------------- */

static const struct silent {
	struct emu_peer peer;
	const char *said;
	enum trace_note_code cause;
} silent[] = {
    {{.kind = EMU_PEER_UNKNOWN}, "nothing ever came from there", TRACE_NOTE_NO_ANSWER},
    {{.kind = EMU_PEER_NOBODY}, "no device here has the address", TRACE_NOTE_NO_PEER},
    {{.kind = EMU_PEER_NO_PROCESS}, "no process of this user", TRACE_NOTE_NO_PEER_QP},
    {{.kind = EMU_PEER_NO_QP, .pid = 7}, "process 7, whose QPNs", TRACE_NOTE_NO_PEER_QP},
    {{.kind = EMU_PEER_SEEN, .pid = 7, .qp.state = IBV_QPS_RESET},
     "it is in RESET in process 7",
     TRACE_NOTE_PEER_STATE},
    {{.kind = EMU_PEER_SEEN, .pid = 7, .qp.state = IBV_QPS_INIT},
     "it is in INIT in process 7",
     TRACE_NOTE_PEER_STATE},
    {{.kind = EMU_PEER_SEEN, .pid = 7, .qp.state = IBV_QPS_ERR, .said = "a reason"},
     "in process 7: a reason",
     TRACE_NOTE_PEER_STATE},
    {{.kind = EMU_PEER_SEEN, .pid = 7, .qp.state = IBV_QPS_RTS, .qp.peer = 0x123},
     "is connected to QP 0x000123",
     TRACE_NOTE_NO_PEER_QP},
};
#define N_SILENT ((int)(sizeof(silent) / sizeof(silent[0])))

START_TEST(why_nobody_answers)
{
	env_connect((struct env_qp){.timeout = 8, .retry_cnt = 1});
	env.filter = lose_all;
	env.peer = silent[_i].peer;
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(S);
	env_expect(env.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_eq(env.a.lines, 1);
	ck_assert_msg(strstr(env.a.trace, silent[_i].said) != NULL, "%s", env.a.trace);
	ck_assert_uint_eq(note(&env.a, 0)->cause, silent[_i].cause);
}
END_TEST

/* The peer expects more, or less, than is sent: it answers, and nothing fits */
START_TEST(a_peer_that_expects_other_psns)
{
	static const uint32_t by[] = {1000, 0xffffff - 499};
	char want[64];

	env_connect((struct env_qp){.timeout = 8, .retry_cnt = 1, .psn = 5000});
	tr_of(env.b.qp)->resp.epsn = (5000 + by[_i]) & 0xffffff;
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(S);
	env_expect(env.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	snprintf(want, sizeof(want), "it expects PSN %u and 5000 is sent",
		 (5000 + by[_i]) & 0xffffff);
	ck_assert_msg(strstr(env.a.trace, want) != NULL, "%s", env.a.trace);
}
END_TEST

/* What the peer's process says of it is repeated, unless the user has read it already */
START_TEST(the_words_of_the_peer)
{
	env_connect((struct env_qp){0});
	env.peer = (struct emu_peer){
	    .kind = EMU_PEER_SEEN, .said = "its reason", .same_stderr = _i};
	env_post(&env.a, (struct env_wr){
			     .id = 1, .op = IBV_WR_RDMA_WRITE, .len = 10, .rkey = 0x99});
	env_run(S);
	env_expect(env.a.scq, 1, IBV_WC_REM_ACCESS_ERR);
	ck_assert_uint_eq(env.a.lines, !_i);
	ck_assert_ptr_nonnull(strstr(note(&env.a, 0)->text, "its reason"));
	ck_assert_uint_eq(env.b.lines, 1);
	ck_assert_ptr_nonnull(strstr(env.b.trace, "no MR has R_Key 0x99"));
}
END_TEST

/* A QP that is not in RTR yet keeps for `urxe why` that its peer has begun; nothing is said */
START_TEST(packets_before_rtr_are_noted)
{
	env_connect((struct env_qp){.timeout = 8, .retry_cnt = 1});
	env_modify(&env.b, IBV_QPS_RESET);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 10});
	env_run(S);
	env_expect(env.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	ck_assert_uint_eq(env.b.lines, 0);
	ck_assert_uint_eq(env.b.hca->notes.n, 1);
	ck_assert_uint_eq(note(&env.b, 0)->cause, TRACE_NOTE_NOT_RTR);
	ck_assert_uint_eq(note(&env.b, 0)->count, 2);
	ck_assert_ptr_nonnull(strstr(note(&env.b, 0)->text, "this QP is in RESET"));
}
END_TEST

/* What refuses all requests of an unreliable QP is looked for a few times only */
START_TEST(refused_for_ever_is_looked_into_for_a_while)
{
	env_connect((struct env_qp){.type = IBV_QPT_UC, .sig_all = true});
	for (uint64_t i = 0; i < 30; i++) {
		env_post(&env.a,
			 (struct env_wr){
			     .id = i, .op = IBV_WR_RDMA_WRITE, .len = 10, .rkey = 0x99});
		env_run(MS);
		env_expect(env.a.scq, i, IBV_WC_SUCCESS);
	}
	ck_assert_uint_eq(env.b.lines, 1);
	ck_assert_uint_eq(env.b.hca->notes.n, 1);
	ck_assert_uint_eq(note(&env.b, 0)->count, 8);
}
END_TEST

static void shows(const struct trace_packet *p, uint64_t count, uint32_t psn, uint8_t op,
		  enum trace_why why)
{
	ck_assert_uint_eq(p->count, count);
	ck_assert_uint_eq(p->psn, psn);
	ck_assert_uint_eq(p->opcode, op);
	ck_assert_uint_eq(p->why, why);
	ck_assert_uint_gt(p->time, 0);
}

static int lose_one_data(struct side *from, const struct roce_hdr *h, uint8_t *data,
			 uint32_t len)
{
	if (from != &env.a)
		return 1;
	env.filter = NULL;
	return 0;
}

/* Though the recorder is told of them in bursts, it knows how many there were, and the last one */
START_TEST(packets_of_a_burst_are_counted_and_the_last_one_shown)
{
	const struct trace_qp *a, *b;

	env_connect((struct env_qp){
	    .mtu = IBV_MTU_256, .psn = 100, .timeout = 8, .sig_all = true});
	a = &env.a.qp->seen->qp;
	b = &env.b.qp->seen->qp;
	env_post(&env.a,
		 (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 5 * 256});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	shows(&a->out, 5, 104, ROCE_RC | ROCE_WRITE_LAST, TRACE_WHY_FIRST);
	shows(&b->in, 5, 104, ROCE_RC | ROCE_WRITE_LAST, TRACE_WHY_FIRST);
	shows(&b->out, 1, 104, ROCE_RC | ROCE_ACK, TRACE_WHY_ACK);
	shows(&a->in, 1, 104, ROCE_RC | ROCE_ACK, TRACE_WHY_FIRST);
	env.filter = lose_one_data;
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(S);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	shows(&a->out, 7, 105, ROCE_RC | ROCE_WRITE_ONLY, TRACE_WHY_RETRY_TIMEOUT);
	shows(&b->in, 6, 105, ROCE_RC | ROCE_WRITE_ONLY, TRACE_WHY_FIRST);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport_notes");
	TCase *t = tcase_create("notes");

	tcase_add_checked_fixture(t, env_setup, env_teardown);
	tcase_add_test(t, the_same_is_counted_and_not_said_again);
	tcase_add_test(t, packets_of_a_burst_are_counted_and_the_last_one_shown);
	tcase_add_test(t, four_lines_of_one_kind);
	tcase_add_test(t, more_than_there_is_room_for_is_left_out);
	tcase_add_test(t, what_follows_from_what_was_said_is_not_said);
	tcase_add_test(t, not_ready_for_long_is_said_once);
	tcase_add_test(t, not_ready_for_long_in_pieces_is_not_said);
	tcase_add_loop_test(t, why_nobody_answers, 0, N_SILENT);
	tcase_add_loop_test(t, a_peer_that_expects_other_psns, 0, 2);
	tcase_add_loop_test(t, the_words_of_the_peer, 0, 2);
	tcase_add_test(t, packets_before_rtr_are_noted);
	tcase_add_test(t, refused_for_ever_is_looked_into_for_a_while);
	suite_add_tcase(s, t);
	return check_main(s);
}
