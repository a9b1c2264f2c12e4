/*
 * findings_internal.h - the summaries of a trace, which findings.c makes of its records, and
 * findings_say.c of which sentences are made.
 */
#ifndef URXE_TOOLS_FINDINGS_INTERNAL_H
#define URXE_TOOLS_FINDINGS_INTERNAL_H

#include <uthash.h>

#include "tools/findings.h"

#define OPEN_REQUESTS 4096 /* posts remembered of a QP, those before are forgotten */

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

static inline void count(struct since *s, uint64_t time, uint64_t ns)
{
	if (!s->count++)
		s->first = time;
	s->last = time;
	s->ns += ns;
}

static inline uint64_t since(uint64_t then, uint64_t now)
{
	return then && then < now ? now - then : 0;
}

static inline const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static inline const char *word(enum trace_unit unit, uint64_t v)
{
	const char *name = trace_name(unit, v);

	return name ? name : "unknown";
}

/* findings.c */
/* A sentence about trace @from; it can be appended to */
struct finding *findings_say(struct findings *f, enum finding_level level, int from,
			     uint64_t time, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));
void findings_append(char *text, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The program that trace @from is of */
const char *findings_who(const struct findings *f, int from, char buf[96]);
/* The QP at the other end, if its process was traced too */
struct qp *findings_other_end(struct findings *f, const struct qp *q);

/* findings_say.c: all that the summaries tell */
void findings_say_all(struct findings *f);

#endif
