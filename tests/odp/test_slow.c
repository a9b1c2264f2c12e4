/*
 * test_slow.c - faults whose pages somebody must be waited for: the access that needs them
 * waits, whoever comes meanwhile does not.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "odp/internal.h"
#include "tests/odp/sim_os.h"

static struct sim_os *os;
static struct odp_domain *dom;
static struct odp_mr *mr;
static unsigned int told;

static void tell(void *arg)
{
	__atomic_fetch_add(&told, 1, __ATOMIC_SEQ_CST);
}

static void begin(struct odp_config cfg, size_t pages)
{
	os = sim_new();
	told = 0;
	ck_assert_int_eq(odp_domain_create(&cfg, &sim_ops, os, &dom), 0);
	odp_domain_tell(dom, tell, NULL);
	mr = util_mr(dom, sim_page(0), pages * PAGE, true);
}

static void end(void)
{
	odp_mr_put(mr);
	odp_domain_destroy(dom);
	free(os);
}

static int write_to(unsigned int page, size_t len, struct odp_waiter *w,
		    struct odp_access *acc)
{
	static const uint8_t buf[64 * PAGE];

	*acc = (struct odp_access){.now = acc->now, .ahead = acc->ahead, .waiter = w};
	return odp_write(mr, (uintptr_t)sim_page(page), buf, len, acc);
}

static void slow_pages(unsigned int first, unsigned int n)
{
	memset(&os->slow[first], true, n);
}

/* --- with jobs that the test runs ------------------------------------------------- */

START_TEST(waits_until_resolved)
{
	struct odp_access acc = {.now = 5};
	struct odp_waiter w = {0};

	begin((struct odp_config){0}, 16);
	slow_pages(3, 1);
	ck_assert_int_eq(write_to(3, 8, &w, &acc), -EAGAIN);
	ck_assert(acc.faulted);
	ck_assert(acc.ready_at == ODP_WHEN_RESOLVED);
	ck_assert_int_eq(acc.model, ODP_FAULT_SYNC);
	ck_assert_uint_eq(os->populates, 0);
	ck_assert_uint_eq(os->jobs, 1);
	/* asking again changes nothing, other pages have nothing to do with it */
	ck_assert_int_eq(write_to(3, 8, &w, &acc), -EAGAIN);
	ck_assert(!acc.faulted);
	ck_assert_uint_eq(os->jobs, 1);
	ck_assert_int_eq(write_to(4, 8, NULL, &acc), 0);
	ck_assert_ptr_null(odp_resolved(dom));
	ck_assert_uint_eq(told, 0);

	sim_run_job(os, 0);
	ck_assert_uint_eq(told, 1);
	ck_assert_ptr_eq(odp_resolved(dom), &w);
	ck_assert_ptr_null(odp_resolved(dom));
	ck_assert(!w.linked);
	acc.now = 25;
	ck_assert_int_eq(write_to(3, 8, &w, &acc), 0);
	ck_assert(!acc.faulted);
	ck_assert_uint_eq(util_faults(mr), 2);
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 2);
	ck_assert_uint_ge(util_counters(mr).fault_ns, 20);
	end();
}
END_TEST

/* Each job wakes those who wait for it, all of them, and nobody else. */
START_TEST(wakes_exactly_who_waits)
{
	struct odp_access acc = {0};
	struct odp_waiter w[3] = {0}, *first, *second;

	begin((struct odp_config){0}, 16);
	slow_pages(0, 16);
	ck_assert_int_eq(write_to(1, 8, &w[0], &acc), -EAGAIN);
	ck_assert_int_eq(write_to(9, 8, &w[1], &acc), -EAGAIN);
	ck_assert_int_eq(write_to(1, 8, &w[2], &acc), -EAGAIN);
	ck_assert_uint_eq(os->jobs, 2);
	sim_run_job(os, 1);
	ck_assert_ptr_eq(odp_resolved(dom), &w[1]);
	ck_assert_ptr_null(odp_resolved(dom));
	sim_run_job(os, 0);
	first = odp_resolved(dom);
	second = odp_resolved(dom);
	ck_assert(first != second && first != &w[1] && second != &w[1]);
	ck_assert_ptr_null(odp_resolved(dom));
	end();
}
END_TEST

