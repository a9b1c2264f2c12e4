/*
 * Description: points and rules: which of the times, which process, what is noted, and that
 * points that no rule is about ask nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "inject/inject.h"
#include "inject/points.h"
#include "tests/check_main.h"

static char dir[] = "/tmp/inject-test-XXXXXX";

static bool ask(enum inject_kind kind, const char *name, const char *object)
{
	const struct inject_point p = {
	    .kind = kind, .name = name, .object = object, .page = 4, .n = 2, .key = 5};
	struct inject_what what;

	return inject_ask(&p, &what);
}

static bool call(const char *name)
{
	return ask(INJECT_CALL, name, "");
}

static void begin(const char *rules)
{
	char err[200] = "";

	ck_assert_msg(!inject_start("", rules, err, sizeof(err)), "%s", err);
}

START_TEST(without_rules_nothing_is_asked)
{
	begin("");
	ck_assert_uint_eq(inject_kinds, 0);
	ck_assert(!call("ibv_alloc_pd"));
}
END_TEST

START_TEST(only_kinds_of_rules_for_this_process_ask)
{
	begin("out,process=somebody,do=lose;in,do=lose;call,process=2,do=kill");
	ck_assert_uint_eq(inject_kinds, INJECT_BIT(IN));
	ck_assert(inject_on(INJECT_IN) && !inject_on(INJECT_OUT));
}
END_TEST

START_TEST(the_nth_from_the_nth_every_nth)
{
	begin(
	    "out=ACK,n=3,do=lose;in,from=3,do=lose;completion,every=3,do=RETRY_EXC_ERR");
	for (int i = 1; i <= 9; i++) {
		ck_assert(!ask(INJECT_OUT, "SEND_ONLY", ""));
		ck_assert_int_eq(ask(INJECT_OUT, "ACK", ""), i == 3);
		ck_assert_int_eq(ask(INJECT_IN, "ACK", ""), i >= 3);
		ck_assert_int_eq(ask(INJECT_COMPLETION, "SEND", ""), i % 3 == 0);
	}
}
END_TEST

START_TEST(the_first_rule_acts_and_all_count)
{
	const struct inject_point p = {.kind = INJECT_OUT, .name = "ACK", .object = ""};
	struct inject_what what;

	begin("out,n=2,do=lose;out,from=2,do=double");
	ck_assert(!inject_ask(&p, &what));
	ck_assert(inject_ask(&p, &what));
	ck_assert_int_eq(what.action, INJECT_DO_LOSE);
	ck_assert(inject_ask(&p, &what));
	ck_assert_int_eq(what.action, INJECT_DO_DOUBLE);
}
END_TEST

START_TEST(a_rule_for_all_calls_takes_only_those_that_give_the_error)
{
	begin("call,do=EADDRINUSE");
	ck_assert(!call("ibv_alloc_pd"));
	ck_assert(!call("rdma_destroy_id"));
	ck_assert(call("rdma_bind_addr"));
}
END_TEST

START_TEST(regions_keys_and_pages)
{
	begin("access,mr=a,from=1,do=absent");
	ck_assert(ask(INJECT_ACCESS, "read", "a") && !ask(INJECT_ACCESS, "read", "b"));
	begin("access,mr=0x5,from=1,do=absent");
	ck_assert(ask(INJECT_ACCESS, "read", ""));
	begin("access,mr=0x6,from=1,do=absent");
	ck_assert(!ask(INJECT_ACCESS, "read", ""));
	for (int page = 3; page < 8; page++) {
		char text[64];

		snprintf(text, sizeof(text), "access,page=%d,do=absent", page);
		begin(text);
		ck_assert_int_eq(ask(INJECT_ACCESS, "read", ""), page == 4 || page == 5);
	}
}
END_TEST

/* Rules that fit many things look at each of them */
START_TEST(all_that_a_rule_names_must_fit)
{
	begin("access=read,mr=a,from=1,do=absent");
	ck_assert(ask(INJECT_ACCESS, "read", "a"));
	ck_assert(!ask(INJECT_ACCESS, "write", "a"));
	ck_assert(!ask(INJECT_ACCESS, "read", "b"));
	ck_assert(!ask(INJECT_FAULT, "read", "a"));
	begin("event,from=1,do=reject;event,from=1,do=disconnect");
	ck_assert(ask(INJECT_EVENT, "CONNECT_REQUEST", ""));
	ck_assert(ask(INJECT_EVENT, "ESTABLISHED", ""));
	ck_assert(!ask(INJECT_EVENT, "ADDR_RESOLVED", ""));
	begin("call,from=1,do=qp-error");
	ck_assert(ask(INJECT_CALL, "ibv_post_send", ""));
	ck_assert(!ask(INJECT_CALL, "ibv_alloc_pd", ""));
}
END_TEST

