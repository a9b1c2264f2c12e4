/*
 * vfile.c - which descriptors are emulated devices.
 *
 * Theory of operation
 *
 * A table indexed by descriptor holds a pointer to the vfile, in chunks that are
 * allocated when first needed and never freed, so that a lookup of a descriptor that is
 * none of ours (nearly all) is two loads without a lock. Changes, and lookups that hit,
 * take the table's mutex: a hit must raise the reference count before a concurrent close
 * drops it.
 *
 * The table belongs to one process. A child of vfork(2) or of a raw clone(2) shares or
 * inherits it without fork handlers having run, and closes descriptors before it executes
 * something else; that must not close the parent's devices. Hence a hit counts only in
 * the process that the table is of; elsewhere a descriptor is just a descriptor. In a
 * child of fork(2) each entry becomes an orphan: the device answers EIO, closing it only
 * closes.
 *
 * Private descriptors are the library's own (sockets, duplicates of event fds). They have
 * an entry too, so that a program that closes all descriptors it does not know leaves
 * them be. They are outside of the program's limit (base/outside.c), or where that cannot be
 * as high within it as it lets them be.
 */
#include "verbs/engine/vfile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/outside.h"

#define CHUNK_LEN  256
#define CHUNKS	   4096 /* fs.nr_open is 2^20 */
#define PRIVATE_FD 512	/* where private descriptors begin if the limit allows it */
#define PRIVATE_FD_LOW_LIMIT                                                             \
	32 /* and otherwise: above what shells and programs use by number */

struct chunk {
	struct vfile *file[CHUNK_LEN];
};

/*
 * struct table - the descriptors of one process. It stands beside the engine, not under it: calls
 * look here before an engine has started, and what is here outlives the engine in a child of fork.
 * @chunks:	read without the lock, written with it
 * @limit:	behind the last descriptor of the last chunk; likewise
 * @pid:	whose; 0 before the first entry
 * @mine:	a page that the kernel wipes in every copy of the process
 *		(MADV_WIPEONFORK), so that the common lookup needs no system call to know where it is
 * @no_stderr:	the program has closed descriptor 2: what has the number now is something else
 */
static struct table {
	struct lock lock;
	struct chunk *chunks[CHUNKS];
	unsigned int limit;
	pid_t pid;
	int *mine;
	atomic_bool no_stderr;
} table = {.lock = LOCK_INITIALIZER};

static ssize_t orphan_read(struct vfile *vf, int fd, void *buf, size_t len)
{
	return -EIO;
}

static ssize_t orphan_write(struct vfile *vf, int fd, const void *buf, size_t len)
{
	return -EIO;
}

static int orphan_ioctl(struct vfile *vf, int fd, unsigned long cmd, void *arg)
{
	return -EIO;
}

static const struct vfile_ops orphan_ops = {
    .read = orphan_read,
    .write = orphan_write,
    .ioctl = orphan_ioctl,
};

/* Neither is ever released: each holds a reference to itself. */
static struct vfile orphan = {.ops = &orphan_ops, .refs = 1};
static struct vfile private_fd = {.ops = &orphan_ops, .refs = 1};

static struct vfile **slot_of(int fd)
{
	struct chunk *c;

	if (fd < 0 || fd >= CHUNK_LEN * CHUNKS)
		return NULL;
	c = __atomic_load_n(&table.chunks[fd / CHUNK_LEN], __ATOMIC_ACQUIRE);
	return c ? &c->file[fd % CHUNK_LEN] : NULL;
}

static struct vfile *peek(int fd)
{
	struct vfile **slot = slot_of(fd);

	return slot ? __atomic_load_n(slot, __ATOMIC_RELAXED) : NULL;
}

/* With the lock held */
static struct vfile **slot_make(int fd)
{
	unsigned int limit;
	struct chunk *c;

	if (fd < 0 || fd >= CHUNK_LEN * CHUNKS)
		return NULL;
	if (!table.chunks[fd / CHUNK_LEN]) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return NULL;
		__atomic_store_n(&table.chunks[fd / CHUNK_LEN], c, __ATOMIC_RELEASE);
		limit = ((unsigned int)fd / CHUNK_LEN + 1) * CHUNK_LEN;
		if (limit > table.limit)
			__atomic_store_n(&table.limit, limit, __ATOMIC_RELEASE);
	}
	return slot_of(fd);
}

