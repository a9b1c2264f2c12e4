/*
 * report_text.h - numbers and tables for people: what the report at the end of a program and
 * `urxe stat` have in common.
 */
#ifndef URXE_VERBS_HOST_REPORT_TEXT_H
#define URXE_VERBS_HOST_REPORT_TEXT_H

#include <stdint.h>
#include <stdio.h>

/* 1234567 -> "1,234,567", in @buf, which is returned; sizes and times are in trace/render.h */
const char *report_number(uint64_t n, char buf[32]);

/*
 * struct report_row - a line of the table of memory regions; counters as in
 * struct odp_counters, @faults are events
 */
struct report_row {
	const char *label;
	const char *size;
	uint64_t faults;
	uint64_t pages_faulted;
	uint64_t pages_prefetched;
	uint64_t pages_invalidated;
	uint64_t cache_hits;
};

void report_head(FILE *out);
void report_row(FILE *out, const struct report_row *row);

#endif
