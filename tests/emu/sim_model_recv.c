/*
 * sim_model_recv.c - which message of the peer a receive completion is about, and whether it is right.
 */
#include <stdio.h>
#include <string.h>

#include "sim_model.h"

static bool same_message(struct sim_qp *from, const struct sim_op *op,
			 const struct ib_uverbs_wc *wc, uint32_t len, const uint8_t *data)
{
	static uint8_t want[SIM_ARENA_LEN];
	bool imm = op->opcode == IBV_WR_SEND_WITH_IMM ||
		   op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool inv = op->opcode == IBV_WR_SEND_WITH_INV;
	uint32_t opcode = op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM
			      ? IBV_WC_RECV_RDMA_WITH_IMM
			      : IBV_WC_RECV;

	if (op->state == SIM_OP_NEW || op->len != len || wc->opcode != opcode)
		return false;
	if (imm != !!(wc->wc_flags & IBV_WC_WITH_IMM) ||
	    (imm && wc->ex.imm_data != op->ex))
		return false;
	if (inv != !!(wc->wc_flags & IBV_WC_WITH_INV) ||
	    (inv && wc->ex.invalidate_rkey != op->ex))
		return false;
	model_op_data(from, op, want);
	return opcode == IBV_WC_RECV_RDMA_WITH_IMM || !memcmp(want, data, len);
}

/* The bytes that a receive WQE got, behind @skip */
static void recv_data(const struct sim_host *h, const struct sim_recv *r, uint32_t skip,
		      uint32_t len, uint8_t *out)
{
	for (uint32_t i = 0; i < r->nsge && len; i++) {
		uint32_t off = skip < r->sge[i].len ? skip : r->sge[i].len;
		uint32_t part = r->sge[i].len - off;

		skip -= off;
		if (part > len)
			part = len;
		memcpy(out, h->arena[r->sge[i].arena].base + r->sge[i].off + off, part);
		out += part;
		len -= part;
	}
}

static void take_message(struct sim_qp *q, struct sim_recv *r, struct sim_qp *from,
			 struct sim_op *op, uint32_t len, const uint8_t *data)
{
	struct sim_host *h = q->host;