/* One who does not wait any more, or waits for something else by now, is not told. */
START_TEST(a_waiter_may_leave)
{
	struct odp_access acc = {0};
	struct odp_waiter w = {0}, v = {0};

	begin((struct odp_config){0}, 16);
	slow_pages(0, 16);
	ck_assert_int_eq(write_to(1, 8, &w, &acc), -EAGAIN);
	ck_assert_int_eq(write_to(1, 8, &v, &acc), -EAGAIN);
	ck_assert_int_eq(write_to(9, 8, &w, &acc), -EAGAIN);
	odp_unwait(dom, &v);
	odp_unwait(dom, &v);
	sim_run_job(os, 0);
	ck_assert_ptr_null(odp_resolved(dom));
	sim_run_job(os, 0);
	/* told, but not yet taken */
	odp_unwait(dom, &w);
	ck_assert_ptr_null(odp_resolved(dom));
	end();
}
END_TEST

/* Memory that turns out not to be there fails the access, and the rest goes on. */
START_TEST(failure_comes_to_the_access)
{
	struct odp_access acc = {0};
	struct odp_waiter w = {0};

	begin((struct odp_config){0}, 16);
	slow_pages(2, 1);
	ck_assert_int_eq(write_to(2, 8, &w, &acc), -EAGAIN);
	os->prot[2] = SIM_NONE;
	sim_run_job(os, 0);
	ck_assert_ptr_eq(odp_resolved(dom), &w);
	ck_assert_int_eq(write_to(2, 8, &w, &acc), -EFAULT);
	ck_assert_uint_eq(util_counters(mr).failed_faults, 1);
	ck_assert_int_eq(write_to(3, 8, &w, &acc), 0);
	end();
}
END_TEST

/* What was not there when it was looked for is a failure, though it has come since. */
START_TEST(a_failure_is_of_its_time)
{
	struct odp_access acc = {0};
	struct odp_waiter w = {0};

	begin((struct odp_config){0}, 16);
	slow_pages(2, 1);
	ck_assert_int_eq(write_to(2, 8, &w, &acc), -EAGAIN);
	os->prot[2] = SIM_NONE;
	sim_run_job(os, 0);
	os->prot[2] = os->prot[3];
	os->slow[2] = false;
	ck_assert_int_eq(write_to(2, 8, &w, &acc), -EFAULT);
	ck_assert_uint_eq(util_counters(mr).failed_faults, 1);
	ck_assert_int_eq(write_to(2, 8, &w, &acc), 0);
	odp_unwait(dom, &w);
	end();
}
END_TEST

/* The rest of the operation comes with the fault, and does not fail it. */
START_TEST(rest_of_the_operation_comes_along)
{
	struct odp_access acc = {.ahead = 7 * PAGE};
	struct odp_waiter w = {0};

	begin((struct odp_config){0}, 16);
	slow_pages(0, 16);
	ck_assert_int_eq(write_to(2, PAGE, &w, &acc), -EAGAIN);
	sim_run_job(os, 0);
	ck_assert_ptr_eq(odp_resolved(dom), &w);
	ck_assert_int_eq(write_to(2, PAGE, &w, &acc), 0);
	ck_assert_int_eq(write_to(9, PAGE, &w, &acc), 0);
	ck_assert_uint_eq(util_faults(mr), 1);
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 8);

	/* only the rest takes long: the access need not wait for it */
	odp_invalidate(dom, SIM_BASE, 16 * PAGE, TRACE_INVAL_CALL);
	slow_pages(5, 1);
	acc.ahead = 7 * PAGE;
	ck_assert_int_eq(write_to(2, PAGE, &w, &acc), 0);
	ck_assert_uint_eq(os->jobs, 1);
	sim_run_job(os, 0);
	ck_assert_ptr_null(odp_resolved(dom));
	ck_assert_int_eq(write_to(9, PAGE, &w, &acc), 0);
	ck_assert_uint_eq(util_faults(mr), 2);

	/* the rest is not there */
	odp_invalidate(dom, SIM_BASE, 16 * PAGE, TRACE_INVAL_CALL);
	slow_pages(2, 1);
	os->prot[5] = SIM_NONE;
	acc.ahead = 7 * PAGE;
	ck_assert_int_eq(write_to(2, PAGE, &w, &acc), -EAGAIN);
	sim_run_job(os, 0);
	ck_assert_int_eq(write_to(2, PAGE, &w, &acc), 0);
	end();
}
END_TEST

