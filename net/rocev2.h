/*
 * rocev2.h - the RoCEv2 wire format: opcodes, headers, and their codec.
 *
 * IBTA volume 1, chapter 9 (transport) and annex A17 (RoCEv2). Headers are
 * parsed from and written to bytes; nothing here keeps state or does I/O, and
 * nothing trusts the bytes: every parser takes the length that is there.
 */
#ifndef URXE_NET_ROCEV2_H
#define URXE_NET_ROCEV2_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ROCE_BTH_LEN	   12
#define ROCE_ICRC_LEN	   4
#define ROCE_PSN_MASK	   0xffffffu
#define ROCE_QPN_MASK	   0xffffffu
#define ROCE_QPN_MULTICAST 0xffffffu
#define ROCE_QPN_GSI	   1u
#define ROCE_PKEY_DEFAULT  0xffffu
#define ROCE_QKEY_GSI	   0x80010000u /* of QP1, 3.9.6 */
#define ROCE_MSN_MASK	   0xffffffu

/* A management datagram (13.4.2) to QP1 has this length, BTH and DETH in front of it */
#define ROCE_MAD_LEN 256
#define ROCE_MAD_AT  20

/* The opcode: transport and operation (IBTA table 35) */
#define ROCE_TRANSPORT_MASK 0xe0
#define ROCE_OP_MASK	    0x1f

/* Transport: the upper three bits */
enum roce_transport {
	ROCE_RC = 0x00,
	ROCE_UC = 0x20,
	ROCE_RD = 0x40,
	ROCE_UD = 0x60,
	ROCE_CNP = 0x80,
	ROCE_XRC = 0xa0,
};

/* Operation: the lower five bits. The numbers are those of the wire. */
enum roce_op {
	ROCE_SEND_FIRST = 0x00,
	ROCE_SEND_MIDDLE = 0x01,
	ROCE_SEND_LAST = 0x02,
	ROCE_SEND_LAST_IMM = 0x03,
	ROCE_SEND_ONLY = 0x04,
	ROCE_SEND_ONLY_IMM = 0x05,
	ROCE_WRITE_FIRST = 0x06,
	ROCE_WRITE_MIDDLE = 0x07,
	ROCE_WRITE_LAST = 0x08,
	ROCE_WRITE_LAST_IMM = 0x09,
	ROCE_WRITE_ONLY = 0x0a,
	ROCE_WRITE_ONLY_IMM = 0x0b,
	ROCE_READ_REQ = 0x0c,
	ROCE_READ_RESP_FIRST = 0x0d,
	ROCE_READ_RESP_MIDDLE = 0x0e,
	ROCE_READ_RESP_LAST = 0x0f,
	ROCE_READ_RESP_ONLY = 0x10,
	ROCE_ACK = 0x11,
	ROCE_ATOMIC_ACK = 0x12,
	ROCE_CMP_SWAP = 0x13,
	ROCE_FETCH_ADD = 0x14,
	ROCE_SEND_LAST_INV = 0x16,
	ROCE_SEND_ONLY_INV = 0x17,
	ROCE_FLUSH = 0x1c,
	ROCE_ATOMIC_WRITE = 0x1d,
};

/* What an opcode is made of: roce_opcode_info() */
enum roce_opcode_flags {
	ROCE_F_VALID = 1 << 0,
	ROCE_F_REQ = 1 << 1,  /* travels requester -> responder */
	ROCE_F_RESP = 1 << 2, /* travels responder -> requester */
	ROCE_F_FIRST = 1 << 3,
	ROCE_F_MIDDLE = 1 << 4,
	ROCE_F_LAST = 1 << 5, /* an "only" packet has FIRST and LAST */
	ROCE_F_RETH = 1 << 6,
	ROCE_F_AETH = 1 << 7,
	ROCE_F_IMM = 1 << 8,
	ROCE_F_IETH = 1 << 9,
	ROCE_F_DETH = 1 << 10,
	ROCE_F_ATOMIC_ETH = 1 << 11,
	ROCE_F_ATOMIC_ACK_ETH = 1 << 12,
	ROCE_F_XRCETH = 1 << 13,
	ROCE_F_FETH = 1 << 14,
	ROCE_F_PAYLOAD = 1 << 15, /* may carry payload */
	ROCE_F_SEND = 1 << 16,
	ROCE_F_WRITE = 1 << 17,
	ROCE_F_READ = 1 << 18,
	ROCE_F_ATOMIC = 1 << 19,
	ROCE_F_RWR = 1 << 20,	/* takes a new receive WQE at the responder */
	ROCE_F_ACKED = 1 << 21, /* an ACK answers it; other requests have responses */
};
/*
 * ATOMIC_WRITE has ATOMIC, RETH and PAYLOAD, FLUSH only FETH and RETH; neither has WRITE.
 * The CNP has neither REQ nor RESP; its 16 reserved bytes count as payload.
 */

