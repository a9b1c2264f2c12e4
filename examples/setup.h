/*
 * setup.h - what every example needs before it gets to its subject: a device, and a
 * connection.
 *
 * The steps are those of any RDMA program. To keep the examples short, both ends of a
 * connection are in one process: "left" and "right".
 */
#ifndef EXAMPLES_SETUP_H
#define EXAMPLES_SETUP_H

#include <infiniband/verbs.h>

/*
 * struct device - an open device
 * @ctx:	the device
 * @pd:		protection domain: what is in the same one may be used together
 * @cq:		completion queue: where the device tells that work is done
 * @gid:	address of the device's port; GID 0 is the interface's first address
 */
struct device {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	union ibv_gid gid;
};

void device_open(struct device *dev);
void device_close(struct device *dev);

/* make_qp - a queue pair of @type that completes into dev->cq; @srq may be NULL */
struct ibv_qp *make_qp(struct device *dev, enum ibv_qp_type type, struct ibv_srq *srq);
/* connect_qps - bring both from RESET to RTS, each with the other as its peer */
void connect_qps(struct device *dev, struct ibv_qp *left, struct ibv_qp *right);

/* wait_completion - poll until one completion came; ends the program if it is an error */
struct ibv_wc wait_completion(struct ibv_cq *cq);

/* check - end the program with a message unless @ok */
void check(int ok, const char *what);

#endif
