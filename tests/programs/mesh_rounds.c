/*
 * mesh_rounds.c - a round with a peer is a WRITE, a READ of the same bytes, a FETCH_ADD whose
 * result must be the number of the round, and a SEND with a pattern that the receiver checks.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>

#include "mesh.h"

static uint32_t length_of(int from, uint32_t round)
{
	return 1 + (uint32_t)(from * 977 + round * 3571) % LONGEST;
}

static void fill(uint8_t *b, int from, int to, uint32_t round)
{
	uint32_t n = length_of(from, round),
		 x = (uint32_t)(from * 64 + to) * 2654435761u + round;

	for (uint32_t i = 0; i < n; i++)
		b[i] = (uint8_t)((x + i * 40503u) >> 8);
}

static bool check(const uint8_t *b, int from, int to, uint32_t round)
{
	static uint8_t want[LONGEST];

	fill(want, from, to, round);
	return !memcmp(b, want, length_of(from, round));
}

static uint64_t wr_id(int peer, enum ibv_wr_opcode op, unsigned int slot)
{
	return (uint64_t)peer << 16 | (uint64_t)op << 8 | slot;
}

void post_recv(int j, unsigned int slot)
{
	struct ibv_sge sge = {(uintptr_t)p.area[j].in[slot], LONGEST, p.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id(j, 0xff, slot),
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	if (ibv_post_recv(p.peer[j].qp, &wr, &bad))
		complain(j, "post_recv", errno, 0);
}

static void start_round(int j)
{
	struct peer *q = &p.peer[j];
	struct who *w = &sh->who[j];
	uint32_t len = length_of(p.me, q->round);
	uint64_t there = w->addr + sizeof(struct area) * (size_t)p.me;
	struct area *a = &p.area[j];
	struct ibv_sge out = {(uintptr_t)a->out, len, p.mr->lkey};
	struct ibv_sge back = {(uintptr_t)a->back, len, p.mr->lkey};
	struct ibv_sge old = {(uintptr_t)&a->old, 8, p.mr->lkey};
	struct ibv_send_wr wr[4] = {
	    {.opcode = IBV_WR_RDMA_WRITE,
	     .sg_list = &out,
	     .wr.rdma = {there + offsetof(struct area, slot), w->rkey}},
	    {.opcode = IBV_WR_RDMA_READ,
	     .sg_list = &back,
	     .wr.rdma = {there + offsetof(struct area, slot), w->rkey}},
	    {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
	     .sg_list = &old,
	     .wr.atomic = {there + offsetof(struct area, counter), 1, 0, w->rkey}},
	    {.opcode = IBV_WR_SEND, .sg_list = &out},
	};
	struct ibv_send_wr *bad;

	fill(a->out, p.me, j, q->round);
	memset(a->back, 0, len);
	a->old = ~0ull;
	for (int i = 0; i < 4; i++) {
		wr[i].wr_id = wr_id(j, wr[i].opcode, 0);
		wr[i].num_sge = 1;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	q->pending = 4;
	if (ibv_post_send(q->qp, wr, &bad))
		complain(j, "post_send", errno, 0);
}

static void received(int j, unsigned int slot, uint32_t len)
{
	struct peer *q = &p.peer[j];

	if (len != length_of(j, q->got) || !check(p.area[j].in[slot], j, p.me, q->got))
		complain(j, "a message is wrong: round, length", q->got, len);
	q->got++;
	post_recv(j, slot);
}

/* Each kind of completion of a round; the SEND is the last */
static void sent(int j, enum ibv_wr_opcode op)
{
	struct peer *q = &p.peer[j];

	q->pending--;
	if (op == IBV_WR_RDMA_READ && !check(p.area[j].back, p.me, j, q->round))
		complain(j, "what was written is not what was read: round", q->round, 0);
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD && p.area[j].old != q->round)
		complain(j, "the counter is wrong: round", q->round, (long)p.area[j].old);
	if (op != IBV_WR_SEND)
		return;
	if (q->pending)
		complain(j, "completions are missing", q->pending, 0);
	q->round++;
	sh->who[p.me].sent[j] = q->round;
}

static void failed(int j, const struct ibv_wc *wc)
{
	struct peer *q = &p.peer[j];
	bool first = q->failed == IBV_WC_SUCCESS;
	bool is_recv = (wc->wr_id >> 8 & 0xff) == 0xff;

	if (!sh->who[j].dying)
		complain(j, ibv_wc_status_str(wc->status), wc->vendor_err, q->round);
	else if (wc->status !=
		     (first && !is_recv ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR) &&
		 !(first && is_recv))
		complain(j, "a dead peer ends with the wrong status", wc->status, first);
	if (!is_recv)
		q->failed = wc->status;
	q->pending = 0;
}

bool has_died(int j)
{
	return sh->who[j].dying || p.peer[j].failed;
}

void begin_rounds(void)
{
	for (int j = 0; j < opt.n; j++) {
		struct peer *q = &p.peer[j];

		if (j == p.me || q->pending || q->failed || sh->stop)
			continue;
		/* with a peer that dies at this moment: that is what is to be seen */
		if (sh->kills > 0 || q->round < (uint32_t)opt.rounds)
			start_round(j);
	}
}

bool all_quiet(void)
{
	for (int j = 0; j < opt.n; j++)
		if (j != p.me &&
		    (p.peer[j].pending || (!has_died(j) && !sh->stop &&
					   p.peer[j].round < (uint32_t)opt.rounds)))
			return false;
	return sh->kills <= 0;
}

bool all_here(void)
{
	for (int j = 0; j < opt.n; j++)
		if (j != p.me && !has_died(j) &&
		    (!sh->who[j].quiet || p.peer[j].got < sh->who[j].sent[p.me]))
			return false;
	return true;
}

/* The channel, or now and then a look at what the others tell */
static void sleep_for_event(void)
{
	struct pollfd fd = {.fd = p.ch->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *arg;

	if (poll(&fd, 1, 20) <= 0)
		return;
	if (ibv_get_cq_event(p.ch, &cq, &arg))
		return;
	ibv_ack_cq_events(cq, 1);
	ibv_req_notify_cq(cq, 0);
}

void take_completions(void)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(p.cq, 16, wc);

	for (int i = 0; i < n; i++) {
		int j = (int)(wc[i].wr_id >> 16);
		enum ibv_wr_opcode op = (enum ibv_wr_opcode)(wc[i].wr_id >> 8 & 0xff);

		if (wc[i].status)
			failed(j, &wc[i]);
		else if ((int)op == 0xff)
			received(j, wc[i].wr_id & 0xff, wc[i].byte_len);
		else
			sent(j, op);
	}
	/* a third of the processes poll all the time */
	if (n == 0 && p.me % 3)
		sleep_for_event();
}
