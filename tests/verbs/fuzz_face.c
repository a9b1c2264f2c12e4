/*
 * Description: whatever a program throws at the devices' descriptors, nothing crashes,
 * hangs, leaks descriptors or writes where it must not.
 *
 * Several threads send random and half-right commands by write(2) and ioctl(2), scribble
 * over the mapped rings, and close, duplicate, fork and exec meanwhile. All is drawn from
 * a seed, though threads make the order vary:
 *
 *	fuzz_face LIBRARY [--seed N] [--seeds COUNT] [--rounds N]
 *
 * Each seed is a process with LIBRARY preloaded.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_cm.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <rdma/rdma_user_rxe.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs/host/sysfs.h"

#define THREADS	   3
#define FDS	   24
#define CONTEXTS   3
#define RINGS	   24
#define KEYS	   8
#define LIMIT	   60 /* s, for one seed */
#define ARENA	   (1u << 20)
#define BODY	   448
#define MAX_FAMILY 90

/* struct ring - of the QP, or another object, @handle of @fd */
struct ring {
	struct rxe_queue_buf *q;
	uint32_t len;
	int fd;
	uint32_t handle;
};

/*
 * What the threads share.
 * @fds:	descriptors of devices and events, -1 where there is none. The first
 *		CONTEXTS ones are contexts that live longer.
 * @rings:	mapped rings
 * @keys:	of memory regions, some of them gone
 * @arena:	memory that requests, answers and memory regions may name
 * @canary:	memory that nothing names
 */
static int fds[FDS];
static struct ring *rings[RINGS];
static uint32_t keys[KEYS];
static uint8_t *arena, *nowhere, *read_only, *canary;
static unsigned int rounds = 400;

/* xorshift64*, one per thread */
struct rng {
	uint64_t s;
};

static uint64_t rnd(struct rng *r)
{
	r->s ^= r->s >> 12;
	r->s ^= r->s << 25;
	r->s ^= r->s >> 27;
	return r->s * 0x2545f4914f6cdd1dull;
}

static uint32_t below(struct rng *r, uint32_t n)
{
	return (uint32_t)(rnd(r) >> 33) % n;
}

static bool one_in(struct rng *r, uint32_t n)
{
	return below(r, n) == 0;
}

/* --- values ----------------------------------------------------------------------- */

static uint32_t some_u32(struct rng *r)
{
	static const uint32_t edge[] = {
	    0, 16, 64, 4096, 65535, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};

	switch (below(r, 8)) {
	case 0:
		return edge[below(r, sizeof(edge) / sizeof(edge[0]))];
	case 1:
		return (uint32_t)rnd(r);
	case 2:
		return 1u << below(r, 32);
	default:
		return below(r, 24);
	}
}

/* Mostly good memory, and never any that a good request may not write to */
static uint8_t *some_ptr(struct rng *r)
{
	switch (below(r, 16)) {
	case 0:
		return NULL;
	case 1:
		return nowhere + below(r, ARENA);
	case 2:
		return read_only + below(r, 4096);
	case 3:
		return (uint8_t *)(uintptr_t)(~0ull - below(r, 64));
	case 4:
		return arena + ARENA - below(r, 64); /* runs into the hole behind it */
	default:
		return arena + below(r, ARENA - 8192);
	}
}

static uint64_t ptr_bits(struct rng *r)
{
	return (uintptr_t)some_ptr(r);
}

static uint32_t some_key(struct rng *r)
{
	return one_in(r, 10) ? some_u32(r)
			     : __atomic_load_n(&keys[below(r, KEYS)], __ATOMIC_RELAXED);
}

static int some_fd(struct rng *r)
{
	return __atomic_load_n(&fds[below(r, FDS)], __ATOMIC_RELAXED);
}

static void fill(struct rng *r, uint8_t *p, size_t len)
{
	for (size_t i = 0; i + 4 <= len; i += 4) {
		uint32_t v = some_u32(r);

		memcpy(p + i, &v, 4);
	}
}

static void drop_fd(int slot)
{
	int fd = __atomic_exchange_n(&fds[slot], -1, __ATOMIC_RELAXED);

	if (fd >= 0)
		close(fd);
}

