/*
 * sim_kinds.c - the kinds of scenarios: what is drawn, what is allowed to happen, what is
 * judged.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_gen.h"

#define BIT(s)	    (1u << (s))
#define SIM_MW_READ (SIM_MWS - 1) /* may be read only */
#define LATE_RUNS   50
#define LONG_ENOUGH (3600ull * 1000 * MS) /* virtual */

static const char *const kind_names[SIM_KINDS] = {
    [SIM_RC] = "rc",	   [SIM_UC] = "uc",	      [SIM_UD] = "ud",
    [SIM_SRQ] = "srq",	   [SIM_ODP] = "odp",	      [SIM_VANISH] = "vanish",
    [SIM_ERROR] = "error", [SIM_RETRY] = "retry",     [SIM_RNR] = "rnr",
    [SIM_MW] = "mw",	   [SIM_ATOMIC] = "atomic",   [SIM_SQD] = "sqd",
    [SIM_KILL] = "kill",   [SIM_CQ] = "cq",	      [SIM_GARBAGE] = "garbage",
    [SIM_WQE] = "wqe",	   [SIM_XRC] = "xrc",	      [SIM_VERBS] = "verbs",
    [SIM_SQE] = "sqe",	   [SIM_RECOVER] = "recover",
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

/* --- running and judging --- */

static void come_to_rest(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nhosts; i++)
		sim_host_work(&w->host[i]);
	if (!sim_run(w, w->now + LONG_ENOUGH))
		sim_fail(w, "the world does not come to rest");
}

/* Everything succeeded on QPs to which nothing may happen */
static void settle(struct sim_world *w)
{
	come_to_rest(w);
	for (uint32_t i = 0; i < w->nqps && !w->failed; i++) {
		struct sim_qp *q = &w->qp[i];

		if (!q->lost && !q->errored && !q->may_flush && !q->may)
			sim_model_settle(q);
	}
}

/* All QPs are errored: what is still posted is flushed; then memory must be right */
static void finish(struct sim_world *w)
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
	come_to_rest(w);
	if (!w->failed)
		sim_model_end(w);
	w->judged = true;
}

static void judge(struct sim_world *w)
{
	settle(w);
	if (!w->failed)
		finish(w);
}

static struct sim_host *any_host(struct sim_world *w)
{
	return &w->host[sim_below(&w->rng, w->nhosts)];
}

/* One to @max pairs; a QP may have its peer on its own host */
static bool draw_pairs(struct sim_world *w, enum ibv_qp_type type, uint32_t max, bool srq)
{
	uint32_t n = sim_range(&w->rng, 1, max);

	while (n--) {
		struct sim_host *a = any_host(w), *b = any_host(w);

		if (a == b && !sim_chance(&w->rng, 300))
			b = &w->host[(a->id + 1) % w->nhosts];
		if (!gen_pair(w, a, b, type, srq && sim_chance(&w->rng, 700)))
			return false;
	}
	return true;
}

static bool draw_world(struct sim_world *w, bool lossless, bool hostile_memory)
{
	gen_net(w, lossless);
	gen_mem(w, hostile_memory);
	return gen_hosts(w, sim_chance(&w->rng, 200) ? 3 : 2);
}

static uint32_t ops_per_qp(struct sim_world *w)
{
	return sim_range(&w->rng, 1, sim_chance(&w->rng, 100) ? SIM_OPS : 14);
}

/* Programs both ways */
static void draw_sends(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		if (i % 2 == 0 || sim_chance(&w->rng, 500))
			gen_ops(&w->qp[i], ops_per_qp(w));
	}
}

/* The receives that they need. False: more than fits */
static bool draw_recvs(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];

		if (!q->srq && !gen_recvs(q, sim_below(&w->rng, 4)))
			return false;
	}
	return true;
}

static bool draw_programs(struct sim_world *w)
{
	draw_sends(w);
	return draw_recvs(w);
}

static void start(struct sim_world *w, uint64_t late)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		gen_recv_schedule(w, &w->qp[i].rq, late);
		gen_send_schedule(&w->qp[i], 2 * MS);
	}
	sim_program_print(w);
}

/* --- rc, odp --- */

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

static void kind_rc(struct sim_world *w)
{
	bool odp = w->kind == SIM_ODP;

	if (!draw_world(w, false, odp) || !draw_pairs(w, IBV_QPT_RC, 3, false) ||
	    !draw_programs(w) || !gen_connect(w))
		return;
	start(w, 2 * MS);
	w->no_resend = !odp && nothing_can_go_wrong(w);
	if (odp) {
		gen_moves(w, 5 * MS, sim_below(&w->rng, 40));
		gen_prefetches(w, 3 * MS, sim_below(&w->rng, 8));
	}
	judge(w);
}

/* --- receives that are shared --- */

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
static void small_mtus(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++)
		w->qp[i].mtu = w->qp[i & ~1u].mtu > 1024 ? 1024 : w->qp[i & ~1u].mtu;
}

static bool srqs_create(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nhosts; i++) {
		if (sim_srq_create(&w->host[i], SIM_RECVS, SIM_SGES, NULL)) {
			sim_fail(w, "h%u: an SRQ is refused", i);
			return false;
		}
	}
	return true;
}

static bool srqs_fill(struct sim_world *w)
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

/* --- uc --- */

static void kind_uc(struct sim_world *w)
{
	bool srq = sim_chance(&w->rng, 250);

	if (!draw_world(w, false, sim_chance(&w->rng, 300)) || (srq && !srqs_create(w)) ||
	    !draw_pairs(w, IBV_QPT_UC, 3, srq))
		return;
	if (srq)
		small_mtus(w);
	if (!draw_programs(w) || !gen_connect(w) || !srqs_fill(w))
		return;
	start(w, 500 * US);
	judge(w);
}

/* --- ud --- */

