/*
 * stats_socket.c - the counters of a running process, for those who ask from outside.
 *
 * `urxe stat` connects to DIR/stat/PID and gets the descriptor of a memory file with the
 * JSON of stats_json(). So the process does nothing for its watchers until one asks, and
 * the helper thread, which answers, never waits for a reader. The directory is private:
 * who can connect may know.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "verbs/engine/stats.h"

int stats_listen(const char *dir)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	struct stat st;
	int fd, n;

	n = snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/stat/%d", dir,
		     (int)getpid());
	if (n >= (int)sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	/* left by a process that had the same id, or by this one before exec */
	if (lstat(addr.sun_path, &st) == 0 && S_ISSOCK(st.st_mode))
		unlink(addr.sun_path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || listen(fd, 8)) {
		n = -errno;
		close(fd);
		return n;
	}
	return fd;
}

static int make_file(struct engine *e)
{
	int fd = memfd_create("urxe-stat", MFD_CLOEXEC);
	int copy = fd < 0 ? -1 : dup(fd);
	FILE *out = copy < 0 ? NULL : fdopen(copy, "w");

	if (out) {
		stats_json(e, out);
		if (fclose(out) == 0)
			return fd;
	} else if (copy >= 0) {
		close(copy);
	}
	if (fd >= 0)
		close(fd);
	return -1;
}

static void send_file(int conn, int fd)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control = {0};
	char byte = 0;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	/* A watcher that went away gets nothing, and the program no SIGPIPE. */
	sendmsg(conn, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void stats_answer(struct engine *e, int listener)
{
	int conn = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	int fd;

	if (conn < 0)
		return;
	fd = make_file(e);
	if (fd >= 0) {
		send_file(conn, fd);
		close(fd);
	}
	close(conn);
}
