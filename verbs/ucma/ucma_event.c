/*
 * ucma_event.c - the queue of events of a channel, whose descriptor is readable while there are any.
 *
 * Owns: the events that the application has not taken. Must not know: how it takes them
 * (ucma_command.c).
 */
#include <stdlib.h>

#include "verbs/ucma/ucma_internal.h"

void ucma_event_queue(struct ucma_file *f, struct ucma_event *ev)
{
	ev->next = NULL;
	*f->events_end = ev;
	f->events_end = &ev->next;
	bell_ring(&f->bell);
}

struct ucma_event *ucma_push(struct ucma_id *id, enum ucma_event_type type, int status)
{
	struct ucma_event *ev;

	/* Until the application has accepted, it does not know the identifier. */
	if (!id->uid || !ucma_point_event(id, &type, &status))
		return NULL;
	ev = calloc(1, sizeof(*ev));
	if (!ev)
		return NULL;
	ev->id = id;
	ev->resp.uid = id->uid;
	ev->resp.id = id->handle;
	ev->resp.event = type;
	ev->resp.status = (uint32_t)status;
	ev->since = engine_now();
	ucma_show_queued(ev);
	ucma_event_queue(id->file, ev);
	return ev;
}

/* Take out the events that @match says, into a list. */
static struct ucma_event *
take_events(struct ucma_file *f,
	    bool (*match)(const struct ucma_event *ev, const void *arg), const void *arg)
{
	struct ucma_event **p = &f->events, *taken = NULL, **end = &taken, *ev;

	while ((ev = *p)) {
		if (!match(ev, arg)) {
			p = &ev->next;
			continue;
		}
		*p = ev->next;
		ev->next = NULL;
		*end = ev;
		end = &ev->next;
	}
	f->events_end = p;
	if (!f->events && taken)
		bell_silence(&f->bell);
	return taken;
}

static bool about_id(const struct ucma_event *ev, const void *id)
{
	return ev->id == id || ev->conn == id;
}

static bool about_mc(const struct ucma_event *ev, const void *mc)
{
	return ev->mc == mc;
}

struct ucma_event *ucma_event_take(struct ucma_id *id)
{
	return take_events(id->file, about_id, id);
}

void ucma_event_done(struct ucma_file *f)
{
	struct ucma_event *ev = f->events;

	f->events = ev->next;
	if (!f->events) {
		f->events_end = &f->events;
		bell_silence(&f->bell);
	}
	free(ev);
}

void ucma_event_drop_mc(struct ucma_mc *mc)
{
	struct ucma_event *ev = take_events(mc->id->file, about_mc, mc), *next;

	for (; ev; ev = next) {
		next = ev->next;
		ucma_show_dropped(ev);
		free(ev);
	}
}

uint32_t ucma_event_drop_id(struct ucma_id *id)
{
	struct ucma_event *ev = ucma_event_take(id), *next;

	for (; ev; ev = next) {
		next = ev->next;
		/* Requests that the application never saw end with their listener. */
		if (ev->conn && ev->conn != id)
			ucma_id_destroy(ev->conn);
		if (ev->id != id)
			ucma_show_dropped(ev);
		free(ev);
	}
	return ucma_id_destroy(id);
}
