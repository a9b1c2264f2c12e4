/*
 * sim_kinds_error.c - scenarios with one operation, or one piece of memory, that is
 * wrong: both sides must see what they must, and nothing else may suffer.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_kinds.h"

#define SIM_MW_READ (SIM_MWS - 1) /* may be read only */

/* --- error ------------------------------------------------------------------------ */

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
}

static void bad_rkey(struct sim_op *op, struct sim_host *h, uint32_t mr)
{
	op->rarena = SIM_PINNED;
	op->roff = SIM_ARENA_LEN; /* nothing may be written: the model forgives nothing */
	op->va = sim_addr(h, SIM_PINNED, SIM_SRC_LEN) + h->mr[mr].delta;
	op->rkey = h->mr[mr].rkey;
}

/* An operation with some length */
static struct sim_op *kind_error_op(struct sim_qp *q, uint32_t opcode)
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

/*
 * What each case is: the operations of which one is drawn, at whose side it is found, and
 * the statuses in which it ends
 */
#define OPS_ANY                                                                          \
	{                                                                                \
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM               \
	}
#define OPS_WRITE                                                                        \
	{                                                                                \
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM         \
	}
#define OPS_READ                                                                         \
	{                                                                                \
		IBV_WR_RDMA_READ, IBV_WR_RDMA_READ, IBV_WR_RDMA_READ                     \
	}
#define OPS_SEND                                                                         \
	{                                                                                \
		IBV_WR_SEND, IBV_WR_SEND, IBV_WR_SEND                                    \
	}
#define OPS_ATOMIC                                                                       \
	{                                                                                \
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_FETCH_AND_ADD,                \
		    IBV_WR_ATOMIC_CMP_AND_SWP                                            \
	}
#define OPS_RIGHTS                                                                       \
	{                                                                                \
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD         \
	}

static const struct {
	uint32_t ops[3];
	bool remote;
	uint32_t must;
} errors[E_CASES] = {
    [E_LKEY] = {OPS_ANY, false, BIT(IBV_WC_LOC_PROT_ERR)},
    [E_LKEY_BOUNDS] = {OPS_ANY, false, BIT(IBV_WC_LOC_PROT_ERR)},
    [E_LKEY_PD] = {OPS_ANY, false, BIT(IBV_WC_LOC_PROT_ERR)},
    [E_LKEY_RIGHTS] = {OPS_READ, false, BIT(IBV_WC_LOC_PROT_ERR)},
    [E_RKEY] = {OPS_WRITE, true, BIT(IBV_WC_REM_ACCESS_ERR)},
    [E_RKEY_BOUNDS] = {OPS_RIGHTS, true, BIT(IBV_WC_REM_ACCESS_ERR)},
    [E_RKEY_PD] = {OPS_WRITE, true, BIT(IBV_WC_REM_ACCESS_ERR)},
    [E_RKEY_READ] = {OPS_READ, true, BIT(IBV_WC_REM_ACCESS_ERR)},
    [E_RKEY_WRITE] = {OPS_RIGHTS, true, BIT(IBV_WC_REM_ACCESS_ERR)},
    [E_MISALIGNED] = {OPS_ATOMIC, true, BIT(IBV_WC_REM_INV_REQ_ERR)},
    [E_LONG_SEND] = {OPS_SEND, true, BIT(IBV_WC_REM_INV_REQ_ERR)},
    [E_RECV_LKEY] = {OPS_SEND, true, BIT(IBV_WC_REM_OP_ERR)},
    [E_OPCODE] = {OPS_SEND, false, BIT(IBV_WC_LOC_QP_OP_ERR)},
    [E_BIND] = {OPS_SEND, false, BIT(IBV_WC_MW_BIND_ERR)},
    [E_QP_RIGHTS] = {OPS_RIGHTS, true,
		     BIT(IBV_WC_REM_INV_REQ_ERR) | BIT(IBV_WC_REM_ACCESS_ERR)},
};

