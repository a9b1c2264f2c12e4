/*
 * Description: datagrams and what else is not a plain RC queue pair, through the
 * distribution's libibverbs: address handles from attributes and from a completion,
 * multicast, keys that are wrong and their counters, work requests of
 * ibv_qp_ex, XRC.
 */
#include "lab.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRH  40u
#define QKEY 0x11111111u

/* --- UD --------------------------------------------------------------------------- */

static struct ibv_qp *make_ud(struct lab *l, uint32_t qkey)
{
	struct ibv_qp_init_attr attr = {.send_cq = l->cq,
					.recv_cq = l->cq,
					.qp_type = IBV_QPT_UD,
					.cap = {16, 16, 2, 2, 64}};
	struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = qkey};
	struct ibv_qp *qp = ibv_create_qp(l->pd, &attr);

	ck_assert(qp);
	ck_assert_int_eq(
	    ibv_modify_qp(qp, &to,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	    0);
	to.qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(ibv_modify_qp(qp, &to, IBV_QP_STATE), 0);
	to.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_SQ_PSN), 0);
	return qp;
}

static struct ibv_ah *ah_to(struct lab *l, union ibv_gid gid)
{
	struct ibv_ah_attr attr = {.is_global = 1,
				   .port_num = 1,
				   .grh = {.dgid = gid,
					   .hop_limit = 7,
					   .flow_label = 0x12345,
					   .traffic_class = 0x20}};
	struct ibv_ah *ah = ibv_create_ah(l->pd, &attr);

	ck_assert(ah);
	return ah;
}

static void post_ud(struct ibv_qp *qp, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey,
		    struct ibv_sge *sge)
{
	struct ibv_send_wr wr = {.wr_id = 1,
				 .sg_list = sge,
				 .num_sge = sge ? 1 : 0,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = htonl(77),
				 .wr.ud = {ah, qpn, qkey}};

	lab_post(qp, &wr);
}

/* The GRH names the sender; a handle made of it and the completion leads back. */
START_TEST(answer_to_where_it_came_from)
{
	char *mem = lab_map(1);
	struct ibv_ah_attr back = {0};
	struct ibv_qp *a, *b;
	struct ibv_ah *ah, *ah_back;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_wc wc;
	struct lab l;

	lab_open(&l);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	sge = (struct ibv_sge){(uintptr_t)mem + 2048, 100, mr->lkey};
	a = make_ud(&l, QKEY);
	b = make_ud(&l, QKEY);
	ah = ah_to(&l, l.gid);
	lab_fill(mem + 2048, 100, 1);
	lab_post_recv(b, mr, mem, GRH + 100);
	post_ud(a, ah, b->qp_num, QKEY, &sge);
	wc = lab_wait(&l);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, GRH + 100);
	ck_assert_uint_eq(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	ck_assert_uint_eq(ntohl(wc.imm_data), 77);
	ck_assert_uint_eq(wc.src_qp, a->qp_num);
	ck_assert(lab_is(mem + GRH, 100, 1));
	ck_assert_int_eq(ibv_init_ah_from_wc(l.ctx, 1, &wc, (struct ibv_grh *)mem, &back),
			 0);
	ck_assert_int_eq(memcmp(&back.grh.dgid, &l.gid, 16), 0);
	ck_assert_int_eq(back.grh.sgid_index, 0);
	ck_assert_int_eq(back.is_global, 1);
	ck_assert_int_eq(back.grh.traffic_class, 0x20);
	ah_back = ibv_create_ah_from_wc(l.pd, &wc, (struct ibv_grh *)mem, 1);
	ck_assert(ah_back);
	lab_post_recv(a, mr, mem, GRH);
	post_ud(b, ah_back, wc.src_qp, QKEY, NULL);
	wc = lab_wait(&l);
	ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.qp_num, a->qp_num);
	ck_assert_uint_eq(wc.byte_len, GRH);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	ck_assert_int_eq(ibv_destroy_ah(ah_back), 0);
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* The index of ::1; -1: this host has none */
static int ipv6_index(struct lab *l, union ibv_gid *gid)
{
	for (int i = 0; i < 8; i++)
		if (!ibv_query_gid(l->ctx, 1, i, gid) &&
		    !memcmp(gid->raw, &in6addr_loopback, 16))
			return i;
	return -1;
}

/*
 * The flow label of the address handle is in the GRH, the same in each: the first packets come by
 * the socket, later ones by shared memory.
 */
