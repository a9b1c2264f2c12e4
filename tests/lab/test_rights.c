/*
 * Description: who may touch which memory, through the distribution's libibverbs: rights
 * of regions and queue pairs, regions at another address, zero-based and registered
 * again, windows of both types; and the status that each end of a request that fails
 * reports.
 */
#include "lab.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LEN 256u

/* One request of "left": @remote is an address as the peer's key takes it */
static enum ibv_wc_status do_op(struct lab *l, enum ibv_wr_opcode op, struct ibv_mr *mr,
				void *p, uint32_t len, uint64_t remote, uint32_t rkey)
{
	struct ibv_sge sge = {(uintptr_t)p, len, mr->lkey};
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = op,
				 .send_flags = IBV_SEND_SIGNALED};

	if (op == IBV_WR_ATOMIC_CMP_AND_SWP || op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = remote;
		wr.wr.atomic.rkey = rkey;
	} else {
		wr.wr.rdma.remote_addr = remote;
		wr.wr.rdma.rkey = rkey;
	}
	lab_post(l->left, &wr);
	return lab_wait(l).status;
}

static enum ibv_wc_status write_to(struct lab *l, struct ibv_mr *mr, uint64_t remote,
				   uint32_t rkey)
{
	return do_op(l, IBV_WR_RDMA_WRITE, mr, mr->addr, LEN, remote, rkey);
}

static enum ibv_wc_status read_from(struct lab *l, struct ibv_mr *mr, uint64_t remote,
				    uint32_t rkey)
{
	return do_op(l, IBV_WR_RDMA_READ, mr, mr->addr, LEN, remote, rkey);
}

/* An access that must be refused; the queue pairs are good again afterwards. */
static void refused(struct lab *l, enum ibv_wc_status status)
{
	ck_assert_msg(status == IBV_WC_REM_ACCESS_ERR, "%s", ibv_wc_status_str(status));
	lab_connect(l);
}

static void granted(enum ibv_wc_status status)
{
	ck_assert_msg(status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(status));
}

/* --- regions ---------------------------------------------------------------------- */

/* The address that peers use is another one than the memory's; its place in the page is not. */
START_TEST(region_at_another_address)
{
	const uint64_t iova = 0x7000000000000000ull + 128;
	char *mem = lab_map(4), *own = lab_map(1);
	struct ibv_mr *mr, *local;
	struct lab l;

	lab_begin(&l);
	local = lab_reg(&l, own, LEN, LAB_ACCESS);
	mr = ibv_reg_mr_iova(l.pd, mem + 128, 3 * LAB_PAGE, iova,
			     _i ? LAB_ODP : LAB_ACCESS);
	ck_assert(mr);
	lab_fill(own, LEN, 1);
	granted(write_to(&l, local, iova + LAB_PAGE, mr->rkey));
	ck_assert(lab_is(mem + 128 + LAB_PAGE, LEN, 1));
	granted(write_to(&l, local, iova + 3 * LAB_PAGE - LEN, mr->rkey));
	refused(&l, write_to(&l, local, iova + 3 * LAB_PAGE - LEN + 1, mr->rkey));
	refused(&l, write_to(&l, local, iova - 1, mr->rkey));
	refused(&l, write_to(&l, local, (uintptr_t)mem + 128, mr->rkey));
	/* its L_Key as well */
	{
		struct ibv_sge sge = {iova, LEN, mr->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = IBV_WR_RDMA_READ,
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.rdma = {(uintptr_t)own, local->rkey}};

		memset(mem, 0, LAB_PAGE);
		lab_post(l.left, &wr);
		granted(lab_wait(&l).status);
		ck_assert(lab_is(mem + 128, LEN, 1));
	}
	ck_assert_ptr_null(
	    ibv_reg_mr_iova(l.pd, mem + 128, LAB_PAGE, iova + 1, LAB_ACCESS));
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(local), 0);
	lab_close(&l);
}
END_TEST

