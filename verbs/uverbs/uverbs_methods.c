/*
 * uverbs_methods.c - the methods of RDMA_VERBS_IOCTL, and the table that says which there are
 * and which attributes they take. Attributes are checked against it before a method runs.
 */
#include <errno.h>
#include <net/if.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <string.h>

#include "verbs/uverbs/uverbs_convert.h"
#include "verbs/uverbs/uverbs_ioctl.h"

/* --- device methods --------------------------------------------------------------- */

static int invoke_write(struct uverbs_request *r)
{
	struct ib_uverbs_attr *in = uattr_of(r, UVERBS_ATTR_CORE_IN);
	struct ib_uverbs_attr *out = uattr_of(r, UVERBS_ATTR_CORE_OUT);
	struct uverbs_call c = {.ctx = r->ctx};
	int slot = uattr_slot(r->method, UVERBS_ATTR_CORE_OUT);
	uint64_t small, hw_small = r->hw_in.data;
	int ret;

	if (in) {
		small = in->data;
		c.in_len = in->len;
		c.in = in->len <= sizeof(small) ? (const void *)&small
						: (const void *)(uintptr_t)in->data;
	}
	if (r->hw_in.len) {
		c.hw_in_len = r->hw_in.len;
		c.hw_in = r->hw_in.len <= sizeof(hw_small)
			      ? (const void *)&hw_small
			      : (const void *)(uintptr_t)r->hw_in.data;
	}
	if (out) {
		c.out = (void *)(uintptr_t)out->data;
		c.out_len = out->len;
	}
	c.hw_out = (void *)(uintptr_t)r->hw_out.data;
	c.hw_out_len = r->hw_out.len;
	ret = uverbs_invoke(&c, (uint32_t)uattr_number(r, UVERBS_ATTR_WRITE_CMD));
	r->work = c.work;
	return ret || !out ? ret : uattr_set_flags(r, slot);
}

static int answer_context(struct uverbs_request *r, uint16_t vectors, uint16_t support)
{
	const uint64_t core = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
	int ret = uattr_put_u32(r, vectors, uverbs_comp_vectors());

	return ret ? ret : uattr_put(r, support, &core, sizeof(core));
}

static int get_context(struct uverbs_request *r)
{
	int ret;

	if (r->ctx->ready)
		return -EINVAL;
	ret = answer_context(r, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS,
			     UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT);
	return ret ? ret : uverbs_get_context(r->ctx);
}

static int query_context(struct uverbs_request *r)
{
	return answer_context(r, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS,
			      UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT);
}

/* struct ib_uverbs_query_port_resp_ex as later kernels have it: @speed was reserved before */
struct port_answer {
	struct ib_uverbs_query_port_resp legacy;
	uint16_t flags2;
	uint16_t reserved;
	uint32_t speed;
};
_Static_assert(sizeof(struct port_answer) == sizeof(struct ib_uverbs_query_port_resp_ex),
	       "it has grown");

static int query_port(struct uverbs_request *r)
{
	struct port_answer resp = {0};
	struct ibv_port_attr attr = {0};

	if ((uint8_t)uattr_number(r, UVERBS_ATTR_QUERY_PORT_PORT_NUM) != EMU_PORT)
		return -EINVAL;
	emu_query_port(r->ctx->hca, &attr);
	uverbs_from_port_attr(&attr, &resp.legacy);
	resp.flags2 = attr.port_cap_flags2;
	resp.speed = attr.active_speed;
	return uattr_put(r, UVERBS_ATTR_QUERY_PORT_RESP, &resp, sizeof(resp));
}

static bool gid_entry(struct uverbs_request *r, uint32_t index,
		      struct ib_uverbs_gid_entry *e)
{
	static const struct net_ip none;
	struct net_ip ip;

