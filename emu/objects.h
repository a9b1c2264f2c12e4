/*
 * objects.h - the HCA's objects as the transport sees them (inside emu/ only).
 *
 * PDs, keys, MRs and MWs, CQs, SRQs, AHs, multicast groups and the HCA itself. The transport
 * (requester, responder, completer) asks here who may touch what and where completions go; it
 * never looks into tables.
 */
#ifndef URXE_EMU_OBJECTS_H
#define URXE_EMU_OBJECTS_H

#include <rdma/ib_user_verbs.h>

#include "emu/hca.h"
#include "emu/ring.h"

struct emu_qp;

/* hw_counters, in the order and by the names of rdma_rxe (rxe_hw_counters.c) */
enum emu_counter {
	EMU_CNT_SENT_PKTS,
	EMU_CNT_RCVD_PKTS,
	EMU_CNT_DUP_REQ,
	EMU_CNT_OUT_OF_SEQ_REQ,
	EMU_CNT_RCV_RNR,
	EMU_CNT_SND_RNR,
	EMU_CNT_RCV_SEQ_ERR,
	EMU_CNT_SENDER_SCHED, /* ack_deferred */
	EMU_CNT_RETRY_EXCEEDED,
	EMU_CNT_RNR_RETRY_EXCEEDED,
	EMU_CNT_COMP_RETRY,
	EMU_CNT_SEND_ERR,
	EMU_CNT_LINK_DOWNED,
	EMU_CNT_RDMA_SEND,
	EMU_CNT_RDMA_RECV,
	EMU_CNT_SENT_BYTES,
	EMU_CNT_RCVD_BYTES,
	/* ours: what was thrown away, and why (not shown by rdma_rxe) */
	EMU_CNT_RX_MALFORMED,
	EMU_CNT_RX_BAD_PKEY,
	EMU_CNT_RX_BAD_QKEY,
	EMU_CNT_RX_BAD_QPN,
	EMU_CNT_MAX,
};

/* A slab of ids -> pointers with O(1) lookup; generation in the key avoids stale hits */
struct emu_table {
	void **slot;
	uint32_t size, used, hint;
};

/*
 * struct emu_hca - one device. Owned by hca.c; transport state is behind @tr.
 */
struct emu_hca {
	struct emu_hca_cfg cfg;
	const struct emu_ops *ops;
	void *arg;
	uint64_t now;
	bool port_up;
	enum ibv_mtu mtu;
	struct net_ip gid[EMU_GID_TABLE_LEN];
	bool gid_used[EMU_GID_TABLE_LEN];
	uint64_t counter[EMU_CNT_MAX];
	struct emu_table keys; /* MRs and MWs by key >> 8 */
	struct emu_table ahs;
	struct emu_table srqs;
	struct emu_objects *obj;   /* the rest of objects' state: QPNs, multicast, counts */
	struct emu_transport *tr;  /* the transport's: ready list, timers */
};

/* --- PD ------------------------------------------------------------------ */

struct emu_pd {
	struct emu_hca *hca;
	uint32_t num;
	uint32_t users; /* MRs, MWs, QPs, SRQs, AHs */
};

/* --- access to memory ---------------------------------------------------- */

/*
 * struct emu_mem - the answer to a key check: an MR with a reference, good until emu_mem_put()
 * @mr:	memory; @iova: what to give odp_*() for the address asked for
 */
struct emu_mem {
	struct odp_mr *mr;
	uint64_t iova;
	uint32_t key;
};

/*
 * emu_lkey_check - may @pd use @lkey at [@va, @va+@len) with @access (IBV_ACCESS_LOCAL_WRITE or 0
 * for reading)? 0; -EINVAL (no such key, other PD, MW), -EACCES (rights), -ERANGE (bounds)
 */
int emu_lkey_check(struct emu_hca *hca, const struct emu_pd *pd, uint32_t lkey, uint64_t va,
		   uint64_t len, int access, struct emu_mem *out);
