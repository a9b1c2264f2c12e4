/*
 * segments.c - see segments.h.
 */
#include "tools/segments.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tools.h"
#include "verbs/host/report.h"

/* What is read of a process of another user, who may have written anything */
#define FOREIGN_OBJECTS 65536

/* --- is the process there? -------------------------------------------------------- */

/* State and field 22 (start time) of /proc/PID/stat; the second ends at the last ')' */
static bool process_stat(int32_t pid, char *state, uint64_t *start)
{
	char path[40], buf[1024], *p;
	int fd, field = 3;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return false;
	buf[n] = '\0';
	p = strrchr(buf, ')');
	if (!p || !p[1])
		return false;
	*state = p[2];
	for (p += 2; p && field < 22; field++)
		p = strchr(p + 1, ' ');
	*start = p ? strtoull(p, NULL, 10) : 0;
	return p;
}

/* Another program of the same process does not write to the segment of the one before. */
static bool other_program(const struct trace_info *i)
{
	char path[40];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/exe", i->pid);
	return i->exe_ino && stat(path, &st) == 0 &&
	       (st.st_dev != i->exe_dev || st.st_ino != i->exe_ino);
}

static enum segment_life life_of(const struct trace_info *i)
{
	uint64_t start;
	char state;

	if (i->end != TRACE_RUNNING || i->pid <= 0 ||
	    !process_stat(i->pid, &state, &start) || start != i->start)
		return SEGMENT_GONE;
	if (state == 'Z' || state == 'X')
		return SEGMENT_DEAD;
	return other_program(i) ? SEGMENT_GONE : SEGMENT_LIVES;
}

bool segment_process_lives(const struct trace_info *i)
{
	return life_of(i) == SEGMENT_LIVES;
}

/* --- opening ---------------------------------------------------------------------- */

/*
 * Open a regular file of @owner, without doing anything to what is not: a FIFO, a terminal,
 * somebody else's file. @writable: if it may be
 */
static int open_owned(int dir, const char *name, uid_t owner, bool writable)
{
	int at = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC), fd = -1;
	char path[40];
	struct stat st;

	if (at < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	if (fstat(at, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == owner)
		fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
	close(at);
	return fd;
}

/* Look at one file; a segment that only says where the other is leads there. */
static void visit(int dir, const char *name, uid_t owner, segment_fn *fn, void *arg)
{
	size_t max = owner == geteuid() ? 0 : FOREIGN_OBJECTS;
	struct segment s = {.fd = open_owned(dir, name, owner, owner == geteuid())};
	struct trace_reader *other;
	int fd = -1;

	if (s.fd < 0 || trace_open_fd(s.fd, max, NULL, 0, &s.t)) {
		if (s.fd >= 0)
			close(s.fd);
		return;
	}
	s.trace_fd = s.fd;
	s.life = life_of(trace_info(s.t));
	s.reported = trace_info(s.t)->end == TRACE_REPORTED;
	if (trace_info(s.t)->elsewhere[0]) {
		fd = open_owned(AT_FDCWD, trace_info(s.t)->elsewhere, owner, false);
		if (fd >= 0 && !trace_open_fd(fd, max, NULL, 0, &other)) {
			trace_close(s.t);
			s.t = other;
			s.trace_fd = fd;
			s.reported |= trace_info(other)->end == TRACE_REPORTED;
			if (trace_info(other)->end != TRACE_RUNNING)
				s.life = SEGMENT_GONE;
		}
	}
	fn(arg, &s);
	trace_close(s.t);
	if (fd >= 0)
		close(fd);
	close(s.fd);
}

/* The session directory @path, which must be somebody's whose programs we may see */
static void visit_session(int session, segment_fn *fn, void *arg)
{
	uid_t us = geteuid();
	struct dirent *e;
	struct stat st;
	DIR *d;
	int fd;

	if (fstat(session, &st) || (us && st.st_uid != us))
		return;
	fd = openat(session, "stat", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	d = fd < 0 ? NULL : fdopendir(fd);
	while (d && (e = readdir(d)))
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
			visit(fd, e->d_name, st.st_uid, fn, arg);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

static void visit_name(int parent, const char *name, segment_fn *fn, void *arg)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && session_check(fd, name))
		visit_session(fd, fn, arg);
	if (fd >= 0)
		close(fd);
}

void segments_of(const char *dir, segment_fn *fn, void *arg)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0) {
		visit_session(fd, fn, arg);
		close(fd);
	}
}

static void visit_parent(const char *parent, segment_fn *fn, void *arg)
{
	DIR *d = opendir(parent);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, SESSION_PREFIX, strlen(SESSION_PREFIX)))
			visit_name(dirfd(d), e->d_name, fn, arg);
	if (d)
		closedir(d);
}

void segments_all(segment_fn *fn, void *arg)
{
	for (const char *const *p = session_parents(); *p; p++)
		visit_parent(*p, fn, arg);
}

/* --- reports of the dead ---------------------------------------------------------- */

static void report_one(void *arg, const struct segment *s)
{
	const uint32_t end = TRACE_REPORTED;

	if (s->reported || s->life == SEGMENT_LIVES)
		return;
	report_write(s->t, arg, stderr);
	if (pwrite(s->fd, &end, sizeof(end), offsetof(struct trace_header, end)) < 0)
		usage_error("the report of process %d may come twice: %s",
			    trace_info(s->t)->pid, strerror(errno));
}

void segments_report(const char *dir, const char *spec)
{
	if (*spec)
		segments_of(dir, report_one, (void *)spec);
}
