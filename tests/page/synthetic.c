/*
 * synthetic.c - traces of a conversation that never was, of any size.
 *
 * usage: synthetic EVENTS OUT-A OUT-B [SKEW-NS|simulator]
 *
 * Two processes on hosts a and b exchange messages of three packets; each hundredth packet is lost
 * and sent again after a timeout, each fiftieth message finds no receive request. The clock of b
 * is ahead by SKEW-NS. The clock of a simulator is that of no host, and begins with 0.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"
#include "trace/recorder.h"

#define QPN_A 0x11
#define QPN_B 0x22
#define MR    0x77
#define PAGE  4096ull
#define BASE  0x7f0000000000ull

/* struct side - one process: its recorder, and how far its clock is ahead */
struct side {
	struct recorder *r;
	uint64_t ahead;
	uint32_t qpn, peer;
};

static struct side open_side(const char *path, const char *host, uint64_t events,
			     uint64_t ahead, bool simulator)
{
	struct recorder_cfg cfg = {.path = path,
				   .slots = 1,
				   .full = true,
				   .mono = simulator ? 0 : 1000000000,
				   .real = simulator ? 0 : 1700000000000000000ull};
	struct side s = {.ahead = ahead};

	while (cfg.slots < events)
		cfg.slots *= 2;
	if (recorder_open(&cfg, &s.r)) {
		fprintf(stderr, "%s cannot be made\n", path);
		exit(1);
	}
	snprintf(s.r->hdr->host, sizeof(s.r->hdr->host), "%s", host);
	snprintf(s.r->hdr->program, sizeof(s.r->hdr->program), "synthetic-%s", host);
	return s;
}

static void begin_side(struct side *s, uint64_t now)
{
	struct trace_object *o = recorder_object(s->r);

	o->id = MR;
	o->created = now + s->ahead;
	o->mr.addr = o->mr.iova = BASE;
	o->mr.length = 256 * PAGE;
	o->mr.page_size = PAGE;
	o->mr.access = 0x40;
	o->mr.on_demand = 1;
	recorder_object_ready(o, TRACE_OBJ_MR);
	TRACE(s->r, now + s->ahead, reg_mr, .addr = BASE, .length = 256 * PAGE,
	      .iova = BASE, .mr = MR, .access = 0x40);
	TRACE(s->r, now + s->ahead, create_qp, .qpn = s->qpn, .type = 2,
	      .max_send_wr = 16, .sig_all = 1);
	TRACE(s->r, now + s->ahead, modify_qp, .qpn = s->qpn, .peer = s->peer,
	      .mask = 1 << 20, .to = 3);
	TRACE(s->r, now + s->ahead, qp_state, .qpn = s->qpn, .from = 2, .to = 3);
}

static void packet(struct side *from, struct side *to, uint64_t *now, uint8_t opcode,
		   uint32_t psn, uint32_t length, enum trace_why why, bool lost)
{
#define PACKET                                                                           \
	.qpn = from->qpn, .peer = to->qpn, .psn = psn, .opcode = opcode,                 \
	.why = (uint8_t)why, .length = length
	if (why == TRACE_WHY_RETRY_TIMEOUT)
		TRACE(from->r, *now + from->ahead, packet_again, PACKET);
	else
		TRACE(from->r, *now + from->ahead, packet_out, PACKET);
	*now += 400;
	if (!lost)
		TRACE(to->r, *now + to->ahead, packet_in, .qpn = to->qpn,
		      .peer = from->qpn, .psn = psn, .opcode = opcode, .length = length);
	*now += 100;
#undef PACKET
}

static void rnr(struct side *from, struct side *to, uint64_t *now, uint32_t psn)
{
	TRACE(from->r, *now + from->ahead, nak_out, .qpn = from->qpn, .peer = to->qpn,
	      .psn = psn, .opcode = 0x11, .syndrome = 0x2c, .why = TRACE_WHY_RNR);
	*now += 400;
	TRACE(to->r, *now + to->ahead, nak_in, .qpn = to->qpn, .peer = from->qpn,
	      .psn = psn, .opcode = 0x11, .syndrome = 0x2c);
	*now += 640000;
}

