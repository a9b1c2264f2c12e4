/*
 * Description: profiles of devices: those that are known are whole, texts come back as they were
 * written, what is wrong in a file is one line that names it, and what ibv_devinfo says of a card
 * becomes a profile of it.
 */
#include <stdio.h>

#include "tests/verbs/util.h"
#include "verbs/host/profile.h"

static char text[PROFILE_TEXT_MAX];

static const char *print(const struct profile *p, bool given)
{
	FILE *f = fmemopen(text, sizeof(text), "w");

	ck_assert_ptr_nonnull(f);
	profile_print(p, given, f);
	fclose(f);
	return text;
}

START_TEST(those_that_are_known_come_back_as_they_are_written)
{
	const struct profile_known *k = profile_known((size_t)_i);
	struct profile p, q;
	char err[240];

	ck_assert_ptr_nonnull(k);
	ck_assert_msg(!profile_load(k->name, &p, err, sizeof(err)), "%s: %s", k->name,
		      err);
	for (int given = 0; given < 2; given++) {
		ck_assert_msg(!profile_parse(print(&p, given), &q, err, sizeof(err)),
			      "%s: %s", k->name, err);
		ck_assert_mem_eq(&p.limits, &q.limits, sizeof(p.limits));
		ck_assert_str_eq(p.hca_type, q.hca_type);
		ck_assert_str_eq(p.board_id, q.board_id);
		ck_assert_int_eq(p.model, q.model);
		ck_assert_uint_eq(p.fault_latency_us, q.fault_latency_us);
	}
}
END_TEST

START_TEST(the_default_is_rxe_and_says_nothing)
{
	struct profile p;
	char err[240];

	ck_assert_int_eq(profile_load("", &p, err, sizeof(err)), 0);
	ck_assert_uint_eq(p.limits.max_qp_wr, 1048576);
	ck_assert_str_eq(print(&p, true), "");
	ck_assert_ptr_null(profile_known(7));
}
END_TEST

START_TEST(what_is_wrong_is_one_line_that_names_it)
{
	static const struct {
		const char *text, *says;
	} c[] = {
	    {"max_qp = 5\nmax_qq = 5\n", "line 2: max_qq: there is no such key"},
	    {"max_qp = 5\n\nmax_qp = 6\n", "line 3: max_qp: is given twice"},
	    {"max_qp_wr\n", "line 1: 'max_qp_wr' is not KEY = VALUE"},
	    {"max_qp_wr =\n", "line 1: max_qp_wr: has no value"},
	    {"max_qp_wr = many\n", "max_qp_wr: 'many' is no number"},
	    {"max_qp_wr = -1\n", "'-1' is no number"},
	    {"max_qp_wr = 12x\n", "'12x' is no number"},
	    {"max_qp_wr = 0\n", "0 is not between 1 and 1048576"},
	    {"max_qp_wr = 1048577\n", "1048577 is not between 1 and 1048576"},
	    {"max_mr = 99999999999999999999\n", "is no number"},
	    {"device_cap_flags = 0x80000000\n", "0x80000000 is not among 0x1c001323cf6"},
	    {"rc_odp_caps = SEND FLY\n", "'FLY' is not known here"},
	    {"rc_odp_caps = ODP\n", "'ODP' is not known here"},
	    {"rc_odp_caps = SEN\n", "'SEN' is not known here"},
	    {"rc_odp_caps = SENDS\n", "'SENDS' is not known here"},
	    {"fw_ver = 1\nhca_type = a\nfw_ver = 2\n", "line 3: fw_ver: is given twice"},
	    {"fault_model = rnr\nfault_model = rnr\n", "fault_model: is given twice"},
	    {"ud_odp_caps = WRITE\n", "'WRITE' is more than the transport has"},
	    {"qp_types = DC\n", "'DC' is not known here"},
	    {"gid_types = V1\n", "'V1' is less than urxe needs"},
	    {"gid_types = none\n", "'none' is less than urxe needs"},
	    {"fault_model = never\n", "'never' is not one of sync"},
	    {"fault_latency_us = 1000001\n", "is no number up to 1000000"},
	    {"fw_ver = "
	     "0123456789012345678901234567890123456789012345678901234567890123\n",
	     "fw_ver: is longer than 63 bytes"},
	    {"\x7f"
	     "ELF\x01",
	     "line 1: '?ELF?' is not KEY = VALUE"},
	};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		struct profile p;
		char err[240] = "";

		ck_assert_msg(profile_parse(c[i].text, &p, err, sizeof(err)) == -EINVAL,
			      "%s", c[i].text);
		ck_assert_msg(strstr(err, c[i].says), "%s: %s", c[i].text, err);
		ck_assert_ptr_null(strchr(err, '\n'));
	}
}
END_TEST

