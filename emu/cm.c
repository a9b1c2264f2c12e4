/*
 * cm.c - connection management as IBTA volume 1, chapter 12 describes it.
 *
 * Theory of operation
 *
 * A connection is made by REQ, REP, RTU, refused by REJ, and ended by DREQ, DREP.
 * Messages are datagrams and get lost. Whoever expects an answer repeats his message
 * (REQ, REP, DREQ, SIDR_REQ); whoever answers keeps the answer and gives it again when
 * the question comes again. So REJ, RTU, DREP and SIDR_REP need no timers, only some time
 * in which they are remembered (ANSWERED, TIMEWAIT). Example, each arrow being lost once:
 *
 *	active                      passive
 *	REQ_SENT      -REQ->x
 *	              -REQ->        REQ_RCVD, the owner is asked, MRA_REQ_SENT
 *	             x<-REP-        REP_SENT
 *	              -REQ->        the REP again
 *	REP_RCVD      <-REP-
 *	ESTABLISHED   -RTU->x
 *	              <-REP-        (its timer)
 *	              -RTU->        ESTABLISHED
 *
 * Timers. A peer may take its response timeout (seconds) to answer, and hope is lost
 * after that many of them as max_cm_retries says. A lost datagram should not cost
 * seconds, though: repetitions begin after FIRST_RTO and the interval doubles until it is
 * the response timeout. The total time is as if there were no early ones. An owner that
 * is slow to answer makes the CM send an MRA for the first duplicate, which stops them.
 *
 * Stale connections (12.9.8.3). A REQ from a QP that has a living connection here means
 * that the peer has lost its memory: the REQ is refused (STALE_CONN), the old connection
 * gets a DREQ. A connection that is being or has been disconnected is no obstacle: its QP
 * may be used again at once.
 *
 * Release. The owner may release a connection at any moment; its peer is told
 * (last_words()) and the connection stays without an owner as long as the protocol needs
 * it.
 *
 * When which of these is due is in cm_due.c, what a QP is to be set to in cm_qp.c.
 *
 * Owns: struct emu_cm and its connections. Must not know: sockets, ports, QPs.
 */
#include "emu/cm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/cm_internal.h"
#include "emu/hca.h"
#include "net/rocev2.h"

#define FIRST_RTO    (200u * CM_MS)
#define TIMEWAIT_MAX (20000u * (uint64_t)CM_MS) /* whatever the peer's timeout says */

#define RESENDS 2 /* see CM_RESEND_RTO */

/* The DREQs of a released connection go on for so many timeouts. */
#define ORPHAN_TIMEOUTS 3

/*
 * As the kernel's RDMA CM asks for (cma.c): 4.096 us * 2^20, 15 times
 */
#define RESPONSE_TIMEOUT 20
#define MAX_RETRIES	 15

uint64_t cm_time(uint8_t exp)
{
	return (exp > 8 ? (uint64_t)1 << (exp - 8) : 1) * CM_MS;
}

uint8_t cm_ack_timeout(uint8_t delay, uint8_t lifetime)
{
	uint8_t t = lifetime + 1;

	if (t >= delay)
		t += delay >= t - 1;
	else
		t = delay + (t >= delay - 1);
	return t < 31 ? t : 31;
}

/* --- life ------------------------------------------------------------------------- */

int emu_cm_create(const struct emu_cm_cfg *cfg, const struct emu_cm_ops *ops, void *arg,
		  struct emu_cm **out)
{
	struct emu_cm *cm;

	if (cfg->slot >= 1u << EMU_CM_SLOT_BITS)
		return -EINVAL;
	cm = calloc(1, sizeof(*cm));
	if (!cm)
		return -ENOMEM;
	cm->ops = ops;
	cm->arg = arg;
	cm->slot = cfg->slot;
	cm->next_id = (uint32_t)cfg->seed;
	cm->tid_hi = (uint32_t)(cfg->seed >> 32);
	*out = cm;
	return 0;
}

