/*
 * context_hook.h - what is put into a context of libibverbs that is ours.
 *
 * Operations in <infiniband/verbs.h>'s ibv_context and verbs_context are public ABI;
 * those that the provider lacks or that gain from knowing that the HCA is in the process
 * are set when a device is opened. Programs that find ibv_open_device by dlopen(3) go
 * without.
 */
#ifndef URXE_VERBS_PRELOAD_CONTEXT_HOOK_H
#define URXE_VERBS_PRELOAD_CONTEXT_HOOK_H

#include <infiniband/verbs.h>

/* context_hook - equip @context if it is one of ours */
void context_hook(struct ibv_context *context);

#endif
