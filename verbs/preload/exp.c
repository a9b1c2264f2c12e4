/*
 * exp.c - the experimental verbs of MLNX_OFED for on-demand paging, see verbs_exp.h.
 *
 * Prefetch and capabilities come from the core; registration goes through ibv_reg_mr() of
 * the program's libibverbs, since the MR must be one of its objects.
 */
#include "verbs/preload/include/infiniband/verbs_exp.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "odp/guard.h"
#include "verbs/preload/next_verb.h"
#include "verbs/preload/public.h"

#define PUBLIC __attribute__((visibility("default")))

/* Members that are reported */
#define ATTR_KNOWN                                                                       \
	((uint32_t)IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |                                   \
	 (uint32_t)IBV_EXP_DEVICE_ATTR_ODP | (uint32_t)IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE)
/* What an HCA of ours cannot do */
#define ACCESS_UNSUPPORTED                                                               \
	(IBV_EXP_ACCESS_ALLOCATE_MR | IBV_EXP_ACCESS_SHARED_MR_USER_READ |               \
	 IBV_EXP_ACCESS_SHARED_MR_USER_WRITE | IBV_EXP_ACCESS_SHARED_MR_GROUP_READ |     \
	 IBV_EXP_ACCESS_SHARED_MR_GROUP_WRITE | IBV_EXP_ACCESS_SHARED_MR_OTHER_READ |    \
	 IBV_EXP_ACCESS_SHARED_MR_OTHER_WRITE | IBV_EXP_ACCESS_NO_RDMA |                 \
	 IBV_EXP_ACCESS_MW_ZERO_BASED | IBV_EXP_ACCESS_PHYSICAL_ADDR |                   \
	 IBV_EXP_ACCESS_TUNNELED_ATOMIC)

/* --- prefetch --------------------------------------------------------------------- */

/*
 * The page knows three errors. What only means that nothing was prefetched is none of
 * them: the call is a hint.
 */
static int prefetch_outcome(int ret)
{
	switch (ret) {
	case -EFAULT:
	case -EINVAL:
		return ret;
	case -EPERM: /* write access to an MR that has none */
		return -EINVAL;
	default:
		return 0;
	}
}

static int prefetch(const struct public_mr *m, const struct ibv_exp_prefetch_attr *a)
{
	bool write = a->flags & IBV_EXP_PREFETCH_WRITE_ACCESS;
	uint64_t off = (uintptr_t)a->addr - m->memory.start;

	if (a->comp_mask || (a->flags & ~(uint32_t)IBV_EXP_PREFETCH_WRITE_ACCESS) ||
	    !m->on_demand)
		return -EINVAL;
	if (off > m->memory.length || a->length > m->memory.length - off)
		return -EFAULT;
	return prefetch_outcome(odp_prefetch(m->odp, m->memory.iova + off, a->length,
					     write ? ODP_PREFETCH_WRITE : ODP_PREFETCH));
}

PUBLIC int ibv_exp_prefetch_mr(struct ibv_mr *mr, struct ibv_exp_prefetch_attr *attr)
{
	struct ibv_exp_prefetch_attr copy;
	struct public_mr m;
	int ret = public_mr(mr, &m);

	if (ret)
		return public_result(ret);
	ret = guard_copy(&copy, attr, sizeof(copy));
	if (!ret)
		ret = prefetch(&m, &copy);
	public_mr_put(&m);
	return public_result(ret);
}

/* --- registration ----------------------------------------------------------------- */

/* The flags of ibv_reg_mr(3), or -errno */
static int64_t plain_access(const struct ibv_exp_reg_mr_in *in)
{
	uint64_t exp = in->exp_access & ~(uint64_t)UINT32_MAX;
	uint32_t access = (uint32_t)in->exp_access;

	if (in->comp_mask >= IBV_EXP_REG_MR_RESERVED ||
	    in->exp_access >= IBV_EXP_ACCESS_RESERVED || access > INT32_MAX)
		return -EINVAL;
	if ((exp & ACCESS_UNSUPPORTED) || (in->comp_mask & IBV_EXP_REG_MR_DM) ||
	    ((in->comp_mask & IBV_EXP_REG_MR_CREATE_FLAGS) && in->create_flags))
		return -EOPNOTSUPP;
	exp &= ~(uint64_t)(IBV_EXP_ACCESS_ON_DEMAND | IBV_EXP_ACCESS_RELAXED);
	if (exp)
		return -EINVAL;
	if (in->exp_access & IBV_EXP_ACCESS_ON_DEMAND)
		access |= IBV_ACCESS_ON_DEMAND;
	return access;
}

