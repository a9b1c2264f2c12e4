/*
 * transport.c - the frame of the transport: life of its part of a QP, what comes in,
 * whose turn it is to send, timers.
 *
 * Theory of operation
 * -------------------
 * Nothing but tr_run() sends. Packets, doorbells and timers change state and put the QP
 * into the ready list, tr_run() takes QPs from its front and gives each a turn: its
 * responses first, then its requests, a bounded number of packets, back to back so that
 * the port can merge them. A QP that has more goes to the end of the list; one that has
 * nothing, or waits for something, leaves it. So idle QPs cost nothing, and a busy one
 * cannot keep others from their turn.
 *
 * When the port is full the QP keeps its place at the front.
 */
#include "emu/transport.h"

#include <stdlib.h>

#include "base/container.h"
#include "emu/diagnose.h"

#define TIMERS_PER_QP 3

/* --- the HCA's part --------------------------------------------------------------- */

static void port_is_repaired(struct tr_timer *timer)
{
	emu_port_repair(container_of(timer, struct emu_transport, port)->hca);
}

int tr_hca_init(struct emu_hca *hca)
{
	struct emu_transport *tr = calloc(1, sizeof(*tr));

	if (!tr || tr_timers_reserve(&tr->timers, 1)) {
		free(tr);
		return -ENOMEM;
	}
	tr->hca = hca;
	tr_timer_init(&tr->port, port_is_repaired);
	hca->tr = tr;
	return 0;
}

void tr_port_repair_at(struct emu_hca *hca, uint64_t when)
{
	if (when)
		tr_timer_start(&hca->tr->timers, &hca->tr->port, when);
	else
		tr_timer_stop(&hca->tr->port);
}

void tr_hca_fini(struct emu_hca *hca)
{
	tr_timers_fini(&hca->tr->timers);
	free(hca->tr);
	hca->tr = NULL;
}

/* Circular lists through next and prev, @head is their first */
static void ready_add_tail(struct emu_transport *tr, struct tr_qp *t)
{
	struct tr_qp *head = tr->ready;

	if (!head) {
		t->next = t->prev = t;
		tr->ready = t;
		return;
	}
	t->next = head;
	t->prev = head->prev;
	head->prev->next = t;
	head->prev = t;
}

static void ready_del(struct emu_transport *tr, struct tr_qp *t)
{
	if (!t->ready)
		return;
	t->ready = false;
	if (t->next == t) {
		tr->ready = NULL;
		return;
	}
	t->next->prev = t->prev;
	t->prev->next = t->next;
	if (tr->ready == t)
		tr->ready = t->next;
}

void tr_sched(struct tr_qp *t)
{
	if (t->ready)
		return;
	t->ready = true;
	ready_add_tail(t->qp->hca->tr, t);
}

/* QPs in ERR whose receive queue must be looked at: nobody rings a doorbell for it */
static void flush_add(struct tr_qp *t)
{
	struct emu_transport *tr = t->qp->hca->tr;

	if (t->flush_listed || !t->qp->rq.buf)
		return;
	t->flush_listed = true;
	t->flush_prev = NULL;
	t->flush_next = tr->flush;
	if (tr->flush)
		tr->flush->flush_prev = t;
	else
		tr->flush_last = t;
	tr->flush = t;
}

static void flush_del(struct tr_qp *t)
{
	struct emu_transport *tr = t->qp->hca->tr;

	if (!t->flush_listed)
		return;
	t->flush_listed = false;
	if (t->flush_prev)
		t->flush_prev->flush_next = t->flush_next;
	else
		tr->flush = t->flush_next;
	if (t->flush_next)
		t->flush_next->flush_prev = t->flush_prev;
	else
		tr->flush_last = t->flush_prev;
}

