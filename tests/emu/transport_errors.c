/*
 * Description: requests that must fail, fail with the status that IBTA 10.10.3 and
 * ibv_poll_cq(3) give, on both sides, and leave the QP in the state that they should.
 */
#include <stdlib.h>

#include "transport_env.h"
#include "tests/check_main.h"

static int send_queue_state(struct side *s, enum ibv_wc_status status)
{
	env_expect(s->scq, 1, status);
	env_expect(s->scq, 2, IBV_WC_WR_FLUSH_ERR);
	env_expect_none(s->scq);
	return env_state(s);
}

/* A request that fails locally; one before it succeeds, one behind it is flushed. */
static void local_failure(struct env_wr wr, enum ibv_wc_status status)
{
	env_post(&env.a, (struct env_wr){.id = 0,
					 .op = IBV_WR_RDMA_WRITE,
					 .len = 5000,
					 .flags = IBV_SEND_SIGNALED});
	wr.id = 1;
	env_post(&env.a, wr);
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(MS);
	env_expect(env.a.scq, 0, IBV_WC_SUCCESS);
	ck_assert_int_eq(send_queue_state(&env.a, status), IBV_QPS_ERR);
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_RTS);
	ck_assert_uint_eq(env.a.events, 0);
}

START_TEST(an_unknown_opcode_fails_the_request)
{
	env_connect((struct env_qp){0});
	local_failure((struct env_wr){.op = 77, .len = 10}, IBV_WC_LOC_QP_OP_ERR);
}
END_TEST

START_TEST(opcode_not_of_transport)
{
	env_connect((struct env_qp){0});
	local_failure((struct env_wr){.op = IBV_WR_TSO, .len = 10}, IBV_WC_LOC_QP_OP_ERR);
}
END_TEST

START_TEST(a_wrong_lkey_fails_the_request)
{
	env_connect((struct env_qp){0});
	local_failure(
	    (struct env_wr){.op = IBV_WR_RDMA_WRITE, .len = 3000, .lkey = 0x12345678},
	    IBV_WC_LOC_PROT_ERR);
}
END_TEST

START_TEST(out_of_bounds)
{
	env_connect((struct env_qp){0});
	local_failure(
	    (struct env_wr){.op = IBV_WR_RDMA_WRITE, .len = 3000, .off = ENV_BUF - 2000},
	    IBV_WC_LOC_PROT_ERR);
}
END_TEST

START_TEST(read_into_bad_lkey)
{
	env_connect((struct env_qp){0});
	local_failure(
	    (struct env_wr){.op = IBV_WR_RDMA_READ, .len = 30, .lkey = 0x12345678},
	    IBV_WC_LOC_PROT_ERR);
}
END_TEST

START_TEST(an_atomic_needs_eight_bytes)
{
	env_connect((struct env_qp){0});
	local_failure((struct env_wr){.op = IBV_WR_ATOMIC_FETCH_AND_ADD, .len = 7},
		      IBV_WC_LOC_LEN_ERR);
}
END_TEST

static void raw_failure(void (*spoil)(struct rxe_send_wqe *w), enum ibv_wc_status status)
{
	struct rxe_send_wqe *w;

	env_connect((struct env_qp){0});
	w = env_slot(&env.a);
	w->wr.wr_id = 1;
	w->wr.opcode = IBV_WR_RDMA_WRITE;
	w->dma.num_sge = 1;
	w->dma.sge[0].addr = (uintptr_t)env.a.buf;
	w->dma.sge[0].lkey = emu_mr_lkey(env.a.mr);
	spoil(w);
	env_ring(&env.a);
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(MS);
	ck_assert_int_eq(send_queue_state(&env.a, status), IBV_QPS_ERR);
}

static void many_sges(struct rxe_send_wqe *w)
{
	w->dma.num_sge = 33;
}

static void millions_of_sges(struct rxe_send_wqe *w)
{
	w->dma.num_sge = 0x80000001;
}

static void long_inline(struct rxe_send_wqe *w)
{
	w->wr.send_flags = IBV_SEND_INLINE;
	w->dma.length = 100000;
}

