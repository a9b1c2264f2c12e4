/*
 * Description: what is not RC, and what RC has besides messages: UC, UD, multicast, QP1,
 * XRC, SRQ, fences, local operations, draining, solicited events, invalidation.
 */
#include <stdlib.h>

#include "transport_env.h"
#include "tests/check_main.h"

/* --- UC --------------------------------------------------------------------------- */

static uint32_t count, drop_nth;

static int drop_one(struct side *from, const struct roce_hdr *h, uint8_t *data,
		    uint32_t len)
{
	return ++count == drop_nth ? 0 : 1;
}

START_TEST(uc_send_and_write)
{
	env_connect((struct env_qp){.type = IBV_QPT_UC, .sig_all = true});
	env_fill(env.a.buf, 9000, 1);
	env_recv(&env.b, 1, 20000, 9000);
	env_recv(&env.b, 2, 0, 0);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 9000});
	env_post(&env.a, (struct env_wr){.id = 2,
					 .op = IBV_WR_RDMA_WRITE_WITH_IMM,
					 .len = 9000,
					 .remote = 40000,
					 .imm = 5});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	env_expect(env.b.rcq, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(env_expect(env.b.rcq, 2, IBV_WC_SUCCESS).ex.imm_data, 5);
	ck_assert(!memcmp(env.a.buf, env.b.buf + 20000, 9000));
	ck_assert(!memcmp(env.a.buf, env.b.buf + 40000, 9000));
	ck_assert_uint_eq(env.b.sent[ROCE_ACK], 0);
}
END_TEST

/* A message that lacks a packet is dropped whole; its receive request serves the next. */
START_TEST(uc_loses_messages_whole)
{
	count = 0;
	drop_nth = (uint32_t)_i + 1;
	env.filter = drop_one;
	env_connect((struct env_qp){.type = IBV_QPT_UC, .sig_all = true});
	env_fill(env.a.buf, 3000, 1);
	env_fill(env.a.buf + 3000, 3000, 2);
	env_recv(&env.b, 1, 20000, 9000);
	env_recv(&env.b, 2, 40000, 9000);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 3000});
	env_post(&env.a,
		 (struct env_wr){.id = 2, .op = IBV_WR_SEND, .len = 3000, .off = 3000});
	env_run(MS);
	env_expect(env.b.rcq, 1, IBV_WC_SUCCESS);
	env_expect_none(env.b.rcq);
	ck_assert(!memcmp(env.a.buf + (_i < 3 ? 3000 : 0), env.b.buf + 20000, 3000));
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_RTS);
}
END_TEST

/* A send error of UC stops the send queue only, which goes on after SQE to RTS. */
START_TEST(a_send_error_of_uc_stops_the_send_queue_only)
{
	env_connect((struct env_qp){.type = IBV_QPT_UC, .sig_all = true});
	env_post(&env.a,
		 (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 9, .lkey = 1});
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 9});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_LOC_PROT_ERR);
	env_expect(env.a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(env_state(&env.a), IBV_QPS_SQE);
	env_recv(&env.a, 7, 0, 100);
	env_post(&env.b, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 9});
	env_run(MS);
	env_expect(env.a.rcq, 7, IBV_WC_SUCCESS);
	env_modify(&env.a, IBV_QPS_RTS);
	env_recv(&env.b, 8, 0, 100);
	env_post(&env.a, (struct env_wr){.id = 3, .op = IBV_WR_SEND, .len = 9});
	env_run(MS);
	env_expect(env.a.scq, 3, IBV_WC_SUCCESS);
	env_expect(env.b.rcq, 8, IBV_WC_SUCCESS);
}
END_TEST

static uint32_t last_psn;

static int watch_psn(struct side *from, const struct roce_hdr *h, uint8_t *data,
		     uint32_t len)
{
	last_psn = h->psn;
	return 1;
}

/*
 * Of a message of five packets, two are sent before memory fails: the peer expects the
 * PSN behind these, and the next message has it.
 */