/* Those that waited longest, a bounded number. True if there was something. */
static bool flush_some(struct emu_transport *tr)
{
	struct tr_qp *t = tr->flush_last, *next;
	bool any = false;
	uint32_t n;

	for (n = 0; t && n < TR_RUN_FLUSH; n++, t = next) {
		next = t->flush_prev;
		any |= resp_flush_rq(t);
		flush_del(t);
		flush_add(t);
	}
	return any;
}

/* --- a QP's part ------------------------------------------------------------------ */

int tr_qp_init(struct emu_qp *qp)
{
	struct tr_qp *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	if (tr_timers_reserve(&qp->hca->tr->timers, TIMERS_PER_QP)) {
		free(t);
		return -ENOMEM;
	}
	t->qp = qp;
	qp->tr.priv = t;
	tr_timer_init(&t->req.ack_timer, comp_timeout);
	tr_timer_init(&t->req.wait_timer, req_wait_done);
	tr_timer_init(&t->resp.timer, resp_timer);
	t->resp.held_tail = &t->resp.held;
	t->req.fault.wake = req_fault_over;
	t->resp.fault.wake = resp_fault_over;
	t->resp.read_fault.wake = resp_read_fault_over;
	return 0;
}

/* What the requester's next step waits for */
static enum trace_wait sq_waits(const struct tr_qp *t)
{
	const struct tr_req *req = &t->req;
	const enum trace_wait all_sent =
	    req->head != req->tail ? TRACE_WAIT_ACK : TRACE_WAIT_NONE;
	const struct tr_wqe *w;

	/* what was sent again after an RNR NAK waits for the same as before, until it is answered */
	if (req->rnr_naks && req->head != req->tail)
		return TRACE_WAIT_RNR;
	if (req->state == REQ_RUN && req->cur == req->tail)
		return all_sent;
	if (req->state == REQ_OFF)
		return t->qp->seen->qp.sq.posted ? TRACE_WAIT_STATE : TRACE_WAIT_NONE;
	if (req->state == REQ_MEM)
		return TRACE_WAIT_FAULT;
	if (req->cur == req->tail)
		return all_sent;
	w = req_wqe(req, req->cur);
	if (w->fence && req->cur_psn == 0 && req->rd_out)
		return TRACE_WAIT_FENCE;
	if (wqe_nonposted(w) && req->rd_out >= t->qp->attr.max_rd_atomic)
		return TRACE_WAIT_CREDIT;
	return all_sent;
}

static enum trace_wait rq_waits(const struct tr_qp *t)
{
	if (t->resp.state == RESP_HELD || t->resp.waiting)
		return TRACE_WAIT_FAULT;
	return t->resp.state == RESP_RNR ? TRACE_WAIT_RNR : TRACE_WAIT_NONE;
}

static void show_wait(struct trace_queue *q, enum trace_wait wait, uint64_t now)
{
	if (q->wait == wait)
		return;
	/* for something else, but not for the first time */
	if (q->wait == TRACE_WAIT_NONE || wait == TRACE_WAIT_NONE)
		q->since = now;
	q->wait = (uint8_t)wait;
}

/*
 * The request at the head; when another has come there, or something was acknowledged (@moved),
 * it waits since now.
 */
static void show_head(const struct tr_req *req, struct trace_queue *q, bool moved,
		      uint64_t now)
{
	const struct tr_wqe *w = req_wqe(req, req->head);

	if (moved || q->wr_id != w->wr_id || q->opcode != w->opcode)
		q->since = now;
	q->wr_id = w->wr_id;
	q->opcode = w->opcode;
}

static void show_sq(struct tr_qp *t, struct trace_qp *s)
{
	const struct tr_req *req = &t->req;
	uint64_t now = t->qp->hca->now;
	bool moved = s->una != req->una;

	s->una = req->una;
	s->next_psn = req->next_psn;
	s->max_psn = req->max_psn;
	s->retry_left = req->retry_left;
	s->rnr_left = req->rnr_left;
	s->rnr_naks = req->rnr_naks;
	s->timeouts = req->timeouts;
	s->sq.posted = ring_count_from(&t->qp->sq, t->qp->sq.local);
	s->sq.taken = req->tail - req->head;
	if (s->sq.taken)
		show_head(req, &s->sq, moved, now);
	show_wait(&s->sq, sq_waits(t), now);
}

