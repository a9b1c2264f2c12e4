/*
 * Description: two CMs through a network that loses, doubles and reorders messages by a
 * seed. Whatever happens on the way, both sides end in agreement, each owner hears of
 * each step once, and nothing is left over.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/cm_conn.h"
#include "tests/check_main.h"

#define MS	  1000000u
#define SERVICE	  0x01061234u
#define IN_FLIGHT 4096

/* --- the network ------------------------------------------------------------------ */

struct packet {
	uint64_t at;
	int to;
	struct net_path path;
	uint8_t mad[CM_MAD_LEN];
};

/*
 * struct peer - an owner of a CM that does what the test says and counts what it hears
 * @answer:	what to do with a request
 * @delay:	answer requests only after this time
 */
struct peer {
	struct world *w;
	int index;
	struct emu_cm *cm;
	struct emu_cm_port port;
	enum { ACCEPT, REJECT, NOBODY, BUSY, WAIT } answer;
	struct emu_cm_conn *conn[64];
	unsigned int n_conn, n_replies;
	unsigned int requests, reps, established, rejects, disconnects, errors, exits,
	    sidr;
	unsigned int last_reason;
	uint32_t last_qpn;
};

struct world {
	uint64_t now;
	uint64_t rng;
	unsigned int loss, dup, reorder; /* percent */
	struct packet flight[IN_FLIGHT];
	unsigned int n_flight;
	unsigned int sent[CM_SIDR_REP + 1];
	unsigned int drop_attr, drop_count; /* lose the next so many of one kind */
	struct peer peer[2];
};

static unsigned int rnd(struct world *w, unsigned int n)
{
	w->rng ^= w->rng << 13;
	w->rng ^= w->rng >> 7;
	w->rng ^= w->rng << 17;
	return (unsigned int)(w->rng % n);
}

static void fly(struct world *w, int to, const struct net_path *path, const uint8_t *mad)
{
	struct packet *p = &w->flight[w->n_flight];

	ck_assert_uint_lt(w->n_flight, IN_FLIGHT);
	w->n_flight++;
	p->at = w->now + 1 * MS;
	if (rnd(w, 100) < w->reorder)
		p->at += rnd(w, 300) * MS;
	p->to = to;
	p->path = *path;
	memcpy(p->mad, mad, CM_MAD_LEN);
}

static void net_tx(void *arg, void *dev, const struct net_path *path, const uint8_t *mad)
{
	struct peer *p = arg;
	struct world *w = p->w;

	ck_assert_ptr_eq(dev, p);
	ck_assert_uint_le(mad[17], CM_SIDR_REP);
	w->sent[mad[17]]++;
	if (w->drop_count && mad[17] == w->drop_attr) {
		w->drop_count--;
		return;
	}
	if (rnd(w, 100) < w->loss)
		return;
	fly(w, !p->index, path, mad);
	if (rnd(w, 100) < w->dup)
		fly(w, !p->index, path, mad);
}

/* --- the owners ------------------------------------------------------------------- */

static void reply(struct peer *p, struct emu_cm_conn *c)
{
	const struct emu_cm_rep rep = {.qpn = 0x222 + p->n_replies++,
				       .psn = 0x2222,
				       .responder_resources = 4,
				       .initiator_depth = 3,
				       .rnr_retry = 7,
				       .priv = "pong",
				       .priv_len = 5};

	ck_assert_int_eq(emu_cm_reply(c, &rep), 0);
}

static void act(struct peer *p, struct emu_cm_conn *c)
{
	bool sidr = c->state == EMU_CM_SIDR_REQ_RCVD;

	switch (p->answer) {
	case ACCEPT:
		if (sidr)
			ck_assert_int_eq(
			    emu_cm_sidr_answer(c, CM_SIDR_SUCCESS, 0x333, 0x44, "s", 2),
			    0);
		else
			reply(p, c);
		break;
	case REJECT:
		if (sidr)
			emu_cm_sidr_answer(c, CM_SIDR_REJECT, 0, 0, NULL, 0);
		else
			ck_assert_int_eq(emu_cm_reject(c, CM_REJ_CONSUMER, "no", 3), 0);
		break;
	default:
		break;
	}
}

