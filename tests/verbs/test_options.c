/*
 * Description: settings have the value that their text says, to the last unit and bound, and come
 * through the environment unchanged.
 */
#include "tests/verbs/util.h"
#include "verbs/host/options.h"

static struct options o;
static char err[256];

static void setup(void)
{
	options_default(&o);
}

static int set(const char *name, const char *value)
{
	return options_set(&o, name, value, err, sizeof(err));
}

START_TEST(times_have_units)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
	    {"0", 0},
	    {"1ns", 1},
	    {"50us", 50000},
	    {"2ms", 2000000},
	    {"3s", 3000000000},
	    {"3600s", 3600000000000},
	    {"3600000ms", 3600000000000},
	};
	static const char *const wrong[] = {
	    "",	     "1",    "5 us", "us",    "-1us",	      "1.5us",
	    "3601s", "1usx", "1m",   "0x1us", "3600000001us", "18446744073709551616ns"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ck_assert_msg(!set("odp-latency", good[i].text), "%s", good[i].text);
		ck_assert_uint_eq(o.odp.latency, good[i].ns);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ck_assert_msg(set("odp-latency", wrong[i]) == -EINVAL, "%s", wrong[i]);
}
END_TEST

START_TEST(sizes_have_units)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} good[] = {{"1", 1},	     {"64k", 64 << 10},	 {"64K", 64 << 10},
		    {"3m", 3 << 20}, {"2g", 2ull << 30}, {"8589934592g", 1ull << 63}};
	static const char *const wrong[] = {
	    "", "k", "1kb", "1t", "-1", "1.5m", "8589934593g", "18446744073709551616"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ck_assert_msg(!set("memlock", good[i].text), "%s", good[i].text);
		ck_assert_int_eq(o.odp.memlock, ODP_MEMLOCK_BYTES);
		ck_assert_uint_eq(o.odp.memlock_bytes, good[i].bytes);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ck_assert_msg(set("memlock", wrong[i]) == -EINVAL, "%s", wrong[i]);
	ck_assert_int_eq(set("trace-size", "65535"), -EINVAL);
	ck_assert_int_eq(set("trace-size", "64k"), 0);
	ck_assert_int_eq(set("trace-size", "16g"), 0);
	ck_assert_int_eq(set("trace-size", "17179869185"), -EINVAL);
	ck_assert_uint_eq(o.trace_size, 16ull << 30);
}
END_TEST

START_TEST(yes_is_yes_and_no_is_no)
{
	ck_assert(o.lanes && o.odp.uffd && !o.trace_stacks);
	ck_assert(!set("lanes", "no") && !set("odp-uffd", "no") &&
		  !set("trace-stacks", "yes"));
	ck_assert(!o.lanes && !o.odp.uffd && o.trace_stacks);
	ck_assert(!set("lanes", "yes") && !set("odp-uffd", "yes") &&
		  !set("trace-stacks", "no"));
	ck_assert(o.lanes && o.odp.uffd && !o.trace_stacks);
	ck_assert_int_eq(set("lanes", "y"), -EINVAL);
	ck_assert_int_eq(set("lanes", ""), -EINVAL);
	ck_assert_int_eq(set("lanes", "nope"), -EINVAL);
	ck_assert(!set("memlock", "yes") && o.odp.memlock == ODP_MEMLOCK_KERNEL);
	ck_assert(!set("memlock", "no") && o.odp.memlock == ODP_MEMLOCK_NONE);
}
END_TEST

START_TEST(numbers_have_bounds)
{
	char text[32];

	snprintf(text, sizeof(text), "%u", ODP_MAX_BOUND);
	ck_assert_int_eq(set("odp-max-pages", text), 0);
	ck_assert_uint_eq(o.odp.max_pages, ODP_MAX_BOUND);
	snprintf(text, sizeof(text), "%u", ODP_MAX_BOUND + 1);
	ck_assert_int_eq(set("odp-max-pages", text), -EINVAL);
	ck_assert_int_eq(set("odp-max-pages", "7x"), -EINVAL);
	ck_assert_int_eq(set("odp-max-pages", " 7"), -EINVAL);
	ck_assert_int_eq(set("explain", "86400"), 0);
	ck_assert_int_eq(set("explain", "86401"), -EINVAL);
	ck_assert_uint_eq(o.explain, 86400);
}
END_TEST

START_TEST(a_region_has_no_name_at_its_start)
{
	ck_assert_int_eq(set("odp-start", "mr=heap:snapshot"), -EINVAL);
	ck_assert_int_eq(set("odp-start", "cold,mr=heap:snapshot"), -EINVAL);
	ck_assert_int_eq(set("odp-start", "rxe1:snapshot"), 0);
	ck_assert_int_eq(options_faults(&o, "rxe1")->start, ODP_START_SNAPSHOT);
	ck_assert_ptr_null(options_faults(&o, "rxe"));
	ck_assert_ptr_null(options_faults(&o, "rxe10"));
}
END_TEST