/* With the lock held: put @vf in, return what was there */
static struct vfile *swap(struct vfile **slot, struct vfile *vf)
{
	struct vfile *old = *slot;

	__atomic_store_n(slot, vf, __ATOMIC_RELAXED);
	return old;
}

/* True in the process of the table, and in a vfork child of it */
static bool is_memory_ours(void)
{
	return table.mine ? *table.mine : table.pid == getpid();
}

bool vfile_is_home(void)
{
	return is_memory_ours();
}

/* True only in the process of the table: who changes it must know for sure. */
static bool is_ours(void)
{
	return is_memory_ours() && table.pid == getpid();
}

static void fork_prepare(void)
{
	lock_take(&table.lock);
}

static void fork_parent(void)
{
	lock_release(&table.lock);
}

/* With the lock held: this process did not open what is in the table. */
static void orphan_all(void)
{
	for (unsigned int i = 0; i < CHUNKS; i++) {
		struct chunk *c = table.chunks[i];

		for (unsigned int j = 0; c && j < CHUNK_LEN; j++)
			if (c->file[j])
				swap(&c->file[j],
				     c->file[j] == &private_fd ? NULL : &orphan);
	}
	table.pid = getpid();
	if (table.mine)
		*table.mine = 1;
}

static void make_mark(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *p =
	    mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return;
	if (madvise(p, page, MADV_WIPEONFORK))
		munmap(p, page);
	else
		table.mine = p;
}

static void fork_child(void)
{
	if (table.pid)
		orphan_all();
	lock_release(&table.lock);
}

static void register_fork(void)
{
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

void vfile_follow_fork(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_fork);
}

/* With the lock held, before the first entry of this process */
static void adopt_table(void)
{
	if (is_ours())
		return;
	vfile_follow_fork();
	if (!table.pid)
		make_mark();
	orphan_all();
}

static int install(int fd, struct vfile *vf)
{
	struct vfile **slot, *old = NULL;

	lock_take(&table.lock);
	adopt_table();
	slot = slot_make(fd);
	if (slot)
		old = swap(slot, vf);
	lock_release(&table.lock);
	/* a descriptor that was closed behind our back, by a raw system call */
	if (old)
		vfile_put(old);
	return slot ? 0 : -EMFILE;
}

int vfile_install(int fd, struct vfile *vf)
{
	int ret;

	vf->refs = 1;
	ret = install(fd, vf);
	if (ret)
		vf->refs = 0;
	return ret;
}

/* A reference to what @fd is; if @ops is given, only if it has these operations */
static struct vfile *get(int fd, const struct vfile_ops *ops)
{
	struct vfile *vf;

	if (!peek(fd))
		return NULL;
	if (!is_memory_ours())
		return peek(fd) == &private_fd || ops ? NULL : &orphan;
	lock_take_brief(&table.lock);
	vf = peek(fd);
	if (vf == &private_fd || (vf && ops && vf->ops != ops))
		vf = NULL;
	if (vf)
		__atomic_add_fetch(&vf->refs, 1, __ATOMIC_RELAXED);
	lock_release_brief(&table.lock);
	return vf;
}

struct vfile *vfile_get(int fd)
{
	return get(fd, NULL);
}

struct vfile *vfile_get_as(int fd, const struct vfile_ops *ops)
{
	return get(fd, ops);
}

void vfile_put(struct vfile *vf)
{

	if (vf == &orphan || vf == &private_fd)
		return;
	if (__atomic_sub_fetch(&vf->refs, 1, __ATOMIC_ACQ_REL) || !vf->ops->release)
		return;
	/* As in the kernel, nothing interrupts it, though it closes and writes. */
	cancel_defer();
	vf->ops->release(vf);
	cancel_restore();
}

