/*
 * Description: PDs, MRs and their keys, access checks, rereg, memory windows, advice.
 */
#include "objects_fake.h"
#include "tests/check_main.h"
#include "tests/emu/reg_mr.h"

#include <stdlib.h>

#define RW    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define BIND  IBV_ACCESS_MW_BIND
#define START 0x100000ull

static struct emu_pd *pd, *pd2;
static struct emu_cq *cq;
static struct emu_qp *qp, *qp2;

static void setup(void)
{
	fake_setup();
	pd = fake_pd();
	pd2 = fake_pd();
	cq = fake_cq(16);
	qp = fake_qp(IBV_QPT_RC, pd, cq);
	qp2 = fake_qp(IBV_QPT_RC, pd, cq);
}

static void teardown(void)
{
	ck_assert_int_eq(emu_qp_destroy(qp), 0);
	ck_assert_int_eq(emu_qp_destroy(qp2), 0);
	ck_assert_int_eq(emu_cq_destroy(cq), 0);
	ck_assert_int_eq(emu_pd_destroy(pd), 0);
	ck_assert_int_eq(emu_pd_destroy(pd2), 0);
	fake_teardown();
}

static int lkey(struct emu_pd *p, uint32_t key, uint64_t va, uint64_t len, int access)
{
	struct emu_mem m = {0};
	int ret = emu_lkey_check(fake.hca, p, key, va, len, access, &m);

	if (!ret)
		ck_assert_uint_eq(m.iova, va);
	return ret;
}

/* Returns the address in the MR through *@iova */
static int rkey(struct emu_qp *q, uint32_t key, uint64_t va, uint64_t len, int access,
		uint64_t *iova)
{
	struct emu_mem m = {0};
	int ret = emu_rkey_check(fake.hca, q, key, va, len, access, &m);

	if (!ret && iova)
		*iova = m.iova;
	return ret;
}

static int reg(uint64_t start, uint64_t len, uint64_t iova, int access)
{
	struct emu_mr *mr;
	int ret = reg_mr(pd, start, len, iova, access, &mr);

	if (!ret)
		ck_assert_int_eq(emu_mr_dereg(mr), 0);
	return ret;
}

START_TEST(wrong_registrations_are_refused)
{
	ck_assert_int_eq(reg(START, 4096, START, 0), 0);
	ck_assert_int_eq(reg(START, 0, START, 0), -EINVAL);
	/* nothing within a page: the page must be there, none of it can be used */
	ck_assert_int_eq(reg(START + 16, 0, START + 16, 0), 0);
	ck_assert_uint_eq(fake.last_attr.length, 1);
	ck_assert_int_eq(reg(START, 1, START, IBV_ACCESS_REMOTE_WRITE), -EINVAL);
	ck_assert_int_eq(reg(START, 1, START, IBV_ACCESS_REMOTE_ATOMIC), -EINVAL);
	ck_assert_int_eq(reg(START, 1, START, IBV_ACCESS_REMOTE_READ), 0);
	ck_assert_int_eq(reg(START, 1, START, 1 << 15), -EINVAL);
	ck_assert_int_eq(reg(START, 1, START, IBV_ACCESS_RELAXED_ORDERING), 0);
	ck_assert_int_eq(reg(START, 1, START, 1 << 29), 0);
	/* start and iova must agree within the page */
	ck_assert_int_eq(reg(START, 4096, 0x7000, 0), 0);
	ck_assert_int_eq(reg(START, 4096, 0x7008, 0), -EINVAL);
	ck_assert_int_eq(reg(START + 8, 4096, 0x7008, 0), 0);
	/* ranges that wrap */
	ck_assert_int_eq(reg(UINT64_MAX - 4095, 8192, UINT64_MAX - 4095, 0), -EINVAL);
	ck_assert_int_eq(reg(0, UINT64_MAX, 0, 0), -EINVAL);
	/* more pages than 32 bits count: only on demand */
	ck_assert_int_eq(reg(START, 1ull << 44, START, 0), -EINVAL);
	ck_assert_int_eq(reg(START + 1, (1ull << 44) - 4096, START + 1, 0), -EINVAL);
	ck_assert_int_eq(reg(START, (1ull << 44) - 4096, START, 0), 0);
	ck_assert_int_eq(reg(START, 1ull << 44, START, IBV_ACCESS_ON_DEMAND), 0);
	ck_assert_int_eq(reg(START, 8192, UINT64_MAX - 4095, 0), -EINVAL);
	fake.odp_error = -EFAULT;
	ck_assert_int_eq(reg(START, 4096, START, 0), -EFAULT);
	fake.odp_error = 0;
	ck_assert_uint_eq(pd->users, 2);
}
END_TEST

