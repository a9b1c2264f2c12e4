/*
 * sweep_run.c - one run of a sweep: the program below this process, and what is seen of it.
 *
 * Theory of operation: is it alive?
 *
 * While a program works its HCA sends, receives, completes and records. When none of this has
 * changed for a while (@hang of the order), and no queue waits for a timer of the HCA, it
 * hangs if no thread of it has used the CPU or wants to: what a crowded machine keeps from running
 * is not idle. If no thread runs but those that poll empty queues, it hangs, too, when these
 * have used the CPU for as long: their time, unlike that of a clock, does not pass while others
 * have the CPU. What else uses it may compute, and gets SPIN_FACTOR times as long. What goes on
 * all the time has a limit, which comes from what untouched runs take: a loop that tries
 * again for ever.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/checked.h"
#include "tools/descendants.h"
#include "tools/injected.h"
#include "tools/segments.h"
#include "tools/sweep.h"
#include "tools/tools.h"
#include "tools/waits.h"

#define SECOND_NS     1000000000u
#define TICK_MS	      100
#define SPIN_FACTOR   3
#define VAIN_POLLS    1000 /* in a second of the CPU, of who does nothing but poll */
#define IDLE_PART     20   /* who uses less of a CPU does nothing */
#define MAX_PROCESSES 256

/* struct seen - how often the process has polled empty queues, when the quiet began */
struct seen {
	int32_t pid;
	uint64_t vain;
};

/*
 * struct watch
 * @state:	of all HCAs, a sum that changes when something happens; since @since
 * @quiet:	nothing has changed for a tick; @cpu: CPU time used by then
 * @vain:	polls of empty queues since then, by so many @pollers of the @n_seen processes @seen
 * @pending:	a queue waits for a timer of the HCA
 * @alive:	somebody has an HCA; else this is a script that tidies up
 */
struct watch {
	const struct sweep_order *order;
	struct sweep_outcome *out;
	uint64_t begin;
	uint64_t state, since, cpu, vain;
	unsigned int pollers;
	bool quiet, pending, alive;
	size_t n_seen;
	struct seen seen[MAX_PROCESSES];
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND_NS + (uint64_t)ts.tv_nsec;
}

/* --- while it runs ---------------------------------------------------------------- */

/* CPU time of all processes; *@wanted (may be NULL): threads that run, or would */
static uint64_t cpu_used(size_t *wanted)
{
	struct descendant list[MAX_PROCESSES];
	size_t n = descendants_of(getpid(), list, MAX_PROCESSES);
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		sum += list[i].cpu;
		if (wanted)
			*wanted += descendant_threads(list[i].pid);
	}
	return sum;
}

static bool waits_for_timer(const struct trace_qp *q)
{
	return q->sq.wait == TRACE_WAIT_RNR || q->sq.wait == TRACE_WAIT_FAULT ||
	       (q->sq.wait == TRACE_WAIT_ACK && q->timeout);
}

static void note_polls(struct watch *w, int32_t pid, uint64_t vain)
{
	struct seen *s = w->seen;

	while (s < w->seen + w->n_seen && s->pid != pid)
		s++;
	if (s == w->seen + MAX_PROCESSES)
		return;
	if (s == w->seen + w->n_seen)
		w->n_seen++;
	if (s->pid != pid || !w->quiet)
		*s = (struct seen){pid, vain};
	w->vain += vain - s->vain;
	w->pollers += vain > s->vain;
}

static void add_up(void *arg, const struct segment *s)
{
	const struct trace_info *i = trace_info(s->t);
	const struct trace_object *o;
	struct watch *w = arg;
	uint64_t vain = 0;

	w->alive |= s->life == SEGMENT_LIVES;
	w->state += i->next + i->net[TRACE_NET_tx_pkts] + i->net[TRACE_NET_rx_pkts] +
		    i->completions;
	for (size_t k = 0; (o = trace_object(s->t, k)); k++) {
		if (o->kind == TRACE_OBJ_CQ) {
			w->state += o->cq.produced + o->cq.polled;
			vain += o->cq.vain;
		}
		if (o->kind == TRACE_OBJ_QP && s->life == SEGMENT_LIVES)
			w->pending |= waits_for_timer(&o->qp);
	}
	if (s->life == SEGMENT_LIVES)
		note_polls(w, i->pid, vain);
}

static void first_wait(void *arg, const struct wait *wait)
{
	struct sweep_outcome *out = arg;

	if (!out->waits[0])
		snprintf(out->waits, sizeof(out->waits), "%.250s", wait->text);
}

