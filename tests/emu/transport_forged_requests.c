/*
 * Description: requests that no good peer sends, and such of the program. They are refused or
 * dropped; nothing is written that was not asked for.
 */
#include <stdlib.h>

#include "transport_forge.h"
#include "tests/check_main.h"
#include "tests/emu/reg_mr.h"

static struct roce_hdr request(uint8_t op, uint32_t n, uint32_t dma_len)
{
	return (struct roce_hdr){
	    .opcode = op,
	    .psn = roce_psn_add(PSN, n),
	    .va = (uintptr_t)env.b.buf,
	    .rkey = emu_mr_rkey(env.b.mr),
	    .dma_len = dma_len,
	    .ack_req = true,
	};
}

START_TEST(an_empty_last_packet_is_refused)
{
	bool write = _i;
	struct roce_hdr h;

	env_connect((struct env_qp){.psn = PSN});
	h = request(write ? ROCE_WRITE_FIRST : ROCE_SEND_FIRST, 0, 1024);
	env_recv(&env.b, 1, 10000, 4096);
	h.ack_req = false;
	inject(&env.b, h, 1024, (struct wrong){0});
	inject(&env.b, request(write ? ROCE_WRITE_LAST : ROCE_SEND_LAST, 1, 0), 0,
	       (struct wrong){0});
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_ERR);
	ck_assert_uint_eq(env.b.sent[ROCE_ACK], 1);
}
END_TEST

static struct {
	uint32_t psn[16], n;
	uint8_t op[16], first[16];
	uint32_t len[16];
} seen;

static int watch(struct side *from, const struct roce_hdr *h, uint8_t *data, uint32_t len)
{
	if (from == &env.b && seen.n < 16) {
		seen.psn[seen.n] = h->psn;
		seen.op[seen.n] = h->opcode;
		seen.len[seen.n++] = len;
	}
	return 0;
}

/* 9.7.5.1.4: a READ comes again, over the wrap of the PSN, from each packet on */
START_TEST(duplicates_of_a_read_are_answered_across_the_wrap_of_the_psn)
{
	struct roce_hdr h;

	env_connect((struct env_qp){.psn = PSN});
	env.filter = watch;
	inject(&env.b, request(ROCE_READ_REQ, 0, 4 * 1024 + 5), 0, (struct wrong){0});
	ck_assert_uint_eq(env.b.sent[ROCE_READ_RESP_LAST], 1);
	memset(&seen, 0, sizeof(seen));
	h = request(ROCE_READ_REQ, (uint32_t)_i, 4 * 1024 + 5 - (uint32_t)_i * 1024);
	h.va += (uint32_t)_i * 1024;
	inject(&env.b, h, 0, (struct wrong){0});
	ck_assert_uint_eq(seen.n, 5 - (uint32_t)_i);
	ck_assert_uint_eq(seen.psn[0], roce_psn_add(PSN, (uint32_t)_i));
	ck_assert_uint_eq(seen.psn[seen.n - 1], roce_psn_add(PSN, 4));
	ck_assert_int_eq(seen.op[0],
			 _i == 4 ? ROCE_READ_RESP_ONLY : ROCE_READ_RESP_FIRST);
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_RTS);
}
END_TEST

/* Only what was asked for the first time is given again */
START_TEST(a_duplicate_read_that_asks_for_more_is_dropped)
{
	struct roce_hdr h;

	env_connect((struct env_qp){.psn = PSN});
	inject(&env.b, request(ROCE_READ_REQ, 0, 3000), 0, (struct wrong){0});
	env.filter = watch;
	memset(&seen, 0, sizeof(seen));
	inject(&env.b, request(ROCE_READ_REQ, 0, 3001), 0, (struct wrong){0});
	inject(&env.b, request(ROCE_READ_REQ, 0, 4096), 0, (struct wrong){0});
	inject(&env.b, request(ROCE_READ_REQ, 0, 100), 0, (struct wrong){0});
	inject(&env.b, request(ROCE_READ_REQ, 1, 3000), 0, (struct wrong){0});
	h = request(ROCE_READ_REQ, 0, 3000);
	h.va++;
	inject(&env.b, h, 0, (struct wrong){0});
	h.va--;
	h.rkey ^= 1;
	inject(&env.b, h, 0, (struct wrong){0});
	ck_assert_uint_eq(seen.n, 0);
	/* a part that ends with a packet is one: chunks are asked for again alone */
	inject(&env.b, request(ROCE_READ_REQ, 0, 2048), 0, (struct wrong){0});
	ck_assert_uint_eq(seen.n, 2);
	ck_assert_int_eq(seen.op[1], ROCE_READ_RESP_LAST);
}
END_TEST

