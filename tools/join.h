/*
 * join.h - reports of many processes (urxe run --stats=json:FILE) as one: totals, a row for each host or
 * process, what stands out, and what is missing.
 *
 * Reading (join_read.c) takes of each report only what is summed up, and checks it. What is found in the
 * sums is in join_find.c, and how it is told in join.c.
 */
#ifndef URXE_TOOLS_JOIN_H
#define URXE_TOOLS_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "trace/counters.h"

/* All counters of a report, in one row: those of the page tables, the wire, the devices */
enum {
	JOIN_ODP = 0,
	JOIN_NET = JOIN_ODP + TRACE_N_ODP,
	JOIN_HW = JOIN_NET + TRACE_N_NET,
	JOIN_N = JOIN_HW + TRACE_N_HW,
};

#define JOIN_NO_RANK (-1)

/*
 * struct join_report - of one process
 * @host, @program: printable; @host is "?" in reports that do not name it
 * @rank:	or JOIN_NO_RANK
 * @file:	where it was found
 */
struct join_report {
	char host[65], program[65];
	char *file;
	int64_t pid;
	int64_t rank;
	uint64_t n[JOIN_N];
};

/*
 * struct join - by rank, then by host and process id, after join_read()
 * @unreadable:	files that could not be read, or hold something else; each was told
 */
struct join {
	struct join_report *r;
	size_t n, room;
	unsigned int unreadable;
};

/*
 * join_read - all reports of @names: files, which may hold several, and directories with files NAME.json.
 * A file that is named twice is taken once. 0, or an exit code with a line on stderr if there is no memory.
 */
int join_read(struct join *j, char **names, int n);
void join_free(struct join *j);

/* The name of counter @i of struct join_report, as reports have it */
const char *join_counter_name(size_t i);

/* --- what is found ------------------------------------------------------------------- */

/*
 * enum join_unit - how a value is shown
 */
enum join_unit { JOIN_COUNT, JOIN_BYTES, JOIN_TIME };

/*
 * struct join_metric - a figure that is looked at: one counter, or faults of both kinds
 * @name:	in JSON
 * @text:	after the value: "page faults"
 * @wrong:	it should be 0: whatever is more is told
 * @floor:	what differs by less from the rest is not worth a word
 */
struct join_metric {
	const char *name, *text;
	size_t counter;
	enum join_unit unit;
	bool wrong;
	uint64_t floor;
};

extern const struct join_metric join_metrics[];
extern const size_t join_n_metrics;

uint64_t join_value(const struct join_report *r, const struct join_metric *m);

/*
 * struct join_outlier - a process whose figure is far from those of the others
 * @times:	how far, in distances of the others; sorted by it
 */
struct join_outlier {
	const struct join_report *r;
	const struct join_metric *m;
	uint64_t value, median;
	double times;
};

/*
 * join_outliers - in @out, which is to be freed; how many. A figure is far from the rest if it differs
 * from the median by more than six times as much as half of the processes do, by half of the median at
 * least, and by @floor. Of fewer than four processes nobody stands out.
 */
size_t join_outliers(const struct join *j, struct join_outlier **out);

/*
 * join_missing - call @each with the first and the last of each gap in the ranks 0 to @ranks - 1; how many are
 * missing. @ranks 0: up to the highest that is there
 */
uint64_t join_missing(const struct join *j, uint64_t ranks,
		      void (*each)(void *arg, uint64_t first, uint64_t last), void *arg);

/* Sums up to UINT64_MAX, which stays */
void join_add(uint64_t sum[JOIN_N], const struct join_report *r);

/* --- how it is told ------------------------------------------------------------------ */

/*
 * struct join_how
 * @json:	as an object, not as text
 * @each:	a row for each process, not for each host
 * @ranks:	so many were started; 0: unknown
 */
struct join_how {
	bool json, each;
	uint64_t ranks;
};

/* join_files - `urxe stat --join`; the exit code: 1 if a file was unreadable or a rank is missing */
int join_files(char **names, int n, const struct join_how *how);

#endif
