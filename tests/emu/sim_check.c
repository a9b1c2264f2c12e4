/*
 * Description: runs a small number of the simulator's scenarios of each kind. Many more:
 * `sim --seeds N`; a failing one in all detail: `sim --kind KIND --seed S`.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "tests/check_main.h"

#define SEEDS 400

static void many(enum sim_kind kind)
{
	struct sim_stats stats = {0};

	ck_assert_msg(sim_many(kind, 1, SEEDS, &stats),
		      "kind %s: a scenario failed, its packets are above",
		      sim_kind_name(kind));
	ck_assert_uint_eq(stats.scenarios, SEEDS);
	/* some draws do not fit into memory */
	ck_assert_uint_gt(stats.judged, SEEDS * 3 / 4);
	ck_assert_uint_gt(stats.packets, SEEDS / 4);
}

#define KIND_TEST(name, kind)                                                            \
	START_TEST(name)                                                                 \
	{                                                                                \
		many(kind);                                                              \
	}                                                                                \
	END_TEST

KIND_TEST(rc_delivers_each_message_once_and_whole_under_loss_reordering_duplication,
	  SIM_RC)
KIND_TEST(uc_delivers_messages_whole_or_not_at_all, SIM_UC)
KIND_TEST(ud_delivers_datagrams_and_multicast_to_those_addressed_only, SIM_UD)
KIND_TEST(shared_receive_queues_serve_all_their_qps_and_tell_their_limit, SIM_SRQ)
KIND_TEST(xrc_messages_come_by_the_srq_that_they_name, SIM_XRC)
KIND_TEST(odp_faults_and_invalidations_at_any_access_keep_data_right, SIM_ODP)
KIND_TEST(memory_that_vanishes_ends_in_the_right_errors, SIM_VANISH)
KIND_TEST(each_wrong_request_fails_with_its_status_on_both_sides, SIM_ERROR)
KIND_TEST(one_lost_packet_is_made_up_for_without_a_timeout, SIM_RECOVER)
KIND_TEST(retry_exhaustion_ends_in_retry_exc_after_the_right_time, SIM_RETRY)
KIND_TEST(rnr_exhaustion_ends_in_rnr_retry_exc_and_spares_the_responder, SIM_RNR)
KIND_TEST(memory_windows_open_and_close, SIM_MW)
KIND_TEST(atomics_are_executed_exactly_once, SIM_ATOMIC)
KIND_TEST(an_error_stops_the_send_queue_of_uc_only_and_is_overcome, SIM_SQE)
KIND_TEST(a_drained_send_queue_rests_and_resumes, SIM_SQD)
KIND_TEST(qps_killed_in_mid_flight_flush_and_can_be_used_again, SIM_KILL)
KIND_TEST(faults_that_never_end_stop_nobody_else, SIM_STALL)
KIND_TEST(completion_queues_overrun_resize_and_raise_one_event_per_arming, SIM_CQ)
KIND_TEST(a_lawless_peer_harms_nobody_and_is_told_of_as_it_is, SIM_PEER)
KIND_TEST(wire_garbage_never_crashes, SIM_GARBAGE)
KIND_TEST(random_verbs_never_crash_and_leave_nothing, SIM_VERBS)
KIND_TEST(nonsense_in_rings_never_crashes, SIM_WQE)

/* The core, its memory and the network ask the rules that real programs run by. */
START_TEST(what_is_injected_is_repaired_as_what_happens_by_itself)
{
	static const char *const rules[] = {
	    "out=ACK,every=3,do=lose", "in=SEND_LAST,n=1,do=double",
	    "out=WRITE_ONLY,from=1,do=delay:300us", "access,every=5,do=absent",
	    "access=write,n=3,do=rnr;fault,n=2,do=slow:1ms"};

	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct sim_stats plain = {0}, ruled = {0};

		sim_inject_rules = "";
		ck_assert(sim_many(SIM_ODP, 1, 30, &plain));
		ck_assert_uint_eq(plain.injected, 0);
		sim_inject_rules = rules[i];
		ck_assert_msg(sim_many(SIM_ODP, 1, 30, &ruled), "%s", rules[i]);
		ck_assert(ruled.injected || ruled.faults != plain.faults);
	}
	sim_inject_rules = "";
}
END_TEST

