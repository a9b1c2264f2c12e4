/*
 * Description: messages as a program sends them through the distribution's libibverbs and provider:
 * lists of many SGEs, messages of no and of most bytes, inline data, fences.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "hca.h"

/* struct pieces - memory of SGES pieces of unequal length, every second on demand */
struct pieces {
	char *mem;
	struct ibv_mr *pinned, *odp;
	struct ibv_sge sge[SGES];
	uint32_t total;
};

static struct pieces make_pieces(struct lab *l, unsigned int seed)
{
	struct pieces p = {.mem = lab_map(2 * SGES)};

	p.pinned = lab_reg(l, p.mem, 2 * SGES * LAB_PAGE, LAB_ACCESS);
	p.odp = lab_reg(l, p.mem, 2 * SGES * LAB_PAGE, LAB_ODP);
	for (unsigned int i = 0; i < SGES; i++) {
		/* some within a page, some across two, one of nothing */
		uint32_t len = i == 7 ? 0 : 1 + i * 397 % 5000;

		p.sge[i] = (struct ibv_sge){
		    .addr = (uintptr_t)p.mem + 2 * i * LAB_PAGE + 3 * i,
		    .length = len,
		    .lkey = i % 2 ? p.odp->lkey : p.pinned->lkey,
		};
		if (seed)
			lab_fill((void *)(uintptr_t)p.sge[i].addr, len, seed + i);
		p.total += len;
	}
	return p;
}

static void free_pieces(struct pieces *p)
{
	ck_assert_int_eq(ibv_dereg_mr(p->pinned), 0);
	ck_assert_int_eq(ibv_dereg_mr(p->odp), 0);
	munmap(p->mem, 2 * SGES * LAB_PAGE);
}

static void same_pieces(const struct pieces *a, const struct pieces *b)
{
	for (int i = 0; i < SGES; i++)
		ck_assert_msg(!memcmp((void *)(uintptr_t)a->sge[i].addr,
				      (void *)(uintptr_t)b->sge[i].addr,
				      a->sge[i].length),
			      "piece %d", i);
}

/* SEND from 32 pieces into 32, WRITE from them, READ into them; half is on demand. */
START_TEST(a_message_may_come_from_thirty_two_sges_of_both_kinds)
{
	struct ibv_recv_wr rwr = {.wr_id = 2, .num_sge = SGES}, *badr;
	struct ibv_send_wr wr = {.wr_id = 1,
				 .num_sge = SGES,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct pieces src, dst, again;
	struct ibv_mr *flat_mr;
	struct lab l;
	char *flat;

	lab_open(&l);
	remake(&l, usual);
	src = make_pieces(&l, 5);
	dst = make_pieces(&l, 0);
	rwr.sg_list = dst.sge;
	ck_assert_int_eq(ibv_post_recv(l.right, &rwr, &badr), 0);
	wr.sg_list = src.sge;
	lab_post(l.left, &wr);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	same_pieces(&src, &dst);

	flat = lab_map(64);
	flat_mr = lab_reg(&l, flat, 64 * LAB_PAGE, LAB_ODP);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)flat + 5;
	wr.wr.rdma.rkey = flat_mr->rkey;
	lab_post(l.left, &wr);
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	again = make_pieces(&l, 0);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.sg_list = again.sge;
	lab_post(l.left, &wr);
	ck_assert_uint_eq(expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_RDMA_READ).byte_len,
			  src.total);
	same_pieces(&src, &again);
	ck_assert_int_eq(ibv_dereg_mr(flat_mr), 0);
	free_pieces(&src);
	free_pieces(&dst);
	free_pieces(&again);
	lab_close(&l);
}
END_TEST

#define WINDOW	(16ul << 20)
#define LARGEST (2ul << 30) /* port_attr.max_msg_sz */

/* @len bytes of address space that show one file of WINDOW bytes again and again */
static char *map_again_and_again(size_t len)
{
	int fd = memfd_create("window", 0);
	char *p = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		       -1, 0);

	ck_assert(fd >= 0 && p != MAP_FAILED);
	ck_assert_int_eq(ftruncate(fd, WINDOW), 0);
	for (size_t at = 0; at < len; at += WINDOW)
		ck_assert(mmap(p + at, WINDOW, PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_FIXED, fd, 0) == p + at);
	close(fd);
	return p;
}

/* It takes two seconds, and many more on a machine that is busy. */
static void wait_patiently(struct lab *l, enum ibv_wc_opcode opcode)
{
	time_t end = time(NULL) + 100;
	struct ibv_wc wc;

	while (ibv_poll_cq(l->cq, 1, &wc) == 0)
		ck_assert_msg(time(NULL) < end, "no completion");
	ck_assert_msg(wc.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(wc.status));
	ck_assert_int_eq(wc.opcode, opcode);
}

