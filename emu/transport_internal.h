/*
 * transport_internal.h - the transport's own state: of a QP and of the HCA (transport.c,
 * requester.c, completer.c, responder*.c, resources.c, ud.c only).
 */
#ifndef URXE_EMU_TRANSPORT_INTERNAL_H
#define URXE_EMU_TRANSPORT_INTERNAL_H

#include <errno.h>

#include "emu/qp.h"
#include "emu/timer.h"
#include "emu/wqe.h"
#include "net/rocev2.h"

/*
 * Limits of what one QP has under way. A receiver on loopback has about 400 KiB of socket
 * buffer, and beyond 64 packets of 4 KiB nothing is gained.
 */
#define TR_WINDOW_BYTES (256u << 10)
#define TR_WINDOW_MAX	256u   /* packets */
#define TR_WINDOW_MIN	4u     /* after losses */
#define TR_BURST	32u    /* packets in one turn of a QP */
#define TR_BATCH_BYTES	65000u /* of packets that the port can send by one call */
#define TR_BATCH_MAX	64u
#define TR_RUN_BUDGET	256u /* packets in one tr_run() */
#define TR_RUN_TIMERS	64u  /* timers fired in one tr_run() */
#define TR_RUN_FLUSH	16u  /* receive queues in ERR looked at in one tr_run() */
#define TR_INFLIGHT_MIN 16u
#define TR_INFLIGHT_MAX 256u /* WQEs taken from the ring and not complete */
#define TR_HELD_MAX	256u /* packets that wait for a slow page fault */

/*
 * enum req_state - of the requester
 * REQ_OFF:	not in RTS or SQD: nothing is sent, responses are dropped
 * REQ_RUN:	sends what the window allows
 * REQ_RNR:	the responder was not ready, waits for its timer (IBTA 9.7.5.2.8)
 * REQ_MEM:	waits for a page fault at this side
 */
enum req_state {
	REQ_OFF,
	REQ_RUN,
	REQ_RNR,
	REQ_MEM,
};

/*
 * enum resp_state - of the responder
 * RESP_OFF:	not in RTR or later: requests are dropped
 * RESP_RUN:	the expected PSN may come
 * RESP_NAKED:	a sequence error was reported; no second NAK before the expected PSN has
 *		come (IBTA 9.7.5.2.2)
 * RESP_RNR:	likewise after an RNR NAK: what follows is dropped silently (9.7.5.2.8)
 * RESP_HELD:	a request waits for a page fault, and those behind it in @held
 * RESP_DYING:	a fatal NAK is to be sent, then the QP enters ERR
 */
enum resp_state {
	RESP_OFF,
	RESP_RUN,
	RESP_NAKED,
	RESP_RNR,
	RESP_HELD,
	RESP_DYING,
};

/*
 * enum resp_verdict - what executing a request came to
 * V_OK:	executed
 * V_DROP:	forget it, silently
 * V_RNR:	not ready: tr_resp.rnr_code
 * V_HOLD:	wait for a page fault, then do it again
 * V_INVALID, V_ACCESS, V_OP: fatal; NAK invalid request, remote access, remote
 *		operational error
 * V_GONE:	the QP entered ERR meanwhile
 */
enum resp_verdict {
	V_OK,
	V_DROP,
	V_RNR,
	V_HOLD,
	V_INVALID,
	V_ACCESS,
	V_OP,
	V_GONE,
};

/*
 * enum resp_refusal - what is wrong with a request that is V_INVALID
 * REFUSE_SEQUENCE: it does not continue the message at hand
 * REFUSE_RIGHT: qp_access_flags
 * REFUSE_LENGTH: its payload is not that of its place in a message
 * REFUSE_ROOM:	the message is longer than the receive request
 * REFUSE_DMA:	the packets have not the length that the first one said
 * REFUSE_DEPTH: more READs and atomics at once than max_dest_rd_atomic
 * REFUSE_ALIGN: an atomic at no multiple of 8
 * REFUSE_SGES:	(V_OP) the receive request has more SGEs than its queue
 * REFUSE_OTHER: a field has a value that it cannot have
 */