void emu_cm_destroy(struct emu_cm *cm)
{
	while (cm->all)
		cm_conn_free(cm->all);
	free(cm->by_id.bucket);
	free(cm->by_peer.bucket);
	free(cm->by_qp.bucket);
	free(cm->heap);
	free(cm);
}

void emu_cm_set_time(struct emu_cm *cm, uint64_t now)
{
	if (now > cm->now)
		cm->now = now;
}

void emu_cm_for_each(struct emu_cm *cm, void (*fn)(void *arg, struct emu_cm_conn *c),
		     void *arg)
{
	struct emu_cm_conn *c, *next;

	for (c = cm->all; c; c = next) {
		next = c->next;
		fn(arg, c);
	}
}

void emu_cm_set_cookie(struct emu_cm_conn *c, void *cookie)
{
	c->cookie = cookie;
}

enum ibv_qp_type emu_cm_qp_type(const struct emu_cm_conn *c)
{
	return c->qp_type;
}

/* --- states ----------------------------------------------------------------------- */

/*
 * States in which the peer waits for us, or relies on us: it is to hear of our end. Its timers,
 * where it has some, are of a minute and more.
 */
static bool relied_on(enum emu_cm_state s)
{
	return (s >= EMU_CM_REQ_SENT && s <= EMU_CM_DREQ_RCVD) ||
	       s == EMU_CM_SIDR_REQ_RCVD;
}

void cm_set_state(struct emu_cm_conn *c, enum emu_cm_state state)
{
	bool tell = relied_on(c->state) || relied_on(state);
	enum emu_cm_state from = c->state;

	c->state = state;
	cm_show_state(c, from);
	if (tell && c->cm->ops->changed)
		c->cm->ops->changed(c->cm->arg, c);
}

/* --- sending ---------------------------------------------------------------------- */

void cm_count(const struct emu_cm_port *port, enum emu_cm_counter which,
	      unsigned int attr)
{
	if (port->counters)
		port->counters->n[which][attr - CM_REQ]++;
}

/* A full transmit path loses the message; repetition is the protocol's business. */
static void send_mad(const struct emu_cm_port *port, const struct net_path *path,
		     const uint8_t mad[CM_MAD_LEN], bool again)
{
	cm_count(port, EMU_CM_TX_MSGS, cm_mad_attr(mad));
	emu_hca_gsi_tx(port->hca, path, ROCE_QPN_GSI, mad, CM_MAD_LEN, again);
}

void cm_send_again(struct emu_cm_conn *c)
{
	cm_count(&c->port, EMU_CM_TX_RETRIES, cm_mad_attr(c->mad));
	send_mad(&c->port, &c->path, c->mad, true);
	cm_show_sent(c, cm_mad_attr(c->mad), true);
}

static void send_msg(struct emu_cm_conn *c, struct cm_msg *m)
{
	m->local_id = c->local_id;
	m->remote_id = c->remote_id;
	m->tid = c->tid;
	cm_mad_build(c->mad, m);
	send_mad(&c->port, &c->path, c->mad, false);
	cm_show_sent(c, m->attr, false);
}

void cm_send_once(struct emu_cm_conn *c, struct cm_msg *m)
{
	uint8_t mad[CM_MAD_LEN];

	m->local_id = c->local_id;
	m->remote_id = c->remote_id;
	m->tid = c->tid;
	cm_mad_build(mad, m);
	send_mad(&c->port, &c->path, mad, false);
	cm_show_sent(c, m->attr, false);
}

void cm_send_stateless(const struct emu_cm_port *port, const struct net_path *path,
		       const struct cm_msg *to, struct cm_msg *m)
{
	struct net_path back = {
	    .src = path->dst, .dst = path->src, .tclass = path->tclass};
	uint8_t mad[CM_MAD_LEN];

	m->tid = to->tid;
	m->local_id = to->remote_id;
	m->remote_id = to->local_id;
	if (to->attr == CM_SIDR_REQ)
		m->local_id = to->local_id; /* the request ID */
	cm_mad_build(mad, m);
	send_mad(port, &back, mad, false);
}

