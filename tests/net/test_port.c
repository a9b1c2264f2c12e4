/*
 * Description: ports within one process, over loopback: packets arrive once and whole, in
 * order, whatever their sizes; what is wrong is counted; paths, QPN leases, the switch.
 */
#include "net/port_internal.h"
#include "tests/net/harness.h"

#include <dirent.h>
#include <sys/stat.h>
#include <sys/file.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "net/port_internal.h"
#include "net/process_table.h"
#include "net/switch.h"

/* Per test, because Check forks for each */
static void setup(void)
{
	h_shm();
}

static void teardown(void)
{
	h_shm_remove();
}

static const char *addr_a(int v6)
{
	return v6 ? "::1" : h_lo(1);
}

static const char *addr_b(int v6)
{
	return v6 ? "::1" : h_lo(2);
}

START_TEST(packets_of_all_sizes_arrive_whole_and_in_order)
{
	static const uint32_t sizes[] = {4, 5, 1024, 4096, 64,	 4096, 4096,
					 8, 8, 8,    7,	   1000, 4096};
	struct h_node a, b;
	uint32_t i, size;

	h_open(&a, addr_a(_i));
	h_open(&b, addr_b(_i));
	for (i = 0; i < 2000; i++) {
		size = sizes[i % 13];
		h_send(&a, &b.ip, b.base + 5, i, size);
		if (i % 50 == 49) {
			ck_assert_int_eq(net_tx_flush(a.port), 0);
			h_wait(&b, i + 1);
			ck_assert_uint_eq(b.last_number, i);
			ck_assert_uint_eq(b.last_len, H_HDR + ((size + 3) & ~3u));
		}
	}
	for (i = 0; i < 2000; i++)
		ck_assert_uint_eq(b.seen[i], 1);
	ck_assert(net_ip_eq(&b.last_path.src, &a.ip));
	ck_assert(net_ip_eq(&b.last_path.dst, &b.ip));
	ck_assert_uint_eq(h_stats(&a).tx_pkts, 2000);
	ck_assert_uint_eq(h_stats(&a).tx_dropped, 0);
	ck_assert_uint_eq(h_stats(&b).rx_bad_icrc, 0);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(equal_packets_travel_in_few_datagrams)
{
	struct h_node a, b;
	uint32_t i;

	/* more than one batch, both by number (64) and by bytes */
	h_open(&a, addr_a(_i));
	h_open(&b, addr_b(_i));
	for (i = 0; i < 200; i++)
		h_send(&a, &b.ip, b.base, i, 16);
	for (; i < 250; i++)
		h_send(&a, &b.ip, b.base, i, 4096);
	net_tx_flush(a.port);
	while (!net_port_poll(b.port, 1))
		usleep(100);
	ck_assert_uint_eq(b.rx, 64);
	h_wait(&b, 250);
	for (i = 0; i < 250; i++)
		ck_assert_uint_eq(b.seen[i], 1);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(a_process_talks_to_itself)
{
	struct h_node a;

	h_open(&a, addr_a(_i));
	h_send(&a, &a.ip, a.base + 1, 42, 100);
	net_tx_flush(a.port);
	h_wait(&a, 1);
	ck_assert_uint_eq(a.last_number, 42);
	h_close(&a);
}
END_TEST

START_TEST(class_and_hop_limit_are_carried)
{
	struct h_node a, b;
	struct net_path path;

	h_open(&a, addr_a(_i));
	h_open(&b, addr_b(_i));
	path = (struct net_path){.src = a.ip, .dst = b.ip, .tclass = 0x68, .ttl = 9};
	ck_assert(h_try_send_path(&a, &path, b.base, 1, 64));
	ck_assert(h_try_send_path(&a, &path, b.base, 2, 64));
	net_tx_flush(a.port);
	h_wait(&b, 2);
	ck_assert_uint_eq(b.last_path.tclass, 0x68);
	ck_assert_uint_eq(b.last_path.ttl, 9);
	path.tclass = path.ttl = 0;
	ck_assert(h_try_send_path(&a, &path, b.base, 3, 64));
	net_tx_flush(a.port);
	h_wait(&b, 3);
	ck_assert_uint_eq(b.last_path.tclass, 0);
	ck_assert_uint_eq(b.last_path.ttl, 64);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(limits_of_tx_get)
{
	struct h_node a;
	struct net_path path;

	h_open(&a, h_lo(1));
	path = (struct net_path){.src = a.ip, .dst = a.ip};
	ck_assert_ptr_null(net_tx_get(a.port, &path, 1, NET_PKT_MAX + 1));
	ck_assert_ptr_null(net_tx_get(a.port, &path, 1, ROCE_BTH_LEN - 1));
	/* an address that is not ours: nothing leaves */
	path.src = h_ip(h_lo(9));
	ck_assert(h_try_send_path(&a, &path, a.base, 1, 64));
	ck_assert_int_eq(net_tx_flush(a.port), 0);
	ck_assert_uint_eq(h_stats(&a).tx_dropped, 1);
	ck_assert_uint_eq(h_stats(&a).tx_pkts, 0);
	/* nobody there: gone like on a wire */
	path.src = a.ip;
	path.dst = h_ip(h_lo(99));
	ck_assert(h_try_send_path(&a, &path, a.base + 0x40000, 1, 64));
	ck_assert_int_eq(net_tx_flush(a.port), 0);
	h_quiet(&a);
	h_close(&a);
}
END_TEST

/* A plain UDP socket that knows no table: another host */
static int stranger(const char *ip, uint16_t *port)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(ip)};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, len), 0);
	getsockname(fd, (struct sockaddr *)&sa, &len);
	*port = ntohs(sa.sin_port);
	return fd;
}

