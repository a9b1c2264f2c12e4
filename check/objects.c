/*
 * objects.c - the program's objects, as the records of the HCA tell of them, and what is wrong
 * with them.
 *
 * Objects that were destroyed are kept for a while: a key that is used after its region is gone is
 * explained by that. Numbers are those of a device; whose is said before (check_device()).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"
#include "check/check.h"
#include "check/objects.h"
#include "check/targets.h"

#define BUCKETS	    4096
#define MANY	    8 /* registrations of the same memory */
#define ASKED	    256
#define GONE	    4096      /* objects of many that are remembered when they are gone */
#define FEW	    65536u    /* bytes, of which nobody minds that they are not used */
#define LITTLE	    4	      /* a part of what was prefetched */
#define PATIENCE    10000000u /* us of retries */
#define ENDLESS	    500000000u /* ns: nobody comes any more */
#define RNR_FOREVER 7
#define RD_ATOMICS  16 /* at a time: most adapters */

static struct check_object *bucket[BUCKETS];
/* A ring */
static struct check_object *gone[GONE];
static unsigned int n_gone;

/* struct by_app - looks for the CQ or SRQ that the program's object stands for */
struct by_app {
	enum trace_object_kind kind;
	const void *app;
	struct check_object *found;
};

/* Answers that were given before, by the program's pointer */
static struct by_app asked[ASKED];

/* Whose numbers are meant */
static uint16_t device;

void check_device(uint16_t of)
{
	device = of;
}

static struct check_object **place(uint16_t of, enum trace_object_kind kind, uint32_t id)
{
	return &bucket[splitmix_mix((uint64_t)of << 48 | (uint64_t)kind << 32 | id) %
		       BUCKETS];
}

/* The newest that had the number; it may be gone */
struct check_object *check_find_any(enum trace_object_kind kind, uint32_t id)
{
	struct check_object *o = *place(device, kind, id);

	while (o && (o->kind != kind || o->id != id || o->device != device))
		o = o->next;
	return o;
}

struct check_object *check_find(enum trace_object_kind kind, uint32_t id)
{
	struct check_object *o = check_find_any(kind, id);

	return o && !o->gone ? o : NULL;
}

struct check_object *check_find_gone(enum trace_object_kind kind, uint32_t id)
{
	struct check_object *o = check_find_any(kind, id);

	return o && o->gone ? o : NULL;
}

static bool each_object(bool (*fn)(struct check_object *o, void *arg), void *arg)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct check_object *o = bucket[i]; o; o = o->next)
			if (!o->gone && fn(o, arg))
				return true;
	return false;
}

void check_each_cq(void (*fn)(struct check_object *cq, const void *arg), const void *arg)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct check_object *o = bucket[i]; o; o = o->next)
			if (o->kind == TRACE_OBJ_CQ && !o->gone && o->cq.app)
				fn(o, arg);
}

bool check_each_xrc_srq(bool (*fn)(struct check_object *srq, void *arg), void *arg)
{
	for (unsigned int i = 0; i < BUCKETS; i++)
		for (struct check_object *o = bucket[i]; o; o = o->next)
			if (o->kind == TRACE_OBJ_SRQ && !o->gone && o->srq.xrc &&
			    fn(o, arg))
				return true;
	return false;
}

static struct check_object *make(enum trace_object_kind kind, uint32_t id, uint32_t pd)
{
	struct check_object **b = place(device, kind, id), *o = check_find_any(kind, id);

	if (!o) {
		o = calloc(1, sizeof(*o));
		if (!o)
			return NULL;
		o->next = *b;
		*b = o;
	}
	*o = (struct check_object){.kind = kind,
				   .device = device,
				   .id = id,
				   .pd = pd,
				   .queued = o->queued,
				   .made = check_stack(),
				   .next = o->next};
	return o;
}

void check_forget_objects(void)
{
	memset(bucket, 0, sizeof(bucket));
	memset(asked, 0, sizeof(asked));
	memset(gone, 0, sizeof(gone));
	check_paging_forget();
	check_remote_forget_all();
	check_targets_forget();
}

static void forget(struct check_object *o)
{
	struct check_object **p = place(o->device, o->kind, o->id);

	while (*p != o)
		p = &(*p)->next;
	*p = o->next;
	free(o);
}

/*
 * It is gone, and will be forgotten when GONE others have gone after it. Nobody has a pointer to
 * an MR, a QP or an AH that is gone; there are never many of the others.
 */