START_TEST(reg_odp_attributes)
{
	const int odp = IBV_ACCESS_ON_DEMAND, huge = IBV_ACCESS_HUGETLB;

	ck_assert_int_eq(reg(START, 100, START, odp | IBV_ACCESS_LOCAL_WRITE), 0);
	ck_assert(fake.last_attr.on_demand && fake.last_attr.writable);
	ck_assert(!fake.last_attr.implicit && !fake.last_attr.hugetlb);
	ck_assert_uint_eq(fake.last_attr.addr, START);
	ck_assert_uint_eq(fake.last_attr.length, 100);
	ck_assert_uint_eq(fake.last_attr.iova, START);

	ck_assert_int_eq(reg(START, 100, START, odp | huge | IBV_ACCESS_REMOTE_READ), 0);
	ck_assert(fake.last_attr.hugetlb && !fake.last_attr.writable);

	ck_assert_int_eq(reg(0, UINT64_MAX, 0, odp), 0);
	ck_assert(fake.last_attr.implicit);
	ck_assert_int_eq(reg(0, UINT64_MAX, 0x1000, odp), -EINVAL);
	ck_assert_int_eq(reg(0, UINT64_MAX, 0, odp | huge), -EINVAL);

	ck_assert_int_eq(reg(START + 5, 100, START + 5, odp | IBV_ACCESS_ZERO_BASED), 0);
	ck_assert_uint_eq(fake.last_attr.iova, 0);
}
END_TEST

START_TEST(keys_are_not_used_again_at_once)
{
	struct emu_mr *mr = fake_mr(pd, START, 4096, 0), *mr2;
	uint32_t key = emu_mr_lkey(mr), id = key >> 8;
	bool same = true;

	ck_assert_uint_eq(emu_mr_rkey(mr), key);
	ck_assert_uint_ne(id, 0);
	ck_assert_int_eq(lkey(pd, key, START, 1, 0), 0);
	for (uint32_t k = 0; k < 256; k++)
		if (k != (key & 0xff))
			ck_assert_int_eq(lkey(pd, id << 8 | k, START, 1, 0), -EINVAL);
	ck_assert_int_eq(lkey(pd, 0, START, 1, 0), -EINVAL);
	ck_assert_int_eq(lkey(pd, UINT32_MAX, START, 1, 0), -EINVAL);
	emu_mr_dereg(mr);
	ck_assert_int_eq(lkey(pd, key, START, 1, 0), -EINVAL);

	/* the id does not come back at once, and when it does, with another key */
	for (int i = 0; i < 200; i++) {
		mr2 = fake_mr(pd, START, 4096, 0);
		ck_assert_uint_ne(emu_mr_lkey(mr2) >> 8, id);
		same &= (emu_mr_lkey(mr2) & 0xff) == (key & 0xff);
		emu_mr_dereg(mr2);
	}
	ck_assert(!same);
	for (int i = 0;; i++) {
		ck_assert_int_lt(i, 2000);
		mr2 = fake_mr(pd, START, 4096, 0);
		key = emu_mr_lkey(mr2);
		emu_mr_dereg(mr2);
		if (key >> 8 == id)
			break;
	}
	ck_assert_uint_lt(fake.hca->keys.size, 1024);
}
END_TEST

START_TEST(ids_come_back_with_other_keys)
{
	struct emu_key k[300] = {0};
	uint32_t before[300];

	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 300; i++) {
			ck_assert_int_eq(emu_key_add(fake.hca, &k[i]), 0);
			uint32_t id = k[i].key >> 8;

			if (id < 300 && round > 0)
				ck_assert_uint_ne(before[id], k[i].key);
			if (id < 300)
				before[id] = k[i].key;
		}
		for (int i = 0; i < 300; i++)
			emu_key_del(fake.hca, &k[i]);
		if (round == 0) /* all ids below 300 have a "before" now */
			ck_assert_uint_eq(fake.hca->keys.used, 0);
	}
}
END_TEST

