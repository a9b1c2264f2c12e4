/*
 * transport_env.c - see transport_env.h
 */
#include "transport_env.h"
#include "tests/emu/reg_mr.h"

#include <stdio.h>
#include <stdlib.h>

#define PKT_MAX	  4608
#define QUEUE	  4096
#define SLOT_SGES 32

/* For what is done for each packet: a check by Check is a system call */
#define must(x)                                                                          \
	do {                                                                             \
		if (!(x))                                                                \
			ck_abort_msg("%s", #x);                                          \
	} while (0)

struct env env;

/* --- memory: what the transport uses of odp/odp.h --------------------------------- */

struct odp_mr {
	struct odp_mr_attr attr;
	uint32_t refs;
};

int odp_mr_create(struct odp_domain *dom, const struct odp_mr_attr *attr,
		  struct odp_mr **out)
{
	*out = calloc(1, sizeof(**out));
	(*out)->attr = *attr;
	(*out)->refs = 1;
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
	if (--mr->refs == 0)
		free(mr);
}

void odp_mr_set_label(struct odp_mr *mr, uint32_t key, const char *name)
{
}

void odp_mr_set_model(struct odp_mr *mr, enum odp_fault_model model, uint64_t latency)
{
}

void odp_mr_counters(const struct odp_mr *mr, struct odp_counters *out)
{
	memset(out, 0, sizeof(*out));
}

void odp_mr_reset_counters(struct odp_mr *mr)
{
}

void odp_mr_lost(struct odp_mr *mr)
{
	env.lost++;
}

void odp_mr_describe(struct odp_mr *mr, struct odp_mr_info *out)
{
	memset(out, 0, sizeof(*out));
}

const char *odp_model_name(enum odp_fault_model model)
{
	return "model";
}

static int access_memory(struct odp_mr *mr, uint64_t iova, size_t len, bool write,
			 struct odp_access *acc, uint8_t **p)
{
	must(iova >= mr->attr.iova);
	must(iova + len <= mr->attr.iova + mr->attr.length);
	must(!write || mr->attr.writable);
	*p = (uint8_t *)mr->attr.addr;
	*p += env.fold ? (iova - mr->attr.iova) % env.fold : iova - mr->attr.iova;
	return env.memory ? env.memory(*p, len, write, acc) : 0;
}

int odp_read(struct odp_mr *mr, uint64_t iova, void *dst, size_t len,
	     struct odp_access *acc)
{
	uint8_t *p;
	int err = access_memory(mr, iova, len, false, acc, &p);

	if (!err)
		memcpy(dst, p, len);
	return err;
}

int odp_write(struct odp_mr *mr, uint64_t iova, const void *src, size_t len,
	      struct odp_access *acc)
{
	uint8_t *p;
	int err = access_memory(mr, iova, len, true, acc, &p);

	if (!err)
		memcpy(p, src, len);
	return err;
}

int odp_cmp_swap(struct odp_mr *mr, uint64_t iova, uint64_t cmp, uint64_t swap,
		 uint64_t *orig, struct odp_access *acc)
{
	uint8_t *p;
	int err = access_memory(mr, iova, 8, true, acc, &p);

	if (err)
		return err;
	memcpy(orig, p, 8);
	if (*orig == cmp)
		memcpy(p, &swap, 8);
	return 0;
}

int odp_fetch_add(struct odp_mr *mr, uint64_t iova, uint64_t add, uint64_t *orig,
		  struct odp_access *acc)
{
	uint64_t sum;
	uint8_t *p;
	int err = access_memory(mr, iova, 8, true, acc, &p);

	if (err)
		return err;
	memcpy(orig, p, 8);
	sum = *orig + add;
	memcpy(p, &sum, 8);
	return 0;
}

int odp_store64(struct odp_mr *mr, uint64_t iova, uint64_t value, struct odp_access *acc)
{
	return odp_write(mr, iova, &value, 8, acc);
}

int odp_fault_in(struct odp_mr *mr, uint64_t iova, size_t len, bool write,
		 struct odp_access *acc)
{
	return 0;
}

void odp_unwait(struct odp_domain *dom, struct odp_waiter *w)
{
	w->linked = false;
}

/* --- surroundings ----------------------------------------------------------------- */

struct packet {
	struct side *from;
	struct net_path path;
	uint32_t len;
	uint8_t data[PKT_MAX];
};

static struct packet queue[QUEUE];
static uint32_t q_head, q_tail, room;
static struct packet late; /* len 0: none */

static struct side *peer_of(struct side *s)
{
	return s == &env.a ? &env.b : &env.a;
}

static uint8_t *tx_get(void *arg, const struct net_path *path, uint32_t dqpn,
		       uint32_t len)
{
	struct packet *p = &queue[q_tail % QUEUE];

	must(len <= PKT_MAX);
	if ((env.tx_room && !room) || q_tail - q_head == QUEUE)
		return NULL;
	p->from = arg;
	p->path = *path;
	p->len = len;
	return p->data;
}

static void tx_put(void *arg)
{
	struct packet *p = &queue[q_tail % QUEUE];
	struct side *s = arg;
	const uint8_t *payload;
	struct roce_hdr h;
	uint32_t len;
	int copies = 1;

	if (room)
		room--;
	must(!roce_parse(p->data, p->len, &h, &payload, &len));
	must(p->len % 4 == 0);
	s->sent[h.opcode]++;
	if (env.filter)
		copies = env.filter(s, &h, p->data, p->len);
	if (copies == ENV_LATE)
		late = *p;
	for (; copies > 0 && q_tail - q_head < QUEUE; copies--, q_tail++)
		if (&queue[q_tail % QUEUE] != p)
			queue[q_tail % QUEUE] = *p;
}

static int qpn_lease(void *arg, uint32_t *base, uint32_t *count)
{
	struct side *s = arg;

	*base = s->lease;
	*count = 64;
	s->lease += 64;
	return 0;
}

static void *ring_alloc(void *arg, void *owner, size_t bytes, uint64_t *offset)
{
	*offset = 0;
	return calloc(1, bytes);
}

static bool unread(void *arg, const struct net_path *path, uint32_t dqpn, uint64_t since)
{
	env.asked++;
	env.unread_since = since;
	return env.asked <= env.unread;
}

static void ring_free(void *arg, void *owner, void *ring, size_t bytes, uint64_t offset)
{
	free(ring);
}

static void comp_event(void *arg, void *cookie)
{
}

static void async_event(void *arg, enum ibv_event_type type, void *cookie)
{
	struct side *s = arg;

	ck_assert_uint_lt(s->events, ENV_EVENTS);
	s->event[s->events++] = type;
}

static void gsi_rx(void *arg, const struct net_path *path, const uint8_t *mad,
		   uint32_t len)
{
	struct side *s = arg;

	ck_assert_uint_eq(len, sizeof(s->mad));
	memcpy(s->mad, mad, len);
	s->mads++;
}

static int mcast(void *arg, const struct net_ip *group, bool join)
{
	return 0;
}

static void trace(void *arg, const char *line)
{
	struct side *s = arg;

	snprintf(s->trace, sizeof(s->trace), "%s", line);
	s->lines++;
}

static void peer(void *arg, const struct net_ip *ip, uint32_t qpn, struct emu_peer *out)
{
	*out = env.peer;
}

static const struct emu_ops ops = {
    .tx_get = tx_get,
    .tx_put = tx_put,
    .unread = unread,
    .qpn_lease = qpn_lease,
    .ring_alloc = ring_alloc,
    .ring_free = ring_free,
    .comp_event = comp_event,
    .async_event = async_event,
    .gsi_rx = gsi_rx,
    .mcast = mcast,
    .trace = trace,
    .peer = peer,
};

/* --- set-up ----------------------------------------------------------------------- */

static void side_setup(struct side *s, uint8_t last, uint32_t lease)
{
	struct emu_hca_cfg cfg = {
	    .mtu = IBV_MTU_4096, .odp = (struct odp_domain *)&env, .seed = last};
	struct ibv_srq_attr srq = {.max_wr = 64, .max_sge = 4};
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND |
		  EMU_ACCESS_FLUSH_GLOBAL;

	*s = (struct side){.lease = lease};
	s->ip.b[10] = s->ip.b[11] = 0xff;
	s->ip.b[12] = 10;
	s->ip.b[15] = last;
	ck_assert_int_eq(emu_hca_create(&cfg, &ops, s, &s->hca), 0);
	ck_assert_int_eq(emu_set_gid(s->hca, 0, &s->ip), 0);
	ck_assert_int_eq(emu_pd_create(s->hca, &s->pd), 0);
	ck_assert_int_eq(emu_cq_create(s->hca, s, s, 1023, &s->scq), 0);
	ck_assert_int_eq(emu_cq_create(s->hca, s, s, 1023, &s->rcq), 0);
	ck_assert_int_eq(emu_srq_create(s->pd, s, s, &srq, NULL, NULL, &s->srq), 0);
	s->buf = aligned_alloc(4096, ENV_BUF);
	memset(s->buf, 0, ENV_BUF);
	ck_assert_int_eq(
	    reg_mr(s->pd, (uintptr_t)s->buf, ENV_BUF, (uintptr_t)s->buf, all, &s->mr), 0);
	s->events = 0;
}

static void side_teardown(struct side *s)
{
	if (s->qp)
		ck_assert_int_eq(emu_qp_destroy(s->qp), 0);
	ck_assert_int_eq(emu_mr_dereg(s->mr), 0);
	ck_assert_int_eq(emu_srq_destroy(s->srq), 0);
	ck_assert_int_eq(emu_cq_destroy(s->scq), 0);
	ck_assert_int_eq(emu_cq_destroy(s->rcq), 0);
	ck_assert_int_eq(emu_pd_destroy(s->pd), 0);
	emu_hca_destroy(s->hca);
	free(s->buf);
}

void env_setup(void)
{
	memset(&env, 0, sizeof(env));
	q_head = q_tail = late.len = 0;
	env.now = 1000000;
	side_setup(&env.a, 1, 0x100);
	side_setup(&env.b, 2, 0x8000);
}

void env_teardown(void)
{
	side_teardown(&env.a);
	side_teardown(&env.b);
}

static void make_qp(struct side *s, const struct env_qp *how)
{
	struct emu_qp_init init = {
	    .type = how->type,
	    .pd = s->pd,
	    .send_cq = s->scq,
	    .recv_cq = s->rcq,
	    .srq = how->srq ? s->srq : NULL,
	    .cap = {.max_send_wr = how->max_wr ? how->max_wr : 256,
		    .max_recv_wr = 256,
		    .max_send_sge = how->max_sge ? how->max_sge : SLOT_SGES,
		    .max_recv_sge = 4,
		    .max_inline_data = 128},
	    .sq_sig_all = how->sig_all,
	    .owner = s,
	    .cookie = s,
	};

	ck_assert_int_eq(emu_qp_create(s->hca, &init, &s->qp), 0);
}

static void to_rts(struct side *s, const struct env_qp *how)
{
	struct side *peer = peer_of(s);
	struct ibv_qp_attr at = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qkey = 0x1234,
	    .qp_access_flags = how->access,
	    .path_mtu = how->mtu,
	    .dest_qp_num = emu_qp_num(peer->qp),
	    .rq_psn = how->psn,
	    .sq_psn = how->psn,
	    .max_rd_atomic = how->rd_atomic,
	    .max_dest_rd_atomic = how->rd_atomic,
	    .min_rnr_timer = how->min_rnr_timer,
	    .timeout = how->timeout,
	    .retry_cnt = how->retry_cnt,
	    .rnr_retry = how->rnr_retry,
	    .ah_attr = {.is_global = 1, .port_num = 1},
	};
	bool ud = how->type == IBV_QPT_UD, uc = how->type == IBV_QPT_UC;
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		   (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);

	memcpy(&at.ah_attr.grh.dgid, &peer->ip, 16);
	ck_assert_int_eq(emu_qp_modify(s->qp, &at, mask), 0);
	at.qp_state = IBV_QPS_RTR;
	mask = IBV_QP_STATE;
	if (!ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (!ud && !uc)
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	ck_assert_int_eq(emu_qp_modify(s->qp, &at, mask), 0);
	at.qp_state = IBV_QPS_RTS;
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (!ud && !uc)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	ck_assert_int_eq(emu_qp_modify(s->qp, &at, mask), 0);
}

void env_connect(struct env_qp how)
{
	if (!how.type)
		how.type = IBV_QPT_RC;
	if (!how.mtu)
		how.mtu = IBV_MTU_1024;
	if (!how.timeout)
		how.timeout = 12; /* 16.8 ms */
	if (!how.retry_cnt && !how.no_retry)
		how.retry_cnt = 7;
	if (!how.rnr_retry && !how.no_rnr_retry)
		how.rnr_retry = 7;
	if (!how.rd_atomic)
		how.rd_atomic = 4;
	if (!how.min_rnr_timer)
		how.min_rnr_timer = 12; /* 640 us */
	if (!how.access)
		how.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			     IBV_ACCESS_REMOTE_ATOMIC | EMU_ACCESS_FLUSH_GLOBAL;
	make_qp(&env.a, &how);
	make_qp(&env.b, &how);
	to_rts(&env.a, &how);
	to_rts(&env.b, &how);
}

void env_modify(struct side *s, enum ibv_qp_state state)
{
	struct ibv_qp_attr at = {.qp_state = state};

	ck_assert_int_eq(emu_qp_modify(s->qp, &at, IBV_QP_STATE), 0);
}

enum ibv_qp_state env_state(const struct side *s)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr at;

	emu_qp_query(s->qp, &at, &init);
	return at.qp_state;
}