static void stranger_send(int fd, const struct net_ip *dst, uint16_t port, const void *p,
			  size_t len)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port)};

	memcpy(&sa.sin_addr, dst->b + 12, 4);
	ck_assert_int_eq(sendto(fd, p, len, 0, (struct sockaddr *)&sa, sizeof(sa)),
			 (ssize_t)len);
}

/* What the host's routes say, without a packet being sent */
START_TEST(a_route_is_there_or_not)
{
	struct net_ip far = h_ip("10.1.2.3"), group = h_ip("239.1.2.3");
	struct h_node a;

	h_open(&a, h_lo(1));
	ck_assert_int_eq(net_port_route(a.port, &a.ip, &a.ip), 0);
	ck_assert_int_eq(net_port_route(a.port, &a.ip, &group), 0);
	/* where nothing is up, there is no way to anybody */
	if (!unshare(CLONE_NEWNET) || !unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
		ck_assert_int_eq(net_port_route(a.port, &a.ip, &far), -ENETUNREACH);
		ck_assert_int_eq(net_port_route(a.port, &a.ip, &group), 0);
	}
	h_close(&a);
}
END_TEST

static uint32_t build_flush(uint8_t *p, uint32_t dqpn, uint32_t psn)
{
	const struct roce_hdr h = {.opcode = ROCE_RC | ROCE_FLUSH,
				   .pkey = ROCE_PKEY_DEFAULT,
				   .dqpn = dqpn,
				   .psn = psn,
				   .va = 0x0807060504030201,
				   .dma_len = 16,
				   .flush_type = 1};

	return roce_build(p, &h);
}

/* Linux computes the ICRC of a FLUSH, and of nothing else, in a way of its own. */
START_TEST(a_flush_of_linux_is_accepted_and_counted)
{
	struct net_path path;
	struct h_node a;
	uint8_t pkt[64];
	uint32_t len, icrc, i;
	uint16_t port;
	int fd;

	h_open(&a, h_lo(1));
	a.noise = true; /* it has no payload */
	fd = stranger(h_lo(8), &port);
	path = (struct net_path){.src = h_ip(h_lo(8)), .dst = a.ip, .sport = port};
	for (i = 0; i < 3; i++) {
		len = build_flush(pkt, a.base, i);
		icrc = icrc_compute(&path, (uint16_t)(i * 777), pkt, len);
		icrc_store(pkt + len, icrc_linux_flush(icrc, pkt, len));
		stranger_send(fd, &a.ip, ROCE_UDP_PORT, pkt, len + 4);
	}
	h_wait(&a, 3);
	ck_assert_uint_eq(h_stats(&a).rx_linux_flush, 3);
	/* not so for another opcode, or with damage */
	pkt[0] = ROCE_RC | ROCE_READ_REQ;
	icrc_store(pkt + len,
		   icrc_linux_flush(icrc_compute(&path, 0, pkt, len), pkt, len));
	stranger_send(fd, &a.ip, ROCE_UDP_PORT, pkt, len + 4);
	len = build_flush(pkt, a.base, i);
	icrc_store(pkt + len,
		   icrc_linux_flush(icrc_compute(&path, 0, pkt, len), pkt, len));
	pkt[20] ^= 0x10, pkt[27] ^= 4;
	stranger_send(fd, &a.ip, ROCE_UDP_PORT, pkt, len + 4);
	h_until(&a, h_stats(&a).rx_bad_icrc == 2);
	ck_assert_uint_eq(a.rx, 3);
	close(fd);
	h_close(&a);
}
END_TEST