/* Names of 15 bytes fit, and what is the beginning of another is not the same. */
START_TEST(devices_have_names)
{
	ck_assert_int_eq(
	    set("device", "rxe1=eth1,rxe=eth,rxe_of_15_bytes=if_of_15_bytes_"), 0);
	ck_assert_uint_eq(o.n_devices, 3);
	ck_assert_str_eq(o.device[1].name, "rxe");
	ck_assert_str_eq(o.device[2].ifname, "if_of_15_bytes_");
	ck_assert_int_eq(set("device", "rxe_of_16_bytes_=x"), -EINVAL);
	ck_assert_int_eq(set("device", "rxe3=if_of_16_bytes__"), -EINVAL);
	ck_assert_int_eq(set("device", "rxe1=other"), -EINVAL);
	ck_assert_int_eq(set("device", "rxe4=eth1"), -EINVAL);
	ck_assert_int_eq(set("device", "rxe5=.."), -EINVAL);
	ck_assert_int_eq(set("device", "rxe5=a/b"), -EINVAL);
	ck_assert_int_eq(set("device", "mlx5_0=eth5"), -EINVAL);
	ck_assert_int_eq(set("device", "rxe5="), -EINVAL);
	for (int i = 3; i < OPTIONS_MAX_DEVICES; i++) {
		char text[32];

		snprintf(text, sizeof(text), "rxe%d=eth%d", i, i);
		ck_assert_int_eq(set("device", text), 0);
	}
	ck_assert_int_eq(set("device", "rxe99=eth99"), -EINVAL);
	options_clear(&o, "device");
	ck_assert_uint_eq(o.n_devices, 0);
}
END_TEST

static const struct odp_fault_rule *region(const char *name)
{
	for (unsigned int i = 0; i < o.odp.n_named; i++)
		if (!strcmp(o.odp.named[i].name, name))
			return &o.odp.named[i];
	return NULL;
}

/* Rules are of the whole name, however it begins, and begin anew when they are cleared. */
START_TEST(faults_are_of_the_names_that_are_given)
{
	const size_t room = sizeof(o.odp.named[0].name);
	char text[80] = "mr=";

	ck_assert_int_eq(set("odp-model", "rnr,mr=heap:drop,mr=he:flood,rxe1:damming"),
			 0);
	ck_assert_int_eq(set("odp-latency", "mr=heap:1ms"), 0);
	ck_assert_uint_eq(o.odp.n_named, 2);
	ck_assert_int_eq(region("heap")->model, ODP_FAULT_DROP);
	ck_assert_int_eq(region("he")->model, ODP_FAULT_FLOOD);
	ck_assert(!region("he")->has_latency && region("heap")->has_latency);
	ck_assert_int_eq(options_faults(&o, "rxe1")->model, ODP_FAULT_DAMMING);
	options_clear(&o, "odp-model");
	ck_assert(!region("heap")->has_model && !options_faults(&o, "rxe1")->has_model);
	ck_assert(!o.model_given && o.odp.model == ODP_FAULT_SYNC);
	ck_assert_uint_eq(region("heap")->latency, 1000000);
	options_clear(&o, "odp-latency");
	ck_assert(!region("heap")->has_latency);
	/* the longest name, and one byte more */
	memset(text + 3, 'x', room);
	strcpy(text + 3 + room, ":drop");
	ck_assert_int_eq(set("odp-model", text), -EINVAL);
	strcpy(text + 3 + room - 1, ":drop");
	ck_assert_int_eq(set("odp-model", text), 0);
	ck_assert_int_eq(set("odp-model", "mr=:drop"), -EINVAL);
	ck_assert_int_eq(set("odp-model", "mlx5_0:drop"), -EINVAL);
}
END_TEST

/* A file of rules with @n bytes; what comes of it */
static int set_file(size_t n)
{
	static char text[INJECT_TEXT_MAX + 1];
	char name[] = "/tmp/urxe-rules-XXXXXX", at[40];
	int fd = mkstemp(name), ret;

	memset(text, '#', n);
	memcpy(text, "out,do=lose\n", 12);
	ck_assert_int_eq(write(fd, text, n), (ssize_t)n);
	close(fd);
	snprintf(at, sizeof(at), "@%s", name);
	ret = set("inject", at);
	unlink(name);
	return ret;
}

