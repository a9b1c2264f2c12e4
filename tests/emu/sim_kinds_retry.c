/*
 * sim_kinds_retry.c - scenarios of retransmission: peers that do not answer, receive WQEs
 * that do not come, and single packets that are lost.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_kinds.h"

/* --- retry ------------------------------------------------------------------------ */

void kind_retry(struct sim_world *w)
{
	uint64_t t0, unit, least, most;
	struct sim_qp *q, *p;

	if (!kind_world(w, true, false) ||
	    !gen_pair(w, &w->host[0], &w->host[1], IBV_QPT_RC, false))
		return;
	q = &w->qp[0];
	p = &w->qp[1];
	q->retry_cnt = (uint8_t)sim_below(&w->rng, 8);
	q->timeout = (uint8_t)sim_range(&w->rng, 4, 14);
	gen_ops(q, sim_range(&w->rng, 1, 10));
	if (!q->n || !gen_recvs(p, 0))
		return;
	for (uint32_t i = 0; i < q->n; i++)
		q->op[i].must = BIT(IBV_WC_RETRY_EXC_ERR);
	/* the peer is deaf: destroyed, never connected, or cut off */
	if (sim_qp_connect(q))
		return;
	if (sim_chance(&w->rng, 300)) {
		sim_qp_destroy(p);
	} else if (sim_chance(&w->rng, 500)) {
		p->lost = true;
	} else {
		if (sim_qp_connect(p))
			return;
		w->net.loss = 1000;
		w->net.budget = 255;
		memset(w->disturbed, 0, 4096);
	}
	q->credit = q->n;
	t0 = w->now;
	sim_program_print(w);
	sim_qp_push(q);
	kind_settle(w);
	if (w->failed)
		return;
	/* IBTA 9.7.6.1.3: a timeout is between T and 4 T */
	unit = 4096ull << q->timeout;
	least = unit * (q->retry_cnt + 1u);
	most = 4 * least + 5 * MS;
	if (q->error_status != IBV_WC_RETRY_EXC_ERR)
		sim_fail(w, "q%u: no RETRY_EXC_ERR, but %u", q->id, q->error_status);
	else if (q->error_at - t0 < least || q->error_at - t0 > most)
		sim_fail(w, "q%u: gave up after %llu us, timeout %llu us, retry_cnt %u",
			 q->id, (unsigned long long)(q->error_at - t0) / 1000,
			 (unsigned long long)unit / 1000, q->retry_cnt);
	kind_finish(w);
}

/* --- recover ---------------------------------------------------------------------- */

void kind_recover(struct sim_world *w)
{
	uint64_t t0 = w->now, timeout;
	struct sim_qp *q, *p;

	gen_net(w, true);
	gen_mem(w, false);
	w->slow_faults = sim_chance(&w->rng, 400);
	/*
	 * not by RNR NAKs: what follows one is dropped silently, and so betrays nothing
	 */
	if (w->slow_faults)
		w->odp.latency = 1 + sim_below(&w->rng, 100 * US);
	if (!gen_hosts(w, 2) || !gen_pair(w, &w->host[0], &w->host[1], IBV_QPT_RC, false))
		return;
	q = &w->qp[0];
	p = &w->qp[1];
	q->timeout = 16; /* 268 ms */
	gen_ops(q, sim_range(&w->rng, 1, 20));
	if (!gen_recvs(p, 0) || !gen_connect(w))
		return;
	p->rq.credit = p->rq.n;
	q->credit = q->n;
	if (!w->slow_faults && sim_chance(&w->rng, 500)) {
		w->net.tx_full = 0;
		w->swap_nr = sim_range(&w->rng, 1, 2 * q->n);
	} else {
		w->drop_nr = sim_range(&w->rng, 1, 2 * q->n);
	}
	sim_program_print(w);
	sim_rq_push(&p->rq);
	sim_qp_push(q);
	kind_settle(w);
	/* what follows a lost packet betrays it: NAK, implied NAK, or coalesced ACK */
	timeout = 4096ull << q->timeout;
	if (w->followed_at && w->followed_at - w->dropped_at < timeout / 2 &&
	    q->done_at > t0 + timeout)
		sim_fail(w, "one packet was lost, and it took %llu us to recover",
			 (unsigned long long)(q->done_at - t0) / 1000);
	/* nor does one that others pass: the late NAK asks for what was dropped */
	if (w->swap_nr && q->done_at > t0 + timeout)
		sim_fail(
		    w, "one packet was passed by others, and it took %llu us to recover",
		    (unsigned long long)(q->done_at - t0) / 1000);
	kind_finish(w);
}

