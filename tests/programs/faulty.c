/*
 * faulty.c - a program with one of the faults of beginners, which its argument names; "none" has
 * none. Two processes, client and server, have a QP each. The client posts one request, or many,
 * and waits for a completion; a fault is a value of struct plan that differs from the usual one.
 *
 *	faulty FAULT [SECONDS]		how long is waited for a completion that does not come
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MR_BYTES 12288

/* struct plan - what one end does; 0 where nothing is said in usual() */
struct plan {
	int port, gid_index, av_global, dgid_zero, dgid_last, dgid_away;
	int qp_access, mr_access, mtu, rd_atomic, timeout, retries, rnr_retry, max_inline;
	int qpn_xor, psn_add, no_rtr, rtr_mask_off, rts_mask_add, max_dest;
	int op, length, count, unsignaled, is_inline, rkey_xor, remote_add, lkey_xor;
	int receive, unmap, other_cq, no_poll, cq_events, child, close_stderr, no_ack;
};

static void usual(struct plan *p)
{
	*p = (struct plan){
	    .port = 1,
	    .av_global = 1,
	    .qp_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
			 IBV_ACCESS_REMOTE_ATOMIC,
	    .mr_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
			 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
	    .mtu = IBV_MTU_1024,
	    .rd_atomic = 4,
	    .max_dest = 4,
	    .timeout = 10,
	    .retries = 2,
	    .rnr_retry = 1,
	    .max_inline = 32,
	    .op = IBV_WR_SEND,
	    .length = 3000,
	    .count = 1,
	    .receive = 3000,
	};
}

enum who { SERVER = 1, CLIENT = 2, BOTH = 3 };

/* struct fault - @value of the member at @offset for @who; several of one name add up */
static const struct fault {
	const char *name;
	enum who who;
	size_t offset;
	int value;
} faults[] = {
#define SET(name, who, member, value)                                                    \
	{                                                                                \
		name, who, offsetof(struct plan, member), value                          \
	}
    SET("rkey", CLIENT, op, IBV_WR_RDMA_WRITE),
    SET("rkey", CLIENT, rkey_xor, 0x21),
    SET("mr-too-small", CLIENT, op, IBV_WR_RDMA_WRITE),
    SET("mr-too-small", CLIENT, remote_add, MR_BYTES - 1000),
    SET("before-mr", CLIENT, op, IBV_WR_RDMA_READ),
    SET("before-mr", CLIENT, remote_add, -8),
    SET("mr-right", CLIENT, op, IBV_WR_RDMA_WRITE),
    SET("mr-right", SERVER, mr_access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
    SET("qp-right", CLIENT, op, IBV_WR_RDMA_READ),
    SET("qp-right", SERVER, qp_access, IBV_ACCESS_REMOTE_WRITE),
    SET("lkey", CLIENT, lkey_xor, 0x33),
    SET("local-range", CLIENT, length, MR_BYTES + 7),
    SET("local-unmapped", CLIENT, unmap, 1),
    SET("receive-unmapped", SERVER, unmap, 1),
    SET("mr-access", SERVER, mr_access, IBV_ACCESS_REMOTE_WRITE),
    SET("no-receive", SERVER, receive, 0),
    SET("receive-too-small", SERVER, receive, 40),
    SET("unsignalled", CLIENT, op, IBV_WR_RDMA_WRITE),
    SET("unsignalled", CLIENT, unsignaled, 1),
    SET("unsignalled", CLIENT, count, 60),
    SET("inline-too-large", CLIENT, is_inline, 1),
    SET("gid-index", CLIENT, gid_index, 9),
    SET("gid-family", CLIENT, gid_index, 1),
    SET("no-grh", CLIENT, av_global, 0),
    SET("dgid-zero", CLIENT, dgid_zero, 1),
    SET("dgid-nobody", CLIENT, dgid_last, 77),
    SET("dgid-away", CLIENT, dgid_away, 1),
    SET("port", CLIENT, port, 3),
    SET("mask-lacks", CLIENT, rtr_mask_off, IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER),
    SET("mask-extra", CLIENT, rts_mask_add, IBV_QP_DEST_QPN),
    SET("rd-atomic-limit", CLIENT, max_dest, 200),
    SET("no-rtr", CLIENT, no_rtr, 1),
    SET("peer-not-rtr", SERVER, no_rtr, 1),
    SET("psn-high", SERVER, psn_add, 5000),
    SET("psn-low", SERVER, psn_add, -70),
    SET("qpn", CLIENT, qpn_xor, 5),
    SET("qpn-nobody", CLIENT, qpn_xor, 0xf00000),
    SET("mtu", CLIENT, mtu, IBV_MTU_2048),
    SET("rd-atomic-0", CLIENT, op, IBV_WR_RDMA_READ),
    SET("rd-atomic-0", CLIENT, rd_atomic, 0),
    SET("child", CLIENT, child, 1),
    SET("closed-stderr", CLIENT, lkey_xor, 0x33),
    SET("closed-stderr", CLIENT, close_stderr, 1),
    SET("rnr-forever", SERVER, receive, 0),
    SET("rnr-forever", CLIENT, rnr_retry, 7),
    SET("wrong-cq", CLIENT, other_cq, 1),
    SET("nobody-polls", CLIENT, no_poll, 1),
    SET("not-armed-again", CLIENT, cq_events, 1),
    SET("not-armed-again", CLIENT, count, 2),
    SET("not-armed-again", CLIENT, op, IBV_WR_RDMA_WRITE),
    SET("not-acknowledged", CLIENT, cq_events, 1),
    SET("not-acknowledged", CLIENT, no_ack, 1),
    SET("timeout-0", CLIENT, timeout, 0),
    SET("timeout-0", SERVER, no_rtr, 1),
#undef SET
};

static bool make_plan(const char *fault, enum who who, struct plan *p)
{
	bool known = !strcmp(fault, "none");

	usual(p);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		if (strcmp(faults[i].name, fault))
			continue;
		known = true;
		if (faults[i].who & who)
			memcpy((char *)p + faults[i].offset, &faults[i].value,
			       sizeof(int));
	}
	return known;
}

