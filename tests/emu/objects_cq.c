/*
 * Description: completion queues: sizes, order, arming, overrun, resize.
 */
#include "objects_fake.h"
#include "tests/check_main.h"

#include <stdlib.h>

static int post(struct emu_cq *cq, uint64_t wr_id, bool solicited)
{
	struct ib_uverbs_wc wc = {.wr_id = wr_id, .status = IBV_WC_SUCCESS, .qp_num = 17};

	return emu_cq_post(cq, &wc, solicited);
}

/* As librxe polls: -1 when empty */
static int64_t poll_one(struct emu_cq *cq)
{
	struct rxe_queue_buf *q = cq->ring.buf;
	uint32_t c = q->consumer_index;
	struct ib_uverbs_wc wc;

	if (c == q->producer_index)
		return -1;
	memcpy(&wc, q->data + ((size_t)c << q->log2_elem_size), sizeof(wc));
	q->consumer_index = (c + 1) & q->index_mask;
	return (int64_t)wc.wr_id;
}

START_TEST(a_cq_has_the_size_that_is_asked_for)
{
	struct emu_cq *cq;

	ck_assert_int_eq(emu_cq_create(fake.hca, NULL, NULL, 0, &cq), -EINVAL);
	ck_assert_int_eq(emu_cq_create(fake.hca, NULL, NULL, 4194304, &cq), -EINVAL);
	fake.ring_limit = 0; /* allowed, but for 256 MiB of memory */
	ck_assert_int_eq(emu_cq_create(fake.hca, NULL, NULL, 4194303, &cq), -ENOMEM);
	fake.ring_limit = -1;
	cq = fake_cq(1);
	ck_assert_uint_eq(emu_cq_cqe(cq), 1);
	emu_cq_destroy(cq);
	cq = fake_cq(100);
	ck_assert_uint_eq(emu_cq_cqe(cq), 127);
	ck_assert_uint_eq(cq->ring.buf->index_mask, 127);
	ck_assert_uint_eq(cq->ring.buf->log2_elem_size, 6);
	ck_assert_uint_eq(emu_cq_ring(cq).size, sizeof(struct rxe_queue_buf) + 128 * 64);
	ck_assert_uint_eq(emu_cq_ring(cq).offset, 4096);
	emu_cq_destroy(cq);
	fake.ring_limit = 0;
	ck_assert_int_eq(emu_cq_create(fake.hca, NULL, NULL, 5, &cq), -ENOMEM);
}
END_TEST

START_TEST(order_and_wrap)
{
	struct emu_cq *cq = fake_cq(7);
	uint64_t in = 0, out = 0;
	unsigned int seed = 3;

	for (int i = 0; i < 5000; i++) {
		if (rand_r(&seed) % 2 && in - out < 7)
			ck_assert_int_eq(post(cq, in++, false), 0);
		else if (in > out)
			ck_assert_int_eq(poll_one(cq), (int64_t)out++);
		else
			ck_assert_int_eq(poll_one(cq), -1);
	}
	ck_assert_int_eq(fake.comp, 0); /* never armed */
	emu_cq_destroy(cq);
}
END_TEST

START_TEST(an_armed_cq_tells_once)
{
	struct emu_cq *cq = fake_cq(63);

	/* what is there before does not count */
	post(cq, 1, true);
	emu_cq_arm(cq, false);
	ck_assert_int_eq(fake.comp, 0);
	post(cq, 2, false);
	ck_assert_int_eq(fake.comp, 1);
	ck_assert_ptr_eq(fake.comp_cookie, &fake);
	post(cq, 3, true); /* once per arming */
	ck_assert_int_eq(fake.comp, 1);

	/* armed twice: one event */
	emu_cq_arm(cq, false);
	emu_cq_arm(cq, false);
	post(cq, 4, false);
	post(cq, 5, false);
	ck_assert_int_eq(fake.comp, 2);

	/* solicited only */
	emu_cq_arm(cq, true);
	post(cq, 6, false);
	ck_assert_int_eq(fake.comp, 2);
	post(cq, 7, true);
	ck_assert_int_eq(fake.comp, 3);
	post(cq, 8, true);
	ck_assert_int_eq(fake.comp, 3);

	/* any, then solicited: stays any. Solicited, then any: becomes any. */
	emu_cq_arm(cq, false);
	emu_cq_arm(cq, true);
	post(cq, 9, false);
	ck_assert_int_eq(fake.comp, 4);
	emu_cq_arm(cq, true);
	emu_cq_arm(cq, false);
	post(cq, 10, false);
	ck_assert_int_eq(fake.comp, 5);

	/* and a new arming after "any" may be for solicited only again */
	emu_cq_arm(cq, true);
	post(cq, 11, false);
	ck_assert_int_eq(fake.comp, 5);
	emu_cq_destroy(cq);
}
END_TEST

