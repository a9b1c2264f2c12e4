/*
 * Description: guarded access returns -EFAULT where memory is gone, copies right where it
 * is not, and leaves SIGSEGV and SIGBUS to the application with the semantics of
 * sigaction(2).
 */
#include "odp/guard.h"
#include "odp/guard_asm.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include "tests/odp/util.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

static volatile sig_atomic_t seen, seen_code;
static volatile uintptr_t seen_addr;
static sigjmp_buf out;

/* One page with a hole on each side */
static uint8_t *island(void)
{
	uint8_t *p = util_map(3 * PAGE);

	munmap(p, PAGE);
	munmap(p + 2 * PAGE, PAGE);
	return p + PAGE;
}

static void init(void)
{
	ck_assert_int_eq(guard_init(), 0);
}

/* --- copies ----------------------------------------------------------------------- */

START_TEST(copies_like_memcpy)
{
	static uint8_t src[9000], dst[9000], expect[9000];

	for (unsigned int i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t len = 0; len < 600; len++) {
		for (unsigned int off = 0; off < 68; off += 1 + off / 3) {
			size_t n = len < 300 ? len : len * 13;

			memset(dst, 0xee, sizeof(dst));
			memset(expect, 0xee, sizeof(expect));
			memcpy(expect + off, src + off * 5 % 64, n);
			ck_assert_int_eq(guard_copy(dst + off, src + off * 5 % 64, n), 0);
			ck_assert_int_eq(memcmp(dst, expect, sizeof(dst)), 0);
		}
	}
}
END_TEST

/* A copy that crosses into a hole fails on either side, and touches nothing outside. */
START_TEST(holes_are_efault)
{
	uint8_t *p = island();
	static uint8_t buf[3 * PAGE];

	for (size_t len = 1; len < 700; len += 1 + len / 9) {
		ck_assert_int_eq(guard_copy(buf, p + PAGE - len, len), 0);
		ck_assert_int_eq(guard_copy(p + PAGE - len, buf, len), 0);
		ck_assert_int_eq(guard_copy(p, buf, len), 0);
		ck_assert_int_eq(guard_copy(buf, p + PAGE - len + 1, len), -EFAULT);
		ck_assert_int_eq(guard_copy(p + PAGE - len + 1, buf, len), -EFAULT);
		ck_assert_int_eq(guard_copy(buf, p - 1, len), -EFAULT);
		ck_assert_int_eq(guard_copy(p - 1, buf, len), -EFAULT);
	}
	ck_assert_int_eq(guard_copy(buf, (void *)0x800000000000, 8), -EFAULT);
	ck_assert_int_eq(guard_copy(buf, NULL, PAGE), -EFAULT);
}
END_TEST

/*
 * The form of the copy that the machine chooses, and those that it does not. @step: the last
 * store of it has so many bytes at most
 */
struct form {
	int (*copy)(void *dst, const void *src, size_t len);
	size_t step;
};

static const struct form forms[] = {
#ifdef GUARD_GENERIC
    {guard_copy, 1},
#else
    {guard_copy, 32},
#endif
#if !defined(GUARD_GENERIC) && (defined(__x86_64__) || defined(__aarch64__))
    {guard_asm_copy, 16},
#endif
#if !defined(GUARD_GENERIC) && defined(__x86_64__)
    {guard_avx_copy, 32},
#endif
};

#define FORMS ((int)(sizeof(forms) / sizeof(forms[0])))

static bool runs_here(const struct form *f)
{
#if !defined(GUARD_GENERIC) && defined(__x86_64__)
	return f->copy != guard_avx_copy || __builtin_cpu_supports("avx");
#else
	return true;
#endif
}

/* The last store of a copy of @len bytes: that of two that overlap, or of many */
static size_t last_store(const struct form *f, size_t len)
{
	size_t half = 1;

	if (f->step == 1 || len > 16)
		return f->step;
	while (2 * half <= len)
		half *= 2;
	return half;
}

/*
 * A program polls on the last byte of a message, and then reads the rest. Here the last byte
 * has no page: by the time that its store fails all other stores must have been made.
 */
