/*
 * sim_peer_model.c - what each packet of a lawless peer must come to, see sim_peer.h.
 *
 * Responses (9.7.6): one for a PSN that is not outstanding is none. Else all SENDs and
 * WRITEs before it are done; a READ or atomic before it is not, and then it says nothing
 * more. At its own PSN it is judged: is it what this request is answered with, in kind,
 * length and place? What is not, ends the QP with BAD_RESP_ERR.
 *
 * Requests (9.7.4): one behind the expected PSN changes nothing, one before it is answered
 * again and not executed again. At the expected PSN it is executed, whole, or refused with
 * the NAK that 9.7.5.2 gives, and then nothing is written.
 *
 * The shadow of the memory gets what was accepted; sim_mem_check() compares all of it.
 */
#include <string.h>

#include "sim_peer.h"

/* --- the victim's requests -------------------------------------------------------- */

void peer_model_init(struct sim_peer *p, struct sim_qp *q)
{
	uint32_t psn = q->sq_psn;

	p->q = q;
	for (uint32_t i = 0; i < q->n; i++) {
		uint32_t len = q->op[i].opcode == SIM_WR_FLUSH ? 0 : q->op[i].len;

		p->first[i] = psn;
		p->npsn[i] = len ? (len + q->mtu - 1) / q->mtu : 1;
		psn = roce_psn_add(psn, p->npsn[i]);
	}
	p->una = p->max = q->sq_psn;
	p->epsn = q->rq_psn;
	p->ack_psn = roce_psn_add(q->rq_psn, ROCE_PSN_MASK);
	p->rnr_left = q->rnr_retry;
}

static uint32_t psn_from(uint32_t psn, uint32_t base)
{
	return (psn - base) & ROCE_PSN_MASK;
}

uint32_t peer_op_at(const struct sim_peer *p, uint32_t psn)
{
	for (uint32_t i = 0; i < p->q->n; i++) {
		if (psn_from(psn, p->first[i]) < p->npsn[i])
			return i;
	}
	return SIM_OPS;
}

bool peer_nonposted(uint32_t opcode)
{
	return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == SIM_WR_FLUSH ||
	       opcode == SIM_WR_ATOMIC_WRITE;
}

