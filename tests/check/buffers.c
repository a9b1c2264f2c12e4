/* buffers.c - programs that do not leave the HCA alone with the memory it was given */
#include <fcntl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "corpus.h"
#include "kit.h"

#define SIGNALED IBV_SEND_SIGNALED
#define LOCAL	 IBV_ACCESS_LOCAL_WRITE
#define REMOTE	 (LOCAL | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define BIG	 (64u << 10)

/* struct pair - memory of both sides; @to was accessed by the peer once */
struct pair {
	struct kit k;
	char *from, *to;
	struct ibv_mr *from_mr, *to_mr;
};

static int rdma(struct pair *p, enum ibv_wr_opcode op, char *local, uint32_t len,
		char *remote, unsigned int flags)
{
	return kit_rdma(p->k.left, op, p->from_mr, local, len, remote, p->to_mr->rkey,
			flags);
}

static void pair_memory(struct pair *p)
{
	p->from = kit_map(BIG);
	p->to = kit_map(BIG);
	p->from_mr = kit_reg(&p->k, p->from, BIG, LOCAL);
	p->to_mr = kit_reg(&p->k, p->to, BIG, REMOTE);
	NEED(!rdma(p, IBV_WR_RDMA_WRITE, p->from, 8, p->to + BIG - 8, SIGNALED));
	kit_good(p->k.left_cq);
}

static void pair_open(struct pair *p)
{
	kit_open(&p->k);
	pair_memory(p);
}

static void pair_close(struct pair *p)
{
	kit_destroy_qps(&p->k);
	kit_dereg(p->from_mr);
	kit_dereg(p->to_mr);
	kit_close_rest(&p->k);
}

/* --- changed ---------------------------------------------------------------------------- */

static void send_changed(bool wrong)
{
	struct pair p;

	pair_open(&p);
	NEED(!rdma(&p, IBV_WR_RDMA_WRITE, p.from, BIG, p.to, SIGNALED));
	if (wrong)
		p.from[BIG - 1] = 1;
	kit_good(p.k.left_cq);
	p.from[BIG - 1] = 2;
	pair_close(&p);
}

/* It made no completion; a later one tells that it is done. */
static void send_changed_unsignaled(bool wrong)
{
	struct pair p;

	pair_open(&p);
	NEED(!rdma(&p, IBV_WR_RDMA_WRITE, p.from, 100, p.to, 0));
	kit_sleep(20);
	if (wrong)
		p.from[50] = 1;
	NEED(!rdma(&p, IBV_WR_RDMA_WRITE, p.from + 4096, 100, p.to, SIGNALED));
	kit_good(p.k.left_cq);
	pair_close(&p);
}

/* The right one sends it inline, and may change it at once. */
static void send_changed_not_inline(bool wrong)
{
	struct pair p;

	pair_open(&p);
	NEED(!kit_recv(p.k.right, p.to_mr, p.to, 64));
	NEED(!kit_send(p.k.left, p.from_mr, p.from, 32,
		       SIGNALED | (wrong ? 0 : IBV_SEND_INLINE)));
	p.from[0] = 1;
	kit_good(p.k.left_cq);
	kit_good(p.k.right_cq);
	pair_close(&p);
}

/* --- freed ------------------------------------------------------------------------------ */

static void freed_in_use(bool wrong)
{
	char *block = malloc(1000);
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, block, 1000, LOCAL);
	NEED(!kit_recv(p.k.right, mr, block, 1000));
	if (wrong)
		free(block);
	kit_destroy_qps(&p.k);
	if (!wrong)
		free(block);
	kit_dereg(mr);
	pair_close(&p);
}

static void freed_by_realloc(bool wrong)
{
	char *block = malloc(1000), *wall = malloc(1000);
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, block, 1000, LOCAL);
	NEED(!kit_recv(p.k.right, mr, block + 999, 1));
	if (!wrong)
		kit_destroy_qps(&p.k);
	NEED(block = realloc(block, 1u << 20));
	kit_destroy_qps(&p.k);
	free(block);
	free(wall);
	kit_dereg(mr);
	pair_close(&p);
}

static void freed_by_munmap(bool wrong)
{
	char *block = kit_map(4 * KIT_PAGE);
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, block, 4 * KIT_PAGE, LOCAL);
	NEED(!kit_recv(p.k.right, mr, block + 2 * KIT_PAGE - 8, 8));
	NEED(!munmap(block + (wrong ? KIT_PAGE : 2 * KIT_PAGE), KIT_PAGE));
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

