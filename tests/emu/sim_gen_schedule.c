/*
 * sim_gen_schedule.c - drawing receive WQEs, and when what is posted.
 */
#include <string.h>

#include "sim_gen.h"

/* --- receive WQEs ----------------------------------------------------------------- */

struct sim_recv *gen_recv(struct sim_host *h, struct sim_rq *rq, uint64_t tag,
			  uint32_t len)
{
	struct sim_recv *r = &rq->recv[rq->n];

	if (rq->n == SIM_RECVS)
		return NULL;
	memset(r, 0, sizeof(*r));
	r->wr_id = tag | rq->n;
	r->nsge = gen_targets(h, r->sge, len);
	if (r->nsge > SIM_SGES)
		return NULL;
	r->len = len;
	rq->n++;
	return r;
}

/* What the messages of the peer need, in their order, and @extra that nothing fills */
bool gen_recvs(struct sim_qp *q, uint32_t extra)
{
	struct sim_world *w = q->host->w;
	uint64_t tag = (uint64_t)SIM_TAG_RECV << 48 | (uint64_t)q->id << 32;
	struct sim_qp *p = q->peer;
	uint32_t max = 0;

	for (uint32_t i = 0; i < p->rwr_n; i++) {
		if (p->op[p->rwr[i]].len > max)
			max = p->op[p->rwr[i]].len;
	}
	for (uint32_t i = 0; i < p->rwr_n + extra; i++) {
		uint32_t len =
		    i < p->rwr_n ? p->op[p->rwr[i]].len : sim_below(&w->rng, 100);

		if (i < p->rwr_n && p->op[p->rwr[i]].opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
			len = 0; /* only announces */
		if (q->type == IBV_QPT_UC)
			len = max; /* duplicates, losses: any message may meet it */
		if (sim_chance(&w->rng, 500))
			len += sim_below(&w->rng, 64);
		if (!gen_recv(q->host, &q->rq, tag, len))
			return i >= p->rwr_n;
	}
	return true;
}

/* --- schedules -------------------------------------------------------------------- */

static void credit_sends(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_qp *q = arg;

	q->credit += (uint32_t)val;
	sim_qp_push(q);
	sim_host_work(q->host);
}

static void credit_recvs(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_rq *rq = arg;

	rq->credit += (uint32_t)val;
	sim_rq_push(rq);
}

void gen_send_schedule(struct sim_qp *q, uint64_t span)
{
	struct sim_world *w = q->host->w;
	uint32_t left = q->n - q->credit;
	uint64_t at = w->now;

	if (sim_chance(&w->rng, 300))
		span = 1; /* all at once */
	while (left) {
		uint32_t k = sim_range(&w->rng, 1, 8);

		if (k > left)
			k = left;
		at += sim_below(&w->rng, (uint32_t)(span / (q->n + 1) * 2 + 1));
		sim_at(w, at, credit_sends, q, k);
		left -= k;
	}
}

void gen_recv_schedule(struct sim_world *w, struct sim_rq *rq, uint64_t late)
{
	uint32_t left = rq->n - rq->credit;
	uint64_t at = w->now;

	if (!sim_chance(&w->rng, 500)) {
		rq->credit += left;
		sim_rq_push(rq);
		return;
	}
	while (left) {
		uint32_t k = sim_range(&w->rng, 1, 6);

		if (k > left)
			k = left;
		sim_at(w, at, credit_recvs, rq, k);
		at += sim_below(&w->rng, (uint32_t)late + 1);
		left -= k;
	}
}
