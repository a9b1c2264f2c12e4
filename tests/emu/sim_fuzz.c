/*
 * sim_fuzz.c - hostile input: packets that no requester sends and rings full of nonsense.
 *
 * Nothing is expected of completions or data (a forged packet with a good ICRC, QPN, PSN
 * and R_Key is a packet like any other). What must hold: no crash, no access outside of
 * registered memory (sim_mem.c checks each), no packet that is malformed (sim_world.c),
 * rest in the end, and objects that can be destroyed without leaks.
 */
#include <string.h>

#include "sim_gen.h"

static void put24(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 16);
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)v;
}

/* Change a packet in flight as ICRC would not let pass */
static void mutate(struct sim_host *dst, struct net_path *path, uint8_t *data,
		   uint32_t *len)
{
	struct sim_rng *r = &dst->w->rng;

	if (!sim_chance(r, 250))
		return;
	for (uint32_t n = sim_range(r, 1, 3); n; n--) {
		uint32_t hdr = *len < 40 ? *len : 40;

		switch (sim_below(r, 8)) {
		case 0:
			data[0] = (uint8_t)sim_rand(r);
			break;
		case 1:
			*len = sim_below(r, *len + 1);
			break;
		case 2:
			if (*len + 4 <= SIM_PKT_MAX)
				*len += sim_below(r, 5);
			break;
		case 3: /* PSN near by */
			if (*len >= 12)
				data[11] = (uint8_t)(data[11] + sim_range(r, 0, 4) - 2);
			break;
		case 4: /* pad, TVER */
			if (*len >= 2)
				data[1] ^= (uint8_t)(1u << sim_below(r, 8));
			break;
		case 5: /* AETH syndrome, RETH, ... */
			if (*len > 16)
				data[12 + sim_below(r, 4)] = (uint8_t)sim_rand(r);
			break;
		default:
			if (hdr)
				data[sim_below(r, hdr)] ^=
				    (uint8_t)(1u << sim_below(r, 8));
			break;
		}
		if (!*len)
			*len = 1;
	}
}

/* A packet out of nothing, with headers that make sense more or less */
static uint32_t forge(struct sim_world *w, struct sim_host *dst, uint8_t *data)
{
	struct sim_rng *r = &w->rng;
	struct sim_qp *q = &w->qp[sim_below(r, w->nqps)];
	struct sim_mr *mr = &dst->mr[sim_below(r, SIM_MRS)];
	uint32_t mtu = q->mtu ? q->mtu : 256, n;
	struct roce_hdr h = {.opcode = (uint8_t)sim_rand(r), .pkey = 0xffff};

	if (sim_chance(r, 900))
		h.opcode = (uint8_t)(sim_below(r, 0x18) | (sim_below(r, 4) << 5));
	h.dqpn = sim_chance(r, 900) ? q->qpn : sim_below(r, 4);
	if (sim_chance(r, 50))
		h.dqpn = ROCE_QPN_MULTICAST;
	h.psn = (q->rq_psn + sim_below(r, 40) - 8) & ROCE_PSN_MASK;
	if (sim_chance(r, 300))
		h.psn = (q->sq_psn + sim_below(r, 40) - 8) & ROCE_PSN_MASK;
	h.se = sim_chance(r, 100);
	h.ack_req = sim_chance(r, 500);
	h.pkey = sim_chance(r, 50) ? (uint16_t)sim_rand(r) : 0xffff;
	h.qkey = sim_chance(r, 800) ? q->qkey : (uint32_t)sim_rand(r);
	h.sqpn = sim_below(r, 1u << 24);
	h.va = sim_addr(dst, mr->arena, sim_below(r, SIM_ARENA_LEN)) + mr->delta;
	h.rkey = sim_chance(r, 800) ? mr->rkey : (uint32_t)sim_rand(r);
	h.dma_len =
	    sim_chance(r, 100) ? (uint32_t)sim_rand(r) : gen_len(w, mtu, 1u << 20);
	h.swap_add = sim_rand(r);
	h.compare = sim_rand(r);
	h.syndrome = (uint8_t)sim_rand(r);
	h.msn = sim_below(r, 64);
	h.orig = sim_rand(r);
	h.imm_be = (uint32_t)sim_rand(r);
	h.inv_rkey = sim_chance(r, 500) ? mr->rkey : (uint32_t)sim_rand(r);
	h.flush_type = (uint8_t)sim_below(r, 4);
	h.flush_level = (uint8_t)sim_below(r, 3);
	n = sim_chance(r, 300) ? mtu : sim_below(r, mtu + 8);
	if (sim_chance(r, 300))
		n = 0;
	h.pad = (uint8_t)(sim_chance(r, 950) ? (4 - n % 4) % 4 : sim_below(r, 4));
	if (!roce_opcode_info(h.opcode, NULL)) {
		n = 12 + sim_below(r, 100);
		for (uint32_t i = 0; i < n; i++)
			data[i] = (uint8_t)sim_rand(r);
		put24(data + 5, h.dqpn);
		return n;
	}
	n = (n + h.pad < 4200 ? n + h.pad : 0);
	return roce_build(data, &h) + n;
}

static void inject(struct sim_world *w, void *arg, uint64_t val)
{
	static uint8_t data[SIM_PKT_MAX];
	struct sim_host *dst = arg;
	struct sim_host *src = &w->host[sim_below(&w->rng, w->nhosts)];
	struct net_path path = {
	    .src = src->ip, .dst = dst->ip, .sport = 0xc123, .ttl = 64};
	struct net_rx rx = {.path = &path, .data = data};

	if (sim_chance(&w->rng, 50))
		path.src.b[15] ^= 0x55;
	if (sim_chance(&w->rng, 50))
		path.dst = w->group;
	rx.len = forge(w, dst, data);
	emu_hca_set_time(dst->hca, w->now);
	dst->arrived++;
	emu_hca_rx(dst->hca, &rx);
	sim_host_work(dst);
}

