/*
 * engine_internal.h - the root object, for the engine's own files only.
 *
 * engine.c starts and ends it, engine_joints.c joins the layers, engine_core.c has the
 * lock and lets the core run, engine_drive.c says who does that and when: the helper
 * thread and the waiting; engine_links.c follows the network interfaces.
 */
#ifndef URXE_VERBS_ENGINE_ENGINE_INTERNAL_H
#define URXE_VERBS_ENGINE_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/lock.h"
#include "verbs/engine/engine.h"
#include "verbs/host/profile.h"

/*
 * struct engine - the one root object
 * @lock:	serialises all of the core: hca, port, cm
 * @opt:	settings; constant once the engine runs
 * @profile:	the device that each answers as
 * @cm, @cm_arg: the connection manager's hooks, NULL before it is needed
 * @sinks:	who hears of port events
 * @helper:	the thread
 * @wake_fd:	eventfd that wakes the helper
 * @link_fd:	NETLINK_ROUTE socket, -1 where it cannot be had
 * @rec:	who is told of what happens; @callers: from where, or NULL
 * @wake_at:	when the helper wakes by itself (ns); UINT64_MAX never
 * @drives:	turns that threads of the application took; the helper watches it grow
 * @wanted:	threads that wait for the lock; turns are not taken meanwhile
 * @waiters:	threads inside engine_wait() that sleep on the sockets themselves
 * @now:	time of the core, set for each hold of the lock (ns)
 * @deadline:	when the core must run again, as the holder of the lock knows (ns)
 * @last_drive:	when a thread of the application last took a turn or posted (ns)
 * @sent:	a doorbell was served since the last turn of a poller
 * @held:	doorbells since then that wait for the next turn
 * @driver:	the thread that took the last turn; @shared: turns until it counts as the only one
 * @last_wait:	when engine_wait() last returned (ns)
 * @yielding:	the helper has left the sockets to the threads of the application
 * @looks_due:	how often the helper looks at receive queues before it sleeps until the next call
 * @parked:	the helper sleeps without a limit, because a waiter has slept for long
 */
struct engine {
	struct lock lock;
	struct options opt;
	struct profile profile;
	struct recorder *rec;
	struct callers *callers;
	struct odp_domain *odp;
	struct net_port *port;
	struct engine_device dev[ENGINE_MAX_DEVICES];
	unsigned int n_dev;
	const struct engine_cm_ops *cm;
	void *cm_arg;
	struct engine_port_sink *sinks;
	pthread_t helper;
	int wake_fd;
	int link_fd;
	_Atomic uint64_t wake_at;
	_Atomic uint32_t drives;
	_Atomic uint32_t waiters;
	_Atomic uint32_t wanted;
	uint64_t now;
	uint64_t deadline;
	uint64_t last_drive;
	unsigned int looks_due;
	bool sent;
	unsigned int held;
	pthread_t driver;
	unsigned int shared;
	_Atomic uint64_t last_wait;
	_Atomic bool yielding;
	_Atomic bool parked;
};

/* peer.c: emu_ops.peer; @arg is the device */
void engine_peer(void *arg, const struct net_ip *ip, uint32_t qpn, struct emu_peer *out);

/* engine_joints.c: what the core asks of the engine, and the port gives it */
extern const struct emu_ops engine_emu_ops;
extern const struct net_port_ops engine_port_ops;

/*
 * The lock alone: neither sets the time nor lets the core run. trylock: true if it was
 * free
 */
void engine_lock_bare(struct engine *e);
bool engine_trylock_bare(struct engine *e);
void engine_unlock_bare(struct engine *e);
/*
 * engine_run - let the core run after something happened; lock held. The next deadline.
 */
uint64_t engine_run(struct engine *e);
/* engine_receive - take packets and run; lock held. How many packets came. */
int engine_receive(struct engine *e, int budget, uint64_t *deadline);
/* engine_show - lock held; the recorder knows of what was received, though nothing has run since */
void engine_show(struct engine *e);
/* engine_set_time - lock held; the time */
uint64_t engine_set_time(struct engine *e);
/* engine_wake_before - make sure that the helper runs at @deadline at the latest */
void engine_wake_before(struct engine *e, uint64_t deadline);

/*
 * engine_look_by - the program has called, lock held: the helper looks at its receive queues every
 * ENGINE_LOOK_NS for a while. By when it must wake, if not before @deadline
 */
#define ENGINE_LOOK_NS 1000000000u
uint64_t engine_look_by(struct engine *e, uint64_t deadline);

/* engine_wake - make sure that the helper takes a turn now; without the lock */
void engine_wake(struct engine *e);

int engine_helper_start(struct engine *e);

/*
 * engine_links_open - begin to follow the interfaces; engine_links_init reads one of them
 */
void engine_links_open(struct engine *e);
int engine_links_init(struct engine_device *d);
/* engine_links_changed - @link_fd was readable; lock held */
void engine_links_changed(struct engine *e);

#endif
