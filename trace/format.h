/*
 * format.h - the layout of a segment: in shared memory while a process runs, as a file ever
 * after. See docs/trace.md.
 *
 *	header | ring of records | blocks of objects ...
 *
 * All numbers are in the byte order of the machine that wrote them. Offsets count from the
 * beginning of the file. The ring is a power of two of slots; record number n is in slot
 * n % slots as long as it was not overwritten. Blocks of objects are added behind while the
 * program makes objects, each twice as large as the one before.
 *
 * A slot is written by: sequence 2n+1, the record, sequence 2n+2. Who reads a record takes
 * the sequence before and after; an odd one, or two that differ, mean that it was being
 * written. Objects and counters have no such thing: each word of them is true by itself.
 */
#ifndef URXE_TRACE_FORMAT_H
#define URXE_TRACE_FORMAT_H

#include <stdatomic.h>
#include <stdbool.h>

#include "trace/kinds.h"

#define TRACE_MAGIC	   "URXEtrc\n"
#define TRACE_VERSION	   2
#define TRACE_HEADER_BYTES 4096
#define TRACE_BLOCKS	   24  /* of objects */
#define TRACE_FIRST_BLOCK  128 /* objects in the first of them */
#define TRACE_MAP_CELLS	   64  /* characters of a page map */
#define TRACE_MAX_SLOTS	   (1u << 28)

/*
 * struct trace_slot - a record in the ring
 * @seq:	see above
 * @time:	ns, CLOCK_MONOTONIC or the simulator's
 * @kind:	enum trace_kind
 * @device:	index of the device, 0 where it is about none
 * @thread:	gettid(2)
 * @payload:	struct trace_rec_KIND
 */
struct trace_slot {
	_Atomic uint64_t seq;
	_Atomic uint64_t time;
	_Atomic uint64_t what; /* kind: 16, device: 16, thread: 32 */
	_Atomic uint64_t payload[TRACE_PAYLOAD / 8];
};
_Static_assert(sizeof(struct trace_slot) == 64, "a cache line");

/*
 * struct trace_mr - a memory region
 * @counter:	as far as it is on-demand
 * @map:	its page table from outside: a character for some pages, see `urxe stat`
 * @page_size:	bytes
 * @latency:	of faults, ns
 */
struct trace_mr {
	uint64_t addr, length, iova;
	_Atomic uint64_t counter[TRACE_N_ODP];
	_Atomic uint64_t cached;
	uint64_t latency;
	uint32_t page_size, access, pd;
	uint8_t on_demand, implicit, writable, model;
	char map[TRACE_MAP_CELLS];
};

/*
 * struct trace_packet - the last packet one way
 * @count:	how many there were
 */
struct trace_packet {
	uint64_t time;
	uint32_t psn;
	uint8_t opcode, syndrome, why, unused;
	uint64_t count;
};

/*
 * struct trace_queue - a send or receive queue
 * @depth:	requests that it has room for
 * @posted:	requests in it (of a receive queue: when it was last looked at, some times in a
 *		second, and at each message)
 * @taken:	of them, those that are under way
 * @wait:	enum trace_wait: what its head waits for, since @since (ns)
 * @wr_id, @opcode: of the head
 * @most:	of a send queue: requests that ever were in it at a doorbell
 */
struct trace_queue {
	uint32_t depth, posted, taken;
	uint8_t wait, opcode;
	uint16_t most;
	uint64_t since;
	uint64_t wr_id;
};

/*
 * struct trace_qp - a queue pair
 * @state:	enum ibv_qp_state, since @since (ns), by @cause (enum trace_cause)
 * @status:	of the completion that made it fail
 * @una, @next_psn, @max_psn, @epsn: sequence numbers, see transport_internal.h
 * @rnr_naks, @timeouts: since the last progress
 * @rnr_sent:	RNR NAKs sent; @rnr_since: the first of them since the last receive request
 *		was taken, 0: none
 * @entered:	when it entered each state the last time (ns), 0: never; by enum ibv_qp_state
 * @receives_since: since when there are receive requests and no message takes one (ns), 0: there
 *		are none; the first of them is @rq.wr_id
 */
