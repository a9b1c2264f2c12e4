/*
 * sweep.c - `urxe sweep`: run a test again and again, each time with one thing going wrong.
 *
 * Twice it runs untouched, to learn where something could go wrong (sweep_plan.c) and what it does
 * by itself. Then come the trials, in their order, as long as the budget lasts. What fails is
 * tried once more: only what fails twice is a failure, unless the same at the same place is known
 * to be one. Results go to a file, if one is given,
 * from which another sweep of the same command goes on.
 */
#include "tools/sweep.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "tools/checks.h"
#include "tools/results.h"
#include "tools/tools.h"
#include "trace/render.h"

#define SECOND	     ((uint64_t)1000000000u)
#define PROGRESS_MS  1000
#define PLAIN_MS     10000 /* between lines of progress where no terminal is */
#define LIMIT_FACTOR 20	   /* a run may take so many times as long as an untouched one, */
#define LIMIT_HANGS  3	   /* and so many times --hang */

/*
 * struct sweep
 * @groups, @budget, @hang, @seed, @jobs, @compare, @minimize, @pairs: as asked for
 * @given:	--inject: only this is tried
 * @resume:	FILE, and that file open for more
 * @tried:	in this sweep; @known: results that the file had
 * @began:	the trials (ns)
 * @running:	the trial that each world is at; @failed: it is the second time, and what came of
 *		it the first time; else SWEEP_UNTRIED
 */
struct sweep {
	uint32_t groups;
	uint64_t budget, hang, seed;
	unsigned int jobs;
	bool compare, minimize, pairs;
	char given[SWEEP_RULE];
	const char *resume;
	FILE *journal;
	char results[3][256];
	int n_results;
	struct options options;
	char **argv;
	struct sweep_worlds *worlds;
	struct plan plan;
	struct baseline base;
	struct sweep_learnt *first;
	size_t tried, known, failures;
	uint64_t began, told;
	struct trial *running[SWEEP_MAX_JOBS];
	enum sweep_verdict failed[SWEEP_MAX_JOBS];
};

static volatile sig_atomic_t stopped;

static void on_signal(int sig)
{
	stopped = sig;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * SECOND + (uint64_t)ts.tv_nsec;
}

/* --- settings --------------------------------------------------------------------- */

static void print_help(FILE *out)
{
	fputs(
	    "usage: urxe sweep [options] [--] COMMAND [argument...]\n"
	    "\n"
	    "Runs COMMAND untouched to learn where something could go wrong, then "
	    "again and\n"
	    "again with one thing going wrong in one place, and says which runs crash, "
	    "hang,\n"
	    "leak, or do not recover. urxe-inject(7) tells what can go wrong.\n"
	    "\n"
	    "  --what LIST     of call, qp, async, process, access, fault, out, in, "
	    "event,\n"
	    "                  completion; default: all but in\n"
	    "  --budget TIME   stop after this time; default 5m\n"
	    "  --seed N        of the order of trials and of which times are tried\n"
	    "  --jobs N        runs side by side; default: one for each CPU\n"
	    "  --hang TIME     without progress, a run hangs; default 3s\n"
	    "  --check         wrong use of verbs is a failure, too (urxe run --check)\n"
	    "  --compare       the output must be that of the untouched run\n"
	    "  --pairs         then two at a time\n"
	    "  --minimize      shrink what fails to the fewest injections\n"
	    "  --inject RULES  try this only, as to shrink it\n"
	    "  --resume FILE   go on where the sweep that wrote FILE was, and write "
	    "there\n"
	    "  --results FORMAT:FILE\n"
	    "                  each trial as junit, tap or json; may be repeated\n"
	    "  --device NAME=IFACE\n"
	    "                  as of urxe run; default rxe0=lo\n"
	    "  --help\n"
	    "\n"
	    "Exit code: 0 nothing failed, 1 something did, 125 the test does not end "
	    "well by\n"
	    "itself or urxe failed, 2 an option is wrong.\n",
	    out);
}

static const struct option long_options[] = {
    {"what", required_argument, NULL, 'w'},
    {"budget", required_argument, NULL, 'b'},
    {"seed", required_argument, NULL, 's'},
    {"jobs", required_argument, NULL, 'j'},
    {"hang", required_argument, NULL, 'H'},
    {"compare", no_argument, NULL, 'c'},
    {"check", no_argument, NULL, 'k'},
    {"pairs", no_argument, NULL, 'p'},
    {"minimize", no_argument, NULL, 'm'},
    {"inject", required_argument, NULL, 'i'},
    {"resume", required_argument, NULL, 'r'},
    {"results", required_argument, NULL, 'R'},
    {"device", required_argument, NULL, 'd'},
    {"help", no_argument, NULL, 'h'},
    {0},
};