static int on_request(void *arg, void *dev, struct emu_cm_conn *c, const struct cm_msg *m,
		      const struct net_path *path)
{
	struct peer *p = arg;

	if (p->answer == NOBODY)
		return -ENOENT;
	if (p->answer == BUSY)
		return -ENOMEM;
	ck_assert_str_eq((const char *)m->priv, "ping");
	p->requests++;
	ck_assert_uint_lt(p->n_conn, 64);
	p->conn[p->n_conn++] = c;
	emu_cm_set_cookie(c, p);
	return 0;
}

static void on_event(void *arg, void *cookie, enum emu_cm_event_type type,
		     const struct cm_msg *m)
{
	struct peer *p = arg;

	ck_assert_ptr_eq(cookie, p);
	switch (type) {
	case EMU_CM_EV_REP:
		ck_assert_str_eq((const char *)m->priv, "pong");
		p->reps++;
		break;
	case EMU_CM_EV_ESTABLISHED:
		p->established++;
		break;
	case EMU_CM_EV_REJ:
		p->rejects++;
		p->last_reason = m->rej.reason;
		break;
	case EMU_CM_EV_DREQ:
	case EMU_CM_EV_DREP:
		p->disconnects++;
		break;
	case EMU_CM_EV_REQ_ERROR:
	case EMU_CM_EV_REP_ERROR:
	case EMU_CM_EV_DREQ_ERROR:
	case EMU_CM_EV_SIDR_ERROR:
		p->errors++;
		break;
	case EMU_CM_EV_TIMEWAIT_EXIT:
		p->exits++;
		break;
	case EMU_CM_EV_SIDR_REP:
		p->sidr++;
		p->last_reason = m->sidr_rep.status;
		p->last_qpn = m->sidr_rep.qpn;
		break;
	}
}

static const struct emu_cm_ops ops = {
    .tx = net_tx, .request = on_request, .event = on_event};

/* --- the world -------------------------------------------------------------------- */

static struct world *world_new(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	int i;

	w->rng = seed * 0x9e3779b97f4a7c15u + 1;
	for (i = 0; i < 2; i++) {
		struct emu_cm_cfg cfg = {.slot = (uint32_t)i + 1, .seed = seed};

		w->peer[i].w = w;
		w->peer[i].index = i;
		w->peer[i].port = (struct emu_cm_port){
		    .dev = &w->peer[i], .guid_be = (uint64_t)i + 100, .ack_delay = 15};
		ck_assert_int_eq(emu_cm_create(&cfg, &ops, &w->peer[i], &w->peer[i].cm),
				 0);
	}
	return w;
}

static void world_free(struct world *w)
{
	emu_cm_destroy(w->peer[0].cm);
	emu_cm_destroy(w->peer[1].cm);
	free(w);
}

static uint64_t next_arrival(const struct world *w, unsigned int *which)
{
	uint64_t t = UINT64_MAX;
	unsigned int i;

	for (i = 0; i < w->n_flight; i++) {
		if (w->flight[i].at < t) {
			t = w->flight[i].at;
			*which = i;
		}
	}
	return t;
}

static void deliver(struct world *w, unsigned int i)
{
	struct packet p = w->flight[i];
	struct peer *to = &w->peer[p.to];

	w->flight[i] = w->flight[--w->n_flight];
	emu_cm_set_time(to->cm, w->now);
	emu_cm_rx(to->cm, &to->port, &p.path, p.mad, CM_MAD_LEN);
}

/* Time passes until @until, or until nothing is to come (if that is 0). */
static void world_run(struct world *w, uint64_t until)
{
	for (;;) {
		unsigned int which = 0;
		uint64_t t = next_arrival(w, &which);
		bool arrival = true;
		int i;

		for (i = 0; i < 2; i++) {
			uint64_t d = emu_cm_run(w->peer[i].cm);

			if (d < t) {
				t = d;
				arrival = false;
			}
		}
		if (t == UINT64_MAX || (until && t > until))
			break;
		w->now = t;
		emu_cm_set_time(w->peer[0].cm, t);
		emu_cm_set_time(w->peer[1].cm, t);
		if (arrival && w->n_flight)
			deliver(w, which);
	}
	if (until) {
		w->now = until;
		emu_cm_set_time(w->peer[0].cm, until);
		emu_cm_set_time(w->peer[1].cm, until);
	}
}

