/*
 * check.h - inside of the checker: what its files have of each other.
 *
 * Theory of operation
 *
 * The checker keeps its own picture of the program's objects (objects.c) and of the requests that
 * are outstanding (requests.c), by the rules of verbs and not by what this device happens to
 * do: a request is outstanding until its completion, or a later one of its send queue, was
 * polled. Objects it knows from the records of the HCA, requests from the operations of
 * the contexts, which it wraps (verbs.c), memory from free(3) and the calls that the
 * library interposes (memory.c). What is wrong goes to findings.c, with the call stacks of
 * stacks.c.
 *
 * Locks: one for all (check_lock()). The engine's lock may be held when it is taken, since
 * records come with it; nothing that takes the engine's lock is called with it.
 * A thread that has it is marked, so that free(3) of a function of libc that the checker
 * uses does not come back to it.
 */
#ifndef URXE_CHECK_CHECK_H
#define URXE_CHECK_CHECK_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "check/ids.h"
#include "trace/names.h"
#include "verbs/engine/checker.h"
#include "verbs/preload/checker_face.h"

/* --- start.c ---------------------------------------------------------------------- */

/* Is the class of @id asked for? */
bool check_wants(enum check_id id);
/* False: this thread has it already */
bool check_lock(void);
void check_unlock(void);
/* CLOCK_MONOTONIC, ns: the time of records */
uint64_t check_now(void);

/* --- stacks.c --------------------------------------------------------------------- */

#define CHECK_FRAMES 24

/* struct check_stack - return addresses, the innermost first; kept for ever, once for each */
struct check_stack {
	struct check_stack *next;
	uint64_t hash;
	unsigned int n;
	void *pc[CHECK_FRAMES];
};

/* The stack of this thread, and a place alone; NULL without memory. With the lock */
const struct check_stack *check_stack_at(void *pc);
const struct check_stack *check_stack(void);

/* --- findings.c ------------------------------------------------------------------- */

/*
 * struct check_with - a stack that explains a finding
 * @what:	"registered", "posted"
 */
struct check_with {
	const char *what;
	const struct check_stack *stack;
};

/*
 * check_report - a finding, counted only if its stack (@with[0], or the first there is) had it
 * before. @n of @with; the text names the objects. With the lock
 */
__attribute__((format(printf, 4, 5))) void check_report(enum check_id id,
							const struct check_with *with,
							unsigned int n, const char *fmt,
							...);
/* The file that @pc is in; NULL: none, or the program itself */
const char *check_file_of(void *pc);
/* The program knows that @id will be found; false: there is no such identifier */
bool check_expect(const char *id);
/* How often each was found */
void check_findings_at_exit(void);
/* In a child of fork: its own are to come */
void check_forget_findings(void);
/* A finding about @len bytes at @addr is not wanted */
bool check_ignored(uint64_t addr, uint64_t len);
void check_ignore(uint64_t addr, uint64_t len);

/* --- ranges.c --------------------------------------------------------------------- */

struct check_request;
struct check_piece;
struct check_target;

/*
 * struct check_use - memory that an outstanding request uses
 * @lkey:	of its region; @writes: the HCA writes there; @shared: also for another reason
 * @hash:	CRC of what it had when it was posted, if @hashed
 * @on_stack:	in the stack of a thread (frames.c)
 * @next, @prev: of all; @piece: places in the index
 */
struct check_use {
	uint64_t addr, len;
	uint32_t lkey;
	bool writes, hashed, shared, on_stack;
	uint32_t hash;
	struct check_request *request;
	struct check_use *next, *prev;
	struct check_piece *piece;
};

/* False: no memory, it is not known then */
bool check_use_add(struct check_use *u);
void check_use_del(struct check_use *u);
/* In a child of fork */
void check_forget_uses(void);
/* Is anything in use? Without the lock */
bool check_uses_any(void);
/* Each use that overlaps, at least once, until @fn returns true; and of those that the HCA writes to */
bool check_uses_in(uint64_t addr, uint64_t len,
		   bool (*fn)(struct check_use *u, void *arg), void *arg);
bool check_writes_in(uint64_t addr, uint64_t len,
		     bool (*fn)(struct check_use *u, void *arg), void *arg);

/* --- objects.c -------------------------------------------------------------------- */

/* struct check_span - addresses from @begin up to @end; 0: none */
struct check_span {
	uint64_t begin, end;
};

/* What memory has become under a region */
enum check_fate { CHECK_KEPT, CHECK_REMAPPED, CHECK_DISCARDED };

/*
 * struct check_queue - requests that are outstanding, the oldest first
 * @untaken:	the first receive that no message has taken
 * @unsignaled:	how many make no completion
 */
struct check_queue {
	struct check_request *first, *last, *untaken;
	unsigned int n, unsignaled;
};

/*
 * struct check_object - an object of the program
 * @prefetching: it was advised, and is not done, of @ahead_len bytes at @ahead_addr
 * @fetched:	by prefetches; @reach: of requests and peers
 * @made:	where; @ended: where it was destroyed
 * @told:	of its leak; @queued: to be forgotten
 * @users:	of a CQ: QPs; @pd: of an MR, QP, SRQ or AH
 */
