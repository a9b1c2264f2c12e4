/*
 * Description: the language of injections: what is understood, and that each mistake gives one
 * line that says where it is.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inject/rule.h"
#include "tests/check_main.h"

static struct inject_rule parse_one(const char *text)
{
	struct inject_rule r[2];
	char err[200] = "";

	ck_assert_msg(inject_parse(text, r, 2, err, sizeof(err)) == 1, "%s: %s", text,
		      err);
	return r[0];
}

START_TEST(a_call_with_its_error)
{
	struct inject_rule r = parse_one("call=ibv_create_qp,n=2,do=ENOMEM");

	ck_assert_int_eq(r.kind, INJECT_CALL);
	ck_assert_str_eq(r.name, "ibv_create_qp");
	ck_assert_int_eq(r.action, INJECT_DO_ERRNO);
	ck_assert_int_eq(r.error, ENOMEM);
	ck_assert_uint_eq(r.n, 2);
	ck_assert_int_eq(r.times, INJECT_ONCE);
	ck_assert_int_eq(r.rank, -1);
}
END_TEST

START_TEST(order_of_words_does_not_matter)
{
	struct inject_rule r = parse_one("do=delay:5ms,from=3,out=CM_REQ");

	ck_assert_int_eq(r.kind, INJECT_OUT);
	ck_assert_uint_eq(r.time, 5000000);
	ck_assert_int_eq(r.times, INJECT_FROM);
	ck_assert_uint_eq(r.n, 3);
}
END_TEST

START_TEST(processes_by_number_name_arguments)
{
	struct inject_rule r = parse_one("call,process=7,do=kill");

	ck_assert_uint_eq(r.start, 7);
	r = parse_one("call,process=client,do=kill");
	ck_assert_str_eq(r.process, "client");
	ck_assert(!r.by_args && !r.nth);
	r = parse_one("call,process=a.out:0f3e.12,do=kill");
	ck_assert_str_eq(r.process, "a.out");
	ck_assert(r.by_args);
	ck_assert_uint_eq(r.args, 0xf3e);
	ck_assert_uint_eq(r.nth, 12);
	r = parse_one("call,rank=0,do=kill");
	ck_assert_int_eq(r.rank, 0);
}
END_TEST

START_TEST(regions_and_pages)
{
	struct inject_rule r = parse_one("access=write,mr=ring,page=7,every=2,do=absent");

	ck_assert_str_eq(r.object, "ring");
	ck_assert_str_eq(r.name, "write");
	ck_assert(r.by_page);
	ck_assert_uint_eq(r.page, 7);
	ck_assert_int_eq(r.times, INJECT_EVERY);
	r = parse_one("fault,mr=0xfF,do=slow:1s");
	ck_assert(r.by_key);
	ck_assert_uint_eq(r.key, 0xff);
	r = parse_one("fault,mr=*,do=rnr");
	ck_assert(!r.by_key && !r.object[0]);
}
END_TEST

/* Values at the end of what they may be */
START_TEST(the_largest_values_are_taken)
{
	struct inject_rule r = parse_one("access,do=slow:3600s");
	char text[160] = "access,mr=a_name_with_just_31_letters_are,do=absent";

	ck_assert_uint_eq(r.time, 3600000000000);
	r = parse_one("access,do=slow:3600000ms,page=4503599627370495");
	ck_assert_uint_eq(r.page, UINT64_MAX >> 12);
	ck_assert_str_eq(parse_one(text).object, "a_name_with_just_31_letters_are");
	r = parse_one("call,rank=2147483647,process=a:ffff.4294967295,do=exit:255");
	ck_assert_int_eq(r.rank, INT32_MAX);
	ck_assert_uint_eq(r.args, 0xffff);
	ck_assert_uint_eq(r.nth, UINT32_MAX);
	/* more than an argument's hash: part of the name */
	ck_assert_str_eq(parse_one("call,process=a:10000,do=kill").process, "a:10000");
}
END_TEST

/* A word of 95 bytes, blanks and all, and one of 96 */
START_TEST(a_word_may_be_long_and_no_longer)
{
	char text[200] = "out,do=lose", err[200] = "";
	struct inject_rule r[1];

	memset(text + 11, ' ', 95 - 7);
	ck_assert_int_eq(inject_parse(text, r, 1, err, sizeof(err)), 1);
	ck_assert_int_eq(r[0].action, INJECT_DO_LOSE);
	text[11 + 95 - 7] = ' ';
	ck_assert_int_eq(inject_parse(text, r, 1, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "too long"));
}
END_TEST

