/*
 * bell.c - what makes the descriptor of an event channel readable.
 *
 * Theory of operation
 *
 * The program has an eventfd, and the library a duplicate, by which it is raised and lowered: the
 * program may close its own at any moment, and give the number to another file. The duplicate
 * is outside of the program's limit (base/outside.c), so a channel costs one descriptor, as
 * in the kernel. Making one there costs about 40 us, so a handful is made at a time and kept in
 * a pool; the program's descriptor is made from it.
 *
 * Where there is no outside, duplicates count. A few may (1/INSIDE_SHARE of the limit). The
 * channels beyond have no duplicate, and what the program has is an epoll descriptor instead: to
 * raise it, one that is always readable is added to it, to lower it that is taken out. There are two
 * of these, which take turns, since only what is new wakes who waits edge-triggered. It goes by
 * the program's own number, which the table of vfiles keeps in place meanwhile; should the
 * program have closed it by a bare system call, the kernel refuses to do it to any other kind of file.
 */
#include "verbs/engine/bell.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/outside.h"
#include "verbs/host/libc.h"

#define BATCH	     16
#define INSIDE_SHARE 64

/*
 * struct store - of the process, as descriptors are
 * @fd, @n:	eventfds outside that nobody uses
 * @inside:	bells whose duplicate counts
 * @always:	eventfds that are readable for ever; 0: none yet
 */
static struct store {
	struct lock lock;
	int fd[BATCH];
	int n;
	unsigned int inside;
	int always[2];
} store = {.lock = LOCK_INITIALIZER};

/* The parent's are not a child's. */
static void fork_child(void)
{
	store = (struct store){.n = 0};
	lock_init(&store.lock);
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

/* --- duplicates ------------------------------------------------------------------- */

OUTSIDE_CODE static int make_outside(void *arg, int lowest)
{
	struct store *s = arg;
	long fd, high = -EMFILE;

	while (s->n < BATCH) {
		fd = syscall(SYS_eventfd2, 0, EFD_CLOEXEC);
		if (fd < 0)
			break;
		high = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, lowest);
		syscall(SYS_close, fd);
		if (high < 0)
			break;
		s->fd[s->n++] = (int)high;
	}
	return s->n ? 0 : -EMFILE;
}

/* An eventfd outside, private; or -errno */
static int take_outside(void)
{
	int fd = -EMFILE, n;

	lock_take(&store.lock);
	n = store.n;
	if (!n && !outside_run(make_outside, &store))
		for (n = 0; n < store.n; n++)
			vfile_private_mark(store.fd[n]);
	if (n)
		fd = store.fd[--store.n];
	lock_release(&store.lock);
	return fd;
}

/* May one more duplicate count? Then it does. */
static bool take_inside(void)
{
	struct rlimit limit;
	bool may;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return false;
	lock_take(&store.lock);
	may = store.inside < limit.rlim_cur / INSIDE_SHARE;
	store.inside += may;
	lock_release(&store.lock);
	return may;
}

static void give_inside(struct bell *b)
{
	lock_take(&store.lock);
	/* in a child of fork it was the parent's */
	if (b->inside && store.inside)
		store.inside--;
	lock_release(&store.lock);
	b->inside = false;
}

/* The program's descriptor, and the duplicate of it in @b->fd */
static int open_eventfd(struct bell *b, int flags)
{
	int copy = flags & O_CLOEXEC ? F_DUPFD_CLOEXEC : F_DUPFD, fd;

	b->fd = take_outside();
	if (b->fd >= 0) {
		if (flags & O_NONBLOCK)
			fcntl(b->fd, F_SETFL, fcntl(b->fd, F_GETFL) | O_NONBLOCK);
		/* the application's: it stays where it is (own_fd.c moves what the library keeps) */
		fd = fcntl(b->fd, copy, 0);
		return fd < 0 ? -errno : fd;
	}
	b->inside = take_inside();
	if (!b->inside)
		return -EMFILE;
	fd = REAL(eventfd)(0, (flags & O_CLOEXEC ? EFD_CLOEXEC : 0) |
				  (flags & O_NONBLOCK ? EFD_NONBLOCK : 0));
	b->fd = fd < 0 ? -errno : vfile_private_dup(fd);
	if (b->fd >= 0 || fd < 0)
		return b->fd < 0 ? b->fd : fd;
	REAL(close)(fd);
	return b->fd;
}

