/*
 * uverbs_ioctl.c - RDMA_VERBS_IOCTL: methods with typed attributes.
 *
 * Theory of operation
 *
 * A request is a header and an array of attributes. Each method has a table of those that
 * it knows; parsing goes through the array once, checks each against the table as the
 * kernel's uverbs_process_attr() does, and puts it at its place in struct request, so
 * that a method only picks what it needs. What must be told apart, since libibverbs
 * decides by it whether to try write(2) instead:
 *
 * - EPROTONOSUPPORT: no such object or method, or a mandatory attribute that we do not
 * know; never the answer of a method that ran;
 * - EINVAL: an attribute is malformed, twice there, or missing.
 */
#include <errno.h>
#include <net/if.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "odp/guard.h"
#include "verbs/uverbs.h"
#include "verbs/uverbs_convert.h"

#define PAGE_LIMIT 4096 /* bytes of a request, as PAGE_SIZE in the kernel */
#define MAX_ATTRS  ((PAGE_LIMIT - sizeof(struct ib_uverbs_ioctl_hdr)) / ATTR_SIZE)
#define ATTR_SIZE  sizeof(struct ib_uverbs_attr)
#define MAX_KNOWN  20

enum kind {
	ATTR_NONE,   /* the end of a table */
	ATTR_INT,    /* a number of @len to 8 bytes, in the attribute itself */
	ATTR_IN,     /* data of at least @len bytes; more must be zero */
	ATTR_IN_MIN, /* data of at least @len bytes */
	ATTR_OUT,    /* room for at least @len bytes */
	ATTR_IDR,    /* a handle */
	ATTR_NEW,    /* receives the handle of what is created */
	ATTR_FD,     /* a descriptor */
	ATTR_NEW_FD,
};

struct spec {
	uint16_t id;
	uint8_t kind;
	bool mandatory;
	uint16_t len;
};

struct request;

/*
 * struct method
 * @new_context: may run before GET_CONTEXT
 * @unlocked:	takes the engine lock itself
 */
struct method {
	uint16_t object, id;
	int (*run)(struct request *r);
	bool new_context, unlocked;
	struct spec attr[MAX_KNOWN];
};

/*
 * struct request - one that is being served
 * @user:	the attributes in the application's memory
 * @attr, @index: of each attribute in the method's table, its copy and its place in @user
 * @given:	bit i: attribute i of the table is there
 * @hw_in, @hw_out: UVERBS_ATTR_UHW_*, zero if not given
 */
struct request {
	struct uverbs_context *ctx;
	const struct method *method;
	struct ib_uverbs_attr *user;
	struct ib_uverbs_attr attr[MAX_KNOWN];
	uint16_t index[MAX_KNOWN];
	uint32_t given;
	struct ib_uverbs_attr hw_in, hw_out;
};

/* --- attributes ------------------------------------------------------------------- */

static int slot_of(const struct method *m, uint16_t id)
{
	for (int i = 0; i < MAX_KNOWN && m->attr[i].kind != ATTR_NONE; i++)
		if (m->attr[i].id == id)
			return i;
	return -1;
}

static struct ib_uverbs_attr *attr_of(struct request *r, uint16_t id)
{
	int i = slot_of(r->method, id);

	return i >= 0 && r->given & 1u << i ? &r->attr[i] : NULL;
}

/* Data of up to 8 bytes is in the attribute itself. */
static int read_data(const struct ib_uverbs_attr *a, void *buf, size_t len)
{
	if (a->len <= sizeof(a->data))
		memcpy(buf, &a->data, len);
	else if (guard_copy(buf, (const void *)(uintptr_t)a->data, len))
		return -EFAULT;
	return 0;
}

/* An integer attribute; 0 if it is not there */
static uint64_t number(struct request *r, uint16_t id)
{
	struct ib_uverbs_attr *a = attr_of(r, id);

	return a ? a->data : 0;
}

static uint32_t number32(struct request *r, uint16_t id)
{
	struct ib_uverbs_attr *a = attr_of(r, id);
	uint32_t v = 0;

	if (a)
		memcpy(&v, &a->data, sizeof(v));
	return v;
}

static int set_flags(struct request *r, int slot)
{
	uint16_t flags = r->attr[slot].flags | UVERBS_ATTR_F_VALID_OUTPUT;

	return guard_copy(&r->user[r->index[slot]].flags, &flags, sizeof(flags)) ? -EFAULT
										 : 0;
}

