/*
 * wr_hook.h - requests by ibv_wr_start(3) ... ibv_wr_complete(3) are points of inject/.
 */
#ifndef URXE_VERBS_PRELOAD_WR_HOOK_H
#define URXE_VERBS_PRELOAD_WR_HOOK_H

#include <infiniband/verbs.h>

/* @qp is new and takes such requests; does nothing if it cannot be found how */
void wr_hook(struct ibv_qp *qp);

#endif
