/* hca.c - see hca.h. */
#include <arpa/inet.h>
#include <poll.h>

#include "hca.h"

void remake(struct lab *l, struct ibv_qp_init_attr attr)
{
	if (!attr.send_cq)
		attr.send_cq = l->cq;
	if (!attr.recv_cq)
		attr.recv_cq = l->cq;
	ck_assert_int_eq(ibv_destroy_qp(l->left), 0);
	ck_assert_int_eq(ibv_destroy_qp(l->right), 0);
	l->left = ibv_create_qp(l->pd, &attr);
	l->right = ibv_create_qp(l->pd, &attr);
	ck_assert(l->left && l->right);
	lab_connect(l);
}

const struct ibv_qp_init_attr usual = {
    .qp_type = IBV_QPT_RC,
    .cap = {.max_send_wr = 64,
	    .max_recv_wr = 64,
	    .max_send_sge = SGES,
	    .max_recv_sge = SGES,
	    .max_inline_data = 64},
};

struct ibv_qp_attr query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	ck_assert_int_eq(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr;
}

bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

struct ibv_async_event expect_event(struct lab *l, enum ibv_event_type type)
{
	struct ibv_async_event ev;

	ck_assert_msg(readable(l->ctx->async_fd, 10000), "no event, expected %s",
		      ibv_event_type_str(type));
	ck_assert_int_eq(ibv_get_async_event(l->ctx, &ev), 0);
	ck_assert_msg(ev.event_type == type, "%s", ibv_event_type_str(ev.event_type));
	ibv_ack_async_event(&ev);
	return ev;
}

void expect_no_event(struct lab *l)
{
	ck_assert(!readable(l->ctx->async_fd, 20));
}

int try_post(struct lab *l, struct request r)
{
	struct ibv_sge sge = {
	    .addr = (uintptr_t)r.p, .length = r.len, .lkey = r.mr ? r.mr->lkey : 0};
	struct ibv_send_wr *bad, wr = {
				     .wr_id = r.id,
				     .sg_list = r.no_sge ? NULL : &sge,
				     .num_sge = !r.no_sge,
				     .opcode = r.op,
				     .send_flags = r.flags,
				     .imm_data = htonl(0x1234),
				 };

	if (r.op == IBV_WR_ATOMIC_CMP_AND_SWP || r.op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)r.rp;
		wr.wr.atomic.rkey = r.rmr ? r.rmr->rkey : 0;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)r.rp;
		wr.wr.rdma.rkey = r.rmr ? r.rmr->rkey : 0;
	}
	return ibv_post_send(l->left, &wr, &bad);
}

void post(struct lab *l, struct request r)
{
	ck_assert_int_eq(try_post(l, r), 0);
}

struct ibv_wc expect_wc(struct lab *l, enum ibv_wc_status status,
			enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc = lab_wait(l);

	ck_assert_msg(wc.status == status, "%s", ibv_wc_status_str(wc.status));
	if (!status)
		ck_assert_int_eq(wc.opcode, opcode);
	return wc;
}
