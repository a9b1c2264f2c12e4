/*
 * Description: memory that others have a hand in: the program's own userfaultfd beside that of
 * the HCA, whichever comes first; sealed files, files on a disk and in memory that somebody
 * else changes; advice, merging and collapsing of pages; another process that writes all the
 * while.
 */
#include "slow.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 16u
#define LEN   (PAGES * LAB_PAGE)

#ifndef MADV_COLD
#define MADV_COLD 20
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef PIDFD_SELF
#define PIDFD_SELF (-10000)
#endif

static struct lab l;
static struct ibv_mr *mr, *other;
static char *mem, *pinned;

/* On-demand memory at @p, and pinned memory to compare it with */
static void begin(char *p)
{
	mem = p;
	pinned = lab_map(PAGES);
	lab_begin(&l);
	mr = lab_reg(&l, mem, LEN, LAB_ODP);
	other = lab_reg(&l, pinned, LEN, LAB_ACCESS);
}

static void end(void)
{
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(other), 0);
	lab_close(&l);
}

/* All of it there and back */
static void traffic(unsigned int seed)
{
	lab_fill(pinned, LEN, seed);
	ck_assert_int_eq(lab_write(&l, other, pinned, mr, mem, LEN), IBV_WC_SUCCESS);
	ck_assert(lab_is(mem, LEN, seed));
	memset(pinned, 0, LEN);
	ck_assert_int_eq(lab_read(&l, other, pinned, mr, mem, LEN), IBV_WC_SUCCESS);
	ck_assert(lab_is(pinned, LEN, seed));
}

/* --- a userfaultfd of the program's own ------------------------------------------- */

/* Brings every page that is asked for, from @pinned, until @handling ends */
static volatile bool handling;

static void *handle(void *arg)
{
	while (handling)
		if (slow_asked(10)) {
			uintptr_t addr = slow_next();

			slow_give(addr, pinned + (addr - (uintptr_t)mem));
		}
	return NULL;
}

/* As post-copy migration has it: what is not there comes from somewhere else. */
static void post_copy(unsigned int seed)
{
	pthread_t t;

	lab_fill(pinned, LEN, seed);
	ck_assert_int_eq(madvise(mem, LEN, MADV_DONTNEED), 0);
	handling = true;
	ck_assert_int_eq(pthread_create(&t, NULL, handle, NULL), 0);
	for (unsigned int i = 0; i < PAGES; i++) {
		char *to = pinned + LEN;

		ck_assert_int_eq(
		    lab_read(&l, other, to, mr, mem + i * LAB_PAGE, LAB_PAGE),
		    IBV_WC_SUCCESS);
		ck_assert(!memcmp(to, pinned + i * LAB_PAGE, LAB_PAGE));
	}
	handling = false;
	pthread_join(t, NULL);
}

/* @_i: bit 0: the HCA has the memory first; bit 1: and again after it was given back */
START_TEST(post_copy_works_whoever_watches_first)
{
	char *p = lab_map(PAGES);

	mem = p;
	pinned = lab_map(PAGES + 1);
	lab_begin(&l);
	mr = lab_reg(&l, mem, LEN, LAB_ODP);
	other = lab_reg(&l, pinned, LEN + LAB_PAGE, LAB_ACCESS);
	if (_i & 1)
		traffic(1);
	if (!slow_begin(mem, PAGES, false))
		return;
	post_copy(2);
	if (_i & 2) {
		slow_give_up(mem, PAGES);
		traffic(3);
		ck_assert_int_eq(madvise(mem, LEN, MADV_DONTNEED), 0);
		traffic(4);
		slow_end();
		ck_assert(slow_begin(mem, PAGES, true));
		post_copy(5);
	}
	end();
	slow_end();
}
END_TEST

static int own_ioctl(unsigned long cmd, void *arg)
{
	static int ufd = -1;
	struct uffdio_api api = {.api = UFFD_API};

	if (ufd < 0) {
		ufd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
		if (ufd < 0 || ioctl(ufd, UFFDIO_API, &api))
			return -2;
	}
	return ioctl(ufd, cmd, arg);
}