enum resp_refusal {
	REFUSE_OTHER,
	REFUSE_SEQUENCE,
	REFUSE_RIGHT,
	REFUSE_LENGTH,
	REFUSE_ROOM,
	REFUSE_DMA,
	REFUSE_DEPTH,
	REFUSE_ALIGN,
	REFUSE_SGES,
};

/* What message the responder is in the middle of */
enum resp_msg {
	MSG_NONE,
	MSG_SEND,
	MSG_WRITE,
};

/*
 * struct tr_res - a responder resource (IBTA 9.7.5.1.2): a READ, atomic, ATOMIC_WRITE or
 * FLUSH that was executed, kept to answer it again
 * @first_psn, @npsn: of the request as it came first
 * @cur, @end:	responses to be sent, as offsets from first_psn; equal when there are none
 * @sent:	so many of them were sent once, the first ones
 * @start:	where the request that is being answered began: its response is a FIRST
 * @va, @rkey, @len: READ
 * @orig:	atomic: what the memory held
 * @srqn:	XRC: names the PD
 * @answered:	all of the response was sent once, or given up
 * @again:	it was asked for again
 */
struct tr_res {
	uint64_t va;
	uint64_t orig;
	uint32_t rkey, len;
	uint32_t first_psn, npsn;
	uint32_t start, cur, end, sent;
	uint32_t msn;
	uint32_t srqn;
	uint8_t opcode; /* enum roce_op of the request */
	bool answered, again;
};

/* struct tr_held - a request that waits behind a page fault */
struct tr_held {
	struct tr_held *next;
	struct net_path path;
	uint32_t len;
	uint8_t data[];
};

/*
 * struct tr_req - requester and completer
 *
 * WQEs in flight are numbered: @head is the oldest that is not complete, @tail the next
 * to be taken from the ring; wqe[i & (wqe_size - 1)]. The ring's consumer index is that of
 * @head. Without memory for a wqe[], it is @spare.
 *
 * @cur, @cur_psn: the WQE to send from, and the packet in it. With PSNs:
 *		una <= PSN of (cur, cur_psn) <= max_psn <= next_psn
 * @una:	oldest PSN that is not acknowledged
 * @max_psn:	highest PSN sent, plus one
 * @next_psn:	that of the next WQE to be taken
 * @sg:		place in the SGEs, in packet @sg_psn of @cur, UINT32_MAX: not known
 * @stash:	@stash_len bytes of that packet, gathered before a page fault interrupted
 *		it
 * @window:	packets that may be under way now; @window_max without losses
 * @batch:	packets of the path MTU that the port sends by one call; one acknowledge
 *		is asked for each, and no batch is begun that the window would cut
 * @chunk:	packets that one READ request asks for at most
 * @why:	what was sent before is sent again
 * @unasked:	packets sent since one asked for an acknowledge
 * @rd_out:	READs and atomics under way
 * @recovering:	a loss was concluded from a response; another conclusion says nothing
 *		before something was acknowledged
 * @no_new:	SQD: take no more WQEs
 * @primed:	the PSNs were set since RESET
 * @rnr_since:	when the first of @rnr_naks came (ns)
 * @ghosts:	acknowledges of nothing that is outstanding, since the last progress; the last
 *		one had @ghost_psn, @ghost_syndrome
 * @seq_naks:	NAKs (PSN sequence error) of what is outstanding, since then
 * @silent:	requests completed without a completion since the last one with it
 * @hdr:	of the packet of a SEND or WRITE that is made; what all of one turn have in common is
 *		set once
 * @unshown:	packets of SENDs and WRITEs that were sent since the recorder was told; the last one
 *		was @last_psn, @last_op, @last_why
 */
