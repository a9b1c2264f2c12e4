/*
 * uverbs_objects.c - creating and destroying the objects of a context.
 *
 * The checks are those that ib_uverbs makes before it calls a driver; what a driver
 * checks, the core does. All functions run under the engine lock, except
 * uverbs_advise_mr().
 */
#include <errno.h>
#include <fcntl.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/container.h"
#include "odp/guard.h"
#include "verbs/uverbs/uverbs.h"

/*
 * struct xrcd - an XRC domain; contexts of one device share that of one file
 * (ibv_open_xrcd(3))
 * @dev, @ino:	of the file
 * @anonymous:	opened without one
 * @refs:	handles
 * @qps:	target QPs in it
 */
struct xrcd {
	struct xrcd *next;
	struct emu_hca *hca;
	struct emu_xrcd *emu;
	dev_t dev;
	ino_t ino;
	bool anonymous;
	unsigned int refs;
	struct xrc_qp *qps;
};

/*
 * struct xrc_qp - an XRC target QP, which lives as long as anybody has it open
 * @sink:	the cookie that the core gets: its events go to all @openers
 */
struct xrc_qp {
	struct xrc_qp *next;
	struct engine_event_sink sink;
	struct xrcd *xrcd;
	struct emu_qp *qp;
	struct uevobject *openers;
};

/*
 * All domains, under the engine lock. Contexts share them, so they belong to none of these; the
 * engine must not know them. A child of fork never finds its parent's: it has other HCAs.
 */
static struct xrcd *xrcds;

/* Of the thread: libibverbs, which calls us back in between, passes nothing on. */
__thread struct uverbs_xrc_target uverbs_xrc_target;

unsigned int uverbs_comp_vectors(void)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);

	return n > 0 ? (unsigned int)n : 1;
}

int uverbs_get_context(struct uverbs_context *ctx)
{
	if (ctx->ready)
		return -EINVAL;
	ctx->ready = true;
	return 0;
}

struct mminfo uverbs_mminfo(struct emu_ring_info ring)
{
	return (struct mminfo){.offset = ring.offset, .size = ring.size};
}

/* --- event files ------------------------------------------------------------------ */

static void on_port(struct engine_port_sink *s, enum ibv_event_type type)
{
	struct uverbs_channel *uc = container_of(s, struct uverbs_channel, port);

	event_post_port(uc->ch, EMU_PORT, type);
}

static void drop_channel(struct uverbs_context *ctx, struct uverbs_channel *uc)
{
	if (uc->ch->async)
		engine_del_port_sink(ctx->engine, &uc->port);
	event_channel_put(uc->ch);
	ctx->n_channels--;
	free(uc);
}

/* Channels whose descriptor is closed, except the context's own */
static void sweep_channels(struct uverbs_context *ctx)
{
	struct uverbs_channel **p = &ctx->channels;

	while (*p) {
		struct uverbs_channel *uc = *p;

		if (uc->ch == ctx->async || !event_channel_is_closed(uc->ch)) {
			p = &uc->next;
			continue;
		}
		*p = uc->next;
		drop_channel(ctx, uc);
	}
	ctx->sweep_at = 2 * ctx->n_channels + 16;
}

int uverbs_make_channel(struct uverbs_context *ctx, bool async)
{
	struct uverbs_channel *uc = calloc(1, sizeof(*uc));
	int fd, ret;

	if (!uc)
		return -ENOMEM;
	if (ctx->n_channels >= ctx->sweep_at)
		sweep_channels(ctx);
	ret = event_channel_open(ctx->engine, async, &fd, &uc->ch);
	if (ret) {
		free(uc);
		return ret;
	}
	if (async) {
		uc->port.dev = ctx->dev;
		uc->port.async = on_port;
		engine_add_port_sink(ctx->engine, &uc->port);
		if (!ctx->async)
			ctx->async = uc->ch;
	}
	uc->next = ctx->channels;
	ctx->channels = uc;
	ctx->n_channels++;
	return fd;
}

