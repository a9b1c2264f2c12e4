/*
 * own_fd.c - the descriptors that the library opens for itself.
 *
 * A program may close descriptors that it does not know, or put others in their place by
 * number (dup2), and one that was started without stdin, stdout or stderr must not find
 * our sockets there. So what the library's own code opens and keeps is made private
 * (vfile.h). The layers below do not know this, see own_calls.c.
 */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#ifdef HAVE_URING
#include <liburing.h>
#endif

#include "verbs/engine/engine.h"
#include "verbs/engine/vfile.h"
#include "verbs/preload/interpose.h"

int __wrap_socket(int domain, int type, int protocol);
int __wrap_eventfd(unsigned int count, int flags);
int __wrap_epoll_create1(int flags);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_close(int fd);
int __wrap_fclose(FILE *f);

/*
 * Without an engine nothing is kept open, and the process may be a child of vfork. What is opened
 * later than at the start is for a moment, mostly: a place within the limit does.
 */
static int own(int fd)
{
	if (fd < 0 || !engine_starts())
		return fd;
	return engine_running() ? vfile_private_move_near(fd) : vfile_private_move(fd);
}

int __wrap_socket(int domain, int type, int protocol)
{
	return own(REAL(socket)(domain, type, protocol));
}

int __wrap_eventfd(unsigned int count, int flags)
{
	return own(REAL(eventfd)(count, flags));
}

int __wrap_epoll_create1(int flags)
{
	return own(REAL(epoll_create1)(flags));
}

int __wrap_open64(const char *path, int flags, ...)
{
	mode_t mode;

	INTERPOSE_MODE(flags, mode);
	return own(REAL(open64)(path, flags, mode));
}

int __wrap_close(int fd)
{
	vfile_close(fd);
	return REAL(close)(fd);
}

int __wrap_fclose(FILE *f)
{
	vfile_close(fileno(f));
	return REAL(fclose)(f);
}

/* --- rings ------------------------------------------------------------------------ */

#ifdef HAVE_URING
int __real_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
				      struct io_uring_params *p);
int __wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
				      struct io_uring_params *p);
void __real_io_uring_queue_exit(struct io_uring *ring);
void __wrap_io_uring_queue_exit(struct io_uring *ring);

/* liburing opens them by system calls of its own. Their memory is mapped already. */
int __wrap_io_uring_queue_init_params(unsigned int entries, struct io_uring *ring,
				      struct io_uring_params *p)
{
	int ret = __real_io_uring_queue_init_params(entries, ring, p);

	if (!ret)
		ring->ring_fd = ring->enter_ring_fd = own(ring->ring_fd);
	return ret;
}

/* ... and closes them so */
void __wrap_io_uring_queue_exit(struct io_uring *ring)
{
	vfile_close(ring->ring_fd);
	__real_io_uring_queue_exit(ring);
}
#endif
