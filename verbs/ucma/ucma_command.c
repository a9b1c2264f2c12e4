/*
 * ucma_command.c - the commands of the rdma_cm device, as <rdma/rdma_user_cm.h> describes them (ABI 4).
 *
 * A command is a header and a structure, its answer goes to an address in that structure.
 * Everything the application hands over is copied with the guard (odp/guard.h): a bad pointer is
 * EFAULT, never a signal. A handle of another channel is EINVAL, one that does not exist ENOENT.
 *
 * Owns: the layout of commands, and which exist. Must not know: how identifiers come to addresses
 * (ucma_id.c, ucma_addr.c, ucma_port.c) and to peers (ucma_peer.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "odp/guard.h"
#include "verbs/engine/event_channel.h"
#include "verbs/ucma/ucma_internal.h"

#define CMD_MAX	     1024 /* more than any command */
#define OPTLEN_MAX   4096
#define PATH_PRIMARY (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL)

/* --- the application's memory ----------------------------------------------------- */

/*
 * struct call - a command
 * @in:		the structure behind the header, zero behind @in_len
 * @out_len:	room for the answer
 * @fd:	the descriptor that the program used
 * @about:	the identifier that it names, for records; @id: that, if it is there after it
 */
struct call {
	struct ucma_file *f;
	int fd;
	uint32_t about;
	struct ucma_id *id;
	union {
		uint8_t in[CMD_MAX];
		struct rdma_ucm_create_id create_id;
		struct ucma_write_event write_event;
		struct rdma_ucm_destroy_id destroy_id;
		struct rdma_ucm_bind_ip bind_ip;
		struct rdma_ucm_bind bind;
		struct rdma_ucm_resolve_ip resolve_ip;
		struct rdma_ucm_resolve_addr resolve_addr;
		struct rdma_ucm_resolve_route resolve_route;
		struct rdma_ucm_query query;
		struct rdma_ucm_connect connect;
		struct rdma_ucm_listen listen;
		struct rdma_ucm_accept accept;
		struct rdma_ucm_reject reject;
		struct rdma_ucm_disconnect disconnect;
		struct rdma_ucm_init_qp_attr init_qp_attr;
		struct rdma_ucm_notify notify;
		struct rdma_ucm_join_ip_mcast join_ip;
		struct rdma_ucm_join_mcast join;
		struct rdma_ucm_get_event get_event;
		struct rdma_ucm_set_option set_option;
		struct rdma_ucm_migrate_id migrate;
	};
	uint32_t in_len;
	uint32_t out_len;
};

/* The first bytes of the answer, as many as there is room for */
static int respond(const struct call *c, uint64_t to, const void *resp, size_t len)
{
	size_t n = c->out_len < len ? c->out_len : len;

	return guard_copy((void *)(uintptr_t)to, resp, n);
}

/* An identifier of this channel. 0, -ENOENT, -EINVAL */
static int get_id(struct call *c, uint32_t handle, struct ucma_id **out)
{
	struct ucma_id *id = ucma_table_get(&c->f->u->ids, handle);

	c->about = handle;
	if (!id)
		return -ENOENT;
	if (id->file != c->f)
		return -EINVAL;
	*out = c->id = id;
	return 0;
}

static void copy_addr(union ucma_addr *to, const void *from, size_t len)
{
	memset(to, 0, sizeof(*to));
	memcpy(to, from, len < sizeof(*to) ? len : sizeof(*to));
}

/* --- commands: identifiers -------------------------------------------------------- */

static int qp_type_of(const struct rdma_ucm_create_id *cmd, uint8_t *type)
{
	switch (cmd->ps) {
	case RDMA_PS_TCP:
		*type = IBV_QPT_RC;
		return 0;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		*type = IBV_QPT_UD;
		return 0;
	case RDMA_PS_IB:
		*type = cmd->qp_type;
		return 0;
	default:
		return -EINVAL;
	}
}

static int cmd_create_id(struct call *c)
{
	struct rdma_ucm_create_id_resp resp;
	struct ucma_id *id;
	uint8_t type;
	int ret;

	if (c->out_len < sizeof(resp))
		return -ENOSPC;
	ret = qp_type_of(&c->create_id, &type);
	if (ret)
		return ret;
	id = ucma_id_new(c->f, c->create_id.ps, type);
	if (!id)
		return -ENOMEM;
	id->uid = c->create_id.uid;
	resp.id = c->about = id->handle;
	ret = respond(c, c->create_id.response, &resp, sizeof(resp));
	if (ret)
		ucma_event_drop_id(id);
	return ret;
}