void uverbs_drop_channels(struct uverbs_context *ctx)
{
	while (ctx->channels) {
		struct uverbs_channel *uc = ctx->channels;

		ctx->channels = uc->next;
		event_channel_kill(uc->ch);
		drop_channel(ctx, uc);
	}
	ctx->async = NULL;
}

static struct event_channel *async_or_default(struct uverbs_context *ctx,
					      struct event_channel *async)
{
	return async ? async : ctx->async;
}

/* --- CQ, SRQ, QP ------------------------------------------------------------------ */

/* The core refused: give the handle back. */
static int give_up(struct uverbs_context *ctx, struct uobject *o, int err)
{
	if (o->type == UOBJECT_CQ)
		event_source_fini(&uobject_events(o)->comp);
	event_source_fini(&uobject_events(o)->async);
	uobject_free(&ctx->objects, o);
	return err;
}

int uverbs_cq_create(struct uverbs_context *ctx, const struct uverbs_cq_args *args,
		     struct uobject **out)
{
	struct event_channel *comp = NULL;
	struct uobject *o;
	int ret;

	if (args->comp_vector >= uverbs_comp_vectors())
		return -EINVAL;
	if (args->flags)
		return -EOPNOTSUPP; /* neither timestamps nor ignored overruns in rxe */
	if (args->comp_fd >= 0) {
		comp = event_channel_lookup(args->comp_fd);
		if (comp && comp->async) {
			event_channel_put(comp);
			comp = NULL;
		}
		if (!comp)
			return -EBADF;
	}
	o = uobject_new(&ctx->objects, UOBJECT_CQ);
	if (o) {
		event_source_init(&uobject_events(o)->comp, comp, args->user_handle);
		event_source_init(&uobject_events(o)->async,
				  async_or_default(ctx, args->async), args->user_handle);
	}
	if (comp)
		event_channel_put(comp);
	if (!o)
		return -ENOMEM;
	ret = emu_cq_create(ctx->hca, &ctx->rings.owner, &uobject_events(o)->sink,
			    args->cqe, &o->cq);
	if (ret)
		return give_up(ctx, o, ret);
	*out = o;
	return 0;
}

/* ib_uxrcd_object.refcnt of the kernel: the handle cannot be closed before @o is gone. */
static void use_domain(struct uobject *o, struct uobject *xrcd)
{
	uobject_events(o)->domain = xrcd;
	xrcd->users++;
}

int uverbs_srq_create(struct uverbs_context *ctx, struct uverbs_srq_args *args,
		      struct uobject **out)
{
	struct uobject *pd = uobject_find(&ctx->objects, UOBJECT_PD, args->pd);
	struct uobject *xrcd = NULL, *cq = NULL, *o;
	int ret;

	if (args->type == IB_UVERBS_SRQT_XRC) {
		xrcd = uobject_find(&ctx->objects, UOBJECT_XRCD, args->xrcd);
		cq = uobject_find(&ctx->objects, UOBJECT_CQ, args->cq);
	} else if (args->type != IB_UVERBS_SRQT_BASIC) {
		return -EOPNOTSUPP;
	}
	if (!pd || (args->type == IB_UVERBS_SRQT_XRC && (!xrcd || !cq)))
		return -EINVAL;
	o = uobject_new(&ctx->objects, UOBJECT_SRQ);
	if (!o)
		return -ENOMEM;
	event_source_init(&uobject_events(o)->async, async_or_default(ctx, args->async),
			  args->user_handle);
	ret = emu_srq_create(pd->pd, &ctx->rings.owner, &uobject_events(o)->sink,
			     &args->attr, xrcd ? xrcd->xrcd->emu : NULL,
			     cq ? cq->cq : NULL, &o->srq);
	if (ret)
		return give_up(ctx, o, ret);
	if (xrcd)
		use_domain(o, xrcd);
	*out = o;
	return 0;
}

/* What each QP type must and may name (ib_uverbs create_qp()); 0 or -errno */
static int qp_parts(struct uverbs_context *ctx, const struct uverbs_qp_args *args,
		    struct emu_qp_init *init)
{
	struct uobject_table *t = &ctx->objects;
	struct uobject *pd, *scq, *rcq, *srq;

