/* stress_device.c - prefetches and transfers, and how they must end. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <time.h>

#include "stress.h"

#define GRH_BYTES  40 /* before a received datagram */
#define LOST_AFTER 5  /* s without the message of an unreliable connection */

static struct ibv_mr *some_mr(struct worker *w)
{
	return rnd(w, 4) ? stress.whole : stress.implicit;
}

void prefetch(struct worker *w, struct span s)
{
	static const enum ibv_advise_mr_advice advice[] = {
	    IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
	    IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT};
	struct ibv_sge sge = {
	    .addr = (uintptr_t)at(w, s.first),
	    .length = s.n * PAGE,
	    .lkey = some_mr(w)->lkey,
	};
	unsigned int which = (unsigned int)rnd(w, 3);
	bool wait = rnd(w, 2);
	enum state least = which == 0 ? READ_ONLY : MAPPED;
	bool can = which == 2 || all(w, s, least);
	int err = ibv_advise_mr(stress.dev.pd, advice[which],
				wait ? IBV_ADVISE_MR_FLAG_FLUSH : 0, &sge, 1);

	/* EAGAIN: neighbours invalidated for too long */
	if (err && err != EAGAIN && (can || !wait || err != EFAULT))
		fail(w, "prefetch", err, can);
	if (!err && wait && !can)
		fail(w, "prefetch of nothing", which, s.n);
}

static bool reliable(const struct worker *w)
{
	return w->pair.kind < PAIR_UC;
}

/*
 * The sender's completion, and the receiver's if there is one to come (after an error of
 * the sender alone there is none). Unreliable messages may be lost on a loaded machine.
 */
static enum ibv_wc_status wait_for(struct worker *w, bool receives, bool *lost)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	time_t limit = time(NULL) + LOST_AFTER;
	bool sent = false;
	struct ibv_wc wc;

	while (!sent || (receives && !status)) {
		int got = ibv_poll_cq(w->cq, 1, &wc);

		if (got < 0)
			fail(w, "ibv_poll_cq", got, 0);
		*lost = !got && sent && !reliable(w) && time(NULL) > limit;
		if (*lost)
			return IBV_WC_SUCCESS;
		if (!got)
			continue;
		if (wc.wr_id == 1) {
			sent = true;
			status = wc.status;
		} else {
			receives = false;
			if (wc.status && !reliable(w))
				fail(w, "receiving", wc.status, w->pair.kind);
		}
	}
	return status;
}

void connect_worker(struct worker *w)
{
	struct device d = stress.dev;

	d.cq = w->cq;
	pair_open(&w->pair, &d, (enum pair_kind)rnd(w, PAIR_KINDS));
}

void disconnect(struct worker *w)
{
	struct ibv_wc wc;

	pair_close(&w->pair);
	while (ibv_poll_cq(w->cq, 1, &wc) > 0)
		;
}

void reconnect(struct worker *w)
{
	disconnect(w);
	connect_worker(w);
}

/* struct request - what a work request is, and on which connections it can be sent */
struct request {
	enum ibv_wr_opcode op;
	bool to_slot;  /* the slot is written */
	bool slot_far; /* the slot is the peer's memory */
	bool receives; /* takes a receive request */
	enum pair_kind last;
};

static const struct request kinds[] = {
    {IBV_WR_RDMA_WRITE, true, true, false, PAIR_XRC},
    {IBV_WR_RDMA_WRITE, false, false, false, PAIR_XRC},
    {IBV_WR_RDMA_READ, false, true, false, PAIR_XRC},
    {IBV_WR_RDMA_READ, true, false, false, PAIR_XRC},
    {IBV_WR_RDMA_WRITE_WITH_IMM, true, true, true, PAIR_UC},
    {IBV_WR_RDMA_WRITE_WITH_IMM, false, false, true, PAIR_UC},
    {IBV_WR_SEND, true, true, true, PAIR_UD},
    {IBV_WR_SEND, false, false, true, PAIR_UD},
};

static const struct request *some_request(struct worker *w)
{
	const struct request *r;

	do
		r = &kinds[rnd(w, sizeof(kinds) / sizeof(kinds[0]))];
	while (w->pair.kind > r->last);
	return r;
}

static void post_recv(struct worker *w, struct ibv_sge *into, bool data)
{
	struct ibv_sge sge[2] = {{.addr = (uintptr_t)w->buf + PAGES * PAGE,
				  .length = GRH_BYTES,
				  .lkey = w->pinned->lkey}};
	bool grh = w->pair.kind == PAIR_UD;
	struct ibv_recv_wr wr = {.wr_id = 2, .sg_list = sge, .num_sge = grh + data};

	if (data)
		sge[grh] = *into;
	if (pair_post_recv(&w->pair, &wr))
		fail(w, "posting a receive", errno, w->pair.kind);
}

