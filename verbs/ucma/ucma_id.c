/*
 * ucma_id.c - the life of an identifier: addresses, route, listening, multicast.
 *
 * Theory of operation
 *
 * An identifier walks through the states of the kernel's cma.c:
 *
 *	IDLE -bind-> ADDR_BOUND -resolve_addr-> ADDR_DONE -resolve_route-> ROUTE_DONE
 *	     -connect-> CONNECT -> DISCONNECT          (ucma_peer.c)
 *	ADDR_BOUND -listen-> LISTEN; each request makes a new identifier in CONNECT
 *
 * There is nothing to wait for in resolving: the host's routes answer at once. So the
 * events are queued before the command returns, which no program can tell from a fast
 * kernel.
 *
 * Loopback. The kernel takes any 127.x for "this host" and any device for it, chosen when
 * a destination is resolved. Here lo has a device of its own by default; its address stands
 * for all of 127.0.0.0/8 on the wire (sgid, dgid), while the socket addresses stay what the
 * program said. If no device is on lo, the first one serves, with its own address as both
 * ends.
 */
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/host/netdev.h"
#include "verbs/ucma/ucma_internal.h"

/* --- life ------------------------------------------------------------------------- */

struct ucma_id *ucma_id_new(struct ucma_file *f, uint16_t ps, uint8_t qp_type)
{
	struct ucma_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	if (ucma_table_add(&f->u->ids, id, &id->handle)) {
		free(id);
		return NULL;
	}
	id->file = f;
	id->ps = ps;
	id->qp_type = qp_type;
	if (ucma_show_new(id)) {
		ucma_table_del(&f->u->ids, id->handle);
		free(id);
		return NULL;
	}
	f->u->rng = f->u->rng * 6364136223846793005u + 1442695040888963407u;
	id->psn = (uint32_t)(f->u->rng >> 40);
	id->next = f->ids;
	id->prevp = &f->ids;
	if (id->next)
		id->next->prevp = &id->next;
	f->ids = id;
	return id;
}

uint32_t ucma_id_destroy(struct ucma_id *id)
{
	uint32_t reported = id->events_reported;

	while (id->mcs)
		ucma_leave(id->mcs);
	ucma_port_unbind(id);
	if (id->conn)
		emu_cm_release(id->conn);
	ucma_show_gone(id);
	ucma_table_del(&id->file->u->ids, id->handle);
	*id->prevp = id->next;
	if (id->next)
		id->next->prevp = id->prevp;
	free(id);
	return reported;
}

/* --- addresses -------------------------------------------------------------------- */

static void attach(struct ucma_id *id, struct engine_device *dev, unsigned int index,
		   const struct net_ip *gid)
{
	id->dev = dev;
	id->gid_index = index;
	id->sgid = *gid;
}

/* Find the device for the source address. 0, -ENODEV, -EADDRNOTAVAIL */
static int attach_source(struct ucma_id *id)
{
	struct engine *e = id->file->u->engine;
	struct net_ip ip = ucma_addr_ip(&id->src), gid;
	unsigned int index;
	struct engine_device *dev = ucma_dev_by_ip(e, &ip, &index);

	if (dev) {
		attach(id, dev, index, &ip);
		return 0;
	}
	if (ucma_addr_is_loopback(&id->src)) {
		dev = ucma_dev_loopback(e, id->src.sa.sa_family, &index, &gid);
		if (!dev)
			return -ENODEV;
		attach(id, dev, index, &gid);
		return 0;
	}
	return ucma_addr_is_local(&id->src) ? -ENODEV : -EADDRNOTAVAIL;
}

static bool needs_scope(const union ucma_addr *a)
{
	return a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&a->in6.sin6_addr) &&
	       !a->in6.sin6_scope_id;
}

/*
 * To the kernel a loopback address is as good as any address (cma_any_addr()): it ties the
 * identifier to no device.
 */
static int bind_source(struct ucma_id *id)
{
	int ret = 0;

	if (needs_scope(&id->src))
		return -EINVAL;
	if (id->src.sa.sa_family == UCMA_AF_IB)
		ret = ucma_addr_is_zero(&id->src) ? 0 : -ENODEV;
	else if (!ucma_addr_is_zero(&id->src) && !ucma_addr_is_loopback(&id->src))
		ret = attach_source(id);
	if (ret)
		return ret;
	/*
	 * net.ipv6.bindv6only is 0 nearly everywhere: an IPv6 wildcard serves IPv4, too.
	 */
	if (!id->afonly_set)
		id->afonly = id->src.sa.sa_family == AF_INET;
	ret = ucma_port_bind(id);
	if (ret)
		id->dev = NULL;
	return ret;
}

