/*
 * ud.c - unreliable datagrams, and QP1 (IBTA vol. 1, 9.8.3, 11.4.1.2; annex A17).
 *
 * A datagram is one packet, complete when the port has it. At the receiver 40 bytes for
 * the global route header come before the payload; RoCEv2 over IPv4 has the IPv4 header
 * in the last 20 of them (annex A17.9.1.1, and what libibverbs looks for in
 * ibv_init_ah_from_wc()).
 *
 * Multicast: the network delivers to all that joined, also on this host, also to the
 * sender's own QP when it is a member. Nothing is looped back here.
 *
 * QP1 has no struct emu_qp: MADs that come in are given to emu_ops, those that go out are
 * hca.c's.
 */
#include "emu/transport_internal.h"
#include "net/ip_header.h"

#define GRH_LEN		40
#define QKEY_CONTROLLED 0x80000000u

/* --- sending ---------------------------------------------------------------------- */

/* Where it goes: 0, or -errno when the WQE names no way */
static int find_path(const struct tr_qp *t, const struct tr_wqe *w, struct net_path *path)
{
	const struct emu_ah *ah;

	if (!w->ud.ah_num)
		return wqe_av_path(t->qp, req_ring_index(t, t->req.cur), path);
	ah = emu_ah_find(t->qp->hca, w->ud.ah_num);
	if (!ah || ah->pd != t->qp->pd)
		return -EINVAL;
	*path = ah->path;
	return 0;
}

static void fill_header(const struct emu_qp *qp, const struct tr_wqe *w,
			struct roce_hdr *h)
{
	tr_hdr(qp, h, wqe_packet_op(w, true, true));
	h->dqpn = w->ud.qpn;
	h->psn = w->first_psn;
	h->se = w->solicited;
	h->imm_be = w->ex;
	h->sqpn = qp->qpn;
	/* 10.2.5: a Q_Key that consumers may not choose stands for the QP's own */
	h->qkey = (w->ud.qkey & QKEY_CONTROLLED) ? qp->attr.qkey : w->ud.qkey;
}

enum tr_step ud_send(struct tr_qp *t, struct tr_wqe *w)
{
	struct odp_access acc = {.now = t->qp->hca->now, .waiter = &t->req.fault};
	struct emu_qp *qp = t->qp;
	struct net_path path;
	struct roce_hdr h;
	uint32_t total;
	uint8_t *data;
	int ret;

	if (find_path(t, w, &path))
		return req_wqe_failed(t, w, IBV_WC_LOC_QP_OP_ERR);
	fill_header(qp, w, &h);
	data = tr_tx_open(qp->hca, &path, &h, w->length, &total);
	if (!data)
		return TR_FULL;
	ret = w->length ? req_gather(t, w, 0, data, w->length, &acc) : 0;
	if (ret)
		return req_memory_error(t, w, ret, &acc);
	tr_tx_close(qp, &h, w->length, total, TRACE_WHY_FIRST);
	req_sent(t, w, 1);
	return TR_SENT;
}

/* --- receiving -------------------------------------------------------------------- */

/* The network header as the consumer finds it before the data */
static void make_grh(uint8_t *grh, const struct net_rx *pkt)
{
	uint32_t udp_len = UDP_HDR_LEN + pkt->len + ROCE_ICRC_LEN;
	const struct net_path *path = pkt->path;
	uint8_t *ip4 = grh + GRH_LEN - IP4_HDR_LEN;

	memset(grh, 0, GRH_LEN);
	if (net_ip_is_v4(&path->dst)) {
		ip4_header(ip4, path, path->tclass, path->ttl, 0, udp_len);
		ip4_put_checksum(ip4);
	} else {
		ip6_header(grh, path, path->tclass, path->ttl, path->flow, udp_len);
	}
}

static enum resp_verdict receive(struct tr_qp *t, const struct net_rx *pkt,
				 const uint8_t *payload, uint32_t len)
{
	struct tr_resp *resp = &t->resp;
	uint8_t grh[GRH_LEN];
	enum resp_verdict v;

	v = resp_take_wqe(t, 0);
	if (v)
		return v;
	resp_rewind_recv(resp);
	if (resp->rlen < GRH_LEN) {
		make_grh(grh, pkt);
		v = resp_scatter(t, grh, sizeof(grh));
		if (v)
			return v;
	}
	return resp_scatter(t, payload, len);
}

/*
 * What kind of RoCE a datagram came by, where mlx5 has it: in the completion's sl, which means
 * nothing else on RoCE without VLANs. UCX looks there to find the addresses in the GRH. No
 * consumer of rxe, which leaves it 0, can have a use for that.
 */
static uint8_t roce_packet_type(const struct net_path *path)
{
	return net_ip_is_v4(&path->dst) ? 2 : 1;
}

void ud_rx(struct tr_qp *t, const struct net_rx *pkt, const struct roce_hdr *h,
	   uint32_t info, const uint8_t *payload, uint32_t len)
{
	struct ib_uverbs_wc wc = {
	    .opcode = IBV_WC_RECV,
	    .byte_len = len + GRH_LEN,
	    .src_qp = h->sqpn,
	    .wc_flags = IBV_WC_GRH,
	    .sl = roce_packet_type(pkt->path),
	};
	enum resp_verdict v;

	if (h->qkey != t->qp->attr.qkey) {
		t->qp->hca->counter[EMU_CNT_RX_BAD_QKEY]++;
		tr_dropped(t->qp->hca, t->qp, pkt, h, TRACE_DROP_QKEY);
		return;
	}
	resp_communication(t);
	t->resp.event = IBV_EVENT_QP_FATAL;
	v = receive(t, pkt, payload, len);
	if (v == V_HOLD) {
		resp_wait(t, pkt);
		return;
	}
	t->resp.resume = false;
	if (v == V_RNR)
		tr_dropped(t->qp->hca, t->qp, pkt, h, TRACE_DROP_NO_RECEIVE);
	if (v == V_OK) {
		if (info & ROCE_F_IMM) {
			wc.wc_flags |= IBV_WC_WITH_IMM;
			wc.ex.imm_data = h->imm_be;
		}
		resp_complete_recv(t, &wc, h->se);
	} else if (t->resp.event == 0) {
		/* the receive WQE was no good, and said so */
		emu_qp_fail(t->qp, 0, TRACE_CAUSE_RESPONDER, IBV_WC_SUCCESS);
	}
}

/* --- QP1 -------------------------------------------------------------------------- */

void ud_gsi_rx(struct emu_hca *hca, const struct net_rx *pkt, const struct roce_hdr *h,
	       uint32_t info, const uint8_t *payload, uint32_t len)
{
	if (!(info & ROCE_F_DETH) || (info & ROCE_F_IMM)) {
		hca->counter[EMU_CNT_RX_BAD_QPN]++;
		tr_dropped(hca, NULL, pkt, h, TRACE_DROP_NO_QP);
		return;
	}
	if (h->qkey != ROCE_QKEY_GSI) {
		hca->counter[EMU_CNT_RX_BAD_QKEY]++;
		tr_dropped(hca, NULL, pkt, h, TRACE_DROP_QKEY);
		return;
	}
	if (len != ROCE_MAD_LEN) {
		hca->counter[EMU_CNT_RX_MALFORMED]++;
		tr_dropped(hca, NULL, pkt, h, TRACE_DROP_MALFORMED);
		return;
	}
	emu_record_mad(hca, &pkt->path->src, payload, false, false);
	if (hca->ops->gsi_rx)
		hca->ops->gsi_rx(hca->arg, pkt->path, payload, len);
}
