/*
 * context_hook.c - what is put into a context of libibverbs that belongs to an emulated
 * device. Owns the provider's operations that it replaces; knows nothing of what they do.
 *
 * - poll_cq, start_poll: a thread that polls an empty CQ takes a turn in driving the HCA,
 *   so that a message is received by the thread that waits for it.
 * - next_poll, end_poll: before rdma-core v65, librxe's next_poll consumes the last entry
 *   itself when it finds the CQ empty. end_poll, which the program must call then all the
 *   same (ibv_start_poll(3)), would consume one more; it is left out.
 * - advise_mr: librxe has none before rdma-core v60.
 * - XRC and rereg_mr: librxe has none (xrc.c).
 * - post_send, post_recv, post_srq_recv: points where they can be made to fail (inject/). Posts of
 *   receive requests are told to the HCA while they are recorded.
 *
 * The operations that are wrapped are the provider's, the same for all of its contexts. A
 * process may hold several providers' libraries (bundles bring their own), so there are
 * PLACES for originals, and for each place a set of wrappers that knows it. A place is
 * taken once, before the first wrapper that knows it can be called, and never changes. The
 * places belong to the process, as the providers do: a wrapper has the type of what it
 * replaces, and must find the original without the object that it is called for.
 * Programs that find ibv_open_device by dlopen(3) go without all this.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "emu/queue_layout.h"
#include "verbs/engine/checker.h"
#include "verbs/preload/context_hook.h"
#include "verbs/preload/doorbell.h"
#include "verbs/preload/interpose.h"
#include "verbs/preload/next_verb.h"
#include "verbs/preload/poll_watch.h"
#include "verbs/preload/wr_hook.h"
#include "verbs/preload/xrc.h"
#include "verbs/uverbs/uverbs_points.h"

#define PLACES 4

typedef int (*poll_fn)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
typedef struct ibv_cq_ex *(*create_cq_ex_fn)(struct ibv_context *context,
					     struct ibv_cq_init_attr_ex *attr);
typedef int (*post_fn)(struct ibv_qp *qp, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad);
typedef int (*post_recv_fn)(struct ibv_qp *qp, struct ibv_recv_wr *wr,
			    struct ibv_recv_wr **bad);
typedef int (*post_srq_fn)(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			   struct ibv_recv_wr **bad);
typedef int (*next_poll_fn)(struct ibv_cq_ex *cq);
typedef void (*end_poll_fn)(struct ibv_cq_ex *cq);
typedef int (*start_poll_fn)(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr);

static poll_fn poll_orig[PLACES];
static create_cq_ex_fn create_cq_ex_orig[PLACES];
static start_poll_fn start_poll_orig[PLACES];
static next_poll_fn next_poll_orig[PLACES];
static end_poll_fn end_poll_orig[PLACES];
static post_fn post_orig[PLACES];
static post_recv_fn post_recv_orig[PLACES];
static post_srq_fn post_srq_orig[PLACES];
static xrc_create_qp_ex_fn create_qp_ex_orig[PLACES];

/* What place @i holds; place_for() may fill others meanwhile. */
#define ORIG(places, i) __atomic_load_n(&(places)[i], __ATOMIC_RELAXED)

/* The place that holds @fn, or a free one that does from now on; -1: none left */
static int place_for(void *places, void *fn)
{
	void **place = places;

	for (int i = 0; i < PLACES; i++) {
		void *expected = NULL;

		if (__atomic_compare_exchange_n(&place[i], &expected, fn, 0,
						__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) ||
		    expected == fn)
			return i;
	}
	return -1;
}

/* False: there is no device. *@shared: what came is another thread's if this one finds nothing */
static bool drive(bool *shared)
{
	struct engine *e = engine_running();

	if (e)
		*shared = engine_drive(e);
	return e != NULL;
}

/* Without those that were forgotten with the reset of their QP; how many are left */
static int drop_forgotten(struct ibv_wc *wc, int n)
{
	int kept = 0;

	for (int i = 0; i < n; i++) {
		if (wc[i].vendor_err == EMU_WC_FORGOTTEN)
			continue;
		if (kept != i)
			wc[kept] = wc[i];
		kept++;
	}
	return kept;
}