START_TEST(each_access_is_checked)
{
	struct emu_mr *mr = fake_mr(pd, START, 4096, RW);
	struct emu_mr *ro = fake_mr(pd, START, 4096, 0);
	uint32_t k = emu_mr_lkey(mr), r = emu_mr_lkey(ro);

	ck_assert_int_eq(lkey(pd2, k, START, 1, 0), -EINVAL);
	ck_assert_int_eq(lkey(pd, k, START, 4096, IBV_ACCESS_LOCAL_WRITE), 0);
	ck_assert_int_eq(lkey(pd, k, START, 4097, 0), -ERANGE);
	ck_assert_int_eq(lkey(pd, k, START - 1, 1, 0), -ERANGE);
	ck_assert_int_eq(lkey(pd, k, START + 4095, 1, 0), 0);
	ck_assert_int_eq(lkey(pd, k, START + 4096, 1, 0), -ERANGE);
	ck_assert_int_eq(lkey(pd, k, START + 1, UINT64_MAX, 0), -ERANGE);
	ck_assert_int_eq(lkey(pd, k, UINT64_MAX, 2, 0), -ERANGE);
	ck_assert_int_eq(lkey(pd, r, START, 1, 0), 0);
	ck_assert_int_eq(lkey(pd, r, START, 1, IBV_ACCESS_LOCAL_WRITE), -EACCES);

	ck_assert_int_eq(rkey(qp, k, START, 8, IBV_ACCESS_REMOTE_READ, NULL), 0);
	ck_assert_int_eq(rkey(qp, k, START, 8, IBV_ACCESS_REMOTE_WRITE, NULL), 0);
	ck_assert_int_eq(rkey(qp, k, START, 8, IBV_ACCESS_REMOTE_ATOMIC, NULL), -EACCES);
	ck_assert_int_eq(rkey(qp, k, START, 8, EMU_ACCESS_FLUSH_GLOBAL, NULL), -EACCES);
	ck_assert_int_eq(rkey(qp, r, START, 8, IBV_ACCESS_REMOTE_READ, NULL), -EACCES);
	ck_assert_int_eq(rkey(qp, k, START + 4090, 8, IBV_ACCESS_REMOTE_READ, NULL),
			 -ERANGE);
	ck_assert_int_eq(rkey(qp, k ^ 1, START, 8, IBV_ACCESS_REMOTE_READ, NULL),
			 -EINVAL);
	emu_mr_dereg(mr);
	emu_mr_dereg(ro);

	mr = fake_mr(pd2, START, 4096, RW);
	ck_assert_int_eq(
	    rkey(qp, emu_mr_rkey(mr), START, 8, IBV_ACCESS_REMOTE_READ, NULL), -EINVAL);
	emu_mr_dereg(mr);
}
END_TEST

START_TEST(iova_and_zero_based)
{
	struct emu_mr *mr;

	ck_assert_int_eq(reg_mr(pd, START, 8192, 0x5000, RW, &mr), 0);
	ck_assert_int_eq(lkey(pd, emu_mr_lkey(mr), 0x5000, 8192, 0), 0);
	ck_assert_int_eq(lkey(pd, emu_mr_lkey(mr), START, 1, 0), -ERANGE);
	emu_mr_dereg(mr);

	ck_assert_int_eq(
	    reg_mr(pd, START + 9, 100, START + 9, RW | IBV_ACCESS_ZERO_BASED, &mr), 0);
	ck_assert_int_eq(lkey(pd, emu_mr_lkey(mr), 0, 100, 0), 0);
	ck_assert_int_eq(lkey(pd, emu_mr_lkey(mr), 0, 101, 0), -ERANGE);
	ck_assert_int_eq(rkey(qp, emu_mr_lkey(mr), 99, 1, IBV_ACCESS_REMOTE_READ, NULL),
			 0);
	ck_assert_int_eq(lkey(pd, emu_mr_lkey(mr), START + 9, 1, 0), -ERANGE);
	emu_mr_dereg(mr);
}
END_TEST

