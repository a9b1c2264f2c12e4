/*
 * internal.h - what the files of odp/ share; nobody else includes it.
 *
 * Locks. There is one lock per domain, dom->lock. It covers the registry of MRs, all
 * changes of page tables, faults in flight, pending faults, jobs, waiters and the eviction
 * list; critical sections are short, call nothing of the operating system that could wait,
 * and neither allocate nor free. Accesses that find their pages present take no lock.
 *
 * Invalidations. A caller of munmap(2) cannot wait for that lock: it may be the garbage
 * collector that has stopped the thread which holds it, and the userfaultfd monitor must
 * go on reading, else the whole process stands still. So an invalidation is put into one
 * of a few slots of dom->inval without waiting, and is applied by whoever has the lock
 * first: the caller itself if it is free, else the next who takes it. Nobody believes a
 * page-table entry while inval.state is not zero. When all slots are taken, everything is
 * invalidated.
 *
 * The caller of munmap(2) goes on as soon as the monitor has read its event, before the
 * monitor has put it into a slot. INVAL_READING covers that gap: it is set before the
 * read.
 */
#ifndef URXE_ODP_INTERNAL_H
#define URXE_ODP_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "inject/inject.h"
#include "odp/evict.h"
#include "odp/odp.h"
#include "odp/os_linux.h"
#include "odp/pagetable.h"
#include "odp/prefetch.h"
#include "odp/ranges.h"
#include "odp/script.h"
#include "trace/recorder.h"

/* Explicit MRs above this many pages (16 GiB of 4 KiB) get a sparse table. */
#define ODP_FLAT_MAX_PAGES (1ull << 22)
/* MRs that are gone, kept for the report */
#define ODP_RETIRED 256
/* Deferred faults per MR: room at first, and at most */
#define ODP_PENDING	64u
#define ODP_MAX_PENDING 4096u
/*
 * How often a fault may be overtaken by invalidations before it fails (the kernel's
 * HMM_RANGE_DEFAULT_TIMEOUT is a second; ours must not depend on a clock)
 */
#define ODP_MAX_RETRIES 1000

/* --- invalidations ---------------------------------------------------------------- */

#define INVAL_SLOTS    48
#define INVAL_READING  (1ull << 63) /* the monitor reads: wait */
#define INVAL_APPLYING (1ull << 62) /* the holder of dom->lock applies them */
#define INVAL_ALL      (1ull << 61) /* the slots ran out: everything */
#define INVAL_WORK     (INVAL_ALL | ((1ull << INVAL_SLOTS) - 1))

/*
 * struct inval - invalidations that are not applied yet
 * @state:	bit n: slot n is full; and the flags above
 * @taken:	bit n: slot n belongs to someone
 * @slot:	a range that is gone, and how (enum trace_inval)
 */
struct inval {
	_Atomic uint64_t state;
	_Atomic uint64_t taken;
	struct {
		uintptr_t first, last;
		uint8_t cause;
	} slot[INVAL_SLOTS];
};

/* --- MRs -------------------------------------------------------------------------- */

/*
 * struct inflight - a fault that is being resolved, on the stack of the thread that does
 * it
 * @raced:	an invalidation hit the range meanwhile: do not publish
 */
struct inflight {
	uint64_t first, last; /* pages */
	bool raced;
	struct inflight *next;
};

/*
 * struct pending - a fault that the model defers, or that a job resolves
 * @n:		pages
 * @started:	when it was taken
 * @ready_at:	when it is due; ODP_WHEN_RESOLVED while @job is at work
 * @limit:	it is not put off beyond that
 * @job:	NULL without, and when it is done
 * @ret:		what it came to
 * @again:	it was done, at the time @over if there is a clock
 * @ahead:	no access took it
 */
struct pending {
	uint64_t first, n;
	uint64_t started, ready_at, limit, over;
	struct odp_job *job;
	int ret;
	bool write, again, ahead;
	enum odp_fault_model model;
};

