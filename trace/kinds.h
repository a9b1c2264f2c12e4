/*
 * kinds.h - the one table of what is recorded: kinds of records, their fields, names, units.
 *
 * The writer's structures (recorder.h), the decoder, text and JSON (reader.h, render.h) and the
 * page in docs/ are all made from, or checked against, the tables in this file. Includes nothing
 * of urxe and knows no layer: a record says what happened, in the terms of the IBTA.
 *
 * A field's bytes never change their place or meaning: new fields come behind the old ones, new
 * kinds at the end; anything else is a new TRACE_VERSION (format.h).
 */
#ifndef URXE_TRACE_KINDS_H
#define URXE_TRACE_KINDS_H

#include <stdint.h>

#include "trace/counters.h"
#include "trace/models.h"

/* --- names of numbers ------------------------------------------------------------- */

/*
 * Each table is X(NAME, "text"), counted from 0. The numbers of IBTA and of verbs (states,
 * statuses, opcodes) have their names in names.c.
 */

/* Why a packet was sent */
#define TRACE_WHYS(X)                                                                    \
	X(FIRST, "first")                                                                \
	X(RETRY_TIMEOUT, "again: no acknowledge in time")                                \
	X(RETRY_NAK, "again: sequence NAK")                                              \
	X(RETRY_IMPLIED, "again: a response was lost")                                   \
	X(RETRY_RNR, "again: peer was not ready")                                        \
	X(RETRY_FAULT, "again: page fault here")                                         \
	X(RESPONSE, "response")                                                          \
	X(RESPONSE_AGAIN, "response again: duplicate request")                           \
	X(ACK, "acknowledge")                                                            \
	X(NAK, "negative acknowledge")                                                   \
	X(RNR, "receiver not ready")                                                     \
	X(MAD, "management datagram")

/* Why a packet was thrown away */
#define TRACE_DROPS(X)                                                                   \
	X(MALFORMED, "malformed")                                                        \
	X(PKEY, "wrong P_Key")                                                           \
	X(QKEY, "wrong Q_Key")                                                           \
	X(NO_QP, "no such QP")                                                           \
	X(TRANSPORT, "QP of another transport")                                          \
	X(NOT_PEER, "from an address that is not the peer's")                            \
	X(QP_STATE, "QP is not ready to receive")                                        \
	X(DUPLICATE, "duplicate request")                                                \
	X(OUT_OF_SEQUENCE, "a request before it is missing")                             \
	X(GHOST, "response to nothing outstanding")                                      \
	X(AFTER_RNR, "follows one that was not ready")                                   \
	X(FAULT, "page fault, by the fault model")                                       \
	X(NO_RECEIVE, "no receive request posted")                                       \
	X(TOO_LONG, "longer than the receive request")                                   \
	X(GAP, "unreliable message with a packet missing")                               \
	X(ICRC, "wrong ICRC")                                                            \
	X(NO_OWNER, "nobody here has the QPN")                                           \
	X(IMPAIRED, "impairment")                                                        \
	X(UNSENT, "could not be sent")                                                   \
	X(PORT_DOWN, "the port is down")

/* Why a QP changed its state */
#define TRACE_CAUSES(X)                                                                  \
	X(MODIFY, "ibv_modify_qp")                                                       \
	X(CREATE, "created")                                                             \
	X(DESTROY, "destroyed")                                                          \
	X(COMPLETION, "a send request failed")                                           \
	X(RESPONDER, "a request of the peer was refused")                                \
	X(CQ_OVERRUN, "its CQ is full")                                                  \
	X(SEND_QUEUE, "error of an unreliable send queue")                               \
	X(DEVICE, "error of the device")

/* Which timer fired */
#define TRACE_TIMERS(X)                                                                  \
	X(ACK, "acknowledge timeout")                                                    \
	X(RNR, "RNR wait over")                                                          \
	X(FAULT, "page fault wait over")                                                 \
	X(RESPONDER, "responder's wait over")

/* What a queue's head waits for */
#define TRACE_WAITS(X)                                                                   \
	X(NONE, "nothing")                                                               \
	X(ACK, "acknowledge")                                                            \
	X(RNR, "peer not ready")                                                         \
	X(FAULT, "page fault")                                                           \
	X(FENCE, "fence: READs before it")                                               \
	X(CREDIT, "max_rd_atomic: READs before it")                                      \
	X(WINDOW, "packets under way")                                                   \
	X(PORT, "room in the transmit path")                                             \
	X(STATE, "the QP to be in RTS")

