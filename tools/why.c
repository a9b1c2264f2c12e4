/*
 * why.c - `urxe why`: what a program waits for, from its segment.
 *
 * Says of each QP in which state it is and how it came there, what its queues wait for and
 * since when, and of each CQ whether completions wait that nobody polls. Nothing is asked of
 * the program.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/segments.h"
#include "tools/tools.h"
#include "trace/render.h"

#define LAST_RECORDS 4096 /* looked through for what went wrong */
#define SHOW_RECORDS 8	  /* of them shown */

/* struct query - @pid: only this process; 0: all that run; @found: processes shown */
struct query {
	long pid;
	unsigned int found;
};

static void print_help(FILE *out)
{
	fputs("usage: urxe why [PID]\n"
	      "\n"
	      "Says what the programs that have an emulated device open, or the process "
	      "PID,\n"
	      "wait for: states of QPs and how they came there, requests that are not "
	      "complete\n"
	      "and what each waits for, completions that nobody polls, the last packets, "
	      "and\n"
	      "what went wrong last. The program may be stopped, spin, or be dead.\n",
	      out);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* "1.3 s ago"; of a time that cannot be, nothing */
static const char *ago(uint64_t when, char buf[64])
{
	uint64_t now = now_ns();
	char text[32];

	if (!when || when > now)
		snprintf(buf, 64, "just now");
	else
		snprintf(buf, 64, "%s ago", trace_time_text(now - when, text));
	return buf;
}

static const char *span(uint64_t since, char buf[32])
{
	uint64_t now = now_ns();

	return trace_time_text(since && since < now ? now - since : 0, buf);
}

static const char *word(enum trace_unit unit, uint64_t v)
{
	const char *name = trace_name(unit, v);

	return name ? name : "?";
}

/* --- a QP ------------------------------------------------------------------------- */

static void print_state(const struct trace_object *o)
{
	const struct trace_qp *q = &o->qp;
	char text[64], ip[64];

	printf("  QP 0x%06x %s: %s since %s (%s%s%s)", o->id, word(TRACE_TYPE, q->type),
	       word(TRACE_STATE, q->state), ago(q->since, text),
	       word(TRACE_CAUSE, q->cause), q->status ? ": " : "",
	       q->status ? word(TRACE_STATUS, q->status) : "");
	if (q->peer)
		printf(", peer QP 0x%06x at %s", q->peer, trace_ip_text(&q->remote, ip));
	putchar('\n');
}

/* What the head of the send queue waits for, in a sentence */
static void print_send_wait(const struct trace_qp *q)
{
	char since[32];

	span(q->sq.since, since);
	switch (q->sq.wait) {
	case TRACE_WAIT_RNR:
		printf("the peer's receive buffer: it answered \"receiver not ready\" %u "
		       "times "
		       "in a row; waits for %s, rnr_retry %u%s",
		       q->rnr_naks, since, q->rnr_retry,
		       q->rnr_retry == 7 ? " (for ever)" : "");
		break;
	case TRACE_WAIT_ACK:
		printf("an acknowledge of PSN %u since %s", q->una, since);
		if (q->timeouts)
			printf(", %u timeouts, %u of %u retries left", q->timeouts,
			       q->retry_left, q->retry_cnt);
		if (!q->timeout)
			printf(" (timeout 0: for ever)");
		break;
	case TRACE_WAIT_CREDIT:
		printf("READs and atomics before it, max_rd_atomic is %u%s, since %s",
		       q->max_rd_atomic, q->max_rd_atomic ? "" : ": none is ever sent",
		       since);
		break;
	case TRACE_WAIT_STATE:
		printf("the QP to reach RTS: it is in %s", word(TRACE_STATE, q->state));
		break;
	default:
		printf("%s since %s", word(TRACE_WAIT, q->sq.wait), since);
	}
}

static void print_send_queue(const struct trace_qp *q)
{
	if (!q->sq.posted)
		return;
	printf("    %u of %u send requests are not complete%s; the first (%s, wr_id "
	       "0x%" PRIx64 ") waits for ",
	       q->sq.posted, q->sq.depth,
	       q->sq.posted >= q->sq.depth ? ": the send queue is full" : "",
	       word(TRACE_WR, q->sq.opcode), q->sq.wr_id);
	print_send_wait(q);
	putchar('\n');
}

static void print_receive_queue(const struct trace_qp *q)
{
	char since[32];

	if (q->rq.wait == TRACE_WAIT_FAULT)
		printf("    a request of the peer waits for a page fault here since %s\n",
		       span(q->rq.since, since));
	else if (q->rnr_since)
		printf(
		    "    the peer was told \"receiver not ready\" since %s, %u times: no "
		    "receive request is posted%s, or its memory is not there\n",
		    span(q->rnr_since, since), q->rnr_sent, q->srq ? " to the SRQ" : "");
}

static void print_last_packet(const char *way, const struct trace_packet *p)
{
	char text[64];

	if (p->count)
		printf("    last packet %s: %s PSN %u, %s\n", way,
		       word(TRACE_OPCODE, p->opcode), p->psn, ago(p->time, text));
	else
		printf("    no packet %s\n", way);
}

static void print_qp(const struct trace_object *o)
{
	print_state(o);
	print_send_queue(&o->qp);
	print_receive_queue(&o->qp);
	print_last_packet("sent", &o->qp.out);
	print_last_packet("received", &o->qp.in);
}

/* --- a CQ ------------------------------------------------------------------------- */

static void print_cq(const struct trace_object *o)
{
	uint64_t polled = o->cq.polled, produced = o->cq.produced;
	uint64_t left = produced > polled ? produced - polled : 0;
	char text[64];

	if (o->cq.overrun)
		printf("  CQ %u overran: more than %u completions, it takes no more\n",
		       o->id, o->cq.size);
	if (!left)
		return;
	printf("  CQ %u: %" PRIu64
	       " of %u completions were not polled, the first came %s%s\n",
	       o->id, left, o->cq.size, ago(o->cq.waiting, text),
	       o->cq.events && !o->cq.armed
		   ? "; its event was given, and nobody armed it again"
		   : "");
}

/* --- what is wrong ---------------------------------------------------------------- */

static void print_note(const struct trace_object *o)
{
	char first[64], last[64];

	printf("  %s: %s", ago(o->created, first), o->note.text);
	if (o->note.count > 1)
		printf(" (%u times, the last one %s)", o->note.count,
		       ago(o->note.last, last));
	putchar('\n');
}

static void print_notes(const struct trace_reader *t)
{
	const struct trace_object *o;
	bool any = false;

	for (size_t k = 0; (o = trace_object(t, k)); k++) {
		if (o->kind != TRACE_OBJ_NOTE)
			continue;
		if (!any)
			puts("  What is wrong:");
		any = true;
		print_note(o);
	}
}

/* --- a process -------------------------------------------------------------------- */

/* The last records that say that something was not as it should be */
static void print_trouble(struct trace_reader *t)
{
	struct trace_record last[SHOW_RECORDS], r;
	unsigned int n = 0;
	char line[256], when[64];

	trace_last(t, LAST_RECORDS);
	while (trace_next(t, &r))
		if (trace_kind(r.kind)->severity >= TRACE_WARNING)
			last[n++ % SHOW_RECORDS] = r;
	for (unsigned int i = n > SHOW_RECORDS ? n - SHOW_RECORDS : 0; i < n; i++) {
		const struct trace_record *l = &last[i % SHOW_RECORDS];

		trace_text(l, line, sizeof(line));
		printf("  %s: %s\n", ago(l->time, when), line);
	}
}

static void explain(void *arg, const struct segment *s)
{
	struct query *q = arg;
	const struct trace_info *i = trace_info(s->t);
	const struct trace_object *o;

	if (q->pid ? i->pid != q->pid : s->life == SEGMENT_GONE)
		return;
	q->found++;
	printf("%s (pid %d)%s\n", i->program, i->pid,
	       s->life == SEGMENT_LIVES ? "" : ", has ended");
	for (size_t k = 0; (o = trace_object(s->t, k)); k++) {
		if (o->kind == TRACE_OBJ_QP)
			print_qp(o);
		else if (o->kind == TRACE_OBJ_CQ)
			print_cq(o);
	}
	print_notes(s->t);
	print_trouble(s->t);
}

static int why_command(int argc, char **argv)
{
	struct query q = {0};
	char *end;

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		print_help(stdout);
		return 0;
	}
	if (argc > 2)
		return usage_error("one process id at most");
	if (argc > 1) {
		q.pid = strtol(argv[1], &end, 10);
		if (*end || q.pid <= 0)
			return usage_error("'%s' is not a process id", argv[1]);
	}
	segments_all(explain, &q);
	if (q.found)
		return 0;
	if (q.pid)
		fprintf(stderr, "urxe: process %ld has no emulated device open\n", q.pid);
	else
		puts("no process has an emulated device open");
	return q.pid ? 1 : 0;
}

const struct command command_why = {
    .name = "why",
    .summary = "say what running programs wait for",
    .run = why_command,
    .help = print_help,
};
