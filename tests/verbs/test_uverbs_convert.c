/*
 * Description: each attribute goes to the member of its name, in both directions, and none to another.
 */
#include "tests/verbs/util.h"
#include "verbs/uverbs/uverbs_convert.h"

/* Members that both sides name alike; each gets a value of its own before, and has it behind */
#define DEVICE_MEMBERS(X)                                                                \
	X(node_guid)                                                                     \
	X(sys_image_guid)                                                                \
	X(max_mr_size)                                                                   \
	X(page_size_cap)                                                                 \
	X(vendor_id)                                                                     \
	X(vendor_part_id)                                                                \
	X(hw_ver)                                                                        \
	X(max_qp)                                                                        \
	X(max_qp_wr)                                                                     \
	X(device_cap_flags)                                                              \
	X(max_sge)                                                                       \
	X(max_sge_rd)                                                                    \
	X(max_cq)                                                                        \
	X(max_cqe)                                                                       \
	X(max_mr)                                                                        \
	X(max_pd)                                                                        \
	X(max_qp_rd_atom)                                                                \
	X(max_ee_rd_atom)                                                                \
	X(max_res_rd_atom)                                                               \
	X(max_qp_init_rd_atom)                                                           \
	X(max_ee_init_rd_atom)                                                           \
	X(atomic_cap)                                                                    \
	X(max_ee)                                                                        \
	X(max_rdd)                                                                       \
	X(max_mw)                                                                        \
	X(max_raw_ipv6_qp)                                                               \
	X(max_raw_ethy_qp)                                                               \
	X(max_mcast_grp)                                                                 \
	X(max_mcast_qp_attach)                                                           \
	X(max_total_mcast_qp_attach)                                                     \
	X(max_ah)                                                                        \
	X(max_fmr)                                                                       \
	X(max_map_per_fmr)                                                               \
	X(max_srq)                                                                       \
	X(max_srq_wr)                                                                    \
	X(max_srq_sge)                                                                   \
	X(max_pkeys)                                                                     \
	X(local_ca_ack_delay)                                                            \
	X(phys_port_cnt)

#define PORT_MEMBERS(X)                                                                  \
	X(port_cap_flags)                                                                \
	X(max_msg_sz)                                                                    \
	X(bad_pkey_cntr)                                                                 \
	X(qkey_viol_cntr)                                                                \
	X(gid_tbl_len)                                                                   \
	X(pkey_tbl_len)                                                                  \
	X(lid)                                                                           \
	X(sm_lid)                                                                        \
	X(state)                                                                         \
	X(max_mtu)                                                                       \
	X(active_mtu)                                                                    \
	X(lmc)                                                                           \
	X(max_vl_num)                                                                    \
	X(sm_sl)                                                                         \
	X(subnet_timeout)                                                                \
	X(init_type_reply)                                                               \
	X(active_width)                                                                  \
	X(active_speed)                                                                  \
	X(phys_state)                                                                    \
	X(link_layer)

/* Of a QP, in each direction */
#define QP_MEMBERS(X)                                                                    \
	X(qp_state)                                                                      \
	X(cur_qp_state)                                                                  \
	X(path_mtu)                                                                      \
	X(path_mig_state)                                                                \
	X(qkey)                                                                          \
	X(rq_psn)                                                                        \
	X(sq_psn)                                                                        \
	X(dest_qp_num)                                                                   \
	X(qp_access_flags)                                                               \
	X(pkey_index)                                                                    \
	X(alt_pkey_index)                                                                \
	X(max_rd_atomic)                                                                 \
	X(max_dest_rd_atomic)                                                            \
	X(min_rnr_timer)                                                                 \
	X(port_num)                                                                      \
	X(timeout)                                                                       \
	X(retry_cnt)                                                                     \
	X(rnr_retry)                                                                     \
	X(alt_port_num)                                                                  \
	X(alt_timeout)

#define AH_MEMBERS(X)                                                                    \
	X(dlid)                                                                          \
	X(sl)                                                                            \
	X(src_path_bits)                                                                 \
	X(static_rate)                                                                   \
	X(is_global)                                                                     \
	X(port_num)

#define GRH_MEMBERS(X)                                                                   \
	X(flow_label)                                                                    \
	X(sgid_index)                                                                    \
	X(hop_limit)                                                                     \
	X(traffic_class)

