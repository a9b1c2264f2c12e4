/*
 * sim_peer.c - a scenario with a peer that sends any packet at any time.
 *
 * The victim is an RC QP (and a UD QP beside it) whose requests never reach an HCA: they are
 * looked at, and what comes back is drawn. Much of it is what a good peer would send, so that
 * the victim gets far; the rest is wrong in one way: the PSN (before, at, behind what is
 * outstanding, never sent), the kind of response, its length, its syndrome, an opcode that is
 * reserved or of another transport, the P_Key, the Q_Key, the QPN, the address. Requests come
 * from there, too. Beside the victim ordinary pairs go on, and must not notice.
 *
 * After each packet the model (sim_peer_model.c) says what the victim must be like.
 */
#include <errno.h>
#include <string.h>

#include "sim_kinds.h"
#include "sim_peer.h"

static struct sim_peer peer; /* one world at a time */

/* struct forged - one packet; @junk: the victim must not take it for its peer's */
struct forged {
	struct roce_hdr h;
	struct net_path path;
	uint8_t payload[SIM_PKT_MAX];
	uint32_t len;
	bool junk;
};

static bool evil(struct sim_peer *p)
{
	return sim_chance(&p->w->rng, p->evil);
}

/* --- handing it over -------------------------------------------------------------- */

/* What no receiver may take for its peer's (9.6.1), and what changes nothing */
static void disguise(struct sim_peer *p, struct forged *f)
{
	struct sim_rng *r = &p->w->rng;

	f->h.mig = sim_chance(r, 500);
	f->h.fecn = sim_chance(r, 200);
	f->h.becn = sim_chance(r, 200);
	if (sim_chance(r, 100))
		f->h.pkey = 0x7fff; /* the peer is a limited member: that is fine */
	if (!evil(p) || !sim_chance(r, 400))
		return;
	f->junk = true;
	switch (sim_below(r, 6)) {
	case 0:
		f->path.src.b[15] ^= 0x20;
		break;
	case 1:
		f->path.dst.b[15] ^= 0x20;
		break;
	case 2:
		f->h.pkey = (uint16_t)(0x8000 | sim_below(r, 0x7fff));
		break;
	case 3:
		f->h.tver = 1;
		break;
	case 4:
		f->h.dqpn ^= 0x400000;
		break;
	default: /* the same operation of another transport */
		f->h.opcode ^= sim_chance(r, 500) ? ROCE_UC : ROCE_XRC;
		break;
	}
}

static void hand_over(struct sim_peer *p, struct forged *f)
{
	static uint8_t data[SIM_PKT_MAX + ROCE_HDR_MAX];
	struct sim_host *h = p->q->host;
	struct net_rx rx = {.path = &f->path, .data = data};
	uint32_t n;

	f->h.pad = (uint8_t)((4 - f->len % 4) % 4);
	n = roce_build(data, &f->h);
	memcpy(data + n, f->payload, f->len);
	memset(data + n + f->len, 0, f->h.pad);
	rx.len = n + f->len + f->h.pad;
	if (sim_tracing(p->w))
		sim_trace(p->w,
			  "peer -> h%u  %s qp %#x psn %06x syndrome %02x %u bytes%s",
			  h->id, sim_op_name(f->h.opcode), f->h.dqpn, f->h.psn,
			  f->h.syndrome, f->len, f->junk ? " (not from the peer)" : "");
	h->arrived++;
	emu_hca_rx(h->hca, &rx);
	sim_host_work(h);
	peer_model_check(p);
}

static void start_forging(struct sim_peer *p, struct forged *f, uint32_t qpn)
{
	f->h = (struct roce_hdr){.pkey = ROCE_PKEY_DEFAULT, .dqpn = qpn};
	f->path = (struct net_path){.src = p->q->peer->host->ip,
				    .dst = p->q->host->ip,
				    .sport = 0xc123,
				    .ttl = 64};
	f->len = 0;
	f->junk = false;
	/* timers that are due come first, as the model has it */
	sim_host_work(p->q->host);
}

