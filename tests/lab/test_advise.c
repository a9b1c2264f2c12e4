/*
 * Description: ibv_advise_mr(3) through libibverbs: what each advice does to the page
 * table, and every error of its manual page.
 */
#include "lab.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PREFETCH       IBV_ADVISE_MR_ADVICE_PREFETCH
#define PREFETCH_WRITE IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define NO_FAULT       IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT
#define FLUSH	       IBV_ADVISE_MR_FLAG_FLUSH

static struct lab l;

/* --- what it does ----------------------------------------------------------------- */

START_TEST(prefetch_is_for_reading)
{
	char *p = lab_map(4), *q = lab_map(4);
	struct ibv_mr *mr, *sink;

	lab_begin(&l);
	mr = lab_reg(&l, p, 4 * LAB_PAGE, LAB_ODP);
	sink = lab_reg(&l, q, 4 * LAB_PAGE, LAB_ACCESS);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, FLUSH, mr, p, 4 * LAB_PAGE), 0);
	ck_assert(lab_cached(mr, p, URXE_PAGE_READ | URXE_PAGE_PREFETCHED));
	ck_assert(!lab_cached(mr, p, URXE_PAGE_WRITE)); /* though the MR is writable */
	ck_assert_uint_eq(lab_counters(mr).page_prefetch, 4);
	ck_assert_uint_eq(lab_counters(mr).prefetches, 1);
	ck_assert_int_eq(lab_read(&l, sink, q, mr, p, 4 * LAB_PAGE), IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_faults(mr), 0);
	ck_assert_uint_eq(lab_counters(mr).prefetch_hits, 4);
	ck_assert_int_eq(lab_write(&l, sink, q, mr, p, 8), IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_counters(mr).write_faults, 1);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(sink);
	lab_close(&l);
}
END_TEST

START_TEST(prefetch_for_writing_is_for_both)
{
	char *p = lab_map(4), *q = lab_map(4);
	struct ibv_mr *mr, *source;

	lab_begin(&l);
	mr = lab_reg(&l, p, 4 * LAB_PAGE, LAB_ODP);
	source = lab_reg(&l, q, 4 * LAB_PAGE, LAB_ACCESS);
	lab_fill(q, 4 * LAB_PAGE, 7);
	ck_assert_int_eq(lab_advise(&l, PREFETCH_WRITE, FLUSH, mr, p, 4 * LAB_PAGE), 0);
	ck_assert(lab_cached(mr, p + 3 * LAB_PAGE, URXE_PAGE_READ | URXE_PAGE_WRITE));
	ck_assert_int_eq(lab_write(&l, source, q, mr, p, 4 * LAB_PAGE), IBV_WC_SUCCESS);
	ck_assert(lab_is(p, 4 * LAB_PAGE, 7));
	ck_assert_uint_eq(lab_faults(mr), 0);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(source);
	lab_close(&l);
}
END_TEST