static int poll_kept(poll_fn orig, struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got, kept;

	do {
		got = orig(cq, n, wc);
		if (got > 0)
			poll_watch(cq, got);
		kept = got > 0 ? drop_forgotten(wc, got) : got;
	} while (got > 0 && !kept);
	return kept;
}

static void in_vain(struct ibv_cq *cq, bool shared)
{
	poll_watch_vain(cq);
	if (shared)
		engine_give_way();
}

/* Before the provider is asked: nothing was posted then. */
int context_point(struct ibv_context *context, const char *verb, enum uobject_type type,
		  uint32_t handle)
{
	struct uverbs_context *ctx = uverbs_lookup(context->cmd_fd);
	int err = 0;

	if (ctx) {
		err = -uverbs_point_post(ctx, verb, type, handle);
		vfile_put(&ctx->vf);
	}
	if (err)
		errno = err;
	return err;
}

/* Is the CQ's ring consumed up to the last entry? Nobody may produce meanwhile. */
static bool is_consumed(struct uverbs_context *ctx, uint32_t handle)
{
	struct uobject *o = uobject_find(&ctx->objects, UOBJECT_CQ, handle);
	struct emu_ring_info info = o ? emu_cq_ring(o->cq) : (struct emu_ring_info){0};
	struct rxe_queue_buf *q = ring_space_at(&ctx->rings, info.offset, info.size);

	return q && queue_load(&q->consumer_index, info.mask) ==
			queue_load(&q->producer_index, info.mask);
}

/*
 * A poll that finds something is a point: how often a program looks in vain depends on time. 0: there is
 * something; ENOENT, or the error that a rule wants
 */
static int point_of_poll(struct ibv_cq *cq, const char *verb)
{
	struct uverbs_context *ctx = uverbs_lookup(cq->context->cmd_fd);
	bool empty, shared = false;

	if (!ctx)
		return 0;
	drive(&shared);
	engine_enter(ctx->engine);
	empty = is_consumed(ctx, cq->handle);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	if (empty)
		in_vain(cq, shared);
	return empty ? ENOENT : context_point(cq->context, verb, UOBJECT_CQ, cq->handle);
}

static int poll_driving(poll_fn orig, struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	bool shared = false;
	int got = inject_on(INJECT_CALL) ? point_of_poll(cq, "ibv_poll_cq") : 0;

	if (got)
		return got == ENOENT ? 0 : -1;
	got = poll_kept(orig, cq, n, wc);
	if (got || !drive(&shared))
		return got;
	got = poll_kept(orig, cq, n, wc);
	if (!got)
		in_vain(cq, shared);
	return got;
}

/* The CQ whose poll the provider has ended already in this thread */
static __thread struct ibv_cq_ex *ended;

static bool is_forgotten(struct ibv_cq_ex *cq)
{
	return cq->read_vendor_err && cq->read_vendor_err(cq) == EMU_WC_FORGOTTEN;
}

static int start_driving(start_poll_fn orig, struct ibv_cq_ex *cq,
			 struct ibv_poll_cq_attr *attr)
{
	bool shared = false;
	int err;

	ended = NULL;
	err = inject_on(INJECT_CALL)
		  ? point_of_poll(ibv_cq_ex_to_cq(cq), "ibv_start_poll")
		  : 0;
	if (err)
		return err;
	err = orig(cq, attr);
	if (err == ENOENT && drive(&shared))
		err = orig(cq, attr);
	if (!err)
		poll_watch(ibv_cq_ex_to_cq(cq), 1);
	else if (err == ENOENT)
		in_vain(ibv_cq_ex_to_cq(cq), shared);
	if (err || !is_forgotten(cq))
		return err;
	err = cq->next_poll(cq);
	if (err)
		cq->end_poll(cq);
	return err;
}

/*
 * What the provider's next_poll does at the end of a CQ, by place; found out at the first
 * end. Several threads may find it out at the same time, and find the same.
 */
enum next_poll_kind { NEXT_UNKNOWN, NEXT_GOOD, NEXT_ENDS };
static _Atomic(enum next_poll_kind) next_poll_kind[PLACES];

/*
 * The first end of a CQ: one that ends the poll has consumed the entry that it stood on.
 */