static void too_long(struct rxe_send_wqe *w)
{
	w->dma.num_sge = 2;
	w->dma.sge[0].length = 0x80000000;
	w->dma.sge[1] = w->dma.sge[0];
}

START_TEST(a_spoiled_request_fails)
{
	static const struct {
		void (*spoil)(struct rxe_send_wqe *w);
		enum ibv_wc_status status;
	} cases[] = {
	    {many_sges, IBV_WC_LOC_QP_OP_ERR},
	    {millions_of_sges, IBV_WC_LOC_QP_OP_ERR},
	    {long_inline, IBV_WC_LOC_QP_OP_ERR},
	    {too_long, IBV_WC_LOC_LEN_ERR},
	};

	raw_failure(cases[_i].spoil, cases[_i].status);
}
END_TEST

/* A list that is changed while it is sent: the send fails, nothing else happens */
static int shorten(struct side *from, const struct roce_hdr *h, uint8_t *data,
		   uint32_t len)
{
	struct rxe_send_wqe *w = ring_at(&env.a.qp->sq, 0);

	w->dma.sge[0].length = 100;
	w->dma.num_sge = 1000;
	return 1;
}

START_TEST(list_changes_under_way)
{
	env_connect((struct env_qp){0});
	env.filter = shorten;
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 50000});
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(MS);
	ck_assert_int_eq(send_queue_state(&env.a, IBV_WC_LOC_QP_OP_ERR), IBV_QPS_ERR);
}
END_TEST

/* --- what the responder refuses --------------------------------------------------- */

static void remote_failure(struct env_wr wr, enum ibv_wc_status status,
			   enum ibv_event_type event)
{
	env_recv(&env.b, 1, 0, 100);
	env_recv(&env.b, 2, 0, 100);
	wr.id = 1;
	env_post(&env.a, wr);
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(MS);
	ck_assert_int_eq(send_queue_state(&env.a, status), IBV_QPS_ERR);
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_ERR);
	ck_assert_int_eq(env_event(&env.b, event), event != IBV_EVENT_CQ_ERR);
	if (event != IBV_EVENT_CQ_ERR) {
		env_expect(env.b.rcq, 1, IBV_WC_WR_FLUSH_ERR);
		env_expect(env.b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	}
}

static const int one_sided[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
				IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};

static uint32_t length_of(int op)
{
	return op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_READ ? 5000 : 8;
}

