/*
 * mr.c - memory regions: registration, keys, and who may touch what.
 *
 * Owns the table of keys, which MRs share with MWs, and the checks of L_Keys and R_Keys
 * (IBTA 10.6.3, 9.7.4.1.5). Knows no page and no fault: memory is odp/'s, a check hands
 * out a reference to it, so that a deregistration never pulls memory from under an
 * access.
 *
 * An L_Key and the R_Key of an MR are one number: the id in the table and 8 bits that
 * differ from those of the id's previous owner.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "emu/diagnose.h"

#define ACCESS_KNOWN                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | EMU_ACCESS_REMOTE | IBV_ACCESS_MW_BIND |               \
	 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |             \
	 EMU_ACCESS_OPTIONAL)

static uint8_t next_key(struct emu_hca *hca, uint8_t last)
{
	return last + 1 + emu_rand(hca) % 255;
}

int emu_key_add(struct emu_hca *hca, struct emu_key *k)
{
	uint32_t id;
	uint8_t last;
	int ret = emu_table_add(&hca->keys, k, &id, &last);

	if (!ret)
		k->key = id << 8 | next_key(hca, last);
	return ret;
}

void emu_key_del(struct emu_hca *hca, struct emu_key *k)
{
	emu_table_del(&hca->keys, k->key >> 8, k->key & 0xff);
}

struct emu_key *emu_key_find(struct emu_hca *hca, uint32_t key)
{
	struct emu_key *k = emu_table_get(&hca->keys, key >> 8);

	return k && k->key == key ? k : NULL;
}

/*
 * ib_check_mr_access(). rxe takes IB_ACCESS_FLUSH_PERSISTENT for persistent memory only;
 * here all memory counts as such, so that programs written for it can be tried.
 */
static int check_access(int access)
{
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return access & ~ACCESS_KNOWN ? -EINVAL : 0;
}

static bool is_implicit(uint64_t start, uint64_t length, int access)
{
	return (access & IBV_ACCESS_ON_DEMAND) && start == 0 && length == UINT64_MAX;
}

/* ib_uverbs_reg_mr(), ib_umem_get(), mlx5_ib_reg_user_mr() for the implicit ones */
static int check_range(uint64_t start, uint64_t length, uint64_t iova, int access)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if ((start & (page - 1)) != (iova & (page - 1)))
		return -EINVAL;
	/* nothing at the start of a page is no page at all; within one, it is that page */
	if (length == 0 && !(start & (page - 1)))
		return -EINVAL;
	if (is_implicit(start, length, access))
		return iova || (access & IBV_ACCESS_HUGETLB) ? -EINVAL : 0;
	if (start + length < start || start + length > UINT64_MAX - page)
		return -EINVAL;
	/* what is pinned is counted in 32 bits */
	if (!(access & IBV_ACCESS_ON_DEMAND) &&
	    ((start & (page - 1)) + length + page - 1) / page > UINT32_MAX)
		return -EINVAL;
	/* what the HCA addresses must not wrap either */
	return iova + length < iova ? -EINVAL : 0;
}

static bool is_writable(int access)
{
	return access & IBV_ACCESS_LOCAL_WRITE;
}

/* What of the access flags the memory itself depends on */
static int memory_flags(int access)
{
	return access & (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND |
			 IBV_ACCESS_HUGETLB | IBV_ACCESS_ZERO_BASED);
}

int emu_mr_memory_make(struct emu_mr *mr)
{
	struct odp_mr_attr attr = {
	    .addr = mr->start,
	    .length =
		mr->length ? mr->length : 1, /* the page, of which nothing is used */
	    .iova = mr->iova,
	    .writable = is_writable(mr->access),
	    .on_demand = mr->access & IBV_ACCESS_ON_DEMAND,
	    .implicit = is_implicit(mr->start, mr->length, mr->access),
	    .hugetlb = mr->access & IBV_ACCESS_HUGETLB,
	    .access = (uint32_t)mr->access,
	    .pd = mr->pd->num,
	    .device = mr->hca->cfg.device,
	    .start = mr->hca->start,
	    .number = mr->odp ? odp_mr_number(mr->odp) : 0,
	};

	if (!mr->hca->cfg.odp)
		return -EOPNOTSUPP;
	return odp_mr_create(mr->hca->cfg.odp, &attr, &mr->odp);
}

static uint64_t first_iova(uint64_t iova, int access)
{
	return access & IBV_ACCESS_ZERO_BASED ? 0 : iova;
}

static void record(const struct emu_mr *mr)
{
	EMU_TRACE(mr->hca, reg_mr, .addr = mr->start, .length = mr->length,
		  .iova = mr->iova, .mr = mr->k.key, .pd = mr->pd->num,
		  .access = (uint32_t)mr->access);
}

static void record_refusal(const struct emu_pd *pd, const struct emu_mr *mr, int ret)
{
	EMU_TRACE(pd->hca, reg_mr, .addr = mr->start, .length = mr->length,
		  .iova = mr->iova, .pd = pd->num, .access = (uint32_t)mr->access,
		  .result = ret);
	diagnose_reg_mr(mr, ret);
}

