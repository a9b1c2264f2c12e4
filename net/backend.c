/*
 * backend.c - control messages and addresses, the same for all backends.
 */
#include "net/backend.h"

#include <linux/in6.h>
#include <linux/udp.h>

static struct cmsghdr *put(struct cmsghdr *c, int level, int type, const void *data,
			   size_t len)
{
	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(c), data, len);
	return (struct cmsghdr *)((uint8_t *)c + CMSG_SPACE(len));
}

size_t net_ctl_write(const struct net_batch *b, void *ctl)
{
	struct cmsghdr *c = ctl;
	int v;

	if (b->n > 1)
		c = put(c, IPPROTO_UDP, UDP_SEGMENT, &b->seg, sizeof(b->seg));
	if (b->tclass) {
		v = b->tclass;
		c = b->sk->v4 ? put(c, IPPROTO_IP, IP_TOS, &v, sizeof(v))
			      : put(c, IPPROTO_IPV6, IPV6_TCLASS, &v, sizeof(v));
	}
	if (b->ttl && b->ttl != NET_DEFAULT_TTL) {
		v = b->ttl;
		c = b->sk->v4 ? put(c, IPPROTO_IP, IP_TTL, &v, sizeof(v))
			      : put(c, IPPROTO_IPV6, IPV6_HOPLIMIT, &v, sizeof(v));
	}
	if (b->flow) {
		v = (int)htonl(b->flow);
		c = put(c, IPPROTO_IPV6, IPV6_FLOWINFO, &v, sizeof(v));
	}
	return (size_t)((uint8_t *)c - (uint8_t *)ctl);
}

static int get_int(struct cmsghdr *c)
{
	int v = 0;

	if (c->cmsg_len >= CMSG_LEN(sizeof(v)))
		memcpy(&v, CMSG_DATA(c), sizeof(v));
	return v;
}

static void read_one(struct cmsghdr *c, struct net_dgram *d)
{
	uint32_t info;

	if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
		d->seg = (uint32_t)get_int(c);
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) {
		d->ttl = (uint8_t)get_int(c);
	} else if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) {
		d->tclass = *(uint8_t *)CMSG_DATA(c); /* one byte: ip(7) */
	} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT) {
		d->ttl = (uint8_t)get_int(c);
	} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_FLOWINFO) {
		info = ntohl((uint32_t)get_int(c));
		d->tclass = (uint8_t)(info >> 20);
		d->flow = info & 0xfffff;
	}
}

void net_ctl_read(struct msghdr *msg, struct net_dgram *d)
{
	struct cmsghdr *c;

	d->seg = d->len;
	d->tclass = 0;
	d->ttl = 0;
	d->flow = 0;
	for (c = CMSG_FIRSTHDR(msg); c; c = CMSG_NXTHDR(msg, c))
		read_one(c, d);
	if (!d->seg || d->seg > d->len)
		d->seg = d->len;
}

void net_from_sa(struct net_dgram *d, const union net_sa *sa)
{
	if (sa->sa.sa_family == AF_INET) {
		memset(d->src.b, 0, 10);
		memset(d->src.b + 10, 0xff, 2);
		memcpy(d->src.b + 12, &sa->in.sin_addr, 4);
		d->sport = ntohs(sa->in.sin_port);
	} else {
		memcpy(d->src.b, &sa->in6.sin6_addr, 16);
		d->sport = ntohs(sa->in6.sin6_port);
	}
}
