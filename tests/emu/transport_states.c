/*
 * Description: what a QP tells, takes and drops in the states that it goes through: draining,
 * RESET, SQE, and before it may send.
 */
#include <stdlib.h>

#include "transport_env.h"
#include "tests/check_main.h"

#define PSN 0xfffffeu

/* What @a sends is lost: the tests answer in its peer's name */
static int lost(struct side *from, const struct roce_hdr *h, uint8_t *data, uint32_t len)
{
	return from == &env.a ? 0 : 1;
}

/* A WRITE of three packets that nobody answers; the PSN wraps in it */
static void one_write(void)
{
	env_connect((struct env_qp){.psn = PSN, .timeout = 20, .sig_all = true});
	env.filter = lost;
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 3072});
	env_run(0);
}

/* Its acknowledge */
static void acknowledge(void)
{
	struct roce_hdr h = {.opcode = ROCE_ACK,
			     .pkey = ROCE_PKEY_DEFAULT,
			     .syndrome = 0x1f,
			     .psn = roce_psn_add(PSN, 2),
			     .dqpn = emu_qp_num(env.a.qp)};
	struct net_path path = {.src = env.b.ip, .dst = env.a.ip};
	uint8_t data[ROCE_HDR_MAX];
	struct net_rx rx = {.path = &path, .data = data, .len = roce_build(data, &h)};

	emu_hca_rx(env.a.hca, &rx);
	env_run(0);
}

/* What a poll finds: it passes over what RESET has made void */
static bool poll_valid(struct emu_cq *cq, struct ib_uverbs_wc *wc)
{
	while (env_poll(cq, wc)) {
		if (wc->vendor_err != EMU_WC_FORGOTTEN)
			return true;
	}
	return false;
}

START_TEST(reset_drops_the_completions_of_both_queues)
{
	struct ib_uverbs_wc wc;

	env_connect((struct env_qp){.sig_all = true});
	env_recv(&env.a, 7, 0, 100);
	env_recv(&env.b, 8, 0, 100);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 8});
	env_post(&env.b, (struct env_wr){.id = 2, .op = IBV_WR_SEND, .len = 8});
	env_run(MS);
	env_modify(&env.a, IBV_QPS_RESET);
	ck_assert(!poll_valid(env.a.scq, &wc));
	ck_assert(!poll_valid(env.a.rcq, &wc));
	ck_assert(poll_valid(env.b.scq, &wc));
	ck_assert(poll_valid(env.b.rcq, &wc));
}
END_TEST

static bool draining(struct ibv_qp_attr *at)
{
	struct ibv_qp_init_attr init;

	emu_qp_query(env.a.qp, at, &init);
	return at->sq_draining;
}

/* 10.3.1.5: in SQD it drains first, and says so; RTS must wait until it has */
START_TEST(sq_draining_is_told_while_it_drains)
{
	struct ibv_qp_attr at, sqd = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};

	one_write();
	ck_assert_int_eq(
	    emu_qp_modify(env.a.qp, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	ck_assert(draining(&at));
	ck_assert_int_eq(at.qp_state, IBV_QPS_SQD);
	ck_assert_uint_eq(at.sq_psn, roce_psn_add(PSN, 3));
	ck_assert_int_eq(emu_qp_modify(env.a.qp, &rts, IBV_QP_STATE), -EINVAL);
	ck_assert(draining(&at));
	ck_assert(!env_event(&env.a, IBV_EVENT_SQ_DRAINED));
	acknowledge();
	ck_assert(!draining(&at));
	ck_assert_int_eq(at.qp_state, IBV_QPS_SQD);
	ck_assert(env_event(&env.a, IBV_EVENT_SQ_DRAINED));
	ck_assert_int_eq(emu_qp_modify(env.a.qp, &rts, IBV_QP_STATE), 0);
}
END_TEST

/* Who does not ask for the event does not get it */
START_TEST(drained_without_a_word)
{
	struct ibv_qp_attr at, sqd = {.qp_state = IBV_QPS_SQD};

	one_write();
	ck_assert_int_eq(emu_qp_modify(env.a.qp, &sqd, IBV_QP_STATE), 0);
	acknowledge();
	ck_assert(!draining(&at));
	ck_assert(!env_event(&env.a, IBV_EVENT_SQ_DRAINED));
}
END_TEST

/* An error, and the way back to RESET, are open while it drains */
START_TEST(draining_ends_with_an_error_or_reset)
{
	struct ibv_qp_attr at, sqd = {.qp_state = IBV_QPS_SQD};

	one_write();
	ck_assert_int_eq(emu_qp_modify(env.a.qp, &sqd, IBV_QP_STATE), 0);
	env_modify(&env.a, _i ? IBV_QPS_RESET : IBV_QPS_ERR);
	ck_assert(!draining(&at));
	ck_assert(!env_event(&env.a, IBV_EVENT_SQ_DRAINED));
}
END_TEST

/* 11.2.5.2: who says in which state the QP is must be right */
START_TEST(a_wrong_current_state_is_refused)
{
	struct ibv_qp_attr at = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQD};

	env_connect((struct env_qp){0});
	ck_assert_int_eq(emu_qp_modify(env.a.qp, &at, IBV_QP_STATE | IBV_QP_CUR_STATE),
			 -EINVAL);
	at.cur_qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(emu_qp_modify(env.a.qp, &at, IBV_QP_STATE | IBV_QP_CUR_STATE),
			 0);
}
END_TEST

