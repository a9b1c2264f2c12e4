/*
 * stat.c - `urxe stat`: the running processes and their memory regions, from outside.
 *
 * Finds the sockets of processes in the session directories, asks each for its report
 * (verbs/engine/stats_socket.c), and prints what came. Changes nothing in the processes.
 */
#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <getopt.h>
#include <inttypes.h>
#include <json.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tools/tools.h"
#include "verbs/host/report_text.h"

#define ANSWER_SECONDS 2 /* a process that is stopped does not answer */

/*
 * struct query
 * @pid:	only this process; 0: all
 * @json:	print what the processes say as it is, one object each
 * @watch:	seconds between two looks; 0: one look
 * @found:	processes that answered
 */
struct query {
	long pid;
	bool json;
	double watch;
	unsigned int found;
};

static void print_help(FILE *out)
{
	fputs("usage: urxe stat [options] [PID]\n"
	      "\n"
	      "Shows the processes that have an emulated device open, and their memory\n"
	      "regions: page faults, prefetched and invalidated pages, and which pages "
	      "are in\n"
	      "the device's page table now. Yours only, or everybody's for root.\n"
	      "\n"
	      "  --watch[=SECONDS]   again and again, each second or as often as given\n"
	      "  --json              as the processes say it, one object for each\n"
	      "  --help\n"
	      "\n"
	      "The page map has a character for a page, or for some of a large region:\n"
	      "R the device may read it, W read and write, P it came by prefetch; small\n"
	      "letters: only some of these pages; a dot: none, the next access faults.\n",
	      out);
}

/* --- asking ----------------------------------------------------------------------- */

static int connect_to(const char *path)
{
	const struct timeval limit = {.tv_sec = ANSWER_SECONDS};
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int fd;

	if (snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path) >=
	    (int)sizeof(addr.sun_path))
		return -1;
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return fd;
	close(fd);
	return -1;
}

/* The descriptor that the process sends, or -1 */
static int receive_file(int conn)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = {.iov_base = &byte, .iov_len = 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.buf,
			     .msg_controllen = sizeof(control.buf)};
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(conn, &msg, MSG_CMSG_CLOEXEC) <= 0)
		return -1;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

static struct json_object *ask(const char *path)
{
	struct json_object *report = NULL;
	int conn = connect_to(path);
	int fd = conn < 0 ? -1 : receive_file(conn);

	if (fd >= 0) {
		lseek(fd, 0, SEEK_SET);
		report = json_object_from_fd(fd);
		close(fd);
	}
	if (conn >= 0)
		close(conn);
	return report;
}

/* --- printing --------------------------------------------------------------------- */

static int64_t number(struct json_object *o, const char *name)
{
	struct json_object *v = NULL;

	return json_object_object_get_ex(o, name, &v) ? json_object_get_int64(v) : 0;
}

static const char *text(struct json_object *o, const char *name)
{
	struct json_object *v = NULL;

	return json_object_object_get_ex(o, name, &v) ? json_object_get_string(v) : "";
}

static uint64_t count(struct json_object *o, const char *name)
{
	return (uint64_t)number(o, name);
}

static void print_counters(const char *label, const char *size, struct json_object *o)
{
	const struct report_row row = {
	    .label = label,
	    .size = size,
	    .faults = count(o, "faults"),
	    .pages_faulted = count(o, "page_faults"),
	    .pages_prefetched = count(o, "page_prefetch"),
	    .pages_invalidated = count(o, "page_invalidations"),
	    .cache_hits = count(o, "cache_hits"),
	};

	report_row(stdout, &row);
}

static void print_region(struct json_object *mr)
{
	const char *kind = text(mr, "kind"), *map = text(mr, "page_map");
	char label[48], size[32];

	if (!number(mr, "registered") || !strcmp(kind, "pinned"))
		return;
	if (*text(mr, "name"))
		snprintf(label, sizeof(label), "%.20s", text(mr, "name"));
	else
		snprintf(label, sizeof(label), "0x%08" PRIx64, number(mr, "key"));
	print_counters(label,
		       !strcmp(kind, "implicit") ? "all memory"
						 : report_size(count(mr, "length"), size),
		       mr);
	if (*map)
		printf("    [%s] %" PRId64 " pages\n", map, number(mr, "pages_cached"));
}

static void print_report(struct json_object *report)
{
	struct json_object *mrs = NULL, *total = NULL;
	size_t n, pinned = 0;

	json_object_object_get_ex(report, "memory_regions", &mrs);
	json_object_object_get_ex(report, "total", &total);
	n = mrs && json_object_is_type(mrs, json_type_array)
		? json_object_array_length(mrs)
		: 0;
	printf("%s (pid %" PRId64 ")\n", text(report, "program"), number(report, "pid"));
	report_head(stdout);
	for (size_t i = 0; i < n; i++) {
		struct json_object *mr = json_object_array_get_idx(mrs, i);

		pinned += !strcmp(text(mr, "kind"), "pinned");
		print_region(mr);
	}
	print_counters("total, also of closed", "", total);
	if (pinned)
		printf("  and %zu pinned\n", pinned);
}

/* --- finding ---------------------------------------------------------------------- */

