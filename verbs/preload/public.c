/*
 * public.c - the functions of urxe.h.
 *
 * Each one finds the core's object behind the application's, under the engine lock, and
 * does the rest without it: page tables have locks of their own. Owns nothing.
 */
#include "verbs/preload/public.h"

#include <errno.h>
#include <string.h>

#include "inject/inject.h"
#include "odp/guard.h"
#include "trace/recorder.h"
#include "verbs/host/paths.h"
#include "verbs/preload/context_hook.h"
#include "verbs/preload/include/urxe.h"

#define MAP_STEP    4096u	/* pages looked at in one go */
#define TRACE_SIZE  (16u << 20) /* of records, unless it is given */
#define MAX_LATENCY (3600ull * 1000000000u)

/* Marks a function that programs call. */
#define PUBLIC __attribute__((visibility("default")))

_Static_assert((int)URXE_PAGE_READ == 1 && (int)URXE_PAGE_WRITE == 2 &&
		   (int)URXE_PAGE_PREFETCHED == 4,
	       "bits of odp_mr_page_map()");
#define SAME_MODEL(id, name, responder, requester, what)                                 \
	&&(int)URXE_FAULT_##id == (int)ODP_FAULT_##id
_Static_assert(1 TRACE_MODELS(SAME_MODEL), "enum odp_fault_model");

/* --- from theirs to ours ---------------------------------------------------------- */

int public_context(struct ibv_context *context, struct uverbs_context **out)
{
	struct uverbs_context *ctx;
	int fd;

	if (!paths_dir())
		return -ENOSYS;
	if (!context || guard_copy(&fd, &context->cmd_fd, sizeof(fd)))
		return -EINVAL;
	ctx = uverbs_lookup(fd);
	if (!ctx)
		return -ENOSYS;
	if (ctx->engine != engine_running()) {
		vfile_put(&ctx->vf);
		return -ENOSYS;
	}
	*out = ctx;
	return 0;
}

/* An MR whose structure was freed and used again has another key, or none */
static int find_mr(struct uverbs_context *ctx, const struct ibv_mr *mr,
		   struct public_mr *out)
{
	struct uobject *o = uobject_find(&ctx->objects, UOBJECT_MR, mr->handle);
	struct odp_mr_info info;

	if (!o || emu_mr_lkey(o->mr) != mr->lkey)
		return -EINVAL;
	*out = (struct public_mr){.ctx = ctx, .odp = odp_mr_get(emu_mr_odp(o->mr))};
	emu_mr_memory(o->mr, &out->memory);
	odp_mr_describe(out->odp, &info);
	out->on_demand = info.on_demand;
	return 0;
}

int public_mr(struct ibv_mr *mr, struct public_mr *out)
{
	struct uverbs_context *ctx;
	struct ibv_mr copy;
	int ret;

	if (!paths_dir())
		return -ENOSYS;
	if (guard_copy(&copy, mr, sizeof(copy)))
		return -EINVAL;
	ret = public_context(copy.context, &ctx);
	if (ret)
		return ret;
	engine_enter(ctx->engine);
	ret = find_mr(ctx, &copy, out);
	engine_progress(ctx->engine, ENGINE_CHANGED);
	engine_leave(ctx->engine);
	if (ret)
		vfile_put(&ctx->vf);
	return ret;
}

void public_mr_put(struct public_mr *m)
{
	odp_mr_put(m->odp);
	vfile_put(&m->ctx->vf);
}

int public_result(int ret)
{
	if (ret)
		errno = -ret;
	return -ret;
}

/* --- the process ------------------------------------------------------------------ */

PUBLIC int urxe_active(void)
{
	return paths_dir() != NULL;
}

PUBLIC const char *urxe_version(void)
{
	return URXE_VERSION;
}

PUBLIC int urxe_is_emulated(struct ibv_context *context)
{
	struct uverbs_context *ctx;

	if (public_context(context, &ctx))
		return 0;
	vfile_put(&ctx->vf);
	return 1;
}

/* --- counters --------------------------------------------------------------------- */

static int give_counters(const struct odp_counters *c, uint64_t cached,
			 struct urxe_counters *to, size_t size)
{
#define GIVE(member, name, unit, text) .name = c->member,
	const struct urxe_counters out = {TRACE_ODP_COUNTERS(GIVE).pages_cached = cached};
#undef GIVE
	size_t known = size < sizeof(out) ? size : sizeof(out);

	memset(to, 0, size);
	memcpy(to, &out, known);
	return 0;
}

