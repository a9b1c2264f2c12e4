/*
 * Description: when ports use lanes, and that nobody can tell but by the speed.
 */
#include "tests/net/harness.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "net/port_internal.h"

#define IP_A h_lo(1)
#define IP_B h_lo(2)
#define MANY 2000

/* Send one packet; the receiver reads now and then */
static void send_one(struct h_node *a, struct h_node *b, uint32_t number, uint32_t len)
{
	struct net_path path = {.src = a->ip, .dst = b->ip};
	uint64_t end = h_now() + 2000000000ull;

	while (!h_try_send_path(a, &path, b->base, number, len) && h_now() < end) {
		net_tx_flush(a->port);
		net_port_poll(b->port, 64);
	}
	if (number % 16)
		return;
	net_tx_flush(a->port);
	net_port_poll(b->port, 64);
}

static void converse(struct h_node *a, struct h_node *b, uint32_t from, uint32_t n)
{
	unsigned int before = b->rx;
	uint32_t i;

	for (i = from; i < from + n; i++)
		send_one(a, b, i, 4 + i % 4000);
	net_tx_flush(a->port);
	usleep(100);
	net_port_tick(a->port, h_now());
	h_wait(b, before + n);
	ck_assert_uint_eq(b->last_number, from + n - 1);
	for (i = from; i < from + n; i++)
		ck_assert_uint_eq(b->seen[i], 1);
}

/* The same with a receiver that has forgotten what came before */
static void converse_anew(struct h_node *a, struct h_node *b, uint32_t n)
{
	b->rx = 0;
	memset(b->seen, 0, H_SEEN);
	converse(a, b, 0, n);
}

/* The address of a node goes and comes back. */
static void flap(struct h_node *n)
{
	net_port_del_ip(n->port, &n->ip);
	ck_assert_int_eq(net_port_add_ip(n->port, &n->ip, "lo"), 0);
}

START_TEST(a_conversation_goes_over_to_a_lane_and_keeps_its_order)
{
	struct h_node a, b;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	converse(&a, &b, 0, MANY);
	ck_assert_uint_gt(h_stats(&a).tx_lane_pkts, MANY / 2);
	ck_assert_uint_lt(h_stats(&a).tx_lane_pkts, MANY);
	ck_assert_uint_eq(h_stats(&a).tx_pkts, MANY);
	ck_assert_uint_eq(h_stats(&b).rx_pkts, MANY);
	ck_assert_uint_eq(h_stats(&b).rx_bytes, h_stats(&a).tx_bytes);
	ck_assert_uint_eq(h_stats(&b).rx_bad_icrc + h_stats(&b).rx_malformed, 0);
	/* and the other way */
	converse(&b, &a, 0, MANY);
	h_close(&a);
	h_close(&b);
}
END_TEST

