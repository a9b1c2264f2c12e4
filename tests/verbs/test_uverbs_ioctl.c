/*
 * Description: methods by ioctl(2): attributes are checked as the kernel checks them, and
 * what is not there answers so that libibverbs falls back to write(2).
 */
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/mman.h>

#include "tests/verbs/util.h"

#define MAX 40

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

/* A request being built */
static struct {
	struct ib_uverbs_ioctl_hdr hdr;
	struct ib_uverbs_attr attr[MAX];
} r;

static void begin(uint16_t object, uint16_t method)
{
	memset(&r, 0, sizeof(r));
	r.hdr.object_id = object;
	r.hdr.method_id = method;
	r.hdr.driver_id = RDMA_DRIVER_RXE;
}

static struct ib_uverbs_attr *add_attr(uint16_t id, uint16_t len, uint64_t data)
{
	struct ib_uverbs_attr *a = &r.attr[r.hdr.num_attrs++];

	a->attr_id = id;
	a->len = len;
	a->flags = UVERBS_ATTR_F_MANDATORY;
	a->data = data;
	return a;
}

static int go(void)
{
	r.hdr.length = (uint16_t)(sizeof(r.hdr) + r.hdr.num_attrs * sizeof(r.attr[0]));
	return util_ioctl(fd, RDMA_VERBS_IOCTL, &r);
}

#define PTR(p) ((uint64_t)(uintptr_t)(p))

