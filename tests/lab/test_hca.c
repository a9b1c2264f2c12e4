/*
 * Description: the HCA as a program meets it through the distribution's libibverbs and
 * provider: lists of many SGEs, messages of no and of most bytes, inline data, fences,
 * events, queues that are full, resized and overrun, draining, memory windows, memory
 * that is registered again, address handles, multicast.
 */
#include "lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define SGES 32

/* --- helpers ---------------------------------------------------------------------- */

/* Both queue pairs anew, and connected, with these attributes; CQs that are not given are l->cq */
static void remake(struct lab *l, struct ibv_qp_init_attr attr)
{
	if (!attr.send_cq)
		attr.send_cq = l->cq;
	if (!attr.recv_cq)
		attr.recv_cq = l->cq;
	ck_assert_int_eq(ibv_destroy_qp(l->left), 0);
	ck_assert_int_eq(ibv_destroy_qp(l->right), 0);
	l->left = ibv_create_qp(l->pd, &attr);
	l->right = ibv_create_qp(l->pd, &attr);
	ck_assert(l->left && l->right);
	lab_connect(l);
}

static const struct ibv_qp_init_attr usual = {
    .qp_type = IBV_QPT_RC,
    .cap = {.max_send_wr = 64,
	    .max_recv_wr = 64,
	    .max_send_sge = SGES,
	    .max_recv_sge = SGES,
	    .max_inline_data = 64},
};

static struct ibv_qp_attr query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ck_assert_int_eq(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* The next asynchronous event, which must be this */
static struct ibv_async_event expect_event(struct lab *l, enum ibv_event_type type)
{
	struct ibv_async_event ev;

	ck_assert_msg(readable(l->ctx->async_fd, 10000), "no event, expected %s",
		      ibv_event_type_str(type));
	ck_assert_int_eq(ibv_get_async_event(l->ctx, &ev), 0);
	ck_assert_msg(ev.event_type == type, "%s", ibv_event_type_str(ev.event_type));
	ibv_ack_async_event(&ev);
	return ev;
}

static void expect_no_event(struct lab *l)
{
	ck_assert(!readable(l->ctx->async_fd, 20));
}

/* Post one request of one SGE, or of none, on "left" */
struct request {
	enum ibv_wr_opcode op;
	struct ibv_mr *mr;
	const void *p;
	uint32_t len;
	unsigned int flags;
	struct ibv_mr *rmr;
	const void *rp;
	uint64_t id;
	bool no_sge;
};

static int try_post(struct lab *l, struct request r)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)r.p, .length = r.len, .lkey = r.mr ? r.mr->lkey : 0};
	struct ibv_send_wr *bad, wr = {
				     .wr_id = r.id,
				     .sg_list = r.no_sge ? NULL : &sge,
				     .num_sge = !r.no_sge,
				     .opcode = r.op,
				     .send_flags = r.flags,
				     .imm_data = htonl(0x1234),
				 };

	if (r.op == IBV_WR_ATOMIC_CMP_AND_SWP || r.op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)r.rp;
		wr.wr.atomic.rkey = r.rmr ? r.rmr->rkey : 0;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)r.rp;
		wr.wr.rdma.rkey = r.rmr ? r.rmr->rkey : 0;
	}
	return ibv_post_send(l->left, &wr, &bad);
}

static void post(struct lab *l, struct request r)
{
	ck_assert_int_eq(try_post(l, r), 0);
}

static struct ibv_wc expect_wc(struct lab *l, enum ibv_wc_status status,
			       enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = lab_wait(l);

	ck_assert_msg(wc.status == status, "%s", ibv_wc_status_str(wc.status));
	if (!status)
		ck_assert_int_eq(wc.opcode, opcode);
	return wc;
}

/* --- messages --------------------------------------------------------------------- */

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
START_TEST(thirty_two_sges_of_both_kinds)
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
START_TEST(two_gigabytes)
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
START_TEST(messages_of_nothing)
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
START_TEST(inline_up_to_the_limit)
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
START_TEST(fence_waits_for_reads)
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

/* --- completion queues ------------------------------------------------------------ */

static void take_cq_event(struct ibv_comp_channel *ch, struct ibv_cq *want)
{
	struct ibv_cq *cq;
	void *context;

	ck_assert(readable(ch->fd, 10000));
	ck_assert_int_eq(ibv_get_cq_event(ch, &cq, &context), 0);
	ck_assert_ptr_eq(cq, want);
	ibv_ack_cq_events(cq, 1);
}