/*
 * struct odp_job - pages that somebody must be waited for, with a reference to the MR
 * @next:	for whoever has it queued (odp_os.defer)
 * @run:	what odp_job_run() is to do, also when it is cancelled; frees it
 * @work:	of @run
 * @first, @n:	pages
 * @cancelled:	the result is not wanted
 * @waiters:	whom to tell
 * @mr_next, @mr_pprev: mr->jobs
 */
struct odp_job {
	struct odp_job *next;
	struct odp_mr *mr;
	void (*run)(struct odp_job *job);
	void *work;
	uint64_t first, n;
	bool write;
	_Atomic bool cancelled;
	struct odp_waiter *waiters;
	struct odp_job *mr_next, **mr_pprev;
};

#define ODP_N_COUNTERS (sizeof(struct odp_counters) / sizeof(uint64_t))

/*
 * struct odp_demand - the on-demand part of an MR
 * @careful:	accesses must take the slow path: eviction list, scripted faults, or injections
 * @watched:	os->watch was called
 * @counter:	struct odp_counters, member by member, in the segment of the recorder
 * @inflight:	under dom->lock
 * @rule:	state of each rule of the domain's script, made at the first access under it;
 *		of the script number @rule_script, see odp_domain.script_no
 * @base:	what @counter was when the program reset it: reports know nothing of that
 */
struct odp_demand {
	struct pagetable pt;
	_Atomic bool careful;
	_Atomic bool watched;
	_Atomic uint8_t model;
	_Atomic uint64_t latency;
	_Atomic uint64_t *counter;
	struct inflight *inflight;
	struct script_state *rule;
	uint64_t rule_script;
	_Atomic uint64_t base[ODP_N_COUNTERS];
};

/*
 * struct odp_mr
 * @refs:	references; @worker_refs of them are the prefetch worker's
 * @prev, @next: all MRs of the domain
 * @range:	in dom->explicit_mrs (bytes, rounded out to pages)
 * @demand:	NULL if pinned
 * @fickle:	see odp_os.fickle: of any page that it had
 * @pending:	under dom->lock; @n_pending and @room_pending: how many there are, and may be
 *		before it is enlarged
 * @pinned:	bytes that count in dom->pinned
 * @jobs:	that are under way or wait for their turn
 * @number:	order of registration
 * @seen:	what the recorder shows of it; its counters are there
 */
struct odp_mr {
	struct odp_domain *dom;
	struct odp_demand *demand;
	struct trace_object *seen;
	uintptr_t addr;
	size_t length;
	uint64_t iova;
	uint64_t pinned;
	_Atomic uint32_t refs, worker_refs;
	uint32_t key, number;
	bool writable, implicit, hugetlb;
	_Atomic bool fickle;
	uint8_t shift;
	char name[32];
	struct odp_mr *prev, *next;
	struct range_node range;
	struct pending *pending;
	_Atomic unsigned int n_pending;
	unsigned int room_pending;
	struct odp_job *jobs;
};

/*
 * struct odp_domain
 * @linux_os:	of the real operating system, else NULL
 * @blind:	see odp_domain_blind()
 * @script:	scripted faults, NULL without; @script_no: how many were there before, 1 for the
 *		first. Under the lock
 * @pinned:	bytes of the pages of pinned MRs; @pin_told: a refusal was explained
 * @explicit_mrs: on-demand MRs by address; @implicit of the MRs are everywhere
 * @n_made:	MRs that there ever were
 * @job_over:	a job ended
 * @resolved:	waiters that odp_resolved() is to give out, @n_resolved of them
 * @told, @told_arg: see odp_domain_tell(); @tell: to be called after the unlock
 * @total:	counters of MRs that are gone
 * @retired:	ring of the last of them, @n_retired ever; @retired_seen: what is shown of
 *		them
 */
