/*
 * sim_fuzz_verbs.c - random verbs with random arguments, in random order.
 *
 * A program that calls everything with anything: objects are made, changed, used and
 * destroyed out of order; the kernel's rules are all that is left to protect the HCA.
 * What must hold: no crash, an answer that is 0 or -errno, -EBUSY for what is in use, and
 * nothing left at the end.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sim_gen.h"
#include "tests/emu/reg_mr.h"

#define EACH 6 /* objects of a kind at a time */

struct toys {
	struct sim_host *h;
	struct toys *peer;
	struct emu_pd *pd[EACH];
	struct emu_mr *mr[EACH];
	struct emu_mw *mw[EACH];
	struct emu_cq *cq[EACH];
	struct emu_srq *srq[EACH];
	struct emu_xrcd *xrcd[EACH];
	struct emu_qp *qp[EACH];
	struct emu_ah *ah[EACH];
};

#define PICK(t, kind) ((t)->kind[sim_below(&(t)->h->w->rng, EACH)])

static uint32_t any(struct toys *t, uint32_t n)
{
	return sim_below(&t->h->w->rng, n);
}

/* A number that may be small, a limit, or nonsense */
static uint32_t odd_number(struct toys *t, uint32_t small)
{
	switch (any(t, 60)) {
	case 0:
		return (uint32_t)sim_rand(&t->h->w->rng);
	case 1:
		return UINT32_MAX;
	case 2:
		return 0;
	default:
		return any(t, small);
	}
}

static uint64_t odd_address(struct toys *t)
{
	struct sim_host *h = t->h;
	enum sim_arena_kind a = any(t, 2) ? SIM_PINNED : SIM_ONDEMAND;

	if (any(t, 10) == 0)
		return sim_rand(&h->w->rng);
	return sim_addr(h, a, any(t, SIM_ARENA_LEN));
}

/* The answer of a verb: 0 or an errno */
static int answer(struct toys *t, const char *verb, int err)
{
	if (sim_tracing(t->h->w))
		sim_trace(t->h->w, "h%u %s: %d", t->h->id, verb, err);
	if (err > 0 || err < -4095)
		sim_fail(t->h->w, "%s says %d", verb, err);
	return err;
}

/* --- objects ---------------------------------------------------------------------- */

static void toy_pd(struct toys *t, uint32_t i)
{
	if (!t->pd[i])
		answer(t, "emu_pd_create", emu_pd_create(t->h->hca, &t->pd[i]));
	else if (any(t, 4) == 0 && !answer(t, "emu_pd_destroy", emu_pd_destroy(t->pd[i])))
		t->pd[i] = NULL;
}

static int odd_access(struct toys *t)
{
	int access = IBV_ACCESS_LOCAL_WRITE | (int)any(t, 1 << 8);

	if (any(t, 4) == 0)
		access = (int)(sim_rand(&t->h->w->rng) & 0x3ff);
	return access;
}

static void toy_mr(struct toys *t, uint32_t i)
{
	struct emu_pd *pd = PICK(t, pd);
	uint64_t start = odd_address(t), len = odd_number(t, 3 * SIM_PAGE);
	uint64_t iova = any(t, 2) ? start : odd_address(t);
	int access = odd_access(t), flags = (int)any(t, 9);

	if (!t->mr[i]) {
		if (pd && answer(t, "emu_mr_reg",
				 reg_mr(pd, start, len, iova, access, &t->mr[i])))
			t->mr[i] = NULL;
	} else if (any(t, 2)) {
		if (pd || !(flags & IBV_REREG_MR_CHANGE_PD))
			answer(t, "emu_mr_rereg",
			       rereg_mr(t->mr[i], flags, pd, start, len, iova, access));
	} else if (!answer(t, "emu_mr_dereg", emu_mr_dereg(t->mr[i]))) {
		t->mr[i] = NULL;
	}
}

