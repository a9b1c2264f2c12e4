/*
 * Description: pages of the program's own userfaultfd that a registration has to wait for, and
 * such that go away again after they were registered, or had entered a page table: whoever
 * needs them waits, and nobody else does.
 */
#include "slow.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 4

/* @l has what waits, @m has nothing to do with it */
static struct lab l, m;
static struct ibv_mr *other;
static char *mem, *pinned;

static bool begin(bool protect)
{
	mem = lab_map(PAGES);
	pinned = lab_map(PAGES);
	if (!slow_begin(mem, PAGES, protect))
		return false;
	lab_begin(&l);
	lab_begin(&m);
	lab_fill(pinned, PAGES * LAB_PAGE, 1);
	other = lab_reg(&l, pinned, PAGES * LAB_PAGE, LAB_ACCESS);
	return true;
}

static void end(void)
{
	ck_assert_int_eq(ibv_dereg_mr(other), 0);
	lab_close(&l);
	lab_close(&m);
	slow_end();
}

/* --- registration ----------------------------------------------------------------- */

static void *reg(void *arg)
{
	return ibv_reg_mr(l.pd, mem, PAGES * LAB_PAGE, LAB_ACCESS);
}

static pthread_t reg_begin(void)
{
	pthread_t t;

	ck_assert_int_eq(pthread_create(&t, NULL, reg, NULL), 0);
	return t;
}

static struct ibv_mr *reg_end(pthread_t t)
{
	void *mr;

	ck_assert_int_eq(pthread_join(t, &mr), 0);
	return mr;
}

START_TEST(only_the_registration_waits)
{
	struct ibv_mr *mr;
	pthread_t t;

	if (!begin(false))
		return;
	t = reg_begin();
	for (int i = 0; i < PAGES; i++) {
		uintptr_t addr = slow_next();

		slow_others_go_on(&m);
		slow_others_go_on(&l);
		slow_give_filled(addr);
	}
	mr = reg_end(t);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(lab_write(&l, other, pinned, mr, mem, 8), IBV_WC_SUCCESS);
	ck_assert(lab_is(mem, 8, 1) && mem[8] == 'x');
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	end();
}
END_TEST

/* The protection domain is in use, the device is not left behind. */
START_TEST(nothing_goes_that_it_needs)
{
	struct ibv_mr *mr;
	pthread_t t;

	if (!begin(false))
		return;
	t = reg_begin();
	slow_next();
	ck_assert_int_eq(ibv_dealloc_pd(l.pd), EBUSY);
	slow_give_up(mem, PAGES);
	mr = reg_end(t);
	ck_assert_ptr_nonnull(mr);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	end();
}
END_TEST

/* As post-copy migration has it: the pages come by RDMA, into memory that is registered then. */
static void *bring_all(void *arg)
{
	for (int i = 0; i < PAGES; i++) {
		uintptr_t addr = slow_next();
		char *p = lab_map(1);
		struct ibv_mr *mr =
		    lab_reg(&l, p, LAB_PAGE, i & 1 ? LAB_ODP : LAB_ACCESS);

		ck_assert_int_eq(lab_read(&l, mr, p, other,
					  pinned + (addr - (uintptr_t)mem), LAB_PAGE),
				 IBV_WC_SUCCESS);
		slow_give(addr, p);
		ibv_dereg_mr(mr);
	}
	return NULL;
}

START_TEST(handler_uses_the_device)
{
	struct ibv_mr *mr;
	pthread_t t;

	if (!begin(false))
		return;
	ck_assert_int_eq(pthread_create(&t, NULL, bring_all, NULL), 0);
	mr = reg(NULL);
	ck_assert_ptr_nonnull(mr);
	pthread_join(t, NULL);
	ck_assert(lab_is(mem, PAGES * LAB_PAGE, 1));
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	end();
}
END_TEST

static struct ibv_mr *changed;

static void *rereg(void *arg)
{
	int err = ibv_rereg_mr(changed, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, mem,
			      PAGES * LAB_PAGE, 0);

	return (void *)(intptr_t)err;
}

/* What it was stays good until the new memory is there. */
START_TEST(only_the_new_registration_waits)
{
	pthread_t t;
	void *err;

	if (!begin(false))
		return;
	changed = lab_reg(&l, pinned, LAB_PAGE, LAB_ACCESS);
	ck_assert_int_eq(pthread_create(&t, NULL, rereg, NULL), 0);
	slow_next();
	slow_others_go_on(&m);
	ck_assert_int_eq(lab_write(&l, changed, pinned, other, pinned + LAB_PAGE, 8),
			 IBV_WC_SUCCESS);
	slow_give_up(mem, PAGES);
	pthread_join(t, &err);
	ck_assert_ptr_null(err);
	ck_assert_int_eq(lab_write(&l, changed, mem, other, pinned, 8), IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_dereg_mr(changed), 0);
	end();
}
END_TEST

