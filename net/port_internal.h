/*
 * port_internal.h - struct net_port, shared by port*.c only.
 */
#ifndef URXE_NET_PORT_INTERNAL_H
#define URXE_NET_PORT_INTERNAL_H

#include "net/backend.h"
#include "net/hostaddr.h"
#include "net/icrc.h"
#include "net/impair.h"
#include "net/pcap.h"
#include "net/port.h"
#include "net/rocev2.h"
#include "net/switch.h"
#include "net/process_table.h"

/* Bytes: a batch being filled, and what the kernel did not take */
#define TX_ARENA  (192 << 10)
#define TX_ROUTES 64 /* destinations that are remembered; power of two */

/*
 * struct port_addr - an address of this host on which the port works
 * @own:	socket with the process's port
 * @roce:	socket with ROCE_UDP_PORT; fd -1: another process is the switch
 * @refs:	calls of net_port_add_ip()
 */
struct port_addr {
	struct port_addr *next;
	struct net_ip ip;
	uint32_t ifindex;
	unsigned int refs;
	struct net_sock own;
	struct net_sock roce;
};

/*
 * struct port_group - a multicast group on an interface; @refs: calls of net_port_mcast()
 */
struct port_group {
	struct port_group *next;
	unsigned int refs;
	struct net_sock sk;
};

/*
 * struct port_route - how to get from path->src to path->dst
 * @addr:	of the source; NULL: not ours
 * @local:	@path.dst is an address of this host
 * @dst:	with the port ROCE_UDP_PORT
 * @generation:	port->generation when it was looked up; 0: unused entry
 * @crc_len, @crc_prefix: ICRC up to the BTH of packets of that length
 */
struct port_route {
	struct net_path path;
	struct port_addr *addr;
	bool local;
	union net_sa dst;
	uint32_t generation;
	uint32_t crc_len;
	uint32_t crc_prefix;
};

/*
 * struct port_rx - packets that come by a common path
 * @sk:		where they came in
 * @len, @prefix: ICRC up to the BTH of packets of that length (with ICRC); 0: none yet
 */
struct port_rx {
	struct net_port *p;
	const struct net_sock *sk;
	struct net_path path;
	uint32_t len;
	uint32_t prefix;
};

struct port_lane_tx;
struct port_lane_rx;

/*
 * struct port_lanes - see port_lane.c
 * @on:		may be used
 * @forked:	in a child that lets go of its parent's
 * @tx:		by slot of the receiving process
 * @dirty:	lanes with packets that were not published
 * @settling:	one of @rx whose packets on the sockets are read just now
 * @full:	a packet found no room since the last flush
 * @sockets_due: the next poll looks at the sockets
 * @sleepers:	threads between net_port_arm() and net_port_awake()
 * @skipped:	polls since they were looked at; @recent: see port_lane_sockets_due()
 */
struct port_lanes {
	bool on, forked, full, sockets_due;
	struct port_lane_tx *tx[TABLE_SLOTS];
	struct port_lane_tx *dirty;
	struct port_lane_rx *rx, *settling;
	unsigned int n_rx;
	_Atomic unsigned int sleepers;
	unsigned int skipped, recent;
};

/*
 * struct port_tx - packets on their way out
 * @arena:	packets, one behind the other; all before @end belong to a batch
 * @batch, @n:	what to send, in order
 * @open:	the last batch takes more packets, of @open_route to @open_port
 * @route, @len: of the packet between net_tx_get() and net_tx_put(), which is at @end, or
 *		in @lane if that is not NULL
 * @slot:	if @known, it goes to the process in @slot, and the next one by the same path to the
 *		same process goes by the same @route and @lane
 * @data:	of that packet
 * @flip:	bit of that packet to be flipped on its way, -1 for none
 * @too_large:	destination that was told to the owner last
 * @aside:	where the packet is written when it is to be impaired before it gets to
 * @end
 */
struct port_tx {
	uint8_t *arena;
	uint32_t end;
	struct net_batch batch[NET_BATCHES_MAX];
	unsigned int n;
	bool open;
	struct port_route *open_route;
	uint16_t open_port;
	struct port_route *route;
	unsigned int slot;
	bool known;
	uint32_t len;
	struct port_lane_tx *lane;
	uint8_t *data;
	int32_t flip;
	struct net_ip too_large;
	uint8_t *aside;
};

#define PORT_FLUSH_PEERS 64 /* power of two */
#define PORT_FLUSH_HOSTS 8

/*
 * struct port_flush_peer - the last FLUSH to QP @dqpn at @dst
 * @psn:	of that FLUSH
 * @in_linux_form: how its ICRC was computed
 */
struct port_flush_peer {
	struct net_ip dst;
	uint32_t dqpn;
	uint32_t psn;
	bool in_linux_form;
};

/*
 * struct port_flush - see port_flush.c
 * @peer:	by a hash of the QPN
 * @host:	from which a FLUSH in Linux's form has come; @next_host: the oldest
 */
struct port_flush {
	struct port_flush_peer peer[PORT_FLUSH_PEERS];
	struct net_ip host[PORT_FLUSH_HOSTS];
	unsigned int next_host;
};

