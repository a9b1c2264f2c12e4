/*
 * objects_fake.h - surroundings for the tests of the HCA's objects: rings from malloc, a
 * log of events, a transport that only notes what it is told, memory that is only
 * attributes.
 *
 * The fakes define tr_*() and odp_mr_*(), so the archives' own are not linked.
 */
#ifndef TESTS_OBJECTS_FAKE_H
#define TESTS_OBJECTS_FAKE_H

#include <check.h>
#include <errno.h>

#include "emu/qp.h"

#define FAKE_EVENTS 64

/* struct odp_mr - @attr: what it was made with */
struct odp_mr {
	struct odp_mr_attr attr;
	uint32_t refs;
	uint32_t key;
};

/*
 * struct fake - one HCA and what it did
 * @type, @cookie: async events in order, @events of them
 * @comp:	completion events; @comp_cookie of the last
 * @rings:	rings that exist; @ring_limit: how many more may be made, -1 without limit
 * @mrs:	struct odp_mr that exist
 * @odp_error:	what odp_mr_create() answers
 * @lease, @leases: the next QPN, and how many leases of 64 there are
 * @mcast_in, @mcast_out: joins and leaves; @mcast_error: the answer
 * @tr:		the last call to the transport, e.g. "rtr"; @tr_calls how many
 */
struct fake {
	struct emu_hca *hca;
	enum ibv_event_type type[FAKE_EVENTS];
	void *cookie[FAKE_EVENTS];
	int events;
	int comp;
	void *comp_cookie;
	int rings, ring_limit;
	int mrs, odp_error;
	struct odp_mr_attr last_attr;
	uint32_t lease;
	int leases;
	int mcast_in, mcast_out, mcast_error;
	uint64_t repair_at;
	const char *tr;
	int tr_calls;
	char line[256];
};

extern struct fake fake;

/*
 * A fresh HCA with GID 0 = 10.0.0.1, GID 1 = fe80::1; torn down with a check that nothing
 * is left
 */
void fake_setup(void);
void fake_teardown(void);

struct net_ip fake_v4(uint8_t a, uint8_t b, uint8_t c, uint8_t d);
struct net_ip fake_v6(uint8_t first, uint8_t last);
/* AH attributes from GID @sgid to @dst */
struct ibv_ah_attr fake_ah(uint8_t sgid, const struct net_ip *dst);

/* Made or the test fails */
struct emu_pd *fake_pd(void);
struct emu_cq *fake_cq(uint32_t cqe);
struct emu_mr *fake_mr(struct emu_pd *pd, uint64_t start, uint64_t len, int access);
struct emu_qp *fake_qp(enum ibv_qp_type type, struct emu_pd *pd, struct emu_cq *cq);
/* A RESET QP to @state, RESET to SQD, by modifies with what is required */
void fake_qp_to(struct emu_qp *qp, enum ibv_qp_state state);
/* Attributes that are all good; ah_attr from GID 0 to 10.0.0.2 */
struct ibv_qp_attr fake_qp_attr(void);

#endif
