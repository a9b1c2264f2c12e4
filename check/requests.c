/*
 * requests.c - requests from the post to the poll, and the memory that they use meanwhile.
 *
 * Theory of operation
 *
 * A post enters a request at the end of its queue. A send completion that is polled takes out
 * all up to its own request: those before it are done, too, and made no completion. A
 * receive completion takes out the first request with its wr_id, which is the first of a
 * receive queue, and any of a shared one. What the HCA has done, and that a slot of its ring is
 * free, does not count: the program cannot know it.
 *
 * What a request sends is hashed when it is posted, and when its completion is polled.
 */
#include <inttypes.h>
#include <isa-l/crc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/objects.h"
#include "check/reads.h"
#include "check/targets.h"

#define HASH_ALL    (1u << 20) /* what is longer is hashed at its ends only */
#define HASH_END    (64u << 10)
#define DATAGRAM    (40u + 4096u)
#define CHUNK	    4096u
#define MANY_SHARED 64
#define OPCODES	    16

static struct check_request *unused;
static bool all_shared;

/* struct sharing - a use that meets @n others */
struct sharing {
	struct check_use *u;
	unsigned int n;
};

/* --- lists -------------------------------------------------------------------------- */

static struct check_queue *queue_of(struct check_object *o, bool receive)
{
	if (o->kind == TRACE_OBJ_SRQ)
		return &o->srq.rq;
	if (!receive)
		return &o->qp.sq;
	return o->qp.srq ? &o->qp.srq->srq.rq : &o->qp.rq;
}

static struct check_object *cq_of(const struct check_object *o, bool receive)
{
	if (o->kind == TRACE_OBJ_SRQ)
		return o->srq.cq;
	return receive ? o->qp.recv_cq : o->qp.send_cq;
}

static struct check_request *new_request(unsigned int n_uses)
{
	struct check_request *r = unused;

	if (r)
		unused = r->next;
	else
		r = malloc(sizeof(*r));
	if (!r)
		return NULL;
	*r = (struct check_request){.n_uses = n_uses};
	r->use = n_uses ? calloc(n_uses, sizeof(*r->use)) : NULL;
	if (n_uses && !r->use)
		r->n_uses = 0;
	return r;
}

static void free_request(struct check_request *r)
{
	check_reads_end(r);
	for (unsigned int i = 0; i < r->n_uses; i++)
		check_use_del(&r->use[i]);
	free(r->use);
	check_target_del(r);
	r->next = unused;
	unused = r;
}

static void append(struct check_queue *q, struct check_request *r,
		   struct check_object *cq)
{
	if (q->last)
		q->last->next = r;
	else
		q->first = r;
	q->last = r;
	if (!q->untaken)
		q->untaken = r;
	q->n++;
	if (!r->signaled)
		q->unsignaled++;
	else if (cq)
		cq->cq.pending++;
}

/* Take out what is behind @before; NULL: the first */
static struct check_request *take_out(struct check_queue *q, struct check_request *before,
				      struct check_object *cq)
{
	struct check_request *r = before ? before->next : q->first;

	if (before)
		before->next = r->next;
	else
		q->first = r->next;
	if (q->last == r)
		q->last = before;
	if (q->untaken == r)
		q->untaken = r->next;
	q->n--;
	if (!r->signaled)
		q->unsignaled--;
	else if (cq && cq->cq.pending)
		cq->cq.pending--;
	return r;
}

static void drop_all(struct check_queue *q, struct check_object *cq)
{
	while (q->first)
		free_request(take_out(q, NULL, cq));
}

void check_drop(struct check_object *q)
{
	if (q->kind == TRACE_OBJ_SRQ) {
		drop_all(&q->srq.rq, q->srq.cq);
		q->srq.taken = 0;
		return;
	}
	drop_all(&q->qp.sq, q->qp.send_cq);
	drop_all(&q->qp.rq, q->qp.recv_cq);
	q->qp.taken = 0;
}

