/*
 * public.h - from the objects of libibverbs to those of the core, for functions that
 * programs call directly.
 *
 * Structures of the application are read through guarded copies: a pointer to an object
 * that is gone must not end the program.
 */
#ifndef URXE_VERBS_PRELOAD_PUBLIC_H
#define URXE_VERBS_PRELOAD_PUBLIC_H

#include <infiniband/verbs.h>

#include "verbs/uverbs/uverbs.h"

/*
 * struct public_mr - an MR of ours
 * @ctx: a reference
 * @odp: a reference; @memory: of the HCA at the time of the look-up
 */
struct public_mr {
	struct uverbs_context *ctx;
	struct odp_mr *odp;
	struct emu_mr_memory memory;
	bool writable, on_demand;
};

/*
 * public_context - the context behind a libibverbs one, with a reference (vfile_put()).
 * 0; -ENOSYS: not a device of ours, or of a parent process; -EINVAL: no context
 */
int public_context(struct ibv_context *context, struct uverbs_context **out);
/* public_mr - an MR; give it back with public_mr_put(). Errors as above */
int public_mr(struct ibv_mr *mr, struct public_mr *out);
void public_mr_put(struct public_mr *m);
/* public_result - 0 or -errno becomes what a verb returns, and errno */
int public_result(int ret);

#endif