/* How pages were lost */
#define TRACE_INVALS(X)                                                                  \
	X(CALL, "call of the program or event of the kernel")                            \
	X(STALE, "found gone at an access")                                              \
	X(FORK, "fork")                                                                  \
	X(SCRIPT, "scripted")                                                            \
	X(ALL, "too many at once: everything")                                           \
	X(UNMAP, "munmap")                                                               \
	X(REPLACE, "mmap over it")                                                       \
	X(REMAP, "mremap")                                                               \
	X(DISCARD, "madvise")                                                            \
	X(PROTECT, "mprotect")                                                           \
	X(FILE, "its file became shorter")                                               \
	X(SEGMENT, "shmdt or shmat")                                                     \
	X(EVENT, "kernel: unmapped, moved or discarded")

/* States of a connection's protocol: IBTA 12.9.5 (active side), 12.9.6 (passive), 12.11 (SIDR) */
#define TRACE_CM_STATES(X)                                                               \
	X(IDLE, "idle")                                                                  \
	X(REQ_SENT, "REQ sent")                                                          \
	X(REQ_RCVD, "REQ received")                                                      \
	X(MRA_REQ_SENT, "REQ received, to be answered")                                  \
	X(MRA_REQ_RCVD, "REQ sent, peer asks for time")                                  \
	X(REP_SENT, "REP sent")                                                          \
	X(REP_RCVD, "REP received")                                                      \
	X(MRA_REP_SENT, "REP received, to be agreed to")                                 \
	X(MRA_REP_RCVD, "REP sent, peer asks for time")                                  \
	X(ESTABLISHED, "established")                                                    \
	X(DREQ_SENT, "DREQ sent")                                                        \
	X(DREQ_RCVD, "DREQ received")                                                    \
	X(TIMEWAIT, "time wait")                                                         \
	X(ANSWERED, "answered")                                                          \
	X(SIDR_REQ_SENT, "SIDR_REQ sent")                                                \
	X(SIDR_REQ_RCVD, "SIDR_REQ received")

/* Why that state changed */
#define TRACE_CM_CAUSES(X)                                                               \
	X(CALL, "call of the program")                                                   \
	X(MESSAGE, "message of the peer")                                                \
	X(TIME, "time is up")                                                            \
	X(PEER_GONE, "process of the peer is gone")

/* States of a CM ID, by the names of the kernel */
#define TRACE_ID_STATES(X)                                                               \
	X(IDLE, "IDLE")                                                                  \
	X(ADDR_BOUND, "ADDR_BOUND")                                                      \
	X(ADDR_RESOLVED, "ADDR_RESOLVED")                                                \
	X(ROUTE_RESOLVED, "ROUTE_RESOLVED")                                              \
	X(CONNECT, "CONNECT")                                                            \
	X(DISCONNECT, "DISCONNECT")                                                      \
	X(LISTEN, "LISTEN")                                                              \
	X(DESTROYED, "DESTROYED")

/* Objects of the HCA */
#define TRACE_OBJECTS(X)                                                                 \
	X(FREE, "free")                                                                  \
	X(DEVICE, "device")                                                              \
	X(PD, "PD")                                                                      \
	X(MR, "MR")                                                                      \
	X(MW, "MW")                                                                      \
	X(CQ, "CQ")                                                                      \
	X(SRQ, "SRQ")                                                                    \
	X(QP, "QP")                                                                      \
	X(AH, "AH")                                                                      \
	X(XRCD, "XRCD")                                                                  \
	X(CM_ID, "CM ID")                                                                \
	X(CHANNEL, "channel")                                                            \
	X(NOTE, "note")                                                                  \
	X(MODULE, "module")                                                              \
	X(STACK, "call stack")

