/*
 * cm_rx.c - messages of connection management as they come in; what they mean and who waits
 * for what: cm.c.
 *
 * Each message finds its connection, or is one of nobody's; what it may change depends on
 * the connection's state. Everything in it is the peer's word.
 */
#include <string.h>

#include "emu/cm_internal.h"
#include "trace/kinds.h"

/* --- REQ -------------------------------------------------------------------------- */

static void refuse_stateless(const struct emu_cm_port *port, const struct net_path *path,
			     const struct cm_msg *to, enum cm_rej_reason reason)
{
	struct cm_msg m = {.attr = CM_REJ, .rej = {.reason = reason}};

	m.rej.answered = to->attr == CM_REP ? CM_ANSWERED_REP : CM_ANSWERED_REQ;
	cm_send_stateless(port, path, to, &m);
}

static void send_mra(struct emu_cm_conn *c, enum cm_answered what)
{
	struct cm_msg m = {.attr = CM_MRA,
			   .mra = {.answered = what, .service_timeout = MRA_TIMEOUT}};

	c->told = true;
	cm_send_once(c, &m);
}

/* Counts what has come before. */
static void duplicate(const struct emu_cm_port *port, enum cm_attr attr)
{
	cm_count(port, EMU_CM_RX_DUPLICATES, attr);
}

static void rx_dup_req(struct emu_cm_conn *c)
{
	duplicate(&c->port, CM_REQ);
	switch (c->state) {
	case EMU_CM_MRA_REQ_SENT:
		send_mra(c, CM_ANSWERED_REQ);
		break;
	case EMU_CM_REP_SENT:
	case EMU_CM_MRA_REP_RCVD:
	case EMU_CM_ANSWERED:
		cm_send_again(c);
		break;
	case EMU_CM_IDLE:
	case EMU_CM_REQ_SENT:
	case EMU_CM_REQ_RCVD:
	case EMU_CM_MRA_REQ_RCVD:
	case EMU_CM_REP_RCVD:
	case EMU_CM_MRA_REP_SENT:
	case EMU_CM_ESTABLISHED:
	case EMU_CM_DREQ_SENT:
	case EMU_CM_DREQ_RCVD:
	case EMU_CM_TIMEWAIT:
	case EMU_CM_SIDR_REQ_SENT:
	case EMU_CM_SIDR_REQ_RCVD:
		break;
	}
}

static bool qp_type_of(enum cm_transport t, enum ibv_qp_type *type)
{
	switch (t) {
	case CM_TRANSPORT_RC:
		*type = IBV_QPT_RC;
		return true;
	case CM_TRANSPORT_UC:
		*type = IBV_QPT_UC;
		return true;
	case CM_TRANSPORT_XRC:
		*type = IBV_QPT_XRC_RECV;
		return true;
	case CM_TRANSPORT_RD:
		break;
	}
	return false;
}

/*
 * The peer's QP has a living connection here that the peer does not know of (12.9.8.3).
 */
static struct emu_cm_conn *find_stale(struct emu_cm *cm, const struct cm_msg *m)
{
	struct emu_cm_conn *c = cm_conn_find_qp(cm, m->req.ca_guid_be, m->req.qpn, NULL);

	return c && c->state == EMU_CM_ESTABLISHED ? c : NULL;
}

static void conn_from_peer(struct emu_cm_conn *c, const struct cm_msg *m,
			   const struct net_path *path)
{
	const struct cm_req *r = &m->req;

	c->passive = true;
	c->state = EMU_CM_REQ_RCVD; /* of no concern to anybody before it has an owner */
	c->remote_id = m->local_id;
	c->peer_guid_be = r->ca_guid_be;
	c->remote_qpn = r->qpn;
	c->tid = m->tid;
	c->service_id = r->service_id;
	c->path = (struct net_path){.src = r->path.remote_gid,
				    .dst = r->path.local_gid,
				    .tclass = r->path.traffic_class,
				    .ttl = r->path.hop_limit,
				    .flow = r->path.flow_label};
	c->send_psn = r->psn;
	c->mtu = (enum ibv_mtu)r->mtu;
	/* What one side can start the other must be able to answer. */
	c->responder_resources = r->initiator_depth;
	c->initiator_depth = r->responder_resources;
	c->retry_count = r->retry_count;
	c->rnr_retry = r->rnr_retry;
	c->ack_timeout = r->path.ack_timeout;
	c->max_retries = r->max_cm_retries;
	c->base = cm_time(r->local_cm_timeout);
	cm_conn_index_peer(c);
	cm_conn_index_qp(c);
}