/* WRITE and READ of 2 GiB; a byte more is refused. */
START_TEST(two_gigabytes_may_be_one_message)
{
	enum ibv_wr_opcode op = _i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	struct ibv_send_wr wr = {.opcode = op, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_port_attr port;
	struct ibv_mr *from, *to;
	struct ibv_sge sge[2];
	char *src, *dst;
	struct lab l;

	lab_open(&l);
	l.timeout = 18; /* 1 s */
	remake(&l, usual);
	ck_assert_int_eq(ibv_query_port(l.ctx, 1, &port), 0);
	ck_assert_uint_eq(port.max_msg_sz, LARGEST);
	src = map_again_and_again(LARGEST);
	dst = map_again_and_again(LARGEST);
	lab_fill(src, WINDOW, 1);
	from = lab_reg(&l, src, LARGEST, LAB_ODP);
	to = lab_reg(&l, dst, LARGEST, LAB_ODP);
	sge[0] = (struct ibv_sge){(uintptr_t)(_i ? dst : src), LARGEST / 2,
				  _i ? to->lkey : from->lkey};
	sge[1] = sge[0];
	sge[1].addr += LARGEST / 2;
	wr.sg_list = sge;
	wr.num_sge = 2;
	wr.wr.rdma.remote_addr = (uintptr_t)(_i ? src : dst);
	wr.wr.rdma.rkey = _i ? from->rkey : to->rkey;
	lab_post(l.left, &wr);
	wait_patiently(&l, _i ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE);
	ck_assert(lab_is(dst, WINDOW, 1));
	sge[0].length++;
	lab_post(l.left, &wr);
	expect_wc(&l, IBV_WC_LOC_LEN_ERR, 0);
	ck_assert_int_eq(ibv_dereg_mr(from), 0);
	ck_assert_int_eq(ibv_dereg_mr(to), 0);
	munmap(src, LARGEST);
	munmap(dst, LARGEST);
	lab_close(&l);
}
END_TEST

static const struct {
	enum ibv_wr_opcode op;
	enum ibv_wc_opcode wc;
	bool receives;
} empties[] = {
    {IBV_WR_SEND, IBV_WC_SEND, true},
    {IBV_WR_SEND_WITH_IMM, IBV_WC_SEND, true},
    {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE, false},
    {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE, true},
    {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ, false},
};

/*
 * Messages of no bytes: without SGEs, with one that is empty, inline. Neither key nor
 * address is looked at (9.7.4.1.5).
 */
START_TEST(a_message_may_be_of_nothing)
{
	enum ibv_wr_opcode op = empties[_i % 5].op;
	struct request r = {.op = op, .flags = IBV_SEND_SIGNALED, .rp = (void *)0x123};
	struct ibv_recv_wr rwr = {.wr_id = 7}, *bad;
	struct ibv_wc wc;
	struct lab l;
	int seen = 0, left = 1 + empties[_i % 5].receives;

	if (_i / 5 == 2 && op == IBV_WR_RDMA_READ)
		return; /* nothing is inline in a READ */
	lab_open(&l);
	remake(&l, usual);
	ck_assert_int_eq(ibv_post_recv(l.right, &rwr, &bad), 0);
	r.no_sge = _i / 5 == 0;
	if (_i / 5 == 2)
		r.flags |= IBV_SEND_INLINE;
	post(&l, r);
	while (left--) {
		wc = lab_wait(&l);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id != 7)
			continue;
		seen++;
		ck_assert_uint_eq(wc.byte_len, 0);
		ck_assert_int_eq(wc.wc_flags,
				 op == IBV_WR_SEND ? 0 : (int)IBV_WC_WITH_IMM);
	}
	ck_assert_int_eq(seen, empties[_i % 5].receives);
	lab_close(&l);
}
END_TEST

/* Inline data up to what the queue has room for, from memory without a key */
START_TEST(inline_data_may_be_as_long_as_was_asked_for)
{
	struct ibv_qp_init_attr attr = usual;
	struct ibv_mr *to;
	struct lab l;
	uint32_t max;
	char *src = lab_map(1), *dst = lab_map(1);

	lab_open(&l);
	attr.cap.max_inline_data = 512;
	attr.cap.max_send_sge = 1;
	remake(&l, attr);
	max = query(l.left).cap.max_inline_data;
	ck_assert_uint_ge(max, 512);
	to = lab_reg(&l, dst, LAB_PAGE, LAB_ACCESS);
	lab_fill(src, max, 3);
	post(&l, (struct request){.op = IBV_WR_RDMA_WRITE,
				  .p = src,
				  .len = max,
				  .flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
				  .rmr = to,
				  .rp = dst});
	memset(src, 0, max); /* it is ours again at once */
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	ck_assert(lab_is(dst, max, 3));
	ck_assert_int_ne(try_post(&l, (struct request){.op = IBV_WR_RDMA_WRITE,
						       .p = src,
						       .len = max + 1,
						       .flags = IBV_SEND_INLINE,
						       .rmr = to,
						       .rp = dst}),
			 0);
	ck_assert_int_eq(ibv_dereg_mr(to), 0);
	attr.cap.max_inline_data = max + 100000;
	attr.send_cq = attr.recv_cq = l.cq;
	ck_assert_ptr_null(ibv_create_qp(l.pd, &attr));
	ck_assert_int_eq(errno, EINVAL);
	lab_close(&l);
}
END_TEST

