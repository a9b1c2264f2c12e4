/*
 * peer.c - what is known of the QP at the other end: that of this process or of another one of
 * this user on this host, from its segment.
 *
 * Asked for when something has failed already, with the lock held. The other process is asked
 * nothing: it may be stopped, or spin. Which file its segment is it tells by having it mapped.
 *
 * Owns: nothing. Must not know: what becomes of the answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/reader.h"
#include "verbs/engine/engine_internal.h"

#define MAX_LINES 200000 /* of /proc/PID/maps */

/* A segment that process @pid writes, or NULL */
static struct trace_reader *open_segment(const char *path, int pid)
{
	struct trace_reader *t;
	struct stat st;

	if (lstat(path, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    trace_open(path, NULL, 0, &t))
		return NULL;
	if (trace_info(t)->pid == pid && !trace_info(t)->elsewhere[0])
		return t;
	trace_close(t);
	return NULL;
}

/* The file that a line of /proc/PID/maps is of, if it is shared and written to; or NULL */
static char *shared_file(char *line)
{
	char *rights = strchr(line, ' '), *path = strchr(line, '/');

	line[strcspn(line, "\n")] = '\0';
	return rights && path && !strncmp(rights, " rw-s", 5) ? path : NULL;
}

static struct trace_reader *find_segment(int pid)
{
	struct trace_reader *t = NULL;
	char name[40], *line = NULL, *path;
	size_t room = 0;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", pid);
	maps = fopen(name, "re");
	if (!maps)
		return NULL;
	for (int n = 0; !t && n < MAX_LINES && getline(&line, &room, maps) > 0; n++) {
		path = shared_file(line);
		if (path)
			t = open_segment(path, pid);
	}
	free(line);
	fclose(maps);
	return t;
}

static bool same_stderr(int pid)
{
	struct stat us, them;
	char path[40];

	snprintf(path, sizeof(path), "/proc/%d/fd/2", pid);
	return fstat(STDERR_FILENO, &us) == 0 && stat(path, &them) == 0 &&
	       us.st_dev == them.st_dev && us.st_ino == them.st_ino;
}

/* By a signal or a debugger: the state in /proc/PID/stat, behind the name */
static bool is_stopped(int pid)
{
	char path[40], buf[512], *p = NULL;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	if (n > 0) {
		buf[n] = '\0';
		p = strrchr(buf, ')');
	}
	return p && p[1] == ' ' && (p[2] == 'T' || p[2] == 't');
}

/* The last thing that it has to say of that QP, without its name */
static void take_words(const struct trace_reader *t, uint32_t qpn, char *said,
		       size_t size)
{
	size_t i = trace_object_count(t);
	const char *text = NULL;

	while (i-- && !text) {
		const struct trace_object *o = trace_object(t, i);

		if (o->kind == TRACE_OBJ_NOTE && o->note.about == TRACE_OBJ_QP &&
		    o->note.about_id == qpn)
			text = strstr(o->note.text, ": ");
	}
	if (text)
		snprintf(said, size, "%s", text + 2);
}

static void look(struct engine *e, uint32_t qpn, struct emu_peer *out)
{
	const struct trace_object *o;
	struct trace_reader *t = NULL;

	if (out->pid != getpid())
		t = find_segment(out->pid);
	else if (trace_open_recorder(e->rec, &t))
		t = NULL;
	if (!t)
		return;
	o = trace_find(t, TRACE_OBJ_QP, qpn);
	out->kind = o ? EMU_PEER_SEEN : EMU_PEER_NO_QP;
	if (o)
		out->qp = o->qp;
	take_words(t, qpn, out->said, sizeof(out->said));
	out->same_stderr = same_stderr(out->pid);
	out->stopped = is_stopped(out->pid);
	trace_close(t);
}

static bool is_loopback(const struct net_ip *ip)
{
	return net_ip_is_v4(ip) && ip->b[12] == 127;
}

void engine_peer(void *arg, const struct net_ip *ip, uint32_t qpn, struct emu_peer *out)
{
	struct engine_device *d = arg;
	struct net_port *port = d->engine->port;
	int err = errno;

	*out = (struct emu_peer){.kind = EMU_PEER_UNKNOWN};
	if (!net_port_is_local(port, ip)) {
		if (is_loopback(ip))
			out->kind = EMU_PEER_NOBODY;
	} else {
		out->pid = net_port_process(port, qpn);
		if (!out->pid)
			out->kind = EMU_PEER_NO_PROCESS;
		else
			look(d->engine, qpn, out);
	}
	errno = err;
}
