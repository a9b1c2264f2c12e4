/*
 * netdev.c - what a network interface tells about the device that is laid over it.
 *
 * Addresses come from getifaddrs(3), flags and MTU from the SIOCGIF ioctls: both work for
 * any user and in any network namespace. Keeps no state.
 */
#include "verbs/host/netdev.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * IP, UDP, BTH, extended headers and ICRC together, as RXE_MAX_HDR_LENGTH of the kernel's
 * rxe
 */
#define NETDEV_HDR_ROOM 80 /* bytes */

/* An alias "eth0:1" is the label of an address of eth0. */
static bool name_matches(const char *label, const char *ifname)
{
	size_t n = strlen(ifname);

	return strncmp(label, ifname, n) == 0 && (label[n] == '\0' || label[n] == ':');
}

static bool sockaddr_to_ip(const struct sockaddr *sa, struct net_ip *ip)
{
	memset(ip, 0, sizeof(*ip));
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)sa;

		ip->b[10] = 0xff;
		ip->b[11] = 0xff;
		memcpy(ip->b + 12, &in->sin_addr, 4);
		return in->sin_addr.s_addr != 0;
	}
	if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)sa;

		memcpy(ip->b, &in6->sin6_addr, 16);
		return true;
	}
	return false;
}

static void add_ip(struct netdev_info *info, const struct net_ip *ip)
{
	for (unsigned int i = 0; i < info->n_ips; i++)
		if (net_ip_eq(&info->ip[i], ip))
			return;
	if (info->n_ips < EMU_GID_TABLE_LEN)
		info->ip[info->n_ips++] = *ip;
}

static int read_ips(const char *ifname, struct netdev_info *info)
{
	static const int families[] = {AF_INET, AF_INET6};
	struct ifaddrs *list;

	if (getifaddrs(&list))
		return -errno;
	for (unsigned int f = 0; f < 2; f++) {
		for (struct ifaddrs *a = list; a; a = a->ifa_next) {
			struct net_ip ip;

			if (!a->ifa_addr || a->ifa_addr->sa_family != families[f] ||
			    !name_matches(a->ifa_name, ifname))
				continue;
			if (sockaddr_to_ip(a->ifa_addr, &ip))
				add_ip(info, &ip);
		}
	}
	freeifaddrs(list);
	return 0;
}

/*
 * The carrier itself, which rxe looks at: IFF_RUNNING says the same up to a second later
 * (the kernel's link watch gathers events).
 */
static bool has_carrier(int sock, const char *ifname, short flags)
{
	struct ethtool_value link = {.cmd = ETHTOOL_GLINK};
	struct ifreq req = {.ifr_data = (void *)&link};

	memcpy(req.ifr_name, ifname, strlen(ifname));
	if (ioctl(sock, SIOCETHTOOL, &req))
		return flags & IFF_RUNNING;
	return link.data;
}

static int read_link(int sock, const char *ifname, struct netdev_info *info)
{
	struct ifreq req = {0};

	strncpy(req.ifr_name, ifname, IF_NAMESIZE - 1);
	if (ioctl(sock, SIOCGIFFLAGS, &req))
		return errno == ENODEV ? 0 : -errno;
	info->exists = true;
	info->up = (req.ifr_flags & IFF_UP) && has_carrier(sock, ifname, req.ifr_flags);
	info->loopback = req.ifr_flags & IFF_LOOPBACK;
	if (ioctl(sock, SIOCGIFMTU, &req) == 0)
		info->mtu = (unsigned int)req.ifr_mtu;
	if (ioctl(sock, SIOCGIFINDEX, &req) == 0)
		info->ifindex = (unsigned int)req.ifr_ifindex;
	if (ioctl(sock, SIOCGIFHWADDR, &req) == 0 &&
	    req.ifr_hwaddr.sa_family == ARPHRD_ETHER)
		memcpy(info->mac, req.ifr_hwaddr.sa_data, 6);
	return 0;
}

int netdev_read(const char *ifname, struct netdev_info *out)
{
	int sock, ret;

	memset(out, 0, sizeof(*out));
	if (strlen(ifname) >= IF_NAMESIZE)
		return 0;
	sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (sock < 0)
		return -errno;
	ret = read_link(sock, ifname, out);
	close(sock);
	if (ret || !out->exists)
		return ret;
	return read_ips(ifname, out);
}

