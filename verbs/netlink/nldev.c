/*
 * nldev.c - from a request of NETLINK_RDMA to its answer.
 *
 * Theory of operation. A request names a command, and by NLM_F_DUMP whether it wants one thing or all.
 * Answers are as drivers/infiniband/core/nldev.c gives them: of one thing a message, then an
 * acknowledge if it was asked for; of all messages with NLM_F_MULTI, each with as many entries as it
 * holds, and a last one. Whatever would change something is not supported.
 */
#include "verbs/netlink/nldev.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_netlink.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>

#define PORT	      1
#define ENTRY_MAX     640 /* bytes that an entry of a table takes at most */
#define ATTRS	      RDMA_NLDEV_ATTR_MAX
#define NODE_CA	      1 /* RDMA_NODE_IB_CA */
#define NETNS_SHARED  1
#define PHYS_LINK_UP  5
#define PHYS_DISABLED 3
#define STATE_ACTIVE  4
#define STATE_DOWN    1
#define KEY_BITS      8 /* of a key that are no index */

/* --- writing ---------------------------------------------------------------------- */

static void *put_room(struct nldev_answer *a, size_t n)
{
	void *p;

	if (a->failed)
		return NULL;
	if (a->len + n > a->room) {
		size_t room = 2 * (a->len + n) + NLDEV_CHUNK;
		uint8_t *data = realloc(a->data, room);

		if (!data) {
			a->failed = true;
			return NULL;
		}
		a->data = data;
		a->room = room;
	}
	p = a->data + a->len;
	memset(p, 0, n);
	a->len += n;
	return p;
}

/* The datagram is whole. */
static void end_datagram(struct nldev_answer *a)
{
	if (a->failed || a->len == (a->n ? a->end[a->n - 1] : 0))
		return;
	if (a->n == a->n_room) {
		size_t room = 2 * a->n_room + 8;
		size_t *end = realloc(a->end, room * sizeof(*end));

		if (!end) {
			a->failed = true;
			return;
		}
		a->end = end;
		a->n_room = room;
	}
	a->end[a->n++] = a->len;
}

static void put(struct nldev_answer *a, unsigned int type, const void *value, size_t n)
{
	struct nlattr *attr = put_room(a, NLA_HDRLEN + NLA_ALIGN(n));

	if (!attr)
		return;
	attr->nla_type = (uint16_t)type;
	attr->nla_len = (uint16_t)(NLA_HDRLEN + n);
	memcpy(attr + 1, value, n);
}

static void put_u8(struct nldev_answer *a, unsigned int type, uint8_t v)
{
	put(a, type, &v, sizeof(v));
}

static void put_u32(struct nldev_answer *a, unsigned int type, uint32_t v)
{
	put(a, type, &v, sizeof(v));
}

static void put_u64(struct nldev_answer *a, unsigned int type, uint64_t v)
{
	put(a, type, &v, sizeof(v));
}

static void put_text(struct nldev_answer *a, unsigned int type, const char *v)
{
	put(a, type, v, strlen(v) + 1);
}

/* Begin a table; where it began, for end_table() */
static size_t begin_table(struct nldev_answer *a, unsigned int type)
{
	size_t at = a->len;

	put(a, type | NLA_F_NESTED, NULL, 0);
	return at;
}

static void end_table(struct nldev_answer *a, size_t at)
{
	if (!a->failed)
		((struct nlattr *)(a->data + at))->nla_len = (uint16_t)(a->len - at);
}

/* struct request - one message that came in, checked, with what it says */
struct request {
	struct nlmsghdr h;
	uint32_t portid;
	unsigned int command;
	const struct nlattr *attr[ATTRS];
};

static size_t begin_message(struct nldev_answer *a, const struct request *r,
			    unsigned int type, unsigned int flags)
{
	size_t at = a->len;
	struct nlmsghdr *h = put_room(a, NLMSG_HDRLEN);

	if (h) {
		h->nlmsg_type = (uint16_t)type;
		h->nlmsg_flags = (uint16_t)flags;
		h->nlmsg_seq = r->h.nlmsg_seq;
		h->nlmsg_pid = r->portid;
	}
	return at;
}

