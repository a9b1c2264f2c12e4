/*
 * Description: commands by write(2): sizes, handles and pointers are checked as the
 * kernel checks them, objects live and die in order, nothing that is written can crash.
 */
#include <poll.h>
#include <sys/mman.h>

#include "tests/verbs/util.h"

static int fd, async;

static void setup(void)
{
	fd = util_context(&async);
}

static void teardown(void)
{
	util_close(fd);
	util_close(async);
}

/*
 * A command of @req bytes in a buffer that says it has @in words and room for @out words
 */
static ssize_t raw(uint32_t number, uint16_t in, uint16_t out, size_t len)
{
	struct util_request r = {.hdr = {number, in, out}};

	return util_write(fd, &r, len);
}

#define EX IB_USER_VERBS_CMD_FLAG_EXTENDED

static const struct {
	const char *what;
	uint32_t number;
	uint16_t in, out;
	size_t len;
	int err;
} bad[] = {
    {"no header", 3, 2, 1, 7, EINVAL},
    {"unknown command", 63, 2, 0, 8, EOPNOTSUPP},
    {"beyond the table", 200, 2, 0, 8, EOPNOTSUPP},
    {"bits that are no flags", 0x1000003, 4, 1, 16, EINVAL},
    {"not in rxe: POLL_CQ", 21, 6, 8, 24, EOPNOTSUPP},
    {"not in rxe: POST_RECV", 29, 8, 2, 32, EOPNOTSUPP},
    {"fewer bytes than words", 3, 5, 1, 16, EINVAL},
    {"more bytes than words", 3, 4, 1, 20, EINVAL},
    {"request too short", 9, 6, 3, 24, ENOSPC},
    {"answer too short", 3, 4, 0, 16, ENOSPC},
    {"again GET_CONTEXT", 0, 4, 2, 16, EINVAL},
    {"extended, no second header", EX | 1, 0, 0, 8, EINVAL},
    {"extended, words do not fit", EX | 1, 2, 38, 32, EINVAL},
    {"extended, too short", EX | 18, 1, 0, 32, ENOSPC},
    {"extended, unknown", EX | 63, 0, 0, 24, EOPNOTSUPP},
    {"extended, not in rxe: flow", EX | 50, 0, 0, 24, EOPNOTSUPP},
};

START_TEST(malformed_commands_are_refused)
{
	ck_assert_msg(raw(bad[_i].number, bad[_i].in, bad[_i].out, bad[_i].len) ==
			  -bad[_i].err,
		      "%s: %zd", bad[_i].what,
		      raw(bad[_i].number, bad[_i].in, bad[_i].out, bad[_i].len));
}
END_TEST

START_TEST(bad_pointers_are_refused)
{
	struct ib_uverbs_query_device cmd = {.response = (uintptr_t)BAD_PTR};
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_alloc_pd pd;
	} r = {{IB_USER_VERBS_CMD_ALLOC_PD, 4, 1}, {.response = (uintptr_t)BAD_PTR}};
	uint32_t first;

	ck_assert_int_eq(util_write(fd, BAD_PTR, 64), -EFAULT);
	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_QUERY_DEVICE, &cmd,
				      sizeof(cmd), BAD_PTR,
				      sizeof(struct ib_uverbs_query_device_resp)),
			 -EFAULT);
	/* what cannot be told does not exist */
	first = util_pd(fd);
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), -EFAULT);
	ck_assert_uint_eq(util_pd(fd), first + 1);
}
END_TEST

START_TEST(request_that_ends_in_the_void)
{
	long page = sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ib_uverbs_cmd_hdr hdr = {IB_USER_VERBS_CMD_REG_MR, 12, 3};

	munmap(p + page, (size_t)page);
	memcpy(p + page - sizeof(hdr), &hdr, sizeof(hdr));
	ck_assert_int_eq(util_write(fd, p + page - sizeof(hdr), 48), -EFAULT);
}
END_TEST

START_TEST(before_get_context)
{
	int fresh = uverbs_open(0, O_RDWR);
	struct ib_uverbs_alloc_pd cmd = {0};
	struct ib_uverbs_alloc_pd_resp resp;

	ck_assert_int_ge(fresh, 0);
	ck_assert_int_eq(util_command(fresh, IB_USER_VERBS_CMD_ALLOC_PD, &cmd,
				      sizeof(cmd), &resp, sizeof(resp)),
			 -EINVAL);
	util_close(fresh);
	ck_assert_int_eq(uverbs_open(31, O_RDWR), -ENXIO);
}
END_TEST

/*
 * Every command that names an object, with a handle of nothing and with one of another
 * type
 */