static void ud_op(struct sim_qp *q)
{
	struct sim_world *w = q->host->w;
	struct sim_op *op = gen_op(q);
	struct sim_qp *to = &w->qp[sim_below(&w->rng, w->nqps)];

	if (!op)
		return;
	op->ud.ah = q->host->ah[to->host->id];
	op->ud.qpn = to->qpn;
	op->ud.qkey = to->qkey;
	op->to = to;
	if (sim_chance(&w->rng, 200)) {
		op->ud.ah = q->host->ah[SIM_HOSTS];
		op->ud.qpn = ROCE_QPN_MULTICAST;
		op->to = NULL;
	} else if (sim_chance(&w->rng, 80)) {
		op->ud.qkey ^= 0x100;
		op->undeliverable = true;
	}
}

static bool ud_host(struct sim_host *h)
{
	struct sim_world *w = h->w;

	for (uint32_t i = 0; i <= SIM_HOSTS; i++) {
		struct ibv_ah_attr a = {.is_global = 1, .port_num = EMU_PORT};
		int err;

		if (i < SIM_HOSTS && i >= w->nhosts)
			continue;
		memcpy(a.grh.dgid.raw, i == SIM_HOSTS ? w->group.b : w->host[i].ip.b, 16);
		a.grh.hop_limit = 1;
		err = emu_ah_create(h->pd, &a, &h->ah[i]);
		if (err) {
			sim_fail(w, "h%u: an AH is refused: %s", h->id, strerror(-err));
			return false;
		}
	}
	return true;
}

static bool ud_qps(struct sim_world *w)
{
	for (uint32_t n = sim_range(&w->rng, 2, SIM_QPS); n; n--) {
		struct sim_host *h = any_host(w);
		struct sim_qp *q =
		    gen_qp(h, IBV_QPT_UD, h->srqs && sim_chance(&w->rng, 500));

		if (!q)
			return false;
		q->mtu = 4096;
		if (sim_chance(&w->rng, 800))
			q->mtu = 512; /* of its messages: keeps scenarios small */
	}
	return gen_connect(w);
}

static void ud_attach(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];
		int err;

		if (!sim_chance(&w->rng, 500))
			continue;
		err = emu_qp_attach_mcast(q->qp, &w->group);
		if (err)
			sim_fail(w, "q%u cannot be attached: %s", q->id, strerror(-err));
		q->attached = true;
	}
}

static void ud_detach(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];
		int err = emu_qp_detach_mcast(q->qp, &w->group);

		if (q->attached ? err : !err)
			sim_fail(w, "q%u: detach says %d", q->id, err);
	}
}

/* On a clean network with receives in time every message arrives, once, where it must */
static void ud_complete(struct sim_world *w)
{
	uint32_t members = 0;
	bool shared = false;

	for (uint32_t i = 0; i < w->nqps; i++) {
		members += w->qp[i].attached;
		shared = shared || (w->qp[i].attached && w->qp[i].srq);
	}
	for (uint32_t i = 0; i < w->nqps && !w->failed; i++) {
		struct sim_qp *q = &w->qp[i];

		for (uint32_t k = 0; k < q->n; k++) {
			struct sim_op *op = &q->op[k];

			uint32_t due = op->to ? !op->undeliverable : members;

			if ((op->to ? !!op->to->srq : shared) || op->len < 4)
				continue; /* no receive perhaps, or like another one */
			if (op->delivered != due)
				sim_fail(w, "q%u send %u: delivered %u times, not %u",
					 q->id, k, op->delivered, due);
		}
	}
}

static void ud_srq_recvs(struct sim_host *h, uint32_t max)
{
	struct sim_world *w = h->w;

	if (!h->srqs)
		return;
	for (uint32_t n = sim_below(&w->rng, 40); n; n--)
		gen_recv(h, &h->srq[0].rq, (uint64_t)SIM_TAG_SRQ << 48, 40 + max);
	gen_recv_schedule(w, &h->srq[0].rq, 500 * US);
}

static void kind_ud(struct sim_world *w)
{
	uint32_t total = 0, max = 0;
	bool clean, enough = true;

	if (!draw_world(w, sim_chance(&w->rng, 300), sim_chance(&w->rng, 300)))
		return;
	for (uint32_t i = 0; i < w->nhosts; i++) {
		if (!ud_host(&w->host[i]))
			return;
	}
	if ((sim_chance(&w->rng, 250) && !srqs_create(w)) || !ud_qps(w))
		return;
	ud_attach(w);
	for (uint32_t i = 0; i < w->nqps; i++) {
		for (uint32_t n = sim_below(&w->rng, 10); n; n--)
			ud_op(&w->qp[i]);
		total += w->qp[i].n;
		max = w->qp[i].mtu > max ? w->qp[i].mtu : max;
	}
	clean = sim_clean(w);
	for (uint32_t i = 0; i < w->nhosts; i++)
		ud_srq_recvs(&w->host[i], max);
	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];
		uint64_t tag = (uint64_t)SIM_TAG_RECV << 48 | (uint64_t)q->id << 32;
		uint32_t n = clean ? total : sim_below(&w->rng, 16);

		while (!q->srq && n-- && gen_recv(q->host, &q->rq, tag, 40 + max))
			;
		q->rq.credit = clean ? q->rq.n : 0;
		sim_rq_push(&q->rq);
		enough = enough && (q->srq || q->rq.next >= total);
		gen_recv_schedule(w, &q->rq, 500 * US);
		gen_send_schedule(q, 2 * MS);
	}
	sim_program_print(w);
	settle(w);
	if (clean && enough)
		ud_complete(w);
	if (w->failed)
		return;
	ud_detach(w);
	finish(w);
}

/* --- srq --- */

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