	op->delivered++;
	if (op->flags & IBV_SEND_SOLICITED)
		q->rcq->solicited++;
	if (!sim_is_reliable(q->type))
		model_forgive(h, r->sge,
			      r->nsge); /* an earlier message broke off in there */
	else if (op->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
		model_scatter(h, r->sge, r->nsge, data, len);
	if (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && op->len && !op->rewritten) {
		static uint8_t want[SIM_ARENA_LEN];

		model_op_data(from, op, want);
		if (memcmp(model_remote(from, op)->base + op->roff, want, op->len))
			sim_fail(
			    h->w,
			    "q%u: WRITE_IMM %u was announced before its data was there",
			    q->id, (uint32_t)op->wr_id);
	}
}

/* The message that is due: of all, or (XRC) of those to the SRQ that @r is of */
static struct sim_op *next_message(struct sim_qp *p, const struct sim_recv *r,
				   uint32_t next)
{
	if (p->type != IBV_QPT_XRC_SEND)
		return &p->op[p->rwr[next]];
	for (uint32_t i = 0; i < p->rwr_n; i++) {
		struct sim_op *op = &p->op[p->rwr[i]];
		const struct sim_recv *first = op->xsrq->rq.recv;

		if (!op->delivered && r >= first && r < first + SIM_RECVS)
			return op;
	}
	return NULL;
}

static void rc_message(struct sim_qp *q, struct sim_recv *r,
		       const struct ib_uverbs_wc *wc)
{
	static uint8_t data[SIM_ARENA_LEN];
	struct sim_world *w = q->host->w;
	struct sim_qp *p = q->peer;
	struct sim_op *op;

	if (q->rwr_next >= p->rwr_n) {
		sim_fail(w, "q%u: received a message that was never sent", q->id);
		return;
	}
	op = next_message(p, r, q->rwr_next++);
	if (!op) {
		sim_fail(w, "q%u: no message is due at this SRQ", q->id);
		return;
	}
	if (op->must) {
		sim_fail(w, "q%u: received send %u, which cannot succeed", q->id,
			 (uint32_t)op->wr_id);
		return;
	}
	recv_data(q->host, r, 0, wc->byte_len < SIM_ARENA_LEN ? wc->byte_len : 0, data);
	if (!same_message(p, op, wc, wc->byte_len, data)) {
		sim_fail(w,
			 "q%u: received %u bytes, opcode %u, flags %#x, ex %#x; due was "
			 "send %u of "
			 "%u bytes, opcode %u, ex %#x%s",
			 q->id, wc->byte_len, wc->opcode, wc->wc_flags, wc->ex.imm_data,
			 (uint32_t)op->wr_id, op->len, op->opcode, op->ex,
			 op->len == wc->byte_len ? " (or the data differs)" : "");
		return;
	}
	take_message(q, r, p, op, wc->byte_len, data);
}

/* UC and UD: any message of the sender with that content, the least delivered one */
static void loose_message(struct sim_qp *q, struct sim_recv *r, struct sim_qp *from,
			  const struct ib_uverbs_wc *wc, uint32_t skip)
{
	static uint8_t data[SIM_ARENA_LEN];
	struct sim_world *w = q->host->w;
	struct sim_op *best = NULL;
	bool placed = wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM;
	uint32_t len = wc->byte_len - skip;

	if (wc->byte_len < skip || (placed && len > r->len)) {
		sim_fail(w, "q%u: a message of %u bytes in a buffer of %u", q->id,
			 wc->byte_len, r->len);
		return;
	}
	recv_data(q->host, r, skip, len, data);
	for (uint32_t i = 0; i < from->next; i++) {
		struct sim_op *op = &from->op[i];

		if (sim_takes_recv(op->opcode) && !op->undeliverable && !op->must &&
		    (q->type != IBV_QPT_UD || (op->to ? op->to == q : q->attached)) &&
		    same_message(from, op, wc, len, data) &&
		    (!best || op->delivered < best->delivered))
			best = op;
	}
	if (!best) {
		sim_fail(w, "q%u: received %u bytes from q%u that it never sent", q->id,
			 len, from->id);
		return;
	}
	take_message(q, r, from, best, len, data);
	if (best->delivered > (from->type == IBV_QPT_UD ? SIM_QPS : 1) && !w->net.dup)
		sim_fail(w, "q%u: send %u of q%u was delivered %u times", q->id,
			 (uint32_t)best->wr_id, from->id, best->delivered);
}

static void check_grh(struct sim_qp *q, struct sim_recv *r, struct sim_qp *from)
{
	struct sim_world *w = q->host->w;
	uint8_t grh[40];
	const struct net_ip *src = &from->host->ip;

	recv_data(q->host, r, 0, sizeof(grh), grh);
	/* annex A17.4.5.2: IPv6 header, or 20 bytes unspecified and the IPv4 header */
	if (net_ip_is_v4(src) ? memcmp(grh + 32, src->b + 12, 4) != 0
			      : memcmp(grh + 8, src->b, 16) != 0)
		sim_fail(w, "q%u: the GRH does not name the sender", q->id);
	if (net_ip_is_v4(src) && grh[20] != 0x45)
		sim_fail(w, "q%u: the GRH has no IPv4 header at byte 20", q->id);
}

static void ud_message(struct sim_qp *q, struct sim_recv *r,
		       const struct ib_uverbs_wc *wc)
{
	struct sim_world *w = q->host->w;

	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *from = &w->qp[i];

		if (from->qpn != wc->src_qp)
			continue;
		if (!(wc->wc_flags & IBV_WC_GRH))
			sim_fail(w, "q%u: a UD message over RoCE without GRH", q->id);
		check_grh(q, r, from);
		loose_message(q, r, from, wc, 40);
		return;
	}
	sim_fail(w, "q%u: a UD message from QPN %#x, which does not exist", q->id,
		 wc->src_qp);
}

static void recv_failed(struct sim_qp *q, struct sim_recv *r, uint32_t status)
{
	struct sim_world *w = q->host->w;
	uint32_t i = (uint32_t)r->wr_id;

	if (status == IBV_WC_WR_FLUSH_ERR) {
		if (!q->may_flush && !q->errored)
			sim_fail(w, "q%u recv %u: flushed, but nothing went wrong", q->id,
				 i);
		return;
	}
	q->recv_error = true;
	if (!(r->must & 1u << status) && !(q->may_recv & 1u << status))
		sim_fail(w, "q%u recv %u: %s, which is not to happen", q->id, i,
			 model_status_name(status));
}

void model_recv_wc(struct sim_qp *q, struct sim_rq *rq, const struct ib_uverbs_wc *wc,
		   uint32_t i)
{
	struct sim_world *w = q->host->w;
	struct sim_recv *r = &rq->recv[i];

	if (i >= rq->n || !r->posted || r->done) {
		sim_fail(w, "q%u recv %u: a completion that is not due", q->id, i);
		return;
	}
	if (rq == &q->rq && i != rq->done) {
		sim_fail(w, "q%u recv %u: completed out of order, due is %u", q->id, i,
			 rq->done);
		return;
	}
	r->done = true;
	r->status = wc->status;
	rq->done++;
	if (wc->status != IBV_WC_SUCCESS) {
		recv_failed(q, r, wc->status);
		return;
	}
	q->received++;
	if (r->must)
		sim_fail(w, "q%u recv %u: success, but it cannot succeed", q->id, i);
	else if (sim_is_reliable(q->type))
		rc_message(q, r, wc);
	else if (q->type == IBV_QPT_UC)
		loose_message(q, r, q->peer, wc, 0);
	else
		ud_message(q, r, wc);
}