START_TEST(unknown_handles_are_refused)
{
	static const struct {
		uint32_t number;
		size_t req, handle_at, resp;
		int none, other;
	} c[] = {
	    {IB_USER_VERBS_CMD_DEALLOC_PD, 4, 0, 0, ENOENT, EINVAL},
	    {IB_USER_VERBS_CMD_DEREG_MR, 4, 0, 0, ENOENT, EINVAL},
	    {IB_USER_VERBS_CMD_DEALLOC_MW, 4, 0, 0, ENOENT, EINVAL},
	    {IB_USER_VERBS_CMD_DESTROY_AH, 4, 0, 0, ENOENT, EINVAL},
	    {IB_USER_VERBS_CMD_CLOSE_XRCD, 4, 0, 0, ENOENT, EINVAL},
	    {IB_USER_VERBS_CMD_DESTROY_CQ, 16, 8, 16, ENOENT, EINVAL},
	    {IB_USER_VERBS_CMD_DESTROY_QP, 16, 8, 4, ENOENT, EINVAL},
	    {IB_USER_VERBS_CMD_DESTROY_SRQ, 16, 8, 4, ENOENT, EINVAL},
	    {IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, 8, 0, 0, EINVAL, EINVAL},
	    {IB_USER_VERBS_CMD_RESIZE_CQ, 16, 8, 24, EINVAL, EINVAL},
	    {IB_USER_VERBS_CMD_QUERY_QP, 16, 8, 128, EINVAL, EINVAL},
	    {IB_USER_VERBS_CMD_MODIFY_QP, 112, 64, 0, EINVAL, EINVAL},
	    {IB_USER_VERBS_CMD_POST_SEND, 24, 8, 4, EINVAL, EINVAL},
	    {IB_USER_VERBS_CMD_ATTACH_MCAST, 24, 16, 0, EINVAL, EINVAL},
	    {IB_USER_VERBS_CMD_DETACH_MCAST, 24, 16, 0, EINVAL, EINVAL},
	    {IB_USER_VERBS_CMD_MODIFY_SRQ, 16, 0, 0, EINVAL, EINVAL},
	    {IB_USER_VERBS_CMD_QUERY_SRQ, 16, 8, 16, EINVAL, EINVAL},
	    {IB_USER_VERBS_CMD_REG_MR, 40, 32, 12, EINVAL, EINVAL},
	    {IB_USER_VERBS_CMD_ALLOC_MW, 16, 8, 8, EINVAL, EINVAL},
	};
	uint32_t pd = util_pd(fd), cq = util_cq(fd, -1, 0).base.cq_handle;
	uint8_t req[112], resp[128];

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		uint32_t none = 12345, huge = UINT32_MAX;
		/* a CQ where something else is wanted, a PD where a CQ is */
		bool wants_cq = c[i].number == IB_USER_VERBS_CMD_DESTROY_CQ ||
				c[i].number == IB_USER_VERBS_CMD_REQ_NOTIFY_CQ ||
				c[i].number == IB_USER_VERBS_CMD_RESIZE_CQ;
		uint32_t *other = wants_cq ? &pd : &cq;

		memset(req, 0, sizeof(req));
		memcpy(req + c[i].handle_at, &none, 4);
		ck_assert_int_eq(util_command(fd, c[i].number, req, c[i].req,
					      c[i].resp ? resp : NULL, c[i].resp),
				 -c[i].none);
		memcpy(req + c[i].handle_at, &huge, 4);
		ck_assert_int_eq(util_command(fd, c[i].number, req, c[i].req,
					      c[i].resp ? resp : NULL, c[i].resp),
				 -c[i].none);
		memcpy(req + c[i].handle_at, other, 4);
		ck_assert_int_eq(util_command(fd, c[i].number, req, c[i].req,
					      c[i].resp ? resp : NULL, c[i].resp),
				 -c[i].other);
	}
}
END_TEST

START_TEST(handles_end_with_their_table)
{
	struct uobject_table t = {.slot = NULL};
	struct uobject *first = NULL, *behind[2];

	for (int i = 0; !first || t.used < t.cap; i++) {
		struct uobject *o = uobject_new(&t, UOBJECT_PD);

		ck_assert_uint_eq(o->handle, i);
		first = first ? first : o;
	}
	/* what lies behind the table, by chance */
	behind[0] = behind[1] = first;
	ck_assert_ptr_eq(uobject_find(&t, UOBJECT_PD, 0), first);
	ck_assert_ptr_nonnull(uobject_find(&t, UOBJECT_PD, t.cap - 1));
	ck_assert_ptr_null(uobject_find(&t, UOBJECT_MR, 0));
	t = (struct uobject_table){.slot = behind, .cap = 1};
	ck_assert_ptr_eq(uobject_find(&t, UOBJECT_PD, 0), first);
	ck_assert_ptr_null(uobject_find(&t, UOBJECT_PD, 1));
	ck_assert(uobject_exists(&t, 0) && !uobject_exists(&t, 1));
}
END_TEST