/* --- responses -------------------------------------------------------------------- */

static uint32_t draw_psn(struct sim_peer *p)
{
	struct sim_rng *r = &p->w->rng;

	if (!evil(p) || sim_chance(r, 300))
		return p->una;
	switch (sim_below(r, 4)) {
	case 0:
		return roce_psn_add(p->una, ROCE_PSN_MASK - sim_below(r, 4));
	case 1: /* never sent, or just so */
		return roce_psn_add(p->max, sim_below(r, 3) + ROCE_PSN_MASK);
	case 2:
		return (p->una + (1u << 23) + sim_below(r, 3) - 1) & ROCE_PSN_MASK;
	default:
		return roce_psn_add(p->una, sim_below(r, 12));
	}
}

/* As a good peer would answer the operation @i */
static void right_response(struct sim_peer *p, struct forged *f, uint32_t i)
{
	uint32_t opcode = p->q->op[i].opcode;
	bool first = f->h.psn == p->first[i], last = peer_ends_here(p, i, f->h.psn);

	f->h.opcode = ROCE_ACK;
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		f->h.opcode = ROCE_ATOMIC_ACK;
	else if (peer_nonposted(opcode) && last)
		f->h.opcode = first ? ROCE_READ_RESP_ONLY : ROCE_READ_RESP_LAST;
	else if (peer_nonposted(opcode))
		f->h.opcode = first ? ROCE_READ_RESP_FIRST : ROCE_READ_RESP_MIDDLE;
	f->len = peer_response_len(p, i, f->h.psn);
}

static uint8_t draw_syndrome(struct sim_rng *r)
{
	static const uint8_t type[] = {0x00, 0x20, 0x20, 0x40, 0x60, 0x60, 0x80};

	if (sim_chance(r, 100))
		return (uint8_t)sim_rand(r);
	return (uint8_t)(type[sim_below(r, 7)] | sim_below(r, 6));
}

static void spoil_response(struct sim_peer *p, struct forged *f)
{
	static const uint8_t ops[] = {ROCE_ACK,
				      ROCE_ACK,
				      ROCE_ACK,
				      ROCE_ATOMIC_ACK,
				      ROCE_READ_RESP_ONLY,
				      ROCE_READ_RESP_FIRST,
				      ROCE_READ_RESP_LAST,
				      ROCE_READ_RESP_MIDDLE};
	struct sim_rng *r = &p->w->rng;

	switch (sim_below(r, 4)) {
	case 0:
		f->h.opcode = ops[sim_below(r, 8)];
		break;
	case 1:
		f->h.syndrome = draw_syndrome(r);
		break;
	case 2:
		f->h.opcode = ROCE_ACK;
		f->h.syndrome = draw_syndrome(r);
		break;
	default:
		if (sim_chance(r, 300))
			f->len = 0;
		else if (sim_chance(r, 500))
			f->len = p->q->mtu - sim_below(r, 2);
		else
			f->len += sim_range(r, 1, 5);
		break;
	}
	if (!(roce_opcode_info(f->h.opcode, NULL) & ROCE_F_PAYLOAD))
		f->len = 0;
}

static void respond(struct sim_world *w, void *arg, uint64_t val)
{
	static struct forged f;
	struct sim_peer *p = arg;
	uint32_t i;

	start_forging(p, &f, p->q->qpn);
	f.h.psn = draw_psn(p);
	i = peer_op_at(p, f.h.psn);
	f.h.opcode = ROCE_ACK;
	f.h.syndrome = ROCE_AETH_CREDIT_INVALID;
	f.h.orig = sim_rand(&w->rng);
	if (i < SIM_OPS)
		right_response(p, &f, i);
	if (evil(p))
		spoil_response(p, &f);
	for (uint32_t k = 0; k < f.len; k++)
		f.payload[k] = (uint8_t)sim_rand(&w->rng);
	disguise(p, &f);
	if (!f.junk)
		peer_model_response(p, &f.h, roce_opcode_info(f.h.opcode, NULL),
				    f.payload, f.len);
	hand_over(p, &f);
}

