/*
 * Description: whatever the program does to its memory, the next access of the HCA faults
 * again and sees what the CPU sees, or fails. In three worlds: events by userfaultfd; with
 * userfaultfd and interposition, which lets the program wait for no event; without
 * userfaultfd, with odp_invalidate() by interposition. The loop index chooses the world.
 */
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/odp/util.h"

enum { WORLD_UFFD, WORLD_BOTH, WORLD_INTERPOSED, WORLDS };

static struct odp_domain *dom;
static int the_world;
/* The range of the change that is being made, as far as about() released it */
static uintptr_t released;

/* False where the world does not exist on this machine */
static bool begin(int world)
{
	struct odp_config cfg = {.uffd = world != WORLD_INTERPOSED};
	struct odp_caps caps;

	the_world = world;
	ck_assert_int_eq(odp_domain_create(&cfg, NULL, NULL, &dom), 0);
	odp_domain_caps(dom, &caps);
	if (caps.uffd == cfg.uffd)
		return true;
	fprintf(stderr, "no userfaultfd here (%s): skipped\n", strerror(caps.uffd_errno));
	odp_domain_destroy(dom);
	return false;
}

/* What interposition does before the real call, if it sees it */
static void about(const void *p, size_t len)
{
	released = 0;
	if (the_world == WORLD_BOTH && odp_change_begin(dom, (uintptr_t)p, len, true))
		released = (uintptr_t)p;
}

/* ... and after it; @remains: the mapping does */
static void told_of(const void *p, size_t len, bool remains)
{
	if (the_world == WORLD_INTERPOSED)
		odp_invalidate(dom, (uintptr_t)p, len, TRACE_INVAL_CALL);
	if (released == (uintptr_t)p)
		odp_change_end(dom, (uintptr_t)p, len, remains, TRACE_INVAL_UNMAP);
	released = 0;
}

static void told(const void *p, size_t len)
{
	told_of(p, len, false);
}

/* How many events somebody waited for */
static uint64_t events(void)
{
	struct odp_caps caps;

	odp_domain_caps(dom, &caps);
	return caps.uffd_events;
}

/* @at_least: where only events tell (mremap may make two) */
static void expect_waits(uint64_t at_least)
{
	if (the_world == WORLD_UFFD)
		ck_assert_uint_ge(events(), at_least);
	else
		ck_assert_uint_eq(events(), 0);
}

/* One access, and whether it faulted */
static int read_faults(struct odp_mr *mr, const void *p, bool *faulted)
{
	uint64_t before = util_faults(mr);
	int ret = util_read(mr, p);

	*faulted = util_faults(mr) != before;
	return ret;
}

static void expect_read(struct odp_mr *mr, const void *p, int value, bool fault)
{
	bool faulted;
	int ret = read_faults(mr, p, &faulted);

	ck_assert_int_eq(ret, value);
	ck_assert_int_eq(faulted, fault);
}

/* Four pages that the HCA has written 1, 2, 3, 4 to */
static struct odp_mr *four_pages(uint8_t *p)
{
	struct odp_mr *mr = util_mr(dom, p, 4 * PAGE, true);

	for (unsigned int i = 0; i < 4; i++)
		ck_assert_int_eq(util_write(mr, p + i * PAGE, (uint8_t)(i + 1)), 0);
	ck_assert_uint_eq(util_faults(mr), 4);
	return mr;
}

static void end(struct odp_mr *mr)
{
	odp_mr_put(mr);
	odp_domain_destroy(dom);
}

static void expect_invalidated(struct odp_mr *mr, uint64_t events, uint64_t pages)
{
	struct odp_counters c = util_counters(mr);

	ck_assert_uint_eq(c.invalidations, events);
	ck_assert_uint_eq(c.pages_invalidated, pages);
}

START_TEST(munmap_then_map)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr;

	if (!begin(_i))
		return;
	mr = four_pages(p);
	about(p + PAGE, 2 * PAGE);
	munmap(p + PAGE, 2 * PAGE);
	told(p + PAGE, 2 * PAGE);
	expect_invalidated(mr, 1, 2);
	expect_waits(1);
	expect_read(mr, p + PAGE, -EFAULT, true);
	expect_read(mr, p, 1, false);
	expect_read(mr, p + 3 * PAGE, 4, false);
	/* memory that comes later at the same address */
	ck_assert_ptr_eq(mmap(p + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p + PAGE);
	told(p + PAGE, 2 * PAGE);
	expect_read(mr, p + PAGE, 0, true);
	expect_read(mr, p + PAGE, 0, false);
	/* ... is watched as well */
	about(p + PAGE, PAGE);
	munmap(p + PAGE, PAGE);
	told(p + PAGE, PAGE);
	expect_waits(2);
	expect_invalidated(mr, 2, 3);
	expect_read(mr, p + PAGE, -EFAULT, true);
	end(mr);
}
END_TEST

