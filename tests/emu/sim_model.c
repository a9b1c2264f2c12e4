/*
 * sim_model.c - what completions, memory and events must be.
 *
 * Theory of operation: the model follows the completions in the order in which an
 * application sees them. A send completion retires all operations before it (IBTA 10.8.5:
 * completions of a queue come in order), and the effect of each retired operation is
 * applied to the shadow of the memory, in program order. Regions belong to one QP's
 * program, so program order is all the order there is; a READ followed by a WRITE of the
 * same bytes carries a fence. A receive completion is matched with the next message of
 * the peer (RC), or with any message of that content (UC, UD). What has not succeeded
 * leaves its targets open; everything else must be equal to the shadow to the byte.
 */
#include <stdio.h>
#include <string.h>

#include "sim.h"

static const char *status_name(uint32_t s)
{
	static const char *const name[] = {
	    "SUCCESS",	      "LOC_LEN_ERR",	  "LOC_QP_OP_ERR",  "LOC_EEC_OP_ERR",
	    "LOC_PROT_ERR",   "WR_FLUSH_ERR",	  "MW_BIND_ERR",    "BAD_RESP_ERR",
	    "LOC_ACCESS_ERR", "REM_INV_REQ_ERR",  "REM_ACCESS_ERR", "REM_OP_ERR",
	    "RETRY_EXC_ERR",  "RNR_RETRY_EXC_ERR"};

	return s < sizeof(name) / sizeof(name[0]) ? name[s] : "?";
}

/* --- memory ----------------------------------------------------------------------- */

void sim_sge_gather(const struct sim_host *h, const struct sim_sge *sge, uint32_t n,
		    uint8_t *out)
{
	for (uint32_t i = 0; i < n; i++) {
		memcpy(out, h->arena[sge[i].arena].shadow + sge[i].off, sge[i].len);
		out += sge[i].len;
	}
}

static void op_data(const struct sim_qp *q, const struct sim_op *op, uint8_t *out)
{
	if (op->opcode == SIM_WR_ATOMIC_WRITE || (op->flags & IBV_SEND_INLINE))
		memcpy(out, op->inl, op->len);
	else
		sim_sge_gather(q->host, op->sge, op->nsge, out);
}

/* Put @data where @sge says, in the shadow; is it there in the memory? */
static bool scatter(struct sim_host *h, const struct sim_sge *sge, uint32_t n,
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

static void forgive_sges(struct sim_host *h, const struct sim_sge *sge, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (sge[i].off + sge[i].len <= SIM_ARENA_LEN)
			sim_mem_forgive(h, sge[i].arena, sge[i].off, sge[i].len);
	}
}

static struct sim_arena *remote(const struct sim_qp *q, const struct sim_op *op)
{
	return &q->peer->host->arena[op->rarena];
}

/* --- effects of operations that succeeded ----------------------------------------- */

static void apply_write(struct sim_qp *q, struct sim_op *op)
{
	static uint8_t data[SIM_ARENA_LEN];
	struct sim_arena *ar = remote(q, op);

	if (!sim_is_reliable(q->type))
		return; /* nobody knows whether it arrived: sim_model_end() */
	op_data(q, op, data);
	memcpy(ar->shadow + op->roff, data, op->len);
	if (!op->rewritten && memcmp(ar->base + op->roff, data, op->len))
		sim_fail(q->host->w, "q%u send %u: completed, but its data is not there",
			 q->id, (uint32_t)op->wr_id);
}

static void apply_read(struct sim_qp *q, struct sim_op *op)
{
	const uint8_t *src = remote(q, op)->shadow + op->roff;

	if (!scatter(q->host, op->sge, op->nsge, src, op->len))
		sim_fail(q->host->w, "q%u send %u: READ returned wrong data", q->id,
			 (uint32_t)op->wr_id);
}

