/*
 * ip_header.h - IP headers in front of a RoCEv2 packet, as bytes: for captures, for the
 * ICRC, and for the consumer of a datagram. Always UDP; no options, no extensions.
 */
#ifndef URXE_NET_IP_HEADER_H
#define URXE_NET_IP_HEADER_H

#include "net/bytes.h"
#include "net/path.h"

#define IP4_HDR_LEN  20
#define IP6_HDR_LEN  40
#define UDP_HDR_LEN  8
#define IP_PROTO_UDP 17
#define IP6_FLOW_MAX 0xfffffu
#define IP4_ID_AT    4 /* offsets of the identification and the checksum */
#define IP4_CHECK_AT 10

/*
 * RFC 791, DF set, the checksum 0. @udp_len: UDP header and what is behind it. Returns the
 * first byte behind the header.
 */
static inline uint8_t *ip4_header(uint8_t *p, const struct net_path *path, uint8_t tos,
				  uint8_t ttl, uint16_t id, uint32_t udp_len)
{
	p[0] = 0x45; /* version, header length in words */
	p[1] = tos;
	put_be16(p + 2, (uint16_t)(IP4_HDR_LEN + udp_len));
	put_be16(p + IP4_ID_AT, id);
	put_be16(p + 6, 0x4000); /* DF */
	p[8] = ttl;
	p[9] = IP_PROTO_UDP;
	put_be16(p + IP4_CHECK_AT, 0);
	memcpy(p + 12, path->src.b + 12, 4);
	memcpy(p + 16, path->dst.b + 12, 4);
	return p + IP4_HDR_LEN;
}

/* RFC 8200; otherwise as above */
static inline uint8_t *ip6_header(uint8_t *p, const struct net_path *path, uint8_t tclass,
				  uint8_t hop_limit, uint32_t flow, uint32_t udp_len)
{
	put_be32(p, 6u << 28 | (uint32_t)tclass << 20 | (flow & IP6_FLOW_MAX));
	put_be16(p + 4, (uint16_t)udp_len);
	p[6] = IP_PROTO_UDP;
	p[7] = hop_limit;
	memcpy(p + 8, path->src.b, 16);
	memcpy(p + 24, path->dst.b, 16);
	return p + IP6_HDR_LEN;
}

/*
 * RFC 1071: add @len bytes to the sum @acc; only the last piece may have an odd number of
 * bytes. ip_sum_fold() makes the checksum of it.
 */
static inline uint32_t ip_sum(uint32_t acc, const uint8_t *p, uint32_t len)
{
	for (; len > 1; p += 2, len -= 2)
		acc += get_be16(p);
	return len ? acc + ((uint32_t)*p << 8) : acc;
}

static inline uint16_t ip_sum_fold(uint32_t acc)
{
	while (acc >> 16)
		acc = (acc & 0xffff) + (acc >> 16);
	return (uint16_t)~acc;
}

/* The header checksum of the ip4_header() at @p goes to its place. */
static inline void ip4_put_checksum(uint8_t *p)
{
	put_be16(p + IP4_CHECK_AT, ip_sum_fold(ip_sum(0, p, IP4_HDR_LEN)));
}

#endif
