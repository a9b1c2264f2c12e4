/*
 * Description: two CMs make a connection, refuse one, wait for each other, find one that the peer has
 * forgotten.
 */
#include "cm_world.h"

START_TEST(a_connection_is_made_and_ended)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c = start(w, 0x111);

	live(w, 100);
	ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
	ck_assert_uint_eq(w->peer[1].established, 1);
	ck_assert_uint_eq(w->peer[0].reps, 1);
	ck_assert_uint_eq(w->sent[CM_REQ], 1);
	ck_assert_uint_eq(w->sent[CM_MRA], 0);
	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	live(w, 10);
	ck_assert_uint_eq(w->peer[1].disconnects, 1);
	ck_assert_int_eq(emu_cm_disconnect(w->peer[1].conn[0]), 0);
	live(w, 1000);
	ck_assert_uint_eq(w->peer[0].disconnects, 1);
	ck_assert_uint_eq(w->peer[0].exits, 1);
	ck_assert_uint_eq(w->peer[1].exits, 1);
	ck_assert_uint_eq(w->sent[CM_DREQ], 1);
	world_end(w);
}
END_TEST

static uint64_t counted(const struct world *w, int peer, enum emu_cm_counter which,
			unsigned int attr)
{
	return w->peer[peer].counters.n[which][attr - CM_REQ];
}

START_TEST(messages_are_counted_with_repetitions_and_duplicates)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c;

	/* the first REQ is lost, and then the first REP */
	w->drop_attr = CM_REQ;
	w->drop_count = 1;
	c = start(w, 0x111);
	w->drop_attr = CM_REP;
	w->drop_count = 1;
	live(w, 3000);
	ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
	for (unsigned int attr = CM_REQ; attr <= CM_DREP; attr++)
		ck_assert_uint_eq(counted(w, 0, EMU_CM_TX_MSGS, attr) +
				      counted(w, 1, EMU_CM_TX_MSGS, attr),
				  w->sent[attr]);
	ck_assert_uint_ge(counted(w, 0, EMU_CM_TX_RETRIES, CM_REQ), 1);
	ck_assert_uint_eq(counted(w, 0, EMU_CM_TX_MSGS, CM_REQ),
			  1 + counted(w, 0, EMU_CM_TX_RETRIES, CM_REQ));
	ck_assert_uint_eq(counted(w, 1, EMU_CM_RX_MSGS, CM_REQ),
			  counted(w, 0, EMU_CM_TX_MSGS, CM_REQ) - 1);
	ck_assert_uint_eq(counted(w, 1, EMU_CM_RX_DUPLICATES, CM_REQ),
			  counted(w, 1, EMU_CM_RX_MSGS, CM_REQ) - 1);
	ck_assert_uint_ge(counted(w, 1, EMU_CM_TX_RETRIES, CM_REP), 1);
	ck_assert_uint_eq(counted(w, 0, EMU_CM_RX_MSGS, CM_REP),
			  counted(w, 1, EMU_CM_TX_MSGS, CM_REP) - 1);
	ck_assert_uint_eq(counted(w, 1, EMU_CM_RX_MSGS, CM_RTU), w->sent[CM_RTU]);
	/* a DREP is lost: the same DREQ comes again */
	w->drop_attr = CM_DREP;
	w->drop_count = 1;
	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	live(w, 10);
	ck_assert_int_eq(emu_cm_disconnect(w->peer[1].conn[0]), 0);
	live(w, 3000);
	ck_assert_uint_ge(counted(w, 0, EMU_CM_TX_RETRIES, CM_DREQ), 1);
	ck_assert_uint_eq(counted(w, 1, EMU_CM_RX_DUPLICATES, CM_DREQ),
			  counted(w, 1, EMU_CM_RX_MSGS, CM_DREQ) - 1);
	ck_assert_uint_eq(counted(w, 0, EMU_CM_RX_MSGS, CM_DREP),
			  counted(w, 1, EMU_CM_TX_MSGS, CM_DREP) - 1);
	world_end(w);
}
END_TEST