/* Armed for solicited completions: not by a plain SEND; by one with the bit, by an error */
START_TEST(solicited_only)
{
	struct ibv_qp_init_attr attr = usual;
	struct ibv_comp_channel *ch;
	struct ibv_recv_wr rwr = {.wr_id = 7}, *bad;
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_wc wc;
	struct lab l;

	lab_open(&l);
	ch = ibv_create_comp_channel(l.ctx);
	attr.recv_cq = ibv_create_cq(l.ctx, 64, NULL, ch, 0);
	ck_assert(ch && attr.recv_cq);
	remake(&l, attr);
	ck_assert_int_eq(ibv_req_notify_cq(attr.recv_cq, 1), 0);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(ibv_post_recv(l.right, &rwr, &bad), 0);
	post(&l, (struct request){
		     .op = IBV_WR_SEND, .no_sge = true, .flags = IBV_SEND_SIGNALED});
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_SEND);
	ck_assert(!readable(ch->fd, 20));
	post(&l, (struct request){.op = IBV_WR_SEND,
				  .no_sge = true,
				  .flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED});
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_SEND);
	take_cq_event(ch, attr.recv_cq);
	ck_assert_int_eq(ibv_poll_cq(attr.recv_cq, 1, &wc), 1);
	ck_assert_int_eq(ibv_poll_cq(attr.recv_cq, 1, &wc), 1);
	ck_assert_int_eq(ibv_req_notify_cq(attr.recv_cq, 1), 0);
	ck_assert_int_eq(ibv_modify_qp(l.right, &err, IBV_QP_STATE), 0);
	take_cq_event(ch, attr.recv_cq);
	ck_assert_int_eq(ibv_poll_cq(attr.recv_cq, 1, &wc), 1);
	ck_assert_int_eq(wc.status, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(ibv_destroy_qp(l.left), 0);
	ck_assert_int_eq(ibv_destroy_qp(l.right), 0);
	ck_assert_int_eq(ibv_destroy_cq(attr.recv_cq), 0);
	ck_assert_int_eq(ibv_destroy_comp_channel(ch), 0);
	ck_assert_int_eq(ibv_destroy_cq(l.cq), 0);
	ck_assert_int_eq(ibv_dealloc_pd(l.pd), 0);
	ck_assert_int_eq(ibv_close_device(l.ctx), 0);
}
END_TEST

/* A send queue takes what it has places for, and no more until some are done. */
START_TEST(full_send_queue)
{
	struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	struct ibv_qp_init_attr attr = usual;
	struct request r = {.op = IBV_WR_RDMA_WRITE, .no_sge = true};
	struct lab l;
	uint32_t n = 0;

	lab_open(&l);
	attr.cap.max_send_wr = 20;
	remake(&l, attr);
	ck_assert_int_eq(ibv_modify_qp(l.left, &sqd, IBV_QP_STATE), 0);
	while (!try_post(&l, r))
		n++;
	ck_assert_uint_eq(n, query(l.left).cap.max_send_wr);
	ck_assert_int_eq(try_post(&l, r), ENOMEM);
	ck_assert_int_eq(ibv_modify_qp(l.left, &rts, IBV_QP_STATE), 0);
	r.flags = IBV_SEND_SIGNALED;
	while (try_post(&l, r) == ENOMEM)
		usleep(1000);
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	lab_close(&l);
}
END_TEST

/* Nobody polls: CQ_ERR of the CQ, then QP_FATAL of the QP, which is in ERR. */
START_TEST(cq_overrun)
{
	struct ibv_qp_init_attr attr = usual;
	struct request r = {
	    .op = IBV_WR_RDMA_WRITE, .no_sge = true, .flags = IBV_SEND_SIGNALED};
	struct ibv_cq *small;
	struct lab l;

	lab_open(&l);
	small = ibv_create_cq(l.ctx, 3, NULL, NULL, 0);
	attr.send_cq = small;
	remake(&l, attr);
	for (int i = 0; i <= small->cqe; i++)
		post(&l, r);
	ck_assert_ptr_eq(expect_event(&l, IBV_EVENT_CQ_ERR).element.cq, small);
	ck_assert_ptr_eq(expect_event(&l, IBV_EVENT_QP_FATAL).element.qp, l.left);
	ck_assert_int_eq(query(l.left).qp_state, IBV_QPS_ERR);
	ck_assert_int_eq(query(l.right).qp_state, IBV_QPS_RTS);
	expect_no_event(&l);
	remake(&l, usual);
	ck_assert_int_eq(ibv_destroy_cq(small), 0);
	lab_close(&l);
}
END_TEST

