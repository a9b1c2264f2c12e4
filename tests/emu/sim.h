/*
 * sim.h - the deterministic simulator of the emulated HCA.
 *
 * A world has two or three HCAs, each over a simulated operating system (sim_mem.c),
 * joined by a simulated network with a virtual clock (sim_world.c). A scenario
 * (sim_gen_*.c) is a random program of verbs on QPs of one kind; the model (sim_model.c)
 * says what completions, memory and events must be. All of it is a pure function of
 * (kind, seed): one PRNG draws everything, and no wall clock, thread or address space
 * layout enters.
 *
 * The simulator uses the public interfaces only: emu/hca.h, odp/odp.h, net/rocev2.h and
 * the rings of <rdma/rdma_user_rxe.h>, where it posts as librxe does.
 */
#ifndef URXE_TESTS_SIM_H
#define URXE_TESTS_SIM_H

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "emu/hca.h"
#include "net/rocev2.h"
#include "odp/odp.h"

#define SIM_HOSTS      3
#define SIM_PAGE       4096u
#define SIM_ARENA_LEN  (512u * 1024)
#define SIM_SRC_LEN    (64u * 1024) /* head of each arena: constant, sources of data */
#define SIM_PAGES      (SIM_ARENA_LEN / SIM_PAGE)
#define SIM_PKT_MAX    4608u
#define SIM_QPS	       8  /* per world */
#define SIM_OPS	       48 /* per QP */
#define SIM_RECVS      64 /* per QP or SRQ */
#define SIM_SGES       4
#define SIM_MWS	       4 /* per host */
#define SIM_JOBS       64
#define SIM_INLINE_MAX 128
#define US	       1000ull
#define MS	       1000000ull

/*
 * Opcodes and flags that older <infiniband/verbs.h> lack (ib_user_verbs.h of Linux 6.x)
 */
#define SIM_WR_FLUSH	    14
#define SIM_WR_ATOMIC_WRITE 15
#define SIM_WC_FLUSH	    8
#define SIM_ACCESS_FLUSH    (3u << 8) /* IB_ACCESS_FLUSH_GLOBAL, _PERSISTENT */

/* --- random numbers: xoshiro256** (Blackman, Vigna), seeded by splitmix64 --------- */

struct sim_rng {
	uint64_t s[4];
};

void sim_rng_seed(struct sim_rng *r, uint64_t seed);
uint64_t sim_rand(struct sim_rng *r);

/* 0..n-1 */
static inline uint32_t sim_below(struct sim_rng *r, uint32_t n)
{
	return (uint32_t)(((sim_rand(r) >> 32) * (uint64_t)n) >> 32);
}

static inline uint32_t sim_range(struct sim_rng *r, uint32_t lo, uint32_t hi)
{
	return lo + sim_below(r, hi - lo + 1);
}

/* True @permille times of 1000 */
static inline bool sim_chance(struct sim_rng *r, uint32_t permille)
{
	return sim_below(r, 1000) < permille;
}

/* --- kinds of scenarios ----------------------------------------------------------- */

enum sim_kind {
	SIM_RC,	     /* all operations, hostile network, nothing may fail */
	SIM_UC,	     /* at most once, whole or not at all */
	SIM_UD,	     /* the same, and multicast */
	SIM_XRC,     /* RC with a receive queue for each message to choose */
	SIM_SRQ,     /* RC with shared receive queues */
	SIM_ODP,     /* RC over memory that faults and is invalidated at any access */
	SIM_VANISH,  /* RC over memory that goes away for good */
	SIM_ERROR,   /* RC with one operation that must fail in one known way */
	SIM_SQE,     /* UC: an error stops sending only, and is overcome */
	SIM_RECOVER, /* one packet is lost: it is made up for without a timeout */
	SIM_RETRY,   /* a peer that is not there: RETRY_EXC */
	SIM_RNR,     /* a receive WQE that never comes: RNR_RETRY_EXC */
	SIM_MW,	     /* memory windows: bind, use, invalidate */
	SIM_ATOMIC,  /* several QPs on the same words */
	SIM_SQD,     /* drained and resumed */
	SIM_KILL,    /* QPs reset, errored, destroyed in mid-flight */
	SIM_STALL,   /* page faults that never end: those of others go on */
	SIM_CQ,	     /* overrun, resize, events */
	SIM_PEER,    /* RC and UD: a peer that sends any packet at any time */
	SIM_GARBAGE, /* mutated packets straight into the HCA */
	SIM_WQE,     /* rings full of random bytes */
	SIM_VERBS,   /* random verbs with random arguments */
	SIM_KINDS,
};

