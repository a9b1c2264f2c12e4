/*
 * wqe.c - validate send WQEs, walk scatter/gather lists, see wqe.h.
 *
 * The layout is that of rdma_user_rxe.h. Two fields are not in every release of that
 * header: struct wqe_flush below (kernel 6.6), and the remote SRQ number of XRC, which
 * rxe does not have and which urxe keeps in rxe_send_wr.reserved.
 */
#include "emu/wqe.h"

#include <errno.h>

#include "emu/qp.h"
#include "net/rocev2.h"

/* rxe_send_wr.wr.flush of rdma_user_rxe.h */
struct wqe_flush {
	__aligned_u64 remote_addr;
	__u32 length;
	__u32 rkey;
	__u8 type;
	__u8 level;
};

#define QPT(t)	      (1u << (t))
#define QPT_RELIABLE  (QPT(IBV_QPT_RC) | QPT(IBV_QPT_XRC_SEND))
#define QPT_CONNECTED (QPT_RELIABLE | QPT(IBV_QPT_UC))
#define QPT_ALL	      (QPT_CONNECTED | QPT(IBV_QPT_UD))

/* The opcodes of first, middle, last and only packet: one that ends a SEND or WRITE says how */
#define WIRE_SEND(end)                                                                   \
	{                                                                                \
		ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, ROCE_SEND_LAST##end,                  \
		    ROCE_SEND_ONLY##end                                                  \
	}
#define WIRE_WRITE(end)                                                                  \
	{                                                                                \
		ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST##end,               \
		    ROCE_WRITE_ONLY##end                                                 \
	}
#define WIRE_ONE(op)                                                                     \
	{                                                                                \
		op, op, op, op                                                           \
	}

/*
 * What each work request is (IBTA table 92)
 * @kind:	enum wqe_kind
 * @wc:		opcode of its completion
 * @types:	QPs on which it may be posted
 * @wire:	opcodes of its packets; local operations have none
 * @receives:	it takes a receive WQE of the peer
 */
static const struct wqe_op {
	uint8_t kind;
	uint8_t wc;
	uint32_t types;
	uint8_t wire[4];
	bool receives;
} wqe_ops[] = {
    [IBV_WR_RDMA_WRITE] = {WQE_WRITE, IBV_WC_RDMA_WRITE, QPT_CONNECTED, WIRE_WRITE()},
    [IBV_WR_RDMA_WRITE_WITH_IMM] = {WQE_WRITE, IBV_WC_RDMA_WRITE, QPT_CONNECTED,
				    WIRE_WRITE(_IMM), true},
    [IBV_WR_SEND] = {WQE_SEND, IBV_WC_SEND, QPT_ALL, WIRE_SEND(), true},
    [IBV_WR_SEND_WITH_IMM] = {WQE_SEND, IBV_WC_SEND, QPT_ALL, WIRE_SEND(_IMM), true},
    [IBV_WR_RDMA_READ] = {WQE_READ, IBV_WC_RDMA_READ, QPT_RELIABLE,
			  WIRE_ONE(ROCE_READ_REQ)},
    [IBV_WR_ATOMIC_CMP_AND_SWP] = {WQE_ATOMIC, IBV_WC_COMP_SWAP, QPT_RELIABLE,
				   WIRE_ONE(ROCE_CMP_SWAP)},
    [IBV_WR_ATOMIC_FETCH_AND_ADD] = {WQE_ATOMIC, IBV_WC_FETCH_ADD, QPT_RELIABLE,
				     WIRE_ONE(ROCE_FETCH_ADD)},
    [IBV_WR_LOCAL_INV] = {WQE_LOCAL_INV, IBV_WC_LOCAL_INV, QPT_CONNECTED},
    [IBV_WR_BIND_MW] = {WQE_BIND_MW, IBV_WC_BIND_MW, QPT_CONNECTED},
    [IBV_WR_SEND_WITH_INV] = {WQE_SEND, IBV_WC_SEND, QPT_RELIABLE, WIRE_SEND(_INV), true},
    [WQE_WR_FLUSH] = {WQE_FLUSH, WQE_WC_FLUSH, QPT_RELIABLE, WIRE_ONE(ROCE_FLUSH)},
    [IBV_WR_ATOMIC_WRITE] = {WQE_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE, QPT_RELIABLE,
			     WIRE_ONE(ROCE_ATOMIC_WRITE)},
};

