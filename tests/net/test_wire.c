/*
 * Description: two hosts, that is network namespaces joined by a veth pair, and a look at
 * the frames between them: identification and ICRC of each packet of a batch that the
 * kernel segments; delivery through the switch; multicast; packets that do not fit the
 * interface. Skipped (77) where namespaces cannot be made, or without ip(8).
 */
#include "tests/net/harness.h"

#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/in6.h>
#include <net/if.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "net/port_internal.h"

static int ns_a, ns_b;

static bool sh(const char *fmt, ...)
{
	char cmd[300];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd, sizeof(cmd), fmt, ap);
	va_end(ap);
	return system(cmd) == 0;
}

static void enter(int ns)
{
	ck_assert_int_eq(setns(ns, CLONE_NEWNET), 0);
}

static bool put_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) > 0;

	close(fd);
	return ok;
}

/* As root in namespaces of the test's own, or as root of a user namespace */
static bool new_net(void)
{
	char uid[32], gid[32];

	if (unshare(CLONE_NEWNET) == 0)
		return true;
	snprintf(uid, sizeof(uid), "0 %u 1", getuid());
	snprintf(gid, sizeof(gid), "0 %u 1", getgid());
	return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 &&
	       put_file("/proc/self/setgroups", "deny") &&
	       put_file("/proc/self/uid_map", uid) && put_file("/proc/self/gid_map", gid);
}

/* Until then the kernel drops what is sent; it retries for ARP, but not for a group */
static bool wait_running(const char *dev)
{
	uint64_t end = h_now() + H_PATIENCE_NS;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq ifr = {0};

	strncpy(ifr.ifr_name, dev, sizeof(ifr.ifr_name) - 1);
	while (ioctl(fd, SIOCGIFFLAGS, &ifr) == 0 && !(ifr.ifr_flags & IFF_RUNNING) &&
	       h_now() < end)
		usleep(1000);
	close(fd);
	return ifr.ifr_flags & IFF_RUNNING;
}

static bool make_hosts(void)
{
	if (!new_net())
		return false;
	ns_a = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (!sh("ip link set lo up && ip link add va type veth peer name vb") ||
	    unshare(CLONE_NEWNET) < 0)
		return false;
	ns_b = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (!sh("ip link set lo up") || setns(ns_a, CLONE_NEWNET) < 0 ||
	    !sh("ip link set vb netns /proc/%d/fd/%d", getpid(), ns_b) ||
	    !sh("ip link set va mtu 4200 up; ip addr add 10.7.0.1/24 dev va && "
		"ip addr add fd07::1/64 dev va nodad"))
		return false;
	return setns(ns_b, CLONE_NEWNET) == 0 &&
	       sh("ip link set vb mtu 4200 up; ip addr add 10.7.0.2/24 dev vb && "
		  "ip addr add fd07::2/64 dev vb nodad") &&
	       wait_running("vb") && setns(ns_a, CLONE_NEWNET) == 0 && wait_running("va");
}

static void setup(void)
{
	ck_assert(make_hosts());
	h_shm();
}

static void teardown(void)
{
	h_shm_remove();
}

static const char *const addr[2][2] = {{"10.7.0.1", "fd07::1"}, {"10.7.0.2", "fd07::2"}};

/* A node on host @host (0: a) with IPv6 or not */
static void open_on(struct h_node *n, int host, int v6)
{
	enter(host ? ns_b : ns_a);
	h_open_cfg(n, addr[host][v6], host ? "vb" : "va",
		   &(struct net_port_cfg){.ops = NULL});
	enter(ns_a);
}

/* A packet socket on host b */
static int sniffer(void)
{
	struct sockaddr_ll sa = {.sll_family = AF_PACKET,
				 .sll_protocol = htons(ETH_P_ALL)};
	struct timeval tv = {.tv_usec = 300000};
	int fd;

	enter(ns_b);
	sa.sll_ifindex = (int)if_nametoindex("vb");
	fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	enter(ns_a);
	return fd;
}

/* struct frame - a captured RoCEv2 packet */
struct frame {
	struct net_path path;
	uint16_t id;
	uint8_t data[70000];
	uint32_t len; /* without ICRC */
};

