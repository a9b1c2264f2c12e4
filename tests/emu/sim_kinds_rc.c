/*
 * sim_kinds_rc.c - scenarios of reliable connections in which nothing is wrong, or only
 * what the program itself does to its QPs and CQs.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_kinds.h"

/* --- rc, odp ---------------------------------------------------------------------- */

/* A clean network, and all receives are posted before the first message */
static bool nothing_can_go_wrong(struct sim_world *w)
{
	const struct sim_net_cfg *n = &w->net;

	for (uint32_t i = 0; i < w->nqps; i++) {
		if (w->qp[i].rq.next != w->qp[i].rq.n)
			return false;
	}
	return !n->loss && !n->corrupt && !n->dup && !n->reorder;
}

/* Some of those that send nothing wait in RTR for the first request (11.6.3.3) */
static void listeners(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++)
		w->qp[i].stay_rtr = !w->qp[i].n && sim_chance(&w->rng, 500);
}

static void judge_listeners(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps && !w->failed; i++) {
		struct sim_qp *q = &w->qp[i];

		if (q->stay_rtr && q->events[IBV_EVENT_COMM_EST] != q->heard)
			sim_fail(w, "q%u: %u COMM_EST, and requests did%s arrive", q->id,
				 q->events[IBV_EVENT_COMM_EST], q->heard ? "" : " not");
	}
}

void kind_rc(struct sim_world *w)
{
	bool odp = w->kind == SIM_ODP;

	if (!kind_world(w, false, odp) || !kind_pairs(w, IBV_QPT_RC, 3, false) ||
	    !kind_programs(w))
		return;
	listeners(w);
	if (!gen_connect(w))
		return;
	kind_start(w, 2 * MS);
	w->no_resend = !odp && nothing_can_go_wrong(w);
	if (odp) {
		gen_moves(w, 5 * MS, sim_below(&w->rng, 40));
		gen_prefetches(w, 3 * MS, sim_below(&w->rng, 8));
	}
	kind_settle(w);
	judge_listeners(w);
	if (!w->failed)
		kind_finish(w);
}

/* --- srq -------------------------------------------------------------------------- */

static void srq_limits(struct sim_world *w, uint32_t *limit)
{
	for (uint32_t i = 0; i < w->nhosts; i++) {
		struct sim_host *h = &w->host[i];
		struct ibv_srq_attr a = {0};
		int err;

		limit[i] = 0;
		if (h->srq[0].rq.next != h->srq[0].rq.n || !h->srq[0].rq.n ||
		    !sim_chance(&w->rng, 500))
			continue; /* posted in parts: when it fires is open */
		limit[i] = a.srq_limit = sim_range(&w->rng, 1, h->srq[0].rq.n);
		err = emu_srq_modify(h->srq[0].srq, &a, IBV_SRQ_LIMIT);
		if (err)
			sim_fail(w, "h%u: the limit of its SRQ is refused: %s", i,
				 strerror(-err));
	}
}

void kind_srq(struct sim_world *w)
{
	uint32_t limit[SIM_HOSTS];

	if (!kind_world(w, false, false))
		return;
	if (!kind_srqs(w) || !kind_pairs(w, IBV_QPT_RC, 3, true))
		return;
	kind_small_mtus(w);
	if (!kind_programs(w) || !gen_connect(w) || !kind_srqs_fill(w))
		return;
	srq_limits(w, limit);
	kind_start(w, 2 * MS);
	kind_settle(w);
	for (uint32_t i = 0; i < w->nhosts && !w->failed; i++) {
		struct sim_srq *s = &w->host[i].srq[0];
		bool below = s->rq.next - s->rq.done < limit[i];

		if (s->limit_events != (limit[i] && below))
			sim_fail(w, "h%u: %u limit events, limit %u, %u left", i,
				 s->limit_events, limit[i], s->rq.next - s->rq.done);
	}
	kind_finish(w);
}

/* --- xrc -------------------------------------------------------------------------- */

static bool xrc_host(struct sim_host *h)
{
	struct sim_rng *r = &h->w->rng;

	for (uint32_t n = sim_range(r, 1, 2); n; n--) {
		int err = sim_srq_create(h, SIM_RECVS, SIM_SGES, &h->cq[sim_below(r, 2)]);

		if (err) {
			sim_fail(h->w, "h%u: an XRC SRQ is refused: %s", h->id,
				 strerror(-err));
			return false;
		}
	}
	return true;
}