START_TEST(map_fixed_over_it)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr;

	if (!begin(_i))
		return;
	mr = four_pages(p);
	about(p, 2 * PAGE);
	mmap(p, 2 * PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	told(p, 2 * PAGE);
	expect_invalidated(mr, 1, 2);
	expect_waits(1);
	expect_read(mr, p, 0, true);
	ck_assert_int_eq(util_write(mr, p, 1), -EFAULT);
	end(mr);
}
END_TEST

START_TEST(mremap_moves_it)
{
	uint8_t *p = util_map(4 * PAGE), *q;
	struct odp_mr *mr, *there;

	if (!begin(_i))
		return;
	mr = four_pages(p);
	q = mmap(NULL, 4 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	about(p, 4 * PAGE);
	ck_assert_ptr_eq(mremap(p, 4 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, q),
			 q);
	told(p, 4 * PAGE);
	told(q, 4 * PAGE);
	expect_invalidated(mr, 1, 4);
	expect_waits(1);
	expect_read(mr, p, -EFAULT, true);
	there = util_mr(dom, q, 4 * PAGE, true);
	expect_read(there, q, 1, true);
	about(q, 4 * PAGE);
	munmap(q, 4 * PAGE);
	told(q, 4 * PAGE);
	expect_invalidated(there, 1, 1);
	odp_mr_put(there);
	end(mr);
}
END_TEST

START_TEST(mremap_shrinks_and_grows_it)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr;

	if (!begin(_i))
		return;
	mr = four_pages(p);
	about(p + PAGE, 3 * PAGE);
	ck_assert_ptr_eq(mremap(p, 4 * PAGE, PAGE, 0), p);
	told(p + PAGE, 3 * PAGE);
	expect_invalidated(mr, 1, 3);
	expect_read(mr, p, 1, false);
	expect_read(mr, p + PAGE, -EFAULT, true);
	if (mremap(p, PAGE, 4 * PAGE, 0) == MAP_FAILED) {
		end(mr); /* somebody else's mapping is there now */
		return;
	}
	told(p, 4 * PAGE);
	expect_read(mr, p + PAGE, 0, true);
	end(mr);
}
END_TEST

static void discard(int world, int advice, bool shared)
{
	uint8_t *p;
	struct odp_mr *mr;
	int ret;

	if (!begin(world))
		return;
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE,
		 (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
	mr = four_pages(p);
	about(p + PAGE, 2 * PAGE);
	ret = madvise(p + PAGE, 2 * PAGE, advice);
	ck_assert_int_eq(ret, 0);
	told_of(p + PAGE, 2 * PAGE, true);
	expect_invalidated(mr, 1, 2);
	expect_waits(1);
	/* freed pages may keep their contents for a while */
	ret = util_read(mr, p + PAGE);
	ck_assert_int_eq(ret, p[PAGE]);
	if (advice != MADV_FREE)
		ck_assert_int_eq(ret, shared && advice == MADV_DONTNEED ? 2 : 0);
	ck_assert_uint_eq(util_faults(mr), 5);
	expect_read(mr, p, 1, false);
	/* and again: it is still watched, now without interposition */
	ck_assert_int_eq(madvise(p + PAGE, PAGE, advice), 0);
	told(p + PAGE, PAGE);
	expect_invalidated(mr, 2, 3);
	ck_assert_uint_eq(events(), the_world == WORLD_UFFD   ? 2
				    : the_world == WORLD_BOTH ? 1
							      : 0);
	end(mr);
}

START_TEST(madvise_dontneed_invalidates)
{
	discard(_i, MADV_DONTNEED, false);
}
END_TEST

START_TEST(madvise_dontneed_shared)
{
	discard(_i, MADV_DONTNEED, true);
}
END_TEST

START_TEST(madvise_free_invalidates)
{
	discard(_i, MADV_FREE, false);
}
END_TEST

START_TEST(madvise_remove_invalidates)
{
	discard(_i, MADV_REMOVE, true);
}
END_TEST

/* No event: found out by the guard, in both worlds */
START_TEST(mprotect_that_nobody_tells_is_found_out)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr;

	if (!begin(_i))
		return;
	mr = four_pages(p);
	mprotect(p, PAGE, PROT_NONE);
	expect_read(mr, p, -EFAULT, true);
	expect_invalidated(mr, 1, 1);
	mprotect(p, PAGE, PROT_READ);
	expect_read(mr, p, 1, true);
	ck_assert_int_eq(util_write(mr, p, 9), -EFAULT);
	mprotect(p, PAGE, PROT_READ | PROT_WRITE);
	ck_assert_int_eq(util_write(mr, p, 9), 0);
	expect_read(mr, p, 9, false);
	ck_assert_uint_eq(p[0], 9);
	end(mr);
}
END_TEST

