/*
 * Description: MRs of the HCA over the real page tables: what registration accepts, where
 * keys, zero-based addresses and windows lead to in memory, rereg, advice.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "emu/qp.h"
#include "tests/check_main.h"
#include "tests/emu/reg_mr.h"

#define PAGE 4096u
#define RW   (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define ODP  IBV_ACCESS_ON_DEMAND

static struct odp_domain *dom;
static struct emu_hca *hca;
static struct emu_pd *pd;
static uint8_t *mem; /* 16 pages */

static void *ring_alloc(void *arg, void *owner, size_t bytes, uint64_t *offset)
{
	*offset = 0;
	return calloc(1, bytes);
}

static void ring_free(void *arg, void *owner, void *ring, size_t bytes, uint64_t offset)
{
	free(ring);
}

static int qpn_lease(void *arg, uint32_t *base, uint32_t *count)
{
	*base = 0x4000;
	*count = 0x1000;
	return 0;
}

static const struct emu_ops ops = {
    .qpn_lease = qpn_lease, .ring_alloc = ring_alloc, .ring_free = ring_free};

static void setup(void)
{
	struct odp_config cfg = {.uffd = true};
	struct emu_hca_cfg hcfg = {.mtu = IBV_MTU_4096, .seed = 1};

	ck_assert_int_eq(odp_domain_create(&cfg, NULL, NULL, &dom), 0);
	hcfg.odp = dom;
	ck_assert_int_eq(emu_hca_create(&hcfg, &ops, NULL, &hca), 0);
	ck_assert_int_eq(emu_pd_create(hca, &pd), 0);
	mem = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		   -1, 0);
	ck_assert_ptr_ne(mem, MAP_FAILED);
}

static void teardown(void)
{
	ck_assert_int_eq(emu_pd_destroy(pd), 0);
	emu_hca_destroy(hca);
	odp_domain_destroy(dom);
	munmap(mem, 16 * PAGE);
}

static int reg(void *start, uint64_t len, int access)
{
	struct emu_mr *mr;
	int ret = reg_mr(pd, (uintptr_t)start, len, (uintptr_t)start, access, &mr);

	if (!ret)
		emu_mr_dereg(mr);
	return ret;
}

START_TEST(on_demand_regions_are_registered)
{
	ck_assert_int_eq(reg(mem, 16 * PAGE, RW), 0);
	ck_assert_int_eq(reg(mem, 16 * PAGE, RW | ODP), 0);
	munmap(mem + 8 * PAGE, PAGE);
	ck_assert_int_eq(reg(mem, 16 * PAGE, RW), -EFAULT);
	ck_assert_int_eq(reg(mem, 16 * PAGE, RW | ODP), 0); /* faults come later */
	mprotect(mem, PAGE, PROT_READ);
	ck_assert_int_eq(reg(mem, PAGE, RW), -EFAULT);
	ck_assert_int_eq(reg(mem, PAGE, IBV_ACCESS_REMOTE_READ), 0);
	ck_assert_int_eq(reg(NULL, UINT64_MAX, RW | ODP), 0);
	ck_assert_int_eq(reg(NULL, UINT64_MAX, RW), -EINVAL);
}
END_TEST

/*
 * Write one byte through @key at @va, -errno if the key or the memory does not allow it.
 */
static int poke(uint32_t key, uint64_t va, uint8_t v)
{
	struct odp_access acc = {0};
	struct emu_mem m;
	int ret = emu_lkey_check(hca, pd, key, va, 1, IBV_ACCESS_LOCAL_WRITE, &m);

	return ret ? ret : odp_write(m.mr, m.iova, &v, 1, &acc);
}