#define WQE_OPS (sizeof(wqe_ops) / sizeof(wqe_ops[0]))

static const struct rxe_send_wqe *ring_wqe(const struct emu_qp *qp, uint32_t index)
{
	return ring_at(&qp->sq, index);
}

static uint32_t room_behind_header(const struct emu_qp *qp)
{
	return (1u << qp->sq.log2_elem) - offsetof(struct rxe_send_wqe, dma.sge);
}

uint64_t wqe_wr_id(const struct emu_qp *qp, uint32_t index)
{
	return __atomic_load_n(&ring_wqe(qp, index)->wr.wr_id, __ATOMIC_RELAXED);
}

uint32_t wqe_ring_opcode(const struct emu_qp *qp, uint32_t index)
{
	return __atomic_load_n(&ring_wqe(qp, index)->wr.opcode, __ATOMIC_RELAXED);
}

uint32_t wqe_wc_opcode(uint32_t wr_opcode)
{
	return wr_opcode < WQE_OPS ? wqe_ops[wr_opcode].wc : IBV_WC_SEND;
}

uint8_t wqe_packet_op(const struct tr_wqe *w, bool first, bool last)
{
	const uint8_t *wire = wqe_ops[w->opcode].wire;

	if (last)
		return first ? wire[3] : wire[2];
	return first ? wire[0] : wire[1];
}

bool wqe_takes_receive(const struct tr_wqe *w)
{
	return wqe_ops[w->opcode].receives;
}

const uint8_t *wqe_inline(const struct emu_qp *qp, uint32_t index)
{
	return (const uint8_t *)ring_wqe(qp, index) +
	       offsetof(struct rxe_send_wqe, dma.inline_data);
}

struct tr_sg wqe_sg(const struct emu_qp *qp, uint32_t index, const struct tr_wqe *w)
{
	return (struct tr_sg){
	    .hca = qp->hca,
	    .pd = qp->pd,
	    .sge = (const void *)wqe_inline(qp, index),
	    .num_sge = w->num_sge,
	};
}

int wqe_av_path(const struct emu_qp *qp, uint32_t index, struct net_path *path)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = EMU_PORT};
	struct rxe_av av;

	memcpy(&av, &ring_wqe(qp, index)->wr.wr.ud.av, sizeof(av));
	memcpy(&attr.grh.dgid, &av.grh.dgid, sizeof(attr.grh.dgid));
	attr.grh.flow_label = av.grh.flow_label;
	attr.grh.sgid_index = av.grh.sgid_index;
	attr.grh.hop_limit = av.grh.hop_limit;
	attr.grh.traffic_class = av.grh.traffic_class;
	return emu_path_from_ah(qp->hca, &attr, path);
}

static void fail(struct tr_wqe *w, enum ibv_wc_status status)
{
	w->state = WQE_FAILED;
	w->status = status;
}

/* The parts of the union @wr that the kind of request has */
static void take_operands(const struct rxe_send_wr *wr, struct tr_wqe *w)
{
	struct wqe_flush flush;

	switch ((enum wqe_kind)w->kind) {
	case WQE_WRITE:
	case WQE_READ:
	case WQE_ATOMIC_WRITE:
		w->va = wr->wr.rdma.remote_addr;
		w->rkey = wr->wr.rdma.rkey;
		break;
	case WQE_ATOMIC:
		w->va = wr->wr.atomic.remote_addr;
		w->rkey = wr->wr.atomic.rkey;
		w->atomic.compare = wr->wr.atomic.compare_add;
		w->atomic.swap_add = w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP
					 ? wr->wr.atomic.swap
					 : wr->wr.atomic.compare_add;
		break;
	case WQE_FLUSH:
		memcpy(&flush, &wr->wr, sizeof(flush));
		w->va = flush.remote_addr;
		w->rkey = flush.rkey;
		w->flush.type = flush.type;
		w->flush.level = flush.level;
		break;
	case WQE_BIND_MW:
		w->va = wr->wr.mw.addr;
		w->rkey = wr->wr.mw.mw_rkey;
		w->mw.length = wr->wr.mw.length;
		w->mw.mr_lkey = wr->wr.mw.mr_lkey;
		w->mw.new_rkey = wr->wr.mw.rkey;
		w->mw.access = (int)wr->wr.mw.access;
		break;
	case WQE_SEND:
	case WQE_LOCAL_INV:
		break;
	}
}

