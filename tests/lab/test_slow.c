/*
 * Description: page faults that the program itself has to resolve, by a userfaultfd handler
 * of its own: the request that needs the page waits, and nothing else does. The handler may
 * use the device.
 */
#include "slow.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 16

/* @l has the request that waits, @m has nothing to do with it */
static struct lab l, m;
static struct ibv_mr *near, *far, *slow;
static char *pinned, *mem;

static bool begin(void)
{
	pinned = lab_map(PAGES);
	mem = lab_map(PAGES);
	if (!slow_begin(mem, PAGES, false))
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
	slow_end();
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
		while (!slow_asked(1))
			ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	slow_others_go_on(&m);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	slow_give_filled(slow_next());
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	end();
}
END_TEST

/* A page that the handler reads from elsewhere by RDMA, into memory that it registers */
static void *fetch_remotely(void *arg)
{
	uintptr_t addr = slow_next();
	char *p = lab_map(1);
	struct ibv_mr *mr = lab_reg(&m, p, LAB_PAGE, LAB_ODP);

	ck_assert_int_eq(lab_read(&m, mr, p, far, pinned + LAB_PAGE, LAB_PAGE),
			 IBV_WC_SUCCESS);
	slow_give(addr, p);
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
	slow_give_filled(slow_next());
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
		slow_next();
	ck_assert_int_eq(ibv_dereg_mr(slow), 0);
	slow = NULL;
	ck_assert_int_ne(lab_wait(&l).status, IBV_WC_SUCCESS);
	slow_others_go_on(&m);
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
	slow_next();
	pid = fork();
	if (!pid)
		_exit(3);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	slow_others_go_on(&m);
	slow_give_filled((uintptr_t)mem);
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
		slow_next();
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
	slow_next();
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
