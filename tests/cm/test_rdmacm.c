/*
 * Description: connections as a program sees them through the distribution's librdmacm:
 * both sides in one process, each step with its event and the fields that the kernel
 * gives. Runs under `urxe run`.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../check_main.h"

#define WAIT_MS 20000 /* a loaded machine is slow */

static struct sockaddr_storage addr_of(const char *text, uint16_t port)
{
	struct sockaddr_storage ss = {0};
	struct sockaddr_in *in = (struct sockaddr_in *)&ss;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ss;

	if (strchr(text, ':')) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		ck_assert_int_eq(inet_pton(AF_INET6, text, &in6->sin6_addr), 1);
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		ck_assert_int_eq(inet_pton(AF_INET, text, &in->sin_addr), 1);
	}
	return ss;
}

static int bind_to(struct rdma_cm_id *id, const char *text, uint16_t port)
{
	struct sockaddr_storage ss = addr_of(text, port);

	return rdma_bind_addr(id, (struct sockaddr *)&ss);
}

static int resolve(struct rdma_cm_id *id, const char *text, uint16_t port)
{
	struct sockaddr_storage ss = addr_of(text, port);

	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&ss, 2000);
}

static struct rdma_event_channel *channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	ck_assert_ptr_nonnull(ch);
	return ch;
}

static struct rdma_cm_id *new_id(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	ck_assert_int_eq(rdma_create_id(ch, &id, NULL, ps), 0);
	return id;
}

static bool has_event(struct rdma_event_channel *ch, int ms)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};

	return poll(&p, 1, ms) > 0;
}

static struct rdma_cm_event *expect(struct rdma_event_channel *ch,
				    enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	ck_assert_msg(has_event(ch, WAIT_MS), "no %s", rdma_event_str(type));
	ck_assert_int_eq(rdma_get_cm_event(ch, &ev), 0);
	ck_assert_msg(ev->event == type, "%s (%d) instead of %s",
		      rdma_event_str(ev->event), ev->status, rdma_event_str(type));
	return ev;
}

static void expect_ack(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
{
	rdma_ack_cm_event(expect(ch, type));
}

/*
 * struct side - one end
 */
struct side {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
};

static struct side listener(enum rdma_port_space ps, const char *text, int backlog)
{
	struct side s = {.ch = channel()};

	s.id = new_id(s.ch, ps);
	ck_assert_int_eq(bind_to(s.id, text, 0), 0);
	ck_assert_int_eq(rdma_listen(s.id, backlog), 0);
	ck_assert_uint_ne(rdma_get_src_port(s.id), 0);
	return s;
}

static void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 4,
						.max_recv_wr = 4,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = id->qp_type};

	ck_assert_int_eq(rdma_create_qp(id, NULL, &attr), 0);
}

/* An active side, resolved */
static struct side caller(enum rdma_port_space ps, const char *text, uint16_t port_be)
{
	struct side s = {.ch = channel()};

