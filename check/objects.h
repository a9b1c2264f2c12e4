/*
 * objects.h - what objects.c needs of the files that know requests and the program's calls, and
 * gives to them alone.
 */
#ifndef URXE_CHECK_OBJECTS_H
#define URXE_CHECK_OBJECTS_H

#include "check/check.h"

/* The object that had this number, and is destroyed; NULL */
struct check_object *check_find_any(enum trace_object_kind kind, uint32_t id); /* or is */
struct check_object *check_find_gone(enum trace_object_kind kind, uint32_t id);
bool check_is_pinned(const struct check_object *mr);

/* Each CQ that exists and whose object of the program is known */
void check_each_cq(void (*fn)(struct check_object *cq, const void *arg), const void *arg);

/* Each XRC SRQ, until @fn returns true */
bool check_each_xrc_srq(bool (*fn)(struct check_object *srq, void *arg), void *arg);

/* requests.c: who waited for a receive request since *@since, asking *@rnrs times, and is served */
void check_late_receive(const struct check_object *q, uint64_t *since, unsigned int *rnrs,
			const struct check_stack *posted);

/* remote.c: a peer's request, that it is refused, and what answers it */
void check_peer_request(const struct trace_rec_packet_in *r);
void check_refused(uint64_t now, const struct trace_rec_nak_out *r);
/* Of a NAK: the peer has no receive request */
bool check_is_rnr(uint8_t syndrome);
bool check_is_answer(const struct trace_rec_packet_out *r);
void check_answered(const struct trace_rec_packet_out *r);
/* Nothing of @qp is open any more; nothing at all */
void check_remote_forget(const struct check_object *qp);
void check_remote_forget_all(void);
/* The program posts, or a message has come: who knows what it tells whom */
void check_program_acts(void);

/* requests.c: memory is to be prefetched; @later: it goes on when the call is over */
void check_advised(const struct ibv_sge *sges, uint32_t n, bool later);

/* paging.c: a record of on-demand paging; in a child of fork */
void check_paging(enum trace_kind kind, const void *payload);
void check_paging_forget(void);
/* @s has @len bytes at @addr, too */
void check_widen(struct check_span *s, uint64_t addr, uint64_t len);

/* verbs.c: libibverbs keeps registered memory from children */
bool check_fork_is_safe(void);
/* memory.c: the program does, MADV_DONTFORK */
bool check_kept_from_children(uint64_t addr, uint64_t len);

#endif