/* Run for @ms, in small steps in which owners act on what they have got. */
static void live(struct world *w, unsigned int ms)
{
	uint64_t end = w->now + (uint64_t)ms * MS;

	while (w->now < end) {
		unsigned int i;

		world_run(w, w->now + 5 * MS);
		for (i = 0; i < w->peer[1].n_conn; i++) {
			struct emu_cm_conn *c = w->peer[1].conn[i];

			if (c && (c->state == EMU_CM_MRA_REQ_SENT ||
				  c->state == EMU_CM_SIDR_REQ_RCVD))
				act(&w->peer[1], c);
		}
		for (i = 0; i < w->peer[0].n_conn; i++) {
			struct emu_cm_conn *c = w->peer[0].conn[i];

			if (c && c->state == EMU_CM_MRA_REP_SENT)
				ck_assert_int_eq(emu_cm_rtu(c), 0);
		}
	}
}

static const struct net_path path_ab = {
    .src = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}},
    .dst = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}},
    .ttl = 64,
    .tclass = 8};

static struct emu_cm_req request(uint32_t qpn)
{
	return (struct emu_cm_req){.service_id = SERVICE,
				   .qp_type = IBV_QPT_RC,
				   .qpn = qpn,
				   .psn = 0x1111,
				   .responder_resources = 5,
				   .initiator_depth = 6,
				   .retry_count = 7,
				   .rnr_retry = 6,
				   .path = path_ab,
				   .mtu = IBV_MTU_1024,
				   .lifetime = 16,
				   .priv = "ping",
				   .priv_len = 5};
}

static struct emu_cm_conn *start(struct world *w, uint32_t qpn)
{
	struct emu_cm_req r = request(qpn);
	struct peer *p = &w->peer[0];
	struct emu_cm_conn *c;

	ck_assert_int_eq(emu_cm_connect(p->cm, &p->port, p, &r, &c), 0);
	ck_assert_uint_lt(p->n_conn, 64);
	p->conn[p->n_conn++] = c;
	return c;
}

static void release_all(struct world *w)
{
	int p;

	for (p = 0; p < 2; p++) {
		while (w->peer[p].n_conn)
			emu_cm_release(w->peer[p].conn[--w->peer[p].n_conn]);
	}
	world_run(w, 0);
	ck_assert_uint_eq(w->peer[0].cm->count, 0);
	ck_assert_uint_eq(w->peer[1].cm->count, 0);
}

/* --- without trouble -------------------------------------------------------------- */

