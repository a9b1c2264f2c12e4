/*
 * top.c - `urxe top`: the busiest QPs and memory regions of the programs that run, at a glance.
 *
 * Two looks at the segments, an interval apart; what differs is the rate. Nothing is asked of the
 * programs.
 */
#include <errno.h>
#include <event2/event.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <uthash.h>

#include "tools/segments.h"
#include "tools/tools.h"
#include "trace/render.h"

#define PLAIN_ROWS 20 /* of each table, where there is no terminal */

/*
 * struct row - a QP or a memory region, as it was seen last
 * @before, @now: packets sent and received; page faults and accesses without one
 * @seen:	number of the look
 */
struct row {
	struct row_key {
		uint64_t start, serial;
		int32_t pid;
		uint32_t kind;
	} key;
	struct trace_object o;
	char program[24];
	uint64_t before[2], now[2];
	uint64_t seen;
	UT_hash_handle hh;
};

/* struct top - @period: seconds; @left: looks to come, 0: for ever; @last: time of the last */
struct top {
	struct event_base *base;
	struct row *rows;
	double period;
	unsigned long left;
	uint64_t looks;
	double last, span;
	unsigned int programs;
	bool terminal, failed;
};

static void print_help(FILE *out)
{
	fputs("usage: urxe top [--interval SECONDS] [--count N]\n"
	      "\n"
	      "Shows the busiest QPs and memory regions of the programs that have an "
	      "emulated\n"
	      "device open, again each second. Not on a terminal, it is plain text.\n"
	      "\n"
	      "  --interval SECONDS  between two looks (1)\n"
	      "  --count N           end after N tables\n"
	      "  --help\n",
	      out);
}

/* --- looking ---------------------------------------------------------------------- */

static struct row *row_of(struct top *t, const struct trace_info *i,
			  const struct trace_object *o)
{
	struct row_key key;
	struct row *r;

	memset(&key, 0, sizeof(key));
	key.start = i->start;
	key.serial = o->serial;
	key.pid = i->pid;
	key.kind = o->kind;
	HASH_FIND(hh, t->rows, &key, sizeof(key), r);
	if (r)
		return r;
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->key = key;
	HASH_ADD(hh, t->rows, key, sizeof(key), r);
	return r;
}

static void look_at(struct top *t, const struct trace_info *i,
		    const struct trace_object *o)
{
	struct row *r = o->gone ? NULL : row_of(t, i, o);

	if (!r)
		return;
	r->o = *o;
	snprintf(r->program, sizeof(r->program), "%.16s", i->program);
	memcpy(r->before, r->now, sizeof(r->before));
	if (o->kind == TRACE_OBJ_QP) {
		r->now[0] = o->qp.out.count;
		r->now[1] = o->qp.in.count;
	} else {
		r->now[0] = o->mr.counter[TRACE_ODP_local_faults] +
			    o->mr.counter[TRACE_ODP_remote_faults];
		r->now[1] = o->mr.counter[TRACE_ODP_cache_hits];
	}
	if (!r->seen) /* what it did before is no rate */
		memcpy(r->before, r->now, sizeof(r->before));
	r->seen = t->looks;
}

static void look_into(void *arg, const struct segment *s)
{
	const struct trace_object *o;
	struct top *t = arg;

	if (s->life != SEGMENT_LIVES)
		return;
	t->programs++;
	for (size_t k = 0; (o = trace_object(s->t, k)); k++)
		if (o->kind == TRACE_OBJ_QP ||
		    (o->kind == TRACE_OBJ_MR && o->mr.on_demand))
			look_at(t, trace_info(s->t), o);
}

static void forget_gone(struct top *t)
{
	struct row *r, *next;

	HASH_ITER (hh, t->rows, r, next)
		if (r->seen != t->looks) {
			HASH_DEL(t->rows, r);
			free(r);
		}
}

