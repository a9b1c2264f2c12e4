/*
 * hostaddr.h - which addresses are this host's.
 *
 * Keeps a sorted copy of the kernel's list, refreshed when rtnetlink says that it
 * changed. Knows nothing of devices; an address counts whether or not a device lies over
 * its interface.
 */
#ifndef URXE_NET_HOSTADDR_H
#define URXE_NET_HOSTADDR_H

#include <stdbool.h>
#include <stdint.h>

#include "net/path.h"

/*
 * struct hostaddr
 * @ip, @n:	sorted by memcmp()
 * @nl_fd:	rtnetlink, -1 where it is denied: then the list is read again now and then
 * @looked:	when hostaddr_update() last did something, ns
 * @generation:	changes with the list
 */
struct hostaddr {
	struct net_ip *ip;
	unsigned int n;
	int nl_fd;
	uint64_t looked;
	uint32_t generation;
};

/* Returns 0, or -errno when the addresses cannot be read */
int hostaddr_open(struct hostaddr *h);
void hostaddr_close(struct hostaddr *h);
/*
 * hostaddr_update - cheap; reads the list again if it changed. @now: ns of
 * CLOCK_MONOTONIC
 */
void hostaddr_update(struct hostaddr *h, uint64_t now);
bool hostaddr_has(const struct hostaddr *h, const struct net_ip *ip);

#endif