static void note_stderr(int fd, bool closed)
{
	if (fd == STDERR_FILENO && (!table.pid || is_ours()))
		atomic_store_explicit(&table.no_stderr, closed, memory_order_relaxed);
}

bool vfile_has_stderr(void)
{
	return !atomic_load_explicit(&table.no_stderr, memory_order_relaxed);
}

void vfile_dup(int oldfd, int newfd)
{
	struct vfile *vf, *old = NULL, **slot;

	note_stderr(newfd, false);
	if (oldfd == newfd || (!peek(oldfd) && !peek(newfd)) || !is_ours())
		return;
	lock_take(&table.lock);
	vf = peek(oldfd);
	if (vf == &private_fd)
		vf = NULL;
	slot = vf ? slot_make(newfd) : slot_of(newfd);
	if (slot) {
		if (vf)
			__atomic_add_fetch(&vf->refs, 1, __ATOMIC_RELAXED);
		old = swap(slot, vf);
	}
	lock_release(&table.lock);
	if (old)
		vfile_put(old);
}

void vfile_adopt(int fd)
{
	int limit = (int)vfile_limit();
	pid_t pid = getpid();

	for (int i = 0; i < limit; i++) {
		struct vfile *vf = i == fd ? NULL : peek(i);

		if (!vf && !slot_of(i))
			i += CHUNK_LEN - 1; /* the whole chunk is missing */
		if (!vf || vf == &private_fd ||
		    syscall(SYS_kcmp, pid, pid, KCMP_FILE, fd, i))
			continue;
		vfile_dup(i, fd);
		return;
	}
}

int vfile_use(struct vfile *vf, int (*fn)(void *arg, int fd), void *arg)
{
	int ret = -EBADF;

	if (!is_ours())
		return ret;
	lock_take(&table.lock);
	for (int i = 0; ret == -EBADF && i < (int)table.limit; i++)
		if (!slot_of(i))
			i += CHUNK_LEN - 1;
		else if (peek(i) == vf)
			ret = fn(arg, i);
	lock_release(&table.lock);
	return ret;
}

void vfile_close(int fd)
{
	struct vfile **slot, *old;

	note_stderr(fd, true);
	if (!peek(fd) || !is_ours())
		return;
	lock_take(&table.lock);
	slot = slot_of(fd);
	old = swap(slot, NULL);
	lock_release(&table.lock);
	if (old)
		vfile_put(old);
}

void vfile_discard(int fd)
{
	vfile_close(fd);
	close(fd);
}

bool vfile_is_private(int fd)
{
	return peek(fd) == &private_fd && is_ours();
}

/* A duplicate within the limit of descriptors, as high as that lets it be; or -errno */
static int dup_near(int fd)
{
	static const int lowest[] = {PRIVATE_FD, PRIVATE_FD_LOW_LIMIT, 3};
	int copy = -1;

	for (size_t i = 0; i < 3 && copy < 0; i++)
		copy = fcntl(fd, F_DUPFD_CLOEXEC, lowest[i]);
	return copy < 0 ? -errno : copy;
}

/* @copy: of another one, or -errno */
static int make_private(int copy)
{
	int ret;

	if (copy < 0)
		return copy;
	ret = install(copy, &private_fd);
	if (!ret)
		return copy;
	close(copy);
	return ret;
}

int vfile_private_dup(int fd)
{
	int copy = outside_dup(fd);

	return make_private(copy < 0 ? dup_near(fd) : copy);
}

/* @copy takes the place of @fd, if it could be had */
static int move_to(int copy, int fd)
{
	if (copy < 0)
		return fd;
	close(fd);
	return copy;
}

int vfile_private_move(int fd)
{
	return move_to(vfile_private_dup(fd), fd);
}

int vfile_private_move_near(int fd)
{
	return move_to(make_private(dup_near(fd)), fd);
}

void vfile_private_mark(int fd)
{
	install(fd, &private_fd);
}

void vfile_private_close(int fd)
{
	if (!vfile_is_private(fd))
		return;
	vfile_close(fd);
	close(fd);
}

unsigned int vfile_limit(void)
{
	return __atomic_load_n(&table.limit, __ATOMIC_ACQUIRE);
}