/* @_i: over IPv6, which has flow labels */
START_TEST(the_path_is_that_of_the_socket)
{
	struct net_path path, by_socket;
	struct h_node a, b;

	h_open_lanes(&a, _i ? "::1" : IP_A);
	h_open_lanes(&b, _i ? "::1" : IP_B);
	path = (struct net_path){
	    .src = a.ip, .dst = b.ip, .tclass = 0x68, .ttl = 9, .flow = 0xabcde};
	ck_assert(h_try_send_path(&a, &path, b.base, 0, 64));
	net_tx_flush(a.port);
	h_wait(&b, 1);
	by_socket = b.last_path;
	converse(&a, &b, 1, MANY);
	ck_assert_uint_eq(b.last_path.ttl, 64);
	ck_assert_uint_eq(b.last_path.flow, 0);
	ck_assert_uint_gt(h_stats(&a).tx_lane_pkts, 0);
	ck_assert(h_try_send_path(&a, &path, b.base, MANY + 1, 64));
	net_tx_flush(a.port);
	h_wait(&b, MANY + 2);
	ck_assert(net_ip_eq(&b.last_path.src, &by_socket.src));
	ck_assert(net_ip_eq(&b.last_path.dst, &by_socket.dst));
	ck_assert_uint_eq(b.last_path.sport, by_socket.sport);
	ck_assert_uint_eq(b.last_path.tclass, by_socket.tclass);
	ck_assert_uint_eq(b.last_path.ttl, by_socket.ttl);
	ck_assert_uint_eq(b.last_path.flow, by_socket.flow);
	ck_assert_uint_eq(by_socket.flow, _i ? 0xabcde : 0);
	ck_assert(net_ip_eq(&b.last_local, &b.ip));
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(a_process_has_a_lane_to_itself)
{
	struct h_node a;

	h_open_lanes(&a, IP_A);
	converse(&a, &a, 0, MANY);
	ck_assert_uint_gt(h_stats(&a).tx_lane_pkts, MANY / 2);
	h_close(&a);
}
END_TEST

/* Who wants to see or spoil the packets, or said no, gets them by the socket. */
START_TEST(no_lane_where_one_side_does_not_want_it)
{
	static const struct net_port_cfg how[] = {
	    {.no_lanes = true}, {.impair = "delay=1us"}, {.pcap = "/dev/null"}};
	struct h_node a, b;

	h_open_cfg(&a, IP_A, "lo", &(struct net_port_cfg){.no_lanes = false});
	h_open_cfg(&b, IP_B, "lo", &how[_i]);
	converse(&a, &b, 0, 500);
	ck_assert_uint_eq(h_stats(&a).tx_lane_pkts, 0);
	converse(&b, &a, 0, 500);
	ck_assert_uint_eq(h_stats(&b).tx_lane_pkts, 0);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(who_sleeps_is_woken_by_its_descriptor)
{
	struct pollfd fd = {.events = POLLIN};
	struct h_node a, b;
	uint32_t generation, i;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	converse(&a, &b, 0, MANY);
	ck_assert_int_eq(net_port_wait_fds(b.port, &fd.fd, 1, &generation), 1);
	for (i = MANY; i < MANY + 50; i++) {
		while (net_port_poll(b.port, 64) || poll(&fd, 1, 0))
			;
		ck_assert(net_port_arm(b.port));
		ck_assert_int_eq(poll(&fd, 1, 0), 0);
		h_send(&a, &b.ip, b.base, i, 64);
		net_tx_flush(a.port);
		ck_assert_int_eq(poll(&fd, 1, 1000), 1);
		net_port_awake(b.port);
		ck_assert_int_eq(net_port_poll(b.port, 64), 1);
		ck_assert_uint_eq(b.last_number, i);
	}
	/* what is there already is told at once */
	h_send(&a, &b.ip, b.base, i, 64);
	net_tx_flush(a.port);
	ck_assert(!net_port_arm(b.port));
	h_wait(&b, MANY + 51);
	h_close(&a);
	h_close(&b);
}
END_TEST

/*
 * A thread sleeps, and the program polls beside it: it takes the kick, or leaves packets
 * behind. What comes then, or is there, wakes the one that sleeps.
 */
START_TEST(who_sleeps_is_woken_after_another_thread_has_polled)
{
	struct pollfd fd = {.events = POLLIN};
	struct h_node a, b;
	uint32_t generation, i;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	converse(&a, &b, 0, MANY);
	ck_assert_int_eq(net_port_wait_fds(b.port, &fd.fd, 1, &generation), 1);
	while (net_port_poll(b.port, 64) || poll(&fd, 1, 0))
		;
	ck_assert(net_port_arm(b.port));
	for (i = 0; i < 50; i++) {
		h_send(&a, &b.ip, b.base, MANY + i, 64);
		net_tx_flush(a.port);
		ck_assert_int_eq(poll(&fd, 1, 1000), 1);
		h_wait(&b, MANY + i + 1);
		while (poll(&fd, 1, 0))
			net_port_poll(b.port, 64);
	}
	for (i = 0; i < 20; i++)
		h_send(&a, &b.ip, b.base, MANY + 50 + i, 64);
	net_tx_flush(a.port);
	while (b.rx < MANY + 70) {
		ck_assert_int_eq(poll(&fd, 1, 1000), 1);
		net_port_poll(b.port, 1);
	}
	net_port_awake(b.port);
	h_close(&a);
	h_close(&b);
}
END_TEST

static unsigned int no_room(struct net_backend *be, struct net_batch *b, unsigned int n)
{
	return 0;
}

/* The socket is full of packets to other hosts, say. */
START_TEST(who_sleeps_is_woken_when_the_kernel_has_room_again)
{
	struct pollfd fd = {.events = POLLIN};
	const struct net_backend_ops *real;
	struct net_backend_ops full;
	struct h_node a, b;
	uint32_t generation;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	converse(&a, &b, 0, MANY);
	ck_assert_int_eq(net_port_wait_fds(b.port, &fd.fd, 1, &generation), 1);
	while (net_port_poll(b.port, 64) || poll(&fd, 1, 0))
		;
	ck_assert(net_port_arm(b.port));
	real = a.port->be_ops;
	full = *real;
	full.send = no_room;
	a.port->be_ops = &full;
	h_send(&a, &b.ip, b.base, MANY, 64);
	ck_assert_int_eq(net_tx_flush(a.port), -EAGAIN);
	ck_assert_int_eq(net_tx_flush(a.port), -EAGAIN);
	ck_assert_int_eq(poll(&fd, 1, 0), 0);
	a.port->be_ops = real;
	ck_assert_int_eq(net_tx_flush(a.port), 0);
	ck_assert_int_eq(poll(&fd, 1, 1000), 1);
	net_port_awake(b.port);
	h_wait(&b, MANY + 1);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(one_that_does_not_read_does_not_hold_up_others)
{
	struct net_path path;
	struct h_node a, b, c;
	uint64_t end, lanes;
	uint32_t i, n;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	h_open_lanes(&c, h_lo(3));
	converse(&a, &b, 0, MANY);
	path = (struct net_path){.src = a.ip, .dst = b.ip};
	/* as much as the lane takes, then it is full for a while, then there is the socket */
	for (i = 0; h_try_send_path(&a, &path, b.base, MANY + i, 4096); i++)
		ck_assert_uint_lt(i, 1000);
	ck_assert_int_eq(net_tx_flush(a.port), -EAGAIN);
	end = h_now() + 2000000000ull;
	while (!h_try_send_path(&a, &path, b.base, MANY + i, 4096) && h_now() < end) {
		usleep(1000);
		net_port_tick(a.port, h_now());
	}
	i++;
	ck_assert_int_eq(net_tx_flush(a.port), 0);
	h_send(&a, &c.ip, c.base, 7, 64);
	net_tx_flush(a.port);
	h_wait(&c, 1);
	/* when it reads again, it gets what the lane has, then what the socket has, and new packets */
	lanes = h_stats(&a).tx_lane_pkts;
	for (n = 0; n < 20; n++)
		h_send(&a, &b.ip, b.base, MANY + i++, 4096);
	net_tx_flush(a.port);
	ck_assert_uint_eq(h_stats(&a).tx_lane_pkts, lanes);
	b.strict = true;
	b.last_number = MANY - 1;
	h_wait(&b, MANY + i);
	ck_assert_uint_eq(h_stats(&a).tx_dropped, 0);
	/* and a new lane is made */
	b.strict = false;
	converse_anew(&a, &b, MANY);
	ck_assert_uint_gt(h_stats(&a).tx_lane_pkts, lanes);
	h_close(&a);
	h_close(&b);
	h_close(&c);
}
END_TEST

/* A burst after a pause: that the pause was long says nothing about the receiver. */
START_TEST(a_pause_of_the_sender_is_not_the_receivers)
{
	struct net_path path;
	struct h_node a, b;
	uint64_t began;
	uint32_t i, n = 0;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	path = (struct net_path){.src = a.ip, .dst = b.ip};
	/* the offer is as old as it is */
	usleep(300000);
	for (; n < 40; n++)
		h_send(&a, &b.ip, b.base, n, 64);
	net_tx_flush(a.port);
	began = h_now();
	h_send(&a, &b.ip, b.base, n++, 64);
	if (h_now() - began < 100000000) {
		net_tx_flush(a.port);
		h_wait(&b, n);
		h_send(&a, &b.ip, b.base, n++, 64);
		ck_assert_uint_eq(h_stats(&a).tx_lane_pkts, 1);
	}
	net_tx_flush(a.port);
	h_wait(&b, n);
	converse(&a, &b, n, MANY);
	/* and the lane is full since it is; unless this machine is too busy to tell */
	usleep(100000);
	began = h_now();
	for (i = 0; h_try_send_path(&a, &path, b.base, i, 4096); i++)
		;
	net_port_tick(a.port, h_now());
	h_try_send_path(&a, &path, b.base, i, 4096);
	if (h_now() - began < 5000000)
		ck_assert_uint_eq(h_stats(&a).tx_dropped, 0);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(each_lane_has_its_turn)
{
	struct h_node from[6], b;
	uint32_t i, k, got;

	h_open_lanes(&b, IP_B);
	for (i = 0; i < 6; i++) {
		h_open_lanes(&from[i], h_lo((uint8_t)(10 + i)));
		b.rx = 0;
		converse(&from[i], &b, i * 10000, MANY);
	}
	for (i = 0; i < 6; i++) {
		for (k = 0; k < 200; k++)
			h_send(&from[i], &b.ip, b.base, i * 10000 + 5000 + k, 64);
		net_tx_flush(from[i].port);
	}
	/* two lanes a poll, as many packets as all lanes together have in two rounds */
	for (i = 0; i < 6; i++)
		net_port_poll(b.port, 16);
	for (i = 0; i < 6; i++) {
		for (k = got = 0; k < 200; k++)
			got += b.seen[i * 10000 + 5000 + k];
		ck_assert_uint_eq(got, 16);
		h_close(&from[i]);
	}
	h_close(&b);
}
END_TEST

START_TEST(busy_lanes_do_not_keep_the_sockets_waiting)
{
	struct h_node from[4], b, other;
	uint32_t i, k;

	h_open_lanes(&b, IP_B);
	h_open_cfg(&other, h_lo(20), "lo", &(struct net_port_cfg){.no_lanes = true});
	for (i = 0; i < 4; i++) {
		h_open_lanes(&from[i], h_lo((uint8_t)(10 + i)));
		b.rx = 0;
		converse(&from[i], &b, i * 10000, MANY);
	}
	for (i = 0; i < 4; i++) {
		for (k = 0; k < 400; k++)
			h_send(&from[i], &b.ip, b.base, i * 10000 + 5000 + k, 64);
		net_tx_flush(from[i].port);
	}
	h_send(&other, &b.ip, b.base, 9000, 64);
	net_tx_flush(other.port);
	for (i = 0; i < 50; i++)
		net_port_poll(b.port, 16);
	ck_assert_uint_eq(b.seen[9000], 1);
	ck_assert_uint_lt(b.rx, MANY + 4 * 400);
	for (i = 0; i < 4; i++)
		h_close(&from[i]);
	h_close(&other);
	h_close(&b);
}
END_TEST

/* Both the one that sends and the one that receives come back as another process. */
START_TEST(a_new_process_gets_a_new_lane)
{
	struct h_node a, b;
	int round;

	h_open_lanes(&a, IP_A);
	for (round = 0; round < 4; round++) {
		h_open_lanes(&b, IP_B);
		converse(&a, &b, 0, 500);
		converse(&b, &a, (uint32_t)round * 500, 500);
		ck_assert_uint_gt(h_stats(&b).tx_lane_pkts, 200);
		h_close(&b);
		/* nobody is there: packets are lost, and nothing else */
		h_send(&a, &b.ip, b.base, 1, 64);
		net_tx_flush(a.port);
		net_port_poll(a.port, 64);
	}
	h_close(&a);
}
END_TEST

START_TEST(an_address_that_goes_takes_its_lanes_along)
{
	struct h_node a, b;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	converse(&a, &b, 0, MANY);
	h_send(&a, &b.ip, b.base, MANY, 64);
	net_port_del_ip(b.port, &b.ip);
	net_tx_flush(a.port);
	h_quiet(&b);
	ck_assert_int_eq(net_port_add_ip(b.port, &b.ip, "lo"), 0);
	flap(&a);
	converse_anew(&a, &b, MANY);
	h_close(&a);
	h_close(&b);
}
END_TEST

/* The sender's own address stays: it must notice that nobody reads the lane any more. */
START_TEST(an_address_of_the_receiver_that_comes_back_gets_packets_again)
{
	struct h_node a, b;
	int round;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	for (round = 0; round < 5; round++) {
		converse_anew(&a, &b, 500);
		flap(&b);
	}
	ck_assert_uint_gt(h_stats(&a).tx_lane_pkts, 1000);
	h_close(&a);
	h_close(&b);
}
END_TEST

START_TEST(an_address_of_the_sender_that_comes_and_goes_leaves_no_lanes_behind)
{
	struct h_node a, b;
	int round;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	for (round = 0; round < 10; round++) {
		converse_anew(&a, &b, 500);
		flap(&a);
		ck_assert_uint_le(b.port->lanes.n_rx, 2);
	}
	h_close(&a);
	h_close(&b);
}
END_TEST

/* Mappings of lanes in this process, and its descriptors */
static unsigned int count_lanes(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned int n = 0;
	char line[512];

	ck_assert_ptr_nonnull(maps);
	while (fgets(line, sizeof(line), maps))
		n += strstr(line, "memfd:urxe-lane") != NULL;
	fclose(maps);
	return n;
}

static unsigned int count_fds(void)
{
	unsigned int n = 0;
	int fd;

	for (fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

START_TEST(many_short_peers_leave_nothing_behind)
{
	unsigned int fds;
	struct h_node a, b;
	int round;

	h_open_lanes(&a, IP_A);
	fds = count_fds();
	for (round = 0; round < 20; round++) {
		h_open_lanes(&b, IP_B);
		a.rx = 0;
		memset(a.seen, 0, H_SEEN);
		converse(&a, &b, 0, 200);
		converse(&b, &a, 0, 200);
		h_close(&b);
		ck_assert_uint_le(count_lanes(), 6);
		ck_assert_uint_le(count_fds(), fds + 2);
	}
	h_close(&a);
	ck_assert_uint_eq(count_lanes(), 0);
}
END_TEST

static struct h_node *reply_to;

static void rx_and_reply(void *arg, const struct net_rx *pkt)
{
	struct h_node *n = arg;

	h_send(n, &reply_to->ip, reply_to->base, n->rx++, 64);
}

/* The answer to its last packet makes a lane to another process. */
START_TEST(a_lane_whose_sender_left_is_kept_while_it_is_read)
{
	static const struct net_port_ops ops = {.rx = rx_and_reply};
	struct h_node a, b, c;
	uint32_t i;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	h_open_lanes(&c, h_lo(3));
	converse(&a, &b, 0, MANY);
	for (i = 0; i < 32; i++)
		h_send(&a, &b.ip, b.base, i, 64);
	net_tx_flush(a.port);
	h_close(&a);
	reply_to = &c;
	b.port->ops = &ops;
	h_wait(&b, MANY + 32);
	net_tx_flush(b.port);
	h_wait(&c, 32);
	h_close(&b);
	h_close(&c);
}
END_TEST

/* Only the process that the table knows by its port can offer a lane. */
START_TEST(a_forged_offer_is_refused)
{
	struct net_ip ip = h_ip(IP_A);
	uint8_t ctl[32] = {PORT_LANE_MAGIC, 1};
	union net_sa sa;
	struct h_node b;
	int fd = socket(AF_INET, SOCK_DGRAM, 0), len;
	socklen_t sa_len;

	h_open_lanes(&b, IP_B);
	sa_len = net_sa_make(&sa, &ip, 0, 0);
	ck_assert_int_eq(bind(fd, &sa.sa, sa_len), 0);
	put_be32(ctl + 4, b.port->slot);
	put_be32(ctl + 8, (uint32_t)getpid());
	sa_len = net_sa_make(&sa, &b.ip, b.port->port_num, 0);
	for (len = 32; len > 15; len -= 8)
		ck_assert_int_eq(sendto(fd, ctl, (size_t)len, 0, &sa.sa, sa_len), len);
	h_quiet(&b);
	ck_assert_uint_eq(h_stats(&b).rx_malformed, 3);
	ck_assert_ptr_null(b.port->lanes.rx);
	close(fd);
	h_close(&b);
}
END_TEST

/* The parent's lanes are not the child's: it lets go of them and the parent goes on. */
START_TEST(a_child_of_fork_leaves_the_lanes_alone)
{
	struct h_node a, b;
	uint64_t before;
	int status;
	pid_t pid;

	h_open_lanes(&a, IP_A);
	h_open_lanes(&b, IP_B);
	converse(&a, &b, 0, MANY);
	before = h_stats(&a).tx_lane_pkts;
	pid = fork();
	if (pid == 0) {
		net_port_abandon(a.port);
		net_port_abandon(b.port);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	converse(&a, &b, MANY, MANY);
	ck_assert_uint_eq(h_stats(&a).tx_lane_pkts, before + MANY);
	h_close(&a);
	h_close(&b);
}
END_TEST

/* The receiver dies by SIGKILL in the middle, again and again, and the sender goes on. */
START_TEST(a_receiver_that_is_killed_does_no_harm)
{
	_Atomic uint32_t *base =
	    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct net_path path;
	struct h_node a, b;
	uint64_t end;
	uint32_t i;
	pid_t pid;
	int round;

	h_open_lanes(&a, IP_A);
	path = (struct net_path){.src = a.ip, .dst = h_ip(IP_B)};
	for (round = 0; round < 3; round++) {
		*base = 0;
		pid = fork();
		if (pid == 0) {
			h_open_lanes(&b, IP_B);
			for (*base = b.base;; net_port_poll(b.port, 64))
				;
		}
		while (!*base)
			usleep(100);
		end = h_now() + 300000000ull;
		for (i = 0; h_now() < end; i++) {
			h_try_send_path(&a, &path, *base, i % H_SEEN, 2000);
			net_tx_flush(a.port);
			net_port_poll(a.port, 64);
			if (h_now() > end - 150000000ull && pid) {
				kill(pid, SIGKILL);
				waitpid(pid, NULL, 0);
				pid = 0;
			}
		}
	}
	ck_assert_uint_gt(h_stats(&a).tx_lane_pkts, 1000);
	h_close(&a);
	munmap((void *)base, 4096);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("port_lane");
	TCase *t = tcase_create("port_lane");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, h_setup, h_shm_remove);
	tcase_add_test(t, a_conversation_goes_over_to_a_lane_and_keeps_its_order);
	tcase_add_loop_test(t, the_path_is_that_of_the_socket, 0,
			    check_emulated("IPV6_FLOWINFO") ? 1 : 2);
	tcase_add_test(t, a_process_has_a_lane_to_itself);
	tcase_add_loop_test(t, no_lane_where_one_side_does_not_want_it, 0, 3);
	tcase_add_test(t, who_sleeps_is_woken_by_its_descriptor);
	tcase_add_test(t, who_sleeps_is_woken_after_another_thread_has_polled);
	tcase_add_test(t, who_sleeps_is_woken_when_the_kernel_has_room_again);
	tcase_add_test(t, one_that_does_not_read_does_not_hold_up_others);
	tcase_add_test(t, a_pause_of_the_sender_is_not_the_receivers);
	tcase_add_test(t, each_lane_has_its_turn);
	tcase_add_test(t, busy_lanes_do_not_keep_the_sockets_waiting);
	tcase_add_test(t, a_new_process_gets_a_new_lane);
	tcase_add_test(t, an_address_that_goes_takes_its_lanes_along);
	tcase_add_test(t, an_address_of_the_receiver_that_comes_back_gets_packets_again);
	tcase_add_test(
	    t, an_address_of_the_sender_that_comes_and_goes_leaves_no_lanes_behind);
	tcase_add_test(t, many_short_peers_leave_nothing_behind);
	tcase_add_test(t, a_lane_whose_sender_left_is_kept_while_it_is_read);
	tcase_add_test(t, a_forged_offer_is_refused);
	tcase_add_test(t, a_child_of_fork_leaves_the_lanes_alone);
	if (!check_emulated("speed"))
		tcase_add_test(t, a_receiver_that_is_killed_does_no_harm);
	suite_add_tcase(s, t);
	return h_main(s);
}
