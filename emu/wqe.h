/*
 * wqe.h - send work requests as the requester keeps them, and scatter/gather lists.
 *
 * A WQE lies in memory that the application can write at any time. wqe_decode() takes it
 * once into a struct tr_wqe, from which all is decided afterwards. Only the
 * scatter/gather list and inline data stay in the ring: they are read again entry by
 * entry, and an entry that changed meanwhile can only make the copy fail.
 */
#ifndef URXE_EMU_WQE_H
#define URXE_EMU_WQE_H

#include <errno.h>

#include "emu/objects.h"

/* ibv_wr_opcode of rdma-core v60 that Debian 12's header does not have */
#define WQE_WR_FLUSH 14
#define WQE_WC_FLUSH 8

#define WQE_MAX_LENGTH (1u << 31) /* IBTA 9.7.2: message of an RC or UC QP */

enum wqe_kind {
	WQE_SEND,
	WQE_WRITE,
	WQE_READ,
	WQE_ATOMIC,
	WQE_ATOMIC_WRITE,
	WQE_FLUSH,
	WQE_LOCAL_INV,
	WQE_BIND_MW,
};

/*
 * enum wqe_state - WQE_ACTIVE: has packets to send or to be acknowledged. WQE_DONE: a
 * local operation that was executed. WQE_FAILED: cannot be processed, see @status; it
 * completes when all before it have, as IBTA 10.8.6 wants completions in order.
 */
enum wqe_state {
	WQE_ACTIVE,
	WQE_DONE,
	WQE_FAILED,
};

/* struct tr_cursor - a place in a scatter/gather list: entry and byte in it */
struct tr_cursor {
	uint32_t sge;
	uint32_t off;
};

/*
 * struct tr_wqe - a send WQE in flight
 * @va, @rkey:	remote memory
 * @ex:		immediate data (network order) or the key to invalidate
 * @first_psn, @npsn: what it has of the PSN sequence; npsn is 0 for local operations
 * @srqn:	remote SRQ (XRC)
 * @placed:	READ, ATOMIC: where in the SGEs the next response goes
 * @part:	bytes of it that are in place already
 */
struct tr_wqe {
	uint64_t wr_id;
	uint64_t va;
	uint32_t rkey;
	uint32_t length;
	uint32_t ex;
	uint32_t first_psn;
	uint32_t npsn;
	uint32_t srqn;
	union {
		struct {
			uint64_t compare, swap_add;
		} atomic;
		struct {
			uint32_t qpn, qkey, ah_num;
		} ud;
		struct {
			uint64_t length;
			uint32_t mr_lkey, new_rkey;
			int access;
		} mw;
		struct {
			uint8_t type, level;
		} flush;
	};
	struct tr_cursor placed;
	uint32_t part;
	uint8_t opcode; /* enum ibv_wr_opcode */
	uint8_t kind;	/* enum wqe_kind */
	uint8_t state;	/* enum wqe_state */
	uint8_t status; /* enum ibv_wc_status */
	uint8_t num_sge;
	bool is_inline;
	bool signaled;
	bool fence;
	bool solicited;
};

/* Does the responder answer it with data (so that it needs a READ/atomic credit)? */
static inline bool wqe_nonposted(const struct tr_wqe *w)
{
	switch ((enum wqe_kind)w->kind) {
	case WQE_READ:
	case WQE_ATOMIC:
	case WQE_ATOMIC_WRITE:
	case WQE_FLUSH:
		return true;
	case WQE_SEND:
	case WQE_WRITE:
	case WQE_LOCAL_INV:
	case WQE_BIND_MW:
		break;
	}
	return false;
}

static inline bool wqe_local(const struct tr_wqe *w)
{
	return w->kind == WQE_LOCAL_INV || w->kind == WQE_BIND_MW;
}

/*
 * wqe_decode - take the send WQE at @index of the ring of @qp. What is wrong with it is
 * in
 * @w->state and @w->status.
 */
void wqe_decode(const struct emu_qp *qp, uint32_t index, struct tr_wqe *w);
/* The wr_id only, for flushing */
uint64_t wqe_wr_id(const struct emu_qp *qp, uint32_t index);
/*
 * The opcode (enum roce_op) of a packet of @w, which is the first or the last one, both, or
 * neither; not for local operations nor for WQEs that failed to decode
 */
uint8_t wqe_packet_op(const struct tr_wqe *w, bool first, bool last);
/* Does it take a receive WQE of the peer? Not for WQEs that failed to decode */
bool wqe_takes_receive(const struct tr_wqe *w);
/* The opcode of a completion: enum ibv_wc_opcode */
uint32_t wqe_wc_opcode(uint32_t wr_opcode);
uint32_t wqe_ring_opcode(const struct emu_qp *qp, uint32_t index);
/*
 * AV of a UD WQE that does not name an AH (librxe with kernels that do not number them)
 */
int wqe_av_path(const struct emu_qp *qp, uint32_t index, struct net_path *path);

/*
 * struct tr_sg - a scatter/gather list and who uses it
 * @sge:	perhaps in shared memory
 */
struct tr_sg {
	struct emu_hca *hca;
	const struct emu_pd *pd;
	const struct rxe_sge *sge;
	uint32_t num_sge;
};

/* One entry of such a list, read once */
static inline struct rxe_sge sge_load(const struct rxe_sge *p)
{
	struct rxe_sge sge;

	sge.addr = __atomic_load_n(&p->addr, __ATOMIC_RELAXED);
	sge.length = __atomic_load_n(&p->length, __ATOMIC_RELAXED);
	sge.lkey = __atomic_load_n(&p->lkey, __ATOMIC_RELAXED);
	return sge;
}

/* The scatter/gather list of the WQE at @index of the send ring */
struct tr_sg wqe_sg(const struct emu_qp *qp, uint32_t index, const struct tr_wqe *w);
/* Inline data of the WQE; wqe_decode() made sure that it has @w->length bytes */
const uint8_t *wqe_inline(const struct emu_qp *qp, uint32_t index);

/* Put @cur at byte @pos of the list. */
void sg_seek(const struct tr_sg *sg, uint64_t pos, struct tr_cursor *cur);
/* May the list be written? 0 or an L_Key error, as below */
int sg_check_writable(const struct tr_sg *sg);
/*
 * sg_read, sg_write - copy @len bytes between @data and the list at @cur. @cur moves on
 * by what was copied, *@done bytes, also when that is not all: the next attempt goes on
 * from there, so that each page needs to be there once only. @rest: bytes that the
 * operation has behind these, faulted in when these fault.
 *
 * 0; -EAGAIN (see @acc), -EFAULT (memory), -EINVAL, -EACCES, -ERANGE (L_Key), -ENOSPC
 * (list ends)
 */
int sg_read(const struct tr_sg *sg, struct tr_cursor *cur, uint8_t *data, uint32_t len,
	    uint64_t rest, struct odp_access *acc, uint32_t *done);
int sg_write(const struct tr_sg *sg, struct tr_cursor *cur, const uint8_t *data,
	     uint32_t len, uint64_t rest, struct odp_access *acc, uint32_t *done);

#endif
