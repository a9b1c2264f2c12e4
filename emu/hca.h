/*
 * hca.h - the emulated HCA: its objects and its entry points.
 *
 * The core is a pure state machine. It gets packets, doorbells, verbs calls and the time, and
 * gives packets, completions (into rings that the application maps) and events, through struct
 * emu_ops. It has no threads, no clock, no sockets, no locks: the caller serialises all calls on
 * one struct emu_hca. Application memory is reached only through odp/odp.h.
 *
 * Attributes are those of <infiniband/verbs.h>, rings and WQEs those of
 * <rdma/rdma_user_rxe.h>; functions return 0 or -errno as the kernel's uverbs and rxe do.
 */
#ifndef URXE_EMU_HCA_H
#define URXE_EMU_HCA_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/limits.h"
#include "net/path.h"
#include "odp/odp.h"
#include "trace/format.h"

struct emu_hca;
struct emu_pd;
struct emu_mr;
struct emu_mw;
struct emu_cq;
struct emu_srq;
struct emu_qp;
struct emu_ah;
struct emu_xrcd;

#define EMU_GID_TABLE_LEN 64
#define EMU_PORT	  1
#define EMU_NO_DEADLINE	  UINT64_MAX

/*
 * Access flags that verbs.h of Debian 12 does not have (rdma/ib_user_ioctl_verbs.h, v6.2)
 */
#define EMU_ACCESS_FLUSH_GLOBAL	    (1 << 8)
#define EMU_ACCESS_FLUSH_PERSISTENT (1 << 9)

/*
 * struct emu_ring_info - where a ring is, for the mminfo of the rxe ABI, and its layout
 * @offset: what the owner's mmap(2) of its command fd must use; @size: bytes
 * @mask, @log2_elem: elements less one, and their size, see queue_layout.h
 */
struct emu_ring_info {
	uint64_t offset;
	uint32_t size;
	uint32_t mask, log2_elem;
};

/*
 * struct emu_peer - what can be known of the QP at the other end
 * EMU_PEER_UNKNOWN: it is on another host, or another user's
 * EMU_PEER_NOBODY: no process here has the address
 * EMU_PEER_NO_PROCESS: the address is this host's, no process of this user has the QPN
 * EMU_PEER_NO_QP: process @pid has that range of QPNs, and no such QP
 * EMU_PEER_SEEN: @qp is it
 *
 * @said:	what @pid has to say of that QP's last trouble (without its name); empty: nothing
 * @same_stderr: the process writes where this one does
 * @stopped:	by a signal or a debugger
 */
enum emu_peer_kind {
	EMU_PEER_UNKNOWN,
	EMU_PEER_NOBODY,
	EMU_PEER_NO_PROCESS,
	EMU_PEER_NO_QP,
	EMU_PEER_SEEN,
};
struct emu_peer {
	enum emu_peer_kind kind;
	int pid;
	struct trace_qp qp;
	char said[256];
	bool same_stderr, stopped;
};

/*
 * struct emu_ops - what the core asks of its surroundings; @arg is that of emu_hca_create()
 * @tx_get:	room for a packet of @len bytes (BTH to last pad byte); NULL: full, the core tries
 *		again in the next emu_hca_run()
 * @tx_put:	the packet is written
 * @unread:	what was sent to @dqpn on @path since @since (ns) lies there unread, for all that is
 *		known: its process lives and has not run. May be NULL
 * @qpn_lease:	a fresh range of QPNs; 0 or -EAGAIN
 * @ring_alloc:	zeroed memory, shared with the application, for a ring; @owner is that of the
 *		object's creation; NULL: out of memory
 * @ring_free:	its end
 * @comp_event:	an armed CQ got a completion; @cookie is the CQ's. Called once per arming
 * @async_event: @cookie of the QP, CQ or SRQ; NULL for port events
 * @gsi_rx:	a UD packet for QP1 that has its Q_Key: @mad is the 256-byte MAD behind the DETH
 * @mcast:	the first QP joined, or the last one left, @group; 0 or -errno
 * @trace:	one line worth showing to the user (already free of newlines); may be NULL
 * @peer:	what is known of QP @qpn at @ip, for a sentence about what went wrong; may be NULL
 */