/* The CQ grows and shrinks between completions; none is lost, none comes twice. */
START_TEST(cq_resize_under_traffic)
{
	uint64_t next = 0, want = 0;
	struct ibv_wc wc[8];
	struct lab l;
	int n;

	lab_open(&l);
	remake(&l, usual);
	for (int round = 0; round < 200; round++) {
		for (int i = 0; i < 30; i++) {
			if (try_post(&l, (struct request){.op = IBV_WR_RDMA_WRITE,
							  .no_sge = true,
							  .flags = IBV_SEND_SIGNALED,
							  .id = next}))
				break;
			next++;
		}
		ck_assert_int_eq(ibv_resize_cq(l.cq, 100 + round % 7 * 113), 0);
		ck_assert_int_ge(l.cq->cqe, 100 + round % 7 * 113);
		n = ibv_poll_cq(l.cq, 8, wc);
		for (int i = 0; i < n; i++)
			ck_assert_uint_eq(wc[i].wr_id, want++);
		while (next - want > 40)
			ck_assert_uint_eq(lab_wait(&l).wr_id, want++);
	}
	while (want < next)
		ck_assert_uint_eq(lab_wait(&l).wr_id, want++);
	ck_assert_int_eq(ibv_resize_cq(l.cq, 0), EINVAL);
	ck_assert_int_eq(ibv_resize_cq(l.cq, 1 << 30), EINVAL);
	lab_close(&l);
}
END_TEST

/* --- shared receive queues -------------------------------------------------------- */

