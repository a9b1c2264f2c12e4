/*
 * ucma.h - /dev/infiniband/rdma_cm, as far as other files know it.
 */
#ifndef URXE_VERBS_UCMA_UCMA_H
#define URXE_VERBS_UCMA_UCMA_H

/*
 * ucma_open - what open(2) of the device does: a new event channel
 * @flags: of open(2); O_NONBLOCK and O_CLOEXEC matter
 *
 * The descriptor, or -errno.
 */
int ucma_open(int flags);

/* ucma_serve - let the connection manager of @e start with the first MAD that comes */
struct engine;
void ucma_serve(struct engine *e);

/*
 * This thread goes into rdma_destroy_id(3), which waits until the program has acknowledged what it
 * has read, and comes out of it: so long the identifier is shown.
 */
void ucma_destroy_begins(void);
void ucma_destroy_ends(void *unused);

#endif