START_TEST(the_flow_label_is_in_the_grh)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1}, back = {0};
	char *mem = lab_map(1), *first = mem + 1024;
	struct ibv_qp *a, *b;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct lab l;
	int index;

	lab_open(&l);
	index = ipv6_index(&l, &attr.grh.dgid);
	if (index >= 0) {
		attr.grh.sgid_index = (uint8_t)index;
		attr.grh.flow_label = 0x12345;
		attr.grh.hop_limit = 64;
		mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
		a = make_ud(&l, QKEY);
		b = make_ud(&l, QKEY);
		ah = ibv_create_ah(l.pd, &attr);
		ck_assert(ah);
		for (int i = 0; i < 200; i++) {
			lab_post_recv(b, mr, mem, GRH);
			post_ud(a, ah, b->qp_num, QKEY, NULL);
			wc = lab_wait(&l);
			ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
			if (!i)
				memcpy(first, mem, GRH);
			ck_assert_mem_eq(first, mem, GRH);
		}
		ck_assert_int_eq(
		    ibv_init_ah_from_wc(l.ctx, 1, &wc, (struct ibv_grh *)mem, &back), 0);
		ck_assert_uint_eq(back.grh.flow_label, 0x12345);
		ck_assert_int_eq(ibv_destroy_ah(ah), 0);
		ck_assert_int_eq(ibv_destroy_qp(a), 0);
		ck_assert_int_eq(ibv_destroy_qp(b), 0);
		ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	}
	lab_close(&l);
}
END_TEST