/* What is unmapped meanwhile is not waited for: the next access sees what is there now. */
START_TEST(invalidation_ends_the_wait)
{
	struct odp_access acc = {0};
	struct odp_waiter w = {0};

	begin((struct odp_config){0}, 16);
	slow_pages(2, 1);
	ck_assert_int_eq(write_to(2, 8, &w, &acc), -EAGAIN);
	/* its neighbours have nothing to do with it */
	odp_invalidate(dom, SIM_BASE + 3 * PAGE, PAGE, TRACE_INVAL_CALL);
	odp_invalidate(dom, SIM_BASE + PAGE, PAGE, TRACE_INVAL_CALL);
	ck_assert_uint_eq(told, 0);
	ck_assert_ptr_null(odp_resolved(dom));
	ck_assert(!os->job[0]->cancelled);
	odp_invalidate(dom, SIM_BASE + 2 * PAGE, PAGE, TRACE_INVAL_CALL);
	ck_assert(os->job[0]->cancelled); /* its thread is wanted for others */
	ck_assert_uint_eq(told, 1);
	ck_assert_ptr_eq(odp_resolved(dom), &w);
	os->slow[2] = false; /* other memory */
	ck_assert_int_eq(write_to(2, 8, &w, &acc), 0);
	/* the late end of the job changes nothing */
	sim_run_job(os, 0);
	ck_assert_ptr_null(odp_resolved(dom));
	ck_assert_uint_eq(util_counters(mr).pages_faulted, 1);
	end();
}
END_TEST

/* An MR goes away: queued jobs are dropped, and nobody waits for those of another MR. */
START_TEST(quiesce_takes_its_own_jobs_only)
{
	struct odp_access acc = {0};
	struct odp_waiter w = {0}, v = {0};
	struct odp_mr *other;

	begin((struct odp_config){0}, 16);
	other = util_mr(dom, sim_page(20), PAGE, true);
	slow_pages(0, 32);
	ck_assert_int_eq(write_to(2, 8, &w, &acc), -EAGAIN);
	acc.waiter = &v;
	ck_assert_int_eq(odp_write(other, (uintptr_t)sim_page(20), "x", 1, &acc),
			 -EAGAIN);
	odp_mr_quiesce(mr);
	ck_assert_uint_eq(os->jobs, 1);
	ck_assert_ptr_eq(odp_resolved(dom), &w);
	ck_assert_ptr_null(odp_resolved(dom));
	sim_run_job(os, 0);
	ck_assert_ptr_eq(odp_resolved(dom), &v);
	odp_mr_put(other);
	end();
}
END_TEST

/* The last reference may be that of a job. */
START_TEST(mr_outlives_its_jobs)
{
	struct odp_access acc = {0};
	struct odp_mr *other;

	begin((struct odp_config){0}, 16);
	other = util_mr(dom, sim_page(20), PAGE, true);
	slow_pages(0, 32);
	ck_assert_int_eq(odp_write(other, (uintptr_t)sim_page(20), "x", 1, &acc),
			 -EAGAIN);
	odp_mr_put(other);
	sim_run_job(os, 0);
	end();
}
END_TEST