START_TEST(connect_and_disconnect)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c = start(w, 0x111);

	live(w, 100);
	ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
	ck_assert_uint_eq(w->peer[1].established, 1);
	ck_assert_uint_eq(w->peer[0].reps, 1);
	ck_assert_uint_eq(w->sent[CM_REQ], 1);
	ck_assert_uint_eq(w->sent[CM_MRA], 0);
	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	live(w, 10);
	ck_assert_uint_eq(w->peer[1].disconnects, 1);
	ck_assert_int_eq(emu_cm_disconnect(w->peer[1].conn[0]), 0);
	live(w, 1000);
	ck_assert_uint_eq(w->peer[0].disconnects, 1);
	ck_assert_uint_eq(w->peer[0].exits, 1);
	ck_assert_uint_eq(w->peer[1].exits, 1);
	ck_assert_uint_eq(w->sent[CM_DREQ], 1);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(qp_attributes)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *a = start(w, 0x111), *b;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
	int mask;

	ck_assert_int_eq(emu_cm_qp_attr(a, &attr, &mask), -EINVAL); /* not yet */
	attr.qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(emu_cm_qp_attr(a, &attr, &mask), 0);
	/* WRITE, READ, atomics, FLUSH of both kinds: what the kernel gives */
	ck_assert_uint_eq(attr.qp_access_flags, 0x30e);
	attr.qp_state = IBV_QPS_RTR;
	live(w, 100);
	b = w->peer[1].conn[0];
	ck_assert_int_eq(emu_cm_qp_attr(a, &attr, &mask), 0);
	ck_assert_int_eq(mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				   IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	ck_assert_uint_eq(attr.dest_qp_num, 0x222);
	ck_assert_uint_eq(attr.rq_psn, 0x1111);
	ck_assert_uint_eq(attr.max_dest_rd_atomic, 3); /* what the peer may start */
	ck_assert_int_eq(attr.path_mtu, IBV_MTU_1024);
	ck_assert_mem_eq(attr.ah_attr.grh.dgid.raw, path_ab.dst.b, 16);
	ck_assert_uint_eq(attr.ah_attr.grh.hop_limit, 64);
	ck_assert_uint_eq(attr.ah_attr.grh.traffic_class, 8);
	attr.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(emu_cm_qp_attr(a, &attr, &mask), 0);
	ck_assert_uint_eq(attr.sq_psn, 0x2222);
	ck_assert_uint_eq(attr.max_rd_atomic, 4);
	ck_assert_uint_eq(attr.retry_cnt, 7);
	ck_assert_uint_eq(attr.rnr_retry, 7);
	ck_assert_uint_eq(attr.timeout, 17);
	ck_assert_int_eq(emu_cm_qp_attr(b, &attr, &mask), 0);
	ck_assert_uint_eq(attr.sq_psn, 0x1111);
	ck_assert_uint_eq(attr.rnr_retry, 6);
	ck_assert_uint_eq(attr.timeout, 17);
	attr.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(emu_cm_qp_attr(b, &attr, &mask), 0);
	ck_assert_uint_eq(attr.rq_psn, 0x2222);
	ck_assert_uint_eq(attr.dest_qp_num, 0x111);
	ck_assert_mem_eq(attr.ah_attr.grh.dgid.raw, path_ab.src.b, 16);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(refused)
{
	static const struct {
		int answer;
		unsigned int reason;
	} cases[] = {{REJECT, CM_REJ_CONSUMER}, {NOBODY, CM_REJ_INVALID_SERVICE_ID}};
	unsigned int i;

	for (i = 0; i < 2; i++) {
		struct world *w = world_new(1);
		struct emu_cm_conn *c;

		w->peer[1].answer = cases[i].answer;
		c = start(w, 0x111);
		live(w, 100);
		ck_assert_uint_eq(w->peer[0].rejects, 1);
		ck_assert_uint_eq(w->peer[0].last_reason, cases[i].reason);
		ck_assert_int_eq(c->state, EMU_CM_IDLE);
		ck_assert_int_eq(emu_cm_disconnect(c), -EINVAL);
		release_all(w);
		world_free(w);
	}
}
END_TEST

START_TEST(datagram_service)
{
	struct world *w = world_new(1);
	struct peer *p = &w->peer[0];
	struct emu_cm_req r = request(0);

	ck_assert_int_eq(emu_cm_sidr_ask(p->cm, &p->port, p, &r, &p->conn[p->n_conn++]),
			 0);
	live(w, 100);
	ck_assert_uint_eq(p->sidr, 1);
	ck_assert_uint_eq(p->last_qpn, 0x333);
	w->peer[1].answer = NOBODY;
	ck_assert_int_eq(emu_cm_sidr_ask(p->cm, &p->port, p, &r, &p->conn[p->n_conn++]),
			 0);
	live(w, 100);
	ck_assert_uint_eq(p->sidr, 2);
	ck_assert_uint_eq(p->last_reason, CM_SIDR_UNSUPPORTED);
	w->peer[1].answer = REJECT;
	ck_assert_int_eq(emu_cm_sidr_ask(p->cm, &p->port, p, &r, &p->conn[p->n_conn++]),
			 0);
	live(w, 100);
	ck_assert_uint_eq(p->last_reason, CM_SIDR_REJECT);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(private_data_too_long)
{
	struct world *w = world_new(1);
	struct peer *p = &w->peer[0];
	struct emu_cm_req r = request(1);
	struct emu_cm_rep rep = {.priv_len = CM_PRIV_REP + 1, .priv = w};
	struct emu_cm_conn *c;

	r.priv = w;
	r.priv_len = CM_PRIV_REQ + 1;
	ck_assert_int_eq(emu_cm_connect(p->cm, &p->port, p, &r, &c), -EINVAL);
	r.priv_len = CM_PRIV_SIDR_REQ + 1;
	ck_assert_int_eq(emu_cm_sidr_ask(p->cm, &p->port, p, &r, &c), -EINVAL);
	ck_assert_uint_eq(p->cm->count, 0);
	w->peer[1].answer = WAIT;
	start(w, 1);
	live(w, 10);
	c = w->peer[1].conn[0];
	ck_assert_int_eq(emu_cm_reply(c, &rep), -EINVAL);
	ck_assert_int_eq(emu_cm_reject(c, CM_REJ_CONSUMER, w, CM_PRIV_REJ + 1), -EINVAL);
	ck_assert_int_eq(c->state, EMU_CM_MRA_REQ_SENT);
	release_all(w);
	world_free(w);
}
END_TEST

/* --- nobody answers --------------------------------------------------------------- */

START_TEST(unreachable)
{
	struct world *w = world_new(1);

	w->loss = 100;
	start(w, 0x111);
	world_run(w, 60000ull * MS);
	ck_assert_uint_eq(w->peer[0].errors, 0);
	world_run(w, 80000ull * MS); /* 16 * 4.608 s */
	ck_assert_uint_eq(w->peer[0].errors, 1);
	ck_assert_uint_ge(w->sent[CM_REQ], 16);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(peer_falls_silent)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c = start(w, 0x111);

	live(w, 100);
	w->loss = 100;
	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	world_run(w, 100000ull * MS);
	ck_assert_uint_eq(w->peer[0].errors, 1);
	ck_assert_uint_eq(w->peer[0].exits, 1);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(full_backlog_is_tried_again)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c;

	w->peer[1].answer = BUSY;
	c = start(w, 0x111);
	live(w, 1000);
	ck_assert_int_eq(c->state, EMU_CM_REQ_SENT);
	w->peer[1].answer = ACCEPT;
	live(w, 2000);
	ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(slow_owner_sends_mra)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c;

	w->peer[1].answer = WAIT;
	c = start(w, 0x111);
	live(w, 30000);
	ck_assert_int_eq(c->state, EMU_CM_MRA_REQ_RCVD);
	ck_assert_uint_eq(w->sent[CM_REQ], 2);
	ck_assert_uint_eq(w->peer[1].requests, 1);
	/* A REJ that is lost must not cost a minute. */
	w->drop_attr = CM_REJ;
	w->drop_count = 1;
	w->peer[1].answer = REJECT;
	live(w, 1000);
	ck_assert_uint_eq(w->peer[0].rejects, 1);
	release_all(w);
	world_free(w);
}
END_TEST

/* --- release in each state -------------------------------------------------------- */

START_TEST(release_tells_the_peer)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0], *b = &w->peer[1];

	/* established: DREQ */
	start(w, 1);
	live(w, 100);
	emu_cm_release(a->conn[--a->n_conn]);
	live(w, 100);
	ck_assert_uint_eq(b->disconnects, 1);
	emu_cm_release(b->conn[--b->n_conn]);
	/* asked and not answered: the other side hears that it is over */
	b->answer = WAIT;
	start(w, 2);
	live(w, 300); /* with an MRA, so that the peer's ID is known */
	emu_cm_release(a->conn[--a->n_conn]);
	live(w, 100);
	ck_assert_uint_eq(b->rejects, 1);
	ck_assert_uint_eq(b->last_reason, CM_REJ_TIMEOUT);
	emu_cm_release(b->conn[--b->n_conn]);
	/* the same before there is an MRA */
	start(w, 3);
	live(w, 20);
	emu_cm_release(a->conn[--a->n_conn]);
	live(w, 100);
	ck_assert_uint_eq(b->rejects, 2);
	emu_cm_release(b->conn[--b->n_conn]);
	/* a request that is not wanted any more */
	start(w, 4);
	live(w, 20);
	emu_cm_release(b->conn[--b->n_conn]);
	live(w, 100);
	ck_assert_uint_eq(a->rejects, 1);
	ck_assert_uint_eq(a->last_reason, CM_REJ_CONSUMER);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(somebody_else_says_farewell)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0], *b = &w->peer[1];
	struct emu_cm_conn *c = start(w, 0x111);
	uint8_t mad[CM_MAD_LEN];
	struct net_path path;

	live(w, 100);
	ck_assert(emu_cm_farewell(c, &path, mad));
	ck_assert(net_ip_eq(&path.dst, &path_ab.dst));
	/* The process is dead; its last message goes to the peer all the same. */
	emu_cm_rx(b->cm, &b->port, &path, mad, CM_MAD_LEN);
	ck_assert_uint_eq(b->disconnects, 1);
	ck_assert_int_eq(b->conn[0]->state, EMU_CM_DREQ_RCVD);
	/* And if nothing comes but it is known that the process is gone: */
	emu_cm_peer_gone(c);
	ck_assert_uint_eq(a->disconnects, 1);
	release_all(w);
	world_free(w);
}
END_TEST