	if (args->type == IBV_QPT_XRC_RECV) {
		struct uobject *xrcd = uobject_find(t, UOBJECT_XRCD, args->xrcd);

		if (!xrcd)
			return -EINVAL;
		init->xrcd = xrcd->xrcd->emu;
		return 0;
	}
	pd = uobject_find(t, UOBJECT_PD, args->pd);
	scq = uobject_find(t, UOBJECT_CQ, args->send_cq);
	if (!pd || !scq)
		return -EINVAL;
	init->pd = pd->pd;
	init->send_cq = scq->cq;
	if (args->type == IBV_QPT_XRC_SEND) {
		init->cap.max_recv_wr = 0;
		init->cap.max_recv_sge = 0;
		return 0;
	}
	rcq = uobject_find(t, UOBJECT_CQ, args->recv_cq);
	srq = args->has_srq ? uobject_find(t, UOBJECT_SRQ, args->srq) : NULL;
	if (!rcq || (args->has_srq && !srq))
		return -EINVAL;
	init->recv_cq = rcq->cq;
	init->srq = srq ? srq->srq : NULL;
	return 0;
}

static bool qp_type_known(enum ibv_qp_type type)
{
	return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
	       type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

/* A handle and its events for a QP to be; NULL: ENOMEM */
static struct uobject *qp_object(struct uverbs_context *ctx,
				 const struct uverbs_qp_args *args)
{
	struct uobject *o = uobject_new(&ctx->objects, UOBJECT_QP);

	if (o)
		event_source_init(&uobject_events(o)->async,
				  async_or_default(ctx, args->async), args->user_handle);
	return o;
}

/* --- XRC target QPs --------------------------------------------------------------- */

static void xrc_no_comp(struct engine_event_sink *s)
{
}

static void xrc_on_async(struct engine_event_sink *s, enum ibv_event_type type)
{
	struct xrc_qp *x = container_of(s, struct xrc_qp, sink);

	for (struct uevobject *o = x->openers; o; o = o->next_opener)
		event_post(&o->async, type);
}

static void xrc_add_opener(struct xrc_qp *x, struct uobject *o, struct uobject *xrcd)
{
	use_domain(o, xrcd);
	o->qp = x->qp;
	o->xrc = x;
	uobject_events(o)->next_opener = x->openers;
	x->openers = uobject_events(o);
}

static int xrc_create(struct uverbs_context *ctx, uint32_t handle,
		      struct emu_qp_init *init, struct uobject *o)
{
	struct uobject *xrcd = uobject_find(&ctx->objects, UOBJECT_XRCD, handle);
	struct xrc_qp *x = calloc(1, sizeof(*x));
	int ret;

	if (!x)
		return -ENOMEM;
	x->sink = (struct engine_event_sink){.comp = xrc_no_comp, .async = xrc_on_async};
	x->xrcd = xrcd->xrcd;
	init->cookie = &x->sink;
	ret = emu_qp_create(ctx->hca, init, &x->qp);
	if (ret) {
		free(x);
		return ret;
	}
	x->next = x->xrcd->qps;
	x->xrcd->qps = x;
	xrc_add_opener(x, o, xrcd);
	return 0;
}

/* The last opener's close ends the QP. */
static int xrc_close(struct uobject *o)
{
	struct uevobject **p = &o->xrc->openers;
	struct xrc_qp *x = o->xrc;
	int ret = 0;

	if (x->openers == uobject_events(o) && !uobject_events(o)->next_opener)
		ret = emu_qp_destroy(x->qp);
	if (ret)
		return ret;
	while (*p != uobject_events(o))
		p = &(*p)->next_opener;
	*p = uobject_events(o)->next_opener;
	if (x->openers)
		return 0;
	for (struct xrc_qp **q = &x->xrcd->qps; *q; q = &(*q)->next) {
		if (*q == x) {
			*q = x->next;
			break;
		}
	}
	free(x);
	return 0;
}

int uverbs_qp_open(struct uverbs_context *ctx, const struct uverbs_qp_args *args,
		   struct uobject **out)
{
	struct uobject *xrcd = uobject_find(&ctx->objects, UOBJECT_XRCD, args->xrcd);
	struct xrc_qp *x = xrcd ? xrcd->xrcd->qps : NULL;
	struct uobject *o;

	while (x && emu_qp_num(x->qp) != args->qpn)
		x = x->next;
	if (!x || args->type != IBV_QPT_XRC_RECV)
		return -EINVAL;
	o = qp_object(ctx, args);
	if (!o)
		return -ENOMEM;
	xrc_add_opener(x, o, xrcd);
	*out = o;
	return 0;
}

/* What the provider asked for is not what it is to get: see struct uverbs_xrc_target. */
static bool divert(struct uverbs_qp_args *args)
{
	const struct uverbs_xrc_target *t = &uverbs_xrc_target;

	if (!t->pending)
		return false;
	args->type = IBV_QPT_XRC_RECV;
	args->xrcd = t->xrcd;
	args->qpn = t->qpn;
	args->has_srq = false;
	return t->open;
}

int uverbs_qp_create(struct uverbs_context *ctx, struct uverbs_qp_args *args,
		     struct uobject **out)
{
	struct emu_qp_init init = {
	    .cap = args->cap,
	    .sq_sig_all = args->sq_sig_all,
	    .owner = &ctx->rings.owner,
	};
	struct uobject *o;
	int ret;

	if (divert(args))
		return uverbs_qp_open(ctx, args, out);
	if (args->type == IBV_QPT_RAW_PACKET || args->type == IBV_QPT_DRIVER)
		return -EOPNOTSUPP;
	if (!qp_type_known(args->type))
		return -EINVAL;
	init.type = args->type;
	ret = qp_parts(ctx, args, &init);
	if (ret)
		return ret;
	o = qp_object(ctx, args);
	if (!o)
		return -ENOMEM;
	init.cookie = &uobject_events(o)->sink;
	if (args->type == IBV_QPT_XRC_RECV)
		ret = xrc_create(ctx, args->xrcd, &init, o);
	else
		ret = emu_qp_create(ctx->hca, &init, &o->qp);
	if (ret)
		return give_up(ctx, o, ret);
	args->cap = init.cap;
	*out = o;
	return 0;
}

/* A page that nothing is written to, for the provider to map */
static struct mminfo empty_ring(struct uverbs_context *ctx)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (!ctx->empty_ring)
		ctx->empty_ring = ctx->rings.owner.alloc(&ctx->rings.owner, page,
							 &ctx->empty_ring_offset);
	if (!ctx->empty_ring)
		return (struct mminfo){0};
	return (struct mminfo){.offset = ctx->empty_ring_offset, .size = (uint32_t)page};
}

