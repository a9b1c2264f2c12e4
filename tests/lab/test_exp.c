/*
 * Description: the experimental verbs of MLNX_OFED: values and layouts of its 4.6
 * release, and what the functions do.
 */
#include "lab.h"

#include <infiniband/verbs_exp.h>
#include <string.h>
#include <sys/mman.h>

#define VALUE(name, v) _Static_assert((uint64_t)(name) == (v), #name)
#define AT(type, member, offset)                                                         \
	_Static_assert(offsetof(struct type, member) == (offset), #type "." #member)
#define SIZE(type, size) _Static_assert(sizeof(struct type) == (size), #type)

VALUE(IBV_EXP_START_ENUM, 0x40);
VALUE(IBV_EXP_START_FLAG, 1ULL << 32);
VALUE(IBV_EXP_ACCESS_LOCAL_WRITE, 1);
VALUE(IBV_EXP_ACCESS_REMOTE_WRITE, 2);
VALUE(IBV_EXP_ACCESS_REMOTE_READ, 4);
VALUE(IBV_EXP_ACCESS_REMOTE_ATOMIC, 8);
VALUE(IBV_EXP_ACCESS_ON_DEMAND, 1ULL << 46);
VALUE(IBV_EXP_ACCESS_RELAXED, 1ULL << 47);
VALUE(IBV_EXP_ACCESS_RESERVED, 1ULL << 50);
VALUE(IBV_EXP_DEVICE_ODP, 1ULL << 39);
VALUE((uint32_t)IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS, 1u << 3);
VALUE((uint32_t)IBV_EXP_DEVICE_ATTR_ODP, 1u << 10);
VALUE((uint32_t)IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE, 1u << 26);
VALUE((uint32_t)IBV_EXP_DEVICE_ATTR_COMP_MASK_2, 1u << 31);
VALUE((IBV_EXP_DEVICE_ATTR_RESERVED - 1) &
	  (IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS | IBV_EXP_DEVICE_ATTR_ODP |
	   IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE),
      1u << 3 | 1u << 10 | 1u << 26);
VALUE(IBV_EXP_DEVICE_ATTR_RESERVED_2 - 1, 0);
VALUE(IBV_EXP_QP_STATE, 1);
VALUE(IBV_EXP_QP_PORT, 1 << 5);
VALUE(IBV_EXP_QP_DEST_QPN, 1 << 20);
VALUE(IBV_EXP_ODP_SUPPORT, 1);
VALUE(IBV_EXP_ODP_SUPPORT_IMPLICIT, 2);
VALUE(IBV_EXP_ODP_SUPPORT_SEND, 1);
VALUE(IBV_EXP_ODP_SUPPORT_RECV, 2);
VALUE(IBV_EXP_ODP_SUPPORT_WRITE, 4);
VALUE(IBV_EXP_ODP_SUPPORT_READ, 8);
VALUE(IBV_EXP_ODP_SUPPORT_ATOMIC, 16);
VALUE(IBV_EXP_ODP_SUPPORT_SRQ_RECV, 32);
VALUE(IBV_EXP_IMPLICIT_MR_SIZE, SIZE_MAX);
VALUE(IBV_EXP_PREFETCH_WRITE_ACCESS, 1);
VALUE(IBV_EXP_PREFETCH_MR_RESERVED, 1);

#if defined(__LP64__)
SIZE(ibv_exp_prefetch_attr, 32);
AT(ibv_exp_prefetch_attr, flags, 0);
AT(ibv_exp_prefetch_attr, addr, 8);
AT(ibv_exp_prefetch_attr, length, 16);
AT(ibv_exp_prefetch_attr, comp_mask, 24);
SIZE(ibv_exp_reg_mr_in, 48);
AT(ibv_exp_reg_mr_in, pd, 0);
AT(ibv_exp_reg_mr_in, addr, 8);
AT(ibv_exp_reg_mr_in, length, 16);
AT(ibv_exp_reg_mr_in, exp_access, 24);
AT(ibv_exp_reg_mr_in, comp_mask, 32);
AT(ibv_exp_reg_mr_in, create_flags, 36);
AT(ibv_exp_reg_mr_in, dm, 40);
SIZE(ibv_exp_odp_caps, 32);
AT(ibv_exp_odp_caps, general_odp_caps, 0);
AT(ibv_exp_odp_caps, per_transport_caps.rc_odp_caps, 8);
AT(ibv_exp_odp_caps, per_transport_caps.raw_eth_odp_caps, 28);
SIZE(ibv_exp_device_attr, 0x258);
AT(ibv_exp_device_attr, phys_port_cnt, offsetof(struct ibv_device_attr, phys_port_cnt));
AT(ibv_exp_device_attr, exp_atomic_cap, offsetof(struct ibv_device_attr, atomic_cap));
AT(ibv_exp_device_attr, comp_mask, 0xe4);
AT(ibv_exp_device_attr, exp_device_cap_flags, 0x120);
AT(ibv_exp_device_attr, odp_caps, 0x158);
AT(ibv_exp_device_attr, odp_mr_max_size, 0x210);
AT(ibv_exp_device_attr, comp_mask_2, 0x240);
#endif

static struct lab l;

static int prefetch(struct ibv_mr *mr, void *addr, size_t len, uint32_t flags)
{
	struct ibv_exp_prefetch_attr attr = {.flags = flags, .addr = addr, .length = len};

	return ibv_exp_prefetch_mr(mr, &attr);
}

static struct ibv_mr *reg(void *addr, size_t len, uint64_t access)
{
	struct ibv_exp_reg_mr_in in = {
	    .pd = l.pd, .addr = addr, .length = len, .exp_access = access};

	return ibv_exp_reg_mr(&in);
}

#define EXP_ODP                                                                          \
	(IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |                      \
	 IBV_EXP_ACCESS_REMOTE_READ | IBV_EXP_ACCESS_ON_DEMAND)

START_TEST(the_capabilities_are_told)
{
	struct ibv_exp_device_attr attr;
	struct ibv_device_attr plain;

	lab_open(&l);
	/* what programs do: all ones, and who knows what else in there */
	memset(&attr, 0xff, sizeof(attr));
	ck_assert_int_eq(ibv_exp_query_device(l.ctx, &attr), 0);
	ck_assert_uint_eq(attr.comp_mask, IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |
					      IBV_EXP_DEVICE_ATTR_ODP |
					      IBV_EXP_DEVICE_ATTR_ODP_MAX_SIZE);
	ck_assert_uint_eq(attr.comp_mask_2, 0);
	ck_assert(attr.exp_device_cap_flags & IBV_EXP_DEVICE_ODP);
	ck_assert_uint_eq(attr.odp_caps.general_odp_caps,
			  IBV_EXP_ODP_SUPPORT | IBV_EXP_ODP_SUPPORT_IMPLICIT);
	ck_assert_uint_eq(attr.odp_caps.per_transport_caps.rc_odp_caps & 0x3f, 0x3f);
	ck_assert_uint_eq(attr.odp_caps.per_transport_caps.ud_odp_caps,
			  IBV_EXP_ODP_SUPPORT_SEND | IBV_EXP_ODP_SUPPORT_RECV |
			      IBV_EXP_ODP_SUPPORT_SRQ_RECV);
	ck_assert_uint_ne(attr.odp_caps.per_transport_caps.uc_odp_caps, 0);
	ck_assert_uint_ne(attr.odp_caps.per_transport_caps.xrc_odp_caps, 0);
	ck_assert_uint_eq(attr.odp_caps.per_transport_caps.dc_odp_caps, 0);
	ck_assert_uint_eq(attr.odp_caps.per_transport_caps.raw_eth_odp_caps, 0);
	ck_assert_uint_ge(attr.odp_mr_max_size, 1ULL << 40);

	ck_assert_int_eq(ibv_query_device(l.ctx, &plain), 0);
	ck_assert_str_eq(attr.fw_ver, plain.fw_ver);
	ck_assert_uint_eq(attr.node_guid, plain.node_guid);
	ck_assert_int_eq(attr.max_qp, plain.max_qp);
	ck_assert_int_eq(attr.max_srq_sge, plain.max_srq_sge);
	ck_assert_int_eq((int)attr.exp_atomic_cap, (int)plain.atomic_cap);
	ck_assert_uint_eq(attr.phys_port_cnt, 1);
	ck_assert_uint_eq(attr.exp_device_cap_flags & 0xffffffff, plain.device_cap_flags);

	attr.comp_mask = IBV_EXP_DEVICE_ATTR_ODP;
	ck_assert_int_eq(ibv_exp_query_device(l.ctx, &attr), 0);
	ck_assert_uint_eq(attr.comp_mask, IBV_EXP_DEVICE_ATTR_ODP);
	attr.comp_mask = 0;
	ck_assert_int_eq(ibv_exp_query_device(l.ctx, &attr), 0);
	ck_assert_uint_eq(attr.comp_mask, 0);
	ck_assert_int_eq(ibv_exp_query_device(l.ctx, NULL), EFAULT);
	lab_close(&l);
}
END_TEST

START_TEST(an_explicit_mr_is_prefetched)
{
	char *p = lab_map(8);
	struct ibv_mr *mr;

	lab_begin(&l);
	mr = reg(p, 8 * LAB_PAGE, EXP_ODP);
	ck_assert(mr);
	ck_assert(mr->pd == l.pd && mr->context == l.ctx);
	ck_assert(mr->addr == p && mr->length == 8 * LAB_PAGE);
	ck_assert_int_eq(prefetch(mr, p, 2 * LAB_PAGE, IBV_EXP_PREFETCH_WRITE_ACCESS), 0);
	ck_assert(lab_cached(mr, p + LAB_PAGE, URXE_PAGE_WRITE));
	ck_assert(!lab_cached(mr, p + 2 * LAB_PAGE, URXE_PAGE_READ));
	ck_assert_int_eq(prefetch(mr, p + 4 * LAB_PAGE, LAB_PAGE, 0), 0);
	ck_assert(lab_cached(mr, p + 4 * LAB_PAGE, URXE_PAGE_READ));
	ck_assert(!lab_cached(mr, p + 4 * LAB_PAGE, URXE_PAGE_WRITE));
	lab_fill(p + 4 * LAB_PAGE, LAB_PAGE, 3);
	ck_assert_int_eq(lab_write(&l, mr, p + 4 * LAB_PAGE, mr, p, LAB_PAGE),
			 IBV_WC_SUCCESS);
	ck_assert(lab_is(p, LAB_PAGE, 3));
	ck_assert_uint_eq(lab_faults(mr), 0);
	ck_assert_uint_eq(lab_counters(mr).page_prefetch, 3);
	ck_assert_uint_eq(lab_counters(mr).prefetch_hits, 2);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

START_TEST(an_implicit_mr_is_prefetched)
{
	char *p = lab_map(4);
	struct ibv_mr *mr;

	lab_begin(&l);
	mr = reg(NULL, IBV_EXP_IMPLICIT_MR_SIZE, EXP_ODP | IBV_EXP_ACCESS_RELAXED);
	ck_assert(mr);
	ck_assert_int_eq(prefetch(mr, p, 2 * LAB_PAGE, IBV_EXP_PREFETCH_WRITE_ACCESS), 0);
	ck_assert(lab_cached(mr, p, URXE_PAGE_WRITE));
	ck_assert_int_eq(lab_write(&l, mr, p, mr, p + LAB_PAGE, 64), IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_faults(mr), 0);
	munmap(p, 2 * LAB_PAGE);
	ck_assert_int_eq(prefetch(mr, p, LAB_PAGE, 0), EFAULT);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	/* only on demand */
	ck_assert(!reg(NULL, IBV_EXP_IMPLICIT_MR_SIZE, IBV_EXP_ACCESS_LOCAL_WRITE));
	lab_close(&l);
}
END_TEST

START_TEST(pinned_and_mixed_flags)
{
	char *p = lab_map(2);
	struct ibv_mr *mr;

	lab_open(&l);
	mr = reg(p, LAB_PAGE, IBV_EXP_ACCESS_LOCAL_WRITE);
	ck_assert(mr);
	ck_assert_int_eq(prefetch(mr, p, LAB_PAGE, 0), EINVAL); /* not on-demand */
	ck_assert_int_eq(errno, EINVAL);
	ibv_dereg_mr(mr);
	/* the upstream flag in the experimental call */
	mr = reg(p, LAB_PAGE, IBV_ACCESS_ON_DEMAND);
	ck_assert(mr);
	ck_assert_int_eq(prefetch(mr, p, LAB_PAGE, 0), 0);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

/* As programs for OFED make their queue pairs */
START_TEST(queue_pairs_are_made_and_changed)
{
	struct ibv_exp_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					    .cap = {16, 16, 2, 2, 64},
					    .comp_mask = IBV_EXP_QP_INIT_ATTR_PD |
							 IBV_EXP_QP_INIT_ATTR_INL_RECV,
					    .max_inl_recv = 64};
	struct ibv_exp_qp_attr attr = {
	    .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = LAB_ACCESS};
	const uint64_t mask = IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT |
			      IBV_EXP_QP_ACCESS_FLAGS;
	char *p = lab_map(1);
	struct ibv_mr *mr;

	lab_open(&l);
	ck_assert_int_eq(ibv_destroy_qp(l.left), 0);
	init.send_cq = init.recv_cq = l.cq;
	ck_assert_ptr_null(ibv_exp_create_qp(NULL, &init));
	init.comp_mask &= ~(uint32_t)IBV_EXP_QP_INIT_ATTR_PD;
	ck_assert_ptr_null(ibv_exp_create_qp(l.ctx, &init));
	ck_assert_int_eq(errno, EINVAL);
	init.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | 1u << 5;
	init.pd = l.pd;
	ck_assert_ptr_null(ibv_exp_create_qp(l.ctx, &init));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	init.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_INL_RECV |
			 IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS;
	l.left = ibv_exp_create_qp(l.ctx, &init);
	ck_assert(l.left);
	ck_assert_uint_eq(init.max_inl_recv, 0);
	ck_assert_uint_ge(init.cap.max_send_wr, 16);

	ck_assert_int_eq(ibv_exp_modify_qp(l.left, &attr, mask | 1ull << 54), EINVAL);
	ck_assert_int_eq(ibv_exp_modify_qp(l.left, (void *)8, mask), EINVAL);
	attr.comp_mask = 1;
	ck_assert_int_eq(ibv_exp_modify_qp(l.left, &attr, mask), EINVAL);
	attr.comp_mask = 0;
	ck_assert_int_eq(ibv_exp_modify_qp(l.left, &attr, IBV_EXP_QP_STATE), EINVAL);
	ck_assert_int_eq(ibv_exp_modify_qp(l.left, &attr, mask), 0);
	ck_assert_int_eq(l.left->state, IBV_QPS_INIT);
	lab_connect(&l);
	mr = reg(p, LAB_PAGE,
		 IBV_EXP_ACCESS_LOCAL_WRITE | IBV_EXP_ACCESS_REMOTE_WRITE |
		     IBV_EXP_ACCESS_ON_DEMAND);
	ck_assert_int_eq(lab_write(&l, mr, p, mr, p + 100, 8), IBV_WC_SUCCESS);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(wrong_prefetches_are_refused)
{
	struct ibv_exp_prefetch_attr attr = {0};
	char *p = lab_map(8);
	struct ibv_mr *mr, *ro, copy;

	lab_open(&l);
	munmap(p + 6 * LAB_PAGE, LAB_PAGE);
	mr = reg(p, 8 * LAB_PAGE, EXP_ODP);
	ro = reg(p, 8 * LAB_PAGE, IBV_EXP_ACCESS_ON_DEMAND);
	ck_assert(mr && ro);
	/* EFAULT: out of the bounds */
	ck_assert_int_eq(prefetch(mr, p - 1, 1, 0), EFAULT);
	ck_assert_int_eq(prefetch(mr, p, 8 * LAB_PAGE + 1, 0), EFAULT);
	ck_assert_int_eq(prefetch(mr, p + 8 * LAB_PAGE, 1, 0), EFAULT);
	ck_assert_int_eq(prefetch(mr, p + 1, SIZE_MAX, 0), EFAULT);
	ck_assert_int_eq(errno, EFAULT);
	/* EFAULT: parts are not in the address space */
	ck_assert_int_eq(prefetch(mr, p + 5 * LAB_PAGE, 3 * LAB_PAGE, 0), EFAULT);
	ck_assert_int_eq(prefetch(mr, p + 5 * LAB_PAGE, LAB_PAGE, 0), 0);
	/* nothing asked for */
	ck_assert_int_eq(prefetch(mr, p, 0, 0), 0);
	/* EINVAL */
	ck_assert_int_eq(prefetch(ro, p, 1, IBV_EXP_PREFETCH_WRITE_ACCESS), EINVAL);
	ck_assert_int_eq(prefetch(mr, p, 1, 2), EINVAL);
	attr.comp_mask = 1;
	ck_assert_int_eq(ibv_exp_prefetch_mr(mr, &attr), EINVAL);
	ck_assert_int_eq(ibv_exp_prefetch_mr(mr, NULL), EFAULT);
	copy = *ro;
	ibv_dereg_mr(ro);
	ck_assert_int_eq(prefetch(&copy, p, 1, 0), EINVAL); /* deregistered */
	ck_assert_int_eq(prefetch(NULL, p, 1, 0), EINVAL);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(wrong_registrations_are_refused)
{
	struct ibv_exp_reg_mr_in in = {.length = LAB_PAGE};
	char *p = lab_map(1);

	lab_open(&l);
	in.pd = l.pd;
	in.addr = p;
	in.exp_access = IBV_EXP_ACCESS_RESERVED;
	ck_assert(!ibv_exp_reg_mr(&in));
	ck_assert_int_eq(errno, EINVAL);
	in.exp_access = IBV_EXP_START_FLAG << 1;
	ck_assert(!ibv_exp_reg_mr(&in));
	ck_assert_int_eq(errno, EINVAL);
	in.exp_access = IBV_EXP_ACCESS_ALLOCATE_MR;
	ck_assert(!ibv_exp_reg_mr(&in));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	in.exp_access = IBV_EXP_ACCESS_PHYSICAL_ADDR;
	ck_assert(!ibv_exp_reg_mr(&in));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	in.exp_access = 0;
	in.comp_mask = IBV_EXP_REG_MR_RESERVED;
	ck_assert(!ibv_exp_reg_mr(&in));
	ck_assert_int_eq(errno, EINVAL);
	in.comp_mask = IBV_EXP_REG_MR_CREATE_FLAGS;
	in.create_flags = IBV_EXP_REG_MR_CREATE_CONTIG;
	ck_assert(!ibv_exp_reg_mr(&in));
	ck_assert_int_eq(errno, EOPNOTSUPP);
	in.comp_mask = 0;
	in.length = 0;
	ck_assert(!ibv_exp_reg_mr(&in));
	ck_assert_int_eq(errno, EINVAL);
	munmap(p, LAB_PAGE);
	in.length = LAB_PAGE;
	ck_assert(!ibv_exp_reg_mr(&in)); /* pinned, and not there */
	ck_assert_int_eq(errno, EFAULT);
	ck_assert(!ibv_exp_reg_mr(NULL));
	ck_assert_int_eq(errno, EINVAL);
	lab_close(&l);
}
END_TEST

START_TEST(a_foreign_device_is_refused)
{
	struct ibv_context foreign = {.cmd_fd = 0};
	struct ibv_pd pd = {.context = &foreign};
	struct ibv_mr mr = {.context = &foreign, .pd = &pd};
	struct ibv_exp_reg_mr_in in = {.pd = &pd};
	struct ibv_exp_device_attr attr = {0};

	lab_open(&l);
	ck_assert_int_eq(prefetch(&mr, NULL, 0, 0), ENOSYS);
	ck_assert_int_eq(errno, ENOSYS);
	errno = 0;
	ck_assert(!ibv_exp_reg_mr(&in));
	ck_assert_int_eq(errno, ENOSYS);
	ck_assert_int_eq(ibv_exp_query_device(&foreign, &attr), ENOSYS);
	lab_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("exp");
	TCase *tc = tcase_create("all");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, the_capabilities_are_told);
	tcase_add_test(tc, an_explicit_mr_is_prefetched);
	tcase_add_test(tc, an_implicit_mr_is_prefetched);
	tcase_add_test(tc, pinned_and_mixed_flags);
	tcase_add_test(tc, queue_pairs_are_made_and_changed);
	tcase_add_test(tc, wrong_prefetches_are_refused);
	tcase_add_test(tc, wrong_registrations_are_refused);
	tcase_add_test(tc, a_foreign_device_is_refused);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