/* --- requests --------------------------------------------------------------------- */

/* Memory that the peer may use, or may not */
static void draw_target(struct sim_peer *p, struct forged *f, uint32_t len)
{
	static const uint8_t forbidden[] = {SIM_MR_LOCAL, SIM_MR_RDONLY, SIM_MR_PD2,
					    SIM_MR_RREAD, SIM_MR_RWRITE};
	struct sim_rng *r = &p->w->rng;
	struct sim_host *h = p->q->host;
	enum sim_arena_kind a = sim_chance(r, 500) ? SIM_PINNED : SIM_ONDEMAND;
	uint32_t room = len < PEER_AREA ? PEER_AREA - len : 0;
	uint32_t off = p->area[a] + sim_below(r, room + 1);
	struct sim_mr *mr = gen_mr(h, a);

	f->h.va = sim_addr(h, a, off & ~7u) + mr->delta;
	f->h.rkey = mr->rkey;
	if (!evil(p))
		return;
	switch (sim_below(r, 5)) {
	case 0:
		f->h.rkey ^= sim_chance(r, 500) ? 1 : 0x100;
		break;
	case 1: /* a byte beyond the end, or just before the beginning */
		mr = &h->mr[SIM_MR_PIN + sim_below(r, 2)];
		f->h.rkey = mr->rkey;
		f->h.va = sim_addr(h, SIM_PINNED, 0) + mr->delta;
		f->h.va += sim_chance(r, 500) ? SIM_ARENA_LEN - len + 1 : UINT64_MAX;
		break;
	case 2:
		mr = &h->mr[forbidden[sim_below(r, 5)]];
		f->h.rkey = mr->rkey;
		f->h.va = sim_addr(h, SIM_PINNED, p->area[SIM_PINNED]);
		break;
	case 3:
		f->h.va += sim_below(r, 8);
		break;
	default:
		f->h.dma_len += sim_below(r, 3) - 1;
		break;
	}
}

/* The next packet of the message that is open */
static void go_on(struct sim_peer *p, struct forged *f)
{
	bool send = p->msg == PEER_MSG_SEND;
	uint32_t left = p->resid;

	if (send)
		left = sim_below(&p->w->rng, 3) ? 2 * p->q->mtu : 5;
	f->len = left > p->q->mtu ? p->q->mtu : left;
	if (left > p->q->mtu)
		f->h.opcode = send ? ROCE_SEND_MIDDLE : ROCE_WRITE_MIDDLE;
	else if (sim_chance(&p->w->rng, 300))
		f->h.opcode = send ? ROCE_SEND_LAST_IMM : ROCE_WRITE_LAST_IMM;
	else
		f->h.opcode = send ? ROCE_SEND_LAST : ROCE_WRITE_LAST;
}

static void begin(struct sim_peer *p, struct forged *f)
{
	static const uint8_t ops[] = {
	    ROCE_SEND_ONLY,   ROCE_SEND_ONLY_IMM, ROCE_SEND_FIRST,    ROCE_WRITE_ONLY,
	    ROCE_WRITE_FIRST, ROCE_WRITE_FIRST,	  ROCE_READ_REQ,      ROCE_CMP_SWAP,
	    ROCE_FETCH_ADD,   ROCE_ATOMIC_WRITE,  ROCE_WRITE_ONLY_IMM};
	struct sim_rng *r = &p->w->rng;
	uint32_t mtu = p->q->mtu;

	f->h.opcode = ops[sim_below(r, 11)];
	switch (f->h.opcode) {
	case ROCE_SEND_FIRST:
	case ROCE_WRITE_FIRST:
		f->len = mtu;
		f->h.dma_len = mtu + sim_range(r, 1, 2 * mtu);
		break;
	case ROCE_READ_REQ:
		f->h.dma_len = gen_len(p->w, mtu, PEER_AREA);
		break;
	case ROCE_ATOMIC_WRITE:
		f->h.dma_len = f->len = 8;
		break;
	case ROCE_CMP_SWAP:
	case ROCE_FETCH_ADD:
		f->h.dma_len = 8;
		break;
	default:
		f->h.dma_len = f->len = gen_len(p->w, mtu, mtu);
		break;
	}
	draw_target(p, f, f->h.dma_len);
}