	s.id = new_id(s.ch, ps);
	ck_assert_int_eq(resolve(s.id, text, ntohs(port_be)), 0);
	expect_ack(s.ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_ptr_nonnull(s.id->verbs);
	ck_assert_int_eq(rdma_resolve_route(s.id, 2000), 0);
	expect_ack(s.ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_int_eq(s.id->route.num_paths, 1);
	return s;
}

static void connect_with(struct side *s, const void *priv, uint8_t len)
{
	struct rdma_conn_param p = {.private_data = priv,
				    .private_data_len = len,
				    .responder_resources = 5,
				    .initiator_depth = 6,
				    .retry_count = 7,
				    .rnr_retry_count = 6,
				    .flow_control = 1};

	ck_assert_int_eq(rdma_connect(s->id, &p), 0);
}

static void done(struct side *s)
{
	if (s->id && s->id->qp)
		rdma_destroy_qp(s->id);
	if (s->id)
		ck_assert_int_eq(rdma_destroy_id(s->id), 0);
	rdma_destroy_event_channel(s->ch);
}

/* --- connections ------------------------------------------------------------------ */

static const char *const addresses[] = {"127.0.0.1", "127.0.0.9", "::1"};

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

START_TEST(nobody_listens)
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

START_TEST(synchronous)
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

/* --- addresses and ports ---------------------------------------------------------- */

START_TEST(bind_conflicts)
{
	static const struct {
		const char *first, *second;
		bool reuse;
		int err;
	} cases[] = {
	    {"127.0.0.1", "127.0.0.1", false, EADDRINUSE},
	    {"127.0.0.1", "127.0.0.2", false, 0},
	    {"127.0.0.1", "0.0.0.0", false, EADDRINUSE},
	    {"0.0.0.0", "127.0.0.1", false, EADDRINUSE},
	    {"0.0.0.0", "0.0.0.0", false, EADDRINUSE},
	    {"0.0.0.0", "::", false, EADDRINUSE},
	    {"::", "0.0.0.0", false, EADDRINUSE},
	    {"::1", "127.0.0.1", false, 0},
	    {"127.0.0.1", "127.0.0.1", true, 0},
	    {"0.0.0.0", "0.0.0.0", true, 0},
	};
	struct rdma_event_channel *ch = channel();
	unsigned int i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct rdma_cm_id *a = new_id(ch, RDMA_PS_TCP),
				  *b = new_id(ch, RDMA_PS_TCP);
		int on = cases[i].reuse, ret;

		rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
				sizeof(on));
		rdma_set_option(b, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on,
				sizeof(on));
		ck_assert_int_eq(bind_to(a, cases[i].first, 0), 0);
		ret = bind_to(b, cases[i].second, ntohs(rdma_get_src_port(a)));
		ck_assert_msg(cases[i].err ? ret == -1 && errno == cases[i].err
					   : ret == 0,
			      "%s %s: %d %s", cases[i].first, cases[i].second, ret,
			      strerror(errno));
		if (on) {
			/* Only one of them may listen. */
			ck_assert_int_eq(rdma_listen(a, 1), -1);
			ck_assert_int_eq(errno, EADDRINUSE);
		}
		ck_assert_int_eq(rdma_destroy_id(a), 0);
		ck_assert_int_eq(rdma_destroy_id(b), 0);
	}
	rdma_destroy_event_channel(ch);
}
END_TEST

/* The kernel's cma takes loopback for any address: the device is chosen when it resolves. */
START_TEST(bind_to_loopback_ties_to_no_device)
{
	const char *text = addresses[_i];
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	struct sockaddr_storage ss = addr_of(text, 0);
	struct side l = listener(RDMA_PS_TCP, text, 1);

	ck_assert_int_eq(bind_to(id, text, 0), 0);
	ck_assert_ptr_null(id->verbs);
	ck_assert_uint_eq(id->port_num, 0);
	ck_assert_uint_ne(rdma_get_src_port(id), 0);
	ck_assert_ptr_null(l.id->verbs);

	ck_assert_int_eq(resolve(id, text, ntohs(rdma_get_src_port(l.id))), 0);
	expect_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_ptr_nonnull(id->verbs);
	ck_assert_uint_eq(id->port_num, 1);
	if (ss.ss_family == AF_INET) /* what the program said it was bound to */
		ck_assert_uint_eq(
		    ((struct sockaddr_in *)rdma_get_local_addr(id))->sin_addr.s_addr,
		    ((struct sockaddr_in *)&ss)->sin_addr.s_addr);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
	done(&l);
}
END_TEST

START_TEST(afonly_parts_the_families)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *a = new_id(ch, RDMA_PS_TCP), *b = new_id(ch, RDMA_PS_TCP);
	int on = 1;

	ck_assert_int_eq(
	    rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, 4), 0);
	ck_assert_int_eq(bind_to(a, "::", 0), 0);
	ck_assert_int_eq(bind_to(b, "0.0.0.0", ntohs(rdma_get_src_port(a))), 0);
	ck_assert_int_eq(rdma_listen(a, 1), 0);
	ck_assert_int_eq(rdma_listen(b, 1), 0);
	ck_assert_int_eq(rdma_destroy_id(a), 0);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

START_TEST(port_spaces_are_apart)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *a = new_id(ch, RDMA_PS_TCP), *b = new_id(ch, RDMA_PS_UDP);

	ck_assert_int_eq(bind_to(a, "127.0.0.1", 0), 0);
	ck_assert_int_eq(bind_to(b, "127.0.0.1", ntohs(rdma_get_src_port(a))), 0);
	ck_assert_int_eq(rdma_destroy_id(a), 0);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

