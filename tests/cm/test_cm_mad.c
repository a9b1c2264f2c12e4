/*
 * Description: CM messages against bytes: each field where IBTA 12.6 puts it, and back.
 * Malformed messages are refused.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "emu/cm_mad.h"
#include "tests/check_main.h"

static const struct net_ip ip_a = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 1}};
static const struct net_ip ip_b = {.b = {[10] = 0xff, [11] = 0xff, 10, 0, 0, 2}};

static struct cm_msg sample_req(void)
{
	struct cm_msg m = {
	    .attr = CM_REQ,
	    .tid = 0x1122334455667788u,
	    .ece = 0x0a0b0c0d,
	    .local_id = 0xdeadbeef,
	    .req =
		{
		    .service_id = 0x01061234,
		    .ca_guid_be = htobe64(0x0102030405060708u),
		    .ece_vendor = 0x15b3,
		    .qpn = 0x123456,
		    .responder_resources = 7,
		    .initiator_depth = 9,
		    .remote_cm_timeout = 20,
		    .local_cm_timeout = 19,
		    .transport = CM_TRANSPORT_UC,
		    .flow_control = true,
		    .psn = 0xabcdef,
		    .retry_count = 6,
		    .pkey = 0xffff,
		    .mtu = 3,
		    .rnr_retry = 5,
		    .max_cm_retries = 15,
		    .srq = true,
		    .path = {.local_lid = 0xffff,
			     .remote_lid = 0xfffe,
			     .local_gid = ip_a,
			     .remote_gid = ip_b,
			     .flow_label = 0x54321,
			     .rate = 3,
			     .traffic_class = 0x68,
			     .hop_limit = 64,
			     .sl = 2,
			     .ack_timeout = 17},
		},
	};
	unsigned int i;

	for (i = 0; i < CM_PRIV_REQ; i++)
		m.priv[i] = (uint8_t)(i + 1);
	return m;
}

START_TEST(each_field_of_a_req_has_its_place)
{
	struct cm_msg m = sample_req();
	uint8_t mad[CM_MAD_LEN];
	const uint8_t head[24] = {1,	0x07, 2,    3,	  0,	0,    0,    0,
				  0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88,
				  0,	0x10, 0,    0,	  0x0a, 0x0b, 0x0c, 0x0d};
	const uint8_t body[52] = {0xde, 0xad, 0xbe,	  0xef,
				  0,	0,    0x15,	  0xb3,
				  0,	0,    0,	  0,
				  0x01, 0x06, 0x12,	  0x34,
				  1,	2,    3,	  4,
				  5,	6,    7,	  8,
				  0,	0,    0,	  0,
				  0,	0,    0,	  0,
				  0x12, 0x34, 0x56,	  7,
				  0,	0,    0,	  9,
				  0,	0,    0,	  20 << 3 | 1 << 1 | 1,
				  0xab, 0xcd, 0xef,	  19 << 3 | 6,
				  0xff, 0xff, 3 << 4 | 5, 15 << 4 | 8};

	cm_mad_build(mad, &m);
	ck_assert_mem_eq(mad, head, 24);
	ck_assert_mem_eq(mad + 24, body, 52);
	ck_assert_mem_eq(mad + 24 + 52, "\xff\xff\xff\xfe", 4);
	ck_assert_mem_eq(mad + 24 + 56, ip_a.b, 16);
	ck_assert_mem_eq(mad + 24 + 72, ip_b.b, 16);
	ck_assert_mem_eq(mad + 24 + 88, "\x54\x32\x10\x03\x68\x40\x20\x88", 8);
	ck_assert_uint_eq(mad[24 + 96], 0); /* no alternate path */
	ck_assert_uint_eq(mad[24 + 140], 1);
	ck_assert_uint_eq(mad[255], 92);
}
END_TEST

START_TEST(a_req_is_read_as_it_was_written)
{
	struct cm_msg m = sample_req(), out;
	uint8_t mad[CM_MAD_LEN], again[CM_MAD_LEN];

	cm_mad_build(mad, &m);
	ck_assert_int_eq(cm_mad_parse(mad, sizeof(mad), &out), 0);
	ck_assert_uint_eq(out.req.psn, 0xabcdef);
	ck_assert_uint_eq(out.req.path.flow_label, 0x54321);
	ck_assert_int_eq(out.req.transport, CM_TRANSPORT_UC);
	cm_mad_build(again, &out);
	ck_assert_mem_eq(mad, again, sizeof(mad));
}
END_TEST