START_TEST(rules_of_files_and_others_add_up)
{
	size_t has;

	ck_assert_int_eq(set("inject", "@/nonexistent"), -EINVAL);
	ck_assert_int_eq(set("inject", "@/dev/null"), -EINVAL);
	ck_assert_int_eq(set("inject", "call=ibv_alloc_pd,do=ENOMEM"), 0);
	ck_assert_int_eq(set_file(100), 0);
	has = strlen("call=ibv_alloc_pd,do=ENOMEM") + 1 + 100;
	ck_assert_uint_eq(strlen(o.inject), has);
	ck_assert_int_eq(inject_parse(o.inject, NULL, INJECT_MAX_RULES, NULL, 0), 2);
	/* room to the last byte, and not beyond */
	ck_assert_int_eq(set_file(INJECT_TEXT_MAX - 1 - has), -EINVAL);
	ck_assert_int_eq(set_file(INJECT_TEXT_MAX - 2 - has), 0);
	ck_assert_uint_eq(strlen(o.inject), INJECT_TEXT_MAX - 1);
	options_clear(&o, "inject");
	ck_assert_str_eq(o.inject, "");
	ck_assert_int_eq(set_file(INJECT_TEXT_MAX), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err, "has more than"));
	ck_assert_int_eq(set_file(INJECT_TEXT_MAX - 1), 0);
}
END_TEST

/* As is customary */
START_TEST(a_variable_that_is_empty_is_not_set)
{
	setenv("URXE_LANES", "", 1);
	setenv("URXE_DEVICE", "", 1);
	ck_assert_msg(!options_from_env(&o, err, sizeof(err)), "%s", err);
	ck_assert(o.lanes && !o.n_devices);
	setenv("URXE_LANES", "maybe", 1);
	ck_assert_int_eq(options_from_env(&o, err, sizeof(err)), -EINVAL);
	ck_assert_str_eq(err, "URXE_LANES: 'maybe' is neither yes nor no");
}
END_TEST

/* What a program is given is what its parent was told. */
START_TEST(all_comes_through_the_environment)
{
	static const char *const given[][2] = {
	    {"device", "rxe0=lo,rxe7=eth7"},
	    {"backend", "uring"},
	    {"lanes", "no"},
	    {"odp-model", "rnr,rxe7:drop,mr=heap:flood"},
	    {"odp-start", "snapshot,rxe7:cold"},
	    {"odp-latency", "5us,mr=heap:7ms"},
	    {"odp-max-pages", "12"},
	    {"odp-uffd", "no"},
	    {"memlock", "64k"},
	    {"impair", "loss=1%"},
	    {"trace-size", "1m"},
	    {"trace-stacks", "yes"},
	    {"explain", "3"},
	    {"shm-dir", "/var/tmp"},
	    {"stats", "json:/tmp/x"},
	};
	static struct options back;

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++)
		ck_assert_msg(!set(given[i][0], given[i][1]), "%s: %s", given[i][0], err);
	ck_assert_int_eq(options_to_env(&o), 0);
	options_default(&back);
	ck_assert_msg(!options_from_env(&back, err, sizeof(err)), "%s", err);
	ck_assert_mem_eq(&back, &o, sizeof(o));
	/* and the defaults unset them */
	setup();
	ck_assert_int_eq(options_to_env(&o), 0);
	ck_assert_ptr_null(options_unknown_env());
	options_default(&back);
	ck_assert_int_eq(options_from_env(&back, err, sizeof(err)), 0);
	ck_assert_mem_eq(&back, &o, sizeof(o));
}
END_TEST

START_TEST(unknown_names_are_told_with_their_neighbour)
{
	ck_assert_int_eq(set("odp-modle", "rnr"), -ENOENT);
	ck_assert_str_eq(options_nearest("odp-modle", false), "odp-model");
	ck_assert_str_eq(options_nearest("URXE_LANS", true), "URXE_LANES");
	ck_assert_ptr_null(options_nearest("something-else-altogether", false));
	ck_assert_ptr_null(options_unknown_env());
	setenv("URXE_LANE", "no", 1);
	ck_assert_str_eq(options_unknown_env(), "URXE_LANE=no");
	unsetenv("URXE_LANE");
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, NULL);
	tcase_add_test(tc, times_have_units);
	tcase_add_test(tc, sizes_have_units);
	tcase_add_test(tc, yes_is_yes_and_no_is_no);
	tcase_add_test(tc, numbers_have_bounds);
	tcase_add_test(tc, a_region_has_no_name_at_its_start);
	tcase_add_test(tc, devices_have_names);
	tcase_add_test(tc, faults_are_of_the_names_that_are_given);
	tcase_add_test(tc, rules_of_files_and_others_add_up);
	tcase_add_test(tc, a_variable_that_is_empty_is_not_set);
	tcase_add_test(tc, all_comes_through_the_environment);
	tcase_add_test(tc, unknown_names_are_told_with_their_neighbour);
}

int main(void)
{
	return util_run("options", add);
}
