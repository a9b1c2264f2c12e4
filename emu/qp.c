/*
 * qp.c - queue pairs: creation, attributes, states.
 *
 * Theory of operation. A modify is checked as a whole (port, addresses, values, then the
 * state table in qp_state.c), then applied: attributes first, then the state, then the
 * transport is told, which so always finds qp->attr, path and mtu up to date. Nothing is
 * changed when a check fails. Checks and their order are those of the kernel (uverbs
 * modify_qp(), _ib_modify_qp(), rxe_qp_chk_attr()), with the limits of IBTA 11.2.5.2 that
 * rxe leaves out: 3-bit retry counts, 5-bit RNR timer, 24-bit QPN, P_Key index, resources
 * at the responder.
 *
 * A QP is flushed to ERR by a modify or by emu_qp_fail(). The transport completes what is
 * queued. On RESET we take all entries of both rings without looking at them:
 * producer_index stays the application's.
 */
#include <errno.h>
#include <stdlib.h>

#include "emu/diagnose.h"

/*
 * Bits 0..20: all but rate limits, which are for raw packet QPs
 * (IB_QP_ATTR_STANDARD_BITS)
 */
#define STANDARD_BITS ((1 << 21) - 1)
#define ACCESS_QP                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | EMU_ACCESS_REMOTE | IBV_ACCESS_MW_BIND |               \
	 IBV_ACCESS_ON_DEMAND | EMU_ACCESS_OPTIONAL)
#define PSN_MASK 0xffffffu

static bool has_sq(enum ibv_qp_type type)
{
	return type != IBV_QPT_XRC_RECV;
}

static bool has_rq(enum ibv_qp_type type, const struct emu_srq *srq)
{
	return type != IBV_QPT_XRC_RECV && type != IBV_QPT_XRC_SEND && !srq;
}

/* --- creation --------------------------------------------------------------------- */

/* uverbs create_qp(), rxe_qp_chk_init() */
static int check_type(const struct emu_limits *l, enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return l->qp_types & EMU_TYPE(type) ? 0 : -EOPNOTSUPP;
	case IBV_QPT_RAW_PACKET:
	case IBV_QPT_DRIVER:
		return -EOPNOTSUPP;
	default:
		return -EINVAL; /* SMI and GSI among them */
	}
}

static int check_parts(const struct emu_qp_init *init)
{
	bool conn_rq = init->type != IBV_QPT_XRC_SEND && init->type != IBV_QPT_XRC_RECV;

	if (init->type == IBV_QPT_XRC_RECV)
		return init->xrcd ? 0 : -EINVAL;
	if (!init->pd || !init->send_cq || (conn_rq && !init->recv_cq))
		return -EINVAL;
	/* an XRC SRQ serves XRC QPs, by its number in each request */
	return init->srq && (init->srq->xrcd || !conn_rq) ? -EINVAL : 0;
}

static int check_cap(const struct emu_limits *l, const struct emu_qp_init *init)
{
	const struct ibv_qp_cap *cap = &init->cap;

	if (has_sq(init->type) &&
	    (cap->max_send_wr > l->max_qp_wr || cap->max_send_sge > l->max_sge ||
	     cap->max_inline_data > l->max_inline_data))
		return -EINVAL;
	if (has_rq(init->type, init->srq) &&
	    (cap->max_recv_wr > l->max_qp_wr || cap->max_recv_sge > l->max_sge))
		return -EINVAL;
	return 0;
}

static int check_init(const struct emu_limits *l, const struct emu_qp_init *init)
{
	int ret = check_type(l, init->type);

	if (!ret)
		ret = check_parts(init);
	return ret ? ret : check_cap(l, init);
}

/*
 * rxe_init_sq(): SGEs and inline data share their room, so each is as large as the other.
 */
static int make_sq(struct emu_qp *qp)
{
	struct ibv_qp_cap *cap = &qp->cap;
	uint32_t room = cap->max_send_sge * sizeof(struct rxe_sge);
	int ret;

	if (room < cap->max_inline_data)
		room = cap->max_inline_data;
	ret = emu_ring_create(qp->hca, qp->owner, cap->max_send_wr,
			      sizeof(struct rxe_send_wqe) + room, &qp->sq);
	if (ret)
		return ret;
	cap->max_send_wr = qp->sq.slots - 1;
	cap->max_send_sge = room / sizeof(struct rxe_sge);
	cap->max_inline_data = room;
	return 0;
}