/*
 * Answer an attribute that may not be there; what is longer than the answer gets zeros.
 */
static int put(struct request *r, uint16_t id, const void *buf, size_t len)
{
	struct uverbs_call out = {0};
	int i = slot_of(r->method, id);
	int err;

	if (i < 0 || !(r->given & 1u << i))
		return 0;
	out.out = (void *)(uintptr_t)r->attr[i].data;
	out.out_len = r->attr[i].len;
	err = uverbs_response(&out, buf, len);
	return err ? err : set_flags(r, i);
}

static int put_u32(struct request *r, uint16_t id, uint32_t v)
{
	return put(r, id, &v, sizeof(v));
}

/* The handle or descriptor of a new object */
static int put_new(struct request *r, uint16_t id, int64_t value)
{
	int i = slot_of(r->method, id);

	return guard_copy(&r->user[r->index[i]].data_s64, &value, sizeof(value)) ? -EFAULT
										 : 0;
}

static int put_hw(struct request *r, const void *buf, size_t len)
{
	size_t n = r->hw_out.len < len ? r->hw_out.len : len;

	return n && guard_copy((void *)(uintptr_t)r->hw_out.data, buf, n) ? -EFAULT : 0;
}

/*
 * Optional attribute with the descriptor of an asynchronous event file; a reference, or
 * NULL
 */
static int event_fd(struct request *r, uint16_t id, struct event_channel **out)
{
	struct ib_uverbs_attr *a = attr_of(r, id);

	*out = NULL;
	if (!a)
		return 0;
	*out = event_channel_lookup((int)a->data_s64);
	if (*out && (*out)->async)
		return 0;
	if (*out)
		event_channel_put(*out);
	return -EBADF;
}

static void put_event_fd(struct event_channel *ch)
{
	if (ch)
		event_channel_put(ch);
}

/* --- device methods --------------------------------------------------------------- */

static int invoke_write(struct request *r)
{
	struct ib_uverbs_attr *in = attr_of(r, UVERBS_ATTR_CORE_IN);
	struct ib_uverbs_attr *out = attr_of(r, UVERBS_ATTR_CORE_OUT);
	struct uverbs_call c = {.ctx = r->ctx};
	int slot = slot_of(r->method, UVERBS_ATTR_CORE_OUT);
	uint64_t small, hw_small = r->hw_in.data;
	int err;

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
	err = uverbs_invoke(&c, (uint32_t)number(r, UVERBS_ATTR_WRITE_CMD));
	return err || !out ? err : set_flags(r, slot);
}

static int answer_context(struct request *r, uint16_t vectors, uint16_t support)
{
	const uint64_t core = IB_UVERBS_CORE_SUPPORT_OPTIONAL_MR_ACCESS;
	int err = put_u32(r, vectors, uverbs_comp_vectors());

	return err ? err : put(r, support, &core, sizeof(core));
}

static int get_context(struct request *r)
{
	int err;

	if (r->ctx->ready)
		return -EINVAL;
	err = answer_context(r, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS,
			     UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT);
	return err ? err : uverbs_get_context(r->ctx);
}

static int query_context(struct request *r)
{
	return answer_context(r, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS,
			      UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT);
}

static int query_port(struct request *r)
{
	struct ib_uverbs_query_port_resp_ex resp = {0};
	struct ibv_port_attr attr = {0};

	if ((uint8_t)number(r, UVERBS_ATTR_QUERY_PORT_PORT_NUM) != EMU_PORT)
		return -EINVAL;
	emu_query_port(r->ctx->hca, &attr);
	uverbs_from_port_attr(&attr, &resp.legacy_resp);
	resp.port_cap_flags2 = attr.port_cap_flags2;
	return put(r, UVERBS_ATTR_QUERY_PORT_RESP, &resp, sizeof(resp));
}

static bool gid_entry(struct request *r, uint32_t index, struct ib_uverbs_gid_entry *e)
{
	static const struct net_ip none;
	struct net_ip ip;

	if (emu_get_gid(r->ctx->hca, index, &ip) || net_ip_eq(&ip, &none))
		return false;
	*e = (struct ib_uverbs_gid_entry){
	    .gid_index = index,
	    .port_num = EMU_PORT,
	    .gid_type = IB_UVERBS_GID_TYPE_ROCE_V2,
	    .netdev_ifindex = if_nametoindex(r->ctx->dev->ifname),
	};
	memcpy(e->gid, ip.b, sizeof(e->gid));
	return true;
}

