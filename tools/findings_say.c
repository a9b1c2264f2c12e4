/*
 * findings_say.c - sentences about what the summaries of a trace tell.
 *
 * Must not know: records (findings.c), how sentences are shown.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/findings_internal.h"
#include "trace/render.h"

#define SLOW_NS	    1000000 /* what takes less is not worth a sentence */
#define SLOW_FACTOR 50	    /* the slowest request by the median, to be told */

/* --- sentences about QPs ---------------------------------------------------------- */

/* Why no acknowledge came, as far as the other end tells */
static void why_silent(struct findings *f, const struct qp *q, char *text, size_t size)
{
	const struct qp *p = findings_other_end(f, q);
	char name[96];

	if (!q->n_in)
		findings_append(text, size, " Nothing ever came from the peer.");
	if (!p) {
		findings_append(
		    text, size,
		    " The peer was not traced: it is gone, its address or QPN is wrong, "
		    "or packets are lost on the way.");
		return;
	}
	for (size_t i = 0; i < TRACE_N_DROPS; i++)
		if (p->drop[i].count)
			findings_append(text, size,
					" The peer threw away %" PRIu64 " packets: %s.",
					p->drop[i].count, word(TRACE_DROP, i));
	if (p->failed)
		findings_append(text, size, " The peer's QP 0x%06x had failed itself.",
				p->key.qpn);
	else if (p->state < 2) /* RTR */
		findings_append(text, size,
				" The peer's QP 0x%06x was in %s, not ready to receive.",
				p->key.qpn, word(TRACE_STATE, p->state));
	else if (trace_info(f->t[p->key.from])->end == TRACE_RUNNING)
		findings_append(text, size,
				" %s, its peer, did not end in order: killed?",
				findings_who(f, (int)p->key.from, name));
}

static void why_failed(struct findings *f, const struct qp *q, char *text, size_t size)
{
	const char *status = word(TRACE_STATUS, q->status);
	char time[32];

	if (!strcmp(status, "RETRY_EXC_ERR")) {
		findings_append(text, size,
				" No acknowledge came in %" PRIu64
				" timeouts (%s of silence).",
				q->timer.count, trace_time_text(q->timer.ns, time));
		why_silent(f, q, text, size);
	} else if (!strcmp(status, "RNR_RETRY_EXC_ERR"))
		findings_append(
		    text, size,
		    " The peer had no receive request for it and answered so %" PRIu64
		    " times in %s; rnr_retry is %u. Post receives before the peer "
		    "sends, or set rnr_retry to 7.",
		    q->rnr.count, trace_time_text(q->rnr.ns, time), q->rnr_retry);
	else if (!strcmp(status, "REM_ACCESS_ERR"))
		findings_append(text, size,
				" The peer refused the access: rkey, range, or the right "
				"IBV_ACCESS_REMOTE_* of MR or QP is missing there.");
	else if (!strcmp(status, "LOC_PROT_ERR"))
		findings_append(
		    text, size,
		    " A buffer of its own is not inside the MR of its lkey, or the "
		    "MR does not allow the access.");
	else if (!strcmp(status, "LOC_LEN_ERR") || !strcmp(status, "REM_INV_REQ_ERR"))
		findings_append(
		    text, size,
		    " A message was longer than the receive request that took it, "
		    "or the request is not allowed on this QP.");
}

static void say_failed(struct findings *f, const struct qp *q)
{
	struct finding *x;
	char name[96];

	if (!q->failed)
		return;
	x = findings_say(f, FINDING_FAILED, (int)q->key.from, q->failed,
			 "QP 0x%06x of %s failed: %s (%s).", q->key.qpn,
			 findings_who(f, (int)q->key.from, name),
			 word(TRACE_STATUS, q->status),
			 word(TRACE_CAUSE, q->failed_cause));
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_qp_failed;
	x->cost = q->flushed.count;
	why_failed(f, q, x->text, sizeof(x->text));
	if (q->flushed.count)
		findings_append(x->text, sizeof(x->text),
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
		x = findings_say(
		    f, FINDING_FAILED, (int)q->key.from, q->error[i].first,
		    "%" PRIu64 " request%s of QP 0x%06x of %s completed with %s.",
		    q->error[i].count, plural(q->error[i].count), q->key.qpn,
		    findings_who(f, (int)q->key.from, name), word(TRACE_STATUS, i));
		x->qpn = q->key.qpn;
		x->kind = TRACE_KIND_completion_error;
	}
}

