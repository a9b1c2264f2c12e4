/*
 * qp.h - the queue pair: what verbs set (qp.c) and what the transport keeps (inside emu/
 * only).
 *
 * qp.c owns creation and attributes, qp_state.c the state table, the transport owns @tr; it is
 * told of changes of state by the tr_qp_*() functions.
 */
#ifndef URXE_EMU_QP_H
#define URXE_EMU_QP_H

#include "emu/objects.h"
#include "emu/transport.h"

/*
 * struct emu_qp
 * @state:	as ibv_query_qp reports it
 * @sq_draining: in SQD, and the send queue has not come to rest
 * @attr:	current attributes (all masks merged): psn, dest_qp_num, timeouts, rd_atomic ...
 * @path:	from attr.ah_attr, connected QPs only
 * @mtu:	path MTU in bytes
 * @sq, @rq:	rings; @rq is absent (buf NULL) with an SRQ and for XRC, @sq for XRC_RECV
 * @xrc_pd:	XRC_RECV: PD of the SRQ that the request at hand names; set by the responder
 * @mws:	type 2B windows bound to it
 * @tr:		the transport's part
 * @refused:	the last modify was
 * @seen:	what the recorder shows of it
 */
struct emu_qp {
	struct emu_hca *hca;
	enum ibv_qp_type type;
	uint32_t qpn;
	struct emu_pd *pd;
	struct emu_cq *send_cq, *recv_cq;
	struct emu_srq *srq;
	struct emu_xrcd *xrcd;
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	bool sq_draining, refused;
	void *owner, *cookie;
	enum ibv_qp_state state;
	struct ibv_qp_attr attr;
	struct net_path path;
	uint32_t mtu;
	uint32_t mcast_groups;
	struct emu_ring sq, rq;
	const struct emu_pd *xrc_pd;
	struct emu_mw *mws;
	struct emu_tr_qp tr;
	struct trace_object *seen;
	struct emu_qp *next, **prevp; /* of all QPs of the HCA */
};

/* An event of the QP */
static inline void emu_qp_event(struct emu_qp *qp, enum ibv_event_type type)
{
	emu_event(qp->hca, type, TRACE_OBJ_QP, qp->qpn, qp->cookie);
}

/*
 * emu_qp_show_state - the QP has entered another state than @from, because of @cause, and
 * of a completion with @status where that is the cause
 */
void emu_qp_show_state(struct emu_qp *qp, enum ibv_qp_state from, enum trace_cause cause,
		       enum ibv_wc_status status);

/*
 * emu_qp_fail - the transport found a fatal error: the QP enters ERR, its queues are flushed;
 * @event raised if not 0 (enum ibv_event_type; 0 is CQ_ERR, no event of a QP). Nothing happens in
 * RESET, and when the QP is in ERR already. @cause, @status: see emu_qp_show_state()
 */
void emu_qp_fail(struct emu_qp *qp, int event, enum trace_cause cause,
		 enum ibv_wc_status status);

/*
 * emu_qp_mask - what of the attributes @mask concerns such a QP: who modifies one half of an XRC
 * connection may name those of the other, too (modify_qp_mask() of the kernel)
 */
int emu_qp_mask(enum ibv_qp_type type, int mask);
/*
 * struct emu_qp_value - a value that is given for an attribute, and its limits; @name is that of
 * the member of struct ibv_qp_attr
 */
struct emu_qp_value {
	const char *name;
	uint32_t value, min, max;
};
/* The first attribute of @mask whose value is none that the device has, in *@v; 0: all are good */
uint32_t emu_qp_wrong_value(const struct emu_qp *qp, const struct ibv_qp_attr *attr,
			    int mask, struct emu_qp_value *v);

/*
 * emu_qp_transition - what the state table says of the attributes @mask: false if there is no
 * such transition; else in *@missing and *@extra what it lacks and what it must not have
 */
bool emu_qp_transition(enum ibv_qp_type type, enum ibv_qp_state from,
		       enum ibv_qp_state to, int mask, uint32_t *missing,
		       uint32_t *extra);
/* Does the state table allow it? @mask: the attributes given */
bool emu_qp_transition_ok(enum ibv_qp_type type, enum ibv_qp_state from,
			  enum ibv_qp_state to, int mask);

#endif