struct rxe_create_qp_resp uverbs_qp_rings(struct uverbs_context *ctx,
					  const struct uobject *o)
{
	struct rxe_create_qp_resp r = {
	    .rq_mi = uverbs_mminfo(emu_qp_rq_ring(o->qp)),
	    .sq_mi = uverbs_mminfo(emu_qp_sq_ring(o->qp)),
	};

	if (!r.rq_mi.size)
		r.rq_mi = empty_ring(ctx);
	if (!r.sq_mi.size)
		r.sq_mi = empty_ring(ctx);
	return r;
}

/* --- XRCD ------------------------------------------------------------------------- */

static struct xrcd *xrcd_find(const struct uverbs_context *ctx, const struct stat *st)
{
	struct xrcd *x;

	for (x = xrcds; x; x = x->next)
		if (x->hca == ctx->hca && !x->anonymous && x->dev == st->st_dev &&
		    x->ino == st->st_ino)
			return x;
	return NULL;
}

static int xrcd_make(struct uverbs_context *ctx, const struct stat *st, struct xrcd **out)
{
	struct xrcd *x = calloc(1, sizeof(*x));
	int ret;

	if (!x)
		return -ENOMEM;
	ret = emu_xrcd_create(ctx->hca, &x->emu);
	if (ret) {
		free(x);
		return ret;
	}
	x->hca = ctx->hca;
	x->anonymous = !st;
	if (st) {
		x->dev = st->st_dev;
		x->ino = st->st_ino;
	}
	x->next = xrcds;
	xrcds = x;
	*out = x;
	return 0;
}

