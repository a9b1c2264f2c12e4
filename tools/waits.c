/*
 * waits.c - see waits.h.
 *
 * A queue waits since its head came to its place or something of it was acknowledged, so a
 * program that is only slow does not wait for long.
 */
#include "tools/waits.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "trace/render.h"

#define WHY_BYTES 256

static const char *word(enum trace_unit unit, uint64_t v)
{
	const char *name = trace_name(unit, v);

	return name ? name : "?";
}

static const char *span(uint64_t since, uint64_t now, char buf[32])
{
	return trace_time_text(since && since < now ? now - since : 0, buf);
}

/* --- requests of a QP ------------------------------------------------------------- */

/* For what, and what would end it */
static void why_send(const struct trace_qp *q, char why[WHY_BYTES])
{
	char ip[64], retries[96] = "";

	trace_ip_text(&q->remote, ip);
	switch ((enum trace_wait)q->sq.wait) {
	case TRACE_WAIT_RNR:
		snprintf(
		    why, WHY_BYTES,
		    "the peer's receive buffer: QP 0x%06x at %s answered \"receiver not "
		    "ready\" %u times in a row (rnr_retry %u%s); ibv_post_recv() there "
		    "would end it",
		    q->peer, ip, q->rnr_naks, q->rnr_retry,
		    q->rnr_retry == 7 ? ": for ever" : "");
		break;
	case TRACE_WAIT_ACK:
		if (q->timeouts)
			snprintf(retries, sizeof(retries),
				 ", %u timeouts, %u of %u retries left", q->timeouts,
				 q->retry_left, q->retry_cnt);
		snprintf(why, WHY_BYTES,
			 "an acknowledge of PSN %u by QP 0x%06x at %s%s%s", q->una,
			 q->peer, ip, retries,
			 q->timeout ? "" : " (timeout 0: for ever)");
		break;
	case TRACE_WAIT_FAULT:
		snprintf(why, WHY_BYTES, "a page fault of its own memory");
		break;
	case TRACE_WAIT_FENCE:
		snprintf(why, WHY_BYTES,
			 "the READs and atomics before it (IBV_SEND_FENCE), of which QP "
			 "0x%06x at %s has not answered PSN %u",
			 q->peer, ip, q->una);
		break;
	case TRACE_WAIT_CREDIT:
		snprintf(why, WHY_BYTES,
			 "the READs and atomics before it: max_rd_atomic is %u, and QP "
			 "0x%06x at %s has not answered PSN %u",
			 q->max_rd_atomic, q->peer, ip, q->una);
		break;
	case TRACE_WAIT_STATE:
		snprintf(why, WHY_BYTES, "the QP to reach RTS: it is in %s",
			 word(TRACE_STATE, q->state));
		break;
	case TRACE_WAIT_NONE:
	case TRACE_WAIT_WINDOW:
	case TRACE_WAIT_PORT:
	case TRACE_N_WAITS:
		snprintf(why, WHY_BYTES, "%s", word(TRACE_WAIT, q->sq.wait));
		break;
	}
}

static void send_waits(const struct trace_object *o, uint64_t now, wait_fn *fn, void *arg)
{
	const struct trace_qp *q = &o->qp;
	struct wait w = {.kind = WAIT_SEND, .object = o, .since = q->sq.since};
	char why[WHY_BYTES], since[32];

	if (!q->sq.posted || q->sq.wait == TRACE_WAIT_NONE)
		return;
	why_send(q, why);
	snprintf(
	    w.text, sizeof(w.text),
	    "QP 0x%06x: %u of %u send requests are not complete%s; the first (%s, wr_id "
	    "0x%" PRIx64 ") has waited %s for %s",
	    o->id, q->sq.posted, q->sq.depth,
	    q->sq.posted >= q->sq.depth ? ": the send queue is full" : "",
	    word(TRACE_WR, q->sq.opcode), q->sq.wr_id, span(q->sq.since, now, since),
	    why);
	fn(arg, &w);
}

/* Receive requests that are there, and for which nothing comes */
static void message_waits(const struct trace_object *o, uint64_t now, wait_fn *fn,
			  void *arg)
{
	const struct trace_qp *q = &o->qp;
	struct wait w = {.kind = WAIT_MESSAGE, .object = o, .since = q->receives_since};
	char since[32];

	if (!q->rq.posted || !q->receives_since)
		return;
	snprintf(w.text, sizeof(w.text),
		 "QP 0x%06x: %u of %u receive requests are posted and have waited %s for "
		 "a message; the first has wr_id 0x%" PRIx64,
		 o->id, q->rq.posted, q->rq.depth, span(w.since, now, since),
		 q->rq.wr_id);
	fn(arg, &w);
}

static void srq_waits(const struct trace_object *o, uint64_t now, wait_fn *fn, void *arg)
{
	struct wait w = {.kind = WAIT_MESSAGE, .object = o, .since = o->srq.since};
	char since[32];

	if (!o->srq.left || !o->srq.since)
		return;
	snprintf(w.text, sizeof(w.text),
		 "SRQ %u: %u of %u receive requests are posted and have waited %s for a "
		 "message; the first has wr_id 0x%" PRIx64,
		 o->id, o->srq.left, o->srq.size, span(w.since, now, since),
		 o->srq.wr_id);
	fn(arg, &w);
}

