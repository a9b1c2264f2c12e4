/*
 * will_watch.c - execute wills when those who left them die.
 *
 * Theory of operation
 *
 * The owner of a will has it open for writing until he dies or starts another program; a
 * child of fork that has a copy of the descriptor is in his place. At the end inotify(7)
 * tells of the close, a moment before the kernel returns the lock by which
 * will_execute() sees that the owner is gone: so it tries again for a moment. Where there
 * is no inotify (a user has 128 of them), it looks every WILL_MS.
 */
#include "tools/will_watch.h"

#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "tools/tools.h"
#include "verbs/ucma/will.h"
#include "verbs/ucma/will_file.h"

#define RETRY_MS 2
#define RETRIES	 25

/*
 * struct will_watch
 * @fd:		inotify, or -1
 * @closed:	@fd has something to read; NULL without inotify
 * @timer:	the next try after a close; without inotify the next look
 * @tries:	left
 */
struct will_watch {
	char *dir;
	int fd;
	struct event *closed;
	struct event *timer;
	unsigned int tries;
};

static void set_timer(struct will_watch *w, unsigned int ms)
{
	const struct timeval tv = {.tv_sec = ms / 1000,
				   .tv_usec = (suseconds_t)(ms % 1000) * 1000};

	event_add(w->timer, &tv);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct will_watch *w = arg;
	unsigned int done = will_execute(w->dir);

	if (!w->closed)
		set_timer(w, WILL_MS);
	else if (!done && --w->tries)
		set_timer(w, RETRY_MS);
}

/* Was one of the closed files a will? */
static bool read_events(int fd)
{
	union {
		struct inotify_event e;
		char bytes[4096];
	} buf;
	bool found = false;
	ssize_t n;

	while ((n = read(fd, &buf, sizeof(buf))) > 0) {
		for (char *p = buf.bytes; p < buf.bytes + n;) {
			const struct inotify_event *e = (struct inotify_event *)p;

			found |= e->mask & IN_Q_OVERFLOW ||
				 (e->len &&
				  !strncmp(e->name, WILL_PREFIX, strlen(WILL_PREFIX)));
			p += sizeof(*e) + e->len;
		}
	}
	return found;
}

static void on_close(evutil_socket_t fd, short what, void *arg)
{
	struct will_watch *w = arg;

	if (!read_events((int)fd))
		return;
	w->tries = RETRIES;
	set_timer(w, 0);
}

/* False: there is no inotify */
static bool start_inotify(struct will_watch *w, struct event_base *base)
{
	w->fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (w->fd >= 0 && inotify_add_watch(w->fd, w->dir, IN_CLOSE_WRITE) >= 0)
		w->closed = event_new(base, w->fd, EV_READ | EV_PERSIST, on_close, w);
	if (w->closed && event_add(w->closed, NULL) == 0)
		return true;
	if (w->closed)
		event_free(w->closed);
	w->closed = NULL;
	return false;
}

struct will_watch *will_watch_start(struct event_base *base, const char *dir)
{
	struct will_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->fd = -1;
	w->dir = strdup(dir);
	w->timer = evtimer_new(base, on_timer, w);
	if (!w->dir || !w->timer) {
		will_watch_stop(w);
		return NULL;
	}
	if (!start_inotify(w, base))
		set_timer(w, WILL_MS);
	return w;
}

void will_watch_stop(struct will_watch *w)
{
	if (!w)
		return;
	if (w->closed)
		event_free(w->closed);
	if (w->timer)
		event_free(w->timer);
	if (w->fd >= 0)
		close(w->fd);
	free(w->dir);
	free(w);
}
