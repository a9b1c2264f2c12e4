/*
 * sim_wire.c - is what the HCAs send a conversation that IBTA volume 1, chapter 9 allows?
 *
 * Looks at each packet of a reliable or unreliable connection where it leaves its sender
 * and where it arrives, and knows nothing of the HCA's inside:
 *
 * requests: the PSNs of a QP have no holes; the payload of a first or middle packet is
 * the path MTU; messages are first, middle..., last or only; what is sent again under a
 * PSN is what was sent under it before (9.7.3, 9.7.5.1.4); nothing is sent again without
 * need.
 *
 * responses: nothing is acknowledged that has not arrived (9.7.5.1.2); acknowledges do
 * not go back; an atomic is answered alike each time.
 */
#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"
#include "sim.h"

#define HISTORY 1024u /* PSNs, a power of two */
#define READS	64u   /* more than a QP has under way */

/* What was sent under a PSN; valid in the @life of its QP's wire */
struct sent {
	uint32_t psn;
	uint32_t life;
	uint8_t opcode;
	uint64_t hash;
};

/*
 * struct sim_wire - one direction of requests: of @qp towards its peer
 * @next:	PSN that comes next, when @open
 * @msg:	inside a message
 * @msgs:	messages that were sent to their end
 * @rnr_at, @rnr_until: an RNR NAK for @rnr_psn came, and forbids to send up to then
 * @arrived:	PSN behind the last request that arrived in order
 * @acked:	responder: highest PSN acknowledged, plus one
 */
struct sim_wire {
	bool open, msg;
	uint32_t life;
	uint32_t next, msgs;
	uint64_t rnr_at, rnr_until;
	uint32_t rnr_psn;
	uint32_t arrived, acked;
	uint32_t resid;		       /* of the WRITE in progress */
	uint32_t reads[READS], nreads; /* last PSNs of READs and atomics under way */
	struct sent sent[HISTORY];
	struct sent answer[HISTORY]; /* atomics */
	struct sent msn[HISTORY];    /* @hash: @msgs when the PSN is done */
};

/* IBTA table 45, in 10 us */
static const uint32_t rnr_10us[32] = {
    65536, 1,	 2,    3,    4,	   6,	  8,	 12,	16,    24,   32,
    48,	   64,	 96,   128,  192,  256,	  384,	 512,	768,   1024, 1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

uint64_t sim_rnr_ns(uint8_t code)
{
	return 10ull * US * rnr_10us[code & 0x1f];
}

static struct sim_wire *wire_of(struct sim_qp *q)
{
	if (!q->wire)
		q->wire = calloc(1, sizeof(*q->wire));
	if (!q->wire)
		abort();
	q->wire->life += !q->wire->life;
	return q->wire;
}

void sim_wire_reset(struct sim_qp *q)
{
	if (!q->wire)
		return;
	q->wire->open = q->wire->msg = false;
	q->wire->msgs = 0;
	q->wire->rnr_at = 0;
	q->wire->nreads = 0;
	q->wire->life++;
}

static struct sim_qp *find_qp(struct sim_world *w, uint32_t qpn)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		if (w->qp[i].qpn == qpn)
			return &w->qp[i];
	}
	return NULL;
}

static uint64_t hash_bytes(const uint8_t *p, uint32_t len, uint64_t h)
{
	uint64_t v;

	for (; len >= 8; p += 8, len -= 8) {
		memcpy(&v, p, 8);
		h = (h ^ v) * SPLITMIX_STEP;
		h ^= h >> 29;
	}
	for (; len; p++, len--)
		h = (h ^ *p) * 0x100000001b3ull;
	return h;
}

static uint32_t span(const struct sim_qp *q, const struct roce_hdr *h)
{
	if ((h->opcode & 0x1f) != ROCE_READ_REQ || !h->dma_len)
		return 1;
	return (h->dma_len + q->mtu - 1) / q->mtu;
}

/* First, middle, last, only in this order; only for PSNs that are new */
static void check_message(struct sim_qp *q, struct sim_wire *wi, const struct roce_hdr *h,
			  uint32_t flags)
{
	bool first = flags & ROCE_F_FIRST;

	if (first == wi->msg)
		sim_fail(q->host->w, "q%u sent %s at psn %06x %s a message", q->id,
			 sim_op_name(h->opcode), h->psn,
			 first ? "in the middle of" : "outside of");
	wi->msg = !(flags & ROCE_F_LAST);
}