START_TEST(wrong_headers_are_refused)
{
	begin(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	ck_assert_int_eq(util_ioctl(fd, 0x1234, &r), -ENOTTY);
	ck_assert_int_eq(util_ioctl(fd, RDMA_VERBS_IOCTL, BAD_PTR), -EFAULT);
	r.hdr.length = sizeof(r.hdr) + 1;
	ck_assert_int_eq(util_ioctl(fd, RDMA_VERBS_IOCTL, &r), -EINVAL);
	r.hdr.num_attrs = UINT16_MAX;
	ck_assert_int_eq(go(), -EINVAL);
	r.hdr.num_attrs = 400; /* more than a page */
	ck_assert_int_eq(go(), -EINVAL);
	begin(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	r.hdr.reserved2 = 1;
	ck_assert_int_eq(go(), -EPROTONOSUPPORT);
	r.hdr.reserved2 = 0;
	r.hdr.driver_id = RDMA_DRIVER_MLX5;
	ck_assert_int_eq(go(), -EINVAL);
}
END_TEST

START_TEST(what_is_not_there)
{
	begin(UVERBS_OBJECT_DM, UVERBS_METHOD_DM_ALLOC);
	ck_assert_int_eq(go(), -EPROTONOSUPPORT);
	begin(UVERBS_OBJECT_DEVICE, 77);
	ck_assert_int_eq(go(), -EPROTONOSUPPORT);
	begin(0x1001, 1); /* of a driver */
	ck_assert_int_eq(go(), -EPROTONOSUPPORT);
}
END_TEST

/*
 * has_ioctl_write() of libibverbs: any error but EPROTONOSUPPORT and ENOTTY, before
 * GET_CONTEXT
 */
START_TEST(probe_for_invoke_write)
{
	int old = fd;

	fd = uverbs_open(0, O_RDWR);
	begin(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	add_attr(UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_QUERY_DEVICE);
	ck_assert_int_eq(go(), -ENOSPC);
	begin(UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY);
	add_attr(UVERBS_ATTR_DESTROY_PD_HANDLE, 0, 0);
	ck_assert_int_eq(go(), -EINVAL);
	util_close(fd);
	fd = old;
}
END_TEST

START_TEST(wrong_attributes_are_refused)
{
	struct ib_uverbs_query_port_resp_ex resp;
	uint32_t speed;

	begin(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT);
	ck_assert_int_eq(go(), -EINVAL); /* both missing */
	add_attr(UVERBS_ATTR_QUERY_PORT_PORT_NUM, 8, 1);
	ck_assert_int_eq(go(), -EINVAL);
	add_attr(UVERBS_ATTR_QUERY_PORT_RESP, sizeof(resp), PTR(&resp));
	ck_assert_int_eq(go(), 0);
	ck_assert_uint_eq(resp.legacy_resp.link_layer, IBV_LINK_LAYER_ETHERNET);
	ck_assert_uint_eq(resp.legacy_resp.flags, IB_UVERBS_QPF_GRH_REQUIRED);
	/* later libibverbs read the speed (SDR) in the last four bytes */
	memcpy(&speed, (uint8_t *)&resp + sizeof(resp) - sizeof(speed), sizeof(speed));
	ck_assert_uint_eq(speed, 1);
	ck_assert_uint_ne(r.attr[1].flags & UVERBS_ATTR_F_VALID_OUTPUT, 0);
	/* unknown: fatal if mandatory, ignored if not */
	add_attr(30, 8, 0);
	ck_assert_int_eq(go(), -EPROTONOSUPPORT);
	r.attr[2].flags = 0;
	ck_assert_int_eq(go(), 0);
	/* twice */
	r.attr[2] = r.attr[0];
	ck_assert_int_eq(go(), -EINVAL);
	r.hdr.num_attrs = 2;
	/* sizes, reserved bits, pointers, values */
	r.attr[0].len = 4;
	ck_assert_int_eq(go(), -EINVAL);
	r.attr[0].len = 16; /* a number is never behind a pointer */
	ck_assert_int_eq(go(), -EINVAL);
	r.attr[0] = (struct ib_uverbs_attr){
	    .attr_id = UVERBS_ATTR_QUERY_PORT_PORT_NUM, .len = 8, .data = 2};
	ck_assert_int_eq(go(), -EINVAL);
	r.attr[0].data = 1;
	r.attr[0].attr_data.reserved = 1;
	ck_assert_int_eq(go(), -EINVAL);
	r.attr[0].attr_data.reserved = 0;
	r.attr[1].len = 8;
	ck_assert_int_eq(go(), -EINVAL);
	r.attr[1].len = sizeof(resp);
	r.attr[1].data = PTR(BAD_PTR);
	ck_assert_int_eq(go(), -EFAULT);
}
END_TEST

START_TEST(the_gid_table_is_told)
{
	struct ib_uverbs_gid_entry e[64], one;
	uint64_t n = 0;

	begin(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE);
	add_attr(UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 8, sizeof(e[0]));
	add_attr(UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 4, 0);
	add_attr(UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, sizeof(e), PTR(e));
	add_attr(UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8, PTR(&n));
	ck_assert_int_eq(go(), 0);
	ck_assert_uint_ge(n, 1);
	ck_assert_uint_eq(e[0].gid_type, IB_UVERBS_GID_TYPE_ROCE_V2);
	ck_assert_uint_eq(e[0].netdev_ifindex, 1);		 /* lo */
	ck_assert_uint_eq(e[0].gid[1] & 0xffffffff, 0xffff0000); /* ::ffff:127.0.0.1 */
	r.attr[2].len = 0;
	ck_assert_int_eq(go(), -EINVAL);
	r.attr[2].len = sizeof(e);
	r.attr[0].data = 0;
	ck_assert_int_eq(go(), -EINVAL);
	r.attr[0].data = UINT64_MAX;
	ck_assert_int_eq(go(), -EINVAL);

	begin(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY);
	add_attr(UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 8, 1);
	add_attr(UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, 8, 0);
	add_attr(UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 4, 0);
	add_attr(UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, sizeof(one), PTR(&one));
	ck_assert_int_eq(go(), 0);
	ck_assert_mem_eq(&one, &e[0], sizeof(one));
	r.attr[1].data = 60;
	ck_assert_int_eq(go(), -ENODATA);
	r.attr[1].data = 64;
	ck_assert_int_eq(go(), -EINVAL);
	r.attr[1].data = 0;
	r.attr[0].data = 2;
	ck_assert_int_eq(go(), -EINVAL);
}
END_TEST

static int make_cq(struct rxe_create_cq_resp *hw, uint32_t *cqe)
{
	begin(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE);
	add_attr(UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 0);
	add_attr(UVERBS_ATTR_CREATE_CQ_CQE, 4, 10);
	add_attr(UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8, 5);
	add_attr(UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4, 0);
	add_attr(UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4, PTR(cqe));
	add_attr(UVERBS_ATTR_CREATE_CQ_EVENT_FD, 0, (uint64_t)async);
	add_attr(UVERBS_ATTR_UHW_OUT, sizeof(*hw), PTR(hw));
	return go();
}

START_TEST(a_cq_is_made_and_ended)
{
	struct ib_uverbs_destroy_cq_resp resp = {.comp_events_reported = 9};
	struct rxe_create_cq_resp hw = {0};
	uint64_t handle;
	uint32_t cqe = 0;

	ck_assert_int_eq(make_cq(&hw, &cqe), 0);
	handle = r.attr[0].data;
	ck_assert_uint_ge(cqe, 10);
	ck_assert_uint_ne(hw.mi.size, 0);
	/* what cannot be answered was not created: the handle is free again */
	ck_assert_int_eq(make_cq(&hw, BAD_PTR), -EFAULT);
	ck_assert_int_eq(make_cq(BAD_PTR, &cqe), -EFAULT);
	ck_assert_int_eq(make_cq(&hw, &cqe), 0);
	ck_assert_uint_eq(r.attr[0].data, handle + 1);
	r.attr[5].data = 0; /* no event file */
	ck_assert_int_eq(go(), -EBADF);
	begin(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY);
	add_attr(UVERBS_ATTR_DESTROY_CQ_HANDLE, 0, handle);
	ck_assert_int_eq(go(), -EINVAL);
	add_attr(UVERBS_ATTR_DESTROY_CQ_RESP, sizeof(resp), PTR(&resp));
	r.attr[0].data = (uint64_t)-1;
	ck_assert_int_eq(go(), -EINVAL);
	r.attr[0].data = handle;
	ck_assert_int_eq(go(), 0);
	ck_assert_uint_eq(resp.comp_events_reported, 0);
	ck_assert_int_eq(go(), -ENOENT);
}
END_TEST

/* A structure that is longer than ours is good while what is beyond is zero. */
START_TEST(longer_structures_are_good_if_zero_beyond)
{
	struct rxe_create_cq_resp chw;
	struct rxe_create_qp_resp hw;
	struct ib_uverbs_qp_cap got;
	uint32_t pd = util_pd(fd), cqe, qpn;
	struct {
		struct ib_uverbs_qp_cap cap;
		uint32_t more[200];
	} cap = {{4, 4, 1, 1, 0}, {0}};
	uint64_t cq_handle;

	ck_assert_int_eq(make_cq(&chw, &cqe), 0);
	cq_handle = r.attr[0].data;
	begin(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE);
	add_attr(UVERBS_ATTR_CREATE_QP_HANDLE, 0, 0);
	add_attr(UVERBS_ATTR_CREATE_QP_CAP, sizeof(cap), PTR(&cap));
	add_attr(UVERBS_ATTR_CREATE_QP_PD_HANDLE, 0, pd);
	add_attr(UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, 0, cq_handle);
	add_attr(UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, 0, cq_handle);
	add_attr(UVERBS_ATTR_CREATE_QP_USER_HANDLE, 8, 1);
	add_attr(UVERBS_ATTR_CREATE_QP_TYPE, 8, IBV_QPT_RC);
	add_attr(UVERBS_ATTR_CREATE_QP_RESP_CAP, sizeof(got), PTR(&got));
	add_attr(UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4, PTR(&qpn));
	add_attr(UVERBS_ATTR_UHW_OUT, sizeof(hw), PTR(&hw));
	ck_assert_int_eq(go(), 0);
	ck_assert_uint_ge(got.max_send_wr, 4);
	cap.more[199] = 1u << 31;
	ck_assert_int_eq(go(), -EOPNOTSUPP);
	r.attr[1].len--; /* all but the byte that is not zero */
	ck_assert_int_eq(go(), 0);
	r.attr[1].len++;
	r.attr[1].data = PTR(BAD_PTR);
	ck_assert_int_eq(go(), -EFAULT);
	r.attr[1].data = PTR(&cap);
	r.attr[1].len = 8;
	ck_assert_int_eq(go(), -EINVAL);
	r.attr[1].len = sizeof(cap.cap);
	r.attr[6].data = IBV_QPT_RAW_PACKET;
	ck_assert_int_eq(go(), -EOPNOTSUPP);
	r.attr[6].data = IBV_QPT_XRC_RECV; /* wants an XRCD */
	ck_assert_int_eq(go(), -EINVAL);
}
END_TEST

/* struct ib_uverbs_reg_mr by INVOKE_WRITE; 0 or -errno */
static int reg_mr(uint32_t pd, void *addr, size_t len, uint32_t access,
		  struct ib_uverbs_reg_mr_resp *resp)
{
	struct ib_uverbs_reg_mr cmd = {
	    .start = PTR(addr),
	    .hca_va = PTR(addr),
	    .length = len,
	    .pd_handle = pd,
	    .access_flags = access,
	};

	begin(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE);
	add_attr(UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_REG_MR);
	add_attr(UVERBS_ATTR_CORE_IN, sizeof(cmd), PTR(&cmd));
	add_attr(UVERBS_ATTR_CORE_OUT, sizeof(*resp), PTR(resp));
	return go();
}

static int advise(uint32_t pd, uint64_t advice, uint32_t flags, const struct ibv_sge *sge,
		  size_t len)
{
	begin(UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR);
	add_attr(UVERBS_ATTR_ADVISE_MR_PD_HANDLE, 0, pd);
	add_attr(UVERBS_ATTR_ADVISE_MR_ADVICE, 8, advice);
	add_attr(UVERBS_ATTR_ADVISE_MR_FLAGS, 4, flags);
	add_attr(UVERBS_ATTR_ADVISE_MR_SGE_LIST, (uint16_t)len, PTR(sge));
	return go();
}

START_TEST(mr_and_advice)
{
	size_t len = 16 * 4096;
	uint8_t *p =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ib_uverbs_reg_mr_resp mr, pinned;
	struct odp_counters c;
	struct uverbs_context *ctx = uverbs_lookup(fd);
	uint32_t pd = util_pd(fd), lkey, rkey;
	uint64_t mr_len, iova;
	struct ibv_sge sge;

	ck_assert_int_eq(
	    reg_mr(pd, p, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND, &mr), 0);
	ck_assert_int_eq(reg_mr(pd, p, len, IBV_ACCESS_RELAXED_ORDERING, &pinned), 0);
	ck_assert_int_eq(reg_mr(pd, p, len, IBV_ACCESS_REMOTE_WRITE, &pinned), -EINVAL);
	ck_assert_int_eq(reg_mr(99, p, len, 0, &pinned), -EINVAL);

	begin(UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR);
	add_attr(UVERBS_ATTR_QUERY_MR_HANDLE, 0, mr.mr_handle);
	add_attr(UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4, PTR(&lkey));
	add_attr(UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4, PTR(&rkey));
	add_attr(UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8, PTR(&mr_len));
	add_attr(UVERBS_ATTR_QUERY_MR_RESP_IOVA, 8, PTR(&iova));
	ck_assert_int_eq(go(), 0);
	ck_assert_uint_eq(lkey, mr.lkey);
	ck_assert_uint_eq(mr_len, len);
	ck_assert_uint_eq(iova, PTR(p));

	sge = (struct ibv_sge){PTR(p), (uint32_t)len, mr.lkey};
	ck_assert_int_eq(advise(pd, 0, 1, &sge, sizeof(sge)), 0);
	odp_domain_counters(engine_odp(ctx->engine), &c);
	ck_assert_uint_eq(c.pages_prefetched, 16);
	ck_assert_int_eq(advise(pd, 0, 0, &sge, sizeof(sge)), 0);
	ck_assert_int_eq(advise(pd, 3, 1, &sge, sizeof(sge)), -EOPNOTSUPP);
	ck_assert_int_eq(advise(pd, 3, 2, &sge, sizeof(sge)), -EINVAL);
	ck_assert_int_eq(advise(pd, 0, 2, &sge, sizeof(sge)), -EINVAL);
	ck_assert_int_eq(advise(pd, 0, 1, &sge, 8), -EINVAL);
	ck_assert_int_eq(advise(pd, 0, 1, &sge, 24), -EINVAL);
	ck_assert_int_eq(advise(pd, 0, 1, BAD_PTR, sizeof(sge)), -EFAULT);
	ck_assert_int_eq(advise(99, 0, 1, &sge, sizeof(sge)), -EINVAL);
	sge.addr += 4096;
	ck_assert_int_eq(advise(pd, 0, 1, &sge, sizeof(sge)), -EFAULT);
	sge.lkey ^= 0x100000;
	ck_assert_int_lt(advise(pd, 0, 1, &sge, sizeof(sge)), 0);
	vfile_put(&ctx->vf);
	begin(UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY);
	add_attr(UVERBS_ATTR_DESTROY_MR_HANDLE, 0, mr.mr_handle);
	ck_assert_int_eq(go(), 0);
	ck_assert_int_eq(go(), -ENOENT);
}
END_TEST

/* --- noise ------------------------------------------------------------------------ */

static unsigned int seed;

static uint32_t rnd(void)
{
	return (uint32_t)rand_r(&seed) << 16 ^ (uint32_t)rand_r(&seed);
}

/* The attributes of a method are numbered from 0: give it most of them. */
static void noise_attrs(void)
{
	static uint8_t scratch[65536];
	unsigned int n = rnd() % 16;

	for (unsigned int i = 0; i < n; i++) {
		static const uint16_t lens[] = {0, 4, 8, 16, 20, 32, 48, 64, 1024};
		uint16_t len = lens[rnd() % 9];
		uint64_t v = rnd() % 4 ? rnd() % 16 : PTR(scratch + rnd() % 32768);

		if (len > 8 || rnd() % 3 == 0)
			v = rnd() % 16 ? PTR(scratch + rnd() % 32768) : rnd();
		add_attr((uint16_t)i, len, v)->flags = (uint16_t)(rnd() % 2);
	}
	if (rnd() % 2)
		add_attr(UVERBS_ATTR_UHW_OUT, 64, PTR(scratch));
}

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

START_TEST(noise_does_no_harm)
{
	int first = dup(0), ran = 0;

	seed = (unsigned int)_i;
	util_pd(fd);
	util_cq(fd, -1, 0);
	for (int i = 0; i < 30000; i++) {
		begin((uint16_t)(rnd() % 18), (uint16_t)(rnd() % 8));
		noise_attrs();
		ran += go() == 0;
		if (i % 64 == 0)
			close_above(first + 1);
	}
	close_above(first + 1);
	ck_assert_int_gt(ran, 20);
	util_pd(fd);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, wrong_headers_are_refused);
	tcase_add_test(tc, what_is_not_there);
	tcase_add_test(tc, probe_for_invoke_write);
	tcase_add_test(tc, wrong_attributes_are_refused);
	tcase_add_test(tc, the_gid_table_is_told);
	tcase_add_test(tc, a_cq_is_made_and_ended);
	tcase_add_test(tc, longer_structures_are_good_if_zero_beyond);
	tcase_add_test(tc, mr_and_advice);
	tcase_add_loop_test(tc, noise_does_no_harm, 0, 4);
}

int main(void)
{
	return util_run("uverbs_ioctl", add);
}