static int next_finding_out(int place, struct ibv_cq_ex *cq)
{
	struct uverbs_context *ctx = uverbs_lookup(cq->context->cmd_fd);
	int err;

	if (!ctx)
		return ORIG(next_poll_orig, place)(cq);
	engine_enter(ctx->engine);
	err = ORIG(next_poll_orig, place)(cq);
	if (err == ENOENT)
		next_poll_kind[place] =
		    is_consumed(ctx, cq->handle) ? NEXT_ENDS : NEXT_GOOD;
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	return err;
}

static int next_any(int place, struct ibv_cq_ex *cq)
{
	int err;

	do {
		err = next_poll_kind[place] == NEXT_UNKNOWN
			  ? next_finding_out(place, cq)
			  : ORIG(next_poll_orig, place)(cq);
		if (!err)
			poll_watch(ibv_cq_ex_to_cq(cq), 1);
	} while (!err && is_forgotten(cq));
	if (err == ENOENT && next_poll_kind[place] == NEXT_ENDS)
		ended = cq;
	return err;
}

static void end_any(end_poll_fn orig, struct ibv_cq_ex *cq)
{
	if (ended == cq)
		ended = NULL;
	else
		orig(cq);
}

static void hook_cq_ex(struct ibv_cq_ex *cq);

static struct ibv_cq_ex *create_hooked(create_cq_ex_fn orig, struct ibv_context *context,
				       struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq = orig(context, attr);

	if (cq && cq->start_poll)
		hook_cq_ex(cq);
	return cq;
}

static uint32_t length_of(const struct ibv_send_wr *wr)
{
	uint32_t length = 0;

	for (int i = 0; i < wr->num_sge; i++)
		length += wr->sg_list[i].length;
	return length;
}

/* The device belongs to the parent of this process; said once */
static void say_orphan(void)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&said))
		engine_say("ibv_post_send() fails with EIO: this process is a child of "
			   "fork(2), and the device belongs to its parent; open it here");
}

static void explain_post(const struct ibv_qp *qp, const struct ibv_send_wr *wr, int err)
{
	struct uverbs_context *ctx = uverbs_lookup(qp->context->cmd_fd);
	struct emu_posted p = {.wr_id = wr->wr_id,
			       .num_sge = (uint32_t)wr->num_sge,
			       .length = length_of(wr),
			       .is_inline = wr->send_flags & IBV_SEND_INLINE};
	struct uobject *o;

	if (!ctx) {
		if (err == EIO)
			say_orphan();
		return;
	}
	engine_enter(ctx->engine);
	o = uobject_find(&ctx->objects, UOBJECT_QP, qp->handle);
	if (o)
		emu_qp_post_failed(o->qp, &p, err);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
}

static int post_any(post_fn orig, struct ibv_qp *qp, struct ibv_send_wr *wr,
		    struct ibv_send_wr **bad)
{
	int err = inject_on(INJECT_CALL) ? context_point(qp->context, "ibv_post_send",
							 UOBJECT_QP, qp->handle)
					 : 0;

	if (err) {
		*bad = wr;
		return err;
	}
	*bad = NULL; /* a doorbell that fails leaves it as it was */
	if (qp->qp_type == IBV_QPT_XRC_SEND) {
		err = xrc_post_send(qp, wr, bad);
	} else {
		doorbell = (struct doorbell){qp->qp_num, qp->context->cmd_fd};
		err = orig(qp, wr, bad);
		doorbell.qpn = 0;
	}
	if (err)
		explain_post(qp, *bad ? *bad : wr, err);
	return err;
}

/* Does anybody want to hear of posts of receive requests? */
static bool receives_are_recorded(void)
{
	struct engine *e = engine_running();

	return e && recorder_wants(engine_recorder(e), TRACE_KIND_post_receive);
}

/* They are in the ring, and make no system call. */
static void tell_receives(struct ibv_context *context, enum uobject_type type,
			  uint32_t handle)
{
	struct uverbs_context *ctx = uverbs_lookup(context->cmd_fd);
	struct uobject *o;

	if (!ctx)
		return;
	engine_enter(ctx->engine);
	engine_called(ctx->engine);
	o = uobject_find(&ctx->objects, type, handle);
	if (o && type == UOBJECT_QP)
		emu_qp_receives_posted(o->qp);
	else if (o)
		emu_srq_receives_posted(o->srq);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
}

