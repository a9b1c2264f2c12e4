/*
 * verbs.c - the same measures over the emulated HCA, by plain libibverbs; run it under
 * `urxe run`.
 *
 *   verbs bw write|read|send SIZE    GB/s, 1 QP or --qps N
 *   verbs lat write|send SIZE        half round trip, us; --events sleeps for completions
 *   verbs rate SIZE                  WRITE messages/s, 1 QP, window 128
 *   verbs memory N                   KiB that one idle RC QP of depth 16 costs
 * Options: --qps N, --idle N (idle QPs and MRs beside), --odp (on-demand MR, warmed),
 *          --cold-odp, --mtu 256..4096, --gid N, --device NAME
 *          --self, --messages N: see below
 *
 * Two processes, each with its own context, opened after the fork. With --self it is one, and one
 * thread that does the work of both ends, so that what a message costs can be counted: nobody waits
 * for anybody, and the same is executed each time. N messages are sent then in counted(), by which
 * a tool finds them, and N before it.
 */
#include <errno.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define SECONDS 1.0
#define DEPTH	128
#define MAX_QPS 64

/* struct config - from the command line */
struct config {
	const char *op, *device;
	size_t size;
	unsigned int qps, idle, gid;
	uint64_t messages;
	bool events, odp, cold, self;
	enum ibv_mtu mtu;
};

/* struct end - what an end tells the other */
struct end {
	uint32_t qpn[MAX_QPS];
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
};

/* struct bench - one end of the conversation; @far: the other, where it is --self */
struct bench {
	struct config c;
	int sock;
	bool child;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp[MAX_QPS], *far[MAX_QPS];
	struct ibv_mr *mr;
	char *buf;
	size_t buf_len;
	struct end mine, peer;
};

static void open_device(struct bench *b)
{
	int n, i;
	struct ibv_device **list = ibv_get_device_list(&n);

	for (i = 0; list && i < n; i++) {
		if (!b->c.device || !strcmp(ibv_get_device_name(list[i]), b->c.device))
			break;
	}
	if (!list || i == n)
		bench_die("no RDMA device (start this under `urxe run`)");
	b->ctx = ibv_open_device(list[i]);
	if (!b->ctx)
		bench_die("cannot open the device: %s", strerror(errno));
	ibv_free_device_list(list);
}

static struct ibv_qp *make_qp(struct bench *b, unsigned int depth)
{
	struct ibv_qp_init_attr init = {
	    .send_cq = b->cq,
	    .recv_cq = b->cq,
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = depth,
		    .max_recv_wr = depth,
		    .max_send_sge = 1,
		    .max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	struct ibv_qp *qp = ibv_create_qp(b->pd, &init);

	if (!qp || ibv_modify_qp(qp, &attr,
				 IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				     IBV_QP_ACCESS_FLAGS))
		bench_die("QP: %s", strerror(errno));
	return qp;
}

static void connect_qp(struct bench *b, struct ibv_qp *qp, uint32_t qpn)
{
	struct ibv_qp_attr attr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = b->c.mtu,
	    .dest_qp_num = qpn,
	    .max_dest_rd_atomic = 16,
	    .min_rnr_timer = 1,
	    .ah_attr = {.is_global = 1,
			.port_num = 1,
			.grh = {.dgid = b->peer.gid,
				.sgid_index = (uint8_t)b->c.gid,
				.hop_limit = 64}},
	};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER))
		bench_die("RTR: %s", strerror(errno));
	attr = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTS,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 7,
	    .max_rd_atomic = 16,
	};
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		bench_die("RTS: %s", strerror(errno));
}

static void make_memory(struct bench *b)
{
	int access =
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

	b->buf_len = b->c.size < 4096 ? 8192 : 2 * b->c.size;
	b->buf = mmap(NULL, b->buf_len, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->buf == MAP_FAILED)
		bench_die("mmap: %s", strerror(errno));
	if (!b->c.cold)
		memset(b->buf, b->child, b->buf_len);
	if (b->c.odp || b->c.cold)
		access |= IBV_ACCESS_ON_DEMAND;
	b->mr = ibv_reg_mr(b->pd, b->buf, b->buf_len, access);
	if (!b->mr)
		bench_die("MR: %s", strerror(errno));
}

static void make_idle(struct bench *b)
{
	static char small[64];
	unsigned int i;

	for (i = 0; i < b->c.idle; i++) {
		make_qp(b, 16);
		if (!ibv_reg_mr(b->pd, small, sizeof(small), IBV_ACCESS_LOCAL_WRITE))
			bench_die("idle MR: %s", strerror(errno));
	}
}