/* What a READ brings is sent on by a fenced WRITE that was posted together with it. */
START_TEST(a_fenced_request_waits_for_reads)
{
	const size_t len = 64 * LAB_PAGE;
	char *mem = lab_map(3 * 64);
	struct ibv_mr *mr;
	struct lab l;

	lab_begin(&l);
	mr = lab_reg(&l, mem, 3 * len, LAB_ODP);
	for (int round = 0; round < 20; round++) {
		lab_fill(mem, len, (unsigned int)round);
		post(&l, (struct request){.op = IBV_WR_RDMA_READ,
					  .mr = mr,
					  .p = mem + len,
					  .len = len,
					  .rmr = mr,
					  .rp = mem});
		post(&l, (struct request){.op = IBV_WR_RDMA_WRITE,
					  .mr = mr,
					  .p = mem + len,
					  .len = len,
					  .flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED,
					  .rmr = mr,
					  .rp = mem + 2 * len});
		expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
		ck_assert(lab_is(mem + 2 * len, len, (unsigned int)round));
	}
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* As with the kernel: programs look at errno after calls that leave it alone (librdmacm does). */
START_TEST(calls_that_succeed_leave_errno)
{
	struct ibv_recv_wr recv = {.wr_id = 7}, *bad_recv;
	struct ibv_send_wr wr = {
	    .wr_id = 5, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	struct ibv_comp_channel *ch;
	struct ibv_wc wc;
	struct lab l;

	lab_begin(&l);
	/* also while a lane is made, and where nothing is to be had */
	for (int i = 0; i < 200; i++) {
		int left = 2;

		errno = 77;
		ck_assert_int_eq(ibv_post_recv(l.right, &recv, &bad_recv), 0);
		ck_assert_int_eq(ibv_post_send(l.left, &wr, &bad), 0);
		ck_assert_int_eq(errno, 77);
		while (left) {
			int n = ibv_poll_cq(l.cq, 1, &wc);

			ck_assert_int_ge(n, 0);
			ck_assert_int_eq(errno, 77);
			left -= n;
		}
		ck_assert_int_eq(ibv_req_notify_cq(l.cq, 0), 0);
		ck_assert_int_eq(errno, 77);
	}
	for (int i = 0; i < 40; i++) {
		ch = ibv_create_comp_channel(l.ctx);
		ck_assert_ptr_nonnull(ch);
		ck_assert_int_eq(errno, 77);
		ck_assert_int_eq(ibv_destroy_comp_channel(ch), 0);
	}
	lab_close(&l);
}
END_TEST

/* Messages and polls, long enough for the thread to be seen to poll all the time */
static void poll_hotly(struct lab *l, struct ibv_mr *mr, void *p)
{
	struct timespec from, now;

	clock_gettime(CLOCK_MONOTONIC, &from);
	do {
		ck_assert_int_eq(lab_write(l, mr, p, mr, p, 1), IBV_WC_SUCCESS);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - from.tv_sec) * 1000000000l + now.tv_nsec - from.tv_nsec <
		 20000000);
}

#define POSTS 10 /* fewer than one turn of the HCA takes */

/* They may wait for a poller's next turn, but for nothing that takes away what they need. */
START_TEST(posts_of_a_thread_that_polled_are_sent_before_their_queue_pair_ends)
{
	volatile uint8_t *to = (uint8_t *)lab_map(1);
	time_t end = time(NULL) + LAB_WAIT;
	struct ibv_mr *mr;
	struct lab l;

	lab_begin(&l);
	mr = lab_reg(&l, (void *)to, LAB_PAGE, LAB_ACCESS);
	poll_hotly(&l, mr, (void *)to);
	for (uint8_t i = 1; i <= POSTS; i++)
		post(&l, (struct request){.op = IBV_WR_RDMA_WRITE,
					  .mr = mr,
					  .p = &i,
					  .len = 1,
					  .flags = IBV_SEND_INLINE,
					  .rmr = mr,
					  .rp = (void *)(to + i)});
	ck_assert_int_eq(ibv_modify_qp(l.left,
				       &(struct ibv_qp_attr){.qp_state = IBV_QPS_ERR},
				       IBV_QP_STATE),
			 0);
	while (to[POSTS] != POSTS)
		ck_assert_msg(time(NULL) < end, "the last one never came");
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	munmap((void *)to, LAB_PAGE);
	lab_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("messages");
	TCase *tc = tcase_create("messages");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, calls_that_succeed_leave_errno);
	tcase_add_test(tc, a_message_may_come_from_thirty_two_sges_of_both_kinds);
	tcase_add_loop_test(tc, two_gigabytes_may_be_one_message, 0, 2);
	tcase_add_loop_test(tc, a_message_may_be_of_nothing, 0, 15);
	tcase_add_test(tc, inline_data_may_be_as_long_as_was_asked_for);
	tcase_add_test(tc, a_fenced_request_waits_for_reads);
	tcase_add_test(
	    tc, posts_of_a_thread_that_polled_are_sent_before_their_queue_pair_ends);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
