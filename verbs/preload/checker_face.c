/*
 * checker_face.c - what liburxe.so offers to the checker's library (check/), by name.
 */
#include "odp/guard.h"
#include "verbs/engine/checker.h"
#include "verbs/preload/checker_face.h"
#include "verbs/preload/xrc.h"
#include "verbs/uverbs/uverbs.h"

void urxe_checker_attach(const struct checker *c)
{
	checker_attach(c);
}

int urxe_checker_copy(void *to, const void *from, size_t len)
{
	return guard_copy(to, from, len);
}

uint16_t urxe_checker_device(struct ibv_context *context)
{
	struct uverbs_context *ctx = uverbs_lookup(context->cmd_fd);
	uint16_t index = 0;

	if (ctx) {
		index = (uint16_t)ctx->dev->index;
		vfile_put(&ctx->vf);
	}
	return index;
}

uint32_t urxe_checker_cq(struct ibv_cq *cq)
{
	struct uverbs_context *ctx = uverbs_lookup(cq->context->cmd_fd);
	struct uobject *o;
	uint32_t num = 0;

	if (!ctx)
		return 0;
	engine_enter(ctx->engine);
	o = uobject_find(&ctx->objects, UOBJECT_CQ, cq->handle);
	if (o)
		num = emu_cq_num(o->cq);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	return num;
}

uint32_t urxe_checker_srq(struct ibv_srq *srq)
{
	uint32_t num;

	return xrc_get_srq_num(srq, &num) ? 0 : num;
}

int urxe_checker_private(int fd)
{
	return vfile_private_move(fd);
}

void urxe_checker_close(int fd)
{
	vfile_private_close(fd);
}