static void set_gone(struct check_object *o)
{
	struct check_object **oldest = &gone[n_gone % GONE];

	o->gone = true;
	if (o->queued || (o->kind != TRACE_OBJ_MR && o->kind != TRACE_OBJ_QP &&
			  o->kind != TRACE_OBJ_AH))
		return;
	if (*oldest && (*oldest)->gone)
		forget(*oldest);
	else if (*oldest)
		(*oldest)->queued = false;
	*oldest = o;
	o->queued = true;
	n_gone++;
}

const char *check_object_name(const struct check_object *o, char buf[64])
{
	static const char *const names[TRACE_N_OBJECTS] = {
#define X(name, text) [TRACE_OBJ_##name] = (text),
	    TRACE_OBJECTS(X)
#undef X
	};

	if (o->kind == TRACE_OBJ_MR)
		snprintf(buf, 64, "MR 0x%08x (%" PRIu64 " bytes at 0x%" PRIx64 ")", o->id,
			 o->mr.length, o->mr.addr);
	else
		snprintf(buf, 64, "%s %u", names[o->kind], o->id);
	return buf;
}

/* --- the program's pointers -------------------------------------------------------- */

static bool is_app(struct check_object *o, void *arg)
{
	struct by_app *want = arg;
	const void *app =
	    o->kind == TRACE_OBJ_CQ ? (void *)o->cq.app : (void *)o->srq.app;

	if (o->kind != want->kind || app != want->app)
		return false;
	want->found = o;
	return true;
}

static struct check_object *by_app(enum trace_object_kind kind, const void *app)
{
	struct by_app *l = &asked[splitmix_mix((uintptr_t)app) % ASKED];

	if (l->found && l->kind == kind && l->app == app && !l->found->gone &&
	    is_app(l->found, l))
		return l->found;
	*l = (struct by_app){.kind = kind, .app = app};
	each_object(is_app, l);
	return l->found;
}

struct check_object *check_cq(struct ibv_cq *cq)
{
	return by_app(TRACE_OBJ_CQ, cq);
}

struct check_object *check_srq(struct ibv_srq *srq)
{
	return by_app(TRACE_OBJ_SRQ, srq);
}

/* --- regions ----------------------------------------------------------------------- */

bool check_is_pinned(const struct check_object *mr)
{
	return !(mr->mr.access & IBV_ACCESS_ON_DEMAND);
}

/* struct same - counts registrations of the same memory */
struct same {
	const struct check_object *mr;
	unsigned int n;
};

static bool count_same(struct check_object *o, void *arg)
{
	struct same *s = arg;

	s->n += o->kind == TRACE_OBJ_MR && o->mr.addr == s->mr->mr.addr &&
		o->mr.length == s->mr->mr.length && o->made == s->mr->made;
	return false;
}

static void registered(const struct trace_rec_reg_mr *r)
{
	struct check_object *o = make(TRACE_OBJ_MR, r->mr, r->pd);
	struct same same = {.mr = o};
	char name[64];

	if (!o)
		return;
	o->mr.addr = r->addr;
	o->mr.length = r->length;
	o->mr.iova = r->iova;
	o->mr.access = r->access;
	const struct check_with here[] = {{"registered", o->made}};
	if (!check_is_pinned(o) && r->access & IBV_ACCESS_REMOTE_WRITE && !r->addr &&
	    r->length >= UINT64_MAX / 2)
		check_report(CHECK_WILDCARD_WRITE, here, 1, "%s",
			     check_object_name(o, name));
	each_object(count_same, &same);
	if (same.n == MANY)
		check_report(CHECK_REGISTERED_AGAIN, here, 1,
			     "%s is the %uth of its kind", check_object_name(o, name),
			     same.n);
}

/* The key of a region that is registered again differs in its last byte. */
static void reregistered(const struct trace_rec_rereg_mr *r)
{
	for (unsigned int low = 0; low < 256; low++) {
		struct check_object *o = check_find(TRACE_OBJ_MR, (r->mr & ~0xffu) | low);

		if (o && o->id != r->mr) {
			o->ended = check_stack();
			set_gone(o);
		}
	}
	registered(&(struct trace_rec_reg_mr){.mr = r->mr,
					      .pd = r->pd,
					      .addr = r->addr,
					      .length = r->length,
					      .iova = r->iova,
					      .access = r->access});
}