static void keep_fd(struct rng *r, int fd)
{
	int slot = (int)(CONTEXTS + below(r, FDS - CONTEXTS)), old;

	if (fd < 0)
		return;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	old = __atomic_exchange_n(&fds[slot], fd, __ATOMIC_RELAXED);
	if (old >= 0)
		close(old);
}

/* --- uverbs by write(2) ----------------------------------------------------------- */

struct request {
	struct ib_uverbs_cmd_hdr hdr;
	uint8_t body[BODY];
} __attribute__((aligned(8)));

static int send_command(int fd, uint32_t cmd, const void *body, size_t len, void *resp,
			size_t resp_len)
{
	struct request q = {
	    .hdr = {.command = cmd,
		    .in_words = (uint16_t)((sizeof(q.hdr) + len) / 4),
		    .out_words = (uint16_t)(resp_len / 4)},
	};
	uint64_t p = (uintptr_t)resp;

	memcpy(q.body, body, len);
	if (resp)
		memcpy(q.body, &p, sizeof(p));
	return write(fd, &q, sizeof(q.hdr) + len) < 0 ? -errno : 0;
}

/* Rings that make way stay mapped: another thread may be at them. */
static void map_ring(struct rng *r, int fd, uint32_t handle, const struct mminfo *mi)
{
	struct ring *q;
	void *p;

	if (!mi->size || mi->size > 1u << 20)
		return;
	p = mmap(NULL, mi->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		 (off_t)mi->offset);
	q = p == MAP_FAILED ? NULL : malloc(sizeof(*q));
	if (!q)
		return;
	*q = (struct ring){p, mi->size, fd, handle};
	__atomic_store_n(&rings[below(r, RINGS)], q, __ATOMIC_RELEASE);
}

static uint32_t make_pd(int fd)
{
	struct ib_uverbs_alloc_pd cmd = {0};
	struct ib_uverbs_alloc_pd_resp resp = {0};

	send_command(fd, IB_USER_VERBS_CMD_ALLOC_PD, &cmd, sizeof(cmd), &resp,
		     sizeof(resp));
	return resp.pd_handle;
}

static uint32_t make_cq(struct rng *r, int fd, int comp)
{
	struct ib_uverbs_create_cq cmd = {.cqe = 1 + below(r, 40), .comp_channel = comp};
	struct {
		struct ib_uverbs_create_cq_resp base;
		struct rxe_create_cq_resp hw;
	} resp = {0};

	if (send_command(fd, IB_USER_VERBS_CMD_CREATE_CQ, &cmd, sizeof(cmd), &resp,
			 sizeof(resp)) == 0)
		map_ring(r, fd, resp.base.cq_handle, &resp.hw.mi);
	return resp.base.cq_handle;
}

struct qp_made {
	struct ib_uverbs_create_qp_resp base;
	struct rxe_create_qp_resp hw;
};

static struct qp_made make_qp(struct rng *r, int fd, uint32_t pd, uint32_t cq,
			      uint8_t type)
{
	struct ib_uverbs_create_qp cmd = {
	    .pd_handle = pd,
	    .send_cq_handle = cq,
	    .recv_cq_handle = cq,
	    .max_send_wr = below(r, 20),
	    .max_recv_wr = below(r, 20),
	    .max_send_sge = below(r, 5),
	    .max_recv_sge = below(r, 5),
	    .max_inline_data = below(r, 100),
	    .qp_type = type,
	    .sq_sig_all = one_in(r, 2),
	};
	struct qp_made made = {0};

	if (send_command(fd, IB_USER_VERBS_CMD_CREATE_QP, &cmd, sizeof(cmd), &made,
			 sizeof(made)) == 0) {
		map_ring(r, fd, made.base.qp_handle, &made.hw.sq_mi);
		map_ring(r, fd, made.base.qp_handle, &made.hw.rq_mi);
	}
	return made;
}

