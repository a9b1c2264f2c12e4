/*
 * engine.c - the life of the root object: start, fork, exit.
 *
 * There is at most one engine in a process. It starts when a device is first opened and
 * lives until the process ends; a child of fork starts one of its own and only forgets
 * its parent's.
 *
 * Owns: the struct engine, and the one variable that leads to it. Must not know: how the
 * core is driven (engine_core.c, engine_drive.c), packets, the kernel's ABI.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "inject/inject.h"
#include "net/pcap.h"
#include "odp/guard.h"
#include "verbs/engine/checker.h"
#include "verbs/engine/engine_internal.h"
#include "verbs/engine/callers.h"
#include "verbs/engine/recording.h"
#include "verbs/engine/vfile.h"
#include "verbs/host/libc.h"
#include "verbs/host/netdev.h"
#include "verbs/host/reason.h"
#include "verbs/host/report.h"
#include "verbs/host/paths.h"
#include "verbs/host/tree.h"
#include "verbs/host/unopened.h"

#define TABLE_GONE                                                                       \
	"urxe: the file by which processes find each other (/dev/shm/urxe*) was "        \
	"shortened; other processes of this host are out of reach now\n"
/* Looks for the lock at exit */
#define EXIT_TRIES 1000

/*
 * The root: all that the kernel's face knows of this process hangs on it.
 * @engine:	NULL before the first device is opened
 * @start_lock:	held while one starts, and over fork
 * @starting:	one runs, or is being started
 * @start_cm:	see engine_start_cm_by()
 * @fork_once:	of the handlers of fork, which cannot be taken back
 */
static struct {
	_Atomic(struct engine *) engine;
	struct lock start_lock;
	atomic_bool starting;
	void (*_Atomic start_cm)(struct engine *e);
	pthread_once_t fork_once;
} root = {.start_lock = LOCK_INITIALIZER, .fork_once = PTHREAD_ONCE_INIT};

EARLY struct engine *engine_running(void)
{
	return atomic_load_explicit(&root.engine, memory_order_acquire);
}

bool engine_starts(void)
{
	return atomic_load_explicit(&root.starting, memory_order_relaxed);
}

const struct options *engine_options(const struct engine *e)
{
	return &e->opt;
}

struct odp_domain *engine_odp(struct engine *e)
{
	return e->odp;
}

void engine_called(struct engine *e)
{
	if (e->callers)
		callers_note(e->callers, e->now);
}

struct recorder *engine_recorder(struct engine *e)
{
	return e->rec;
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
	atomic_store_explicit(&root.start_cm, start, memory_order_relaxed);
}

void engine_set_cm(struct engine *e, const struct engine_cm_ops *ops, void *arg)
{
	e->cm = ops;
	e->cm_arg = arg;
}

