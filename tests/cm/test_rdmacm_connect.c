/*
 * Description: connections as a program sees them through the distribution's librdmacm,
 * each step with its event and the fields that the kernel gives; identifiers that move
 * between channels. Runs under `urxe run`.
 */
#include "rdmacm.h"

/* --- connections ------------------------------------------------------------------ */

START_TEST(connect_accept_disconnect)
{
	const char *text = addresses[_i];
	struct side l = listener(RDMA_PS_TCP, text, 1);
	struct side a = caller(RDMA_PS_TCP, text, rdma_get_src_port(l.id));
	struct rdma_conn_param p = {.private_data = "welcome",
				    .private_data_len = 8,
				    .responder_resources = 3,
				    .initiator_depth = 4,
				    .rnr_retry_count = 5,
				    .flow_control = 1};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *b;

	add_qp(a.id);
	connect_with(&a, "hello", 6);
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev->id;
	ck_assert_ptr_eq(ev->listen_id, l.id);
	ck_assert_uint_eq(ev->param.conn.private_data_len, 56);
	ck_assert_str_eq(ev->param.conn.private_data, "hello");
	ck_assert_uint_eq(ev->param.conn.responder_resources, 6);
	ck_assert_uint_eq(ev->param.conn.initiator_depth, 5);
	ck_assert_uint_eq(ev->param.conn.retry_count, 7);
	ck_assert_uint_eq(ev->param.conn.rnr_retry_count, 6);
	ck_assert_uint_eq(ev->param.conn.flow_control, 1);
	ck_assert_uint_eq(ev->param.conn.qp_num, a.id->qp->qp_num);
	rdma_ack_cm_event(ev);
	ck_assert_uint_eq(rdma_get_dst_port(b), rdma_get_src_port(a.id));
	ck_assert_uint_eq(rdma_get_src_port(b), rdma_get_src_port(l.id));
	add_qp(b);
	ck_assert_int_eq(rdma_accept(b, &p), 0);
	ev = expect(a.ch, RDMA_CM_EVENT_ESTABLISHED);
	ck_assert_uint_eq(ev->param.conn.private_data_len, 196);
	ck_assert_str_eq(ev->param.conn.private_data, "welcome");
	ck_assert_uint_eq(ev->param.conn.responder_resources, 4);
	ck_assert_uint_eq(ev->param.conn.initiator_depth, 3);
	ck_assert_uint_eq(ev->param.conn.qp_num, b->qp->qp_num);
	rdma_ack_cm_event(ev);
	ev = expect(l.ch, RDMA_CM_EVENT_ESTABLISHED);
	ck_assert_ptr_eq(ev->id, b);
	ck_assert_uint_eq(ev->param.conn.private_data_len, 0);
	rdma_ack_cm_event(ev);
	ck_assert_int_eq(rdma_disconnect(a.id), 0);
	expect_ack(l.ch, RDMA_CM_EVENT_DISCONNECTED);
	ck_assert_int_eq(rdma_disconnect(b), 0);
	ev = expect(a.ch, RDMA_CM_EVENT_DISCONNECTED);
	ck_assert_int_eq(ev->status, 0);
	rdma_ack_cm_event(ev);
	expect_ack(a.ch, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	expect_ack(l.ch, RDMA_CM_EVENT_TIMEWAIT_EXIT);
	rdma_destroy_qp(b);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	done(&a);
	done(&l);
}
END_TEST

START_TEST(qp_gets_connected)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	struct side a = caller(RDMA_PS_TCP, "127.0.0.1", rdma_get_src_port(l.id));
	struct rdma_conn_param p = {
	    .responder_resources = 3, .initiator_depth = 4, .rnr_retry_count = 5};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr qa, qb;
	struct rdma_cm_event *ev;
	struct rdma_cm_id *b;

	add_qp(a.id);
	connect_with(&a, NULL, 0);
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev->id;
	rdma_ack_cm_event(ev);
	add_qp(b);
	ck_assert_int_eq(rdma_accept(b, &p), 0);
	expect_ack(a.ch, RDMA_CM_EVENT_ESTABLISHED);
	expect_ack(l.ch, RDMA_CM_EVENT_ESTABLISHED);
	ck_assert_int_eq(ibv_query_qp(a.id->qp, &qa, 0xffffff, &init), 0);
	ck_assert_int_eq(ibv_query_qp(b->qp, &qb, 0xffffff, &init), 0);
	ck_assert_int_eq(qa.qp_state, IBV_QPS_RTS);
	ck_assert_int_eq(qb.qp_state, IBV_QPS_RTS);
	ck_assert_uint_eq(qa.dest_qp_num, b->qp->qp_num);
	ck_assert_uint_eq(qb.dest_qp_num, a.id->qp->qp_num);
	ck_assert_uint_eq(qa.timeout, 17);
	ck_assert_uint_eq(qa.retry_cnt, 7);
	ck_assert_uint_eq(qa.rnr_retry, 5);
	ck_assert_uint_eq(qb.rnr_retry, 6);
	ck_assert_uint_eq(qa.max_rd_atomic, 3);
	ck_assert_uint_eq(qa.max_dest_rd_atomic, 4);
	ck_assert_int_eq(qa.path_mtu, qb.path_mtu);
	ck_assert_uint_eq(qa.ah_attr.is_global, 1);
	ck_assert_uint_eq(qa.ah_attr.grh.hop_limit, 64);
	/* The peer dies with its identifier. */
	rdma_destroy_qp(b);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	expect_ack(a.ch, RDMA_CM_EVENT_DISCONNECTED);
	done(&a);
	done(&l);
}
END_TEST