/* What a note (struct trace_note) says is wrong */
#define TRACE_NOTES(X)                                                                   \
	X(KEY, "unknown key")                                                            \
	X(KEY_PD, "key of another PD")                                                   \
	X(KEY_RIGHT, "access right missing")                                             \
	X(KEY_RANGE, "outside of the MR")                                                \
	X(MEMORY, "memory not there")                                                    \
	X(QP_RIGHT, "access right of the QP missing")                                    \
	X(RECEIVE_SMALL, "receive request too small")                                    \
	X(PATH_MTU, "path MTU")                                                          \
	X(REQUEST, "request that makes no sense")                                        \
	X(REFUSED, "peer refused a request")                                             \
	X(NO_ANSWER, "no answer")                                                        \
	X(LOST, "packets are lost")                                                      \
	X(PSN, "PSNs that do not match")                                                 \
	X(NO_PEER_QP, "no such QP")                                                      \
	X(PEER_STATE, "peer's QP is not ready")                                          \
	X(NO_PEER, "nobody has the address")                                             \
	X(NOT_READY, "peer has no receive request")                                      \
	X(NO_CREDIT, "max_rd_atomic is 0")                                               \
	X(MODIFY, "ibv_modify_qp refused")                                               \
	X(POST, "posted in a wrong state")                                               \
	X(REG_MR, "ibv_reg_mr refused")                                                  \
	X(CQ_OVERRUN, "CQ overrun")                                                      \
	X(UNSIGNALED, "no signalled request")                                            \
	X(FAULT, "page fault")                                                           \
	X(EVENTS, "event not acknowledged")                                              \
	X(QKEY, "wrong Q_Key")                                                           \
	X(NO_RECEIVE, "datagram without a receive request")                              \
	X(NOT_RTR, "packets before RTR")

/* Verbs that make and end objects */
#define TRACE_VERBS(X)                                                                   \
	X(CREATE, "create")                                                              \
	X(DESTROY, "destroy")                                                            \
	X(MODIFY, "modify")                                                              \
	X(RESIZE, "resize")                                                              \
	X(ATTACH, "attach")                                                              \
	X(DETACH, "detach")

#define X(name, text) TRACE_WHY_##name,
enum trace_why { TRACE_WHYS(X) TRACE_N_WHYS };
#undef X
#define X(name, text) TRACE_DROP_##name,
enum trace_drop { TRACE_DROPS(X) TRACE_N_DROPS };
#undef X
#define X(name, text) TRACE_CAUSE_##name,
enum trace_cause { TRACE_CAUSES(X) TRACE_N_CAUSES };
#undef X
#define X(name, text) TRACE_TIMER_##name,
enum trace_timer { TRACE_TIMERS(X) TRACE_N_TIMERS };
#undef X
#define X(name, text) TRACE_WAIT_##name,
enum trace_wait { TRACE_WAITS(X) TRACE_N_WAITS };
#undef X
#define X(id, name, responder, requester, what) TRACE_MODEL_##id,
enum trace_model { TRACE_MODELS(X) TRACE_N_MODELS };
#undef X
#define X(name, text) TRACE_INVAL_##name,
enum trace_inval { TRACE_INVALS(X) TRACE_N_INVALS };
#undef X
#define X(name, text) TRACE_CM_STATE_##name,
enum trace_cm_state { TRACE_CM_STATES(X) TRACE_N_CM_STATES };
#undef X
#define X(name, text) TRACE_CM_CAUSE_##name,
enum trace_cm_cause { TRACE_CM_CAUSES(X) TRACE_N_CM_CAUSES };
#undef X
#define X(name, text) TRACE_ID_##name,
enum trace_id_state { TRACE_ID_STATES(X) TRACE_N_ID_STATES };
#undef X
#define X(name, text) TRACE_OBJ_##name,
enum trace_object_kind { TRACE_OBJECTS(X) TRACE_N_OBJECTS };
#undef X
#define X(name, text) TRACE_NOTE_##name,
enum trace_note_code { TRACE_NOTES(X) TRACE_N_NOTES };
#undef X
#define X(name, text) TRACE_VERB_##name,
enum trace_verb { TRACE_VERBS(X) TRACE_N_VERBS };
#undef X

/* --- units ------------------------------------------------------------------------ */

/*
 * What a field is, which says how it is shown. NUM: a number. HEX: a key or a mask. The
 * others are named by the tables above, or in names.c.
 */