static void end_message(struct nldev_answer *a, size_t at)
{
	if (!a->failed)
		((struct nlmsghdr *)(a->data + at))->nlmsg_len = (uint32_t)(a->len - at);
}

/* NLMSG_ERROR: an error, or 0 for an acknowledge */
static void put_error(struct nldev_answer *a, const struct request *r, int error)
{
	size_t at = begin_message(a, r, NLMSG_ERROR, 0);
	struct nlmsgerr *e = put_room(a, sizeof(*e));

	if (e) {
		e->error = error;
		e->msg = r->h;
	}
	end_message(a, at);
	end_datagram(a);
}

static size_t begin_answer(struct nldev_answer *a, const struct request *r, bool multi)
{
	return begin_message(a, r, RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, r->command),
			     multi ? NLM_F_MULTI : 0);
}

/* --- reading ---------------------------------------------------------------------- */

static bool get_u32(const struct request *r, unsigned int type, uint32_t *v)
{
	const struct nlattr *attr = r->attr[type];

	if (!attr || attr->nla_len < NLA_HDRLEN + sizeof(*v))
		return false;
	memcpy(v, attr + 1, sizeof(*v));
	return true;
}

static void read_attributes(struct request *r, const uint8_t *p, size_t len)
{
	while (len >= sizeof(struct nlattr)) {
		const struct nlattr *attr = (const void *)p;
		size_t n = NLA_ALIGN(attr->nla_len);

		if (attr->nla_len < NLA_HDRLEN || attr->nla_len > len)
			return;
		if ((attr->nla_type & NLA_TYPE_MASK) < ATTRS)
			r->attr[attr->nla_type & NLA_TYPE_MASK] = attr;
		if (n >= len)
			return;
		p += n;
		len -= n;
	}
}

/* --- devices ---------------------------------------------------------------------- */

/* The device that a request names. 0 or -errno */
static int find_device(const struct nldev_world *w, const struct request *r,
		       uint32_t *index)
{
	if (!get_u32(r, RDMA_NLDEV_ATTR_DEV_INDEX, index))
		return -EINVAL;
	return *index < w->n_devices ? 0 : -EINVAL;
}

