/*
 * verbs.c - the operations of the program's contexts, as the program calls them: wrapped, outermost,
 * so that posts that fail are seen, too; and those functions of libibverbs whose calls leave
 * no record.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/lock.h"
#include "check/check.h"
#include "check/frames.h"
#include "check/objects.h"
#include "verbs/host/libc.h"
#include "verbs/preload/next_verb.h"
#include "verbs/preload/xrc.h"

#define CONTEXTS   64
#define INLINE_MAX 220
#define SGE_MAX	   13
#define QUEUE_MAX  8127

/* In a function that the program calls: where the frames of its caller begin */
#define CALLER __builtin_dwarf_cfa()

/*
 * struct wrapped - a context, and the operations that it had; @parents: it was opened before fork(2), by the
 * parent of this process; @asked: for the attributes of a port
 */
struct wrapped {
	struct ibv_context *context;
	uint16_t device;
	bool parents, asked;
	struct ibv_context_ops ops;
	int (*query_port)(struct ibv_context *context, uint8_t port,
			  struct ibv_port_attr *attr, size_t len);
	struct ibv_qp *(*create_qp_ex)(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *attr);
	struct ibv_cq_ex *(*create_cq_ex)(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *attr);
	struct ibv_srq *(*create_srq_ex)(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *attr);
	int (*advise_mr)(struct ibv_pd *pd, enum ibv_advise_mr_advice advice,
			 uint32_t flags, struct ibv_sge *sges, uint32_t n);
	int (*start_poll)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);
	int (*next_poll)(struct ibv_cq_ex *cq);
};

static struct wrapped wrapped[CONTEXTS];

/* NULL: not one of ours, or one too many */
static struct wrapped *of_any(const struct ibv_context *context)
{
	for (unsigned int i = 0; i < CONTEXTS; i++)
		if (wrapped[i].context == context)
			return &wrapped[i];
	return NULL;
}

/* Of an object whose operations are wrapped */
static struct wrapped *of(const struct ibv_context *context)
{
	unsigned int i = 0;

	while (wrapped[i].context != context)
		i++;
	return &wrapped[i];
}

/* The lock; numbers are those of the context's device */
static bool lock_for(const struct ibv_context *context)
{
	const struct wrapped *w = of_any(context);

	if (!check_lock())
		return false;
	if (w)
		check_device(w->device);
	return true;
}

