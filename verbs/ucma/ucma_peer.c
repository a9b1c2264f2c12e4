/*
 * ucma_peer.c - identifiers and their peers: between the ucma commands and emu/cm.
 *
 * Events of the protocol become those of <rdma/rdma_cma.h>, with the fields that the
 * kernel's cma.c gives them. Private data of requests begins with the addresses that the
 * active side asked for (annex A11); the application sees what is behind.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/ucma/ucma_internal.h"

static struct emu_cm_port port_of(struct engine_device *dev)
{
	struct ibv_device_attr_ex attr;

	emu_query_device(dev->hca, &attr);
	return (struct emu_cm_port){.hca = dev->hca,
				    .counters = &dev->cm,
				    .dev = dev,
				    .guid_be = attr.orig_attr.node_guid,
				    .ack_delay = attr.orig_attr.local_ca_ack_delay};
}

/* --- requests out ----------------------------------------------------------------- */

/* The address header; a wildcard as destination means this host. */
static uint32_t put_header(const struct ucma_id *id, uint8_t *priv)
{
	union ucma_addr dst = id->dst;
	struct cm_ip_hdr h;

	if (ucma_addr_is_zero(&dst))
		ucma_addr_set_loopback(&dst);
	h = (struct cm_ip_hdr){.version = dst.sa.sa_family == AF_INET ? 4 : 6,
			       .port = ucma_addr_port(&id->src),
			       .src = ucma_addr_ip(&id->src),
			       .dst = ucma_addr_ip(&dst)};
	cm_ip_hdr_build(priv, &h);
	return CM_IP_HDR_LEN;
}

static struct emu_cm_req request_of(const struct ucma_id *id,
				    const struct rdma_ucm_conn_param *p,
				    const struct rdma_ucm_ece *ece)
{
	return (struct emu_cm_req){
	    .service_id = cm_service_id(id->ps, ucma_addr_port(&id->dst)),
	    .qp_type = (enum ibv_qp_type)id->qp_type,
	    .qpn = p->qp_num,
	    .psn = id->psn,
	    .responder_resources = p->responder_resources,
	    .initiator_depth = p->initiator_depth,
	    .retry_count = p->retry_count,
	    .rnr_retry = p->rnr_retry_count,
	    .flow_control = p->flow_control != 0,
	    .srq = p->srq != 0,
	    .ece_vendor = ece->vendor_id & 0xffffff,
	    .ece_options = ece->attr_mod,
	    .path = {.src = id->sgid,
		     .dst = id->dgid,
		     .tclass = id->path.tclass,
		     .ttl = id->path.hop_limit,
		     .flow = id->path.flow},
	    .mtu = id->path.mtu,
	    .lifetime = id->path.lifetime,
	};
}

int ucma_connect(struct ucma_id *id, const struct rdma_ucm_conn_param *p,
		 const struct rdma_ucm_ece *ece)
{
	uint8_t priv[CM_IP_HDR_LEN + RDMA_MAX_PRIVATE_DATA];
	struct emu_cm *cm = id->file->u->cm;
	struct emu_cm_port port;
	struct emu_cm_req req;
	int ret;

	if (!id->dev || id->state != UCMA_ROUTE_DONE)
		return -EINVAL;
	req = request_of(id, p, ece);
	req.priv = priv;
	req.priv_len = put_header(id, priv);
	memcpy(priv + req.priv_len, p->private_data, p->private_data_len);
	req.priv_len += p->private_data_len;
	req.seen = id->seen;
	port = port_of(id->dev);
	id->state = UCMA_CONNECT;
	id->qp_num = p->qp_num;
	id->srq = p->srq != 0;
	ret = id->qp_type == IBV_QPT_UD ? emu_cm_sidr_ask(cm, &port, id, &req, &id->conn)
					: emu_cm_connect(cm, &port, id, &req, &id->conn);
	if (ret)
		id->state = UCMA_ROUTE_DONE;
	return ret;
}

/* --- answers ---------------------------------------------------------------------- */

