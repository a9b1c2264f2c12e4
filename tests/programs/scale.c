/*
 * scale.c - a program with many objects, or one of many programs; says what they cost.
 *
 * usage: scale [-q QPS] [-m MRS] [-w]
 *   -q, -m	so many queue pairs with one CQ, and memory regions of a page each
 *   -w		then wait for the end of the standard input, with all of that
 *
 * One line: the milliseconds of CPU to open the device, and for each of the objects, and the
 * memory in KiB.
 */
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static double cpu_ms(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1e3 +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e3;
}

static long rss_kib(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss;
}

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;

	must(list && list[0], "no device");
	ctx = ibv_open_device(list[0]);
	must(ctx, "ibv_open_device");
	ibv_free_device_list(list);
	return ctx;
}

static void make_qps(struct ibv_context *ctx, struct ibv_pd *pd, int n)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {.send_cq = cq,
					.recv_cq = cq,
					.cap = {.max_send_wr = 1,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};

	must(cq, "ibv_create_cq");
	while (n--)
		must(ibv_create_qp(pd, &attr), "ibv_create_qp");
}

static void make_mrs(struct ibv_pd *pd, int n)
{
	static char page[4096] __attribute__((aligned(4096)));

	while (n--)
		must(ibv_reg_mr(pd, page, sizeof(page), IBV_ACCESS_LOCAL_WRITE),
		     "ibv_reg_mr");
}

int main(int argc, char **argv)
{
	double begun = cpu_ms(), open, with_qps, with_mrs;
	int c, qps = 0, mrs = 0;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	bool wait = false;

	while ((c = getopt(argc, argv, "q:m:w")) != -1)
		if (c == 'q')
			qps = atoi(optarg);
		else if (c == 'm')
			mrs = atoi(optarg);
		else if (c == 'w')
			wait = true;
		else
			return 2;
	ctx = open_first();
	pd = ibv_alloc_pd(ctx);
	must(pd, "ibv_alloc_pd");
	open = cpu_ms();
	make_qps(ctx, pd, qps);
	with_qps = cpu_ms();
	make_mrs(pd, mrs);
	with_mrs = cpu_ms();
	printf("%.2f %.5f %.5f %ld\n", open - begun, qps ? (with_qps - open) / qps : 0,
	       mrs ? (with_mrs - with_qps) / mrs : 0, rss_kib());
	fflush(stdout);
	while (wait && getchar() != EOF)
		;
	/* what the process has, its end takes back */
	return 0;
}
