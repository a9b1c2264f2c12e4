/*
 * rocev2.c - codec of the RoCEv2 transport headers.
 *
 * One table says for each opcode which headers follow the BTH; parsing and building walk
 * the headers in the one order that the wire has (IBTA vol. 1 chapter 9.2: XRCETH or
 * DETH, FETH, RETH or AtomicETH, AETH, ImmDt or AtomicAckETH or IETH, payload).
 */
#include "net/rocev2.h"

#include <errno.h>

#include "net/bytes.h"

#define XRCETH_LEN	 4
#define DETH_LEN	 8
#define FETH_LEN	 4
#define RETH_LEN	 16
#define ATOMIC_ETH_LEN	 28
#define AETH_LEN	 4
#define IMM_LEN		 4
#define ATOMIC_ACK_LEN	 8
#define IETH_LEN	 4
#define CNP_OPCODE	 0x81 /* annex A17.9.3 */
#define FETH_LEVEL_SHIFT 4

/* Shorthand of the table below, all of the kind F_x */
enum {
	F_FIRST = ROCE_F_FIRST,
	F_MIDDLE = ROCE_F_MIDDLE,
	F_LAST = ROCE_F_LAST,
	F_ONLY = ROCE_F_FIRST | ROCE_F_LAST,
	F_RETH = ROCE_F_RETH,
	F_AETH = ROCE_F_AETH,
	F_IMM = ROCE_F_IMM,
	F_IETH = ROCE_F_IETH,
	F_RWR = ROCE_F_RWR,
	F_REQ = ROCE_F_VALID | ROCE_F_REQ,
	F_RESP = ROCE_F_VALID | ROCE_F_RESP,
	F_SEND = F_REQ | ROCE_F_SEND | ROCE_F_PAYLOAD | ROCE_F_ACKED,
	F_WRITE = F_REQ | ROCE_F_WRITE | ROCE_F_PAYLOAD | ROCE_F_ACKED,
	F_READ = F_REQ | ROCE_F_READ,
	F_READ_RESP = F_RESP | ROCE_F_READ | ROCE_F_PAYLOAD,
	F_RESERVED = F_REQ | F_ONLY | ROCE_F_PAYLOAD,
	F_ATOMIC = F_REQ | ROCE_F_ATOMIC,
	F_ATOMIC_ACK = F_RESP | ROCE_F_ATOMIC | F_AETH | ROCE_F_ATOMIC_ACK_ETH,
};

/* Operations of every connected transport (IBTA tables 35 and 36) */
#define CONNECTED_OPS(X, T)                                                              \
	X(T, SEND_FIRST, F_SEND | F_FIRST | F_RWR)                                       \
	X(T, SEND_MIDDLE, F_SEND | F_MIDDLE)                                             \
	X(T, SEND_LAST, F_SEND | F_LAST)                                                 \
	X(T, SEND_LAST_IMM, F_SEND | F_LAST | F_IMM)                                     \
	X(T, SEND_ONLY, F_SEND | F_ONLY | F_RWR)                                         \
	X(T, SEND_ONLY_IMM, F_SEND | F_ONLY | F_IMM | F_RWR)                             \
	X(T, WRITE_FIRST, F_WRITE | F_FIRST | F_RETH)                                    \
	X(T, WRITE_MIDDLE, F_WRITE | F_MIDDLE)                                           \
	X(T, WRITE_LAST, F_WRITE | F_LAST)                                               \
	X(T, WRITE_LAST_IMM, F_WRITE | F_LAST | F_IMM | F_RWR)                           \
	X(T, WRITE_ONLY, F_WRITE | F_ONLY | F_RETH)                                      \
	X(T, WRITE_ONLY_IMM, F_WRITE | F_ONLY | F_RETH | F_IMM | F_RWR)

/* What reliability adds */
#define RELIABLE_OPS(X, T)                                                               \
	X(T, READ_REQ, F_READ | F_ONLY | F_RETH)                                         \
	X(T, READ_RESP_FIRST, F_READ_RESP | F_FIRST | F_AETH)                            \
	X(T, READ_RESP_MIDDLE, F_READ_RESP | F_MIDDLE)                                   \
	X(T, READ_RESP_LAST, F_READ_RESP | F_LAST | F_AETH)                              \
	X(T, READ_RESP_ONLY, F_READ_RESP | F_ONLY | F_AETH)                              \
	X(T, ACK, F_RESP | F_ONLY | F_AETH)                                              \
	X(T, ATOMIC_ACK, F_ATOMIC_ACK | F_ONLY)                                          \
	X(T, CMP_SWAP, F_ATOMIC | F_ONLY | ROCE_F_ATOMIC_ETH)                            \
	X(T, FETCH_ADD, F_ATOMIC | F_ONLY | ROCE_F_ATOMIC_ETH)                           \
	X(T, SEND_LAST_INV, F_SEND | F_LAST | F_IETH)                                    \
	X(T, SEND_ONLY_INV, F_SEND | F_ONLY | F_IETH | F_RWR)                            \
	X(T, FLUSH, F_REQ | F_ONLY | ROCE_F_FETH | F_RETH)                               \
	X(T, ATOMIC_WRITE, F_ATOMIC | F_ONLY | F_RETH | ROCE_F_PAYLOAD)

