/*
 * Description: the QP state table, every transition of every kind of QP, through
 * emu_qp_modify().
 *
 * The expectation is a table of its own, written after the tables of ibv_modify_qp(3) and
 * IBTA 10.3.1: a line per kind and transition with required and optional attributes, but
 * without alternate paths ("alt"), which RoCE does not have, and without what is ignored. For
 * each pair of states: what is listed passes, each required attribute left out fails,
 * each attribute that is not listed fails, and random subsets do what the table says.
 */
#include "objects_fake.h"
#include "tests/check_main.h"

#include <stdlib.h>

struct line {
	const char *kinds, *from, *to, *need, *may;
};

static const struct line table[] = {
    /* kinds: c RC, u UC, d UD, s XRC_SEND, r XRC_RECV */
    {"cusr", "RESET", "INIT", "pkey port access", ""},
    {"d", "RESET", "INIT", "pkey port qkey", ""},
    {"cusr", "INIT", "INIT", "", "pkey port access"},
    {"d", "INIT", "INIT", "", "pkey port qkey"},
    {"cr", "INIT", "RTR", "av mtu dqpn rqpsn maxdest rnrtimer", "access pkey"},
    {"us", "INIT", "RTR", "av mtu dqpn rqpsn", "access pkey"},
    {"d", "INIT", "RTR", "", "pkey qkey"},
    {"c", "RTR", "RTS", "sqpsn timeout retry rnrretry maxrd", "cur access rnrtimer mig"},
    {"s", "RTR", "RTS", "sqpsn timeout retry rnrretry maxrd", "cur access mig"},
    {"r", "RTR", "RTS", "sqpsn timeout", "cur access rnrtimer mig"},
    {"u", "RTR", "RTS", "sqpsn", "cur access mig"},
    {"d", "RTR", "RTS", "sqpsn", "cur qkey"},
    {"cr", "RTS", "RTS", "", "cur access mig rnrtimer"},
    {"us", "RTS", "RTS", "", "cur access mig"},
    {"d", "RTS", "RTS", "", "cur qkey"},
    {"cudsr", "RTS", "SQD", "", "notify"},
    {"cr", "SQD", "RTS", "", "cur access rnrtimer mig"},
    {"us", "SQD", "RTS", "", "cur access mig"},
    {"d", "SQD", "RTS", "", "cur qkey"},
    {"c", "SQD", "SQD", "",
     "port av timeout retry rnrretry maxrd maxdest access pkey rnrtimer mig"},
    {"s", "SQD", "SQD", "", "port av timeout retry rnrretry maxrd access pkey mig"},
    {"r", "SQD", "SQD", "", "port av timeout maxdest access pkey rnrtimer mig"},
    {"u", "SQD", "SQD", "", "av access pkey mig"},
    {"d", "SQD", "SQD", "", "pkey qkey"},
    {"u", "SQE", "RTS", "", "cur access"},
    {"d", "SQE", "RTS", "", "cur qkey"},
    {"csr", "SQE", "RTS", "", ""},
    {"cudsr", "RESET", "RESET", "", ""},
    {"cudsr", "INIT", "RESET", "", ""},
    {"cudsr", "RTR", "RESET", "", ""},
    {"cudsr", "RTS", "RESET", "", ""},
    {"cudsr", "SQD", "RESET", "", ""},
    {"cudsr", "SQE", "RESET", "", ""},
    {"cudsr", "ERR", "RESET", "", ""},
    {"cudsr", "INIT", "ERR", "", ""},
    {"cudsr", "RTR", "ERR", "", ""},
    {"cudsr", "RTS", "ERR", "", ""},
    {"cudsr", "SQD", "ERR", "", ""},
    {"cudsr", "SQE", "ERR", "", ""},
    {"cudsr", "ERR", "ERR", "", ""},
};

