/*
 * Description: datagrams and multicast as a program has them through the distribution's
 * librdmacm. Runs under `urxe run`.
 */
#include "rdmacm.h"

/* --- datagrams, multicast --------------------------------------------------------- */

START_TEST(datagrams_go_both_ways)
{
	struct side l = listener(RDMA_PS_UDP, "127.0.0.1", 1);
	struct side a = caller(RDMA_PS_UDP, "127.0.0.1", rdma_get_src_port(l.id));
	struct rdma_conn_param p = {.private_data = "here", .private_data_len = 5};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *b;

	add_qp(a.id);
	ck_assert_int_eq(rdma_connect(a.id, &p), 0);
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev->id;
	ck_assert_uint_eq(ev->param.ud.private_data_len, 180);
	ck_assert_str_eq(ev->param.ud.private_data, "here");
	rdma_ack_cm_event(ev);
	add_qp(b);
	ck_assert_int_eq(rdma_accept(b, &p), 0);
	ev = expect(a.ch, RDMA_CM_EVENT_ESTABLISHED);
	ck_assert_uint_eq(ev->param.ud.qp_num, b->qp->qp_num);
	ck_assert_uint_eq(ev->param.ud.qkey, RDMA_UDP_QKEY);
	ck_assert_uint_eq(ev->param.ud.private_data_len, 136);
	ck_assert_uint_eq(ev->param.ud.ah_attr.is_global, 1);
	ck_assert_uint_eq(ev->param.ud.ah_attr.port_num, 1);
	rdma_ack_cm_event(ev);
	rdma_destroy_qp(b);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	done(&a);
	/* refused, and nobody there */
	a = caller(RDMA_PS_UDP, "127.0.0.1", rdma_get_src_port(l.id));
	ck_assert_int_eq(rdma_connect(a.id, &p), 0);
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev->id;
	rdma_ack_cm_event(ev);
	ck_assert_int_eq(rdma_reject(b, NULL, 0), 0);
	ev = expect(a.ch, RDMA_CM_EVENT_UNREACHABLE);
	ck_assert_int_eq(ev->status, 2);
	rdma_ack_cm_event(ev);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	done(&a);
	a = caller(RDMA_PS_UDP, "127.0.0.1", htons(9));
	ck_assert_int_eq(rdma_connect(a.id, &p), 0);
	ev = expect(a.ch, RDMA_CM_EVENT_UNREACHABLE);
	ck_assert_int_eq(ev->status, 1);
	rdma_ack_cm_event(ev);
	done(&a);
	done(&l);
}
END_TEST

START_TEST(a_group_is_joined_and_left)
{
	static const char *const groups[] = {"239.7.7.7", "ff0e::7:7"};
	static const char *const from[] = {"127.0.0.1", "::1"};
	int i;

	for (i = 0; i < 2; i++) {
		struct sockaddr_storage group = addr_of(groups[i], 0);
		struct side s = {.ch = channel()};
		struct rdma_cm_event *ev;
		uint8_t mgid[16] = {[10] = 0xff, [11] = 0xff, 239, 7, 7, 7};

		if (i)
			memcpy(mgid, &((struct sockaddr_in6 *)&group)->sin6_addr, 16);
		s.id = new_id(s.ch, RDMA_PS_UDP);
		ck_assert_int_eq(rdma_join_multicast(s.id, (struct sockaddr *)&group, &s),
				 -1);
		ck_assert_int_eq(bind_to(s.id, from[i], 0), 0);
		/* loopback has no device yet */
		ck_assert_int_eq(rdma_join_multicast(s.id, (struct sockaddr *)&group, &s),
				 -1);
		ck_assert_int_eq(resolve(s.id, from[i], 1), 0);
		expect_ack(s.ch, RDMA_CM_EVENT_ADDR_RESOLVED);
		add_qp(s.id);
		ck_assert_int_eq(rdma_join_multicast(s.id, (struct sockaddr *)&group, &s),
				 0);
		ev = expect(s.ch, RDMA_CM_EVENT_MULTICAST_JOIN);
		ck_assert_ptr_eq(ev->param.ud.private_data, &s);
		ck_assert_uint_eq(ev->param.ud.qp_num, 0xffffff);
		ck_assert_uint_eq(ev->param.ud.qkey, RDMA_UDP_QKEY);
		ck_assert_mem_eq(ev->param.ud.ah_attr.grh.dgid.raw, mgid, 16);
		rdma_ack_cm_event(ev);
		ck_assert_int_eq(rdma_leave_multicast(s.id, (struct sockaddr *)&group),
				 0);
		done(&s);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rdmacm_datagram");
	TCase *t = tcase_create("datagrams");

	if (access("/dev/infiniband/rdma_cm", F_OK))
		return 77;
	tcase_set_timeout(t, 90);
	tcase_add_test(t, datagrams_go_both_ways);
	tcase_add_test(t, a_group_is_joined_and_left);
	suite_add_tcase(s, t);
	return check_main(s);
}