static int post_recv_any(post_recv_fn orig, struct ibv_qp *qp, struct ibv_recv_wr *wr,
			 struct ibv_recv_wr **bad)
{
	int err = inject_on(INJECT_CALL) ? context_point(qp->context, "ibv_post_recv",
							 UOBJECT_QP, qp->handle)
					 : 0;

	if (err) {
		*bad = wr;
		return err;
	}
	err = orig(qp, wr, bad);
	if (receives_are_recorded())
		tell_receives(qp->context, UOBJECT_QP, qp->handle);
	return err;
}

static int post_srq_any(post_srq_fn orig, struct ibv_srq *srq, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad)
{
	int err = inject_on(INJECT_CALL)
		      ? context_point(srq->context, "ibv_post_srq_recv", UOBJECT_SRQ,
				      srq->handle)
		      : 0;

	if (err) {
		*bad = wr;
		return err;
	}
	err = orig(srq, wr, bad);
	if (receives_are_recorded())
		tell_receives(srq->context, UOBJECT_SRQ, srq->handle);
	return err;
}

static struct ibv_qp *create_of_type(xrc_create_qp_ex_fn orig,
				     struct ibv_context *context,
				     struct ibv_qp_init_attr_ex *attr)
{
	switch (attr->qp_type) {
	case IBV_QPT_XRC_RECV:
		return xrc_create_target(orig, context, attr);
	case IBV_QPT_XRC_SEND:
		return xrc_create_initiator(orig, context, attr);
	default:
		/* which sees ordinary work requests only */
		return checker_get() ? xrc_create_listing(orig, context, attr)
				     : orig(context, attr);
	}
}

static struct ibv_qp *create_qp_any(xrc_create_qp_ex_fn orig, struct ibv_context *context,
				    struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = create_of_type(orig, context, attr);

	if (qp && attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		wr_hook(qp);
	return qp;
}

#define PLACE(i)                                                                         \
	static int poll_##i(struct ibv_cq *cq, int n, struct ibv_wc *wc)                 \
	{                                                                                \
		return poll_driving(ORIG(poll_orig, i), cq, n, wc);                      \
	}                                                                                \
	static int start_poll_##i(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)   \
	{                                                                                \
		return start_driving(ORIG(start_poll_orig, i), cq, attr);                \
	}                                                                                \
	static int next_poll_##i(struct ibv_cq_ex *cq)                                   \
	{                                                                                \
		return next_any(i, cq);                                                  \
	}                                                                                \
	static void end_poll_##i(struct ibv_cq_ex *cq)                                   \
	{                                                                                \
		end_any(ORIG(end_poll_orig, i), cq);                                     \
	}                                                                                \
	static struct ibv_cq_ex *create_cq_ex_##i(struct ibv_context *context,           \
						  struct ibv_cq_init_attr_ex *attr)      \
	{                                                                                \
		return create_hooked(ORIG(create_cq_ex_orig, i), context, attr);         \
	}                                                                                \
	static int post_##i(struct ibv_qp *qp, struct ibv_send_wr *wr,                   \
			    struct ibv_send_wr **bad)                                    \
	{                                                                                \
		return post_any(ORIG(post_orig, i), qp, wr, bad);                        \
	}                                                                                \
	static int post_recv_##i(struct ibv_qp *qp, struct ibv_recv_wr *wr,              \
				 struct ibv_recv_wr **bad)                               \
	{                                                                                \
		return post_recv_any(ORIG(post_recv_orig, i), qp, wr, bad);              \
	}                                                                                \
	static int post_srq_##i(struct ibv_srq *srq, struct ibv_recv_wr *wr,             \
				struct ibv_recv_wr **bad)                                \
	{                                                                                \
		return post_srq_any(ORIG(post_srq_orig, i), srq, wr, bad);               \
	}                                                                                \
	static struct ibv_qp *create_qp_ex_##i(struct ibv_context *context,              \
					       struct ibv_qp_init_attr_ex *attr)         \
	{                                                                                \
		return create_qp_any(ORIG(create_qp_ex_orig, i), context, attr);         \
	}                                                                                \
	static struct ibv_qp *open_qp_##i(struct ibv_context *context,                   \
					  struct ibv_qp_open_attr *attr)                 \
	{                                                                                \
		return xrc_open_target(ORIG(create_qp_ex_orig, i), context, attr);       \
	}

