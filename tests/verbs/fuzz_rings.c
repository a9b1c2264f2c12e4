/* fuzz_rings.c - scribbling over the mapped rings, and ringing for them. */
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/verbs/fuzz_face.h"

void map_ring(struct rng *r, int fd, uint32_t handle, const struct mminfo *mi)
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
	__atomic_store_n(&shared.rings[below(r, RINGS)], q, __ATOMIC_RELEASE);
}

static void doorbell(int fd, uint32_t qp)
{
	struct ib_uverbs_post_send cmd = {.qp_handle = qp};
	struct ib_uverbs_post_send_resp resp;

	send_command(fd, IB_USER_VERBS_CMD_POST_SEND, &cmd, sizeof(cmd), &resp,
		     sizeof(resp));
}

static void scribble_wqe(struct rng *r, uint8_t *at, size_t room)
{
	struct rxe_send_wqe w;
	uint64_t addr = (uintptr_t)shared.arena + below(r, ARENA);
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
		sge.addr = (uintptr_t)shared.arena + below(r, ARENA);
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

void fuzz_ring_on_bus(int sig)
{
	if (may_fault)
		siglongjmp(out, 1);
	signal(sig, SIG_DFL);
}

/* Not part of the function to which siglongjmp() comes back: that may not depend on these locals */
static __attribute__((noinline)) void change_ring(struct rng *r, struct ring *g)
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

void fuzz_ring(struct rng *r)
{
	struct ring *g =
	    __atomic_load_n(&shared.rings[below(r, RINGS)], __ATOMIC_ACQUIRE);

	if (!g)
		return;
	may_fault = true;
	if (!sigsetjmp(out, 1))
		change_ring(r, g);
	may_fault = false;
	doorbell(g->fd, g->handle);
}