/* Nothing that is behind a READ is part of it, not even where it would be empty */
START_TEST(a_duplicate_behind_a_read_is_not_of_it)
{
	struct roce_hdr h;

	env_connect((struct env_qp){.psn = PSN});
	inject(&env.b, request(ROCE_READ_REQ, 0, 2048), 0, (struct wrong){0});
	inject(&env.b, request(ROCE_WRITE_ONLY, 2, 8), 8, (struct wrong){0});
	env.filter = watch;
	memset(&seen, 0, sizeof(seen));
	h = request(ROCE_READ_REQ, 2, 0);
	h.va += 2048;
	inject(&env.b, h, 0, (struct wrong){0});
	ck_assert_uint_eq(seen.n, 0);
}
END_TEST

static int not_ready(const uint8_t *addr, size_t len, bool write, struct odp_access *acc)
{
	acc->model = ODP_FAULT_RNR;
	acc->ready_at = acc->now + MS;
	return -EAGAIN;
}

/* With READs of 2^23 packets the PSNs come around: the newest request has them */
START_TEST(a_duplicate_is_that_of_the_newest_request_with_its_psn)
{
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	uint64_t b = (uintptr_t)env.b.buf;
	struct emu_mr *mr;
	struct roce_hdr h;

	env_connect((struct env_qp){.psn = PSN, .mtu = IBV_MTU_256, .rd_atomic = 4});
	ck_assert_int_eq(reg_mr(env.b.pd, b, 1ull << 31, b, all, &mr), 0);
	env.fold = 65536;
	env.memory = not_ready;
	for (uint32_t i = 0; i < 2; i++) {
		h = request(ROCE_READ_REQ, i << 23, 1u << 31);
		h.rkey = emu_mr_rkey(mr);
		inject(&env.b, h, 0, (struct wrong){.still = true});
	}
	h = request(ROCE_READ_REQ, 0, 8);
	inject(&env.b, h, 0, (struct wrong){.still = true});
	emu_hca_run(env.b.hca); /* none of the three is answered */
	env.memory = NULL;
	env.filter = watch;
	memset(&seen, 0, sizeof(seen));
	inject(&env.b, h, 0, (struct wrong){0});
	ck_assert_uint_ge(seen.n, 1);
	ck_assert_uint_eq(seen.psn[seen.n - 1], PSN);
	ck_assert_int_eq(seen.op[seen.n - 1], ROCE_READ_RESP_ONLY);
	ck_assert_int_eq(emu_mr_dereg(mr), 0);
}
END_TEST

/* C9-88: who asks for no bytes needs no key, and no address */
START_TEST(an_empty_request_needs_no_key)
{
	struct roce_hdr h;

	env_connect((struct env_qp){.psn = PSN});
	h = request(_i ? ROCE_WRITE_ONLY : ROCE_READ_REQ, 0, 0);
	h.rkey ^= 1;
	h.va = 8;
	inject(&env.b, h, 0, (struct wrong){0});
	ck_assert_uint_eq(env.b.sent[_i ? ROCE_ACK : ROCE_READ_RESP_ONLY], 1);
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_RTS);
	ck_assert(!env_event(&env.b, IBV_EVENT_QP_ACCESS_ERR));
}
END_TEST

/* Requests of which a detail is wrong */
START_TEST(a_request_with_a_wrong_detail_is_refused)
{
	struct roce_hdr h;

	env_connect((struct env_qp){.psn = PSN});
	h = request(ROCE_WRITE_FIRST, 0, 1024);
	if (_i == 1) {
		h = request(ROCE_FLUSH, 0, 8);
		h.flush_type = 1;
		h.flush_level = 2; /* there are two: range and region */
	}
	/* the first packet has all bytes, but it is not the last */
	inject(&env.b, h, _i ? 0 : 1024, (struct wrong){0});
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_ERR);
	ck_assert(env_event(&env.b, IBV_EVENT_QP_REQ_ERR));
}
END_TEST

