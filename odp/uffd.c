/*
 * uffd.c - the userfaultfd monitor; see uffd.h.
 *
 * Theory of operation
 *
 * A mapping that is registered with a userfaultfd for write protection, and never
 * protected, takes no extra faults; but munmap(2), mremap(2) and madvise(2) on it stop
 * until someone has read the event that they leave. That someone is the monitor thread.
 * It must never wait for a thread that could be stopped so: it takes no lock, allocates
 * nothing, frees nothing; it only tells its hooks, which do not wait either. When it must
 * end it closes the descriptor, which lets all go who wait.
 *
 * Whole mappings are registered, not just the ranges of MRs: that would split the
 * program's mappings, and mremap(2) across a split fails. Mappings are registered one by
 * one, because one that cannot be (EINVAL, EPERM, EBUSY) fails the whole call.
 *
 * A mapping made later is not registered, not even at the same address; so uffd_watch()
 * is called before each fault. What it registered last it remembers in a few slots, which
 * are cut when something in them is unmapped or moved. A slot is only written by
 * uffd_watch() under the lock; others only make it smaller. One that is lost costs two
 * system calls, nothing else.
 *
 * Waiting for the monitor costs the program two context switches. A caller of munmap(2)
 * that is seen before it gets there can be spared them: uffd_release() takes exactly the
 * range out of the userfaultfd, so that the kernel has nobody to tell, and
 * uffd_released() afterwards either registers it again or forgets that it was. In between
 * the slots still claim the range; that is as good as true, because the caller
 * invalidates the range after uffd_released(), and so makes up for every event that was
 * missed. Only what the slots cover is released: elsewhere there may be a userfaultfd of
 * the program's own, which older kernels would let us unregister.
 *
 * A mapping can be registered with one userfaultfd only. The program's own goes first: when it
 * registers what we have, or takes back what it has, we leave those mappings
 * (uffd_yield_begin()) and come again at the next fault there, to find them free or taken. As
 * whole mappings, so that they are split, and become one again, as they would without us.
 *
 * UFFD_EVENT_FORK would need CAP_SYS_PTRACE: fork is left to odp_domain_forked().
 */
#include "odp/uffd.h"

#include <errno.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include "base/valgrind.h"
#include "base/lock.h"
#include "odp/areas.h"
#include "odp/maps.h"
#include "odp/sys.h"
#include "odp/thread.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
/* Linux 5.19 and 6.7: more kinds of mappings can be registered */
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

#define FEATURES_NEEDED                                                                  \
	(UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE |                          \
	 UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_PAGEFAULT_FLAG_WP)
#define FEATURES_WANTED                                                                  \
	(FEATURES_NEEDED | UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_WP_ASYNC)

#define SLOTS	 64
#define MESSAGES 16
/* Areas up to which nobody looks whether they are still mapped */
#define AREAS_MIN  64
#define STACK_SIZE (256 << 10)
/* Registration races with the program's own mapping; give up after so many turns */
#define REGISTER_TURNS 4

/*
 * struct uffd
 * @fd:		-1 once the monitor has ended
 * @stop:	eventfd that ends the monitor
 * @pid:	whose address space it is about
 * @gone:	times that something was unmapped
 * @events:	that the monitor has read
 * @lock:	of uffd_watch() and uffd_unwatch(); never the monitor's
 * @areas:	what was registered and not given back, under the lock; the program may have
 *		unmapped parts and mapped others there since
 * @prune_at:	so many areas are too many: look which of them are still mapped
 * @slot:	ranges that are registered; @end 0: none
 * @next:	slot to be used next
 */
struct uffd {
	_Atomic int fd;
	int stop;
	pid_t pid;
	const struct uffd_hooks *hooks;
	void *arg;
	pthread_t monitor;
	_Atomic uint64_t gone;
	_Atomic uint64_t events;
	struct lock lock;
	struct {
		_Atomic uintptr_t start, end;
	} slot[SLOTS];
	unsigned int next;
	struct areas areas;
	size_t prune_at;
};

/* --- what is registered ----------------------------------------------------------- */

/*
 * Cut [@first, @last] out of a slot; of two parts that remain the lower one stays. Should
 * the slot be filled anew meanwhile, then a part of that is lost, never more claimed.
 */
static void slot_cut(struct uffd *u, unsigned int i, uintptr_t first, uintptr_t last)
{
	uintptr_t end = atomic_load(&u->slot[i].end);
	uintptr_t start = atomic_load(&u->slot[i].start);

	while (end > first && start <= last) {
		if (start < first || last >= end - 1) {
			uintptr_t to = start < first ? first : 0;

			if (atomic_compare_exchange_strong(&u->slot[i].end, &end, to))
				return;
		} else if (atomic_compare_exchange_strong(&u->slot[i].start, &start,
							  last + 1)) {
			return;
		}
		end = atomic_load(&u->slot[i].end);
		start = atomic_load(&u->slot[i].start);
	}
}