START_TEST(an_injected_completion_ends_its_qp_in_the_simulator_too)
{
	struct sim_stats stats = {0};
	char why[512] = "";

	sim_inject_rules = "completion,n=1,do=RETRY_EXC_ERR";
	for (uint64_t seed = 1; seed <= 20 && !*why; seed++)
		sim_one(SIM_RC, seed, NULL, NULL, why, sizeof(why), &stats);
	sim_inject_rules = "";
	/* the model knows of no such failure: it says that one came */
	ck_assert_msg(*why, "nothing failed");
}
END_TEST

/* FNV-1a over the ladder */
static void hash_line(void *arg, const char *line)
{
	uint64_t *h = arg;

	for (; *line; line++)
		*h = (*h ^ (uint8_t)*line) * 0x100000001b3ull;
}

START_TEST(a_seed_replays_exactly)
{
	for (int k = 0; k < SIM_KINDS; k++) {
		for (uint64_t seed = 1; seed <= 20; seed++) {
			uint64_t a = 0xcbf29ce484222325ull, b = a;
			struct sim_stats stats = {0};

			sim_one((enum sim_kind)k, seed, hash_line, &a, NULL, 0, &stats);
			sim_one((enum sim_kind)(SIM_KINDS - 1 - k), seed + 7, NULL, NULL,
				NULL, 0, &stats);
			sim_one((enum sim_kind)k, seed, hash_line, &b, NULL, 0, &stats);
			ck_assert_msg(a == b, "kind %s seed %d: two runs differ",
				      sim_kind_name((enum sim_kind)k), (int)seed);
		}
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("sim");
	TCase *rel = tcase_create("delivery"), *err = tcase_create("errors");
	TCase *bad = tcase_create("hostile input"), *self = tcase_create("the simulator");

	tcase_set_timeout(rel, 120);
	tcase_set_timeout(err, 120);
	tcase_set_timeout(bad, 120);
	tcase_set_timeout(self, 120);
	tcase_add_test(
	    rel,
	    rc_delivers_each_message_once_and_whole_under_loss_reordering_duplication);
	tcase_add_test(rel, uc_delivers_messages_whole_or_not_at_all);
	tcase_add_test(rel, ud_delivers_datagrams_and_multicast_to_those_addressed_only);
	tcase_add_test(rel,
		       shared_receive_queues_serve_all_their_qps_and_tell_their_limit);
	tcase_add_test(rel, xrc_messages_come_by_the_srq_that_they_name);
	tcase_add_test(rel, odp_faults_and_invalidations_at_any_access_keep_data_right);
	tcase_add_test(rel, memory_windows_open_and_close);
	tcase_add_test(rel, one_lost_packet_is_made_up_for_without_a_timeout);
	tcase_add_test(rel, atomics_are_executed_exactly_once);
	tcase_add_test(err, an_error_stops_the_send_queue_of_uc_only_and_is_overcome);
	tcase_add_test(rel, a_drained_send_queue_rests_and_resumes);
	tcase_add_test(rel,
		       completion_queues_overrun_resize_and_raise_one_event_per_arming);
	tcase_add_test(err, memory_that_vanishes_ends_in_the_right_errors);
	tcase_add_test(err, each_wrong_request_fails_with_its_status_on_both_sides);
	tcase_add_test(err, retry_exhaustion_ends_in_retry_exc_after_the_right_time);
	tcase_add_test(err,
		       rnr_exhaustion_ends_in_rnr_retry_exc_and_spares_the_responder);
	tcase_add_test(rel, faults_that_never_end_stop_nobody_else);
	tcase_add_test(err, qps_killed_in_mid_flight_flush_and_can_be_used_again);
	tcase_add_test(bad, a_lawless_peer_harms_nobody_and_is_told_of_as_it_is);
	tcase_add_test(bad, wire_garbage_never_crashes);
	tcase_add_test(bad, random_verbs_never_crash_and_leave_nothing);
	tcase_add_test(bad, nonsense_in_rings_never_crashes);
	tcase_add_test(self, what_is_injected_is_repaired_as_what_happens_by_itself);
	tcase_add_test(self, an_injected_completion_ends_its_qp_in_the_simulator_too);
	tcase_add_test(self, a_seed_replays_exactly);
	suite_add_tcase(s, rel);
	suite_add_tcase(s, err);
	suite_add_tcase(s, bad);
	suite_add_tcase(s, self);
	return s;
}

int main(void)
{
	return check_main(suite());
}
