/*
 * icrc.h - the invariant CRC of RoCEv2 (IBTA vol. 1 7.8.1 and annex A17.3.3).
 *
 * CRC-32 (IEEE 802.3, reflected) over 8 bytes of ones, the IP and UDP headers with their
 * variant fields set to ones, the BTH with resv8a set to ones, the other headers, the
 * payload and its pad. The UDP destination port that enters is ROCE_UDP_PORT. Sent and
 * stored little-endian, as rdma_rxe does.
 */
#ifndef URXE_NET_ICRC_H
#define URXE_NET_ICRC_H

#include <stdbool.h>
#include <stdint.h>

#include "net/path.h"

/*
 * icrc_compute - the ICRC of a packet
 * @path:	src, dst and sport enter
 * @ip_id:	IPv4 identification, host order (ignored for IPv6)
 * @data:	BTH to last pad byte
 * @len:	of @data
 */
uint32_t icrc_compute(const struct net_path *path, uint16_t ip_id, const uint8_t *data,
		      uint32_t len);

/*
 * The same in steps, for many packets that differ only behind the UDP header.
 */

#define ICRC_MAX_ID 64 /* identifications that icrc_id_table() covers */

/* icrc_prefix - the CRC up to the end of the UDP header, IP identification 0 */
uint32_t icrc_prefix(const struct net_path *path, uint32_t len);

/* icrc_id_table - what identification k changes in the prefix of an IPv4 packet */
void icrc_id_table(uint32_t table[ICRC_MAX_ID]);

/*
 * icrc_id_delta - what identification @id changes in the ICRC of an IPv4 packet of @len
 * bytes
 */
uint32_t icrc_id_delta(uint16_t id, uint32_t len);

/*
 * icrc_finish - the ICRC from the CRC of the prefix; @len at least ROCE_BTH_LEN
 */
uint32_t icrc_finish(uint32_t prefix, const uint8_t *data, uint32_t len);

/*
 * icrc_id_factor - what turns the difference of two ICRCs of packets of @len bytes into
 * the difference of their IPv4 identifications; worth caching by length
 */
uint32_t icrc_id_factor(uint32_t len);

/*
 * icrc_find_id - the identification that explains that an ICRC is @diff (expected for
 * identification 0, xor received) off; -1 if none does
 */
int32_t icrc_find_id(uint32_t diff, uint32_t factor);

/*
 * icrc_linux_flush - what Linux's rdma_rxe takes for the ICRC of a FLUSH of @len bytes whose right
 * one is @icrc: it goes on over the whole packet once more
 */
uint32_t icrc_linux_flush(uint32_t icrc, const uint8_t *data, uint32_t len);

static inline uint32_t icrc_load(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	       (uint32_t)p[3] << 24;
}

static inline void icrc_store(uint8_t *p, uint32_t icrc)
{
	p[0] = (uint8_t)icrc;
	p[1] = (uint8_t)(icrc >> 8);
	p[2] = (uint8_t)(icrc >> 16);
	p[3] = (uint8_t)(icrc >> 24);
}

#endif
