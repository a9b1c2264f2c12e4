/*
 * ucma_addr.c - addresses, routes, and the devices that have them.
 *
 * Sockets are used only to ask the kernel for a route: connecting a datagram socket sends
 * nothing. They are made with raw system calls, because a preloaded library above us
 * (such as librspreload) may have its own idea of socket(2).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "verbs/ucma/ucma_internal.h"

#define PROBE_PORT 4791 /* any will do; nothing is sent */

uint32_t ucma_addr_size(const union ucma_addr *a)
{
	switch (a->sa.sa_family) {
	case AF_INET:
		return sizeof(a->in);
	case AF_INET6:
		return sizeof(a->in6);
	case UCMA_AF_IB:
		return sizeof(a->ib);
	default:
		return 0;
	}
}

bool ucma_addr_is_zero(const union ucma_addr *a)
{
	static const uint8_t zero[16];

	switch (a->sa.sa_family) {
	case AF_INET: /* all of 0.0.0.0/8, as the kernel sees it */
		return (ntohl(a->in.sin_addr.s_addr) >> 24) == 0;
	case AF_INET6:
		return memcmp(&a->in6.sin6_addr, zero, 16) == 0;
	case UCMA_AF_IB:
		return memcmp(&a->ib.addr, zero, 16) == 0;
	default:
		return false;
	}
}

bool ucma_addr_is_loopback(const union ucma_addr *a)
{
	switch (a->sa.sa_family) {
	case AF_INET:
		return (ntohl(a->in.sin_addr.s_addr) >> 24) == 127;
	case AF_INET6:
		return IN6_IS_ADDR_LOOPBACK(&a->in6.sin6_addr);
	default:
		return false;
	}
}

void ucma_addr_set_loopback(union ucma_addr *a)
{
	if (a->sa.sa_family == AF_INET)
		a->in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (a->sa.sa_family == AF_INET6)
		a->in6.sin6_addr = in6addr_loopback;
}

uint16_t ucma_addr_port(const union ucma_addr *a)
{
	switch (a->sa.sa_family) {
	case AF_INET:
		return ntohs(a->in.sin_port);
	case AF_INET6:
		return ntohs(a->in6.sin6_port);
	case UCMA_AF_IB:
		return (uint16_t)be64toh(a->ib.sid_be & a->ib.sid_mask_be);
	default:
		return 0;
	}
}

void ucma_addr_set_port(union ucma_addr *a, uint16_t port)
{
	uint64_t sid;

	switch (a->sa.sa_family) {
	case AF_INET:
		a->in.sin_port = htons(port);
		break;
	case AF_INET6:
		a->in6.sin6_port = htons(port);
		break;
	case UCMA_AF_IB:
		sid = be64toh(a->ib.sid_be) & be64toh(a->ib.sid_mask_be);
		a->ib.sid_be = htobe64((sid & ~(uint64_t)0xffff) | port);
		a->ib.sid_mask_be = ~(uint64_t)0;
		break;
	default:
		break;
	}
}

struct net_ip ucma_addr_ip(const union ucma_addr *a)
{
	struct net_ip ip = {0};

	switch (a->sa.sa_family) {
	case AF_INET:
		ip.b[10] = ip.b[11] = 0xff;
		memcpy(ip.b + 12, &a->in.sin_addr, 4);
		break;
	case AF_INET6:
		memcpy(ip.b, &a->in6.sin6_addr, 16);
		break;
	case UCMA_AF_IB:
		ip = a->ib.addr;
		break;
	default:
		break;
	}
	return ip;
}

void ucma_addr_set_ip(union ucma_addr *a, sa_family_t family, const struct net_ip *ip,
		      uint16_t port)
{
	memset(a, 0, sizeof(*a));
	a->sa.sa_family = family;
	if (family == AF_INET)
		memcpy(&a->in.sin_addr, ip->b + 12, 4);
	else
		memcpy(&a->in6.sin6_addr, ip->b, 16);
	ucma_addr_set_port(a, port);
}