PUBLIC int urxe_mr_counters(struct ibv_mr *mr, struct urxe_counters *counters,
			    size_t size)
{
	struct odp_mr_info info;
	struct public_mr m;
	int ret = public_mr(mr, &m);

	if (ret)
		return public_result(ret);
	odp_mr_describe(m.odp, &info);
	public_mr_put(&m);
	return give_counters(&info.counters, info.pages_cached, counters, size);
}

PUBLIC int urxe_mr_reset_counters(struct ibv_mr *mr)
{
	struct public_mr m;
	int ret = public_mr(mr, &m);

	if (ret)
		return public_result(ret);
	odp_mr_reset_counters(m.odp);
	public_mr_put(&m);
	return 0;
}

PUBLIC int urxe_device_counters(struct ibv_context *context,
				struct urxe_counters *counters, size_t size)
{
	struct uverbs_context *ctx;
	struct odp_counters sum;
	uint64_t cached;
	int ret = public_context(context, &ctx);

	if (ret)
		return public_result(ret);
	engine_enter(ctx->engine);
	emu_odp_counters(ctx->hca, &sum, &cached);
	engine_progress(ctx->engine, ENGINE_CHANGED);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	return give_counters(&sum, cached, counters, size);
}

PUBLIC int urxe_device_reset_counters(struct ibv_context *context)
{
	struct uverbs_context *ctx;
	int ret = public_context(context, &ctx);

	if (ret)
		return public_result(ret);
	engine_enter(ctx->engine);
	emu_odp_reset_counters(ctx->hca);
	engine_progress(ctx->engine, ENGINE_CHANGED);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	return 0;
}

/* With the engine lock */
static int find_hw_counter(const struct emu_hca *hca, const char *name, uint64_t *value)
{
	const char *const *names;
	const uint64_t *values;
	size_t n = emu_hw_counters(hca, &names, &values);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i], name))
			continue;
		*value = values[i];
		return 0;
	}
	return -ENOENT;
}

PUBLIC int urxe_device_hw_counter(struct ibv_context *context, const char *name,
				  uint64_t *value)
{
	struct uverbs_context *ctx;
	int ret = public_context(context, &ctx);

	if (ret)
		return public_result(ret);
	engine_enter(ctx->engine);
	ret = find_hw_counter(ctx->hca, name, value);
	engine_progress(ctx->engine, ENGINE_CHANGED);
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	return public_result(ret);
}

/* --- names and page maps ---------------------------------------------------------- */

PUBLIC int urxe_mr_set_name(struct ibv_mr *mr, const char *name)
{
	struct odp_mr_info info;
	struct public_mr m;
	int ret = public_mr(mr, &m);

	if (ret)
		return public_result(ret);
	if (name && strlen(name) >= sizeof(info.name)) {
		ret = -ENAMETOOLONG;
	} else {
		odp_mr_describe(m.odp, &info);
		odp_mr_set_label(m.odp, info.key, name);
	}
	public_mr_put(&m);
	return public_result(ret);
}

PUBLIC size_t urxe_mr_page_size(struct ibv_mr *mr)
{
	struct odp_mr_info info;
	struct public_mr m;
	int ret = public_mr(mr, &m);

	if (ret) {
		errno = -ret;
		return 0;
	}
	odp_mr_describe(m.odp, &info);
	public_mr_put(&m);
	return info.page_size;
}

/*
 * Set the bits from number @bit on; a short answer of the page table means absent pages.
 */
static void map_step(struct odp_mr *mr, uint64_t iova, uint64_t n, unsigned int want,
		     uint8_t *bitmap, uint64_t bit)
{
	uint8_t state[MAP_STEP];
	size_t got = odp_mr_page_map(mr, iova, state, n);

	for (size_t i = 0; i < got; i++)
		if ((state[i] & want) == want)
			bitmap[(bit + i) / 8] |= (uint8_t)(1u << (bit + i) % 8);
}

static int page_map(const struct public_mr *m, uint64_t addr, uint64_t length,
		    unsigned int want, uint8_t *bitmap, size_t size)
{
	struct odp_mr_info info;
	uint64_t off = addr - m->memory.start;
	uint64_t page, iova, n;

	if (off > m->memory.length || length > m->memory.length - off)
		return -EFAULT;
	odp_mr_describe(m->odp, &info);
	page = info.page_size;
	n = (addr + length - 1) / page - addr / page + 1;
	if (size < (n + 7) / 8)
		return -ENOSPC;
	memset(bitmap, 0, (n + 7) / 8);
	if (!m->on_demand)
		return 0;
	for (uint64_t i = 0; i < n; i += MAP_STEP) {
		iova = m->memory.iova + off + (i ? i * page - addr % page : 0);
		map_step(m->odp, iova, n - i < MAP_STEP ? n - i : MAP_STEP, want, bitmap,
			 i);
	}
	return 0;
}

