/*
 * uverbs_convert.c - the attributes of <infiniband/verbs.h> in the layouts of
 * <rdma/ib_user_verbs.h>, and back.
 */
#include "verbs/uverbs/uverbs_convert.h"

#include <rdma/ib_user_ioctl_verbs.h>
#include <stdio.h>
#include <string.h>

/* Three numbers, 16 bits each, of which librxe makes a text; others that a text has are lost */
static uint64_t pack_fw_ver(const char *text)
{
	unsigned int part[3] = {0};

	sscanf(text, "%u.%u.%u", &part[0], &part[1], &part[2]);
	return (uint64_t)(part[0] & 0xffff) << 32 | (part[1] & 0xffff) << 16 |
	       (part[2] & 0xffff);
}

void uverbs_from_device_attr(const struct ibv_device_attr_ex *attr,
			     struct ib_uverbs_query_device_resp *resp)
{
	const struct ibv_device_attr *a = &attr->orig_attr;

	*resp = (struct ib_uverbs_query_device_resp){
	    .fw_ver = pack_fw_ver(a->fw_ver),
	    .node_guid = a->node_guid,
	    .sys_image_guid = a->sys_image_guid,
	    .max_mr_size = a->max_mr_size,
	    .page_size_cap = a->page_size_cap,
	    .vendor_id = a->vendor_id,
	    .vendor_part_id = a->vendor_part_id,
	    .hw_ver = a->hw_ver,
	    .max_qp = (uint32_t)a->max_qp,
	    .max_qp_wr = (uint32_t)a->max_qp_wr,
	    .device_cap_flags = a->device_cap_flags,
	    .max_sge = (uint32_t)a->max_sge,
	    .max_sge_rd = (uint32_t)a->max_sge_rd,
	    .max_cq = (uint32_t)a->max_cq,
	    .max_cqe = (uint32_t)a->max_cqe,
	    .max_mr = (uint32_t)a->max_mr,
	    .max_pd = (uint32_t)a->max_pd,
	    .max_qp_rd_atom = (uint32_t)a->max_qp_rd_atom,
	    .max_ee_rd_atom = (uint32_t)a->max_ee_rd_atom,
	    .max_res_rd_atom = (uint32_t)a->max_res_rd_atom,
	    .max_qp_init_rd_atom = (uint32_t)a->max_qp_init_rd_atom,
	    .max_ee_init_rd_atom = (uint32_t)a->max_ee_init_rd_atom,
	    .atomic_cap = a->atomic_cap,
	    .max_ee = (uint32_t)a->max_ee,
	    .max_rdd = (uint32_t)a->max_rdd,
	    .max_mw = (uint32_t)a->max_mw,
	    .max_raw_ipv6_qp = (uint32_t)a->max_raw_ipv6_qp,
	    .max_raw_ethy_qp = (uint32_t)a->max_raw_ethy_qp,
	    .max_mcast_grp = (uint32_t)a->max_mcast_grp,
	    .max_mcast_qp_attach = (uint32_t)a->max_mcast_qp_attach,
	    .max_total_mcast_qp_attach = (uint32_t)a->max_total_mcast_qp_attach,
	    .max_ah = (uint32_t)a->max_ah,
	    .max_fmr = (uint32_t)a->max_fmr,
	    .max_map_per_fmr = (uint32_t)a->max_map_per_fmr,
	    .max_srq = (uint32_t)a->max_srq,
	    .max_srq_wr = (uint32_t)a->max_srq_wr,
	    .max_srq_sge = (uint32_t)a->max_srq_sge,
	    .max_pkeys = a->max_pkeys,
	    .local_ca_ack_delay = a->local_ca_ack_delay,
	    .phys_port_cnt = a->phys_port_cnt,
	};
}

void uverbs_from_device_attr_ex(const struct ibv_device_attr_ex *attr,
				struct ib_uverbs_ex_query_device_resp *resp)
{
	const struct ibv_odp_caps *odp = &attr->odp_caps;