/* To a host that may be Linux or not: what has no answer is sent again in the other form. */
START_TEST(a_flush_takes_the_form_that_is_answered)
{
	struct port_route r = {.path.dst = h_ip("10.1.2.3")};
	const uint32_t right = 0x12345678;
	struct h_node a;
	uint8_t p[64];
	uint32_t len, linux_form;

	h_open(&a, h_lo(1));
	len = build_flush(p, 77, 5);
	linux_form = icrc_linux_flush(right, p, len);
	ck_assert_uint_eq(port_flush_icrc(a.port, &r, right, p, len), right);
	ck_assert(!port_flush_linux(a.port, p));
	ck_assert_uint_eq(port_flush_icrc(a.port, &r, right, p, len), linux_form);
	ck_assert(port_flush_linux(a.port, p));
	/* that was answered */
	build_flush(p, 77, 6);
	ck_assert_uint_eq(port_flush_icrc(a.port, &r, right, p, len),
			  icrc_linux_flush(right, p, len));
	/* on this host nobody else speaks */
	r.local = true;
	ck_assert_uint_eq(port_flush_icrc(a.port, &r, right, p, len), right);
	/* a host from which Linux's form came is Linux, for another QP, too */
	r.local = false;
	a.port->flush.host[0] = r.path.dst = h_ip("10.1.2.4");
	build_flush(p, 78, 6);
	ck_assert_uint_eq(port_flush_icrc(a.port, &r, right, p, len),
			  icrc_linux_flush(right, p, len));
	h_close(&a);
}
END_TEST

START_TEST(a_stranger_reaches_everybody_through_the_switch)
{
	struct h_node a, b;
	struct net_path path;
	uint8_t pkt[4200];
	uint32_t len, i;
	uint16_t port;
	int fd;

	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1)); /* a is the switch */
	ck_assert(net_port_has_roce_port(a.port, &a.ip));
	ck_assert(net_port_has_roce_port(b.port, &a.ip));
	fd = stranger(h_lo(8), &port);
	path = (struct net_path){.src = h_ip(h_lo(8)), .dst = a.ip, .sport = port};
	for (i = 0; i < 10; i++) {
		len = h_build(pkt, i & 1 ? b.base + 3 : a.base + 3, i, 500 + i);
		icrc_store(pkt + len, icrc_compute(&path, (uint16_t)(i * 777), pkt, len));
		stranger_send(fd, &a.ip, ROCE_UDP_PORT, pkt, len + 4);
	}
	h_until(&a, h_stats(&a).rx_forwarded == 5);
	h_wait(&a, 5);
	h_wait(&b, 5);
	ck_assert_uint_eq(h_stats(&a).rx_forwarded, 5);
	ck_assert_uint_eq(b.last_path.sport, port);
	ck_assert_uint_eq(b.last_path.ttl, 64);
	ck_assert(net_ip_eq(&b.last_path.src, &path.src));
	ck_assert(net_ip_eq(&b.last_path.dst, &path.dst));
	close(fd);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(wrong_packets_are_counted_and_dropped)
{
	struct h_node a;
	struct net_path path;
	uint8_t pkt[8192];
	uint32_t len, i;
	uint16_t port;
	int fd;

	h_open(&a, h_lo(1));
	fd = stranger(h_lo(8), &port);
	path = (struct net_path){.src = h_ip(h_lo(8)), .dst = a.ip, .sport = port};
	len = h_build(pkt, a.base, 1, 64);
	icrc_store(pkt + len, icrc_compute(&path, 0, pkt, len));
	pkt[30] ^= 1;
	stranger_send(fd, &a.ip, ROCE_UDP_PORT, pkt, len + 4);
	for (i = 0; i < 16; i++) /* too short, and empty */
		stranger_send(fd, &a.ip, ROCE_UDP_PORT, pkt, i);
	stranger_send(fd, &a.ip, ROCE_UDP_PORT, pkt, sizeof(pkt));
	h_build(pkt, 0, 1, 64); /* QPN 0 */
	stranger_send(fd, &a.ip, ROCE_UDP_PORT, pkt, len + 4);
	h_build(pkt, a.base ^ 0x400000, 1, 64); /* nobody's */
	stranger_send(fd, &a.ip, ROCE_UDP_PORT, pkt, len + 4);
	h_until(&a, h_stats(&a).rx_no_owner == 2);
	ck_assert_uint_eq(h_stats(&a).rx_bad_icrc, 1);
	ck_assert_uint_eq(h_stats(&a).rx_malformed, 17);
	ck_assert_uint_eq(h_stats(&a).rx_no_owner, 2);
	close(fd);
	h_close(&a);
}
END_TEST

