/*
 * mw.c - memory windows of type 1 and 2B (IBTA 10.6.7.2; rxe_mw.c for the errors).
 *
 * Owns the binding of a window to an MR and, for type 2B, to a QP. A bound window counts
 * in its MR (which then cannot be deregistered) and is in the list of its QP. Access
 * through windows is checked in mr.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <utlist.h>

#include "emu/qp.h"

/* Rights that a window does not have are accepted and mean nothing, as in rxe_mw.c. */
#define ACCESS_MW                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | EMU_ACCESS_REMOTE | IBV_ACCESS_MW_BIND |               \
	 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | EMU_ACCESS_OPTIONAL)

int emu_mw_alloc(struct emu_pd *pd, enum ibv_mw_type type, struct emu_mw **out)
{
	struct emu_hca *hca = pd->hca;
	struct emu_mw *mw;
	int ret;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return -EINVAL;
	if (!(hca->limits.device_cap_flags &
	      (type == IBV_MW_TYPE_1 ? IBV_DEVICE_MEM_WINDOW
				     : IBV_DEVICE_MEM_WINDOW_TYPE_2B)))
		return -EOPNOTSUPP;
	if (hca->num_mws >= hca->limits.max_mw)
		return -ENOMEM;
	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return -ENOMEM;
	*mw = (struct emu_mw){.k.is_mw = true, .hca = hca, .pd = pd, .type = type};
	ret = emu_key_add(hca, &mw->k);
	if (ret) {
		free(mw);
		return ret;
	}
	pd->users++;
	hca->num_mws++;
	*out = mw;
	return 0;
}

static void unbind(struct emu_mw *mw)
{
	if (mw->mr)
		mw->mr->num_mw--;
	if (mw->qp)
		DL_DELETE(mw->qp->mws, mw);
	mw->mr = NULL;
	mw->qp = NULL;
	mw->addr = mw->length = 0;
	mw->access = 0;
}

int emu_mw_dealloc(struct emu_mw *mw)
{
	unbind(mw);
	emu_key_del(mw->hca, &mw->k);
	mw->pd->users--;
	mw->hca->num_mws--;
	free(mw);
	return 0;
}

uint32_t emu_mw_rkey(const struct emu_mw *mw)
{
	return mw->k.key;
}

static struct emu_mw *find_mw(struct emu_hca *hca, uint32_t rkey)
{
	struct emu_key *k = emu_key_find(hca, rkey);

	return k && k->is_mw ? (struct emu_mw *)k : NULL;
}

static struct emu_mr *find_mr(struct emu_hca *hca, uint32_t lkey)
{
	struct emu_key *k = emu_key_find(hca, lkey);

	return k && !k->is_mw ? (struct emu_mr *)k : NULL;
}

/*
 * IBTA o10-36.2.2 (type 1 is never zero-based), o10-37.2.30 and .40 (type 2 is bound when
 * free)
 */
static int check_window(const struct emu_qp *qp, const struct emu_mw *mw, uint64_t length,
			int access)
{
	if (mw->pd != qp->pd) /* C10-72 */
		return -EINVAL;
	if (mw->type == IBV_MW_TYPE_1)
		return access & IBV_ACCESS_ZERO_BASED ? -EINVAL : 0;
	return mw->mr || length == 0 ? -EINVAL : 0;
}

/* IBTA C10-72..75 */
static int check_region(const struct emu_qp *qp, const struct emu_mr *mr, uint64_t addr,
			uint64_t length, int access)
{
	if (mr->pd != qp->pd || (mr->access & IBV_ACCESS_ZERO_BASED) ||
	    !(mr->access & IBV_ACCESS_MW_BIND))
		return -EINVAL;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return emu_range_in(addr, length, mr->iova, mr->length) ? 0 : -EINVAL;
}

static void bind(struct emu_qp *qp, struct emu_mw *mw, struct emu_mr *mr, uint64_t addr,
		 uint64_t length, int access)
{
	unbind(mw);
	if (!mr)
		return;
	mw->mr = mr;
	mw->addr = addr;
	mw->length = length;
	mw->access = access;
	mr->num_mw++;
	if (mw->type == IBV_MW_TYPE_2) {
		mw->qp = qp;
		DL_APPEND(qp->mws, mw);
	}
}

int emu_mw_bind(struct emu_qp *qp, uint32_t mw_rkey, uint32_t new_rkey, uint32_t mr_lkey,
		uint64_t addr, uint64_t length, int access)
{
	struct emu_mw *mw = find_mw(qp->hca, mw_rkey);
	struct emu_mr *mr = NULL;
	int ret;

	if (!mw)
		return -EINVAL;
	if (access & ~ACCESS_MW)
		return -EOPNOTSUPP;
	ret = check_window(qp, mw, length, access);
	if (ret)
		return ret;
	if (length) {
		mr = find_mr(qp->hca, mr_lkey);
		ret = mr ? check_region(qp, mr, addr, length, access) : -EINVAL;
		if (ret)
			return ret;
	}
	bind(qp, mw, mr, addr, length, access);
	/* only the key part is the consumer's to choose, the rest is ignored (rxe_do_bind_mw()) */
	mw->k.key = (mw_rkey & ~0xffu) | (new_rkey & 0xff);
	return 0;
}

int emu_invalidate_key(struct emu_qp *qp, uint32_t rkey)
{
	struct emu_mw *mw = find_mw(qp->hca, rkey);

	if (!mw || mw->type != IBV_MW_TYPE_2 || !mw->mr || mw->pd != qp->pd)
		return -EINVAL;
	/* a window of type 2B belongs to its QP, for the peer and for the consumer: 10.6.7.2 */
	if (mw->qp != qp)
		return -EINVAL;
	unbind(mw);
	return 0;
}

void emu_mw_qp_gone(struct emu_qp *qp)
{
	while (qp->mws)
		unbind(qp->mws);
}
