/*
 * targets.c - where requests that are outstanding write to in the memory of peers.
 *
 * Theory of operation
 *
 * Requests of one send queue are executed in their order, those of two in any order. So two that
 * write to the same bytes have an order only if the first was seen to be done before the second was
 * posted: by its completion, or by a message from a peer, who may have seen what was written. The newest
 * are kept, and compared as soon as there are several QPs that write.
 *
 * A key is of one region of a device. Processes of one host that each emulate a device
 * may have the same key, and differ in the upper bits of the QPN.
 */
#include <inttypes.h>
#include <string.h>

#include "check/check.h"
#include "check/targets.h"

#define TARGETS	 64
#define QPN_BITS 16 /* that number the QPs of one process */

/*
 * struct check_target - of @request; NULL: free
 * @messages:	that had come when it was posted
 */
struct check_target {
	struct check_request *request;
	const struct check_object *qp;
	uint64_t addr, len;
	uint32_t rkey;
	unsigned int messages;
	bool atomic;
};

static struct check_target targets[TARGETS];
static unsigned int next_target, messages;
static const struct check_object *last_writer;
static bool many_writers;

void check_message_came(void)
{
	messages++;
}

bool check_is_same_peer(const struct check_object *a, const struct check_object *b)
{
	return a->qp.peer >> QPN_BITS == b->qp.peer >> QPN_BITS &&
	       !memcmp(&a->qp.at, &b->qp.at, sizeof(a->qp.at));
}

static bool is_unordered(const struct check_target *a, const struct check_target *b)
{
	return a->request && a->qp != b->qp && a->rkey == b->rkey &&
	       !(a->atomic && b->atomic) && a->messages == b->messages &&
	       a->addr < b->addr + b->len && b->addr < a->addr + a->len &&
	       check_is_active(a->request) && check_is_same_peer(a->qp, b->qp);
}

static void compare(const struct check_target *t)
{
	for (unsigned int i = 0; i < TARGETS; i++) {
		const struct check_target *o = &targets[i];

		if (!is_unordered(o, t))
			continue;
		const struct check_with with[] = {{"posted", t->request->posted},
						  {"posted before", o->request->posted}};
		char one[96], other[96];
		check_report(CHECK_REMOTE_UNORDERED, with, 2,
			     "%s and %s, to 0x%" PRIx64 " and 0x%" PRIx64
			     " of the peer's key 0x%08x",
			     check_request_name(t->request, one),
			     check_request_name(o->request, other), t->addr, o->addr,
			     t->rkey);
		return;
	}
}

void check_target_add(struct check_request *r, const struct ibv_send_wr *wr)
{
	bool atomic = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		      wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct check_target t = {r, r->qp, 0, 0, 0, messages, atomic}, *to;

	if (r->qp->qp.type == IBV_QPT_UC || (!atomic && wr->opcode != IBV_WR_RDMA_WRITE &&
					     wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM))
		return;
	t.addr = atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr;
	t.rkey = atomic ? wr->wr.atomic.rkey : wr->wr.rdma.rkey;
	for (int i = 0; i < wr->num_sge; i++)
		t.len += wr->sg_list[i].length;
	many_writers |= last_writer && last_writer != r->qp;
	last_writer = r->qp;
	if (many_writers)
		compare(&t);
	to = &targets[next_target++ % TARGETS];
	if (to->request)
		to->request->target = NULL;
	*to = t;
	r->target = to;
}

void check_target_del(struct check_request *r)
{
	if (r->target)
		r->target->request = NULL;
	r->target = NULL;
}

void check_targets_forget(void)
{
	memset(targets, 0, sizeof(targets));
	last_writer = NULL;
	many_writers = false;
}
