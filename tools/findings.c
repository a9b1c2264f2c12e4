/*
 * findings.c - see findings.h.
 *
 * Each QP and each MR of each trace has a summary, which records change as they come; sentences
 * are made from the summaries. A request is known from its post to its completion; what its QP
 * had waited for at either end tells what it waited for.
 *
 * Owns the summaries. Must not know: how sentences are shown.
 */
#include "tools/findings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "trace/render.h"

#define OPEN_REQUESTS 4096 /* posts remembered of a QP, those before are forgotten */
#define MAX_PAGES     (1u << 24) /* of an MR whose pages are told apart */
#define SLOW_NS	      1000000	 /* what takes less is not worth a sentence */
#define SLOW_FACTOR   50	 /* the slowest request by the median, to be told */
#define MAX_EVENTS    64	 /* sentences about single records of a kind */
#define RNR_TYPE      0x20	 /* of an AETH syndrome, IBTA table 44 */

/* struct since - how often, since when, how long in all */
struct since {
	uint64_t count, first, last, ns;
};

/* struct open - a request that is posted and not complete; @waited: see struct qp */
struct open {
	uint64_t wr_id, time, waited[3];
	uint8_t opcode;
};

/* What a request can wait for, the index of struct qp.waited */
enum { WAIT_RNR, WAIT_RETRY, WAIT_FAULT, N_WAITS };

/*
 * struct qp - the summary of a QP
 * @state:	the last one
 * @rnr:	NAKs of the peer that it was not ready; @rnr_since: it waits for that, 0: not
 * @rnr_requests: requests that had to wait; @rnr_now: the one that does, by its PSN
 * @rnr_sent:	own ones; @taken: receive requests taken, @first_after: when the first was after
 *		the first of these NAKs
 * @timer:	acknowledge timeouts, with the time that passed in silence before
 * @again:	packets sent again, by reason
 * @drop:	packets to it that were thrown away, by reason
 * @waited:	ns, up to now, for what
 * @sent:	when its last packet left; @n_in: packets received
 * @open:	ring of requests, @posted and @done of them
 * @latency:	of completed ones, by the power of two of ns; @slowest of them
 * @failed:	the record that says why it is in ERR; @status of it
 * @error:	completions in error by status, without flushed ones; @flushed
 */
struct qp {
	struct qp_key {
		uint32_t from, qpn;
	} key;
	uint32_t peer;
	uint8_t state, status, rnr_retry, retry_cnt;
	struct since rnr, timer, rnr_sent;
	uint64_t rnr_since, rnr_requests, taken, first_after;
	uint32_t rnr_now;
	bool rnr_known;
	struct since again[TRACE_N_WHYS], drop[TRACE_N_DROPS];
	uint64_t waited[N_WAITS];
	uint64_t sent, n_in;
	struct open *open;
	uint64_t posted, done;
	uint64_t latency[64], completed;
	struct {
		uint64_t ns, time, wr_id, waited[N_WAITS];
		uint8_t opcode;
	} slowest;
	uint64_t failed, failed_cause;
	struct since error[32], flushed;
	UT_hash_handle hh;
};

/*
 * struct mr - the summary of a memory region
 * @present, @ever: a bit for each page: in the page table, has been there; NULL: not told apart
 * @first, @again, @upgrade: faults of pages that were there never; that were lost; that were
 *		there to be read only
 */
struct mr {
	struct mr_key {
		uint32_t from, mr;
	} key;
	uint64_t addr, pages, page_size;
	uint8_t *present, *ever;
	struct since first, again, upgrade, failed, prefetch, evict, invalidate;
	uint64_t prefetched, lost, failed_time;
	int32_t result;
	UT_hash_handle hh;
};

/*
 * struct findings
 * @list:	the sentences; @event: those that are records as they stand; @nowhere: one that
 *		there is no memory for
 * @first, @last: times of the trace
 * @told:	records by kind that became an event
 * @stray:	packets thrown away that belong to no QP, the last in trace @stray_from
 */
struct findings {
	struct trace_reader **t;
	int n;
	struct qp *qp;
	struct mr *mr;
	struct finding *list, *event, nowhere;
	size_t n_list, room, n_events, room_events;
	uint64_t first, last;
	uint64_t told[TRACE_N_KINDS];
	struct since stray[TRACE_N_DROPS];
	int stray_from;
};

const char *finding_level_name(enum finding_level level)
{
	static const char *const name[] = {"failed", "slow", "note"};

	return name[level];
}

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