START_TEST(reject_says_why)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	struct side a = caller(RDMA_PS_TCP, "127.0.0.1", rdma_get_src_port(l.id));
	struct rdma_cm_event *ev;
	struct rdma_cm_id *b;

	add_qp(a.id);
	connect_with(&a, NULL, 0);
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev->id;
	rdma_ack_cm_event(ev);
	ck_assert_int_eq(rdma_reject(b, "no room", 8), 0);
	ev = expect(a.ch, RDMA_CM_EVENT_REJECTED);
	ck_assert_int_eq(ev->status, 28);
	ck_assert_uint_eq(ev->param.conn.private_data_len, 148);
	ck_assert_str_eq(ev->param.conn.private_data, "no room");
	rdma_ack_cm_event(ev);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	done(&a);
	done(&l);
}
END_TEST

START_TEST(a_request_where_nobody_listens_is_refused)
{
	struct side a = caller(RDMA_PS_TCP, "127.0.0.1", htons(9));
	struct rdma_cm_event *ev;

	add_qp(a.id);
	connect_with(&a, NULL, 0);
	ev = expect(a.ch, RDMA_CM_EVENT_REJECTED);
	ck_assert_int_eq(ev->status, 8);
	rdma_ack_cm_event(ev);
	done(&a);
}
END_TEST

START_TEST(request_ends_with_its_listener)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	struct side a = caller(RDMA_PS_TCP, "127.0.0.1", rdma_get_src_port(l.id));
	struct rdma_cm_event *ev;

	add_qp(a.id);
	connect_with(&a, NULL, 0);
	ck_assert(has_event(l.ch, WAIT_MS));
	done(&l); /* unseen */
	ev = expect(a.ch, RDMA_CM_EVENT_REJECTED);
	ck_assert_int_eq(ev->status, 28);
	rdma_ack_cm_event(ev);
	done(&a);
}
END_TEST

