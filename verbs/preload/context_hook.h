/*
 * context_hook.h - what others may ask of the hooks in a context of libibverbs.
 */
#ifndef URXE_VERBS_PRELOAD_CONTEXT_HOOK_H
#define URXE_VERBS_PRELOAD_CONTEXT_HOOK_H

#include <infiniband/verbs.h>

/*
 * Posts of receive requests make no system call: from now on they are points of inject/, and told to
 * the HCA while they are recorded. Takes the engine's lock
 */
void context_hook_receives(struct ibv_context *context);

#endif
