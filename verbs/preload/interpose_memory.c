/*
 * interpose_memory.c - what the program does to its address space.
 *
 * The page tables of on-demand MRs must forget a page whose mapping changed. The kernel
 * tells by userfaultfd, but then the program waits until the monitor has read the event;
 * so the range is taken out of the userfaultfd before the real call, where possible, and
 * the tables are told here (odp_change_begin() and _end()). mprotect(2) and files that
 * shrink make no event: the tables are told of them in any case, and of everything where
 * there is no userfaultfd. The tables are told after the real call: if the HCA touches
 * the page in between, its guarded copy faults and that is an invalidation as well; the
 * other way round it could fault the page in again and keep the entry over the change.
 */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "verbs/engine/checker.h"
#include "verbs/engine/engine.h"
#include "verbs/preload/interpose.h"

/* Linux 5.4, 5.7, 5.18, 6.13 */
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif
#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define INVALIDATING_FALLOC                                                              \
	(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | FALLOC_FL_COLLAPSE_RANGE |        \
	 FALLOC_FL_INSERT_RANGE)

/* The page tables, NULL if there are none */
EARLY static struct odp_domain *domain(void)
{
	struct engine *e = engine_running();

	return e ? engine_odp(e) : NULL;
}

/* The errno of the real call survives. */
EARLY static void invalidate(struct odp_domain *dom, const void *addr, size_t len,
			     enum trace_inval cause)
{
	int err = errno;

	if (dom)
		odp_invalidate(dom, (uintptr_t)addr, len, cause);
	errno = err;
}

EARLY static size_t whole_pages(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (len + page - 1) & ~(page - 1);
}

/* Let the checker of the run know first. */
EARLY static void tell(enum checker_change what, const void *addr, size_t len)
{
	const struct checker *c = checker_get();
	int err = errno;

	if (c && len)
		c->memory(what, addr, len);
	errno = err;
}

/*
 * struct change - of a range that the kernel could tell of
 * @dom:	NULL: there are no page tables
 * @released:	it will not, see odp_change_begin()
 * @cause:	for records
 */
struct change {
	struct odp_domain *dom;
	uintptr_t addr;
	size_t len;
	bool released;
	enum trace_inval cause;
};

EARLY static struct change change_begin_if(const void *addr, size_t len,
					   enum trace_inval cause, bool anyway)
{
	struct engine *e = engine_running();
	struct change c = {
	    .addr = (uintptr_t)addr, .len = whole_pages(len), .cause = cause};
	int err = errno;

	if (e) {
		c.dom = engine_odp(e);
		c.released = odp_change_begin(c.dom, c.addr, c.len, anyway);
	}
	errno = err;
	return c;
}

EARLY static struct change change_begin(const void *addr, size_t len,
					enum trace_inval cause)
{
	return change_begin_if(addr, len, cause, true);
}

/* @done: the range is not what it was; @remains: it is mapped still */
EARLY static void change_end(const struct change *c, bool done, bool remains)
{
	int err = errno;

	if (c->released)
		odp_change_end(c->dom, c->addr, c->len, remains, c->cause);
	else if (c->dom && done && odp_domain_blind(c->dom))
		odp_invalidate(c->dom, c->addr, c->len, c->cause);
	errno = err;
}

INTERPOSE int munmap(void *addr, size_t len)
{
	struct change c;
	int ret;

	tell(CHECKER_UNMAP, addr, len);
	c = change_begin_if(addr, len, TRACE_INVAL_UNMAP, false);
	ret = REAL(munmap)(addr, len);
	change_end(&c, !ret, ret);
	return ret;
}

EARLY static bool replaces(int flags)
{
	return flags & MAP_FIXED && !(flags & MAP_FIXED_NOREPLACE);
}

/*
 * What takes the place of watched memory is watched at once: so it becomes one mapping
 * with its neighbours where it would have without us, and mremap(2) can move it with
 * them.
 */
INTERPOSE void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	struct change c;
	void *p;

	tell(CHECKER_REPLACE, addr, replaces(flags) ? len : 0);
	c = change_begin(addr, flags & MAP_FIXED ? len : 0, TRACE_INVAL_REPLACE);
	p = REAL(mmap)(addr, len, prot, flags, fd, offset);
	change_end(&c, p != MAP_FAILED, true);
	return p;
}

INTERPOSE void *mmap64(void *addr, size_t len, int prot, int flags, int fd,
		       off64_t offset)
{
	struct change c;
	void *p;

	tell(CHECKER_REPLACE, addr, replaces(flags) ? len : 0);
	c = change_begin(addr, flags & MAP_FIXED ? len : 0, TRACE_INVAL_REPLACE);
	p = REAL(mmap64)(addr, len, prot, flags, fd, offset);
	change_end(&c, p != MAP_FAILED, true);
	return p;
}

