/*
 * ladder.c - traces as text: all records in one order of time, then a summary.
 *
 * Each process has a letter. Packets are drawn as arrows, so that the two ends of a
 * conversation stand one below the other:
 *
 *	   12.345 ms  A  QP 0x468000 --> SEND_ONLY PSN 5, 4 KiB --> QP 0x46c000
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/callstack.h"
#include "tools/export.h"
#include "tools/findings.h"
#include "tools/timeline.h"
#include "trace/reader.h"
#include "trace/render.h"

/*
 * struct sum - what the summary is made of, of one process
 * @count:	records by kind
 * @again:	packets sent again, by reason; @drop: packets thrown away, by reason
 * @status:	completions in error, by status
 * @fault_ns:	time in page faults
 */
struct sum {
	uint64_t count[TRACE_N_KINDS];
	uint64_t again[TRACE_N_WHYS];
	uint64_t drop[TRACE_N_DROPS];
	uint64_t status[32];
	uint64_t fault_ns, faults;
};

/* --- counting --------------------------------------------------------------------- */

static void add(struct sum *s, const struct trace_record *r)
{
	s->count[r->kind]++;
	if (r->kind == TRACE_KIND_packet_again && r->u.packet_again.why < TRACE_N_WHYS)
		s->again[r->u.packet_again.why]++;
	if (r->kind == TRACE_KIND_drop && r->u.drop.why < TRACE_N_DROPS)
		s->drop[r->u.drop.why]++;
	if (r->kind == TRACE_KIND_completion_error && r->u.completion_error.status < 32)
		s->status[r->u.completion_error.status]++;
	if (r->kind == TRACE_KIND_fault || r->kind == TRACE_KIND_fault_failed) {
		s->faults++;
		s->fault_ns += r->u.fault.duration;
	}
}

/* "12 of this, 3 of that" */
static void print_counts(FILE *out, const char *what, const uint64_t *count, size_t n,
			 enum trace_unit unit)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		const char *name = trace_name(unit, i);

		if (!count[i])
			continue;
		if (name)
			fprintf(out, "%s %" PRIu64 " %s", any ? "," : what, count[i],
				name);
		else
			fprintf(out, "%s %" PRIu64 " %zu", any ? "," : what, count[i], i);
		any = true;
	}
	if (any)
		putc('\n', out);
}

static void print_sum(FILE *out, char letter, const struct trace_reader *t,
		      const struct sum *s)
{
	const struct trace_info *i = trace_info(t);
	char text[32];

	fprintf(out, "%c  %s (pid %d on %s)\n", letter, i->program, i->pid, i->host);
	if (!i->full)
		fputs("   only what is always recorded: packets and requests that went "
		      "well "
		      "are not\n",
		      out);
	fprintf(out,
		"   %" PRIu64 " packets sent, %" PRIu64 " received; %" PRIu64
		" requests posted, %" PRIu64 " completions\n",
		s->count[TRACE_KIND_packet_out] + s->count[TRACE_KIND_packet_again] +
		    s->count[TRACE_KIND_nak_out],
		s->count[TRACE_KIND_packet_in] + s->count[TRACE_KIND_nak_in],
		s->count[TRACE_KIND_post_send],
		s->count[TRACE_KIND_completion] + s->count[TRACE_KIND_completion_error]);
	print_counts(out, "   sent again:", s->again, TRACE_N_WHYS, TRACE_WHY);
	print_counts(out, "   dropped:", s->drop, TRACE_N_DROPS, TRACE_DROP);
	print_counts(out, "   failed requests:", s->status, 32, TRACE_STATUS);
	if (s->count[TRACE_KIND_nak_out] || s->count[TRACE_KIND_nak_in])
		fprintf(out, "   NAKs: %" PRIu64 " sent, %" PRIu64 " received\n",
			s->count[TRACE_KIND_nak_out], s->count[TRACE_KIND_nak_in]);
	if (s->faults)
		fprintf(out, "   %" PRIu64 " page faults, %s in total\n", s->faults,
			trace_time_text(s->fault_ns, text));
	if (i->overwritten)
		fprintf(out,
			"   %" PRIu64
			" records were overwritten (--trace-size is too small)\n",
			i->overwritten);
	if (i->lost || trace_unreadable(t))
		fprintf(out, "   %" PRIu64 " records could not be written or read\n",
			i->lost + trace_unreadable(t));
}

/* --- the ladder ------------------------------------------------------------------- */

static bool is_packet(uint16_t kind, bool *out)
{
	*out = kind == TRACE_KIND_packet_out || kind == TRACE_KIND_packet_again ||
	       kind == TRACE_KIND_nak_out;
	return *out || kind == TRACE_KIND_packet_in || kind == TRACE_KIND_nak_in;
}