START_TEST(zero_based_region)
{
	int access = (_i ? LAB_ODP : LAB_ACCESS) | IBV_ACCESS_ZERO_BASED;
	char *mem = lab_map(4), *own = lab_map(1);
	struct ibv_mr *mr, *local;
	struct lab l;

	lab_begin(&l);
	local = lab_reg(&l, own, LEN, LAB_ACCESS);
	mr = lab_reg(&l, mem + 100, 2 * LAB_PAGE, access);
	lab_fill(own, LEN, 1);
	granted(write_to(&l, local, 0, mr->rkey));
	ck_assert(lab_is(mem + 100, LEN, 1));
	granted(write_to(&l, local, 2 * LAB_PAGE - LEN, mr->rkey));
	ck_assert(lab_is(mem + 100 + 2 * LAB_PAGE - LEN, LEN, 1));
	refused(&l, write_to(&l, local, 2 * LAB_PAGE - LEN + 1, mr->rkey));
	refused(&l, write_to(&l, local, (uintptr_t)mem + 100, mr->rkey));
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(local), 0);
	lab_close(&l);
}
END_TEST

/* Each right alone gives what it says, and nothing else; so does each of the queue pair. */
START_TEST(each_right_gives_what_it_says)
{
	static const struct {
		enum ibv_wr_opcode op;
		int needs;
	} ops[] = {
	    {IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE},
	    {IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ},
	    {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC},
	    {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC},
	};
	static const int rights[] = {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ,
				     IBV_ACCESS_REMOTE_ATOMIC};
	char *mem = lab_map(1), *own = lab_map(1);
	struct ibv_qp_attr attr = {0};
	enum ibv_wc_status status;
	struct ibv_mr *mr, *local;
	struct lab l;

	lab_begin(&l);
	local = lab_reg(&l, own, LEN, LAB_ACCESS);
	for (int i = 0; i < 4; i++) {
		for (int j = 0; j < 3; j++) {
			bool ok = ops[i].needs == rights[j];

			mr = lab_reg(&l, mem, LEN, IBV_ACCESS_LOCAL_WRITE | rights[j]);
			status =
			    do_op(&l, ops[i].op, local, own, 8, (uintptr_t)mem, mr->rkey);
			if (ok)
				granted(status);
			else
				refused(&l, status);
			ck_assert_int_eq(ibv_dereg_mr(mr), 0);

			mr = lab_reg(&l, mem, LEN, LAB_ACCESS);
			attr.qp_access_flags = (unsigned int)rights[j];
			ck_assert_int_eq(
			    ibv_modify_qp(l.right, &attr, IBV_QP_ACCESS_FLAGS), 0);
			status =
			    do_op(&l, ops[i].op, local, own, 8, (uintptr_t)mem, mr->rkey);
			ck_assert_int_eq(status,
					 ok ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR);
			lab_connect(&l);
			ck_assert_int_eq(ibv_dereg_mr(mr), 0);
		}
	}
	ck_assert_int_eq(ibv_dereg_mr(local), 0);
	lab_close(&l);
}
END_TEST

/* --- registered again ------------------------------------------------------------- */

/* Each combination of what can change, on pinned and on-demand memory */
START_TEST(each_combination_may_be_registered_again)
{
	int flags = _i % 8, access = _i / 8 ? LAB_ODP : LAB_ACCESS;
	bool moves = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
	bool other_pd = flags & IBV_REREG_MR_CHANGE_PD;
	bool less = flags & IBV_REREG_MR_CHANGE_ACCESS;
	char *mem = lab_map(2), *other = lab_map(4), *own = lab_map(1), *now;
	struct ibv_mr *mr, *local;
	struct ibv_pd *pd;
	uint32_t rkey;
	struct lab l;
	int ret;

	lab_begin(&l);
	pd = ibv_alloc_pd(l.ctx);
	local = lab_reg(&l, own, LEN, LAB_ACCESS);
	mr = lab_reg(&l, mem, 2 * LAB_PAGE, access);
	lab_fill(own, LEN, 1);
	granted(write_to(&l, local, (uintptr_t)mem, mr->rkey));
	rkey = mr->rkey;
	ret = ibv_rereg_mr(mr, flags, other_pd ? pd : NULL, moves ? other : NULL,
			   moves ? 4 * LAB_PAGE : 0,
			   less ? access & ~(int)IBV_ACCESS_REMOTE_READ : 0);
	if (!flags) {
		ck_assert_int_eq(ret, IBV_REREG_MR_ERR_CMD);
		ck_assert_int_eq(errno, EINVAL);
		goto out;
	}
	ck_assert_int_eq(ret, 0);
	ck_assert_ptr_eq(mr->pd, other_pd ? pd : l.pd);
	now = moves ? other : mem;
	ck_assert_ptr_eq(mr->addr, now);
	ck_assert_uint_eq(mr->length, (moves ? 4 : 2) * LAB_PAGE);
	if (moves)
		refused(&l, write_to(&l, local, (uintptr_t)mem, rkey));
	else
		ck_assert_uint_eq(mr->rkey, rkey);
	if (other_pd) {
		refused(&l, write_to(&l, local, (uintptr_t)now, mr->rkey));
		ck_assert_int_eq(ibv_dealloc_pd(pd), EBUSY);
		goto out;
	}
	memset(now, 0, LEN);
	granted(write_to(&l, local, (uintptr_t)now, mr->rkey));
	ck_assert(lab_is(now, LEN, 1));
	if (less)
		refused(&l, read_from(&l, local, (uintptr_t)now, mr->rkey));
	else
		granted(read_from(&l, local, (uintptr_t)now, mr->rkey));
	if (moves)
		granted(
		    write_to(&l, local, (uintptr_t)now + 4 * LAB_PAGE - LEN, mr->rkey));
out:
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(local), 0);
	ck_assert_int_eq(ibv_dealloc_pd(pd), 0);
	lab_close(&l);
}
END_TEST

