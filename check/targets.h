/*
 * targets.h - do requests write to the same memory of a peer without an order? (targets.c) With the
 * lock.
 */
#ifndef URXE_CHECK_TARGETS_H
#define URXE_CHECK_TARGETS_H

#include <infiniband/verbs.h>
#include <stdbool.h>

struct check_object;
struct check_request;

/* @r is posted, it is done */
void check_target_add(struct check_request *r, const struct ibv_send_wr *wr);
void check_target_del(struct check_request *r);
/* Do they lead to one process? */
bool check_is_same_peer(const struct check_object *a, const struct check_object *b);
/* The completion of a receive request was polled */
void check_message_came(void);
/* In a child of fork */
void check_targets_forget(void);

#endif