/* Begin to repeat c->mad until there is an answer. */
static void expect_answer(struct emu_cm_conn *c, enum emu_cm_state state,
			  uint64_t timeouts)
{
	cm_set_state(c, state);
	c->rto = FIRST_RTO < c->base ? FIRST_RTO : c->base;
	c->give_up = c->cm->now + c->base * timeouts;
	cm_conn_arm(c, c->cm->now + c->rto);
	cm_show(c);
}

void cm_emit(struct emu_cm_conn *c, enum emu_cm_event_type type, const struct cm_msg *m)
{
	if (c->owned)
		c->cm->ops->event(c->cm->arg, c->cookie, type, m);
}

/* Somebody who was asked to wait would not ask again for a minute. */
static void resend_if_told(struct emu_cm_conn *c)
{
	if (!c->told)
		return;
	c->resends = RESENDS;
	cm_conn_arm(c, c->cm->now + CM_RESEND_RTO);
}

static int copy_priv(struct cm_msg *m, const void *priv, uint32_t len)
{
	if (len > cm_priv_len(m->attr))
		return -EINVAL;
	if (len)
		memcpy(m->priv, priv, len);
	return 0;
}

/* --- ends ------------------------------------------------------------------------- */

void cm_become_idle(struct emu_cm_conn *c)
{
	cm_set_state(c, EMU_CM_IDLE);
	cm_conn_arm(c, EMU_CM_NO_DEADLINE);
	cm_conn_unindex_qp(c);
	if (!c->owned)
		cm_conn_free(c);
}

void cm_enter_timewait(struct emu_cm_conn *c)
{
	uint64_t wait = cm_time(c->ack_timeout);

	cm_set_state(c, EMU_CM_TIMEWAIT);
	cm_conn_unindex_qp(c);
	cm_conn_arm(c, c->cm->now + (wait < TIMEWAIT_MAX ? wait : TIMEWAIT_MAX));
}

/* Remember c->mad, the answer, for duplicates of what it answered. */
static void enter_answered(struct emu_cm_conn *c)
{
	cm_set_state(c, EMU_CM_ANSWERED);
	cm_conn_unindex_qp(c);
	cm_conn_arm(c, c->cm->now + CM_ANSWER_KEPT);
}

static void send_rej(struct emu_cm_conn *c, enum cm_answered what,
		     enum cm_rej_reason reason, const void *priv, uint32_t priv_len)
{
	struct cm_msg m = {.attr = CM_REJ, .rej = {.answered = what, .reason = reason}};

	copy_priv(&m, priv, priv_len);
	if (reason == CM_REJ_TIMEOUT) {
		m.rej.ari_len = 8;
		memcpy(m.rej.ari, &c->port.guid_be, 8);
	}
	send_msg(c, &m);
}

void cm_send_dreq(struct emu_cm_conn *c, uint64_t timeouts)
{
	struct cm_msg m = {.attr = CM_DREQ, .dreq = {.remote_qpn = c->remote_qpn}};

	c->tid = (uint64_t)c->cm->tid_hi << 32 | c->local_id;
	send_msg(c, &m);
	expect_answer(c, EMU_CM_DREQ_SENT, timeouts);
}

void cm_send_drep(struct emu_cm_conn *c)
{
	struct cm_msg m = {.attr = CM_DREP};

	send_msg(c, &m);
	cm_enter_timewait(c);
}

/* --- asking ----------------------------------------------------------------------- */

static void conn_from_req(struct emu_cm_conn *c, const struct emu_cm_req *r)
{
	c->owned = true;
	c->seen = r->seen;
	c->qp_type = r->qp_type;
	c->service_id = r->service_id;
	c->local_qpn = r->qpn;
	c->recv_psn = r->psn;
	c->responder_resources = r->responder_resources;
	c->initiator_depth = r->initiator_depth;
	c->retry_count = r->retry_count < 7 ? r->retry_count : 7;
	c->rnr_retry = r->rnr_retry < 7 ? r->rnr_retry : 7;
	c->path = r->path;
	c->mtu = r->mtu;
	c->ack_timeout = cm_ack_timeout(c->port.ack_delay, r->lifetime);
	c->max_retries = MAX_RETRIES;
	c->tid = (uint64_t)c->cm->tid_hi << 32 | c->local_id;
}