int ucma_bind(struct ucma_id *id, const union ucma_addr *addr)
{
	int ret;

	if (!ucma_addr_size(addr))
		return -EAFNOSUPPORT;
	if (id->state != UCMA_IDLE)
		return -EINVAL;
	id->src = *addr;
	ret = bind_source(id);
	if (ret) {
		memset(&id->src, 0, sizeof(id->src));
		return ret;
	}
	id->dst.sa.sa_family = addr->sa.sa_family;
	id->state = UCMA_ADDR_BOUND;
	return 0;
}

/* The source of an identifier that was never bound: what the program says, or any */
static int bind_implicitly(struct ucma_id *id, const union ucma_addr *src,
			   const union ucma_addr *dst)
{
	union ucma_addr any = {.sa.sa_family = dst->sa.sa_family};

	if (dst->sa.sa_family == AF_INET6)
		any.in6.sin6_scope_id = dst->in6.sin6_scope_id;
	if (!src || !src->sa.sa_family)
		src = &any;
	id->implicit = ucma_addr_port(src) == 0;
	return ucma_bind(id, src);
}

static int resolve_loopback(struct ucma_id *id)
{
	struct engine_device *dev;
	struct net_ip gid;
	unsigned int index;

	if (!id->dev) {
		dev = ucma_dev_loopback(id->file->u->engine, id->dst.sa.sa_family, &index,
					&gid);
		if (!dev)
			return -ENODEV;
		attach(id, dev, index, &gid);
		if (ucma_addr_is_zero(&id->src))
			ucma_addr_set_loopback(&id->src);
	}
	id->dgid = id->sgid;
	return 0;
}

/*
 * As in the kernel, a route that does not exist is an error of the call, a route through
 * an interface without device one that an event tells.
 */
static int resolve_remote(struct ucma_id *id, int *status)
{
	int ret = ucma_route(&id->src, &id->dst);

	if (ret)
		return ret;
	if (!id->dev)
		*status = attach_source(id) ? -ENODEV : 0;
	id->dgid = ucma_addr_ip(&id->dst);
	return 0;
}

static int resolve(struct ucma_id *id)
{
	int status = 0, ret;

	if (id->dst.sa.sa_family == UCMA_AF_IB)
		ret = -ENODEV; /* only real InfiniBand has such addresses */
	else if (ucma_addr_is_zero(&id->dst) || ucma_addr_is_loopback(&id->dst))
		ret = resolve_loopback(id);
	else
		ret = resolve_remote(id, &status);
	if (ret)
		return ret;
	if (!status)
		id->state = UCMA_ADDR_DONE;
	ucma_push(id, status ? UCMA_ADDR_ERROR : UCMA_ADDR_RESOLVED, status);
	return 0;
}

int ucma_resolve_addr(struct ucma_id *id, const union ucma_addr *src,
		      const union ucma_addr *dst)
{
	int ret;

	if (!ucma_addr_size(dst))
		return -EINVAL;
	if (id->state == UCMA_IDLE) {
		ret = bind_implicitly(id, src, dst);
		if (ret)
			return ret;
	}
	if (id->state != UCMA_ADDR_BOUND || id->src.sa.sa_family != dst->sa.sa_family)
		return -EINVAL;
	id->dst = *dst;
	ret = resolve(id);
	if (ret) {
		memset(&id->dst, 0, sizeof(id->dst));
		id->dst.sa.sa_family = dst->sa.sa_family;
	}
	return ret;
}

/* --- routes ----------------------------------------------------------------------- */

/*
 * A hash of the ports as flow label, as the kernel makes it for RoCE, unless the program
 * gave one with an IPv6 address
 */
static uint32_t flow_label(const struct ucma_id *id)
{
	uint32_t given = 0;

	if (id->src.sa.sa_family == AF_INET6)
		given = ntohl(id->src.in6.sin6_flowinfo) & 0xfffff;
	if (given)
		return given;
	return ((uint32_t)ucma_addr_port(&id->src) * 31 + ucma_addr_port(&id->dst)) &
	       0xfffff;
}

/* The path MTU of the device, or that of the route if it is known to be smaller */
static enum ibv_mtu path_mtu(const struct ucma_id *id)
{
	struct net_port *np = engine_port(id->file->u->engine);
	int bytes = net_port_path_mtu(np, &id->dgid);
	struct ibv_port_attr attr;
	enum ibv_mtu mtu;

	emu_query_port(id->dev->hca, &attr);
	mtu = bytes > 0 ? netdev_ib_mtu((unsigned int)bytes) : attr.active_mtu;
	return mtu < attr.active_mtu ? mtu : attr.active_mtu;
}

