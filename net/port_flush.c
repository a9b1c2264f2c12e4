/*
 * port_flush.c - FLUSH between urxe and Linux.
 *
 * Theory of operation
 *
 * Linux's rdma_rxe (6.2 and later) computes the ICRC of a FLUSH request in a way of its own, and
 * expects it so: icrc_linux_flush(). No other opcode is concerned, and no other implementation is
 * known to do it. So
 *
 * - a FLUSH that came with the wrong ICRC is tried as one of Linux, and tells what its sender is;
 * - a FLUSH to another host begins in the form of the specification, unless Linux is known to be
 *   there. One that is sent again had no answer, and takes the other form. So the first FLUSH of
 *   a connection to Linux may cost a timeout, and no other does.
 *
 * Owns: which form whose FLUSHs have. Must not know: what a FLUSH means.
 */
#include "net/bytes.h"
#include "net/port_internal.h"

static struct port_flush_peer *peer_of(struct net_port *p, uint32_t dqpn)
{
	return &p->flush.peer[(dqpn * 0x9e3779b1u >> 16) % PORT_FLUSH_PEERS];
}

static bool is_linux(const struct net_port *p, const struct net_ip *host)
{
	unsigned int i;

	for (i = 0; i < PORT_FLUSH_HOSTS; i++)
		if (net_ip_eq(&p->flush.host[i], host))
			return true;
	return false;
}

bool port_flush_linux(const struct net_port *p, const uint8_t *data)
{
	uint32_t dqpn = get_be32(data + 4) & ROCE_QPN_MASK;
	const struct port_flush_peer *peer = peer_of((struct net_port *)p, dqpn);

	return roce_is_flush(data[0]) && peer->dqpn == dqpn && peer->in_linux_form;
}

uint32_t port_flush_icrc(struct net_port *p, const struct port_route *r, uint32_t icrc,
			 const uint8_t *data, uint32_t len)
{
	uint32_t dqpn = get_be32(data + 4) & ROCE_QPN_MASK;
	uint32_t psn = get_be32(data + 8) & ROCE_PSN_MASK;
	struct port_flush_peer *peer = peer_of(p, dqpn);

	if (r->local)
		return icrc;
	if (peer->dqpn != dqpn || !net_ip_eq(&peer->dst, &r->path.dst))
		*peer =
		    (struct port_flush_peer){.dst = r->path.dst,
					     .dqpn = dqpn,
					     .in_linux_form = is_linux(p, &r->path.dst)};
	else if (peer->psn == psn)
		peer->in_linux_form = !peer->in_linux_form;
	peer->psn = psn;
	return peer->in_linux_form ? icrc_linux_flush(icrc, data, len) : icrc;
}

int32_t port_flush_ip_id(struct port_rx *rx, uint32_t icrc, const uint8_t *data,
			 uint32_t len)
{
	struct port_flush *f = &rx->p->flush;
	uint32_t diff = icrc_linux_flush(icrc, data, len) ^ icrc_load(data + len);
	int32_t id = 0;

	if (diff)
		id = net_ip_is_v4(&rx->path.dst)
			 ? icrc_find_id(diff, icrc_id_factor(2 * len))
			 : -1;
	if (id < 0)
		return id;
	rx->p->stats->rx_linux_flush++;
	if (!is_linux(rx->p, &rx->path.src))
		f->host[f->next_host++ % PORT_FLUSH_HOSTS] = rx->path.src;
	return id;
}