/* Another process has the port; when it ends, however, the port is free. */
START_TEST(conflict_between_processes)
{
	static const char *const others[] = {"127.0.0.1", "0.0.0.0", "::"};
	struct rdma_event_channel *ch;
	struct rdma_cm_id *a;
	int ready[2], go[2], i, n = 0;
	uint16_t port;
	pid_t pid;
	char c;

	ck_assert(!pipe(ready) && !pipe(go));
	pid = fork();
	if (!pid) {
		struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);

		port = rdma_get_src_port(l.id);
		if (write(ready[1], &port, sizeof(port)) < 0 || read(go[0], &c, 1) < 0)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	ck_assert_int_eq(read(ready[0], &port, sizeof(port)), sizeof(port));
	ch = channel();
	for (i = 0; i < 3; i++) {
		a = new_id(ch, RDMA_PS_TCP);
		ck_assert(bind_to(a, others[i], ntohs(port)) == -1 &&
			  errno == EADDRINUSE);
		ck_assert_int_eq(rdma_destroy_id(a), 0);
	}
	a = new_id(ch, RDMA_PS_TCP);
	ck_assert_int_eq(bind_to(a, "127.0.0.2", ntohs(port)), 0);
	ck_assert_int_eq(rdma_destroy_id(a), 0);
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	waitpid(pid, NULL, 0);
	/* What is known about the living may be a tenth of a second old. */
	a = new_id(ch, RDMA_PS_TCP);
	while (bind_to(a, "0.0.0.0", ntohs(port))) {
		ck_assert_int_eq(errno, EADDRINUSE);
		ck_assert_int_lt(n++, 100);
		usleep(20000);
	}
	ck_assert_int_eq(rdma_destroy_id(a), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

/*
 * enum death - when the passive process of death_of_a_server() is killed
 * DIES_ASKED:	before it has answered the request
 * DIES_UNREAD:	with a DISCONNECTED that it has not read
 * DIES_READ:	when it has read it
 */
enum death { DIES_ASKED, DIES_UNREAD, DIES_READ, DEATHS };

static void serve_and_die(enum death when, int say, int hear)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	uint16_t port = rdma_get_src_port(l.id);
	struct rdma_conn_param p = {.responder_resources = 1, .initiator_depth = 1};
	struct rdma_cm_event *ev;
	char c;

	if (write(say, &port, sizeof(port)) < 0)
		_exit(1);
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	if (when != DIES_ASKED) {
		add_qp(ev->id);
		ck_assert_int_eq(rdma_accept(ev->id, &p), 0);
		rdma_ack_cm_event(ev);
		expect_ack(l.ch, RDMA_CM_EVENT_ESTABLISHED);
	}
	if (when == DIES_READ)
		expect(l.ch, RDMA_CM_EVENT_DISCONNECTED);
	else if (read(hear, &c, 1) < 0)
		_exit(1);
	kill(getpid(), SIGKILL);
}

/* With the kernel's rdma_cm the identifiers of a process end with it, in whatever state. */
START_TEST(death_of_a_server)
{
	int ready[2], go[2];
	struct timespec t0, t1;
	struct side a;
	uint16_t port;
	pid_t pid;

	ck_assert(!pipe(ready) && !pipe(go));
	pid = fork();
	if (!pid)
		serve_and_die((enum death)_i, ready[1], go[0]);
	ck_assert_int_eq(read(ready[0], &port, sizeof(port)), sizeof(port));
	a = caller(RDMA_PS_TCP, "127.0.0.1", port);
	add_qp(a.id);
	connect_with(&a, NULL, 0);
	if (_i == DIES_ASKED) {
		usleep(500000); /* so that it has asked for patience */
	} else {
		expect_ack(a.ch, RDMA_CM_EVENT_ESTABLISHED);
		ck_assert_int_eq(rdma_disconnect(a.id), 0);
		usleep(50000);
	}
	ck_assert_int_eq(write(go[1], "x", 1), 1);
	clock_gettime(CLOCK_MONOTONIC, &t0);
	expect_ack(a.ch, _i == DIES_ASKED ? RDMA_CM_EVENT_REJECTED
					  : RDMA_CM_EVENT_DISCONNECTED);
	clock_gettime(CLOCK_MONOTONIC, &t1);
	ck_assert_int_lt(t1.tv_sec - t0.tv_sec, 5);
	waitpid(pid, NULL, 0);
	done(&a);
}
END_TEST

/* In the child of the process with listener @l: what is the parent's is dead. */
static void be_a_child(struct side *l)
{
	uint16_t port = rdma_get_src_port(l->id);
	struct rdma_cm_event *ev;
	struct rdma_cm_id *id;
	struct side a;

	alarm(WAIT_MS / 1000);
	ck_assert(rdma_get_cm_event(l->ch, &ev) == -1 && errno == EIO);
	ck_assert(rdma_listen(l->id, 1) == -1 && errno == EIO);
	ck_assert(rdma_create_id(l->ch, &id, NULL, RDMA_PS_TCP) == -1 && errno == EIO);
	/* but it may have channels of its own */
	a = caller(RDMA_PS_TCP, "127.0.0.1", port);
	connect_with(&a, "child", 5);
	expect_ack(a.ch, RDMA_CM_EVENT_REJECTED);
	done(&a);
}

START_TEST(a_forked_child_begins_anew)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	struct rdma_cm_event *ev;
	int status;
	pid_t pid = fork();

	if (!pid) {
		be_a_child(&l);
		_exit(0);
	}
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	ck_assert_mem_eq(ev->param.conn.private_data, "child", 5);
	ck_assert_int_eq(rdma_reject(ev->id, NULL, 0), 0);
	rdma_destroy_id(ev->id);
	rdma_ack_cm_event(ev);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	done(&l);
}
END_TEST

