/*
 * Description: addresses of rdma_cm in each of their families, what the kernel is asked about them, and
 * whose a message of the connection manager is.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emu/cm.h"
#include "emu/cm_mad.h"
#include "net/port.h"
#include "tests/check_main.h"
#include "verbs/ucma/ucma_internal.h"

static union ucma_addr v4(const char *text, uint16_t port)
{
	union ucma_addr a = {.in = {.sin_family = AF_INET, .sin_port = htons(port)}};

	ck_assert_int_eq(inet_pton(AF_INET, text, &a.in.sin_addr), 1);
	return a;
}

static union ucma_addr v6(const char *text, uint16_t port)
{
	union ucma_addr a = {.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};

	ck_assert_int_eq(inet_pton(AF_INET6, text, &a.in6.sin6_addr), 1);
	return a;
}

static union ucma_addr ib(uint64_t sid, uint64_t mask)
{
	union ucma_addr a;

	memset(&a, 0, sizeof(a));
	a.sa.sa_family = UCMA_AF_IB;
	a.ib.sid_be = htobe64(sid);
	a.ib.sid_mask_be = htobe64(mask);
	return a;
}

START_TEST(what_is_any_address_and_what_is_loopback)
{
	static const struct {
		const char *text;
		bool zero, loopback;
	} c[] = {
	    {"0.0.0.0", true, false},	       {"0.255.255.255", true, false},
	    {"1.0.0.0", false, false},	       {"127.0.0.1", false, true},
	    {"127.255.255.255", false, true},  {"128.0.0.1", false, false},
	    {"126.255.255.255", false, false},
	};
	union ucma_addr a;

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		a = v4(c[i].text, 1);
		ck_assert_msg(ucma_addr_is_zero(&a) == c[i].zero, "%s", c[i].text);
		ck_assert_msg(ucma_addr_is_loopback(&a) == c[i].loopback, "%s",
			      c[i].text);
	}
	a = v6("::", 1);
	ck_assert(ucma_addr_is_zero(&a) && !ucma_addr_is_loopback(&a));
	a = v6("::1", 1);
	ck_assert(!ucma_addr_is_zero(&a) && ucma_addr_is_loopback(&a));
	a = ib(1, 1);
	ck_assert(ucma_addr_is_zero(&a) && !ucma_addr_is_loopback(&a));
	a.ib.addr.b[15] = 1;
	ck_assert(!ucma_addr_is_zero(&a));
	a.sa.sa_family = AF_UNIX;
	ck_assert(!ucma_addr_is_zero(&a) && !ucma_addr_is_loopback(&a));
	ck_assert_uint_eq(ucma_addr_size(&a), 0);
}
END_TEST

/* The port of an AF_IB address is what its mask leaves of the service ID. */
START_TEST(ports_are_read_and_written)
{
	union ucma_addr a[] = {v4("10.0.0.1", 0x1234), v6("fe80::1", 0x1234),
			       ib(0x01061234, UINT64_MAX)};

	for (size_t i = 0; i < 3; i++) {
		ck_assert_uint_eq(ucma_addr_port(&a[i]), 0x1234);
		ucma_addr_set_port(&a[i], 0xfedc);
		ck_assert_uint_eq(ucma_addr_port(&a[i]), 0xfedc);
	}
	ck_assert_uint_eq(be64toh(a[2].ib.sid_be), 0x0106fedc);
	a[2] = ib(0x01061234, ~0xffull);
	ck_assert_uint_eq(ucma_addr_port(&a[2]), 0x1200);
	a[2] = ib(0x01061234, ~0xffffull);
	ck_assert_uint_eq(ucma_addr_port(&a[2]), 0);
	ucma_addr_set_port(&a[2], 7);
	ck_assert_uint_eq(be64toh(a[2].ib.sid_be), 0x01060007);
	ck_assert_uint_eq(a[2].ib.sid_mask_be, UINT64_MAX);
}
END_TEST

