/*
 * event_channel.c - completion channels and asynchronous event files.
 *
 * Theory of operation
 *
 * An event is in the queue of its channel and in the list of its source. The descriptor
 * is readable while the queue has events (bell.h): each post rings, and who takes the last one
 * out, by reading it or by destroying the object that it is of, silences. Edge-triggered epoll
 * therefore sees each event, as it does with the kernel's.
 *
 * The application must acknowledge each event that it has read before ibv_destroy_cq(3)
 * and the like return, so these are told exactly how many it has read: @reported counts
 * at read, not at post.
 *
 * A reader that must wait on a completion channel does so in engine_wait(), which drives
 * the HCA meanwhile: the thread that waits for a completion is the one that receives it.
 */
#include "verbs/engine/event_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "odp/guard.h"
#include "verbs/host/libc.h"
#include "verbs/host/reason.h"

/*
 * struct event - one that nobody has read
 * @source:	NULL for port events
 * @element, @type: of the descriptor that the reader gets
 */
struct event {
	TAILQ_ENTRY(event) in_channel;
	TAILQ_ENTRY(event) in_source;
	struct event_source *source;
	uint64_t element;
	uint32_t type;
};

/* With the lock held */
static void unlink_event(struct event_channel *ch, struct event *ev)
{
	TAILQ_REMOVE(&ch->queue, ev, in_channel);
	if (ev->source)
		TAILQ_REMOVE(&ev->source->pending, ev, in_source);
	if (TAILQ_EMPTY(&ch->queue) && !ch->dead)
		bell_silence(&ch->bell);
}

static int write_event(const struct event_channel *ch, const struct event *ev, void *buf)
{
	const struct ib_uverbs_async_event_desc async = {
	    .element = ev->element,
	    .event_type = ev->type,
	};
	const struct ib_uverbs_comp_event_desc comp = {.cq_handle = ev->element};

	return ch->async ? guard_copy(buf, &async, sizeof(async))
			 : guard_copy(buf, &comp, sizeof(comp));
}

/* Like the kernel, take the event even when @buf turns out to be bad. */
static ssize_t pop(struct event_channel *ch, void *buf, size_t len)
{
	size_t size = ch->async ? sizeof(struct ib_uverbs_async_event_desc)
				: sizeof(struct ib_uverbs_comp_event_desc);
	struct event *ev;
	int ret;

	lock_take(&ch->lock);
	ev = TAILQ_FIRST(&ch->queue);
	if (!ev || len < size) {
		ret = ev ? -EINVAL : ch->dead ? -EIO : -EAGAIN;
		lock_release(&ch->lock);
		return ret;
	}
	unlink_event(ch, ev);
	if (ev->source)
		ev->source->reported++;
	lock_release(&ch->lock);
	ret = write_event(ch, ev, buf);
	free(ev);
	return ret ? ret : (ssize_t)size;
}

bool handlers_restart(void)
{
	struct sigaction sa;

	for (int sig = 1; sig <= SIGRTMAX; sig++) {
		if (sig == SIGSEGV || sig == SIGBUS || sigaction(sig, NULL, &sa))
			continue;
		if (sa.sa_handler != SIG_DFL && sa.sa_handler != SIG_IGN &&
		    !(sa.sa_flags & SA_RESTART))
			return false;
	}
	return true;
}

static int wait_for_event(struct event_channel *ch, int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int ret;

	if (ch->async)
		ret = poll(&p, 1, -1) < 0 ? -errno : 0;
	else
		ret = engine_wait(ch->engine, fd);
	return ret == -EINTR && handlers_restart() ? 0 : ret;
}

static ssize_t channel_read(struct vfile *vf, int fd, void *buf, size_t len)
{
	struct event_channel *ch = (struct event_channel *)vf;
	ssize_t n;
	int flags, ret, bell;

	for (;;) {
		n = pop(ch, buf, len);
		if (n != -EAGAIN)
			return n;
		bell = bell_fd(&ch->bell, fd);
		flags = fcntl(bell, F_GETFL);
		if (flags < 0)
			return -errno;
		if (flags & O_NONBLOCK)
			return -EAGAIN;
		ret = wait_for_event(ch, bell);
		if (ret)
			return ret;
	}
}

