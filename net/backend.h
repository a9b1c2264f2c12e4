/*
 * backend.h - how datagrams get in and out: the interface of the backends.
 *
 * A backend moves bytes between sockets and buffers, many packets at a time. It does not
 * look into packets, and knows nothing of ICRCs, QPNs or processes.
 */
#ifndef URXE_NET_BACKEND_H
#define URXE_NET_BACKEND_H

#include <stdint.h>

#include "net/sock.h"

#define NET_DGRAM_MAX	65507 /* UDP payload in an IPv4 packet */
#define NET_BATCH_SEGS	64    /* UDP_MAX_SEGMENTS of Linux before 6.9 */
#define NET_BATCHES_MAX 32    /* in one call of send */

/*
 * struct net_dgram - what was received in one go: packets of @seg bytes, the last may be
 * shorter
 * @data: valid and writable during the callback
 */
struct net_dgram {
	struct net_ip src;
	uint16_t sport;
	uint8_t tclass;
	uint8_t ttl;
	uint32_t flow;
	uint8_t *data;
	uint32_t len;
	uint32_t seg;
};

/*
 * struct net_batch - packets to one destination, to be sent in one go
 * @seg: bytes of each of the @n packets but the last, which may have less
 * @encap: packets of the switch, whose ICRC is not ours (for the port layer only)
 * @err: 0, or -errno of a batch that was not sent
 */
struct net_batch {
	struct net_sock *sk;
	union net_sa dst;
	uint8_t *data;
	uint32_t len;
	uint16_t seg;
	uint16_t n;
	uint8_t tclass;
	uint8_t ttl;
	uint32_t flow;
	bool encap;
	int err;
};

struct net_backend;

typedef void (*net_backend_rx)(void *arg, struct net_sock *sk, const struct net_dgram *d);

/*
 * struct net_backend_ops
 * @open:	0 or -errno (the kernel does not have it or denies it)
 * @add:	receive on a socket from now on. 0 or -errno
 * @del:	no more; the caller closes the descriptor afterwards. @forked: this is the
 *		child's copy of a parent that goes on receiving
 * @poll:	hand what was received to @fn, at most about @budget packets; how many
 * @send:	send batches in order; how many were dealt with (err says how); fewer than
 *		@n when the kernel's buffer is full
 * @wait_fd:	readable when poll would find something
 */
struct net_backend_ops {
	const char *name;
	int (*open)(struct net_backend **out);
	void (*close)(struct net_backend *be);
	int (*add)(struct net_backend *be, struct net_sock *sk);
	void (*del)(struct net_backend *be, struct net_sock *sk, bool forked);
	int (*poll)(struct net_backend *be, int budget, net_backend_rx fn, void *arg);
	unsigned int (*send)(struct net_backend *be, struct net_batch *b, unsigned int n);
	int (*wait_fd)(struct net_backend *be);
};

extern const struct net_backend_ops net_backend_socket;
extern const struct net_backend_ops net_backend_uring;

/* --- shared by the backends (backend.c) ------------------------------------------- */

#define NET_CTL_LEN 96 /* room for the control messages of one datagram, either way */

/* Control messages that @b needs; their length, 0 for none */
size_t net_ctl_write(const struct net_batch *b, void *ctl);
/*
 * @d->seg, tclass, ttl, flow from the control messages of @msg; seg is @d->len without
 * one
 */
void net_ctl_read(struct msghdr *msg, struct net_dgram *d);
/* src and sport */
void net_from_sa(struct net_dgram *d, const union net_sa *sa);

#endif
