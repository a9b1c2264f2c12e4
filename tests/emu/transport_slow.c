/*
 * transport_slow.c - page faults whose end nobody can tell in advance: the request waits
 * until it is told, the requester is kept patient, and a QP that goes away waits no more.
 */
#include "tests/check_main.h"
#include "transport_env.h"

static struct {
	enum odp_fault_model model;
	const uint8_t *of; /* the buffer that faults */
	bool resolved;
	struct odp_waiter *waiter[2]; /* those that were given */
} slow;

static int not_yet(const uint8_t *addr, size_t len, bool write, struct odp_access *acc)
{
	if (addr < slow.of || addr >= slow.of + ENV_BUF || slow.resolved)
		return 0;
	ck_assert_ptr_nonnull(acc->waiter);
	if (!acc->waiter->linked)
		slow.waiter[slow.waiter[0] && slow.waiter[0]->linked] = acc->waiter;
	acc->waiter->linked = true;
	acc->ready_at = ODP_WHEN_RESOLVED;
	acc->model = slow.model;
	return -EAGAIN;
}

static void slow_memory(const struct side *s, enum odp_fault_model model)
{
	memset(&slow, 0, sizeof(slow));
	slow.of = s->buf;
	slow.model = model;
	env.memory = not_yet;
}

static bool waits(void)
{
	return slow.waiter[0] && slow.waiter[0]->linked;
}

static void tell(void)
{
	struct odp_waiter *w[2] = {slow.waiter[0], slow.waiter[1]};

	ck_assert(waits());
	emu_hca_set_time(env.a.hca, env.now);
	emu_hca_set_time(env.b.hca, env.now);
	slow.waiter[0] = slow.waiter[1] = NULL;
	for (int i = 0; i < 2; i++) {
		if (!w[i] || !w[i]->linked)
			continue;
		w[i]->linked = false;
		emu_fault_resolved(w[i]);
	}
}

static void resolve(void)
{
	slow.resolved = true;
	tell();
}

static const int ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
			  IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_WRITE_WITH_IMM};
#define OPS 5

static void two_requests(int op, struct env_qp how)
{
	bool atomic = op == IBV_WR_ATOMIC_FETCH_AND_ADD;

	how.sig_all = true;
	env_connect(how);
	env_fill(env.a.buf, 9000, 1);
	env_recv(&env.b, 1, 20000, 9000);
	env_post(&env.a,
		 (struct env_wr){
		     .id = 1, .op = op, .len = atomic ? 8 : 9000, .remote = 40000});
	env_post(&env.a,
		 (struct env_wr){
		     .id = 2, .op = IBV_WR_RDMA_WRITE, .len = 100, .remote = 60000});
}

static void both_succeed(void)
{
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
}

/* The end of the fault is the end of the wait: nothing is sent again, nothing refused. */
START_TEST(responder_goes_on_when_told)
{
	slow_memory(&env.b, ODP_FAULT_SYNC);
	two_requests(ops[_i], (struct env_qp){.no_retry = true});
	env_run(2 * MS);
	env_expect_none(env.a.scq);
	resolve();
	env_run(100 * US);
	both_succeed();
	ck_assert_uint_eq(env.b.hca->counter[EMU_CNT_SND_RNR], 0);
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_COMP_RETRY], 0);
}
END_TEST

/* A fault of 30 s, where the timeout is 16.8 ms and 3 retries are allowed */
START_TEST(requester_is_kept_patient)
{
	slow_memory(&env.b, _i / OPS ? ODP_FAULT_RNR : ODP_FAULT_SYNC);
	two_requests(ops[_i % OPS],
		     (struct env_qp){.timeout = 12, .retry_cnt = 3, .rnr_retry = 7});
	env_run(30000 * MS);
	env_expect_none(env.a.scq);
	ck_assert_int_eq(env_state(&env.a), IBV_QPS_RTS);
	/* and not by a flood */
	ck_assert_uint_ge(env.b.hca->counter[EMU_CNT_SND_RNR], 1);
	ck_assert_uint_lt(env.b.hca->counter[EMU_CNT_SND_RNR], 200);
	ck_assert_uint_le(env.a.hca->counter[EMU_CNT_COMP_RETRY], 1);
	resolve();
	env_run(1000 * MS);
	both_succeed();
}
END_TEST

