/*
 * sim_kinds.c - the kinds of scenarios by name, and the steps that they have in common:
 * draw a world and programs, run until everything rests, judge.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_kinds.h"

#define LATE_RUNS   50
#define LONG_ENOUGH (3600ull * 1000 * MS) /* virtual */

static const char *const kind_names[SIM_KINDS] = {
    [SIM_RC] = "rc",	   [SIM_UC] = "uc",	      [SIM_UD] = "ud",
    [SIM_SRQ] = "srq",	   [SIM_ODP] = "odp",	      [SIM_VANISH] = "vanish",
    [SIM_ERROR] = "error", [SIM_RETRY] = "retry",     [SIM_RNR] = "rnr",
    [SIM_MW] = "mw",	   [SIM_ATOMIC] = "atomic",   [SIM_SQD] = "sqd",
    [SIM_KILL] = "kill",   [SIM_CQ] = "cq",	      [SIM_GARBAGE] = "garbage",
    [SIM_WQE] = "wqe",	   [SIM_XRC] = "xrc",	      [SIM_VERBS] = "verbs",
    [SIM_SQE] = "sqe",	   [SIM_RECOVER] = "recover", [SIM_PEER] = "peer",
    [SIM_STALL] = "stall",
};

const char *sim_kind_name(enum sim_kind kind)
{
	return kind_names[kind];
}

int sim_kind_by_name(const char *name)
{
	for (int i = 0; i < SIM_KINDS; i++) {
		if (!strcmp(name, kind_names[i]))
			return i;
	}
	return -1;
}

/* --- running and judging ---------------------------------------------------------- */

void kind_rest(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nhosts; i++)
		sim_host_work(&w->host[i]);
	if (!sim_run(w, w->now + LONG_ENOUGH))
		sim_fail(w, "the world does not come to rest");
}

/* Everything succeeded on QPs to which nothing may happen */
void kind_settle(struct sim_world *w)
{
	kind_rest(w);
	for (uint32_t i = 0; i < w->nqps && !w->failed; i++) {
		struct sim_qp *q = &w->qp[i];

		if (!q->lost && !q->errored && !q->may_flush && !q->may)
			sim_model_settle(q);
	}
}

/* All QPs are errored: what is still posted is flushed; then memory must be right */
void kind_finish(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps && !w->failed; i++) {
		struct sim_qp *q = &w->qp[i];
		int err;

		q->may_flush = true;
		if (!q->qp || q->lost)
			continue;
		err = sim_qp_state(q, IBV_QPS_ERR);
		if (err)
			sim_fail(w, "q%u cannot be moved to ERR: %s", q->id,
				 strerror(-err));
		sim_host_work(q->host);
	}
	if (w->failed)
		return;
	/* receives that came late: a run looks at the queue of one QP in error */
	for (uint32_t i = 0; i < w->nhosts * LATE_RUNS && !w->failed; i++)
		sim_host_work(&w->host[i % w->nhosts]);
	kind_rest(w);
	if (!w->failed)
		sim_model_end(w);
	w->judged = true;
}

void kind_judge(struct sim_world *w)
{
	kind_settle(w);
	if (!w->failed)
		kind_finish(w);
}

struct sim_host *kind_any_host(struct sim_world *w)
{
	return &w->host[sim_below(&w->rng, w->nhosts)];
}

/* One to @max pairs; a QP may have its peer on its own host */
bool kind_pairs(struct sim_world *w, enum ibv_qp_type type, uint32_t max, bool srq)
{
	uint32_t n = sim_range(&w->rng, 1, max);

	while (n--) {
		struct sim_host *a = kind_any_host(w), *b = kind_any_host(w);

		if (a == b && !sim_chance(&w->rng, 300))
			b = &w->host[(a->id + 1) % w->nhosts];
		if (!gen_pair(w, a, b, type, srq && sim_chance(&w->rng, 700)))
			return false;
	}
	return true;
}

bool kind_world(struct sim_world *w, bool lossless, bool hostile_memory)
{
	gen_net(w, lossless);
	gen_mem(w, hostile_memory);
	return gen_hosts(w, sim_chance(&w->rng, 200) ? 3 : 2);
}

uint32_t kind_ops(struct sim_world *w)
{
	return sim_range(&w->rng, 1, sim_chance(&w->rng, 100) ? SIM_OPS : 14);
}