static int make_rq(struct emu_qp *qp)
{
	struct ibv_qp_cap *cap = &qp->cap;
	int ret = emu_ring_create(qp->hca, qp->owner, cap->max_recv_wr,
				  emu_recv_wqe_size(cap->max_recv_sge), &qp->rq);

	if (!ret)
		cap->max_recv_wr = qp->rq.slots - 1;
	return ret;
}

static int make_rings(struct emu_qp *qp)
{
	int ret = 0;

	if (has_sq(qp->type))
		ret = make_sq(qp);
	else
		qp->cap.max_send_wr = qp->cap.max_send_sge = qp->cap.max_inline_data = 0;
	if (ret)
		return ret;
	if (has_rq(qp->type, qp->srq))
		ret = make_rq(qp);
	else
		qp->cap.max_recv_wr = qp->cap.max_recv_sge = 0;
	if (ret)
		emu_ring_destroy(qp->hca, &qp->sq);
	return ret;
}

static void free_rings(struct emu_qp *qp)
{
	emu_ring_destroy(qp->hca, &qp->sq);
	emu_ring_destroy(qp->hca, &qp->rq);
}

static void take_refs(struct emu_qp *qp, int n)
{
	if (qp->pd)
		qp->pd->users += n;
	if (qp->send_cq)
		qp->send_cq->users += n;
	if (qp->recv_cq)
		qp->recv_cq->users += n;
	if (qp->srq)
		qp->srq->users += n;
	if (qp->xrcd)
		qp->xrcd->users += n;
}

/* As they are in RESET: rxe_qp_init_misc() */
static void initial_attr(struct emu_qp *qp)
{
	qp->attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RESET,
	    .path_mtu = IBV_MTU_256,
	    .port_num = EMU_PORT,
	};
	qp->mtu = 256;
	qp->path = (struct net_path){0};
}

static struct emu_qp *alloc_qp(struct emu_hca *hca, const struct emu_qp_init *init)
{
	struct emu_qp *qp = calloc(1, sizeof(*qp));

	if (!qp)
		return NULL;
	qp->hca = hca;
	qp->type = init->type;
	qp->cap = init->cap;
	qp->sq_sig_all = init->sq_sig_all;
	qp->owner = init->owner;
	qp->cookie = init->cookie;
	if (init->type == IBV_QPT_XRC_RECV) {
		qp->xrcd = init->xrcd;
	} else {
		qp->pd = init->pd;
		qp->send_cq = init->send_cq;
	}
	if (init->type != IBV_QPT_XRC_RECV && init->type != IBV_QPT_XRC_SEND) {
		qp->recv_cq = init->recv_cq;
		qp->srq = init->srq;
	}
	initial_attr(qp);
	return qp;
}

/* --- what others see -------------------------------------------------------------- */

static void show_ip(struct trace_ip *to, const struct net_ip *ip)
{
	memcpy(to->b, ip->b, sizeof(to->b));
}

/* The addresses of both ends, which packets are recorded without */
static void record_path(const struct emu_qp *qp)
{
	const struct trace_qp *s = &qp->seen->qp;
	struct trace_ip local, remote;

	show_ip(&local, &qp->path.src);
	show_ip(&remote, &qp->path.dst);
	if (memcmp(&local, &s->local, sizeof(local)) ||
	    memcmp(&remote, &s->remote, sizeof(remote)))
		EMU_TRACE(qp->hca, qp_path, .local = local, .remote = remote,
			  .qpn = qp->qpn);
}

/* The attributes that are set by modify */
static void show_attr(struct emu_qp *qp)
{
	struct trace_qp *s = &qp->seen->qp;
	const struct ibv_qp_attr *a = &qp->attr;

	s->peer = a->dest_qp_num;
	s->mtu = qp->mtu;
	s->timeout = a->timeout;
	s->retry_cnt = a->retry_cnt;
	s->rnr_retry = a->rnr_retry;
	s->min_rnr_timer = a->min_rnr_timer;
	s->max_rd_atomic = a->max_rd_atomic;
	s->max_dest_rd_atomic = a->max_dest_rd_atomic;
	record_path(qp);
	show_ip(&s->local, &qp->path.src);
	show_ip(&s->remote, &qp->path.dst);
}