/* Show where the QP's queues are, and what they wait for; after something has changed */
static void tr_show(struct tr_qp *t)
{
	struct trace_qp *s = &t->qp->seen->qp;

	if (t->qp->sq.buf)
		show_sq(t, s);
	s->epsn = t->resp.epsn;
	show_wait(&s->rq, rq_waits(t), t->qp->hca->now);
	if (t->resp.rwqe_held && t->resp.rwqe)
		s->rq.wr_id = t->resp.rwqe->wr_id;
}

void tr_qp_fini(struct emu_qp *qp)
{
	struct tr_timers *timers = &qp->hca->tr->timers;
	struct tr_qp *t = tr_of(qp);

	tr_show_in(qp->hca);
	tr_qp_reset(qp);
	tr_timer_remove(timers, &t->req.ack_timer);
	tr_timer_remove(timers, &t->req.wait_timer);
	tr_timer_remove(timers, &t->resp.timer);
	tr_timers_release(timers, TIMERS_PER_QP);
	free(t);
	qp->tr.priv = NULL;
}

void tr_qp_reset(struct emu_qp *qp)
{
	struct tr_qp *t = tr_of(qp);

	ready_del(qp->hca->tr, t);
	flush_del(t);
	req_reset(t);
	resp_reset(t);
	tr_show(t);
}

void tr_qp_to_rtr(struct emu_qp *qp)
{
	resp_start(tr_of(qp));
}

void tr_qp_to_rts(struct emu_qp *qp)
{
	/* the consumer of an XRC_RECV QP cannot send */
	if (qp->type != IBV_QPT_XRC_RECV)
		req_start(tr_of(qp));
}

void tr_qp_to_sqd(struct emu_qp *qp)
{
	req_sqd(tr_of(qp));
}

void tr_qp_to_error(struct emu_qp *qp)
{
	struct tr_qp *t = tr_of(qp);

	ready_del(qp->hca->tr, t);
	if (qp->sq.buf)
		comp_flush(t);
	resp_flush(t);
	flush_add(t);
	tr_show(t);
}

void tr_qp_attr_changed(struct emu_qp *qp)
{
	struct tr_qp *t = tr_of(qp);

	if (t->req.state != REQ_RUN)
		return;
	t->req.retry_left = qp->attr.retry_cnt;
	t->req.rnr_left = qp->attr.rnr_retry;
	req_arm_ack_timer(t);
	tr_sched(t);
}

/* Apart from what is done for each packet, which is shorter without it */
#define RARE __attribute__((noinline, cold))

/* What is in the send ring since the doorbell before */
static RARE void record_posts(struct tr_qp *t)
{
	struct emu_qp *qp = t->qp;
	uint32_t n = ring_count_from(&qp->sq, t->posted);

	for (; n; n--) {
		struct tr_wqe w;

		wqe_decode(qp, t->posted, &w);
		EMU_TRACE(qp->hca, post_send, .wr_id = w.wr_id, .qpn = qp->qpn,
			  .opcode = w.opcode,
			  .flags = (uint8_t)((w.fence ? IBV_SEND_FENCE : 0) |
					     (w.signaled ? IBV_SEND_SIGNALED : 0) |
					     (w.solicited ? IBV_SEND_SOLICITED : 0) |
					     (w.is_inline ? IBV_SEND_INLINE : 0)),
			  .num_sge = w.num_sge, .va = w.va, .rkey = w.rkey,
			  .length = w.length, .number = t->posted);
		t->posted = (t->posted + 1) & ring_mask(&qp->sq);
	}
}