START_TEST(a_full_cq_is_overrun)
{
	struct emu_cq *cq = fake_cq(3);

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(post(cq, i, false), 0);
	emu_cq_arm(cq, false);
	ck_assert_int_eq(post(cq, 3, false), -ENOSPC);
	ck_assert_int_eq(fake.events, 1);
	ck_assert_int_eq(fake.type[0], IBV_EVENT_CQ_ERR);
	ck_assert_ptr_eq(fake.cookie[0], &fake);
	ck_assert_int_eq(fake.comp, 0);
	ck_assert(strstr(fake.line, "overrun"));
	/*
	 * what was there can be polled, but nothing comes any more, and no second event
	 */
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(poll_one(cq), i);
	ck_assert_int_eq(post(cq, 4, false), -ENOSPC);
	ck_assert_int_eq(poll_one(cq), -1);
	ck_assert_int_eq(fake.events, 1);
	emu_cq_destroy(cq);
}
END_TEST

START_TEST(a_cq_keeps_its_entries_when_resized)
{
	struct emu_cq *cq = fake_cq(7);

	/* entries that wrap around the end of the old ring */
	for (int i = 0; i < 5; i++)
		post(cq, i, false);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(poll_one(cq), i);
	for (int i = 0; i < 6; i++)
		post(cq, 10 + i, false);
	ck_assert_int_eq(emu_cq_resize(cq, 5), -EINVAL);
	ck_assert_int_eq(emu_cq_resize(cq, 0), -EINVAL);
	ck_assert_int_eq(emu_cq_resize(cq, 4194304), -EINVAL);
	fake.ring_limit = 0;
	ck_assert_int_eq(emu_cq_resize(cq, 20), -ENOMEM);
	fake.ring_limit = -1;
	ck_assert_uint_eq(emu_cq_cqe(cq), 7);
	emu_cq_arm(cq, false);
	ck_assert_int_eq(emu_cq_resize(cq, 20), 0);
	ck_assert_uint_eq(emu_cq_cqe(cq), 31);
	ck_assert_int_eq(fake.rings, 1);
	ck_assert_int_eq(fake.comp, 0);
	post(cq, 16, false);
	ck_assert_int_eq(fake.comp, 1); /* still armed */
	for (int i = 0; i < 7; i++)
		ck_assert_int_eq(poll_one(cq), 10 + i);
	ck_assert_int_eq(poll_one(cq), -1);

	/* smaller, and exactly full */
	for (int i = 0; i < 3; i++)
		post(cq, 30 + i, false);
	ck_assert_int_eq(emu_cq_resize(cq, 3), 0);
	ck_assert_uint_eq(emu_cq_cqe(cq), 3);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(poll_one(cq), 30 + i);
	emu_cq_destroy(cq);
}
END_TEST

static int post_of(struct emu_cq *cq, uint32_t qpn, uint64_t wr_id)
{
	struct ib_uverbs_wc wc = {
	    .wr_id = wr_id, .status = IBV_WC_SUCCESS, .qp_num = qpn};

	return emu_cq_post(cq, &wc, false);
}

/* As context_hook.c polls: what is forgotten is thrown away */
static int64_t poll_kept(struct emu_cq *cq)
{
	struct ib_uverbs_wc *wc;
	int64_t id;

	do {
		wc = ring_at(&cq->ring, ring_consumer(&cq->ring));
		id = poll_one(cq);
	} while (id >= 0 && wc->vendor_err == EMU_WC_FORGOTTEN);
	return id;
}

