/*
 * Description: traces of several hosts in one order of time: clocks that are apart and drift, packets
 * one way, none, clocks that were set meanwhile.
 */
#include "tests/check_main.h"
#include "tools/timeline.h"
#include "trace/recorder.h"

#include <stdio.h>
#include <stdlib.h>

#define MS   1000000ll
#define SEC  1000000000ll
#define WALL 1700000000ll * SEC

/*
 * struct host - its clock is @ahead of the true time at the beginning, and @rate more with each ns
 */
struct host {
	struct recorder *r;
	struct trace_reader *t;
	int64_t ahead;
	double rate;
	uint32_t qpn;
};

static struct host hosts[3];

static uint64_t clock_of(const struct host *h, int64_t time)
{
	return (uint64_t)(time + h->ahead + (int64_t)(h->rate * (double)time));
}

static void make(int i, const char *name, int64_t ahead, double rate)
{
	struct host *h = &hosts[i];
	/* wall clocks are right to a few ms */
	const struct recorder_cfg cfg = {.slots = 1u << 14,
					 .full = true,
					 .mono = (uint64_t)(SEC + ahead),
					 .real = (uint64_t)(WALL + 3 * i * MS)};

	*h = (struct host){.ahead = ahead, .rate = rate, .qpn = 0x10u + (uint32_t)i};
	ck_assert_int_eq(recorder_open(&cfg, &h->r), 0);
	snprintf(h->r->hdr->host, sizeof(h->r->hdr->host), "%s", name);
}

/* A packet from @a to @b, at the true time @time, that takes @way */
static void send(int a, int b, uint32_t psn, int64_t time, int64_t way)
{
	TRACE(hosts[a].r, clock_of(&hosts[a], time), packet_out, .qpn = hosts[a].qpn,
	      .peer = hosts[b].qpn, .psn = psn, .opcode = 4);
	TRACE(hosts[b].r, clock_of(&hosts[b], time + way), packet_in, .qpn = hosts[b].qpn,
	      .peer = hosts[a].qpn, .psn = psn, .opcode = 4);
}

/* @n packets each way within @span, the fastest in 20 us, others up to 200 us */
static void talk(int a, int b, int n, int64_t from, int64_t span, bool back)
{
	uint64_t rng = 7;

	for (int i = 0; i < n; i++) {
		int64_t t = from + span / n * i;

		rng = rng * 6364136223846793005u + 1442695040888963407u;
		send(a, b, (uint32_t)i, t, 20000 + (int64_t)(rng >> 40) % 180000);
		if (back)
			send(b, a, 0x8000u + (uint32_t)i, t + span / n / 2,
			     20000 + (int64_t)(rng >> 20) % 180000);
	}
}

static struct timeline *join(int n)
{
	struct trace_reader *t[3];
	struct timeline *tl;

	for (int i = 0; i < n; i++) {
		ck_assert_int_eq(trace_open_recorder(hosts[i].r, &hosts[i].t), 0);
		t[i] = hosts[i].t;
	}
	tl = timeline_open(t, n);
	ck_assert_ptr_nonnull(tl);
	return tl;
}

static void done(struct timeline *tl, int n)
{
	timeline_close(tl);
	for (int i = 0; i < n; i++) {
		trace_close(hosts[i].t);
		recorder_close(hosts[i].r);
	}
}

/* How far the common times of @a and @b are apart for the same moment, at the worst, in [0, @span] */
static int64_t apart(const struct timeline *tl, int a, int b, int64_t span)
{
	int64_t worst = 0;

	for (int k = 0; k <= 10; k++) {
		int64_t t = span / 10 * k;
		int64_t d = (int64_t)(timeline_time(tl, a, clock_of(&hosts[a], t)) -
				      timeline_time(tl, b, clock_of(&hosts[b], t)));

		d = d < 0 ? -d : d;
		worst = d > worst ? d : worst;
	}
	return worst;
}

START_TEST(clocks_that_are_apart_and_drift_are_aligned)
{
	static const double rates[] = {0, 50e-6, -200e-6, 3e-6};
	static const int64_t ahead[] = {0, 5 * SEC, -7200 * SEC, 300 * MS};

	for (size_t i = 0; i < 4; i++)
		for (size_t k = 0; k < 4; k++) {
			struct timeline *tl;

			make(0, "one", 86400 * SEC, 0);
			make(1, "two", ahead[k], rates[i]);
			talk(0, 1, 1000, 0, 20 * SEC, true);
			tl = join(2);
			ck_assert_int_eq(timeline_clock(tl, 1)->known, CLOCKS_BOTH);
			ck_assert_double_le(timeline_clock(tl, 1)->rate - rates[i], 4e-6);
			ck_assert_double_ge(timeline_clock(tl, 1)->rate - rates[i],
					    -4e-6);
			ck_assert_int_lt(apart(tl, 0, 1, 20 * SEC), 45000);
			ck_assert_int_ge(timeline_clock(tl, 1)->margin, 0);
			done(tl, 2);
		}
}
END_TEST

START_TEST(records_of_drifting_hosts_are_in_the_order_in_which_they_happened)
{
	struct timeline *tl;
	struct moment m;
	uint64_t before = 0, sent = 0;
	int n = 0;

	make(0, "one", 0, 0);
	make(1, "two", 40 * SEC, 100e-6);
	for (uint32_t i = 0; i < 500; i++) {
		send(0, 1, i, 40 * MS * i, 30000);
		send(1, 0, 0x8000 + i, 40 * MS * i + 20 * MS, 30000);
	}
	tl = join(2);
	while (timeline_next(tl, &m)) {
		ck_assert_uint_ge(m.time, before);
		before = m.time;
		if (n++ % 2) {
			ck_assert_uint_eq(m.r.kind, TRACE_KIND_packet_in);
			ck_assert_uint_lt(m.time - sent, 35000);
			ck_assert_uint_gt(m.time - sent, 25000);
		} else {
			ck_assert_uint_eq(m.r.kind, TRACE_KIND_packet_out);
			sent = m.time;
		}
	}
	ck_assert_int_eq(n, 2000);
	done(tl, 2);
}
END_TEST

