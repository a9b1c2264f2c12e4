/*
 * will.h - what a process leaves to be said to its peers after its death.
 *
 * A file in the session's directory holds the last message to the peer of each
 * connection. Its owner holds a lock on it, which the kernel gives back when he dies,
 * however he dies. Then whoever stays (`urxe run`) sends the messages and removes the
 * file. Knows addresses and bytes, not what they say.
 */
#ifndef URXE_VERBS_UCMA_WILL_H
#define URXE_VERBS_UCMA_WILL_H

#include <stdint.h>

#include "emu/cm_mad.h"
#include "net/path.h"

struct will;

/* will_open - 0, or -errno; @dir is the session's directory */
int will_open(const char *dir, struct will **out);
/*
 * will_set - the message for one peer. @entry is 0 for a new one, and a number to change
 * or drop it afterwards. What cannot be written is not left: the peer's own timers must
 * do.
 */
void will_set(struct will *w, uint32_t *entry, const struct net_path *path,
	      const uint8_t mad[CM_MAD_LEN]);
void will_drop(struct will *w, uint32_t *entry);
/* In the child of fork: let go of what is the parent's. */
void will_abandon(struct will *w);

/*
 * will_execute - send what those left who have died, and remove their files
 *
 * How many wills were executed.
 */
unsigned int will_execute(const char *dir);

#endif