START_TEST(addresses_become_gids_and_back)
{
	union ucma_addr a = v4("10.1.2.3", 7), b;
	struct net_ip ip = ucma_addr_ip(&a);

	ck_assert(net_ip_is_v4(&ip) && ip.b[12] == 10 && ip.b[15] == 3);
	ucma_addr_set_ip(&b, AF_INET, &ip, 7);
	ck_assert_mem_eq(&a.in, &b.in, sizeof(a.in));
	a = v6("fe80::1:2", 7);
	ip = ucma_addr_ip(&a);
	ucma_addr_set_ip(&b, AF_INET6, &ip, 7);
	ck_assert_mem_eq(&a.in6, &b.in6, sizeof(a.in6));
}
END_TEST

static unsigned int open_files(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* What the program's own port is does not matter: it may be taken by a socket of others. */
START_TEST(a_way_is_found_and_the_port_kept)
{
	union ucma_addr own = v4("127.0.0.1", 0), dst = v4("127.0.0.9", 80), src, there;
	socklen_t len = sizeof(own);
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	unsigned int before;

	ck_assert_int_eq(bind(s, &own.sa, sizeof(own.in)), 0);
	ck_assert_int_eq(getsockname(s, &own.sa, &len), 0);
	before = open_files();
	src = own;
	ck_assert(ucma_addr_is_local(&src));
	ck_assert_int_eq(ucma_route(&src, &dst), 0);
	ck_assert_uint_eq(ucma_addr_port(&src), ucma_addr_port(&own));
	src = v4("0.0.0.0", 99);
	ck_assert_int_eq(ucma_route(&src, &dst), 0);
	ck_assert_uint_eq(ucma_addr_port(&src), 99);
	ck_assert(ucma_addr_is_loopback(&src));
	there = v4("192.0.2.77", 0);
	ck_assert(!ucma_addr_is_local(&there));
	ck_assert_int_eq(ucma_route(&there, &dst), -EADDRNOTAVAIL);
	/* a way to a family that is another one */
	src = v4("127.0.0.1", 5);
	there = v6("::1", 1);
	ck_assert_int_lt(ucma_route(&src, &there), 0);
	ck_assert_uint_eq(ucma_addr_port(&src), 5);
	ck_assert_uint_eq(open_files(), before);
	close(s);
}
END_TEST

/* --- whose a message is ----------------------------------------------------------- */

#define ID_OF(slot) ((uint32_t)(slot) << EMU_CM_ID_BITS | 7)

START_TEST(a_message_goes_to_whose_number_it_has)
{
	static const struct {
		enum cm_attr attr;
		int slot;
	} c[] = {{CM_MRA, 3},  {CM_REJ, 3},  {CM_REP, 3},     {CM_RTU, 3},
		 {CM_DREQ, 3}, {CM_DREP, 3}, {CM_SIDR_REP, 5}};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct cm_msg m = {
		    .attr = c[i].attr, .local_id = ID_OF(5), .remote_id = ID_OF(3)};
		uint8_t mad[CM_MAD_LEN];

		cm_mad_build(mad, &m);
		ck_assert_msg(ucma_port_router(NULL, mad, sizeof(mad)) == c[i].slot, "%d",
			      c[i].attr);
	}
}
END_TEST

START_TEST(what_names_nobody_goes_to_all)
{
	struct cm_msg m = {.attr = CM_REJ, .local_id = ID_OF(5)};
	uint8_t mad[CM_MAD_LEN];

	cm_mad_build(mad, &m);
	ck_assert_int_eq(ucma_port_router(NULL, mad, sizeof(mad)), NET_GSI_ALL);
	ck_assert_int_eq(ucma_port_router(NULL, mad, sizeof(mad) - 1), NET_GSI_ALL);
	memset(mad, 0xff, sizeof(mad));
	ck_assert_int_eq(ucma_port_router(NULL, mad, sizeof(mad)), NET_GSI_ALL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ucma_addr");
	TCase *tc = tcase_create("ucma_addr");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, what_is_any_address_and_what_is_loopback);
	tcase_add_test(tc, ports_are_read_and_written);
	tcase_add_test(tc, addresses_become_gids_and_back);
	tcase_add_test(tc, a_way_is_found_and_the_port_kept);
	tcase_add_test(tc, a_message_goes_to_whose_number_it_has);
	tcase_add_test(tc, what_names_nobody_goes_to_all);
	suite_add_tcase(s, tc);
	return check_main(s);
}
