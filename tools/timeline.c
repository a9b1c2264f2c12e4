/*
 * timeline.c - see timeline.h.
 *
 * A file is in the order of writing, which is nearly that of time: who writes at the end of a
 * turn says when the turn began. So of each trace some thousand records are kept in a heap, and
 * the earliest of all heaps is next: memory does not grow with the traces.
 *
 * Owns the readers' places while it is used. Must not know: what records mean beyond packets.
 */
#include "tools/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "tools/clocks.h"

#define AHEAD	     4096	    /* records read ahead of each trace */
#define MAX_SENT     65536	    /* packets remembered of a host, nearly */
#define SAME_HOST_NS 10000000000ull /* how far steps of the wall clock may be seen */

/*
 * struct source - one trace
 * @host:	the first trace of the same host
 * @shift:	added to its times gives the common time, but for the rate of @clock, which counts from
 *		@origin on
 * @heap:	the next records, by time; @used of them
 */
struct source {
	struct trace_reader *t;
	int host;
	int64_t shift, origin;
	struct timeline_clock clock;
	struct moment *heap;
	size_t used;
};

struct timeline {
	int n;
	struct source *s;
};

/* --- the clocks of hosts ---------------------------------------------------------- */

/* struct sent - a packet by what both ends record of it, and when it left */
struct sent {
	struct packet_key {
		uint32_t from, to, psn, opcode;
	} key;
	int64_t time;
	UT_hash_handle hh;
};

static int64_t common_time(const struct source *s, uint64_t time)
{
	int64_t t = (int64_t)time + s->shift;

	return t - (int64_t)(s->clock.rate * (double)(t - s->origin));
}

static bool same_host(const struct trace_info *a, const struct trace_info *b)
{
	uint64_t x = a->real - a->mono, y = b->real - b->mono;

	return !strcmp(a->host, b->host) && (x > y ? x - y : y - x) < SAME_HOST_NS;
}

/* The host of trace @i, among those before it, and the time there */
static void find_host(struct timeline *tl, int i)
{
	const struct trace_info *info = trace_info(tl->s[i].t), *first;
	int host = 0;

	while (host < i && !same_host(trace_info(tl->s[host].t), info))
		host++;
	tl->s[i].host = host;
	first = trace_info(tl->s[host].t);
	/* a simulator has one clock, and that is no host's */
	tl->s[i].shift = info->real ? (int64_t)(first->real - first->mono) : 0;
	if (host == i) {
		tl->s[i].clock.host = i;
		tl->s[i].clock.known = i ? CLOCKS_WALL : CLOCKS_SAME;
		return;
	}
	tl->s[i].shift += tl->s[host].clock.moved;
	tl->s[i].clock = tl->s[host].clock;
	tl->s[i].origin = tl->s[host].origin;
}

static void forget_sent(struct sent **all)
{
	struct sent *p, *next;

	HASH_ITER (hh, *all, p, next) {
		HASH_DEL(*all, p);
		free(p);
	}
}

/* Records of packets that left @host; of so many that all cannot be kept, each nth by PSN is taken */
static uint32_t stride_of(const struct timeline *tl, int host)
{
	struct trace_record r;
	uint64_t n = 0;

	for (int i = 0; i < tl->n; i++) {
		if (tl->s[i].host != host)
			continue;
		trace_rewind(tl->s[i].t);
		while (trace_next(tl->s[i].t, &r))
			n += r.kind == TRACE_KIND_packet_out;
	}
	return (uint32_t)(n / MAX_SENT + 1);
}

/* Remember first transmissions of the traces of @host. */
static void remember_sent(const struct timeline *tl, int host, struct sent **all)
{
	uint32_t stride = stride_of(tl, host);
	struct trace_record r;

	for (int i = 0; i < tl->n; i++) {
		if (tl->s[i].host != host)
			continue;
		trace_rewind(tl->s[i].t);
		while (HASH_COUNT(*all) < 2 * MAX_SENT && trace_next(tl->s[i].t, &r)) {
			const struct trace_rec_packet_out *f = &r.u.packet_out;
			struct sent *p, *there;

			if (r.kind != TRACE_KIND_packet_out || f->psn % stride)
				continue;
			p = calloc(1, sizeof(*p));
			if (!p)
				return;
			p->key = (struct packet_key){f->qpn, f->peer, f->psn, f->opcode};
			p->time = common_time(&tl->s[i], r.time);
			HASH_FIND(hh, *all, &p->key, sizeof(p->key), there);
			if (there)
				free(p);
			else
				HASH_ADD(hh, *all, key, sizeof(p->key), p);
		}
	}
}

/*
 * What packets from host @a to host @b tell by their clocks as they are moved now: each took at
 * least no time, so its way bounds how far the clock of the one whose bounds they are is ahead.
 */
static bool bounds_of(const struct timeline *tl, int a, int b, bool there,
		      struct clock_bounds *to)
{
	struct sent *all = NULL, *p;
	struct trace_record r;
	bool ok = true;

	remember_sent(tl, a, &all);
	for (int i = 0; all && ok && i < tl->n; i++) {
		if (tl->s[i].host != b)
			continue;
		trace_rewind(tl->s[i].t);
		while (ok && trace_next(tl->s[i].t, &r)) {
			const struct trace_rec_packet_in *f = &r.u.packet_in;
			struct packet_key key = {f->peer, f->qpn, f->psn, f->opcode};
			int64_t came = common_time(&tl->s[i], r.time);

			if (r.kind != TRACE_KIND_packet_in)
				continue;
			HASH_FIND(hh, all, &key, sizeof(key), p);
			if (p)
				ok = there ? clocks_above(to, came, came - p->time)
					   : clocks_below(to, p->time, p->time - came);
		}
	}
	forget_sent(&all);
	return ok;
}