/* Two pages, of which the second is not there; the first is zero */
static uint8_t *page_before_the_void(size_t page)
{
	uint8_t *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	munmap(p + page, page);
	return p;
}

/* A program of later headers sends more; as long as that is zero, it asks for what there is. */
START_TEST(what_is_behind_a_request_must_be_zero)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p = page_before_the_void(page), buf[8];
	struct uverbs_call c = {.in = p + page - 208, .in_len = 208};

	memset(p + page - 208, 7, 8);
	ck_assert_int_eq(uverbs_request(&c, buf, sizeof(buf)), 0);
	ck_assert_uint_eq(buf[7], 7);
	p[page - 200] = 1;
	ck_assert_int_eq(uverbs_request(&c, buf, sizeof(buf)), -EOPNOTSUPP);
	p[page - 200] = 0;
	p[page - 1] = 1;
	ck_assert_int_eq(uverbs_request(&c, buf, sizeof(buf)), -EOPNOTSUPP);
	c.in_len = 207;
	ck_assert_int_eq(uverbs_request(&c, buf, sizeof(buf)), 0);
	p[page - 1] = 0;
	c.in_len = 209;
	ck_assert_int_eq(uverbs_request(&c, buf, sizeof(buf)), -EFAULT);
}
END_TEST

START_TEST(short_requests_are_filled_with_zeros)
{
	const uint8_t in[4] = {1, 2, 3, 4};
	struct uverbs_call c = {.in = in, .in_len = 3};
	uint8_t buf[8];

	memset(buf, 0xee, sizeof(buf));
	ck_assert_int_eq(uverbs_request(&c, buf, sizeof(buf)), 0);
	ck_assert_mem_eq(buf, ((uint8_t[]){1, 2, 3, 0, 0, 0, 0, 0}), 8);
	c.in_len = 0;
	memset(buf, 0xee, sizeof(buf));
	ck_assert_int_eq(uverbs_request(&c, buf, sizeof(buf)), 0);
	ck_assert_mem_eq(buf, ((uint8_t[8]){0}), 8);
}
END_TEST

START_TEST(room_behind_an_answer_is_zeroed)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *p = page_before_the_void(page);
	struct uverbs_call c = {.out = p + page - 200, .out_len = 199};

	memset(p, 0xee, page);
	ck_assert_int_eq(uverbs_response(&c, "answer", 6), 0);
	ck_assert_mem_eq(p + page - 200, "answer", 6);
	for (size_t i = page - 200 + 6; i < page - 1; i++)
		ck_assert_uint_eq(p[i], 0);
	ck_assert_uint_eq(p[page - 201], 0xee);
	ck_assert_uint_eq(p[page - 1], 0xee);
	/* less room than the answer has: what fits, and nothing behind */
	c.out_len = 3;
	memset(p, 0xee, page);
	ck_assert_int_eq(uverbs_response(&c, "answer", 6), 0);
	ck_assert_mem_eq(p + page - 200, "ans\xee", 4);
	c.out_len = 201;
	ck_assert_int_eq(uverbs_response(&c, "answer", 6), -EFAULT);
}
END_TEST

struct qp_resp {
	struct ib_uverbs_create_qp_resp base;
	struct rxe_create_qp_resp hw;
};

static int make_qp(uint8_t type, uint32_t pd, uint32_t cq, struct qp_resp *resp)
{
	struct ib_uverbs_create_qp cmd = {
	    .user_handle = 0x9f,
	    .pd_handle = pd,
	    .send_cq_handle = cq,
	    .recv_cq_handle = cq,
	    .max_send_wr = 4,
	    .max_recv_wr = 4,
	    .max_send_sge = 1,
	    .max_recv_sge = 1,
	    .qp_type = type,
	};

	return util_command(fd, IB_USER_VERBS_CMD_CREATE_QP, &cmd, sizeof(cmd), resp,
			    sizeof(*resp));
}

