/*
 * cm_mad.h - the messages of connection management, and their codec.
 *
 * IBTA volume 1, chapter 12 (messages), 13.4 (MAD header), annex A11 (RDMA IP CM service:
 * the addresses in front of the private data). Messages are parsed from and written to
 * 256 bytes; nothing here keeps state or trusts the bytes.
 */
#ifndef URXE_EMU_CM_MAD_H
#define URXE_EMU_CM_MAD_H

#include <stdbool.h>
#include <stdint.h>

#include "net/path.h"
#include "net/rocev2.h"

#define CM_MAD_LEN   ROCE_MAD_LEN
#define CM_MAD_CLASS 0x07 /* communication management, IBTA table 107 */

/* Attribute IDs (IBTA table 99) */
enum cm_attr {
	CM_REQ = 0x10,
	CM_MRA = 0x11,
	CM_REJ = 0x12,
	CM_REP = 0x13,
	CM_RTU = 0x14,
	CM_DREQ = 0x15,
	CM_DREP = 0x16,
	CM_SIDR_REQ = 0x17,
	CM_SIDR_REP = 0x18,
};

/* Bytes of private data in each message (IBTA 12.6) */
#define CM_PRIV_REQ	 92
#define CM_PRIV_MRA	 222
#define CM_PRIV_REJ	 148
#define CM_PRIV_REP	 196
#define CM_PRIV_RTU	 224
#define CM_PRIV_DREQ	 220
#define CM_PRIV_DREP	 224
#define CM_PRIV_SIDR_REQ 216
#define CM_PRIV_SIDR_REP 136
#define CM_PRIV_MAX	 224

#define CM_REJ_ARI_LEN 72 /* additional reject information */

/* Why a connection was refused (IBTA 12.6.7.2) */
enum cm_rej_reason {
	CM_REJ_TIMEOUT = 4,
	CM_REJ_INVALID_COMM_ID = 6,
	CM_REJ_INVALID_SERVICE_ID = 8,
	CM_REJ_INVALID_TRANSPORT_TYPE = 9,
	CM_REJ_STALE_CONN = 10,
	CM_REJ_CONSUMER = 28,
	CM_REJ_VENDOR_OPTION = 35,
};

/* Which message an MRA or a REJ answers */
enum cm_answered {
	CM_ANSWERED_REQ = 0,
	CM_ANSWERED_REP = 1,
	CM_ANSWERED_OTHER = 2,
};

/* Status of a SIDR_REP (IBTA 12.11.2) */
enum cm_sidr_status {
	CM_SIDR_SUCCESS = 0,
	CM_SIDR_UNSUPPORTED = 1,
	CM_SIDR_REJECT = 2,
};

/* Transport service types of a REQ; XRC is "extended transport" 1 */
enum cm_transport {
	CM_TRANSPORT_RC = 0,
	CM_TRANSPORT_UC = 1,
	CM_TRANSPORT_RD = 2,
	CM_TRANSPORT_XRC = 3,
};

/*
 * struct cm_path - primary or alternate path of a REQ
 * @ack_timeout: local ACK timeout, 4.096 us * 2^n
 */
struct cm_path {
	uint16_t local_lid, remote_lid;
	struct net_ip local_gid, remote_gid;
	uint32_t flow_label;
	uint8_t rate;
	uint8_t traffic_class;
	uint8_t hop_limit;
	uint8_t sl;
	bool subnet_local;
	uint8_t ack_timeout;
};

struct cm_req {
	uint64_t service_id;
	uint64_t ca_guid_be;
	uint32_t ece_vendor;
	uint32_t qkey;
	uint32_t qpn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t remote_cm_timeout; /* what the receiver may take to answer */
	uint8_t local_cm_timeout;  /* what the receiver should wait for our answers */
	enum cm_transport transport;
	bool flow_control;
	uint32_t psn; /* where the receiver begins to send */
	uint8_t retry_count;
	uint16_t pkey;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t rnr_retry;
	uint8_t max_cm_retries;
	bool srq;
	struct cm_path path;
};