/*
 * What a process leaves behind in the state that it died in, given to its peer, ends the peer's
 * wait at once.
 */
static void farewell_of(struct peer *dead, struct peer *peer)
{
	uint8_t mad[CM_MAD_LEN];
	struct net_path path;

	ck_assert(emu_cm_farewell(dead->conn[0], &path, mad));
	emu_cm_rx(peer->cm, &peer->port, &path, mad, CM_MAD_LEN);
}

START_TEST(farewell_in_each_state)
{
	const struct emu_cm_req r = request(0);
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0], *b = &w->peer[1];

	switch (_i) {
	case 0: /* who asked; the request was taken, with an MRA or without */
	case 1:
		b->answer = WAIT;
		start(w, 1);
		live(w, _i ? 300 : 20);
		farewell_of(a, b);
		ck_assert_uint_eq(b->rejects, 1);
		break;
	case 2: /* who was asked */
	case 3:
		b->answer = WAIT;
		start(w, 1);
		live(w, _i == 3 ? 300 : 20);
		farewell_of(b, a);
		ck_assert_uint_eq(a->rejects, 1);
		ck_assert_uint_eq(a->last_reason, CM_REJ_CONSUMER);
		break;
	case 4: /* who was asked to end it, and has not agreed */
		start(w, 1);
		live(w, 100);
		ck_assert_int_eq(emu_cm_disconnect(a->conn[0]), 0);
		live(w, 20);
		ck_assert_int_eq(b->conn[0]->state, EMU_CM_DREQ_RCVD);
		farewell_of(b, a);
		ck_assert_uint_eq(a->disconnects, 1);
		break;
	case 5: /* who asked for the end, which got lost */
		start(w, 1);
		live(w, 100);
		w->drop_attr = CM_DREQ;
		w->drop_count = 1;
		ck_assert_int_eq(emu_cm_disconnect(a->conn[0]), 0);
		live(w, 20);
		farewell_of(a, b);
		ck_assert_uint_eq(b->disconnects, 1);
		break;
	case 6: /* who was asked for a datagram service */
		b->answer = WAIT;
		ck_assert_int_eq(
		    emu_cm_sidr_ask(a->cm, &a->port, a, &r, &a->conn[a->n_conn++]), 0);
		live(w, 20);
		farewell_of(b, a);
		ck_assert_uint_eq(a->sidr, 1);
		ck_assert_uint_eq(a->last_reason, CM_SIDR_REJECT);
		break;
	}
	release_all(w);
	world_free(w);
}
END_TEST