enum trace_unit {
	TRACE_NUM,
	TRACE_HEX,
	TRACE_QPN,
	TRACE_PSN,
	TRACE_BYTES,
	TRACE_NS,
	TRACE_PAGES,
	TRACE_ADDR,
	TRACE_BOOL,
	TRACE_IP,
	TRACE_ERRNO,
	TRACE_SYNDROME,
	TRACE_OPCODE,	/* of a packet (IBTA table 35) */
	TRACE_WR,	/* enum ibv_wr_opcode */
	TRACE_WC,	/* enum ibv_wc_opcode */
	TRACE_STATUS,	/* enum ibv_wc_status */
	TRACE_STATE,	/* enum ibv_qp_state */
	TRACE_TYPE,	/* enum ibv_qp_type */
	TRACE_EVENT,	/* enum ibv_event_type */
	TRACE_CM_MSG,	/* attribute of a CM MAD (IBTA 12.6) */
	TRACE_CM_EVENT, /* enum rdma_cm_event_type */
	TRACE_CM_CALL,	/* RDMA_USER_CM_CMD_ */
	TRACE_ADVICE,	/* enum ibv_advise_mr_advice */
	TRACE_ATTR,	/* enum ibv_qp_attr_mask */
	TRACE_WHY,
	TRACE_DROP,
	TRACE_CAUSE,
	TRACE_TIMER,
	TRACE_WAIT,
	TRACE_MODEL,
	TRACE_INVAL,
	TRACE_OBJECT,
	TRACE_VERB,
	TRACE_NOTE,
	TRACE_CM_REASON, /* of a REJ (IBTA 12.6.7.2) */
	TRACE_CM_STATE,
	TRACE_CM_CAUSE,
	TRACE_ID_STATE,
	TRACE_N_UNITS,
};

/* How much a record matters */
enum trace_severity {
	TRACE_DETAIL, /* one of the busiest kinds: in full traces only */
	TRACE_INFO,
	TRACE_NOTICE, /* costs time */
	TRACE_WARNING,
	TRACE_ERROR,
};

typedef struct trace_ip {
	uint8_t b[16]; /* IPv6, or IPv4 mapped to it */
} trace_ip;

/* --- kinds ------------------------------------------------------------------------ */

#define TRACE_PAYLOAD 40 /* bytes of fields in a record, at most */

/*
 * Fields: F(S, type, name, unit), where S is the structure that has them as members.
 */
#define TRACE_FIELDS_PACKET(F, S)                                                        \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint32_t, peer, QPN)                                                        \
	F(S, uint32_t, psn, PSN)                                                         \
	F(S, uint8_t, opcode, OPCODE)                                                    \
	F(S, uint8_t, why, WHY)                                                          \
	F(S, uint8_t, syndrome, SYNDROME)                                                \
	F(S, uint8_t, ack_req, BOOL)                                                     \
	F(S, uint32_t, length, BYTES)                                                    \
	F(S, uint32_t, msn, NUM)                                                         \
	F(S, uint64_t, va, ADDR)                                                         \
	F(S, uint32_t, rkey, HEX)                                                        \
	F(S, uint32_t, dma_length, BYTES)

#define TRACE_FIELDS_drop(F, S)                                                          \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint32_t, psn, PSN)                                                         \
	F(S, trace_ip, from, IP)                                                         \
	F(S, uint8_t, opcode, OPCODE)                                                    \
	F(S, uint8_t, why, DROP)                                                         \
	F(S, uint16_t, unused, NUM)                                                      \
	F(S, uint32_t, length, BYTES)

#define TRACE_FIELDS_post_send(F, S)                                                     \
	F(S, uint64_t, wr_id, ADDR)                                                      \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint8_t, opcode, WR)                                                        \
	F(S, uint8_t, flags, HEX)                                                        \
	F(S, uint16_t, num_sge, NUM)                                                     \
	F(S, uint64_t, va, ADDR)                                                         \
	F(S, uint32_t, rkey, HEX)                                                        \
	F(S, uint32_t, length, BYTES)                                                    \
	F(S, uint32_t, number, NUM)

#define TRACE_FIELDS_begin_send(F, S)                                                    \
	F(S, uint64_t, wr_id, ADDR)                                                      \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint32_t, psn, PSN)                                                         \
	F(S, uint32_t, packets, NUM)                                                     \
	F(S, uint32_t, number, NUM)                                                      \
	F(S, uint32_t, length, BYTES)                                                    \
	F(S, uint8_t, opcode, WR)

#define TRACE_FIELDS_take_receive(F, S)                                                  \
	F(S, uint64_t, wr_id, ADDR)                                                      \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint32_t, srq, NUM)                                                         \
	F(S, uint32_t, num_sge, NUM)                                                     \
	F(S, uint32_t, left, NUM)                                                        \
	F(S, uint64_t, length, BYTES)

#define TRACE_FIELDS_POST_RECEIVE(F, S)                                                  \
	F(S, uint64_t, wr_id, ADDR)                                                      \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint32_t, srq, NUM)                                                         \
	F(S, uint64_t, addr, ADDR)                                                       \
	F(S, uint64_t, length, BYTES)                                                    \
	F(S, uint32_t, lkey, HEX)                                                        \
	F(S, uint16_t, num_sge, NUM)                                                     \
	F(S, uint8_t, late, BOOL)