/* Memory that is not there leaves the region as it was. */
START_TEST(registered_again_in_vain)
{
	char *mem = lab_map(2), *own = lab_map(1), *gone = lab_map(1);
	struct ibv_mr *mr, *local;
	struct lab l;

	lab_begin(&l);
	munmap(gone, LAB_PAGE);
	local = lab_reg(&l, own, LEN, LAB_ACCESS);
	mr = lab_reg(&l, mem, 2 * LAB_PAGE, LAB_ACCESS);
	ck_assert_int_eq(
	    ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, gone, LAB_PAGE, 0),
	    IBV_REREG_MR_ERR_CMD);
	ck_assert_int_eq(errno, EFAULT);
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_CMD);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_int_eq(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_ptr_eq(mr->pd, l.pd);
	ck_assert_ptr_eq(mr->addr, mem);
	granted(write_to(&l, local, (uintptr_t)mem, mr->rkey));
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(local), 0);
	lab_close(&l);
}
END_TEST

/* --- windows ---------------------------------------------------------------------- */

static struct ibv_mw_bind_info window(struct ibv_mr *mr, size_t at, size_t len,
				      unsigned int access)
{
	return (struct ibv_mw_bind_info){.mr = mr,
					 .addr = (uintptr_t)mr->addr + at,
					 .length = len,
					 .mw_access_flags = access};
}

static enum ibv_wc_status bind1(struct lab *l, struct ibv_mw *mw,
				struct ibv_mw_bind_info info)
{
	struct ibv_mw_bind bind = {
	    .wr_id = 5, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
	struct ibv_wc wc;

	ck_assert_int_eq(ibv_bind_mw(l->right, mw, &bind), 0);
	wc = lab_wait(l);
	ck_assert_uint_eq(wc.wr_id, 5);
	if (wc.status == IBV_WC_SUCCESS)
		ck_assert_int_eq(wc.opcode, IBV_WC_BIND_MW);
	return wc.status;
}

static enum ibv_wc_status bind2(struct lab *l, struct ibv_mw *mw, uint32_t rkey,
				struct ibv_mw_bind_info info)
{
	struct ibv_send_wr wr = {.wr_id = 5,
				 .opcode = IBV_WR_BIND_MW,
				 .send_flags = IBV_SEND_SIGNALED,
				 .bind_mw = {mw, rkey, info}};
	struct ibv_wc wc;