struct emu_ops {
	uint8_t *(*tx_get)(void *arg, const struct net_path *path, uint32_t dqpn,
			   uint32_t len);
	void (*tx_put)(void *arg);
	bool (*unread)(void *arg, const struct net_path *path, uint32_t dqpn,
		       uint64_t since);
	int (*qpn_lease)(void *arg, uint32_t *base, uint32_t *count);
	void *(*ring_alloc)(void *arg, void *owner, size_t bytes, uint64_t *offset);
	void (*ring_free)(void *arg, void *owner, void *ring, size_t bytes,
			  uint64_t offset);
	void (*comp_event)(void *arg, void *cookie);
	void (*async_event)(void *arg, enum ibv_event_type type, void *cookie);
	void (*gsi_rx)(void *arg, const struct net_path *path, const uint8_t *mad,
		       uint32_t len);
	int (*mcast)(void *arg, const struct net_ip *group, bool join);
	void (*trace)(void *arg, const char *line);
	void (*peer)(void *arg, const struct net_ip *ip, uint32_t qpn,
		     struct emu_peer *out);
};

/*
 * struct emu_hca_cfg
 * @guid_be:	node and system image GUID, network order
 * @mtu:	active MTU of the port
 * @odp:	where MRs are made
 * @seed:	of initial keys; tests set it
 * @limits:	of the device; NULL: rdma_rxe's
 * @recorder:	who is told of what happens, NULL for nobody
 * @device:	index of the device in records
 * @seen:	what the recorder shows of the device; its counters are there. NULL: nothing
 */
struct emu_hca_cfg {
	uint64_t guid_be;
	enum ibv_mtu mtu;
	struct odp_domain *odp;
	uint64_t seed;
	const struct emu_limits *limits;
	struct recorder *recorder;
	uint16_t device;
	struct trace_object *seen;
};

int emu_hca_create(const struct emu_hca_cfg *cfg, const struct emu_ops *ops, void *arg,
		   struct emu_hca **out);
/* All objects must be gone. */
void emu_hca_destroy(struct emu_hca *hca);

/* --- progress --------------------------------------------------------------------- */

/* Set the time (ns); before a batch of calls. Never goes back. */
void emu_hca_set_time(struct emu_hca *hca, uint64_t now);
/*
 * Let the recorder know of the packets that have come. emu_hca_run() and emu_hca_set_time() do it; to
 * be called where neither follows at once.
 */
void emu_hca_show(struct emu_hca *hca);
/*
 * emu_fault_resolved - a page fault is over, that a request of one of the HCAs waited for
 * (odp_resolved()); their time was set. The request goes on in the next emu_hca_run().
 */
static inline void emu_fault_resolved(struct odp_waiter *w)
{
	w->wake(w);
}
/* A packet from the wire with a good ICRC. */
void emu_hca_rx(struct emu_hca *hca, const struct net_rx *pkt);
/* emu_qp_rx - the same, by who has found the QP that the packet names already */
void emu_qp_rx(struct emu_qp *qp, const struct net_rx *pkt);
/*
 * emu_hca_run - fire timers that are due and transmit for QPs that have something to send, a
 * bounded amount. True if more is to be done now.
 */
bool emu_hca_run(struct emu_hca *hca);
/* When emu_hca_run() is needed next, without packets or doorbells; EMU_NO_DEADLINE */
uint64_t emu_hca_deadline(const struct emu_hca *hca);
/* Will emu_hca_run() fire a timer? What it waits for may have come, and be read before. */
bool emu_hca_timer_due(const struct emu_hca *hca);
/* The HCA's QP of this number, or NULL (several HCAs share one net_port) */
struct emu_qp *emu_hca_qp(const struct emu_hca *hca, uint32_t qpn);
/*
 * Send a MAD from QP1; @again: for records, it has been sent before. 0, -EAGAIN (transmit path
 * full), -EINVAL
 */
