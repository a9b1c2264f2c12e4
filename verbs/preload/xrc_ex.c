/*
 * xrc_ex.c - work requests of struct ibv_qp_ex (ibv_wr_post(3)) for XRC initiators.
 *
 * Theory of operation
 *
 * The provider has these operations for RC, UC and UD only, and they write into the place
 * in the ring that it keeps to itself. Here, what a thread builds between ibv_wr_start()
 * and ibv_wr_complete() is a list of ordinary work requests, which are then posted all
 * together or not at all. So nothing is locked while the program builds; inline data and
 * lists of SGEs are copied when they are set, as the program may use their memory again.
 *
 * A list belongs to the thread that builds it. A thread that is cancelled in between
 * leaves it behind.
 *
 * ATOMIC_WRITE is not offered: its member of struct ibv_qp_ex came later than XRC, and is
 * not there in every release of libibverbs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/hca.h"
#include "verbs/preload/next_verb.h"
#include "verbs/preload/xrc.h"

/* struct request - a work request with what it points to */
struct request {
	struct ibv_send_wr wr;
	struct ibv_sge sge[EMU_MAX_SGE];
	uint8_t data[EMU_MAX_INLINE];
};

/*
 * struct build - the requests of one QP between start and completion
 * @first, @last: linked by wr.next, the first member of struct request
 * @err:	the first thing that went wrong; nothing will be posted
 */
struct build {
	struct build *next;
	struct ibv_qp_ex *ex;
	struct request *first, *last;
	int err;
};

/* Of the thread that builds: the members of struct ibv_qp_ex are all taken. */
static __thread struct build *builds;

static struct build **place_of(const struct ibv_qp_ex *ex)
{
	struct build **p = &builds;

	while (*p && (*p)->ex != ex)
		p = &(*p)->next;
	return p;
}

static void end(struct build **place)
{
	struct build *b = *place;

	*place = b->next;
	while (b->first) {
		struct request *r = b->first;

		b->first = (struct request *)r->wr.next;
		free(r);
	}
	free(b);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct build *b = calloc(1, sizeof(*b));

	if (!b)
		return; /* ibv_wr_complete() finds none */
	b->ex = ex;
	b->next = builds;
	builds = b;
}

static int post_list(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return qp->qp_type == IBV_QPT_XRC_SEND ? xrc_post_all(qp, wr)
					       : ibv_post_send(qp, wr, &bad);
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct build **place = place_of(ex);
	int err;

	if (!*place)
		return ENOMEM;
	err = (*place)->err;
	if (!err && (*place)->first)
		err = post_list(&ex->qp_base, &(*place)->first->wr);
	end(place);
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	struct build **place = place_of(ex);

	if (*place)
		end(place);
}

/* --- requests --------------------------------------------------------------------- */

/* Another request, which the setters will find as the last one; NULL: out of memory */
static struct request *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct build *b = *place_of(ex);
	struct request *r;

	if (!b)
		return NULL;
	r = calloc(1, sizeof(*r));
	if (!r) {
		b->err = ENOMEM;
		return NULL;
	}
	r->wr.wr_id = ex->wr_id;
	r->wr.send_flags = ex->wr_flags;
	r->wr.opcode = opcode;
	r->wr.sg_list = r->sge;
	if (b->last)
		b->last->wr.next = &r->wr;
	else
		b->first = r;
	b->last = r;
	return r;
}

static void begin_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
		       uint64_t remote_addr, __be32 imm)
{
	struct request *r = begin(ex, opcode);

	if (!r)
		return;
	r->wr.wr.rdma.rkey = rkey;
	r->wr.wr.rdma.remote_addr = remote_addr;
	r->wr.imm_data = imm;
}

