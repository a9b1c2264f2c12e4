/*
 * cm_mad.c - see cm_mad.h. Offsets in the comments count from the MAD's first byte; the
 * tables of IBTA 12.6 count from the end of the 24-byte header.
 */
#include "emu/cm_mad.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "net/bytes.h"

#define HDR_LEN	      24
#define BASE_VERSION  1
#define CLASS_VERSION 2
#define METHOD_SEND   0x03

/*
 * struct layout - where things are
 * @priv, @priv_len:	private data
 * @has_remote_id:	is there a receiver's ID behind the sender's?
 */
struct layout {
	uint16_t priv;
	uint16_t priv_len;
	bool has_remote_id;
};

static const struct layout layouts[] = {
    /* NOLINTNEXTLINE(misc-redundant-expression): the first row is as the others */
    [CM_REQ - CM_REQ] = {HDR_LEN + 140, CM_PRIV_REQ, false},
    [CM_MRA - CM_REQ] = {HDR_LEN + 10, CM_PRIV_MRA, true},
    [CM_REJ - CM_REQ] = {HDR_LEN + 84, CM_PRIV_REJ, true},
    [CM_REP - CM_REQ] = {HDR_LEN + 36, CM_PRIV_REP, true},
    [CM_RTU - CM_REQ] = {HDR_LEN + 8, CM_PRIV_RTU, true},
    [CM_DREQ - CM_REQ] = {HDR_LEN + 12, CM_PRIV_DREQ, true},
    [CM_DREP - CM_REQ] = {HDR_LEN + 8, CM_PRIV_DREP, true},
    [CM_SIDR_REQ - CM_REQ] = {HDR_LEN + 16, CM_PRIV_SIDR_REQ, false},
    [CM_SIDR_REP - CM_REQ] = {HDR_LEN + 96, CM_PRIV_SIDR_REP, false},
};

static const struct layout *layout_of(unsigned int attr)
{
	if (attr < CM_REQ || attr > CM_SIDR_REP)
		return NULL;
	return &layouts[attr - CM_REQ];
}

uint32_t cm_priv_len(unsigned int attr)
{
	const struct layout *l = layout_of(attr);

	return l ? l->priv_len : 0;
}

/* --- REQ (IBTA table 106) --------------------------------------------------------- */

static void parse_path(const uint8_t *p, struct cm_path *path)
{
	path->local_lid = get_be16(p);
	path->remote_lid = get_be16(p + 2);
	memcpy(path->local_gid.b, p + 4, 16);
	memcpy(path->remote_gid.b, p + 20, 16);
	path->flow_label = get_be24(p + 36) >> 4;
	path->rate = p[39] & 0x3f;
	path->traffic_class = p[40];
	path->hop_limit = p[41];
	path->sl = p[42] >> 4;
	path->subnet_local = p[42] >> 3 & 1;
	path->ack_timeout = p[43] >> 3;
}

static void build_path(uint8_t *p, const struct cm_path *path)
{
	put_be16(p, path->local_lid);
	put_be16(p + 2, path->remote_lid);
	memcpy(p + 4, path->local_gid.b, 16);
	memcpy(p + 20, path->remote_gid.b, 16);
	put_be24(p + 36, (path->flow_label & 0xfffff) << 4);
	p[39] = path->rate & 0x3f;
	p[40] = path->traffic_class;
	p[41] = path->hop_limit;
	p[42] = (uint8_t)(path->sl << 4 | path->subnet_local << 3);
	p[43] = (uint8_t)(path->ack_timeout << 3);
}

/* Transport types beyond RC, UC, RD are told apart by three bits of another byte. */
static enum cm_transport parse_transport(uint8_t type, uint8_t extended)
{
	if (type == CM_TRANSPORT_XRC && (extended & 7) != 1)
		return CM_TRANSPORT_RD; /* as unusable as an unknown one */
	return (enum cm_transport)type;
}

static void parse_req(const uint8_t *p, struct cm_req *r)
{
	r->ece_vendor = get_be24(p + 5);
	r->service_id = get_be64(p + 8);
	memcpy(&r->ca_guid_be, p + 16, 8);
	r->qkey = get_be32(p + 28);
	r->qpn = get_be24(p + 32);
	r->responder_resources = p[35];
	r->initiator_depth = p[39];
	r->remote_cm_timeout = p[43] >> 3;
	r->transport = parse_transport(p[43] >> 1 & 3, p[51]);
	r->flow_control = p[43] & 1;
	r->psn = get_be24(p + 44);
	r->local_cm_timeout = p[47] >> 3;
	r->retry_count = p[47] & 7;
	r->pkey = get_be16(p + 48);
	r->mtu = p[50] >> 4;
	r->rnr_retry = p[50] & 7;
	r->max_cm_retries = p[51] >> 4;
	r->srq = p[51] >> 3 & 1;
	parse_path(p + 52, &r->path);
}