/* The interface of the IPv4 or IPv6 default route; empty when there is none. */
static void default_route(char name[IF_NAMESIZE])
{
	char line[512], dev[IF_NAMESIZE];
	unsigned long dst, flags, mask;
	FILE *f = fopen("/proc/net/route", "re");

	name[0] = '\0';
	while (f && !name[0] && fgets(line, sizeof(line), f))
		if (sscanf(line, "%15s %lx %*s %lx %*s %*s %*s %lx", dev, &dst, &flags,
			   &mask) == 4 &&
		    dst == 0 && mask == 0 && (flags & 1 /* RTF_UP */))
			strcpy(name, dev);
	if (f)
		fclose(f);
	if (name[0])
		return;
	f = fopen("/proc/net/ipv6_route", "re");
	while (f && !name[0] && fgets(line, sizeof(line), f))
		if (sscanf(line, "%*32c %lx %*32c %*x %*32c %*x %*x %*x %lx %15s", &mask,
			   &flags, dev) == 3 &&
		    strspn(line, "0") == 32 && mask == 0 && (flags & 1) &&
		    strcmp(dev, "lo"))
			strcpy(name, dev);
	if (f)
		fclose(f);
}

/* Up, with an address of those in @list? Each start of a program pays for it. */
static bool wanted(int sock, const struct ifaddrs *list, const char *ifname)
{
	struct ifreq req = {0};
	struct net_ip ip;

	strncpy(req.ifr_name, ifname, IF_NAMESIZE - 1);
	if (ioctl(sock, SIOCGIFFLAGS, &req) || !(req.ifr_flags & IFF_UP) ||
	    !has_carrier(sock, ifname, req.ifr_flags))
		return false;
	for (; list; list = list->ifa_next)
		if (list->ifa_addr && name_matches(list->ifa_name, ifname) &&
		    sockaddr_to_ip(list->ifa_addr, &ip))
			return true;
	return false;
}

static unsigned int list_wanted(int sock, const struct ifaddrs *addrs,
				const struct if_nameindex *all,
				char (*names)[IF_NAMESIZE], unsigned int max)
{
	char first[IF_NAMESIZE];
	unsigned int n = 0;

	if (n < max && wanted(sock, addrs, "lo"))
		strcpy(names[n++], "lo");
	default_route(first);
	if (first[0] && strcmp(first, "lo") && n < max && wanted(sock, addrs, first))
		strcpy(names[n++], first);
	for (; all->if_name && n < max; all++)
		if (strcmp(all->if_name, "lo") && strcmp(all->if_name, first) &&
		    wanted(sock, addrs, all->if_name))
			strncpy(names[n++], all->if_name, IF_NAMESIZE);
	return n;
}

int netdev_list(char (*names)[IF_NAMESIZE], unsigned int max)
{
	struct if_nameindex *all = if_nameindex();
	struct ifaddrs *addrs = NULL;
	int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), ret;

	if (!all || sock < 0 || getifaddrs(&addrs))
		ret = -errno;
	else
		ret = (int)list_wanted(sock, addrs, all, names, max);
	freeifaddrs(addrs);
	if (all)
		if_freenameindex(all);
	if (sock >= 0)
		close(sock);
	return ret;
}

/* FNV-1a, 64 bit */
static uint64_t hash(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len--)
		h = (h ^ *p++) * 0x100000001b3u;
	return h;
}

static uint64_t host_hash(const char *ifname)
{
	uint64_t h = 0xcbf29ce484222325u;
	char id[64];
	struct stat st;
	ssize_t n;
	int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		n = read(fd, id, sizeof(id));
		if (n > 0)
			h = hash(h, id, (size_t)n);
		close(fd);
	}
	if (gethostname(id, sizeof(id)) == 0)
		h = hash(h, id, strnlen(id, sizeof(id)));
	if (stat("/proc/self/ns/net", &st) == 0)
		h = hash(h, &st.st_ino, sizeof(st.st_ino));
	return hash(h, ifname, strlen(ifname));
}

uint64_t netdev_guid_be(const char *ifname, const struct netdev_info *info)
{
	static const uint8_t none[6];
	const uint8_t *m = info->mac;
	uint64_t guid;

	if (memcmp(m, none, 6)) {
		/*
		 * RFC 4291, appendix A: ff:fe in the middle, universal/local bit inverted
		 */
		const uint8_t eui[8] = {m[0] ^ 2, m[1], m[2], 0xff,
					0xfe,	  m[3], m[4], m[5]};

		memcpy(&guid, eui, sizeof(guid));
		return guid;
	}
	guid = host_hash(ifname);
	return guid ? guid : 1;
}

enum ibv_mtu netdev_ib_mtu(unsigned int mtu)
{
	unsigned int payload = mtu > NETDEV_HDR_ROOM ? mtu - NETDEV_HDR_ROOM : 0;
	enum ibv_mtu m = IBV_MTU_4096;

	while (m > IBV_MTU_256 && payload < 128u << m)
		m--;
	return m;
}
