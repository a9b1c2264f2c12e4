/*
 * remote.c - what peers do to this process: which memory their requests reach, why they are refused,
 * and that no receive request was there for them.
 *
 * Theory of operation
 *
 * A peer's WRITE or atomic is open from its first packet until the acknowledge of its last one
 * leaves. Who wants to put another one behind it must have seen that acknowledge; so two that are open
 * together, of different QPs, have no order, whatever else the peers have told each other. Of
 * unreliable QPs nothing is acknowledged and nothing known. Packets that came before are no
 * news.
 *
 * Of a word of atomics is kept what was in it when the answer left. If something else is there when
 * the next request comes, and no peer has written, the program has. That may be right, if
 * the peers were told to wait: so it must happen more than once, between requests that follow each other
 * faster than anybody could have been told, and without a post of the program.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"
#include "check/check.h"
#include "check/objects.h"
#include "check/reads.h"
#include "check/targets.h"

/* --- the wire ----------------------------------------------------------------------- */

#define OPEN  64
#define WORDS 64
#define STALE                                                                            \
	10000000u /* ns: who waits longer for the rest of a WRITE has lost the peer */
#define TOO_FAST 25000u /* ns in which nobody can have been told anything */
#define STORES	 3	/* to a word of atomics: it is no accident */

/* IBTA table 35: without the transport, which is in the upper three bits */
enum {
	SEND_FIRST = 0x00,
	SEND_LAST = 0x02,
	SEND_LAST_IMM = 0x03,
	SEND_ONLY = 0x04,
	SEND_ONLY_IMM = 0x05,
	WRITE_FIRST = 0x06,
	WRITE_LAST = 0x08,
	WRITE_LAST_IMM = 0x09,
	WRITE_ONLY = 0x0a,
	WRITE_ONLY_IMM = 0x0b,
	READ_REQUEST = 0x0c,
	COMPARE_SWAP = 0x13,
	FETCH_ADD = 0x14,
	SEND_LAST_INV = 0x16,
	SEND_ONLY_INV = 0x17,
	OPERATION = 0x1f,
};

/*
 * struct write - of a peer, to @mr by @qp; @takes: it may take a receive request; @told: it was
 * found
 */
struct write {
	const struct check_object *mr, *qp;
	bool takes, told;
};

/* It tells by immediate data that it has come: the request that it takes gets no data. */
static bool is_taken_by(const struct check_request *r, const struct write *w)
{
	const struct check_object *q = w->qp->qp.srq ? w->qp->qp.srq : w->qp;

	return w->takes && r->receive && r->qp == q &&
	       r == (w->qp->qp.srq ? q->srq.rq.first : q->qp.rq.first);
}

static bool meets_use(struct check_use *u, void *arg)
{
	struct write *w = arg;
	const struct check_object *mr = w->mr;
	char name[64], what[96];

	u->shared = true;
	if (w->told || !check_is_active(u->request) || is_taken_by(u->request, w) ||
	    check_ignored(u->addr, u->len))
		return false;
	const struct check_with with[] = {{"posted", u->request->posted},
					  {"registered for the peer", mr->made}};
	check_report(CHECK_REMOTE_WRITE_IN_USE, with, 2, "%s, used by %s",
		     check_object_name(mr, name), check_request_name(u->request, what));
	w->told = true;
	return false;
}

/* --- without an order ---------------------------------------------------------------- */

/*
 * struct open_write - a WRITE to @mr, or an atomic, that is not acknowledged
 * @last:	PSN of its last packet, if @whole: that has come
 * @since:	when it began
 */
struct open_write {
	const struct check_object *qp, *mr;
	uint64_t addr, len, since;
	uint32_t last;
	bool whole, atomic;
};

static struct open_write open_writes[OPEN];
static unsigned int n_open;
/* QPs that write to this process; with a single one there is nothing to compare */
static const struct check_object *last_writer;
static bool many_writers;

static bool is_before(uint32_t psn, uint32_t other)
{
	return (int32_t)((psn - other) << 8) < 0;
}

static void close_write(unsigned int i)
{
	open_writes[i] = open_writes[--n_open];
}

/* @psn and all before it are acknowledged */
static void acknowledged(const struct check_object *qp, uint32_t psn)
{
	for (unsigned int i = n_open; i-- > 0;)
		if (open_writes[i].qp == qp && open_writes[i].whole &&
		    !is_before(psn, open_writes[i].last))
			close_write(i);
}

