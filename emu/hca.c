/*
 * hca.c - the HCA itself: making it, time, and the way of packets to and from the
 * transport.
 *
 * Owns struct emu_hca. QP1 (the GSI) has no queue pair: MADs go out from here and come in
 * through struct emu_ops.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/splitmix.h"
#include "emu/cm_mad.h"
#include "emu/note.h"
#include "emu/qp.h"
#include "emu/transport.h"
#include "net/rocev2.h"

int emu_hca_create(const struct emu_hca_cfg *cfg, const struct emu_ops *ops, void *arg,
		   struct emu_hca **out)
{
	struct emu_hca *hca = calloc(1, sizeof(*hca));
	int ret;

	if (!hca)
		return -ENOMEM;
	hca->cfg = *cfg;
	hca->limits = cfg->limits ? *cfg->limits : EMU_LIMITS_RXE;
	hca->ops = ops;
	hca->arg = arg;
	hca->mtu = cfg->mtu;
	hca->counter = cfg->seen ? cfg->seen->dev.counter : hca->own_counter;
	hca->port_up = hca->link_up = true;
	hca->rng = cfg->seed;
	emu_table_init(&hca->keys, 1, 1u << 24);
	emu_table_init(&hca->ahs, 1, (uint32_t)hca->limits.max_ah + 1);
	emu_table_init(&hca->srqs, 1, 1u << 24);
	hca->gsi_psn = emu_rand(hca) & ROCE_PSN_MASK;
	ret = tr_hca_init(hca);
	if (ret) {
		free(hca);
		return ret;
	}
	*out = hca;
	return 0;
}

void emu_hca_destroy(struct emu_hca *hca)
{
	tr_hca_fini(hca);
	emu_notes_fini(hca);
	emu_table_fini(&hca->keys);
	emu_table_fini(&hca->ahs);
	emu_table_fini(&hca->srqs);
	emu_qpns_fini(&hca->qpns);
	free(hca->lost);
	free(hca);
}

uint64_t emu_rand(struct emu_hca *hca)
{
	return splitmix_next(&hca->rng);
}

void emu_hca_set_time(struct emu_hca *hca, uint64_t now)
{
	if (now <= hca->now)
		return;
	tr_show_in(hca); /* it came before */
	hca->now = now;
}

void emu_hca_show(struct emu_hca *hca)
{
	tr_show_in(hca);
}

bool emu_hca_run(struct emu_hca *hca)
{
	if (hca->cqs_aside)
		emu_cqs_bring_back(hca);
	return tr_run(hca);
}

uint64_t emu_hca_deadline(const struct emu_hca *hca)
{
	return tr_deadline(hca);
}

bool emu_hca_timer_due(const struct emu_hca *hca)
{
	return tr_timer_due(hca);
}

/* The longest packet is one of the largest MTU with its headers */
#define LOST_BYTES (4096 + ROCE_HDR_MAX + ROCE_ICRC_LEN)

uint8_t *emu_tx_get(struct emu_hca *hca, const struct net_path *path, uint32_t dqpn,
		    uint32_t len)
{
	if (hca->port_up)
		return hca->ops->tx_get(hca->arg, path, dqpn, len);
	if (!hca->lost)
		hca->lost = malloc(LOST_BYTES);
	hca->losing = hca->lost && len <= LOST_BYTES;
	return hca->losing ? hca->lost : NULL;
}

void emu_tx_put(struct emu_hca *hca, uint32_t bytes)
{
	if (!hca->losing) {
		hca->ops->tx_put(hca->arg);
		hca->counter[EMU_CNT_SENT_PKTS]++;
		hca->counter[EMU_CNT_SENT_BYTES] += bytes;
	}
	hca->losing = false;
}

void emu_record_mad(struct emu_hca *hca, const struct net_ip *peer, const uint8_t *mad,
		    bool sent, bool again)
{
	struct cm_mad_head h;
	struct trace_ip ip;

	if (!cm_mad_peek(mad, &h))
		return;
	memcpy(ip.b, peer->b, sizeof(ip.b));
	EMU_TRACE(hca, cm_message, .peer = ip, .local_id = h.local_id,
		  .remote_id = h.remote_id, .message = h.attr, .reason = h.reason,
		  .sent = sent, .again = again, .port = h.port);
}

int emu_hca_gsi_tx(struct emu_hca *hca, const struct net_path *path, uint32_t dqpn,
		   const uint8_t *mad, uint32_t len, bool again)
{
	struct roce_hdr h = {
	    .opcode = ROCE_UD | ROCE_SEND_ONLY,
	    .mig = true, /* as every datagram */
	    .pkey = ROCE_PKEY_DEFAULT,
	    .dqpn = dqpn,
	    .psn = hca->gsi_psn,
	    .qkey = ROCE_QKEY_GSI,
	    .sqpn = ROCE_QPN_GSI,
	};
	uint32_t hdr_len;
	uint8_t *p;

	if (len == 0 || len > ROCE_MAD_LEN || dqpn > ROCE_QPN_MASK)
		return -EINVAL;
	roce_opcode_info(h.opcode, &hdr_len);
	p = emu_tx_get(hca, path, dqpn, hdr_len + ROCE_MAD_LEN);
	if (!p)
		return -EAGAIN;
	roce_build(p, &h);
	memcpy(p + hdr_len, mad, len);
	memset(p + hdr_len + len, 0, ROCE_MAD_LEN - len);
	emu_record_mad(hca, &path->dst, p + hdr_len, true, again);
	emu_tx_put(hca, hdr_len + ROCE_MAD_LEN);
	hca->gsi_psn = roce_psn_add(hca->gsi_psn, 1);
	return 0;
}
