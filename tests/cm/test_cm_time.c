/*
 * Description: one CM, and a peer of which there is nothing but the messages that a test
 * writes. When is what sent again, when is hope given up, how long does TIMEWAIT last; and
 * what is said to a DREQ, REP or REQ in each state.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/cm_conn.h"
#include "emu/cm_mad.h"
#include "emu/hca.h"
#include "tests/check_main.h"

#define MS	 1000000ull
#define PEER_ID	 0x7a7a7a
#define PEER_QPN 0x333
#define OUR_QPN	 0x111
/* of the REQ below: twice the packet life time, 4.096 us * 2^16, and 4.096 us * 2^20 */
#define BASE	 (2 * 256 * MS + 4096 * MS)
#define TRIES	 16
#define TIMEWAIT (512 * MS) /* 4.096 us * 2^17: the ACK timeout of both ends */

/* What the CM sent: when and what */
static struct {
	uint64_t at;
	struct cm_msg m;
} wire[64];
static unsigned int sent;
static uint64_t now;
static int events[EMU_CM_EV_SIDR_REP + 1];
static uint64_t event_at[EMU_CM_EV_SIDR_REP + 1];
static struct emu_cm *cm;
static struct emu_cm_port port = {.dev = &port, .guid_be = 77, .ack_delay = 15};
static struct emu_cm_conn *asked; /* by the peer's REQ */
static int verdict;		  /* on it */

static const struct net_path path = {
    .src = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}},
    .dst = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}},
    .ttl = 64};

/* In place of the HCA's, so that no HCA is linked */
int emu_hca_gsi_tx(struct emu_hca *hca, const struct net_path *p, uint32_t dqpn,
		   const uint8_t *mad, uint32_t len, bool again)
{
	ck_assert_uint_lt(sent, 64);
	ck_assert_int_eq(cm_mad_parse(mad, len, &wire[sent].m), 0);
	wire[sent++].at = now;
	return 0;
}

static int on_request(void *arg, void *dev, struct emu_cm_conn *c, const struct cm_msg *m,
		      const struct net_path *p)
{
	emu_cm_set_cookie(c, &cm);
	asked = c;
	return verdict;
}

static void on_event(void *arg, void *cookie, enum emu_cm_event_type type,
		     const struct cm_msg *m)
{
	events[type]++;
	event_at[type] = now;
}

static const struct emu_cm_ops ops = {.request = on_request, .event = on_event};

static void setup(void)
{
	struct emu_cm_cfg cfg = {.slot = 3, .seed = 5};

	now = 1000 * MS;
	sent = 0;
	asked = NULL;
	verdict = 0;
	memset(events, 0, sizeof(events));
	memset(event_at, 0, sizeof(event_at));
	ck_assert_int_eq(emu_cm_create(&cfg, &ops, NULL, &cm), 0);
	emu_cm_set_time(cm, now);
}

static void teardown(void)
{
	emu_cm_destroy(cm);
}

/* Let time pass from timer to timer */
static void pass(uint64_t ns)
{
	uint64_t end = now + ns, next;

	while ((next = emu_cm_run(cm)) <= end) {
		now = next;
		emu_cm_set_time(cm, now);
	}
	now = end;
	emu_cm_set_time(cm, now);
	emu_cm_run(cm);
}

static void hear(struct cm_msg m)
{
	struct net_path from = {.src = path.dst, .dst = path.src, .ttl = 64};
	uint8_t mad[CM_MAD_LEN];

	cm_mad_build(mad, &m);
	emu_cm_rx(cm, &port, &from, mad, CM_MAD_LEN);
}

static struct emu_cm_conn *ask(void)
{
	struct emu_cm_req r = {.service_id = 1,
			       .qp_type = IBV_QPT_RC,
			       .qpn = OUR_QPN,
			       .psn = 1,
			       .retry_count = 7,
			       .rnr_retry = 7,
			       .path = path,
			       .mtu = IBV_MTU_1024,
			       .lifetime = 16};
	struct emu_cm_conn *c;

	ck_assert_int_eq(emu_cm_connect(cm, &port, &cm, &r, &c), 0);
	return c;
}

static uint32_t our_id(void)
{
	return wire[0].m.local_id;
}

