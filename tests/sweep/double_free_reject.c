/*
 * double_free_reject.c - the handler of a rejected connection frees what the end of the program
 * frees again.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef MENDED
#define FAULTY 0
#else
#define FAULTY 1
#endif

#define WAIT_MS 2000

/* struct conn - an end of the connection */
struct conn {
	struct rdma_cm_id *id;
	bool up, over;
};

/*
 * struct pair
 * @events, @listen: of both ends; @client, @server: NULL: there is none (any more)
 */
struct pair {
	struct rdma_event_channel *events;
	struct rdma_cm_id *listen;
	struct conn *client, *server;
	bool failed;
};

static struct conn *conn_new(struct rdma_cm_id *id)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (c) {
		c->id = id;
		id->context = c;
	}
	return c;
}

static void conn_free(struct conn *c)
{
	if (!c)
		return;
	if (c->id && c->id->qp)
		rdma_destroy_qp(c->id);
	if (c->id)
		rdma_destroy_id(c->id);
	c->id = NULL;
	free(c);
}

static int make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC,
					.cap = {.max_send_wr = 1,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1}};

	return rdma_create_qp(id, NULL, &init);
}

static int on_request(struct pair *p, struct rdma_cm_id *id)
{
	struct rdma_conn_param param = {0};

	p->server = conn_new(id);
	if (!p->server) {
		rdma_destroy_id(id);
		return -1;
	}
	return make_qp(id) || rdma_accept(id, &param);
}

static void on_rejected(struct pair *p)
{
	conn_free(p->client); /* HERE */
	if (!FAULTY)
		p->client = NULL;
	p->failed = true;
}

/* 0, or something failed */
static int handle(struct pair *p, struct rdma_cm_event *e)
{
	struct rdma_conn_param param = {.retry_count = 7};
	struct conn *c = e->id->context;

	switch (e->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		return rdma_resolve_route(e->id, WAIT_MS);
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		return make_qp(e->id) || rdma_connect(e->id, &param);
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		return on_request(p, e->id);
	case RDMA_CM_EVENT_ESTABLISHED:
		c->up = true;
		return 0;
	case RDMA_CM_EVENT_DISCONNECTED:
		c->over = true;
		return rdma_disconnect(e->id) && 0;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return 0;
	default:
		return -1;
	}
}

/* Events until both ends are @up, or both are over */
static void follow(struct pair *p, bool up)
{
	struct pollfd fd = {.fd = p->events->fd, .events = POLLIN};
	struct rdma_cm_event *e, copy;

	while (!p->failed && (!p->server || !p->client ||
			      !(up ? p->client->up && p->server->up
				   : p->client->over && p->server->over))) {
		if (poll(&fd, 1, WAIT_MS) != 1 || rdma_get_cm_event(p->events, &e)) {
			p->failed = true;
			break;
		}
		copy = *e;
		rdma_ack_cm_event(e);
		if (copy.event == RDMA_CM_EVENT_REJECTED)
			on_rejected(p);
		else
			p->failed |= handle(p, &copy) != 0;
	}
}

/* @port: 0: any */
static int begin(struct pair *p, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
				.sin_port = htons(port),
				.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct rdma_cm_id *id;

	p->events = rdma_create_event_channel();
	if (!p->events || rdma_create_id(p->events, &p->listen, NULL, RDMA_PS_TCP))
		return -1;
	if (rdma_bind_addr(p->listen, (struct sockaddr *)&a) || rdma_listen(p->listen, 1))
		return -1;
	a.sin_port = rdma_get_src_port(p->listen);
	if (rdma_create_id(p->events, &id, NULL, RDMA_PS_TCP))
		return -1;
	p->client = conn_new(id);
	if (!p->client) {
		rdma_destroy_id(id);
		return -1;
	}
	return rdma_resolve_addr(id, NULL, (struct sockaddr *)&a, WAIT_MS);
}

int main(int argc, char **argv)
{
	struct pair p = {0};

	p.failed = begin(&p, argc > 1 ? (uint16_t)atoi(argv[1]) : 0);
	if (!p.failed)
		follow(&p, true);
	if (!p.failed && rdma_disconnect(p.client->id))
		p.failed = true;
	if (!p.failed)
		follow(&p, false);
	conn_free(p.client);
	conn_free(p.server);
	if (p.listen)
		rdma_destroy_id(p.listen);
	if (p.events)
		rdma_destroy_event_channel(p.events);
	return p.failed;
}
