/*
 * port_tx.c - the way out: routes, batches, ICRC.
 *
 * Theory of operation
 *
 * A packet is written by its owner at the end of an arena, and appended to the batch
 * before it when that goes to the same place and the kernel can cut both out of one
 * buffer (UDP_SEGMENT): equal sizes, the last one may be shorter. A batch that is full is
 * sent at once, so that the receiver works while the next one is made; all others wait
 * for net_tx_flush(), which takes them along in one system call. Nothing is allocated,
 * and a packet is touched once more only, for its ICRC, while it is in the cache.
 *
 * The ICRC and the IPv4 identification. The ICRC covers the identification, which the
 * kernel writes. It is 0 for a datagram of ours (see sock.c). For a batch the kernel
 * makes one large packet with identification 0 and segments it where the path ends that
 * can carry it: in a NIC, in front of a NIC that cannot, or in front of a socket that did
 * not ask for UDP_GRO (such as rdma_rxe's). Whoever segments numbers the packets 0, 1, 2
 * ... from that of the large packet (inet_gso_segment() in Linux; tests/net/test_wire.c
 * looks at it). So the k-th packet of a batch gets the ICRC of identification k. A
 * receiver that sees real packets finds it right; one that gets the large packet, which
 * is a socket with UDP_GRO, has no identifications to see, and accepts any.
 *
 * Where a packet goes: to an address of this host, right to the port of the process that
 * owns the QPN, by a lane if there is one (port_lane.c); to QP1 there, to the process that
 * the owner's CM names; else, and when nobody is there, to ROCE_UDP_PORT.
 */
#include <errno.h>

#include "net/ip_header.h"
#include "net/port_internal.h"

#define V4_HEADERS (IP4_HDR_LEN + UDP_HDR_LEN)
#define V6_HEADERS (IP6_HDR_LEN + UDP_HDR_LEN)

/* --- routes ----------------------------------------------------------------------- */

/* IPv4 has none, whatever the address handle says */
static uint32_t flow_of(const struct net_path *path)
{
	return net_ip_is_v4(&path->dst) ? 0 : path->flow & IP6_FLOW_MAX;
}

/* All of a path but the source port, which is ours to choose */
static inline bool same_path(const struct net_path *a, const struct net_path *b)
{
	return memcmp(&a->src, &b->src, sizeof(a->src)) == 0 &&
	       memcmp(&a->dst, &b->dst, sizeof(a->dst)) == 0 && a->tclass == b->tclass &&
	       a->ttl == b->ttl && (a->flow == b->flow || flow_of(a) == flow_of(b));
}

static struct port_route *route_slot(struct net_port *p, const struct net_path *path)
{
	uint32_t h = get_be32(path->dst.b + 12) * 0x9e3779b1u;

	h ^= (get_be32(path->src.b + 12) + path->tclass + path->ttl + flow_of(path)) *
	     0x85ebca6bu;
	return &p->routes[(h >> 16) % TX_ROUTES];
}

static struct port_route *route_find(struct net_port *p, const struct net_path *path)
{
	struct port_route *r = route_slot(p, path);

	if (r->generation == p->generation && same_path(&r->path, path))
		return r;
	if (p->tx.open_route == r)
		p->tx.open = false;
	r->path = *path;
	r->path.sport = p->port_num;
	r->path.flow = flow_of(path);
	r->addr = port_addr_find(p, &path->src);
	r->local = hostaddr_has(&p->host, &path->dst);
	r->generation = p->generation;
	r->crc_len = 0;
	if (net_ip_is_v4(&path->src) != net_ip_is_v4(&path->dst))
		r->addr = NULL;
	net_sa_make(&r->dst, &path->dst, ROCE_UDP_PORT, r->addr ? r->addr->ifindex : 0);
	return r;
}

/* --- batches ---------------------------------------------------------------------- */

static void tell_too_large(struct net_port *p, const struct net_batch *b)
{
	struct net_ip dst = {.b = {[10] = 0xff, [11] = 0xff}};

	if (b->sk->v4)
		memcpy(dst.b + 12, &b->dst.in.sin_addr, 4);
	else
		memcpy(dst.b, &b->dst.in6.sin6_addr, 16);
	if (!p->ops->too_large || net_ip_eq(&dst, &p->tx.too_large))
		return;
	p->tx.too_large = dst;
	p->ops->too_large(p->arg, &dst, b->len + (b->sk->v4 ? V4_HEADERS : V6_HEADERS));
}

static void account(struct net_port *p, const struct net_batch *b)
{
	if (b->err) {
		p->stats->tx_dropped += b->n;
		if (b->err == -EMSGSIZE)
			tell_too_large(p, b);
	} else if (!b->encap) { /* else they are others', handed on */
		p->stats->tx_pkts += b->n;
		p->stats->tx_bytes += b->len;
	}
}