/* A message with all that belongs to it: about 17 records */
static void message(struct side *a, struct side *b, uint64_t *now, uint64_t *seed,
		    uint32_t number)
{
	static const uint8_t op[] = {0, 1, 2}; /* SEND_FIRST, MIDDLE, LAST */
	uint32_t psn = number * 3 & 0xffffff;

	TRACE(a->r, *now + a->ahead, post_send, .wr_id = number, .qpn = a->qpn,
	      .opcode = 2, .num_sge = 1, .length = 3072, .number = number);
	TRACE(a->r, *now + a->ahead, begin_send, .wr_id = number, .qpn = a->qpn,
	      .psn = psn, .packets = 3, .number = number, .length = 3072, .opcode = 2);
	for (uint32_t i = 0; i < 3; i++) {
		bool lost = splitmix_next(seed) % 100 == 0;

		packet(a, b, now, op[i], psn + i, 1024, TRACE_WHY_FIRST, lost);
		if (lost) {
			*now += 4000000;
			TRACE(a->r, *now + a->ahead, timer, .qpn = a->qpn, .psn = psn + i,
			      .timer = TRACE_TIMER_ACK, .retries_left = 6);
			packet(a, b, now, op[i], psn + i, 1024, TRACE_WHY_RETRY_TIMEOUT,
			       false);
		}
		if (!i && number % 50 == 7)
			rnr(b, a, now, psn);
		if (!i)
			TRACE(b->r, *now + b->ahead, take_receive, .wr_id = number,
			      .qpn = b->qpn, .num_sge = 1, .left = 100 - number % 100,
			      .length = 4096);
	}
	if (number % 64 == 3)
		TRACE(b->r, *now + b->ahead, fault,
		      .addr = BASE + number / 64 % 256 * PAGE, .duration = 20000,
		      .mr = MR, .pages = 1, .made = 1, .write = 1, .remote = 1);
	if (number % 1024 == 1000)
		TRACE(b->r, *now + b->ahead, invalidate, .addr = BASE,
		      .length = 64 * PAGE, .pages = 64, .mr = MR);
	TRACE(b->r, *now + b->ahead, completion, .wr_id = number, .qpn = b->qpn, .cq = 2,
	      .opcode = 128, .receive = 1, .length = 3072, .unpolled = 1);
	packet(b, a, now, 0x11, psn + 2, 0, TRACE_WHY_ACK, false);
	TRACE(a->r, *now + a->ahead, completion, .wr_id = number, .qpn = a->qpn, .cq = 1,
	      .length = 3072, .unpolled = number % 5);
	TRACE(a->r, *now + a->ahead, poll, .cq = 1, .count = 1);
	*now += 500;
}

int main(int argc, char **argv)
{
	uint64_t events = argc > 3 ? strtoull(argv[1], NULL, 10) : 0, now = 2000000000;
	uint64_t skew = argc > 4 ? strtoull(argv[4], NULL, 10) : 0, seed = 1;
	bool simulator = argc > 4 && !strcmp(argv[4], "simulator");
	struct side a, b;
	uint32_t number = 0;

	if (!events) {
		fputs("usage: synthetic EVENTS OUT-A OUT-B [SKEW-NS|simulator]\n",
		      stderr);
		return 2;
	}
	a = open_side(argv[2], "a", events, 0, simulator);
	b = open_side(argv[3], "b", events, skew, simulator);
	now = simulator ? 0 : now;
	a.qpn = b.peer = QPN_A;
	b.qpn = a.peer = QPN_B;
	begin_side(&a, now);
	begin_side(&b, now);
	while (a.r->hdr->next + b.r->hdr->next < events)
		message(&a, &b, &now, &seed, number++);
	recorder_end(a.r, TRACE_REPORTED);
	recorder_end(b.r, TRACE_REPORTED);
	recorder_close(a.r);
	recorder_close(b.r);
	return 0;
}