int emu_hca_gsi_tx(struct emu_hca *hca, const struct net_path *path, uint32_t dqpn,
		   const uint8_t *mad, uint32_t len, bool again);

/* --- device and port -------------------------------------------------------------- */

/* Limits as cfg.limits has them; fw_ver etc. included. */
void emu_query_device(const struct emu_hca *hca, struct ibv_device_attr_ex *attr);
/* XRC has no field in ibv_odp_caps: it is ibv_device_attr_ex.xrc_odp_caps. */
void emu_query_port(const struct emu_hca *hca, struct ibv_port_attr *attr);
/* emu_set_port - the interface went up or down or changed its MTU; raises PORT_ events */
void emu_set_port(struct emu_hca *hca, bool up, enum ibv_mtu mtu);
/*
 * emu_port_fail - the port is down, whatever the interface says, until @until (time of the HCA, 0:
 * emu_port_repair() is called): it passes no packets
 */
void emu_port_fail(struct emu_hca *hca, uint64_t until);
void emu_port_repair(struct emu_hca *hca);
/* emu_gid_move - the first GID gets another index, as when its address was removed and added again */
void emu_gid_move(struct emu_hca *hca);
/*
 * emu_hca_die - the device has an error that it does not recover from: DEVICE_FATAL; the port is down, all
 * QPs are in ERR. Who makes things has to ask emu_hca_is_dead()
 */
void emu_hca_die(struct emu_hca *hca);
bool emu_hca_is_dead(const struct emu_hca *hca);
/* emu_set_gid - @ip NULL clears the entry; raises GID_CHANGE when it differs. 0 or -EINVAL */
int emu_set_gid(struct emu_hca *hca, unsigned int index, const struct net_ip *ip);
int emu_get_gid(const struct emu_hca *hca, unsigned int index, struct net_ip *ip);
/* emu_gid_is_v1, emu_gid_step - as emu_limits_v1() and emu_limits_gid_step() of its limits */
bool emu_gid_is_v1(const struct emu_hca *hca, unsigned int index);
unsigned int emu_gid_step(const struct emu_hca *hca);

/* --- PD, MR, MW ------------------------------------------------------------------- */

/* Destroy functions return -EBUSY while something uses the object, as the kernel does. */
int emu_pd_create(struct emu_hca *hca, struct emu_pd **out);
int emu_pd_destroy(struct emu_pd *pd);

/*
 * A registration has three steps, so that callers who serialise calls of the core by a lock need
 * not hold it while the pages of a pinned MR are made present, which takes as long as the
 * program, or a disk, likes: begin and end with the lock, the memory in between without. @made:
 * what the step in between has returned.
 *
 * The MR of emu_mr_reg_begin() is nobody's until the end, and gone if that fails; its PD is in
 * use. -EINVAL: access flags that contradict, length 0, start and iova that differ within the
 * page, ODP attributes as in docs/odp.md; -EFAULT: pinned and not mapped; -EOPNOTSUPP.
 * IBV_ACCESS_ZERO_BASED: the first byte has address 0, whatever iova is.
 */
int emu_mr_reg_begin(struct emu_pd *pd, uint64_t start, uint64_t length, uint64_t iova,
		     int access, struct emu_mr **out);
int emu_mr_memory_make(struct emu_mr *mr);
int emu_mr_reg_end(struct emu_mr *mr, int made);
/*
 * @flags: IBV_REREG_MR_CHANGE_*; the keys change. On failure @mr is as it was. @want: what it is
 * to be; until the end @mr can neither go nor change otherwise.
 */
int emu_mr_rereg_begin(struct emu_mr *mr, int flags, struct emu_pd *pd, uint64_t start,
		       uint64_t length, uint64_t iova, int access, struct emu_mr **want);