/* Each member gets a copy, who left gets none. (lo has no route for IPv6 groups.) */
START_TEST(each_member_of_a_group_gets_a_copy)
{
	char *mem = lab_map(1);
	struct ibv_qp *from, *to[3];
	union ibv_gid group;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct lab l;

	inet_pton(AF_INET6, "::ffff:239.1.2.3", &group);
	lab_open(&l);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	from = make_ud(&l, QKEY);
	for (int i = 0; i < 3; i++) {
		to[i] = make_ud(&l, QKEY);
		ck_assert_int_eq(ibv_attach_mcast(to[i], &group, 0), 0);
		lab_post_recv(to[i], mr, mem, GRH);
		lab_post_recv(to[i], mr, mem, GRH);
	}
	ah = ah_to(&l, group);
	post_ud(from, ah, 0xffffff, QKEY, NULL);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_destroy_qp(to[1]), EBUSY);
	ck_assert_int_eq(ibv_detach_mcast(to[1], &group, 0), 0);
	ck_assert_int_eq(ibv_detach_mcast(to[1], &group, 0), EINVAL);
	post_ud(from, ah, 0xffffff, QKEY, NULL);
	for (int i = 0; i < 2; i++) {
		wc = lab_wait(&l);
		ck_assert_int_eq(wc.status, IBV_WC_SUCCESS);
		ck_assert_uint_ne(wc.qp_num, to[1]->qp_num);
	}
	usleep(20000);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	for (int i = 0; i < 3; i++) {
		if (i != 1)
			ck_assert_int_eq(ibv_detach_mcast(to[i], &group, 0), 0);
		ck_assert_int_eq(ibv_destroy_qp(to[i]), 0);
	}
	/* not a group, not a datagram QP */
	ck_assert_int_eq(ibv_attach_mcast(from, &l.gid, 0), EINVAL);
	ck_assert_int_eq(ibv_attach_mcast(l.left, &group, 0), EINVAL);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	ck_assert_int_eq(ibv_destroy_qp(from), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* A datagram with the wrong Q_Key is dropped, and counted in the port's attributes. */
/* A datagram that needs a page which is not there yet is lost, and counted. */
START_TEST(lost_while_its_page_is_missing)
{
	enum urxe_fault_model model = (enum urxe_fault_model)_i;
	uint64_t lost = model == URXE_FAULT_SYNC ? 0 : 1;
	char *mem = lab_map(2), *there = lab_map(2);
	struct urxe_counters all;
	struct ibv_mr *mr, *odp;
	struct ibv_ah *ah;
	struct ibv_sge sge;
	struct ibv_qp *qp;
	struct lab l;

	lab_begin(&l);
	qp = make_ud(&l, QKEY);
	ah = ah_to(&l, l.gid);
	mr = lab_reg(&l, mem, 2 * LAB_PAGE, LAB_ACCESS);
	odp = lab_reg(&l, there, 2 * LAB_PAGE, LAB_ODP);
	ck_assert_int_eq(urxe_mr_set_fault_model(odp, model, 20000000), 0);
	sge = (struct ibv_sge){(uintptr_t)mem, 100, mr->lkey};
	lab_post_recv(qp, odp, there, 200);
	post_ud(qp, ah, qp->qp_num, QKEY, &sge);
	if (lost) {
		while (!lab_counters(odp).lost_messages)
			usleep(1000);
		/* once the page is there the receive request serves the next one */
		usleep(50000);
		post_ud(qp, ah, qp->qp_num, QKEY, &sge);
	}
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	ck_assert_uint_eq(lab_counters(odp).lost_messages, lost);
	ck_assert_uint_eq(lab_counters(mr).lost_messages, 0);
	ck_assert_int_eq(urxe_device_counters(l.ctx, &all, sizeof(all)), 0);
	ck_assert_uint_eq(all.lost_messages, lost);
	ibv_destroy_ah(ah);
	ibv_destroy_qp(qp);
	ibv_dereg_mr(odp);
	ibv_dereg_mr(mr);
	lab_close(&l);
}
END_TEST

START_TEST(a_wrong_qkey_is_not_delivered)
{
	char *mem = lab_map(1);
	struct ibv_port_attr before, after;
	struct ibv_qp *a, *b;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	struct lab l;

	lab_open(&l);
	mr = lab_reg(&l, mem, LAB_PAGE, LAB_ACCESS);
	a = make_ud(&l, 5);
	b = make_ud(&l, QKEY);
	ah = ah_to(&l, l.gid);
	ck_assert_int_eq(ibv_query_port(l.ctx, 1, &before), 0);
	lab_post_recv(b, mr, mem, GRH);
	post_ud(a, ah, b->qp_num, QKEY + 1, NULL);
	post_ud(a, ah, b->qp_num, 0x80000000, NULL); /* stands for a's own, which is 5 */
	for (int i = 0; i < 100; i++) {
		ck_assert_int_eq(ibv_query_port(l.ctx, 1, &after), 0);
		if (after.qkey_viol_cntr == before.qkey_viol_cntr + 2)
			break;
		usleep(10000);
	}
	ck_assert_uint_eq(after.qkey_viol_cntr, before.qkey_viol_cntr + 2);
	ck_assert_int_eq(ibv_poll_cq(l.cq, 1, &wc), 0);
	post_ud(a, ah, b->qp_num, QKEY, NULL);
	ck_assert_int_eq(lab_wait(&l).status, IBV_WC_SUCCESS);
	ck_assert_int_eq(ibv_destroy_ah(ah), 0);
	ck_assert_int_eq(ibv_destroy_qp(a), 0);
	ck_assert_int_eq(ibv_destroy_qp(b), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

/* --- ibv_qp_ex -------------------------------------------------------------------- */

#define SEND_OPS                                                                         \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |                \
	 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)
#define SEND_OPS_RC                                                                      \
	(SEND_OPS | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |                  \
	 IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE)

static void expect_sent(struct lab *l, uint64_t id, enum ibv_wc_opcode op, bool received)
{
	bool sent = false;

	for (int i = 0; i < 1 + received; i++) {
		struct ibv_wc wc = lab_wait(l);

		ck_assert_msg(wc.status == IBV_WC_SUCCESS, "%d: %s", (int)id,
			      ibv_wc_status_str(wc.status));
		if (wc.wr_id == id) {
			ck_assert_int_eq(wc.opcode, op);
			sent = true;
		}
	}
	ck_assert(sent);
}

/* Every operation that a work request of ibv_qp_ex can be, in one QP */
START_TEST(all_send_ops)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC,
					   .cap = {64, 64, 8, 8, 64},
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .send_ops_flags = SEND_OPS_RC};
	uint64_t *mem = (uint64_t *)lab_map(4), word = 0x1122334455667788;
	char *there = (char *)mem + LAB_PAGE;
	struct ibv_mw_bind_info bind = {.length = 64,
					.mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
	struct ibv_data_buf bufs[2] = {{(char *)mem, 8}, {(char *)mem + 100, 9}};
	struct ibv_sge sges[2];
	struct ibv_qp_ex *ex;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct lab l;
	uint32_t rkey;

	lab_open(&l);
	mr = lab_reg(&l, mem, 4 * LAB_PAGE, LAB_ACCESS | IBV_ACCESS_MW_BIND);
	ck_assert_int_eq(ibv_destroy_qp(l.left), 0);
	init.pd = l.pd;
	init.send_cq = init.recv_cq = l.cq;
	l.left = ibv_create_qp_ex(l.ctx, &init);
	ck_assert(l.left);
	ex = ibv_qp_to_qp_ex(l.left);
	ck_assert(ex);
	lab_connect(&l);
	lab_fill(mem, LAB_PAGE, 4);
	for (int i = 0; i < 5; i++)
		lab_post_recv(l.right, mr, there + 2048, 256);
	sges[0] = (struct ibv_sge){(uintptr_t)mem, 8, mr->lkey};
	sges[1] = (struct ibv_sge){(uintptr_t)mem + 100, 9, mr->lkey};
#define OP(id, call, set, wc, received)                                                  \
	do {                                                                             \
		ibv_wr_start(ex);                                                        \
		ex->wr_id = (id);                                                        \
		ex->wr_flags = IBV_SEND_SIGNALED;                                        \
		call;                                                                    \
		set;                                                                     \
		ck_assert_int_eq(ibv_wr_complete(ex), 0);                                \
		expect_sent(&l, (id), (wc), (received));                                 \
	} while (0)
	OP(101, ibv_wr_send(ex), ibv_wr_set_sge_list(ex, 2, sges), IBV_WC_SEND, true);
	ck_assert(!memcmp(there + 2048, mem, 8) &&
		  !memcmp(there + 2056, (char *)mem + 100, 9));
	OP(102, ibv_wr_send_imm(ex, htonl(5)), ibv_wr_set_inline_data(ex, mem, 20),
	   IBV_WC_SEND, true);
	OP(103, ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)there),
	   ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)mem, 200), IBV_WC_RDMA_WRITE, false);
	ck_assert(lab_is(there, 200, 4));
	OP(104, ibv_wr_rdma_write_imm(ex, mr->rkey, (uintptr_t)there, htonl(6)),
	   ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)mem, 8), IBV_WC_RDMA_WRITE, true);
	OP(105, ibv_wr_rdma_read(ex, mr->rkey, (uintptr_t)mem),
	   ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)there + 1024, 64), IBV_WC_RDMA_READ,
	   false);
	ck_assert(lab_is(there + 1024, 64, 4));
	OP(106, ibv_wr_atomic_fetch_add(ex, mr->rkey, (uintptr_t)there, 1),
	   ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)there + 512, 8), IBV_WC_FETCH_ADD,
	   false);
	ck_assert_int_eq(memcmp(there + 512, mem, 8), 0);
	ck_assert_uint_eq(*(uint64_t *)(void *)there, mem[0] + 1);
	OP(107, ibv_wr_atomic_cmp_swp(ex, mr->rkey, (uintptr_t)there, mem[0] + 1, 42),
	   ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)there + 512, 8), IBV_WC_COMP_SWAP,
	   false);
	ck_assert_uint_eq(*(uint64_t *)(void *)there, 42);
	OP(108, ibv_wr_atomic_write(ex, mr->rkey, (uintptr_t)there, &word), (void)0,
	   IBV_WC_ATOMIC_WRITE, false);
	ck_assert_uint_eq(*(uint64_t *)(void *)there, word);
	mw = ibv_alloc_mw(l.pd, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	bind.mr = mr;
	bind.addr = (uintptr_t)mem;
	OP(109, ibv_wr_bind_mw(ex, mw, rkey, &bind), (void)0, IBV_WC_BIND_MW, false);
	OP(110, ibv_wr_local_inv(ex, rkey), (void)0, IBV_WC_LOCAL_INV, false);
	/* several in one go, none before ibv_wr_complete(), none after ibv_wr_abort() */
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, 1, 1);
	ibv_wr_set_sge(ex, 1, 1, 1);
	ibv_wr_abort(ex);
	ibv_wr_start(ex);
	ex->wr_flags = 0;
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)there + 300);
	ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)mem, 64);
	ex->wr_id = 111;
	ex->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)there + 400);
	ibv_wr_set_inline_data_list(ex, 2, bufs);
	ck_assert_int_eq(ibv_wr_complete(ex), 0);
	expect_sent(&l, 111, IBV_WC_RDMA_WRITE, false);
	ck_assert(lab_is(there + 300, 64, 4));
	ck_assert_int_eq(ibv_dealloc_mw(mw), 0);
	ck_assert_int_eq(ibv_dereg_mr(mr), 0);
	lab_close(&l);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dgram");
	TCase *tc = tcase_create("dgram");

	tcase_set_timeout(tc, 120);
	tcase_add_test(tc, answer_to_where_it_came_from);
	tcase_add_test(tc, the_flow_label_is_in_the_grh);
	tcase_add_test(tc, each_member_of_a_group_gets_a_copy);
	tcase_add_loop_test(tc, lost_while_its_page_is_missing, URXE_FAULT_SYNC,
			    URXE_FAULT_FLOOD + 1);
	tcase_add_test(tc, a_wrong_qkey_is_not_delivered);
	tcase_add_test(tc, all_send_ops);
	suite_add_tcase(s, tc);
	return lab_main(s);
}
