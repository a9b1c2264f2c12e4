/*
 * os_linux.c - struct odp_os on the real kernel.
 *
 * Owns the userfaultfd, if there is one, and the threads on which faults wait. What a kernel
 * or a container does not give is found out by trying, once.
 *
 * Which fault takes long? There is no call that tries a page fault and does not wait. But
 * the kernel tells what is needed to know beforehand: plain memory (plain.h) that is
 * registered with our userfaultfd, and so with nobody else's, is filled with zeroes or copied,
 * unless it was swapped out. Elsewhere a page that is present is there for the asking, and
 * any other one takes as long as its file system, or the program's own userfaultfd handler,
 * likes. Where we have no userfaultfd, nobody else is thought to have one.
 */
#include "odp/os_linux.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "odp/guard.h"
#include "odp/maps.h"
#include "odp/plain.h"
#include "odp/pool.h"
#include "odp/sys.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Entries of /proc/self/pagemap (Documentation/admin-guide/mm/pagemap.rst) */
#define PAGEMAP_PRESENT	  (1ull << 63)
#define PAGEMAP_SWAP	  (1ull << 62)
#define PAGEMAP_SHARED	  (1ull << 61)
#define PAGEMAP_UFFD_WP	  (1ull << 57)
#define PAGEMAP_EXCLUSIVE (1ull << 56)

/* Pages that are remembered to have been present, for how long (ms), as so many bits */
#define SEEN_PAGES 1024u
#define SEEN_MS	   8u
#define SEEN_BITS  12

/* Turns of a madvise() that says EAGAIN or EINTR */
#define POPULATE_TURNS 100

/*
 * struct os_linux
 * @populate:	the kernel has MADV_POPULATE_ (Linux 5.14)
 * @pagemap:	/proc/self/pagemap; -1: cannot be had
 * @seen:	pages that were present lately, see seen_mark()
 * @uffd:	NULL where it cannot be had, then @uffd_errno says why
 */
struct os_linux {
	bool populate;
	int pagemap;
	uint8_t page_shift;
	struct uffd *uffd;
	int uffd_errno;
	_Atomic uint64_t seen[SEEN_PAGES];
	struct plain plain;
	struct pool pool;
};

/*
 * The program has, or had, a userfaultfd of its own. A process either does or does not, before
 * any engine starts and after it has ended.
 */
static _Atomic bool others;

/* --- operations ------------------------------------------------------------------- */

/* 0 or the -errno of madvise(2) */
static int populate(uintptr_t addr, size_t len, bool write)
{
	int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;

	for (int i = 0; i < POPULATE_TURNS; i++) {
		if (!sys_madvise(addr, len, advice))
			return 0;
		if (errno != EAGAIN && errno != EINTR)
			break;
	}
	return -errno;
}

/*
 * ENOMEM: not mapped; EINVAL: PROT_NONE, or read-only; EFAULT: beyond the end of the file, or
 * the device says so. madvise(2)
 */
static int populated(int ret)
{
	return !ret || ret == -EHWPOISON ? ret : -EFAULT;
}

static int linux_populate(void *arg, uintptr_t addr, size_t len, bool write)
{
	const struct os_linux *os = arg;

	if (!os->populate)
		return guard_touch(addr, len, write);
	return populated(populate(addr, len, write));
}

/*
 * A userfaultfd that is for faults of user mode only (the only one that users without rights
 * may have) is not asked for pages by madvise(2), which gives EFAULT then. To touch them does
 * it.
 */
static int linux_pin(void *arg, uintptr_t addr, size_t len, bool write)
{
	const struct os_linux *os = arg;
	int ret = os->populate ? populate(addr, len, write) : -EFAULT;

	return ret == -EFAULT ? guard_touch(addr, len, write) : populated(ret);
}

static int linux_copy(void *arg, void *dst, const void *src, size_t len)
{
	return guard_copy(dst, src, len);
}