/* --- routes ----------------------------------------------------------------------- */

static int probe_open(const union ucma_addr *src)
{
	union ucma_addr a = *src;
	long fd = syscall(SYS_socket, src->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret;

	if (fd < 0)
		return -errno;
	ucma_addr_set_port(&a, 0);
	if (ucma_addr_is_zero(&a) || !syscall(SYS_bind, fd, &a.sa, ucma_addr_size(&a)))
		return (int)fd;
	ret = -errno;
	syscall(SYS_close, fd);
	return ret;
}

bool ucma_addr_is_local(const union ucma_addr *a)
{
	int fd = probe_open(a);

	if (fd < 0)
		return false;
	syscall(SYS_close, fd);
	return true;
}

int ucma_route(union ucma_addr *src, const union ucma_addr *dst)
{
	union ucma_addr to = *dst, from = {0};
	uint16_t port = ucma_addr_port(src);
	socklen_t len = sizeof(from);
	int fd = probe_open(src);
	int ret = 0;

	if (fd < 0)
		return fd;
	ucma_addr_set_port(&to, PROBE_PORT);
	if (syscall(SYS_connect, fd, &to.sa, ucma_addr_size(&to)) ||
	    syscall(SYS_getsockname, fd, &from.sa, &len))
		ret = -errno;
	syscall(SYS_close, fd);
	if (ret)
		return ret;
	ucma_addr_set_port(&from, port);
	*src = from;
	return 0;
}

/* --- devices ---------------------------------------------------------------------- */

static bool gid_is_loopback(const struct net_ip *ip)
{
	union ucma_addr a;

	ucma_addr_set_ip(&a, net_ip_is_v4(ip) ? AF_INET : AF_INET6, ip, 0);
	return ucma_addr_is_loopback(&a);
}

/* The first GID that @fits, of all devices; of RoCE v2, as the kernel's rdma_cm prefers */
static struct engine_device *
find_gid(struct engine *e, bool (*fits)(const struct net_ip *gid, const void *arg),
	 const void *arg, unsigned int *index, struct net_ip *gid)
{
	unsigned int d, i;

	for (d = 0; d < engine_device_count(e); d++) {
		struct engine_device *dev = engine_device(e, d);

		for (i = 0; i < EMU_GID_TABLE_LEN; i++) {
			if (!emu_gid_is_v1(dev->hca, i) &&
			    !emu_get_gid(dev->hca, i, gid) && fits(gid, arg)) {
				*index = i;
				return dev;
			}
		}
	}
	return NULL;
}

static bool fits_ip(const struct net_ip *gid, const void *arg)
{
	return net_ip_eq(gid, arg);
}

static bool fits_loopback(const struct net_ip *gid, const void *arg)
{
	const bool *v4 = arg;

	return net_ip_is_v4(gid) == *v4 && gid_is_loopback(gid);
}

static bool fits_family(const struct net_ip *gid, const void *arg)
{
	static const struct net_ip none;
	const bool *v4 = arg;

	return net_ip_is_v4(gid) == *v4 && !net_ip_eq(gid, &none);
}

static bool fits_any(const struct net_ip *gid, const void *arg)
{
	static const struct net_ip none;

	return !net_ip_eq(gid, &none);
}

struct engine_device *ucma_dev_by_ip(struct engine *e, const struct net_ip *ip,
				     unsigned int *index)
{
	static const struct net_ip none;
	struct net_ip gid;

	if (net_ip_eq(ip, &none))
		return NULL;
	return find_gid(e, fits_ip, ip, index, &gid);
}

struct engine_device *ucma_dev_loopback(struct engine *e, sa_family_t family,
					unsigned int *index, struct net_ip *gid)
{
	const bool v4 = family == AF_INET;
	struct engine_device *dev = find_gid(e, fits_loopback, &v4, index, gid);

	if (!dev)
		dev = find_gid(e, fits_family, &v4, index, gid);
	if (!dev)
		dev = find_gid(e, fits_any, NULL, index, gid);
	return dev;
}
