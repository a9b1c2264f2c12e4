/*
 * findings.c - what records change in the summaries; see findings.h and findings_internal.h.
 *
 * Each QP and each MR of each trace has a summary, which records change as they come. A request
 * is known from its post to its completion; what its QP had waited for at either end tells what
 * it waited for.
 *
 * Owns the summaries. Must not know: sentences.
 */
#include <stdlib.h>
#include <string.h>

#include "tools/findings_internal.h"

#define MAX_PAGES     (1u << 24) /* of an MR whose pages are told apart */
#define RNR_TYPE      0x20	 /* of an AETH syndrome, IBTA table 44 */
#define SEND_SIGNALED 2		 /* enum ibv_send_flags */
/* enum rdma_cm_event_type: errors of address, route, connection and multicast, unreachable,
   rejected */
#define CM_ERRORS (1u << 1 | 1u << 3 | 1u << 6 | 1u << 7 | 1u << 8 | 1u << 13)

/* --- looking up ------------------------------------------------------------------- */

static struct qp *qp_of(struct findings *f, int from, uint32_t qpn)
{
	struct qp_key key = {(uint32_t)from, qpn};
	struct qp *q;

	HASH_FIND(hh, f->qp, &key, sizeof(key), q);
	if (q)
		return q;
	q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	q->key = key;
	HASH_ADD(hh, f->qp, key, sizeof(key), q);
	return q;
}

static struct mr *mr_of(struct findings *f, int from, uint32_t mr)
{
	struct mr_key key = {(uint32_t)from, mr};
	struct mr *m;

	HASH_FIND(hh, f->mr, &key, sizeof(key), m);
	if (m)
		return m;
	m = calloc(1, sizeof(*m));
	if (!m)
		return NULL;
	m->key = key;
	m->page_size = 4096;
	HASH_ADD(hh, f->mr, key, sizeof(key), m);
	return m;
}

static void count(struct since *s, uint64_t time, uint64_t ns)
{
	if (!s->count++)
		s->first = time;
	s->last = time;
	s->ns += ns;
}

/* Records that are a sentence as they stand */
static void event(struct findings *f, enum finding_level level, const struct moment *m)
{
	size_t room = f->room_events ? 2 * f->room_events : 16;
	struct event *more;

	if (f->told[m->r.kind]++ >= MAX_EVENTS)
		return;
	if (f->n_events == f->room_events) {
		more = realloc(f->event, room * sizeof(*more));
		if (!more)
			return;
		f->event = more;
		f->room_events = room;
	}
	f->event[f->n_events++] = (struct event){.level = level, .m = *m};
}

/* --- records of QPs --------------------------------------------------------------- */

static void add_post(struct qp *q, const struct moment *m)
{
	struct open *o;

	if (!q->open)
		q->open = calloc(OPEN_REQUESTS, sizeof(*q->open));
	if (!q->open)
		return;
	if (q->posted - q->done == OPEN_REQUESTS)
		q->done++;
	o = &q->open[q->posted++ % OPEN_REQUESTS];
	*o = (struct open){.wr_id = m->r.u.post_send.wr_id,
			   .time = m->time,
			   .opcode = m->r.u.post_send.opcode,
			   .signaled =
			       q->sig_all || m->r.u.post_send.flags & SEND_SIGNALED};
	memcpy(o->waited, q->waited, sizeof(o->waited));
}

static void took(struct qp *q, const struct open *o, uint64_t now)
{
	uint64_t ns = findings_span(o->time, now);
	unsigned int bin = 0;

	while (bin < 63 && ns >> (bin + 1))
		bin++;
	q->latency[bin]++;
	q->completed++;
	if (ns < q->slowest.ns)
		return;
	q->slowest.ns = ns;
	q->slowest.time = o->time;
	q->slowest.wr_id = o->wr_id;
	q->slowest.opcode = o->opcode;
	for (int i = 0; i < N_WAITS; i++)
		q->slowest.waited[i] = q->waited[i] - o->waited[i];
}

/* The oldest open request with @wr_id, of those that ask for a completion or of all */
static uint64_t find_open(const struct qp *q, uint64_t wr_id, bool all)
{
	uint64_t i = q->done;

	while (i < q->posted && (q->open[i % OPEN_REQUESTS].wr_id != wr_id ||
				 !(all || q->open[i % OPEN_REQUESTS].signaled)))
		i++;
	return i;
}

/*
 * A send request completed, and with it those before it that ask for no completion. One that
 * fails may be any; and whether the QP lets all ask may not be in the trace any more.
 */