START_TEST(objects_in_use_are_busy)
{
	struct ib_uverbs_destroy_qp dqp = {0};
	struct ib_uverbs_destroy_qp_resp dqp_resp;
	struct ib_uverbs_destroy_cq dcq = {0};
	struct ib_uverbs_destroy_cq_resp dcq_resp;
	uint32_t pd = util_pd(fd);
	struct util_cq_resp cq = util_cq(fd, -1, 0);
	struct rxe_queue_buf *ring;
	struct qp_resp qp;

	ck_assert_int_eq(make_qp(IBV_QPT_RC, pd, cq.base.cq_handle, &qp), 0);
	ck_assert_uint_ge(qp.base.max_send_wr, 4);
	ring = mmap(NULL, qp.hw.sq_mi.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		    (off_t)qp.hw.sq_mi.offset);
	ck_assert_ptr_ne(ring, MAP_FAILED);
	ck_assert_uint_ge(ring->index_mask, 4);
	dcq.cq_handle = cq.base.cq_handle;
	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_DESTROY_CQ, &dcq, sizeof(dcq),
				      &dcq_resp, sizeof(dcq_resp)),
			 -EBUSY);
	ck_assert_int_eq(util_destroy(fd, IB_USER_VERBS_CMD_DEALLOC_PD, pd), -EBUSY);
	dqp.qp_handle = qp.base.qp_handle;
	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_DESTROY_QP, &dqp, sizeof(dqp),
				      &dqp_resp, sizeof(dqp_resp)),
			 0);
	ck_assert_uint_eq(dqp_resp.events_reported, 0);
	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_DESTROY_CQ, &dcq, sizeof(dcq),
				      &dcq_resp, sizeof(dcq_resp)),
			 0);
	ck_assert_int_eq(util_destroy(fd, IB_USER_VERBS_CMD_DEALLOC_PD, pd), 0);
	ck_assert_int_eq(util_destroy(fd, IB_USER_VERBS_CMD_DEALLOC_PD, pd), -ENOENT);
}
END_TEST

START_TEST(answers_of_the_provider_are_asked_for)
{
	struct ib_uverbs_create_cq cmd = {.cqe = 16, .comp_channel = -1};
	struct ib_uverbs_create_cq_resp resp;
	uint32_t pd = util_pd(fd), cq;
	struct qp_resp qp;

	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_CREATE_CQ, &cmd, sizeof(cmd),
				      &resp, sizeof(resp)),
			 -EINVAL);
	cmd.comp_vector = 1 << 20;
	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_CREATE_CQ, &cmd, sizeof(cmd),
				      &qp, sizeof(qp)),
			 -EINVAL);
	cmd.comp_vector = 0;
	cmd.comp_channel = 0;
	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_CREATE_CQ, &cmd, sizeof(cmd),
				      &qp, sizeof(qp)),
			 -EBADF);
	cmd.comp_channel = async;
	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_CREATE_CQ, &cmd, sizeof(cmd),
				      &qp, sizeof(qp)),
			 -EBADF);
	cq = util_cq(fd, -1, 0).base.cq_handle;
	ck_assert_int_eq(make_qp(IBV_QPT_RAW_PACKET, pd, cq, &qp), -EOPNOTSUPP);
	ck_assert_int_eq(make_qp(7, pd, cq, &qp), -EINVAL);
	ck_assert_int_eq(make_qp(IBV_QPT_RC, 999, cq, &qp), -EINVAL);
	ck_assert_int_eq(make_qp(IBV_QPT_RC, pd, 999, &qp), -EINVAL);
	ck_assert_int_eq(make_qp(IBV_QPT_XRC_RECV, pd, cq, &qp), -EINVAL);
}
END_TEST

/* An extended command without a part of the provider; 0 or -errno */
static int extended(uint32_t number, const void *cmd, size_t len, void *resp,
		    size_t resp_len)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
		uint8_t cmd[256];
	} r = {.hdr = {EX | number, (uint16_t)(len / 8), (uint16_t)(resp_len / 8)},
	       .ex = {.response = (uintptr_t)resp}};
	ssize_t n;

	ck_assert(len <= sizeof(r.cmd) && len % 8 == 0 && resp_len % 8 == 0);
	memcpy(r.cmd, cmd, len);
	n = util_write(fd, &r, sizeof(r.hdr) + sizeof(r.ex) + len);
	return n < 0 ? (int)n : 0;
}

static int modify(const struct ib_uverbs_modify_qp *cmd)
{
	return util_command(fd, IB_USER_VERBS_CMD_MODIFY_QP, cmd, sizeof(*cmd), NULL, 0);
}

static struct ib_uverbs_modify_qp to_init(uint32_t qp)
{
	return (struct ib_uverbs_modify_qp){
	    .qp_handle = qp,
	    .attr_mask =
		IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	};
}