static void check_lengths(struct sim_qp *q, const struct roce_hdr *h, uint32_t flags,
			  uint32_t len)
{
	bool whole = !(flags & ROCE_F_LAST);

	if (!(flags & ROCE_F_PAYLOAD))
		return;
	if (whole ? len != q->mtu : len > q->mtu || (!len && !(flags & ROCE_F_FIRST)))
		sim_fail(q->host->w, "q%u sent %s with %u bytes, path MTU %u", q->id,
			 sim_op_name(h->opcode), len, q->mtu);
}

/* The same PSN, the same packet; READs may be cut anew */
static void check_again(struct sim_qp *q, struct sim_wire *wi, const struct roce_hdr *h,
			uint64_t hash)
{
	struct sent *s = &wi->sent[h->psn & (HISTORY - 1)];

	if (s->life == wi->life && s->psn == h->psn &&
	    (s->opcode != h->opcode || s->hash != hash))
		sim_fail(q->host->w,
			 "q%u sent another packet under psn %06x than before (%s)", q->id,
			 h->psn, sim_op_name(h->opcode));
	*s = (struct sent){h->psn, wi->life, h->opcode, hash};
}

/* 9.7.4.1.6: the DMA length of a WRITE is the sum of its packets */
static void check_dma_length(struct sim_qp *q, struct sim_wire *wi,
			     const struct roce_hdr *h, uint32_t flags, uint32_t len)
{
	if (!(flags & ROCE_F_WRITE))
		return;
	if (flags & ROCE_F_RETH)
		wi->resid = h->dma_len;
	if (len > wi->resid || ((flags & ROCE_F_LAST) && len != wi->resid))
		sim_fail(q->host->w, "q%u sent %s of %u bytes, where %u are left", q->id,
			 sim_op_name(h->opcode), len, wi->resid);
	wi->resid -= len;
}

static bool nonposted(const struct roce_hdr *h, uint32_t flags)
{
	return (flags & (ROCE_F_READ | ROCE_F_ATOMIC)) ||
	       (h->opcode & 0x1f) == ROCE_FLUSH;
}

/* 9.4.4: no more READs and atomics at once than the peer has resources for */
static void check_credits(struct sim_qp *q, struct sim_wire *wi, const struct roce_hdr *h,
			  uint32_t flags)
{
	uint32_t kept = 0;

	/* going back, it asks again for what is behind */
	for (uint32_t i = 0; i < wi->nreads; i++) {
		if (roce_psn_cmp(wi->reads[i], h->psn) < 0)
			wi->reads[kept++] = wi->reads[i];
	}
	wi->nreads = kept;
	if (!nonposted(h, flags) || kept == READS)
		return;
	wi->reads[wi->nreads++] = roce_psn_add(h->psn, span(q, h) - 1);
	if (wi->nreads > q->rd_atomic)
		sim_fail(q->host->w,
			 "q%u has %u READs and atomics under way, may have %u", q->id,
			 wi->nreads, q->rd_atomic);
}

static void answered(struct sim_wire *wi, const struct roce_hdr *h, uint32_t flags)
{
	if (!(flags & (ROCE_F_READ | ROCE_F_ATOMIC)))
		return;
	for (uint32_t i = 0; i < wi->nreads; i++) {
		if (wi->reads[i] == h->psn)
			wi->reads[i] = wi->reads[--wi->nreads];
	}
}

static void count_message(struct sim_wire *wi, uint32_t psn, uint32_t n, uint32_t flags)
{
	if (flags & ROCE_F_LAST)
		wi->msgs++;
	for (uint32_t i = 0; i < n && i < HISTORY; i++) {
		uint32_t p = roce_psn_add(psn, i);

		wi->msn[p & (HISTORY - 1)] = (struct sent){p, wi->life, 0, wi->msgs};
	}
}

/* 9.7.7.1: an answer tells how many messages its sender has completed */
static void check_msn(struct sim_qp *q, struct sim_wire *wi, const struct roce_hdr *h,
		      bool nak)
{
	uint32_t psn = nak ? roce_psn_add(h->psn, ROCE_PSN_MASK) : h->psn;
	const struct sent *s = &wi->msn[psn & (HISTORY - 1)];

	if (s->life == wi->life && s->psn == psn && h->msn != (s->hash & 0xffffff))
		sim_fail(q->host->w, "q%u answers psn %06x with MSN %u, must be %u",
			 q->id, h->psn, h->msn, (uint32_t)s->hash);
}

