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
#define TIMER_BUDGET 16384 /* packets read before timers fire */

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

static uint64_t run(struct engine *e, bool hold)
{
	uint64_t cm_deadline = EMU_NO_DEADLINE;
	uint64_t deadline;
	bool more = true;
	bool full = false;
	int i;

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
	lock_take(&e->lock);
}

bool engine_trylock_bare(struct engine *e)
{
	return lock_try(&e->lock);
}

void engine_unlock_bare(struct engine *e)
{
	lock_release(&e->lock);
}

void engine_enter(struct engine *e)
{
	engine_lock_bare(e);
	engine_set_time(e);
	e->deadline = EMU_NO_DEADLINE;
}

/*
 * A program that posts one request after the other and polls in between gets a system
 * call for each if all are sent at once. So, while a thread polls hotly, what is posted
 * after the first request since its last turn waits for its next turn, or until the
 * port's batch is full.
 */
void engine_progress(struct engine *e, enum engine_work work)
{
	bool yielding = atomic_load_explicit(&e->yielding, memory_order_relaxed);
	bool posted = work == ENGINE_POSTED;

	if (work != ENGINE_ARMED || !yielding)
		e->deadline = run(e, posted && e->sent && yielding);
	if (posted)
		e->last_drive = e->now;
	e->sent |= posted;
}

void engine_leave(struct engine *e)
{
	uint64_t deadline = e->deadline;

	engine_unlock_bare(e);
	engine_wake_before(e, deadline);
}
