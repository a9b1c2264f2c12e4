/*
 * mesh.c - many processes, each with a queue pair to each other one, all busy at once.
 *
 * usage: mesh -f FILE [option...]
 *   -f FILE	what the processes of all hosts share to find each other; made by the
 * first -n N	processes in all (8) -b B -c C	this call runs those with numbers B to B
 * + C - 1 (0, all) -d DEVICE -g GID -m MTU	as in ibv_rc_pingpong (rxe0, 0, 1024) -r R
 * rounds with each peer (20)
 *   -k K	kill K of the own processes, one after the other, by SIGKILL; always the
 * one that has UDP port 4791 if it is one of them. Traffic goes on until that is done -x
 * HOW	instead of by SIGKILL they end in the middle of traffic by themselves: exit, exec,
 * close (of the device), thread (one that polls is cancelled), fork
 *		(children that open the device and use it)
 *   -o		this process opens the device, too, before it forks the others
 *   -t SECONDS	limit (60)
 *
 * A round with a peer is a WRITE, a READ of the same bytes, a FETCH_ADD whose result must
 * be the number of the round, and a SEND with a pattern that the receiver checks. Between
 * two processes that live nothing may fail, and each SEND must have come once, in order.
 * With one that died the first error must be IBV_WC_RETRY_EXC_ERR. Exit code 0 if all of
 * that is so.
 *
 * The processes share nothing that belongs to RDMA; FILE has numbers and the results.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_N	  64
#define SIZE_MAX_ 6000 /* of a message; several packets of any MTU */
#define RECVS	  4
#define ROCE_PORT 0x12b7

/*
 * struct who - a process, as the others see it
 * @ready:	the fields below are right
 * @dying:	it is about to be killed: its errors are no failures
 * @quiet:	it begins nothing more, and all that it began has ended
 */
struct who {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t rkey;
	uint32_t qpn[MAX_N];
	_Atomic int ready, dying, quiet, done;
	_Atomic uint32_t sent[MAX_N];
};

/* struct shared - FILE. @kills: how many are still to come; @stop: no new rounds */
struct shared {
	_Atomic int kills;
	_Atomic int begun;
	_Atomic int stop;
	struct who who[MAX_N];
};

enum how { BY_KILL, BY_EXIT, BY_EXEC, BY_CLOSE, BY_THREAD, BY_FORK };

static struct {
	const char *file, *device;
	int n, base, count, gid, rounds, kills, limit;
	enum ibv_mtu mtu;
	enum how how;
	bool open_first;
} opt = {.device = "rxe0",
	 .n = 8,
	 .count = -1,
	 .rounds = 20,
	 .limit = 60,
	 .mtu = IBV_MTU_1024};

static struct shared *sh;
static time_t deadline;

