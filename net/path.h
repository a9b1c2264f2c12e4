/*
 * path.h - where a RoCEv2 packet came from or goes to.
 *
 * Addresses are always 16 bytes in GID form: an IPv6 address, or an IPv4
 * address mapped as ::ffff:a.b.c.d (RoCEv2 annex A17, RFC 4291 section 2.5.5.2).
 * Knows nothing of sockets, QPs or memory.
 */
#ifndef URXE_NET_PATH_H
#define URXE_NET_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NET_DEFAULT_TTL 64
#define ROCE_UDP_PORT	4791 /* IANA, RoCEv2 annex A17.9.2 */

/* struct net_ip - an address in GID form, network byte order */
struct net_ip {
	uint8_t b[16];
};

/*
 * struct net_path - one direction of a conversation
 * @src:	address of the sender
 * @dst:	address of the receiver
 * @sport:	UDP source port, host order; on transmit it is ignored, the port
 *		layer writes its own
 * @tclass:	IPv4 TOS / IPv6 traffic class
 * @ttl:	IPv4 TTL / IPv6 hop limit; 0 on transmit means NET_DEFAULT_TTL
 * @flow:	IPv6 flow label, 20 bits, host order
 *
 * The destination UDP port is ROCE_UDP_PORT on the wire, always.
 */
struct net_path {
	struct net_ip src;
	struct net_ip dst;
	uint16_t sport;
	uint8_t tclass;
	uint8_t ttl;
	uint32_t flow;
};

static inline bool net_ip_eq(const struct net_ip *a, const struct net_ip *b)
{
	return memcmp(a->b, b->b, sizeof(a->b)) == 0;
}

/* net_ip_is_v4 - true for ::ffff:a.b.c.d */
static inline bool net_ip_is_v4(const struct net_ip *ip)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(ip->b, prefix, sizeof(prefix)) == 0;
}

/*
 * struct net_rx - a packet that was received and whose ICRC was good
 * @path:	addresses; valid during the callback only
 * @data:	first byte of the BTH; writable, valid during the callback only
 * @len:	bytes from the BTH to the last pad byte; the ICRC is stripped
 * @local:	the address of ours at whose socket it came; differs from path->dst for
 *		multicast, where it tells the interface
 */
struct net_rx {
	const struct net_path *path;
	const struct net_ip *local;
	uint8_t *data;
	uint32_t len;
};

#endif
