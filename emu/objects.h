/*
 * objects.h - the HCA's objects as the transport sees them (inside emu/ only).
 *
 * PDs, keys, MRs and MWs, CQs, SRQs, AHs, multicast groups and the HCA itself. The
 * transport (requester, responder, completer) asks here who may touch what and where
 * completions go; it never looks into tables.
 */
#ifndef URXE_EMU_OBJECTS_H
#define URXE_EMU_OBJECTS_H

#include <rdma/ib_user_verbs.h>

#include "emu/hca.h"
#include "emu/queue_ring.h"
#include "trace/recorder.h"

struct emu_qp;

/* hw_counters as rdma_rxe has them; its ack_deferred is SENDER_SCHED */
#define EMU_HW_COUNTER(id, name) EMU_CNT_##id,
enum emu_counter {
	TRACE_HW_COUNTERS(EMU_HW_COUNTER)
	/* ours: what was thrown away, and why; rdma_rxe does not show these */
	EMU_CNT_RX_MALFORMED,
	EMU_CNT_RX_BAD_PKEY,
	EMU_CNT_RX_BAD_QKEY,
	EMU_CNT_RX_BAD_QPN,
	EMU_CNT_MAX,
};
_Static_assert(EMU_CNT_MAX <= sizeof(((struct trace_device *)0)->counter) / 8, "room");

/*
 * struct emu_table - ids -> objects, O(1) in everything
 *
 * A free slot holds its place in a queue and 8 bits that its last owner left
 * (emu_table_del()), so that a freed id comes back as late as possible, and then with a
 * key that differs.
 *
 * @slot:	an object, or a free slot with the lowest bit set
 * @size:	slots there are; @fresh: the first id never given out; @max: ids end here
 * @used:	objects
 * @head, @tail: queue of freed ids, valid if @nfree
 */
struct emu_table {
	void **slot;
	uint32_t size, fresh, max, used;
	uint32_t head, tail, nfree;
};

void emu_table_init(struct emu_table *t, uint32_t first, uint32_t max);
void emu_table_fini(struct emu_table *t);
/* 0, *@id and in *@last what emu_table_del() left there (0 for a new one); -ENOMEM */
int emu_table_add(struct emu_table *t, void *obj, uint32_t *id, uint8_t *last);
void *emu_table_get(const struct emu_table *t, uint32_t id);
void emu_table_del(struct emu_table *t, uint32_t id, uint8_t leave);

/*
 * struct emu_qpns - QPN -> QP: two levels of 4096, the second made for QPNs that are in
 * use
 *
 * QPNs come from leases (struct emu_ops), are given out in order and, when enough were
 * freed or no lease is to be had, again in the order in which they were freed.
 *
 * @base, @left: what is left of the newest lease
 */
struct emu_qpns {
	void ***l1;
	uint32_t base, left;
	uint32_t used;
	uint32_t head, tail, nfree;
};

int emu_qpn_alloc(struct emu_hca *hca, struct emu_qp *qp, uint32_t *qpn);
void emu_qpn_free(struct emu_hca *hca, uint32_t qpn);
void emu_qpns_fini(struct emu_qpns *q);

struct emu_mcast_group;

/*
 * struct emu_notes - what was found to be wrong, see note.h
 * @seen:	the first @n are in use
 * @detail:	tells two of one cause from each other
 * @said:	lines for each cause
 */
#define EMU_NOTES_MAX 64
struct emu_notes {
	struct trace_object *seen[EMU_NOTES_MAX];
	uint32_t detail[EMU_NOTES_MAX];
	uint8_t said[TRACE_N_NOTES];
	uint32_t n;
};

/*
 * struct emu_hca - one device. Owned by hca.c; transport state is behind @tr.
 * @counter:	shown to others, or @own_counter
 * @fault:	of new MRs, if it was set; @start: of their page tables
 * @odp_gone:	counters of MRs that are gone
 * @cqs_aside:	CQs with completions that wait for room
 * @link_up:	the interface is; @held_down: the port is down all the same; @port_up: what is so
 * @dead:	see emu_hca_die()
 * @lost:	where packets are built that a port that is down does not send; @losing: one is
 * @all_qps:	all; @looked: the next one whose receive queue is looked at, NULL: the first
 * @srqs_looked: the number of the next SRQ
 */
