/*
 * sim_gen.c - drawing operations, receive WQEs, schedules and networks of a scenario.
 *
 * The pieces from which sim_kinds.c builds scenarios. What is drawn here can succeed;
 * what must fail is made so afterwards by sim_kinds.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_gen.h"

#define SMALL_BOUND 24 /* pages */

bool sim_takes_recv(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

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

/* --- lengths and regions ---------------------------------------------------------- */

uint32_t gen_len(struct sim_world *w, uint32_t mtu, uint32_t max)
{
	struct sim_rng *r = &w->rng;
	uint32_t len;

	switch (sim_below(r, 12)) {
	case 0:
		len = 0;
		break;
	case 1:
		len = 1;
		break;
	case 2:
		len = mtu - 1;
		break;
	case 3:
		len = mtu;
		break;
	case 4:
		len = mtu + 1;
		break;
	case 5:
		len = 2 * mtu;
		break;
	case 6:
		len = sim_below(r, 8) * mtu + sim_range(r, 0, 5);
		break;
	case 7:
		len = sim_below(r, 8 * mtu);
		break;
	default:
		len = sim_below(r, 200);
		break;
	}
	return len < max ? len : max;
}

static enum sim_arena_kind gen_arena(struct sim_world *w)
{
	bool mostly = w->kind == SIM_ODP || w->kind == SIM_VANISH ||
		      w->kind == SIM_STALL || w->slow_faults;

	if (w->pinned_only)
		return SIM_PINNED;
	return sim_chance(&w->rng, mostly ? 900 : 250) ? SIM_ONDEMAND : SIM_PINNED;
}

/* One of the MRs that cover the arena with every right */
struct sim_mr *gen_mr(struct sim_host *h, enum sim_arena_kind a)
{
	struct sim_rng *r = &h->w->rng;

	if (a == SIM_PINNED)
		return &h->mr[SIM_MR_PIN + sim_below(r, 2)];
	return &h->mr[SIM_MR_ODP + sim_below(r, 3)];
}

void gen_sge(struct sim_host *h, struct sim_sge *s, enum sim_arena_kind a, uint32_t off,
	     uint32_t len)
{
	struct sim_mr *mr = gen_mr(h, a);

	*s = (struct sim_sge){.arena = a,
			      .off = off,
			      .len = len,
			      .addr = sim_addr(h, a, off) + mr->delta,
			      .lkey = mr->lkey};
}

/* Cut @len into 1 to @max pieces; their number */
static uint32_t gen_pieces(struct sim_world *w, uint32_t len, uint32_t max,
			   uint32_t *piece)
{
	struct sim_rng *r = &w->rng;
	uint32_t n = sim_chance(r, 600) ? 1 : sim_range(r, 1, max);

	if (!len && sim_chance(r, 500))
		return 0;
	for (uint32_t i = 0; i + 1 < n; i++) {
		piece[i] = sim_below(r, len + 1);
		len -= piece[i];
	}
	piece[n - 1] = len;
	return n;
}

/* Sources: anywhere in the constant head of an arena */
uint32_t gen_sources(struct sim_host *h, struct sim_sge *sge, uint32_t len)
{
	uint32_t piece[SIM_SGES], n = gen_pieces(h->w, len, SIM_SGES, piece);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t off = sim_below(&h->w->rng, SIM_SRC_LEN - piece[i] + 1);

		gen_sge(h, &sge[i], gen_arena(h->w), off, piece[i]);
	}
	return n;
}

/* A fresh region in any arena that has room; SIM_ARENA_LEN: full */
static uint32_t gen_target(struct sim_host *h, enum sim_arena_kind *a, uint32_t len,
			   uint32_t align)
{
	uint32_t off;

	*a = gen_arena(h->w);
	off = sim_mem_alloc(h, *a, len, align);
	if (off == SIM_ARENA_LEN) {
		*a = *a == SIM_PINNED ? SIM_ONDEMAND : SIM_PINNED;
		off = sim_mem_alloc(h, *a, len, align);
	}
	return off;
}

/* Targets: fresh regions. SIM_SGES + 1: no room */
static uint32_t gen_targets(struct sim_host *h, struct sim_sge *sge, uint32_t len)
{
	uint32_t piece[SIM_SGES], n = gen_pieces(h->w, len, SIM_SGES, piece);

	for (uint32_t i = 0; i < n; i++) {
		enum sim_arena_kind a;
		uint32_t off = gen_target(h, &a, piece[i], 1);

		if (off == SIM_ARENA_LEN)
			return SIM_SGES + 1;
		gen_sge(h, &sge[i], a, off, piece[i]);
	}
	return n;
}

static uint32_t gen_room(const struct sim_host *h)
{
	uint32_t a = sim_mem_room(h, SIM_PINNED), b = sim_mem_room(h, SIM_ONDEMAND);
	uint32_t room = a < b ? a : b;

	return room > 4096 ? room - 4096 : 0;
}

