/*
 * responder_execute.c - whether a request may be executed, and doing it (IBTA vol. 1, 9.7.4.1).
 *
 * What is answered with data or an acknowledge of its own goes on to resources.c.
 *
 * Owns: the message in progress (where a WRITE is, how much of it is to come). Must not know:
 * PSNs, and what follows from a verdict (responder.c).
 */
#include "emu/transport_internal.h"

int resp_remote_get(struct tr_qp *t, const struct resp_remote *r, uint32_t srqn,
		    struct emu_mem *mem)
{
	struct emu_srq *srq;

	if (t->qp->type == IBV_QPT_XRC_RECV) {
		srq = resp_srq(t->qp, srqn);
		t->qp->xrc_pd = srq ? srq->pd : NULL;
	}
	return emu_rkey_check(t->qp->hca, t->qp, r->rkey, r->va, r->rest, r->access, mem);
}

/* --- SEND ------------------------------------------------------------------------- */

/*
 * 9.9.3 class J: an R_Key that cannot be invalidated. The consumer here is told, the requester is
 * not: the QP ends without a NAK, once what was executed before has been answered.
 */
static enum resp_verdict cannot_invalidate(struct tr_qp *t)
{
	resp_report_recv(t, IBV_WC_REM_INV_REQ_ERR, IBV_WC_RECV);
	if (t->resp.state == RESP_OFF)
		return V_GONE;
	resp_die(t);
	return V_GONE;
}

static enum resp_verdict finish_send(struct tr_qp *t, const struct roce_hdr *h,
				     uint32_t info)
{
	struct ib_uverbs_wc wc = {.opcode = IBV_WC_RECV, .byte_len = t->resp.rlen};

	if (info & ROCE_F_IETH) {
		if (emu_invalidate_key(t->qp, h->inv_rkey))
			return cannot_invalidate(t);
		wc.wc_flags = IBV_WC_WITH_INV;
		wc.ex.invalidate_rkey = h->inv_rkey;
	} else if (info & ROCE_F_IMM) {
		wc.wc_flags = IBV_WC_WITH_IMM;
		wc.ex.imm_data = h->imm_be;
	}
	wc.src_qp = t->qp->attr.dest_qp_num;
	resp_complete_recv(t, &wc, h->se);
	return t->resp.state == RESP_OFF ? V_GONE : V_OK;
}

static enum resp_verdict do_send(struct tr_qp *t, const struct roce_hdr *h, uint32_t info,
				 const uint8_t *data, uint32_t len)
{
	struct tr_resp *resp = &t->resp;
	enum resp_verdict v;

	if (info & ROCE_F_FIRST) {
		v = resp_take_wqe(t, h->xrc_srqn);
		if (v)
			return v;
		resp_rewind_recv(resp);
	}
	v = resp_scatter(t, data, len);
	if (v || !(info & ROCE_F_LAST))
		return v;
	return finish_send(t, h, info);
}

/* --- WRITE ------------------------------------------------------------------------ */

static enum resp_verdict write_data(struct tr_qp *t, uint32_t srqn, const uint8_t *data,
				    uint32_t len)
{
	struct odp_access acc = {.now = t->qp->hca->now,
				 .remote = true,
				 .ahead = t->resp.resid - len,
				 .waiter = &t->resp.fault};
	struct tr_resp *resp = &t->resp;
	struct resp_remote r = {resp->rkey, resp->va, resp->resid,
				IBV_ACCESS_REMOTE_WRITE};
	struct emu_mem mem;
	int ret;

	if (resp_remote_get(t, &r, srqn, &mem))
		return V_ACCESS;
	ret = odp_write(mem.mr, mem.iova, data, len, &acc);
	if (ret)
		return ret == -EAGAIN ? resp_defer(t, &acc) : V_ACCESS;
	resp->va += len;
	resp->resid -= len;
	return V_OK;
}

