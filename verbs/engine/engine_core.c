/*
 * engine_core.c - entering the core, running it, sending what it has, leaving it.
 *
 * The core (emu/) has no locks: everything that touches it happens under one mutex. A
 * caller enters, does its business, lets the core make progress if it gave it something
 * to do, and leaves. Progress is: what waits in the sockets is read if a timer would fire
 * without it, the core runs until it has nothing more to send, the port sends. Leaving
 * makes sure that the helper thread wakes for the next timer.
 *
 * Owns: the lock and the time. Must not know: who calls, and why (engine_drive.c).
 */
#include <time.h>

#include "trace/recorder.h"
#include "verbs/engine/engine_internal.h"

/* Rounds of the core that one call pays for; beyond them the helper goes on */
#define RUN_ROUNDS   32
#define LOOKS	     2	   /* after the last call */
#define TIMER_BUDGET 16384 /* packets read before timers fire */
#define HOLD_POSTS   16	   /* doorbells that one turn serves at most */

uint64_t engine_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

uint64_t engine_set_time(struct engine *e)
{
	uint64_t now = engine_now();
	unsigned int i;

	for (i = 0; i < e->n_dev; i++)
		emu_hca_set_time(e->dev[i].hca, now);
	e->now = now;
	if (recorder_is_asked(e->rec))
		recorder_obey(e->rec, now);
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
	if (due)
		net_port_drain(e->port, TIMER_BUDGET);
}

/* Requests whose page faults are over go on. */
static void resume_faulted(struct engine *e)
{
	struct odp_waiter *w;

	while ((w = odp_resolved(e->odp)))
		emu_fault_resolved(w);
}

/* @hold: what is made is sent when the port's batch is full, or by a later run */
static uint64_t run(struct engine *e, bool hold)
{
	uint64_t cm_deadline = EMU_NO_DEADLINE;
	uint64_t deadline;
	bool more = true;
	bool full = false;
	int i;

	e->held = 0;
	receive_before_timers(e);
	resume_faulted(e);
	if (e->cm)
		cm_deadline = e->cm->run(e->cm_arg, e->now);
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

void engine_show(struct engine *e)
{
	for (unsigned int i = 0; i < e->n_dev; i++)
		emu_hca_show(e->dev[i].hca);
}

int engine_receive(struct engine *e, int budget, uint64_t *deadline)
{
	int n;

	engine_set_time(e);
	n = net_port_poll(e->port, budget);
	*deadline = engine_run(e);
	return n;
}

void engine_lock_bare(struct engine *e)
{
	if (lock_try(&e->lock))
		return;
	atomic_fetch_add_explicit(&e->wanted, 1, memory_order_relaxed);
	lock_take(&e->lock);
	atomic_fetch_sub_explicit(&e->wanted, 1, memory_order_relaxed);
}

bool engine_trylock_bare(struct engine *e)
{
	return lock_try(&e->lock);
}

void engine_unlock_bare(struct engine *e)
{
	lock_release(&e->lock);
}

/*
 * A program that posts one request after the other and polls in between would pay for a turn of
 * the core, and by sockets a system call, with each if all were sent at once. So, while a thread
 * polls hotly, what is posted after the first request since its last turn stays in the ring until
 * its next turn, or until there is enough of it to be worth a turn. Then one turn sends all.
 */
static bool is_hot(const struct engine *e)
{
	return e->sent && atomic_load_explicit(&e->yielding, memory_order_relaxed);
}

static bool may_hold(const struct engine *e)
{
	return e->held + 1 < HOLD_POSTS && is_hot(e);
}

/* Whatever the caller is about to do, what was held back comes before it. */
void engine_enter(struct engine *e)
{
	engine_lock_bare(e);
	engine_set_time(e);
	e->deadline = e->held ? engine_run(e) : EMU_NO_DEADLINE;
}

/* Reading the clock costs more than a post that is held; in a trace each one has its time. */
void engine_enter_to_post(struct engine *e)
{
	engine_lock_bare(e);
	if (!may_hold(e) || recorder_wants(e->rec, TRACE_KIND_post_send))
		engine_set_time(e);
	e->deadline = EMU_NO_DEADLINE;
}

static void posted(struct engine *e)
{
	if (may_hold(e))
		e->held++;
	else /* a peer that sleeps is woken once, not for each 16 */
		e->deadline = run(e, is_hot(e));
	e->last_drive = e->now;
	e->sent = true;
}

void engine_progress(struct engine *e, enum engine_work work)
{
	switch (work) {
	case ENGINE_POSTED:
		posted(e);
		break;
	case ENGINE_ARMED:
		if (atomic_load_explicit(&e->yielding, memory_order_relaxed))
			break;
		e->deadline = engine_run(e);
		break;
	case ENGINE_CHANGED:
		e->deadline = engine_run(e);
		break;
	}
}

uint64_t engine_look_by(struct engine *e, uint64_t deadline)
{
	uint64_t look = e->looks_due ? EMU_NO_DEADLINE : e->now + ENGINE_LOOK_NS;

	e->looks_due = LOOKS;
	return look < deadline ? look : deadline;
}

static struct emu_qp *find_qp(const struct engine *e, uint32_t qpn)
{
	struct emu_qp *qp = NULL;

	for (unsigned int i = 0; i < e->n_dev && !qp; i++)
		qp = emu_hca_qp(e->dev[i].hca, qpn);
	return qp;
}

int engine_doorbell(struct engine *e, uint32_t qpn)
{
	struct emu_qp *qp;
	int ret = -ENOENT;

	engine_enter_to_post(e);
	qp = find_qp(e, qpn);
	if (qp) {
		engine_called(e);
		ret = emu_qp_doorbell(qp);
		engine_progress(e, ret ? ENGINE_CHANGED : ENGINE_POSTED);
	}
	engine_leave(e);
	return ret;
}

void engine_leave(struct engine *e)
{
	uint64_t deadline = engine_look_by(e, e->deadline);

	engine_unlock_bare(e);
	engine_wake_before(e, deadline);
}