/* What the CPU has touched, and nothing else */
START_TEST(prefetch_without_faults_takes_what_is_there)
{
	char *p = lab_map(8);
	struct ibv_mr *mr;

	lab_open(&l);
	mr = lab_reg(&l, p, 8 * LAB_PAGE, LAB_ODP);
	p[2 * LAB_PAGE] = 1;
	p[5 * LAB_PAGE] = 1;
	ck_assert_int_eq(lab_advise(&l, NO_FAULT, FLUSH, mr, p, 8 * LAB_PAGE), 0);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(lab_cached(mr, p + i * LAB_PAGE, URXE_PAGE_READ),
				 i == 2 || i == 5);
	ck_assert_uint_eq(lab_counters(mr).page_prefetch, 2);
	/* nor does it mind holes */
	munmap(p + 6 * LAB_PAGE, LAB_PAGE);
	ck_assert_int_eq(lab_advise(&l, NO_FAULT, FLUSH, mr, p, 8 * LAB_PAGE), 0);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(prefetch_without_a_flush_happens_soon)
{
	const size_t pages = 4096;
	char *p = lab_map(pages);
	struct ibv_mr *mr;

	lab_open(&l);
	mr = lab_reg(&l, p, pages * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(lab_advise(&l, PREFETCH_WRITE, 0, mr, p, pages * LAB_PAGE), 0);
	ck_assert_int_eq(urxe_prefetch_wait(l.ctx), 0);
	ck_assert_uint_eq(lab_counters(mr).pages_cached, pages);
	ck_assert_uint_eq(lab_counters(mr).page_prefetch, pages);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

/* Asynchronous, the MR and the memory go at once: no crash, no memory written */
START_TEST(soon_and_gone)
{
	lab_open(&l);
	for (int i = 0; i < 50; i++) {
		char *p = lab_map(2048);
		struct ibv_mr *mr = lab_reg(&l, p, 2048 * LAB_PAGE, LAB_ODP);

		ck_assert_int_eq(
		    lab_advise(&l, PREFETCH_WRITE, 0, mr, p, 2048 * LAB_PAGE), 0);
		if (i % 2)
			munmap(p, 2048 * LAB_PAGE);
		ck_assert_int_eq(ibv_dereg_mr(mr), 0);
		munmap(p, 2048 * LAB_PAGE);
	}
	ck_assert_int_eq(urxe_prefetch_wait(l.ctx), 0);
	lab_close(&l);
}
END_TEST

START_TEST(many_ranges_are_one_call)
{
	enum { N = 200 };
	struct ibv_sge sge[N];
	char *p = lab_map(2 * N), *q = lab_map(N);
	struct ibv_mr *a, *b;

	lab_open(&l);
	a = lab_reg(&l, p, 2 * N * LAB_PAGE, LAB_ODP);
	b = lab_reg(&l, q, N * LAB_PAGE, LAB_ODP);
	for (int i = 0; i < N; i++) {
		struct ibv_mr *mr = i % 2 ? a : b;

		sge[i] = (struct ibv_sge){.addr = (uintptr_t)mr->addr + i * LAB_PAGE,
					  .length = LAB_PAGE,
					  .lkey = mr->lkey};
	}
	ck_assert_int_eq(ibv_advise_mr(l.pd, PREFETCH_WRITE, FLUSH, sge, N), 0);
	ck_assert_uint_eq(lab_counters(a).pages_cached, N / 2);
	ck_assert_uint_eq(lab_counters(b).pages_cached, N / 2);
	ck_assert_uint_eq(lab_counters(b).prefetches, N / 2);
	/* the same, not waited for */
	madvise(p, 2 * N * LAB_PAGE, MADV_DONTNEED);
	ck_assert_uint_eq(lab_counters(a).pages_cached, 0);
	ck_assert_int_eq(ibv_advise_mr(l.pd, PREFETCH, 0, sge, N), 0);
	ck_assert_int_eq(urxe_prefetch_wait(l.ctx), 0);
	ck_assert_uint_eq(lab_counters(a).pages_cached, N / 2);
	ibv_dereg_mr(a);
	ibv_dereg_mr(b);
	lab_close(&l);
}
END_TEST

START_TEST(an_implicit_mr_takes_advice)
{
	char *p = lab_map(4);
	struct ibv_mr *mr;

	lab_begin(&l);
	mr = lab_reg(&l, NULL, SIZE_MAX, LAB_ODP);
	ck_assert_int_eq(lab_advise(&l, PREFETCH_WRITE, FLUSH, mr, p, 2 * LAB_PAGE), 0);
	ck_assert_int_eq(lab_write(&l, mr, p, mr, p + LAB_PAGE, 100), IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_faults(mr), 0);
	munmap(p, LAB_PAGE);
	ck_assert_uint_eq(lab_counters(mr).page_invalidations, 1);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, FLUSH, mr, p, 2 * LAB_PAGE), EFAULT);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(huge_pages_take_advice)
{
	const size_t huge = 2u << 20;
	char *p = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	char *small = lab_map(1024 + 512);
	struct ibv_mr *mr;

	lab_begin(&l);
	/* base pages do not do */
	small += huge - (uintptr_t)small % huge;
	mr = lab_reg(&l, small, LAB_PAGE, LAB_ODP | IBV_ACCESS_HUGETLB);
	ck_assert_uint_eq(urxe_mr_page_size(mr), huge);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, FLUSH, mr, small, 1), EINVAL);
	ibv_dereg_mr(mr);
	if (p != MAP_FAILED) {
		mr = lab_reg(&l, p, 2 * huge, LAB_ODP | IBV_ACCESS_HUGETLB);
		ck_assert_int_eq(lab_advise(&l, PREFETCH_WRITE, FLUSH, mr, p + huge, 1),
				 0);
		ck_assert(!lab_cached(mr, p, URXE_PAGE_READ));
		ck_assert(lab_cached(mr, p + huge + 12345, URXE_PAGE_WRITE));
		ck_assert_int_eq(lab_write(&l, mr, p + huge, mr, p + 2 * huge - 8, 8),
				 IBV_WC_SUCCESS);
		ck_assert_uint_eq(lab_faults(mr), 0);
		ibv_dereg_mr(mr);
	}
	lab_close(&l);
}
END_TEST