static int take_number(const char *v, uint64_t min, uint64_t max, uint64_t *n, char *err,
		       size_t errlen)
{
	char *end;

	errno = 0;
	*n = isdigit((unsigned char)*v) ? strtoull(v, &end, 10) : max + 1;
	if (!isdigit((unsigned char)*v) || errno || *end || *n < min || *n > max) {
		snprintf(err, errlen, "'%.40s' is not a number from %" PRIu64 " on", v,
			 min);
		return -EINVAL;
	}
	return 0;
}

static int set_given(struct sweep *s, const char *v, char *err, size_t errlen)
{
	if (strlen(v) >= sizeof(s->given)) {
		snprintf(err, errlen, "the rules have more than %zu bytes",
			 sizeof(s->given) - 1);
		return -EINVAL;
	}
	strcpy(s->given, v);
	return inject_parse(v, NULL, INJECT_MAX_RULES, err, errlen) > 0 ? 0 : -EINVAL;
}

static int set_results(struct sweep *s, const char *v, char *err, size_t errlen)
{
	if (results_check(v, err, errlen))
		return -EINVAL;
	if (s->n_results == 3 || strlen(v) >= sizeof(s->results[0])) {
		snprintf(err, errlen, "there are more than 3, or one is too long");
		return -EINVAL;
	}
	strcpy(s->results[s->n_results++], v);
	return 0;
}

/* 0, or -EINVAL with a line in @err */
static int set_option(struct sweep *s, int c, char *err, size_t errlen)
{
	uint64_t n = 0;
	int ret = 0;

	switch (c) {
	case 'w':
		return sweep_groups(optarg, &s->groups, err, errlen);
	case 'b':
		return checks_time(optarg, &s->budget, err, errlen);
	case 'H':
		return checks_time(optarg, &s->hang, err, errlen);
	case 's':
		return take_number(optarg, 0, UINT32_MAX, &s->seed, err, errlen);
	case 'j':
		ret = take_number(optarg, 1, SWEEP_MAX_JOBS, &n, err, errlen);
		s->jobs = (unsigned int)n;
		return ret;
	case 'i':
		return set_given(s, optarg, err, errlen);
	case 'R':
		return set_results(s, optarg, err, errlen);
	case 'd':
		return options_set(&s->options, "device", optarg, err, errlen);
	case 'k':
		return options_set(&s->options, "check", "all", err, errlen);
	case 'c':
		s->compare = true;
		break;
	case 'p':
		s->pairs = true;
		break;
	case 'm':
		s->minimize = true;
		break;
	case 'r':
		s->resume = optarg;
		break;
	}
	return 0;
}

static const char *name_of(int c)
{
	const struct option *o = long_options;

	while (o->name && o->val != c)
		o++;
	return o->name ? o->name : "?";
}

/* 0, an exit code, or -1 when help was printed */
static int parse(struct sweep *s, int argc, char **argv)
{
	char err[240];
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "+:h", long_options, NULL)) != -1) {
		if (c == 'h') {
			print_help(stdout);
			return -1;
		}
		if (c == ':')
			return usage_error(
			    "option '%s' needs a value (see urxe help sweep)",
			    argv[optind - 1]);
		if (c == '?')
			return option_error(c, argv, "sweep");
		if (set_option(s, c, err, sizeof(err)))
			return usage_error("--%s: %s", name_of(c), err);
	}
	if (optind == argc)
		return usage_error("no command to run (see urxe help sweep)");
	s->argv = argv + optind;
	return 0;
}

/* --- runs ------------------------------------------------------------------------- */

static int start(struct sweep *s, unsigned int i, const char *rule, uint64_t limit)
{
	static struct sweep_order order;

	snprintf(order.rule, sizeof(order.rule), "%s", rule);
	order.hang = s->hang;
	order.limit = limit;
	return sweep_worlds_start(s->worlds, i, &order);
}

/* One run by itself, in the first world. 0, or an exit code */
static int run_alone(struct sweep *s, const char *rule, uint64_t limit,
		     struct sweep_outcome *out)
{
	int i = start(s, 0, rule, limit) ? -3 : -1;