/* With a model and a latency the page is fetched when the time has come. */
START_TEST(models_come_first)
{
	struct odp_access acc = {.now = 100};
	struct odp_waiter w = {0};

	begin((struct odp_config){.model = ODP_FAULT_RNR, .latency = 50}, 16);
	slow_pages(2, 1);
	ck_assert_int_eq(write_to(2, 8, &w, &acc), -EAGAIN);
	ck_assert_uint_eq(acc.ready_at, 150);
	ck_assert_uint_eq(os->jobs, 0);
	acc.now = 150;
	ck_assert_int_eq(write_to(2, 8, &w, &acc), -EAGAIN);
	ck_assert(acc.ready_at == ODP_WHEN_RESOLVED);
	ck_assert_int_eq(acc.model, ODP_FAULT_RNR);
	sim_run_job(os, 0);
	ck_assert_ptr_eq(odp_resolved(dom), &w);
	acc.now = 400;
	ck_assert_int_eq(write_to(2, 8, &w, &acc), 0);
	ck_assert_uint_eq(util_faults(mr), 1);
	ck_assert_uint_eq(util_counters(mr).fault_ns, 301); /* and the clock's one */
	end();
}
END_TEST

/* The job was through at its time, whoever comes when. */
START_TEST(time_of_a_job)
{
	struct odp_access acc = {.now = 1000};

	begin((struct odp_config){0}, 16);
	slow_pages(2, 1);
	ck_assert_int_eq(write_to(2, 8, NULL, &acc), -EAGAIN);
	os->now = 3000;
	sim_run_job(os, 0);
	acc.now = 900000;
	ck_assert_int_eq(write_to(2, 8, NULL, &acc), 0);
	ck_assert_uint_eq(util_counters(mr).fault_ns, 2001);
	end();
}
END_TEST

/* Nobody can wait for it but the caller. */
START_TEST(no_place_to_wait)
{
	struct odp_access acc = {0};

	begin((struct odp_config){0}, 16);
	os->full = true;
	slow_pages(2, 1);
	ck_assert_int_eq(write_to(2, 8, NULL, &acc), -EAGAIN);
	ck_assert_int_eq(write_to(2, 8, NULL, &acc), 0);
	end();
}
END_TEST

START_TEST(prefetch_goes_on_beside_it)
{
	begin((struct odp_config){0}, 64);
	slow_pages(3, 1);
	ck_assert_int_eq(
	    odp_prefetch_async(mr, (uintptr_t)sim_page(0), 8 * PAGE, ODP_PREFETCH_WRITE),
	    0);
	ck_assert_int_eq(
	    odp_prefetch_async(mr, (uintptr_t)sim_page(20), 8 * PAGE, ODP_PREFETCH_WRITE),
	    0);
	while (util_counters(mr).pages_prefetched < 8)
		usleep(100);
	ck_assert_uint_eq(os->jobs, 1);
	sim_run_job(os, 0);
	odp_prefetch_drain(dom);
	ck_assert_uint_eq(util_counters(mr).pages_prefetched, 16);
	end();
}
END_TEST

/* --- pages that went away ---------------------------------------------------------- */

/* A page that the table has is not there any more: a fault as any other. */
START_TEST(page_of_the_table_is_away)
{
	struct odp_access acc = {.now = 5};
	struct odp_waiter w = {0};

	begin((struct odp_config){0}, 16);
	ck_assert_int_eq(write_to(3, 8, NULL, &acc), 0);
	os->away[3] = 1;
	slow_pages(3, 1);
	ck_assert_int_eq(write_to(3, 8, &w, &acc), -EAGAIN);
	ck_assert(acc.ready_at == ODP_WHEN_RESOLVED);
	ck_assert_uint_eq(util_counters(mr).invalidations, 1);
	ck_assert_uint_eq(util_faults(mr), 2);
	sim_run_job(os, 0);
	ck_assert_ptr_eq(odp_resolved(dom), &w);
	ck_assert_int_eq(write_to(3, 8, &w, &acc), 0);
	ck_assert_uint_eq(util_faults(mr), 2);
	/* away, and back at once */
	os->away[3] = 1;
	ck_assert_int_eq(write_to(3, 8, &w, &acc), 0);
	ck_assert_uint_eq(os->jobs, 0);
	ck_assert_uint_eq(util_counters(mr).invalidations, 4);
	end();
}
END_TEST