START_TEST(window_over_odp)
{
	char *p = lab_map(4), *q = lab_map(4);
	struct ibv_mw_bind bind = {.wr_id = 9, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_mr *mr, *source, as_mr;
	struct ibv_mw *mw;

	lab_begin(&l);
	mr = lab_reg(&l, p, 4 * LAB_PAGE, LAB_ODP | IBV_ACCESS_MW_BIND);
	source = lab_reg(&l, q, 4 * LAB_PAGE, LAB_ACCESS);
	mw = ibv_alloc_mw(l.pd, IBV_MW_TYPE_1);
	ck_assert(mw);
	bind.bind_info = (struct ibv_mw_bind_info){
	    .mr = mr,
	    .addr = (uintptr_t)p + LAB_PAGE,
	    .length = 2 * LAB_PAGE,
	    .mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	ck_assert_int_eq(ibv_bind_mw(l.right, mw, &bind), 0);
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	as_mr = (struct ibv_mr){.rkey = mw->rkey};
	ck_assert_int_eq(lab_advise(&l, PREFETCH_WRITE, FLUSH, mr, p + LAB_PAGE, 1), 0);
	lab_fill(q, LAB_PAGE, 5);
	ck_assert_int_eq(lab_write(&l, source, q, &as_mr, p + LAB_PAGE, LAB_PAGE),
			 IBV_WC_SUCCESS);
	ck_assert(lab_is(p + LAB_PAGE, LAB_PAGE, 5));
	ck_assert_uint_eq(lab_faults(mr), 0);
	ck_assert_int_eq(lab_write(&l, source, q, &as_mr, p + 2 * LAB_PAGE, LAB_PAGE),
			 IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_faults(mr), 1);
	/* a window is no MR */
	as_mr.lkey = mw->rkey;
	ck_assert_int_eq(lab_advise(&l, PREFETCH, FLUSH, &as_mr, p + LAB_PAGE, 1),
			 EINVAL);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(source);
	lab_close(&l);
}
END_TEST

START_TEST(elements_of_several_mrs_take_advice)
{
	char *p = lab_map(3), *q = lab_map(3);
	struct ibv_mr *odp, *pinned, *to;
	struct ibv_sge sge[3];
	struct ibv_send_wr wr = {
	    .wr_id = 1,
	    .sg_list = sge,
	    .num_sge = 3,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .send_flags = IBV_SEND_SIGNALED,
	};

	lab_begin(&l);
	lab_fill(p, 3 * LAB_PAGE, 11);
	odp = lab_reg(&l, p, 3 * LAB_PAGE, LAB_ODP);
	pinned = lab_reg(&l, p, 3 * LAB_PAGE, LAB_ACCESS);
	to = lab_reg(&l, q, 3 * LAB_PAGE, LAB_ODP);
	for (int i = 0; i < 3; i++)
		sge[i] = (struct ibv_sge){.addr = (uintptr_t)p + i * LAB_PAGE,
					  .length = LAB_PAGE,
					  .lkey = i == 1 ? pinned->lkey : odp->lkey};
	wr.wr.rdma.remote_addr = (uintptr_t)q;
	wr.wr.rdma.rkey = to->rkey;
	lab_post(l.left, &wr);
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	ck_assert(lab_is(q, 3 * LAB_PAGE, 11));
	ck_assert_uint_eq(lab_counters(odp).pages_cached, 2);
	ck_assert(!lab_cached(odp, p + LAB_PAGE, URXE_PAGE_READ));
	/* but all elements of an advice must be on-demand */
	ck_assert_int_eq(ibv_advise_mr(l.pd, PREFETCH, FLUSH, sge, 3), ENOENT);
	ck_assert_int_eq(ibv_advise_mr(l.pd, PREFETCH, 0, sge, 3), ENOENT);
	ibv_dereg_mr(odp);
	ibv_dereg_mr(pinned);
	ibv_dereg_mr(to);
	lab_close(&l);
}
END_TEST

/* --- errors ----------------------------------------------------------------------- */

static const uint32_t both[] = {FLUSH, 0};

START_TEST(bad_arguments_are_refused)
{
	uint32_t flush = both[_i];
	struct ibv_pd no_pd;
	char *p = lab_map(1);
	struct ibv_mr *mr;
	struct ibv_sge sge;

	lab_open(&l);
	mr = lab_reg(&l, p, LAB_PAGE, LAB_ODP);
	sge =
	    (struct ibv_sge){.addr = (uintptr_t)p, .length = LAB_PAGE, .lkey = mr->lkey};
	ck_assert_int_eq(
	    ibv_advise_mr(l.pd, (enum ibv_advise_mr_advice)3, flush, &sge, 1), ENOTSUP);
	ck_assert_int_eq(ibv_advise_mr(l.pd, PREFETCH, flush | 2, &sge, 1), EINVAL);
	ck_assert_int_eq(ibv_advise_mr(l.pd, PREFETCH, flush | 1u << 31, &sge, 1),
			 EINVAL);
	ck_assert_int_eq(ibv_advise_mr(l.pd, PREFETCH, flush, &sge, 0), EINVAL);
	ck_assert_int_eq(ibv_advise_mr(l.pd, PREFETCH, flush, NULL, 1), EFAULT);
	no_pd = *l.pd;
	no_pd.handle += 1000;
	ck_assert_int_eq(ibv_advise_mr(&no_pd, PREFETCH, flush, &sge, 1), EINVAL);
	sge.length = 0;
	ck_assert_int_eq(ibv_advise_mr(l.pd, PREFETCH, flush, &sge, 1), EINVAL);
	ck_assert_uint_eq(lab_counters(mr).prefetches, 0);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(bad_keys_are_refused)
{
	uint32_t flush = both[_i];
	char *p = lab_map(1);
	struct ibv_mr *mr, *pinned, *ro, gone;
	struct ibv_pd *other;

	lab_open(&l);
	mr = lab_reg(&l, p, LAB_PAGE, LAB_ODP);
	pinned = lab_reg(&l, p, LAB_PAGE, LAB_ACCESS);
	ro = lab_reg(&l, p, LAB_PAGE, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);
	gone = *mr;
	gone.lkey ^= 1;
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, &gone, p, 1), ENOENT);
	gone.lkey = 0;
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, &gone, p, 1), ENOENT);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, pinned, p, 1), ENOENT);
	ck_assert_int_eq(lab_advise(&l, PREFETCH_WRITE, flush, ro, p, 1), EPERM);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, ro, p, 1), 0);
	gone = *mr;
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, &gone, p, 1), ENOENT);
	/* another PD */
	other = ibv_alloc_pd(l.ctx);
	ck_assert(other);
	mr = ibv_reg_mr(other, p, LAB_PAGE, LAB_ODP);
	ck_assert(mr);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, mr, p, 1), EPERM);
	ibv_dereg_mr(mr);
	ibv_dereg_mr(pinned);
	ibv_dereg_mr(ro);
	ck_assert_int_eq(ibv_dealloc_pd(other), 0);
	lab_close(&l);
}
END_TEST