START_TEST(noise_does_no_harm)
{
	struct h_node a, b;
	uint8_t pkt[6000];
	unsigned int seed = 11;
	uint16_t port, own;
	uint32_t i, len, k;
	int fd;

	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	h_send(&a, &a.ip, a.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&a, 1);
	own = a.last_path.sport;
	a.noise = b.noise = true;
	fd = stranger(h_lo(1), &port);
	for (i = 0; i < 20000; i++) {
		len = (uint32_t)rand_r(&seed) % (i % 10 ? 120 : sizeof(pkt));
		for (k = 0; k < len; k++)
			pkt[k] = (uint8_t)(rand_r(&seed) >> 4);
		/* now and then something that is looked at more closely */
		if (i % 3 == 0 && len >= 8)
			put_be32(pkt + 4, i & 1 ? a.base : b.base);
		if (i % 5 == 0 && len >= 4)
			memcpy(pkt, (uint8_t[]){0xff, 'u', 'x', 1}, 4);
		if (i % 7 == 0 && len >= 8)
			put_be32(pkt + 4, ROCE_QPN_GSI);
		stranger_send(fd, &a.ip, i & 1 ? own : ROCE_UDP_PORT, pkt, len);
		if (i % 50 == 0)
			while (net_port_poll(a.port, 64) + net_port_poll(b.port, 64))
				;
	}
	h_quiet(&a);
	/* it is as good as before */
	h_send(&b, &a.ip, a.base, 9, 64);
	net_tx_flush(b.port);
	h_until(&a, a.last_number == 9);
	ck_assert_uint_eq(a.last_number, 9);
	ck_assert_uint_ge(h_stats(&a).rx_malformed, 1000);
	ck_assert_uint_ge(h_stats(&a).rx_bad_icrc, 1000);
	close(fd);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(a_forged_switch_header_is_refused)
{
	struct h_node a;
	struct net_path path;
	uint8_t pkt[512] = {0xff, 'u', 'x', 1};
	uint32_t len;
	uint16_t port, to;
	int fd;

	h_open(&a, h_lo(1));
	/* learn the node's own port */
	h_send(&a, &a.ip, a.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&a, 1);
	to = a.last_path.sport;
	fd = stranger(h_lo(1), &port);
	path = (struct net_path){.src = h_ip("10.9.9.9"), .dst = a.ip, .sport = 1234};
	put_be16(pkt + 4, (uint16_t)a.port->slot);
	put_be16(pkt + 8, path.sport);
	memcpy(pkt + 16, path.src.b, 16);
	len = h_build(pkt + 32, a.base, 7, 64);
	icrc_store(pkt + 32 + len, icrc_compute(&path, 0, pkt + 32, len));
	stranger_send(fd, &a.ip, to, pkt, 32 + len + 4);
	h_until(&a, h_stats(&a).rx_malformed == 1);
	h_quiet(&a);
	ck_assert_uint_eq(h_stats(&a).rx_malformed, 1);
	close(fd);
	h_close(&a);
}
END_TEST

/* A datagram that says it is from @src:@sport, where a socket could not be bound */
static void raw_send(int fd, const char *src, uint16_t sport, const struct net_ip *dst,
		     uint16_t dport, const void *p, size_t len)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	uint32_t from = inet_addr(src);
	uint8_t frame[600] = {0x45, [8] = 64, [9] = IPPROTO_UDP};

	memcpy(&sa.sin_addr, dst->b + 12, 4);
	memcpy(frame + 12, &from, 4);
	memcpy(frame + 16, dst->b + 12, 4);
	put_be16(frame + 20, sport);
	put_be16(frame + 22, dport);
	put_be16(frame + 24, (uint16_t)(8 + len)); /* and no checksum */
	memcpy(frame + 28, p, len);
	ck_assert_int_eq(
	    sendto(fd, frame, 28 + len, 0, (struct sockaddr *)&sa, sizeof(sa)),
	    (ssize_t)(28 + len));
}

/*
 * What a switch hands on comes from this host's own address, and from the port of the
 * process that it names. A foreign host may guess both numbers, but not the address.
 */
