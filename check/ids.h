/*
 * ids.h - the one table of what the checker finds.
 *
 * Output, suppressions, docs/check.md and the corpus in tests/check/ are made from it or
 * compared with it. An identifier never changes its meaning. Includes nothing of urxe.
 */
#ifndef URXE_CHECK_IDS_H
#define URXE_CHECK_IDS_H

/* What --check=CLASS,... chooses from */
#define CHECK_CLASSES(X)                                                                 \
	X(COMPLETIONS, "completions")                                                    \
	X(LEAKS, "leaks")                                                                \
	X(BUFFERS, "buffers")                                                            \
	X(MEMORY, "memory")                                                              \
	X(ORDER, "order")                                                                \
	X(RIGHTS, "rights")                                                              \
	X(PORTABILITY, "portability")

/*
 * error: broken on any HCA; hazard: breaks by timing or under load; portability: works here, and
 * not on some real HCA; waste: costs more than it must
 */
#define CHECK_SEVERITIES(X)                                                              \
	X(ERROR, "error")                                                                \
	X(HAZARD, "hazard")                                                              \
	X(PORTABLE, "portability")                                                       \
	X(WASTE, "waste")

/* X(name, identifier, class, severity, what is wrong, why it matters on hardware) */
#define CHECK_IDS(X)                                                                     \
	X(SQ_UNSIGNALED, "sq-unsignaled", COMPLETIONS, ERROR,                            \
	  "the send queue is full of requests that make no completion",                  \
	  "slots are free again when a later completion was polled: none will come, "    \
	  "and "                                                                         \
	  "no request can be posted any more")                                           \
	X(SQ_OVERCOMMIT, "sq-overcommit", COMPLETIONS, PORTABLE,                         \
	  "more send requests are posted than the queue holds until completions are "    \
	  "polled",                                                                      \
	  "this device frees a slot when the request was executed; others refuse the "   \
	  "post with ENOMEM")                                                            \
	X(CQ_TOO_SMALL, "cq-too-small", COMPLETIONS, HAZARD,                             \
	  "more completions may come than the completion queue holds",                   \
	  "if the program polls too late the queue overruns: the CQ and its QPs are "    \
	  "lost")                                                                        \
	X(ERROR_IGNORED, "error-ignored", COMPLETIONS, HAZARD,                           \
	  "a completion with an error was polled, and the program goes on posting to "   \
	  "that QP",                                                                     \
	  "the QP is in ERR: nothing is sent or received any more")                      \
	X(FLUSH_UNPOLLED, "flush-unpolled", COMPLETIONS, HAZARD,                         \
	  "what was posted to a QP in ERR is never polled",                              \
	  "it was flushed and not executed; the program takes it for done")              \
	X(LOST_WAKEUP, "lost-wakeup", COMPLETIONS, HAZARD,                               \
	  "the CQ was armed when completions were in it, and not polled again before "   \
	  "waiting",                                                                     \
	  "an event comes for completions that come after arming; those that were "      \
	  "there "                                                                       \
	  "wake nobody")                                                                 \
	X(EVENTS_UNACKED, "events-unacked", COMPLETIONS, ERROR,                          \
	  "an object is destroyed whose events were not all acknowledged",               \
	  "the call waits for that, for ever")                                           \
	X(RNR, "rnr", COMPLETIONS, HAZARD,                                               \
	  "a message came when no receive request was posted",                           \
	  "the sender waits and tries again; when its retries are used up the "          \
	  "connection is lost")                                                          \
	X(TIMEOUT_INFINITE, "timeout-infinite", COMPLETIONS, HAZARD,                     \
	  "the acknowledge timeout is 0, which means for ever",                          \
	  "when a packet is lost nothing is sent again, and no error tells")             \
	X(RETRY_LONG, "retry-long", COMPLETIONS, HAZARD,                                 \
	  "timeout and retries together take more than ten seconds",                     \
	  "so long the program waits for a peer that is gone")                           \
	X(RNR_ENDLESS, "rnr-endless", COMPLETIONS, HAZARD,                               \
	  "a request has waited for a receive request of the peer for half a second, "   \
	  "and would do so for ever",                                                    \
	  "rnr_retry 7 knows no end: a peer that never posts is never an error")         \
	X(LEAK_AT_CLOSE, "leak-at-close", LEAKS, HAZARD,                                 \
	  "the device is closed while objects of it exist",                              \
	  "the kernel takes them away; memory of the libraries, and what still uses "    \
	  "them, stays")                                                                 \
	X(LEAK_AT_EXIT, "leak-at-exit", LEAKS, WASTE, "objects are never destroyed",     \
	  "pinned memory and the device's tables fill up in a program that runs long")   \
	X(DESTROY_BUSY, "destroy-busy", LEAKS, ERROR,                                    \
	  "an object cannot be destroyed, since others depend on it",                    \
	  "the call fails and the object stays")                                         \
	X(SEND_CHANGED, "send-changed", BUFFERS, ERROR,                                  \
	  "a send buffer was changed between the post and its completion",               \
	  "the HCA reads it any time until then, again if a packet is lost: the peer "   \
	  "gets the old data, the new or a mixture")                                     \
	X(FREED_IN_USE, "freed-in-use", BUFFERS, ERROR,                                  \
	  "memory was freed while a posted request uses it",                             \
	  "the HCA reads or writes what the memory is used for next")                    \
	X(DEREG_IN_USE, "dereg-in-use", BUFFERS, ERROR,                                  \
	  "a memory region is deregistered while a posted request uses it",              \
	  "the request fails, and its QP with it, or uses memory that is another's")     \
	X(RECEIVES_OVERLAP, "receives-overlap", BUFFERS, HAZARD,                         \
	  "buffers of receives or READs that are outstanding together overlap",          \
	  "the later message destroys the earlier one before the program has seen it")   \
	X(RECEIVE_TOUCHED, "receive-touched", BUFFERS, HAZARD,                           \
	  "a receive buffer was written to between the post and the message",            \
	  "the HCA may write there any time: what the program wrote is lost, or "        \
	  "destroys the message")                                                        \
	X(RECEIVE_READ, "receive-read", BUFFERS, HAZARD,                                 \
	  "a receive buffer or the target of a READ was read before its completion was " \
	  "polled",                                                                      \
	  "the data may not be there, or not all of it, whatever a part of it says")     \
	X(SGE_OUTSIDE_MR, "sge-outside-mr", BUFFERS, ERROR,                              \
	  "a request reaches beyond its memory region",                                  \
	  "it ends in a local protection error, and the QP in ERR")                      \
	X(SGE_BAD_LKEY, "sge-bad-lkey", BUFFERS, ERROR,                                  \
	  "a request has a local key that no memory region has",                         \
	  "it ends in a local protection error, and the QP in ERR")                      \
	X(REMOTE_WRITE_IN_USE, "remote-write-in-use", BUFFERS, HAZARD,                   \
	  "a peer writes into memory that a posted request of this side uses",           \
	  "which of the two comes first is not determined")                              \
	X(REMOTE_UNORDERED, "remote-unordered", BUFFERS, HAZARD,                         \
	  "peers write to the same bytes by two connections, without an order",          \
	  "the one that was posted first may come last: what stays is not determined")   \
	X(ATOMIC_STORED, "atomic-stored", BUFFERS, HAZARD,                               \
	  "the program stores to a word while a peer uses it with atomics",              \
	  "the HCA's atomics are none for the CPU: one of the two is lost")              \
	X(FRAME_ENDED, "frame-ended", BUFFERS, ERROR,                                    \
	  "a request uses memory of a stack frame that has ended",                       \
	  "the HCA reads or writes what the next functions have there")                  \
	X(PINNED_REMAPPED, "pinned-remapped", MEMORY, ERROR,                             \
	  "pinned memory was unmapped or replaced, and used by its registration "        \
	  "afterwards",                                                                  \
	  "the HCA goes on with the old pages: it sends old data, and what it receives " \
	  "is never seen")                                                               \
	X(PINNED_DISCARDED, "pinned-discarded", MEMORY, ERROR,                           \
	  "pinned memory was discarded by madvise, and used by its registration "        \
	  "afterwards",                                                                  \
	  "the program gets new pages, the HCA keeps the old ones: they do not see "     \
	  "each other's data")                                                           \
	X(FORK_PINNED, "fork-pinned", MEMORY, PORTABLE,                                  \
	  "fork with pinned memory, without ibv_fork_init or MADV_DONTFORK",             \
	  "before Linux 5.12, who writes first gets a new page: the parent's "           \
	  "registration may keep the one that went to the child")                        \
	X(USED_AFTER_FORK, "used-after-fork", MEMORY, ERROR,                             \
	  "a child of fork uses a QP, SRQ or CQ of its parent",                          \
	  "both have the queue, and each a copy of its own of who is where in it")       \
	X(REGISTERED_AGAIN, "registered-again", MEMORY, WASTE,                           \
	  "the same memory is registered many times and never deregistered",             \
	  "each registration pins pages and fills the device's table of keys")           \
	X(PREFETCH_UNUSED, "prefetch-unused", MEMORY, WASTE,                             \
	  "memory was prefetched and not used, or little of it",                         \
	  "the pages are brought in and mapped for nothing")                             \
	X(PREFETCH_LATE, "prefetch-late", MEMORY, WASTE,                                 \
	  "a prefetch comes too late for the request that uses the memory",              \
	  "the request takes the page faults that the prefetch was to save")             \
	X(ADVISE_FAILED, "advise-failed", MEMORY, WASTE, "ibv_advise_mr failed",         \
	  "the pages are not there, and each costs a page fault when it is used")        \
	X(FAULTS_AGAIN, "faults-again", MEMORY, WASTE,                                   \
	  "the same page of an on-demand region takes one page fault after another",     \
	  "each stops the connection until it is served; a prefetch before the use "     \
	  "saves it")                                                                    \
	X(PAGE_BOUNCES, "page-bounces", MEMORY, WASTE,                                   \
	  "a page of an on-demand region is brought in again and again, and evicted in " \
	  "between",                                                                     \
	  "more pages are in use than the device keeps: each is paid for with a page "   \
	  "fault")                                                                       \
	X(READ_UNFENCED, "read-unfenced", ORDER, ERROR,                                  \
	  "a request sends what a READ or atomic before it has not brought yet",         \
	  "without a fence, or waiting for the completion, old data may be sent")        \
	X(OTHER_QP_TOLD, "other-qp-told", ORDER, HAZARD,                                 \
	  "the program read what one connection writes, told by a message of another",   \
	  "messages have an order with the WRITEs of their own QP only: the data "       \
	  "may come later")                                                              \
	X(MEMORY_POLLED, "memory-polled", ORDER, PORTABLE,                               \
	  "the program waits for a peer's WRITE by reading memory again and again",      \
	  "it takes for granted that the last byte is written last, which nothing "      \
	  "promises")                                                                    \
	X(LOCAL_WRITE_MISSING, "local-write-missing", RIGHTS, ERROR,                     \
	  "a receive, READ or atomic has a buffer that is registered without "           \
	  "IBV_ACCESS_LOCAL_WRITE",                                                      \
	  "it ends in a local protection error, and the QP in ERR")                      \
	X(REMOTE_UNUSED, "remote-unused", RIGHTS, WASTE,                                 \
	  "a region lets peers write, and none ever accessed it",                        \
	  "whoever learns or guesses the key may overwrite the memory")                  \
	X(RKEY_CLOSED, "rkey-closed", RIGHTS, ERROR,                                     \
	  "a peer used the key of a region that is deregistered, or never was",          \
	  "its request fails and the connection is lost; a new region may get the same " \
	  "key")                                                                         \
	X(REMOTE_OUTSIDE_MR, "remote-outside-mr", RIGHTS, ERROR,                         \
	  "a peer's request reaches beyond the region of its key",                       \
	  "it is refused and the connection is lost")                                    \
	X(REMOTE_RIGHT_MISSING, "remote-right-missing", RIGHTS, ERROR,                   \
	  "a peer's request needs a right that the region or the QP does not give",      \
	  "it is refused and the connection is lost")                                    \
	X(WILDCARD_WRITE, "wildcard-write", RIGHTS, HAZARD,                              \
	  "a region of the whole address space lets peers write",                        \
	  "one key gives a peer the whole process")                                      \
	X(QKEY_GUESSABLE, "qkey-guessable", RIGHTS, WASTE,                               \
	  "the Q_Key of a datagram QP is 0 or all of one digit",                         \
	  "any program of the fabric may send to this QP")                               \
	X(ATOMIC_MISALIGNED, "atomic-misaligned", PORTABILITY, ERROR,                    \
	  "the remote address of an atomic is no multiple of 8",                         \
	  "it is refused at the post, or by the peer, whose connection is lost then")    \
	X(GID_INDEX_ZERO, "gid-index-zero", PORTABILITY, PORTABLE, "the GID index is 0", \
	  "here it is RoCE v2; on most adapters it is RoCE v1 of a link-local address")  \
	X(INLINE_LARGE, "inline-large", PORTABILITY, PORTABLE,                           \
	  "more than 220 bytes of inline data are asked for",                            \
	  "many adapters have less and refuse to make the QP")                           \
	X(SGE_MANY, "sge-many", PORTABILITY, PORTABLE,                                   \
	  "more than 13 SGEs are asked for",                                             \
	  "some adapters have no more and refuse to make the QP")                        \
	X(QUEUE_DEEP, "queue-deep", PORTABILITY, PORTABLE,                               \
	  "a queue of more than 8127 requests is asked for",                             \
	  "some adapters have no longer ones and refuse to make the QP")                 \
	X(RD_ATOMIC_MANY, "rd-atomic-many", PORTABILITY, PORTABLE,                       \
	  "more than 16 READs and atomics at a time are asked for",                      \
	  "most adapters have no more and refuse ibv_modify_qp")                         \
	X(MTU_UNASKED, "mtu-unasked", PORTABILITY, PORTABLE,                             \
	  "a path MTU above 1024 is set, and no port was asked for its own",             \
	  "a port on Ethernet with the usual frames has 1024, and ibv_modify_qp is "     \
	  "refused")

#define X(name, text) CHECK_CLASS_##name,
enum check_class { CHECK_CLASSES(X) CHECK_N_CLASSES };
#undef X
#define X(name, text) CHECK_SEVERITY_##name,
enum check_severity { CHECK_SEVERITIES(X) CHECK_N_SEVERITIES };
#undef X
#define X(name, id, class, severity, what, why) CHECK_##name,
enum check_id { CHECK_IDS(X) CHECK_N_IDS };
#undef X

#endif
