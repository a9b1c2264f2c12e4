/*
 * explain.c - see explain.h.
 *
 * The program is asked nothing and not touched: it may be stopped. A program that waits for
 * something else each time is slow and does not hang, so nothing is said of it.
 */
#include "tools/explain.h"

#include <event2/event.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/segments.h"
#include "tools/waits.h"

#define LOOK_MS	 500
#define SAID_MAX 128 /* lines of one run */

/* struct said - what a line was about, so that it is not said again */
struct said {
	int pid;
	unsigned int kind;
	uint64_t object;
};

/*
 * struct explain
 * @pid, @program: of the segment that is looked at
 * @said:	the first @n_said
 */
struct explain {
	char *dir;
	uint64_t limit;
	struct event *timer;
	int pid;
	const char *program;
	struct said said[SAID_MAX];
	unsigned int n_said;
};

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Nobody may read it any more: then neither a signal nor a full pipe may hold up the run. */
static void write_line(const char *line, size_t len)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
	const struct timespec none = {0};
	sigset_t pipe, old;

	if (poll(&p, 1, 0) != 1 || p.revents & (POLLERR | POLLNVAL))
		return;
	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigprocmask(SIG_BLOCK, &pipe, &old);
	if (write(STDERR_FILENO, line, len) < 0)
		sigtimedwait(&pipe, NULL, &none);
	sigprocmask(SIG_SETMASK, &old, NULL);
}

/* The first time? */
static bool is_new(struct explain *x, unsigned int kind, uint64_t object)
{
	for (unsigned int i = 0; i < x->n_said; i++)
		if (x->said[i].pid == x->pid && x->said[i].kind == kind &&
		    x->said[i].object == object)
			return false;
	if (x->n_said == SAID_MAX)
		return false;
	x->said[x->n_said++] = (struct said){x->pid, kind, object};
	return true;
}

static void say(const struct explain *x, const char *text)
{
	char line[WAIT_BYTES + 128];
	int len = snprintf(line, sizeof(line), "urxe: %s (pid %d): %s\n", x->program,
			   x->pid, text);

	if (len > 0 && (size_t)len < sizeof(line))
		write_line(line, (size_t)len);
}

static void on_wait(void *arg, const struct wait *w)
{
	struct explain *x = arg;
	uint64_t now = now_ns();

	/* receive requests are there to wait */
	if (w->kind != WAIT_MESSAGE && w->since && w->since < now &&
	    now - w->since >= x->limit && is_new(x, w->kind, w->object->serial))
		say(x, w->text);
}

/* What was found to be wrong, and not important enough to be said without being asked for */
static void say_notes(struct explain *x, const struct trace_reader *t)
{
	const struct trace_object *o;
	uint64_t now = now_ns();

	for (size_t i = 0; (o = trace_object(t, i)); i++)
		if (o->kind == TRACE_OBJ_NOTE && !o->note.said &&
		    o->note.cause != TRACE_NOTE_REFUSED &&
		    (o->note.cause != TRACE_NOTE_EVENTS || o->created + x->limit < now) &&
		    is_new(x, TRACE_OBJ_NOTE + 16, o->serial))
			say(x, o->note.text);
}

static void look(void *arg, const struct segment *s)
{
	struct explain *x = arg;

	if (s->life != SEGMENT_LIVES)
		return;
	x->pid = trace_info(s->t)->pid;
	x->program = trace_info(s->t)->program;
	waits_each(s->t, now_ns(), on_wait, x);
	say_notes(x, s->t);
}

static void set_timer(struct explain *x)
{
	const struct timeval t = {.tv_sec = LOOK_MS / 1000,
				  .tv_usec = LOOK_MS % 1000 * 1000};

	evtimer_add(x->timer, &t);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct explain *x = arg;

	segments_of(x->dir, look, x);
	set_timer(x);
}

struct explain *explain_start(struct event_base *base, const char *dir,
			      unsigned int seconds)
{
	struct explain *x = calloc(1, sizeof(*x));

	if (!x || !seconds)
		return x;
	x->limit = seconds * 1000000000ull;
	x->dir = strdup(dir);
	x->timer = evtimer_new(base, on_timer, x);
	if (!x->dir || !x->timer) {
		explain_stop(x);
		return NULL;
	}
	set_timer(x);
	return x;
}

void explain_stop(struct explain *x)
{
	if (!x)
		return;
	if (x->timer)
		event_free(x->timer);
	free(x->dir);
	free(x);
}