struct tr_req {
	enum req_state state;
	uint32_t head, tail, cur;
	uint32_t cur_psn;
	uint32_t una, max_psn, next_psn;
	uint32_t sg_psn;
	struct tr_cursor sg;
	uint8_t *stash;
	uint32_t stash_len;
	uint32_t window, window_max, batch, chunk, grown;
	uint32_t unasked;
	uint32_t rd_out;
	uint32_t wqe_size;
	struct tr_wqe *wqe;
	struct tr_wqe spare;
	uint8_t retry_left, rnr_left;
	uint8_t why; /* enum trace_why */
	bool recovering;
	bool no_new;
	bool primed;
	uint32_t rnr_naks, timeouts; /* since the last progress, for the trace */
	uint64_t rnr_since;
	uint32_t ghosts, ghost_psn, seq_naks;
	uint32_t silent;
	uint8_t ghost_syndrome;
	struct roce_hdr hdr;
	uint32_t unshown, last_psn;
	uint8_t last_op, last_why;
	struct tr_timer ack_timer;
	uint64_t armed;		    /* when @ack_timer was started last */
	struct tr_timer wait_timer; /* REQ_RNR, REQ_MEM */
	struct odp_waiter fault;    /* REQ_MEM */
};

/*
 * struct tr_resp - responder
 * @epsn:	expected PSN
 * @refusal:	of the request at hand, if it is V_INVALID
 * @looked_into: refused requests since RESET whose reason was looked for
 * @msn:	messages completed, modulo 2^24
 * @rwqe:	the receive WQE in use, if @rwqe_held; @rcur and @rlen: how far it is
 *		filled
 * @rsrqn:	XRC: the SRQ that it is from
 * @va, @rkey, @resid, @dma_len: the WRITE in progress
 * @res:	responder resources, a ring: @res_count from @res_first on
 * @res_due:	how many of them have responses to be sent; the first of these is
 *		@res_next or later (counted from @res_first)
 * @ack_due:	acknowledge @epsn - 1 when all responses are out
 * @nak:	syndrome of a NAK to be sent then, 0 for none; @nak_psn, @nak_msn
 * @gap:	@gap_psn, the highest, and maybe others behind @epsn were dropped because
 *		one was missing; when @epsn has not moved by @gap_until, a NAK says so
 * @event:	RESP_DYING: asynchronous event of the QP, 0 for none
 * @rnr_code:	timer of the RNR NAK that is about to be sent
 * @waiting:	the responses wait for a page fault
 * @fault:	who waits for the end of a fault of a request, @read_fault: of the responses
 * @slow_since:	when the first of these waits that are going on began (ns), 0: none is
 * @pressed:	the requester has asked again for what waits: it is told to be patient
 * @comm_est:	IBV_EVENT_COMM_EST was raised
 * @drop_msg:	UC: what is left of a message that lacks a packet is dropped
 * @unready_until: a READ that was seen before was answered with an RNR NAK, whose wait ends then,
 *		at @unready_psn
 * @mute_until:	ODP_FAULT_DAMMING: requests that come before are lost
 * @held:	RESP_HELD: requests in the order in which they came
 */
struct tr_resp {
	enum resp_state state;
	enum resp_msg msg;
	enum resp_refusal refusal;
	uint8_t looked_into;
	uint32_t epsn, msn;
	struct emu_recv_wqe *rwqe;
	uint32_t rsrqn;
	struct tr_cursor rcur;
	uint32_t rlen, rpart;
	uint64_t va;
	uint32_t rkey, resid, dma_len;
	struct tr_res *res;
	uint32_t res_size, res_first, res_count, res_due, res_next;
	uint32_t nak_psn, nak_msn;
	uint32_t gap_psn;
	uint64_t gap_until;
	int event;
	uint8_t nak, rnr_code;
	bool ack_due;
	bool gap;
	bool rwqe_held, resume;
	bool waiting;
	bool comm_est;
	bool drop_msg;
	struct tr_held *held, **held_tail;
	uint32_t held_count;
	uint32_t faults; /* requests put off by page faults */
	uint64_t mute_until, unready_until;
	uint32_t unready_psn;
	struct tr_timer timer; /* RESP_HELD, @waiting or @gap */
	struct odp_waiter fault, read_fault;
	uint64_t slow_since;
	bool pressed;
};