static int linux_cmp_swap(void *arg, uint64_t *p, uint64_t cmp, uint64_t swap,
			  uint64_t *orig)
{
	return guard_cmp_swap(p, cmp, swap, orig);
}

static int linux_fetch_add(void *arg, uint64_t *p, uint64_t add, uint64_t *orig)
{
	return guard_fetch_add(p, add, orig);
}

static int linux_store64(void *arg, uint64_t *p, uint64_t v)
{
	return guard_store64(p, v);
}

/*
 * Present, and writable without a fault? A private page is if nobody shares it (the page
 * of zeroes and pages after fork are not exclusive), a shared one if the mapping is.
 */
static uint8_t entry_state(uint64_t entry, const struct vma *vma)
{
	if (!(entry & PAGEMAP_PRESENT) || !vma->readable)
		return 0;
	if (!vma->writable)
		return 1;
	if (vma->shared)
		return 3;
	return (entry & PAGEMAP_EXCLUSIVE) && !(entry & PAGEMAP_SHARED) ? 3 : 1;
}

/* Says of entries of one mapping what is to be said. False: that is enough */
typedef bool entries_fn(void *arg, const struct vma *vma, const uint64_t *entry,
			size_t n);

/* The entries of pages of a mapping, some at a time. 0 or -errno */
static int each_entry(int fd, int shift, uintptr_t addr, size_t n, const struct vma *vma,
		      entries_fn *fn, void *arg)
{
	uint64_t entry[256];

	while (n) {
		size_t step = n < 256 ? n : 256;
		ssize_t got = sys_pread(fd, entry, step * sizeof(entry[0]),
					(off_t)((addr >> shift) * sizeof(entry[0])));

		if (got <= 0)
			return got ? -errno : 0;
		step = (size_t)got / sizeof(entry[0]);
		if (!fn(arg, vma, entry, step))
			return 0;
		addr += step << shift;
		n -= step;
	}
	return 0;
}

struct residents {
	uint8_t *pages;
};

static bool note_residents(void *arg, const struct vma *vma, const uint64_t *entry,
			   size_t n)
{
	struct residents *r = arg;

	for (size_t i = 0; i < n; i++)
		*r->pages++ = entry_state(entry[i], vma);
	return true;
}

static int linux_resident(void *arg, uintptr_t addr, size_t len, uint8_t *pages)
{
	const struct os_linux *os = arg;
	uintptr_t end = addr + len;
	struct residents r;
	struct maps maps;
	struct vma vma;
	int ret;

	memset(pages, 0, len >> os->page_shift);
	if (os->pagemap < 0)
		return -EACCES;
	ret = maps_open(&maps);
	if (ret)
		return ret;
	for (uintptr_t p = addr; !ret && p < end && maps_find(&maps, p, &vma);) {
		uintptr_t stop = vma.end < end ? vma.end : end;

		if (vma.start > p)
			p = vma.start;
		if (p >= stop)
			break;
		r.pages = pages + ((p - addr) >> os->page_shift);
		ret = each_entry(os->pagemap, os->page_shift, p,
				 (stop - p) >> os->page_shift, &vma, note_residents, &r);
		p = stop;
	}
	maps_close(&maps);
	return ret;
}

/*
 * struct suspicion - may pages take long?
 * @plain:	the mapping is plain memory that nobody else has a userfaultfd on
 * @again:	they were fetched just now
 */
struct suspicion {
	bool write, plain, again, slow;
};

/*
 * A shared page of a file must ask its file system before it is written to, which may wait
 * for the disk; how long ago it did cannot be seen.
 */
static bool entry_slow(const struct suspicion *s, const struct vma *vma, uint64_t entry)
{
	if (s->plain)
		return entry & PAGEMAP_SWAP;
	if (!(entry & PAGEMAP_PRESENT))
		return true;
	return s->write &&
	       ((entry & PAGEMAP_UFFD_WP) || (vma->shared && vma->inode && !s->again));
}