/* Who looks is never sure: an access is made in the end. */
START_TEST(page_is_always_away)
{
	struct odp_access acc = {0};

	begin((struct odp_config){0}, 16);
	os->away[3] = 2;
	ck_assert_int_eq(write_to(3, 8, NULL, &acc), 0);
	ck_assert_int_eq(write_to(3, 8, NULL, &acc), 0);
	end();
}
END_TEST

static struct odp_mr *pinned_mr(unsigned int page, unsigned int pages)
{
	struct odp_mr_attr attr = {
	    .addr = (uintptr_t)sim_page(page),
	    .length = pages * PAGE,
	    .iova = (uintptr_t)sim_page(page),
	    .writable = true,
	};
	struct odp_mr *pinned;

	ck_assert_int_eq(odp_mr_create(dom, &attr, &pinned), 0);
	return pinned;
}

static int add_to(struct odp_mr *to, unsigned int page, struct odp_waiter *w)
{
	struct odp_access acc = {.waiter = w};
	uint64_t orig;

	return odp_fetch_add(to, (uintptr_t)sim_page(page), 1, &orig, &acc);
}

/* The kernel keeps no pinned pages for us: those that it took are waited for by who needs them. */
START_TEST(pinned_page_is_away)
{
	struct odp_access acc = {.ahead = 3 * PAGE};
	struct odp_waiter w = {0}, v = {0};
	struct odp_mr *pinned;
	uint8_t buf[2 * PAGE];

	begin((struct odp_config){.model = ODP_FAULT_RNR, .latency = 100}, 1);
	pinned = pinned_mr(20, 16);
	memset(&os->away[20], 1, 16);
	acc.waiter = &w;
	/* over the end of a page; the rest of the operation comes along */
	ck_assert_int_eq(odp_read(pinned, (uintptr_t)sim_page(21) + 100, buf, PAGE, &acc),
			 -EAGAIN);
	ck_assert(acc.ready_at == ODP_WHEN_RESOLVED);
	ck_assert_int_eq(acc.model, ODP_FAULT_SYNC);
	ck_assert(!acc.faulted);
	ck_assert_int_eq(odp_read(pinned, (uintptr_t)sim_page(21) + 100, buf, PAGE, &acc),
			 -EAGAIN);
	ck_assert_uint_eq(os->jobs, 1);
	/* a write there is not served by what a read waits for */
	ck_assert_int_eq(add_to(pinned, 22, &v), -EAGAIN);
	ck_assert_uint_eq(os->jobs, 2);
	sim_run_job(os, 0);
	ck_assert_ptr_eq(odp_resolved(dom), &w);
	ck_assert_ptr_null(odp_resolved(dom));
	ck_assert(os->away[20] && !os->away[21] && !os->away[25] && os->away[26]);
	ck_assert_int_eq(odp_read(pinned, (uintptr_t)sim_page(21) + 100, buf, PAGE, &acc),
			 0);
	sim_run_job(os, 0);
	ck_assert_ptr_eq(odp_resolved(dom), &v);
	ck_assert_int_eq(add_to(pinned, 22, &v), 0);
	ck_assert_int_eq(add_to(pinned, 22, &v), 0);
	ck_assert_uint_eq(os->jobs, 0);
	odp_mr_put(pinned);
	end();
}
END_TEST

/* What waits ends with the MR, or with memory that is not there any more. */
START_TEST(pinned_page_never_comes)
{
	struct odp_waiter w = {0};
	struct odp_mr *pinned;

	begin((struct odp_config){0}, 1);
	pinned = pinned_mr(20, 2);
	os->away[20] = os->away[21] = 1;
	ck_assert_int_eq(add_to(pinned, 20, &w), -EAGAIN);
	os->prot[20] = SIM_NONE;
	sim_run_job(os, 0);
	ck_assert_ptr_eq(odp_resolved(dom), &w);
	ck_assert_int_eq(add_to(pinned, 20, &w), -EFAULT);
	ck_assert_int_eq(add_to(pinned, 21, &w), -EAGAIN);
	odp_mr_quiesce(pinned);
	ck_assert_uint_eq(os->jobs, 0);
	ck_assert_ptr_eq(odp_resolved(dom), &w);
	odp_mr_put(pinned);
	end();
}
END_TEST