void tr_qp_doorbell(struct emu_qp *qp)
{
	struct tr_qp *t = tr_of(qp);
	struct trace_queue *seen = &qp->seen->qp.sq;
	uint32_t n = qp->sq.buf ? ring_count_from(&qp->sq, qp->sq.local) : 0;

	if (n > seen->most)
		seen->most = n < UINT16_MAX ? (uint16_t)n : UINT16_MAX;
	if (recorder_wants(qp->hca->cfg.recorder, TRACE_KIND_post_send))
		record_posts(t);
	else
		t->posted = ring_producer(&qp->sq);
	if (t->req.state != REQ_OFF)
		tr_sched(t);
	else if ((qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE) && qp->sq.buf)
		comp_flush(t);
}

void tr_qp_query_psn(const struct emu_qp *qp, uint32_t *sq_psn, uint32_t *rq_psn)
{
	const struct tr_qp *t = tr_of(qp);

	*sq_psn = t->req.primed ? t->req.next_psn : qp->attr.sq_psn;
	*rq_psn = t->resp.state != RESP_OFF ? t->resp.epsn : qp->attr.rq_psn;
}

/* --- sending ---------------------------------------------------------------------- */

static uint8_t transport_bits(const struct emu_qp *qp)
{
	switch (qp->type) {
	case IBV_QPT_UC:
		return ROCE_UC;
	case IBV_QPT_UD:
		return ROCE_UD;
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return ROCE_XRC;
	default:
		return ROCE_RC;
	}
}

void tr_hdr(const struct emu_qp *qp, struct roce_hdr *h, uint8_t op)
{
	memset(h, 0, sizeof(*h));
	h->opcode = transport_bits(qp) | op;
	/* 17.2.8: that the peer is to use this path, too; there is no other */
	h->mig = qp->attr.path_mig_state == IBV_MIG_MIGRATED;
	h->pkey = ROCE_PKEY_DEFAULT;
	h->dqpn = qp->attr.dest_qp_num & ROCE_QPN_MASK;
}

uint8_t *tr_tx_open(struct emu_hca *hca, const struct net_path *path, struct roce_hdr *h,
		    uint32_t len, uint32_t *total)
{
	uint32_t hdr_len;
	uint8_t *p;

	roce_opcode_info(h->opcode, &hdr_len);
	h->pad = (0 - len) & 3;
	*total = hdr_len + len + h->pad;
	p = emu_tx_get(hca, path, h->dqpn, *total);
	if (!p)
		return NULL;
	roce_build(p, h);
	for (uint8_t i = 0; i < h->pad; i++)
		p[hdr_len + len + i] = 0;
	return p + hdr_len;
}

static void show_packet(struct trace_packet *p, uint64_t now, const struct roce_hdr *h,
			enum trace_why why)
{
	p->time = now;
	p->psn = h->psn;
	p->opcode = h->opcode;
	p->syndrome = h->syndrome;
	p->why = (uint8_t)why;
	p->count++;
}

/* Of a datagram, each packet says whom it goes to, or who sent it. */
static uint32_t peer_of(const struct emu_qp *qp, uint32_t by_packet)
{
	return qp->attr.dest_qp_num ? qp->attr.dest_qp_num : by_packet;
}

#define PACKET(qp_, h_, len_, why_, by_packet_)                                          \
	.qpn = (qp_)->qpn, .peer = peer_of(qp_, by_packet_), .psn = (h_)->psn,           \
	.opcode = (h_)->opcode, .why = (uint8_t)(why_), .syndrome = (h_)->syndrome,      \
	.ack_req = (h_)->ack_req, .length = (len_), .msn = (h_)->msn, .va = (h_)->va,    \
	.rkey = (h_)->rkey, .dma_length = (h_)->dma_len

static bool is_nak(const struct roce_hdr *h)
{
	return (h->opcode & ROCE_OP_MASK) == ROCE_ACK &&
	       (h->syndrome & ROCE_AETH_TYPE_MASK) != ROCE_AETH_ACK;
}

