/*
 * receive_posts.c - receive requests that wait for messages: what others see of them, and records of
 * their posts.
 *
 * Theory of operation
 *
 * A post of a receive request writes to the ring and tells nobody. While all is traced, the wrapper
 * of ibv_post_recv(3) tells it (verbs/preload/context_hook.c), and all that is new in the ring is
 * recorded; what it has not told, as a program that found its functions in another way, is recorded
 * when a message takes it ("late"). A ring knows up to where its posts are in the trace
 * (@recorded), and of which trace that is true: what was posted before is not recorded.
 *
 * Without a trace, queues are looked at soon after there were posts (verbs/engine/engine_drive.c): a queue
 * whose first request is the same as before has waited since then.
 *
 * Owns: when posts are noticed. Must not know: messages.
 */
#include "emu/qp.h"

#define LOOK_QUEUES 256 /* looked at in one turn */

/* struct queue - a receive queue of @qpn, or an SRQ, else 0 */
struct queue {
	struct emu_hca *hca;
	struct emu_ring *ring;
	uint32_t max_sge, qpn, srq;
};

static struct queue queue_of(struct emu_qp *qp)
{
	return (struct queue){qp->hca, &qp->rq, qp->cap.max_recv_sge, qp->qpn, 0};
}

static struct queue queue_of_srq(struct emu_srq *srq)
{
	return (struct queue){srq->hca, &srq->ring, srq->max_sge, 0, srq->num};
}

/* --- records ---------------------------------------------------------------------- */

static void record(const struct queue *q, const struct emu_recv_wqe *w, bool late)
{
#define FIELDS                                                                           \
	.wr_id = w->wr_id, .qpn = q->qpn, .srq = q->srq,                                 \
	.addr = w->num_sge ? w->sge[0].addr : 0, .length = w->length,                    \
	.lkey = w->num_sge ? w->sge[0].lkey : 0, .num_sge = (uint16_t)w->num_sge,        \
	.late = late
	if (q->srq)
		EMU_TRACE(q->hca, post_srq_receive, FIELDS);
	else
		EMU_TRACE(q->hca, post_receive, FIELDS);
#undef FIELDS
}

/* The request at @index, as the HCA would take it */
static void copy_wqe(const struct queue *q, uint32_t index, struct emu_recv_wqe *w)
{
	const uint8_t *p = ring_at(q->ring, index);
	struct rxe_recv_wqe wqe;

	memcpy(&wqe, p, sizeof(wqe));
	*w = (struct emu_recv_wqe){.wr_id = wqe.wr_id};
	if (wqe.dma.num_sge > q->max_sge)
		return;
	w->num_sge = wqe.dma.num_sge;
	memcpy(w->sge, p + sizeof(wqe), w->num_sge * sizeof(w->sge[0]));
	for (uint32_t i = 0; i < w->num_sge; i++)
		w->length += w->sge[i].length;
}

/* Where posts that are not recorded begin, at @from or behind */
static void find_new(const struct queue *q, uint32_t from)
{
	struct emu_ring *r = q->ring;
	uint64_t of = q->hca->cfg.recorder->hdr->full_from;
	uint32_t ahead = (r->recorded - from) & ring_mask(r);

	if (r->recorded_of != of || ahead > ring_count_from(r, from))
		r->recorded = from & ring_mask(r);
	r->recorded_of = of;
}

static void record_new(const struct queue *q, bool late)
{
	struct emu_ring *r = q->ring;
	struct emu_recv_wqe w;

	for (uint32_t n = ring_count_from(r, r->recorded); n; n--) {
		copy_wqe(q, r->recorded, &w);
		record(q, &w, late);
		r->recorded = (r->recorded + 1) & ring_mask(r);
	}
}

void emu_receives_record(struct emu_qp *qp, struct emu_srq *srq,
			 const struct emu_recv_wqe *wqe)
{
	struct queue q = srq ? queue_of_srq(srq) : queue_of(qp);
	uint32_t taken = (q.ring->local - 1) & ring_mask(q.ring);

	find_new(&q, taken);
	/* its place in the ring is the program's again */
	if (q.ring->recorded == taken) {
		record(&q, wqe, true);
		q.ring->recorded = q.ring->local;
	}
	record_new(&q, true);
}

static void posted(const struct queue *q)
{
	if (!q->ring->buf ||
	    !recorder_wants(q->hca->cfg.recorder, TRACE_KIND_post_receive))
		return;
	find_new(q, q->ring->local);
	record_new(q, false);
}

/* --- what others see -------------------------------------------------------------- */

/* How many requests there are, the first of them, and since when it waits */
static uint32_t look(struct emu_ring *r, uint64_t now, uint64_t *since, uint64_t *wr_id)
{
	uint32_t n = ring_count_from(r, r->local);

	if (!n) {
		*since = 0;
	} else if (!*since || r->looked != r->local) {
		*since = now;
		memcpy(wr_id, ring_at(r, r->local), sizeof(*wr_id));
	}
	r->looked = r->local;
	return n;
}
_Static_assert(offsetof(struct rxe_recv_wqe, wr_id) == 0, "it begins with it");

static void show_receives(struct emu_qp *qp)
{
	struct trace_qp *s = &qp->seen->qp;

	if (qp->rq.buf)
		s->rq.posted =
		    look(&qp->rq, qp->hca->now, &s->receives_since, &s->rq.wr_id);
}

void emu_show_srq(struct emu_srq *srq)
{
	struct trace_srq *s = &srq->seen->srq;

	s->size = srq->max_wr;
	s->limit = srq->limit;
	s->left = look(&srq->ring, srq->hca->now, &s->since, &s->wr_id);
}

void emu_qp_receives_posted(struct emu_qp *qp)
{
	const struct queue q = queue_of(qp);

	posted(&q);
	show_receives(qp);
}

void emu_srq_receives_posted(struct emu_srq *srq)
{
	const struct queue q = queue_of_srq(srq);

	posted(&q);
	emu_show_srq(srq);
}

bool emu_hca_look(struct emu_hca *hca)
{
	struct emu_qp *qp = hca->looked ? hca->looked : hca->all_qps;
	bool more_srqs = hca->srqs.used;
	struct emu_srq *srq;

	for (uint32_t i = 0; i < LOOK_QUEUES && qp; i++, qp = qp->next)
		show_receives(qp);
	hca->looked = qp;
	for (uint32_t i = 0; i < LOOK_QUEUES && hca->srqs.used; i++) {
		if (hca->srqs_looked >= hca->srqs.fresh) {
			hca->srqs_looked = 0;
			more_srqs = false;
			break;
		}
		srq = emu_table_get(&hca->srqs, hca->srqs_looked++);
		if (srq)
			emu_show_srq(srq);
	}
	return qp || more_srqs;
}