static int reply(struct ucma_id *id, const struct rdma_ucm_conn_param *p,
		 const struct rdma_ucm_ece *ece)
{
	const struct emu_cm_rep rep = {
	    .qpn = p->qp_num,
	    .psn = id->psn,
	    .responder_resources = p->responder_resources,
	    .initiator_depth = p->initiator_depth,
	    .rnr_retry = p->rnr_retry_count,
	    .flow_control = p->flow_control != 0,
	    .srq = p->srq != 0,
	    .ece_vendor = ece->vendor_id & 0xffffff,
	    .ece_options = ece->attr_mod,
	    .priv = p->private_data,
	    .priv_len = p->private_data_len,
	};

	return emu_cm_reply(id->conn, &rep);
}

static int answer(struct ucma_id *id, const struct rdma_ucm_conn_param *p,
		  const struct rdma_ucm_ece *ece)
{
	if (id->qp_type == IBV_QPT_UD)
		return emu_cm_sidr_answer(id->conn, CM_SIDR_SUCCESS, id->qp_num,
					  UCMA_UDP_QKEY, p ? p->private_data : NULL,
					  p ? p->private_data_len : 0);
	return p ? reply(id, p, ece) : emu_cm_rtu(id->conn);
}

int ucma_accept(struct ucma_id *id, const struct rdma_ucm_conn_param *p,
		const struct rdma_ucm_ece *ece)
{
	int ret;

	if (!id->conn || id->state != UCMA_CONNECT)
		return -EINVAL;
	if (p) {
		id->qp_num = p->qp_num;
		id->srq = p->srq != 0;
	}
	ret = answer(id, p, ece);
	if (ret)
		ucma_reject(id, CM_REJ_CONSUMER, NULL, 0);
	return ret;
}

int ucma_reject(struct ucma_id *id, uint8_t reason, const void *priv, uint8_t priv_len)
{
	if (!id->conn)
		return -EINVAL;
	if (id->qp_type == IBV_QPT_UD)
		return emu_cm_sidr_answer(id->conn, CM_SIDR_REJECT, 0, 0, priv, priv_len);
	return emu_cm_reject(id->conn, (enum cm_rej_reason)reason, priv, priv_len);
}

int ucma_disconnect(struct ucma_id *id)
{
	if (!id->conn)
		return -EINVAL;
	/* Whether there was anything to end is not the caller's business (cma.c). */
	emu_cm_disconnect(id->conn);
	return 0;
}

int ucma_notify(struct ucma_id *id, uint32_t event)
{
	if (!id->conn)
		return -EINVAL;
	switch (event) {
	case IBV_EVENT_COMM_EST:
		return emu_cm_established(id->conn);
	case IBV_EVENT_PATH_MIG: /* there is no second path to migrate to */
	default:
		return -EINVAL;
	}
}

/* --- QP attributes ---------------------------------------------------------------- */

/* Before there is a connection, and always for datagrams (cma_ib_init_qp_attr()) */
static int attr_unconnected(const struct ucma_id *id, struct ibv_qp_attr *a, int *mask)
{
	*mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	a->pkey_index = 0;
	a->port_num = EMU_PORT;
	if (id->qp_type != IBV_QPT_UD) {
		*mask |= IBV_QP_ACCESS_FLAGS;
		return 0;
	}
	/* IPoIB's Q_Key comes from a subnet manager, which RoCE has not. */
	if (id->ps == RDMA_PS_IPOIB)
		return -EADDRNOTAVAIL;
	a->qkey = UCMA_UDP_QKEY;
	*mask |= IBV_QP_QKEY;
	return 0;
}

static void copy_ah(const struct ibv_ah_attr *a, struct ib_uverbs_ah_attr *to)
{
	memcpy(to->grh.dgid, a->grh.dgid.raw, 16);
	to->grh.flow_label = a->grh.flow_label;
	to->grh.sgid_index = a->grh.sgid_index;
	to->grh.hop_limit = a->grh.hop_limit;
	to->grh.traffic_class = a->grh.traffic_class;
	to->is_global = a->is_global;
	to->port_num = a->port_num;
}