	while (i == -1 && !stopped)
		i = sweep_worlds_wait(s->worlds, PROGRESS_MS, out);
	if (stopped)
		return 128 + stopped;
	return i == 0 && !out->failed ? 0 : EXIT_SETUP;
}

/* Show what a run has said, when that is needed to understand it */
static void show_output(const struct sweep_outcome *o)
{
	if (o->err.end[0])
		fprintf(stderr, "%s%s", o->err.end,
			o->err.end[strlen(o->err.end) - 1] == '\n' ? "" : "\n");
}

static int check_untouched(const struct sweep_outcome *o)
{
	if (!o->code && o->hang == SWEEP_ENDED)
		return 0;
	show_output(o);
	if (o->hang != SWEEP_ENDED)
		usage_error("the command hangs by itself: %s", o->waits);
	else if (o->signal)
		usage_error("the command ends by itself with signal %d (%s)", o->signal,
			    strsignal(o->signal));
	else
		usage_error("the command ends by itself with exit code %d", o->code);
	return EXIT_SETUP;
}

/* Two untouched runs. 0 or an exit code */
static int learn(struct sweep *s)
{
	static struct sweep_outcome second;
	char text[32];
	int ret;

	ret = run_alone(s, "learn", 0, &s->base.run);
	if (!ret)
		ret = check_untouched(&s->base.run);
	if (ret)
		return ret;
	s->first = malloc(sizeof(*s->first));
	if (!s->first)
		return EXIT_SETUP;
	memcpy(s->first, sweep_worlds_learnt(s->worlds, 0), sizeof(*s->first));
	ret = run_alone(s, "learn", 0, &second);
	if (!ret)
		ret = check_untouched(&second);
	if (ret)
		return ret;
	s->base.same = second.out.hash == s->base.run.out.hash;
	if (s->compare && !s->base.same)
		usage_error("--compare: two untouched runs write different things; only "
			    "what ends is judged");
	if (sweep_plan_make(&s->plan, s->first, sweep_worlds_learnt(s->worlds, 0),
			    s->groups, s->seed) ||
	    (s->pairs && sweep_plan_pairs(&s->plan, s->seed)))
		return EXIT_SETUP;
	fprintf(
	    stderr,
	    "sweep: %zu points in %u processes, %zu trials; an untouched run takes %s; "
	    "two of them were alike in %zu of %zu points\n",
	    s->plan.points, s->first->n, s->plan.n, trace_time_text(s->base.run.ns, text),
	    s->plan.alike, s->plan.points);
	return 0;
}

/* --- the journal ------------------------------------------------------------------ */

/* Of a file's name and content; 0: it cannot be read */
static uint32_t sum_of(const char *path)
{
	uint32_t sum =
	    (uint32_t)crc32(0, (const unsigned char *)path, (unsigned int)strlen(path));
	unsigned char buf[16384];
	FILE *f = fopen(path, "re");
	size_t n;

	while (f && (n = fread(buf, 1, sizeof(buf), f)) > 0)
		sum = (uint32_t)crc32(sum, buf, (unsigned int)n);
	if (f)
		fclose(f);
	return f ? sum : 0;
}

/* The files that make calls of verbs: results are of these, and of no other build of them */
static uint32_t program_sum(const struct sweep_learnt *l)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < l->n; i++)
		for (uint32_t k = 0; k < l->process[i].n_modules && k < POINTS_MODULES;
		     k++)
			sum ^= sum_of(l->process[i].module[k]) + l->process[i].who.args;
	return sum;
}

/* The command, so that a file of another one is not taken for this one's */
static void write_head(const struct sweep *s, char *text, size_t size)
{
	size_t n =
	    (size_t)snprintf(text, size, "urxe sweep 2 program %08x seed %" PRIu64 ":",
			     program_sum(sweep_worlds_learnt(s->worlds, 0)), s->seed);

	for (char **a = s->argv; *a && n < size; a++)
		n += (size_t)snprintf(text + n, size - n, " %s", *a);
	for (char *p = text; *p; p++)
		if (*p == '\n')
			*p = ' ';
}