static void rx_req(struct emu_cm *cm, const struct emu_cm_port *port,
		   const struct net_path *path, const struct cm_msg *m)
{
	struct emu_cm_conn *c = cm_conn_find_peer(cm, m->local_id, m->req.ca_guid_be);
	enum ibv_qp_type type;
	int ret;

	if (c) {
		cm_show_came(c, m);
		rx_dup_req(c);
		return;
	}
	if (!qp_type_of(m->req.transport, &type)) {
		refuse_stateless(port, path, m, CM_REJ_INVALID_TRANSPORT_TYPE);
		return;
	}
	c = find_stale(cm, m);
	if (c) {
		refuse_stateless(port, path, m, CM_REJ_STALE_CONN);
		cm_send_dreq(c, c->max_retries + 1u);
		return;
	}
	c = cm_conn_new(cm, port);
	if (!c)
		return;
	c->qp_type = type;
	conn_from_peer(c, m, path);
	ret = cm->ops->request(cm->arg, port->dev, c, m, path);
	if (!ret) {
		c->owned = true;
		emu_cm_delay(c);
	} else if (ret == -ENOMEM) {
		cm_conn_free(c);
	} else if (ret == -ENOENT) {
		refuse_stateless(port, path, m, CM_REJ_INVALID_SERVICE_ID);
		cm_conn_free(c);
	} else {
		emu_cm_reject(c, CM_REJ_CONSUMER, NULL, 0);
	}
}

/* --- the others ------------------------------------------------------------------- */

static void rx_mra(struct emu_cm_conn *c, const struct cm_msg *m)
{
	uint64_t wait = cm_time(m->mra.service_timeout) + cm_time(c->ack_timeout);

	if (c->state == EMU_CM_MRA_REQ_RCVD || c->state == EMU_CM_MRA_REP_RCVD)
		duplicate(&c->port, CM_MRA);
	if ((c->state == EMU_CM_REQ_SENT || c->state == EMU_CM_MRA_REQ_RCVD) &&
	    m->mra.answered == CM_ANSWERED_REQ) {
		c->remote_id = m->local_id;
		cm_set_state(c, EMU_CM_MRA_REQ_RCVD);
	} else if ((c->state == EMU_CM_REP_SENT || c->state == EMU_CM_MRA_REP_RCVD) &&
		   m->mra.answered == CM_ANSWERED_REP) {
		cm_set_state(c, EMU_CM_MRA_REP_RCVD);
	} else {
		return;
	}
	c->rto = c->base;
	c->give_up = c->cm->now + wait + c->base * (c->max_retries + 1u);
	cm_conn_arm(c, c->cm->now + wait);
	cm_show(c);
}

static void rx_dup_rep(struct emu_cm_conn *c, const struct cm_msg *m)
{
	if (c->remote_id != m->local_id)
		return;
	duplicate(&c->port, CM_REP);
	switch (c->state) {
	case EMU_CM_MRA_REP_SENT:
		send_mra(c, CM_ANSWERED_REP);
		break;
	case EMU_CM_ESTABLISHED: /* the RTU; or the REJ */
	case EMU_CM_ANSWERED:
		if (!c->passive)
			cm_send_again(c);
		break;
	case EMU_CM_IDLE:
	case EMU_CM_REQ_SENT:
	case EMU_CM_REQ_RCVD:
	case EMU_CM_MRA_REQ_SENT:
	case EMU_CM_MRA_REQ_RCVD:
	case EMU_CM_REP_SENT:
	case EMU_CM_REP_RCVD:
	case EMU_CM_MRA_REP_RCVD:
	case EMU_CM_DREQ_SENT:
	case EMU_CM_DREQ_RCVD:
	case EMU_CM_TIMEWAIT:
	case EMU_CM_SIDR_REQ_SENT:
	case EMU_CM_SIDR_REQ_RCVD:
		break;
	}
}