static const struct {
	const char *name;
	int bit;
} names[] = {
    {"cur", IBV_QP_CUR_STATE},
    {"notify", IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {"access", IBV_QP_ACCESS_FLAGS},
    {"pkey", IBV_QP_PKEY_INDEX},
    {"port", IBV_QP_PORT},
    {"qkey", IBV_QP_QKEY},
    {"av", IBV_QP_AV},
    {"mtu", IBV_QP_PATH_MTU},
    {"timeout", IBV_QP_TIMEOUT},
    {"retry", IBV_QP_RETRY_CNT},
    {"rnrretry", IBV_QP_RNR_RETRY},
    {"rqpsn", IBV_QP_RQ_PSN},
    {"maxrd", IBV_QP_MAX_QP_RD_ATOMIC},
    {"alt", IBV_QP_ALT_PATH},
    {"rnrtimer", IBV_QP_MIN_RNR_TIMER},
    {"sqpsn", IBV_QP_SQ_PSN},
    {"maxdest", IBV_QP_MAX_DEST_RD_ATOMIC},
    {"mig", IBV_QP_PATH_MIG_STATE},
    {"cap", IBV_QP_CAP},
    {"dqpn", IBV_QP_DEST_QPN},
};
#define NAMES (int)(sizeof(names) / sizeof(names[0]))

static const char *const states[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

static const struct {
	char letter;
	enum ibv_qp_type type;
} kinds[] = {{'c', IBV_QPT_RC},
	     {'u', IBV_QPT_UC},
	     {'d', IBV_QPT_UD},
	     {'s', IBV_QPT_XRC_SEND},
	     {'r', IBV_QPT_XRC_RECV}};

static int parse(const char *list)
{
	char buf[128], *save, *word;
	int mask = 0;

	ck_assert_uint_lt(strlen(list), sizeof(buf));
	strcpy(buf, list);
	for (word = strtok_r(buf, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		int i = 0;

		while (i < NAMES && strcmp(names[i].name, word))
			i++;
		ck_assert_msg(i < NAMES, "%s", word);
		mask |= names[i].bit;
	}
	return mask;
}

static const struct line *lookup(char kind, int from, int to)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (strchr(table[i].kinds, kind) &&
		    !strcmp(table[i].from, states[from]) &&
		    !strcmp(table[i].to, states[to]))
			return &table[i];
	return NULL;
}

/* What belongs to the other half of an XRC connection may be given, and means nothing. */
static int of_other_half(char kind)
{
	if (kind == 's')
		return parse("maxdest rnrtimer");
	return kind == 'r' ? parse("maxrd retry rnrretry") : 0;
}

static struct emu_pd *pd;
static struct emu_cq *cq;
static struct emu_xrcd *xrcd;

static struct emu_qp *make(enum ibv_qp_type type)
{
	struct emu_qp_init init = {
	    .type = type, .pd = pd, .send_cq = cq, .recv_cq = cq, .xrcd = xrcd};
	struct emu_qp *qp;

	ck_assert_int_eq(emu_qp_create(fake.hca, &init, &qp), 0);
	return qp;
}

/*
 * A modify from a QP that is put in @from; must leave it in @to, or in @from after an
 * error
 */
static void expect(struct emu_qp *qp, int from, int to, int mask, bool ok)
{
	struct ibv_qp_attr attr = fake_qp_attr();
	int ret;

	qp->state = qp->attr.qp_state = from;
	qp->sq_draining = false;
	attr.qp_state = to;
	attr.cur_qp_state = from;
	ret = emu_qp_modify(qp, &attr, mask | IBV_QP_STATE);
	ck_assert_msg(ret == (ok ? 0 : -EINVAL),
		      "type %d %s -> %s mask %#x: %d, expected %s", qp->type,
		      states[from], states[to], mask, ret, ok ? "ok" : "EINVAL");
	ck_assert_int_eq(qp->state, ok ? to : from);
	/* not naming the state asks for the one that is */
	if (from == to) {
		qp->state = from;
		ck_assert_int_eq(emu_qp_modify(qp, &attr, mask), ok ? 0 : -EINVAL);
	}
}

static void check_transition(struct emu_qp *qp, char kind, int from, int to)
{
	const struct line *l = lookup(kind, from, to);
	int need = l ? parse(l->need) : 0;
	int may = of_other_half(kind) | (l ? parse(l->may) : 0);
	unsigned int seed = (unsigned int)(from * 64 + to);

	expect(qp, from, to, need, l);
	expect(qp, from, to, need | may, l);
	for (int i = 0; i < NAMES; i++) {
		int bit = names[i].bit;

		if (need & bit)
			expect(qp, from, to, need & ~bit, false);
		else
			expect(qp, from, to, need | bit, l && (may & bit));
	}
	for (int n = 0; n < 300; n++) {
		int mask = need;

		for (int i = 0; i < NAMES; i++)
			if (rand_r(&seed) % 8 == 0)
				mask ^= names[i].bit;
		expect(qp, from, to, mask,
		       l && (mask & need) == need && !(mask & ~(need | may)));
	}
}

START_TEST(each_transition_is_as_the_table_says)
{
	struct emu_qp *qp;

	fake_setup();
	pd = fake_pd();
	cq = fake_cq(16);
	ck_assert_int_eq(emu_xrcd_create(fake.hca, &xrcd), 0);
	qp = make(kinds[_i].type);
	for (int from = 0; from <= IBV_QPS_ERR; from++)
		for (int to = 0; to <= IBV_QPS_ERR; to++)
			check_transition(qp, kinds[_i].letter, from, to);
	ck_assert_int_eq(emu_qp_destroy(qp), 0);
	emu_xrcd_destroy(xrcd);
	emu_cq_destroy(cq);
	emu_pd_destroy(pd);
	fake_teardown();
}
END_TEST

START_TEST(nonsense_changes_no_state)
{
	struct ibv_qp_attr attr = fake_qp_attr();
	struct emu_qp *qp;

	fake_setup();
	pd = fake_pd();
	cq = fake_cq(16);
	qp = fake_qp(IBV_QPT_RC, pd, cq);
	for (int s = IBV_QPS_ERR + 1; s < 300; s += 7) {
		attr.qp_state = s;
		ck_assert_int_eq(emu_qp_modify(qp, &attr, IBV_QP_STATE), -EINVAL);
	}
	attr.qp_state = -1;
	ck_assert_int_eq(emu_qp_modify(qp, &attr, IBV_QP_STATE), -EINVAL);
	ck_assert_int_eq(emu_qp_modify(qp, &attr, IBV_QP_RATE_LIMIT), -EOPNOTSUPP);

	/* the current state that is asserted is wrong */
	fake_qp_to(qp, IBV_QPS_RTS);
	attr.qp_state = IBV_QPS_RTS;
	attr.cur_qp_state = IBV_QPS_RTR;
	ck_assert_int_eq(emu_qp_modify(qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE),
			 -EINVAL);
	emu_qp_destroy(qp);
	emu_cq_destroy(cq);
	emu_pd_destroy(pd);
	fake_teardown();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("qp_state");
	TCase *tc = tcase_create("qp_state");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, each_transition_is_as_the_table_says, 0, 5);
	tcase_add_test(tc, nonsense_changes_no_state);
	suite_add_tcase(s, tc);
	return check_main(s);
}
