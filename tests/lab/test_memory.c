/*
 * Description: RDMA traffic over memory of every kind, and what happens to it afterwards:
 * unmapped, replaced, moved, discarded, protected, truncated, forked. The next access
 * takes a page fault again, and then there is what the CPU sees, or the error of the
 * specification.
 */
#include "lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif
#define PAGES 8
#define LEN   (PAGES * LAB_PAGE)
#define HUGE  (2u << 20)

static struct lab l;

/*
 * struct region - memory under test
 * @fd: of the file behind it, or -1
 */
struct region {
	char *p;
	size_t len;
	int fd;
	bool shared;
};

/* --- kinds of memory -------------------------------------------------------------- */

static bool map(struct region *r, int flags, int fd)
{
	void *p = mmap(NULL, r->len, PROT_READ | PROT_WRITE, flags, fd, 0);

	r->p = p;
	r->fd = fd;
	r->shared = flags & MAP_SHARED;
	return p != MAP_FAILED;
}

static bool make_anonymous(struct region *r)
{
	return map(r, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static bool make_anonymous_shared(struct region *r)
{
	return map(r, MAP_SHARED | MAP_ANONYMOUS, -1);
}

static bool make_shm(struct region *r)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "/urxe-test-%d", (int)getpid());
	fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
	ck_assert_int_ge(fd, 0);
	shm_unlink(name);
	ck_assert_int_eq(ftruncate(fd, (off_t)r->len), 0);
	return map(r, MAP_SHARED, fd);
}

static bool make_memfd(struct region *r)
{
	int fd = memfd_create("urxe-test", MFD_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)r->len), 0);
	return map(r, MAP_SHARED, fd);
}

static int temporary_file(size_t len)
{
	const char *dir = getenv("TMPDIR");
	char path[256];
	int fd;

	snprintf(path, sizeof(path), "%s/urxe-test-XXXXXX", dir ? dir : "/tmp");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	unlink(path);
	ck_assert_int_eq(ftruncate(fd, (off_t)len), 0);
	return fd;
}

static bool make_file_shared(struct region *r)
{
	return map(r, MAP_SHARED, temporary_file(r->len));
}

static bool make_file_private(struct region *r)
{
	return map(r, MAP_PRIVATE, temporary_file(r->len));
}

static bool make_heap(struct region *r)
{
	r->p = malloc(r->len); /* below M_MMAP_THRESHOLD */
	return r->p;
}

static bool make_hugetlb(struct region *r)
{
	r->len = HUGE;
	return map(r, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1);
}

static bool make_thp(struct region *r)
{
	r->len = 2 * HUGE;
	if (!map(r, MAP_PRIVATE | MAP_ANONYMOUS, -1))
		return false;
	r->p += HUGE - (uintptr_t)r->p % HUGE;
	r->len = HUGE;
	return madvise(r->p, r->len, MADV_HUGEPAGE) == 0;
}

static const struct kind {
	const char *name;
	bool (*make)(struct region *r);
	bool heap;
} kinds[] = {
    {"anonymous", make_anonymous, false},
    {"anonymous shared", make_anonymous_shared, false},
    {"shm", make_shm, false},
    {"memfd", make_memfd, false},
    {"file shared", make_file_shared, false},
    {"file private", make_file_private, false},
    {"THP", make_thp, false},
    {"hugetlb", make_hugetlb, false},
    {"heap", make_heap, true},
};
#define KINDS	   9
#define REMAPPABLE 6 /* the first: pages of the base size that can be unmapped */

static struct ibv_mr *mr, *pinned;
static char *buf;

/* False: this machine has no such memory */
static bool begin(const struct kind *k, struct region *r)
{
	*r = (struct region){.len = LEN, .fd = -1};
	if (!k->make(r))
		return false;
	lab_begin(&l);
	buf = lab_map(HUGE / LAB_PAGE);
	pinned = lab_reg(&l, buf, HUGE, LAB_ACCESS);
	mr = lab_reg(&l, r->p, r->len, LAB_ODP);
	return true;
}

static void end(void)
{
	ibv_dereg_mr(mr);
	ibv_dereg_mr(pinned);
	lab_close(&l);
}