static void say_rnr(struct findings *f, struct qp *q)
{
	uint64_t now = q->rnr_since ? since(q->rnr_since, f->last) : 0;
	struct qp *p = findings_other_end(f, q);
	char name[96], time[32];
	struct finding *x;

	if (!q->rnr.count)
		return;
	x = findings_say(
	    f, FINDING_SLOW, (int)q->key.from, q->rnr.first,
	    "QP 0x%06x of %s: %" PRIu64 " request%s waited %s for receive buffers of "
	    "the peer, which answered \"receiver not ready\" %" PRIu64 " times.",
	    q->key.qpn, findings_who(f, (int)q->key.from, name), q->rnr_requests,
	    plural(q->rnr_requests), trace_time_text(q->rnr.ns + now, time),
	    q->rnr.count);
	if (now)
		findings_append(x->text, sizeof(x->text), " It still waits at the end.");
	else if (p && p->first_after)
		findings_append(x->text, sizeof(x->text),
				" The peer took its first one at %s of the trace.",
				trace_time_text(since(f->first, p->first_after), time));
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
	x = findings_say(
	    f, FINDING_SLOW, (int)q->key.from, first,
	    "QP 0x%06x of %s sent %" PRIu64 " packet%s again, since packets or their "
	    "answers were lost",
	    q->key.qpn, findings_who(f, (int)q->key.from, name), total, plural(total));
	if (q->timer.count)
		findings_append(x->text, sizeof(x->text),
				"; it noticed %" PRIu64
				" of the losses by timeout only, which "
				"took %s.",
				q->timer.count, trace_time_text(q->timer.ns, time));
	else
		findings_append(x->text, sizeof(x->text),
				"; the peer noticed each at once.");
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_packet_again;
	x->cost = q->timer.ns;
}

/* Half of the completed requests took less. */
static uint64_t median(const struct qp *q)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < 64; i++) {
		n += q->latency[i];
		if (2 * n >= q->completed)
			return 1ull << i;
	}
	return 0;
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
	    q->slowest.ns < SLOW_FACTOR * m)
		return;
	x = findings_say(
	    f, FINDING_SLOW, (int)q->key.from, q->slowest.time,
	    "The slowest of %" PRIu64 " requests of QP 0x%06x of %s, %s wr_id 0x%" PRIx64
	    ", took %s; half of them took less than %s.",
	    q->completed, q->key.qpn, findings_who(f, (int)q->key.from, name),
	    word(TRACE_WR, q->slowest.opcode), q->slowest.wr_id,
	    trace_time_text(q->slowest.ns, time), trace_time_text(2 * m, half));
	for (int i = 0; i < N_WAITS; i++)
		if (q->slowest.waited[i] > most) {
			most = q->slowest.waited[i];
			why = i;
		}
	if (most)
		findings_append(x->text, sizeof(x->text), " It waited %s %s.",
				trace_time_text(most, time), wait[why]);
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_post_send;
	x->cost = q->slowest.ns / 2;
}