/*
 * The length is computed from the SGEs: librxe before v60 writes that of the first one
 * only into dma.length (wr_set_sge_list). Inline data and FLUSH have no other source than
 * dma.length.
 */
static void take_length(const struct emu_qp *qp, uint32_t index,
			const struct rxe_dma_info *dma, struct tr_wqe *w)
{
	const struct rxe_sge *sge = (const void *)wqe_inline(qp, index);
	uint32_t room = room_behind_header(qp);
	uint64_t length = 0;
	uint32_t i;

	if (w->kind == WQE_FLUSH) {
		w->length = dma->length;
		return;
	}
	/* ibv_wr_set_inline_data() does not set the flag */
	if (!dma->num_sge && dma->length)
		w->is_inline = true;
	if (w->kind == WQE_READ || w->kind == WQE_ATOMIC)
		w->is_inline = false;
	if (w->is_inline) {
		w->length = dma->length;
		if (w->length > room)
			fail(w, IBV_WC_LOC_QP_OP_ERR);
		return;
	}
	if (dma->num_sge > qp->cap.max_send_sge || dma->num_sge > EMU_MAX_SGE ||
	    dma->num_sge * sizeof(*sge) > room) {
		fail(w, IBV_WC_LOC_QP_OP_ERR);
		return;
	}
	w->num_sge = (uint8_t)dma->num_sge;
	for (i = 0; i < w->num_sge; i++)
		length += sge_load(&sge[i]).length;
	if (length > WQE_MAX_LENGTH)
		fail(w, IBV_WC_LOC_LEN_ERR);
	else
		w->length = (uint32_t)length;
}

/* A datagram is one packet; UD has no path MTU, the port's counts (10.2.4.2) */
static uint32_t ud_mtu(const struct emu_qp *qp)
{
	return 128u << qp->hca->mtu;
}

/* What the device of a profile does not do */
static bool lacks(const struct emu_limits *l, const struct tr_wqe *w)
{
	switch ((enum wqe_kind)w->kind) {
	case WQE_ATOMIC:
		return l->atomic_cap == IBV_ATOMIC_NONE;
	case WQE_ATOMIC_WRITE:
		return !(l->device_cap_flags & EMU_CAP_ATOMIC_WRITE);
	case WQE_FLUSH:
		return !(l->device_cap_flags &
			 (EMU_CAP_FLUSH_GLOBAL | EMU_CAP_FLUSH_PERSISTENT));
	case WQE_READ:
		return w->num_sge > l->max_sge_rd;
	case WQE_SEND:
	case WQE_WRITE:
	case WQE_LOCAL_INV:
	case WQE_BIND_MW:
		return false;
	}
	return false;
}

static void check_limits(const struct emu_qp *qp, struct tr_wqe *w)
{
	if (lacks(&qp->hca->limits, w))
		fail(w, IBV_WC_LOC_QP_OP_ERR);
	if (w->length > qp->hca->limits.max_msg_sz)
		fail(w, IBV_WC_LOC_LEN_ERR);
	switch ((enum wqe_kind)w->kind) {
	case WQE_ATOMIC:
	case WQE_ATOMIC_WRITE:
		if (w->length < 8)
			fail(w, IBV_WC_LOC_LEN_ERR);
		w->length = 8;
		break;
	case WQE_SEND:
		if (qp->type == IBV_QPT_UD && w->length > ud_mtu(qp))
			fail(w, IBV_WC_LOC_LEN_ERR);
		break;
	case WQE_WRITE:
	case WQE_READ:
	case WQE_FLUSH:
	case WQE_LOCAL_INV:
	case WQE_BIND_MW:
		break;
	}
	/*
	 * no initiator depth: IBTA 10.2.4.2, reads and atomics are not to be had on this
	 * QP
	 */
	if (wqe_nonposted(w) && !qp->attr.max_rd_atomic)
		fail(w, IBV_WC_LOC_QP_OP_ERR);
}