/* The last descriptor was closed: what was not read never will be. */
static void channel_release(struct vfile *vf)
{
	struct event_channel *ch = (struct event_channel *)vf;
	struct event *ev;

	lock_take(&ch->lock);
	ch->closed = true;
	while ((ev = TAILQ_FIRST(&ch->queue))) {
		unlink_event(ch, ev);
		free(ev);
	}
	bell_close(&ch->bell);
	lock_release(&ch->lock);
	event_channel_put(ch);
}

static const struct vfile_ops channel_ops = {
    .read = channel_read,
    .release = channel_release,
};

int event_channel_open(struct engine *e, bool async, int *fd, struct event_channel **out)
{
	struct event_channel *ch = calloc(1, sizeof(*ch));
	int ret;

	if (!ch)
		return -ENOMEM;
	ch->engine = e;
	ch->async = async;
	ch->refs = 2;
	TAILQ_INIT(&ch->queue);
	lock_init(&ch->lock);
	ch->vf.ops = &channel_ops;
	*fd = bell_open(&ch->bell, &ch->vf, O_CLOEXEC);
	if (*fd >= 0) {
		*out = ch;
		return 0;
	}
	ret = *fd;
	/* A device is not opened without one. */
	if (async)
		fprintf(stderr, "urxe: cannot open the device's events: %s%s\n",
			strerror(-ret), reason_hint(-ret));
	free(ch);
	return ret;
}

static struct event_channel *event_channel_get(struct event_channel *ch)
{
	__atomic_add_fetch(&ch->refs, 1, __ATOMIC_RELAXED);
	return ch;
}

void event_channel_put(struct event_channel *ch)
{
	if (__atomic_sub_fetch(&ch->refs, 1, __ATOMIC_ACQ_REL))
		return;
	lock_fini(&ch->lock);
	free(ch);
}

struct event_channel *event_channel_lookup(int fd)
{
	struct vfile *vf = vfile_get_as(fd, &channel_ops);
	struct event_channel *ch = (struct event_channel *)vf;

	if (!vf)
		return NULL;
	event_channel_get(ch);
	vfile_put(vf);
	return ch;
}

bool event_channel_is_closed(struct event_channel *ch)
{
	bool closed;

	lock_take(&ch->lock);
	closed = ch->closed;
	lock_release(&ch->lock);
	return closed;
}

void event_channel_kill(struct event_channel *ch)
{
	lock_take(&ch->lock);
	ch->dead = true;
	if (!ch->closed)
		bell_ring(&ch->bell);
	lock_release(&ch->lock);
}

void event_source_init(struct event_source *s, struct event_channel *ch,
		       uint64_t user_handle)
{
	s->channel = ch ? event_channel_get(ch) : NULL;
	s->user_handle = user_handle;
	s->reported = 0;
	TAILQ_INIT(&s->pending);
}

void event_source_fini(struct event_source *s)
{
	struct event_channel *ch = s->channel;
	struct event *ev;

	if (!ch)
		return;
	lock_take(&ch->lock);
	while ((ev = TAILQ_FIRST(&s->pending))) {
		unlink_event(ch, ev);
		free(ev);
	}
	s->channel = NULL;
	lock_release(&ch->lock);
	event_channel_put(ch);
}

static void post(struct event_channel *ch, struct event_source *s, uint64_t element,
		 uint32_t type)
{
	struct event *ev;

	lock_take(&ch->lock);
	ev = ch->closed ? NULL : calloc(1, sizeof(*ev));
	if (ev) {
		ev->source = s;
		ev->element = element;
		ev->type = type;
		TAILQ_INSERT_TAIL(&ch->queue, ev, in_channel);
		if (s)
			TAILQ_INSERT_TAIL(&s->pending, ev, in_source);
		bell_ring(&ch->bell);
	}
	lock_release(&ch->lock);
}

void event_post(struct event_source *s, uint32_t type)
{
	if (s->channel)
		post(s->channel, s, s->user_handle, type);
}

void event_post_port(struct event_channel *ch, uint32_t port, uint32_t type)
{
	post(ch, NULL, port, type);
}