void kind_xrc(struct sim_world *w)
{
	if (!kind_world(w, false, sim_chance(&w->rng, 200)))
		return;
	for (uint32_t i = 0; i < w->nhosts; i++) {
		if (!xrc_host(&w->host[i]))
			return;
	}
	if (!kind_pairs(w, IBV_QPT_XRC_SEND, 3, false))
		return;
	kind_small_mtus(w);
	for (uint32_t i = 0; i < w->nqps; i += 2)
		gen_ops(&w->qp[i], kind_ops(w));
	if (!gen_connect(w))
		return;
	if (!kind_srqs_fill(w))
		return;
	kind_start(w, 0);
	kind_judge(w);
}

/* --- atomic ----------------------------------------------------------------------- */

static void shared_op(struct sim_qp *q)
{
	struct sim_world *w = q->host->w;
	uint32_t s = sim_below(&w->rng, w->nshared);
	struct sim_host *h = &w->host[w->shared[s].host];
	struct sim_op *op;

	if (w->shared[s].adds == 64)
		return;
	op = gen_op_of(q, IBV_WR_ATOMIC_FETCH_AND_ADD);
	if (!op)
		return;
	w->shared[s].adds++;
	gen_remote(op, h, w->shared[s].arena, w->shared[s].off);
	op->shared = (int)s;
	op->compare_add = 1;
}

void kind_atomic(struct sim_world *w)
{
	if (!kind_world(w, false, sim_chance(&w->rng, 300)))
		return;
	w->nshared = 2;
	for (uint32_t s = 0; s < 2; s++) {
		struct sim_host *h = &w->host[0];

		w->shared[s].arena = s ? SIM_ONDEMAND : SIM_PINNED;
		w->shared[s].off = sim_mem_alloc(h, w->shared[s].arena, 8, 8);
		memcpy(&w->shared[s].start,
		       h->arena[w->shared[s].arena].base + w->shared[s].off, 8);
	}
	for (uint32_t n = sim_range(&w->rng, 1, 4); n; n--) {
		if (!gen_pair(w, kind_any_host(w), &w->host[0], IBV_QPT_RC, false))
			return;
	}
	for (uint32_t i = 0; i < w->nqps; i += 2) {
		for (uint32_t n = sim_range(&w->rng, 1, 24); n; n--)
			shared_op(&w->qp[i]);
	}
	if (!gen_connect(w))
		return;
	kind_start(w, 0);
	kind_settle(w);
	for (uint32_t s = 0; s < 2 && !w->failed; s++) {
		struct sim_arena *ar = &w->host[0].arena[w->shared[s].arena];
		uint64_t v;

		memcpy(&v, ar->base + w->shared[s].off, 8);
		if (v != w->shared[s].start + w->shared[s].adds ||
		    w->shared[s].ops != w->shared[s].adds)
			sim_fail(w, "counter %u: %llu adds came to %llu", s,
				 (unsigned long long)w->shared[s].adds,
				 (unsigned long long)(v - w->shared[s].start));
		sim_mem_forgive(&w->host[0], w->shared[s].arena, w->shared[s].off, 8);
	}
	kind_finish(w);
}

/* --- sqd -------------------------------------------------------------------------- */

static void resume(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_qp *q = arg;
	int err;

	q->resting = false;
	err = sim_qp_state(q, IBV_QPS_RTS);

	if (err)
		sim_fail(w, "q%u: SQD to RTS: %s", q->id, strerror(-err));
	q->drains++;
	sim_host_work(q->host);
}

/* SQ_DRAINED: nothing is sent until the QP is resumed */
static void drained(struct sim_qp *q)
{
	struct sim_world *w = q->host->w;

	q->resting = true;
	sim_at(w, w->now + 1 + sim_below(&w->rng, 500 * US), resume, q, 0);
}

static void drain(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_qp *q = arg;
	int err = sim_qp_state(q, IBV_QPS_SQD);

	if (err)
		sim_fail(w, "q%u: RTS to SQD: %s", q->id, strerror(-err));
	sim_host_work(q->host);
}

