/* fuzz_write.c - uverbs by write(2): right commands that make objects, and any others. */
#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <string.h>
#include <unistd.h>

#include "tests/verbs/fuzz_face.h"

struct request {
	struct ib_uverbs_cmd_hdr hdr;
	uint8_t body[BODY];
} __attribute__((aligned(8)));

int send_command(int fd, uint32_t cmd, const void *body, size_t len, void *resp,
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

int ready_context(struct rng *r)
{
	struct ib_uverbs_get_context cmd = {0};
	struct ib_uverbs_get_context_resp resp;
	int fd = open("/dev/infiniband/uverbs0", O_RDWR | (one_in(r, 2) ? O_CLOEXEC : 0));

	if (fd >= 0 && send_command(fd, IB_USER_VERBS_CMD_GET_CONTEXT, &cmd, sizeof(cmd),
				    &resp, sizeof(resp)) == 0)
		keep_fd(r, (int)resp.async_fd);
	return fd;
}

void comp_channel(struct rng *r)
{
	struct ib_uverbs_create_comp_channel cmd = {0};
	struct ib_uverbs_create_comp_channel_resp resp;
	int fd = some_fd(r);

	if (fd >= 0 && send_command(fd, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &cmd,
				    sizeof(cmd), &resp, sizeof(resp)) == 0)
		keep_fd(r, (int)resp.fd);
}

/* --- objects -------------------------------------------------------------------- */

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

	cmd.start = (uintptr_t)shared.arena + below(r, ARENA);
	cmd.length = below(r, ARENA);
	if (one_in(r, 8))
		cmd.start = (uintptr_t)shared.nowhere + below(r, ARENA);
	if (one_in(r, 16))
		cmd.length = (uint64_t)0 - cmd.start - below(r, 3);
	if (one_in(r, 2))
		cmd.access_flags |= 1 << 6;
	if (cmd.start >= (uintptr_t)shared.arena &&
	    cmd.start < (uintptr_t)shared.arena + ARENA && cmd.length > ARENA)
		cmd.length = ARENA;
	cmd.hca_va =
	    one_in(r, 4) ? (rnd(r) & ~0xfffull) | (cmd.start & 0xfff) : cmd.start;
	if (send_command(fd, IB_USER_VERBS_CMD_REG_MR, &cmd, sizeof(cmd), &resp,
			 sizeof(resp)) == 0)
		__atomic_store_n(&shared.keys[below(r, KEYS)], resp.lkey,
				 __ATOMIC_RELAXED);
}

void fuzz_build(struct rng *r)
{
	int fd = shared.fds[below(r, CONTEXTS)];
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

/* --- anything ------------------------------------------------------------------- */

void tame(struct rng *r, uint32_t cmd, uint8_t *body)
{
	struct ib_uverbs_rereg_mr *re = (void *)body;
	struct ib_uverbs_reg_mr *reg = (void *)body;

	if (cmd == IB_USER_VERBS_CMD_REG_MR) {
		reg->start = (uintptr_t)shared.arena + below(r, ARENA / 2);
		reg->length = below(r, ARENA / 2);
		reg->hca_va = reg->start;
	} else if (cmd == IB_USER_VERBS_CMD_REREG_MR) {
		re->start = (uintptr_t)shared.arena + below(r, ARENA / 2);
		re->length = below(r, ARENA / 2);
		re->hca_va = re->start;
	}
}

void fuzz_write(struct rng *r)
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
