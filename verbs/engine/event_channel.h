/*
 * event_channel.h - completion channels and asynchronous event files.
 *
 * What the application has is an eventfd (bell.h), so that poll, epoll and select work untouched;
 * the events themselves are in a queue of ours, and read(2) of the descriptor takes one
 * from it. Knows descriptors and who an event is about, not what it means.
 */
#ifndef URXE_VERBS_ENGINE_EVENT_CHANNEL_H
#define URXE_VERBS_ENGINE_EVENT_CHANNEL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/lock.h"
#include "verbs/engine/bell.h"
#include "verbs/engine/engine.h"
#include "verbs/engine/vfile.h"

struct event;
TAILQ_HEAD(event_list, event);

/*
 * struct event_source - the side of an object (CQ, QP, SRQ) that events are about
 * @channel:	where they go, one reference; NULL: nowhere
 * @user_handle: what tells the application which object
 * @pending:	queued and not read
 * @reported:	read by the application
 */
struct event_source {
	struct event_channel *channel;
	uint64_t user_handle;
	struct event_list pending;
	uint32_t reported;
};

/*
 * struct event_channel
 * @refs:	the descriptor, the context, each source
 * @engine:	driven by readers of completion channels
 * @async:	events are struct ib_uverbs_async_event_desc, else ..._comp_event_desc
 * @lock:	of what follows and of the sources; a leaf
 * @bell:	rings while something is in @queue
 * @closed:	the application has closed its last descriptor
 * @dead:	the context is gone; readers get EIO
 */
struct event_channel {
	struct vfile vf;
	int refs;
	struct engine *engine;
	bool async;
	struct lock lock;
	struct bell bell;
	bool closed;
	bool dead;
	struct event_list queue;
};

/*
 * handlers_restart - would the kernel resume a system call after the signal that
 * interrupted us? It does when all handlers have SA_RESTART; which signal it was cannot
 * be known.
 */
bool handlers_restart(void);

/*
 * event_channel_open - a new channel with two references: that of *@fd, and the caller's
 */
int event_channel_open(struct engine *e, bool async, int *fd, struct event_channel **out);
/*
 * event_channel_lookup - the channel that @fd is, with a reference; NULL when it is none
 */
struct event_channel *event_channel_lookup(int fd);
void event_channel_put(struct event_channel *ch);
/* Has the application closed its last descriptor? */
bool event_channel_is_closed(struct event_channel *ch);
/* The context is gone: wake the readers. */
void event_channel_kill(struct event_channel *ch);

/* event_source_init - @ch (NULL: no events) gets a reference */
void event_source_init(struct event_source *s, struct event_channel *ch,
		       uint64_t user_handle);
/* event_source_fini - withdraw what was not read; @s->reported stays readable */
void event_source_fini(struct event_source *s);

/* event_post - @s has something to tell; @type is ignored by completion channels */
void event_post(struct event_source *s, uint32_t type);
/* event_post_port - an event of a port, which nobody counts */
void event_post_port(struct event_channel *ch, uint32_t port, uint32_t type);

#endif
