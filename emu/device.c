/*
 * device.c - what the device says of itself: limits, port, GID table, counters.
 *
 * Limits are those that rdma_rxe of Linux 7.2 reports. Beyond it: XRC, and ODP for all
 * transports with implicit MRs. The GID table has 64 entries instead of 1024.
 */
#include <errno.h>

#include "emu/objects.h"

/* rdma/ib_user_verbs.h, Linux 6.2 */
#define CAP_FLUSH_GLOBAL	 (1ULL << 38)
#define CAP_FLUSH_PERSISTENT	 (1ULL << 39)
#define CAP_ATOMIC_WRITE	 (1ULL << 40)
#define ODP_SUPPORT_FLUSH	 (1u << 6)
#define ODP_SUPPORT_ATOMIC_WRITE (1u << 7)

#define PORT_CM_SUP (1u << 16) /* port_cap_flags of RoCE ports: ib_verbs.h */

#define DEVICE_CAPS                                                                      \
	(IBV_DEVICE_BAD_PKEY_CNTR | IBV_DEVICE_BAD_QKEY_CNTR |                           \
	 IBV_DEVICE_AUTO_PATH_MIG | IBV_DEVICE_CHANGE_PHY_PORT |                         \
	 IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_PORT_ACTIVE_EVENT |                  \
	 IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | \
	 IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_MGT_EXTENSIONS |                         \
	 IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_XRC)

static void query_odp(struct ibv_device_attr_ex *attr)
{
	const uint32_t write = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE;
	const uint32_t ask = write | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;

	attr->odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps =
	    ask | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV | ODP_SUPPORT_FLUSH |
	    ODP_SUPPORT_ATOMIC_WRITE;
	attr->odp_caps.per_transport_caps.uc_odp_caps =
	    write | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	attr->odp_caps.per_transport_caps.ud_odp_caps =
	    IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	attr->xrc_odp_caps = ask | IBV_ODP_SUPPORT_SRQ_RECV;
}

void emu_query_device(const struct emu_hca *hca, struct ibv_device_attr_ex *attr)
{
	*attr = (struct ibv_device_attr_ex){
	    .orig_attr =
		{
		    .fw_ver = "0.0.0",
		    .node_guid = hca->cfg.guid_be,
		    .sys_image_guid = hca->cfg.guid_be,
		    .max_mr_size = UINT64_MAX,
		    .page_size_cap = 0xfffff000,
		    .vendor_id = 0xffffff, /* IBTA A3.3.1: none */
		    .max_qp = EMU_MAX_QP,
		    .max_qp_wr = EMU_MAX_QP_WR,
		    .device_cap_flags = DEVICE_CAPS,
		    .max_sge = EMU_MAX_SGE,
		    .max_sge_rd = EMU_MAX_SGE,
		    .max_cq = EMU_MAX_CQ,
		    .max_cqe = EMU_MAX_CQE,
		    .max_mr = EMU_MAX_MR,
		    .max_pd = EMU_MAX_PD,
		    .max_qp_rd_atom = EMU_MAX_RD_ATOMIC,
		    .max_res_rd_atom = 0x3f000,
		    .max_qp_init_rd_atom = EMU_MAX_RD_ATOMIC,
		    .atomic_cap = IBV_ATOMIC_HCA,
		    .max_mw = EMU_MAX_MW,
		    .max_mcast_grp = EMU_MAX_MCAST_GRP,
		    .max_mcast_qp_attach = EMU_MAX_MCAST_QP_ATTACH,
		    .max_total_mcast_qp_attach = EMU_MAX_MCAST_TOTAL,
		    .max_ah = EMU_MAX_AH,
		    .max_srq = EMU_MAX_SRQ,
		    .max_srq_wr = EMU_MAX_SRQ_WR,
		    .max_srq_sge = EMU_MAX_SRQ_SGE,
		    .max_pkeys = 64,
		    .local_ca_ack_delay = 15,
		    .phys_port_cnt = 1,
		},
	    .device_cap_flags_ex =
		DEVICE_CAPS | CAP_FLUSH_GLOBAL | CAP_FLUSH_PERSISTENT | CAP_ATOMIC_WRITE,
	    .phys_port_cnt_ex = 1,
	};
	query_odp(attr);
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
	    .max_msg_sz = 1u << 31,
	    .bad_pkey_cntr = violations(hca, EMU_CNT_RX_BAD_PKEY),
	    .qkey_viol_cntr = violations(hca, EMU_CNT_RX_BAD_QKEY),
	    .pkey_tbl_len = 1,
	    .max_vl_num = 1,
	    .active_width = 1,			/* 1X */
	    .active_speed = 1,			/* SDR */
	    .phys_state = hca->port_up ? 5 : 3, /* LinkUp, Disabled */
	    .link_layer = IBV_LINK_LAYER_ETHERNET,
	    .flags = IBV_QPF_GRH_REQUIRED,
	};
}

void emu_set_port(struct emu_hca *hca, bool up, enum ibv_mtu mtu)
{
	bool was = hca->port_up;

	hca->mtu = mtu;
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