static struct cm_msg about(enum cm_attr attr)
{
	return (struct cm_msg){
	    .attr = attr, .tid = 99, .local_id = PEER_ID, .remote_id = our_id()};
}

static struct cm_msg rep(void)
{
	struct cm_msg m = about(CM_REP);

	m.rep =
	    (struct cm_rep){.ca_guid_be = 88, .qpn = PEER_QPN, .psn = 2, .ack_delay = 15};
	return m;
}

static struct cm_msg dreq(uint32_t qpn)
{
	struct cm_msg m = about(CM_DREQ);

	m.dreq.remote_qpn = qpn;
	return m;
}

static struct emu_cm_conn *connected(void)
{
	struct emu_cm_conn *c = ask();

	hear(rep());
	ck_assert_int_eq(emu_cm_rtu(c), 0);
	ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
	pass(10 * MS);
	return c;
}

static struct cm_msg peer_req(void)
{
	return (struct cm_msg){.attr = CM_REQ,
			       .tid = 42,
			       .local_id = PEER_ID,
			       .req = {.service_id = 1,
				       .ca_guid_be = 88,
				       .qpn = PEER_QPN,
				       .remote_cm_timeout = 20,
				       .local_cm_timeout = 20,
				       .mtu = IBV_MTU_1024,
				       .pkey = 0xffff,
				       .max_cm_retries = 15,
				       .path = {.local_gid = path.dst,
						.remote_gid = path.src,
						.hop_limit = 64,
						.ack_timeout = 17}}};
}

/* Messages @first on: each again after an interval that doubles up to @base */
static void expect_back_off(unsigned int first, enum cm_attr attr, uint64_t base,
			    uint64_t total)
{
	uint64_t interval = 200 * MS, start = wire[first].at;

	for (unsigned int i = first + 1; i < sent; i++) {
		ck_assert_int_eq(wire[i].m.attr, attr);
		ck_assert_uint_eq(wire[i].at - wire[i - 1].at, interval);
		interval = 2 * interval < base ? 2 * interval : base;
	}
	/* and one more would have been too late */
	ck_assert_uint_ge(wire[sent - 1].at + interval, start + total);
	ck_assert_uint_lt(wire[sent - 1].at, start + total);
	/* 0.2 + 0.4 + 0.8 + 1.6 + 3.2 s, then every response timeout */
	ck_assert_uint_ge(sent - first, 1 + 5 + (total - 6200 * MS) / base);
}

/* --- back-off --------------------------------------------------------------------- */

START_TEST(a_req_is_repeated_ever_more_slowly_and_given_up_in_time)
{
	struct emu_cm_conn *c = ask();

	pass(TRIES * BASE - 1);
	ck_assert_int_eq(events[EMU_CM_EV_REQ_ERROR], 0);
	expect_back_off(0, CM_REQ, BASE, TRIES * BASE);
	pass(1);
	ck_assert_int_eq(events[EMU_CM_EV_REQ_ERROR], 1);
	ck_assert_int_eq(c->state, EMU_CM_IDLE);
	emu_cm_release(c);
	ck_assert_uint_eq(cm->count, 0);
}
END_TEST

START_TEST(a_dreq_is_repeated_and_then_timewait_is_waited_out)
{
	struct emu_cm_conn *c = connected();
	unsigned int first = sent;

	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	ck_assert_uint_eq(wire[first].m.dreq.remote_qpn, PEER_QPN);
	pass(TRIES * BASE - 1);
	ck_assert_int_eq(events[EMU_CM_EV_DREQ_ERROR], 0);
	expect_back_off(first, CM_DREQ, BASE, TRIES * BASE);
	pass(1);
	ck_assert_int_eq(events[EMU_CM_EV_DREQ_ERROR], 1);
	ck_assert_int_eq(c->state, EMU_CM_TIMEWAIT);
	pass(TIMEWAIT - 1);
	ck_assert_int_eq(events[EMU_CM_EV_TIMEWAIT_EXIT], 0);
	pass(1);
	ck_assert_int_eq(events[EMU_CM_EV_TIMEWAIT_EXIT], 1);
	emu_cm_release(c);
	ck_assert_uint_eq(cm->count, 0);
}
END_TEST