/*
 * While any process of the host has a flow label for itself alone, the kernel lets nobody use
 * another one that he has not leased, too (IPV6_FLOWLABEL_MGR): then without.
 */
static void send_without_flow(struct net_port *p, struct net_batch *b)
{
	if (b->err != -EINVAL || !b->flow)
		return;
	b->flow = 0;
	p->be_ops->send(p->be, b, 1);
	b->sk->no_flow = !b->err;
}

static bool gso_refused(const struct net_batch *b)
{
	return b->n > 1 && (b->err == -EIO || b->err == -EINVAL || b->err == -EMSGSIZE ||
			    b->err == -EOPNOTSUPP || b->err == -ENOPROTOOPT);
}

/* Packet @k of a batch was made for identification k, and now is sent alone, with 0 */
static void fix_icrc(const struct net_port *p, const struct net_batch *b, uint8_t *data,
		     uint32_t len, uint16_t k)
{
	uint8_t *icrc = data + len - ROCE_ICRC_LEN;

	len -= ROCE_ICRC_LEN;
	if (b->sk->v4 && !b->encap)
		icrc_store(icrc, icrc_load(icrc) ^
				     icrc_id_delta(k, port_flush_linux(p, data) ? 2 * len
										: len));
}

/*
 * The kernel does not segment here (no checksum offload on that path, or too old): send
 * packet by packet, and if that works do so from now on.
 */
static void send_singly(struct net_port *p, struct net_batch *b)
{
	struct net_batch one;
	uint16_t k;

	for (k = 0; k < b->n; k++) {
		one = *b;
		one.data = b->data + (uint32_t)k * b->seg;
		one.len = k + 1 < b->n ? b->seg : b->len - (uint32_t)k * b->seg;
		one.n = 1;
		one.err = -EAGAIN;
		fix_icrc(p, b, one.data, one.len, k);
		p->be_ops->send(p->be, &one, 1);
		account(p, &one);
		if (!one.err)
			b->sk->no_gso = true;
	}
}

int port_tx_send(struct net_port *p)
{
	struct port_tx *tx = &p->tx;
	unsigned int done, i;

	tx->open = false;
	if (!tx->n)
		return 0;
	done = p->be_ops->send(p->be, tx->batch, tx->n);
	for (i = 0; i < done; i++) {
		send_without_flow(p, &tx->batch[i]);
		if (gso_refused(&tx->batch[i]))
			send_singly(p, &tx->batch[i]);
		else
			account(p, &tx->batch[i]);
	}
	tx->n -= done;
	if (!tx->n) {
		tx->end = 0;
		return 0;
	}
	memmove(tx->batch, tx->batch + done, tx->n * sizeof(tx->batch[0]));
	return -EAGAIN;
}

void port_tx_forget(struct net_port *p, const struct net_sock *sk)
{
	struct port_tx *tx = &p->tx;
	unsigned int i, kept = 0;

	port_tx_send(p);
	for (i = 0; i < tx->n; i++) {
		if (tx->batch[i].sk == sk)
			p->stats->tx_dropped += tx->batch[i].n;
		else
			tx->batch[kept++] = tx->batch[i];
	}
	tx->n = kept;
	if (!kept)
		tx->end = 0;
}

static bool fits(const struct port_tx *tx, uint32_t bytes)
{
	return tx->n < NET_BATCHES_MAX && tx->end + bytes <= TX_ARENA;
}

/* Room at the end of the arena for a packet of @bytes, which may begin a batch */
static bool make_room(struct net_port *p, uint32_t bytes)
{
	if (fits(&p->tx, bytes))
		return true;
	port_tx_send(p);
	return fits(&p->tx, bytes);
}

static struct net_batch *new_batch(struct net_port *p, struct port_route *r,
				   uint16_t dport, uint32_t bytes)
{
	struct port_tx *tx = &p->tx;
	struct net_batch *b = &tx->batch[tx->n++];

	b->sk = &r->addr->own;
	b->dst = r->dst;
	if (r->dst.sa.sa_family == AF_INET)
		b->dst.in.sin_port = htons(dport);
	else
		b->dst.in6.sin6_port = htons(dport);
	b->data = tx->arena + tx->end;
	b->len = 0;
	b->seg = (uint16_t)bytes;
	b->n = 0;
	b->tclass = r->path.tclass;
	b->ttl = r->path.ttl;
	b->flow = b->sk->no_flow ? 0 : r->path.flow;
	b->encap = false;
	tx->open = !b->sk->no_gso;
	tx->open_route = r;
	tx->open_port = dport;
	return b;
}

