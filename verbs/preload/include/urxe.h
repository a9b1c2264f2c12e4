/*
 * urxe.h - what a program or a test may ask of the emulated HCA that real ones do not
 * tell.
 *
 * The functions are in liburxe.so: link with -lurxe (pkg-config urxe), or look them up
 * with dlsym(RTLD_DEFAULT, ...) if the program must also start where urxe is not there.
 *
 * Functions that return int return 0 or an error number, which errno has as well, in the
 * manner of ibv_advise_mr(3). Errors that all of them have in common:
 *
 * ENOSYS: the process is not run by urxe, the device is not an emulated one, or a parent
 *	process opened it before fork(2).
 * EINVAL: not a valid MR (deregistered, or its memory is gone), not a valid context.
 *
 * All functions may be called by any thread. As with all verbs, an object must not be
 * destroyed while another thread uses it in a call.
 */
#ifndef URXE_H
#define URXE_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * urxe_active - does this process run under urxe?
 *
 * 1: yes, devices named rxe* in it are emulated ones; 0: no, everything here returns
 * ENOSYS.
 */
int urxe_active(void);

/* urxe_version - "MAJOR.MINOR.PATCH" of the library; a constant */
const char *urxe_version(void);

/*
 * urxe_is_emulated - is this an open device of urxe? 1 or 0
 *
 * Not so in a child of fork(2): a context that the parent opened is not the child's.
 */
int urxe_is_emulated(struct ibv_context *context);

/*
 * struct urxe_counters - what on-demand paging did
 * @page_faults: pages that faults made present or writable (rdma-statistic(8))
 * @page_invalidations: pages that the device had to forget (rdma-statistic(8))
 * @page_prefetch: pages that prefetch made present or writable (rdma-statistic(8))
 * @read_faults: faults of accesses that read
 * @write_faults: faults of accesses that write
 * @local_faults: faults of this process' own work requests
 * @remote_faults: faults of requests that came from a peer
 * @failed_faults: faults that found no memory, so that the request failed
 * @invalidations: events that dropped at least one page
 * @prefetches: requests to prefetch, of one range each
 * @prefetch_hits: first accesses to a prefetched page: faults that were saved
 * @cache_hits: accesses, of up to a packet each, that found all pages present
 * @evictions: pages dropped to keep the bound on cached pages, or by a script
 * @fault_ns: time that faults took, nanoseconds: resolving them, and a latency of the model; not
 *	what it took requests to come again
 * @fault_retries: faults repeated since the memory changed meanwhile
 * @lost_messages: messages of UC and UD that needed a page whose fault was waited for; nobody
 *	sends them again
 * @pages_cached: pages in the page table now; no reset changes it
 *
 * A fault is one access of the device, of up to a packet; it may concern many pages.
 * read_faults + write_faults = local_faults + remote_faults. Prefetching counts no
 * faults. Pages are those of urxe_mr_page_size(). MRs without on-demand paging count
 * nothing.
 */
struct urxe_counters {
	uint64_t page_faults;
	uint64_t page_invalidations;
	uint64_t page_prefetch;
	uint64_t read_faults;
	uint64_t write_faults;
	uint64_t local_faults;
	uint64_t remote_faults;
	uint64_t failed_faults;
	uint64_t invalidations;
	uint64_t prefetches;
	uint64_t prefetch_hits;
	uint64_t cache_hits;
	uint64_t evictions;
	uint64_t fault_ns;
	uint64_t fault_retries;
	uint64_t pages_cached;
	uint64_t lost_messages;
};

/*
 * urxe_mr_counters - the counters of an MR since it was registered or reset
 * @size: sizeof(struct urxe_counters). A newer library fills what the program knows, and
 *	zeroes what only the program knows.
 *
 * When it returns, unmappings that returned before the call are counted.
 */
int urxe_mr_counters(struct ibv_mr *mr, struct urxe_counters *counters, size_t size);
int urxe_mr_reset_counters(struct ibv_mr *mr);

/*
 * urxe_device_counters - the sums over the MRs that this process has and had on a device
 *
 * Resetting resets those of its MRs, too. Parameters and errors as above.
 */
int urxe_device_counters(struct ibv_context *context, struct urxe_counters *counters,
			 size_t size);
int urxe_device_reset_counters(struct ibv_context *context);

/*
 * urxe_device_hw_counter - one of the device's transport counters, as this process sees
 * it
 * @name: a file name in /sys/class/infiniband/DEVICE/ports/1/hw_counters, such as
 *	  "rcvd_rnr_err" or "duplicate_request"
 *
 * Errors: ENOENT no such counter; EINVAL; ENOSYS.
 */
int urxe_device_hw_counter(struct ibv_context *context, const char *name,
			   uint64_t *value);

/*
 * urxe_mr_set_name - a name for reports (--stats, urxe stat) and for scripted faults
 * @name: up to 31 bytes; NULL or "" removes it
 *
 * Rules of a script that name this MR count its accesses from now on. ibv_rereg_mr(3) may
 * remove the name.
 * Errors: ENAMETOOLONG; EINVAL; ENOSYS.
 */
