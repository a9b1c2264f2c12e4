/*
 * ring_memory.h - memory of queue rings, shared with the application through its command fd.
 *
 * The provider library maps a ring with mmap(2) of the command fd at the offset that the
 * create command answered. The command fd is a memfd, so that works without us; this side
 * has the same pages mapped in a few large arenas. Knows neither queues nor their
 * contents.
 */
#ifndef URXE_VERBS_UVERBS_RING_MEMORY_H
#define URXE_VERBS_UVERBS_RING_MEMORY_H

#include "verbs/engine/engine.h"

#define RING_FILE_NAME "urxe-uverbs" /* in /proc/PID/maps */

struct ring_arena;

/*
 * struct ring_space - the rings of one context
 * @owner:	what the engine calls; first, so that it can be cast back
 * @fd:		private duplicate of the memfd
 * @arenas:	newest first
 * @size:	of the file, bytes
 * @inode:	of the file; @next: see ring_fork.c
 * @told:	why there was no memory has been said
 */
struct ring_space {
	struct engine_ring_owner owner;
	struct ring_space *next;
	int fd;
	uint64_t inode;
	struct ring_arena *arenas;
	uint64_t size;
	bool told;
};

/* ring_space_open - a new memfd for the application in *@fd; 0 or -errno */
int ring_space_open(struct ring_space *rs, int *fd);
/* ring_space_at - our mapping of [@offset, @offset+@len), or NULL */
void *ring_space_at(struct ring_space *rs, uint64_t offset, size_t len);
/* ring_fork.c: a child of fork is to have copies, from now on; and no longer */
void ring_fork_follow(struct ring_space *rs);
void ring_fork_forget(struct ring_space *rs);
/* Nobody may use a ring any more. */
void ring_space_close(struct ring_space *rs);

#endif