START_TEST(full_backlog_delays)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	uint16_t port = rdma_get_src_port(l.id);
	struct rdma_conn_param p = {0};
	struct rdma_cm_id *b[4];
	struct side a[4];
	int i, up = 0, idle = 0;

	for (i = 0; i < 4; i++) {
		a[i] = caller(RDMA_PS_TCP, "127.0.0.1", port);
		add_qp(a[i].id);
		connect_with(&a[i], NULL, 0);
	}
	/* One after another gets through, whoever asks again first. */
	while (up < 4) {
		struct rdma_cm_event *ev;

		/* An active side agrees to the reply when it reads its event. */
		for (i = 0; i < 4; i++) {
			if (has_event(a[i].ch, 0))
				expect_ack(a[i].ch, RDMA_CM_EVENT_ESTABLISHED);
		}
		if (!has_event(l.ch, 10)) {
			ck_assert_int_lt(idle++, WAIT_MS / 10);
			continue;
		}
		ck_assert_int_eq(rdma_get_cm_event(l.ch, &ev), 0);
		if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			add_qp(ev->id);
			ck_assert_int_eq(rdma_accept(ev->id, &p), 0);
		} else {
			ck_assert_int_eq(ev->event, RDMA_CM_EVENT_ESTABLISHED);
			b[up++] = ev->id;
		}
		rdma_ack_cm_event(ev);
	}
	for (i = 0; i < 4; i++) {
		rdma_destroy_qp(b[i]);
		ck_assert_int_eq(rdma_destroy_id(b[i]), 0);
	}
	for (i = 0; i < 4; i++) {
		expect_ack(a[i].ch, RDMA_CM_EVENT_DISCONNECTED);
		done(&a[i]);
	}
	done(&l);
}
END_TEST

START_TEST(private_data_limits)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	struct side a = caller(RDMA_PS_TCP, "127.0.0.1", rdma_get_src_port(l.id));
	struct rdma_conn_param p = {.retry_count = 7};
	uint8_t data[256] = {0};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *b;

	add_qp(a.id);
	p.private_data = data;
	p.private_data_len = 57;
	ck_assert(rdma_connect(a.id, &p) == -1 && errno == EINVAL);
	p.private_data_len = 56;
	ck_assert_int_eq(rdma_connect(a.id, &p), 0);
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev->id;
	rdma_ack_cm_event(ev);
	ck_assert(rdma_reject(b, data, 149) == -1 && errno == EINVAL);
	add_qp(b);
	p.private_data_len = 197;
	ck_assert(rdma_accept(b, &p) == -1 && errno == EINVAL);
	/* An accept that fails refuses (as in the kernel). */
	expect_ack(a.ch, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_qp(b);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	done(&a);
	done(&l);
}
END_TEST

START_TEST(calls_in_the_wrong_state)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	struct side a = caller(RDMA_PS_TCP, "127.0.0.1", rdma_get_src_port(l.id));
	struct rdma_conn_param p = {0};

	ck_assert(rdma_listen(l.id, 1) == -1 && errno == EINVAL);
	ck_assert(bind_to(l.id, "127.0.0.1", 0) == -1 && errno == EINVAL);
	ck_assert(resolve(a.id, "127.0.0.1", 1) == -1 && errno == EINVAL);
	ck_assert(rdma_resolve_route(a.id, 1) == -1 && errno == EINVAL);
	ck_assert(rdma_accept(a.id, &p) == -1 && errno == EINVAL);
	ck_assert(rdma_reject(a.id, NULL, 0) == -1 && errno == EINVAL);
	ck_assert(rdma_disconnect(a.id) == -1 && errno == EINVAL);
	ck_assert(rdma_notify(a.id, IBV_EVENT_COMM_EST) == -1 && errno == EINVAL);
	ck_assert(rdma_listen(a.id, 1) == -1 && errno == EINVAL);
	done(&a);
	done(&l);
}
END_TEST