static void add_send_completion(struct qp *q, uint64_t wr_id, bool failed, uint64_t now)
{
	uint64_t i = find_open(q, wr_id, failed);

	if (i == q->posted)
		i = find_open(q, wr_id, true);
	if (i == q->posted)
		return;
	for (; q->done <= i; q->done++)
		if (!failed)
			took(q, &q->open[q->done % OPEN_REQUESTS], now);
}

/* The peer is ready again: a packet of it came that is no such NAK. */
static void rnr_over(struct qp *q, uint64_t now)
{
	uint64_t ns = findings_span(q->rnr_since, now);
	uint64_t from = q->done > q->rnr_until ? q->done : q->rnr_until;

	if (!q->rnr_since)
		return;
	/* all that were posted stood behind the one that waited */
	if (q->posted > from)
		q->rnr_requests += q->posted - from;
	q->rnr_until = q->posted;
	q->rnr.ns += ns;
	q->waited[WAIT_RNR] += ns;
	q->rnr_since = 0;
}

static void add_nak_in(struct qp *q, const struct moment *m)
{
	if ((m->r.u.nak_in.syndrome & 0xe0) != RNR_TYPE) {
		rnr_over(q, m->time);
		return;
	}
	count(&q->rnr, m->time, 0);
	if (!q->rnr_since)
		q->rnr_since = m->time;
}

static void add_completion(struct qp *q, const struct moment *m)
{
	const struct trace_rec_completion *c = &m->r.u.completion;

	if (m->r.kind == TRACE_KIND_completion_error) {
		/* 5: flushed, the consequence of another */
		if (c->status == 5)
			count(&q->flushed, m->time, 0);
		else
			count(&q->error[c->status & 31], m->time, 0);
	}
	if (c->receive)
		return;
	rnr_over(q, m->time);
	if (q->open)
		add_send_completion(q, c->wr_id, c->status, m->time);
}

/* The first receive request that is posted after the peer was told that there is none */
static void add_receive(struct findings *f, const struct moment *m)
{
	const struct trace_rec_post_receive *p = &m->r.u.post_receive;
	struct qp *q, *next;

	HASH_ITER (hh, f->qp, q, next) {
		if (q->key.from != (uint32_t)m->from ||
		    (p->srq ? q->srq != p->srq : q->key.qpn != p->qpn))
			continue;
		q->receives++;
		if (q->rnr_sent.count && !q->posted_after && !p->late)
			q->posted_after = m->time;
	}
}

static void add_timer(struct qp *q, const struct moment *m)
{
	uint64_t ns = findings_span(q->sent, m->time);

	if (m->r.u.timer.timer != TRACE_TIMER_ACK)
		return;
	count(&q->timer, m->time, ns);
	q->waited[WAIT_RETRY] += ns;
}

static void add_create(struct qp *q, const struct trace_rec_create_qp *p)
{
	q->sig_all = p->sig_all;
	q->srq = p->srq;
}

static void add_modify(struct qp *q, const struct trace_rec_modify_qp *p)
{
	if (p->peer)
		q->peer = p->peer;
	if (p->mask & 1u << 10)
		q->retry_cnt = p->retry_cnt;
	if (p->mask & 1u << 11)
		q->rnr_retry = p->rnr_retry;
}

static void add_failed(struct qp *q, const struct moment *m)
{
	rnr_over(q, m->time);
	q->state = m->r.u.qp_failed.to;
	q->failed = m->time;
	q->failed_cause = m->r.u.qp_failed.cause;
	q->status = m->r.u.qp_failed.status;
}

/* A packet of QP @q; those that are in all packets have one layout. */
static void add_packet(struct qp *q, const struct moment *m)
{
	const struct trace_rec_packet_out *p = &m->r.u.packet_out;
	bool in = m->r.kind == TRACE_KIND_packet_in || m->r.kind == TRACE_KIND_nak_in;

	if (!q->peer && p->peer > 1 && p->peer != 0xffffff)
		q->peer = p->peer;
	if (in)
		q->n_in++;
	else
		q->sent = m->time;
	if (m->r.kind == TRACE_KIND_packet_again)
		count(&q->again[p->why % TRACE_N_WHYS], m->time, 0);
	if (m->r.kind == TRACE_KIND_nak_in)
		add_nak_in(q, m);
	else if (in && q->rnr_since && (p->opcode & 0x1f) >= 13 &&
		 (p->opcode & 0x1f) <= 18) /* responses and acknowledges */
		rnr_over(q, m->time);
	if (m->r.kind == TRACE_KIND_nak_out && (p->syndrome & 0xe0) == RNR_TYPE)
		count(&q->rnr_sent, m->time, 0);
}