static void setup(struct bench *b)
{
	unsigned int i;

	if (!b->c.self)
		b->child = bench_fork(&b->sock) == 1;
	open_device(b);
	b->pd = ibv_alloc_pd(b->ctx);
	b->channel = ibv_create_comp_channel(b->ctx);
	b->cq = ibv_create_cq(b->ctx, DEPTH * MAX_QPS, NULL,
			      b->c.events ? b->channel : NULL, 0);
	if (!b->pd || !b->channel || !b->cq)
		bench_die("PD or CQ: %s", strerror(errno));
	make_memory(b);
	for (i = 0; i < b->c.qps; i++) {
		b->qp[i] = make_qp(b, DEPTH);
		b->far[i] = b->c.self ? make_qp(b, DEPTH) : NULL;
		b->mine.qpn[i] = b->qp[i]->qp_num;
	}
	if (ibv_query_gid(b->ctx, 1, (int)b->c.gid, &b->mine.gid))
		bench_die("GID %u: %s", b->c.gid, strerror(errno));
	b->mine.addr = (uintptr_t)b->buf;
	b->mine.rkey = b->mr->rkey;
	if (b->c.self)
		b->peer = b->mine;
	else
		bench_exchange(b->sock, &b->mine, &b->peer, sizeof(b->mine));
	for (i = 0; i < b->c.qps; i++) {
		connect_qp(b, b->qp[i], b->far[i] ? b->far[i]->qp_num : b->peer.qpn[i]);
		if (b->far[i])
			connect_qp(b, b->far[i], b->qp[i]->qp_num);
	}
	make_idle(b);
	if (b->c.events)
		ibv_req_notify_cq(b->cq, 0);
	if (!b->c.self)
		bench_barrier(b->sock);
}

static void post_recv(struct bench *b, struct ibv_qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)b->buf, (uint32_t)b->c.size, b->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(qp, &wr, &bad))
		bench_die("post_recv");
}

static void post_on(struct bench *b, struct ibv_qp *qp, unsigned int i,
		    enum ibv_wr_opcode op, bool signaled)
{
	struct ibv_sge sge = {(uintptr_t)b->buf, (uint32_t)b->c.size, b->mr->lkey};
	struct ibv_send_wr wr = {
	    .wr_id = i,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = op,
	    .send_flags = signaled ? IBV_SEND_SIGNALED : 0,
	    .wr.rdma = {.remote_addr = b->peer.addr, .rkey = b->peer.rkey},
	};
	struct ibv_send_wr *bad;

	if (ibv_post_send(qp, &wr, &bad))
		bench_die("post_send");
}

static void post(struct bench *b, unsigned int i, enum ibv_wr_opcode op, bool signaled)
{
	post_on(b, b->qp[i], i, op, signaled);
}

static void check(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS)
		bench_die("completion: %s", ibv_wc_status_str(wc->status));
}

static void sleep_for_event(struct bench *b)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(b->channel, &cq, &context))
		bench_die("completion channel");
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(b->cq, 0);
}

static int poll_some(struct bench *b, struct ibv_wc *wc, int n)
{
	for (;;) {
		int got = ibv_poll_cq(b->cq, n, wc);

		if (got < 0)
			bench_die("poll_cq");
		if (got)
			return got;
		if (!b->c.events)
			continue;
		sleep_for_event(b);
	}
}

static enum ibv_wr_opcode opcode(const struct config *c)
{
	if (!strcmp(c->op, "write"))
		return IBV_WR_RDMA_WRITE;
	if (!strcmp(c->op, "read"))
		return IBV_WR_RDMA_READ;
	return IBV_WR_SEND;
}

/*
 * The passive end of a SEND stream: keep the receive queue full until the parent says
 * stop
 */
static void sink(struct bench *b)
{
	struct ibv_wc wc[64];
	unsigned int i, k;

	for (i = 0; i < b->c.qps; i++) {
		for (k = 0; k < DEPTH; k++)
			post_recv(b, b->qp[i]);
	}
	bench_barrier(b->sock);
	for (;;) {
		int n = poll_some(b, wc, 64), j;

		for (j = 0; j < n; j++) {
			check(&wc[j]);
			for (k = 0; k < b->c.qps && b->qp[k]->qp_num != wc[j].qp_num; k++)
				;
			post_recv(b, b->qp[k]);
		}
	}
}

static void passive(struct bench *b)
{
	char c;

	bench_barrier(b->sock);
	/* The target of RDMA does nothing: wait for the parent to end. */
	while (read(b->sock, &c, 1) > 0)
		;
	exit(0);
}

