/*
 * waits.h - what does not go on in a program, from its segment, in sentences: for `urxe why`
 * and `urxe run --explain`.
 */
#ifndef URXE_TOOLS_WAITS_H
#define URXE_TOOLS_WAITS_H

#include "trace/reader.h"

#define WAIT_BYTES 512

/*
 * enum wait_kind - what waits
 * WAIT_SEND: the requests of a QP
 * WAIT_PEER: the peer of a QP, because of what is missing here
 * WAIT_MESSAGE: receive requests that are posted, which is what they are for
 * WAIT_POLL: completions of a CQ
 * WAIT_CM: a connection
 * WAIT_CM_EVENT: events of a CM ID
 * WAIT_CM_DESTROY: the end of a CM ID
 */
enum wait_kind {
	WAIT_SEND,
	WAIT_PEER,
	WAIT_MESSAGE,
	WAIT_POLL,
	WAIT_CM,
	WAIT_CM_EVENT,
	WAIT_CM_DESTROY,
};

/* struct wait - @object waits since @since (ns); @text begins with its name */
struct wait {
	enum wait_kind kind;
	const struct trace_object *object;
	uint64_t since;
	char text[WAIT_BYTES];
};

typedef void wait_fn(void *arg, const struct wait *w);

/* All that waits at @now (ns, of the clock of the segment), object by object */
void waits_each(const struct trace_reader *t, uint64_t now, wait_fn *fn, void *arg);
/* Those of one object */
void waits_of(const struct trace_reader *t, const struct trace_object *o, uint64_t now,
	      wait_fn *fn, void *arg);
/* waits_cm.c: those of a CM ID; and "127.0.0.1:7471" */
void waits_of_cm(const struct trace_object *o, uint64_t now, wait_fn *fn, void *arg);
const char *waits_address(const struct trace_ip *ip, uint16_t port, char buf[96]);

#endif