static void put_handle(struct nldev_answer *a, const struct nldev_world *w,
		       uint32_t index)
{
	put_u32(a, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_text(a, RDMA_NLDEV_ATTR_DEV_NAME, w->device[index].name);
}

static void put_device(struct nldev_answer *a, const struct nldev_world *w,
		       const struct request *r, uint32_t index, bool multi)
{
	const struct nldev_device *d = &w->device[index];
	uint64_t guid = be64toh(d->guid_be);
	size_t at = begin_answer(a, r, multi);

	put_handle(a, w, index);
	put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
	put_u64(a, RDMA_NLDEV_ATTR_CAP_FLAGS, 0);
	if (*d->fw_ver)
		put_text(a, RDMA_NLDEV_ATTR_FW_VERSION, d->fw_ver);
	put_u64(a, RDMA_NLDEV_ATTR_NODE_GUID, guid);
	put_u64(a, RDMA_NLDEV_ATTR_SYS_IMAGE_GUID, guid);
	put_u8(a, RDMA_NLDEV_ATTR_DEV_NODE_TYPE, NODE_CA);
	put_text(a, RDMA_NLDEV_ATTR_DEV_PROTOCOL, "roce");
	end_message(a, at);
	end_datagram(a);
}

static void put_port(struct nldev_answer *a, const struct nldev_world *w,
		     const struct request *r, uint32_t index, bool multi)
{
	const struct nldev_device *d = &w->device[index];
	size_t at = begin_answer(a, r, multi);

	put_handle(a, w, index);
	put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
	put_u8(a, RDMA_NLDEV_ATTR_PORT_STATE, d->up ? STATE_ACTIVE : STATE_DOWN);
	put_u8(a, RDMA_NLDEV_ATTR_PORT_PHYS_STATE, d->up ? PHYS_LINK_UP : PHYS_DISABLED);
	put_u32(a, RDMA_NLDEV_ATTR_NDEV_INDEX, d->ifindex);
	put_text(a, RDMA_NLDEV_ATTR_NDEV_NAME, d->ifname);
	end_message(a, at);
	end_datagram(a);
}

static void put_counter(struct nldev_answer *a, const char *name, uint64_t value)
{
	size_t at = begin_table(a, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY);

	put_text(a, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name);
	put_u64(a, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
	end_table(a, at);
}

static void put_port_counters(struct nldev_answer *a, const struct nldev_world *w,
			      const struct request *r, uint32_t index)
{
#define NAME(id, name) name,
	static const char *const names[] = {TRACE_HW_COUNTERS(NAME)};
#undef NAME
	size_t at = begin_answer(a, r, false), table;

	put_handle(a, w, index);
	put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
	table = begin_table(a, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	for (size_t i = 0; i < TRACE_N_HW; i++)
		put_counter(a, names[i], w->device[index].counter[i]);
	end_table(a, table);
	end_message(a, at);
	end_datagram(a);
}

/* --- objects ---------------------------------------------------------------------- */

static void put_pid(struct nldev_answer *a, const struct nldev_object *o)
{
	put_u32(a, RDMA_NLDEV_ATTR_RES_PID, (uint32_t)o->pid);
}

static void put_qp(struct nldev_answer *a, const struct nldev_world *w,
		   const struct nldev_object *o)
{
	const struct trace_qp *qp = &o->o.qp;
	bool connected = qp->type == IBV_QPT_RC || qp->type == IBV_QPT_UC;

	put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
	put_u32(a, RDMA_NLDEV_ATTR_RES_LQPN, o->o.id);
	if (connected) {
		put_u32(a, RDMA_NLDEV_ATTR_RES_RQPN, qp->peer);
		put_u32(a, RDMA_NLDEV_ATTR_RES_RQ_PSN, qp->epsn);
		put_u8(a, RDMA_NLDEV_ATTR_RES_PATH_MIG_STATE, IBV_MIG_MIGRATED);
	}
	put_u32(a, RDMA_NLDEV_ATTR_RES_SQ_PSN, qp->next_psn);
	put_u8(a, RDMA_NLDEV_ATTR_RES_TYPE, qp->type);
	put_u8(a, RDMA_NLDEV_ATTR_RES_STATE, qp->state);
	put_u32(a, RDMA_NLDEV_ATTR_RES_PDN, qp->pd);
	put_pid(a, o);
}

/* Queues that give their completions to the CQ */
static uint64_t cq_users(const struct nldev_world *w, const struct nldev_object *cq)
{
	uint64_t n = 0;

	for (size_t i = 0; i < w->n_objects; i++) {
		const struct nldev_object *o = &w->object[i];

		if (o->o.kind == TRACE_OBJ_QP && o->pid == cq->pid &&
		    o->device == cq->device)
			n +=
			    (o->o.qp.send_cq == cq->o.id) + (o->o.qp.recv_cq == cq->o.id);
	}
	return n;
}

static void put_cq(struct nldev_answer *a, const struct nldev_world *w,
		   const struct nldev_object *o)
{
	put_u32(a, RDMA_NLDEV_ATTR_RES_CQE, o->o.cq.size);
	put_u64(a, RDMA_NLDEV_ATTR_RES_USECNT, cq_users(w, o));
	put_u32(a, RDMA_NLDEV_ATTR_RES_CQN, o->o.id);
	put_u32(a, RDMA_NLDEV_ATTR_RES_CTXN, 0);
	put_pid(a, o);
}

static void put_mr(struct nldev_answer *a, const struct nldev_world *w,
		   const struct nldev_object *o)
{
	put_u32(a, RDMA_NLDEV_ATTR_RES_RKEY, o->o.id);
	put_u32(a, RDMA_NLDEV_ATTR_RES_LKEY, o->o.id);
	put_u64(a, RDMA_NLDEV_ATTR_RES_IOVA, o->o.mr.iova);
	put_u64(a, RDMA_NLDEV_ATTR_RES_MRLEN, o->o.mr.length);
	put_u32(a, RDMA_NLDEV_ATTR_RES_MRN, o->o.id >> KEY_BITS);
	put_u32(a, RDMA_NLDEV_ATTR_RES_PDN, o->o.mr.pd);
	put_pid(a, o);
}

/* QPs that take their receive requests from the SRQ; the table is there if it is empty, too. */
static void put_srq_users(struct nldev_answer *a, const struct nldev_world *w,
			  const struct nldev_object *srq)
{
	size_t table = begin_table(a, RDMA_NLDEV_ATTR_RES_QP), entry;

	for (size_t i = 0; i < w->n_objects; i++) {
		const struct nldev_object *o = &w->object[i];

		if (o->o.kind != TRACE_OBJ_QP || o->pid != srq->pid ||
		    o->device != srq->device || o->o.qp.srq != srq->o.id)
			continue;
		entry = begin_table(a, RDMA_NLDEV_ATTR_RES_QP_ENTRY);
		put_u32(a, RDMA_NLDEV_ATTR_RES_LQPN, o->o.id);
		end_table(a, entry);
	}
	end_table(a, table);
}

static void put_srq(struct nldev_answer *a, const struct nldev_world *w,
		    const struct nldev_object *o)
{
	put_u32(a, RDMA_NLDEV_ATTR_RES_SRQN, o->o.id);
	put_u8(a, RDMA_NLDEV_ATTR_RES_TYPE, IBV_SRQT_BASIC);
	put_u32(a, RDMA_NLDEV_ATTR_RES_PDN, o->o.srq.pd);
	put_srq_users(a, w, o);
	put_pid(a, o);
}

/* Names of states in records, in the order of the kernel's enum rdma_cm_state */
static const char *const cm_states[] = {
    "IDLE",    "ADDR_QUERY", "ADDR_RESOLVED", "ROUTE_QUERY", "ROUTE_RESOLVED",
    "CONNECT", "DISCONNECT", "ADDR_BOUND",    "LISTEN",	     "DEVICE_REMOVAL"};

static uint8_t cm_state(const char *name)
{
	for (size_t i = 0; i < sizeof(cm_states) / sizeof(cm_states[0]); i++)
		if (!strcasecmp(cm_states[i], name))
			return (uint8_t)i;
	return !strcasecmp(name, "CONNECTED")	? 5
	       : !strcasecmp(name, "LISTENING") ? 8
						: 0;
}

/* As struct sockaddr_storage, IPv4 where it is IPv4 */
static void put_address(struct nldev_answer *a, unsigned int type,
			const struct trace_ip *ip, uint16_t port)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
	struct sockaddr_storage ss = {0};
	struct sockaddr_in6 *six = (void *)&ss;
	struct sockaddr_in *four = (void *)&ss;

	if (!memcmp(ip->b, mapped, sizeof(mapped))) {
		four->sin_family = AF_INET;
		four->sin_port = htons(port);
		memcpy(&four->sin_addr, ip->b + 12, 4);
	} else {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
		memcpy(&six->sin6_addr, ip->b, 16);
	}
	put(a, type, &ss, sizeof(ss));
}

static void put_cm_id(struct nldev_answer *a, const struct nldev_world *w,
		      const struct nldev_object *o)
{
	const struct trace_cm_id *cm = &o->o.cm;
	char state[sizeof(cm->state) + 1] = "";

	memcpy(state, cm->state, sizeof(cm->state));
	put_u32(a, RDMA_NLDEV_ATTR_PORT_INDEX, PORT);
	if (cm->qpn) {
		put_u32(a, RDMA_NLDEV_ATTR_RES_LQPN, cm->qpn);
		put_u8(a, RDMA_NLDEV_ATTR_RES_TYPE, cm->type);
	}
	put_u32(a, RDMA_NLDEV_ATTR_RES_PS, cm->ps);
	put_u8(a, RDMA_NLDEV_ATTR_RES_STATE, cm_state(state));
	put_address(a, RDMA_NLDEV_ATTR_RES_SRC_ADDR, &cm->local, cm->local_port);
	put_address(a, RDMA_NLDEV_ATTR_RES_DST_ADDR, &cm->remote, cm->remote_port);
	put_u32(a, RDMA_NLDEV_ATTR_RES_CM_IDN, o->o.id);
	put_pid(a, o);
}

static void put_context(struct nldev_answer *a, const struct nldev_world *w,
			const struct nldev_object *o)
{
	put_u32(a, RDMA_NLDEV_ATTR_RES_CTXN, 0);
	put_pid(a, o);
}

/* Counters of an on-demand region, those that rdma-statistic(8) has */
static void put_mr_counters(struct nldev_answer *a, const struct nldev_world *w,
			    const struct nldev_object *o)
{
	static const struct {
		const char *name;
		enum trace_odp_counter which;
	} c[] = {{"page_faults", TRACE_ODP_pages_faulted},
		 {"page_invalidations", TRACE_ODP_pages_invalidated},
		 {"page_prefetch", TRACE_ODP_pages_prefetched}};
	size_t table;

	put_u32(a, RDMA_NLDEV_ATTR_RES_MRN, o->o.id >> KEY_BITS);
	table = begin_table(a, RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		put_counter(a, c[i].name, o->o.mr.counter[c[i].which]);
	end_table(a, table);
}

/*
 * struct kind - of objects that can be asked for
 * @command:	that asks for them
 * @object:	enum trace_object_kind
 * @table:	of their entries; @entry in it; @id: attribute that names one
 * @shift:	of a record's id that make the number of the object
 */
static const struct kind {
	unsigned int command;
	const char *name;
	enum trace_object_kind object;
	unsigned int table, entry, id, shift;
	void (*put)(struct nldev_answer *a, const struct nldev_world *w,
		    const struct nldev_object *o);
} kinds[] = {
    {RDMA_NLDEV_CMD_RES_CQ_GET, "cq", TRACE_OBJ_CQ, RDMA_NLDEV_ATTR_RES_CQ,
     RDMA_NLDEV_ATTR_RES_CQ_ENTRY, RDMA_NLDEV_ATTR_RES_CQN, 0, put_cq},
    {RDMA_NLDEV_CMD_RES_QP_GET, "qp", TRACE_OBJ_QP, RDMA_NLDEV_ATTR_RES_QP,
     RDMA_NLDEV_ATTR_RES_QP_ENTRY, RDMA_NLDEV_ATTR_RES_LQPN, 0, put_qp},
    {RDMA_NLDEV_CMD_RES_CM_ID_GET, "cm_id", TRACE_OBJ_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID,
     RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY, RDMA_NLDEV_ATTR_RES_CM_IDN, 0, put_cm_id},
    {RDMA_NLDEV_CMD_RES_MR_GET, "mr", TRACE_OBJ_MR, RDMA_NLDEV_ATTR_RES_MR,
     RDMA_NLDEV_ATTR_RES_MR_ENTRY, RDMA_NLDEV_ATTR_RES_MRN, KEY_BITS, put_mr},
    {RDMA_NLDEV_CMD_RES_CTX_GET, "ctx", TRACE_OBJ_DEVICE, RDMA_NLDEV_ATTR_RES_CTX,
     RDMA_NLDEV_ATTR_RES_CTX_ENTRY, RDMA_NLDEV_ATTR_RES_CTXN, 0, put_context},
    {RDMA_NLDEV_CMD_RES_SRQ_GET, "srq", TRACE_OBJ_SRQ, RDMA_NLDEV_ATTR_RES_SRQ,
     RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, RDMA_NLDEV_ATTR_RES_SRQN, 0, put_srq},
};
#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* Counters of regions are a table of regions, of those that are on demand. */
static const struct kind mr_counters = {
    0,
    "mr",
    TRACE_OBJ_MR,
    RDMA_NLDEV_ATTR_RES_MR,
    RDMA_NLDEV_ATTR_RES_MR_ENTRY,
    RDMA_NLDEV_ATTR_RES_MRN,
    KEY_BITS,
    put_mr_counters,
};

static bool is_one(const struct kind *k, const struct nldev_object *o, uint32_t device)
{
	return o->o.kind == (uint32_t)k->object && o->device == device &&
	       (k != &mr_counters || o->o.mr.on_demand);
}

/* --- PDs, which have no record: they are what objects name ------------------------- */

static uint32_t pd_of(const struct nldev_object *o)
{
	return o->o.kind == TRACE_OBJ_QP    ? o->o.qp.pd
	       : o->o.kind == TRACE_OBJ_MR  ? o->o.mr.pd
	       : o->o.kind == TRACE_OBJ_SRQ ? o->o.srq.pd
					    : 0;
}

/* How many objects name the PD of object @i; 0: one before it does, or it has none */
static uint32_t pd_users(const struct nldev_world *w, size_t i)
{
	const struct nldev_object *o = &w->object[i];
	uint32_t pd = pd_of(o), n = 0;

	for (size_t k = 0; pd && k < w->n_objects; k++) {
		const struct nldev_object *p = &w->object[k];

		if (p->pid != o->pid || p->device != o->device || pd_of(p) != pd)
			continue;
		if (k < i)
			return 0;
		n++;
	}
	return n;
}

static void put_pd(struct nldev_answer *a, const struct nldev_object *o, uint32_t users)
{
	put_u64(a, RDMA_NLDEV_ATTR_RES_USECNT, users);
	put_u32(a, RDMA_NLDEV_ATTR_RES_PDN, pd_of(o));
	put_u32(a, RDMA_NLDEV_ATTR_RES_CTXN, 0);
	put_pid(a, o);
}

/* --- tables of objects ------------------------------------------------------------ */

/* struct dump - a table that is being written, message by message */
struct dump {
	struct nldev_answer *a;
	const struct nldev_world *w;
	const struct request *r;
	uint32_t device;
	unsigned int table;
	size_t message, at;
	bool open;
};

static void dump_close(struct dump *d)
{
	if (!d->open)
		return;
	end_table(d->a, d->at);
	end_message(d->a, d->message);
	end_datagram(d->a);
	d->open = false;
}

/* Room for one entry more; where it begins */
static size_t dump_entry(struct dump *d, unsigned int entry)
{
	if (d->open && d->a->len - d->message + ENTRY_MAX > NLDEV_CHUNK)
		dump_close(d);
	if (!d->open) {
		d->message = begin_answer(d->a, d->r, true);
		put_handle(d->a, d->w, d->device);
		d->at = begin_table(d->a, d->table);
		d->open = true;
	}
	return begin_table(d->a, entry);
}

static void dump_objects(struct nldev_answer *a, const struct nldev_world *w,
			 const struct request *r, uint32_t device, const struct kind *k)
{
	struct dump d = {a, w, r, device, k->table, 0, 0, false};

	for (size_t i = 0; i < w->n_objects; i++)
		if (is_one(k, &w->object[i], device)) {
			size_t at = dump_entry(&d, k->entry);

			k->put(a, w, &w->object[i]);
			end_table(a, at);
		}
	dump_close(&d);
}

static void dump_pds(struct nldev_answer *a, const struct nldev_world *w,
		     const struct request *r, uint32_t device)
{
	struct dump d = {a, w, r, device, RDMA_NLDEV_ATTR_RES_PD, 0, 0, false};

	for (size_t i = 0; i < w->n_objects; i++) {
		uint32_t users = w->object[i].device == device ? pd_users(w, i) : 0;

		if (users) {
			size_t at = dump_entry(&d, RDMA_NLDEV_ATTR_RES_PD_ENTRY);

			put_pd(a, &w->object[i], users);
			end_table(a, at);
		}
	}
	dump_close(&d);
}

/* One object, which the request names. 0 or -errno */
static int put_object(struct nldev_answer *a, const struct nldev_world *w,
		      const struct request *r, uint32_t device, const struct kind *k)
{
	uint32_t id;

	if (!get_u32(r, k->id, &id))
		return -EINVAL;
	for (size_t i = 0; i < w->n_objects; i++) {
		const struct nldev_object *o = &w->object[i];
		size_t at;

		if (!is_one(k, o, device) || o->o.id >> k->shift != id)
			continue;
		at = begin_answer(a, r, false);
		put_handle(a, w, device);
		k->put(a, w, o);
		end_message(a, at);
		end_datagram(a);
		return 0;
	}
	return -ENOENT;
}

static int put_one_pd(struct nldev_answer *a, const struct nldev_world *w,
		      const struct request *r, uint32_t device)
{
	uint32_t id;

	if (!get_u32(r, RDMA_NLDEV_ATTR_RES_PDN, &id))
		return -EINVAL;
	for (size_t i = 0; i < w->n_objects; i++) {
		const struct nldev_object *o = &w->object[i];
		uint32_t users =
		    o->device == device && pd_of(o) == id ? pd_users(w, i) : 0;
		size_t at;

		if (!users)
			continue;
		at = begin_answer(a, r, false);
		put_handle(a, w, device);
		put_pd(a, o, users);
		end_message(a, at);
		end_datagram(a);
		return 0;
	}
	return -ENOENT;
}

static void put_sum(struct nldev_answer *a, const char *name, uint64_t n)
{
	size_t at = begin_table(a, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY);

	put_text(a, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, name);
	put_u64(a, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, n);
	end_table(a, at);
}

static void put_summary(struct nldev_answer *a, const struct nldev_world *w,
			const struct request *r, uint32_t device, bool multi)
{
	size_t at = begin_answer(a, r, multi), table;
	uint64_t n = 0;

	put_handle(a, w, device);
	table = begin_table(a, RDMA_NLDEV_ATTR_RES_SUMMARY);
	for (size_t i = 0; i < w->n_objects; i++)
		n += w->object[i].device == device && pd_users(w, i);
	put_sum(a, "pd", n);
	for (size_t k = 0; k < N_KINDS; k++) {
		n = 0;
		for (size_t i = 0; i < w->n_objects; i++)
			n += is_one(&kinds[k], &w->object[i], device);
		put_sum(a, kinds[k].name, n);
	}
	end_table(a, table);
	end_message(a, at);
	end_datagram(a);
}

/* --- commands --------------------------------------------------------------------- */

/* What is asked of all devices: one message for each. 0, or -ENOENT: no such command */
static int of_each_device(struct nldev_answer *a, const struct nldev_world *w,
			  const struct request *r)
{
	for (uint32_t i = 0; i < w->n_devices; i++) {
		if (r->command == RDMA_NLDEV_CMD_GET)
			put_device(a, w, r, i, true);
		else if (r->command == RDMA_NLDEV_CMD_RES_GET)
			put_summary(a, w, r, i, true);
		else
			return -ENOENT;
	}
	return 0;
}

static const struct kind *kind_of(const struct request *r)
{
	uint32_t what;

	if (r->command == RDMA_NLDEV_CMD_STAT_GET)
		return get_u32(r, RDMA_NLDEV_ATTR_STAT_RES, &what) &&
			       what == RDMA_NLDEV_ATTR_RES_MR
			   ? &mr_counters
			   : NULL;
	for (size_t k = 0; k < N_KINDS; k++)
		if (kinds[k].command == r->command)
			return &kinds[k];
	return NULL;
}

/* 0 or -errno */
static int dump(struct nldev_answer *a, const struct nldev_world *w,
		const struct request *r)
{
	const struct kind *k = kind_of(r);
	uint32_t device;
	int ret;

	if (!of_each_device(a, w, r))
		return 0;
	ret = find_device(w, r, &device);
	if (ret)
		return ret;
	if (k)
		dump_objects(a, w, r, device, k);
	else if (r->command == RDMA_NLDEV_CMD_RES_PD_GET)
		dump_pds(a, w, r, device);
	else if (r->command == RDMA_NLDEV_CMD_PORT_GET)
		put_port(a, w, r, device, true);
	else if (r->command != RDMA_NLDEV_CMD_STAT_GET) /* no counters are bound to QPs */
		return -EOPNOTSUPP;
	return 0;
}

static void put_system(struct nldev_answer *a, const struct request *r)
{
	size_t at = begin_answer(a, r, false);

	put_u8(a, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, NETNS_SHARED);
	end_message(a, at);
	end_datagram(a);
}

static bool right_port(const struct request *r)
{
	uint32_t port;

	return get_u32(r, RDMA_NLDEV_ATTR_PORT_INDEX, &port) && port == PORT;
}

static int answer_one(struct nldev_answer *a, const struct nldev_world *w,
		      const struct request *r, uint32_t device)
{
	const struct kind *k = kind_of(r);

	if (k)
		return put_object(a, w, r, device, k);
	switch (r->command) {
	case RDMA_NLDEV_CMD_GET:
		put_device(a, w, r, device, false);
		return 0;
	case RDMA_NLDEV_CMD_RES_GET:
		put_summary(a, w, r, device, false);
		return 0;
	case RDMA_NLDEV_CMD_RES_PD_GET:
		return put_one_pd(a, w, r, device);
	case RDMA_NLDEV_CMD_PORT_GET:
	case RDMA_NLDEV_CMD_STAT_GET:
		if (!right_port(r))
			return -EINVAL;
		if (r->command == RDMA_NLDEV_CMD_PORT_GET)
			put_port(a, w, r, device, false);
		else
			put_port_counters(a, w, r, device);
		return 0;
	default: /* whatever would change something, and what is newer */
		return -EOPNOTSUPP;
	}
}

/* 0 or -errno */
static int one(struct nldev_answer *a, const struct nldev_world *w,
	       const struct request *r)
{
	uint32_t device = 0;
	int ret;

	if (r->command == RDMA_NLDEV_CMD_SYS_GET) {
		put_system(a, r);
		return 0;
	}
	ret = find_device(w, r, &device);
	if (ret && r->command != RDMA_NLDEV_CMD_NEWLINK &&
	    r->command != RDMA_NLDEV_CMD_SYS_SET)
		return ret;
	return ret ? -EOPNOTSUPP : answer_one(a, w, r, device);
}

static void handle(struct nldev_answer *a, const struct nldev_world *w,
		   const struct request *r)
{
	bool all = (r->h.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
	int ret;

	if (RDMA_NL_GET_CLIENT(r->h.nlmsg_type) != RDMA_NL_NLDEV)
		ret = -EINVAL;
	else
		ret = all ? dump(a, w, r) : one(a, w, r);
	if (ret || (!all && r->h.nlmsg_flags & NLM_F_ACK)) {
		put_error(a, r, ret);
	} else if (all) {
		size_t at = begin_message(a, r, NLMSG_DONE, NLM_F_MULTI);

		put_room(a, sizeof(int));
		end_message(a, at);
		end_datagram(a);
	}
}

bool nldev_answer(const struct nldev_world *w, const void *req, size_t len,
		  uint32_t portid, struct nldev_answer *out)
{
	const uint8_t *p = req;

	*out = (struct nldev_answer){0};
	while (len >= NLMSG_HDRLEN && !out->failed) {
		struct request r = {.portid = portid};
		size_t n;

		memcpy(&r.h, p, sizeof(r.h));
		if (r.h.nlmsg_len < NLMSG_HDRLEN || r.h.nlmsg_len > len)
			break;
		r.command = RDMA_NL_GET_OP(r.h.nlmsg_type);
		read_attributes(&r, p + NLMSG_HDRLEN, r.h.nlmsg_len - NLMSG_HDRLEN);
		/* netlink_rcv_skb(): control messages are skipped */
		if (r.h.nlmsg_flags & NLM_F_REQUEST && r.h.nlmsg_type >= NLMSG_MIN_TYPE)
			handle(out, w, &r);
		else if (r.h.nlmsg_flags & NLM_F_ACK)
			put_error(out, &r, 0);
		n = NLMSG_ALIGN(r.h.nlmsg_len);
		if (n >= len)
			break;
		p += n;
		len -= n;
	}
	return !out->failed;
}

void nldev_answer_end(struct nldev_answer *a)
{
	free(a->data);
	free(a->end);
	*a = (struct nldev_answer){0};
}
