/*
 * Description: receive queues: SRQ creation, limit event, modify and resize, taking WQEs,
 * also such that a program has broken; XRC domains and SRQs.
 */
#include "objects_fake.h"
#include "tests/check_main.h"

#include <stdlib.h>

#include "trace/reader.h"

static struct emu_pd *pd;

static void setup(void)
{
	fake_setup();
	pd = fake_pd();
}

static void teardown(void)
{
	ck_assert_int_eq(emu_pd_destroy(pd), 0);
	fake_teardown();
}

static struct emu_srq *make(uint32_t max_wr, uint32_t max_sge, uint32_t limit)
{
	struct ibv_srq_attr attr = {
	    .max_wr = max_wr, .max_sge = max_sge, .srq_limit = limit};
	struct emu_srq *srq;

	ck_assert_int_eq(emu_srq_create(pd, NULL, &fake, &attr, NULL, NULL, &srq), 0);
	return srq;
}

/* As librxe posts */
static void post(struct emu_ring *r, uint64_t wr_id, uint32_t num_sge)
{
	struct rxe_queue_buf *q = r->buf;
	struct rxe_recv_wqe *wqe =
	    (void *)(q->data + ((size_t)q->producer_index << q->log2_elem_size));

	wqe->wr_id = wr_id;
	wqe->dma.num_sge = num_sge;
	for (uint32_t i = 0; i < num_sge && i < 4;
	     i++) /* what all rings here have room for */
		wqe->dma.sge[i] = (struct rxe_sge){
		    .addr = wr_id * 1000 + i, .length = UINT32_MAX - i, .lkey = i};
	q->producer_index = (q->producer_index + 1) & q->index_mask;
}

START_TEST(an_srq_has_what_is_asked_for)
{
	struct ibv_srq_attr attr = {.max_wr = 100, .max_sge = 0}, q;
	struct emu_srq *srq, *srq2;

	ck_assert_int_eq(emu_srq_create(pd, NULL, NULL, &attr, NULL, NULL, &srq), 0);
	ck_assert_uint_eq(attr.max_wr, 127);
	ck_assert_uint_eq(attr.max_sge, 1);
	emu_srq_query(srq, &q);
	ck_assert_uint_eq(q.max_wr, 127);
	ck_assert_uint_eq(q.max_sge, 1);
	ck_assert_uint_eq(q.srq_limit, 0);
	ck_assert_ptr_eq(emu_srq_find(fake.hca, emu_srq_num(srq)), srq);
	srq2 = make(1, 27, 0);
	ck_assert_uint_ne(emu_srq_num(srq), emu_srq_num(srq2));
	ck_assert_uint_eq(srq2->ring.log2_elem, 9); /* 40 + 27 * 16 -> 512 */
	ck_assert_uint_gt(emu_srq_ring(srq2).size, 2 * 512);
	ck_assert_int_eq(emu_pd_destroy(pd), -EBUSY);
	ck_assert_int_eq(emu_srq_destroy(srq), 0);
	ck_assert_int_eq(emu_srq_destroy(srq2), 0);

	attr = (struct ibv_srq_attr){.max_wr = 0, .max_sge = 1};
	ck_assert_int_eq(emu_srq_create(pd, NULL, NULL, &attr, NULL, NULL, &srq),
			 -EINVAL);
	attr.max_wr = 1048577;
	ck_assert_int_eq(emu_srq_create(pd, NULL, NULL, &attr, NULL, NULL, &srq),
			 -EINVAL);
	attr = (struct ibv_srq_attr){.max_wr = 1, .max_sge = 28};
	ck_assert_int_eq(emu_srq_create(pd, NULL, NULL, &attr, NULL, NULL, &srq),
			 -EINVAL);
	attr.max_sge = 1;
	fake.ring_limit = 0;
	ck_assert_int_eq(emu_srq_create(pd, NULL, NULL, &attr, NULL, NULL, &srq),
			 -ENOMEM);
}
END_TEST

