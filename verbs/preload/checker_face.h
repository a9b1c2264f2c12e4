/*
 * checker_face.h - what liburxe.so offers to the checker's library (check/). Exported.
 */
#ifndef URXE_VERBS_PRELOAD_CHECKER_FACE_H
#define URXE_VERBS_PRELOAD_CHECKER_FACE_H

#include <infiniband/verbs.h>

#include "verbs/engine/checker.h"

#define CHECKER_FACE __attribute__((visibility("default")))

/* Before a device is opened; @c stays valid for ever. */
CHECKER_FACE void urxe_checker_attach(const struct checker *c);
/* The index of its device, which records have */
CHECKER_FACE uint16_t urxe_checker_device(struct ibv_context *context);
/* The numbers that records have for these; 0: they are not of an emulated device */
CHECKER_FACE uint32_t urxe_checker_cq(struct ibv_cq *cq);
CHECKER_FACE uint32_t urxe_checker_srq(struct ibv_srq *srq);
/* Copy memory that may vanish meanwhile: 0 or -EFAULT */
CHECKER_FACE int urxe_checker_copy(void *to, const void *from, size_t len);
/*
 * A descriptor that the program neither sees nor closes takes the place of @fd, which is new; and
 * close it
 */
CHECKER_FACE int urxe_checker_private(int fd);
CHECKER_FACE void urxe_checker_close(int fd);

#endif