START_TEST(an_encapsulation_from_a_foreign_address_is_refused)
{
	struct h_node a, b;
	struct net_path path;
	uint8_t pkt[512] = {0};
	uint16_t to, from;
	uint32_t len;
	int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);

	if (fd < 0) {
		fprintf(stderr, "no raw sockets for this user: skipped\n");
		return;
	}
	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	h_send(&a, &a.ip, a.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&a, 1);
	to = a.last_path.sport;
	h_send(&b, &a.ip, a.base, 2, 64);
	net_tx_flush(b.port);
	h_wait(&a, 2);
	from = a.last_path.sport;
	path = (struct net_path){.src = h_ip("10.9.9.9"), .dst = a.ip, .sport = 1234};
	switch_encap_write(pkt, b.port->slot, &path);
	len = h_build(pkt + SWITCH_ENCAP_LEN, a.base, 7, 64);
	icrc_store(pkt + SWITCH_ENCAP_LEN + len,
		   icrc_compute(&path, 0, pkt + SWITCH_ENCAP_LEN, len));
	len += SWITCH_ENCAP_LEN + ROCE_ICRC_LEN;
	/* the port that b has, at another address */
	raw_send(fd, h_lo(2), from, &a.ip, to, pkt, len);
	h_until(&a, h_stats(&a).rx_malformed == 1);
	h_quiet(&a);
	/* at the right one: a header alone, one with less than a packet behind it */
	raw_send(fd, h_lo(1), from, &a.ip, to, pkt, SWITCH_ENCAP_LEN);
	raw_send(fd, h_lo(1), from, &a.ip, to, pkt, SWITCH_ENCAP_LEN + 15);
	h_until(&a, h_stats(&a).rx_malformed == 3);
	h_quiet(&a);
	ck_assert_uint_eq(h_stats(&a).rx_malformed, 3);
	/* and all of it is what the switch itself would send */
	raw_send(fd, h_lo(1), from, &a.ip, to, pkt, len);
	h_wait(&a, 3);
	ck_assert_uint_eq(a.last_number, 7);
	ck_assert(net_ip_eq(&a.last_path.src, &path.src));
	ck_assert_uint_eq(a.last_path.sport, path.sport);
	close(fd);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(addresses_are_counted_and_checked)
{
	struct net_ip foreign = h_ip("192.0.2.1");
	struct h_node a, b;

	h_open(&a, h_lo(1));
	ck_assert_int_eq(net_port_add_ip(a.port, &foreign, "lo"), -EADDRNOTAVAIL);
	ck_assert_int_eq(net_port_add_ip(a.port, &a.ip, "lo"), 0);
	net_port_del_ip(a.port, &a.ip);
	h_send(&a, &a.ip, a.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&a, 1);
	net_port_del_ip(a.port, &a.ip);
	h_send(&a, &a.ip, a.base, 2, 64);
	net_tx_flush(a.port);
	ck_assert_uint_eq(h_stats(&a).tx_dropped, 1);
	/* and is free for the next */
	h_open(&b, h_lo(1));
	ck_assert(net_port_has_roce_port(b.port, &b.ip));
	ck_assert_int_eq(net_port_add_ip(a.port, &a.ip, "lo"), 0);
	h_send(&a, &a.ip, b.base, 3, 64);
	net_tx_flush(a.port);
	h_wait(&b, 1);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(qpn_ranges_do_not_meet)
{
	struct h_node n[8];
	uint32_t base[24], count;
	unsigned int i, j;

	for (i = 0; i < 8; i++) {
		h_open(&n[i], h_lo(1));
		base[3 * i] = n[i].base;
		ck_assert_int_eq(net_port_qpn_lease(n[i].port, &base[3 * i + 1], &count),
				 0);
		ck_assert_int_eq(net_port_qpn_lease(n[i].port, &base[3 * i + 2], &count),
				 0);
		ck_assert_uint_ge(count, 16383);
	}
	for (i = 0; i < 24; i++) {
		ck_assert_uint_ge(base[i], 16384);
		for (j = 0; j < i; j++)
			ck_assert_uint_ne(base[i], base[j]);
	}
	/* later leases are reached, too */
	h_send(&n[0], &n[0].ip, base[5] + 9, 5, 64);
	net_tx_flush(n[0].port);
	h_wait(&n[1], 1);
	for (i = 0; i < 8; i++)
		h_close(&n[i]);
	/* what was given back is not handed out at once */
	h_open(&n[0], h_lo(1));
	for (j = 0; j < 24; j++)
		ck_assert_uint_ne(n[0].base, base[j]);
	h_close(&n[0]);
}
END_TEST

START_TEST(one_descriptor_tells_that_there_is_something)
{
	struct pollfd pfd = {.events = POLLIN};
	uint32_t generation;
	struct h_node a;

	h_open(&a, h_lo(1));
	ck_assert_int_eq(net_port_wait_fds(a.port, &pfd.fd, 1, &generation), 1);
	ck_assert_int_eq(poll(&pfd, 1, 0), 0);
	h_send(&a, &a.ip, a.base, 1, 64);
	net_tx_flush(a.port);
	ck_assert_int_eq(poll(&pfd, 1, 20000), 1);
	h_wait(&a, 1);
	ck_assert_int_eq(poll(&pfd, 1, 0), 0);
	h_close(&a);
}
END_TEST

static int to_slot(void *arg, const uint8_t *mad, uint32_t len)
{
	return *(int *)arg;
}

START_TEST(gsi_packets_go_where_the_router_says)
{
	struct h_node n[3];
	struct net_path path;
	uint8_t pkt[512];
	int slot, i, fd;
	uint16_t port;
	uint32_t len;

	for (i = 0; i < 3; i++)
		h_open(&n[i], h_lo(1));
	/* nobody knows better: everybody gets it */
	h_send(&n[1], &n[1].ip, ROCE_QPN_GSI, 1, 256);
	net_tx_flush(n[1].port);
	for (i = 0; i < 3; i++)
		h_wait(&n[i], 1);
	net_port_set_gsi_router(n[1].port, to_slot, &slot);
	slot = (int)n[2].port->slot;
	h_send(&n[1], &n[1].ip, ROCE_QPN_GSI, 2, 256);
	net_tx_flush(n[1].port);
	h_wait(&n[2], 2);
	slot = NET_GSI_OWN;
	h_send(&n[1], &n[1].ip, ROCE_QPN_GSI, 3, 256);
	net_tx_flush(n[1].port);
	h_wait(&n[1], 2);
	h_quiet(&n[0]);
	h_quiet(&n[2]);
	/* from outside, where n[0] is the switch */
	fd = stranger(h_lo(8), &port);
	path = (struct net_path){.src = h_ip(h_lo(8)), .dst = n[0].ip, .sport = port};
	len = h_build(pkt, ROCE_QPN_GSI, 4, 256);
	icrc_store(pkt + len, icrc_compute(&path, 0, pkt, len));
	net_port_set_gsi_router(n[0].port, to_slot, &slot);
	slot = (int)n[2].port->slot;
	stranger_send(fd, &n[0].ip, ROCE_UDP_PORT, pkt, len + 4);
	h_quiet(&n[0]);
	h_wait(&n[2], 3);
	slot = NET_GSI_ALL;
	stranger_send(fd, &n[0].ip, ROCE_UDP_PORT, pkt, len + 4);
	h_wait(&n[0], 2);
	h_wait(&n[1], 3);
	h_wait(&n[2], 4);
	close(fd);
	for (i = 0; i < 3; i++)
		h_close(&n[i]);
}
END_TEST

START_TEST(registry_keeps_claims_apart)
{
	struct h_node a, b;
	unsigned int slot;
	uint64_t k;

	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	ck_assert_int_eq(net_registry_find(a.port, 5, &slot), -ENOENT);
	ck_assert_int_eq(net_registry_claim(a.port, 5, true), 0);
	ck_assert_int_eq(net_registry_claim(b.port, 5, true), -EADDRINUSE);
	ck_assert_int_eq(net_registry_claim(b.port, 5, false), -EADDRINUSE);
	ck_assert_int_eq(net_registry_claim(a.port, 5, true), -EADDRINUSE);
	ck_assert_int_eq(net_registry_find(b.port, 5, &slot), 0);
	ck_assert_uint_eq(slot, a.port->slot);
	ck_assert_int_eq(net_registry_release(b.port, 5), -ENOENT);
	ck_assert_int_eq(net_registry_release(a.port, 5), 0);
	ck_assert_int_eq(net_registry_claim(b.port, 5, false), 0);
	ck_assert_int_eq(net_registry_claim(a.port, 5, false), 0);
	ck_assert_int_eq(net_registry_find(a.port, 5, &slot), 0);
	ck_assert_uint_eq(slot, a.port->slot);
	for (k = 1000; k < 3000; k++)
		ck_assert_int_eq(net_registry_claim(a.port, k, true), 0);
	for (k = 1000; k < 3000; k++)
		ck_assert_int_eq(net_registry_find(b.port, k, &slot), 0);
	/* the end of a process is the end of its claims */
	h_close(&a);
	usleep(120000);
	net_port_poll(b.port, 1);
	for (k = 1000; k < 3000; k++)
		ck_assert_int_eq(net_registry_claim(b.port, k, true), 0);
	h_close(&b);
}
END_TEST

/* The files in the table's directory; the name of the last one in @name */
static int count_tables(char name[400])
{
	DIR *d = opendir(h_shm());
	struct dirent *e;
	int n = 0;

	while ((e = readdir(d)))
		if (e->d_name[0] != '.') {
			snprintf(name, 400, "%s/%s", h_shm(), e->d_name);
			n++;
		}
	closedir(d);
	return n;
}

/* As the table @own would be called in another network namespace */
static void name_of_other_namespace(const char *own, char *other, size_t size)
{
	const char *number = strrchr(own, '/') + strlen("/urxe2.");

	snprintf(other, size, "%.*s9%s", (int)(number - own), own, number);
}

START_TEST(tables_of_namespaces_that_are_gone_are_removed)
{
	char own[400], other[404];
	struct h_node a, b;

	h_open(&a, h_lo(1));
	ck_assert_int_eq(count_tables(own), 1);
	name_of_other_namespace(own, other, sizeof(other));
	ck_assert_int_eq(rename(own, other), 0);
	table_remove_stale(h_shm());
	ck_assert_int_eq(access(other, F_OK), 0); /* somebody uses it */
	h_open(&b, h_lo(2));
	h_close(&a);
	table_remove_stale(h_shm());
	ck_assert_int_eq(access(other, F_OK), -1);
	h_close(&b);
	table_remove_stale(h_shm());
	ck_assert_int_eq(count_tables(own), 1); /* this namespace lives */
	name_of_other_namespace(own, other, sizeof(other));
	ck_assert_int_eq(symlink(own, other), 0);
	table_remove_stale(h_shm());
	ck_assert_int_eq(count_tables(other), 2); /* what is no table stays */
}
END_TEST

static void write_file(const char *name, mode_t mode)
{
	int fd = open(name, O_CREAT | O_EXCL | O_WRONLY, mode);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, "precious", 8), 8);
	ck_assert_int_eq(fchmod(fd, mode), 0);
	close(fd);
}

