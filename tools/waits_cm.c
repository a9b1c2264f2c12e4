/*
 * waits_cm.c - what connections wait for, and who is in the way: the peer, its program, or this
 * program, which has not read an event or not answered.
 *
 * Must not know: where the sentences go (waits.h).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/waits.h"
#include "trace/render.h"

#define TEXT_BYTES     320
#define DESTROY_NS     100000000u /* a rdma_destroy_id(3) that takes longer waits */
#define EVENT_REJECTED 8	  /* RDMA_CM_EVENT_REJECTED */

static const char *word(enum trace_unit unit, uint64_t v)
{
	const char *name = trace_name(unit, v);

	return name ? name : "?";
}

static const char *span(uint64_t since, uint64_t now, char buf[32])
{
	return trace_time_text(since && since < now ? now - since : 0, buf);
}

const char *waits_address(const struct trace_ip *ip, uint16_t port, char buf[96])
{
	char text[64];

	trace_ip_text(ip, text);
	snprintf(buf, 96, strchr(text, ':') ? "[%s]:%u" : "%s:%u", text, port);
	return buf;
}

/* "hope ends in 3 s" */
static const char *hope(const struct trace_cm_id *cm, uint64_t now, char buf[64])
{
	char text[32];

	buf[0] = '\0';
	if (cm->give_up > now)
		snprintf(buf, 64, ", hope ends in %s",
			 trace_time_text(cm->give_up - now, text));
	return buf;
}

/* struct told - a sentence, and since when it is so; no text: nothing is waited for */
struct told {
	uint64_t since;
	char text[TEXT_BYTES];
};

static void for_answer(const struct trace_cm_id *cm, uint64_t now, const char *answer,
		       struct told *t)
{
	char time[32], address[96], end[64];

	t->since = cm->first_sent;
	snprintf(t->text, sizeof(t->text),
		 "it has waited %s for %s from %s; %s was sent %u time%s%s%s",
		 span(cm->first_sent, now, time), answer,
		 waits_address(&cm->remote, cm->remote_port, address),
		 word(TRACE_CM_MSG, cm->message), cm->sent, cm->sent == 1 ? "" : "s",
		 cm->came ? "" : ", nothing came from there", hope(cm, now, end));
}

static void for_their_program(const struct trace_cm_id *cm, uint64_t now,
			      const char *what, struct told *t)
{
	char time[32], address[96];

	t->since = cm->first_sent;
	snprintf(t->text, sizeof(t->text),
		 "it has waited %s for the program at %s, which %s",
		 span(cm->first_sent, now, time),
		 waits_address(&cm->remote, cm->remote_port, address), what);
}

static void for_our_answer(const struct trace_cm_id *cm, uint64_t now, struct told *t)
{
	char time[32], address[96];

	t->since = cm->protocol_since;
	waits_address(&cm->remote, cm->remote_port, address);
	if (cm->known_since)
		snprintf(t->text, sizeof(t->text),
			 "the connection request of %s has not been accepted for %s: "
			 "rdma_accept() or rdma_reject() would answer it",
			 address, span(cm->protocol_since, now, time));
	else
		snprintf(t->text, sizeof(t->text),
			 "the connection request of %s came %s ago, and the program has "
			 "not read its event (rdma_get_cm_event())",
			 address, span(cm->protocol_since, now, time));
}

static void for_agreement(const struct trace_cm_id *cm, uint64_t now, struct told *t)
{
	char time[32], address[96];

	t->since = cm->protocol_since;
	snprintf(
	    t->text, sizeof(t->text),
	    "%s has accepted %s ago; there is no connection before the program reads "
	    "CONNECT_RESPONSE (rdma_get_cm_event()), and without a QP of its own "
	    "calls rdma_establish()",
	    waits_address(&cm->remote, cm->remote_port, address),
	    span(cm->protocol_since, now, time));
}

static void for_end(const struct trace_cm_id *cm, uint64_t now, struct told *t)
{
	char time[32], address[96];

	t->since = cm->protocol_since;
	snprintf(
	    t->text, sizeof(t->text),
	    "%s has asked for the end of the connection %s ago: rdma_disconnect() or "
	    "rdma_destroy_id() would answer it",
	    waits_address(&cm->remote, cm->remote_port, address),
	    span(cm->protocol_since, now, time));
}

