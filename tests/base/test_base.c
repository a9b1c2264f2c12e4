/*
 * Description: what every room may use: descriptors outside of the program's limit, locks that no
 * cancelled thread leaves, a signal that is held back, ranks and lines of text.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/outside.h"
#include "base/rank.h"
#include "base/splitmix.h"
#include "base/text.h"
#include "base/xfsz.h"
#include "tests/check_main.h"

#define NOBODY 65534

/* --- outside ---------------------------------------------------------------------- */

static struct rlimit limit(rlim_t soft, rlim_t hard)
{
	struct rlimit l = {soft, hard};

	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
	return l;
}

static rlim_t hard_limit(void)
{
	struct rlimit l;

	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
	return l.rlim_max;
}

/* A duplicate that is outside of @l, works, and has changed nothing else */
static void expect_outside(struct rlimit l)
{
	sigset_t before, after;
	struct rlimit now;
	int fd;

	sigemptyset(&before);
	sigaddset(&before, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = EXDEV;
	fd = outside_dup(STDERR_FILENO);
	ck_assert_int_eq(errno, EXDEV);
	ck_assert_int_ge(fd, (int)l.rlim_cur);
	ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	ck_assert(sigismember(&after, SIGUSR2) && !sigismember(&after, SIGUSR1));
	ck_assert_uint_eq(cancel_deferred, 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &now), 0);
	ck_assert(now.rlim_cur == l.rlim_cur && now.rlim_max == l.rlim_max);
	ck_assert_int_eq(wait(NULL), -1);
	close(fd);
}

static bool no_outside(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return (preload && strstr(preload, "vgpreload_")) ||
	       check_emulated("process with limits of its own");
}

START_TEST(a_duplicate_is_above_any_limit)
{
	static const rlim_t soft[] = {64, 1024, 4095, 4096, 4097, 10000, 65535};
	rlim_t hard = hard_limit();

	for (size_t i = 0; !no_outside() && i < sizeof(soft) / sizeof(soft[0]); i++)
		if (soft[i] < hard)
			expect_outside(limit(soft[i], hard));
}
END_TEST

START_TEST(a_large_limit_is_not_worth_the_trouble)
{
	if (hard_limit() < 65536)
		return;
	limit(65536, hard_limit());
	ck_assert_int_eq(outside_dup(STDERR_FILENO), -EMFILE);
}
END_TEST

START_TEST(what_is_not_open_has_no_duplicate)
{
	if (no_outside() || hard_limit() <= 256)
		return;
	limit(256, hard_limit());
	ck_assert_int_eq(outside_dup(255), -EBADF);
	expect_outside(limit(256, hard_limit()));
}
END_TEST

static void become_nobody(void)
{
	if (!geteuid())
		ck_assert_int_eq(setresuid(NOBODY, NOBODY, NOBODY), 0);
}

/* Up to the hard limit without rights; and where that is the same, nowhere */
START_TEST(the_hard_limit_bounds_who_has_no_rights)
{
	if (no_outside() || hard_limit() < 1024)
		return;
	become_nobody();
	expect_outside(limit(256, 1024));
	expect_outside(limit(1000, 1024));
	limit(512, 512);
	for (int i = 0; i < 2; i++) {
		errno = EXDEV;
		ck_assert_int_eq(outside_dup(STDERR_FILENO), -EMFILE);
		ck_assert_int_eq(errno, EXDEV);
	}
	/* it is known of this hard limit, not of one below */
	expect_outside(limit(100, 512));
}
END_TEST

/* --- locks ------------------------------------------------------------------------ */

static struct lock lock, busy;
static int reached;

static void *take_two(void *arg)
{
	pthread_barrier_t *b = arg;

	lock_take(&lock);
	lock_take(&busy);
	pthread_barrier_wait(b);
	pthread_barrier_wait(b); /* cancelled here */
	pthread_testcancel();
	lock_release(&busy);
	pthread_testcancel();
	reached = 1;
	lock_release(&lock);
	pthread_testcancel();
	reached = 2;
	return NULL;
}

static void *cancel_at(void *(*fn)(void *arg))
{
	pthread_barrier_t b;
	pthread_t t;
	void *result;

	pthread_barrier_init(&b, NULL, 2);
	ck_assert_int_eq(pthread_create(&t, NULL, fn, &b), 0);
	pthread_barrier_wait(&b);
	ck_assert_int_eq(pthread_cancel(t), 0);
	pthread_barrier_wait(&b);
	ck_assert_int_eq(pthread_join(t, &result), 0);
	pthread_barrier_destroy(&b);
	return result;
}

START_TEST(a_thread_is_cancelled_when_it_holds_no_lock_any_more)
{
	lock_init(&lock);
	lock_init_adaptive(&busy);
	ck_assert_ptr_eq(cancel_at(take_two), PTHREAD_CANCELED);
	ck_assert_int_eq(reached, 1);
	ck_assert(lock_try(&lock) && lock_try(&busy));
}
END_TEST

static void *try_in_vain(void *arg)
{
	pthread_barrier_t *b = arg;
	bool got = lock_try(&busy);

	pthread_barrier_wait(b);
	pthread_barrier_wait(b);
	pthread_testcancel();
	return got ? (void *)1 : NULL;
}