START_TEST(qp_attributes_are_those_that_were_agreed)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *a = start(w, 0x111), *b;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask;

	ck_assert_int_eq(emu_cm_qp_attr(a, &attr, &mask), -EINVAL); /* not yet */
	attr.qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(emu_cm_qp_attr(a, &attr, &mask), 0);
	/* WRITE, READ, atomics, FLUSH of both kinds: what the kernel gives */
	ck_assert_uint_eq(attr.qp_access_flags, 0x30e);
	attr.qp_state = IBV_QPS_RTR;
	live(w, 100);
	b = w->peer[1].conn[0];
	ck_assert_int_eq(emu_cm_qp_attr(a, &attr, &mask), 0);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	ck_assert_uint_eq(attr.dest_qp_num, 0x222);
	ck_assert_uint_eq(attr.rq_psn, 0x1111);
	ck_assert_uint_eq(attr.max_dest_rd_atomic, 3); /* what the peer may start */
	ck_assert_int_eq(attr.path_mtu, IBV_MTU_1024);
	ck_assert_mem_eq(attr.ah_attr.grh.dgid.raw, path_ab.dst.b, 16);
	ck_assert_uint_eq(attr.ah_attr.grh.hop_limit, 64);
	ck_assert_uint_eq(attr.ah_attr.grh.traffic_class, 8);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(emu_cm_qp_attr(a, &attr, &mask), 0);
	ck_assert_uint_eq(attr.sq_psn, 0x2222);
	ck_assert_uint_eq(attr.max_rd_atomic, 4);
	ck_assert_uint_eq(attr.retry_cnt, 7);
	ck_assert_uint_eq(attr.rnr_retry, 7);
	ck_assert_uint_eq(attr.timeout, 17);
	ck_assert_int_eq(emu_cm_qp_attr(b, &attr, &mask), 0);
	ck_assert_uint_eq(attr.sq_psn, 0x1111);
	ck_assert_uint_eq(attr.rnr_retry, 6);
	ck_assert_uint_eq(attr.timeout, 17);
	attr.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(emu_cm_qp_attr(b, &attr, &mask), 0);
	ck_assert_uint_eq(attr.rq_psn, 0x2222);
	ck_assert_uint_eq(attr.dest_qp_num, 0x111);
	ck_assert_mem_eq(attr.ah_attr.grh.dgid.raw, path_ab.src.b, 16);
	world_end(w);
}
END_TEST

START_TEST(a_refusal_comes_with_its_reason)
{
	static const struct {
		int answer;
		unsigned int reason;
	} cases[] = {{REJECT, CM_REJ_CONSUMER}, {NOBODY, CM_REJ_INVALID_SERVICE_ID}};
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct world *w = world_new(1);
		struct emu_cm_conn *c;

		w->peer[1].answer = cases[i].answer;
		c = start(w, 0x111);
		live(w, 100);
		ck_assert_uint_eq(w->peer[0].rejects, 1);
		ck_assert_uint_eq(w->peer[0].last_reason, cases[i].reason);
		ck_assert_int_eq(c->state, EMU_CM_IDLE);
		ck_assert_int_eq(emu_cm_disconnect(c), -EINVAL);
		world_end(w);
	}
}
END_TEST

START_TEST(a_datagram_service_is_resolved)
{
	struct world *w = world_new(1);
	struct peer *p = &w->peer[0];
	struct emu_cm_req r = request(0);

	ck_assert_int_eq(emu_cm_sidr_ask(p->cm, &p->port, p, &r, &p->conn[p->n_conn++]),
			 0);
	live(w, 100);
	ck_assert_uint_eq(p->sidr, 1);
	ck_assert_uint_eq(p->last_qpn, 0x333);
	w->peer[1].answer = NOBODY;
	ck_assert_int_eq(emu_cm_sidr_ask(p->cm, &p->port, p, &r, &p->conn[p->n_conn++]),
			 0);
	live(w, 100);
	ck_assert_uint_eq(p->sidr, 2);
	ck_assert_uint_eq(p->last_reason, CM_SIDR_UNSUPPORTED);
	w->peer[1].answer = REJECT;
	ck_assert_int_eq(emu_cm_sidr_ask(p->cm, &p->port, p, &r, &p->conn[p->n_conn++]),
			 0);
	live(w, 100);
	ck_assert_uint_eq(p->last_reason, CM_SIDR_REJECT);
	world_end(w);
}
END_TEST

START_TEST(private_data_that_is_too_long_is_refused)
{
	struct world *w = world_new(1);
	struct peer *p = &w->peer[0];
	struct emu_cm_req r = request(1);
	struct emu_cm_rep rep = {.priv_len = CM_PRIV_REP + 1, .priv = w};
	struct emu_cm_conn *c;

	r.priv = w;
	r.priv_len = CM_PRIV_REQ + 1;
	ck_assert_int_eq(emu_cm_connect(p->cm, &p->port, p, &r, &c), -EINVAL);
	r.priv_len = CM_PRIV_SIDR_REQ + 1;
	ck_assert_int_eq(emu_cm_sidr_ask(p->cm, &p->port, p, &r, &c), -EINVAL);
	ck_assert_uint_eq(p->cm->count, 0);
	w->peer[1].answer = WAIT;
	start(w, 1);
	live(w, 10);
	c = w->peer[1].conn[0];
	ck_assert_int_eq(emu_cm_reply(c, &rep), -EINVAL);
	ck_assert_int_eq(emu_cm_reject(c, CM_REJ_CONSUMER, w, CM_PRIV_REJ + 1), -EINVAL);
	ck_assert_int_eq(c->state, EMU_CM_MRA_REQ_SENT);
	world_end(w);
}
END_TEST

