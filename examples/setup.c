/*
 * setup.c - opening a device, connecting queue pairs, waiting for completions.
 */
#include "setup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check(int ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

void device_open(struct device *dev)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (!list || !n) {
		fprintf(stderr, "there is no RDMA device; try: urxe run %s\n",
			program_invocation_name);
		exit(1);
	}
	dev->ctx = ibv_open_device(list[0]);
	check(dev->ctx != NULL, "ibv_open_device");
	printf("device %s\n", ibv_get_device_name(list[0]));
	/* The list may go once the device is open. */
	ibv_free_device_list(list);

	dev->pd = ibv_alloc_pd(dev->ctx);
	check(dev->pd != NULL, "ibv_alloc_pd");
	dev->cq = ibv_create_cq(dev->ctx, 64, NULL, NULL, 0);
	check(dev->cq != NULL, "ibv_create_cq");
	check(ibv_query_gid(dev->ctx, 1, 0, &dev->gid) == 0, "ibv_query_gid");
}

void device_close(struct device *dev)
{
	/*
	 * What is still in use cannot be destroyed: the order is that of creation,
	 * reversed.
	 */
	check(ibv_destroy_cq(dev->cq) == 0, "ibv_destroy_cq");
	check(ibv_dealloc_pd(dev->pd) == 0, "ibv_dealloc_pd");
	check(ibv_close_device(dev->ctx) == 0, "ibv_close_device");
}

struct ibv_qp *make_qp(struct device *dev, enum ibv_qp_type type, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = dev->cq,
	    .recv_cq = dev->cq,
	    .srq = srq,
	    .qp_type = type,
	    /* room for 16 requests each way, of one piece of memory each */
	    .cap = {.max_send_wr = 16,
		    .max_recv_wr = 16,
		    .max_send_sge = 1,
		    .max_recv_sge = 1},
	};
	struct ibv_qp *qp = ibv_create_qp(dev->pd, &attr);

	check(qp != NULL, "ibv_create_qp");
	return qp;
}

/*
 * A queue pair walks through three states before it can send: INIT says which port it
 * uses and what its peer may do, RTR (ready to receive) who the peer is, RTS (ready to
 * send) how to deal with loss. Between two hosts the programs exchange number and GID by
 * some other way, TCP for example; rdma_cm does all of this by itself.
 */
static void connect_qp(struct device *dev, struct ibv_qp *qp, struct ibv_qp *peer)
{
	struct ibv_qp_attr init = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			       IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct ibv_qp_attr rtr = {
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = peer->qp_num,
	    .rq_psn = 0,
	    .max_dest_rd_atomic = 4,	/* reads and atomics of the peer at a time */
	    .min_rnr_timer = 12,	/* 0.64 ms until the peer tries again (RNR) */
	    .ah_attr = {.is_global = 1, /* always on Ethernet */
			.port_num = 1,
			.grh = {.dgid = dev->gid, .sgid_index = 0, .hop_limit = 64}},
	};
	struct ibv_qp_attr rts = {
	    .qp_state = IBV_QPS_RTS,
	    .sq_psn = 0,
	    .timeout = 14, /* 4.096 us * 2^14 = 67 ms without an answer */
	    .retry_cnt = 7,
	    .rnr_retry = 7, /* for ever */
	    .max_rd_atomic = 4,
	};

	check(ibv_modify_qp(qp, &init,
			    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				IBV_QP_ACCESS_FLAGS) == 0,
	      "to INIT");
	check(ibv_modify_qp(qp, &rtr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				IBV_QP_MIN_RNR_TIMER) == 0,
	      "to RTR");
	check(ibv_modify_qp(qp, &rts,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				IBV_QP_MAX_QP_RD_ATOMIC) == 0,
	      "to RTS");
}

void connect_qps(struct device *dev, struct ibv_qp *left, struct ibv_qp *right)
{
	connect_qp(dev, left, right);
	connect_qp(dev, right, left);
}

struct ibv_wc wait_completion(struct ibv_cq *cq)
{
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(cq, 1, &wc);
	while (n == 0);
	check(n == 1, "ibv_poll_cq");
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "request %llu failed: %s\n", (unsigned long long)wc.wr_id,
			ibv_wc_status_str(wc.status));
		exit(1);
	}
	return wc;
}