static void slots_forget(struct uffd *u, uintptr_t first, uintptr_t last)
{
	atomic_fetch_add(&u->gone, 1);
	for (unsigned int i = 0; i < SLOTS; i++)
		slot_cut(u, i, first, last);
}

/* Under u->lock. @gone: before the mapping was registered */
static void slots_add(struct uffd *u, const struct vma *vma, uint64_t gone)
{
	unsigned int i = u->next++ % SLOTS;

	atomic_store(&u->slot[i].end, 0);
	atomic_store(&u->slot[i].start, vma->start);
	atomic_store(&u->slot[i].end, vma->end);
	/* The monitor may have looked before the slot was filled. */
	if (atomic_load(&u->gone) != gone)
		atomic_store(&u->slot[i].end, 0);
}

/* Up to where is @addr known to be registered? @addr if not at all */
static uintptr_t slots_reach(struct uffd *u, uintptr_t addr)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		uintptr_t end = atomic_load(&u->slot[i].end);
		uintptr_t start = atomic_load(&u->slot[i].start);

		if (start <= addr && addr < end && atomic_load(&u->slot[i].end) == end)
			return end;
	}
	return addr;
}

static bool slots_cover(struct uffd *u, uintptr_t first, uintptr_t last)
{
	while (first <= last) {
		uintptr_t end = slots_reach(u, first);

		if (end == first)
			return false;
		first = end;
	}
	return true;
}

bool uffd_watched(struct uffd *u, uintptr_t addr, size_t len)
{
	return u->fd >= 0 && slots_cover(u, addr, addr + (len - 1));
}

/*
 * Under u->lock. Of the areas keep what is mapped, so that their number follows that of
 * the program's mappings however many come and go under an MR that stays.
 */
static void areas_prune(struct uffd *u, struct maps *maps)
{
	uintptr_t from = 0;
	struct span a;

	while (areas_find(&u->areas, from, UINTPTR_MAX, &a)) {
		struct vma vma;

		if (from < a.first)
			from = a.first;
		if (!maps_find(maps, from, &vma)) {
			areas_cut(&u->areas, from, UINTPTR_MAX);
			break;
		}
		if (vma.start > from)
			areas_cut(&u->areas, from, vma.start - 1);
		from = vma.end;
	}
	u->prune_at = u->areas.n < AREAS_MIN / 2 ? AREAS_MIN : 2 * u->areas.n;
}

/* Under u->lock. Remember what is to be given back. 0 or -ENOMEM */
static int area_add(struct uffd *u, struct maps *maps, const struct vma *vma)
{
	if (u->areas.n >= u->prune_at)
		areas_prune(u, maps);
	return areas_add(&u->areas, vma->start, vma->end - 1);
}

static int register_range(struct uffd *u, uintptr_t start, size_t len)
{
	struct uffdio_register r = {
	    .range = {.start = start, .len = len},
	    .mode = UFFDIO_REGISTER_MODE_WP,
	};

	return sys_ioctl(u->fd, UFFDIO_REGISTER, &r) ? -errno : 0;
}

static int unregister_range(struct uffd *u, uintptr_t start, size_t len)
{
	struct uffdio_range r = {.start = start, .len = len};

	return sys_ioctl(u->fd, UFFDIO_UNREGISTER, &r) ? -errno : 0;
}

/* Under u->lock */
static int register_vma(struct uffd *u, struct maps *maps, struct vma *vma)
{
	for (unsigned int turn = 0; turn < REGISTER_TURNS; turn++) {
		uint64_t gone = atomic_load(&u->gone);
		struct vma now;
		int ret = area_add(u, maps, vma);

		if (!ret)
			ret = register_range(u, vma->start, vma->end - vma->start);
		if (!maps_find(maps, vma->start, &now))
			return ret;
		if (now.start == vma->start && now.end == vma->end) {
			if (!ret)
				slots_add(u, vma, gone);
			return ret;
		}
		/* It changed under us: begin again with what is there. */
		*vma = now;
	}
	return 0;
}