	if (emu_get_gid(r->ctx->hca, index, &ip) || net_ip_eq(&ip, &none))
		return false;
	*e = (struct ib_uverbs_gid_entry){
	    .gid_index = index,
	    .port_num = EMU_PORT,
	    .gid_type = emu_gid_is_v1(r->ctx->hca, index) ? IB_UVERBS_GID_TYPE_ROCE_V1
							  : IB_UVERBS_GID_TYPE_ROCE_V2,
	    .netdev_ifindex = if_nametoindex(r->ctx->dev->ifname),
	};
	memcpy(e->gid, ip.b, sizeof(e->gid));
	return true;
}

static int query_gid_entry(struct uverbs_request *r)
{
	uint32_t index = (uint32_t)uattr_number(r, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
	struct ib_uverbs_gid_entry e;

	if (uattr_number32(r, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS))
		return -EINVAL;
	if ((uint32_t)uattr_number(r, UVERBS_ATTR_QUERY_GID_ENTRY_PORT) != EMU_PORT ||
	    index >= EMU_GID_TABLE_LEN)
		return -EINVAL;
	if (!gid_entry(r, index, &e))
		return -ENODATA;
	return uattr_put(r, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &e, sizeof(e));
}

/* Entries of the size that the caller knows, which may be a later structure's */
static int query_gid_table(struct uverbs_request *r)
{
	struct ib_uverbs_attr *out =
	    uattr_of(r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
	uint64_t size = uattr_number(r, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
	struct uverbs_call c = {0};
	struct ib_uverbs_gid_entry e;
	uint64_t n = 0;
	int ret;

	if (uattr_number32(r, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS) || !size)
		return -EINVAL;
	for (uint32_t i = 0; i < EMU_GID_TABLE_LEN; i++) {
		if (!gid_entry(r, i, &e))
			continue;
		if ((n + 1) * size > out->len)
			return -EINVAL;
		c.out = (void *)(uintptr_t)(out->data + n * size);
		c.out_len = size;
		ret = uverbs_response(&c, &e, sizeof(e));
		if (ret)
			return ret;
		n++;
	}
	return uattr_put(r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n, sizeof(n));
}

static int async_event_alloc(struct uverbs_request *r)
{
	int fd = uverbs_make_channel(r->ctx, true);
	int ret;

	if (fd < 0)
		return fd;
	ret = uattr_put_new(r, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, fd);
	if (ret) {
		vfile_discard(fd);
	}
	return ret;
}

/* --- creation --------------------------------------------------------------------- */

/* All answers of a creation, or nothing was created */
static int finish_new(struct uverbs_request *r, struct uobject *o, uint16_t handle,
		      int err)
{
	if (!err)
		err = uattr_put_new(r, handle, o->handle);
	if (err)
		uverbs_undo(r->ctx, o);
	return err;
}

static int cq_create(struct uverbs_request *r)
{
	struct ib_uverbs_attr *comp = uattr_of(r, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL);
	struct uverbs_cq_args args = {
	    .user_handle = uattr_number(r, UVERBS_ATTR_CREATE_CQ_USER_HANDLE),
	    .cqe = uattr_number32(r, UVERBS_ATTR_CREATE_CQ_CQE),
	    .comp_vector = uattr_number32(r, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR),
	    .flags = uattr_number32(r, UVERBS_ATTR_CREATE_CQ_FLAGS),
	    .comp_fd = comp ? (int)comp->data_s64 : -1,
	};
	struct rxe_create_cq_resp hw;
	struct uobject *o;
	int ret;

	if (r->hw_out.len < sizeof(hw) || (comp && comp->data_s64 < 0))
		return -EINVAL;
	ret = uattr_event_fd(r, UVERBS_ATTR_CREATE_CQ_EVENT_FD, &args.async);
	if (ret)
		return ret;
	ret = uverbs_cq_create(r->ctx, &args, &o);
	uattr_event_fd_put(args.async);
	if (ret)
		return ret;
	hw.mi = uverbs_mminfo(emu_cq_ring(o->cq));
	ret = uattr_put_hw(r, &hw, sizeof(hw));
	if (!ret)
		ret = uattr_put_u32(r, UVERBS_ATTR_CREATE_CQ_RESP_CQE, emu_cq_cqe(o->cq));
	return finish_new(r, o, UVERBS_ATTR_CREATE_CQ_HANDLE, ret);
}

/*
 * Which handles a type of QP must name, beyond what uverbs_qp_create() finds out itself
 */
static int qp_args(struct uverbs_request *r, struct uverbs_qp_args *args)
{
	struct ib_uverbs_attr *cap = uattr_of(r, UVERBS_ATTR_CREATE_QP_CAP);
	uint32_t flags = uattr_number32(r, UVERBS_ATTR_CREATE_QP_FLAGS);
	struct ib_uverbs_qp_cap c;

	if (uattr_of(r, UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE) ||
	    uattr_of(r, UVERBS_ATTR_CREATE_QP_SOURCE_QPN) ||
	    flags & ~(uint32_t)IB_UVERBS_QP_CREATE_SQ_SIG_ALL)
		return -EOPNOTSUPP;
	if (uattr_read(cap, &c, sizeof(c)))
		return -EFAULT;
	*args = (struct uverbs_qp_args){
	    .user_handle = uattr_number(r, UVERBS_ATTR_CREATE_QP_USER_HANDLE),
	    .type = (enum ibv_qp_type)uattr_number(r, UVERBS_ATTR_CREATE_QP_TYPE),
	    .pd = uattr_number32(r, UVERBS_ATTR_CREATE_QP_PD_HANDLE),
	    .send_cq = uattr_number32(r, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE),
	    .recv_cq = uattr_number32(r, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE),
	    .srq = uattr_number32(r, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE),
	    .xrcd = uattr_number32(r, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE),
	    .has_srq = uattr_of(r, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE) != NULL,
	    .sq_sig_all = flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL,
	    .cap = {c.max_send_wr, c.max_recv_wr, c.max_send_sge, c.max_recv_sge,
		    c.max_inline_data},
	};
	if (args->type == IBV_QPT_XRC_RECV)
		return uattr_of(r, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE) ? 0 : -EINVAL;
	if (!uattr_of(r, UVERBS_ATTR_CREATE_QP_PD_HANDLE) ||
	    !uattr_of(r, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE) ||
	    (args->type != IBV_QPT_XRC_SEND &&
	     !uattr_of(r, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE)))
		return -EINVAL;
	return 0;
}

static int answer_qp(struct uverbs_request *r, struct uobject *o,
		     const struct uverbs_qp_args *args)
{
	const struct ib_uverbs_qp_cap cap = {
	    .max_send_wr = args->cap.max_send_wr,
	    .max_recv_wr = args->cap.max_recv_wr,
	    .max_send_sge = args->cap.max_send_sge,
	    .max_recv_sge = args->cap.max_recv_sge,
	    .max_inline_data = args->cap.max_inline_data,
	};
	const struct rxe_create_qp_resp hw = uverbs_qp_rings(r->ctx, o);
	int ret = uattr_put_hw(r, &hw, sizeof(hw));

	if (!ret)
		ret = uattr_put(r, UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap));
	if (!ret)
		ret = uattr_put_u32(r, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM,
				    emu_qp_num(o->qp));
	return finish_new(r, o, UVERBS_ATTR_CREATE_QP_HANDLE, ret);
}

static int qp_create(struct uverbs_request *r)
{
	struct uverbs_qp_args args;
	struct uobject *o;
	int ret;

	if (r->hw_out.len < sizeof(struct rxe_create_qp_resp))
		return -EINVAL;
	ret = qp_args(r, &args);
	if (!ret)
		ret = uattr_event_fd(r, UVERBS_ATTR_CREATE_QP_EVENT_FD, &args.async);
	if (ret)
		return ret;
	ret = uverbs_qp_create(r->ctx, &args, &o);
	uattr_event_fd_put(args.async);
	return ret ? ret : answer_qp(r, o, &args);
}

static int answer_srq(struct uverbs_request *r, struct uobject *o,
		      const struct uverbs_srq_args *args)
{
	const struct rxe_create_srq_resp hw = {
	    .mi = uverbs_mminfo(emu_srq_ring(o->srq)),
	    .srq_num = emu_srq_num(o->srq),
	};
	int ret = uattr_put_hw(r, &hw, sizeof(hw));

	if (!ret)
		ret = uattr_put_u32(r, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR,
				    args->attr.max_wr);
	if (!ret)
		ret = uattr_put_u32(r, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE,
				    args->attr.max_sge);
	if (!ret)
		ret = uattr_put_u32(r, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, hw.srq_num);
	return finish_new(r, o, UVERBS_ATTR_CREATE_SRQ_HANDLE, ret);
}

static int srq_create(struct uverbs_request *r)
{
	struct uverbs_srq_args args = {
	    .user_handle = uattr_number(r, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE),
	    .type = (uint32_t)uattr_number(r, UVERBS_ATTR_CREATE_SRQ_TYPE),
	    .pd = uattr_number32(r, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE),
	    .xrcd = uattr_number32(r, UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE),
	    .cq = uattr_number32(r, UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE),
	    .attr = {uattr_number32(r, UVERBS_ATTR_CREATE_SRQ_MAX_WR),
		     uattr_number32(r, UVERBS_ATTR_CREATE_SRQ_MAX_SGE),
		     uattr_number32(r, UVERBS_ATTR_CREATE_SRQ_LIMIT)},
	};
	struct uobject *o;
	int ret;

	if (r->hw_out.len < sizeof(struct rxe_create_srq_resp))
		return -EINVAL;
	if (args.type == IB_UVERBS_SRQT_XRC &&
	    (!uattr_of(r, UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE) ||
	     !uattr_of(r, UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE)))
		return -EINVAL;
	ret = uattr_event_fd(r, UVERBS_ATTR_CREATE_SRQ_EVENT_FD, &args.async);
	if (ret)
		return ret;
	ret = uverbs_srq_create(r->ctx, &args, &o);
	uattr_event_fd_put(args.async);
	return ret ? ret : answer_srq(r, o, &args);
}

/* --- destruction, MR -------------------------------------------------------------- */

/* The first attribute of a destroy method is the handle. */
static int destroy(struct uverbs_request *r, enum uobject_type type,
		   struct uverbs_reported *rep)
{
	return uverbs_destroy(r->ctx, type, (uint32_t)r->attr[0].data, rep);
}

static int pd_destroy(struct uverbs_request *r)
{
	return destroy(r, UOBJECT_PD, NULL);
}

static int mr_destroy(struct uverbs_request *r)
{
	return destroy(r, UOBJECT_MR, NULL);
}

static int mw_destroy(struct uverbs_request *r)
{
	return destroy(r, UOBJECT_MW, NULL);
}

static int ah_destroy(struct uverbs_request *r)
{
	return destroy(r, UOBJECT_AH, NULL);
}

static int xrcd_destroy(struct uverbs_request *r)
{
	return destroy(r, UOBJECT_XRCD, NULL);
}

static int cq_destroy(struct uverbs_request *r)
{
	struct ib_uverbs_destroy_cq_resp resp = {0};
	struct uverbs_reported rep;
	int ret = destroy(r, UOBJECT_CQ, &rep);

	if (ret)
		return ret;
	resp.comp_events_reported = rep.comp;
	resp.async_events_reported = rep.async;
	return uattr_put(r, UVERBS_ATTR_DESTROY_CQ_RESP, &resp, sizeof(resp));
}

static int qp_destroy(struct uverbs_request *r)
{
	struct ib_uverbs_destroy_qp_resp resp;
	struct uverbs_reported rep;
	int ret = destroy(r, UOBJECT_QP, &rep);

	if (ret)
		return ret;
	resp.events_reported = rep.async;
	return uattr_put(r, UVERBS_ATTR_DESTROY_QP_RESP, &resp, sizeof(resp));
}

static int srq_destroy(struct uverbs_request *r)
{
	struct ib_uverbs_destroy_srq_resp resp;
	struct uverbs_reported rep;
	int ret = destroy(r, UOBJECT_SRQ, &rep);

	if (ret)
		return ret;
	resp.events_reported = rep.async;
	return uattr_put(r, UVERBS_ATTR_DESTROY_SRQ_RESP, &resp, sizeof(resp));
}

static int query_mr(struct uverbs_request *r)
{
	struct uobject *o = uobject_find(&r->ctx->objects, UOBJECT_MR,
					 uattr_number32(r, UVERBS_ATTR_QUERY_MR_HANDLE));
	int ret;

	if (!o)
		return -EINVAL;
	ret = uattr_put_u32(r, UVERBS_ATTR_QUERY_MR_RESP_LKEY, emu_mr_lkey(o->mr));
	if (!ret)
		ret =
		    uattr_put_u32(r, UVERBS_ATTR_QUERY_MR_RESP_RKEY, emu_mr_rkey(o->mr));
	if (!ret)
		ret = uattr_put(r, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &o->length,
				sizeof(o->length));
	return ret ? ret
		   : uattr_put(r, UVERBS_ATTR_QUERY_MR_RESP_IOVA, &o->iova,
			       sizeof(o->iova));
}

static int advise_mr(struct uverbs_request *r)
{
	struct ib_uverbs_attr *list = uattr_of(r, UVERBS_ATTR_ADVISE_MR_SGE_LIST);

	if (list->len % sizeof(struct ibv_sge))
		return -EINVAL;
	return uverbs_advise_mr(r->ctx,
				uattr_number32(r, UVERBS_ATTR_ADVISE_MR_PD_HANDLE),
				(uint32_t)uattr_number(r, UVERBS_ATTR_ADVISE_MR_ADVICE),
				uattr_number32(r, UVERBS_ATTR_ADVISE_MR_FLAGS),
				(const struct ibv_sge *)(uintptr_t)list->data,
				list->len / sizeof(struct ibv_sge));
}

/* --- the table -------------------------------------------------------------------- */

#define M true
#define O false

static const struct uverbs_method methods[] = {
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_INVOKE_WRITE,
     invoke_write,
     true,
     false,
     {{UVERBS_ATTR_WRITE_CMD, ATTR_INT, M, 8},
      {UVERBS_ATTR_CORE_IN, ATTR_IN_MIN, O, 4},
      {UVERBS_ATTR_CORE_OUT, ATTR_OUT, O, 0}}},
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_GET_CONTEXT,
     get_context,
     true,
     false,
     {{UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, ATTR_OUT, O, 4},
      {UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, ATTR_OUT, O, 8}}},
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_QUERY_CONTEXT,
     query_context,
     false,
     false,
     {{UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, ATTR_OUT, O, 4},
      {UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, ATTR_OUT, O, 8}}},
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_QUERY_PORT,
     query_port,
     false,
     false,
     {{UVERBS_ATTR_QUERY_PORT_PORT_NUM, ATTR_INT, M, 8},
      {UVERBS_ATTR_QUERY_PORT_RESP, ATTR_OUT, M,
       offsetof(struct ib_uverbs_query_port_resp_ex, reserved)}}},
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_QUERY_GID_TABLE,
     query_gid_table,
     false,
     false,
     {{UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, ATTR_INT, M, 8},
      {UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, ATTR_INT, O, 4},
      {UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, ATTR_OUT, M, 0},
      {UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, ATTR_OUT, M, 8}}},
    {UVERBS_OBJECT_DEVICE,
     UVERBS_METHOD_QUERY_GID_ENTRY,
     query_gid_entry,
     false,
     false,
     {{UVERBS_ATTR_QUERY_GID_ENTRY_PORT, ATTR_INT, M, 8},
      {UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, ATTR_INT, M, 8},
      {UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, ATTR_INT, M, 4},
      {UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, ATTR_OUT, M,
       sizeof(struct ib_uverbs_gid_entry)}}},
    {UVERBS_OBJECT_ASYNC_EVENT,
     UVERBS_METHOD_ASYNC_EVENT_ALLOC,
     async_event_alloc,
     false,
     false,
     {{UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, ATTR_NEW_FD, M, 0}}},
    {UVERBS_OBJECT_CQ,
     UVERBS_METHOD_CQ_CREATE,
     cq_create,
     false,
     false,
     {{UVERBS_ATTR_CREATE_CQ_HANDLE, ATTR_NEW, M, 0},
      {UVERBS_ATTR_CREATE_CQ_CQE, ATTR_INT, M, 4},
      {UVERBS_ATTR_CREATE_CQ_USER_HANDLE, ATTR_INT, M, 8},
      {UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, ATTR_FD, O, 0},
      {UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, ATTR_INT, M, 4},
      {UVERBS_ATTR_CREATE_CQ_FLAGS, ATTR_INT, O, 4},
      {UVERBS_ATTR_CREATE_CQ_RESP_CQE, ATTR_OUT, M, 4},
      {UVERBS_ATTR_CREATE_CQ_EVENT_FD, ATTR_FD, O, 0}}},
    {UVERBS_OBJECT_CQ,
     UVERBS_METHOD_CQ_DESTROY,
     cq_destroy,
     false,
     false,
     {{UVERBS_ATTR_DESTROY_CQ_HANDLE, ATTR_IDR, M, 0},
      {UVERBS_ATTR_DESTROY_CQ_RESP, ATTR_OUT, M,
       sizeof(struct ib_uverbs_destroy_cq_resp)}}},
    {UVERBS_OBJECT_QP,
     UVERBS_METHOD_QP_CREATE,
     qp_create,
     false,
     false,
     {{UVERBS_ATTR_CREATE_QP_HANDLE, ATTR_NEW, M, 0},
      {UVERBS_ATTR_CREATE_QP_XRCD_HANDLE, ATTR_IDR, O, 0},
      {UVERBS_ATTR_CREATE_QP_PD_HANDLE, ATTR_IDR, O, 0},
      {UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, ATTR_IDR, O, 0},
      {UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, ATTR_IDR, O, 0},
      {UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, ATTR_IDR, O, 0},
      {UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE, ATTR_IDR, O, 0},
      {UVERBS_ATTR_CREATE_QP_USER_HANDLE, ATTR_INT, M, 8},
      {UVERBS_ATTR_CREATE_QP_CAP, ATTR_IN, M, sizeof(struct ib_uverbs_qp_cap)},
      {UVERBS_ATTR_CREATE_QP_TYPE, ATTR_INT, M, 8},
      {UVERBS_ATTR_CREATE_QP_FLAGS, ATTR_INT, O, 4},
      {UVERBS_ATTR_CREATE_QP_SOURCE_QPN, ATTR_INT, O, 4},
      {UVERBS_ATTR_CREATE_QP_EVENT_FD, ATTR_FD, O, 0},
      {UVERBS_ATTR_CREATE_QP_RESP_CAP, ATTR_OUT, M, sizeof(struct ib_uverbs_qp_cap)},
      {UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, ATTR_OUT, M, 4}}},
    {UVERBS_OBJECT_QP,
     UVERBS_METHOD_QP_DESTROY,
     qp_destroy,
     false,
     false,
     {{UVERBS_ATTR_DESTROY_QP_HANDLE, ATTR_IDR, M, 0},
      {UVERBS_ATTR_DESTROY_QP_RESP, ATTR_OUT, M,
       sizeof(struct ib_uverbs_destroy_qp_resp)}}},
    {UVERBS_OBJECT_SRQ,
     UVERBS_METHOD_SRQ_CREATE,
     srq_create,
     false,
     false,
     {{UVERBS_ATTR_CREATE_SRQ_HANDLE, ATTR_NEW, M, 0},
      {UVERBS_ATTR_CREATE_SRQ_PD_HANDLE, ATTR_IDR, M, 0},
      {UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE, ATTR_IDR, O, 0},
      {UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE, ATTR_IDR, O, 0},
      {UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, ATTR_INT, M, 8},
      {UVERBS_ATTR_CREATE_SRQ_MAX_WR, ATTR_INT, M, 4},
      {UVERBS_ATTR_CREATE_SRQ_MAX_SGE, ATTR_INT, M, 4},
      {UVERBS_ATTR_CREATE_SRQ_LIMIT, ATTR_INT, M, 4},
      {UVERBS_ATTR_CREATE_SRQ_MAX_NUM_TAGS, ATTR_INT, O, 4},
      {UVERBS_ATTR_CREATE_SRQ_TYPE, ATTR_INT, M, 8},
      {UVERBS_ATTR_CREATE_SRQ_EVENT_FD, ATTR_FD, O, 0},
      {UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, ATTR_OUT, M, 4},
      {UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, ATTR_OUT, M, 4},
      {UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, ATTR_OUT, O, 4}}},
    {UVERBS_OBJECT_SRQ,
     UVERBS_METHOD_SRQ_DESTROY,
     srq_destroy,
     false,
     false,
     {{UVERBS_ATTR_DESTROY_SRQ_HANDLE, ATTR_IDR, M, 0},
      {UVERBS_ATTR_DESTROY_SRQ_RESP, ATTR_OUT, M,
       sizeof(struct ib_uverbs_destroy_srq_resp)}}},
    {UVERBS_OBJECT_PD,
     UVERBS_METHOD_PD_DESTROY,
     pd_destroy,
     false,
     false,
     {{UVERBS_ATTR_DESTROY_PD_HANDLE, ATTR_IDR, M, 0}}},
    {UVERBS_OBJECT_MW,
     UVERBS_METHOD_MW_DESTROY,
     mw_destroy,
     false,
     false,
     {{UVERBS_ATTR_DESTROY_MW_HANDLE, ATTR_IDR, M, 0}}},
    {UVERBS_OBJECT_AH,
     UVERBS_METHOD_AH_DESTROY,
     ah_destroy,
     false,
     false,
     {{UVERBS_ATTR_DESTROY_AH_HANDLE, ATTR_IDR, M, 0}}},
    {UVERBS_OBJECT_XRCD,
     UVERBS_METHOD_XRCD_DESTROY,
     xrcd_destroy,
     false,
     false,
     {{UVERBS_ATTR_DESTROY_XRCD_HANDLE, ATTR_IDR, M, 0}}},
    {UVERBS_OBJECT_MR,
     UVERBS_METHOD_MR_DESTROY,
     mr_destroy,
     false,
     false,
     {{UVERBS_ATTR_DESTROY_MR_HANDLE, ATTR_IDR, M, 0}}},
    {UVERBS_OBJECT_MR,
     UVERBS_METHOD_QUERY_MR,
     query_mr,
     false,
     false,
     {{UVERBS_ATTR_QUERY_MR_HANDLE, ATTR_IDR, M, 0},
      {UVERBS_ATTR_QUERY_MR_RESP_LKEY, ATTR_OUT, M, 4},
      {UVERBS_ATTR_QUERY_MR_RESP_RKEY, ATTR_OUT, M, 4},
      {UVERBS_ATTR_QUERY_MR_RESP_LENGTH, ATTR_OUT, M, 8},
      {UVERBS_ATTR_QUERY_MR_RESP_IOVA, ATTR_OUT, O, 8}}},
    {UVERBS_OBJECT_MR,
     UVERBS_METHOD_ADVISE_MR,
     advise_mr,
     false,
     true,
     {{UVERBS_ATTR_ADVISE_MR_PD_HANDLE, ATTR_IDR, M, 0},
      {UVERBS_ATTR_ADVISE_MR_ADVICE, ATTR_INT, M, 8},
      {UVERBS_ATTR_ADVISE_MR_FLAGS, ATTR_INT, O, 4},
      {UVERBS_ATTR_ADVISE_MR_SGE_LIST, ATTR_IN_MIN, M, sizeof(struct ibv_sge)}}},
};

#undef M
#undef O

const struct uverbs_method *uverbs_find_method(uint16_t object, uint16_t id)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (methods[i].object == object && methods[i].id == id)
			return &methods[i];
	return NULL;
}
