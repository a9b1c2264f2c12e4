/*
 * atomics.c - a counter and a lock in the memory of a peer.
 *
 * FETCH_ADD and CMP_SWAP change 8 aligned bytes at the peer in one step and bring back
 * what was there before. The peer's processor takes no part.
 */
#include <inttypes.h>
#include <stdio.h>

#include "setup.h"

/* volatile: the device writes them behind the compiler's back */
static volatile uint64_t before, counter = 100, lock;

static uint64_t atomic(struct device *dev, struct ibv_qp *qp, struct ibv_mr *result,
		       enum ibv_wr_opcode opcode, struct ibv_mr *target,
		       uint64_t compare_add, uint64_t swap)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)result->addr, .length = 8, .lkey = result->lkey};
	struct ibv_send_wr *bad, wr = {
				     .sg_list = &sge,
				     .num_sge = 1,
				     .opcode = opcode,
				     .send_flags = IBV_SEND_SIGNALED,
				     .wr.atomic = {.remote_addr = (uintptr_t)target->addr,
						   .rkey = target->rkey,
						   .compare_add = compare_add,
						   .swap = swap},
				 };

	check(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
	wait_completion(dev->cq);
	return before;
}

int main(void)
{
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	struct device dev;
	struct ibv_mr *result, *counter_mr, *lock_mr;
	struct ibv_qp *left, *right;
	uint64_t old;

	device_open(&dev);
	result = ibv_reg_mr(dev.pd, (void *)&before, 8, IBV_ACCESS_LOCAL_WRITE);
	counter_mr = ibv_reg_mr(dev.pd, (void *)&counter, 8, access);
	lock_mr = ibv_reg_mr(dev.pd, (void *)&lock, 8, access);
	check(result && counter_mr && lock_mr, "ibv_reg_mr");
	left = make_qp(&dev, IBV_QPT_RC, NULL);
	right = make_qp(&dev, IBV_QPT_RC, NULL);
	connect_qps(&dev, left, right);

	for (int i = 0; i < 3; i++) {
		old = atomic(&dev, left, result, IBV_WR_ATOMIC_FETCH_AND_ADD, counter_mr,
			     5, 0);
		printf("fetch and add 5: it was %" PRIu64 ", it is %" PRIu64 "\n", old,
		       counter);
	}
	check(counter == 115, "the counter is wrong");

	/* "If it is 0 make it 7": 7 took the lock if what was there is 0. */
	old = atomic(&dev, left, result, IBV_WR_ATOMIC_CMP_AND_SWP, lock_mr, 0, 7);
	printf("compare and swap 0 -> 7: it was %" PRIu64 ", it is %" PRIu64 "\n", old,
	       lock);
	old = atomic(&dev, left, result, IBV_WR_ATOMIC_CMP_AND_SWP, lock_mr, 0, 8);
	printf("compare and swap 0 -> 8: it was %" PRIu64 ", it stays %" PRIu64 "\n", old,
	       lock);
	check(lock == 7, "the lock is wrong");

	ibv_destroy_qp(left);
	ibv_destroy_qp(right);
	ibv_dereg_mr(result);
	ibv_dereg_mr(counter_mr);
	ibv_dereg_mr(lock_mr);
	device_close(&dev);
	return 0;
}