static int cmd_destroy_id(struct call *c)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct ucma_id *id;
	int ret;

	if (c->out_len < sizeof(resp))
		return -ENOSPC;
	ret = get_id(c, c->destroy_id.id, &id);
	if (ret)
		return ret;
	c->id = NULL;
	resp.events_reported = ucma_event_drop_id(id);
	return respond(c, c->destroy_id.response, &resp, sizeof(resp));
}

static int bind_common(struct call *c, uint32_t handle, const union ucma_addr *addr)
{
	struct ucma_id *id;
	int ret = get_id(c, handle, &id);

	return ret ? ret : ucma_bind(id, addr);
}

/*
 * The old commands carry sockaddr_in6, which may hold a sockaddr_in, but no sockaddr_ib.
 */
static bool small_addr(const union ucma_addr *a)
{
	return a->sa.sa_family == AF_INET || a->sa.sa_family == AF_INET6;
}

static int cmd_bind_ip(struct call *c)
{
	union ucma_addr addr;

	copy_addr(&addr, &c->bind_ip.addr, sizeof(c->bind_ip.addr));
	if (!small_addr(&addr))
		return -EINVAL;
	return bind_common(c, c->bind_ip.id, &addr);
}

static int cmd_bind(struct call *c)
{
	union ucma_addr addr;

	copy_addr(&addr, &c->bind.addr, sizeof(c->bind.addr));
	if (c->bind.reserved || !c->bind.addr_size ||
	    c->bind.addr_size != ucma_addr_size(&addr))
		return -EINVAL;
	return bind_common(c, c->bind.id, &addr);
}

static int cmd_resolve_ip(struct call *c)
{
	union ucma_addr src, dst;
	struct ucma_id *id;
	int ret;

	copy_addr(&src, &c->resolve_ip.src_addr, sizeof(c->resolve_ip.src_addr));
	copy_addr(&dst, &c->resolve_ip.dst_addr, sizeof(c->resolve_ip.dst_addr));
	if ((src.sa.sa_family && !small_addr(&src)) || !small_addr(&dst))
		return -EINVAL;
	ret = get_id(c, c->resolve_ip.id, &id);
	return ret ? ret : ucma_resolve_addr(id, &src, &dst);
}

static int cmd_resolve_addr(struct call *c)
{
	const struct rdma_ucm_resolve_addr *cmd = &c->resolve_addr;
	union ucma_addr src, dst;
	struct ucma_id *id;
	int ret;

	copy_addr(&src, &cmd->src_addr, sizeof(cmd->src_addr));
	copy_addr(&dst, &cmd->dst_addr, sizeof(cmd->dst_addr));
	if (cmd->reserved || (cmd->src_size && cmd->src_size != ucma_addr_size(&src)) ||
	    !cmd->dst_size || cmd->dst_size != ucma_addr_size(&dst))
		return -EINVAL;
	ret = get_id(c, cmd->id, &id);
	return ret ? ret : ucma_resolve_addr(id, cmd->src_size ? &src : NULL, &dst);
}

static int cmd_resolve_route(struct call *c)
{
	struct ucma_id *id;
	int ret = get_id(c, c->resolve_route.id, &id);

	return ret ? ret : ucma_resolve_route(id);
}

static int cmd_listen(struct call *c)
{
	struct ucma_id *id;
	int ret = get_id(c, c->listen.id, &id);

	return ret ? ret : ucma_listen(id, (int)c->listen.backlog);
}

/* --- commands: queries ------------------------------------------------------------ */

static uint64_t guid_of(const struct engine_device *dev)
{
	struct ibv_device_attr_ex attr;

	emu_query_device(dev->hca, &attr);
	return attr.orig_attr.node_guid;
}

