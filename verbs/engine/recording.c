/*
 * recording.c - see recording.h.
 */
#include "verbs/engine/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "odp/guard.h"
#include "trace/reader.h"
#include "verbs/host/report.h"

/* Segments of one process id: execve(2), or an id that was given again */
#define MAX_NAMES 1000
#define CUT_SHORT                                                                        \
	"urxe: somebody shortened the file in which this process records what its "      \
	"HCA does: the report will lack it\n"

static uint64_t clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void mapped(void *addr, size_t len)
{
	guard_file(addr, len, CUT_SHORT);
}

/* A segment of this process before execve(2): nobody writes to it any more. */
static void mark_replaced(const char *path, const struct trace_header *us)
{
	int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	const uint32_t end = TRACE_REPLACED;
	struct trace_reader *t;

	if (fd < 0)
		return;
	if (!trace_open_fd(fd, 1, NULL, 0, &t)) {
		const struct trace_info *i = trace_info(t);

		if (i->pid == us->pid && i->start == us->start &&
		    i->end == TRACE_RUNNING &&
		    pwrite(fd, &end, sizeof(end), offsetof(struct trace_header, end)) < 0)
			errno = 0; /* it will be taken for one that lives */
		trace_close(t);
	}
	close(fd);
}

/* Names of digits only, which is what a session may have there */
static int open_in(const char *dir, struct recorder_cfg *cfg, struct recorder **out)
{
	char path[PATH_MAX];
	int ret = -EEXIST;
	unsigned int n;

	cfg->path = path;
	for (n = 0; n < MAX_NAMES && ret == -EEXIST; n++) {
		int len =
		    n ? snprintf(path, sizeof(path), "%s/stat/%d%03u", dir, (int)getpid(),
				 n)
		      : snprintf(path, sizeof(path), "%s/stat/%d", dir, (int)getpid());

		ret = len < (int)sizeof(path) ? recorder_open(cfg, out) : -ENAMETOOLONG;
	}
	for (; !ret && n > 1; n--) {
		if (n > 2)
			snprintf(path, sizeof(path), "%s/stat/%d%03u", dir, (int)getpid(),
				 n - 2);
		else
			snprintf(path, sizeof(path), "%s/stat/%d", dir, (int)getpid());
		mark_replaced(path, (*out)->hdr);
	}
	return ret;
}

int recording_start(const struct options *o, struct recorder **out)
{
	struct recorder_cfg cfg = {
	    .slots = RECORDER_SLOTS,
	    .mono = clock_ns(CLOCK_MONOTONIC),
	    .real = clock_ns(CLOCK_REALTIME),
	    .mapped = mapped,
	};

	if (o->dir[0] && open_in(o->dir, &cfg, out) == 0)
		return 0;
	cfg.path = NULL;
	return recorder_open(&cfg, out);
}

void recording_discard(struct recorder *r)
{
	if (r && recorder_path(r))
		unlink(recorder_path(r));
	recorder_close(r);
}

void recording_report(struct recorder *r, const struct options *o)
{
	struct trace_reader *t;

	if (o->stats[0] && !trace_open_recorder(r, &t)) {
		report_write(t, o->stats, stderr);
		trace_close(t);
	}
	recorder_end(r, TRACE_REPORTED);
}