static void spoil_request(struct sim_peer *p, struct forged *f)
{
	static const uint8_t ops[] = {
	    ROCE_SEND_FIRST,  ROCE_SEND_MIDDLE,	 ROCE_SEND_LAST,  ROCE_SEND_ONLY,
	    ROCE_WRITE_FIRST, ROCE_WRITE_MIDDLE, ROCE_WRITE_LAST, ROCE_WRITE_ONLY,
	    ROCE_READ_REQ,    ROCE_FETCH_ADD};
	struct sim_rng *r = &p->w->rng;

	switch (sim_below(r, 4)) {
	case 0:
		f->h.opcode = ops[sim_below(r, 10)];
		break;
	case 1: /* an empty LAST, a short MIDDLE, one that is too long */
		f->len = sim_chance(r, 500) ? 0 : f->len + 2 - sim_below(r, 4);
		if (f->len > p->q->mtu + 2)
			f->len = p->q->mtu + 1;
		break;
	case 2:
		f->h.dma_len = sim_chance(r, 500) ? 0x80000000u + sim_below(r, 2)
						  : (uint32_t)sim_rand(r);
		/* all memory is in reach there: it would be read up to its end */
		if (f->h.rkey == p->q->host->mr[SIM_MR_IMPLICIT].rkey)
			f->h.rkey = p->q->host->mr[SIM_MR_ODP].rkey;
		break;
	default:
		f->h.psn = roce_psn_add(f->h.psn, sim_below(r, 9) + ROCE_PSN_MASK - 4);
		break;
	}
	if (!(roce_opcode_info(f->h.opcode, NULL) & ROCE_F_PAYLOAD))
		f->len = 0;
	if ((f->h.opcode & 0x1f) == ROCE_SEND_FIRST && p->msg == PEER_MSG_NONE)
		f->h.dma_len = 0;
}

/* A READ or atomic once more: as it was, from the middle on, or more than it was */
static bool ask_again(struct sim_peer *p, struct forged *f)
{
	struct sim_rng *r = &p->w->rng;
	struct sim_host *h = p->q->host;
	struct peer_answer *a;
	uint32_t k;

	if (!p->logged || !sim_chance(r, 150))
		return false;
	a = &p->log[(p->logged - 1 - sim_below(r, p->logged < 4 ? p->logged : 4)) %
		    PEER_LOG];
	if (a->opcode != ROCE_READ_REQ)
		return false;
	k = sim_below(r, a->npsn);
	f->h.opcode = ROCE_READ_REQ;
	f->h.psn = roce_psn_add(a->psn, k);
	f->h.va = sim_addr(h, a->arena, a->off) + k * p->q->mtu;
	f->h.rkey = h->mr[a->arena == SIM_PINNED ? SIM_MR_PIN : SIM_MR_ODP].rkey;
	f->h.dma_len = a->len - k * p->q->mtu;
	if (evil(p))
		f->h.dma_len += sim_range(r, 1, 2 * p->q->mtu);
	return true;
}