static bool is_atomic(uint32_t opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

uint32_t peer_response_len(const struct sim_peer *p, uint32_t i, uint32_t psn)
{
	const struct sim_op *op = &p->q->op[i];
	uint32_t pos = psn_from(psn, p->first[i]) * p->q->mtu;

	if (op->opcode != IBV_WR_RDMA_READ)
		return 0;
	return op->len - pos < p->q->mtu ? op->len - pos : p->q->mtu;
}

bool peer_ends_here(const struct sim_peer *p, uint32_t i, uint32_t psn)
{
	return psn_from(psn, p->first[i]) + 1 == p->npsn[i] ||
	       p->ends[psn_from(psn, p->q->sq_psn) % PEER_PSNS];
}

/* @una moves on; what is behind it is complete */
static void move(struct sim_peer *p, uint32_t n)
{
	if (!n)
		return;
	p->una = roce_psn_add(p->una, n);
	p->rnr_left = p->q->rnr_retry;
	while (p->done < p->q->n &&
	       psn_from(p->una, p->first[p->done]) >= p->npsn[p->done] &&
	       psn_from(p->una, p->first[p->done]) < ROCE_PSN_MASK / 2)
		p->done++;
}

static void fail(struct sim_peer *p, uint32_t status)
{
	p->failed = true;
	p->status = 1u << status;
}

/* Put response data where the SGEs say, from byte @pos on */
static void place(struct sim_peer *p, const struct sim_op *op, uint32_t pos,
		  const uint8_t *data, uint32_t len)
{
	for (uint32_t i = 0; i < op->nsge && len; i++) {
		const struct sim_sge *s = &op->sge[i];
		uint32_t off = pos < s->len ? pos : s->len, part = s->len - off;

		pos -= off;
		if (part > len)
			part = len;
		memcpy(p->q->host->arena[s->arena].shadow + s->off + off, data, part);
		data += part;
		len -= part;
	}
}

static void judge_ack(struct sim_peer *p, const struct roce_hdr *h, uint32_t i)
{
	static const uint8_t nak[] = {0, IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR,
				      IBV_WC_REM_OP_ERR};
	uint32_t low = h->syndrome & 0x1f;

	switch (h->syndrome & 0xe0) {
	case 0x00:
		if (!peer_nonposted(p->q->op[i].opcode))
			move(p, 1);
		break;
	case 0x20:
		if (p->w->now < p->rnr_until)
			break;
		if (p->q->rnr_retry != 7 && !p->rnr_left--)
			fail(p, IBV_WC_RNR_RETRY_EXC_ERR);
		p->rnr_until = p->w->now + sim_rnr_ns(h->syndrome & 0x1f);
		break;
	case 0x60:
		if (low)
			fail(p, low < 4 ? nak[low] : IBV_WC_BAD_RESP_ERR);
		break;
	default: /* reserved: nothing (9.7.5.2) */
		break;
	}
}

void peer_model_response(struct sim_peer *p, const struct roce_hdr *h, uint32_t info,
			 const uint8_t *data, uint32_t len)
{
	struct sim_op *op;
	uint32_t i, ahead;

	if (p->failed || p->dead || psn_from(h->psn, p->una) >= psn_from(p->max, p->una))
		return;
	while (p->una != h->psn) {
		i = peer_op_at(p, p->una);
		if (peer_nonposted(p->q->op[i].opcode))
			return;
		ahead = p->npsn[i] - psn_from(p->una, p->first[i]);
		if (ahead > psn_from(h->psn, p->una))
			ahead = psn_from(h->psn, p->una);
		move(p, ahead);
	}
	i = peer_op_at(p, p->una);
	op = &p->q->op[i];
	if (!(info & (ROCE_F_READ | ROCE_F_ATOMIC))) {
		judge_ack(p, h, i);
		return;
	}
	if (is_atomic(op->opcode) != !!(info & ROCE_F_ATOMIC) ||
	    !peer_nonposted(op->opcode) ||
	    ((info & ROCE_F_AETH) && (h->syndrome & 0xe0)) ||
	    ((info & ROCE_F_READ) &&
	     (len != peer_response_len(p, i, h->psn) ||
	      peer_ends_here(p, i, h->psn) != !!(info & ROCE_F_LAST)))) {
		fail(p, IBV_WC_BAD_RESP_ERR);
		return;
	}
	if (info & ROCE_F_ATOMIC)
		place(p, op, 0, (const uint8_t *)&h->orig, 8);
	else
		place(p, op, psn_from(h->psn, p->first[i]) * p->q->mtu, data, len);
	move(p, 1);
}

/* --- the peer's requests ---------------------------------------------------------- */

static void refuse(struct sim_peer *p, uint8_t nak, uint32_t psn)
{
	p->dead = true;
	p->nak = nak;
	p->nak_psn = psn;
}

/* May the peer use @rkey there? Where that is in memory */
static uint8_t *reach(struct sim_peer *p, uint32_t rkey, uint64_t va, uint32_t len,
		      int right, enum sim_arena_kind *arena, uint32_t *off)
{
	struct sim_host *h = p->q->host;

	for (uint32_t i = 0; i < SIM_MRS; i++) {
		struct sim_mr *mr = &h->mr[i];
		uint64_t at = va - mr->delta - sim_addr(h, mr->arena, 0);

		if (mr->rkey != rkey || i == SIM_MR_PD2 || !(mr->access & right) ||
		    at > SIM_ARENA_LEN || len > SIM_ARENA_LEN - at)
			continue;
		*arena = mr->arena;
		*off = (uint32_t)at;
		return h->arena[mr->arena].shadow + at;
	}
	return NULL;
}

static struct peer_answer *remember(struct sim_peer *p, const struct roce_hdr *h,
				    uint32_t npsn)
{
	struct peer_answer *a = &p->log[p->logged++ % PEER_LOG];

	*a = (struct peer_answer){
	    .psn = h->psn, .npsn = npsn, .opcode = h->opcode & 0x1f, .len = h->dma_len};
	return a;
}

/* A receive request is there, or is in use */
static bool take(struct sim_peer *p)
{
	if (!p->taken && p->recv == p->q->rq.next)
		return false;
	p->taken = true;
	return true;
}

static bool do_send(struct sim_peer *p, const struct roce_hdr *h, uint32_t info,
		    const uint8_t *data, uint32_t len)
{
	struct sim_recv *r = &p->q->rq.recv[p->recv];
	struct sim_op as = {.nsge = r->nsge};

	if ((info & ROCE_F_FIRST) && !take(p))
		return false;
	if (info & ROCE_F_FIRST)
		p->rlen = 0;
	if (len > r->len - p->rlen) {
		refuse(p, ROCE_NAK_INVALID_REQUEST, h->psn);
		return false;
	}
	memcpy(as.sge, r->sge, sizeof(as.sge));
	place(p, &as, p->rlen, data, len);
	p->rlen += len;
	if (info & ROCE_F_LAST) {
		p->taken = false;
		p->recv++;
	}
	return true;
}

static bool do_write(struct sim_peer *p, const struct roce_hdr *h, uint32_t info,
		     const uint8_t *data, uint32_t len)
{
	enum sim_arena_kind a;
	uint32_t off;
	uint8_t *at = NULL;

	if (info & ROCE_F_RETH) {
		p->va = h->va;
		p->rkey = h->rkey;
		p->resid = p->dma_len = h->dma_len;
	}
	if ((info & ROCE_F_LAST) ? len != p->resid : len >= p->resid) {
		refuse(p, ROCE_NAK_INVALID_REQUEST, h->psn);
		return false;
	}
	if ((info & ROCE_F_IMM) && !take(p))
		return false;
	if (len)
		at =
		    reach(p, p->rkey, p->va, p->resid, IBV_ACCESS_REMOTE_WRITE, &a, &off);
	if (len && !at) {
		refuse(p, ROCE_NAK_REMOTE_ACCESS, h->psn);
		return false;
	}
	if (len)
		memcpy(at, data, len);
	p->va += len;
	p->resid -= len;
	if (info & ROCE_F_IMM) {
		p->taken = false;
		p->recv++;
	}
	return true;
}

static bool do_atomic(struct sim_peer *p, const struct roce_hdr *h, const uint8_t *data,
		      uint32_t len)
{
	bool store = (h->opcode & 0x1f) == ROCE_ATOMIC_WRITE;
	int right = store ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_ATOMIC;
	enum sim_arena_kind a;
	uint64_t v, orig;
	uint32_t off;
	uint8_t *at;

	if ((h->va & 7) || (store && (len != 8 || h->dma_len != 8))) {
		refuse(p, ROCE_NAK_INVALID_REQUEST, h->psn);
		return false;
	}
	at = reach(p, h->rkey, h->va, 8, right, &a, &off);
	if (!at) {
		refuse(p, ROCE_NAK_REMOTE_ACCESS, h->psn);
		return false;
	}
	memcpy(&orig, at, 8);
	v = orig + h->swap_add;
	if (store)
		memcpy(&v, data, 8);
	else if ((h->opcode & 0x1f) == ROCE_CMP_SWAP)
		v = orig == h->compare ? h->swap_add : orig;
	memcpy(at, &v, 8);
	remember(p, h, 1)->orig = orig;
	return true;
}

static bool do_read(struct sim_peer *p, const struct roce_hdr *h, uint32_t npsn)
{
	enum sim_arena_kind a = SIM_PINNED;
	struct peer_answer *ans;
	uint32_t off = 0;

	if (h->dma_len &&
	    !reach(p, h->rkey, h->va, h->dma_len, IBV_ACCESS_REMOTE_READ, &a, &off)) {
		refuse(p, ROCE_NAK_REMOTE_ACCESS, h->psn);
		return false;
	}
	ans = remember(p, h, npsn);
	ans->arena = a;
	ans->off = off;
	return true;
}

static bool in_order(const struct sim_peer *p, uint32_t info)
{
	if (p->msg == PEER_MSG_NONE)
		return info & ROCE_F_FIRST;
	return !(info & ROCE_F_FIRST) &&
	       (info & (p->msg == PEER_MSG_SEND ? ROCE_F_SEND : ROCE_F_WRITE));
}

static bool length_right(const struct sim_peer *p, const struct roce_hdr *h,
			 uint32_t info, uint32_t len)
{
	if ((info & ROCE_F_RETH) && h->dma_len > 1u << 31)
		return false;
	if (!(info & ROCE_F_PAYLOAD))
		return true;
	if (!(info & ROCE_F_LAST))
		return len == p->q->mtu;
	return len <= p->q->mtu && (len || (info & ROCE_F_FIRST));
}

void peer_model_request(struct sim_peer *p, const struct roce_hdr *h, uint32_t info,
			const uint8_t *data, uint32_t len)
{
	uint32_t n = 1;
	bool done;

	if (p->dead || p->failed || h->psn != p->epsn)
		return;
	if (!in_order(p, info) || !length_right(p, h, info, len)) {
		refuse(p, ROCE_NAK_INVALID_REQUEST, h->psn);
		return;
	}
	if ((info & ROCE_F_READ) && h->dma_len)
		n = (h->dma_len - 1) / p->q->mtu + 1;
	if (info & ROCE_F_SEND)
		done = do_send(p, h, info, data, len);
	else if (info & ROCE_F_WRITE)
		done = do_write(p, h, info, data, len);
	else if (info & ROCE_F_READ)
		done = do_read(p, h, n);
	else
		done = do_atomic(p, h, data, len);
	if (!done)
		return;
	p->epsn = roce_psn_add(p->epsn, n);
	p->msg = PEER_MSG_NONE;
	if (!(info & ROCE_F_LAST))
		p->msg = (info & ROCE_F_SEND) ? PEER_MSG_SEND : PEER_MSG_WRITE;
}

/* Only one with the right Q_Key comes here. Too long a one leaves the receive in place. */
void peer_model_datagram(struct sim_peer *p, const struct roce_hdr *h,
			 const uint8_t *data, uint32_t len)
{
	struct sim_recv *r = &p->ud->rq.recv[p->ud_recv];
	struct sim_op as = {.nsge = r->nsge};

	if (p->ud_recv == p->ud->rq.next || len + 40 > r->len)
		return;
	memcpy(as.sge, r->sge, sizeof(as.sge));
	place(p, &as, 40, data, len);
	p->ud_recv++;
}

/* --- what the victim sends -------------------------------------------------------- */

/* The headers and the data of a request are those of its operation */
static void check_request(struct sim_peer *p, const struct roce_hdr *h, uint32_t info,
			  const uint8_t *data, uint32_t len)
{
	static uint8_t all[SIM_ARENA_LEN];
	uint32_t i = peer_op_at(p, h->psn), pos;
	const struct sim_op *op = &p->q->op[i];
	bool same = i < SIM_OPS;

	if (!same) {
		sim_fail(p->w, "q%u sent psn %06x, which is none of its own", p->q->id,
			 h->psn);
		return;
	}
	pos = psn_from(h->psn, p->first[i]) * p->q->mtu;
	if (info & (ROCE_F_RETH | ROCE_F_ATOMIC_ETH))
		same = h->va == op->va + pos && h->rkey == op->rkey;
	if ((info & ROCE_F_RETH) && !(info & ROCE_F_READ))
		same = same && h->dma_len == op->len;
	if (info & ROCE_F_READ)
		same = same && h->dma_len <= op->len - pos;
	if (info & ROCE_F_IMM)
		same = same && h->imm_be == op->ex;
	if (info & (ROCE_F_SEND | ROCE_F_WRITE)) {
		if (op->flags & IBV_SEND_INLINE)
			memcpy(all, op->inl, op->len);
		else
			sim_sge_gather(p->q->host, op->sge, op->nsge, all);
		same = same && pos + len <= op->len && !memcmp(all + pos, data, len);
	}
	if (!same)
		sim_fail(p->w, "q%u send %u: psn %06x is not of it (%s)", p->q->id, i,
			 h->psn, sim_op_name(h->opcode));
}

static void request_sent(struct sim_peer *p, const struct roce_hdr *h)
{
	uint32_t n = 1, end;

	if ((h->opcode & 0x1f) == ROCE_READ_REQ) {
		n = h->dma_len ? (h->dma_len - 1) / p->q->mtu + 1 : 1;
		p->ends[(psn_from(h->psn, p->q->sq_psn) + n - 1) % PEER_PSNS] = true;
	}
	end = roce_psn_add(h->psn, n);
	if (psn_from(end, p->q->sq_psn) > psn_from(p->max, p->q->sq_psn))
		p->max = end;
	if (p->w->now < p->rnr_until)
		sim_fail(p->w, "q%u sent psn %06x in the wait after an RNR NAK", p->q->id,
			 h->psn);
	if (p->failed || p->dead)
		sim_fail(p->w, "q%u sent psn %06x after it failed", p->q->id, h->psn);
}

/* An answer to a READ or atomic: to one that was executed, and the right one */
static void answer_sent(struct sim_peer *p, const struct roce_hdr *h, uint32_t info,
			const uint8_t *data, uint32_t len)
{
	for (uint32_t i = 0; i < p->logged && i < PEER_LOG; i++) {
		struct peer_answer *a = &p->log[(p->logged - 1 - i) % PEER_LOG];
		uint32_t k = psn_from(h->psn, a->psn), pos = k * p->q->mtu, want = 0;
		bool read = a->opcode == ROCE_READ_REQ;

		if (k >= a->npsn)
			continue;
		if (read)
			want = a->len - pos < p->q->mtu ? a->len - pos : p->q->mtu;
		if (len != want ||
		    (want &&
		     memcmp(data, p->q->host->arena[a->arena].shadow + a->off + pos,
			    len)) ||
		    ((info & ROCE_F_ATOMIC) && h->orig != a->orig))
			sim_fail(
			    p->w,
			    "q%u answers psn %06x with %u bytes, %u are due, or others",
			    p->q->id, h->psn, len, want);
		return;
	}
	sim_fail(p->w, "q%u answers psn %06x, where nothing was asked for", p->q->id,
		 h->psn);
}

static void ack_sent(struct sim_peer *p, const struct roce_hdr *h)
{
	uint8_t code = h->syndrome & 0x1f;

	if ((h->syndrome & 0xe0) == 0) {
		if (roce_psn_cmp(h->psn, roce_psn_add(p->epsn, ROCE_PSN_MASK)) > 0)
			sim_fail(p->w, "q%u acknowledges psn %06x, but %06x has not come",
				 p->q->id, h->psn, p->epsn);
		p->ack_psn = h->psn;
		p->acks++;
	} else if ((h->syndrome & 0xe0) == 0x60 && code) {
		if (!p->dead || code != p->nak || h->psn != p->nak_psn || p->nak_seen)
			sim_fail(p->w, "q%u refuses psn %06x with %u; due is %u",
				 p->q->id, h->psn, code, p->dead ? p->nak : 0);
		p->nak_seen = true;
	} else if (h->psn != p->epsn) {
		sim_fail(p->w, "q%u asks for psn %06x again; expected is %06x", p->q->id,
			 h->psn, p->epsn);
	}
}

void peer_model_sent(struct sim_peer *p, const struct roce_hdr *h, uint32_t info,
		     const uint8_t *data, uint32_t len)
{
	if (info & ROCE_F_REQ) {
		check_request(p, h, info, data, len);
		request_sent(p, h);
	} else if (info & (ROCE_F_READ | ROCE_F_ATOMIC)) {
		answer_sent(p, h, info, data, len);
	} else {
		ack_sent(p, h);
	}
}

/* --- completions ------------------------------------------------------------------ */

static bool signalled(const struct sim_peer *p, uint32_t i)
{
	return p->q->sig_all || (p->q->op[i].flags & IBV_SEND_SIGNALED);
}

static void send_wc(struct sim_peer *p, const struct ib_uverbs_wc *wc, uint32_t i)
{
	bool gone = p->failed || p->dead || p->over;

	for (; p->seen < i; p->seen++) {
		if (signalled(p, p->seen))
			sim_fail(p->w, "q%u send %u: its completion is missing", p->q->id,
				 p->seen);
	}
	p->seen = i + 1;
	if (wc->status == IBV_WC_SUCCESS) {
		if (i >= p->done || !signalled(p, i))
			sim_fail(p->w, "q%u send %u: success, which it has not had",
				 p->q->id, i);
	} else if (wc->status == IBV_WC_WR_FLUSH_ERR) {
		if (!gone || i < p->done + (p->failed ? 1 : 0))
			sim_fail(p->w, "q%u send %u: flushed", p->q->id, i);
	} else if (i != p->done || p->dead ||
		   (p->failed ? !(p->status & 1u << wc->status)
			      : wc->status != IBV_WC_RETRY_EXC_ERR)) {
		sim_fail(p->w, "q%u send %u: status %u; due is one of %#x at %u",
			 p->q->id, i, wc->status, p->failed ? p->status : 0, p->done);
	} else {
		fail(p, wc->status);
	}
}

/* The route header of a datagram: check_grh() of sim_model.c is about that */
static void forgive_grh(struct sim_qp *q, uint32_t i)
{
	struct sim_recv *r = &q->rq.recv[i];
	uint32_t left = 40;

	for (uint32_t k = 0; k < r->nsge; k++) {
		uint32_t part = r->sge[k].len < left ? r->sge[k].len : left;

		sim_mem_forgive(q->host, r->sge[k].arena, r->sge[k].off, part);
		left -= part;
	}
}

void peer_model_wc(struct sim_peer *p, const struct ib_uverbs_wc *wc, bool recv)
{
	uint32_t i = (uint32_t)wc->wr_id;
	bool ud = p->ud && wc->qp_num == p->ud->qpn;
	uint32_t *polled = ud ? &p->ud_polled : &p->recv_polled;
	uint32_t due = ud ? p->ud_recv : p->recv;

	if (!recv) {
		send_wc(p, wc, i);
		return;
	}
	if (ud && i < SIM_RECVS)
		forgive_grh(p->ud, i);
	if (i != (*polled)++)
		sim_fail(p->w, "q%u recv %u: not the one that is due", p->q->id, i);
	if ((wc->status == IBV_WC_SUCCESS) != (i < due))
		sim_fail(p->w, "q%u recv %u: status %u, received are %u", p->q->id, i,
			 wc->status, due);
	if (wc->status != IBV_WC_SUCCESS && !p->over && (ud || !(p->dead || p->failed)))
		sim_fail(p->w, "q%u recv %u: status %u, and nothing is wrong", p->q->id,
			 i, wc->status);
}

void peer_model_check(struct sim_peer *p)
{
	struct sim_host *h = p->q->host;

	for (uint32_t i = p->seen; i < p->done; i++) {
		if (signalled(p, i) && !p->over)
			sim_fail(p->w, "q%u send %u: is complete, but nobody was told",
				 p->q->id, i);
	}
	if (p->failed && p->seen <= p->done)
		sim_fail(p->w, "q%u send %u: failed (%#x), but nobody was told", p->q->id,
			 p->done, p->status);
	if (p->recv_polled < p->recv || (p->ud && p->ud_polled < p->ud_recv))
		sim_fail(p->w, "q%u: a message came, but nobody was told", p->q->id);
	if (p->dead && !p->nak_seen)
		sim_fail(p->w, "q%u: refused psn %06x without a NAK", p->q->id,
			 p->nak_psn);
	if (h->mads != p->mads)
		sim_fail(p->w, "h%u: %llu MADs came to QP1, given to it were %llu", h->id,
			 (unsigned long long)p->mads, (unsigned long long)h->mads);
}