/*
 * struct tr_qp - the transport's state of a QP
 * @next:	in the ready list, if @ready
 * @posted:	producer index of the send ring at the last doorbell
 */
struct tr_qp {
	struct emu_qp *qp;
	struct tr_qp *next, *prev;
	bool ready;
	bool flush_listed;
	uint32_t posted;
	struct tr_qp *flush_next, *flush_prev;
	struct tr_req req;
	struct tr_resp resp;
};

/* struct tr_incoming - a packet, taken apart */
struct tr_incoming {
	const struct net_rx *pkt;
	struct roce_hdr h;
	uint32_t info;
	const uint8_t *payload;
	uint32_t len;
};

/*
 * struct emu_transport - the transport's state of an HCA
 * @ready:	QPs that may have something to send, a ring through tr_qp.next
 * @flush:	QPs in ERR with a receive queue, that the application may go on to fill
 * @port:	when a port that is held down comes up again
 * @traced:	each packet is recorded
 * @in:		two, so that one can be taken apart while the other is the last that came
 * @last_in:	the last one of @unshown packets that came for @in_qp, of which the recorder was not
 *		told yet; NULL: none
 */
struct emu_transport {
	struct emu_hca *hca;
	bool traced;
	struct tr_incoming in[2], *last_in;
	struct emu_qp *in_qp;
	uint32_t unshown;
	struct tr_qp *ready;
	struct tr_qp *flush, *flush_last;
	struct tr_timers timers;
	struct tr_timer port;
};

/*
 * enum tr_step - what sending one packet came to
 * TR_SENT:	go on
 * TR_IDLE:	nothing to be done until something happens
 * TR_FULL:	the port has no room
 */
enum tr_step {
	TR_SENT,
	TR_IDLE,
	TR_FULL,
};

static inline struct tr_qp *tr_of(const struct emu_qp *qp)
{
	return qp->tr.priv;
}

static inline struct tr_wqe *req_wqe(const struct tr_req *req, uint32_t seq)
{
	return &req->wqe[seq & (req->wqe_size - 1)];
}

/* Index in the send ring of the WQE in flight number @seq */
static inline uint32_t req_ring_index(const struct tr_qp *t, uint32_t seq)
{
	return t->qp->sq.local + (seq - t->req.head);
}

static inline uint32_t psn_diff(uint32_t a, uint32_t b)
{
	return (a - b) & ROCE_PSN_MASK;
}

/* The PSN that is sent next */
static inline uint32_t req_cur_psn(const struct tr_req *req)
{
	if (req->cur == req->tail)
		return req->next_psn;
	return roce_psn_add(req_wqe(req, req->cur)->first_psn, req->cur_psn);
}

static inline bool tr_reliable(const struct emu_qp *qp)
{
	return qp->type == IBV_QPT_RC || qp->type == IBV_QPT_XRC_SEND ||
	       qp->type == IBV_QPT_XRC_RECV;
}

/* transport.c */
/* Put the QP where tr_run() finds it. */
void tr_sched(struct tr_qp *t);
/* A header for the peer of a connected QP; @op: enum roce_op */
void tr_hdr(const struct emu_qp *qp, struct roce_hdr *h, uint8_t op);
/*
 * tr_tx_open - room for a packet with header @h and @len bytes of payload; the header and
 * the pad are written, the payload is returned. NULL: no room. tr_tx_close() sends it.
 */
uint8_t *tr_tx_open(struct emu_hca *hca, const struct net_path *path, struct roce_hdr *h,
		    uint32_t len, uint32_t *total);