void check_remote_forget(const struct check_object *qp)
{
	for (unsigned int i = n_open; i-- > 0;)
		if (open_writes[i].qp == qp)
			close_write(i);
	if (last_writer == qp)
		last_writer = NULL;
}

static void compare_open(const struct open_write *w, const struct check_object *mr)
{
	for (unsigned int i = 0; i < n_open; i++) {
		const struct open_write *o = &open_writes[i];
		const struct check_with with[] = {{"registered for the peers", mr->made},
						  {"one QP made", o->qp->made},
						  {"the other made", w->qp->made}};
		char name[64];

		if (o->qp == w->qp || (o->atomic && w->atomic) ||
		    o->addr >= w->addr + w->len || w->addr >= o->addr + o->len ||
		    (!o->whole && w->since - o->since > STALE) ||
		    check_ignored(w->addr, w->len))
			continue;
		check_report(CHECK_REMOTE_UNORDERED, with, 3,
			     "%s: %" PRIu64 " bytes at 0x%" PRIx64
			     " by the peer of QP %u, %" PRIu64 " at 0x%" PRIx64
			     " by that of QP %u",
			     check_object_name(mr, name), o->len, o->addr, o->qp->id,
			     w->len, w->addr, w->qp->id);
		return;
	}
}

/* The oldest makes room. */
static void open_write(const struct open_write *w, const struct check_object *mr)
{
	many_writers |= last_writer && last_writer != w->qp;
	last_writer = w->qp;
	if (many_writers)
		compare_open(w, mr);
	if (n_open == OPEN)
		close_write(0);
	open_writes[n_open++] = *w;
}

/* The last packet of what @qp has open */
static void came_whole(const struct check_object *qp, uint32_t psn)
{
	for (unsigned int i = n_open; i-- > 0;)
		if (open_writes[i].qp == qp && !open_writes[i].whole) {
			open_writes[i].whole = true;
			open_writes[i].last = psn;
		}
}

/*
 * A message of @qp comes while its peer's WRITE by another QP is not acknowledged: it tells nothing of
 * that one.
 */
static void message_beside(struct check_object *qp)
{
	for (unsigned int i = 0; i < n_open; i++) {
		const struct open_write *o = &open_writes[i];

		if (o->qp == qp || o->atomic || !check_is_same_peer(o->qp, qp))
			continue;
		qp->qp.told = (struct check_span){o->addr, o->addr + o->len};
		qp->qp.told_mr = o->mr;
		return;
	}
}

/* --- words of atomics ------------------------------------------------------------------ */

/*
 * struct word - that peers use with atomics
 * @value:	when the answer to @psn of @qp left, at @at, if @known
 * @activity:	of the program, then; @stores: how often it has changed
 */
struct word {
	uint64_t addr, value, at;
	const struct check_object *qp;
	uint32_t psn;
	unsigned int activity, stores;
	bool known;
};

static struct word words[WORDS];
static bool any_word;
static unsigned int activity;

void check_program_acts(void)
{
	activity++;
}

static struct word *word_at(uint64_t addr)
{
	return &words[splitmix_mix(addr) % WORDS];
}

static bool read_word(uint64_t addr, uint64_t *value)
{
	return !urxe_checker_copy(value, (const void *)addr, sizeof(*value));
}

static void stored(struct word *w, const struct check_object *mr)
{
	const struct check_with with[] = {{"registered for the peers", mr->made}};
	char name[64];

	if (++w->stores == STORES && !check_ignored(w->addr, sizeof(w->value)))
		check_report(CHECK_ATOMIC_STORED, with, 1,
			     "the word at 0x%" PRIx64
			     " of %s, by the program and by the peer of QP %u",
			     w->addr, check_object_name(mr, name), w->qp->id);
}

static void atomic_comes(uint64_t addr, uint32_t psn, const struct check_object *qp,
			 const struct check_object *mr)
{
	struct word *w = word_at(addr);
	uint64_t value;

	if (w->addr != addr)
		*w = (struct word){.addr = addr};
	if (w->known && w->qp == qp && w->activity == activity &&
	    check_now() - w->at < TOO_FAST && read_word(addr, &value) &&
	    value != w->value)
		stored(w, mr);
	w->known = false;
	w->qp = qp;
	w->psn = psn;
	any_word = true;
}