static void rx_rep(struct emu_cm_conn *c, const struct cm_msg *m)
{
	struct emu_cm_conn *old;

	if (c->state != EMU_CM_REQ_SENT && c->state != EMU_CM_MRA_REQ_RCVD) {
		rx_dup_rep(c, m);
		return;
	}
	c->told = false;
	cm_conn_arm(c, EMU_CM_NO_DEADLINE);
	c->remote_id = m->local_id;
	c->peer_guid_be = m->rep.ca_guid_be;
	c->remote_qpn = c->qp_type == IBV_QPT_XRC_SEND ? m->rep.eecn : m->rep.qpn;
	c->send_psn = m->rep.psn;
	c->initiator_depth = m->rep.responder_resources;
	c->responder_resources = m->rep.initiator_depth;
	c->rnr_retry = m->rep.rnr_retry;
	c->ack_timeout =
	    cm_ack_timeout(m->rep.ack_delay, c->ack_timeout ? c->ack_timeout - 1 : 0);
	old = cm_conn_find_qp(c->cm, c->peer_guid_be, c->remote_qpn, c);
	cm_conn_index_qp(c);
	cm_set_state(c, EMU_CM_REP_RCVD);
	if (old && old->state == EMU_CM_ESTABLISHED && old->qp_type == IBV_QPT_RC)
		cm_send_dreq(old, old->max_retries + 1u);
	cm_emit(c, EMU_CM_EV_REP, m);
	emu_cm_delay(c);
}

static void rx_rtu(struct emu_cm_conn *c, const struct cm_msg *m)
{
	if (c->state != EMU_CM_REP_SENT && c->state != EMU_CM_MRA_REP_RCVD)
		return;
	cm_set_state(c, EMU_CM_ESTABLISHED);
	cm_conn_arm(c, EMU_CM_NO_DEADLINE);
	cm_emit(c, EMU_CM_EV_ESTABLISHED, m);
}

static void rx_rej(struct emu_cm_conn *c, const struct cm_msg *m)
{
	switch (c->state) {
	case EMU_CM_REQ_SENT:
	case EMU_CM_MRA_REQ_RCVD:
	case EMU_CM_REQ_RCVD:
	case EMU_CM_MRA_REQ_SENT:
	case EMU_CM_REP_SENT:
	case EMU_CM_MRA_REP_RCVD:
	case EMU_CM_REP_RCVD:
	case EMU_CM_MRA_REP_SENT:
		cm_emit(c, EMU_CM_EV_REJ, m);
		cm_become_idle(c);
		break;
	case EMU_CM_DREQ_SENT: /* the peer has forgotten it: as good as a DREP */
		cm_enter_timewait(c);
		cm_emit(c, EMU_CM_EV_DREP, m);
		break;
	case EMU_CM_IDLE:
	case EMU_CM_ESTABLISHED:
	case EMU_CM_DREQ_RCVD:
	case EMU_CM_TIMEWAIT:
	case EMU_CM_ANSWERED:
	case EMU_CM_SIDR_REQ_SENT:
	case EMU_CM_SIDR_REQ_RCVD:
		break;
	}
}