void kind_sqd(struct sim_world *w)
{
	struct sim_qp *q;

	if (!kind_world(w, false, false) || !kind_pairs(w, IBV_QPT_RC, 2, false) ||
	    !kind_programs(w) || !gen_connect(w))
		return;
	q = &w->qp[0];
	q->on_drained = drained;
	sim_at(w, w->now + sim_below(&w->rng, 2 * MS), drain, q, 0);
	kind_start(w, 500 * US);
	kind_settle(w);
	if (!w->failed && (q->drains != 1 || q->events[IBV_EVENT_SQ_DRAINED] != 1))
		sim_fail(w, "q%u: %u SQ_DRAINED events for one drain", q->id,
			 q->events[IBV_EVENT_SQ_DRAINED]);
	kind_finish(w);
}

/* --- cq --------------------------------------------------------------------------- */

static void release_cq(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_cq *cq = arg;

	cq->hold = false;
	if (val) {
		int err = sim_cq_resize(cq, (uint32_t)val);

		if (err)
			sim_fail(w, "h%u: a CQ cannot be resized to %llu: %s",
				 cq->host->id, (unsigned long long)val, strerror(-err));
	}
	sim_host_work(cq->host);
}

static void hold_cq(struct sim_cq *cq, bool small)
{
	struct sim_world *w = cq->host->w;
	uint64_t resize = !small && sim_chance(&w->rng, 500) ? 1500 : 0;

	cq->solicited_only = sim_chance(&w->rng, 300);
	cq->armed++;
	emu_cq_arm(cq->cq, cq->solicited_only);
	cq->hold = small || sim_chance(&w->rng, 500);
	if (cq->hold)
		sim_at(w, w->now + 1 + sim_below(&w->rng, 3 * MS), release_cq, cq,
		       resize);
}

/* One event per arming, for the first completion that counts */
static void judge_events(struct sim_cq *cq)
{
	uint64_t due = cq->solicited_only ? cq->solicited : cq->polled;

	if (cq->events != !!due)
		sim_fail(
		    cq->host->w,
		    "h%u: %u events of a CQ armed%s, with %llu completions that count",
		    cq->host->id, cq->events,
		    cq->solicited_only ? " for solicited ones" : "",
		    (unsigned long long)due);
}

/* An overrun is fatal to the CQ and to QPs that use it, and to nobody else */
static void judge_overrun(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps && !w->failed; i++) {
		struct sim_qp *q = &w->qp[i];
		bool dead = q->scq->dead || q->rcq->dead;

		if (q->events[IBV_EVENT_QP_FATAL] && !dead)
			sim_fail(w, "q%u: QP_FATAL, but its CQs are well", q->id);
	}
}

/* The program does not poll for a while; the ring is large enough, or it is not */
void kind_cq(struct sim_world *w)
{
	bool small = sim_chance(&w->rng, 400);

	gen_net(w, sim_chance(&w->rng, 500));
	gen_mem(w, false);
	w->cqe = small ? sim_range(&w->rng, 1, 8) : 1000;
	if (!gen_hosts(w, 2) || !kind_pairs(w, IBV_QPT_RC, 3, false) ||
	    !kind_programs(w) || !gen_connect(w))
		return;
	for (uint32_t i = 0; i < 2 * w->nhosts; i++)
		hold_cq(&w->host[i / 2].cq[i % 2], small);
	kind_start(w, 500 * US);
	kind_rest(w);
	if (w->anything_goes) { /* since a CQ overran */
		judge_overrun(w);
		w->judged = true;
		return;
	}
	kind_settle(w);
	for (uint32_t i = 0; i < 2 * w->nhosts && !w->failed; i++)
		judge_events(&w->host[i / 2].cq[i % 2]);
	kind_finish(w);
}

/* --- kill ------------------------------------------------------------------------- */

void kind_kill_qp(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_qp *q = arg;
	int err = 0;

	if (!q->qp || q->lost)
		return;
	switch (val % 3) {
	case 0:
		err = sim_qp_state(q, IBV_QPS_ERR);
		break;
	case 1:
		err = sim_qp_state(q, IBV_QPS_RESET);
		q->lost = true;
		break;
	default:
		if (sim_tracing(w))
			sim_trace(w, "q%u is destroyed", q->id);
		sim_qp_destroy(q);
		break;
	}
	if (err)
		sim_fail(w, "q%u: cannot be killed: %s", q->id, strerror(-err));
	sim_host_work(q->host);
}