START_TEST(wildcard_serves_all)
{
	struct side l = listener(RDMA_PS_TCP, "::", 8);
	uint16_t port = rdma_get_src_port(l.id);
	unsigned int i;

	for (i = 0; i < 3; i++) {
		struct side a = caller(RDMA_PS_TCP, addresses[i], port);
		struct rdma_cm_event *ev;
		struct sockaddr_storage ss = addr_of(addresses[i], ntohs(port));

		connect_with(&a, NULL, 0);
		ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
		ck_assert_mem_eq(&ev->id->route.addr.src_storage, &ss,
				 ss.ss_family == AF_INET ? sizeof(struct sockaddr_in)
							 : sizeof(struct sockaddr_in6));
		ck_assert_int_eq(rdma_reject(ev->id, NULL, 0), 0);
		struct rdma_cm_id *b = ev->id;
		rdma_ack_cm_event(ev);
		ck_assert_int_eq(rdma_destroy_id(b), 0);
		expect_ack(a.ch, RDMA_CM_EVENT_REJECTED);
		done(&a);
	}
	done(&l);
}
END_TEST

START_TEST(one_address_is_not_another)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.2", 8);
	struct side a = caller(RDMA_PS_TCP, "127.0.0.3", rdma_get_src_port(l.id));
	struct rdma_cm_event *ev;

	connect_with(&a, NULL, 0);
	ev = expect(a.ch, RDMA_CM_EVENT_REJECTED);
	ck_assert_int_eq(ev->status, 8);
	rdma_ack_cm_event(ev);
	done(&a);
	done(&l);
}
END_TEST