static void toy_mw(struct toys *t, uint32_t i)
{
	struct emu_pd *pd = PICK(t, pd);

	if (t->mw[i]) {
		if (!answer(t, "emu_mw_dealloc", emu_mw_dealloc(t->mw[i])))
			t->mw[i] = NULL;
	} else if (pd &&
		   answer(t, "emu_mw_alloc",
			  emu_mw_alloc(pd, (enum ibv_mw_type)any(t, 4), &t->mw[i]))) {
		t->mw[i] = NULL;
	}
}

static void toy_cq(struct toys *t, uint32_t i)
{
	struct sim_host *h = t->h;

	if (!t->cq[i]) {
		if (answer(t, "emu_cq_create",
			   emu_cq_create(h->hca, h, &h->cq[0], odd_number(t, 64),
					 &t->cq[i])))
			t->cq[i] = NULL;
		return;
	}
	switch (any(t, 4)) {
	case 0:
		answer(t, "emu_cq_resize", emu_cq_resize(t->cq[i], odd_number(t, 64)));
		break;
	case 1:
		emu_cq_arm(t->cq[i], any(t, 2));
		break;
	case 2:
		if (!answer(t, "emu_cq_destroy", emu_cq_destroy(t->cq[i])))
			t->cq[i] = NULL;
		break;
	default:
		emu_cq_ring(t->cq[i]);
		break;
	}
}

static void toy_xrcd(struct toys *t, uint32_t i)
{
	if (!t->xrcd[i])
		answer(t, "emu_xrcd_create", emu_xrcd_create(t->h->hca, &t->xrcd[i]));
	else if (!answer(t, "emu_xrcd_destroy", emu_xrcd_destroy(t->xrcd[i])))
		t->xrcd[i] = NULL;
}

static void toy_srq(struct toys *t, uint32_t i)
{
	struct ibv_srq_attr attr = {.max_wr = odd_number(t, 64),
				    .max_sge = odd_number(t, 8),
				    .srq_limit = odd_number(t, 64)};
	struct sim_host *h = t->h;
	struct emu_pd *pd = PICK(t, pd);

	if (!t->srq[i]) {
		if (pd &&
		    answer(t, "emu_srq_create",
			   emu_srq_create(pd, h, &h->srq[0], &attr,
					  any(t, 3) ? NULL : PICK(t, xrcd),
					  any(t, 3) ? NULL : PICK(t, cq), &t->srq[i])))
			t->srq[i] = NULL;
	} else if (any(t, 2)) {
		answer(t, "emu_srq_modify",
		       emu_srq_modify(t->srq[i], &attr, (int)any(t, 4)));
		emu_srq_query(t->srq[i], &attr);
	} else if (!answer(t, "emu_srq_destroy", emu_srq_destroy(t->srq[i]))) {
		t->srq[i] = NULL;
	}
}

static void toy_ah(struct toys *t, uint32_t i)
{
	struct ibv_ah_attr attr = {.is_global = any(t, 4) != 0,
				   .port_num = (uint8_t)(1 + (any(t, 6) == 0))};
	struct emu_pd *pd = PICK(t, pd);

	memcpy(attr.grh.dgid.raw, t->h->w->host[any(t, 2)].ip.b, 16);
	if (any(t, 5) == 0)
		attr.grh.dgid.raw[any(t, 16)] ^= 0xff;
	attr.grh.sgid_index = (uint8_t)(any(t, 4) ? 0 : any(t, 256));
	if (t->ah[i]) {
		if (!answer(t, "emu_ah_destroy", emu_ah_destroy(t->ah[i])))
			t->ah[i] = NULL;
	} else if (pd &&
		   answer(t, "emu_ah_create", emu_ah_create(pd, &attr, &t->ah[i]))) {
		t->ah[i] = NULL;
	}
}

/* --- QPs -------------------------------------------------------------------------- */

