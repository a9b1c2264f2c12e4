/*
 * port_unread.c - does what was sent to a process of this host lie there unread?
 *
 * Theory of operation
 *
 * An HCA receives and acknowledges in hardware. Here a process has to run for that, and on a
 * crowded machine, or when it is stopped, it does not for longer than a requester waits. A
 * timeout then says nothing of loss. The sender can know: the process lives (the table), has
 * never since read all that was there (the table, too), and there is something, in the lane to
 * it or in its socket.
 *
 * What the kernel keeps for a socket is in /proc/net/udp, which everybody may read. Where it
 * is not, what lies in a socket counts as lost, as on a wire.
 *
 * Owns: nothing. Must not know: who waits, and for how long.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/port_internal.h"

/* Longer than any line there; what does not fit is no socket */
#define LINE_BYTES 512

/* The bytes that wait in the socket, if the line of /proc/net/udp is one of @port, else 0 */
static unsigned long waiting_in(const char *line, uint16_t port)
{
	unsigned long bytes;
	unsigned int at;

	if (sscanf(line, "%*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %*x %*x:%lx", &at,
		   &bytes) != 2)
		return 0;
	return at == port ? bytes : 0;
}

/* What is behind the last line that ended in @buf moves to its start; how much that is */
static size_t look_through(char *buf, size_t have, uint16_t port, bool *found)
{
	char *line = buf, *end;

	for (; !*found && (end = memchr(line, '\n', have - (size_t)(line - buf)));
	     line = end + 1) {
		*end = '\0';
		*found = waiting_in(line, port) > 0;
	}
	have -= (size_t)(line - buf);
	memmove(buf, line, have);
	return have;
}

static bool waits_in(const char *file, uint16_t port)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	bool found = false;
	char buf[4096];
	size_t have = 0;
	ssize_t n;

	if (fd < 0)
		return false;
	while (!found && (n = read(fd, buf + have, sizeof(buf) - have)) > 0) {
		have = look_through(buf, have + (size_t)n, port, &found);
		if (have > LINE_BYTES)
			break;
	}
	close(fd);
	return found;
}

bool net_port_unread(struct net_port *p, const struct net_path *path, uint32_t qpn,
		     uint64_t since)
{
	unsigned int slot = qpn >> TABLE_SLOT_SHIFT;
	uint16_t port;

	if (!slot || slot >= TABLE_SLOTS || table_is_own(p->table, slot) ||
	    !hostaddr_has(&p->host, &path->dst))
		return false;
	port_set_now(p);
	port = table_port(p->table, slot, p->now);
	if (!port || table_emptied_at(p->table, slot, p->now) >= since)
		return false;
	return port_lane_unread(p, slot) ||
	       waits_in(net_ip_is_v4(&path->dst) ? "/proc/self/net/udp"
						 : "/proc/self/net/udp6",
			port);
}
