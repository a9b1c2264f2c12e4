/*
 * Description: a kernel or container that denies something: no userfaultfd (seccomp), no
 * MADV_POPULATE (before Linux 5.14), no PROCMAP_QUERY (before 6.11), no pagemap. The same
 * results, by guarded touching, by the text of /proc/self/maps, by being told.
 */
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "odp/maps.h"
#include "tests/odp/util.h"

#define MADV_POPULATE_READ_  22
#define MADV_POPULATE_WRITE_ 23
#define PROCMAP_QUERY_	     _IOC(_IOC_READ | _IOC_WRITE, 'f', 17, 104)

#define LOAD(field)                                                                      \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SKIP_UNLESS(k, n) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (k), 0, (n))
#define ANSWER(e)	  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (e))
#define ALLOW		  BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/* From here on this process has what an old kernel in a strict container has. */
static void deny(void)
{
	struct sock_filter code[] = {
	    LOAD(nr),
	    SKIP_UNLESS(SYS_userfaultfd, 1),
	    ANSWER(EPERM),
	    SKIP_UNLESS(SYS_madvise, 5),
	    LOAD(args[2]),
	    SKIP_UNLESS(MADV_POPULATE_READ_, 1),
	    ANSWER(EINVAL),
	    SKIP_UNLESS(MADV_POPULATE_WRITE_, 1),
	    ANSWER(EINVAL),
	    LOAD(nr),
	    SKIP_UNLESS(SYS_ioctl, 3),
	    LOAD(args[1]),
	    SKIP_UNLESS(PROCMAP_QUERY_, 1),
	    ANSWER(ENOTTY),
	    ALLOW,
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	/* the jump over MADV_POPULATE ends at its LOAD(nr) */
	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
	ck_assert_int_eq(madvise((void *)(uintptr_t)&prog, 1, MADV_POPULATE_READ_), -1);
}

static struct odp_domain *dom;

static void begin(void)
{
	struct odp_config cfg = {.uffd = true};
	struct odp_caps caps;

	deny();
	ck_assert_int_eq(odp_domain_create(&cfg, NULL, NULL, &dom), 0);
	odp_domain_caps(dom, &caps);
	ck_assert(!caps.uffd);
	ck_assert_int_eq(caps.uffd_errno, EPERM);
	ck_assert(!caps.populate);
}

static void end(void)
{
	odp_domain_destroy(dom);
}

START_TEST(faults_by_touching)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr = util_mr(dom, p, 4 * PAGE, true);

	p[PAGE] = 7;
	ck_assert_int_eq(util_read(mr, p + PAGE), 7);
	ck_assert_int_eq(util_write(mr, p + PAGE, 8), 0);
	ck_assert_uint_eq(util_faults(mr), 2);
	ck_assert_uint_eq(p[PAGE], 8);
	ck_assert_int_eq(odp_prefetch(mr, (uintptr_t)p, 4 * PAGE, ODP_PREFETCH_WRITE), 0);
	ck_assert_uint_eq(p[PAGE], 8);
	mprotect(p, PAGE, PROT_READ);
	ck_assert_int_eq(util_read(mr, p), 0);
	ck_assert_int_eq(util_write(mr, p, 1), -EFAULT);
	munmap(p, 2 * PAGE);
	ck_assert_int_eq(util_read(mr, p + PAGE), -EFAULT);
	ck_assert_uint_eq(util_counters(mr).invalidations, 2); /* the guard's */
	odp_invalidate(dom, (uintptr_t)p, 4 * PAGE, TRACE_INVAL_CALL);
	ck_assert_uint_eq(util_counters(mr).invalidations, 3);
	ck_assert_int_eq(odp_prefetch(mr, (uintptr_t)p, 4 * PAGE, ODP_PREFETCH), -EFAULT);
	odp_mr_put(mr);
}
END_TEST

START_TEST(end_of_file_by_touching)
{
	int fd = memfd_create("odp", MFD_CLOEXEC);
	uint8_t *p;
	struct odp_mr *mr;

	ck_assert_int_eq(ftruncate(fd, PAGE), 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mr = util_mr(dom, p, 2 * PAGE, true);
	ck_assert_int_eq(util_write(mr, p, 1), 0);
	ck_assert_int_eq(util_write(mr, p + PAGE, 1), -EFAULT);
	odp_mr_put(mr);
}
END_TEST

START_TEST(presence_from_the_text)
{
	uint8_t *p = util_map(8 * PAGE), map[8];
	struct odp_mr *mr = util_mr(dom, p, 8 * PAGE, true);

	p[0] = p[3 * PAGE] = 1;
	munmap(p + 5 * PAGE, PAGE);
	p[6 * PAGE] = 1;
	ck_assert_int_eq(odp_prefetch(mr, (uintptr_t)p, 8 * PAGE, ODP_PREFETCH_NO_FAULT),
			 0);
	ck_assert_uint_eq(odp_mr_page_map(mr, (uintptr_t)p, map, 8), 8);
	for (int i = 0; i < 8; i++)
		ck_assert_uint_eq(map[i] & 1, i == 0 || i == 3 || i == 6);
	odp_mr_put(mr);
}
END_TEST

START_TEST(maps_of_both_kinds)
{
	uint8_t *p = util_map(3 * PAGE);
	struct vma vma;
	struct maps m;

	mprotect(p, PAGE, PROT_READ);
	mprotect(p + 2 * PAGE, PAGE, PROT_NONE);
	if (_i)
		deny();
	ck_assert_int_eq(maps_open(&m), 0);
	ck_assert(maps_find(&m, (uintptr_t)p + PAGE, &vma));
	ck_assert_uint_eq(vma.start, (uintptr_t)p + PAGE);
	ck_assert_uint_eq(vma.end, (uintptr_t)p + 2 * PAGE);
	ck_assert(vma.readable && vma.writable && !vma.shared);
	ck_assert_int_eq(vma.page_size != 0, m.query);
	ck_assert(maps_find(&m, (uintptr_t)p + 2 * PAGE, &vma));
	ck_assert(!vma.readable && !vma.writable);
	ck_assert(!maps_find(&m, UINTPTR_MAX - PAGE, &vma) ||
		  vma.end > UINTPTR_MAX - PAGE);
	/* the next above, where nothing is mapped */
	munmap(p + PAGE, PAGE);
	ck_assert(maps_find(&m, (uintptr_t)p + PAGE + 5, &vma));
	ck_assert_uint_eq(vma.start, (uintptr_t)p + 2 * PAGE);
	maps_close(&m);
	ck_assert_uint_eq(maps_page_size((uintptr_t)p), PAGE);
	ck_assert_uint_eq(maps_page_size((uintptr_t)p + PAGE), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fallback");
	TCase *tc = tcase_create("denied"), *maps = tcase_create("maps");

	if (check_emulated("seccomp"))
		return util_run(s);
	tcase_add_checked_fixture(tc, begin, end);
	tcase_add_test(tc, faults_by_touching);
	tcase_add_test(tc, end_of_file_by_touching);
	tcase_add_test(tc, presence_from_the_text);
	tcase_add_loop_test(maps, maps_of_both_kinds, 0, 2);
	suite_add_tcase(s, tc);
	suite_add_tcase(s, maps);
	return util_run(s);
}