/* The batch that the packet of @bytes at the end of the arena belongs to */
static struct net_batch *batch_for(struct net_port *p, struct port_route *r,
				   uint16_t dport, uint32_t bytes, bool encap)
{
	struct port_tx *tx = &p->tx;
	struct net_batch *b;

	if (tx->open && tx->open_route == r && tx->open_port == dport) {
		b = &tx->batch[tx->n - 1];
		if (bytes <= b->seg && b->encap == encap &&
		    b->len + bytes <= NET_DGRAM_MAX)
			return b;
	}
	b = new_batch(p, r, dport, bytes);
	b->encap = encap;
	return b;
}

/* The packet is in @b now: is it full, or has it got its last packet? */
static void batch_added(struct net_port *p, struct net_batch *b, uint32_t bytes)
{
	b->n++;
	b->len += bytes;
	p->tx.end += bytes;
	if (b->n == NET_BATCH_SEGS || b->len + b->seg > NET_DGRAM_MAX)
		port_tx_send(p);
	else if (bytes < b->seg)
		p->tx.open = false;
}

static uint32_t icrc_of(struct net_port *p, struct port_route *r, uint8_t *data,
			uint32_t len, unsigned int id)
{
	uint32_t icrc;

	if (r->crc_len != len) {
		r->crc_prefix = icrc_prefix(&r->path, len);
		r->crc_len = len;
	}
	icrc = icrc_finish(
	    r->addr->own.v4 ? r->crc_prefix ^ p->id_crc[id] : r->crc_prefix, data, len);
	return roce_is_flush(data[0]) ? port_flush_icrc(p, r, icrc, data, len) : icrc;
}

/* The packet of @len bytes at the end of the arena goes to @dport */
static void commit(struct net_port *p, struct port_route *r, uint16_t dport, uint32_t len)
{
	uint8_t *data = p->tx.arena + p->tx.end;
	struct net_batch *b = batch_for(p, r, dport, len + ROCE_ICRC_LEN, false);

	icrc_store(data + len, icrc_of(p, r, data, len, b->n));
	if (p->tx.flip >= 0)
		data[p->tx.flip / 8] ^= (uint8_t)(1 << p->tx.flip % 8);
	if (p->pcap)
		pcap_packet(p->pcap, &r->path, b->n, data, len + ROCE_ICRC_LEN);
	batch_added(p, b, len + ROCE_ICRC_LEN);
}

/* The same for a packet that is somewhere else */
static void commit_copy(struct net_port *p, struct port_route *r, uint16_t dport,
			const uint8_t *data, uint32_t len)
{
	if (!make_room(p, len + ROCE_ICRC_LEN)) {
		p->stats->tx_dropped++;
		return;
	}
	memcpy(p->tx.arena + p->tx.end, data, len);
	commit(p, r, dport, len);
}

/* --- where to --------------------------------------------------------------------- */

static uint16_t slot_port(struct net_port *p, unsigned int slot)
{
	uint16_t port = table_port(p->table, slot, p->now);

	return port ? port : ROCE_UDP_PORT;
}

static void gsi_to_all(struct net_port *p, struct port_route *r, uint32_t len)
{
	uint8_t copy[NET_PKT_MAX];
	unsigned int slot;
	uint16_t port;

	memcpy(copy, p->tx.arena + p->tx.end, len);
	for (slot = 1; slot < TABLE_SLOTS; slot++) {
		port = table_port(p->table, slot, p->now);
		/* one copy for a process, whatever the number of its slots */
		if (port && (port != p->port_num || slot == p->slot))
			commit_copy(p, r, port, copy, len);
	}
}

/* A MAD to an address of this host: there are as many QP1 as processes */
static void put_gsi(struct net_port *p, struct port_route *r, uint32_t len)
{
	const uint8_t *mad = p->tx.arena + p->tx.end + ROCE_MAD_AT;
	int slot = NET_GSI_ALL;

	if (p->gsi && len > ROCE_MAD_AT)
		slot = p->gsi(p->gsi_arg, mad, len - ROCE_MAD_AT);
	if (slot == NET_GSI_ALL)
		gsi_to_all(p, r, len);
	else if (slot != NET_GSI_OWN)
		commit(p, r, slot_port(p, (unsigned int)slot), len);
	else /* own, unless the address is another user's: then it is for that one's CM */
		commit(p, r,
		       net_port_has_roce_port(p, &r->path.dst) ? p->port_num
							       : ROCE_UDP_PORT,
		       len);
}

