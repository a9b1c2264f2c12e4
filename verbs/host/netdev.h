/*
 * netdev.h - what a network interface tells about the device that is laid over it.
 *
 * Reads flags, MTU, MAC and addresses of an interface and derives from them what rdma_rxe
 * derives: GID table, GUID and MTU. Keeps nothing; knows neither devices nor the engine.
 */
#ifndef URXE_VERBS_HOST_NETDEV_H
#define URXE_VERBS_HOST_NETDEV_H

#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/hca.h"
#include "net/path.h"

/*
 * struct netdev_info - a snapshot of one interface
 * @exists:	there is one of that name in this network namespace
 * @up:		it is up and has a carrier (what makes rxe's port ACTIVE)
 * @loopback:	IFF_LOOPBACK
 * @mtu:	bytes of an IP packet
 * @mac:	Ethernet address, zero for lo
 * @ip:		addresses in the order of the GID table: IPv4, then IPv6, each in the
 *		kernel's own order; without doubles
 */
struct netdev_info {
	bool exists;
	bool up;
	bool loopback;
	unsigned int mtu;
	unsigned int ifindex;
	uint8_t mac[6];
	unsigned int n_ips;
	struct net_ip ip[EMU_GID_TABLE_LEN];
};

/* netdev_read - 0 (also when there is no such interface: see @exists) or -errno */
int netdev_read(const char *ifname, struct netdev_info *out);

/*
 * netdev_list - the interfaces that get a device by default: those that are up and have
 * an address; lo first, then that of the default route, then the others. How many, or
 * -errno.
 */
int netdev_list(char (*names)[IF_NAMESIZE], unsigned int max);

/*
 * netdev_guid_be - the node GUID in network order: EUI-64 of the MAC as rxe makes it;
 * where there is no MAC, a hash of host, network namespace and name. Never 0, the same in
 * each process.
 */
uint64_t netdev_guid_be(const char *ifname, const struct netdev_info *info);

/* netdev_ib_mtu - the largest MTU of the transport that fits @mtu bytes of IP packet */
enum ibv_mtu netdev_ib_mtu(unsigned int mtu);

#endif