static enum cm_transport transport_of(enum ibv_qp_type t)
{
	switch (t) {
	case IBV_QPT_UC:
		return CM_TRANSPORT_UC;
	case IBV_QPT_XRC_SEND:
		return CM_TRANSPORT_XRC;
	default:
		return CM_TRANSPORT_RC;
	}
}

static void fill_req(const struct emu_cm_conn *c, const struct emu_cm_req *r,
		     struct cm_req *q)
{
	bool xrc = r->qp_type == IBV_QPT_XRC_SEND;

	*q = (struct cm_req){
	    .service_id = r->service_id,
	    .ca_guid_be = c->port.guid_be,
	    .ece_vendor = r->ece_vendor,
	    .qpn = r->qpn,
	    .initiator_depth = r->initiator_depth,
	    .remote_cm_timeout = RESPONSE_TIMEOUT,
	    .local_cm_timeout = RESPONSE_TIMEOUT,
	    .transport = transport_of(r->qp_type),
	    .flow_control = r->flow_control,
	    .psn = r->psn,
	    .pkey = 0xffff,
	    .mtu = (uint8_t)r->mtu,
	    .max_cm_retries = MAX_RETRIES,
	    /* What the responder of an XRC initiator does not have stays 0. */
	    .responder_resources = xrc ? 0 : r->responder_resources,
	    .retry_count = xrc ? 0 : c->retry_count,
	    .rnr_retry = xrc ? 0 : c->rnr_retry,
	    .srq = !xrc && r->srq,
	    .path =
		{
		    .local_lid = 0xffff, /* permissive: RoCE has none */
		    .remote_lid = 0xffff,
		    .local_gid = r->path.src,
		    .remote_gid = r->path.dst,
		    .flow_label = r->path.flow,
		    .traffic_class = r->path.tclass,
		    .hop_limit = r->path.ttl,
		    .ack_timeout = c->ack_timeout,
		},
	};
}

/* A connection that asks as @r says, and its private data in @m. 0 or -errno */
static int new_asking(struct emu_cm *cm, const struct emu_cm_port *port, void *cookie,
		      const struct emu_cm_req *r, struct cm_msg *m,
		      struct emu_cm_conn **out)
{
	int ret = copy_priv(m, r->priv, r->priv_len);

	if (ret)
		return ret;
	*out = cm_conn_new(cm, port);
	if (!*out)
		return -ENOMEM;
	(*out)->cookie = cookie;
	conn_from_req(*out, r);
	return 0;
}

int emu_cm_connect(struct emu_cm *cm, const struct emu_cm_port *port, void *cookie,
		   const struct emu_cm_req *r, struct emu_cm_conn **out)
{
	struct cm_msg m = {.attr = CM_REQ, .ece = r->ece_options};
	struct emu_cm_conn *c;
	int ret = new_asking(cm, port, cookie, r, &m, &c);

	if (ret)
		return ret;
	c->base = 2 * cm_time(r->lifetime) + cm_time(RESPONSE_TIMEOUT);
	fill_req(c, r, &m.req);
	send_msg(c, &m);
	expect_answer(c, EMU_CM_REQ_SENT, MAX_RETRIES + 1);
	*out = c;
	return 0;
}