static void request(struct sim_world *w, void *arg, uint64_t val)
{
	static struct forged f;
	struct sim_peer *p = arg;
	uint32_t acks, info;
	bool send_write;

	start_forging(p, &f, p->q->qpn);
	f.h.psn = p->epsn;
	f.h.compare = f.h.swap_add = sim_below(&w->rng, 4);
	f.h.ack_req = sim_chance(&w->rng, 500);
	if (!ask_again(p, &f)) {
		if (p->msg == PEER_MSG_NONE)
			begin(p, &f);
		else
			go_on(p, &f);
		if (evil(p))
			spoil_request(p, &f);
	}
	for (uint32_t k = 0; k < f.len; k++)
		f.payload[k] = (uint8_t)sim_rand(&w->rng);
	disguise(p, &f);
	info = roce_opcode_info(f.h.opcode, NULL);
	acks = p->acks;
	if (!f.junk)
		peer_model_request(p, &f.h, info, f.payload, f.len);
	send_write = f.h.psn == roce_psn_add(p->epsn, ROCE_PSN_MASK) &&
		     (info & (ROCE_F_SEND | ROCE_F_WRITE)) && f.h.ack_req;
	hand_over(p, &f);
	if (send_write && !f.junk && !p->dead && !p->failed && p->acks == acks)
		sim_fail(w, "q%u: psn %06x asked for an acknowledge and got none",
			 p->q->id, f.h.psn);
}

/* --- datagrams -------------------------------------------------------------------- */

/* To the UD QP, to QP1, or to a QP that takes none */
static void datagram(struct sim_world *w, void *arg, uint64_t val)
{
	static struct forged f;
	struct sim_peer *p = arg;
	struct sim_rng *r = &w->rng;
	uint32_t where = sim_below(r, 4);
	bool to_gsi = where == 0, to_ud = where == 1;

	start_forging(p, &f, to_gsi ? ROCE_QPN_GSI : to_ud ? p->ud->qpn : p->q->qpn);
	if (where == 3)
		f.h.dqpn = 2 + sim_below(r, 9); /* a MAD for a QPN that nobody has */
	f.h.opcode = (uint8_t)(ROCE_UD | ROCE_SEND_ONLY);
	f.h.sqpn = 0x77;
	f.h.qkey = to_ud ? p->ud->qkey : ROCE_QKEY_GSI;
	f.len = to_ud ? sim_below(r, 300) : ROCE_MAD_LEN;
	if (evil(p)) {
		f.junk = true;
		switch (sim_below(r, 3)) {
		case 0:
			f.h.qkey ^= 1u << sim_below(r, 32);
			break;
		case 1:
			f.h.pkey ^= 1u << sim_below(r, 15);
			break;
		default:
			f.h.opcode = sim_chance(r, 500) ? ROCE_SEND_ONLY : ROCE_ACK;
			f.len = f.h.opcode == ROCE_ACK ? 0 : f.len;
			f.h.dqpn = to_gsi ? f.h.dqpn : p->ud->qpn;
			break;
		}
	}
	for (uint32_t k = 0; k < f.len; k++)
		f.payload[k] = (uint8_t)sim_rand(r);
	if (!f.junk && to_gsi)
		p->mads++;
	if (!f.junk && to_ud)
		peer_model_datagram(p, &f.h, f.payload, f.len);
	hand_over(p, &f);
}

/* --- hooks of the world ----------------------------------------------------------- */

/* What the victim sends: it goes no further, and calls for an answer now and then */
bool sim_peer_takes(struct sim_host *from, const uint8_t *data, uint32_t len)
{
	const uint8_t *payload;
	struct sim_peer *p = &peer;
	struct roce_hdr h = {
	    0}; /* of those that a packet does not have nothing is said */
	uint32_t plen, info;

	if (!p->q || from != p->q->host || roce_parse(data, len, &h, &payload, &plen) ||
	    h.dqpn != p->q->peer->qpn)
		return false;
	info = roce_opcode_info(h.opcode, NULL);
	if (sim_tracing(p->w))
		sim_trace(p->w, "h%u -> peer  %s psn %06x syndrome %02x %u bytes",
			  from->id, sim_op_name(h.opcode), h.psn, h.syndrome, plen);
	peer_model_sent(p, &h, info, payload, plen);
	if ((info & ROCE_F_REQ) && sim_chance(&p->w->rng, 700))
		sim_at(p->w, p->w->now + sim_below(&p->w->rng, 40 * US), respond, p, 0);
	return true;
}

