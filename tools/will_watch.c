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
 *
 * Most sessions never have a will, and to close an inotify descriptor takes some 10 ms. So nothing is
 * watched before the first owner says that there is one, by a byte in a FIFO.
 */
#include "tools/will_watch.h"

#include <event2/event.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tools.h"
#include "verbs/ucma/will.h"
#include "verbs/ucma/will_file.h"

#define RETRY_MS 2
#define RETRIES	 25

/*
 * struct will_watch
 * @bell:	the FIFO, or -1; @rung: there is something in it
 * @fd:		inotify, or -1
 * @closed:	@fd has something to read; NULL without inotify
 * @timer:	the next try after a close; without inotify the next look
 * @tries:	left
 */
struct will_watch {
	char *dir;
	int bell, fd;
	struct event *rung;
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

/* There is a will; its owner may even have died meanwhile. */
static void begin(struct will_watch *w, struct event_base *base)
{
	if (!start_inotify(w, base)) {
		set_timer(w, WILL_MS);
		return;
	}
	w->tries = RETRIES;
	set_timer(w, 0);
}

static void on_bell(evutil_socket_t fd, short what, void *arg)
{
	struct will_watch *w = arg;

	event_del(w->rung); /* once is enough */
	begin(w, event_get_base(w->rung));
}

/* False: somebody has watched before, so that there may be wills; or there can be no FIFO */
static bool hang_bell(struct will_watch *w, struct event_base *base)
{
	char name[PATH_MAX];

	snprintf(name, sizeof(name), "%s/" WILL_BELL, w->dir);
	/* whatever the umask is: the programs are to open it */
	if (mkfifo(name, 0600) || chmod(name, 0600))
		return false;
	w->bell = open(name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (w->bell >= 0)
		w->rung = event_new(base, w->bell, EV_READ, on_bell, w);
	return w->rung && !event_add(w->rung, NULL);
}

struct will_watch *will_watch_start(struct event_base *base, const char *dir)
{
	struct will_watch *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->bell = w->fd = -1;
	w->dir = strdup(dir);
	w->timer = evtimer_new(base, on_timer, w);
	if (!w->dir || !w->timer) {
		will_watch_stop(w);
		return NULL;
	}
	if (!hang_bell(w, base))
		begin(w, base);
	return w;
}

void will_watch_stop(struct will_watch *w)
{
	if (!w)
		return;
	if (w->rung)
		event_free(w->rung);
	if (w->closed)
		event_free(w->closed);
	if (w->timer)
		event_free(w->timer);
	if (w->bell >= 0)
		close(w->bell);
	if (w->fd >= 0)
		close(w->fd);
	free(w->dir);
	free(w);
}