#define CAP_MEMBERS(X)                                                                   \
	X(max_send_wr)                                                                   \
	X(max_recv_wr)                                                                   \
	X(max_send_sge)                                                                  \
	X(max_recv_sge)                                                                  \
	X(max_inline_data)

#define GIVE(member)	      from->member = (typeof(from->member))++n;
#define GIVE_TO_AH(member)    attr->member = (typeof(attr->member))++n;
#define GIVE_TO_GRH(member)   grh->member = (typeof(grh->member))++n;
#define EXPECT(member)	      ck_assert_uint_eq((uint64_t)to->member, ++n);
#define EXPECT_IN_GRH(member) ck_assert_uint_eq(grh->member, ++n);

START_TEST(limits_of_a_device)
{
	struct ibv_device_attr_ex attr = {0};
	struct ib_uverbs_query_device_resp resp, *to = &resp;
	struct ibv_device_attr *from = &attr.orig_attr;
	unsigned int n = 0;

	DEVICE_MEMBERS(GIVE)
	strcpy(attr.orig_attr.fw_ver, "1.20.3004");
	memset(&resp, 0xee, sizeof(resp));
	uverbs_from_device_attr(&attr, &resp);
	n = 0;
	DEVICE_MEMBERS(EXPECT)
	ck_assert_uint_eq(resp.fw_ver, 1ull << 32 | 20 << 16 | 3004);
}
END_TEST

START_TEST(capabilities_of_a_device)
{
	struct ibv_device_attr_ex attr = {
	    .orig_attr = {.max_qp = 99},
	    .odp_caps = {1, {.rc_odp_caps = 2, .uc_odp_caps = 3, .ud_odp_caps = 4}},
	    .xrc_odp_caps = 5,
	    .completion_timestamp_mask = 6,
	    .hca_core_clock = 7,
	    .device_cap_flags_ex = 8,
	    .max_wq_type_rq = 9,
	    .raw_packet_caps = 10,
	    .max_dm_size = 11,
	};
	struct ib_uverbs_ex_query_device_resp resp;

	memset(&resp, 0xee, sizeof(resp));
	uverbs_from_device_attr_ex(&attr, &resp);
	ck_assert_uint_eq(resp.base.max_qp, 99);
	ck_assert_uint_eq(resp.odp_caps.general_caps, 1);
	ck_assert_uint_eq(resp.odp_caps.per_transport_caps.rc_odp_caps, 2);
	ck_assert_uint_eq(resp.odp_caps.per_transport_caps.uc_odp_caps, 3);
	ck_assert_uint_eq(resp.odp_caps.per_transport_caps.ud_odp_caps, 4);
	ck_assert_uint_eq(resp.xrc_odp_caps, 5);
	ck_assert_uint_eq(resp.timestamp_mask, 6);
	ck_assert_uint_eq(resp.hca_core_clock, 7);
	ck_assert_uint_eq(resp.device_cap_flags_ex, 8);
	ck_assert_uint_eq(resp.max_wq_type_rq, 9);
	ck_assert_uint_eq(resp.raw_packet_caps, 10);
	ck_assert_uint_eq(resp.max_dm_size, 11);
	ck_assert_uint_eq(resp.comp_mask, 0);
	ck_assert_uint_eq(resp.rss_caps.supported_qpts, 0);
}
END_TEST

START_TEST(attributes_of_a_port)
{
	struct ib_uverbs_query_port_resp resp, *to = &resp;
	struct ibv_port_attr attr = {.flags = 0}, *from = &attr;
	unsigned int n = 0;

	PORT_MEMBERS(GIVE)
	memset(&resp, 0xee, sizeof(resp));
	uverbs_from_port_attr(&attr, &resp);
	n = 0;
	PORT_MEMBERS(EXPECT)
	ck_assert_uint_eq(resp.flags, IB_UVERBS_QPF_GRH_REQUIRED);
}
END_TEST

/* Addresses are numbered from @first on. */
static void give_ah(struct ibv_ah_attr *attr, unsigned int first)
{
	struct ibv_global_route *grh = &attr->grh;
	unsigned int n = first;

	AH_MEMBERS(GIVE_TO_AH)
	GRH_MEMBERS(GIVE_TO_GRH)
	for (int i = 0; i < 16; i++)
		grh->dgid.raw[i] = (uint8_t)++n;
}