static void toy_qp_create(struct toys *t, uint32_t i)
{
	static const enum ibv_qp_type types[] = {
	    IBV_QPT_RC,	      IBV_QPT_RC,	IBV_QPT_UC,	    IBV_QPT_UD,
	    IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, IBV_QPT_RAW_PACKET, (enum ibv_qp_type)0};
	struct emu_qp_init init = {
	    .type = types[any(t, 8)],
	    .pd = any(t, 10) ? PICK(t, pd) : NULL,
	    .send_cq = any(t, 10) ? PICK(t, cq) : NULL,
	    .recv_cq = any(t, 10) ? PICK(t, cq) : NULL,
	    .srq = any(t, 3) ? NULL : PICK(t, srq),
	    .xrcd = any(t, 3) ? PICK(t, xrcd) : NULL,
	    .cap = {.max_send_wr = odd_number(t, 64),
		    .max_recv_wr = odd_number(t, 64),
		    .max_send_sge = odd_number(t, 8),
		    .max_recv_sge = odd_number(t, 8),
		    .max_inline_data = odd_number(t, 200)},
	    .sq_sig_all = any(t, 2),
	    .owner = t->h,
	    .cookie = t->h,
	};

	if (answer(t, "emu_qp_create", emu_qp_create(t->h->hca, &init, &t->qp[i])))
		t->qp[i] = NULL;
}

static void odd_attr(struct toys *t, struct ibv_qp_attr *a)
{
	struct toys *other = any(t, 2) ? t->peer : t;
	struct emu_qp *peer = PICK(other, qp);

	memset(a, 0, sizeof(*a));
	a->qp_state = (enum ibv_qp_state)any(t, 9);
	a->cur_qp_state = (enum ibv_qp_state)any(t, 9);
	a->path_mtu = (enum ibv_mtu)any(t, 8);
	a->qkey = 0x11111111;
	a->rq_psn = (uint32_t)sim_rand(&t->h->w->rng);
	a->sq_psn = (uint32_t)sim_rand(&t->h->w->rng);
	a->dest_qp_num = peer ? emu_qp_num(peer) : odd_number(t, 64);
	a->qp_access_flags = any(t, 256);
	a->pkey_index = (uint16_t)(any(t, 8) ? 0 : odd_number(t, 64));
	a->port_num = (uint8_t)(any(t, 8) ? 1 : any(t, 4));
	a->max_rd_atomic = (uint8_t)odd_number(t, 20);
	a->max_dest_rd_atomic = (uint8_t)odd_number(t, 20);
	a->min_rnr_timer = (uint8_t)odd_number(t, 32);
	a->timeout = (uint8_t)odd_number(t, 32);
	a->retry_cnt = (uint8_t)odd_number(t, 8);
	a->rnr_retry = (uint8_t)odd_number(t, 8);
	a->en_sqd_async_notify = (uint8_t)any(t, 2);
	a->ah_attr.is_global = any(t, 10) != 0;
	a->ah_attr.port_num = 1;
	memcpy(a->ah_attr.grh.dgid.raw, other->h->ip.b, 16);
}

/* What the next state of an honest program wants, so that fuzz gets somewhere */
static int honest_mask(enum ibv_qp_state to, enum ibv_qp_type type)
{
	bool requester = type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
	bool responder = type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
	int mask = IBV_QP_STATE;

	switch (to) {
	case IBV_QPS_INIT:
		mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT;
		return mask | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		if (type != IBV_QPT_UD)
			mask |=
			    IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
		if (responder)
			mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		return mask;
	case IBV_QPS_RTS:
		mask |= IBV_QP_SQ_PSN;
		if (requester)
			mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				IBV_QP_MAX_QP_RD_ATOMIC;
		else if (responder)
			mask |= IBV_QP_TIMEOUT;
		return mask;
	default:
		return mask;
	}
}

static void make_honest(struct ibv_qp_attr *a, enum ibv_qp_state state)
{
	a->qp_state = state;
	a->path_mtu = (enum ibv_mtu)(1 + a->path_mtu % 5);
	a->port_num = 1;
	a->pkey_index = 0;
	a->qp_access_flags &= IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			      IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	a->dest_qp_num &= ROCE_QPN_MASK;
	a->timeout = 5 + a->timeout % 8;
	a->retry_cnt &= 3;
	a->rnr_retry &= 3;
	a->min_rnr_timer = 1 + a->min_rnr_timer % 12;
	a->max_rd_atomic &= 15;
	a->max_dest_rd_atomic &= 15;
	a->ah_attr.is_global = 1;
}