void gen_remote(struct sim_op *op, struct sim_host *h, enum sim_arena_kind a,
		uint32_t off)
{
	struct sim_mr *mr = gen_mr(h, a);

	op->rarena = a;
	op->roff = off;
	op->va = sim_addr(h, a, off) + mr->delta;
	op->rkey = mr->rkey;
}

/* --- operations ------------------------------------------------------------------- */

/* Inline where it fits, or SGEs */
static void gen_payload(struct sim_qp *q, struct sim_op *op)
{
	struct sim_rng *r = &q->host->w->rng;

	if (op->len <= q->max_inline && sim_chance(r, 250)) {
		op->flags |= IBV_SEND_INLINE;
		op->nsge = op->len ? 1 : 0;
		for (uint32_t i = 0; i < op->len; i++)
			op->inl[i] = (uint8_t)sim_rand(r);
		return;
	}
	op->nsge = gen_sources(q->host, op->sge, op->len);
}

static bool gen_write(struct sim_qp *q, struct sim_op *op)
{
	struct sim_world *w = q->host->w;
	struct sim_host *h = q->peer->host;
	struct sim_op *last = q->n ? &q->op[q->n - 1] : NULL;
	enum sim_arena_kind a;
	uint32_t off;

	op->len =
	    gen_len(w, q->mtu, gen_room(h) < SIM_SRC_LEN ? gen_room(h) : SIM_SRC_LEN / 2);
	gen_payload(q, op);
	/* over what an earlier one wrote: duplicates must not be executed again */
	if (sim_is_reliable(q->type) && last && last->opcode == IBV_WR_RDMA_WRITE &&
	    last->len && last->len <= SIM_SRC_LEN / 2 && !(last->must) &&
	    sim_chance(&w->rng, 250)) {
		op->len = last->len;
		op->flags &= ~(uint32_t)IBV_SEND_INLINE;
		op->nsge = gen_sources(q->host, op->sge, op->len);
		op->rarena = last->rarena;
		op->roff = last->roff;
		op->va = last->va;
		op->rkey = last->rkey;
		last->rewritten = true;
		return true;
	}
	off = gen_target(h, &a, op->len, 1);
	if (off == SIM_ARENA_LEN)
		return false;
	gen_remote(op, h, a, off);
	/* no memory is touched: neither key nor address matter (IBTA 9.7.4.1.5) */
	if (!op->len && sim_chance(&w->rng, 300)) {
		op->va = sim_rand(&w->rng);
		op->rkey = (uint32_t)sim_rand(&w->rng);
	}
	return true;
}

static bool gen_read(struct sim_qp *q, struct sim_op *op)
{
	struct sim_world *w = q->host->w;
	struct sim_op *last = q->n ? &q->op[q->n - 1] : NULL;
	uint32_t room = gen_room(q->host);

	op->len = gen_len(w, q->mtu, room < SIM_SRC_LEN / 2 ? room : SIM_SRC_LEN / 2);
	/* in more requests than one: the requester asks for half a window at a time */
	if (q->mtu == 256 && room > SIM_SRC_LEN && sim_chance(&w->rng, 200))
		op->len = SIM_SRC_LEN / 2 + sim_below(&w->rng, SIM_SRC_LEN / 2);
	if (last && !last->must && last->opcode == IBV_WR_RDMA_WRITE && last->len &&
	    last->len < room && sim_chance(&w->rng, 500)) {
		/* what the WRITE before it wrote */
		op->len = last->len;
		op->rarena = last->rarena;
		op->roff = last->roff;
		op->va = last->va;
		op->rkey = last->rkey;
	} else {
		gen_remote(op, q->peer->host, gen_arena(w),
			   sim_below(&w->rng, SIM_SRC_LEN - op->len + 1));
	}
	op->nsge = gen_targets(q->host, op->sge, op->len);
	return op->nsge <= SIM_SGES;
}

/* Send on what the READ before it brought: needs the fence */
static bool gen_forward(struct sim_qp *q, struct sim_op *op)
{
	struct sim_op *last = q->n ? &q->op[q->n - 1] : NULL;

	/* where CQs are not polled at once the model would learn of it too late */
	if (!last || last->must || last->opcode != IBV_WR_RDMA_READ || !last->len ||
	    last->len > SIM_SRC_LEN / 2 || q->host->w->kind == SIM_CQ ||
	    !sim_chance(&q->host->w->rng, 400))
		return false;
	op->flags = (op->flags & ~(uint32_t)IBV_SEND_INLINE) | IBV_SEND_FENCE;
	last->flags |= IBV_SEND_SIGNALED; /* tells the model before the message arrives */
	op->len = last->len;
	op->nsge = last->nsge;
	memcpy(op->sge, last->sge, sizeof(op->sge));
	return true;
}