	memset(resp, 0, sizeof(*resp));
	uverbs_from_device_attr(attr, &resp->base);
	resp->odp_caps.general_caps = odp->general_caps;
	resp->odp_caps.per_transport_caps.rc_odp_caps =
	    odp->per_transport_caps.rc_odp_caps;
	resp->odp_caps.per_transport_caps.uc_odp_caps =
	    odp->per_transport_caps.uc_odp_caps;
	resp->odp_caps.per_transport_caps.ud_odp_caps =
	    odp->per_transport_caps.ud_odp_caps;
	resp->xrc_odp_caps = attr->xrc_odp_caps;
	resp->timestamp_mask = attr->completion_timestamp_mask;
	resp->hca_core_clock = attr->hca_core_clock;
	resp->device_cap_flags_ex = attr->device_cap_flags_ex;
	resp->max_wq_type_rq = attr->max_wq_type_rq;
	resp->raw_packet_caps = attr->raw_packet_caps;
	resp->max_dm_size = attr->max_dm_size;
}

void uverbs_from_port_attr(const struct ibv_port_attr *attr,
			   struct ib_uverbs_query_port_resp *resp)
{
	*resp = (struct ib_uverbs_query_port_resp){
	    .port_cap_flags = attr->port_cap_flags,
	    .max_msg_sz = attr->max_msg_sz,
	    .bad_pkey_cntr = attr->bad_pkey_cntr,
	    .qkey_viol_cntr = attr->qkey_viol_cntr,
	    .gid_tbl_len = (uint32_t)attr->gid_tbl_len,
	    .pkey_tbl_len = attr->pkey_tbl_len,
	    .lid = attr->lid,
	    .sm_lid = attr->sm_lid,
	    .state = (uint8_t)attr->state,
	    .max_mtu = (uint8_t)attr->max_mtu,
	    .active_mtu = (uint8_t)attr->active_mtu,
	    .lmc = attr->lmc,
	    .max_vl_num = attr->max_vl_num,
	    .sm_sl = attr->sm_sl,
	    .subnet_timeout = attr->subnet_timeout,
	    .init_type_reply = attr->init_type_reply,
	    .active_width = attr->active_width,
	    .active_speed = attr->active_speed,
	    .phys_state = attr->phys_state,
	    .link_layer = attr->link_layer,
	    /* true of every RoCE port */
	    .flags = attr->flags | IB_UVERBS_QPF_GRH_REQUIRED,
	};
}

static void from_ah(const struct ibv_ah_attr *attr, struct ib_uverbs_qp_dest *dest)
{
	*dest = (struct ib_uverbs_qp_dest){
	    .flow_label = attr->grh.flow_label,
	    .dlid = attr->dlid,
	    .sgid_index = attr->grh.sgid_index,
	    .hop_limit = attr->grh.hop_limit,
	    .traffic_class = attr->grh.traffic_class,
	    .sl = attr->sl,
	    .src_path_bits = attr->src_path_bits,
	    .static_rate = attr->static_rate,
	    .is_global = attr->is_global,
	    .port_num = attr->port_num,
	};
	memcpy(dest->dgid, attr->grh.dgid.raw, sizeof(dest->dgid));
}

