/*
 * Description: ports within one process, over loopback: packets arrive once and whole, in
 * order, whatever their sizes; routes, addresses, groups, QPN leases; what opening refuses.
 */
#include "tests/net/harness.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "net/port_internal.h"

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

/* Also where packets of several labels are sent at once, and none where none is asked for */
/* There are more classes than routes that are remembered */
START_TEST(each_packet_has_the_class_of_its_path)
{
	struct net_path path;
	struct h_node a, b;
	uint32_t i;

	h_open(&a, h_lo(1));
	h_open(&b, h_lo(2));
	path = (struct net_path){.src = a.ip, .dst = b.ip, .ttl = 64};
	for (i = 0; i < 256; i++) {
		path.tclass = (uint8_t)i;
		ck_assert(h_try_send_path(&a, &path, b.base, i, 64));
		net_tx_flush(a.port);
		h_wait(&b, i + 1);
		ck_assert_uint_eq(b.last_path.tclass, i);
	}
	h_close(&a);
	h_close(&b);
}
END_TEST

static const struct net_backend_ops *real;

static unsigned int send_no_batches(struct net_backend *be, struct net_batch *b,
				    unsigned int n)
{
	if (b->n == 1)
		return real->send(be, b, 1);
	b->err = -EIO;
	return 1;
}

/* As on a path where the kernel cuts nothing: each goes alone, and is as long as it was */
START_TEST(a_batch_that_is_refused_goes_packet_by_packet)
{
	static struct net_backend_ops ops;
	struct h_node a, b;

	h_open(&a, addr_a(_i));
	h_open(&b, addr_b(_i));
	real = a.port->be_ops;
	ops = *real;
	ops.send = send_no_batches;
	a.port->be_ops = &ops;
	h_send(&a, &b.ip, b.base, 1, 1000);
	h_send(&a, &b.ip, b.base, 2, 1000);
	h_send(&a, &b.ip, b.base, 3, 500);
	net_tx_flush(a.port);
	h_until(&b, b.rx + h_stats(&b).rx_bad_icrc == 3);
	ck_assert_uint_eq(b.rx, 3);
	ck_assert_uint_eq(b.last_len, H_HDR + 500);
	ck_assert_uint_eq(h_stats(&a).tx_pkts, 3);
	h_close(&a);
	h_close(&b);
}
END_TEST

/* It is dropped at once: no socket can send it */
START_TEST(a_path_between_families_is_none)
{
	struct net_path path;
	struct h_node a;

	h_open(&a, addr_a(_i));
	path = (struct net_path){.src = a.ip, .dst = h_ip(addr_a(!_i))};
	ck_assert(h_try_send_path(&a, &path, a.base, 1, 64));
	ck_assert_uint_eq(h_stats(&a).tx_dropped, 1);
	net_tx_flush(a.port);
	ck_assert_uint_eq(h_stats(&a).tx_dropped, 1);
	h_quiet(&a);
	h_close(&a);
}
END_TEST

START_TEST(a_flow_label_is_carried)
{
	static const uint32_t flows[] = {0x12345, 0x12345, 0, 0xfffff, 7};
	struct h_node a, b;
	struct net_path path;

	h_open(&a, "::1");
	h_open(&b, "::1");
	path = (struct net_path){.src = a.ip, .dst = b.ip};
	for (uint32_t i = 0; i < 5; i++) {
		path.flow = flows[i];
		ck_assert(h_try_send_path(&a, &path, b.base, i, 64));
	}
	net_tx_flush(a.port);
	for (uint32_t i = 0; i < 5; i++) {
		/* equal ones come together */
		h_until(&b, b.rx > i);
		if (b.rx == i + 1)
			ck_assert_uint_eq(b.last_path.flow, flows[i]);
	}
	h_wait(&b, 5);
	path.flow = 0x54321;
	ck_assert(h_try_send_path(&a, &path, b.base, 5, 64));
	net_tx_flush(a.port);
	h_wait(&b, 6);
	ck_assert_uint_eq(b.last_path.flow, 0x54321);
	h_close(&a);
	h_close(&b);
}
END_TEST

/* An address handle may have one, of which IPv4 knows nothing */
START_TEST(ipv4_has_no_flow_label)
{
	struct h_node a;
	struct net_path path;

	h_open(&a, addr_a(0));
	path = (struct net_path){.src = a.ip, .dst = a.ip, .flow = 9};
	ck_assert(h_try_send_path(&a, &path, a.base, 1, 64));
	path.flow = 8;
	ck_assert(h_try_send_path(&a, &path, a.base, 2, 64));
	net_tx_flush(a.port);
	h_wait(&a, 2);
	ck_assert_uint_eq(a.last_path.flow, 0);
	h_close(&a);
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
	tcase_add_checked_fixture(t, h_setup, h_shm_remove);
	tcase_add_loop_test(t, packets_of_all_sizes_arrive_whole_and_in_order, 0, 2);
	tcase_add_loop_test(t, equal_packets_travel_in_few_datagrams, 0, 2);
	tcase_add_loop_test(t, a_process_talks_to_itself, 0, 2);
	tcase_add_test(t, each_packet_has_the_class_of_its_path);
	tcase_add_loop_test(t, a_batch_that_is_refused_goes_packet_by_packet, 0, 2);
	tcase_add_loop_test(t, a_path_between_families_is_none, 0, 2);
	tcase_add_loop_test(t, class_and_hop_limit_are_carried, 0,
			    check_emulated("IPV6_FLOWINFO") ? 1 : 2);
	if (!check_emulated("IPV6_FLOWINFO"))
		tcase_add_test(t, a_flow_label_is_carried);
	tcase_add_test(t, ipv4_has_no_flow_label);
	tcase_add_test(t, a_route_is_there_or_not);
	tcase_add_test(t, limits_of_tx_get);
	tcase_add_test(t, addresses_are_counted_and_checked);
	tcase_add_test(t, qpn_ranges_do_not_meet);
	tcase_add_test(t, one_descriptor_tells_that_there_is_something);
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