/* The IDs of both ends with an arrow between them, and the packet on it */
static void packet_text(const struct trace_record *r, bool sent, char *buf, size_t size)
{
	const struct trace_rec_packet_out *p = &r->u.packet_out;
	const char *op = trace_name(TRACE_OPCODE, p->opcode);
	char what[64], bytes[32];

	if (r->kind == TRACE_KIND_nak_out || r->kind == TRACE_KIND_nak_in)
		trace_field_text(r, trace_field_named(trace_kind(r->kind), "syndrome"),
				 what, sizeof(what));
	else
		snprintf(what, sizeof(what), "%s", op ? op : "?");
	snprintf(buf, size, "QP 0x%06x %s %s PSN %u, %s %s 0x%06x%s%s", p->qpn,
		 sent ? "-->" : "<--", what, p->psn, trace_size_text(p->length, bytes),
		 sent ? "-->" : "<--", p->peer,
		 r->kind == TRACE_KIND_packet_again ? "  " : "",
		 r->kind == TRACE_KIND_packet_again && trace_name(TRACE_WHY, p->why)
		     ? trace_name(TRACE_WHY, p->why)
		     : "");
}

/* A message of connection management between the IDs of both ends */
static void message_text(const struct trace_record *r, char *buf, size_t size)
{
	const struct trace_rec_cm_message *m = &r->u.cm_message;
	const char *what = trace_name(TRACE_CM_MSG, m->message);
	const char *reason = m->reason ? trace_name(TRACE_CM_REASON, m->reason) : NULL;
	const char *arrow = m->sent ? "-->" : "<--";
	char ip[64], port[16] = "", why[64] = "";

	if (m->port)
		snprintf(port, sizeof(port), " port %u", m->port);
	if (m->reason)
		snprintf(why, sizeof(why), "  %u: %s", m->reason, reason ? reason : "?");
	/* IDs are told by the sender */
	snprintf(buf, size, "CM 0x%08x %s %s%s %s 0x%08x at %s%s%s",
		 m->sent ? m->local_id : m->remote_id, arrow, what ? what : "?", port,
		 arrow, m->sent ? m->remote_id : m->local_id, trace_ip_text(&m->peer, ip),
		 m->again ? "  again" : "", why);
}

/* "called from f (a.c:12) < main (a.c:40)" */
static void stack_text(const struct trace_reader *t, uint32_t id, char *buf, size_t size)
{
	const struct trace_stack *s = callstack_find(t, id);
	size_t n = (size_t)snprintf(buf, size, "called from");
	char frame[256];

	for (uint32_t i = 0; s && i < s->n && n < size; i++) {
		callstack_frame(t, s, i, frame, sizeof(frame));
		n += (size_t)snprintf(buf + n, size - n, "%s %s", i ? " <" : "", frame);
	}
}

static void print_line(FILE *out, const struct trace_reader *t, char letter,
		       uint64_t since, const struct trace_record *r)
{
	static const char mark[] = {' ', ' ', '.', '!', '*'};
	const struct trace_kind_desc *k = trace_kind(r->kind);
	char text[512];
	bool sent;

	if (r->kind == TRACE_KIND_called_from)
		stack_text(t, r->u.called_from.stack, text, sizeof(text));
	else if (is_packet(r->kind, &sent))
		packet_text(r, sent, text, sizeof(text));
	else if (r->kind == TRACE_KIND_cm_message)
		message_text(r, text, sizeof(text));
	else
		trace_text(r, text, sizeof(text));
	fprintf(out, "%13.6f ms %c %c %s\n", (double)since / 1e6, mark[k->severity],
		letter, text);
}

static char letter_of(int i)
{
	return i < 26 ? (char)('A' + i) : '+';
}

/* What was found, as sentences */
static void print_findings(FILE *out, struct findings *f, uint64_t first)
{
	size_t n;
	const struct finding *x = findings_list(f, &n);

	fputs("\nFindings\n", out);
	for (size_t i = 0; i < n; i++)
		fprintf(out, "%13.6f ms %c %s\n",
			x[i].time > first ? (double)(x[i].time - first) / 1e6 : 0.0,
			x[i].level == FINDING_FAILED ? '*'
			: x[i].level == FINDING_SLOW ? '.'
						     : ' ',
			x[i].text);
}

int ladder_print(struct trace_reader **t, int n, bool errors, FILE *out)
{
	struct sum *sum = calloc((size_t)n, sizeof(*sum));
	struct timeline *tl = timeline_open(t, n);
	struct findings *f = findings_new(t, n, tl);
	bool ok = sum && tl && f, any = false;
	uint64_t first = 0;
	struct moment m;

	while (ok && timeline_next(tl, &m)) {
		first = any ? first : m.time;
		any = true;
		if (!errors || trace_kind(m.r.kind)->severity >= TRACE_NOTICE)
			print_line(out, t[m.from], letter_of(m.from), m.time - first,
				   &m.r);
		add(&sum[m.from], &m.r);
		findings_add(f, &m);
	}
	if (ok) {
		print_findings(out, f, first);
		fputs("\nSummary (. costs time, ! is not normal, * is an error)\n", out);
		for (int i = 0; i < n; i++)
			print_sum(out, letter_of(i), t[i], &sum[i]);
	}
	findings_free(f);
	timeline_close(tl);
	free(sum);
	return ok ? 0 : -ENOMEM;
}