static void look(struct top *t)
{
	struct timespec ts;
	double now;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	now = (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
	t->span = t->looks && now > t->last ? now - t->last : t->period;
	t->last = now;
	t->looks++;
	t->programs = 0;
	segments_all(look_into, t);
	forget_gone(t);
}

/* --- showing ---------------------------------------------------------------------- */

static double rate(const struct top *t, const struct row *r, int which)
{
	uint64_t n = r->now[which] - r->before[which];

	return r->now[which] < r->before[which] ? 0 : (double)n / t->span;
}

/* The busiest first; MRs by faults, which cost most */
static int busiest(const void *a, const void *b)
{
	const struct row *x = *(const struct row *const *)a,
			 *y = *(const struct row *const *)b;
	uint64_t n[2][2];

	for (int k = 0; k < 2; k++) {
		n[0][k] = x->now[k] - x->before[k];
		n[1][k] = y->now[k] - y->before[k];
	}
	if (x->key.kind == TRACE_OBJ_QP) {
		n[0][0] += n[0][1];
		n[1][0] += n[1][1];
	}
	for (int k = 0; k < 2; k++)
		if (n[0][k] != n[1][k])
			return n[0][k] > n[1][k] ? -1 : 1;
	return x->key.pid != y->key.pid	       ? (x->key.pid < y->key.pid ? -1 : 1)
	       : x->key.serial < y->key.serial ? -1
					       : x->key.serial > y->key.serial;
}

/* Rows of @kind in order; the caller frees them */
static struct row **sorted(const struct top *t, uint32_t kind, size_t *n)
{
	struct row **list = malloc((HASH_COUNT(t->rows) + 1) * sizeof(struct row *));
	struct row *r, *next;

	*n = 0;
	if (!list)
		return NULL;
	HASH_ITER (hh, t->rows, r, next)
		if (r->key.kind == kind)
			list[(*n)++] = r;
	qsort(list, *n, sizeof(*list), busiest);
	return list;
}

static const char *word(enum trace_unit unit, uint64_t v)
{
	const char *name = trace_name(unit, v);

	return name ? name : "?";
}

static void print_qp(const struct top *t, const struct row *r)
{
	const struct trace_qp *q = &r->o.qp;

	printf("%7d %-16s %08x %-8s %-5s %11.0f %11.0f %5u/%-5u %s\n", r->key.pid,
	       r->program, r->o.id, word(TRACE_TYPE, q->type),
	       word(TRACE_STATE, q->state), rate(t, r, 0), rate(t, r, 1), q->sq.posted,
	       q->sq.depth, q->sq.posted ? word(TRACE_WAIT, q->sq.wait) : "");
}

static void print_mr(const struct top *t, const struct row *r)
{
	const struct trace_mr *m = &r->o.mr;
	char name[40], size[32];

	snprintf(name, sizeof(name), "%x%s%s", r->o.id, r->o.name[0] ? " " : "",
		 r->o.name);
	printf("%7d %-16s %-16.16s %-10s %11.0f %11.0f %10" PRIu64 "\n", r->key.pid,
	       r->program, name, m->implicit ? "all" : trace_size_text(m->length, size),
	       rate(t, r, 0), rate(t, r, 1), (uint64_t)m->cached);
}

static void print_table(const struct top *t, uint32_t kind, size_t rows)
{
	size_t n;
	struct row **list = sorted(t, kind, &n);

	if (kind == TRACE_OBJ_QP)
		printf("%7s %-16s %-8s %-8s %-5s %11s %11s %-11s %s\n", "PID", "PROGRAM",
		       "QP", "TYPE", "STATE", "SENT/s", "RECEIVED/s", " POSTED",
		       "WAITS FOR");
	else
		printf("%7s %-16s %-16s %-10s %11s %11s %10s\n", "PID", "PROGRAM", "MR",
		       "SIZE", "FAULTS/s", "HITS/s", "PAGES");
	for (size_t i = 0; list && i < n && i < rows; i++)
		if (kind == TRACE_OBJ_QP)
			print_qp(t, list[i]);
		else
			print_mr(t, list[i]);
	if (n > rows)
		printf("%7s %zu more\n", "", n - rows);
	free(list);
}

static void show(const struct top *t)
{
	struct winsize size = {0};
	size_t rows = PLAIN_ROWS;

	if (t->terminal && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_row > 12)
		rows = (size_t)(size.ws_row - 8) / 2;
	if (t->terminal)
		fputs("\033[H\033[J", stdout); /* home, clear (ECMA-48) */
	printf("%u program%s, %.3g s\n\n", t->programs, t->programs == 1 ? "" : "s",
	       t->span);
	print_table(t, TRACE_OBJ_QP, rows);
	putchar('\n');
	print_table(t, TRACE_OBJ_MR, rows);
	if (!t->terminal)
		putchar('\n');
}

/* --- the command ------------------------------------------------------------------ */

static void tick(evutil_socket_t fd, short what, void *arg)
{
	struct top *t = arg;

	look(t);
	show(t);
	t->failed = stdout_done(0) != 0;
	if (t->failed || (t->left && !--t->left))
		event_base_loopbreak(t->base);
}

static void stop(evutil_socket_t sig, short what, void *arg)
{
	event_base_loopbreak(arg);
}

static int top(struct top *t)
{
	const struct timeval period = {
	    .tv_sec = (time_t)t->period,
	    .tv_usec = (suseconds_t)((t->period - (double)(time_t)t->period) * 1e6)};
	struct event *timer = NULL, *ctrl_c = NULL;

	t->base = event_base_new();
	if (t->base) {
		timer = event_new(t->base, -1, EV_PERSIST, tick, t);
		ctrl_c = evsignal_new(t->base, SIGINT, stop, t->base);
	}
	if (!timer || !ctrl_c || event_add(timer, &period) || event_add(ctrl_c, NULL)) {
		usage_error("cannot wait: %s", strerror(errno));
		return EXIT_SETUP;
	}
	look(t);
	event_base_dispatch(t->base);
	event_free(timer);
	event_free(ctrl_c);
	event_base_free(t->base);
	t->looks++;
	forget_gone(t);
	return t->failed ? EXIT_SETUP : 0;
}

/* 0, an exit code, or -1: help was printed */
static int parse(int argc, char **argv, struct top *t)
{
	static const struct option lo[] = {
	    {.name = "interval", .has_arg = required_argument, .val = 'i'},
	    {.name = "count", .has_arg = required_argument, .val = 'n'},
	    {.name = "help", .val = 'h'},
	    {0},
	};
	char *end;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":h", lo, NULL)) != -1) {
		if (c == 'h') {
			print_help(stdout);
			return -1;
		}
		if (c == 'i')
			t->period = strtod(optarg, &end);
		else if (c == 'n')
			t->left = strtoul(optarg, &end, 10);
		else
			return option_error(c, argv, "top");
		if (end == optarg || *end || optarg[0] == '-' ||
		    (c == 'i' && !(t->period >= 0.01 && t->period <= 86400)))
			return usage_error("'%s' is no %s", optarg,
					   c == 'i' ? "number of seconds" : "count");
	}
	return optind < argc ? usage_error("unknown argument '%s' (see urxe help top)",
					   argv[optind])
			     : 0;
}

static int top_command(int argc, char **argv)
{
	struct top t = {.period = 1, .terminal = isatty(STDOUT_FILENO)};
	int ret = parse(argc, argv, &t);

	return ret < 0 ? 0 : ret ? ret : top(&t);
}

const struct command command_top = {
    .name = "top",
    .summary = "show the busiest QPs and memory regions of running programs",
    .run = top_command,
    .help = print_help,
};