static void post(struct worker *w, const struct request *r, struct span s)
{
	struct ibv_mr *mr = some_mr(w);
	struct ibv_sge slot = {
	    .addr = (uintptr_t)at(w, s.first), .length = s.n * PAGE, .lkey = mr->lkey};
	struct ibv_sge mine = {
	    .addr = (uintptr_t)w->buf, .length = s.n * PAGE, .lkey = w->pinned->lkey};
	struct ibv_send_wr wr = {
	    .wr_id = 1,
	    .sg_list = r->slot_far ? &mine : &slot,
	    .num_sge = 1,
	    .opcode = r->op,
	    .send_flags = IBV_SEND_SIGNALED,
	};

	if (r->op != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = r->slot_far ? slot.addr : mine.addr;
		wr.wr.rdma.rkey = r->slot_far ? mr->rkey : w->pinned->rkey;
	}
	if (r->receives)
		post_recv(w, r->slot_far ? &slot : &mine, r->op == IBV_WR_SEND);
	if (pair_post_send(&w->pair, &wr))
		fail(w, "posting a send", errno, w->pair.kind);
}

static enum ibv_wc_status expected(const struct worker *w, const struct request *r,
				   struct span s)
{
	if (all(w, s, r->to_slot ? MAPPED : READ_ONLY))
		return IBV_WC_SUCCESS;
	if (!r->slot_far)
		return IBV_WC_LOC_PROT_ERR;
	return r->op == IBV_WR_SEND ? IBV_WC_REM_OP_ERR : IBV_WC_REM_ACCESS_ERR;
}

/* After an error some of the pages may hold the new data: make them the model's. */
static void settle(struct worker *w, struct span s)
{
	for (unsigned int i = s.first; i < s.first + s.n; i++)
		if (w->state[i] == MAPPED)
			fill((uint64_t *)at(w, i), w->value[i]);
}

void transfer(struct worker *w, struct span s)
{
	const struct request *r = some_request(w);
	enum ibv_wc_status want, got;
	uint64_t value = w->rng;
	bool lost = false;

	if (w->pair.kind == PAIR_UD)
		s.n = 1; /* a datagram is one packet */
	want = expected(w, r, s);
	/* who sends unreliably does not learn what became of it */
	if (want && !reliable(w) && r->slot_far)
		return;
	for (unsigned int i = 0; i < s.n; i++)
		fill(w->buf + i * PAGE / 8, value + i);
	post(w, r, s);
	got = wait_for(w, r->receives, &lost);
	if (got != want)
		fail(w, ibv_wc_status_str(got), want, w->pair.kind * 100 + r->op);
	w->requests++;
	w->of_kind[w->pair.kind]++;
	if (got || lost) {
		w->errors += got != 0;
		w->lost += lost;
		reconnect(w);
		settle(w, s);
		return;
	}
	for (unsigned int i = 0; i < s.n; i++) {
		if (r->to_slot)
			w->value[s.first + i] = value + i;
		else
			verify(w, w->buf + i * PAGE / 8, w->value[s.first + i],
			       "data is wrong", s.first + i);
	}
}

void atomic(struct worker *w, struct span s)
{
	struct ibv_mr *mr = some_mr(w);
	uint64_t *p = (uint64_t *)at(w, s.first), operand = rnd(w, 1000);
	uint64_t old = w->value[s.first];
	bool swap = rnd(w, 2), same = rnd(w, 2), lost;
	struct ibv_sge sge = {
	    .addr = (uintptr_t)w->buf, .length = 8, .lkey = w->pinned->lkey};
	struct ibv_send_wr wr = {
	    .wr_id = 1,
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = swap ? IBV_WR_ATOMIC_CMP_AND_SWP : IBV_WR_ATOMIC_FETCH_AND_ADD,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr.atomic = {.remote_addr = (uintptr_t)p,
			  .rkey = mr->rkey,
			  .compare_add = swap ? (same ? old : ~old) : operand,
			  .swap = operand},
	};
	uint64_t then = swap ? (same ? operand : old) : old + operand;
	enum ibv_wc_status want =
	    w->state[s.first] == MAPPED ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
	enum ibv_wc_status got;

	if (!reliable(w))
		return;
	if (pair_post_send(&w->pair, &wr))
		fail(w, "posting an atomic", errno, w->pair.kind);
	got = wait_for(w, false, &lost);
	w->requests++;
	w->of_kind[w->pair.kind]++;
	if (got != want)
		fail(w, ibv_wc_status_str(got), want, -1);
	if (got) {
		w->errors++;
		reconnect(w);
		return;
	}
	if (w->buf[0] != old || *p != then)
		fail(w, "atomic is wrong", (long)w->buf[0], (long)*p);
	*p = old;
}