START_TEST(a_rep_is_repeated_until_there_is_an_rtu)
{
	struct emu_cm_rep r = {.qpn = OUR_QPN, .psn = 1};
	struct cm_msg rtu;

	hear(peer_req());
	ck_assert_int_eq(emu_cm_reply(asked, &r), 0);
	pass(30000 * MS);
	/* the peer's response timeout */
	expect_back_off(0, CM_REP, 4096 * MS, 30000 * MS);
	rtu = about(CM_RTU);
	hear(rtu);
	ck_assert_int_eq(events[EMU_CM_EV_ESTABLISHED], 1);
	sent = 1;
	pass(100000 * MS);
	ck_assert_uint_eq(sent, 1);
	hear(rtu);
	ck_assert_int_eq(events[EMU_CM_EV_ESTABLISHED], 1);
}
END_TEST

START_TEST(a_rep_without_an_rtu_is_given_up_in_time)
{
	struct emu_cm_rep r = {.qpn = OUR_QPN, .psn = 1};

	hear(peer_req());
	ck_assert_int_eq(emu_cm_reply(asked, &r), 0);
	pass(TRIES * 4096 * MS - 1);
	ck_assert_int_eq(events[EMU_CM_EV_REP_ERROR], 0);
	pass(1);
	ck_assert_int_eq(events[EMU_CM_EV_REP_ERROR], 1);
	emu_cm_release(asked);
}
END_TEST

/* 12.6.6: who is told to wait does so, and then begins anew */
START_TEST(an_mra_stops_the_repetitions_for_the_time_that_it_asks_for)
{
	uint64_t wait = 65536 * MS + TIMEWAIT; /* 4.096 us * 2^24, and the ACK timeout */
	struct emu_cm_conn *c = ask();
	struct cm_msg mra = about(CM_MRA);

	mra.mra = (struct cm_mra){.answered = _i ? CM_ANSWERED_REQ : CM_ANSWERED_REP,
				  .service_timeout = 24};
	pass(100 * MS);
	hear(mra);
	ck_assert_int_eq(c->state, _i ? EMU_CM_MRA_REQ_RCVD : EMU_CM_REQ_SENT);
	if (!_i)
		return; /* it is about what was never sent */
	pass(wait - 1);
	ck_assert_uint_eq(sent, 1);
	pass(1);
	ck_assert_uint_eq(sent, 2);
	ck_assert_int_eq(c->state, EMU_CM_REQ_SENT);
	pass(BASE - 1);
	ck_assert_uint_eq(sent, 2);
	pass(1);
	ck_assert_uint_eq(sent, 3);
	pass((TRIES - 1) * BASE);
	ck_assert_int_eq(events[EMU_CM_EV_REQ_ERROR], 1);
	ck_assert_uint_eq(event_at[EMU_CM_EV_REQ_ERROR],
			  wire[0].at + 100 * MS + wait + TRIES * BASE);
}
END_TEST

/* A duplicate gets an MRA while the owner thinks; then the answer goes out three times */
START_TEST(who_was_told_to_wait_gets_the_answer_thrice)
{
	unsigned int i;

	hear(peer_req());
	ck_assert_uint_eq(sent, 0);
	hear(peer_req());
	ck_assert_uint_eq(sent, 1);
	ck_assert_int_eq(wire[0].m.attr, CM_MRA);
	ck_assert_int_eq(wire[0].m.mra.answered, CM_ANSWERED_REQ);
	ck_assert_int_eq(emu_cm_reject(asked, CM_REJ_CONSUMER, NULL, 0), 0);
	pass(1000 * MS);
	ck_assert_uint_eq(sent, 4);
	for (i = 1; i < 4; i++) {
		ck_assert_int_eq(wire[i].m.attr, CM_REJ);
		ck_assert_uint_eq(wire[i].at - wire[1].at, (i - 1) * 50 * MS);
	}
	/* while the owner keeps it, it answers */
	pass(60000 * MS);
	hear(peer_req());
	ck_assert_uint_eq(sent, 5);
	ck_assert_int_eq(wire[4].m.attr, CM_REJ);
	ck_assert_uint_eq(wire[4].m.tid, 42);
	emu_cm_release(asked);
	pass(5000 * MS - 1);
	ck_assert_uint_eq(cm->count, 1);
	pass(1);
	ck_assert_uint_eq(cm->count, 0);
}
END_TEST

