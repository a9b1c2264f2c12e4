/*
 * Description: page faults that the program itself has to resolve, by a userfaultfd handler
 * of its own: the request that needs the page waits, and nothing else does. The handler may
 * use the device.
 */
#include "lab.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define PAGES 16

/* @l has the request that waits, @m has nothing to do with it */
static struct lab l, m;
static struct ibv_mr *near, *far, *slow;
static char *pinned, *mem;
static int ufd = -1;

/* Nobody has the pages of @mem but the test. False: no userfaultfd here */
static bool missing_pages(void)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register r = {
	    .range = {.start = (uintptr_t)mem, .len = PAGES * LAB_PAGE},
	    .mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	ufd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (ufd >= 0 && !ioctl(ufd, UFFDIO_API, &api) && !ioctl(ufd, UFFDIO_REGISTER, &r))
		return true;
	printf("no userfaultfd here: skipped\n");
	return false;
}

static bool begin(void)
{
	pinned = lab_map(PAGES);
	mem = lab_map(PAGES);
	if (!missing_pages())
		return false;
	lab_begin(&l);
	lab_begin(&m);
	lab_fill(pinned, PAGES * LAB_PAGE, 1);
	near = lab_reg(&l, pinned, PAGES * LAB_PAGE, LAB_ACCESS);
	slow = lab_reg(&l, mem, PAGES * LAB_PAGE, LAB_ODP);
	far = lab_reg(&m, pinned, PAGES * LAB_PAGE, LAB_ACCESS);
	return true;
}

static void end(void)
{
	ibv_dereg_mr(near);
	ibv_dereg_mr(far);
	if (slow)
		ck_assert_int_eq(ibv_dereg_mr(slow), 0);
	lab_close(&l);
	lab_close(&m);
	close(ufd);
}

static uintptr_t next_fault(void)
{
	struct pollfd p = {.fd = ufd, .events = POLLIN};
	struct uffd_msg msg;

	ck_assert_int_eq(poll(&p, 1, LAB_WAIT * 1000), 1);
	ck_assert_int_eq(read(ufd, &msg, sizeof(msg)), sizeof(msg));
	ck_assert_int_eq(msg.event, UFFD_EVENT_PAGEFAULT);
	return msg.arg.pagefault.address & ~(uintptr_t)(LAB_PAGE - 1);
}

static void give_page(uintptr_t addr, const void *from)
{
	struct uffdio_copy c = {.dst = addr, .src = (uintptr_t)from, .len = LAB_PAGE};

	ck_assert_int_eq(ioctl(ufd, UFFDIO_COPY, &c), 0);
}

static char filled[LAB_PAGE] __attribute__((aligned(4096)));

static void give_filled(uintptr_t addr)
{
	memset(filled, 'x', sizeof(filled));
	give_page(addr, filled);
}

/* One request of "left" that needs a page of @mem */
static void post(enum ibv_wr_opcode opcode, bool local)
{
	struct ibv_sge sge = {.addr = (uintptr_t)(local ? mem : pinned),
			      .length = 64,
			      .lkey = (local ? slow : near)->lkey};
	struct ibv_send_wr wr = {
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = opcode,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr.rdma = {.remote_addr = (uintptr_t)(local ? pinned : mem) + 128,
			.rkey = (local ? near : slow)->rkey},
	};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.rkey = (local ? near : slow)->rkey;
		wr.wr.atomic.remote_addr = (uintptr_t)(local ? pinned : mem) + 128;
		wr.wr.atomic.compare_add = 1;
	}
	lab_post(l.left, &wr);
}

/* All that others do: nothing of it may wait for the fault. */
static void others_go_on(void)
{
	char *p = lab_map(4);
	struct ibv_mr *mr = lab_reg(&m, p, 4 * LAB_PAGE, LAB_ODP);

	ck_assert_int_eq(lab_advise(&m, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				    IBV_ADVISE_MR_FLAG_FLUSH, mr, p, LAB_PAGE),
			 0);
	ck_assert_int_eq(
	    lab_advise(&m, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, mr, p + LAB_PAGE, LAB_PAGE),
	    0);
	ck_assert_int_eq(lab_write(&m, far, pinned, mr, p + 2 * LAB_PAGE, LAB_PAGE),
			 IBV_WC_SUCCESS);
	ck_assert_int_eq(lab_read(&m, mr, p, far, pinned, LAB_PAGE), IBV_WC_SUCCESS);
	ck_assert_int_eq(urxe_prefetch_wait(m.ctx), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	munmap(p, 4 * LAB_PAGE);
}

static const struct {
	enum ibv_wr_opcode opcode;
	bool local;
} needs[] = {
    {IBV_WR_RDMA_WRITE, false},
    {IBV_WR_RDMA_WRITE, true},
    {IBV_WR_RDMA_READ, false},
    {IBV_WR_RDMA_READ, true},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, false},
    {IBV_WR_ATOMIC_FETCH_AND_ADD, true},
};