static void begin_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey,
			 uint64_t remote_addr, uint64_t compare_add, uint64_t swap)
{
	struct request *r = begin(ex, opcode);

	if (!r)
		return;
	r->wr.wr.atomic.rkey = rkey;
	r->wr.wr.atomic.remote_addr = remote_addr;
	r->wr.wr.atomic.compare_add = compare_add;
	r->wr.wr.atomic.swap = swap;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	begin(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	struct request *r = begin(ex, IBV_WR_SEND_WITH_IMM);

	if (r)
		r->wr.imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	struct request *r = begin(ex, IBV_WR_SEND_WITH_INV);

	if (r)
		r->wr.invalidate_rkey = rkey;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      __be32 imm)
{
	begin_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	begin_rdma(ex, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare, uint64_t swap)
{
	begin_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr,
				uint64_t add)
{
	begin_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

/* --- setters ---------------------------------------------------------------------- */

static struct request *current(const struct ibv_qp_ex *ex)
{
	const struct build *b = *place_of(ex);

	return b ? b->last : NULL;
}

static void fail(const struct ibv_qp_ex *ex, int err)
{
	struct build *b = *place_of(ex);

	if (b && !b->err)
		b->err = err;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t remote_srqn)
{
	struct request *r = current(ex);

	if (r)
		r->wr.qp_type.xrc.remote_srqn = remote_srqn;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t remote_qpn,
			   uint32_t remote_qkey)
{
	struct request *r = current(ex);

	if (!r)
		return;
	r->wr.wr.ud.ah = ah;
	r->wr.wr.ud.remote_qpn = remote_qpn;
	r->wr.wr.ud.remote_qkey = remote_qkey;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t num_sge,
			    const struct ibv_sge *list)
{
	struct request *r = current(ex);

	if (num_sge > EMU_MAX_SGE)
		fail(ex, EINVAL);
	else if (r) {
		memcpy(r->sge, list, num_sge * sizeof(*list));
		r->wr.num_sge = (int)num_sge;
	}
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr,
		       uint32_t length)
{
	const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num_buf,
				    const struct ibv_data_buf *list)
{
	struct request *r = current(ex);
	size_t len = 0;

	if (!r)
		return;
	for (size_t i = 0; i < num_buf; i++) {
		if (list[i].length > sizeof(r->data) - len) {
			fail(ex, EINVAL);
			return;
		}
		memcpy(r->data + len, list[i].addr, list[i].length);
		len += list[i].length;
	}
	r->sge[0] = (struct ibv_sge){.addr = (uintptr_t)r->data, .length = (uint32_t)len};
	r->wr.num_sge = 1;
	r->wr.send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf buf = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buf);
}

/* --- creation --------------------------------------------------------------------- */

static void set_send_ops(struct ibv_qp_ex *ex, uint64_t flags)
{
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	if (flags & IBV_QP_EX_WITH_SEND)
		ex->wr_send = wr_send;
	if (flags & IBV_QP_EX_WITH_SEND_WITH_IMM)
		ex->wr_send_imm = wr_send_imm;
	if (flags & IBV_QP_EX_WITH_SEND_WITH_INV)
		ex->wr_send_inv = wr_send_inv;
	if (flags & IBV_QP_EX_WITH_RDMA_WRITE)
		ex->wr_rdma_write = wr_rdma_write;
	if (flags & IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)
		ex->wr_rdma_write_imm = wr_rdma_write_imm;
	if (flags & IBV_QP_EX_WITH_RDMA_READ)
		ex->wr_rdma_read = wr_rdma_read;
	if (flags & IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)
		ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	if (flags & IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
		ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
}

struct ibv_qp *xrc_create_initiator(xrc_create_qp_ex_fn create,
				    struct ibv_context *context,
				    struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_ex *(*to_ex)(struct ibv_qp *) = next_verb("ibv_qp_to_qp_ex");
	struct ibv_qp *qp;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS))
		return create(context, attr);
	if (!to_ex || attr->send_ops_flags & ~(uint64_t)XRC_LISTED_OPS) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	/* the provider refuses to hear of them, but has room for them in each QP */
	attr->comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	qp = create(context, attr);
	attr->comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if (qp)
		set_send_ops(to_ex(qp), attr->send_ops_flags);
	return qp;
}

struct ibv_qp *xrc_create_listing(xrc_create_qp_ex_fn create, struct ibv_context *context,
				  struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp_ex *(*to_ex)(struct ibv_qp *) = next_verb("ibv_qp_to_qp_ex");
	struct ibv_qp *qp = create(context, attr);
	struct ibv_qp_ex *ex;

	if (!qp || !to_ex || !(attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
	    attr->send_ops_flags & ~(uint64_t)XRC_LISTED_OPS)
		return qp;
	ex = to_ex(qp);
	if (ex)
		set_send_ops(ex, attr->send_ops_flags);
	return qp;
}