START_TEST(a_peer_that_is_not_there_is_given_up)
{
	struct world *w = world_new(1);

	w->loss = 100;
	start(w, 0x111);
	world_run(w, 60000ull * MS);
	ck_assert_uint_eq(w->peer[0].errors, 0);
	world_run(w, 80000ull * MS); /* 16 * 4.608 s */
	ck_assert_uint_eq(w->peer[0].errors, 1);
	ck_assert_uint_ge(w->sent[CM_REQ], 16);
	world_end(w);
}
END_TEST

START_TEST(a_peer_that_falls_silent_is_given_up)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c = start(w, 0x111);

	live(w, 100);
	w->loss = 100;
	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	world_run(w, 100000ull * MS);
	ck_assert_uint_eq(w->peer[0].errors, 1);
	ck_assert_uint_eq(w->peer[0].exits, 1);
	world_end(w);
}
END_TEST

START_TEST(a_full_backlog_is_tried_again)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c;

	w->peer[1].answer = BUSY;
	c = start(w, 0x111);
	live(w, 1000);
	ck_assert_int_eq(c->state, EMU_CM_REQ_SENT);
	w->peer[1].answer = ACCEPT;
	live(w, 2000);
	ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
	world_end(w);
}
END_TEST

START_TEST(a_slow_owner_sends_an_mra)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c;

	w->peer[1].answer = WAIT;
	c = start(w, 0x111);
	live(w, 30000);
	ck_assert_int_eq(c->state, EMU_CM_MRA_REQ_RCVD);
	ck_assert_uint_eq(w->sent[CM_REQ], 2);
	ck_assert_uint_eq(w->peer[1].requests, 1);
	/* A REJ that is lost must not cost a minute. */
	w->drop_attr = CM_REJ;
	w->drop_count = 1;
	w->peer[1].answer = REJECT;
	live(w, 1000);
	ck_assert_uint_eq(w->peer[0].rejects, 1);
	world_end(w);
}
END_TEST

START_TEST(a_fresh_connection_is_not_stale)
{
	struct world *w = world_new(1);
	unsigned int i;

	/* The same QP number again at once, while the other side is in TIMEWAIT. */
	for (i = 0; i < 20; i++) {
		struct emu_cm_conn *c = start(w, 0x111);

		live(w, 20);
		ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
		emu_cm_disconnect(c);
		live(w, 10);
	}
	ck_assert_uint_eq(w->peer[0].rejects, 0);
	ck_assert_uint_eq(w->peer[1].established, 20);
	world_end(w);
}
END_TEST

START_TEST(a_forgotten_connection_is_stale)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0];

	start(w, 0x111);
	live(w, 100);
	world_reborn(w, 0);
	start(w, 0x111); /* with the same QP number */
	live(w, 100);
	ck_assert_uint_eq(a->rejects, 1);
	ck_assert_uint_eq(a->last_reason, CM_REJ_STALE_CONN);
	ck_assert_uint_eq(w->peer[1].disconnects, 1);
	/* Now the way is free. */
	start(w, 0x111);
	live(w, 100);
	ck_assert_uint_eq(w->peer[1].established, 2);
	world_end(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cm");
	TCase *t = tcase_create("cm");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_connection_is_made_and_ended);
	tcase_add_test(t, messages_are_counted_with_repetitions_and_duplicates);
	tcase_add_test(t, qp_attributes_are_those_that_were_agreed);
	tcase_add_test(t, a_refusal_comes_with_its_reason);
	tcase_add_test(t, a_datagram_service_is_resolved);
	tcase_add_test(t, private_data_that_is_too_long_is_refused);
	tcase_add_test(t, a_peer_that_is_not_there_is_given_up);
	tcase_add_test(t, a_peer_that_falls_silent_is_given_up);
	tcase_add_test(t, a_full_backlog_is_tried_again);
	tcase_add_test(t, a_slow_owner_sends_an_mra);
	tcase_add_test(t, a_fresh_connection_is_not_stale);
	tcase_add_test(t, a_forgotten_connection_is_stale);
	suite_add_tcase(s, t);
	return check_main(s);
}