static void apply_shared(struct sim_qp *q, struct sim_op *op)
{
	struct sim_world *w = q->host->w;
	uint64_t orig, at;

	memcpy(&orig, q->host->arena[op->sge[0].arena].base + op->sge[0].off, 8);
	forgive_sges(q->host, op->sge, 1);
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
	uint8_t *p = remote(q, op)->shadow + op->roff;
	uint64_t orig, v;

	memcpy(&orig, p, 8);
	v = orig + op->compare_add;
	if (op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		v = orig == op->compare_add ? op->swap : orig;
	memcpy(p, &v, 8);
	if (!scatter(q->host, op->sge, op->nsge, (uint8_t *)&orig, 8))
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

static void apply(struct sim_qp *q, struct sim_op *op)
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

/* --- send completions ------------------------------------------------------------- */

static uint32_t wc_opcode(uint32_t wr)
{
	switch (wr) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	case SIM_WR_FLUSH:
		return SIM_WC_FLUSH;
	case SIM_WR_ATOMIC_WRITE:
		return IBV_WC_ATOMIC_WRITE;
	default:
		return IBV_WC_SEND;
	}
}

static bool signalled(const struct sim_qp *q, const struct sim_op *op)
{
	return q->sig_all || (op->flags & IBV_SEND_SIGNALED);
}

static void send_failed(struct sim_qp *q, struct sim_op *op, uint32_t status)
{
	struct sim_world *w = q->host->w;
	uint32_t i = (uint32_t)op->wr_id, bit = 1u << status;

	op->state = SIM_OP_FAILED;
	op->status = status;
	if (status == IBV_WC_WR_FLUSH_ERR) {
		q->flushed++;
		if (!q->errored && !q->may_flush)
			sim_fail(w, "q%u send %u: flushed, but nothing went wrong", q->id,
				 i);
		q->errored = true;
		return;
	}
	if (q->errored)
		sim_fail(w, "q%u send %u: %s after the queue was in error", q->id, i,
			 status_name(status));
	else if (!((op->must | q->may) & bit))
		sim_fail(w, "q%u send %u: %s, which is not to happen", q->id, i,
			 status_name(status));
	q->errored = true;
	q->error_at = w->now;
	q->error_status = status;
}

static void send_wc(struct sim_qp *q, const struct ib_uverbs_wc *wc, uint32_t i)
{
	struct sim_world *w = q->host->w;
	struct sim_op *op = &q->op[i];

	if (i < q->seen || i >= q->next) {
		sim_fail(w,
			 "q%u send %u: a completion that is not due (next %u, posted %u)",
			 q->id, i, q->seen, q->next);
		return;
	}
	for (; q->seen < i; q->seen++) {
		struct sim_op *o = &q->op[q->seen];

		if (signalled(q, o) || q->errored || o->must)
			sim_fail(w, "q%u send %u: its completion is missing, %u came",
				 q->id, q->seen, i);
		apply(q, o);
	}
	q->seen = i + 1;
	q->done_at = w->now;
	if (wc->status != IBV_WC_SUCCESS) {
		send_failed(q, op, wc->status);
		return;
	}
	if (q->errored || op->must || !signalled(q, op))
		sim_fail(w, "q%u send %u: success, %s", q->id, i,
			 q->errored ? "but the queue is in error"
			 : op->must ? "but it cannot succeed"
				    : "but it is not signalled");
	else if (wc->opcode != wc_opcode(op->opcode))
		sim_fail(w, "q%u send %u: completion opcode %u, must be %u", q->id, i,
			 wc->opcode, wc_opcode(op->opcode));
	else if (op->opcode == IBV_WR_RDMA_READ && wc->byte_len != op->len)
		sim_fail(w, "q%u send %u: READ of %u bytes says %u", q->id, i, op->len,
			 wc->byte_len);
	apply(q, op);
}

/* --- receive completions ---------------------------------------------------------- */

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
	op_data(from, op, want);
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
		forgive_sges(h, r->sge,
			     r->nsge); /* an earlier message broke off in there */
	else if (op->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
		scatter(h, r->sge, r->nsge, data, len);
	if (op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM && op->len && !op->rewritten) {
		static uint8_t want[SIM_ARENA_LEN];

		op_data(from, op, want);
		if (memcmp(remote(from, op)->base + op->roff, want, op->len))
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
			 status_name(status));
}

static void recv_wc(struct sim_qp *q, struct sim_rq *rq, const struct ib_uverbs_wc *wc,
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

static void trace_wc(struct sim_world *w, const struct sim_qp *q,
		     const struct ib_uverbs_wc *wc, bool recv)
{
	sim_trace(w, "q%u completes %s %u: %s opcode %u len %u flags %#x", q->id,
		  recv ? "recv" : "send", (uint32_t)wc->wr_id, status_name(wc->status),
		  wc->opcode, wc->byte_len, wc->wc_flags);
}

static struct sim_qp *qp_by_num(struct sim_host *h, uint32_t qpn)
{
	struct sim_world *w = h->w;

	for (uint32_t i = 0; i < w->nqps; i++) {
		if (w->qp[i].host == h && w->qp[i].qpn == qpn)
			return &w->qp[i];
	}
	return NULL;
}

void sim_model_wc(struct sim_cq *cq, const struct ib_uverbs_wc *wc)
{
	struct sim_world *w = cq->host->w;
	struct sim_qp *q = qp_by_num(cq->host, wc->qp_num);
	uint32_t tag = (uint32_t)(wc->wr_id >> 48), id = (wc->wr_id >> 32) & 0xffff;
	uint32_t i = (uint32_t)wc->wr_id;

	if (w->anything_goes)
		return;
	if (!q) {
		sim_fail(w, "h%u: a completion of QPN %#x, which does not exist",
			 cq->host->id, wc->qp_num);
		return;
	}
	if (sim_tracing(w))
		trace_wc(w, q, wc, tag != SIM_TAG_SEND);
	if (q->foreign) {
		sim_peer_wc(q, wc);
		return;
	}
	if (q->lost && !q->qp)
		return; /* made before the QP was destroyed */
	if (q->lost)
		sim_fail(w, "q%u: a completion after reset", q->id);
	else if (tag == SIM_TAG_SEND && id == q->id && cq == q->scq)
		send_wc(q, wc, i);
	else if (tag == SIM_TAG_RECV && id == q->id && cq == q->rcq && !q->srq)
		recv_wc(q, &q->rq, wc, i);
	else if (tag == SIM_TAG_SRQ && q->srq && cq == q->rcq)
		recv_wc(q, &q->srq->rq, wc, i);
	else if (tag == SIM_TAG_SRQ && q->type == IBV_QPT_XRC_RECV &&
		 id < cq->host->srqs && cq == cq->host->srq[id].cq)
		recv_wc(q, &cq->host->srq[id].rq, wc, i);
	else
		sim_fail(w, "q%u: a completion with wr_id %#llx", q->id,
			 (unsigned long long)wc->wr_id);
}

/* --- events ----------------------------------------------------------------------- */

static const char *event_name(enum ibv_event_type type)
{
	static const char *const name[] = {
	    "CQ_ERR",	    "QP_FATAL",	    "QP_REQ_ERR", "QP_ACCESS_ERR",
	    "COMM_EST",	    "SQ_DRAINED",   "PATH_MIG",	  "PATH_MIG_ERR",
	    "DEVICE_FATAL", "PORT_ACTIVE",  "PORT_ERR",	  "LID_CHANGE",
	    "PKEY_CHANGE",  "SM_CHANGE",    "SRQ_ERR",	  "SRQ_LIMIT_REACHED",
	    "QP_LAST_WQE",  "CLIENT_REREG", "GID_CHANGE",
	};

	return type < sizeof(name) / sizeof(name[0]) ? name[type] : "?";
}

static struct sim_qp *qp_of_cookie(struct sim_world *w, void *cookie)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		if (cookie == &w->qp[i])
			return cookie;
	}
	return NULL;
}