#undef ibv_reg_mr
PUBLIC struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	struct ibv_mr *(*reg)(struct ibv_pd *, void *, size_t, int);
	struct ibv_exp_reg_mr_in copy;
	struct uverbs_context *ctx;
	struct ibv_pd pd;
	int64_t access;
	int ret;

	if (guard_copy(&copy, in, offsetof(struct ibv_exp_reg_mr_in, dm)) ||
	    guard_copy(&pd, copy.pd, sizeof(pd))) {
		errno = EINVAL;
		return NULL;
	}
	ret = public_context(pd.context, &ctx);
	if (ret) {
		public_result(ret);
		return NULL;
	}
	vfile_put(&ctx->vf);
	access = plain_access(&copy);
	if (access < 0) {
		errno = (int)-access;
		return NULL;
	}
	reg = next_verb("ibv_reg_mr");
	return reg ? reg(copy.pd, copy.addr, copy.length, (int)access) : NULL;
}

/* --- capabilities ----------------------------------------------------------------- */

/* Both structures are the same up to here, but for one member. */
_Static_assert(offsetof(struct ibv_exp_device_attr, phys_port_cnt) ==
		   offsetof(struct ibv_device_attr, phys_port_cnt),
	       "layout of ibv_device_attr");

static void fill_attr(struct ibv_exp_device_attr *to,
		      const struct ibv_device_attr_ex *from)
{
	const struct ibv_odp_caps *odp = &from->odp_caps;
	bool on_demand = odp->general_caps & IBV_ODP_SUPPORT;

	memset(to, 0, sizeof(*to));
	memcpy(to, &from->orig_attr,
	       offsetof(struct ibv_device_attr, phys_port_cnt) +
		   sizeof(to->phys_port_cnt));
	to->reserved = 0;
	to->exp_device_cap_flags =
	    from->orig_attr.device_cap_flags | (on_demand ? IBV_EXP_DEVICE_ODP : 0);
	to->odp_caps.general_odp_caps =
	    odp->general_caps & (IBV_EXP_ODP_SUPPORT | IBV_EXP_ODP_SUPPORT_IMPLICIT);
	to->odp_caps.per_transport_caps.rc_odp_caps = odp->per_transport_caps.rc_odp_caps;
	to->odp_caps.per_transport_caps.uc_odp_caps = odp->per_transport_caps.uc_odp_caps;
	to->odp_caps.per_transport_caps.ud_odp_caps = odp->per_transport_caps.ud_odp_caps;
	to->odp_caps.per_transport_caps.xrc_odp_caps = from->xrc_odp_caps;
	to->odp_mr_max_size = on_demand ? from->orig_attr.max_mr_size : 0;
}

PUBLIC int ibv_exp_query_device(struct ibv_context *context,
				struct ibv_exp_device_attr *attr)
{
	struct ibv_device_attr_ex known = {0};
	struct ibv_exp_device_attr out;
	struct uverbs_context *ctx;
	uint32_t asked;
	int ret = public_context(context, &ctx);

	if (ret)
		return public_result(ret);
	engine_enter(ctx->engine);
	emu_query_device(ctx->hca, &known);
	engine_progress(ctx->engine, ENGINE_CHANGED);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	if (!attr || guard_copy(&asked, &attr->comp_mask, sizeof(asked)))
		return public_result(-EFAULT);
	fill_attr(&out, &known);
	out.comp_mask = asked & ATTR_KNOWN;
	return public_result(guard_copy(attr, &out, sizeof(out)));
}