static void send_mad(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_host *h = arg, *to = &w->host[sim_below(&w->rng, w->nhosts)];
	struct net_path path = {.src = h->ip, .dst = to->ip};
	uint8_t mad[256];

	for (uint32_t i = 0; i < sizeof(mad); i++)
		mad[i] = (uint8_t)sim_rand(&w->rng);
	emu_hca_set_time(h->hca, w->now);
	emu_hca_gsi_tx(h->hca, &path, ROCE_QPN_GSI, mad, sizeof(mad), false);
	sim_host_work(h);
}

static bool fuzz_world(struct sim_world *w)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC};

	w->anything_goes = true;
	gen_net(w, false);
	gen_mem(w, sim_chance(&w->rng, 300));
	if (!gen_hosts(w, 2))
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		if (sim_srq_create(&w->host[i], SIM_RECVS, SIM_SGES, NULL)) {
			sim_fail(w, "h%u: an SRQ is refused", i);
			return false;
		}
	}
	for (uint32_t n = sim_range(&w->rng, 1, 3); n; n--) {
		enum ibv_qp_type type = types[sim_below(&w->rng, 3)];

		if (!gen_pair(w, &w->host[0], &w->host[1], type,
			      sim_chance(&w->rng, 300)))
			return false;
	}
	return gen_connect(w);
}

static void fuzz_programs(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nqps; i++) {
		w->qp[i].rnr_retry = 6;
		gen_ops(&w->qp[i], 1 + sim_below(&w->rng, 10));
	}
	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];

		q->may_flush = true;
		if (!q->srq)
			gen_recvs(q, 2);
		gen_recv_schedule(w, &q->rq, 500 * US);
		gen_send_schedule(q, MS);
	}
	for (uint32_t i = 0; i < 2; i++) {
		struct sim_host *h = &w->host[i];

		while (h->srq[0].rq.n < 12 &&
		       gen_recv(h, &h->srq[0].rq, (uint64_t)SIM_TAG_SRQ << 48, 600))
			;
		gen_recv_schedule(w, &h->srq[0].rq, 500 * US);
	}
	sim_program_print(w);
}

/* Bounded: retries for ever (rnr_retry 7) and forged packets may keep a QP busy */
static void fuzz_run(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nhosts; i++)
		sim_host_work(&w->host[i]);
	sim_run(w, w->now + 2000 * MS);
	for (uint32_t i = 0; i < w->nqps && !w->failed; i++) {
		if (w->qp[i].qp && sim_chance(&w->rng, 700))
			sim_qp_state(&w->qp[i], IBV_QPS_ERR);
	}
	for (uint32_t i = 0; i < w->nhosts; i++)
		sim_host_work(&w->host[i]);
	sim_run(w, w->now + 2000 * MS);
	w->judged = true;
}

void sim_fuzz_wire(struct sim_world *w)
{
	if (!fuzz_world(w))
		return;
	if (sim_chance(&w->rng, 700))
		w->mutate = mutate;
	fuzz_programs(w);
	for (uint32_t n = sim_below(&w->rng, 80); n; n--)
		sim_at(w, w->now + sim_below(&w->rng, 2 * MS), inject,
		       &w->host[sim_below(&w->rng, w->nhosts)], 0);
	for (uint32_t n = sim_below(&w->rng, 4); n; n--)
		sim_at(w, w->now + sim_below(&w->rng, 2 * MS), send_mad,
		       &w->host[sim_below(&w->rng, w->nhosts)], 0);
	fuzz_run(w);
}

/* --- rings ------------------------------------------------------------------------ */

/* The application writes what it likes where it may */
static void scribble(struct sim_world *w, struct rxe_queue_buf *q)
{
	struct sim_rng *r = &w->rng;
	uint64_t bytes = (uint64_t)(q->index_mask + 1ull) << q->log2_elem_size;

	if (bytes > 1u << 20)
		return; /* the header was scribbled on */
	for (uint32_t n = sim_below(r, 24); n; n--) {
		uint32_t at = sim_below(r, (uint32_t)bytes / 4) * 4;
		uint32_t v =
		    sim_chance(r, 500) ? (uint32_t)sim_rand(r) : sim_below(r, 40);

		memcpy(q->data + at, &v, 4);
	}
	if (sim_chance(r, 300))
		q->producer_index = (uint32_t)sim_rand(r);
	else if (sim_chance(r, 500))
		q->producer_index = (q->producer_index + sim_below(r, 4)) & q->index_mask;
	if (sim_chance(r, 200))
		q->consumer_index = (uint32_t)sim_rand(r);
}

static void scribble_qp(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_qp *q = arg;

	if (!q->qp)
		return;
	scribble(w, q->sq);
	if (q->rq.ring)
		scribble(w, q->rq.ring);
	else
		scribble(w, q->srq->rq.ring);
	/*
	 * geometry is not read back (queue_ring.h), so lies about it do nothing; ours stays
	 * right
	 */
	emu_hca_set_time(q->host->hca, w->now);
	emu_qp_doorbell(q->qp);
	sim_host_work(q->host);
}

void sim_fuzz_rings(struct sim_world *w)
{
	if (!fuzz_world(w))
		return;
	fuzz_programs(w);
	for (uint32_t n = sim_range(&w->rng, 1, 30); n; n--)
		sim_at(w, w->now + sim_below(&w->rng, 2 * MS), scribble_qp,
		       &w->qp[sim_below(&w->rng, w->nqps)], 0);
	fuzz_run(w);
}