START_TEST(a_wrong_rkey_is_refused)
{
	int op = one_sided[_i];

	env_connect((struct env_qp){0});
	remote_failure(
	    (struct env_wr){.op = op, .len = length_of(op), .rkey = 0x12345678},
	    IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}
END_TEST

/* The whole length is checked before the first byte is written. */
START_TEST(remote_out_of_bounds)
{
	int op = one_sided[_i];
	uint32_t len = length_of(op);

	env_connect((struct env_qp){0});
	env_fill(env.a.buf, 5000, 1);
	remote_failure((struct env_wr){.op = op, .len = len, .remote = ENV_BUF - len + 8},
		       IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	ck_assert_uint_eq(env.b.buf[ENV_BUF - 100], 0);
}
END_TEST

START_TEST(not_allowed_by_qp)
{
	int op = one_sided[_i];

	env_connect((struct env_qp){.access = IBV_ACCESS_LOCAL_WRITE});
	remote_failure((struct env_wr){.op = op, .len = length_of(op)},
		       IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}
END_TEST

START_TEST(a_misaligned_atomic_is_refused)
{
	env_connect((struct env_qp){0});
	remote_failure(
	    (struct env_wr){.op = IBV_WR_ATOMIC_FETCH_AND_ADD, .len = 8, .remote = 4},
	    IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}
END_TEST

static int gone(const uint8_t *addr, size_t len, bool write, struct odp_access *acc)
{
	return addr >= env.b.buf && addr < env.b.buf + ENV_BUF ? -EFAULT : 0;
}

START_TEST(remote_memory_is_gone)
{
	int op = one_sided[_i];

	env_connect((struct env_qp){0});
	env.memory = gone;
	remote_failure((struct env_wr){.op = op, .len = length_of(op)},
		       IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}
END_TEST

/* The error of a later request does not hide the answer to an earlier READ. */
START_TEST(read_before_the_error)
{
	env_connect((struct env_qp){0});
	env_fill(env.b.buf, 50000, 4);
	env.tx_room = 2;
	env_post(&env.a, (struct env_wr){.id = 0,
					 .op = IBV_WR_RDMA_READ,
					 .len = 50000,
					 .flags = IBV_SEND_SIGNALED});
	env_post(&env.a,
		 (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 8, .rkey = 3});
	env_run(10 * MS);
	env_expect(env.a.scq, 0, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 1, IBV_WC_REM_ACCESS_ERR);
	ck_assert(!memcmp(env.a.buf, env.b.buf, 50000));
}
END_TEST

START_TEST(receive_buffer_too_small)
{
	env_connect((struct env_qp){0});
	remote_failure((struct env_wr){.op = IBV_WR_SEND, .len = 101},
		       IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_CQ_ERR);
	env_expect(env.b.rcq, 1, IBV_WC_LOC_LEN_ERR);
	env_expect(env.b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(env.b.events, 0);
}
END_TEST

START_TEST(receive_buffer_is_gone)
{
	env_connect((struct env_qp){0});
	env.memory = gone;
	remote_failure((struct env_wr){.op = IBV_WR_SEND, .len = 10}, IBV_WC_REM_OP_ERR,
		       IBV_EVENT_CQ_ERR);
	env_expect(env.b.rcq, 1, IBV_WC_LOC_PROT_ERR);
	env_expect(env.b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
}
END_TEST

START_TEST(local_memory_is_gone)
{
	env_connect((struct env_qp){0});
	env.memory = gone;
	env_post(&env.b, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_READ, .len = 10});
	env_post(&env.b, (struct env_wr){.id = 2, .op = IBV_WR_RDMA_WRITE, .len = 10});
	env_run(MS);
	ck_assert_int_eq(send_queue_state(&env.b, IBV_WC_LOC_PROT_ERR), IBV_QPS_ERR);
}
END_TEST

/* --- packets that no requester of ours sends -------------------------------------- */

static void inject(struct roce_hdr h, uint32_t payload)
{
	static uint8_t data[8192];
	struct net_path path = {.src = env.a.ip, .dst = env.b.ip};
	struct net_rx rx = {.path = &path, .data = data};
	uint32_t hdr_len;

	h.pkey = h.pkey ? h.pkey : ROCE_PKEY_DEFAULT;
	h.dqpn = emu_qp_num(env.b.qp);
	h.pad = (0 - payload) & 3;
	hdr_len = roce_build(data, &h);
	rx.len = hdr_len + payload + h.pad;
	emu_hca_rx(env.b.hca, &rx);
	env_run(MS);
}

/* Sequences and lengths that 9.7.4.1 forbids end in NAK invalid request. */
START_TEST(forbidden_sequences_and_lengths_are_refused)
{
	static const struct {
		uint8_t op;
		uint32_t payload, dma_len;
	} cases[] = {
	    {ROCE_SEND_MIDDLE, 1024, 0},
	    {ROCE_SEND_LAST, 8, 0},
	    {ROCE_WRITE_LAST, 8, 0},
	    {ROCE_SEND_FIRST, 1000, 0},
	    {ROCE_SEND_ONLY, 1028, 0},
	    {ROCE_WRITE_ONLY, 8, 16},
	    {ROCE_WRITE_FIRST, 1024, 8},
	    {ROCE_WRITE_ONLY, 8, 0x80000001},
	    {ROCE_READ_REQ, 0, 0x90000000},
	    {ROCE_ATOMIC_WRITE, 16, 16},
	    {ROCE_FLUSH, 0, 16}, /* no type */
	    {0x15, 0, 0},	 /* reserved */
	    {0x18, 8, 0},
	    {0x1f, 1024, 0},
	};
	struct roce_hdr h = {.opcode = cases[_i].op, .dma_len = cases[_i].dma_len};

	env_connect((struct env_qp){0});
	env_recv(&env.b, 1, 0, 8000);
	h.rkey = emu_mr_rkey(env.b.mr);
	h.va = (uintptr_t)env.b.buf;
	inject(h, cases[_i].payload);
	ck_assert_uint_eq(env.b.sent[ROCE_ACK], 1);
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_ERR);
	ck_assert(env_event(&env.b, IBV_EVENT_QP_REQ_ERR));
}
END_TEST

/* A receive request that a refused request had in use completes with the error (11.6.2). */
START_TEST(refused_with_a_receive_request)
{
	static const struct {
		uint8_t first, op;
		uint32_t payload;
		bool bad_key;
		enum ibv_wc_status status;
	} cases[] = {
	    {0, ROCE_WRITE_ONLY_IMM, 8, true, IBV_WC_LOC_ACCESS_ERR},
	    {ROCE_SEND_FIRST, ROCE_SEND_FIRST, 1024, false, IBV_WC_REM_INV_REQ_ERR},
	    {ROCE_SEND_FIRST, ROCE_WRITE_ONLY, 8, false, IBV_WC_REM_INV_REQ_ERR},
	    {ROCE_SEND_FIRST, ROCE_SEND_MIDDLE, 1000, false, IBV_WC_REM_INV_REQ_ERR},
	    {ROCE_SEND_FIRST, ROCE_READ_REQ, 0, false, IBV_WC_REM_INV_REQ_ERR},
	    {ROCE_SEND_FIRST, 0x1e, 0, false, IBV_WC_REM_INV_REQ_ERR},
	};
	struct roce_hdr h = {.dma_len = cases[_i].payload};

	env_connect((struct env_qp){0});
	env_recv(&env.b, 7, 0, 8000);
	env_recv(&env.b, 8, 0, 8000);
	h.rkey = cases[_i].bad_key ? 0x12345678 : emu_mr_rkey(env.b.mr);
	h.va = (uintptr_t)env.b.buf;
	if (_i) {
		h.opcode = cases[_i].first;
		inject(h, 1024);
		h.psn++;
	}
	h.opcode = cases[_i].op;
	inject(h, cases[_i].payload);
	env_expect(env.b.rcq, 7, cases[_i].status);
	env_expect(env.b.rcq, 8, IBV_WC_WR_FLUSH_ERR);
	ck_assert_uint_eq(env.b.sent[ROCE_ACK], 1);
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_ERR);
	ck_assert_uint_eq(env.b.events, 0); /* the completion says it */
}
END_TEST

/* UC has nobody to tell: the datagram-like request is dropped, and so is the rest of its message */
START_TEST(reserved_opcode_of_uc_is_dropped)
{
	struct roce_hdr h = {.opcode = ROCE_UC | 0x15};

	env_connect((struct env_qp){.type = IBV_QPT_UC});
	inject(h, 0);
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_RX_MALFORMED], 1);
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_RTS);
}
END_TEST

/*
 * Class J: the consumer is told of the key that cannot be invalidated, the requester gets no
 * answer. What it sent before is acknowledged.
 */
START_TEST(send_with_invalidate_of_a_bad_key)
{
	env_connect((struct env_qp){.sig_all = true, .retry_cnt = 1});
	env_recv(&env.b, 1, 0, 100);
	env_recv(&env.b, 2, 0, 100);
	env_post(&env.a, (struct env_wr){.id = 0, .op = IBV_WR_RDMA_WRITE, .len = 5000});
	env_post(&env.a,
		 (struct env_wr){
		     .id = 1, .op = IBV_WR_SEND_WITH_INV, .len = 10, .imm = 0x12345678});
	env_run(10000 * MS);
	env_expect(env.a.scq, 0, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
	env_expect(env.b.rcq, 1, IBV_WC_REM_INV_REQ_ERR);
	env_expect(env.b.rcq, 2, IBV_WC_WR_FLUSH_ERR);
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_ERR);
	ck_assert_uint_eq(env.b.events, 0);
}
END_TEST

static unsigned int lost;

static int lose_all_of_a(struct side *from, const struct roce_hdr *h, uint8_t *data,
			 uint32_t len)
{
	lost += from == &env.a;
	return from != &env.a;
}

/* A peer that does not run costs no retry, and nothing is sent again meanwhile. */
START_TEST(timeouts_of_a_peer_that_does_not_run_do_not_count)
{
	lost = 0;
	env_connect((struct env_qp){.sig_all = true, .retry_cnt = 2, .timeout = 14});
	env.filter = lose_all_of_a;
	env.unread = 100;
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_RDMA_WRITE, .len = 100});
	env_run(99 * (4096ull << 14));
	ck_assert_uint_ge(env.asked, 90);
	ck_assert_uint_eq(lost, 1);
	/* since it was asked before */
	ck_assert_uint_ge(env.unread_since, env.now - 2 * (4096ull << 14));
	env_run(10000 * MS);
	ck_assert_uint_eq(lost, 1 + 2);
	env_expect(env.a.scq, 1, IBV_WC_RETRY_EXC_ERR);
}
END_TEST