static bool gen_atomic(struct sim_qp *q, struct sim_op *op)
{
	struct sim_world *w = q->host->w;
	struct sim_rng *r = &w->rng;
	struct sim_op *last = q->n ? &q->op[q->n - 1] : NULL;
	enum sim_arena_kind a;
	uint32_t off;
	uint64_t now;

	op->len = 8;
	if (last && !last->must &&
	    (last->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	     last->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) &&
	    sim_chance(r, 600)) {
		op->rarena = last->rarena;
		op->roff = last->roff;
		op->va = last->va;
		op->rkey = last->rkey;
	} else {
		off = gen_target(q->peer->host, &a, 8, 8);
		if (off == SIM_ARENA_LEN)
			return false;
		gen_remote(op, q->peer->host, a, off);
	}
	off = gen_target(q->host, &a, 8, 1);
	if (off == SIM_ARENA_LEN)
		return false;
	gen_sge(q->host, &op->sge[0], a, off, 8);
	op->nsge = 1;
	memcpy(&now, q->peer->host->arena[op->rarena].shadow + op->roff, 8);
	op->compare_add = sim_chance(r, 500) ? now : sim_rand(r);
	op->swap = sim_rand(r);
	return true;
}

static bool gen_atomic_write(struct sim_qp *q, struct sim_op *op)
{
	enum sim_arena_kind a;
	uint32_t off = gen_target(q->peer->host, &a, 8, 8);

	if (off == SIM_ARENA_LEN)
		return false;
	gen_remote(op, q->peer->host, a, off);
	op->len = 8;
	op->nsge = 0;
	for (uint32_t i = 0; i < 8; i++)
		op->inl[i] = (uint8_t)sim_rand(&q->host->w->rng);
	return true;
}

static bool gen_send(struct sim_qp *q, struct sim_op *op)
{
	struct sim_host *h = q->peer ? q->peer->host : q->host;
	struct sim_world *w = q->host->w;
	uint32_t room = gen_room(h);

	op->len = gen_len(w, q->mtu, room < SIM_SRC_LEN / 2 ? room : SIM_SRC_LEN / 2);
	if (q->type == IBV_QPT_UD && op->len > q->mtu)
		op->len = q->mtu;
	/* the receiver will have to find room, too */
	if (room < 8192)
		op->len = 0;
	gen_payload(q, op);
	return true;
}

static uint32_t draw_opcode(struct sim_qp *q)
{
	struct sim_rng *r = &q->host->w->rng;
	static const uint32_t rc[] = {
	    IBV_WR_SEND,
	    IBV_WR_SEND,
	    IBV_WR_SEND_WITH_IMM,
	    IBV_WR_RDMA_WRITE,
	    IBV_WR_RDMA_WRITE,
	    IBV_WR_RDMA_WRITE,
	    IBV_WR_RDMA_WRITE_WITH_IMM,
	    IBV_WR_RDMA_READ,
	    IBV_WR_RDMA_READ,
	    IBV_WR_RDMA_READ,
	    IBV_WR_ATOMIC_CMP_AND_SWP,
	    IBV_WR_ATOMIC_FETCH_AND_ADD,
	    SIM_WR_FLUSH,
	    SIM_WR_ATOMIC_WRITE,
	};
	static const uint32_t uc[] = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM,
				      IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM};

	if (sim_is_reliable(q->type))
		return rc[sim_below(r, sizeof(rc) / sizeof(rc[0]))];
	if (q->type == IBV_QPT_UC)
		return uc[sim_below(r, 4)];
	return uc[sim_below(r, 2)];
}

static bool gen_body(struct sim_qp *q, struct sim_op *op)
{
	switch (op->opcode) {
	case IBV_WR_RDMA_READ:
		return gen_read(q, op);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return gen_atomic(q, op);
	case SIM_WR_ATOMIC_WRITE:
		return gen_atomic_write(q, op);
	case SIM_WR_FLUSH:
		op->len = 1 + sim_below(&q->host->w->rng, 100);
		gen_remote(op, q->peer->host, gen_arena(q->host->w), 0);
		return true;
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return gen_write(q, op);
	default:
		return gen_send(q, op) && (gen_forward(q, op), true);
	}
}

struct sim_op *gen_op_of(struct sim_qp *q, uint32_t opcode)
{
	struct sim_world *w = q->host->w;
	struct sim_rng *r = &w->rng;
	struct sim_op *op = &q->op[q->n];

