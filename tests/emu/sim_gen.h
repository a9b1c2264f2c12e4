/*
 * sim_gen.h - what is drawn for the scenarios of sim_kinds.c: their worlds (sim_gen_world.c), operations
 * (sim_gen_ops.c), receive WQEs and schedules (sim_gen_schedule.c).
 */
#ifndef URXE_TESTS_SIM_GEN_H
#define URXE_TESTS_SIM_GEN_H

#include "sim.h"

void gen_net(struct sim_world *w, bool lossless);
void gen_mem(struct sim_world *w, bool hostile);
/* Move pages @n times within @span ns from now */
void gen_moves(struct sim_world *w, uint64_t span, uint32_t n);
void gen_prefetches(struct sim_world *w, uint64_t span, uint32_t n);

uint32_t gen_len(struct sim_world *w, uint32_t mtu, uint32_t max);
struct sim_mr *gen_mr(struct sim_host *h, enum sim_arena_kind a);
void gen_sge(struct sim_host *h, struct sim_sge *s, enum sim_arena_kind a, uint32_t off,
	     uint32_t len);
/* SGEs for @len bytes to be sent, or to be received; how many */
uint32_t gen_sources(struct sim_host *h, struct sim_sge *sge, uint32_t len);
uint32_t gen_targets(struct sim_host *h, struct sim_sge *sge, uint32_t len);
void gen_remote(struct sim_op *op, struct sim_host *h, enum sim_arena_kind a,
		uint32_t off);

/* Append one operation to the program; NULL: no room */
struct sim_op *gen_op(struct sim_qp *q);
struct sim_op *gen_op_of(struct sim_qp *q, uint32_t opcode);
void gen_ops(struct sim_qp *q, uint32_t n);
struct sim_recv *gen_recv(struct sim_host *h, struct sim_rq *rq, uint64_t tag,
			  uint32_t len);
bool gen_recvs(struct sim_qp *q, uint32_t extra);

/* Post the rest of the program within about @span ns; receives up to @late ns apart */
void gen_send_schedule(struct sim_qp *q, uint64_t span);
void gen_recv_schedule(struct sim_world *w, struct sim_rq *rq, uint64_t late);

bool gen_hosts(struct sim_world *w, uint32_t n);
struct sim_qp *gen_qp(struct sim_host *h, enum ibv_qp_type type, bool srq);
bool gen_pair(struct sim_world *w, struct sim_host *a, struct sim_host *b,
	      enum ibv_qp_type type, bool srq);
bool gen_connect(struct sim_world *w);

/* sim_kinds.c: build, run and judge one scenario */
void sim_scenario(struct sim_world *w);

#endif