/* Stream with @window messages under way on each QP; messages completed, in *@seconds */
static uint64_t stream(struct bench *b, unsigned int window, unsigned int batch,
		       double *seconds)
{
	enum ibv_wr_opcode op = opcode(&b->c);
	unsigned int i, posted[MAX_QPS] = {0};
	uint64_t done = 0, start = bench_now();
	struct ibv_wc wc[64];
	bool stop = false;
	unsigned int under_way = 0;

	while (!stop || under_way) {
		stop = b->c.messages ? done + under_way >= b->c.messages
				     : bench_now() - start > SECONDS * 1e9;
		for (i = 0; i < b->c.qps && !stop; i++) {
			while (posted[i] + batch <= window) {
				unsigned int k;

				for (k = 0; k < batch; k++)
					post(b, i, op, k == batch - 1);
				posted[i] += batch;
				under_way += batch;
			}
		}
		if (under_way) {
			int n = poll_some(b, wc, 64), j;

			for (j = 0; j < n; j++) {
				check(&wc[j]);
				posted[wc[j].wr_id] -= batch;
				under_way -= batch;
				done += batch;
			}
		}
	}
	*seconds = (double)(bench_now() - start) / 1e9;
	return done;
}

static void bench_bandwidth(struct bench *b)
{
	unsigned int window = b->c.size >= 65536 ? 16 : 64;
	double seconds;
	uint64_t done;

	if (b->child) {
		if (!strcmp(b->c.op, "send"))
			sink(b);
		passive(b);
	}
	bench_barrier(b->sock);
	if (b->c.odp)
		stream(b, window, 1, &seconds);
	done = stream(b, window, 1, &seconds);
	bench_result("bw", (double)done * (double)b->c.size / seconds / 1e9, "GB/s");
}

static void bench_rate(struct bench *b)
{
	double seconds;
	uint64_t done;

	if (b->child)
		passive(b);
	bench_barrier(b->sock);
	done = stream(b, DEPTH - 16, 16, &seconds);
	bench_result("rate", (double)done / seconds, "messages/s");
}

static void wait_recv(struct bench *b, unsigned int *sent)
{
	struct ibv_wc wc[2];
	bool got = false;

	while (!got || *sent) {
		int n = poll_some(b, wc, 2), i;

		for (i = 0; i < n; i++) {
			check(&wc[i]);
			if (wc[i].opcode & IBV_WC_RECV)
				got = true;
			else
				(*sent)--;
		}
		if (got)
			break;
	}
	if (!b->c.self)
		post_recv(b, b->qp[0]);
}

static void bench_send_latency(struct bench *b)
{
	enum { N = 20000 };
	static double half[N];
	unsigned int sent = 0;
	int i;

	for (i = 0; i < 8; i++)
		post_recv(b, b->qp[0]);
	bench_barrier(b->sock);
	for (i = 0; i < N; i++) {
		uint64_t t0 = bench_now();

		if (b->child)
			wait_recv(b, &sent);
		post(b, 0, IBV_WR_SEND, true);
		sent++;
		if (!b->child)
			wait_recv(b, &sent);
		half[i] = (double)(bench_now() - t0) / 2e3;
	}
	if (!b->child)
		bench_result("lat", bench_median(half, N), "us");
	bench_barrier(b->sock);
	exit(0);
}

/* --- one thread that is both ends ------------------------------------------------- */

/* A message there and one back: two messages */
static void round_trip(struct bench *b)
{
	struct ibv_qp *from = b->qp[0], *to = b->far[0], *t;
	unsigned int sent = 0;
	int way;

	for (way = 0; way < 2; way++) {
		post_recv(b, to);
		post_on(b, from, 0, IBV_WR_SEND, true);
		sent++;
		wait_recv(b, &sent);
		t = from;
		from = to;
		to = t;
	}
}

static void send_some(struct bench *b, bool rate, bool lat)
{
	double seconds;
	uint64_t i;

	for (i = 0; lat && i < b->c.messages; i += 2)
		round_trip(b);
	if (rate)
		stream(b, DEPTH - 16, 16, &seconds);
	else if (!lat)
		stream(b, b->c.size >= 65536 ? 16 : 64, 1, &seconds);
}

static __attribute__((noinline)) void counted(struct bench *b, bool rate, bool lat)
{
	send_some(b, rate, lat);
	__asm__ __volatile__("");
}

static uint64_t thread_cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The helper leaves the sockets to this thread when it has seen it drive for a while */
static void let_helper_look(struct bench *b, bool rate, bool lat)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t messages = b->c.messages;
	int i;

	b->c.messages = 512;
	for (i = 0; i < 20; i++) {
		send_some(b, rate, lat);
		nanosleep(&pause, NULL);
	}
	b->c.messages = messages;
}