/* Whatever was in the domain came to it by a handle, and is gone when the last of these goes. */
static int xrcd_put(struct xrcd *x)
{
	int ret = x->refs == 1 ? emu_xrcd_destroy(x->emu) : 0;

	if (ret || --x->refs)
		return ret;
	for (struct xrcd **p = &xrcds; *p; p = &(*p)->next) {
		if (*p == x) {
			*p = x->next;
			break;
		}
	}
	free(x);
	return 0;
}

int uverbs_xrcd_open(struct uverbs_context *ctx, int fd, int oflags, struct uobject **out)
{
	struct xrcd *x = NULL;
	struct uobject *o;
	struct stat st;
	int ret = 0;

	if (fd != -1) {
		if (fstat(fd, &st))
			return -EBADF;
		x = xrcd_find(ctx, &st);
		if (!x && !(oflags & O_CREAT))
			return -EAGAIN;
		if (x && (oflags & O_EXCL))
			return -EINVAL;
	}
	o = uobject_new(&ctx->objects, UOBJECT_XRCD);
	if (!o)
		return -ENOMEM;
	if (!x)
		ret = xrcd_make(ctx, fd == -1 ? NULL : &st, &x);
	if (ret) {
		uobject_free(&ctx->objects, o);
		return ret;
	}
	x->refs++;
	o->xrcd = x;
	*out = o;
	return 0;
}

/* --- destruction ------------------------------------------------------------------ */

static void detach_all(struct uobject *o)
{
	emu_qp_detach_all_mcast(o->qp);
	while (o->mcast) {
		struct uobject_mcast *m = o->mcast;

		o->mcast = m->next;
		free(m);
	}
}

static int destroy_core(struct uobject *o)
{
	switch (o->type) {
	case UOBJECT_PD:
		return emu_pd_destroy(o->pd);
	case UOBJECT_MR:
		return emu_mr_dereg(o->mr);
	case UOBJECT_MW:
		return emu_mw_dealloc(o->mw);
	case UOBJECT_CQ:
		return emu_cq_destroy(o->cq);
	case UOBJECT_SRQ:
		return emu_srq_destroy(o->srq);
	case UOBJECT_QP:
		return o->xrc ? xrc_close(o) : emu_qp_destroy(o->qp);
	case UOBJECT_AH:
		return emu_ah_destroy(o->ah);
	case UOBJECT_XRCD:
		return o->users ? -EBUSY : xrcd_put(o->xrcd);
	}
	return -EINVAL;
}

static int destroy(struct uverbs_context *ctx, struct uobject *o,
		   struct uverbs_reported *rep)
{
	struct uevobject *ev = uobject_events(o);
	int ret = destroy_core(o);

	if (ret)
		return ret;
	if (o->type == UOBJECT_CQ) {
		event_source_fini(&ev->comp);
		rep->comp = ev->comp.reported;
	}
	if (o->type == UOBJECT_CQ || o->type == UOBJECT_SRQ || o->type == UOBJECT_QP) {
		event_source_fini(&ev->async);
		rep->async = ev->async.reported;
	}
	if ((o->type == UOBJECT_SRQ || o->type == UOBJECT_QP) && ev->domain)
		ev->domain->users--;
	uobject_free(&ctx->objects, o);
	return 0;
}

int uverbs_destroy(struct uverbs_context *ctx, enum uobject_type type, uint32_t handle,
		   struct uverbs_reported *rep)
{
	struct uobject *o = uobject_find(&ctx->objects, type, handle);
	struct uverbs_reported ignored;
	struct uverbs_unacked left;
	struct odp_mr *memory;
	int ret;

	if (!o)
		return uobject_exists(&ctx->objects, handle) ? -EINVAL : -ENOENT;
	if (type == UOBJECT_QP && o->mcast)
		return -EBUSY;
	engine_progress(ctx->engine, ENGINE_CHANGED);
	memory = type == UOBJECT_MR ? odp_mr_get(emu_mr_odp(o->mr)) : NULL;
	uverbs_unacked(o, &left);
	ret = destroy(ctx, o, rep ? rep : &ignored);
	if (!ret && (left.comp || left.async))
		emu_note_unacked(ctx->hca, left.object, left.id, left.comp, left.async);
	if (memory && ret)
		odp_mr_put(memory);
	else
		ctx->left = memory;
	return ret;
}