struct check_object {
	enum trace_object_kind kind;
	uint32_t id, pd;
	uint16_t device;
	bool gone, told, queued;
	const struct check_stack *made, *ended;
	struct check_object *next;
	union {
		struct {
			uint64_t addr, length, iova;
			uint32_t access;
			enum check_fate fate;
			uint64_t fate_addr, fate_len;
			const struct check_stack *fate_at;
			bool used, remote_used;
			const struct check_stack *prefetched;
			const struct check_stack *prefetching;
			uint64_t ahead_addr, ahead_len;
			struct check_span fetched, reach;
		} mr;
		struct {
			struct check_object *send_cq, *recv_cq, *srq;
			enum ibv_qp_type type;
			enum ibv_qp_state state;
			bool sig_all, opaque;
			bool
			    held; /* a message has a receive request, and is not complete */
			uint32_t max_send;
			struct check_queue sq, rq;
			uint32_t
			    taken; /* receives that messages have taken and nobody polled */
			const struct check_stack *failed_at; /* an error was polled */
			enum ibv_wc_status failed;
			uint64_t rnr_since;
			unsigned int rnrs;
			uint8_t timeout, retries, rnr_retry;
			uint64_t peer_late_since; /* it has no receive request */
			uint64_t va;		  /* the peer's last request */
			uint32_t rkey, length;
			uint8_t opcode, last; /* and its last packet */
			uint32_t psn; /* of the newest that changes memory, if any_psn */
			bool any_psn;
			struct check_span told; /* beside a message, of @told_mr */
			const struct check_object *told_mr;
			uint32_t peer; /* the QPN of the other end */
			struct trace_ip at;
		} qp;
		struct {
			struct ibv_cq *app;
			uint32_t size, pending;
			uint64_t produced, polled;
			unsigned int events, acked;
			bool armed_full;
			const struct check_stack *armed;
		} cq;
		struct {
			struct ibv_srq *app;
			struct check_object *cq; /* of all its QPs, if it is one */
			bool mixed, xrc;
			unsigned int users; /* QPs */
			struct check_queue rq;
			uint32_t taken;
			uint64_t rnr_since;
			unsigned int rnrs;
		} srq;
	};
};

/* The numbers of objects are those of this device from here on; with the lock */
void check_device(uint16_t of);
struct check_object *check_find(enum trace_object_kind kind, uint32_t id);
struct check_object *check_cq(struct ibv_cq *cq);
struct check_object *check_srq(struct ibv_srq *srq);
/* A record; with the lock */
void check_record(uint16_t of, uint64_t now, enum trace_kind kind,
		  const uint64_t *payload);
/* What of the whole is left, when it ends; with the lock */
void check_leaks_at_exit(void);
/* Of the device */
void check_leaks_at_close(const struct check_stack *here);
/* The program has changed this memory */
void check_memory_changed(enum checker_change what, uint64_t addr, uint64_t len);
/* The program is about to fork; and in the child */
void check_fork(void);
void check_forget_objects(void);
/* A registration uses @len bytes at @addr of its memory, which is still what was pinned, or not */
void check_fate(struct check_object *mr, uint64_t addr, uint64_t len,
		const struct check_with *by);
const char *check_object_name(const struct check_object *o, char buf[64]);

/* --- requests.c ------------------------------------------------------------------- */

/*
 * struct check_request - one that is outstanding
 * @in_error:	posted to a QP in ERR
 * @taken_at:	when a message took it, 0 before; @touched: its content was changed until then
 * @target:	what it writes to of a peer's memory (targets.c), or NULL
 */
struct check_request {
	struct check_request *next;
	struct check_object *qp; /* or the SRQ */
	uint64_t wr_id;
	const struct check_stack *posted;
	enum ibv_wr_opcode opcode;
	bool receive, signaled, in_error, touched;
	uint64_t taken_at;
	struct check_target *target;
	unsigned int n_uses;
	struct check_use *use;
};

/* The program posts; before it does, and when it has failed (the last @n of the posts) */
void check_post_send(struct check_object *qp, const struct ibv_send_wr *wr);
void check_post_recv(struct check_object *q, const struct ibv_recv_wr *wr);
void check_post_failed(struct check_object *q, bool receive, unsigned int n);
/* It has polled this */
void check_polled(struct check_object *cq, const struct ibv_wc *wc);
/* A message takes the next receive request of @o */
void check_taken(struct check_object *o, uint64_t wr_id);
/* All are forgotten: the queue is reset or gone */
void check_drop(struct check_object *q);
/* Nobody else has the memory of @u, as far as is known */
bool check_is_alone(const struct check_use *u);
/* Has @u, which is hashed, another content than when it was posted? */
bool check_is_changed(const struct check_use *u);
/* May the HCA still touch its memory? */
bool check_is_active(const struct check_request *r);
/* Which use is it: "SEND wr_id 0x1 of QP 17" */
const char *check_request_name(const struct check_request *r, char buf[96]);

/* --- verbs.c ---------------------------------------------------------------------- */

void check_context(struct ibv_context *context);
/* In a child of fork: contexts are the parent's */
void check_forget_contexts(void);

/* --- memory.c --------------------------------------------------------------------- */

/* Memory of the program goes: does a request use it? */
/* struct checker */
void check_memory(enum checker_change what, const void *addr, size_t len);

#endif
