/*
 * objects_fake.c - see objects_fake.h
 */
#include "objects_fake.h"
#include "tests/emu/reg_mr.h"

#include <stdio.h>
#include <stdlib.h>

struct fake fake;

/* --- struct emu_ops --------------------------------------------------------------- */

static int qpn_lease(void *arg, uint32_t *base, uint32_t *count)
{
	if (fake.leases-- <= 0)
		return -EAGAIN;
	*base = fake.lease;
	*count = 64;
	fake.lease += 4096 * 3;
	return 0;
}

static void *ring_alloc(void *arg, void *owner, size_t bytes, uint64_t *offset)
{
	if (fake.ring_limit == 0)
		return NULL;
	fake.ring_limit--;
	*offset = 4096u * (unsigned int)++fake.rings;
	return calloc(1, bytes);
}

static void ring_free(void *arg, void *owner, void *ring, size_t bytes, uint64_t offset)
{
	fake.rings--;
	free(ring);
}

static void comp_event(void *arg, void *cookie)
{
	fake.comp++;
	fake.comp_cookie = cookie;
}

static void async_event(void *arg, enum ibv_event_type type, void *cookie)
{
	ck_assert_int_lt(fake.events, FAKE_EVENTS);
	fake.type[fake.events] = type;
	fake.cookie[fake.events++] = cookie;
}

static int mcast(void *arg, const struct net_ip *group, bool join)
{
	if (join && fake.mcast_error)
		return fake.mcast_error;
	if (join)
		fake.mcast_in++;
	else
		fake.mcast_out++;
	return 0;
}

static void trace(void *arg, const char *line)
{
	snprintf(fake.line, sizeof(fake.line), "%s", line);
}

static const struct emu_ops ops = {
    .qpn_lease = qpn_lease,
    .ring_alloc = ring_alloc,
    .ring_free = ring_free,
    .comp_event = comp_event,
    .async_event = async_event,
    .mcast = mcast,
    .trace = trace,
};

/* --- the transport ---------------------------------------------------------------- */

static void note(const char *what)
{
	fake.tr = what;
	fake.tr_calls++;
}

int tr_hca_init(struct emu_hca *hca)
{
	return 0;
}

void tr_hca_fini(struct emu_hca *hca)
{
}

void tr_port_repair_at(struct emu_hca *hca, uint64_t when)
{
	fake.repair_at = when;
}

void tr_show_in(struct emu_hca *hca)
{
}

int tr_qp_init(struct emu_qp *qp)
{
	note("init");
	return 0;
}

void tr_qp_fini(struct emu_qp *qp)
{
	note("fini");
}

void tr_qp_reset(struct emu_qp *qp)
{
	note("reset");
}

void tr_qp_to_rtr(struct emu_qp *qp)
{
	note("rtr");
}

void tr_qp_to_rts(struct emu_qp *qp)
{
	note("rts");
}

void tr_qp_to_sqd(struct emu_qp *qp)
{
	note("sqd");
}

void tr_qp_to_error(struct emu_qp *qp)
{
	note("error");
}

void tr_qp_attr_changed(struct emu_qp *qp)
{
	note("attr");
}

void tr_qp_doorbell(struct emu_qp *qp)
{
	note("doorbell");
}

void tr_qp_query_psn(const struct emu_qp *qp, uint32_t *sq_psn, uint32_t *rq_psn)
{
	*sq_psn = 0x111;
	*rq_psn = 0x222;
}

bool tr_run(struct emu_hca *hca)
{
	return false;
}

uint64_t tr_deadline(const struct emu_hca *hca)
{
	return EMU_NO_DEADLINE;
}

bool tr_timer_due(const struct emu_hca *hca)
{
	return false;
}

/* --- memory ----------------------------------------------------------------------- */

int odp_mr_create(struct odp_domain *dom, const struct odp_mr_attr *attr,
		  struct odp_mr **out)
{
	if (fake.odp_error)
		return fake.odp_error;
	*out = calloc(1, sizeof(**out));
	(*out)->attr = fake.last_attr = *attr;
	(*out)->refs = 1;
	fake.mrs++;
	return 0;
}

uint32_t odp_mr_number(const struct odp_mr *mr)
{
	return 1;
}

struct odp_mr *odp_mr_get(struct odp_mr *mr)
{
	mr->refs++;
	return mr;
}

void odp_mr_put(struct odp_mr *mr)
{
	if (--mr->refs)
		return;
	fake.mrs--;
	free(mr);
}

void odp_mr_set_label(struct odp_mr *mr, uint32_t key, const char *name)
{
	mr->key = key;
}

void odp_mr_set_model(struct odp_mr *mr, enum odp_fault_model model, uint64_t latency)
{
}

void odp_mr_counters(const struct odp_mr *mr, struct odp_counters *out)
{
	memset(out, 0, sizeof(*out));
}

void odp_mr_lost(struct odp_mr *mr)
{
}

void odp_mr_reset_counters(struct odp_mr *mr)
{
}

