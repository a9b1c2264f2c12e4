/*
 * engine.c - the root object's life, and the joints between core, network and memory.
 *
 * Theory of operation
 *
 * There is at most one engine in a process. It starts when a device is first opened and
 * lives until the process ends; a child of fork starts one of its own and only forgets
 * its parent's. The core (emu/) has no locks: everything that touches it happens under
 * one mutex, taken by engine_lock(). engine_unlock() is where work gets done: it lets the
 * core run until it has nothing more to send, flushes the transmit path, and makes sure
 * that the helper thread wakes for the next timer.
 *
 * Owns: the struct engine. Must not know: WQEs, packets' contents (besides the QPN that
 * tells which of several devices a packet is for), the kernel's ABI.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "net/rocev2.h"
#include "odp/guard.h"
#include "verbs/engine/engine_internal.h"
#include "verbs/engine/stats.h"
#include "verbs/engine/vfile.h"
#include "verbs/host/libc.h"
#include "verbs/host/netdev.h"
#include "verbs/host/tree.h"

/* Rounds of the core that one unlock pays for; beyond them the helper goes on */
#define RUN_ROUNDS   32
#define TIMER_BUDGET 256 /* packets read before timers fire */
#define TIMER_LOOKS  8	 /* a single poll may pass over a socket, see net_port_poll() */
#define TABLE_GONE                                                                       \
	"urxe: the file by which processes find each other (/dev/shm/urxe*) was "        \
	"shortened; other processes of this host are out of reach now\n"
/* Looks for the lock at exit */
#define EXIT_TRIES 1000

static _Atomic(struct engine *) the_engine;
static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool starting;
static void (*cm_starter)(struct engine *e);

uint64_t engine_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

EARLY struct engine *engine_running(void)
{
	return atomic_load_explicit(&the_engine, memory_order_acquire);
}

bool engine_starts(void)
{
	return atomic_load_explicit(&starting, memory_order_relaxed);
}

const struct options *engine_options(const struct engine *e)
{
	return &e->opt;
}

struct odp_domain *engine_odp(struct engine *e)
{
	return e->odp;
}

struct net_port *engine_port(struct engine *e)
{
	return e->port;
}

unsigned int engine_device_count(const struct engine *e)
{
	return e->n_dev;
}

struct engine_device *engine_device(struct engine *e, unsigned int index)
{
	return index < e->n_dev ? &e->dev[index] : NULL;
}

void engine_start_cm_by(void (*start)(struct engine *e))
{
	cm_starter = start;
}

void engine_set_cm(struct engine *e, const struct engine_cm_ops *ops)
{
	e->cm = ops;
}

void engine_add_port_sink(struct engine *e, struct engine_port_sink *s)
{
	s->next = e->sinks;
	e->sinks = s;
}

void engine_del_port_sink(struct engine *e, struct engine_port_sink *s)
{
	struct engine_port_sink **p = &e->sinks;

	while (*p && *p != s)
		p = &(*p)->next;
	if (*p)
		*p = s->next;
}

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

static void ops_async_event(void *arg, enum ibv_event_type type, void *cookie)
{
	struct engine_device *d = arg;
	struct engine_event_sink *s = cookie;
	struct engine_port_sink *p;

	if (s) {
		s->async(s, type);
		return;
	}
	for (p = d->engine->sinks; p; p = p->next) {
		if (p->dev == d)
			p->async(p, type);
	}
}

static void ops_gsi_rx(void *arg, const struct net_path *path, uint32_t sqpn,
		       uint32_t qkey, const uint8_t *mad, uint32_t len)
{
	struct engine_device *d = arg;

	if (d->engine->cm)
		d->engine->cm->mad(d->engine, d, path, sqpn, qkey, mad, len);
}

static int ops_mcast(void *arg, const struct net_ip *group, bool join)
{
	struct engine_device *d = arg;

	return net_port_mcast(d->engine->port, group, d->ifname, join);
}

static void ops_trace(void *arg, const char *line)
{
	fprintf(stderr, "urxe: %s\n", line);
}