const char *sim_kind_name(enum sim_kind kind);
/* -1 if there is none of that name */
int sim_kind_by_name(const char *name);

static inline bool sim_is_xrc(enum ibv_qp_type t)
{
	return t == IBV_QPT_XRC_SEND || t == IBV_QPT_XRC_RECV;
}

static inline bool sim_is_reliable(enum ibv_qp_type t)
{
	return t == IBV_QPT_RC || sim_is_xrc(t);
}

/* --- the world -------------------------------------------------------------------- */

struct sim_world;
struct sim_host;
struct sim_qp;
struct sim_wire;

enum sim_arena_kind { SIM_PINNED, SIM_ONDEMAND, SIM_ARENAS };

/*
 * struct sim_arena - one stretch of application memory
 * @base:	the memory that the HCA sees; @shadow: what it must be
 * @used:	bump allocator of target regions; starts behind the sources
 * @page:	SIM_PG_*
 */
struct sim_arena {
	uint8_t *base, *shadow;
	uint32_t used;
	uint8_t page[SIM_PAGES];
};

enum {
	SIM_PG_MAPPED = 1,
	SIM_PG_WRITABLE = 2,
	SIM_PG_READ_OK = 4, /* populated since the last invalidation */
	SIM_PG_WRITE_OK = 8,
	SIM_PG_SILENT = 16, /* lost without an event (mprotect, swap) */
	SIM_PG_WATCHED = 32,
	SIM_PG_LAX = 64, /* was lost silently: other MRs may still trust old entries */
};

/* What the simulated OS may do, in permille per call */
struct sim_mem_cfg {
	uint32_t race;	   /* invalidate inside populate */
	uint32_t mid_copy; /* invalidate inside copy */
	uint32_t silent;   /* lose a page without an event before a copy */
	uint32_t slow;	   /* have somebody waited for before pages can be had */
	uint64_t fetch;	   /* ns that this takes at most */
};

struct sim_net_cfg {
	uint32_t spoof; /* permille of packets also sent in a false name */
	uint32_t loss, dup, reorder, corrupt, tx_full; /* permille */
	uint64_t delay, jitter, late;		       /* ns; @late: reordered packets */
	uint32_t budget; /* disturbances that one PSN of one direction suffers at most */
};

/*
 * struct sim_mr - @delta: HCA address minus process address
 */
struct sim_mr {
	struct emu_mr *mr;
	enum sim_arena_kind arena;
	uint32_t off, len;
	uint64_t delta;
	int access;
	uint32_t lkey, rkey;
};

/* The MRs that every host has */
enum {
	SIM_MR_PIN,	 /* the pinned arena, every right */
	SIM_MR_PIN_IOVA, /* the same, at another address */
	SIM_MR_ODP,
	SIM_MR_ODP_IOVA,
	SIM_MR_IMPLICIT,
	SIM_MR_LOCAL,  /* pinned, no remote right */
	SIM_MR_RREAD,  /* pinned, remote read only */
	SIM_MR_RWRITE, /* pinned, local and remote write only: no atomics */
	SIM_MR_RDONLY, /* pinned, not even local write */
	SIM_MR_PD2,    /* pinned, every right, another PD */
	SIM_MRS,
};