static int post_srq(struct ibv_srq *srq, struct ibv_mr *mr, char *p, uint64_t id)
{
	struct ibv_sge sge = {(uintptr_t)p, 64, mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

static void send_to_srq(struct lab *l, uint64_t want)
{
	struct ibv_wc wc;
	bool got = false;

	post(l, (struct request){.op = IBV_WR_SEND,
				 .no_sge = true,
				 .flags = IBV_SEND_SIGNALED,
				 .id = 1000});
	for (int i = 0; i < 2; i++) {
		wc = lab_wait(l);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id == want)
			got = true;
	}
	ck_assert(got);
}

/* The limit says it once; the queue grows with what is in it. */
START_TEST(srq_limit_and_resize)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 7, .max_sge = 1}};
	struct ibv_srq_attr sattr = {.srq_limit = 5};
	struct ibv_qp_init_attr attr = usual;
	char *mem = lab_map(1);
	struct ibv_mr *mr;
	struct lab l;
	uint64_t in = 0, out = 0;

	lab_open(&l);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	attr.srq = ibv_create_srq(l.pd, &init);
	ck_assert(attr.srq);
	remake(&l, attr);
	while (!post_srq(attr.srq, mr, mem, in))
		in++;
	ck_assert_uint_eq(in, init.attr.max_wr);
	ck_assert_int_eq(ibv_modify_srq(attr.srq, &sattr, IBV_SRQ_LIMIT), 0);
	while (in - out > 5)
		send_to_srq(&l, out++);
	expect_no_event(&l);
	send_to_srq(&l, out++);
	ck_assert_ptr_eq(expect_event(&l, IBV_EVENT_SRQ_LIMIT_REACHED).element.srq,
			 attr.srq);
	send_to_srq(&l, out++);
	expect_no_event(&l);
	ck_assert_int_eq(ibv_query_srq(attr.srq, &sattr), 0);
	ck_assert_uint_eq(sattr.srq_limit, 0);
	sattr.max_wr = 2; /* less than are in it */
	ck_assert_int_eq(ibv_modify_srq(attr.srq, &sattr, IBV_SRQ_MAX_WR), EINVAL);
	sattr.max_wr = 100;
	ck_assert_int_eq(ibv_modify_srq(attr.srq, &sattr, IBV_SRQ_MAX_WR), 0);
	ck_assert_int_eq(ibv_query_srq(attr.srq, &sattr), 0);
	ck_assert_uint_ge(sattr.max_wr, 100);
	while (!post_srq(attr.srq, mr, mem, in))
		in++;
	ck_assert_uint_eq(in - out, sattr.max_wr);
	sattr.srq_limit = sattr.max_wr + 1;
	ck_assert_int_eq(ibv_modify_srq(attr.srq, &sattr, IBV_SRQ_LIMIT), EINVAL);
	while (out < in)
		send_to_srq(&l, out++);
	remake(&l, usual);
	ck_assert_int_eq(ibv_destroy_srq(attr.srq), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* A QP of an SRQ that enters ERR leaves the SRQ its requests, and says that it is done. */
START_TEST(last_wqe_reached)
{
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 7, .max_sge = 1}};
	struct ibv_qp_attr err = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr attr = usual;
	char *mem = lab_map(1);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct lab l;

	lab_open(&l);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	attr.srq = ibv_create_srq(l.pd, &init);
	remake(&l, attr);
	ck_assert_int_eq(post_srq(attr.srq, mr, mem, 0), 0);
	ck_assert_int_eq(ibv_modify_qp(l.right, &err, IBV_QP_STATE), 0);
	ck_assert_ptr_eq(expect_event(&l, IBV_EVENT_QP_LAST_WQE_REACHED).element.qp,
			 l.right);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	lab_connect(&l);
	send_to_srq(&l, 0);
	remake(&l, usual);
	ck_assert_int_eq(ibv_destroy_srq(attr.srq), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* --- states ----------------------------------------------------------------------- */

/* Draining ends in SQ_DRAINED when asked for; what is posted meanwhile waits for RTS. */
START_TEST(drain_and_go_on)
{
	struct ibv_qp_attr sqd = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS};
	struct request r = {
	    .op = IBV_WR_RDMA_WRITE, .no_sge = true, .flags = IBV_SEND_SIGNALED};
	struct ibv_qp_attr attr;
	struct ibv_wc wc;
	struct lab l;

	lab_begin(&l);
	post(&l, r);
	ck_assert_int_eq(
	    ibv_modify_qp(l.left, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	ck_assert_ptr_eq(expect_event(&l, IBV_EVENT_SQ_DRAINED).element.qp, l.left);
	attr = query(l.left);
	ck_assert_int_eq(attr.qp_state, IBV_QPS_SQD);
	ck_assert_int_eq(attr.sq_draining, 0);
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	post(&l, r);
	usleep(20000);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	/* the path may change here */
	attr = query(l.left);
	attr.min_rnr_timer = 9;
	attr.timeout = 11;
	ck_assert_int_eq(ibv_modify_qp(l.left, &attr,
				       IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_MIN_RNR_TIMER),
			 0);
	ck_assert_int_eq(ibv_modify_qp(l.left, &rts, IBV_QP_STATE), 0);
	expect_wc(&l, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	ck_assert_int_eq(query(l.left).timeout, 11);
	ck_assert_int_eq(query(l.left).min_rnr_timer, 9);
	lab_close(&l);
}
END_TEST

/* Alternate paths are for InfiniBand: the kernel refuses them on RoCE. */
START_TEST(no_alternate_path)
{
	struct ibv_qp_attr attr;
	struct lab l;

	lab_begin(&l);
	attr = query(l.left);
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_port_num = 1;
	attr.alt_timeout = 14;
	ck_assert_int_eq(ibv_modify_qp(l.left, &attr, IBV_QP_ALT_PATH), EINVAL);
	attr.path_mig_state = IBV_MIG_REARM;
	ck_assert_int_eq(ibv_modify_qp(l.left, &attr, IBV_QP_PATH_MIG_STATE), 0);
	ck_assert_int_eq(query(l.left).path_mig_state, IBV_MIG_REARM);
	lab_close(&l);
}
END_TEST

/* In each state, what is posted: refused, taken, or completed as flushed */
START_TEST(posting_by_state)
{
	struct ibv_qp_attr to = {.port_num = 1};
	struct request r = {
	    .op = IBV_WR_SEND, .no_sge = true, .flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr rwr = {.wr_id = 7}, *bad;
	struct lab l;

	lab_open(&l);
	ck_assert_int_eq(ibv_post_recv(l.left, &rwr, &bad), EINVAL); /* RESET */
	ck_assert_int_eq(try_post(&l, r), EINVAL);
	to.qp_state = IBV_QPS_INIT;
	ck_assert_int_eq(ibv_modify_qp(l.left, &to,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS),
			 0);
	ck_assert_int_eq(ibv_post_recv(l.left, &rwr, &bad), 0);
	ck_assert_int_eq(try_post(&l, r), EINVAL);
	to.qp_state = IBV_QPS_ERR;
	ck_assert_int_eq(ibv_modify_qp(l.left, &to, IBV_QP_STATE), 0);
	ck_assert_uint_eq(expect_wc(&l, IBV_WC_WR_FLUSH_ERR, 0).wr_id, 7);
	ck_assert_int_eq(ibv_post_recv(l.left, &rwr, &bad), 0);
	ck_assert_uint_eq(expect_wc(&l, IBV_WC_WR_FLUSH_ERR, 0).wr_id, 7);
	post(&l, r);
	ck_assert_uint_eq(expect_wc(&l, IBV_WC_WR_FLUSH_ERR, 0).wr_id, 0);
	lab_close(&l);
}
END_TEST

/* --- threads that hold the device's lock for other things --------------------------- */

#define BUSY_WINDOW 150

/* struct busy - @failed: status of a completion that was no success */
static struct busy {
	struct lab l;
	struct ibv_mr *mr;
	char *mem;
	_Atomic bool stop, all_posted;
	_Atomic long posted, polled;
	_Atomic int failed;
} busy;

static void *busy_post(void *qp)
{
	struct ibv_sge sge = {(uintptr_t)busy.mem, 64, busy.mr->lkey};
	struct ibv_send_wr wr = {
	    .sg_list = &sge,
	    .num_sge = 1,
	    .opcode = IBV_WR_RDMA_WRITE,
	    .send_flags = IBV_SEND_SIGNALED,
	    .wr.rdma = {(uintptr_t)busy.mem + 8192, busy.mr->rkey},
	};
	struct ibv_send_wr *bad;

	while (!busy.stop && !busy.failed) {
		if (busy.posted - busy.polled > BUSY_WINDOW)
			usleep(50);
		else if (!ibv_post_send(qp, &wr, &bad))
			busy.posted++;
	}
	return NULL;
}

static void *busy_poll(void *arg)
{
	struct ibv_wc wc[16];
	int i, n;

	while ((!busy.all_posted || busy.polled < busy.posted) && !busy.failed) {
		n = ibv_poll_cq(busy.l.cq, 16, wc);
		for (i = 0; i < n; i++)
			if (wc[i].status)
				busy.failed = wc[i].status;
		busy.polled += n;
	}
	return NULL;
}

static void *busy_register(void *arg)
{
	struct ibv_mr *mr;

	while (!busy.stop && (mr = ibv_reg_mr(busy.l.pd, busy.mem, 65536, LAB_ODP)))
		ibv_dereg_mr(mr);
	return NULL;
}

/* Who only registers memory must not find timers due of acknowledges that have come. */
START_TEST(registering_beside_traffic_uses_up_no_retries)
{
	void *(*const fn[])(void *) = {busy_poll,     busy_poll,    busy_post,
				       busy_post,     busy_post,    busy_post,
				       busy_register, busy_register};
	pthread_t t[8];
	int i;

	busy.mem = lab_map(16);
	lab_open(&busy.l);
	busy.l.timeout = 12;
	busy.l.retry_cnt = 3;
	lab_connect(&busy.l);
	busy.mr = lab_reg(&busy.l, busy.mem, 65536, LAB_ODP);
	for (i = 0; i < 8; i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, fn[i],
						i & 1 ? busy.l.left : busy.l.right),
				 0);
	sleep(2);
	busy.stop = true;
	for (i = 7; i >= 0; i--) {
		busy.all_posted = i < 2;
		pthread_join(t[i], NULL);
	}
	ck_assert_int_eq(busy.failed, 0);
	ck_assert_int_gt(busy.posted, 0);
	ck_assert_int_eq(busy.posted, busy.polled);
	ibv_dereg_mr(busy.mr);
	lab_close(&busy.l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hca");
	TCase *tc = tcase_create("hca");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, thirty_two_sges_of_both_kinds);
	tcase_add_loop_test(tc, two_gigabytes, 0, 2);
	tcase_add_loop_test(tc, messages_of_nothing, 0, 15);
	tcase_add_test(tc, inline_up_to_the_limit);
	tcase_add_test(tc, fence_waits_for_reads);
	tcase_add_test(tc, solicited_only);
	tcase_add_test(tc, full_send_queue);
	tcase_add_test(tc, cq_overrun);
	tcase_add_test(tc, cq_resize_under_traffic);
	tcase_add_test(tc, srq_limit_and_resize);
	tcase_add_test(tc, last_wqe_reached);
	tcase_add_test(tc, drain_and_go_on);
	tcase_add_test(tc, no_alternate_path);
	tcase_add_test(tc, posting_by_state);
	tcase_add_test(tc, registering_beside_traffic_uses_up_no_retries);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
