/*
 * Description: a program with its own handlers of SIGSEGV and SIGBUS. It gets its own
 * faults, all of them, and none of the device's.
 */
#include "lab.h"

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* A sanitizer has handlers of its own in place of the default. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DEFAULT_ACTION 0
#else
#define DEFAULT_ACTION 1
#endif

static struct lab l;
static __thread sigjmp_buf back;
static __thread volatile bool expecting;
static _Atomic unsigned int caught, wrong;
static __thread void *volatile at;

static void on_fault(int sig, siginfo_t *info, void *context)
{
	if (!expecting) {
		wrong++;
		_exit(99);
	}
	at = info->si_addr;
	caught++;
	siglongjmp(back, 1);
}

static void on_fault_plain(int sig)
{
	if (!expecting)
		_exit(99);
	caught++;
	siglongjmp(back, 1);
}

static void install(int sig, int flags)
{
	struct sigaction sa = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | flags};

	ck_assert_int_eq(sigaction(sig, &sa, NULL), 0);
}

/* The program reads where it must not. */
static void fault_at(volatile char *p)
{
	unsigned int before = caught;

	if (sigsetjmp(back, 1) == 0) {
		expecting = true;
		(void)*p;
	}
	expecting = false;
	ck_assert_uint_gt(caught, before);
}

static struct ibv_mr *mr, *pinned;
static char *mem, *buf, *nowhere;

static void begin(void)
{
	lab_begin(&l);
	mem = lab_map(4);
	buf = lab_map(4);
	nowhere = lab_map(1);
	ck_assert_int_eq(mprotect(nowhere, LAB_PAGE, PROT_NONE), 0);
	pinned = lab_reg(&l, buf, 4 * LAB_PAGE, LAB_ACCESS);
	mr = lab_reg(&l, mem, 4 * LAB_PAGE, LAB_ODP);
}

static void end(void)
{
	ibv_dereg_mr(mr);
	ibv_dereg_mr(pinned);
	lab_close(&l);
}

/* The device faults, which is an error of the request and nothing else. */
static void device_faults(void)
{
	ck_assert_int_eq(lab_read(&l, pinned, buf, mr, mem, LAB_PAGE), IBV_WC_SUCCESS);
	/* not seen by the library: only the guard can notice */
	ck_assert_int_eq(mprotect(mem, LAB_PAGE, PROT_NONE), 0);
	ck_assert_int_eq(lab_read(&l, pinned, buf, mr, mem, LAB_PAGE),
			 IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(mprotect(mem, LAB_PAGE, PROT_READ | PROT_WRITE), 0);
	lab_connect(&l);
}

static void both(void)
{
	for (int i = 0; i < 50; i++) {
		device_faults();
		fault_at(nowhere);
		ck_assert_ptr_eq(at, nowhere);
	}
	ck_assert_uint_eq(caught, 50);
}

START_TEST(handler_before_the_device)
{
	install(SIGSEGV, 0);
	begin();
	both();
	end();
}
END_TEST

START_TEST(handler_after_the_device)
{
	begin();
	device_faults();
	install(SIGSEGV, 0);
	both();
	end();
}
END_TEST

START_TEST(a_handler_may_have_a_stack_of_its_own)
{
	stack_t st = {.ss_size = 65536, .ss_sp = malloc(65536)};

	begin();
	ck_assert_int_eq(sigaltstack(&st, NULL), 0);
	install(SIGSEGV, SA_ONSTACK);
	both();
	end();
}
END_TEST

START_TEST(plain_handlers_are_called)
{
	struct sigaction old;

	begin();
	ck_assert(signal(SIGSEGV, on_fault_plain) == SIG_DFL);
	device_faults();
	fault_at(nowhere);
	ck_assert_int_eq(sigaction(SIGSEGV, NULL, &old), 0);
	ck_assert(old.sa_handler == on_fault_plain && !(old.sa_flags & SA_SIGINFO));
	ck_assert(signal(SIGSEGV, SIG_DFL) == on_fault_plain);
	device_faults();
	end();
}
END_TEST

/* SIGBUS: beyond the end of a file */
START_TEST(bus_errors_reach_the_program)
{
	int fd = memfd_create("bus", MFD_CLOEXEC);
	struct ibv_mr *file_mr;
	char *p;

	begin();
	install(SIGBUS, 0);
	ck_assert_int_eq(ftruncate(fd, 2 * LAB_PAGE), 0);
	p = mmap(NULL, 2 * LAB_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	file_mr = lab_reg(&l, p, 2 * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(lab_read(&l, pinned, buf, file_mr, p, 2 * LAB_PAGE),
			 IBV_WC_SUCCESS);
	ck_assert_int_eq(ftruncate(fd, LAB_PAGE), 0);
	ck_assert_int_eq(lab_read(&l, pinned, buf, file_mr, p + LAB_PAGE, 8),
			 IBV_WC_REM_ACCESS_ERR);
	fault_at(p + LAB_PAGE);
	ck_assert_uint_eq(caught, 1);
	ibv_dereg_mr(file_mr);
	end();
}
END_TEST

/* A thread that blocks all signals, as many programs have it */
START_TEST(a_thread_may_block_all_signals)
{
	sigset_t all;

	begin();
	install(SIGSEGV, 0);
	sigfillset(&all);
	ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &all, NULL), 0);
	for (int i = 0; i < 20; i++)
		device_faults();
	ck_assert_uint_eq(caught, 0);
	end();
}
END_TEST

static _Atomic bool stop;

static void *faulting_thread(void *arg)
{
	while (!stop)
		fault_at(nowhere);
	return NULL;
}

START_TEST(many_threads_may_fault_at_once)
{
	pthread_t t[4];

	begin();
	install(SIGSEGV, 0);
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, faulting_thread, NULL), 0);
	for (int i = 0; i < 200; i++)
		device_faults();
	stop = true;
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_gt(caught, 100);
	ck_assert_uint_eq(wrong, 0);
	end();
}
END_TEST

