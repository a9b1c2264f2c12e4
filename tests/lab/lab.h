/*
 * lab.h - what the tests of on-demand paging through real verbs share.
 *
 * Each test is a program that runs under `urxe run`: it opens rxe0 with the
 * distribution's libibverbs, and has two connected RC queue pairs, "left" and "right", in
 * the same process. Check forks for each test, so each has a device of its own. All
 * functions fail the test when something that is not its subject goes wrong.
 */
#ifndef URXE_TESTS_LAB_H
#define URXE_TESTS_LAB_H

#include <check.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "urxe.h"

#define LAB_PAGE 4096u
#define LAB_WAIT 20 /* s, for one completion: a loaded machine is slow */

#define LAB_ACCESS                                                                       \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |     \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define LAB_ODP (LAB_ACCESS | IBV_ACCESS_ON_DEMAND)

/*
 * struct lab
 * @cq: of both queue pairs
 * @rnr_retry, @retry_cnt, @timeout, @reads (at once): of the next lab_connect(); lab_open() sets
 *		7, 7, 14, 16
 */
struct lab {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *left, *right;
	union ibv_gid gid;
	uint8_t rnr_retry, retry_cnt, timeout, reads;
};

/* A device and two queue pairs; not connected yet */
void lab_open(struct lab *l);
/* All goes, which must succeed */
void lab_close(struct lab *l);
/*
 * Connect the queue pairs, from whatever state they are in; both send queues start empty
 */
void lab_connect(struct lab *l);
/* lab_open() and lab_connect() */
void lab_begin(struct lab *l);

struct ibv_mr *lab_reg(struct lab *l, void *addr, size_t len, int access);
/* Wait for one completion */
struct ibv_wc lab_wait(struct lab *l);

/* --- one operation of "left", its status ------------------------------------------ */

/* WRITE from @from to @to of "right" */
enum ibv_wc_status lab_write(struct lab *l, struct ibv_mr *from, const void *src,
			     struct ibv_mr *to, void *dst, uint32_t len);
/* READ from @from of "right" into @to */
enum ibv_wc_status lab_read(struct lab *l, struct ibv_mr *to, void *dst,
			    struct ibv_mr *from, const void *src, uint32_t len);
/* SEND from @from of "left", received by "right" into @to; the status of the sender */
enum ibv_wc_status lab_send(struct lab *l, struct ibv_mr *from, const void *src,
			    struct ibv_mr *to, void *dst, uint32_t len);
/* FETCH_ADD on @to of "right", what was there into @result */
enum ibv_wc_status lab_add(struct lab *l, struct ibv_mr *result, uint64_t *old,
			   struct ibv_mr *to, uint64_t *p, uint64_t add);
/* Post what another lab_*() function cannot say. */
void lab_post(struct ibv_qp *qp, struct ibv_send_wr *wr);
void lab_post_recv(struct ibv_qp *qp, struct ibv_mr *mr, void *p, uint32_t len);

/* ibv_advise_mr() of one range */
int lab_advise(struct lab *l, enum ibv_advise_mr_advice advice, uint32_t flags,
	       struct ibv_mr *mr, const void *addr, uint32_t len);

/* --- memory and counters ---------------------------------------------------------- */

/* Anonymous private memory of @pages pages, not touched */
char *lab_map(size_t pages);
/* A byte that depends on its place and on @seed */
void lab_fill(void *p, size_t len, unsigned int seed);
bool lab_is(const void *p, size_t len, unsigned int seed);

struct urxe_counters lab_counters(struct ibv_mr *mr);
uint64_t lab_faults(struct ibv_mr *mr);
/* Is the page of @addr in the page table? URXE_PAGE_* */
bool lab_cached(struct ibv_mr *mr, const void *addr, unsigned int want);

/* Run the only suite; the exit code */
int lab_main(Suite *s);

#endif