/* "verdict ns after rule\twhy" */
static void recall(struct sweep *s, char *line)
{
	char *rule = line, *why, *end;
	enum sweep_verdict v = 0;
	uint64_t ns, after;

	while (v < SWEEP_N_VERDICTS &&
	       (strncmp(sweep_verdict_name(v), line, strcspn(line, " ")) != 0 ||
		sweep_verdict_name(v)[strcspn(line, " ")]))
		v++;
	rule += strcspn(rule, " ");
	ns = strtoull(rule, &end, 10);
	after = strtoull(end, &end, 10);
	rule = end + (*end == ' ');
	why = strchr(rule, '\t');
	if (v == SWEEP_N_VERDICTS || !why)
		return;
	*why++ = '\0';
	why[strcspn(why, "\n")] = '\0';
	for (size_t i = 0; i < s->plan.n; i++) {
		struct trial *t = &s->plan.trial[i];

		if (strcmp(t->rule, rule) != 0 || t->verdict != SWEEP_UNTRIED)
			continue;
		t->verdict = v;
		t->ns = ns;
		t->after = after;
		snprintf(t->why, sizeof(t->why), "%s", why);
		s->known++;
		s->failures += sweep_is_failure(v);
	}
}

/* 0 or an exit code */
static int open_journal(struct sweep *s)
{
	char head[1024], *line = NULL;
	size_t size = 0;
	bool ours = true, whole = true;

	if (!s->resume)
		return 0;
	write_head(s, head, sizeof(head));
	s->journal = fopen(s->resume, "a+e");
	if (!s->journal)
		return usage_error("--resume: %s: %s", s->resume, strerror(errno));
	rewind(s->journal);
	if (getline(&line, &size, s->journal) > 0) {
		line[strcspn(line, "\n")] = '\0';
		ours = !strcmp(line, head);
	} else {
		fprintf(s->journal, "%s\n", head);
	}
	while (ours && getline(&line, &size, s->journal) > 0) {
		whole = strchr(line, '\n');
		recall(s, line);
	}
	if (!whole) /* of a sweep that was killed while it wrote */
		fputc('\n', s->journal);
	free(line);
	if (!ours)
		return usage_error("--resume: %s is of another command, of another build "
				   "of the program, or no file of a sweep",
				   s->resume);
	fflush(s->journal);
	return 0;
}

static void note(struct sweep *s, const struct trial *t)
{
	if (!s->journal)
		return;
	fprintf(s->journal, "%s %" PRIu64 " %" PRIu64 " %s\t%s\n",
		sweep_verdict_name(t->verdict), t->ns, t->after, t->rule, t->why);
	fflush(s->journal);
}

/* --- progress --------------------------------------------------------------------- */

static uint64_t time_left(const struct sweep *s, uint64_t now)
{
	uint64_t spent = now - s->began, rest = s->plan.n - s->tried - s->known;
	uint64_t budget = s->budget > spent ? s->budget - spent : 0;
	uint64_t needed = s->tried ? spent / s->tried * rest : budget;

	return needed < budget ? needed : budget;
}

static void tell_progress(struct sweep *s, bool last)
{
	bool terminal = isatty(STDERR_FILENO);
	uint64_t now = now_ns();

	if (!last && now - s->told < (terminal ? PROGRESS_MS : PLAIN_MS) * 1000000ull)
		return;
	s->told = now;
	fprintf(stderr,
		"%ssweep: %zu of %zu tried, %zu failed, about %" PRIu64 " s left%s",
		terminal ? "\r\033[K" : "", s->tried + s->known, s->plan.n, s->failures,
		time_left(s, now) / SECOND, terminal && !last ? "" : "\n");
}

/* The same place and action failed in the same way before: not new */
static bool is_new(const struct sweep *s, const struct trial *t)
{
	for (size_t i = 0; i < s->plan.n; i++) {
		const struct trial *o = &s->plan.trial[i];

		if (o != t && o->verdict == t->verdict && o->kind == t->kind &&
		    o->at == t->at && !strcmp(o->action, t->action) && o->at)
			return false;
	}
	return true;
}

static void tell_if_new(struct sweep *s, const struct trial *t)
{
	if (!sweep_is_failure(t->verdict) || !is_new(s, t))
		return;
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
	sweep_tell_failure(t, s->argv, stdout);
	fflush(stdout);
}

/* --- trials ----------------------------------------------------------------------- */

static uint64_t limit_of(const struct sweep *s)
{
	return LIMIT_FACTOR * s->base.run.ns + LIMIT_HANGS * s->hang;
}

/* Does the trial fail with @rule in the place of its own? */
static bool fails_with(struct sweep *s, const struct trial *t, const char *rule)
{
	static struct sweep_outcome out;
	struct trial other = *t;

	if (run_alone(s, rule, limit_of(s), &out))
		return false;
	return sweep_is_failure(sweep_judge(&other, &out, &s->base, s->compare));
}