static void *installing_thread(void *arg)
{
	struct sigaction act = {.sa_handler = SIG_DFL};

	while (!stop)
		sigaction(SIGBUS, &act, NULL);
	return NULL;
}

/* How a child ends; one that hangs is killed (it may have all signals blocked) */
static int ends(pid_t pid)
{
	int status;

	for (int i = 0; i < 2000; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		usleep(i < 100 ? 100 : 10000);
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return status;
}

/* Another thread is in the middle of sigaction(2) at the fork: the child can call it. */
START_TEST(fork_while_others_install)
{
	struct sigaction act = {.sa_handler = SIG_DFL};
	pthread_t t[2];
	pid_t pid;

	begin();
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, installing_thread, NULL), 0);
	for (int i = 0; i < 200; i++) {
		pid = fork();
		if (!pid) {
			sigaction(SIGBUS, &act, NULL);
			_exit(0);
		}
		ck_assert_int_eq(ends(pid), 0);
	}
	stop = true;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	device_faults();
	end();
}
END_TEST

/* Without a handler, a program's own fault ends it, as ever. */
START_TEST(own_fault_kills)
{
	begin();
	device_faults();
	(void)*(volatile char *)nowhere;
}
END_TEST

int main(void)
{
	Suite *s = suite_create("signals");
	TCase *tc = tcase_create("all");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, handler_before_the_device);
	tcase_add_test(tc, handler_after_the_device);
	tcase_add_test(tc, a_handler_may_have_a_stack_of_its_own);
	if (DEFAULT_ACTION)
		tcase_add_test(tc, plain_handlers_are_called);
	tcase_add_test(tc, bus_errors_reach_the_program);
	tcase_add_test(tc, a_thread_may_block_all_signals);
	tcase_add_test(tc, many_threads_may_fault_at_once);
	tcase_add_test(tc, fork_while_others_install);
	if (DEFAULT_ACTION)
		tcase_add_test_raise_signal(tc, own_fault_kills, SIGSEGV);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