static uint64_t since(uint64_t then, uint64_t now)
{
	return then && then < now ? now - then : 0;
}

/* The QP at the other end, if its process was traced too */
static struct qp *other_end(struct findings *f, const struct qp *q)
{
	struct qp *p, *next;

	HASH_ITER (hh, f->qp, p, next)
		if (q->peer && p->key.qpn == q->peer &&
		    (p->peer == q->key.qpn || !p->peer) && p != q)
			return p;
	return NULL;
}

/* --- sentences -------------------------------------------------------------------- */

static struct finding *room_for(struct finding **list, size_t *n, size_t *room)
{
	size_t want = *room ? 2 * *room : 16;
	struct finding *more = *list;

	if (*n == *room) {
		more = realloc(*list, want * sizeof(*more));
		if (!more)
			return NULL;
		*list = more;
		*room = want;
	}
	memset(&more[*n], 0, sizeof(*more));
	return &more[(*n)++];
}

static struct finding *say(struct findings *f, enum finding_level level, int from,
			   uint64_t time, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
static struct finding *say(struct findings *f, enum finding_level level, int from,
			   uint64_t time, const char *fmt, ...)
{
	struct finding *x = room_for(&f->list, &f->n_list, &f->room);
	va_list ap;

	if (!x)
		x = &f->nowhere;
	x->level = level;
	x->from = from;
	x->time = time;
	va_start(ap, fmt);
	vsnprintf(x->text, sizeof(x->text), fmt, ap);
	va_end(ap);
	return x;
}

static void append(char *text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static void append(char *text, size_t size, const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, size - n, fmt, ap);
	va_end(ap);
}

static const char *who(const struct findings *f, int from, char buf[96])
{
	const struct trace_info *i = trace_info(f->t[from]);

	snprintf(buf, 96, "%s (pid %d)", i->program, i->pid);
	return buf;
}

static const char *word(enum trace_unit unit, uint64_t v)
{
	const char *name = trace_name(unit, v);

	return name ? name : "unknown";
}

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

/* Single records that are a sentence as they stand */
static void event(struct findings *f, enum finding_level level, const struct moment *m)
{
	struct finding *x;
	char line[300], name[96];

	if (f->told[m->r.kind]++ >= MAX_EVENTS)
		return;
	x = room_for(&f->event, &f->n_events, &f->room_events);
	if (!x)
		return;
	trace_text(&m->r, line, sizeof(line));
	x->level = level;
	x->time = m->time;
	x->from = m->from;
	x->kind = m->r.kind;
	snprintf(x->text, sizeof(x->text), "%s: %s.", who(f, m->from, name), line);
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
			   .opcode = m->r.u.post_send.opcode};
	memcpy(o->waited, q->waited, sizeof(o->waited));
}

