/*
 * sim_program.c - the program of a scenario, for the reader of a failure.
 */
#include <stdio.h>

#include "sim_gen.h"

static const char *wr_name(uint32_t opcode)
{
	static const char *const name[] = {
	    "WRITE",	 "WRITE_IMM", "SEND",	 "SEND_IMM",	"READ", "CMP_SWAP",
	    "FETCH_ADD", "LOCAL_INV", "BIND_MW", "SEND_INV",	"TSO",	"DRIVER1",
	    "12",	 "13",	      "FLUSH",	 "ATOMIC_WRITE"};

	return opcode < sizeof(name) / sizeof(name[0]) ? name[opcode] : "?";
}

static void print_op(struct sim_world *w, const struct sim_op *op)
{
	char sges[200] = "";
	size_t n = 0;

	for (uint32_t i = 0; i < op->nsge && !(op->flags & IBV_SEND_INLINE); i++)
		n += (size_t)snprintf(sges + n, sizeof(sges) - n, " [%c+%#x %u key %#x]",
				      op->sge[i].arena == SIM_PINNED ? 'p' : 'o',
				      op->sge[i].off, op->sge[i].len, op->sge[i].lkey);
	sim_trace(w, "  send %u: %s%s%s%s%s %u bytes%s -> %c+%#x key %#x ex %#x%s",
		  (uint32_t)op->wr_id, wr_name(op->opcode),
		  op->flags & IBV_SEND_SIGNALED ? " signalled" : "",
		  op->flags & IBV_SEND_FENCE ? " fence" : "",
		  op->flags & IBV_SEND_INLINE ? " inline" : "",
		  op->flags & IBV_SEND_SOLICITED ? " solicited" : "", op->len, sges,
		  op->rarena == SIM_PINNED ? 'p' : 'o', op->roff, op->rkey, op->ex,
		  op->must ? " (must fail)" : "");
}

void sim_program_print(struct sim_world *w)
{
	if (!sim_tracing(w))
		return;
	sim_trace(w,
		  "network: delay %llu ns, loss %u dup %u reorder %u corrupt %u full %u "
		  "permille",
		  (unsigned long long)w->net.delay, w->net.loss, w->net.dup,
		  w->net.reorder, w->net.corrupt, w->net.tx_full);
	sim_trace(w,
		  "odp: model %d latency %llu max %llu%s; race %u mid-copy %u silent %u "
		  "permille",
		  w->odp.model, (unsigned long long)w->odp.latency,
		  (unsigned long long)w->odp.max_pages,
		  w->odp.snapshot ? " snapshot" : "", w->mem.race, w->mem.mid_copy,
		  w->mem.silent);
	for (uint32_t i = 0; i < w->nqps; i++) {
		const struct sim_qp *q = &w->qp[i];

		sim_trace(w,
			  "q%u: h%u qpn %#x type %d peer q%d mtu %u psn %06x/%06x rd %u "
			  "timeout %u "
			  "retry %u/%u rnr timer %u%s%s",
			  q->id, q->host->id, q->qpn, q->type,
			  q->peer ? (int)q->peer->id : -1, q->mtu, q->sq_psn, q->rq_psn,
			  q->rd_atomic, q->timeout, q->retry_cnt, q->rnr_retry,
			  q->rnr_timer,
			  q->srq		? " srq"
			  : sim_is_xrc(q->type) ? " xrc"
						: "",
			  q->sig_all ? " sig_all" : "");
		for (uint32_t k = 0; k < q->n; k++)
			print_op(w, &q->op[k]);
		for (uint32_t k = 0; k < q->rq.n; k++)
			sim_trace(w, "  recv %u: %u bytes, %u SGEs%s", k,
				  q->rq.recv[k].len, q->rq.recv[k].nsge,
				  q->rq.recv[k].must ? " (must fail)" : "");
	}
}