/* What the protocol waits for */
static void tell_protocol(const struct trace_cm_id *cm, uint64_t now, struct told *t)
{
	t->text[0] = '\0';
	switch ((enum trace_cm_state)cm->protocol) {
	case TRACE_CM_STATE_REQ_SENT:
		for_answer(cm, now, "REP", t);
		break;
	case TRACE_CM_STATE_REP_SENT:
		for_answer(cm, now, "RTU", t);
		break;
	case TRACE_CM_STATE_DREQ_SENT:
		for_answer(cm, now, "DREP", t);
		break;
	case TRACE_CM_STATE_SIDR_REQ_SENT:
		for_answer(cm, now, "SIDR_REP", t);
		break;
	case TRACE_CM_STATE_MRA_REQ_RCVD:
		for_their_program(cm, now,
				  "has the request (MRA) and has neither accepted nor "
				  "rejected it",
				  t);
		break;
	case TRACE_CM_STATE_MRA_REP_RCVD:
		for_their_program(cm, now,
				  "has the REP (MRA) and has not agreed to it yet", t);
		break;
	case TRACE_CM_STATE_REQ_RCVD:
	case TRACE_CM_STATE_MRA_REQ_SENT:
	case TRACE_CM_STATE_SIDR_REQ_RCVD:
		for_our_answer(cm, now, t);
		break;
	case TRACE_CM_STATE_REP_RCVD:
	case TRACE_CM_STATE_MRA_REP_SENT:
		for_agreement(cm, now, t);
		break;
	case TRACE_CM_STATE_DREQ_RCVD:
		for_end(cm, now, t);
		break;
	case TRACE_CM_STATE_IDLE:
	case TRACE_CM_STATE_ESTABLISHED:
	case TRACE_CM_STATE_TIMEWAIT:
	case TRACE_CM_STATE_ANSWERED:
	case TRACE_N_CM_STATES:
		break;
	}
}

static void tell_event(const struct trace_cm_id *cm, uint64_t now, struct told *t)
{
	char time[32], more[48] = "", why[96] = "";

	t->text[0] = '\0';
	if (!cm->queued)
		return;
	t->since = cm->queued_since;
	if (cm->queued > 1)
		snprintf(more, sizeof(more), ", and %u more", cm->queued - 1);
	if (cm->queued_event == EVENT_REJECTED)
		snprintf(why, sizeof(why), " (%s)",
			 word(TRACE_CM_REASON, (uint32_t)cm->event_status));
	snprintf(t->text, sizeof(t->text),
		 "its event %s%s has not been read for %s%s (rdma_get_cm_event())%s",
		 word(TRACE_CM_EVENT, cm->queued_event), why,
		 span(cm->queued_since, now, time), more,
		 cm->not_taken ? "; the backlog is full, and requests are thrown away"
			       : "");
}

static void tell_destroy(const struct trace_cm_id *cm, uint64_t now, struct told *t)
{
	char time[32];

	t->text[0] = '\0';
	if (strcmp(cm->state, word(TRACE_ID_STATE, TRACE_ID_DESTROYED)) ||
	    cm->since + DESTROY_NS > now)
		return;
	t->since = cm->since;
	snprintf(t->text, sizeof(t->text),
		 "rdma_destroy_id() has waited %s for rdma_ack_cm_event(): not all "
		 "of its events that were read (%u) were acknowledged",
		 span(cm->since, now, time), cm->given);
}

void waits_of_cm(const struct trace_object *o, uint64_t now, wait_fn *fn, void *arg)
{
	static void (*const tell[])(const struct trace_cm_id *, uint64_t,
				    struct told *) = {tell_protocol, tell_event,
						      tell_destroy};
	static const enum wait_kind kind[] = {WAIT_CM, WAIT_CM_EVENT, WAIT_CM_DESTROY};
	struct wait w = {.object = o};
	struct told t = {0};

	for (size_t i = 0; i < sizeof(tell) / sizeof(tell[0]); i++) {
		tell[i](&o->cm, now, &t);
		if (!t.text[0])
			continue;
		w.kind = kind[i];
		w.since = t.since;
		snprintf(w.text, sizeof(w.text), "CM ID %u: %s", o->id, t.text);
		fn(arg, &w);
	}
}