/* Interposition tells: there and back without an access is seen, too. */
START_TEST(mprotect_that_is_told_is_seen)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr;

	if (!begin(_i))
		return;
	mr = four_pages(p);
	mprotect(p, 4 * PAGE, PROT_NONE);
	odp_invalidate(dom, (uintptr_t)p, 4 * PAGE, TRACE_INVAL_CALL);
	mprotect(p, 4 * PAGE, PROT_READ | PROT_WRITE);
	odp_invalidate(dom, (uintptr_t)p, 4 * PAGE, TRACE_INVAL_CALL);
	expect_invalidated(mr, 1, 4);
	expect_read(mr, p + PAGE, 2, true);
	end(mr);
}
END_TEST

START_TEST(a_truncated_file_is_invalidated)
{
	uint8_t *p;
	struct odp_mr *mr;
	int fd;

	if (!begin(_i))
		return;
	fd = memfd_create("odp", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, 4 * PAGE), 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mr = four_pages(p);
	ck_assert_int_eq(ftruncate(fd, PAGE), 0);
	expect_read(mr, p, 1, false);
	expect_read(mr, p + PAGE, -EFAULT, true);
	ck_assert_int_eq(util_write(mr, p + 2 * PAGE, 7), -EFAULT);
	expect_invalidated(mr, 2, 2);
	ck_assert_int_eq(ftruncate(fd, 4 * PAGE), 0);
	expect_read(mr, p + PAGE, 0, true);
	ck_assert_int_eq(util_write(mr, p + 2 * PAGE, 7), 0);
	ck_assert_uint_eq(p[2 * PAGE], 7);
	close(fd);
	end(mr);
}
END_TEST

/* A hole is no event, and no fault either: the CPU's page table does it. */
START_TEST(a_punched_hole_is_found_out)
{
	uint8_t *p;
	struct odp_mr *mr;
	int fd;

	if (!begin(_i))
		return;
	fd = memfd_create("odp", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, 4 * PAGE), 0);
	p = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mr = four_pages(p);
	ck_assert_int_eq(
	    fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE), 0);
	ck_assert_int_eq(util_read(mr, p), 0);
	close(fd);
	end(mr);
}
END_TEST