START_TEST(uc_sqe_goes_on_behind_what_was_sent)
{
	struct rxe_send_wqe *w;

	env.filter = watch_psn;
	env_connect((struct env_qp){.type = IBV_QPT_UC, .psn = 0xffffff});
	w = env_slot(&env.a);
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->wr.wr.rdma.remote_addr = (uintptr_t)env.b.buf;
	w->wr.wr.rdma.rkey = emu_mr_rkey(env.b.mr);
	w->dma.length = 5000;
	w->dma.num_sge = 2;
	w->dma.sge[0] = (struct rxe_sge){
	    .addr = (uintptr_t)env.a.buf, .length = 2048, .lkey = emu_mr_lkey(env.a.mr)};
	w->dma.sge[1] =
	    (struct rxe_sge){.addr = (uintptr_t)env.a.buf, .length = 2952, .lkey = 1};
	env_ring(&env.a);
	env_run(MS);
	env_expect(env.a.scq, 0, IBV_WC_LOC_PROT_ERR);
	ck_assert_uint_eq(last_psn, 0);
	env_modify(&env.a, IBV_QPS_RTS);
	env_recv(&env.b, 8, 0, 100);
	env_post(&env.a, (struct env_wr){.id = 3, .op = IBV_WR_SEND, .len = 9});
	env_run(MS);
	ck_assert_uint_eq(last_psn, 1);
	env_expect(env.b.rcq, 8, IBV_WC_SUCCESS);
}
END_TEST

/* --- UD --------------------------------------------------------------------------- */

static struct emu_ah *make_ah(struct side *s, const struct net_ip *dst)
{
	struct ibv_ah_attr attr = {
	    .is_global = 1, .port_num = 1, .grh.traffic_class = 0x21};
	struct emu_ah *ah;

	memcpy(&attr.grh.dgid, dst, 16);
	attr.grh.hop_limit = 33;
	ck_assert_int_eq(emu_ah_create(s->pd, &attr, &ah), 0);
	return ah;
}

static void post_ud(uint64_t id, struct emu_ah *ah, uint32_t qpn, uint32_t qkey,
		    uint32_t len)
{
	struct rxe_send_wqe *w = env_slot(&env.a);

	w->wr.wr_id = id;
	w->wr.opcode = IBV_WR_SEND_WITH_IMM;
	w->wr.ex.imm_data = 0x77;
	w->wr.wr.ud.remote_qpn = qpn;
	w->wr.wr.ud.remote_qkey = qkey;
	w->wr.wr.ud.ah_num = ah ? emu_ah_num(ah) : 999;
	w->dma.num_sge = 1;
	w->dma.length = len;
	w->dma.sge[0] =
	    (struct rxe_sge){(uintptr_t)env.a.buf, len, emu_mr_lkey(env.a.mr)};
	env_ring(&env.a);
}

static uint32_t checksum(const uint8_t *p)
{
	uint32_t sum = 0, i;

	for (i = 0; i < 20; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	return (sum & 0xffff) + (sum >> 16);
}

START_TEST(datagrams_bring_their_header)
{
	struct ib_uverbs_wc wc;
	struct emu_ah *ah;
	uint8_t *grh = env.b.buf + 20000;

	env_connect((struct env_qp){.type = IBV_QPT_UD, .sig_all = true});
	ah = make_ah(&env.a, &env.b.ip);
	env_fill(env.a.buf, 4096, 1);
	env_recv(&env.b, 1, 20000, 4136);
	post_ud(1, ah, emu_qp_num(env.b.qp), 0x1234, 4096);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	wc = env_expect(env.b.rcq, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.byte_len, 4136);
	ck_assert_uint_eq(wc.src_qp, emu_qp_num(env.a.qp));
	ck_assert_uint_eq(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	ck_assert_uint_eq(wc.ex.imm_data, 0x77);
	ck_assert_uint_eq(wc.sl, 2); /* RoCEv2 over IPv4 */
	ck_assert(!memcmp(grh + 40, env.a.buf, 4096));
	ck_assert_uint_eq(grh[20], 0x45);
	ck_assert_uint_eq(grh[21], 0x21);
	ck_assert_uint_eq(grh[28], 33);
	ck_assert_uint_eq(checksum(grh + 20), 0xffff);
	ck_assert(!memcmp(grh + 32, env.a.ip.b + 12, 4));
	ck_assert(!memcmp(grh + 36, env.b.ip.b + 12, 4));
	ck_assert_int_eq(emu_ah_destroy(ah), 0);
}
END_TEST

/* Not delivered: wrong Q_Key, no receive request, a buffer that is too small */
START_TEST(datagrams_that_do_not_fit_are_dropped)
{
	struct emu_ah *ah;
	uint32_t qpn;

	env_connect((struct env_qp){.type = IBV_QPT_UD, .sig_all = true});
	qpn = emu_qp_num(env.b.qp);
	ah = make_ah(&env.a, &env.b.ip);
	post_ud(1, ah, qpn, 0x1234, 10);
	env_run(MS);
	env_recv(&env.b, 1, 20000, 140);
	post_ud(2, ah, qpn, 0x4321, 10);
	post_ud(3, ah, qpn, 0x1234, 101);
	post_ud(4, ah, qpn, 0x1234, 100);
	env_run(MS);
	env_expect(env.b.rcq, 1, IBV_WC_SUCCESS);
	env_expect_none(env.b.rcq);
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_RX_BAD_QKEY], 1);
	ck_assert_uint_eq(env.b.hca->notes.n, 2);
	ck_assert_uint_eq(env.b.hca->notes.seen[0]->note.cause, TRACE_NOTE_NO_RECEIVE);
	ck_assert_uint_eq(env.b.hca->notes.seen[1]->note.cause, TRACE_NOTE_QKEY);
	ck_assert_int_eq(emu_ah_destroy(ah), 0);
}
END_TEST