int urxe_mr_set_name(struct ibv_mr *mr, const char *name);

/*
 * urxe_mr_page_size - bytes of a page in the MR's page table; 0 with errno set on error
 */
size_t urxe_mr_page_size(struct ibv_mr *mr);

/* What a page in the page table of an MR may be; for urxe_mr_page_map() */
enum urxe_page {
	URXE_PAGE_READ = 1 << 0,       /* the device may read it */
	URXE_PAGE_WRITE = 1 << 1,      /* it may write it */
	URXE_PAGE_PREFETCHED = 1 << 2, /* it came by prefetch */
};

/*
 * urxe_mr_page_map - which pages of a range does the device have?
 * @addr, @length: memory of the process that belongs to the MR
 * @want: URXE_PAGE_*; a page counts if it is all of these
 * @bitmap: gets one bit for each page from that of @addr on to that of the last byte, the
 *	    lowest bit of the first byte first; bits left over in the last byte are zero
 * @size: bytes there
 *
 * An MR without on-demand paging has no page table: no bit is set.
 * Errors: EFAULT out of the MR's bounds; ENOSPC @bitmap is too small; EINVAL also for bad
 * @want and for @length 0; ENOSYS.
 */
int urxe_mr_page_map(struct ibv_mr *mr, const void *addr, size_t length,
		     unsigned int want, uint8_t *bitmap, size_t size);

/*
 * urxe_prefetch_wait - return when all asynchronous prefetching is done that this process
 * asked for before the call. Errors: EINVAL; ENOSYS.
 */
int urxe_prefetch_wait(struct ibv_context *context);

/*
 * enum urxe_fault_model - how a page fault of the device is served; see docs/odp.md
 * @URXE_FAULT_SYNC: at once, nobody notices but for the time
 * @URXE_FAULT_RNR: the responder answers RNR NAK meanwhile, the requester waits
 * @URXE_FAULT_DROP: the responder drops the packet
 * @URXE_FAULT_DAMMING: as DROP, and what else comes on that QP meanwhile is lost, too
 * @URXE_FAULT_FLOOD: the requester re-sends over and over until it is resolved
 */
enum urxe_fault_model {
	URXE_FAULT_SYNC,
	URXE_FAULT_RNR,
	URXE_FAULT_DROP,
	URXE_FAULT_DAMMING,
	URXE_FAULT_FLOOD,
};

/*
 * urxe_mr_set_fault_model - faults of an on-demand MR from now on
 * @latency_ns: added to each fault, nanoseconds; at most an hour
 *
 * Faults that are pending keep their model and their time.
 * Errors: EINVAL also for an unknown model, a latency out of range, an MR that is not
 * on-demand; ENOSYS.
 */
int urxe_mr_set_fault_model(struct ibv_mr *mr, enum urxe_fault_model model,
			    uint64_t latency_ns);

/*
 * urxe_device_set_fault_model - the same for MRs that are registered on a device from now
 * on. It takes the place of the options --odp-model and --odp-latency.
 */
int urxe_device_set_fault_model(struct ibv_context *context, enum urxe_fault_model model,
				uint64_t latency_ns);

/*
 * urxe_set_fault_script - faults at chosen accesses, for all MRs of this process
 * @context: any open device of it
 * @script: as the option --odp-script has it: rules separated by ';', each
 *	"mr=NAME|0xKEY|*,page=N,access=K[,fault=evict|error|rnr|drop|damming|flood]":
 *	the K-th access to page N of the MR takes a fault. Accesses are counted from this
 * call on. NULL or "": no script any more.
 *
 * Errors: EINVAL also for a script that is not well-formed; ENOMEM; ENOSYS.
 */
int urxe_set_fault_script(struct ibv_context *context, const char *script);

/*
 * urxe_inject - what goes wrong on purpose, and where, from now on, in this process
 * @context: any open device of it
 * @rules: as the option --inject has them, see urxe-inject(7). They take the place of all
 *	earlier ones, and count points from this call on. NULL or "": no rules.
 *
 * Errors: EINVAL also for rules that are not well-formed; EOPNOTSUPP a rule is about packets,
 * and the program was started without --inject packets; ENOMEM; ENOSYS.
 */
int urxe_inject(struct ibv_context *context, const char *rules);

/*
 * urxe_trace_start - from now on record all that the devices of this process do, in memory of at
 * least @size bytes (0: 16 MiB), of which the oldest is overwritten when it is full
 *
 * EALREADY: that is recorded already. ENOTSUP: nothing is recorded here. ENOSPC, EFBIG and others:
 * there is no room for it.
 */
int urxe_trace_start(struct ibv_context *context, size_t size);
/*
 * urxe_trace_stop - end that, and write what was recorded to @file unless that is NULL: a trace, for
 * `urxe report`
 *
 * EALREADY: it was not begun, or has ended. EEXIST: @file is there and is no trace; and the errors of
 * open(2) and write(2).
 */
int urxe_trace_stop(struct ibv_context *context, const char *file);

#ifdef __cplusplus
}
#endif

#endif