/* What is flushed is not touched, whether its completion was polled or not. */
static void freed_while_flushed(bool wrong)
{
	char *block = kit_map(KIT_PAGE);
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, block, KIT_PAGE, LOCAL);
	NEED(!kit_recv(p.k.right, mr, block, 8));
	if (!wrong)
		kit_to_error(p.k.right);
	NEED(!munmap(block, KIT_PAGE));
	if (wrong)
		kit_to_error(p.k.right);
	NEED(kit_wait(p.k.right_cq).status == IBV_WC_WR_FLUSH_ERR);
	kit_dereg(mr);
	pair_close(&p);
}

/* --- deregistered ------------------------------------------------------------------------ */

static void dereg_in_use(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(KIT_PAGE), KIT_PAGE, LOCAL);
	NEED(!kit_recv(p.k.right, mr, mr->addr, 8));
	if (wrong)
		kit_dereg(mr);
	kit_destroy_qps(&p.k);
	if (!wrong)
		kit_dereg(mr);
	pair_close(&p);
}

/* One that was posted before the error, and one that is posted in it */
static void dereg_while_flushed(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(KIT_PAGE), KIT_PAGE, LOCAL);
	NEED(!kit_recv(p.k.right, mr, mr->addr, 8));
	if (!wrong) {
		kit_to_error(p.k.right);
		NEED(!kit_recv(p.k.right, mr, mr->addr, 8));
	}
	kit_dereg(mr);
	if (wrong)
		kit_to_error(p.k.right);
	for (int i = wrong; i < 2; i++)
		NEED(kit_wait(p.k.right_cq).status == IBV_WC_WR_FLUSH_ERR);
	pair_close(&p);
}

static void dereg_in_use_srq(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	kit_device(&p.k);
	kit_srq(&p.k, 8);
	kit_connect(&p.k);
	pair_memory(&p);
	mr = kit_reg(&p.k, kit_map(KIT_PAGE), KIT_PAGE, LOCAL);
	NEED(!kit_srq_recv(p.k.srq, mr, mr->addr, 8));
	if (!wrong) {
		NEED(!kit_send(p.k.left, p.from_mr, p.from, 8, SIGNALED));
		kit_good(p.k.left_cq);
		kit_good(p.k.right_cq);
	}
	kit_dereg(mr);
	pair_close(&p);
}

/* --- overlapping --------------------------------------------------------------------------- */

static void receives_overlap(bool wrong)
{
	struct pair p;

	pair_open(&p);
	NEED(!kit_recv(p.k.right, p.to_mr, p.to, 64));
	NEED(!kit_recv(p.k.right, p.to_mr, p.to + (wrong ? 0 : 64), 64));
	pair_close(&p);
}

/* Again and again, and what cannot be told for want of a descriptor is not told to the program */
static void receives_overlap_again(bool wrong)
{
	struct rlimit before, none;
	struct pair p;

	pair_open(&p);
	NEED(!getrlimit(RLIMIT_NOFILE, &before));
	none = (struct rlimit){0, before.rlim_max};
	for (unsigned int i = 0; i < 5; i++) {
		int ret;

		if (i == 2)
			NEED(!setrlimit(RLIMIT_NOFILE, &none));
		errno = EXDEV;
		ret = kit_recv(p.k.right, p.to_mr, p.to + (wrong ? 0 : i * 64), 64);
		NEED(!ret && errno == EXDEV);
	}
	NEED(!setrlimit(RLIMIT_NOFILE, &before));
	pair_close(&p);
}

/* By one byte, a READ with a receive of the other QP */
static void receives_overlap_read(bool wrong)
{
	struct pair p;

	pair_open(&p);
	NEED(!kit_recv(p.k.right, p.from_mr, p.from + 1000, 500));
	NEED(!rdma(&p, IBV_WR_RDMA_READ, p.from + 1499 + !wrong, 3000, p.to, SIGNALED));
	kit_good(p.k.left_cq);
	pair_close(&p);
}

static void receives_overlap_srq(bool wrong)
{
	struct pair p;

	kit_device(&p.k);
	kit_srq(&p.k, 8);
	kit_connect(&p.k);
	pair_memory(&p);
	NEED(!kit_srq_recv(p.k.srq, p.to_mr, p.to, 20000));
	NEED(!kit_srq_recv(p.k.srq, p.to_mr, p.to + 20000 - (wrong ? 10 : 0), 10));
	pair_close(&p);
}