/* Memory takes long: what the registration needs stays meanwhile. */
START_TEST(registration_in_steps)
{
	const int trans = IBV_REREG_MR_CHANGE_TRANSLATION;
	struct emu_pd *mine = fake_pd();
	struct emu_mr *mr, *want, *more;

	ck_assert_int_eq(emu_mr_reg_begin(mine, START, 4096, START, BIND, &mr), 0);
	ck_assert_int_eq(emu_pd_destroy(mine), -EBUSY);
	ck_assert_int_eq(emu_mr_reg_end(mr, -EFAULT), -EFAULT);
	ck_assert_int_eq(fake.mrs, 0);
	mr = fake_mr(mine, START, 4096, BIND);

	ck_assert_int_eq(
	    emu_mr_rereg_begin(mr, trans, NULL, 0x200000, 4096, 0x200000, 0, &want), 0);
	ck_assert_int_eq(
	    emu_mr_rereg_begin(mr, trans, NULL, 0x300000, 4096, 0x300000, 0, &more),
	    -EBUSY);
	ck_assert_int_eq(emu_mr_dereg(mr), -EBUSY);
	ck_assert_int_eq(lkey(mine, emu_mr_lkey(mr), START, 1, 0), 0);
	ck_assert_int_eq(emu_mr_rereg_memory(mr, want), 0);
	ck_assert_int_eq(fake.mrs, 2);
	/* a window that is bound meanwhile keeps the MR as it is */
	mr->num_mw = 1;
	ck_assert_int_eq(emu_mr_rereg_end(mr, want, 0), -EINVAL);
	mr->num_mw = 0;
	ck_assert_int_eq(fake.mrs, 1);
	ck_assert_int_eq(lkey(mine, emu_mr_lkey(mr), START, 1, 0), 0);
	ck_assert_int_eq(emu_mr_dereg(mr), 0);
	ck_assert_int_eq(emu_pd_destroy(mine), 0);
}
END_TEST

START_TEST(dereg_gives_the_memory_back_at_once)
{
	struct emu_mr *mr = fake_mr(pd, START, 4096, RW);
	struct emu_mem m;

	ck_assert_int_eq(emu_lkey_check(fake.hca, pd, emu_mr_lkey(mr), START, 1, 0, &m),
			 0);
	ck_assert_int_eq(emu_pd_destroy(pd), -EBUSY);
	ck_assert_int_eq(emu_mr_dereg(mr), 0);
	ck_assert_int_eq(fake.mrs, 0);
}
END_TEST

START_TEST(a_region_is_registered_anew)
{
	const int trans = IBV_REREG_MR_CHANGE_TRANSLATION, cpd = IBV_REREG_MR_CHANGE_PD,
		  acc = IBV_REREG_MR_CHANGE_ACCESS;
	struct emu_mr *mr = fake_mr(pd, START, 4096, RW);
	uint32_t old = emu_mr_lkey(mr), users = pd->users;
	struct odp_mr *memory = emu_mr_odp(mr);

	ck_assert_int_eq(rereg_mr(mr, 0, NULL, 0, 0, 0, 0), -EINVAL);
	ck_assert_int_eq(rereg_mr(mr, 8, NULL, 0, 0, 0, 0), -EOPNOTSUPP);
	ck_assert_int_eq(rereg_mr(mr, acc, NULL, 0, 0, 0, IBV_ACCESS_REMOTE_WRITE),
			 -EINVAL);
	ck_assert_int_eq(rereg_mr(mr, trans, NULL, START, 0, START, 0), -EINVAL);
	ck_assert_int_eq(rereg_mr(mr, trans, NULL, START, 5, START + 1, 0), -EINVAL);
	fake.odp_error = -EFAULT;
	ck_assert_int_eq(rereg_mr(mr, trans, NULL, 0x200000, 4096, 0x200000, 0), -EFAULT);
	fake.odp_error = 0;
	ck_assert_int_eq(lkey(pd, old, START, 4096, IBV_ACCESS_LOCAL_WRITE), 0);

	/* PD: the memory stays */
	ck_assert_int_eq(rereg_mr(mr, cpd, pd2, 0, 0, 0, 0), 0);
	ck_assert_ptr_eq(emu_mr_odp(mr), memory);
	ck_assert_uint_eq(emu_mr_lkey(mr), old);
	ck_assert_int_eq(lkey(pd, old, START, 1, 0), -EINVAL);
	ck_assert_int_eq(lkey(pd2, emu_mr_lkey(mr), START, 1, 0), 0);
	ck_assert_uint_eq(pd->users, users - 1);
	ck_assert_uint_eq(pd2->users, 1);
	ck_assert_uint_eq(memory->key, emu_mr_lkey(mr));

	/* access that the memory does not depend on, and such that it does */
	ck_assert_int_eq(rereg_mr(mr, acc, NULL, 0, 0, 0, IBV_ACCESS_LOCAL_WRITE), 0);
	ck_assert_ptr_eq(emu_mr_odp(mr), memory);
	ck_assert_int_eq(rereg_mr(mr, acc, NULL, 0, 0, 0, IBV_ACCESS_ON_DEMAND), 0);
	ck_assert(emu_mr_odp(mr)->attr.on_demand && !emu_mr_odp(mr)->attr.writable);
	ck_assert_int_eq(lkey(pd2, emu_mr_lkey(mr), START, 1, IBV_ACCESS_LOCAL_WRITE),
			 -EACCES);

	/* all at once */
	ck_assert_int_eq(rereg_mr(mr, trans | cpd | acc, pd, 0x300000, 77, 0x9000, RW),
			 0);
	ck_assert_int_eq(lkey(pd, emu_mr_lkey(mr), 0x9000, 77, IBV_ACCESS_LOCAL_WRITE),
			 0);
	ck_assert_int_eq(lkey(pd, emu_mr_lkey(mr), 0x9000, 78, 0), -ERANGE);
	ck_assert_int_eq(fake.mrs, 1);
	emu_mr_dereg(mr);
}
END_TEST