static int cmd_query_route(struct call *c)
{
	struct rdma_ucm_query_route_resp resp = {0};
	struct ucma_id *id;
	int ret;

	if (c->out_len < offsetof(struct rdma_ucm_query_route_resp, ibdev_index))
		return -ENOSPC;
	ret = get_id(c, c->query.id, &id);
	if (ret)
		return ret;
	memcpy(&resp.src_addr, &id->src, sizeof(resp.src_addr));
	memcpy(&resp.dst_addr, &id->dst, sizeof(resp.dst_addr));
	if (id->dev) {
		resp.node_guid = guid_of(id->dev);
		resp.port_num = EMU_PORT;
		resp.ibdev_index = id->dev->index;
		resp.num_paths = id->num_paths;
		ucma_path_user(id, &resp.ib_route[0]);
	}
	return respond(c, c->query.response, &resp, sizeof(resp));
}

static void fill_device(const struct ucma_id *id, struct rdma_ucm_query_addr_resp *resp)
{
	if (!id->dev)
		return;
	resp->node_guid = guid_of(id->dev);
	resp->port_num = EMU_PORT;
	resp->pkey = htobe16(UCMA_PKEY);
	resp->ibdev_index = id->dev->index;
}

static int query_addr(struct call *c, const struct ucma_id *id)
{
	struct rdma_ucm_query_addr_resp resp = {0};

	if (c->out_len < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	resp.src_size = (uint16_t)ucma_addr_size(&id->src);
	memcpy(&resp.src_addr, &id->src, resp.src_size);
	resp.dst_size = (uint16_t)ucma_addr_size(&id->dst);
	memcpy(&resp.dst_addr, &id->dst, resp.dst_size);
	fill_device(id, &resp);
	return respond(c, c->query.response, &resp, sizeof(resp));
}

static void fill_gid(const struct ucma_id *id, const union ucma_addr *a,
		     const struct net_ip *gid, void *to)
{
	struct ucma_sockaddr_ib ib = {.family = UCMA_AF_IB};

	if (a->sa.sa_family == UCMA_AF_IB) {
		memcpy(to, &a->ib, sizeof(ib));
		return;
	}
	if (id->dev) {
		ib.pkey_be = htobe16(UCMA_PKEY);
		ib.addr = *gid;
	}
	ib.sid_be = htobe64(cm_service_id(id->ps, ucma_addr_port(a)));
	memcpy(to, &ib, sizeof(ib));
}

static int query_gid(struct call *c, const struct ucma_id *id)
{
	struct rdma_ucm_query_addr_resp resp = {0};

	if (c->out_len < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	resp.src_size = resp.dst_size = sizeof(struct ucma_sockaddr_ib);
	fill_gid(id, &id->src, &id->sgid, &resp.src_addr);
	fill_gid(id, &id->dst, &id->dgid, &resp.dst_addr);
	fill_device(id, &resp);
	return respond(c, c->query.response, &resp, sizeof(resp));
}

static int query_path(struct call *c, const struct ucma_id *id)
{
	struct {
		struct rdma_ucm_query_path_resp head;
		struct ib_path_rec_data path;
	} resp = {0};
	size_t len = sizeof(resp.head);

	if (c->out_len < sizeof(resp.head))
		return -ENOSPC;
	resp.head.num_paths = id->num_paths;
	if (id->num_paths && c->out_len >= sizeof(resp)) {
		resp.path.flags = PATH_PRIMARY;
		ucma_path_pack(id, (uint8_t *)resp.path.path_rec);
		len = sizeof(resp);
	}
	return respond(c, c->query.response, &resp, len);
}

static int cmd_query(struct call *c)
{
	struct ucma_id *id;
	int ret = get_id(c, c->query.id, &id);

	if (ret)
		return ret;
	switch (c->query.option) {
	case RDMA_USER_CM_QUERY_ADDR:
		return query_addr(c, id);
	case RDMA_USER_CM_QUERY_PATH:
		return query_path(c, id);
	case RDMA_USER_CM_QUERY_GID:
		return query_gid(c, id);
	default:
		return -ENOSYS;
	}
}

/* --- commands: connections -------------------------------------------------------- */

static int cmd_connect(struct call *c)
{
	struct ucma_id *id;
	int ret;

	if (!c->connect.conn_param.valid)
		return -EINVAL;
	ret = get_id(c, c->connect.id, &id);
	return ret ? ret : ucma_connect(id, &c->connect.conn_param, &c->connect.ece);
}

static int cmd_accept(struct call *c)
{
	const struct rdma_ucm_accept *cmd = &c->accept;
	struct ucma_id *id;
	int ret = get_id(c, cmd->id, &id);

	if (ret)
		return ret;
	if (!cmd->conn_param.valid)
		return ucma_accept(id, NULL, NULL);
	ret = ucma_accept(id, &cmd->conn_param, &cmd->ece);
	if (!ret)
		id->uid = cmd->uid;
	return ret;
}

static int cmd_reject(struct call *c)
{
	uint8_t reason = c->reject.reason ? c->reject.reason : CM_REJ_CONSUMER;
	struct ucma_id *id;
	int ret;

	if (reason != CM_REJ_CONSUMER && reason != CM_REJ_VENDOR_OPTION)
		return -EINVAL;
	ret = get_id(c, c->reject.id, &id);
	if (ret)
		return ret;
	if (!id->dev)
		return -EINVAL;
	return ucma_reject(id, reason, c->reject.private_data,
			   c->reject.private_data_len);
}

static int cmd_disconnect(struct call *c)
{
	struct ucma_id *id;
	int ret = get_id(c, c->disconnect.id, &id);

	return ret ? ret : ucma_disconnect(id);
}

static int cmd_init_qp_attr(struct call *c)
{
	struct ib_uverbs_qp_attr resp;
	struct ucma_id *id;
	int ret;

	if (c->out_len < sizeof(resp))
		return -ENOSPC;
	if (c->init_qp_attr.qp_state > IBV_QPS_ERR)
		return -EINVAL;
	ret = get_id(c, c->init_qp_attr.id, &id);
	if (!ret)
		ret = ucma_init_qp_attr(id, c->init_qp_attr.qp_state, &resp);
	return ret ? ret : respond(c, c->init_qp_attr.response, &resp, sizeof(resp));
}

static int cmd_notify(struct call *c)
{
	struct ucma_id *id;
	int ret = get_id(c, c->notify.id, &id);

	return ret ? ret : ucma_notify(id, c->notify.event);
}

static int cmd_write_event(struct call *c)
{
	const struct ucma_write_event *cmd = &c->write_event;
	struct ucma_event *ev;
	struct ucma_id *id;
	int ret;

	if (cmd->event != UCMA_EVENT_USER && cmd->event != UCMA_EVENT_INTERNAL)
		return -EINVAL;
	ret = get_id(c, cmd->id, &id);
	if (ret)
		return ret;
	ev = ucma_push(id, cmd->event, (int)cmd->status);
	if (!ev)
		return -ENOMEM;
	memcpy(&ev->resp.param, cmd->arg, sizeof(cmd->arg));
	return 0;
}

/* --- commands: options ------------------------------------------------------------ */

static int set_reuseaddr(struct ucma_id *id, bool reuse)
{
	if (!reuse && id->state != UCMA_IDLE)
		return -EINVAL;
	id->reuseaddr = reuse;
	return 0;
}

static int set_afonly(struct ucma_id *id, bool afonly)
{
	if (id->state != UCMA_IDLE && id->state != UCMA_ADDR_BOUND)
		return -EINVAL;
	id->afonly = afonly;
	id->afonly_set = true;
	return 0;
}

static int set_ack_timeout(struct ucma_id *id, uint8_t timeout)
{
	if (id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND)
		return -EINVAL;
	id->ack_timeout = timeout & 0x1f;
	id->ack_timeout_set = true;
	return 0;
}

static int set_id_option(struct ucma_id *id, uint32_t name, const uint8_t *val,
			 uint32_t len)
{
	int i = 0;

	if (name == RDMA_OPTION_ID_TOS || name == RDMA_OPTION_ID_ACK_TIMEOUT) {
		if (len != 1)
			return -EINVAL;
		if (name == RDMA_OPTION_ID_ACK_TIMEOUT)
			return set_ack_timeout(id, val[0]);
		id->tos = val[0];
		return 0;
	}
	if (name != RDMA_OPTION_ID_REUSEADDR && name != RDMA_OPTION_ID_AFONLY)
		return -ENOSYS;
	if (len != sizeof(i))
		return -EINVAL;
	memcpy(&i, val, sizeof(i));
	return name == RDMA_OPTION_ID_REUSEADDR ? set_reuseaddr(id, i != 0)
						: set_afonly(id, i != 0);
}

static int set_path_option(struct ucma_id *id, const uint8_t *val, uint32_t len)
{
	const struct ib_path_rec_data *rec = (const void *)val;
	struct ucma_path path;

	if (len % sizeof(*rec))
		return -EINVAL;
	while (len && rec->flags != PATH_PRIMARY) {
		rec++;
		len -= sizeof(*rec);
	}
	if (!len)
		return -EINVAL;
	ucma_path_unpack((const uint8_t *)rec->path_rec, &path);
	if (path.mtu < IBV_MTU_256 || path.mtu > IBV_MTU_4096)
		return -EINVAL;
	return ucma_set_path(id, &path);
}

static int cmd_set_option(struct call *c)
{
	const struct rdma_ucm_set_option *cmd = &c->set_option;
	_Alignas(8) uint8_t val[OPTLEN_MAX];
	struct ucma_id *id;
	int ret = get_id(c, cmd->id, &id);

	if (ret)
		return ret;
	if (cmd->optlen > sizeof(val))
		return -EINVAL;
	if (cmd->optlen && guard_copy(val, (void *)(uintptr_t)cmd->optval, cmd->optlen))
		return -EFAULT;
	if (cmd->level == RDMA_OPTION_ID)
		return set_id_option(id, cmd->optname, val, cmd->optlen);
	if (cmd->level == RDMA_OPTION_IB && cmd->optname == RDMA_OPTION_IB_PATH)
		return set_path_option(id, val, cmd->optlen);
	return -ENOSYS;
}

/* --- commands: multicast ---------------------------------------------------------- */

static int join_common(struct call *c, uint32_t handle, const union ucma_addr *addr,
		       uint64_t uid, uint64_t response)
{
	struct rdma_ucm_create_id_resp resp;
	struct ucma_mc *mc;
	struct ucma_id *id;
	int ret;

	if (c->out_len < sizeof(resp))
		return -ENOSPC;
	ret = get_id(c, handle, &id);
	if (!ret)
		ret = ucma_join(id, addr, uid, &mc);
	if (ret)
		return ret;
	resp.id = mc->handle;
	ret = respond(c, response, &resp, sizeof(resp));
	if (!ret)
		return 0;
	ucma_event_drop_mc(mc);
	ucma_leave(mc);
	return ret;
}

static int cmd_join_ip(struct call *c)
{
	union ucma_addr addr;

	copy_addr(&addr, &c->join_ip.addr, sizeof(c->join_ip.addr));
	if (!small_addr(&addr))
		return -EINVAL;
	return join_common(c, c->join_ip.id, &addr, c->join_ip.uid, c->join_ip.response);
}

static int cmd_join(struct call *c)
{
	union ucma_addr addr;

	copy_addr(&addr, &c->join.addr, sizeof(c->join.addr));
	if (!c->join.addr_size || c->join.addr_size != ucma_addr_size(&addr) ||
	    c->join.join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	return join_common(c, c->join.id, &addr, c->join.uid, c->join.response);
}

static int cmd_leave(struct call *c)
{
	struct rdma_ucm_destroy_id_resp resp;
	struct ucma_mc *mc;

	if (c->out_len < sizeof(resp))
		return -ENOSPC;
	mc = ucma_table_get(&c->f->u->mcs, c->destroy_id.id);
	if (!mc)
		return -ENOENT;
	if (mc->id->file != c->f)
		return -EINVAL;
	ucma_event_drop_mc(mc);
	resp.events_reported = ucma_leave(mc);
	return respond(c, c->destroy_id.response, &resp, sizeof(resp));
}

/* --- commands: events ------------------------------------------------------------- */

/* Wait, without the lock, until there may be an event. */
static int wait_event(struct call *c)
{
	struct engine *e = c->f->u->engine;
	/* who waits goes on to wait, who would not does not, as in the kernel */
	int fd = bell_fd(&c->f->bell, c->fd);
	int flags = fcntl(fd, F_GETFL);
	int ret;

	if (flags < 0)
		return -errno;
	if (flags & O_NONBLOCK)
		return -EAGAIN;
	engine_progress(e, ENGINE_CHANGED);
	engine_leave(e);
	ret = engine_wait(e, fd);
	engine_enter(e);
	return ret == -EINTR && handlers_restart() ? 0 : ret;
}

static int cmd_get_event(struct call *c)
{
	struct ucma_file *f = c->f;
	struct ucma_event *ev;
	int ret;

	if (c->out_len < offsetof(struct rdma_ucm_event_resp, reserved))
		return -ENOSPC;
	while (!f->events) {
		ret = wait_event(c);
		if (ret)
			return ret;
	}
	ev = f->events;
	c->about = ev->id->handle;
	c->id = ev->id;
	ret = respond(c, c->get_event.response, &ev->resp, sizeof(ev->resp));
	if (ret)
		return ret;
	ev->id->events_reported++;
	if (ev->mc)
		ev->mc->events_reported++;
	if (ev->conn) /* there is room for another request */
		ev->id->backlog++;
	ucma_show_given(ev);
	ucma_event_done(f);
	return 0;
}

/* --- commands: migration ---------------------------------------------------------- */

static void move_id(struct ucma_id *id, struct ucma_file *to)
{
	*id->prevp = id->next;
	if (id->next)
		id->next->prevp = id->prevp;
	id->file = to;
	id->next = to->ids;
	id->prevp = &to->ids;
	if (id->next)
		id->next->prevp = &id->next;
	to->ids = id;
}

/* Its events go with it, and so do requests that the application has not seen. */
static void migrate(struct ucma_id *id, struct ucma_file *to)
{
	struct ucma_event *ev = ucma_event_take(id), *next;

	for (; ev; ev = next) {
		next = ev->next;
		if (ev->conn && ev->conn != id)
			move_id(ev->conn, to);
		ucma_event_queue(to, ev);
	}
	move_id(id, to);
}

static int cmd_migrate(struct call *c)
{
	struct call from = {.f = ucma_file_get((int)c->migrate.fd)};
	struct rdma_ucm_migrate_resp resp;
	struct ucma_id *id;
	int ret;

	if (c->out_len < sizeof(resp))
		ret = -ENOSPC;
	else if (!from.f)
		ret = fcntl((int)c->migrate.fd, F_GETFD) < 0 ? -ENOENT : -EINVAL;
	else
		ret = from.f->u == c->f->u ? get_id(&from, c->migrate.id, &id) : -EINVAL;
	if (!ret) {
		if (from.f != c->f)
			migrate(id, c->f);
		resp.events_reported = id->events_reported;
		ret = respond(c, c->migrate.response, &resp, sizeof(resp));
	}
	if (from.f)
		vfile_put(&from.f->vf);
	return ret;
}

/* --- dispatch --------------------------------------------------------------------- */

/*
 * struct command
 * @min_in: bytes that must be there; what came with later kernels (ECE) may be missing
 */
struct command {
	int (*run)(struct call *c);
	uint32_t min_in;
};

static const struct command commands[] = {
    [RDMA_USER_CM_CMD_CREATE_ID] = {cmd_create_id, sizeof(struct rdma_ucm_create_id)},
    [RDMA_USER_CM_CMD_DESTROY_ID] = {cmd_destroy_id, sizeof(struct rdma_ucm_destroy_id)},
    [RDMA_USER_CM_CMD_BIND_IP] = {cmd_bind_ip, sizeof(struct rdma_ucm_bind_ip)},
    [RDMA_USER_CM_CMD_RESOLVE_IP] = {cmd_resolve_ip, sizeof(struct rdma_ucm_resolve_ip)},
    [RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {cmd_resolve_route,
					sizeof(struct rdma_ucm_resolve_route)},
    [RDMA_USER_CM_CMD_QUERY_ROUTE] = {cmd_query_route, sizeof(struct rdma_ucm_query)},
    [RDMA_USER_CM_CMD_CONNECT] = {cmd_connect, offsetof(struct rdma_ucm_connect, ece)},
    [RDMA_USER_CM_CMD_LISTEN] = {cmd_listen, sizeof(struct rdma_ucm_listen)},
    [RDMA_USER_CM_CMD_ACCEPT] = {cmd_accept, offsetof(struct rdma_ucm_accept, ece)},
    [RDMA_USER_CM_CMD_REJECT] = {cmd_reject, sizeof(struct rdma_ucm_reject)},
    [RDMA_USER_CM_CMD_DISCONNECT] = {cmd_disconnect, sizeof(struct rdma_ucm_disconnect)},
    [RDMA_USER_CM_CMD_INIT_QP_ATTR] = {cmd_init_qp_attr,
				       sizeof(struct rdma_ucm_init_qp_attr)},
    [RDMA_USER_CM_CMD_GET_EVENT] = {cmd_get_event, sizeof(struct rdma_ucm_get_event)},
    [RDMA_USER_CM_CMD_SET_OPTION] = {cmd_set_option, sizeof(struct rdma_ucm_set_option)},
    [RDMA_USER_CM_CMD_NOTIFY] = {cmd_notify, sizeof(struct rdma_ucm_notify)},
    [RDMA_USER_CM_CMD_JOIN_IP_MCAST] = {cmd_join_ip,
					sizeof(struct rdma_ucm_join_ip_mcast)},
    [RDMA_USER_CM_CMD_LEAVE_MCAST] = {cmd_leave, sizeof(struct rdma_ucm_destroy_id)},
    [RDMA_USER_CM_CMD_MIGRATE_ID] = {cmd_migrate, sizeof(struct rdma_ucm_migrate_id)},
    [RDMA_USER_CM_CMD_QUERY] = {cmd_query, sizeof(struct rdma_ucm_query)},
    [RDMA_USER_CM_CMD_BIND] = {cmd_bind, sizeof(struct rdma_ucm_bind)},
    [RDMA_USER_CM_CMD_RESOLVE_ADDR] = {cmd_resolve_addr,
				       sizeof(struct rdma_ucm_resolve_addr)},
    [RDMA_USER_CM_CMD_JOIN_MCAST] = {cmd_join, sizeof(struct rdma_ucm_join_mcast)},
    [UCMA_CMD_WRITE_CM_EVENT] = {cmd_write_event, sizeof(struct ucma_write_event)},
};

/* Bytes that the program gives to its peer */
static uint32_t private_len(const struct call *c, uint32_t command)
{
	switch (command) {
	case RDMA_USER_CM_CMD_CONNECT:
		return c->connect.conn_param.private_data_len;
	case RDMA_USER_CM_CMD_ACCEPT:
		return c->accept.conn_param.valid ? c->accept.conn_param.private_data_len
						  : 0;
	case RDMA_USER_CM_CMD_REJECT:
		return c->reject.private_data_len;
	default:
		return 0;
	}
}

ssize_t ucma_command(struct ucma_file *f, int fd, const void *buf, size_t len)
{
	struct call c = {.f = f, .fd = fd};
	struct rdma_ucm_cmd_hdr hdr;
	const struct command *cmd;
	int ret;

	if (len < sizeof(hdr))
		return -EINVAL;
	if (guard_copy(&hdr, buf, sizeof(hdr)))
		return -EFAULT;
	if (hdr.cmd >= sizeof(commands) / sizeof(commands[0]) ||
	    hdr.in + sizeof(hdr) > len)
		return -EINVAL;
	cmd = &commands[hdr.cmd];
	if (!cmd->run)
		return -ENOSYS;
	if (hdr.in < cmd->min_in)
		return -EINVAL;
	c.in_len = hdr.in < sizeof(c.in) ? hdr.in : sizeof(c.in);
	c.out_len = hdr.out;
	if (guard_copy(c.in, (const uint8_t *)buf + sizeof(hdr), c.in_len))
		return -EFAULT;
	ret = ucma_point_command(hdr.cmd);
	if (ret)
		return ret;
	/* Also a thread that always finds an event can be cancelled. */
	if (hdr.cmd == RDMA_USER_CM_CMD_GET_EVENT)
		pthread_testcancel();
	engine_enter(f->u->engine);
	emu_cm_set_time(f->u->cm, engine_now());
	ret = cmd->run(&c);
	ucma_show_call(f->u, c.id, c.about, hdr.cmd, private_len(&c, hdr.cmd), ret);
	engine_progress(f->u->engine, ENGINE_CHANGED);
	engine_leave(f->u->engine);
	return ret ? ret : (ssize_t)len;
}