/* Unreliable ones cannot be told; they wait where they are. */
START_TEST(unreliable_requests_wait_where_they_are)
{
	slow_memory(&env.b, ODP_FAULT_SYNC);
	env_connect((struct env_qp){.type = IBV_QPT_UC, .sig_all = true});
	env_fill(env.a.buf, 9000, 1);
	env_recv(&env.b, 1, 20000, 9000);
	env_post(&env.a, (struct env_wr){.id = 1, .op = IBV_WR_SEND, .len = 9000});
	env_run(5000 * MS);
	env_expect_none(env.b.rcq);
	resolve();
	env_run(1 * MS);
	env_expect(env.b.rcq, 1, IBV_WC_SUCCESS);
	ck_assert(!memcmp(env.a.buf, env.b.buf + 20000, 9000));
}
END_TEST

/* What @b says is lost while @deaf, and a SEND comes once only. */
static bool deaf;
static unsigned int sends;

static int a_send_comes_once(struct side *from, const struct roce_hdr *h, uint8_t *data,
			     uint32_t len)
{
	if (from == &env.b)
		return !deaf;
	return (h->opcode & 0x1f) != ROCE_SEND_ONLY || !sends++;
}

/*
 * A requester that asks again only for what was executed before the request that waits, as
 * its window is small, hears of that.
 */
START_TEST(what_was_executed_before_the_one_that_waits_is_answered)
{
	slow_memory(&env.b, ODP_FAULT_SYNC);
	slow.resolved = true;
	deaf = true;
	sends = 0;
	env_connect((struct env_qp){.sig_all = true, .retry_cnt = 3, .timeout = 12});
	env.filter = a_send_comes_once;
	env_recv(&env.b, 1, 20000, 100);
	env_post(&env.a, (struct env_wr){.id = 1,
					 .op = _i ? IBV_WR_ATOMIC_FETCH_AND_ADD
						  : IBV_WR_RDMA_WRITE,
					 .len = 8,
					 .remote = 40000});
	env_run(1 * MS);
	slow.resolved = false;
	env_post(&env.a, (struct env_wr){.id = 2, .op = IBV_WR_SEND, .len = 100});
	env_run(1 * MS);
	ck_assert(waits());
	deaf = false;
	env_run(30 * MS);
	env_expect(env.a.scq, 1, IBV_WC_SUCCESS);
	resolve();
	env_run(1000 * MS);
	env_expect(env.a.scq, 2, IBV_WC_SUCCESS);
}
END_TEST

static unsigned int answers_behind;
static uint8_t atomic[64];
static uint32_t atomic_len;

/* Count what @b says of the atomic; when it is sent again it is kept back. */
static int keep_atomic(struct side *from, const struct roce_hdr *h, uint8_t *data,
		       uint32_t len)
{
	uint8_t op = h->opcode & 0x1f;

	if (from == &env.b) {
		answers_behind += op == ROCE_ATOMIC_ACK;
		return !deaf;
	}
	if (op != ROCE_FETCH_ADD || deaf)
		return 1;
	memcpy(atomic, data, len);
	atomic_len = len;
	return 0;
}

/*
 * A READ that is asked for again is told to wait: the atomic that was sent behind it comes then,
 * and an answer to that would say that the READ's response was lost.
 */
