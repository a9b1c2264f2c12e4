/*
 * diagnose.h - finds words for what went wrong: notes about keys, requests and attributes.
 *
 * All of it is called when something has failed already; nothing here changes what happens.
 */
#ifndef URXE_EMU_DIAGNOSE_H
#define URXE_EMU_DIAGNOSE_H

#include "emu/note.h"
#include "emu/transport_internal.h"

/*
 * struct trouble - what is wrong with an access to memory
 * @detail:	tells two from each other, see note.h
 */
struct trouble {
	enum trace_note_code cause;
	uint32_t detail;
	char text[416];
};

/*
 * struct emu_use - an access that a key is used for
 * @pd, @qp:	whose it is; @qp is NULL for a local one
 * @access:	rights that it needs; 0: to be read locally
 */
struct emu_use {
	const struct emu_pd *pd;
	const struct emu_qp *qp;
	uint32_t key;
	uint64_t va, len;
	int access;
};

/*
 * diagnose_key - which of key, PD, right and range is wrong, and by how much; where none is, it
 * was the memory
 */
void diagnose_key(struct emu_hca *hca, const struct emu_use *use, struct trouble *out);
/* The first entry of a scatter/gather list that may not be used with @access */
void diagnose_sg(const struct tr_sg *sg, int access, struct trouble *out);

/* The send request @w completes with @status, because of which the QP fails */
void diagnose_send(struct tr_qp *t, const struct tr_wqe *w, enum ibv_wc_status status);
/* The peer has not been ready for long, and is asked for ever */
void diagnose_long_rnr(struct tr_qp *t);
/* Send requests were completed without telling anybody, more than the queue has room for */
void diagnose_unsignaled(struct emu_qp *qp);

/* The responder refuses a request: @v is V_INVALID, V_ACCESS or V_OP */
void diagnose_request(struct tr_qp *t, const struct roce_hdr *h, uint32_t info,
		      uint32_t len, enum resp_verdict v);
/* The memory of the response to a READ, @len bytes at @va, cannot be read any more */
void diagnose_read(struct tr_qp *t, uint32_t rkey, uint64_t va, uint32_t len);
/* A packet for @qp was thrown away; what the user can do something about is noted */
void diagnose_drop(const struct emu_qp *qp, const struct net_rx *pkt,
		   const struct roce_hdr *h, enum trace_drop why);
/* A page fault puts off the first request */
void diagnose_fault(struct tr_qp *t, const struct odp_access *acc);

/*
 * A modify was refused with @err, before or after it came to the core. The attributes because of
 * which it was, IBV_QP_STATE for the transition
 */
uint32_t diagnose_modify(struct emu_qp *qp, const struct ibv_qp_attr *attr, int mask,
			 int err);
/* Requests are posted to a send queue that is not in RTS */
void diagnose_post(struct emu_qp *qp);
/* The MR that @want describes was not registered because of @err */
void diagnose_reg_mr(const struct emu_mr *want, int err);

#endif