PLACE(0)
PLACE(1)
PLACE(2)
PLACE(3)

static const poll_fn poll_hooked[PLACES] = {poll_0, poll_1, poll_2, poll_3};
static const start_poll_fn start_poll_hooked[PLACES] = {start_poll_0, start_poll_1,
							start_poll_2, start_poll_3};
static const next_poll_fn next_poll_hooked[PLACES] = {next_poll_0, next_poll_1,
						      next_poll_2, next_poll_3};
static const end_poll_fn end_poll_hooked[PLACES] = {end_poll_0, end_poll_1, end_poll_2,
						    end_poll_3};
static const create_cq_ex_fn create_cq_ex_hooked[PLACES] = {
    create_cq_ex_0, create_cq_ex_1, create_cq_ex_2, create_cq_ex_3};

static const post_fn post_hooked[PLACES] = {post_0, post_1, post_2, post_3};
static const post_recv_fn post_recv_hooked[PLACES] = {post_recv_0, post_recv_1,
						      post_recv_2, post_recv_3};
static const post_srq_fn post_srq_hooked[PLACES] = {post_srq_0, post_srq_1, post_srq_2,
						    post_srq_3};
static const xrc_create_qp_ex_fn create_qp_ex_hooked[PLACES] = {
    create_qp_ex_0, create_qp_ex_1, create_qp_ex_2, create_qp_ex_3};
static struct ibv_qp *(*const open_qp_hooked[PLACES])(struct ibv_context *,
						      struct ibv_qp_open_attr *) = {
    open_qp_0, open_qp_1, open_qp_2, open_qp_3};

static void hook_cq_ex(struct ibv_cq_ex *cq)
{
	int i = place_for(start_poll_orig, (void *)cq->start_poll);
	int j = place_for(next_poll_orig, (void *)cq->next_poll);
	int k = place_for(end_poll_orig, (void *)cq->end_poll);

	if (i < 0 || j < 0 || k < 0)
		return;
	cq->start_poll = start_poll_hooked[i];
	cq->next_poll = next_poll_hooked[j];
	cq->end_poll = end_poll_hooked[k];
}

static int advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		     struct ibv_sge *sges, uint32_t n)
{
	struct uverbs_context *ctx = uverbs_lookup(pd->context->cmd_fd);
	int err = EOPNOTSUPP;

	if (ctx) {
		err = inject_on(INJECT_CALL) ? -uverbs_point(ctx, "ibv_advise_mr") : 0;
		if (!err)
			err = -uverbs_advise_mr(ctx, pd->handle, advice, flags, sges, n);
		vfile_put(&ctx->vf);
	}
	if (err)
		errno = err;
	return err;
}

/* Has the verbs_context that @vctx is the member at @offset? New ones come at the top. */
static bool has_member(const struct verbs_context *vctx, size_t offset)
{
	return vctx->sz >= sizeof(*vctx) - offset;
}

static void hook_extended(struct verbs_context *vctx)
{
	int i;

	if (has_member(vctx, offsetof(struct verbs_context, advise_mr)))
		vctx->advise_mr = advise_mr;
	if (has_member(vctx, offsetof(struct verbs_context, create_cq_ex)) &&
	    vctx->create_cq_ex) {
		i = place_for(create_cq_ex_orig, (void *)vctx->create_cq_ex);
		if (i >= 0)
			vctx->create_cq_ex = create_cq_ex_hooked[i];
	}
}

/* All of XRC or nothing: a part of it would only mislead. */
static void hook_xrc(struct verbs_context *vctx)
{
	struct ibv_context *context = &vctx->context;
	int i, j;

	if (!vctx->create_qp_ex || !vctx->create_srq_ex)
		return;
	i = place_for(create_qp_ex_orig, (void *)vctx->create_qp_ex);
	j = place_for(post_orig, (void *)context->ops.post_send);
	if (i < 0 || j < 0)
		return;
	vctx->create_qp_ex = create_qp_ex_hooked[i];
	vctx->open_qp = open_qp_hooked[i];
	context->ops.post_send = post_hooked[j];
	vctx->open_xrcd = xrc_open_xrcd;
	vctx->close_xrcd = xrc_close_xrcd;
	vctx->get_srq_num = xrc_get_srq_num;
}

