/*
 * names.c - see names.h.
 */
#include "trace/names.h"

#include <stddef.h>

/* struct words - those of a unit, from 0 on */
struct words {
	const char *const *word;
	size_t n;
};
#define WORDS(list)                                                                      \
	{                                                                                \
		list, sizeof(list) / sizeof(list[0])                                     \
	}

#define X(name, text) text,
static const char *const whys[] = {TRACE_WHYS(X)};
static const char *const drops[] = {TRACE_DROPS(X)};
static const char *const causes[] = {TRACE_CAUSES(X)};
static const char *const timers[] = {TRACE_TIMERS(X)};
static const char *const waits[] = {TRACE_WAITS(X)};
static const char *const invals[] = {TRACE_INVALS(X)};
static const char *const objects[] = {TRACE_OBJECTS(X)};
static const char *const verbs[] = {TRACE_VERBS(X)};
static const char *const notes[] = {TRACE_NOTES(X)};
static const char *const cm_states[] = {TRACE_CM_STATES(X)};
static const char *const cm_causes[] = {TRACE_CM_CAUSES(X)};
static const char *const id_states[] = {TRACE_ID_STATES(X)};
#undef X
#define X(id, name, responder, requester, what) name,
static const char *const models[] = {TRACE_MODELS(X)};
#undef X

/* Operation of an opcode, the lower five bits (IBTA table 35; A19 for the last two) */
static const char *const operations[32] = {
    "SEND_FIRST",
    "SEND_MIDDLE",
    "SEND_LAST",
    "SEND_LAST_IMM",
    "SEND_ONLY",
    "SEND_ONLY_IMM",
    "WRITE_FIRST",
    "WRITE_MIDDLE",
    "WRITE_LAST",
    "WRITE_LAST_IMM",
    "WRITE_ONLY",
    "WRITE_ONLY_IMM",
    "READ_REQUEST",
    "READ_RESP_FIRST",
    "READ_RESP_MIDDLE",
    "READ_RESP_LAST",
    "READ_RESP_ONLY",
    "ACK",
    "ATOMIC_ACK",
    "CMP_SWAP",
    "FETCH_ADD",
    NULL,
    "SEND_LAST_INV",
    "SEND_ONLY_INV",
    NULL,
    NULL,
    NULL,
    NULL,
    "FLUSH",
    "ATOMIC_WRITE",
    NULL,
    NULL,
};

/* enum ibv_wr_opcode */
static const char *const wr_opcodes[] = {
    "WRITE",	 "WRITE_IMM", "SEND",	 "SEND_IMM",	"READ", "CMP_SWAP",
    "FETCH_ADD", "LOCAL_INV", "BIND_MW", "SEND_INV",	"TSO",	"DRIVER",
    NULL,	 NULL,	      "FLUSH",	 "ATOMIC_WRITE"};

/* enum ibv_wc_opcode: of send requests; of receive requests from 128 on */
static const char *const wc_opcodes[] = {
    "SEND",    "WRITE",	    "READ", "CMP_SWAP", "FETCH_ADD",
    "BIND_MW", "LOCAL_INV", "TSO",  "FLUSH",	"ATOMIC_WRITE"};
static const char *const recv_opcodes[] = {"RECV", "RECV_WRITE_IMM"};

/* enum ibv_wc_status */
static const char *const statuses[] = {
    "SUCCESS",		"LOC_LEN_ERR",	     "LOC_QP_OP_ERR",	  "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",	"WR_FLUSH_ERR",	     "MW_BIND_ERR",	  "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",	"REM_INV_REQ_ERR",   "REM_ACCESS_ERR",	  "REM_OP_ERR",
    "RETRY_EXC_ERR",	"RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",	"INV_EECN_ERR",	     "INV_EEC_STATE_ERR", "FATAL_ERR",
    "RESP_TIMEOUT_ERR", "GENERAL_ERR"};

/* enum ibv_qp_state */
static const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

/* enum ibv_qp_type */
static const char *const types[] = {NULL, NULL, "RC", "UC",	  "UD",	     NULL,
				    NULL, NULL, NULL, "XRC_SEND", "XRC_RECV"};

/* enum ibv_event_type */
static const char *const events[] = {"CQ_ERR",
				     "QP_FATAL",
				     "QP_REQ_ERR",
				     "QP_ACCESS_ERR",
				     "COMM_EST",
				     "SQ_DRAINED",
				     "PATH_MIG",
				     "PATH_MIG_ERR",
				     "DEVICE_FATAL",
				     "PORT_ACTIVE",
				     "PORT_ERR",
				     "LID_CHANGE",
				     "PKEY_CHANGE",
				     "SM_CHANGE",
				     "SRQ_ERR",
				     "SRQ_LIMIT_REACHED",
				     "QP_LAST_WQE_REACHED",
				     "CLIENT_REREGISTER",
				     "GID_CHANGE",
				     "WQ_FATAL"};