#define TRACE_FIELDS_COMPLETION(F, S)                                                    \
	F(S, uint64_t, wr_id, ADDR)                                                      \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint32_t, cq, NUM)                                                          \
	F(S, uint8_t, status, STATUS)                                                    \
	F(S, uint8_t, opcode, WC)                                                        \
	F(S, uint8_t, receive, BOOL)                                                     \
	F(S, uint8_t, flags, HEX)                                                        \
	F(S, uint32_t, length, BYTES)                                                    \
	F(S, uint32_t, unpolled, NUM)

#define TRACE_FIELDS_poll(F, S)                                                          \
	F(S, uint32_t, cq, NUM)                                                          \
	F(S, uint32_t, count, NUM)

#define TRACE_FIELDS_arm_cq(F, S)                                                        \
	F(S, uint32_t, cq, NUM)                                                          \
	F(S, uint8_t, solicited, BOOL)

#define TRACE_FIELDS_cq_event(F, S) F(S, uint32_t, cq, NUM)

#define TRACE_FIELDS_timer(F, S)                                                         \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint32_t, psn, PSN)                                                         \
	F(S, uint8_t, timer, TIMER)                                                      \
	F(S, uint8_t, retries_left, NUM)

#define TRACE_FIELDS_qp_state(F, S)                                                      \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint8_t, from, STATE)                                                       \
	F(S, uint8_t, to, STATE)                                                         \
	F(S, uint8_t, cause, CAUSE)                                                      \
	F(S, uint8_t, status, STATUS)

#define TRACE_FIELDS_fault(F, S)                                                         \
	F(S, uint64_t, addr, ADDR)                                                       \
	F(S, uint64_t, duration, NS)                                                     \
	F(S, uint32_t, mr, HEX)                                                          \
	F(S, uint32_t, pages, PAGES)                                                     \
	F(S, uint32_t, made, PAGES)                                                      \
	F(S, uint8_t, write, BOOL)                                                       \
	F(S, uint8_t, remote, BOOL)                                                      \
	F(S, uint8_t, model, MODEL)                                                      \
	F(S, uint8_t, unused, NUM)                                                       \
	F(S, int32_t, result, ERRNO)

#define TRACE_FIELDS_fault_wait(F, S)                                                    \
	F(S, uint64_t, addr, ADDR)                                                       \
	F(S, uint64_t, latency, NS)                                                      \
	F(S, uint32_t, mr, HEX)                                                          \
	F(S, uint32_t, pages, PAGES)                                                     \
	F(S, uint8_t, write, BOOL)                                                       \
	F(S, uint8_t, remote, BOOL)                                                      \
	F(S, uint8_t, model, MODEL)

#define TRACE_FIELDS_invalidate(F, S)                                                    \
	F(S, uint64_t, addr, ADDR)                                                       \
	F(S, uint64_t, length, BYTES)                                                    \
	F(S, uint64_t, pages, PAGES)                                                     \
	F(S, uint32_t, mr, HEX)                                                          \
	F(S, uint8_t, cause, INVAL)

#define TRACE_FIELDS_prefetch(F, S)                                                      \
	F(S, uint64_t, addr, ADDR)                                                       \
	F(S, uint64_t, length, BYTES)                                                    \
	F(S, uint64_t, duration, NS)                                                     \
	F(S, uint32_t, mr, HEX)                                                          \
	F(S, uint32_t, pages, PAGES)                                                     \
	F(S, int32_t, result, ERRNO)                                                     \
	F(S, uint8_t, advice, ADVICE)

#define TRACE_FIELDS_evict(F, S)                                                         \
	F(S, uint64_t, addr, ADDR)                                                       \
	F(S, uint32_t, mr, HEX)

#define TRACE_FIELDS_reg_mr(F, S)                                                        \
	F(S, uint64_t, addr, ADDR)                                                       \
	F(S, uint64_t, length, BYTES)                                                    \
	F(S, uint64_t, iova, ADDR)                                                       \
	F(S, uint32_t, mr, HEX)                                                          \
	F(S, uint32_t, pd, NUM)                                                          \
	F(S, uint32_t, access, HEX)                                                      \
	F(S, int32_t, result, ERRNO)