/* One honest step towards RTS, or all of them */
static void toy_qp_advance(struct toys *t, struct emu_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a, now;

	for (uint32_t n = any(t, 3) ? 1 : 3; n; n--) {
		odd_attr(t, &a);
		emu_qp_query(qp, &now, &init);
		if (now.qp_state >= IBV_QPS_RTS)
			return;
		make_honest(&a, now.qp_state + 1);
		answer(t, "emu_qp_modify",
		       emu_qp_modify(qp, &a, honest_mask(a.qp_state, init.qp_type)));
	}
}

static void toy_qp_modify(struct toys *t, struct emu_qp *qp)
{
	int mask = (int)(sim_rand(&t->h->w->rng) & 0x1fffff);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	odd_attr(t, &a);
	if (any(t, 2))
		mask = IBV_QP_STATE;
	answer(t, "emu_qp_modify", emu_qp_modify(qp, &a, mask));
	emu_qp_query(qp, &a, &init);
}

static void toy_post(struct toys *t, struct emu_qp *qp)
{
	struct emu_ring_info info = emu_qp_sq_ring(qp);
	struct rxe_queue_buf *q = (struct rxe_queue_buf *)(uintptr_t)info.offset;
	struct emu_mr *mr = PICK(t, mr);
	struct rxe_send_wqe *wqe;

	if (!info.size || (q->index_mask + 1ull) << q->log2_elem_size > info.size)
		return;
	wqe = (void *)(q->data + ((size_t)(q->producer_index & q->index_mask)
				  << q->log2_elem_size));
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr.opcode = any(t, 17);
	wqe->wr.send_flags = any(t, 16);
	wqe->wr.ex.imm_data = mr ? emu_mr_rkey(mr) : 1;
	wqe->wr.wr.rdma.remote_addr = odd_address(t);
	wqe->wr.wr.rdma.rkey = mr ? emu_mr_rkey(mr) : 7;
	if (PICK(t, ah) && t->ah[0])
		wqe->wr.wr.ud.ah_num = emu_ah_num(t->ah[0]);
	wqe->dma.length = wqe->dma.resid = odd_number(t, 600);
	wqe->dma.num_sge = (uint32_t)any(t, 2);
	if (wqe->dma.num_sge && mr && (1u << q->log2_elem_size) >= sizeof(*wqe) + 16)
		wqe->dma.sge[0] =
		    (struct rxe_sge){odd_address(t), wqe->dma.length, emu_mr_lkey(mr)};
	q->producer_index = (q->producer_index + 1) & q->index_mask;
	emu_qp_doorbell(qp);
}

static void toy_qp(struct toys *t, uint32_t i)
{
	struct emu_qp *qp = t->qp[i];

	if (!qp) {
		toy_qp_create(t, i);
		return;
	}
	switch (any(t, 14)) {
	case 0:
		if (!answer(t, "emu_qp_destroy", emu_qp_destroy(qp)))
			t->qp[i] = NULL;
		break;
	case 1:
		answer(t, "emu_qp_attach_mcast",
		       emu_qp_attach_mcast(qp, &t->h->w->group));
		break;
	case 2:
		answer(t, "emu_qp_detach_mcast",
		       emu_qp_detach_mcast(qp, &t->h->w->group));
		break;
	case 3:
		emu_qp_doorbell(qp);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		for (uint32_t n = 1 + any(t, 4); n; n--)
			toy_post(t, qp);
		break;
	case 8:
		toy_qp_modify(t, qp);
		break;
	default:
		toy_qp_advance(t, qp);
		break;
	}
}

/* --- device ----------------------------------------------------------------------- */