static void copy_attr(const struct ibv_qp_attr *a, struct ib_uverbs_qp_attr *to)
{
	to->qp_state = a->qp_state;
	to->path_mtu = a->path_mtu;
	to->qkey = a->qkey;
	to->rq_psn = a->rq_psn;
	to->sq_psn = a->sq_psn;
	to->dest_qp_num = a->dest_qp_num;
	to->qp_access_flags = a->qp_access_flags;
	copy_ah(&a->ah_attr, &to->ah_attr);
	to->pkey_index = a->pkey_index;
	to->max_rd_atomic = a->max_rd_atomic;
	to->max_dest_rd_atomic = a->max_dest_rd_atomic;
	to->min_rnr_timer = a->min_rnr_timer;
	to->port_num = a->port_num;
	to->timeout = a->timeout;
	to->retry_cnt = a->retry_cnt;
	to->rnr_retry = a->rnr_retry;
}

int ucma_init_qp_attr(struct ucma_id *id, uint32_t state, struct ib_uverbs_qp_attr *resp)
{
	struct ibv_qp_attr a = {.qp_state = (enum ibv_qp_state)state};
	int mask = 0, ret;

	if (!id->dev)
		return -EINVAL;
	if (!id->conn || id->qp_type == IBV_QPT_UD)
		ret = attr_unconnected(id, &a, &mask);
	else
		ret = emu_cm_qp_attr(id->conn, &a, &mask);
	if (ret)
		return ret;
	if (state == IBV_QPS_RTR)
		a.rq_psn = id->psn;
	a.ah_attr.grh.sgid_index = (uint8_t)id->gid_index;
	if ((mask & IBV_QP_TIMEOUT) && id->ack_timeout_set)
		a.timeout = id->ack_timeout;
	memset(resp, 0, sizeof(*resp));
	resp->qp_attr_mask = (uint32_t)mask;
	copy_attr(&a, resp);
	return 0;
}

/* --- requests in ------------------------------------------------------------------ */

/* Tie a new identifier to the addresses that the request came with. */
static int passive_addresses(struct ucma_id *id, struct engine_device *dev,
			     const struct cm_ip_hdr *h, uint16_t port,
			     const struct net_ip *sgid, const struct net_ip *dgid)
{
	sa_family_t family = h->version == 4 ? AF_INET : AF_INET6;
	unsigned int index;

	if (ucma_dev_by_ip(id->file->u->engine, sgid, &index) != dev)
		return -EINVAL;
	id->dev = dev;
	id->gid_index = index;
	id->sgid = *sgid;
	id->dgid = *dgid;
	ucma_addr_set_ip(&id->src, family, &h->dst, port);
	ucma_addr_set_ip(&id->dst, family, &h->src, h->port);
	return 0;
}

static void passive_path(struct ucma_id *id, const struct cm_req *r)
{
	id->num_paths = 1;
	id->path = (struct ucma_path){
	    .mtu = (enum ibv_mtu)r->mtu,
	    .lifetime = r->path.ack_timeout ? r->path.ack_timeout - 1 : 0,
	    .tclass = r->path.traffic_class,
	    .hop_limit = r->path.hop_limit,
	    .flow = r->path.flow_label,
	};
}

static void fill_request(struct rdma_ucm_event_resp *resp, const struct cm_msg *m)
{
	struct rdma_ucm_conn_param *p = &resp->param.conn;

	p->qp_num = m->req.qpn;
	p->private_data_len = CM_PRIV_REQ - CM_IP_HDR_LEN;
	memcpy(p->private_data, m->priv + CM_IP_HDR_LEN, p->private_data_len);
	p->srq = m->req.srq;
	/* What one side can start the other must be able to answer. */
	p->responder_resources = m->req.initiator_depth;
	p->initiator_depth = m->req.responder_resources;
	p->flow_control = m->req.flow_control;
	p->retry_count = m->req.retry_count;
	p->rnr_retry_count = m->req.rnr_retry;
	resp->ece.vendor_id = m->req.ece_vendor;
	resp->ece.attr_mod = m->ece;
}