static void atomic_answered(const struct check_object *qp, uint32_t psn)
{
	for (unsigned int i = 0; i < WORDS; i++) {
		struct word *w = &words[i];

		if (!w->addr || w->qp != qp || w->psn != psn)
			continue;
		w->known = read_word(w->addr, &w->value);
		w->at = check_now();
		w->activity = activity;
	}
}

/* The HCA writes there for another reason. */
static void written_over(uint64_t addr, uint64_t len)
{
	for (unsigned int i = 0; i < WORDS && any_word; i++)
		if (words[i].addr < addr + len && addr < words[i].addr + 8)
			words[i].known = false;
}

void check_remote_forget_all(void)
{
	n_open = 0;
	last_writer = NULL;
	many_writers = any_word = false;
	memset(words, 0, sizeof(words));
}

bool check_is_answer(const struct trace_rec_packet_out *r)
{
	uint8_t op = r->opcode & OPERATION;

	return op > READ_REQUEST && op < COMPARE_SWAP;
}

void check_answered(const struct trace_rec_packet_out *r)
{
	struct check_object *qp;

	if (!n_open && !any_word)
		return;
	qp = check_find(TRACE_OBJ_QP, r->qpn);
	if (!qp)
		return;
	acknowledged(qp, r->psn);
	if (any_word)
		atomic_answered(qp, r->psn);
}

/* --- requests -------------------------------------------------------------------------- */

static bool is_begin(uint8_t opcode)
{
	switch (opcode & OPERATION) {
	case WRITE_FIRST:
	case WRITE_ONLY:
	case WRITE_ONLY_IMM:
	case READ_REQUEST:
	case COMPARE_SWAP:
	case FETCH_ADD:
		return true;
	default:
		return false;
	}
}

static uint64_t length_of(const struct trace_rec_packet_in *r)
{
	return (r->opcode & OPERATION) >= COMPARE_SWAP ? 8 : r->dma_length;
}

/* With the packet that came last a message is complete, of which the program is told. */
static bool ends_message(const struct check_object *qp)
{
	switch (qp->qp.last) {
	case SEND_LAST:
	case SEND_LAST_IMM:
	case SEND_ONLY:
	case SEND_ONLY_IMM:
	case SEND_LAST_INV:
	case SEND_ONLY_INV:
	case WRITE_LAST_IMM:
	case WRITE_ONLY_IMM:
		return true;
	default:
		return false;
	}
}

/* A packet that came before is no news. */
static bool is_again(struct check_object *qp, uint32_t psn)
{
	bool again = qp->qp.any_psn && !is_before(qp->qp.psn, psn);

	if (!again)
		qp->qp.psn = psn;
	qp->qp.any_psn = true;
	return again;
}

/* A request of @qp's peer changes @len bytes at @addr. */
static void peer_changes(struct check_object *qp, const struct check_object *mr,
			 uint64_t addr, uint64_t len, uint32_t psn)
{
	bool atomic = qp->qp.opcode >= COMPARE_SWAP;
	/* of several packets only the last one tells */
	struct write w = {mr, qp,
			  qp->qp.opcode == WRITE_ONLY_IMM || qp->qp.opcode == WRITE_FIRST,
			  false};

	check_uses_in(addr, len, meets_use, &w);
	if (!atomic)
		check_reads_peer(mr, addr, len);
	if (qp->qp.type == IBV_QPT_UC || is_again(qp, psn))
		return;
	if (atomic && addr % 8 == 0)
		atomic_comes(addr, psn, qp, mr);
	else
		written_over(addr, len);
	open_write(&(struct open_write){.qp = qp,
					.mr = mr,
					.addr = addr,
					.len = len,
					.since = check_now(),
					.last = psn,
					.whole = qp->qp.opcode != WRITE_FIRST,
					.atomic = atomic},
		   mr);
}