/* --- running ---------------------------------------------------------------------- */

static void set_time(void)
{
	emu_hca_set_time(env.a.hca, env.now);
	emu_hca_set_time(env.b.hca, env.now);
}

/* In place: receiving sends nothing */
static void deliver(struct packet *p)
{
	struct net_rx rx = {.path = &p->path, .data = p->data, .len = p->len};

	emu_hca_rx(peer_of(p->from)->hca, &rx);
}

static bool deliver_all(void)
{
	bool any = q_head != q_tail || late.len;

	for (; q_head != q_tail; q_head++)
		deliver(&queue[q_head % QUEUE]);
	q_head = q_tail = 0; /* the same memory again, which is in the cache */
	if (late.len)
		deliver(&late);
	late.len = 0;
	return any;
}

void env_run(uint64_t ns)
{
	uint64_t end = env.now + ns, next;
	uint32_t rounds = 0;
	bool more;

	for (;;) {
		must(rounds++ < 1000000);
		set_time();
		room = env.tx_room;
		more = emu_hca_run(env.a.hca);
		room = env.tx_room;
		more |= emu_hca_run(env.b.hca);
		more |= deliver_all();
		if (more) {
			env.now += 1000;
			continue;
		}
		next = emu_hca_deadline(env.a.hca);
		if (emu_hca_deadline(env.b.hca) < next)
			next = emu_hca_deadline(env.b.hca);
		if (next > end)
			break;
		if (next > env.now)
			env.now = next;
	}
	if (ns < UINT32_MAX * 1000ull)
		env.now = end;
	set_time();
}