static enum resp_verdict do_write(struct tr_qp *t, const struct roce_hdr *h,
				  uint32_t info, const uint8_t *data, uint32_t len)
{
	struct tr_resp *resp = &t->resp;
	struct ib_uverbs_wc wc = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM,
				  .wc_flags = IBV_WC_WITH_IMM};
	enum resp_verdict v;

	if (info & ROCE_F_RETH) {
		resp->va = h->va;
		resp->rkey = h->rkey;
		resp->resid = resp->dma_len = h->dma_len;
	}
	/* 9.7.4.1.6: the DMA length and the packets must agree */
	if ((info & ROCE_F_LAST) ? len != resp->resid : len >= resp->resid)
		return resp_invalid(t, REFUSE_DMA);
	if (info & ROCE_F_IMM) {
		v = resp_take_wqe(t, h->xrc_srqn);
		if (v)
			return v;
	}
	v = len ? write_data(t, h->xrc_srqn, data, len) : V_OK;
	if (v || !(info & ROCE_F_IMM))
		return v;
	wc.byte_len = resp->dma_len;
	wc.ex.imm_data = h->imm_be;
	wc.src_qp = t->qp->attr.dest_qp_num;
	resp_complete_recv(t, &wc, h->se);
	return resp->state == RESP_OFF ? V_GONE : V_OK;
}

/* --- judging requests ------------------------------------------------------------- */

/* 9.7.4.1.2, 9.8.2.2.2: does the packet continue, or begin, a message? */
static bool in_sequence(const struct tr_resp *resp, uint32_t info)
{
	bool first = info & ROCE_F_FIRST;

	switch (resp->msg) {
	case MSG_SEND:
		return !first && (info & ROCE_F_SEND);
	case MSG_WRITE:
		return !first && (info & ROCE_F_WRITE);
	case MSG_NONE:
		break;
	}
	return first;
}

/* 9.7.4.1.3: what the QP lets its peer do */
static bool allowed(const struct emu_qp *qp, const struct roce_hdr *h, uint32_t info)
{
	unsigned int have = qp->attr.qp_access_flags;

	switch (h->opcode & ROCE_OP_MASK) {
	case ROCE_READ_REQ:
		return have & IBV_ACCESS_REMOTE_READ;
	case ROCE_CMP_SWAP:
	case ROCE_FETCH_ADD:
		return have & IBV_ACCESS_REMOTE_ATOMIC &&
		       qp->hca->limits.atomic_cap != IBV_ATOMIC_NONE;
	case ROCE_ATOMIC_WRITE:
		return have & IBV_ACCESS_REMOTE_WRITE;
	case ROCE_FLUSH:
		return (!(h->flush_type & 1) || (have & EMU_ACCESS_FLUSH_GLOBAL)) &&
		       (!(h->flush_type & 2) || (have & EMU_ACCESS_FLUSH_PERSISTENT));
	default:
		return !(info & ROCE_F_WRITE) || (have & IBV_ACCESS_REMOTE_WRITE);
	}
}

/* 9.7.4.1.4 */
static bool length_right(const struct emu_qp *qp, const struct roce_hdr *h, uint32_t info,
			 uint32_t len)
{
	/* what is flushed is no message */
	if ((info & ROCE_F_RETH) && !(info & ROCE_F_FETH) && h->dma_len > WQE_MAX_LENGTH)
		return false;
	if (!(info & ROCE_F_PAYLOAD))
		return true;
	if (!(info & ROCE_F_LAST))
		return len == qp->mtu;
	return len <= qp->mtu && (len || (info & ROCE_F_FIRST));
}

enum resp_verdict resp_execute(struct tr_qp *t, const struct roce_hdr *h, uint32_t info,
			       const uint8_t *data, uint32_t len)
{
	t->resp.refusal = REFUSE_OTHER;
	if (!in_sequence(&t->resp, info))
		return resp_invalid(t, REFUSE_SEQUENCE);
	if (!allowed(t->qp, h, info))
		return resp_invalid(t, REFUSE_RIGHT);
	if (!length_right(t->qp, h, info, len))
		return resp_invalid(t, REFUSE_LENGTH);
	if (info & ROCE_F_SEND)
		return do_send(t, h, info, data, len);
	if (info & ROCE_F_WRITE)
		return do_write(t, h, info, data, len);
	return res_execute(t, h, data, len);
}