/* A shared queue of XRC, which belongs to no QP */
static void receives_overlap_xrc(bool wrong)
{
	struct ibv_xrcd_init_attr xrcd_init = {.comp_mask = IBV_XRCD_INIT_ATTR_FD |
							    IBV_XRCD_INIT_ATTR_OFLAGS,
					       .fd = -1,
					       .oflags = O_CREAT};
	struct ibv_srq_init_attr_ex init = {
	    .attr = {.max_wr = 8, .max_sge = 1},
	    .srq_type = IBV_SRQT_XRC,
	    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			 IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ};
	struct ibv_srq *srq;
	struct pair p;

	pair_open(&p);
	NEED(init.xrcd = ibv_open_xrcd(p.k.ctx, &xrcd_init));
	init.pd = p.k.pd;
	init.cq = p.k.right_cq;
	NEED(srq = ibv_create_srq_ex(p.k.ctx, &init));
	NEED(!kit_srq_recv(srq, p.to_mr, p.to, 100));
	NEED(!kit_srq_recv(srq, p.to_mr, p.to + (wrong ? 50 : 100), 100));
	NEED(!ibv_destroy_srq(srq));
	NEED(!ibv_close_xrcd(init.xrcd));
	pair_close(&p);
}

/* --- touched ----------------------------------------------------------------------- */

static void send_and_receive(struct pair *p)
{
	NEED(!kit_send(p->k.left, p->from_mr, p->from, 64, SIGNALED));
	kit_good(p->k.left_cq);
	kit_good(p->k.right_cq);
}

static void receive_touched(bool wrong)
{
	struct pair p;

	pair_open(&p);
	if (!wrong)
		memset(p.to, 0x55, 64);
	NEED(!kit_recv(p.k.right, p.to_mr, p.to, 64));
	if (wrong)
		memset(p.to, 0x55, 64);
	send_and_receive(&p);
	p.to[0] = 1;
	pair_close(&p);
}

static void touch(void *p)
{
	((char *)p)[63]++;
}

/* The second of a shared queue, its last byte, by a thread; the right one touches what it has got */
static void receive_touched_srq(bool wrong)
{
	struct pair p;

	kit_device(&p.k);
	kit_srq(&p.k, 8);
	kit_connect(&p.k);
	pair_memory(&p);
	NEED(!kit_srq_recv(p.k.srq, p.to_mr, p.to, 64));
	NEED(!kit_srq_recv(p.k.srq, p.to_mr, p.to + 64, 64));
	send_and_receive(&p);
	kit_in_thread(touch, p.to + (wrong ? 64 : 0));
	send_and_receive(&p);
	pair_close(&p);
}

/* --- outside -------------------------------------------------------------------------------- */

static void sge_outside_mr(bool wrong)
{
	struct pair p;

	pair_open(&p);
	NEED(!rdma(&p, IBV_WR_RDMA_WRITE, p.from + BIG - 64, 64 + wrong, p.to, SIGNALED));
	kit_wait(p.k.left_cq);
	pair_close(&p);
}

/* A receive, of which nothing is seen before a message comes; in its second piece */
static void sge_outside_mr_second(bool wrong)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = 7, .num_sge = 2};
	struct ibv_sge sge[2];
	struct pair p;

	pair_open(&p);
	sge[0] = (struct ibv_sge){(uintptr_t)p.to, 8, p.to_mr->lkey};
	sge[1] =
	    (struct ibv_sge){(uintptr_t)p.to + 8 - (wrong ? 9 : 0), 8, p.to_mr->lkey};
	wr.sg_list = sge;
	NEED(!ibv_post_recv(p.k.right, &wr, &bad));
	pair_close(&p);
}

static void sge_bad_lkey(bool wrong)
{
	struct ibv_mr bad;
	struct pair p;

	pair_open(&p);
	bad = *p.from_mr;
	bad.lkey ^= wrong ? 0x5555 : 0;
	NEED(!kit_rdma(p.k.left, IBV_WR_RDMA_WRITE, &bad, p.from, 64, p.to, p.to_mr->rkey,
		       SIGNALED));
	kit_wait(p.k.left_cq);
	pair_close(&p);
}

static void sge_bad_lkey_deregistered(bool wrong)
{
	struct ibv_mr *mr, was;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(KIT_PAGE), KIT_PAGE, LOCAL);
	was = *mr;
	if (wrong)
		kit_dereg(mr);
	NEED(!kit_recv(p.k.right, &was, was.addr, 64));
	kit_destroy_qps(&p.k);
	if (!wrong)
		kit_dereg(mr);
	pair_close(&p);
}

/* --- the peer -------------------------------------------------------------------------------- */

static void remote_write_in_use(bool wrong)
{
	struct pair p;

	pair_open(&p);
	NEED(!kit_recv(p.k.right, p.to_mr, p.to, 64));
	NEED(!rdma(&p, IBV_WR_RDMA_WRITE, p.from, 64, p.to + (wrong ? 0 : 64), SIGNALED));
	kit_good(p.k.left_cq);
	pair_close(&p);
}