/* The parent's private pages fault again after fork, and both see their own. */
START_TEST(fork_shares_for_copy)
{
	uint8_t *p = util_map(4 * PAGE), *s;
	struct odp_mr *mr, *shared;
	int status, go[2];
	pid_t pid;
	char c = 0;

	if (!begin(_i))
		return;
	ck_assert_int_eq(pipe(go), 0);
	mr = four_pages(p);
	s = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	shared = util_mr(dom, s, PAGE, true);
	ck_assert_int_eq(util_write(shared, s, 5), 0);
	pid = fork();
	if (!pid) {
		odp_domain_abandon(dom);
		if (read(go[0], &c, 1) != 1)
			_exit(1);
		/* unmapping here bothers nobody */
		munmap(p + PAGE, PAGE);
		_exit(p[0] == 1 && s[0] == 6 ? 0 : 2);
	}
	odp_domain_forked(dom);
	expect_invalidated(mr, 1, 4);
	ck_assert_int_eq(util_write(mr, p, 9), 0);
	ck_assert_uint_eq(util_faults(mr), 5);
	ck_assert_uint_eq(p[0], 9);
	ck_assert_int_eq(util_write(shared, s, 6), 0);
	ck_assert_uint_eq(util_faults(shared), 1);
	ck_assert_int_eq(write(go[1], &c, 1), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	munmap(p, PAGE);
	told(p, PAGE);
	expect_read(mr, p, -EFAULT, true);
	odp_mr_put(shared);
	end(mr);
}
END_TEST

/* A child makes a domain of its own (ThreadSanitizer lets no child start threads). */
START_TEST(domain_of_the_child)
{
#ifndef __SANITIZE_THREAD__
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr;
	int status;
	pid_t pid;

	if (!begin(_i))
		return;
	mr = four_pages(p);
	pid = fork();
	if (!pid) {
		odp_domain_abandon(dom);
		if (!begin(_i))
			_exit(1);
		mr = util_mr(dom, p, 4 * PAGE, true);
		expect_read(mr, p, 1, true);
		munmap(p, PAGE);
		told(p, PAGE);
		expect_read(mr, p, -EFAULT, true);
		end(mr);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	munmap(p, PAGE);
	told(p, PAGE);
	expect_invalidated(mr, 1, 1);
	end(mr);
#endif
}
END_TEST

/* Everything is in an implicit MR, this library's heap too. */
START_TEST(implicit_sees_all)
{
	struct odp_mr *all;
	uint8_t *p;

	if (!begin(_i))
		return;
	all = util_implicit(dom);
	for (unsigned int i = 0; i < 200; i++) {
		size_t len = (1 + i % 5) << 18;
		uint8_t *heap = malloc(len);
		volatile uintptr_t at = (uintptr_t)heap; /* the compiler watches frees */

		memset(heap, (int)i, len);
		/* (the allocator may not have given the last one back) */
		ck_assert_int_eq(util_read(all, heap + len / 2), (uint8_t)i);
		free(heap);
		told((void *)at, len);
		p = util_map(16 * PAGE);
		ck_assert_int_eq(util_write(all, p, (uint8_t)i), 0);
		ck_assert_uint_eq(p[0], (uint8_t)i);
		munmap(p, 16 * PAGE);
		told(p, 16 * PAGE);
		expect_read(all, p, -EFAULT, true);
	}
	end(all);
}
END_TEST

/* An MR over what is not mapped yet */
START_TEST(mapped_after_registration)
{
	/* a hole too small for what others map meanwhile */
	uint8_t *p = (uint8_t *)util_map(64 * PAGE) + 32 * PAGE;
	struct odp_mr *mr;

	if (!begin(_i))
		return;
	munmap(p, 4 * PAGE);
	mr = util_mr(dom, p, 4 * PAGE, true);
	expect_read(mr, p, -EFAULT, true);
	mmap(p, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
	     -1, 0);
	told(p, 4 * PAGE);
	expect_read(mr, p, 0, true);
	munmap(p, 4 * PAGE);
	told(p, 4 * PAGE);
	expect_invalidated(mr, 1, 1);
	end(mr);
}
END_TEST

/* The change that interposition announced fails: the mapping is watched as before. */
START_TEST(a_change_that_fails_changes_nothing)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr;

	if (_i != WORLD_BOTH || !begin(_i))
		return;
	mr = four_pages(p);
	about(p + PAGE, PAGE);
	told_of(p + PAGE, PAGE, true);
	expect_invalidated(mr, 1, 1);
	expect_read(mr, p + PAGE, 2, true);
	ck_assert_uint_eq(events(), 0);
	munmap(p + PAGE, PAGE);
	expect_invalidated(mr, 2, 2);
	ck_assert_uint_eq(events(), 1);
	expect_read(mr, p + PAGE, -EFAULT, true);
	/* one piece as before: what is left moves as a whole */
	ck_assert_ptr_ne(mremap(p + 2 * PAGE, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE),
			 MAP_FAILED);
	end(mr);
}
END_TEST

/*
 * A child that no handler of fork knows of has the descriptor, which is about its
 * parent's memory.
 */
START_TEST(change_in_a_child)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr;
	int status;
	pid_t pid;

	if (_i != WORLD_BOTH || !begin(_i))
		return;
	mr = four_pages(p);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	if (!pid)
		syscall(SYS_exit_group, odp_change_begin(dom, (uintptr_t)p, PAGE, true));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	munmap(p, PAGE);
	expect_invalidated(mr, 1, 1);
	ck_assert_uint_eq(events(), 1);
	end(mr);
}
END_TEST

/* A range that is not watched, or not as a whole, is left to events. */
START_TEST(change_of_what_is_not_watched)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr;

	if (!begin(_i))
		return;
	ck_assert(!odp_change_begin(dom, (uintptr_t)p, PAGE, true));
	mr = four_pages(p);
	ck_assert(!odp_change_begin(dom, (uintptr_t)p, 0, true));
	ck_assert(!odp_change_begin(dom, (uintptr_t)p + 1, PAGE, true));
	ck_assert(!odp_change_begin(dom, (uintptr_t)p, PAGE + 1, true));
	ck_assert(!odp_change_begin(dom, (uintptr_t)p, -(uintptr_t)p, true));
	ck_assert(!odp_change_begin(dom, (uintptr_t)p, SIZE_MAX & ~(PAGE - 1), true));
	expect_read(mr, p, 1, false);
	munmap(p, PAGE);
	told(p, PAGE);
	expect_invalidated(mr, 1, 1);
	end(mr);
}
END_TEST