/* What the device does not have: ib_check_mr_access(), mlx5 create_user_odp_mr() */
static int check_device(const struct emu_mr *want)
{
	const struct emu_limits *l = &want->hca->limits;
	bool implicit = is_implicit(want->start, want->length, want->access);

	if (want->access & IBV_ACCESS_ON_DEMAND &&
	    !(l->general_odp_caps & IBV_ODP_SUPPORT))
		return -EOPNOTSUPP;
	if (implicit)
		return l->general_odp_caps & IBV_ODP_SUPPORT_IMPLICIT ? 0 : -EINVAL;
	return want->length > l->max_mr_size ? -EINVAL : 0;
}

int emu_mr_reg_begin(struct emu_pd *pd, uint64_t start, uint64_t length, uint64_t iova,
		     int access, struct emu_mr **out)
{
	struct emu_mr want = {.hca = pd->hca,
			      .pd = pd,
			      .start = start,
			      .length = length,
			      .iova = iova,
			      .access = access};
	int ret = check_access(access);

	if (!ret)
		ret = check_range(start, length, iova, access);
	if (!ret)
		ret = check_device(&want);
	if (ret) {
		record_refusal(pd, &want, ret);
		return ret;
	}
	if (pd->hca->num_mrs >= pd->hca->limits.max_mr)
		return -ENOMEM;
	*out = malloc(sizeof(**out));
	if (!*out)
		return -ENOMEM;
	want.iova = first_iova(iova, access);
	**out = want;
	pd->users++;
	pd->hca->num_mrs++;
	return 0;
}

int emu_mr_reg_end(struct emu_mr *mr, int made)
{
	int ret = made ? made : emu_key_add(mr->hca, &mr->k);

	if (!ret) {
		emu_mr_memory_new(mr->hca, mr->odp);
		odp_mr_set_label(mr->odp, mr->k.key, "");
		record(mr);
		return 0;
	}
	if (!made)
		odp_mr_put(mr->odp);
	record_refusal(mr->pd, mr, ret);
	mr->pd->users--;
	mr->hca->num_mrs--;
	free(mr);
	return ret;
}

/* The checks of ib_uverbs_rereg_mr() */
static int check_rereg(const struct emu_mr *mr, int flags, const struct emu_mr *want)
{
	int ret;

	if (!flags)
		return -EINVAL;
	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED)
		return -EOPNOTSUPP;
	if (mr->num_mw) /* IBTA 10.6.6.3 */
		return -EINVAL;
	ret = check_access(want->access);
	if (ret || !(flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		return ret;
	return check_range(want->start, want->length, want->iova, want->access);
}

static bool same_memory(const struct emu_mr *a, const struct emu_mr *b)
{
	return a->start == b->start && a->length == b->length && a->iova == b->iova &&
	       memory_flags(a->access) == memory_flags(b->access);
}

/* What @mr is to be */
static struct emu_mr wanted(const struct emu_mr *mr, int flags, struct emu_pd *pd,
			    uint64_t start, uint64_t length, uint64_t iova, int access)
{
	struct emu_mr want = *mr;

	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		want.access = access;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		want.pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		want.start = start;
		want.length = length;
		want.iova = iova;
	}
	return want;
}

int emu_mr_rereg_begin(struct emu_mr *mr, int flags, struct emu_pd *pd, uint64_t start,
		       uint64_t length, uint64_t iova, int access, struct emu_mr **out)
{
	struct emu_mr *want = malloc(sizeof(*want));
	int ret;

	if (!want)
		return -ENOMEM;
	*want = wanted(mr, flags, pd, start, length, iova, access);
	ret = mr->changing ? -EBUSY : check_rereg(mr, flags, want);
	if (ret) {
		free(want);
		return ret;
	}
	if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) ||
	    (want->access & IBV_ACCESS_ZERO_BASED))
		want->iova = first_iova(want->iova, want->access);
	else if (mr->access & IBV_ACCESS_ZERO_BASED)
		want->iova = mr->start; /* its old iova is not known any more */
	/*
	 * Like mlx5 and rxe: what peers were told stays good unless it means other memory
	 * now.
	 */
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION)
		want->k.key = (mr->k.key & ~0xffu) | next_key(mr->hca, mr->k.key & 0xff);
	want->pd->users++;
	mr->changing = true;
	*out = want;
	return 0;
}

int emu_mr_rereg_memory(const struct emu_mr *mr, struct emu_mr *want)
{
	return same_memory(mr, want) ? 0 : emu_mr_memory_make(want);
}

int emu_mr_rereg_end(struct emu_mr *mr, struct emu_mr *want, int made)
{
	int ret = made;

	mr->changing = false;
	if (!ret && mr->num_mw) /* one was bound meanwhile */
		ret = -EINVAL;
	if (ret) {
		if (!made && want->odp != mr->odp)
			odp_mr_put(want->odp);
		want->pd->users--;
		free(want);
		return ret;
	}
	if (want->odp != mr->odp) {
		emu_mr_memory_new(mr->hca, want->odp);
		emu_mr_memory_gone(mr->hca, mr->odp);
	}
	mr->pd->users--;
	*mr = *want;
	free(want);
	odp_mr_set_label(mr->odp, mr->k.key, "");
	EMU_TRACE(mr->hca, rereg_mr, .addr = mr->start, .length = mr->length,
		  .iova = mr->iova, .mr = mr->k.key, .pd = mr->pd->num,
		  .access = (uint32_t)mr->access);
	return 0;
}