/* All eight bytes of an atomic must be in the region */
START_TEST(an_atomic_over_the_end_of_the_region_is_refused)
{
	int all =
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	uint64_t b = (uintptr_t)env.b.buf;
	struct emu_mr *mr;
	struct roce_hdr h;

	env_connect((struct env_qp){.psn = PSN});
	ck_assert_int_eq(reg_mr(env.b.pd, b, 100, b, all, &mr), 0);
	h = request(_i ? ROCE_ATOMIC_WRITE : ROCE_FETCH_ADD, 0, 8);
	h.rkey = emu_mr_rkey(mr);
	h.va += 96;
	inject(&env.b, h, _i ? 8 : 0, (struct wrong){0});
	ck_assert(env_event(&env.b, IBV_EVENT_QP_ACCESS_ERR));
	ck_assert(untouched(env.b.buf + 96, 8));
	ck_assert_int_eq(emu_mr_dereg(mr), 0);
}
END_TEST

/* 9.6.1.2: what is not whole, or has data where none may be, is no packet */
START_TEST(a_malformed_packet_is_dropped)
{
	env_connect((struct env_qp){.psn = PSN});
	if (_i < 3)
		inject(&env.b, request(ROCE_WRITE_ONLY, 0, 64), 64,
		       (struct wrong){.cut = (uint32_t)_i + 1});
	else
		inject(&env.b, request(ROCE_READ_REQ, 0, 64), 4, (struct wrong){0});
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_RX_MALFORMED], 1);
	ck_assert(untouched(env.b.buf, 64));
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_RTS);
}
END_TEST

/* An XRC packet is none for a UC QP, though the opcodes differ in the first bit only */
START_TEST(a_packet_of_another_transport_is_dropped)
{
	struct roce_hdr h;

	env_connect((struct env_qp){.psn = PSN, .type = IBV_QPT_UC});
	h = request(ROCE_WRITE_ONLY, 0, 64);
	h.opcode = (uint8_t)(ROCE_XRC | ROCE_WRITE_ONLY);
	inject(&env.b, h, 64, (struct wrong){0});
	ck_assert(untouched(env.b.buf, 64));
	h.opcode = (uint8_t)(ROCE_UC | ROCE_WRITE_ONLY);
	inject(&env.b, h, 64, (struct wrong){0});
	ck_assert_uint_eq(env.b.buf[63], 0xee);
}
END_TEST

/* 10.2.4.2: a QP that may have none under way gets none */
START_TEST(a_read_on_a_qp_without_initiator_depth_fails)
{
	env_connect((struct env_qp){0});
	env.a.qp->attr.max_rd_atomic = 0;
	post(_i ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 8);
	env_expect(env.a.scq, 1, IBV_WC_LOC_QP_OP_ERR);
	ck_assert_uint_eq(env.a.sent[ROCE_READ_REQ] + env.a.sent[ROCE_FETCH_ADD], 0);
}
END_TEST

/* What must fail here is not executed there, nor is what is behind it */
START_TEST(a_request_without_a_place_for_its_answer_is_not_sent)
{
	uint64_t a = (uintptr_t)env.a.buf;
	struct emu_mr *mr;

	env_connect((struct env_qp){0});
	ck_assert_int_eq(reg_mr(env.a.pd, a, 4096, a, 0, &mr), 0);
	if (_i)
		env_post(&env.a, (struct env_wr){.id = 1,
						 .op = IBV_WR_RDMA_READ,
						 .len = 8,
						 .lkey = emu_mr_lkey(mr)});
	else
		env_post(&env.a, (struct env_wr){.id = 1,
						 .op = IBV_WR_ATOMIC_FETCH_AND_ADD,
						 .len = 7});
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 8});
	env_run(MS);
	env_expect(env.a.scq, 1, _i ? IBV_WC_LOC_PROT_ERR : IBV_WC_LOC_LEN_ERR);
	env_expect(env.a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(env.a.sent[ROCE_READ_REQ] + env.a.sent[ROCE_FETCH_ADD] +
			      env.a.sent[ROCE_WRITE_ONLY],
			  0);
	ck_assert_int_eq(emu_mr_dereg(mr), 0);
}
END_TEST

/* Inline data that ends behind its slot of the ring would be that of the next request */
START_TEST(inline_data_beyond_the_slot_is_refused)
{
	struct rxe_send_wqe *w;

	env_connect((struct env_qp){0});
	w = env_slot(&env.a);
	w->wr.wr_id = 1;
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->wr.send_flags = IBV_SEND_INLINE;
	w->dma.length = (1u << env.a.qp->sq.log2_elem) + 1 -
			(uint32_t)offsetof(struct rxe_send_wqe, dma.sge);
	env_ring(&env.a);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_LOC_QP_OP_ERR);
}
END_TEST

