/*
 * sock.h - the UDP sockets of the port layer, and addresses in the kernel's form.
 *
 * Makes sockets that are set up alike for both backends. Sends and receives nothing.
 */
#ifndef URXE_NET_SOCK_H
#define URXE_NET_SOCK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "net/path.h"

/* Some releases of <linux/in6.h> hide it from users of libc's headers. */
#ifndef IPV6_FLOWINFO
#define IPV6_FLOWINFO 11
#endif

enum net_sock_kind {
	NET_SOCK_OWN,	/* the process's own port on an address */
	NET_SOCK_ROCE,	/* ROCE_UDP_PORT on an address: this process is its switch */
	NET_SOCK_MCAST, /* ROCE_UDP_PORT on a multicast group */
};

/* union net_sa - a socket address of either family */
union net_sa {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

/*
 * struct net_sock
 * @fd:		non-blocking, bound, never connected
 * @ip:		bound to this: destination of all that it receives
 * @local:	address of the device; @ip but for a multicast socket
 * @ifindex:	of the interface, 0 where not known
 * @no_gso:	the kernel refused UDP_SEGMENT here: not again
 * @no_flow:	the kernel refused a flow label here: not again
 * @priv:	the backend's
 */
struct net_sock {
	int fd;
	enum net_sock_kind kind;
	struct net_ip ip;
	struct net_ip local;
	uint32_t ifindex;
	bool v4;
	bool no_gso;
	bool no_flow;
	void *priv;
};

/*
 * net_sa_make - @ip and @port; @ifindex is the scope of link-local IPv6. Returns its
 * length
 */
socklen_t net_sa_make(union net_sa *sa, const struct net_ip *ip, uint16_t port,
		      uint32_t ifindex);
static inline socklen_t net_sa_len(const union net_sa *sa)
{
	return sa->sa.sa_family == AF_INET ? sizeof(sa->in) : sizeof(sa->in6);
}

bool net_ip_is_mcast(const struct net_ip *ip);
bool net_ip_is_linklocal(const struct net_ip *ip);

/*
 * net_sock_reserve - a UDP port that no socket of this host uses on any address
 *
 * Returns a descriptor that keeps it so, and *@port; or -errno. Sockets of this process
 * get the port on an address through net_sock_open() with @guard.
 */
int net_sock_reserve(uint16_t *port);

/*
 * net_sock_open - @sk's socket from its kind, ip, local and ifindex, bound to @port
 * @guard: what net_sock_reserve() returned, for NET_SOCK_OWN
 *
 * 0 or -errno (EADDRINUSE, EADDRNOTAVAIL, EAFNOSUPPORT, ...)
 */
int net_sock_open(struct net_sock *sk, uint16_t port, int guard);

#endif
