/*
 * side.h - what the programs of the corpus share, and what is right in all of them: a device with
 * two connected RC queue pairs, whose error paths give back all that was made.
 *
 * Each program is built twice: with a fault in an error path, and with -DMENDED without it. The line
 * that a sweep should point at ends in the comment HERE.
 */
#ifndef URXE_TESTS_SWEEP_SIDE_H
#define URXE_TESTS_SWEEP_SIDE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef MENDED
#define FAULTY 0
#else
#define FAULTY 1
#endif

#define SIDE_BYTES 8192u
#define SIDE_WAIT_MS                                                                     \
	300 /* of CPU time: a crowded machine takes longer, and none of it away */

/*
 * struct side - @channel: of @cq; @buf: the memory of @mr, on-demand
 */
struct side {
	struct ibv_context *ctx;
	struct ibv_comp_channel *channel;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *left, *right;
	union ibv_gid gid;
	char *buf;
};

/* All but the QPs; false: nothing is left */
bool side_open(struct side *s);
/* A QP of the side; NULL */
struct ibv_qp *side_qp(struct side *s);
/* Both QPs connected with each other; false: whoever calls closes the side */
bool side_connect(struct side *s);
/* All that there is goes */
void side_close(struct side *s);

/* SEND of @len bytes from "left"; 0 or an error number */
int side_post(struct side *s, uint32_t len);
/* A receive request for "right"; 0 or an error number */
int side_receive(struct side *s);
/* One completion by polling; false: none came in time */
bool side_wait(struct side *s, struct ibv_wc *wc);

#endif
