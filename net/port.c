/*
 * port.c - the life of a port: its slot, sockets, addresses and groups, and the switch's
 * succession. The ways of packets are in port_tx.c, port_rx.c, port_lane.c and port_flush.c.
 */
#include "net/port.h"

#include <errno.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "inject/inject.h"
#include "net/port_internal.h"
#include "net/table_file.h"

/* How often a process tries to become the switch, at least */
#define TRY_NS 60000000ull
/* How long a capture may lag behind */
#define FLUSH_NS 100000000ull
/* Packets of a poll that looks at the sockets, however many came by lanes */
#define SOCKETS_MIN 16
/* Empty polls after which each socket was looked at: see SOCKET_POLLS, EMPTY_POLLS */
#define QUIET_POLLS 40
/* Packets of a poll that is one of many */
#define DRAIN_BUDGET 256
/* When to try again what the kernel did not take */
#define RETRY_NS 100000ull

static uint64_t clock_now(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* Good enough for what is remembered for tenths of a second, and costs next to nothing */
void port_set_now(struct net_port *p)
{
	uint32_t before = p->host.generation;

	p->now = clock_now(p->impair ? CLOCK_MONOTONIC : CLOCK_MONOTONIC_COARSE);
	hostaddr_update(&p->host, p->now);
	p->generation += p->host.generation - before;
}

/* --- opening and closing ---------------------------------------------------------- */

/*
 * The default is sockets, which are as fast and are allowed everywhere. Where the kernel
 * denies io_uring (too old, or a container's seccomp filter), sockets take its place.
 */
static int open_backend(struct net_port *p, const char *name)
{
	if (name && strcmp(name, "socket") != 0 && strcmp(name, "uring") != 0)
		return -EINVAL;
#ifdef HAVE_URING
	if (name && !strcmp(name, "uring")) {
		p->be_ops = &net_backend_uring;
		if (p->be_ops->open(&p->be) == 0)
			return 0;
	}
#endif
	p->be_ops = &net_backend_socket;
	return p->be_ops->open(&p->be);
}

/* What is opened now, for whoever must tell that it failed */
static void opening(const struct net_port_cfg *cfg, const char *what)
{
	if (cfg->what)
		*cfg->what = what;
}

static int open_slot(struct net_port *p, const struct net_port_cfg *cfg)
{
	static char where[400]; /* for who tells of a failure, later */
	int ret;

	p->guard = net_sock_reserve(&p->port_num);
	if (p->guard < 0)
		return p->guard;
	table_file_where(cfg->shm_dir, where, sizeof(where));
	opening(cfg, where);
	ret = table_open(cfg->shm_dir, &p->table);
	if (ret)
		return ret;
	ret = table_lease(p->table, p->port_num);
	if (ret < 0)
		return ret;
	p->slot = (unsigned int)ret;
	return 0;
}

static void impaired(void *arg, enum impair_dir dir, const struct impair_pkt *pkt)
{
	if (dir == IMPAIR_TX)
		port_tx_impaired(arg, pkt);
	else
		port_rx_impaired(arg, pkt);
}

static int open_tools(struct net_port *p, const struct net_port_cfg *cfg)
{
	int ret;

	if (cfg->impair || inject_on_any(INJECT_PACKETS)) {
		ret = impair_open(cfg->impair, impaired, p, &p->impair);
		if (ret)
			return ret;
	}
	if (impair_has(p->impair, IMPAIR_TX)) {
		p->tx.aside = malloc(NET_PKT_MAX);
		if (!p->tx.aside)
			return -ENOMEM;
	}
	if (!cfg->pcap)
		return 0;
	opening(cfg, "capture (--pcap)");
	return pcap_open(cfg->pcap, &p->pcap);
}

static int open_parts(struct net_port *p, const struct net_port_cfg *cfg)
{
	int ret = open_slot(p, cfg);

	if (ret)
		return ret;
	opening(cfg, "network");
	ret = hostaddr_open(&p->host);
	if (!ret)
		ret = open_backend(p, cfg->backend);
	if (ret)
		return ret;
	p->tx.arena = mmap(NULL, TX_ARENA, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p->tx.arena == MAP_FAILED) {
		p->tx.arena = NULL;
		return -ENOMEM;
	}
	icrc_id_table(p->id_crc);
	return open_tools(p, cfg);
}

/* All that is seen of the wire, or done to it, is seen and done at the sockets */
static void init_lanes(struct net_port *p, const struct net_port_cfg *cfg)
{
	p->lanes.on = !cfg->no_lanes && !p->impair && !p->pcap;
}

static void free_parts(struct net_port *p, void (*table_done)(struct table *),
		       void (*pcap_done)(struct pcap *))
{
	if (p->pcap)
		pcap_done(p->pcap);
	impair_close(p->impair);
	free(p->tx.aside);
	if (p->be)
		p->be_ops->close(p->be);
	if (p->tx.arena)
		munmap(p->tx.arena, TX_ARENA);
	hostaddr_close(&p->host);
	if (p->table)
		table_done(p->table);
	if (p->guard >= 0)
		close(p->guard);
	free(p);
}

int net_port_open(const struct net_port_cfg *cfg, struct net_port **out)
{
	struct net_port *p = calloc(1, sizeof(*p));
	int ret;

	if (!p)
		return -ENOMEM;
	p->ops = cfg->ops;
	p->arg = cfg->arg;
	p->stats = cfg->stats ? cfg->stats : &p->own_stats;
	p->guard = -1;
	p->host.nl_fd = -1;
	p->generation = 1;
	p->tx.flip = -1;
	ret = open_parts(p, cfg);
	if (ret) {
		free_parts(p, table_close, pcap_close);
		return ret;
	}
	init_lanes(p, cfg);
	port_set_now(p);
	*out = p;
	return 0;
}

static void close_sock(struct net_port *p, struct net_sock *sk, bool forked)
{
	if (sk->fd < 0)
		return;
	p->be_ops->del(p->be, sk, forked);
	close(sk->fd);
	sk->fd = -1;
}

static void close_addr(struct net_port *p, struct port_addr *a, bool forked)
{
	close_sock(p, &a->roce, forked);
	close_sock(p, &a->own, forked);
	free(a);
}

static void close_sockets(struct net_port *p, bool forked)
{
	struct port_addr *a;
	struct port_group *g;

	p->lanes.forked = forked;
	port_lane_forget(p, NULL);
	while ((a = p->addrs)) {
		p->addrs = a->next;
		close_addr(p, a, forked);
	}
	while ((g = p->groups)) {
		p->groups = g->next;
		close_sock(p, &g->sk, forked);
		free(g);
	}
}

void *net_port_table(const struct net_port *p, size_t *len)
{
	return table_memory(p->table, len);
}

void net_port_close(struct net_port *p)
{
	port_lane_flush(p);
	port_tx_send(p);
	close_sockets(p, false);
	free_parts(p, table_close, pcap_close);
}

void net_port_abandon(struct net_port *p)
{
	close_sockets(p, true);
	free_parts(p, table_abandon, pcap_abandon);
}

/* --- addresses -------------------------------------------------------------------- */

struct port_addr *port_addr_find(const struct net_port *p, const struct net_ip *ip)
{
	struct port_addr *a;

	for (a = p->addrs; a; a = a->next)
		if (net_ip_eq(&a->ip, ip))
			return a;
	return NULL;
}

static int open_sock(struct net_port *p, struct net_sock *sk, uint16_t port)
{
	int ret = net_sock_open(sk, port, p->guard);

	if (ret)
		return ret;
	ret = p->be_ops->add(p->be, sk);
	if (ret) {
		close(sk->fd);
		sk->fd = -1;
	}
	return ret;
}

/* Become the switch of an address, if nobody is. That others find out has no hurry. */
static bool try_roce(struct net_port *p, struct port_addr *a)
{
	if (open_sock(p, &a->roce, ROCE_UDP_PORT))
		return false;
	table_claim(p->table, switch_key(&a->ip), false);
	return true;
}

int net_port_add_ip(struct net_port *p, const struct net_ip *ip, const char *ifname)
{
	struct port_addr *a = port_addr_find(p, ip);
	int ret;

	if (a) {
		a->refs++;
		return 0;
	}
	a = calloc(1, sizeof(*a));
	if (!a)
		return -ENOMEM;
	a->ip = *ip;
	a->ifindex = ifname ? if_nametoindex(ifname) : 0;
	a->refs = 1;
	a->own = (struct net_sock){.fd = -1,
				   .kind = NET_SOCK_OWN,
				   .ip = *ip,
				   .local = *ip,
				   .ifindex = a->ifindex};
	a->roce = a->own;
	a->roce.kind = NET_SOCK_ROCE;
	ret = open_sock(p, &a->own, p->port_num);
	if (ret) {
		free(a);
		return ret;
	}
	a->next = p->addrs;
	p->addrs = a;
	p->generation++;
	try_roce(p, a);
	return 0;
}

void net_port_del_ip(struct net_port *p, const struct net_ip *ip)
{
	struct port_addr *a = port_addr_find(p, ip), **link;

	if (!a || --a->refs)
		return;
	port_lane_forget(p, a);
	port_tx_forget(p, &a->own);
	if (a->roce.fd >= 0)
		table_release(p->table, switch_key(ip));
	for (link = &p->addrs; *link != a; link = &(*link)->next)
		;
	*link = a->next;
	p->generation++;
	close_addr(p, a, false);
}

bool net_port_has_roce_port(const struct net_port *p, const struct net_ip *ip)
{
	const struct port_addr *a = port_addr_find(p, ip);
	unsigned int slot;

	return (a && a->roce.fd >= 0) ||
	       !table_find(p->table, switch_key(ip), p->now, &slot);
}

/* --- multicast -------------------------------------------------------------------- */

static const struct net_ip *addr_on(const struct net_port *p, uint32_t ifindex, bool v4)
{
	const struct port_addr *a;

	for (a = p->addrs; a; a = a->next)
		if (a->ifindex == ifindex && net_ip_is_v4(&a->ip) == v4)
			return &a->ip;
	return NULL;
}

static struct port_group **group_link(struct net_port *p, const struct net_ip *group,
				      uint32_t ifindex)
{
	struct port_group **link;

	for (link = &p->groups; *link; link = &(*link)->next)
		if (net_ip_eq(&(*link)->sk.ip, group) && (*link)->sk.ifindex == ifindex)
			break;
	return link;
}

static int join(struct net_port *p, const struct net_ip *group, uint32_t ifindex)
{
	const struct net_ip *local = addr_on(p, ifindex, net_ip_is_v4(group));
	struct port_group *g;
	int ret;

	if (!net_ip_is_mcast(group) || !ifindex)
		return -EINVAL;
	if (!local)
		return -EADDRNOTAVAIL;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->refs = 1;
	g->sk = (struct net_sock){.fd = -1,
				  .kind = NET_SOCK_MCAST,
				  .ip = *group,
				  .local = *local,
				  .ifindex = ifindex};
	ret = open_sock(p, &g->sk, ROCE_UDP_PORT);
	if (ret) {
		free(g);
		return ret;
	}
	g->next = p->groups;
	p->groups = g;
	return 0;
}

int net_port_mcast(struct net_port *p, const struct net_ip *group, const char *ifname,
		   bool on)
{
	uint32_t ifindex = ifname ? if_nametoindex(ifname) : 0;
	struct port_group **link = group_link(p, group, ifindex), *g = *link;

	if (on && g) {
		g->refs++;
	} else if (on) {
		return join(p, group, ifindex);
	} else if (!g) {
		return -EADDRNOTAVAIL;
	} else if (--g->refs == 0) {
		*link = g->next;
		close_sock(p, &g->sk, false);
		free(g);
	}
	return 0;
}

/* --- slots ------------------------------------------------------------------------ */

int net_port_qpn_lease(struct net_port *p, uint32_t *base, uint32_t *count)
{
	int slot = (int)p->slot;

	if (p->leases) {
		slot = table_lease(p->table, p->port_num);
		if (slot < 0)
			return slot;
	}
	p->leases++;
	*base = (uint32_t)slot << TABLE_SLOT_SHIFT;
	*count = TABLE_SLOT_QPNS;
	if (*base + *count > ROCE_QPN_MULTICAST)
		*count -= 1;
	return 0;
}

void net_port_set_gsi_router(struct net_port *p, net_gsi_router fn, void *arg)
{
	p->gsi = fn;
	p->gsi_arg = arg;
}

int net_registry_claim(struct net_port *p, uint64_t key, bool exclusive)
{
	return table_claim(p->table, key, exclusive);
}

int net_registry_release(struct net_port *p, uint64_t key)
{
	return table_release(p->table, key);
}

int net_registry_find(struct net_port *p, uint64_t key, unsigned int *slot)
{
	port_set_now(p);
	return table_find(p->table, key, p->now, slot);
}

bool net_port_is_ruled(const struct net_port *p)
{
	return impair_is_ruled(p->impair);
}

/* --- progress --------------------------------------------------------------------- */

/* Packets of the impairment that are due; when the next one is */
static uint64_t run_impair(struct net_port *p)
{
	uint64_t next;

	if (!p->impair)
		return UINT64_MAX;
	next = impair_run(p->impair, p->now);
	port_tx_send(p);
	return next;
}

/*
 * Nothing came by so many polls: each socket was looked at. What had come before the first of
 * them has been answered, too, as the owner sends what it has between two polls.
 */
static void note_quiet(struct net_port *p)
{
	if (p->rx_count || p->lanes.sockets_due) {
		p->quiet = 0;
		return;
	}
	if (!p->quiet++)
		p->quiet_since = p->now;
	if (p->quiet <= QUIET_POLLS)
		return;
	table_emptied(p->table, p->quiet_since);
	p->quiet = 0;
}

int net_port_poll(struct net_port *p, int budget)
{
	uint64_t forwarded = p->stats->rx_forwarded;

	port_set_now(p);
	p->rx_count = 0;
	if (p->lanes.rx)
		budget -= port_lane_poll(p, budget);
	if (budget < SOCKETS_MIN && p->lanes.rx)
		budget = SOCKETS_MIN;
	if (port_lane_sockets_due(p, p->rx_count)) {
		port_lane_drain(p);
		p->lanes.sockets_due = p->be_ops->poll(p->be, budget, port_rx, p) > 0;
	}
	note_quiet(p);
	if (p->stats->rx_forwarded != forwarded)
		port_tx_send(p);
	run_impair(p);
	port_lane_rearm(p);
	return p->rx_count;
}

void net_port_drain(struct net_port *p, int budget)
{
	int quiet = 0, n;

	for (; budget > 0 && quiet < QUIET_POLLS; budget -= n) {
		n = net_port_poll(p, DRAIN_BUDGET);
		quiet = n || p->lanes.sockets_due ? 0 : quiet + 1;
	}
}

int net_port_wait_fds(struct net_port *p, int *fds, int max, uint32_t *generation)
{
	if (max > 0)
		fds[0] = p->be_ops->wait_fd(p->be);
	*generation = 1;
	return 1;
}

bool net_port_arm(struct net_port *p)
{
	return port_lane_arm(p);
}

void net_port_awake(struct net_port *p)
{
	atomic_fetch_sub_explicit(&p->lanes.sleepers, 1, memory_order_relaxed);
}

/* Take over what is left by a switch that is gone. When to look again */
static uint64_t try_addresses(struct net_port *p, uint64_t now)
{
	bool missing = false;
	struct port_addr *a;

	if (now < p->next_try)
		return p->next_try;
	for (a = p->addrs; a; a = a->next)
		if (a->roce.fd < 0 && !try_roce(p, a))
			missing = true;
	if (!missing)
		return UINT64_MAX;
	/* not all processes at once */
	p->next_try = now + TRY_NS + (uint64_t)p->slot % 16 * 2000000;
	return p->next_try;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void flush_pcap(struct net_port *p)
{
	int err;

	pcap_flush(p->pcap);
	err = pcap_error(p->pcap);
	if (err && p->ops->capture_ended)
		p->ops->capture_ended(p->arg, err);
}

uint64_t net_port_tick(struct net_port *p, uint64_t now)
{
	uint64_t next;

	port_set_now(p);
	next = run_impair(p);
	if (port_tx_send(p))
		next = earlier(next, now + RETRY_NS);
	if (p->pcap) {
		flush_pcap(p);
		next = earlier(next, now + FLUSH_NS);
	}
	return earlier(next, try_addresses(p, now));
}

/*
 * A socket that asks the host about a route: connect() of a UDP socket sends nothing, it looks the
 * route up. Closed again at once, so it is not worth to be kept out of the program's way
 * (verbs/preload/own_fd.c), which a bare system call is not.
 */
static int route_socket(bool v4)
{
	return (int)syscall(SYS_socket, v4 ? AF_INET : AF_INET6,
			    SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static bool is_group(const struct net_ip *ip)
{
	return net_ip_is_v4(ip) ? ip->b[12] >> 4 == 0xe : ip->b[0] == 0xff;
}

int net_port_route(const struct net_port *p, const struct net_ip *src,
		   const struct net_ip *dst)
{
	const struct port_addr *a = port_addr_find(p, src);
	union net_sa sa;
	int fd, ret = 0;

	if (is_group(dst))
		return 0;
	fd = route_socket(net_ip_is_v4(dst));
	if (fd < 0)
		return 0; /* it cannot be told: what is sent will tell */
	if (connect(fd, &sa.sa,
		    net_sa_make(&sa, dst, ROCE_UDP_PORT, a ? a->ifindex : 0)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

int net_port_path_mtu(struct net_port *p, const struct net_ip *dst)
{
	uint32_t ifindex = 0;
	const struct port_addr *a;
	union net_sa sa;
	socklen_t len = sizeof(int);
	int fd, mtu = 0;
	bool v4 = net_ip_is_v4(dst);

	for (a = p->addrs; a && !ifindex; a = a->next)
		if (net_ip_is_linklocal(&a->ip))
			ifindex = a->ifindex;
	fd = route_socket(v4);
	if (fd < 0)
		return 0;
	if (connect(fd, &sa.sa, net_sa_make(&sa, dst, ROCE_UDP_PORT, ifindex)) < 0 ||
	    getsockopt(fd, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_MTU : IPV6_MTU, &mtu,
		       &len) < 0)
		mtu = 0;
	close(fd);
	return mtu;
}

bool net_port_is_local(const struct net_port *p, const struct net_ip *ip)
{
	return hostaddr_has(&p->host, ip);
}

int net_port_process(struct net_port *p, uint32_t qpn)
{
	return table_pid(p->table, qpn >> TABLE_SLOT_SHIFT, p->now);
}

void net_port_stats(const struct net_port *p, struct net_stats *out)
{
	*out = *p->stats;
}