/* A pointer to the real function @name of libibverbs */
#define VERB(name)                                                                       \
	({                                                                               \
		static void *slot_;                                                      \
		if (!slot_)                                                              \
			slot_ = next_verb(#name);                                        \
		(__typeof__(&name))slot_;                                                \
	})

/* A child of fork(2) posts or polls what is its parent's */
static void strange(const char *call, struct wrapped *w)
{
	if (!check_lock())
		return;
	const struct check_with here[] = {{"called", check_stack()}};
	check_report(CHECK_USED_AFTER_FORK, here, 1,
		     "%s, in process %d of a parent's device", call, (int)getpid());
	w->parents = false; /* told */
	check_unlock();
}

/* The operations behind those of the checker */
static struct ibv_context_ops *ops_of(const struct ibv_context *context, const char *call)
{
	struct wrapped *w = of(context);

	if (w->parents)
		strange(call, w);
	return &w->ops;
}

/* --- posts ------------------------------------------------------------------------------ */

static unsigned int send_all(struct ibv_qp *qp, const struct ibv_send_wr *wr,
			     const void *caller)
{
	struct check_object *o;
	unsigned int n = 0;

	if (!lock_for(qp->context))
		return 0;
	check_frames_look(caller);
	o = check_find(TRACE_OBJ_QP, qp->qp_num);
	for (; o && !o->qp.opaque && wr; wr = wr->next, n++)
		check_post_send(o, wr);
	check_unlock();
	return n;
}

static unsigned int recv_all(struct check_object *o, const struct ibv_recv_wr *wr,
			     const void *caller)
{
	unsigned int n = 0;

	check_frames_look(caller);

	for (; o && wr; wr = wr->next, n++)
		check_post_recv(o, wr);
	return n;
}

/* The last @n were not posted. */
static void take_back(const struct ibv_context *context, enum trace_object_kind kind,
		      uint32_t id, bool receive, unsigned int n)
{
	struct check_object *o;

	if (!n || !lock_for(context))
		return;
	o = check_find(kind, id);
	if (o)
		check_post_failed(o, receive, n);
	check_unlock();
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	unsigned int n = send_all(qp, wr, CALLER);
	int ret = ops_of(qp->context, "ibv_post_send")->post_send(qp, wr, bad);

	if (ret && n) {
		for (; wr && wr != *bad; wr = wr->next)
			n--;
		take_back(qp->context, TRACE_OBJ_QP, qp->qp_num, false, n);
	}
	return ret;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	unsigned int n = 0;
	int ret;

	if (lock_for(qp->context)) {
		n = recv_all(check_find(TRACE_OBJ_QP, qp->qp_num), wr, CALLER);
		check_unlock();
	}
	ret = ops_of(qp->context, "ibv_post_recv")->post_recv(qp, wr, bad);
	if (ret && n) {
		for (; wr && wr != *bad; wr = wr->next)
			n--;
		take_back(qp->context, TRACE_OBJ_QP, qp->qp_num, true, n);
	}
	return ret;
}

static struct check_object *shared_queue(struct ibv_srq *srq)
{
	struct check_object *o;
	uint32_t num;

	if (!lock_for(srq->context))
		return NULL;
	o = check_srq(srq);
	check_unlock();
	if (o)
		return o;
	num = urxe_checker_srq(srq);
	if (!lock_for(srq->context))
		return NULL;
	o = check_find(TRACE_OBJ_SRQ, num);
	if (o)
		o->srq.app = srq;
	check_unlock();
	return o;
}

static struct ibv_srq *create_srq_ex(struct ibv_context *context,
				     struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq *srq = of(context)->create_srq_ex(context, attr);
	struct check_object *o = srq ? shared_queue(srq) : NULL;

	if (o && check_lock()) {
		o->srq.xrc = attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD;
		check_unlock();
	}
	return srq;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	struct check_object *o = shared_queue(srq);
	unsigned int n = 0;
	int ret;

	if (o && check_lock()) {
		n = recv_all(o, wr, CALLER);
		check_unlock();
	}
	ret = ops_of(srq->context, "ibv_post_srq_recv")->post_srq_recv(srq, wr, bad);
	if (ret && n) {
		for (; wr && wr != *bad; wr = wr->next)
			n--;
		take_back(srq->context, TRACE_OBJ_SRQ, o->id, true, n);
	}
	return ret;
}

/* --- completions ------------------------------------------------------------------------- */

/* The CQ; the first time the engine is asked for its number */
static struct check_object *completion_queue(struct ibv_cq *cq)
{
	struct check_object *o;
	uint32_t num;

	if (!lock_for(cq->context))
		return NULL;
	o = check_cq(cq);
	check_unlock();
	if (o)
		return o;
	num = urxe_checker_cq(cq);
	if (!lock_for(cq->context))
		return NULL;
	o = check_find(TRACE_OBJ_CQ, num);
	if (o)
		o->cq.app = cq;
	check_unlock();
	return o;
}

static void polled(struct ibv_cq *cq, const struct ibv_wc *wc, int n, const void *caller)
{
	struct check_object *o = completion_queue(cq);

	if (!lock_for(cq->context))
		return;
	check_frames_look(caller);
	if (o)
		o->cq.armed = NULL;
	for (int i = 0; i < n; i++)
		check_polled(o, &wc[i]);
	check_unlock();
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = ops_of(cq->context, "ibv_poll_cq")->poll_cq(cq, n, wc);

	if (got >= 0)
		polled(cq, wc, got, CALLER);
	return got;
}

static void polled_one(struct ibv_cq_ex *cq, const void *caller)
{
	struct ibv_wc wc = {.wr_id = cq->wr_id,
			    .status = cq->status,
			    .opcode = ibv_wc_read_opcode(cq),
			    .qp_num = ibv_wc_read_qp_num(cq)};

	polled(ibv_cq_ex_to_cq(cq), &wc, 1, caller);
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	int ret = of(cq->context)->start_poll(cq, attr);

	if (!ret)
		polled_one(cq, CALLER);
	else
		polled(ibv_cq_ex_to_cq(cq), NULL, 0, CALLER);
	return ret;
}

static int next_poll(struct ibv_cq_ex *cq)
{
	int ret = of(cq->context)->next_poll(cq);

	if (!ret)
		polled_one(cq, CALLER);
	return ret;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context,
				      struct ibv_cq_init_attr_ex *attr)
{
	struct wrapped *w = of(context);
	struct ibv_cq_ex *cq = w->create_cq_ex(context, attr);

	/* without the number of the QP nothing can be known of a completion */
	if (!cq || !cq->start_poll || !cq->read_qp_num)
		return cq;
	w->start_poll = cq->start_poll;
	w->next_poll = cq->next_poll;
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	return cq;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct check_object *o = completion_queue(cq);

	if (o && check_lock()) {
		o->cq.armed = o->cq.produced > o->cq.polled ? check_stack() : NULL;
		check_unlock();
	}
	return ops_of(cq->context, "ibv_req_notify_cq")
	    ->req_notify_cq(cq, solicited_only);
}

/* struct waiter - who waits for an event of @channel */
struct waiter {
	struct ibv_comp_channel *channel;
	const struct check_stack *here;
};

static void sleeps(struct check_object *o, const void *arg)
{
	const struct waiter *w = arg;
	const struct check_with with[] = {{"waits", w->here}, {"armed", o->cq.armed}};

	if (!o->cq.armed || o->cq.app->channel != w->channel)
		return;
	check_report(CHECK_LOST_WAKEUP, with, 2, "CQ %u, in which %llu completions wait",
		     o->id, (unsigned long long)(o->cq.produced - o->cq.polled));
	o->cq.armed = NULL;
}

INTERPOSE int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			       void **cq_context)
{
	struct check_object *o;
	int ret;

	if (check_lock()) {
		const struct check_stack *here = check_stack();

		check_each_cq(sleeps, &(struct waiter){channel, here});
		check_unlock();
	}
	ret = VERB(ibv_get_cq_event)(channel, cq, cq_context);
	o = ret ? NULL : completion_queue(*cq);
	if (o && check_lock()) {
		o->cq.events++;
		check_unlock();
	}
	return ret;
}