static void say_waits(void *arg, const struct segment *s)
{
	if (s->life == SEGMENT_LIVES)
		waits_each(s->t, now_ns(), first_wait, arg);
}

/* Nothing changes: is that since nobody does anything, or nobody anything but poll? */
static enum sweep_hang is_still(const struct watch *w, uint64_t still)
{
	size_t wanted = 0;
	uint64_t used = cpu_used(&wanted) - w->cpu;

	if (w->alive && !wanted && used < still / IDLE_PART)
		return SWEEP_IDLE;
	if (wanted <= w->pollers && used >= w->order->hang &&
	    w->vain >= used / SECOND_NS * VAIN_POLLS + VAIN_POLLS)
		return SWEEP_SPINS;
	/* it computes, or looks now and then; who waits for a CPU does not get it faster by this */
	if (used >= SPIN_FACTOR * w->order->hang ||
	    (!wanted && still >= SPIN_FACTOR * w->order->hang))
		return SWEEP_SPINS;
	return SWEEP_ENDED;
}

static bool is_hung(struct watch *w, uint64_t now)
{
	uint64_t still = now - w->since;

	if (w->quiet && !w->pending && still >= w->order->hang)
		w->out->hang = is_still(w, still);
	if (w->out->hang == SWEEP_ENDED && w->order->limit &&
	    now - w->begin >= w->order->limit)
		w->out->hang =
		    !w->pending && still >= w->order->hang ? SWEEP_SPINS : SWEEP_ENDLESS;
	return w->out->hang != SWEEP_ENDED;
}

static bool on_tick(struct supervised *s)
{
	struct watch *w = s->arg;
	uint64_t was = w->state, now = now_ns();

	w->state = w->vain = 0;
	w->pollers = 0;
	w->pending = w->alive = false;
	segments_of(s->dir, add_up, w);
	if (w->state != was) {
		w->since = now;
		w->quiet = false;
	} else if (!w->quiet) {
		w->quiet = true;
		w->cpu = cpu_used(NULL);
	}
	if (!w->order->hang || !is_hung(w, now))
		return false;
	segments_of(s->dir, say_waits, w->out);
	return true;
}

/* --- when it has ended ------------------------------------------------------------ */

/* struct look - @learnt: NULL: nothing is to be learnt */
struct look {
	const struct options *o;
	struct sweep_outcome *out;
	struct sweep_learnt *learnt;
	uint64_t first;
};

static void on_process(void *arg, const struct points *p)
{
	struct look *l = arg;

	for (int i = 0; i < INJECT_MAX_RULES; i++) {
		l->out->hits += p->hit[i].count;
		if (p->hit[i].count && (!l->first || p->hit[i].time < l->first))
			l->first = p->hit[i].time;
	}
	if (!l->learnt || l->learnt->n == SWEEP_MAX_PROCESSES)
		return;
	memcpy(&l->learnt->process[l->learnt->n++], p, sizeof(*p));
}

/* What a process leaves that was killed is nobody's fault. */
static void on_segment(void *arg, const struct segment *s)
{
	const struct trace_info *i = trace_info(s->t);
	struct look *l = arg;

	l->out->processes++;
	if (i->end != TRACE_REPORTED)
		return;
	for (size_t k = 0; k < TRACE_N_OBJECTS; k++)
		l->out->left += i->left[k];
	l->out->abandoned += i->abandoned;
}

static void look(void *arg, const char *dir)
{
	struct look *l = arg;

	if (l->o->check[0])
		l->out->findings = checked_report(l->o);
	injected_all(dir, on_process, arg);
	segments_of(dir, on_segment, arg);
}

void sweep_run(const struct sweep_order *order, struct options *o, char **argv,
	       const char *place, struct sweep_outcome *out, struct sweep_learnt *learnt)
{
	struct watch w = {.order = order, .out = out, .begin = now_ns()};
	struct supervised s = {.tick = on_tick, .tick_ms = TICK_MS, .arg = &w};
	struct look l = {.o = o, .out = out};
	uint64_t end;

	if (!strcmp(order->rule, "learn")) {
		l.learnt = learnt;
		learnt->n = 0;
	}
	w.since = w.begin;
	snprintf(o->inject, sizeof(o->inject), "%s", order->rule);
	out->code = run_once(o, argv, place, &s, look, &l);
	end = now_ns();
	out->signal = s.signal;
	out->failed = !s.ran;
	out->ns = end - w.begin;
	out->after = l.first && l.first < end ? end - l.first : 0;
}