void uverbs_from_qp_attr(const struct ibv_qp_attr *attr,
			 const struct ibv_qp_init_attr *init,
			 struct ib_uverbs_query_qp_resp *resp)
{
	*resp = (struct ib_uverbs_query_qp_resp){
	    .max_send_wr = init->cap.max_send_wr,
	    .max_recv_wr = init->cap.max_recv_wr,
	    .max_send_sge = init->cap.max_send_sge,
	    .max_recv_sge = init->cap.max_recv_sge,
	    .max_inline_data = init->cap.max_inline_data,
	    .qkey = attr->qkey,
	    .rq_psn = attr->rq_psn,
	    .sq_psn = attr->sq_psn,
	    .dest_qp_num = attr->dest_qp_num,
	    .qp_access_flags = attr->qp_access_flags,
	    .pkey_index = attr->pkey_index,
	    .alt_pkey_index = attr->alt_pkey_index,
	    .qp_state = (uint8_t)attr->qp_state,
	    .cur_qp_state = (uint8_t)attr->cur_qp_state,
	    .path_mtu = (uint8_t)attr->path_mtu,
	    .path_mig_state = (uint8_t)attr->path_mig_state,
	    .sq_draining = attr->sq_draining,
	    .max_rd_atomic = attr->max_rd_atomic,
	    .max_dest_rd_atomic = attr->max_dest_rd_atomic,
	    .min_rnr_timer = attr->min_rnr_timer,
	    .port_num = attr->port_num,
	    .timeout = attr->timeout,
	    .retry_cnt = attr->retry_cnt,
	    .rnr_retry = attr->rnr_retry,
	    .alt_port_num = attr->alt_port_num,
	    .alt_timeout = attr->alt_timeout,
	    .sq_sig_all = init->sq_sig_all != 0,
	};
	from_ah(&attr->ah_attr, &resp->dest);
	from_ah(&attr->alt_ah_attr, &resp->alt_dest);
}

static void to_ah(const struct ib_uverbs_qp_dest *dest, struct ibv_ah_attr *attr)
{
	*attr = (struct ibv_ah_attr){
	    .dlid = dest->dlid,
	    .sl = dest->sl,
	    .src_path_bits = dest->src_path_bits,
	    .static_rate = dest->static_rate,
	    .is_global = dest->is_global,
	    .port_num = dest->port_num,
	    .grh = {.flow_label = dest->flow_label,
		    .sgid_index = dest->sgid_index,
		    .hop_limit = dest->hop_limit,
		    .traffic_class = dest->traffic_class},
	};
	memcpy(attr->grh.dgid.raw, dest->dgid, sizeof(dest->dgid));
}

void uverbs_to_qp_attr(const struct ib_uverbs_modify_qp *cmd, struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){
	    .qp_state = (enum ibv_qp_state)cmd->qp_state,
	    .cur_qp_state = (enum ibv_qp_state)cmd->cur_qp_state,
	    .path_mtu = (enum ibv_mtu)cmd->path_mtu,
	    .path_mig_state = (enum ibv_mig_state)cmd->path_mig_state,
	    .qkey = cmd->qkey,
	    .rq_psn = cmd->rq_psn,
	    .sq_psn = cmd->sq_psn,
	    .dest_qp_num = cmd->dest_qp_num,
	    .qp_access_flags = cmd->qp_access_flags,
	    .pkey_index = cmd->pkey_index,
	    .alt_pkey_index = cmd->alt_pkey_index,
	    .en_sqd_async_notify = cmd->en_sqd_async_notify,
	    .max_rd_atomic = cmd->max_rd_atomic,
	    .max_dest_rd_atomic = cmd->max_dest_rd_atomic,
	    .min_rnr_timer = cmd->min_rnr_timer,
	    .port_num = cmd->port_num,
	    .timeout = cmd->timeout,
	    .retry_cnt = cmd->retry_cnt,
	    .rnr_retry = cmd->rnr_retry,
	    .alt_port_num = cmd->alt_port_num,
	    .alt_timeout = cmd->alt_timeout,
	};
	to_ah(&cmd->dest, &attr->ah_attr);
	to_ah(&cmd->alt_dest, &attr->alt_ah_attr);
}

void uverbs_to_ah_attr(const struct ib_uverbs_ah_attr *from, struct ibv_ah_attr *attr)
{
	*attr = (struct ibv_ah_attr){
	    .dlid = from->dlid,
	    .sl = from->sl,
	    .src_path_bits = from->src_path_bits,
	    .static_rate = from->static_rate,
	    .is_global = from->is_global,
	    .port_num = from->port_num,
	    .grh = {.flow_label = from->grh.flow_label,
		    .sgid_index = from->grh.sgid_index,
		    .hop_limit = from->grh.hop_limit,
		    .traffic_class = from->grh.traffic_class},
	};
	memcpy(attr->grh.dgid.raw, from->grh.dgid, sizeof(from->grh.dgid));
}