/* A part of a mapping comes and goes, and the mapping is one again: it can move as a whole. */
START_TEST(part_of_a_mapping)
{
	struct uffdio_register r = {.mode = UFFDIO_REGISTER_MODE_MISSING};
	char *p;

	begin(lab_map(PAGES));
	traffic(1);
	r.range = (struct uffdio_range){(uintptr_t)mem + 4 * LAB_PAGE, 4 * LAB_PAGE};
	if (own_ioctl(UFFDIO_REGISTER, &r) == -2)
		return;
	traffic(2);
	/* more than was registered, as without the HCA */
	r.range = (struct uffdio_range){(uintptr_t)mem, LEN};
	ck_assert_int_eq(own_ioctl(UFFDIO_UNREGISTER, &r.range), 0);
	traffic(3);
	p = mremap(mem, LEN, 4 * LEN, MREMAP_MAYMOVE);
	ck_assert(p != MAP_FAILED);
	ck_assert(lab_is(p, LEN, 3));
	munmap(p, 4 * LEN);
	end();
}
END_TEST

/* What is wrong with a call is what it would be. */
START_TEST(errors_of_the_program)
{
	struct uffdio_register r = {.mode = UFFDIO_REGISTER_MODE_MISSING};

	begin(lab_map(PAGES));
	traffic(1);
	r.range = (struct uffdio_range){(uintptr_t)mem + 1, LAB_PAGE};
	if (own_ioctl(UFFDIO_REGISTER, &r) == -2)
		return;
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(own_ioctl(UFFDIO_REGISTER, (void *)8), -1);
	ck_assert_int_eq(errno, EFAULT);
	ck_assert_int_eq(own_ioctl(UFFDIO_UNREGISTER, (void *)8), -1);
	ck_assert_int_eq(errno, EFAULT);
	r.range = (struct uffdio_range){(uintptr_t)mem, ~0ull & ~4095ull};
	ck_assert_int_eq(own_ioctl(UFFDIO_REGISTER, &r), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(ioctl(0, UFFDIO_UNREGISTER, &r.range), -1);
	traffic(2);
	end();
}
END_TEST

/* --- files ------------------------------------------------------------------------ */

static char *map_file(int fd, int prot)
{
	char *p = mmap(NULL, LEN, prot, MAP_SHARED, fd, 0);

	ck_assert(p != MAP_FAILED);
	return p;
}

static int sealed(int seals)
{
	int fd = memfd_create("lab", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, LEN), 0);
	if (fcntl(fd, F_ADD_SEALS, seals)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* A size that cannot change, and what is mapped for writing already stays so. */
START_TEST(sealed_file_serves_as_any)
{
	int fd = sealed(F_SEAL_SHRINK | F_SEAL_GROW);

	begin(map_file(fd, PROT_READ | PROT_WRITE));
	traffic(1);
	if (!fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE))
		traffic(2);
	ck_assert_int_eq(ftruncate(fd, 0), -1);
	traffic(3);
	end();
}
END_TEST

START_TEST(file_sealed_for_writing)
{
	int fd = sealed(F_SEAL_WRITE | F_SEAL_SHRINK);

	begin(map_file(fd, PROT_READ));
	ck_assert_int_eq(lab_read(&l, other, pinned, mr, mem, LEN), IBV_WC_SUCCESS);
	ck_assert_int_eq(lab_write(&l, other, pinned, mr, mem, 8), IBV_WC_REM_ACCESS_ERR);
	ck_assert_ptr_null(ibv_reg_mr(l.pd, mem, LEN, LAB_ACCESS));
	end();
}
END_TEST

/* On a disk, and in memory */
static int file_in(int i)
{
	char path[] = "/var/tmp/urxe-lab-XXXXXX", shm[] = "/dev/shm/lab-XXXXXX";
	char *name = i ? shm : path;
	int fd = mkstemp(name);

	ck_assert_int_ge(fd, 0);
	unlink(name);
	ck_assert_int_eq(ftruncate(fd, LEN), 0);
	return fd;
}

/* What the device writes is in the file, and what others write there is what it reads. */
START_TEST(shared_file_has_what_all_write)
{
	char buf[LAB_PAGE], *want;
	int fd = file_in(_i);

	begin(map_file(fd, PROT_READ | PROT_WRITE));
	traffic(1);
	want = malloc(LEN);
	ck_assert_int_eq(pread(fd, want, LEN, 0), LEN);
	ck_assert(lab_is(want, LEN, 1));
	memset(buf, 7, sizeof(buf));
	ck_assert_int_eq(pwrite(fd, buf, sizeof(buf), 3 * LAB_PAGE), sizeof(buf));
	ck_assert_int_eq(lab_read(&l, other, pinned, mr, mem + 3 * LAB_PAGE, LAB_PAGE),
			 IBV_WC_SUCCESS);
	ck_assert(!memcmp(pinned, buf, sizeof(buf)));
	/* its pages leave memory, and come back from where they are */
	ck_assert_int_eq(msync(mem, LEN, MS_SYNC), 0);
	syscall(SYS_madvise, mem, (size_t)LEN, (long)MADV_PAGEOUT);
	posix_fadvise(fd, 0, LEN, POSIX_FADV_DONTNEED);
	ck_assert_int_eq(lab_read(&l, other, pinned, mr, mem, LEN), IBV_WC_SUCCESS);
	ck_assert(!memcmp(pinned, mem, LEN));
	traffic(2);
	free(want);
	end();
}
END_TEST

/* Somebody who is not seen takes a part of the file, and all of it but the first page. */
START_TEST(file_changed_by_another_process)
{
	int fd = file_in(_i & 1), status;
	pid_t pid;

	begin(map_file(fd, PROT_READ | PROT_WRITE));
	traffic(1);
	pid = fork();
	if (!pid) {
		if (_i & 2)
			_exit((int)syscall(SYS_ftruncate, fd, (off_t)LAB_PAGE));
		_exit(syscall(SYS_fallocate, fd,
			      FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)LAB_PAGE,
			      (off_t)LAB_PAGE)
			  ? 1
			  : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
	ck_assert_int_eq(lab_read(&l, other, pinned, mr, mem, LAB_PAGE), IBV_WC_SUCCESS);
	if (_i & 2) {
		ck_assert_int_eq(lab_read(&l, other, pinned, mr, mem + LAB_PAGE, 8),
				 IBV_WC_REM_ACCESS_ERR);
	} else {
		memset(pinned, 1, LAB_PAGE);
		ck_assert_int_eq(
		    lab_read(&l, other, pinned, mr, mem + LAB_PAGE, LAB_PAGE),
		    IBV_WC_SUCCESS);
		for (unsigned int i = 0; i < LAB_PAGE; i++)
			ck_assert_int_eq(pinned[i], 0);
		traffic(2);
	}
	end();
}
END_TEST

/* --- advice ----------------------------------------------------------------------- */

static const int advices[] = {MADV_COLD,      MADV_PAGEOUT,	MADV_COLLAPSE,
			      MADV_MERGEABLE, MADV_UNMERGEABLE, MADV_HUGEPAGE,
			      MADV_DONTNEED};
#define ADVICES ((int)(sizeof(advices) / sizeof(advices[0])))

/* By process_madvise(2), of which libc may know nothing */
static long advise_process(void *p, size_t len, int advice)
{
	struct iovec v = {p, len};
	int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	long n = syscall(SYS_process_madvise, fd, &v, 1l, (long)advice, 0l);

	if (fd >= 0)
		close(fd);
	return n;
}

/* Whether the kernel follows it or not, and whether it is seen or not: the data is right. */
START_TEST(advice_changes_no_data)
{
	int advice = advices[_i % ADVICES];
	size_t len = 4 << 20;
	char *p = lab_map(len / LAB_PAGE);

	begin((char *)(((uintptr_t)p + (2 << 20) - 1) & -(uintptr_t)(2 << 20)));
	traffic(1);
	for (unsigned int i = 0; i < 5; i++) {
		if (_i / ADVICES == 0)
			madvise(mem, LEN, advice);
		else if (_i / ADVICES == 1)
			syscall(SYS_madvise, mem, (size_t)LEN, (long)advice);
		else
			advise_process(mem, LEN, advice);
		ck_assert(advice == MADV_DONTNEED || lab_is(mem, LEN, i + 1));
		if (i & 1) {
			ck_assert_int_eq(lab_read(&l, other, pinned, mr, mem, LEN),
					 IBV_WC_SUCCESS);
			ck_assert(!memcmp(pinned, mem, LEN));
		}
		traffic(i + 2);
	}
	end();
}
END_TEST

/* A page that is thrown away by a call of libc is gone from the table. */
START_TEST(thrown_away_by_process_madvise)
{
	struct iovec v;
	int fd;

	begin(lab_map(PAGES));
	traffic(1);
	v = (struct iovec){mem + LAB_PAGE, LAB_PAGE};
	fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	if (fd < 0 || process_madvise(fd, &v, 1, MADV_DONTNEED, 0) != LAB_PAGE) {
		printf("no process_madvise(MADV_DONTNEED) here: skipped\n");
		return;
	}
	ck_assert(!lab_cached(mr, mem + LAB_PAGE, URXE_PAGE_READ));
	ck_assert(lab_cached(mr, mem, URXE_PAGE_READ));
	ck_assert_int_eq(lab_read(&l, other, pinned, mr, mem + LAB_PAGE, LAB_PAGE),
			 IBV_WC_SUCCESS);
	for (unsigned int i = 0; i < LAB_PAGE; i++)
		ck_assert_int_eq(pinned[i], 0);
	close(fd);
	end();
}
END_TEST

/* --- another process that uses it -------------------------------------------------- */

/* Atomics of the device and of a CPU of somebody else add up, as they do in one process. */
START_TEST(hot_in_another_process)
{
	uint64_t *word, n = 0;
	volatile uint64_t *stop;
	char *p =
	    mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int status;
	pid_t pid;

	ck_assert(p != MAP_FAILED);
	begin(p);
	word = (uint64_t *)mem;
	stop = (uint64_t *)(mem + LAB_PAGE);
	pid = fork();
	if (!pid) {
		while (!*stop)
			__atomic_fetch_add(word, 1u << 16, __ATOMIC_SEQ_CST);
		_exit(0);
	}
	for (unsigned int i = 0; i < 2000; i++) {
		ck_assert_int_eq(lab_add(&l, other, (uint64_t *)pinned, mr, word, 1),
				 IBV_WC_SUCCESS);
		n++;
		if (i % 100 == 50)
			madvise(mem, LAB_PAGE, MADV_PAGEOUT);
	}
	*(uint64_t *)(pinned + 8) = 1;
	ck_assert_int_eq(lab_write(&l, other, pinned + 8, mr, (void *)stop, 8),
			 IBV_WC_SUCCESS);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status) && !WEXITSTATUS(status));
	ck_assert_uint_eq(*word & 0xffff, n);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("others");
	TCase *tc = tcase_create("userfaultfd");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, post_copy_works_whoever_watches_first, 0, 4);
	tcase_add_test(tc, part_of_a_mapping);
	tcase_add_test(tc, errors_of_the_program);
	suite_add_tcase(s, tc);
	tc = tcase_create("files");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, sealed_file_serves_as_any);
	tcase_add_test(tc, file_sealed_for_writing);
	tcase_add_loop_test(tc, shared_file_has_what_all_write, 0, 2);
	tcase_add_loop_test(tc, file_changed_by_another_process, 0, 4);
	suite_add_tcase(s, tc);
	tc = tcase_create("advice");
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, advice_changes_no_data, 0, 3 * ADVICES);
	tcase_add_test(tc, thrown_away_by_process_madvise);
	suite_add_tcase(s, tc);
	tc = tcase_create("processes");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, hot_in_another_process);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
