/*
 * Description: what comes from another host, which knows no table and may send anything: it goes
 * to whom it is for, as the switch and the router say; what is wrong is counted and dropped.
 */
#include "tests/net/harness.h"

#include <sys/socket.h>

#include "net/port_internal.h"
#include "net/process_table.h"
#include "net/switch.h"

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

/* One byte of the mark differs: it is of another version, or something else */
START_TEST(only_what_is_marked_is_a_switch_header)
{
	uint8_t p[SWITCH_ENCAP_LEN];
	struct net_path path = {.src = h_ip("10.9.9.9"), .sport = 1234};
	struct switch_encap e;

	switch_encap_write(p, 5, &path);
	ck_assert(switch_encap_read(p, sizeof(p), &e));
	ck_assert_uint_eq(e.slot, 5);
	ck_assert(!switch_encap_read(p, sizeof(p) - 1, &e));
	p[_i]++;
	ck_assert(!switch_encap_read(p, sizeof(p), &e));
}
END_TEST

/* The port that a process has for itself is not its neighbour's */
START_TEST(a_packet_that_came_to_the_wrong_process_is_dropped)
{
	struct h_node a, b;
	struct net_path path;
	uint8_t pkt[512];
	uint16_t port, to;
	uint32_t len;
	int fd;

	h_open(&a, h_lo(1));
	h_open(&b, h_lo(1));
	h_send(&a, &a.ip, a.base, 1, 64);
	net_tx_flush(a.port);
	h_wait(&a, 1);
	to = a.last_path.sport;
	fd = stranger(h_lo(8), &port);
	path = (struct net_path){.src = h_ip(h_lo(8)), .dst = a.ip, .sport = port};
	len = h_build(pkt, b.base, 2, 64);
	icrc_store(pkt + len, icrc_compute(&path, 0, pkt, len));
	stranger_send(fd, &a.ip, to, pkt, len + 4);
	h_until(&a, h_stats(&a).rx_no_owner == 1 || a.rx > 1);
	ck_assert_uint_eq(h_stats(&a).rx_no_owner, 1);
	ck_assert_uint_eq(a.rx, 1);
	h_quiet(&b);
	close(fd);
	h_close(&a);
	h_close(&b);
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

int main(void)
{
	Suite *s = suite_create("strangers");
	TCase *t = tcase_create("strangers");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, h_setup, h_shm_remove);
	tcase_add_test(t, a_flush_of_linux_is_accepted_and_counted);
	tcase_add_test(t, a_flush_takes_the_form_that_is_answered);
	tcase_add_test(t, a_stranger_reaches_everybody_through_the_switch);
	tcase_add_test(t, wrong_packets_are_counted_and_dropped);
	tcase_add_test(t, noise_does_no_harm);
	tcase_add_test(t, a_forged_switch_header_is_refused);
	tcase_add_loop_test(t, only_what_is_marked_is_a_switch_header, 0, 4);
	tcase_add_test(t, a_packet_that_came_to_the_wrong_process_is_dropped);
	tcase_add_test(t, an_encapsulation_from_a_foreign_address_is_refused);
	tcase_add_test(t, gsi_packets_go_where_the_router_says);
	suite_add_tcase(s, t);
	return h_main(s);
}