struct odp_domain {
	struct inval inval;
	struct lock lock;
	const struct odp_os *os;
	void *os_arg;
	struct os_linux *linux_os;
	struct odp_config cfg;
	uint8_t page_shift, huge_shift;
	_Atomic bool blind;
	struct script *script;
	uint64_t script_no;
	struct evict evict;
	_Atomic uint64_t pinned;
	_Atomic bool pin_told;
	struct ranges explicit_mrs;
	unsigned int implicit;
	struct odp_mr *mrs;
	unsigned int n_mrs;
	uint32_t n_made;
	pthread_cond_t job_over;
	struct odp_waiter *resolved;
	_Atomic unsigned int n_resolved;
	void (*told)(void *arg);
	void *told_arg;
	bool tell;
	struct odp_counters total;
	struct odp_mr_info *retired;
	struct trace_object *retired_seen[ODP_RETIRED];
	uint64_t n_retired;
	struct prefetcher prefetcher;
};

static inline void mr_count(struct odp_mr *mr, size_t member, uint64_t n)
{
	atomic_fetch_add_explicit(&mr->demand->counter[member / sizeof(uint64_t)], n,
				  memory_order_relaxed);
}
#define COUNT(mr, member, n) mr_count(mr, offsetof(struct odp_counters, member), n)

/*
 * The commonest of all events. An atomic addition would make it wait for the stores of the
 * access that it counts; so of hits in two threads at once, one may not be counted.
 */