static void fill_sidr_request(struct rdma_ucm_event_resp *resp, const struct cm_msg *m)
{
	struct rdma_ucm_ud_param *p = &resp->param.ud;

	p->private_data_len = CM_PRIV_SIDR_REQ - CM_IP_HDR_LEN;
	memcpy(p->private_data, m->priv + CM_IP_HDR_LEN, p->private_data_len);
}

/* A new identifier for a request to @listener */
static int take_request(struct ucma_id *listener, struct engine_device *dev,
			struct emu_cm_conn *conn, const struct cm_msg *m,
			const struct net_path *path, const struct cm_ip_hdr *h,
			uint16_t port)
{
	bool sidr = m->attr == CM_SIDR_REQ;
	struct ucma_event *ev;
	struct ucma_id *id;
	int ret = ucma_point_request();

	if (ret)
		return ret;
	id = ucma_id_new(listener->file, listener->ps, (uint8_t)emu_cm_qp_type(conn));
	if (!id)
		return -ENOMEM;
	if (passive_addresses(id, dev, h, port,
			      sidr ? &path->dst : &m->req.path.remote_gid,
			      sidr ? &path->src : &m->req.path.local_gid)) {
		ucma_id_destroy(id);
		return -EINVAL;
	}
	ev = ucma_push(listener, UCMA_CONNECT_REQUEST, 0);
	if (!ev) {
		ucma_id_destroy(id);
		return -ENOMEM;
	}
	ev->conn = id;
	ev->resp.id = id->handle;
	if (sidr) {
		fill_sidr_request(&ev->resp, m);
	} else {
		passive_path(id, &m->req);
		fill_request(&ev->resp, m);
	}
	listener->backlog--;
	ucma_show(listener);
	id->state = UCMA_CONNECT;
	id->conn = conn;
	emu_cm_set_cookie(conn, id);
	id->seen->cm.listener = listener->handle;
	ucma_show(id);
	emu_cm_show(conn, id->seen);
	return 0;
}

static int on_request(void *arg, void *dev, struct emu_cm_conn *conn,
		      const struct cm_msg *m, const struct net_path *path)
{
	uint64_t sid = m->attr == CM_REQ ? m->req.service_id : m->sidr_req.service_id;
	struct ucma_id *listener;
	struct cm_ip_hdr h;

	if (sid >> 32)
		return -ENOENT;
	if (cm_ip_hdr_parse(m->priv, &h))
		return -EINVAL;
	listener = ucma_port_listener(arg, (uint16_t)(sid >> 16), (uint16_t)sid,
				      h.version == 4 ? AF_INET : AF_INET6, &h.dst, dev);
	if (!listener)
		return -ENOENT;
	if (listener->qp_type != emu_cm_qp_type(conn))
		return -EINVAL;
	if (!listener->backlog) {
		listener->seen->cm.not_taken++;
		return -ENOMEM;
	}
	return take_request(listener, dev, conn, m, path, &h, (uint16_t)sid);
}

/* --- events ----------------------------------------------------------------------- */

static void fill_reply(struct ucma_event *ev, const struct cm_msg *m)
{
	struct rdma_ucm_conn_param *p = &ev->resp.param.conn;

	p->qp_num = ev->id->qp_type == IBV_QPT_XRC_SEND ? m->rep.eecn : m->rep.qpn;
	p->private_data_len = CM_PRIV_REP;
	memcpy(p->private_data, m->priv, CM_PRIV_REP);
	p->srq = m->rep.srq;
	p->responder_resources = m->rep.initiator_depth;
	p->initiator_depth = m->rep.responder_resources;
	p->flow_control = m->rep.flow_control;
	p->rnr_retry_count = m->rep.rnr_retry;
	ev->resp.ece.vendor_id = m->rep.ece_vendor;
	ev->resp.ece.attr_mod = m->ece;
}

static void on_rejected(struct ucma_id *id, const struct cm_msg *m)
{
	struct ucma_event *ev = ucma_push(id, UCMA_REJECTED, m->rej.reason);

	if (!ev)
		return;
	ev->resp.param.conn.private_data_len = CM_PRIV_REJ;
	memcpy(ev->resp.param.conn.private_data, m->priv, CM_PRIV_REJ);
}

