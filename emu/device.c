/*
 * device.c - what the device says of itself: limits, port, GID table, counters.
 *
 * Limits are the profile's, see limits.h. The GID table has 64 entries, whatever the device is.
 */
#include <errno.h>

#include "emu/qp.h"
#include "emu/transport.h"

#define PORT_CM_SUP (1u << 16) /* port_cap_flags of RoCE ports: ib_verbs.h */

void emu_query_device(const struct emu_hca *hca, struct ibv_device_attr_ex *attr)
{
	const struct emu_limits *l = &hca->limits;

	*attr = (struct ibv_device_attr_ex){
	    .orig_attr =
		{
		    .node_guid = hca->cfg.guid_be,
		    .sys_image_guid = hca->cfg.guid_be,
		    .max_mr_size = l->max_mr_size,
		    .page_size_cap = l->page_size_cap,
		    .vendor_id = (uint32_t)l->vendor_id,
		    .vendor_part_id = (uint32_t)l->vendor_part_id,
		    .hw_ver = (uint32_t)l->hw_ver,
		    .max_qp = (int)l->max_qp,
		    .max_qp_wr = (int)l->max_qp_wr,
		    .device_cap_flags = (uint32_t)l->device_cap_flags,
		    .max_sge = (int)l->max_sge,
		    .max_sge_rd = (int)l->max_sge_rd,
		    .max_cq = (int)l->max_cq,
		    .max_cqe = (int)l->max_cqe,
		    .max_mr = (int)l->max_mr,
		    .max_pd = (int)l->max_pd,
		    .max_qp_rd_atom = (int)l->max_qp_rd_atom,
		    .max_res_rd_atom = (int)l->max_res_rd_atom,
		    .max_qp_init_rd_atom = (int)l->max_qp_init_rd_atom,
		    .atomic_cap = (enum ibv_atomic_cap)l->atomic_cap,
		    .max_mw = (int)l->max_mw,
		    .max_mcast_grp = (int)l->max_mcast_grp,
		    .max_mcast_qp_attach = (int)l->max_mcast_qp_attach,
		    .max_total_mcast_qp_attach = (int)l->max_total_mcast_qp_attach,
		    .max_ah = (int)l->max_ah,
		    .max_srq = (int)l->max_srq,
		    .max_srq_wr = (int)l->max_srq_wr,
		    .max_srq_sge = (int)l->max_srq_sge,
		    .max_pkeys = (uint16_t)l->max_pkeys,
		    .local_ca_ack_delay = (uint8_t)l->local_ca_ack_delay,
		    .phys_port_cnt = 1,
		},
	    .odp_caps = {.general_caps = l->general_odp_caps,
			 .per_transport_caps =
			     {
				 .rc_odp_caps = (uint32_t)l->rc_odp_caps,
				 .uc_odp_caps = (uint32_t)l->uc_odp_caps,
				 .ud_odp_caps = (uint32_t)l->ud_odp_caps,
			     }},
	    .device_cap_flags_ex = l->device_cap_flags,
	    .phys_port_cnt_ex = 1,
	    .xrc_odp_caps = (uint32_t)l->xrc_odp_caps,
	};
	memcpy(attr->orig_attr.fw_ver, l->fw_ver, sizeof(attr->orig_attr.fw_ver));
}

/* PortInfo's counters of violations have 16 bits and stop at all ones (IBTA 14.2.5.6). */
static uint32_t violations(const struct emu_hca *hca, enum emu_counter which)
{
	uint64_t n = hca->counter[which];

	return n < 0xffff ? (uint32_t)n : 0xffff;
}

void emu_query_port(const struct emu_hca *hca, struct ibv_port_attr *attr)
{
	*attr = (struct ibv_port_attr){
	    .state = hca->port_up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
	    .max_mtu = IBV_MTU_4096,
	    .active_mtu = hca->mtu,
	    .gid_tbl_len = EMU_GID_TABLE_LEN,
	    .port_cap_flags = PORT_CM_SUP,
	    .max_msg_sz = (uint32_t)hca->limits.max_msg_sz,
	    .bad_pkey_cntr = violations(hca, EMU_CNT_RX_BAD_PKEY),
	    .qkey_viol_cntr = violations(hca, EMU_CNT_RX_BAD_QKEY),
	    .pkey_tbl_len = 1,
	    .max_vl_num = 1,
	    .active_width = (uint8_t)hca->limits.active_width,
	    .active_speed = (uint8_t)hca->limits.active_speed,
	    .phys_state = hca->port_up ? 5 : 3, /* LinkUp, Disabled */
	    .link_layer = IBV_LINK_LAYER_ETHERNET,
	    .flags = IBV_QPF_GRH_REQUIRED,
	};
}