START_TEST(forked_while_it_registers)
{
	struct ibv_mr *mr;
	pthread_t t;
	int status;
	pid_t pid;

	if (!begin(false))
		return;
	t = reg_begin();
	slow_next();
	pid = fork();
	if (!pid)
		_exit(3);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 3);
	slow_others_go_on(&m);
	slow_give_up(mem, PAGES);
	mr = reg_end(t);
	ck_assert_ptr_nonnull(mr);
	ibv_dereg_mr(mr);
	end();
}
END_TEST

START_TEST(exits_while_it_registers)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		if (!begin(false))
			_exit(0);
		reg_begin();
		slow_next();
		if (_i)
			raise(SIGUSR1);
		exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) ? !WEXITSTATUS(status) : WTERMSIG(status) == SIGUSR1);
}
END_TEST

/* --- pages that go away ----------------------------------------------------------- */

/*
 * @protect: it stays, but nobody may write
 * @odp: else pinned; @local, @opcode: of the request that needs the page
 */
static const struct {
	bool protect, odp, local;
	enum ibv_wr_opcode opcode;
} goes[] = {
    {false, false, false, IBV_WR_RDMA_WRITE},
    {false, false, true, IBV_WR_RDMA_WRITE},
    {false, false, false, IBV_WR_RDMA_READ},
    {false, false, true, IBV_WR_RDMA_READ},
    {false, false, false, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {false, true, false, IBV_WR_RDMA_WRITE},
    {false, true, true, IBV_WR_RDMA_WRITE},
    {false, true, false, IBV_WR_RDMA_READ},
    {false, true, true, IBV_WR_RDMA_READ},
    {false, true, false, IBV_WR_ATOMIC_FETCH_AND_ADD},
    {true, false, false, IBV_WR_RDMA_WRITE},
    {true, false, true, IBV_WR_RDMA_READ},
    {true, true, false, IBV_WR_RDMA_WRITE},
    {true, true, true, IBV_WR_RDMA_READ},
};
#define GOES ((int)(sizeof(goes) / sizeof(goes[0])))

/* The request number @i, of 8 bytes */
static void post(int i, struct ibv_mr *mr)
{
	struct ibv_mr *near = goes[i].local ? mr : other,
		      *far = goes[i].local ? other : mr;
	struct ibv_sge sge = {(uintptr_t)near->addr, 8, near->lkey};
	struct ibv_send_wr wr = {
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = goes[i].opcode,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr.rdma = {.remote_addr = (uintptr_t)far->addr, .rkey = far->rkey},
	};

	if (wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)far->addr;
		wr.wr.atomic.rkey = far->rkey;
		wr.wr.atomic.compare_add = 1;
	}
	lab_post(l.left, &wr);
}

/* All pages are there, for writing. */
static struct ibv_mr *reg_present(int i)
{
	int access = goes[i].odp ? LAB_ODP : LAB_ACCESS;
	struct ibv_mr *mr;

	for (int page = 0; page < PAGES; page++)
		slow_give_filled((uintptr_t)mem + (size_t)page * LAB_PAGE);
	mr = lab_reg(&l, mem, PAGES * LAB_PAGE, access);
	if (goes[i].odp)
		ck_assert_int_eq(lab_advise(&l, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
					    IBV_ADVISE_MR_FLAG_FLUSH, mr, mem,
					    PAGES * LAB_PAGE),
				 0);
	return mr;
}

START_TEST(only_who_needs_it_waits)
{
	struct ibv_mr *mr;
	struct ibv_wc wc;

	if (!begin(goes[_i].protect))
		return;
	mr = reg_present(_i);
	if (goes[_i].protect)
		slow_protect((uintptr_t)mem, true);
	else
		slow_take((uintptr_t)mem);
	post(_i, mr);
	/* who waits for the answer of a READ needs the page when that is there */
	while (!slow_asked(1))
		ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	slow_others_go_on(&m);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	if (goes[_i].protect)
		slow_protect((uintptr_t)mem, false);
	else
		slow_give_filled(slow_next());
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	/* and once more, as if nothing had been */
	post(_i, mr);
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	end();
}
END_TEST

START_TEST(deregistered_while_it_waits)
{
	struct ibv_mr *mr;

	if (!begin(goes[_i].protect))
		return;
	mr = reg_present(_i);
	if (goes[_i].protect)
		slow_protect((uintptr_t)mem, true);
	else
		slow_take((uintptr_t)mem);
	post(_i, mr);
	if (!goes[_i].local || goes[_i].opcode == IBV_WR_RDMA_WRITE)
		ck_assert(slow_asked(LAB_WAIT * 1000));
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_ne(lab_wait(&l).status, IBV_WC_SUCCESS);
	slow_others_go_on(&m);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("away");
	TCase *tc = tcase_create("registration");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, only_the_registration_waits);
	tcase_add_test(tc, nothing_goes_that_it_needs);
	tcase_add_test(tc, handler_uses_the_device);
	tcase_add_test(tc, only_the_new_registration_waits);
	tcase_add_test(tc, forked_while_it_registers);
	tcase_add_loop_test(tc, exits_while_it_registers, 0, 2);
	suite_add_tcase(s, tc);
	tc = tcase_create("pages that go away");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, only_who_needs_it_waits, 0, GOES);
	tcase_add_loop_test(tc, deregistered_while_it_waits, 0, GOES);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