void sim_peer_wc(struct sim_qp *q, const struct ib_uverbs_wc *wc)
{
	peer_model_wc(&peer, wc, (wc->wr_id >> 48) == SIM_TAG_RECV);
}

static bool peer_recvs(struct sim_qp *q, uint32_t n, uint32_t len)
{
	uint64_t tag = (uint64_t)SIM_TAG_RECV << 48 | (uint64_t)q->id << 32;

	for (; n; n--) {
		if (!gen_recv(q->host, &q->rq, tag, sim_below(&q->host->w->rng, len)))
			return false;
	}
	q->rq.credit = q->rq.n;
	sim_rq_push(&q->rq);
	return true;
}

static bool peer_victims(struct sim_world *w, struct sim_peer *p)
{
	struct sim_host *h = &w->host[0];
	struct sim_qp *q = &w->qp[w->nqps], *ud;

	if (!gen_pair(w, h, &w->host[1], IBV_QPT_RC, false) ||
	    !(ud = gen_qp(h, IBV_QPT_UD, false)))
		return false;
	q->foreign = q->peer->foreign = ud->foreign = true;
	q->may_flush = q->peer->may_flush = ud->may_flush = true;
	q->rnr_retry = (uint8_t)sim_below(&w->rng, 8);
	for (uint32_t a = 0; a < SIM_ARENAS; a++) {
		p->area[a] = sim_mem_alloc(h, (enum sim_arena_kind)a, PEER_AREA, 8);
		if (p->area[a] == SIM_ARENA_LEN)
			return false;
	}
	p->w = w;
	p->ud = ud;
	p->evil = sim_chance(&w->rng, 150) ? 0 : sim_below(&w->rng, 300);
	gen_ops(q, sim_range(&w->rng, 1, 20));
	peer_model_init(p, q);
	return peer_recvs(q, sim_below(&w->rng, 8), 3 * q->mtu) &&
	       peer_recvs(ud, sim_below(&w->rng, 8), 400);
}

static void peer_judge(struct sim_world *w, struct sim_peer *p)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	bool bad = p->failed || p->dead;

	if (w->failed)
		return;
	peer_model_check(p);
	emu_qp_query(p->q->qp, &attr, &init);
	if ((attr.qp_state == IBV_QPS_ERR) != bad)
		sim_fail(w, "q%u is in state %d, and %s", p->q->id, attr.qp_state,
			 bad ? "failed" : "nothing failed");
	if (!bad && p->done != p->q->n)
		sim_fail(w, "q%u: %u of %u operations are complete", p->q->id, p->done,
			 p->q->n);
	emu_qp_query(p->ud->qp, &attr, &init);
	if (attr.qp_state != IBV_QPS_RTS)
		sim_fail(w, "q%u: the datagrams of a stranger ended it", p->ud->id);
}

void sim_peer(struct sim_world *w)
{
	struct sim_peer *p = &peer;

	memset(p, 0, sizeof(*p));
	gen_net(w, true);
	w->net.tx_full = 0; /* answers come at once */
	gen_mem(w, false);
	if (!gen_hosts(w, 2) || !kind_pairs(w, IBV_QPT_RC, 2, false))
		return;
	kind_sends(w);
	if (!kind_recvs(w) || !peer_victims(w, p) || !gen_connect(w))
		return;
	kind_start(w, 500 * US);
	for (uint32_t n = sim_below(&w->rng, 60); n; n--)
		sim_at(w, w->now + sim_below(&w->rng, 3 * MS), respond, p, 0);
	for (uint32_t n = sim_below(&w->rng, 60); n; n--)
		sim_at(w, w->now + sim_below(&w->rng, 3 * MS), request, p, 0);
	for (uint32_t n = sim_below(&w->rng, 12); n; n--)
		sim_at(w, w->now + sim_below(&w->rng, 3 * MS), datagram, p, 0);
	kind_settle(w);
	peer_judge(w, p);
	p->over = true;
	kind_finish(w);
}