static int show(struct emu_qp *qp)
{
	struct trace_object *o = recorder_object(qp->hca->cfg.recorder);

	if (!o)
		return -ENOMEM;
	o->id = qp->qpn;
	o->device = qp->hca->cfg.device;
	o->created = o->qp.since = o->qp.entered[IBV_QPS_RESET] = qp->hca->now;
	o->qp.type = (uint8_t)qp->type;
	o->qp.pd = qp->pd ? qp->pd->num : 0;
	o->qp.send_cq = qp->send_cq ? qp->send_cq->num : 0;
	o->qp.recv_cq = qp->recv_cq ? qp->recv_cq->num : 0;
	o->qp.srq = qp->srq ? qp->srq->num : 0;
	o->qp.cause = TRACE_CAUSE_CREATE;
	o->qp.sq.depth = qp->cap.max_send_wr;
	o->qp.rq.depth = qp->cap.max_recv_wr;
	qp->seen = o;
	recorder_object_ready(o, TRACE_OBJ_QP);
	return 0;
}

void emu_qp_show_state(struct emu_qp *qp, enum ibv_qp_state from, enum trace_cause cause,
		       enum ibv_wc_status status)
{
	struct trace_qp *s = &qp->seen->qp;

	s->state = (uint8_t)qp->state;
	s->since = qp->hca->now;
	s->entered[s->state % TRACE_QP_STATES] = s->since;
	s->cause = (uint8_t)cause;
	s->status = (uint8_t)status;
	if (cause == TRACE_CAUSE_MODIFY)
		EMU_TRACE(qp->hca, qp_state, .qpn = qp->qpn, .from = (uint8_t)from,
			  .to = s->state, .cause = s->cause);
	else
		EMU_TRACE(qp->hca, qp_failed, .qpn = qp->qpn, .from = (uint8_t)from,
			  .to = s->state, .cause = s->cause, .status = s->status);
}

static void record_create(struct emu_hca *hca, const struct emu_qp_init *init,
			  uint32_t qpn, int ret)
{
	EMU_TRACE(
	    hca, create_qp, .qpn = qpn, .pd = init->pd ? init->pd->num : 0,
	    .send_cq = init->send_cq ? init->send_cq->num : 0,
	    .recv_cq = init->recv_cq ? init->recv_cq->num : 0,
	    .srq = init->srq ? init->srq->num : 0, .max_send_wr = init->cap.max_send_wr,
	    .max_recv_wr = init->cap.max_recv_wr, .type = (uint8_t)init->type,
	    .sig_all = init->sq_sig_all, .max_send_sge = (uint8_t)init->cap.max_send_sge,
	    .max_recv_sge = (uint8_t)init->cap.max_recv_sge, .result = ret);
}

static void link_qp(struct emu_qp *qp)
{
	qp->next = qp->hca->all_qps;
	qp->prevp = &qp->hca->all_qps;
	if (qp->next)
		qp->next->prevp = &qp->next;
	qp->hca->all_qps = qp;
}

static void unlink_qp(struct emu_qp *qp)
{
	*qp->prevp = qp->next;
	if (qp->next)
		qp->next->prevp = qp->prevp;
	if (qp->hca->looked == qp)
		qp->hca->looked = qp->next;
}

static int make_qp(struct emu_hca *hca, struct emu_qp_init *init, struct emu_qp **out)
{
	struct emu_qp *qp;
	int ret = check_init(&hca->limits, init);

	if (ret)
		return ret;
	if (hca->qpns.used >= hca->limits.max_qp)
		return -ENOMEM;
	qp = alloc_qp(hca, init);
	if (!qp)
		return -ENOMEM;
	ret = make_rings(qp);
	if (ret)
		goto err_free;
	ret = emu_qpn_alloc(hca, qp, &qp->qpn);
	if (ret)
		goto err_rings;
	ret = show(qp);
	if (!ret)
		ret = tr_qp_init(qp);
	if (ret)
		goto err_qpn;
	take_refs(qp, 1);
	link_qp(qp);
	init->cap = qp->cap;
	*out = qp;
	return 0;

err_qpn:
	recorder_object_free(hca->cfg.recorder, qp->seen);
	emu_qpn_free(hca, qp->qpn);
err_rings:
	free_rings(qp);
err_free:
	free(qp);
	return ret;
}