static bool busy_region(struct check_use *u, void *arg)
{
	const struct check_object *mr = arg;
	char name[64], what[96];

	if (u->lkey != mr->id || !check_is_active(u->request))
		return false;
	const struct check_with with[] = {{"deregistered", check_stack()},
					  {"posted", u->request->posted},
					  {"registered", mr->made}};
	check_report(CHECK_DEREG_IN_USE, with, 3, "%s, used by %s",
		     check_object_name(mr, name), check_request_name(u->request, what));
	return true;
}

void check_widen(struct check_span *s, uint64_t addr, uint64_t len)
{
	s->begin = s->end && s->begin < addr ? s->begin : addr;
	s->end = s->end > addr + len ? s->end : addr + len;
}

static uint64_t in_common(struct check_span a, struct check_span b)
{
	uint64_t begin = a.begin > b.begin ? a.begin : b.begin;
	uint64_t end = a.end < b.end ? a.end : b.end;

	return begin < end ? end - begin : 0;
}

/* It was brought in: did anybody come near? */
static void end_prefetch(const struct check_object *mr)
{
	const struct check_with with[] = {{"prefetched", mr->mr.prefetched},
					  {"registered", mr->made}};
	uint64_t fetched = mr->mr.fetched.end - mr->mr.fetched.begin;
	uint64_t reached = in_common(mr->mr.fetched, mr->mr.reach);
	bool any = mr->mr.used || mr->mr.remote_used;
	char name[64];

	if (any && (fetched < FEW || reached >= fetched / LITTLE))
		return;
	check_report(CHECK_PREFETCH_UNUSED, with, 2,
		     "%s: requests used a range of %" PRIu64 " of %" PRIu64 " bytes",
		     check_object_name(mr, name), reached, fetched);
}

/* Its life is over: was it of any use? */
static void end_region(const struct check_object *mr)
{
	const struct check_with with[] = {{"registered", mr->made},
					  {"deregistered", mr->ended}};
	char name[64];

	if (mr->mr.access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !mr->mr.remote_used)
		check_report(CHECK_REMOTE_UNUSED, with, mr->ended ? 2 : 1, "%s",
			     check_object_name(mr, name));
	if (mr->mr.prefetched)
		end_prefetch(mr);
}

void check_fate(struct check_object *mr, uint64_t addr, uint64_t len,
		const struct check_with *by)
{
	char name[64];

	check_widen(&mr->mr.reach, addr, len);
	if (mr->mr.fate == CHECK_KEPT || addr >= mr->mr.fate_addr + mr->mr.fate_len ||
	    addr + len <= mr->mr.fate_addr || check_ignored(addr, len))
		return;
	const struct check_with with[] = {*by,
					  {mr->mr.fate == CHECK_REMAPPED ? "unmapped or "
									   "replaced"
									 : "discarded",
					   mr->mr.fate_at},
					  {"registered", mr->made}};
	check_report(mr->mr.fate == CHECK_REMAPPED ? CHECK_PINNED_REMAPPED
						   : CHECK_PINNED_DISCARDED,
		     with, 3, "%" PRIu64 " bytes at 0x%" PRIx64 " of %s", len, addr,
		     check_object_name(mr, name));
}

/* struct change - of the program's memory */
struct change {
	enum check_fate fate;
	uint64_t addr, len;
};

static bool change_region(struct check_object *o, void *arg)
{
	const struct change *c = arg;

	if (o->kind != TRACE_OBJ_MR || !check_is_pinned(o) ||
	    o->mr.addr >= c->addr + c->len || c->addr >= o->mr.addr + o->mr.length)
		return false;
	o->mr.fate = c->fate;
	o->mr.fate_addr = c->addr;
	o->mr.fate_len = c->len;
	o->mr.fate_at = check_stack();
	return false;
}

void check_memory_changed(enum checker_change what, uint64_t addr, uint64_t len)
{
	struct change c = {what == CHECKER_DISCARD ? CHECK_DISCARDED : CHECK_REMAPPED,
			   addr, len};

	each_object(change_region, &c);
}

/* --- fork -------------------------------------------------------------------------- */

static bool loses_pages(struct check_object *o, void *arg)
{
	const struct check_stack *here = arg;
	char name[64];

	if (o->kind != TRACE_OBJ_MR || !check_is_pinned(o) || !o->mr.length ||
	    check_kept_from_children(o->mr.addr, o->mr.length) || check_fork_is_safe())
		return false;
	const struct check_with with[] = {{"forked", here}, {"registered", o->made}};
	check_report(CHECK_FORK_PINNED, with, 2, "%s", check_object_name(o, name));
	return true;
}

void check_fork(void)
{
	each_object(loses_pages, (void *)check_stack());
}

