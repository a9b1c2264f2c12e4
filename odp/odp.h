/*
 * odp.h - memory as the HCA sees it: MRs, page-table caches, faults, invalidation.
 *
 * Every byte that the HCA reads from or writes to application memory passes
 * through this interface. An MR is pinned (accesses go straight to the guarded copy) or
 * on-demand: then it has a page-table cache that says for each page whether the HCA may
 * read and write it; an access to a page that is absent is a page fault.
 *
 * The layer knows neither keys, PDs, QPs nor packets. What it needs of the operating
 * system it asks through struct odp_os, so that the simulator can put another one there.
 *
 * All functions are thread-safe. odp_invalidate() never waits for a lock (it runs inside
 * munmap(2) of the application, maybe while a collector has stopped every other thread):
 * what it cannot apply at once is queued, and the queue is looked at before any
 * page-table entry is believed. The other functions may allocate.
 *
 * Addresses and lengths are bytes; times are nanoseconds of CLOCK_MONOTONIC.
 */
#ifndef URXE_ODP_ODP_H
#define URXE_ODP_ODP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/kinds.h"

struct odp_domain; /* the page tables of one process */
struct odp_mr;
struct odp_job; /* a fault that somebody else must resolve */
struct recorder;

/*
 * struct odp_os - the operating system under the page tables
 * @populate:	make the pages of [@addr, @addr+@len) present with read or write
 *		access (MADV_POPULATE_READ/WRITE). 0; -EFAULT where unmapped, beyond the
 *		end of the file or not accessible; -ENOMEM, -EHWPOISON
 * @copy:	memcpy in which either side may be gone. 0 or -EFAULT, in which case a
 *		part may have been copied. Never raises a signal. The last bytes are written last, since
 *		programs poll on them.
 * @cmp_swap, @fetch_add, @store64: guarded 8-byte atomics on an aligned address
 * @resident:	one byte per page of the range: bit 0 present, bit 1 writable. 0 or -errno
 * @slow:	may making these pages present take long, since somebody must do something
 *		for it: a disk, a server, a userfaultfd handler of the program? Takes no
 *		time itself. @again: fetch() was just through with them
 * @defer:	have odp_job_run() called soon, where it keeps nobody from anything. 0 or
 *		-errno: there is no such place
 * @cancel:	a job that was deferred is not wanted any more. True: it has not begun, and
 *		is not begun any more. Else fetch() ends, if the kernel lets it
 * @fetch:	populate for odp_job_run(), may take as long as it likes. -ECANCELED soon after
 *		*@cancelled is true and @cancel was called
 * @pin:	populate for the registration of a pinned MR, whoever must be waited for, on
 *		a thread of the program's own
 * @fickle:	may pages of this range go away again although nobody unmaps them, so that to
 *		touch one is to wait for somebody once more? (unlike anonymous memory)
 * @away:	would a copy of this range have to wait for somebody now? Asked before each
 *		copy, so cheap where no answer is needed. @fickle: what that said
 * @watch:	called before pages of a range are made present: have odp_invalidate()
 *		called for what is mapped there now. Idempotent. 0, or -errno where this cannot be had
 *		(then all depends on odp_invalidate() from interposition and on guarded copies).
 * @unwatch:	an MR that had this range, and was watched, is gone; others may still
 *		overlap it
 * @page_size:	the size of the pages that back an address, 0 if unknown
 * @now:	for odp_counters.fault_ns only: ns, monotonic
 *
 * resident, watch, unwatch, page_size and now may be NULL; so may slow, defer, cancel and
 * fetch together: then nothing takes long. pin may be NULL, then populate does; so may fickle
 * and away.
 */
struct odp_os {
	int (*populate)(void *arg, uintptr_t addr, size_t len, bool write);
	int (*copy)(void *arg, void *dst, const void *src, size_t len);
	int (*cmp_swap)(void *arg, uint64_t *p, uint64_t cmp, uint64_t swap,
			uint64_t *orig);
	int (*fetch_add)(void *arg, uint64_t *p, uint64_t add, uint64_t *orig);
	int (*store64)(void *arg, uint64_t *p, uint64_t v);
	int (*resident)(void *arg, uintptr_t addr, size_t len, uint8_t *pages);
	bool (*slow)(void *arg, uintptr_t addr, size_t len, bool write, bool again);
	int (*defer)(void *arg, struct odp_job *job);
	bool (*cancel)(void *arg, struct odp_job *job);
	int (*fetch)(void *arg, uintptr_t addr, size_t len, bool write,
		     _Atomic bool *cancelled);
	int (*pin)(void *arg, uintptr_t addr, size_t len, bool write);
	bool (*fickle)(void *arg, uintptr_t addr, size_t len);
	bool (*away)(void *arg, uintptr_t addr, size_t len, bool write, bool fickle);
	int (*watch)(void *arg, uintptr_t addr, size_t len);
	void (*unwatch)(void *arg, uintptr_t addr, size_t len);
	size_t (*page_size)(void *arg, uintptr_t addr);
	uint64_t (*now)(void *arg);
};