PUBLIC int urxe_mr_page_map(struct ibv_mr *mr, const void *addr, size_t length,
			    unsigned int want, uint8_t *bitmap, size_t size)
{
	const unsigned int known =
	    URXE_PAGE_READ | URXE_PAGE_WRITE | URXE_PAGE_PREFETCHED;
	struct public_mr m;
	int ret = public_mr(mr, &m);

	if (ret)
		return public_result(ret);
	if (!length || !want || (want & ~known))
		ret = -EINVAL;
	else
		ret = page_map(&m, (uintptr_t)addr, length, want, bitmap, size);
	public_mr_put(&m);
	return public_result(ret);
}

PUBLIC int urxe_prefetch_wait(struct ibv_context *context)
{
	struct uverbs_context *ctx;
	int ret = public_context(context, &ctx);

	if (ret)
		return public_result(ret);
	odp_prefetch_drain(engine_odp(ctx->engine));
	vfile_put(&ctx->vf);
	return 0;
}

/* --- faults ----------------------------------------------------------------------- */

static int check_model(enum urxe_fault_model model, uint64_t latency)
{
	return (unsigned int)model >= ODP_FAULT_MODELS || latency > MAX_LATENCY ? -EINVAL
										: 0;
}

PUBLIC int urxe_mr_set_fault_model(struct ibv_mr *mr, enum urxe_fault_model model,
				   uint64_t latency_ns)
{
	struct public_mr m;
	int ret = public_mr(mr, &m);

	if (ret)
		return public_result(ret);
	ret = m.on_demand ? check_model(model, latency_ns) : -EINVAL;
	if (!ret)
		odp_mr_set_model(m.odp, (enum odp_fault_model)model, latency_ns);
	public_mr_put(&m);
	return public_result(ret);
}

PUBLIC int urxe_device_set_fault_model(struct ibv_context *context,
				       enum urxe_fault_model model, uint64_t latency_ns)
{
	struct uverbs_context *ctx;
	int ret = public_context(context, &ctx);

	if (ret)
		return public_result(ret);
	ret = check_model(model, latency_ns);
	if (!ret) {
		engine_enter(ctx->engine);
		emu_set_fault_model(ctx->hca, (enum odp_fault_model)model, latency_ns);
		engine_progress(ctx->engine, ENGINE_CHANGED);
		engine_leave(ctx->engine);
	}
	vfile_put(&ctx->vf);
	return public_result(ret);
}

PUBLIC int urxe_set_fault_script(struct ibv_context *context, const char *script)
{
	struct uverbs_context *ctx;
	int ret = public_context(context, &ctx);

	if (ret)
		return public_result(ret);
	ret = odp_domain_set_script(engine_odp(ctx->engine), script);
	vfile_put(&ctx->vf);
	return public_result(ret);
}

/* --- what goes wrong on purpose --------------------------------------------------- */

PUBLIC int urxe_inject(struct ibv_context *context, const char *text)
{
	struct uverbs_context *ctx;
	int ret = public_context(context, &ctx);

	if (ret)
		return public_result(ret);
	ret = inject_replace(text ? text : "",
			     net_port_is_ruled(engine_port(ctx->engine)), NULL, 0);
	if (!ret) {
		context_hook_receives(context);
		odp_domain_look_again(engine_odp(ctx->engine));
	}
	vfile_put(&ctx->vf);
	return public_result(ret);
}

/* --- traces ----------------------------------------------------------------------- */

PUBLIC int urxe_trace_start(struct ibv_context *context, size_t size)
{
	uint64_t slots = (size ? size : TRACE_SIZE) / sizeof(struct trace_slot);
	struct uverbs_context *ctx;
	struct recorder *r;
	int ret = public_context(context, &ctx);

	if (ret)
		return public_result(ret);
	r = engine_recorder(ctx->engine);
	engine_enter(ctx->engine);
	ret = r ? recorder_start(r, slots, engine_now()) : -ENOTSUP;
	engine_leave(ctx->engine);
	vfile_put(&ctx->vf);
	return public_result(ret);
}

PUBLIC int urxe_trace_stop(struct ibv_context *context, const char *file)
{
	struct uverbs_context *ctx;
	struct recorder *r;
	int ret = public_context(context, &ctx);

	if (ret)
		return public_result(ret);
	r = engine_recorder(ctx->engine);
	engine_enter(ctx->engine);
	ret = r ? recorder_stop(r, engine_now()) : -ENOTSUP;
	engine_leave(ctx->engine);
	if (!ret && file)
		ret = recorder_save(r, file);
	vfile_put(&ctx->vf);
	return public_result(ret);
}