/*
 * Reserved, but where an answer can be given, it is (NAK invalid request, 9.7.4.1.3): whatever
 * follows the BTH
 */
#define RESERVED_OPS(X, T)                                                               \
	X(T, 0x15)                                                                       \
	X(T, 0x18)                                                                       \
	X(T, 0x19)                                                                       \
	X(T, 0x1a)                                                                       \
	X(T, 0x1b)                                                                       \
	X(T, 0x1e)                                                                       \
	X(T, 0x1f)

#define UD_OPS(X, T)                                                                     \
	X(T, SEND_ONLY, F_SEND | F_ONLY | F_RWR)                                         \
	X(T, SEND_ONLY_IMM, F_SEND | F_ONLY | F_IMM | F_RWR)

/* Headers that a transport adds: XRC requests name the receive queue (annex A14.3.1) */
#define EXTRA_RC(flags)	 0
#define EXTRA_UC(flags)	 0
#define EXTRA_UD(flags)	 ROCE_F_DETH
#define EXTRA_XRC(flags) (((flags)&ROCE_F_REQ) ? ROCE_F_XRCETH : 0)

#define LEN_IF(flags, f, len) (((flags) & (f)) ? (len) : 0)
#define HDR_LEN(flags)                                                                   \
	(ROCE_BTH_LEN + LEN_IF(flags, ROCE_F_XRCETH, XRCETH_LEN) +                       \
	 LEN_IF(flags, ROCE_F_DETH, DETH_LEN) + LEN_IF(flags, ROCE_F_FETH, FETH_LEN) +   \
	 LEN_IF(flags, ROCE_F_RETH, RETH_LEN) +                                          \
	 LEN_IF(flags, ROCE_F_ATOMIC_ETH, ATOMIC_ETH_LEN) +                              \
	 LEN_IF(flags, ROCE_F_AETH, AETH_LEN) + LEN_IF(flags, ROCE_F_IMM, IMM_LEN) +     \
	 LEN_IF(flags, ROCE_F_ATOMIC_ACK_ETH, ATOMIC_ACK_LEN) +                          \
	 LEN_IF(flags, ROCE_F_IETH, IETH_LEN))

#define INFO(flags)                                                                      \
	{                                                                                \
		(flags), HDR_LEN(flags)                                                  \
	}

#define ENTRY(T, op, flags) [ROCE_##T | ROCE_##op] = INFO((flags) | EXTRA_##T(flags)),

#define RESERVED(T, op) [ROCE_##T | (op)] = {F_RESERVED, ROCE_BTH_LEN},

static const struct {
	uint32_t flags;
	uint32_t hdr_len;
} opcode_table[256] = {
    [CNP_OPCODE] = {ROCE_F_VALID | ROCE_F_PAYLOAD | F_ONLY, ROCE_BTH_LEN},
    CONNECTED_OPS(ENTRY, RC) RELIABLE_OPS(ENTRY, RC) CONNECTED_OPS(ENTRY, UC)
	UD_OPS(ENTRY, UD) CONNECTED_OPS(ENTRY, XRC) RELIABLE_OPS(ENTRY, XRC)
	    RESERVED_OPS(RESERVED, RC) RESERVED_OPS(RESERVED, XRC)};

uint32_t roce_opcode_info(uint8_t opcode, uint32_t *hdr_len)
{
	if (hdr_len)
		*hdr_len = opcode_table[opcode].hdr_len;
	return opcode_table[opcode].flags;
}

/*
 * IBTA vol. 1 9.2: the base transport header; annex A17 lends bits of resv8a to FECN,
 * BECN
 */
static void parse_bth(const uint8_t *p, struct roce_hdr *h)
{
	h->opcode = p[0];
	h->se = p[1] >> 7;
	h->mig = p[1] >> 6 & 1;
	h->pad = p[1] >> 4 & 3;
	h->tver = p[1] & 0xf;
	h->pkey = get_be16(p + 2);
	h->fecn = p[4] >> 7;
	h->becn = p[4] >> 6 & 1;
	h->dqpn = get_be32(p + 4) & ROCE_QPN_MASK;
	h->ack_req = p[8] >> 7;
	h->psn = get_be32(p + 8) & ROCE_PSN_MASK;
}

static void build_bth(uint8_t *p, const struct roce_hdr *h)
{
	p[0] = h->opcode;
	p[1] = (uint8_t)(h->se << 7 | h->mig << 6 | (h->pad & 3) << 4 | (h->tver & 0xf));
	put_be16(p + 2, h->pkey);
	put_be32(p + 4, (uint32_t)h->fecn << 31 | (uint32_t)h->becn << 30 |
			    (h->dqpn & ROCE_QPN_MASK));
	put_be32(p + 8, (uint32_t)h->ack_req << 31 | (h->psn & ROCE_PSN_MASK));
}