static const struct emu_ops engine_emu_ops = {
    .tx_get = ops_tx_get,
    .tx_put = ops_tx_put,
    .qpn_lease = ops_qpn_lease,
    .ring_alloc = ops_ring_alloc,
    .ring_free = ops_ring_free,
    .comp_event = ops_comp_event,
    .async_event = ops_async_event,
    .gsi_rx = ops_gsi_rx,
    .mcast = ops_mcast,
    .trace = ops_trace,
};

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
	return (uint32_t)pkt->data[5] << 16 | (uint32_t)pkt->data[6] << 8 | pkt->data[7];
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

		if (qpn == ROCE_QPN_MULTICAST) {
			emu_hca_rx(d->hca, pkt);
		} else if (qpn == ROCE_QPN_GSI ? device_has_ip(d, &pkt->path->dst)
					       : emu_hca_has_qpn(d->hca, qpn)) {
			emu_hca_rx(d->hca, pkt);
			return;
		}
	}
}

static void port_too_large(void *arg, const struct net_ip *dst, uint32_t bytes)
{
	struct engine *e = arg;
	char text[INET6_ADDRSTRLEN];

	if (net_ip_is_v4(dst))
		inet_ntop(AF_INET, dst->b + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, dst->b, text, sizeof(text));
	fprintf(
	    stderr,
	    "urxe: packets of %u bytes cannot be sent to %s, the MTU is %d: the path MTU "
	    "of a QP is too large\n",
	    bytes, text, net_port_path_mtu(e->port, dst));
}

static const struct net_port_ops engine_port_ops = {
    .rx = port_rx,
    .too_large = port_too_large,
};

/* --- running ---------------------------------------------------------------------- */

uint64_t engine_set_time(struct engine *e)
{
	uint64_t now = engine_now();
	unsigned int i;

	for (i = 0; i < e->n_dev; i++)
		emu_hca_set_time(e->dev[i].hca, now);
	e->now = now;
	return now;
}

static bool run_devices(struct engine *e)
{
	bool more = false;
	unsigned int i;

	for (i = 0; i < e->n_dev; i++)
		more |= emu_hca_run(e->dev[i].hca);
	return more;
}

static uint64_t next_deadline(const struct engine *e)
{
	uint64_t t = EMU_NO_DEADLINE;
	unsigned int i;

	for (i = 0; i < e->n_dev; i++) {
		uint64_t d = emu_hca_deadline(e->dev[i].hca);

		if (d < t)
			t = d;
	}
	return t;
}

/*
 * A thread that only holds the lock for its own business, or that was not running for
 * long, would fire the timers of acknowledges that wait in the socket, until all retries
 * are used up.
 */
static void receive_before_timers(struct engine *e)
{
	bool due = false;
	unsigned int i;

	for (i = 0; i < e->n_dev; i++)
		due |= emu_hca_timer_due(e->dev[i].hca);
	for (i = 0; due && i < TIMER_LOOKS; i++)
		due = net_port_poll(e->port, TIMER_BUDGET) == 0;
}

static uint64_t run(struct engine *e, bool hold)
{
	uint64_t cm_deadline = EMU_NO_DEADLINE;
	uint64_t deadline;
	bool more = true;
	bool full = false;
	int i;

	receive_before_timers(e);
	if (e->cm)
		cm_deadline = e->cm->run(e, e->now);
	for (i = 0; i < RUN_ROUNDS && more && !full; i++) {
		more = run_devices(e);
		if (more || !hold)
			full = net_tx_flush(e->port) != 0;
	}
	if (more || full)
		return 0;
	deadline = next_deadline(e);
	return deadline < cm_deadline ? deadline : cm_deadline;
}

uint64_t engine_run(struct engine *e)
{
	return run(e, false);
}

int engine_receive(struct engine *e, int budget, uint64_t *deadline)
{
	int n;

	engine_set_time(e);
	n = net_port_poll(e->port, budget);
	*deadline = engine_run(e);
	return n;
}

/*
 * A thread of the application that is cancelled (pthread_cancel(3)) must not end inside
 * of the system calls that are made under the lock.
 */
void engine_lock_bare(struct engine *e)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&e->lock);
	e->cancel = cancel;
}

bool engine_trylock_bare(struct engine *e)
{
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	if (pthread_mutex_trylock(&e->lock)) {
		pthread_setcancelstate(cancel, NULL);
		return false;
	}
	e->cancel = cancel;
	return true;
}

void engine_unlock_bare(struct engine *e)
{
	int cancel = e->cancel;

	pthread_mutex_unlock(&e->lock);
	pthread_setcancelstate(cancel, NULL);
}

void engine_lock(struct engine *e)
{
	engine_lock_bare(e);
	engine_set_time(e);
}