START_TEST(addresses_that_are_not_ours)
{
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	struct sockaddr_storage odd = {.ss_family = AF_UNIX};

	ck_assert(bind_to(id, "192.0.2.77", 0) == -1 && errno == EADDRNOTAVAIL);
	ck_assert(rdma_bind_addr(id, (struct sockaddr *)&odd) == -1 && errno == EINVAL);
	if (geteuid())
		ck_assert(bind_to(id, "127.0.0.1", 80) == -1 && errno == EACCES);
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

/* No route: an error of the call. A route, but no device on it: an event. */
START_TEST(unreachable_address)
{
	struct sockaddr_storage ss = addr_of("192.0.2.77", 7);
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	bool route = !connect(s, (struct sockaddr *)&ss, sizeof(struct sockaddr_in));
	struct rdma_event_channel *ch = channel();
	struct rdma_cm_id *id = new_id(ch, RDMA_PS_TCP);
	struct rdma_cm_event *ev;

	close(s);
	if (route) {
		ck_assert_int_eq(resolve(id, "192.0.2.77", 7), 0);
		ev = expect(ch, RDMA_CM_EVENT_ADDR_ERROR);
		ck_assert_int_eq(ev->status, -ENODEV);
		rdma_ack_cm_event(ev);
	} else {
		ck_assert(resolve(id, "192.0.2.77", 7) == -1 && errno == ENETUNREACH);
	}
	/* It may try again. */
	ck_assert_int_eq(rdma_destroy_id(id), 0);
	rdma_destroy_event_channel(ch);
}
END_TEST

START_TEST(options)
{
	struct side l = listener(RDMA_PS_TCP, "127.0.0.1", 1);
	struct side a = {.ch = channel()};
	uint8_t tos = 0x68, timeout = 14;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	struct rdma_conn_param p = {0};
	struct rdma_cm_event *ev;
	struct rdma_cm_id *b;
	int mask, on = 1;

	a.id = new_id(a.ch, RDMA_PS_TCP);
	ck_assert_int_eq(
	    rdma_set_option(a.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
	ck_assert_int_eq(rdma_set_option(a.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT,
					 &timeout, 1),
			 0);
	ck_assert(rdma_set_option(a.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, 4) ==
		      -1 &&
		  errno == EINVAL);
	ck_assert(rdma_set_option(a.id, RDMA_OPTION_ID, 99, &on, 4) == -1 &&
		  errno == ENOSYS);
	ck_assert(rdma_set_option(a.id, 99, 0, &on, 4) == -1 && errno == ENOSYS);
	ck_assert_int_eq(resolve(a.id, "127.0.0.1", ntohs(rdma_get_src_port(l.id))), 0);
	expect_ack(a.ch, RDMA_CM_EVENT_ADDR_RESOLVED);
	ck_assert_int_eq(rdma_resolve_route(a.id, 1), 0);
	expect_ack(a.ch, RDMA_CM_EVENT_ROUTE_RESOLVED);
	ck_assert_uint_eq(a.id->route.path_rec->traffic_class, tos);
	ck_assert_uint_eq(a.id->route.path_rec->packet_life_time, 13);
	connect_with(&a, NULL, 0);
	ev = expect(l.ch, RDMA_CM_EVENT_CONNECT_REQUEST);
	b = ev->id;
	rdma_ack_cm_event(ev);
	ck_assert_int_eq(rdma_init_qp_attr(b, &attr, &mask), 0);
	ck_assert_uint_eq(attr.ah_attr.grh.traffic_class, tos);
	ck_assert_int_eq(rdma_accept(b, &p), 0);
	expect_ack(a.ch, RDMA_CM_EVENT_CONNECT_RESPONSE);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(rdma_init_qp_attr(a.id, &attr, &mask), 0);
	ck_assert_uint_eq(attr.timeout, timeout);
	ck_assert_int_eq(rdma_destroy_id(b), 0);
	done(&a);
	done(&l);
}
END_TEST

/* --- datagrams, multicast --------------------------------------------------------- */

START_TEST(datagrams)
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

START_TEST(multicast)
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
	Suite *s = suite_create("rdmacm");
	TCase *t = tcase_create("librdmacm");

	if (access("/dev/infiniband/rdma_cm", F_OK))
		return 77;
	tcase_set_timeout(t, 90);
	tcase_add_loop_test(t, connect_accept_disconnect, 0, 3);
	tcase_add_test(t, qp_gets_connected);
	tcase_add_test(t, reject_says_why);
	tcase_add_test(t, nobody_listens);
	tcase_add_test(t, request_ends_with_its_listener);
	tcase_add_test(t, full_backlog_delays);
	tcase_add_test(t, private_data_limits);
	tcase_add_test(t, calls_in_the_wrong_state);
	tcase_add_test(t, connections_one_after_another);
	tcase_add_test(t, synchronous);
	tcase_add_test(t, bind_conflicts);
	tcase_add_loop_test(t, bind_to_loopback_ties_to_no_device, 0, 3);
	tcase_add_test(t, afonly_parts_the_families);
	tcase_add_test(t, port_spaces_are_apart);
	tcase_add_test(t, conflict_between_processes);
	tcase_add_loop_test(t, death_of_a_server, 0, DEATHS);
	tcase_add_test(t, a_forked_child_begins_anew);
	tcase_add_test(t, wildcard_serves_all);
	tcase_add_test(t, one_address_is_not_another);
	tcase_add_test(t, addresses_that_are_not_ours);
	tcase_add_test(t, unreachable_address);
	tcase_add_test(t, options);
	tcase_add_test(t, datagrams);
	tcase_add_test(t, multicast);
	tcase_add_test(t, identifiers_move_between_channels);
	tcase_add_test(t, unread_events_do_no_harm);
	suite_add_tcase(s, t);
	return check_main(s);
}