/* A bind of a window that does not exist */
static void bad_bind(struct sim_op *op, struct sim_host *h)
{
	op->opcode = IBV_WR_BIND_MW;
	op->ex = 0;
	op->flags &= ~(uint32_t)IBV_SEND_INLINE;
	op->nsge = op->len = 0;
	op->mw.mr_lkey = h->mr[SIM_MR_PIN].lkey;
	op->mw.mw_rkey = 0x123400;
	op->mw.rkey = 0x123401;
	op->mw.addr = sim_addr(h, SIM_PINNED, 0);
	op->mw.length = 100;
}

/* Make good operation @op wrong */
static void spoil(struct sim_qp *q, struct sim_op *op, enum error_case e)
{
	struct sim_host *h = q->host, *ph = q->peer->host;
	struct sim_rng *r = &h->w->rng;
	uint32_t stale = sim_chance(r, 500) ? 0x1 : 0x7fff00;
	uintptr_t start = sim_addr(h, SIM_PINNED, 0);

	switch (e) {
	case E_LKEY:
		bad_sge(op, h, SIM_MR_PIN, start);
		op->sge[0].lkey ^= stale;
		break;
	case E_LKEY_BOUNDS:
		bad_sge(op, h, SIM_MR_PIN, start + SIM_ARENA_LEN - op->len + 1);
		break;
	case E_LKEY_PD:
		bad_sge(op, h, SIM_MR_PD2, start);
		break;
	case E_LKEY_RIGHTS:
		bad_sge(op, h, SIM_MR_RDONLY, start + SIM_SRC_LEN);
		break;
	case E_RKEY:
		bad_rkey(op, ph, SIM_MR_PIN);
		op->rkey ^= stale;
		break;
	case E_RKEY_BOUNDS: /* aligned, for atomics */
		bad_rkey(op, ph, SIM_MR_PIN);
		op->va = sim_addr(ph, SIM_PINNED, SIM_ARENA_LEN) - (op->len & ~7u);
		op->va += op->len % 8 ? 0 : 8;
		break;
	case E_RKEY_PD:
		bad_rkey(op, ph, SIM_MR_PD2);
		break;
	case E_RKEY_READ:
		bad_rkey(op, ph, SIM_MR_LOCAL);
		break;
	case E_RKEY_WRITE:
		if (op->opcode == IBV_WR_RDMA_READ)
			bad_rkey(op, ph,
				 sim_chance(r, 500) ? SIM_MR_LOCAL : SIM_MR_RWRITE);
		else if (op->opcode == IBV_WR_RDMA_WRITE || sim_chance(r, 500))
			bad_rkey(op, ph, SIM_MR_RREAD);
		else
			bad_rkey(op, ph, SIM_MR_RWRITE);
		break;
	case E_MISALIGNED:
		op->va += 1 + sim_below(r, 7);
		break;
	case E_OPCODE:
		q->rwr_n--;
		op->opcode = 11 + sim_below(r, 3);
		break;
	case E_BIND:
		q->rwr_n--;
		bad_bind(op, h);
		break;
	default: /* what the peer's side does is wrong */
		break;
	}
}

/* Append the operation that fails. @remote: the responder's QP fails with it */
static struct sim_op *draw_error(struct sim_qp *q, enum error_case e, bool *remote)
{
	struct sim_op *op =
	    kind_error_op(q, errors[e].ops[sim_below(&q->host->w->rng, 3)]);