static bool suspect(void *arg, const struct vma *vma, const uint64_t *entry, size_t n)
{
	struct suspicion *s = arg;

	for (size_t i = 0; i < n && !s->slow; i++)
		s->slow = entry_slow(s, vma, entry[i]);
	return !s->slow;
}

/* Pages of a mapping. Without a pagemap, what was fetched is trusted to be there. */
static bool vma_slow(struct os_linux *os, const struct vma *vma, uintptr_t addr,
		     uintptr_t end, struct suspicion *s)
{
	/* a fault that fails at once */
	if (!vma->readable || (s->write && !vma->writable))
		return false;
	s->plain = plain_is(&os->plain, vma) &&
		   (!os->uffd || uffd_watched(os->uffd, addr, end - addr));
	if (s->plain && !plain_swaps(&os->plain))
		return false;
	if (os->pagemap < 0)
		return !s->plain && !s->again;
	each_entry(os->pagemap, os->page_shift, addr, (end - addr) >> os->page_shift, vma,
		   suspect, s);
	return s->slow;
}

static bool range_slow(struct os_linux *os, uintptr_t addr, uintptr_t end,
		       struct suspicion *s)
{
	uint64_t gone = atomic_load(&os->plain.gone);
	struct maps maps;
	struct vma vma;
	bool slow = false;

	if (maps_open(&maps))
		return false;
	while (!slow && addr < end && maps_find(&maps, addr, &vma) && vma.start < end) {
		uintptr_t stop = vma.end < end ? vma.end : end;

		if (vma.start > addr)
			addr = vma.start;
		if (plain_is(&os->plain, &vma))
			plain_add(&os->plain, &vma, gone);
		slow = vma_slow(os, &vma, addr, stop, s);
		if (stop <= addr)
			break;
		addr = stop;
	}
	maps_close(&maps);
	return slow;
}

static bool linux_slow(void *arg, uintptr_t addr, size_t len, bool write, bool again)
{
	struct os_linux *os = arg;
	struct suspicion s = {.write = write, .again = again};
	uintptr_t last = addr + (len - 1);

	if (plain_known(&os->plain, addr, last) &&
	    (!os->uffd || uffd_watched(os->uffd, addr, len)) && !plain_swaps(&os->plain))
		return false;
	return range_slow(os, addr, last + 1, &s);
}

static int linux_defer(void *arg, struct odp_job *job)
{
	struct os_linux *os = arg;

	return pool_submit(&os->pool, job);
}

static bool linux_cancel(void *arg, struct odp_job *job)
{
	struct os_linux *os = arg;

	return pool_cancel(&os->pool, job);
}

static int linux_fetch(void *arg, uintptr_t addr, size_t len, bool write,
		       _Atomic bool *cancelled)
{
	const struct os_linux *os = arg;

	return pool_fetch(addr, len, (size_t)1 << os->page_shift, write, cancelled);
}

static bool linux_fickle(void *arg, uintptr_t addr, size_t len)
{
	struct os_linux *os = arg;
	uint64_t gone = atomic_load(&os->plain.gone);
	uintptr_t end = addr + len;
	bool fickle = false;
	struct maps maps;
	struct vma vma;

	if (plain_known(&os->plain, addr, end - 1) || maps_open(&maps))
		return false;
	while (!fickle && addr < end && maps_find(&maps, addr, &vma) && vma.start < end) {
		fickle = !plain_is(&os->plain, &vma);
		if (!fickle)
			plain_add(&os->plain, &vma, gone);
		addr = vma.end;
	}
	maps_close(&maps);
	return fickle;
}