START_TEST(xrc_is_extended_transport_1)
{
	struct cm_msg m = sample_req(), out;
	uint8_t mad[CM_MAD_LEN];

	m.req.transport = CM_TRANSPORT_XRC;
	cm_mad_build(mad, &m);
	ck_assert_uint_eq(mad[24 + 43] >> 1 & 3, 3);
	ck_assert_uint_eq(mad[24 + 51] & 7, 1);
	ck_assert_int_eq(cm_mad_parse(mad, sizeof(mad), &out), 0);
	ck_assert_int_eq(out.req.transport, CM_TRANSPORT_XRC);
	mad[24 + 51] = (uint8_t)((mad[24 + 51] & ~7) | 2);
	ck_assert_int_eq(cm_mad_parse(mad, sizeof(mad), &out), 0);
	ck_assert_int_eq(out.req.transport, CM_TRANSPORT_RD);
}
END_TEST

START_TEST(each_field_of_a_rep_has_its_place)
{
	struct cm_msg m = {.attr = CM_REP,
			   .local_id = 1,
			   .remote_id = 2,
			   .rep = {.qpn = 0x010203,
				   .eecn = 0x040506,
				   .psn = 0x070809,
				   .ece_vendor = 0xaabbcc,
				   .responder_resources = 10,
				   .initiator_depth = 11,
				   .ack_delay = 15,
				   .failover = 1,
				   .flow_control = true,
				   .rnr_retry = 7,
				   .srq = true,
				   .ca_guid_be = htobe64(0x1112131415161718u)},
			   .priv = {0x99}};
	const uint8_t body[37] = {0,
				  1 - 1,
				  0,
				  1,
				  0,
				  0,
				  0,
				  2,
				  0,
				  0,
				  0,
				  0,
				  1,
				  2,
				  3,
				  0xaa,
				  4,
				  5,
				  6,
				  0xbb,
				  7,
				  8,
				  9,
				  0xcc,
				  10,
				  11,
				  15 << 3 | 1 << 1 | 1,
				  7 << 5 | 1 << 4,
				  0x11,
				  0x12,
				  0x13,
				  0x14,
				  0x15,
				  0x16,
				  0x17,
				  0x18,
				  0x99};
	uint8_t mad[CM_MAD_LEN], again[CM_MAD_LEN];
	struct cm_msg out;

	cm_mad_build(mad, &m);
	ck_assert_uint_eq(mad[17], 0x13);
	ck_assert_mem_eq(mad + 24, body, sizeof(body));
	ck_assert_int_eq(cm_mad_parse(mad, sizeof(mad), &out), 0);
	cm_mad_build(again, &out);
	ck_assert_mem_eq(mad, again, sizeof(mad));
}
END_TEST

START_TEST(each_field_of_a_rej_has_its_place)
{
	struct cm_msg m = {.attr = CM_REJ,
			   .local_id = 1,
			   .remote_id = 2,
			   .rej = {.answered = CM_ANSWERED_REP,
				   .reason = 28,
				   .ari_len = 8,
				   .ari = {1, 2, 3, 4, 5, 6, 7, 8}},
			   .priv = {0x42}};
	uint8_t mad[CM_MAD_LEN];
	struct cm_msg out;

	cm_mad_build(mad, &m);
	ck_assert_uint_eq(mad[24 + 8], 1 << 6);
	ck_assert_uint_eq(mad[24 + 9], 8 << 1);
	ck_assert_uint_eq(mad[24 + 11], 28);
	ck_assert_uint_eq(mad[24 + 84], 0x42);
	/* A length that is longer than the field must not be believed. */
	mad[24 + 9] = 0xff;
	ck_assert_int_eq(cm_mad_parse(mad, sizeof(mad), &out), 0);
	ck_assert_uint_eq(out.rej.ari_len, CM_REJ_ARI_LEN);
	ck_assert_uint_eq(out.rej.reason, 28);
}
END_TEST