START_TEST(bad_ranges_are_refused)
{
	uint32_t flush = both[_i];
	char *p = lab_map(4);
	struct ibv_mr *mr;

	lab_open(&l);
	mr = lab_reg(&l, p + 8, 3 * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, mr, p, 8), EFAULT);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, mr, p + 8, 3 * LAB_PAGE + 1),
			 EFAULT);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, mr, p + 8, UINT32_MAX), EFAULT);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, mr, (char *)UINTPTR_MAX, 8),
			 EFAULT);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, mr, p + 8, 3 * LAB_PAGE), 0);
	/* memory that is not there: known only to who waits */
	munmap(p + 2 * LAB_PAGE, LAB_PAGE);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, mr, p + 8, 3 * LAB_PAGE),
			 flush ? EFAULT : 0);
	ck_assert_int_eq(mprotect(p + LAB_PAGE, LAB_PAGE, PROT_NONE), 0);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, mr, p + LAB_PAGE, 8),
			 flush ? EFAULT : 0);
	ck_assert_int_eq(mprotect(p + LAB_PAGE, LAB_PAGE, PROT_READ), 0);
	ck_assert_int_eq(lab_advise(&l, PREFETCH_WRITE, flush, mr, p + LAB_PAGE, 8),
			 flush ? EFAULT : 0);
	ck_assert_int_eq(lab_advise(&l, PREFETCH, flush, mr, p + LAB_PAGE, 8), 0);
	ck_assert_int_eq(urxe_prefetch_wait(l.ctx), 0);
	ck_assert(lab_cached(mr, p + LAB_PAGE, URXE_PAGE_READ));
	ck_assert(!lab_cached(mr, p + LAB_PAGE, URXE_PAGE_WRITE));
	ck_assert(!lab_cached(mr, p + 2 * LAB_PAGE, URXE_PAGE_READ));
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("advise");
	TCase *tc = tcase_create("effect"), *errors = tcase_create("errors");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, prefetch_is_for_reading);
	tcase_add_test(tc, prefetch_for_writing_is_for_both);
	tcase_add_test(tc, prefetch_without_faults_takes_what_is_there);
	tcase_add_test(tc, prefetch_without_a_flush_happens_soon);
	tcase_add_test(tc, soon_and_gone);
	tcase_add_test(tc, many_ranges_are_one_call);
	tcase_add_test(tc, an_implicit_mr_takes_advice);
	tcase_add_test(tc, huge_pages_take_advice);
	tcase_add_test(tc, window_over_odp);
	tcase_add_test(tc, elements_of_several_mrs_take_advice);
	suite_add_tcase(s, tc);
	tcase_set_timeout(errors, 60);
	tcase_add_loop_test(errors, bad_arguments_are_refused, 0, 2);
	tcase_add_loop_test(errors, bad_keys_are_refused, 0, 2);
	tcase_add_loop_test(errors, bad_ranges_are_refused, 0, 2);
	suite_add_tcase(s, errors);
	return lab_main(s);
}
