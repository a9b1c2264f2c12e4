/*
 * port_rx.c - the way in: take datagrams apart, find the owner, check the ICRC.
 *
 * What comes to a port of this process is for this process, and is either a packet or a
 * packet behind the switch's header. What comes to ROCE_UDP_PORT may be another process's
 * (switch.h). The owner gets a pointer into the receive buffer; nothing is copied.
 */
#include "net/bytes.h"
#include "net/port_internal.h"

#define MIN_LEN (ROCE_BTH_LEN + ROCE_ICRC_LEN)

/* struct seg - one packet with its ICRC; @k: its place in the datagram */
struct seg {
	uint8_t *data;
	uint32_t len;
	unsigned int k;
};

static uint32_t id_factor(struct net_port *p, uint32_t len)
{
	if (!p->id_factor[len])
		p->id_factor[len] = icrc_id_factor(len);
	return p->id_factor[len];
}

/*
 * The IPv4 identification that makes the ICRC right, -1 if there is none. The sender
 * numbered its packets as port_tx.c does, or is unknown: icrc.c
 */
static int32_t icrc_ip_id(struct port_rx *rx, const struct seg *s)
{
	uint32_t len = s->len - ROCE_ICRC_LEN, prefix, icrc, diff;
	bool v4 = net_ip_is_v4(&rx->path.dst);
	unsigned int k = v4 && s->k < ICRC_MAX_ID ? s->k : 0;
	int32_t off;

	if (rx->len != s->len) {
		rx->prefix = icrc_prefix(&rx->path, len);
		rx->len = s->len;
	}
	prefix = k ? rx->prefix ^ rx->p->id_crc[k] : rx->prefix;
	icrc = icrc_finish(prefix, s->data, len);
	diff = icrc ^ icrc_load(s->data + len);
	if (!diff)
		return (int32_t)k;
	off = v4 ? icrc_find_id(diff, id_factor(rx->p, len)) : -1;
	if (off < 0 && roce_is_flush(s->data[0]))
		off = port_flush_ip_id(rx, icrc, s->data, len);
	return off < 0 ? -1 : (int32_t)(k ^ (unsigned int)off);
}

static void finish(struct port_rx *rx, const struct seg *s)
{
	struct net_rx pkt = {.path = &rx->path,
			     .local = &rx->sk->local,
			     .data = s->data,
			     .len = s->len - ROCE_ICRC_LEN};
	struct net_port *p = rx->p;
	int32_t id = icrc_ip_id(rx, s);

	if (p->pcap)
		pcap_packet(p->pcap, &rx->path, id < 0 ? 0 : (uint16_t)id, s->data,
			    s->len);
	if (id < 0) {
		p->stats->rx_bad_icrc++;
		return;
	}
	p->stats->rx_pkts++;
	p->stats->rx_bytes += s->len;
	p->rx_count++;
	p->ops->rx(p->arg, &pkt);
}

/* A packet for this process */
static void deliver(struct port_rx *rx, const struct seg *s)
{
	struct impair_pkt pkt;

	if (!impair_has(rx->p->impair, IMPAIR_RX)) {
		finish(rx, s);
		return;
	}
	pkt = (struct impair_pkt){
	    .path = rx->path, .local = rx->sk->local, .data = s->data, .len = s->len};
	impair_feed(rx->p->impair, IMPAIR_RX, rx->p->now, &pkt);
	rx->p->stats->rx_impaired = impair_lost(rx->p->impair, IMPAIR_RX);
}

void port_rx_impaired(struct net_port *p, const struct impair_pkt *pkt)
{
	const struct net_sock sk = {.local = pkt->local};
	struct port_rx rx = {.p = p, .sk = &sk, .path = pkt->path};
	struct seg s = {.data = pkt->data, .len = pkt->len};

	if (pkt->flip >= 0)
		s.data[pkt->flip / 8] ^= (uint8_t)(1 << pkt->flip % 8);
	finish(&rx, &s);
}

static uint32_t qpn_of(const struct seg *s)
{
	return get_be32(s->data + 4) & ROCE_QPN_MASK;
}

static void rx_own(struct port_rx *rx, const struct seg *s)
{
	uint32_t qpn = qpn_of(s);

	if (qpn == ROCE_QPN_GSI || table_is_own(rx->p->table, qpn >> TABLE_SLOT_SHIFT))
		deliver(rx, s);
	else
		rx->p->stats->rx_no_owner++;
}

void port_rx_packet(struct port_rx *rx, uint8_t *data, uint32_t len)
{
	struct seg s = {.data = data, .len = len};

	if (len < MIN_LEN || len > NET_PKT_MAX + ROCE_ICRC_LEN)
		rx->p->stats->rx_malformed++;
	else
		rx_own(rx, &s);
}