/* --- with the kernel -------------------------------------------------------------- */

static int ufd;
static char *mem;

/* A userfaultfd of the program on @len bytes at @p; skips the test where none can be had */
static bool own_uffd(void *p, size_t len)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register r = {
	    .range = {.start = (uintptr_t)p, .len = len},
	    .mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	ufd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
	return ufd >= 0 && !ioctl(ufd, UFFDIO_API, &api) &&
	       !ioctl(ufd, UFFDIO_REGISTER, &r);
}

static bool real_begin(size_t pages)
{
	struct odp_config cfg = {.uffd = true};

	told = 0;
	mem = util_map(pages * PAGE);
	if (!own_uffd(mem, pages * PAGE)) {
		printf("no userfaultfd here: skipped\n");
		return false;
	}
	ck_assert_int_eq(odp_domain_create(&cfg, NULL, NULL, &dom), 0);
	odp_domain_tell(dom, tell, NULL);
	mr = util_mr(dom, mem, pages * PAGE, true);
	return true;
}

static void real_end(size_t pages)
{
	odp_mr_put(mr);
	odp_domain_destroy(dom);
	close(ufd);
	munmap(mem, pages * PAGE);
}

static uintptr_t next_fault(void)
{
	struct pollfd p = {.fd = ufd, .events = POLLIN};
	struct uffd_msg m;

	ck_assert_int_eq(poll(&p, 1, 10000), 1);
	ck_assert_int_eq(read(ufd, &m, sizeof(m)), sizeof(m));
	ck_assert_int_eq(m.event, UFFD_EVENT_PAGEFAULT);
	return m.arg.pagefault.address & ~(PAGE - 1);
}

static void give_page(uintptr_t addr, char fill)
{
	static char page[PAGE] __attribute__((aligned(4096)));
	struct uffdio_copy c = {.dst = addr, .src = (uintptr_t)page, .len = PAGE};

	memset(page, fill, PAGE);
	ck_assert_int_eq(ioctl(ufd, UFFDIO_COPY, &c), 0);
}

static struct odp_waiter *wait_resolved(void)
{
	struct odp_waiter *w;

	while (!(w = odp_resolved(dom)))
		usleep(100);
	return w;
}

/*
 * The thread that accesses is the one that resolves: it comes back, and pages may be resolved
 * in any order.
 */
START_TEST(userfaultfd_handler_of_the_program)
{
	struct odp_access acc = {0};
	struct odp_waiter w[4] = {0};
	uintptr_t at[4];
	uint8_t b;

	if (!real_begin(8))
		return;
	for (int i = 0; i < 4; i++) {
		acc = (struct odp_access){.waiter = &w[i]};
		ck_assert_int_eq(
		    odp_read(mr, (uintptr_t)mem + (size_t)i * PAGE, &b, 1, &acc),
		    -EAGAIN);
	}
	for (int i = 0; i < 4; i++)
		at[i] = next_fault();
	for (int i = 3; i >= 0; i--) {
		size_t page = (at[i] - (uintptr_t)mem) / PAGE;

		give_page(at[i], (char)('a' + page));
		ck_assert_ptr_eq(wait_resolved(), &w[page]);
		ck_assert_int_eq(util_read(mr, mem + page * PAGE), 'a' + (int)page);
	}
	ck_assert_uint_eq(util_faults(mr), 4);
	real_end(8);
}
END_TEST

/* A fault that nobody ever resolves holds up neither the MR's end nor the domain's. */
START_TEST(fault_that_never_ends)
{
	struct odp_access acc = {0};
	struct odp_waiter w = {0};
	uint8_t b;

	if (!real_begin(200))
		return;
	acc.waiter = &w;
	/* more than there are threads: the last of them wait for one */
	for (unsigned int i = 0; i < 100; i++)
		ck_assert_int_eq(odp_read(mr, (uintptr_t)mem + i * PAGE, &b, 1, &acc),
				 -EAGAIN);
	next_fault();
	if (_i)
		odp_mr_quiesce(mr);
	real_end(200);
}
END_TEST

