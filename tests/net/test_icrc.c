/*
 * Description: the ICRC against a plain bitwise CRC over a frame that is masked by hand,
 * and the check that does without the IP identification: every identification is
 * accepted, damage is found as often as promised, IPv6 is exact.
 */
#include <stdlib.h>

#include "net/icrc.h"
#include "net/rocev2.h"
#include "tests/check_main.h"

static const struct net_path path4 = {
    .src.b = {[10] = 0xff, [11] = 0xff, [12] = 10, 0, 0, 1},
    .dst.b = {[10] = 0xff, [11] = 0xff, [12] = 10, 0, 0, 2},
    .sport = 0xc123,
    .tclass = 0x20,
    .ttl = 17,
};
static const struct net_path path6 = {
    .src.b = {0xfe, 0x80, [15] = 1},
    .dst.b = {0xfe, 0x80, [15] = 2},
    .sport = 0xc123,
};

/* The textbook's CRC-32, one bit at a time */
static uint32_t crc32_bits(const uint8_t *p, size_t len)
{
	uint32_t crc = 0xffffffff;
	int i;

	while (len--) {
		crc ^= *p++;
		for (i = 0; i < 8; i++)
			crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
	}
	return ~crc;
}

/* Annex A17.3.3 to the letter: build the whole frame, overwrite what is variant, CRC */
static uint32_t reference(const struct net_path *path, uint16_t id, const uint8_t *data,
			  uint32_t len)
{
	bool v4 = net_ip_is_v4(&path->dst);
	uint32_t ip_len = v4 ? 20 : 40, udp_len = 8 + len + 4;
	uint8_t f[8 + 40 + 8 + 8192], *ip = f + 8, *udp = ip + ip_len, *bth = udp + 8;

	memset(f, 0xff, 8);
	memset(ip, 0, ip_len);
	if (v4) {
		ip[0] = 0x45;
		ip[1] = 0xff; /* TOS */
		ip[2] = (uint8_t)((20 + udp_len) >> 8);
		ip[3] = (uint8_t)(20 + udp_len);
		ip[4] = (uint8_t)(id >> 8);
		ip[5] = (uint8_t)id;
		ip[6] = 0x40; /* DF */
		ip[8] = 0xff; /* TTL */
		ip[9] = 17;
		ip[10] = ip[11] = 0xff; /* checksum */
		memcpy(ip + 12, path->src.b + 12, 4);
		memcpy(ip + 16, path->dst.b + 12, 4);
	} else {
		ip[0] = 0x6f; /* traffic class, flow label */
		ip[1] = ip[2] = ip[3] = 0xff;
		ip[4] = (uint8_t)(udp_len >> 8);
		ip[5] = (uint8_t)udp_len;
		ip[6] = 17;
		ip[7] = 0xff; /* hop limit */
		memcpy(ip + 8, path->src.b, 16);
		memcpy(ip + 24, path->dst.b, 16);
	}
	udp[0] = (uint8_t)(path->sport >> 8);
	udp[1] = (uint8_t)path->sport;
	udp[2] = 4791 >> 8;
	udp[3] = 4791 & 0xff;
	udp[4] = (uint8_t)(udp_len >> 8);
	udp[5] = (uint8_t)udp_len;
	udp[6] = udp[7] = 0xff;
	memcpy(bth, data, len);
	bth[4] = 0xff; /* resv8a */
	return crc32_bits(f, 8 + ip_len + 8 + len);
}

static void fill(uint8_t *p, uint32_t len, unsigned int seed)
{
	while (len--)
		*p++ = (uint8_t)(rand_r(&seed) >> 5);
}

START_TEST(agrees_with_a_frame_masked_by_hand)
{
	const struct net_path *path = _i & 1 ? &path6 : &path4;
	uint8_t data[4200];
	uint32_t len;

	for (len = ROCE_BTH_LEN; len <= sizeof(data); len += len < 64 ? 4 : 212) {
		fill(data, len, len);
		ck_assert_uint_eq(icrc_compute(path, 0, data, len),
				  reference(path, 0, data, len));
		ck_assert_uint_eq(icrc_finish(icrc_prefix(path, len), data, len),
				  reference(path, 0, data, len));
	}
	ck_assert_uint_eq(icrc_compute(&path4, 0xbeef, data, 256),
			  reference(&path4, 0xbeef, data, 256));
}
END_TEST

