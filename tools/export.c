/*
 * export.c - JSON and Perfetto; see export.h.
 */
#include "tools/export.h"

#include <inttypes.h>
#include <string.h>

#include "trace/reader.h"
#include "trace/render.h"

void export_json(struct trace_reader **t, int n, FILE *out)
{
	for (int i = 0; i < n; i++) {
		trace_json(t[i], out);
		putc('\n', out);
	}
}

/* --- Perfetto --------------------------------------------------------------------- */

/* Begins an event at @ns; the caller ends it with "}". */
static void begin_event(FILE *out, const struct trace_info *i, const char *phase,
			const char *name, uint64_t ns, uint32_t thread)
{
	/* microseconds, as a decimal number */
	fprintf(out,
		",\n{\"ph\":\"%s\",\"ts\":%" PRIu64
		".%03u,\"pid\":%d,\"tid\":%u,\"name\":",
		phase, ns / 1000, (unsigned int)(ns % 1000), i->pid, thread);
	trace_json_string(out, name);
}

static void put_args(FILE *out, const struct trace_record *r)
{
	char text[256];

	trace_text(r, text, sizeof(text));
	fputs(",\"args\":{\"what\":", out);
	trace_json_string(out, text);
	fputs("}", out);
}

/* A work request is a bar from its post to its completion, known by QP and wr_id. */
static void put_request(FILE *out, const struct trace_info *i,
			const struct trace_record *r, bool begin)
{
	uint64_t wr_id = begin ? r->u.post_send.wr_id : r->u.completion.wr_id;
	uint32_t qpn = begin ? r->u.post_send.qpn : r->u.completion.qpn;
	const char *op = begin ? trace_name(TRACE_WR, r->u.post_send.opcode) : NULL;
	char name[64];

	snprintf(name, sizeof(name), "QP 0x%06x", qpn);
	begin_event(out, i, begin ? "b" : "e", op ? op : name, r->time, r->thread);
	fprintf(out, ",\"cat\":\"%s\",\"id2\":{\"local\":\"%x.%" PRIx64 "\"}", name, qpn,
		wr_id);
	put_args(out, r);
	putc('}', out);
}

static void put_record(FILE *out, const struct trace_info *i,
		       const struct trace_record *r)
{
	const struct trace_kind_desc *k = trace_kind(r->kind);
	uint64_t length = 0;

	if (r->kind == TRACE_KIND_post_send) {
		put_request(out, i, r, true);
		return;
	}
	if ((r->kind == TRACE_KIND_completion ||
	     r->kind == TRACE_KIND_completion_error) &&
	    !r->u.completion.receive)
		put_request(out, i, r, false);
	if (r->kind == TRACE_KIND_fault || r->kind == TRACE_KIND_fault_failed)
		length = r->u.fault.duration;
	else if (r->kind == TRACE_KIND_prefetch)
		length = r->u.prefetch.duration;
	if (length > r->time)
		length = 0;
	begin_event(out, i, length ? "X" : "i", k->name, r->time - length, r->thread);
	if (length)
		fprintf(out, ",\"dur\":%" PRIu64 ".%03u", length / 1000,
			(unsigned int)(length % 1000));
	else
		fputs(",\"s\":\"t\"", out);
	fprintf(out, ",\"cat\":\"%s\"", k->severity >= TRACE_WARNING ? "trouble" : "hca");
	put_args(out, r);
	putc('}', out);
}

void export_perfetto(struct trace_reader **t, int n, FILE *out)
{
	struct trace_record r;

	fputs(
	    "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
	    "{\"ph\":\"M\",\"name\":\"trace_of\",\"pid\":0,\"args\":{\"name\":\"urxe\"}}",
	    out);
	for (int i = 0; i < n; i++) {
		const struct trace_info *info = trace_info(t[i]);

		fprintf(out,
			",\n{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":%d,"
			"\"args\":{\"name\":",
			info->pid);
		trace_json_string(out, info->program);
		fputs("}}", out);
		trace_rewind(t[i]);
		while (trace_next(t[i], &r))
			put_record(out, info, &r);
	}
	fputs("\n]}\n", out);
}