/* --- records of MRs --------------------------------------------------------------- */

static void add_registration(struct findings *f, const struct moment *m)
{
	const struct trace_rec_reg_mr *p = &m->r.u.reg_mr;
	const struct trace_object *o = trace_find(f->t[m->from], TRACE_OBJ_MR, p->mr);
	struct mr *mr;

	if (p->result < 0) {
		event(f, FINDING_FAILED, m);
		return;
	}
	mr = mr_of(f, m->from, p->mr);
	if (!mr)
		return;
	if (o && o->mr.page_size >= 512)
		mr->page_size = o->mr.page_size;
	mr->addr = p->addr / mr->page_size * mr->page_size;
	mr->pages = (p->length + (p->addr - mr->addr)) / mr->page_size + 1;
	free(mr->present);
	free(mr->ever);
	mr->present = mr->ever = NULL;
	if (mr->pages <= MAX_PAGES && p->access & 0x40) { /* IBV_ACCESS_ON_DEMAND */
		mr->present = calloc(1, mr->pages / 8 + 1);
		mr->ever = calloc(1, mr->pages / 8 + 1);
	}
}

/* The pages of a range of an MR: from *@first on, how many */
static uint64_t pages_in(const struct mr *mr, uint64_t addr, uint64_t length,
			 uint64_t *first)
{
	uint64_t last;

	if (!mr->present || !mr->ever || !length || addr + length <= mr->addr)
		return 0;
	*first = addr > mr->addr ? (addr - mr->addr) / mr->page_size : 0;
	last = (addr + length - 1 - mr->addr) / mr->page_size;
	if (last >= mr->pages)
		last = mr->pages - 1;
	return *first > last ? 0 : last - *first + 1;
}

static bool get_bit(const uint8_t *bits, uint64_t i)
{
	return bits[i / 8] >> (i % 8) & 1;
}

static void come(struct mr *mr, uint64_t addr, uint64_t length)
{
	uint64_t first = 0, n = pages_in(mr, addr, length, &first);

	for (uint64_t i = first; i < first + n; i++) {
		mr->present[i / 8] |= (uint8_t)(1u << (i % 8));
		mr->ever[i / 8] |= (uint8_t)(1u << (i % 8));
	}
}

static void go(struct mr *mr, uint64_t addr, uint64_t length)
{
	uint64_t first = 0, n = pages_in(mr, addr, length, &first);

	for (uint64_t i = first; i < first + n; i++)
		mr->present[i / 8] &= (uint8_t) ~(1u << (i % 8));
}

static void add_fault(struct mr *mr, const struct moment *m)
{
	const struct trace_rec_fault *p = &m->r.u.fault;
	uint64_t first = 0, length = p->pages * mr->page_size;
	uint64_t n = pages_in(mr, p->addr, length, &first);
	bool never = !n, absent = false;

	for (uint64_t i = first; i < first + n; i++) {
		never |= !get_bit(mr->ever, i);
		absent |= !get_bit(mr->present, i);
	}
	count(never    ? &mr->first
	      : absent ? &mr->again
		       : &mr->upgrade,
	      m->time, p->duration);
	come(mr, p->addr, length);
}

static void add_mr_record(struct findings *f, const struct moment *m)
{
	const struct trace_record *r = &m->r;
	struct mr *mr;

	if (r->kind == TRACE_KIND_fault || r->kind == TRACE_KIND_fault_failed) {
		mr = mr_of(f, m->from, r->u.fault.mr);
		if (mr && r->kind == TRACE_KIND_fault)
			add_fault(mr, m);
		else if (mr) {
			count(&mr->failed, m->time, r->u.fault.duration);
			mr->result = r->u.fault.result;
		}
	} else if (r->kind == TRACE_KIND_prefetch) {
		mr = mr_of(f, m->from, r->u.prefetch.mr);
		if (mr) {
			count(&mr->prefetch, m->time, r->u.prefetch.duration);
			mr->prefetched += r->u.prefetch.pages;
			if (r->u.prefetch.pages)
				come(mr, r->u.prefetch.addr, r->u.prefetch.length);
		}
	} else if (r->kind == TRACE_KIND_invalidate) {
		mr = mr_of(f, m->from, r->u.invalidate.mr);
		if (mr) {
			count(&mr->invalidate, m->time, 0);
			mr->lost += r->u.invalidate.pages;
			go(mr, r->u.invalidate.addr, r->u.invalidate.length);
		}
	} else if (r->kind == TRACE_KIND_evict) {
		mr = mr_of(f, m->from, r->u.evict.mr);
		if (mr) {
			count(&mr->evict, m->time, 0);
			go(mr, r->u.evict.addr, mr->page_size);
		}
	}
}