int emu_qp_create(struct emu_hca *hca, struct emu_qp_init *init, struct emu_qp **out)
{
	int ret = make_qp(hca, init, out);

	record_create(hca, init, ret ? 0 : (*out)->qpn, ret);
	return ret;
}

int emu_qp_destroy(struct emu_qp *qp)
{
	emu_ended(qp->hca, TRACE_OBJ_QP, qp->qpn, qp->mcast_groups ? -EBUSY : 0);
	if (qp->mcast_groups)
		return -EBUSY;
	tr_qp_fini(qp);
	unlink_qp(qp);
	recorder_object_free(qp->hca->cfg.recorder, qp->seen);
	emu_mw_qp_gone(qp);
	emu_qpn_free(qp->hca, qp->qpn);
	free_rings(qp);
	take_refs(qp, -1);
	free(qp);
	return 0;
}

uint32_t emu_qp_num(const struct emu_qp *qp)
{
	return qp->qpn;
}

struct emu_ring_info emu_qp_sq_ring(const struct emu_qp *qp)
{
	return emu_ring_info(&qp->sq);
}

struct emu_ring_info emu_qp_rq_ring(const struct emu_qp *qp)
{
	return emu_ring_info(&qp->rq);
}

/* --- modify ----------------------------------------------------------------------- */

static int check_path(const struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask,
		      struct net_path *path)
{
	return mask & IBV_QP_AV ? emu_path_from_ah(qp->hca, &attr->ah_attr, path) : 0;
}

uint32_t emu_qp_wrong_value(const struct emu_qp *qp, const struct ibv_qp_attr *attr,
			    int mask, struct emu_qp_value *v)
{
	const struct {
		uint32_t bit;
		struct emu_qp_value v;
	} checks[] = {
	    {IBV_QP_PATH_MTU, {"path_mtu", attr->path_mtu, IBV_MTU_256, IBV_MTU_4096}},
	    {IBV_QP_MAX_QP_RD_ATOMIC,
	     {"max_rd_atomic", attr->max_rd_atomic, 0,
	      (uint32_t)qp->hca->limits.max_qp_init_rd_atom}},
	    {IBV_QP_MAX_DEST_RD_ATOMIC,
	     {"max_dest_rd_atomic", attr->max_dest_rd_atomic, 0,
	      (uint32_t)qp->hca->limits.max_qp_rd_atom}},
	    {IBV_QP_TIMEOUT, {"timeout", attr->timeout, 0, 31}},
	    {IBV_QP_MIN_RNR_TIMER, {"min_rnr_timer", attr->min_rnr_timer, 0, 31}},
	    {IBV_QP_RETRY_CNT, {"retry_cnt", attr->retry_cnt, 0, 7}},
	    {IBV_QP_RNR_RETRY, {"rnr_retry", attr->rnr_retry, 0, 7}},
	    {IBV_QP_DEST_QPN, {"dest_qp_num", attr->dest_qp_num, 0, PSN_MASK}},
	    {IBV_QP_PATH_MIG_STATE,
	     {"path_mig_state", attr->path_mig_state, 0, IBV_MIG_ARMED}},
	    {IBV_QP_PKEY_INDEX, {"pkey_index", attr->pkey_index, 0, 0}},
	    {IBV_QP_PORT, {"port_num", attr->port_num, EMU_PORT, EMU_PORT}},
	};

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		*v = checks[i].v;
		if (((uint32_t)mask & checks[i].bit) &&
		    (v->value < v->min || v->value > v->max))
			return checks[i].bit;
	}
	*v = (struct emu_qp_value){"qp_access_flags", attr->qp_access_flags, 0,
				   qp->type == IBV_QPT_UD ? 0 : ACCESS_QP};
	return mask & IBV_QP_ACCESS_FLAGS &&
		       (qp->type == IBV_QPT_UD || (v->value & ~v->max))
		   ? IBV_QP_ACCESS_FLAGS
		   : 0;
}