/* --- rnr -------------------------------------------------------------------------- */

static void credit_recv(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_rq *rq = arg;

	rq->credit += (uint32_t)val;
	sim_rq_push(rq);
}

/* Each message waits for its receive WQE, and each comes before patience ends */
static void rnr_in_time(struct sim_world *w)
{
	struct sim_qp *q = &w->qp[0], *p = &w->qp[1];
	uint64_t at = w->now, period;

	q->rnr_retry = (uint8_t)sim_range(&w->rng, 3, 6);
	p->rnr_timer = (uint8_t)sim_range(&w->rng, 9, 16);
	period = (q->rnr_retry - 1ull) * sim_rnr_ns(p->rnr_timer);
	for (uint32_t n = sim_range(&w->rng, 2, 12); n; n--)
		gen_op_of(q, IBV_WR_SEND);
	if (!gen_recvs(p, 0) || !gen_connect(w))
		return;
	for (uint32_t i = 0; i < p->rq.n; i++, at += period)
		sim_at(w, at, credit_recv, &p->rq, 1);
	q->credit = q->n;
	sim_program_print(w);
	sim_qp_push(q);
	kind_judge(w);
}

void kind_rnr(struct sim_world *w)
{
	struct sim_qp *q, *p;
	uint64_t t0, least;
	uint32_t n;

	if (!kind_world(w, true, false) ||
	    !gen_pair(w, &w->host[0], &w->host[1], IBV_QPT_RC, false))
		return;
	if (sim_chance(&w->rng, 400)) {
		rnr_in_time(w);
		return;
	}
	q = &w->qp[0];
	p = &w->qp[1];
	q->rnr_retry = (uint8_t)sim_below(&w->rng, 7);
	p->rnr_timer = (uint8_t)sim_range(&w->rng, 0, 20);
	gen_ops(q, sim_below(&w->rng, 5));
	/* all that went before has its receive WQE; this one has not */
	if (!gen_recvs(p, 0))
		return;
	n = q->n;
	if (!gen_op_of(q, sim_chance(&w->rng, 500) ? IBV_WR_SEND
						   : IBV_WR_RDMA_WRITE_WITH_IMM))
		return;
	q->op[n].must = BIT(IBV_WC_RNR_RETRY_EXC_ERR);
	gen_ops(q, sim_below(&w->rng, 4));
	q->may_flush = true;
	if (!gen_connect(w))
		return;
	p->rq.credit = p->rq.n;
	sim_rq_push(&p->rq);
	q->credit = q->n;
	t0 = w->now;
	sim_program_print(w);
	sim_qp_push(q);
	kind_settle(w);
	if (w->failed)
		return;
	least = sim_rnr_ns(p->rnr_timer) * q->rnr_retry;
	if (q->error_status != IBV_WC_RNR_RETRY_EXC_ERR)
		sim_fail(w, "q%u: no RNR_RETRY_EXC_ERR, but %u", q->id, q->error_status);
	else if (q->error_at - t0 < least || q->error_at - t0 > 2 * least + 20 * MS)
		sim_fail(w, "q%u: gave up after %llu us; RNR timer %u us, rnr_retry %u",
			 q->id, (unsigned long long)(q->error_at - t0) / 1000,
			 (uint32_t)(sim_rnr_ns(p->rnr_timer) / US), q->rnr_retry);
	else if (p->errored || p->events[IBV_EVENT_QP_FATAL])
		sim_fail(w, "q%u: a responder without receive WQEs must not fail", p->id);
	kind_finish(w);
}