int emu_mr_rereg_memory(const struct emu_mr *mr, struct emu_mr *want);
int emu_mr_rereg_end(struct emu_mr *mr, struct emu_mr *want, int made);
/* -EBUSY while it is registered anew, -EINVAL with windows bound to it */
int emu_mr_dereg(struct emu_mr *mr);
uint32_t emu_mr_lkey(const struct emu_mr *mr);
uint32_t emu_mr_rkey(const struct emu_mr *mr);
struct odp_mr *emu_mr_odp(const struct emu_mr *mr);
/*
 * struct emu_mr_memory - [@start, @start+@length) in memory is @iova to the HCA
 */
struct emu_mr_memory {
	uint64_t start, length, iova;
};
void emu_mr_memory(const struct emu_mr *mr, struct emu_mr_memory *out);

/* Faults of MRs that are registered from now on, instead of the ODP domain's model */
void emu_set_fault_model(struct emu_hca *hca, enum odp_fault_model model,
			 uint64_t latency);
/* Page tables of MRs that are registered from now on */
void emu_set_start(struct emu_hca *hca, enum odp_start start);
/* Sums over all MRs that the HCA has and had, and their pages in tables now */
void emu_odp_counters(const struct emu_hca *hca, struct odp_counters *out,
		      uint64_t *cached);
/* Those of its MRs, too */
void emu_odp_reset_counters(struct emu_hca *hca);

/*
 * emu_advise_find - the checks of ibv_advise_mr(3) on one SGE, and the MR it names (a reference,
 * to be used without the caller's lock). -ENOENT, -EINVAL, -EPERM, -EFAULT: see docs/odp.md
 */
int emu_advise_find(struct emu_pd *pd, uint32_t lkey, uint64_t addr, uint64_t length,
		    enum odp_advice advice, struct odp_mr **out);

int emu_mw_alloc(struct emu_pd *pd, enum ibv_mw_type type, struct emu_mw **out);
int emu_mw_dealloc(struct emu_mw *mw);
uint32_t emu_mw_rkey(const struct emu_mw *mw);

/* --- CQ --------------------------------------------------------------------------- */

/* @cookie comes back in events; @owner in ring_alloc. @cqe: at least this many */
int emu_cq_create(struct emu_hca *hca, void *owner, void *cookie, uint32_t cqe,
		  struct emu_cq **out);
int emu_cq_resize(struct emu_cq *cq, uint32_t cqe);
int emu_cq_destroy(struct emu_cq *cq);
uint32_t emu_cq_cqe(const struct emu_cq *cq);
/* The number that records have for it */
uint32_t emu_cq_num(const struct emu_cq *cq);
struct emu_ring_info emu_cq_ring(const struct emu_cq *cq);
/*
 * vendor_err of a completion whose QP was reset since: to be dropped by who polls, as hardware
 * drivers drop such completions from the CQ (IBTA 10.3.1.1 leaves both to them)
 */
#define EMU_WC_FORGOTTEN 0x55525845u
/*
 * Ask for an event at the next completion; those that are there do not count. "Solicited only"
 * does not weaken an arming for any completion (rxe_req_notify_cq()).
 */
void emu_cq_arm(struct emu_cq *cq, bool solicited_only);

/*
 * emu_cq_watch - from now on who polls counts in the recorder's object, which is returned, and
 * which names @app as the program's
 */
struct trace_object *emu_cq_watch(struct emu_cq *cq, uint64_t app);

/* --- SRQ, XRCD -------------------------------------------------------------------- */

int emu_xrcd_create(struct emu_hca *hca, struct emu_xrcd **out);
int emu_xrcd_destroy(struct emu_xrcd *xrcd);

/* @xrcd, @cq: for an XRC SRQ, else NULL. @attr is updated with what was given. */
int emu_srq_create(struct emu_pd *pd, void *owner, void *cookie,
		   struct ibv_srq_attr *attr, struct emu_xrcd *xrcd, struct emu_cq *cq,
		   struct emu_srq **out);
int emu_srq_modify(struct emu_srq *srq, const struct ibv_srq_attr *attr, int mask);
void emu_srq_query(const struct emu_srq *srq, struct ibv_srq_attr *attr);
/* The limit is reached, if one is armed: the event that hardware gives once */
void emu_srq_limit_reached(struct emu_srq *srq);
int emu_srq_destroy(struct emu_srq *srq);
uint32_t emu_srq_num(const struct emu_srq *srq);
struct emu_ring_info emu_srq_ring(const struct emu_srq *srq);

