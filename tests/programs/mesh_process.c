/* mesh_process.c - a process of the mesh: how it begins and how it ends. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mesh.h"

struct process p;

void complain(int link, const char *what, long a, long b)
{
	fprintf(stderr, "mesh: %d with %d, link %d: %s: %ld, %ld\n", p.me,
		process_of(link), link % opt.qps, what, a, b);
	p.bad = true;
}

/* --- beginning -------------------------------------------------------------------- */

static struct ibv_qp *make_qp(void)
{
	struct ibv_qp_init_attr init = {.send_cq = p.cq,
					.recv_cq = p.cq,
					.cap = {.max_send_wr = 8,
						.max_recv_wr = RECVS,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
						      IBV_ACCESS_REMOTE_READ |
						      IBV_ACCESS_REMOTE_ATOMIC};
	struct ibv_qp *qp = ibv_create_qp(p.pd, &init);

	if (!qp)
		fatal("create_qp");
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS))
		fatal("to INIT");
	return qp;
}

static void connect_qp(int l)
{
	struct who *w = &sh->who[process_of(l)];
	struct ibv_qp_attr rtr = {.qp_state = IBV_QPS_RTR,
				  .path_mtu = opt.mtu,
				  .dest_qp_num = w->qpn[back_of(l)],
				  .rq_psn = 77,
				  .max_dest_rd_atomic = 2,
				  .min_rnr_timer = 1,
				  .ah_attr = {.is_global = 1,
					      .port_num = 1,
					      .grh = {.dgid = w->gid,
						      .sgid_index = (uint8_t)opt.gid,
						      .hop_limit = 64}}};
	/* 0.27 s, seven times: a busy machine is no dead peer */
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
				  .timeout = 16,
				  .retry_cnt = 7,
				  .rnr_retry = 7,
				  .sq_psn = 77,
				  .max_rd_atomic = 2};

	if (ibv_modify_qp(p.peer[l].qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER))
		fatal("to RTR");
	if (ibv_modify_qp(p.peer[l].qp, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
			      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		fatal("to RTS");
}

struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), opt.device))
			ctx = ibv_open_device(list[i]);
	if (!ctx)
		fatal(opt.device);
	ibv_free_device_list(list);
	return ctx;
}

static void set_up(int me)
{
	/* half of them with on-demand paging, or all, if their memory is to change */
	int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
		     (me & 1 || opt.invalidate ? IBV_ACCESS_ON_DEMAND : 0);
	struct who *w = &sh->who[me];

	p.me = me;
	p.ctx = open_device();
	p.ch = ibv_create_comp_channel(p.ctx);
	p.cq = ibv_create_cq(p.ctx, links() * 16, NULL, p.ch, 0);
	p.pd = ibv_alloc_pd(p.ctx);
	p.bytes = sizeof(struct area) * (size_t)links();
	p.area = make_area(p.bytes);
	if (!p.ch || !p.cq || !p.pd)
		fatal("objects");
	p.mr = ibv_reg_mr(p.pd, p.area, p.bytes, access);
	if (!p.mr || ibv_query_gid(p.ctx, 1, opt.gid, &w->gid))
		fatal("reg_mr, query_gid");
	w->addr = (uintptr_t)p.area;
	w->rkey = p.mr->rkey;
	for (int l = 0; l < links(); l++) {
		if (process_of(l) == me)
			continue;
		p.peer[l].qp = make_qp();
		w->qpn[l] = p.peer[l].qp->qp_num;
		for (unsigned int i = 0; i < RECVS; i++)
			post_recv(l, i);
	}
	w->ready = 1;
	for (int j = 0; j < opt.n; j++) {
		while (!sh->who[j].ready) {
			nap(1);
			if (late())
				fatal("the others do not come");
		}
	}
	for (int l = 0; l < links(); l++)
		if (process_of(l) != me)
			connect_qp(l);
	/* who is not connected yet would drop what comes, which costs time only */
	sh->begun++;
	ibv_req_notify_cq(p.cq, 0);
}

/* --- ending ----------------------------------------------------------------------- */

static void *poll_forever(void *arg)
{
	struct ibv_cq *cq = ibv_create_cq(p.ctx, 1, NULL, NULL, 0);
	struct ibv_wc wc;

	for (;;) {
		ibv_poll_cq(cq, 1, &wc);
		pthread_testcancel();
	}
	return arg;
}

/* Threads that use the device end in the middle of what they do */
static void cancel_threads(void)
{
	for (int i = 0; i < 20; i++) {
		pthread_t t;

		if (pthread_create(&t, NULL, poll_forever, NULL))
			fatal("thread");
		nap(5);
		pthread_cancel(t);
		pthread_join(t, NULL);
	}
}

static int child(void)
{
	struct ibv_context *ctx = open_device();
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_cq *cq = ibv_create_cq(ctx, 1, NULL, NULL, 0);
	static char mem[4096];
	struct ibv_mr *mr =
	    pd ? ibv_reg_mr(pd, mem, sizeof(mem), IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct ibv_wc wc;

	return !mr || !cq || ibv_poll_cq(cq, 1, &wc) || ibv_dereg_mr(mr) ||
	       ibv_destroy_cq(cq) || ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}

/* Children have nothing of this process's device, and take nothing from it */
static void fork_children(void)
{
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();
		int status;

		if (pid < 0)
			fatal("fork");
		if (!pid)
			exit(child());
		if (waitpid(pid, &status, 0) != pid || status)
			complain(p.me * opt.qps, "a child failed", status, 0);
	}
}

/* The time has come to leave by oneself */
static void leave(void)
{
	switch (opt.how) {
	case BY_EXIT:
		exit(0);
	case BY_EXEC:
		execlp("true", "true", NULL);
		_exit(3);
	case BY_CLOSE:
		for (int l = 0; l < links(); l++)
			if (process_of(l) != p.me && ibv_destroy_qp(p.peer[l].qp))
				exit(3);
		if (ibv_dereg_mr(p.mr) || ibv_destroy_cq(p.cq) ||
		    ibv_destroy_comp_channel(p.ch) || ibv_dealloc_pd(p.pd) ||
		    ibv_close_device(p.ctx))
			exit(3);
		/* it lives on, without a device */
		for (int j = 0; j < opt.n; j++)
			while (!sh->who[j].done && !sh->who[j].dying && !late())
				nap(10);
		exit(0);
	default:
		return;
	}
}

int process(int me)
{
	set_up(me);
	while (!all_quiet() && !late()) {
		begin_rounds();
		take_completions();
		invalidate_some();
		watch_memory();
		if (sh->who[me].dying && opt.how != BY_KILL)
			leave();
		if (opt.how == BY_THREAD && p.peer[me ? 0 : opt.qps].round == 3)
			cancel_threads();
		if (opt.how == BY_FORK && p.peer[me ? 0 : opt.qps].round == 3)
			fork_children();
	}
	sh->who[me].quiet = 1;
	while (!all_here() && !late())
		take_completions();
	for (int l = 0; l < links(); l++) {
		uint32_t sent = sh->who[process_of(l)].sent[back_of(l)];

		if (process_of(l) != me && !has_died(l) && p.peer[l].got != sent)
			complain(l, "came, were sent", p.peer[l].got, sent);
	}
	if (late())
		complain(me * opt.qps, "too late", 0, 0);
	sh->who[me].done = 1;
	return p.bad;
}