/* --- QPs --------------------------------------------------------------------------- */

static void created_qp(const struct trace_rec_create_qp *r)
{
	struct check_object *o = r->result ? NULL : make(TRACE_OBJ_QP, r->qpn, r->pd);

	if (!o)
		return;
	o->qp.send_cq = check_find(TRACE_OBJ_CQ, r->send_cq);
	o->qp.recv_cq = check_find(TRACE_OBJ_CQ, r->recv_cq);
	o->qp.srq = r->srq ? check_find(TRACE_OBJ_SRQ, r->srq) : NULL;
	o->qp.type = (enum ibv_qp_type)r->type;
	o->qp.sig_all = r->sig_all;
	o->qp.max_send = r->max_send_wr;
	if (!o->qp.srq)
		return;
	o->qp.srq->srq.users++;
	if (!o->qp.srq->srq.cq && !o->qp.srq->srq.mixed) {
		o->qp.srq->srq.cq = o->qp.recv_cq;
		if (o->qp.recv_cq)
			o->qp.recv_cq->cq.pending += o->qp.srq->srq.rq.n;
	} else if (o->qp.srq->srq.cq && o->qp.srq->srq.cq != o->qp.recv_cq) {
		o->qp.srq->srq.cq->cq.pending -= o->qp.srq->srq.rq.n;
		o->qp.srq->srq.cq = NULL;
		o->qp.srq->srq.mixed = true;
	}
}

/* How long nothing is said of a peer that is gone */
static void retries(struct check_object *qp, const struct trace_rec_modify_qp *r)
{
	const struct check_with here[] = {{"modified", check_stack()}};
	uint64_t us;

	if (!(r->mask & (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT)))
		return;
	if (r->mask & IBV_QP_TIMEOUT)
		qp->qp.timeout = r->timeout;
	if (r->mask & IBV_QP_RETRY_CNT)
		qp->qp.retries = r->retry_cnt;
	/* IBTA 9.7.6.1.3: 4.096 us * 2^timeout, before each of the retries and after the last */
	us = (4096ull << qp->qp.timeout) / 1000 * (qp->qp.retries + 1u);
	if (qp->qp.timeout && us > PATIENCE)
		check_report(CHECK_RETRY_LONG, here, 1,
			     "QP %u: timeout %u and retry_cnt %u are %" PRIu64 " s",
			     qp->id, qp->qp.timeout, qp->qp.retries, us / 1000000);
}

static void modified_qp(const struct trace_rec_modify_qp *r)
{
	struct check_object *qp = check_find(TRACE_OBJ_QP, r->qpn);
	const struct check_with here[] = {{"modified", check_stack()}};

	if (!qp || r->result)
		return;
	if (r->mask & IBV_QP_DEST_QPN)
		qp->qp.peer = r->peer;
	if (r->mask & IBV_QP_STATE) {
		qp->qp.state = (enum ibv_qp_state)r->to;
		qp->qp.failed_at = NULL; /* the program knows */
		if (r->to == IBV_QPS_RESET) {
			qp->qp.any_psn = false;
			check_remote_forget(qp);
			check_drop(qp);
		}
	}
	if (r->mask & IBV_QP_RNR_RETRY)
		qp->qp.rnr_retry = r->rnr_retry;
	retries(qp, r);
	if (r->mask & IBV_QP_TIMEOUT && !r->timeout)
		check_report(CHECK_TIMEOUT_INFINITE, here, 1, "QP %u", r->qpn);
	if ((r->mask & IBV_QP_MAX_QP_RD_ATOMIC && r->max_rd_atomic > RD_ATOMICS) ||
	    (r->mask & IBV_QP_MAX_DEST_RD_ATOMIC && r->max_dest_rd_atomic > RD_ATOMICS))
		check_report(CHECK_RD_ATOMIC_MANY, here, 1,
			     "QP %u: max_rd_atomic %u, max_dest_rd_atomic %u", r->qpn,
			     r->max_rd_atomic, r->max_dest_rd_atomic);
}

static void led_to(const struct trace_rec_qp_path *r)
{
	struct check_object *qp = check_find(TRACE_OBJ_QP, r->qpn);

	if (qp)
		qp->qp.at = r->remote;
}