START_TEST(only_the_rank_that_is_named)
{
	setenv("PMIX_RANK", "3", 1);
	begin("call,rank=2,from=1,do=ENOMEM");
	ck_assert_uint_eq(inject_kinds, 0);
	ck_assert(!call("ibv_alloc_pd"));
	begin("call,rank=3,from=1,do=ENOMEM");
	ck_assert(call("ibv_alloc_pd"));
}
END_TEST

START_TEST(other_rules_count_anew)
{
	char err[200];

	begin("call=ibv_alloc_pd,n=2,do=ENOMEM");
	ck_assert(!call("ibv_alloc_pd"));
	ck_assert_int_eq(
	    inject_replace("call=ibv_alloc_pd,n=2,do=ENOMEM", false, err, 200), 0);
	ck_assert(!call("ibv_alloc_pd"));
	ck_assert(call("ibv_alloc_pd"));
	/* what cannot be leaves what is */
	ck_assert_int_eq(inject_replace("out,do=lose", false, err, 200), -EOPNOTSUPP);
	ck_assert_int_eq(inject_replace("nonsense", false, err, 200), -EINVAL);
	ck_assert_uint_eq(inject_kinds, INJECT_BIT(CALL));
	ck_assert_int_eq(inject_replace("out,do=lose", true, err, 200), 0);
	ck_assert(ask(INJECT_OUT, "ACK", ""));
	ck_assert_int_eq(inject_replace("", false, err, 200), 0);
	ck_assert_uint_eq(inject_kinds, 0);
}
END_TEST

START_TEST(a_child_of_fork_has_no_rules)
{
	int status;

	begin("call,from=1,do=ENOMEM");
	ck_assert(call("ibv_alloc_pd"));
	if (!fork()) {
		char err[200];

		inject_forked();
		if (inject_kinds || call("ibv_alloc_pd"))
			_exit(1);
		/* and may get some, which count for it alone */
		if (inject_replace("call,n=2,do=ENOMEM", false, err, 200) ||
		    call("ibv_alloc_pd"))
			_exit(2);
		_exit(call("ibv_alloc_pd") ? 0 : 3);
	}
	wait(&status);
	ck_assert_int_eq(status, 0);
	ck_assert(call("ibv_alloc_pd"));
}
END_TEST

START_TEST(kill_exit_and_stop)
{
	static const struct timespec ms = {.tv_nsec = 1000000};
	struct timespec a, b;
	int status;

	for (int i = 0; i < 2; i++) {
		if (!fork()) {
			begin(i ? "call,do=exit:7" : "call,do=kill");
			call("ibv_alloc_pd");
			_exit(0);
		}
		wait(&status);
		ck_assert_int_eq(i ? WEXITSTATUS(status) : WTERMSIG(status), i ? 7 : 9);
	}
	begin("call,do=stop:50ms");
	clock_gettime(CLOCK_MONOTONIC, &a);
	ck_assert(!call("ibv_alloc_pd"));
	clock_gettime(CLOCK_MONOTONIC, &b);
	ck_assert_int_ge(
	    (b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / ms.tv_nsec, 49);
	ck_assert_int_eq(wait(NULL), -1); /* nobody is left to be waited for */
}
END_TEST

static int children;

static void on_child(int sig)
{
	children++;
}

START_TEST(the_program_does_not_notice_the_fork)
{
	signal(SIGCHLD, on_child);
	begin("call,do=fork");
	ck_assert(!call("ibv_alloc_pd"));
	ck_assert_int_eq(children, 0);
	ck_assert_int_eq(wait(NULL), -1);
}
END_TEST

/* A child of the program's own has ended, and it is not told yet. */
START_TEST(the_end_of_a_child_is_not_swallowed)
{
	sigset_t chld, pending;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, NULL);
	kill(getpid(), SIGCHLD);
	begin("call,do=fork");
	ck_assert(!call("ibv_alloc_pd"));
	sigpending(&pending);
	ck_assert(sigismember(&pending, SIGCHLD));
}
END_TEST

