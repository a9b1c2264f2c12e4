/*
 * cm_qp.c - what the QP of a connection is to be set to, from what both sides have said.
 */
#include <errno.h>

#include "emu/cm_internal.h"
#include "emu/hca.h"

static bool may_init(enum emu_cm_state s)
{
	return s >= EMU_CM_REQ_SENT && s <= EMU_CM_ESTABLISHED;
}

/* Both sides know each other's QP: all of those but the ones where the REP is missing */
static bool may_connect(enum emu_cm_state s)
{
	return may_init(s) && s != EMU_CM_REQ_SENT && s != EMU_CM_MRA_REQ_RCVD;
}

static void attr_init(const struct emu_cm_conn *c, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (c->responder_resources)
		a->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
				      EMU_ACCESS_FLUSH_GLOBAL |
				      EMU_ACCESS_FLUSH_PERSISTENT;
	a->pkey_index = 0;
	a->port_num = 1;
}

static void attr_rtr(const struct emu_cm_conn *c, struct ibv_qp_attr *a, int *mask)
{
	*mask =
	    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	a->ah_attr.is_global = 1;
	a->ah_attr.port_num = 1;
	memcpy(a->ah_attr.grh.dgid.raw, c->path.dst.b, 16);
	a->ah_attr.grh.flow_label = c->path.flow;
	a->ah_attr.grh.hop_limit = c->path.ttl;
	a->ah_attr.grh.traffic_class = c->path.tclass;
	a->path_mtu = c->mtu;
	a->dest_qp_num = c->remote_qpn;
	a->rq_psn = c->recv_psn;
	if (c->qp_type == IBV_QPT_RC || c->qp_type == IBV_QPT_XRC_RECV) {
		*mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		a->max_dest_rd_atomic = c->responder_resources;
		a->min_rnr_timer = 0;
	}
}

static void attr_rts(const struct emu_cm_conn *c, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	a->sq_psn = c->send_psn;
	if (c->qp_type == IBV_QPT_RC || c->qp_type == IBV_QPT_XRC_SEND) {
		*mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		a->retry_cnt = c->retry_count;
		a->rnr_retry = c->rnr_retry;
		a->max_rd_atomic = c->initiator_depth;
	}
	if (c->qp_type != IBV_QPT_UC) {
		*mask |= IBV_QP_TIMEOUT;
		a->timeout = c->ack_timeout;
	}
}

int emu_cm_qp_attr(const struct emu_cm_conn *c, struct ibv_qp_attr *attr, int *mask)
{
	switch (attr->qp_state) {
	case IBV_QPS_INIT:
		if (!may_init(c->state))
			return -EINVAL;
		attr_init(c, attr, mask);
		return 0;
	case IBV_QPS_RTR:
		if (!may_connect(c->state))
			return -EINVAL;
		attr_rtr(c, attr, mask);
		return 0;
	case IBV_QPS_RTS:
		if (!may_connect(c->state))
			return -EINVAL;
		attr_rts(c, attr, mask);
		return 0;
	default:
		return -EINVAL;
	}
}