static void kind_srq(struct sim_world *w)
{
	uint32_t limit[SIM_HOSTS];

	if (!draw_world(w, false, false))
		return;
	if (!srqs_create(w) || !draw_pairs(w, IBV_QPT_RC, 3, true))
		return;
	small_mtus(w);
	if (!draw_programs(w) || !gen_connect(w) || !srqs_fill(w))
		return;
	srq_limits(w, limit);
	start(w, 2 * MS);
	settle(w);
	for (uint32_t i = 0; i < w->nhosts && !w->failed; i++) {
		struct sim_srq *s = &w->host[i].srq[0];
		bool below = s->rq.next - s->rq.done < limit[i];

		if (s->limit_events != (limit[i] && below))
			sim_fail(w, "h%u: %u limit events, limit %u, %u left", i,
				 s->limit_events, limit[i], s->rq.next - s->rq.done);
	}
	finish(w);
}

/* --- xrc --- */

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

static void kind_xrc(struct sim_world *w)
{
	if (!draw_world(w, false, sim_chance(&w->rng, 200)))
		return;
	for (uint32_t i = 0; i < w->nhosts; i++) {
		if (!xrc_host(&w->host[i]))
			return;
	}
	if (!draw_pairs(w, IBV_QPT_XRC_SEND, 3, false))
		return;
	small_mtus(w);
	for (uint32_t i = 0; i < w->nqps; i += 2)
		gen_ops(&w->qp[i], ops_per_qp(w));
	if (!gen_connect(w))
		return;
	if (!srqs_fill(w))
		return;
	start(w, 0);
	judge(w);
}

/* --- error --- */

enum error_case {
	E_LKEY,
	E_LKEY_BOUNDS,
	E_LKEY_PD,
	E_LKEY_RIGHTS,
	E_RKEY,
	E_RKEY_BOUNDS,
	E_RKEY_PD,
	E_RKEY_READ,
	E_RKEY_WRITE,
	E_MISALIGNED,
	E_LONG_SEND,
	E_RECV_LKEY,
	E_OPCODE,
	E_BIND,
	E_QP_RIGHTS,
	E_CASES,
};

static void bad_sge(struct sim_op *op, struct sim_host *h, uint32_t mr, uint64_t addr)
{
	op->flags &= ~(uint32_t)IBV_SEND_INLINE;
	op->nsge = 1;
	op->sge[0] = (struct sim_sge){.arena = SIM_PINNED,
				      .off = SIM_ARENA_LEN, /* not in the model */
				      .len = op->len,
				      .addr = addr,
				      .lkey = h->mr[mr].lkey};
	op->must = BIT(IBV_WC_LOC_PROT_ERR);
}

static void bad_rkey(struct sim_op *op, struct sim_host *h, uint32_t mr)
{
	op->rarena = SIM_PINNED;
	op->roff = SIM_ARENA_LEN; /* nothing may be written: the model forgives nothing */
	op->va = sim_addr(h, SIM_PINNED, SIM_SRC_LEN) + h->mr[mr].delta;
	op->rkey = h->mr[mr].rkey;
	op->must = BIT(IBV_WC_REM_ACCESS_ERR);
}

/* An operation with some length */
static struct sim_op *error_op(struct sim_qp *q, uint32_t opcode)
{
	struct sim_op *op = gen_op_of(q, opcode);

	if (op && !op->len && opcode != IBV_WR_BIND_MW) {
		op->len = 5;
		op->flags &= ~(uint32_t)IBV_SEND_INLINE;
		op->nsge = 0;
		while (!op->nsge)
			op->nsge = gen_sources(q->host, op->sge, op->len);
	}
	return op;
}

/* Append the operation that fails. @remote: the responder's QP fails with it */
static struct sim_op *draw_error(struct sim_qp *q, enum error_case e, bool *remote)
{
	static const uint32_t write_or_send[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						 IBV_WR_RDMA_WRITE_WITH_IMM};
	struct sim_rng *r = &q->host->w->rng;
	struct sim_host *h = q->host, *ph = q->peer->host;
	static const uint32_t qp_rights[] = {IBV_WR_RDMA_WRITE,
					     IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
					     IBV_WR_ATOMIC_FETCH_AND_ADD};
	uint32_t any = write_or_send[sim_below(r, 3)];
	uint32_t rdma =
	    sim_chance(r, 500) ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
	uintptr_t end = sim_addr(h, SIM_PINNED, SIM_ARENA_LEN);
	struct sim_op *op;

