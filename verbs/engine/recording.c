/*
 * recording.c - see recording.h.
 */
#include "verbs/engine/recording.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "odp/guard.h"
#include "trace/reader.h"
#include "verbs/host/report.h"

/* Records of a ring that has all completions */
#define COMPLETION_SLOTS (1u << 17)
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
static int open_in(const char *dir, const struct recorder_cfg *cfg, struct recorder **out)
{
	char path[PATH_MAX];
	struct recorder_cfg there = *cfg;
	int ret = -EEXIST;
	unsigned int n;

	there.path = path;
	for (n = 0; n < MAX_NAMES && ret == -EEXIST; n++) {
		int len =
		    n ? snprintf(path, sizeof(path), "%s/stat/%d%03u", dir, (int)getpid(),
				 n)
		      : snprintf(path, sizeof(path), "%s/stat/%d", dir, (int)getpid());

		ret =
		    len < (int)sizeof(path) ? recorder_open(&there, out) : -ENAMETOOLONG;
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

/* --- full traces ------------------------------------------------------------------ */

/* The file that leads from the session to the full trace */
static char leads_there[PATH_MAX];

/* Records that take at most @bytes: a power of two of them */
static uint32_t slots_in(uint64_t bytes)
{
	uint32_t slots = 1;

	while (2ull * slots * sizeof(struct trace_slot) <= bytes)
		slots *= 2;
	return slots;
}

/* What o->trace means for this process. 0 or -ENAMETOOLONG */
static int trace_path(const struct options *o, char path[PATH_MAX])
{
	struct stat st;
	int ret = report_expand_own(o->trace, path, PATH_MAX);
	size_t n = ret ? 0 : strlen(path);

	if (ret || stat(path, &st) || !S_ISDIR(st.st_mode))
		return ret;
	if (snprintf(path + n, PATH_MAX - n, "/%s.%d.trace",
		     program_invocation_short_name, (int)getpid()) >= (int)(PATH_MAX - n))
		return -ENAMETOOLONG;
	return 0;
}

/* Another process of the run has the name: add the process id. */
static int open_trace(char path[PATH_MAX], struct recorder_cfg *cfg,
		      struct recorder **out)
{
	size_t n = strlen(path);
	int ret;

	cfg->path = path;
	ret = recorder_open(cfg, out);
	if (ret != -EEXIST)
		return ret;
	if (snprintf(path + n, PATH_MAX - n, ".%d", (int)getpid()) >= (int)(PATH_MAX - n))
		return -ENAMETOOLONG;
	return recorder_open(cfg, out);
}

/* The session's file leads to the trace, where all is recorded. */
static void lead_there(const struct options *o, const char *path)
{
	struct recorder_cfg cfg = {.slots = 1, .elsewhere = path};
	struct recorder *r;

	if (!o->dir[0] || open_in(o->dir, &cfg, &r))
		return;
	snprintf(leads_there, sizeof(leads_there), "%s", recorder_path(r));
	recorder_close(r);
}

static int start_trace(const struct options *o, const struct recorder_cfg *usual,
		       struct recorder **out)
{
	struct recorder_cfg cfg = *usual;
	char path[PATH_MAX];
	int ret = trace_path(o, path);

	cfg.full = true;
	cfg.slots = slots_in(o->trace_size);
	if (!ret)
		ret = open_trace(path, &cfg, out);
	if (ret)
		fprintf(stderr, "urxe: --trace: %s: %s; this process is not traced\n",
			path, strerror(-ret));
	else
		lead_there(o, path);
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

	if (o->completions) {
		cfg.slots = COMPLETION_SLOTS;
		cfg.also = 1ull << TRACE_KIND_completion;
	}
	if (o->trace[0] && start_trace(o, &cfg, out) == 0)
		return 0;
	if (o->dir[0] && open_in(o->dir, &cfg, out) == 0)
		return 0;
	cfg.path = NULL;
	return recorder_open(&cfg, out);
}

void recording_discard(struct recorder *r)
{
	if (r && recorder_path(r))
		unlink(recorder_path(r));
	if (leads_there[0])
		unlink(leads_there);
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
