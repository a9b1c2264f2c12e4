/*
 * Description: the impairment's settings and their errors; that the same seed gives the
 * same fate; that frequencies and delays are those asked for; and the whole in a port,
 * over loopback.
 */
#include "tests/net/harness.h"

#include "net/impair.h"

static const char *const good[] = {
    "loss=1%",
    "loss=0.5%,dup=100%,reorder=0%,corrupt=3.25%",
    "delay=50us,jitter=10ns,rate=1.5gbit,seed=12",
    "tx.loss=1%,rx.loss=2%",
    "rx.delay=2ms,tx.rate=100kbit",
    "delay=1s",
};
static const char *const bad[] = {
    "",		 "loss",     "loss=",	    "loss=1",	  "loss=-1%",	    "loss=101%",
    "loss=x%",	 "delay=50", "delay=1h",    "rate=0bit",  "seed=",	    "seed=1x",
    "tx.seed=3", "tx.=1%",   "up.loss=1%",  "LOSS=1%",	  "loss=1%;dup=1%", "loss=nan%",
    "loss=0x1%", "loss= 1%", "delay=1e3us", "loss=1%,=3",
};

START_TEST(good_settings_are_taken)
{
	char err[200] = "";

	ck_assert_int_eq(impair_check(good[_i], err, sizeof(err)), 0);
	ck_assert_str_eq(err, "");
}
END_TEST

START_TEST(bad_settings_get_one_line)
{
	char err[200] = "", longer[2000];

	ck_assert_int_eq(impair_check(bad[_i], err, sizeof(err)), -EINVAL);
	ck_assert_str_ne(err, "");
	ck_assert_ptr_null(strchr(err, '\n'));
	ck_assert_int_eq(impair_check(bad[_i], NULL, 0), -EINVAL);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = 0;
	ck_assert_int_eq(impair_check(longer, err, sizeof(err)), -EINVAL);
}
END_TEST

/* struct log - what came out: numbers in order, when, which had a flipped bit; how many did not */
struct log {
	uint64_t now, lost;
	unsigned int n, flipped;
	struct {
		uint32_t number;
		uint64_t when;
		int32_t flip;
	} out[40000];
};

static void log_out(void *arg, enum impair_dir dir, const struct impair_pkt *pkt)
{
	struct log *l = arg;

	ck_assert_uint_lt(l->n, 40000);
	l->out[l->n].number = get_be32(pkt->data);
	l->out[l->n].when = l->now;
	l->out[l->n].flip = pkt->flip;
	l->flipped += pkt->flip >= 0;
	ck_assert_int_lt(pkt->flip, (int32_t)pkt->len * 8);
	l->n++;
}

/* @n packets of 100 bytes, one each @step ns, then time until all are out */
static void run(const char *settings, enum impair_dir dir, unsigned int n, uint64_t step,
		struct log *l)
{
	uint8_t data[100] = {0};
	struct impair_pkt pkt;
	struct impair *im;
	uint64_t next;
	uint32_t i;

	memset(l, 0, sizeof(*l));
	ck_assert_int_eq(impair_open(settings, log_out, l, &im), 0);
	for (i = 0; i < n; i++) {
		l->now += step;
		put_be32(data, i);
		pkt = (struct impair_pkt){.data = data, .len = sizeof(data)};
		impair_feed(im, dir, l->now, &pkt);
		impair_run(im, l->now);
	}
	while ((next = impair_run(im, l->now)) != UINT64_MAX) {
		ck_assert_uint_gt(next, l->now);
		l->now = next;
	}
	l->lost = impair_lost(im, dir);
	impair_close(im);
}

static struct log a, b;

START_TEST(the_seed_decides)
{
	const char *s =
	    "loss=5%,dup=5%,reorder=5%,corrupt=5%,delay=3us,jitter=9us,seed=4";

	run(s, IMPAIR_TX, 5000, 1000, &a);
	run(s, IMPAIR_TX, 5000, 1000, &b);
	ck_assert_uint_eq(a.n, b.n);
	ck_assert_mem_eq(a.out, b.out, sizeof(a.out));
	run(s, IMPAIR_RX, 5000, 1000, &b);
	ck_assert_mem_ne(a.out, b.out, sizeof(a.out));
	run("loss=5%,dup=5%,reorder=5%,corrupt=5%,delay=3us,jitter=9us,seed=5", IMPAIR_TX,
	    5000, 1000, &b);
	ck_assert_mem_ne(a.out, b.out, sizeof(a.out));
}
END_TEST

/* @n of 20000 at probability @p, within 5 sigma */
static void ck_frequency(unsigned int n, double p)
{
	double mean = 20000 * p, sigma2 = mean * (1 - p);

	ck_assert_double_le((n - mean) * (n - mean), 25 * sigma2);
}

START_TEST(frequencies_are_those_asked_for)
{
	unsigned int i, late = 0;
	uint32_t max = 0;

	run("loss=3%", IMPAIR_TX, 20000, 10, &a);
	ck_frequency(20000 - a.n, .03);
	ck_assert_uint_eq(a.lost, 20000 - a.n);
	run("dup=7%", IMPAIR_TX, 20000, 10, &a);
	ck_frequency(a.n - 20000, .07);
	run("corrupt=0.5%", IMPAIR_TX, 20000, 10, &a);
	ck_assert_uint_eq(a.n, 20000);
	ck_frequency(a.flipped, .005);
	run("reorder=2%", IMPAIR_TX, 20000, 10, &a);
	ck_assert_uint_eq(a.n, 20000);
	for (i = 0; i < a.n; i++) {
		late += a.out[i].number < max;
		max = a.out[i].number > max ? a.out[i].number : max;
		ck_assert_uint_ge(a.out[i].number + 4, i);
	}
	/* one that is to be late while another is held is not */
	ck_assert_uint_ge(late, 250);
	ck_assert_uint_le(late, 450);
	run("rx.loss=50%", IMPAIR_TX, 20000, 10, &a);
	ck_assert_uint_eq(a.n, 20000);
	run("loss=100%", IMPAIR_TX, 20000, 10, &a);
	ck_assert_uint_eq(a.n, 0);
}
END_TEST

