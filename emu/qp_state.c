/*
 * qp_state.c - the QP state table: which transition, with which attributes.
 *
 * IBTA 10.3.1 and table 91 (attributes by transition), in the reading of the kernel's
 * ib_modify_qp_is_ok(): what is not required and not optional is an error. An alternate path
 * is optional nowhere: the kernel has them for InfiniBand only (_ib_modify_qp()).
 *
 *	RESET -> INIT -> RTR -> RTS <-> SQD;  SQE -> RTS
 *	all -> RESET;  all but RESET -> ERR
 *
 * SQE is entered only by an error of a UC or UD send queue.
 */
#include "emu/qp.h"

enum kind {
	RC,
	UC,
	UD,
	XS, /* XRC_SEND: the requester's half of an RC QP */
	XR, /* XRC_RECV: the responder's half */
	KINDS,
};

#define PKEY	IBV_QP_PKEY_INDEX
#define PORT	IBV_QP_PORT
#define QKEY	IBV_QP_QKEY
#define RIGHTS	IBV_QP_ACCESS_FLAGS
#define CUR	IBV_QP_CUR_STATE
#define MIG	IBV_QP_PATH_MIG_STATE
#define RNR	IBV_QP_MIN_RNR_TIMER
#define SQD_EV	IBV_QP_EN_SQD_ASYNC_NOTIFY
#define SQ_PSN	IBV_QP_SQ_PSN
#define TIMEOUT IBV_QP_TIMEOUT
#define PEER	(IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define ANSWER	(IBV_QP_MAX_DEST_RD_ATOMIC | RNR)
#define ASK	(TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

#define SETUP	 (PKEY | PORT | RIGHTS)
#define SETUP_UD (PKEY | PORT | QKEY)
#define RUN	 (CUR | RIGHTS | MIG)
#define MOVE	 (IBV_QP_AV | RIGHTS | PKEY | MIG)

/* struct rule - a transition; @need and @may by kind of QP */
struct rule {
	uint8_t from, to;
	uint32_t need[KINDS], may[KINDS];
};

#define SAME(x, ud)                                                                      \
	{                                                                                \
		[RC] = (x), [UC] = (x), [UD] = (ud), [XS] = (x), [XR] = (x)              \
	}
#define RUNNING                                                                          \
	{                                                                                \
		[RC] = RUN | RNR, [UC] = RUN, [UD] = CUR | QKEY, [XS] = RUN,             \
		[XR] = RUN | RNR                                                         \
	}

static const struct rule rules[] = {
    {.from = IBV_QPS_RESET, .to = IBV_QPS_INIT, .need = SAME(SETUP, SETUP_UD)},
    {.from = IBV_QPS_INIT, .to = IBV_QPS_INIT, .may = SAME(SETUP, SETUP_UD)},
    {.from = IBV_QPS_INIT,
     .to = IBV_QPS_RTR,
     .need = {[RC] = PEER | ANSWER, [UC] = PEER, [XS] = PEER, [XR] = PEER | ANSWER},
     .may = SAME(RIGHTS | PKEY, PKEY | QKEY)},
    {.from = IBV_QPS_RTR,
     .to = IBV_QPS_RTS,
     .need = {[RC] = ASK | SQ_PSN,
	      [UC] = SQ_PSN,
	      [UD] = SQ_PSN,
	      [XS] = ASK | SQ_PSN,
	      [XR] = TIMEOUT | SQ_PSN},
     .may = RUNNING},
    {.from = IBV_QPS_RTS, .to = IBV_QPS_RTS, .may = RUNNING},
    {.from = IBV_QPS_RTS, .to = IBV_QPS_SQD, .may = SAME(SQD_EV, SQD_EV)},
    {.from = IBV_QPS_SQD, .to = IBV_QPS_RTS, .may = RUNNING},
    {.from = IBV_QPS_SQD,
     .to = IBV_QPS_SQD,
     .may = {[RC] = MOVE | PORT | ASK | ANSWER,
	     [UC] = MOVE,
	     [UD] = PKEY | QKEY,
	     [XS] = MOVE | PORT | ASK,
	     [XR] = MOVE | PORT | TIMEOUT | ANSWER}},
    {.from = IBV_QPS_SQE,
     .to = IBV_QPS_RTS,
     .may = {[UC] = CUR | RIGHTS, [UD] = CUR | QKEY}},
};

int emu_qp_mask(enum ibv_qp_type type, int mask)
{
	switch (type) {
	case IBV_QPT_XRC_SEND:
		return mask & ~(int)ANSWER;
	case IBV_QPT_XRC_RECV:
		return mask & ~(int)(ASK & ~TIMEOUT);
	default:
		return mask;
	}
}

static enum kind kind_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
		return RC;
	case IBV_QPT_UC:
		return UC;
	case IBV_QPT_XRC_SEND:
		return XS;
	case IBV_QPT_XRC_RECV:
		return XR;
	default:
		return UD;
	}
}

static const struct rule *find_rule(enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].from == from && rules[i].to == to)
			return &rules[i];
	return NULL;
}

bool emu_qp_transition(enum ibv_qp_type type, enum ibv_qp_state from,
		       enum ibv_qp_state to, int mask, uint32_t *missing, uint32_t *extra)
{
	enum kind kind = kind_of(type);
	const struct rule *r;
	uint32_t given = (uint32_t)mask & ~(uint32_t)IBV_QP_STATE;

	*missing = *extra = 0;
	if (from > IBV_QPS_ERR || to > IBV_QPS_ERR)
		return false;
	if (to == IBV_QPS_RESET || (to == IBV_QPS_ERR && from != IBV_QPS_RESET)) {
		*extra = given;
		return true;
	}
	r = find_rule(from, to);
	if (!r)
		return false;
	*missing = r->need[kind] & ~given;
	*extra = given & ~(r->need[kind] | r->may[kind]);
	return true;
}

bool emu_qp_transition_ok(enum ibv_qp_type type, enum ibv_qp_state from,
			  enum ibv_qp_state to, int mask)
{
	uint32_t missing, extra;

	return emu_qp_transition(type, from, to, mask, &missing, &extra) && !missing &&
	       !extra;
}