static bool fault_is_over;

static int slow(const uint8_t *addr, size_t len, bool write, struct odp_access *acc)
{
	if (fault_is_over)
		return 0;
	acc->model = ODP_FAULT_SYNC;
	acc->ready_at = acc->now + MS;
	return -EAGAIN;
}

/*
 * Two READs wait for their memory, a third is one too many (9.7.4.1.9); the two are
 * answered.
 */
START_TEST(more_reads_than_allowed)
{
	struct roce_hdr h = {.opcode = ROCE_READ_REQ, .dma_len = 4000};
	int i;

	env_connect((struct env_qp){.rd_atomic = 2});
	h.rkey = emu_mr_rkey(env.b.mr);
	h.va = (uintptr_t)env.b.buf;
	fault_is_over = false;
	env.memory = slow;
	for (i = 0; i < 2 + _i; i++, h.psn += 4)
		inject(h, 0);
	fault_is_over = true;
	env_run(2 * MS);
	ck_assert_int_eq(env_state(&env.b), _i ? IBV_QPS_ERR : IBV_QPS_RTS);
	ck_assert_uint_eq(env.b.sent[ROCE_READ_RESP_LAST], 2);
	ck_assert_uint_eq(env.b.sent[ROCE_ACK], _i);
}
END_TEST