START_TEST(delay_and_jitter_keep_the_order)
{
	unsigned int i;
	uint64_t age;

	run("delay=50us,jitter=20us", IMPAIR_TX, 1000, 1000, &a);
	ck_assert_uint_eq(a.n, 1000);
	for (i = 0; i < a.n; i++) {
		ck_assert_uint_eq(a.out[i].number, i);
		age = a.out[i].when - 1000 * (i + 1);
		ck_assert_uint_ge(age, 50000);
		/* let out at the next tick of the loop above */
		ck_assert_uint_le(age, 71000);
	}
}
END_TEST

/* Of packets that come at once some are to wait, and some are not */
START_TEST(who_need_not_wait_passes_nobody)
{
	unsigned int i;

	run("jitter=2ns", IMPAIR_TX, 1000, 0, &a);
	ck_assert_uint_eq(a.n, 1000);
	for (i = 0; i < a.n; i++)
		ck_assert_uint_eq(a.out[i].number, i);
}
END_TEST

START_TEST(what_is_held_back_comes_though_nothing_follows)
{
	run("reorder=100%", IMPAIR_TX, 1, 10, &a);
	ck_assert_uint_eq(a.n, 1);
}
END_TEST

START_TEST(rate_is_kept)
{
	/* 1000 packets of 800 bits at 8 Mbit/s: 100 us each */
	run("rate=8mbit", IMPAIR_TX, 1000, 10, &a);
	ck_assert_uint_eq(a.n, 1000);
	ck_assert_uint_ge(a.out[999].when, 1000 * 100000ull);
	ck_assert_uint_le(a.out[999].when, 1001 * 100000ull);
}
END_TEST

START_TEST(a_port_loses_what_it_was_told_to)
{
	struct net_port_cfg cfg = {.impair =
				       _i ? "rx.loss=10%,rx.dup=10%,rx.corrupt=10%"
					  : "tx.loss=10%,tx.dup=10%,tx.corrupt=10%"};
	unsigned int lost = 0, twice = 0;
	struct h_node from, to;
	uint32_t i;

	h_open_cfg(&from, h_lo(1), "lo", &cfg);
	h_open_cfg(&to, h_lo(2), "lo", &cfg);
	for (i = 0; i < 2000; i++) {
		h_send(&from, &to.ip, to.base, i, 64);
		if (i % 20 == 19) {
			net_tx_flush(from.port);
			net_port_tick(from.port, h_now());
			while (net_port_poll(to.port, 64))
				;
		}
	}
	for (i = 0; i < 50; i++) {
		usleep(1000);
		if (net_port_poll(to.port, 64))
			i = 0;
	}
	for (i = 0; i < 2000; i++) {
		lost += !to.seen[i];
		twice += to.seen[i] > 1;
	}
	/* lost, or corrupted and refused by the ICRC: about 19 % of 2000 */
	ck_assert_uint_ge(lost, 280);
	ck_assert_uint_le(lost, 480);
	ck_assert_uint_ge(twice, 80);
	ck_assert_uint_le(twice, 260);
	ck_assert_uint_ge(h_stats(&to).rx_bad_icrc, 120);
	h_close(&from);
	h_close(&to);
}
END_TEST

START_TEST(a_port_delays)
{
	struct net_port_cfg cfg = {.impair = "tx.delay=20ms"};
	struct h_node from, to;
	uint64_t start, next;

	h_open_cfg(&from, h_lo(1), "lo", &cfg);
	h_open(&to, h_lo(2));
	start = h_now();
	h_send(&from, &to.ip, to.base, 1, 64);
	net_tx_flush(from.port);
	next = net_port_tick(from.port, h_now());
	ck_assert_uint_ge(next, start + 19000000);
	ck_assert_uint_le(next, h_now() + 20000000);
	while (!to.rx && h_now() < start + H_PATIENCE_NS) {
		net_port_tick(from.port, h_now());
		net_port_poll(to.port, 64);
	}
	ck_assert_uint_eq(to.rx, 1);
	ck_assert_uint_ge(h_now(), start + 20000000);
	h_close(&from);
	h_close(&to);
}
END_TEST

START_TEST(a_port_refuses_nonsense)
{
	struct net_port_cfg cfg = {.impair = "luck=1%"};
	struct h_node n;

	ck_assert_int_eq(h_try_open_cfg(&n, &cfg), -EINVAL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("impair");
	TCase *t = tcase_create("impair");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, h_setup, h_shm_remove);
	tcase_add_loop_test(t, good_settings_are_taken, 0,
			    sizeof(good) / sizeof(good[0]));
	tcase_add_loop_test(t, bad_settings_get_one_line, 0,
			    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(t, the_seed_decides);
	tcase_add_test(t, frequencies_are_those_asked_for);
	tcase_add_test(t, delay_and_jitter_keep_the_order);
	tcase_add_test(t, who_need_not_wait_passes_nobody);
	tcase_add_test(t, what_is_held_back_comes_though_nothing_follows);
	tcase_add_test(t, rate_is_kept);
	tcase_add_loop_test(t, a_port_loses_what_it_was_told_to, 0, 2);
	tcase_add_test(t, a_port_delays);
	tcase_add_test(t, a_port_refuses_nonsense);
	suite_add_tcase(s, t);
	return h_main(s);
}