	*remote = e >= E_RKEY && e <= E_RECV_LKEY;
	switch (e) {
	case E_LKEY:
		op = error_op(q, any);
		if (op) {
			bad_sge(op, h, SIM_MR_PIN, sim_addr(h, SIM_PINNED, 0));
			op->sge[0].lkey ^= sim_chance(r, 500) ? 0x1 : 0x7fff00;
		}
		break;
	case E_LKEY_BOUNDS:
		op = error_op(q, any);
		if (op)
			bad_sge(op, h, SIM_MR_PIN, end - op->len + 1);
		break;
	case E_LKEY_PD:
		op = error_op(q, any);
		if (op)
			bad_sge(op, h, SIM_MR_PD2, sim_addr(h, SIM_PINNED, 0));
		break;
	case E_LKEY_RIGHTS:
		op = error_op(q, IBV_WR_RDMA_READ);
		if (op)
			bad_sge(op, h, SIM_MR_RDONLY,
				sim_addr(h, SIM_PINNED, SIM_SRC_LEN));
		break;
	case E_RKEY:
		op = error_op(q, rdma);
		if (op) {
			bad_rkey(op, ph, SIM_MR_PIN);
			op->rkey ^= sim_chance(r, 500) ? 0x1 : 0x7fff00;
		}
		break;
	case E_RKEY_BOUNDS:
		op = error_op(q, sim_chance(r, 500) ? rdma : (uint32_t)IBV_WR_RDMA_READ);
		if (op) {
			bad_rkey(op, ph, SIM_MR_PIN);
			op->va = sim_addr(ph, SIM_PINNED, SIM_ARENA_LEN) - op->len + 1;
		}
		break;
	case E_RKEY_PD:
		op = error_op(q, rdma);
		if (op)
			bad_rkey(op, ph, SIM_MR_PD2);
		break;
	case E_RKEY_READ:
		op = error_op(q, IBV_WR_RDMA_READ);
		if (op)
			bad_rkey(op, ph, SIM_MR_LOCAL);
		break;
	case E_RKEY_WRITE:
		op = error_op(
		    q, sim_chance(r, 300) ? (uint32_t)IBV_WR_ATOMIC_FETCH_AND_ADD : rdma);
		if (op)
			bad_rkey(op, ph, SIM_MR_RREAD);
		break;
	case E_MISALIGNED:
		op = error_op(q, IBV_WR_ATOMIC_FETCH_AND_ADD);
		if (op) {
			op->va += 1 + sim_below(r, 7);
			op->must = BIT(IBV_WC_REM_INV_REQ_ERR);
		}
		break;
	case E_LONG_SEND:
		op = error_op(q, IBV_WR_SEND);
		if (op)
			op->must = BIT(IBV_WC_REM_INV_REQ_ERR);
		break;
	case E_RECV_LKEY:
		op = error_op(q, IBV_WR_SEND);
		if (op)
			op->must = BIT(IBV_WC_REM_OP_ERR);
		break;
	case E_OPCODE:
		op = error_op(q, IBV_WR_SEND);
		if (op) {
			q->rwr_n--;
			op->opcode = 11 + sim_below(r, 3);
			op->must = BIT(IBV_WC_LOC_QP_OP_ERR);
		}
		break;
	case E_BIND:
		op = gen_op_of(q, IBV_WR_SEND);
		if (op) {
			q->rwr_n--;
			op->opcode = IBV_WR_BIND_MW;
			op->ex = 0;
			op->flags &= ~(uint32_t)IBV_SEND_INLINE;
			op->nsge = op->len = 0;
			op->mw.mr_lkey = h->mr[SIM_MR_PIN].lkey;
			op->mw.mw_rkey = 0x123400;
			op->mw.rkey = 0x123401;
			op->mw.addr = sim_addr(h, SIM_PINNED, 0);
			op->mw.length = 100;
			op->must = BIT(IBV_WC_MW_BIND_ERR);
		}
		break;
	default:
		op = error_op(q, qp_rights[sim_below(r, 4)]);
		if (op)
			op->must =
			    BIT(IBV_WC_REM_INV_REQ_ERR) | BIT(IBV_WC_REM_ACCESS_ERR);
		*remote = true;
		break;
	}
	return op;
}

/* The receive WQE that message @op meets is too short, or has a bad key */
static void bad_recv(struct sim_qp *p, struct sim_op *op, enum error_case e)
{
	struct sim_recv *r = &p->rq.recv[p->peer->rwr_n - 1];
	struct sim_host *h = p->host;

	r->nsge = 1;
	gen_sge(h, &r->sge[0], SIM_PINNED, SIM_SRC_LEN, 0);
	if (e == E_LONG_SEND) {
		r->len = op->len - 1;
		r->sge[0].off = sim_mem_alloc(h, SIM_PINNED, r->len, 1);
		if (r->sge[0].off == SIM_ARENA_LEN) {
			r->sge[0].off = SIM_SRC_LEN;
			r->len = 0;
		}
		r->sge[0].addr += r->sge[0].off - SIM_SRC_LEN;
		r->must = BIT(IBV_WC_LOC_LEN_ERR);
	} else {
		r->len = op->len;
		r->sge[0].lkey ^= 0x7fff00;
		r->sge[0].off = SIM_ARENA_LEN;
		r->must = BIT(IBV_WC_LOC_PROT_ERR);
	}
	r->sge[0].len = r->len;
}

/* After a failure: who may end how */
static void allow_failure(struct sim_world *w, struct sim_qp *q, bool remote)
{
	struct sim_qp *p = q->peer;
	bool lossy = w->net.loss || w->net.corrupt || w->net.reorder || w->net.dup;

	q->may_flush = p->may_flush = true;
	/* the NAK may be lost, and then a responder in ERR says nothing more */
	if (lossy)
		q->may = BIT(IBV_WC_RETRY_EXC_ERR);
	if (lossy || !remote)
		p->may = BIT(IBV_WC_RETRY_EXC_ERR);
}

/*
 * Both sides saw what they must: the responder a completion in error, or, where no
 * receive WQE was involved, an event (IBTA 10.10.2.3)
 */
static void judge_error(struct sim_world *w, struct sim_qp *q, struct sim_op *op,
			bool remote)
{
	bool lossy = q->may != 0;

	if (w->failed || lossy)
		return;
	if (op->state != SIM_OP_FAILED)
		sim_fail(w, "q%u send %u: must fail and did not", q->id,
			 (uint32_t)op->wr_id);
	else if (!(op->must & BIT(op->status)))
		sim_fail(w, "q%u send %u: failed with status %u", q->id,
			 (uint32_t)op->wr_id, op->status);
	else if (remote && !q->peer->recv_error &&
		 !q->peer->events[IBV_EVENT_QP_ACCESS_ERR] &&
		 !q->peer->events[IBV_EVENT_QP_REQ_ERR] &&
		 !q->peer->events[IBV_EVENT_QP_FATAL])
		sim_fail(w, "q%u: failed a request without an asynchronous event",
			 q->peer->id);
}

static void restrict_qp(struct sim_world *w, struct sim_qp *p)
{
	struct ibv_qp_attr a = {.qp_access_flags = 0};
	int err = emu_qp_modify(p->qp, &a, IBV_QP_ACCESS_FLAGS);

	if (err)
		sim_fail(w, "q%u: access flags cannot be changed: %s", p->id,
			 strerror(-err));
}