/* A peer that dies after it was asked for the end is as good as one that agrees. */
START_TEST(peer_dies_with_a_dreq)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0];

	start(w, 1);
	live(w, 100);
	ck_assert_int_eq(emu_cm_disconnect(a->conn[0]), 0);
	live(w, 20);
	ck_assert_uint_eq(a->disconnects, 0);
	emu_cm_peer_gone(a->conn[0]);
	ck_assert_uint_eq(a->disconnects, 1);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(peer_dies_before_it_is_established)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0], *b = &w->peer[1];

	start(w, 0x111);
	w->drop_attr = CM_REP;
	w->drop_count = 1;
	live(w, 20);
	ck_assert_int_eq(b->conn[0]->state, EMU_CM_REP_SENT);
	emu_cm_peer_gone(b->conn[0]);
	ck_assert_uint_eq(b->rejects, 1);
	ck_assert_uint_eq(b->last_reason, CM_REJ_CONSUMER);
	ck_assert_uint_eq(a->rejects, 0);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(both_disconnect_at_once)
{
	struct world *w = world_new(1);
	struct emu_cm_conn *c = start(w, 0x111);

	live(w, 100);
	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	ck_assert_int_eq(emu_cm_disconnect(w->peer[1].conn[0]), 0);
	live(w, 1000);
	ck_assert_uint_eq(w->peer[0].disconnects, 1);
	ck_assert_uint_eq(w->peer[1].disconnects, 1);
	ck_assert_uint_eq(w->peer[0].exits, 1);
	ck_assert_uint_eq(w->peer[1].exits, 1);
	release_all(w);
	world_free(w);
}
END_TEST