/* It is the first good datagram that establishes communication, not one with a wrong Q_Key. */
START_TEST(ud_communication_established)
{
	struct ibv_qp_attr at = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1234};
	struct emu_ah *ah;
	uint32_t qpn;

	env_connect((struct env_qp){.type = IBV_QPT_UD, .sig_all = true});
	qpn = emu_qp_num(env.b.qp);
	ah = make_ah(&env.a, &env.b.ip);
	env_modify(&env.b, IBV_QPS_RESET);
	ck_assert_int_eq(
	    emu_qp_modify(env.b.qp, &at,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
	    0);
	env_modify(&env.b, IBV_QPS_RTR);
	post_ud(5, ah, qpn, 0x4321, 10);
	env_run(MS);
	ck_assert_uint_eq(env.b.events, 0);
	post_ud(6, ah, qpn, 0x1234, 10);
	env_run(MS);
	ck_assert(env_event(&env.b, IBV_EVENT_COMM_EST));
	ck_assert_int_eq(emu_ah_destroy(ah), 0);
}
END_TEST

static void ud_failure(struct emu_ah *ah, uint32_t len, enum ibv_wc_status status)
{
	post_ud(1, ah, emu_qp_num(env.b.qp), 0x1234, len);
	env_run(MS);
	env_expect(env.a.scq, 1, status);
	ck_assert_int_eq(env_state(&env.a), IBV_QPS_SQE);
}

START_TEST(errors_of_ud_end_the_right_queue)
{
	struct emu_ah *ah;

	env_connect((struct env_qp){.type = IBV_QPT_UD, .sig_all = true});
	ah = make_ah(&env.a, &env.b.ip);
	if (_i)
		ud_failure(ah, 4097, IBV_WC_LOC_LEN_ERR);
	else
		ud_failure(NULL, 10, IBV_WC_LOC_QP_OP_ERR);
	ck_assert_int_eq(emu_ah_destroy(ah), 0);
}
END_TEST

START_TEST(a_datagram_reaches_each_member)
{
	struct net_ip group = {.b = {[10] = 0xff, 0xff, 239, 1, 2, 3}};
	struct emu_ah *ah;

	env_connect((struct env_qp){.type = IBV_QPT_UD, .sig_all = true});
	ah = make_ah(&env.a, &group);
	env_recv(&env.b, 1, 20000, 140);
	post_ud(1, ah, 0xffffff, 0x1234, 100);
	env_run(MS);
	env_expect_none(env.b.rcq);
	ck_assert_int_eq(emu_qp_attach_mcast(env.b.qp, &group), 0);
	post_ud(2, ah, 0xffffff, 0x1234, 100);
	env_run(MS);
	env_expect(env.b.rcq, 1, IBV_WC_SUCCESS);
	ck_assert(!memcmp(env.b.buf + 20000 + 36, &group.b[12], 4));
	ck_assert_int_eq(emu_qp_detach_mcast(env.b.qp, &group), 0);
	ck_assert_int_eq(emu_ah_destroy(ah), 0);
}
END_TEST

