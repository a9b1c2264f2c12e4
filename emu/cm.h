/*
 * cm.h - connection management: the protocol of IBTA volume 1, chapter 12, as a state
 * machine.
 *
 * Like the HCA (emu/hca.h) it has no I/O, threads, clock or locks: it gets messages,
 * calls and the time, and gives events and the next deadline; its messages leave by QP1 of the
 * HCA. It knows service
 * IDs, not ports or sockets: what a request means and who listens is its owner's matter
 * (verbs/ucma).
 */
#ifndef URXE_EMU_CM_H
#define URXE_EMU_CM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "emu/cm_mad.h"
#include "net/path.h"

struct emu_cm;
struct emu_cm_conn;
struct emu_hca;
struct trace_object;

#define EMU_CM_NO_DEADLINE UINT64_MAX

/*
 * A communication ID names the process too, so that the messages of a connection find it
 * among those that share an address: its upper bits are the process's slot.
 */
#define EMU_CM_SLOT_BITS 10
#define EMU_CM_ID_BITS	 (32 - EMU_CM_SLOT_BITS)

static inline uint32_t emu_cm_slot_of(uint32_t comm_id)
{
	return comm_id >> EMU_CM_ID_BITS;
}

/*
 * States. Names are those of IBTA 12.9.5 (active side) and 12.9.6 (passive), "MRA_x_SENT"
 * and "MRA_x_RCVD" mean that an MRA was sent or received for x.
 * The order matters: from REQ_SENT to ESTABLISHED a QP may be taken to INIT.
 */
enum emu_cm_state {
	EMU_CM_IDLE,
	EMU_CM_REQ_SENT,
	EMU_CM_REQ_RCVD,
	EMU_CM_MRA_REQ_SENT,
	EMU_CM_MRA_REQ_RCVD,
	EMU_CM_REP_SENT,
	EMU_CM_REP_RCVD,
	EMU_CM_MRA_REP_SENT,
	EMU_CM_MRA_REP_RCVD,
	EMU_CM_ESTABLISHED,
	EMU_CM_DREQ_SENT,
	EMU_CM_DREQ_RCVD,
	EMU_CM_TIMEWAIT,
	EMU_CM_ANSWERED, /* refused, or a SIDR that was answered; kept for duplicates */
	EMU_CM_SIDR_REQ_SENT,
	EMU_CM_SIDR_REQ_RCVD,
};

/*
 * Messages that passed a port, as the kernel counts them: sent, of these repeated, received, of
 * these such as had come before.
 */
enum emu_cm_counter {
	EMU_CM_TX_MSGS,
	EMU_CM_TX_RETRIES,
	EMU_CM_RX_MSGS,
	EMU_CM_RX_DUPLICATES,
	EMU_CM_COUNTERS
};
/* struct emu_cm_counters - @n: REQ, MRA, ... by their attribute IDs up to APR (IBTA 16.7.2) */
#define EMU_CM_MSGS 11
struct emu_cm_counters {
	uint64_t n[EMU_CM_COUNTERS][EMU_CM_MSGS];
};

/*
 * struct emu_cm_port - the device that messages go through
 * @hca:	whose QP1 sends them; what it cannot send is lost, as on a network
 * @counters:	of the device; outlive connections. NULL: nobody wants to know
 * @dev:	the owner's; comes back in @request
 * @guid_be:	node GUID
 * @ack_delay:	local CA ACK delay, 4.096 us * 2^n
 */
struct emu_cm_port {
	struct emu_hca *hca;
	struct emu_cm_counters *counters;
	void *dev;
	uint64_t guid_be;
	uint8_t ack_delay;
};

enum emu_cm_event_type {
	EMU_CM_EV_REQ_ERROR,   /* no answer to the REQ */
	EMU_CM_EV_REP,	       /* msg: the REP */
	EMU_CM_EV_REP_ERROR,   /* no answer to the REP */
	EMU_CM_EV_ESTABLISHED, /* RTU, or emu_cm_established() */
	EMU_CM_EV_REJ,	       /* msg: the REJ */
	EMU_CM_EV_DREQ,
	EMU_CM_EV_DREQ_ERROR, /* no answer to the DREQ */
	EMU_CM_EV_DREP,
	EMU_CM_EV_TIMEWAIT_EXIT,
	EMU_CM_EV_SIDR_ERROR, /* no answer to the SIDR_REQ */
	EMU_CM_EV_SIDR_REP,   /* msg: the SIDR_REP */
};

/*
 * struct emu_cm_ops - what it asks of its surroundings. They may call back into the
 * connection, but must not release it.
 * @request:	a REQ or SIDR_REQ arrived and has a connection; 0 when it was taken (and
 *		emu_cm_set_cookie() called), -ENOENT nobody listens, -ENOMEM not now
 * (nothing is answered, the peer tries again), else refused as by the consumer
 * @event:	something happened to a connection with a cookie
 * @changed:	what emu_cm_farewell() says may be another thing now; also called when the
 *		connection ends
 */
struct emu_cm_ops {
	int (*request)(void *arg, void *dev, struct emu_cm_conn *conn,
		       const struct cm_msg *msg, const struct net_path *path);
	void (*event)(void *arg, void *cookie, enum emu_cm_event_type type,
		      const struct cm_msg *msg);
	void (*changed)(void *arg, struct emu_cm_conn *conn);
};

/*
 * struct emu_cm_cfg
 * @slot:	the process's, for communication IDs
 * @seed:	of the first communication ID, so that those of a predecessor in the slot
 * are not met again soon
 */
struct emu_cm_cfg {
	uint32_t slot;
	uint64_t seed;
};