/* What is flushed is not touched. */
static bool is_flushed(const struct check_request *r)
{
	return r->qp->kind == TRACE_OBJ_QP &&
	       (r->in_error || r->qp->qp.state == IBV_QPS_ERR);
}

/* A shared queue without a QP gets no message. */
bool check_is_active(const struct check_request *r)
{
	if (r->qp->kind == TRACE_OBJ_SRQ)
		return r->qp->srq.users || r->qp->srq.xrc;
	return !is_flushed(r);
}

const char *check_request_name(const struct check_request *r, char buf[96])
{
	static const char *const names[OPCODES] = {
	    [IBV_WR_RDMA_WRITE] = "WRITE",
	    [IBV_WR_RDMA_WRITE_WITH_IMM] = "WRITE_WITH_IMM",
	    [IBV_WR_SEND] = "SEND",
	    [IBV_WR_SEND_WITH_IMM] = "SEND_WITH_IMM",
	    [IBV_WR_RDMA_READ] = "READ",
	    [IBV_WR_ATOMIC_CMP_AND_SWP] = "COMPARE_AND_SWAP",
	    [IBV_WR_ATOMIC_FETCH_AND_ADD] = "FETCH_AND_ADD",
	    [IBV_WR_SEND_WITH_INV] = "SEND_WITH_INV",
	};
	const char *name = (unsigned int)r->opcode < OPCODES && names[r->opcode]
			       ? names[r->opcode]
			       : "request";

	snprintf(buf, 96, "%s wr_id 0x%" PRIx64 " of %s %u",
		 r->receive ? "receive" : name, r->wr_id,
		 r->qp->kind == TRACE_OBJ_SRQ ? "SRQ" : "QP", r->qp->id);
	return buf;
}

/* --- what is sent -------------------------------------------------------------------- */

static bool hash_range(uint64_t addr, uint64_t len, uint32_t *h)
{
	uint8_t buf[CHUNK];

	for (uint64_t at = 0; at < len; at += CHUNK) {
		size_t n = len - at < CHUNK ? (size_t)(len - at) : CHUNK;

		if (urxe_checker_copy(buf, (const void *)(addr + at), n))
			return false;
		*h = crc32_gzip_refl(*h, buf, n);
	}
	return true;
}

/* Of a datagram no more is written than its GRH and the largest path MTU. */
static uint64_t reach(const struct check_use *u)
{
	const struct check_request *r = u->request;
	bool datagram =
	    r->receive && r->qp->kind == TRACE_OBJ_QP && r->qp->qp.type == IBV_QPT_UD;

	return datagram && u->len > DATAGRAM ? DATAGRAM : u->len;
}

static bool hash_use(const struct check_use *u, uint32_t *h)
{
	uint64_t len = reach(u);

	*h = 1;
	if (len <= HASH_ALL)
		return hash_range(u->addr, len, h);
	return hash_range(u->addr, HASH_END, h) &&
	       hash_range(u->addr + len - HASH_END, HASH_END, h);
}

static void compare(const struct check_request *r, const struct check_use *u)
{
	const struct check_with with[] = {{"completion polled", check_stack()},
					  {"posted", r->posted}};
	char what[96];
	uint32_t h;

	if (!u->hashed || !hash_use(u, &h) || h == u->hash ||
	    check_ignored(u->addr, u->len))
		return;
	check_report(CHECK_SEND_CHANGED, with + 1, 1,
		     "%s, somewhere in %" PRIu64 " bytes at 0x%" PRIx64,
		     check_request_name(r, what), u->len, u->addr);
}

/* --- posts ---------------------------------------------------------------------------- */