/*
 * struct net_port
 * @guard:	descriptor that reserves @port_num
 * @slot:	first lease; @leases: how many times net_port_qpn_lease() was called
 * @now:	ns, set by each entry point that may wait or loop
 * @generation:	changes when routes must be looked up again
 * @id_crc:	ICRC contribution of small IPv4 identifications
 * @id_factor:	by packet length, 0: not known yet; see icrc_find_id()
 * @impair, @pcap: NULL where not asked for
 * @rx_count:	packets given to the owner in this poll
 * @quiet:	polls in a row that found nothing, the first at @quiet_since
 * @stats:	counters, in the owner's memory or in @own_stats
 */
struct net_port {
	const struct net_port_ops *ops;
	void *arg;
	const struct net_backend_ops *be_ops;
	struct net_backend *be;
	struct table *table;
	struct hostaddr host;
	int guard;
	uint16_t port_num;
	unsigned int slot;
	unsigned int leases;
	struct port_addr *addrs;
	struct port_group *groups;
	uint64_t now;
	uint64_t next_try;
	uint32_t generation;
	net_gsi_router gsi;
	void *gsi_arg;
	uint32_t id_crc[ICRC_MAX_ID];
	uint32_t id_factor[NET_PKT_MAX + 1];
	struct port_route routes[TX_ROUTES];
	struct port_tx tx;
	struct port_lanes lanes;
	struct port_flush flush;
	struct impair *impair;
	struct pcap *pcap;
	int rx_count;
	unsigned int quiet;
	uint64_t quiet_since;
	struct net_stats *stats, own_stats;
};

void port_set_now(struct net_port *p);
struct port_addr *port_addr_find(const struct net_port *p, const struct net_ip *ip);

/* --- port_tx.c -------------------------------------------------------------------- */

/* Forget batches of a socket that is about to be closed */
void port_tx_forget(struct net_port *p, const struct net_sock *sk);
/*
 * port_tx_forward - hand a packet (with ICRC) that came in at @sk to the process in @slot
 */
void port_tx_forward(struct net_port *p, struct port_addr *addr, unsigned int slot,
		     const struct net_path *path, const uint8_t *data, uint32_t len);
int port_tx_send(struct net_port *p);
/* A packet that was impaired goes on its way. */
void port_tx_impaired(struct net_port *p, const struct impair_pkt *pkt);

/* --- port_rx.c -------------------------------------------------------------------- */

void port_rx(void *arg, struct net_sock *sk, const struct net_dgram *d);
void port_rx_impaired(struct net_port *p, const struct impair_pkt *pkt);
/* One packet of @len bytes with its ICRC, for this process */
void port_rx_packet(struct port_rx *rx, uint8_t *data, uint32_t len);

/* --- port_flush.c ----------------------------------------------------------------- */

/* The ICRC to send a FLUSH with, from the right one */
uint32_t port_flush_icrc(struct net_port *p, const struct port_route *r, uint32_t icrc,
			 const uint8_t *data, uint32_t len);
/* Is it a FLUSH, and in Linux's form? */
bool port_flush_linux(const struct net_port *p, const uint8_t *data);
/*
 * Is the ICRC of a FLUSH, which is not @icrc, that of Linux? The identification for which it is
 * (0 for IPv6), or -1
 */
int32_t port_flush_ip_id(struct port_rx *rx, uint32_t icrc, const uint8_t *data,
			 uint32_t len);

/* --- port_lane.c ------------------------------------------------------------------ */

/* First byte of datagrams about lanes; no opcode, as SWITCH_MAGIC */
#define PORT_LANE_MAGIC 0xfe

/* The lane that a packet for @qpn takes; NULL: the socket */
struct port_lane_tx *port_lane_find(struct net_port *p, struct port_route *r,
				    uint32_t qpn);
/*
 * Room for a packet of @len bytes without ICRC; NULL: full. *@closed: and nobody reads, so that the
 * lane was given up, and the packet takes the socket
 */
uint8_t *port_lane_get(struct net_port *p, struct port_lane_tx *t, uint32_t len,
		       bool *closed);
/* It is written, with its ICRC. */
void port_lane_put(struct net_port *p, struct port_lane_tx *t, const struct port_route *r,
		   uint32_t len);
/* Let the receivers see what was put. -EAGAIN: something found no room */
int port_lane_flush(struct net_port *p);
/* Has the process in @slot not read all that lies in the lanes to it? */
bool port_lane_unread(const struct net_port *p, unsigned int slot);
/* A datagram that begins with PORT_LANE_MAGIC */
void port_lane_ctl(struct port_rx *rx, const uint8_t *data, uint32_t len);
/* About @budget packets; how many */
int port_lane_poll(struct net_port *p, int budget);
/* Before the sockets are looked at: what lanes have that were given up */
void port_lane_drain(struct net_port *p);
/* Look at the sockets, too? @n: packets that came by lanes */
bool port_lane_sockets_due(struct net_port *p, int n);
/* Before sleeping on the sockets. False: there is something to read */
bool port_lane_arm(struct net_port *p);
/* After a poll: see to it that those who sleep are woken by what is there or comes */
void port_lane_rearm(struct net_port *p);
/* Give up the lanes of an address, NULL: all */
void port_lane_forget(struct net_port *p, const struct port_addr *addr);

#endif