static inline void mr_count_hit(struct odp_mr *mr)
{
	_Atomic uint64_t *c =
	    &mr->demand->counter[offsetof(struct odp_counters, cache_hits) / sizeof(*c)];

	atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* domain.c */

/* Take the lock, and apply what invalidations there are */
void dom_lock(struct odp_domain *dom);
/* Leave it, and tell of what was resolved meanwhile */
void dom_unlock(struct odp_domain *dom);
/* All invalidations that began before are applied now. Without the lock. */
void dom_settle(struct odp_domain *dom);
static inline bool dom_quiet(const struct odp_domain *dom)
{
	return !atomic_load_explicit(&dom->inval.state, memory_order_acquire);
}

/* Now, for records and odp_counters.fault_ns; 0 where there is no clock */
static inline uint64_t dom_clock(const struct odp_domain *dom)
{
	return dom->os->now ? dom->os->now(dom->os_arg) : 0;
}

/* A record of what happened to @mr, see trace/recorder.h */
#define ODP_TRACE(about, now, name, ...)                                                 \
	TRACE((about)->dom->cfg.recorder, now, name, .mr = (about)->key, __VA_ARGS__)

void dom_register(struct odp_domain *dom, struct odp_mr *mr);
/* With the counters kept for the report */
void dom_unregister(struct odp_domain *dom, struct odp_mr *mr);

/* fault.c */

enum access_kind {
	ACCESS_READ,
	ACCESS_WRITE,
	ACCESS_CMP_SWAP,
	ACCESS_FETCH_ADD,
	ACCESS_STORE64,
	ACCESS_TOUCH_READ, /* these two transfer nothing */
	ACCESS_TOUCH_WRITE,
};

/*
 * struct access - one access of the HCA
 * @addr, @len:	process memory; inside the MR, @len > 0
 * @buf:	the HCA's side of a copy
 * @operand, @orig: of atomics
 */
struct access {
	enum access_kind kind;
	uintptr_t addr;
	size_t len;
	void *buf;
	uint64_t operand[2];
	uint64_t *orig;
};

/* Move the data, guarded: 0 or -EFAULT */
int access_transfer(struct odp_mr *mr, const struct access *a);
/*
 * Would a copy wait for somebody? The pages were there once: in the table, or when they were
 * pinned.
 */
static inline bool mr_away(const struct odp_mr *mr, uintptr_t addr, size_t len,
			   bool write)
{
	const struct odp_domain *dom = mr->dom;

	return dom->os->away && dom->os->away(dom->os_arg, addr, len, write, mr->fickle);
}
static inline bool access_writes(enum access_kind kind)
{
	return kind != ACCESS_READ && kind != ACCESS_TOUCH_READ;
}
/* An access to a pinned MR of which a page is away, or was lately */
int mr_access_pinned(struct odp_mr *mr, const struct access *a, struct odp_access *acc);
/* The slow path of an access to an on-demand MR: scripts, faults, models, transfer */
int mr_access(struct odp_mr *mr, const struct access *a, struct odp_access *acc);
/*
 * A guarded access faulted although the table had the pages: they are not there any more.
 */
void mr_stale(struct odp_mr *mr, uintptr_t addr, size_t len);

/*
 * struct resolve - advice for resolving a fault
 * @flags:	of the pages, in the table
 * @nowait:	-EINPROGRESS instead of waiting for somebody. @again: as for odp_os.slow()
 * @cancelled:	NULL, or of the job that does it
 */
struct resolve {
	uint64_t first, n;
	bool write;
	uint8_t flags;
	unsigned int retries;
	bool nowait, again;
	_Atomic bool *cancelled;
};
/*
 * mr_resolve - make pages present and publish them. The number of pages that changed, or
 * -errno; -EAGAIN when invalidations raced more than @retries times.
 */
int64_t mr_resolve(struct odp_mr *mr, const struct resolve *r);
/* Publish what is present anyway. Pages that changed, or -errno; -EAGAIN as above */
int64_t mr_resolve_present(struct odp_mr *mr, const struct resolve *r);
/*
 * Callback of pt_clear() while there is an eviction list, else NULL; its argument is the
 * MR
 */
pt_page_fn *mr_forget_fn(struct odp_mr *mr);
/* With the lock: which rules of the script are about this MR, if it has their states */
void mr_match_rules(struct odp_mr *mr);

/* pending.c */

/* Room for another pending fault, up to the bound. 0 or -ENOMEM; without the lock */
int pending_room(struct odp_mr *mr);
/* The rest: with the lock. The fault that covers a page */
struct pending *pending_find(struct odp_mr *mr, uint64_t page, bool write);
/*
 * A new one. If there is no room, that of the fault which is due first, if it is due
 * (nobody seems to want it). Else NULL and that fault in @first: there is no room for more
 */
struct pending *pending_new(struct odp_mr *mr, uint64_t now, struct pending **first);
void pending_drop(struct odp_mr *mr, struct pending *p);
/* ODP_FAULT_FLOOD: a request came in vain. */
void pending_flood(struct odp_mr *mr);
/* Pending faults that overlap the pages are void; who waits for them is told. */
void mr_drop_pending(struct odp_mr *mr, uint64_t first, uint64_t last);

/*
 * A job that has these pages fetched for a pending fault, unless it is given another @run.
 * NULL: no memory. Without the lock; unless job_add() follows, job_free()
 */
struct odp_job *job_new(struct odp_mr *mr, uint64_t first, uint64_t n, bool write);
void job_free(struct odp_job *job);
/* With the lock: it is one of its MR's now, until job_end() */
void job_add(struct odp_job *job);
/* The end of a job: who waits for it is told. With the lock, before job_free() */
void job_end(struct odp_job *job);
/* With the lock: have @w, which may be NULL, told when the job ends. */
void job_wait(struct odp_job *job, struct odp_waiter *w);

/* region.c */

/* Where [@iova, @iova+@len) is in memory; false if out of bounds */
static inline bool mr_translate(const struct odp_mr *mr, uint64_t iova, size_t len,
				uintptr_t *addr)
{
	uint64_t off = iova - mr->iova;

	*addr = mr->addr + off;
	return off <= mr->length && len <= mr->length - off;
}

struct mr_pages {
	uint64_t first, n;
};
/* The pages of [@addr, @addr+@len), @len > 0 */
static inline struct mr_pages mr_pages_of(const struct odp_mr *mr, uintptr_t addr,
					  size_t len)
{
	uint64_t first = addr >> mr->shift;

	return (struct mr_pages){first, ((addr + len - 1) >> mr->shift) - first + 1};
}

#endif