/* --- stale connections ------------------------------------------------------------ */

START_TEST(fresh_connection_is_not_stale)
{
	struct world *w = world_new(1);
	unsigned int i;

	/* The same QP number again at once, while the other side is in TIMEWAIT. */
	for (i = 0; i < 20; i++) {
		struct emu_cm_conn *c = start(w, 0x111);

		live(w, 20);
		ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
		emu_cm_disconnect(c);
		live(w, 10);
	}
	ck_assert_uint_eq(w->peer[0].rejects, 0);
	ck_assert_uint_eq(w->peer[1].established, 20);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(forgotten_connection_is_stale)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0];
	struct emu_cm_cfg cfg = {.slot = 1, .seed = 99};

	start(w, 0x111);
	live(w, 100);
	/*
	 * The process dies without a word; another one gets its slot and its QP number.
	 */
	emu_cm_destroy(a->cm);
	a->n_conn = 0;
	ck_assert_int_eq(emu_cm_create(&cfg, &ops, a, &a->cm), 0);
	emu_cm_set_time(a->cm, w->now);
	start(w, 0x111);
	live(w, 100);
	ck_assert_uint_eq(a->rejects, 1);
	ck_assert_uint_eq(a->last_reason, CM_REJ_STALE_CONN);
	ck_assert_uint_eq(w->peer[1].disconnects, 1);
	/* Now the way is free. */
	start(w, 0x111);
	live(w, 100);
	ck_assert_uint_eq(w->peer[1].established, 2);
	release_all(w);
	world_free(w);
}
END_TEST

/* --- garbage ---------------------------------------------------------------------- */

START_TEST(random_messages)
{
	struct world *w = world_new(7);
	struct emu_cm_conn *c = start(w, 0x111);
	unsigned int i, k;

	live(w, 100);
	w->peer[1].answer = NOBODY;
	for (i = 0; i < 20000; i++) {
		uint8_t mad[CM_MAD_LEN];

		for (k = 0; k < CM_MAD_LEN; k++)
			mad[k] = (uint8_t)rnd(w, 256);
		memcpy(mad, "\1\7\2\3", 4);
		mad[16] = 0;
		mad[17] = (uint8_t)(0x10 + rnd(w, 12));
		if (rnd(w, 2)) /* the right IDs, but not the right QP */
			memcpy(mad + 28, (const uint8_t[]){0, 0x80, 0, 7}, 4);
		emu_cm_rx(w->peer[1].cm, &w->peer[1].port, &path_ab, mad,
			  rnd(w, 8) ? 256 : rnd(w, 256));
		w->n_flight = 0;
	}
	ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
	ck_assert_uint_eq(w->peer[1].disconnects, 0);
	release_all(w);
	world_free(w);
}
END_TEST

/* --- trouble, by seed ------------------------------------------------------------- */

#define SEEDS 300