#define TRACE_FIELDS_create_qp(F, S)                                                     \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint32_t, pd, NUM)                                                          \
	F(S, uint32_t, send_cq, NUM)                                                     \
	F(S, uint32_t, recv_cq, NUM)                                                     \
	F(S, uint32_t, srq, NUM)                                                         \
	F(S, uint32_t, max_send_wr, NUM)                                                 \
	F(S, uint32_t, max_recv_wr, NUM)                                                 \
	F(S, uint8_t, type, TYPE)                                                        \
	F(S, uint8_t, sig_all, BOOL)                                                     \
	F(S, uint8_t, max_send_sge, NUM)                                                 \
	F(S, uint8_t, max_recv_sge, NUM)                                                 \
	F(S, int32_t, result, ERRNO)

#define TRACE_FIELDS_modify_qp(F, S)                                                     \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint32_t, mask, ATTR)                                                       \
	F(S, uint32_t, peer, QPN)                                                        \
	F(S, uint32_t, rq_psn, PSN)                                                      \
	F(S, uint32_t, sq_psn, PSN)                                                      \
	F(S, int32_t, result, ERRNO)                                                     \
	F(S, uint8_t, from, STATE)                                                       \
	F(S, uint8_t, to, STATE)                                                         \
	F(S, uint8_t, timeout, NUM)                                                      \
	F(S, uint8_t, retry_cnt, NUM)                                                    \
	F(S, uint8_t, rnr_retry, NUM)                                                    \
	F(S, uint8_t, min_rnr_timer, NUM)                                                \
	F(S, uint8_t, max_rd_atomic, NUM)                                                \
	F(S, uint8_t, max_dest_rd_atomic, NUM)                                           \
	F(S, uint16_t, path_mtu, BYTES)                                                  \
	F(S, uint16_t, access, HEX)                                                      \
	F(S, uint32_t, refused, ATTR)

#define TRACE_FIELDS_verb(F, S)                                                          \
	F(S, uint8_t, object, OBJECT)                                                    \
	F(S, uint8_t, verb, VERB)                                                        \
	F(S, uint16_t, unused, NUM)                                                      \
	F(S, uint32_t, id, NUM)                                                          \
	F(S, uint32_t, parent, NUM)                                                      \
	F(S, uint32_t, size, NUM)                                                        \
	F(S, int32_t, result, ERRNO)

#define TRACE_FIELDS_async_event(F, S)                                                   \
	F(S, uint8_t, event, EVENT)                                                      \
	F(S, uint8_t, object, OBJECT)                                                    \
	F(S, uint16_t, unused, NUM)                                                      \
	F(S, uint32_t, id, HEX)

#define TRACE_FIELDS_cm_message(F, S)                                                    \
	F(S, trace_ip, peer, IP)                                                         \
	F(S, uint32_t, local_id, HEX)                                                    \
	F(S, uint32_t, remote_id, HEX)                                                   \
	F(S, uint32_t, qpn, QPN)                                                         \
	F(S, uint16_t, message, CM_MSG)                                                  \
	F(S, uint16_t, reason, CM_REASON)                                                \
	F(S, uint8_t, sent, BOOL)                                                        \
	F(S, uint8_t, again, BOOL)                                                       \
	F(S, uint16_t, port, NUM)

#define TRACE_FIELDS_cm_event(F, S)                                                      \
	F(S, uint32_t, id, NUM)                                                          \
	F(S, int32_t, status, NUM)                                                       \
	F(S, uint8_t, event, CM_EVENT)

#define TRACE_FIELDS_cm_call(F, S)                                                       \
	F(S, uint32_t, id, NUM)                                                          \
	F(S, int32_t, result, ERRNO)                                                     \
	F(S, uint8_t, call, CM_CALL)                                                     \
	F(S, uint8_t, state, ID_STATE)                                                   \
	F(S, uint16_t, private_length, BYTES)                                            \
	F(S, uint32_t, qp, QPN)

#define TRACE_FIELDS_cm_state(F, S)                                                      \
	F(S, uint32_t, id, NUM)                                                          \
	F(S, uint8_t, from, CM_STATE)                                                    \
	F(S, uint8_t, to, CM_STATE)                                                      \
	F(S, uint8_t, cause, CM_CAUSE)

#define TRACE_FIELDS_cm_given(F, S)                                                      \
	F(S, uint32_t, id, NUM)                                                          \
	F(S, int32_t, status, NUM)                                                       \
	F(S, uint64_t, waited, NS)                                                       \
	F(S, uint8_t, event, CM_EVENT)