static void qp_event(struct sim_world *w, enum ibv_event_type type, struct sim_qp *q)
{
	q->events[type]++;
	if (w->anything_goes || q->foreign)
		return;
	if (q->lost)
		sim_fail(w, "q%u: event %d after its end", q->id, type);
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		if (!q->may_flush && !q->may && !q->errored)
			sim_fail(w, "q%u: error event %d, but nothing went wrong", q->id,
				 type);
		break;
	case IBV_EVENT_COMM_EST:
		if (!q->stay_rtr || q->events[type] > 1)
			sim_fail(w, "q%u: COMM_EST, which is not due", q->id);
		break;
	case IBV_EVENT_SQ_DRAINED:
		if (q->on_drained)
			q->on_drained(q);
		break;
	default:
		break;
	}
}

/* 11.6.3.2: only one that is full to the last entry overruns; then all is open */
static void cq_error(struct sim_cq *cq)
{
	struct sim_world *w = cq->host->w;
	struct rxe_queue_buf *r = cq->ring;
	uint32_t count = (r->producer_index - r->consumer_index) & r->index_mask;

	cq->dead = true;
	if (!w->anything_goes && (w->kind != SIM_CQ || count != r->index_mask))
		sim_fail(w, "h%u: CQ_ERR, with %u of %u entries in use", cq->host->id,
			 count, r->index_mask);
	w->anything_goes = true;
}