static void rx_dreq(struct emu_cm_conn *c, const struct cm_msg *m)
{
	bool crossed = c->state == EMU_CM_DREQ_SENT;

	switch (c->state) {
	case EMU_CM_ESTABLISHED:
	case EMU_CM_REP_SENT:
	case EMU_CM_MRA_REP_RCVD:
	case EMU_CM_REP_RCVD: /* the peer replied and is gone before the owner agreed */
	case EMU_CM_MRA_REP_SENT:
	case EMU_CM_DREQ_SENT:
		c->tid = m->tid;
		cm_set_state(c, EMU_CM_DREQ_RCVD);
		cm_conn_arm(c, EMU_CM_NO_DEADLINE);
		cm_emit(c, EMU_CM_EV_DREQ, m);
		/* Nobody will agree any more, or has done so by asking himself. */
		if (!c->owned || (crossed && c->state == EMU_CM_DREQ_RCVD))
			cm_send_drep(c);
		break;
	case EMU_CM_TIMEWAIT:
		duplicate(&c->port, CM_DREQ);
		c->tid = m->tid;
		cm_send_drep(c);
		break;
	case EMU_CM_DREQ_RCVD:
		duplicate(&c->port, CM_DREQ);
		break;
	case EMU_CM_IDLE:
	case EMU_CM_REQ_SENT:
	case EMU_CM_REQ_RCVD:
	case EMU_CM_MRA_REQ_SENT:
	case EMU_CM_MRA_REQ_RCVD:
	case EMU_CM_ANSWERED:
	case EMU_CM_SIDR_REQ_SENT:
	case EMU_CM_SIDR_REQ_RCVD:
		break;
	}
}

static void rx_drep(struct emu_cm_conn *c, const struct cm_msg *m)
{
	if (c->state != EMU_CM_DREQ_SENT)
		return;
	cm_enter_timewait(c);
	cm_emit(c, EMU_CM_EV_DREP, m);
}

static void rx_sidr_req(struct emu_cm *cm, const struct emu_cm_port *port,
			const struct net_path *path, const struct cm_msg *m)
{
	struct emu_cm_conn *c = cm_conn_find_sidr(cm, m->local_id, &path->src);
	int ret;

	if (c) {
		duplicate(port, CM_SIDR_REQ);
		if (c->state == EMU_CM_ANSWERED)
			cm_send_again(c);
		return;
	}
	c = cm_conn_new(cm, port);
	if (!c)
		return;
	c->passive = true;
	c->state = EMU_CM_SIDR_REQ_RCVD;
	c->qp_type = IBV_QPT_UD;
	c->remote_id = m->local_id;
	c->tid = m->tid;
	c->service_id = m->sidr_req.service_id;
	c->path =
	    (struct net_path){.src = path->dst, .dst = path->src, .tclass = path->tclass};
	cm_conn_index_peer(c);
	ret = cm->ops->request(cm->arg, port->dev, c, m, path);
	if (!ret) {
		c->owned = true;
		cm_set_state(c, EMU_CM_SIDR_REQ_RCVD);
	} else if (ret == -ENOMEM) {
		cm_conn_free(c);
	} else {
		emu_cm_sidr_answer(c,
				   ret == -ENOENT ? CM_SIDR_UNSUPPORTED : CM_SIDR_REJECT,
				   0, 0, NULL, 0);
	}
}

static void rx_sidr_rep(struct emu_cm *cm, const struct cm_msg *m)
{
	struct emu_cm_conn *c = cm_conn_find(cm, m->local_id);

	if (!c || c->state != EMU_CM_SIDR_REQ_SENT)
		return;
	cm_show_came(c, m);
	cm_emit(c, EMU_CM_EV_SIDR_REP, m);
	cm_become_idle(c);
}

/*
 * The connection that @m is about: ours by its ID, of the peer that we know, if we know
 * it. Only an MRA, a REP or a REJ may be the first word of a peer.
 */
static struct emu_cm_conn *find_conn(struct emu_cm *cm, const struct cm_msg *m)
{
	struct emu_cm_conn *c = cm_conn_find(cm, m->remote_id);
	uint64_t guid_be;