	lab_post(l->right, &wr);
	wc = lab_wait(l);
	ck_assert_uint_eq(wc.wr_id, 5);
	if (wc.status == IBV_WC_SUCCESS)
		mw->rkey = rkey;
	return wc.status;
}

static void bind_fails(struct lab *l, enum ibv_wc_status status)
{
	ck_assert_msg(status == IBV_WC_MW_BIND_ERR, "%s", ibv_wc_status_str(status));
	lab_connect(l);
}

#define MW_ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

START_TEST(window_of_type_1)
{
	char *mem = lab_map(2), *own = lab_map(1);
	struct ibv_mr *mr, *plain, *local;
	uint32_t first, second;
	struct ibv_mw *mw;
	struct lab l;

	lab_begin(&l);
	local = lab_reg(&l, own, LEN, LAB_ACCESS);
	mr = lab_reg(&l, mem, 2 * LAB_PAGE,
		     (_i ? IBV_ACCESS_ON_DEMAND : 0) | IBV_ACCESS_LOCAL_WRITE |
			 IBV_ACCESS_MW_BIND);
	plain = lab_reg(&l, mem, 2 * LAB_PAGE, LAB_ACCESS);
	mw = ibv_alloc_mw(l.pd, IBV_MW_TYPE_1);
	ck_assert(mw);
	first = mw->rkey;
	refused(&l, write_to(&l, local, (uintptr_t)mem, mw->rkey));
	granted(bind1(&l, mw, window(mr, 64, LAB_PAGE, MW_ACCESS)));
	ck_assert_uint_ne(mw->rkey, first);
	granted(write_to(&l, local, (uintptr_t)mem + 64, mw->rkey));
	granted(read_from(&l, local, (uintptr_t)mem + 64 + LAB_PAGE - LEN, mw->rkey));
	refused(&l, write_to(&l, local, (uintptr_t)mem + 63, mw->rkey));
	refused(&l, write_to(&l, local, (uintptr_t)mem + 65 + LAB_PAGE - LEN, mw->rkey));
	refused(&l, do_op(&l, IBV_WR_ATOMIC_FETCH_AND_ADD, local, own, 8,
			  (uintptr_t)mem + 64, mw->rkey));
	/* a bound region cannot go */
	ck_assert_int_ne(ibv_dereg_mr(mr), 0);
	/* elsewhere with fewer rights: the old key is no good any more */
	second = mw->rkey;
	granted(bind1(&l, mw, window(mr, 0, LEN, IBV_ACCESS_REMOTE_READ)));
	refused(&l, read_from(&l, local, (uintptr_t)mem + 64, second));
	refused(&l, write_to(&l, local, (uintptr_t)mem, mw->rkey));
	granted(read_from(&l, local, (uintptr_t)mem, mw->rkey));
	/* length 0: unbound */
	granted(bind1(&l, mw, window(mr, 0, 0, MW_ACCESS)));
	refused(&l, read_from(&l, local, (uintptr_t)mem, mw->rkey));
	/* what cannot be bound */
	bind_fails(&l, bind1(&l, mw, window(plain, 0, LEN, MW_ACCESS)));
	bind_fails(&l, bind1(&l, mw, window(mr, LAB_PAGE, LAB_PAGE + 1, MW_ACCESS)));
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(plain), 0);
	ck_assert_int_eq(ibv_dereg_mr(local), 0);
	lab_close(&l);
}
END_TEST

static enum ibv_wc_status invalidate(struct lab *l, struct ibv_qp *qp, uint32_t rkey)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_LOCAL_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = rkey};

	lab_post(qp, &wr);
	return lab_wait(l).status;
}

/* SEND_WITH_INV of "left"; the receiver's completion is @recv */
static enum ibv_wc_status invalidate_peer(struct lab *l, uint32_t rkey,
					  struct ibv_wc *recv)
{
	struct ibv_send_wr wr = {.wr_id = 1,
				 .opcode = IBV_WR_SEND_WITH_INV,
				 .send_flags = IBV_SEND_SIGNALED,
				 .invalidate_rkey = rkey};
	struct ibv_recv_wr rwr = {.wr_id = 2}, *bad;
	enum ibv_wc_status status = IBV_WC_GENERAL_ERR;

	ck_assert_int_eq(ibv_post_recv(l->right, &rwr, &bad), 0);
	lab_post(l->left, &wr);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = lab_wait(l);

		if (wc.wr_id == 1)
			status = wc.status;
		else
			*recv = wc;
	}
	return status;
}