int emu_cm_sidr_ask(struct emu_cm *cm, const struct emu_cm_port *port, void *cookie,
		    const struct emu_cm_req *r, struct emu_cm_conn **out)
{
	struct cm_msg m = {.attr = CM_SIDR_REQ,
			   .sidr_req = {.pkey = 0xffff, .service_id = r->service_id}};
	struct emu_cm_conn *c;
	int ret = new_asking(cm, port, cookie, r, &m, &c);

	if (ret)
		return ret;
	c->qp_type = IBV_QPT_UD;
	c->base = cm_time(RESPONSE_TIMEOUT);
	send_msg(c, &m);
	expect_answer(c, EMU_CM_SIDR_REQ_SENT, MAX_RETRIES + 1);
	*out = c;
	return 0;
}

/* --- answering -------------------------------------------------------------------- */

void emu_cm_delay(struct emu_cm_conn *c)
{
	if (c->state == EMU_CM_REQ_RCVD)
		cm_set_state(c, EMU_CM_MRA_REQ_SENT);
	else if (c->state == EMU_CM_REP_RCVD)
		cm_set_state(c, EMU_CM_MRA_REP_SENT);
}

int emu_cm_reply(struct emu_cm_conn *c, const struct emu_cm_rep *r)
{
	struct cm_msg m = {.attr = CM_REP, .ece = r->ece_options};
	bool xrc = c->qp_type == IBV_QPT_XRC_RECV;

	if (c->state != EMU_CM_REQ_RCVD && c->state != EMU_CM_MRA_REQ_SENT)
		return -EINVAL;
	if (copy_priv(&m, r->priv, r->priv_len))
		return -EINVAL;
	c->local_qpn = r->qpn;
	c->recv_psn = r->psn;
	c->initiator_depth = r->initiator_depth;
	c->responder_resources = r->responder_resources;
	m.rep = (struct cm_rep){
	    .ca_guid_be = c->port.guid_be,
	    .ece_vendor = r->ece_vendor,
	    .qpn = xrc ? 0 : r->qpn,
	    .eecn = xrc ? r->qpn : 0,
	    .psn = r->psn,
	    .responder_resources = r->responder_resources,
	    .initiator_depth = xrc ? 0 : r->initiator_depth,
	    .ack_delay = c->port.ack_delay,
	    .flow_control = !xrc && r->flow_control,
	    .rnr_retry = r->rnr_retry < 7 ? r->rnr_retry : 7,
	    .srq = xrc || r->srq,
	};
	c->told = false;
	send_msg(c, &m);
	expect_answer(c, EMU_CM_REP_SENT, c->max_retries + 1u);
	return 0;
}

int emu_cm_rtu(struct emu_cm_conn *c)
{
	struct cm_msg m = {.attr = CM_RTU};

	if (c->state != EMU_CM_REP_RCVD && c->state != EMU_CM_MRA_REP_SENT)
		return -EINVAL;
	send_msg(c, &m);
	cm_set_state(c, EMU_CM_ESTABLISHED);
	cm_conn_arm(c, EMU_CM_NO_DEADLINE);
	resend_if_told(c);
	return 0;
}

int emu_cm_reject(struct emu_cm_conn *c, enum cm_rej_reason reason, const void *priv,
		  uint32_t priv_len)
{
	enum cm_answered what = CM_ANSWERED_OTHER;

	if (priv_len > CM_PRIV_REJ)
		return -EINVAL;
	switch (c->state) {
	case EMU_CM_REQ_RCVD:
	case EMU_CM_MRA_REQ_SENT:
		what = CM_ANSWERED_REQ;
		break;
	case EMU_CM_REP_RCVD:
	case EMU_CM_MRA_REP_SENT:
		what = CM_ANSWERED_REP;
		break;
	case EMU_CM_REQ_SENT:
	case EMU_CM_MRA_REQ_RCVD:
	case EMU_CM_REP_SENT:
	case EMU_CM_MRA_REP_RCVD:
		break;
	case EMU_CM_IDLE:
	case EMU_CM_ESTABLISHED:
	case EMU_CM_DREQ_SENT:
	case EMU_CM_DREQ_RCVD:
	case EMU_CM_TIMEWAIT:
	case EMU_CM_ANSWERED:
	case EMU_CM_SIDR_REQ_SENT:
	case EMU_CM_SIDR_REQ_RCVD:
		return -EINVAL;
	}
	send_rej(c, what, reason, priv, priv_len);
	enter_answered(c);
	resend_if_told(c);
	return 0;
}