void engine_posted(struct engine *e)
{
	e->posted = true;
}

void engine_quiet(struct engine *e)
{
	e->quiet = true;
}

void engine_settle(struct engine *e)
{
	run(e, false);
}

/*
 * A program that posts one request after the other and polls in between gets a system
 * call for each if all are sent at once. So, while a thread polls hotly, what is posted
 * after the first request since its last turn waits for its next turn, or until the
 * port's batch is full.
 */
void engine_unlock(struct engine *e)
{
	bool yielding = atomic_load_explicit(&e->yielding, memory_order_relaxed);
	uint64_t deadline = EMU_NO_DEADLINE;

	if (!e->quiet || !yielding)
		deadline = run(e, e->posted && e->sent && yielding);
	if (e->posted)
		e->last_drive = e->now;
	e->sent |= e->posted;
	e->posted = e->quiet = false;
	engine_unlock_bare(e);
	engine_wake_before(e, deadline);
}

/* --- start and end ---------------------------------------------------------------- */

/* What the options say of this device in particular */
static void set_faults(struct engine_device *d)
{
	const struct options *o = &d->engine->opt;
	const struct odp_fault_rule *r = options_faults(o, d->name);

	if (!r)
		return;
	emu_set_start(d->hca, r->start);
	if (r->has_model || r->has_latency)
		emu_set_fault_model(d->hca, r->has_model ? r->model : o->odp.model,
				    r->has_latency ? r->latency : o->odp.latency);
}

static int start_device(struct engine *e, unsigned int index)
{
	struct engine_device *d = &e->dev[index];
	struct emu_hca_cfg cfg = {.odp = e->odp,
				  .seed = engine_now() ^ (uint64_t)getpid()};
	struct netdev_info info;
	int ret;

	d->engine = e;
	d->index = index;
	memcpy(d->name, e->opt.device[index].name, sizeof(d->name));
	memcpy(d->ifname, e->opt.device[index].ifname, sizeof(d->ifname));
	ret = netdev_read(d->ifname, &info);
	if (ret)
		return ret;
	if (!info.exists)
		return -ENODEV;
	cfg.guid_be = netdev_guid_be(d->ifname, &info);
	cfg.mtu = netdev_ib_mtu(info.mtu);
	ret = emu_hca_create(&cfg, &engine_emu_ops, d, &d->hca);
	if (ret)
		return ret;
	e->n_dev = index + 1;
	set_faults(d);
	return engine_links_init(d);
}

static int start_layers(struct engine *e, const char **what)
{
	const struct net_port_cfg port_cfg = {
	    .ops = &engine_port_ops,
	    .arg = e,
	    .backend = e->opt.backend[0] ? e->opt.backend : NULL,
	    .shm_dir = e->opt.shm_dir[0] ? e->opt.shm_dir : NULL,
	    .pcap = e->opt.pcap[0] ? e->opt.pcap : NULL,
	    .impair = e->opt.impair[0] ? e->opt.impair : NULL,
	    .no_lanes = !e->opt.lanes,
	    .what = what,
	};
	unsigned int i;
	int ret, fds[ODP_FDS], n;
	void *table;
	size_t len;

	e->opt.odp.script = e->opt.odp_script[0] ? e->opt.odp_script : NULL;
	*what = "on-demand paging";
	ret = odp_domain_create(&e->opt.odp, NULL, NULL, &e->odp);
	if (ret)
		return ret;
	n = odp_domain_fds(e->odp, fds, ODP_FDS);
	for (int k = 0; k < n; k++)
		vfile_private_mark(fds[k]);
	*what = "network";
	ret = net_port_open(&port_cfg, &e->port);
	if (ret)
		return ret;
	table = net_port_table(e->port, &len);
	guard_file(table, len, TABLE_GONE);
	*what = "list of devices";
	ret = tree_devices(&e->opt);
	if (!ret && !e->opt.n_devices)
		ret = -ENODEV;
	for (i = 0; !ret && i < e->opt.n_devices; i++) {
		*what = e->opt.device[i].name;
		ret = start_device(e, i);
	}
	if (ret)
		return ret;
	if (cm_starter)
		cm_starter(e);
	*what = "helper thread";
	engine_links_open(e);
	if (e->opt.dir[0])
		e->stats_fd = stats_listen(e->opt.dir);
	return engine_helper_start(e);
}