START_TEST(messages_pass_by_qp1)
{
	struct net_path path = {.src = env.a.ip, .dst = env.b.ip};
	uint8_t mad[256];

	env_fill(mad, sizeof(mad), 4);
	ck_assert_int_eq(emu_hca_gsi_tx(env.a.hca, &path, 1, mad, sizeof(mad), false), 0);
	env_run(MS);
	ck_assert_uint_eq(env.b.mads, 1);
	ck_assert(!memcmp(mad, env.b.mad, sizeof(mad)));
}
END_TEST

/* --- SRQ, XRC --------------------------------------------------------------------- */

START_TEST(several_qps_share_an_srq)
{
	env_connect((struct env_qp){.srq = true, .sig_all = true});
	env_recv(&env.b, 50, 0, 4000);
	env_recv(&env.b, 51, 4000, 4000);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 3000});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.b.rcq, 50, IBV_WC_SUCCESS);
	env_modify(&env.b, IBV_QPS_ERR);
	ck_assert(env_event(&env.b, IBV_EVENT_QP_LAST_WQE_REACHED));
	env_expect_none(env.b.rcq);
}
END_TEST

struct xrc {
	struct emu_xrcd *xrcd;
	struct emu_srq *srq;
	struct emu_qp *target;
};

static void xrc_target(struct xrc *x)
{
	struct ibv_srq_attr attr = {.max_wr = 8, .max_sge = 1};
	struct emu_qp_init init = {
	    .type = IBV_QPT_XRC_RECV, .owner = &env.b, .cookie = &env.b};

	ck_assert_int_eq(emu_xrcd_create(env.b.hca, &x->xrcd), 0);
	ck_assert_int_eq(
	    emu_srq_create(env.b.pd, &env.b, &env.b, &attr, x->xrcd, env.b.rcq, &x->srq),
	    0);
	init.xrcd = x->xrcd;
	ck_assert_int_eq(emu_qp_create(env.b.hca, &init, &x->target), 0);
}

static void modify(struct emu_qp *qp, struct ibv_qp_attr *at, enum ibv_qp_state state,
		   int mask)
{
	at->qp_state = state;
	ck_assert_int_eq(emu_qp_modify(qp, at, mask | IBV_QP_STATE), 0);
}