static void build_req(uint8_t *p, const struct cm_req *r)
{
	put_be24(p + 5, r->ece_vendor);
	put_be64(p + 8, r->service_id);
	memcpy(p + 16, &r->ca_guid_be, 8);
	put_be32(p + 28, r->qkey);
	put_be24(p + 32, r->qpn);
	p[35] = r->responder_resources;
	p[39] = r->initiator_depth;
	p[43] =
	    (uint8_t)(r->remote_cm_timeout << 3 | r->transport << 1 | r->flow_control);
	put_be24(p + 44, r->psn);
	p[47] = (uint8_t)(r->local_cm_timeout << 3 | (r->retry_count & 7));
	put_be16(p + 48, r->pkey);
	p[50] = (uint8_t)(r->mtu << 4 | (r->rnr_retry & 7));
	p[51] = (uint8_t)(r->max_cm_retries << 4 | r->srq << 3 |
			  (r->transport == CM_TRANSPORT_XRC ? 1 : 0));
	build_path(p + 52, &r->path);
}

/* --- REP (table 110); the ECE vendor is spread over the reserved bytes ------------ */

static void parse_rep(const uint8_t *p, struct cm_rep *r)
{
	r->qkey = get_be32(p + 8);
	r->qpn = get_be24(p + 12);
	r->eecn = get_be24(p + 16);
	r->psn = get_be24(p + 20);
	r->ece_vendor = (uint32_t)p[15] << 16 | (uint32_t)p[19] << 8 | p[23];
	r->responder_resources = p[24];
	r->initiator_depth = p[25];
	r->ack_delay = p[26] >> 3;
	r->failover = p[26] >> 1 & 3;
	r->flow_control = p[26] & 1;
	r->rnr_retry = p[27] >> 5;
	r->srq = p[27] >> 4 & 1;
	memcpy(&r->ca_guid_be, p + 28, 8);
}

static void build_rep(uint8_t *p, const struct cm_rep *r)
{
	put_be32(p + 8, r->qkey);
	put_be24(p + 12, r->qpn);
	p[15] = (uint8_t)(r->ece_vendor >> 16);
	put_be24(p + 16, r->eecn);
	p[19] = (uint8_t)(r->ece_vendor >> 8);
	put_be24(p + 20, r->psn);
	p[23] = (uint8_t)r->ece_vendor;
	p[24] = r->responder_resources;
	p[25] = r->initiator_depth;
	p[26] = (uint8_t)(r->ack_delay << 3 | r->failover << 1 | r->flow_control);
	p[27] = (uint8_t)(r->rnr_retry << 5 | r->srq << 4);
	memcpy(p + 28, &r->ca_guid_be, 8);
}

/* --- the small ones --------------------------------------------------------------- */

static void parse_rej(const uint8_t *p, struct cm_rej *r)
{
	r->answered = (enum cm_answered)(p[8] >> 6);
	r->ari_len = p[9] >> 1;
	if (r->ari_len > CM_REJ_ARI_LEN)
		r->ari_len = CM_REJ_ARI_LEN;
	r->reason = get_be16(p + 10);
	memcpy(r->ari, p + 12, CM_REJ_ARI_LEN);
}

static void build_rej(uint8_t *p, const struct cm_rej *r)
{
	p[8] = (uint8_t)(r->answered << 6);
	p[9] = (uint8_t)(r->ari_len << 1);
	put_be16(p + 10, r->reason);
	memcpy(p + 12, r->ari, r->ari_len);
}

static void parse_sidr_rep(const uint8_t *p, struct cm_sidr_rep *r)
{
	r->status = p[4];
	r->qpn = get_be24(p + 8);
	r->service_id = get_be64(p + 12);
	r->qkey = get_be32(p + 20);
}

static void build_sidr_rep(uint8_t *p, const struct cm_sidr_rep *r)
{
	p[4] = r->status;
	put_be24(p + 8, r->qpn);
	put_be64(p + 12, r->service_id);
	put_be32(p + 20, r->qkey);
}

/* --- whole messages --------------------------------------------------------------- */

static void parse_body(const uint8_t *p, struct cm_msg *m)
{
	switch (m->attr) {
	case CM_REQ:
		parse_req(p, &m->req);
		break;
	case CM_REP:
		parse_rep(p, &m->rep);
		break;
	case CM_REJ:
		parse_rej(p, &m->rej);
		break;
	case CM_MRA:
		m->mra.answered = (enum cm_answered)(p[8] >> 6);
		m->mra.service_timeout = p[9] >> 3;
		break;
	case CM_DREQ:
		m->dreq.remote_qpn = get_be24(p + 8);
		break;
	case CM_SIDR_REQ:
		m->sidr_req.pkey = get_be16(p + 4);
		m->sidr_req.service_id = get_be64(p + 8);
		break;
	case CM_SIDR_REP:
		parse_sidr_rep(p, &m->sidr_rep);
		break;
	case CM_RTU:
	case CM_DREP:
		break;
	}
}

