/*
 * stress_pair.h - two queue pairs of the stress test, of each kind of connection.
 */
#ifndef URXE_TESTS_LAB_STRESS_PAIR_H
#define URXE_TESTS_LAB_STRESS_PAIR_H

#include <infiniband/verbs.h>

#include "examples/setup.h"

enum pair_kind {
	PAIR_RC,
	PAIR_RC_SRQ,
	PAIR_XRC,
	PAIR_UC,
	PAIR_UD,
	PAIR_KINDS,
};

/*
 * struct pair - "left" sends, "right" receives
 * @srq:	where receives of "right" are posted, or NULL
 * @xrcd, @ah:	of XRC and UD
 */
struct pair {
	enum pair_kind kind;
	struct ibv_qp *left, *right;
	struct ibv_srq *srq;
	struct ibv_xrcd *xrcd;
	struct ibv_ah *ah;
};

const char *pair_name(enum pair_kind kind);
/* Completions of both go to dev->cq. */
void pair_open(struct pair *p, struct device *dev, enum pair_kind kind);
void pair_close(struct pair *p);
/* To be received by "right" */
int pair_post_recv(struct pair *p, struct ibv_recv_wr *wr);
/* From "left" to "right"; completes @wr with what this kind needs */
int pair_post_send(struct pair *p, struct ibv_send_wr *wr);

#endif
