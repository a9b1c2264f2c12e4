/*
 * Description: urxe.h under `urxe run`: counters, page maps, names, reset, fault models
 * and scripts at run time, errors.
 */
#include "lab.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lab l;

START_TEST(who_am_i)
{
	lab_open(&l);
	ck_assert_int_eq(urxe_active(), 1);
	ck_assert(strchr(urxe_version(), '.'));
	ck_assert_int_eq(urxe_is_emulated(l.ctx), 1);
	lab_close(&l);
}
END_TEST

START_TEST(counters_of_a_write)
{
	char *src = lab_map(4), *dst = lab_map(4);
	struct ibv_mr *from, *to;
	struct urxe_counters c;

	lab_begin(&l);
	from = lab_reg(&l, src, 4 * LAB_PAGE, LAB_ODP);
	to = lab_reg(&l, dst, 4 * LAB_PAGE, LAB_ODP);
	lab_fill(src, 4 * LAB_PAGE, 1);
	ck_assert_int_eq(lab_write(&l, from, src, to, dst, 3 * LAB_PAGE), IBV_WC_SUCCESS);
	ck_assert(lab_is(dst, 3 * LAB_PAGE, 1));
	c = lab_counters(from);
	ck_assert_uint_eq(c.page_faults, 3);
	ck_assert_uint_ge(c.read_faults, 1);
	ck_assert_uint_eq(c.write_faults, 0);
	ck_assert_uint_eq(c.remote_faults, 0);
	ck_assert_uint_eq(c.local_faults, c.read_faults);
	ck_assert_uint_eq(c.pages_cached, 3);
	c = lab_counters(to);
	ck_assert_uint_eq(c.page_faults, 3);
	ck_assert_uint_eq(c.remote_faults, c.write_faults);
	ck_assert_uint_eq(c.local_faults, 0);
	ck_assert_uint_gt(c.fault_ns, 0);

	ck_assert_int_eq(urxe_mr_reset_counters(to), 0);
	ck_assert_int_eq(lab_write(&l, from, src, to, dst, 3 * LAB_PAGE), IBV_WC_SUCCESS);
	c = lab_counters(to);
	ck_assert_uint_eq(c.page_faults, 0);
	ck_assert_uint_ge(c.cache_hits, 3);
	ck_assert_uint_eq(c.pages_cached, 3);

	ck_assert_int_eq(madvise(dst, 2 * LAB_PAGE, MADV_DONTNEED), 0);
	c = lab_counters(to);
	ck_assert_uint_eq(c.page_invalidations, 2);
	ck_assert_uint_eq(c.invalidations, 1);
	ck_assert_uint_eq(c.pages_cached, 1);
	ck_assert_int_eq(ibv_dereg_mr(from), 0);
	ck_assert_int_eq(ibv_dereg_mr(to), 0);
	lab_close(&l);
}
END_TEST