/*
 * A packet that the switch sent on; only a process of this user on this address is
 * believed
 */
static void rx_encap(struct port_rx *rx, const struct seg *s)
{
	struct net_port *p = rx->p;
	struct switch_encap e;
	struct port_rx inner = {.p = p, .sk = rx->sk};
	struct seg is = {s->data + SWITCH_ENCAP_LEN, s->len - SWITCH_ENCAP_LEN, 0};

	if (!switch_encap_read(s->data, s->len, &e) ||
	    s->len < SWITCH_ENCAP_LEN + MIN_LEN ||
	    !net_ip_eq(&rx->path.src, &rx->sk->ip) ||
	    table_port(p->table, e.slot, p->now) != rx->path.sport) {
		p->stats->rx_malformed++;
		return;
	}
	inner.path = e.path;
	inner.path.dst = rx->path.dst;
	rx_own(&inner, &is);
}

/* --- the switch ------------------------------------------------------------------- */

static void forward(struct port_rx *rx, const struct seg *s, unsigned int slot)
{
	struct port_addr *addr = port_addr_find(rx->p, &rx->sk->ip);

	port_tx_forward(rx->p, addr, slot, &rx->path, s->data, s->len);
}

static void forward_to_all(struct port_rx *rx, const struct seg *s)
{
	unsigned int slot;

	for (slot = 1; slot < TABLE_SLOTS; slot++)
		if (!table_is_own(rx->p->table, slot) &&
		    table_port(rx->p->table, slot, rx->p->now))
			forward(rx, s, slot);
}

static void rx_gsi(struct port_rx *rx, const struct seg *s)
{
	struct net_port *p = rx->p;
	int slot = NET_GSI_ALL;

	if (p->gsi && s->len > ROCE_MAD_AT + ROCE_ICRC_LEN)
		slot = p->gsi(p->gsi_arg, s->data + ROCE_MAD_AT,
			      s->len - ROCE_MAD_AT - ROCE_ICRC_LEN);
	if (slot == NET_GSI_ALL)
		forward_to_all(rx, s);
	if (slot == NET_GSI_ALL || slot == NET_GSI_OWN ||
	    table_is_own(p->table, (unsigned int)slot))
		deliver(rx, s);
	else
		forward(rx, s, (unsigned int)slot);
}

static void rx_roce(struct port_rx *rx, const struct seg *s)
{
	uint32_t qpn = qpn_of(s);
	unsigned int slot = qpn >> TABLE_SLOT_SHIFT;

	if (qpn == ROCE_QPN_GSI)
		rx_gsi(rx, s);
	else if (table_is_own(rx->p->table, slot))
		deliver(rx, s);
	else if (table_port(rx->p->table, slot, rx->p->now))
		forward(rx, s, slot);
	else
		rx->p->stats->rx_no_owner++;
}

/* --- datagrams -------------------------------------------------------------------- */

static void rx_seg(struct port_rx *rx, const struct seg *s)
{
	if (s->len < MIN_LEN || s->len > SWITCH_ENCAP_LEN + NET_PKT_MAX + ROCE_ICRC_LEN) {
		rx->p->stats->rx_malformed++;
		return;
	}
	if (rx->sk->kind == NET_SOCK_OWN && s->data[0] == SWITCH_MAGIC)
		rx_encap(rx, s);
	else if (rx->sk->kind == NET_SOCK_OWN && s->data[0] == PORT_LANE_MAGIC)
		port_lane_ctl(rx, s->data, s->len);
	else if (s->len > NET_PKT_MAX + ROCE_ICRC_LEN)
		rx->p->stats->rx_malformed++;
	else if (rx->sk->kind == NET_SOCK_OWN)
		rx_own(rx, s);
	else if (rx->sk->kind == NET_SOCK_ROCE)
		rx_roce(rx, s);
	else if (qpn_of(s) == ROCE_QPN_MULTICAST)
		deliver(rx, s);
	else
		rx->p->stats->rx_no_owner++;
}

void port_rx(void *arg, struct net_sock *sk, const struct net_dgram *d)
{
	struct port_rx rx = {
	    .p = arg,
	    .sk = sk,
	    .path = {.src = d->src,
		     .dst = sk->ip,
		     .sport = d->sport,
		     .tclass = d->tclass,
		     .ttl = d->ttl,
		     .flow = d->flow},
	};
	struct seg s = {.data = d->data};
	uint32_t left;

	if (!d->len)
		rx.p->stats->rx_malformed++;
	for (left = d->len; left; left -= s.len, s.data += s.len, s.k++) {
		s.len = left < d->seg ? left : d->seg;
		rx_seg(&rx, &s);
	}
}