static int query_gid_entry(struct request *r)
{
	uint32_t index = (uint32_t)number(r, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX);
	struct ib_uverbs_gid_entry e;

	if (number32(r, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS))
		return -EINVAL;
	if ((uint32_t)number(r, UVERBS_ATTR_QUERY_GID_ENTRY_PORT) != EMU_PORT ||
	    index >= EMU_GID_TABLE_LEN)
		return -EINVAL;
	if (!gid_entry(r, index, &e))
		return -ENODATA;
	return put(r, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, &e, sizeof(e));
}

/* Entries of the size that the caller knows, which may be a later structure's */
static int query_gid_table(struct request *r)
{
	struct ib_uverbs_attr *out = attr_of(r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES);
	uint64_t size = number(r, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE);
	struct uverbs_call c = {0};
	struct ib_uverbs_gid_entry e;
	uint64_t n = 0;
	int err;

	if (number32(r, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS) || !size)
		return -EINVAL;
	for (uint32_t i = 0; i < EMU_GID_TABLE_LEN; i++) {
		if (!gid_entry(r, i, &e))
			continue;
		if ((n + 1) * size > out->len)
			return -EINVAL;
		c.out = (void *)(uintptr_t)(out->data + n * size);
		c.out_len = size;
		err = uverbs_response(&c, &e, sizeof(e));
		if (err)
			return err;
		n++;
	}
	return put(r, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, &n, sizeof(n));
}

static int async_event_alloc(struct request *r)
{
	int fd = uverbs_make_channel(r->ctx, true);
	int err;

	if (fd < 0)
		return fd;
	err = put_new(r, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, fd);
	if (err) {
		vfile_discard(fd);
	}
	return err;
}

/* --- creation --------------------------------------------------------------------- */

/* All answers of a creation, or nothing was created */
static int finish_new(struct request *r, struct uobject *o, uint16_t handle, int err)
{
	if (!err)
		err = put_new(r, handle, o->handle);
	if (err)
		uverbs_undo(r->ctx, o);
	return err;
}

static int cq_create(struct request *r)
{
	struct ib_uverbs_attr *comp = attr_of(r, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL);
	struct uverbs_cq_args args = {
	    .user_handle = number(r, UVERBS_ATTR_CREATE_CQ_USER_HANDLE),
	    .cqe = number32(r, UVERBS_ATTR_CREATE_CQ_CQE),
	    .comp_vector = number32(r, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR),
	    .flags = number32(r, UVERBS_ATTR_CREATE_CQ_FLAGS),
	    .comp_fd = comp ? (int)comp->data_s64 : -1,
	};
	struct rxe_create_cq_resp hw;
	struct uobject *o;
	int err;

	if (r->hw_out.len < sizeof(hw) || (comp && comp->data_s64 < 0))
		return -EINVAL;
	err = event_fd(r, UVERBS_ATTR_CREATE_CQ_EVENT_FD, &args.async);
	if (err)
		return err;
	err = uverbs_cq_create(r->ctx, &args, &o);
	put_event_fd(args.async);
	if (err)
		return err;
	hw.mi = uverbs_mminfo(emu_cq_ring(o->cq));
	err = put_hw(r, &hw, sizeof(hw));
	if (!err)
		err = put_u32(r, UVERBS_ATTR_CREATE_CQ_RESP_CQE, emu_cq_cqe(o->cq));
	return finish_new(r, o, UVERBS_ATTR_CREATE_CQ_HANDLE, err);
}

/*
 * Which handles a type of QP must name, beyond what uverbs_qp_create() finds out itself
 */