/* More SGEs than the QP has, though the slot of the ring would hold them */
START_TEST(more_sges_than_the_qp_has_are_refused)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr at;
	struct rxe_send_wqe *w;

	env_connect((struct env_qp){.max_sge = 1});
	emu_qp_query(env.a.qp, &at, &init);
	w = env_slot(&env.a);
	w->wr.wr_id = 1;
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->dma.num_sge = at.cap.max_send_sge + 1;
	env_ring(&env.a);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_LOC_QP_OP_ERR);
}
END_TEST

/* A request before the expected one, also half a circle away, writes nothing */
START_TEST(a_stale_request_writes_nothing)
{
	static const uint32_t behind[] = {1, 1000, (1u << 23) - 1};

	env_connect((struct env_qp){.psn = PSN});
	inject(&env.b, request(ROCE_WRITE_ONLY, ROCE_PSN_MASK + 1 - behind[_i], 64), 64,
	       (struct wrong){0});
	ck_assert(untouched(env.b.buf, 64));
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_RTS);
	inject(&env.b, request(ROCE_WRITE_ONLY, 0, 64), 64, (struct wrong){0});
	ck_assert_uint_eq(env.b.buf[63], 0xee);
}
END_TEST

START_TEST(a_request_from_a_foreigner_is_dropped)
{
	static const struct wrong how[] = {
	    {.src = 0x40}, {.dst = 0x40}, {.pkey = 0xfffe}};

	env_connect((struct env_qp){.psn = PSN});
	inject(&env.b, request(ROCE_WRITE_ONLY, 0, 64), 64, how[_i]);
	ck_assert(untouched(env.b.buf, 64));
	ck_assert_uint_eq(env.b.sent[ROCE_ACK], 0);
	ck_assert(!env_event(&env.b, IBV_EVENT_COMM_EST));
}
END_TEST

/* 9.7.4.1.6: 2^31 bytes are a message, one more is none */
START_TEST(the_longest_message_has_two_gigabytes)
{
	env_connect((struct env_qp){.psn = PSN});
	inject(&env.b, request(_i ? ROCE_WRITE_FIRST : ROCE_READ_REQ, 0, 1u << 31),
	       _i ? 1024 : 0, (struct wrong){0});
	/* it is longer than the MR: that is found, not that it is no message */
	ck_assert(env_event(&env.b, IBV_EVENT_QP_ACCESS_ERR));
}
END_TEST

START_TEST(a_request_of_two_gigabytes_may_be_posted)
{
	struct rxe_send_wqe *w;

	env_connect((struct env_qp){.psn = PSN});
	w = env_slot(&env.a);
	w->wr.wr_id = 1;
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->dma.num_sge = 2;
	w->dma.sge[0] = (struct rxe_sge){(uintptr_t)env.a.buf, 1u << 30, 3};
	w->dma.sge[1] =
	    (struct rxe_sge){(uintptr_t)env.a.buf, (1u << 30) + (uint32_t)_i, 3};
	env_ring(&env.a);
	env_run(MS);
	env_expect(env.a.scq, 1, _i ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR);
}
END_TEST

#define FOLD (99u * 4096)

static uint32_t the_last;

/* The last packet with data is lost once: it is made again, from its place */
static int lose_the_last(struct side *from, const struct roce_hdr *h, uint8_t *data,
			 uint32_t len)
{
	if (h->psn != the_last || len < 4096)
		return 1;
	the_last = UINT32_MAX;
	return 0;
}

