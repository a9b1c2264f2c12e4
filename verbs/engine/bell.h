/*
 * bell.h - what makes the descriptor of an event channel readable, without a second one of the
 * program's. Knows no events.
 */
#ifndef URXE_VERBS_ENGINE_BELL_H
#define URXE_VERBS_ENGINE_BELL_H

#include <stdbool.h>

#include "verbs/engine/vfile.h"

/*
 * struct bell - of one channel; whoever owns the channel serialises the calls
 * @vf:		the channel, which has the program's descriptors
 * @fd:		private duplicate of them, an eventfd; -1 without
 * @inside:	@fd counts within the program's limit
 * @rung:	without @fd: which of two makes it readable, 1 or 2; 0: it is not
 */
struct bell {
	struct vfile *vf;
	int fd;
	bool inside;
	int rung;
};

/*
 * bell_open - a descriptor for the program, tied to @vf, which is a channel's; or -errno.
 * @flags: O_CLOEXEC, O_NONBLOCK
 */
int bell_open(struct bell *b, struct vfile *vf, int flags);
/* Something was queued: readable, and who waits edge-triggered is told */
void bell_ring(struct bell *b);
/* Nothing is queued: not readable, even if the program wrote to its descriptor */
void bell_silence(struct bell *b);
/*
 * bell_fd - what to wait on and to ask for flags: of the open file, for another thread may
 * close @fd, the program's, and reuse the number; where there is no other it is @fd, while it is
 * the channel's, else -1
 */
int bell_fd(const struct bell *b, int fd);
/* The program closed its last descriptor */
void bell_close(struct bell *b);

#endif