void check_peer_request(const struct trace_rec_packet_in *r)
{
	struct check_object *qp = check_find(TRACE_OBJ_QP, r->qpn), *mr;
	uint64_t addr, len = length_of(r);

	if (!qp)
		return;
	qp->qp.last = r->opcode & OPERATION;
	if (qp->qp.last == WRITE_LAST || qp->qp.last == WRITE_LAST_IMM)
		came_whole(qp, r->psn);
	if (ends_message(qp))
		message_beside(qp);
	if (!is_begin(r->opcode))
		return;
	qp->qp.va = r->va;
	qp->qp.rkey = r->rkey;
	qp->qp.length = (uint32_t)len;
	qp->qp.opcode = r->opcode & OPERATION;
	mr = len ? check_find(TRACE_OBJ_MR, r->rkey) : NULL;
	if (!mr || r->va < mr->mr.iova || r->va - mr->mr.iova > mr->mr.length ||
	    len > mr->mr.length - (r->va - mr->mr.iova))
		return;
	mr->mr.remote_used = true;
	addr = mr->mr.addr + (r->va - mr->mr.iova);
	check_fate(mr, addr, len, &(struct check_with){"a peer used it", NULL});
	if (qp->qp.opcode != READ_REQUEST)
		peer_changes(qp, mr, addr, len, r->psn);
}

static bool gives_right(const struct check_object *mr, uint8_t opcode)
{
	unsigned int need = opcode == READ_REQUEST   ? IBV_ACCESS_REMOTE_READ
			    : opcode >= COMPARE_SWAP ? IBV_ACCESS_REMOTE_ATOMIC
						     : IBV_ACCESS_REMOTE_WRITE;

	return mr->mr.access & need;
}

static void refused_peer(const struct check_object *qp)
{
	struct check_object *mr = check_find_any(TRACE_OBJ_MR, qp->qp.rkey);
	const struct check_with with[] = {{"registered", mr ? mr->made : NULL},
					  {"QP made", qp->made},
					  {"deregistered", mr ? mr->ended : NULL}};
	char name[64];

	if (!mr || mr->gone)
		check_report(CHECK_RKEY_CLOSED, mr ? with : with + 1, mr ? 3 : 1,
			     "key 0x%08x, %u bytes at 0x%" PRIx64
			     ", by the peer of QP %u%s%s",
			     qp->qp.rkey, qp->qp.length, qp->qp.va, qp->id,
			     mr ? ", was " : "", mr ? check_object_name(mr, name) : "");
	else if (qp->qp.va < mr->mr.iova ||
		 qp->qp.va + qp->qp.length > mr->mr.iova + mr->mr.length)
		check_report(CHECK_REMOTE_OUTSIDE_MR, with, 2,
			     "%u bytes at offset %" PRId64 " of %s, by the peer of QP %u",
			     qp->qp.length, (int64_t)(qp->qp.va - mr->mr.iova),
			     check_object_name(mr, name), qp->id);
	else if (!gives_right(mr, qp->qp.opcode))
		check_report(CHECK_REMOTE_RIGHT_MISSING, with, 2,
			     "%s with access 0x%x, by the peer of QP %u",
			     check_object_name(mr, name), mr->mr.access, qp->id);
}

/* Why the responder refused: IBTA table 44 */
enum { SYNDROME_TYPE = 0xe0, SYNDROME_RNR = 0x20, SYNDROME_ACCESS = 0x62 };

bool check_is_rnr(uint8_t syndrome)
{
	return (syndrome & SYNDROME_TYPE) == SYNDROME_RNR;
}

/* Does the packet that came last need a receive request? */
static bool needs_receive(const struct check_object *qp)
{
	switch (qp->qp.last) {
	case SEND_FIRST:
	case SEND_ONLY:
	case SEND_ONLY_IMM:
	case SEND_ONLY_INV:
	case WRITE_LAST_IMM:
	case WRITE_ONLY_IMM:
		return true;
	default:
		return false;
	}
}

void check_refused(uint64_t now, const struct trace_rec_nak_out *r)
{
	struct check_object *qp = check_find(TRACE_OBJ_QP, r->qpn), *srq;

	if (!qp)
		return;
	check_remote_forget(qp);
	srq = qp->qp.srq;
	if (r->syndrome == SYNDROME_ACCESS)
		refused_peer(qp);
	/* with a request, or without need of one, it waits for something else: a page */
	if (!check_is_rnr(r->syndrome) || qp->qp.held || !needs_receive(qp))
		return;
	if (srq && srq->srq.rq.n <= srq->srq.taken) {
		srq->srq.rnr_since = srq->srq.rnr_since ? srq->srq.rnr_since : now;
		srq->srq.rnrs++;
	} else if (!srq && qp->qp.rq.n <= qp->qp.taken) {
		qp->qp.rnr_since = qp->qp.rnr_since ? qp->qp.rnr_since : now;
		qp->qp.rnrs++;
	}
}