/* Before RTS a doorbell is refused, and what was posted is not sent later */
START_TEST(what_is_posted_before_rts_is_dropped)
{
	static const enum ibv_qp_state before[] = {IBV_QPS_RESET, IBV_QPS_INIT,
						   IBV_QPS_RTR};
	struct ibv_qp_attr at = {.sq_psn = 5};
	struct rxe_send_wqe *w;

	env_connect((struct env_qp){.type = IBV_QPT_UD, .sig_all = true});
	env_modify(&env.a, IBV_QPS_RESET);
	for (int i = 1; i <= _i; i++) {
		at.qp_state = before[i];
		at.port_num = 1;
		ck_assert_int_eq(
		    emu_qp_modify(
			env.a.qp, &at,
			IBV_QP_STATE |
			    (i == 1 ? IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY : 0)),
		    0);
	}
	w = env_slot(&env.a);
	w->wr.opcode = IBV_WR_SEND;
	env.a.qp->sq.buf->producer_index =
	    (env.a.qp->sq.buf->producer_index + 1) & ring_mask(&env.a.qp->sq);
	ck_assert_int_eq(emu_qp_doorbell(env.a.qp), -EINVAL);
	ck_assert_uint_eq(ring_count_from(&env.a.qp->sq, env.a.qp->sq.local), 0);
	env_run(MS);
	env_expect_none(env.a.scq);
}
END_TEST

/* A timeout of 0 is none: whatever is lost stays lost (9.7.6.1.3) */
START_TEST(without_a_timeout_nothing_is_sent_again)
{
	env_connect((struct env_qp){.psn = PSN, .sig_all = true});
	env.filter = lost;
	env.a.qp->attr.timeout = 0;
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 8});
	env_run(100000 * MS);
	ck_assert_uint_eq(env.a.sent[ROCE_WRITE_ONLY], 1);
	env_expect_none(env.a.scq);
}
END_TEST

static void post_mw(int op, uint64_t id, struct emu_mw *mw)
{
	struct rxe_send_wqe *w = env_slot(&env.a);

	w->wr.wr_id = id;
	w->wr.opcode = (uint32_t)op;
	w->wr.ex.invalidate_rkey = emu_mw_rkey(mw);
	w->wr.wr.mw.addr = (uintptr_t)env.a.buf;
	w->wr.wr.mw.length = 1000;
	w->wr.wr.mw.mr_lkey = emu_mr_lkey(env.a.mr);
	w->wr.wr.mw.mw_rkey = w->wr.wr.mw.rkey = emu_mw_rkey(mw);
	w->wr.wr.mw.access = IBV_ACCESS_REMOTE_WRITE;
	env_ring(&env.a);
}

/* What is outstanding may have to be sent again: the key goes when nothing is */
START_TEST(a_local_invalidate_waits_for_what_was_sent_before)
{
	struct emu_mw *mw;

	env_connect((struct env_qp){.psn = PSN, .sig_all = true});
	ck_assert_int_eq(emu_mw_alloc(env.a.pd, IBV_MW_TYPE_2, &mw), 0);
	post_mw(IBV_WR_BIND_MW, 2, mw);
	env_run(0);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	env_post(&env.a, (struct env_wr){.id = 3, .op = IBV_WR_RDMA_WRITE, .len = 8});
	post_mw(IBV_WR_LOCAL_INV, 4, mw);
	emu_hca_run(env.a.hca);
	ck_assert_ptr_nonnull(mw->mr);
	env_run(MS);
	env_expect(env.a.scq, 3, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 4, IBV_WC_SUCCESS);
	ck_assert_ptr_null(mw->mr);
	ck_assert_int_eq(emu_mw_dealloc(mw), 0);
}
END_TEST

/* A request to @b that is one packet, with PSN @n behind the first; nothing runs */
static void hand_over(uint8_t op, uint32_t n, uint32_t len)
{
	static uint8_t data[ROCE_HDR_MAX + 8];
	struct roce_hdr h = {.opcode = op,
			     .pkey = ROCE_PKEY_DEFAULT,
			     .psn = roce_psn_add(PSN, n),
			     .dqpn = emu_qp_num(env.b.qp),
			     .va = (uintptr_t)env.b.buf,
			     .rkey = emu_mr_rkey(env.b.mr),
			     .dma_len = 8};
	struct net_path path = {.src = env.a.ip, .dst = env.b.ip};
	struct net_rx rx = {.path = &path, .data = data};

	rx.len = roce_build(data, &h) + len;
	emu_hca_rx(env.b.hca, &rx);
}

