/*
 * poll_watch.h - counts what the program polls, so that others can tell whether completions
 * wait for it.
 */
#ifndef URXE_VERBS_PRELOAD_POLL_WATCH_H
#define URXE_VERBS_PRELOAD_POLL_WATCH_H

#include <infiniband/verbs.h>

/* @n completions were taken from @cq, n > 0. Waits for no lock but at a CQ's first time */
void poll_watch(struct ibv_cq *cq, int n);
/* @cq was empty. Waits for no lock but at a CQ's first time */
void poll_watch_vain(struct ibv_cq *cq);

#endif
