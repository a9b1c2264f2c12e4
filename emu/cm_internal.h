/*
 * cm_internal.h - what cm.c, which asks and answers, cm_rx.c, which takes messages, and cm_due.c,
 * which repeats and gives up, share.
 */
#ifndef URXE_EMU_CM_INTERNAL_H
#define URXE_EMU_CM_INTERNAL_H

#include "emu/cm_conn.h"

#define CM_MS 1000000u /* ns */
/* How long an answer is remembered: longer than the response timeout that cm.c asks for */
#define CM_ANSWER_KEPT (5000u * (uint64_t)CM_MS)
/* Answers to a peer who got an MRA, and so does not ask again soon, are repeated unasked. */
#define CM_RESEND_RTO (50u * CM_MS)

#define MRA_TIMEOUT 24 /* as the kernel's RDMA CM has it (cma.c): 4.096 us * 2^24 */

/* 4.096 us * 2^@exp, rounded to milliseconds as the kernel rounds (cm_convert_to_ms()) */
uint64_t cm_time(uint8_t exp);
/*
 * 2^lifetime twice (there and back) plus 2^delay, again as a power of two (IBTA 12.7.34)
 */
uint8_t cm_ack_timeout(uint8_t delay, uint8_t lifetime);
void cm_set_state(struct emu_cm_conn *c, enum emu_cm_state state);
/* @attr: CM_REQ, ... */
void cm_count(const struct emu_cm_port *port, enum emu_cm_counter which,
	      unsigned int attr);
void cm_send_again(struct emu_cm_conn *c);
/* An answer that does not become the message to be repeated */
void cm_send_once(struct emu_cm_conn *c, struct cm_msg *m);
/* Answer @to without a connection; @m has attr and body. */
void cm_send_stateless(const struct emu_cm_port *port, const struct net_path *path,
		       const struct cm_msg *to, struct cm_msg *m);
void cm_emit(struct emu_cm_conn *c, enum emu_cm_event_type type, const struct cm_msg *m);
/* Nothing more comes from the protocol. Frees it if nobody owns it. */
void cm_become_idle(struct emu_cm_conn *c);
void cm_enter_timewait(struct emu_cm_conn *c);
void cm_send_dreq(struct emu_cm_conn *c, uint64_t timeouts);
void cm_send_drep(struct emu_cm_conn *c);

/*
 * cm_show.c: what others see of a connection, and records of it. Its state was @from; @attr was sent,
 * the same as before if @again; a message came
 */
void cm_show(struct emu_cm_conn *c);
void cm_show_state(struct emu_cm_conn *c, enum emu_cm_state from);
void cm_show_sent(struct emu_cm_conn *c, unsigned int attr, bool again);
void cm_show_came(struct emu_cm_conn *c, const struct cm_msg *m);

#endif