/* Programs both ways */
void kind_sends(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		if (i % 2 == 0 || sim_chance(&w->rng, 500))
			gen_ops(&w->qp[i], kind_ops(w));
	}
}

/* The receives that they need. False: more than fits */
bool kind_recvs(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];

		if (!q->srq && !gen_recvs(q, sim_below(&w->rng, 4)))
			return false;
	}
	return true;
}

bool kind_programs(struct sim_world *w)
{
	kind_sends(w);
	return kind_recvs(w);
}

void kind_start(struct sim_world *w, uint64_t late)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		gen_recv_schedule(w, &w->qp[i].rq, late);
		gen_send_schedule(&w->qp[i], 2 * MS);
	}
	sim_program_print(w);
}

/* --- receives that are shared ----------------------------------------------------- */

/* How many messages come to @s, and how long the longest is */
static uint32_t srq_messages(struct sim_srq *s, uint32_t *max)
{
	struct sim_world *w = s->host->w;
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];

		for (uint32_t k = 0; k < q->rwr_n; k++) {
			struct sim_op *op = &q->op[q->rwr[k]];

			if (op->xsrq != s && q->peer->srq != s)
				continue;
			n++;
			if (op->opcode != IBV_WR_RDMA_WRITE_WITH_IMM && op->len > *max)
				*max = op->len;
		}
	}
	return n;
}

/* Receives for all of them, each for the longest */
static bool srq_recvs(struct sim_srq *s)
{
	uint64_t tag = (uint64_t)SIM_TAG_SRQ << 48 | (uint64_t)s->id << 32;
	uint32_t max = 0, n = srq_messages(s, &max);

	if (n > SIM_RECVS)
		return false;
	for (n += sim_below(&s->host->w->rng, 3); n; n--) {
		if (!gen_recv(s->host, &s->rq, tag, max))
			return n < 3; /* none that is needed */
	}
	return true;
}

/* Messages that are not too long to be received anywhere */
void kind_small_mtus(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++)
		w->qp[i].mtu = w->qp[i & ~1u].mtu > 1024 ? 1024 : w->qp[i & ~1u].mtu;
}

bool kind_srqs(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nhosts; i++) {
		if (sim_srq_create(&w->host[i], SIM_RECVS, SIM_SGES, NULL)) {
			sim_fail(w, "h%u: an SRQ is refused", i);
			return false;
		}
	}
	return true;
}

bool kind_srqs_fill(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nhosts; i++) {
		for (uint32_t k = 0; k < w->host[i].srqs; k++) {
			if (!srq_recvs(&w->host[i].srq[k]))
				return false;
			gen_recv_schedule(w, &w->host[i].srq[k].rq, 2 * MS);
		}
	}
	return true;
}

void sim_scenario(struct sim_world *w)
{
	switch (w->kind) {
	case SIM_UC:
		kind_uc(w);
		break;
	case SIM_UD:
		kind_ud(w);
		break;
	case SIM_XRC:
		kind_xrc(w);
		break;
	case SIM_SRQ:
		kind_srq(w);
		break;
	case SIM_VANISH:
		kind_vanish(w);
		break;
	case SIM_ERROR:
		kind_error(w);
		break;
	case SIM_RETRY:
		kind_retry(w);
		break;
	case SIM_SQE:
		kind_sqe(w);
		break;
	case SIM_RECOVER:
		kind_recover(w);
		break;
	case SIM_RNR:
		kind_rnr(w);
		break;
	case SIM_MW:
		kind_mw(w);
		break;
	case SIM_ATOMIC:
		kind_atomic(w);
		break;
	case SIM_SQD:
		kind_sqd(w);
		break;
	case SIM_KILL:
		kind_kill(w);
		break;
	case SIM_STALL:
		kind_stall(w);
		break;
	case SIM_CQ:
		kind_cq(w);
		break;
	case SIM_PEER:
		sim_peer(w);
		break;
	case SIM_GARBAGE:
		sim_fuzz_wire(w);
		break;
	case SIM_WQE:
		sim_fuzz_rings(w);
		break;
	case SIM_VERBS:
		sim_fuzz_verbs(w);
		break;
	default:
		kind_rc(w);
		break;
	}
}