/* struct card - what one end tells the other */
struct card {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, psn, rkey;
};

struct end {
	struct plan plan;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *buf;
	struct card us, them;
};

static int open_end(struct end *e)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 10,
						.max_recv_wr = 10,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	e->ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	e->pd = e->ctx ? ibv_alloc_pd(e->ctx) : NULL;
	if (!e->pd)
		return -1;
	e->channel = ibv_create_comp_channel(e->ctx);
	e->send_cq = ibv_create_cq(e->ctx, 100, NULL, e->channel, 0);
	e->recv_cq = ibv_create_cq(e->ctx, 100, NULL, NULL, 0);
	init.send_cq = e->send_cq;
	init.recv_cq = e->recv_cq;
	init.cap.max_inline_data = (uint32_t)e->plan.max_inline;
	e->qp = ibv_create_qp(e->pd, &init);
	e->buf = mmap(NULL, 2 * MR_BYTES, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	e->mr = ibv_reg_mr(e->pd, e->buf, MR_BYTES, e->plan.mr_access);
	if (!e->mr) /* it says why; go on with another */
		e->mr = ibv_reg_mr(e->pd, e->buf, MR_BYTES, 0);
	if (!e->qp || !e->mr)
		return -1;
	ibv_query_gid(e->ctx, 1, 0, &e->us.gid);
	e->us.qpn = e->qp->qp_num;
	e->us.psn = 3000;
	e->us.rkey = e->mr->rkey;
	e->us.addr = (uintptr_t)e->buf;
	return 0;
}

static void told(const char *what, int err)
{
	if (err)
		printf("%s: %s\n", what, strerror(err));
}

static void to_init(struct end *e)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = (uint8_t)e->plan.port,
				.qp_access_flags = (unsigned int)e->plan.qp_access};

	told("INIT", ibv_modify_qp(e->qp, &a,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS));
}

static void to_rtr(struct end *e)
{
	const struct plan *p = &e->plan;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTR,
				.path_mtu = (enum ibv_mtu)p->mtu,
				.dest_qp_num = e->them.qpn ^ (uint32_t)p->qpn_xor,
				.rq_psn = e->them.psn + (uint32_t)p->psn_add,
				.max_dest_rd_atomic = (uint8_t)p->max_dest,
				.min_rnr_timer = 12,
				.ah_attr = {.is_global = (uint8_t)p->av_global,
					    .port_num = 1,
					    .grh = {.dgid = e->them.gid,
						    .sgid_index = (uint8_t)p->gid_index,
						    .hop_limit = 8}}};
	int mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;

	if (p->dgid_zero)
		memset(&a.ah_attr.grh.dgid, 0, 16);
	if (p->dgid_away) /* a second host: TEST-NET-1, RFC 5737 */
		memcpy(&a.ah_attr.grh.dgid.raw[12], "\300\0\2\1", 4);
	if (p->dgid_last)
		a.ah_attr.grh.dgid.raw[15] = (uint8_t)p->dgid_last;
	told("RTR", ibv_modify_qp(e->qp, &a, mask & ~p->rtr_mask_off));
}

static void to_rts(struct end *e)
{
	const struct plan *p = &e->plan;
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_RTS,
				.sq_psn = e->us.psn,
				.timeout = (uint8_t)p->timeout,
				.retry_cnt = (uint8_t)p->retries,
				.rnr_retry = (uint8_t)p->rnr_retry,
				.max_rd_atomic = (uint8_t)p->rd_atomic};

	told("RTS", ibv_modify_qp(e->qp, &a,
				  IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_MAX_QP_RD_ATOMIC | p->rts_mask_add));
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void await(struct ibv_cq *cq, double seconds)
{
	double end = now() + seconds;
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) == 0) {
		if (now() > end) {
			puts("no completion");
			return;
		}
	}
	printf("completion %s\n", ibv_wc_status_str(wc.status));
}