START_TEST(requests_are_taken_in_order)
{
	struct emu_srq *srq = make(3, 4, 0);
	struct emu_recv_wqe w;

	ck_assert_int_eq(emu_srq_take(srq, &w), -ENOENT);
	for (uint64_t i = 0; i < 20; i++) {
		post(&srq->ring, i, i % 5);
		ck_assert_int_eq(emu_srq_take(srq, &w), 0);
		ck_assert_uint_eq(w.wr_id, i);
		ck_assert_uint_eq(w.num_sge, i % 5);
		uint64_t sum = 0;
		for (uint32_t s = 0; s < w.num_sge; s++) {
			ck_assert_uint_eq(w.sge[s].addr, i * 1000 + s);
			sum += UINT32_MAX - s;
		}
		ck_assert_uint_eq(w.length, sum); /* more than 32 bits */
		ck_assert_int_eq(emu_srq_take(srq, &w), -ENOENT);
	}
	ck_assert_int_eq(fake.events, 0);
	emu_srq_destroy(srq);
}
END_TEST

START_TEST(a_broken_request_is_an_error)
{
	struct emu_srq *srq = make(3, 4, 0);
	struct emu_recv_wqe w;

	post(&srq->ring, 7, 5);
	post(&srq->ring, 8, UINT32_MAX);
	post(&srq->ring, 9, 4);
	ck_assert_int_eq(emu_srq_take(srq, &w), -EINVAL);
	ck_assert_uint_eq(w.wr_id, 7);
	ck_assert_uint_eq(w.num_sge, 0);
	ck_assert_uint_eq(w.length, 0);
	ck_assert_int_eq(emu_srq_take(srq, &w), -EINVAL);
	ck_assert_int_eq(emu_srq_take(srq, &w), 0);
	ck_assert_uint_eq(w.wr_id, 9);
	/* indices out of range */
	srq->ring.buf->producer_index = UINT32_MAX;
	while (emu_srq_take(srq, &w) != -ENOENT)
		;
	emu_srq_destroy(srq);
}
END_TEST

START_TEST(the_limit_raises_one_event)
{
	struct ibv_srq_attr attr = {.srq_limit = 3}, q;
	struct emu_srq *srq = make(7, 1, 0);
	struct emu_recv_wqe w;

	for (int i = 0; i < 5; i++)
		post(&srq->ring, i, 1);
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	emu_srq_query(srq, &q);
	ck_assert_uint_eq(q.srq_limit, 3);
	emu_srq_take(srq, &w);
	emu_srq_take(srq, &w); /* 3 left: not below the limit */
	ck_assert_int_eq(fake.events, 0);
	emu_srq_take(srq, &w);
	ck_assert_int_eq(fake.events, 1);
	ck_assert_int_eq(fake.type[0], IBV_EVENT_SRQ_LIMIT_REACHED);
	ck_assert_ptr_eq(fake.cookie[0], &fake);
	emu_srq_query(srq, &q);
	ck_assert_uint_eq(q.srq_limit, 0); /* disarmed */
	emu_srq_take(srq, &w);
	emu_srq_take(srq, &w);
	ck_assert_int_eq(fake.events, 1);

	/* armed below the limit: at the next WQE that is taken */
	post(&srq->ring, 9, 1);
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	ck_assert_int_eq(fake.events, 1);
	emu_srq_take(srq, &w);
	ck_assert_int_eq(fake.events, 2);
	/* an empty queue gives none */
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	ck_assert_int_eq(emu_srq_take(srq, &w), -ENOENT);
	ck_assert_int_eq(fake.events, 2);
	emu_srq_destroy(srq);
}
END_TEST

