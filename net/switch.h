/*
 * switch.h - several processes behind one address: what the one that holds ROCE_UDP_PORT
 * does.
 *
 * Theory of operation
 *
 * Each process receives on a port of its own (NET_SOCK_OWN), which the table tells to the
 * other processes of the user, so that packets between processes of one host need no
 * third. Other hosts know ROCE_UDP_PORT only. The process that could bind it is the switch
 * of that address: it looks at the destination QPN of what comes in and hands what is not
 * its own to the owner's port, behind a header that says where the packet really came
 * from. The receiver checks the ICRC as if the packet had come to ROCE_UDP_PORT directly.
 *
 * The switch keeps no state. When its process ends, by whatever cause, the kernel frees
 * the port, and the first of the others that tries again (each does several times a
 * second, from net_port_tick()) is the next switch. Packets that were in the old one's
 * buffer are lost, as on a wire.
 *
 * Example, host 10.0.0.1 with processes A (slot 5, port 40001, switch) and B (slot 6,
 * port 40002); a packet for QPN 0x018007 (slot 6) from 10.0.0.9:
 *
 *	10.0.0.9:51000 -> 10.0.0.1:4791    BTH ...                    read by A
 *	10.0.0.1:40001 -> 10.0.0.1:40002   encap{5, 10.0.0.9:51000, ...} BTH ...
 */
#ifndef URXE_NET_SWITCH_H
#define URXE_NET_SWITCH_H

#include <stdbool.h>
#include <stdint.h>

#include "net/path.h"

#define SWITCH_ENCAP_LEN 32
#define SWITCH_MAGIC                                                                     \
	0xff /* first byte; no opcode that is or will be assigned: IBTA table 35 */

/*
 * struct switch_encap - the header, decoded
 * @slot:	of the process that forwards
 * @path:	of the original packet, but for dst, which is the address it came in at
 */
struct switch_encap {
	unsigned int slot;
	struct net_path path;
};

void switch_encap_write(uint8_t *p, unsigned int slot, const struct net_path *path);
/* false if it is none */
bool switch_encap_read(const uint8_t *p, uint32_t len, struct switch_encap *out);

/* switch_key - of the registry: who is the switch of @ip */
uint64_t switch_key(const struct net_ip *ip);

#endif
