/*
 * sim_world.c - the virtual clock, the network and the hosts of the simulator.
 *
 * Theory of operation: everything that happens is an event at a time: a packet arrives,
 * or the scenario wants something (sim_at()). Between events hosts have deadlines of
 * their own (emu_hca_deadline()). The loop takes what is next, tells the host the time,
 * lets its HCA run and its application poll. The network draws a fate for each packet:
 * delivered, delayed behind others, duplicated, lost, or corrupted (which a receiver
 * cannot tell from lost: ICRC). A PSN suffers only a bounded number of disturbances per
 * direction, so that an RC requester with retries left gets through and its model can be
 * exact.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/splitmix.h"
#include "inject/inject.h"
#include "trace/recorder.h"
#include "sim.h"
#include "trace/names.h"

#define DISTURBED_SLOTS 4096u
#define RUNS_PER_EVENT	20000u /* emu_hca_run() without an end */
#define SAME_TIME_MAX	5000u  /* deadlines in the past, again and again */
#define EVENTS_MAX	6400000u

/* --- random numbers --------------------------------------------------------------- */

void sim_rng_seed(struct sim_rng *r, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		r->s[i] = splitmix_next(&seed);
}

static uint64_t rotl(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

uint64_t sim_rand(struct sim_rng *r)
{
	uint64_t *s = r->s, out = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotl(s[3], 45);
	return out;
}

/* --- trace ------------------------------------------------------------------------ */

void sim_trace(struct sim_world *w, const char *fmt, ...)
{
	char line[512];
	va_list ap;
	int n;

	if (!w->trace)
		return;
	n = snprintf(line, sizeof(line), "%12.3f us  ", (double)w->now / 1000);
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	w->trace(w->trace_arg, line);
}

void sim_fail(struct sim_world *w, const char *fmt, ...)
{
	va_list ap;

	if (w->failed)
		return;
	w->failed = true;
	va_start(ap, fmt);
	vsnprintf(w->fail, sizeof(w->fail), fmt, ap);
	va_end(ap);
	sim_trace(w, "FAILED: %s", w->fail);
}

const char *sim_op_name(uint8_t opcode)
{
	const char *name = trace_name(TRACE_OPCODE, opcode);

	return name ? name : "reserved";
}

static void trace_pkt(struct sim_world *w, uint32_t from, uint32_t to, const char *fate,
		      const uint8_t *data, uint32_t len)
{
	const uint8_t *payload;
	uint32_t flags, plen;
	struct roce_hdr h;
	char ext[160] = "";

	if (!w->trace)
		return;
	if (roce_parse(data, len, &h, &payload, &plen)) {
		sim_trace(w, "h%u -> h%u  %-9s malformed, %u bytes", from, to, fate, len);
		return;
	}
	flags = roce_opcode_info(h.opcode, NULL);
	if (flags & ROCE_F_AETH)
		snprintf(ext, sizeof(ext), " aeth %02x msn %u", h.syndrome, h.msn);
	else if (flags & ROCE_F_RETH)
		snprintf(ext, sizeof(ext), " va %#llx rkey %#x len %u",
			 (unsigned long long)h.va, h.rkey, h.dma_len);
	else if (flags & ROCE_F_ATOMIC_ETH)
		snprintf(ext, sizeof(ext), " va %#llx rkey %#x", (unsigned long long)h.va,
			 h.rkey);
	else if (flags & ROCE_F_DETH)
		snprintf(ext, sizeof(ext), " sqpn %#x qkey %#x", h.sqpn, h.qkey);
	sim_trace(w, "h%u -> h%u  %-9s %-22s qp %#x psn %06x%s%s %u bytes%s", from, to,
		  fate, sim_op_name(h.opcode), h.dqpn, h.psn, h.ack_req ? " ack_req" : "",
		  h.se ? " se" : "", plen, ext);
}

/* --- events ----------------------------------------------------------------------- */

struct sim_pkt {
	struct sim_pkt *next;
	struct net_path path;
	uint32_t len;
	bool spoofed;
	uint8_t data[SIM_PKT_MAX];
};

/*
 * struct sim_ev - @pkt: for @host from host @val; else call @fn
 */
struct sim_ev {
	uint64_t at, seq;
	struct sim_pkt *pkt;
	struct sim_host *host;
	void (*fn)(struct sim_world *, void *, uint64_t);
	void *arg;
	uint64_t val;
};

static struct sim_pkt *free_pkts;

static struct sim_pkt *pkt_new(void)
{
	struct sim_pkt *p = free_pkts;

	if (!p)
		return malloc(sizeof(*p));
	free_pkts = p->next;
	return p;
}

static void pkt_free(struct sim_pkt *p)
{
	p->next = free_pkts;
	free_pkts = p;
}

static bool ev_before(const struct sim_ev *a, const struct sim_ev *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void ev_push(struct sim_world *w, struct sim_ev e)
{
	uint32_t i;

	if (w->nev == w->cap_ev) {
		w->cap_ev = w->cap_ev ? 2 * w->cap_ev : 256;
		w->ev = realloc(w->ev, w->cap_ev * sizeof(*w->ev));
		if (!w->ev)
			abort();
	}
	e.seq = w->ev_seq++;
	for (i = w->nev++; i && ev_before(&e, &w->ev[(i - 1) / 2]); i = (i - 1) / 2)
		w->ev[i] = w->ev[(i - 1) / 2];
	w->ev[i] = e;
}

static struct sim_ev ev_pop(struct sim_world *w)
{
	struct sim_ev top = w->ev[0], last = w->ev[--w->nev];
	uint32_t i = 0;

	for (;;) {
		uint32_t c = 2 * i + 1;

		if (c >= w->nev)
			break;
		if (c + 1 < w->nev && ev_before(&w->ev[c + 1], &w->ev[c]))
			c++;
		if (!ev_before(&w->ev[c], &last))
			break;
		w->ev[i] = w->ev[c];
		i = c;
	}
	if (w->nev)
		w->ev[i] = last;
	return top;
}

void sim_at(struct sim_world *w, uint64_t at,
	    void (*fn)(struct sim_world *, void *, uint64_t), void *arg, uint64_t val)
{
	ev_push(w,
		(struct sim_ev){
		    .at = at < w->now ? w->now : at, .fn = fn, .arg = arg, .val = val});
}

/* --- network ---------------------------------------------------------------------- */

static bool is_response(uint8_t opcode)
{
	return roce_opcode_info(opcode, NULL) & ROCE_F_RESP;
}

/* May this packet be disturbed once more? */
static bool may_disturb(struct sim_world *w, const uint8_t *d)
{
	uint32_t qpn = (uint32_t)d[5] << 16 | (uint32_t)d[6] << 8 | d[7];
	uint32_t psn = (uint32_t)d[9] << 16 | (uint32_t)d[10] << 8 | d[11];
	uint64_t key =
	    ((uint64_t)qpn << 25 | psn << 1 | is_response(d[0])) * SPLITMIX_STEP;
	uint8_t *n = &w->disturbed[key >> 52];

	if (*n >= w->net.budget)
		return false;
	(*n)++;
	return true;
}

static struct sim_pkt *deliver_at(struct sim_world *w, struct sim_host *from,
				  struct sim_host *to, const uint8_t *data, uint32_t len,
				  uint64_t delay)
{
	struct sim_pkt *p = pkt_new();

	if (!p)
		abort();
	p->path = from->tx_path;
	p->path.sport = (uint16_t)(0xc000 + from->id);
	if (!p->path.ttl)
		p->path.ttl = 64;
	p->len = len;
	p->spoofed = false;
	memcpy(p->data, data, len);
	ev_push(w, (struct sim_ev){
		       .at = w->now + delay, .pkt = p, .host = to, .val = from->id});
	return p;
}

/*
 * The packet before its time, with other contents, from somebody who is not the peer or
 * not of its partition
 */
static void spoof(struct sim_world *w, struct sim_host *from, struct sim_host *to,
		  const uint8_t *data, uint32_t len, uint64_t delay)
{
	struct sim_pkt *p = deliver_at(w, from, to, data, len, delay / 2);

	trace_pkt(w, from->id, to->id, "SPOOFED", data, len);
	p->spoofed = true;
	if (sim_chance(&w->rng, 500))
		p->path.src.b[15] ^= 0x40;
	else
		p->data[3] ^= (uint8_t)(1u << sim_below(&w->rng, 8)); /* P_Key */
	p->data[len - 1] ^= 0x55;
	if (sim_chance(&w->rng, 500))
		p->data[11]++; /* PSN */
}

/* A rule of --inject about this packet; true: it is lost */
static bool obey(struct sim_world *w, enum inject_kind kind, const uint8_t *data,
		 uint64_t *delay, bool *twice)
{
	const struct inject_point p = {
	    .kind = kind, .name = sim_op_name(data[0]), .object = ""};
	struct inject_what what;

	if (!inject_on(kind) || !inject_ask(&p, &what))
		return false;
	w->injected++;
	*delay += what.time;
	*twice |= what.action == INJECT_DO_DOUBLE;
	return what.action == INJECT_DO_LOSE || what.action == INJECT_DO_DAMAGE;
}

static void transmit(struct sim_world *w, struct sim_host *from, struct sim_host *to,
		     const uint8_t *data, uint32_t len)
{
	uint64_t delay = w->net.delay;
	bool twice = false;
	uint32_t draw = sim_below(&w->rng, 1000);

	w->pkts++;
	if (obey(w, INJECT_OUT, data, &delay, &twice) ||
	    obey(w, INJECT_IN, data, &delay, &twice)) {
		trace_pkt(w, from->id, to->id, "INJECTED", data, len);
		return;
	}
	if (w->drop_nr == w->pkts) {
		trace_pkt(w, from->id, to->id, "LOST", data, len);
		w->dropped_at = w->now;
		w->dropped_from = from;
		/* who asked twice cannot tell a lost answer from an old one */
		w->followed_at = w->resent ? UINT64_MAX : 0;
		return;
	}
	if (w->swap_nr == w->pkts) {
		trace_pkt(w, from->id, to->id, "LATE", data, len);
		deliver_at(w, from, to, data, len, delay + sim_below(&w->rng, 450));
		return;
	}
	if (w->dropped_at && !w->followed_at && from == w->dropped_from)
		w->followed_at = w->now;
	if (sim_chance(&w->rng, w->net.spoof))
		spoof(w, from, to, data, len, delay);
	if (w->net.jitter)
		delay += sim_below(&w->rng, (uint32_t)w->net.jitter);
	if (draw < w->net.loss + w->net.corrupt && may_disturb(w, data)) {
		trace_pkt(w, from->id, to->id, draw < w->net.loss ? "LOST" : "CORRUPTED",
			  data, len);
		w->lost++;
		return;
	}
	if (sim_chance(&w->rng, w->net.reorder) && may_disturb(w, data)) {
		trace_pkt(w, from->id, to->id, "LATE", data, len);
		deliver_at(w, from, to, data, len,
			   delay + sim_below(&w->rng, (uint32_t)w->net.late));
		return;
	}
	trace_pkt(w, from->id, to->id, "", data, len);
	deliver_at(w, from, to, data, len, delay);
	if ((sim_chance(&w->rng, w->net.dup) && may_disturb(w, data)) || twice) {
		trace_pkt(w, from->id, to->id, "AGAIN", data, len);
		w->duped++;
		deliver_at(w, from, to, data, len,
			   delay + sim_below(&w->rng, (uint32_t)w->net.late));
	}
}

/* Every packet that an HCA sends is well-formed, whatever it was made to do */
static void check_sent(struct sim_host *h, const uint8_t *data, uint32_t len)
{
	const uint8_t *payload;
	struct roce_hdr hdr;
	uint32_t plen;

	if (roce_parse(data, len, &hdr, &payload, &plen))
		sim_fail(h->w, "h%u sent a malformed packet, opcode %#x, %u bytes", h->id,
			 data[0], len);
	else if (hdr.tver || len % 4)
		sim_fail(h->w, "h%u sent TVER %u, %u bytes", h->id, hdr.tver, len);
	else if (plen > 4096)
		sim_fail(h->w, "h%u sent a payload of %u bytes", h->id, plen);
	if (!net_ip_eq(&h->tx_path.src, &h->ip))
		sim_fail(h->w, "h%u sent from an address that is not its own", h->id);
}

static void unblock(struct sim_world *w, void *arg, uint64_t val)
{
	struct sim_host *h = arg;

	h->tx_blocked = false;
	sim_host_work(h);
}

static uint8_t *op_tx_get(void *arg, const struct net_path *path, uint32_t dqpn,
			  uint32_t len)
{
	struct sim_host *h = arg;
	struct sim_world *w = h->w;

	/* one that was not put is given up: the payload could not be read */
	if (len > SIM_PKT_MAX || len < ROCE_BTH_LEN) {
		sim_fail(w, "h%u: tx_get of %u bytes", h->id, len);
		return NULL;
	}
	if (h->tx_blocked)
		return NULL;
	if (sim_chance(&w->rng, w->net.tx_full)) {
		h->tx_blocked = true;
		sim_at(w, w->now + 1 + sim_below(&w->rng, 5000), unblock, h, 0);
		return NULL;
	}
	h->tx_open = true;
	h->tx_len = len;
	h->tx_path = *path;
	/*
	 * what is not written shows as a difference between runs, or as a wrong payload
	 */
	memset(h->tx, 0xa5, len < 64 ? len : 64);
	return h->tx;
}

static void op_tx_put(void *arg)
{
	struct sim_host *h = arg;
	struct sim_world *w = h->w;
	bool found = false;

	if (!h->tx_open) {
		sim_fail(w, "h%u: tx_put without tx_get", h->id);
		return;
	}
	h->tx_open = false;
	h->sent++;
	check_sent(h, h->tx, h->tx_len);
	sim_wire_sent(h, h->tx, h->tx_len);
	if (w->kind == SIM_PEER && sim_peer_takes(h, h->tx, h->tx_len))
		return;
	for (uint32_t i = 0; i < w->nhosts; i++) {
		struct sim_host *to = &w->host[i];

		if (!net_ip_eq(&h->tx_path.dst, &to->ip) &&
		    !(to->groups && net_ip_eq(&h->tx_path.dst, &w->group)))
			continue;
		transmit(w, h, to, h->tx, h->tx_len);
		found = true;
	}
	if (!found)
		trace_pkt(w, h->id, 9, "NO HOST", h->tx, h->tx_len);
}

/* --- the other operations of struct emu_ops --------------------------------------- */

static int op_qpn_lease(void *arg, uint32_t *base, uint32_t *count)
{
	struct sim_host *h = arg;

	*count = 1 + sim_below(&h->w->rng, 16);
	*base = h->qpn_next;
	h->qpn_next += *count + sim_below(&h->w->rng, 8);
	return 0;
}

static void *op_ring_alloc(void *arg, void *owner, size_t bytes, uint64_t *offset)
{
	struct sim_host *h = arg;
	void *p = calloc(1, bytes);

	if (owner != h)
		sim_fail(h->w, "h%u: ring_alloc for another owner", h->id);
	if (p) {
		h->rings++;
		h->ring_bytes += (int64_t)bytes;
		*offset = (uintptr_t)p; /* how sim_ring() finds it */
	}
	return p;
}

static void op_ring_free(void *arg, void *owner, void *ring, size_t bytes,
			 uint64_t offset)
{
	struct sim_host *h = arg;

	if (offset != (uintptr_t)ring)
		sim_fail(h->w, "h%u: ring_free with another offset", h->id);
	h->rings--;
	h->ring_bytes -= (int64_t)bytes;
	free(ring);
}

static void op_comp_event(void *arg, void *cookie)
{
	struct sim_host *h = arg;
	struct sim_cq *cq = cookie;

	if (cq->host != h)
		sim_fail(h->w, "h%u: comp_event with a wrong cookie", h->id);
	else if (++cq->events > cq->armed)
		sim_fail(h->w, "h%u: a completion event that was not asked for", h->id);
}

static void op_async_event(void *arg, enum ibv_event_type type, void *cookie)
{
	sim_model_event(arg, type, cookie);
}

static void op_gsi_rx(void *arg, const struct net_path *path, const uint8_t *mad,
		      uint32_t len)
{
	struct sim_host *h = arg;

	h->mads++;
	h->mad_sum += len ? mad[0] + mad[len - 1] : 0;
}

static int op_mcast(void *arg, const struct net_ip *group, bool join)
{
	struct sim_host *h = arg;

	if (!net_ip_eq(group, &h->w->group))
		sim_fail(h->w, "h%u: mcast of an unknown group", h->id);
	h->groups += join ? 1 : -1;
	if (h->groups > 1)
		sim_fail(h->w, "h%u: the group was joined or left twice", h->id);
	return 0;
}

static void op_trace(void *arg, const char *line)
{
	struct sim_host *h = arg;

	sim_trace(h->w, "h%u says: %s", h->id, line);
}

static const struct emu_ops sim_emu_ops = {
    .tx_get = op_tx_get,
    .tx_put = op_tx_put,
    .qpn_lease = op_qpn_lease,
    .ring_alloc = op_ring_alloc,
    .ring_free = op_ring_free,
    .comp_event = op_comp_event,
    .async_event = op_async_event,
    .gsi_rx = op_gsi_rx,
    .mcast = op_mcast,
    .trace = op_trace,
};

/* --- hosts ------------------------------------------------------------------------ */

static void rest(struct sim_world *w, void *arg, uint64_t val)
{
	sim_host_work(arg);
}

/* Post what found no room in the rings before. True: something was posted */
static bool push_all(struct sim_host *h)
{
	struct sim_world *w = h->w;
	bool any = false;

	for (uint32_t i = 0; i < w->nqps; i++) {
		struct sim_qp *q = &w->qp[i];

		if (q->host != h || !q->qp)
			continue;
		if (q->rq.next < q->rq.credit)
			sim_rq_push(&q->rq);
		if (q->next < q->credit)
			any |= sim_qp_push(q);
	}
	for (uint32_t i = 0; i < h->srqs; i++)
		sim_rq_push(&h->srq[i].rq);
	return any;
}

/* A fault is over: the HCA is to look, soon. */
static void told(void *arg)
{
	struct sim_host *h = arg;

	if (h->told || !h->hca)
		return;
	h->told = true;
	sim_at(h->w, h->w->now, rest, h, 0);
}

void sim_host_work(struct sim_host *h)
{
	struct sim_world *w = h->w;
	struct odp_waiter *waiter;

	emu_hca_set_time(h->hca, w->now);
	h->told = false;
	while ((waiter = odp_resolved(h->dom)))
		emu_fault_resolved(waiter);
	for (uint32_t i = 0; !w->failed; i++) {
		bool more = emu_hca_run(h->hca);

		w->runs++;

		for (uint32_t c = 0; c < h->cqs; c++)
			sim_poll(&h->cq[c]);
		more |= push_all(h);
		if (!more || h->tx_blocked)
			break;
		if (i > RUNS_PER_EVENT)
			sim_fail(w, "h%u: emu_hca_run() always has more to do", h->id);
	}
	h->deadline = emu_hca_deadline(h->hca);
}

static void arrive(struct sim_world *w, struct sim_host *h, struct sim_pkt *p)
{
	struct net_rx rx = {.path = &p->path, .data = p->data, .len = p->len};

	emu_hca_set_time(h->hca, w->now);
	if (w->mutate)
		w->mutate(h, &p->path, p->data, &rx.len);
	if (!p->spoofed)
		sim_wire_arrived(w, p->data, rx.len);
	h->arrived++;
	emu_hca_rx(h->hca, &rx);
	/* packets come in batches: sometimes the HCA does not run after each */
	if (sim_chance(&w->rng, w->swap_nr ? 900 : 250))
		sim_at(w, w->now + sim_below(&w->rng, 500), rest, h, 0);
	else
		sim_host_work(h);
}

static struct sim_host *next_deadline(struct sim_world *w)
{
	struct sim_host *h = &w->host[0];

	for (uint32_t i = 1; i < w->nhosts; i++) {
		if (w->host[i].deadline < h->deadline)
			h = &w->host[i];
	}
	return h->deadline == EMU_NO_DEADLINE ? NULL : h;
}

bool sim_run(struct sim_world *w, uint64_t until)
{
	for (uint32_t n = 0; !w->failed; n++) {
		struct sim_host *h = next_deadline(w);
		uint64_t at = h ? h->deadline : UINT64_MAX;
		bool ev = w->nev && (!h || w->ev[0].at <= at);

		if (ev)
			at = w->ev[0].at;
		if (at == UINT64_MAX)
			return true;
		if (at > until)
			return false;
		if (n > EVENTS_MAX)
			return false;
		if (at > w->now) {
			w->now = at;
			for (uint32_t i = 0; i < w->nhosts; i++)
				w->host[i].same_time = 0;
		}
		if (!ev) {
			sim_host_work(h);
			if (h->tx_blocked && h->deadline <= w->now)
				h->deadline = w->now + 100;
			else if (++h->same_time > SAME_TIME_MAX)
				sim_fail(w, "h%u: the deadline stays in the past", h->id);
			continue;
		}
		struct sim_ev e = ev_pop(w);

		if (e.pkt) {
			arrive(w, e.host, e.pkt);
			pkt_free(e.pkt);
		} else {
			e.fn(w, e.arg, e.val);
		}
	}
	return false;
}

const char *sim_inject_rules = "";

void sim_world_init(struct sim_world *w, enum sim_kind kind, uint64_t seed)
{
	struct sim_qp *qp = w->qp;
	struct sim_ev *ev = w->ev;
	uint8_t *disturbed = w->disturbed;
	uint32_t cap = w->cap_ev;

	memset(w, 0, sizeof(*w));
	w->qp = qp ? qp : calloc(SIM_QPS, sizeof(*w->qp));
	w->disturbed = disturbed ? disturbed : calloc(1, DISTURBED_SLOTS);
	if (!w->qp || !w->disturbed)
		abort();
	memset(w->disturbed, 0, DISTURBED_SLOTS);
	w->ev = ev;
	w->cap_ev = cap;
	w->kind = kind;
	w->seed = seed;
	w->now = 1 * MS;
	sim_rng_seed(&w->rng, seed * SIM_KINDS + (uint64_t)kind);
	/* counts begin anew: a seed replays exactly */
	if (inject_replace(sim_inject_rules, true, NULL, 0))
		abort();
}

const char *sim_record_dir;

static int record(struct sim_host *h, struct emu_hca_cfg *cfg)
{
	struct recorder_cfg rcfg = {.slots = 1u << 18, .full = true};
	char path[4096];
	int err;

	if (!sim_record_dir)
		return 0;
	snprintf(path, sizeof(path), "%s/h%u.trace", sim_record_dir, h->id);
	unlink(path);
	rcfg.path = path;
	err = recorder_open(&rcfg, &h->rec);
	if (err) {
		fprintf(stderr, "sim: %s: %s\n", path, strerror(-err));
		return err;
	}
	snprintf(h->rec->hdr->program, sizeof(h->rec->hdr->program), "host %u", h->id);
	cfg->recorder = h->rec;
	return 0;
}

static int host_create(struct sim_world *w, struct sim_host *h)
{
	struct emu_hca_cfg cfg = {.guid_be = 0x0200000000000000ull + h->id,
				  .mtu = IBV_MTU_4096,
				  .seed = sim_rand(&w->rng)};
	struct odp_config odp = w->odp;
	int err = sim_mem_init(h);

	if (!err)
		err = record(h, &cfg);
	odp.recorder = h->rec;
	if (!err)
		err = odp_domain_create(&odp, &sim_os, h, &h->dom);
	if (err)
		return err;
	odp_domain_tell(h->dom, told, h);
	cfg.odp = h->dom;
	err = emu_hca_create(&cfg, &sim_emu_ops, h, &h->hca);
	if (err)
		return err;
	emu_hca_set_time(h->hca, w->now);
	emu_set_port(h->hca, true, IBV_MTU_4096);
	return emu_set_gid(h->hca, 0, &h->ip);
}

int sim_hosts_create(struct sim_world *w)
{
	bool v6 = sim_chance(&w->rng, 300);

	w->group = (struct net_ip){{[10] = 0xff, [11] = 0xff, 239, 1, 2, 3}};
	if (v6)
		w->group = (struct net_ip){{0xff, 0x05, [15] = 7}};
	for (uint32_t i = 0; i < w->nhosts; i++) {
		struct sim_host *h = &w->host[i];
		int err;

		h->w = w;
		h->id = i;
		h->deadline = EMU_NO_DEADLINE;
		h->qpn_next = 0x10000 * (i + 1) + 0x11;
		h->no_watch = sim_chance(&w->rng, 100);
		h->ip = (struct net_ip){
		    {[10] = 0xff, [11] = 0xff, 10, 0, 0, (uint8_t)(i + 1)}};
		if (v6)
			h->ip = (struct net_ip){{0xfd, [15] = (uint8_t)(i + 1)}};
		err = host_create(w, h);
		if (err) {
			sim_fail(w, "h%u: cannot be created: %s", i, strerror(-err));
			return err;
		}
	}
	return 0;
}

struct sums {
	struct odp_counters c;
};

static void add_mr(void *arg, const struct odp_mr_info *mr)
{
	struct sums *s = arg;

	s->c.read_faults += mr->counters.read_faults;
	s->c.write_faults += mr->counters.write_faults;
	s->c.local_faults += mr->counters.local_faults;
	s->c.remote_faults += mr->counters.remote_faults;
	s->c.pages_faulted += mr->counters.pages_faulted;
	s->c.pages_invalidated += mr->counters.pages_invalidated;
	s->c.pages_prefetched += mr->counters.pages_prefetched;
}

/*
 * odp/odp.h: faults are read or write, local or remote; the domain is the sum of its MRs
 */
static void check_odp_counters(struct sim_host *h)
{
	struct odp_counters d;
	struct sums s = {0};

	odp_domain_counters(h->dom, &d);
	odp_domain_each(h->dom, add_mr, &s);
	if (d.read_faults + d.write_faults != d.local_faults + d.remote_faults)
		sim_fail(h->w,
			 "h%u: %llu read + %llu write faults, %llu local + %llu remote",
			 h->id, (unsigned long long)d.read_faults,
			 (unsigned long long)d.write_faults,
			 (unsigned long long)d.local_faults,
			 (unsigned long long)d.remote_faults);
	if (d.read_faults != s.c.read_faults || d.write_faults != s.c.write_faults ||
	    d.local_faults != s.c.local_faults || d.pages_faulted != s.c.pages_faulted ||
	    d.pages_invalidated != s.c.pages_invalidated ||
	    d.pages_prefetched != s.c.pages_prefetched)
		sim_fail(h->w, "h%u: the domain's counters are not the sum of its MRs'",
			 h->id);
}

/* What rdma_rxe calls sent_pkts and rcvd_pkts is what the network saw */
static void check_hw_counters(struct sim_host *h)
{
	const char *const *names;
	const uint64_t *values;
	size_t n = emu_hw_counters(h->hca, &names, &values);

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(names[i], "sent_pkts") && values[i] != h->sent)
			sim_fail(h->w, "h%u: sent %llu packets, and counts %llu", h->id,
				 (unsigned long long)h->sent,
				 (unsigned long long)values[i]);
		if (!strcmp(names[i], "rcvd_pkts") && values[i] != h->arrived)
			sim_fail(h->w, "h%u: got %llu packets, and counts %llu", h->id,
				 (unsigned long long)h->arrived,
				 (unsigned long long)values[i]);
	}
}

void sim_hosts_destroy(struct sim_world *w)
{
	for (uint32_t i = 0; i < w->nhosts; i++) {
		struct sim_host *h = &w->host[i];

		if (!h->hca)
			continue;
		check_odp_counters(h);
		check_hw_counters(h);
		sim_jobs_finish(h);
		emu_hca_destroy(h->hca);
		odp_prefetch_drain(h->dom);
		odp_domain_destroy(h->dom);
		recorder_close(h->rec);
		h->rec = NULL;
		h->hca = NULL;
		if (h->rings || h->ring_bytes)
			sim_fail(w, "h%u: %lld rings were not freed", h->id,
				 (long long)h->rings);
		if (h->watches)
			sim_fail(w, "h%u: %u pages are still watched", h->id, h->watches);
		if (h->groups)
			sim_fail(w, "h%u: a multicast group was not left", h->id);
		sim_mem_reset(h);
	}
}

/* Packets still under way; what a world allocates is kept for the next */
void sim_world_fini(struct sim_world *w)
{
	while (w->nev) {
		struct sim_ev e = ev_pop(w);

		if (e.pkt)
			pkt_free(e.pkt);
	}
}