INTERPOSE void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	struct check_object *o = completion_queue(cq);

	if (o && check_lock()) {
		o->cq.acked += n;
		check_unlock();
	}
	VERB(ibv_ack_cq_events)(cq, n);
}

INTERPOSE int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct check_object *o = completion_queue(cq);

	if (o && check_lock()) {
		const struct check_with with[] = {{"destroyed", check_stack()},
						  {"made", o->made}};

		if (o->cq.events > o->cq.acked)
			check_report(CHECK_EVENTS_UNACKED, with, 2,
				     "CQ %u: %u events, %u acknowledged", o->id,
				     o->cq.events, o->cq.acked);
		check_unlock();
	}
	return VERB(ibv_destroy_cq)(cq);
}

/* --- QPs ---------------------------------------------------------------------------------- */

static void look_at_caps(const struct ibv_qp_cap *cap)
{
	if (!check_lock())
		return;
	const struct check_with here[] = {{"QP made", check_stack()}};
	if (cap->max_inline_data > INLINE_MAX)
		check_report(CHECK_INLINE_LARGE, here, 1, "%u bytes",
			     cap->max_inline_data);
	if (cap->max_send_sge > SGE_MAX || cap->max_recv_sge > SGE_MAX)
		check_report(CHECK_SGE_MANY, here, 1, "%u to send, %u to receive",
			     cap->max_send_sge, cap->max_recv_sge);
	if (cap->max_send_wr > QUEUE_MAX || cap->max_recv_wr > QUEUE_MAX)
		check_report(CHECK_QUEUE_DEEP, here, 1, "%u to send, %u to receive",
			     cap->max_send_wr, cap->max_recv_wr);
	check_unlock();
}

INTERPOSE struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	look_at_caps(&attr->cap);
	return VERB(ibv_create_qp)(pd, attr);
}

/* Operations that do not become work requests are not seen, and so nothing of the QP is. */
static struct ibv_qp *create_qp_ex(struct ibv_context *context,
				   struct ibv_qp_init_attr_ex *attr)
{
	struct check_object *o;
	struct ibv_qp *qp;

	look_at_caps(&attr->cap);
	qp = of(context)->create_qp_ex(context, attr);
	if (qp && attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS &&
	    attr->send_ops_flags & ~(uint64_t)XRC_LISTED_OPS && lock_for(context)) {
		o = check_find(TRACE_OBJ_QP, qp->qp_num);
		if (o)
			o->qp.opaque = true;
		check_unlock();
	}
	return qp;
}

/* 0, or the same digit in all places: 0x11111111 */
static bool is_guessable(uint32_t qkey)
{
	return qkey == (qkey & 0xf) * 0x11111111u;
}

static void note_asked(const struct ibv_context *context)
{
	struct wrapped *w = of_any(context);

	if (!w || !check_lock())
		return;
	for (unsigned int i = 0; i < CONTEXTS; i++)
		if (wrapped[i].context && wrapped[i].device == w->device)
			wrapped[i].asked = true;
	check_unlock();
}

static int query_port(struct ibv_context *context, uint8_t port,
		      struct ibv_port_attr *attr, size_t len)
{
	note_asked(context);
	return of(context)->query_port(context, port, attr, len);
}

/* The function itself; programs in C have the one above in its place */
#undef ibv_query_port
INTERPOSE int ibv_query_port(struct ibv_context *context, uint8_t port,
			     struct _compat_ibv_port_attr *attr)
{
	note_asked(context);
	return VERB(ibv_query_port)(context, port, attr);
}

