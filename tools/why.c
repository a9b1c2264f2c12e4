/*
 * why.c - `urxe why`: what a program waits for and what was wrong, from its segment.
 *
 * Says of each QP in which state it is and how it came there, what its queues wait for and
 * since when, of each CQ whether completions wait that nobody polls, and what urxe found to be
 * wrong. Nothing is asked of the program. Of one that has ended, times count from its last record.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/core.h"
#include "tools/segments.h"
#include "tools/tools.h"
#include "tools/waits.h"
#include "trace/render.h"

#define LAST_RECORDS 4096 /* looked through for what went wrong */
#define SHOW_RECORDS 8	  /* of them shown */

/* struct query - @pid: only this process; 0: all that run; @found: processes shown */
struct query {
	long pid;
	unsigned int found;
};

/* struct view - what is shown, and the time that it is seen from (ns) */
struct view {
	struct trace_reader *t;
	uint64_t now;
};

static void print_help(FILE *out)
{
	fputs("usage: urxe why [PID | FILE...]\n"
	      "\n"
	      "Says what the programs that have an emulated device open, or the process "
	      "PID,\n"
	      "wait for: states of QPs and how they came there, requests that are not "
	      "complete\n"
	      "and what each waits for, completions that nobody polls, the last packets, "
	      "what\n"
	      "urxe found to be wrong, and what went wrong last. The program may be "
	      "stopped,\n"
	      "spin, be held by a debugger, or be dead.\n"
	      "\n"
	      "FILE is a trace (urxe run --trace), or a core file into which the kernel "
	      "wrote\n"
	      "shared file mappings (echo 0x3b >/proc/self/coredump_filter, see "
	      "core(5)).\n",
	      out);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* "1.3 s ago"; of a time that cannot be, nothing */
static const char *ago(const struct view *v, uint64_t when, char buf[64])
{
	char text[32];

	if (!when || when >= v->now)
		snprintf(buf, 64, "just now");
	else
		snprintf(buf, 64, "%s ago", trace_time_text(v->now - when, text));
	return buf;
}

static const char *word(enum trace_unit unit, uint64_t v)
{
	const char *name = trace_name(unit, v);

	return name ? name : "?";
}

/* --- a QP ------------------------------------------------------------------------- */

/* "RESET 3 s ago, INIT 3 s ago, RTR 2.9 s ago", in the order in which they were entered */
static void print_history(const struct view *v, const struct trace_qp *q)
{
	uint64_t after = 0;
	char when[64];
	int next;

	fputs("    states:", stdout);
	do {
		next = -1;
		for (int i = 0; i < TRACE_QP_STATES; i++)
			if (q->entered[i] > after &&
			    (next < 0 || q->entered[i] < q->entered[next]))
				next = i;
		if (next < 0)
			break;
		printf("%s %s %s", after ? "," : "", word(TRACE_STATE, (uint64_t)next),
		       ago(v, q->entered[next], when));
		after = q->entered[next];
	} while (true);
	putchar('\n');
}

static void print_state(const struct view *v, const struct trace_object *o)
{
	const struct trace_qp *q = &o->qp;
	char text[64], ip[64];

	printf("  QP 0x%06x %s: %s since %s (%s%s%s)", o->id, word(TRACE_TYPE, q->type),
	       word(TRACE_STATE, q->state), ago(v, q->since, text),
	       word(TRACE_CAUSE, q->cause), q->status ? ": " : "",
	       q->status ? word(TRACE_STATUS, q->status) : "");
	if (q->peer)
		printf(", peer QP 0x%06x at %s", q->peer, trace_ip_text(&q->remote, ip));
	putchar('\n');
	print_history(v, q);
}

static void print_wait(void *arg, const struct wait *w)
{
	/* QP and CM ID have their names in the line above */
	bool named =
	    w->object->kind == TRACE_OBJ_QP || w->object->kind == TRACE_OBJ_CM_ID;
	const char *text = named ? strstr(w->text, ": ") : NULL;

	if (text)
		printf("    %s\n", text + 2);
	else
		printf("  %s\n", w->text);
}

static bool is_acknowledge(const struct trace_packet *p)
{
	return !strcmp(word(TRACE_OPCODE, p->opcode), "ACK");
}

static void print_last_packet(const struct view *v, const char *way,
			      const struct trace_packet *p)
{
	char text[64], what[64];

	snprintf(what, sizeof(what), "%s", word(TRACE_OPCODE, p->opcode));
	if (is_acknowledge(p))
		trace_syndrome_text(p->syndrome, what, sizeof(what));
	if (p->count)
		printf("    last packet %s: %s PSN %u, %s\n", way, what, p->psn,
		       ago(v, p->time, text));
	else
		printf("    no packet %s\n", way);
}

static void print_qp(const struct view *v, const struct trace_object *o)
{
	print_state(v, o);
	waits_of(v->t, o, v->now, print_wait, NULL);
	print_last_packet(v, "sent", &o->qp.out);
	print_last_packet(v, "received", &o->qp.in);
}

static void print_cq(const struct view *v, const struct trace_object *o)
{
	if (o->cq.overrun)
		printf("  CQ %u overran: more than %u completions, it takes no more\n",
		       o->id, o->cq.size);
	waits_of(v->t, o, v->now, print_wait, NULL);
}

/* --- a CM ID ---------------------------------------------------------------------- */

/* Where it is, and its peer, as far as they are known */
static void print_addresses(const struct trace_cm_id *cm)
{
	char text[96];

	if (cm->local_port)
		printf(" %s", waits_address(&cm->local, cm->local_port, text));
	if (cm->remote_port)
		printf(" to %s", waits_address(&cm->remote, cm->remote_port, text));
}

static void print_event(const struct view *v, const struct trace_cm_id *cm)
{
	bool rejected = !strcmp(word(TRACE_CM_EVENT, cm->event), "REJECTED");
	char text[64];

	if (!cm->event_at)
		return;
	printf("    last event: %s", word(TRACE_CM_EVENT, cm->event));
	if (rejected)
		printf(" (%s)", word(TRACE_CM_REASON, (uint32_t)cm->event_status));
	else if (cm->event_status)
		printf(", status %d", cm->event_status);
	printf(", %s\n", ago(v, cm->event_at, text));
}

static void print_messages(const struct view *v, const struct trace_cm_id *cm)
{
	char text[64];

	if (cm->sent)
		printf("    last message sent: %s, %s\n", word(TRACE_CM_MSG, cm->message),
		       ago(v, cm->last_sent, text));
	if (cm->came)
		printf("    last message received: %s, %s\n",
		       word(TRACE_CM_MSG, cm->came_message), ago(v, cm->came, text));
}

static void print_cm_id(const struct view *v, const struct trace_object *o)
{
	const struct trace_cm_id *cm = &o->cm;
	char text[64];

	printf("  CM ID %u %s", o->id, word(TRACE_TYPE, cm->type));
	print_addresses(cm);
	printf(": %s since %s", cm->state, ago(v, cm->since, text));
	if (!strcmp(cm->state, "LISTEN"))
		printf(", room for %u requests", cm->backlog);
	if (cm->protocol != TRACE_CM_STATE_IDLE)
		printf(", %s since %s", word(TRACE_CM_STATE, cm->protocol),
		       ago(v, cm->protocol_since, text));
	if (cm->qpn)
		printf(", QP 0x%06x", cm->qpn);
	putchar('\n');
	waits_of(v->t, o, v->now, print_wait, NULL);
	print_event(v, cm);
	print_messages(v, cm);
}

/* --- what is wrong ---------------------------------------------------------------- */

static void print_note(const struct view *v, const struct trace_object *o)
{
	char first[64], last[64];

	printf("    %s: %s", ago(v, o->created, first), o->note.text);
	if (o->note.count > 1)
		printf(" (%u times, the last one %s)", o->note.count,
		       ago(v, o->note.last, last));
	putchar('\n');
}

static void print_notes(const struct view *v)
{
	const struct trace_object *o;
	bool any = false;

	for (size_t k = 0; (o = trace_object(v->t, k)); k++) {
		if (o->kind != TRACE_OBJ_NOTE)
			continue;
		if (!any)
			puts("  what is wrong:");
		any = true;
		print_note(v, o);
	}
}

/* The last records that say that something was not as it should be */
static void print_trouble(const struct view *v)
{
	struct trace_record last[SHOW_RECORDS], r;
	unsigned int n = 0;
	char line[256], when[64];

	trace_last(v->t, LAST_RECORDS);
	while (trace_next(v->t, &r))
		if (trace_kind(r.kind)->severity >= TRACE_WARNING)
			last[n++ % SHOW_RECORDS] = r;
	if (n)
		puts("  what went wrong last:");
	for (unsigned int i = n > SHOW_RECORDS ? n - SHOW_RECORDS : 0; i < n; i++) {
		const struct trace_record *l = &last[i % SHOW_RECORDS];

		trace_text(l, line, sizeof(line));
		printf("    %s: %s\n", ago(v, l->time, when), line);
	}
}

/* --- a process -------------------------------------------------------------------- */

/* "State" and "TracerPid" of /proc/PID/status */
static void read_status(int pid, char *state, long *tracer)
{
	char path[40], line[128];
	FILE *f;

	*state = '?';
	*tracer = 0;
	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "State:\t", 7))
			*state = line[7];
		else if (!strncmp(line, "TracerPid:\t", 11))
			*tracer = strtol(line + 11, NULL, 10);
	}
	if (f)
		fclose(f);
}

