/*
 * uverbs_points.h - where a verb can be made to fail: each request asks once, by the name of the
 * verb that it belongs to, before it is looked at and without the engine's lock.
 *
 * What a rule wants otherwise (an event, a QP in ERR) is done in here. All functions: 0, or the
 * -errno that the request is to answer.
 */
#ifndef URXE_VERBS_UVERBS_POINTS_H
#define URXE_VERBS_UVERBS_POINTS_H

#include "inject/inject.h"
#include "verbs/uverbs/uverbs_ioctl.h"

/* A verb that is about no object, or none that matters here */
int uverbs_point(struct uverbs_context *ctx, const char *verb);
/* One that posts to the object @handle, a QP or SRQ */
int uverbs_point_post(struct uverbs_context *ctx, const char *verb,
		      enum uobject_type type, uint32_t handle);
/* A command by its number, a method by its request; those of no verb ask nothing */
int uverbs_ask_command(struct uverbs_context *ctx, uint32_t command);
int uverbs_ask_method(struct uverbs_request *r);

/* Without rules for calls, which is what all messages pay for, no function is called. */
static inline int uverbs_point_command(struct uverbs_context *ctx, uint32_t command)
{
	return inject_on(INJECT_CALL) || emu_hca_is_dead(ctx->hca)
		   ? uverbs_ask_command(ctx, command)
		   : 0;
}

static inline int uverbs_point_method(struct uverbs_request *r)
{
	return inject_on(INJECT_CALL) || emu_hca_is_dead(r->ctx->hca)
		   ? uverbs_ask_method(r)
		   : 0;
}

#endif