static void say_unfinished(struct findings *f, const struct qp *q)
{
	uint64_t left = q->posted - q->done;
	const struct open *o;
	char name[96], time[32];
	struct finding *x;

	/* what is posted without a completion is done with the next that has one */
	if (!left || q->failed || !q->open)
		return;
	o = &q->open[q->done % OPEN_REQUESTS];
	x = findings_say(
	    f, since(o->time, f->last) > SLOW_NS ? FINDING_SLOW : FINDING_NOTE,
	    (int)q->key.from, o->time,
	    "QP 0x%06x of %s has %" PRIu64 " request%s without a completion; the "
	    "first, %s wr_id 0x%" PRIx64 ", was posted %s before the end.",
	    q->key.qpn, findings_who(f, (int)q->key.from, name), left, plural(left),
	    word(TRACE_WR, o->opcode), o->wr_id,
	    trace_time_text(since(o->time, f->last), time));
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_post_send;
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
	x = findings_say(f, ns >= SLOW_NS / 10 ? FINDING_SLOW : FINDING_NOTE,
			 (int)mr->key.from, at ? at : mr->upgrade.first,
			 "MR 0x%x of %s: %" PRIu64 " page fault%s took %s.", mr->key.mr,
			 findings_who(f, (int)mr->key.from, name), n, plural(n),
			 trace_time_text(ns, time));
	if (mr->first.count + mr->upgrade.count)
		findings_append(
		    x->text, sizeof(x->text),
		    " A prefetch for writing before the first access would have saved "
		    "%" PRIu64 " of them (%s).",
		    mr->first.count + mr->upgrade.count,
		    trace_time_text(mr->first.ns + mr->upgrade.ns, saved));
	if (mr->again.count)
		findings_append(
		    x->text, sizeof(x->text),
		    " %" PRIu64 " (%s) brought back pages that had been lost to %s.",
		    mr->again.count, trace_time_text(mr->again.ns, saved),
		    !mr->evict.count ? "invalidations"
		    : !mr->lost	     ? "the bound on present pages"
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
	x = findings_say(
	    f, FINDING_FAILED, (int)mr->key.from, mr->failed.first,
	    "%" PRIu64 " page fault%s of MR 0x%x of %s failed (%s): memory that is not "
	    "mapped, or may not be accessed so.",
	    mr->failed.count, plural(mr->failed.count), mr->key.mr,
	    findings_who(f, (int)mr->key.from, name),
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
		findings_say(
		    f, FINDING_FAILED, i, f->last,
		    "CQ %u of %s overran: more than %u completions, and nobody polled.",
		    o->id, findings_who(f, i, name), o->cq.size);
	else if (produced > polled && !o->gone && o->cq.watched)
		findings_say(f, FINDING_NOTE, i, f->last,
			     "CQ %u of %s: %" PRIu64 " completion%s never polled.", o->id,
			     findings_who(f, i, name), produced - polled,
			     produced - polled == 1 ? " was" : "s were");
}

static void say_process(struct findings *f, int i)
{
	const struct trace_info *info = trace_info(f->t[i]);
	const struct trace_object *o;
	char name[96];

	findings_who(f, i, name);
	if (info->end == TRACE_RUNNING)
		findings_say(
		    f, FINDING_NOTE, i, f->last,
		    "%s had not ended in order when this was read: it still ran, was "
		    "killed, or crashed.",
		    name);
	if (info->overwritten)
		findings_say(
		    f, FINDING_NOTE, i, f->first,
		    "The first %" PRIu64
		    " records of %s are not there: the ring was full. --trace-size makes "
		    "it larger.",
		    info->overwritten, name);
	if (info->lost + trace_unreadable(f->t[i]))
		findings_say(f, FINDING_NOTE, i, f->first,
			     "%" PRIu64 " records of %s could not be written or read.",
			     info->lost + trace_unreadable(f->t[i]), name);
	if (!info->full)
		findings_say(
		    f, FINDING_NOTE, i, f->first,
		    "%s was not traced in full: packets and requests that went well are "
		    "missing (urxe run --trace).",
		    name);
	for (size_t k = 0; (o = trace_object(f->t[i], k)); k++)
		if (o->kind == TRACE_OBJ_CQ)
			say_queue(f, i, o);
}

static void say_strays(struct findings *f)
{
	for (size_t i = 0; i < TRACE_N_DROPS; i++)
		if (f->stray[i].count)
			findings_say(f, FINDING_NOTE, f->stray_from, f->stray[i].first,
				     "%" PRIu64 " packet%s thrown away: %s.",
				     f->stray[i].count,
				     f->stray[i].count == 1 ? " was" : "s were",
				     word(TRACE_DROP, i))
			    ->kind = TRACE_KIND_drop;
}

/* What can be said of any trace, so that the list is never empty */
static void say_any(struct findings *f)
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
	trace_time_text(since(f->first, f->last), time);
	if (!done) {
		findings_say(f, FINDING_NOTE, 0, f->first,
			     "No send request was seen to complete in %s.", time);
		return;
	}
	findings_say(f, FINDING_NOTE, 0, f->first,
		     "%" PRIu64
		     " send request%s completed in %s; at each QP half of them took less "
		     "than %s from post to completion, the slowest %s.",
		     done, plural(done), time, trace_time_text(2 * m, half),
		     trace_time_text(slowest, (char[32]){0}));
}

void findings_say_all(struct findings *f)
{
	struct qp *q, *next_qp;
	struct mr *mr, *next_mr;

	say_any(f);
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
}
