/*
 * join.c - `urxe stat --join`: many reports as one, for people and as JSON; see join.h.
 */
#include "tools/join.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tools.h"
#include "trace/render.h"
#include "verbs/host/report_text.h"

#define SHOWN 20 /* lines of what stands out, and of what went wrong */

/*
 * struct group - a row: the processes of a host, one process, or all
 * @name:	the host's, or who the process is
 * @ranks:	of them, as text: "0-7,9"
 */
struct group {
	char name[96];
	char ranks[32];
	size_t processes;
	uint64_t n[JOIN_N];
};

static uint64_t metric_of(const struct group *g, const struct join_metric *m)
{
	struct join_report r;

	memcpy(r.n, g->n, sizeof(r.n));
	return join_value(&r, m);
}

static uint64_t wrong_in(const struct group *g)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < join_n_metrics; i++)
		if (join_metrics[i].wrong)
			sum += metric_of(g, &join_metrics[i]);
	return sum;
}

/* --- groups ----------------------------------------------------------------------- */

/*
 * struct ranks - a list of ranks that is being written, in their order
 * @first, @last: the run that is not written yet; @first JOIN_NO_RANK: there is none
 */
struct ranks {
	char *to;
	size_t size, n;
	int64_t first, last;
};

static void ranks_flush(struct ranks *l)
{
	char run[64];
	int len;

	if (l->first == JOIN_NO_RANK)
		return;
	len = l->first == l->last
		  ? snprintf(run, sizeof(run), "%s%" PRId64, l->n ? "," : "", l->first)
		  : snprintf(run, sizeof(run), "%s%" PRId64 "-%" PRId64, l->n ? "," : "",
			     l->first, l->last);
	l->first = JOIN_NO_RANK;
	if (l->n + (size_t)len + 4 < l->size) {
		memcpy(l->to + l->n, run, (size_t)len + 1);
		l->n += (size_t)len;
	} else if (l->n + 5 <= l->size && !strstr(l->to, ",...")) {
		strcpy(l->to + l->n, ",...");
		l->n = l->size; /* nothing fits any more */
	}
}

static void ranks_add(struct ranks *l, int64_t rank)
{
	if (rank == JOIN_NO_RANK || (l->first != JOIN_NO_RANK && rank == l->last))
		return;
	if (l->first == JOIN_NO_RANK || rank != l->last + 1) {
		ranks_flush(l);
		l->first = rank;
	}
	l->last = rank;
}

/* Those that @host names, or all */
static void group_host(const struct join *j, const char *host, struct group *g)
{
	struct ranks l = {
	    .to = g->ranks, .size = sizeof(g->ranks), .first = JOIN_NO_RANK};

	memset(g, 0, sizeof(*g));
	snprintf(g->name, sizeof(g->name), "%s", host ? host : "all");
	for (size_t i = 0; i < j->n; i++) {
		if (host && strcmp(host, j->r[i].host))
			continue;
		g->processes++;
		join_add(g->n, &j->r[i]);
		ranks_add(&l, j->r[i].rank);
	}
	ranks_flush(&l);
}

static void group_one(const struct join_report *r, struct group *g)
{
	struct ranks l = {
	    .to = g->ranks, .size = sizeof(g->ranks), .first = JOIN_NO_RANK};

	memset(g, 0, sizeof(*g));
	snprintf(g->name, sizeof(g->name), "%s %" PRId64, r->host, r->pid);
	g->processes = 1;
	join_add(g->n, r);
	ranks_add(&l, r->rank);
	ranks_flush(&l);
}

/* The first process of each host, in the order of ranks */
static bool is_first_of_host(const struct join *j, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(j->r[k].host, j->r[i].host))
			return false;
	return true;
}

static size_t count_hosts(const struct join *j)
{
	size_t n = 0;

	for (size_t i = 0; i < j->n; i++)
		n += is_first_of_host(j, i);
	return n;
}

static void each_group(const struct join *j, bool each,
		       void (*take)(void *arg, const struct group *g), void *arg)
{
	struct group g;

	for (size_t i = 0; i < j->n; i++) {
		if (!each && !is_first_of_host(j, i))
			continue;
		if (each)
			group_one(&j->r[i], &g);
		else
			group_host(j, j->r[i].host, &g);
		take(arg, &g);
	}
}

/* --- text ------------------------------------------------------------------------- */

static const struct join_metric *metric(const char *name)
{
	for (size_t i = 0; i < join_n_metrics; i++)
		if (!strcmp(join_metrics[i].name, name))
			return &join_metrics[i];
	return NULL;
}