static void took(struct qp *q, const struct open *o, uint64_t now)
{
	uint64_t ns = since(o->time, now);
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

/* A send request completed, and with it those before it that ask for no completion. */
static void add_send_completion(struct qp *q, uint64_t wr_id, uint64_t now)
{
	uint64_t i = q->done;

	while (i < q->posted && q->open[i % OPEN_REQUESTS].wr_id != wr_id)
		i++;
	if (i == q->posted)
		return;
	for (; q->done <= i; q->done++)
		took(q, &q->open[q->done % OPEN_REQUESTS], now);
}

/* The peer is ready again: a packet of it came that is no such NAK. */
static void rnr_over(struct qp *q, uint64_t now)
{
	uint64_t ns = since(q->rnr_since, now);

	q->rnr.ns += ns;
	q->waited[WAIT_RNR] += ns;
	q->rnr_since = 0;
}

static void add_nak_in(struct qp *q, const struct moment *m)
{
	const struct trace_rec_nak_in *p = &m->r.u.nak_in;

	if ((p->syndrome & 0xe0) != RNR_TYPE) {
		rnr_over(q, m->time);
		return;
	}
	count(&q->rnr, m->time, 0);
	if (!q->rnr_since)
		q->rnr_since = m->time;
	if (!q->rnr_known || q->rnr_now != p->psn)
		q->rnr_requests++;
	q->rnr_known = true;
	q->rnr_now = p->psn;
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
		add_send_completion(q, c->wr_id, m->time);
}

static void add_timer(struct qp *q, const struct moment *m)
{
	uint64_t ns = since(q->sent, m->time);

	if (m->r.u.timer.timer != TRACE_TIMER_ACK)
		return;
	count(&q->timer, m->time, ns);
	q->waited[WAIT_RETRY] += ns;
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

	if (!f->first)
		f->first = m->time;
	f->last = m->time;
	if (r->kind == TRACE_KIND_drop)
		add_drop(f, m);
	else if (r->kind == TRACE_KIND_modify_refused ||
		 r->kind == TRACE_KIND_verb_failed)
		event(f, FINDING_FAILED, m);
	else if (r->kind == TRACE_KIND_reg_mr || r->kind == TRACE_KIND_rereg_mr)
		add_registration(f, m);
	else if (r->kind == TRACE_KIND_cm_event &&
		 strstr("ADDR_ERROR ROUTE_ERROR CONNECT_ERROR UNREACHABLE REJECTED "
			"MULTICAST_ERROR",
			word(TRACE_CM_EVENT, r->u.cm_event.event)))
		event(f, FINDING_FAILED, m);
	else if (trace_field_named(trace_kind(r->kind), "qpn"))
		add_qp_record(f, m);
	else
		add_mr_record(f, m);
	if (r->kind == TRACE_KIND_fault)
		add_fault_wait(f, m);
}

/* --- sentences about QPs ---------------------------------------------------------- */

/* Why no acknowledge came, as far as the other end tells */
static void why_silent(struct findings *f, const struct qp *q, char *text, size_t size)
{
	const struct qp *p = other_end(f, q);
	char name[96];

	if (!q->n_in)
		append(text, size, " Nothing ever came from the peer.");
	if (!p) {
		append(
		    text, size,
		    " The peer was not traced: it is gone, its address or QPN is wrong, "
		    "or packets are lost on the way.");
		return;
	}
	for (size_t i = 0; i < TRACE_N_DROPS; i++)
		if (p->drop[i].count)
			append(text, size,
			       " The peer threw away %" PRIu64 " packets: %s.",
			       p->drop[i].count, word(TRACE_DROP, i));
	if (p->failed)
		append(text, size, " The peer's QP 0x%06x had failed itself.",
		       p->key.qpn);
	else if (p->state < 2) /* RTR */
		append(text, size,
		       " The peer's QP 0x%06x was in %s, not ready to receive.",
		       p->key.qpn, word(TRACE_STATE, p->state));
	else if (trace_info(f->t[p->key.from])->end == TRACE_RUNNING)
		append(text, size, " %s, its peer, did not end in order: killed?",
		       who(f, (int)p->key.from, name));
}

static void why_failed(struct findings *f, const struct qp *q, char *text, size_t size)
{
	const char *status = word(TRACE_STATUS, q->status);
	char time[32];

	if (!strcmp(status, "RETRY_EXC_ERR")) {
		append(text, size,
		       " No acknowledge came in %" PRIu64 " timeouts (%s of silence).",
		       q->timer.count, trace_time_text(q->timer.ns, time));
		why_silent(f, q, text, size);
	} else if (!strcmp(status, "RNR_RETRY_EXC_ERR"))
		append(text, size,
		       " The peer had no receive request for it and answered so %" PRIu64
		       " times in %s; rnr_retry is %u. Post receives before the peer "
		       "sends, or set rnr_retry to 7.",
		       q->rnr.count, trace_time_text(q->rnr.ns, time), q->rnr_retry);
	else if (!strcmp(status, "REM_ACCESS_ERR"))
		append(text, size,
		       " The peer refused the access: rkey, range, or the right "
		       "IBV_ACCESS_REMOTE_* of MR or QP is missing there.");
	else if (!strcmp(status, "LOC_PROT_ERR"))
		append(text, size,
		       " A buffer of its own is not inside the MR of its lkey, or the "
		       "MR does not allow the access.");
	else if (!strcmp(status, "LOC_LEN_ERR") || !strcmp(status, "REM_INV_REQ_ERR"))
		append(text, size,
		       " A message was longer than the receive request that took it, "
		       "or the request is not allowed on this QP.");
}

static void say_failed(struct findings *f, const struct qp *q)
{
	struct finding *x;
	char name[96];

	if (!q->failed)
		return;
	x = say(f, FINDING_FAILED, (int)q->key.from, q->failed,
		"QP 0x%06x of %s failed: %s (%s).", q->key.qpn,
		who(f, (int)q->key.from, name), word(TRACE_STATUS, q->status),
		word(TRACE_CAUSE, q->failed_cause));
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_qp_failed;
	x->cost = q->flushed.count;
	why_failed(f, q, x->text, sizeof(x->text));
	if (q->flushed.count)
		append(x->text, sizeof(x->text),
		       " %" PRIu64 " more request%s of the QP were flushed.",
		       q->flushed.count, plural(q->flushed.count));
}

/* Completions in error of QPs that did not fail by them, or by another status */
static void say_errors(struct findings *f, const struct qp *q)
{
	struct finding *x;
	char name[96];

	for (uint32_t i = 0; i < 32; i++) {
		if (!q->error[i].count || (q->failed && q->status == i))
			continue;
		x = say(f, FINDING_FAILED, (int)q->key.from, q->error[i].first,
			"%" PRIu64 " request%s of QP 0x%06x of %s completed with %s.",
			q->error[i].count, plural(q->error[i].count), q->key.qpn,
			who(f, (int)q->key.from, name), word(TRACE_STATUS, i));
		x->qpn = q->key.qpn;
		x->kind = TRACE_KIND_completion_error;
	}
}

static void say_rnr(struct findings *f, struct qp *q)
{
	uint64_t now = q->rnr_since ? since(q->rnr_since, f->last) : 0;
	struct qp *p = other_end(f, q);
	char name[96], time[32];
	struct finding *x;

	if (!q->rnr.count)
		return;
	x = say(f, FINDING_SLOW, (int)q->key.from, q->rnr.first,
		"QP 0x%06x of %s: %" PRIu64 " request%s waited %s for receive buffers of "
		"the peer, which answered \"receiver not ready\" %" PRIu64 " times.",
		q->key.qpn, who(f, (int)q->key.from, name), q->rnr_requests,
		plural(q->rnr_requests), trace_time_text(q->rnr.ns + now, time),
		q->rnr.count);
	if (now)
		append(x->text, sizeof(x->text), " It still waits at the end.");
	else if (p && p->first_after)
		append(x->text, sizeof(x->text),
		       " The peer took its first one at %s of the trace.",
		       trace_time_text(since(f->first, p->first_after), time));
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_nak_in;
	x->cost = q->rnr.ns + now;
}

static void say_again(struct findings *f, const struct qp *q)
{
	uint64_t total = 0, first = 0;
	char name[96], time[32];
	struct finding *x;

	for (size_t i = TRACE_WHY_RETRY_TIMEOUT; i <= TRACE_WHY_RETRY_IMPLIED; i++) {
		total += q->again[i].count;
		if (q->again[i].count && (!first || q->again[i].first < first))
			first = q->again[i].first;
	}
	if (!total)
		return;
	x = say(f, FINDING_SLOW, (int)q->key.from, first,
		"QP 0x%06x of %s sent %" PRIu64 " packet%s again, since packets or their "
		"answers were lost",
		q->key.qpn, who(f, (int)q->key.from, name), total, plural(total));
	if (q->timer.count)
		append(x->text, sizeof(x->text),
		       "; it noticed %" PRIu64 " of the losses by timeout only, which "
		       "took %s.",
		       q->timer.count, trace_time_text(q->timer.ns, time));
	else
		append(x->text, sizeof(x->text), "; the peer noticed each at once.");
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_packet_again;
	x->cost = q->timer.ns;
}

/* Half of the completed requests took less. */
static uint64_t median(const struct qp *q)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < 64; i++) {
		n += q->latency[i];
		if (2 * n >= q->completed)
			return 1ull << i;
	}
	return 0;
}