static void kind_error(struct sim_world *w)
{
	enum error_case e = (enum error_case)sim_below(&w->rng, E_CASES);
	struct sim_qp *q, *p;
	struct sim_op *op;
	bool remote;
	uint32_t n;

	if (!draw_world(w, sim_chance(&w->rng, 600), false) ||
	    !draw_pairs(w, IBV_QPT_RC, 2, false))
		return;
	q = &w->qp[sim_below(&w->rng, w->nqps)];
	p = q->peer;
	if (e == E_QP_RIGHTS || !sim_chance(&w->rng, 700))
		n = 0;
	else
		n = sim_below(&w->rng, 8);
	gen_ops(q, n);
	op = draw_error(q, e, &remote);
	if (!op)
		return;
	op->flags = (op->flags & (IBV_SEND_INLINE | IBV_SEND_FENCE)) |
		    (sim_chance(&w->rng, 500) ? IBV_SEND_SIGNALED : 0);
	n = (uint32_t)(op - q->op);
	gen_ops(p, sim_below(&w->rng, 8));
	if (!gen_recvs(q, 2) || !gen_recvs(p, 3))
		return;
	if (e == E_LONG_SEND || e == E_RECV_LKEY)
		bad_recv(p, op, e);
	/* a READ fails when its data comes: what follows is under way then */
	if (e != E_LKEY_RIGHTS)
		gen_ops(q, sim_below(&w->rng, 5));
	for (uint32_t i = n + 1; i < q->n; i++) {
		if (sim_takes_recv(q->op[i].opcode))
			q->rwr_n--;
	}
	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *o = &w->qp[i];

		if (o != q && o != p) {
			gen_ops(o, 3);
			if (!gen_recvs(o->peer, 0))
				return;
		}
	}
	allow_failure(w, q, remote);
	if (!gen_connect(w))
		return;
	if (e == E_QP_RIGHTS)
		restrict_qp(w, p);
	start(w, 500 * US);
	settle(w);
	judge_error(w, q, op, remote);
	finish(w);
}

/* --- retry --- */

static void kind_retry(struct sim_world *w)
{
	uint64_t t0, unit, least, most;
	struct sim_qp *q, *p;

	if (!draw_world(w, true, false) ||
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
	settle(w);
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
	finish(w);
}

/* --- sqe --- */

/* All messages of @q came to its peer, once: nothing is lost here */
static void judge_delivery(struct sim_qp *q)
{
	for (uint32_t i = 0; i < q->n; i++) {
		struct sim_op *op = &q->op[i];
		uint32_t due = op->state == SIM_OP_OK && sim_takes_recv(op->opcode);

		if (op->len > 3 && op->delivered != due)
			sim_fail(q->host->w, "q%u send %u: delivered %u times", q->id, i,
				 op->delivered);
	}
}

static bool overcome(struct sim_qp *q)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	int err;

	emu_qp_query(q->qp, &a, &init);
	if (a.qp_state != IBV_QPS_SQE) {
		sim_fail(q->host->w, "q%u is in state %d, not SQE", q->id, a.qp_state);
		return false;
	}
	err = sim_qp_state(q, IBV_QPS_RTS);
	if (err)
		sim_fail(q->host->w, "q%u: SQE to RTS: %s", q->id, strerror(-err));
	q->errored = q->may_flush = false;
	q->errored_once = true;
	return !err;
}

static void kind_sqe(struct sim_world *w)
{
	static const enum error_case cases[] = {E_LKEY, E_LKEY_BOUNDS, E_LKEY_PD,
						E_OPCODE};
	enum error_case e = cases[sim_below(&w->rng, 4)];
	struct sim_qp *q, *p;
	struct sim_op *op;
	bool remote;

	if (!draw_world(w, true, false) ||
	    !gen_pair(w, &w->host[0], &w->host[1], IBV_QPT_UC, false))
		return;
	q = &w->qp[0];
	p = &w->qp[1];
	gen_ops(q, sim_below(&w->rng, 6));
	op = draw_error(q, e, &remote);
	if (!op)
		return;
	gen_ops(q, sim_below(&w->rng, 6));
	gen_ops(p, sim_below(&w->rng, 8));
	if (!gen_recvs(q, 2) || !gen_recvs(p, 20) || !gen_connect(w))
		return;
	p->rq.credit = p->rq.n;
	q->rq.credit = q->rq.n;
	sim_rq_push(&q->rq);
	sim_rq_push(&p->rq);
	if (p->rq.next != p->rq.n || q->rq.next != q->rq.n)
		return; /* the rings are too small to have no losses */
	q->may_flush = true;
	start(w, 0);
	settle(w);
	if (w->failed || !overcome(q))
		return;
	for (uint32_t n = 0; n < 6; n++)
		gen_op_of(q, IBV_WR_RDMA_WRITE);
	op = gen_op_of(q, IBV_WR_SEND);
	for (uint32_t i = 0; op && i < p->rq.n; i++) {
		if (p->rq.recv[i].len < op->len) /* would be dropped */
			op->len = op->nsge = 0;
	}
	gen_send_schedule(q, 100 * US);
	settle(w);
	if (!w->failed)
		judge_delivery(q);
	if (!w->failed)
		judge_delivery(p);
	finish(w);
}

/* --- recover --- */

static void kind_recover(struct sim_world *w)
{
	uint64_t t0 = w->now, timeout;
	struct sim_qp *q, *p;

	gen_net(w, true);
	gen_mem(w, false);
	w->slow_faults = sim_chance(&w->rng, 400);
	/* not by RNR NAKs: what follows one is dropped silently, and so betrays nothing
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
	w->drop_nr = sim_range(&w->rng, 1, 2 * q->n);
	sim_program_print(w);
	sim_rq_push(&p->rq);
	sim_qp_push(q);
	settle(w);
	/* what follows a lost packet betrays it: NAK, implied NAK, or coalesced ACK */
	timeout = 4096ull << q->timeout;
	if (w->followed_at && w->followed_at - w->dropped_at < timeout / 2 &&
	    q->done_at > t0 + timeout)
		sim_fail(w, "one packet was lost, and it took %llu us to recover",
			 (unsigned long long)(q->done_at - t0) / 1000);
	finish(w);
}

