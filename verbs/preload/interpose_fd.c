/*
 * interpose_fd.c - what happens to descriptors: reading, writing, duplicating, closing.
 *
 * The table of vfiles follows; what is in it goes to its device, all else to libc.
 * Descriptors that the library keeps for itself are out of the program's reach.
 */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/lock.h"
#include "odp/guard.h"
#include "verbs/engine/engine.h"
#include "verbs/engine/vfile.h"
#include "verbs/preload/doorbell.h"
#include "verbs/preload/interpose.h"
#include "verbs/preload/interpose_netlink.h"

ssize_t __read_chk(int fd, void *buf, size_t len, size_t room);

/* As from the kernel: a call that succeeds leaves errno as it was, @before. */
static ssize_t result(ssize_t n, int before)
{
	errno = n >= 0 ? before : (int)-n;
	return n >= 0 ? n : -1;
}

static void put_vfile(void *arg)
{
	vfile_put(arg);
}

/* A reader may wait and be cancelled meanwhile: read(2) is a cancellation point. */
static ssize_t read_vfile(struct vfile *vf, int fd, void *buf, size_t len)
{
	volatile ssize_t n = -EINVAL;
	volatile int before = errno; /* read behind a cancellation point */

	pthread_cleanup_push(put_vfile, vf);
	pthread_testcancel(); /* what can be read at once need not wait */
	if (vf->ops->read)
		n = vf->ops->read(vf, fd, buf, len);
	pthread_cleanup_pop(1);
	return result(n, before);
}

INTERPOSE ssize_t read(int fd, void *buf, size_t len)
{
	struct vfile *vf = vfile_get(fd);

	return vf ? read_vfile(vf, fd, buf, len) : REAL(read)(fd, buf, len);
}

INTERPOSE ssize_t __read_chk(int fd, void *buf, size_t len, size_t room)
{
	struct vfile *vf = len <= room ? vfile_get(fd) : NULL;

	return vf ? read_vfile(vf, fd, buf, len) : REAL(__read_chk)(fd, buf, len, room);
}

/* So may a writer: rdma_get_cm_event(3) writes a command that waits. */
static ssize_t write_and_wait(struct vfile *vf, int fd, const void *buf, size_t len)
{
	volatile ssize_t n = -EINVAL;
	volatile int before = errno; /* read behind a cancellation point */

	pthread_cleanup_push(put_vfile, vf);
	if (vf->ops->write)
		n = vf->ops->write(vf, fd, buf, len);
	pthread_cleanup_pop(1);
	return result(n, before);
}

/* A thread that ended inside of a command would leave half an object. */
static ssize_t write_vfile(struct vfile *vf, int fd, const void *buf, size_t len)
{
	ssize_t n = -EINVAL;
	int before = errno;

	if (vf->ops->write_waits)
		return write_and_wait(vf, fd, buf, len);
	cancel_defer();
	if (vf->ops->write)
		n = vf->ops->write(vf, fd, buf, len);
	vfile_put(vf);
	cancel_restore();
	return result(n, before);
}

INTERPOSE ssize_t write(int fd, const void *buf, size_t len)
{
	struct vfile *vf;

	if (doorbell_is(fd, len)) {
		int before = errno, ret = doorbell_ring();

		if (ret != -ENOENT)
			return result(ret ? ret : (ssize_t)len, before);
	}
	vf = vfile_get(fd);
	return vf ? write_vfile(vf, fd, buf, len) : REAL(write)(fd, buf, len);
}

/*
 * A mapping can be registered with one userfaultfd only. The program never finds that the HCA's
 * was first, nor that it is not its own where it takes all back.
 */
static int userfaultfd_ioctl(int fd, unsigned long cmd, const void *arg)
{
	bool on = cmd == UFFDIO_REGISTER;
	struct engine *e = engine_running();
	struct uffdio_range r;
	int err, saved;

	if (on)
		odp_others_watch();
	err = on || !e ? REAL(ioctl)(fd, cmd, arg) : -1;
	if (!e || !(on ? err && errno == EBUSY : true))
		return err;
	/* both begin with a range; if that cannot be read, the call says so */
	if (guard_copy(&r, arg, sizeof(r)) || !r.len || r.len - 1 > UINTPTR_MAX - r.start)
		return REAL(ioctl)(fd, cmd, arg);
	odp_yield_begin(engine_odp(e), r.start, r.len);
	err = REAL(ioctl)(fd, cmd, arg);
	saved = errno;
	odp_yield_end(engine_odp(e));
	errno = saved;
	return err;
}

INTERPOSE int ioctl(int fd, unsigned long cmd, ...)
{
	struct vfile *vf = vfile_get(fd);
	int n = -ENOTTY, before = errno;
	va_list ap;
	void *arg;

	va_start(ap, cmd);
	arg = va_arg(ap, void *);
	va_end(ap);
	if (!vf && (cmd == UFFDIO_REGISTER || cmd == UFFDIO_UNREGISTER))
		return userfaultfd_ioctl(fd, cmd, arg);
	if (!vf)
		return REAL(ioctl)(fd, cmd, arg);
	/* ioctl(2) is no cancellation point, but what it needs may be. */
	cancel_defer();
	if (vf->ops->ioctl)
		n = vf->ops->ioctl(vf, fd, cmd, arg);
	vfile_put(vf);
	cancel_restore();
	return (int)result(n, before);
}