struct emu_hca {
	struct emu_hca_cfg cfg;
	struct emu_limits limits;
	const struct emu_ops *ops;
	void *arg;
	uint64_t now;
	bool port_up, link_up, held_down, dead, losing;
	uint8_t *lost;
	enum ibv_mtu mtu;
	struct net_ip gid[EMU_GID_TABLE_LEN];
	bool gid_used[EMU_GID_TABLE_LEN];
	uint64_t *counter;
	uint64_t own_counter[EMU_CNT_MAX];
	struct {
		bool set;
		enum odp_fault_model model;
		uint64_t latency;
	} fault;
	enum odp_start start;
	struct odp_counters odp_gone;
	struct emu_table keys; /* MRs and MWs by key >> 8 */
	struct emu_table ahs;
	struct emu_table srqs;
	struct emu_qpns qpns;
	struct emu_cq *cqs_aside;
	struct emu_qp *all_qps, *looked;
	uint32_t srqs_looked;
	struct emu_mcast_group *mcast;
	uint32_t num_mcast_groups, num_mcast_attached;
	uint32_t num_pds, num_mrs, num_mws, num_cqs, num_xrcds;
	uint32_t next_pd, next_cq;
	uint64_t rng;
	struct emu_notes notes;
	uint32_t gsi_psn;	  /* of QP1, which has no struct emu_qp */
	struct emu_transport *tr; /* the transport's: ready list, timers */
};

/* A MAD that QP1 gets from @peer, or sends there, maybe @again */
void emu_record_mad(struct emu_hca *hca, const struct net_ip *peer, const uint8_t *mad,
		    bool sent, bool again);
/* Room for a packet; sending it, with what it counts as: by @ops, unless the port is down */
uint8_t *emu_tx_get(struct emu_hca *hca, const struct net_path *path, uint32_t dqpn,
		    uint32_t len);
void emu_tx_put(struct emu_hca *hca, uint32_t bytes);
/* All QPs that there are */
void emu_qps_each(struct emu_hca *hca, void (*fn)(struct emu_qp *qp));
/* A number of the HCA's own generator, which depends on the seed only */
uint64_t emu_rand(struct emu_hca *hca);
enum {
	EMU_MAX_XRCD = 128,
	EMU_FIRST_QPN = 16, /* 0 and 1 are SMI and GSI */
};

#define EMU_ACCESS_OPTIONAL 0x3ff00000 /* a device may ignore these */
#define EMU_ACCESS_REMOTE                                                                \
	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC |   \
	 EMU_ACCESS_FLUSH_GLOBAL | EMU_ACCESS_FLUSH_PERSISTENT)

/* --- PD --------------------------------------------------------------------------- */

struct emu_pd {
	struct emu_hca *hca;
	uint32_t num;
	uint32_t users; /* MRs, MWs, QPs, SRQs, AHs */
};

/* --- MR, MW ----------------------------------------------------------------------- */

/*
 * struct emu_key - what stands in the table of keys: the first member of an MR and of an
 * MW
 */
struct emu_key {
	bool is_mw;
	uint32_t key; /* id << 8 and 8 bits that change */
};

/*
 * struct emu_mr
 * @iova:	the first byte as the HCA addresses it; 0 for zero-based ones
 * @num_mw:	windows bound to it
 * @changing:	between emu_mr_rereg_begin() and emu_mr_rereg_end()
 */
struct emu_mr {
	struct emu_key k;
	struct emu_hca *hca;
	struct emu_pd *pd;
	uint64_t start, length, iova;
	int access;
	uint32_t num_mw;
	bool changing;
	struct odp_mr *odp;
};

/*
 * struct emu_mw - IBTA 10.6.7.2. A type 1 window is unbound while @mr is NULL, a type 2
 * window is then in the free state
 * @addr, @length, @access: of the binding
 * @qp:		type 2B: the only QP on which it may be used
 * @prev, @next: in @qp's list
 */
struct emu_mw {
	struct emu_key k;
	struct emu_hca *hca;
	struct emu_pd *pd;
	enum ibv_mw_type type;
	struct emu_mr *mr;
	uint64_t addr, length;
	int access;
	struct emu_qp *qp;
	struct emu_mw *prev, *next;
};

/*
 * The table of keys: a new key for @k, the end of it, and who has a key (all 32 bits
 * match)
 */