static uint32_t count_psns(const struct emu_qp *qp, const struct tr_wqe *w)
{
	if (wqe_local(w))
		return 0;
	if (w->kind == WQE_FLUSH || w->length == 0 || qp->type == IBV_QPT_UD)
		return 1;
	return (uint32_t)(((uint64_t)w->length + qp->mtu - 1) / qp->mtu);
}

void wqe_decode(const struct emu_qp *qp, uint32_t index, struct tr_wqe *w)
{
	const struct rxe_send_wqe *ring = ring_wqe(qp, index);
	struct rxe_dma_info dma;
	struct rxe_send_wr wr;

	memcpy(&wr, &ring->wr, sizeof(wr));
	memcpy(&dma, &ring->dma, offsetof(struct rxe_dma_info, sge));
	/*
	 * the copies are what is judged: the compiler must not look into the ring again
	 */
	__asm__ __volatile__("" ::: "memory");

	memset(w, 0, sizeof(*w));
	w->wr_id = wr.wr_id;
	w->ex = wr.ex.invalidate_rkey;
	w->srqn = wr.reserved;
	w->signaled = qp->sq_sig_all || (wr.send_flags & IBV_SEND_SIGNALED);
	w->fence = wr.send_flags & IBV_SEND_FENCE;
	w->solicited = wr.send_flags & IBV_SEND_SOLICITED;
	w->is_inline = wr.send_flags & IBV_SEND_INLINE;
	w->opcode = wr.opcode < WQE_OPS ? (uint8_t)wr.opcode : UINT8_MAX;
	if (w->opcode == UINT8_MAX || !(wqe_ops[w->opcode].types & QPT(qp->type))) {
		fail(w, IBV_WC_LOC_QP_OP_ERR);
		return;
	}
	w->kind = wqe_ops[w->opcode].kind;
	if (qp->type == IBV_QPT_UD) {
		w->ud.qpn = wr.wr.ud.remote_qpn & ROCE_QPN_MASK;
		w->ud.qkey = wr.wr.ud.remote_qkey;
		w->ud.ah_num = wr.wr.ud.ah_num;
	} else {
		take_operands(&wr, w);
	}
	if (!wqe_local(w)) {
		take_length(qp, index, &dma, w);
		check_limits(qp, w);
	}
	if (w->state == WQE_ACTIVE)
		w->npsn = count_psns(qp, w);
}

void sg_seek(const struct tr_sg *sg, uint64_t pos, struct tr_cursor *cur)
{
	uint32_t len;

	cur->off = 0;
	for (cur->sge = 0; cur->sge < sg->num_sge; cur->sge++) {
		len = sge_load(&sg->sge[cur->sge]).length;
		if (pos < len)
			break;
		pos -= len;
	}
	cur->off = (uint32_t)pos;
}

/*
 * struct step - the piece of a list at a cursor, at most @len bytes
 */
struct step {
	uint64_t va;
	uint32_t lkey;
	uint32_t len;
};

/* Next piece; false at the end of the list. Moves the cursor. */
static bool sg_next(const struct tr_sg *sg, struct tr_cursor *cur, uint32_t len,
		    struct step *s)
{
	struct rxe_sge sge;

	for (; cur->sge < sg->num_sge; cur->sge++, cur->off = 0) {
		sge = sge_load(&sg->sge[cur->sge]);
		if (cur->off >= sge.length)
			continue;
		s->va = sge.addr + cur->off;
		s->lkey = sge.lkey;
		s->len = sge.length - cur->off < len ? sge.length - cur->off : len;
		cur->off += s->len;
		return true;
	}
	return false;
}

