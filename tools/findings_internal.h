/*
 * findings_internal.h - the summaries that records change (findings.c) and sentences are made
 * from (findings_say.c).
 */
#ifndef URXE_TOOLS_FINDINGS_INTERNAL_H
#define URXE_TOOLS_FINDINGS_INTERNAL_H

#include <uthash.h>

#include "tools/findings.h"

#define OPEN_REQUESTS 4096 /* posts remembered of a QP, those before are forgotten */
#define MAX_EVENTS    64   /* records of a kind that become sentences */

/* struct since - how often, since when, how long in all */
struct since {
	uint64_t count, first, last, ns;
};

/*
 * struct open - a request that is posted and not complete; @waited: see struct qp; @signaled: it
 * asked for a completion, the others are complete with the next that did
 */
struct open {
	uint64_t wr_id, time, waited[3];
	uint8_t opcode;
	bool signaled;
};

/* What a request can wait for, the index of struct qp.waited */
enum { WAIT_RNR, WAIT_RETRY, WAIT_FAULT, N_WAITS };

/*
 * struct qp - the summary of a QP
 * @state:	the last one; @sig_all: each of its requests asks for a completion
 * @rnr:	NAKs of the peer that it was not ready; @rnr_since: it waits for that, 0: not
 * @rnr_requests: requests that had to wait, those posted before number @rnr_until are counted
 * @rnr_sent:	own ones; @taken: receive requests taken, @first_after: when the first was after
 *		the first of these NAKs, @posted_after: when the first was posted after it
 * @receives:	posts of receive requests, to its own queue or to @srq
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
	uint64_t rnr_since, rnr_requests, rnr_until, taken, first_after, posted_after;
	uint64_t receives;
	uint32_t srq;
	bool sig_all;
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

/* struct event - a record that is a sentence as it stands */
struct event {
	enum finding_level level;
	struct moment m;
};

/*
 * struct findings
 * @list:	the sentences; @nowhere: one that there is no memory for
 * @event:	records that become sentences
 * @first, @last: times of the trace, if there is @any record
 * @told:	records by kind that became an event
 * @stray:	packets thrown away that belong to no QP, the last in trace @stray_from
 */
struct findings {
	struct trace_reader **t;
	const struct timeline *tl;
	int n;
	struct qp *qp;
	struct mr *mr;
	struct finding *list, nowhere;
	struct event *event;
	size_t n_list, room, n_events, room_events;
	bool any;
	uint64_t first, last;
	uint64_t told[TRACE_N_KINDS];
	struct since stray[TRACE_N_DROPS];
	int stray_from;
};

/* From @then to @now, 0 if that is no time */
static inline uint64_t findings_span(uint64_t then, uint64_t now)
{
	return then && then < now ? now - then : 0;
}

#endif
