/*
 * sock.c - the UDP sockets of the port layer; see sock.h.
 *
 * What they are set to, and why:
 * - not connected, IP_PMTUDISC_PROBE: packets have DF and, on IPv4, identification 0 (the
 *   kernel gives others when it may fragment, or when the socket is connected). The ICRC
 *   covers the identification, so it must be known. PROBE rather than DO: what RDMA may
 *   send is agreed between the peers (path MTU of the connection), an ICMP message must not
 *   change it.
 * - UDP_GRO: batches come as they were sent, in one call.
 * - the largest buffers that the host allows: a packet that is dropped here costs a
 *   timeout.
 * - TTL and TOS are asked for, because they are in the GRH that a UD receiver sees.
 */
#include "net/sock.h"

#include <errno.h>
#include <linux/in6.h>
#include <linux/udp.h>
#include <unistd.h>

#define BUF_BYTES (8 << 20)

socklen_t net_sa_make(union net_sa *sa, const struct net_ip *ip, uint16_t port,
		      uint32_t ifindex)
{
	memset(sa, 0, sizeof(*sa));
	if (net_ip_is_v4(ip)) {
		sa->in.sin_family = AF_INET;
		sa->in.sin_port = htons(port);
		memcpy(&sa->in.sin_addr, ip->b + 12, 4);
	} else {
		sa->in6.sin6_family = AF_INET6;
		sa->in6.sin6_port = htons(port);
		memcpy(&sa->in6.sin6_addr, ip->b, 16);
		if (net_ip_is_linklocal(ip))
			sa->in6.sin6_scope_id = ifindex;
	}
	return net_sa_len(sa);
}

bool net_ip_is_mcast(const struct net_ip *ip)
{
	return net_ip_is_v4(ip) ? (ip->b[12] & 0xf0) == 0xe0 : ip->b[0] == 0xff;
}

/* fe80::/10 and ff02::/16 need an interface to mean something (RFC 4007) */
bool net_ip_is_linklocal(const struct net_ip *ip)
{
	return (ip->b[0] == 0xfe && (ip->b[1] & 0xc0) == 0x80) ||
	       (ip->b[0] == 0xff && ((ip->b[1] & 0xf) == 1 || (ip->b[1] & 0xf) == 2));
}

static int set_int(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

/* Only sockets of one user that all agree share a port; so it is on only around bind() */
static int allow_sharing(int fd, int on)
{
	return set_int(fd, SOL_SOCKET, SO_REUSEPORT, on);
}

int net_sock_reserve(uint16_t *port)
{
	union net_sa sa = {.in6 = {.sin6_family = AF_INET6}};
	socklen_t len = sizeof(sa.in6);
	int fd, ret;

	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 &&
	    (set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0) || bind(fd, &sa.sa, len) < 0)) {
		close(fd);
		fd = -1;
	}
	if (fd < 0) { /* a host without IPv6 */
		sa = (union net_sa){.in = {.sin_family = AF_INET}};
		len = sizeof(sa.in);
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd < 0)
			return -errno;
		if (bind(fd, &sa.sa, len) < 0)
			goto err;
	}
	len = sizeof(sa);
	if (getsockname(fd, &sa.sa, &len) < 0)
		goto err;
	/* Nobody reads what comes here, to addresses that no device has */
	set_int(fd, SOL_SOCKET, SO_RCVBUF, 0);
	*port = ntohs(sa.sa.sa_family == AF_INET ? sa.in.sin_port : sa.in6.sin6_port);
	return fd;
err:
	ret = -errno;
	close(fd);
	return ret;
}

/* FORCE needs CAP_NET_ADMIN; without it the host's limit (net.core.rmem_max) counts */
static void set_buffers(int fd)
{
	if (set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, BUF_BYTES))
		set_int(fd, SOL_SOCKET, SO_RCVBUF, BUF_BYTES);
	if (set_int(fd, SOL_SOCKET, SO_SNDBUFFORCE, BUF_BYTES))
		set_int(fd, SOL_SOCKET, SO_SNDBUF, BUF_BYTES);
}