/* A range that is unmapped while it is waited for gives its thread back. */
START_TEST(unmapped_while_waited_for)
{
	struct odp_access acc = {0};
	struct odp_waiter w = {0};
	uint8_t b;

	if (!real_begin(200))
		return;
	acc.waiter = &w;
	for (unsigned int i = 0; i < 190; i++) {
		ck_assert_int_eq(odp_read(mr, (uintptr_t)mem + i * PAGE, &b, 1, &acc),
				 -EAGAIN);
		/* as the library has it of munmap(2); what is there then is plain */
		ck_assert_ptr_eq(mmap(mem + i * PAGE, PAGE, PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
				 mem + i * PAGE);
		odp_invalidate(dom, (uintptr_t)mem + i * PAGE, PAGE, TRACE_INVAL_CALL);
		ck_assert_ptr_eq(wait_resolved(), &w);
		ck_assert_int_eq(util_read(mr, mem + i * PAGE), 0);
	}
	/* there are threads left for one more */
	ck_assert_int_eq(odp_read(mr, (uintptr_t)mem + 195 * PAGE, &b, 1, &acc), -EAGAIN);
	while (next_fault() != (uintptr_t)mem + 195 * PAGE)
		;
	give_page((uintptr_t)mem + 195 * PAGE, 7);
	ck_assert_ptr_eq(wait_resolved(), &w);
	ck_assert_int_eq(util_read(mr, mem + 195 * PAGE), 7);
	real_end(200);
}
END_TEST

static void *give_all(void *arg)
{
	for (int i = 0; i < 8; i++)
		give_page(next_fault(), 3);
	return NULL;
}

/* A prefetch with FLUSH waits in its caller; one without waits beside the others. */
START_TEST(prefetch_of_slow_pages)
{
	pthread_t handler;

	if (!real_begin(16))
		return;
	ck_assert_int_eq(odp_prefetch_async(mr, (uintptr_t)mem, 4 * PAGE, ODP_PREFETCH),
			 0);
	ck_assert_int_eq(pthread_create(&handler, NULL, give_all, NULL), 0);
	ck_assert_int_eq(
	    odp_prefetch(mr, (uintptr_t)mem + 8 * PAGE, 4 * PAGE, ODP_PREFETCH_WRITE), 0);
	odp_prefetch_drain(dom);
	pthread_join(handler, NULL);
	ck_assert_uint_eq(util_counters(mr).pages_prefetched, 8);
	real_end(16);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("slow");
	TCase *tc = tcase_create("jobs");

	tcase_add_test(tc, waits_until_resolved);
	tcase_add_test(tc, wakes_exactly_who_waits);
	tcase_add_test(tc, a_waiter_may_leave);
	tcase_add_test(tc, failure_comes_to_the_access);
	tcase_add_test(tc, a_failure_is_of_its_time);
	tcase_add_test(tc, rest_of_the_operation_comes_along);
	tcase_add_test(tc, invalidation_ends_the_wait);
	tcase_add_test(tc, quiesce_takes_its_own_jobs_only);
	tcase_add_test(tc, mr_outlives_its_jobs);
	tcase_add_test(tc, models_come_first);
	tcase_add_test(tc, time_of_a_job);
	tcase_add_test(tc, no_place_to_wait);
	tcase_add_test(tc, prefetch_goes_on_beside_it);
	tcase_add_test(tc, page_of_the_table_is_away);
	tcase_add_test(tc, page_is_always_away);
	tcase_add_test(tc, pinned_page_is_away);
	tcase_add_test(tc, pinned_page_never_comes);
	suite_add_tcase(s, tc);
	tc = tcase_create("kernel");
	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, userfaultfd_handler_of_the_program);
	tcase_add_loop_test(tc, fault_that_never_ends, 0, 2);
	tcase_add_test(tc, unmapped_while_waited_for);
	tcase_add_test(tc, prefetch_of_slow_pages);
	suite_add_tcase(s, tc);
	return s;
}

int main(void)
{
	return util_run(suite());
}
