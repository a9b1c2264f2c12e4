/*
 * ucma_port.c - port numbers of the RDMA port spaces.
 *
 * Theory of operation
 *
 * Within the process a port has a list of owners, and the rules are those of the kernel's
 * cma_check_port(). Across the processes of a host the rules must hold, too, so ports are
 * claimed in the registry that they share (net/port.h). An address A claims
 *
 *	(port space, port, family of A)   shared
 *	(port space, port, A)             exclusively
 *
 * and the wildcard of a family claims (port space, port, family) exclusively; the
 * wildcard of IPv6 that also serves IPv4 claims both families. So a wildcard excludes
 * all, two different addresses do not exclude each other. The same claims tell which
 * process a connection request is for (ucma_port_router()).
 *
 * An identifier that got a port only because it connects has no claim: nobody can send a
 * request to it, and 2^16 connections of a process would fill the registry.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "verbs/ucma/ucma_internal.h"

#define FIRST_FREE_PORT 1024  /* below, CAP_NET_BIND_SERVICE is needed */
#define EPHEMERAL_LOW	32768 /* ip_local_port_range, where it cannot be read */
#define EPHEMERAL_HIGH	60999

/* Port space of a service ID (annex A11): the value of enum rdma_ucm_port_space */
static uint16_t ps_of(uint64_t service_id)
{
	return (uint16_t)(service_id >> 16);
}

/*
 * struct claim - a claim in the registry, with the number of identifiers that it is for
 */
struct claim {
	struct claim *next;
	uint64_t key;
	unsigned int refs;
};

/*
 * struct ucma_port - a port number that is in use in this process
 */
struct ucma_port {
	struct ucma_port *next;
	uint16_t ps;
	uint16_t number;
	struct ucma_id *owners;
	struct claim *claims;
};

/* --- claims ----------------------------------------------------------------------- */

static uint64_t fnv(uint64_t h, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len--)
		h = (h ^ *p++) * 0x100000001b3u;
	return h;
}

uint64_t ucma_key(char kind, uint16_t ps, uint16_t port, const void *extra, size_t len)
{
	uint64_t h = 0xcbf29ce484222325u;

	h = fnv(h, "ucma", 4);
	h = fnv(h, &kind, 1);
	h = fnv(h, &ps, sizeof(ps));
	h = fnv(h, &port, sizeof(port));
	return fnv(h, extra, len);
}

static uint64_t family_key(uint16_t ps, uint16_t port, sa_family_t family)
{
	return ucma_key(family == AF_INET ? '4' : '6', ps, port, "", 0);
}

static uint64_t addr_key(uint16_t ps, uint16_t port, const struct net_ip *ip)
{
	return ucma_key('a', ps, port, ip->b, sizeof(ip->b));
}

static int claim_get(struct ucma *u, struct ucma_port *p, uint64_t key, bool exclusive)
{
	struct claim *c;
	int ret;

	for (c = p->claims; c; c = c->next) {
		if (c->key == key) {
			c->refs++;
			return 0;
		}
	}
	c = malloc(sizeof(*c));
	if (!c)
		return -ENOMEM;
	ret = net_registry_claim(engine_port(u->engine), key, exclusive);
	if (ret) {
		free(c);
		return ret;
	}
	*c = (struct claim){.next = p->claims, .key = key, .refs = 1};
	p->claims = c;
	return 0;
}

static void claim_put(struct ucma *u, struct ucma_port *p, uint64_t key)
{
	struct claim **pc = &p->claims, *c;

	while (*pc && (*pc)->key != key)
		pc = &(*pc)->next;
	c = *pc;
	if (!c || --c->refs)
		return;
	*pc = c->next;
	free(c);
	net_registry_release(engine_port(u->engine), key);
}

/* The keys of an identifier, at most two, and whether each is exclusive */
static unsigned int claims_of(const struct ucma_id *id, const struct ucma_port *p,
			      uint64_t key[2], bool exclusive[2])
{
	sa_family_t family = id->src.sa.sa_family;
	struct net_ip ip = ucma_addr_ip(&id->src);
	bool any = ucma_addr_is_zero(&id->src);

	if (id->implicit || family == UCMA_AF_IB)
		return 0;
	key[0] = family_key(p->ps, p->number, family);
	exclusive[0] = any;
	if (!any) {
		key[1] = addr_key(p->ps, p->number, &ip);
		exclusive[1] = true;
		return 2;
	}
	if (family == AF_INET || id->afonly)
		return 1;
	key[1] = family_key(p->ps, p->number, AF_INET);
	exclusive[1] = true;
	return 2;
}

static void unclaim_all(struct ucma_id *id, struct ucma_port *p)
{
	while (id->n_claims)
		claim_put(id->file->u, p, id->claim[--id->n_claims]);
}