/* The next RoCEv2 packet; false when there are no more */
static bool next_frame(int fd, struct frame *f)
{
	uint8_t buf[70000], *ip = buf + ETH_HLEN, *udp;
	ssize_t n;

	while ((n = recv(fd, buf, sizeof(buf), 0)) > 0) {
		memset(&f->path, 0, sizeof(f->path));
		if (get_be16(buf + 12) == ETH_P_IP && ip[9] == IPPROTO_UDP) {
			f->path.src = f->path.dst = h_ip("0.0.0.0");
			memcpy(f->path.src.b + 12, ip + 12, 4);
			memcpy(f->path.dst.b + 12, ip + 16, 4);
			f->id = get_be16(ip + 4);
			ck_assert_uint_eq(get_be16(ip + 6), 0x4000); /* DF */
			udp = ip + 20;
		} else if (get_be16(buf + 12) == ETH_P_IPV6 && ip[6] == IPPROTO_UDP) {
			f->path.flow = get_be32(ip) & 0xfffff;
			memcpy(f->path.src.b, ip + 8, 16);
			memcpy(f->path.dst.b, ip + 24, 16);
			f->id = 0;
			udp = ip + 40;
		} else {
			continue;
		}
		if (get_be16(udp + 2) != ROCE_UDP_PORT)
			continue;
		f->path.sport = get_be16(udp);
		f->len = (uint32_t)(buf + n - udp) - 8 - ROCE_ICRC_LEN;
		memcpy(f->data, udp + 8, f->len + ROCE_ICRC_LEN);
		return true;
	}
	return false;
}