/* --- what others read ------------------------------------------------------------- */

static struct points *read_points(int number)
{
	char path[80];
	struct points *p;
	int fd;

	snprintf(path, sizeof(path), "%s/inject/%d", dir, number);
	fd = open(path, O_RDONLY);
	ck_assert_int_ge(fd, 0);
	p = points_read(fd);
	close(fd);
	return p;
}

static const struct point *noted(const struct points *p, const char *name)
{
	for (uint32_t i = 0; i < p->n_points; i++)
		if (!strcmp(p->point[i].name, name))
			return &p->point[i];
	return NULL;
}

START_TEST(what_is_learnt_is_there_after_a_kill)
{
	struct points *p;
	char err[200];
	pid_t child;

	child = fork();
	if (!child) {
		if (inject_start(dir, "learn", err, sizeof(err)))
			_exit(1);
		for (int i = 0; i < 5; i++)
			call("ibv_alloc_pd");
		call("ibv_reg_mr");
		ask(INJECT_ACCESS, "read", "mr1");
		raise(SIGKILL);
	}
	waitpid(child, NULL, 0);
	p = read_points(1);
	ck_assert_ptr_nonnull(p);
	ck_assert_int_eq(p->who.pid, child);
	ck_assert_uint_eq(p->who.number, 1);
	ck_assert_uint_eq(p->n_points, 3);
	ck_assert_uint_eq(noted(p, "ibv_alloc_pd")->count, 5);
	ck_assert_uint_eq(noted(p, "ibv_reg_mr")->count, 1);
	ck_assert_uint_ne(noted(p, "ibv_reg_mr")->stack, noted(p, "ibv_alloc_pd")->stack);
	ck_assert_uint_gt(noted(p, "ibv_reg_mr")->n_frames, 0);
	ck_assert_ptr_nonnull(strstr(p->module[0], "inject_test_points"));
	ck_assert_str_eq(noted(p, "read")->object, "mr1");
	ck_assert_uint_eq(noted(p, "read")->n_frames, 0);
	free(p);
}
END_TEST

/* A child that obeys @rules and makes two calls; its exit code says which failed. */
static int child_with(const char *rules)
{
	pid_t child = fork();
	char err[200];
	int status;

	if (!child) {
		if (inject_start(dir, rules, err, sizeof(err)))
			_exit(100);
		_exit(call("ibv_alloc_pd") + 2 * call("ibv_reg_mr"));
	}
	waitpid(child, &status, 0);
	return WEXITSTATUS(status);
}

START_TEST(processes_that_are_called_alike_are_told_apart_by_their_order)
{
	static const char rule[] =
	    "call=ibv_reg_mr,process=inject_test_points.2,do=ENOMEM";
	static const char second[] = "call=ibv_alloc_pd,process=4,do=ENOMEM";
	struct points *p;

	ck_assert_int_eq(child_with(rule), 0);
	ck_assert_int_eq(child_with(rule), 2);
	ck_assert_int_eq(child_with(rule), 0);
	ck_assert_int_eq(child_with(second), 1);
	p = read_points(2);
	ck_assert_uint_eq(p->who.nth, 2);
	ck_assert_uint_eq(p->hit[0].count, 1);
	ck_assert_uint_ne(p->hit[0].time, 0);
	ck_assert_str_eq(p->hit[0].at.name, "ibv_reg_mr");
	free(p);
	p = read_points(3);
	ck_assert_uint_eq(p->hit[0].count, 0);
	free(p);
}
END_TEST