/* Bring a QP to RTS, connected to @peer on this host; now and then with something odd */
static void connect_qp(struct rng *r, int fd, uint32_t qp, uint32_t peer)
{
	static const uint8_t localhost[16] = {
	    [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
	struct ib_uverbs_modify_qp m = {
	    .qp_handle = qp,
	    .qp_access_flags = 0xf,
	    .port_num = 1,
	    .qkey = 0x11111111,
	    .path_mtu = (uint8_t)(1 + below(r, 5)),
	    .dest_qp_num = peer,
	    .timeout = (uint8_t)(8 + below(r, 4)),
	    .retry_cnt = (uint8_t)below(r, 8),
	    .rnr_retry = (uint8_t)below(r, 8),
	    .min_rnr_timer = 1,
	    .max_rd_atomic = (uint8_t)below(r, 5),
	    .max_dest_rd_atomic = (uint8_t)below(r, 5),
	    .dest = {.is_global = 1, .port_num = 1, .hop_limit = 64},
	};
	static const uint32_t ud[] = {1 | 16 | 32 | 64, 1, 1 | 1 << 16};
	static const uint32_t rc[] = {
	    1 | 16 | 32 | 8, 1 | 128 | 256 | 1 << 12 | 1 << 15 | 1 << 17 | 1 << 20,
	    1 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 13 | 1 << 16};
	const uint32_t *mask = peer ? rc : ud;

	memcpy(m.dest.dgid, localhost, 16);
	for (uint8_t s = 0; s < 3; s++) {
		m.qp_state = (uint8_t)(s + 1);
		m.attr_mask = one_in(r, 30) ? (uint32_t)rnd(r) & 0x1fffff : mask[s];
		send_command(fd, IB_USER_VERBS_CMD_MODIFY_QP, &m, sizeof(m), NULL, 0);
	}
}

static void make_mr(struct rng *r, int fd, uint32_t pd)
{
	struct ib_uverbs_reg_mr cmd = {.pd_handle = pd, .access_flags = 0xf};
	struct ib_uverbs_reg_mr_resp resp;

	cmd.start = (uintptr_t)arena + below(r, ARENA);
	cmd.length = below(r, ARENA);
	if (one_in(r, 8))
		cmd.start = (uintptr_t)nowhere + below(r, ARENA);
	if (one_in(r, 16))
		cmd.length = (uint64_t)0 - cmd.start - below(r, 3);
	if (one_in(r, 2))
		cmd.access_flags |= 1 << 6;
	if (cmd.start >= (uintptr_t)arena && cmd.start < (uintptr_t)arena + ARENA &&
	    cmd.length > ARENA)
		cmd.length = ARENA;
	cmd.hca_va =
	    one_in(r, 4) ? (rnd(r) & ~0xfffull) | (cmd.start & 0xfff) : cmd.start;
	if (send_command(fd, IB_USER_VERBS_CMD_REG_MR, &cmd, sizeof(cmd), &resp,
			 sizeof(resp)) == 0)
		__atomic_store_n(&keys[below(r, KEYS)], resp.lkey, __ATOMIC_RELAXED);
}

static void do_build(struct rng *r)
{
	int fd = fds[below(r, CONTEXTS)];
	uint32_t pd, cq;
	struct qp_made a, b;
	bool ud = one_in(r, 3);

	if (fd < 0)
		return;
	pd = make_pd(fd);
	cq = make_cq(r, fd, one_in(r, 2) ? some_fd(r) : -1);
	for (int i = 0; i < 3; i++)
		make_mr(r, fd, pd);
	a = make_qp(r, fd, pd, cq, ud ? 4 : one_in(r, 3) ? 3 : 2);
	b = make_qp(r, fd, pd, cq, ud ? 4 : 2);
	connect_qp(r, fd, a.base.qp_handle, ud ? 0 : b.base.qpn);
	connect_qp(r, fd, b.base.qp_handle, ud ? 0 : a.base.qpn);
}

/* A memory region may only name what it may write to. */
static void tame(struct rng *r, uint32_t cmd, uint8_t *body)
{
	struct ib_uverbs_rereg_mr *re = (void *)body;
	struct ib_uverbs_reg_mr *reg = (void *)body;

	if (cmd == IB_USER_VERBS_CMD_REG_MR) {
		reg->start = (uintptr_t)arena + below(r, ARENA / 2);
		reg->length = below(r, ARENA / 2);
		reg->hca_va = reg->start;
	} else if (cmd == IB_USER_VERBS_CMD_REREG_MR) {
		re->start = (uintptr_t)arena + below(r, ARENA / 2);
		re->length = below(r, ARENA / 2);
		re->hca_va = re->start;
	}
}

static void do_command(struct rng *r)
{
	uint32_t cmd = below(r, 64), len = 4 * below(r, BODY / 4 + 1);
	uint64_t resp = ptr_bits(r);
	struct request q;
	int fd = some_fd(r);

	if (fd < 0)
		return;
	fill(r, q.body, sizeof(q.body));
	tame(r, cmd, q.body);
	if (!one_in(r, 6))
		memcpy(q.body, &resp, sizeof(resp));
	if (one_in(r, 4))
		cmd |= IB_USER_VERBS_CMD_FLAG_EXTENDED;
	if (one_in(r, 50))
		cmd |= (uint32_t)rnd(r);
	if ((cmd & 0xff) == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL)
		return; /* its answer is a descriptor, see comp_channel() */
	q.hdr.command = cmd;
	q.hdr.in_words = (uint16_t)((sizeof(q.hdr) + len) / 4);
	q.hdr.out_words = (uint16_t)(one_in(r, 4) ? some_u32(r) : 32 + below(r, 64));
	if (cmd & IB_USER_VERBS_CMD_FLAG_EXTENDED) {
		struct ib_uverbs_ex_cmd_hdr *ex = (void *)q.body;

		ex->response = resp;
		ex->cmd_hdr_reserved = 0;
		ex->provider_in_words = (uint16_t)below(r, 2);
		ex->provider_out_words = (uint16_t)below(r, 16);
		len = (uint32_t)sizeof(*ex) + 8 * below(r, 20);
		q.hdr.in_words =
		    (uint16_t)((len - sizeof(*ex)) / 8 -
			       (len > sizeof(*ex) ? ex->provider_in_words : 0));
	}
	if (one_in(r, 20))
		q.hdr.in_words = (uint16_t)rnd(r);
	if (one_in(r, 20)) {
		if (write(fd, some_ptr(r), some_u32(r)) < 0)
			return;
	} else if (write(fd, &q, sizeof(q.hdr) + len) < 0) {
		return;
	}
}

static void doorbell(int fd, uint32_t qp)
{
	struct ib_uverbs_post_send cmd = {.qp_handle = qp};
	struct ib_uverbs_post_send_resp resp;

	send_command(fd, IB_USER_VERBS_CMD_POST_SEND, &cmd, sizeof(cmd), &resp,
		     sizeof(resp));
}

/* --- uverbs by ioctl(2) ----------------------------------------------------------- */

static void do_ioctl(struct rng *r)
{
	struct {
		struct ib_uverbs_ioctl_hdr hdr;
		struct ib_uverbs_attr attr[16];
	} q = {0};
	uint16_t n = (uint16_t)below(r, 12);
	int fd = some_fd(r);
	uint8_t *body = arena + below(r, ARENA - (1 << 17)) / 8 * 8;

	if (fd < 0)
		return;
	fill(r, body, BODY);
	q.hdr.length = (uint16_t)(sizeof(q.hdr) + n * sizeof(q.attr[0]));
	q.hdr.object_id = (uint16_t)below(r, 20);
	q.hdr.method_id = (uint16_t)below(r, 10);
	q.hdr.num_attrs = n;
	q.hdr.driver_id = RDMA_DRIVER_RXE;
	for (uint16_t i = 0; i < n; i++) {
		struct ib_uverbs_attr *a = &q.attr[i];

		a->attr_id =
		    (uint16_t)(one_in(r, 8) ? 0x1000 + below(r, 3) : i + below(r, 2));
		a->len = (uint16_t)(one_in(r, 6) ? some_u32(r) : below(r, 65));
		a->flags = (uint16_t)(one_in(r, 20) ? rnd(r) : one_in(r, 2));
		a->data = one_in(r, 2) ? ptr_bits(r) : some_u32(r);
		if (a->len > 8 && one_in(r, 2))
			a->data = (uintptr_t)body;
	}
	if (one_in(r, 20))
		q.hdr.length = (uint16_t)rnd(r);
	if (one_in(r, 20))
		q.hdr.num_attrs = (uint16_t)rnd(r);
	if (one_in(r, 4)) { /* a legacy command inside */
		q.hdr.object_id = UVERBS_OBJECT_DEVICE;
		q.hdr.method_id = UVERBS_METHOD_INVOKE_WRITE;
		q.attr[0].attr_id = UVERBS_ATTR_CORE_IN;
		q.attr[1].attr_id = UVERBS_ATTR_CORE_OUT;
		q.attr[2].attr_id = UVERBS_ATTR_WRITE_CMD;
		q.attr[2].data = below(r, 44);
		q.attr[2].len = 8;
		tame(r, (uint32_t)q.attr[2].data, body);
	}
	/* what answers with descriptors, see comp_channel() */
	if (q.hdr.object_id == UVERBS_OBJECT_ASYNC_EVENT ||
	    q.attr[2].data == IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL)
		return;
	ioctl(fd, one_in(r, 30) ? rnd(r) : RDMA_VERBS_IOCTL,
	      one_in(r, 30) ? (void *)some_ptr(r) : &q);
}

/* --- rings ------------------------------------------------------------------------ */

static void scribble_wqe(struct rng *r, uint8_t *at, size_t room)
{
	struct rxe_send_wqe w;
	uint64_t addr = (uintptr_t)arena + below(r, ARENA);
	struct rxe_sge sge;

	fill(r, (uint8_t *)&w, sizeof(w));
	w.wr.opcode = one_in(r, 20) ? (uint32_t)rnd(r) : below(r, 16);
	w.wr.send_flags = below(r, 64);
	w.wr.wr.rdma.remote_addr = addr;
	w.wr.wr.rdma.rkey = some_key(r);
	w.dma.num_sge = one_in(r, 8) ? some_u32(r) : below(r, 4);
	w.dma.length = one_in(r, 4) ? some_u32(r) : below(r, 20000);
	if (room < sizeof(w) + sizeof(sge))
		return;
	memcpy(at, &w, sizeof(w));
	for (size_t i = 0; i < 4 && sizeof(w) + (i + 1) * sizeof(sge) <= room; i++) {
		sge.addr = (uintptr_t)arena + below(r, ARENA);
		sge.length = one_in(r, 8) ? some_u32(r) : below(r, 6000);
		sge.lkey = some_key(r);
		memcpy(at + sizeof(w) + i * sizeof(sge), &sge, sizeof(sge));
	}
}

/*
 * A descriptor that another thread replaced between answer and mmap(2) may lead to a file
 * that is too short: SIGBUS, which the library must pass on to the program.
 */
static __thread sigjmp_buf out;
static __thread volatile bool may_fault;

static void on_bus(int sig)
{
	if (may_fault)
		siglongjmp(out, 1);
	signal(sig, SIG_DFL);
}

static void change_ring(struct rng *r, struct ring *g)
{
	struct rxe_queue_buf *q = g->q;

	switch (below(r, 12)) {
	case 0:
		q->producer_index = some_u32(r);
		break;
	case 4:
	case 5:
	case 6: /* as who polls a CQ */
		q->consumer_index = q->producer_index;
		break;
	case 1:
		q->consumer_index = some_u32(r);
		break;
	case 2:
		q->index_mask = some_u32(r);
		q->log2_elem_size = some_u32(r);
		break;
	case 3:
		fill(r, (uint8_t *)q, g->len);
		break;
	default:
		for (uint32_t at = (uint32_t)sizeof(*q); at < g->len;
		     at += 64u << below(r, 4))
			scribble_wqe(r, (uint8_t *)q + at, g->len - at);
		q->producer_index = q->consumer_index + below(r, 8);
	}
}

static void do_ring(struct rng *r)
{
	struct ring *g = __atomic_load_n(&rings[below(r, RINGS)], __ATOMIC_ACQUIRE);

	if (!g)
		return;
	may_fault = true;
	if (!sigsetjmp(out, 1))
		change_ring(r, g);
	may_fault = false;
	doorbell(g->fd, g->handle);
}

/* --- rdma_cm ---------------------------------------------------------------------- */

static void do_cm(struct rng *r)
{
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		uint8_t body[560];
	} __attribute__((aligned(8))) q;
	struct rdma_ucm_create_id create = {.uid = 1, .qp_type = 2};
	struct sockaddr_in sin = {.sin_family = AF_INET};
	uint64_t resp = ptr_bits(r);
	uint16_t len = (uint16_t)(4 * below(r, 140));
	int fd = some_fd(r);

	if (fd < 0)
		return;
	fill(r, q.body, sizeof(q.body));
	sin.sin_port = htons((uint16_t)(20000 + below(r, 64)));
	sin.sin_addr.s_addr = htonl(0x7f4e0000 | below(r, 4));
	for (size_t at = 8; at + sizeof(sin) < sizeof(q.body); at += 8)
		if (one_in(r, 12))
			memcpy(q.body + at, &sin, sizeof(sin));
	if (one_in(r, 2))
		memcpy(q.body, &resp, sizeof(resp));
	q.hdr.cmd = one_in(r, 20) ? some_u32(r) : below(r, 24);
	if (one_in(r, 3)) {
		static const uint16_t spaces[] = {0x106, 0x111, 0x13f, 2};

		q.hdr.cmd = RDMA_USER_CM_CMD_CREATE_ID;
		create.ps = spaces[below(r, 4)];
		create.response = resp;
		len = sizeof(create);
		memcpy(q.body, &create, sizeof(create));
	}
	q.hdr.in = (uint16_t)(one_in(r, 10) ? some_u32(r) : len);
	q.hdr.out = (uint16_t)(one_in(r, 4) ? some_u32(r) : 400);
	if (write(fd, &q, sizeof(q.hdr) + len) < 0)
		return;
}

/* --- descriptors and processes ---------------------------------------------------- */

static int ready_context(struct rng *r)
{
	struct ib_uverbs_get_context cmd = {0};
	struct ib_uverbs_get_context_resp resp;
	int fd = open("/dev/infiniband/uverbs0", O_RDWR | (one_in(r, 2) ? O_CLOEXEC : 0));

	if (fd >= 0 && send_command(fd, IB_USER_VERBS_CMD_GET_CONTEXT, &cmd, sizeof(cmd),
				    &resp, sizeof(resp)) == 0)
		keep_fd(r, (int)resp.async_fd);
	return fd;
}

static void comp_channel(struct rng *r)
{
	struct ib_uverbs_create_comp_channel cmd = {0};
	struct ib_uverbs_create_comp_channel_resp resp;
	int fd = some_fd(r);

	if (fd >= 0 && send_command(fd, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &cmd,
				    sizeof(cmd), &resp, sizeof(resp)) == 0)
		keep_fd(r, (int)resp.fd);
}

static void do_fork(struct rng *r)
{
	struct rng mine = {rnd(r) | 1};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		alarm(LIMIT / 2);
		for (int i = 0; i < 8; i++)
			i & 1 ? do_command(&mine) : do_ring(&mine);
		keep_fd(&mine, ready_context(&mine));
		do_build(&mine);
		do_ring(&mine);
		if (one_in(&mine, 2))
			execl("/bin/true", "true", NULL);
		if (one_in(&mine, 2))
			exit(0);
		_exit(0);
	}
	if (pid > 0 && (waitpid(pid, &status, 0) != pid || status)) {
		fprintf(stderr, "a child of fork ended with status %#x\n", status);
		_exit(3);
	}
}