static void fatal(const char *what)
{
	fprintf(stderr, "mesh: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void nap(unsigned int ms)
{
	const struct timespec t = {.tv_sec = ms / 1000,
				   .tv_nsec = (ms % 1000) * 1000000l};

	nanosleep(&t, NULL);
}

static bool late(void)
{
	return time(NULL) > deadline;
}

/* --- one process ------------------------------------------------------------------ */

/* Layout of a process's memory: for each peer what it WRITEs here, then what we send */
struct area {
	uint8_t slot[SIZE_MAX_], out[SIZE_MAX_], back[SIZE_MAX_], in[RECVS][SIZE_MAX_];
	uint64_t counter, old;
};

/*
 * struct peer - a connection
 * @round:	that runs, or is next; @pending: its completions that are missing
 * @got:	SENDs that came
 * @failed:	status of the first failure
 */
struct peer {
	struct ibv_qp *qp;
	uint32_t round, got;
	unsigned int pending;
	enum ibv_wc_status failed;
};

static struct {
	int me;
	struct ibv_context *ctx;
	struct ibv_comp_channel *ch;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct area *area;
	struct peer peer[MAX_N];
	bool bad;
} p;

static void complain(int peer, const char *what, long a, long b)
{
	fprintf(stderr, "mesh: %d with %d: %s: %ld, %ld\n", p.me, peer, what, a, b);
	p.bad = true;
}

static uint32_t length_of(int from, uint32_t round)
{
	return 1 + (uint32_t)(from * 977 + round * 3571) % SIZE_MAX_;
}

static void fill(uint8_t *b, int from, int to, uint32_t round)
{
	uint32_t n = length_of(from, round),
		 x = (uint32_t)(from * 64 + to) * 2654435761u + round;

	for (uint32_t i = 0; i < n; i++)
		b[i] = (uint8_t)((x + i * 40503u) >> 8);
}

static bool check(const uint8_t *b, int from, int to, uint32_t round)
{
	static uint8_t want[SIZE_MAX_];

	fill(want, from, to, round);
	return !memcmp(b, want, length_of(from, round));
}

static uint64_t wr_id(int peer, enum ibv_wr_opcode op, unsigned int slot)
{
	return (uint64_t)peer << 16 | (uint64_t)op << 8 | slot;
}

static void post_recv(int j, unsigned int slot)
{
	struct ibv_sge sge = {(uintptr_t)p.area[j].in[slot], SIZE_MAX_, p.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id(j, 0xff, slot),
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	if (ibv_post_recv(p.peer[j].qp, &wr, &bad))
		complain(j, "post_recv", errno, 0);
}

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = {.send_cq = p.cq,
					.recv_cq = p.cq,
					.cap = {.max_send_wr = 8,
						.max_recv_wr = RECVS,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_READ |
						      IBV_ACCESS_REMOTE_ATOMIC};
	struct ibv_qp *qp = ibv_create_qp(p.pd, &init);

	if (!qp)
		fatal("create_qp");
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS))
		fatal("to INIT");
	return qp;
}

static void connect_qp(int j)
{
	struct who *w = &sh->who[j];
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = opt.mtu,
				  .dest_qp_num = w->qpn[p.me],
				  .rq_psn = 77,
				  .max_dest_rd_atomic = 2,
				  .min_rnr_timer = 1,
				  .ah_attr = {.is_global = 1,
					      .port_num = 1,
					      .grh = {.dgid = w->gid,
						      .sgid_index = (uint8_t)opt.gid,
						      .hop_limit = 64}}};
	/* 0.27 s, seven times: a busy machine is no dead peer */
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 16,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .sq_psn = 77,
				  .max_rd_atomic = 2};

	if (ibv_modify_qp(p.peer[j].qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER))
		fatal("to RTR");
	if (ibv_modify_qp(p.peer[j].qp, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fatal("to RTS");
}

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), opt.device))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		fatal(opt.device);
	ibv_free_device_list(list);
	return ctx;
}

static void set_up(int me)
{
	size_t bytes = sizeof(struct area) * (size_t)opt.n;
	/* half of them with on-demand paging */
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
		     (me & 1 ? IBV_ACCESS_ON_DEMAND : 0);
	struct who *w = &sh->who[me];

	p.me = me;
	p.ctx = open_device();
	p.ch = ibv_create_comp_channel(p.ctx);
	p.cq = ibv_create_cq(p.ctx, opt.n * 16, NULL, p.ch, 0);
	p.pd = ibv_alloc_pd(p.ctx);
	p.area =
	    mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (!p.ch || !p.cq || !p.pd || p.area == MAP_FAILED)
		fatal("objects");
	p.mr = ibv_reg_mr(p.pd, p.area, bytes, access);
	if (!p.mr || ibv_query_gid(p.ctx, 1, opt.gid, &w->gid))
		fatal("reg_mr, query_gid");
	w->addr = (uintptr_t)p.area;
	w->rkey = p.mr->rkey;
	for (int j = 0; j < opt.n; j++) {
		if (j == me)
			continue;
		p.peer[j].qp = make_qp();
		w->qpn[j] = p.peer[j].qp->qp_num;
		for (unsigned int i = 0; i < RECVS; i++)
			post_recv(j, i);
	}
	w->ready = 1;
	for (int j = 0; j < opt.n; j++) {
		while (!sh->who[j].ready) {
			nap(1);
			if (late())
				fatal("the others do not come");
		}
		if (j != me)
			connect_qp(j);
	}
	/* who is not connected yet would drop what comes, which costs time only */
	sh->begun++;
	ibv_req_notify_cq(p.cq, 0);
}

