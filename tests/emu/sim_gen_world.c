/*
 * sim_gen_world.c - drawing a scenario's network, memory, hosts and QPs.
 *
 * What is drawn can succeed; what must fail is made so afterwards by sim_kinds*.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_gen.h"

#define SMALL_BOUND 24 /* pages */

/* --- network and memory ----------------------------------------------------------- */

void gen_net(struct sim_world *w, bool lossless)
{
	struct sim_rng *r = &w->rng;
	struct sim_net_cfg *n = &w->net;

	n->delay = 500 + sim_below(r, 20 * US);
	n->late = 2 * n->delay + sim_below(r, 300 * US);
	n->tx_full = sim_chance(r, 300) ? sim_below(r, 200) : 0;
	n->budget = 2;
	if (w->kind != SIM_UD && sim_chance(r, 200))
		n->spoof = sim_below(r, 200);
	if (lossless || sim_chance(r, 150))
		return;
	/* one trouble alone, or all of them */
	if (sim_chance(r, 600))
		n->loss = sim_below(r, 200);
	if (sim_chance(r, 500))
		n->dup = sim_below(r, 200);
	if (sim_chance(r, 500))
		n->reorder = sim_below(r, 250);
	if (sim_chance(r, 300))
		n->corrupt = sim_below(r, 100);
}

void gen_mem(struct sim_world *w, bool hostile)
{
	struct sim_rng *r = &w->rng;

	w->odp = (struct odp_config){.uffd = true};
	w->odp.snapshot = w->kind != SIM_VANISH && sim_chance(r, 200);
	if (!hostile)
		return;
	w->mem.race = sim_chance(r, 500) ? sim_below(r, 150) : 0;
	w->mem.mid_copy = sim_chance(r, 500) ? sim_below(r, 200) : 0;
	w->mem.silent = sim_chance(r, 500) ? sim_below(r, 100) : 0;
	if (sim_chance(r, 300))
		w->odp.latency = sim_below(r, 100 * US);
	if (sim_chance(r, 300))
		w->odp.max_pages = 1 + sim_below(r, 12);
	switch (sim_below(r, 8)) {
	case 0:
	case 1:
		w->odp.model = ODP_FAULT_RNR;
		break;
	case 2:
		w->odp.model = ODP_FAULT_DROP;
		break;
	case 3:
		w->odp.model = ODP_FAULT_FLOOD;
		break;
	case 4:
		w->odp.model = ODP_FAULT_DAMMING;
		break;
	default:
		w->odp.model = ODP_FAULT_SYNC;
		break;
	}
	if (sim_chance(r, 400)) {
		w->mem.slow = sim_below(r, 400);
		w->mem.fetch = sim_below(
		    r, sim_chance(r, 300) && w->odp.model != ODP_FAULT_FLOOD ? 30 * MS
									     : 300 * US);
	}
	/* a fault must be over before the retries of an RC requester are */
	if (w->odp.model != ODP_FAULT_SYNC && w->odp.latency > 20 * US)
		w->odp.latency = 20 * US;
	/* two sides of one host must not take each other's last pages away for ever */
	if (w->odp.max_pages && (w->odp.model != ODP_FAULT_SYNC || w->odp.latency))
		w->odp.max_pages += 8;
	/* faults cost timeouts there, and retries are few: nothing else may */
	if (w->odp.model == ODP_FAULT_DROP || w->odp.model == ODP_FAULT_DAMMING) {
		w->mem = (struct sim_mem_cfg){0};
		w->net.loss = w->net.reorder = w->net.corrupt = w->net.dup = 0;
		w->odp.max_pages += w->odp.max_pages ? SMALL_BOUND : 0;
	}
}

/* Pages of the on-demand arena move while the program runs */
static void move_pages(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_host *h = arg;

	if (h->hca)
		sim_mem_move(h, (uint32_t)val, (uint32_t)(val >> 32));
}

/* ibv_advise_mr(3) of some pages, while the HCA is at work */
static void prefetch(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_host *h = arg;
	struct sim_mr *mr = &h->mr[SIM_MR_ODP + sim_below(&w->rng, 3)];
	enum odp_advice advice = (enum odp_advice)sim_below(&w->rng, 3);
	uint32_t off = (uint32_t)val, len = (uint32_t)(val >> 32);
	int err;

	if (!h->hca || !mr->mr)
		return;
	err = odp_prefetch(emu_mr_odp(mr->mr), sim_addr(h, SIM_ONDEMAND, off) + mr->delta,
			   len, advice);
	if (sim_tracing(w))
		sim_trace(w, "h%u prefetches +%#x, %u bytes, advice %d: %d", h->id, off,
			  len, advice, err);
	if (err && err != -EAGAIN)
		sim_fail(w, "h%u: prefetch of memory that is there says %d", h->id, err);
}