/* How this program was started by another name, or with another argument */
static pid_t start_as(const char *name, const char *argument)
{
	pid_t child = fork();

	if (!child) {
		execl("/proc/self/exe", name, argument, dir, NULL);
		_exit(100);
	}
	waitpid(child, NULL, 0);
	return child;
}

/* The path is no argument: a program may be called from anywhere. */
START_TEST(processes_are_told_apart_by_their_arguments)
{
	static const struct {
		const char *name, *argument;
		uint32_t nth;
	} c[] = {{"./a", "learn", 1}, {"/elsewhere/a", "learn", 2}, {"./a", "learn ", 1}};
	uint32_t args[3];

	for (int i = 0; i < 3; i++) {
		struct points *p;
		pid_t child = start_as(c[i].name, c[i].argument);

		p = read_points(i + 1);
		ck_assert_ptr_nonnull(p);
		ck_assert_int_eq(p->who.pid, child);
		ck_assert_uint_eq(p->who.nth, c[i].nth);
		args[i] = p->who.args;
		free(p);
	}
	ck_assert_uint_eq(args[0], args[1]);
	ck_assert_uint_ne(args[0], args[2]);
}
END_TEST

START_TEST(rules_name_the_arguments)
{
	char rule[80];
	struct points *p;

	ck_assert_int_eq(child_with("learn"), 0);
	p = read_points(1);
	ck_assert_ptr_nonnull(p);
	for (int i = 0; i < 2; i++) {
		snprintf(rule, sizeof(rule),
			 "call,process=inject_test_points:%x,do=ENOMEM",
			 (p->who.args + (uint32_t)i) & 0xffff);
		ck_assert_int_eq(child_with(rule), i ? 0 : 1);
	}
	free(p);
}
END_TEST

START_TEST(what_there_is_no_room_for_is_counted)
{
	char err[200], name[INJECT_NAME];
	struct points *p;

	ck_assert_int_eq(inject_start(dir, "learn", err, sizeof(err)), 0);
	for (int i = 0; i < POINTS_MAX + 3; i++) {
		snprintf(name, sizeof(name), "object %d", i);
		ask(INJECT_ACCESS, "read", name);
	}
	ask(INJECT_ACCESS, "read", "object 0");
	p = read_points(1);
	ck_assert_ptr_nonnull(p);
	ck_assert_uint_eq(p->n_points, POINTS_MAX);
	ck_assert_uint_eq(p->lost, 3);
	ck_assert_uint_eq(p->point[0].count, 2);
	ck_assert_uint_eq(p->hit[0].count, 0);
	free(p);
}
END_TEST

START_TEST(hits_are_of_the_rules_that_are_there)
{
	char err[200];
	struct points *p;
	uint64_t first;

	ck_assert_int_eq(inject_start(dir, "call,from=1,do=ENOMEM", err, sizeof(err)), 0);
	call("ibv_alloc_pd");
	p = read_points(1);
	first = p->hit[0].time;
	free(p);
	call("ibv_reg_mr");
	p = read_points(1);
	ck_assert_uint_eq(p->hit[0].count, 2);
	/* when and where it acted first */
	ck_assert_uint_eq(p->hit[0].time, first);
	ck_assert_str_eq(p->hit[0].at.name, "ibv_alloc_pd");
	free(p);
	ck_assert_int_eq(inject_replace("call,n=9,do=ENOMEM", false, err, 200), 0);
	p = read_points(1);
	ck_assert_uint_eq(p->hit[0].count, 0);
	free(p);
}
END_TEST

START_TEST(the_same_call_elsewhere_has_another_stack)
{
	char rule[80] = "learn";
	struct points *p;

	/* one call in the machine code, too: volatile keeps it from being doubled */
	for (volatile int i = 0; i < 2; i++) {
		ck_assert_int_eq(child_with(rule), i ? 2 : 0);
		p = read_points(1);
		if (!i)
			snprintf(rule, sizeof(rule), "call,at=%llx,do=ENOMEM",
				 (unsigned long long)noted(p, "ibv_reg_mr")->stack);
		free(p);
	}
	ck_assert_int_eq(child_with(rule), 0); /* from another line */
}
END_TEST