/* --- closing ---------------------------------------------------------------------- */

EARLY static int close_one(int fd)
{
	if (vfile_is_private(fd)) {
		errno = EBADF;
		return -1;
	}
	vfile_close(fd);
	return REAL(close)(fd);
}

INTERPOSE int close(int fd)
{
	return close_one(fd);
}

INTERPOSE int fclose(FILE *f)
{
	int fd = fileno(f);

	if (fd >= 0)
		vfile_close(fd);
	return REAL(fclose)(f);
}

/* Really close [@first, @last], but not what is private */
static int close_span(unsigned int first, unsigned int last, int flags)
{
	unsigned int limit = vfile_limit();
	unsigned int from = first;
	int ret = 0;

	for (unsigned int fd = first; fd <= last && fd < limit && !ret; fd++) {
		if (vfile_is_private((int)fd)) {
			if (fd > from)
				ret = REAL(close_range)(from, fd - 1, flags);
			from = fd + 1;
		} else {
			vfile_close((int)fd);
		}
	}
	if (!ret && from <= last)
		ret = REAL(close_range)(from, last, flags);
	return ret;
}

static bool have_close_range(void)
{
	/* on no descriptor at all: 0, or ENOSYS before Linux 5.9 */
	return REAL(close_range) && REAL(close_range)(~0u, ~0u, 0) == 0;
}

INTERPOSE int close_range(unsigned int first, unsigned int last, int flags)
{
	if (!REAL(close_range)) {
		errno = ENOSYS;
		return -1;
	}
	if (flags || first > last || first >= vfile_limit() || !have_close_range())
		return REAL(close_range)(first, last, flags);
	return close_span(first, last, flags);
}

INTERPOSE void closefrom(int first)
{
	unsigned int low = first < 0 ? 0 : (unsigned int)first;

	if (low >= vfile_limit()) {
		if (REAL(closefrom))
			REAL(closefrom)(first);
		return;
	}
	if (have_close_range()) {
		close_span(low, ~0u, 0);
		return;
	}
	for (long fd = low, end = sysconf(_SC_OPEN_MAX); fd < end; fd++)
		close_one((int)fd);
}

/* --- duplicating ------------------------------------------------------------------ */

INTERPOSE int dup(int fd)
{
	int copy = REAL(dup)(fd);

	if (copy >= 0)
		vfile_dup(fd, copy);
	return copy;
}

INTERPOSE int dup2(int fd, int to)
{
	int copy;

	if (vfile_is_private(to)) {
		errno = EBUSY;
		return -1;
	}
	copy = REAL(dup2)(fd, to);
	if (copy >= 0)
		vfile_dup(fd, copy);
	return copy;
}

INTERPOSE int dup3(int fd, int to, int flags)
{
	int copy;

	if (vfile_is_private(to)) {
		errno = EBUSY;
		return -1;
	}
	copy = REAL(dup3)(fd, to, flags);
	if (copy >= 0)
		vfile_dup(fd, copy);
	return copy;
}

/* Whatever the argument is, it was passed like a pointer. */
#define FCNTL(name)                                                                      \
	INTERPOSE int name(int fd, int cmd, ...)                                         \
	{                                                                                \
		va_list ap;                                                              \
		void *arg;                                                               \
		int n;                                                                   \
                                                                                         \
		va_start(ap, cmd);                                                       \
		arg = va_arg(ap, void *);                                                \
		va_end(ap);                                                              \
		n = REAL(name)(fd, cmd, arg);                                            \
		if (n >= 0 && (cmd == F_DUPFD || cmd == F_DUPFD_CLOEXEC))                \
			vfile_dup(fd, n);                                                \
		return n;                                                                \
	}

FCNTL(fcntl)
FCNTL(fcntl64)

/* --- descriptors that come through a socket --------------------------------------- */

static void adopt_all(struct msghdr *msg)
{
	struct cmsghdr *c;

	if (!msg->msg_controllen || !vfile_limit())
		return;
	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c)) {
		size_t n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			vfile_adopt(fd);
		}
	}
}

INTERPOSE ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t n;

	netlink_receiving(fd);
	n = REAL(recvmsg)(fd, msg, flags);
	if (n >= 0) {
		adopt_all(msg);
		netlink_received(fd, msg);
	}
	return n;
}

INTERPOSE int recvmmsg(int fd, struct mmsghdr *msgs, unsigned int max, int flags,
		       struct timespec *timeout)
{
	int n = REAL(recvmmsg)(fd, msgs, max, flags, timeout);

	for (int i = 0; i < n; i++)
		adopt_all(&msgs[i].msg_hdr);
	return n;
}

/* --- the socket that would show the host's devices -------------------------------- */

/*
 * libibverbs asks netlink for devices first, and sysfs when there is no such socket. On a
 * host with devices of its own the kernel's would answer, and ours would never be looked for.
 */
INTERPOSE int socket(int domain, int type, int protocol)
{
	if (domain == AF_NETLINK && protocol == NETLINK_RDMA && paths_dir())
		return netlink_socket(type);
	return REAL(socket)(domain, type, protocol);
}