/* @rules without the @skip-th; false: there is none such, or it is the only one */
static bool without(const char *rules, int skip, char *to, size_t size)
{
	int n = 0;
	size_t len = 0;

	*to = '\0';
	for (const char *p = rules; *p; n++) {
		size_t part = strcspn(p, ";");

		if (n != skip)
			len += (size_t)snprintf(to + len, size - len, "%s%.*s",
						len ? ";" : "", (int)part, p);
		p += part + (p[part] == ';');
	}
	return skip < n && n > 1;
}

/* Leave out what the failure does not need; other runs are through */
static void shrink(struct sweep *s, struct trial *t)
{
	char rule[SWEEP_RULE];

	for (int i = 0; !stopped && without(t->rule, i, rule, sizeof(rule));)
		if (fails_with(s, t, rule))
			strcpy(t->rule, rule);
		else
			i++;
}

static void conclude(struct sweep *s, struct trial *t)
{
	s->tried++;
	s->failures += sweep_is_failure(t->verdict);
	note(s, t);
	tell_if_new(s, t);
}

/* A world is through with its trial: the next one, or this one again. 0 or -errno */
static int take_outcome(struct sweep *s, unsigned int i, const struct sweep_outcome *out)
{
	struct trial *t = s->running[i];
	enum sweep_verdict v = sweep_judge(t, out, &s->base, s->compare);

	t->verdict = v;
	if (sweep_is_failure(v) && !s->failed[i] && is_new(s, t)) {
		s->failed[i] = v;
		t->verdict = SWEEP_UNTRIED;
		return start(s, i, t->rule, limit_of(s));
	}
	if (s->failed[i] && v != s->failed[i])
		v = SWEEP_UNSTEADY;
	t->verdict = v;
	s->running[i] = NULL;
	conclude(s, t);
	return 0;
}

static struct trial *next_trial(struct sweep *s, size_t *at)
{
	while (*at < s->plan.n && s->plan.trial[*at].verdict != SWEEP_UNTRIED)
		++*at;
	return *at < s->plan.n ? &s->plan.trial[(*at)++] : NULL;
}

/* Give every world that is free a trial; how many are at work, or -errno */
static int employ(struct sweep *s, size_t *at, bool more)
{
	unsigned int n = sweep_worlds_count(s->worlds);
	int busy = 0;

	for (unsigned int i = 0; i < n; i++) {
		if (!s->running[i] && more) {
			s->running[i] = next_trial(s, at);
			s->failed[i] = SWEEP_UNTRIED;
			if (s->running[i] &&
			    start(s, i, s->running[i]->rule, limit_of(s)))
				return -EPIPE;
		}
		busy += s->running[i] != NULL;
	}
	return busy;
}

/* 0 or an exit code */
static int try_all(struct sweep *s)
{
	static struct sweep_outcome out;
	size_t at = 0;
	int busy, i, ret = 0;

	s->began = s->told = now_ns();
	while (!stopped && !ret) {
		busy = employ(s, &at, now_ns() - s->began < s->budget);
		if (busy <= 0)
			return busy ? EXIT_SETUP : 0;
		i = sweep_worlds_wait(s->worlds, PROGRESS_MS, &out);
		if (i >= 0)
			ret = take_outcome(s, (unsigned int)i, &out);
		else if (i == -3)
			ret = -EPIPE;
		tell_progress(s, false);
	}
	return ret ? EXIT_SETUP : 0;
}

static void shrink_all(struct sweep *s)
{
	for (size_t i = 0; i < s->plan.n && s->minimize; i++) {
		struct trial *t = &s->plan.trial[i];
		char was[SWEEP_RULE];

		if (!sweep_is_failure(t->verdict) || !strchr(t->rule, ';'))
			continue;
		strcpy(was, t->rule);
		shrink(s, t);
		printf("shrunk: %s\n  to: %s\n", was, t->rule);
	}
}

/* --- results ---------------------------------------------------------------------- */

static void write_results(const struct sweep *s)
{
	struct results *r = s->n_results ? results_new(s->argv[0]) : NULL;

	for (size_t i = 0; r && i < s->plan.n; i++) {
		const struct trial *t = &s->plan.trial[i];
		char failed[480], place[512];

		if (t->verdict == SWEEP_UNTRIED)
			continue;
		if (sweep_is_failure(t->verdict)) {
			sweep_place(t, place, sizeof(place));
			snprintf(failed, sizeof(failed), "%s: %s",
				 sweep_verdict_name(t->verdict), t->why);
		}
		results_add(r, t->rule, sweep_is_failure(t->verdict) ? failed : NULL,
			    sweep_is_failure(t->verdict) ? place : NULL, t->ns);
	}
	for (int i = 0; i < s->n_results; i++) {
		int ret = r ? results_write(r, s->results[i]) : -ENOMEM;

		if (ret)
			usage_error("--results: %s: %s", s->results[i], strerror(-ret));
	}
	results_free(r);
}