START_TEST(a_region_begins_at_any_address)
{
	for (int i = 0; i < 2; i++) {
		int access = i ? RW | ODP : RW;
		struct emu_mr *mr;
		uint32_t k;

		ck_assert_int_eq(
		    reg_mr(pd, (uintptr_t)mem + 5, 2 * PAGE, 0x7005, access, &mr), 0);
		ck_assert_int_eq(poke(emu_mr_lkey(mr), 0x7005 + PAGE, 0x41 + i), 0);
		ck_assert_uint_eq(mem[PAGE + 5], 0x41 + i);
		emu_mr_dereg(mr);

		ck_assert_int_eq(reg_mr(pd, (uintptr_t)mem + 5, 2 * PAGE,
					(uintptr_t)mem + 5,
					access | IBV_ACCESS_ZERO_BASED, &mr),
				 0);
		ck_assert_int_eq(poke(emu_mr_lkey(mr), 2 * PAGE - 1, 0x51 + i), 0);
		ck_assert_uint_eq(mem[2 * PAGE + 4], 0x51 + i);
		ck_assert_int_eq(poke(emu_mr_lkey(mr), 2 * PAGE, 1), -ERANGE);

		/* elsewhere, and not zero-based any more */
		k = emu_mr_lkey(mr);
		ck_assert_int_eq(
		    rereg_mr(mr,
			     IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS,
			     NULL, (uintptr_t)mem + 9 * PAGE, PAGE,
			     (uintptr_t)mem + 9 * PAGE, access),
		    0);
		ck_assert_int_eq(poke(k, 0, 1), -EINVAL);
		ck_assert_int_eq(
		    poke(emu_mr_lkey(mr), (uintptr_t)mem + 9 * PAGE, 0x61 + i), 0);
		ck_assert_uint_eq(mem[9 * PAGE], 0x61 + i);
		emu_mr_dereg(mr);
	}
}
END_TEST

START_TEST(a_window_opens_on_demand_memory)
{
	struct emu_qp_init init = {.type = IBV_QPT_RC, .pd = pd};
	struct odp_access acc = {0};
	struct emu_cq *cq;
	struct emu_mr *mr;
	struct emu_mw *mw;
	struct emu_mem m;
	struct emu_qp *qp;
	uint8_t v = 0x77;

	ck_assert_int_eq(emu_cq_create(hca, NULL, NULL, 4, &cq), 0);
	init.send_cq = init.recv_cq = cq;
	ck_assert_int_eq(emu_qp_create(hca, &init, &qp), 0);
	ck_assert_int_eq(reg_mr(pd, (uintptr_t)mem, 4 * PAGE, (uintptr_t)mem,
				RW | ODP | IBV_ACCESS_MW_BIND, &mr),
			 0);
	ck_assert_int_eq(emu_mw_alloc(pd, IBV_MW_TYPE_2, &mw), 0);
	ck_assert_int_eq(emu_mw_bind(qp, emu_mw_rkey(mw), emu_mw_rkey(mw) ^ 3,
				     emu_mr_lkey(mr), (uintptr_t)mem + PAGE + 3, 100,
				     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED),
			 0);
	ck_assert_int_eq(
	    emu_rkey_check(hca, qp, emu_mw_rkey(mw), 99, 1, IBV_ACCESS_REMOTE_WRITE, &m),
	    0);
	ck_assert_int_eq(odp_write(m.mr, m.iova, &v, 1, &acc), 0);
	ck_assert_uint_eq(mem[PAGE + 102], 0x77);
	emu_mw_dealloc(mw);
	emu_mr_dereg(mr);
	emu_qp_destroy(qp);
	emu_cq_destroy(cq);
}
END_TEST

START_TEST(advice_reaches_on_demand_memory)
{
	struct odp_counters c;
	struct odp_mr *odp;
	struct emu_mr *mr;

	ck_assert_int_eq(
	    reg_mr(pd, (uintptr_t)mem, 4 * PAGE, (uintptr_t)mem, RW | ODP, &mr), 0);
	ck_assert_int_eq(emu_advise_find(pd, emu_mr_lkey(mr), (uintptr_t)mem, 4 * PAGE,
					 ODP_PREFETCH_WRITE, &odp),
			 0);
	ck_assert_int_eq(odp_prefetch(odp, (uintptr_t)mem, 4 * PAGE, ODP_PREFETCH_WRITE),
			 0);
	ck_assert_int_eq(poke(emu_mr_lkey(mr), (uintptr_t)mem, 1), 0);
	odp_mr_counters(odp, &c);
	ck_assert_uint_eq(c.pages_prefetched, 4);
	ck_assert_uint_eq(c.read_faults + c.write_faults, 0);
	/* the reference outlives the MR */
	emu_mr_dereg(mr);
	odp_mr_counters(odp, &c);
	odp_mr_put(odp);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("objects_odp");
	TCase *tc = tcase_create("odp");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, on_demand_regions_are_registered);
	tcase_add_test(tc, a_region_begins_at_any_address);
	tcase_add_test(tc, a_window_opens_on_demand_memory);
	tcase_add_test(tc, advice_reaches_on_demand_memory);
	suite_add_tcase(s, tc);
	return check_main(s);
}