static void build_body(uint8_t *p, const struct cm_msg *m)
{
	switch (m->attr) {
	case CM_REQ:
		build_req(p, &m->req);
		break;
	case CM_REP:
		build_rep(p, &m->rep);
		break;
	case CM_REJ:
		build_rej(p, &m->rej);
		break;
	case CM_MRA:
		p[8] = (uint8_t)(m->mra.answered << 6);
		p[9] = (uint8_t)(m->mra.service_timeout << 3);
		break;
	case CM_DREQ:
		put_be24(p + 8, m->dreq.remote_qpn);
		break;
	case CM_SIDR_REQ:
		put_be16(p + 4, m->sidr_req.pkey);
		put_be64(p + 8, m->sidr_req.service_id);
		break;
	case CM_SIDR_REP:
		build_sidr_rep(p, &m->sidr_rep);
		break;
	case CM_RTU:
	case CM_DREP:
		break;
	}
}

bool cm_mad_peek(const uint8_t *mad, struct cm_mad_head *h)
{
	if (mad[1] != CM_MAD_CLASS)
		return false;
	h->attr = get_be16(mad + 16);
	h->local_id = get_be32(mad + HDR_LEN);
	h->remote_id = get_be32(mad + HDR_LEN + 4);
	h->reason = h->attr == CM_REJ ? get_be16(mad + HDR_LEN + 10) : 0;
	h->port = h->attr == CM_REQ || h->attr == CM_SIDR_REQ
		      ? (uint16_t)get_be64(mad + HDR_LEN + 8)
		      : 0;
	return true;
}

enum cm_attr cm_mad_attr(const uint8_t mad[CM_MAD_LEN])
{
	return (enum cm_attr)get_be16(mad + 16);
}

int cm_mad_parse(const uint8_t *mad, uint32_t len, struct cm_msg *m)
{
	const struct layout *l;

	if (len < CM_MAD_LEN || mad[0] != BASE_VERSION || mad[1] != CM_MAD_CLASS ||
	    mad[2] != CLASS_VERSION || mad[3] != METHOD_SEND)
		return -EPROTO;
	l = layout_of(get_be16(mad + 16));
	if (!l)
		return -EPROTO;
	memset(m, 0, sizeof(*m));
	m->attr = cm_mad_attr(mad);
	m->tid = get_be64(mad + 8);
	m->ece = get_be32(mad + 20);
	m->local_id = get_be32(mad + HDR_LEN);
	if (l->has_remote_id)
		m->remote_id = get_be32(mad + HDR_LEN + 4);
	parse_body(mad + HDR_LEN, m);
	memcpy(m->priv, mad + l->priv, l->priv_len);
	return 0;
}

void cm_mad_build(uint8_t mad[CM_MAD_LEN], const struct cm_msg *m)
{
	const struct layout *l = layout_of(m->attr);

	memset(mad, 0, CM_MAD_LEN);
	mad[0] = BASE_VERSION;
	mad[1] = CM_MAD_CLASS;
	mad[2] = CLASS_VERSION;
	mad[3] = METHOD_SEND;
	put_be64(mad + 8, m->tid);
	put_be16(mad + 16, (uint16_t)m->attr);
	put_be32(mad + 20, m->ece);
	put_be32(mad + HDR_LEN, m->local_id);
	if (l->has_remote_id)
		put_be32(mad + HDR_LEN + 4, m->remote_id);
	build_body(mad + HDR_LEN, m);
	memcpy(mad + l->priv, m->priv, l->priv_len);
}

/* --- annex A11 -------------------------------------------------------------------- */

/* An IPv4 address is in the last four of 16 bytes, the others are 0. */
static void ip_parse(const uint8_t *p, uint8_t version, struct net_ip *ip)
{
	memcpy(ip->b, p, 16);
	if (version == 4) {
		memset(ip->b, 0, 12);
		ip->b[10] = ip->b[11] = 0xff;
	}
}

static void ip_build(uint8_t *p, uint8_t version, const struct net_ip *ip)
{
	memcpy(p, ip->b, 16);
	if (version == 4)
		memset(p, 0, 12);
}

int cm_ip_hdr_parse(const uint8_t *priv, struct cm_ip_hdr *h)
{
	if (priv[0] != 0)
		return -EPROTO;
	h->version = priv[1] >> 4;
	if (h->version != 4 && h->version != 6)
		return -EPROTO;
	h->port = get_be16(priv + 2);
	ip_parse(priv + 4, h->version, &h->src);
	ip_parse(priv + 20, h->version, &h->dst);
	return 0;
}

void cm_ip_hdr_build(uint8_t *priv, const struct cm_ip_hdr *h)
{
	priv[0] = 0;
	priv[1] = (uint8_t)(h->version << 4);
	put_be16(priv + 2, h->port);
	ip_build(priv + 4, h->version, &h->src);
	ip_build(priv + 20, h->version, &h->dst);
}
