/*
 * Description: the codec of RoCEv2 headers against bytes written out by hand, against
 * itself for every opcode, and against every kind of nonsense.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/rocev2.h"
#include "tests/check_main.h"

START_TEST(write_only_imm_has_the_bytes_of_the_spec)
{
	/* BTH, RETH, ImmDt as in IBTA vol. 1 figures 97, 101 and 105 */
	static const uint8_t want[32] = {0x0b, 0xd0, 0xff, 0xff, 0xc0, 0x12, 0x34, 0x56,
					 0x80, 0xab, 0xcd, 0xef, 0x01, 0x02, 0x03, 0x04,
					 0x05, 0x06, 0x07, 0x08, 0x0a, 0x0b, 0x0c, 0x0d,
					 0x00, 0x00, 0x10, 0x01, 0xde, 0xad, 0xbe, 0xef};
	struct roce_hdr h = {
	    .opcode = ROCE_RC | ROCE_WRITE_ONLY_IMM,
	    .se = true,
	    .mig = true,
	    .pad = 1,
	    .pkey = 0xffff,
	    .fecn = true,
	    .becn = true,
	    .dqpn = 0x123456,
	    .ack_req = true,
	    .psn = 0xabcdef,
	    .va = 0x0102030405060708,
	    .rkey = 0x0a0b0c0d,
	    .dma_len = 0x1001,
	};
	uint8_t got[ROCE_HDR_MAX];

	memcpy(&h.imm_be, (uint8_t[]){0xde, 0xad, 0xbe, 0xef}, 4);
	ck_assert_uint_eq(roce_build(got, &h), sizeof(want));
	ck_assert_mem_eq(got, want, sizeof(want));
}
END_TEST

/* struct lengths - bytes of all headers, per opcode, from the tables of the spec */
static const struct {
	uint8_t opcode;
	uint32_t len;
} lengths[] = {
    {ROCE_RC | ROCE_SEND_FIRST, 12},
    {ROCE_RC | ROCE_SEND_LAST_IMM, 16},
    {ROCE_RC | ROCE_SEND_ONLY_INV, 16},
    {ROCE_RC | ROCE_WRITE_FIRST, 28},
    {ROCE_RC | ROCE_WRITE_ONLY_IMM, 32},
    {ROCE_RC | ROCE_READ_REQ, 28},
    {ROCE_RC | ROCE_READ_RESP_FIRST, 16},
    {ROCE_RC | ROCE_READ_RESP_MIDDLE, 12},
    {ROCE_RC | ROCE_ACK, 16},
    {ROCE_RC | ROCE_ATOMIC_ACK, 24},
    {ROCE_RC | ROCE_CMP_SWAP, 40},
    {ROCE_RC | ROCE_FETCH_ADD, 40},
    {ROCE_RC | ROCE_FLUSH, 32},
    {ROCE_RC | ROCE_ATOMIC_WRITE, 28},
    {ROCE_UC | ROCE_WRITE_ONLY, 28},
    {ROCE_UD | ROCE_SEND_ONLY, 20},
    {ROCE_UD | ROCE_SEND_ONLY_IMM, 24},
    {ROCE_XRC | ROCE_SEND_ONLY, 16},
    {ROCE_XRC | ROCE_WRITE_ONLY_IMM, 36},
    {ROCE_XRC | ROCE_CMP_SWAP, 44},
    {ROCE_XRC | ROCE_ACK, 16},
    {0x81, 12},
    {ROCE_RC | 0x15, 12}, /* reserved: to be answered */
    {ROCE_RC | 0x1f, 12},
    {ROCE_XRC | 0x18, 12},
    {ROCE_UC | 0x15, 0},
    {ROCE_UD | 0x1f, 0},
    {ROCE_UC | ROCE_READ_REQ, 0},
    {ROCE_UC | ROCE_SEND_ONLY_INV, 0},
    {ROCE_UD | ROCE_SEND_FIRST, 0},
    {ROCE_RD | ROCE_SEND_ONLY, 0},
    {0x80, 0},
    {0xff, 0},
};

START_TEST(header_lengths_are_those_of_the_spec)
{
	uint32_t len;

	roce_opcode_info(lengths[_i].opcode, &len);
	ck_assert_uint_eq(len, lengths[_i].len);
	ck_assert_int_eq(!roce_opcode_info(lengths[_i].opcode, NULL), !len);
}
END_TEST

static uint32_t rnd(unsigned int *seed)
{
	return (uint32_t)rand_r(seed) << 16 ^ (uint32_t)rand_r(seed);
}