START_TEST(an_srq_is_resized_with_its_requests)
{
	struct ibv_srq_attr attr = {.srq_limit = 8}, q;
	struct emu_srq *srq = make(7, 2, 0);
	struct emu_recv_wqe w;

	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_LIMIT), -EINVAL);
	ck_assert_int_eq(emu_srq_modify(srq, &attr, 4), -EINVAL);
	attr = (struct ibv_srq_attr){.max_wr = 0};
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);
	attr.max_wr = 1048577;
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);
	attr = (struct ibv_srq_attr){.srq_limit = 5};
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_LIMIT), 0);
	attr.max_wr = 4;
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);

	/* entries wrap around the end of the old ring and survive */
	for (int i = 0; i < 6; i++)
		post(&srq->ring, i, 1);
	for (int i = 0; i < 6; i++)
		emu_srq_take(srq, &w);
	fake.events = 0;
	for (int i = 0; i < 6; i++)
		post(&srq->ring, 100 + i, 2);
	attr = (struct ibv_srq_attr){.max_wr = 5};
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_MAX_WR), -EINVAL);
	attr = (struct ibv_srq_attr){.max_wr = 40, .srq_limit = 20};
	fake.ring_limit = 0;
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT),
			 -ENOMEM);
	fake.ring_limit = -1;
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	emu_srq_query(srq, &q);
	ck_assert_uint_eq(q.max_wr, 63);
	ck_assert_uint_eq(q.srq_limit, 20);
	ck_assert_int_eq(fake.rings, 1);
	post(&srq->ring, 106, 2);
	for (int i = 0; i < 7; i++) {
		ck_assert_int_eq(emu_srq_take(srq, &w), 0);
		ck_assert_uint_eq(w.wr_id, 100 + i);
		ck_assert_uint_eq(w.num_sge, 2);
	}
	ck_assert_int_eq(emu_srq_take(srq, &w), -ENOENT);
	emu_srq_destroy(srq);
}
END_TEST

START_TEST(a_qp_has_a_ring_of_its_own)
{
	struct emu_cq *cq = fake_cq(8);
	struct emu_srq *srq = make(3, 1, 0);
	struct emu_qp_init init = {
	    .type = IBV_QPT_RC, .pd = pd, .send_cq = cq, .recv_cq = cq, .srq = srq};
	struct emu_qp *qp = fake_qp(IBV_QPT_RC, pd, cq), *on_srq;
	struct emu_recv_wqe w;

	ck_assert_int_eq(emu_rq_take(qp, &w), -ENOENT);
	post(&qp->rq, 5, 2);
	post(&qp->rq, 6, 3); /* max_recv_sge is 2 */
	ck_assert_int_eq(emu_rq_take(qp, &w), 0);
	ck_assert_uint_eq(w.wr_id, 5);
	ck_assert_int_eq(emu_rq_take(qp, &w), -EINVAL);

	ck_assert_int_eq(emu_qp_create(fake.hca, &init, &on_srq), 0);
	ck_assert_uint_eq(emu_qp_rq_ring(on_srq).size, 0);
	ck_assert_int_eq(emu_rq_take(on_srq, &w), -ENOENT);
	ck_assert_int_eq(emu_srq_destroy(srq), -EBUSY);
	emu_qp_destroy(on_srq);
	ck_assert_int_eq(emu_srq_destroy(srq), 0);
	emu_qp_destroy(qp);
	emu_cq_destroy(cq);
}
END_TEST

START_TEST(an_xrc_srq_has_a_number)
{
	struct ibv_srq_attr attr = {.max_wr = 4, .max_sge = 1};
	struct emu_cq *cq = fake_cq(8);
	struct emu_xrcd *xrcd;
	struct emu_srq *srq;
	struct emu_qp_init init = {
	    .type = IBV_QPT_RC, .pd = pd, .send_cq = cq, .recv_cq = cq};
	struct emu_qp *qp;

	ck_assert_int_eq(emu_xrcd_create(fake.hca, &xrcd), 0);
	ck_assert_int_eq(emu_srq_create(pd, NULL, NULL, &attr, xrcd, NULL, &srq),
			 -EINVAL);
	ck_assert_int_eq(emu_srq_create(pd, NULL, NULL, &attr, NULL, cq, &srq), -EINVAL);
	ck_assert_int_eq(emu_srq_create(pd, NULL, NULL, &attr, xrcd, cq, &srq), 0);
	init.srq = srq; /* an XRC SRQ is for XRC QPs */
	ck_assert_int_eq(emu_qp_create(fake.hca, &init, &qp), -EINVAL);
	ck_assert_int_eq(emu_xrcd_destroy(xrcd), -EBUSY);
	ck_assert_int_eq(emu_cq_destroy(cq), -EBUSY);
	ck_assert_int_eq(emu_srq_destroy(srq), 0);
	ck_assert_int_eq(emu_xrcd_destroy(xrcd), 0);
	ck_assert_int_eq(emu_cq_destroy(cq), 0);
}
END_TEST