static void say_slowest(struct findings *f, const struct qp *q)
{
	static const char *const wait[] = {"for receive buffers of the peer",
					   "for acknowledges that did not come",
					   "in page faults of this process"};
	char name[96], time[32], half[32];
	uint64_t m = median(q), most = 0;
	struct finding *x;
	int why = 0;

	if (q->completed < 8 || q->slowest.ns < SLOW_NS ||
	    q->slowest.ns < SLOW_FACTOR * m)
		return;
	x = say(f, FINDING_SLOW, (int)q->key.from, q->slowest.time,
		"The slowest of %" PRIu64
		" requests of QP 0x%06x of %s, %s wr_id 0x%" PRIx64
		", took %s; half of them took less than %s.",
		q->completed, q->key.qpn, who(f, (int)q->key.from, name),
		word(TRACE_WR, q->slowest.opcode), q->slowest.wr_id,
		trace_time_text(q->slowest.ns, time), trace_time_text(2 * m, half));
	for (int i = 0; i < N_WAITS; i++)
		if (q->slowest.waited[i] > most) {
			most = q->slowest.waited[i];
			why = i;
		}
	if (most)
		append(x->text, sizeof(x->text), " It waited %s %s.",
		       trace_time_text(most, time), wait[why]);
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_post_send;
	x->cost = q->slowest.ns / 2;
}

