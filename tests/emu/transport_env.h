/*
 * transport_env.h - two HCAs joined in one process, for tests of the transport.
 *
 * Memory is plain process memory behind a stand-in for odp/, whose answers a test can
 * change (env.memory). The network is a queue; env.filter says how many copies of a
 * packet arrive. Time moves when env_run() has nothing else to do.
 */
#ifndef TESTS_TRANSPORT_ENV_H
#define TESTS_TRANSPORT_ENV_H

#include <check.h>
#include <errno.h>

#include "emu/qp.h"
#include "net/rocev2.h"

#define ENV_BUF	   (1u << 20)
#define ENV_EVENTS 64
#define MS	   1000000ull
#define US	   1000ull
#define ENV_LATE   (-1) /* of a filter: the packet arrives last of those under way */

/*
 * struct side - one HCA with one of everything
 * @buf:	ENV_BUF bytes, registered as @mr with all rights
 * @events:	asynchronous events as they came
 * @sent:	packets by opcode
 * @trace:	the last line for the user, of @lines
 */
struct side {
	struct emu_hca *hca;
	struct emu_pd *pd;
	struct emu_cq *scq, *rcq;
	struct emu_srq *srq;
	struct emu_mr *mr;
	struct emu_qp *qp;
	uint8_t *buf;
	struct net_ip ip;
	enum ibv_event_type event[ENV_EVENTS];
	uint32_t events;
	uint32_t sent[256];
	uint32_t lease;
	uint8_t mad[256];
	uint32_t mads;
	char trace[512];
	uint32_t lines;
};

/*
 * struct env
 * @filter:	copies that arrive of what @from sends (default 1), or ENV_LATE; may change
 *		bytes
 * @memory:	what an access of memory answers: 0, -EAGAIN (fill @acc), -EFAULT
 * @tx_room:	packets that the port takes before it is full, refilled by each round; 0:
 * no bound
 * @unread:	how often what was sent lies unread at the peer, when the core asks; it did @asked
 *		times, last for what was sent since @unread_since
 * @peer:	what the core is told of the QP at the other end
 * @lost:	messages that memory was told to be lost
 * @fold:	memory of an MR repeats itself after so many bytes; 0: it does not
 */
struct env {
	struct side a, b;
	uint64_t now;
	int (*filter)(struct side *from, const struct roce_hdr *h, uint8_t *data,
		      uint32_t len);
	int (*memory)(const uint8_t *addr, size_t len, bool write,
		      struct odp_access *acc);
	uint32_t tx_room;
	unsigned int lost;
	size_t fold;
	unsigned int unread, asked;
	uint64_t unread_since;
	struct emu_peer peer;
};

extern struct env env;

/* struct env_qp - how env_connect() makes the QPs; 0 stands for a usual value */
struct env_qp {
	enum ibv_qp_type type;
	enum ibv_mtu mtu;
	uint32_t psn;
	uint8_t timeout, retry_cnt, rnr_retry, rd_atomic, min_rnr_timer;
	bool no_retry, no_rnr_retry, srq, sig_all;
	uint32_t access;
	uint32_t max_wr;
	uint32_t max_sge;
};

void env_setup(void);
void env_teardown(void);
void env_connect(struct env_qp how);
/* a.qp's state, by its attributes */
void env_modify(struct side *s, enum ibv_qp_state state);
enum ibv_qp_state env_state(const struct side *s);

/* Deliver and let time pass until nothing is left to do, or until @ns have passed */
void env_run(uint64_t ns);

/* struct env_wr - a send request; its memory is s->buf + off */
struct env_wr {
	uint64_t id;
	int op;
	uint32_t flags;
	uint32_t len, off;
	uint32_t num_sge; /* len is divided among them; 0 is 1 */
	uint64_t remote;  /* offset in the peer's buffer */
	uint32_t rkey;	  /* 0: the peer's */
	uint32_t lkey;	  /* 0: ours */
	uint32_t imm;
	uint64_t compare, swap;
	bool no_sge;
};

struct rxe_send_wqe *env_slot(struct side *s);
void env_ring(struct side *s);
void env_post(struct side *s, struct env_wr wr);
void env_recv(struct side *s, uint64_t id, uint32_t off, uint32_t len);
/* The next completion of a CQ; false: none */
bool env_poll(struct emu_cq *cq, struct ib_uverbs_wc *wc);
/* There is one, with this id and status */
struct ib_uverbs_wc env_expect(struct emu_cq *cq, uint64_t id, enum ibv_wc_status status);
void env_expect_none(struct emu_cq *cq);
void env_fill(uint8_t *p, uint32_t len, uint32_t seed);
bool env_event(const struct side *s, enum ibv_event_type type);

#endif
