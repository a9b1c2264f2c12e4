/*
 * raw.c - the limits that this machine sets: bare UDP and memcpy, without any RDMA.
 *
 *   raw bw SEGMENT      stream of datagrams of SEGMENT + 16 bytes, UDP_SEGMENT and
 * UDP_GRO, GB/s raw rate SEGMENT    datagrams/s of that size with UDP_SEGMENT raw lat
 * poll|block  half round trip of 64 bytes, us; "poll" spins with sched_yield raw memcpy
 * SIZE     GB/s from and to cold memory
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#define UDP_GRO	    104
#endif

#define SECONDS 1.0
#define HEADERS 16	     /* BTH and ICRC: what each packet carries besides payload */
#define WINDOW	(256 * 1024) /* bytes under way, as an RC QP has them */
#define GSO_MAX 61440

static int udp_socket(struct sockaddr_in *addr)
{
	socklen_t len = sizeof(*addr);
	int size = 4 << 20, pmtu = IP_PMTUDISC_DO;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*addr = (struct sockaddr_in){.sin_family = AF_INET,
				     .sin_addr.s_addr = htonl(0x7f000001)};
	if (fd < 0 || bind(fd, (struct sockaddr *)addr, sizeof(*addr)) ||
	    getsockname(fd, (struct sockaddr *)addr, &len))
		bench_die("UDP socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &pmtu, sizeof(pmtu));
	return fd;
}

/* Receive whatever is there; bytes, 0 for nothing yet */
static size_t take(int fd, char *buf, size_t len, struct sockaddr_in *from)
{
	socklen_t alen = sizeof(*from);
	ssize_t n = recvfrom(fd, buf, len, MSG_DONTWAIT, (struct sockaddr *)from, &alen);

	return n < 0 ? 0 : (size_t)n;
}

/* Count bytes and tell the sender how many came, after each receive */
static void stream_sink(int fd, int sock)
{
	static char buf[65536];
	struct sockaddr_in from = {0};
	uint64_t got = 0;
	int one = 1;

	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
	bench_barrier(sock);
	for (;;) {
		size_t n = take(fd, buf, sizeof(buf), &from);

		if (!n) {
			sched_yield();
			continue;
		}
		if (n == 1)
			return;
		got += n;
		sendto(fd, &got, sizeof(got), 0, (struct sockaddr *)&from, sizeof(from));
	}
}

static void stream_source(int fd, const struct sockaddr_in *to, size_t seg,
			  uint64_t *sent, double *seconds)
{
	static char buf[65536];
	size_t per = GSO_MAX / seg > 64 ? 64 : GSO_MAX / seg;
	size_t burst = seg * (per ? per : 1);
	int gso = (int)seg;
	struct sockaddr_in from;
	uint64_t acked = 0, start, last;

	setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &gso, sizeof(gso));
	*sent = 0;
	start = last = bench_now();
	while (bench_now() - start < SECONDS * 1e9) {
		if (*sent - acked + burst > WINDOW) {
			uint64_t v;

			if (take(fd, (char *)&v, sizeof(v), &from) == sizeof(v)) {
				acked = v;
				last = bench_now();
			} else if (bench_now() - last > 100000000u) {
				acked = *sent; /* lost in a full buffer: go on */
				last = bench_now();
			} else {
				sched_yield();
			}
			continue;
		}
		if (sendto(fd, buf, burst, 0, (const struct sockaddr *)to, sizeof(*to)) <
		    0)
			bench_die("sendto: %s", strerror(errno));
		*sent += burst;
	}
	*seconds = (double)(bench_now() - start) / 1e9;
	gso = 0;
	setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &gso, sizeof(gso));
	sendto(fd, buf, 1, 0, (const struct sockaddr *)to, sizeof(*to));
}

static void bench_stream(size_t payload, bool rate)
{
	struct sockaddr_in mine, theirs;
	size_t seg = payload + HEADERS;
	int sock, fd, child = bench_fork(&sock);
	double seconds;
	uint64_t sent;

	fd = udp_socket(&mine);
	bench_exchange(sock, &mine, &theirs, sizeof(mine));
	if (child) {
		stream_sink(fd, sock);
		exit(0);
	}
	bench_barrier(sock);
	stream_source(fd, &theirs, seg, &sent, &seconds);
	if (rate)
		bench_result("raw_rate", (double)sent / (double)seg / seconds,
			     "datagrams/s");
	else
		bench_result("raw_bw",
			     (double)sent / (double)seg * (double)payload / seconds / 1e9,
			     "GB/s");
}

static void wait_one(int fd, char *buf, size_t len, bool block, struct sockaddr_in *from)
{
	socklen_t alen = sizeof(*from);

	while (recvfrom(fd, buf, len, block ? 0 : MSG_DONTWAIT, (struct sockaddr *)from,
			&alen) < 0) {
		if (!block)
			sched_yield();
	}
}

static void bench_latency(bool block)
{
	enum { N = 20000 };
	static double half[N];
	struct sockaddr_in mine, theirs, from;
	int sock, fd, i, child = bench_fork(&sock);
	char buf[64] = "";

	fd = udp_socket(&mine);
	bench_exchange(sock, &mine, &theirs, sizeof(mine));
	for (i = 0; i < N; i++) {
		uint64_t t0 = bench_now();

		if (child)
			wait_one(fd, buf, sizeof(buf), block, &from);
		sendto(fd, buf, sizeof(buf), 0, (struct sockaddr *)&theirs,
		       sizeof(theirs));
		if (!child)
			wait_one(fd, buf, sizeof(buf), block, &from);
		half[i] = (double)(bench_now() - t0) / 2e3;
	}
	if (!child)
		bench_result(block ? "raw_lat_block" : "raw_lat_poll",
			     bench_median(half, N), "us");
	exit(0);
}

static void bench_memcpy(size_t size)
{
	size_t area = 64u << 20, off = 0, done = 0;
	char *src = malloc(area), *dst = malloc(area);
	uint64_t start;

	if (!src || !dst || !size || size > area)
		bench_die("memcpy: bad size");
	memset(src, 1, area);
	memset(dst, 2, area);
	start = bench_now();
	while (bench_now() - start < SECONDS * 1e9) {
		if (off + size > area)
			off = 0;
		memcpy(dst + off, src + off, size);
		off += size;
		done += size;
	}
	bench_result("memcpy", (double)done / ((double)(bench_now() - start) / 1e9) / 1e9,
		     "GB/s");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";

	if (!strcmp(mode, "bw") || !strcmp(mode, "rate"))
		bench_stream((size_t)atol(argv[2]), mode[0] == 'r');
	else if (!strcmp(mode, "lat"))
		bench_latency(!strcmp(argv[2], "block"));
	else if (!strcmp(mode, "memcpy"))
		bench_memcpy((size_t)atol(argv[2]));
	else
		bench_die("usage: raw bw|rate SEGMENT | lat poll|block | memcpy SIZE");
	return 0;
}