static void xrc_connect(struct xrc *x)
{
	struct emu_qp_init init = {.type = IBV_QPT_XRC_SEND,
				   .pd = env.a.pd,
				   .send_cq = env.a.scq,
				   .cap = {.max_send_wr = 8, .max_send_sge = 1},
				   .sq_sig_all = true,
				   .owner = &env.a,
				   .cookie = &env.a};
	struct ibv_qp_attr at = {.port_num = 1,
				 .path_mtu = IBV_MTU_1024,
				 .qp_access_flags =
				     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
				 .timeout = 12,
				 .retry_cnt = 3,
				 .rnr_retry = 3,
				 .min_rnr_timer = 5,
				 .max_rd_atomic = 1,
				 .max_dest_rd_atomic = 1,
				 .ah_attr = {.is_global = 1, .port_num = 1}};
	int rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	ck_assert_int_eq(emu_qp_create(env.a.hca, &init, &env.a.qp), 0);
	modify(env.a.qp, &at, IBV_QPS_INIT,
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(x->target, &at, IBV_QPS_INIT,
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	memcpy(&at.ah_attr.grh.dgid, &env.a.ip, 16);
	at.dest_qp_num = emu_qp_num(env.a.qp);
	modify(x->target, &at, IBV_QPS_RTR,
	       rtr | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	memcpy(&at.ah_attr.grh.dgid, &env.b.ip, 16);
	at.dest_qp_num = emu_qp_num(x->target);
	modify(env.a.qp, &at, IBV_QPS_RTR, rtr);
	modify(env.a.qp, &at, IBV_QPS_RTS,
	       IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		   IBV_QP_MAX_QP_RD_ATOMIC);
}

static void xrc_post(struct xrc *x, uint64_t id, int op, uint32_t len)
{
	struct rxe_send_wqe *w = env_slot(&env.a);

	w->wr.wr_id = id;
	w->wr.opcode = (uint32_t)op;
	w->wr.reserved = emu_srq_num(x->srq);
	w->wr.wr.rdma.remote_addr = (uintptr_t)env.b.buf + 30000;
	w->wr.wr.rdma.rkey = emu_mr_rkey(env.b.mr);
	w->dma.num_sge = 1;
	w->dma.sge[0] =
	    (struct rxe_sge){(uintptr_t)env.a.buf, len, emu_mr_lkey(env.a.mr)};
	env_ring(&env.a);
}

START_TEST(xrc_requests_go_to_the_srq_that_they_name)
{
	struct rxe_recv_wqe *r;
	struct ib_uverbs_wc wc;
	struct xrc x;

	xrc_target(&x);
	xrc_connect(&x);
	env_fill(env.a.buf, 3000, 1);
	r = ring_at(&x.srq->ring, 0);
	r->wr_id = 70;
	r->dma.num_sge = 1;
	r->dma.sge[0] =
	    (struct rxe_sge){(uintptr_t)env.b.buf, 4000, emu_mr_lkey(env.b.mr)};
	x.srq->ring.buf->producer_index = 1;
	xrc_post(&x, 1, IBV_WR_SEND, 3000);
	xrc_post(&x, 2, IBV_WR_RDMA_WRITE, 3000);
	xrc_post(&x, 3, IBV_WR_RDMA_READ, 3000);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 3, IBV_WC_SUCCESS);
	wc = env_expect(env.b.rcq, 70, IBV_WC_SUCCESS);
	ck_assert_uint_eq(wc.qp_num, emu_qp_num(x.target));
	ck_assert(!memcmp(env.a.buf, env.b.buf, 3000));
	ck_assert(!memcmp(env.a.buf, env.b.buf + 30000, 3000));
	ck_assert_uint_eq(env.a.sent[ROCE_XRC | ROCE_SEND_FIRST], 1);
	/* no more receive requests */
	xrc_post(&x, 4, IBV_WR_SEND, 10);
	env_run(50 * MS);
	env_expect(env.a.scq, 4, IBV_WC_RNR_RETRY_EXC_ERR);
	ck_assert_int_eq(emu_qp_destroy(x.target), 0);
	ck_assert_int_eq(emu_srq_destroy(x.srq), 0);
	ck_assert_int_eq(emu_xrcd_destroy(x.xrcd), 0);
}
END_TEST

/* --- order ------------------------------------------------------------------------ */

/* Behind a fence a request waits for the READ before it (10.8.3.3). */
START_TEST(a_fenced_request_waits_for_the_read)
{
	int fenced = _i;

	env_connect((struct env_qp){.sig_all = true});
	env_fill(env.b.buf, 50000, 3);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_READ, .len = 50000});
	env_post(&env.a, (struct env_wr){.id = 2,
					 .op = IBV_WR_RDMA_WRITE,
					 .len = 50000,
					 .remote = 100000,
					 .flags = fenced ? IBV_SEND_FENCE : 0});
	emu_hca_run(env.a.hca);
	ck_assert_uint_eq(env.a.sent[ROCE_WRITE_FIRST], fenced ? 0 : 1);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	if (fenced)
		ck_assert(!memcmp(env.b.buf, env.b.buf + 100000, 50000));
}
END_TEST

static uint32_t reads_under_way, most_reads;

static int watch_reads(struct side *from, const struct roce_hdr *h, uint8_t *data,
		       uint32_t len)
{
	if (h->opcode == ROCE_READ_REQ && ++reads_under_way > most_reads)
		most_reads = reads_under_way;
	if (h->opcode == ROCE_READ_RESP_ONLY || h->opcode == ROCE_READ_RESP_LAST)
		reads_under_way--;
	return 1;
}

START_TEST(max_rd_atomic)
{
	uint32_t i;

	reads_under_way = most_reads = 0;
	env.filter = watch_reads;
	env_connect((struct env_qp){.sig_all = true, .rd_atomic = 3});
	for (i = 0; i < 20; i++)
		env_post(&env.a,
			 (struct env_wr){.id = i, .op = IBV_WR_RDMA_READ, .len = 3000});
	env_run(MS);
	for (i = 0; i < 20; i++)
		env_expect(env.a.scq, i, IBV_WC_SUCCESS);
	ck_assert_uint_eq(most_reads, 3);
}
END_TEST

