/*
 * Description: how connections end: what a release, a death, or both sides at once say to the peer
 * in each state.
 */
#include "cm_world.h"

START_TEST(release_tells_the_peer)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0], *b = &w->peer[1];

	/* established: DREQ */
	start(w, 1);
	live(w, 100);
	emu_cm_release(a->conn[--a->n_conn]);
	live(w, 100);
	ck_assert_uint_eq(b->disconnects, 1);
	emu_cm_release(b->conn[--b->n_conn]);
	/* asked and not answered: the other side hears that it is over */
	b->answer = WAIT;
	start(w, 2);
	live(w, 300); /* with an MRA, so that the peer's ID is known */
	emu_cm_release(a->conn[--a->n_conn]);
	live(w, 100);
	ck_assert_uint_eq(b->rejects, 1);
	ck_assert_uint_eq(b->last_reason, CM_REJ_TIMEOUT);
	emu_cm_release(b->conn[--b->n_conn]);
	/* the same before there is an MRA */
	start(w, 3);
	live(w, 20);
	emu_cm_release(a->conn[--a->n_conn]);
	live(w, 100);
	ck_assert_uint_eq(b->rejects, 2);
	emu_cm_release(b->conn[--b->n_conn]);
	/* a request that is not wanted any more */
	start(w, 4);
	live(w, 20);
	emu_cm_release(b->conn[--b->n_conn]);
	live(w, 100);
	ck_assert_uint_eq(a->rejects, 1);
	ck_assert_uint_eq(a->last_reason, CM_REJ_CONSUMER);
	world_end(w);
}
END_TEST

START_TEST(somebody_else_says_farewell)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0], *b = &w->peer[1];
	struct emu_cm_conn *c = start(w, 0x111);
	uint8_t mad[CM_MAD_LEN];
	struct net_path path;

	live(w, 100);
	ck_assert(emu_cm_farewell(c, &path, mad));
	ck_assert(net_ip_eq(&path.dst, &path_ab.dst));
	/* The process is dead; its last message goes to the peer all the same. */
	emu_cm_rx(b->cm, &b->port, &path, mad, CM_MAD_LEN);
	ck_assert_uint_eq(b->disconnects, 1);
	ck_assert_int_eq(b->conn[0]->state, EMU_CM_DREQ_RCVD);
	/* And if nothing comes but it is known that the process is gone: */
	emu_cm_peer_gone(c);
	ck_assert_uint_eq(a->disconnects, 1);
	world_end(w);
}
END_TEST

/*
 * What a process leaves behind in the state that it died in, given to its peer, ends the peer's
 * wait at once.
 */
static void farewell_of(struct peer *dead, struct peer *peer)
{
	uint8_t mad[CM_MAD_LEN];
	struct net_path path;

	ck_assert(emu_cm_farewell(dead->conn[0], &path, mad));
	emu_cm_rx(peer->cm, &peer->port, &path, mad, CM_MAD_LEN);
}

START_TEST(each_state_has_its_farewell)
{
	const struct emu_cm_req r = request(0);
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0], *b = &w->peer[1];

	switch (_i) {
	case 0: /* who asked; the request was taken, with an MRA or without */
	case 1:
		b->answer = WAIT;
		start(w, 1);
		live(w, _i ? 300 : 20);
		farewell_of(a, b);
		ck_assert_uint_eq(b->rejects, 1);
		break;
	case 2: /* who was asked */
	case 3:
		b->answer = WAIT;
		start(w, 1);
		live(w, _i == 3 ? 300 : 20);
		farewell_of(b, a);
		ck_assert_uint_eq(a->rejects, 1);
		ck_assert_uint_eq(a->last_reason, CM_REJ_CONSUMER);
		break;
	case 4: /* who was asked to end it, and has not agreed */
		start(w, 1);
		live(w, 100);
		ck_assert_int_eq(emu_cm_disconnect(a->conn[0]), 0);
		live(w, 20);
		ck_assert_int_eq(b->conn[0]->state, EMU_CM_DREQ_RCVD);
		farewell_of(b, a);
		ck_assert_uint_eq(a->disconnects, 1);
		break;
	case 5: /* who asked for the end, which got lost */
		start(w, 1);
		live(w, 100);
		w->drop_attr = CM_DREQ;
		w->drop_count = 1;
		ck_assert_int_eq(emu_cm_disconnect(a->conn[0]), 0);
		live(w, 20);
		farewell_of(a, b);
		ck_assert_uint_eq(b->disconnects, 1);
		break;
	case 6: /* who was asked for a datagram service */
		b->answer = WAIT;
		ck_assert_int_eq(
		    emu_cm_sidr_ask(a->cm, &a->port, a, &r, &a->conn[a->n_conn++]), 0);
		live(w, 20);
		farewell_of(b, a);
		ck_assert_uint_eq(a->sidr, 1);
		ck_assert_uint_eq(a->last_reason, CM_SIDR_REJECT);
		break;
	}
	world_end(w);
}
END_TEST

/* A peer that dies after it was asked for the end is as good as one that agrees. */
START_TEST(a_peer_that_dies_disconnects)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0];

	start(w, 1);
	live(w, 100);
	ck_assert_int_eq(emu_cm_disconnect(a->conn[0]), 0);
	live(w, 20);
	ck_assert_uint_eq(a->disconnects, 0);
	emu_cm_peer_gone(a->conn[0]);
	ck_assert_uint_eq(a->disconnects, 1);
	world_end(w);
}
END_TEST

START_TEST(a_peer_that_dies_early_refuses)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0], *b = &w->peer[1];

	start(w, 0x111);
	w->drop_attr = CM_REP;
	w->drop_count = 1;
	live(w, 20);
	ck_assert_int_eq(b->conn[0]->state, EMU_CM_REP_SENT);
	emu_cm_peer_gone(b->conn[0]);
	ck_assert_uint_eq(b->rejects, 1);
	ck_assert_uint_eq(b->last_reason, CM_REJ_CONSUMER);
	ck_assert_uint_eq(a->rejects, 0);
	world_end(w);
}
END_TEST

START_TEST(both_may_disconnect_at_once)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c = start(w, 0x111);

	live(w, 100);
	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	ck_assert_int_eq(emu_cm_disconnect(w->peer[1].conn[0]), 0);
	live(w, 1000);
	ck_assert_uint_eq(w->peer[0].disconnects, 1);
	ck_assert_uint_eq(w->peer[1].disconnects, 1);
	ck_assert_uint_eq(w->peer[0].exits, 1);
	ck_assert_uint_eq(w->peer[1].exits, 1);
	world_end(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cm_end");
	TCase *t = tcase_create("cm_end");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, release_tells_the_peer);
	tcase_add_test(t, somebody_else_says_farewell);
	tcase_add_loop_test(t, each_state_has_its_farewell, 0, 7);
	tcase_add_test(t, a_peer_that_dies_disconnects);
	tcase_add_test(t, a_peer_that_dies_early_refuses);
	tcase_add_test(t, both_may_disconnect_at_once);
	suite_add_tcase(s, t);
	return check_main(s);
}