START_TEST(lists_with_comments_and_empty_rules)
{
	static const char text[] = "# all of this\n"
				   "call=ibv_reg_mr,do=ENOMEM   # the first\n"
				   "\n;; out,do=lose ;\n"
				   "\tin=ACK,do=double";
	struct inject_rule r[3];

	ck_assert_int_eq(inject_parse(text, r, 3, NULL, 0), 3);
	ck_assert_int_eq(r[1].kind, INJECT_OUT);
	ck_assert_int_eq(r[2].action, INJECT_DO_DOUBLE);
	ck_assert_int_eq(inject_parse("", r, 3, NULL, 0), 0);
	ck_assert_int_eq(inject_parse(text, NULL, 3, NULL, 0), 3);
	ck_assert_int_eq(inject_parse("out,do=lose\t\r # a\r\n", r, 3, NULL, 0), 1);
	ck_assert_int_eq(
	    inject_parse("out,do=lose;out,do=lose;out,do=lose;", r, 3, NULL, 0), 3);
}
END_TEST

START_TEST(all_actions_have_a_kind_that_takes_them)
{
	static const char *const good[] = {
	    "call=ibv_post_send,do=qp-error",
	    "call=ibv_post_send,do=async:QP_FATAL",
	    "call=ibv_post_srq_recv,do=async:SRQ_LIMIT_REACHED",
	    "call=ibv_alloc_pd,do=async:PORT_ERR",
	    "call,do=exit",
	    "call,do=exit:255",
	    "call,do=fork",
	    "in,do=kill",
	    "event,do=stop:10us",
	    "event=ADDR_RESOLVED,do=lose",
	    "out,do=damage",
	    "access,do=drop",
	    "access,do=damming",
	    "fault=read,do=flood",
	    "fault,do=error",
	    "event=ROUTE_RESOLVED,do=error",
	    "event=CONNECT_REQUEST,do=reject",
	    "event=ESTABLISHED,do=disconnect",
	    "completion=WRITE,do=RNR_RETRY_EXC_ERR",
	    "call,do=ENOMEM",
	    "call=rdma_bind_addr,at=1f,do=EADDRINUSE",
	    "call=ibv_post_send,thread=2,do=ENOMEM"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		parse_one(good[i]);
	ck_assert(parse_one("learn").learn);
	ck_assert(parse_one("packets").reach);
}
END_TEST

/* struct mistake - @where: what the line must have of the text, @byte: where it begins */
static const struct mistake {
	const char *text, *where;
	int rule, byte;
	const char *what;
} mistakes[] = {
    {"call=ibv_create_qp", "call=ibv_create_qp", 1, 1, "no do="},
    {"do=ENOMEM", "do=ENOMEM", 1, 1, "no kind"},
    {"out,do=lose;call=ibv_creat_qp,do=ENOMEM", "call=ibv_creat_qp", 2, 13,
     "no function"},
    {"call=ibv_create_qp,do=EBUSY", "call=ibv_create_qp", 1, 1, "only with ENOMEM"},
    {"call=rdma_destroy_id,do=ENOMEM", "call=rdma_destroy_id", 1, 1, "only with nothing"},
    {"call,do=EWHATEVER", "do=EWHATEVER", 1, 6, "unknown action"},
    {"out=SEND,do=lose", "out=SEND", 1, 1, "no opcode"},
    {"out=CM_WHAT,do=lose", "out=CM_WHAT", 1, 1, "no opcode"},
    {"out,do=ENOMEM", "out", 1, 1, "does not fit the kind 'out'"},
    {"call=ibv_alloc_pd,do=lose", "call=ibv_alloc_pd", 1, 1, "does not fit"},
    {"call=ibv_alloc_pd,do=qp-error", "call=ibv_alloc_pd", 1, 1, "no QP"},
    {"call=ibv_alloc_pd,do=async:QP_FATAL", "call=ibv_alloc_pd", 1, 1, "about no QP"},
    {"call=ibv_post_send,do=async:SRQ_ERR", "call=ibv_post_send", 1, 1, "about no SRQ"},
    {"call=ibv_post_send,do=async:CQ_ERR", "call=ibv_post_send", 1, 1, "cannot be"},
    {"call=rdma_connect,do=async:PORT_ERR", "call=rdma_connect", 1, 1, "no device"},
    {"call=rdma_connect,do=link-down:1ms", "call=rdma_connect", 1, 1, "no device"},
    {"event=ADDR_RESOLVED,do=reject", "event=ADDR_RESOLVED", 1, 1, "CONNECT_REQUEST"},
    {"event=CONNECT_REQUEST,do=disconnect", "event=CONNECT_REQUEST", 1, 1, "ESTABLISHED"},
    {"event=HELLO,do=lose", "event=HELLO", 1, 1, "no event"},
    {"completion=FOO,do=RETRY_EXC_ERR", "completion=FOO", 1, 1, "no opcode"},
    {"access=both,do=absent", "access=both", 1, 1, "neither read nor write"},
    {"access,do=slow", "do=slow", 1, 8, "wants a time"},
    {"access,do=slow:5", "do=slow:5", 1, 8, "wants a time"},
    {"access,do=slow:3601s", "do=slow:3601s", 1, 8, "wants a time"},
    {"access,do=slow:99999999999999999999ns", "do=slow", 1, 8, "wants a time"},
    {"access,do=rnr:1ms", "do=rnr:1ms", 1, 8, "takes no value"},
    {"call,do=exit:256", "do=exit:256", 1, 6, "no exit code"},
    {"call,do=async", "do=async", 1, 6, "wants an event"},
    {"out,n=0,do=lose", "n=0", 1, 5, "1 is the first"},
    {"out,n=-1,do=lose", "n=-1", 1, 5, "1 is the first"},
    {"out,n=1,from=2,do=lose", "from=2", 1, 9, "twice"},
    {"out,in,do=lose", "in", 1, 5, "twice"},
    {"out,do=lose,do=double", "do=double", 1, 13, "twice"},
    {"out,n,do=lose", "n", 1, 5, "no value"},
    {"out,foo=1,do=lose", "foo=1", 1, 5, "unknown word"},
    {"out,mr=a,do=lose", "out", 1, 1, "accesses and faults"},
    {"out,at=12,do=lose", "out", 1, 1, "at= is of calls"},
    {"out,thread=1,do=lose", "out", 1, 1, "thread= is of calls"},
    {"call,thread=0,do=kill", "thread=0", 1, 6, "1 is the first"},
    {"call,at=xyz,do=kill", "at=xyz", 1, 6, "hexadecimal"},
    {"call,process=0,do=kill", "process=0", 1, 6, "1 is the first"},
    {"call,process=a.0,do=kill", "process=a.0", 1, 6, "1 is the first"},
    {"call,process=,do=kill", "process=", 1, 6, "1 to 31"},
    {"call,rank=-1,do=kill", "rank=-1", 1, 6, "no rank"},
    {"access,mr=0xg,do=absent", "mr=0xg", 1, 8, "no key"},
    {"access,page=x,do=absent", "page=x", 1, 8, "no number of a page"},
    {"learn,do=kill", "do=kill", 1, 7, "twice"},
    {"out,learn", "learn", 1, 5, "stands alone"},
    {"out,,do=lose", "", 1, 5, "unknown word"},
    {"out\t\x01,do=lose", "out", 1, 1, "unknown word"},
    {"completion,do=SUCCESS", "do=SUCCESS", 1, 12, "unknown action"},
    {"call,process=a:10000,do=kill,process=b", "process=b", 1, 30, "twice"},
    {"call,rank=2147483648,do=kill", "rank=2147483648", 1, 6, "no rank"},
    {"call,at=0,do=kill", "at=0", 1, 6, "hexadecimal"},
    {"access,page=4503599627370496,do=absent", "page=4503599627370496", 1, 8,
     "no number of a page"},
    {"access,do=dro", "do=dro", 1, 8, "unknown action"},
    {"access,do=slower:1ms", "do=slower:1ms", 1, 8, "unknown action"},
    {"call=ibv_alloc_pd,do=async:PATH_MIG", "call=ibv_alloc_pd", 1, 1, "about no QP"},
    {"call=ibv_alloc_pd,do=async:COMM_EST", "call=ibv_alloc_pd", 1, 1, "about no QP"},
    {"call,do=async:QP_FATAL", "call", 1, 1, "about no QP"},
    {"access,mr=a_name_that_has_just_32_letters_,do=absent",
     "mr=a_name_that_has_just_32_letters_", 1, 8, "1 to 31"},
};

START_TEST(each_mistake_gives_one_line_that_says_where)
{
	const struct mistake *m = &mistakes[_i];
	struct inject_rule r[4];
	char err[200] = "", where[80];

	ck_assert_int_eq(inject_parse(m->text, r, 4, err, sizeof(err)), -EINVAL);
	snprintf(where, sizeof(where), "rule %d, byte %d, '%.40s", m->rule, m->byte,
		 m->where);
	ck_assert_msg(!strncmp(err, where, strlen(where)), "%s: %s", m->text, err);
	ck_assert_msg(strstr(err, m->what) != NULL, "%s: %s", m->text, err);
	for (const char *c = err; *c; c++)
		ck_assert_int_ge(*c, ' ');
}
END_TEST

START_TEST(too_much_is_said_and_nothing_overflows)
{
	char *text = malloc(3 * INJECT_TEXT_MAX), err[100];
	struct inject_rule r[2];

	memset(text, 'a', 3 * INJECT_TEXT_MAX);
	text[3 * INJECT_TEXT_MAX - 1] = '\0';
	ck_assert_int_eq(inject_parse(text, r, 2, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "more than"));
	text[INJECT_TEXT_MAX - 1] = '\0';
	ck_assert_int_eq(inject_parse(text, r, 2, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "too long"));
	strcpy(text, "out,do=lose;out,do=lose;out,do=lose");
	ck_assert_int_eq(inject_parse(text, r, 2, err, sizeof(err)), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "more than 2 rules"));
	/* room for a part of the line only */
	ck_assert_int_eq(inject_parse("x", r, 2, err, 8), -EINVAL);
	ck_assert_uint_eq(strlen(err), 7);
	free(text);
}
END_TEST