START_TEST(small_messages_are_read_as_they_were_written)
{
	static const struct cm_msg msgs[] = {
	    {.attr = CM_MRA,
	     .local_id = 1,
	     .remote_id = 2,
	     .mra = {.answered = CM_ANSWERED_REP, .service_timeout = 24}},
	    {.attr = CM_RTU, .local_id = 3, .remote_id = 4, .priv = {5}},
	    {.attr = CM_DREQ, .local_id = 3, .remote_id = 4, .dreq = {0x654321}},
	    {.attr = CM_DREP, .local_id = 3, .remote_id = 4, .priv = {[223] = 1}},
	    {.attr = CM_SIDR_REQ, .local_id = 9, .sidr_req = {0xffff, 0x01111234}},
	    {.attr = CM_SIDR_REP,
	     .local_id = 9,
	     .sidr_rep = {CM_SIDR_SUCCESS, 0x11, 0x01111234, 0x01234567},
	     .priv = {[135] = 7}},
	};
	uint8_t mad[CM_MAD_LEN], again[CM_MAD_LEN];
	struct cm_msg out;
	unsigned int i;

	for (i = 0; i < sizeof(msgs) / sizeof(msgs[0]); i++) {
		cm_mad_build(mad, &msgs[i]);
		ck_assert_int_eq(cm_mad_parse(mad, sizeof(mad), &out), 0);
		ck_assert_int_eq(out.attr, msgs[i].attr);
		ck_assert_uint_eq(out.local_id, msgs[i].local_id);
		ck_assert_uint_eq(out.remote_id, msgs[i].remote_id);
		ck_assert_mem_eq(out.priv, msgs[i].priv, CM_PRIV_MAX);
		cm_mad_build(again, &out);
		ck_assert_mem_eq(mad, again, sizeof(mad));
	}
}
END_TEST

START_TEST(malformed_messages_are_refused)
{
	struct cm_msg m = sample_req(), out;
	uint8_t mad[CM_MAD_LEN];
	static const struct {
		unsigned int at;
		uint8_t value;
	} wrong[] = {{0, 2}, {1, 3}, {2, 1}, {3, 1}, {17, 0x0f}, {17, 0x19}, {16, 1}};
	unsigned int i;

	cm_mad_build(mad, &m);
	ck_assert_int_eq(cm_mad_parse(mad, 255, &out), -EPROTO);
	ck_assert_int_eq(cm_mad_parse(mad, 0, &out), -EPROTO);
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		cm_mad_build(mad, &m);
		mad[wrong[i].at] = wrong[i].value;
		ck_assert_int_eq(cm_mad_parse(mad, sizeof(mad), &out), -EPROTO);
	}
}
END_TEST

START_TEST(the_ip_header_is_read_as_it_was_written)
{
	struct cm_ip_hdr h = {.version = 4, .port = 0x1234, .src = ip_a, .dst = ip_b},
			 out;
	const uint8_t bytes[CM_IP_HDR_LEN] = {0, 0x40, 0x12,	  0x34, [16] = 10, 0,
					      0, 1,    [32] = 10, 0,	0,	   2};
	uint8_t buf[CM_IP_HDR_LEN];

	cm_ip_hdr_build(buf, &h);
	ck_assert_mem_eq(buf, bytes, sizeof(buf));
	ck_assert_int_eq(cm_ip_hdr_parse(buf, &out), 0);
	ck_assert(net_ip_eq(&out.src, &ip_a));
	ck_assert(net_ip_eq(&out.dst, &ip_b));
	ck_assert_uint_eq(out.port, 0x1234);
	buf[1] = 0x50;
	ck_assert_int_eq(cm_ip_hdr_parse(buf, &out), -EPROTO);
	buf[0] = 1;
	buf[1] = 0x40;
	ck_assert_int_eq(cm_ip_hdr_parse(buf, &out), -EPROTO);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cm_mad");
	TCase *t = tcase_create("codec");

	tcase_add_test(t, each_field_of_a_req_has_its_place);
	tcase_add_test(t, a_req_is_read_as_it_was_written);
	tcase_add_test(t, xrc_is_extended_transport_1);
	tcase_add_test(t, each_field_of_a_rep_has_its_place);
	tcase_add_test(t, each_field_of_a_rej_has_its_place);
	tcase_add_test(t, small_messages_are_read_as_they_were_written);
	tcase_add_test(t, malformed_messages_are_refused);
	tcase_add_test(t, the_ip_header_is_read_as_it_was_written);
	suite_add_tcase(s, t);
	return check_main(s);
}
