/*
 * port_lane.c - which packets go by a lane instead of a socket, and how lanes come to be.
 *
 * Theory of operation
 *
 * Packets between two processes of one user on one host begin on the socket, as all do.
 * After OFFER_AFTER of them to one process the sender makes a lane, and tells where it is
 * in a datagram to that process's own port (an offer). The receiver believes what the
 * kernel says about the datagram, the address and the port it came from, and the table,
 * which knows whose port that is; so a packet from the lane has the same path as one from
 * the socket. If it can attach (same user, same PID namespace, no capture or impairment on
 * its side), the sender goes over to the lane, for good: until one of both is gone or the
 * address is.
 *
 * Order: what the sender had sent before is in the receiver's socket buffer when the first
 * packet of the lane is seen, so the receiver empties its sockets once at that moment.
 *
 * End: who closes a lane (its address goes, or nonsense was in it) says so in the lane. The
 * sender begins again with the socket; the receiver reads what is there, and lets go. Of
 * those who were killed the table knows. Lanes that are of no use any more are looked for
 * whenever one more is made.
 *
 * A packet on a lane is the packet that would be on the wire, headers and ICRC, and passes
 * the same checks. When the lane is full, the sender's transmit path is, too, as long as
 * the receiver goes on reading. A receiver that does not read (its process is stopped, or
 * waits for a processor) cannot hold up what is for others: the sender closes the lane,
 * says so in a datagram (the turn), and what follows waits in the receiver's socket, as much
 * as that holds. So a lane loses nothing that the socket would have kept. A receiver that
 * finds the turn, or a lane that was closed, reads the lane to its end before it reads the
 * socket any further.
 *
 * A receiver that is about to sleep arms its lanes; who then publishes sends a datagram
 * that says nothing (a kick), and which wakes it. The request holds for one kick, and
 * another thread may read that kick, and a lane's first packets, before the sleeper does.
 * So whoever polls while others sleep arms the lanes again, and kicks this process itself
 * if it leaves packets there.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "net/bytes.h"
#include "net/ip_header.h"
#include "net/lane.h"
#include "net/port_internal.h"

#define OFFER_AFTER   32	   /* packets */
#define OFFERS_MAX    4		   /* to one process: it may have been busy */
#define ANSWER_NS     250000000ull /* after that nobody will attach */
#define PATIENCE_NS   8000000ull /* a full lane that is not read for so long is given up */
#define PUBLISH_BYTES 16384	 /* the receiver begins while the sender goes on */
#define CONSUME_PKTS  8		 /* how often the sender is told of room */

#define POLL_PKTS    8	 /* of one lane in one poll: acknowledges must not wait for all */
#define LANES_MAX    256 /* that a process attaches to */
#define SOCKET_POLLS 8	 /* polls per look at the sockets, while packets come by lanes */
#define RECENT_POLLS 256 /* polls without such packets, after which that is over */

#define CTL_LEN	  32
#define CTL_OFFER 1
#define CTL_KICK  2
#define CTL_TURN  3

enum lane_state {
	LANE_COUNTING, /* not worth it yet */
	LANE_OFFERED,
	LANE_OPEN,
	LANE_NONE, /* cannot be had */
};

/*
 * struct port_lane_tx - packets from @src to @dst for the process in @slot
 * @generation:	of the slot: the process
 * @count:	LANE_COUNTING: packets so far; @offers: to this process
 * @lane, @fd:	from LANE_OFFERED on; @fd -1 from LANE_OPEN on
 * @dirty:	to be published; @owed: a kick that the kernel did not take yet
 * @since:	LANE_OFFERED: when that was; LANE_OPEN: when it was found full, at @stuck
 */
struct port_lane_tx {
	struct port_lane_tx *next, *next_dirty;
	struct port_addr *addr;
	struct net_ip src, dst;
	unsigned int slot;
	uint32_t generation;
	uint16_t dport;
	enum lane_state state;
	unsigned int count, offers;
	struct lane *lane;
	int fd;
	uint64_t since, stuck;
	bool dirty, owed;
};

/*
 * struct port_lane_rx - packets from the process in @slot; rx.path is that of all
 * @settled:	what came by the socket before has been read
 */
struct port_lane_rx {
	struct port_lane_rx *next;
	struct lane *lane;
	struct port_rx rx;
	unsigned int slot;
	uint32_t generation;
	bool settled;
};

