/*
 * transport.h - the transport as the rest of emu/ sees it (inside emu/ only).
 *
 * requester.c turns send WQEs into request packets, completer.c takes responses and
 * retires WQEs, responder.c answers requests; transport.c receives, schedules and times.
 */
#ifndef URXE_EMU_TRANSPORT_H
#define URXE_EMU_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

struct emu_hca;
struct emu_qp;
struct net_rx;

/* struct emu_tr_qp - owned by the transport; members are added there */
struct emu_tr_qp {
	void *priv;
};

int tr_hca_init(struct emu_hca *hca);
void tr_hca_fini(struct emu_hca *hca);

/* Life of a QP. init: at creation, state RESET. fini: at destruction, in any state. */
int tr_qp_init(struct emu_qp *qp);
void tr_qp_fini(struct emu_qp *qp);
/*
 * Changes of state; qp->attr, path and mtu are up to date, qp->state is the new one when
 * they are called. reset: forget everything, rings were emptied by the caller. rtr: the
 * responder starts at attr.rq_psn. rts: the requester starts at attr.sq_psn (from SQD:
 * goes on). sqd: stop taking WQEs; when all that were started are complete clear
 * qp->sq_draining and, if attr.en_sqd_async_notify, raise IBV_EVENT_SQ_DRAINED. sqe:
 * UC/UD send error, flush SQ only. error: complete everything with IBV_WC_WR_FLUSH_ERR,
 * SQ and RQ in order.
 */
void tr_qp_reset(struct emu_qp *qp);
void tr_qp_to_rtr(struct emu_qp *qp);
void tr_qp_to_rts(struct emu_qp *qp);
void tr_qp_to_sqd(struct emu_qp *qp);
void tr_qp_to_error(struct emu_qp *qp);
/* Attributes were changed without a change of state (timeout, rnr timer, path, ...) */
void tr_qp_attr_changed(struct emu_qp *qp);
void tr_qp_doorbell(struct emu_qp *qp);
/* PSNs as ibv_query_qp reports them */
void tr_qp_query_psn(const struct emu_qp *qp, uint32_t *sq_psn, uint32_t *rq_psn);

/* Call emu_port_repair() at @when, 0: not any more */
void tr_port_repair_at(struct emu_hca *hca, uint64_t when);
bool tr_run(struct emu_hca *hca);
/* See emu_hca_show() */
void tr_show_in(struct emu_hca *hca);
uint64_t tr_deadline(const struct emu_hca *hca);
bool tr_timer_due(const struct emu_hca *hca);

#endif
