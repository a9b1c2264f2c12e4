/*
 * cm_world.c - the network and the two owners of cm_world.h. What a CM sends comes here by the name
 * that the HCA has for it, so that no HCA is linked.
 */
#include "cm_world.h"

#include "base/splitmix.h"
#include "emu/hca.h"
#include "net/rocev2.h"

unsigned int rnd(struct world *w, unsigned int n)
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

/* In place of the HCA's: the HCA of a peer is the peer itself. */
int emu_hca_gsi_tx(struct emu_hca *hca, const struct net_path *path, uint32_t dqpn,
		   const uint8_t *mad, uint32_t len, bool again)
{
	struct peer *p = (struct peer *)hca;
	struct world *w = p->w;

	ck_assert_uint_eq(dqpn, ROCE_QPN_GSI);
	ck_assert_uint_eq(len, CM_MAD_LEN);
	ck_assert_uint_le(mad[17], CM_SIDR_REP);
	w->sent[mad[17]]++;
	if (w->drop_count && mad[17] == w->drop_attr) {
		w->drop_count--;
		return 0;
	}
	if (rnd(w, 100) < w->loss)
		return 0;
	fly(w, !p->index, path, mad);
	if (rnd(w, 100) < w->dup)
		fly(w, !p->index, path, mad);
	return 0;
}

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

static const struct emu_cm_ops ops = {.request = on_request, .event = on_event};

struct world *world_new(uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));
	int i;

	w->rng = seed * SPLITMIX_STEP + 1;
	for (i = 0; i < 2; i++) {
		struct emu_cm_cfg cfg = {.slot = (uint32_t)i + 1, .seed = seed};

		w->peer[i].w = w;
		w->peer[i].index = i;
		w->peer[i].port =
		    (struct emu_cm_port){.hca = (struct emu_hca *)&w->peer[i],
					 .counters = &w->peer[i].counters,
					 .dev = &w->peer[i],
					 .guid_be = (uint64_t)i + 100,
					 .ack_delay = 15};
		ck_assert_int_eq(emu_cm_create(&cfg, &ops, &w->peer[i], &w->peer[i].cm),
				 0);
	}
	return w;
}

void world_reborn(struct world *w, int index)
{
	struct emu_cm_cfg cfg = {.slot = (uint32_t)index + 1, .seed = 99};
	struct peer *p = &w->peer[index];

	emu_cm_destroy(p->cm);
	p->n_conn = 0;
	ck_assert_int_eq(emu_cm_create(&cfg, &ops, p, &p->cm), 0);
	emu_cm_set_time(p->cm, w->now);
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

void world_run(struct world *w, uint64_t until)
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

void live(struct world *w, unsigned int ms)
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

struct emu_cm_req request(uint32_t qpn)
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

struct emu_cm_conn *start(struct world *w, uint32_t qpn)
{
	struct emu_cm_req r = request(qpn);
	struct peer *p = &w->peer[0];
	struct emu_cm_conn *c;

	ck_assert_int_eq(emu_cm_connect(p->cm, &p->port, p, &r, &c), 0);
	ck_assert_uint_lt(p->n_conn, 64);
	p->conn[p->n_conn++] = c;
	return c;
}

void world_end(struct world *w)
{
	for (int p = 0; p < 2; p++) {
		while (w->peer[p].n_conn)
			emu_cm_release(w->peer[p].conn[--w->peer[p].n_conn]);
	}
	world_run(w, 0);
	for (int p = 0; p < 2; p++) {
		ck_assert_uint_eq(w->peer[p].cm->count, 0);
		emu_cm_destroy(w->peer[p].cm);
	}
	free(w);
}
