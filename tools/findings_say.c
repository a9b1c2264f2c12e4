/*
 * findings_say.c - what was found, in sentences; see findings.h.
 *
 * Must not know: records, beyond those that are sentences as they stand.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/findings_internal.h"
#include "tools/segments.h"
#include "tools/waits.h"
#include "trace/render.h"

#define SLOW_NS	    1000000 /* what takes less is not worth a sentence */
#define SLOW_FACTOR 50	    /* the slowest request by the median, to be told */
#define ALIKE	    4	    /* sentences that are alike */

const char *finding_level_name(enum finding_level level)
{
	static const char *const name[] = {"failed", "slow", "note"};

	return name[level];
}

/* --- sentences -------------------------------------------------------------------- */

/* Room for one more sentence; one that is nowhere if there is no memory */
static struct finding *next(struct findings *f)
{
	size_t want = f->room ? 2 * f->room : 16;
	struct finding *x = &f->nowhere;

	if (f->n_list == f->room) {
		struct finding *more = realloc(f->list, want * sizeof(*more));

		if (more) {
			f->list = more;
			f->room = want;
		}
	}
	if (f->n_list < f->room)
		x = &f->list[f->n_list++];
	memset(x, 0, sizeof(*x));
	return x;
}

static struct finding *say(struct findings *f, enum finding_level level, int from,
			   uint64_t time, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static struct finding *say(struct findings *f, enum finding_level level, int from,
			   uint64_t time, const char *fmt, ...)
{
	struct finding *x = next(f);
	va_list ap;

	x->level = level;
	x->from = from;
	x->time = time;
	va_start(ap, fmt);
	vsnprintf(x->text, sizeof(x->text), fmt, ap);
	va_end(ap);
	return x;
}

static void append(char *text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, size - n, fmt, ap);
	va_end(ap);
}

static const char *who(const struct findings *f, int from, char buf[96])
{
	const struct trace_info *i = trace_info(f->t[from]);

	snprintf(buf, 96, "%s (pid %d)", i->program, i->pid);
	return buf;
}