/*
 * How a fault is served: the list is in trace/models.h. All but SYNC without latency answer -EAGAIN
 * until the fault is resolved; what the transport does meanwhile is its part of the model.
 */
#define ODP_FAULT_MODEL_ID(id, name, responder, requester, what) ODP_FAULT_##id,
enum odp_fault_model { TRACE_MODELS(ODP_FAULT_MODEL_ID) };
#define ODP_FAULT_MODEL_ONE(id, name, responder, requester, what) +1
enum { ODP_FAULT_MODELS = TRACE_MODELS(ODP_FAULT_MODEL_ONE) };
/* All names, for messages: "sync, rnr, ..." */
#define ODP_FAULT_MODEL_COMMA(id, name, responder, requester, what) ", " name
#define ODP_FAULT_MODEL_NAMES					    (&(TRACE_MODELS(ODP_FAULT_MODEL_COMMA))[2])

/*
 * enum odp_responder - what a responder does with a request that finds no page
 * HOLDS:	the request, and all behind it, waits here
 * NAKS:	RNR NAK with the time that is left; NAKS_SOON: with the shortest there is
 * DROPS:	as if it had been lost
 * GOES_DEAF:	as DROPS, and so with all that comes until the page is there
 */
enum odp_responder {
	ODP_RESPONDER_HOLDS,
	ODP_RESPONDER_NAKS,
	ODP_RESPONDER_NAKS_SOON,
	ODP_RESPONDER_DROPS,
	ODP_RESPONDER_GOES_DEAF,
};

/*
 * enum odp_requester - what a requester does whose memory is not there for a response
 * WAITS:	asks again when the page is there
 * LOSES:	the response; its timeout finds out
 * ASKS_AGAIN:	and again meanwhile
 */
enum odp_requester {
	ODP_REQUESTER_WAITS,
	ODP_REQUESTER_LOSES,
	ODP_REQUESTER_ASKS_AGAIN,
};

