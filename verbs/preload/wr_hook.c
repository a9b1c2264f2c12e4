/*
 * wr_hook.c - see wr_hook.h.
 *
 * The point is ibv_wr_complete(3), the only one of these functions that can fail; all requests since
 * ibv_wr_start(3) are dropped then, as by ibv_wr_abort(3). Providers have few different functions for it: each
 * has a place with a function of ours.
 */
#include "verbs/preload/wr_hook.h"

#include "inject/inject.h"
#include "verbs/preload/context_hook.h"
#include "verbs/preload/next_verb.h"

#define PLACES 4

typedef int (*complete_fn)(struct ibv_qp_ex *ex);

static _Atomic(complete_fn) complete_orig[PLACES];

static int complete_any(int i, struct ibv_qp_ex *ex)
{
	struct ibv_qp *qp = &ex->qp_base;
	int err = inject_on(INJECT_CALL) ? context_point(qp->context, "ibv_wr_complete",
							 UOBJECT_QP, qp->handle)
					 : 0;

	if (!err)
		return complete_orig[i](ex);
	ex->wr_abort(ex);
	return err;
}

#define PLACE(i)                                                                         \
	static int complete_##i(struct ibv_qp_ex *ex)                                    \
	{                                                                                \
		return complete_any(i, ex);                                              \
	}

PLACE(0)
PLACE(1)
PLACE(2)
PLACE(3)

static const complete_fn complete_hooked[PLACES] = {complete_0, complete_1, complete_2,
						    complete_3};

/* The place that has @fn, or has it from now on; -1: none is left, or it is ours */
static int place_for(complete_fn fn)
{
	for (int i = 0; i < PLACES; i++) {
		complete_fn was = NULL;

		if (fn == complete_hooked[i])
			return -1;
		if (atomic_compare_exchange_strong(&complete_orig[i], &was, fn) ||
		    was == fn)
			return i;
	}
	return -1;
}

void wr_hook(struct ibv_qp *qp)
{
	struct ibv_qp_ex *(*to_ex)(struct ibv_qp *) = next_verb("ibv_qp_to_qp_ex");
	struct ibv_qp_ex *ex = to_ex ? to_ex(qp) : NULL;
	int i = ex && ex->wr_complete ? place_for(ex->wr_complete) : -1;

	if (i >= 0)
		ex->wr_complete = complete_hooked[i];
}