/* The addresses of 2 GiB fall upon the same few pages, see env.fold */
START_TEST(two_gigabytes_pass_to_the_byte)
{
	int all =
	    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	uint64_t a = (uintptr_t)env.a.buf, b = (uintptr_t)env.b.buf, len = 1ull << 31;
	struct emu_mr *from, *to;
	struct rxe_send_wqe *w;

	env_connect((struct env_qp){.psn = PSN, .mtu = IBV_MTU_4096, .sig_all = true});
	ck_assert_int_eq(reg_mr(env.a.pd, a, len, a, all, &from), 0);
	ck_assert_int_eq(reg_mr(env.b.pd, b, len, b, all, &to), 0);
	env.fold = FOLD;
	env.filter = lose_the_last;
	the_last = roce_psn_add(PSN, (1u << 19) - 1);
	env_fill(_i ? env.b.buf : env.a.buf, FOLD, 1);
	w = env_slot(&env.a);
	w->wr.wr_id = 1;
	w->wr.opcode = _i ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
	w->wr.wr.rdma.remote_addr = b;
	w->wr.wr.rdma.rkey = emu_mr_rkey(to);
	w->dma.num_sge = 1;
	w->dma.sge[0] = (struct rxe_sge){a, 1u << 31, emu_mr_lkey(from)};
	env_ring(&env.a);
	env_run(10000 * MS);
	ck_assert_uint_eq(env_expect(env.a.scq, 1, IBV_WC_SUCCESS).byte_len, len);
	ck_assert(!memcmp(env.a.buf, env.b.buf, FOLD));
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_COMP_RETRY], 1);
	ck_assert_int_eq(emu_mr_dereg(from), 0);
	ck_assert_int_eq(emu_mr_dereg(to), 0);
}
END_TEST

/* --- datagrams -------------------------------------------------------------------- */

static struct roce_hdr datagram(uint32_t qpn, uint32_t qkey)
{
	return (struct roce_hdr){
	    .opcode = (uint8_t)(ROCE_UD | ROCE_SEND_ONLY), .dqpn = qpn, .qkey = qkey};
}

START_TEST(only_a_mad_for_qp1_goes_to_qp1)
{
	struct roce_hdr h;

	env_connect((struct env_qp){.type = IBV_QPT_UD});
	inject(&env.b, datagram(2, ROCE_QKEY_GSI), 256, (struct wrong){0});
	inject(&env.b, datagram(emu_qp_num(env.b.qp), ROCE_QKEY_GSI), 256,
	       (struct wrong){0});
	inject(&env.b, datagram(1, 0x1234), 256, (struct wrong){0});
	inject(&env.b, datagram(1, ROCE_QKEY_GSI), 255, (struct wrong){0});
	inject(&env.b, datagram(1, ROCE_QKEY_GSI), 260, (struct wrong){0});
	inject(&env.b, datagram(1, ROCE_QKEY_GSI), 256, (struct wrong){.pkey = 0x8001});
	h = datagram(1, ROCE_QKEY_GSI);
	h.opcode = ROCE_SEND_ONLY; /* of RC */
	inject(&env.b, h, 256, (struct wrong){0});
	h.opcode = (uint8_t)(ROCE_UD | ROCE_SEND_ONLY_IMM);
	inject(&env.b, h, 256, (struct wrong){0});
	ck_assert_uint_eq(env.b.mads, 0);
	inject(&env.b, datagram(1, ROCE_QKEY_GSI), 256, (struct wrong){0});
	ck_assert_uint_eq(env.b.mads, 1);
}
END_TEST

/* It is counted as what it is: QP1 has no packets of RC, nor such with immediate data */
START_TEST(a_packet_that_is_no_plain_datagram_has_no_qp1)
{
	static const uint8_t ops[] = {ROCE_RC | ROCE_SEND_ONLY, ROCE_RC | ROCE_ACK,
				      ROCE_UC | ROCE_SEND_ONLY_IMM,
				      (uint8_t)(ROCE_UD | ROCE_SEND_ONLY_IMM)};
	struct roce_hdr h = datagram(1, ROCE_QKEY_GSI);

	env_connect((struct env_qp){.type = IBV_QPT_UD});
	h.opcode = ops[_i];
	inject(&env.b, h, _i == 1 ? 0 : 256, (struct wrong){0});
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_RX_BAD_QPN], 1);
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_RX_BAD_QKEY], 0);
	ck_assert_uint_eq(env.b.mads, 0);
}
END_TEST

static uint32_t sent_qkey;

static int note_qkey(struct side *from, const struct roce_hdr *h, uint8_t *data,
		     uint32_t len)
{
	sent_qkey = h->qkey;
	return 0;
}