/* --- rnr --- */

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
	judge(w);
}

static void kind_rnr(struct sim_world *w)
{
	struct sim_qp *q, *p;
	uint64_t t0, least;
	uint32_t n;

	if (!draw_world(w, true, false) ||
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
	settle(w);
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
	finish(w);
}

/* --- vanish --- */

struct doom {
	struct sim_qp *q;
	struct sim_op *op;
	bool remote;
};

/* Give an operation on-demand pages of its own, which will go away */
static bool draw_doomed(struct sim_qp *q, struct doom *d)
{
	static const uint32_t opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
					   IBV_WR_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct sim_world *w = q->host->w;
	struct sim_op *op = error_op(q, opcodes[sim_below(&w->rng, 4)]);
	struct sim_host *h;
	uint32_t off;

	if (!op)
		return false;
	d->q = q;
	d->op = op;
	d->remote = op->opcode != IBV_WR_SEND && sim_chance(&w->rng, 600);
	h = d->remote ? q->peer->host : q->host;
	off = sim_mem_alloc(h, SIM_ONDEMAND, op->len + SIM_PAGE, SIM_PAGE);
	if (off == SIM_ARENA_LEN)
		return false;
	if (op->flags & IBV_SEND_INLINE) {
		op->flags &= ~(uint32_t)IBV_SEND_INLINE;
		op->nsge = gen_sources(q->host, op->sge, op->len);
	}
	if (d->remote) {
		gen_remote(op, h, SIM_ONDEMAND, off);
		op->must = BIT(IBV_WC_REM_ACCESS_ERR) | BIT(IBV_WC_REM_OP_ERR);
	} else {
		op->nsge = 1;
		gen_sge(h, &op->sge[0], SIM_ONDEMAND, off, op->len);
		op->must = BIT(IBV_WC_LOC_PROT_ERR);
	}
	h->arena[SIM_ONDEMAND].used =
	    (h->arena[SIM_ONDEMAND].used + SIM_PAGE) & ~(SIM_PAGE - 1);
	return true;
}

static void vanish(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_host *h = arg;

	sim_mem_unmap(h, SIM_ONDEMAND, (uint32_t)val, (uint32_t)(val >> 32));
}

/* Somewhere, sometime, pages go: any operation may end in an error, memory stays right */
static void vanish_anywhere(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];

		q->may = BIT(IBV_WC_LOC_PROT_ERR) | BIT(IBV_WC_REM_ACCESS_ERR) |
			 BIT(IBV_WC_REM_OP_ERR) | BIT(IBV_WC_RETRY_EXC_ERR) |
			 BIT(IBV_WC_RNR_RETRY_EXC_ERR);
		q->may_recv = BIT(IBV_WC_LOC_PROT_ERR);
		q->may_flush = true;
	}
	for (uint32_t n = sim_range(&w->rng, 1, 3); n; n--) {
		uint64_t off = sim_below(&w->rng, SIM_ARENA_LEN - 4 * SIM_PAGE);
		uint64_t len = 1 + sim_below(&w->rng, 3 * SIM_PAGE);

		if (sim_chance(&w->rng, 700))
			off = sim_below(&w->rng, 2 * SIM_SRC_LEN);
		sim_at(w, w->now + sim_below(&w->rng, 2 * MS), vanish, any_host(w),
		       len << 32 | off);
	}
}

static void vanish_one(struct sim_world *w, struct doom *d)
{
	struct sim_op *op = d->op;
	struct sim_host *h = d->remote ? d->q->peer->host : d->q->host;
	uint32_t off = d->remote ? op->roff : op->sge[0].off;
	bool writes = d->remote ? op->opcode != IBV_WR_RDMA_READ
				: op->opcode == IBV_WR_RDMA_READ ||
				      op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	/* any page of it; read-only is enough against a write */
	off += sim_below(&w->rng, op->len);
	if (writes && sim_chance(&w->rng, 300))
		sim_mem_protect(h, SIM_ONDEMAND, off, 1);
	else
		sim_mem_unmap(h, SIM_ONDEMAND, off, 1);
	allow_failure(w, d->q, d->remote);
}

static void kind_vanish(struct sim_world *w)
{
	bool exact = sim_chance(&w->rng, 500);
	struct doom d = {0};

	if (!draw_world(w, sim_chance(&w->rng, 500), false))
		return;
	if (!draw_pairs(w, IBV_QPT_RC, 2, false))
		return;
	draw_sends(w);
	if (exact && !draw_doomed(&w->qp[0], &d))
		return;
	if (!draw_recvs(w) || !gen_connect(w))
		return;
	if (exact)
		vanish_one(w, &d);
	else
		vanish_anywhere(w);
	start(w, 500 * US);
	settle(w);
	if (exact)
		judge_error(w, d.q, d.op, d.remote);
	finish(w);
}

/* --- mw --- */

static bool mw_alloc(struct sim_host *h)
{
	struct sim_world *w = h->w;

	for (h->mws = 0; h->mws < SIM_MWS; h->mws++) {
		struct sim_mw *mw = &h->mw[h->mws];
		int err;

		mw->type = h->mws % 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2;
		err = emu_mw_alloc(h->pd, mw->type, &mw->mw);
		if (err) {
			sim_fail(w, "h%u: an MW is refused: %s", h->id, strerror(-err));
			return false;
		}
		mw->rkey = emu_mw_rkey(mw->mw);
	}
	return true;
}