static void say_unfinished(struct findings *f, const struct qp *q)
{
	uint64_t left = q->posted - q->done;
	const struct open *o;
	char name[96], time[32];
	struct finding *x;

	/* what is posted without a completion is done with the next that has one */
	if (!left || q->failed || !q->open)
		return;
	o = &q->open[q->done % OPEN_REQUESTS];
	x = say(f, since(o->time, f->last) > SLOW_NS ? FINDING_SLOW : FINDING_NOTE,
		(int)q->key.from, o->time,
		"QP 0x%06x of %s has %" PRIu64 " request%s without a completion; the "
		"first, %s wr_id 0x%" PRIx64 ", was posted %s before the end.",
		q->key.qpn, who(f, (int)q->key.from, name), left, plural(left),
		word(TRACE_WR, o->opcode), o->wr_id,
		trace_time_text(since(o->time, f->last), time));
	x->qpn = q->key.qpn;
	x->kind = TRACE_KIND_post_send;
}

/* --- sentences about MRs ---------------------------------------------------------- */

static void say_faults(struct findings *f, const struct mr *mr)
{
	uint64_t n = mr->first.count + mr->again.count + mr->upgrade.count;
	uint64_t ns = mr->first.ns + mr->again.ns + mr->upgrade.ns;
	uint64_t at = mr->first.count ? mr->first.first : mr->again.first;
	char name[96], time[32], saved[32];
	struct finding *x;

	if (!n)
		return;
	x = say(f, ns >= SLOW_NS / 10 ? FINDING_SLOW : FINDING_NOTE, (int)mr->key.from,
		at ? at : mr->upgrade.first,
		"MR 0x%x of %s: %" PRIu64 " page fault%s took %s.", mr->key.mr,
		who(f, (int)mr->key.from, name), n, plural(n), trace_time_text(ns, time));
	if (mr->first.count + mr->upgrade.count)
		append(x->text, sizeof(x->text),
		       " A prefetch for writing before the first access would have saved "
		       "%" PRIu64 " of them (%s).",
		       mr->first.count + mr->upgrade.count,
		       trace_time_text(mr->first.ns + mr->upgrade.ns, saved));
	if (mr->again.count)
		append(x->text, sizeof(x->text),
		       " %" PRIu64 " (%s) brought back pages that had been lost to %s.",
		       mr->again.count, trace_time_text(mr->again.ns, saved),
		       !mr->evict.count ? "invalidations"
		       : !mr->lost	? "the bound on present pages"
					: "invalidations and the bound on present pages");
	x->mr = mr->key.mr;
	x->kind = TRACE_KIND_fault;
	x->cost = ns;
}

static void say_mr(struct findings *f, const struct mr *mr)
{
	struct finding *x;
	char name[96];

	say_faults(f, mr);
	if (!mr->failed.count)
		return;
	x = say(f, FINDING_FAILED, (int)mr->key.from, mr->failed.first,
		"%" PRIu64
		" page fault%s of MR 0x%x of %s failed (%s): memory that is not "
		"mapped, or may not be accessed so.",
		mr->failed.count, plural(mr->failed.count), mr->key.mr,
		who(f, (int)mr->key.from, name),
		strerrorname_np(-mr->result) ? strerrorname_np(-mr->result) : "?");
	x->mr = mr->key.mr;
	x->kind = TRACE_KIND_fault_failed;
}

/* --- sentences about processes ---------------------------------------------------- */

static void say_queue(struct findings *f, int i, const struct trace_object *o)
{
	uint64_t polled = o->cq.polled, produced = o->cq.produced;
	char name[96];

	if (o->cq.overrun)
		say(f, FINDING_FAILED, i, f->last,
		    "CQ %u of %s overran: more than %u completions, and nobody polled.",
		    o->id, who(f, i, name), o->cq.size);
	else if (produced > polled && !o->gone && o->cq.watched)
		say(f, FINDING_NOTE, i, f->last,
		    "CQ %u of %s: %" PRIu64 " completion%s never polled.", o->id,
		    who(f, i, name), produced - polled,
		    produced - polled == 1 ? " was" : "s were");
}

