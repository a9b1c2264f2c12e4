/*
 * sim_model_memory.c - the shadow of the memory, and what operations that succeeded do to it.
 */
#include <stdio.h>
#include <string.h>

#include "sim_model.h"

/* --- memory ----------------------------------------------------------------------- */

void sim_sge_gather(const struct sim_host *h, const struct sim_sge *sge, uint32_t n,
		    uint8_t *out)
{
	for (uint32_t i = 0; i < n; i++) {
		memcpy(out, h->arena[sge[i].arena].shadow + sge[i].off, sge[i].len);
		out += sge[i].len;
	}
}

void model_op_data(const struct sim_qp *q, const struct sim_op *op, uint8_t *out)
{
	if (op->opcode == SIM_WR_ATOMIC_WRITE || (op->flags & IBV_SEND_INLINE))
		memcpy(out, op->inl, op->len);
	else
		sim_sge_gather(q->host, op->sge, op->nsge, out);
}

/* Put @data where @sge says, in the shadow; is it there in the memory? */
bool model_scatter(struct sim_host *h, const struct sim_sge *sge, uint32_t n,
		   const uint8_t *data, uint32_t len)
{
	bool same = true;

	for (uint32_t i = 0; i < n && len; i++) {
		struct sim_arena *ar = &h->arena[sge[i].arena];
		uint32_t part = sge[i].len < len ? sge[i].len : len;

		memcpy(ar->shadow + sge[i].off, data, part);
		same = same && !memcmp(ar->base + sge[i].off, data, part);
		data += part;
		len -= part;
	}
	return same;
}

void model_forgive(struct sim_host *h, const struct sim_sge *sge, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (sge[i].off + sge[i].len <= SIM_ARENA_LEN)
			sim_mem_forgive(h, sge[i].arena, sge[i].off, sge[i].len);
	}
}

struct sim_arena *model_remote(const struct sim_qp *q, const struct sim_op *op)
{
	return &q->peer->host->arena[op->rarena];
}

/* --- effects of operations that succeeded ----------------------------------------- */

static void apply_write(struct sim_qp *q, struct sim_op *op)
{
	static uint8_t data[SIM_ARENA_LEN];
	struct sim_arena *ar = model_remote(q, op);

	if (!sim_is_reliable(q->type))
		return; /* nobody knows whether it arrived: sim_model_end() */
	model_op_data(q, op, data);
	memcpy(ar->shadow + op->roff, data, op->len);
	if (!op->rewritten && memcmp(ar->base + op->roff, data, op->len))
		sim_fail(q->host->w, "q%u send %u: completed, but its data is not there",
			 q->id, (uint32_t)op->wr_id);
}

static void apply_read(struct sim_qp *q, struct sim_op *op)
{
	const uint8_t *src = model_remote(q, op)->shadow + op->roff;

	if (!model_scatter(q->host, op->sge, op->nsge, src, op->len))
		sim_fail(q->host->w, "q%u send %u: READ returned wrong data", q->id,
			 (uint32_t)op->wr_id);
}

static void apply_shared(struct sim_qp *q, struct sim_op *op)
{
	struct sim_world *w = q->host->w;
	uint64_t orig, at;

	memcpy(&orig, q->host->arena[op->sge[0].arena].base + op->sge[0].off, 8);
	model_forgive(q->host, op->sge, 1);
	at = orig - w->shared[op->shared].start;
	w->shared[op->shared].ops++;
	if (at >= 64 || (w->shared[op->shared].bits >> at & 1))
		sim_fail(
		    w,
		    "q%u send %u: FETCH_ADD returned start+%llu, which another one did",
		    q->id, (uint32_t)op->wr_id, (unsigned long long)at);
	else
		w->shared[op->shared].bits |= 1ull << at;
}

static void apply_atomic(struct sim_qp *q, struct sim_op *op)
{
	uint8_t *p = model_remote(q, op)->shadow + op->roff;
	uint64_t orig, v;

	memcpy(&orig, p, 8);
	v = orig + op->compare_add;
	if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		v = orig == op->compare_add ? op->swap : orig;
	memcpy(p, &v, 8);
	if (!model_scatter(q->host, op->sge, op->nsge, (uint8_t *)&orig, 8))
		sim_fail(q->host->w,
			 "q%u send %u: an atomic returned a wrong value, not %#llx",
			 q->id, (uint32_t)op->wr_id, (unsigned long long)orig);
}

static void apply_bind(struct sim_qp *q, struct sim_op *op)
{
	for (uint32_t i = 0; i < q->host->mws; i++) {
		struct sim_mw *mw = &q->host->mw[i];

		if (mw->rkey >> 8 != op->mw.mw_rkey >> 8)
			continue;
		mw->rkey = op->mw.rkey;
		mw->bound = op->mw.length != 0;
	}
}

void model_apply(struct sim_qp *q, struct sim_op *op)
{
	op->state = SIM_OP_OK;
	q->host->w->ops_ok++;
	switch (op->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case SIM_WR_ATOMIC_WRITE:
		apply_write(q, op);
		break;
	case IBV_WR_RDMA_READ:
		apply_read(q, op);
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		if (op->shared >= 0)
			apply_shared(q, op);
		else
			apply_atomic(q, op);
		break;
	case IBV_WR_BIND_MW:
		apply_bind(q, op);
		break;
	default:
		break;
	}
	if (sim_takes_recv(op->opcode) && sim_is_reliable(q->type) &&
	    q->host->w->kind != SIM_CQ && !q->peer->lost && op->delivered != 1)
		sim_fail(q->host->w, "q%u send %u: completed, but was received %u times",
			 q->id, (uint32_t)op->wr_id, op->delivered);
}