int sg_check_writable(const struct tr_sg *sg)
{
	struct tr_cursor cur = {0};
	struct emu_mem mem;
	struct step s;
	int ret;

	while (sg_next(sg, &cur, UINT32_MAX, &s)) {
		ret = emu_lkey_check(sg->hca, sg->pd, s.lkey, s.va, s.len,
				     IBV_ACCESS_LOCAL_WRITE, &mem);
		if (ret)
			return ret;
	}
	return 0;
}

/*
 * @why faulted, and took in what its entry has behind it: fault in the entries after that one,
 * of @rest bytes behind @cur. What is wrong there will be found when it is used
 */
static void sg_fault_ahead(const struct tr_sg *sg, struct tr_cursor cur, uint64_t rest,
			   int access, const struct odp_access *why)
{
	uint32_t left;
	struct odp_access acc = {.now = why->now, .remote = why->remote};
	struct emu_mem mem;
	struct step s;
	int ret = 0;

	rest -= why->ahead;
	cur.off += (uint32_t)why->ahead;
	left = rest < EMU_FAULT_AHEAD ? (uint32_t)rest : EMU_FAULT_AHEAD;
	while (left && !ret && sg_next(sg, &cur, left, &s)) {
		left -= s.len;
		ret = emu_lkey_check(sg->hca, sg->pd, s.lkey, s.va, s.len, access, &mem);
		if (ret)
			return;
		ret = odp_fault_in(mem.mr, mem.iova, s.len, access != 0, &acc);
		if (ret == -EAGAIN)
			ret = 0;
	}
}

/* What the entry of @cur has behind it, at most @rest */
static uint64_t left_of_entry(const struct tr_sg *sg, const struct tr_cursor *cur,
			      uint64_t rest)
{
	uint32_t length = sge_load(&sg->sge[cur->sge]).length;

	if (cur->off >= length)
		return 0;
	return length - cur->off < rest ? length - cur->off : rest;
}

/* One piece of the list; 0 or an error of sg_read() */
static int copy_step(const struct tr_sg *sg, const struct step *s, uint8_t *data,
		     int access, struct odp_access *acc)
{
	struct emu_mem mem;
	int ret;

	ret = emu_lkey_check(sg->hca, sg->pd, s->lkey, s->va, s->len, access, &mem);
	if (ret)
		return ret;
	return access ? odp_write(mem.mr, mem.iova, data, s->len, acc)
		      : odp_read(mem.mr, mem.iova, data, s->len, acc);
}

static int sg_copy(const struct tr_sg *sg, struct tr_cursor *cur, uint8_t *data,
		   uint32_t len, uint64_t rest, int access, struct odp_access *acc,
		   uint32_t *done)
{
	struct tr_cursor c = *cur;
	uint64_t behind;
	struct step s;
	int ret = 0;

	*done = 0;
	while (*done < len) {
		if (!sg_next(sg, &c, len - *done, &s))
			return -ENOSPC;
		behind = rest + len - *done - s.len;
		acc->ahead = left_of_entry(sg, &c, behind);
		ret = copy_step(sg, &s, data + *done, access, acc);
		if (acc->faulted && (!ret || ret == -EAGAIN))
			sg_fault_ahead(sg, c, behind, access, acc);
		if (ret)
			break;
		*done += s.len;
		*cur = c;
	}
	return ret;
}

int sg_read(const struct tr_sg *sg, struct tr_cursor *cur, uint8_t *data, uint32_t len,
	    uint64_t rest, struct odp_access *acc, uint32_t *done)
{
	return sg_copy(sg, cur, data, len, rest, 0, acc, done);
}

int sg_write(const struct tr_sg *sg, struct tr_cursor *cur, const uint8_t *data,
	     uint32_t len, uint64_t rest, struct odp_access *acc, uint32_t *done)
{
	return sg_copy(sg, cur, (uint8_t *)(uintptr_t)data, len, rest,
		       IBV_ACCESS_LOCAL_WRITE, acc, done);
}