void sim_model_event(struct sim_host *h, enum ibv_event_type type, void *cookie)
{
	struct sim_world *w = h->w;
	struct sim_qp *q = qp_of_cookie(w, cookie);
	struct sim_srq *s = NULL;

	if (sim_tracing(w))
		sim_trace(w, "h%u event %s%s%u", h->id, event_name(type),
			  q ? " of q" : "", q ? q->id : 0);
	if (w->kind == SIM_VERBS)
		return;
	switch (type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		if (!q)
			sim_fail(w, "h%u: a QP event with a wrong cookie", h->id);
		else
			qp_event(w, type, q);
		break;
	case IBV_EVENT_CQ_ERR:
		for (uint32_t i = 0; i < h->cqs; i++) {
			if (cookie == &h->cq[i])
				cq_error(&h->cq[i]);
		}
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
	case IBV_EVENT_SRQ_ERR:
		for (uint32_t i = 0; i < h->srqs; i++) {
			if (cookie == &h->srq[i])
				s = &h->srq[i];
		}
		if (!s)
			sim_fail(w, "h%u: an SRQ event with a wrong cookie", h->id);
		else
			s->limit_events += type == IBV_EVENT_SRQ_LIMIT_REACHED;
		break;
	default:
		if (cookie)
			sim_fail(w, "h%u: a port event with a cookie", h->id);
		h->port_events++;
		break;
	}
}

/* --- the end ---------------------------------------------------------------------- */

/* Nothing is lost, by the network or by a page fault of an unreliable QP */
bool sim_clean(const struct sim_world *w)
{
	return !w->net.loss && !w->net.corrupt && !w->net.reorder && !w->net.dup &&
	       w->odp.model == ODP_FAULT_SYNC && !w->odp.latency;
}

/*
 * UC: each byte is old or new; all new when the message was announced or nothing was lost
 */