START_TEST(what_a_qp_becomes_is_checked)
{
	struct ib_uverbs_ex_modify_qp ex = {.base = {.attr_mask = 0}};
	struct ib_uverbs_ex_modify_qp_resp resp;
	struct ib_uverbs_modify_qp cmd;
	struct qp_resp qp;
	uint32_t rate = IBV_QP_RATE_LIMIT;

	ck_assert_int_eq(
	    make_qp(IBV_QPT_RC, util_pd(fd), util_cq(fd, -1, 0).base.cq_handle, &qp), 0);
	cmd = to_init(qp.base.qp_handle);
	cmd.attr_mask |= rate;
	ck_assert_int_eq(modify(&cmd), -EOPNOTSUPP);
	cmd.attr_mask ^= rate | 1u << 31;
	ck_assert_int_eq(modify(&cmd), -EOPNOTSUPP);
	cmd.qp_handle = 12345; /* the bits are looked at before */
	ck_assert_int_eq(modify(&cmd), -EOPNOTSUPP);
	cmd = to_init(qp.base.qp_handle);
	cmd.port_num = 2;
	ck_assert_int_eq(modify(&cmd), -EINVAL);
	/* an address that there is no way to from loopback: the port is looked at before */
	cmd.attr_mask |= IBV_QP_AV;
	cmd.dest = (struct ib_uverbs_qp_dest){
	    .is_global = 1,
	    .port_num = 1,
	    .dgid = {[10] = 0xff, [11] = 0xff, [12] = 255, [13] = 255, [14] = 255, 255}};
	ck_assert_int_eq(modify(&cmd), -EINVAL);
	cmd.port_num = 1;
	ck_assert_int_ne(modify(&cmd), -EINVAL);
	ck_assert_int_lt(modify(&cmd), 0);
	cmd.dest.port_num = 2;
	ck_assert_int_eq(modify(&cmd), -EINVAL);
	ex.base = to_init(qp.base.qp_handle);
	ex.base.attr_mask |= rate;
	ck_assert_int_eq(extended(IB_USER_VERBS_EX_CMD_MODIFY_QP, &ex, sizeof(ex), &resp,
				  sizeof(resp)),
			 -EOPNOTSUPP);
	ex.base.attr_mask ^= rate;
	ck_assert_int_eq(extended(IB_USER_VERBS_EX_CMD_MODIFY_QP, &ex, sizeof(ex), &resp,
				  sizeof(resp)),
			 0);
	ck_assert_uint_eq(resp.response_length, sizeof(resp));
}
END_TEST

START_TEST(extended_queue_pairs_have_what_rxe_has)
{
	struct ib_uverbs_ex_create_qp cmd = {.pd_handle = util_pd(fd),
					     .max_send_wr = 1,
					     .max_recv_wr = 1,
					     .qp_type = IBV_QPT_RC};
	struct {
		struct ib_uverbs_ex_create_qp_resp base;
		struct rxe_create_qp_resp hw;
	} resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
		struct ib_uverbs_ex_create_qp cmd;
	} r = {.hdr = {EX | IB_USER_VERBS_EX_CMD_CREATE_QP, sizeof(cmd) / 8,
		       sizeof(resp.base) / 8},
	       .ex = {.response = (uintptr_t)&resp,
		      .provider_out_words = sizeof(resp.hw) / 8}};

	cmd.send_cq_handle = cmd.recv_cq_handle = util_cq(fd, -1, 0).base.cq_handle;
	r.cmd = cmd;
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), sizeof(r));
	r.cmd.reserved = 1;
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), -EINVAL);
	r.cmd = cmd;
	r.cmd.comp_mask = 2;
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), -EINVAL);
	r.cmd.comp_mask = IB_UVERBS_CREATE_QP_MASK_IND_TABLE;
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), -EOPNOTSUPP);
	r.cmd = cmd;
	r.cmd.create_flags = 1;
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), -EOPNOTSUPP);
	r.cmd = cmd;
	r.cmd.source_qpn = 1;
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), -EOPNOTSUPP);
}
END_TEST

START_TEST(a_closed_context_leaves_nothing)
{
	for (int i = 0; i < 20; i++) {
		int f, a;
		uint32_t pd;
		struct qp_resp qp;
		int old = fd;

		f = util_context(&a);
		fd = f;
		pd = util_pd(f);
		for (int j = 0; j < 20; j++)
			ck_assert_int_eq(make_qp(IBV_QPT_UD, pd,
						 util_cq(f, -1, 0).base.cq_handle, &qp),
					 0);
		fd = old;
		util_close(f);
		util_close(a);
	}
}
END_TEST

