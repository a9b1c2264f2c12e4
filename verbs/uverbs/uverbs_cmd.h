/*
 * uverbs_cmd.h - the commands of the uverbs device by number (uverbs_write.c finds and calls
 * them).
 *
 * Each parses the request that <rdma/ib_user_verbs.h> defines, and answers. 0 or -errno.
 */
#ifndef URXE_VERBS_UVERBS_UVERBS_CMD_H
#define URXE_VERBS_UVERBS_UVERBS_CMD_H

#include "verbs/uverbs/uverbs.h"

struct uobject *uverbs_cmd_find(struct uverbs_call *c, enum uobject_type type,
				uint32_t handle);
/* The answer to a creation: when it cannot be delivered, nothing was created. */
int uverbs_cmd_created(struct uverbs_call *c, struct uobject *o, const void *resp,
		       size_t len, const void *hw, size_t hw_len);
/* rxe writes all of its part or refuses */
bool uverbs_cmd_no_room(const struct uverbs_call *c, size_t len);
/* The end of an object with events: a CQ, SRQ or QP, whose requests look the same */
int uverbs_cmd_destroy(struct uverbs_call *c, enum uobject_type type,
		       struct uverbs_reported *rep);

/* uverbs_cmd_device.c */
int uverbs_cmd_get_context(struct uverbs_call *c);
int uverbs_cmd_query_device(struct uverbs_call *c);
int uverbs_cmd_ex_query_device(struct uverbs_call *c);
int uverbs_cmd_query_port(struct uverbs_call *c);
int uverbs_cmd_create_comp_channel(struct uverbs_call *c);
int uverbs_cmd_alloc_pd(struct uverbs_call *c);
int uverbs_cmd_reg_mr(struct uverbs_call *c);
int uverbs_cmd_rereg_mr(struct uverbs_call *c);
int uverbs_cmd_alloc_mw(struct uverbs_call *c);
int uverbs_cmd_create_ah(struct uverbs_call *c);
int uverbs_cmd_dealloc_pd(struct uverbs_call *c);
int uverbs_cmd_dereg_mr(struct uverbs_call *c);
int uverbs_cmd_dealloc_mw(struct uverbs_call *c);
int uverbs_cmd_destroy_ah(struct uverbs_call *c);
int uverbs_cmd_close_xrcd(struct uverbs_call *c);
int uverbs_cmd_open_xrcd(struct uverbs_call *c);

/* uverbs_cmd_queue.c */
int uverbs_cmd_create_cq(struct uverbs_call *c);
int uverbs_cmd_ex_create_cq(struct uverbs_call *c);
int uverbs_cmd_resize_cq(struct uverbs_call *c);
int uverbs_cmd_req_notify_cq(struct uverbs_call *c);
int uverbs_cmd_destroy_cq(struct uverbs_call *c);
int uverbs_cmd_create_srq(struct uverbs_call *c);
int uverbs_cmd_create_xsrq(struct uverbs_call *c);
int uverbs_cmd_modify_srq(struct uverbs_call *c);
int uverbs_cmd_query_srq(struct uverbs_call *c);
int uverbs_cmd_destroy_srq(struct uverbs_call *c);

/* uverbs_cmd_qp.c */
/*
 * Is there a way to what @attr describes? As the kernel does not make an address handle, nor connect a
 * QP, where it knows no route (ib_resolve_eth_dmac()). 0 or -ENETUNREACH ...
 */
int uverbs_route(const struct uverbs_context *ctx, const struct ibv_ah_attr *attr);
int uverbs_cmd_create_qp(struct uverbs_call *c);
int uverbs_cmd_ex_create_qp(struct uverbs_call *c);
int uverbs_cmd_open_qp(struct uverbs_call *c);
int uverbs_cmd_query_qp(struct uverbs_call *c);
int uverbs_cmd_modify_qp(struct uverbs_call *c);
int uverbs_cmd_ex_modify_qp(struct uverbs_call *c);
int uverbs_cmd_destroy_qp(struct uverbs_call *c);
int uverbs_cmd_post_send(struct uverbs_call *c);
int uverbs_cmd_attach_mcast(struct uverbs_call *c);
int uverbs_cmd_detach_mcast(struct uverbs_call *c);

#endif