static int setup_v4(const struct net_sock *sk)
{
	struct ip_mreqn mreq = {.imr_ifindex = (int)sk->ifindex};
	int ret;

	memcpy(&mreq.imr_address, sk->local.b + 12, 4);
	ret = set_int(sk->fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
	if (ret)
		return ret;
	set_int(sk->fd, IPPROTO_IP, IP_TTL, NET_DEFAULT_TTL);
	set_int(sk->fd, IPPROTO_IP, IP_MULTICAST_TTL, NET_DEFAULT_TTL);
	set_int(sk->fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
	set_int(sk->fd, IPPROTO_IP, IP_RECVTTL, 1);
	set_int(sk->fd, IPPROTO_IP, IP_RECVTOS, 1);
	setsockopt(sk->fd, IPPROTO_IP, IP_MULTICAST_IF, &mreq, sizeof(mreq));
	return 0;
}

static int setup_v6(const struct net_sock *sk)
{
	int ret;

	ret = set_int(sk->fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (ret)
		return ret;
	set_int(sk->fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
	set_int(sk->fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
	set_int(sk->fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, NET_DEFAULT_TTL);
	set_int(sk->fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS, NET_DEFAULT_TTL);
	set_int(sk->fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
	/* flow information: traffic class and flow label in one message (linux/in6.h) */
	set_int(sk->fd, IPPROTO_IPV6, IPV6_FLOWINFO, 1);
	/* the flow label is the sender's, who may not have one; the kernel adds none */
	set_int(sk->fd, IPPROTO_IPV6, IPV6_AUTOFLOWLABEL, 0);
	set_int(sk->fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, (int)sk->ifindex);
	/*
	 * RoCEv2 senders, rdma_rxe among them, leave the UDP checksum 0: the ICRC is
	 * better. Over IPv6 the kernel drops such packets unless told (RFC 6935 5).
	 */
	set_int(sk->fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
	return 0;
}

static int join_group(const struct net_sock *sk)
{
	struct ip_mreqn m4 = {.imr_ifindex = (int)sk->ifindex};
	struct ipv6_mreq m6 = {.ipv6mr_interface = sk->ifindex};
	int ret;

	if (sk->v4) {
		memcpy(&m4.imr_multiaddr, sk->ip.b + 12, 4);
		ret = setsockopt(sk->fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m4, sizeof(m4));
	} else {
		memcpy(&m6.ipv6mr_multiaddr, sk->ip.b, 16);
		ret = setsockopt(sk->fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &m6,
				 sizeof(m6));
	}
	return ret < 0 ? -errno : 0;
}

static int bind_to(const struct net_sock *sk, uint16_t port)
{
	union net_sa sa;
	socklen_t len = net_sa_make(&sa, &sk->ip, port, sk->ifindex);

	return bind(sk->fd, &sa.sa, len) < 0 ? -errno : 0;
}

static int bind_own(const struct net_sock *sk, uint16_t port, int guard)
{
	int ret = allow_sharing(guard, 1);

	if (!ret)
		ret = allow_sharing(sk->fd, 1);
	if (!ret)
		ret = bind_to(sk, port);
	allow_sharing(sk->fd, 0);
	allow_sharing(guard, 0);
	return ret;
}

/* Each process that joins gets its own copy of what is sent to a group */
static int bind_group(const struct net_sock *sk, uint16_t port)
{
	int ret = set_int(sk->fd, SOL_SOCKET, SO_REUSEADDR, 1);

	if (!ret)
		ret = bind_to(sk, port);
	return ret ? ret : join_group(sk);
}

static int setup_and_bind(struct net_sock *sk, uint16_t port, int guard)
{
	int ret = sk->v4 ? setup_v4(sk) : setup_v6(sk);

	if (ret)
		return ret;
	set_buffers(sk->fd);
	/* before Linux 5.0 there is no UDP_GRO: packets come one by one */
	set_int(sk->fd, IPPROTO_UDP, UDP_GRO, 1);
	switch (sk->kind) {
	case NET_SOCK_OWN:
		return bind_own(sk, port, guard);
	case NET_SOCK_MCAST:
		return bind_group(sk, port);
	case NET_SOCK_ROCE:
		break;
	}
	return bind_to(sk, port);
}

int net_sock_open(struct net_sock *sk, uint16_t port, int guard)
{
	int ret;

	sk->v4 = net_ip_is_v4(&sk->ip);
	sk->fd = socket(sk->v4 ? AF_INET : AF_INET6,
			SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (sk->fd < 0)
		return -errno;
	ret = setup_and_bind(sk, port, guard);
	if (ret) {
		close(sk->fd);
		sk->fd = -1;
	}
	return ret;
}