static void do_descriptor(struct rng *r)
{
	uint8_t buf[256];
	int fd = some_fd(r);

	switch (below(r, 9)) {
	case 0:
		keep_fd(r, ready_context(r));
		break;
	case 1:
		keep_fd(r, open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK));
		break;
	case 2:
		keep_fd(r, dup(fd));
		break;
	case 3:
		keep_fd(r, fcntl(fd, F_DUPFD_CLOEXEC, below(r, 200)));
		break;
	case 4:
		comp_channel(r);
		break;
	case 5:
		drop_fd((int)(one_in(r, 20) ? 0 : CONTEXTS) +
			(int)below(r, FDS - CONTEXTS));
		break;
	case 6:
		if (fd >= 0 && ftruncate(fd, some_u32(r)))
			break;
		break;
	default:
		if (fd >= 0 && read(fd, buf, below(r, sizeof(buf))) < 0)
			break;
	}
}

/* --- a seed ----------------------------------------------------------------------- */

static void *fuzz(void *arg)
{
	struct rng r = {(uintptr_t)arg};

	for (unsigned int i = 0; i < rounds; i++) {
		switch (below(&r, 16)) {
		case 0:
		case 1:
			do_descriptor(&r);
			break;
		case 2:
			do_build(&r);
			break;
		case 3:
		case 4:
			do_ioctl(&r);
			break;
		case 5:
		case 6:
			do_cm(&r);
			break;
		case 7:
		case 8:
		case 9:
		case 10:
			do_ring(&r);
			break;
		case 11:
			if (one_in(&r, 20))
				do_fork(&r);
			break;
		default:
			do_command(&r);
		}
	}
	return NULL;
}

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 2048; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static uint8_t *map(size_t len, int prot)
{
	uint8_t *p =
	    mmap(NULL, len, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		_exit(4);
	return p;
}

static void make_memory(void)
{
	uint8_t *p = map(3 * (size_t)ARENA, PROT_NONE);

	nowhere = map(ARENA, PROT_NONE);
	read_only = map(2 * 4096, PROT_READ);
	canary = map(ARENA, PROT_READ | PROT_WRITE);
	memset(canary, 0x5a, ARENA);
	arena = p + ARENA; /* holes before and behind */
	if (mprotect(arena, ARENA, PROT_READ | PROT_WRITE))
		_exit(4);
}

static int run_seed(uint64_t seed)
{
	struct rng r = {seed * 0x9e3779b97f4a7c15ull | 1};
	pthread_t t[THREADS];
	int before, after;

	alarm(LIMIT);
	make_memory();
	signal(SIGBUS, on_bus);
	for (int i = 0; i < FDS; i++)
		fds[i] = -1;
	keep_fd(&r,
		ready_context(&r)); /* starts the engine, which keeps what it opened */
	keep_fd(&r, open("/dev/infiniband/rdma_cm", O_RDWR | O_NONBLOCK));
	for (int i = 0; i < FDS; i++)
		drop_fd(i);
	before = open_fds();
	for (int i = 0; i < CONTEXTS; i++)
		fds[i] = ready_context(&r);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, fuzz, (void *)(uintptr_t)(rnd(&r) | 1)))
			return 4;
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < FDS; i++)
		drop_fd(i);
	for (uint32_t i = 0; i < ARENA; i++) {
		if (canary[i] != 0x5a) {
			fprintf(stderr, "memory that nobody named was written to\n");
			return 5;
		}
	}
	after = open_fds();
	if (after > before + 16) { /* a socket per address is no leak */
		fprintf(stderr, "%d descriptors became %d\n", before, after);
		return 6;
	}
	return 0;
}