static void end_qp(struct check_object *qp)
{
	unsigned int n = 0;
	const struct check_request *first = NULL;
	char what[96];

	for (const struct check_request *r = qp->qp.sq.first; r; r = r->next)
		if (r->in_error) {
			first = first ? first : r;
			n++;
		}
	for (const struct check_request *r = qp->qp.rq.first; r; r = r->next)
		if (r->in_error) {
			first = first ? first : r;
			n++;
		}
	if (first) {
		const struct check_with with[] = {{"posted", first->posted},
						  {"destroyed", qp->ended}};
		check_report(CHECK_FLUSH_UNPOLLED, with, 2, "%u requests, the first %s",
			     n, check_request_name(first, what));
	}
	if (qp->qp.srq && qp->qp.srq->srq.users)
		qp->qp.srq->srq.users--;
	if (qp->qp.rnr_since)
		check_late_receive(qp, &qp->qp.rnr_since, &qp->qp.rnrs, NULL);
	check_remote_forget(qp);
	check_drop(qp);
}

/* --- destruction -------------------------------------------------------------------- */

static void end_object(struct check_object *o)
{
	o->ended = check_stack();
	o->gone = true;
	switch (o->kind) {
	case TRACE_OBJ_MR:
		check_uses_in(o->mr.addr, o->mr.length, busy_region, o);
		end_region(o);
		break;
	case TRACE_OBJ_QP:
		end_qp(o);
		break;
	case TRACE_OBJ_SRQ:
		check_drop(o);
		break;
	default: /* the others have nothing of their own */
		break;
	}
	set_gone(o);
}

/* struct holder - looks for what depends on @o */
struct holder {
	const struct check_object *o;
	struct check_object *found;
};

static bool holds(struct check_object *o, void *arg)
{
	struct holder *h = arg;
	bool yes = false;

	if (o->device != h->o->device)
		return false;
	if (h->o->kind == TRACE_OBJ_PD)
		yes = o->pd == h->o->id && o->kind != TRACE_OBJ_PD &&
		      o->kind != TRACE_OBJ_CQ;
	else if (o->kind == TRACE_OBJ_QP)
		yes = o->qp.send_cq == h->o || o->qp.recv_cq == h->o || o->qp.srq == h->o;
	if (yes)
		h->found = o;
	return yes;
}

static void busy(const struct check_object *o, int result)
{
	struct holder h = {.o = o};
	char name[64], other[64];

	each_object(holds, &h);
	const struct check_with with[] = {
	    {"destroyed", check_stack()},
	    {"made", o->made},
	    {"what depends on it was made", h.found ? h.found->made : NULL}};
	check_report(CHECK_DESTROY_BUSY, with, h.found ? 3 : 2, "%s: %s%s%s",
		     check_object_name(o, name), strerror(-result),
		     h.found ? ", because of " : "",
		     h.found ? check_object_name(h.found, other) : "");
}

static void verb(const struct trace_rec_verb *r)
{
	enum trace_object_kind kind = (enum trace_object_kind)r->object;
	struct check_object *o = NULL;

	if (r->verb == TRACE_VERB_CREATE && !r->result) {
		o = make(kind, r->id, r->parent);
		if (o && kind == TRACE_OBJ_CQ)
			o->cq.size = r->size;
		return;
	}
	o = check_find(kind, r->id);
	if (!o)
		return;
	if (r->verb == TRACE_VERB_RESIZE && kind == TRACE_OBJ_CQ)
		o->cq.size = r->size;
	if (r->verb == TRACE_VERB_DESTROY && r->result)
		busy(o, r->result);
	else if (r->verb == TRACE_VERB_DESTROY)
		end_object(o);
}

static void taken(const struct trace_rec_take_receive *r)
{
	struct check_object *qp = check_find(TRACE_OBJ_QP, r->qpn);
	struct check_object *srq = r->srq ? check_find(TRACE_OBJ_SRQ, r->srq) : NULL;

	if (srq)
		srq->srq.taken++;
	else if (qp)
		qp->qp.taken++;
	if (qp)
		qp->qp.held = true;
	check_program_acts(); /* or the peer, for which it is the same */
	if (srq || qp)
		check_taken(srq ? srq : qp, r->wr_id);
}

static void completed(const struct trace_rec_completion *r)
{
	struct check_object *cq = check_find(TRACE_OBJ_CQ, r->cq);
	struct check_object *qp = check_find(TRACE_OBJ_QP, r->qpn);

	if (cq)
		cq->cq.produced++;
	if (qp && r->receive)
		qp->qp.held = false;
	else if (qp)
		qp->qp.peer_late_since = 0;
}