struct sim_mw {
	struct emu_mw *mw;
	enum ibv_mw_type type;
	int mr;		   /* index of the MR it is bound to */
	uint32_t off, len; /* in its arena */
	uint32_t rkey;	   /* after the bind */
	bool bound;
};

struct sim_cq {
	struct sim_host *host;
	struct emu_cq *cq;
	struct rxe_queue_buf *ring;
	uint32_t events, armed;
	uint64_t polled;
	bool dead; /* CQ_ERR was raised */
	bool hold; /* the application does not poll */
	bool solicited_only;
	uint64_t solicited; /* completions that count for that */
};

#define SIM_TAG_SEND 0x5e00u /* bits 48.. of a wr_id; 32..47: QP, 0..31: index */
#define SIM_TAG_RECV 0x4c00u
#define SIM_TAG_SRQ  0x5400u

/* --- operations ------------------------------------------------------------------- */

/*
 * struct sim_sge - @addr, @lkey: as posted; the rest is for the model
 */
struct sim_sge {
	enum sim_arena_kind arena;
	uint32_t off, len;
	uint64_t addr;
	uint32_t lkey;
};

enum sim_op_state { SIM_OP_NEW, SIM_OP_POSTED, SIM_OP_OK, SIM_OP_FAILED };

/*
 * struct sim_op - one send WQE
 * @must:	0, or the mask of statuses of which it must have one (bit: enum
 * ibv_wc_status)
 * @rarena, @roff: what @va names on the peer, for the model
 * @shared:	index of a shared counter, or -1
 * @rewritten:	a later operation writes the same bytes
 * @delivered:	how many receive completions it made
 */
struct sim_op {
	uint32_t opcode, flags;
	uint64_t wr_id;
	uint32_t len;
	uint32_t nsge;
	struct sim_sge sge[SIM_SGES];
	uint8_t inl[SIM_INLINE_MAX];
	enum sim_arena_kind rarena;
	uint32_t roff;
	uint64_t va;
	uint32_t rkey;
	uint32_t ex; /* immediate data or R_Key to invalidate */
	uint64_t compare_add, swap;
	struct { /* BIND_MW */
		uint64_t addr, length;
		uint32_t mr_lkey, mw_rkey, rkey, access;
	} mw;
	struct { /* UD */
		struct emu_ah *ah;
		uint32_t qpn, qkey;
	} ud;
	struct sim_qp *to;    /* UD, unicast */
	struct sim_srq *xsrq; /* XRC */
	uint32_t must;
	int shared;
	bool rewritten;
	bool undeliverable; /* UD: wrong Q_Key */
	enum sim_op_state state;
	uint32_t status;
	uint32_t delivered;
};

struct sim_recv {
	uint64_t wr_id;
	uint32_t len, nsge;
	struct sim_sge sge[SIM_SGES];
	bool posted, done;
	uint32_t status;
	uint32_t must; /* as in struct sim_op */
};

/* A receive queue: of a QP, or shared */
struct sim_rq {
	struct rxe_queue_buf *ring;
	struct sim_recv recv[SIM_RECVS];
	uint32_t n, next,
	    credit; /* @next to post; @credit: how many may be posted by now */
	uint32_t done;
	uint32_t max_sge;
};

struct sim_srq {
	struct sim_host *host;
	uint32_t id, num;
	struct sim_cq *cq; /* XRC */
	struct emu_srq *srq;
	struct sim_rq rq;
	uint32_t limit_events;
};

/*
 * struct sim_qp
 * @op, @n:	its program; @next to post; @seen: first that no completion has passed
 * @rwr:	ops of @peer (indices) that take a receive WQE, in order; @rwr_next: the
 *		next
 * @may:	statuses with which any op may fail, besides what the ops say themselves;
 *		@may_recv: the same of its receive WQEs
 * @may_flush:	the QP may be errored by its responder, by its peer or by the program
 * @errored:	an error was seen on its send queue
 * @lost:	the QP was reset or destroyed: nothing more is expected of it
 */