/* Of few pages, as accesses have them */
static bool pages_away(const struct os_linux *os, uintptr_t addr, size_t len, bool write)
{
	size_t first = addr >> os->page_shift;
	size_t n = ((addr + (len - 1)) >> os->page_shift) - first + 1;
	uint64_t entry[16];

	while (n) {
		size_t step = n < 16 ? n : 16;

		if (sys_pread(os->pagemap, entry, step * sizeof(entry[0]),
			      (off_t)(first * sizeof(entry[0]))) !=
		    (ssize_t)(step * sizeof(entry[0])))
			return false;
		for (size_t i = 0; i < step; i++)
			if (!(entry[i] & PAGEMAP_PRESENT) ||
			    (write && (entry[i] & PAGEMAP_UFFD_WP)))
				return true;
		first += step;
		n -= step;
	}
	return false;
}

/* What a page that was present at this time is remembered by */
static uint64_t seen_mark(uint64_t page, uint64_t ms)
{
	return page << SEEN_BITS | ((ms / SEEN_MS + 1) & ((1u << SEEN_BITS) - 1));
}

/* Was each page of the range present lately? Else note that it is now, if @note */
static bool seen_lately(struct os_linux *os, uintptr_t addr, size_t len, bool note)
{
	uint64_t first = addr >> os->page_shift;
	uint64_t last = (addr + (len - 1)) >> os->page_shift;
	struct timespec now;
	uint64_t ms;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
	for (uint64_t page = first; page <= last; page++) {
		_Atomic uint64_t *seen = &os->seen[page % SEEN_PAGES];
		uint64_t mark = seen_mark(page, ms);

		if (note)
			atomic_store_explicit(seen, mark, memory_order_relaxed);
		else if (atomic_load_explicit(seen, memory_order_relaxed) != mark)
			return false;
	}
	return true;
}

/*
 * The kernel takes pages that nobody has used for long, so those that were used lately need not
 * be asked for again. A program with a userfaultfd takes any.
 */
static bool linux_away(void *arg, uintptr_t addr, size_t len, bool write, bool fickle)
{
	struct os_linux *os = arg;

	if ((!fickle && !others && !plain_swapped(&os->plain)) || os->pagemap < 0)
		return false;
	if (others)
		return pages_away(os, addr, len, write);
	if (seen_lately(os, addr, len, false))
		return false;
	if (pages_away(os, addr, len, write))
		return true;
	seen_lately(os, addr, len, true);
	return false;
}

static int linux_watch(void *arg, uintptr_t addr, size_t len)
{
	struct os_linux *os = arg;
	int ret = os->uffd ? uffd_watch(os->uffd, addr, len) : -os->uffd_errno;

	if (ret == -EBUSY)
		others = true;
	return ret;
}

static void linux_unwatch(void *arg, uintptr_t addr, size_t len)
{
	struct os_linux *os = arg;

	if (os->uffd)
		uffd_unwatch(os->uffd, addr, len);
}

static size_t linux_page_size(void *arg, uintptr_t addr)
{
	struct maps maps;
	struct vma vma;
	size_t size = 0;

	if (maps_open(&maps))
		return 0;
	if (maps_find(&maps, addr, &vma) && vma.start <= addr)
		size = vma.page_size ? vma.page_size : maps_page_size(addr);
	maps_close(&maps);
	return size;
}

static uint64_t linux_now(void *arg)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

const struct odp_os os_linux_ops = {
    .populate = linux_populate,
    .copy = linux_copy,
    .cmp_swap = linux_cmp_swap,
    .fetch_add = linux_fetch_add,
    .store64 = linux_store64,
    .resident = linux_resident,
    .slow = linux_slow,
    .defer = linux_defer,
    .cancel = linux_cancel,
    .fetch = linux_fetch,
    .pin = linux_pin,
    .fickle = linux_fickle,
    .away = linux_away,
    .watch = linux_watch,
    .unwatch = linux_unwatch,
    .page_size = linux_page_size,
    .now = linux_now,
};

/* --- life ------------------------------------------------------------------------- */

/*
 * Does the kernel populate? Emulators of user mode, which do not know what it is, answer 0
 * and do nothing: so it must also refuse memory that nobody may read.
 */