static void random_headers(struct roce_hdr *h, uint8_t opcode, unsigned int *seed)
{
	size_t i;

	for (i = 0; i < sizeof(*h); i++)
		((uint8_t *)h)[i] = (uint8_t)rnd(seed);
	h->opcode = opcode;
	h->se = rnd(seed) & 1;
	h->mig = rnd(seed) & 1;
	h->fecn = rnd(seed) & 1;
	h->becn = rnd(seed) & 1;
	h->ack_req = rnd(seed) & 1;
	h->pad &= 3;
	h->tver &= 0xf;
	h->dqpn &= ROCE_QPN_MASK;
	h->psn &= ROCE_PSN_MASK;
	h->xrc_srqn &= ROCE_QPN_MASK;
	h->sqpn &= ROCE_QPN_MASK;
	h->flush_type &= 0xf;
	h->flush_level &= 3;
	h->msn &= 0xffffff;
}

START_TEST(what_is_built_is_parsed_again)
{
	uint8_t opcode = (uint8_t)_i, a[ROCE_HDR_MAX + 8], b[ROCE_HDR_MAX];
	uint32_t flags, hdr_len, payload_len;
	unsigned int seed = (unsigned int)_i;
	const uint8_t *payload;
	struct roce_hdr h, out;
	int round;

	flags = roce_opcode_info(opcode, &hdr_len);
	if (!flags)
		return;
	ck_assert_uint_le(hdr_len, ROCE_HDR_MAX);
	for (round = 0; round < 50; round++) {
		random_headers(&h, opcode, &seed);
		ck_assert_uint_eq(roce_build(a, &h), hdr_len);
		memset(&out, 0, sizeof(out));
		ck_assert_int_eq(roce_parse(a, hdr_len + 8, &out, &payload, &payload_len),
				 0);
		ck_assert_uint_eq(payload_len, 8u - h.pad);
		ck_assert_ptr_eq(payload, a + hdr_len);
		ck_assert_uint_eq(roce_build(b, &out), hdr_len);
		ck_assert_mem_eq(a, b, hdr_len);
	}
}
END_TEST

/* The end of a page behind which there is nothing: who reads on is killed */
static uint8_t *end_of_memory(void)
{
	long page = sysconf(_SC_PAGESIZE);
	uint8_t *p = mmap(NULL, (size_t)page * 2, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(p, MAP_FAILED);
	ck_assert_int_eq(mprotect(p + page, (size_t)page, PROT_NONE), 0);
	return p + page;
}

START_TEST(short_and_overpadded_packets_are_refused)
{
	uint8_t opcode = (uint8_t)_i, *end = end_of_memory(), *p;
	uint32_t len, hdr_len, payload_len;
	const uint8_t *payload;
	struct roce_hdr h;

	roce_opcode_info(opcode, &hdr_len);
	for (len = 0; len <= ROCE_HDR_MAX + 4; len++) {
		p = end - len;
		memset(p, 0, len);
		if (len) {
			p[0] = opcode;
			ck_assert_int_eq(roce_parse(p, len, &h, &payload, &payload_len),
					 hdr_len && len >= hdr_len ? 0 : -EPROTO);
		}
		if (len > 1) {
			p[1] = 0x30; /* pad 3 */
			ck_assert_int_eq(roce_parse(p, len, &h, &payload, &payload_len),
					 hdr_len && len >= hdr_len + 3 ? 0 : -EPROTO);
		}
	}
	munmap(end - sysconf(_SC_PAGESIZE), (size_t)sysconf(_SC_PAGESIZE) * 2);
}
END_TEST

START_TEST(psns_compare_in_a_circle)
{
	ck_assert_int_eq(roce_psn_cmp(5, 5), 0);
	ck_assert_int_lt(roce_psn_cmp(5, 6), 0);
	ck_assert_int_lt(roce_psn_cmp(0xffffff, 0), 0);
	ck_assert_int_gt(roce_psn_cmp(3, 0xfffffe), 0);
	ck_assert_uint_eq(roce_psn_add(0xffffff, 2), 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rocev2");
	TCase *t = tcase_create("codec");

	tcase_add_test(t, write_only_imm_has_the_bytes_of_the_spec);
	tcase_add_loop_test(t, header_lengths_are_those_of_the_spec, 0,
			    sizeof(lengths) / sizeof(lengths[0]));
	tcase_add_loop_test(t, what_is_built_is_parsed_again, 0, 256);
	tcase_add_loop_test(t, short_and_overpadded_packets_are_refused, 0, 256);
	tcase_add_test(t, psns_compare_in_a_circle);
	suite_add_tcase(s, t);
	return check_main(s);
}