START_TEST(no_rate_is_told_from_a_short_time)
{
	struct timeline *tl;

	make(0, "one", 0, 0);
	make(1, "two", 5 * SEC, 50e-6);
	talk(0, 1, 20, SEC, 5 * MS, true);
	tl = join(2);
	ck_assert_double_eq(timeline_clock(tl, 1)->rate, 0);
	ck_assert_int_eq(timeline_clock(tl, 1)->known, CLOCKS_BOTH);
	done(tl, 2);
}
END_TEST

START_TEST(a_third_host_is_aligned_by_way_of_the_second)
{
	struct timeline *tl;

	make(0, "one", 0, 0);
	make(1, "two", 5 * SEC, 80e-6);
	make(2, "three", -9 * SEC, -60e-6);
	talk(0, 1, 500, 0, 10 * SEC, true);
	talk(1, 2, 500, 0, 10 * SEC, true);
	tl = join(3);
	ck_assert_int_eq(timeline_clock(tl, 2)->known, CLOCKS_BOTH);
	ck_assert_int_eq(timeline_clock(tl, 2)->against, 1);
	ck_assert_int_lt(apart(tl, 0, 2, 10 * SEC), 90000);
	done(tl, 3);
}
END_TEST

START_TEST(packets_one_way_only_do_not_arrive_before_they_left)
{
	struct timeline *tl;

	for (int late = 0; late < 2; late++) {
		make(0, "one", 0, 0);
		make(1, "two", late ? 5 * SEC : -5 * SEC, 0);
		/* the wall clock of the second is 3 ms ahead; by it, they arrive late or early */
		hosts[1].r->hdr->real += late ? 0 : (uint64_t)(-10 * MS);
		talk(0, 1, 100, 0, SEC, false);
		tl = join(2);
		ck_assert_int_eq(timeline_clock(tl, 1)->known, CLOCKS_ONE_WAY);
		if (late)
			ck_assert_int_eq(timeline_clock(tl, 1)->moved, 0);
		else
			ck_assert_int_gt(timeline_clock(tl, 1)->moved, 6 * MS);
		for (int64_t t = 0; t < SEC; t += SEC / 10)
			ck_assert_uint_le(
			    timeline_time(tl, 0, clock_of(&hosts[0], t)),
			    timeline_time(tl, 1, clock_of(&hosts[1], t + 200000)));
		done(tl, 2);
	}
}
END_TEST

START_TEST(without_packets_the_wall_clock_is_believed)
{
	struct timeline *tl;

	make(0, "one", 0, 0);
	make(1, "two", 5 * SEC, 0);
	TRACE(hosts[0].r, clock_of(&hosts[0], SEC), gid, .index = 1);
	TRACE(hosts[1].r, clock_of(&hosts[1], SEC), gid, .index = 1);
	tl = join(2);
	ck_assert_int_eq(timeline_clock(tl, 1)->known, CLOCKS_WALL);
	/* it is 3 ms ahead */
	ck_assert_int_eq(apart(tl, 0, 1, SEC), 3 * MS);
	done(tl, 2);
}
END_TEST

START_TEST(a_clock_that_was_set_meanwhile_is_noticed)
{
	struct timeline *tl;

	make(0, "one", 0, 0);
	make(1, "two", 5 * SEC, 0);
	talk(0, 1, 200, 0, SEC, true);
	hosts[1].ahead += 500 * MS;
	for (uint32_t i = 0; i < 200; i++) {
		send(0, 1, 1000 + i, SEC + i * MS, 30000);
		send(1, 0, 2000 + i, SEC + i * MS + MS / 2, 30000);
	}
	tl = join(2);
	ck_assert_int_lt(timeline_clock(tl, 1)->margin, -100 * MS);
	done(tl, 2);
}
END_TEST

START_TEST(times_go_there_and_back)
{
	struct timeline *tl;

	make(0, "one", 0, 0);
	make(1, "two", 5 * SEC, 150e-6);
	talk(0, 1, 500, 0, 10 * SEC, true);
	tl = join(2);
	for (int64_t t = 0; t < 10 * SEC; t += SEC) {
		uint64_t own = clock_of(&hosts[1], t);
		int64_t d =
		    (int64_t)(timeline_own_time(tl, 1, timeline_time(tl, 1, own)) - own);

		ck_assert_int_lt(d < 0 ? -d : d, 1000);
	}
	done(tl, 2);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("timeline");
	TCase *tc = tcase_create("timeline");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, clocks_that_are_apart_and_drift_are_aligned);
	tcase_add_test(tc,
		       records_of_drifting_hosts_are_in_the_order_in_which_they_happened);
	tcase_add_test(tc, no_rate_is_told_from_a_short_time);
	tcase_add_test(tc, a_third_host_is_aligned_by_way_of_the_second);
	tcase_add_test(tc, packets_one_way_only_do_not_arrive_before_they_left);
	tcase_add_test(tc, without_packets_the_wall_clock_is_believed);
	tcase_add_test(tc, a_clock_that_was_set_meanwhile_is_noticed);
	tcase_add_test(tc, times_go_there_and_back);
	suite_add_tcase(s, tc);
	return check_main(s);
}
