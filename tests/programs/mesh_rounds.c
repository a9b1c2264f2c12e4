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

/* @to: the link at @from's end */
static void fill(uint8_t *b, int from, int to, uint32_t round)
{
	uint32_t n = length_of(from, round),
		 x = (uint32_t)(from * MAX_LINKS + to) * 2654435761u + round;

	for (uint32_t i = 0; i < n; i++)
		b[i] = (uint8_t)((x + i * 40503u) >> 8);
}

static bool check(const uint8_t *b, int from, int to, uint32_t round)
{
	static uint8_t want[LONGEST];

	fill(want, from, to, round);
	return !memcmp(b, want, length_of(from, round));
}

static uint64_t wr_id(int link, enum ibv_wr_opcode op, unsigned int slot)
{
	return (uint64_t)link << 16 | (uint64_t)op << 8 | slot;
}

void post_recv(int l, unsigned int slot)
{
	struct ibv_sge sge = {(uintptr_t)p.area[l].in[slot], LONGEST, p.mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = wr_id(l, 0xff, slot),
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	if (ibv_post_recv(p.peer[l].qp, &wr, &bad))
		complain(l, "post_recv", errno, 0);
}

static void start_round(int l)
{
	struct peer *q = &p.peer[l];
	struct who *w = &sh->who[process_of(l)];
	uint32_t len = length_of(p.me, q->round);
	uint64_t there = w->addr + sizeof(struct area) * (size_t)back_of(l);
	struct area *a = &p.area[l];
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

	fill(a->out, p.me, l, q->round);
	memset(a->back, 0, len);
	a->old = ~0ull;
	for (int i = 0; i < 4; i++) {
		wr[i].wr_id = wr_id(l, wr[i].opcode, 0);
		wr[i].num_sge = 1;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	q->pending = 4;
	if (ibv_post_send(q->qp, wr, &bad))
		complain(l, "post_send", errno, 0);
}

static void received(int l, unsigned int slot, uint32_t len)
{
	struct peer *q = &p.peer[l];

	if (len != length_of(process_of(l), q->got) ||
	    !check(p.area[l].in[slot], process_of(l), back_of(l), q->got))
		complain(l, "a message is wrong: round, length", q->got, len);
	q->got++;
	post_recv(l, slot);
}

/* Each kind of completion of a round; the SEND is the last */
static void sent(int l, enum ibv_wr_opcode op)
{
	struct peer *q = &p.peer[l];

	q->pending--;
	if (op == IBV_WR_RDMA_READ && !check(p.area[l].back, p.me, l, q->round))
		complain(l, "what was written is not what was read: round", q->round, 0);
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD && p.area[l].old != q->round)
		complain(l, "the counter is wrong: round", q->round, (long)p.area[l].old);
	if (op != IBV_WR_SEND)
		return;
	if (q->pending)
		complain(l, "completions are missing", q->pending, 0);
	q->round++;
	sh->who[p.me].sent[l] = q->round;
}

static void failed(int l, const struct ibv_wc *wc)
{
	struct peer *q = &p.peer[l];
	bool first = q->failed == IBV_WC_SUCCESS;
	bool is_recv = (wc->wr_id >> 8 & 0xff) == 0xff;

	if (!sh->who[process_of(l)].dying)
		complain(l, ibv_wc_status_str(wc->status), wc->vendor_err, q->round);
	else if (wc->status !=
		     (first && !is_recv ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR) &&
		 !(first && is_recv))
		complain(l, "a dead peer ends with the wrong status", wc->status, first);
	if (!is_recv)
		q->failed = wc->status;
	q->pending = 0;
}

bool has_died(int l)
{
	return sh->who[process_of(l)].dying || p.peer[l].failed;
}

void begin_rounds(void)
{
	for (int l = 0; l < links(); l++) {
		struct peer *q = &p.peer[l];

		if (process_of(l) == p.me || q->pending || q->failed || sh->stop)
			continue;
		/* with a peer that dies at this moment: that is what is to be seen */
		if (sh->kills > 0 || q->round < (uint32_t)opt.rounds)
			start_round(l);
	}
}

bool all_quiet(void)
{
	for (int l = 0; l < links(); l++)
		if (process_of(l) != p.me &&
		    (p.peer[l].pending || (!has_died(l) && !sh->stop &&
					   p.peer[l].round < (uint32_t)opt.rounds)))
			return false;
	return sh->kills <= 0;
}

bool all_here(void)
{
	for (int l = 0; l < links(); l++)
		if (process_of(l) != p.me && !has_died(l) &&
		    (!sh->who[process_of(l)].quiet ||
		     p.peer[l].got < sh->who[process_of(l)].sent[back_of(l)]))
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
		int l = (int)(wc[i].wr_id >> 16);
		enum ibv_wr_opcode op = (enum ibv_wr_opcode)(wc[i].wr_id >> 8 & 0xff);

		if (wc[i].status)
			failed(l, &wc[i]);
		else if ((int)op == 0xff)
			received(l, wc[i].wr_id & 0xff, wc[i].byte_len);
		else
			sent(l, op);
	}
	/* a third of the processes poll all the time */
	if (n == 0 && p.me % 3)
		sleep_for_event();
}
