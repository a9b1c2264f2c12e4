/* rights.c - programs that give too many rights or too few, and programs for one device only */
#include <stdlib.h>

#include "corpus.h"
#include "kit.h"

#define SIGNALED IBV_SEND_SIGNALED
#define LOCAL	 IBV_ACCESS_LOCAL_WRITE
#define WRITABLE (LOCAL | IBV_ACCESS_REMOTE_WRITE)
#define READABLE (LOCAL | IBV_ACCESS_REMOTE_READ)
#define ATOMIC	 (LOCAL | IBV_ACCESS_REMOTE_ATOMIC)

/* struct pair - left accesses @to of right, which is registered with the rights asked for */
struct pair {
	struct kit k;
	char *from, *to;
	struct ibv_mr *from_mr, *to_mr;
};

static void pair_open(struct pair *p, int access)
{
	kit_open(&p->k);
	p->from = kit_map(KIT_PAGE);
	p->to = kit_map(KIT_PAGE);
	p->from_mr = kit_reg(&p->k, p->from, KIT_PAGE, LOCAL);
	p->to_mr = kit_reg(&p->k, p->to, KIT_PAGE, access);
}

static void pair_close(struct pair *p)
{
	kit_destroy_qps(&p->k);
	kit_dereg(p->from_mr);
	if (p->to_mr)
		kit_dereg(p->to_mr);
	kit_close_rest(&p->k);
}

static struct ibv_wc access_peer(struct pair *p, enum ibv_wr_opcode op, uint32_t len,
				 const void *remote, uint32_t rkey)
{
	NEED(!kit_rdma(p->k.left, op, p->from_mr, p->from, len, remote, rkey, SIGNALED));
	return kit_wait(p->k.left_cq);
}

/* --- local ------------------------------------------------------------------------------ */

static void local_write_missing(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p, LOCAL);
	mr = kit_reg(&p.k, kit_map(KIT_PAGE), KIT_PAGE, wrong ? 0 : LOCAL);
	NEED(!kit_recv(p.k.right, mr, mr->addr, 64));
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

static void local_write_missing_read(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p, READABLE);
	mr = kit_reg(&p.k, kit_map(KIT_PAGE), KIT_PAGE, wrong ? 0 : LOCAL);
	kit_rdma(p.k.left, IBV_WR_RDMA_READ, mr, mr->addr, 64, p.to, p.to_mr->rkey,
		 SIGNALED);
	kit_wait(p.k.left_cq);
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

/* --- remote ------------------------------------------------------------------------------ */

static void remote_unused(bool wrong)
{
	struct pair p;

	pair_open(&p, wrong ? WRITABLE : LOCAL);
	pair_close(&p);
}

/* It is a target of local READs only. */
static void remote_unused_atomic(bool wrong)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p, READABLE);
	mr = kit_reg(&p.k, kit_map(KIT_PAGE), KIT_PAGE, wrong ? ATOMIC : LOCAL);
	NEED(!kit_rdma(p.k.left, IBV_WR_RDMA_READ, mr, mr->addr, 64, p.to, p.to_mr->rkey,
		       SIGNALED));
	kit_good(p.k.left_cq);
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

static void rkey_closed(bool wrong)
{
	struct pair p;
	uint32_t rkey;

	pair_open(&p, WRITABLE);
	rkey = p.to_mr->rkey;
	access_peer(&p, IBV_WR_RDMA_WRITE, 64, p.to, rkey);
	if (wrong) {
		kit_dereg(p.to_mr);
		p.to_mr = NULL;
	}
	access_peer(&p, IBV_WR_RDMA_WRITE, 64, p.to, rkey);
	pair_close(&p);
}

static void rkey_never_given(bool wrong)
{
	struct pair p;

	pair_open(&p, READABLE);
	access_peer(&p, IBV_WR_RDMA_READ, 64, p.to,
		    p.to_mr->rkey ^ (wrong ? 0x7700u : 0));
	pair_close(&p);
}

static void remote_outside_mr(bool wrong)
{
	struct pair p;

	pair_open(&p, WRITABLE);
	access_peer(&p, IBV_WR_RDMA_WRITE, 64, p.to, p.to_mr->rkey);
	access_peer(&p, IBV_WR_RDMA_WRITE, 64, p.to + KIT_PAGE - 64 + wrong,
		    p.to_mr->rkey);
	pair_close(&p);
}

static void remote_outside_mr_before(bool wrong)
{
	struct pair p;

	pair_open(&p, READABLE);
	access_peer(&p, IBV_WR_RDMA_READ, 64, p.to - wrong, p.to_mr->rkey);
	pair_close(&p);
}