/* The right one takes the request with its own immediate data, and so gets nothing into it. */
static void remote_write_in_use_imm(bool wrong)
{
	struct pair p;

	pair_open(&p);
	if (wrong)
		NEED(!kit_recv(p.k.right, p.to_mr, p.to + 64, 64));
	NEED(!kit_recv(p.k.right, p.to_mr, p.to, 64));
	NEED(!rdma(&p, IBV_WR_RDMA_WRITE_WITH_IMM, p.from, 64, p.to, SIGNALED));
	kit_good(p.k.left_cq);
	kit_good(p.k.right_cq);
	pair_close(&p);
}

/* Into what the other side is sending, which made no completion */
static void remote_write_in_use_send(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(KIT_PAGE), KIT_PAGE, REMOTE);
	NEED(!kit_rdma(p.k.right, IBV_WR_RDMA_WRITE, p.to_mr, p.to, 1000, mr->addr,
		       mr->rkey, wrong ? 0 : SIGNALED));
	if (!wrong)
		kit_good(p.k.right_cq);
	kit_sleep(20);
	NEED(!rdma(&p, IBV_WR_RDMA_WRITE, p.from, 5000, p.to + 999, SIGNALED));
	kit_good(p.k.left_cq);
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

/* --- order ------------------------------------------------------------------------------------ */

static void read_unfenced(bool wrong)
{
	struct pair p;

	pair_open(&p);
	NEED(!kit_recv(p.k.right, p.to_mr, p.to, 64));
	NEED(!rdma(&p, IBV_WR_RDMA_READ, p.from, 64, p.to + 64, SIGNALED));
	NEED(!kit_send(p.k.left, p.from_mr, p.from, 64,
		       SIGNALED | (wrong ? 0 : IBV_SEND_FENCE)));
	kit_good(p.k.left_cq);
	kit_good(p.k.left_cq);
	pair_close(&p);
}

/* The last byte of what an atomic brings, on its way further; the right one waits for it. */
static void read_unfenced_atomic(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p);
	mr = kit_reg(&p.k, kit_map(KIT_PAGE), KIT_PAGE, LOCAL | IBV_ACCESS_REMOTE_ATOMIC);
	NEED(!kit_rdma(p.k.left, IBV_WR_ATOMIC_FETCH_AND_ADD, p.from_mr, p.from, 8,
		       mr->addr, mr->rkey, SIGNALED));
	if (!wrong)
		kit_good(p.k.left_cq);
	NEED(!rdma(&p, IBV_WR_RDMA_WRITE, p.from + 7, 100, p.to, SIGNALED));
	kit_good(p.k.left_cq);
	if (wrong)
		kit_good(p.k.left_cq);
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

const struct program buffer_programs[] = {
    {"send-changed", "plain", send_changed},
    {"send-changed", "unsignaled", send_changed_unsignaled},
    {"send-changed", "not-inline", send_changed_not_inline},
    {"freed-in-use", "plain", freed_in_use},
    {"freed-in-use", "realloc", freed_by_realloc},
    {"freed-in-use", "munmap", freed_by_munmap},
    {"freed-in-use", "flushed", freed_while_flushed},
    {"dereg-in-use", "plain", dereg_in_use},
    {"dereg-in-use", "srq", dereg_in_use_srq},
    {"dereg-in-use", "flushed", dereg_while_flushed},
    {"receives-overlap", "plain", receives_overlap},
    {"receives-overlap", "again", receives_overlap_again},
    {"receives-overlap", "read-by-a-byte", receives_overlap_read},
    {"receives-overlap", "srq", receives_overlap_srq},
    {"receives-overlap", "xrc", receives_overlap_xrc},
    {"receive-touched", "plain", receive_touched},
    {"receive-touched", "srq", receive_touched_srq},
    {"sge-outside-mr", "plain", sge_outside_mr},
    {"sge-outside-mr", "second-sge", sge_outside_mr_second},
    {"sge-bad-lkey", "plain", sge_bad_lkey},
    {"sge-bad-lkey", "deregistered", sge_bad_lkey_deregistered},
    {"remote-write-in-use", "plain", remote_write_in_use},
    {"remote-write-in-use", "immediate", remote_write_in_use_imm},
    {"remote-write-in-use", "sending", remote_write_in_use_send},
    {"read-unfenced", "plain", read_unfenced},
    {"read-unfenced", "atomic", read_unfenced_atomic},
    {NULL, NULL, NULL},
};
