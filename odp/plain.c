/*
 * plain.c - see plain.h.
 *
 * A slot is filled under the lock and emptied by whoever hears that something in it was
 * unmapped, which may be while it is filled: then @gone has moved, and it is emptied again.
 */
#include "odp/plain.h"

#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysinfo.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "odp/sys.h"

/* Accesses ask whether any page is in swap space; to read the clock costs more than that. */
#define SWAPPED_ASKED 64

/* The device number of an open file, else of @path; 0: it cannot be had */
static dev_t dev_of(int fd, const char *path)
{
	struct statx st;

	if (syscall(SYS_statx, fd, path, AT_EMPTY_PATH, 0, &st))
		return 0;
	return makedev(st.stx_dev_major, st.stx_dev_minor);
}

void plain_init(struct plain *p, size_t page)
{
	int fd = (int)syscall(SYS_memfd_create, "urxe", MFD_CLOEXEC);
	struct statfs fs;

	lock_init(&p->lock);
	p->page = page;
	/* memfd, shared anonymous and System V memory are in one file system. */
	if (fd >= 0) {
		p->dev[0] = dev_of(fd, "");
		sys_close(fd);
	}
	if (!syscall(SYS_statfs, "/dev/shm", &fs) && fs.f_type == TMPFS_MAGIC)
		p->dev[1] = dev_of(AT_FDCWD, "/dev/shm");
}

void plain_fini(struct plain *p)
{
	lock_fini(&p->lock);
}

bool plain_is(const struct plain *p, const struct vma *vma)
{
	if (!vma->inode && !vma->dev)
		return true;
	for (int i = 0; i < PLAIN_DEVS; i++)
		if (p->dev[i] && vma->dev == p->dev[i])
			return true;
	return vma->page_size > p->page;
}

/* Up to where is @addr known to be plain? @addr if not at all */
static uintptr_t reach(const struct plain *p, uintptr_t addr)
{
	for (unsigned int i = 0; i < PLAIN_SLOTS; i++) {
		uintptr_t end = atomic_load(&p->slot[i].end);
		uintptr_t start = atomic_load(&p->slot[i].start);

		if (start <= addr && addr < end && atomic_load(&p->slot[i].end) == end)
			return end;
	}
	return addr;
}

bool plain_known(const struct plain *p, uintptr_t first, uintptr_t last)
{
	while (first <= last) {
		uintptr_t end = reach(p, first);

		if (end == first)
			return false;
		first = end;
	}
	return true;
}

void plain_add(struct plain *p, const struct vma *vma, uint64_t gone)
{
	unsigned int i;

	lock_take(&p->lock);
	i = p->next++ % PLAIN_SLOTS;
	atomic_store(&p->slot[i].end, 0);
	atomic_store(&p->slot[i].start, vma->start);
	atomic_store(&p->slot[i].end, vma->end);
	if (atomic_load(&p->gone) != gone)
		atomic_store(&p->slot[i].end, 0);
	lock_release(&p->lock);
}

void plain_forget(struct plain *p, uintptr_t first, uintptr_t last)
{
	atomic_fetch_add(&p->gone, 1);
	for (unsigned int i = 0; i < PLAIN_SLOTS; i++) {
		uintptr_t end = atomic_load(&p->slot[i].end);

		if (end > first && atomic_load(&p->slot[i].start) <= last)
			atomic_store(&p->slot[i].end, 0);
	}
}

static void ask_for_swap(struct plain *p)
{
	struct timespec now;
	struct sysinfo info;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	if ((uint64_t)now.tv_sec + 1 != p->swap_asked) {
		memset(&info, 0, sizeof(info));
		p->swap = sysinfo(&info) || info.totalswap;
		p->swapped = info.freeswap != info.totalswap;
		p->swap_asked = (uint64_t)now.tv_sec + 1;
	}
}

bool plain_swaps(struct plain *p)
{
	ask_for_swap(p);
	return p->swap;
}

bool plain_swapped(struct plain *p)
{
	uint32_t n = atomic_load_explicit(&p->asked, memory_order_relaxed);

	atomic_store_explicit(&p->asked, n + 1, memory_order_relaxed);
	if (n % SWAPPED_ASKED == 0)
		ask_for_swap(p);
	return atomic_load_explicit(&p->swapped, memory_order_relaxed);
}