/* @h, @len: what tr_tx_open() was given; @why: it is sent */
void tr_tx_close(struct emu_qp *qp, const struct roce_hdr *h, uint32_t len,
		 uint32_t total, enum trace_why why);
/* The same for what there are many of in one turn: the recorder hears of the last one */
void tr_tx_close_data(struct tr_qp *t, uint32_t len, uint32_t total, enum trace_why why);
/* A packet for @qp (or NULL) is thrown away */
void tr_dropped(struct emu_hca *hca, const struct emu_qp *qp, const struct net_rx *pkt,
		const struct roce_hdr *h, enum trace_drop why);
/* IBTA table 46: nanoseconds of an RNR timer code; the code that lasts at least @ns */
uint64_t tr_rnr_ns(uint8_t code);
uint8_t tr_rnr_code(uint64_t ns);

/* requester.c */
void req_reset(struct tr_qp *t);
void req_start(struct tr_qp *t);
void req_sqd(struct tr_qp *t);
void req_enter(struct tr_qp *t, enum req_state state, uint64_t until);
/* Send up to @budget packets. TR_SENT: the budget ended it, more is to be sent. */
enum tr_step req_run(struct tr_qp *t, uint32_t *budget);
/* Go back to @una and send from there again. */
void req_rewind(struct tr_qp *t);
void req_wait_done(struct tr_timer *timer);
void req_fault_over(struct odp_waiter *w);
void req_arm_ack_timer(struct tr_qp *t);

/* What a requester does when the memory of @w gave @err */
enum tr_step req_memory_error(struct tr_qp *t, struct tr_wqe *w, int err,
			      const struct odp_access *acc);
enum tr_step req_wqe_failed(struct tr_qp *t, struct tr_wqe *w, enum ibv_wc_status status);
/* Account for @n PSNs that were sent from the cursor on. */
void req_sent(struct tr_qp *t, const struct tr_wqe *w, uint32_t n);

/* The payload of packet @k goes to @data. 0 or an error of sg_read() */
int req_gather(struct tr_qp *t, const struct tr_wqe *w, uint32_t k, uint8_t *data,
	       uint32_t len, struct odp_access *acc);

/* ud.c */
enum tr_step ud_send(struct tr_qp *t, struct tr_wqe *w);
void ud_rx(struct tr_qp *t, const struct net_rx *pkt, const struct roce_hdr *h,
	   uint32_t info, const uint8_t *payload, uint32_t len);
void ud_gsi_rx(struct emu_hca *hca, const struct net_rx *pkt, const struct roce_hdr *h,
	       uint32_t info, const uint8_t *payload, uint32_t len);

/* completer.c */
void comp_rx(struct tr_qp *t, const struct roce_hdr *h, uint32_t info,
	     const uint8_t *payload, uint32_t len);
/* Complete WQEs from the head on that have nothing outstanding. */
void comp_retire(struct tr_qp *t);
void comp_flush(struct tr_qp *t);
void comp_timeout(struct tr_timer *timer);

/* responder.c */
void resp_reset(struct tr_qp *t);
void resp_start(struct tr_qp *t);
void resp_flush(struct tr_qp *t);
/* A packet that is good came: COMM_EST, if it is the first */
void resp_communication(struct tr_qp *t);
void resp_rx(struct tr_qp *t, const struct net_rx *pkt, const struct roce_hdr *h,
	     uint32_t info, const uint8_t *payload, uint32_t len);
/* Put the request, and those that follow, aside until a page fault is over. */
void resp_wait(struct tr_qp *t, const struct net_rx *pkt);
/*
 * The acknowledge, or NAK, that ends what is due when all responses are out; one packet
 */
enum tr_step resp_ack(struct tr_qp *t);
void resp_timer(struct tr_timer *timer);
void resp_start_timer(struct tr_qp *t, uint64_t when);
/* The end of a fault that a request, or the responses, waited for */
void resp_fault_over(struct odp_waiter *w);
void resp_read_fault_over(struct odp_waiter *w);
/*
 * 9.9.3: errors of classes A and C; the QP fails once the requester has been told.
 * @reported: by a completion, so that no event is needed
 */