/* A BIND_MW work request for window @i, over a fresh region */
static bool gen_bind(struct sim_qp *q, uint32_t i)
{
	struct sim_host *h = q->host;
	struct sim_mw *mw = &h->mw[i];
	struct sim_op *op = gen_op_of(q, IBV_WR_SEND);
	uint32_t len = 64 + sim_below(&h->w->rng, 8000);

	if (!op)
		return false;
	q->rwr_n--;
	mw->mr = sim_chance(&h->w->rng, 500) ? SIM_MR_PIN : SIM_MR_ODP;
	mw->off = sim_mem_alloc(h, h->mr[mw->mr].arena, len, 8);
	mw->len = len;
	if (mw->off == SIM_ARENA_LEN)
		return false;
	op->opcode = IBV_WR_BIND_MW;
	op->flags = IBV_SEND_SIGNALED;
	op->ex = 0;
	op->len = op->nsge = 0;
	op->mw.addr = sim_addr(h, h->mr[mw->mr].arena, mw->off) + h->mr[mw->mr].delta;
	op->mw.length = len;
	op->mw.mr_lkey = h->mr[mw->mr].lkey;
	op->mw.mw_rkey = mw->rkey;
	op->mw.rkey = (mw->rkey & ~0xffu) | ((mw->rkey + 1) & 0xff);
	op->mw.access = IBV_ACCESS_REMOTE_READ;
	if (i != SIM_MW_READ)
		op->mw.access |= IBV_ACCESS_REMOTE_WRITE;
	return true;
}

/* A request that goes through window @mw of the peer */
static struct sim_op *gen_through(struct sim_qp *q, struct sim_mw *mw, bool inside)
{
	struct sim_world *w = q->host->w;
	struct sim_host *h = q->peer->host;
	struct sim_op *op = error_op(q, IBV_WR_RDMA_WRITE);
	uint32_t at;

	if (!op)
		return NULL;
	if (op->len > mw->len) {
		op->len = mw->len;
		op->flags &= ~(uint32_t)IBV_SEND_INLINE;
		op->nsge = gen_sources(q->host, op->sge, op->len);
	}
	at = inside ? sim_below(&w->rng, mw->len - op->len + 1) : mw->len - op->len + 1;
	op->rarena = h->mr[mw->mr].arena;
	op->roff = mw->off + at;
	op->va = sim_addr(h, op->rarena, op->roff) + h->mr[mw->mr].delta;
	op->rkey = mw->rkey;
	op->rewritten = true; /* another one may write the same bytes */
	return op;
}

static void run_phase(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++)
		gen_send_schedule(&w->qp[i], 500 * US);
	settle(w);
}

/* LOCAL_INV by the owner, or SEND_INV by the peer, of window @mw of @p's host */
static bool gen_invalidate(struct sim_qp *q, struct sim_qp *p, struct sim_mw *mw,
			   bool by_peer)
{
	struct sim_op *op = gen_op_of(by_peer ? q : p, IBV_WR_SEND);

	if (!op)
		return false;
	op->ex = mw->rkey;
	if (by_peer) {
		op->opcode = IBV_WR_SEND_WITH_INV;
		return true;
	}
	p->rwr_n--;
	op->opcode = IBV_WR_LOCAL_INV;
	op->flags = IBV_SEND_SIGNALED;
	op->len = op->nsge = 0;
	return true;
}

/* READs through the window that allows nothing else */
static void gen_read_through(struct sim_qp *q, struct sim_mw *mw)
{
	struct sim_host *h = q->peer->host;
	struct sim_op *op = gen_op_of(q, IBV_WR_RDMA_READ);
	uint32_t at;

	if (!op)
		return;
	if (op->len > mw->len) {
		op->nsge = 1;
		op->len = op->sge[0].len =
		    op->sge[0].len < mw->len ? op->sge[0].len : mw->len;
	}
	at = sim_below(&h->w->rng, mw->len - op->len + 1);
	op->rarena = h->mr[mw->mr].arena;
	op->roff = mw->off + at;
	op->va = sim_addr(h, op->rarena, op->roff) + h->mr[mw->mr].delta;
	op->rkey = mw->rkey;
}

static void use_windows(struct sim_qp *q)
{
	struct sim_world *w = q->host->w;
	struct sim_mw *mw = q->peer->host->mw;

	for (uint32_t n = sim_range(&w->rng, 1, 8); n; n--) {
		if (sim_chance(&w->rng, 300))
			gen_read_through(q, &mw[SIM_MW_READ]);
		else
			gen_through(q, &mw[sim_below(&w->rng, SIM_MW_READ)], true);
	}
}

/* SEND_INV of a window that is another QP's */
static struct sim_op *gen_foreign_inv(struct sim_qp *q, struct sim_mw *mw)
{
	struct sim_qp *p = q->peer;
	struct sim_op *op = gen_op_of(q, IBV_WR_SEND);

	if (!op || !gen_recvs(p, 0))
		return NULL;
	op->opcode = IBV_WR_SEND_WITH_INV;
	op->ex = mw->rkey;
	op->must = BIT(IBV_WC_REM_ACCESS_ERR) | BIT(IBV_WC_REM_INV_REQ_ERR) |
		   BIT(IBV_WC_REM_OP_ERR);
	p->rq.recv[0].must = BIT(IBV_WC_REM_INV_REQ_ERR) | BIT(IBV_WC_LOC_PROT_ERR) |
			     BIT(IBV_WC_LOC_QP_OP_ERR) | BIT(IBV_WC_REM_ACCESS_ERR);
	p->rq.credit = p->rq.n;
	sim_rq_push(&p->rq);
	return op;
}

/* The request that must fail, on @q or @other; @dead was invalidated, @live was not */
static struct sim_op *gen_bad_window(struct sim_qp *q, struct sim_qp *other,
				     struct sim_mw *dead, struct sim_mw *live)
{
	struct sim_host *h = q->peer->host;
	struct sim_op *op;

	switch (sim_below(&h->w->rng, 5)) {
	case 0:
		op = gen_through(q, dead, true);
		break;
	case 1:
		op = gen_through(q, &h->mw[1], false);
		break;
	case 2: /* type 2B: of one QP only */
		op = gen_through(other, live, true);
		break;
	case 3:
		op = gen_through(q, &h->mw[SIM_MW_READ], true);
		break;
	default:
		return gen_foreign_inv(other, live);
	}
	if (!op)
		return NULL;
	op->must = BIT(IBV_WC_REM_ACCESS_ERR);
	op->roff = SIM_ARENA_LEN; /* nothing may be written */
	return op;
}