static void remote_right_missing(bool wrong)
{
	struct pair p;

	pair_open(&p, wrong ? READABLE : WRITABLE);
	access_peer(&p, IBV_WR_RDMA_WRITE, 64, p.to, p.to_mr->rkey);
	pair_close(&p);
}

static void remote_right_missing_atomic(bool wrong)
{
	struct pair p;

	pair_open(&p, wrong ? READABLE : ATOMIC);
	access_peer(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, p.to, p.to_mr->rkey);
	pair_close(&p);
}

/* A region of all there is; the peer writes to it once. */
static void everything(bool wrong, bool in_thread)
{
	struct ibv_mr *mr;
	struct pair p;

	pair_open(&p, LOCAL);
	mr = ibv_reg_mr(p.k.pd, NULL, SIZE_MAX,
			LOCAL | IBV_ACCESS_ON_DEMAND |
			    (wrong ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ));
	NEED(mr);
	access_peer(&p, wrong ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, 64,
		    in_thread ? p.to + 64 : p.to, mr->rkey);
	kit_destroy_qps(&p.k);
	kit_dereg(mr);
	pair_close(&p);
}

static void wildcard_write(bool wrong)
{
	everything(wrong, false);
}

static void open_everything(void *wrong)
{
	everything(*(bool *)wrong, true);
}

static void wildcard_write_in_a_thread(bool wrong)
{
	kit_in_thread(open_everything, &wrong);
}

static void datagram_qp(uint32_t qkey)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD,
					.cap = {.max_send_wr = 4,
						.max_recv_wr = 4,
						.max_send_sge = 1,
						.max_recv_sge = 1}};
	struct ibv_qp *qp;
	struct kit k;

	kit_device(&k);
	NEED(k.left_cq = ibv_create_cq(k.ctx, 16, NULL, NULL, 0));
	init.send_cq = init.recv_cq = k.left_cq;
	NEED(qp = ibv_create_qp(k.pd, &init));
	NEED(!ibv_modify_qp(
	    qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
	NEED(!ibv_destroy_qp(qp));
	kit_close_rest(&k);
}

static void qkey_guessable(bool wrong)
{
	datagram_qp(wrong ? 0 : 0x4fa1093c);
}

static void qkey_of_one_digit(bool wrong)
{
	datagram_qp(wrong ? 0x11111111 : 0x11111112);
}

/* --- other devices ------------------------------------------------------------------------- */

static void atomic(bool wrong, enum ibv_wr_opcode op, int offset)
{
	struct pair p;

	pair_open(&p, ATOMIC);
	access_peer(&p, op, 8, p.to, p.to_mr->rkey);
	if (!kit_rdma(p.k.left, op, p.from_mr, p.from, 8, p.to + (wrong ? offset : 8),
		      p.to_mr->rkey, SIGNALED))
		kit_wait(p.k.left_cq);
	pair_close(&p);
}

static void atomic_misaligned(bool wrong)
{
	atomic(wrong, IBV_WR_ATOMIC_FETCH_AND_ADD, 4);
}

static void atomic_misaligned_swap(bool wrong)
{
	atomic(wrong, IBV_WR_ATOMIC_CMP_AND_SWP, 17);
}

static void gid_index_zero(bool wrong)
{
	struct kit k;

	kit_device(&k);
	k.gid_index = wrong ? 0 : 1;
	kit_connect(&k);
	kit_close(&k);
}

static void gid_index_zero_of_a_handle(bool wrong)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.sgid_index = wrong ? 0 : 1, .hop_limit = 1}};
	struct ibv_ah *ah;
	struct kit k;

	kit_device(&k);
	NEED(!ibv_query_gid(k.ctx, 1, attr.grh.sgid_index, &attr.grh.dgid));
	NEED(ah = ibv_create_ah(k.pd, &attr));
	NEED(!ibv_destroy_ah(ah));
	kit_close_rest(&k);
}

/* A QP with these capabilities, by the one function or the other */
static void qp_with(struct ibv_qp_cap cap, bool extended)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = cap};
	struct ibv_qp_init_attr_ex ex = {
	    .qp_type = IBV_QPT_RC, .cap = cap, .comp_mask = IBV_QP_INIT_ATTR_PD};
	struct ibv_qp *qp;
	struct kit k;

	kit_device(&k);
	NEED(k.left_cq = ibv_create_cq(k.ctx, 16, NULL, NULL, 0));
	init.send_cq = init.recv_cq = ex.send_cq = ex.recv_cq = k.left_cq;
	ex.pd = k.pd;
	qp = extended ? ibv_create_qp_ex(k.ctx, &ex) : ibv_create_qp(k.pd, &init);
	NEED(qp);
	NEED(!ibv_destroy_qp(qp));
	kit_close_rest(&k);
}