/* All operations over @len bytes of the region, against what the CPU sees */
static void traffic(char *p, uint32_t len, unsigned int seed)
{
	uint64_t *counter = (uint64_t *)(((uintptr_t)p + 7) & ~7ul), old;

	lab_fill(buf, len, seed);
	ck_assert_int_eq(lab_write(&l, pinned, buf, mr, p, len), IBV_WC_SUCCESS);
	ck_assert(lab_is(p, len, seed));
	lab_fill(p, len, seed + 1);
	ck_assert_int_eq(lab_read(&l, pinned, buf, mr, p, len), IBV_WC_SUCCESS);
	ck_assert(lab_is(buf, len, seed + 1));
	lab_fill(buf, len, seed + 2);
	ck_assert_int_eq(lab_send(&l, pinned, buf, mr, p, len), IBV_WC_SUCCESS);
	ck_assert(lab_is(p, len, seed + 2));
	lab_fill(buf, len, seed + 3);
	ck_assert_int_eq(lab_read(&l, mr, p, pinned, buf, len), IBV_WC_SUCCESS);
	ck_assert(lab_is(p, len, seed + 3));
	lab_fill(p, len, seed + 4);
	ck_assert_int_eq(lab_write(&l, mr, p, pinned, buf, len), IBV_WC_SUCCESS);
	ck_assert(lab_is(buf, len, seed + 4));
	old = *counter;
	ck_assert_int_eq(lab_add(&l, pinned, (uint64_t *)buf, mr, counter, 5),
			 IBV_WC_SUCCESS);
	ck_assert_uint_eq(*counter, old + 5);
	ck_assert_uint_eq(*(uint64_t *)buf, old);
}

START_TEST(traffic_goes_on_over_changes_of_memory)
{
	struct region r;
	uint64_t first;

	if (!begin(&kinds[_i], &r))
		return;
	traffic(r.p, (uint32_t)r.len, 10);
	first = lab_faults(mr);
	ck_assert_uint_ge(first, 1);
	traffic(r.p, (uint32_t)r.len, 20);
	/* nothing happened meanwhile, but maybe to huge pages and to pages of files */
	if (kinds[_i].make == make_anonymous || kinds[_i].make == make_memfd)
		ck_assert_uint_eq(lab_faults(mr), first);
	/* an odd place */
	traffic(r.p + 4091, 11, 30);
	end();
	if (kinds[_i].heap)
		free(r.p);
}
END_TEST

START_TEST(traffic_over_the_stack)
{
	char on_stack[3 * LAB_PAGE];

	lab_begin(&l);
	buf = lab_map(16);
	pinned = lab_reg(&l, buf, 16 * LAB_PAGE, LAB_ACCESS);
	mr = lab_reg(&l, on_stack, sizeof(on_stack), LAB_ODP);
	traffic(on_stack, sizeof(on_stack), 1);
	ck_assert_uint_ge(lab_faults(mr), 1);
	end();
}
END_TEST

/* --- what can happen to pages 2 to 4 of a region ---------------------------------- */

#define FROM	(2 * LAB_PAGE)
#define CHANGED (3 * LAB_PAGE)

enum outcome {
	GONE,	  /* no access */
	READABLE, /* only reading */
	THERE,	  /* both, with what the CPU sees */
};

/* Each returns 0, or 1 if this kind of memory knows no such thing */

static int do_munmap(struct region *r)
{
	return munmap(r->p + FROM, CHANGED) ? -1 : 0;
}