struct sim_qp {
	struct sim_host *host;
	uint32_t id;
	struct emu_qp *qp;
	uint32_t qpn;
	enum ibv_qp_type type;
	struct sim_qp *peer;
	struct sim_cq *scq, *rcq;
	struct sim_srq *srq;
	struct rxe_queue_buf *sq;
	struct sim_rq rq;
	uint32_t max_sge, max_inline;
	bool sig_all;
	uint32_t mtu;
	uint32_t sq_psn, rq_psn;
	uint32_t rd_atomic;
	uint8_t timeout, retry_cnt, rnr_retry, rnr_timer;
	uint32_t qkey;

	struct sim_op op[SIM_OPS];
	uint32_t n, next, credit, seen;
	uint32_t rwr[SIM_OPS], rwr_n, rwr_next;
	uint32_t ssn;

	uint32_t may, may_recv;
	bool may_flush, errored, lost;
	struct sim_wire *wire;
	uint64_t error_at, done_at; /* the first error, the last completion */
	uint32_t error_status;
	bool recv_error; /* a receive WQE completed in error, not flushed */
	uint32_t flushed, received;
	void (*on_drained)(struct sim_qp *q);
	uint32_t drains;
	bool stay_rtr;	     /* it only listens */
	bool heard;	     /* a request of its peer arrived */
	bool foreign;	     /* its peer is no HCA: sim_peer.c has its model */
	bool errored_once;   /* its send queue was in error, and is no more */
	bool resting;	     /* SQ_DRAINED was told */
	bool attached;	     /* to the multicast group */
	uint32_t events[32]; /* by enum ibv_event_type */
};

/*
 * struct sim_host - one HCA, its process and its operating system
 */
struct sim_host {
	struct sim_world *w;
	uint32_t id;
	struct net_ip ip;
	struct emu_hca *hca;
	struct odp_domain *dom;
	struct recorder *rec;
	struct sim_arena arena[SIM_ARENAS];
	struct emu_pd *pd, *pd2;
	struct sim_mr mr[SIM_MRS];
	struct sim_mw mw[SIM_MWS];
	uint32_t mws;
	struct sim_cq cq[2];
	uint32_t cqs;
	struct sim_srq srq[2]; /* the second for XRC only */
	uint32_t srqs;
	struct emu_xrcd *xrcd;
	struct emu_ah *ah[SIM_HOSTS + 1]; /* to each host, and to the group */
	uint32_t qpn_next;
	uint32_t groups; /* times joined minus left */

	uint8_t tx[SIM_PKT_MAX];
	struct net_path tx_path;
	uint32_t tx_len;
	bool tx_open, tx_blocked;
	uint64_t deadline;
	uint64_t same_time; /* runs without progress of time */

	int64_t rings, ring_bytes;
	uint32_t watches; /* pages under watch() */
	uint64_t port_events;
	uint64_t sent, arrived; /* packets */
	uint64_t mads, mad_sum; /* what QP1 got */
	bool no_watch;		/* watch() is refused */
	uint32_t races;		/* in a row */
	/* faults that somebody is being waited for; pages from this one on: for ever */
	struct odp_job *job[SIM_JOBS];
	uint32_t jobs, never_from;
	bool stuck; /* the fault that was asked about last is such a one */
	bool told;  /* of a fault that is over */
};

struct sim_ev;

/*
 * struct sim_world
 * @trace:	where lines go (NULL: nowhere)
 * @fail:	the first thing that went wrong
 */
struct sim_world {
	enum sim_kind kind;
	uint64_t seed;
	struct sim_rng rng;
	uint64_t now;
	struct sim_net_cfg net;
	struct sim_mem_cfg mem;
	struct odp_config odp;
	uint32_t nhosts;
	struct sim_host host[SIM_HOSTS];
	struct sim_qp *qp; /* SIM_QPS of them */
	uint32_t nqps;
	struct net_ip group;