/* --- posting and polling, as librxe does ------------------------------------------ */

struct rxe_send_wqe *env_slot(struct side *s)
{
	struct rxe_send_wqe *w = ring_at(&s->qp->sq, s->qp->sq.buf->producer_index);

	ck_assert_uint_ne((s->qp->sq.buf->producer_index + 1) & ring_mask(&s->qp->sq),
			  ring_consumer(&s->qp->sq));
	memset(w, 0, 1u << s->qp->sq.log2_elem);
	return w;
}

void env_ring(struct side *s)
{
	struct rxe_queue_buf *b = s->qp->sq.buf;

	__atomic_store_n(&b->producer_index,
			 (b->producer_index + 1) & ring_mask(&s->qp->sq),
			 __ATOMIC_RELEASE);
	emu_qp_doorbell(s->qp);
}

static void put_sges(struct side *s, struct rxe_send_wqe *w, const struct env_wr *wr)
{
	uint32_t n = wr->num_sge ? wr->num_sge : 1, i, done = 0;

	w->dma.length = wr->len;
	if (wr->flags & IBV_SEND_INLINE) {
		memcpy(w->dma.inline_data, s->buf + wr->off, wr->len);
		w->dma.num_sge = 1;
		return;
	}
	w->dma.num_sge = n;
	for (i = 0; i < n; i++) {
		uint32_t len = i == n - 1 ? wr->len - done : wr->len / n;

		w->dma.sge[i].addr = (uintptr_t)s->buf + wr->off + done;
		w->dma.sge[i].length = len;
		w->dma.sge[i].lkey = wr->lkey ? wr->lkey : emu_mr_lkey(s->mr);
		done += len;
	}
}

