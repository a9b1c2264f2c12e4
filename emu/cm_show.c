/*
 * cm_show.c - what others see of a connection: in the CM ID that its owner has given for it, and
 * in records.
 *
 * Must not know: what is done in which state. A connection without such a CM ID has an owner who
 * shows nothing, or none any more.
 */
#include "emu/cm_internal.h"
#include "emu/objects.h"

#define SAME(name) _Static_assert((int)EMU_CM_##name == (int)TRACE_CM_STATE_##name, #name)
SAME(IDLE);
SAME(REQ_SENT);
SAME(REP_SENT);
SAME(ESTABLISHED);
SAME(TIMEWAIT);
SAME(SIDR_REQ_RCVD);

static bool expects_answer(enum emu_cm_state s)
{
	return s == EMU_CM_REQ_SENT || s == EMU_CM_MRA_REQ_RCVD || s == EMU_CM_REP_SENT ||
	       s == EMU_CM_MRA_REP_RCVD || s == EMU_CM_DREQ_SENT ||
	       s == EMU_CM_SIDR_REQ_SENT;
}

void cm_show(struct emu_cm_conn *c)
{
	struct trace_cm_id *s = c->seen ? &c->seen->cm : NULL;

	if (!s)
		return;
	s->protocol = (uint8_t)c->state;
	s->local_id = c->local_id;
	s->remote_id = c->remote_id;
	s->passive = c->passive;
	if (c->local_qpn)
		s->qpn = c->local_qpn;
	s->give_up = expects_answer(c->state) ? c->give_up : 0;
}

void cm_show_state(struct emu_cm_conn *c, enum emu_cm_state from)
{
	if (!c->seen)
		return;
	cm_show(c);
	if (from == c->state)
		return;
	c->seen->cm.protocol_since = c->cm->now;
	EMU_TRACE(c->port.hca, cm_state, .id = c->seen->id, .from = (uint8_t)from,
		  .to = (uint8_t)c->state, .cause = c->cm->cause);
}

void cm_show_sent(struct emu_cm_conn *c, unsigned int attr, bool again)
{
	struct trace_cm_id *s = c->seen ? &c->seen->cm : NULL;

	if (!s)
		return;
	if (!again || s->message != attr) {
		s->message = (uint16_t)attr;
		s->first_sent = c->cm->now;
		s->sent = 0;
	}
	s->sent++;
	s->last_sent = c->cm->now;
}

void cm_show_came(struct emu_cm_conn *c, const struct cm_msg *m)
{
	struct trace_cm_id *s = c->seen ? &c->seen->cm : NULL;

	if (!s)
		return;
	s->came = c->cm->now;
	s->came_message = (uint16_t)m->attr;
	s->came_reason = m->attr == CM_REJ	  ? (uint16_t)m->rej.reason
			 : m->attr == CM_SIDR_REP ? m->sidr_rep.status
						  : 0;
}

void emu_cm_show(struct emu_cm_conn *c, struct trace_object *o)
{
	c->seen = o;
	if (!o)
		return;
	o->cm.came = o->cm.protocol_since = c->cm->now;
	o->cm.came_message = c->state == EMU_CM_SIDR_REQ_RCVD ? CM_SIDR_REQ : CM_REQ;
	cm_show(c);
}