START_TEST(connections_one_after_another)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 10);
	uint16_t port = rdma_get_src_port(l.id);
	struct rdma_conn_param p = {0};
	int i;

	for (i = 0; i < 300; i++) {
		struct side a = caller(RDMA_PS_TCP, "127.0.0.1", port);
		struct rdma_cm_event *ev;
		struct rdma_cm_id *b;

		connect_with(&a, NULL, 0);
		ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
		b = ev->id;
		rdma_ack_cm_event(ev);
		ck_assert_int_eq(rdma_accept(b, &p), 0);
		expect_ack(a.ch, RDMA_CM_EVENT_CONNECT_RESPONSE); /* without a QP */
		ck_assert_int_eq(rdma_establish(a.id), 0);
		expect_ack(l.ch, RDMA_CM_EVENT_ESTABLISHED);
		done(&a);
		expect_ack(l.ch, RDMA_CM_EVENT_DISCONNECTED);
		ck_assert_int_eq(rdma_destroy_id(b), 0);
	}
	done(&l);
}
END_TEST

START_TEST(calls_without_a_channel_wait)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	struct sockaddr_storage ss = addr_of("127.0.0.1", ntohs(rdma_get_src_port(l.id)));
	struct rdma_cm_id *a;

	/* Without a channel each call waits for its event. */
	ck_assert_int_eq(rdma_create_id(NULL, &a, NULL, RDMA_PS_TCP), 0);
	ck_assert_int_eq(rdma_resolve_addr(a, NULL, (struct sockaddr *)&ss, 2000), 0);
	ck_assert_int_eq(rdma_resolve_route(a, 2000), 0);
	add_qp(a);
	done(&l);
	ck_assert(rdma_connect(a, NULL) == -1 && errno == ECONNREFUSED);
	rdma_destroy_qp(a);
	ck_assert_int_eq(rdma_destroy_id(a), 0);
}
END_TEST

/* --- channels --------------------------------------------------------------------- */

START_TEST(identifiers_move_between_channels)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 4);
	struct side a = caller(RDMA_PS_TCP, "127.0.0.1", rdma_get_src_port(l.id));
	struct rdma_event_channel *other = channel(), *old = l.ch;
	struct rdma_conn_param p = {0};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *b;

	connect_with(&a, NULL, 0);
	ck_assert(has_event(l.ch, WAIT_MS));
	/* A request that nobody has read yet goes along. */
	ck_assert_int_eq(rdma_migrate_id(l.id, other), 0);
	ck_assert(!has_event(old, 0));
	l.ch = other;
	ev = expect(other, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev->id;
	rdma_ack_cm_event(ev);
	ck_assert_int_eq(rdma_migrate_id(b, old), 0);
	ck_assert_int_eq(rdma_accept(b, &p), 0);
	expect_ack(a.ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	ck_assert_int_eq(rdma_establish(a.id), 0);
	expect_ack(old, RDMA_CM_EVENT_ESTABLISHED);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(old);
	done(&a);
	done(&l);
}
END_TEST

START_TEST(unread_events_do_no_harm)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 4);
	struct side a = caller(RDMA_PS_TCP, "127.0.0.1", rdma_get_src_port(l.id));

	connect_with(&a, NULL, 0);
	ck_assert(has_event(l.ch, WAIT_MS));
	/* Channels closed with all that is in them, identifiers left to leak */
	close(l.ch->fd);
	close(a.ch->fd);
	a = caller(RDMA_PS_TCP, "127.0.0.1", htons(9));
	done(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rdmacm_connect");
	TCase *t = tcase_create("connections");

	if (access("/dev/infiniband/rdma_cm", F_OK))
		return 77;
	tcase_set_timeout(t, 90);
	tcase_add_loop_test(t, connect_accept_disconnect, 0, N_ADDRESSES);
	tcase_add_test(t, qp_gets_connected);
	tcase_add_test(t, reject_says_why);
	tcase_add_test(t, a_request_where_nobody_listens_is_refused);
	tcase_add_test(t, request_ends_with_its_listener);
	tcase_add_test(t, full_backlog_delays);
	tcase_add_test(t, private_data_limits);
	tcase_add_test(t, calls_in_the_wrong_state);
	tcase_add_test(t, connections_one_after_another);
	tcase_add_test(t, calls_without_a_channel_wait);
	tcase_add_test(t, identifiers_move_between_channels);
	tcase_add_test(t, unread_events_do_no_harm);
	suite_add_tcase(s, t);
	return check_main(s);
}