static bool has_populate(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p = sys_map_anon(page, PROT_READ);
	bool has;

	if (p == MAP_FAILED)
		return false;
	has = !sys_madvise((uintptr_t)p, page, MADV_POPULATE_READ) &&
	      !sys_mprotect(p, page, PROT_NONE) &&
	      sys_madvise((uintptr_t)p, page, MADV_POPULATE_READ);
	sys_munmap(p, page);
	return has;
}

int os_linux_create(bool uffd, const struct uffd_hooks *hooks, void *arg,
		    struct os_linux **out)
{
	struct os_linux *os = calloc(1, sizeof(*os));

	if (!os)
		return -ENOMEM;
	os->page_shift = (uint8_t)__builtin_ctzl(sysconf(_SC_PAGESIZE));
	os->populate = has_populate();
	os->pagemap = sys_out_of_the_way(sys_open("/proc/self/pagemap", O_RDONLY));
	plain_init(&os->plain, (size_t)1 << os->page_shift);
	pool_init(&os->pool);
	*out = os; /* before there is a monitor, which looks at it */
	os->uffd_errno = uffd ? -uffd_open(hooks, arg, &os->uffd) : ECANCELED;
	return 0;
}

void os_linux_destroy(struct os_linux *os)
{
	pool_fini(&os->pool);
	plain_fini(&os->plain);
	if (os->uffd)
		uffd_close(os->uffd);
	if (os->pagemap >= 0)
		sys_close(os->pagemap);
	free(os);
}

void os_linux_abandon(struct os_linux *os)
{
	if (os->uffd)
		uffd_abandon(os->uffd);
	if (os->pagemap >= 0)
		sys_close(os->pagemap);
}

bool os_linux_release(struct os_linux *os, uintptr_t addr, size_t len)
{
	return os->uffd && uffd_release(os->uffd, addr, len);
}

void os_linux_released(struct os_linux *os, uintptr_t addr, size_t len, bool again)
{
	uffd_released(os->uffd, addr, len, again);
}

void os_linux_yield_begin(struct os_linux *os, uintptr_t addr, size_t len)
{
	if (os->uffd)
		uffd_yield_begin(os->uffd, addr, len);
}

void os_linux_yield_end(struct os_linux *os)
{
	if (os->uffd)
		uffd_yield_end(os->uffd);
}

void odp_others_watch(void)
{
	others = true;
}

void os_linux_forget(struct os_linux *os, uintptr_t first, uintptr_t last)
{
	plain_forget(&os->plain, first, last);
}

void os_linux_caps(const struct os_linux *os, struct odp_caps *caps)
{
	caps->uffd = os->uffd;
	caps->populate = os->populate;
	caps->pagemap = os->pagemap >= 0;
	caps->uffd_errno = os->uffd_errno;
	caps->uffd_events = os->uffd ? uffd_events(os->uffd) : 0;
	caps->uffd_areas = os->uffd ? uffd_areas(os->uffd) : 0;
}

int os_linux_fds(const struct os_linux *os, int *fds, int max)
{
	int own[UFFD_FDS + 1] = {-1, -1, os->pagemap}, n = 0;

	if (os->uffd)
		uffd_fds(os->uffd, own);
	for (int i = 0; i < UFFD_FDS + 1; i++)
		if (own[i] >= 0 && n < max)
			fds[n++] = own[i];
	return n;
}

void os_linux_private(struct os_linux *os,
		      void (*fn)(void *arg, uintptr_t first, size_t len), void *arg)
{
	struct maps maps;
	struct vma vma;

	if (maps_open(&maps)) {
		fn(arg, 0, SIZE_MAX);
		return;
	}
	for (uintptr_t p = 0; maps_find(&maps, p, &vma); p = vma.end)
		if (!vma.shared)
			fn(arg, vma.start, vma.end - vma.start);
	maps_close(&maps);
}