/* Dropped and counted, without an answer */
START_TEST(wrong_pkey_version_and_type)
{
	struct roce_hdr h = {.opcode = ROCE_WRITE_ONLY};

	env_connect((struct env_qp){0});
	h.pkey = 0x1234;
	inject(h, 0);
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_RX_BAD_PKEY], 1);
	h.pkey = 0x7fff; /* limited member: allowed */
	h.tver = 1;
	inject(h, 0);
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_RX_MALFORMED], 1);
	h.tver = 0;
	h.opcode = ROCE_UC | ROCE_WRITE_ONLY;
	inject(h, 0);
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_RX_BAD_QPN], 1);
	ck_assert_uint_eq(env.b.sent[ROCE_ACK], 0);
	h.opcode = ROCE_WRITE_ONLY;
	h.ack_req = true;
	inject(h, 0);
	ck_assert_uint_eq(env.b.sent[ROCE_ACK], 1);
}
END_TEST

/* --- the end of a QP -------------------------------------------------------------- */

START_TEST(error_flushes_both_queues)
{
	int i;

	env_connect((struct env_qp){0});
	for (i = 1; i <= 20; i++) {
		env_post(&env.a, (struct env_wr){
				     .id = (uint64_t)i, .op = IBV_WR_SEND, .len = 5000});
		env_recv(&env.a, (uint64_t)i, 0, 100);
	}
	env_run(0);
	env_modify(&env.a, IBV_QPS_ERR);
	for (i = 1; i <= 20; i++) {
		env_expect(env.a.scq, (uint64_t)i, IBV_WC_WR_FLUSH_ERR);
		env_expect(env.a.rcq, (uint64_t)i, IBV_WC_WR_FLUSH_ERR);
	}
	/* what is posted later is flushed too */
	env_post(&env.a, (struct env_wr){.id = 30, .op = IBV_WR_SEND, .len = 5000});
	env_recv(&env.a, 31, 0, 100);
	env_run(MS);
	env_expect(env.a.scq, 30, IBV_WC_WR_FLUSH_ERR);
	env_expect(env.a.rcq, 31, IBV_WC_WR_FLUSH_ERR);
	env_modify(&env.a, IBV_QPS_RESET);
	env_expect_none(env.a.scq);
}
END_TEST