void env_post(struct side *s, struct env_wr wr)
{
	struct side *peer = peer_of(s);
	struct rxe_send_wqe *w = env_slot(s);
	uint64_t remote = (uintptr_t)peer->buf + wr.remote;
	uint32_t rkey = wr.rkey ? wr.rkey : emu_mr_rkey(peer->mr);

	w->wr.wr_id = wr.id;
	w->wr.opcode = (uint32_t)wr.op;
	w->wr.send_flags = wr.flags;
	w->wr.ex.imm_data = wr.imm;
	if (wr.op == IBV_WR_ATOMIC_CMP_AND_SWP || wr.op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		w->wr.wr.atomic.remote_addr = remote;
		w->wr.wr.atomic.rkey = rkey;
		w->wr.wr.atomic.compare_add = wr.compare;
		w->wr.wr.atomic.swap = wr.swap;
	} else {
		w->wr.wr.rdma.remote_addr = remote;
		w->wr.wr.rdma.rkey = rkey;
	}
	if (!wr.no_sge)
		put_sges(s, w, &wr);
	env_ring(s);
}

void env_recv(struct side *s, uint64_t id, uint32_t off, uint32_t len)
{
	struct emu_ring *r = s->qp->srq ? &s->srq->ring : &s->qp->rq;
	struct rxe_recv_wqe *w = ring_at(r, r->buf->producer_index);

	w->wr_id = id;
	w->dma.num_sge = 1;
	w->dma.length = len;
	w->dma.sge[0] = (struct rxe_sge){
	    .addr = (uintptr_t)s->buf + off, .length = len, .lkey = emu_mr_lkey(s->mr)};
	__atomic_store_n(&r->buf->producer_index,
			 (r->buf->producer_index + 1) & ring_mask(r), __ATOMIC_RELEASE);
}

