/*
 * sim_kinds_dgram.c - scenarios of unreliable QPs: UC, and UD with multicast.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_kinds.h"

/* --- uc --------------------------------------------------------------------------- */

void kind_uc(struct sim_world *w)
{
	bool srq = sim_chance(&w->rng, 250);

	if (!kind_world(w, false, sim_chance(&w->rng, 300)) || (srq && !kind_srqs(w)) ||
	    !kind_pairs(w, IBV_QPT_UC, 3, srq))
		return;
	if (srq)
		kind_small_mtus(w);
	if (!kind_programs(w) || !gen_connect(w) || !kind_srqs_fill(w))
		return;
	kind_start(w, 500 * US);
	kind_judge(w);
}

/* --- ud --------------------------------------------------------------------------- */

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
		struct sim_host *h = kind_any_host(w);
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

void kind_ud(struct sim_world *w)
{
	uint32_t total = 0, max = 0;
	bool clean, enough = true;

	if (!kind_world(w, sim_chance(&w->rng, 300), sim_chance(&w->rng, 300)))
		return;
	for (uint32_t i = 0; i < w->nhosts; i++) {
		if (!ud_host(&w->host[i]))
			return;
	}
	if ((sim_chance(&w->rng, 250) && !kind_srqs(w)) || !ud_qps(w))
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
	kind_settle(w);
	if (clean && enough)
		ud_complete(w);
	if (w->failed)
		return;
	ud_detach(w);
	kind_finish(w);
}