/* --- running itself --------------------------------------------------------------- */

static int spawn(const char *self, const char *library, uint64_t seed)
{
	char text[32], n[32];
	pid_t pid = fork();
	int status = 0;

	snprintf(text, sizeof(text), "%llu", (unsigned long long)seed);
	snprintf(n, sizeof(n), "%u", rounds);
	if (!pid) {
		const char *also = getenv("FUZZ_PRELOAD");
		char list[4096];

		snprintf(list, sizeof(list), "%s%s%s", also ? also : "", also ? ":" : "",
			 library);
		setenv("LD_PRELOAD", list, 1);
		execl(self, self, library, "--one", text, n, NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status) {
		fprintf(stderr, "seed %s: status %#x\n", text, status);
		return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/urxe-fuzz-XXXXXX", err[256], cmd[64];
	uint64_t seed = 1, seeds = 6;
	struct sysfs_device dev;
	int failed = 0;

	if (argc == 5 && !strcmp(argv[2], "--one")) {
		rounds = (unsigned int)strtoul(argv[4], NULL, 0);
		return run_seed(strtoull(argv[3], NULL, 0));
	}
	for (int i = 2; i + 1 < argc; i += 2) {
		uint64_t v = strtoull(argv[i + 1], NULL, 0);

		if (!strcmp(argv[i], "--seed"))
			seed = v;
		else if (!strcmp(argv[i], "--seeds"))
			seeds = v;
		else if (!strcmp(argv[i], "--rounds"))
			rounds = (unsigned int)v;
	}
	if (argc < 2 || !mkdtemp(dir) || sysfs_device_init(&dev, "rxe0", "lo") ||
	    sysfs_write_tree(dir, &dev, 1, err, sizeof(err)))
		return 99;
	setenv("URXE_DIR", dir, 1);
	setenv("URXE_DEVICE", "rxe0=lo", 1);
	setenv("MALLOC_PERTURB_", "165", 0);
	for (uint64_t i = 0; i < seeds; i++)
		failed |= spawn("/proc/self/exe", argv[1], seed + i);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd) || failed;
}