START_TEST(the_last_byte_is_stored_last)
{
	const struct form *f = &forms[_i];
	uint8_t *p = island(), *end = p + PAGE;
	static uint8_t src[PAGE];

	if (!runs_here(f))
		return;
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(1 + i % 255);
	for (size_t len = 2; len < 1100; len++) {
		size_t last = last_store(f, len);

		memset(p, 0, PAGE);
		MUST(f->copy(end - (len - 1), src, len) == -EFAULT);
		for (size_t i = 0; i + last < len; i++) {
			if (end[(ptrdiff_t)i - (ptrdiff_t)len + 1] != src[i])
				ck_abort_msg(
				    "byte %zu of %zu is not there before the last", i,
				    len);
		}
	}
}
END_TEST

/* Each form copies, whatever the machine would choose */
START_TEST(each_form_copies_each_length_to_each_place)
{
	static uint8_t src[1400], dst[1400], expect[1400];
	const struct form *f = &forms[_i];

	if (!runs_here(f))
		return;
	for (unsigned int i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + i / 251);
	for (size_t len = 0; len < 1200; len += 1 + len / 300) {
		for (unsigned int off = 0; off < 68; off += 1 + off / 5) {
			memset(dst, 0xee, sizeof(dst));
			memset(expect, 0xee, sizeof(expect));
			memcpy(expect + off, src + off * 5 % 64, len);
			MUST(!f->copy(dst + off, src + off * 5 % 64, len));
			MUST(!memcmp(dst, expect, sizeof(dst)));
		}
	}
}
END_TEST

START_TEST(protection_is_efault)
{
	uint8_t *p = util_map(PAGE);
	uint64_t orig, *q = (uint64_t *)p;

	*q = 5;
	mprotect(p, PAGE, PROT_READ);
	ck_assert_int_eq(guard_store64(q, 1), -EFAULT);
	ck_assert_int_eq(guard_fetch_add(q, 1, &orig), -EFAULT);
	ck_assert_int_eq(guard_cmp_swap(q, 5, 6, &orig), -EFAULT);
	ck_assert_int_eq(guard_copy(p, &orig, 8), -EFAULT);
	ck_assert_int_eq(guard_touch((uintptr_t)p, PAGE, 1), -EFAULT);
	ck_assert_int_eq(guard_touch((uintptr_t)p, PAGE, 0), 0);
	ck_assert_uint_eq(*q, 5);
	mprotect(p, PAGE, PROT_NONE);
	ck_assert_int_eq(guard_touch((uintptr_t)p, PAGE, 0), -EFAULT);
	ck_assert_int_eq(guard_copy(&orig, p, 8), -EFAULT);
}
END_TEST