/* With the lock */
static void look_at_mtu(const struct ibv_qp *qp, enum ibv_mtu mtu)
{
	const struct check_with here[] = {{"modified", check_stack()}};
	const struct wrapped *w = of_any(qp->context);

	if (w && !w->asked && mtu > IBV_MTU_1024)
		check_report(CHECK_MTU_UNASKED, here, 1, "QP %u: %u bytes", qp->qp_num,
			     128u << mtu);
}

INTERPOSE int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (check_lock()) {
		const struct check_with here[] = {{"modified", check_stack()}};

		if (mask & IBV_QP_QKEY && is_guessable(attr->qkey))
			check_report(CHECK_QKEY_GUESSABLE, here, 1, "QP %u: 0x%08x",
				     qp->qp_num, attr->qkey);
		if (mask & IBV_QP_AV && attr->ah_attr.is_global &&
		    !attr->ah_attr.grh.sgid_index)
			check_report(CHECK_GID_INDEX_ZERO, here, 1, "QP %u", qp->qp_num);
		if (mask & IBV_QP_PATH_MTU)
			look_at_mtu(qp, attr->path_mtu);
		check_unlock();
	}
	return VERB(ibv_modify_qp)(qp, attr, mask);
}

INTERPOSE struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	if (attr->is_global && !attr->grh.sgid_index && check_lock()) {
		const struct check_with here[] = {{"made", check_stack()}};

		check_report(CHECK_GID_INDEX_ZERO, here, 1, "address handle");
		check_unlock();
	}
	return VERB(ibv_create_ah)(pd, attr);
}

/* --- the rest ------------------------------------------------------------------------------ */

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sges, uint32_t n)
{
	int ret;

	if (check_lock()) {
		check_advised(sges, n, !(flags & IBV_ADVISE_MR_FLAG_FLUSH));
		check_unlock();
	}
	ret = of(pd->context)->advise_mr(pd, advice, flags, sges, n);
	if (ret && check_lock()) {
		const struct check_with here[] = {{"advised", check_stack()}};

		check_report(CHECK_ADVISE_FAILED, here, 1, "error %d", ret);
		check_unlock();
	}
	return ret;
}

typedef enum ibv_fork_status (*fork_status_fn)(void);

/* Looked up when a context is opened: fork(2) is no time to ask the loader */
static fork_status_fn fork_status(void)
{
	return VERB(ibv_is_fork_initialized);
}

bool check_fork_is_safe(void)
{
	return fork_status() && fork_status()() == IBV_FORK_ENABLED;
}

/* How many contexts of the device are open */
static unsigned int n_open(uint16_t device)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < CONTEXTS; i++)
		n += wrapped[i].context && wrapped[i].device == device;
	return n;
}

INTERPOSE int ibv_close_device(struct ibv_context *context)
{
	struct wrapped *w = NULL;
	int ret;

	if (lock_for(context)) {
		w = of_any(context);
		/* whose an object is, is known only of a single context */
		if (w && n_open(w->device) == 1)
			check_leaks_at_close(check_stack());
		if (w)
			w->context = NULL;
		check_unlock();
	}
	ret = VERB(ibv_close_device)(context);
	if (ret && w)
		w->context = context;
	return ret;
}

static void wrap(struct wrapped *w, struct ibv_context *context, uint16_t device)
{
	struct verbs_context *v = verbs_get_ctx(context);

	*w = (struct wrapped){.context = context, .device = device, .ops = context->ops};
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.post_srq_recv = post_srq_recv;
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
	if (!v)
		return;
	w->create_qp_ex = v->create_qp_ex;
	w->create_cq_ex = v->create_cq_ex;
	w->create_srq_ex = v->create_srq_ex;
	w->advise_mr = v->advise_mr;
	w->query_port = v->query_port;
	if (v->query_port)
		v->query_port = query_port;
	if (v->create_srq_ex)
		v->create_srq_ex = create_srq_ex;
	if (v->create_qp_ex)
		v->create_qp_ex = create_qp_ex;
	if (v->create_cq_ex)
		v->create_cq_ex = create_cq_ex;
	if (v->advise_mr)
		v->advise_mr = advise_mr;
}

void check_forget_contexts(void)
{
	for (unsigned int i = 0; i < CONTEXTS; i++)
		wrapped[i].parents = true;
}

void check_context(struct ibv_context *context)
{
	uint16_t device = urxe_checker_device(context);

	fork_status();
	if (!check_lock())
		return;
	for (unsigned int i = 0; i < CONTEXTS; i++)
		if (!wrapped[i].context) {
			wrap(&wrapped[i], context, device);
			break;
		}
	check_unlock();
}
