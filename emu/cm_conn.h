/*
 * cm_conn.h - the connections of the CM: how they are found, and when they are due.
 *
 * For cm.c and cm_rx.c only. Three indexes (own ID, the peer's ID, the peer's QP) and a heap of
 * deadlines; nothing here knows the protocol.
 */
#ifndef URXE_EMU_CM_CONN_H
#define URXE_EMU_CM_CONN_H

#include "emu/cm.h"

/*
 * struct cm_link - membership in an index
 * @hash:	of the key; connections with the same one are told apart by the finder
 * @in:		is it in?
 */
struct cm_link {
	struct cm_link *next;
	struct emu_cm_conn *conn;
	uint64_t hash;
	bool in;
};

struct cm_index {
	struct cm_link **bucket;
	uint32_t n_buckets; /* a power of two */
	uint32_t count;
};

/*
 * struct emu_cm - all connections of a process
 * @heap:	connections with a deadline, the next one first
 * @next_id:	counts communication IDs
 * @tid_hi:	upper half of transaction IDs
 * @cause:	enum trace_cm_cause of what happens now
 */
struct emu_cm {
	const struct emu_cm_ops *ops;
	void *arg;
	uint64_t now;
	uint32_t slot;
	uint32_t next_id;
	uint32_t tid_hi;
	uint8_t cause;
	struct cm_index by_id;
	struct cm_index by_peer;
	struct cm_index by_qp;
	struct emu_cm_conn **heap;
	uint32_t n_heap;
	uint32_t heap_room;
	uint32_t count;
	struct emu_cm_conn *all;
};

/*
 * struct emu_cm_conn - one connection, or one resolution of a service ID
 * @owned:	the owner has not released it; events go to @cookie
 * @passive:	the peer asked for it
 * @told:	the peer has got an MRA and does not ask again soon
 * @tid:	of the exchange; answers carry it
 * @path:	towards the peer, from its packets' point of view already turned
 * @recv_psn:	where the peer begins to send; @send_psn: where our QP does
 * @ack_timeout: of the QP, 4.096 us * 2^n
 * @base:	the CM's response timeout (ns)
 * @rto:	the present interval of repetition (ns)
 * @give_up:	when there is no hope left
 * @resends:	repetitions of a refusal that are left
 * @heap_pos:	1 + position in the heap; 0: no deadline
 * @tag:	the owner's
 * @seen:	what others see of it, or NULL
 * @mad:	the last message, for repetition
 */
struct emu_cm_conn {
	struct emu_cm *cm;
	struct emu_cm_conn *next, **prevp;
	struct emu_cm_port port;
	void *cookie;
	bool owned;
	bool passive;
	bool told;
	enum emu_cm_state state;
	enum ibv_qp_type qp_type;
	uint32_t local_id, remote_id;
	uint64_t tid;
	uint64_t peer_guid_be;
	uint64_t service_id;
	uint32_t local_qpn, remote_qpn;
	struct net_path path;
	uint32_t recv_psn, send_psn;
	enum ibv_mtu mtu;
	uint8_t responder_resources, initiator_depth;
	uint8_t retry_count, rnr_retry;
	uint8_t ack_timeout;
	uint8_t max_retries;
	uint8_t resends;
	uint64_t base, rto, give_up;
	uint64_t deadline;
	uint32_t heap_pos;
	uint32_t tag;
	struct trace_object *seen;
	struct cm_link id_link, peer_link, qp_link;
	uint8_t mad[CM_MAD_LEN];
};

/* A connection with a fresh ID, in the index of IDs; NULL: out of memory or of IDs */
struct emu_cm_conn *cm_conn_new(struct emu_cm *cm, const struct emu_cm_port *port);
void cm_conn_free(struct emu_cm_conn *c);
struct emu_cm_conn *cm_conn_find(struct emu_cm *cm, uint32_t local_id);

/* By the peer's ID and GUID. @ip instead of the GUID for SIDR, which has none */
void cm_conn_index_peer(struct emu_cm_conn *c);
struct emu_cm_conn *cm_conn_find_peer(struct emu_cm *cm, uint32_t remote_id,
				      uint64_t guid_be);
struct emu_cm_conn *cm_conn_find_sidr(struct emu_cm *cm, uint32_t request_id,
				      const struct net_ip *ip);

/* By the peer's QP, to find what a process that lost its memory left behind */
void cm_conn_index_qp(struct emu_cm_conn *c);
void cm_conn_unindex_qp(struct emu_cm_conn *c);
struct emu_cm_conn *cm_conn_find_qp(struct emu_cm *cm, uint64_t guid_be, uint32_t qpn,
				    const struct emu_cm_conn *except);

/* cm_conn_arm - be due at @deadline (EMU_CM_NO_DEADLINE: not at all). Cannot fail. */
void cm_conn_arm(struct emu_cm_conn *c, uint64_t deadline);
/* The connection that is due first, or NULL */
struct emu_cm_conn *cm_conn_first(const struct emu_cm *cm);

#endif