static const char *value_text(uint64_t value, enum join_unit unit, char buf[32])
{
	switch (unit) {
	case JOIN_COUNT:
		return report_number(value, buf);
	case JOIN_BYTES:
		return trace_size_text(value, buf);
	case JOIN_TIME:
		return trace_time_text(value, buf);
	}
	return "";
}

/* Columns of the table, between the ranks and what went wrong */
static const char *const columns[] = {"tx_packets", "tx_bytes", "rx_bytes",
				      "faults",	    "fault_ns", "completer_retry_err"};
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static void text_line(FILE *out, const char *const cell[N_COLUMNS + 4])
{
	fprintf(out, "  %-20s %9s  %-16s %11s %11s %11s %9s %10s %9s %7s\n", cell[0],
		cell[1], cell[2], cell[3], cell[4], cell[5], cell[6], cell[7], cell[8],
		cell[9]);
}

static void text_group(void *arg, const struct group *g)
{
	char buf[N_COLUMNS + 2][32];
	const char *cell[N_COLUMNS + 4] = {g->name, report_number(g->processes, buf[0]),
					   g->ranks};

	for (size_t i = 0; i < N_COLUMNS; i++) {
		const struct join_metric *m = metric(columns[i]);

		cell[3 + i] = value_text(metric_of(g, m), m->unit, buf[1 + i]);
	}
	cell[3 + N_COLUMNS] = report_number(wrong_in(g), buf[1 + N_COLUMNS]);
	text_line(arg, cell);
}

static void text_table(const struct join *j, bool each, FILE *out)
{
	struct group all;

	text_line(out, (const char *const[]){each ? "process" : "host", "", "", "packets",
					     "", "", "page", "time in", "sent", "went"});
	text_line(out, (const char *const[]){"", "processes", "ranks", "sent", "sent",
					     "received", "faults", "faults", "again",
					     "wrong"});
	each_group(j, each, text_group, out);
	group_host(j, NULL, &all);
	text_group(out, &all);
}

/* "rank 7 (node2, pid 77, osu)" */
static void text_who(FILE *out, const struct join_report *r)
{
	if (r->rank != JOIN_NO_RANK)
		fprintf(out, "    rank %" PRId64 " (%s, pid %" PRId64 ", %s): ", r->rank,
			r->host, r->pid, r->program);
	else
		fprintf(out, "    %s on %s, pid %" PRId64 ": ", r->program, r->host,
			r->pid);
}

static void text_more(FILE *out, size_t n)
{
	if (n > SHOWN)
		fprintf(out, "    (and %zu more)\n", n - SHOWN);
}

static void text_outliers(const struct join *j, FILE *out)
{
	struct join_outlier *o;
	size_t n = join_outliers(j, &o);

	if (n)
		fputs("  stands out:\n", out);
	for (size_t i = 0; i < n && i < SHOWN; i++) {
		char value[32], middle[32];

		text_who(out, o[i].r);
		fprintf(out, "%s %s; the median is %s\n",
			value_text(o[i].value, o[i].m->unit, value), o[i].m->text,
			value_text(o[i].median, o[i].m->unit, middle));
	}
	text_more(out, n);
	free(o);
}

static void text_wrong(const struct join *j, FILE *out)
{
	size_t n = 0;

	for (size_t i = 0; i < j->n; i++)
		for (size_t k = 0; k < join_n_metrics; k++) {
			const struct join_metric *m = &join_metrics[k];
			uint64_t value = m->wrong ? join_value(&j->r[i], m) : 0;
			char buf[32];

			if (!value || ++n > SHOWN)
				continue;
			if (n == 1)
				fputs("  went wrong:\n", out);
			text_who(out, &j->r[i]);
			fprintf(out, "%s %s\n", value_text(value, m->unit, buf), m->text);
		}
	text_more(out, n);
}

static void add_gap(void *arg, uint64_t first, uint64_t last)
{
	FILE *out = arg;

	fprintf(out, first == last ? " %" PRIu64 : " %" PRIu64 "-%" PRIu64, first, last);
}

/* How many ranks are missing */
static uint64_t text_missing(const struct join *j, uint64_t ranks, FILE *out)
{
	char *list = NULL;
	size_t len = 0;
	FILE *mem = open_memstream(&list, &len);
	uint64_t n;

	if (!mem)
		return 0;
	n = join_missing(j, ranks, add_gap, mem);
	if (!fclose(mem) && n)
		fprintf(out, "  no report of rank%s%.200s%s\n", n == 1 ? "" : "s", list,
			len > 200 ? " ..." : "");
	free(list);
	return n;
}