static void kill_mr(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_host *h = arg;
	struct sim_mr *mr = &h->mr[val];
	int err;

	if (!mr->mr)
		return;
	if (sim_tracing(w))
		sim_trace(w, "h%u MR %llu is deregistered", h->id,
			  (unsigned long long)val);
	err = emu_mr_dereg(mr->mr);
	if (err)
		sim_fail(w, "h%u: an MR cannot be deregistered: %s", h->id,
			 strerror(-err));
	mr->mr = NULL;
	sim_host_work(h);
}

/* The pair, as new: what a program does that reconnects */
static bool reuse(struct sim_world *w, struct sim_qp *a, struct sim_qp *b)
{
	struct sim_qp *both[2] = {a, b};

	if (!a->qp || !b->qp)
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		struct sim_qp *q = both[i];

		for (uint32_t k = 0; k < q->n; k++) {
			/* what was under way may have been done in part */
			struct sim_op *op = &q->op[k];

			if (op->state != SIM_OP_NEW &&
			    op->roff + op->len <= SIM_ARENA_LEN)
				sim_mem_forgive(q->peer->host, op->rarena, op->roff,
						op->len);
			for (uint32_t s = 0; s < op->nsge && op->state != SIM_OP_NEW; s++)
				sim_mem_forgive(q->host, op->sge[s].arena, op->sge[s].off,
						op->sge[s].len);
		}
		for (uint32_t k = 0; k < q->rq.next; k++) {
			for (uint32_t s = 0; s < q->rq.recv[k].nsge; s++)
				sim_mem_forgive(q->host, q->rq.recv[k].sge[s].arena,
						q->rq.recv[k].sge[s].off,
						q->rq.recv[k].sge[s].len);
		}
		if (sim_qp_state(q, IBV_QPS_RESET)) {
			sim_fail(w, "q%u cannot be reset", q->id);
			return false;
		}
		q->n = q->next = q->credit = q->seen = q->rwr_n = q->rwr_next = 0;
		q->rq.n = q->rq.next = q->rq.credit = q->rq.done = 0;
		q->may = q->may_recv = 0;
		q->may_flush = q->errored = q->lost = false;
		q->rnr_retry = 7;
		q->sq_psn = sim_below(&w->rng, 1u << 24);
		sim_wire_reset(q);
	}
	a->rq_psn = b->sq_psn;
	b->rq_psn = a->sq_psn;
	gen_ops(a, 6);
	gen_ops(b, 6);
	if (!gen_recvs(a, 0) || !gen_recvs(b, 0) || sim_qp_connect(a) ||
	    sim_qp_connect(b))
		return false;
	gen_recv_schedule(w, &a->rq, 500 * US);
	gen_recv_schedule(w, &b->rq, 500 * US);
	gen_send_schedule(a, MS);
	gen_send_schedule(b, MS);
	sim_program_print(w);
	return true;
}

void kind_kill(struct sim_world *w)
{
	bool dereg = sim_chance(&w->rng, 300);

	if (!kind_world(w, false, sim_chance(&w->rng, 300)) ||
	    !kind_pairs(w, IBV_QPT_RC, 3, false) || !kind_programs(w) || !gen_connect(w))
		return;
	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];

		q->may = BIT(IBV_WC_RETRY_EXC_ERR) | BIT(IBV_WC_RNR_RETRY_EXC_ERR);
		if (dereg)
			q->may |= BIT(IBV_WC_LOC_PROT_ERR) | BIT(IBV_WC_REM_ACCESS_ERR) |
				  BIT(IBV_WC_REM_OP_ERR);
		if (dereg)
			q->may_recv =
			    BIT(IBV_WC_LOC_PROT_ERR) | BIT(IBV_WC_LOC_ACCESS_ERR);
		q->may_flush = true;
		q->rnr_retry = 6;
		if (sim_chance(&w->rng, 600))
			sim_at(w, w->now + sim_below(&w->rng, 3 * MS), kind_kill_qp, q,
			       sim_below(&w->rng, 3));
	}
	if (dereg)
		sim_at(w, w->now + sim_below(&w->rng, 2 * MS), kill_mr, kind_any_host(w),
		       sim_below(&w->rng, SIM_MRS));
	kind_start(w, 500 * US);
	kind_rest(w);
	if (w->failed)
		return;
	if (!dereg && sim_chance(&w->rng, 500)) {
		if (reuse(w, &w->qp[0], &w->qp[1]))
			kind_settle(w);
		if (w->failed)
			return;
	}
	kind_finish(w);
}