START_TEST(what_has_the_name_of_a_table_and_is_none_stays)
{
	char own[400], other[404];
	struct h_node a;

	h_open(&a, h_lo(1));
	h_close(&a);
	ck_assert_int_eq(count_tables(own), 1);
	name_of_other_namespace(own, other, sizeof(other));
	write_file(other, 0600);
	table_remove_stale(h_shm());
	ck_assert_int_eq(access(other, F_OK), 0);
}
END_TEST

/* Names can be foretold but for their end: somebody else may have as many as he likes. */
START_TEST(nobody_can_take_the_place_of_the_table)
{
	struct h_node a, b;
	char own[400], name[404];
	const char *end[] = {"000000", "000001", "000002", "000003", "000004"};
	size_t n;

	h_open(&a, h_lo(1));
	h_close(&a);
	ck_assert_int_eq(count_tables(own), 1);
	ck_assert_int_eq(unlink(own), 0);
	n = strlen(own) - 6;
	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "%.*s%s", (int)n, own, end[i]);
		if (i == 0) /* readable by others */
			write_file(name, 0644);
		else if (i == 1) /* of another length */
			write_file(name, 0600);
		else if (i == 2)
			ck_assert_int_eq(mkdir(name, 0700), 0);
		else if (i == 3)
			ck_assert_int_eq(symlink("/dev/null", name), 0);
		else /* another user's, if this one may give it away */
			ck_assert_int_eq(
			    mkfifo(name, 0600) ||
				(geteuid() == 0 && chown(name, 65534, 65534)),
			    0);
	}
	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	ck_assert_int_eq(count_tables(name), 6);
	h_send(&a, &b.ip, b.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&b, 1);
	h_close(&a);
	h_close(&b);
}
END_TEST