void uverbs_undo(struct uverbs_context *ctx, struct uobject *o)
{
	struct uverbs_reported ignored;

	destroy(ctx, o, &ignored);
}

/* True if any could be destroyed */
static bool destroy_type(struct uverbs_context *ctx, enum uobject_type type)
{
	struct uverbs_reported ignored;
	bool some = false;

	for (uint32_t h = 0; h < ctx->objects.cap; h++) {
		struct uobject *o = uobject_find(&ctx->objects, type, h);

		if (!o)
			continue;
		if (type == UOBJECT_QP)
			detach_all(o);
		if (destroy(ctx, o, &ignored) == 0)
			some = true;
	}
	return some;
}

/* Users before what they use; another round for what an order within a type decides */
void uverbs_destroy_all(struct uverbs_context *ctx)
{
	static const enum uobject_type order[] = {
	    UOBJECT_AH, UOBJECT_QP, UOBJECT_MW,	  UOBJECT_SRQ,
	    UOBJECT_CQ, UOBJECT_MR, UOBJECT_XRCD, UOBJECT_PD,
	};
	bool some = true;

	engine_progress(ctx->engine, ENGINE_CHANGED);
	while (ctx->objects.used && some) {
		some = false;
		for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++)
			some |= destroy_type(ctx, order[i]);
	}
}

/* --- advice ----------------------------------------------------------------------- */

static int find_advised(struct uverbs_context *ctx, uint32_t pd,
			const struct ibv_sge *sge, enum odp_advice advice,
			struct odp_mr **mr)
{
	struct uobject *o;
	int ret;

	engine_enter(ctx->engine);
	o = uobject_find(&ctx->objects, UOBJECT_PD, pd);
	ret = o ? emu_advise_find(o->pd, sge->lkey, sge->addr, sge->length, advice, mr)
		: -EINVAL;
	engine_progress(ctx->engine, ENGINE_CHANGED);
	engine_leave(ctx->engine);
	return ret;
}

static int advise_one(struct uverbs_context *ctx, uint32_t pd, enum odp_advice advice,
		      bool flush, const struct ibv_sge *sge)
{
	struct odp_mr *mr;
	int ret = find_advised(ctx, pd, sge, advice, &mr);

	if (ret)
		return ret;
	ret = flush ? odp_prefetch(mr, sge->addr, sge->length, advice)
		    : odp_prefetch_async(mr, sge->addr, sge->length, advice);
	odp_mr_put(mr);
	return ret;
}

/*
 * All keys are checked before anything is prefetched, when nobody waits for the result.
 */
static int check_all(struct uverbs_context *ctx, uint32_t pd, enum odp_advice advice,
		     const struct ibv_sge *sges, uint32_t n)
{
	struct ibv_sge sge;
	struct odp_mr *mr;
	int ret;

	for (uint32_t i = 0; i < n; i++) {
		if (guard_copy(&sge, &sges[i], sizeof(sge)))
			return -EFAULT;
		ret = find_advised(ctx, pd, &sge, advice, &mr);
		if (ret)
			return ret;
		odp_mr_put(mr);
	}
	return 0;
}

int uverbs_advise_mr(struct uverbs_context *ctx, uint32_t pd, uint32_t advice,
		     uint32_t flags, const struct ibv_sge *sges, uint32_t n)
{
	bool flush = flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH;
	struct ibv_sge sge;
	int ret = 0;

	if (!n || flags & ~(uint32_t)IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return -EINVAL;
	if (advice > IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return -EOPNOTSUPP;
	if (!flush)
		ret = check_all(ctx, pd, (enum odp_advice)advice, sges, n);
	for (uint32_t i = 0; i < n && !ret; i++) {
		if (guard_copy(&sge, &sges[i], sizeof(sge)))
			return -EFAULT;
		ret = advise_one(ctx, pd, (enum odp_advice)advice, flush, &sge);
	}
	return ret;
}
