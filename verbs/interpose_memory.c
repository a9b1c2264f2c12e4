/*
 * interpose_memory.c - what the program does to its address space.
 *
 * The page tables of on-demand MRs must forget a page whose mapping changed. Where
 * userfaultfd tells it, nothing is done here, except for mprotect(2) and for files that
 * shrink, which make no event. The real call comes first: if the HCA touches the page
 * between call and invalidation, its guarded copy faults and that is an invalidation as
 * well; the other way round it could fault the page in again and keep the entry over the
 * change.
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
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/engine.h"
#include "verbs/interpose.h"

#define INVALIDATING_FALLOC                                                              \
	(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE | FALLOC_FL_COLLAPSE_RANGE |        \
	 FALLOC_FL_INSERT_RANGE)

/*
 * The page tables, if somebody but the kernel must tell them. @silent: the kernel never
 * does
 */
static struct odp_domain *domain(bool silent)
{
	struct engine *e = engine_running();

	if (!e)
		return NULL;
	return silent || odp_domain_blind(engine_odp(e)) ? engine_odp(e) : NULL;
}

/* The errno of the real call survives. */
static void invalidate(struct odp_domain *dom, const void *addr, size_t len)
{
	int err = errno;

	if (dom)
		odp_invalidate(dom, (uintptr_t)addr, len);
	errno = err;
}

INTERPOSE int munmap(void *addr, size_t len)
{
	int err = REAL(munmap)(addr, len);

	if (!err)
		invalidate(domain(false), addr, len);
	return err;
}

INTERPOSE void *mmap(void *addr, size_t len, int prot, int flags, int fd, off_t offset)
{
	void *p = REAL(mmap)(addr, len, prot, flags, fd, offset);

	if (p != MAP_FAILED && flags & MAP_FIXED)
		invalidate(domain(false), p, len);
	return p;
}

INTERPOSE void *mmap64(void *addr, size_t len, int prot, int flags, int fd,
		       off64_t offset)
{
	void *p = REAL(mmap64)(addr, len, prot, flags, fd, offset);

	if (p != MAP_FAILED && flags & MAP_FIXED)
		invalidate(domain(false), p, len);
	return p;
}

static size_t whole_pages(size_t len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (len + page - 1) & ~(page - 1);
}

INTERPOSE void *mremap(void *old, size_t old_len, size_t len, int flags, ...)
{
	void *to = NULL, *p;
	va_list ap;

	if (flags & MREMAP_FIXED) {
		va_start(ap, flags);
		to = va_arg(ap, void *);
		va_end(ap);
	}
	p = REAL(mremap)(old, old_len, len, flags, to);
	if (p == MAP_FAILED)
		return p;
	if (p != old)
		invalidate(domain(false), old, old_len);
	else if (whole_pages(len) < old_len)
		invalidate(domain(false), (char *)old + whole_pages(len),
			   old_len - whole_pages(len));
	if (flags & MREMAP_FIXED)
		invalidate(domain(false), p, len);
	return p;
}

INTERPOSE int madvise(void *addr, size_t len, int advice)
{
	int err = REAL(madvise)(addr, len, advice);

	if (err)
		return err;
	/* userfaultfd tells of these before the kernel discards, so a racing fault may slip in. */
	if (advice == MADV_DONTNEED || advice == MADV_FREE || advice == MADV_REMOVE)
		invalidate(domain(true), addr, len);
#ifdef MADV_PAGEOUT
	else if (advice == MADV_PAGEOUT)
		invalidate(domain(true), addr, len);
#endif
	return err;
}

/* glibc's POSIX_MADV_DONTNEED does nothing: there is nothing to interpose. */

INTERPOSE int mprotect(void *addr, size_t len, int prot)
{
	int err = REAL(mprotect)(addr, len, prot);

	if (!err)
		invalidate(domain(true), addr, len);
	return err;
}

INTERPOSE int pkey_mprotect(void *addr, size_t len, int prot, int pkey)
{
	int err = REAL(pkey_mprotect)(addr, len, prot, pkey);

	if (!err)
		invalidate(domain(true), addr, len);
	return err;
}

/* --- files under mappings --------------------------------------------------------- */

/*
 * The content of @fd from byte @from on is gone: what is mapped of it? Over-invalidation
 * costs a fault, so the inode number alone decides (maps and stat disagree about the
 * device on some file systems).
 */
static void invalidate_file(struct odp_domain *dom, int fd, off_t from)
{
	unsigned long start, end, offset, inode;
	struct stat st;
	char line[512];
	FILE *f;

	if (!dom || fstat(fd, &st))
		return;
	f = fopen("/proc/self/maps", "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %*s %lx %*s %lu", &start, &end, &offset,
			   &inode) != 4 ||
		    inode != st.st_ino || offset + (end - start) <= (unsigned long)from)
			continue;
		if (offset < (unsigned long)from)
			start += (unsigned long)from - offset;
		invalidate(dom, (void *)start, end - start);
	}
	if (f)
		fclose(f);
}

INTERPOSE int ftruncate(int fd, off_t len)
{
	int err = REAL(ftruncate)(fd, len);

	if (!err)
		invalidate_file(domain(true), fd, len);
	return err;
}

INTERPOSE int ftruncate64(int fd, off64_t len)
{
	int err = REAL(ftruncate64)(fd, len);

	if (!err)
		invalidate_file(domain(true), fd, len);
	return err;
}

INTERPOSE int fallocate(int fd, int mode, off_t offset, off_t len)
{
	int err = REAL(fallocate)(fd, mode, offset, len);

	if (!err && mode & INVALIDATING_FALLOC)
		invalidate_file(domain(true), fd, offset);
	return err;
}

INTERPOSE int fallocate64(int fd, int mode, off64_t offset, off64_t len)
{
	int err = REAL(fallocate64)(fd, mode, offset, len);

	if (!err && mode & INVALIDATING_FALLOC)
		invalidate_file(domain(true), fd, offset);
	return err;
}
