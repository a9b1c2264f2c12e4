/*
 * reads.h - does the program look at memory before it may? (reads.c) With the lock.
 */
#ifndef URXE_CHECK_READS_H
#define URXE_CHECK_READS_H

#include <stdint.h>

struct check_object;
struct check_request;
struct check_use;

/* @u, to which the HCA will write, begins */
void check_reads_begin(struct check_use *u);
/* @r is about to be done, or forgotten */
void check_reads_end(const struct check_request *r);
/* A peer's WRITE to @mr comes */
void check_reads_peer(const struct check_object *mr, uint64_t addr, uint64_t len);
/* One of @qp was polled, which says nothing of what another QP of the peer writes (qp.told) */
void check_reads_told(struct check_object *qp);
/* A message was polled: what was written before it may be read. Also at exit */
void check_reads_message(void);
void check_reads_exit(void);

#endif
