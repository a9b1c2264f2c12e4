/*
 * xrc.h - the extended reliable connection, and what else librxe lacks of libibverbs's
 * API.
 */
#ifndef URXE_VERBS_PRELOAD_XRC_H
#define URXE_VERBS_PRELOAD_XRC_H

#include <infiniband/verbs.h>

typedef struct ibv_qp *(*xrc_create_qp_ex_fn)(struct ibv_context *context,
					      struct ibv_qp_init_attr_ex *attr);

/* Operations of struct verbs_context */
struct ibv_xrcd *xrc_open_xrcd(struct ibv_context *context,
			       struct ibv_xrcd_init_attr *attr);
int xrc_close_xrcd(struct ibv_xrcd *xrcd);
int xrc_get_srq_num(struct ibv_srq *srq, uint32_t *num);

/* A target QP, made or opened with the help of the provider's @create */
struct ibv_qp *xrc_create_target(xrc_create_qp_ex_fn create, struct ibv_context *context,
				 struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *xrc_open_target(xrc_create_qp_ex_fn create, struct ibv_context *context,
			       struct ibv_qp_open_attr *attr);

/* An initiator QP; xrc_ex.c, for the operations of struct ibv_qp_ex */
struct ibv_qp *xrc_create_initiator(xrc_create_qp_ex_fn create,
				    struct ibv_context *context,
				    struct ibv_qp_init_attr_ex *attr);
/*
 * A QP of the other types, which posts what is built with operations of struct ibv_qp_ex as
 * ordinary work requests; it does so only if all of @attr's operations are such that can
 */
#define XRC_LISTED_OPS                                                                   \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |                \
	 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |                            \
	 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_RDMA_READ |                       \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
struct ibv_qp *xrc_create_listing(xrc_create_qp_ex_fn create, struct ibv_context *context,
				  struct ibv_qp_init_attr_ex *attr);
/* ibv_post_send(3) on it */
int xrc_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* All of the list or nothing; 0 or an error number */
int xrc_post_all(struct ibv_qp *qp, struct ibv_send_wr *wr);

/* ibv_rereg_mr(3); 0 or an error number */
int xrc_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
		 size_t length, int access);

#endif