static void start_round(int j)
{
	struct peer *q = &p.peer[j];
	struct who *w = &sh->who[j];
	uint32_t len = length_of(p.me, q->round);
	uint64_t there = w->addr + sizeof(struct area) * (size_t)p.me;
	struct area *a = &p.area[j];
	struct ibv_sge out = {(uintptr_t)a->out, len, p.mr->lkey};
	struct ibv_sge back = {(uintptr_t)a->back, len, p.mr->lkey};
	struct ibv_sge old = {(uintptr_t)&a->old, 8, p.mr->lkey};
	struct ibv_send_wr wr[4] = {
	    {.opcode = IBV_WR_RDMA_WRITE,
	     .sg_list = &out,
	     .wr.rdma = {there + offsetof(struct area, slot), w->rkey}},
	    {.opcode = IBV_WR_RDMA_READ,
	     .sg_list = &back,
	     .wr.rdma = {there + offsetof(struct area, slot), w->rkey}},
	    {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
	     .sg_list = &old,
	     .wr.atomic = {there + offsetof(struct area, counter), 1, 0, w->rkey}},
	    {.opcode = IBV_WR_SEND, .sg_list = &out},
	};
	struct ibv_send_wr *bad;

	fill(a->out, p.me, j, q->round);
	memset(a->back, 0, len);
	a->old = ~0ull;
	for (int i = 0; i < 4; i++) {
		wr[i].wr_id = wr_id(j, wr[i].opcode, 0);
		wr[i].num_sge = 1;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	q->pending = 4;
	if (ibv_post_send(q->qp, wr, &bad))
		complain(j, "post_send", errno, 0);
}

static void received(int j, unsigned int slot, uint32_t len)
{
	struct peer *q = &p.peer[j];

	if (len != length_of(j, q->got) || !check(p.area[j].in[slot], j, p.me, q->got))
		complain(j, "a message is wrong: round, length", q->got, len);
	q->got++;
	post_recv(j, slot);
}

/* Each kind of completion of a round; the SEND is the last */
static void sent(int j, enum ibv_wr_opcode op)
{
	struct peer *q = &p.peer[j];

	q->pending--;
	if (op == IBV_WR_RDMA_READ && !check(p.area[j].back, p.me, j, q->round))
		complain(j, "what was written is not what was read: round", q->round, 0);
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD && p.area[j].old != q->round)
		complain(j, "the counter is wrong: round", q->round, (long)p.area[j].old);
	if (op != IBV_WR_SEND)
		return;
	if (q->pending)
		complain(j, "completions are missing", q->pending, 0);
	q->round++;
	sh->who[p.me].sent[j] = q->round;
}

static void failed(int j, const struct ibv_wc *wc)
{
	struct peer *q = &p.peer[j];
	bool first = q->failed == IBV_WC_SUCCESS;
	bool is_recv = (wc->wr_id >> 8 & 0xff) == 0xff;

	if (!sh->who[j].dying)
		complain(j, ibv_wc_status_str(wc->status), wc->vendor_err, q->round);
	else if (wc->status !=
		     (first && !is_recv ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR) &&
		 !(first && is_recv))
		complain(j, "a dead peer ends with the wrong status", wc->status, first);
	if (!is_recv)
		q->failed = wc->status;
	q->pending = 0;
}

static bool has_died(int j)
{
	return sh->who[j].dying || p.peer[j].failed;
}

static void begin_rounds(void)
{
	for (int j = 0; j < opt.n; j++) {
		struct peer *q = &p.peer[j];

		if (j == p.me || q->pending || q->failed || sh->stop)
			continue;
		/* with a peer that dies at this moment: that is what is to be seen */
		if (sh->kills > 0 || q->round < (uint32_t)opt.rounds)
			start_round(j);
	}
}

static bool all_quiet(void)
{
	for (int j = 0; j < opt.n; j++)
		if (j != p.me &&
		    (p.peer[j].pending || (!has_died(j) && !sh->stop &&
					   p.peer[j].round < (uint32_t)opt.rounds)))
			return false;
	return sh->kills <= 0;
}

/* All that the living sent has come */
static bool all_here(void)
{
	for (int j = 0; j < opt.n; j++)
		if (j != p.me && !has_died(j) &&
		    (!sh->who[j].quiet || p.peer[j].got < sh->who[j].sent[p.me]))
			return false;
	return true;
}

/* The channel, or now and then a look at what the others tell */
static void sleep_for_event(void)
{
	struct pollfd fd = {.fd = p.ch->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *arg;

	if (poll(&fd, 1, 20) <= 0)
		return;
	if (ibv_get_cq_event(p.ch, &cq, &arg))
		return;
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(cq, 0);
}

static void take_completions(void)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(p.cq, 16, wc);

	for (int i = 0; i < n; i++) {
		int j = (int)(wc[i].wr_id >> 16);
		enum ibv_wr_opcode op = (enum ibv_wr_opcode)(wc[i].wr_id >> 8 & 0xff);

		if (wc[i].status)
			failed(j, &wc[i]);
		else if ((int)op == 0xff)
			received(j, wc[i].wr_id & 0xff, wc[i].byte_len);
		else
			sent(j, op);
	}
	/* a third of the processes poll all the time */
	if (n == 0 && p.me % 3)
		sleep_for_event();
}