static int qp_args(struct request *r, struct uverbs_qp_args *args)
{
	struct ib_uverbs_attr *cap = attr_of(r, UVERBS_ATTR_CREATE_QP_CAP);
	uint32_t flags = number32(r, UVERBS_ATTR_CREATE_QP_FLAGS);
	struct ib_uverbs_qp_cap c;

	if (attr_of(r, UVERBS_ATTR_CREATE_QP_IND_TABLE_HANDLE) ||
	    attr_of(r, UVERBS_ATTR_CREATE_QP_SOURCE_QPN) ||
	    flags & ~(uint32_t)IB_UVERBS_QP_CREATE_SQ_SIG_ALL)
		return -EOPNOTSUPP;
	if (read_data(cap, &c, sizeof(c)))
		return -EFAULT;
	*args = (struct uverbs_qp_args){
	    .user_handle = number(r, UVERBS_ATTR_CREATE_QP_USER_HANDLE),
	    .type = (enum ibv_qp_type)number(r, UVERBS_ATTR_CREATE_QP_TYPE),
	    .pd = number32(r, UVERBS_ATTR_CREATE_QP_PD_HANDLE),
	    .send_cq = number32(r, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE),
	    .recv_cq = number32(r, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE),
	    .srq = number32(r, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE),
	    .xrcd = number32(r, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE),
	    .has_srq = attr_of(r, UVERBS_ATTR_CREATE_QP_SRQ_HANDLE) != NULL,
	    .sq_sig_all = flags & IB_UVERBS_QP_CREATE_SQ_SIG_ALL,
	    .cap = {c.max_send_wr, c.max_recv_wr, c.max_send_sge, c.max_recv_sge,
		    c.max_inline_data},
	};
	if (args->type == IBV_QPT_XRC_RECV)
		return attr_of(r, UVERBS_ATTR_CREATE_QP_XRCD_HANDLE) ? 0 : -EINVAL;
	if (!attr_of(r, UVERBS_ATTR_CREATE_QP_PD_HANDLE) ||
	    !attr_of(r, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE) ||
	    (args->type != IBV_QPT_XRC_SEND &&
	     !attr_of(r, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE)))
		return -EINVAL;
	return 0;
}

static int answer_qp(struct request *r, struct uobject *o,
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
	int err = put_hw(r, &hw, sizeof(hw));

	if (!err)
		err = put(r, UVERBS_ATTR_CREATE_QP_RESP_CAP, &cap, sizeof(cap));
	if (!err)
		err = put_u32(r, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, emu_qp_num(o->qp));
	return finish_new(r, o, UVERBS_ATTR_CREATE_QP_HANDLE, err);
}

static int qp_create(struct request *r)
{
	struct uverbs_qp_args args;
	struct uobject *o;
	int err;

	if (r->hw_out.len < sizeof(struct rxe_create_qp_resp))
		return -EINVAL;
	err = qp_args(r, &args);
	if (!err)
		err = event_fd(r, UVERBS_ATTR_CREATE_QP_EVENT_FD, &args.async);
	if (err)
		return err;
	err = uverbs_qp_create(r->ctx, &args, &o);
	put_event_fd(args.async);
	return err ? err : answer_qp(r, o, &args);
}

static int answer_srq(struct request *r, struct uobject *o,
		      const struct uverbs_srq_args *args)
{
	const struct rxe_create_srq_resp hw = {
	    .mi = uverbs_mminfo(emu_srq_ring(o->srq)),
	    .srq_num = emu_srq_num(o->srq),
	};
	int err = put_hw(r, &hw, sizeof(hw));

	if (!err)
		err = put_u32(r, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, args->attr.max_wr);
	if (!err)
		err = put_u32(r, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, args->attr.max_sge);
	if (!err)
		err = put_u32(r, UVERBS_ATTR_CREATE_SRQ_RESP_SRQ_NUM, hw.srq_num);
	return finish_new(r, o, UVERBS_ATTR_CREATE_SRQ_HANDLE, err);
}

static int srq_create(struct request *r)
{
	struct uverbs_srq_args args = {
	    .user_handle = number(r, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE),
	    .type = (uint32_t)number(r, UVERBS_ATTR_CREATE_SRQ_TYPE),
	    .pd = number32(r, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE),
	    .xrcd = number32(r, UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE),
	    .cq = number32(r, UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE),
	    .attr = {number32(r, UVERBS_ATTR_CREATE_SRQ_MAX_WR),
		     number32(r, UVERBS_ATTR_CREATE_SRQ_MAX_SGE),
		     number32(r, UVERBS_ATTR_CREATE_SRQ_LIMIT)},
	};
	struct uobject *o;
	int err;

	if (r->hw_out.len < sizeof(struct rxe_create_srq_resp))
		return -EINVAL;
	if (args.type == IB_UVERBS_SRQT_XRC &&
	    (!attr_of(r, UVERBS_ATTR_CREATE_SRQ_XRCD_HANDLE) ||
	     !attr_of(r, UVERBS_ATTR_CREATE_SRQ_CQ_HANDLE)))
		return -EINVAL;
	err = event_fd(r, UVERBS_ATTR_CREATE_SRQ_EVENT_FD, &args.async);
	if (err)
		return err;
	err = uverbs_srq_create(r->ctx, &args, &o);
	put_event_fd(args.async);
	return err ? err : answer_srq(r, o, &args);
}