void gen_prefetches(struct sim_world *w, uint64_t span, uint32_t n)
{
	struct sim_rng *r = &w->rng;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t off = sim_below(r, SIM_ARENA_LEN / 2);
		uint64_t len = 1 + sim_below(r, 8 * SIM_PAGE);

		sim_at(w, w->now + sim_below(r, (uint32_t)span), prefetch,
		       &w->host[sim_below(r, w->nhosts)], len << 32 | off);
	}
}

void gen_moves(struct sim_world *w, uint64_t span, uint32_t n)
{
	struct sim_rng *r = &w->rng;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t off = sim_below(r, SIM_ARENA_LEN - SIM_PAGE);
		uint64_t len =
		    1 + sim_below(r, sim_chance(r, 100) ? SIM_ARENA_LEN : 2 * SIM_PAGE);

		sim_at(w, w->now + sim_below(r, (uint32_t)span), move_pages,
		       &w->host[sim_below(r, w->nhosts)], len << 32 | off);
	}
}

/* --- QPs -------------------------------------------------------------------------- */

static void draw_attrs(struct sim_world *w, struct sim_qp *q)
{
	struct sim_rng *r = &w->rng;

	q->sq_psn = sim_chance(r, 500) ? (0xfffff0 + sim_below(r, 40)) & ROCE_PSN_MASK
				       : sim_below(r, 1u << 24);
	q->rd_atomic = sim_range(r, 1, sim_chance(r, 500) ? 2 : 16);
	q->timeout = (uint8_t)sim_range(r, 9, 12); /* 2 to 17 ms: above any delay */
	q->retry_cnt = 7;
	q->rnr_retry = 7;
	q->rnr_timer = (uint8_t)sim_range(r, 1, 14); /* 10 us to 1 ms */
	q->sig_all = sim_chance(r, 200);
	q->qkey = 0x11111111;
}

/* One QP on @h, with its own or the host's CQs */
struct sim_qp *gen_qp(struct sim_host *h, enum ibv_qp_type type, bool srq)
{
	struct sim_world *w = h->w;
	struct sim_qp *q = &w->qp[w->nqps];
	struct sim_wire *wire;

	if (w->nqps == SIM_QPS)
		return NULL;
	wire = q->wire;
	memset(q, 0, sizeof(*q));
	q->wire = wire;
	sim_wire_reset(q);
	q->id = w->nqps;
	q->host = h;
	q->type = type;
	q->scq = &h->cq[0];
	q->rcq = &h->cq[sim_below(&w->rng, h->cqs)];
	q->srq = srq ? &h->srq[0] : NULL;
	q->mtu = 256u << sim_below(&w->rng, 5);
	draw_attrs(w, q);
	w->nqps++;
	if (sim_qp_create(
		h, q, w->kind == SIM_RECOVER ? SIM_OPS : sim_range(&w->rng, 1, 64),
		w->kind == SIM_RNR || w->kind == SIM_RECOVER || w->kind == SIM_SQE
		    ? SIM_RECVS
		    : sim_range(&w->rng, 1, SIM_RECVS)))
		return NULL;
	return q;
}

bool gen_pair(struct sim_world *w, struct sim_host *a, struct sim_host *b,
	      enum ibv_qp_type type, bool srq)
{
	struct sim_qp *p = gen_qp(a, type, srq && a->srqs);
	enum ibv_qp_type other = type == IBV_QPT_XRC_SEND ? IBV_QPT_XRC_RECV : type;
	struct sim_qp *q = p ? gen_qp(b, other, srq && b->srqs) : NULL;

	if (!q)
		return false;
	p->peer = q;
	q->peer = p;
	q->mtu = p->mtu;
	p->rq_psn = q->sq_psn;
	q->rq_psn = p->sq_psn;
	return true;
}

bool gen_connect(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		if (sim_qp_connect(&w->qp[i]))
			return false;
	}
	return true;
}

bool gen_hosts(struct sim_world *w, uint32_t n)
{
	w->nhosts = n;
	if (sim_hosts_create(w))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct sim_host *h = &w->host[i];
		int err = sim_mrs_create(h);

		for (h->cqs = 0; h->cqs < 2 && !err; h->cqs++)
			err = sim_cq_create(h, &h->cq[h->cqs], w->cqe ? w->cqe : 256);
		if (err) {
			sim_fail(w, "h%u: objects cannot be created: %d", i, err);
			return false;
		}
	}
	return true;
}