static void expect_ah(const struct ibv_ah_attr *to, unsigned int first)
{
	const struct ibv_global_route *grh = &to->grh;
	unsigned int n = first;

	AH_MEMBERS(EXPECT)
	GRH_MEMBERS(EXPECT_IN_GRH)
	for (int i = 0; i < 16; i++)
		ck_assert_uint_eq(grh->dgid.raw[i], ++n);
}

static void give_dest(struct ib_uverbs_qp_dest *from, unsigned int first)
{
	unsigned int n = first;

	AH_MEMBERS(GIVE)
	GRH_MEMBERS(GIVE)
	for (int i = 0; i < 16; i++)
		from->dgid[i] = (uint8_t)++n;
}

static void expect_dest(const struct ib_uverbs_qp_dest *to, unsigned int first)
{
	unsigned int n = first;

	AH_MEMBERS(EXPECT)
	GRH_MEMBERS(EXPECT)
	for (int i = 0; i < 16; i++)
		ck_assert_uint_eq(to->dgid[i], ++n);
}

static void give_cap(struct ibv_qp_cap *from, unsigned int n){CAP_MEMBERS(GIVE)}

START_TEST(attributes_of_a_queried_qp)
{
	struct ib_uverbs_query_qp_resp resp, *to = &resp;
	struct ibv_qp_attr attr = {0}, *from = &attr;
	struct ibv_qp_init_attr init = {.sq_sig_all = 2};
	unsigned int n = 0;

	QP_MEMBERS(GIVE)
	attr.sq_draining = 1;
	give_ah(&attr.ah_attr, 100);
	give_ah(&attr.alt_ah_attr, 150);
	give_cap(&init.cap, n);
	memset(&resp, 0xee, sizeof(resp));
	uverbs_from_qp_attr(&attr, &init, &resp);
	n = 0;
	QP_MEMBERS(EXPECT)
	CAP_MEMBERS(EXPECT)
	ck_assert_uint_eq(resp.sq_draining, 1);
	ck_assert_uint_eq(resp.sq_sig_all, 1);
	expect_dest(&resp.dest, 100);
	expect_dest(&resp.alt_dest, 150);
}
END_TEST

START_TEST(attributes_of_a_modified_qp)
{
	struct ib_uverbs_modify_qp cmd = {.attr_mask = 0}, *from = &cmd;
	struct ibv_qp_attr attr, *to = &attr;
	unsigned int n = 0;

	QP_MEMBERS(GIVE)
	cmd.en_sqd_async_notify = 1;
	give_dest(&cmd.dest, 100);
	give_dest(&cmd.alt_dest, 150);
	memset(&attr, 0xee, sizeof(attr));
	uverbs_to_qp_attr(&cmd, &attr);
	n = 0;
	QP_MEMBERS(EXPECT)
	ck_assert_uint_eq(attr.en_sqd_async_notify, 1);
	expect_ah(&attr.ah_attr, 100);
	expect_ah(&attr.alt_ah_attr, 150);
}
END_TEST

static void give_uverbs_ah(struct ib_uverbs_ah_attr *attr)
{
	struct ib_uverbs_global_route *grh = &attr->grh;
	unsigned int n = 0;

	AH_MEMBERS(GIVE_TO_AH)
	GRH_MEMBERS(GIVE_TO_GRH)
	for (int i = 0; i < 16; i++)
		grh->dgid[i] = (uint8_t)++n;
}

START_TEST(attributes_of_an_address)
{
	struct ib_uverbs_ah_attr attr = {.reserved = 0};
	struct ibv_ah_attr out;

	give_uverbs_ah(&attr);
	memset(&out, 0xee, sizeof(out));
	uverbs_to_ah_attr(&attr, &out);
	expect_ah(&out, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_test(tc, limits_of_a_device);
	tcase_add_test(tc, capabilities_of_a_device);
	tcase_add_test(tc, attributes_of_a_port);
	tcase_add_test(tc, attributes_of_a_queried_qp);
	tcase_add_test(tc, attributes_of_a_modified_qp);
	tcase_add_test(tc, attributes_of_an_address);
}

int main(void)
{
	return util_run("uverbs_convert", add);
}