/* A refusal is given again for five seconds, though nobody here has the connection */
START_TEST(a_refusal_is_remembered_for_duplicates)
{
	verdict = -EPERM;
	hear(peer_req());
	ck_assert_uint_eq(sent, 1);
	ck_assert_int_eq(wire[0].m.rej.reason, CM_REJ_CONSUMER);
	pass(5000 * MS - 1);
	hear(peer_req());
	ck_assert_uint_eq(sent, 2);
	ck_assert_int_eq(wire[1].m.attr, CM_REJ);
	ck_assert_uint_eq(wire[1].m.local_id, wire[0].m.local_id);
	pass(1);
	ck_assert_uint_eq(cm->count, 0);
}
END_TEST

/* --- the end ---------------------------------------------------------------------- */

START_TEST(a_dreq_for_another_qp_is_not_ours)
{
	struct emu_cm_conn *c = connected();
	struct cm_msg m = dreq(OUR_QPN);
	unsigned int before = sent;

	hear(dreq(OUR_QPN + 1));
	m.local_id++;
	hear(m);
	ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
	ck_assert_int_eq(events[EMU_CM_EV_DREQ], 0);
	/* of the second nobody knows: it is told that it is over */
	ck_assert_uint_eq(sent, before + 1);
	ck_assert_int_eq(wire[before].m.attr, CM_DREP);
	ck_assert_uint_eq(wire[before].m.remote_id, PEER_ID + 1);
}
END_TEST

/* 12.6.9: a DREQ begins an exchange; it is not part of that which made the connection */
START_TEST(a_dreq_is_a_transaction_of_its_own)
{
	struct emu_cm_rep r = {.qpn = OUR_QPN, .psn = 1};

	hear(peer_req());
	ck_assert_int_eq(emu_cm_reply(asked, &r), 0);
	ck_assert_uint_eq(wire[0].m.tid, 42);
	hear(about(CM_RTU));
	ck_assert_int_eq(emu_cm_disconnect(asked), 0);
	ck_assert_int_eq(wire[1].m.attr, CM_DREQ);
	ck_assert_uint_ne(wire[1].m.tid, 42);
	/* and there is no way back */
	ck_assert_int_eq(emu_cm_reply(asked, &r), -EINVAL);
	ck_assert_int_eq(emu_cm_rtu(asked), -EINVAL);
	ck_assert_int_eq(emu_cm_reject(asked, CM_REJ_CONSUMER, NULL, 0), -EINVAL);
	ck_assert_int_eq(emu_cm_disconnect(asked), -EINVAL);
	ck_assert_int_eq(asked->state, EMU_CM_DREQ_SENT);
	ck_assert_uint_eq(sent, 2);
}
END_TEST

/* 12.9.8.4: in TIMEWAIT a DREQ is answered again, with its own transaction */
START_TEST(a_dreq_is_answered_again_while_timewait_lasts)
{
	struct emu_cm_conn *c = connected();
	struct cm_msg m = dreq(OUR_QPN);
	unsigned int before = sent;

	hear(m);
	ck_assert_int_eq(events[EMU_CM_EV_DREQ], 1);
	ck_assert_uint_eq(sent, before);
	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	ck_assert_int_eq(c->state, EMU_CM_TIMEWAIT);
	pass(TIMEWAIT / 2);
	m.tid = 1234;
	hear(m);
	ck_assert_uint_eq(sent, before + 2);
	ck_assert_int_eq(wire[before + 1].m.attr, CM_DREP);
	ck_assert_uint_eq(wire[before].m.tid, 99);
	ck_assert_uint_eq(wire[before + 1].m.tid, 1234);
	ck_assert_int_eq(events[EMU_CM_EV_DREQ], 1);
	/* which begins anew: the peer's packets may be as old as its DREQ */
	pass(TIMEWAIT - 1);
	ck_assert_int_eq(events[EMU_CM_EV_TIMEWAIT_EXIT], 0);
	pass(1);
	ck_assert_int_eq(events[EMU_CM_EV_TIMEWAIT_EXIT], 1);
}
END_TEST