static int do_replace(struct region *r)
{
	char *p = mmap(r->p + FROM, CHANGED, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	memset(p, 0x5a, CHANGED);
	return p == r->p + FROM ? 0 : -1;
}

static int do_move(struct region *r)
{
	return mremap(r->p + FROM, CHANGED, CHANGED, MREMAP_MAYMOVE | MREMAP_FIXED,
		      lab_map(PAGES)) == MAP_FAILED
		   ? -1
		   : 0;
}

static int do_shrink(struct region *r)
{
	return mremap(r->p, r->len, FROM, 0) == r->p ? 0 : -1;
}

static int do_dontneed(struct region *r)
{
	return madvise(r->p + FROM, CHANGED, MADV_DONTNEED);
}

static int do_free(struct region *r)
{
	if (r->shared || r->fd >= 0)
		return 1;
	return madvise(r->p + FROM, CHANGED, MADV_FREE);
}

static int do_remove(struct region *r)
{
	if (!r->shared)
		return 1;
	return madvise(r->p + FROM, CHANGED, MADV_REMOVE);
}

static int do_protect_all(struct region *r)
{
	return mprotect(r->p + FROM, CHANGED, PROT_NONE);
}

static int do_protect_write(struct region *r)
{
	return mprotect(r->p + FROM, CHANGED, PROT_READ);
}

static int do_truncate(struct region *r)
{
	/* private pages that were written are copies, which truncation takes, too */
	return r->fd < 0 ? 1 : ftruncate(r->fd, FROM);
}

static const struct change {
	const char *name;
	int (*run)(struct region *r);
	enum outcome outcome;
} changes[] = {
    {"munmap", do_munmap, GONE},
    {"MAP_FIXED", do_replace, THERE},
    {"mremap, moved", do_move, GONE},
    {"mremap, shrunk", do_shrink, GONE},
    {"MADV_DONTNEED", do_dontneed, THERE},
    {"MADV_FREE", do_free, THERE},
    {"MADV_REMOVE", do_remove, THERE},
    {"mprotect(PROT_NONE)", do_protect_all, GONE},
    {"mprotect(PROT_READ)", do_protect_write, READABLE},
    {"ftruncate", do_truncate, GONE},
};
#define CHANGES 10

static void expect_reading(char *p, enum outcome o)
{
	uint64_t before = lab_faults(mr);
	enum ibv_wc_status s = lab_read(&l, pinned, buf, mr, p, LAB_PAGE);

	ck_assert_int_eq(s, o == GONE ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
	ck_assert_uint_gt(lab_faults(mr), before);
	if (o != GONE)
		ck_assert(!memcmp(buf, p, LAB_PAGE));
	else
		lab_connect(&l);
}

static void expect_writing(char *p, enum outcome o)
{
	enum ibv_wc_status s;

	lab_fill(buf, LAB_PAGE, 77);
	s = lab_write(&l, pinned, buf, mr, p, LAB_PAGE);
	ck_assert_int_eq(s, o == THERE ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
	if (o == THERE)
		ck_assert(lab_is(p, LAB_PAGE, 77));
	else
		lab_connect(&l);
}

/* As a work request's own memory */
static void expect_local(char *p, enum outcome o)
{
	enum ibv_wc_status s = lab_write(&l, mr, p, pinned, buf, LAB_PAGE);

	ck_assert_int_eq(s, o == GONE ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
	if (o != GONE)
		ck_assert(!memcmp(buf, p, LAB_PAGE));
	else
		lab_connect(&l);
	s = lab_read(&l, mr, p, pinned, buf, LAB_PAGE);
	ck_assert_int_eq(s, o == THERE ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR);
	if (o != THERE)
		lab_connect(&l);
}

START_TEST(next_access_faults_again)
{
	const struct kind *k = &kinds[_i / CHANGES];
	const struct change *c = &changes[_i % CHANGES];
	struct urxe_counters before, after;
	struct region r;
	int ret;

	if (!begin(k, &r))
		return;
	traffic(r.p, LEN, 1);
	before = lab_counters(mr);
	ck_assert_uint_eq(before.pages_cached, PAGES);
	ret = c->run(&r);
	ck_assert_msg(ret >= 0, "%s: %s: %s", k->name, c->name, strerror(errno));
	if (ret == 0) {
		expect_reading(r.p + FROM + LAB_PAGE, c->outcome);
		expect_writing(r.p + FROM + LAB_PAGE, c->outcome);
		expect_local(r.p + FROM + 2 * LAB_PAGE, c->outcome);
		after = lab_counters(mr);
		ck_assert_uint_ge(after.invalidations, before.invalidations + 1);
		ck_assert_uint_ge(after.page_invalidations,
				  before.page_invalidations + 1);
		/* what was not changed is as before, and took no fault */
		if (c->run != do_shrink && c->run != do_truncate)
			expect_local(r.p + 6 * LAB_PAGE, THERE);
		expect_local(r.p, THERE);
		ck_assert(lab_cached(mr, r.p, URXE_PAGE_WRITE));
		if (c->outcome == GONE)
			ck_assert(!lab_cached(mr, r.p + FROM + LAB_PAGE, URXE_PAGE_READ));
		if (c->outcome == READABLE)
			ck_assert(
			    !lab_cached(mr, r.p + FROM + LAB_PAGE, URXE_PAGE_WRITE));
	}
	end();
}
END_TEST

/*
 * With events or interposition the page table knows at once, not only at the next access.
 */
START_TEST(the_page_table_knows_at_once)
{
	const struct change *c = &changes[_i];
	struct region r;

	if (!begin(&kinds[0], &r))
		return;
	traffic(r.p, LEN, 1);
	if (c->run(&r) == 0) {
		ck_assert(!lab_cached(mr, r.p + FROM, URXE_PAGE_WRITE));
		ck_assert(!lab_cached(mr, r.p + FROM + CHANGED - 1, URXE_PAGE_WRITE));
		ck_assert(lab_cached(mr, r.p + FROM - 1, URXE_PAGE_WRITE));
		ck_assert_uint_ge(lab_counters(mr).page_invalidations, 3);
	}
	end();
}
END_TEST

/* How many events of userfaultfd did this process wait for? */
static long events(void)
{
	static const char name[] = "\"userfaultfd_events\":";
	char line[4096], *at = NULL;
	FILE *f;

	snprintf(line, sizeof(line), "%s stat --json %d", getenv("URXE"), (int)getpid());
	f = popen(line, "r");
	ck_assert_ptr_nonnull(f);
	if (fgets(line, sizeof(line), f))
		at = strstr(line, name);
	ck_assert_msg(at, "urxe stat: %s", line);
	pclose(f);
	return atol(at + strlen(name));
}

/*
 * The program's own calls do not wait for the thread that reads events; system calls that
 * the library does not see do, where there are any.
 */
START_TEST(calls_wait_for_no_event)
{
	static int (*const calls[])(struct region *) = {do_munmap, do_replace, do_move,
							do_dontneed};
	struct region r;
	long before;

#ifdef __SANITIZE_THREAD__
	return; /* it cannot be preloaded into a shell */
#endif
	lab_begin(&l);
	buf = lab_map(PAGES);
	pinned = lab_reg(&l, buf, LEN, LAB_ACCESS);
	mr = lab_reg(&l, NULL, SIZE_MAX, LAB_ODP);
	before = events();
	for (unsigned int i = 0; i < 100; i++) {
		r.len = LEN;
		make_anonymous(&r);
		traffic(r.p, LEN, 1);
		ck_assert_int_eq(calls[i % 4](&r), 0);
		ck_assert(!lab_cached(mr, r.p + FROM, URXE_PAGE_READ));
		ck_assert(lab_cached(mr, r.p, URXE_PAGE_READ));
		/* what is left of it is known to be watched still */
		ck_assert_int_eq(munmap(r.p, FROM), 0);
		ck_assert(!lab_cached(mr, r.p, URXE_PAGE_READ));
	}
	ck_assert_int_eq(events(), before);
	ck_assert_uint_ge(lab_counters(mr).page_invalidations, 100 * 4);
	end();
}
END_TEST

/* Of what is large the kernel tells, which costs less than to ask it not to. */
START_TEST(large_ranges_are_told_by_events)
{
	size_t len = 8 << 20;
	long before;
	char *p;

#ifdef __SANITIZE_THREAD__
	return; /* it cannot be preloaded into a shell */
#endif
	lab_begin(&l);
	p = lab_map(len / LAB_PAGE);
	mr = lab_reg(&l, NULL, SIZE_MAX, LAB_ODP);
	before = events();
	ck_assert_int_eq(lab_advise(&l, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				    IBV_ADVISE_MR_FLAG_FLUSH, mr, p, (uint32_t)len),
			 0);
	ck_assert_int_eq(madvise(p, len, MADV_DONTNEED), 0);
	ck_assert(!lab_cached(mr, p + len / 2, URXE_PAGE_READ));
	ck_assert_int_eq(munmap(p, len / 2), 0);
	ck_assert_int_eq(munmap(p + len / 2, len / 2), 0);
	ck_assert(!lab_cached(mr, p + len / 2, URXE_PAGE_READ));
	before = events() - before;
	/* where there are any */
	ck_assert_msg(before == 0 || before == 3, "%ld events", before);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

/* To be watched must not split the program's mappings: mremap(2) moves one at a time. */
START_TEST(replaced_part_moves_with_the_rest)
{
	struct region r;
	char *q;

	begin(&kinds[0], &r);
	traffic(r.p, LEN, 1);
	ck_assert_int_eq(do_replace(&r), 0);
	ck_assert_int_eq(do_dontneed(&r), 0);
	q = lab_map(PAGES);
	ck_assert_ptr_eq(mremap(r.p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, q), q);
	expect_reading(r.p, GONE);
	end();
}
END_TEST

/* And back again: what was gone or protected is there */
START_TEST(memory_that_comes_back_is_used_again)
{
	struct region r;

	begin(&kinds[_i], &r);
	traffic(r.p, LEN, 1);
	ck_assert_int_eq(do_protect_all(&r), 0);
	expect_reading(r.p + FROM, GONE);
	ck_assert_int_eq(mprotect(r.p + FROM, CHANGED, PROT_READ | PROT_WRITE), 0);
	expect_reading(r.p + FROM, THERE);
	ck_assert_int_eq(do_munmap(&r), 0);
	expect_writing(r.p + FROM, GONE);
	ck_assert_int_eq(do_replace(&r), 0);
	expect_reading(r.p + FROM, THERE);
	expect_writing(r.p + FROM, THERE);
	end();
}
END_TEST

/* Calls that the library does not see: what is there counts, never what was. */
START_TEST(behind_the_back)
{
	struct region r;
	char *p;

	begin(&kinds[_i], &r);
	traffic(r.p, LEN, 1);
	p = r.p + FROM;
	ck_assert_int_eq((int)syscall(SYS_mprotect, p, CHANGED, PROT_NONE), 0);
	expect_reading(p, GONE);
	ck_assert_int_eq((int)syscall(SYS_munmap, p, CHANGED), 0);
	expect_writing(p, GONE);
	ck_assert_ptr_eq((void *)syscall(SYS_mmap, p, CHANGED, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p);
	memset(p, 0x33, CHANGED);
	ck_assert_int_eq(lab_read(&l, pinned, buf, mr, p, LAB_PAGE), IBV_WC_SUCCESS);
	ck_assert(!memcmp(buf, p, LAB_PAGE));
	/* a replacement while the page table has the old page */
	ck_assert_ptr_eq((void *)syscall(SYS_mmap, p, CHANGED, PROT_READ | PROT_WRITE,
					 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p);
	memset(p, 0x44, CHANGED);
	ck_assert_int_eq(lab_read(&l, pinned, buf, mr, p, LAB_PAGE), IBV_WC_SUCCESS);
	ck_assert(!memcmp(buf, p, LAB_PAGE));
	ck_assert_int_eq((int)syscall(SYS_madvise, p, CHANGED, MADV_DONTNEED), 0);
	ck_assert_int_eq(lab_read(&l, pinned, buf, mr, p, LAB_PAGE), IBV_WC_SUCCESS);
	ck_assert(!memcmp(buf, p, LAB_PAGE));
	ck_assert_int_eq(buf[0], 0);
	end();
}
END_TEST

/* ... mremap(2) too: a part that moves away, and other memory that moves to its place */
START_TEST(moved_behind_the_back)
{
	struct region r;
	char *p, *q, *others[2];

	begin(&kinds[_i], &r);
	traffic(r.p, LEN, 1);
	p = r.p + FROM;
	q = lab_map(CHANGED / LAB_PAGE);
	/* before there is a hole, which the kernel may give */
	for (int i = 0; i < 2; i++)
		others[i] = lab_map(CHANGED / LAB_PAGE);
	ck_assert_ptr_eq((void *)syscall(SYS_mremap, p, CHANGED, CHANGED,
					 MREMAP_MAYMOVE | MREMAP_FIXED, q),
			 q);
	expect_reading(p, GONE);
	expect_writing(p, GONE);
	for (int i = 0; i < 2; i++) {
		/* into the hole, then over what is there and in the page table */
		memset(others[i], 0x51 + i, CHANGED);
		ck_assert_ptr_eq((void *)syscall(SYS_mremap, others[i], CHANGED, CHANGED,
						 MREMAP_MAYMOVE | MREMAP_FIXED, p),
				 p);
		ck_assert_int_eq(lab_read(&l, pinned, buf, mr, p, CHANGED),
				 IBV_WC_SUCCESS);
		ck_assert(!memcmp(buf, p, CHANGED));
		ck_assert_int_eq(buf[0], 0x51 + i);
		memset(buf, 0x61 + i, CHANGED);
		ck_assert_int_eq(lab_write(&l, pinned, buf, mr, p, CHANGED),
				 IBV_WC_SUCCESS);
		ck_assert(!memcmp(buf, p, CHANGED));
	}
	/* the HCA lets go of what moved away: nothing of the writes is there */
	ck_assert_int_ne(q[0], 0x61);
	ck_assert_int_ne(q[0], 0x62);
	munmap(q, CHANGED);
	end();
}
END_TEST

/*
 * System V shared memory, which the kernel tells nobody of: detached, attached again at
 * the same address, and over other memory
 */
START_TEST(sysv_shared_memory)
{
	int id = shmget(IPC_PRIVATE, LEN, IPC_CREAT | 0600);
	char *p = shmat(id, NULL, 0), *q;

	ck_assert(id >= 0 && p != (void *)-1);
	lab_begin(&l);
	buf = lab_map(PAGES);
	pinned = lab_reg(&l, buf, LEN, LAB_ACCESS);
	mr = lab_reg(&l, p, LEN, LAB_ODP);
	traffic(p, LEN, 1);
	ck_assert_int_eq(shmdt(p), 0);
	ck_assert(!lab_cached(mr, p, URXE_PAGE_READ));
	expect_reading(p, GONE);
	ck_assert_ptr_eq(shmat(id, p, 0), p);
	expect_reading(p, THERE);
	traffic(p, LEN, 2);
	/* other memory in its place, and it in the place of that */
	q = mmap(p, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		 -1, 0);
	ck_assert_ptr_eq(q, p);
	traffic(p, LEN, 3);
	ck_assert_ptr_eq(shmat(id, p, SHM_REMAP), p);
	ck_assert(!lab_cached(mr, p, URXE_PAGE_READ));
	ck_assert(!lab_cached(mr, p + LEN - 1, URXE_PAGE_READ));
	expect_reading(p, THERE);
	ck_assert_int_eq(munmap(p, LEN), 0);
	ck_assert(!lab_cached(mr, p, URXE_PAGE_READ));
	shmctl(id, IPC_RMID, NULL);
	end();
}
END_TEST

/* A file that is cut by its name */
START_TEST(truncate_by_path)
{
	struct region r;
	char path[64];

	begin(&kinds[_i], &r);
	traffic(r.p, LEN, 1);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", r.fd);
	ck_assert_int_eq(truncate(path, FROM), 0);
	ck_assert(!lab_cached(mr, r.p + FROM, URXE_PAGE_READ));
	ck_assert(lab_cached(mr, r.p, URXE_PAGE_READ));
	expect_reading(r.p + FROM, GONE);
	ck_assert_int_eq(truncate(path, LEN), 0);
	expect_reading(r.p + FROM, THERE);
	end();
}
END_TEST

/* --- memory that comes later ------------------------------------------------------ */

START_TEST(mapped_after_registration)
{
	char *p;

	lab_begin(&l);
	buf = lab_map(PAGES);
	pinned = lab_reg(&l, buf, LEN, LAB_ACCESS);
	p = lab_map(PAGES);
	munmap(p, LEN);
	mr = lab_reg(&l, p, LEN, LAB_ODP);
	ck_assert_ptr_eq(mmap(p, LEN, PROT_NONE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
			 p);
	expect_reading(p, GONE);
	ck_assert_ptr_eq(mmap(p, LEN, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p);
	traffic(p, LEN, 3);
	end();
}
END_TEST

START_TEST(a_file_may_grow_later)
{
	struct region r;

	begin(&kinds[_i], &r);
	ck_assert_int_eq(ftruncate(r.fd, LAB_PAGE), 0);
	traffic(r.p, LAB_PAGE, 3);
	expect_reading(r.p + LAB_PAGE, GONE);
	ck_assert_int_eq(ftruncate(r.fd, LEN), 0);
	traffic(r.p, LEN, 4);
	end();
}
END_TEST

/* An implicit MR follows what moves. */
START_TEST(implicit_mr_and_mremap)
{
	char *p = lab_map(PAGES), *q = lab_map(PAGES);

	lab_begin(&l);
	buf = lab_map(PAGES);
	pinned = lab_reg(&l, buf, LEN, LAB_ACCESS);
	mr = lab_reg(&l, NULL, SIZE_MAX, LAB_ODP);
	traffic(p, LEN, 3);
	lab_fill(p, LEN, 9);
	ck_assert_ptr_eq(mremap(p, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED, q), q);
	expect_reading(p, GONE);
	ck_assert_int_eq(lab_read(&l, pinned, buf, mr, q, LEN), IBV_WC_SUCCESS);
	ck_assert(lab_is(buf, LEN, 9));
	end();
}
END_TEST

/* --- fork ------------------------------------------------------------------------- */

/*
 * After fork both have the same pages until one of them writes. When the device of the
 * parent writes, the parent must see it, and the child must not.
 */
START_TEST(fork_and_copy_on_write)
{
	struct region r;
	uint64_t before;
	int go[2], status;
	pid_t pid;
	char c;

	begin(&kinds[0], &r);
	traffic(r.p, LEN, 1);
	lab_fill(r.p, LEN, 50);
	lab_fill(buf, LEN, 60);
	before = lab_counters(mr).write_faults;
	ck_assert_int_eq(pipe(go), 0);
	pid = fork();
	if (!pid) {
		close(go[1]);
		if (read(go[0], &c, 1) < 0)
			_exit(2);
		_exit(lab_is(r.p, LEN, 50) ? 0 : 1);
	}
	ck_assert_int_eq(lab_write(&l, pinned, buf, mr, r.p, LEN), IBV_WC_SUCCESS);
	ck_assert(lab_is(r.p, LEN, 60));
	ck_assert_uint_gt(lab_counters(mr).write_faults, before);
	close(go[1]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	/* and reading needed no fault */
	lab_fill(r.p, LEN, 70);
	ck_assert_int_eq(lab_read(&l, pinned, buf, mr, r.p, LEN), IBV_WC_SUCCESS);
	ck_assert(lab_is(buf, LEN, 70));
	close(go[0]);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("memory");
	TCase *tc = tcase_create("kinds"), *change = tcase_create("changes");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, traffic_goes_on_over_changes_of_memory, 0, KINDS);
	tcase_add_test(tc, traffic_over_the_stack);
	tcase_add_test(tc, mapped_after_registration);
	tcase_add_loop_test(tc, a_file_may_grow_later, 3, 5);
	tcase_add_test(tc, implicit_mr_and_mremap);
	suite_add_tcase(s, tc);
	tcase_set_timeout(change, 120);
	tcase_add_loop_test(change, next_access_faults_again, 0, REMAPPABLE * CHANGES);
	tcase_add_loop_test(change, the_page_table_knows_at_once, 0, CHANGES);
	tcase_add_test(change, calls_wait_for_no_event);
	tcase_add_test(change, large_ranges_are_told_by_events);
	tcase_add_test(change, replaced_part_moves_with_the_rest);
	tcase_add_test(change, sysv_shared_memory);
	tcase_add_loop_test(change, truncate_by_path, 3, 5);
	tcase_add_loop_test(change, memory_that_comes_back_is_used_again, 0, REMAPPABLE);
	tcase_add_loop_test(change, behind_the_back, 0, REMAPPABLE);
	tcase_add_loop_test(change, moved_behind_the_back, 0, REMAPPABLE);
	tcase_add_test(change, fork_and_copy_on_write);
	suite_add_tcase(s, change);
	return lab_main(s);
}