/* When no MR wants them any more, mappings are given back: others can register them. */
START_TEST(mappings_are_given_back)
{
	uint8_t *p = util_map(4 * PAGE);
	struct odp_mr *mr, *other;
	struct odp_domain *first, *second;

	if (_i == WORLD_INTERPOSED || !begin(_i))
		return;
	first = dom;
	mr = four_pages(p);
	other = util_mr(dom, p + 2 * PAGE, PAGE, false);
	expect_read(other, p + 2 * PAGE, 3, true);
	odp_mr_put(mr);
	/* the same mapping still has an MR */
	munmap(p + 2 * PAGE, PAGE);
	expect_invalidated(other, 1, 1);
	odp_mr_put(other);
	/* a second userfaultfd would get EBUSY, and no events */
	begin(_i);
	second = dom;
	mr = util_mr(second, p, PAGE, false);
	expect_read(mr, p, 1, true);
	munmap(p, PAGE);
	expect_invalidated(mr, 1, 1);
	odp_mr_put(mr);
	odp_domain_destroy(second);
	odp_domain_destroy(first);
}
END_TEST

/*
 * Memory that comes and goes under an implicit MR, at another address each time, leaves
 * nothing behind in the table of what is watched.
 */
START_TEST(watched_areas_follow_the_mappings)
{
	const size_t step = 4 * PAGE, rounds = 1000;
	struct odp_caps caps;
	struct odp_mr *mr;
	uint8_t *base;

	if (!begin(_i))
		return;
	base = mmap(NULL, rounds * step, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	munmap(base, rounds * step);
	mr = util_implicit(dom);
	for (size_t i = 0; i < rounds; i++) {
		uint8_t *p = mmap(base + i * step, PAGE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

		MUST(p != MAP_FAILED && util_read(mr, p) == 0);
		munmap(p, PAGE);
		told(p, PAGE);
		MUST(util_read(mr, p) == -EFAULT);
	}
	odp_domain_caps(dom, &caps);
	ck_assert_uint_lt(caps.uffd_areas, 200);
	odp_mr_put(mr);
	odp_domain_caps(dom, &caps);
	ck_assert_uint_eq(caps.uffd_areas, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("invalidate");
	TCase *tc = tcase_create("invalidate");

	tcase_set_timeout(tc, 30);
	tcase_add_loop_test(tc, munmap_then_map, 0, WORLDS);
	tcase_add_loop_test(tc, map_fixed_over_it, 0, WORLDS);
	tcase_add_loop_test(tc, mremap_moves_it, 0, WORLDS);
	tcase_add_loop_test(tc, mremap_shrinks_and_grows_it, 0, WORLDS);
	tcase_add_loop_test(tc, madvise_dontneed_invalidates, 0, WORLDS);
	tcase_add_loop_test(tc, madvise_dontneed_shared, 0, WORLDS);
	tcase_add_loop_test(tc, madvise_free_invalidates, 0, WORLDS);
	tcase_add_loop_test(tc, watched_areas_follow_the_mappings, 0, WORLDS);
	if (!check_emulated("MADV_REMOVE"))
		tcase_add_loop_test(tc, madvise_remove_invalidates, 0, WORLDS);
	tcase_add_loop_test(tc, mprotect_that_nobody_tells_is_found_out, 0, WORLDS);
	tcase_add_loop_test(tc, mprotect_that_is_told_is_seen, 0, WORLDS);
	tcase_add_loop_test(tc, a_truncated_file_is_invalidated, 0, WORLDS);
	tcase_add_loop_test(tc, a_punched_hole_is_found_out, 0, WORLDS);
	tcase_add_loop_test(tc, fork_shares_for_copy, 0, WORLDS);
	tcase_add_loop_test(tc, domain_of_the_child, 0, WORLDS);
	tcase_add_loop_test(tc, implicit_sees_all, 0, WORLDS);
	tcase_add_loop_test(tc, mapped_after_registration, 0, WORLDS);
	tcase_add_loop_test(tc, a_change_that_fails_changes_nothing, 0, WORLDS);
	tcase_add_loop_test(tc, change_in_a_child, 0, WORLDS);
	tcase_add_loop_test(tc, change_of_what_is_not_watched, 0, WORLDS);
	tcase_add_loop_test(tc, mappings_are_given_back, 0, WORLDS);
	suite_add_tcase(s, tc);
	return util_run(s);
}