/* --- destruction, MR -------------------------------------------------------------- */

/* The first attribute of a destroy method is the handle. */
static int destroy(struct request *r, enum uobject_type type, struct uverbs_reported *rep)
{
	return uverbs_destroy(r->ctx, type, (uint32_t)r->attr[0].data, rep);
}

static int pd_destroy(struct request *r)
{
	return destroy(r, UOBJECT_PD, NULL);
}

static int mr_destroy(struct request *r)
{
	return destroy(r, UOBJECT_MR, NULL);
}

static int mw_destroy(struct request *r)
{
	return destroy(r, UOBJECT_MW, NULL);
}

static int ah_destroy(struct request *r)
{
	return destroy(r, UOBJECT_AH, NULL);
}

static int xrcd_destroy(struct request *r)
{
	return destroy(r, UOBJECT_XRCD, NULL);
}

static int cq_destroy(struct request *r)
{
	struct ib_uverbs_destroy_cq_resp resp = {0};
	struct uverbs_reported rep;
	int err = destroy(r, UOBJECT_CQ, &rep);

	if (err)
		return err;
	resp.comp_events_reported = rep.comp;
	resp.async_events_reported = rep.async;
	return put(r, UVERBS_ATTR_DESTROY_CQ_RESP, &resp, sizeof(resp));
}

static int qp_destroy(struct request *r)
{
	struct ib_uverbs_destroy_qp_resp resp;
	struct uverbs_reported rep;
	int err = destroy(r, UOBJECT_QP, &rep);

	if (err)
		return err;
	resp.events_reported = rep.async;
	return put(r, UVERBS_ATTR_DESTROY_QP_RESP, &resp, sizeof(resp));
}

static int srq_destroy(struct request *r)
{
	struct ib_uverbs_destroy_srq_resp resp;
	struct uverbs_reported rep;
	int err = destroy(r, UOBJECT_SRQ, &rep);

	if (err)
		return err;
	resp.events_reported = rep.async;
	return put(r, UVERBS_ATTR_DESTROY_SRQ_RESP, &resp, sizeof(resp));
}

static int query_mr(struct request *r)
{
	struct uobject *o = uobject_find(&r->ctx->objects, UOBJECT_MR,
					 number32(r, UVERBS_ATTR_QUERY_MR_HANDLE));
	int err;

	if (!o)
		return -EINVAL;
	err = put_u32(r, UVERBS_ATTR_QUERY_MR_RESP_LKEY, emu_mr_lkey(o->mr));
	if (!err)
		err = put_u32(r, UVERBS_ATTR_QUERY_MR_RESP_RKEY, emu_mr_rkey(o->mr));
	if (!err)
		err = put(r, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, &o->length,
			  sizeof(o->length));
	return err ? err
		   : put(r, UVERBS_ATTR_QUERY_MR_RESP_IOVA, &o->iova, sizeof(o->iova));
}

static int advise_mr(struct request *r)
{
	struct ib_uverbs_attr *list = attr_of(r, UVERBS_ATTR_ADVISE_MR_SGE_LIST);

	if (list->len % sizeof(struct ibv_sge))
		return -EINVAL;
	return uverbs_advise_mr(r->ctx, number32(r, UVERBS_ATTR_ADVISE_MR_PD_HANDLE),
				(uint32_t)number(r, UVERBS_ATTR_ADVISE_MR_ADVICE),
				number32(r, UVERBS_ATTR_ADVISE_MR_FLAGS),
				(const struct ibv_sge *)(uintptr_t)list->data,
				list->len / sizeof(struct ibv_sge));
}

/* --- the table -------------------------------------------------------------------- */

#define M true
#define O false