/* --- without one ------------------------------------------------------------------ */

static int open_epoll(int flags)
{
	int fd = REAL(epoll_create1)(flags & O_CLOEXEC ? EPOLL_CLOEXEC : 0);

	if (fd < 0)
		return -errno;
	if (flags & O_NONBLOCK)
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	return fd;
}

static bool have_always(void)
{
	bool both;

	lock_take(&store.lock);
	for (int i = 0; i < 2; i++)
		if (store.always[i] <= 0) {
			int fd = REAL(eventfd)(1, EFD_CLOEXEC);

			store.always[i] = fd < 0 ? fd : vfile_private_move(fd);
		}
	both = store.always[0] > 0 && store.always[1] > 0;
	lock_release(&store.lock);
	return both;
}

/* With the table's lock held: put in which of the two is not in, take out the other */
static int raise_epoll(void *arg, int fd)
{
	struct epoll_event ev = {.events = EPOLLIN};
	struct bell *b = arg;
	int next = b->rung == 1 ? 2 : 1;

	if (epoll_ctl(fd, EPOLL_CTL_ADD, store.always[next - 1], &ev))
		return -errno;
	if (b->rung)
		epoll_ctl(fd, EPOLL_CTL_DEL, store.always[b->rung - 1], NULL);
	b->rung = next;
	return 0;
}

static int lower_epoll(void *arg, int fd)
{
	struct bell *b = arg;

	epoll_ctl(fd, EPOLL_CTL_DEL, store.always[b->rung - 1], NULL);
	b->rung = 0;
	return 0;
}

static int is_it(void *arg, int fd)
{
	return *(int *)arg == fd ? 0 : -EBADF;
}

/* --- both ------------------------------------------------------------------------- */

int bell_open(struct bell *b, struct vfile *vf, int flags)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int fd, ret;

	pthread_once(&once, register_fork);
	*b = (struct bell){.vf = vf, .fd = -1};
	fd = open_eventfd(b, flags);
	if (fd == -EMFILE) {
		bell_close(b);
		fd = have_always() ? open_epoll(flags) : -EMFILE;
	}
	ret = fd < 0 ? fd : vfile_install(fd, vf);
	if (!ret)
		return fd;
	if (fd >= 0)
		REAL(close)(fd);
	bell_close(b);
	return ret;
}

void bell_ring(struct bell *b)
{
	const uint64_t one = 1;

	if (b->fd < 0)
		vfile_use(b->vf, raise_epoll, b);
	else if (write(b->fd, &one, sizeof(one)) < 0)
		return; /* the counter is not 0: it is readable anyhow */
}

void bell_silence(struct bell *b)
{
	struct pollfd p = {.fd = b->fd, .events = POLLIN};
	uint64_t v;

	if (b->fd < 0 && b->rung)
		vfile_use(b->vf, lower_epoll, b);
	/* The look before is for programs that read the eventfd behind our back. */
	if (b->fd >= 0 && poll(&p, 1, 0) > 0 && read(b->fd, &v, sizeof(v)) < 0)
		return;
}

int bell_fd(const struct bell *b, int fd)
{
	if (b->fd >= 0)
		return b->fd;
	return vfile_use(b->vf, is_it, &fd) ? -1 : fd;
}

void bell_close(struct bell *b)
{
	if (b->fd >= 0)
		vfile_private_close(b->fd);
	give_inside(b);
	b->fd = -1;
}
