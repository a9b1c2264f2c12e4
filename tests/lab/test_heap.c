/*
 * Description: what lands in the program's freed memory is the program's fault and breaks nothing
 * of the HCA: it completes what is posted, and goes on.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lab.h"

#define SIZES	9 /* of 16 bytes up to 4096 */
#define TARGETS 4 /* of each */
#define LARGEST 4096u

/* Exit codes: nothing of Check, which allocates, may be called after the receives */
enum { WHOLE, POST_FAILED, NO_COMPLETION, ADVICE_FAILED };

static void send_from(struct lab *l, struct ibv_mr *from, uint32_t len)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)from->addr, .length = len, .lkey = from->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED};
	time_t end = time(NULL) + LAB_WAIT;
	struct ibv_wc wc;
	int n = 0;

	if (ibv_post_send(l->left, &wr, &bad))
		_exit(POST_FAILED);
	while (n < 2 && time(NULL) < end) {
		int got = ibv_poll_cq(l->cq, 1, &wc);

		if (got > 0 && wc.status)
			break;
		n += got;
	}
	if (n < 2)
		_exit(NO_COMPLETION);
}

static int prefetch(struct lab *l, struct ibv_mr *mr, uint32_t pages)
{
	struct ibv_sge range = {
	    .addr = (uintptr_t)mr->addr, .length = pages * LAB_PAGE, .lkey = mr->lkey};

	return ibv_advise_mr(l->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, &range, 1);
}

/*
 * Receives into blocks that are freed: malloc(3) has its chains in them, which are overwritten.
 * Then the HCA needs memory: prefetching is asked for, for which libibverbs needs none.
 */
START_TEST(receives_into_freed_blocks_leave_the_hca_whole)
{
	static char *block[SIZES * TARGETS], out[LARGEST];
	char *pages = lab_map(64);
	struct ibv_mr *from, *odp;
	struct lab l;

	lab_begin(&l);
	memset(out, 0xff, sizeof(out));
	from = lab_reg(&l, out, sizeof(out), IBV_ACCESS_LOCAL_WRITE);
	odp = lab_reg(&l, pages, 64 * LAB_PAGE, LAB_ODP);
	/* this makes the thread, for which libc allocates */
	ck_assert_int_eq(prefetch(&l, odp, 1), 0);
	for (int i = 0; i < SIZES * TARGETS; i++) {
		uint32_t len = 16u << i / TARGETS;

		block[i] = malloc(len);
		lab_post_recv(l.right, lab_reg(&l, block[i], len, IBV_ACCESS_LOCAL_WRITE),
			      block[i], len);
	}
	for (int i = 0; i < SIZES * TARGETS; i++)
		free(block[i]);
	for (int i = 0; i < SIZES * TARGETS; i++)
		send_from(&l, from, 16u << i / TARGETS);
	for (uint32_t n = 1; n < 64; n++)
		if (prefetch(&l, odp, n))
			_exit(ADVICE_FAILED);
	/* this process has no heap any more */
	_exit(WHOLE);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("heap");
	TCase *tc = tcase_create("heap");

	tcase_set_timeout(tc, 100);
	tcase_add_exit_test(tc, receives_into_freed_blocks_leave_the_hca_whole, WHOLE);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
