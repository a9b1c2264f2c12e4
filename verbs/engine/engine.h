/*
 * engine.h - the one root object of a process: devices, port, ODP domain, lock, helper
 * thread.
 *
 * Here the pure core meets threads and descriptors. Whoever is there drives: a thread
 * that posts transmits inline, a thread that polls an empty CQ receives inline, and the
 * helper thread takes over when nobody does. One lock serialises the core.
 */
#ifndef URXE_VERBS_ENGINE_ENGINE_H
#define URXE_VERBS_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "emu/cm.h"
#include "emu/hca.h"
#include "net/port.h"
#include "odp/odp.h"
#include "verbs/host/options.h"

#define ENGINE_MAX_DEVICES 16

struct engine;

/*
 * struct engine_device - one HCA
 * @engine:	where it belongs
 * @name:	"rxe0"
 * @ifname:	network interface
 * @index:	N in uverbsN
 * @hca:	the core's object
 * @cm:		messages of the connection manager
 */
struct engine_device {
	struct engine *engine;
	char name[16];
	char ifname[16];
	unsigned int index;
	struct emu_hca *hca;
	struct emu_cm_counters cm;
};

/*
 * engine_get - the engine of this process, started at the first call (and anew in a child
 * after fork). NULL with errno when it cannot start; one line on stderr says why.
 */
struct engine *engine_get(void);
/* Does an engine run, or is it being started? */
bool engine_starts(void);
/* The engine if it runs, else NULL; starts nothing. */
struct engine *engine_running(void);
const struct options *engine_options(const struct engine *e);
struct odp_domain *engine_odp(struct engine *e);
struct net_port *engine_port(struct engine *e);
/* The program's call that has entered is one whose place is told in traces (--trace-stacks) */
void engine_called(struct engine *e);
/* Who is told of what happens; its times are engine_now() */
struct recorder *engine_recorder(struct engine *e);
unsigned int engine_device_count(const struct engine *e);
struct engine_device *engine_device(struct engine *e, unsigned int index);

/*
 * The three steps of whoever uses the core: engine_enter() takes the lock and sets the
 * core's time; engine_progress(), after something was given to the core, lets it run and
 * sends what it has; engine_leave() gives the lock back and sets the helper's timer. Who
 * only reads needs no progress. Who rings a doorbell enters by engine_enter_to_post(): others send
 * first what was held back.
 */
void engine_enter(struct engine *e);
void engine_enter_to_post(struct engine *e);
void engine_leave(struct engine *e);

/*
 * enum engine_work - what was given to the core
 * @ENGINE_CHANGED:	anything. What has become to be sent since entering is sent before the call
 *			returns: also to be called before something is taken away that it depends on
 * @ENGINE_POSTED:	a doorbell was rung; what it sends may wait for a poller's next turn
 * @ENGINE_ARMED:	nothing to send; timers are looked at unless a poller does soon
 */
enum engine_work { ENGINE_CHANGED, ENGINE_POSTED, ENGINE_ARMED };
void engine_progress(struct engine *e, enum engine_work work);
/* The three steps for the doorbell of QP @qpn; 0 or -errno, -ENOENT: no such QP */
int engine_doorbell(struct engine *e, uint32_t qpn);
uint64_t engine_now(void);

/*
 * engine_drive - a poller's turn: receive and run if nobody else does just now. Cheap
 * when there is nothing. True: packets came while other threads drive as well; if the poller still
 * finds nothing they were for one of these, and it should give way.
 */
bool engine_drive(struct engine *e);
/* engine_give_way - give the processor to another thread; leaves errno */
void engine_give_way(void);
/*
 * engine_wait - block until @fd is readable, driving meanwhile; 0, or -EINTR. Used by
 * reads of completion channels, so that the thread that waits is the thread that
 * receives.
 */
int engine_wait(struct engine *e, int fd);
/*
 * engine_expect_sleep - the program armed a CQ: it is about to sleep, so the helper
 * should listen again at once if it had left the sockets to a polling thread.
 */
void engine_expect_sleep(struct engine *e);

/* engine_say - one line for the user; nothing where the program would notice it */
void engine_say(const char *text);

/* Rings: @owner of emu_ops.ring_alloc is this */
struct engine_ring_owner {
	void *(*alloc)(struct engine_ring_owner *o, size_t bytes, uint64_t *offset);
	void (*free)(struct engine_ring_owner *o, void *ring, size_t bytes,
		     uint64_t offset);
};
/*
 * Cookies of CQs, QPs, SRQs are this; event functions are called with the lock held and
 * must not call the engine.
 */
struct engine_event_sink {
	void (*comp)(struct engine_event_sink *s);
	void (*async)(struct engine_event_sink *s, enum ibv_event_type type);
};
/* Port events go to each registered context. Called with the lock held by the caller. */
struct engine_port_sink {
	struct engine_port_sink *next;
	struct engine_device *dev;
	void (*async)(struct engine_port_sink *s, enum ibv_event_type type);
};
void engine_add_port_sink(struct engine *e, struct engine_port_sink *s);
void engine_del_port_sink(struct engine *e, struct engine_port_sink *s);
/* Something happened to the port of @d, or to all of the device */
void engine_port_event(struct engine_device *d, enum ibv_event_type type);

/*
 * struct engine_cm_ops - the CM's hooks (the rdma_cm device registers them); @arg is that of
 * engine_set_cm(). All are called with the lock held.
 * @mad:	from QP1
 * @run:	returns its next deadline
 * @abandon:	in the child of fork: forget, and close
 */
struct engine_cm_ops {
	void (*mad)(void *arg, struct engine_device *dev, const struct net_path *path,
		    const uint8_t *mad, uint32_t len);
	uint64_t (*run)(void *arg, uint64_t now);
	void (*abandon)(void *arg);
};
void engine_set_cm(struct engine *e, const struct engine_cm_ops *ops, void *arg);
/* engine_cm - the @arg of engine_set_cm(), NULL before; lock held */
void *engine_cm(const struct engine *e);
/*
 * engine_start_cm_by - what each engine of this process calls when it starts, so that a
 * connection manager can answer from the first MAD on. Called before the first
 * engine_get(); the engine itself knows no connection manager.
 */
void engine_start_cm_by(void (*start)(struct engine *e));

#endif