static bool is_hooked(const struct ibv_context *context)
{
	for (int i = 0; i < PLACES; i++)
		if (context->ops.post_recv == post_recv_hooked[i])
			return true;
	return false;
}

static void hook_receives(struct ibv_context *context)
{
	int i, j;

	i = place_for(post_recv_orig, (void *)context->ops.post_recv);
	j = place_for(post_srq_orig, (void *)context->ops.post_srq_recv);
	if (i < 0 || j < 0)
		return;
	context->ops.post_recv = post_recv_hooked[i];
	context->ops.post_srq_recv = post_srq_hooked[j];
}

void context_hook_receives(struct ibv_context *context)
{
	struct engine *e = engine_running();

	/* those of the checker are outermost: ours are below */
	if (!e || is_hooked(context) || checker_get())
		return;
	/* two threads would take each other's for the provider's */
	engine_enter(e);
	if (!is_hooked(context))
		hook_receives(context);
	engine_leave(e);
}

static void equip(struct ibv_context *context)
{
	struct verbs_context *vctx;
	int i;

	i = place_for(poll_orig, (void *)context->ops.poll_cq);
	if (i >= 0)
		context->ops.poll_cq = poll_hooked[i];
	if (inject_on(INJECT_CALL) || checker_get() || receives_are_recorded())
		hook_receives(context);
	vctx = verbs_get_ctx(context);
	if (!vctx)
		return;
	hook_extended(vctx);
	if (has_member(vctx, offsetof(struct verbs_context, open_qp)))
		hook_xrc(vctx);
}

/* Equip @context if it is one of ours; the checker of the run comes last, and outermost. */
static void equip_ours(struct ibv_context *context)
{
	struct uverbs_context *ctx = uverbs_lookup(context->cmd_fd);
	const struct checker *c = checker_get();

	if (!ctx)
		return;
	vfile_put(&ctx->vf);
	equip(context);
	if (c)
		c->context(context);
}

#undef ibv_open_device
INTERPOSE struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*next)(struct ibv_device *) = next_verb("ibv_open_device");
	struct ibv_context *context = next ? next(device) : NULL;

	if (context)
		equip_ours(context);
	return context;
}

INTERPOSE struct ibv_context *ibv_import_device(int cmd_fd)
{
	struct ibv_context *(*next)(int) = next_verb("ibv_import_device");
	struct ibv_context *context = next ? next(cmd_fd) : NULL;

	if (context)
		equip_ours(context);
	return context;
}

/*
 * Memory that is registered again would need what only libibverbs can do if fork is safe.
 */
static bool fork_matters(int flags)
{
	enum ibv_fork_status (*status)(void) = next_verb("ibv_is_fork_initialized");

	return flags & IBV_REREG_MR_CHANGE_TRANSLATION && status &&
	       status() == IBV_FORK_ENABLED;
}

INTERPOSE int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr,
			   size_t length, int access)
{
	int (*next)(struct ibv_mr *, int, struct ibv_pd *, void *, size_t, int) =
	    next_verb("ibv_rereg_mr");
	struct uverbs_context *ctx = uverbs_lookup(mr->context->cmd_fd);
	int err;

	if (ctx)
		vfile_put(&ctx->vf);
	if (!ctx || fork_matters(flags))
		return next ? next(mr, flags, pd, addr, length, access)
			    : IBV_REREG_MR_ERR_CMD;
	if (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED ||
	    (flags & IBV_REREG_MR_CHANGE_TRANSLATION && (!length || !addr)) ||
	    (flags & IBV_REREG_MR_CHANGE_PD && (!pd || pd->context != mr->context)) ||
	    (access && !(flags & IBV_REREG_MR_CHANGE_ACCESS))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	err = xrc_rereg_mr(mr, flags, pd, addr, length, access);
	if (!err)
		return 0;
	errno = err;
	return IBV_REREG_MR_ERR_CMD;
}