START_TEST(completion_events_are_reported)
{
	struct ib_uverbs_create_comp_channel ccmd = {0};
	struct ib_uverbs_create_comp_channel_resp chan;
	struct ib_uverbs_destroy_cq dcq = {0};
	struct ib_uverbs_destroy_cq_resp resp;
	struct ib_uverbs_comp_event_desc ev;
	struct uverbs_context *ctx;
	struct uobject *o;

	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &ccmd,
				      sizeof(ccmd), &chan, sizeof(chan)),
			 0);
	dcq.cq_handle = util_cq(fd, (int)chan.fd, 0xc0ffee).base.cq_handle;
	ctx = uverbs_lookup(fd);
	o = uobject_find(&ctx->objects, UOBJECT_CQ, dcq.cq_handle);
	for (int i = 0; i < 3; i++)
		uobject_events(o)->sink.comp(&uobject_events(o)->sink);
	uobject_events(o)->sink.async(&uobject_events(o)->sink, IBV_EVENT_CQ_ERR);
	vfile_put(&ctx->vf);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(util_read((int)chan.fd, &ev, sizeof(ev)), sizeof(ev));
		ck_assert_uint_eq(ev.cq_handle, 0xc0ffee);
	}
	ck_assert_int_eq(util_command(fd, IB_USER_VERBS_CMD_DESTROY_CQ, &dcq, sizeof(dcq),
				      &resp, sizeof(resp)),
			 0);
	ck_assert_uint_eq(resp.comp_events_reported, 2);
	ck_assert_uint_eq(resp.async_events_reported, 0);
	ck_assert_int_eq(poll(&(struct pollfd){(int)chan.fd, POLLIN, 0}, 1, 0), 0);
	ck_assert_int_eq(poll(&(struct pollfd){async, POLLIN, 0}, 1, 0), 0);
	util_close((int)chan.fd);
}
END_TEST

static int open_xrcd(int f, int file, int flags, uint32_t *handle)
{
	struct ib_uverbs_open_xrcd cmd = {.fd = (uint32_t)file,
					  .oflags = (uint32_t)flags};
	struct ib_uverbs_open_xrcd_resp resp;
	int err = util_command(f, IB_USER_VERBS_CMD_OPEN_XRCD, &cmd, sizeof(cmd), &resp,
			       sizeof(resp));

	*handle = resp.xrcd_handle;
	return err;
}

static int open_qp(int f, uint32_t xrcd, uint32_t qpn, uint32_t *handle)
{
	struct ib_uverbs_open_qp cmd = {
	    .pd_handle = xrcd, .qpn = qpn, .qp_type = IBV_QPT_XRC_RECV};
	struct ib_uverbs_create_qp_resp resp;
	int err = util_command(f, IB_USER_VERBS_CMD_OPEN_QP, &cmd, sizeof(cmd), &resp,
			       sizeof(resp));

	*handle = resp.qp_handle;
	return err;
}

static int close_qp(int f, uint32_t handle)
{
	struct ib_uverbs_destroy_qp cmd = {.qp_handle = handle};
	struct ib_uverbs_destroy_qp_resp resp;

	return util_command(f, IB_USER_VERBS_CMD_DESTROY_QP, &cmd, sizeof(cmd), &resp,
			    sizeof(resp));
}

/* An XRC domain and a target QP in it, shared by two contexts through a file */
START_TEST(xrc_is_shared)
{
	int other_async, other = util_context(&other_async), file;
	char name[] = "/tmp/urxe-xrcd-XXXXXX";
	uint32_t mine, theirs, anonymous, their_qp;
	struct qp_resp qp;

	file = mkstemp(name);
	unlink(name);
	ck_assert_int_eq(open_xrcd(fd, file, 0, &mine), -EAGAIN);
	ck_assert_int_eq(open_xrcd(fd, 9999, O_CREAT, &mine), -EBADF);
	ck_assert_int_eq(open_xrcd(fd, file, O_CREAT, &mine), 0);
	ck_assert_int_eq(open_xrcd(other, file, O_CREAT | O_EXCL, &theirs), -EINVAL);
	ck_assert_int_eq(open_xrcd(other, file, 0, &theirs), 0);
	ck_assert_int_eq(open_xrcd(other, -1, 0, &anonymous), 0);
	ck_assert_int_eq(make_qp(IBV_QPT_XRC_RECV, mine, 0, &qp), 0);
	ck_assert_int_eq(open_qp(other, anonymous, qp.base.qpn, &their_qp), -EINVAL);
	ck_assert_int_eq(open_qp(other, theirs, qp.base.qpn + 1, &their_qp), -EINVAL);
	ck_assert_int_eq(open_qp(other, theirs, qp.base.qpn, &their_qp), 0);
	ck_assert_int_eq(close_qp(fd, qp.base.qp_handle), 0);
	/* it lives as long as the other has it */
	ck_assert_int_eq(open_qp(fd, mine, qp.base.qpn, &qp.base.qp_handle), 0);
	ck_assert_int_eq(close_qp(fd, qp.base.qp_handle), 0);
	/* who came to the domain by a handle holds that, and no other */
	ck_assert_int_eq(util_destroy(other, IB_USER_VERBS_CMD_CLOSE_XRCD, theirs),
			 -EBUSY);
	ck_assert_int_eq(util_destroy(fd, IB_USER_VERBS_CMD_CLOSE_XRCD, mine), 0);
	/* the context that made it goes before the last user of its domain */
	util_close(fd);
	util_close(async);
	ck_assert_int_eq(close_qp(other, their_qp), 0);
	ck_assert_int_eq(util_destroy(other, IB_USER_VERBS_CMD_CLOSE_XRCD, theirs), 0);
	ck_assert_int_eq(open_xrcd(other, file, 0, &theirs), -EAGAIN);
	fd = other;
	async = other_async;
}
END_TEST