/* What a RESET has dropped takes no room: as many completions as the CQ is for can follow. */
START_TEST(forgotten_entries_take_no_room)
{
	struct emu_cq *cq = fake_cq(7);
	int i, round;

	for (round = 0; round < 5; round++) {
		for (i = 0; i < 7; i++)
			ck_assert_int_eq(post_of(cq, 17, 100 + i), 0);
		emu_cq_forget(cq, 17);
	}
	emu_cq_arm(cq, false);
	for (i = 0; i < 7; i++)
		ck_assert_int_eq(post_of(cq, 18, i), 0);
	ck_assert_int_eq(fake.comp, 1);
	ck_assert_int_eq(fake.events, 0);
	/* armed again, looked in vain, and told when they are there */
	emu_cq_arm(cq, false);
	ck_assert_int_eq(poll_kept(cq), -1);
	emu_cqs_bring_back(fake.hca);
	ck_assert_int_eq(fake.comp, 2);
	for (i = 0; i < 7; i++)
		ck_assert_int_eq(poll_kept(cq), i);
	ck_assert_int_eq(poll_kept(cq), -1);
	ck_assert_ptr_null(fake.hca->cqs_aside);

	/* some are forgotten, some are not; those that wait can be forgotten, too */
	for (i = 0; i < 7; i++)
		ck_assert_int_eq(post_of(cq, 17 + i % 2, i), 0);
	emu_cq_forget(cq, 17);
	ck_assert_int_eq(post_of(cq, 19, 20), 0);
	ck_assert_int_eq(post_of(cq, 20, 21), 0);
	emu_cq_forget(cq, 19);
	for (i = 0; i < 3; i++)
		ck_assert_int_eq(post_of(cq, 20, 22 + i), 0);
	for (i = 1; i < 7; i += 2)
		ck_assert_int_eq(poll_kept(cq), i);
	/* one more than there is room for is an overrun all the same */
	emu_cqs_bring_back(fake.hca);
	for (i = 0; i < 4; i++)
		ck_assert_int_eq(poll_kept(cq), 21 + i);
	for (i = 0; i < 7; i++)
		ck_assert_int_eq(post_of(cq, 17, i), 0);
	emu_cq_forget(cq, 17);
	for (i = 0; i < 7; i++)
		ck_assert_int_eq(post_of(cq, 18, i), 0);
	ck_assert_int_eq(post_of(cq, 18, i), -ENOSPC);
	ck_assert_int_eq(fake.type[0], IBV_EVENT_CQ_ERR);
	emu_cq_destroy(cq);
	ck_assert_ptr_null(fake.hca->cqs_aside);
}
END_TEST

/*
 * The program may write anything into the indices: nothing outside the ring is touched.
 */
START_TEST(indices_of_the_program_are_not_believed)
{
	struct emu_cq *cq = fake_cq(7);
	unsigned int seed = 11;

	for (int i = 0; i < 1000; i++) {
		cq->ring.buf->consumer_index = (uint32_t)rand_r(&seed) * 2654435761u;
		cq->ring.buf->producer_index = (uint32_t)rand_r(&seed) * 2654435761u;
		cq->ring.buf->index_mask = (uint32_t)rand_r(&seed);
		cq->ring.buf->log2_elem_size = (uint32_t)rand_r(&seed);
		if (i % 50 == 0)
			ck_assert_int_le(emu_cq_resize(cq, 7), 0);
		post(cq, i, false);
		cq->overrun = false;
		fake.events = 0;
	}
	ck_assert_uint_eq(cq->ring.slots, 8);
	emu_cq_destroy(cq);
}
END_TEST

START_TEST(a_cq_in_use_stays)
{
	struct emu_pd *pd = fake_pd();
	struct emu_cq *cq = fake_cq(3);
	struct emu_qp *qp = fake_qp(IBV_QPT_UD, pd, cq);

	ck_assert_int_eq(emu_cq_destroy(cq), -EBUSY);
	emu_qp_destroy(qp);
	ck_assert_int_eq(emu_cq_destroy(cq), 0);
	emu_pd_destroy(pd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("objects_cq");
	TCase *tc = tcase_create("cq");

	tcase_add_checked_fixture(tc, fake_setup, fake_teardown);
	tcase_add_test(tc, a_cq_has_the_size_that_is_asked_for);
	tcase_add_test(tc, order_and_wrap);
	tcase_add_test(tc, an_armed_cq_tells_once);
	tcase_add_test(tc, a_full_cq_is_overrun);
	tcase_add_test(tc, a_cq_keeps_its_entries_when_resized);
	tcase_add_test(tc, forgotten_entries_take_no_room);
	tcase_add_test(tc, indices_of_the_program_are_not_believed);
	tcase_add_test(tc, a_cq_in_use_stays);
	suite_add_tcase(s, tc);
	return check_main(s);
}