START_TEST(counters_of_a_device)
{
	char *src = lab_map(2), *dst = lab_map(2);
	struct ibv_mr *from, *to;
	struct urxe_counters c;

	lab_begin(&l);
	from = lab_reg(&l, src, 2 * LAB_PAGE, LAB_ACCESS);
	to = lab_reg(&l, dst, 2 * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(lab_write(&l, from, src, to, dst, 2 * LAB_PAGE), IBV_WC_SUCCESS);
	ck_assert_int_eq(lab_faults(from), 0); /* pinned */
	ck_assert_int_eq(urxe_device_counters(l.ctx, &c, sizeof(c)), 0);
	ck_assert_uint_eq(c.page_faults, 2);
	ck_assert_uint_eq(c.pages_cached, 2);
	ibv_dereg_mr(to);
	ck_assert_int_eq(urxe_device_counters(l.ctx, &c, sizeof(c)), 0);
	ck_assert_uint_eq(c.page_faults, 2); /* what is gone is remembered */
	ck_assert_uint_eq(c.pages_cached, 0);
	ck_assert_int_eq(urxe_device_reset_counters(l.ctx), 0);
	ck_assert_int_eq(urxe_device_counters(l.ctx, &c, sizeof(c)), 0);
	ck_assert_uint_eq(c.page_faults, 0);
	ibv_dereg_mr(from);
	lab_close(&l);
}
END_TEST

/* Programs of an older and of a newer urxe.h */
START_TEST(sizes_of_the_structure)
{
	struct {
		struct urxe_counters c;
		uint64_t more;
	} newer;
	struct urxe_counters older;
	char *p = lab_map(1);
	struct ibv_mr *mr;

	lab_open(&l);
	mr = lab_reg(&l, p, LAB_PAGE, LAB_ODP);
	memset(&newer, 0xff, sizeof(newer));
	memset(&older, 0xff, sizeof(older));
	ck_assert_int_eq(urxe_mr_counters(mr, &newer.c, sizeof(newer)), 0);
	ck_assert_uint_eq(newer.more, 0);
	ck_assert_int_eq(urxe_mr_counters(mr, &older, 8), 0);
	ck_assert_uint_eq(older.page_faults, 0);
	ck_assert_uint_eq(older.page_invalidations, UINT64_MAX);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(counters_of_the_device_are_there)
{
	uint64_t v = UINT64_MAX, w;
	char *p = lab_map(2);
	struct ibv_mr *mr;

	lab_begin(&l);
	mr = lab_reg(&l, p, 2 * LAB_PAGE, LAB_ACCESS);
	ck_assert_int_eq(urxe_device_hw_counter(l.ctx, "sent_pkts", &v), 0);
	lab_write(&l, mr, p, mr, p + LAB_PAGE, 8);
	ck_assert_int_eq(urxe_device_hw_counter(l.ctx, "sent_pkts", &w), 0);
	ck_assert_uint_eq(w, v + 2); /* request and acknowledge */
	ck_assert_int_eq(urxe_device_hw_counter(l.ctx, "nonsense", &v), ENOENT);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(the_page_map_shows_each_page)
{
	const size_t pages = 10000; /* more than are looked at in one go */
	uint8_t map[1250 + 1];
	char *p = lab_map(pages);
	struct ibv_mr *mr;
	uint8_t bit = 0xff;

	lab_begin(&l);
	/* neither end is at a page boundary */
	mr = lab_reg(&l, p + 100, pages * LAB_PAGE - 200, LAB_ODP);
	ck_assert_uint_eq(urxe_mr_page_size(mr), LAB_PAGE);
	ck_assert_int_eq(lab_advise(&l, IBV_ADVISE_MR_ADVICE_PREFETCH,
				    IBV_ADVISE_MR_FLAG_FLUSH, mr, p + 3 * LAB_PAGE, 1),
			 0);
	ck_assert_int_eq(lab_advise(&l, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				    IBV_ADVISE_MR_FLAG_FLUSH, mr, p + 9 * LAB_PAGE - 1,
				    2),
			 0);
	/* one page in the third step */
	ck_assert_int_eq(lab_advise(&l, IBV_ADVISE_MR_ADVICE_PREFETCH,
				    IBV_ADVISE_MR_FLAG_FLUSH, mr, p + 9001 * LAB_PAGE, 8),
			 0);
	memset(map, 0xff, sizeof(map));
	ck_assert_int_eq(
	    urxe_mr_page_map(mr, mr->addr, mr->length, URXE_PAGE_READ, map, sizeof(map)),
	    0);
	for (size_t i = 0; i < pages; i++)
		ck_assert_int_eq(map[i / 8] >> i % 8 & 1,
				 i == 3 || i == 8 || i == 9 || i == 9001);
	ck_assert_uint_eq(map[1250], 0xff); /* not ours */

	ck_assert_int_eq(urxe_mr_page_map(mr, p + LAB_PAGE + 17, 10 * LAB_PAGE,
					  URXE_PAGE_READ | URXE_PAGE_WRITE, map,
					  sizeof(map)),
			 0);
	ck_assert_uint_eq(map[0], 0x80); /* 8 */
	ck_assert_uint_eq(map[1], 0x01); /* 9 */

	/* an access of the program's own: not prefetched */
	ck_assert_int_eq(lab_write(&l, mr, p + 20 * LAB_PAGE, mr, p + 21 * LAB_PAGE, 1),
			 IBV_WC_SUCCESS);
	ck_assert(lab_cached(mr, p + 21 * LAB_PAGE, URXE_PAGE_WRITE));
	ck_assert(!lab_cached(mr, p + 21 * LAB_PAGE, URXE_PAGE_PREFETCHED));
	ck_assert(lab_cached(mr, p + 3 * LAB_PAGE, URXE_PAGE_PREFETCHED));
	ck_assert(!lab_cached(mr, p + 3 * LAB_PAGE, URXE_PAGE_WRITE));

	ck_assert_int_eq(urxe_mr_page_map(mr, p, 200, URXE_PAGE_READ, &bit, 1), EFAULT);
	ck_assert_int_eq(urxe_mr_page_map(mr, p + 100, mr->length + 1, URXE_PAGE_READ,
					  map, sizeof(map)),
			 EFAULT);
	ck_assert_int_eq(
	    urxe_mr_page_map(mr, p + 100, SIZE_MAX, URXE_PAGE_READ, map, sizeof(map)),
	    EFAULT);
	ck_assert_int_eq(
	    urxe_mr_page_map(mr, p + 100, 8 * LAB_PAGE, URXE_PAGE_READ, &bit, 1), ENOSPC);
	ck_assert_int_eq(urxe_mr_page_map(mr, p + 100, 0, URXE_PAGE_READ, &bit, 1),
			 EINVAL);
	ck_assert_int_eq(urxe_mr_page_map(mr, p + 100, 1, 0, &bit, 1), EINVAL);
	ck_assert_int_eq(urxe_mr_page_map(mr, p + 100, 1, 8, &bit, 1), EINVAL);
	ck_assert_uint_eq(bit, 0xff);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(page_map_of_others)
{
	char *p = lab_map(2);
	struct ibv_mr *pinned, *all;

	lab_begin(&l);
	pinned = lab_reg(&l, p, 2 * LAB_PAGE, LAB_ACCESS);
	all = lab_reg(&l, NULL, SIZE_MAX, LAB_ODP);
	ck_assert_int_eq(lab_write(&l, pinned, p, all, p + LAB_PAGE, 8), IBV_WC_SUCCESS);
	ck_assert(!lab_cached(pinned, p, URXE_PAGE_READ));
	ck_assert(!lab_cached(all, p, URXE_PAGE_READ));
	ck_assert(lab_cached(all, p + LAB_PAGE, URXE_PAGE_WRITE));
	ibv_dereg_mr(pinned);
	ibv_dereg_mr(all);
	lab_close(&l);
}
END_TEST

START_TEST(regions_have_names)
{
	char name[33] = "0123456789012345678901234567890x";
	char *p = lab_map(1);
	struct ibv_mr *mr;

	lab_open(&l);
	mr = lab_reg(&l, p, LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(urxe_mr_set_name(mr, name), ENAMETOOLONG);
	ck_assert_int_eq(errno, ENAMETOOLONG);
	name[31] = '\0';
	ck_assert_int_eq(urxe_mr_set_name(mr, name), 0);
	ck_assert_int_eq(urxe_mr_set_name(mr, NULL), 0);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(script_by_name)
{
	char *p = lab_map(8);
	struct ibv_mr *from, *to;

	lab_begin(&l);
	from = lab_reg(&l, p, 4 * LAB_PAGE, LAB_ACCESS);
	to = lab_reg(&l, p + 4 * LAB_PAGE, 4 * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(lab_write(&l, from, p, to, to->addr, 4 * LAB_PAGE),
			 IBV_WC_SUCCESS);
	ck_assert_int_eq(urxe_mr_set_name(to, "target"), 0);
	ck_assert_int_eq(urxe_set_fault_script(l.ctx, "mr=target,page=2,access=3"), 0);
	for (int i = 1; i <= 4; i++) {
		urxe_mr_reset_counters(to);
		ck_assert_int_eq(lab_write(&l, from, p, to, to->addr, 4 * LAB_PAGE),
				 IBV_WC_SUCCESS);
		ck_assert_uint_eq(lab_faults(to), i == 3);
	}
	ck_assert_int_eq(
	    urxe_set_fault_script(l.ctx, "mr=target,page=0,access=1,fault=error"), 0);
	ck_assert_int_eq(lab_write(&l, from, p, to, to->addr, 8), IBV_WC_REM_ACCESS_ERR);
	ck_assert_int_eq(urxe_set_fault_script(l.ctx, "x"), EINVAL);
	ck_assert_int_eq(urxe_set_fault_script(l.ctx, NULL), 0);
	lab_connect(&l);
	ck_assert_int_eq(lab_write(&l, from, p, to, to->addr, 8), IBV_WC_SUCCESS);
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	lab_close(&l);
}
END_TEST

START_TEST(model_of_an_mr)
{
	char *p = lab_map(4);
	struct ibv_mr *from, *to;
	struct urxe_counters c;
	uint64_t naks;

	lab_begin(&l);
	from = lab_reg(&l, p, LAB_PAGE, LAB_ACCESS);
	to = lab_reg(&l, p + 2 * LAB_PAGE, 2 * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(urxe_mr_set_fault_model(to, URXE_FAULT_RNR, 3000000), 0);
	ck_assert_int_eq(lab_write(&l, from, p, to, to->addr, 8), IBV_WC_SUCCESS);
	c = lab_counters(to);
	ck_assert_uint_eq(c.write_faults, 1);
	ck_assert_uint_ge(c.fault_ns, 3000000);
	ck_assert_int_eq(urxe_device_hw_counter(l.ctx, "rcvd_rnr_err", &naks), 0);
	ck_assert_uint_ge(naks, 1);
	ck_assert_int_eq(urxe_mr_set_fault_model(from, URXE_FAULT_RNR, 0), EINVAL);
	ck_assert_int_eq(urxe_mr_set_fault_model(to, (enum urxe_fault_model)5, 0),
			 EINVAL);
	ck_assert_int_eq(urxe_mr_set_fault_model(to, URXE_FAULT_SYNC, UINT64_MAX),
			 EINVAL);
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	lab_close(&l);
}
END_TEST

START_TEST(model_of_a_device)
{
	char *p = lab_map(4);
	struct ibv_mr *from, *before, *after;

	lab_begin(&l);
	from = lab_reg(&l, p, LAB_PAGE, LAB_ACCESS);
	before = lab_reg(&l, p + LAB_PAGE, LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(urxe_device_set_fault_model(l.ctx, URXE_FAULT_SYNC, 5000000), 0);
	after = lab_reg(&l, p + 2 * LAB_PAGE, LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(lab_write(&l, from, p, before, before->addr, 8), IBV_WC_SUCCESS);
	ck_assert_int_eq(lab_write(&l, from, p, after, after->addr, 8), IBV_WC_SUCCESS);
	ck_assert_uint_ge(lab_counters(after).fault_ns, 5000000);
	ck_assert_uint_lt(lab_counters(before).fault_ns, lab_counters(after).fault_ns);
	ck_assert_int_eq(
	    urxe_device_set_fault_model(l.ctx, (enum urxe_fault_model) - 1, 0), EINVAL);
	ibv_dereg_mr(from);
	ibv_dereg_mr(before);
	ibv_dereg_mr(after);
	lab_close(&l);
}
END_TEST

/* Objects that are gone, or never were */
START_TEST(objects_that_are_gone_are_refused)
{
	char *nowhere = lab_map(1), *p = lab_map(1);
	struct ibv_mr *mr, copy;
	struct urxe_counters c;

	ck_assert_int_eq(mprotect(nowhere, LAB_PAGE, PROT_NONE), 0);
	lab_open(&l);
	mr = lab_reg(&l, p, LAB_PAGE, LAB_ODP);
	copy = *mr;
	ibv_dereg_mr(mr);
	ck_assert_int_eq(urxe_mr_counters(&copy, &c, sizeof(c)), EINVAL);
	ck_assert_int_eq(errno, EINVAL);
	mr = lab_reg(&l, p, LAB_PAGE, LAB_ODP); /* takes the handle, not the key */
	ck_assert_int_eq(urxe_mr_reset_counters(&copy), EINVAL);
	copy = *mr;
	copy.handle += 1000;
	ck_assert_int_eq(urxe_mr_set_name(&copy, "x"), EINVAL);
	copy.context = (struct ibv_context *)nowhere;
	ck_assert_int_eq(urxe_mr_set_name(&copy, "x"), EINVAL);
	ck_assert_int_eq(urxe_mr_counters((struct ibv_mr *)nowhere, &c, sizeof(c)),
			 EINVAL);
	ck_assert_int_eq(urxe_mr_counters(NULL, &c, sizeof(c)), EINVAL);
	ck_assert_uint_eq(urxe_mr_page_size(NULL), 0);
	ck_assert_int_eq(urxe_device_counters(NULL, &c, sizeof(c)), EINVAL);
	ck_assert_int_eq(urxe_is_emulated(NULL), 0);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

/* A context of another device: here of something that is no device at all */
START_TEST(a_context_of_another_device_is_refused)
{
	struct ibv_context foreign = {.cmd_fd = 0};
	struct ibv_mr mr = {.context = &foreign};
	struct urxe_counters c;

	lab_open(&l);
	ck_assert_int_eq(urxe_is_emulated(&foreign), 0);
	ck_assert_int_eq(urxe_device_counters(&foreign, &c, sizeof(c)), ENOSYS);
	ck_assert_int_eq(urxe_mr_counters(&mr, &c, sizeof(c)), ENOSYS);
	ck_assert_int_eq(urxe_prefetch_wait(&foreign), ENOSYS);
	lab_close(&l);
}
END_TEST

START_TEST(a_trace_is_begun_and_ended_by_the_program)
{
	char *src = lab_map(1), *dst = lab_map(1), file[] = "/tmp/urxe-lab-XXXXXX",
	     magic[8];
	struct ibv_mr *from, *to;
	int fd = mkstemp(file);

	ck_assert_int_ge(fd, 0);
	lab_begin(&l);
	from = lab_reg(&l, src, LAB_PAGE, LAB_ODP);
	to = lab_reg(&l, dst, LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(urxe_trace_stop(l.ctx, NULL), EALREADY);
	ck_assert_int_eq(urxe_trace_start(l.ctx, 1 << 20), 0);
	ck_assert_int_eq(urxe_trace_start(l.ctx, 1 << 20), EALREADY);
	ck_assert_int_eq(lab_write(&l, from, src, to, dst, LAB_PAGE), IBV_WC_SUCCESS);
	/* an empty file is no trace; the trace goes on being ended */
	ck_assert_int_eq(urxe_trace_stop(l.ctx, file), EEXIST);
	ck_assert_int_eq(unlink(file), 0);
	ck_assert_int_eq(urxe_trace_start(l.ctx, 0), 0);
	ck_assert_int_eq(lab_write(&l, from, src, to, dst, LAB_PAGE), IBV_WC_SUCCESS);
	ck_assert_int_eq(urxe_trace_stop(l.ctx, file), 0);
	close(fd);
	fd = open(file, O_RDONLY);
	ck_assert_int_eq(read(fd, magic, sizeof(magic)), sizeof(magic));
	ck_assert_mem_eq(magic, "URXEtrc\n", sizeof(magic));
	close(fd);
	unlink(file);
	ibv_dereg_mr(from);
	ibv_dereg_mr(to);
	lab_close(&l);
}
END_TEST

START_TEST(objects_of_the_parent)
{
	char *p = lab_map(1);
	struct urxe_counters c;
	struct ibv_mr *mr;
	int status;
	pid_t pid;

	lab_open(&l);
	mr = lab_reg(&l, p, LAB_PAGE, LAB_ODP);
	pid = fork();
	if (!pid) {
		if (urxe_is_emulated(l.ctx))
			_exit(1);
		if (urxe_mr_counters(mr, &c, sizeof(c)) != ENOSYS)
			_exit(2);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("public");
	TCase *tc = tcase_create("all");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, who_am_i);
	tcase_add_test(tc, counters_of_a_write);
	tcase_add_test(tc, counters_of_a_device);
	tcase_add_test(tc, sizes_of_the_structure);
	tcase_add_test(tc, counters_of_the_device_are_there);
	tcase_add_test(tc, the_page_map_shows_each_page);
	tcase_add_test(tc, page_map_of_others);
	tcase_add_test(tc, regions_have_names);
	tcase_add_test(tc, script_by_name);
	tcase_add_test(tc, model_of_an_mr);
	tcase_add_test(tc, model_of_a_device);
	tcase_add_test(tc, objects_that_are_gone_are_refused);
	tcase_add_test(tc, a_context_of_another_device_is_refused);
	tcase_add_test(tc, a_trace_is_begun_and_ended_by_the_program);
	tcase_add_test(tc, objects_of_the_parent);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
