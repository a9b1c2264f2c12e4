/*
 * watch.c - the CPU tells of accesses to a place in memory, by its debug registers.
 *
 * Theory of operation
 *
 * To find that a program reads what it should not read yet, without a change of what it does: pages that
 * are protected make system calls fail which are given them, and stand for their neighbours, too. perf_event_open(2) sets
 * a breakpoint for accesses to a few bytes; the kernel writes a sample for each into a ring, and the
 * program goes on. Nothing is seen of the kernel's own accesses.
 *
 * There are four such registers, of which two are taken: for the first bytes of a place and for the last
 * ones. So one place is watched at a time. Each thread needs events of its own, and threads are looked
 * for now and then. An event stops itself after some hits, so that a program that spins on the
 * place is slowed down by a few microseconds. Then a new one takes its place: Linux from 6.16 on lets a
 * breakpoint that has stopped itself trap again when it is enabled, but tells nothing of it any more.
 * Between two watches is a pause that bounds the cost.
 *
 * Where perf_event_open(2) is denied, or the machine has no such registers, nothing is ever watched.
 *
 * System calls are made directly: those of the names are interposed, and the engine's lock may be held.
 */
#include "check/watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/valgrind.h"
#include "check/check.h"

#define THREADS 32
#define ENDS	2
#define LIMIT	40	  /* hits of an event, of which the HCA makes some itself */
#define EAGER	16	  /* watches without a pause: short programs are looked at, too */
#define PAUSE	1000000u  /* ns of CPU after a watch, */
#define COSTS	100u	  /* or as many times what the last one has cost */
#define LOOK	20000000u /* ns: for new threads */
#define DIRENTS 4096

/*
 * struct watched - a thread
 * @event:	for each end; @left: hits until it stops by itself; @spent: one has
 * @ring:	of both; NULL: the place is free
 */
struct watched {
	pid_t tid;
	int event[ENDS];
	unsigned int left[ENDS];
	struct perf_event_mmap_page *ring;
	bool seen, spent;
};

/* struct sample - as the kernel writes it */
struct sample {
	struct perf_event_header header;
	uint64_t ip, time, addr;
};

/* struct entry - of a directory, as getdents64(2) has it */
struct entry {
	uint64_t inode, offset;
	uint16_t length;
	uint8_t type;
	char name[];
};

static struct watched threads[THREADS];
static bool denied, watching;
static unsigned int n_watches;
static uint64_t next_try, next_watch, next_look, place[ENDS];
static uint64_t nowhere;

static struct perf_event_attr event_at(uint64_t addr, unsigned int width)
{
	return (struct perf_event_attr){.type = PERF_TYPE_BREAKPOINT,
					.size = sizeof(struct perf_event_attr),
					.sample_period = 1,
					.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TIME |
						       PERF_SAMPLE_ADDR,
					.disabled = 1,
					.exclude_kernel = 1,
					.exclude_hv = 1,
					.use_clockid = 1,
					.clockid = CLOCK_MONOTONIC,
					.bp_type = HW_BREAKPOINT_RW,
					.bp_addr = addr,
					.bp_len = width};
}

/* --- threads ---------------------------------------------------------------------- */

static void close_thread(struct watched *t)
{
	long page = sysconf(_SC_PAGESIZE);

	if (t->ring)
		syscall(SYS_munmap, t->ring, 2 * page);
	for (unsigned int i = 0; i < ENDS; i++)
		if (t->event[i] >= 0)
			urxe_checker_close(t->event[i]);
	*t = (struct watched){.tid = 0};
}

