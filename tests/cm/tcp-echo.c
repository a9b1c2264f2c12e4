/*
 * tcp-echo.c - a plain TCP program that knows nothing of RDMA: a server that echoes one
 * connection, and a client that checks what comes back. For librspreload.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BYTES (1 << 20)
#define CHUNK 8192

static int fail(const char *what)
{
	perror(what);
	return 1;
}

static int serve(struct sockaddr_in *addr)
{
	int on = 1, l = socket(AF_INET, SOCK_STREAM, 0), c;
	char buf[CHUNK];
	ssize_t n, sent;

	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (l < 0 || bind(l, (struct sockaddr *)addr, sizeof(*addr)) || listen(l, 5))
		return fail("listen");
	puts("ready");
	fflush(stdout);
	c = accept(l, NULL, NULL);
	if (c < 0)
		return fail("accept");
	while ((n = recv(c, buf, sizeof(buf), 0)) > 0) {
		for (sent = 0; sent < n;) {
			ssize_t k = send(c, buf + sent, (size_t)(n - sent), 0);

			if (k <= 0)
				return fail("send");
			sent += k;
		}
	}
	close(c);
	close(l);
	return n < 0 ? fail("recv") : 0;
}

static int wait_readable(int s)
{
	struct pollfd p = {.fd = s, .events = POLLIN};

	return poll(&p, 1, 20000) == 1 ? 0 : fail("poll");
}

static int call(struct sockaddr_in *addr)
{
	int s = socket(AF_INET, SOCK_STREAM, 0), i;
	char out[CHUNK], in[CHUNK];
	size_t total, got;

	if (s < 0 || connect(s, (struct sockaddr *)addr, sizeof(*addr)))
		return fail("connect");
	for (total = 0; total < BYTES; total += CHUNK) {
		for (i = 0; i < CHUNK; i++)
			out[i] = (char)((total / CHUNK) * 31 + (size_t)i);
		if (send(s, out, CHUNK, 0) != CHUNK)
			return fail("send");
		for (got = 0; got < CHUNK;) {
			ssize_t n;

			if (wait_readable(s))
				return 1;
			n = recv(s, in + got, CHUNK - got, 0);
			if (n <= 0)
				return fail("recv");
			got += (size_t)n;
		}
		if (memcmp(in, out, CHUNK)) {
			fprintf(stderr, "wrong data\n");
			return 1;
		}
	}
	shutdown(s, SHUT_RDWR);
	close(s);
	printf("echoed %zu bytes\n", total);
	return 0;
}

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {.sin_family = AF_INET};

	if (argc != 4 || inet_pton(AF_INET, argv[2], &addr.sin_addr) != 1)
		return 2;
	addr.sin_port = htons((unsigned short)atoi(argv[3]));
	return strcmp(argv[1], "server") ? call(&addr) : serve(&addr);
}
