/*
 * render.h - records and objects as text for people and as JSON for programs.
 *
 * What is written holds no control characters, whatever was in the file.
 */
#ifndef URXE_TRACE_RENDER_H
#define URXE_TRACE_RENDER_H

#include <stdio.h>

#include "trace/reader.h"

/* A record as one line, without its time and a newline; as snprintf(3) */
int trace_text(const struct trace_record *r, char *buf, size_t size);
/* The value of a field in words; as snprintf(3) */
int trace_field_text(const struct trace_record *r, const struct trace_field_desc *f,
		     char *buf, size_t size);
/* 1234567 ns as "1.23 ms" */
const char *trace_time_text(uint64_t ns, char buf[32]);
/* 4096 as "4 KiB" */
const char *trace_size_text(uint64_t bytes, char buf[32]);
/* The AETH of an acknowledge: "ACK", "RNR NAK (timer 12)"; as snprintf(3) */
int trace_syndrome_text(uint8_t syndrome, char *buf, size_t size);
/* "1.2.3.4" or "fe80::1" */
const char *trace_ip_text(const struct trace_ip *ip, char buf[64]);

/* A JSON string (RFC 8259) with its quotes, which may stand in a script of HTML */
void trace_json_string(FILE *out, const char *s);
/* The members of that value beside the records, without the braces around them */
void trace_json_about(const struct trace_reader *t, FILE *out);
/*
 * One JSON value: the whole of a reader, records and all: docs/trace.md has the format. The
 * reader is rewound first. -errno of the stream, or 0.
 */
int trace_json(struct trace_reader *t, FILE *out);

#endif