static void *poll_forever(void *arg)
{
	struct ibv_cq *cq = ibv_create_cq(p.ctx, 1, NULL, NULL, 0);
	struct ibv_wc wc;

	for (;;) {
		ibv_poll_cq(cq, 1, &wc);
		pthread_testcancel();
	}
	return arg;
}

/* Threads that use the device end in the middle of what they do */
static void cancel_threads(void)
{
	for (int i = 0; i < 20; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, poll_forever, NULL))
			fatal("thread");
		nap(5);
		pthread_cancel(t);
		pthread_join(t, NULL);
	}
}

static int child(void)
{
	struct ibv_context *ctx = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
	static char mem[4096];
	struct ibv_mr *mr =
	    pd ? ibv_reg_mr(pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct ibv_wc wc;

	return !mr || !cq || ibv_poll_cq(cq, 1, &wc) || ibv_dereg_mr(mr) ||
	       ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}

/* Children have nothing of this process's device, and take nothing from it */
static void fork_children(void)
{
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();
		int status;

		if (pid < 0)
			fatal("fork");
		if (!pid)
			exit(child());
		if (waitpid(pid, &status, 0) != pid || status)
			complain(p.me, "a child failed", status, 0);
	}
}

/* The time has come to leave by oneself */
static void leave(void)
{
	switch (opt.how) {
	case BY_EXIT:
		exit(0);
	case BY_EXEC:
		execlp("true", "true", NULL);
		_exit(3);
	case BY_CLOSE:
		for (int j = 0; j < opt.n; j++)
			if (j != p.me && ibv_destroy_qp(p.peer[j].qp))
				exit(3);
		if (ibv_dereg_mr(p.mr) || ibv_destroy_cq(p.cq) ||
		    ibv_destroy_comp_channel(p.ch) || ibv_dealloc_pd(p.pd) ||
		    ibv_close_device(p.ctx))
			exit(3);
		/* it lives on, without a device */
		for (int j = 0; j < opt.n; j++)
			while (!sh->who[j].done && !sh->who[j].dying && !late())
				nap(10);
		exit(0);
	default:
		return;
	}
}

static int process(int me)
{
	set_up(me);
	while (!all_quiet() && !late()) {
		begin_rounds();
		take_completions();
		if (sh->who[me].dying && opt.how != BY_KILL)
			leave();
		if (opt.how == BY_THREAD && p.peer[me ? 0 : 1].round == 3)
			cancel_threads();
		if (opt.how == BY_FORK && p.peer[me ? 0 : 1].round == 3)
			fork_children();
	}
	sh->who[me].quiet = 1;
	while (!all_here() && !late())
		take_completions();
	for (int j = 0; j < opt.n; j++)
		if (j != me && !has_died(j) && p.peer[j].got != sh->who[j].sent[me])
			complain(j, "came, were sent", p.peer[j].got,
				 sh->who[j].sent[me]);
	if (late())
		complain(me, "too late", 0, 0);
	sh->who[me].done = 1;
	return p.bad;
}

/* --- the parent ------------------------------------------------------------------- */

/* Inodes of the sockets of this network namespace that are bound to ROCE_PORT */
static int roce_sockets(const char *file, unsigned long *inode, int n, int max)
{
	char line[512];
	FILE *f = fopen(file, "r");
	unsigned int port;

	while (f && n < max && fgets(line, sizeof(line), f))
		if (sscanf(line, " %*d: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %*s %*s %lu",
			   &port, &inode[n]) == 2 &&
		    port == ROCE_PORT)
			n++;
	if (f)
		fclose(f);
	return n;
}

static bool has_socket(pid_t pid, const unsigned long *inode, int n)
{
	char dir[64], path[400], link[64], want[64];
	struct dirent *e;
	bool found = false;
	DIR *d;

	snprintf(dir, sizeof(dir), "/proc/%d/fd", pid);
	d = opendir(dir);
	while (d && !found && (e = readdir(d))) {
		ssize_t len;

		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		len = readlink(path, link, sizeof(link) - 1);
		link[len > 0 ? len : 0] = '\0';
		for (int i = 0; i < n; i++) {
			snprintf(want, sizeof(want), "socket:[%lu]", inode[i]);
			found |= !strcmp(link, want);
		}
	}
	if (d)
		closedir(d);
	return found;
}