static struct emu_mw *mw_alloc(enum ibv_mw_type type)
{
	struct emu_mw *mw;

	ck_assert_int_eq(emu_mw_alloc(pd, type, &mw), 0);
	return mw;
}

static uint32_t inc(uint32_t key)
{
	return (key & ~0xffu) | ((key + 1) & 0xff);
}

/* Bind to @mr with the next key */
static int bind(struct emu_mw *mw, struct emu_mr *mr, uint64_t addr, uint64_t len,
		int access)
{
	return emu_mw_bind(qp, emu_mw_rkey(mw), inc(emu_mw_rkey(mw)),
			   mr ? emu_mr_lkey(mr) : 0, addr, len, access);
}

START_TEST(mw_bind_rules)
{
	struct emu_mr *mr = fake_mr(pd, START, 4096, IBV_ACCESS_LOCAL_WRITE | BIND);
	struct emu_mr *ro = fake_mr(pd, START, 4096, BIND);
	struct emu_mr *no = fake_mr(pd, START, 4096, RW);
	struct emu_mr *zb = fake_mr(
	    pd, START, 4096, IBV_ACCESS_LOCAL_WRITE | BIND | IBV_ACCESS_ZERO_BASED);
	struct emu_mr *other = fake_mr(pd2, START, 4096, IBV_ACCESS_LOCAL_WRITE | BIND);
	const int rd = IBV_ACCESS_REMOTE_READ, wr = IBV_ACCESS_REMOTE_WRITE;
	struct emu_mw *mw = mw_alloc(_i ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
	uint32_t old = emu_mw_rkey(mw);

	ck_assert_int_eq(rkey(qp, old, START, 1, rd, NULL), -EINVAL); /* not bound */
	ck_assert_int_eq(bind(mw, no, START, 8, rd), -EINVAL);
	ck_assert_int_eq(bind(mw, zb, 0, 8, rd), -EINVAL);
	ck_assert_int_eq(bind(mw, other, START, 8, rd), -EINVAL);
	ck_assert_int_eq(bind(mw, ro, START, 8, wr), -EINVAL);
	ck_assert_int_eq(bind(mw, ro, START, 8, IBV_ACCESS_REMOTE_ATOMIC), -EINVAL);
	ck_assert_int_eq(bind(mw, mr, START, 4097, rd), -EINVAL);
	ck_assert_int_eq(bind(mw, mr, START - 1, 8, rd), -EINVAL);
	ck_assert_int_eq(bind(mw, mr, START + 8, UINT64_MAX, rd), -EINVAL);
	ck_assert_int_eq(bind(mw, mr, START, 8, rd | IBV_ACCESS_HUGETLB), -EOPNOTSUPP);
	ck_assert_int_eq(emu_mw_bind(qp, old ^ 1, old, emu_mr_lkey(mr), START, 8, rd),
			 -EINVAL);
	ck_assert_int_eq(
	    emu_mw_bind(qp, old, inc(old), emu_mr_lkey(mr) ^ 1, START, 8, rd), -EINVAL);
	ck_assert_int_eq(emu_mw_bind(qp, emu_mr_lkey(mr), emu_mr_lkey(mr),
				     emu_mr_lkey(mr), START, 8, rd),
			 -EINVAL);
	ck_assert_uint_eq(emu_mw_rkey(mw), old); /* failures change nothing */
	ck_assert_uint_eq(mr->num_mw, 0);
	ck_assert_int_eq(bind(mw, ro, START, 8, rd), 0);
	ck_assert_uint_eq(ro->num_mw, 1);
	ck_assert_int_eq(emu_mw_dealloc(mw), 0);
	ck_assert_uint_eq(ro->num_mw, 0);
	/* of the new key the low byte is the consumer's, the rest the window's */
	mw = mw_alloc(_i ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
	old = emu_mw_rkey(mw);
	ck_assert_int_eq(
	    emu_mw_bind(qp, old, (old ^ 0x5a5a5a00) + 3, emu_mr_lkey(mr), START, 8, rd),
	    0);
	ck_assert_uint_eq(emu_mw_rkey(mw) >> 8, old >> 8);
	ck_assert_uint_eq(emu_mw_rkey(mw) & 0xff, (old + 3) & 0xff);
	ck_assert_int_eq(emu_mw_dealloc(mw), 0);
	emu_mr_dereg(mr);
	emu_mr_dereg(ro);
	emu_mr_dereg(no);
	emu_mr_dereg(zb);
	emu_mr_dereg(other);
}
END_TEST

START_TEST(mw_type_1)
{
	struct emu_mr *mr = fake_mr(pd, START, 4096, IBV_ACCESS_LOCAL_WRITE | BIND);
	const int rd = IBV_ACCESS_REMOTE_READ, wr = IBV_ACCESS_REMOTE_WRITE;
	struct emu_mw *mw = mw_alloc(IBV_MW_TYPE_1);
	uint32_t old;

	ck_assert_int_eq(bind(mw, mr, START, 8, rd | IBV_ACCESS_ZERO_BASED), -EINVAL);
	ck_assert_int_eq(bind(mw, mr, START + 100, 8, rd), 0);
	old = emu_mw_rkey(mw);
	ck_assert_int_eq(rkey(qp, old, START + 100, 8, rd, NULL), 0);
	ck_assert_int_eq(rkey(qp2, old, START + 100, 8, rd, NULL),
			 0); /* any QP of the PD */
	ck_assert_int_eq(rkey(qp, old, START + 100, 8, wr, NULL), -EACCES);
	ck_assert_int_eq(rkey(qp, old, START + 99, 1, rd, NULL), -ERANGE);
	ck_assert_int_eq(rkey(qp, old, START + 101, 8, rd, NULL), -ERANGE);
	ck_assert_int_eq(lkey(pd, old, START + 100, 8, 0), -EINVAL); /* not an L_Key */
	ck_assert_int_eq(emu_mr_dereg(mr), -EINVAL);
	ck_assert_int_eq(rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, 0, 0, 0, BIND),
			 -EINVAL);

	/* bound again: the old key is gone */
	ck_assert_int_eq(bind(mw, mr, START, 4096, rd | wr), 0);
	ck_assert_int_eq(rkey(qp, old, START + 100, 8, rd, NULL), -EINVAL);
	ck_assert_int_eq(rkey(qp, emu_mw_rkey(mw), START + 100, 8, wr, NULL), 0);
	ck_assert_uint_eq(mr->num_mw, 1);
	ck_assert_int_eq(emu_invalidate_key(qp, emu_mw_rkey(mw)), -EINVAL);

	/* length 0 unbinds */
	ck_assert_int_eq(bind(mw, NULL, 0, 0, 0), 0);
	ck_assert_uint_eq(mr->num_mw, 0);
	ck_assert_int_eq(rkey(qp, emu_mw_rkey(mw), START, 8, rd, NULL), -EINVAL);
	ck_assert_int_eq(emu_mr_dereg(mr), 0);
	emu_mw_dealloc(mw);
}
END_TEST

START_TEST(mw_type_2)
{
	struct emu_mr *mr = fake_mr(pd, START, 4096, IBV_ACCESS_LOCAL_WRITE | BIND);
	const int rd = IBV_ACCESS_REMOTE_READ;
	struct emu_mw *mw = mw_alloc(IBV_MW_TYPE_2);
	uint64_t iova;
	uint32_t k;

	ck_assert_int_eq(emu_invalidate_key(qp, emu_mw_rkey(mw)), -EINVAL);
	ck_assert_int_eq(bind(mw, NULL, 0, 0, 0), -EINVAL);
	ck_assert_int_eq(bind(mw, mr, START + 64, 128, rd | IBV_ACCESS_ZERO_BASED), 0);
	k = emu_mw_rkey(mw);
	ck_assert_int_eq(rkey(qp, k, 10, 118, rd, &iova), 0);
	ck_assert_uint_eq(iova, START + 74);
	ck_assert_int_eq(rkey(qp, k, 10, 119, rd, NULL), -ERANGE);
	ck_assert_int_eq(rkey(qp, k, START + 64, 1, rd, NULL), -ERANGE);
	ck_assert_int_eq(rkey(qp2, k, 10, 1, rd, NULL), -EINVAL); /* 2B: this QP only */
	ck_assert_int_eq(bind(mw, mr, START, 8, rd), -EINVAL);	  /* not free */

	ck_assert_int_eq(emu_invalidate_key(qp2, k), -EINVAL);
	ck_assert_int_eq(emu_invalidate_key(qp, k ^ 1), -EINVAL);
	ck_assert_int_eq(emu_invalidate_key(qp, emu_mr_rkey(mr)), -EINVAL);
	ck_assert_int_eq(emu_invalidate_key(qp, k), 0);
	ck_assert_int_eq(rkey(qp, k, 10, 1, rd, NULL), -EINVAL);
	ck_assert_uint_eq(mr->num_mw, 0);
	ck_assert_int_eq(bind(mw, mr, START, 8, rd), 0);
	/* not even the consumer can, by another QP */
	ck_assert_int_eq(emu_invalidate_key(qp2, emu_mw_rkey(mw)), -EINVAL);
	ck_assert_int_eq(emu_invalidate_key(qp, emu_mw_rkey(mw)), 0);

	/* the QP goes: the window is free */
	ck_assert_int_eq(bind(mw, mr, START, 8, rd), 0);
	ck_assert_int_eq(emu_qp_destroy(qp), 0);
	ck_assert_uint_eq(mr->num_mw, 0);
	qp = fake_qp(IBV_QPT_RC, pd, cq);
	ck_assert_int_eq(bind(mw, mr, START, 8, rd), 0);
	ck_assert_int_eq(emu_mw_dealloc(mw), 0);
	ck_assert_ptr_null(qp->mws);
	ck_assert_int_eq(emu_mr_dereg(mr), 0);
}
END_TEST

START_TEST(windows_are_counted)
{
	struct emu_mw *mw;

	ck_assert_int_eq(emu_mw_alloc(pd, 0, &mw), -EINVAL);
	ck_assert_int_eq(emu_mw_alloc(pd, 3, &mw), -EINVAL);
	mw = mw_alloc(IBV_MW_TYPE_1);
	ck_assert_uint_eq(pd->users, 3);
	ck_assert_int_eq(emu_pd_destroy(pd), -EBUSY);
	ck_assert_int_eq(bind(mw, NULL, 0, 0, 0), 0); /* unbinding what is not bound */
	emu_mw_dealloc(mw);
	ck_assert_uint_eq(pd->users, 2);
}
END_TEST

/* The table of ibv_advise_mr(3) */
START_TEST(advice_is_answered_as_the_manual_says)
{
	const int odp = IBV_ACCESS_ON_DEMAND, w = IBV_ACCESS_LOCAL_WRITE;
	struct emu_mr *rw = fake_mr(pd, START, 4096, odp | w);
	struct emu_mr *ro = fake_mr(pd, START, 4096, odp);
	struct emu_mr *pinned = fake_mr(pd, START, 4096, w);
	struct emu_mw *mw = mw_alloc(IBV_MW_TYPE_1);
	uint32_t k = emu_mr_lkey(rw);
	struct odp_mr *m;

	ck_assert_int_eq(emu_advise_find(pd, k, START, 4096, ODP_PREFETCH_WRITE, &m), 0);
	ck_assert_ptr_eq(m, emu_mr_odp(rw));
	ck_assert_uint_eq(m->refs, 2);
	odp_mr_put(m);
	ck_assert_int_eq(emu_advise_find(pd, k ^ 1, START, 1, ODP_PREFETCH, &m), -ENOENT);
	ck_assert_int_eq(
	    emu_advise_find(pd, emu_mr_lkey(pinned), START, 1, ODP_PREFETCH, &m),
	    -ENOENT);
	ck_assert_int_eq(emu_advise_find(pd, emu_mw_rkey(mw), START, 1, ODP_PREFETCH, &m),
			 -EINVAL);
	ck_assert_int_eq(emu_advise_find(pd2, k, START, 1, ODP_PREFETCH, &m), -EPERM);
	ck_assert_int_eq(
	    emu_advise_find(pd, emu_mr_lkey(ro), START, 1, ODP_PREFETCH_WRITE, &m),
	    -EPERM);
	ck_assert_int_eq(emu_advise_find(pd, k, START, 4097, ODP_PREFETCH, &m), -EFAULT);
	ck_assert_int_eq(emu_advise_find(pd, k, START - 1, 2, ODP_PREFETCH_NO_FAULT, &m),
			 -EFAULT);
	ck_assert_int_eq(emu_advise_find(pd, k, START, 0, ODP_PREFETCH, &m), -EINVAL);
	ck_assert_int_eq(emu_advise_find(pd, k, START, 1, 3, &m), -EOPNOTSUPP);
	emu_mw_dealloc(mw);
	emu_mr_dereg(rw);
	emu_mr_dereg(ro);
	emu_mr_dereg(pinned);
}
END_TEST

/* An XRC_RECV QP has the PD of the SRQ that the request at hand names */
START_TEST(an_xrc_request_has_the_pd_of_its_srq)
{
	struct emu_qp_init init = {.type = IBV_QPT_XRC_RECV};
	struct emu_mr *mr = fake_mr(pd, START, 4096, RW);
	uint32_t k = emu_mr_rkey(mr);
	struct emu_xrcd *xrcd;
	struct emu_qp *x;

	ck_assert_int_eq(emu_xrcd_create(fake.hca, &xrcd), 0);
	init.xrcd = xrcd;
	ck_assert_int_eq(emu_qp_create(fake.hca, &init, &x), 0);
	ck_assert_int_eq(rkey(x, k, START, 8, IBV_ACCESS_REMOTE_READ, NULL), -EINVAL);
	x->xrc_pd = pd2;
	ck_assert_int_eq(rkey(x, k, START, 8, IBV_ACCESS_REMOTE_READ, NULL), -EINVAL);
	x->xrc_pd = pd;
	ck_assert_int_eq(rkey(x, k, START, 8, IBV_ACCESS_REMOTE_READ, NULL), 0);
	emu_qp_destroy(x);
	emu_xrcd_destroy(xrcd);
	emu_mr_dereg(mr);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("objects_mem");
	TCase *tc = tcase_create("mem");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, wrong_registrations_are_refused);
	tcase_add_test(tc, reg_odp_attributes);
	tcase_add_test(tc, keys_are_not_used_again_at_once);
	tcase_add_test(tc, ids_come_back_with_other_keys);
	tcase_add_test(tc, each_access_is_checked);
	tcase_add_test(tc, iova_and_zero_based);
	tcase_add_test(tc, registration_in_steps);
	tcase_add_test(tc, dereg_gives_the_memory_back_at_once);
	tcase_add_test(tc, a_region_is_registered_anew);
	tcase_add_loop_test(tc, mw_bind_rules, 0, 2);
	tcase_add_test(tc, mw_type_1);
	tcase_add_test(tc, mw_type_2);
	tcase_add_test(tc, windows_are_counted);
	tcase_add_test(tc, advice_is_answered_as_the_manual_says);
	tcase_add_test(tc, an_xrc_request_has_the_pd_of_its_srq);
	suite_add_tcase(s, tc);
	return check_main(s);
}
