/*
 * export.h - traces in the forms of other tools, and as text.
 */
#ifndef URXE_TOOLS_EXPORT_H
#define URXE_TOOLS_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

struct trace_reader;

/* Each writes @n traces to @out; errors are the stream's. */
void export_json(struct trace_reader **t, int n, FILE *out);
/* The Trace Event Format, which Perfetto and Chrome read */
void export_perfetto(struct trace_reader **t, int n, FILE *out);
/* draft-ietf-opsawg-pcapng: headers made from the records, reasons as comments */
void export_pcapng(struct trace_reader **t, int n, FILE *out);
/*
 * The ladder, what was found, and the summary; @errors: only what went wrong or cost time.
 * 0 or -ENOMEM
 */
int ladder_print(struct trace_reader **t, int n, bool errors, FILE *out);

/* What was found, as JSON, and as JUnit's results of tests; 0 or -ENOMEM */
int report_json_findings(struct trace_reader **t, int n, FILE *out);
int report_junit(struct trace_reader **t, int n, FILE *out);

#endif