/* 9.7.4.1.3: each of the QP's rights is for one kind of request */
START_TEST(a_qp_allows_what_its_rights_say)
{
	static const struct {
		uint8_t op;
		uint32_t len, right;
	} kinds[] = {{ROCE_WRITE_ONLY, 8, IBV_ACCESS_REMOTE_WRITE},
		     {ROCE_READ_REQ, 0, IBV_ACCESS_REMOTE_READ},
		     {ROCE_FETCH_ADD, 0, IBV_ACCESS_REMOTE_ATOMIC}};
	uint32_t have = kinds[_i / 3].right, need = kinds[_i % 3].right;

	env_connect((struct env_qp){.psn = PSN, .access = have});
	hand_over(kinds[_i % 3].op, 0, kinds[_i % 3].len);
	env_run(MS);
	ck_assert_int_eq(env_state(&env.b), have == need ? IBV_QPS_RTS : IBV_QPS_ERR);
}
END_TEST

static uint32_t naks, nak_psn;

static int count_naks(struct side *from, const struct roce_hdr *h, uint8_t *data,
		      uint32_t len)
{
	if (from == &env.b && h->syndrome == (ROCE_AETH_NAK | ROCE_NAK_PSN)) {
		naks++;
		nak_psn = h->psn;
	}
	return 1;
}

/* Of three packets the last two come first and are dropped; progress puts off the late NAK */
START_TEST(a_late_nak_waits_while_there_is_progress)
{
	env_connect((struct env_qp){.psn = PSN});
	env.filter = count_naks;
	naks = 0;
	env_run(0);
	hand_over(ROCE_WRITE_ONLY, 1, 8);
	hand_over(ROCE_WRITE_ONLY, 2, 8);
	hand_over(ROCE_WRITE_ONLY, 0, 8);
	env_run(200 * US);
	hand_over(ROCE_WRITE_ONLY, 1, 8);
	env_run(100 * US);
	ck_assert_uint_eq(naks, 0);
	env_run(200 * US);
	ck_assert_uint_eq(naks, 1);
	ck_assert_uint_eq(nak_psn, roce_psn_add(PSN, 2));
}
END_TEST

static uint32_t psns[8], n_psns;

static int note_psn(struct side *from, const struct roce_hdr *h, uint8_t *data,
		    uint32_t len)
{
	if (n_psns < 8)
		psns[n_psns++] = h->psn;
	return 1;
}

/* 9.8.2: after SQE the next packet has the PSN behind the last that was sent */
START_TEST(psns_of_what_was_not_sent_are_used_again)
{
	struct rxe_send_wqe *w;
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};

	env_connect((struct env_qp){.psn = PSN, .type = IBV_QPT_UC, .sig_all = true});
	env.filter = note_psn;
	n_psns = 0;
	w = env_slot(&env.a); /* of four packets the first can be sent */
	w->wr.wr_id = 1;
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->wr.wr.rdma.remote_addr = (uintptr_t)env.b.buf;
	w->wr.wr.rdma.rkey = emu_mr_rkey(env.b.mr);
	w->dma.num_sge = 2;
	w->dma.sge[0] =
	    (struct rxe_sge){(uintptr_t)env.a.buf, 1024, emu_mr_lkey(env.a.mr)};
	w->dma.sge[1] = (struct rxe_sge){(uintptr_t)env.a.buf, 3 * 1024, 0x123456};
	env_ring(&env.a);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_LOC_PROT_ERR);
	ck_assert_int_eq(env_state(&env.a), IBV_QPS_SQE);
	ck_assert_int_eq(emu_qp_modify(env.a.qp, &rts, IBV_QP_STATE), 0);
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 8});
	env_run(MS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	ck_assert_uint_eq(n_psns, 2);
	ck_assert_uint_eq(psns[0], PSN);
	ck_assert_uint_eq(psns[1], roce_psn_add(PSN, 1));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport_states");
	TCase *states = tcase_create("states");

	tcase_add_checked_fixture(states, env_setup, env_teardown);
	tcase_set_timeout(states, 20);
	tcase_add_test(states, reset_drops_the_completions_of_both_queues);
	tcase_add_test(states, sq_draining_is_told_while_it_drains);
	tcase_add_loop_test(states, draining_ends_with_an_error_or_reset, 0, 2);
	tcase_add_test(states, drained_without_a_word);
	tcase_add_test(states, a_wrong_current_state_is_refused);
	tcase_add_loop_test(states, what_is_posted_before_rts_is_dropped, 0, 3);
	tcase_add_test(states, without_a_timeout_nothing_is_sent_again);
	tcase_add_test(states, a_local_invalidate_waits_for_what_was_sent_before);
	tcase_add_loop_test(states, a_qp_allows_what_its_rights_say, 0, 9);
	tcase_add_test(states, a_late_nak_waits_while_there_is_progress);
	tcase_add_test(states, psns_of_what_was_not_sent_are_used_again);
	suite_add_tcase(s, states);
	return check_main(s);
}
