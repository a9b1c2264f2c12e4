/*
 * kit.h - what the programs of the checker's corpus share: a device, two connected RC queue pairs in
 * one process, and short ways to post and to wait.
 *
 * All that is opened here is closed by kit_close(), and right by every rule of the checker: so a
 * program shows its one fault and nothing else. What goes wrong that is not the subject ends
 * the program with exit code 1.
 */
#ifndef URXE_TESTS_CHECK_KIT_H
#define URXE_TESTS_CHECK_KIT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIT_PAGE 4096u

/*
 * struct kit - left sends, right receives
 * @send_wr, @recv_wr: depths asked for; @cqe: 0: enough for both
 * @timeout, @retry, @rnr_retry: of left; @access: of both QPs
 * @srq, @channel: of right's receives and of left's CQ, if made before kit_connect()
 * @gid_index: 1: ::1
 */
struct kit {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *left_cq, *right_cq;
	struct ibv_qp *left, *right;
	struct ibv_srq *srq;
	struct ibv_comp_channel *channel;
	uint32_t send_wr, recv_wr, send_room;
	int cqe;
	uint8_t timeout, retry, rnr_retry, rd_atomic;
	int access, gid_index;
	enum ibv_mtu mtu;
	enum ibv_qp_type type;
};

void check_that(bool ok, const char *what, int line);
#define NEED(x) check_that((x), #x, __LINE__)

/* The @nth device; the first one if there are not so many */
void kit_device_nth(struct kit *k, int nth);
/* The device, with what most programs want; then, what differs having been set, the QPs */
void kit_device(struct kit *k);
void kit_connect(struct kit *k);
/* One QP with @cq, and what makes it the peer of QP @peer */
struct ibv_qp *kit_qp(struct kit *k, struct ibv_cq *cq, struct ibv_srq *srq);
void kit_connect_qp(struct kit *k, struct ibv_qp *qp, uint32_t peer);
/* Both */
void kit_open(struct kit *k);
void kit_close(struct kit *k);
/* Parts of it */
void kit_srq(struct kit *k, uint32_t depth);
void kit_destroy_qps(struct kit *k);
void kit_to_error(struct ibv_qp *qp);
void kit_close_rest(struct kit *k);

/* Memory of its own mapping, zeroed */
char *kit_map(size_t len);
struct ibv_mr *kit_reg(struct kit *k, void *p, size_t len, int access);
void kit_dereg(struct ibv_mr *mr);

/* Post; 0 or the error number */
int kit_send(struct ibv_qp *qp, struct ibv_mr *mr, void *p, uint32_t len,
	     unsigned int flags);
int kit_recv(struct ibv_qp *qp, struct ibv_mr *mr, void *p, uint32_t len);
int kit_srq_recv(struct ibv_srq *srq, struct ibv_mr *mr, void *p, uint32_t len);
int kit_rdma(struct ibv_qp *qp, enum ibv_wr_opcode op, struct ibv_mr *mr, void *p,
	     uint32_t len, const void *remote, uint32_t rkey, unsigned int flags);

/* Wait for a completion, whatever its status; and for a good one */
struct ibv_wc kit_wait(struct ibv_cq *cq);
void kit_good(struct ibv_cq *cq);
void kit_sleep(unsigned int ms);
/* A clock, in us */
uint64_t kit_us(void);

/* @fn(@arg) in a thread, until it ends */
void kit_in_thread(void (*fn)(void *arg), void *arg);

#endif
