/*
 * sim_model.h - what the parts of the model share (sim_model*.c only).
 */
#ifndef URXE_TESTS_SIM_MODEL_H
#define URXE_TESTS_SIM_MODEL_H

#include "sim.h"

/* sim_model.c */
const char *model_status_name(uint32_t s);

/* sim_model_memory.c: the shadow of the memory */
/* The bytes that @op sends */
void model_op_data(const struct sim_qp *q, const struct sim_op *op, uint8_t *out);
/* Data lands in SGEs; false: there is not enough room */
bool model_scatter(struct sim_host *h, const struct sim_sge *sge, uint32_t n,
		   const uint8_t *data, uint32_t len);
/* What is in these SGEs may be anything from now on */
void model_forgive(struct sim_host *h, const struct sim_sge *sge, uint32_t n);
struct sim_arena *model_remote(const struct sim_qp *q, const struct sim_op *op);
/* The effect of an operation that succeeded */
void model_apply(struct sim_qp *q, struct sim_op *op);

/* sim_model_recv.c: a completion of receive WQE @i, matched with a message of the peer */
void model_recv_wc(struct sim_qp *q, struct sim_rq *rq, const struct ib_uverbs_wc *wc,
		   uint32_t i);

#endif