static void bench_self(struct bench *b, const char *mode)
{
	bool rate = !strcmp(mode, "rate"), lat = !strcmp(mode, "lat");
	struct rusage from, to;
	uint64_t before;

	if ((!rate && !lat && strcmp(mode, "bw")) || !b->c.messages ||
	    (!lat && opcode(&b->c) == IBV_WR_SEND))
		bench_die("--self: --messages N bw write|read SIZE | lat send SIZE | "
			  "rate SIZE");
	let_helper_look(b, rate, lat);
	send_some(b, rate, lat);
	getrusage(RUSAGE_THREAD, &from);
	before = thread_cpu_ns();
	counted(b, rate, lat);
	bench_result("cpu", (double)(thread_cpu_ns() - before) / (double)b->c.messages,
		     "ns");
	getrusage(RUSAGE_THREAD, &to);
	bench_result(
	    "switches",
	    (double)(to.ru_nvcsw + to.ru_nivcsw - from.ru_nvcsw - from.ru_nivcsw) /
		(double)b->c.messages,
	    "");
}

static long rss_and_shm_kib(void)
{
	long kib = 0, v;
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmRSS: %ld", &v) == 1)
			kib = v;
	}
	if (f)
		fclose(f);
	return kib;
}

static void bench_memory(struct bench *b)
{
	unsigned int i;
	long before;

	if (b->child)
		exit(0);
	make_qp(b, 16);
	before = rss_and_shm_kib();
	for (i = 0; i < b->c.size; i++)
		connect_qp(b, make_qp(b, 16), 1000 + i);
	bench_result("memory_per_qp",
		     (double)(rss_and_shm_kib() - before) / (double)b->c.size, "KiB");
}

static enum ibv_mtu mtu_of(int bytes)
{
	enum ibv_mtu m = IBV_MTU_256;
	int v = 256;

	while (v < bytes && m < IBV_MTU_4096) {
		v *= 2;
		m++;
	}
	return m;
}

static void parse(int argc, char **argv, struct config *c)
{
	static const struct option longs[] = {
	    {"qps", 1, 0, 'q'},
	    {"idle", 1, 0, 'i'},
	    {"events", 0, 0, 'e'},
	    {"odp", 0, 0, 'o'},
	    {"cold-odp", 0, 0, 'c'},
	    {"mtu", 1, 0, 'm'},
	    {"gid", 1, 0, 'g'},
	    {"device", 1, 0, 'd'},
	    {"self", 0, 0, 's'},
	    {"messages", 1, 0, 'n'},
	    {0},
	};
	int o;

	*c = (struct config){.op = "", .qps = 1, .mtu = IBV_MTU_4096};
	while ((o = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (o) {
		case 'q':
			c->qps = (unsigned int)atoi(optarg);
			break;
		case 'i':
			c->idle = (unsigned int)atoi(optarg);
			break;
		case 'e':
			c->events = true;
			break;
		case 'o':
			c->odp = true;
			break;
		case 'c':
			c->cold = true;
			break;
		case 'm':
			c->mtu = mtu_of(atoi(optarg));
			break;
		case 'g':
			c->gid = (unsigned int)atoi(optarg);
			break;
		case 'd':
			c->device = optarg;
			break;
		case 's':
			c->self = true;
			break;
		case 'n':
			c->messages = strtoull(optarg, NULL, 10);
			break;
		default:
			bench_die("unknown option");
		}
	}
	if (c->qps < 1 || c->qps > MAX_QPS)
		bench_die("--qps is 1 to %d", MAX_QPS);
}

int main(int argc, char **argv)
{
	static struct bench b;
	const char *mode;

	parse(argc, argv, &b.c);
	argv += optind;
	argc -= optind;
	mode = argc > 0 ? argv[0] : "";
	if (argc == 3) {
		b.c.op = argv[1];
		b.c.size = (size_t)atol(argv[2]);
	} else if (argc == 2) {
		b.c.op = "write";
		b.c.size = (size_t)atol(argv[1]);
	} else {
		bench_die("usage: verbs bw OP SIZE | lat OP SIZE | rate SIZE | memory N");
	}
	if (!b.c.size || b.c.size > 1u << 30)
		bench_die("bad size");
	setup(&b);
	if (b.c.self)
		bench_self(&b, mode);
	else if (!strcmp(mode, "bw"))
		bench_bandwidth(&b);
	else if (!strcmp(mode, "lat"))
		bench_send_latency(&b);
	else if (!strcmp(mode, "rate"))
		bench_rate(&b);
	else if (!strcmp(mode, "memory"))
		bench_memory(&b);
	else
		bench_die("unknown measure %s", mode);
	return 0;
}