int ucma_resolve_route(struct ucma_id *id)
{
	if (!id->dev || id->state != UCMA_ADDR_DONE)
		return -EINVAL;
	id->path = (struct ucma_path){
	    .mtu = path_mtu(id),
	    /* Half of the ACK timeout that the program wants, if it wants one (cma.c) */
	    .lifetime = id->ack_timeout_set && id->ack_timeout ? id->ack_timeout - 1
							       : UCMA_LIFETIME,
	    .tclass = id->tos,
	    .hop_limit = UCMA_HOP_LIMIT,
	    .flow = flow_label(id),
	};
	id->num_paths = 1;
	id->state = UCMA_ROUTE_DONE;
	ucma_push(id, UCMA_ROUTE_RESOLVED, 0);
	return 0;
}

int ucma_set_path(struct ucma_id *id, const struct ucma_path *path)
{
	if (!id->dev || id->state != UCMA_ADDR_DONE)
		return -EINVAL;
	id->path = *path;
	id->num_paths = 1;
	id->state = UCMA_ROUTE_DONE;
	ucma_push(id, UCMA_ROUTE_RESOLVED, 0);
	return 0;
}

void ucma_fill_ah(const struct ucma_id *id, struct ib_uverbs_ah_attr *ah)
{
	memset(ah, 0, sizeof(*ah));
	memcpy(ah->grh.dgid, id->dgid.b, 16);
	ah->grh.flow_label = id->path.flow;
	ah->grh.sgid_index = (uint8_t)id->gid_index;
	ah->grh.hop_limit = id->path.hop_limit;
	ah->grh.traffic_class = id->path.tclass;
	ah->is_global = 1;
	ah->port_num = EMU_PORT;
}

/* --- listening -------------------------------------------------------------------- */

int ucma_listen(struct ucma_id *id, int backlog)
{
	union ucma_addr any = {.sa.sa_family = AF_INET};
	int ret;

	if (id->state == UCMA_IDLE) {
		ret = ucma_bind(id, &any);
		if (ret)
			return ret;
	}
	if (id->state != UCMA_ADDR_BOUND)
		return -EINVAL;
	ret = ucma_port_may_listen(id);
	if (ret)
		return ret;
	id->backlog = backlog > 0 && backlog < UCMA_MAX_BACKLOG ? (uint32_t)backlog
								: UCMA_MAX_BACKLOG;
	id->state = UCMA_LISTEN;
	return 0;
}

/* --- multicast -------------------------------------------------------------------- */

int ucma_join(struct ucma_id *id, const union ucma_addr *addr, uint64_t uid,
	      struct ucma_mc **out)
{
	struct ucma_event *ev;
	struct ucma_mc *mc;

	if (!id->dev || (id->state != UCMA_ADDR_BOUND && id->state != UCMA_ADDR_DONE))
		return -EINVAL;
	if (id->qp_type != IBV_QPT_UD || ucma_addr_is_zero(addr) ||
	    addr->sa.sa_family == UCMA_AF_IB)
		return -EINVAL;
	mc = calloc(1, sizeof(*mc));
	if (!mc)
		return -ENOMEM;
	if (ucma_table_add(&id->file->u->mcs, mc, &mc->handle)) {
		free(mc);
		return -ENOMEM;
	}
	mc->id = id;
	mc->uid = uid;
	mc->addr = *addr;
	mc->next = id->mcs;
	id->mcs = mc;
	*out = mc;
	ev = ucma_push(id, UCMA_MULTICAST_JOIN, 0);
	if (ev) {
		struct net_ip mgid = ucma_addr_ip(addr);

		ev->mc = mc;
		ev->resp.uid = uid;
		ev->resp.id = mc->handle;
		ucma_fill_ah(id, &ev->resp.param.ud.ah_attr);
		memcpy(ev->resp.param.ud.ah_attr.grh.dgid, mgid.b, 16);
		ev->resp.param.ud.ah_attr.grh.hop_limit = UCMA_HOP_LIMIT;
		ev->resp.param.ud.ah_attr.grh.traffic_class = id->tos;
		ev->resp.param.ud.qp_num = UCMA_MCAST_QPN;
		ev->resp.param.ud.qkey = id->ps == RDMA_PS_UDP ? UCMA_UDP_QKEY : 0;
	}
	return 0;
}

uint32_t ucma_leave(struct ucma_mc *mc)
{
	uint32_t reported = mc->events_reported;
	struct ucma_mc **p = &mc->id->mcs;

	while (*p != mc)
		p = &(*p)->next;
	*p = mc->next;
	ucma_table_del(&mc->id->file->u->mcs, mc->handle);
	free(mc);
	return reported;
}