/* A FLUSH request, of RC or XRC */
static inline bool roce_is_flush(uint8_t opcode)
{
	return (opcode & 0x1f) == ROCE_FLUSH;
}

/*
 * roce_opcode_info - flags of @opcode (0 if it is not assigned), and in
 * *@hdr_len (if not NULL) the bytes of BTH and extended headers together
 */
uint32_t roce_opcode_info(uint8_t opcode, uint32_t *hdr_len);

/*
 * struct roce_hdr - all the headers of one packet, host order; which extended
 * headers are meaningful follows from roce_opcode_info(opcode)
 */
struct roce_hdr {
	/* BTH */
	uint8_t opcode;
	bool se;      /* solicited event */
	bool mig;     /* migration request */
	uint8_t pad;  /* 0..3 bytes after the payload */
	uint8_t tver; /* transport header version, 0 */
	uint16_t pkey;
	bool fecn, becn;
	uint32_t dqpn;
	bool ack_req;
	uint32_t psn;
	/* XRCETH */
	uint32_t xrc_srqn;
	/* DETH */
	uint32_t qkey;
	uint32_t sqpn;
	/* RETH (also FLUSH and ATOMIC_WRITE) */
	uint64_t va;
	uint32_t rkey;
	uint32_t dma_len;
	/* FETH */
	uint8_t flush_type;  /* IB_FLUSH_GLOBAL 1 / PERSISTENT 2, bits */
	uint8_t flush_level; /* 0 range, 1 MR */
	/* AtomicETH: va and rkey above */
	uint64_t swap_add; /* swap data, or the number to add */
	uint64_t compare;
	/* AETH */
	uint8_t syndrome;
	uint32_t msn;
	/* AtomicAckETH */
	uint64_t orig;
	/* ImmDt (network order, as the application gave it) */
	uint32_t imm_be;
	/* IETH */
	uint32_t inv_rkey;
};

/* AETH syndromes (IBTA table 44..46) */
#define ROCE_AETH_ACK		 0x00 /* lower 5 bits: credit count, 31 = no credits kept */
#define ROCE_AETH_RNR		 0x20 /* lower 5 bits: RNR timer */
#define ROCE_AETH_NAK		 0x60 /* lower 5 bits: enum roce_nak */
#define ROCE_AETH_TYPE_MASK	 0xe0
#define ROCE_AETH_VALUE_MASK	 0x1f
#define ROCE_AETH_CREDIT_INVALID 0x1f
enum roce_nak {
	ROCE_NAK_PSN = 0,
	ROCE_NAK_INVALID_REQUEST = 1,
	ROCE_NAK_REMOTE_ACCESS = 2,
	ROCE_NAK_REMOTE_OP = 3,
};

/*
 * roce_parse - decode the headers at @data
 * @len: bytes from the BTH to the last pad byte
 *
 * 0 with *@h (0 what the packet does not have), *@payload and *@payload_len (pad taken off); -EPROTO when the opcode is not
 * assigned, the headers do not fit, or the pad is more than the payload; TVER and P_Key
 * are for the caller to judge.
 */
int roce_parse(const uint8_t *data, uint32_t len, struct roce_hdr *h,
	       const uint8_t **payload, uint32_t *payload_len);

#define ROCE_HDR_MAX 44 /* longest result of roce_build() */

/*
 * roce_build - write the headers of @h at @data, which has room for them; returns their
 * length. @h->pad must be right: (4 - payload % 4) % 4.
 */
uint32_t roce_build(uint8_t *data, const struct roce_hdr *h);

/*
 * roce_psn_cmp - <0, 0, >0 as @a is before, at, after @b in the 24-bit circle (IBTA
 * 9.7.1)
 */
static inline int32_t roce_psn_cmp(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

static inline uint32_t roce_psn_add(uint32_t psn, uint32_t n)
{
	return (psn + n) & ROCE_PSN_MASK;
}

#endif