/* What is so of the port, by the interface and what else there is */
static void settle_port(struct emu_hca *hca)
{
	bool was = hca->port_up, up = hca->link_up && !hca->held_down && !hca->dead;
	enum ibv_mtu mtu = hca->mtu;

	hca->port_up = up;
	if (hca->cfg.seen) {
		hca->cfg.seen->dev.up = up;
		hca->cfg.seen->dev.mtu = 128u << mtu;
	}
	if (up == was)
		return;
	if (!up)
		hca->counter[EMU_CNT_LINK_DOWNED]++;
	EMU_TRACE(hca, port, .up = up, .mtu = (uint16_t)(128u << mtu));
	emu_event(hca, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR, TRACE_OBJ_DEVICE,
		  hca->cfg.device, NULL);
}

void emu_set_port(struct emu_hca *hca, bool up, enum ibv_mtu mtu)
{
	hca->mtu = mtu;
	hca->link_up = up;
	settle_port(hca);
}

void emu_port_fail(struct emu_hca *hca, uint64_t until)
{
	hca->held_down = true;
	tr_port_repair_at(hca, until);
	settle_port(hca);
}

void emu_port_repair(struct emu_hca *hca)
{
	hca->held_down = false;
	tr_port_repair_at(hca, 0);
	settle_port(hca);
}

static void fail_qp(struct emu_qp *qp)
{
	emu_qp_fail(qp, 0, TRACE_CAUSE_DEVICE, IBV_WC_WR_FLUSH_ERR);
}

void emu_hca_die(struct emu_hca *hca)
{
	if (hca->dead)
		return;
	hca->dead = true;
	emu_event(hca, IBV_EVENT_DEVICE_FATAL, TRACE_OBJ_DEVICE, hca->cfg.device, NULL);
	settle_port(hca);
	emu_qps_each(hca, fail_qp);
}

bool emu_hca_is_dead(const struct emu_hca *hca)
{
	return hca->dead;
}

static void record_gid(struct emu_hca *hca, unsigned int index)
{
	struct trace_ip ip;

	memcpy(ip.b, hca->gid[index].b, sizeof(ip.b));
	EMU_TRACE(hca, gid, .gid = ip, .index = index);
}

int emu_set_gid(struct emu_hca *hca, unsigned int index, const struct net_ip *ip)
{
	if (index >= EMU_GID_TABLE_LEN)
		return -EINVAL;
	if (!!ip == hca->gid_used[index] && (!ip || net_ip_eq(ip, &hca->gid[index])))
		return 0;
	hca->gid_used[index] = ip;
	hca->gid[index] = ip ? *ip : (struct net_ip){{0}};
	record_gid(hca, index);
	emu_event(hca, IBV_EVENT_GID_CHANGE, TRACE_OBJ_DEVICE, hca->cfg.device, NULL);
	return 0;
}

unsigned int emu_gid_step(const struct emu_hca *hca)
{
	return emu_limits_gid_step(&hca->limits);
}

bool emu_gid_is_v1(const struct emu_hca *hca, unsigned int index)
{
	return emu_limits_v1(&hca->limits, index);
}

void emu_gid_move(struct emu_hca *hca)
{
	unsigned int from = 0, to = 0;

	while (from < EMU_GID_TABLE_LEN && !hca->gid_used[from])
		from++;
	while (to < EMU_GID_TABLE_LEN && hca->gid_used[to])
		to++;
	if (from == EMU_GID_TABLE_LEN || to == EMU_GID_TABLE_LEN)
		return;
	for (unsigned int k = 0; k < emu_gid_step(hca); k++) {
		emu_set_gid(hca, to + k, &hca->gid[from + k]);
		emu_set_gid(hca, from + k, NULL);
	}
}

int emu_get_gid(const struct emu_hca *hca, unsigned int index, struct net_ip *ip)
{
	if (index >= EMU_GID_TABLE_LEN)
		return -EINVAL;
	if (!hca->gid_used[index])
		return -ENODATA;
	*ip = hca->gid[index];
	return 0;
}

#define NAME(id, name) [EMU_CNT_##id] = (name),
static const char *const counter_names[] = {TRACE_HW_COUNTERS(NAME)};
#undef NAME

size_t emu_hw_counters(const struct emu_hca *hca, const char *const **names,
		       const uint64_t **values)
{
	*names = counter_names;
	*values = hca->counter;
	return sizeof(counter_names) / sizeof(counter_names[0]);
}