static void toy_device(struct toys *t)
{
	struct ibv_device_attr_ex dev;
	struct ibv_port_attr port;
	struct sim_host *h = t->h;
	struct net_ip ip;

	switch (any(t, 6)) {
	case 0:
		emu_query_device(h->hca, &dev);
		break;
	case 1:
		emu_query_port(h->hca, &port);
		break;
	case 2:
		emu_set_port(h->hca, any(t, 4), (enum ibv_mtu)(1 + any(t, 5)));
		break;
	case 3:
		/* index 0 stays: the network knows the host by it */
		answer(t, "emu_set_gid",
		       emu_set_gid(h->hca, 1 + any(t, 80), any(t, 2) ? &h->ip : NULL));
		break;
	default:
		answer(t, "emu_get_gid", emu_get_gid(h->hca, any(t, 80), &ip));
		break;
	}
}

static void play(struct sim_world *w, void *arg, uint64_t val)
{
	struct toys *t = arg;
	uint32_t i = any(t, EACH);

	emu_hca_set_time(t->h->hca, w->now);
	switch (any(t, 14)) {
	case 0:
		toy_pd(t, i);
		break;
	case 1:
		toy_mr(t, i);
		break;
	case 2:
		toy_mw(t, i);
		break;
	case 3:
		toy_cq(t, i);
		break;
	case 4:
		toy_srq(t, i);
		break;
	case 5:
		toy_xrcd(t, i);
		break;
	case 6:
		toy_ah(t, i);
		break;
	case 7:
		toy_device(t);
		break;
	default:
		toy_qp(t, i);
		break;
	}
	sim_host_work(t->h);
}

#define PUT(t, kind, destroy)                                                            \
	do {                                                                             \
		for (uint32_t i_ = 0; i_ < EACH; i_++) {                                 \
			int err_ = (t)->kind[i_] ? destroy((t)->kind[i_]) : 0;           \
                                                                                         \
			if (err_)                                                        \
				sim_fail((t)->h->w, "h%u: %s at the end: %s",            \
					 (t)->h->id, #destroy, strerror(-err_));         \
		}                                                                        \
	} while (0)

/* In the order of their dependence nothing is in use */
static void put_away(struct toys *t)
{
	/* a QP that is attached is in use, as it is for uverbs */
	for (uint32_t i = 0; i < EACH; i++) {
		while (t->qp[i] && !emu_qp_detach_mcast(t->qp[i], &t->h->w->group))
			;
	}
	PUT(t, qp, emu_qp_destroy);
	PUT(t, mw, emu_mw_dealloc);
	PUT(t, ah, emu_ah_destroy);
	PUT(t, srq, emu_srq_destroy);
	PUT(t, mr, emu_mr_dereg);
	PUT(t, xrcd, emu_xrcd_destroy);
	PUT(t, cq, emu_cq_destroy);
	PUT(t, pd, emu_pd_destroy);
}

void sim_fuzz_verbs(struct sim_world *w)
{
	static struct toys toys[2];

	w->anything_goes = true;
	w->nhosts = 2;
	gen_net(w, false);
	gen_mem(w, sim_chance(&w->rng, 300));
	if (sim_hosts_create(w))
		return;
	for (uint32_t i = 0; i < 2; i++)
		toys[i].h = &w->host[i];
	for (uint32_t i = 0; i < 2; i++) {
		struct toys *t = &toys[i];

		memset(t, 0, sizeof(*t));
		t->h = &w->host[i];
		t->peer = &toys[1 - i];
		t->h->cq[0] = (struct sim_cq){.host = t->h, .armed = UINT32_MAX};
		for (uint32_t k = 0; k < EACH; k++) {
			toy_pd(t, k);
			toy_cq(t, k);
		}
		for (uint32_t n = sim_range(&w->rng, 20, 500); n; n--)
			sim_at(w, w->now + sim_below(&w->rng, 5 * MS), play, t, 0);
	}
	sim_run(w, w->now + 100 * MS);
	for (uint32_t i = 0; i < 2; i++)
		put_away(&toys[i]);
	/* what was under way meets nobody */
	sim_run(w, w->now + 100 * MS);
	w->judged = true;
}