START_TEST(extended_query_device)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_ex_cmd_hdr ex;
		struct ib_uverbs_ex_query_device cmd;
	} r;
	struct ib_uverbs_ex_query_device_resp resp;

	memset(&r, 0, sizeof(r));
	r.hdr = (struct ib_uverbs_cmd_hdr){EX | IB_USER_VERBS_EX_CMD_QUERY_DEVICE, 1,
					   sizeof(resp) / 8};
	r.ex.response = (uintptr_t)&resp;
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), sizeof(r));
	ck_assert_uint_eq(resp.response_length, sizeof(resp));
	ck_assert_uint_ne(resp.odp_caps.general_caps, 0);
	ck_assert_uint_eq(resp.base.phys_port_cnt, 1);
	ck_assert_uint_ne(resp.base.node_guid, 0);
	/* a short answer ends where there is no more room */
	r.hdr.out_words =
	    (offsetof(struct ib_uverbs_ex_query_device_resp, response_length) + 4) / 8;
	memset(&resp, 0xee, sizeof(resp));
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), sizeof(r));
	ck_assert_uint_eq(resp.odp_caps.general_caps, 0xeeeeeeeeeeeeeeeeu);
	r.cmd.comp_mask = 1;
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), -EINVAL);
	r.cmd.comp_mask = 0;
	r.ex.cmd_hdr_reserved = 1;
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), -EINVAL);
	r.ex.cmd_hdr_reserved = 0;
	r.ex.response = 0;
	ck_assert_int_eq(util_write(fd, &r, sizeof(r)), -EINVAL);
}
END_TEST

/* --- noise ------------------------------------------------------------------------ */

static unsigned int seed;

static uint32_t rnd(void)
{
	return (uint32_t)rand_r(&seed) << 16 ^ (uint32_t)rand_r(&seed);
}

/*
 * Words as programs use them: handles, sizes, flags, pointers that are good and that are
 * not
 */
static void fill(uint8_t *p, size_t len)
{
	static uint8_t scratch[65536];

	for (size_t i = 0; i + 4 <= len; i += 4) {
		uint64_t ptr = (uintptr_t)(scratch + rnd() % 32768);
		uint32_t v = rnd() % 4 ? rnd() % 24 : rnd();

		if (i % 8 == 0 && i + 8 <= len && rnd() % 4 == 0) {
			memcpy(p + i, rnd() % 8 ? &ptr : &(uint64_t){rnd()}, 8);
			i += 4;
		} else {
			memcpy(p + i, &v, 4);
		}
	}
}

/* Descriptors that noise made, so that it does not run out of them */
static void close_above(int first)
{
	for (int i = first; i < 512; i++) {
		struct vfile *vf = vfile_get(i);

		if (vf) {
			vfile_put(vf);
			util_close(i);
		}
	}
}

/* Sizes with which a command gets as far as its handles: request and answer in words */
static const struct shape {
	uint8_t number, in, out;
} shapes[] = {
    {IB_USER_VERBS_CMD_QUERY_DEVICE, 2, 44},
    {IB_USER_VERBS_CMD_QUERY_PORT, 4, 10},
    {IB_USER_VERBS_CMD_ALLOC_PD, 2, 1},
    {IB_USER_VERBS_CMD_DEALLOC_PD, 1, 0},
    {IB_USER_VERBS_CMD_CREATE_AH, 16, 4},
    {IB_USER_VERBS_CMD_DESTROY_AH, 1, 0},
    {IB_USER_VERBS_CMD_REG_MR, 10, 3},
    {IB_USER_VERBS_CMD_REREG_MR, 12, 2},
    {IB_USER_VERBS_CMD_DEREG_MR, 1, 0},
    {IB_USER_VERBS_CMD_ALLOC_MW, 4, 2},
    {IB_USER_VERBS_CMD_DEALLOC_MW, 1, 0},
    {IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, 2, 1},
    {IB_USER_VERBS_CMD_CREATE_CQ, 8, 6},
    {IB_USER_VERBS_CMD_RESIZE_CQ, 4, 6},
    {IB_USER_VERBS_CMD_DESTROY_CQ, 4, 4},
    {IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, 2, 0},
    {IB_USER_VERBS_CMD_CREATE_QP, 14, 16},
    {IB_USER_VERBS_CMD_QUERY_QP, 4, 46},
    {IB_USER_VERBS_CMD_MODIFY_QP, 28, 0},
    {IB_USER_VERBS_CMD_DESTROY_QP, 4, 1},
    {IB_USER_VERBS_CMD_POST_SEND, 6, 1},
    {IB_USER_VERBS_CMD_ATTACH_MCAST, 6, 0},
    {IB_USER_VERBS_CMD_DETACH_MCAST, 6, 0},
    {IB_USER_VERBS_CMD_CREATE_SRQ, 10, 10},
    {IB_USER_VERBS_CMD_MODIFY_SRQ, 6, 0},
    {IB_USER_VERBS_CMD_QUERY_SRQ, 4, 4},
    {IB_USER_VERBS_CMD_DESTROY_SRQ, 4, 1},
    {IB_USER_VERBS_CMD_OPEN_XRCD, 4, 1},
    {IB_USER_VERBS_CMD_CLOSE_XRCD, 1, 0},
    {IB_USER_VERBS_CMD_CREATE_XSRQ, 12, 10},
    {IB_USER_VERBS_CMD_OPEN_QP, 8, 8},
};

