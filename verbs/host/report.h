/*
 * report.h - what a process did with its HCA, for people and for programs.
 *
 * All is read from the segment of the process (trace/reader.h), so that it makes no
 * difference whether the process writes its report itself, is looked at while it runs, or
 * has died of whatever cause.
 */
#ifndef URXE_VERBS_HOST_REPORT_H
#define URXE_VERBS_HOST_REPORT_H

#include <stdbool.h>
#include <stdio.h>

struct trace_reader;
struct trace_object;

/*
 * report_write - at the end of a process
 * @spec: "text": the table, to @fallback; "json:FILE": JSON to FILE, in which %p, %h
 * and %r stand for what they do in report_expand_own(). A FILE that cannot be written is
 * told on @fallback.
 */
void report_write(const struct trace_reader *t, const char *spec, FILE *fallback);

/* report_json - the JSON to an open stream */
void report_json(const struct trace_reader *t, FILE *out);

/* report_live - what `urxe stat` shows: the regions that there are, with their page maps */
void report_live(const struct trace_reader *t, FILE *out);

/*
 * report_expand_own - @pattern with the id of this process for %p, its host's name for %h, its
 * rank, or "none", for %r. 0 or -ENAMETOOLONG
 */
int report_expand_own(const char *pattern, char *path, size_t size);
/* report_is_pattern - does each process get a file of its own by that name? */
bool report_is_pattern(const char *pattern);

#endif