/* An engine that did not come up: nothing refers to its parts yet */
static void discard(struct engine *e)
{
	unsigned int i;
	int fds[ODP_FDS], n;

	for (i = 0; i < e->n_dev; i++)
		emu_hca_destroy(e->dev[i].hca);
	guard_file(NULL, 0, NULL);
	if (e->port)
		net_port_close(e->port);
	if (e->odp) {
		n = odp_domain_fds(e->odp, fds, ODP_FDS);
		for (int k = 0; k < n; k++)
			vfile_close(fds[k]);
		odp_domain_destroy(e->odp);
	}
	if (e->link_fd >= 0)
		close(e->link_fd);
	if (e->stats_fd >= 0)
		close(e->stats_fd);
	if (e->wake_fd >= 0)
		close(e->wake_fd);
	free(e);
}

static struct engine *engine_start(void)
{
	const char *what = "settings";
	struct engine *e = calloc(1, sizeof(*e));
	char err[256] = "";
	int ret;

	if (!e)
		return NULL;
	pthread_mutex_init(&e->lock, NULL);
	e->link_fd = -1;
	e->stats_fd = -1;
	atomic_init(&e->wake_at, UINT64_MAX);
	e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ret = e->wake_fd < 0 ? -errno : 0;
	options_default(&e->opt);
	if (!ret)
		ret = options_from_env(&e->opt, err, sizeof(err));
	if (!ret)
		ret = start_layers(e, &what);
	if (ret) {
		if (err[0])
			fprintf(stderr, "urxe: %s\n", err);
		else
			fprintf(stderr, "urxe: cannot start the device: %s: %s\n", what,
				strerror(-ret));
		discard(e);
		errno = -ret;
		return NULL;
	}
	return e;
}

/*
 * fork: the child has the parent's memory but not its helper. It must neither drive nor
 * tear down what the parent uses, so it closes its copies of descriptors and forgets the
 * rest, which leaks once per fork. The locks are taken over the fork so that the child
 * finds whole objects.
 */
static void fork_prepare(void)
{
	struct engine *e;

	pthread_mutex_lock(&start_lock);
	e = engine_running();
	if (e)
		pthread_mutex_lock(&e->lock);
	guard_fork_begin();
}

static void fork_parent(void)
{
	struct engine *e = engine_running();

	guard_fork_end();
	if (e) {
		odp_domain_forked(e->odp);
		pthread_mutex_unlock(&e->lock);
	}
	pthread_mutex_unlock(&start_lock);
}

static void fork_child(void)
{
	struct engine *e = engine_running();

	guard_fork_end();
	atomic_store(&the_engine, NULL);
	starting = false;
	if (e) {
		odp_domain_abandon(e->odp);
		guard_file(NULL, 0, NULL);
		net_port_abandon(e->port);
		close(e->wake_fd);
		if (e->link_fd >= 0)
			close(e->link_fd);
		if (e->stats_fd >= 0)
			close(e->stats_fd);
		pthread_mutex_unlock(&e->lock);
	}
	pthread_mutex_unlock(&start_lock);
}

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void fork_register(void)
{
	vfile_follow_fork();
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

struct engine *engine_get(void)
{
	struct engine *e = engine_running();

	if (e)
		return e;
	pthread_once(&fork_once, fork_register);
	pthread_mutex_lock(&start_lock);
	e = engine_running();
	if (!e) {
		starting = true;
		e = engine_start();
		starting = e;
		atomic_store_explicit(&the_engine, e, memory_order_release);
	}
	pthread_mutex_unlock(&start_lock);
	return e;
}

/*
 * At exit only the report is written. Objects and descriptors end with the process, as a
 * real device's do when the kernel closes its file; other threads may still be using them
 * here.
 */
__attribute__((destructor)) static void engine_exit(void)
{
	struct engine *e = engine_running();
	int i;

	if (!e)
		return;
	/*
	 * Whoever holds the lock gives it back soon, unless it is this thread, in a
	 * signal handler.
	 */
	for (i = 0; i < EXIT_TRIES && !engine_trylock_bare(e); i++)
		sched_yield();
	if (i < EXIT_TRIES) {
		engine_set_time(e);
		engine_settle(e);
		/* what a capture has not written yet */
		net_port_tick(e->port, engine_now());
		engine_unlock_bare(e);
	}
	if (e->opt.stats[0])
		stats_report(e, e->opt.stats, stderr);
}