START_TEST(a_line_may_be_long_and_no_longer)
{
	char line[141 + 2] = "#", err[240];
	struct profile p;

	memset(line + 1, 'x', 138);
	ck_assert_int_eq(profile_parse(line, &p, err, sizeof(err)), 0);
	line[139] = 'x';
	ck_assert_int_eq(profile_parse(line, &p, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "longer than 139 bytes"));
}
END_TEST

START_TEST(blanks_comments_and_ends_of_lines_do_not_matter)
{
	struct profile p;
	char err[240];

	ck_assert_msg(!profile_parse("# a card\r\n\t max_sge=012 \r\n   \r\n"
				     "rc_odp_caps =  SEND\t READ\r\nuc_odp_caps = none",
				     &p, err, sizeof(err)),
		      "%s", err);
	ck_assert_uint_eq(p.limits.max_sge, 12); /* in decimal digits */
	ck_assert_uint_eq(p.limits.rc_odp_caps,
			  IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_READ);
	ck_assert_uint_eq(p.limits.uc_odp_caps, 0);
}
END_TEST

START_TEST(a_file_that_is_none_is_named)
{
	struct profile p;
	char err[400];

	ck_assert_int_eq(profile_load("./nosuch", &p, err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, "./nosuch: No such file or directory");
	ck_assert_int_eq(profile_load("/", &p, err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, "/: Is a directory");
	ck_assert_int_eq(profile_load("/dev/zero", &p, err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, "/dev/zero has more than 8192 bytes");
	ck_assert_int_eq(profile_load("connectx5", &p, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "'connectx5' is no profile"));
}
END_TEST

/* A file of @n bytes that says something at its end */
static int load(size_t n, char fill, char *err, size_t errlen)
{
	static char bytes[PROFILE_TEXT_MAX + 2];
	char name[] = "/tmp/urxe-profile-XXXXXX";
	int fd = mkstemp(name), ret;
	struct profile p;

	memset(bytes, fill, n);
	memcpy(bytes + n - 12, "\nmax_sge = 5", 12);
	ck_assert_int_eq(write(fd, bytes, n), (ssize_t)n);
	close(fd);
	ret = profile_load(name, &p, err, errlen);
	unlink(name);
	if (!ret)
		ck_assert_uint_eq(p.limits.max_sge, 5);
	return ret;
}

START_TEST(a_file_may_be_long_and_no_longer)
{
	char err[400];

	ck_assert_msg(!load(PROFILE_TEXT_MAX, '\n', err, sizeof(err)), "%s", err);
	ck_assert_int_eq(load(PROFILE_TEXT_MAX + 1, '\n', err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "has more than 8192 bytes"));
	ck_assert_int_eq(load(100, '\0', err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "is no text"));
}
END_TEST

/* --- ibv_devinfo ------------------------------------------------------------------ */

#define TWO_CARDS                                                                        \
	"hca_id:\tmlx5_0\n\tfw_ver:\t\t\t\t20.1.2\n\tvendor_id:\t\t\t0x02c9\n"           \
	"\tvendor_part_id:\t\t\t4123\n\tboard_id:\t\t\tMT_1\n"                           \
	"\tmax_qp:\t\t\t\t999999999\n\tmax_qp_wr:\t\t\t32768\n"                          \
	"\tdevice_cap_flags:\t\t0xe97e1c36\n\t\t\t\t\tBAD_PKEY_CNTR\n"                   \
	"\t\t\t\t\tUnknown flags: 0xC8480000\n"                                          \
	"\tatomic_cap:\t\t\tATOMIC_GLOB (2)\n\tgeneral_odp_caps:\n"                      \
	"\t\t\t\t\tODP_SUPPORT\n\t\t\t\t\tODP_SUPPORT_IMPLICIT\n\trc_odp_caps:\n"        \
	"\t\t\t\t\tSUPPORT_SEND\n\t\t\t\t\tSUPPORT_READ\n\tuc_odp_caps:\n"               \
	"\t\t\t\t\tNO SUPPORT\n\t\tport:\t1\n\t\t\tactive_width:\t\t4X (2)\n"            \
	"\t\t\tactive_speed:\t\t50.0 Gbps (64)\n"                                        \
	"\t\t\tGID[  0]:\t\tfe80::1, RoCE v1\n\t\t\tGID[  1]:\t\tfe80::1, RoCE v2\n\n"   \
	"hca_id: irdma0\r\n  vendor_id: 0x8086\r\n  max_qp_wr: 8127\r\n  max_srq: 0\r\n" \
	"  device_cap_flags: 0x01221000\r\n"

static int devinfo(const char *in, const char *device, struct profile *p, char err[240])
{
	FILE *f = fmemopen(text, sizeof(text), "w");
	int ret;

	ck_assert_ptr_nonnull(f);
	memset(text, 0, sizeof(text));
	ret = profile_from_devinfo(in, device, p, f, err, 240);
	fclose(f);
	return ret;
}

START_TEST(a_card_becomes_a_profile)
{
	struct profile p;
	char err[240];

	ck_assert_msg(!devinfo(TWO_CARDS, NULL, &p, err), "%s", err);
	ck_assert_str_eq(p.limits.fw_ver, "20.1.2");
	ck_assert_str_eq(p.board_id, "MT_1");
	ck_assert_str_eq(p.hca_type, "MT4123");
	ck_assert_uint_eq(p.limits.vendor_id, 0x2c9);
	ck_assert_uint_eq(p.limits.pci_vendor, 0x15b3);
	ck_assert_uint_eq(p.limits.max_qp_wr, 32768);
	ck_assert_uint_eq(p.limits.atomic_cap, 2);
	ck_assert_uint_eq(p.limits.rc_odp_caps,
			  IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_READ);
	ck_assert_uint_eq(p.limits.uc_odp_caps, 0);
	ck_assert_uint_eq(p.limits.general_odp_caps, 3);
	ck_assert_uint_eq(p.limits.active_speed, 64);
	ck_assert_uint_eq(p.limits.gid_types, EMU_GID_V1 | EMU_GID_V2);
	/* not those of the next */
	ck_assert_uint_eq(p.limits.max_srq, 917503);
}
END_TEST

START_TEST(what_urxe_cannot_do_is_taken_back_and_told)
{
	struct profile p;
	char err[240];

	ck_assert_msg(!devinfo(TWO_CARDS, NULL, &p, err), "%s", err);
	ck_assert_uint_eq(p.limits.max_qp, 1048560);
	ck_assert_ptr_nonnull(strstr(text, "# max_qp is 999999999; urxe has 1048560\n"));
	ck_assert_uint_eq(p.limits.device_cap_flags, 0xe97e1c36 & EMU_CAPS_MOST);
	ck_assert_ptr_nonnull(
	    strstr(text, "# device_cap_flags is 0xe97e1c36; urxe has "));
}
END_TEST

START_TEST(another_card_is_found_by_its_name)
{
	struct profile p;
	char err[240];

	ck_assert_msg(!devinfo(TWO_CARDS, "irdma0", &p, err), "%s", err);
	ck_assert_uint_eq(p.limits.max_qp_wr, 8127);
	ck_assert_uint_eq(p.limits.max_srq, 0);
	ck_assert_uint_eq(p.limits.qp_types & EMU_TYPES_XRC, 0);
	ck_assert_uint_eq(p.limits.gid_types, EMU_GID_V2);
	ck_assert_int_eq(devinfo(TWO_CARDS, "irdma", &p, err), -EINVAL);
	ck_assert_str_eq(err, "there is no device irdma in it");
}
END_TEST

/* Names that begin alike, the upper half of flags, and less than urxe can be told */
START_TEST(lines_are_taken_by_their_whole_name)
{
	struct profile p;
	char err[240];

	ck_assert_msg(!devinfo("hca_id: x\n max_qp_wr: 0\n max_qp: 5\n"
			       " device_cap_flags: 0x0\n device_cap_flags_ex: 0x400\n",
			       NULL, &p, err),
		      "%s", err);
	ck_assert_uint_eq(p.limits.max_qp, 5);
	ck_assert_uint_eq(p.limits.device_cap_flags, 0x400);
	ck_assert_uint_eq(p.limits.max_qp_wr, 1);
	ck_assert_ptr_nonnull(strstr(text, "# max_qp_wr is 0; urxe has 1\n"));
}
END_TEST

START_TEST(what_is_no_output_of_ibv_devinfo_is_refused)
{
	struct profile p;
	char err[240];

	ck_assert_int_eq(devinfo("", NULL, &p, err), -EINVAL);
	ck_assert_str_eq(err, "is no output of ibv_devinfo -v");
	ck_assert_int_eq(devinfo("hca_id", NULL, &p, err), -EINVAL);
	ck_assert_int_eq(devinfo("hca_id: mlx5_0\n\tfw_ver: 1\n", NULL, &p, err),
			 -EINVAL);
	ck_assert_str_eq(err, "has no limits: ibv_devinfo needs -v");
}
END_TEST

START_TEST(the_speed_is_what_the_kernel_shows)
{
	struct profile p;
	char rate[40], err[240];

	ck_assert_int_eq(profile_load("rxe", &p, err, sizeof(err)), 0);
	profile_rate(&p, rate, sizeof(rate));
	ck_assert_str_eq(rate, "2.5 Gb/sec (1X SDR)");
	p.limits.active_width = 2;
	p.limits.active_speed = 32;
	profile_rate(&p, rate, sizeof(rate));
	ck_assert_str_eq(rate, "100 Gb/sec (4X EDR)");
	p.limits.active_speed = 128;
	profile_rate(&p, rate, sizeof(rate));
	ck_assert_str_eq(rate, "400 Gb/sec (4X NDR)");
	/* faster than there is a name for, and all widths */
	p.limits.active_speed = 1 << 20;
	p.limits.active_width = 4;
	profile_rate(&p, rate, sizeof(rate));
	ck_assert_str_eq(rate, "800 Gb/sec (8X NDR)");
	p.limits.active_width = 8;
	profile_rate(&p, rate, sizeof(rate));
	ck_assert_str_eq(rate, "1200 Gb/sec (12X NDR)");
	p.limits.active_width = 16;
	p.limits.active_speed = 16;
	profile_rate(&p, rate, sizeof(rate));
	ck_assert_str_eq(rate, "28 Gb/sec (2X FDR)");
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_loop_test(tc, those_that_are_known_come_back_as_they_are_written, 0, 7);
	tcase_add_test(tc, the_default_is_rxe_and_says_nothing);
	tcase_add_test(tc, what_is_wrong_is_one_line_that_names_it);
	tcase_add_test(tc, a_line_may_be_long_and_no_longer);
	tcase_add_test(tc, blanks_comments_and_ends_of_lines_do_not_matter);
	tcase_add_test(tc, a_file_that_is_none_is_named);
	tcase_add_test(tc, a_file_may_be_long_and_no_longer);
	tcase_add_test(tc, a_card_becomes_a_profile);
	tcase_add_test(tc, what_urxe_cannot_do_is_taken_back_and_told);
	tcase_add_test(tc, another_card_is_found_by_its_name);
	tcase_add_test(tc, lines_are_taken_by_their_whole_name);
	tcase_add_test(tc, what_is_no_output_of_ibv_devinfo_is_refused);
	tcase_add_test(tc, the_speed_is_what_the_kernel_shows);
}

int main(void)
{
	return util_run("profile", add);
}