int emu_cm_disconnect(struct emu_cm_conn *c)
{
	switch (c->state) {
	case EMU_CM_ESTABLISHED:
		cm_send_dreq(c, c->max_retries + 1u);
		return 0;
	case EMU_CM_DREQ_RCVD:
		cm_send_drep(c);
		return 0;
	case EMU_CM_IDLE:
	case EMU_CM_REQ_SENT:
	case EMU_CM_REQ_RCVD:
	case EMU_CM_MRA_REQ_SENT:
	case EMU_CM_MRA_REQ_RCVD:
	case EMU_CM_REP_SENT:
	case EMU_CM_REP_RCVD:
	case EMU_CM_MRA_REP_SENT:
	case EMU_CM_MRA_REP_RCVD:
	case EMU_CM_DREQ_SENT:
	case EMU_CM_TIMEWAIT:
	case EMU_CM_ANSWERED:
	case EMU_CM_SIDR_REQ_SENT:
	case EMU_CM_SIDR_REQ_RCVD:
		break;
	}
	return -EINVAL;
}

int emu_cm_established(struct emu_cm_conn *c)
{
	if (c->state == EMU_CM_ESTABLISHED)
		return 0;
	if (c->state != EMU_CM_REP_SENT && c->state != EMU_CM_MRA_REP_RCVD)
		return -EINVAL;
	cm_set_state(c, EMU_CM_ESTABLISHED);
	cm_conn_arm(c, EMU_CM_NO_DEADLINE);
	cm_emit(c, EMU_CM_EV_ESTABLISHED, NULL);
	return 0;
}

static struct cm_msg sidr_rep(const struct emu_cm_conn *c, enum cm_sidr_status status)
{
	return (struct cm_msg){
	    .attr = CM_SIDR_REP,
	    .local_id = c->remote_id, /* the request ID is the asker's */
	    .tid = c->tid,
	    .sidr_rep = {.status = (uint8_t)status, .service_id = c->service_id}};
}

int emu_cm_sidr_answer(struct emu_cm_conn *c, enum cm_sidr_status status, uint32_t qpn,
		       uint32_t qkey, const void *priv, uint32_t priv_len)
{
	struct cm_msg m = sidr_rep(c, status);

	if (c->state != EMU_CM_SIDR_REQ_RCVD || copy_priv(&m, priv, priv_len))
		return -EINVAL;
	m.sidr_rep.qpn = qpn;
	m.sidr_rep.qkey = qkey;
	cm_mad_build(c->mad, &m);
	send_mad(&c->port, &c->path, c->mad, false);
	cm_show_sent(c, m.attr, false);
	enter_answered(c);
	return 0;
}

/* --- release ---------------------------------------------------------------------- */