START_TEST(agreement_under_loss)
{
	struct world *w = world_new((uint64_t)_i + 1000);
	struct peer *a = &w->peer[0], *b = &w->peer[1];
	unsigned int i, n = 10, up = 0;

	w->loss = (unsigned int)_i % 4 * 10;
	w->dup = (unsigned int)_i % 3 * 15;
	w->reorder = (unsigned int)_i % 5 * 20;
	for (i = 0; i < n; i++)
		start(w, 0x100 + i);
	live(w, 200000);
	for (i = 0; i < n; i++)
		up += a->conn[i]->state == EMU_CM_ESTABLISHED;
	ck_assert_uint_eq(up, n);
	ck_assert_uint_eq(a->reps, n);
	ck_assert_uint_eq(b->requests, n);
	ck_assert_uint_eq(b->established, n);
	for (i = 0; i < n; i++)
		ck_assert_int_eq(emu_cm_disconnect(a->conn[i]), 0);
	live(w, 20000);
	ck_assert_uint_eq(b->disconnects, n);
	for (i = 0; i < n; i++)
		ck_assert_int_eq(emu_cm_disconnect(b->conn[i]), 0);
	live(w, 70000);
	ck_assert_uint_eq(a->disconnects, n);
	ck_assert_uint_eq(a->errors + b->errors, 0);
	ck_assert_uint_eq(a->exits, n);
	ck_assert_uint_eq(b->exits, n);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(rejects_under_loss)
{
	struct world *w = world_new((uint64_t)_i + 5000);
	struct peer *a = &w->peer[0], *b = &w->peer[1];
	unsigned int i;

	w->loss = 20;
	w->dup = 20;
	w->reorder = 30;
	b->answer = REJECT;
	for (i = 0; i < 10; i++)
		start(w, 0x100 + i);
	live(w, 120000);
	ck_assert_uint_eq(a->rejects, 10);
	ck_assert_uint_eq(a->errors, 0);
	release_all(w);
	world_free(w);
}
END_TEST

START_TEST(ten_thousand_connections)
{
	struct world *w = world_new(1);
	struct peer *a = &w->peer[0], *b = &w->peer[1];
	unsigned int i;

	for (i = 0; i < 10000; i++) {
		start(w, 0x100 + i % 50);
		live(w, 20);
		ck_assert_uint_eq(b->established, i + 1);
		emu_cm_release(a->conn[--a->n_conn]);
		live(w, 5);
		emu_cm_release(b->conn[--b->n_conn]);
	}
	ck_assert_uint_eq(a->rejects, 0);
	/* Only those in TIMEWAIT (half a second) are left. */
	ck_assert_uint_lt(a->cm->count, 50);
	ck_assert_uint_lt(b->cm->count, 50);
	release_all(w);
	world_free(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cm");
	TCase *t = tcase_create("protocol"), *seeds = tcase_create("seeds");

	tcase_add_test(t, connect_and_disconnect);
	tcase_add_test(t, qp_attributes);
	tcase_add_test(t, refused);
	tcase_add_test(t, datagram_service);
	tcase_add_test(t, private_data_too_long);
	tcase_add_test(t, unreachable);
	tcase_add_test(t, peer_falls_silent);
	tcase_add_test(t, full_backlog_is_tried_again);
	tcase_add_test(t, slow_owner_sends_mra);
	tcase_add_test(t, release_tells_the_peer);
	tcase_add_test(t, somebody_else_says_farewell);
	tcase_add_loop_test(t, farewell_in_each_state, 0, 7);
	tcase_add_test(t, peer_dies_with_a_dreq);
	tcase_add_test(t, peer_dies_before_it_is_established);
	tcase_add_test(t, both_disconnect_at_once);
	tcase_add_test(t, fresh_connection_is_not_stale);
	tcase_add_test(t, forgotten_connection_is_stale);
	tcase_add_test(t, random_messages);
	tcase_set_timeout(seeds, 60);
	tcase_add_loop_test(seeds, agreement_under_loss, 0, SEEDS);
	tcase_add_loop_test(seeds, rejects_under_loss, 0, SEEDS);
	tcase_add_test(seeds, ten_thousand_connections);
	suite_add_tcase(s, t);
	suite_add_tcase(s, seeds);
	return check_main(s);
}