/* How far the clock of host @b is ahead of that of @a */
static bool compare(const struct timeline *tl, int a, int b, struct clock_fit *fit)
{
	struct clock_bounds bounds = {0};
	bool ok =
	    bounds_of(tl, a, b, true, &bounds) && bounds_of(tl, b, a, false, &bounds);

	if (ok)
		clocks_fit(&bounds, fit);
	clocks_free(&bounds);
	return ok;
}

static void move_host(struct timeline *tl, int host, int against,
		      const struct clock_fit *fit)
{
	for (int i = 0; i < tl->n; i++) {
		struct source *s = &tl->s[i];

		if (s->host != host)
			continue;
		s->shift -= fit->ahead;
		s->clock.moved = -fit->ahead;
		s->clock.known = fit->known;
		s->clock.rate = fit->rate;
		s->clock.margin = fit->margin;
		s->clock.against = against;
		s->origin = fit->origin - fit->ahead;
	}
}

/* Move the clock of host @b, if it shares packets with host @a; better than none is one way. */
static bool settle(struct timeline *tl, int a, int b, bool *settled, bool *ok)
{
	struct clock_fit fit;

	*ok = compare(tl, a, b, &fit);
	if (!*ok || fit.known == CLOCKS_WALL)
		return false;
	move_host(tl, b, a, &fit);
	settled[b] = true;
	return true;
}

/* From the first host on, each that shares packets with one whose clock is settled. */
static bool align(struct timeline *tl)
{
	bool *settled = calloc((size_t)tl->n, sizeof(*settled)), more = true;
	bool ok = settled != NULL;

	if (ok)
		settled[0] = true;
	while (ok && more) {
		more = false;
		for (int b = 0; b < tl->n; b++)
			for (int a = 0;
			     ok && tl->s[b].host == b && !settled[b] && a < tl->n; a++)
				if (settled[a])
					more |= settle(tl, a, b, settled, &ok);
	}
	free(settled);
	return ok;
}

/* --- the order -------------------------------------------------------------------- */

static bool earlier(const struct moment *x, const struct moment *y)
{
	if (x->time != y->time)
		return x->time < y->time;
	if (x->from != y->from)
		return x->from < y->from;
	return x->r.number < y->r.number;
}

static void swap(struct moment *x, struct moment *y)
{
	struct moment z = *x;

	*x = *y;
	*y = z;
}

static void push(struct source *s, const struct moment *m)
{
	size_t i = s->used++;

	for (s->heap[i] = *m; i && earlier(&s->heap[i], &s->heap[(i - 1) / 2]);
	     i = (i - 1) / 2)
		swap(&s->heap[i], &s->heap[(i - 1) / 2]);
}

static void pop(struct source *s, struct moment *m)
{
	size_t i = 0, child;

	*m = s->heap[0];
	s->heap[0] = s->heap[--s->used];
	while ((child = 2 * i + 1) < s->used) {
		if (child + 1 < s->used && earlier(&s->heap[child + 1], &s->heap[child]))
			child++;
		if (!earlier(&s->heap[child], &s->heap[i]))
			break;
		swap(&s->heap[child], &s->heap[i]);
		i = child;
	}
}

static void fill(struct timeline *tl, int i)
{
	struct source *s = &tl->s[i];
	struct moment m;

	while (s->used < AHEAD && trace_next(s->t, &m.r)) {
		m.from = i;
		m.time = timeline_time(tl, i, m.r.time);
		push(s, &m);
	}
}

bool timeline_next(struct timeline *tl, struct moment *m)
{
	int best = -1;

	for (int i = 0; i < tl->n; i++) {
		fill(tl, i);
		if (tl->s[i].used &&
		    (best < 0 || earlier(&tl->s[i].heap[0], &tl->s[best].heap[0])))
			best = i;
	}
	if (best < 0)
		return false;
	pop(&tl->s[best], m);
	return true;
}

uint64_t timeline_time(const struct timeline *tl, int i, uint64_t time)
{
	return (uint64_t)common_time(&tl->s[i], time);
}

uint64_t timeline_own_time(const struct timeline *tl, int i, uint64_t common)
{
	const struct source *s = &tl->s[i];
	double since = (double)((int64_t)common - s->origin);

	return common - (uint64_t)s->shift + (uint64_t)(int64_t)(s->clock.rate * since);
}

const struct timeline_clock *timeline_clock(const struct timeline *tl, int i)
{
	return &tl->s[i].clock;
}

void timeline_close(struct timeline *tl)
{
	if (!tl)
		return;
	for (int i = 0; i < tl->n; i++)
		free(tl->s[i].heap);
	free(tl->s);
	free(tl);
}

int timeline_add(struct timeline *tl, struct trace_reader *t)
{
	struct source *more = realloc(tl->s, (size_t)(tl->n + 1) * sizeof(*more));
	struct moment *heap = malloc(AHEAD * sizeof(*heap));

	if (more)
		tl->s = more;
	if (!more || !heap) {
		free(heap);
		return -ENOMEM;
	}
	tl->s[tl->n] = (struct source){.t = t, .heap = heap};
	find_host(tl, tl->n++);
	return 0;
}

struct timeline *timeline_open(struct trace_reader **t, int n)
{
	struct timeline *tl = calloc(1, sizeof(*tl));
	bool ok = tl != NULL;

	for (int i = 0; ok && i < n; i++)
		ok = timeline_add(tl, t[i]) == 0;
	if (ok && n)
		ok = align(tl);
	if (!ok) {
		timeline_close(tl);
		return NULL;
	}
	for (int i = 0; i < n; i++)
		trace_rewind(t[i]);
	return tl;
}