START_TEST(reset_forgets_all)
{
	int i;

	env_connect((struct env_qp){0});
	for (i = 1; i <= 20; i++)
		env_post(&env.a, (struct env_wr){.id = (uint64_t)i,
						 .op = IBV_WR_RDMA_READ,
						 .len = 5000});
	emu_hca_run(env.a.hca);
	env_modify(&env.a, IBV_QPS_RESET);
	env_run(1000 * MS);
	env_expect_none(env.a.scq);
	ck_assert_int_eq(env_state(&env.b), IBV_QPS_RTS);
}
END_TEST

START_TEST(cq_overrun_fails_the_qp)
{
	int i, n = 0;
	struct ib_uverbs_wc wc;

	env_connect((struct env_qp){.sig_all = true});
	for (i = 0; i < 1030; i++) {
		env_post(&env.a, (struct env_wr){.id = (uint64_t)i,
						 .op = IBV_WR_RDMA_WRITE,
						 .len = 1});
		env_run(10 * US);
		if (env_state(&env.a) == IBV_QPS_ERR)
			break;
	}
	ck_assert_int_lt(i, 1030);
	ck_assert(env_event(&env.a, IBV_EVENT_CQ_ERR));
	ck_assert(env_event(&env.a, IBV_EVENT_QP_FATAL));
	while (env_poll(env.a.scq, &wc))
		n++;
	ck_assert_int_ge(n, 1023);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport_errors");
	TCase *tc = tcase_create("errors");

	tcase_add_checked_fixture(tc, env_setup, env_teardown);
	tcase_set_timeout(tc, 20);
	tcase_add_test(tc, an_unknown_opcode_fails_the_request);
	tcase_add_test(tc, opcode_not_of_transport);
	tcase_add_test(tc, a_wrong_lkey_fails_the_request);
	tcase_add_test(tc, out_of_bounds);
	tcase_add_test(tc, read_into_bad_lkey);
	tcase_add_test(tc, an_atomic_needs_eight_bytes);
	tcase_add_loop_test(tc, a_spoiled_request_fails, 0, 4);
	tcase_add_test(tc, list_changes_under_way);
	tcase_add_loop_test(tc, a_wrong_rkey_is_refused, 0, 4);
	tcase_add_loop_test(tc, remote_out_of_bounds, 0, 4);
	tcase_add_loop_test(tc, not_allowed_by_qp, 0, 4);
	tcase_add_test(tc, a_misaligned_atomic_is_refused);
	tcase_add_loop_test(tc, remote_memory_is_gone, 0, 4);
	tcase_add_test(tc, read_before_the_error);
	tcase_add_test(tc, receive_buffer_too_small);
	tcase_add_test(tc, receive_buffer_is_gone);
	tcase_add_test(tc, local_memory_is_gone);
	tcase_add_loop_test(tc, forbidden_sequences_and_lengths_are_refused, 0, 14);
	tcase_add_loop_test(tc, refused_with_a_receive_request, 0, 6);
	tcase_add_test(tc, reserved_opcode_of_uc_is_dropped);
	tcase_add_test(tc, send_with_invalidate_of_a_bad_key);
	tcase_add_test(tc, timeouts_of_a_peer_that_does_not_run_do_not_count);
	tcase_add_loop_test(tc, more_reads_than_allowed, 0, 2);
	tcase_add_test(tc, wrong_pkey_version_and_type);
	tcase_add_test(tc, error_flushes_both_queues);
	tcase_add_test(tc, reset_forgets_all);
	tcase_add_test(tc, cq_overrun_fails_the_qp);
	suite_add_tcase(s, tc);
	return check_main(s);
}
