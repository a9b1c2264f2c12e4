/*
 * sim_peer.h - a peer that obeys no rule, and what an HCA must make of it.
 *
 * sim_peer.c draws what the peer sends and hands it to the victim; sim_peer_model.c has the
 * rules of IBTA volume 1, chapter 9 once more, in the terms of one packet after the other,
 * and says what each of them must come to. Neither knows anything of the HCA's inside.
 */
#ifndef URXE_TESTS_SIM_PEER_H
#define URXE_TESTS_SIM_PEER_H

#include "sim_gen.h"

#define PEER_PSNS 8192u /* more than a program has */
#define PEER_LOG  256u	/* READs and atomics of the peer that are remembered */
#define PEER_AREA (24u * 1024)

enum peer_msg { PEER_MSG_NONE, PEER_MSG_SEND, PEER_MSG_WRITE };

/*
 * struct peer_answer - how a READ or atomic of the peer must be answered
 * @psn, @npsn:	its PSNs
 * @arena, @off, @len: READ: the memory
 * @orig:	atomic: what the memory held
 */
struct peer_answer {
	uint32_t psn, npsn;
	uint8_t opcode;
	enum sim_arena_kind arena;
	uint32_t off, len;
	uint64_t orig;
};

/*
 * struct sim_peer - what the victim @q must be like by now
 *
 * Its requests:
 * @first, @npsn: PSNs of its operations
 * @una, @max:	oldest PSN that was not acknowledged, and the one behind the last sent
 * @ends:	by PSN - sq_psn: the last response to a READ request that was seen
 * @done:	operations that are complete; @seen: those whose completion was polled
 * @failed:	operation @done ended with @status
 * @rnr_left, @rnr_until: RNR NAKs that it may take, and the end of the wait
 *
 * The peer's requests:
 * @epsn, @msg:	what is due
 * @recv, @rlen, @taken: receive request that is next, or is being filled
 * @arena, @off, @va, @rkey, @resid, @dma_len: the WRITE in progress
 * @dead:	a fatal NAK with @nak for @nak_psn ended the QP; @nak_seen: it was sent
 * @ack_psn:	highest PSN of an acknowledge; @acks: number of those
 * @area:	memory that the peer may reach and nobody else uses
 * @over:	the scenario flushes what is left
 */
struct sim_peer {
	struct sim_world *w;
	struct sim_qp *q;
	uint32_t first[SIM_OPS], npsn[SIM_OPS];
	uint32_t una, max;
	bool ends[PEER_PSNS];
	uint32_t done, seen;
	bool failed;
	uint32_t status;
	uint32_t rnr_left;
	uint64_t rnr_until;

	uint32_t epsn;
	enum peer_msg msg;
	uint32_t recv, rlen;
	bool taken;
	uint64_t va;
	uint32_t rkey, resid, dma_len;
	bool dead, nak_seen;
	uint8_t nak;
	uint32_t nak_psn, ack_psn, acks;
	struct peer_answer log[PEER_LOG];
	uint32_t logged;
	uint32_t area[SIM_ARENAS];
	bool over;

	struct sim_qp *ud;
	uint32_t ud_recv, ud_polled, recv_polled;
	uint64_t mads;
	uint32_t evil; /* permille of what it sends that is wrong */
};

/* sim_peer_model.c */
void peer_model_init(struct sim_peer *p, struct sim_qp *q);
/* The operation that has @psn; SIM_OPS: none */
uint32_t peer_op_at(const struct sim_peer *p, uint32_t psn);
/* Bytes that the response with @psn to operation @i must have */
uint32_t peer_response_len(const struct sim_peer *p, uint32_t i, uint32_t psn);
bool peer_ends_here(const struct sim_peer *p, uint32_t i, uint32_t psn);
bool peer_nonposted(uint32_t opcode);
/* The victim gets this response, or request, or datagram from its peer */
void peer_model_response(struct sim_peer *p, const struct roce_hdr *h, uint32_t info,
			 const uint8_t *data, uint32_t len);
void peer_model_request(struct sim_peer *p, const struct roce_hdr *h, uint32_t info,
			const uint8_t *data, uint32_t len);
void peer_model_datagram(struct sim_peer *p, const struct roce_hdr *h,
			 const uint8_t *data, uint32_t len);
/* The victim sent this */
void peer_model_sent(struct sim_peer *p, const struct roce_hdr *h, uint32_t info,
		     const uint8_t *data, uint32_t len);
/* A completion of the victim's */
void peer_model_wc(struct sim_peer *p, const struct ib_uverbs_wc *wc, bool recv);
/* Everything that is due has happened */
void peer_model_check(struct sim_peer *p);

#endif
