/*
 * stuck.c - programs that do not get on with rdma_cm; the argument names what they do. Each says
 * "ready" when it is where it stays, and stays there until it is ended, or for SECONDS.
 *
 *	stuck MODE ADDRESS PORT [SECONDS]
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WAIT_MS 2000

static struct rdma_event_channel *channel;
static struct sockaddr_in at = {.sin_family = AF_INET};
static unsigned int seconds = 60;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void ready(void)
{
	puts("ready");
	fflush(stdout);
}

static void stay(void)
{
	ready();
	sleep(seconds);
}

static struct rdma_cm_id *new_id(void)
{
	struct rdma_cm_id *id;

	channel = rdma_create_event_channel();
	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		die("rdma_create_id");
	return id;
}

/* The next event, not acknowledged */
static struct rdma_cm_event *next_event(void)
{
	struct rdma_cm_event *e;

	if (rdma_get_cm_event(channel, &e))
		die("rdma_get_cm_event");
	printf("%s %d\n", rdma_event_str(e->event), e->status);
	fflush(stdout);
	return e;
}

static void take(enum rdma_cm_event_type want)
{
	struct rdma_cm_event *e = next_event();

	if (e->event != want)
		exit(2);
	rdma_ack_cm_event(e);
}

static void add_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 1,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};

	if (rdma_create_qp(id, NULL, &attr))
		die("rdma_create_qp");
}

static struct rdma_cm_id *listener(int backlog)
{
	struct rdma_cm_id *id = new_id();

	if (rdma_bind_addr(id, (struct sockaddr *)&at) || rdma_listen(id, backlog))
		die("rdma_listen");
	return id;
}

static struct rdma_cm_id *caller(void)
{
	struct rdma_conn_param p = {.private_data = "hello", .private_data_len = 5};
	struct rdma_cm_id *id = new_id();

	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, WAIT_MS))
		die("rdma_resolve_addr");
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
	if (rdma_resolve_route(id, WAIT_MS))
		die("rdma_resolve_route");
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
	add_qp(id);
	if (rdma_connect(id, &p))
		die("rdma_connect");
	return id;
}

/* --- what they do ----------------------------------------------------------------- */

/* Listens and reads no event */
static void deaf(void)
{
	listener(0);
	stay();
}

/* Listens with room for one request and reads no event */
static void full(void)
{
	listener(1);
	stay();
}

/* Reads requests and answers none */
static void mute(void)
{
	listener(0);
	ready();
	for (;;)
		rdma_ack_cm_event(next_event());
}

/* Accepts what comes, and answers no end */
static void accepts(void)
{
	listener(0);
	ready();
	for (;;) {
		struct rdma_cm_event *e = next_event();

		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			add_qp(e->id);
			if (rdma_accept(e->id, NULL))
				die("rdma_accept");
		}
		rdma_ack_cm_event(e);
	}
}

/* Listens for a moment, and not any more when a request comes */
static void closes(void)
{
	struct rdma_cm_id *id = listener(0);

	ready();
	rdma_ack_cm_event(next_event());
	rdma_destroy_id(id);
	sleep(seconds);
}

static void refuses(void)
{
	listener(0);
	ready();
	for (;;) {
		struct rdma_cm_event *e = next_event();

		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			rdma_reject(e->id, NULL, 0);
		rdma_ack_cm_event(e);
	}
}

/* Connects and waits for the next event, whatever it is; then stays */
static void connects(void)
{
	caller();
	ready();
	rdma_ack_cm_event(next_event());
	sleep(seconds);
}

/* Connects and looks at no event */
static void ignores(void)
{
	caller();
	stay();
}

/* Connects, and asks for the end */
static void leaves(void)
{
	struct rdma_cm_id *id = caller();

	take(RDMA_CM_EVENT_ESTABLISHED);
	rdma_disconnect(id);
	ready();
	rdma_ack_cm_event(next_event());
	sleep(seconds);
}

/* Destroys an identifier while one of its events is not acknowledged */
static void unacknowledged(void)
{
	struct rdma_cm_id *id = new_id();

	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, WAIT_MS))
		die("rdma_resolve_addr");
	next_event();
	ready();
	alarm(seconds);
	rdma_destroy_id(id);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} modes[] = {{"deaf", deaf},	     {"full", full},
		     {"mute", mute},	     {"accepts", accepts},
		     {"closes", closes},     {"refuses", refuses},
		     {"connects", connects}, {"ignores", ignores},
		     {"leaves", leaves},     {"unacknowledged", unacknowledged}};

	if (argc < 4 || inet_pton(AF_INET, argv[2], &at.sin_addr) != 1)
		return 3;
	at.sin_port = htons((uint16_t)atoi(argv[3]));
	if (argc > 4)
		seconds = (unsigned int)atoi(argv[4]);
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!strcmp(argv[1], modes[i].name)) {
			modes[i].run();
			return 0;
		}
	return 3;
}
