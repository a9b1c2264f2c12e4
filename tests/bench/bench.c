/* bench.c - see bench.h */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

uint64_t bench_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void bench_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("bench: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

int bench_fork(int *sock)
{
	int sv[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
		bench_die("socketpair: %s", strerror(errno));
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	*sock = sv[pid == 0];
	close(sv[pid != 0]);
	return pid == 0;
}

static void put(int sock, const void *buf, size_t len)
{
	const char *p = buf;

	while (len) {
		ssize_t n = write(sock, p, len);

		if (n <= 0)
			bench_die("the peer is gone");
		p += n;
		len -= (size_t)n;
	}
}

static void get(int sock, void *buf, size_t len)
{
	char *p = buf;

	while (len) {
		ssize_t n = read(sock, p, len);

		if (n <= 0)
			bench_die("the peer is gone");
		p += n;
		len -= (size_t)n;
	}
}

void bench_exchange(int sock, const void *mine, void *theirs, size_t len)
{
	put(sock, mine, len);
	get(sock, theirs, len);
}

void bench_barrier(int sock)
{
	char a = 'b', b;

	bench_exchange(sock, &a, &b, 1);
}

void bench_result(const char *name, double value, const char *unit)
{
	printf("%s %.6g %s\n", name, value, unit);
	fflush(stdout);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *v, size_t n)
{
	if (!n)
		return 0;
	qsort(v, n, sizeof(*v), by_value);
	return v[n / 2];
}
