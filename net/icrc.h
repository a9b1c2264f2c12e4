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
 * icrc_check - is the ICRC in the 4 bytes behind @data + @len right?
 *
 * For IPv4 the identification cannot be seen through a UDP socket, so true means that some
 * identification makes it right (wrong packets pass with 2^-16); see icrc.c.
 */
bool icrc_check(const struct net_path *path, const uint8_t *data, uint32_t len);

#endif