START_TEST(window_of_type_2)
{
	char *mem = lab_map(2), *own = lab_map(1);
	struct ibv_mr *mr, *local;
	struct ibv_mw *mw;
	struct ibv_wc recv;
	struct lab l;
	uint32_t key;

	lab_begin(&l);
	local = lab_reg(&l, own, LEN, LAB_ACCESS);
	mr = lab_reg(&l, mem, 2 * LAB_PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(l.pd, IBV_MW_TYPE_2);
	ck_assert(mw);
	granted(bind2(&l, mw, ibv_inc_rkey(mw->rkey), window(mr, 0, LEN, MW_ACCESS)));
	granted(write_to(&l, local, (uintptr_t)mem, mw->rkey));
	/* bound already */
	bind_fails(&l,
		   bind2(&l, mw, ibv_inc_rkey(mw->rkey), window(mr, 0, LEN, MW_ACCESS)));
	/* the queue pair that fell took its window with it? No: it is bound until invalidated */
	granted(write_to(&l, local, (uintptr_t)mem, mw->rkey));
	granted(invalidate(&l, l.right, mw->rkey));
	refused(&l, write_to(&l, local, (uintptr_t)mem, mw->rkey));
	/* only the low byte of the key is the program's to choose */
	key = ibv_inc_rkey(mw->rkey);
	granted(bind2(&l, mw, key ^ 0xabcdef00, window(mr, 0, LEN, MW_ACCESS)));
	mw->rkey = key;
	granted(write_to(&l, local, (uintptr_t)mem, key));
	granted(invalidate(&l, l.right, key));
	bind_fails(&l, bind2(&l, mw, mw->rkey, window(mr, 0, 0, MW_ACCESS)));
	/* zero-based, and taken away by the peer */
	granted(bind2(&l, mw, ibv_inc_rkey(mw->rkey),
		      window(mr, 100, LEN, MW_ACCESS | IBV_ACCESS_ZERO_BASED)));
	lab_fill(own, LEN, 9);
	granted(write_to(&l, local, 0, mw->rkey));
	ck_assert(lab_is(mem + 100, LEN, 9));
	refused(&l, write_to(&l, local, (uintptr_t)mem + 100, mw->rkey));
	granted(invalidate_peer(&l, mw->rkey, &recv));
	ck_assert_int_eq(recv.status, IBV_WC_SUCCESS);
	ck_assert_int_eq(recv.wc_flags, IBV_WC_WITH_INV);
	ck_assert_uint_eq(recv.invalidated_rkey, mw->rkey);
	refused(&l, write_to(&l, local, 0, mw->rkey));
	/* once more: nothing to invalidate, which ends the responder without an answer (class J) */
	ck_assert_int_eq(invalidate_peer(&l, mw->rkey, &recv), IBV_WC_RETRY_EXC_ERR);
	ck_assert_int_eq(recv.status, IBV_WC_REM_INV_REQ_ERR);
	lab_connect(&l);
	ck_assert_int_eq(invalidate(&l, l.right, mw->rkey), IBV_WC_LOC_QP_OP_ERR);
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(local), 0);
	lab_close(&l);
}
END_TEST

/* Type 2 is bound by a work request only, and is its queue pair's alone. */
START_TEST(window_of_another_queue_pair)
{
	char *mem = lab_map(2), *own = lab_map(1);
	struct ibv_mw_bind bind = {0};
	struct ibv_mr *mr, *local;
	struct ibv_mw *mw;
	struct lab l;

	lab_begin(&l);
	local = lab_reg(&l, own, LEN, LAB_ACCESS);
	mr = lab_reg(&l, mem, 2 * LAB_PAGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	mw = ibv_alloc_mw(l.pd, IBV_MW_TYPE_2);
	bind.bind_info = window(mr, 0, LEN, MW_ACCESS);
	ck_assert_int_eq(ibv_bind_mw(l.right, mw, &bind), EINVAL);
	/* bound to "left", it serves requests that come to it, not those to "right" */
	{
		struct ibv_qp *right = l.right;

		l.right = l.left;
		granted(
		    bind2(&l, mw, ibv_inc_rkey(mw->rkey), window(mr, 0, LEN, MW_ACCESS)));
		l.right = right;
	}
	refused(&l, write_to(&l, local, (uintptr_t)mem, mw->rkey));
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(local), 0);
	lab_close(&l);
}
END_TEST

/* --- status at both ends ---------------------------------------------------------- */

static enum ibv_qp_state state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ck_assert_int_eq(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* A SEND of @len bytes from @from into a receive request of @room bytes at @to */
static void send_fails(struct lab *l, struct ibv_sge from, struct ibv_sge to,
		       enum ibv_wc_status sender, enum ibv_wc_status receiver)
{
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = &from,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED};
	struct ibv_recv_wr rwr = {.wr_id = 2, .sg_list = &to, .num_sge = 1}, *bad;
	bool both = receiver != IBV_WC_SUCCESS;

	ck_assert_int_eq(ibv_post_recv(l->right, &rwr, &bad), 0);
	lab_post(l->left, &wr);
	for (int i = 0; i < 1 + both; i++) {
		struct ibv_wc wc = lab_wait(l);

		ck_assert_msg(wc.status == (wc.wr_id == 1 ? sender : receiver), "%d: %s",
			      (int)wc.wr_id, ibv_wc_status_str(wc.status));
	}
	ck_assert_int_eq(state_of(l->left), IBV_QPS_ERR);
	ck_assert_int_eq(state_of(l->right), both ? IBV_QPS_ERR : IBV_QPS_RTS);
	lab_connect(l);
}

