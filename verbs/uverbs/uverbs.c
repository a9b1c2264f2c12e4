/*
 * uverbs.c - the uverbs character device: open, close, and moving requests and answers.
 *
 * A context is what an open of /dev/infiniband/uverbsN gives: objects, rings, event
 * files. The descriptor is a memfd, which the provider library maps rings from; commands
 * come through the vfile behind it. The last close destroys all that the application
 * left.
 */
#include "verbs/uverbs/uverbs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "odp/guard.h"
#include "trace/recorder.h"
#include "verbs/host/paths.h"

static void context_release(struct vfile *vf)
{
	struct uverbs_context *ctx = (struct uverbs_context *)vf;
	struct engine *e = ctx->engine;

	engine_enter(e);
	uverbs_drop_channels(ctx);
	if (engine_recorder(e))
		engine_recorder(e)->hdr->abandoned += ctx->objects.used;
	ctx->objects.left = NULL;
	uverbs_destroy_all(ctx);
	/* nothing can be left; if the core keeps something, it keeps its rings */
	if (!ctx->objects.used) {
		uobject_table_fini(&ctx->objects);
		ring_space_close(&ctx->rings);
		free(ctx);
	}
	engine_progress(e, ENGINE_CHANGED);
	engine_leave(e);
}

static const struct vfile_ops context_ops = {
    .write = uverbs_write,
    .ioctl = uverbs_ioctl,
    .release = context_release,
};

int uverbs_open(unsigned int index, int flags)
{
	struct engine *e = engine_get();
	struct engine_device *dev = e ? engine_device(e, index) : NULL;
	struct uverbs_context *ctx;
	int fd, ret;

	if (!dev)
		return e ? -ENXIO : errno ? -errno : -ENXIO;
	ctx = calloc(1, sizeof(*ctx));
	if (!ctx)
		return -ENOMEM;
	ctx->vf.ops = &context_ops;
	ctx->vf.rdev = paths_node_rdev((int)index);
	ctx->engine = e;
	ctx->dev = dev;
	ctx->hca = dev->hca;
	ctx->sweep_at = 16;
	if (engine_recorder(e))
		ctx->objects.left = engine_recorder(e)->hdr->left;
	ret = ring_space_open(&ctx->rings, &fd);
	if (ret)
		goto fail;
	ret = vfile_install(fd, &ctx->vf);
	if (!ret)
		return fd;
	ring_space_close(&ctx->rings);
	close(fd);
fail:
	free(ctx);
	return ret;
}

void uverbs_leave(struct uverbs_context *ctx, enum engine_work work)
{
	struct odp_mr *left = ctx->left;

	ctx->left = NULL;
	engine_progress(ctx->engine, work);
	engine_leave(ctx->engine);
	if (!left)
		return;
	odp_mr_quiesce(left);
	odp_mr_put(left);
}

struct uverbs_context *uverbs_lookup(int fd)
{
	return (struct uverbs_context *)vfile_get_as(fd, &context_ops);
}

/* --- requests and answers --------------------------------------------------------- */

int uverbs_is_zero(uintptr_t p, size_t len)
{
	uint8_t part[64];

	while (len) {
		size_t n = len < sizeof(part) ? len : sizeof(part);

		if (guard_copy(part, (const void *)p, n))
			return -EFAULT;
		for (size_t i = 0; i < n; i++)
			if (part[i])
				return 0;
		p += n;
		len -= n;
	}
	return 1;
}

int uverbs_request(const struct uverbs_call *c, void *buf, size_t len)
{
	size_t n = c->in_len < len ? c->in_len : len;
	int zero;

	memset(buf, 0, len);
	if (n && guard_copy(buf, c->in, n))
		return -EFAULT;
	if (c->in_len <= len)
		return 0;
	zero = uverbs_is_zero((uintptr_t)c->in + len, c->in_len - len);
	return zero < 0 ? zero : zero ? 0 : -EOPNOTSUPP;
}

static int put_zeros(uintptr_t p, size_t len)
{
	static const uint8_t zeros[64];

	while (len) {
		size_t n = len < sizeof(zeros) ? len : sizeof(zeros);

		if (guard_copy((void *)p, zeros, n))
			return -EFAULT;
		p += n;
		len -= n;
	}
	return 0;
}

int uverbs_response(const struct uverbs_call *c, const void *buf, size_t len)
{
	size_t n = c->out_len < len ? c->out_len : len;

	if (n && guard_copy(c->out, buf, n))
		return -EFAULT;
	return put_zeros((uintptr_t)c->out + n, c->out_len - n);
}

int uverbs_hw_response(const struct uverbs_call *c, const void *buf, size_t len)
{
	size_t n = c->hw_out_len < len ? c->hw_out_len : len;

	return n && guard_copy(c->hw_out, buf, n) ? -EFAULT : 0;
}