START_TEST(only_the_faulting_request_waits)
{
	struct ibv_wc wc;

	if (!begin())
		return;
	post(needs[_i].opcode, needs[_i].local);
	/* who waits for the answer of a READ asks for the page when that is there */
	if (needs[_i].local && needs[_i].opcode != IBV_WR_RDMA_WRITE)
		while (!poll(&(struct pollfd){.fd = ufd, .events = POLLIN}, 1, 1))
			ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	others_go_on();
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	give_filled(next_fault());
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	end();
}
END_TEST

/* A page that the handler reads from elsewhere by RDMA, into memory that it registers */
static void *fetch_remotely(void *arg)
{
	uintptr_t addr = next_fault();
	char *p = lab_map(1);
	struct ibv_mr *mr = lab_reg(&m, p, LAB_PAGE, LAB_ODP);

	ck_assert_int_eq(lab_read(&m, mr, p, far, pinned + LAB_PAGE, LAB_PAGE),
			 IBV_WC_SUCCESS);
	give_page(addr, p);
	ibv_dereg_mr(mr);
	return NULL;
}

START_TEST(handler_uses_the_device)
{
	pthread_t t;

	if (!begin())
		return;
	ck_assert_int_eq(pthread_create(&t, NULL, fetch_remotely, NULL), 0);
	post(needs[_i].opcode, needs[_i].local);
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	pthread_join(t, NULL);
	/* the tail of the page is what was read */
	ck_assert(!memcmp(mem + 1024, pinned + LAB_PAGE + 1024, LAB_PAGE - 1024));
	end();
}
END_TEST

/* Longer than all retries together would last (timeout 10: 4 ms) */
START_TEST(peer_is_kept_patient)
{
	if (!begin())
		return;
	l.timeout = 10;
	l.retry_cnt = 6;
	lab_connect(&l);
	post(needs[2 * _i].opcode, false);
	usleep(400000);
	give_filled(next_fault());
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	end();
}
END_TEST

/* The MR goes while a fault of it waits for ever: that ends, and the request fails. */
START_TEST(deregistered_while_it_waits)
{
	if (!begin())
		return;
	post(needs[_i].opcode, needs[_i].local);
	if (needs[_i].opcode == IBV_WR_RDMA_WRITE || !needs[_i].local)
		next_fault();
	ck_assert_int_eq(ibv_dereg_mr(slow), 0);
	slow = NULL;
	ck_assert_int_ne(lab_wait(&l).status, IBV_WC_SUCCESS);
	others_go_on();
	end();
}
END_TEST

START_TEST(forked_while_it_waits)
{
	int status;
	pid_t pid;

	if (!begin())
		return;
	post(IBV_WR_RDMA_WRITE, _i);
	next_fault();
	pid = fork();
	if (!pid)
		_exit(3);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	others_go_on();
	give_filled((uintptr_t)mem);
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	end();
}
END_TEST

/* A process ends as ever, in each of the ways there are. */
START_TEST(exits_while_it_waits)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (!begin())
			_exit(0);
		post(IBV_WR_RDMA_WRITE, _i & 1);
		next_fault();
		if (_i & 2)
			raise(SIGUSR1);
		exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) ? !WEXITSTATUS(status) : WTERMSIG(status) == SIGUSR1);
}
END_TEST

/* All verbs objects go while it waits. */
START_TEST(closed_while_it_waits)
{
	if (!begin())
		return;
	post(IBV_WR_RDMA_WRITE, _i);
	next_fault();
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("slow");
	TCase *tc = tcase_create("userfaultfd");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, only_the_faulting_request_waits, 0, 6);
	tcase_add_loop_test(tc, handler_uses_the_device, 0, 6);
	tcase_add_loop_test(tc, peer_is_kept_patient, 0, 3);
	tcase_add_loop_test(tc, deregistered_while_it_waits, 0, 6);
	tcase_add_loop_test(tc, forked_while_it_waits, 0, 2);
	tcase_add_loop_test(tc, exits_while_it_waits, 0, 4);
	tcase_add_loop_test(tc, closed_while_it_waits, 0, 2);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
