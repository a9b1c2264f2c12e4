/* report_text.c - numbers and tables for people; see report_text.h. */
#include "verbs/host/report_text.h"

#include <inttypes.h>

const char *report_number(uint64_t n, char buf[32])
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n);
	int at = 0;

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			buf[at++] = ',';
		buf[at++] = digits[i];
	}
	buf[at] = '\0';
	return buf;
}

static void line(FILE *out, const char *const cell[7])
{
	fprintf(out, "  %-20s %10s %9s %9s %11s %12s %12s\n", cell[0], cell[1], cell[2],
		cell[3], cell[4], cell[5], cell[6]);
}

void report_head(FILE *out)
{
	line(out, (const char *const[]){"on-demand region", "size", "", "pages", "pages",
					"pages", "accesses"});
	line(out, (const char *const[]){"", "", "faults", "faulted", "prefetched",
					"invalidated", "from cache"});
}

void report_row(FILE *out, const struct report_row *row)
{
	char n[5][32];

	line(out, (const char *const[]){row->label, row->size,
					report_number(row->faults, n[0]),
					report_number(row->pages_faulted, n[1]),
					report_number(row->pages_prefetched, n[2]),
					report_number(row->pages_invalidated, n[3]),
					report_number(row->cache_hits, n[4])});
}