static void end_uc_write(struct sim_qp *q, struct sim_op *op)
{
	static uint8_t data[SIM_ARENA_LEN];
	struct sim_arena *ar = remote(q, op);
	struct sim_world *w = q->host->w;
	bool whole = op->delivered || (sim_clean(w) && op->opcode == IBV_WR_RDMA_WRITE &&
				       op->state == SIM_OP_OK && !q->peer->errored);

	op_data(q, op, data);
	for (uint32_t i = 0; i < op->len; i++) {
		uint8_t b = ar->base[op->roff + i];

		if (b == data[i] || (!whole && b == ar->shadow[op->roff + i]))
			continue;
		sim_fail(w, "q%u send %u: UC WRITE left a wrong byte at %u", q->id,
			 (uint32_t)op->wr_id, i);
		return;
	}
	sim_mem_forgive(q->peer->host, op->rarena, op->roff, op->len);
}

/* What failed may have happened in part */
static void end_op(struct sim_qp *q, struct sim_op *op)
{
	bool result = op->opcode == IBV_WR_RDMA_READ ||
		      op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		      op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	bool writes = op->opcode == IBV_WR_RDMA_WRITE ||
		      op->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
		      op->opcode == SIM_WR_ATOMIC_WRITE ||
		      op->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		      op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;

	if (op->state == SIM_OP_NEW)
		return;
	if (writes && q->type == IBV_QPT_UC && !op->must) {
		end_uc_write(q, op);
		return;
	}
	if (op->state == SIM_OP_OK)
		return;
	if (result)
		forgive_sges(q->host, op->sge, op->nsge);
	if (writes && op->shared < 0 && op->roff + op->len <= SIM_ARENA_LEN)
		sim_mem_forgive(q->peer->host, op->rarena, op->roff, op->len);
}

/* What is left without completion was unsignalled, and all is over: it succeeded */
static void retire_all(struct sim_qp *q)
{
	for (; q->seen < q->next && !q->lost; q->seen++) {
		struct sim_op *op = &q->op[q->seen];

		if (signalled(q, op) || q->errored || op->must) {
			sim_fail(q->host->w, "q%u send %u: never completed", q->id,
				 q->seen);
			return;
		}
		apply(q, op);
	}
}

void sim_model_settle(struct sim_qp *q)
{
	struct sim_world *w = q->host->w;
	struct sim_qp *p = q->peer;

	if (q->next != q->n)
		sim_fail(w, "q%u: only %u of %u sends could be posted", q->id, q->next,
			 q->n);
	if (!q->scq->dead)
		retire_all(q);
	if (sim_is_reliable(q->type) && p && !p->lost && !p->rcq->dead &&
	    p->rwr_next != q->rwr_n)
		sim_fail(w, "q%u: %u of %u messages were received", p->id, p->rwr_next,
			 q->rwr_n);
}

static void end_sends(struct sim_qp *q)
{
	if (!q->scq->dead)
		retire_all(q);
	for (uint32_t i = 0; i < q->next; i++)
		end_op(q, &q->op[i]);
}

static void end_recvs(struct sim_world *w, struct sim_rq *rq, struct sim_host *h,
		      bool all, uint32_t id)
{
	for (uint32_t i = 0; i < rq->next; i++) {
		struct sim_recv *r = &rq->recv[i];

		if (!r->done && all)
			sim_fail(w, "q%u recv %u: never completed", id, i);
		if (!r->done || r->status != IBV_WC_SUCCESS)
			forgive_sges(h, r->sge, r->nsge);
	}
}

void sim_model_end(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps && !w->failed; i++) {
		if (!w->qp[i].foreign)
			end_sends(&w->qp[i]);
	}
	for (uint32_t i = 0; i < w->nqps && !w->failed; i++) {
		struct sim_qp *q = &w->qp[i];

		if (!q->foreign)
			end_recvs(w, &q->rq, q->host, !q->lost && !q->rcq->dead, q->id);
	}
	for (uint32_t i = 0; i < w->nhosts && !w->failed; i++) {
		for (uint32_t s = 0; s < w->host[i].srqs; s++)
			end_recvs(w, &w->host[i].srq[s].rq, &w->host[i], false, i);
		if (!w->anything_goes)
			sim_mem_check(&w->host[i]);
	}
}