#define TRACE_FIELDS_cm_address(F, S)                                                    \
	F(S, trace_ip, local, IP)                                                        \
	F(S, trace_ip, remote, IP)                                                       \
	F(S, uint32_t, id, NUM)                                                          \
	F(S, uint16_t, local_port, NUM)                                                  \
	F(S, uint16_t, remote_port, NUM)

#define TRACE_FIELDS_qp_path(F, S)                                                       \
	F(S, trace_ip, local, IP)                                                        \
	F(S, trace_ip, remote, IP)                                                       \
	F(S, uint32_t, qpn, QPN)

#define TRACE_FIELDS_called_from(F, S) F(S, uint32_t, stack, NUM)

#define TRACE_FIELDS_note(F, S)                                                          \
	F(S, uint32_t, note, NUM)                                                        \
	F(S, uint32_t, id, HEX)                                                          \
	F(S, uint8_t, object, OBJECT)                                                    \
	F(S, uint8_t, cause, NOTE)

#define TRACE_FIELDS_port(F, S)                                                          \
	F(S, uint8_t, up, BOOL)                                                          \
	F(S, uint8_t, unused, NUM)                                                       \
	F(S, uint16_t, mtu, BYTES)

#define TRACE_FIELDS_gid(F, S)                                                           \
	F(S, trace_ip, gid, IP)                                                          \
	F(S, uint32_t, index, NUM)

/*
 * Kinds: X(name, fields, severity, text). In the text {field} stands for a field's value, and
 * {field:text} for text if the field is not 0.
 */
