/*
 * Description: the language of scripted faults: what is taken, what is refused with which
 * reason.
 */
#include "odp/script.h"

#include "tests/odp/util.h"

static const char *const good[] = {
    "",
    ";;",
    "mr=a,page=0,access=1",
    "mr=0x1a2B,page=7,access=3,fault=rnr;",
    "mr=*,page=4503599627370495,access=1,fault=error;mr=x "
    "y,access=2,page=1,fault=damming",
    "mr=a,page=1,access=1,fault=drop;mr=a,page=1,access=2,fault=flood;mr=a,page=1,access="
    "3,"
    "fault=evict",
};

static const char *const bad[] = {
    "x",
    "mr=a",
    "mr=a,page=1",
    "mr=a,page=1,access=0",
    "mr=a,page=-1,access=1",
    "mr=a,page=1x,access=1",
    "mr=a,page=,access=1",
    "mr=a,page=99999999999999999999999,access=1",
    "mr=a,page=1,access=1,fault=sync",
    "mr=a,page=1,access=1,fault=",
    "mr=a,page=1,access=1,when=2",
    "mr=a,mr=b,page=1,access=1",
    "mr=,page=1,access=1",
    "mr=0x,page=1,access=1",
    "mr=0x123456789,page=1,access=1",
    "mr=0x-1,page=1,access=1",
    "mr=this-name-is-too-long-for-an-mr-label,page=1,access=1",
    "mr=a,page=1,access=1;page",
};

START_TEST(good_is_taken)
{
	char err[128] = "";

	ck_assert_msg(!odp_script_check(good[_i], err, sizeof(err)), "%s: %s", good[_i],
		      err);
}
END_TEST

START_TEST(bad_is_refused)
{
	struct odp_config cfg = {.script = bad[_i]};
	struct odp_domain *dom;
	char err[128] = "";

	ck_assert_int_eq(odp_script_check(bad[_i], err, sizeof(err)), -EINVAL);
	ck_assert(*err);
	ck_assert(!strchr(err, '\n'));
	ck_assert_int_eq(odp_domain_create(&cfg, NULL, NULL, &dom), -EINVAL);
}
END_TEST

START_TEST(long_rule_is_refused)
{
	char text[5000], err[64];

	memset(text, ',', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	ck_assert_int_eq(odp_script_check(text, err, sizeof(err)), -EINVAL);
}
END_TEST

START_TEST(rules_are_parsed)
{
	struct script *s;

	ck_assert_int_eq(
	    script_parse("mr=0x10,page=2,access=3;mr=n,page=4,access=5,fault=flood", &s,
			 NULL, 0),
	    0);
	ck_assert_uint_eq(s->n, 2);
	ck_assert_uint_eq(s->rule[0].page, 2);
	ck_assert_uint_eq(s->rule[0].access, 3);
	ck_assert_int_eq(s->rule[0].action, INJECT_DO_ABSENT);
	ck_assert(script_matches(&s->rule[0], 16, "n"));
	ck_assert(!script_matches(&s->rule[0], 17, "n"));
	ck_assert_int_eq(s->rule[1].action, INJECT_DO_FLOOD);
	ck_assert(script_matches(&s->rule[1], 16, "n"));
	ck_assert(!script_matches(&s->rule[1], 16, ""));
	free(s);
}
END_TEST

START_TEST(a_complaint_has_the_word_and_what_is_wrong)
{
	static const struct {
		const char *script, *says;
	} wrong[] = {
	    {"mr=a,page=1x,access=1", "bad page in scripted fault: '1x'"},
	    {"mr=0xg,page=1,access=1", "bad key in scripted fault: '0xg'"},
	    {"mr=a,page=1,access=0",
	     "bad number of an access (1 is the first) in scripted fault: '0'"},
	    {"mr=a,page=1,access=1,fault=slow:1ms",
	     "unknown fault in scripted fault: 'slow:1ms'"},
	    {"mr=a,page=1#,access=1", "bad page in scripted fault: '1#'"},
	    {"mr=a,page=1\nout\ndo=lose,access=1",
	     "bad page in scripted fault: '1?out?do=lose'"},
	    {"mr=a,page", "no '=' in scripted fault: 'page'"},
	    {"n=1", "unknown word in scripted fault: 'n'"},
	};
	char err[128];

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ck_assert_int_eq(odp_script_check(wrong[i].script, err, sizeof(err)),
				 -EINVAL);
		ck_assert_str_eq(err, wrong[i].says);
	}
}
END_TEST

START_TEST(a_name_has_any_characters)
{
	struct script *s;

	ck_assert_int_eq(script_parse("mr=a #b,page=0,access=1", &s, NULL, 0), 0);
	ck_assert(script_matches(&s->rule[0], 1, "a #b"));
	ck_assert(!script_matches(&s->rule[0], 1, "a "));
	free(s);
}
END_TEST

START_TEST(models_have_names)
{
	enum odp_fault_model m;

	for (int i = 0; i < ODP_FAULT_MODELS; i++) {
		ck_assert_int_eq(odp_model_from_name(odp_model_name(i), &m), 0);
		ck_assert_int_eq(m, i);
	}
	ck_assert_int_eq(odp_model_from_name("RNR", &m), -EINVAL);
	ck_assert_int_eq(odp_model_from_name("", &m), -EINVAL);
	ck_assert_str_eq(odp_model_name((enum odp_fault_model)ODP_FAULT_MODELS), "?");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("script");
	TCase *tc = tcase_create("script");

	tcase_add_loop_test(tc, good_is_taken, 0, (int)(sizeof(good) / sizeof(good[0])));
	tcase_add_loop_test(tc, bad_is_refused, 0, (int)(sizeof(bad) / sizeof(bad[0])));
	tcase_add_test(tc, long_rule_is_refused);
	tcase_add_test(tc, rules_are_parsed);
	tcase_add_test(tc, a_complaint_has_the_word_and_what_is_wrong);
	tcase_add_test(tc, a_name_has_any_characters);
	tcase_add_test(tc, models_have_names);
	suite_add_tcase(s, tc);
	return util_run(s);
}