#define TRACE_QP_STATES 7
struct trace_qp {
	uint64_t since;
	uint32_t peer, pd, send_cq, recv_cq, srq;
	uint8_t type, state, cause, status;
	uint8_t timeout, retry_cnt, rnr_retry, min_rnr_timer;
	uint8_t max_rd_atomic, max_dest_rd_atomic, retry_left, rnr_left;
	uint32_t mtu;
	struct trace_ip local, remote;
	struct trace_queue sq, rq;
	uint32_t una, next_psn, max_psn, epsn;
	uint32_t rnr_naks, timeouts;
	uint32_t rnr_sent, unused;
	uint64_t rnr_since;
	struct trace_packet out, in;
	uint64_t entered[TRACE_QP_STATES];
	uint64_t receives_since;
};

/*
 * struct trace_cq - a completion queue
 * @size:	completions that it has room for
 * @produced, @polled: how many there ever were; polled by verbs of libibverbs
 * @waiting:	since when some wait to be polled (ns), 0: none
 * @armed:	ibv_req_notify_cq, 2: for solicited ones only; @events: that it gave
 * @watched:	@polled is counted where the program polls; else it is what the queue said
 *		when the last completion came
 * @app:	the program's object, while it is watched
 * @vain:	polls that found it empty, while it is watched
 */
struct trace_cq {
	uint32_t size, users;
	_Atomic uint64_t produced, polled;
	uint64_t waiting, last;
	uint64_t events;
	_Atomic uint64_t app;
	uint8_t armed, overrun, watched, unused[5];
	_Atomic uint64_t vain;
};

/*
 * struct trace_srq - a shared receive queue
 * @left:	receive requests in it, when it was last looked at, as of a QP
 * @since, @wr_id: as @receives_since and the first of them of a QP
 */
struct trace_srq {
	uint32_t pd, size, limit, left;
	uint64_t since, wr_id;
};

/* struct trace_device - @counter: TRACE_HW_COUNTERS, and ours behind them */
struct trace_device {
	uint64_t guid;
	uint64_t counter[32];
	char ifname[16];
	uint32_t mtu, up;
};

/*
 * struct trace_cm_id - a connection identifier
 * @given:	events that the program has read
 * @local_id, @remote_id: of its messages
 * @protocol:	enum trace_cm_state, since @protocol_since
 * @type:	enum ibv_qp_type; @ps: RDMA_PS_
 * @state:	text of the state it is in (TRACE_ID_STATES), since @since (ns)
 * @passive:	a peer asked for it, by the listener @listener
 * @message:	the last one sent, @sent times, the first time at @first_sent
 * @give_up:	when hope for an answer ends (ns), 0: nothing is waited for
 * @came_message, @came_reason: the last one that came, at @came
 * @event, @event_status: the last event for the program, at @event_at
 * @queued:	events that it has not read, the oldest is @queued_event and came at @queued_since
 * @known_since: when the program has read that the peer asks, 0: not yet
 * @backlog:	requests that a listener may still queue; @not_taken: that came beyond it
 */
struct trace_cm_id {
	struct trace_ip local, remote;
	uint64_t since;
	uint32_t qpn, local_id, remote_id, given;
	uint16_t local_port, remote_port;
	uint8_t protocol, type;
	uint16_t ps;
	char state[16];
	uint64_t protocol_since;
	uint64_t first_sent, last_sent, give_up;
	uint64_t came, event_at, queued_since, known_since;
	uint32_t sent, queued, listener;
	int32_t event_status;
	uint32_t backlog, not_taken;
	uint16_t message, came_message, came_reason;
	uint8_t event, queued_event, passive, unused[7];
};

/*
 * struct trace_note - something that is wrong, in a sentence
 * @about, @about_id: enum trace_object_kind of what it is about, and its id
 * @cause:	enum trace_note_code
 * @count:	how often it happened, the last time at @last (ns); the first one is @created
 * @said:	the user was told on stderr
 */
struct trace_note {
	uint64_t last;
	uint32_t count, about_id;
	uint8_t about, cause, said, unused[5];
	char text[416];
};

#define TRACE_PATH   432 /* bytes of a path */
#define TRACE_FRAMES 16

/* struct trace_module - a file with code of the program, by its number */
struct trace_module {
	char path[TRACE_PATH];
};

/*
 * struct trace_stack - a call stack of the program, the innermost call first
 * @frame:	@n of them: the number of a module, 0: not known, and a return address as that file
 *		has it
 */
struct trace_stack {
	uint32_t n;
	struct {
		uint64_t addr;
		uint32_t module, unused;
	} frame[TRACE_FRAMES];
};

