/*
 * counters.h - all counters, each in one line: X(member, name, unit, text).
 *
 * @member is what the code that counts calls it, @name what all others do: JSON, the public structure,
 * manual pages. Structures, names and reports are made from the lists; tests/structure/test_lists.py
 * checks that urxe.h, the manual page and the documents have each name with this text.
 */
#ifndef URXE_TRACE_COUNTERS_H
#define URXE_TRACE_COUNTERS_H

/*
 * Of the page tables, of an MR or summed up. Pages are of the MR's page size; a pinned MR counts
 * nothing. Faults are events: read_faults + write_faults = local_faults + remote_faults.
 */
/* clang-format off */
#define TRACE_ODP_COUNTERS(X) \
	X(pages_faulted, page_faults, PAGES, "pages that faults made present or writable (rdma-statistic(8))") \
	X(pages_invalidated, page_invalidations, PAGES, "pages that the device had to forget (rdma-statistic(8))") \
	X(pages_prefetched, page_prefetch, PAGES, "pages that prefetch made present or writable (rdma-statistic(8))") \
	X(read_faults, read_faults, FAULTS, "faults of accesses that read") \
	X(write_faults, write_faults, FAULTS, "faults of accesses that write") \
	X(local_faults, local_faults, FAULTS, "faults of this process' own work requests") \
	X(remote_faults, remote_faults, FAULTS, "faults of requests that came from a peer") \
	X(failed_faults, failed_faults, FAULTS, "faults that found no memory, so that the request failed") \
	X(invalidations, invalidations, EVENTS, "events that dropped at least one page") \
	X(prefetches, prefetches, REQUESTS, "requests to prefetch, of one range each") \
	X(prefetch_hits, prefetch_hits, ACCESSES, "first accesses to a prefetched page: faults that were saved") \
	X(cache_hits, cache_hits, ACCESSES, "accesses, of up to a packet each, that found all pages present") \
	X(evictions, evictions, PAGES, "pages dropped to keep the bound on cached pages, or by a script") \
	X(retries, fault_retries, FAULTS, "faults repeated since the memory changed meanwhile") \
	X(lost_messages, lost_messages, MESSAGES, "messages of UC and UD that needed a page whose fault was waited for; nobody sends them again") \
	X(fault_ns, fault_ns, NS, "time that faults took, nanoseconds: resolving them, and a latency of the model; not what it took requests to come again")

/* Of the wire, since the port was opened */
#define TRACE_NET_COUNTERS(X) \
	X(tx_pkts, tx_packets, PACKETS, "packets sent") \
	X(tx_bytes, tx_bytes, BYTES, "bytes of the packets sent, from the BTH to the ICRC") \
	X(tx_dropped, tx_dropped, PACKETS, "packets that could not be sent") \
	X(tx_lane_pkts, tx_lane_packets, PACKETS, "of the packets sent, those that took shared memory") \
	X(rx_pkts, rx_packets, PACKETS, "packets received with a right ICRC") \
	X(rx_bytes, rx_bytes, BYTES, "bytes of the packets received") \
	X(rx_linux_flush, rx_linux_flush, PACKETS, "of the packets received, FLUSH requests with the ICRC that Linux computes for them") \
	X(rx_bad_icrc, rx_bad_icrc, PACKETS, "packets dropped for a wrong ICRC") \
	X(rx_malformed, rx_malformed, PACKETS, "packets dropped since they are none of RoCEv2") \
	X(rx_no_owner, rx_no_owner, PACKETS, "packets dropped since they are for nobody here") \
	X(rx_forwarded, rx_forwarded, PACKETS, "packets handed on to other processes of this host") \
	X(tx_impaired, tx_impaired, PACKETS, "packets to be sent that --impair or --inject lost") \
	X(rx_impaired, rx_impaired, PACKETS, "packets that came in and --impair or --inject lost")
/* clang-format on */

/* X(id, name): of a device, in the order and by the names of rdma_rxe (rxe_hw_counters.c) */
#define TRACE_HW_COUNTERS(X)                                                             \
	X(SENT_PKTS, "sent_pkts")                                                        \
	X(RCVD_PKTS, "rcvd_pkts")                                                        \
	X(DUP_REQ, "duplicate_request")                                                  \
	X(OUT_OF_SEQ_REQ, "out_of_seq_request")                                          \
	X(RCV_RNR, "rcvd_rnr_err")                                                       \
	X(SND_RNR, "send_rnr_err")                                                       \
	X(RCV_SEQ_ERR, "rcvd_seq_err")                                                   \
	X(SENDER_SCHED, "ack_deferred")                                                  \
	X(RETRY_EXCEEDED, "retry_exceeded_err")                                          \
	X(RNR_RETRY_EXCEEDED, "retry_rnr_exceeded_err")                                  \
	X(COMP_RETRY, "completer_retry_err")                                             \
	X(SEND_ERR, "send_err")                                                          \
	X(LINK_DOWNED, "link_downed")                                                    \
	X(RDMA_SEND, "rdma_sends")                                                       \
	X(RDMA_RECV, "rdma_recvs")                                                       \
	X(SENT_BYTES, "sent_bytes")                                                      \
	X(RCVD_BYTES, "rcvd_bytes")

#define X(member, name, unit, text) TRACE_ODP_##member,
enum trace_odp_counter { TRACE_ODP_COUNTERS(X) TRACE_N_ODP };
#undef X
#define X(member, name, unit, text) TRACE_NET_##member,
enum trace_net_counter { TRACE_NET_COUNTERS(X) TRACE_N_NET };
#undef X
#define X(id, name) TRACE_HW_##id,
enum trace_hw_counter { TRACE_HW_COUNTERS(X) TRACE_N_HW };
#undef X

/* A structure whose members are the counters of a list, in its order */
#define TRACE_COUNTER_MEMBER(member, name, unit, text) uint64_t member;

#endif
