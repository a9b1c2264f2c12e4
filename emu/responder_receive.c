/*
 * responder_receive.c - the receive WQE that a message goes to: taken from the QP's own queue or from an
 * SRQ, filled, completed. For the responder, and for ud.c.
 *
 * Theory of operation
 * -------------------
 * One receive WQE is in use at a time (@rwqe_held of struct tr_resp). It stays in use when a page
 * fault puts the message off, and the next attempt goes on where the last one ended (@resume, @rcur,
 * @rlen, @rpart).
 *
 * Owns: what is in use, and how far it is filled. Must not know: what the requester is told.
 */
#include <stdlib.h>

#include "emu/transport_internal.h"

/* The SRQ that a request takes from, NULL for the QP's own queue */
struct emu_srq *resp_srq(const struct emu_qp *qp, uint32_t srqn)
{
	struct emu_srq *srq;

	if (qp->type != IBV_QPT_XRC_RECV)
		return qp->srq;
	srq = emu_srq_find(qp->hca, srqn);
	return srq && srq->xrcd && srq->xrcd == qp->xrcd ? srq : NULL;
}

static int take(struct tr_qp *t, struct emu_srq *srq)
{
	struct tr_resp *resp = &t->resp;

	if (!resp->rwqe)
		resp->rwqe = malloc(sizeof(*resp->rwqe));
	if (!resp->rwqe)
		return -ENOENT;
	return srq ? emu_srq_take(srq, resp->rwqe) : emu_rq_take(t->qp, resp->rwqe);
}

void resp_report_recv(struct tr_qp *t, enum ibv_wc_status status, uint32_t wc_opcode)
{
	struct ib_uverbs_wc wc = {.status = status, .opcode = wc_opcode};

	resp_complete_recv(t, &wc, true);
	t->resp.event = 0;
}

void resp_rewind_recv(struct tr_resp *resp)
{
	if (resp->resume)
		return;
	resp->rcur = (struct tr_cursor){0};
	resp->rlen = resp->rpart = 0;
}

static void record_take(struct tr_qp *t, struct emu_srq *srq)
{
	const struct emu_ring *r = srq ? &srq->ring : &t->qp->rq;
	struct trace_qp *s = &t->qp->seen->qp;

	s->rq.posted = ring_count_from(r, r->local);
	s->rnr_since = 0;
	if (!recorder_wants(t->qp->hca->cfg.recorder, TRACE_KIND_take_receive))
		return;
	emu_receives_record(t->qp, srq, t->resp.rwqe);
	EMU_TRACE(t->qp->hca, take_receive, .wr_id = t->resp.rwqe->wr_id,
		  .qpn = t->qp->qpn, .srq = srq ? srq->num : 0,
		  .num_sge = t->resp.rwqe->num_sge, .left = s->rq.posted,
		  .length = t->resp.rwqe->length);
}

enum resp_verdict resp_take_wqe(struct tr_qp *t, uint32_t srqn)
{
	struct tr_resp *resp = &t->resp;
	struct emu_srq *srq;
	int ret;

	if (resp->rwqe_held)
		return resp->rsrqn == srqn ? V_OK : V_INVALID;
	srq = resp_srq(t->qp, srqn);
	if (!srq && t->qp->type == IBV_QPT_XRC_RECV)
		return V_INVALID;
	ret = take(t, srq);
	if (ret == -ENOENT) {
		resp->rnr_code = t->qp->attr.min_rnr_timer & 0x1f;
		return V_RNR;
	}
	resp->rwqe_held = true;
	record_take(t, srq);
	resp->rsrqn = srqn;
	resp->resume = false;
	resp_rewind_recv(resp);
	if (!ret)
		return V_OK;
	resp->refusal = REFUSE_SGES;
	resp_report_recv(t, IBV_WC_LOC_QP_OP_ERR, IBV_WC_RECV);
	return V_OP;
}