/* --- datagrams between ports ------------------------------------------------------ */

/* False: the kernel has no room just now. What it refuses for good is dealt with */
static bool send_ctl(struct net_port *p, struct port_addr *from, const struct net_ip *to,
		     uint16_t port, uint8_t *ctl)
{
	struct net_batch b = {.sk = &from->own, .data = ctl, .len = CTL_LEN};

	b.seg = CTL_LEN;
	b.n = 1;
	net_sa_make(&b.dst, to, port, from->ifindex);
	return p->be_ops->send(p->be, &b, 1) && b.err != -ENOBUFS && b.err != -ENOMEM;
}

static bool kick(struct net_port *p, struct port_addr *from, const struct net_ip *to,
		 uint16_t port)
{
	uint8_t ctl[CTL_LEN] = {PORT_LANE_MAGIC, CTL_KICK};

	return send_ctl(p, from, to, port, ctl);
}

/* --- the end of lanes ------------------------------------------------------------- */

/* A child of fork has copies: the parent goes on with them. */
static void close_lane(struct net_port *p, struct lane *l)
{
	if (p->lanes.forked)
		lane_abandon(l);
	else
		lane_close(l);
}

/* The lane's name is needed until somebody has attached */
static void close_name(struct port_lane_tx *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

static void close_tx(struct net_port *p, struct port_lane_tx *t)
{
	struct port_lane_tx **link;

	p->tx.known = false;
	for (link = &p->lanes.dirty; *link; link = &(*link)->next_dirty) {
		if (*link != t)
			continue;
		*link = t->next_dirty;
		break;
	}
	t->dirty = t->owed = false;
	if (t->lane)
		close_lane(p, t->lane);
	close_name(t);
	t->lane = NULL;
	t->state = LANE_COUNTING;
	t->count = 0;
}

/* Is it still the process that the lane goes to? */
static bool same_process(struct net_port *p, struct port_lane_tx *t)
{
	uint32_t generation = table_generation(p->table, t->slot);
	uint16_t port = table_port(p->table, t->slot, p->now);

	if (port && generation == t->generation)
		return true;
	close_tx(p, t);
	t->generation = generation;
	t->dport = port;
	t->offers = 0;
	return port;
}

/* True: nobody took the offer in time */
static bool expired(struct net_port *p, struct port_lane_tx *t)
{
	if (lane_attached(t->lane) || p->now - t->since <= ANSWER_NS)
		return false;
	close_tx(p, t);
	if (t->offers == OFFERS_MAX)
		t->state = LANE_NONE;
	return true;
}

/* Those to processes that are gone, and descriptors that nobody needs any more */
static void sweep_tx(struct net_port *p)
{
	struct port_lane_tx *t;
	unsigned int slot;

	for (slot = 0; slot < TABLE_SLOTS; slot++)
		for (t = p->lanes.tx[slot]; t; t = t->next)
			if (t->lane && same_process(p, t) && t->fd >= 0 &&
			    !expired(p, t) && lane_attached(t->lane))
				close_name(t);
}

static void close_rx(struct net_port *p, struct port_lane_rx **link)
{
	struct port_lane_rx *l = *link;

	*link = l->next;
	close_lane(p, l->lane);
	free(l);
	p->lanes.n_rx--;
}

/* Those from processes that are gone or closed them, and have been read to the end */
static void sweep_rx(struct net_port *p)
{
	struct port_lane_rx **link = &p->lanes.rx, *l;

	while ((l = *link)) {
		if ((lane_deserted(l->lane) ||
		     table_generation(p->table, l->slot) != l->generation ||
		     !table_port(p->table, l->slot, p->now)) &&
		    !lane_has(l->lane) && l != p->lanes.settling)
			close_rx(p, link);
		else
			link = &l->next;
	}
}

/* --- sending ---------------------------------------------------------------------- */

static struct port_lane_tx *find_tx(struct net_port *p, struct port_route *r,
				    unsigned int slot)
{
	struct port_lane_tx *t;

	for (t = p->lanes.tx[slot]; t; t = t->next)
		if (net_ip_eq(&t->dst, &r->path.dst) && net_ip_eq(&t->src, &r->path.src))
			return t;
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->addr = r->addr;
	t->src = r->path.src;
	t->dst = r->path.dst;
	t->slot = slot;
	t->fd = -1;
	t->next = p->lanes.tx[slot];
	p->lanes.tx[slot] = t;
	return t;
}

static void offer(struct net_port *p, struct port_lane_tx *t)
{
	uint8_t ctl[CTL_LEN] = {PORT_LANE_MAGIC, CTL_OFFER};
	uint64_t nonce;

	sweep_tx(p); /* sweep_rx() must not run while a lane is read, as it may be */
	t->state = LANE_NONE;
	t->offers++;
	if (getrandom(&nonce, sizeof(nonce), GRND_NONBLOCK) != sizeof(nonce) ||
	    lane_create(nonce, &t->lane, &t->fd))
		return;
	t->state = LANE_OFFERED;
	port_set_now(p); /* the program may have been idle until this burst */
	t->since = p->now;
	put_be32(ctl + 4, p->slot);
	put_be32(ctl + 8, (uint32_t)getpid());
	put_be32(ctl + 12, (uint32_t)t->fd);
	memcpy(ctl + 16, &nonce, sizeof(nonce));
	send_ctl(p, t->addr, &t->dst, t->dport, ctl);
}

/* The offer: has it been taken? What was put before must be out before the lane is used */
static void look_at_offer(struct net_port *p, struct port_lane_tx *t)
{
	if (expired(p, t) || !lane_attached(t->lane))
		return;
	close_name(t);
	if (port_tx_send(p))
		return;
	t->state = LANE_OPEN;
	t->since = 0;
}

struct port_lane_tx *port_lane_find(struct net_port *p, struct port_route *r,
				    uint32_t qpn)
{
	unsigned int slot = qpn >> TABLE_SLOT_SHIFT;
	struct port_lane_tx *t;

	if (!p->lanes.on || !r->local || !r->addr || !slot || slot >= TABLE_SLOTS ||
	    qpn == ROCE_QPN_MULTICAST)
		return NULL;
	t = find_tx(p, r, slot);
	if (!t || !same_process(p, t))
		return NULL;
	if (t->state == LANE_OPEN && lane_deserted(t->lane)) {
		close_tx(p, t);
		t->offers = 0;
	}
	if (t->state == LANE_COUNTING && ++t->count == OFFER_AFTER)
		offer(p, t);
	else if (t->state == LANE_OFFERED)
		look_at_offer(p, t);
	return t->state == LANE_OPEN ? t : NULL;
}

bool port_lane_unread(const struct net_port *p, unsigned int slot)
{
	const struct port_lane_tx *t;

	for (t = p->lanes.tx[slot]; t; t = t->next)
		if (t->state == LANE_OPEN && lane_unread(t->lane))
			return true;
	return false;
}

/* No room. True: and nobody has read for long */
static bool found_full(struct net_port *p, struct port_lane_tx *t)
{
	uint64_t progress = lane_progress(t->lane);

	port_set_now(p);
	if (progress != t->stuck || !t->since) {
		t->stuck = progress;
		t->since = p->now;
	}
	if (p->now - t->since > PATIENCE_NS)
		return true;
	p->lanes.full = true;
	return false;
}

/* From here on by the socket, and by another lane when there is somebody to attach to it. */
static void turn_to_socket(struct net_port *p, struct port_lane_tx *t)
{
	uint8_t ctl[CTL_LEN] = {PORT_LANE_MAGIC, CTL_TURN};

	put_be32(ctl + 4, p->slot);
	close_tx(p, t);
	t->offers = 0;
	send_ctl(p, t->addr, &t->dst, t->dport, ctl);
}

uint8_t *port_lane_get(struct net_port *p, struct port_lane_tx *t, uint32_t len,
		       bool *closed)
{
	uint8_t *data = lane_reserve(t->lane, len + ROCE_ICRC_LEN);

	*closed = false;
	if (data)
		return data;
	port_lane_flush(p);
	data = lane_reserve(t->lane, len + ROCE_ICRC_LEN);
	if (!data && found_full(p, t)) {
		turn_to_socket(p, t);
		*closed = true;
	}
	return data;
}

static void publish(struct net_port *p, struct port_lane_tx *t)
{
	t->owed |= lane_publish(t->lane);
	if (t->owed)
		t->owed = !kick(p, t->addr, &t->dst, t->dport);
}

void port_lane_put(struct net_port *p, struct port_lane_tx *t, const struct port_route *r,
		   uint32_t len)
{
	lane_commit(t->lane, len + ROCE_ICRC_LEN, r->path.tclass,
		    r->path.ttl ? r->path.ttl : NET_DEFAULT_TTL, r->path.flow);
	p->stats->tx_pkts++;
	p->stats->tx_bytes += len + ROCE_ICRC_LEN;
	p->stats->tx_lane_pkts++;
	if (lane_pending(t->lane) >= PUBLISH_BYTES)
		publish(p, t);
	if (t->dirty)
		return;
	t->dirty = true;
	t->next_dirty = p->lanes.dirty;
	p->lanes.dirty = t;
}

int port_lane_flush(struct net_port *p)
{
	struct port_lane_tx *t, *owed = NULL;
	bool full = p->lanes.full;

	while ((t = p->lanes.dirty)) {
		p->lanes.dirty = t->next_dirty;
		publish(p, t);
		t->dirty = t->owed;
		if (!t->owed)
			continue;
		t->next_dirty = owed;
		owed = t;
	}
	p->lanes.dirty = owed;
	p->lanes.full = false;
	return full || owed ? -EAGAIN : 0;
}

/* --- receiving -------------------------------------------------------------------- */

/* @rx: the path of the offer; @ctl: CTL_LEN bytes */
static void attach(struct port_rx *rx, const uint8_t *ctl)
{
	struct net_port *p = rx->p;
	struct port_lane_rx *l;
	uint64_t nonce;

	sweep_tx(p);
	sweep_rx(p);
	if (!p->lanes.on || p->lanes.n_rx >= LANES_MAX)
		return;
	l = calloc(1, sizeof(*l));
	if (!l)
		return;
	memcpy(&nonce, ctl + 16, sizeof(nonce));
	if (lane_attach((pid_t)get_be32(ctl + 8), (int)get_be32(ctl + 12), nonce,
			&l->lane)) {
		free(l);
		return;
	}
	l->slot = get_be32(ctl + 4);
	l->generation = table_generation(p->table, l->slot);
	l->rx = *rx;
	l->rx.len = 0;
	l->next = p->lanes.rx;
	p->lanes.rx = l;
	p->lanes.n_rx++;
}

/* What the sender sent by the socket, before it had the lane, comes first */
static void settle(struct net_port *p, struct port_lane_rx *l)
{
	int quiet = 0, tries;

	p->lanes.settling = l; /* an offer may be among them: it stays */
	/* sockets that were silent are looked at by every fourth poll */
	for (tries = 0; tries < 1000 && quiet < 5; tries++)
		quiet = p->be_ops->poll(p->be, 256, port_rx, p) ? 0 : quiet + 1;
	p->lanes.settling = NULL;
	l->settled = true;
}

/* How many packets, or -EPROTO */
static int read_lane(struct port_lane_rx *l, int budget)
{
	struct lane_packet pkt;
	int ret = 0, n = 0;

	while (n < budget && (ret = lane_next(l->lane, &pkt)) > 0) {
		l->rx.path.tclass = pkt.tclass;
		l->rx.path.ttl = pkt.ttl;
		l->rx.path.flow = pkt.flow & IP6_FLOW_MAX;
		port_rx_packet(&l->rx, pkt.data, pkt.len);
		if (++n % CONSUME_PKTS == 0)
			lane_consumed(l->lane);
	}
	if (n % CONSUME_PKTS)
		lane_consumed(l->lane);
	return ret < 0 ? ret : n;
}

/*
 * To its end: its sender has turned to the socket. No more than it can hold, whatever the sender
 * goes on to write.
 */
static void drain_lane(struct net_port *p, struct port_lane_rx *l)
{
	int left = LANE_BYTES / 64, n = 1;

	if (!l->settled)
		settle(p, l);
	for (; left > 0 && n > 0; left -= n)
		n = read_lane(l, POLL_PKTS);
}

void port_lane_drain(struct net_port *p)
{
	struct port_lane_rx *l;

	for (l = p->lanes.rx; l; l = l->next)
		if (lane_has(l->lane) && lane_deserted(l->lane))
			drain_lane(p, l);
}

/*
 * The sender in @slot gave up its lane: what it sends now by the socket, and what follows this
 * datagram there, comes after what is in the lane. What was before it has just been read.
 */
static void turn(struct net_port *p, unsigned int slot, const struct net_path *path)
{
	struct port_lane_rx *l;

	for (l = p->lanes.rx; l; l = l->next) {
		if (l->slot != slot || !lane_deserted(l->lane) ||
		    !net_ip_eq(&l->rx.path.src, &path->src) ||
		    !net_ip_eq(&l->rx.path.dst, &path->dst))
			continue;
		l->settled = true;
		drain_lane(p, l);
	}
}

void port_lane_ctl(struct port_rx *rx, const uint8_t *data, uint32_t len)
{
	struct net_port *p = rx->p;

	/* from the process that it says, on this host: the kernel and the table know */
	if (len != CTL_LEN || !hostaddr_has(&p->host, &rx->path.src) ||
	    (data[1] != CTL_KICK &&
	     table_port(p->table, get_be32(data + 4), p->now) != rx->path.sport)) {
		p->stats->rx_malformed++;
		return;
	}
	if (data[1] == CTL_OFFER)
		attach(rx, data);
	else if (data[1] == CTL_TURN)
		turn(p, get_be32(data + 4), &rx->path);
}

/* The next poll begins with @first, which this one did not get to. */
static void begin_with(struct net_port *p, struct port_lane_rx **first)
{
	struct port_lane_rx **end;

	if (first == &p->lanes.rx)
		return;
	for (end = first; *end; end = &(*end)->next)
		;
	*end = p->lanes.rx;
	p->lanes.rx = *first;
	*first = NULL;
}

int port_lane_poll(struct net_port *p, int budget)
{
	struct port_lane_rx **link = &p->lanes.rx, *l;
	int n = 0, ret;

	while ((l = *link) && n < budget) {
		link = &l->next;
		if (!lane_has(l->lane))
			continue;
		if (!l->settled)
			settle(p, l);
		ret = read_lane(l, budget - n < POLL_PKTS ? budget - n : POLL_PKTS);
		if (ret >= 0) {
			n += ret;
			continue;
		}
		p->stats->rx_malformed++;
		/* settle() may have attached others in front */
		for (link = &p->lanes.rx; *link != l; link = &(*link)->next)
			;
		close_rx(p, link);
	}
	if (*link)
		begin_with(p, link);
	return n;
}

/* Of @n packets by lanes: a conversation by lanes need not look at the sockets each time */
bool port_lane_sockets_due(struct net_port *p, int n)
{
	struct port_lanes *l = &p->lanes;

	if (n)
		l->recent = RECENT_POLLS;
	else if (l->recent)
		l->recent--;
	if (l->recent && !l->sockets_due && ++l->skipped < SOCKET_POLLS)
		return false;
	l->skipped = 0;
	l->sockets_due = false;
	return true;
}

static bool arm_all(struct net_port *p)
{
	struct port_lane_rx *l;
	bool quiet = true;

	for (l = p->lanes.rx; l; l = l->next)
		quiet &= lane_arm(l->lane);
	return quiet;
}

bool port_lane_arm(struct net_port *p)
{
	p->lanes.sockets_due = true; /* that is where a kick comes */
	if (!arm_all(p))
		return false;
	atomic_fetch_add_explicit(&p->lanes.sleepers, 1, memory_order_relaxed);
	return true;
}

void port_lane_rearm(struct net_port *p)
{
	if (!p->lanes.rx || !p->addrs ||
	    !atomic_load_explicit(&p->lanes.sleepers, memory_order_relaxed))
		return;
	if (!arm_all(p) && !kick(p, p->addrs, &p->addrs->ip, p->port_num))
		p->lanes.full = true; /* so this thread comes again */
}

/* --- life ------------------------------------------------------------------------- */

void port_lane_forget(struct net_port *p, const struct port_addr *addr)
{
	struct port_lane_rx **rx = &p->lanes.rx;
	struct port_lane_tx **tx, *t;
	unsigned int slot;

	while (*rx) {
		if (!addr || (*rx)->rx.sk == &addr->own)
			close_rx(p, rx);
		else
			rx = &(*rx)->next;
	}
	for (slot = 0; slot < TABLE_SLOTS; slot++) {
		tx = &p->lanes.tx[slot];
		while ((t = *tx)) {
			if (addr && t->addr != addr) {
				tx = &t->next;
				continue;
			}
			*tx = t->next;
			close_tx(p, t);
			free(t);
		}
	}
}