START_TEST(dreqs_that_cross_end_it_once)
{
	struct emu_cm_conn *c = connected();
	unsigned int before = sent;

	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	hear(dreq(OUR_QPN));
	ck_assert_uint_eq(sent, before + 2);
	ck_assert_int_eq(wire[before + 1].m.attr, CM_DREP);
	ck_assert_int_eq(c->state, EMU_CM_TIMEWAIT);
	hear(about(CM_DREP));
	ck_assert_int_eq(events[EMU_CM_EV_DREQ] + events[EMU_CM_EV_DREP], 1);
	pass(TIMEWAIT);
	ck_assert_int_eq(events[EMU_CM_EV_TIMEWAIT_EXIT], 1);
}
END_TEST

/* A DREP that answers nothing, and one from somebody else, change nothing */
START_TEST(a_drep_ends_only_what_a_dreq_began)
{
	struct emu_cm_conn *c = connected();
	struct cm_msg m = about(CM_DREP);

	hear(m);
	ck_assert_int_eq(c->state, EMU_CM_ESTABLISHED);
	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	m.local_id++;
	hear(m);
	ck_assert_int_eq(c->state, EMU_CM_DREQ_SENT);
	m.local_id--;
	hear(m);
	ck_assert_int_eq(events[EMU_CM_EV_DREP], 1);
	ck_assert_int_eq(c->state, EMU_CM_TIMEWAIT);
	hear(m);
	ck_assert_int_eq(events[EMU_CM_EV_DREP], 1);
}
END_TEST

/* A peer that says its ACKs take an hour does not keep a QP for so long */
START_TEST(timewait_is_bounded)
{
	struct cm_msg m;
	struct emu_cm_conn *c = ask();

	m = rep();
	m.rep.ack_delay = 31;
	hear(m);
	ck_assert_int_eq(emu_cm_rtu(c), 0);
	hear(dreq(OUR_QPN));
	ck_assert_int_eq(emu_cm_disconnect(c), 0);
	pass(20000 * MS - 1);
	ck_assert_int_eq(events[EMU_CM_EV_TIMEWAIT_EXIT], 0);
	pass(1);
	ck_assert_int_eq(events[EMU_CM_EV_TIMEWAIT_EXIT], 1);
}
END_TEST

/* 12.7.34: there and back, and the peer's delay, as a power of two */
START_TEST(the_ack_timeout_covers_the_way_and_the_delay)
{
	static const struct {
		uint8_t delay, lifetime, timeout;
	} cases[] = {
	    {0, 16, 17},  {15, 16, 17}, {16, 16, 18}, {17, 16, 18},
	    {18, 16, 19}, {20, 16, 20}, {31, 16, 31}, {0, 31, 31},
	};
	struct emu_cm_port p = {
	    .dev = &port, .guid_be = 77, .ack_delay = cases[_i].delay};
	struct emu_cm_req r = {.service_id = 1,
			       .qp_type = IBV_QPT_RC,
			       .path = path,
			       .mtu = IBV_MTU_1024,
			       .lifetime = cases[_i].lifetime};
	struct emu_cm_conn *c;

	ck_assert_int_eq(emu_cm_connect(cm, &p, &cm, &r, &c), 0);
	ck_assert_uint_eq(wire[0].m.req.path.ack_timeout, cases[_i].timeout);
}
END_TEST

/* --- messages of nobody ----------------------------------------------------------- */

START_TEST(a_rep_again_gets_the_rtu_again)
{
	unsigned int before;

	connected();
	before = sent;
	hear(rep());
	ck_assert_uint_eq(sent, before + 1);
	ck_assert_int_eq(wire[before].m.attr, CM_RTU);
	ck_assert_int_eq(events[EMU_CM_EV_REP], 1);
}
END_TEST

/* A REP for an ID that we might have given is refused; for another process's it is not */
START_TEST(a_rep_for_an_unknown_id_of_ours_is_refused)
{
	struct cm_msg m;

	ask();
	m = rep();
	m.remote_id++;
	hear(m);
	ck_assert_uint_eq(sent, 2);
	ck_assert_int_eq(wire[1].m.attr, CM_REJ);
	ck_assert_int_eq(wire[1].m.rej.reason, CM_REJ_INVALID_COMM_ID);
	ck_assert_int_eq(wire[1].m.rej.answered, CM_ANSWERED_REP);
	m.remote_id += 1u << EMU_CM_ID_BITS;
	hear(m);
	ck_assert_uint_eq(sent, 2);
}
END_TEST

