/*
 * harness.h - what the tests of net share: a node is a port with one address, that
 * remembers what it received.
 *
 * Packets of the tests are UD SEND_ONLY; the payload begins with a number and goes on
 * with a pattern made from it, so that a node sees whether a packet is whole.
 */
#ifndef URXE_TESTS_NET_HARNESS_H
#define URXE_TESTS_NET_HARNESS_H

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "net/bytes.h"
#include "net/icrc.h"
#include "net/port.h"
#include "net/rocev2.h"
#include "tests/check_main.h"

#define H_HDR  20	 /* BTH and DETH */
#define H_SEEN (1 << 20) /* numbers that a node can tell apart */

/*
 * struct h_node
 * @seen:	how often each number came
 * @rx:		packets; @last: the last one's
 * @strict:	each number is to be the last one's successor
 * @noise:	packets may be anything: one in 65536 passes the ICRC's check
 */
struct h_node {
	struct net_port *port;
	struct net_ip ip;
	uint32_t base, count;
	uint8_t *seen;
	unsigned int rx, gsi, mcast;
	bool strict, noise;
	uint32_t last_number, last_len;
	struct net_path last_path;
	struct net_ip last_local;
};

static inline struct net_ip h_ip(const char *text)
{
	struct net_ip ip = {.b = {[10] = 0xff, [11] = 0xff}};

	if (inet_pton(AF_INET, text, ip.b + 12) != 1)
		ck_assert_int_eq(inet_pton(AF_INET6, text, ip.b), 1);
	return ip;
}

/*
 * Loopback addresses that no other test process uses, so that each has UDP port 4791 to
 * itself: 127.x.y.0/24, made of the id of the process that h_main() began in (Check forks
 * for each test).
 */
static inline uint32_t h_net(void)
{
	static uint32_t pid;

	if (!pid)
		pid = (uint32_t)getpid();
	return pid;
}

/* The address 127.x.y.@host */
static inline const char *h_lo(uint8_t host)
{
	static char text[256][16];

	snprintf(text[host], sizeof(text[host]), "127.%u.%u.%u",
		 64 + (h_net() >> 8) % 128, h_net() & 0xff, host);
	return text[host];
}

/* A multicast group of this test process */
static inline const char *h_group(void)
{
	static char text[16];

	snprintf(text, sizeof(text), "239.7.%u.%u", (h_net() >> 8) & 0xff,
		 h_net() & 0xff);
	return text;
}

static inline uint64_t h_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/*
 * A directory of its own for the table, so that other processes of this user do not
 * matter
 */
static inline const char *h_shm(void)
{
	static char dir[64];

	if (!dir[0]) {
		strcpy(dir, "/tmp/urxe-test-XXXXXX");
		ck_assert_ptr_nonnull(mkdtemp(dir));
	}
	return dir;
}

/* Before each test, because Check forks for each */
static inline void h_setup(void)
{
	h_shm();
}

static inline void h_shm_remove(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", h_shm());
	ck_assert_int_eq(system(cmd), 0);
}

static inline uint8_t h_pattern(uint32_t number, uint32_t i)
{
	return (uint8_t)(number * 31 + i * 7);
}

static inline void h_rx(void *arg, const struct net_rx *pkt)
{
	struct h_node *n = arg;
	const uint8_t *payload;
	struct roce_hdr h;
	uint32_t len, i;

	if (n->noise) {
		n->rx++;
		n->last_number = pkt->len >= H_HDR + 4 ? get_be32(pkt->data + H_HDR) : 0;
		return;
	}
	ck_assert_int_eq(roce_parse(pkt->data, pkt->len, &h, &payload, &len), 0);
	ck_assert_uint_ge(len, 4);
	if (n->strict)
		ck_assert_uint_eq(get_be32(payload), n->last_number + 1);
	n->last_number = get_be32(payload);
	for (i = 4; i < len && payload[i] == h_pattern(n->last_number, i); i++)
		;
	ck_assert_uint_eq(i, len);
	n->seen[n->last_number % H_SEEN]++;
	n->rx++;
	n->gsi += h.dqpn == ROCE_QPN_GSI;
	n->mcast += h.dqpn == ROCE_QPN_MULTICAST;
	n->last_len = pkt->len;
	n->last_path = *pkt->path;
	n->last_local = *pkt->local;
}

