/*
 * fuzz_cm.c - messages of connection management: those of a real exchange with bytes changed, and
 * any bytes, while the owners at both ends do this and that in any order.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "emu/cm.h"
#include "emu/hca.h"
#include "tests/fuzz/fuzz.h"

#define MS     1000000ull
#define STEPS  64
#define CONNS  8
#define FLIGHT 64

struct end {
	struct emu_cm *cm;
	struct emu_cm_port port;
	struct emu_cm_conn *conn[CONNS];
	unsigned int n;
};

static struct end end[2];
static uint8_t flight[FLIGHT][CM_MAD_LEN];
static unsigned int to[FLIGHT], n_flight;
static int answer; /* to requests */
static uint64_t now;

static const struct net_path there = {
    .src = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}},
    .dst = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}},
    .ttl = 64};

/* In place of the HCA's; what finds no room is lost */
int emu_hca_gsi_tx(struct emu_hca *hca, const struct net_path *path, uint32_t dqpn,
		   const uint8_t *mad, uint32_t len, bool again)
{
	if (len != CM_MAD_LEN)
		abort();
	if (n_flight == FLIGHT)
		return 0;
	memcpy(flight[n_flight], mad, CM_MAD_LEN);
	to[n_flight++] = (struct end *)(void *)hca == &end[0];
	return 0;
}

static int on_request(void *arg, void *dev, struct emu_cm_conn *c,
		      const struct cm_msg *msg, const struct net_path *path)
{
	struct end *e = arg;

	if (answer || e->n == CONNS)
		return answer ? answer : -ENOMEM;
	e->conn[e->n++] = c;
	emu_cm_set_cookie(c, e);
	return 0;
}

static void on_event(void *arg, void *cookie, enum emu_cm_event_type type,
		     const struct cm_msg *msg)
{
	if (cookie != arg)
		abort();
}

static void on_changed(void *arg, struct emu_cm_conn *c)
{
	uint8_t mad[CM_MAD_LEN];
	struct net_path path;

	emu_cm_farewell(c, &path, mad);
}

static void open_end(struct end *e, uint32_t slot)
{
	static const struct emu_cm_ops ops = {on_request, on_event, on_changed};
	const struct emu_cm_cfg cfg = {.slot = slot, .seed = slot};

	e->n = 0;
	e->port = (struct emu_cm_port){
	    .hca = (struct emu_hca *)(void *)e, .guid_be = slot, .ack_delay = 15};
	if (emu_cm_create(&cfg, &ops, e, &e->cm))
		abort();
}

static void close_end(struct end *e)
{
	while (e->n)
		emu_cm_release(e->conn[--e->n]);
	emu_cm_destroy(e->cm);
}

static void pass_time(uint64_t ns)
{
	now += ns;
	for (int i = 0; i < 2; i++) {
		emu_cm_set_time(end[i].cm, now);
		emu_cm_run(end[i].cm);
	}
}

/* The oldest that flies arrives, maybe changed, maybe twice */
static void arrive(struct input *in)
{
	uint8_t mad[CM_MAD_LEN], changes = take8(in) % 4;
	bool again = take8(in) % 8 == 1;
	struct end *e;

	if (!n_flight)
		return;
	e = &end[to[0]];
	memcpy(mad, flight[0], sizeof(mad));
	n_flight--;
	memmove(flight, flight + 1, n_flight * sizeof(flight[0]));
	memmove(to, to + 1, n_flight * sizeof(to[0]));
	while (changes--)
		mad[take8(in)] ^= take8(in);
	emu_cm_rx(e->cm, &e->port, &there, mad, sizeof(mad));
	if (again)
		emu_cm_rx(e->cm, &e->port, &there, mad, sizeof(mad));
}

static void any(struct input *in, struct end *e)
{
	uint32_t len = take16(in) % (CM_MAD_LEN + 1);
	uint8_t mad[CM_MAD_LEN];

	take(in, mad, sizeof(mad));
	emu_cm_rx(e->cm, &e->port, &there, mad, len);
}

static void ask(struct input *in, struct end *e)
{
	struct emu_cm_req req = {.service_id = take8(in),
				 .qp_type = IBV_QPT_RC,
				 .qpn = 0x111,
				 .retry_count = take8(in) % 8,
				 .mtu = IBV_MTU_1024,
				 .lifetime = 1,
				 .path = there,
				 .priv = "ping",
				 .priv_len = 5};

	if (e->n == CONNS)
		return;
	if (take8(in) % 4 ? emu_cm_connect(e->cm, &e->port, e, &req, &e->conn[e->n])
			  : emu_cm_sidr_ask(e->cm, &e->port, e, &req, &e->conn[e->n]))
		return;
	e->n++;
}

static void act(struct input *in, struct end *e)
{
	const struct emu_cm_rep rep = {.qpn = 0x222, .priv = "pong", .priv_len = 5};
	struct ibv_qp_attr attr = {.qp_state = take8(in) % 7};
	struct emu_cm_conn *c = e->n ? e->conn[take8(in) % e->n] : NULL;
	int mask;

	if (!c)
		return;
	switch (take8(in) % 9) {
	case 0:
		emu_cm_reply(c, &rep);
		break;
	case 1:
		emu_cm_rtu(c);
		break;
	case 2:
		emu_cm_reject(c, CM_REJ_CONSUMER, "no", 3);
		break;
	case 3:
		emu_cm_disconnect(c);
		break;
	case 4:
		emu_cm_established(c);
		break;
	case 5:
		emu_cm_delay(c);
		break;
	case 6:
		emu_cm_sidr_answer(c, take8(in) % 4, 0x333, 0x44, "s", 2);
		break;
	case 7:
		emu_cm_peer_gone(c);
		break;
	default:
		emu_cm_qp_attr(c, &attr, &mask);
		break;
	}
}

static void release(struct input *in, struct end *e)
{
	unsigned int i;

	if (!e->n)
		return;
	i = take8(in) % e->n;
	emu_cm_release(e->conn[i]);
	e->conn[i] = e->conn[--e->n];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int answers[] = {0, 0, -ENOENT, -ENOMEM, -EPERM};
	struct input in = {data, size};
	unsigned int i;

	now = n_flight = 0;
	answer = 0;
	open_end(&end[0], 1);
	open_end(&end[1], 2);
	for (i = 0; i < STEPS && in.n; i++) {
		uint8_t what = take8(&in);
		struct end *e = &end[what >> 7];

		switch (what % 8) {
		case 0:
		case 1:
			arrive(&in);
			break;
		case 2:
			any(&in, e);
			break;
		case 3:
			ask(&in, e);
			break;
		case 4:
			act(&in, e);
			break;
		case 5:
			release(&in, e);
			break;
		case 6:
			pass_time(take16(&in) * MS);
			break;
		default:
			answer = answers[take8(&in) % 5];
			break;
		}
	}
	close_end(&end[0]);
	close_end(&end[1]);
	return 0;
}