/* Attribute IDs of the communication management class (IBTA table 101), from 0x10 on */
static const char *const cm_messages[] = {"REQ",      "MRA",  "REJ",  "REP",
					  "RTU",      "DREQ", "DREP", "SIDR_REQ",
					  "SIDR_REP", "LAP",  "APR"};

/* enum rdma_cm_event_type */
static const char *const cm_events[] = {
    "ADDR_RESOLVED",   "ADDR_ERROR",	   "ROUTE_RESOLVED", "ROUTE_ERROR",
    "CONNECT_REQUEST", "CONNECT_RESPONSE", "CONNECT_ERROR",  "UNREACHABLE",
    "REJECTED",	       "ESTABLISHED",	   "DISCONNECTED",   "DEVICE_REMOVAL",
    "MULTICAST_JOIN",  "MULTICAST_ERROR",  "ADDR_CHANGE",    "TIMEWAIT_EXIT"};

/* RDMA_USER_CM_CMD_ (rdma/rdma_user_cm.h) */
static const char *const cm_calls[] = {
    "create",	   "destroy",	    "bind_ip",	   "resolve_ip", "resolve_route",
    "query_route", "connect",	    "listen",	   "accept",	 "reject",
    "disconnect",  "init_qp_attr",  "get_event",   "get_option", "set_option",
    "notify",	   "join_ip_mcast", "leave_mcast", "migrate",	 "query",
    "bind",	   "resolve_addr",  "join_mcast"};

/* Why a connection was refused (IBTA 12.6.7.2), those that may be met with RoCE; 0: it was not */
static const char *const cm_reasons[] = {
    [0] = "",
    [1] = "no QP",
    [3] = "no resources",
    [4] = "timeout",
    [5] = "unsupported request",
    [6] = "invalid communication ID",
    [7] = "invalid communication instance",
    [8] = "invalid service ID: nobody listens",
    [9] = "invalid transport type",
    [10] = "stale connection",
    [28] = "refused by the program",
    [35] = "refused by the program: option",
};

static const char *const advices[] = {"read", "write", "no fault"};

/* enum ibv_qp_attr_mask, bit by bit */
static const char *const attrs[] = {"STATE",
				    "CUR_STATE",
				    "EN_SQD_ASYNC_NOTIFY",
				    "ACCESS_FLAGS",
				    "PKEY_INDEX",
				    "PORT",
				    "QKEY",
				    "AV",
				    "PATH_MTU",
				    "TIMEOUT",
				    "RETRY_CNT",
				    "RNR_RETRY",
				    "RQ_PSN",
				    "MAX_QP_RD_ATOMIC",
				    "ALT_PATH",
				    "MIN_RNR_TIMER",
				    "SQ_PSN",
				    "MAX_DEST_RD_ATOMIC",
				    "PATH_MIG_STATE",
				    "CAP",
				    "DEST_QPN"};

static const struct words words[] = {
    [TRACE_OPCODE] = WORDS(operations),	 [TRACE_WR] = WORDS(wr_opcodes),
    [TRACE_WC] = WORDS(wc_opcodes),	 [TRACE_STATUS] = WORDS(statuses),
    [TRACE_STATE] = WORDS(states),	 [TRACE_TYPE] = WORDS(types),
    [TRACE_EVENT] = WORDS(events),	 [TRACE_CM_MSG] = WORDS(cm_messages),
    [TRACE_CM_EVENT] = WORDS(cm_events), [TRACE_CM_CALL] = WORDS(cm_calls),
    [TRACE_ADVICE] = WORDS(advices),	 [TRACE_WHY] = WORDS(whys),
    [TRACE_DROP] = WORDS(drops),	 [TRACE_CAUSE] = WORDS(causes),
    [TRACE_TIMER] = WORDS(timers),	 [TRACE_WAIT] = WORDS(waits),
    [TRACE_MODEL] = WORDS(models),	 [TRACE_INVAL] = WORDS(invals),
    [TRACE_OBJECT] = WORDS(objects),	 [TRACE_VERB] = WORDS(verbs),
    [TRACE_NOTE] = WORDS(notes),	 [TRACE_CM_REASON] = WORDS(cm_reasons),
    [TRACE_CM_STATE] = WORDS(cm_states), [TRACE_CM_CAUSE] = WORDS(cm_causes),
    [TRACE_ID_STATE] = WORDS(id_states),
};

const char *trace_name(enum trace_unit unit, uint64_t value)
{
	const struct words *w;

	if ((size_t)unit >= sizeof(words) / sizeof(words[0]))
		return NULL;
	w = &words[unit];
	if (unit == TRACE_OPCODE)
		value &= 0x1f;
	if (unit == TRACE_CM_MSG)
		value -= 0x10;
	if (unit == TRACE_WC && value >= 128)
		return value - 128 < 2 ? recv_opcodes[value - 128] : NULL;
	return value < w->n ? w->word[value] : NULL;
}

const char *trace_attr_name(unsigned int bit)
{
	return bit < sizeof(attrs) / sizeof(attrs[0]) ? attrs[bit] : NULL;
}