START_TEST(segments_are_numbered_and_have_the_icrc_of_their_number)
{
	static struct frame f;
	struct h_node a, b;
	uint32_t n = 0;
	int fd, i;

	/* a device that cannot segment: the kernel does it in front of it */
	ck_assert(sh("ip link set va gso_max_segs 1"));
	open_on(&a, 0, _i);
	open_on(&b, 1, _i);
	fd = sniffer();
	for (i = 0; i < 14; i++)
		h_send(&a, &b.ip, b.base, (uint32_t)i, 4096);
	h_send(&a, &b.ip, b.base, 14, 100);
	net_tx_flush(a.port);
	h_wait(&b, 15);
	for (; next_frame(fd, &f); n++) {
		ck_assert_uint_eq(f.len, H_HDR + (n < 14 ? 4096 : 100));
		if (!_i)
			ck_assert_uint_eq(f.id, n);
		ck_assert_uint_eq(icrc_compute(&f.path, f.id, f.data, f.len),
				  icrc_load(f.data + f.len));
	}
	ck_assert_uint_eq(n, 15);
	ck_assert_uint_eq(h_stats(&b).rx_bad_icrc, 0);
	close(fd);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(single_packets_have_identification_0)
{
	static struct frame f;
	struct h_node a, b;
	uint32_t i, n = 0;
	int fd;

	open_on(&a, 0, _i);
	open_on(&b, 1, _i);
	fd = sniffer();
	for (i = 0; i < 5; i++) {
		h_send(&a, &b.ip, b.base, i, 64);
		net_tx_flush(a.port);
	}
	h_wait(&b, 5);
	for (; next_frame(fd, &f); n++) {
		ck_assert_uint_eq(f.id, 0);
		ck_assert_uint_eq(icrc_compute(&f.path, 0, f.data, f.len),
				  icrc_load(f.data + f.len));
	}
	ck_assert_uint_eq(n, 5);
	close(fd);
	h_close(&a);
	h_close(&b);
}
END_TEST

static void send_flow(struct h_node *n, const struct h_node *to, uint32_t number,
		      uint32_t flow)
{
	struct net_path path = {.src = n->ip, .dst = to->ip, .flow = flow};

	ck_assert(h_try_send_path(n, &path, to->base, number, 64));
	net_tx_flush(n->port);
}

/* That of the path, and none where that has none; the ICRC does not depend on it. */
START_TEST(flow_labels_are_in_the_packets)
{
	static const uint32_t flows[] = {0x12345, 0, 0xfffff};
	static struct frame f;
	struct h_node a, b;
	uint32_t i, n = 0;
	int fd;

	open_on(&a, 0, 1);
	open_on(&b, 1, 1);
	fd = sniffer();
	for (i = 0; i < 3; i++)
		send_flow(&a, &b, i, flows[i]);
	h_wait(&b, 3);
	ck_assert_uint_eq(b.last_path.flow, 0xfffff);
	for (; next_frame(fd, &f); n++) {
		ck_assert_uint_lt(n, 3);
		ck_assert_uint_eq(f.path.flow, flows[n]);
		ck_assert_uint_eq(icrc_compute(&f.path, 0, f.data, f.len),
				  icrc_load(f.data + f.len));
	}
	ck_assert_uint_eq(n, 3);
	close(fd);
	h_close(&a);
	h_close(&b);
}
END_TEST

/* Some process of the host has one to itself: others need a lease, or go without. */
START_TEST(without_a_flow_label_where_the_kernel_refuses)
{
	struct in6_flowlabel_req mine = {.flr_action = IPV6_FL_A_GET,
					 .flr_flags = IPV6_FL_F_CREATE | IPV6_FL_F_EXCL,
					 .flr_share = IPV6_FL_S_EXCL};
	struct h_node a, b;
	int fd;

	open_on(&a, 0, 1);
	open_on(&b, 1, 1);
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	mine.flr_label = htonl(0x777);
	memcpy(&mine.flr_dst, b.ip.b, 16);
	ck_assert_int_eq(
	    setsockopt(fd, IPPROTO_IPV6, IPV6_FLOWLABEL_MGR, &mine, sizeof(mine)), 0);
	send_flow(&a, &b, 0, 0x12345);
	h_wait(&b, 1);
	ck_assert_uint_eq(b.last_path.flow, 0);
	/* a batch, too */
	for (uint32_t i = 1; i < 5; i++) {
		struct net_path path = {.src = a.ip, .dst = b.ip, .flow = 0x12345};

		ck_assert(h_try_send_path(&a, &path, b.base, i, 64));
	}
	net_tx_flush(a.port);
	h_wait(&b, 5);
	ck_assert_uint_eq(h_stats(&a).tx_dropped, 0);
	close(fd);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(batches_cross_whole_where_nobody_segments)
{
	static struct frame f;
	struct h_node a, b;
	int fd, i, n = 0;

	open_on(&a, 0, _i);
	open_on(&b, 1, _i);
	fd = sniffer();
	for (i = 0; i < 15; i++)
		h_send(&a, &b.ip, b.base, (uint32_t)i, 4096);
	net_tx_flush(a.port);
	h_wait(&b, 15);
	while (next_frame(fd, &f))
		n++;
	ck_assert_int_eq(n, 1);
	close(fd);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(hosts_with_several_processes_talk_both_ways)
{
	struct h_node a[3], b[3];
	int i, j, round;

	for (i = 0; i < 3; i++) {
		open_on(&a[i], 0, _i);
		open_on(&b[i], 1, _i);
	}
	for (round = 0; round < 10; round++) {
		for (i = 0; i < 3; i++)
			for (j = 0; j < 3; j++) {
				h_send(&a[i], &b[j].ip, b[j].base,
				       (uint32_t)(round * 100 + i * 10 + j), 1000);
				h_send(&b[i], &a[j].ip, a[j].base,
				       (uint32_t)(round * 100 + i * 10 + j), 1000);
			}
		for (i = 0; i < 3; i++) {
			net_tx_flush(a[i].port);
			net_tx_flush(b[i].port);
		}
		/* the switches are number 0, and hand on what comes for the others */
		h_until(&a[0], h_stats(&a[0]).rx_forwarded == (unsigned)(round + 1) * 6);
		h_until(&b[0], h_stats(&b[0]).rx_forwarded == (unsigned)(round + 1) * 6);
		for (i = 0; i < 3; i++) {
			h_wait(&a[i], (unsigned int)(round + 1) * 3);
			h_wait(&b[i], (unsigned int)(round + 1) * 3);
		}
	}
	ck_assert_uint_eq(h_stats(&a[0]).rx_forwarded, 60);
	ck_assert_uint_eq(h_stats(&b[0]).rx_forwarded, 60);
	/* which is not what they sent themselves */
	ck_assert_uint_eq(h_stats(&a[0]).tx_pkts, 30);
	ck_assert_uint_eq(h_stats(&b[0]).tx_pkts, 30);
	for (i = 0; i < 3; i++) {
		h_close(&a[i]);
		h_close(&b[i]);
	}
}
END_TEST

START_TEST(groups_cross_the_wire)
{
	struct net_ip group = h_ip(_i ? "ff12::77" : "239.7.7.7");
	struct h_node a, b, c;
	struct net_path path;

	open_on(&a, 0, _i);
	open_on(&b, 1, _i);
	open_on(&c, 1, _i);
	enter(ns_b);
	ck_assert_int_eq(net_port_mcast(b.port, &group, "vb", true), 0);
	ck_assert_int_eq(net_port_mcast(c.port, &group, "vb", true), 0);
	enter(ns_a);
	path = (struct net_path){.src = a.ip, .dst = group};
	ck_assert(h_try_send_path(&a, &path, ROCE_QPN_MULTICAST, 3, 64));
	net_tx_flush(a.port);
	h_wait(&b, 1);
	h_wait(&c, 1);
	ck_assert(net_ip_eq(&b.last_local, &b.ip));
	/* members on the sender's own host, itself included */
	path.src = b.ip;
	ck_assert(h_try_send_path(&b, &path, ROCE_QPN_MULTICAST, 4, 64));
	net_tx_flush(b.port);
	h_wait(&b, 2);
	h_wait(&c, 2);
	h_quiet(&a);
	h_close(&a);
	h_close(&b);
	h_close(&c);
}
END_TEST

START_TEST(what_does_not_fit_is_dropped_and_counted)
{
	struct h_node a, b;
	int i;

	ck_assert(sh("ip link set va mtu 1500"));
	open_on(&a, 0, _i);
	open_on(&b, 1, _i);
	for (i = 0; i < 3; i++)
		h_send(&a, &b.ip, b.base, (uint32_t)i, 4096);
	ck_assert_int_eq(net_tx_flush(a.port), 0);
	h_quiet(&b);
	ck_assert_uint_eq(h_stats(&a).tx_dropped, 3);
	ck_assert_int_eq(net_port_path_mtu(a.port, &b.ip), 1500);
	/* and nothing else is the worse for it */
	for (i = 0; i < 10; i++)
		h_send(&a, &b.ip, b.base, (uint32_t)i, 1024);
	net_tx_flush(a.port);
	h_wait(&b, 10);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(without_segmentation_packets_go_one_by_one)
{
	struct h_node a, b;
	static struct frame f;
	int one = 1, fd, i, n = 0;

	open_on(&a, 0, 0);
	open_on(&b, 1, 0);
	/* no checksums: then the kernel refuses UDP_SEGMENT */
	setsockopt(port_addr_find(a.port, &a.ip)->own.fd, SOL_SOCKET, SO_NO_CHECK, &one,
		   sizeof(one));
	fd = sniffer();
	for (i = 0; i < 30; i++)
		h_send(&a, &b.ip, b.base, (uint32_t)i, 2048);
	net_tx_flush(a.port);
	h_wait(&b, 30);
	for (; next_frame(fd, &f); n++) {
		ck_assert_uint_eq(f.id, 0);
		ck_assert_uint_eq(icrc_compute(&f.path, 0, f.data, f.len),
				  icrc_load(f.data + f.len));
	}
	ck_assert_int_eq(n, 30);
	ck_assert_uint_eq(h_stats(&a).tx_pkts, 30);
	close(fd);
	h_close(&a);
	h_close(&b);
}
END_TEST

/* In a child, because it leaves the namespaces */
static bool can_run(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(make_hosts() ? 0 : 1);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
	Suite *s = suite_create("wire");
	TCase *t = tcase_create("wire");

	if (!can_run()) {
		puts("skipped: no network namespaces here, or no ip(8)");
		return 77;
	}
	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, segments_are_numbered_and_have_the_icrc_of_their_number, 0,
			    2);
	tcase_add_loop_test(t, single_packets_have_identification_0, 0, 2);
	if (!check_emulated("IPV6_FLOWINFO")) {
		tcase_add_test(t, flow_labels_are_in_the_packets);
		tcase_add_test(t, without_a_flow_label_where_the_kernel_refuses);
	}
	tcase_add_loop_test(t, batches_cross_whole_where_nobody_segments, 0, 2);
	tcase_add_loop_test(t, hosts_with_several_processes_talk_both_ways, 0, 2);
	if (!check_emulated("group by interface"))
		tcase_add_loop_test(t, groups_cross_the_wire, 0, 2);
	if (!check_emulated("IP_MTU"))
		tcase_add_loop_test(t, what_does_not_fit_is_dropped_and_counted, 0, 2);
	tcase_add_test(t, without_segmentation_packets_go_one_by_one);
	suite_add_tcase(s, t);
	return h_main(s);
}
