/*
 * interpose_netlink.c - the socket that would show the host's devices, and shows ours.
 *
 * Theory of operation. A program that asks for NETLINK_RDMA gets a netlink socket of a protocol that is
 * for user space alone (NETLINK_USERSOCK). It is real: bind, getsockname, options, poll work by themselves.
 * What is sent there is answered by us, from a socket of our own, before sendto(2) returns. Answers
 * that its buffer does not hold wait here, and follow when something is received. That an answer comes
 * from a process is the only thing to hide: recvmsg(2) says it is the kernel's.
 *
 * A process with libibverbs gets no such socket: libibverbs then looks in sysfs, where it finds all that
 * it needs. Sends are seen as sendto(2) and send(2), as libmnl and iproute2 do it.
 */
#undef _FORTIFY_SOURCE
#include <errno.h>
#include <link.h>
#include <linux/netlink.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/lock.h"
#include "odp/guard.h"
#include "verbs/netlink/nldev.h"
#include "verbs/preload/interpose.h"
#include "verbs/preload/interpose_netlink.h"

#define SOCKETS	    16
#define REQUEST_MAX 65536 /* bytes that are sent at once */

/*
 * struct nl_socket - one of the program's
 * @fd:		its descriptor, which may have become another file since: is_ours()
 * @waiting:	answers, of which @sent datagrams are sent
 */
struct nl_socket {
	int fd;
	struct nldev_answer waiting;
	size_t sent;
};

static struct {
	struct lock lock;
	_Atomic unsigned int n;
	struct nl_socket s[SOCKETS];
} all = {.lock = LOCK_INITIALIZER};

static int is_libibverbs(struct dl_phdr_info *info, size_t size, void *arg)
{
	return strstr(info->dlpi_name, "/libibverbs.so") != NULL;
}

/* The entry of @fd, if it still is such a socket; the lock is held. NULL: it is not */
static struct nl_socket *find(int fd)
{
	for (unsigned int i = 0; i < all.n; i++) {
		int protocol = 0;
		socklen_t len = sizeof(protocol);

		if (all.s[i].fd == fd &&
		    !getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len) &&
		    protocol == NETLINK_USERSOCK)
			return &all.s[i];
	}
	return NULL;
}

/* A place in the table: that of a descriptor that is closed, or a new one */
static struct nl_socket *place(int fd)
{
	for (unsigned int i = 0; i < all.n; i++)
		if (all.s[i].fd == fd || !find(all.s[i].fd))
			return &all.s[i];
	return all.n < SOCKETS ? &all.s[all.n++] : NULL;
}

int netlink_socket(int type)
{
	struct nl_socket *s;
	int fd, ret;

	if (dl_iterate_phdr(is_libibverbs, NULL)) {
		errno = EPROTONOSUPPORT;
		return -1;
	}
	/* what is sent is copied with a guard, and there may be no engine */
	ret = guard_init();
	if (ret) {
		errno = -ret;
		return -1;
	}
	fd = REAL(socket)(AF_NETLINK, type, NETLINK_USERSOCK);
	if (fd < 0)
		return fd;
	lock_take(&all.lock);
	s = place(fd);
	if (s) {
		nldev_answer_end(&s->waiting);
		s->fd = fd;
		s->sent = 0;
	}
	lock_release(&all.lock);
	if (!s) {
		close(fd);
		errno = ENFILE;
		return -1;
	}
	return fd;
}

/* --- answers ---------------------------------------------------------------------- */

/* The port of the program's socket, which gets one now if it has none; 0: it cannot */
static uint32_t port_of(int fd)
{
	struct sockaddr_nl sa = {.nl_family = AF_NETLINK};
	socklen_t len = sizeof(sa);

	if (getsockname(fd, (struct sockaddr *)&sa, &len))
		return 0;
	if (!sa.nl_pid) {
		sa = (struct sockaddr_nl){.nl_family = AF_NETLINK};
		if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) ||
		    getsockname(fd, (struct sockaddr *)&sa, &len))
			return 0;
	}
	return sa.nl_pid;
}

/* As many of the answers as there is room for; the lock is held */
static void flush(struct nl_socket *s)
{
	struct sockaddr_nl to = {.nl_family = AF_NETLINK, .nl_pid = port_of(s->fd)};
	int from;

	if (s->sent == s->waiting.n)
		return;
	from = REAL(socket)(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_USERSOCK);
	while (from >= 0 && s->sent < s->waiting.n) {
		size_t begin = s->sent ? s->waiting.end[s->sent - 1] : 0;

		if (REAL(sendto)(from, s->waiting.data + begin,
				 s->waiting.end[s->sent] - begin, MSG_DONTWAIT,
				 (struct sockaddr *)&to, sizeof(to)) < 0)
			break;
		s->sent++;
	}
	if (from >= 0)
		close(from);
}

/* 0 or -errno; the lock is held */
static int answer(struct nl_socket *s, const void *buf, size_t len)
{
	struct nldev_world w;
	bool made = false;
	int ret = nldev_look(&w);

	if (!ret) {
		nldev_answer_end(&s->waiting);
		s->sent = 0;
		made = nldev_answer(&w, buf, len, port_of(s->fd), &s->waiting);
	}
	nldev_forget(&w);
	if (ret)
		return ret;
	if (!made) {
		nldev_answer_end(&s->waiting);
		return -ENOMEM;
	}
	flush(s);
	return 0;
}

/* The same of a copy: what the program has may be anywhere, and changing */
static int answer_copy(struct nl_socket *s, const void *buf, size_t len)
{
	void *copy;
	int ret;

	if (len > REQUEST_MAX)
		return -EMSGSIZE;
	copy = malloc(len ? len : 1);
	if (!copy)
		return -ENOMEM;
	ret = guard_copy(copy, buf, len) ? -EFAULT : answer(s, copy, len);
	free(copy);
	return ret;
}

/* A send to a socket of ours: what it returns, and true. False: it is none */
static bool send_to(int fd, const void *buf, size_t len, ssize_t *ret)
{
	struct nl_socket *s;
	int err;

	if (!all.n)
		return false;
	lock_take(&all.lock);
	s = find(fd);
	err = s ? answer_copy(s, buf, len) : 0;
	lock_release(&all.lock);
	if (!s)
		return false;
	*ret = err ? -1 : (ssize_t)len;
	if (err)
		errno = -err;
	return true;
}

void netlink_received(int fd, struct msghdr *msg)
{
	struct sockaddr_nl *from = msg->msg_name;

	if (!all.n)
		return;
	lock_take(&all.lock);
	if (find(fd) && from && msg->msg_namelen >= sizeof(*from))
		from->nl_pid = 0;
	lock_release(&all.lock);
}

void netlink_receiving(int fd)
{
	struct nl_socket *s;

	if (!all.n)
		return;
	lock_take(&all.lock);
	s = find(fd);
	if (s)
		flush(s);
	lock_release(&all.lock);
}

INTERPOSE ssize_t sendto(int fd, const void *buf, size_t len, int flags,
			 const struct sockaddr *to, socklen_t to_len)
{
	ssize_t ret;

	return send_to(fd, buf, len, &ret)
		   ? ret
		   : REAL(sendto)(fd, buf, len, flags, to, to_len);
}

INTERPOSE ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	ssize_t ret;

	return send_to(fd, buf, len, &ret) ? ret : REAL(send)(fd, buf, len, flags);
}