/* In place: only a tail can go */
EARLY static void *resize(void *old, size_t old_len, size_t len)
{
	size_t kept = whole_pages(len), had = whole_pages(old_len);
	struct change c = change_begin(
	    (char *)old + kept, kept < had && kept ? had - kept : 0, TRACE_INVAL_REMAP);
	void *p = REAL(mremap)(old, old_len, len, 0, NULL);

	if (p != MAP_FAILED && kept < had)
		tell(CHECKER_UNMAP, (char *)old + kept, had - kept);
	change_end(&c, p != MAP_FAILED, p == MAP_FAILED);
	return p;
}

/*
 * What can stay where it is does: that is how mremap(2) has it, and only what moves is to
 * be forgotten.
 */
INTERPOSE void *mremap(void *old, size_t old_len, size_t len, int flags, ...)
{
	bool fixed = flags & MREMAP_FIXED;
	struct change from, target;
	void *to = NULL, *p;
	va_list ap;

	if (flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) { /* an address, or a hint */
		va_start(ap, flags);
		to = va_arg(ap, void *);
		va_end(ap);
	}
	if (domain() && old_len && !(flags & ~MREMAP_MAYMOVE)) {
		p = resize(old, old_len, len);
		if (p != MAP_FAILED || errno != ENOMEM || !flags)
			return p;
	}
	tell(CHECKER_REPLACE, to, fixed ? len : 0);
	from = change_begin(old, old_len, TRACE_INVAL_REMAP);
	target = change_begin(to, fixed ? len : 0, TRACE_INVAL_REMAP);
	p = REAL(mremap)(old, old_len, len, flags, to);
	change_end(&from, p != MAP_FAILED && p != old,
		   p == MAP_FAILED || p == old || flags & MREMAP_DONTUNMAP);
	change_end(&target, p != MAP_FAILED, p == MAP_FAILED);
	if (p != MAP_FAILED && p != old)
		tell(CHECKER_UNMAP, old, old_len);
	return p;
}

/* The contents go, and userfaultfd tells of it; madvise(2) */
EARLY static bool discards(int advice)
{
	switch (advice) {
	case MADV_DONTNEED:
	case MADV_DONTNEED_LOCKED:
	case MADV_FREE:
	case MADV_REMOVE:
		return true;
	default:
		return false;
	}
}

/*
 * The tables are to be told: the event of what is discarded comes before that is done, so a
 * racing fault may slip in. There is none at all for the other two.
 */
EARLY static bool forgets(int advice)
{
	return discards(advice) || advice == MADV_PAGEOUT || advice == MADV_GUARD_INSTALL;
}

INTERPOSE int madvise(void *addr, size_t len, int advice)
{
	struct change c;
	int ret;

	tell(CHECKER_DISCARD, addr, discards(advice) ? len : 0);
	tell(CHECKER_DONTFORK, addr, advice == MADV_DONTFORK ? len : 0);
	c = change_begin_if(addr, discards(advice) ? len : 0, TRACE_INVAL_DISCARD, false);
	ret = REAL(madvise)(addr, len, advice);
	change_end(&c, false, true);
	if (!ret && forgets(advice))
		invalidate(domain(), addr, len, TRACE_INVAL_DISCARD);
	return ret;
}

/*
 * The ranges may be of another process, where the same addresses mean other memory: then pages
 * fault once more than they need. How much of it was done does not matter either.
 */
INTERPOSE ssize_t process_madvise(int pidfd, const struct iovec *v, size_t n, int advice,
				  unsigned int flags)
{
	struct odp_domain *dom = domain();
	ssize_t done;

	if (!REAL(process_madvise)) {
		errno = ENOSYS;
		return -1;
	}
	done = REAL(process_madvise)(pidfd, v, n, advice, flags);
	for (size_t i = 0; done > 0 && dom && forgets(advice) && i < n; i++)
		invalidate(dom, v[i].iov_base, v[i].iov_len, TRACE_INVAL_DISCARD);
	return done;
}

/* glibc's POSIX_MADV_DONTNEED does nothing: there is nothing to interpose. */

INTERPOSE int mprotect(void *addr, size_t len, int prot)
{
	int ret = REAL(mprotect)(addr, len, prot);

	if (!ret)
		invalidate(domain(), addr, len, TRACE_INVAL_PROTECT);
	return ret;
}

INTERPOSE int pkey_mprotect(void *addr, size_t len, int prot, int pkey)
{
	int ret = REAL(pkey_mprotect)(addr, len, prot, pkey);

	if (!ret)
		invalidate(domain(), addr, len, TRACE_INVAL_PROTECT);
	return ret;
}

/* --- files under mappings --------------------------------------------------------- */