static void put(struct net_port *p, struct port_route *r, uint32_t len)
{
	uint32_t qpn = get_be32(p->tx.arena + p->tx.end + 4) & ROCE_QPN_MASK;

	if (!r->local)
		commit(p, r, ROCE_UDP_PORT, len);
	else if (qpn == ROCE_QPN_GSI)
		put_gsi(p, r, len);
	else
		commit(p, r, slot_port(p, qpn >> TABLE_SLOT_SHIFT), len);
}

/* --- entry points ----------------------------------------------------------------- */

/*
 * The packets of a burst mostly go one way: it is looked for once. What a flush, or the end of a lane,
 * makes untrue is forgotten then.
 */
static bool goes_where_the_last_went(const struct net_port *p,
				     const struct net_path *path, uint32_t dqpn)
{
	const struct port_tx *tx = &p->tx;

	return tx->known && tx->slot == dqpn >> TABLE_SLOT_SHIFT &&
	       tx->route->generation == p->generation &&
	       same_path(&tx->route->path, path);
}

static void find_way(struct net_port *p, const struct net_path *path, uint32_t dqpn)
{
	struct port_tx *tx = &p->tx;

	tx->route = route_find(p, path);
	tx->lane = port_lane_find(p, tx->route, dqpn);
	/* who counts the packets to a process wants to see each */
	tx->known = tx->lane || !p->lanes.on || !tx->route->local;
	tx->slot = dqpn >> TABLE_SLOT_SHIFT;
}

uint8_t *net_tx_get(struct net_port *p, const struct net_path *path, uint32_t dqpn,
		    uint32_t len)
{
	struct port_tx *tx = &p->tx;
	bool closed;

	if (len < ROCE_BTH_LEN || len > NET_PKT_MAX)
		return NULL;
	if (!goes_where_the_last_went(p, path, dqpn))
		find_way(p, path, dqpn);
	tx->len = len;
	if (tx->lane) {
		tx->data = port_lane_get(p, tx->lane, len, &closed);
		if (!closed)
			return tx->data;
		tx->lane = NULL;
		tx->known = false;
	}
	if (!make_room(p, len + ROCE_ICRC_LEN))
		return NULL;
	tx->data = tx->aside ? tx->aside : tx->arena + tx->end;
	return tx->data;
}

static void put_lane(struct net_port *p)
{
	struct port_tx *tx = &p->tx;

	icrc_store(tx->data + tx->len, icrc_of(p, tx->route, tx->data, tx->len, 0));
	port_lane_put(p, tx->lane, tx->route, tx->len);
}

void net_tx_put(struct net_port *p)
{
	struct impair_pkt pkt;

	if (p->tx.lane) {
		put_lane(p);
	} else if (!p->tx.route->addr) {
		p->stats->tx_dropped++;
	} else if (p->tx.aside) {
		pkt = (struct impair_pkt){
		    .path = p->tx.route->path, .data = p->tx.aside, .len = p->tx.len};
		port_set_now(p);
		impair_feed(p->impair, IMPAIR_TX, p->now, &pkt);
		p->stats->tx_impaired = impair_lost(p->impair, IMPAIR_TX);
	} else {
		put(p, p->tx.route, p->tx.len);
	}
}

void port_tx_impaired(struct net_port *p, const struct impair_pkt *pkt)
{
	struct port_route *r = route_find(p, &pkt->path);

	/* the address may have gone while the packet waited */
	if (!r->addr || !make_room(p, pkt->len + ROCE_ICRC_LEN)) {
		p->stats->tx_dropped++;
		return;
	}
	memcpy(p->tx.arena + p->tx.end, pkt->data, pkt->len);
	p->tx.flip = pkt->flip;
	put(p, r, pkt->len);
	p->tx.flip = -1;
}

int net_tx_flush(struct net_port *p)
{
	int ret = port_lane_flush(p), err = 0;

	p->tx.known = false;
	if (p->tx.n) {
		port_set_now(p);
		err = port_tx_send(p);
	}
	return ret ? ret : err;
}

void port_tx_forward(struct net_port *p, struct port_addr *addr, unsigned int slot,
		     const struct net_path *path, const uint8_t *data, uint32_t len)
{
	struct net_path to = {.src = addr->ip, .dst = addr->ip};
	uint16_t port = table_port(p->table, slot, p->now);
	uint32_t bytes = SWITCH_ENCAP_LEN + len;
	struct port_route *r;
	uint8_t *at;

	if (!port || !make_room(p, bytes)) {
		p->stats->tx_dropped++;
		return;
	}
	r = route_find(p, &to);
	at = p->tx.arena + p->tx.end;
	switch_encap_write(at, p->slot, path);
	memcpy(at + SWITCH_ENCAP_LEN, data, len);
	batch_added(p, batch_for(p, r, port, bytes, true), bytes);
	p->stats->rx_forwarded++;
}
