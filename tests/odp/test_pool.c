/*
 * Description: the threads that wait for pages: as many as there are jobs, up to their bound; jobs
 * that wait for one come in order, and one that is taken back leaves the others in it.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "odp/guard.h"
#include "odp/internal.h"
#include "odp/pool.h"
#include "tests/odp/util.h"

#define MANY 200

/* struct work - a job, and what it waits for */
struct work {
	struct odp_job job;
	sem_t *until;
	uintptr_t page;
	int result;
};

static struct pool pool;
static sem_t begun, done, go;
static struct work work[MANY];
/* in the order in which they ran */
static _Atomic unsigned int n_ran;
static struct work *ran[MANY];

static void run(struct odp_job *job)
{
	struct work *w = (struct work *)job;

	ran[n_ran++] = w;
	sem_post(&begun);
	if (w->until)
		while (sem_wait(w->until))
			;
	if (w->page)
		w->result = pool_fetch(w->page, PAGE, PAGE, true, &job->cancelled);
	sem_post(&done);
}

static void setup(void)
{
	ck_assert_int_eq(guard_init(), 0);
	pool_init(&pool);
	sem_init(&begun, 0, 0);
	sem_init(&done, 0, 0);
	sem_init(&go, 0, 0);
}

static struct odp_job *submit(unsigned int i, sem_t *until)
{
	work[i].job.run = run;
	work[i].until = until;
	ck_assert_int_eq(pool_submit(&pool, &work[i].job), 0);
	return &work[i].job;
}

static void wait_for(sem_t *s, unsigned int n)
{
	while (n)
		if (!sem_wait(s))
			n--;
}

static unsigned int idle_threads(void)
{
	unsigned int n;

	lock_take(&pool.lock);
	n = pool.idle;
	lock_release(&pool.lock);
	return n;
}

START_TEST(a_thread_that_is_idle_is_used_again)
{
	for (unsigned int i = 0; i < 20; i++) {
		submit(i, NULL);
		wait_for(&done, 1);
		while (idle_threads() != 1)
			usleep(100);
	}
	ck_assert_uint_eq(pool.n, 1);
	/* of two at once one needs another */
	submit(20, &go);
	submit(21, NULL);
	wait_for(&done, 1);
	ck_assert_uint_eq(pool.n, 2);
	sem_post(&go);
	wait_for(&done, 1);
	pool_fini(&pool);
}
END_TEST

START_TEST(jobs_that_wait_for_a_thread_come_in_order)
{
	static const unsigned int taken_back[] = {0, 3, 4, 9};
	struct odp_job *waiting[10];
	bool back[10] = {false};
	unsigned int at = POOL_THREADS;

	for (unsigned int i = 0; i < POOL_THREADS; i++)
		submit(i, &go);
	wait_for(&begun, POOL_THREADS);
	for (unsigned int i = 0; i < 10; i++)
		waiting[i] = submit(POOL_THREADS + i, NULL);
	ck_assert_uint_eq(pool.n, POOL_THREADS);
	/* the first, the last, two in a row; once each */
	for (unsigned int i = 0; i < 4; i++) {
		ck_assert(pool_cancel(&pool, waiting[taken_back[i]]));
		ck_assert(!pool_cancel(&pool, waiting[taken_back[i]]));
		back[taken_back[i]] = true;
		memset(waiting[taken_back[i]], 0xa5, sizeof(*waiting[0]));
	}
	/* behind what was the last one */
	submit(POOL_THREADS + 10, NULL);
	ck_assert_uint_eq(n_ran, POOL_THREADS);
	sem_post(&go); /* one thread does all of them */
	wait_for(&done, 8);
	for (unsigned int i = 0; i < 10; i++)
		if (!back[i])
			ck_assert_ptr_eq(ran[at++], &work[POOL_THREADS + i]);
	ck_assert_ptr_eq(ran[at++], &work[POOL_THREADS + 10]);
	ck_assert_uint_eq(at, n_ran);
	/* the queue is empty, and goes on being one */
	submit(POOL_THREADS + 11, NULL);
	wait_for(&done, 1);
	for (unsigned int i = 1; i < POOL_THREADS; i++)
		sem_post(&go);
	wait_for(&done, POOL_THREADS - 1);
	pool_fini(&pool);
}
END_TEST

