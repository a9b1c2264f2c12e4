/*
 * sim_gen_ops.c - drawing the operations of a program: what, of which length, from and to which memory.
 */
#include <string.h>

#include "sim_gen.h"

bool sim_takes_recv(uint32_t opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
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
uint32_t gen_targets(struct sim_host *h, struct sim_sge *sge, uint32_t len)
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