static void *call_thrice(void *arg)
{
	int *failed = arg;

	for (int i = 1; i <= 3; i++)
		if (call("ibv_reg_mr"))
			*failed = i;
	return NULL;
}

START_TEST(threads_have_counts_of_their_own_in_the_order_of_their_first_calls)
{
	char err[200];
	int failed = 0;
	pthread_t t;

	ck_assert_int_eq(inject_start(dir, "learn", err, sizeof(err)), 0);
	call("ibv_reg_mr");
	ck_assert_int_eq(inject_replace("call,thread=2,n=2,do=ENOMEM", false, err, 200),
			 0);
	ck_assert_int_eq(pthread_create(&t, NULL, call_thrice, &failed), 0);
	pthread_join(t, NULL);
	ck_assert_int_eq(failed, 2);
	failed = 0;
	ck_assert_int_eq(inject_replace("call,thread=1,n=2,do=ENOMEM", false, err, 200),
			 0);
	ck_assert_int_eq(pthread_create(&t, NULL, call_thrice, &failed), 0);
	pthread_join(t, NULL);
	ck_assert_int_eq(failed, 0); /* that was the third thread */
	call_thrice(&failed);
	ck_assert_int_eq(failed, 2);
}
END_TEST

START_TEST(files_of_anybody_are_read_without_harm)
{
	struct points *p = calloc(1, sizeof(*p)), *got;
	int fd = open(dir, O_TMPFILE | O_RDWR, 0600);

	ck_assert_ptr_null(points_read(fd));
	memset(p, 0xff, sizeof(*p));
	ck_assert_int_eq(pwrite(fd, p, sizeof(*p), 0), (ssize_t)sizeof(*p));
	ck_assert_ptr_null(points_read(fd));
	memcpy(p->who.magic, POINTS_MAGIC, 8);
	p->who.version = POINTS_VERSION;
	p->who.size = sizeof(*p);
	ck_assert_int_eq(pwrite(fd, p, sizeof(*p), 0), (ssize_t)sizeof(*p));
	got = points_read(fd);
	ck_assert_ptr_nonnull(got);
	ck_assert_uint_le(got->n_points, POINTS_MAX);
	ck_assert_uint_lt(strlen(got->who.program), sizeof(got->who.program));
	ck_assert_uint_lt(got->point[7].frame[3].module, POINTS_MODULES);
	ck_assert_uint_lt(got->hit[1].at.kind, INJECT_N_KINDS);
	for (uint32_t i = 0; i < got->n_points; i++) {
		const struct point *at = &got->point[i];

		ck_assert_uint_le(at->n_frames, POINTS_FRAMES);
		for (uint32_t k = 0; k < POINTS_FRAMES; k++)
			if (at->frame[k].module >= POINTS_MODULES)
				ck_abort_msg("module %u", at->frame[k].module);
	}
	free(got);
	/* one that is cut off, though it begins well */
	ck_assert_int_eq(ftruncate(fd, sizeof(*p) - 1), 0);
	ck_assert_ptr_null(points_read(fd));
	free(p);
	close(fd);
}
END_TEST