	struct {
		enum sim_arena_kind arena;
		uint32_t host, off;
		uint64_t start, adds, ops;
		uint64_t bits; /* which results were seen, up to 64 */
	} shared[2];
	uint32_t nshared;

	struct sim_ev *ev;
	uint32_t nev, cap_ev;
	uint64_t ev_seq;
	uint8_t *disturbed; /* hash of (QPN, PSN, direction) -> disturbances */

	uint64_t runs; /* calls of emu_hca_run() */
	uint64_t pkts, lost, duped, injected, wcs, ops_ok, faults_seen;
	uint32_t cqe; /* of the hosts' CQs */
	bool judged;  /* the scenario was run to its end (not drawn too large to fit) */
	bool pinned_only; /* programs are drawn that touch no on-demand memory */
	bool slow_faults; /* page faults take time, but nothing else is wrong with memory
			   */
	bool no_resend;	  /* nothing is lost and nobody is late */
	uint64_t drop_nr; /* the packet of this number is lost, 0: none */
	uint64_t swap_nr; /* the packet of this number comes behind its followers */
	uint64_t dropped_at, followed_at; /* it, and the next one of its sender */
	struct sim_host *dropped_from;
	uint64_t resent;    /* requests sent again */
	bool anything_goes; /* the model has no opinion */
	void (*mutate)(struct sim_host *dst, struct net_path *path, uint8_t *data,
		       uint32_t *len);

	void (*trace)(void *arg, const char *line);
	void *trace_arg;
	bool failed;
	char fail[512];
};

/* sim_world.c: clock, network, trace */
void sim_world_init(struct sim_world *w, enum sim_kind kind, uint64_t seed);
/* Each host writes a trace hN.trace there; NULL: none does */
extern const char *sim_record_dir;
/* Rules of inject/ for each scenario: of packets, of accesses, faults and completions; checked before */
extern const char *sim_inject_rules;
int sim_hosts_create(struct sim_world *w);
void sim_hosts_destroy(struct sim_world *w);
void sim_world_fini(struct sim_world *w);
/* Run until nothing is left to do, or @until; false if the world did not come to rest */
bool sim_run(struct sim_world *w, uint64_t until);
/* Call @fn at @at */
void sim_at(struct sim_world *w, uint64_t at,
	    void (*fn)(struct sim_world *, void *, uint64_t), void *arg, uint64_t val);