static bool is_answered_with_data(const struct roce_hdr *h)
{
	uint8_t op = h->opcode & 0x1f;

	return op == ROCE_READ_REQ || op == ROCE_CMP_SWAP || op == ROCE_FETCH_ADD;
}

/* An answer to what is before @psn is missing: the requester goes back to that. */
static bool lacks_data(const struct sim_wire *wi, uint32_t psn)
{
	for (uint32_t i = 0; i < wi->nreads; i++)
		if (roce_psn_cmp(wi->reads[i], psn) < 0)
			return true;
	return false;
}

/*
 * 9.7.5.2.8: the wait after an RNR NAK is that of its timer. Told exactly only where
 * nothing is lost or doubled, and the transmit path has room.
 */
static void check_rnr(struct sim_qp *q, struct sim_wire *wi, const struct roce_hdr *h)
{
	struct sim_world *w = q->host->w;
	uint64_t slack = w->net.tx_full ? 1000 * US : 2 * US;

	/*
	 * Data that came before the NAK may have had no place, as its page was missing. It is
	 * asked for again when the page is there.
	 */
	if (roce_psn_cmp(h->psn, wi->rnr_psn) < 0 && is_answered_with_data(h)) {
		wi->rnr_at = 0;
		return;
	}
	/* its own memory may not be there then */
	if (w->mem.slow || w->kind == SIM_STALL)
		slack = UINT64_MAX - wi->rnr_until;
	if (sim_clean(w) && (w->now < wi->rnr_until || w->now > wi->rnr_until + slack))
		sim_fail(w, "q%u went on %llu ns after an RNR NAK of %llu ns", q->id,
			 (unsigned long long)(w->now - wi->rnr_at),
			 (unsigned long long)(wi->rnr_until - wi->rnr_at));
	wi->rnr_at = 0;
}

static void request(struct sim_qp *q, const struct roce_hdr *h, uint32_t flags,
		    const uint8_t *data, uint32_t hdr_len, const uint8_t *payload,
		    uint32_t len)
{
	struct sim_wire *wi = wire_of(q);
	uint32_t n = span(q, h), end = roce_psn_add(h->psn, n);
	bool read = (h->opcode & 0x1f) == ROCE_READ_REQ;

	if (!wi->open) {
		wi->open = true;
		wi->next = wi->arrived = wi->acked = q->sq_psn;
	}
	if (q->type == IBV_QPT_UC && q->errored_once &&
	    roce_psn_cmp(h->psn, wi->next) > 0)
		wi->next = h->psn; /* those of requests that failed are left out */
	if (roce_psn_cmp(h->psn, wi->next) > 0)
		sim_fail(q->host->w, "q%u sent psn %06x, but psn %06x was never sent",
			 q->id, h->psn, wi->next);
	check_lengths(q, h, flags, len);
	if (h->se && !(flags & ROCE_F_LAST))
		sim_fail(q->host->w, "q%u sent a solicited %s", q->id,
			 sim_op_name(h->opcode));
	if (wi->rnr_at)
		check_rnr(q, wi, h);
	if (q->resting)
		sim_fail(q->host->w, "q%u sent psn %06x after SQ_DRAINED", q->id, h->psn);
	q->host->w->resent += h->psn != wi->next;
	if (h->psn != wi->next && q->host->w->no_resend)
		sim_fail(q->host->w, "q%u sent psn %06x again, and nothing was lost",
			 q->id, h->psn);
	if (h->psn == wi->next && sim_is_reliable(q->type))
		check_message(q, wi, h, flags);
	if (h->psn == wi->next && sim_is_reliable(q->type))
		check_dma_length(q, wi, h, flags, len);
	if (sim_is_reliable(q->type))
		check_credits(q, wi, h, flags);
	if (!read && sim_is_reliable(q->type))
		check_again(
		    q, wi, h,
		    hash_bytes(data + 12, hdr_len - 12, hash_bytes(payload, len, 1)));
	if (h->psn == wi->next)
		count_message(wi, h->psn, n, flags);
	if (roce_psn_cmp(end, wi->next) > 0)
		wi->next = end;
}