/*
 * emu_rkey_check - may a request that came in on @qp use @rkey (MR, MW of type 1 or 2)? @access:
 * IBV_ACCESS_REMOTE_*. Errors as above. Length 0 checks nothing but is still an error if the caller
 * asks for it (IBTA 9.7.4.1.5: zero-length requests skip the R_Key check: do not call).
 */
int emu_rkey_check(struct emu_hca *hca, const struct emu_qp *qp, uint32_t rkey, uint64_t va,
		   uint64_t len, int access, struct emu_mem *out);
void emu_mem_put(struct emu_mem *m);

/* Bind WR, local and remote invalidate: 0 or -errno (-> IBV_WC_MW_BIND_ERR, LOC_..., REM_...) */
int emu_mw_bind(struct emu_qp *qp, uint32_t mw_rkey, uint32_t new_rkey, uint32_t mr_lkey,
		uint64_t addr, uint64_t length, int access);
int emu_invalidate_key(struct emu_qp *qp, uint32_t rkey, bool remote);

/* --- CQ ------------------------------------------------------------------ */

struct emu_cq {
	struct emu_hca *hca;
	struct emu_ring ring;
	void *owner, *cookie;
	uint32_t cqe;
	uint32_t users; /* QPs, SRQs */
	bool armed, solicited_only, overrun;
};

/*
 * emu_cq_post - put one completion. @solicited: SE bit or an error, counts for a CQ armed for
 * solicited completions only. -ENOSPC: overrun; CQ_ERR was raised, the caller errors its QP.
 */
int emu_cq_post(struct emu_cq *cq, const struct ib_uverbs_wc *wc, bool solicited);

/* --- receive WQEs -------------------------------------------------------- */

#define EMU_MAX_SGE 32

/* struct emu_recv_wqe - a validated copy of a receive WQE */
struct emu_recv_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	uint64_t length; /* sum of the SGEs, computed here */
	struct rxe_sge sge[EMU_MAX_SGE];
};

struct emu_srq {
	struct emu_hca *hca;
	struct emu_pd *pd;
	struct emu_ring ring;
	struct emu_xrcd *xrcd;
	struct emu_cq *cq; /* XRC */
	void *owner, *cookie;
	uint32_t num;
	uint32_t max_wr, max_sge, limit;
	uint32_t users;
	bool error;
};

/* 0, or -ENOENT when empty. Takes one WQE; raises SRQ_LIMIT_REACHED. */
int emu_srq_take(struct emu_srq *srq, struct emu_recv_wqe *out);
/* The same on a QP's own ring */
int emu_rq_take(struct emu_qp *qp, struct emu_recv_wqe *out);
struct emu_srq *emu_srq_find(struct emu_hca *hca, uint32_t srqn);

/* --- AH, GID, multicast -------------------------------------------------- */

struct emu_ah {
	struct emu_hca *hca;
	struct emu_pd *pd;
	uint32_t num;
	struct ibv_ah_attr attr;
	struct net_path path;
};

struct emu_ah *emu_ah_find(struct emu_hca *hca, uint32_t num);
/* @path from AH attributes: sgid index, dgid, hop limit, traffic class, flow label. 0 or -EINVAL */
int emu_path_from_ah(const struct emu_hca *hca, const struct ibv_ah_attr *attr,
		     struct net_path *path);
/* Call @fn for each QP of @group. */
void emu_mcast_each(struct emu_hca *hca, const struct net_ip *group,
		    void (*fn)(void *arg, struct emu_qp *qp), void *arg);

struct emu_qp *emu_qp_find(struct emu_hca *hca, uint32_t qpn);

/* An event of a QP, CQ or SRQ */
static inline void emu_event(struct emu_hca *hca, enum ibv_event_type type, void *cookie)
{
	hca->ops->async_event(hca->arg, type, cookie);
}

#endif
