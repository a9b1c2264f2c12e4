/*
 * responder_faults.c - what the responder does while a page is missing: the fault models.
 *
 * Theory of operation
 * -------------------
 * What memory says with -EAGAIN, resp_defer() turns into a verdict by the fault model. A fault
 * whose end is not known ends the wait of exactly this QP (resp_fault_over() in responder.c); a
 * requester that asks again meanwhile is told to be patient (resp_impatient()).
 *
 * Owns: how long a requester is told to wait. Must not know: which packets wait (responder.c).
 */
#include "emu/diagnose.h"

/* What comes again while it waits, and not sooner than that, was not doubled on the way */
#define PATIENCE_NS 1000000u
/*
 * How long a requester is told to wait for a fault whose end is not known: a part of what it
 * has waited, so that few requests come in vain and the last wait is not much too long
 */
#define PATIENCE_PART 4

/* RNR timer: until the fault is due, if that is known */
static uint8_t patience(const struct tr_qp *t, uint64_t ready_at)
{
	uint64_t now = t->qp->hca->now, ns;

	if (ready_at != ODP_WHEN_RESOLVED)
		return tr_rnr_code(ready_at > now ? ready_at - now : 0);
	ns = (now - t->resp.slow_since) / PATIENCE_PART;
	if (ns < tr_rnr_ns(t->qp->attr.min_rnr_timer))
		ns = tr_rnr_ns(t->qp->attr.min_rnr_timer);
	return tr_rnr_code(ns);
}

/* What the fault model makes of it */
static enum resp_verdict judge(struct tr_qp *t, const struct odp_access *acc)
{
	struct tr_resp *resp = &t->resp;

	if (acc->ready_at == ODP_WHEN_RESOLVED && !resp->slow_since)
		resp->slow_since = t->qp->hca->now;
	switch (odp_model_responder(acc->model)) {
	case ODP_RESPONDER_HOLDS:
		if (acc->ready_at == ODP_WHEN_RESOLVED && resp->pressed) {
			resp->rnr_code = patience(t, acc->ready_at);
			return V_RNR;
		}
		resp_start_timer(t, acc->ready_at);
		return V_HOLD;
	case ODP_RESPONDER_NAKS:
		resp->rnr_code = patience(t, acc->ready_at);
		return V_RNR;
	case ODP_RESPONDER_NAKS_SOON:
		resp->rnr_code = tr_rnr_code(0);
		return V_RNR;
	case ODP_RESPONDER_GOES_DEAF:
		resp->mute_until = acc->ready_at;
		return V_DROP;
	case ODP_RESPONDER_DROPS:
		break;
	}
	return V_DROP;
}

/* Memory is not there yet. Where nobody sends again what does not wait here, it is lost. */
enum resp_verdict resp_defer(struct tr_qp *t, const struct odp_access *acc)
{
	enum resp_verdict v = judge(t, acc);

	if (!t->resp.faults++)
		diagnose_fault(t, acc);
	if (v != V_HOLD && !tr_reliable(t->qp))
		odp_mr_lost(acc->mr);
	return v;
}

/*
 * A requester that hears nothing of a request for its timeout sends it again, and fails when
 * it has done so retry_cnt times. So the first time that it does while a fault whose end is
 * not known keeps the request, it is told that this side is there and not ready; and from
 * then on each time.
 */
bool resp_impatient(struct tr_qp *t)
{
	struct tr_resp *resp = &t->resp;

	if (!tr_reliable(t->qp) || !resp->slow_since ||
	    t->qp->hca->now - resp->slow_since < PATIENCE_NS)
		return false;
	resp->pressed = true;
	resp->rnr_code = patience(t, ODP_WHEN_RESOLVED);
	return true;
}

/* Does nobody wait for a fault whose end is not known? */
void resp_faults_over(struct tr_resp *resp)
{
	if (resp->fault.linked || resp->read_fault.linked)
		return;
	resp->slow_since = 0;
	if (resp->mute_until == ODP_WHEN_RESOLVED)
		resp->mute_until = 0;
}

void resp_forget_faults(struct tr_qp *t)
{
	struct odp_domain *dom = t->qp->hca->cfg.odp;

	odp_unwait(dom, &t->resp.fault);
	odp_unwait(dom, &t->resp.read_fault);
	resp_faults_over(&t->resp);
	t->resp.pressed = false;
}
