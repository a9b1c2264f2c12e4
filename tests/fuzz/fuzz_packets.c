/*
 * fuzz_packets.c - packets for live queue pairs: good ones with one thing changed, and any bytes;
 * between them requests are posted, time passes, and the other side answers.
 */
#include "emu/transport.h"
#include "net/rocev2.h"
#include "tests/emu/transport_forge.h"
#include "tests/fuzz/fuzz.h"

#define MS	 1000000ull
#define STEPS	 64
#define BYTES	 512
#define REQUESTS 200 /* that the rings have room for */
#define RECEIVES 60

static void raw(struct input *in)
{
	static uint8_t data[BYTES];
	struct net_path path = {.src = env.b.ip, .dst = env.a.ip};
	struct net_rx rx = {.path = &path, .data = data};

	rx.len = take16(in) % BYTES;
	take(in, data, rx.len);
	emu_hca_rx(env.a.hca, &rx);
	env_run(0);
}

/* The fields of a packet; what is wrong with its place comes last, and mostly is nothing */
static void forged(struct input *in, struct side *to)
{
	struct side *from = to == &env.a ? &env.b : &env.a;
	uint32_t epsn, psn;
	struct roce_hdr h = {0};
	struct wrong how = {0};
	uint16_t len;
	uint8_t odd;

	tr_qp_query_psn(to->qp, &psn, &epsn);
	h.opcode = take8(in);
	h.psn = roce_psn_add((h.opcode & 0x1f) >= ROCE_READ_RESP_FIRST &&
				     (h.opcode & 0x1f) <= ROCE_ATOMIC_ACK
				 ? psn
				 : epsn,
			     (uint32_t)(int8_t)take8(in));
	odd = take8(in);
	h.se = odd & 1;
	h.ack_req = odd & 2;
	h.mig = odd & 4;
	h.syndrome = take8(in);
	h.msn = take8(in);
	h.va = (uintptr_t)to->buf + take32(in) % (2 * ENV_BUF);
	h.rkey = emu_mr_rkey(to->mr) ^ (odd & 8 ? 1 : 0);
	h.dma_len = take32(in) >> (odd >> 4);
	h.qkey = odd & 16 ? take32(in) : 0x1234;
	h.sqpn = emu_qp_num(from->qp);
	h.swap_add = take8(in);
	h.inv_rkey = h.rkey;
	len = take16(in) % 4200;
	if (take8(in) == 1) {
		how.src = take8(in);
		how.dst = take8(in);
		how.pkey = take16(in);
		how.cut = take8(in) % 16;
		h.tver = take8(in) & 15;
	}
	inject(to, h, len, how);
}

static void request(struct input *in, struct side *s)
{
	static const int op[] = {IBV_WR_RDMA_WRITE,
				 IBV_WR_RDMA_WRITE_WITH_IMM,
				 IBV_WR_SEND,
				 IBV_WR_SEND_WITH_IMM,
				 IBV_WR_RDMA_READ,
				 IBV_WR_ATOMIC_CMP_AND_SWP,
				 IBV_WR_ATOMIC_FETCH_AND_ADD,
				 IBV_WR_SEND_WITH_INV,
				 IBV_WR_LOCAL_INV,
				 IBV_WR_BIND_MW,
				 IBV_WR_ATOMIC_WRITE,
				 14 /* FLUSH */,
				 77};
	struct env_wr wr = {.op = op[take8(in) % (sizeof(op) / sizeof(op[0]))]};

	wr.flags = take8(in) & (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	wr.len = take16(in) % 9000;
	wr.off = take16(in);
	wr.remote = take16(in);
	env_post(s, wr);
}

/* Whether it is allowed is the QP's business */
static void modify(struct input *in, struct side *s)
{
	struct ibv_qp_attr at = {.qp_state = take8(in) % (IBV_QPS_ERR + 1)};

	if (at.qp_state != IBV_QPS_RESET)
		emu_qp_modify(s->qp, &at, IBV_QP_STATE);
}

static void any_filter(struct input *in)
{
	env.filter = take8(in) % 2 ? lost : NULL;
}

static void steps(struct input *in)
{
	unsigned int posted[2] = {0}, received[2] = {0}, i, side;
	struct side *s;

	for (i = 0; i < STEPS && in->n; i++) {
		uint8_t what = take8(in);

		side = what >> 7;
		s = side ? &env.b : &env.a;
		switch (what % 8) {
		case 0:
			raw(in);
			break;
		case 1:
		case 2:
			forged(in, s);
			break;
		case 3:
			if (posted[side]++ < REQUESTS)
				request(in, s);
			break;
		case 4:
			if (received[side]++ < RECEIVES)
				env_recv(s, i, take16(in), take16(in) % 5000);
			break;
		case 5:
			env_run(take8(in) * MS);
			break;
		case 6:
			any_filter(in);
			break;
		default:
			modify(in, s);
			break;
		}
		if (s->events > ENV_EVENTS / 2)
			s->events = 0;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const enum ibv_qp_type type[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC,
						IBV_QPT_UD};
	struct input in = {data, size};
	uint8_t how = take8(&in);

	env_setup();
	env_connect((struct env_qp){.type = type[how % 4],
				    .psn = 0xffffff - how / 4 % 4,
				    .srq = how & 16,
				    .timeout = 10,
				    .retry_cnt = 1,
				    .rnr_retry = 1,
				    .sig_all = true});
	steps(&in);
	env_run(100 * MS);
	env_teardown();
	return 0;
}