START_TEST(texts_of_anybody_command_no_terminal)
{
	struct points *p = calloc(1, sizeof(*p)), *got;
	int fd = open(dir, O_TMPFILE | O_RDWR, 0600);

	memcpy(p->who.magic, POINTS_MAGIC, 8);
	p->who.version = POINTS_VERSION;
	p->who.size = sizeof(*p);
	p->n_points = POINTS_MAX + 1;
	p->point[0].n_frames = 1;
	p->point[0].frame[0].module = POINTS_MODULES;
	strcpy(p->who.program, "a\033[2J");
	strcpy(p->point[0].name, "b\x7f\n");
	memset(p->point[0].object, '\t', sizeof(p->point[0].object));
	strcpy(p->module[POINTS_MODULES - 1], "/\001");
	ck_assert_int_eq(pwrite(fd, p, sizeof(*p), 0), (ssize_t)sizeof(*p));
	got = points_read(fd);
	ck_assert_ptr_nonnull(got);
	ck_assert_uint_eq(got->n_points, POINTS_MAX);
	ck_assert_uint_lt(got->point[0].frame[0].module, POINTS_MODULES);
	ck_assert_str_eq(got->who.program, "a?[2J");
	ck_assert_str_eq(got->point[0].name, "b??");
	ck_assert_uint_eq(strspn(got->point[0].object, "?"),
			  sizeof(got->point[0].object) - 1);
	ck_assert_str_eq(got->module[POINTS_MODULES - 1], "/?");
	free(got);
	free(p);
	close(fd);
}
END_TEST

START_TEST(without_a_place_for_the_file_rules_work_all_the_same)
{
	char err[200];

	ck_assert_int_eq(inject_start("/nonexistent/directory",
				      "call=ibv_alloc_pd,do=ENOMEM", err, 200),
			 0);
	ck_assert(call("ibv_alloc_pd"));
}
END_TEST

static void make_dir(void)
{
	strcpy(dir, "/tmp/inject-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void)
{
	char path[400];
	struct dirent *e;
	DIR *d;

	snprintf(path, sizeof(path), "%s/inject", dir);
	d = opendir(path);
	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		/* nothing but numbers stays */
		ck_assert_uint_eq(strspn(e->d_name, "0123456789"), strlen(e->d_name));
		unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
	rmdir(path);
	ck_assert_int_eq(rmdir(dir), 0);
}

/* As start_as() starts it: ARGUMENT DIRECTORY */
static int learn_in(const char *path)
{
	char err[200];

	return inject_start(path, "learn", err, sizeof(err)) ? 1 : 0;
}

int main(int argc, char **argv)
{
	if (argc == 3)
		return learn_in(argv[2]);

	Suite *s = suite_create("points");
	TCase *tc = tcase_create("points");

	suite_add_tcase(s, tc);
	tcase_add_checked_fixture(tc, make_dir, remove_dir);
	tcase_add_test(tc, without_rules_nothing_is_asked);
	tcase_add_test(tc, only_kinds_of_rules_for_this_process_ask);
	tcase_add_test(tc, the_nth_from_the_nth_every_nth);
	tcase_add_test(tc, the_first_rule_acts_and_all_count);
	tcase_add_test(tc, a_rule_for_all_calls_takes_only_those_that_give_the_error);
	tcase_add_test(tc, regions_keys_and_pages);
	tcase_add_test(tc, all_that_a_rule_names_must_fit);
	tcase_add_test(tc, only_the_rank_that_is_named);
	tcase_add_test(tc, other_rules_count_anew);
	tcase_add_test(tc, a_child_of_fork_has_no_rules);
	tcase_add_test(tc, kill_exit_and_stop);
	tcase_add_test(tc, the_program_does_not_notice_the_fork);
	tcase_add_test(tc, the_end_of_a_child_is_not_swallowed);
	tcase_add_test(tc, what_is_learnt_is_there_after_a_kill);
	tcase_add_test(tc, processes_are_told_apart_by_their_arguments);
	tcase_add_test(tc, rules_name_the_arguments);
	tcase_add_test(tc, what_there_is_no_room_for_is_counted);
	tcase_add_test(tc, hits_are_of_the_rules_that_are_there);
	tcase_add_test(tc, processes_that_are_called_alike_are_told_apart_by_their_order);
	tcase_add_test(
	    tc, threads_have_counts_of_their_own_in_the_order_of_their_first_calls);
	tcase_add_test(tc, the_same_call_elsewhere_has_another_stack);
	tcase_add_test(tc, files_of_anybody_are_read_without_harm);
	tcase_add_test(tc, texts_of_anybody_command_no_terminal);
	tcase_add_test(tc, without_a_place_for_the_file_rules_work_all_the_same);
	return check_main(s);
}