static void tell_sums(const struct sweep *s)
{
	size_t n[SWEEP_N_VERDICTS] = {0};
	char text[32];

	for (size_t i = 0; i < s->plan.n; i++)
		n[s->plan.trial[i].verdict]++;
	printf(
	    "sweep: %zu trials, %zu passed, %zu refused in order, %zu failed (%zu crash, "
	    "%zu hang, %zu leak, %zu wrong, %zu not recovered, %zu misuse), %zu "
	    "unsteady, %zu not "
	    "come to, %zu untried; %s\n",
	    s->plan.n, n[SWEEP_PASSED], n[SWEEP_REFUSED], s->failures, n[SWEEP_CRASHED],
	    n[SWEEP_HUNG], n[SWEEP_LEAKED], n[SWEEP_WRONG], n[SWEEP_NOT_RECOVERED],
	    n[SWEEP_MISUSED], n[SWEEP_UNSTEADY], n[SWEEP_MISSED], n[SWEEP_UNTRIED],
	    trace_time_text(now_ns() - s->began, text));
}

/* --- the command ------------------------------------------------------------------ */

/* Only what --inject gives. 0 or an exit code */
static int plan_given(struct sweep *s)
{
	struct inject_rule rule[INJECT_MAX_RULES];
	struct trial *t = calloc(1, sizeof(*t));
	int ret = run_alone(s, "learn", 0, &s->base.run);

	if (!ret)
		ret = check_untouched(&s->base.run);
	if (ret || !t) {
		free(t);
		return ret ? ret : EXIT_SETUP;
	}
	inject_parse(s->given, rule, INJECT_MAX_RULES, NULL, 0);
	t->kind = rule[0].kind;
	t->class = SWEEP_REFUSE;
	strcpy(t->name, rule[0].name);
	strcpy(t->rule, s->given);
	strcpy(t->action, "given");
	s->plan = (struct plan){.trial = t, .n = 1, .room = 1};
	return 0;
}

static void catch_signals(void)
{
	const struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGHUP, &sa, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int sweep(struct sweep *s)
{
	int ret = s->given[0] ? plan_given(s) : learn(s);

	if (!ret)
		ret = open_journal(s);
	if (ret)
		return ret;
	ret = try_all(s);
	if (!ret && !stopped)
		shrink_all(s);
	tell_progress(s, true);
	sweep_tell_table(&s->plan, stdout);
	tell_sums(s);
	write_results(s);
	if (ret)
		usage_error("a place for runs is gone");
	return ret ? ret : stopped ? 128 + stopped : s->failures ? 1 : 0;
}

static int sweep_command_run(int argc, char **argv)
{
	static struct sweep s;
	bool apart = true;
	int ret;

	s.groups = SWEEP_DEFAULT_GROUPS;
	s.budget = 300 * SECOND;
	s.hang = 3 * SECOND;
	s.seed = 1;
	s.jobs = (unsigned int)sysconf(_SC_NPROCESSORS_ONLN);
	s.jobs = s.jobs < SWEEP_MAX_JOBS ? s.jobs : SWEEP_MAX_JOBS;
	options_default(&s.options);
	ret = parse(&s, argc, argv);
	if (ret)
		return ret < 0 ? 0 : ret;
	if (!s.options.n_devices)
		options_set(&s.options, "device", "rxe0=lo", NULL, 0);
	ret = run_devices(&s.options);
	if (ret)
		return ret;
	catch_signals();
	s.worlds = sweep_worlds_open(s.jobs, &s.options, s.argv, &apart);
	if (!s.worlds)
		return EXIT_SETUP;
	if (!apart && s.jobs > 1)
		usage_error(
		    "sweep: runs cannot have networks of their own here: one at a "
		    "time, in this one");
	ret = sweep(&s);
	sweep_worlds_close(s.worlds);
	sweep_plan_free(&s.plan);
	free(s.first);
	if (s.journal)
		fclose(s.journal);
	return ret;
}

const struct command command_sweep = {
    .name = "sweep",
    .summary = "run a test again and again, with one thing going wrong each time",
    .run = sweep_command_run,
    .help = print_help,
};