static int open_event(pid_t tid)
{
	struct perf_event_attr attr = event_at((uintptr_t)&nowhere, sizeof(nowhere));
	int fd =
	    (int)syscall(SYS_perf_event_open, &attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -1 : urxe_checker_private(fd);
}

static bool open_thread(struct watched *t, pid_t tid)
{
	size_t len = 2 * (size_t)sysconf(_SC_PAGESIZE);
	void *ring;

	*t = (struct watched){.tid = tid, .event = {open_event(tid), -1}, .seen = true};
	if (t->event[0] < 0) {
		/* what another time may have another answer */
		denied |= errno != EMFILE && errno != ENFILE && errno != ESRCH &&
			  errno != ENOSPC && errno != ENOMEM;
		close_thread(t);
		return false;
	}
	ring = (void *)syscall(SYS_mmap, NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED,
			       t->event[0], 0);
	if (ring == MAP_FAILED) {
		close_thread(t);
		return false;
	}
	t->ring = ring;
	t->event[1] = open_event(tid);
	if (t->event[1] >= 0)
		syscall(SYS_ioctl, t->event[1], PERF_EVENT_IOC_SET_OUTPUT, t->event[0]);
	return true;
}

static void found_thread(pid_t tid)
{
	struct watched *empty = NULL;

	for (unsigned int i = 0; i < THREADS; i++) {
		if (threads[i].ring && threads[i].tid == tid) {
			threads[i].seen = true;
			return;
		}
		if (!threads[i].ring)
			empty = &threads[i];
	}
	if (empty && !denied)
		open_thread(empty, tid);
}

static void read_tasks(int dir)
{
	char buf[DIRENTS] __attribute__((aligned(8)));
	long n;

	while ((n = syscall(SYS_getdents64, dir, buf, sizeof(buf))) > 0)
		for (long at = 0; at < n;) {
			const struct entry *e = (void *)(buf + at);

			if (e->name[0] != '.')
				found_thread(atoi(e->name));
			at += e->length;
		}
}

/* New events for those that have stopped themselves */
static void renew_spent(void)
{
	for (unsigned int i = 0; i < THREADS; i++) {
		pid_t tid = threads[i].tid;

		if (!threads[i].ring || !threads[i].spent)
			continue;
		close_thread(&threads[i]);
		open_thread(&threads[i], tid);
	}
}

/* Those there are, and not those there were */
static void look_for_threads(void)
{
	int dir = (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/task",
			       O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return;
	for (unsigned int i = 0; i < THREADS; i++)
		threads[i].seen = false;
	read_tasks(dir);
	syscall(SYS_close, dir);
	for (unsigned int i = 0; i < THREADS; i++)
		if (threads[i].ring && !threads[i].seen)
			close_thread(&threads[i]);
}

/* --- places ------------------------------------------------------------------------ */

/* The widest register that fits into @len bytes at *@addr, from its begin or up to its end */
static unsigned int fit(uint64_t *addr, uint64_t len, unsigned int width, bool end)
{
	uint64_t at = end ? *addr + len : *addr;

	while (width > 1 && (width > len || at % width))
		width /= 2;
	*addr = end ? at - width : at;
	return width;
}

static void set(struct watched *t, unsigned int end, unsigned int width)
{
	struct perf_event_attr attr = event_at(place[end], width);
	int fd = t->event[end];

	if (fd < 0 || syscall(SYS_ioctl, fd, PERF_EVENT_IOC_MODIFY_ATTRIBUTES, &attr))
		return;
	if (t->left[end] < LIMIT)
		syscall(SYS_ioctl, fd, PERF_EVENT_IOC_REFRESH, LIMIT - t->left[end]);
	else
		syscall(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
	t->left[end] = LIMIT;
}

static uint64_t cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/*
 * Is the pause over? It is in time of the CPU (next_watch), of which a process on a loaded machine gets
 * little. To ask for that takes a system call, so it is not asked before it can be (next_try).
 */
static bool is_over(uint64_t now)
{
	uint64_t used;

	if (n_watches < EAGER)
		return true;
	if (now < next_try)
		return false;
	used = cpu_time();
	if (used >= next_watch)
		return true;
	next_try = now + next_watch - used;
	return false;
}

static bool is_time(uint64_t now, bool at_once)
{
	static bool asked, barred;

	if (!asked) {
		barred = under_valgrind();
		asked = true;
	}
	return !watching && !denied && !barred && (at_once || is_over(now));
}

bool check_watch_begin(uint64_t addr, uint64_t len, unsigned int width, bool at_once)
{
	uint64_t now = check_now(), begun, used;
	int err = errno;

	if (!len || !is_time(now, at_once))
		return false;
	begun = cpu_time();
	if (now >= next_look || n_watches < EAGER) {
		look_for_threads();
		next_look = now + LOOK;
	}
	renew_spent();
	for (unsigned int end = 0; end < ENDS; end++) {
		unsigned int fits;

		place[end] = addr;
		fits = fit(&place[end], len, width, end);
		for (unsigned int i = 0; i < THREADS; i++)
			if (threads[i].ring)
				set(&threads[i], end, fits);
	}
	n_watches++;
	watching = true;
	used = cpu_time();
	next_watch = used + PAUSE + (used - begun) * COSTS;
	errno = err;
	return true;
}

/* The HCA, or the checker */
static bool is_own(uint64_t pc)
{
	const char *name = check_file_of((void *)(uintptr_t)pc), *base;

	base = name ? strrchr(name, '/') : NULL;
	return base && !strncmp(base, "/liburxe", 8);
}

/* What the ring has of the place; @n hits are there already */
static unsigned int drain(struct watched *t, struct check_hit *hits, unsigned int n)
{
	const char *data = (char *)t->ring + sysconf(_SC_PAGESIZE);
	size_t room = (size_t)sysconf(_SC_PAGESIZE);
	uint64_t head = __atomic_load_n(&t->ring->data_head, __ATOMIC_ACQUIRE);
	uint64_t at = t->ring->data_tail;
	struct sample s;

	for (; at < head; at += s.header.size) {
		for (size_t i = 0; i < sizeof(s); i++)
			((char *)&s)[i] = data[(at + i) % room];
		if (s.header.size < sizeof(s.header))
			break;
		if (s.header.type != PERF_RECORD_SAMPLE)
			continue;
		for (unsigned int end = 0; end < ENDS; end++)
			if (s.addr == place[end] && t->left[end])
				t->spent |= !--t->left[end];
		if (n < CHECK_HITS && (s.addr == place[0] || s.addr == place[1]) &&
		    !is_own(s.ip))
			hits[n++] = (struct check_hit){s.ip, s.addr, s.time};
	}
	__atomic_store_n(&t->ring->data_tail, head, __ATOMIC_RELEASE);
	return n;
}

unsigned int check_watch_end(struct check_hit hits[CHECK_HITS])
{
	unsigned int n = 0;
	int err = errno;

	for (unsigned int i = 0; i < THREADS && watching; i++) {
		if (!threads[i].ring)
			continue;
		for (unsigned int end = 0; end < ENDS; end++)
			if (threads[i].event[end] >= 0)
				syscall(SYS_ioctl, threads[i].event[end],
					PERF_EVENT_IOC_DISABLE, 0);
		n = drain(&threads[i], hits, n);
	}
	watching = false;
	errno = err;
	return n;
}

/* The rings were not inherited, and the events are of the parent's threads. */
void check_watch_forget(void)
{
	for (unsigned int i = 0; i < THREADS; i++)
		if (threads[i].ring) {
			threads[i].ring = NULL;
			close_thread(&threads[i]);
		}
	watching = false;
	next_look = 0;
}
