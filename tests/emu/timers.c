/*
 * Description: timers that are started, moved, stopped and removed at random fire when they
 * are due, and not again; a list says when that is. Those that are due at once have no order.
 */
#include <stdlib.h>

#include "emu/timer.h"
#include "tests/check_main.h"

#define TIMERS 100

static struct tr_timer timer[TIMERS];
static uint64_t due[TIMERS]; /* TR_NEVER: not running */
static uint64_t now;

static void fire(struct tr_timer *t)
{
	size_t i = (size_t)(t - timer);

	if (due[i] > now)
		ck_abort_msg("timer %zu, due at %d, fires at %d", i, (int)due[i],
			     (int)now);
	due[i] = TR_NEVER;
}

static void run(struct tr_timers *ts)
{
	while (tr_timers_run(ts, now, 7))
		;
	for (size_t i = 0; i < TIMERS; i++) {
		if (due[i] <= now)
			ck_abort_msg("timer %zu, due at %d, has not fired at %d", i,
				     (int)due[i], (int)now);
		if (due[i] < tr_timers_next(ts))
			ck_abort_msg("timer %zu is due before the next is", i);
	}
}

static void change(struct tr_timers *ts, size_t i)
{
	switch (rand() % 6) {
	case 0:
		tr_timer_stop(&timer[i]);
		due[i] = TR_NEVER;
		break;
	case 1:
		tr_timer_remove(ts, &timer[i]);
		due[i] = TR_NEVER;
		break;
	default:
		due[i] = now + (uint64_t)rand() % 500;
		tr_timer_start(ts, &timer[i], due[i]);
		break;
	}
	if (tr_timer_running(&timer[i]) != (due[i] != TR_NEVER))
		ck_abort_msg("timer %zu does not say whether it is running", i);
}

START_TEST(timers_fire_when_they_are_due)
{
	struct tr_timers ts = {0};

	srand((unsigned int)_i);
	now = 0;
	for (size_t i = 0; i < TIMERS; i++) {
		ck_assert_int_eq(tr_timers_reserve(&ts, 1), 0);
		tr_timer_init(&timer[i], fire);
		due[i] = TR_NEVER;
	}
	for (int step = 0; step < 5000; step++) {
		change(&ts, (size_t)rand() % TIMERS);
		if (rand() % 4 == 0) {
			now += (uint64_t)rand() % 40;
			run(&ts);
		}
	}
	now += 1000;
	run(&ts);
	for (size_t i = 0; i < TIMERS; i++)
		tr_timer_remove(&ts, &timer[i]);
	ck_assert_uint_eq(tr_timers_next(&ts), TR_NEVER);
	tr_timers_release(&ts, TIMERS);
	tr_timers_fini(&ts);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("timers");
	TCase *tc = tcase_create("timers");

	tcase_set_timeout(tc, 30);
	tcase_add_loop_test(tc, timers_fire_when_they_are_due, 1, 10);
	suite_add_tcase(s, tc);
	return check_main(s);
}