/* struct mapping - a line of /proc/self/maps; proc(5) */
struct mapping {
	unsigned long start, end, offset, inode;
};

/* The next one that can be read; false at the end */
static bool next_mapping(FILE *f, struct mapping *m)
{
	char line[512];

	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx %*s %lu", &m->start, &m->end,
			   &m->offset, &m->inode) == 4)
			return true;
	return false;
}

/*
 * The content of a file from byte @from on is gone: what is mapped of it?
 * Over-invalidation costs a fault, so the inode number alone decides (maps and stat
 * disagree about the device on some file systems).
 */
static void invalidate_inode(struct odp_domain *dom, ino_t inode, off64_t from)
{
	struct mapping m;
	FILE *f = fopen("/proc/self/maps", "re");

	while (f && next_mapping(f, &m)) {
		if (m.inode != inode ||
		    m.offset + (m.end - m.start) <= (unsigned long)from)
			continue;
		if (m.offset < (unsigned long)from)
			m.start += (unsigned long)from - m.offset;
		invalidate(dom, (void *)m.start, m.end - m.start, TRACE_INVAL_FILE);
	}
	if (f)
		fclose(f);
}

static void invalidate_file(struct odp_domain *dom, int fd, off64_t from)
{
	struct stat st;
	int err = errno;

	if (dom && !fstat(fd, &st))
		invalidate_inode(dom, st.st_ino, from);
	errno = err;
}

static void invalidate_path(struct odp_domain *dom, const char *path, off64_t from)
{
	struct stat st;
	int err = errno;

	if (dom && !stat(path, &st))
		invalidate_inode(dom, st.st_ino, from);
	errno = err;
}

INTERPOSE int truncate(const char *path, off_t len)
{
	int ret = REAL(truncate)(path, len);

	if (!ret)
		invalidate_path(domain(), path, len);
	return ret;
}

INTERPOSE int truncate64(const char *path, off64_t len)
{
	int ret = REAL(truncate64)(path, len);

	if (!ret)
		invalidate_path(domain(), path, len);
	return ret;
}

INTERPOSE int ftruncate(int fd, off_t len)
{
	int ret = REAL(ftruncate)(fd, len);

	if (!ret)
		invalidate_file(domain(), fd, len);
	return ret;
}

INTERPOSE int ftruncate64(int fd, off64_t len)
{
	int ret = REAL(ftruncate64)(fd, len);

	if (!ret)
		invalidate_file(domain(), fd, len);
	return ret;
}

INTERPOSE int fallocate(int fd, int mode, off_t offset, off_t len)
{
	int ret = REAL(fallocate)(fd, mode, offset, len);

	if (!ret && mode & INVALIDATING_FALLOC)
		invalidate_file(domain(), fd, offset);
	return ret;
}

INTERPOSE int fallocate64(int fd, int mode, off64_t offset, off64_t len)
{
	int ret = REAL(fallocate64)(fd, mode, offset, len);

	if (!ret && mode & INVALIDATING_FALLOC)
		invalidate_file(domain(), fd, offset);
	return ret;
}

/* --- System V shared memory, of which the kernel sends no event ------------------- */

/* The length of the segment that is attached at @addr, as far as it is still in one piece */
static size_t attached(const void *addr)
{
	struct mapping m;
	size_t len = 0;
	FILE *f = domain() ? fopen("/proc/self/maps", "re") : NULL;

	while (f && !len && next_mapping(f, &m))
		if (m.start == (unsigned long)addr)
			len = m.end - m.start;
	if (f)
		fclose(f);
	return len;
}

INTERPOSE int shmdt(const void *addr)
{
	size_t len = attached(addr);
	struct change c;
	int ret;

	tell(CHECKER_UNMAP, addr, len);
	c = change_begin(addr, len, TRACE_INVAL_SEGMENT);
	ret = REAL(shmdt)(addr);
	change_end(&c, !ret, ret);
	if (!ret)
		invalidate(domain(), addr, len, TRACE_INVAL_SEGMENT);
	return ret;
}

/* With SHM_REMAP it takes the place of what was there. */
INTERPOSE void *shmat(int id, const void *addr, int flags)
{
	struct shmid_ds seg = {0};
	struct change c;
	void *p;

	if (flags & SHM_REMAP && domain() && shmctl(id, IPC_STAT, &seg))
		seg.shm_segsz = 0;
	c = change_begin(addr, seg.shm_segsz, TRACE_INVAL_SEGMENT);
	p = REAL(shmat)(id, addr, flags);
	change_end(&c, p != (void *)-1, true);
	if (p != (void *)-1 && seg.shm_segsz)
		invalidate(domain(), p, seg.shm_segsz, TRACE_INVAL_SEGMENT);
	return p;
}