static int claim_all(struct ucma_id *id, struct ucma_port *p)
{
	bool exclusive[2];
	uint64_t key[2];
	unsigned int i, n = claims_of(id, p, key, exclusive);
	int ret = 0;

	for (i = 0; i < n && !ret; i++) {
		ret = claim_get(id->file->u, p, key[i], exclusive[i]);
		if (!ret)
			id->claim[id->n_claims++] = key[i];
	}
	if (ret)
		unclaim_all(id, p);
	return ret;
}

/* --- owners ----------------------------------------------------------------------- */

static struct ucma_port **bucket(struct ucma *u, uint16_t number)
{
	return &u->ports[number % UCMA_PORT_BUCKETS];
}

static struct ucma_port *port_find(struct ucma *u, uint16_t ps, uint16_t number)
{
	struct ucma_port *p = *bucket(u, number);

	while (p && (p->ps != ps || p->number != number))
		p = p->next;
	return p;
}

static void port_gc(struct ucma *u, struct ucma_port *p)
{
	struct ucma_port **pp = bucket(u, p->number);

	if (p->owners)
		return;
	while (*pp != p)
		pp = &(*pp)->next;
	*pp = p->next;
	free(p);
}

static bool conflict(const struct ucma_id *a, const struct ucma_id *b, bool reuse)
{
	struct net_ip ip_a, ip_b;

	if (reuse && b->reuseaddr && b->state != UCMA_LISTEN)
		return false;
	if (a->afonly && b->afonly && a->src.sa.sa_family != b->src.sa.sa_family)
		return false;
	if (ucma_addr_is_zero(&a->src) || ucma_addr_is_zero(&b->src))
		return true;
	ip_a = ucma_addr_ip(&a->src);
	ip_b = ucma_addr_ip(&b->src);
	return a->src.sa.sa_family == b->src.sa.sa_family && net_ip_eq(&ip_a, &ip_b);
}

/*
 * The kernel's cma_check_port() answers EADDRNOTAVAIL where a wildcard is involved and
 * EADDRINUSE where not. Here it is always what bind(2) says.
 */
static int check_owners(const struct ucma_port *p, const struct ucma_id *id, bool reuse)
{
	const struct ucma_id *o;

	for (o = p->owners; o; o = o->port_next) {
		if (o != id && conflict(id, o, reuse))
			return -EADDRINUSE;
	}
	return 0;
}

/* Become an owner of the port @number, if that is allowed. */
static int own(struct ucma_id *id, uint16_t ps, uint16_t number)
{
	struct ucma *u = id->file->u;
	struct ucma_port *p = port_find(u, ps, number);
	int ret;

	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return -ENOMEM;
		p->ps = ps;
		p->number = number;
		p->next = *bucket(u, number);
		*bucket(u, number) = p;
	}
	ret = check_owners(p, id, id->reuseaddr);
	if (!ret)
		ret = claim_all(id, p);
	if (ret) {
		port_gc(u, p);
		return ret;
	}
	id->port = p;
	id->port_next = p->owners;
	p->owners = id;
	ucma_addr_set_port(&id->src, number);
	return 0;
}

void ucma_port_unbind(struct ucma_id *id)
{
	struct ucma_port *p = id->port;
	struct ucma_id **o;

	if (!p)
		return;
	o = &p->owners;
	while (*o != id)
		o = &(*o)->port_next;
	*o = id->port_next;
	unclaim_all(id, p);
	id->port = NULL;
	port_gc(id->file->u, p);
}

int ucma_port_may_listen(const struct ucma_id *id)
{
	return id->reuseaddr && id->port ? check_owners(id->port, id, false) : 0;
}

/* --- which number ----------------------------------------------------------------- */

static void ephemeral_range(unsigned int *low, unsigned int *high)
{
	char buf[64] = "";
	int fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (read(fd, buf, sizeof(buf) - 1) < 0)
			buf[0] = 0;
		close(fd);
	}
	if (sscanf(buf, "%u %u", low, high) != 2 || *low > *high || *high > 65535 ||
	    !*low) {
		*low = EPHEMERAL_LOW;
		*high = EPHEMERAL_HIGH;
	}
}

static uint64_t next_random(struct ucma *u)
{
	u->rng = u->rng * 6364136223846793005u + 1442695040888963407u;
	return u->rng >> 33;
}