START_TEST(random_text_is_refused_or_taken_but_harms_nothing)
{
	static const char letters[] = "call=out,in;do=ENOMEMlosenmr0x7:.\n# \t%";
	struct inject_rule r[8];
	char text[64], err[64];

	srand(7);
	for (int i = 0; i < 100000; i++) {
		size_t n = (size_t)rand() % sizeof(text);

		for (size_t k = 0; k < n; k++)
			text[k] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		text[n ? n - 1 : 0] = '\0';
		ck_assert_int_le(inject_parse(text, r, 8, err, sizeof(err)), 8);
	}
}
END_TEST

START_TEST(errors_have_names)
{
	const struct inject_call *c = inject_call_named("ibv_advise_mr");

	ck_assert(c->hint);
	for (int i = 0; i < 4 && c->error[i]; i++)
		ck_assert_int_eq(inject_errno(inject_errno_name(c->error[i])),
				 c->error[i]);
	ck_assert_ptr_null(inject_errno_name(0));
	ck_assert_int_eq(inject_errno("ENOSUCH"), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rules");
	TCase *tc = tcase_create("rules");

	suite_add_tcase(s, tc);
	tcase_add_test(tc, a_call_with_its_error);
	tcase_add_test(tc, order_of_words_does_not_matter);
	tcase_add_test(tc, processes_by_number_name_arguments);
	tcase_add_test(tc, regions_and_pages);
	tcase_add_test(tc, the_largest_values_are_taken);
	tcase_add_test(tc, a_word_may_be_long_and_no_longer);
	tcase_add_test(tc, lists_with_comments_and_empty_rules);
	tcase_add_test(tc, all_actions_have_a_kind_that_takes_them);
	tcase_add_loop_test(tc, each_mistake_gives_one_line_that_says_where, 0,
			    (int)(sizeof(mistakes) / sizeof(mistakes[0])));
	tcase_add_test(tc, too_much_is_said_and_nothing_overflows);
	tcase_add_test(tc, random_text_is_refused_or_taken_but_harms_nothing);
	tcase_add_test(tc, errors_have_names);
	return check_main(s);
}