START_TEST(who_did_not_get_the_lock_can_be_cancelled)
{
	lock_init(&busy);
	lock_take(&busy);
	ck_assert_ptr_eq(cancel_at(try_in_vain), PTHREAD_CANCELED);
	lock_release(&busy);
}
END_TEST

/* One that did not want to be cancelled does not want it afterwards either. */
START_TEST(the_state_before_the_first_lock_comes_back)
{
	int state;

	lock_init(&lock);
	lock_init(&busy);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	lock_take(&lock);
	lock_release(&lock);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	ck_assert_int_eq(state, PTHREAD_CANCEL_DISABLE);
	for (int i = 0; i < 3; i++) {
		lock_take(&lock);
		lock_take(&busy);
		lock_release(&lock);
		lock_release(&busy);
	}
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	ck_assert_int_eq(state, PTHREAD_CANCEL_ENABLE);
}
END_TEST

/* --- a signal that is held back ---------------------------------------------------- */

static volatile sig_atomic_t signals;

static void on_signal(int sig)
{
	signals++;
}

/* Nothing of Check, which writes to files, is called under the limit. */
static int write_too_much(int fd)
{
	ssize_t n = write(fd, "four", 4);

	return n < 0 ? errno : 0;
}

START_TEST(what_the_library_writes_sends_no_signal)
{
	struct rlimit before, none;
	int err[2], held, kept, fd;
	FILE *f = tmpfile();
	struct xfsz x;

	ck_assert_ptr_nonnull(f);
	fd = fileno(f);
	signal(SIGXFSZ, on_signal);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
	none = (struct rlimit){0, before.rlim_max};
	setrlimit(RLIMIT_FSIZE, &none);
	xfsz_hold(&x);
	err[0] = write_too_much(fd);
	errno = EXDEV;
	xfsz_release(&x);
	kept = errno;
	held = signals;
	/* the program's own writing does, as ever */
	err[1] = write_too_much(fd);
	setrlimit(RLIMIT_FSIZE, &before);
	ck_assert_int_eq(err[0], EFBIG);
	ck_assert_int_eq(kept, EXDEV);
	ck_assert_int_eq(held, 0);
	ck_assert_int_eq(err[1], EFBIG);
	ck_assert_int_eq(signals, 1);
	fclose(f);
}
END_TEST

START_TEST(a_signal_of_the_program_stays)
{
	sigset_t set;
	struct xfsz x;

	signal(SIGXFSZ, on_signal);
	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	raise(SIGXFSZ);
	xfsz_hold(&x);
	xfsz_release(&x);
	ck_assert_int_eq(signals, 0);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	ck_assert_int_eq(signals, 1);
}
END_TEST

/* --- texts ------------------------------------------------------------------------ */

START_TEST(a_rank_is_a_number)
{
	static const struct {
		const char *value, *rank;
	} c[] = {{"0", "0"},
		 {"12345678901", "12345678901"},
		 {"123456789012", NULL},
		 {"", NULL},
		 {"-1", NULL},
		 {"7x", NULL},
		 {" 7", NULL}};

	unsetenv("OMPI_COMM_WORLD_RANK");
	unsetenv("PMIX_RANK");
	unsetenv("SLURM_PROCID");
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		setenv("PMI_RANK", c[i].value, 1);
		if (c[i].rank)
			ck_assert_str_eq(rank_text(), c[i].rank);
		else
			ck_assert_ptr_null(rank_text());
	}
	/* what is no number is passed over */
	setenv("SLURM_PROCID", "3", 1);
	ck_assert_str_eq(rank_text(), "3");
}
END_TEST

START_TEST(a_line_has_no_control_characters)
{
	char s[] = "a\n\033[2J\x7f \x80\xff~";

	text_make_line(s);
	ck_assert_str_eq(s, "a??[2J? \x80\xff~");
}
END_TEST

/* As published, for the seed 1234567 */
START_TEST(random_numbers_are_the_same_everywhere)
{
	static const uint64_t want[] = {6457827717110365317u, 3203168211198807973u,
					9817491932198370423u, 4593380528125082431u};
	uint64_t state = 1234567;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++)
		ck_assert_uint_eq(splitmix_next(&state), want[i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("base");
	TCase *tc = tcase_create("base");

	tcase_set_timeout(tc, 50);
	tcase_add_test(tc, a_duplicate_is_above_any_limit);
	tcase_add_test(tc, a_large_limit_is_not_worth_the_trouble);
	tcase_add_test(tc, what_is_not_open_has_no_duplicate);
	tcase_add_test(tc, the_hard_limit_bounds_who_has_no_rights);
	tcase_add_test(tc, a_thread_is_cancelled_when_it_holds_no_lock_any_more);
	tcase_add_test(tc, who_did_not_get_the_lock_can_be_cancelled);
	tcase_add_test(tc, the_state_before_the_first_lock_comes_back);
	tcase_add_test(tc, what_the_library_writes_sends_no_signal);
	tcase_add_test(tc, a_signal_of_the_program_stays);
	tcase_add_test(tc, a_rank_is_a_number);
	tcase_add_test(tc, a_line_has_no_control_characters);
	tcase_add_test(tc, random_numbers_are_the_same_everywhere);
	suite_add_tcase(s, tc);
	return check_main(s);
}
