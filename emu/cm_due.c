/*
 * cm_due.c - what the connection manager does when a time is up: repeats, gives up, forgets.
 *
 * The theory is in cm.c. Must not know: which message comes next.
 */
#include "emu/cm_internal.h"
#include "trace/kinds.h"

static void no_answer(struct emu_cm_conn *c)
{
	enum emu_cm_event_type type = EMU_CM_EV_REQ_ERROR;

	switch (c->state) {
	case EMU_CM_DREQ_SENT:
		cm_enter_timewait(c);
		cm_emit(c, EMU_CM_EV_DREQ_ERROR, NULL);
		return;
	case EMU_CM_REP_SENT:
	case EMU_CM_MRA_REP_RCVD:
		type = EMU_CM_EV_REP_ERROR;
		break;
	case EMU_CM_SIDR_REQ_SENT:
		type = EMU_CM_EV_SIDR_ERROR;
		break;
	case EMU_CM_IDLE:
	case EMU_CM_REQ_SENT:
	case EMU_CM_REQ_RCVD:
	case EMU_CM_MRA_REQ_SENT:
	case EMU_CM_MRA_REQ_RCVD:
	case EMU_CM_REP_RCVD:
	case EMU_CM_MRA_REP_SENT:
	case EMU_CM_ESTABLISHED:
	case EMU_CM_DREQ_RCVD:
	case EMU_CM_TIMEWAIT:
	case EMU_CM_ANSWERED:
	case EMU_CM_SIDR_REQ_RCVD:
		break;
	}
	cm_emit(c, type, NULL);
	cm_become_idle(c);
}

static void repeat(struct emu_cm_conn *c)
{
	uint64_t now = c->cm->now;

	if (now >= c->give_up) {
		no_answer(c);
		return;
	}
	cm_send_again(c);
	c->rto = 2 * c->rto < c->base ? 2 * c->rto : c->base;
	cm_conn_arm(c, now + c->rto < c->give_up ? now + c->rto : c->give_up);
}

/*
 * One of the unasked repetitions; after the last one @then (0: no deadline). False: none
 * left
 */
static bool resend(struct emu_cm_conn *c, uint64_t then)
{
	if (!c->resends)
		return false;
	cm_send_again(c);
	c->resends--;
	if (c->resends)
		then = CM_RESEND_RTO;
	cm_conn_arm(c, then ? c->cm->now + then : EMU_CM_NO_DEADLINE);
	return true;
}

static void due(struct emu_cm_conn *c)
{
	switch (c->state) {
	case EMU_CM_TIMEWAIT:
		cm_emit(c, EMU_CM_EV_TIMEWAIT_EXIT, NULL);
		cm_become_idle(c);
		break;
	case EMU_CM_ANSWERED:
		if (resend(c, CM_ANSWER_KEPT))
			break;
		/* As long as the owner keeps it, it goes on to answer. */
		if (c->owned)
			cm_conn_arm(c, EMU_CM_NO_DEADLINE);
		else
			cm_become_idle(c);
		break;
	case EMU_CM_ESTABLISHED: /* an RTU */
		resend(c, 0);
		break;
	case EMU_CM_MRA_REQ_RCVD:
		/* The time that the peer asked for is over: back to asking. */
		cm_set_state(c, EMU_CM_REQ_SENT);
		repeat(c);
		break;
	case EMU_CM_MRA_REP_RCVD:
		cm_set_state(c, EMU_CM_REP_SENT);
		repeat(c);
		break;
	case EMU_CM_IDLE:
	case EMU_CM_REQ_SENT:
	case EMU_CM_REQ_RCVD:
	case EMU_CM_MRA_REQ_SENT:
	case EMU_CM_REP_SENT:
	case EMU_CM_REP_RCVD:
	case EMU_CM_MRA_REP_SENT:
	case EMU_CM_DREQ_SENT:
	case EMU_CM_DREQ_RCVD:
	case EMU_CM_SIDR_REQ_SENT:
	case EMU_CM_SIDR_REQ_RCVD:
		repeat(c);
		break;
	}
}

uint64_t emu_cm_run(struct emu_cm *cm)
{
	struct emu_cm_conn *c;

	while ((c = cm_conn_first(cm))) {
		if (c->deadline > cm->now)
			return c->deadline;
		cm->cause = TRACE_CM_CAUSE_TIME;
		due(c);
		cm->cause = TRACE_CM_CAUSE_CALL;
	}
	return EMU_CM_NO_DEADLINE;
}