/* --- posts, which nobody tells -------------------------------------------------------- */

static struct recorder *rec;

static void record_all(void)
{
	const struct recorder_cfg cfg = {.slots = 256, .full = true};

	ck_assert_int_eq(recorder_open(&cfg, &rec), 0);
	fake.hca->cfg.recorder = rec;
}

static void stop_recording(void)
{
	fake.hca->cfg.recorder = NULL;
	recorder_close(rec);
}

/* wr_ids of the posts that are recorded, those that were seen late negative; how many */
static size_t recorded(int64_t id[64])
{
	struct trace_reader *t;
	struct trace_record r;
	size_t n = 0;

	ck_assert_int_eq(trace_open_recorder(rec, &t), 0);
	while (n < 64 && trace_next(t, &r))
		if (r.kind == TRACE_KIND_post_srq_receive)
			id[n++] = (int64_t)r.u.post_srq_receive.wr_id *
				  (r.u.post_srq_receive.late ? -1 : 1);
	trace_close(t);
	return n;
}

static void expect_posts(const int64_t *want, size_t n)
{
	int64_t id[64];

	ck_assert_uint_eq(recorded(id), n);
	for (size_t i = 0; i < n; i++)
		ck_assert_int_eq(id[i], want[i]);
}

static void take_recorded(struct emu_srq *srq, uint64_t wr_id)
{
	struct emu_recv_wqe w;

	emu_srq_take(srq, &w);
	ck_assert_uint_eq(w.wr_id, wr_id);
	emu_receives_record(NULL, srq, &w);
}

START_TEST(each_post_is_recorded_once_also_when_a_message_was_first)
{
	static const int64_t want[] = {1, 2, 3, -4, -5, 6, 7};
	struct emu_srq *srq;

	record_all();
	srq = make(4, 2, 0);
	for (uint64_t i = 1; i <= 3; i++)
		post(&srq->ring, i, 1);
	emu_srq_receives_posted(srq);
	emu_srq_receives_posted(srq);
	expect_posts(want, 3);
	/* nobody tells of the fourth, which is seen beside the first */
	post(&srq->ring, 4, 1);
	take_recorded(srq, 1);
	expect_posts(want, 4);
	for (uint64_t i = 2; i <= 4; i++)
		take_recorded(srq, i);
	/* taken before it was told */
	post(&srq->ring, 5, 2);
	take_recorded(srq, 5);
	emu_srq_receives_posted(srq);
	expect_posts(want, 5);
	post(&srq->ring, 6, 0);
	post(&srq->ring, 7, 200); /* more than there can be */
	emu_srq_receives_posted(srq);
	expect_posts(want, 7);
	ck_assert_int_eq(emu_srq_destroy(srq), 0);
	stop_recording();
}
END_TEST

