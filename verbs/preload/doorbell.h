/*
 * doorbell.h - the doorbell of a post that was wrapped (context_hook.c).
 *
 * The provider rings it by a write(2) of a command. Whose post it is was said by the same thread just
 * before, so the command needs not be copied, taken apart and looked up, nor the device be found by
 * its descriptor. What does not fit goes the usual way. Knows nothing of requests.
 */
#ifndef URXE_VERBS_PRELOAD_DOORBELL_H
#define URXE_VERBS_PRELOAD_DOORBELL_H

#include <rdma/ib_user_verbs.h>
#include <stddef.h>
#include <stdint.h>

#define DOORBELL_BYTES                                                                   \
	(sizeof(struct ib_uverbs_cmd_hdr) + sizeof(struct ib_uverbs_post_send))

/* struct doorbell - @qpn: of the post that this thread is in, by way of @fd; 0: in none */
struct doorbell {
	uint32_t qpn;
	int fd;
};
extern __thread struct doorbell doorbell __attribute__((tls_model("initial-exec")));

/* Is it the command that rings the doorbell of that post? */
static inline int doorbell_is(int fd, size_t len)
{
	return doorbell.qpn && fd == doorbell.fd && len == DOORBELL_BYTES;
}

/* Ring it. 0, the -errno that the command ends with; -ENOENT: this is not the way */
int doorbell_ring(void);

#endif