/* @wc has what is particular to the message: status, opcode, lengths, flags */
void resp_complete_recv(struct tr_qp *t, struct ib_uverbs_wc *wc, bool solicited)
{
	struct tr_resp *resp = &t->resp;
	struct emu_qp *qp = t->qp;
	struct emu_srq *srq = resp_srq(qp, resp->rsrqn);
	struct emu_cq *cq = qp->recv_cq;

	if (!resp->rwqe_held)
		return;
	resp->rwqe_held = false;
	if (qp->type == IBV_QPT_XRC_RECV)
		cq = srq ? srq->cq : NULL;
	if (!cq)
		return;
	wc->wr_id = resp->rwqe->wr_id;
	wc->qp_num = qp->qpn;
	wc->port_num = EMU_PORT;
	if (wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV)
		qp->hca->counter[EMU_CNT_RDMA_RECV]++;
	if (emu_cq_post(cq, wc, solicited || wc->status != IBV_WC_SUCCESS) &&
	    qp->state != IBV_QPS_ERR)
		emu_qp_fail(qp, IBV_EVENT_QP_FATAL, TRACE_CAUSE_CQ_OVERRUN,
			    IBV_WC_SUCCESS);
}

/*
 * The message is longer than the receive buffer (9.9.3). Reliable: class C. Unreliable,
 * class D: it is dropped, and the receive WQE serves the next message; class E, from an
 * SRQ: the WQE completes in error, and the QP goes on.
 */
static enum resp_verdict too_long(struct tr_qp *t)
{
	struct ib_uverbs_wc wc = {.status = IBV_WC_LOC_LEN_ERR, .opcode = IBV_WC_RECV};

	if (tr_reliable(t->qp)) {
		resp_report_recv(t, IBV_WC_LOC_LEN_ERR, IBV_WC_RECV);
		return resp_invalid(t, REFUSE_ROOM);
	}
	if (t->qp->srq)
		resp_complete_recv(t, &wc, true);
	return t->resp.state == RESP_OFF ? V_GONE : V_DROP;
}

enum resp_verdict resp_scatter(struct tr_qp *t, const uint8_t *data, uint32_t len)
{
	struct odp_access acc = {
	    .now = t->qp->hca->now, .remote = true, .waiter = &t->resp.fault};
	struct tr_resp *resp = &t->resp;
	struct emu_srq *srq = resp_srq(t->qp, resp->rsrqn);
	struct tr_sg sg = {
	    .hca = t->qp->hca,
	    .pd = srq ? srq->pd : t->qp->pd,
	    .sge = resp->rwqe->sge,
	    .num_sge = resp->rwqe->num_sge,
	};
	uint32_t done;
	int ret;

	if (len > resp->rwqe->length - resp->rlen)
		return too_long(t);
	if (len < resp->rpart)
		return V_INVALID; /* another packet than the first time */
	ret = sg_write(&sg, &resp->rcur, data + resp->rpart, len - resp->rpart,
		       resp->rwqe->length - resp->rlen - len, &acc, &done);
	resp->rpart = ret ? resp->rpart + done : 0;
	resp->resume = ret == -EAGAIN;
	if (resp->resume)
		return resp_defer(t, &acc);
	if (ret) {
		resp_report_recv(t, IBV_WC_LOC_PROT_ERR, IBV_WC_RECV);
		return V_OP;
	}
	resp->rlen += len;
	return V_OK;
}

bool resp_flush_rq(struct tr_qp *t)
{
	struct ib_uverbs_wc wc = {
	    .status = IBV_WC_WR_FLUSH_ERR,
	    .opcode = IBV_WC_RECV,
	    .qp_num = t->qp->qpn,
	    .port_num = EMU_PORT,
	};
	struct emu_recv_wqe wqe;
	bool any = false;
	uint32_t n;

	if (!t->qp->rq.buf)
		return false;
	for (n = ring_count_from(&t->qp->rq, t->qp->rq.local);
	     n && emu_rq_take(t->qp, &wqe) != -ENOENT; n--) {
		wc.wr_id = wqe.wr_id;
		emu_cq_post(t->qp->recv_cq, &wc, true);
		any = true;
	}
	return any;
}