/* A fault stops whoever waits for it: all QPs of the process may have. */
static void add_fault_wait(struct findings *f, const struct moment *m)
{
	struct qp *q, *next;

	HASH_ITER (hh, f->qp, q, next)
		if (q->key.from == (uint32_t)m->from)
			q->waited[WAIT_FAULT] += m->r.u.fault.duration;
}

/* --- all records ------------------------------------------------------------------ */

static void add_drop(struct findings *f, const struct moment *m)
{
	const struct trace_rec_drop *p = &m->r.u.drop;
	struct qp *q;

	if (p->why >= TRACE_N_DROPS)
		return;
	if (p->why == TRACE_DROP_NO_QP || p->why == TRACE_DROP_MALFORMED ||
	    p->why == TRACE_DROP_PKEY) {
		count(&f->stray[p->why], m->time, 0);
		f->stray_from = m->from;
		return;
	}
	q = qp_of(f, m->from, p->qpn);
	if (q)
		count(&q->drop[p->why], m->time, 0);
}

static void add_qp_record(struct findings *f, const struct moment *m)
{
	const struct trace_record *r = &m->r;
	const struct trace_field_desc *d = trace_field_named(trace_kind(r->kind), "qpn");
	struct qp *q = d ? qp_of(f, m->from, (uint32_t)trace_field(r, d)) : NULL;

	if (!q)
		return;
	if (r->kind == TRACE_KIND_post_send)
		add_post(q, m);
	else if (r->kind == TRACE_KIND_completion ||
		 r->kind == TRACE_KIND_completion_error)
		add_completion(q, m);
	else if (r->kind == TRACE_KIND_take_receive) {
		q->taken++;
		if (q->rnr_sent.count && !q->first_after)
			q->first_after = m->time;
	} else if (r->kind == TRACE_KIND_timer)
		add_timer(q, m);
	else if (r->kind == TRACE_KIND_create_qp)
		add_create(q, &r->u.create_qp);
	else if (r->kind == TRACE_KIND_modify_qp)
		add_modify(q, &r->u.modify_qp);
	else if (r->kind == TRACE_KIND_qp_state)
		q->state = r->u.qp_state.to;
	else if (r->kind == TRACE_KIND_qp_failed)
		add_failed(q, m);
	else if (r->kind <= TRACE_KIND_nak_in)
		add_packet(q, m);
}
_Static_assert(TRACE_KIND_nak_in == 5 && TRACE_KIND_packet_out == 1,
	       "the kinds of packets come first");

void findings_add(struct findings *f, const struct moment *m)
{
	const struct trace_record *r = &m->r;

	if (!f->any)
		f->first = m->time;
	f->any = true;
	f->last = m->time;
	if (r->kind == TRACE_KIND_drop)
		add_drop(f, m);
	else if (r->kind == TRACE_KIND_modify_refused ||
		 r->kind == TRACE_KIND_verb_failed)
		event(f, FINDING_FAILED, m);
	else if (r->kind == TRACE_KIND_reg_mr || r->kind == TRACE_KIND_rereg_mr)
		add_registration(f, m);
	else if (r->kind == TRACE_KIND_cm_event && r->u.cm_event.event < 32 &&
		 CM_ERRORS >> r->u.cm_event.event & 1)
		event(f, FINDING_FAILED, m);
	else if (r->kind == TRACE_KIND_post_receive ||
		 r->kind == TRACE_KIND_post_srq_receive)
		add_receive(f, m);
	else if (trace_field_named(trace_kind(r->kind), "qpn"))
		add_qp_record(f, m);
	else
		add_mr_record(f, m);
	if (r->kind == TRACE_KIND_fault)
		add_fault_wait(f, m);
}

/* --- beginning and end ---------------------------------------------------------- */

struct findings *findings_new(struct trace_reader **t, int n, const struct timeline *tl)
{
	struct findings *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->t = t;
	f->tl = tl;
	f->n = n;
	return f;
}

void findings_traces(struct findings *f, int n)
{
	f->n = n;
}

void findings_free(struct findings *f)
{
	struct qp *q, *next_qp;
	struct mr *mr, *next_mr;

	if (!f)
		return;
	HASH_ITER (hh, f->qp, q, next_qp) {
		HASH_DEL(f->qp, q);
		free(q->open);
		free(q);
	}
	HASH_ITER (hh, f->mr, mr, next_mr) {
		HASH_DEL(f->mr, mr);
		free(mr->present);
		free(mr->ever);
		free(mr);
	}
	free(f->list);
	free(f->event);
	free(f);
}