bool env_poll(struct emu_cq *cq, struct ib_uverbs_wc *wc)
{
	struct rxe_queue_buf *b = cq->ring.buf;
	uint32_t mask = ring_mask(&cq->ring);

	if (ring_producer(&cq->ring) == b->consumer_index)
		return false;
	memcpy(wc, ring_at(&cq->ring, b->consumer_index), sizeof(*wc));
	b->consumer_index = (b->consumer_index + 1) & mask;
	return true;
}

struct ib_uverbs_wc env_expect(struct emu_cq *cq, uint64_t id, enum ibv_wc_status status)
{
	struct ib_uverbs_wc wc = {0};

	ck_assert_msg(env_poll(cq, &wc), "no completion, want id %d", (int)id);
	ck_assert_uint_eq(wc.wr_id, id);
	ck_assert_int_eq(wc.status, status);
	return wc;
}

void env_expect_none(struct emu_cq *cq)
{
	struct ib_uverbs_wc wc;

	ck_assert(!env_poll(cq, &wc));
}

void env_fill(uint8_t *p, uint32_t len, uint32_t seed)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		p[i] = (uint8_t)((seed = seed * 1664525 + 1013904223) >> 24);
}

bool env_event(const struct side *s, enum ibv_event_type type)
{
	uint32_t i;

	for (i = 0; i < s->events; i++)
		if (s->event[i] == type)
			return true;
	return false;
}
