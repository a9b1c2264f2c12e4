/*
 * stress_pair.c - see stress_pair.h.
 */
#include "stress_pair.h"

#include <fcntl.h>

#define PORT 1
#define QKEY 0x11111111
#define ACCESS                                                                           \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static const struct {
	const char *name;
	enum ibv_qp_type left, right;
} kinds[PAIR_KINDS] = {
    [PAIR_RC] = {"RC", IBV_QPT_RC, IBV_QPT_RC},
    [PAIR_RC_SRQ] = {"RC with SRQ", IBV_QPT_RC, IBV_QPT_RC},
    [PAIR_XRC] = {"XRC", IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV},
    [PAIR_UC] = {"UC", IBV_QPT_UC, IBV_QPT_UC},
    [PAIR_UD] = {"UD", IBV_QPT_UD, IBV_QPT_UD},
};

const char *pair_name(enum pair_kind kind)
{
	return kinds[kind].name;
}

/* --- objects ---------------------------------------------------------------------- */

static void open_srq(struct pair *p, struct device *dev)
{
	struct ibv_srq_init_attr_ex attr = {
	    .attr = {.max_wr = 16, .max_sge = 2},
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
	    .srq_type = p->xrcd ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
	    .pd = dev->pd,
	    .xrcd = p->xrcd,
	    .cq = dev->cq,
	};

	if (p->xrcd)
		attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
	p->srq = ibv_create_srq_ex(dev->ctx, &attr);
	check(p->srq != NULL, "ibv_create_srq_ex");
}

static void open_xrcd(struct pair *p, struct device *dev)
{
	struct ibv_xrcd_init_attr attr = {
	    .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
	    .fd = -1,
	    .oflags = O_CREAT,
	};

	p->xrcd = ibv_open_xrcd(dev->ctx, &attr);
	check(p->xrcd != NULL, "ibv_open_xrcd");
}

static struct ibv_qp *open_qp(const struct pair *p, struct device *dev,
			      enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex attr = {
	    .qp_type = type,
	    .send_cq = dev->cq,
	    .recv_cq = dev->cq,
	    .srq = p->xrcd ? NULL : p->srq,
	    .cap = {.max_send_wr = 16,
		    .max_recv_wr = 16,
		    .max_send_sge = 2,
		    .max_recv_sge = 2},
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = dev->pd,
	};
	struct ibv_qp *qp;

	if (type == IBV_QPT_XRC_RECV) {
		attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
		attr.xrcd = p->xrcd;
		attr.send_cq = attr.recv_cq = NULL;
	}
	qp = ibv_create_qp_ex(dev->ctx, &attr);
	check(qp != NULL, "ibv_create_qp_ex");
	return qp;
}

/* --- states ----------------------------------------------------------------------- */

/* What a transition must say besides the state, by type (IBTA vol. 1, 11.2.5.2) */
static int rtr_mask(enum ibv_qp_type type)
{
	int mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	return mask;
}

static int rts_mask(enum ibv_qp_type type)
{
	int mask = IBV_QP_SQ_PSN;

	if (type != IBV_QPT_UC)
		mask |= IBV_QP_TIMEOUT;
	if (type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND)
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	return mask;
}

static void connect_to(struct device *dev, struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = PORT,
	    .qp_access_flags =
		qp->qp_type == IBV_QPT_UC ? IBV_ACCESS_REMOTE_WRITE : ACCESS,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = peer,
	    .max_dest_rd_atomic = 4,
	    .max_rd_atomic = 4,
	    .min_rnr_timer = 12, /* 0.64 ms */
	    .timeout = 14,	 /* 67 ms */
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .ah_attr = {.is_global = 1,
			.port_num = PORT,
			.grh = {.dgid = dev->gid, .hop_limit = 64}},
	};

	check(!ibv_modify_qp(qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS),
	      "to INIT");
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | rtr_mask(qp->qp_type)), "to RTR");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | rts_mask(qp->qp_type)), "to RTS");
}

static void start_datagrams(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT, .port_num = PORT, .qkey = QKEY};

	check(
	    !ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	    "UD to INIT");
	attr.qp_state = IBV_QPS_RTR;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE), "UD to RTR");
	attr.qp_state = IBV_QPS_RTS;
	check(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "UD to RTS");
}

static void start(struct pair *p, struct device *dev)
{
	struct ibv_ah_attr ah = {
	    .is_global = 1, .port_num = PORT, .grh = {.dgid = dev->gid, .hop_limit = 64}};

	if (p->kind != PAIR_UD) {
		connect_to(dev, p->left, p->right->qp_num);
		connect_to(dev, p->right, p->left->qp_num);
		return;
	}
	start_datagrams(p->left);
	start_datagrams(p->right);
	p->ah = ibv_create_ah(dev->pd, &ah);
	check(p->ah != NULL, "ibv_create_ah");
}

void pair_open(struct pair *p, struct device *dev, enum pair_kind kind)
{
	*p = (struct pair){.kind = kind};
	if (kind == PAIR_XRC)
		open_xrcd(p, dev);
	if (kind == PAIR_XRC || kind == PAIR_RC_SRQ)
		open_srq(p, dev);
	p->left = open_qp(p, dev, kinds[kind].left);
	p->right = open_qp(p, dev, kinds[kind].right);
	start(p, dev);
}

void pair_close(struct pair *p)
{
	check(!ibv_destroy_qp(p->left) && !ibv_destroy_qp(p->right), "ibv_destroy_qp");
	check(!p->srq || !ibv_destroy_srq(p->srq), "ibv_destroy_srq");
	check(!p->xrcd || !ibv_close_xrcd(p->xrcd), "ibv_close_xrcd");
	check(!p->ah || !ibv_destroy_ah(p->ah), "ibv_destroy_ah");
}

/* --- posting ---------------------------------------------------------------------- */

int pair_post_recv(struct pair *p, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	return p->srq ? ibv_post_srq_recv(p->srq, wr, &bad)
		      : ibv_post_recv(p->right, wr, &bad);
}

int pair_post_send(struct pair *p, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	uint32_t srqn;

	if (p->kind == PAIR_XRC) {
		check(!ibv_get_srq_num(p->srq, &srqn), "ibv_get_srq_num");
		wr->qp_type.xrc.remote_srqn = srqn;
	} else if (p->kind == PAIR_UD) {
		wr->wr.ud.ah = p->ah;
		wr->wr.ud.remote_qpn = p->right->qp_num;
		wr->wr.ud.remote_qkey = QKEY;
	}
	return ibv_post_send(p->left, wr, &bad);
}