#define ODP_FAULT_MODEL_RESPONDER(id, name, responder, requester, what)                  \
	[ODP_FAULT_##id] = ODP_RESPONDER_##responder,
static inline enum odp_responder odp_model_responder(enum odp_fault_model model)
{
	static const enum odp_responder does[] = {
	    TRACE_MODELS(ODP_FAULT_MODEL_RESPONDER)};

	return does[model];
}

#define ODP_FAULT_MODEL_REQUESTER(id, name, responder, requester, what)                  \
	[ODP_FAULT_##id] = ODP_REQUESTER_##requester,
static inline enum odp_requester odp_model_requester(enum odp_fault_model model)
{
	static const enum odp_requester does[] = {
	    TRACE_MODELS(ODP_FAULT_MODEL_REQUESTER)};

	return does[model];
}

/* As in the list; "?" for what is none */
const char *odp_model_name(enum odp_fault_model model);
/* 0 or -EINVAL */
int odp_model_from_name(const char *name, enum odp_fault_model *model);

/* What the page table of a new MR has: as odp_config says; nothing; what is present */
enum odp_start {
	ODP_START_DEFAULT,
	ODP_START_COLD,
	ODP_START_SNAPSHOT,
};

/*
 * struct odp_fault_rule - what is special about the faults of something that has a name
 * @model, @latency: valid if @has_model, @has_latency
 * @start:	not for MRs, which get their names later
 */
struct odp_fault_rule {
	char name[32];
	bool has_model, has_latency;
	enum odp_fault_model model;
	uint64_t latency;
	enum odp_start start;
};
#define ODP_MAX_FAULT_RULES 16

/* Pinned memory of a process: without bound, as the kernel has it, at most so many bytes */
enum odp_memlock {
	ODP_MEMLOCK_NONE,
	ODP_MEMLOCK_KERNEL,
	ODP_MEMLOCK_BYTES,
};

/*
 * struct odp_config
 * @model:	fault model of new MRs
 * @snapshot:	at registration, pages already present enter the table
 * @latency:	ns added to each fault
 * @max_pages:	bound on cached pages of the domain, 0 for none; at most ODP_MAX_BOUND.
 *		The least recently used page is evicted.
 * @memlock:	what bounds pinned MRs; @memlock_bytes: of ODP_MEMLOCK_BYTES
 * @uffd:	use userfaultfd where it can be had
 * @script:	scripted faults, NULL for none; copied
 * @recorder:	who is told, NULL for nobody. Outlives the domain
 * @named:	of MRs from when they are given such a name on; the first @n_named
 */
#define ODP_MAX_BOUND (1u << 30)

struct odp_config {
	enum odp_fault_model model;
	bool snapshot;
	uint64_t latency;
	uint64_t max_pages;
	enum odp_memlock memlock;
	uint64_t memlock_bytes;
	bool uffd;
	const char *script;
	struct recorder *recorder;
	struct odp_fault_rule named[ODP_MAX_FAULT_RULES];
	unsigned int n_named;
};

/*
 * odp_script_check - are these scripted faults well-formed? Rules separated by ';', each
 * "mr=NAME|0xKEY|*,page=N,access=K[,fault=evict|error|rnr|drop|damming|flood]". 0, or
 * -EINVAL with one line in @err.
 */
int odp_script_check(const char *text, char *err, size_t errlen);

/* odp_domain_create - 0 or -errno; @os NULL for the real one (os_linux.c) */
int odp_domain_create(const struct odp_config *cfg, const struct odp_os *os, void *os_arg,
		      struct odp_domain **out);
/* All MRs must be gone. */
void odp_domain_destroy(struct odp_domain *dom);
/*
 * In the child of fork: forget the parent's monitor and descriptors, touch nothing else.
 */
void odp_domain_abandon(struct odp_domain *dom);
/*
 * In the parent after fork: private pages are now shared for copy on write, so what the
 * HCA may write must fault again (as the kernel's MMU notifiers have it).
 */
void odp_domain_forked(struct odp_domain *dom);
/*
 * odp_domain_blind - can there be pages in tables that the kernel does not watch (no
 * userfaultfd, or none for that mapping)? Then what unmaps must call odp_invalidate().
 */
bool odp_domain_blind(const struct odp_domain *dom);
/*
 * odp_domain_fds - descriptors that the application must not close; how many were
 * written, at most @max
 */
#define ODP_FDS 3
int odp_domain_fds(const struct odp_domain *dom, int *fds, int max);

/*
 * struct odp_mr_attr
 * @addr, @length: process memory
 * @iova:	address that the HCA uses for @addr
 * @writable:	the HCA may write (local or remote write, remote atomic)
 * @on_demand:	IBV_ACCESS_ON_DEMAND
 * @implicit:	addr 0, length SIZE_MAX
 * @hugetlb:	IBV_ACCESS_HUGETLB
 * @access, @pd, @device: for the recorder only
 * @start:	of an explicit on-demand MR
 * @number:	of the MR that this one takes the place of, 0: none
 */
struct odp_mr_attr {
	uintptr_t addr;
	size_t length;
	uint64_t iova;
	bool writable;
	bool on_demand;
	bool implicit;
	bool hugetlb;
	uint32_t access, pd;
	uint16_t device;
	enum odp_start start;
	uint32_t number;
};

/*
 * odp_mr_create - 0 with one reference in *@out, or -errno: EFAULT (pinned, and a part is
 * not mapped with the access asked for), EINVAL, ENOMEM (also where odp_config bounds pinned
 * ones). Waits for the pages of a pinned MR as long as that takes
 */
int odp_mr_create(struct odp_domain *dom, const struct odp_mr_attr *attr,
		  struct odp_mr **out);
/* The order of registration in the process, from 1 on */
uint32_t odp_mr_number(const struct odp_mr *mr);
struct odp_mr *odp_mr_get(struct odp_mr *mr);
/* The last put frees. Never called under a lock of this layer. */
void odp_mr_put(struct odp_mr *mr);
/*
 * odp_mr_quiesce - nobody wants this MR any more: give up its faults that are being waited
 * for, and return when none of them touches its memory. That can take as long as the kernel
 * takes to let go of a page (userfaultfd: at once; a file server that does not answer: until
 * it does). No lock is held, faults of others go on.
 */
void odp_mr_quiesce(struct odp_mr *mr);
/*
 * The id by which `--stats` and `urxe stat` show it (the lkey), and a name, for which
 * odp_config.named, scripted faults and injections may have rules. Without a name it is mrN,
 * where N is its number.
 */
void odp_mr_set_label(struct odp_mr *mr, uint32_t key, const char *name);
/* Faults of this MR from now on; those that are pending keep their time. */
void odp_mr_set_model(struct odp_mr *mr, enum odp_fault_model model, uint64_t latency);

/*
 * odp_domain_set_script - scripted faults of all MRs from now on, see odp_script_check(); all
 * counts begin anew. NULL: none. 0, -EINVAL, -ENOMEM
 */
int odp_domain_set_script(struct odp_domain *dom, const char *text);
/* The rules of inject/ are others now. */
void odp_domain_look_again(struct odp_domain *dom);

/*
 * struct odp_waiter - part of something that waits for a fault whose end nobody can tell in
 * advance
 * @wake:	for whoever takes it from odp_resolved()
 * @linked:	it waits, or was not taken yet; its owner's
 * @next, @pprev: this layer's
 */
struct odp_waiter {
	void (*wake)(struct odp_waiter *w);
	struct odp_waiter *next, **pprev;
	bool linked;
};

/* Of odp_access.ready_at: when odp_resolved() tells the waiter */
#define ODP_WHEN_RESOLVED UINT64_MAX

/*
 * struct odp_access - who accesses, and when
 * @now:	time of the access
 * @remote:	on behalf of a request from the wire (else a local SGE)
 * @ahead:	bytes that its operation has behind these: if a page is missing they are
 *		asked for with it, as far as they are in the MR
 * @waiter:	is told when the answer is -EAGAIN and @ready_at ODP_WHEN_RESOLVED; NULL:
 *		nobody. What it waited for before it waits for no more.
 * @ready_at:	set when the answer is -EAGAIN: try again then
 * @faulted:	set: did this access take a page fault? (one that waits for a fault which
 *		an earlier access took did not)
 * @model:	set when the answer is -EAGAIN: which model defers it
 * @mr:		set when the answer is -EAGAIN: whose fault it is
 */
struct odp_access {
	uint64_t now;
	bool remote;
	uint64_t ahead;
	struct odp_waiter *waiter;
	uint64_t ready_at;
	bool faulted;
	enum odp_fault_model model;
	struct odp_mr *mr;
};

/*
 * The accesses of the HCA. [@iova, @iova+@len) must be inside the MR, which the caller
 * has checked along with the keys; it is checked here again.
 *
 * 0; -EFAULT: the memory is gone, protected, or out of bounds; -EAGAIN: the fault model
 * defers, or the pages take long to get, see @ready_at; nothing was transferred.
 *
 * None of them waits for anybody: what takes long becomes a struct odp_job.
 */
int odp_read(struct odp_mr *mr, uint64_t iova, void *dst, size_t len,
	     struct odp_access *acc);
int odp_write(struct odp_mr *mr, uint64_t iova, const void *src, size_t len,
	      struct odp_access *acc);
/* @iova is a multiple of 8, else -EINVAL. */
int odp_cmp_swap(struct odp_mr *mr, uint64_t iova, uint64_t cmp, uint64_t swap,
		 uint64_t *orig, struct odp_access *acc);
int odp_fetch_add(struct odp_mr *mr, uint64_t iova, uint64_t add, uint64_t *orig,
		  struct odp_access *acc);
int odp_store64(struct odp_mr *mr, uint64_t iova, uint64_t value, struct odp_access *acc);
/*
 * Fault a range in without transferring (the other SGEs of a WQE). Counts neither a hit
 * nor a fault of its own, ends no fault that an access waits for, and is no access for
 * scripted faults.
 */
int odp_fault_in(struct odp_mr *mr, uint64_t iova, size_t len, bool write,
		 struct odp_access *acc);

/*
 * odp_job_run - resolve it, from the place that odp_os.defer() found; once. May take long.
 */
void odp_job_run(struct odp_job *job);
/*
 * odp_domain_tell - @fn is called when odp_resolved() has something; by any thread, maybe
 * inside munmap(2) of the application, so it waits for nothing. Before the first access
 */
void odp_domain_tell(struct odp_domain *dom, void (*fn)(void *arg), void *arg);
/*
 * odp_resolved - the next waiter whose fault is over, one way or the other (its access may
 * have to wait anew); NULL if there is none. It waits no more.
 */
struct odp_waiter *odp_resolved(struct odp_domain *dom);
/* Its owner does not wait any more. */
void odp_unwait(struct odp_domain *dom, struct odp_waiter *w);

/*
 * The memory was unmapped, discarded, moved or protected: forget it. All MRs of the
 * domain. @cause: for records
 */
void odp_invalidate(struct odp_domain *dom, uintptr_t addr, size_t len,
		    enum trace_inval cause);

/*
 * odp_change_begin - the program is about to unmap, move, discard or replace this range,
 * whole pages: let it not wait for the monitor of events. Waits for nothing, like
 * odp_invalidate().
 * @anyway: though it is so large that to wait would cost less
 * @return: true: odp_change_end() must follow the change, whether it succeeded or not.
 *	False: nothing was done, events or odp_invalidate() tell as ever.
 */
bool odp_change_begin(struct odp_domain *dom, uintptr_t addr, size_t len, bool anyway);
/* Invalidates the range. @remains: the mapping is still there */
void odp_change_end(struct odp_domain *dom, uintptr_t addr, size_t len, bool remains,
		    enum trace_inval cause);

/*
 * odp_yield_begin - the program is about to register whole pages with a userfaultfd of its own,
 * or to take them back, and a mapping can have one only: let go of these. odp_yield_end()
 * follows; what happens in between is short and waits for nobody.
 */
void odp_yield_begin(struct odp_domain *dom, uintptr_t addr, size_t len);
void odp_yield_end(struct odp_domain *dom);
/* The program has such pages: touching what is mapped and was present may wait for it. */
void odp_others_watch(void);

/* Advice and flags as in ibv_advise_mr(3) */
enum odp_advice {
	ODP_PREFETCH = 0,
	ODP_PREFETCH_WRITE = 1,
	ODP_PREFETCH_NO_FAULT = 2,
};
/*
 * odp_prefetch - make the pages of a range present in the table, now
 * 0; -EFAULT (out of bounds, not mapped), -EPERM (write advice, MR not writable), -EAGAIN
 * (an invalidation raced for too long), -EINVAL (not an on-demand MR, unknown advice, or
 * pages too small for IBV_ACCESS_HUGETLB). No latency is added.
 */
int odp_prefetch(struct odp_mr *mr, uint64_t iova, size_t len, enum odp_advice advice);
/*
 * odp_prefetch_async - the same soon, by a worker; later errors are dropped. Bounds are
 * checked at once. The MR may be deregistered meanwhile.
 */
int odp_prefetch_async(struct odp_mr *mr, uint64_t iova, size_t len,
		       enum odp_advice advice);
/* Wait until all that was asked for before is done. */
void odp_prefetch_drain(struct odp_domain *dom);

/* struct odp_counters - of one MR, or summed over all that ever were; see trace/counters.h */
struct odp_counters {
	TRACE_ODP_COUNTERS(TRACE_COUNTER_MEMBER)
};
void odp_mr_counters(const struct odp_mr *mr, struct odp_counters *out);
void odp_domain_counters(struct odp_domain *dom, struct odp_counters *out);
void odp_mr_reset_counters(struct odp_mr *mr);
/* A message met a fault of this MR that is waited for, and does not come again. */
void odp_mr_lost(struct odp_mr *mr);

/*
 * struct odp_mr_info - what stats show of an MR
 * @mr:	itself, valid during the callback of odp_domain_each(); NULL when it is gone
 */
struct odp_mr_info {
	struct odp_mr *mr;
	uint32_t key;
	char name[32];
	uintptr_t addr;
	size_t length;
	uint64_t iova;
	bool on_demand, implicit, live;
	uint32_t page_size;
	uint64_t pages_cached;
	struct odp_counters counters;
};
/* odp_mr_describe - all of it, invalidations up to now applied */
void odp_mr_describe(struct odp_mr *mr, struct odp_mr_info *out);
/*
 * odp_domain_each - call @fn for each live MR, then for the on-demand ones that are gone
 * (the last 256 are kept for the report at exit). No lock is held meanwhile.
 */
void odp_domain_each(struct odp_domain *dom,
		     void (*fn)(void *arg, const struct odp_mr_info *), void *arg);
/*
 * odp_mr_page_map - one byte per page from @iova on: bit 0 readable, bit 1 writable, bit
 * 2 came by prefetch; how many were written, at most @max
 */
size_t odp_mr_page_map(struct odp_mr *mr, uint64_t iova, uint8_t *map, size_t max);

/*
 * struct odp_caps - what invalidation and faults rest on, for `urxe doctor` and --stats
 * @uffd_events: events of userfaultfd up to now, each of which somebody waited for
 * @uffd_areas: ranges of memory that it watches, some of which may be gone already
 */
struct odp_caps {
	bool uffd, populate, pagemap;
	int uffd_errno;
	uint64_t uffd_events;
	uint64_t uffd_areas;
};
void odp_domain_caps(struct odp_domain *dom, struct odp_caps *out);

#endif