void *engine_cm(const struct engine *e)
{
	return e->cm_arg;
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

/* What others see of it; it shows the counters. 0 or -ENOMEM */
static int show_device(struct engine_device *d, struct emu_hca_cfg *cfg)
{
	struct trace_object *o = recorder_object(d->engine->rec);

	if (!o)
		return -ENOMEM;
	o->id = o->device = (uint16_t)d->index;
	o->created = engine_now();
	o->dev.guid = cfg->guid_be;
	memcpy(o->name, d->name, sizeof(d->name));
	memcpy(o->dev.ifname, d->ifname, sizeof(o->dev.ifname));
	recorder_object_ready(o, TRACE_OBJ_DEVICE);
	cfg->recorder = d->engine->rec;
	cfg->device = (uint16_t)d->index;
	cfg->seen = o;
	return 0;
}

static int start_device(struct engine *e, unsigned int index)
{
	struct engine_device *d = &e->dev[index];
	struct emu_hca_cfg cfg = {.odp = e->odp,
				  .limits = &e->profile.limits,
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
	ret = show_device(d, &cfg);
	if (!ret)
		ret = emu_hca_create(&cfg, &engine_emu_ops, d, &d->hca);
	if (ret)
		return ret;
	emu_hca_set_time(d->hca, engine_now());
	e->n_dev = index + 1;
	set_faults(d);
	return engine_links_init(d);
}

/* Some thread of the process resolved a fault; it holds no lock of ours, or any. */
static void faults_resolved(void *arg)
{
	engine_wake(arg);
}

/* Where the capture goes, a file of this process's own begun anew. 0 or -errno */
static int choose_capture(const struct options *o, char path[PATH_MAX])
{
	int ret = report_expand_own(o->pcap, path, PATH_MAX);

	if (!ret && report_is_pattern(o->pcap))
		ret = pcap_renew(path);
	return ret;
}

static int open_port(struct engine *e, const char **what)
{
	char capture[PATH_MAX];
	const struct net_port_cfg port_cfg = {
	    .ops = &engine_port_ops,
	    .arg = e,
	    .backend = e->opt.backend[0] ? e->opt.backend : NULL,
	    .shm_dir = e->opt.shm_dir[0] ? e->opt.shm_dir : NULL,
	    .pcap = e->opt.pcap[0] ? capture : NULL,
	    .impair = e->opt.impair[0] ? e->opt.impair : NULL,
	    .no_lanes = !e->opt.lanes,
	    .stats = (struct net_stats *)e->rec->hdr->net,
	    .what = what,
	};
	void *table;
	size_t len;
	int ret;

	*what = "capture (--pcap)";
	ret = choose_capture(&e->opt, capture);
	if (ret)
		return ret;
	*what = "network";
	ret = net_port_open(&port_cfg, &e->port);
	if (ret)
		return ret;
	table = net_port_table(e->port, &len);
	guard_file(table, len, TABLE_GONE);
	return 0;
}

static void start_cm(struct engine *e)
{
	void (*start)(struct engine *) =
	    atomic_load_explicit(&root.start_cm, memory_order_relaxed);

	if (start)
		start(e);
}

static int start_layers(struct engine *e, const char **what)
{
	const struct checker *c = checker_get();
	unsigned int i;
	int ret, fds[ODP_FDS], n;
	struct odp_caps caps;

	if (c)
		recorder_tell(e->rec, c->kinds, c->record);
	e->opt.odp.recorder = e->rec;
	e->opt.odp.script = e->opt.odp_script[0] ? e->opt.odp_script : NULL;
	*what = "on-demand paging";
	ret = odp_domain_create(&e->opt.odp, NULL, NULL, &e->odp);
	if (ret)
		return ret;
	odp_domain_tell(e->odp, faults_resolved, e);
	n = odp_domain_fds(e->odp, fds, ODP_FDS);
	for (int k = 0; k < n; k++)
		vfile_private_mark(fds[k]);
	odp_domain_caps(e->odp, &caps);
	e->rec->hdr->uffd = caps.uffd;
	ret = open_port(e, what);
	if (ret)
		return ret;
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
	start_cm(e);
	*what = "helper thread";
	engine_links_open(e);
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
	if (e->wake_fd >= 0)
		close(e->wake_fd);
	callers_free(e->callers);
	recording_discard(e->rec);
	free(e);
}

/* Of faults, what the user says goes before what the profile does. 0, or -errno with @err */
static int read_settings(struct engine *e, char *err, size_t errlen)
{
	struct options *o = &e->opt;
	int ret = options_from_env(o, err, errlen);

	if (!ret)
		ret = profile_load(o->profile, &e->profile, err, errlen);
	if (ret)
		return ret;
	if (!o->model_given)
		o->odp.model = e->profile.model;
	if (!o->latency_given)
		o->odp.latency = e->profile.fault_latency_us * 1000;
	return 0;
}

static struct engine *engine_start(void)
{
	const char *what = "settings";
	struct engine *e = calloc(1, sizeof(*e));
	char err[256] = "";
	int ret;

	if (!e) {
		fprintf(stderr, "urxe: cannot start the device: %s\n", strerror(errno));
		return NULL;
	}
	lock_init_adaptive(&e->lock);
	e->link_fd = -1;
	atomic_init(&e->wake_at, UINT64_MAX);
	e->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ret = e->wake_fd < 0 ? -errno : 0;
	options_default(&e->opt);
	if (!ret)
		ret = read_settings(e, err, sizeof(err));
	if (!ret)
		ret = inject_start(e->opt.dir, e->opt.inject, err, sizeof(err));
	if (!ret)
		ret = recording_start(&e->opt, &e->rec);
	if (!ret && e->opt.trace_stacks) {
		e->callers = callers_new(e->rec);
		ret = e->callers ? 0 : -ENOMEM;
	}
	if (!ret)
		ret = start_layers(e, &what);
	if (ret) {
		if (err[0])
			fprintf(stderr, "urxe: %s\n", err);
		else
			fprintf(stderr, "urxe: cannot start the device: %s: %s%s\n", what,
				strerror(-ret), reason_hint(-ret));
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

	lock_take(&root.start_lock);
	e = engine_running();
	if (e)
		lock_take(&e->lock);
	guard_fork_begin();
}

static void fork_parent(void)
{
	struct engine *e = engine_running();

	guard_fork_end();
	if (e) {
		odp_domain_forked(e->odp);
		lock_release(&e->lock);
	}
	lock_release(&root.start_lock);
}

static void fork_child(void)
{
	struct engine *e = engine_running();

	guard_fork_end();
	atomic_store(&root.engine, NULL);
	root.starting = false;
	inject_forked();
	if (e) {
		guard_file(NULL, 0, NULL);
		recorder_forked(e->rec);
		odp_domain_abandon(e->odp);
		net_port_abandon(e->port);
		if (e->cm)
			e->cm->abandon(e->cm_arg);
		close(e->wake_fd);
		if (e->link_fd >= 0)
			close(e->link_fd);
		lock_release(&e->lock);
	}
	lock_release(&root.start_lock);
}

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
	pthread_once(&root.fork_once, fork_register);
	lock_take(&root.start_lock);
	e = engine_running();
	if (!e) {
		root.starting = true;
		e = engine_start();
		root.starting = e;
		atomic_store_explicit(&root.engine, e, memory_order_release);
	}
	lock_release(&root.start_lock);
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

	if (!e) {
		unopened_leave(paths_dir(), false);
		return;
	}
	/*
	 * Whoever holds the lock gives it back soon, unless it is this thread, in a
	 * signal handler.
	 */
	for (i = 0; i < EXIT_TRIES && !engine_trylock_bare(e); i++)
		sched_yield();
	if (i < EXIT_TRIES) {
		engine_set_time(e);
		engine_run(e);
		/* what a capture has not written yet */
		net_port_tick(e->port, engine_now());
		engine_unlock_bare(e);
	}
	recording_report(e->rec, &e->opt);
}
