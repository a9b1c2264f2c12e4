/*
 * port.h - packet I/O of one process on the addresses of its devices.
 *
 * A net_port owns the UDP sockets: for each address one of its own (an
 * ephemeral port, the same number on all addresses where possible) and, when it
 * is the first to ask for it, ROCE_UDP_PORT, which makes it the switch of that
 * address (see switch.h). It computes ICRCs on transmit, checks them on receive,
 * batches with UDP_SEGMENT and UDP_GRO. It knows packets, not QPs: the only part
 * of the BTH that it reads is the destination QPN, to find the local process
 * that owns it.
 *
 * Not thread-safe: the caller serialises (the engine lock). The exceptions are
 * net_port_wait_fds() and net_port_awake(), see there.
 */
#ifndef URXE_NET_PORT_H
#define URXE_NET_PORT_H

#include <stddef.h>
#include <stdint.h>

#include "net/path.h"
#include "trace/counters.h"

struct net_port;

#define NET_PKT_MAX                                                                      \
	4608 /* largest packet without ICRC: 4096 of payload and all headers */

/*
 * struct net_port_ops - what the port asks of its owner
 * @rx:		a packet for a QPN of this process, or for a multicast QPN
 *		(0xffffff), or for QP1
 * @too_large:	the kernel refuses to send a packet of @bytes (IP header to ICRC) to @dst
 *		because of the MTU. Told once for each destination. May be NULL.
 * @capture_ended: the file of cfg.pcap takes no more packets, -errno. May be NULL
 */
struct net_port_ops {
	void (*rx)(void *arg, const struct net_rx *pkt);
	void (*too_large)(void *arg, const struct net_ip *dst, uint32_t bytes);
	void (*capture_ended)(void *arg, int err);
};

/* struct net_stats - what the wire did, counted since open; see trace/counters.h */
struct net_stats {
	TRACE_NET_COUNTERS(TRACE_COUNTER_MEMBER)
};

/*
 * struct net_port_cfg
 * @ops, @arg:	callbacks and their first argument
 * @backend:	"socket", "uring" or NULL for the default
 * @shm_dir:	directory of the table that processes of one user in one network
 *		namespace share; NULL for /dev/shm
 * @pcap:	file to write packets to, NULL for none
 * @impair:	impairment in the syntax of `urxe run --impair`, NULL for none
 * @no_lanes:	all packets go by sockets, those to processes of this user on this host, too
 * @stats:	where the counters are to be, NULL: wherever. Zeroed, outlives the port
 * @what:	NULL, or receives a name for what could not be opened
 */
struct net_port_cfg {
	const struct net_port_ops *ops;
	void *arg;
	const char *backend;
	const char *shm_dir;
	const char *pcap;
	const char *impair;
	bool no_lanes;
	struct net_stats *stats;
	const char **what;
};

/* net_port_open - 0 and *@out, or -errno. Reserves the process's slot (see switch.h) */
int net_port_open(const struct net_port_cfg *cfg, struct net_port **out);
void net_port_close(struct net_port *port);
/*
 * The file that processes share, as it is mapped: memory that others may take away by
 * shortening the file (SIGBUS)
 */
void *net_port_table(const struct net_port *port, size_t *len);

/*
 * net_port_abandon - the child's side of a fork: let go of everything without undoing
 * anything that the parent still uses. @port is freed.
 */
void net_port_abandon(struct net_port *port);

/*
 * net_port_add_ip - begin to send and receive on @ip, an address of this host
 * @ifname: its interface: scope of link-local addresses, and where multicast goes
 *
 * 0, or -errno (EADDRNOTAVAIL: not ours). Adding an address twice is counted.
 */
int net_port_add_ip(struct net_port *port, const struct net_ip *ip, const char *ifname);
void net_port_del_ip(struct net_port *port, const struct net_ip *ip);

/*
 * net_port_qpn_lease - a range of QPNs that no other process on this network
 * namespace has; may be called again when the first is used up
 *
 * 0 with *@base and *@count, or -EAGAIN when all are leased.
 */
int net_port_qpn_lease(struct net_port *port, uint32_t *base, uint32_t *count);

/*
 * net_port_mcast - a first QP joined (the last left) @group on the device over @ifname.
 *
 * 0 or -errno. Packets then come with path->dst == group. Calls are counted.
 */
int net_port_mcast(struct net_port *port, const struct net_ip *group, const char *ifname,
		   bool join);

/*
 * net_port_has_roce_port - is this process the switch of @ip, or does another one of the
 * same user hold ROCE_UDP_PORT there? If not (another user's process, or the kernel's
 * rdma_rxe), nothing arrives from other hosts.
 */
bool net_port_has_roce_port(const struct net_port *port, const struct net_ip *ip);