static const struct net_port_ops h_ops = {.rx = h_rx};

static inline int h_try_open_cfg(struct h_node *n, const struct net_port_cfg *how)
{
	struct net_port_cfg cfg = *how;
	int ret;

	memset(n, 0, sizeof(*n));
	n->seen = calloc(1, H_SEEN);
	cfg.ops = &h_ops;
	cfg.arg = n;
	cfg.shm_dir = h_shm();
	cfg.backend = getenv("URXE_TEST_BACKEND");
	ret = net_port_open(&cfg, &n->port);
	if (ret)
		free(n->seen);
	return ret;
}

static inline void h_open_cfg(struct h_node *n, const char *ip, const char *ifname,
			      const struct net_port_cfg *how)
{
	ck_assert_int_eq(h_try_open_cfg(n, how), 0);
	n->ip = h_ip(ip);
	ck_assert_int_eq(net_port_add_ip(n->port, &n->ip, ifname), 0);
	ck_assert_int_eq(net_port_qpn_lease(n->port, &n->base, &n->count), 0);
}

/* With sockets alone, unless URXE_TEST_LANES is set */
static inline void h_open(struct h_node *n, const char *ip)
{
	h_open_cfg(n, ip, "lo",
		   &(struct net_port_cfg){.no_lanes = !getenv("URXE_TEST_LANES")});
}

static inline void h_open_lanes(struct h_node *n, const char *ip)
{
	h_open_cfg(n, ip, "lo", &(struct net_port_cfg){.ops = NULL});
}

static inline void h_close(struct h_node *n)
{
	net_port_close(n->port);
	free(n->seen);
}

/* Bytes of packet @number with @len bytes of payload, BTH to last pad byte */
static inline uint32_t h_build(uint8_t *p, uint32_t dqpn, uint32_t number, uint32_t len)
{
	struct roce_hdr h = {.opcode = ROCE_UD | ROCE_SEND_ONLY,
			     .pkey = ROCE_PKEY_DEFAULT,
			     .dqpn = dqpn,
			     .psn = number & ROCE_PSN_MASK,
			     .pad = -len & 3};
	uint32_t i;

	roce_build(p, &h);
	put_be32(p + H_HDR, number);
	for (i = 4; i < len; i++)
		p[H_HDR + i] = h_pattern(number, i);
	memset(p + H_HDR + len, 0, h.pad);
	return H_HDR + len + h.pad;
}

static inline bool h_try_send_path(struct h_node *n, const struct net_path *path,
				   uint32_t dqpn, uint32_t number, uint32_t len)
{
	uint8_t *p = net_tx_get(n->port, path, dqpn, H_HDR + len + (-len & 3));

	if (!p)
		return false;
	h_build(p, dqpn, number, len);
	net_tx_put(n->port);
	return true;
}

static inline void h_send(struct h_node *n, const struct net_ip *dst, uint32_t dqpn,
			  uint32_t number, uint32_t len)
{
	struct net_path path = {.src = n->ip, .dst = *dst};

	ck_assert(h_try_send_path(n, &path, dqpn, number, len));
}

/* Longer than anything takes on a machine that is busy with something else */
#define H_PATIENCE_NS 30000000000ull

/* Poll node @n until @cond holds, or patience is at its end */
#define h_until(n, cond)                                                                 \
	do {                                                                             \
		uint64_t end_ = h_now() + H_PATIENCE_NS;                                 \
		while (!(cond) && h_now() < end_)                                        \
			if (!net_port_poll((n)->port, 64))                               \
				usleep(100);                                             \
	} while (0)

/* Poll @n until it has @rx packets */
static inline void h_wait(struct h_node *n, unsigned int rx)
{
	h_until(n, n->rx >= rx);
	ck_assert_uint_eq(n->rx, rx);
}

/* Nothing comes for a while */
static inline void h_quiet(struct h_node *n)
{
	unsigned int rx = n->rx, i;

	for (i = 0; i < 20; i++) {
		net_port_poll(n->port, 64);
		usleep(1000);
	}
	ck_assert_uint_eq(n->rx, rx);
}

static inline struct net_stats h_stats(const struct h_node *n)
{
	struct net_stats s;

	net_port_stats(n->port, &s);
	return s;
}

static inline int h_main(Suite *s)
{
	h_net();
	return check_main(s);
}

#endif