static void receive_waits(const struct trace_object *o, uint64_t now, wait_fn *fn,
			  void *arg)
{
	const struct trace_qp *q = &o->qp;
	struct wait w = {.kind = WAIT_PEER, .object = o};
	char since[32];

	if (q->rq.wait == TRACE_WAIT_FAULT) {
		w.since = q->rq.since;
		snprintf(w.text, sizeof(w.text),
			 "QP 0x%06x: a request of the peer has waited for a page fault "
			 "here for "
			 "%s",
			 o->id, span(w.since, now, since));
	} else if (q->rnr_since) {
		w.since = q->rnr_since;
		snprintf(
		    w.text, sizeof(w.text),
		    "QP 0x%06x: the peer, QP 0x%06x, was told \"receiver not ready\" %u "
		    "times in %s: no receive request is posted%s, or its memory is "
		    "not there",
		    o->id, q->peer, q->rnr_sent, span(w.since, now, since),
		    q->srq ? " to the SRQ" : "");
	} else {
		return;
	}
	fn(arg, &w);
}

/* --- completions ------------------------------------------------------------------ */

/* "send CQ of QP 0x708000", the first QP that has it */
static void used_by(const struct trace_reader *t, uint32_t cq, char *buf, size_t size)
{
	const struct trace_object *o;

	buf[0] = '\0';
	for (size_t i = 0; (o = trace_object(t, i)); i++) {
		if (o->kind != TRACE_OBJ_QP ||
		    (o->qp.send_cq != cq && o->qp.recv_cq != cq))
			continue;
		snprintf(buf, size, ", the %sCQ of QP 0x%06x,",
			 o->qp.send_cq == o->qp.recv_cq ? ""
			 : o->qp.send_cq == cq		? "send "
							: "receive ",
			 o->id);
		return;
	}
}

static uint64_t unpolled(const struct trace_cq *c)
{
	uint64_t polled = c->polled, produced = c->produced;

	return produced > polled ? produced - polled : 0;
}

/* A CQ that the program polls, and finds empty, while others wait */
static const struct trace_object *polled_in_vain(const struct trace_reader *t,
						 const struct trace_object * not )
{
	const struct trace_object *o, *best = NULL;

	for (size_t i = 0; (o = trace_object(t, i)); i++)
		if (o->kind == TRACE_OBJ_CQ && o != not &&!unpolled(&o->cq) &&
		    o->cq.vain && (!best || o->cq.vain > best->cq.vain))
			best = o;
	return best;
}

static void why_unpolled(const struct trace_reader *t, const struct trace_object *o,
			 char why[WHY_BYTES])
{
	const struct trace_object *other = polled_in_vain(t, o);
	const struct trace_cq *c = &o->cq;

	why[0] = '\0';
	if (c->events && !c->armed)
		snprintf(why, WHY_BYTES,
			 "; its event was given, and nobody armed it again "
			 "(ibv_req_notify_cq)");
	else if (other)
		snprintf(why, WHY_BYTES,
			 "; %sthe program polls CQ %u, %" PRIu64 " times in vain",
			 c->polled || c->vain ? "" : "nobody ever polled it, and ",
			 other->id, (uint64_t)other->cq.vain);
	else if (!c->polled && !c->vain)
		snprintf(why, WHY_BYTES, "; nobody ever polled it");
}

static void poll_waits(const struct trace_reader *t, const struct trace_object *o,
		       uint64_t now, wait_fn *fn, void *arg)
{
	struct wait w = {.kind = WAIT_POLL, .object = o, .since = o->cq.waiting};
	uint64_t left = unpolled(&o->cq);
	char why[WHY_BYTES], user[48], since[32];

	if (!left)
		return;
	why_unpolled(t, o, why);
	used_by(t, o->id, user, sizeof(user));
	snprintf(w.text, sizeof(w.text),
		 "CQ %u%s has %" PRIu64 " of %u completions that %s not polled for %s%s",
		 o->id, user, left, o->cq.size, left == 1 ? "was" : "were",
		 span(w.since, now, since), why);
	fn(arg, &w);
}

/* --- all -------------------------------------------------------------------------- */

void waits_of(const struct trace_reader *t, const struct trace_object *o, uint64_t now,
	      wait_fn *fn, void *arg)
{
	if (o->kind == TRACE_OBJ_QP) {
		send_waits(o, now, fn, arg);
		receive_waits(o, now, fn, arg);
		message_waits(o, now, fn, arg);
	} else if (o->kind == TRACE_OBJ_SRQ) {
		srq_waits(o, now, fn, arg);
	} else if (o->kind == TRACE_OBJ_CQ) {
		poll_waits(t, o, now, fn, arg);
	} else if (o->kind == TRACE_OBJ_CM_ID) {
		waits_of_cm(o, now, fn, arg);
	}
}

void waits_each(const struct trace_reader *t, uint64_t now, wait_fn *fn, void *arg)
{
	const struct trace_object *o;

	for (size_t i = 0; (o = trace_object(t, i)); i++)
		waits_of(t, o, now, fn, arg);
}