int emu_cm_create(const struct emu_cm_cfg *cfg, const struct emu_cm_ops *ops, void *arg,
		  struct emu_cm **out);
/* Connections that are left end without a word. */
void emu_cm_destroy(struct emu_cm *cm);
/* Set the time (ns) before calls; never goes back. */
void emu_cm_set_time(struct emu_cm *cm, uint64_t now);
/* A message from QP1 of @port. Whatever cannot be one is ignored. */
void emu_cm_rx(struct emu_cm *cm, const struct emu_cm_port *port,
	       const struct net_path *path, const uint8_t *mad, uint32_t len);
/* Fire the timers that are due. The next deadline. */
uint64_t emu_cm_run(struct emu_cm *cm);

/*
 * struct emu_cm_req - a request for a connection
 * @service_id, @qp_type (IBV_QPT_RC, UC, XRC_SEND), @qpn, @psn, ...: as in struct cm_req
 * @path:	addresses, tclass, ttl, flow label
 * @mtu:	path MTU
 * @lifetime:	packet life time, 4.096 us * 2^n
 * @priv:	@priv_len bytes of private data, at most CM_PRIV_REQ
 * @seen:	see emu_cm_show()
 */
struct emu_cm_req {
	uint64_t service_id;
	enum ibv_qp_type qp_type;
	uint32_t qpn;
	uint32_t psn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t retry_count;
	uint8_t rnr_retry;
	bool flow_control;
	bool srq;
	uint32_t ece_vendor, ece_options;
	struct net_path path;
	enum ibv_mtu mtu;
	uint8_t lifetime;
	const void *priv;
	uint32_t priv_len;
	struct trace_object *seen;
};

/* 0 with *@out, -EINVAL, -ENOMEM */
int emu_cm_connect(struct emu_cm *cm, const struct emu_cm_port *port, void *cookie,
		   const struct emu_cm_req *req, struct emu_cm_conn **out);

/* struct emu_cm_rep - the answer; fields as in struct cm_rep */
struct emu_cm_rep {
	uint32_t qpn;
	uint32_t psn;
	uint8_t responder_resources;
	uint8_t initiator_depth;
	uint8_t rnr_retry;
	bool flow_control;
	bool srq;
	uint32_t ece_vendor, ece_options;
	const void *priv;
	uint32_t priv_len;
};

/*
 * All of these: 0, or -EINVAL when the state does not allow it or the data is too long.
 */
int emu_cm_reply(struct emu_cm_conn *c, const struct emu_cm_rep *rep);
int emu_cm_rtu(struct emu_cm_conn *c);
int emu_cm_reject(struct emu_cm_conn *c, enum cm_rej_reason reason, const void *priv,
		  uint32_t priv_len);
/* Ask for the end, or agree to it. */
int emu_cm_disconnect(struct emu_cm_conn *c);
/* Data arrived before the RTU (the QP's COMM_EST event). */
int emu_cm_established(struct emu_cm_conn *c);
/* The owner takes its time: answer duplicates with an MRA. */
void emu_cm_delay(struct emu_cm_conn *c);

/* Service ID resolution for datagrams: ask, and answer (IBTA 12.11) */
int emu_cm_sidr_ask(struct emu_cm *cm, const struct emu_cm_port *port, void *cookie,
		    const struct emu_cm_req *req, struct emu_cm_conn **out);
int emu_cm_sidr_answer(struct emu_cm_conn *c, enum cm_sidr_status status, uint32_t qpn,
		       uint32_t qkey, const void *priv, uint32_t priv_len);

/*
 * emu_cm_release - the owner is done with @c, in whatever state it is: what the peer
 * should know is sent (REJ, DREQ, DREP), no more events come.
 */
void emu_cm_release(struct emu_cm_conn *c);

/*
 * emu_cm_show - what others see of @c is in @o, a CM ID of the recorder of its device, until it is
 * released. NULL: nothing
 */
void emu_cm_show(struct emu_cm_conn *c, struct trace_object *o);
void emu_cm_set_cookie(struct emu_cm_conn *c, void *cookie);
/* What the REQ of a passive connection asked for */
enum ibv_qp_type emu_cm_qp_type(const struct emu_cm_conn *c);
/*
 * emu_cm_qp_attr - attributes and mask that take a QP to @attr->qp_state (INIT, RTR,
 * RTS); the AH but for its GID index. -EINVAL when the connection is not that far.
 */
int emu_cm_qp_attr(const struct emu_cm_conn *c, struct ibv_qp_attr *attr, int *mask);

/*
 * emu_cm_farewell - what the peer of @c should be told when this process is gone, for
 * somebody else to send: REJ, DREQ, DREP, SIDR_REP. False: it waits for nothing.
 */
bool emu_cm_farewell(const struct emu_cm_conn *c, struct net_path *path,
		     uint8_t mad[CM_MAD_LEN]);
/*
 * emu_cm_peer_gone - the peer's process has ended without a word, as if it had sent what
 * a process that ends sends
 */
void emu_cm_peer_gone(struct emu_cm_conn *c);
/* The peer's communication ID, 0 where it is not known; and its address */
uint32_t emu_cm_remote_id(const struct emu_cm_conn *c);
const struct net_ip *emu_cm_peer(const struct emu_cm_conn *c);
/* A number that the owner keeps with a connection; 0 at first */
void emu_cm_set_tag(struct emu_cm_conn *c, uint32_t tag);
uint32_t emu_cm_tag(const struct emu_cm_conn *c);
/* Call @fn for each connection. */
void emu_cm_for_each(struct emu_cm *cm, void (*fn)(void *arg, struct emu_cm_conn *c),
		     void *arg);

#endif
