/*
 * Description: device and port attributes, GID table, address handles, multicast,
 * counters.
 */
#include "objects_fake.h"
#include "tests/check_main.h"

#include <stdlib.h>

START_TEST(the_device_says_what_it_can)
{
	struct ibv_device_attr_ex a;

	emu_query_device(fake.hca, &a);
	ck_assert_uint_eq(a.orig_attr.node_guid, 0x1122334455667788);
	ck_assert_int_eq(a.orig_attr.max_qp, 1048560);
	ck_assert_int_eq(a.orig_attr.max_qp_wr, 1048576);
	ck_assert_int_eq(a.orig_attr.max_sge, 32);
	ck_assert_int_eq(a.orig_attr.max_cqe, 4194303);
	ck_assert_int_eq(a.orig_attr.max_mr, 524287);
	ck_assert_int_eq(a.orig_attr.max_qp_rd_atom, 128);
	ck_assert_int_eq(a.orig_attr.max_srq_sge, 27);
	ck_assert_int_eq(a.orig_attr.max_ah, 32767);
	ck_assert_int_eq(a.orig_attr.local_ca_ack_delay, 15);
	ck_assert_uint_eq(a.orig_attr.page_size_cap, 0xfffff000);
	/* rxe's, and XRC */
	ck_assert_uint_eq(a.orig_attr.device_cap_flags, 0x01223c76 | IBV_DEVICE_XRC);
	ck_assert_uint_eq(a.device_cap_flags_ex, 0x1C001223C76ull | IBV_DEVICE_XRC);
	ck_assert_uint_eq(a.orig_attr.vendor_id, 0xffffff);
	ck_assert_uint_eq(a.odp_caps.general_caps,
			  IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	ck_assert_uint_eq(a.odp_caps.per_transport_caps.rc_odp_caps, 0xff);
	ck_assert_uint_eq(a.odp_caps.per_transport_caps.uc_odp_caps, 0x27);
	ck_assert_uint_eq(a.odp_caps.per_transport_caps.ud_odp_caps, 0x23);
	ck_assert_uint_eq(a.xrc_odp_caps, 0x3d);
}
END_TEST

START_TEST(the_port_is_that_of_the_interface)
{
	struct ibv_port_attr p;

	emu_query_port(fake.hca, &p);
	ck_assert_int_eq(p.state, IBV_PORT_ACTIVE);
	ck_assert_int_eq(p.active_mtu, IBV_MTU_1024);
	ck_assert_int_eq(p.max_mtu, IBV_MTU_4096);
	ck_assert_int_eq(p.gid_tbl_len, EMU_GID_TABLE_LEN);
	ck_assert_uint_eq(p.max_msg_sz, 0x80000000);
	ck_assert_int_eq(p.link_layer, IBV_LINK_LAYER_ETHERNET);

	emu_set_port(fake.hca, true, IBV_MTU_4096); /* an MTU alone is no event */
	ck_assert_int_eq(fake.events, 0);
	emu_set_port(fake.hca, false, IBV_MTU_4096);
	emu_set_port(fake.hca, false, IBV_MTU_4096);
	emu_set_port(fake.hca, true, IBV_MTU_2048);
	ck_assert_int_eq(fake.events, 2);
	ck_assert_int_eq(fake.type[0], IBV_EVENT_PORT_ERR);
	ck_assert_int_eq(fake.type[1], IBV_EVENT_PORT_ACTIVE);
	ck_assert_ptr_null(fake.cookie[0]);
	emu_query_port(fake.hca, &p);
	ck_assert_int_eq(p.active_mtu, IBV_MTU_2048);
}
END_TEST

START_TEST(a_port_that_is_held_down_stays_so_whatever_the_interface_does)
{
	struct ibv_port_attr p;

	emu_port_fail(fake.hca, 77);
	ck_assert_uint_eq(fake.repair_at, 77);
	emu_set_port(fake.hca, true, IBV_MTU_2048);
	emu_query_port(fake.hca, &p);
	ck_assert_int_eq(p.state, IBV_PORT_DOWN);
	ck_assert_int_eq(p.active_mtu, IBV_MTU_2048);
	ck_assert_int_eq(fake.events, 1);
	emu_set_port(fake.hca, false, IBV_MTU_2048);
	emu_port_repair(fake.hca); /* the interface is down now */
	ck_assert_int_eq(fake.events, 1);
	emu_set_port(fake.hca, true, IBV_MTU_2048);
	ck_assert_int_eq(fake.events, 2);
	emu_hca_die(fake.hca);
	emu_hca_die(fake.hca);
	ck_assert_int_eq(fake.events, 4);
	emu_port_repair(fake.hca); /* nothing brings it back */
	emu_query_port(fake.hca, &p);
	ck_assert_int_eq(p.state, IBV_PORT_DOWN);
}
END_TEST

START_TEST(violations_of_keys_are_counted)
{
	struct ibv_port_attr p;

	fake.hca->counter[EMU_CNT_RX_BAD_PKEY] = 3;
	fake.hca->counter[EMU_CNT_RX_BAD_QKEY] = (1ull << 32) + 7;
	emu_query_port(fake.hca, &p);
	ck_assert_uint_eq(p.bad_pkey_cntr, 3);
	ck_assert_uint_eq(p.qkey_viol_cntr, 0xffff);
}
END_TEST

START_TEST(gids_come_and_go)
{
	struct net_ip ip = fake_v4(10, 0, 0, 9), got;

	ck_assert_int_eq(emu_set_gid(fake.hca, EMU_GID_TABLE_LEN, &ip), -EINVAL);
	ck_assert_int_eq(emu_get_gid(fake.hca, EMU_GID_TABLE_LEN, &got), -EINVAL);
	ck_assert_int_eq(emu_get_gid(fake.hca, 7, &got), -ENODATA);
	ck_assert_int_eq(emu_set_gid(fake.hca, 7, &ip), 0);
	ck_assert_int_eq(emu_set_gid(fake.hca, 7, &ip), 0); /* no change, no event */
	ck_assert_int_eq(fake.events, 1);
	ck_assert_int_eq(fake.type[0], IBV_EVENT_GID_CHANGE);
	ck_assert_int_eq(emu_get_gid(fake.hca, 7, &got), 0);
	ck_assert(net_ip_eq(&ip, &got));
	ip = fake_v4(10, 0, 0, 8);
	emu_set_gid(fake.hca, 7, &ip);
	emu_set_gid(fake.hca, 7, NULL);
	emu_set_gid(fake.hca, 7, NULL);
	ck_assert_int_eq(fake.events, 3);
	ck_assert_int_eq(emu_get_gid(fake.hca, 7, &got), -ENODATA);
	/* an address of zeros is an address */
	ip = (struct net_ip){{0}};
	emu_set_gid(fake.hca, 7, &ip);
	ck_assert_int_eq(fake.events, 4);
	ck_assert_int_eq(emu_get_gid(fake.hca, 7, &got), 0);
}
END_TEST

START_TEST(address_handles_are_checked)
{
	struct net_ip v4 = fake_v4(10, 0, 0, 2), v6 = fake_v6(0xfe, 2), any = {{0}};
	struct ibv_ah_attr a = fake_ah(0, &v4);
	struct emu_pd *pd = fake_pd();
	struct emu_ah *x, *y;

	a.is_global = 0;
	ck_assert_int_eq(emu_ah_create(pd, &a, &x), -EINVAL);
	a = fake_ah(0, &v4);
	a.port_num = 2;
	ck_assert_int_eq(emu_ah_create(pd, &a, &x), -EINVAL);
	a = fake_ah(2, &v4);
	ck_assert_int_eq(emu_ah_create(pd, &a, &x), -ENODATA);
	a = fake_ah(200, &v4);
	ck_assert_int_eq(emu_ah_create(pd, &a, &x), -EINVAL);
	/* behind the table, for either family: what lies there may look like an address */
	a = fake_ah(EMU_GID_TABLE_LEN, &v4);
	ck_assert_int_eq(emu_ah_create(pd, &a, &x), -EINVAL);
	a = fake_ah(EMU_GID_TABLE_LEN, &v6);
	ck_assert_int_eq(emu_ah_create(pd, &a, &x), -EINVAL);
	a = fake_ah(0, &v6);
	ck_assert_int_eq(emu_ah_create(pd, &a, &x), -EINVAL);
	a = fake_ah(1, &v4);
	ck_assert_int_eq(emu_ah_create(pd, &a, &x), -EINVAL);
	a = fake_ah(1, &any);
	ck_assert_int_eq(emu_ah_create(pd, &a, &x), -EINVAL);

	a = fake_ah(0, &v4);
	ck_assert_int_eq(emu_ah_create(pd, &a, &x), 0);
	a = fake_ah(1, &v6);
	ck_assert_int_eq(emu_ah_create(pd, &a, &y), 0);
	ck_assert_uint_ne(emu_ah_num(x), 0);
	ck_assert_uint_ne(emu_ah_num(x), emu_ah_num(y));
	ck_assert_ptr_eq(emu_ah_find(fake.hca, emu_ah_num(x)), x);
	ck_assert(net_ip_eq(&y->path.dst, &v6));
	ck_assert_int_eq(emu_pd_destroy(pd), -EBUSY);
	uint32_t num = emu_ah_num(x);
	emu_ah_destroy(x);
	ck_assert_ptr_null(emu_ah_find(fake.hca, num));
	ck_assert_ptr_null(emu_ah_find(fake.hca, 0));
	ck_assert_ptr_null(emu_ah_find(fake.hca, UINT32_MAX));
	emu_ah_destroy(y);
	emu_pd_destroy(pd);
}
END_TEST

START_TEST(address_handles_are_limited)
{
	struct net_ip v4 = fake_v4(10, 0, 0, 2);
	struct ibv_ah_attr a = fake_ah(0, &v4);
	static struct emu_ah *ah[32768];
	struct emu_pd *pd = fake_pd();

	for (int i = 0; i < 32767; i++)
		ck_assert_int_eq(emu_ah_create(pd, &a, &ah[i]), 0);
	ck_assert_int_eq(emu_ah_create(pd, &a, &ah[32767]), -ENOMEM);
	emu_ah_destroy(ah[5]);
	ck_assert_int_eq(emu_ah_create(pd, &a, &ah[5]), 0);
	for (int i = 0; i < 32767; i++)
		emu_ah_destroy(ah[i]);
	emu_pd_destroy(pd);
}
END_TEST

static void count(void *arg, struct emu_qp *qp)
{
	(*(int *)arg)++;
}

static int members(const struct net_ip *g)
{
	int n = 0;

	emu_mcast_each(fake.hca, g, count, &n);
	return n;
}

START_TEST(groups_have_members)
{
	struct net_ip g4 = fake_v4(239, 1, 2, 3), g6 = fake_v6(0xff, 9),
		      u4 = fake_v4(10, 0, 0, 9), u6 = fake_v6(0xfe, 9);
	struct emu_pd *pd = fake_pd();
	struct emu_cq *cq = fake_cq(8);
	struct emu_qp *a = fake_qp(IBV_QPT_UD, pd, cq), *b = fake_qp(IBV_QPT_UD, pd, cq);
	struct emu_qp *rc = fake_qp(IBV_QPT_RC, pd, cq);

	ck_assert_int_eq(emu_qp_attach_mcast(rc, &g4), -EINVAL);
	ck_assert_int_eq(emu_qp_attach_mcast(a, &u4), -EINVAL);
	ck_assert_int_eq(emu_qp_attach_mcast(a, &u6), -EINVAL);
	ck_assert_int_eq(emu_qp_detach_mcast(a, &g4), -EINVAL);
	fake.mcast_error = -ENODEV;
	ck_assert_int_eq(emu_qp_attach_mcast(a, &g4), -ENODEV);
	ck_assert_int_eq(members(&g4), 0);
	fake.mcast_error = 0;

	ck_assert_int_eq(emu_qp_attach_mcast(a, &g4), 0);
	ck_assert_int_eq(emu_qp_attach_mcast(a, &g4), 0); /* again: no change */
	ck_assert_int_eq(emu_qp_attach_mcast(b, &g4), 0);
	ck_assert_int_eq(emu_qp_attach_mcast(b, &g6), 0);
	ck_assert_int_eq(fake.mcast_in, 2); /* told of the first QP only */
	ck_assert_int_eq(members(&g4), 2);
	ck_assert_int_eq(members(&g6), 1);
	ck_assert_int_eq(emu_qp_destroy(a), -EBUSY); /* IBTA o10-2.2.3 */
	ck_assert_int_eq(emu_qp_detach_mcast(a, &g6), -EINVAL);
	ck_assert_int_eq(emu_qp_detach_mcast(a, &g4), 0);
	ck_assert_int_eq(emu_qp_detach_mcast(a, &g4), -EINVAL);
	ck_assert_int_eq(fake.mcast_out, 0);
	ck_assert_int_eq(members(&g4), 1);
	emu_qp_detach_all_mcast(b);
	ck_assert_int_eq(fake.mcast_out, 2);
	ck_assert_int_eq(members(&g4) + members(&g6), 0);
	ck_assert_int_eq(emu_qp_destroy(a), 0);
	ck_assert_int_eq(emu_qp_destroy(b), 0);
	ck_assert_int_eq(emu_qp_destroy(rc), 0);
	emu_cq_destroy(cq);
	emu_pd_destroy(pd);
}
END_TEST

START_TEST(members_of_groups_are_limited)
{
	struct net_ip g = fake_v4(239, 1, 2, 3);
	struct emu_pd *pd = fake_pd();
	struct emu_cq *cq = fake_cq(8);
	struct emu_qp *qp[57];

	for (int i = 0; i < 57; i++) {
		qp[i] = fake_qp(IBV_QPT_UD, pd, cq);
		ck_assert_int_eq(emu_qp_attach_mcast(qp[i], &g), i < 56 ? 0 : -ENOMEM);
	}
	for (int i = 0; i < 57; i++) {
		emu_qp_detach_all_mcast(qp[i]);
		emu_qp_destroy(qp[i]);
	}
	emu_cq_destroy(cq);
	emu_pd_destroy(pd);
}
END_TEST

START_TEST(counters_have_the_names_of_rxe)
{
	static const char *const want[] = {
	    "sent_pkts",	   "rcvd_pkts",
	    "duplicate_request",   "out_of_seq_request",
	    "rcvd_rnr_err",	   "send_rnr_err",
	    "rcvd_seq_err",	   "ack_deferred",
	    "retry_exceeded_err",  "retry_rnr_exceeded_err",
	    "completer_retry_err", "send_err",
	    "link_downed",	   "rdma_sends",
	    "rdma_recvs",	   "sent_bytes",
	    "rcvd_bytes",
	};
	const char *const *names;
	const uint64_t *values;

	emu_set_port(fake.hca, false, IBV_MTU_1024);
	ck_assert_uint_eq(emu_hw_counters(fake.hca, &names, &values), 17);
	for (int i = 0; i < 17; i++)
		ck_assert_str_eq(names[i], want[i]);
	ck_assert_uint_eq(values[12], 1);
}
END_TEST

START_TEST(a_pd_in_use_stays)
{
	struct emu_pd *a = fake_pd(), *b = fake_pd();

	ck_assert_uint_ne(a->num, b->num);
	emu_pd_destroy(a);
	a = fake_pd();
	ck_assert_uint_ne(a->num, b->num);
	emu_pd_destroy(a);
	emu_pd_destroy(b);
}
END_TEST

START_TEST(an_xrcd_in_use_stays)
{
	struct emu_xrcd *x[129];

	for (int i = 0; i < 129; i++)
		ck_assert_int_eq(emu_xrcd_create(fake.hca, &x[i]), i < 128 ? 0 : -ENOMEM);
	for (int i = 0; i < 128; i++)
		emu_xrcd_destroy(x[i]);
}
END_TEST

START_TEST(time_goes_forward)
{
	emu_hca_set_time(fake.hca, 100);
	emu_hca_set_time(fake.hca, 50);
	ck_assert_uint_eq(fake.hca->now, 100);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("objects_device");
	TCase *tc = tcase_create("device");

	tcase_add_checked_fixture(tc, fake_setup, fake_teardown);
	tcase_add_test(tc, the_device_says_what_it_can);
	tcase_add_test(tc, the_port_is_that_of_the_interface);
	tcase_add_test(tc, a_port_that_is_held_down_stays_so_whatever_the_interface_does);
	tcase_add_test(tc, violations_of_keys_are_counted);
	tcase_add_test(tc, gids_come_and_go);
	tcase_add_test(tc, address_handles_are_checked);
	tcase_add_test(tc, address_handles_are_limited);
	tcase_add_test(tc, groups_have_members);
	tcase_add_test(tc, members_of_groups_are_limited);
	tcase_add_test(tc, counters_have_the_names_of_rxe);
	tcase_add_test(tc, a_pd_in_use_stays);
	tcase_add_test(tc, an_xrcd_in_use_stays);
	tcase_add_test(tc, time_goes_forward);
	suite_add_tcase(s, tc);
	return check_main(s);
}