struct noise {
	struct ib_uverbs_cmd_hdr hdr;
	uint8_t body[400];
} __attribute__((aligned(8)));

/* Of the right size, mostly; the bytes of the request */
static size_t legacy_noise(struct noise *r)
{
	static uint8_t answer[1024];
	const struct shape *s = &shapes[rnd() % (sizeof(shapes) / sizeof(shapes[0]))];
	bool exact = rnd() % 4 != 0;
	uint64_t ptr = (uintptr_t)answer;
	size_t words = 2 + (exact ? s->in : rnd() % 60);

	fill(r->body, sizeof(r->body));
	if (s->out && rnd() % 16)
		memcpy(r->body, &ptr, sizeof(ptr));
	r->hdr.command = s->number;
	r->hdr.in_words = (uint16_t)words;
	r->hdr.out_words = (uint16_t)(exact ? s->out : rnd() % 64);
	return words * 4;
}

static size_t extended_noise(struct noise *r)
{
	struct ib_uverbs_ex_cmd_hdr *h = (void *)r->body;

	fill(r->body, sizeof(r->body));
	r->hdr.command = EX | rnd() % 64;
	h->provider_in_words = rnd() % 4 ? 0 : rnd() % 4;
	h->provider_out_words = rnd() % 8;
	h->cmd_hdr_reserved = 0;
	r->hdr.in_words = (uint16_t)(rnd() % 20);
	r->hdr.out_words = (uint16_t)(rnd() % 50);
	return (r->hdr.in_words + (size_t)h->provider_in_words) * 8 + 24;
}

START_TEST(noise_does_no_harm)
{
	int first = dup(0), ran = 0;
	struct noise r;

	seed = (unsigned int)_i;
	util_pd(fd);
	util_cq(fd, -1, 0);
	for (int i = 0; i < 20000; i++) {
		size_t len = rnd() % 8 ? legacy_noise(&r) : extended_noise(&r);

		ran += util_write(fd, &r, len) > 0;
		if (i % 64 == 0)
			close_above(first + 1);
	}
	close_above(first + 1);
	ck_assert_int_gt(ran, 1000);
	util_pd(fd);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_loop_test(tc, malformed_commands_are_refused, 0,
			    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(tc, bad_pointers_are_refused);
	tcase_add_test(tc, request_that_ends_in_the_void);
	tcase_add_test(tc, before_get_context);
	tcase_add_test(tc, unknown_handles_are_refused);
	tcase_add_test(tc, handles_end_with_their_table);
	tcase_add_test(tc, what_is_behind_a_request_must_be_zero);
	tcase_add_test(tc, short_requests_are_filled_with_zeros);
	tcase_add_test(tc, room_behind_an_answer_is_zeroed);
	tcase_add_test(tc, objects_in_use_are_busy);
	tcase_add_test(tc, what_a_qp_becomes_is_checked);
	tcase_add_test(tc, extended_queue_pairs_have_what_rxe_has);
	tcase_add_test(tc, answers_of_the_provider_are_asked_for);
	tcase_add_test(tc, a_closed_context_leaves_nothing);
	tcase_add_test(tc, completion_events_are_reported);
	tcase_add_test(tc, xrc_is_shared);
	tcase_add_test(tc, extended_query_device);
	tcase_add_loop_test(tc, noise_does_no_harm, 0, 4);
}

int main(void)
{
	return util_run("uverbs_write", add);
}
