/*
 * hca.h - what the tests of queue pairs and queues share.
 */
#ifndef URXE_TESTS_LAB_HCA_H
#define URXE_TESTS_LAB_HCA_H

#include "lab.h"

#define SGES 32

/* RC, with as many SGEs as the HCA has */
extern const struct ibv_qp_init_attr usual;

/* Both queue pairs anew, and connected, with these attributes; CQs that are not given are l->cq */
void remake(struct lab *l, struct ibv_qp_init_attr attr);
/* Its state */
struct ibv_qp_attr query(struct ibv_qp *qp);

/* Does @fd become readable within @ms? */
bool readable(int fd, int ms);
/* The next asynchronous event, which must be this */
struct ibv_async_event expect_event(struct lab *l, enum ibv_event_type type);
void expect_no_event(struct lab *l);

/* struct request - one of one SGE, or of none */
struct request {
	enum ibv_wr_opcode op;
	struct ibv_mr *mr;
	const void *p;
	uint32_t len;
	unsigned int flags;
	struct ibv_mr *rmr;
	const void *rp;
	uint64_t id;
	bool no_sge;
};

/* Post one on "left"; the result of ibv_post_send() */
int try_post(struct lab *l, struct request r);
/* ... which must be taken */
void post(struct lab *l, struct request r);
/* The next completion, which must be this */
struct ibv_wc expect_wc(struct lab *l, enum ibv_wc_status status,
			enum ibv_wc_opcode opcode);

#endif