void resp_fatal(struct tr_qp *t, enum resp_verdict v, uint32_t psn, bool reported);
/* The QP fails once what was executed has been answered; the requester is told nothing more. */
void resp_die(struct tr_qp *t);

/*
 * responder_receive.c, for the responder and for ud.c: resp_take_wqe() makes sure that there is a
 * receive WQE in use, resp_scatter() fills it, resp_complete_recv() ends it.
 */
enum resp_verdict resp_take_wqe(struct tr_qp *t, uint32_t srqn);
/*
 * A message begins: fill the receive WQE from its start, unless it goes on after a page
 * fault.
 */
void resp_rewind_recv(struct tr_resp *resp);
enum resp_verdict resp_scatter(struct tr_qp *t, const uint8_t *data, uint32_t len);
/* @wc has what is particular to the message: status, opcode, lengths, flags */
void resp_complete_recv(struct tr_qp *t, struct ib_uverbs_wc *wc, bool solicited);
/* Complete the receive WQE in use with an error, which makes an event needless */
void resp_report_recv(struct tr_qp *t, enum ibv_wc_status status, uint32_t wc_opcode);
/* The SRQ that a request takes from, NULL for the QP's own queue */
struct emu_srq *resp_srq(const struct emu_qp *qp, uint32_t srqn);
/*
 * Complete what the application posts to a receive queue in ERR. True if there was
 * something.
 */
bool resp_flush_rq(struct tr_qp *t);

/* responder_faults.c */
/* Memory is not there yet. What to do is the fault model's business. */
enum resp_verdict resp_defer(struct tr_qp *t, const struct odp_access *acc);
/* Is it time to tell a requester that asks again to be patient? */
bool resp_impatient(struct tr_qp *t);
/* A fault is over: if it was the last whose end was not known, nothing of it stays */
void resp_faults_over(struct tr_resp *resp);
void resp_forget_faults(struct tr_qp *t);

/* responder_execute.c */
/*
 * Judge a request whose PSN is the expected one, and execute it. @info: its opcode's properties;
 * @data, @len: its payload
 */
enum resp_verdict resp_execute(struct tr_qp *t, const struct roce_hdr *h, uint32_t info,
			       const uint8_t *data, uint32_t len);
/*
 * struct resp_remote - remote memory of a request: @va, @rest bytes of which are still to
 * come
 */
struct resp_remote {
	uint32_t rkey;
	uint64_t va;
	uint32_t rest;
	int access;
};
/* 0 with the MR in @mem. The key is checked each time: it can be revoked in between. */
int resp_remote_get(struct tr_qp *t, const struct resp_remote *r, uint32_t srqn,
		    struct emu_mem *mem);
/* V_INVALID, and why */
static inline enum resp_verdict resp_invalid(struct tr_qp *t, enum resp_refusal why)
{
	t->resp.refusal = why;
	return V_INVALID;
}

/* resources.c */
/* Forget what was executed; res_reset() frees its memory as well. */
void res_forget(struct tr_resp *resp);
void res_reset(struct tr_resp *resp);
/* PSNs of the response to a READ of @len bytes */
uint32_t res_psns(const struct emu_qp *qp, uint32_t len);
/* A request that is answered with data. V_OK: its response is due */
enum resp_verdict res_execute(struct tr_qp *t, const struct roce_hdr *h,
			      const uint8_t *data, uint32_t len);
/*
 * Answer again, if this was executed not too long ago. False: what it asks for was never sent,
 * since a page fault came in between
 */
bool res_duplicate(struct tr_qp *t, const struct roce_hdr *h);
/* Send up to @budget responses. */
enum tr_step res_run(struct tr_qp *t, uint32_t *budget);

#endif
