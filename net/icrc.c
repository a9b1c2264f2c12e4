/*
 * icrc.c - the invariant CRC, and how to check it without knowing the IP identification.
 *
 * Theory of operation
 *
 * The ICRC covers the IPv4 identification, which a UDP socket cannot see. A CRC is linear
 * over GF(2): two packets that differ in the identification only have ICRCs that differ by
 *
 *	id * x^32 * x^(8 n)  mod P
 *
 * where id is the difference as a polynomial of degree < 16, n the number of bytes behind
 * the identification and P the CRC's polynomial. P has the constant term 1, so x is
 * invertible, and multiplying the difference between the expected ICRC (for identification
 * 0) and the received one by x^-(32 + 8 n) gives back id - or, when the packet is damaged,
 * some polynomial of degree < 32, of which one in 2^16 passes for an identification. That
 * is one multiplication per packet, done only when identification 0 or k (a guess of the
 * caller's) does not fit already.
 *
 * In the same way the byte resv8a, which counts as ones whatever it is, is corrected in the
 * CRC of what comes before it, so that the packet is read as it is.
 *
 * Polynomials are kept as the reflected CRC keeps them: bit 31 is the coefficient of x^0.
 */
#include "net/icrc.h"

#include <isa-l/crc.h>

#include "net/ip_header.h"
#include "net/rocev2.h"

#define POLY	   0xedb88320u /* IEEE 802.3, reflected, without x^32 */
#define X_0	   0x80000000u /* the polynomial 1 */
#define BEHIND_ID  (IP4_HDR_LEN - IP4_ID_AT - 2 + UDP_HDR_LEN) /* bytes, up to the BTH */
#define BTH_RESV8A 4 /* offset; also holds FECN and BECN */
#define VARIANT	   0xff
/*
 * CRC of the 8 bytes of ones in the place of an InfiniBand LRH, as crc32_gzip_refl()
 * keeps it
 */
#define MASKED_LRH_CRC 0x2144df1cu
/* 0xff * x^-32: what a resv8a of 0 changes, see resv8a_delta() */
#define RESV8A_CLEAR 0xf6a70d9u

/*
 * isa-l's routine for AVX-512 leaves the upper halves of the registers in use, which makes
 * the SSE instructions that follow slow: tens of nanoseconds for each packet.
 */
static uint32_t crc(uint32_t seed, const uint8_t *data, uint64_t len)
{
	uint32_t r = crc32_gzip_refl(seed, data, len);

#ifdef __x86_64__
	if (__builtin_cpu_supports("avx"))
		__asm__ __volatile__("vzeroupper" ::: "memory");
#endif
	return r;
}

static uint32_t mul_x(uint32_t a)
{
	return a >> 1 ^ (POLY & -(a & 1));
}

static uint32_t div_x(uint32_t a)
{
	uint32_t odd = -(a >> 31);

	return (a ^ (POLY & odd)) << 1 | (odd & 1);
}

/* a * b mod P */
static uint32_t mul(uint32_t a, uint32_t b)
{
	uint32_t r = 0;

	for (; a; a <<= 1) {
		r ^= b & -(a >> 31);
		b = mul_x(b);
	}
	return r;
}

/* @base to the power of @n */
static uint32_t power(uint32_t base, uint32_t n)
{
	uint32_t r = X_0;

	for (; n; n >>= 1) {
		if (n & 1)
			r = mul(r, base);
		base = mul(base, base);
	}
	return r;
}

static uint32_t x_power8(bool inverse)
{
	uint32_t r = X_0;
	int i;

	for (i = 0; i < 8; i++)
		r = inverse ? div_x(r) : mul_x(r);
	return r;
}

/*
 * A 16-bit identification as a polynomial: the CRC takes its high byte first, each byte
 * from the least significant bit on, and the first bit is the highest power. Bits 16..31
 * of a reflected polynomial are the powers 15..0.
 */
static uint32_t id_to_poly(uint16_t id)
{
	return (uint32_t)(id >> 8) << 16 | (uint32_t)(id & 0xff) << 24;
}

uint32_t icrc_id_factor(uint32_t len)
{
	return power(x_power8(true), 4 + BEHIND_ID + len);
}

int32_t icrc_find_id(uint32_t diff, uint32_t factor)
{
	uint32_t poly = mul(diff, factor);

	if (poly & 0xffff)
		return -1;
	return (int32_t)((poly >> 16 & 0xff) << 8 | poly >> 24);
}

void icrc_id_table(uint32_t table[ICRC_MAX_ID])
{
	uint32_t factor = power(x_power8(false), 4 + BEHIND_ID);
	uint16_t id;

	for (id = 0; id < ICRC_MAX_ID; id++)
		table[id] = mul(id_to_poly(id), factor);
}

uint32_t icrc_id_delta(uint16_t id, uint32_t len)
{
	return mul(id_to_poly(id), power(x_power8(false), 4 + BEHIND_ID + len));
}

/* The IP header with what changes on the way masked; the identification is 0 */
static uint8_t *masked_ip(uint8_t *p, const struct net_path *path, uint32_t udp_len)
{
	uint8_t *end;

	if (!net_ip_is_v4(&path->dst))
		return ip6_header(p, path, VARIANT, VARIANT, IP6_FLOW_MAX, udp_len);
	end = ip4_header(p, path, VARIANT, VARIANT, 0, udp_len);
	put_be16(p + IP4_CHECK_AT, 0xffff);
	return end;
}

uint32_t icrc_prefix(const struct net_path *path, uint32_t len)
{
	uint32_t udp_len = UDP_HDR_LEN + len + ROCE_ICRC_LEN;
	uint8_t hdr[IP6_HDR_LEN + UDP_HDR_LEN], *p;

	p = masked_ip(hdr, path, udp_len);
	put_be16(p, path->sport);
	put_be16(p + 2, ROCE_UDP_PORT);
	put_be16(p + 4, (uint16_t)udp_len);
	put_be16(p + 6, 0xffff);
	return crc(MASKED_LRH_CRC, hdr, (uint64_t)(p + UDP_HDR_LEN - hdr));
}

/* What @resv8a, being there instead of ones, changes in the CRC up to the BTH */
static uint32_t resv8a_delta(uint8_t resv8a)
{
	if (!resv8a)
		return RESV8A_CLEAR;
	return mul(resv8a ^ VARIANT, power(x_power8(true), BTH_RESV8A));
}

uint32_t icrc_finish(uint32_t prefix, const uint8_t *data, uint32_t len)
{
	return crc(prefix ^ resv8a_delta(data[BTH_RESV8A]), data, len);
}

uint32_t icrc_compute(const struct net_path *path, uint16_t ip_id, const uint8_t *data,
		      uint32_t len)
{
	uint32_t prefix = icrc_prefix(path, len);

	if (ip_id && net_ip_is_v4(&path->dst))
		prefix ^= mul(id_to_poly(ip_id), power(x_power8(false), 4 + BEHIND_ID));
	return icrc_finish(prefix, data, len);
}

uint32_t icrc_linux_flush(uint32_t icrc, const uint8_t *data, uint32_t len)
{
	return crc(icrc, data, len);
}