static bool is_usual(enum trace_why why)
{
	return why == TRACE_WHY_FIRST || why == TRACE_WHY_RESPONSE ||
	       why == TRACE_WHY_ACK;
}

static RARE void record_tx(struct emu_qp *qp, const struct roce_hdr *h, uint32_t len,
			   enum trace_why why)
{
	struct emu_hca *hca = qp->hca;

	if (is_nak(h))
		EMU_TRACE(hca, nak_out, PACKET(qp, h, len, why, h->dqpn));
	else if (is_usual(why))
		EMU_TRACE(hca, packet_out, PACKET(qp, h, len, why, h->dqpn));
	else
		EMU_TRACE(hca, packet_again, PACKET(qp, h, len, why, h->dqpn));
}

/* A trace of all kinds has the packet, and a usual one if it is a rare one. */
void tr_tx_close(struct emu_qp *qp, const struct roce_hdr *h, uint32_t len,
		 uint32_t total, enum trace_why why)
{
	struct emu_hca *hca = qp->hca;

	emu_tx_put(hca, total + ROCE_ICRC_LEN);
	show_packet(&qp->seen->qp.out, hca->now, h, why);
	if (hca->tr->traced || is_nak(h) || !is_usual(why))
		record_tx(qp, h, len, why);
}

void tr_tx_close_data(struct tr_qp *t, uint32_t len, uint32_t total, enum trace_why why)
{
	struct emu_hca *hca = t->qp->hca;
	struct tr_req *req = &t->req;

	emu_tx_put(hca, total + ROCE_ICRC_LEN);
	req->unshown++;
	req->last_psn = req->hdr.psn;
	req->last_op = req->hdr.opcode;
	req->last_why = (uint8_t)why;
	if (hca->tr->traced || why != TRACE_WHY_FIRST)
		record_tx(t->qp, &req->hdr, len, why);
}

/* What tr_tx_close_data() has sent in this turn */
static void show_data(struct tr_qp *t)
{
	struct trace_packet *p = &t->qp->seen->qp.out;
	struct tr_req *req = &t->req;

	if (!req->unshown)
		return;
	*p = (struct trace_packet){.time = t->qp->hca->now,
				   .psn = req->last_psn,
				   .opcode = req->last_op,
				   .why = req->last_why,
				   .count = p->count + req->unshown};
	req->unshown = 0;
}

static RARE void record_rx(struct emu_qp *qp, const struct roce_hdr *h, uint32_t len)
{
	if (is_nak(h))
		EMU_TRACE(qp->hca, nak_in, PACKET(qp, h, len, 0, h->sqpn));
	else
		EMU_TRACE(qp->hca, packet_in, PACKET(qp, h, len, 0, h->sqpn));
}

void tr_dropped(struct emu_hca *hca, const struct emu_qp *qp, const struct net_rx *pkt,
		const struct roce_hdr *h, enum trace_drop why)
{
	struct trace_ip from;

	memcpy(from.b, pkt->path->src.b, sizeof(from.b));
	EMU_TRACE(hca, drop, .qpn = qp ? qp->qpn : h->dqpn, .psn = h->psn, .from = from,
		  .opcode = h->opcode, .why = (uint8_t)why, .length = pkt->len);
	if (qp)
		diagnose_drop(qp, pkt, h, why);
}

/*
 * One turn: up to TR_BURST packets. What ended it. The acknowledge comes last: being
 * short it may share a UDP_SEGMENT batch with the requests before it.
 */
static enum tr_step turn(struct tr_qp *t, uint32_t *budget)
{
	uint32_t burst = *budget < TR_BURST ? *budget : TR_BURST, left = burst;
	enum tr_step step, ack;

