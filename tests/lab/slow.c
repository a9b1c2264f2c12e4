/*
 * slow.c - see slow.h.
 */
#include "slow.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static int ufd = -1;

bool slow_begin(void *mem, size_t pages, bool protect)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register r = {
	    .range = {.start = (uintptr_t)mem, .len = pages * LAB_PAGE},
	    .mode =
		UFFDIO_REGISTER_MODE_MISSING | (protect ? UFFDIO_REGISTER_MODE_WP : 0),
	};

	ufd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
	if (ufd < 0 || ioctl(ufd, UFFDIO_API, &api)) {
		printf("no userfaultfd here: skipped\n");
		return false;
	}
	ck_assert_int_eq(ioctl(ufd, UFFDIO_REGISTER, &r), 0);
	return true;
}

void slow_end(void)
{
	close(ufd);
	ufd = -1;
}

void slow_give_up(void *mem, size_t pages)
{
	struct uffdio_range r = {.start = (uintptr_t)mem, .len = pages * LAB_PAGE};

	ck_assert_int_eq(ioctl(ufd, UFFDIO_UNREGISTER, &r), 0);
}

bool slow_asked(int ms)
{
	return poll(&(struct pollfd){.fd = ufd, .events = POLLIN}, 1, ms) == 1;
}

uintptr_t slow_next(void)
{
	struct uffd_msg msg;

	ck_assert(slow_asked(LAB_WAIT * 1000));
	ck_assert_int_eq(read(ufd, &msg, sizeof(msg)), sizeof(msg));
	ck_assert_int_eq(msg.event, UFFD_EVENT_PAGEFAULT);
	return msg.arg.pagefault.address & ~(uintptr_t)(LAB_PAGE - 1);
}

void slow_give(uintptr_t addr, const void *from)
{
	struct uffdio_copy c = {.dst = addr, .src = (uintptr_t)from, .len = LAB_PAGE};

	/* asked for twice, it is there already the second time */
	ck_assert(!ioctl(ufd, UFFDIO_COPY, &c) || errno == EEXIST);
}

void slow_give_filled(uintptr_t addr)
{
	static char filled[LAB_PAGE] __attribute__((aligned(LAB_PAGE)));

	memset(filled, 'x', sizeof(filled));
	slow_give(addr, filled);
}

void slow_take(uintptr_t addr)
{
	ck_assert_int_eq(
	    syscall(SYS_madvise, addr, (size_t)LAB_PAGE, (long)MADV_DONTNEED), 0);
}

void slow_protect(uintptr_t addr, bool on)
{
	struct uffdio_writeprotect w = {
	    .range = {.start = addr, .len = LAB_PAGE},
	    .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	ck_assert_int_eq(ioctl(ufd, UFFDIO_WRITEPROTECT, &w), 0);
}

void slow_others_go_on(struct lab *m)
{
	char *p = lab_map(4), *pinned = lab_map(1);
	struct ibv_mr *mr = lab_reg(m, p, 4 * LAB_PAGE, LAB_ODP);
	struct ibv_mr *far = lab_reg(m, pinned, LAB_PAGE, LAB_ACCESS);

	ck_assert_int_eq(lab_advise(m, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				    IBV_ADVISE_MR_FLAG_FLUSH, mr, p, LAB_PAGE),
			 0);
	ck_assert_int_eq(
	    lab_advise(m, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, mr, p + LAB_PAGE, LAB_PAGE),
	    0);
	ck_assert_int_eq(lab_write(m, far, pinned, mr, p + 2 * LAB_PAGE, LAB_PAGE),
			 IBV_WC_SUCCESS);
	ck_assert_int_eq(lab_read(m, mr, p, far, pinned, LAB_PAGE), IBV_WC_SUCCESS);
	ck_assert_int_eq(urxe_prefetch_wait(m->ctx), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(far), 0);
	munmap(p, 4 * LAB_PAGE);
	munmap(pinned, LAB_PAGE);
}
