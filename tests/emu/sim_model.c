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
 *
 * The shadow is kept in sim_model_memory.c, receive completions are judged in sim_model_recv.c;
 * here: send completions, events, the end.
 */
#include <stdio.h>
#include <string.h>

#include "sim_model.h"

const char *model_status_name(uint32_t s)
{
	static const char *const name[] = {
	    "SUCCESS",	      "LOC_LEN_ERR",	  "LOC_QP_OP_ERR",  "LOC_EEC_OP_ERR",
	    "LOC_PROT_ERR",   "WR_FLUSH_ERR",	  "MW_BIND_ERR",    "BAD_RESP_ERR",
	    "LOC_ACCESS_ERR", "REM_INV_REQ_ERR",  "REM_ACCESS_ERR", "REM_OP_ERR",
	    "RETRY_EXC_ERR",  "RNR_RETRY_EXC_ERR"};

	return s < sizeof(name) / sizeof(name[0]) ? name[s] : "?";
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
			 model_status_name(status));
	else if (!((op->must | q->may) & bit))
		sim_fail(w, "q%u send %u: %s, which is not to happen", q->id, i,
			 model_status_name(status));
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
		model_apply(q, o);
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
	model_apply(q, op);
}

/* --- receive completions ---------------------------------------------------------- */

static void trace_wc(struct sim_world *w, const struct sim_qp *q,
		     const struct ib_uverbs_wc *wc, bool recv)
{
	sim_trace(w, "q%u completes %s %u: %s opcode %u len %u flags %#x", q->id,
		  recv ? "recv" : "send", (uint32_t)wc->wr_id,
		  model_status_name(wc->status), wc->opcode, wc->byte_len, wc->wc_flags);
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
		model_recv_wc(q, &q->rq, wc, i);
	else if (tag == SIM_TAG_SRQ && q->srq && cq == q->rcq)
		model_recv_wc(q, &q->srq->rq, wc, i);
	else if (tag == SIM_TAG_SRQ && q->type == IBV_QPT_XRC_RECV &&
		 id < cq->host->srqs && cq == cq->host->srq[id].cq)
		model_recv_wc(q, &cq->host->srq[id].rq, wc, i);
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
	struct sim_arena *ar = model_remote(q, op);
	struct sim_world *w = q->host->w;
	bool whole = op->delivered || (sim_clean(w) && op->opcode == IBV_WR_RDMA_WRITE &&
				       op->state == SIM_OP_OK && !q->peer->errored);

	model_op_data(q, op, data);
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
		model_forgive(q->host, op->sge, op->nsge);
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
		model_apply(q, op);
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
			model_forgive(h, r->sge, r->nsge);
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
			end_recvs(w, &q->rq, q->host,
				  /* the flush at the end may have overrun a CQ */
				  !w->anything_goes && !q->lost && !q->rcq->dead, q->id);
	}
	for (uint32_t i = 0; i < w->nhosts && !w->failed; i++) {
		for (uint32_t s = 0; s < w->host[i].srqs; s++)
			end_recvs(w, &w->host[i].srq[s].rq, &w->host[i], false, i);
		if (!w->anything_goes)
			sim_mem_check(&w->host[i]);
	}
}