static void print_process(int pid)
{
	char state;
	long tracer;

	read_status(pid, &state, &tracer);
	if (state == 'T')
		fputs(", stopped by a signal", stdout);
	else if (state == 't')
		printf(", held by a debugger (pid %ld)", tracer);
	else if (state == 'R')
		fputs(", running", stdout);
	else if (state == 'Z')
		fputs(", has ended, and its parent has not looked", stdout);
}

static void print_objects(const struct view *v)
{
	const struct trace_object *o;

	for (size_t k = 0; (o = trace_object(v->t, k)); k++) {
		if (o->kind == TRACE_OBJ_QP)
			print_qp(v, o);
		else if (o->kind == TRACE_OBJ_CQ)
			print_cq(v, o);
		else if (o->kind == TRACE_OBJ_SRQ)
			waits_of(v->t, o, v->now, print_wait, NULL);
		else if (o->kind == TRACE_OBJ_CM_ID)
			print_cm_id(v, o);
	}
	print_notes(v);
	print_trouble(v);
}

/* When the last thing happened that is known */
static uint64_t last_time(struct trace_reader *t)
{
	const struct trace_object *o;
	struct trace_record r;
	uint64_t last = 0, when;

	trace_rewind(t);
	while (trace_next(t, &r))
		last = r.time > last ? r.time : last;
	for (size_t k = 0; (o = trace_object(t, k)); k++) {
		when = o->kind == TRACE_OBJ_CM_ID ? o->cm.last_sent : 0;
		last = when > last ? when : last;
		if (o->kind != TRACE_OBJ_QP)
			continue;
		last = o->qp.out.time > last ? o->qp.out.time : last;
		last = o->qp.in.time > last ? o->qp.in.time : last;
	}
	return last;
}