/* 10.2.5: who asks for a controlled Q_Key gets that of the QP */
START_TEST(a_controlled_q_key_stands_for_that_of_the_qp)
{
	static const struct {
		uint32_t asked, sent;
	} cases[] = {
	    {0x80000000, 0x1234},
	    {0xffffffff, 0x1234},
	    {ROCE_QKEY_GSI, 0x1234},
	    {0x7fffffff, 0x7fffffff},
	    {0, 0},
	};
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct rxe_send_wqe *w;
	struct emu_ah *ah;

	env_connect((struct env_qp){.type = IBV_QPT_UD, .sig_all = true});
	env.filter = note_qkey;
	memcpy(&attr.grh.dgid, &env.b.ip, 16);
	ck_assert_int_eq(emu_ah_create(env.a.pd, &attr, &ah), 0);
	w = env_slot(&env.a);
	w->wr.wr_id = 1;
	w->wr.opcode = IBV_WR_SEND;
	w->wr.wr.ud.ah_num = emu_ah_num(ah);
	w->wr.wr.ud.remote_qpn = emu_qp_num(env.b.qp);
	w->wr.wr.ud.remote_qkey = cases[_i].asked;
	env_ring(&env.a);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	ck_assert_uint_eq(sent_qkey, cases[_i].sent);
	ck_assert_int_eq(emu_ah_destroy(ah), 0);
}
END_TEST

/* 10.2.2.2: an address handle belongs to its protection domain */
START_TEST(an_address_handle_of_another_pd_fails_the_send)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	struct rxe_send_wqe *w;
	struct emu_pd *pd;
	struct emu_ah *ah;

	env_connect((struct env_qp){.type = IBV_QPT_UD, .sig_all = true});
	memcpy(&attr.grh.dgid, &env.b.ip, 16);
	ck_assert_int_eq(emu_pd_create(env.a.hca, &pd), 0);
	ck_assert_int_eq(emu_ah_create(pd, &attr, &ah), 0);
	w = env_slot(&env.a);
	w->wr.wr_id = 1;
	w->wr.opcode = IBV_WR_SEND;
	w->wr.wr.ud.ah_num = emu_ah_num(ah);
	w->wr.wr.ud.remote_qpn = emu_qp_num(env.b.qp);
	env_ring(&env.a);
	env_run(MS);
	env_expect(env.a.scq, 1, IBV_WC_LOC_QP_OP_ERR);
	ck_assert_int_eq(emu_ah_destroy(ah), 0);
	ck_assert_int_eq(emu_pd_destroy(pd), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport_forged_requests");
	TCase *tc = tcase_create("requests");

	tcase_add_checked_fixture(tc, env_setup, env_teardown);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, an_empty_last_packet_is_refused, 0, 2);
	tcase_add_loop_test(
	    tc, duplicates_of_a_read_are_answered_across_the_wrap_of_the_psn, 0, 5);
	tcase_add_test(tc, a_duplicate_read_that_asks_for_more_is_dropped);
	tcase_add_test(tc, a_duplicate_behind_a_read_is_not_of_it);
	tcase_add_test(tc, a_duplicate_is_that_of_the_newest_request_with_its_psn);
	tcase_add_loop_test(tc, an_empty_request_needs_no_key, 0, 2);
	tcase_add_loop_test(tc, a_request_with_a_wrong_detail_is_refused, 0, 2);
	tcase_add_loop_test(tc, an_atomic_over_the_end_of_the_region_is_refused, 0, 2);
	tcase_add_loop_test(tc, a_malformed_packet_is_dropped, 0, 4);
	tcase_add_test(tc, a_packet_of_another_transport_is_dropped);
	tcase_add_loop_test(tc, a_read_on_a_qp_without_initiator_depth_fails, 0, 2);
	tcase_add_loop_test(tc, a_request_without_a_place_for_its_answer_is_not_sent, 0,
			    2);
	tcase_add_test(tc, inline_data_beyond_the_slot_is_refused);
	tcase_add_test(tc, more_sges_than_the_qp_has_are_refused);
	tcase_add_loop_test(tc, a_stale_request_writes_nothing, 0, 3);
	tcase_add_loop_test(tc, a_request_from_a_foreigner_is_dropped, 0, 3);
	tcase_add_loop_test(tc, the_longest_message_has_two_gigabytes, 0, 2);
	tcase_add_loop_test(tc, a_request_of_two_gigabytes_may_be_posted, 0, 2);
	tcase_add_loop_test(tc, two_gigabytes_pass_to_the_byte, 0, 2);
	tcase_add_test(tc, only_a_mad_for_qp1_goes_to_qp1);
	tcase_add_loop_test(tc, a_packet_that_is_no_plain_datagram_has_no_qp1, 0, 4);
	tcase_add_loop_test(tc, a_controlled_q_key_stands_for_that_of_the_qp, 0, 5);
	tcase_add_test(tc, an_address_handle_of_another_pd_fails_the_send);
	suite_add_tcase(s, tc);
	return check_main(s);
}
