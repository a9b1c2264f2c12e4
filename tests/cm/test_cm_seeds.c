/*
 * Description: two CMs through a network that loses, doubles and reorders messages by a seed. Whatever
 * happens on the way, both sides end in agreement, each owner hears of each step once, and nothing
 * is left over.
 */
#include "cm_world.h"

START_TEST(random_messages_do_no_harm)
{
	struct world *w = world_new(7);
	struct emu_cm_conn *c = start(w, 0x111);
	unsigned int i, k;

	live(w, 100);
	w->peer[1].answer = NOBODY;
	for (i = 0; i < 20000; i++) {
		uint8_t mad[CM_MAD_LEN];

		for (k = 0; k < CM_MAD_LEN; k++)
			mad[k] = (uint8_t)rnd(w, 256);
		memcpy(mad, "\1\7\2\3", 4);
		mad[16] = 0;
		mad[17] = (uint8_t)(0x10 + rnd(w, 12));
		if (rnd(w, 2)) /* the right IDs, but not the right QP */
			memcpy(mad + 28, (const uint8_t[]){0, 0x80, 0, 7}, 4);
		emu_cm_rx(w->peer[1].cm, &w->peer[1].port, &path_ab, mad,
			  rnd(w, 8) ? 256 : rnd(w, 256));
		w->n_flight = 0;
	}
	ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
	ck_assert_uint_eq(w->peer[1].disconnects, 0);
	world_end(w);
}
END_TEST

#define SEEDS 300

START_TEST(both_sides_agree_under_loss)
{
	struct world *w = world_new((uint64_t)_i + 1000);
	struct peer *a = &w->peer[0], *b = &w->peer[1];
	unsigned int i, n = 10, up = 0;

	w->loss = (unsigned int)_i % 4 * 10;
	w->dup = (unsigned int)_i % 3 * 15;
	w->reorder = (unsigned int)_i % 5 * 20;
	for (i = 0; i < n; i++)
		start(w, 0x100 + i);
	live(w, 200000);
	for (i = 0; i < n; i++)
		up += a->conn[i]->state == EMU_CM_ESTABLISHED;
	ck_assert_uint_eq(up, n);
	ck_assert_uint_eq(a->reps, n);
	ck_assert_uint_eq(b->requests, n);
	ck_assert_uint_eq(b->established, n);
	for (i = 0; i < n; i++)
		ck_assert_int_eq(emu_cm_disconnect(a->conn[i]), 0);
	live(w, 20000);
	ck_assert_uint_eq(b->disconnects, n);
	for (i = 0; i < n; i++)
		ck_assert_int_eq(emu_cm_disconnect(b->conn[i]), 0);
	live(w, 70000);
	ck_assert_uint_eq(a->disconnects, n);
	ck_assert_uint_eq(a->errors + b->errors, 0);
	ck_assert_uint_eq(a->exits, n);
	ck_assert_uint_eq(b->exits, n);
	world_end(w);
}
END_TEST

START_TEST(rejects_arrive_under_loss)
{
	struct world *w = world_new((uint64_t)_i + 5000);
	struct peer *a = &w->peer[0], *b = &w->peer[1];
	unsigned int i;

	w->loss = 20;
	w->dup = 20;
	w->reorder = 30;
	b->answer = REJECT;
	for (i = 0; i < 10; i++)
		start(w, 0x100 + i);
	live(w, 120000);
	ck_assert_uint_eq(a->rejects, 10);
	ck_assert_uint_eq(a->errors, 0);
	world_end(w);
}
END_TEST

START_TEST(ten_thousand_connections_come_and_go)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0], *b = &w->peer[1];
	unsigned int i;

	for (i = 0; i < 10000; i++) {
		start(w, 0x100 + i % 50);
		live(w, 20);
		ck_assert_uint_eq(b->established, i + 1);
		emu_cm_release(a->conn[--a->n_conn]);
		live(w, 5);
		emu_cm_release(b->conn[--b->n_conn]);
	}
	ck_assert_uint_eq(a->rejects, 0);
	/* Only those in TIMEWAIT (half a second) are left. */
	ck_assert_uint_lt(a->cm->count, 50);
	ck_assert_uint_lt(b->cm->count, 50);
	world_end(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cm_seeds");
	TCase *t = tcase_create("cm_seeds");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, random_messages_do_no_harm);
	tcase_add_loop_test(t, both_sides_agree_under_loss, 0, SEEDS);
	tcase_add_loop_test(t, rejects_arrive_under_loss, 0, SEEDS);
	tcase_add_test(t, ten_thousand_connections_come_and_go);
	suite_add_tcase(s, t);
	return check_main(s);
}