/* @q answers its peer's requests */
static void response(struct sim_qp *q, const struct roce_hdr *h, uint32_t flags,
		     uint32_t len)
{
	struct sim_world *w = q->host->w;
	struct sim_wire *wi = wire_of(q->peer);
	struct sent *s = &wi->answer[h->psn & (HISTORY - 1)];
	bool nak = (flags & ROCE_F_AETH) && (h->syndrome & ROCE_AETH_TYPE_MASK);

	check_lengths(q, h, flags, len);
	/* a READ may fail when it, and what follows, was counted already */
	if ((flags & ROCE_F_AETH) && (!nak || h->psn == wi->arrived))
		check_msn(q, wi, h, nak);
	if (!wi->open || roce_psn_cmp(h->psn, wi->arrived) > (nak ? 0 : -1))
		sim_fail(w, "q%u answers psn %06x (%s), but only %06x has arrived", q->id,
			 h->psn, sim_op_name(h->opcode), wi->arrived);
	if ((h->opcode & 0x1f) == ROCE_ACK && !nak) {
		if (roce_psn_cmp(roce_psn_add(h->psn, 1), wi->acked) < 0)
			sim_fail(w, "q%u acknowledges psn %06x after %06x", q->id, h->psn,
				 wi->acked);
		wi->acked = roce_psn_add(h->psn, 1);
	}
	if (!(flags & ROCE_F_ATOMIC_ACK_ETH))
		return;
	if (s->life == wi->life && s->psn == h->psn && s->hash != h->orig)
		sim_fail(w, "q%u answers the atomic at psn %06x in two ways", q->id,
			 h->psn);
	*s = (struct sent){h->psn, wi->life, h->opcode, h->orig};
}

/* Whose packet is it? The peer of the QP that it is for */
static struct sim_qp *sender(struct sim_world *w, const struct roce_hdr *h)
{
	struct sim_qp *to = find_qp(w, h->dqpn);

	if (!to || !to->peer || to->type == IBV_QPT_UD || to->foreign)
		return NULL;
	return to->peer;
}

void sim_wire_sent(struct sim_host *h, const uint8_t *data, uint32_t len)
{
	const uint8_t *payload;
	struct sim_qp *q;
	struct roce_hdr hdr;
	uint32_t flags, hdr_len, plen;

	if (h->w->anything_goes || roce_parse(data, len, &hdr, &payload, &plen))
		return;
	q = sender(h->w, &hdr);
	if (!q)
		return;
	flags = roce_opcode_info(hdr.opcode, &hdr_len);
	if (flags & ROCE_F_REQ)
		request(q, &hdr, flags, data, hdr_len, payload, plen);
	else
		response(q, &hdr, flags, plen);
}

void sim_wire_arrived(struct sim_world *w, const uint8_t *data, uint32_t len)
{
	const uint8_t *payload;
	struct roce_hdr hdr;
	struct sim_wire *wi;
	struct sim_qp *q;
	uint32_t plen, flags;

	if (w->anything_goes || roce_parse(data, len, &hdr, &payload, &plen))
		return;
	q = sender(w, &hdr);
	if (!q)
		return;
	flags = roce_opcode_info(hdr.opcode, NULL);
	if (!(flags & ROCE_F_REQ)) {
		wi = wire_of(q->peer);
		/* one that comes in the wait, about what is behind, says no more */
		if ((flags & ROCE_F_AETH) &&
		    (hdr.syndrome & ROCE_AETH_TYPE_MASK) == ROCE_AETH_RNR &&
		    !(wi->rnr_at && w->now <= wi->rnr_until)) {
			wi->rnr_at = lacks_data(wi, hdr.psn) ? 0 : w->now;
			wi->rnr_psn = hdr.psn;
			wi->rnr_until = w->now + sim_rnr_ns(hdr.syndrome & 0x1f);
		}
		/* it was executed in spite of that: a copy of it came later, or had waited */
		if ((flags & ROCE_F_AETH) && wi->rnr_at &&
		    (hdr.syndrome & ROCE_AETH_TYPE_MASK) == ROCE_AETH_ACK &&
		    roce_psn_cmp(hdr.psn, wi->rnr_psn) >= 0)
			wi->rnr_at = 0;
		answered(wi, &hdr, flags);
		return;
	}
	wi = wire_of(q);
	q->peer->heard = true;
	if (hdr.psn == wi->arrived || roce_psn_cmp(hdr.psn, wi->arrived) < 0) {
		uint32_t end = roce_psn_add(hdr.psn, span(q, &hdr));

		if (roce_psn_cmp(end, wi->arrived) > 0)
			wi->arrived = end;
	}
}
