/*
 * stat.c - `urxe stat`: the running processes and their memory regions, from outside.
 *
 * Prints what the segments of the processes say (segments.h). Asks and changes nothing in the
 * processes. With --join it reads reports of processes that have ended (join.h).
 */
#include <errno.h>
#include <event2/event.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/join.h"
#include "tools/segments.h"
#include "tools/tools.h"
#include "verbs/host/report.h"

/*
 * struct query
 * @pid:	only this process, also if it has ended; 0: all that run
 * @json:	print reports as JSON, one object each
 * @watch:	seconds between two looks; 0: one look
 * @found:	processes that were shown
 * @join:	not processes, but files of reports
 * @how:	to join these
 */
struct query {
	long pid;
	bool json;
	double watch;
	unsigned int found;
	bool join;
	struct join_how how;
};

static void print_help(FILE *out)
{
	fputs("usage: urxe stat [options] [PID]\n"
	      "       urxe stat --join [--each] [--ranks N] [--json] FILE|DIR...\n"
	      "\n"
	      "Shows the processes that have an emulated device open, and their memory\n"
	      "regions: page faults, prefetched and invalidated pages, and which pages "
	      "are in\n"
	      "the device's page table now. Yours only, or everybody's for root.\n"
	      "\n"
	      "  --watch[=SECONDS]   again and again, each second or as often as given\n"
	      "  --json              one object for each process\n"
	      "  --join              reports of many processes, also of other hosts, as "
	      "one:\n"
	      "                      what urxe run --stats=json:FILE has written, of a "
	      "DIR the\n"
	      "                      files NAME.json. A row for each host; then who "
	      "differs\n"
	      "                      from the rest, what went wrong, and which ranks are "
	      "missing\n"
	      "  --each              with --join: a row for each process\n"
	      "  --ranks N           with --join: so many were started\n"
	      "  --help\n"
	      "\n"
	      "The page map has a character for a page, or for some of a large region:\n"
	      "R the device may read it, W read and write, P it came by prefetch; small\n"
	      "letters: only some of these pages; a dot: none, the next access faults.\n",
	      out);
}

/* --- printing --------------------------------------------------------------------- */

/* A JSON value in one line: no text in it has a line feed. */
static void print_line(const char *json)
{
	for (const char *p = json; *p; p++) {
		if (*p != '\n') {
			putchar(*p);
			continue;
		}
		while (p[1] == ' ')
			p++;
	}
	putchar('\n');
}

static void print_json(const struct trace_reader *t)
{
	char *text = NULL;
	size_t len = 0;
	FILE *mem = open_memstream(&text, &len);

	if (!mem)
		return;
	report_json(t, mem);
	if (fclose(mem) == 0)
		print_line(text);
	free(text);
}

static void show(void *arg, const struct segment *s)
{
	struct query *q = arg;

	if (q->pid ? trace_info(s->t)->pid != q->pid : s->life == SEGMENT_GONE)
		return;
	q->found++;
	if (q->json)
		print_json(s->t);
	else
		report_live(s->t, stdout);
	if (!q->json && s->life != SEGMENT_LIVES)
		puts("  (it has ended)");
}

static void look(struct query *q)
{
	q->found = 0;
	segments_all(show, q);
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

static bool parse_ranks(const char *s, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(s, &end, 10);
	return *s >= '0' && *s <= '9' && !*end && !errno && *out > 0;
}

/* The arguments behind the options: 0, or an exit code */
static int parse_rest(char **argv, int n, struct query *q)
{
	char *end;

	if (q->join && q->watch > 0)
		return usage_error("--join reads reports of programs that have ended; "
				   "--watch looks at those that run");
	if (!q->join && (q->how.each || q->how.ranks))
		return usage_error("--each and --ranks go with --join");
	if (q->join || !n)
		return 0;
	q->pid = strtol(argv[0], &end, 10);
	if (*end || q->pid <= 0)
		return usage_error("'%s' is not a process id", argv[0]);
	return n > 1 ? usage_error("one process id at most") : 0;
}

static int parse(int argc, char **argv, struct query *q)
{
	static const struct option lo[] = {
	    {.name = "watch", .has_arg = optional_argument, .val = 'w'},
	    {.name = "json", .val = 'j'},
	    {.name = "join", .val = 'J'},
	    {.name = "each", .val = 'e'},
	    {.name = "ranks", .has_arg = required_argument, .val = 'r'},
	    {.name = "help", .val = 'h'},
	    {0},
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":h", lo, NULL)) != -1) {
		if (c == 'h') {
			print_help(stdout);
			return -1;
		}
		if (c == '?' || c == ':')
			return option_error(c, argv, "stat");
		q->json |= c == 'j';
		q->join |= c == 'J';
		q->how.each |= c == 'e';
		if (c == 'r' && !parse_ranks(optarg, &q->how.ranks))
			return usage_error("--ranks: '%s' is not a number of ranks",
					   optarg);
		if (c == 'w' && !parse_seconds(optarg, &q->watch))
			return usage_error("--watch: '%s' is not a number of seconds",
					   optarg);
	}
	q->how.json = q->json;
	return parse_rest(argv + optind, argc - optind, q);
}

static int stat_command(int argc, char **argv)
{
	struct query q = {0};
	int ret = parse(argc, argv, &q);

	if (ret)
		return ret < 0 ? 0 : ret;
	if (q.join)
		return join_files(argv + optind, argc - optind, &q.how);
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