START_TEST(a_queue_is_drained_before_it_says_so)
{
	struct ibv_qp_attr at = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
	uint32_t i;

	env_connect((struct env_qp){.sig_all = true});
	for (i = 0; i < 5; i++)
		env_post(&env.a,
			 (struct env_wr){.id = i, .op = IBV_WR_RDMA_WRITE, .len = 50000});
	emu_hca_run(env.a.hca);
	ck_assert_int_eq(
	    emu_qp_modify(env.a.qp, &at, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	ck_assert(env.a.qp->sq_draining);
	ck_assert(!env_event(&env.a, IBV_EVENT_SQ_DRAINED));
	env_run(MS);
	ck_assert(!env.a.qp->sq_draining);
	ck_assert(env_event(&env.a, IBV_EVENT_SQ_DRAINED));
	env_expect(env.a.scq, 0, IBV_WC_SUCCESS);
	env_post(&env.a, (struct env_wr){.id = 5, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(MS);
	at.qp_state = IBV_QPS_RTS;
	ck_assert_int_eq(emu_qp_modify(env.a.qp, &at, IBV_QP_STATE), 0);
	env_run(MS);
	for (i = 1; i < 6; i++)
		env_expect(env.a.scq, i, IBV_WC_SUCCESS);
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_COMP_RETRY], 0);
}
END_TEST

/* --- memory windows --------------------------------------------------------------- */

static void post_mw(struct side *s, uint64_t id, int op, struct emu_mw *mw,
		    uint32_t new_rkey)
{
	struct rxe_send_wqe *w = env_slot(s);

	w->wr.wr_id = id;
	w->wr.opcode = (uint32_t)op;
	w->wr.ex.invalidate_rkey = emu_mw_rkey(mw);
	if (op == IBV_WR_BIND_MW) {
		w->wr.wr.mw.addr = (uintptr_t)s->buf;
		w->wr.wr.mw.length = 1000;
		w->wr.wr.mw.mr_lkey = emu_mr_lkey(s->mr);
		w->wr.wr.mw.mw_rkey = emu_mw_rkey(mw);
		w->wr.wr.mw.rkey = new_rkey;
		w->wr.wr.mw.access = IBV_ACCESS_REMOTE_WRITE;
	}
	env_ring(s);
}

START_TEST(windows_are_bound_and_invalidated)
{
	struct emu_mw *mw;
	uint32_t key;

	env_connect((struct env_qp){.sig_all = true});
	ck_assert_int_eq(emu_mw_alloc(env.b.pd, IBV_MW_TYPE_2, &mw), 0);
	key = (emu_mw_rkey(mw) & ~0xffu) | ((emu_mw_rkey(mw) + 1) & 0xff);
	post_mw(&env.b, 1, IBV_WR_BIND_MW, mw, key);
	env_run(MS);
	ck_assert_int_eq(env_expect(env.b.scq, 1, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	env_post(&env.a, (struct env_wr){
			     .id = 1, .op = IBV_WR_RDMA_WRITE, .len = 1000, .rkey = key});
	env_recv(&env.b, 7, 2000, 100);
	env_post(&env.a, (struct env_wr){
			     .id = 2, .op = IBV_WR_SEND_WITH_INV, .len = 10, .imm = key});
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	ck_assert_uint_eq(env_expect(env.b.rcq, 7, IBV_WC_SUCCESS).wc_flags,
			  IBV_WC_WITH_INV);
	/* it is invalid now: here, and for the peer */
	if (_i == 0) {
		env_post(&env.a,
			 (struct env_wr){
			     .id = 3, .op = IBV_WR_RDMA_WRITE, .len = 10, .rkey = key});
		env_run(MS);
		env_expect(env.a.scq, 3, IBV_WC_REM_ACCESS_ERR);
	} else {
		post_mw(&env.b, 3, IBV_WR_LOCAL_INV, mw, 0);
		env_run(MS);
		env_expect(env.b.scq, 3, IBV_WC_LOC_QP_OP_ERR);
	}
	ck_assert_int_eq(emu_qp_destroy(env.b.qp), 0);
	env.b.qp = NULL;
	ck_assert_int_eq(emu_mw_dealloc(mw), 0);
}
END_TEST

static uint32_t calls;
static uint8_t called_by;

static int note_call(struct side *from, const struct roce_hdr *h, uint8_t *data,
		     uint32_t len)
{
	if (from == &env.a && h->se) {
		calls++;
		called_by = h->opcode;
	}
	return 1;
}

/* The last packet asks for the event, of each request that takes a receive request */
START_TEST(each_message_that_is_received_can_be_solicited)
{
	static const struct {
		int op;
		uint8_t last;
	} kinds[] = {{IBV_WR_SEND, ROCE_SEND_LAST},
		     {IBV_WR_SEND_WITH_IMM, ROCE_SEND_LAST_IMM},
		     {IBV_WR_SEND_WITH_INV, ROCE_SEND_LAST_INV},
		     {IBV_WR_RDMA_WRITE_WITH_IMM, ROCE_WRITE_LAST_IMM}};
	struct emu_mw *mw;

	env_connect((struct env_qp){.sig_all = true});
	ck_assert_int_eq(emu_mw_alloc(env.b.pd, IBV_MW_TYPE_2, &mw), 0);
	post_mw(&env.b, 1, IBV_WR_BIND_MW, mw, emu_mw_rkey(mw));
	env_run(MS);
	env.filter = note_call;
	calls = 0;
	env_recv(&env.b, 7, 8000, 3000);
	env_post(&env.a, (struct env_wr){.id = 2,
					 .op = kinds[_i].op,
					 .len = 3000,
					 .flags = IBV_SEND_SOLICITED,
					 .imm = emu_mw_rkey(mw)});
	env_run(MS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
	env_expect(env.b.rcq, 7, IBV_WC_SUCCESS);
	ck_assert_uint_eq(calls, 1);
	ck_assert_uint_eq(called_by, kinds[_i].last);
	ck_assert_int_eq(emu_mw_dealloc(mw), 0);
}
END_TEST

START_TEST(a_flush_is_answered)
{
	struct rxe_send_wqe *w;
	int i;

	env_connect((struct env_qp){.sig_all = true});
	for (i = 0; i < 3; i++) {
		w = env_slot(&env.a);
		w->wr.wr_id = (uint64_t)i;
		w->wr.opcode = 14;
		memcpy(&w->wr.wr, &(uint64_t){(uintptr_t)env.b.buf}, 8);
		((uint32_t *)&w->wr.wr)[3] = emu_mr_rkey(env.b.mr);
		((uint8_t *)&w->wr.wr)[16] =
		    i == 2 ? 2 : 1; /* persistent: not registered so */
		((uint8_t *)&w->wr.wr)[17] = (uint8_t)(i & 1);
		w->dma.length = 5000;
		env_ring(&env.a);
	}
	env_run(MS);
	ck_assert_int_eq(env_expect(env.a.scq, 0, IBV_WC_SUCCESS).opcode, 8);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_REM_INV_REQ_ERR);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport_kinds");
	TCase *tc = tcase_create("kinds");

	tcase_add_checked_fixture(tc, env_setup, env_teardown);
	tcase_add_test(tc, uc_send_and_write);
	tcase_add_loop_test(tc, uc_loses_messages_whole, 0, 6);
	tcase_add_test(tc, a_send_error_of_uc_stops_the_send_queue_only);
	tcase_add_test(tc, uc_sqe_goes_on_behind_what_was_sent);
	tcase_add_test(tc, datagrams_bring_their_header);
	tcase_add_test(tc, datagrams_that_do_not_fit_are_dropped);
	tcase_add_test(tc, ud_communication_established);
	tcase_add_loop_test(tc, errors_of_ud_end_the_right_queue, 0, 2);
	tcase_add_test(tc, a_datagram_reaches_each_member);
	tcase_add_test(tc, messages_pass_by_qp1);
	tcase_add_test(tc, several_qps_share_an_srq);
	tcase_add_test(tc, xrc_requests_go_to_the_srq_that_they_name);
	tcase_add_loop_test(tc, a_fenced_request_waits_for_the_read, 0, 2);
	tcase_add_test(tc, max_rd_atomic);
	tcase_add_test(tc, a_queue_is_drained_before_it_says_so);
	tcase_add_loop_test(tc, windows_are_bound_and_invalidated, 0, 2);
	tcase_add_loop_test(tc, each_message_that_is_received_can_be_solicited, 0, 4);
	tcase_add_test(tc, a_flush_is_answered);
	suite_add_tcase(s, tc);
	return check_main(s);
}
