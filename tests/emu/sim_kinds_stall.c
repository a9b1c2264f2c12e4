/*
 * sim_kinds_stall.c - page faults that never end: some QPs wait for them, the others must
 * not notice.
 */
#include "sim_kinds.h"

#define PATIENCE (3000 * MS) /* virtual: many times what all retries would last */

/* Programs of one pair, both ways, and the receives that they need. False: too much */
static bool program(struct sim_qp *a, struct sim_qp *b)
{
	struct sim_world *w = a->host->w;

	gen_ops(a, kind_ops(w));
	if (sim_chance(&w->rng, 500))
		gen_ops(b, kind_ops(w));
	return gen_recvs(a, sim_below(&w->rng, 4)) && gen_recvs(b, sim_below(&w->rng, 4));
}

/* What is taken from the on-demand arena from now on can never be had. */
static void stall(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nhosts; i++)
		w->host[i].never_from =
		    w->host[i].arena[SIM_ONDEMAND].used / SIM_PAGE + 2;
	/* the rest of the page that others use, too */
	for (uint32_t i = 0; i < w->nhosts; i++)
		w->host[i].arena[SIM_ONDEMAND].used = w->host[i].never_from * SIM_PAGE;
}

/* The stalled pair is killed, or its faults end after all. */
static void end_stall(struct sim_world *w)
{
	bool kill = sim_chance(&w->rng, 600);

	for (uint32_t i = 2; i < w->nqps && kill; i++) {
		w->qp[i].may_flush = true;
		w->qp[i].may |= 1u << IBV_WC_RETRY_EXC_ERR;
		if (sim_chance(&w->rng, 800))
			kind_kill_qp(w, &w->qp[i], sim_below(&w->rng, 3));
	}
	for (uint32_t i = 0; i < w->nhosts && kill; i++)
		sim_mem_move(&w->host[i], SIM_ARENA_LEN / 4, SIM_ARENA_LEN / 4);
	for (uint32_t i = 0; i < w->nhosts; i++) {
		sim_jobs_finish(&w->host[i]);
		sim_host_work(&w->host[i]);
	}
}

void kind_stall(struct sim_world *w)
{
	gen_net(w, sim_chance(&w->rng, 500));
	gen_mem(w, false);
	w->odp.model = sim_chance(&w->rng, 300) ? ODP_FAULT_RNR : ODP_FAULT_SYNC;
	if (!gen_hosts(w, 2) ||
	    !gen_pair(w, &w->host[0], kind_any_host(w), IBV_QPT_RC, false) ||
	    !gen_pair(w, &w->host[0], &w->host[1], IBV_QPT_RC, false))
		return;
	w->pinned_only = sim_chance(&w->rng, 500);
	if (!program(&w->qp[0], &w->qp[1]))
		return;
	w->pinned_only = false;
	stall(w);
	if (!program(&w->qp[2], &w->qp[3]) || !gen_connect(w))
		return;
	kind_start(w, 500 * US);
	sim_run(w, w->now + PATIENCE);
	for (uint32_t i = 0; i < 2 && !w->failed; i++)
		sim_model_settle(&w->qp[i]);
	if (w->failed)
		return;
	end_stall(w);
	kind_judge(w);
}