static bool is_written(const struct check_request *r)
{
	return r->receive || r->opcode == IBV_WR_RDMA_READ ||
	       r->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       r->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* struct meeting - a use that is about to begin */
struct meeting {
	const struct check_request *r;
	const struct ibv_sge *sge;
	bool fence;
};

static bool meets_target(struct check_use *u, void *arg)
{
	const struct meeting *m = arg;
	const struct check_with with[] = {{"posted", m->r->posted},
					  {"posted before", u->request->posted}};
	char one[96], other[96];

	if (is_flushed(u->request) || is_flushed(m->r) ||
	    check_ignored(m->sge->addr, m->sge->length))
		return false;
	check_report(CHECK_RECEIVES_OVERLAP, with, 2, "%s and %s at 0x%" PRIx64,
		     check_request_name(m->r, one), check_request_name(u->request, other),
		     (uint64_t)m->sge->addr);
	return true;
}

/*
 * From here on it is not known who has written to the memory of @u, and of the one that meets it
 * (@arg). Who has many of them in one place never looks at what comes: all are shared then.
 */
static bool share(struct check_use *u, void *arg)
{
	struct sharing *s = arg;

	u->shared = s->u->shared = true;
	all_shared = ++s->n == MANY_SHARED;
	return all_shared;
}

static bool meets_read(struct check_use *u, void *arg)
{
	const struct meeting *m = arg;
	const struct check_with with[] = {{"posted", m->r->posted},
					  {"posted before", u->request->posted}};
	char one[96], other[96];

	if (u->request->receive || !check_is_active(u->request) ||
	    (m->fence && u->request->qp == m->r->qp) ||
	    check_ignored(m->sge->addr, m->sge->length))
		return false;
	check_report(CHECK_READ_UNFENCED, with, 2, "%s sends what %s brings",
		     check_request_name(m->r, one),
		     check_request_name(u->request, other));
	return true;
}

/* The region whose address or number is nearest, for the reader of a finding */
static void bad_lkey(const struct check_request *r, const struct ibv_sge *sge)
{
	const struct check_object *was = check_find_gone(TRACE_OBJ_MR, sge->lkey);
	const struct check_with with[] = {{"posted", r->posted},
					  {"deregistered", was ? was->ended : NULL}};
	char what[96], name[64];

	check_report(CHECK_SGE_BAD_LKEY, with, was ? 2 : 1, "%s: key 0x%08x%s%s",
		     check_request_name(r, what), sge->lkey,
		     was ? ", which was of " : " was never given",
		     was ? check_object_name(was, name) : "");
}

static bool is_inside(const struct check_object *mr, const struct ibv_sge *sge)
{
	return sge->addr >= mr->mr.iova && sge->addr - mr->mr.iova <= mr->mr.length &&
	       sge->length <= mr->mr.length - (sge->addr - mr->mr.iova);
}

/* The region that @sge is in; NULL: a finding, or one that is not known */
static struct check_object *region_of(const struct check_request *r,
				      const struct ibv_sge *sge)
{
	struct check_object *mr = check_find(TRACE_OBJ_MR, sge->lkey);
	char what[96], name[64];

	if (!mr) {
		bad_lkey(r, sge);
		return NULL;
	}
	const struct check_with with[] = {{"posted", r->posted},
					  {"registered", mr->made}};
	if (!is_inside(mr, sge)) {
		check_report(CHECK_SGE_OUTSIDE_MR, with, 2,
			     "%s: %u bytes at offset %" PRId64 " of %s",
			     check_request_name(r, what), sge->length,
			     (int64_t)(sge->addr - mr->mr.iova),
			     check_object_name(mr, name));
		return NULL;
	}
	if (is_written(r) && !(mr->mr.access & IBV_ACCESS_LOCAL_WRITE))
		check_report(CHECK_LOCAL_WRITE_MISSING, with, 2, "%s into %s",
			     check_request_name(r, what), check_object_name(mr, name));
	return mr;
}

/*
 * What is sent is used until the completion only where it may be sent again. A datagram whose
 * arrival the program has heard of was read by the HCA, though no completion was polled.
 */
static bool is_sent_once(const struct check_request *r)
{
	return r->qp->kind == TRACE_OBJ_QP &&
	       (r->qp->qp.type == IBV_QPT_UD || r->qp->qp.type == IBV_QPT_UC);
}

static void begin_use(struct check_request *r, struct check_use *u,
		      const struct ibv_sge *sge, bool fence)
{
	struct check_object *mr = sge->length ? region_of(r, sge) : NULL;
	struct meeting m = {r, sge, fence};
	uint64_t addr;

	if (!mr)
		return;
	addr = mr->mr.addr + (sge->addr - mr->mr.iova);
	mr->mr.used = true;
	check_fate(mr, addr, sge->length, &(struct check_with){"posted", r->posted});
	*u = (struct check_use){.addr = addr,
				.len = sge->length,
				.lkey = sge->lkey,
				.writes = is_written(r),
				.request = r};
	check_writes_in(addr, sge->length, u->writes ? meets_target : meets_read, &m);
	if (u->writes && !all_shared)
		check_writes_in(addr, sge->length, share, &(struct sharing){u, 0});
	if (!u->writes && is_sent_once(r))
		return;
	if ((!u->writes || (r->receive && !all_shared)) && check_is_pinned(mr) &&
	    check_wants(CHECK_SEND_CHANGED))
		u->hashed = hash_use(u, &u->hash);
	if (check_use_add(u) && u->writes)
		check_reads_begin(u);
}

static void begin_uses(struct check_request *r, const struct ibv_sge *sge, bool fence)
{
	for (unsigned int i = 0; i < r->n_uses; i++)
		begin_use(r, &r->use[i], &sge[i], fence);
}

static void queue_fills(struct check_object *qp, const struct check_request *r)
{
	const struct check_with here[] = {{"posted", r->posted}};
	const struct check_queue *q = &qp->qp.sq;

	if (q->n < qp->qp.max_send || qp->qp.state != IBV_QPS_RTS)
		return;
	if (q->unsignaled == q->n)
		check_report(CHECK_SQ_UNSIGNALED, here, 1,
			     "QP %u: %u requests, none of them signaled, and room for %u",
			     qp->id, q->n, qp->qp.max_send);
	else
		check_report(
		    CHECK_SQ_OVERCOMMIT, here, 1,
		    "QP %u: %u requests whose completions were not polled, and room "
		    "for %u",
		    qp->id, q->n, qp->qp.max_send);
}

static void cq_fills(const struct check_object *cq, const struct check_request *r)
{
	const struct check_with with[] = {{"posted", r->posted},
					  {"CQ made", cq ? cq->made : NULL}};

	if (cq && cq->cq.pending > cq->cq.size)
		check_report(CHECK_CQ_TOO_SMALL, with, 2,
			     "CQ %u: %u completions may come, and there is room for %u",
			     cq->id, cq->cq.pending, cq->cq.size);
}

static void goes_on(struct check_object *qp, const struct check_request *r)
{
	const struct check_with with[] = {{"posted", r->posted},
					  {"the error was polled", qp->qp.failed_at}};

	if (qp->qp.failed_at && qp->qp.state == IBV_QPS_ERR)
		check_report(CHECK_ERROR_IGNORED, with, 2,
			     "QP %u, after a completion with status %d (%s)", qp->id,
			     qp->qp.failed, trace_name(TRACE_STATUS, qp->qp.failed));
}

static void misaligned(const struct check_request *r, const struct ibv_send_wr *wr)
{
	const struct check_with here[] = {{"posted", r->posted}};
	char what[96];

	if ((wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	     wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) &&
	    wr->wr.atomic.remote_addr % 8)
		check_report(CHECK_ATOMIC_MISALIGNED, here, 1, "%s at 0x%" PRIx64,
			     check_request_name(r, what), wr->wr.atomic.remote_addr);
}

static bool has_data(const struct ibv_send_wr *wr)
{
	return wr->opcode <= IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       wr->opcode == IBV_WR_SEND_WITH_INV;
}

void check_post_send(struct check_object *qp, const struct ibv_send_wr *wr)
{
	bool is_inline = wr->send_flags & IBV_SEND_INLINE;
	struct check_request *r = new_request(
	    is_inline || !has_data(wr) || wr->num_sge < 0 ? 0
							  : (unsigned int)wr->num_sge);

	if (!r)
		return;
	check_program_acts();
	r->qp = qp;
	r->wr_id = wr->wr_id;
	r->opcode = wr->opcode;
	r->posted = check_stack();
	r->signaled = qp->qp.sig_all || wr->send_flags & IBV_SEND_SIGNALED;
	r->in_error = qp->qp.state == IBV_QPS_ERR;
	queue_fills(qp, r);
	goes_on(qp, r);
	misaligned(r, wr);
	begin_uses(r, wr->sg_list, wr->send_flags & IBV_SEND_FENCE);
	check_target_add(r, wr);
	append(&qp->qp.sq, r, qp->qp.send_cq);
	cq_fills(qp->qp.send_cq, r);
}

void check_late_receive(const struct check_object *q, uint64_t *since, unsigned int *rnrs,
			const struct check_stack *posted)
{
	const struct check_with with[] = {
	    {posted ? "the receive request was posted" : "QP made",
	     posted ? posted : q->made}};

	check_report(CHECK_RNR, with, 1,
		     "%s %u: %" PRIu64 " us after the message, which was "
		     "turned away %u times",
		     q->kind == TRACE_OBJ_SRQ ? "SRQ" : "QP", q->id,
		     (check_now() - *since) / 1000, *rnrs);
	*since = 0;
	*rnrs = 0;
}

void check_post_recv(struct check_object *q, const struct ibv_recv_wr *wr)
{
	struct check_request *r =
	    new_request(wr->num_sge < 0 ? 0 : (unsigned int)wr->num_sge);
	bool shared = q->kind == TRACE_OBJ_SRQ;

	if (!r)
		return;
	r->qp = q;
	r->wr_id = wr->wr_id;
	r->receive = true;
	r->signaled = true;
	r->posted = check_stack();
	r->in_error = !shared && q->qp.state == IBV_QPS_ERR;
	if (!shared)
		goes_on(q, r);
	if (shared && q->srq.rnr_since)
		check_late_receive(q, &q->srq.rnr_since, &q->srq.rnrs, r->posted);
	else if (!shared && q->qp.rnr_since)
		check_late_receive(q, &q->qp.rnr_since, &q->qp.rnrs, r->posted);
	begin_uses(r, wr->sg_list, false);
	append(queue_of(q, true), r, cq_of(q, true));
	cq_fills(cq_of(q, true), r);
}

void check_post_failed(struct check_object *o, bool receive, unsigned int n)
{
	struct check_queue *q = queue_of(o, receive);

	while (n-- && q->n) {
		struct check_request *before = NULL, *r = q->first;

		while (r->next) {
			before = r;
			r = r->next;
		}
		free_request(take_out(q, before, cq_of(o, receive)));
	}
}

bool check_is_changed(const struct check_use *u)
{
	uint32_t h;

	return u->hashed && hash_use(u, &h) && h != u->hash;
}

bool check_is_alone(const struct check_use *u)
{
	return !u->shared && !all_shared;
}

static void touched(struct check_request *r, const struct check_use *u)
{
	const struct check_with with[] = {{"posted", r->posted}};
	char what[96];

	if (!check_is_alone(u) || !check_is_changed(u))
		return;
	r->touched = true;
	if (check_ignored(u->addr, u->len))
		return;
	check_report(CHECK_RECEIVE_TOUCHED, with, 1,
		     "%s, somewhere in %" PRIu64 " bytes at 0x%" PRIx64,
		     check_request_name(r, what), u->len, u->addr);
}

void check_taken(struct check_object *o, uint64_t wr_id)
{
	struct check_queue *q = queue_of(o, true);
	struct check_request *r = q->untaken;

	if (!r || r->wr_id != wr_id)
		return;
	q->untaken = r->next;
	r->taken_at = check_now();
	for (unsigned int i = 0; i < r->n_uses; i++)
		touched(r, &r->use[i]);
}

/* --- advice ------------------------------------------------------------------------------ */

/* It is sent from, or a READ brings it: the HCA has needed it since the post. */
static bool is_needed(struct check_use *u, void *arg)
{
	const struct check_with with[] = {{"advised", check_stack()},
					  {"posted", u->request->posted}};
	char what[96];

	if (u->request->receive || !check_is_active(u->request))
		return false;
	check_report(CHECK_PREFETCH_LATE, with, 2, "%s was posted before",
		     check_request_name(u->request, what));
	return true;
}

void check_advised(const struct ibv_sge *sges, uint32_t n, bool later)
{
	for (uint32_t i = 0; i < n; i++) {
		struct check_object *mr = check_find(TRACE_OBJ_MR, sges[i].lkey);
		uint64_t addr;

		if (!mr || !is_inside(mr, &sges[i]))
			continue;
		addr = mr->mr.addr + (sges[i].addr - mr->mr.iova);
		if (check_uses_in(addr, sges[i].length, is_needed, NULL) || !later)
			continue;
		mr->mr.prefetching = check_stack();
		mr->mr.ahead_addr = addr;
		mr->mr.ahead_len = sges[i].length;
	}
}

/* --- polls ----------------------------------------------------------------------------- */

static void done_until(struct check_object *qp, const struct ibv_wc *wc)
{
	struct check_queue *q = &qp->qp.sq;
	struct check_request *r = q->first;

	while (r && !(r->wr_id == wc->wr_id && (r->signaled || wc->status)))
		r = r->next;
	if (!r)
		return;
	for (bool last = false; !last;) {
		struct check_request *head = take_out(q, NULL, qp->qp.send_cq);

		last = head == r;
		for (unsigned int i = 0; i < head->n_uses && !wc->status; i++)
			compare(head, &head->use[i]);
		free_request(head);
	}
}

static bool received(struct check_object *o, struct check_queue *q, uint64_t wr_id)
{
	struct check_request *before = NULL, *r = q->first;

	while (r && r->wr_id != wr_id) {
		before = r;
		r = r->next;
	}
	if (!r)
		return false;
	free_request(take_out(q, before, cq_of(o, true)));
	return true;
}

static bool received_by(struct check_object *srq, void *arg)
{
	return received(srq, &srq->srq.rq, ((const struct ibv_wc *)arg)->wr_id);
}

static void done_receive(struct check_object *qp, const struct ibv_wc *wc)
{
	struct check_object *o = qp->qp.srq ? qp->qp.srq : qp;
	uint32_t *taken = qp->qp.srq ? &o->srq.taken : &o->qp.taken;

	if (received(o, queue_of(qp, true), wc->wr_id) && *taken)
		--*taken;
}

void check_polled(struct check_object *cq, const struct ibv_wc *wc)
{
	struct check_object *qp = check_find(TRACE_OBJ_QP, wc->qp_num);

	if (cq)
		cq->cq.polled++;
	if (wc->opcode & IBV_WC_RECV) {
		check_message_came();
		check_reads_message();
	}
	/* of an XRC target, which another process may have made, nothing tells the SRQ */
	if (wc->opcode & IBV_WC_RECV && (!qp || qp->qp.type == IBV_QPT_XRC_RECV)) {
		check_each_xrc_srq(received_by, (void *)wc);
		return;
	}
	if (!qp || qp->qp.opaque)
		return;
	if (wc->status != IBV_WC_SUCCESS && wc->status != IBV_WC_WR_FLUSH_ERR) {
		qp->qp.failed = wc->status;
		qp->qp.failed_at = check_stack();
	}
	if (wc->opcode & IBV_WC_RECV) {
		done_receive(qp, wc);
		check_reads_told(qp);
	} else
		done_until(qp, wc);
}