/*
 * Who gets a packet for QP1: every process has a QP1, but hosts address only one.
 * @fn looks at a @mad (@len bytes behind the DETH) and returns the slot of the process
 * that it is for, NET_GSI_OWN, or NET_GSI_ALL. It is asked for what arrives on
 * ROCE_UDP_PORT, and for what is sent to an address of this host. Without one,
 * everybody gets everything.
 */
#define NET_GSI_OWN 0
#define NET_GSI_ALL (-1)
typedef int (*net_gsi_router)(void *arg, const uint8_t *mad, uint32_t len);
void net_port_set_gsi_router(struct net_port *port, net_gsi_router fn, void *arg);

/*
 * A table of (key, process) that all processes of the user in this network namespace
 * share; what a process has claimed is gone when it dies. Keys are the caller's.
 *
 * claim: 0; -EADDRINUSE: somebody (this process included) has it and one of both wants
 * it exclusively; -ENOSPC; -EBUSY: the table's lock could not be had in a second.
 * release: 0 or -ENOENT. find: 0 and the *@slot of one who has it (this process before
 * others), or -ENOENT.
 */
int net_registry_claim(struct net_port *port, uint64_t key, bool exclusive);
int net_registry_release(struct net_port *port, uint64_t key);
int net_registry_find(struct net_port *port, uint64_t key, unsigned int *slot);

/*
 * net_tx_get - room for one packet to @dqpn of @len bytes, BTH to last pad byte
 *
 * NULL when the transmit path is full (call again after net_tx_flush() succeeded or the
 * next net_port_tick()) or @len is more than NET_PKT_MAX or less than a BTH. The bytes
 * must be written and net_tx_put() be called before the next net_tx_get(). A packet from
 * an address that was not added is counted as dropped.
 */
uint8_t *net_tx_get(struct net_port *port, const struct net_path *path, uint32_t dqpn,
		    uint32_t len);
void net_tx_put(struct net_port *port);

/*
 * net_tx_flush - hand all that was put to the kernel, or to who receives it. 0; -EAGAIN: some
 * was kept, or net_tx_get() found no room since the last flush
 */
int net_tx_flush(struct net_port *port);

/*
 * net_port_poll - receive what is there, at most about @budget packets; how many came.
 *
 * Sockets that were quiet are looked at by every fourth call only, so a single 0 does not
 * mean that nothing is there. The callback may transmit; it must not close the port or
 * change its addresses and groups.
 */
int net_port_poll(struct net_port *port, int budget);

/*
 * net_port_drain - receive until nothing is left, at most about @budget packets
 */
void net_port_drain(struct net_port *port, int budget);

/*
 * net_port_unread - what was sent to @qpn on @path lies there unread: its process is one of
 * this host, lives, and has not read all that was there since @since (ns of CLOCK_MONOTONIC). False:
 * it has, or nobody knows. Costs system calls.
 */
bool net_port_unread(struct net_port *port, const struct net_path *path, uint32_t qpn,
		     uint64_t since);

/*
 * net_port_wait_fds - descriptors that become readable when net_port_poll() would
 * find something; at most @max are written, the number that exist is returned.
 * @generation changes when the set does. Safe from any thread. (It is one epoll
 * descriptor, for good.)
 */
int net_port_wait_fds(struct net_port *port, int *fds, int max, uint32_t *generation);

/*
 * net_port_arm - before sleeping on net_port_wait_fds(). False: there is something to
 * receive already, which the descriptors do not show. True: net_port_awake() must follow
 * when the sleep is over, from any thread. Until then whoever polls leaves the port so
 * that the sleeper is woken by what comes next.
 */
bool net_port_arm(struct net_port *port);
void net_port_awake(struct net_port *port);

/*
 * net_port_tick - may call rx; take over a switch whose process is gone, release delayed
 * packets of the impairment. @now in nanoseconds of CLOCK_MONOTONIC; returns when it
 * wants to be called next (UINT64_MAX: never).
 */
uint64_t net_port_tick(struct net_port *port, uint64_t now);
/* Are the rules of inject/ asked about packets? Settled when the port is opened. */
bool net_port_is_ruled(const struct net_port *port);

/*
 * net_port_route - is there a way from @src to @dst? 0, or what the host's routes say: -ENETUNREACH,
 * -EHOSTUNREACH ... Whether the neighbour is there is not asked, and groups need no way.
 */
int net_port_route(const struct net_port *port, const struct net_ip *src,
		   const struct net_ip *dst);

/*
 * net_port_path_mtu - the largest IP packet in bytes towards @dst, 0 if not known
 */
int net_port_path_mtu(struct net_port *port, const struct net_ip *dst);

/* net_port_is_local - is @ip an address of this host? */
bool net_port_is_local(const struct net_port *port, const struct net_ip *ip);
/* net_port_process - the process of this user on this host that has @qpn; 0: there is none */
int net_port_process(struct net_port *port, uint32_t qpn);

void net_port_stats(const struct net_port *port, struct net_stats *out);

#endif
