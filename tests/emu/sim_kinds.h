/*
 * sim_kinds.h - the steps that scenarios are made of, and the kinds that there are.
 */
#ifndef URXE_TESTS_SIM_KINDS_H
#define URXE_TESTS_SIM_KINDS_H

#include "sim_gen.h"

#define BIT(s) (1u << (s)) /* of a completion status, in a mask of them */

/* sim_kinds.c */

/* Run until nothing is left to do */
void kind_rest(struct sim_world *w);
/* The same; everything must have succeeded on QPs to which nothing may happen */
void kind_settle(struct sim_world *w);
/* Error all QPs: what is posted is flushed; then memory must be right */
void kind_finish(struct sim_world *w);
/* kind_settle() and kind_finish() */
void kind_judge(struct sim_world *w);
struct sim_host *kind_any_host(struct sim_world *w);
/* One to @max connected pairs; false: no room, as with all that follow */
bool kind_pairs(struct sim_world *w, enum ibv_qp_type type, uint32_t max, bool srq);
/* A network, memory and two or three hosts */
bool kind_world(struct sim_world *w, bool lossless, bool hostile_memory);
/* How many operations a QP's program has */
uint32_t kind_ops(struct sim_world *w);
/* Programs, mostly both ways; the receives that they need; both */
void kind_sends(struct sim_world *w);
bool kind_recvs(struct sim_world *w);
bool kind_programs(struct sim_world *w);
/* Begin to post, receives up to @late ns apart */
void kind_start(struct sim_world *w, uint64_t late);
/* Messages that are not too long to be received anywhere */
void kind_small_mtus(struct sim_world *w);
/* An SRQ on each host; receives for all that comes to it */
bool kind_srqs(struct sim_world *w);
bool kind_srqs_fill(struct sim_world *w);

/* sim_kinds_rc.c, sim_kinds_dgram.c, sim_kinds_error.c, sim_kinds_retry.c */

void kind_rc(struct sim_world *w);
void kind_srq(struct sim_world *w);
void kind_xrc(struct sim_world *w);
void kind_atomic(struct sim_world *w);
void kind_sqd(struct sim_world *w);
void kind_cq(struct sim_world *w);
void kind_kill(struct sim_world *w);
/* Error, reset or destroy a QP: @val % 3 */
void kind_kill_qp(struct sim_world *w, void *arg, uint64_t val);
void kind_stall(struct sim_world *w);
void kind_uc(struct sim_world *w);
void kind_ud(struct sim_world *w);
void kind_error(struct sim_world *w);
void kind_vanish(struct sim_world *w);
void kind_mw(struct sim_world *w);
void kind_sqe(struct sim_world *w);
void kind_retry(struct sim_world *w);
void kind_recover(struct sim_world *w);
void kind_rnr(struct sim_world *w);

#endif