static const struct method methods[] = {
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

static const struct method *find_method(uint16_t object, uint16_t id)
{
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (methods[i].object == object && methods[i].id == id)
			return &methods[i];
	return NULL;
}

/* --- parsing ---------------------------------------------------------------------- */

/* Is what a longer structure has beyond the @len bytes that we know zero? */
static int check_tail(const struct ib_uverbs_attr *a, size_t len)
{
	struct uverbs_call c = {.in = (const void *)(uintptr_t)a->data, .in_len = a->len};
	uint8_t known[64];

	if (a->len <= sizeof(a->data)) {
		c.in = &a->data;
		return uverbs_request(&c, known, len);
	}
	return len <= sizeof(known) ? uverbs_request(&c, known, len) : -EINVAL;
}

static int check_attr(const struct spec *s, const struct ib_uverbs_attr *a)
{
	if (a->attr_data.reserved)
		return -EINVAL;
	switch (s->kind) {
	case ATTR_INT:
		return a->len < s->len || a->len > sizeof(a->data) ? -EINVAL : 0;
	case ATTR_IN:
		if (a->len < s->len)
			return -EINVAL;
		return a->len > s->len ? check_tail(a, s->len) : 0;
	case ATTR_IN_MIN:
	case ATTR_OUT:
		return a->len < s->len ? -EINVAL : 0;
	case ATTR_IDR:
		return a->len || a->data_s64 < 0 || a->data_s64 > UINT32_MAX ? -EINVAL
									     : 0;
	default:
		return a->len ? -EINVAL : 0;
	}
}

static int take_attr(struct request *r, const struct ib_uverbs_attr *a, uint16_t index)
{
	int slot, err;

	if (a->attr_id == UVERBS_ATTR_UHW_IN || a->attr_id == UVERBS_ATTR_UHW_OUT) {
		*(a->attr_id == UVERBS_ATTR_UHW_IN ? &r->hw_in : &r->hw_out) = *a;
		return 0;
	}
	slot = slot_of(r->method, a->attr_id);
	if (slot < 0)
		return a->flags & UVERBS_ATTR_F_MANDATORY ? -EPROTONOSUPPORT : 0;
	if (r->given & 1u << slot)
		return -EINVAL;
	err = check_attr(&r->method->attr[slot], a);
	if (err)
		return err;
	r->attr[slot] = *a;
	r->index[slot] = index;
	r->given |= 1u << slot;
	return 0;
}

static int take_attrs(struct request *r, uint16_t n)
{
	struct ib_uverbs_attr attr[MAX_ATTRS];
	int err = 0;

	if (guard_copy(attr, r->user, n * sizeof(attr[0])))
		return -EFAULT;
	for (uint16_t i = 0; i < n && !err; i++)
		err = take_attr(r, &attr[i], i);
	if (err)
		return err;
	for (int i = 0; i < MAX_KNOWN; i++)
		if (r->method->attr[i].mandatory && !(r->given & 1u << i))
			return -EINVAL;
	return 0;
}

static int run(struct request *r)
{
	int err;

	if (r->method->unlocked)
		return r->ctx->ready ? r->method->run(r) : -EINVAL;
	engine_lock(r->ctx->engine);
	err = r->ctx->ready || r->method->new_context ? r->method->run(r) : -EINVAL;
	engine_unlock(r->ctx->engine);
	return err;
}

int uverbs_ioctl(struct vfile *vf, int fd, unsigned long cmd, void *arg)
{
	struct request r = {.ctx = (struct uverbs_context *)vf};
	struct ib_uverbs_ioctl_hdr hdr;
	int err;

	if (cmd != RDMA_VERBS_IOCTL)
		return -ENOTTY;
	if (guard_copy(&hdr, arg, sizeof(hdr)))
		return -EFAULT;
	if (hdr.length > PAGE_LIMIT ||
	    hdr.length != sizeof(hdr) + hdr.num_attrs * ATTR_SIZE)
		return -EINVAL;
	if (hdr.reserved1 || hdr.reserved2)
		return -EPROTONOSUPPORT;
	if (hdr.driver_id != RDMA_DRIVER_RXE)
		return -EINVAL;
	r.method = find_method(hdr.object_id, hdr.method_id);
	if (!r.method)
		return -EPROTONOSUPPORT;
	r.user = (struct ib_uverbs_attr *)((uint8_t *)arg + sizeof(hdr));
	err = take_attrs(&r, hdr.num_attrs);
	if (err)
		return err;
	err = run(&r);
	return err == -EPROTONOSUPPORT ? -EINVAL : err;
}