/* One by one, which the compiler makes some stores of */
static void clear_ext(struct roce_hdr *h)
{
	h->xrc_srqn = 0;
	h->qkey = 0;
	h->sqpn = 0;
	h->va = 0;
	h->rkey = 0;
	h->dma_len = 0;
	h->flush_type = 0;
	h->flush_level = 0;
	h->swap_add = 0;
	h->compare = 0;
	h->syndrome = 0;
	h->msn = 0;
	h->orig = 0;
	h->imm_be = 0;
	h->inv_rkey = 0;
}

/* The headers behind the BTH; the caller has checked that they fit. */
static void parse_ext(const uint8_t *p, uint32_t flags, struct roce_hdr *h)
{
	if (flags & ROCE_F_XRCETH) {
		h->xrc_srqn = get_be32(p) & ROCE_QPN_MASK;
		p += XRCETH_LEN;
	}
	if (flags & ROCE_F_DETH) {
		h->qkey = get_be32(p);
		h->sqpn = get_be32(p + 4) & ROCE_QPN_MASK;
		p += DETH_LEN;
	}
	if (flags & ROCE_F_FETH) {
		h->flush_type = p[3] & 0xf;
		h->flush_level = p[3] >> FETH_LEVEL_SHIFT & 3;
		p += FETH_LEN;
	}
	if (flags & (ROCE_F_RETH | ROCE_F_ATOMIC_ETH)) {
		h->va = get_be64(p);
		h->rkey = get_be32(p + 8);
		p += 12;
	}
	if (flags & ROCE_F_RETH) {
		h->dma_len = get_be32(p);
		p += 4;
	}
	if (flags & ROCE_F_ATOMIC_ETH) {
		h->swap_add = get_be64(p);
		h->compare = get_be64(p + 8);
		p += 16;
	}
	if (flags & ROCE_F_AETH) {
		h->syndrome = p[0];
		h->msn = get_be32(p) & ROCE_MSN_MASK;
		p += AETH_LEN;
	}
	if (flags & ROCE_F_ATOMIC_ACK_ETH)
		h->orig = get_be64(p);
	if (flags & ROCE_F_IMM)
		memcpy(&h->imm_be, p, IMM_LEN);
	if (flags & ROCE_F_IETH)
		h->inv_rkey = get_be32(p);
}

static void build_ext(uint8_t *p, uint32_t flags, const struct roce_hdr *h)
{
	if (flags & ROCE_F_XRCETH) {
		put_be32(p, h->xrc_srqn & ROCE_QPN_MASK);
		p += XRCETH_LEN;
	}
	if (flags & ROCE_F_DETH) {
		put_be32(p, h->qkey);
		put_be32(p + 4, h->sqpn & ROCE_QPN_MASK);
		p += DETH_LEN;
	}
	if (flags & ROCE_F_FETH) {
		put_be32(p, (h->flush_type & 0xfu) | (h->flush_level & 3u)
							 << FETH_LEVEL_SHIFT);
		p += FETH_LEN;
	}
	if (flags & (ROCE_F_RETH | ROCE_F_ATOMIC_ETH)) {
		put_be64(p, h->va);
		put_be32(p + 8, h->rkey);
		p += 12;
	}
	if (flags & ROCE_F_RETH) {
		put_be32(p, h->dma_len);
		p += 4;
	}
	if (flags & ROCE_F_ATOMIC_ETH) {
		put_be64(p, h->swap_add);
		put_be64(p + 8, h->compare);
		p += 16;
	}
	if (flags & ROCE_F_AETH) {
		put_be32(p, (uint32_t)h->syndrome << 24 | (h->msn & ROCE_MSN_MASK));
		p += AETH_LEN;
	}
	if (flags & ROCE_F_ATOMIC_ACK_ETH)
		put_be64(p, h->orig);
	if (flags & ROCE_F_IMM)
		memcpy(p, &h->imm_be, IMM_LEN);
	if (flags & ROCE_F_IETH)
		put_be32(p, h->inv_rkey);
}

int roce_parse(const uint8_t *data, uint32_t len, struct roce_hdr *h,
	       const uint8_t **payload, uint32_t *payload_len)
{
	uint32_t flags, hdr_len;

	if (len < ROCE_BTH_LEN) {
		*h = (struct roce_hdr){0};
		return -EPROTO;
	}
	parse_bth(data, h);
	clear_ext(h);
	flags = roce_opcode_info(h->opcode, &hdr_len);
	if (!flags || len < hdr_len || h->pad > len - hdr_len)
		return -EPROTO;
	parse_ext(data + ROCE_BTH_LEN, flags, h);
	*payload = data + hdr_len;
	*payload_len = len - hdr_len - h->pad;
	return 0;
}

uint32_t roce_build(uint8_t *data, const struct roce_hdr *h)
{
	uint32_t hdr_len, flags = roce_opcode_info(h->opcode, &hdr_len);

	build_bth(data, h);
	build_ext(data + ROCE_BTH_LEN, flags, h);
	return hdr_len;
}