int emu_key_add(struct emu_hca *hca, struct emu_key *k);
void emu_key_del(struct emu_hca *hca, struct emu_key *k);
struct emu_key *emu_key_find(struct emu_hca *hca, uint32_t key);
/* mr_odp.c: memory of an MR begins, with the device's fault model, and ends */
void emu_mr_memory_new(struct emu_hca *hca, struct odp_mr *odp);
void emu_mr_memory_gone(struct emu_hca *hca, struct odp_mr *odp);
bool emu_range_in(uint64_t va, uint64_t len, uint64_t base, uint64_t size);
/* The type 2B windows that are bound to @qp become free: it is going away. */
void emu_mw_qp_gone(struct emu_qp *qp);

/* --- access to memory ------------------------------------------------------------- */

/*
 * A page fault brings in what follows in the same operation, as hardware does, up to so many
 * bytes.
 */
#define EMU_FAULT_AHEAD (4u << 20)

/*
 * struct emu_mem - the answer to a key check: an MR, good until the core returns, as
 * nothing is deregistered meanwhile
 * @mr:	memory; @iova: what to give odp_*() for the address asked for
 */
struct emu_mem {
	struct odp_mr *mr;
	uint64_t iova;
	uint32_t key;
};

/*
 * emu_lkey_check - may @pd use @lkey at [@va, @va+@len) with @access
 * (IBV_ACCESS_LOCAL_WRITE or 0 for reading)? 0; -EINVAL (no such key, other PD, MW),
 * -EACCES (rights), -ERANGE (bounds)
 */
int emu_lkey_check(struct emu_hca *hca, const struct emu_pd *pd, uint32_t lkey,
		   uint64_t va, uint64_t len, int access, struct emu_mem *out);
/*
 * emu_rkey_check - may a request that came in on @qp use @rkey (MR, MW of type 1 or 2)?
 * @access: IBV_ACCESS_REMOTE_*, EMU_ACCESS_FLUSH_*. Errors as above. What the QP itself
 * allows (attr.qp_access_flags) is the caller's to check, as it ends in another NAK. An
 * XRC_RECV QP has no PD: the caller sets qp->xrc_pd to that of the SRQ which the request
 * names. Length 0 checks nothing but is still an error if the caller asks for it
 * (IBTA 9.7.4.1.5: zero-length requests skip the R_Key check: do not call).
 */
int emu_rkey_check(struct emu_hca *hca, const struct emu_qp *qp, uint32_t rkey,
		   uint64_t va, uint64_t len, int access, struct emu_mem *out);

/*
 * Bind WR, local and remote invalidate: 0 or -errno (-> IBV_WC_MW_BIND_ERR, LOC_...,
 * REM_...). The new R_Key of a bind has the id of the old one. Only bound windows of type
 * 2 can be invalidated, as in rdma_rxe MRs that were registered by ibv_reg_mr() cannot.
 */
int emu_mw_bind(struct emu_qp *qp, uint32_t mw_rkey, uint32_t new_rkey, uint32_t mr_lkey,
		uint64_t addr, uint64_t length, int access);
int emu_invalidate_key(struct emu_qp *qp, uint32_t rkey);

/* --- CQ --------------------------------------------------------------------------- */

struct cq_aside;

/*
 * struct emu_cq
 * @cqe:	entries it may hold; @users: QPs, SRQs
 * @armed, @solicited_only: what a completion event was asked for
 * @overrun:	it takes nothing any more
 * @forgotten:	entries of the ring that are, if @forgotten_known, and while the consumer's
 *		index is @forgotten_from
 * @aside:	@n_aside completions that wait for room, see cq.c; room for @aside_room
 * @aside_next:	in the HCA's list, if @aside_listed
 * @num:	its number in records
 * @seen:	what the recorder shows of it
 */
struct emu_cq {
	struct emu_hca *hca;
	uint32_t num;
	struct trace_object *seen;
	struct emu_ring ring;
	void *owner, *cookie;
	uint32_t cqe;
	uint32_t users;
	bool armed, solicited_only, overrun;
	bool forgotten_known, aside_listed;
	uint32_t forgotten, forgotten_from;
	struct cq_aside *aside;
	uint32_t n_aside, aside_room;
	struct emu_cq *aside_next;
};

/*
 * emu_cq_post - put one completion. @solicited: SE bit or an error, counts for a CQ armed
 * for solicited completions only. -ENOSPC: overrun; CQ_ERR was raised when it happened,
 * from then on the CQ takes nothing (IBTA 11.6.3.2); the caller errors its QP.
 */