static const char *word(enum trace_unit unit, uint64_t v)
{
	const char *name = trace_name(unit, v);

	return name ? name : "unknown";
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* The QP at the other end, if its process was traced too */
static struct qp *other_end(struct findings *f, const struct qp *q)
{
	struct qp *p, *next;

	HASH_ITER (hh, f->qp, p, next)
		if (q->peer && p->key.qpn == q->peer &&
		    (p->peer == q->key.qpn || !p->peer) && p != q)
			return p;
	return NULL;
}

/* --- sentences about QPs ---------------------------------------------------------- */

/* Why no acknowledge came, as far as the other end tells */
static void why_silent(struct findings *f, const struct qp *q, char *text, size_t size)
{
	const struct qp *p = other_end(f, q);
	char name[96];

	if (!q->n_in)
		append(text, size, " Nothing ever came from the peer.");
	if (!p) {
		append(
		    text, size,
		    " The peer was not traced: it is gone, its address or QPN is wrong, "
		    "or packets are lost on the way.");
		return;
	}
	for (size_t i = 0; i < TRACE_N_DROPS; i++)
		if (p->drop[i].count)
			append(text, size,
			       " The peer threw away %" PRIu64 " packets: %s.",
			       p->drop[i].count, word(TRACE_DROP, i));
	if (p->failed)
		append(text, size, " The peer's QP 0x%06x had failed itself.",
		       p->key.qpn);
	else if (p->state < 2) /* RTR */
		append(text, size,
		       " The peer's QP 0x%06x was in %s, not ready to receive.",
		       p->key.qpn, word(TRACE_STATE, p->state));
	else if (trace_info(f->t[p->key.from])->end == TRACE_RUNNING)
		append(text, size, " %s, its peer, did not end in order: killed?",
		       who(f, (int)p->key.from, name));
}

/* A note about the QP @qpn of trace @i, NULL: none */
static const struct trace_object *note_about(const struct findings *f, int i,
					     uint32_t qpn)
{
	const struct trace_object *o;

	for (size_t k = 0; (o = trace_object(f->t[i], k)); k++)
		if (o->kind == TRACE_OBJ_NOTE && o->note.about == TRACE_OBJ_QP &&
		    o->note.about_id == qpn)
			return o;
	return NULL;
}

/* A note, without what the sentence about its QP has said already */
static const char *note_text(const struct trace_object *note, const struct qp *q)
{
	const char *text = note->note.text, *status = word(TRACE_STATUS, q->status);
	char begin[80];

	snprintf(begin, sizeof(begin), "QP 0x%06x: ", q->key.qpn);
	if (!strncmp(text, begin, strlen(begin)))
		text += strlen(begin);
	snprintf(begin, sizeof(begin), "IBV_WC_%s: ", status);
	if (!strncmp(text, begin, strlen(begin)))
		text += strlen(begin);
	return text;
}

/* What the process itself noted, which knows best, or what the other end tells */
static void why_failed(struct findings *f, const struct qp *q, char *text, size_t size)
{
	const struct trace_object *note = note_about(f, (int)q->key.from, q->key.qpn);
	const char *status = word(TRACE_STATUS, q->status);
	char time[32];

	if (note) {
		append(text, size, " %s.", note_text(note, q));
		return;
	}
	if (!strcmp(status, "RETRY_EXC_ERR")) {
		append(text, size,
		       " No acknowledge came in %" PRIu64 " timeouts (%s of silence).",
		       q->timer.count, trace_time_text(q->timer.ns, time));
		why_silent(f, q, text, size);
	} else if (!strcmp(status, "RNR_RETRY_EXC_ERR"))
		append(text, size,
		       " The peer had no receive request for it and answered so %" PRIu64
		       " times in %s; rnr_retry is %u. Post receives before the peer "
		       "sends, or set rnr_retry to 7.",
		       q->rnr.count, trace_time_text(q->rnr.ns, time), q->rnr_retry);
	else if (!strcmp(status, "REM_ACCESS_ERR"))
		append(text, size,
		       " The peer refused the access: rkey, range, or the right "
		       "IBV_ACCESS_REMOTE_* of MR or QP is missing there.");
	else if (!strcmp(status, "LOC_PROT_ERR"))
		append(text, size,
		       " A buffer of its own is not inside the MR of its lkey, or the "
		       "MR does not allow the access.");
	else if (!strcmp(status, "LOC_LEN_ERR") || !strcmp(status, "REM_INV_REQ_ERR"))
		append(text, size,
		       " A message was longer than the receive request that took it, "
		       "or the request is not allowed on this QP.");
}

static void say_failed(struct findings *f, const struct qp *q)
{
	struct finding *x;
	char name[96];

	if (!q->failed)
		return;
	x = say(f, FINDING_FAILED, (int)q->key.from, q->failed,
		"QP 0x%06x of %s failed: %s%s%s.", q->key.qpn,
		who(f, (int)q->key.from, name),
		q->status ? word(TRACE_STATUS, q->status) : "", q->status ? ", " : "",
		word(TRACE_CAUSE, q->failed_cause));
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_qp_failed;
	x->cost = q->flushed.count;
	why_failed(f, q, x->text, sizeof(x->text));
	if (q->flushed.count)
		append(x->text, sizeof(x->text),
		       " %" PRIu64 " more request%s of the QP were flushed.",
		       q->flushed.count, plural(q->flushed.count));
}

/* Completions in error of QPs that did not fail by them, or by another status */
static void say_errors(struct findings *f, const struct qp *q)
{
	struct finding *x;
	char name[96];

	for (uint32_t i = 0; i < 32; i++) {
		if (!q->error[i].count || (q->failed && q->status == i))
			continue;
		x = say(f, FINDING_FAILED, (int)q->key.from, q->error[i].first,
			"%" PRIu64 " request%s of QP 0x%06x of %s completed with %s.",
			q->error[i].count, plural(q->error[i].count), q->key.qpn,
			who(f, (int)q->key.from, name), word(TRACE_STATUS, i));
		x->qpn = q->key.qpn;
		x->kind = TRACE_KIND_completion_error;
	}
}

/* Did the other end say "receiver not ready" because its pages were missing? */
static bool lacked_pages(const struct findings *f, const struct qp *p)
{
	const struct trace_object *note =
	    p ? note_about(f, (int)p->key.from, p->key.qpn) : NULL;

	return note && note->note.cause == TRACE_NOTE_FAULT;
}

/* Is all that a QP's process did in the trace? */
static bool is_full(const struct findings *f, const struct qp *q)
{
	const struct trace_info *i = trace_info(f->t[q->key.from]);

	return i->full && !i->full_from && !i->full_until && !i->overwritten;
}

static void say_rnr(struct findings *f, struct qp *q)
{
	uint64_t now = findings_span(q->rnr_since, f->last);
	uint64_t from = q->done > q->rnr_until ? q->done : q->rnr_until;
	uint64_t n = q->rnr_requests + (now && q->posted > from ? q->posted - from : 0);
	struct qp *p = other_end(f, q);
	char name[96], time[32], requests[48];
	struct finding *x;

	if (!q->rnr.count)
		return;
	/* without a full trace nobody knows how many they were */
	snprintf(requests, sizeof(requests), "%" PRIu64 " request%s", n, plural(n));
	x = say(f, FINDING_SLOW, (int)q->key.from, q->rnr.first,
		"QP 0x%06x of %s: %s waited %s for %s of the peer, which "
		"answered \"receiver not ready\" %" PRIu64 " time%s.",
		q->key.qpn, who(f, (int)q->key.from, name), n ? requests : "its requests",
		trace_time_text(q->rnr.ns + now, time),
		lacked_pages(f, p) ? "pages" : "receive buffers", q->rnr.count,
		plural(q->rnr.count));
	if (now)
		append(x->text, sizeof(x->text), " It still waits at the end.%s",
		       p && p->rnr_sent.count && !p->posted_after && is_full(f, p) &&
			       !lacked_pages(f, p)
			   ? " The peer has posted none."
			   : "");
	else if (p && p->posted_after && !lacked_pages(f, p))
		append(x->text, sizeof(x->text),
		       " The peer posted its first one at %s of the trace.",
		       trace_time_text(findings_span(f->first, p->posted_after), time));
	else if (p && p->first_after && !lacked_pages(f, p))
		append(x->text, sizeof(x->text),
		       " The peer took its first one at %s of the trace.",
		       trace_time_text(findings_span(f->first, p->first_after), time));
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_nak_in;
	x->cost = q->rnr.ns + now;
}

static void say_again(struct findings *f, const struct qp *q)
{
	uint64_t total = 0, first = 0;
	char name[96], time[32];
	struct finding *x;

	for (size_t i = TRACE_WHY_RETRY_TIMEOUT; i <= TRACE_WHY_RETRY_IMPLIED; i++) {
		total += q->again[i].count;
		if (q->again[i].count && (!first || q->again[i].first < first))
			first = q->again[i].first;
	}
	if (!total)
		return;
	x = say(f, FINDING_SLOW, (int)q->key.from, first,
		"QP 0x%06x of %s sent %" PRIu64 " packet%s again, since packets or their "
		"answers were lost",
		q->key.qpn, who(f, (int)q->key.from, name), total, plural(total));
	if (q->timer.count)
		append(x->text, sizeof(x->text),
		       "; it noticed %" PRIu64 " of the losses by timeout only, which "
		       "took %s.",
		       q->timer.count, trace_time_text(q->timer.ns, time));
	else
		append(x->text, sizeof(x->text), "; the peer noticed each at once.");
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_packet_again;
	x->cost = q->timer.ns;
}

/* Half of the completed requests took at most this. */
static uint64_t median(const struct qp *q)
{
	uint64_t n = 0, most;

	for (unsigned int i = 0; i < 63; i++) {
		n += q->latency[i];
		most = 2ull << i;
		if (2 * n >= q->completed)
			return most < q->slowest.ns ? most : q->slowest.ns;
	}
	return q->slowest.ns;
}

static void say_slowest(struct findings *f, const struct qp *q)
{
	static const char *const wait[] = {"for receive buffers of the peer",
					   "for acknowledges that did not come",
					   "in page faults of this process"};
	char name[96], time[32], half[32];
	uint64_t m = median(q), most = 0;
	struct finding *x;
	int why = 0;

	if (q->completed < 8 || q->slowest.ns < SLOW_NS ||
	    q->slowest.ns < SLOW_FACTOR / 2 * m)
		return;
	x = say(f, FINDING_SLOW, (int)q->key.from, q->slowest.time,
		"The slowest of %" PRIu64
		" requests of QP 0x%06x of %s, %s wr_id 0x%" PRIx64
		", took %s; half of them took %s or less.",
		q->completed, q->key.qpn, who(f, (int)q->key.from, name),
		word(TRACE_WR, q->slowest.opcode), q->slowest.wr_id,
		trace_time_text(q->slowest.ns, time), trace_time_text(m, half));
	for (int i = 0; i < N_WAITS; i++)
		if (q->slowest.waited[i] > most) {
			most = q->slowest.waited[i];
			why = i;
		}
	if (most)
		append(x->text, sizeof(x->text), " It waited %s %s.",
		       trace_time_text(most, time), wait[why]);
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_post_send;
	x->cost = q->slowest.ns / 2;
}

/* The first request that asks for a completion and has none; how many there are */
static uint64_t unfinished(const struct qp *q, const struct open **first)
{
	uint64_t n = 0;

	for (uint64_t i = q->posted; q->open && i-- > q->done;)
		if (q->open[i % OPEN_REQUESTS].signaled) {
			*first = &q->open[i % OPEN_REQUESTS];
			n++;
		}
	return n;
}

static void say_unfinished(struct findings *f, const struct qp *q)
{
	const struct open *o = NULL;
	uint64_t left = unfinished(q, &o);
	char name[96], time[32];
	struct finding *x;

	if (!left || q->failed)
		return;
	x = say(f,
		findings_span(o->time, f->last) > SLOW_NS ? FINDING_SLOW : FINDING_NOTE,
		(int)q->key.from, o->time,
		"QP 0x%06x of %s has %" PRIu64 " request%s without a completion; the "
		"first, %s wr_id 0x%" PRIx64 ", was posted %s before the end.",
		q->key.qpn, who(f, (int)q->key.from, name), left, plural(left),
		word(TRACE_WR, o->opcode), o->wr_id,
		trace_time_text(findings_span(o->time, f->last), time));
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_begin_send;
}

/* --- sentences about MRs ---------------------------------------------------------- */

static void say_faults(struct findings *f, const struct mr *mr)
{
	uint64_t n = mr->first.count + mr->again.count + mr->upgrade.count;
	uint64_t ns = mr->first.ns + mr->again.ns + mr->upgrade.ns;
	uint64_t at = mr->first.count ? mr->first.first : mr->again.first;
	char name[96], time[32], saved[32];
	struct finding *x;

	if (!n)
		return;
	x = say(f, ns >= SLOW_NS / 10 ? FINDING_SLOW : FINDING_NOTE, (int)mr->key.from,
		at ? at : mr->upgrade.first,
		"MR 0x%x of %s: %" PRIu64 " page fault%s took %s.", mr->key.mr,
		who(f, (int)mr->key.from, name), n, plural(n), trace_time_text(ns, time));
	if (mr->first.count + mr->upgrade.count)
		append(x->text, sizeof(x->text),
		       " A prefetch for writing before the first access would have saved "
		       "%" PRIu64 " of them (%s).",
		       mr->first.count + mr->upgrade.count,
		       trace_time_text(mr->first.ns + mr->upgrade.ns, saved));
	if (mr->again.count)
		append(x->text, sizeof(x->text),
		       " %" PRIu64 " (%s) brought back pages that had been lost to %s.",
		       mr->again.count, trace_time_text(mr->again.ns, saved),
		       !mr->evict.count ? "invalidations"
		       : !mr->lost	? "the bound on present pages"
					: "invalidations and the bound on present pages");
	x->mr = mr->key.mr;
	x->kind = TRACE_KIND_fault;
	x->cost = ns;
}

static void say_mr(struct findings *f, const struct mr *mr)
{
	struct finding *x;
	char name[96];

	say_faults(f, mr);
	if (!mr->failed.count)
		return;
	x = say(f, FINDING_FAILED, (int)mr->key.from, mr->failed.first,
		"%" PRIu64
		" page fault%s of MR 0x%x of %s failed (%s): memory that is not "
		"mapped, or may not be accessed so.",
		mr->failed.count, plural(mr->failed.count), mr->key.mr,
		who(f, (int)mr->key.from, name),
		strerrorname_np(-mr->result) ? strerrorname_np(-mr->result) : "?");
	x->mr = mr->key.mr;
	x->kind = TRACE_KIND_fault_failed;
}

/* --- sentences about processes ---------------------------------------------------- */

static void say_queue(struct findings *f, int i, const struct trace_object *o)
{
	uint64_t polled = o->cq.polled, produced = o->cq.produced;
	char name[96];

	if (o->cq.overrun)
		say(f, FINDING_FAILED, i, f->last,
		    "CQ %u of %s overran: more than %u completions, and nobody polled.",
		    o->id, who(f, i, name), o->cq.size);
	else if (produced > polled && !o->gone && o->cq.watched)
		say(f, FINDING_NOTE, i, f->last,
		    "CQ %u of %s: %" PRIu64 " completion%s never polled.", o->id,
		    who(f, i, name), produced - polled,
		    produced - polled == 1 ? " was" : "s were");
}

/* What a process noted itself, unless it is the reason why a QP failed: that says it. */
static void say_note(struct findings *f, int i, const struct trace_object *o)
{
	struct qp_key key = {(uint32_t)i, o->note.about_id};
	enum finding_level level = FINDING_FAILED;
	struct finding *x;
	struct qp *q = NULL;
	char name[96];

	if (o->note.about == TRACE_OBJ_QP)
		HASH_FIND(hh, f->qp, &key, sizeof(key), q);
	if (q && q->failed)
		return;
	if (o->note.cause == TRACE_NOTE_FAULT)
		level = FINDING_NOTE;
	else if (o->note.cause == TRACE_NOTE_NOT_READY ||
		 o->note.cause == TRACE_NOTE_LOST || o->note.cause == TRACE_NOTE_EVENTS)
		level = FINDING_SLOW;
	x = say(f, level, i, timeline_time(f->tl, i, o->created), "%s: %s.",
		who(f, i, name), o->note.text);
	x->kind = TRACE_KIND_note;
}

/* Of a process of another host, nothing is known but that it had not ended in order. */
static void say_end(struct findings *f, int i, const struct trace_info *info)
{
	char name[96], host[sizeof(info->host)] = "";

	who(f, i, name);
	gethostname(host, sizeof(host) - 1);
	if (info->end != TRACE_RUNNING || segment_process_lives(info))
		return;
	if (strcmp(host, info->host) || !info->real)
		say(f, FINDING_NOTE, i, f->last,
		    "%s had not ended in order when its trace was read: it still ran, "
		    "was "
		    "killed, or crashed.",
		    name);
	else
		say(f, FINDING_FAILED, i, f->last,
		    "%s is gone and had not ended in order: it was killed, crashed, or "
		    "left "
		    "by _exit(2).",
		    name);
}

/* ", and 12.5 ppm that it ran too fast," */
static const char *drift_text(double rate, char buf[48])
{
	snprintf(buf, 48, ", and %.1f ppm that it ran too %s,",
		 (rate < 0 ? -rate : rate) * 1e6, rate < 0 ? "slowly" : "fast");
	return buf;
}

/* struct awaited - where sentences about the connections of trace @i go */
struct awaited {
	struct findings *f;
	int i;
};

static void say_awaited(void *arg, const struct wait *w)
{
	const struct awaited *a = arg;
	uint64_t since = timeline_time(a->f->tl, a->i, w->since);
	uint64_t ns = findings_span(since, a->f->last);
	struct finding *x;
	char name[96];

	x = say(a->f, ns > SLOW_NS ? FINDING_SLOW : FINDING_NOTE, a->i, since, "%s: %s.",
		who(a->f, a->i, name), w->text);
	x->kind = TRACE_KIND_cm_state;
	x->cost = ns;
}

/* What connections waited for at the end of the trace */
static void say_cm_id(struct findings *f, int i, const struct trace_object *o)
{
	struct awaited a = {f, i};

	waits_of_cm(o, timeline_own_time(f->tl, i, f->last), say_awaited, &a);
}

/* How the clock of trace @i was fitted to that of another host, once for each host */
static void say_clock(struct findings *f, int i)
{
	const struct timeline_clock *c = timeline_clock(f->tl, i);
	const char *host = trace_info(f->t[i])->host;
	const char *other = trace_info(f->t[c->against])->host;
	char moved[32], margin[32];

	if (c->host != i)
		return;
	trace_time_text((uint64_t)(c->moved < 0 ? -c->moved : c->moved), moved);
	trace_time_text((uint64_t)(c->margin < 0 ? -c->margin : c->margin), margin);
	if (c->known == CLOCKS_WALL)
		say(f, FINDING_NOTE, i, f->first,
		    "No packet that %s and %s exchanged is in the traces of both: their "
		    "wall clocks are believed, and may be wrong.",
		    host, other);
	else if (c->known == CLOCKS_ONE_WAY)
		say(f, FINDING_NOTE, i, f->first,
		    "Packets between %s and %s are in the traces of both one way only: "
		    "the "
		    "clock of %s was moved by %s, so that none arrives before it left, "
		    "and "
		    "may be wrong by more.",
		    host, other, host, c->moved ? moved : "nothing");
	else if (c->known == CLOCKS_BOTH && c->margin < 0)
		say(f, FINDING_NOTE, i, f->first,
		    "The clocks of %s and %s cannot be aligned better than to %s: one of "
		    "them was set meanwhile.",
		    host, other, margin);
	else if (c->known == CLOCKS_BOTH)
		say(f, FINDING_NOTE, i, f->first,
		    "The clock of %s was moved by %s%s%s to that of %s, by packets both "
		    "ways; it may be wrong by %s.",
		    host, c->moved < 0 ? "-" : "", moved,
		    c->rate != 0 ? drift_text(c->rate, (char[48]){0}) : "", other,
		    margin);
}

static void say_process(struct findings *f, int i)
{
	const struct trace_info *info = trace_info(f->t[i]);
	const struct trace_object *o;
	char name[96];

	who(f, i, name);
	say_end(f, i, info);
	if (i)
		say_clock(f, i);
	if (info->overwritten)
		say(f, FINDING_NOTE, i, f->first,
		    "The first %" PRIu64
		    " records of %s are not there: the ring was full. --trace-size makes "
		    "it larger.",
		    info->overwritten, name);
	if (info->lost + trace_unreadable(f->t[i]))
		say(f, FINDING_NOTE, i, f->first,
		    "%" PRIu64 " records of %s could not be written or read.",
		    info->lost + trace_unreadable(f->t[i]), name);
	if (!info->full)
		say(f, FINDING_NOTE, i, f->first,
		    "%s was not traced in full: packets and requests that went well are "
		    "missing (urxe run --trace, urxe trace start).",
		    name);
	for (size_t k = 0; (o = trace_object(f->t[i], k)); k++)
		if (o->kind == TRACE_OBJ_CQ)
			say_queue(f, i, o);
		else if (o->kind == TRACE_OBJ_CM_ID)
			say_cm_id(f, i, o);
		else if (o->kind == TRACE_OBJ_NOTE)
			say_note(f, i, o);
}

static void say_strays(struct findings *f)
{
	for (size_t i = 0; i < TRACE_N_DROPS; i++)
		if (f->stray[i].count)
			say(f, FINDING_NOTE, f->stray_from, f->stray[i].first,
			    "%" PRIu64 " packet%s thrown away: %s.", f->stray[i].count,
			    f->stray[i].count == 1 ? " was" : "s were",
			    word(TRACE_DROP, i))
			    ->kind = TRACE_KIND_drop;
}

/* What can be said of any trace, so that the list is never empty */
static void say_all(struct findings *f)
{
	char time[32], half[32];
	uint64_t done = 0, slowest = 0, m = 0, n;
	struct qp *q, *next;

	HASH_ITER (hh, f->qp, q, next) {
		done += q->completed;
		n = median(q);
		m = n > m ? n : m;
		slowest = q->slowest.ns > slowest ? q->slowest.ns : slowest;
	}
	trace_time_text(findings_span(f->first, f->last), time);
	if (!done) {
		say(f, FINDING_NOTE, 0, f->first,
		    "No send request was seen to complete in %s.", time);
		return;
	}
	say(f, FINDING_NOTE, 0, f->first,
	    "%" PRIu64 " send request%s completed in %s; at each QP half of them took %s "
	    "or less from post to completion, the slowest %s.",
	    done, plural(done), time, trace_time_text(m, half),
	    trace_time_text(slowest, (char[32]){0}));
}

/* --- the list --------------------------------------------------------------------- */

static int worst_first(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	if (x->cost != y->cost)
		return x->cost > y->cost ? -1 : 1;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return strcmp(x->text, y->text);
}

/* What else is known of an event, beside what its record says */
static const char *event_reason(const struct trace_record *r)
{
	const char *name = word(TRACE_CM_EVENT, r->u.cm_event.event);

	if (r->kind != TRACE_KIND_cm_event)
		return "";
	if (!strcmp(name, "REJECTED"))
		/* IBTA table 105 */
		return r->u.cm_event.status == 8    ? " Nobody listens there."
		       : r->u.cm_event.status == 28 ? " The peer's program refused."
						    : "";
	if (!strcmp(name, "UNREACHABLE"))
		return " Nobody answered.";
	return "";
}

/* Is the event said by a note as well, and better? */
static bool is_noted(const struct findings *f, const struct moment *m)
{
	uint8_t cause = m->r.kind == TRACE_KIND_modify_refused ? TRACE_NOTE_MODIFY
			: m->r.kind == TRACE_KIND_reg_mr       ? TRACE_NOTE_REG_MR
							       : TRACE_N_NOTES;
	const struct trace_object *o;

	for (size_t k = 0; (o = trace_object(f->t[m->from], k)); k++)
		if (o->kind == TRACE_OBJ_NOTE && o->note.cause == cause)
			return true;
	return false;
}

static void say_events(struct findings *f)
{
	for (size_t i = 0; i < f->n_events; i++) {
		const struct moment *m = &f->event[i].m;
		char line[300], name[96];

		if (is_noted(f, m))
			continue;
		trace_text(&m->r, line, sizeof(line));
		say(f, f->event[i].level, m->from, m->time, "%s: %s.%s",
		    who(f, m->from, name), line, event_reason(&m->r))
		    ->kind = m->r.kind;
	}
}

/* What others of the same level and kind have in common */
static const char *alike(uint16_t kind)
{
	switch (kind) {
	case TRACE_KIND_nak_in:
		return "more QPs waited for receive buffers of their peers";
	case TRACE_KIND_packet_again:
		return "more QPs sent packets again";
	case TRACE_KIND_post_send:
		return "more QPs had single requests that were slow";
	case TRACE_KIND_begin_send:
		return "more QPs have requests without a completion";
	case TRACE_KIND_qp_failed:
		return "more QPs failed";
	case TRACE_KIND_fault:
		return "more memory regions had page faults";
	case TRACE_KIND_cm_state:
		return "more CM IDs wait";
	default:
		return "more of this kind";
	}
}

/* Of those that are alike, the first ones; the others are counted in one sentence. */
static void fold(struct findings *f)
{
	uint64_t seen[FINDING_NOTE + 1][TRACE_N_KINDS] = {{0}};
	size_t kept = 0;

	for (size_t i = 0; i < f->n_list; i++) {
		const struct finding *x = &f->list[i];

		if (x->kind && ++seen[x->level][x->kind] > ALIKE)
			continue;
		f->list[kept++] = *x;
	}
	f->n_list = kept;
	for (int level = 0; level <= FINDING_NOTE; level++)
		for (uint16_t kind = 1; kind < TRACE_N_KINDS; kind++)
			if (seen[level][kind] > ALIKE)
				say(f, (enum finding_level)level, 0, f->last,
				    "%" PRIu64 " %s.", seen[level][kind] - ALIKE,
				    alike(kind));
}

const struct finding *findings_list(struct findings *f, size_t *n)
{
	static const struct finding nothing = {.level = FINDING_NOTE,
					       .text = "There is no memory to say more."};
	struct qp *q, *next_qp;
	struct mr *mr, *next_mr;

	f->n_list = 0;
	say_all(f);
	HASH_ITER (hh, f->qp, q, next_qp) {
		say_failed(f, q);
		say_errors(f, q);
		say_rnr(f, q);
		say_again(f, q);
		say_slowest(f, q);
		say_unfinished(f, q);
	}
	HASH_ITER (hh, f->mr, mr, next_mr)
		say_mr(f, mr);
	for (int i = 0; i < f->n; i++)
		say_process(f, i);
	say_strays(f);
	say_events(f);
	*n = 1;
	if (!f->n_list)
		return &nothing;
	qsort(f->list, f->n_list, sizeof(*f->list), worst_first);
	fold(f);
	qsort(f->list, f->n_list, sizeof(*f->list), worst_first);
	*n = f->n_list;
	return f->list;
}