int emu_mr_dereg(struct emu_mr *mr)
{
	int ret = mr->changing ? -EBUSY : 0;

	if (mr->num_mw) /* rxe_dereg_mr(); IBTA 10.6.7.2.6 */
		ret = -EINVAL;
	emu_ended(mr->hca, TRACE_OBJ_MR, mr->k.key, ret);
	if (ret)
		return ret;
	emu_key_del(mr->hca, &mr->k);
	emu_mr_memory_gone(mr->hca, mr->odp);
	mr->pd->users--;
	mr->hca->num_mrs--;
	free(mr);
	return 0;
}

uint32_t emu_mr_lkey(const struct emu_mr *mr)
{
	return mr->k.key;
}

uint32_t emu_mr_rkey(const struct emu_mr *mr)
{
	return mr->k.key;
}

struct odp_mr *emu_mr_odp(const struct emu_mr *mr)
{
	return mr->odp;
}

/* Is [@va, @va+@len) inside [@base, @base+@size)? No sum is made, so none can wrap. */
bool emu_range_in(uint64_t va, uint64_t len, uint64_t base, uint64_t size)
{
	return va >= base && len <= size && va - base <= size - len;
}

static int mem_get(const struct emu_mr *mr, uint64_t iova, uint32_t key,
		   struct emu_mem *out)
{
	*out = (struct emu_mem){.mr = mr->odp, .iova = iova, .key = key};
	return 0;
}

static int mr_check(const struct emu_mr *mr, const struct emu_pd *pd, uint64_t va,
		    uint64_t len, int access, struct emu_mem *out)
{
	if (!pd || mr->pd != pd)
		return -EINVAL;
	if (access & ~mr->access)
		return -EACCES;
	if (!emu_range_in(va, len, mr->iova, mr->length))
		return -ERANGE;
	return mem_get(mr, va, mr->k.key, out);
}

int emu_lkey_check(struct emu_hca *hca, const struct emu_pd *pd, uint32_t lkey,
		   uint64_t va, uint64_t len, int access, struct emu_mem *out)
{
	struct emu_key *k = emu_key_find(hca, lkey);

	if (!k || k->is_mw)
		return -EINVAL;
	return mr_check((struct emu_mr *)k, pd, va, len, access, out);
}

/* IBTA 10.6.7.2.5, and for windows of type 2B that they belong to one QP */
static int mw_check(const struct emu_mw *mw, const struct emu_qp *qp,
		    const struct emu_pd *pd, uint64_t va, uint64_t len, int access,
		    struct emu_mem *out)
{
	bool zero_based = mw->access & IBV_ACCESS_ZERO_BASED;

	if (!pd || mw->pd != pd || !mw->mr)
		return -EINVAL;
	if (mw->type == IBV_MW_TYPE_2 && mw->qp != qp)
		return -EINVAL;
	if (access & ~mw->access)
		return -EACCES;
	if (!emu_range_in(va, len, zero_based ? 0 : mw->addr, mw->length))
		return -ERANGE;
	return mem_get(mw->mr, zero_based ? mw->addr + va : va, mw->k.key, out);
}

int emu_rkey_check(struct emu_hca *hca, const struct emu_qp *qp, uint32_t rkey,
		   uint64_t va, uint64_t len, int access, struct emu_mem *out)
{
	const struct emu_pd *pd = qp->type == IBV_QPT_XRC_RECV ? qp->xrc_pd : qp->pd;
	struct emu_key *k = emu_key_find(hca, rkey);

	if (!k)
		return -EINVAL;
	if (k->is_mw)
		return mw_check((struct emu_mw *)k, qp, pd, va, len, access, out);
	return mr_check((struct emu_mr *)k, pd, va, len, access, out);
}

int emu_advise_find(struct emu_pd *pd, uint32_t lkey, uint64_t addr, uint64_t length,
		    enum odp_advice advice, struct odp_mr **out)
{
	struct emu_key *k = emu_key_find(pd->hca, lkey);
	struct emu_mr *mr = (struct emu_mr *)k;

	if (advice > ODP_PREFETCH_NO_FAULT)
		return -EOPNOTSUPP;
	if (!k)
		return -ENOENT;
	if (k->is_mw)
		return -EINVAL;
	if (mr->pd != pd)
		return -EPERM;
	if (!(mr->access & IBV_ACCESS_ON_DEMAND))
		return -ENOENT;
	if (advice == ODP_PREFETCH_WRITE && !is_writable(mr->access))
		return -EPERM;
	if (!length)
		return -EINVAL;
	if (!emu_range_in(addr, length, mr->iova, mr->length))
		return -EFAULT;
	*out = odp_mr_get(mr->odp);
	return 0;
}
