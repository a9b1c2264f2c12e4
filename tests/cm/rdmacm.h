/*
 * rdmacm.h - the moves that tests through librdmacm have in common: identifiers, events, and the
 * two sides of a connection, both in one process.
 */
#ifndef URXE_TESTS_CM_RDMACM_H
#define URXE_TESTS_CM_RDMACM_H

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

/* Addresses of this host, to be looped over */
#define N_ADDRESSES 3
static const char *const addresses[N_ADDRESSES]
    __attribute__((unused)) = {"127.0.0.1", "127.0.0.9", "::1"};

static inline struct sockaddr_storage addr_of(const char *text, uint16_t port)
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

static inline int bind_to(struct rdma_cm_id *id, const char *text, uint16_t port)
{
	struct sockaddr_storage ss = addr_of(text, port);

	return rdma_bind_addr(id, (struct sockaddr *)&ss);
}

static inline int resolve(struct rdma_cm_id *id, const char *text, uint16_t port)
{
	struct sockaddr_storage ss = addr_of(text, port);

	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&ss, 2000);
}

static inline struct rdma_event_channel *channel(void)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	ck_assert_ptr_nonnull(ch);
	return ch;
}

static inline struct rdma_cm_id *new_id(struct rdma_event_channel *ch,
					enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	ck_assert_int_eq(rdma_create_id(ch, &id, NULL, ps), 0);
	return id;
}

static inline bool has_event(struct rdma_event_channel *ch, int ms)
{
	struct pollfd p = {.fd = ch->fd, .events = POLLIN};

	return poll(&p, 1, ms) > 0;
}

static inline struct rdma_cm_event *expect(struct rdma_event_channel *ch,
					   enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	ck_assert_msg(has_event(ch, WAIT_MS), "no %s", rdma_event_str(type));
	ck_assert_int_eq(rdma_get_cm_event(ch, &ev), 0);
	ck_assert_msg(ev->event == type, "%s (%d) instead of %s",
		      rdma_event_str(ev->event), ev->status, rdma_event_str(type));
	return ev;
}

static inline void expect_ack(struct rdma_event_channel *ch, enum rdma_cm_event_type type)
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

static inline struct side listener(enum rdma_port_space ps, const char *text, int backlog)
{
	struct side s = {.ch = channel()};

	s.id = new_id(s.ch, ps);
	ck_assert_int_eq(bind_to(s.id, text, 0), 0);
	ck_assert_int_eq(rdma_listen(s.id, backlog), 0);
	ck_assert_uint_ne(rdma_get_src_port(s.id), 0);
	return s;
}

static inline void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 4,
						.max_recv_wr = 4,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = id->qp_type};

	ck_assert_int_eq(rdma_create_qp(id, NULL, &attr), 0);
}

/* An active side, resolved */
static inline struct side caller(enum rdma_port_space ps, const char *text,
				 uint16_t port_be)
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

static inline void connect_with(struct side *s, const void *priv, uint8_t len)
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

static inline void done(struct side *s)
{
	if (s->id && s->id->qp)
		rdma_destroy_qp(s->id);
	if (s->id)
		ck_assert_int_eq(rdma_destroy_id(s->id), 0);
	rdma_destroy_event_channel(s->ch);
}

#endif