static bool values_ok(const struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct emu_qp_value v;

	return !emu_qp_wrong_value(qp, attr, mask, &v);
}

/*
 * The current state that is asserted must be true: IBTA 11.2.5.2 "invalid QP state". (rxe
 * believes it.)
 */
static bool state_ok(const struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;

	if ((mask & IBV_QP_CUR_STATE) && attr->cur_qp_state != qp->state)
		return false;
	if (!emu_qp_transition_ok(qp->type, qp->state, to, mask))
		return false;
	/* rxe's __qp_chk_state(): wait for the send queue to drain */
	return !(mask & IBV_QP_STATE) || !qp->sq_draining || to == IBV_QPS_ERR ||
	       to == IBV_QPS_RESET;
}

/*
 * A path MTU above that of the port is accepted, as rxe does: it is the peer's that may
 * be large. But large messages will not arrive, so say it.
 */
static void warn_mtu(const struct emu_qp *qp)
{
	const struct emu_about about = {.cause = TRACE_NOTE_PATH_MTU,
					.object = TRACE_OBJ_QP,
					.id = qp->qpn,
					.say = true};

	if (qp->attr.path_mtu > qp->hca->mtu)
		emu_note(qp->hca, &about,
			 "path MTU %u is above the port's %u: packets may get lost",
			 qp->mtu, 128u << qp->hca->mtu);
}

static void apply_path(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask,
		       const struct net_path *path)
{
	if (mask & IBV_QP_AV) {
		qp->attr.ah_attr = attr->ah_attr;
		qp->path = *path;
	}
	if (mask & IBV_QP_PATH_MTU) {
		qp->attr.path_mtu = attr->path_mtu;
		qp->mtu = 128u << attr->path_mtu;
		warn_mtu(qp);
	}
}

static void apply_values(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr *a = &qp->attr;

#define TAKE(bit, field)                                                                 \
	do {                                                                             \
		if (mask & (bit))                                                        \
			a->field = attr->field;                                          \
	} while (0)
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_QKEY, qkey);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_PATH_MIG_STATE, path_mig_state);
	TAKE(IBV_QP_DEST_QPN, dest_qp_num);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
#undef TAKE
	a->rq_psn &= PSN_MASK;
	a->sq_psn &= PSN_MASK;
}

static void empty_ring(struct emu_ring *r)
{
	if (r->buf)
		ring_set_consumer(r, ring_producer(r));
}

static void enter_reset(struct emu_qp *qp)
{
	if (qp->send_cq)
		emu_cq_forget(qp->send_cq, qp->qpn);
	if (qp->recv_cq && qp->recv_cq != qp->send_cq)
		emu_cq_forget(qp->recv_cq, qp->qpn);
	empty_ring(&qp->sq);
	empty_ring(&qp->rq);
	initial_attr(qp);
	qp->sq_draining = false;
	tr_qp_reset(qp);
}

static void enter_error(struct emu_qp *qp)
{
	qp->sq_draining = false;
	tr_qp_to_error(qp);
}

static void enter_sqd(struct emu_qp *qp, int mask)
{
	if (!(mask & IBV_QP_EN_SQD_ASYNC_NOTIFY))
		qp->attr.en_sqd_async_notify = 0;
	qp->sq_draining = true;
	tr_qp_to_sqd(qp);
}

/* The state has changed; qp->state is the new one. */
static void enter(struct emu_qp *qp, int mask)
{
	switch (qp->state) {
	case IBV_QPS_RESET:
		enter_reset(qp);
		break;
	case IBV_QPS_RTR:
		tr_qp_to_rtr(qp);
		break;
	case IBV_QPS_RTS:
		tr_qp_to_rts(qp);
		break;
	case IBV_QPS_SQD:
		enter_sqd(qp, mask);
		break;
	case IBV_QPS_ERR:
		enter_error(qp);
		break;
	default: /* INIT: nothing runs yet */
		break;
	}
}