	step = res_run(t, &left);
	if (step == TR_IDLE) {
		step = req_run(t, &left);
		show_data(t);
	}
	*budget -= burst - left;
	if (step == TR_FULL)
		return step;
	ack = resp_ack(t);
	return ack == TR_FULL ? ack : step;
}

bool tr_run(struct emu_hca *hca)
{
	struct emu_transport *tr = hca->tr;
	uint32_t budget = TR_RUN_BUDGET, turns = TR_RUN_BUDGET;
	bool more = tr_timers_run(&tr->timers, hca->now, TR_RUN_TIMERS);
	enum tr_step step;
	struct tr_qp *t;

	tr_show_in(hca);
	tr->traced = recorder_wants(hca->cfg.recorder, TRACE_KIND_packet_out);
	more |= flush_some(tr);
	while (budget && turns-- && (t = tr->ready)) {
		/* so that what happens meanwhile can put it back */
		ready_del(tr, t);
		step = turn(t, &budget);
		if (step == TR_SENT) {
			tr_sched(t);
			continue;
		}
		tr_show(t);
		if (step == TR_FULL) {
			tr_sched(t);
			tr->ready = tr->ready->prev;
			return true;
		}
	}
	return more || tr->ready;
}

uint64_t tr_deadline(const struct emu_hca *hca)
{
	return hca->tr->ready ? hca->now : tr_timers_next(&hca->tr->timers);
}

bool tr_timer_due(const struct emu_hca *hca)
{
	return tr_timers_next(&hca->tr->timers) <= hca->now;
}

/* --- receiving -------------------------------------------------------------------- */

/* May a packet of this transport come to such a QP? */
static bool transport_fits(const struct emu_qp *qp, uint8_t opcode)
{
	return (opcode & ROCE_TRANSPORT_MASK) == transport_bits(qp);
}

/* 9.6.1.1.3: the lower 15 bits must match an entry of the table; ours is a full member */
static bool pkey_right(uint16_t pkey)
{
	return (pkey & 0x7fff) == (ROCE_PKEY_DEFAULT & 0x7fff);
}

/* 9.6.1.5: a connected QP hears its peer only */
static bool from_peer(const struct emu_qp *qp, const struct net_path *path)
{
	return qp->type == IBV_QPT_UD || (net_ip_eq(&path->src, &qp->path.dst) &&
					  net_ip_eq(&path->dst, &qp->path.src));
}

static bool well_formed(struct tr_incoming *in)
{
	if (roce_parse(in->pkt->data, in->pkt->len, &in->h, &in->payload, &in->len))
		return false;
	in->info = roce_opcode_info(in->h.opcode, NULL);
	/* 9.6.1.2: version; pad to a multiple of four; payload only where it may be */
	return in->h.tver == 0 && ((in->len + in->h.pad) & 3) == 0 &&
	       ((in->info & ROCE_F_PAYLOAD) || !(in->len + in->h.pad));
}

void tr_show_in(struct emu_hca *hca)
{
	struct emu_transport *tr = hca->tr;
	struct trace_packet *p;

	if (!tr->last_in)
		return;
	p = &tr->in_qp->seen->qp.in;
	p->count += tr->unshown - 1;
	show_packet(p, hca->now, &tr->last_in->h, TRACE_WHY_FIRST);
	tr->last_in = NULL;
	tr->in_qp = NULL;
	tr->unshown = 0;
}

/* The recorder is told of the last packet of those that come one after the other for a QP. */
static void note_in(struct emu_qp *qp, struct tr_incoming *in)
{
	struct emu_transport *tr = qp->hca->tr;

	if (tr->in_qp != qp) {
		tr_show_in(qp->hca);
		tr->in_qp = qp;
	}
	tr->last_in = in;
	tr->unshown++;
}