/* Does the ICRC behind the packet pass? A receiver does not see the identification of IPv4. */
static bool passes(const struct net_path *path, const uint8_t *data, uint32_t len)
{
	uint32_t diff = icrc_compute(path, 0, data, len) ^ icrc_load(data + len);

	return !diff ||
	       (net_ip_is_v4(&path->dst) && icrc_find_id(diff, icrc_id_factor(len)) >= 0);
}

START_TEST(every_identification_is_accepted_and_found)
{
	static const uint32_t lens[] = {12, 16, 28, 40, 256, 1040, 4112, 4140};
	uint32_t len = lens[_i], base, factor, id, icrc;
	uint8_t data[4200 + 4];

	fill(data, len, len);
	base = icrc_compute(&path4, 0, data, len);
	factor = icrc_id_factor(len);
	for (id = 0; id < 0x10000; id++) {
		icrc = icrc_compute(&path4, (uint16_t)id, data, len);
		ck_assert_int_eq(icrc_find_id(icrc ^ base, factor), (int32_t)id);
		icrc_store(data + len, icrc);
		if (!(id % 97))
			ck_assert(passes(&path4, data, len));
	}
	ck_assert_uint_eq(icrc, reference(&path4, 0xffff, data, len));
}
END_TEST

START_TEST(id_table_is_what_compute_says)
{
	uint32_t table[ICRC_MAX_ID], prefix;
	uint8_t data[200];
	uint16_t id;

	fill(data, sizeof(data), 1);
	icrc_id_table(table);
	prefix = icrc_prefix(&path4, sizeof(data));
	for (id = 0; id < ICRC_MAX_ID; id++)
		ck_assert_uint_eq(icrc_finish(prefix ^ table[id], data, sizeof(data)),
				  icrc_compute(&path4, id, data, sizeof(data)));
}
END_TEST

