/*
 * engine_joints.c - where the core, the network and the memory of rings meet.
 *
 * What the core asks of its surroundings (struct emu_ops) is handed to the port and to
 * the kernel's faces, which registered for it; what the port receives is handed to the
 * device that it is for. Nothing is decided here but which device that is.
 *
 * Owns: nothing. Must not know: packets' contents, besides the QPN.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "net/bytes.h"
#include "net/rocev2.h"
#include "verbs/engine/engine_internal.h"
#include "verbs/host/reason.h"

/* --- what the core asks for ------------------------------------------------------- */

static uint8_t *ops_tx_get(void *arg, const struct net_path *path, uint32_t dqpn,
			   uint32_t len)
{
	struct engine_device *d = arg;

	return net_tx_get(d->engine->port, path, dqpn, len);
}

static void ops_tx_put(void *arg)
{
	struct engine_device *d = arg;

	net_tx_put(d->engine->port);
}

static bool ops_unread(void *arg, const struct net_path *path, uint32_t dqpn,
		       uint64_t since)
{
	struct engine_device *d = arg;

	return net_port_unread(d->engine->port, path, dqpn, since);
}

static int ops_qpn_lease(void *arg, uint32_t *base, uint32_t *count)
{
	struct engine_device *d = arg;

	return net_port_qpn_lease(d->engine->port, base, count);
}

static void *ops_ring_alloc(void *arg, void *owner, size_t bytes, uint64_t *offset)
{
	struct engine_ring_owner *o = owner;

	return o->alloc(o, bytes, offset);
}

static void ops_ring_free(void *arg, void *owner, void *ring, size_t bytes,
			  uint64_t offset)
{
	struct engine_ring_owner *o = owner;

	o->free(o, ring, bytes, offset);
}

static void ops_comp_event(void *arg, void *cookie)
{
	struct engine_event_sink *s = cookie;

	if (s)
		s->comp(s);
}

void engine_port_event(struct engine_device *d, enum ibv_event_type type)
{
	struct engine_port_sink *p;

	for (p = d->engine->sinks; p; p = p->next) {
		if (p->dev == d)
			p->async(p, type);
	}
}

static void ops_async_event(void *arg, enum ibv_event_type type, void *cookie)
{
	struct engine_event_sink *s = cookie;

	if (s)
		s->async(s, type);
	else
		engine_port_event(arg, type);
}

static void ops_gsi_rx(void *arg, const struct net_path *path, const uint8_t *mad,
		       uint32_t len)
{
	struct engine_device *d = arg;

	if (d->engine->cm)
		d->engine->cm->mad(d->engine->cm_arg, d, path, mad, len);
}

static int ops_mcast(void *arg, const struct net_ip *group, bool join)
{
	struct engine_device *d = arg;

	return net_port_mcast(d->engine->port, group, d->ifname, join);
}

static void ops_trace(void *arg, const char *line)
{
	engine_say(line);
}

const struct emu_ops engine_emu_ops = {
    .tx_get = ops_tx_get,
    .tx_put = ops_tx_put,
    .unread = ops_unread,
    .qpn_lease = ops_qpn_lease,
    .ring_alloc = ops_ring_alloc,
    .ring_free = ops_ring_free,
    .comp_event = ops_comp_event,
    .async_event = ops_async_event,
    .gsi_rx = ops_gsi_rx,
    .mcast = ops_mcast,
    .trace = ops_trace,
    .peer = engine_peer,
};

/* --- what the port receives ------------------------------------------------------- */

/* Is @ip an address of @d? (its GID table says so) */
static bool device_has_ip(const struct engine_device *d, const struct net_ip *ip)
{
	struct net_ip gid;
	unsigned int i;

	for (i = 0; i < EMU_GID_TABLE_LEN; i++) {
		if (emu_get_gid(d->hca, i, &gid) == 0 && net_ip_eq(&gid, ip))
			return true;
	}
	return false;
}

static uint32_t pkt_dqpn(const struct net_rx *pkt)
{
	return get_be24(pkt->data + 5);
}

/*
 * A packet for one of several devices: connected and datagram QPs go by number, QP1 by
 * address, and a multicast packet to all, which look for members themselves.
 */
static void port_rx(void *arg, const struct net_rx *pkt)
{
	struct engine *e = arg;
	unsigned int i;
	uint32_t qpn;

	if (pkt->len < ROCE_BTH_LEN)
		return;
	qpn = pkt_dqpn(pkt);
	for (i = 0; i < e->n_dev; i++) {
		struct engine_device *d = &e->dev[i];
		struct emu_qp *qp;

		if (qpn == ROCE_QPN_MULTICAST) {
			emu_hca_rx(d->hca, pkt);
		} else if (qpn == ROCE_QPN_GSI) {
			if (device_has_ip(d, &pkt->path->dst)) {
				emu_hca_rx(d->hca, pkt);
				return;
			}
		} else if ((qp = emu_hca_qp(d->hca, qpn))) {
			emu_qp_rx(qp, pkt);
			return;
		}
	}
}

static void port_too_large(void *arg, const struct net_ip *dst, uint32_t bytes)
{
	struct engine *e = arg;
	char text[INET6_ADDRSTRLEN], line[256];

	if (net_ip_is_v4(dst))
		inet_ntop(AF_INET, dst->b + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, dst->b, text, sizeof(text));
	snprintf(line, sizeof(line),
		 "packets of %u bytes cannot be sent to %s, the MTU is %d: the path MTU "
		 "of a QP is too large",
		 bytes, text, net_port_path_mtu(e->port, dst));
	engine_say(line);
}

static void port_capture_ended(void *arg, int err)
{
	const struct engine *e = arg;
	char line[400];

	snprintf(line, sizeof(line), "the capture %s ends here: %s%s", e->opt.pcap,
		 strerror(-err), reason_hint(-err));
	engine_say(line);
}

const struct net_port_ops engine_port_ops = {
    .rx = port_rx,
    .too_large = port_too_large,
    .capture_ended = port_capture_ended,
};