START_TEST(a_req_for_a_transport_that_there_is_not_is_refused)
{
	struct cm_msg m = peer_req();

	m.req.transport = CM_TRANSPORT_RD;
	hear(m);
	ck_assert_ptr_null(asked);
	ck_assert_uint_eq(sent, 1);
	ck_assert_int_eq(wire[0].m.rej.reason, CM_REJ_INVALID_TRANSPORT_TYPE);
	ck_assert_uint_eq(cm->count, 0);
}
END_TEST

/* --- the connections themselves --------------------------------------------------- */

/* All of the 2^22 IDs of a process come by, but for the one that is in use */
START_TEST(an_id_in_use_is_not_given_again)
{
	struct emu_cm_conn *held = cm_conn_new(cm, &port), *c;

	for (uint32_t i = 0; i < 2u << EMU_CM_ID_BITS; i++) {
		c = cm_conn_new(cm, &port);
		if (!c || c->local_id == held->local_id || !c->local_id)
			ck_abort_msg("ID %#x is given again", held->local_id);
		cm_conn_free(c);
	}
	cm_conn_free(held);
}
END_TEST

/* Whatever comes and goes: the next deadline is the earliest */
START_TEST(the_earliest_deadline_comes_first)
{
	struct emu_cm_conn *c[100] = {0};
	uint64_t earliest;

	srand(1);
	for (unsigned int i = 0; i < 20000; i++) {
		unsigned int k = (unsigned int)rand() % 100;

		/* the first goes often, so that what is below it comes to the top */
		if (rand() % 2) {
			for (k = 0; k < 99 && c[k] != cm_conn_first(cm); k++)
				;
		}
		if (c[k] && rand() % 2) {
			cm_conn_free(c[k]);
			c[k] = NULL;
		} else {
			c[k] = c[k] ? c[k] : cm_conn_new(cm, &port);
			cm_conn_arm(c[k], rand() % 5 ? (uint64_t)rand() % 1000
						     : EMU_CM_NO_DEADLINE);
		}
		earliest = EMU_CM_NO_DEADLINE;
		for (k = 0; k < 100; k++) {
			if (c[k] && c[k]->deadline < earliest)
				earliest = c[k]->deadline;
		}
		if (earliest == EMU_CM_NO_DEADLINE
			? cm_conn_first(cm) != NULL
			: cm_conn_first(cm)->deadline != earliest)
			ck_abort_msg("step %u: another deadline comes first", i);
	}
}
END_TEST

static TCase *back_off(void)
{
	TCase *t = tcase_create("back-off");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_req_is_repeated_ever_more_slowly_and_given_up_in_time);
	tcase_add_test(t, a_dreq_is_repeated_and_then_timewait_is_waited_out);
	tcase_add_test(t, a_rep_is_repeated_until_there_is_an_rtu);
	tcase_add_test(t, a_rep_without_an_rtu_is_given_up_in_time);
	tcase_add_loop_test(t, an_mra_stops_the_repetitions_for_the_time_that_it_asks_for,
			    0, 2);
	tcase_add_test(t, a_refusal_is_remembered_for_duplicates);
	tcase_add_test(t, who_was_told_to_wait_gets_the_answer_thrice);
	return t;
}

int main(void)
{
	Suite *s = suite_create("cm_time");
	TCase *t = tcase_create("the end");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_dreq_for_another_qp_is_not_ours);
	tcase_add_test(t, a_dreq_is_a_transaction_of_its_own);
	tcase_add_test(t, a_dreq_is_answered_again_while_timewait_lasts);
	tcase_add_test(t, dreqs_that_cross_end_it_once);
	tcase_add_test(t, a_drep_ends_only_what_a_dreq_began);
	tcase_add_test(t, timewait_is_bounded);
	tcase_add_loop_test(t, the_ack_timeout_covers_the_way_and_the_delay, 0, 8);
	tcase_add_test(t, a_rep_again_gets_the_rtu_again);
	tcase_add_test(t, a_rep_for_an_unknown_id_of_ours_is_refused);
	tcase_add_test(t, a_req_for_a_transport_that_there_is_not_is_refused);
	tcase_set_timeout(t, 30);
	tcase_add_test(t, an_id_in_use_is_not_given_again);
	tcase_add_test(t, the_earliest_deadline_comes_first);
	suite_add_tcase(s, back_off());
	suite_add_tcase(s, t);
	return check_main(s);
}