int emu_cq_post(struct emu_cq *cq, const struct ib_uverbs_wc *wc, bool solicited);

/*
 * emu_cq_forget - mark what a QP that enters RESET has left in the queue. The entries stay, since
 * the application may be reading them at this moment; who polls throws them away.
 */
void emu_cq_forget(struct emu_cq *cq, uint32_t qpn);
/* Completions that waited for room: to the rings that have some */
void emu_cqs_bring_back(struct emu_hca *hca);

/* --- receive WQEs ----------------------------------------------------------------- */

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
	struct trace_object *seen; /* what the recorder shows of it */
};

struct emu_xrcd {
	struct emu_hca *hca;
	uint32_t users; /* QPs, SRQs */
};

/*
 * 0, or -ENOENT when empty. Takes one WQE; raises SRQ_LIMIT_REACHED. -EINVAL: took one
 * that makes no sense (more SGEs than the queue has), only @out->wr_id is good.
 */
int emu_srq_take(struct emu_srq *srq, struct emu_recv_wqe *out);
/* The same on a QP's own ring */
int emu_rq_take(struct emu_qp *qp, struct emu_recv_wqe *out);
/*
 * receive_posts.c: a message to @qp has taken @wqe, from @srq or from the QP's own queue. Posts that
 * are not in the trace yet come before it. While take_receive is recorded
 */
void emu_receives_record(struct emu_qp *qp, struct emu_srq *srq,
			 const struct emu_recv_wqe *wqe);
/* For others to see: how many receive requests are in an SRQ, and since when */
void emu_show_srq(struct emu_srq *srq);
/* Bytes of a receive WQE in a ring */
uint32_t emu_recv_wqe_size(uint32_t max_sge);
struct emu_srq *emu_srq_find(struct emu_hca *hca, uint32_t srqn);

/* --- AH, GID, multicast ----------------------------------------------------------- */

struct emu_ah {
	struct emu_hca *hca;
	struct emu_pd *pd;
	uint32_t num;
	struct ibv_ah_attr attr;
	struct net_path path;
};

struct emu_ah *emu_ah_find(struct emu_hca *hca, uint32_t num);
/*
 * @path from AH attributes: sgid index, dgid, hop limit, traffic class, flow label. 0;
 * -EINVAL; -ENODATA where the GID table has a hole (rdma_get_gid_attr() in the kernel)
 */
int emu_path_from_ah(const struct emu_hca *hca, const struct ibv_ah_attr *attr,
		     struct net_path *path);
/* Call @fn for each QP of @group. */
void emu_mcast_each(struct emu_hca *hca, const struct net_ip *group,
		    void (*fn)(void *arg, struct emu_qp *qp), void *arg);

/* A record of what happens, see trace/recorder.h */
#define EMU_TRACE(hca, name, ...)                                                        \
	TRACE_OF((hca)->cfg.recorder, (hca)->cfg.device, (hca)->now, name, __VA_ARGS__)

/* An event of an object, which @cookie stands for; of the port: NULL */
static inline void emu_event(struct emu_hca *hca, enum ibv_event_type type,
			     enum trace_object_kind kind, uint32_t id, void *cookie)
{
	EMU_TRACE(hca, async_event, .event = (uint8_t)type, .object = (uint8_t)kind,
		  .id = id);
	hca->ops->async_event(hca->arg, type, cookie);
}

/* An object of @kind was made, or not (@ret); one is gone */
static inline void emu_made(struct emu_hca *hca, enum trace_object_kind kind, uint32_t id,
			    uint32_t parent, uint32_t size, int ret)
{
	if (ret)
		EMU_TRACE(hca, verb_failed, .object = (uint8_t)kind,
			  .verb = TRACE_VERB_CREATE, .parent = parent, .size = size,
			  .result = ret);
	else
		EMU_TRACE(hca, verb, .object = (uint8_t)kind, .verb = TRACE_VERB_CREATE,
			  .id = id, .parent = parent, .size = size);
}

static inline void emu_ended(struct emu_hca *hca, enum trace_object_kind kind,
			     uint32_t id, int ret)
{
	if (ret)
		EMU_TRACE(hca, verb_failed, .object = (uint8_t)kind,
			  .verb = TRACE_VERB_DESTROY, .id = id, .result = ret);
	else
		EMU_TRACE(hca, verb, .object = (uint8_t)kind, .verb = TRACE_VERB_DESTROY,
			  .id = id);
}

#endif