START_TEST(posts_are_recorded_once_when_the_ring_turns_and_is_resized)
{
	struct ibv_srq_attr attr = {.max_wr = 30};
	struct emu_srq *srq;
	int64_t id[64];

	record_all();
	srq = make(4, 1, 0);
	for (uint64_t i = 1; i <= 20; i++) {
		post(&srq->ring, i, 1);
		emu_srq_receives_posted(srq);
		if (i > 2)
			take_recorded(srq, i - 2);
	}
	ck_assert_int_eq(emu_srq_modify(srq, &attr, IBV_SRQ_MAX_WR), 0);
	post(&srq->ring, 21, 1);
	emu_srq_receives_posted(srq);
	ck_assert_uint_eq(recorded(id), 21);
	for (int i = 0; i < 21; i++)
		ck_assert_int_eq(id[i], i + 1);
	ck_assert_int_eq(emu_srq_destroy(srq), 0);
	stop_recording();
}
END_TEST

START_TEST(what_was_posted_before_a_trace_began_is_recorded_late_or_not_at_all)
{
	static const int64_t want[] = {-3, 4};
	struct emu_recv_wqe w;
	struct emu_srq *srq;

	record_all();
	srq = make(4, 1, 0);
	recorder_stop(rec, 1);
	for (uint64_t i = 1; i <= 3; i++)
		post(&srq->ring, i, 1);
	emu_srq_receives_posted(srq);
	expect_posts(want, 0);
	emu_srq_take(srq, &w);
	emu_srq_take(srq, &w);
	ck_assert_int_eq(recorder_start(rec, 256, 2), 0);
	take_recorded(srq, 3);
	post(&srq->ring, 4, 1);
	emu_srq_receives_posted(srq);
	expect_posts(want, 2);
	ck_assert_int_eq(emu_srq_destroy(srq), 0);
	stop_recording();
}
END_TEST

START_TEST(others_see_which_receive_waits_and_since_when)
{
	struct emu_recv_wqe w;
	struct emu_srq *srq;
	struct trace_srq *s;

	srq = make(4, 1, 0);
	s = &srq->seen->srq;
	emu_hca_look(fake.hca);
	ck_assert_uint_eq(s->left, 0);
	ck_assert_uint_eq(s->since, 0);
	post(&srq->ring, 0x11, 1);
	emu_hca_set_time(fake.hca, 100);
	emu_hca_look(fake.hca);
	ck_assert_uint_eq(s->left, 1);
	ck_assert_uint_eq(s->since, 100);
	ck_assert_uint_eq(s->wr_id, 0x11);
	/* more behind it change nothing */
	post(&srq->ring, 0x12, 1);
	emu_hca_set_time(fake.hca, 200);
	emu_hca_look(fake.hca);
	ck_assert_uint_eq(s->left, 2);
	ck_assert_uint_eq(s->since, 100);
	emu_srq_take(srq, &w);
	emu_hca_set_time(fake.hca, 300);
	emu_hca_look(fake.hca);
	ck_assert_uint_eq(s->since, 300);
	ck_assert_uint_eq(s->wr_id, 0x12);
	emu_srq_take(srq, &w);
	emu_hca_look(fake.hca);
	ck_assert_uint_eq(s->left, 0);
	ck_assert_uint_eq(s->since, 0);
	ck_assert_int_eq(emu_srq_destroy(srq), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("objects_srq");
	TCase *tc = tcase_create("srq");

	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, an_srq_has_what_is_asked_for);
	tcase_add_test(tc, requests_are_taken_in_order);
	tcase_add_test(tc, a_broken_request_is_an_error);
	tcase_add_test(tc, the_limit_raises_one_event);
	tcase_add_test(tc, an_srq_is_resized_with_its_requests);
	tcase_add_test(tc, a_qp_has_a_ring_of_its_own);
	tcase_add_test(tc, an_xrc_srq_has_a_number);
	tcase_add_test(tc, each_post_is_recorded_once_also_when_a_message_was_first);
	tcase_add_test(tc, posts_are_recorded_once_when_the_ring_turns_and_is_resized);
	tcase_add_test(
	    tc, what_was_posted_before_a_trace_began_is_recorded_late_or_not_at_all);
	tcase_add_test(tc, others_see_which_receive_waits_and_since_when);
	suite_add_tcase(s, tc);
	return check_main(s);
}