static void say_process(struct findings *f, int i)
{
	const struct trace_info *info = trace_info(f->t[i]);
	const struct trace_object *o;
	char name[96];

	who(f, i, name);
	if (info->end == TRACE_RUNNING)
		say(f, FINDING_NOTE, i, f->last,
		    "%s had not ended in order when this was read: it still ran, was "
		    "killed, or crashed.",
		    name);
	if (info->overwritten)
		say(f, FINDING_NOTE, i, f->first,
		    "The first %" PRIu64
		    " records of %s are not there: the ring was full. --trace-size makes "
		    "it larger.",
		    info->overwritten, name);
	if (info->lost + trace_unreadable(f->t[i]))
		say(f, FINDING_NOTE, i, f->first,
		    "%" PRIu64 " records of %s could not be written or read.",
		    info->lost + trace_unreadable(f->t[i]), name);
	if (!info->full)
		say(f, FINDING_NOTE, i, f->first,
		    "%s was not traced in full: packets and requests that went well are "
		    "missing (urxe run --trace).",
		    name);
	for (size_t k = 0; (o = trace_object(f->t[i], k)); k++)
		if (o->kind == TRACE_OBJ_CQ)
			say_queue(f, i, o);
}

static void say_strays(struct findings *f)
{
	for (size_t i = 0; i < TRACE_N_DROPS; i++)
		if (f->stray[i].count)
			say(f, FINDING_NOTE, f->stray_from, f->stray[i].first,
			    "%" PRIu64 " packet%s thrown away: %s.", f->stray[i].count,
			    f->stray[i].count == 1 ? " was" : "s were",
			    word(TRACE_DROP, i))
			    ->kind = TRACE_KIND_drop;
}

/* What can be said of any trace, so that the list is never empty */
static void say_all(struct findings *f)
{
	char time[32], half[32];
	uint64_t done = 0, slowest = 0, m = 0, n;
	struct qp *q, *next;

	HASH_ITER (hh, f->qp, q, next) {
		done += q->completed;
		n = median(q);
		m = n > m ? n : m;
		slowest = q->slowest.ns > slowest ? q->slowest.ns : slowest;
	}
	trace_time_text(since(f->first, f->last), time);
	if (!done) {
		say(f, FINDING_NOTE, 0, f->first,
		    "No send request was seen to complete in %s.", time);
		return;
	}
	say(f, FINDING_NOTE, 0, f->first,
	    "%" PRIu64
	    " send request%s completed in %s; at each QP half of them took less "
	    "than %s from post to completion, the slowest %s.",
	    done, plural(done), time, trace_time_text(2 * m, half),
	    trace_time_text(slowest, (char[32]){0}));
}

/* --- the list --------------------------------------------------------------------- */

static int worst_first(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;

	if (x->level != y->level)
		return x->level < y->level ? -1 : 1;
	if (x->cost != y->cost)
		return x->cost > y->cost ? -1 : 1;
	if (x->time != y->time)
		return x->time < y->time ? -1 : 1;
	return strcmp(x->text, y->text);
}

static void say_events(struct findings *f)
{
	for (size_t i = 0; i < f->n_events; i++) {
		struct finding *x = room_for(&f->list, &f->n_list, &f->room);

		if (x)
			*x = f->event[i];
	}
}

const struct finding *findings_list(struct findings *f, size_t *n)
{
	static const struct finding nothing = {.level = FINDING_NOTE,
					       .text = "There is no memory to say more."};
	struct qp *q, *next_qp;
	struct mr *mr, *next_mr;

	f->n_list = 0;
	say_all(f);
	HASH_ITER (hh, f->qp, q, next_qp) {
		say_failed(f, q);
		say_errors(f, q);
		say_rnr(f, q);
		say_again(f, q);
		say_slowest(f, q);
		say_unfinished(f, q);
	}
	HASH_ITER (hh, f->mr, mr, next_mr)
		say_mr(f, mr);
	for (int i = 0; i < f->n; i++)
		say_process(f, i);
	say_strays(f);
	say_events(f);
	*n = f->n_list ? f->n_list : 1;
	if (!f->n_list)
		return &nothing;
	qsort(f->list, f->n_list, sizeof(*f->list), worst_first);
	return f->list;
}

struct findings *findings_new(struct trace_reader **t, int n)
{
	struct findings *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->t = t;
	f->n = n;
	return f;
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