struct cm_rep {
	uint64_t ca_guid_be;
	uint32_t ece_vendor;
	uint32_t qkey;
	uint32_t qpn;
	uint32_t eecn; /* for XRC the initiator's QPN is here */
	uint32_t psn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t ack_delay;
	uint8_t failover;
	bool flow_control;
	uint8_t rnr_retry;
	bool srq;
};

struct cm_rej {
	enum cm_answered answered;
	uint8_t ari_len;
	uint16_t reason;
	uint8_t ari[CM_REJ_ARI_LEN];
};

struct cm_mra {
	enum cm_answered answered;
	uint8_t service_timeout;
};

struct cm_dreq {
	uint32_t remote_qpn;
};

struct cm_sidr_req {
	uint16_t pkey;
	uint64_t service_id;
};

struct cm_sidr_rep {
	uint8_t status;
	uint32_t qpn;
	uint64_t service_id;
	uint32_t qkey;
};

/*
 * struct cm_msg - one message, host order except what is named _be
 * @tid:	transaction ID of the MAD header, as it is on the wire
 * @ece:	attribute modifier: ECE options of a REQ and REP
 * @local_id:	the sender's communication ID; of SIDR messages the request ID
 * @remote_id:	the receiver's; 0 in a REQ
 * @priv:	private data, cm_priv_len(@attr) bytes
 */
struct cm_msg {
	enum cm_attr attr;
	uint64_t tid;
	uint32_t ece;
	uint32_t local_id;
	uint32_t remote_id;
	union {
		struct cm_req req;
		struct cm_rep rep;
		struct cm_rej rej;
		struct cm_mra mra;
		struct cm_dreq dreq;
		struct cm_sidr_req sidr_req;
		struct cm_sidr_rep sidr_rep;
	};
	uint8_t priv[CM_PRIV_MAX];
};

/* Bytes of private data of a message, 0 if it is none that is known here */
uint32_t cm_priv_len(unsigned int attr);

/*
 * struct cm_mad_head - what any message of the CM's class has, whether it makes sense or not
 * @reason:	of a REJ, else 0
 * @port:	that a REQ or SIDR_REQ asks for, else 0
 */
struct cm_mad_head {
	uint16_t attr, reason, port;
	uint32_t local_id, remote_id;
};
/* Of a MAD of CM_MAD_LEN bytes; false: it is of another class */
bool cm_mad_peek(const uint8_t *mad, struct cm_mad_head *h);

/*
 * cm_mad_parse - 0, or -EPROTO: too short, another class or version, an unknown message
 */
int cm_mad_parse(const uint8_t *mad, uint32_t len, struct cm_msg *m);
/* What a MAD of cm_mad_build() is */
enum cm_attr cm_mad_attr(const uint8_t mad[CM_MAD_LEN]);
/* cm_mad_build - write all 256 bytes */
void cm_mad_build(uint8_t mad[CM_MAD_LEN], const struct cm_msg *m);

/*
 * struct cm_ip_hdr - the first 36 bytes of the private data of a REQ or SIDR_REQ (annex
 * A11)
 * @version: 4 or 6
 * @port:	of the sender
 * @src, @dst:	the addresses that the sender asked for
 */
#define CM_IP_HDR_LEN 36
struct cm_ip_hdr {
	uint8_t version;
	uint16_t port;
	struct net_ip src, dst;
};

/* 0, or -EPROTO (no such header) */
int cm_ip_hdr_parse(const uint8_t *priv, struct cm_ip_hdr *h);
void cm_ip_hdr_build(uint8_t *priv, const struct cm_ip_hdr *h);

/*
 * cm_service_id - that of a port (annex A11.4): prefix, protocol number, port.
 * @ps: RDMA_PS_TCP and so on, which have the prefix in them
 */
static inline uint64_t cm_service_id(uint16_t ps, uint16_t port)
{
	return (uint64_t)ps << 16 | port;
}

#endif