void odp_mr_describe(struct odp_mr *mr, struct odp_mr_info *out)
{
	memset(out, 0, sizeof(*out));
}

/* --- helpers ---------------------------------------------------------------------- */

struct net_ip fake_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	return (struct net_ip){{[10] = 0xff, [11] = 0xff, a, b, c, d}};
}

struct net_ip fake_v6(uint8_t first, uint8_t last)
{
	return (struct net_ip){{[0] = first, [1] = 0x80, [15] = last}};
}

void fake_setup(void)
{
	struct emu_hca_cfg cfg = {
	    .guid_be = 0x1122334455667788,
	    .mtu = IBV_MTU_1024,
	    .odp = (struct odp_domain *)&fake,
	    .seed = 7,
	};
	struct net_ip v4 = fake_v4(10, 0, 0, 1), v6 = fake_v6(0xfe, 1);

	fake = (struct fake){.ring_limit = -1, .lease = 0, .leases = 1000};
	ck_assert_int_eq(emu_hca_create(&cfg, &ops, &fake, &fake.hca), 0);
	ck_assert_int_eq(emu_set_gid(fake.hca, 0, &v4), 0);
	ck_assert_int_eq(emu_set_gid(fake.hca, 1, &v6), 0);
	fake.events = 0;
}

void fake_teardown(void)
{
	ck_assert_int_eq(fake.rings, 0);
	ck_assert_int_eq(fake.mrs, 0);
	ck_assert_int_eq(fake.mcast_in, fake.mcast_out);
	emu_hca_destroy(fake.hca);
}

struct ibv_ah_attr fake_ah(uint8_t sgid, const struct net_ip *dst)
{
	struct ibv_ah_attr a = {.port_num = 1, .is_global = 1};

	a.grh.sgid_index = sgid;
	memcpy(a.grh.dgid.raw, dst->b, 16);
	return a;
}

struct emu_pd *fake_pd(void)
{
	struct emu_pd *pd = NULL;

	ck_assert_int_eq(emu_pd_create(fake.hca, &pd), 0);
	return pd;
}

struct emu_cq *fake_cq(uint32_t cqe)
{
	struct emu_cq *cq = NULL;

	ck_assert_int_eq(emu_cq_create(fake.hca, NULL, &fake, cqe, &cq), 0);
	return cq;
}

struct emu_mr *fake_mr(struct emu_pd *pd, uint64_t start, uint64_t len, int access)
{
	struct emu_mr *mr = NULL;

	ck_assert_int_eq(reg_mr(pd, start, len, start, access, &mr), 0);
	return mr;
}

struct emu_qp *fake_qp(enum ibv_qp_type type, struct emu_pd *pd, struct emu_cq *cq)
{
	struct emu_qp_init init = {
	    .type = type,
	    .pd = pd,
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 7,
		    .max_recv_wr = 7,
		    .max_send_sge = 1,
		    .max_recv_sge = 2},
	};
	struct emu_qp *qp = NULL;

	ck_assert_int_eq(emu_qp_create(fake.hca, &init, &qp), 0);
	return qp;
}

struct ibv_qp_attr fake_qp_attr(void)
{
	struct net_ip dst = fake_v4(10, 0, 0, 2);

	return (struct ibv_qp_attr){
	    .path_mtu = IBV_MTU_1024,
	    .path_mig_state = IBV_MIG_MIGRATED,
	    .qkey = 0x1234,
	    .rq_psn = 0x345,
	    .sq_psn = 0x678,
	    .dest_qp_num = 99,
	    .qp_access_flags = IBV_ACCESS_REMOTE_READ,
	    .ah_attr = fake_ah(0, &dst),
	    .alt_ah_attr = fake_ah(0, &dst),
	    .max_rd_atomic = 3,
	    .max_dest_rd_atomic = 4,
	    .min_rnr_timer = 12,
	    .port_num = 1,
	    .timeout = 14,
	    .retry_cnt = 7,
	    .rnr_retry = 6,
	    .alt_port_num = 1,
	    .alt_timeout = 14,
	};
}

/* What each kind of QP must be given on its way, all in one; ANY is cut by @allow */
static int required(enum ibv_qp_type type, enum ibv_qp_state to)
{
	int peer = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	bool ud = type == IBV_QPT_UD, uc = type == IBV_QPT_UC;

	switch (to) {
	case IBV_QPS_INIT:
		return IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	case IBV_QPS_RTR:
		if (ud)
			return 0;
		if (uc || type == IBV_QPT_XRC_SEND)
			return peer;
		return peer | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPS_RTS:
		if (ud || uc)
			return IBV_QP_SQ_PSN;
		if (type == IBV_QPT_XRC_RECV)
			return IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
		return IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	default:
		return 0;
	}
}

void fake_qp_to(struct emu_qp *qp, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = fake_qp_attr();

	for (int s = IBV_QPS_INIT; s <= (int)state; s++) {
		attr.qp_state = s;
		ck_assert_int_eq(
		    emu_qp_modify(qp, &attr, IBV_QP_STATE | required(qp->type, s)), 0);
	}
}
