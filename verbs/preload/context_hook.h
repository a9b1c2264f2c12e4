/*
 * context_hook.h - what others may ask of the hooks in a context of libibverbs.
 */
#ifndef URXE_VERBS_PRELOAD_CONTEXT_HOOK_H
#define URXE_VERBS_PRELOAD_CONTEXT_HOOK_H

#include <infiniband/verbs.h>

#include "verbs/uverbs/uverbs.h"

/*
 * Posts of receive requests make no system call: from now on they are points of inject/, and told to
 * the HCA while they are recorded. Takes the engine's lock
 */
void context_hook_receives(struct ibv_context *context);

/*
 * What a call about the object @handle of @context is to answer by a rule of inject/: 0, or an error number,
 * which errno has as well
 */
int context_point(struct ibv_context *context, const char *verb, enum uobject_type type,
		  uint32_t handle);

#endif