/* What the peer of a connection that vanishes now should be told; false: nothing */
static bool last_words(const struct emu_cm_conn *c, struct cm_msg *m)
{
	*m = (struct cm_msg){.attr = CM_REJ,
			     .local_id = c->local_id,
			     .remote_id = c->remote_id,
			     .tid = c->tid};
	switch (c->state) {
	case EMU_CM_REQ_SENT:
	case EMU_CM_MRA_REQ_RCVD:
		m->rej = (struct cm_rej){.reason = CM_REJ_TIMEOUT, .ari_len = 8};
		memcpy(m->rej.ari, &c->port.guid_be, 8);
		return true;
	case EMU_CM_REQ_RCVD:
	case EMU_CM_MRA_REQ_SENT:
	case EMU_CM_REP_RCVD:
	case EMU_CM_MRA_REP_SENT:
		m->rej = (struct cm_rej){.answered = c->passive ? CM_ANSWERED_REQ
								: CM_ANSWERED_REP,
					 .reason = CM_REJ_CONSUMER};
		return true;
	case EMU_CM_REP_SENT: /* the peer may have taken it for established */
	case EMU_CM_MRA_REP_RCVD:
	case EMU_CM_ESTABLISHED:
	case EMU_CM_DREQ_SENT:
		*m = (struct cm_msg){.attr = CM_DREQ,
				     .local_id = c->local_id,
				     .remote_id = c->remote_id,
				     .tid = (uint64_t)c->cm->tid_hi << 32 | c->local_id,
				     .dreq = {.remote_qpn = c->remote_qpn}};
		return true;
	case EMU_CM_DREQ_RCVD:
		*m = (struct cm_msg){.attr = CM_DREP,
				     .local_id = c->local_id,
				     .remote_id = c->remote_id,
				     .tid = c->tid};
		return true;
	case EMU_CM_SIDR_REQ_RCVD:
		*m = sidr_rep(c, CM_SIDR_REJECT);
		return true;
	case EMU_CM_IDLE:
	case EMU_CM_TIMEWAIT:
	case EMU_CM_ANSWERED:
	case EMU_CM_SIDR_REQ_SENT:
		break;
	}
	return false;
}

bool emu_cm_farewell(const struct emu_cm_conn *c, struct net_path *path,
		     uint8_t mad[CM_MAD_LEN])
{
	struct cm_msg m;

	if (!last_words(c, &m))
		return false;
	*path = c->path;
	cm_mad_build(mad, &m);
	return true;
}

void emu_cm_release(struct emu_cm_conn *c)
{
	struct cm_msg m;

	c->owned = false;
	c->cookie = NULL;
	c->seen = NULL;
	switch (c->state) {
	case EMU_CM_IDLE:
	case EMU_CM_SIDR_REQ_SENT:
		cm_conn_free(c);
		break;
	case EMU_CM_REQ_SENT:
	case EMU_CM_MRA_REQ_RCVD:
		last_words(c, &m);
		cm_send_once(c, &m);
		cm_become_idle(c);
		break;
	case EMU_CM_REP_SENT: /* the peer may have taken it for established */
	case EMU_CM_MRA_REP_RCVD:
		cm_send_dreq(c, ORPHAN_TIMEOUTS);
		break;
	case EMU_CM_ESTABLISHED:
		/* An XRC target QP may be shared: its end is not the connection's. */
		if (c->qp_type == IBV_QPT_XRC_RECV)
			cm_become_idle(c);
		else
			cm_send_dreq(c, ORPHAN_TIMEOUTS);
		break;
	case EMU_CM_DREQ_SENT:
		expect_answer(c, EMU_CM_DREQ_SENT, ORPHAN_TIMEOUTS);
		break;
	case EMU_CM_DREQ_RCVD:
		cm_send_drep(c);
		break;
	case EMU_CM_SIDR_REQ_RCVD:
		emu_cm_sidr_answer(c, CM_SIDR_REJECT, 0, 0, NULL, 0);
		break;
	case EMU_CM_TIMEWAIT:
		break;
	case EMU_CM_ANSWERED:
		if (c->deadline == EMU_CM_NO_DEADLINE)
			cm_conn_arm(c, c->cm->now + CM_ANSWER_KEPT);
		break;
	case EMU_CM_REQ_RCVD:
	case EMU_CM_MRA_REQ_SENT:
	case EMU_CM_REP_RCVD:
	case EMU_CM_MRA_REP_SENT:
		emu_cm_reject(c, CM_REJ_CONSUMER, NULL, 0);
		break;
	}
}

/* --- small things ----------------------------------------------------------------- */

uint32_t emu_cm_remote_id(const struct emu_cm_conn *c)
{
	return c->remote_id;
}

const struct net_ip *emu_cm_peer(const struct emu_cm_conn *c)
{
	return &c->path.dst;
}

void emu_cm_set_tag(struct emu_cm_conn *c, uint32_t tag)
{
	c->tag = tag;
}

uint32_t emu_cm_tag(const struct emu_cm_conn *c)
{
	return c->tag;
}