static uint64_t text(const struct join *j, const struct join_how *how, FILE *out)
{
	size_t hosts = count_hosts(j);

	fprintf(out, "urxe: what %zu process%s on %zu host%s did\n\n", j->n,
		j->n == 1 ? "" : "es", hosts, hosts == 1 ? "" : "s");
	text_table(j, how->each, out);
	putc('\n', out);
	text_outliers(j, out);
	text_wrong(j, out);
	return text_missing(j, how->ranks, out);
}

/* --- JSON ------------------------------------------------------------------------- */

static void json_counters(FILE *out, const uint64_t n[JOIN_N])
{
	for (size_t i = 0; i < JOIN_N; i++)
		fprintf(out, "%s\"%s\": %" PRIu64, i ? ", " : "", join_counter_name(i),
			n[i]);
}

static void json_who(FILE *out, const struct join_report *r)
{
	fputs("\"rank\": ", out);
	if (r->rank == JOIN_NO_RANK)
		fputs("null", out);
	else
		fprintf(out, "%" PRId64, r->rank);
	fputs(", \"host\": ", out);
	trace_json_string(out, r->host);
	fprintf(out, ", \"pid\": %" PRId64 ", \"program\": ", r->pid);
	trace_json_string(out, r->program);
}

/* struct json_list - of objects that are being written; @any: there was one */
struct json_list {
	FILE *out;
	bool any;
};

static FILE *json_next(struct json_list *l)
{
	fputs(l->any ? ",\n    " : "\n    ", l->out);
	l->any = true;
	return l->out;
}

static void json_group(void *arg, const struct group *g)
{
	FILE *out = json_next(arg);

	fputs("{\"host\": ", out);
	trace_json_string(out, g->name);
	fprintf(out, ", \"processes\": %zu, \"ranks\": \"%s\", \"total\": {",
		g->processes, g->ranks);
	json_counters(out, g->n);
	fputs("}}", out);
}

static void json_processes(const struct join *j, FILE *out)
{
	struct json_list l = {.out = out};

	for (size_t i = 0; i < j->n; i++) {
		json_next(&l);
		putc('{', out);
		json_who(out, &j->r[i]);
		fputs(", \"file\": ", out);
		trace_json_string(out, j->r[i].file);
		fputs(", \"total\": {", out);
		json_counters(out, j->r[i].n);
		fputs("}}", out);
	}
}

static void json_outliers(const struct join *j, FILE *out)
{
	struct json_list l = {.out = out};
	struct join_outlier *o;
	size_t n = join_outliers(j, &o);

	for (size_t i = 0; i < n; i++) {
		json_next(&l);
		putc('{', out);
		json_who(out, o[i].r);
		fprintf(out,
			", \"counter\": \"%s\", \"value\": %" PRIu64
			", \"median\": %" PRIu64 "}",
			o[i].m->name, o[i].value, o[i].median);
	}
	free(o);
}

static void json_gap(void *arg, uint64_t first, uint64_t last)
{
	FILE *out = json_next(arg);

	fprintf(out, "{\"first\": %" PRIu64 ", \"last\": %" PRIu64 "}", first, last);
}

static uint64_t json(const struct join *j, const struct join_how *how, FILE *out)
{
	struct json_list hosts = {.out = out}, gaps = {.out = out};
	struct group all;
	uint64_t missing;

	group_host(j, NULL, &all);
	fprintf(out, "{\n  \"processes\": %zu,\n  \"unreadable\": %u,\n  \"total\": {",
		j->n, j->unreadable);
	json_counters(out, all.n);
	fputs("},\n  \"hosts\": [", out);
	each_group(j, false, json_group, &hosts);
	fputs("],\n  \"reports\": [", out);
	json_processes(j, out);
	fputs("],\n  \"outliers\": [", out);
	json_outliers(j, out);
	fputs("],\n  \"missing_ranks\": [", out);
	missing = join_missing(j, how->ranks, json_gap, &gaps);
	fputs("]\n}\n", out);
	return missing;
}

/* ---------------------------------------------------------------------------------- */

int join_files(char **names, int n, const struct join_how *how)
{
	struct join j;
	uint64_t missing = 0;
	int code;

	if (!n)
		return usage_error("--join: no report given (see urxe help stat)");
	code = join_read(&j, names, n);
	if (!code && j.n)
		missing = how->json ? json(&j, how, stdout) : text(&j, how, stdout);
	if (!code && (!j.n || j.unreadable || missing))
		code = 1;
	join_free(&j);
	return code;
}