/* --- QP --------------------------------------------------------------------------- */

/*
 * struct emu_qp_init - ib_qp_init_attr
 * @type:	IBV_QPT_RC, UC, UD, XRC_SEND, XRC_RECV
 * @pd:		NULL for XRC_RECV
 * @cap:	asked for; updated with what was given
 */
struct emu_qp_init {
	enum ibv_qp_type type;
	struct emu_pd *pd;
	struct emu_cq *send_cq, *recv_cq;
	struct emu_srq *srq;
	struct emu_xrcd *xrcd;
	struct ibv_qp_cap cap;
	bool sq_sig_all;
	void *owner, *cookie;
};
int emu_qp_create(struct emu_hca *hca, struct emu_qp_init *init, struct emu_qp **out);
int emu_qp_destroy(struct emu_qp *qp);
uint32_t emu_qp_num(const struct emu_qp *qp);
struct emu_ring_info emu_qp_sq_ring(const struct emu_qp *qp);
struct emu_ring_info emu_qp_rq_ring(const struct emu_qp *qp); /* size 0 with an SRQ */
/*
 * emu_qp_modify - the table of ib_modify_qp_is_ok(), the checks of rxe_qp_chk_attr(); @attr and
 * @mask as in ibv_modify_qp(3). AH attributes carry the GID index and the DGID.
 */
int emu_qp_modify(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask);
/* The caller refuses it himself, because of @err: for the records */
void emu_qp_refused(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask, int err);
void emu_qp_query(const struct emu_qp *qp, struct ibv_qp_attr *attr,
		  struct ibv_qp_init_attr *init);
/*
 * The application moved the send ring's producer index. 0; -EINVAL before the QP can send: then
 * what was posted is dropped, and will not be sent later.
 */
int emu_qp_doorbell(struct emu_qp *qp);
/*
 * Receive requests are posted without a doorbell. Who saw that some were posted tells it here, so that
 * records have them at their time; nobody must.
 */
void emu_qp_receives_posted(struct emu_qp *qp);
void emu_srq_receives_posted(struct emu_srq *srq);
/*
 * emu_hca_look - show others which receive requests wait: of some queues. True: others are left for the
 * next time
 */
bool emu_hca_look(struct emu_hca *hca);
/*
 * struct emu_posted - a request that ibv_post_send(3) did not take, because of @err (positive):
 * it never came to the ring, or not to the doorbell
 */
struct emu_posted {
	uint64_t wr_id;
	uint32_t num_sge, length;
	bool is_inline;
};
void emu_qp_post_failed(struct emu_qp *qp, const struct emu_posted *p, int err);
int emu_qp_attach_mcast(struct emu_qp *qp, const struct net_ip *group);
int emu_qp_detach_mcast(struct emu_qp *qp, const struct net_ip *group);
/* Leave all groups: emu_qp_destroy() returns -EBUSY while there are any (IBTA o10-2.2.3). */
void emu_qp_detach_all_mcast(struct emu_qp *qp);

/* --- AH --------------------------------------------------------------------------- */

int emu_ah_create(struct emu_pd *pd, const struct ibv_ah_attr *attr, struct emu_ah **out);
int emu_ah_destroy(struct emu_ah *ah);
uint32_t emu_ah_num(const struct emu_ah *ah);

/*
 * emu_note_unacked - the object was destroyed while the program had not acknowledged so many
 * completion and asynchronous events of it: its call waits for that
 */
void emu_note_unacked(struct emu_hca *hca, enum trace_object_kind object, uint32_t id,
		      uint32_t comp, uint32_t async);

/* --- counters --------------------------------------------------------------------- */

/* Names and values of hw_counters, as rdma_rxe has them; the number of them. */
size_t emu_hw_counters(const struct emu_hca *hca, const char *const **names,
		       const uint64_t **values);

#endif
