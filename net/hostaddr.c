/*
 * hostaddr.c - which addresses are this host's; see hostaddr.h.
 */
#include "net/hostaddr.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOOK_NS	  100000000ull	/* how often the notifications are looked at */
#define REREAD_NS 1000000000ull /* how often the list is read where there are none */

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, sizeof(struct net_ip));
}

static bool from_sockaddr(struct net_ip *ip, const struct sockaddr *sa)
{
	if (sa && sa->sa_family == AF_INET) {
		memset(ip->b, 0, 10);
		memset(ip->b + 10, 0xff, 2);
		memcpy(ip->b + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
		return true;
	}
	if (sa && sa->sa_family == AF_INET6) {
		memcpy(ip->b, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
		return true;
	}
	return false;
}

static int read_list(struct hostaddr *h)
{
	struct ifaddrs *list, *i;
	struct net_ip *ip;
	unsigned int n = 0;

	if (getifaddrs(&list) < 0)
		return -errno;
	for (i = list; i; i = i->ifa_next)
		n++;
	ip = calloc(n ? n : 1, sizeof(*ip));
	if (!ip) {
		freeifaddrs(list);
		return -ENOMEM;
	}
	for (n = 0, i = list; i; i = i->ifa_next)
		if (from_sockaddr(&ip[n], i->ifa_addr))
			n++;
	freeifaddrs(list);
	qsort(ip, n, sizeof(*ip), compare);
	free(h->ip);
	h->ip = ip;
	h->n = n;
	h->generation++;
	return 0;
}

static int open_netlink(void)
{
	struct sockaddr_nl sa = {.nl_family = AF_NETLINK,
				 .nl_groups = RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
	int fd =
	    socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

int hostaddr_open(struct hostaddr *h)
{
	*h = (struct hostaddr){.nl_fd = open_netlink()};
	/* after the subscription, so that no change is missed */
	return read_list(h);
}

void hostaddr_close(struct hostaddr *h)
{
	if (h->nl_fd >= 0)
		close(h->nl_fd);
	free(h->ip);
	*h = (struct hostaddr){.nl_fd = -1};
}

void hostaddr_update(struct hostaddr *h, uint64_t now)
{
	bool changed = false;
	char buf[4096];

	if (now - h->looked < (h->nl_fd >= 0 ? LOOK_NS : REREAD_NS))
		return;
	h->looked = now;
	/* What the messages say does not matter; ENOBUFS says that some were lost */
	while (h->nl_fd >= 0 &&
	       (recv(h->nl_fd, buf, sizeof(buf), MSG_DONTWAIT) > 0 || errno == ENOBUFS))
		changed = true;
	if (changed || h->nl_fd < 0)
		read_list(h);
}

bool hostaddr_has(const struct hostaddr *h, const struct net_ip *ip)
{
	if (net_ip_is_v4(ip) && ip->b[12] == 127) /* RFC 1122 3.2.1.3 */
		return true;
	return bsearch(ip, h->ip, h->n, sizeof(*ip), compare);
}