static void post(struct end *e)
{
	const struct plan *p = &e->plan;
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf,
			      .length = (uint32_t)p->length,
			      .lkey = e->mr->lkey ^ (uint32_t)p->lkey_xor};
	struct ibv_send_wr *bad,
	    wr = {.wr_id = 42,
		  .sg_list = &sge,
		  .num_sge = 1,
		  .opcode = (enum ibv_wr_opcode)p->op,
		  .send_flags = (p->unsignaled ? 0 : IBV_SEND_SIGNALED) |
				(p->is_inline ? IBV_SEND_INLINE : 0),
		  .wr.rdma = {.remote_addr =
				  e->them.addr + (uint64_t)(int64_t)p->remote_add,
			      .rkey = e->them.rkey ^ (uint32_t)p->rkey_xor}};

	told("post", ibv_post_send(e->qp, &wr, &bad));
}

/* Takes one event, and does not arm the CQ again for the second completion */
static void await_events(struct end *e, double seconds)
{
	struct ibv_cq *cq;
	void *arg;

	alarm((unsigned int)seconds);
	ibv_get_cq_event(e->channel, &cq, &arg);
	if (e->plan.no_ack) {
		ibv_destroy_qp(e->qp);
		ibv_destroy_cq(cq);
	}
	ibv_ack_cq_events(cq, 1);
	await(cq, 0);
	post(e);
	ibv_get_cq_event(e->channel, &cq, &arg);
}

static void post_in_child(struct end *e)
{
	pid_t pid = fork();

	if (!pid) {
		post(e);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* A file of the program's own has the number of standard error. */
static void take_stderr(void)
{
	close(STDERR_FILENO);
	if (memfd_create("mine", 0) != STDERR_FILENO)
		exit(2);
}

static void run_client(struct end *e, double seconds)
{
	if (e->plan.close_stderr)
		take_stderr();
	if (e->plan.cq_events)
		ibv_req_notify_cq(e->send_cq, 0);
	if (e->plan.child)
		post_in_child(e);
	for (int i = 0; i < (e->plan.cq_events ? 1 : e->plan.count); i++) {
		post(e);
		if (e->plan.unsignaled)
			usleep(2000);
	}
	if (e->plan.cq_events)
		await_events(e, seconds);
	else if (e->plan.no_poll)
		usleep((useconds_t)(seconds * 1e6));
	else
		await(e->plan.other_cq ? e->recv_cq : e->send_cq,
		      e->plan.unsignaled ? 0.2 : seconds);
}

static void run_server(struct end *e)
{
	struct ibv_sge sge = {.addr = (uintptr_t)e->buf,
			      .length = (uint32_t)e->plan.receive,
			      .lkey = e->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = 43, .sg_list = &sge, .num_sge = 1};

	if (e->plan.receive)
		told("receive", ibv_post_recv(e->qp, &wr, &bad));
}

static void swap_cards(struct end *e, int fd)
{
	if (write(fd, &e->us, sizeof(e->us)) != sizeof(e->us) ||
	    read(fd, &e->them, sizeof(e->them)) != sizeof(e->them))
		exit(2);
}

static void meet(int fd)
{
	char c = 0;

	if (write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1)
		exit(2);
}

static void connect_end(struct end *e, int fd)
{
	swap_cards(e, fd);
	to_init(e);
	if (!e->plan.no_rtr) {
		to_rtr(e);
		to_rts(e);
	}
	if (e->plan.unmap)
		munmap(e->buf, 2 * MR_BYTES);
}

int main(int argc, char **argv)
{
	const char *fault = argc > 1 ? argv[1] : "none";
	double seconds = argc > 2 ? atof(argv[2]) : 10;
	struct end e = {0};
	int fd[2];
	pid_t server;

	if (!make_plan(fault, CLIENT, &e.plan) ||
	    socketpair(AF_UNIX, SOCK_STREAM, 0, fd) || (server = fork()) < 0)
		return 2;
	if (!server)
		make_plan(fault, SERVER, &e.plan);
	close(fd[!server]);
	if (open_end(&e))
		return 2;
	connect_end(&e, fd[!!server]);
	if (!server)
		run_server(&e);
	meet(fd[!!server]);
	if (server)
		run_client(&e, seconds);
	if (e.plan.close_stderr)
		printf("%ld bytes are in the file\n",
		       (long)lseek(STDERR_FILENO, 0, SEEK_END));
	fflush(stdout);
	meet(fd[!!server]);
	return server && waitpid(server, NULL, 0) < 0;
}