int uffd_watch(struct uffd *u, uintptr_t addr, size_t len)
{
	uintptr_t last = len - 1 > UINTPTR_MAX - addr ? UINTPTR_MAX : addr + (len - 1);
	struct maps maps;
	struct vma vma;
	int ret, err = 0;

	if (slots_cover(u, addr, last))
		return 0;
	if (u->fd < 0)
		return -EBADF;
	lock_take(&u->lock);
	ret = maps_open(&maps);
	if (ret) {
		lock_release(&u->lock);
		return ret;
	}
	while (addr <= last && maps_find(&maps, addr, &vma) && vma.start <= last) {
		ret = register_vma(u, &maps, &vma);
		if (ret && !err)
			err = ret;
		if (vma.end <= addr)
			break;
		addr = vma.end;
	}
	maps_close(&maps);
	lock_release(&u->lock);
	return err;
}

/* Under u->lock. Mappings that were never registered are no error. */
static void area_give_back(struct uffd *u, struct maps *maps, const struct span *a)
{
	uintptr_t end = a->last + 1;
	struct vma vma;

	for (uintptr_t p = a->first; p < end && maps_find(maps, p, &vma); p = vma.end) {
		uintptr_t start = vma.start > a->first ? vma.start : a->first;
		uintptr_t stop = vma.end < end ? vma.end : end;

		if (start >= stop)
			break;
		unregister_range(u, start, stop - start);
	}
}

void uffd_unwatch(struct uffd *u, uintptr_t addr, size_t len)
{
	uintptr_t last = len - 1 > UINTPTR_MAX - addr ? UINTPTR_MAX : addr + (len - 1);
	struct maps maps;
	struct span a;

	lock_take(&u->lock);
	if (u->fd < 0 || maps_open(&maps)) {
		lock_release(&u->lock);
		return;
	}
	while (addr <= last && areas_find(&u->areas, addr, last, &a)) {
		/*
		 * Forget it before asking: an MR that comes after the question does not
		 * find it, and registers it anew behind our lock.
		 */
		slots_forget(u, a.first, a.last);
		if (!u->hooks->needed(u->arg, a.first, a.last)) {
			area_give_back(u, &maps, &a);
			areas_cut(&u->areas, a.first, a.last);
		}
		if (a.last == UINTPTR_MAX)
			break;
		addr = a.last + 1;
	}
	maps_close(&maps);
	lock_release(&u->lock);
}

/* (A child that was made without handlers of fork would change its parent's memory.) */
bool uffd_release(struct uffd *u, uintptr_t addr, size_t len)
{
	return u->fd >= 0 && slots_cover(u, addr, addr + (len - 1)) &&
	       getpid() == u->pid && !unregister_range(u, addr, len);
}

void uffd_released(struct uffd *u, uintptr_t addr, size_t len, bool again)
{
	if (!again || register_range(u, addr, len))
		slots_forget(u, addr, addr + (len - 1));
}

void uffd_yield_begin(struct uffd *u, uintptr_t addr, size_t len)
{
	uintptr_t last = addr + (len - 1);
	struct maps maps;
	struct vma vma;

	lock_take(&u->lock);
	if (u->fd < 0 || maps_open(&maps))
		return;
	while (addr <= last && maps_find(&maps, addr, &vma) && vma.start <= last) {
		uintptr_t end = vma.end - 1;

		if (areas_find(&u->areas, vma.start, end, &(struct span){0})) {
			slots_forget(u, vma.start, end);
			unregister_range(u, vma.start, vma.end - vma.start);
			areas_cut(&u->areas, vma.start, end);
		}
		if (end >= last)
			break;
		addr = vma.end;
	}
	maps_close(&maps);
}

void uffd_yield_end(struct uffd *u)
{
	lock_release(&u->lock);
}

uint64_t uffd_events(const struct uffd *u)
{
	return u->events;
}

size_t uffd_areas(struct uffd *u)
{
	size_t n;

	lock_take(&u->lock);
	n = u->areas.n;
	lock_release(&u->lock);
	return n;
}

/* --- the monitor ------------------------------------------------------------------ */

static void handle(struct uffd *u, const struct uffd_msg *m)
{
	uintptr_t first, last;

	switch (m->event) {
	case UFFD_EVENT_UNMAP:
		first = m->arg.remove.start;
		last = m->arg.remove.end - 1;
		slots_forget(u, first, last);
		break;
	case UFFD_EVENT_REMOVE:
		first = m->arg.remove.start;
		last = m->arg.remove.end - 1;
		break;
	case UFFD_EVENT_REMAP:
		first = m->arg.remap.from;
		last = first + m->arg.remap.len - 1;
		slots_forget(u, first, last);
		break;
	default:
		return;
	}
	u->hooks->gone(u->arg, first, last);
}