/* What was asked for, and what came of it. @from: the state before */
static void record_modify(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask,
			  enum ibv_qp_state from, int ret)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : from;
	uint32_t refused = ret ? diagnose_modify(qp, attr, mask, ret) : 0;

#define FIELDS                                                                           \
	.qpn = qp->qpn, .mask = (uint32_t)mask, .peer = attr->dest_qp_num,               \
	.rq_psn = attr->rq_psn, .sq_psn = attr->sq_psn, .result = ret,                   \
	.from = (uint8_t)from, .to = (uint8_t)to, .timeout = attr->timeout,              \
	.retry_cnt = attr->retry_cnt, .rnr_retry = attr->rnr_retry,                      \
	.min_rnr_timer = attr->min_rnr_timer, .max_rd_atomic = attr->max_rd_atomic,      \
	.max_dest_rd_atomic = attr->max_dest_rd_atomic,                                  \
	.path_mtu = (uint16_t)(128u << (attr->path_mtu & 7)),                            \
	.access = (uint16_t)attr->qp_access_flags
	if (ret)
		EMU_TRACE(qp->hca, modify_refused, FIELDS, .refused = refused);
	else
		EMU_TRACE(qp->hca, modify_qp, FIELDS);
#undef FIELDS
}

static int modify(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = qp->state;
	struct net_path path;
	int ret;

	if (mask & ~STANDARD_BITS)
		return -EOPNOTSUPP;
	mask = emu_qp_mask(qp->type, mask);
	ret = mask & IBV_QP_PORT && attr->port_num != EMU_PORT
		  ? -EINVAL
		  : check_path(qp, attr, mask, &path);
	if (ret)
		return ret;
	if (!values_ok(qp, attr, mask) || !state_ok(qp, attr, mask))
		return -EINVAL;
	apply_path(qp, attr, mask, &path);
	apply_values(qp, attr, mask);
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	qp->attr.qp_state = qp->attr.cur_qp_state = qp->state;
	if (qp->state != from)
		emu_qp_show_state(qp, from, TRACE_CAUSE_MODIFY, IBV_WC_SUCCESS);
	if (qp->state != from || qp->state == IBV_QPS_RESET)
		enter(qp, mask);
	else if (qp->state != IBV_QPS_ERR)
		tr_qp_attr_changed(qp);
	return 0;
}

int emu_qp_modify(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = qp->state;
	int ret = modify(qp, attr, mask);

	show_attr(qp);
	record_modify(qp, attr, mask, from, ret);
	qp->refused = ret;
	return ret;
}

void emu_qp_refused(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask, int err)
{
	record_modify(qp, attr, mask, qp->state, err);
	qp->refused = true;
}

void emu_qp_fail(struct emu_qp *qp, int event, enum trace_cause cause,
		 enum ibv_wc_status status)
{
	enum ibv_qp_state from = qp->state;

	if (qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_ERR)
		return;
	qp->state = IBV_QPS_ERR;
	qp->attr.qp_state = qp->attr.cur_qp_state = qp->state;
	emu_qp_show_state(qp, from, cause, status);
	enter_error(qp);
	if (event)
		emu_qp_event(qp, (enum ibv_event_type)event);
}

void emu_qp_query(const struct emu_qp *qp, struct ibv_qp_attr *attr,
		  struct ibv_qp_init_attr *init)
{
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->cap = qp->cap;
	attr->sq_draining = qp->sq_draining;
	tr_qp_query_psn(qp, &attr->sq_psn, &attr->rq_psn);
	*init = (struct ibv_qp_init_attr){
	    .cap = qp->cap,
	    .qp_type = qp->type,
	    .sq_sig_all = qp->sq_sig_all,
	};
}

/* As rxe_post_send() judges it, but it leaves what it refuses in the ring. */
int emu_qp_doorbell(struct emu_qp *qp)
{
	if (qp->state < IBV_QPS_RTS || !has_sq(qp->type)) {
		empty_ring(&qp->sq);
		diagnose_post(qp);
		return -EINVAL;
	}
	tr_qp_doorbell(qp);
	return 0;
}