static struct ibv_qp_cap usual_cap(void)
{
	return (struct ibv_qp_cap){
	    .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2};
}

static void inline_large(bool wrong)
{
	struct ibv_qp_cap cap = usual_cap();

	cap.max_inline_data = wrong ? 221 : 220;
	qp_with(cap, false);
}

static void inline_large_extended(bool wrong)
{
	struct ibv_qp_cap cap = usual_cap();

	cap.max_inline_data = wrong ? 400 : 64;
	qp_with(cap, true);
}

static void sge_many(bool wrong)
{
	struct ibv_qp_cap cap = usual_cap();

	cap.max_send_sge = wrong ? 14 : 13;
	qp_with(cap, false);
}

static void sge_many_to_receive(bool wrong)
{
	struct ibv_qp_cap cap = usual_cap();

	cap.max_recv_sge = wrong ? 32 : 13;
	qp_with(cap, true);
}

static void queue_deep(bool wrong)
{
	struct ibv_qp_cap cap = usual_cap();

	cap.max_send_wr = wrong ? 8128 : 8127;
	qp_with(cap, false);
}

static void queue_deep_to_receive(bool wrong)
{
	struct ibv_qp_cap cap = usual_cap();

	cap.max_recv_wr = wrong ? 20000 : 8127;
	qp_with(cap, true);
}

static void rd_atomic_many(bool wrong)
{
	struct kit k;

	kit_device(&k);
	k.rd_atomic = wrong ? 17 : 16;
	kit_connect(&k);
	kit_close(&k);
}

static void connect_now(void *arg)
{
	kit_connect(arg);
}

static void mtu_unasked(bool wrong)
{
	struct ibv_port_attr port;
	struct kit k;

	kit_device(&k);
	k.mtu = IBV_MTU_2048;
	if (!wrong)
		NEED(!ibv_query_port(k.ctx, 1, &port));
	kit_connect(&k);
	kit_close(&k);
}

/* Or a library asked, by a context of its own */
static void mtu_unasked_in_a_thread(bool wrong)
{
	struct ibv_port_attr port;
	struct kit k, other;

	kit_device(&other);
	kit_device(&k);
	if (!wrong)
		NEED(!ibv_query_port(other.ctx, 1, &port));
	k.mtu = IBV_MTU_4096;
	kit_in_thread(connect_now, &k);
	kit_close(&k);
	kit_close_rest(&other);
}

static void rd_atomic_many_in_a_thread(bool wrong)
{
	struct kit k;

	kit_device(&k);
	k.rd_atomic = wrong ? 128 : 1;
	kit_in_thread(connect_now, &k);
	kit_close(&k);
}

const struct program right_programs[] = {
    {"local-write-missing", "plain", local_write_missing},
    {"local-write-missing", "read", local_write_missing_read},
    {"remote-unused", "plain", remote_unused},
    {"remote-unused", "atomic", remote_unused_atomic},
    {"rkey-closed", "plain", rkey_closed},
    {"rkey-closed", "never-given", rkey_never_given},
    {"remote-outside-mr", "plain", remote_outside_mr},
    {"remote-outside-mr", "before", remote_outside_mr_before},
    {"remote-right-missing", "plain", remote_right_missing},
    {"remote-right-missing", "atomic", remote_right_missing_atomic},
    {"wildcard-write", "plain", wildcard_write},
    {"wildcard-write", "thread", wildcard_write_in_a_thread},
    {"qkey-guessable", "plain", qkey_guessable},
    {"qkey-guessable", "one-digit", qkey_of_one_digit},
    {"atomic-misaligned", "plain", atomic_misaligned},
    {"atomic-misaligned", "swap", atomic_misaligned_swap},
    {"gid-index-zero", "plain", gid_index_zero},
    {"gid-index-zero", "handle", gid_index_zero_of_a_handle},
    {"inline-large", "plain", inline_large},
    {"inline-large", "extended", inline_large_extended},
    {"sge-many", "plain", sge_many},
    {"sge-many", "receive", sge_many_to_receive},
    {"queue-deep", "plain", queue_deep},
    {"queue-deep", "receive", queue_deep_to_receive},
    {"rd-atomic-many", "plain", rd_atomic_many},
    {"rd-atomic-many", "thread", rd_atomic_many_in_a_thread},
    {"mtu-unasked", "plain", mtu_unasked},
    {"mtu-unasked", "thread", mtu_unasked_in_a_thread},
    {NULL, NULL, NULL},
};