static void on_sidr_reply(struct ucma_id *id, const struct cm_msg *m)
{
	bool ok = m->sidr_rep.status == CM_SIDR_SUCCESS;
	struct ucma_event *ev =
	    ucma_push(id, ok ? UCMA_ESTABLISHED : UCMA_UNREACHABLE, m->sidr_rep.status);

	if (!ev)
		return;
	ev->resp.param.ud.private_data_len = CM_PRIV_SIDR_REP;
	memcpy(ev->resp.param.ud.private_data, m->priv, CM_PRIV_SIDR_REP);
	if (!ok)
		return;
	ucma_fill_ah(id, &ev->resp.param.ud.ah_attr);
	ev->resp.param.ud.qp_num = m->sidr_rep.qpn;
	ev->resp.param.ud.qkey = m->sidr_rep.qkey;
}

static void on_disconnect(struct ucma_id *id, int status)
{
	id->state = UCMA_DISCONNECT;
	ucma_show(id);
	ucma_push(id, UCMA_DISCONNECTED, status);
}

static void on_event(void *arg, void *cookie, enum emu_cm_event_type type,
		     const struct cm_msg *m)
{
	struct ucma_id *id = cookie;
	struct ucma_event *ev;

	if (id->state !=
	    (type == EMU_CM_EV_TIMEWAIT_EXIT ? UCMA_DISCONNECT : UCMA_CONNECT))
		return;
	switch (type) {
	case EMU_CM_EV_REQ_ERROR:
	case EMU_CM_EV_REP_ERROR:
	case EMU_CM_EV_SIDR_ERROR:
		ucma_push(id, UCMA_UNREACHABLE, -ETIMEDOUT);
		break;
	case EMU_CM_EV_REP:
		ev = ucma_push(id, UCMA_CONNECT_RESPONSE, 0);
		if (ev)
			fill_reply(ev, m);
		break;
	case EMU_CM_EV_ESTABLISHED:
		ucma_push(id, UCMA_ESTABLISHED, 0);
		break;
	case EMU_CM_EV_REJ:
		on_rejected(id, m);
		break;
	case EMU_CM_EV_DREQ:
	case EMU_CM_EV_DREP:
		on_disconnect(id, 0);
		break;
	case EMU_CM_EV_DREQ_ERROR:
		on_disconnect(id, -ETIMEDOUT);
		break;
	case EMU_CM_EV_TIMEWAIT_EXIT:
		ucma_push(id, UCMA_TIMEWAIT_EXIT, 0);
		break;
	case EMU_CM_EV_SIDR_REP:
		on_sidr_reply(id, m);
		break;
	}
}

/* --- QP1 -------------------------------------------------------------------------- */

static void on_changed(void *arg, struct emu_cm_conn *conn)
{
	ucma_watch_changed(arg, conn);
}

static const struct emu_cm_ops cm_ops = {
    .request = on_request, .event = on_event, .changed = on_changed};

void ucma_mad(void *arg, struct engine_device *dev, const struct net_path *path,
	      const uint8_t *mad, uint32_t len)
{
	struct ucma *u = arg;
	struct emu_cm_port port = port_of(dev);

	emu_cm_set_time(u->cm, engine_now());
	emu_cm_rx(u->cm, &port, path, mad, len);
}

/* The slot of this process: the registry tells who holds a key that only we have. */
static int own_slot(struct ucma *u, unsigned int *slot)
{
	struct net_port *np = engine_port(u->engine);
	uint64_t key = u->rng ^ (uintptr_t)u;
	int ret = net_registry_claim(np, key, true);

	if (ret)
		return ret;
	ret = net_registry_find(np, key, slot);
	net_registry_release(np, key);
	return ret;
}

int ucma_peer_init(struct ucma *u)
{
	struct emu_cm_cfg cfg = {.seed = u->rng};
	int ret;

	ret = own_slot(u, &u->slot);
	if (ret)
		return ret;
	cfg.slot = u->slot;
	return emu_cm_create(&cfg, &cm_ops, u, &u->cm);
}