/*
 * struct trace_object - one object of the HCA
 * @kind:	enum trace_object_kind, written last when it is made
 * @id:		key of an MR, QPN, number of others
 * @device:	index of its device
 * @gone:	the program has destroyed it; its entry is kept for the report
 * @serial:	the order in which they were made
 * @created, @ended: ns
 * @name:	given by the program, or of the device
 */
struct trace_object {
	_Atomic uint32_t kind;
	uint32_t id;
	uint16_t device;
	uint8_t gone, unused[5];
	uint64_t serial;
	uint64_t created, ended;
	char name[32];
	union {
		struct trace_mr mr;
		struct trace_qp qp;
		struct trace_cq cq;
		struct trace_srq srq;
		struct trace_device dev;
		struct trace_cm_id cm;
		struct trace_note note;
		struct trace_module module;
		struct trace_stack stack;
		uint64_t room[55];
	};
};
_Static_assert(sizeof(struct trace_object) == 512, "objects have one size");

/* struct trace_block - objects in a row; @count is written last */
struct trace_block {
	uint64_t offset;
	_Atomic uint64_t count;
};

/*
 * enum trace_end - what is known of the end of the process
 * TRACE_RUNNING: nothing
 * TRACE_REPORTED: it wrote its report itself
 * TRACE_REPLACED: execve(2), or the engine was given up
 */
enum trace_end {
	TRACE_RUNNING,
	TRACE_REPORTED,
	TRACE_REPLACED,
};

/*
 * struct trace_header
 * @size:	of the whole file that its writer has allocated
 * @pid, @start:	process, and field 22 of its /proc/PID/stat, which tells it from another
 *		that got its id later
 * @mono, @real: CLOCK_MONOTONIC and CLOCK_REALTIME at one moment; 0 from a simulator
 * @kinds:	those that are recorded, a bit for each
 * @stats:	what --stats asked for
 * @elsewhere:	the path of the segment that is used instead of this one: a full trace
 * @next:	number of the next record; @lost: records whose slot was being written
 * @unlisted:	objects for which there was no room
 * @gone:	counters of MRs that are gone
 * @net:	TRACE_NET_COUNTERS
 * @left:	objects of verbs, by enum trace_object_kind, that the program has made and not
 *		destroyed; those that went with their device are among them
 * @completions, @most: of CQs and send queues that are gone: trace_cq.produced, added up, and
 *		the largest trace_queue.most
 * @ring_first:	number of the oldest record that the ring may have: it was made larger
 * @full_from, @full_until: times between which all kinds were recorded, where that was begun and
 *		ended in a program that ran already; 0: from its beginning, to its end
 * @asked:	a number of who wants it begun (even) or ended (odd), with @ask_slots records; @done:
 *		the same when that was done, or @refused (-errno)
 * @keep:	path of a copy that is to be made when the process has ended, or empty
 * @abandoned:	objects that went with a device that the program closed
 * @lease:	until when (CLOCK_MONOTONIC, ns) a trace that was begun from outside goes on, unless who
 *		watches it puts that off; 0: until it is ended
 * @rank:	what mpirun, srun or the like call the process, or empty
 */
struct trace_header {
	char magic[8];
	uint32_t version, header_bytes, slot_bytes, object_bytes;
	uint64_t size;
	uint64_t ring_offset, slots;
	int32_t pid;
	uint32_t uid;
	uint64_t start;
	uint64_t mono, real;
	uint64_t exe_dev, exe_ino;
	uint64_t kinds;
	char program[64], host[64];
	char elsewhere[1024];
	_Atomic uint32_t end;
	uint8_t uffd, full, unused[2];
	_Atomic uint64_t uffd_events;
	_Alignas(64) _Atomic uint64_t next;
	_Atomic uint64_t lost;
	_Alignas(64) _Atomic uint64_t serial;
	_Atomic uint64_t unlisted;
	struct trace_block block[TRACE_BLOCKS];
	_Alignas(64) _Atomic uint64_t gone[TRACE_N_ODP];
	uint64_t net[32];
	uint64_t left[16];
	_Atomic uint64_t completions, most;
	uint64_t ring_first, full_from, full_until;
	_Atomic uint32_t asked, done;
	int32_t refused;
	uint32_t unused2;
	uint64_t ask_slots;
	char keep[1024];
	uint64_t abandoned;
	char rank[12];
	_Atomic uint64_t lease;
};
_Static_assert(TRACE_N_OBJECTS <= 16, "a place for each");
_Static_assert(sizeof(struct trace_header) <= TRACE_HEADER_BYTES, "header");

#endif