#define TRACE_KINDS(X)                                                                   \
	X(none, cq_event, DETAIL, "")                                                    \
	X(packet_out, PACKET, DETAIL,                                                    \
	  "QP {qpn} sends {opcode} PSN {psn}, {length}, to QP {peer}")                   \
	X(packet_again, PACKET, WARNING,                                                 \
	  "QP {qpn} sends {opcode} PSN {psn}, {length}, to QP {peer} {why}")             \
	X(nak_out, PACKET, WARNING, "QP {qpn} sends {syndrome} PSN {psn} to QP {peer}")  \
	X(packet_in, PACKET, DETAIL, "QP {qpn} gets {opcode} PSN {psn}, {length}")       \
	X(nak_in, PACKET, WARNING, "QP {qpn} gets {syndrome} PSN {psn}")                 \
	X(drop, drop, WARNING,                                                           \
	  "dropped {opcode} PSN {psn} for QP {qpn} from {from}: {why}")                  \
	X(post_send, post_send, DETAIL,                                                  \
	  "QP {qpn} post {opcode} wr_id {wr_id}, {length} in {num_sge} SGEs")            \
	X(begin_send, begin_send, DETAIL,                                                \
	  "QP {qpn} begins {opcode} wr_id {wr_id}, {packets} packets from PSN {psn}")    \
	X(take_receive, take_receive, DETAIL,                                            \
	  "QP {qpn} takes receive request wr_id {wr_id}, {length}; {left} left")         \
	X(completion, COMPLETION, DETAIL,                                                \
	  "QP {qpn} completion {opcode} wr_id {wr_id}, {length}, CQ {cq}: {status}")     \
	X(completion_error, COMPLETION, ERROR,                                           \
	  "QP {qpn} completion wr_id {wr_id}, CQ {cq}: {status}")                        \
	X(poll, poll, DETAIL, "CQ {cq} poll: {count} completions")                       \
	X(arm_cq, arm_cq, DETAIL, "CQ {cq} armed{solicited: for solicited ones}")        \
	X(cq_event, cq_event, DETAIL, "CQ {cq} completion event")                        \
	X(timer, timer, NOTICE,                                                          \
	  "QP {qpn} {timer} at PSN {psn}, {retries_left} retries left")                  \
	X(qp_state, qp_state, INFO, "QP {qpn} {from} -> {to}: {cause}")                  \
	X(qp_failed, qp_state, ERROR, "QP {qpn} {from} -> {to}: {cause}, {status}")      \
	X(fault, fault, NOTICE,                                                          \
	  "page fault of MR {mr} at {addr}, {pages}{write: to write}"                    \
	  "{remote: for a peer}: {made} made present in {duration}")                     \
	X(fault_failed, fault, ERROR,                                                    \
	  "page fault of MR {mr} at {addr}, {pages}{write: to write}"                    \
	  "{remote: for a peer}: {result}")                                              \
	X(fault_wait, fault_wait, NOTICE,                                                \
	  "page fault of MR {mr} at {addr}, {pages}{write: to write}"                    \
	  "{remote: for a peer} takes {latency} (model {model})")                        \
	X(invalidate, invalidate, INFO,                                                  \
	  "MR {mr} loses {pages} in {length} at {addr}: {cause}")                        \
	X(prefetch, prefetch, INFO,                                                      \
	  "prefetch of MR {mr} at {addr}, {length}: {pages} in {duration}, {result}")    \
	X(evict, evict, NOTICE, "MR {mr} loses the page at {addr} to the bound")         \
	X(reg_mr, reg_mr, INFO,                                                          \
	  "MR {mr} of {length} at {addr} registered, access {access}: {result}")         \
	X(rereg_mr, reg_mr, INFO,                                                        \
	  "MR {mr} of {length} at {addr} registered again, access {access}: {result}")   \
	X(create_qp, create_qp, INFO,                                                    \
	  "QP {qpn} {type} created, CQs {send_cq} and {recv_cq}: {result}")              \
	X(modify_qp, modify_qp, INFO, "QP {qpn} modify {mask}: {result}")                \
	X(modify_refused, modify_qp, ERROR,                                              \
	  "QP {qpn} modify {mask} in {from}: {result}{refused: because of} {refused}")   \
	X(verb, verb, INFO, "{object} {id} {verb}: {result}")                            \
	X(verb_failed, verb, WARNING, "{object} {id} {verb}: {result}")                  \
	X(async_event, async_event, INFO, "event {event} of {object} {id}")              \
	X(cm_message, cm_message, INFO,                                                  \
	  "CM {message}{sent: to} {peer}{again: again}, IDs {local_id} and {remote_id}"  \
	  "{reason:: }{reason}")                                                         \
	X(cm_event, cm_event, INFO, "CM ID {id}: {event}, status {status}")              \
	X(cm_call, cm_call, INFO, "CM ID {id}: {call}: {result}")                        \
	X(port, port, INFO, "port{up: up}, MTU {mtu}")                                   \
	X(gid, gid, INFO, "GID {index} is {gid}")                                        \
	X(note, note, ERROR, "{object} {id}: {cause}, see note {note}")                  \
	X(called_from, called_from, DETAIL, "called from stack {stack}")                 \
	X(qp_path, qp_path, INFO, "QP {qpn} is at {local}, its peer at {remote}")        \
	X(cm_state, cm_state, INFO, "CM ID {id} {from} -> {to}: {cause}")                \
	X(cm_given, cm_given, INFO, "CM ID {id}: {event} given to the program")          \
	X(cm_address, cm_address, INFO,                                                  \
	  "CM ID {id} is at {local} port {local_port}, its peer at {remote} port "       \
	  "{remote_port}")                                                               \
	X(post_receive, POST_RECEIVE, DETAIL,                                            \
	  "QP {qpn} post RECV wr_id {wr_id}, {length} in {num_sge} SGEs"                 \
	  "{late:, seen when a message came}")                                           \
	X(post_srq_receive, POST_RECEIVE, DETAIL,                                        \
	  "SRQ {srq} post RECV wr_id {wr_id}, {length} in {num_sge} SGEs"                \
	  "{late:, seen when a message came}")

#define X(name, fields, severity, text) TRACE_KIND_##name,
enum trace_kind { TRACE_KINDS(X) TRACE_N_KINDS };
#undef X

/* The fields of each kind as a structure: struct trace_rec_packet_out, ... */
#define TRACE_MEMBER_(S, type, name, unit) type name;
#define X(name, fields, severity, text)                                                  \
	struct trace_rec_##name {                                                        \
		TRACE_FIELDS_##fields(TRACE_MEMBER_, )                                   \
	};                                                                               \
	_Static_assert(sizeof(struct trace_rec_##name) <= TRACE_PAYLOAD, #name);
TRACE_KINDS(X)
#undef X
#undef TRACE_MEMBER_

/* The kinds of the severity DETAIL, a bit for each */
#define TRACE_DETAIL_BIT_  1
#define TRACE_INFO_BIT_	   0
#define TRACE_NOTICE_BIT_  0
#define TRACE_WARNING_BIT_ 0
#define TRACE_ERROR_BIT_   0
#define X(name, fields, severity, text)                                                  \
	((uint64_t)TRACE_##severity##_BIT_ << TRACE_KIND_##name) |
static const uint64_t trace_busy_kinds = TRACE_KINDS(X) 0;
#undef X

_Static_assert(TRACE_N_KINDS <= 64, "a bit for each kind");

#endif