/* SIGBUS: beyond the end of a file */
START_TEST(end_of_file_is_efault)
{
	int fd = memfd_create("guard", MFD_CLOEXEC);
	uint8_t *p, buf[16];

	ck_assert_int_eq(ftruncate(fd, PAGE), 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(guard_copy(buf, p, 16), 0);
	ck_assert_int_eq(guard_copy(buf, p + PAGE, 16), -EFAULT);
	ck_assert_int_eq(guard_touch((uintptr_t)p, 2 * PAGE, 1), -EFAULT);
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	ck_assert_int_eq(guard_copy(p, buf, 16), -EFAULT);
}
END_TEST

START_TEST(atomics_do_their_work)
{
	uint64_t v = 10, orig = 0;

	ck_assert_int_eq(guard_cmp_swap(&v, 9, 1, &orig), 0);
	ck_assert_uint_eq(v, 10);
	ck_assert_uint_eq(orig, 10);
	ck_assert_int_eq(guard_cmp_swap(&v, 10, 20, &orig), 0);
	ck_assert_uint_eq(v, 20);
	ck_assert_uint_eq(orig, 10);
	ck_assert_int_eq(guard_fetch_add(&v, 3, &orig), 0);
	ck_assert_uint_eq(v, 23);
	ck_assert_uint_eq(orig, 20);
	ck_assert_int_eq(guard_store64(&v, 7), 0);
	ck_assert_uint_eq(v, 7);
	ck_assert_int_eq(guard_touch((uintptr_t)&v, 8, 1), 0);
	ck_assert_uint_eq(v, 7);
}
END_TEST

/* A thread that blocks everything, as worker threads of many programs do */
static void *blocked_thread(void *arg)
{
	uint8_t b;

	*(int *)arg = guard_copy(&b, NULL, 1);
	return NULL;
}

START_TEST(blocked_signals_do_not_kill)
{
	sigset_t all, old;
	pthread_t t;
	int ret = 1;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	ck_assert_int_eq(pthread_create(&t, NULL, blocked_thread, &ret), 0);
	pthread_join(t, NULL);
	ck_assert_int_eq(ret, -EFAULT);
	guard_sigmask(&all);
	ck_assert(!sigismember(&all, SIGSEGV) && !sigismember(&all, SIGBUS));
	ck_assert(sigismember(&all, SIGUSR1) == 1);
}
END_TEST

/* --- the application's actions ---------------------------------------------------- */

static void on_info(int sig, siginfo_t *info, void *ctx)
{
	seen = sig;
	seen_code = info->si_code;
	seen_addr = (uintptr_t)info->si_addr;
	siglongjmp(out, 1);
}

static void on_plain(int sig)
{
	seen++;
}

static struct sigaction action(void (*fn)(int), int flags)
{
	struct sigaction sa = {.sa_handler = fn, .sa_flags = flags};

	sigemptyset(&sa.sa_mask);
	return sa;
}

static void set_action(int sig, struct sigaction sa)
{
	ck_assert_int_eq(guard_sigaction(sig, &sa, NULL), 0);
}

START_TEST(handler_gets_its_own_faults)
{
	struct sigaction sa = {.sa_sigaction = on_info,
			       .sa_flags = SA_SIGINFO | SA_NODEFER};
	volatile uint8_t *p = island();
	uint8_t b;

	set_action(SIGSEGV, sa);
	for (int i = 0; i < 3; i++) {
		seen = 0;
		if (!sigsetjmp(out, 1))
			p[PAGE] = 1;
		ck_assert_int_eq(seen, SIGSEGV);
		ck_assert_int_eq(seen_code, SEGV_MAPERR);
		ck_assert_uint_eq(seen_addr, (uintptr_t)p + PAGE);
		/* ... and not ours */
		seen = 0;
		ck_assert_int_eq(guard_copy(&b, (void *)(p + PAGE), 1), -EFAULT);
		ck_assert_int_eq(seen, 0);
	}
}
END_TEST

/* The handler leaves by longjmp without the mask: ours must still work on this thread. */
START_TEST(left_blocked_by_longjmp)
{
	struct sigaction sa = {.sa_sigaction = on_info, .sa_flags = SA_SIGINFO};
	volatile uint8_t *p = island();
	uint8_t b;

	set_action(SIGSEGV, sa);
	if (!sigsetjmp(out, 0))
		p[PAGE] = 1;
	ck_assert_int_eq(seen, SIGSEGV);
	ck_assert_int_eq(guard_copy(&b, (void *)(p + PAGE), 1), -EFAULT);
}
END_TEST

START_TEST(old_action_is_the_applications)
{
	struct sigaction a = action(on_plain, SA_RESTART | SA_NODEFER), old;

	sigaddset(&a.sa_mask, SIGUSR2);
	ck_assert_int_eq(guard_sigaction(SIGBUS, &a, &old), 0);
	ck_assert(SANITIZED || old.sa_handler == SIG_DFL);
	ck_assert_int_eq(guard_sigaction(SIGBUS, NULL, &old), 0);
	ck_assert(old.sa_handler == on_plain);
	ck_assert_int_eq(old.sa_flags, a.sa_flags);
	ck_assert(sigismember(&old.sa_mask, SIGUSR2) == 1);
	ck_assert_int_eq(guard_sigaction(SIGUSR1, &a, &old), 1);
}
END_TEST

/*
 * What was there before the guard came, and what takes its place behind its back, is
 * kept.
 */
START_TEST(others_are_adopted)
{
	struct sigaction sa = action(on_plain, 0), old;
	uint8_t b;

	ck_assert_int_eq(sigaction(SIGSEGV, &sa, NULL), 0);
	ck_assert_int_eq(guard_init(), 0);
	ck_assert_int_eq(guard_sigaction(SIGSEGV, NULL, &old), 0);
	/* (a sanitizer puts a handler of its own around it) */
	ck_assert(SANITIZED || old.sa_handler == on_plain);
	ck_assert_int_eq(guard_copy(&b, NULL, 1), -EFAULT);
	raise(SIGSEGV);
	ck_assert_int_eq(seen, 1);
}
END_TEST

/* Is a signal blocked while the handler runs? */
static volatile sig_atomic_t blocked_in_handler;

static void look_at_mask(int sig, siginfo_t *info, void *ctx)
{
	sigset_t now;

	sigprocmask(SIG_SETMASK, NULL, &now);
	blocked_in_handler = sigismember(&now, SIGUSR2);
	seen++;
	siglongjmp(out, 1);
}

/*
 * What the kernel tells of an action that was there first is read as the kernel lays it
 * out: handler, flags and mask
 */
START_TEST(mask_of_an_adopted_handler)
{
	struct sigaction sa = {.sa_sigaction = look_at_mask, .sa_flags = SA_SIGINFO};
	struct sigaction old;

	sigemptyset(&sa.sa_mask);
	sigaddset(&sa.sa_mask, SIGUSR2);
	ck_assert_int_eq(sigaction(SIGSEGV, &sa, NULL), 0);
	init();
	ck_assert_int_eq(guard_sigaction(SIGSEGV, NULL, &old), 0);
	ck_assert(SANITIZED || old.sa_sigaction == look_at_mask);
	ck_assert(SANITIZED || old.sa_flags == SA_SIGINFO);
	ck_assert_int_eq(sigismember(&old.sa_mask, SIGUSR2), 1);
	ck_assert_int_eq(sigismember(&old.sa_mask, SIGUSR1), 0);
	if (!sigsetjmp(out, 1))
		*(volatile char *)(island() - 1) = 1;
	ck_assert_int_eq(seen, 1);
	ck_assert_int_eq(blocked_in_handler, 1);
}
END_TEST

START_TEST(a_handler_that_resets_is_called_once)
{
	struct sigaction old;

	set_action(SIGSEGV, action(on_plain, SA_RESETHAND));
	raise(SIGSEGV);
	ck_assert_int_eq(seen, 1);
	ck_assert_int_eq(guard_sigaction(SIGSEGV, NULL, &old), 0);
	ck_assert(old.sa_handler == SIG_DFL);
}
END_TEST

static void on_nested(int sig)
{
	sigset_t now;

	pthread_sigmask(SIG_BLOCK, NULL, &now);
	seen = sigismember(&now, SIGUSR2) | sigismember(&now, SIGSEGV) << 1;
}

START_TEST(mask_of_the_handler)
{
	struct sigaction sa = action(on_nested, 0);
	sigset_t now;

	sigaddset(&sa.sa_mask, SIGUSR2);
	set_action(SIGSEGV, sa);
	raise(SIGSEGV);
	ck_assert_int_eq(seen, 3);
	sa.sa_flags = SA_NODEFER;
	set_action(SIGSEGV, sa);
	raise(SIGSEGV);
	ck_assert_int_eq(seen, 1);
	/* restored after the handler */
	pthread_sigmask(SIG_BLOCK, NULL, &now);
	ck_assert(!sigismember(&now, SIGUSR2));
}
END_TEST

static uint8_t *repaired;

static void on_repair(int sig)
{
	seen++;
	mprotect(repaired, PAGE, PROT_READ | PROT_WRITE);
}

/* A handler that mends the page and returns, as garbage collectors have it */
START_TEST(handler_may_return)
{
	repaired = util_map(PAGE);
	mprotect(repaired, PAGE, PROT_NONE);
	set_action(SIGSEGV, action(on_repair, 0));
	*(volatile uint8_t *)repaired = 9;
	ck_assert_int_eq(seen, 1);
	ck_assert_uint_eq(*repaired, 9);
}
END_TEST

START_TEST(sent_and_ignored)
{
	set_action(SIGSEGV, action(SIG_IGN, 0));
	raise(SIGSEGV);
	kill(getpid(), SIGSEGV);
}
END_TEST

static struct sigaction before;

static void on_behind(int sig, siginfo_t *info, void *ctx)
{
	if (++seen > 5)
		_exit(1);
	before.sa_sigaction(sig, info, ctx);
}

/* Installed past the guard, with the guard's handler to go on to: no endless round */
START_TEST(behind_our_back_kills)
{
	struct sigaction sa = {.sa_sigaction = on_behind, .sa_flags = SA_SIGINFO};

	ck_assert_int_eq(sigaction(SIGSEGV, &sa, &before), 0);
	ck_assert_int_eq(guard_init(), 0);
	*(volatile uint8_t *)(island() + PAGE) = 1;
}
END_TEST

/* These end in death by the signal. */
/* @guarded: the file is the library's own while it is cut short */
static void cut_file(bool guarded)
{
	int fd = memfd_create("guard", MFD_CLOEXEC);
	volatile uint8_t *p;

	ck_assert_int_eq(ftruncate(fd, 2 * PAGE), 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	p[0] = p[PAGE] = 7;
	guard_file((void *)p, 2 * PAGE,
		   "the file was cut short, as this test wants it\n");
	ck_assert_uint_eq(p[PAGE], 7);
	ck_assert_int_eq(ftruncate(fd, 0), 0);
	if (!guarded)
		guard_file(NULL, 0, NULL);
	ck_assert_uint_eq(p[PAGE], 0);
	ck_assert_uint_eq(p[0], 0);
	p[0] = 5;
	ck_assert_uint_eq(p[0], 5);
	close(fd);
}

START_TEST(own_file_cut_short)
{
	cut_file(true);
}
END_TEST

START_TEST(file_no_longer_own_kills)
{
	cut_file(false);
}
END_TEST

START_TEST(default_fault_kills)
{
	*(volatile uint8_t *)island() = 1;
	*(volatile uint8_t *)(island() + PAGE) = 1;
}
END_TEST

START_TEST(default_sent_kills)
{
	raise(SIGSEGV);
}
END_TEST

START_TEST(ignored_fault_kills)
{
	set_action(SIGSEGV, action(SIG_IGN, 0));
	*(volatile uint8_t *)(island() + PAGE) = 1;
}
END_TEST

START_TEST(default_bus_kills)
{
	int fd = memfd_create("guard", MFD_CLOEXEC);
	volatile uint8_t *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);

	seen = *p;
}
END_TEST

int main(void)
{
	Suite *s = suite_create("guard");
	TCase *tc = tcase_create("guard");

	tcase_add_checked_fixture(tc, init, NULL);
	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, copies_like_memcpy);
	tcase_add_test(tc, holes_are_efault);
	tcase_add_loop_test(tc, the_last_byte_is_stored_last, 0, FORMS);
	tcase_add_loop_test(tc, each_form_copies_each_length_to_each_place, 0, FORMS);
	tcase_add_test(tc, protection_is_efault);
	tcase_add_test(tc, end_of_file_is_efault);
	tcase_add_test(tc, atomics_do_their_work);
	tcase_add_test(tc, blocked_signals_do_not_kill);
	tcase_add_test(tc, handler_gets_its_own_faults);
	tcase_add_test(tc, left_blocked_by_longjmp);
	tcase_add_test(tc, old_action_is_the_applications);
	tcase_add_test(tc, others_are_adopted);
	tcase_add_test(tc, mask_of_an_adopted_handler);
	tcase_add_test(tc, a_handler_that_resets_is_called_once);
	tcase_add_test(tc, mask_of_the_handler);
	tcase_add_test(tc, handler_may_return);
	tcase_add_test(tc, sent_and_ignored);
	tcase_add_test(tc, own_file_cut_short);
	/* A sanitizer's own handler was there first and makes a report of these. */
	if (!SANITIZED) {
		tcase_add_test_raise_signal(tc, default_fault_kills, SIGSEGV);
		tcase_add_test_raise_signal(tc, default_sent_kills, SIGSEGV);
		tcase_add_test_raise_signal(tc, ignored_fault_kills, SIGSEGV);
		tcase_add_test_raise_signal(tc, default_bus_kills, SIGBUS);
		tcase_add_test_raise_signal(tc, file_no_longer_own_kills, SIGBUS);
		tcase_add_test_raise_signal(tc, behind_our_back_kills, SIGSEGV);
	}
	suite_add_tcase(s, tc);
	return util_run(s);
}