static void visit_socket(struct query *q, const char *path)
{
	struct json_object *report = ask(path);

	if (!report)
		return;
	q->found++;
	if (q->json)
		printf("%s\n",
		       json_object_to_json_string_ext(report, JSON_C_TO_STRING_PLAIN));
	else
		print_report(report);
	json_object_put(report);
}

/* The processes of one session */
static void visit_session(struct query *q, const char *dir)
{
	char path[PATH_MAX + 300];
	DIR *d;
	struct dirent *e;

	snprintf(path, sizeof(path), "%s/stat", dir);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		long pid = atol(e->d_name);

		if (pid <= 0 || (q->pid && pid != q->pid))
			continue;
		snprintf(path, sizeof(path), "%s/stat/%ld", dir, pid);
		visit_socket(q, path);
	}
	if (d)
		closedir(d);
}

static void visit_parent(struct query *q, const char *parent)
{
	DIR *d = opendir(parent);
	struct dirent *e;
	char path[PATH_MAX];

	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, SESSION_PREFIX, strlen(SESSION_PREFIX)) ||
		    snprintf(path, sizeof(path), "%s/%s", parent, e->d_name) >=
			(int)sizeof(path))
			continue;
		visit_session(q, path);
	}
	if (d)
		closedir(d);
}

static void look(struct query *q)
{
	const char *const *parents = session_parents();

	q->found = 0;
	for (size_t i = 0; i < SESSION_PARENTS; i++)
		if (parents[i] && (!i || !parents[0] || strcmp(parents[i], parents[0])))
			visit_parent(q, parents[i]);
}

/* --- the command ------------------------------------------------------------------ */

/*
 * struct watch - `urxe stat --watch`: a look at each tick, and when the terminal's size
 * changes
 * @failed:	the output takes no more
 */
struct watch {
	struct query *q;
	struct event_base *base;
	bool terminal;
	bool failed;
};

static void look_again(evutil_socket_t fd, short what, void *arg)
{
	struct watch *w = arg;

	if (w->terminal)
		fputs("\033[H\033[J", stdout); /* home, clear (ECMA-48) */
	look(w->q);
	if (!w->q->found && !w->q->json)
		puts("no process has an emulated device open");
	if (!w->terminal && !w->q->json)
		puts("");
	w->failed = fflush(stdout) != 0;
	if (w->failed)
		event_base_loopbreak(w->base);
}

static int watch(struct query *q)
{
	const struct timeval period = {
	    .tv_sec = (time_t)q->watch,
	    .tv_usec = (suseconds_t)((q->watch - (double)(time_t)q->watch) * 1e6)};
	struct watch w = {.q = q, .terminal = isatty(STDOUT_FILENO)};
	struct event *tick = NULL, *resized = NULL;

	w.base = event_base_new();
	if (w.base) {
		tick = event_new(w.base, -1, EV_PERSIST, look_again, &w);
		resized = evsignal_new(w.base, SIGWINCH, look_again, &w);
	}
	if (!tick || !resized || event_add(tick, &period) ||
	    (w.terminal && event_add(resized, NULL))) {
		usage_error("cannot wait: %s", strerror(errno));
		return EXIT_SETUP;
	}
	event_active(tick, EV_TIMEOUT, 0);
	event_base_dispatch(w.base);
	event_free(tick);
	event_free(resized);
	event_base_free(w.base);
	return w.failed ? EXIT_SETUP : 0;
}

static bool parse_seconds(const char *s, double *out)
{
	char *end;

	*out = s ? strtod(s, &end) : 1;
	return !s || (end != s && !*end && *out >= 0.01 && *out <= 86400);
}

static int parse(int argc, char **argv, struct query *q)
{
	static const struct option lo[] = {
	    {.name = "watch", .has_arg = optional_argument, .val = 'w'},
	    {.name = "json", .val = 'j'},
	    {.name = "help", .val = 'h'},
	    {0},
	};
	char *end;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "h", lo, NULL)) != -1) {
		if (c == 'h') {
			print_help(stdout);
			return -1;
		}
		if (c == 'j')
			q->json = true;
		else if (c == 'w' && !parse_seconds(optarg, &q->watch))
			return usage_error("--watch: '%s' is not a number of seconds",
					   optarg);
		else if (c == '?')
			return usage_error("unknown option '%s' (see urxe help stat)",
					   argv[optind - 1]);
	}
	if (optind == argc)
		return 0;
	q->pid = strtol(argv[optind], &end, 10);
	if (*end || q->pid <= 0)
		return usage_error("'%s' is not a process id", argv[optind]);
	if (optind + 1 < argc)
		return usage_error("one process id at most");
	return 0;
}

static int stat_command(int argc, char **argv)
{
	struct query q = {0};
	int rc = parse(argc, argv, &q);

	if (rc)
		return rc < 0 ? 0 : rc;
	if (q.watch > 0)
		return watch(&q);
	look(&q);
	if (q.found)
		return 0;
	if (q.pid)
		fprintf(stderr, "urxe: process %ld has no emulated device open\n", q.pid);
	else if (!q.json)
		puts("no process has an emulated device open");
	return q.pid ? 1 : 0;
}

const struct command command_stat = {
    .name = "stat",
    .summary = "show running programs and the page tables of their memory regions",
    .run = stat_command,
    .help = print_help,
};