static void print_segment(struct trace_reader *t, enum segment_life life)
{
	const struct trace_info *i = trace_info(t);
	struct view v = {t, life == SEGMENT_LIVES ? now_ns() : last_time(t)};

	printf("%s (pid %d)", i->program, i->pid);
	if (life == SEGMENT_GONE)
		fputs(", as it was at the end", stdout);
	else
		print_process(i->pid);
	putchar('\n');
	print_objects(&v);
}

static void explain(void *arg, const struct segment *s)
{
	struct query *q = arg;

	if (q->pid ? trace_info(s->t)->pid != q->pid : s->life == SEGMENT_GONE)
		return;
	q->found++;
	print_segment(s->t, s->life);
}

/* A trace or a core file; false: it is neither, which was said */
static bool explain_file(const char *path)
{
	char why[TRACE_WHY_BYTES];
	struct trace_reader *t;

	if (trace_open(path, why, sizeof(why), &t) &&
	    core_open(path, why, sizeof(why), &t)) {
		usage_error("%s: %s", path, why);
		return false;
	}
	print_segment(t, SEGMENT_GONE);
	trace_close(t);
	return true;
}

static int explain_files(int n, char **path)
{
	bool good = true;

	for (int i = 0; i < n; i++)
		good &= explain_file(path[i]);
	return good ? 0 : 1;
}

static bool is_number(const char *s)
{
	return *s && s[strspn(s, "0123456789")] == '\0';
}

static int why_command(int argc, char **argv)
{
	struct query q = {0};

	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		print_help(stdout);
		return 0;
	}
	if (argc > 1 && argv[1][0] == '-')
		return usage_error("unknown option '%s' (see urxe help why)", argv[1]);
	if (argc > 1 && !is_number(argv[1]))
		return explain_files(argc - 1, argv + 1);
	if (argc > 2)
		return usage_error("one process id at most");
	if (argc > 1)
		q.pid = strtol(argv[1], NULL, 10);
	if (argc > 1 && q.pid <= 0)
		return usage_error("'%s' is not a process id", argv[1]);
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
    .summary = "say what programs wait for, and what was wrong",
    .run = why_command,
    .help = print_help,
};