static void deliver(struct emu_qp *qp, struct tr_incoming *in)
{
	struct tr_qp *t = tr_of(qp);

	note_in(qp, in);
	if (recorder_wants(qp->hca->cfg.recorder, TRACE_KIND_packet_in) || is_nak(&in->h))
		record_rx(qp, &in->h, in->len);
	if (in->info & ROCE_F_REQ)
		resp_rx(t, in->pkt, &in->h, in->info, in->payload, in->len);
	else if ((in->info & ROCE_F_RESP) && tr_reliable(qp))
		comp_rx(t, &in->h, in->info, in->payload, in->len);
}

static void deliver_mcast(void *arg, struct emu_qp *qp)
{
	if (qp->type == IBV_QPT_UD)
		deliver(qp, arg);
}

/* @qp: the one that the packet names, if that is known already; else NULL */
static void rx(struct emu_hca *hca, const struct net_rx *pkt, struct emu_qp *qp)
{
	struct tr_incoming *in = &hca->tr->in[hca->tr->last_in == &hca->tr->in[0]];

	in->pkt = pkt;
	hca->counter[EMU_CNT_RCVD_PKTS]++;
	hca->counter[EMU_CNT_RCVD_BYTES] += pkt->len + ROCE_ICRC_LEN;
	if (!hca->port_up) {
		in->h = (struct roce_hdr){0};
		tr_dropped(hca, NULL, pkt, &in->h, TRACE_DROP_PORT_DOWN);
		return;
	}
	if (!well_formed(in)) {
		hca->counter[EMU_CNT_RX_MALFORMED]++;
		tr_dropped(hca, NULL, pkt, &in->h, TRACE_DROP_MALFORMED);
		return;
	}
	if (!pkey_right(in->h.pkey)) {
		hca->counter[EMU_CNT_RX_BAD_PKEY]++;
		tr_dropped(hca, NULL, pkt, &in->h, TRACE_DROP_PKEY);
		return;
	}
	if (in->h.dqpn == ROCE_QPN_MULTICAST && (in->info & ROCE_F_DETH)) {
		emu_mcast_each(hca, &pkt->path->dst, deliver_mcast, in);
		return;
	}
	if (in->h.dqpn == ROCE_QPN_GSI) {
		ud_gsi_rx(hca, pkt, &in->h, in->info, in->payload, in->len);
		return;
	}
	if (!qp)
		qp = emu_hca_qp(hca, in->h.dqpn);
	if (!qp || !transport_fits(qp, in->h.opcode) || !from_peer(qp, pkt->path)) {
		hca->counter[EMU_CNT_RX_BAD_QPN]++;
		/* before RTR no peer is known */
		if (qp && qp->state < IBV_QPS_RTR)
			diagnose_drop(qp, pkt, &in->h, TRACE_DROP_QP_STATE);
		tr_dropped(hca, NULL, pkt, &in->h,
			   !qp				       ? TRACE_DROP_NO_QP
			   : !transport_fits(qp, in->h.opcode) ? TRACE_DROP_TRANSPORT
							       : TRACE_DROP_NOT_PEER);
		return;
	}
	deliver(qp, in);
}

void emu_hca_rx(struct emu_hca *hca, const struct net_rx *pkt)
{
	rx(hca, pkt, NULL);
}

void emu_qp_rx(struct emu_qp *qp, const struct net_rx *pkt)
{
	rx(qp->hca, pkt, qp);
}

/* --- RNR timer -------------------------------------------------------------------- */

/* IBTA table 46, in microseconds */
static const uint32_t rnr_us[32] = {
    655360, 10,	   20,	  30,	 40,	60,	80,	120,	160,	240,	320,
    480,    640,   960,	  1280,	 1920,	2560,	3840,	5120,	7680,	10240,	15360,
    20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
};

uint64_t tr_rnr_ns(uint8_t code)
{
	return rnr_us[code & 0x1f] * 1000ull;
}

uint8_t tr_rnr_code(uint64_t ns)
{
	uint8_t code;

	for (code = 1; code < 32; code++)
		if (tr_rnr_ns(code) >= ns)
			return code;
	return 0;
}