START_TEST(pages_are_touched_or_cannot_be)
{
	char *p = util_map(3 * PAGE);
	_Atomic bool cancelled = false;

	ck_assert_int_eq(pool_fetch((uintptr_t)p, 3 * PAGE, PAGE, true, &cancelled), 0);
	munmap(p + 2 * PAGE, PAGE);
	ck_assert_int_eq(pool_fetch((uintptr_t)p, 2 * PAGE, PAGE, true, &cancelled), 0);
	ck_assert_int_eq(pool_fetch((uintptr_t)p, 3 * PAGE, PAGE, true, &cancelled),
			 -EFAULT);
	mprotect(p, PAGE, PROT_READ);
	ck_assert_int_eq(pool_fetch((uintptr_t)p, PAGE, PAGE, true, &cancelled), -EFAULT);
	ck_assert_int_eq(pool_fetch((uintptr_t)p, PAGE, PAGE, false, &cancelled), 0);
	cancelled = true;
	ck_assert_int_eq(pool_fetch((uintptr_t)p, PAGE, PAGE, false, &cancelled),
			 -ECANCELED);
	pool_fini(&pool);
}
END_TEST

/* --- pages that somebody must give -------------------------------------------------- */

static int ufd;

/* A page that nobody has yet; 0: not here */
static uintptr_t missing_page(void)
{
	char *p = util_map(PAGE);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register r = {.range = {.start = (uintptr_t)p, .len = PAGE},
				    .mode = UFFDIO_REGISTER_MODE_MISSING};

	ufd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1);
	if (ufd >= 0 && !ioctl(ufd, UFFDIO_API, &api) && !ioctl(ufd, UFFDIO_REGISTER, &r))
		return (uintptr_t)p;
	printf("no userfaultfd here: skipped\n");
	return 0;
}

static void wait_fault(void)
{
	struct pollfd p = {.fd = ufd, .events = POLLIN};
	struct uffd_msg m;

	ck_assert_int_eq(poll(&p, 1, 10000), 1);
	ck_assert_int_eq(read(ufd, &m, sizeof(m)), sizeof(m));
}

static void give(uintptr_t page)
{
	struct uffdio_zeropage z = {.range = {.start = page, .len = PAGE}};

	ck_assert_int_eq(ioctl(ufd, UFFDIO_ZEROPAGE, &z), 0);
}

/* The signal that ends a wait may be late, and come to the job behind the one that it was for. */
START_TEST(a_signal_for_another_job_says_nothing)
{
	struct odp_job *job;

	work[0].page = missing_page();
	if (!work[0].page)
		return;
	job = submit(0, NULL);
	wait_fault();
	ck_assert(!pool_cancel(&pool, job)); /* nobody said that it is cancelled */
	wait_fault();
	give(work[0].page);
	wait_for(&done, 1);
	ck_assert_int_eq(work[0].result, 0);
	pool_fini(&pool);
}
END_TEST

START_TEST(a_job_that_waits_is_cancelled)
{
	struct odp_job *job;

	work[0].page = missing_page();
	if (!work[0].page)
		return;
	job = submit(0, NULL);
	wait_fault();
	job->cancelled = true;
	ck_assert(!pool_cancel(&pool, job));
	wait_for(&done, 1);
	ck_assert_int_eq(work[0].result, -ECANCELED);
	pool_fini(&pool);
}
END_TEST

/* Where no thread is left, one that waits for what nobody wants any more is reminded. */
START_TEST(a_thread_whose_job_nobody_wants_is_freed)
{
	work[0].page = missing_page();
	if (!work[0].page)
		return;
	for (unsigned int i = 0; i < POOL_THREADS; i++)
		submit(i, i ? &go : NULL);
	wait_for(&begun, POOL_THREADS);
	wait_fault();
	work[0].job.cancelled = true;
	submit(POOL_THREADS, NULL);
	wait_for(&done, 2);
	ck_assert_int_eq(work[0].result, -ECANCELED);
	for (unsigned int i = 1; i < POOL_THREADS; i++)
		sem_post(&go);
	wait_for(&done, POOL_THREADS - 1);
	pool_fini(&pool);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("pool");
	TCase *tc = tcase_create("pool");

	tcase_set_timeout(tc, 30);
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, a_thread_that_is_idle_is_used_again);
	tcase_add_test(tc, jobs_that_wait_for_a_thread_come_in_order);
	tcase_add_test(tc, pages_are_touched_or_cannot_be);
	tcase_add_test(tc, a_signal_for_another_job_says_nothing);
	tcase_add_test(tc, a_job_that_waits_is_cancelled);
	tcase_add_test(tc, a_thread_whose_job_nobody_wants_is_freed);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	return util_run(suite());
}