START_TEST(single_and_burst_errors_are_found)
{
	uint8_t data[64 + 4];
	uint32_t bit;
	int width;

	/*
	 * A burst of up to 16 bits is never a change of the identification, except the
	 * one that the identification itself would be: CRC-32 finds all bursts up to 32
	 * bits
	 */
	fill(data, 64, 3);
	icrc_store(data + 64, icrc_compute(&path4, 0x1234, data, 64));
	for (bit = 0; bit < 8 * sizeof(data); bit++) {
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		/* resv8a is no part of the ICRC */
		ck_assert_int_eq(passes(&path4, data, 64), bit / 8 == 4);
		data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	for (bit = 64; bit < 8 * 64 - 16; bit++)
		for (width = 2; width <= 16; width += 7) {
			data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			data[(bit + (uint32_t)width) / 8] ^=
			    (uint8_t)(1 << (bit + (uint32_t)width) % 8);
			ck_assert(!passes(&path4, data, 64));
			data[bit / 8] ^= (uint8_t)(1 << bit % 8);
			data[(bit + (uint32_t)width) / 8] ^=
			    (uint8_t)(1 << (bit + (uint32_t)width) % 8);
		}
}
END_TEST

START_TEST(garbage_passes_once_in_65536)
{
	unsigned int seed = 77, passed = 0, i;
	uint8_t data[64 + 4];
	enum { TRIES = 1 << 20 };

	fill(data, 64, 5);
	for (i = 0; i < TRIES; i++) {
		icrc_store(data + 64,
			   (uint32_t)rand_r(&seed) << 17 ^ (uint32_t)rand_r(&seed));
		passed += passes(&path4, data, 64);
	}
	/* 16 are expected; 5 sigma are 20 */
	ck_assert_uint_ge(passed, 1);
	ck_assert_uint_le(passed, 36);
}
END_TEST

START_TEST(ipv6_is_exact)
{
	unsigned int seed = 78, i;
	uint8_t data[64 + 4];
	uint32_t good;

	fill(data, 64, 5);
	good = icrc_compute(&path6, 0, data, 64);
	icrc_store(data + 64, good);
	ck_assert(passes(&path6, data, 64));
	ck_assert_uint_eq(icrc_compute(&path6, 0x1234, data, 64), good);
	for (i = 0; i < 1 << 20; i++) {
		uint32_t wrong = (uint32_t)rand_r(&seed) << 17 ^ (uint32_t)rand_r(&seed);

		icrc_store(data + 64, wrong);
		ck_assert_int_eq(passes(&path6, data, 64), wrong == good);
	}
}
END_TEST

START_TEST(each_part_of_the_path_counts)
{
	struct net_path p = path6;
	uint8_t data[64];
	uint32_t a;

	fill(data, 64, 9);
	a = icrc_compute(&p, 0, data, 64);
	p.tclass = 3, p.ttl = 5, p.flow = 7;
	ck_assert_uint_eq(icrc_compute(&p, 0, data, 64), a);
	p.sport ^= 1;
	ck_assert_uint_ne(icrc_compute(&p, 0, data, 64), a);
	p = path6;
	p.src.b[15] ^= 1;
	ck_assert_uint_ne(icrc_compute(&p, 0, data, 64), a);
	p = path6;
	p.dst.b[15] ^= 1;
	ck_assert_uint_ne(icrc_compute(&p, 0, data, 64), a);
}
END_TEST

/* Two FLUSH requests of Linux 7.2's rdma_rxe, from the wire: identifications 0x1b3f and 0x1b43 */
START_TEST(flush_of_linux)
{
	static const struct net_path path = {
	    .src.b = {[10] = 0xff, [11] = 0xff, [12] = 10, 88, 0, 2},
	    .dst.b = {[10] = 0xff, [11] = 0xff, [12] = 10, 88, 0, 1},
	    .sport = 0xf1aa,
	};
	static const struct {
		uint16_t id;
		uint8_t data[36];
	} seen[] = {
	    {0x1b3f,
	     {0x1c, 0x00, 0xff, 0xff, 0x00, 0x4e, 0x00, 0x00, 0x80, 0xbd, 0x7b, 0x12,
	      0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x7f, 0x3d, 0x44, 0x57, 0x80, 0x00,
	      0x00, 0x00, 0x01, 0x59, 0x00, 0x00, 0x00, 0x10, 0x58, 0x2f, 0x28, 0x65}},
	    {0x1b43,
	     {0x1c, 0x00, 0xff, 0xff, 0x00, 0x4e, 0x00, 0x00, 0x80, 0xbd, 0x7b, 0x12,
	      0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	      0x00, 0x00, 0x01, 0x59, 0x00, 0x00, 0x00, 0x10, 0x53, 0xcf, 0x31, 0xb9}},
	};
	const uint8_t *data = seen[_i].data;
	uint32_t right = icrc_compute(&path, 0, data, 32);

	ck_assert(!passes(&path, data, 32));
	ck_assert_uint_eq(
	    icrc_linux_flush(icrc_compute(&path, seen[_i].id, data, 32), data, 32),
	    icrc_load(data + 32));
	/* and without the identification */
	ck_assert_int_eq(
	    icrc_find_id(icrc_linux_flush(right, data, 32) ^ icrc_load(data + 32),
			 icrc_id_factor(64)),
	    seen[_i].id);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("icrc");
	TCase *t = tcase_create("icrc");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, agrees_with_a_frame_masked_by_hand, 0, 2);
	tcase_add_loop_test(t, every_identification_is_accepted_and_found, 0, 8);
	tcase_add_test(t, id_table_is_what_compute_says);
	tcase_add_test(t, single_and_burst_errors_are_found);
	tcase_add_test(t, garbage_passes_once_in_65536);
	tcase_add_test(t, ipv6_is_exact);
	tcase_add_test(t, each_part_of_the_path_counts);
	tcase_add_loop_test(t, flush_of_linux, 0, 2);
	suite_add_tcase(s, t);
	return check_main(s);
}
