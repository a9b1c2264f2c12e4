/*
 * findings.c - see findings.h.
 *
 * Each QP and each MR of each trace has a summary, which records change as they come; sentences
 * are made from the summaries (findings_say.c). A request is known from its post to its completion; what its QP
 * had waited for at either end tells what it waited for.
 *
 * Owns the summaries. Must not know: how sentences are shown.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/findings_internal.h"
#include "trace/render.h"

#define MAX_PAGES  (1u << 24) /* of an MR whose pages are told apart */
#define MAX_EVENTS 64	      /* sentences about single records of a kind */
#define RNR_TYPE   0x20	      /* of an AETH syndrome, IBTA table 44 */

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

struct qp *findings_other_end(struct findings *f, const struct qp *q)
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

struct finding *findings_say(struct findings *f, enum finding_level level, int from,
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

void findings_append(char *text, size_t size, const char *fmt, ...)
{
	size_t n = strlen(text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text + n, size - n, fmt, ap);
	va_end(ap);
}

const char *findings_who(const struct findings *f, int from, char buf[96])
{
	const struct trace_info *i = trace_info(f->t[from]);

	snprintf(buf, 96, "%s (pid %d)", i->program, i->pid);
	return buf;
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
	snprintf(x->text, sizeof(x->text), "%s: %s.", findings_who(f, m->from, name),
		 line);
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

	f->n_list = 0;
	findings_say_all(f);
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