/* As a user whose files are closed to him by their mode */
static int meet_under_a_closed_umask(void)
{
	struct h_node a, b;

	if (geteuid() == 0 &&
	    (chown(h_shm(), 65534, 65534) || setresuid(65534, 65534, 65534)))
		return 1;
	umask(0777);
	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	h_send(&a, &b.ip, b.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&b, 1);
	return 0;
}

START_TEST(the_umask_separates_nobody)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(meet_under_a_closed_umask());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* Somebody else may keep the lock under which tables are made. */
START_TEST(a_locked_directory_delays_only)
{
	int fd = open(h_shm(), O_RDONLY | O_DIRECTORY);
	struct h_node a;

	ck_assert_int_eq(flock(fd, LOCK_EX), 0);
	h_open(&a, h_lo(1));
	h_close(&a);
	close(fd);
}
END_TEST

/* The one who removes holds this lock (see table_file.c), and the file is still there. */
START_TEST(a_table_that_is_being_removed_is_made_anew)
{
	struct flock fl = {
	    .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1025, .l_len = 1};
	char own[400];
	struct h_node a, b;
	pid_t pid;
	int fd;

	h_open(&a, h_lo(1));
	h_close(&a);
	ck_assert_int_eq(count_tables(own), 1);
	fd = open(own, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_OFD_SETLK, &fl), 0);
	pid = fork();
	if (!pid) {
		usleep(100000);
		_exit(unlink(own)); /* and lets go of the lock */
	}
	close(fd);
	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	ck_assert_int_eq(count_tables(own), 1);
	h_send(&a, &b.ip, b.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&b, 1);
	waitpid(pid, NULL, 0);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(a_group_reaches_its_members)
{
	/*
	 * over lo, IPv4 only: there Linux has no route for IPv6 groups (see test_wire.c)
	 */
	struct net_ip group = h_ip(h_group());
	struct h_node n[3];
	struct net_path path;
	int i;

	for (i = 0; i < 3; i++)
		h_open(&n[i], h_lo(1));
	ck_assert_int_eq(net_port_mcast(n[0].port, &group, "lo", true), 0);
	ck_assert_int_eq(net_port_mcast(n[0].port, &group, "lo", true), 0);
	ck_assert_int_eq(net_port_mcast(n[1].port, &group, "lo", true), 0);
	path = (struct net_path){.src = n[2].ip, .dst = group};
	ck_assert(h_try_send_path(&n[2], &path, ROCE_QPN_MULTICAST, 1, 100));
	ck_assert(h_try_send_path(&n[2], &path, ROCE_QPN_MULTICAST, 2, 100));
	net_tx_flush(n[2].port);
	h_wait(&n[0], 2);
	h_wait(&n[1], 2);
	h_quiet(&n[2]);
	ck_assert(net_ip_eq(&n[0].last_path.dst, &group));
	ck_assert(net_ip_eq(&n[0].last_local, &n[0].ip));
	/* a member that sends hears itself; counted leaves */
	path.src = n[0].ip;
	ck_assert_int_eq(net_port_mcast(n[0].port, &group, "lo", false), 0);
	ck_assert(h_try_send_path(&n[0], &path, ROCE_QPN_MULTICAST, 3, 100));
	net_tx_flush(n[0].port);
	h_wait(&n[0], 3);
	h_wait(&n[1], 3);
	ck_assert_int_eq(net_port_mcast(n[0].port, &group, "lo", false), 0);
	ck_assert_int_eq(net_port_mcast(n[0].port, &group, "lo", false), -EADDRNOTAVAIL);
	ck_assert(h_try_send_path(&n[0], &path, ROCE_QPN_MULTICAST, 4, 100));
	net_tx_flush(n[0].port);
	h_wait(&n[1], 4);
	h_quiet(&n[0]);
	for (i = 0; i < 3; i++)
		h_close(&n[i]);
}
END_TEST