START_TEST(nothing_is_answered_behind_a_read_that_is_not_ready)
{
	struct net_path path = {.src = env.a.ip, .dst = env.b.ip};
	struct net_rx rx = {.path = &path, .data = atomic};

	slow_memory(&env.b, ODP_FAULT_RNR);
	slow.resolved = true;
	deaf = true;
	answers_behind = 0;
	env_connect((struct env_qp){.sig_all = true, .timeout = 12, .min_rnr_timer = 20});
	env.filter = keep_atomic;
	env_post(&env.a,
		 (struct env_wr){
		     .id = 1, .op = IBV_WR_RDMA_READ, .len = 100, .remote = 40000});
	env_post(&env.a, (struct env_wr){.id = 2,
					 .op = IBV_WR_ATOMIC_FETCH_AND_ADD,
					 .len = 8,
					 .remote = 60000});
	env_run(1 * MS);
	ck_assert_uint_eq(answers_behind, 1); /* which is lost */
	slow.resolved = false;
	deaf = false;
	while (!env.b.hca->counter[EMU_CNT_SND_RNR])
		env_run(100 * US);
	rx.len = atomic_len;
	ck_assert_uint_gt(rx.len, 0);
	emu_hca_rx(env.b.hca, &rx);
	env_run(1 * MS);
	ck_assert_uint_eq(answers_behind, 1);
	env.filter = NULL;
	resolve();
	env_run(1000 * MS);
	both_succeed();
}
END_TEST

/* At the requester nothing runs meanwhile. */
START_TEST(requester_waits_until_told)
{
	slow_memory(&env.a, (enum odp_fault_model)(_i / OPS));
	two_requests(ops[_i % OPS], (struct env_qp){.timeout = 12, .no_retry = true});
	env_run(30000 * MS);
	env_expect_none(env.a.scq);
	resolve();
	env_run(1 * MS);
	both_succeed();
	ck_assert_uint_eq(env.a.hca->counter[EMU_CNT_COMP_RETRY], 0);
}
END_TEST

/* ODP_FAULT_DAMMING loses what comes until the fault is over, not for ever. */
START_TEST(damming_ends_with_the_fault)
{
	slow_memory(&env.b, ODP_FAULT_DAMMING);
	two_requests(IBV_WR_RDMA_WRITE, (struct env_qp){.timeout = 12, .retry_cnt = 7});
	env_run(30 * MS);
	resolve();
	env_run(200 * MS);
	both_succeed();
}
END_TEST

/* It may be told for nothing, and waits again. */
START_TEST(told_too_early)
{
	slow_memory(_i % 2 ? &env.a : &env.b, ODP_FAULT_SYNC);
	two_requests(ops[_i / 2], (struct env_qp){.no_retry = true});
	for (int i = 0; i < 3; i++) {
		env_run(1 * MS);
		tell();
		env_run(10 * US);
		env_expect_none(env.a.scq);
		ck_assert(waits());
	}
	resolve();
	env_run(1 * MS);
	both_succeed();
}
END_TEST

/* Reset, errored, destroyed: what waited is not told any more. */
START_TEST(qp_that_goes_away_waits_no_more)
{
	struct side *s = _i % 2 ? &env.a : &env.b;

	slow_memory(s, ODP_FAULT_SYNC);
	two_requests(ops[_i / 4], (struct env_qp){.no_retry = true});
	env_run(1 * MS);
	ck_assert(waits());
	env_modify(s, _i / 2 % 2 ? IBV_QPS_ERR : IBV_QPS_RESET);
	ck_assert(!waits());
	env_run(1 * MS);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("transport_slow");
	TCase *tc = tcase_create("slow");

	tcase_add_checked_fixture(tc, env_setup, env_teardown);
	tcase_set_timeout(tc, 20);
	tcase_add_loop_test(tc, responder_goes_on_when_told, 0, OPS);
	tcase_add_loop_test(tc, requester_is_kept_patient, 0, 2 * OPS);
	tcase_add_test(tc, unreliable_requests_wait_where_they_are);
	tcase_add_loop_test(tc, requester_waits_until_told, 0, 2 * OPS);
	tcase_add_loop_test(tc, what_was_executed_before_the_one_that_waits_is_answered,
			    0, 2);
	tcase_add_test(tc, nothing_is_answered_behind_a_read_that_is_not_ready);
	tcase_add_test(tc, damming_ends_with_the_fault);
	tcase_add_loop_test(tc, told_too_early, 0, 2 * OPS);
	tcase_add_loop_test(tc, qp_that_goes_away_waits_no_more, 0, 4 * OPS);
	suite_add_tcase(s, tc);
	return check_main(s);
}