/* Read all there is. False if the descriptor is of no use any more */
static bool drain(struct uffd *u)
{
	struct uffd_msg msg[MESSAGES];
	ssize_t n;

	u->hooks->begin(u->arg);
	while ((n = sys_read(u->fd, msg, sizeof(msg))) > 0)
		for (ssize_t i = 0; i < n / (ssize_t)sizeof(msg[0]); i++) {
			atomic_fetch_add(&u->events, 1);
			handle(u, &msg[i]);
		}
	n = n < 0 ? errno : 0;
	u->hooks->end(u->arg);
	return n == EAGAIN || n == EINTR;
}

static void *monitor(void *arg)
{
	struct uffd *u = arg;
	int fd = u->fd;

	for (;;) {
		struct pollfd p[2] = {
		    {.fd = fd, .events = POLLIN},
		    {.fd = u->stop, .events = POLLIN},
		};

		if (syscall(SYS_ppoll, p, 2, NULL, NULL, 0) < 0) {
			if (errno == EINTR)
				continue;
			break;
		}
		if ((p[0].revents & POLLIN) && !drain(u))
			break;
		if ((p[0].revents & ~POLLIN) || p[1].revents)
			break;
	}
	/* Lets all go who wait. Nothing is known about any mapping from here on. */
	atomic_store(&u->fd, -1);
	sys_close(fd);
	slots_forget(u, 0, UINTPTR_MAX);
	u->hooks->gone(u->arg, 0, UINTPTR_MAX);
	return NULL;
}

/* --- life ------------------------------------------------------------------------- */

static int open_fd(void)
{
	int flags = O_CLOEXEC | O_NONBLOCK;
	int fd;

	if (under_valgrind()) /* which would complain of the call on stderr */
		return -ENOSYS;
	fd = (int)syscall(SYS_userfaultfd, flags | UFFD_USER_MODE_ONLY);
	if (fd < 0 && errno == EINVAL) /* before Linux 5.11 */
		fd = (int)syscall(SYS_userfaultfd, flags);
	return fd < 0 ? -errno : fd;
}

static int handshake(int fd, uint64_t features, uint64_t *has)
{
	struct uffdio_api api = {.api = UFFD_API, .features = features};

	if (sys_ioctl(fd, UFFDIO_API, &api))
		return -errno;
	*has = api.features;
	return 0;
}

/*
 * A descriptor with the features that this kernel has; they can be asked for only once
 * each
 */
static int open_with_features(void)
{
	uint64_t has = 0;
	int fd = open_fd(), ret;

	if (fd < 0)
		return fd;
	ret = handshake(fd, 0, &has);
	sys_close(fd);
	if (ret)
		return ret;
	if ((has & FEATURES_NEEDED) != FEATURES_NEEDED)
		return -EOPNOTSUPP;
	fd = open_fd();
	if (fd < 0)
		return fd;
	ret = handshake(fd, has & FEATURES_WANTED, &has);
	if (ret) {
		sys_close(fd);
		return ret;
	}
	return sys_out_of_the_way(fd);
}

static int start_monitor(struct uffd *u)
{
	pthread_attr_t attr;
	int ret = pthread_attr_init(&attr);

	if (ret)
		return -ret;
	pthread_attr_setstacksize(&attr, STACK_SIZE);
	ret = odp_thread_create(&u->monitor, &attr, monitor, u, "urxe-uffd");
	pthread_attr_destroy(&attr);
	return -ret;
}

int uffd_open(const struct uffd_hooks *hooks, void *arg, struct uffd **out)
{
	struct uffd *u = calloc(1, sizeof(*u));
	int fd, ret;

	if (!u)
		return -ENOMEM;
	fd = open_with_features();
	if (fd < 0) {
		free(u);
		return fd;
	}
	u->fd = fd;
	u->pid = getpid();
	u->prune_at = AREAS_MIN;
	u->hooks = hooks;
	u->arg = arg;
	lock_init(&u->lock);
	u->stop = sys_out_of_the_way((int)syscall(SYS_eventfd2, 0, O_CLOEXEC));
	*out = u;
	ret = u->stop < 0 ? -errno : start_monitor(u);
	if (ret) {
		*out = NULL;
		sys_close(fd);
		if (u->stop >= 0)
			sys_close(u->stop);
		free(u);
	}
	return ret;
}

void uffd_close(struct uffd *u)
{
	uint64_t one = 1;

	while (sys_write(u->stop, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	pthread_join(u->monitor, NULL);
	sys_close(u->stop);
	lock_fini(&u->lock);
	areas_fini(&u->areas);
	free(u);
}

void uffd_abandon(struct uffd *u)
{
	int fd = u->fd;

	if (fd >= 0)
		sys_close(fd);
	sys_close(u->stop);
	u->fd = -1;
}

void uffd_fds(const struct uffd *u, int fds[UFFD_FDS])
{
	fds[0] = u->fd;
	fds[1] = u->stop;
}