static int bind_any(struct ucma_id *id, uint16_t ps)
{
	struct ucma *u = id->file->u;
	unsigned int low, high, n, i, at;
	int ret = -EADDRNOTAVAIL;

	ephemeral_range(&low, &high);
	n = high - low + 1;
	at = (unsigned int)(next_random(u) % n);
	for (i = 0; i < n; i++) {
		uint16_t number = (uint16_t)(low + (at + i) % n);

		if (number == u->last_port)
			continue;
		ret = own(id, ps, number);
		if (ret != -EADDRINUSE)
			break;
	}
	if (!ret)
		u->last_port = ucma_addr_port(&id->src);
	return ret == -EADDRINUSE ? -EADDRNOTAVAIL : ret;
}

static bool may_bind_low(void)
{
	struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct d[2] = {{0}};

	if (syscall(SYS_capget, &h, d))
		return false;
	return d[0].effective >> CAP_NET_BIND_SERVICE & 1;
}

/*
 * The port space that an AF_IB address names in its service ID (cma_select_ib_ps()); 0:
 * none that goes with the identifier's.
 */
static uint16_t ps_of_ib(struct ucma_id *id)
{
	static const uint16_t spaces[] = {RDMA_PS_IB, RDMA_PS_TCP, RDMA_PS_UDP};
	uint64_t mask = be64toh(id->src.ib.sid_mask_be) & ~(uint64_t)0xffff;
	uint64_t sid = be64toh(id->src.ib.sid_be) & mask;
	unsigned int i;

	for (i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		if (id->ps != RDMA_PS_IB && id->ps != spaces[i])
			continue;
		if (sid != (((uint64_t)spaces[i] << 16) & mask))
			continue;
		id->src.ib.sid_be =
		    htobe64((uint64_t)spaces[i] << 16 | ucma_addr_port(&id->src));
		id->src.ib.sid_mask_be |= htobe64(~(uint64_t)0xffff);
		return spaces[i];
	}
	return 0;
}

int ucma_port_bind(struct ucma_id *id)
{
	uint16_t ps = id->src.sa.sa_family == UCMA_AF_IB ? ps_of_ib(id) : id->ps;
	uint16_t number = ucma_addr_port(&id->src);

	if (!ps)
		return -EPROTONOSUPPORT;
	if (!number)
		return bind_any(id, ps);
	if (number < FIRST_FREE_PORT && !may_bind_low())
		return -EACCES;
	return own(id, ps, number);
}

/* --- who gets a request ----------------------------------------------------------- */

static bool listens_for(const struct ucma_id *id, sa_family_t family,
			const struct net_ip *dst, const struct engine_device *dev)
{
	struct net_ip ip;

	if (id->state != UCMA_LISTEN || (id->dev && id->dev != dev))
		return false;
	if (ucma_addr_is_zero(&id->src))
		return !id->afonly || id->src.sa.sa_family == family;
	ip = ucma_addr_ip(&id->src);
	return id->src.sa.sa_family == family && net_ip_eq(&ip, dst);
}

struct ucma_id *ucma_port_listener(struct ucma *u, uint16_t ps, uint16_t port,
				   sa_family_t family, const struct net_ip *dst,
				   const struct engine_device *dev)
{
	struct ucma_port *p = port_find(u, ps, port);
	struct ucma_id *id = p ? p->owners : NULL;

	while (id && !listens_for(id, family, dst, dev))
		id = id->port_next;
	return id;
}

static int route_request(struct ucma *u, uint64_t service_id, const uint8_t *priv)
{
	struct net_port *np = engine_port(u->engine);
	uint16_t ps = ps_of(service_id), port = (uint16_t)service_id;
	struct cm_ip_hdr h;
	unsigned int slot;

	if (cm_ip_hdr_parse(priv, &h))
		return NET_GSI_OWN;
	if (!net_registry_find(np, addr_key(ps, port, &h.dst), &slot) ||
	    !net_registry_find(
		np, family_key(ps, port, h.version == 4 ? AF_INET : AF_INET6), &slot))
		return (int)slot;
	return NET_GSI_OWN;
}

int ucma_port_router(void *arg, const uint8_t *mad, uint32_t len)
{
	struct ucma *u = arg;
	struct cm_msg m;
	uint32_t slot;

	if (cm_mad_parse(mad, len, &m))
		return NET_GSI_ALL;
	slot = emu_cm_slot_of(m.remote_id);
	switch (m.attr) {
	case CM_REQ:
		return route_request(u, m.req.service_id, m.priv);
	case CM_SIDR_REQ:
		return route_request(u, m.sidr_req.service_id, m.priv);
	case CM_SIDR_REP: /* the request ID is the receiver's */
		slot = emu_cm_slot_of(m.local_id);
		break;
	case CM_MRA:
	case CM_REJ:
	case CM_REP:
	case CM_RTU:
	case CM_DREQ:
	case CM_DREP:
		break;
	}
	return slot ? (int)slot : NET_GSI_ALL;
}