/* The process to kill: the switch of an address, else any that lives */
static int victim(const pid_t *pid, bool *is_switch)
{
	unsigned long inode[16];
	int n = roce_sockets("/proc/net/udp", inode, 0, 16), any = -1;

	n = roce_sockets("/proc/net/udp6", inode, n, 16);
	*is_switch = true;
	for (int i = 0; i < opt.count; i++) {
		if (sh->who[opt.base + i].dying)
			continue;
		if (has_socket(pid[i], inode, n))
			return i;
		any = i;
	}
	*is_switch = false;
	return any;
}

static void kill_some(const pid_t *pid)
{
	int switches = 0;

	while (sh->begun < opt.n && !late())
		nap(5);
	for (int k = 0; k < opt.kills && !late(); k++) {
		bool is_switch;
		int i;

		nap(300);
		/* on a busy machine it takes a while until another one has the port */
		for (int n = 0; n < 12; n++) {
			i = victim(pid, &is_switch);
			if (i < 0 || is_switch)
				break;
			nap(100);
		}
		if (i < 0)
			break;
		switches += is_switch;
		sh->who[opt.base + i].dying = 1;
		if (opt.how == BY_KILL)
			kill(pid[i], SIGKILL);
	}
	/* after the last one the others go on for a while */
	nap(500);
	sh->kills -= opt.kills;
	if (opt.kills)
		printf("%d of %d had UDP port 4791\n", switches, opt.kills);
}

static int reap(const pid_t *pid)
{
	int bad = 0;

	for (int i = 0; i < opt.count; i++) {
		bool dying = sh->who[opt.base + i].dying;
		int status;

		waitpid(pid[i], &status, 0);
		if (dying && opt.how == BY_KILL && WIFSIGNALED(status) &&
		    WTERMSIG(status) == SIGKILL)
			continue;
		if (status) {
			fprintf(stderr, "mesh: process %d ended with %#x\n", opt.base + i,
				status);
			bad++;
		}
	}
	return bad;
}

static void share(void)
{
	int fd = open(opt.file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0 || ftruncate(fd, sizeof(*sh)))
		fatal(opt.file);
	sh = mmap(NULL, sizeof(*sh), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (sh == MAP_FAILED)
		fatal(opt.file);
	close(fd);
}

static enum how how_of(const char *name)
{
	static const char *const names[] = {"kill",  "exit",   "exec",
					    "close", "thread", "fork"};

	for (int i = 0; i < 6; i++)
		if (!strcmp(name, names[i]))
			return (enum how)i;
	errno = EINVAL;
	fatal(name);
	return BY_KILL;
}

static void options(int argc, char **argv)
{
	int c;

	while ((c = getopt(argc, argv, "f:n:b:c:d:g:m:r:k:x:ot:")) != -1) {
		switch (c) {
		case 'f':
			opt.file = optarg;
			break;
		case 'n':
			opt.n = atoi(optarg);
			break;
		case 'b':
			opt.base = atoi(optarg);
			break;
		case 'c':
			opt.count = atoi(optarg);
			break;
		case 'd':
			opt.device = optarg;
			break;
		case 'g':
			opt.gid = atoi(optarg);
			break;
		case 'm':
			opt.mtu =
			    (enum ibv_mtu)(__builtin_ctz((unsigned int)atoi(optarg)) - 7);
			break;
		case 'r':
			opt.rounds = atoi(optarg);
			break;
		case 'k':
			opt.kills = atoi(optarg);
			break;
		case 'x':
			opt.how = how_of(optarg);
			break;
		case 'o':
			opt.open_first = true;
			break;
		case 't':
			opt.limit = atoi(optarg);
			break;
		default:
			exit(2);
		}
	}
	if (opt.count < 0)
		opt.count = opt.n - opt.base;
	if (!opt.file || opt.n < 2 || opt.n > MAX_N || opt.base < 0 ||
	    opt.base + opt.count > opt.n)
		exit(2);
}

int main(int argc, char **argv)
{
	struct ibv_context *ctx = NULL;
	pid_t pid[MAX_N];
	int bad;

	options(argc, argv);
	share();
	deadline = time(NULL) + opt.limit;
	sh->kills += opt.kills;
	if (opt.open_first)
		ctx = open_device();
	for (int i = 0; i < opt.count; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			fatal("fork");
		if (!pid[i])
			exit(process(opt.base + i));
	}
	if (opt.kills)
		kill_some(pid);
	bad = reap(pid);
	if (ctx && ibv_close_device(ctx))
		bad++;
	printf("%d processes, %d bad\n", opt.count, bad);
	return bad != 0;
}