/* Let the host's HCA work now and its application poll */
void sim_host_work(struct sim_host *h);
/* The operation of a packet, for the trace */
const char *sim_op_name(uint8_t opcode);
void sim_trace(struct sim_world *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void sim_fail(struct sim_world *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
#define sim_tracing(w) ((w)->trace != NULL)

/* sim_mem.c: application memory and the operating system under it */
extern const struct odp_os sim_os;
/* Faults that somebody is waited for end now, all of them, in any order */
void sim_jobs_finish(struct sim_host *h);
int sim_mem_init(struct sim_host *h);
void sim_mem_reset(struct sim_host *h);
/* A fresh target region; @align: power of two. SIM_ARENA_LEN when there is no room */
uint32_t sim_mem_alloc(struct sim_host *h, enum sim_arena_kind a, uint32_t len,
		       uint32_t align);
uint32_t sim_mem_room(const struct sim_host *h, enum sim_arena_kind a);
static inline uintptr_t sim_addr(const struct sim_host *h, enum sim_arena_kind a,
				 uint32_t off)
{
	return (uintptr_t)h->arena[a].base + off;
}
/* Move the pages of a range: contents stay, translations are gone */
void sim_mem_move(struct sim_host *h, uint32_t off, uint32_t len);
/* Unmap the pages of a range for good */
void sim_mem_unmap(struct sim_host *h, enum sim_arena_kind a, uint32_t off, uint32_t len);
/* munmap, mprotect(PROT_READ): no event for the latter */
void sim_mem_protect(struct sim_host *h, enum sim_arena_kind a, uint32_t off,
		     uint32_t len);
/* Take what is there as right (the outcome is open) */
void sim_mem_forgive(struct sim_host *h, enum sim_arena_kind a, uint32_t off,
		     uint32_t len);
void sim_mem_check(struct sim_host *h);

/* sim_verbs.c: objects, posting, polling */
int sim_cq_create(struct sim_host *h, struct sim_cq *cq, uint32_t cqe);
int sim_cq_resize(struct sim_cq *cq, uint32_t cqe);
int sim_mrs_create(struct sim_host *h);
int sim_srq_create(struct sim_host *h, uint32_t wr, uint32_t sge, struct sim_cq *xrc_cq);
int sim_qp_create(struct sim_host *h, struct sim_qp *q, uint32_t send_wr,
		  uint32_t recv_wr);
int sim_qp_connect(struct sim_qp *q); /* to @q->peer; RESET to RTS */
int sim_qp_state(struct sim_qp *q, enum ibv_qp_state state);
/* Post what the credits allow */
bool sim_qp_push(struct sim_qp *q);
void sim_rq_push(struct sim_rq *rq);
void sim_poll(struct sim_cq *cq);
void sim_objects_destroy(struct sim_host *h);
void sim_qp_destroy(struct sim_qp *q);

/* sim_wire.c: conformance of what is sent */
void sim_wire_reset(struct sim_qp *q);
/* IBTA table 45 */
uint64_t sim_rnr_ns(uint8_t code);
void sim_wire_sent(struct sim_host *h, const uint8_t *data, uint32_t len);
void sim_wire_arrived(struct sim_world *w, const uint8_t *data, uint32_t len);

/* sim_gen_ops.c, sim_program.c, sim_kinds.c: scenarios */
void sim_program_print(struct sim_world *w);
bool sim_takes_recv(uint32_t opcode);

/* sim_model.c: what must be */
void sim_model_wc(struct sim_cq *cq, const struct ib_uverbs_wc *wc);
void sim_model_event(struct sim_host *h, enum ibv_event_type type, void *cookie);
/* Everything is quiet: @q, of which nothing may have failed, has completed its program */
void sim_model_settle(struct sim_qp *q);
bool sim_clean(const struct sim_world *w);
void sim_model_end(struct sim_world *w);
void sim_sge_gather(const struct sim_host *h, const struct sim_sge *sge, uint32_t n,
		    uint8_t *out);

/* sim_peer.c */
void sim_peer(struct sim_world *w);
/* True: the packet is for the lawless peer, and goes no further */
bool sim_peer_takes(struct sim_host *from, const uint8_t *data, uint32_t len);
/* A completion of a QP that is foreign */
void sim_peer_wc(struct sim_qp *q, const struct ib_uverbs_wc *wc);

/* sim_fuzz.c */
void sim_fuzz_wire(struct sim_world *w);
void sim_fuzz_rings(struct sim_world *w);
/* sim_fuzz_verbs.c */
void sim_fuzz_verbs(struct sim_world *w);

/*
 * sim_one - run one scenario
 * @trace:	called with each line of the ladder, or NULL
 *
 * True if it went as it must; else @why says what did not.
 */
struct sim_stats {
	uint64_t scenarios, judged, runs, packets, lost, injected, completions, faults;
};
bool sim_one(enum sim_kind kind, uint64_t seed, void (*trace)(void *, const char *),
	     void *arg, char *why, size_t why_len, struct sim_stats *stats);
/*
 * sim_many - @n seeds from @start; the first failure is printed to stderr with its ladder
 */
bool sim_many(enum sim_kind kind, uint64_t start, uint64_t n, struct sim_stats *stats);

#endif