START_TEST(bad_settings_are_refused)
{
	struct net_port_cfg cfg = {.backend = "carrier-pigeon", .shm_dir = h_shm()};
	struct net_port *p;

	ck_assert_int_eq(net_port_open(&cfg, &p), -EINVAL);
	cfg = (struct net_port_cfg){.shm_dir = "/nonexistent"};
	ck_assert_int_eq(net_port_open(&cfg, &p), -ENOENT);
}
END_TEST

/* What Docker does by default */
static void deny_io_uring(void)
{
	struct sock_filter f[] = {
	    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
	    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {4, f};

	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog), 0);
}

START_TEST(sockets_take_over_where_io_uring_is_denied)
{
	struct net_port_cfg cfg = {.ops = &h_ops, .backend = "uring", .shm_dir = h_shm()};
	struct net_port *p;

	deny_io_uring();
	ck_assert_int_eq(net_port_open(&cfg, &p), 0);
	ck_assert_str_eq(p->be_ops->name, "socket");
	net_port_close(p);
}
END_TEST

START_TEST(path_mtu_is_the_route_s)
{
	struct h_node a;

	h_open(&a, h_lo(1));
	ck_assert_int_ge(net_port_path_mtu(a.port, &a.ip), 1500);
	h_close(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("port");
	TCase *t = tcase_create("port");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, packets_of_all_sizes_arrive_whole_and_in_order, 0, 2);
	tcase_add_loop_test(t, equal_packets_travel_in_few_datagrams, 0, 2);
	tcase_add_loop_test(t, a_process_talks_to_itself, 0, 2);
	tcase_add_loop_test(t, class_and_hop_limit_are_carried, 0,
			    check_emulated("IPV6_FLOWINFO") ? 1 : 2);
	tcase_add_test(t, a_route_is_there_or_not);
	tcase_add_test(t, a_flush_of_linux_is_accepted_and_counted);
	tcase_add_test(t, a_flush_takes_the_form_that_is_answered);
	tcase_add_test(t, limits_of_tx_get);
	tcase_add_test(t, a_stranger_reaches_everybody_through_the_switch);
	tcase_add_test(t, wrong_packets_are_counted_and_dropped);
	tcase_add_test(t, noise_does_no_harm);
	tcase_add_test(t, a_forged_switch_header_is_refused);
	tcase_add_test(t, an_encapsulation_from_a_foreign_address_is_refused);
	tcase_add_test(t, addresses_are_counted_and_checked);
	tcase_add_test(t, qpn_ranges_do_not_meet);
	tcase_add_test(t, one_descriptor_tells_that_there_is_something);
	tcase_add_test(t, gsi_packets_go_where_the_router_says);
	tcase_add_test(t, registry_keeps_claims_apart);
	tcase_add_test(t, tables_of_namespaces_that_are_gone_are_removed);
	tcase_add_test(t, what_has_the_name_of_a_table_and_is_none_stays);
	tcase_add_test(t, nobody_can_take_the_place_of_the_table);
	tcase_add_test(t, the_umask_separates_nobody);
	tcase_add_test(t, a_locked_directory_delays_only);
	tcase_add_test(t, a_table_that_is_being_removed_is_made_anew);
	if (!check_emulated("group by interface"))
		tcase_add_test(t, a_group_reaches_its_members);
	tcase_add_test(t, bad_settings_are_refused);
	if (!check_emulated("seccomp"))
		tcase_add_test(t, sockets_take_over_where_io_uring_is_denied);
	if (!check_emulated("IP_MTU"))
		tcase_add_test(t, path_mtu_is_the_route_s);
	suite_add_tcase(s, t);
	return h_main(s);
}