	if (!c && m->attr == CM_REJ && !m->remote_id && m->rej.reason == CM_REJ_TIMEOUT) {
		/* He gave up before he had our ID; his GUID is in the ARI. */
		memcpy(&guid_be, m->rej.ari, sizeof(guid_be));
		return cm_conn_find_peer(cm, m->local_id, guid_be);
	}
	if (!c || c->state == EMU_CM_IDLE || c->qp_type == IBV_QPT_UD)
		return NULL;
	/* A REJ may come from somebody who has no ID (nobody listens). */
	if (c->remote_id && c->remote_id != m->local_id &&
	    !(m->attr == CM_REJ && !m->local_id))
		return NULL;
	return c;
}

/*
 * A message about a connection that we do not have, so that its sender need not repeat it
 */
static void rx_unknown(struct emu_cm *cm, const struct emu_cm_port *port,
		       const struct net_path *path, const struct cm_msg *m)
{
	struct cm_msg drep = {.attr = CM_DREP};

	if (m->attr == CM_DREQ) {
		duplicate(port, CM_DREQ);
		cm_send_stateless(port, path, m, &drep);
	} else if (m->attr == CM_REP && emu_cm_slot_of(m->remote_id) == cm->slot) {
		refuse_stateless(port, path, m, CM_REJ_INVALID_COMM_ID);
	}
}

static void rx_conn(struct emu_cm *cm, const struct emu_cm_port *port,
		    const struct net_path *path, const struct cm_msg *m)
{
	struct emu_cm_conn *c = find_conn(cm, m);

	if (!c) {
		rx_unknown(cm, port, path, m);
		return;
	}
	cm_show_came(c, m);
	switch (m->attr) {
	case CM_MRA:
		rx_mra(c, m);
		break;
	case CM_REP:
		rx_rep(c, m);
		break;
	case CM_RTU:
		rx_rtu(c, m);
		break;
	case CM_REJ:
		rx_rej(c, m);
		break;
	case CM_DREQ:
		/* It must name our QP, so that a stray one does no harm (12.6.9). */
		if (m->dreq.remote_qpn == c->local_qpn)
			rx_dreq(c, m);
		break;
	case CM_DREP:
		rx_drep(c, m);
		break;
	case CM_REQ:
	case CM_SIDR_REQ:
	case CM_SIDR_REP:
		break;
	}
}

void emu_cm_rx(struct emu_cm *cm, const struct emu_cm_port *port,
	       const struct net_path *path, const uint8_t *mad, uint32_t len)
{
	struct cm_msg m;

	if (cm_mad_parse(mad, len, &m))
		return;
	cm_count(port, EMU_CM_RX_MSGS, m.attr);
	cm->cause = TRACE_CM_CAUSE_MESSAGE;
	switch (m.attr) {
	case CM_REQ:
		rx_req(cm, port, path, &m);
		break;
	case CM_SIDR_REQ:
		rx_sidr_req(cm, port, path, &m);
		break;
	case CM_SIDR_REP:
		rx_sidr_rep(cm, &m);
		break;
	case CM_MRA:
	case CM_REJ:
	case CM_REP:
	case CM_RTU:
	case CM_DREQ:
	case CM_DREP:
		rx_conn(cm, port, path, &m);
		break;
	}
	cm->cause = TRACE_CM_CAUSE_CALL;
}

/* The peer sends nothing any more; play what it would have sent. */
void emu_cm_peer_gone(struct emu_cm_conn *c)
{
	struct cm_msg m = {.attr = CM_REJ,
			   .local_id = c->remote_id,
			   .remote_id = c->local_id,
			   .tid = c->tid,
			   .rej = {.reason = CM_REJ_CONSUMER}};
	struct emu_cm *cm = c->cm;

	cm->cause = TRACE_CM_CAUSE_PEER_GONE;
	if (c->state == EMU_CM_ESTABLISHED || c->state == EMU_CM_DREQ_SENT)
		rx_dreq(c, &m);
	else
		rx_rej(c, &m);
	cm->cause = TRACE_CM_CAUSE_CALL;
}