/* Do all that are outstanding take a receive request? Others are asked to wait for pages only. */
static bool all_need_receives(const struct check_request *r)
{
	for (; r; r = r->next)
		if (r->opcode != IBV_WR_SEND && r->opcode != IBV_WR_SEND_WITH_IMM &&
		    r->opcode != IBV_WR_SEND_WITH_INV &&
		    r->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
			return false;
	return true;
}

/* The peer of @r's QP has said that it has no receive request. */
static void refused_by_peer(uint64_t now, const struct trace_rec_nak_in *r)
{
	struct check_object *qp = check_find(TRACE_OBJ_QP, r->qpn);
	const struct check_request *first = qp ? qp->qp.sq.first : NULL;
	char what[96];

	if (!first || !check_is_rnr(r->syndrome) || qp->qp.rnr_retry != RNR_FOREVER ||
	    !all_need_receives(first))
		return;
	if (!qp->qp.peer_late_since)
		qp->qp.peer_late_since = now;
	if (now - qp->qp.peer_late_since < ENDLESS)
		return;
	const struct check_with with[] = {{"posted", first->posted},
					  {"QP made", qp->made}};
	check_report(CHECK_RNR_ENDLESS, with, 2, "%s", check_request_name(first, what));
	qp->qp.peer_late_since = 0;
	qp->qp.rnr_retry = 0; /* told */
}

static void state_changed(uint32_t qpn, uint8_t to)
{
	struct check_object *qp = check_find(TRACE_OBJ_QP, qpn);

	if (!qp)
		return;
	qp->qp.state = (enum ibv_qp_state)to;
	if (to == IBV_QPS_ERR || to == IBV_QPS_RESET)
		check_remote_forget(qp);
}

void check_record(uint16_t of, uint64_t now, enum trace_kind kind,
		  const uint64_t *payload)
{
	const void *p = payload;

	check_device(of);
	switch ((unsigned int)kind) {
	case TRACE_KIND_reg_mr:
		if (!((const struct trace_rec_reg_mr *)p)->result)
			registered(p);
		break;
	case TRACE_KIND_rereg_mr:
		reregistered(p);
		break;
	case TRACE_KIND_create_qp:
		created_qp(p);
		break;
	case TRACE_KIND_modify_qp:
		modified_qp(p);
		break;
	case TRACE_KIND_verb:
	case TRACE_KIND_verb_failed:
		verb(p);
		break;
	case TRACE_KIND_qp_state:
	case TRACE_KIND_qp_failed:
		state_changed(((const struct trace_rec_qp_state *)p)->qpn,
			      ((const struct trace_rec_qp_state *)p)->to);
		break;
	case TRACE_KIND_completion:
	case TRACE_KIND_completion_error:
		completed(p);
		break;
	case TRACE_KIND_take_receive:
		taken(p);
		break;
	case TRACE_KIND_qp_path:
		led_to(p);
		break;
	case TRACE_KIND_packet_in:
		check_peer_request(p);
		break;
	case TRACE_KIND_packet_out:
		check_answered(p);
		break;
	case TRACE_KIND_nak_in:
		refused_by_peer(now, p);
		break;
	case TRACE_KIND_nak_out:
		check_refused(now, p);
		break;
	default:
		check_paging(kind, p);
		break;
	}
}

/* --- leaks --------------------------------------------------------------------------- */

/* struct leaks - where objects are left behind */
struct leaks {
	enum check_id id;
	struct check_with here;
	uint16_t device;
};

static bool leaked(struct check_object *o, void *arg)
{
	const struct leaks *l = arg;
	const struct check_with with[] = {{"made", o->made}, l->here};
	char name[64];

	if (o->told || o->kind == TRACE_OBJ_DEVICE ||
	    (l->id == CHECK_LEAK_AT_CLOSE && o->device != l->device))
		return false;
	o->told = true;
	check_report(l->id, with, l->here.stack ? 2 : 1, "%s",
		     check_object_name(o, name));
	if (o->kind == TRACE_OBJ_MR)
		end_region(o);
	if (o->kind == TRACE_OBJ_QP)
		end_qp(o);
	/* what the kernel does with it then is nobody's fault any more */
	o->gone = l->id == CHECK_LEAK_AT_CLOSE;
	return false;
}

void check_leaks_at_exit(void)
{
	struct leaks l = {.id = CHECK_LEAK_AT_EXIT};

	each_object(leaked, &l);
}

void check_leaks_at_close(const struct check_stack *here)
{
	struct leaks l = {CHECK_LEAK_AT_CLOSE, {"closed", here}, device};

	each_object(leaked, &l);
}