START_TEST(send_that_fails)
{
	char *mem = lab_map(2);
	struct ibv_mr *mr, *ro;
	struct ibv_sge good, unwritable, bad_key, small, behind;
	struct lab l;

	lab_begin(&l);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	ro = lab_reg(&l, mem, LAB_PAGE, 0);
	good = (struct ibv_sge){(uintptr_t)mem, LEN, mr->lkey};
	unwritable = (struct ibv_sge){(uintptr_t)mem, LEN, ro->lkey};
	bad_key = (struct ibv_sge){(uintptr_t)mem, LEN, mr->lkey + 1};
	small = (struct ibv_sge){(uintptr_t)mem, LEN - 1, mr->lkey};
	behind = (struct ibv_sge){(uintptr_t)mem + LAB_PAGE - LEN + 1, LEN, mr->lkey};
	send_fails(&l, good, small, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
	send_fails(&l, good, unwritable, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
	send_fails(&l, good, bad_key, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
	send_fails(&l, good, behind, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
	send_fails(&l, bad_key, good, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS);
	send_fails(&l, behind, good, IBV_WC_LOC_PROT_ERR, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(ro), 0);
	lab_close(&l);
}
END_TEST

START_TEST(requests_that_fail)
{
	char *mem = lab_map(1);
	struct ibv_mr *mr, *ro;
	struct lab l;

	lab_begin(&l);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	ro = lab_reg(&l, mem, LAB_PAGE, IBV_ACCESS_REMOTE_READ);
#define FAILS(want, op, local, len, remote)                                              \
	do {                                                                             \
		enum ibv_wc_status got_ =                                                \
		    do_op(&l, op, local, mem, len, (uintptr_t)mem + (remote), mr->rkey); \
		ck_assert_msg(got_ == (want), "%s", ibv_wc_status_str(got_));            \
		lab_connect(&l);                                                         \
	} while (0)
	FAILS(IBV_WC_LOC_PROT_ERR, IBV_WR_RDMA_READ, ro, LEN, 0);
	FAILS(IBV_WC_LOC_PROT_ERR, IBV_WR_ATOMIC_FETCH_AND_ADD, ro, 8, 0);
	FAILS(IBV_WC_REM_ACCESS_ERR, IBV_WR_RDMA_READ, mr, LEN, LAB_PAGE - LEN + 1);
	FAILS(IBV_WC_REM_ACCESS_ERR, IBV_WR_ATOMIC_CMP_AND_SWP, mr, 8, LAB_PAGE);
	/* nobody receives */
	l.rnr_retry = 1;
	lab_connect(&l);
	FAILS(IBV_WC_RNR_RETRY_EXC_ERR, IBV_WR_SEND, mr, LEN, 0);
	/* nobody answers */
	l.timeout = 8;
	l.retry_cnt = 2;
	lab_connect(&l);
	{
		struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};

		ck_assert_int_eq(ibv_modify_qp(l.right, &reset, IBV_QP_STATE), 0);
	}
	FAILS(IBV_WC_RETRY_EXC_ERR, IBV_WR_RDMA_WRITE, mr, LEN, 0);
#undef FAILS
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	ck_assert_int_eq(ibv_dereg_mr(ro), 0);
	lab_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rights");
	TCase *tc = tcase_create("rights");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, region_at_another_address, 0, 2);
	tcase_add_loop_test(tc, zero_based_region, 0, 2);
	tcase_add_test(tc, each_right_gives_what_it_says);
	tcase_add_loop_test(tc, each_combination_may_be_registered_again, 0, 16);
	tcase_add_test(tc, registered_again_in_vain);
	tcase_add_loop_test(tc, window_of_type_1, 0, 2);
	tcase_add_test(tc, window_of_type_2);
	tcase_add_test(tc, window_of_another_queue_pair);
	tcase_add_test(tc, send_that_fails);
	tcase_add_test(tc, requests_that_fail);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
