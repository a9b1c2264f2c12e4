/*
 * exp_qp.c - queue pairs by the experimental verbs of MLNX_OFED, see verbs_exp.h: what programs for
 * on-demand paging make and change theirs by.
 *
 * Both go through the program's libibverbs, since the QP must be one of its objects. What only
 * hardware of OFED can do is refused.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "odp/guard.h"
#include "verbs/preload/include/infiniband/verbs_exp.h"
#include "verbs/preload/next_verb.h"
#include "verbs/preload/public.h"

#define PUBLIC __attribute__((visibility("default")))

/* The attributes that are those of ibv_modify_qp(3): the same numbers, in the same places */
#define PLAIN_ATTRS ((1u << 21) - 1)
#define PLAIN_SIZE  (offsetof(struct ibv_qp_attr, alt_timeout) + sizeof(uint8_t))
_Static_assert(offsetof(struct ibv_exp_qp_attr, alt_timeout) ==
		   offsetof(struct ibv_qp_attr, alt_timeout),
	       "layout of ibv_qp_attr");
_Static_assert(IBV_EXP_QP_DEST_QPN == 1 << 20, "the last of them");

#define INIT_KNOWN                                                                       \
	(IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS |                   \
	 IBV_EXP_QP_INIT_ATTR_INL_RECV)

/* 0, or -errno: the context is none of ours */
static int check_context(struct ibv_context *context)
{
	struct uverbs_context *ctx;
	int ret = public_context(context, &ctx);

	if (!ret)
		vfile_put(&ctx->vf);
	return ret;
}

PUBLIC int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr,
			     uint64_t exp_attr_mask)
{
	int (*modify)(struct ibv_qp *, struct ibv_qp_attr *, int);
	struct ibv_exp_qp_attr copy;
	struct ibv_qp_attr plain = {0};
	struct ibv_context *context;
	int ret = 0;

	if (!qp || guard_copy(&context, &qp->context, sizeof(context)) ||
	    guard_copy(&copy, attr, sizeof(copy)))
		return public_result(-EINVAL);
	ret = check_context(context);
	if (!ret && (copy.comp_mask || exp_attr_mask & ~(uint64_t)PLAIN_ATTRS))
		ret = -EINVAL;
	if (ret)
		return public_result(ret);
	memcpy(&plain, &copy, PLAIN_SIZE);
	modify = next_verb("ibv_modify_qp");
	return modify ? modify(qp, &plain, (int)exp_attr_mask) : ENOSYS;
}

/* What is asked for beyond ibv_create_qp(3): 0 or -errno */
static int check_init(const struct ibv_exp_qp_init_attr *a)
{
	if (!(a->comp_mask & IBV_EXP_QP_INIT_ATTR_PD))
		return -EINVAL;
	if (a->comp_mask & ~(uint32_t)INIT_KNOWN)
		return -EOPNOTSUPP;
	if ((a->comp_mask & IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS) && a->exp_create_flags)
		return -EOPNOTSUPP;
	return 0;
}

PUBLIC struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context,
					struct ibv_exp_qp_init_attr *attr)
{
	struct ibv_qp *(*create)(struct ibv_pd *, struct ibv_qp_init_attr *);
	struct ibv_qp_init_attr plain;
	struct ibv_exp_qp_init_attr copy;
	struct ibv_qp *qp;
	int ret = check_context(context);

	if (!ret)
		ret = guard_copy(&copy, attr, sizeof(copy)) ? -EINVAL : check_init(&copy);
	create = ret ? NULL : next_verb("ibv_create_qp");
	if (!create) {
		public_result(ret ? ret : -ENOSYS);
		return NULL;
	}
	plain = (struct ibv_qp_init_attr){
	    .qp_context = copy.qp_context,
	    .send_cq = copy.send_cq,
	    .recv_cq = copy.recv_cq,
	    .srq = copy.srq,
	    .cap = copy.cap,
	    .qp_type = copy.qp_type,
	    .sq_sig_all = copy.sq_sig_all,
	};
	qp = create(copy.pd, &plain);
	if (!qp)
		return NULL;
	attr->cap = plain.cap;
	if (copy.comp_mask & IBV_EXP_QP_INIT_ATTR_INL_RECV)
		attr->max_inl_recv = 0;
	return qp;
}