	*remote = errors[e].remote;
	if (!op)
		return NULL;
	spoil(q, op, e);
	op->must = errors[e].must;
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
static void kind_allow_failure(struct sim_world *w, struct sim_qp *q, bool remote)
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
static void kind_judge_error(struct sim_world *w, struct sim_qp *q, struct sim_op *op,
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

void kind_error(struct sim_world *w)
{
	enum error_case e = (enum error_case)sim_below(&w->rng, E_CASES);
	struct sim_qp *q, *p;
	struct sim_op *op;
	bool remote;
	uint32_t n;

	if (!kind_world(w, sim_chance(&w->rng, 600), false) ||
	    !kind_pairs(w, IBV_QPT_RC, 2, false))
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
	if (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		p->rq.recv[q->rwr_n - 1].must = BIT(IBV_WC_LOC_ACCESS_ERR);
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
	kind_allow_failure(w, q, remote);
	if (!gen_connect(w))
		return;
	if (e == E_QP_RIGHTS)
		restrict_qp(w, p);
	kind_start(w, 500 * US);
	kind_settle(w);
	kind_judge_error(w, q, op, remote);
	kind_finish(w);
}

/* --- vanish ----------------------------------------------------------------------- */

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
	struct sim_op *op = kind_error_op(q, opcodes[sim_below(&w->rng, 4)]);
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
		q->may_recv = BIT(IBV_WC_LOC_PROT_ERR) | BIT(IBV_WC_LOC_ACCESS_ERR);
		q->may_flush = true;
	}
	for (uint32_t n = sim_range(&w->rng, 1, 3); n; n--) {
		uint64_t off = sim_below(&w->rng, SIM_ARENA_LEN - 4 * SIM_PAGE);
		uint64_t len = 1 + sim_below(&w->rng, 3 * SIM_PAGE);

		if (sim_chance(&w->rng, 700))
			off = sim_below(&w->rng, 2 * SIM_SRC_LEN);
		sim_at(w, w->now + sim_below(&w->rng, 2 * MS), vanish, kind_any_host(w),
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
	kind_allow_failure(w, d->q, d->remote);
}

void kind_vanish(struct sim_world *w)
{
	bool exact = sim_chance(&w->rng, 500);
	struct doom d = {0};

	if (!kind_world(w, sim_chance(&w->rng, 500), false))
		return;
	if (!kind_pairs(w, IBV_QPT_RC, 2, false))
		return;
	kind_sends(w);
	if (exact && !draw_doomed(&w->qp[0], &d))
		return;
	if (!kind_recvs(w) || !gen_connect(w))
		return;
	if (exact)
		vanish_one(w, &d);
	else
		vanish_anywhere(w);
	kind_start(w, 500 * US);
	kind_settle(w);
	if (exact)
		kind_judge_error(w, d.q, d.op, d.remote);
	kind_finish(w);
}

/* --- mw --------------------------------------------------------------------------- */

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
	struct sim_op *op = kind_error_op(q, IBV_WR_RDMA_WRITE);
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
	kind_settle(w);
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
	/* class J of IBTA 9.9.3: the responder ends without an answer */
	op->must = BIT(IBV_WC_RETRY_EXC_ERR);
	p->rq.recv[0].must = BIT(IBV_WC_REM_INV_REQ_ERR);
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

void kind_mw(struct sim_world *w)
{
	struct sim_mw *dead, *live;
	struct sim_qp *q, *p;
	struct sim_op *op;
	uint32_t i;

	if (!kind_world(w, sim_chance(&w->rng, 500), false) ||
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
	kind_allow_failure(w, q, true);
	run_phase(w);
	kind_judge_error(w, q, op, true);
	kind_finish(w);
}

/* --- sqe -------------------------------------------------------------------------- */

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

void kind_sqe(struct sim_world *w)
{
	static const enum error_case cases[] = {E_LKEY, E_LKEY_BOUNDS, E_LKEY_PD,
						E_OPCODE};
	enum error_case e = cases[sim_below(&w->rng, 4)];
	struct sim_qp *q, *p;
	struct sim_op *op;
	bool remote;

	if (!kind_world(w, true, false) ||
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
	kind_start(w, 0);
	kind_settle(w);
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
	kind_settle(w);
	if (!w->failed)
		judge_delivery(q);
	if (!w->failed)
		judge_delivery(p);
	kind_finish(w);
}