	if (q->n == SIM_OPS)
		return NULL;
	memset(op, 0, sizeof(*op));
	op->opcode = opcode;
	op->shared = -1;
	op->wr_id = (uint64_t)SIM_TAG_SEND << 48 | (uint64_t)q->id << 32 | q->n;
	op->flags = sim_chance(r, 700) ? IBV_SEND_SIGNALED : 0;
	if (sim_chance(r, 100))
		op->flags |= IBV_SEND_FENCE;
	if (sim_chance(r, 150))
		op->flags |= IBV_SEND_SOLICITED;
	if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		op->ex = (uint32_t)sim_rand(r);
	if (!gen_body(q, op))
		return NULL;
	if (sim_is_xrc(q->type))
		op->xsrq = &q->peer->host->srq[sim_below(r, q->peer->host->srqs)];
	if (sim_takes_recv(opcode))
		q->rwr[q->rwr_n++] = q->n;
	q->n++;
	return op;
}

struct sim_op *gen_op(struct sim_qp *q)
{
	return gen_op_of(q, draw_opcode(q));
}

void gen_ops(struct sim_qp *q, uint32_t n)
{
	while (n--)
		gen_op(q);
	/* the last one is signalled mostly, as programs do */
	if (q->n && sim_chance(&q->host->w->rng, 800))
		q->op[q->n - 1].flags |= IBV_SEND_SIGNALED;
}

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

/* --- the program, for the reader of a failure ------------------------------------- */

static const char *wr_name(uint32_t opcode)
{
	static const char *const name[] = {
	    "WRITE",	 "WRITE_IMM", "SEND",	 "SEND_IMM",	"READ", "CMP_SWAP",
	    "FETCH_ADD", "LOCAL_INV", "BIND_MW", "SEND_INV",	"TSO",	"DRIVER1",
	    "12",	 "13",	      "FLUSH",	 "ATOMIC_WRITE"};

	return opcode < sizeof(name) / sizeof(name[0]) ? name[opcode] : "?";
}

static void print_op(struct sim_world *w, const struct sim_op *op)
{
	char sges[200] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < op->nsge && !(op->flags & IBV_SEND_INLINE); i++)
		n += (size_t)snprintf(sges + n, sizeof(sges) - n, " [%c+%#x %u key %#x]",
				      op->sge[i].arena == SIM_PINNED ? 'p' : 'o',
				      op->sge[i].off, op->sge[i].len, op->sge[i].lkey);
	sim_trace(w, "  send %u: %s%s%s%s%s %u bytes%s -> %c+%#x key %#x ex %#x%s",
		  (uint32_t)op->wr_id, wr_name(op->opcode),
		  op->flags & IBV_SEND_SIGNALED ? " signalled" : "",
		  op->flags & IBV_SEND_FENCE ? " fence" : "",
		  op->flags & IBV_SEND_INLINE ? " inline" : "",
		  op->flags & IBV_SEND_SOLICITED ? " solicited" : "", op->len, sges,
		  op->rarena == SIM_PINNED ? 'p' : 'o', op->roff, op->rkey, op->ex,
		  op->must ? " (must fail)" : "");
}

void sim_program_print(struct sim_world *w)
{
	if (!sim_tracing(w))
		return;
	sim_trace(w,
		  "network: delay %llu ns, loss %u dup %u reorder %u corrupt %u full %u "
		  "permille",
		  (unsigned long long)w->net.delay, w->net.loss, w->net.dup,
		  w->net.reorder, w->net.corrupt, w->net.tx_full);
	sim_trace(w,
		  "odp: model %d latency %llu max %llu%s; race %u mid-copy %u silent %u "
		  "permille",
		  w->odp.model, (unsigned long long)w->odp.latency,
		  (unsigned long long)w->odp.max_pages,
		  w->odp.snapshot ? " snapshot" : "", w->mem.race, w->mem.mid_copy,
		  w->mem.silent);
	for (uint32_t i = 0; i < w->nqps; i++) {
		const struct sim_qp *q = &w->qp[i];

		sim_trace(w,
			  "q%u: h%u qpn %#x type %d peer q%d mtu %u psn %06x/%06x rd %u "
			  "timeout %u "
			  "retry %u/%u rnr timer %u%s%s",
			  q->id, q->host->id, q->qpn, q->type,
			  q->peer ? (int)q->peer->id : -1, q->mtu, q->sq_psn, q->rq_psn,
			  q->rd_atomic, q->timeout, q->retry_cnt, q->rnr_retry,
			  q->rnr_timer,
			  q->srq		? " srq"
			  : sim_is_xrc(q->type) ? " xrc"
						: "",
			  q->sig_all ? " sig_all" : "");
		for (uint32_t k = 0; k < q->n; k++)
			print_op(w, &q->op[k]);
		for (uint32_t k = 0; k < q->rq.n; k++)
			sim_trace(w, "  recv %u: %u bytes, %u SGEs%s", k,
				  q->rq.recv[k].len, q->rq.recv[k].nsge,
				  q->rq.recv[k].must ? " (must fail)" : "");
	}
}