static void kind_mw(struct sim_world *w)
{
	struct sim_mw *dead, *live;
	struct sim_qp *q, *p;
	struct sim_op *op;
	uint32_t i;

	if (!draw_world(w, sim_chance(&w->rng, 500), false) ||
	    !gen_pair(w, &w->host[0], &w->host[1], IBV_QPT_RC, false) ||
	    !gen_pair(w, &w->host[0], &w->host[1], IBV_QPT_RC, false))
		return;
	q = &w->qp[0];
	p = &w->qp[1];
	if (!mw_alloc(p->host))
		return;
	for (i = 0; i < SIM_MWS; i++) {
		if (!gen_bind(p, i))
			return;
	}
	if (!gen_connect(w))
		return;
	sim_program_print(w);
	run_phase(w);
	if (w->failed)
		return;
	use_windows(q);
	run_phase(w);
	i = 2 * sim_below(&w->rng, 2); /* those of type 2 */
	dead = &p->host->mw[i];
	live = &p->host->mw[2 - i];
	if (w->failed || !gen_invalidate(q, p, dead, sim_chance(&w->rng, 500)) ||
	    !gen_recvs(p, 0))
		return;
	p->rq.credit = p->rq.n;
	sim_rq_push(&p->rq);
	run_phase(w);
	if (w->failed)
		return;
	op = gen_bad_window(q, &w->qp[2], dead, live);
	if (!op)
		return;
	q = &w->qp[op->wr_id >> 32 & 0xffff];
	allow_failure(w, q, true);
	run_phase(w);
	judge_error(w, q, op, true);
	finish(w);
}

/* --- atomic --- */

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

static void kind_atomic(struct sim_world *w)
{
	if (!draw_world(w, false, sim_chance(&w->rng, 300)))
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
		if (!gen_pair(w, any_host(w), &w->host[0], IBV_QPT_RC, false))
			return;
	}
	for (uint32_t i = 0; i < w->nqps; i += 2) {
		for (uint32_t n = sim_range(&w->rng, 1, 24); n; n--)
			shared_op(&w->qp[i]);
	}
	if (!gen_connect(w))
		return;
	start(w, 0);
	settle(w);
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
	finish(w);
}

/* --- sqd --- */

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

static void kind_sqd(struct sim_world *w)
{
	struct sim_qp *q;

	if (!draw_world(w, false, false) || !draw_pairs(w, IBV_QPT_RC, 2, false) ||
	    !draw_programs(w) || !gen_connect(w))
		return;
	q = &w->qp[0];
	q->on_drained = drained;
	sim_at(w, w->now + sim_below(&w->rng, 2 * MS), drain, q, 0);
	start(w, 500 * US);
	settle(w);
	if (!w->failed && (q->drains != 1 || q->events[IBV_EVENT_SQ_DRAINED] != 1))
		sim_fail(w, "q%u: %u SQ_DRAINED events for one drain", q->id,
			 q->events[IBV_EVENT_SQ_DRAINED]);
	finish(w);
}

/* --- kill --- */

static void kill_qp(struct sim_world *w, void *arg, uint64_t val)
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

static void kind_kill(struct sim_world *w)
{
	bool dereg = sim_chance(&w->rng, 300);

	if (!draw_world(w, false, sim_chance(&w->rng, 300)) ||
	    !draw_pairs(w, IBV_QPT_RC, 3, false) || !draw_programs(w) || !gen_connect(w))
		return;
	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];

		q->may = BIT(IBV_WC_RETRY_EXC_ERR) | BIT(IBV_WC_RNR_RETRY_EXC_ERR);
		if (dereg)
			q->may |= BIT(IBV_WC_LOC_PROT_ERR) | BIT(IBV_WC_REM_ACCESS_ERR) |
				  BIT(IBV_WC_REM_OP_ERR);
		q->may_recv = dereg ? BIT(IBV_WC_LOC_PROT_ERR) : 0;
		q->may_flush = true;
		q->rnr_retry = 6;
		if (sim_chance(&w->rng, 600))
			sim_at(w, w->now + sim_below(&w->rng, 3 * MS), kill_qp, q,
			       sim_below(&w->rng, 3));
	}
	if (dereg)
		sim_at(w, w->now + sim_below(&w->rng, 2 * MS), kill_mr, any_host(w),
		       sim_below(&w->rng, SIM_MRS));
	start(w, 500 * US);
	come_to_rest(w);
	if (w->failed)
		return;
	if (!dereg && sim_chance(&w->rng, 500)) {
		if (reuse(w, &w->qp[0], &w->qp[1]))
			settle(w);
		if (w->failed)
			return;
	}
	finish(w);
}

/* --- cq --- */

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
static void kind_cq(struct sim_world *w)
{
	bool small = sim_chance(&w->rng, 400);

	gen_net(w, sim_chance(&w->rng, 500));
	gen_mem(w, false);
	w->cqe = small ? sim_range(&w->rng, 1, 8) : 1000;
	if (!gen_hosts(w, 2) || !draw_pairs(w, IBV_QPT_RC, 3, false) ||
	    !draw_programs(w) || !gen_connect(w))
		return;
	for (uint32_t i = 0; i < 2 * w->nhosts; i++)
		hold_cq(&w->host[i / 2].cq[i % 2], small);
	w->anything_goes = small;
	start(w, 500 * US);
	if (small) {
		come_to_rest(w);
		judge_overrun(w);
		w->judged = true;
		return;
	}
	settle(w);
	for (uint32_t i = 0; i < 2 * w->nhosts && !w->failed; i++)
		judge_events(&w->host[i / 2].cq[i % 2]);
	finish(w);
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
	case SIM_CQ:
		kind_cq(w);
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
