/*
 * checks.c - see checks.h.
 */
#include "tools/checks.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/descendants.h"
#include "tools/results.h"
#include "tools/segments.h"
#include "tools/waits.h"

#define MAX_SHOWN 256

static const struct check_option options[] = {
    {"expect", "RULE|@FILE",
     "what the run is expected to do, such as page_faults=0,after=1s or\n"
     "objects_left=0; judged at its end; may be repeated. Exit code 123\n"
     "if a rule fails and COMMAND did well; see urxe(1)"},
    {"timeout", "TIME",
     "kill what COMMAND started when it takes longer, say what each\n"
     "process waited for, and end with exit code 124"},
    {"results", "FORMAT:FILE",
     "write what was checked to FILE as junit, tap or json; may be\n"
     "repeated"},
    {0},
};

const struct check_option *checks_option(size_t i)
{
	return &options[i];
}

/* --- settings --------------------------------------------------------------------- */

static int read_rules(const char *path, char text[EXPECT_TEXT_MAX], char *err,
		      size_t errlen)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, EXPECT_TEXT_MAX);

	if (n < 0)
		snprintf(err, errlen, "%.100s: %s", path, strerror(errno));
	else if (n == EXPECT_TEXT_MAX)
		snprintf(err, errlen, "%.100s has more than %d bytes", path,
			 EXPECT_TEXT_MAX - 1);
	else
		text[n] = '\0';
	if (fd >= 0)
		close(fd);
	return n < 0 || n == EXPECT_TEXT_MAX ? -EINVAL : 0;
}

static int set_expect(struct checks *c, const char *v, char *err, size_t errlen)
{
	char text[EXPECT_TEXT_MAX];
	int n;

	if (*v == '@') {
		if (read_rules(v + 1, text, err, errlen))
			return -EINVAL;
		v = text;
	}
	n = expect_parse(v, c->rule + c->n, EXPECT_MAX_RULES - c->n, err, errlen);
	if (!n)
		snprintf(err, errlen, "has no rule");
	if (n <= 0)
		return -EINVAL;
	c->n += n;
	return 0;
}

int checks_time(const char *v, uint64_t *ns, char *err, size_t errlen)
{
	static const struct {
		const char *unit;
		uint64_t ns;
	} units[] = {{"ms", 1000000},
		     {"s", 1000000000u},
		     {"m", 60000000000u},
		     {"h", 3600000000000u}};
	const uint64_t max = 30ull * 24 * 3600 * 1000000000u;
	uint64_t n;
	char *end;

	errno = 0;
	n = isdigit((unsigned char)*v) ? strtoull(v, &end, 10) : 0;
	for (size_t i = 0; n && !errno && i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].unit) != 0 || n > max / units[i].ns)
			continue;
		*ns = n * units[i].ns;
		return 0;
	}
	snprintf(err, errlen,
		 "'%.40s' is not a time like 30s (ms, s, m, h; at most 30 days)", v);
	return -EINVAL;
}

static int set_results(struct checks *c, const char *v, char *err, size_t errlen)
{
	size_t max = sizeof(c->results) / sizeof(c->results[0]);

	if (results_check(v, err, errlen))
		return -EINVAL;
	if (strlen(v) >= sizeof(c->results[0]) || (size_t)c->n_results == max) {
		snprintf(err, errlen, "there are more than %zu, or one is too long", max);
		return -EINVAL;
	}
	strcpy(c->results[c->n_results++], v);
	return 0;
}

int checks_set(struct checks *c, size_t option, const char *value, char *err,
	       size_t errlen)
{
	if (!strcmp(options[option].name, "expect"))
		return set_expect(c, value, err, errlen);
	if (!strcmp(options[option].name, "timeout"))
		return checks_time(value, &c->timeout, err, errlen);
	return set_results(c, value, err, errlen);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* --- out of time ------------------------------------------------------------------ */

static const char *state_of(char state)
{
	switch (state) {
	case 'R':
		return "runs";
	case 'S':
		return "sleeps";
	case 'D':
		return "waits for the kernel";
	case 'T':
	case 't':
		return "is stopped";
	default:
		return "is there";
	}
}

/* Where in the kernel it sleeps, as far as the kernel tells */
static void read_wchan(pid_t pid, char text[64])
{
	char path[40];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/wchan", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, 63);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	if (!strcmp(text, "0"))
		text[0] = '\0';
}

static void say_wait(void *arg, const struct wait *w)
{
	fprintf(stderr, "    %s\n", w->text);
}

static void say_process(void *arg, const struct segment *s)
{
	if (s->life != SEGMENT_LIVES)
		return;
	fprintf(stderr, "  %s (pid %d) has a device, where this waits:\n",
		trace_info(s->t)->program, trace_info(s->t)->pid);
	waits_each(s->t, now_ns(), say_wait, NULL);
}

void checks_expired(const struct supervised *s)
{
	struct descendant list[MAX_SHOWN];
	size_t n = descendants_of(getpid(), list, MAX_SHOWN);
	char where[64];

	usage_error("--timeout: the command takes longer and is killed; its processes:");
	for (size_t i = 0; i < n; i++) {
		read_wchan(list[i].pid, where);
		fprintf(stderr, "  %s (pid %d) %s%s%s, %.2f s of CPU\n", list[i].name,
			(int)list[i].pid, state_of(list[i].state), *where ? " in " : "",
			where, (double)list[i].cpu / 1e9);
	}
	segments_of(s->dir, say_process, NULL);
}

/* --- the end ---------------------------------------------------------------------- */

static void say_more(const char *more)
{
	for (const char *p = more; *p;) {
		size_t len = strcspn(p, "\n");

		fprintf(stderr, "  %.*s\n", (int)len, p);
		p += len + (p[len] != '\0');
	}
}

/* @results may be NULL. How many rules failed */
static int judge_rules(const struct checks *c, const char *dir, struct results *results)
{
	static struct verdict v;
	int failed = 0;

	for (int i = 0; i < c->n; i++) {
		expect_judge(dir, &c->rule[i], &v);
		if (v.failed[0]) {
			failed++;
			usage_error("--expect: %s", v.failed);
			say_more(v.more);
		}
		if (results)
			results_add(results, c->rule[i].text,
				    v.failed[0] ? v.failed : NULL, v.more, 0);
	}
	return failed;
}

static void write_results(const struct checks *c, const struct results *r)
{
	for (int i = 0; i < c->n_results; i++) {
		int ret = r ? results_write(r, c->results[i]) : -ENOMEM;

		if (ret)
			usage_error("--results: %s: %s", c->results[i], strerror(-ret));
	}
}

static const char *end_of(const struct supervised *s, int code, char text[80])
{
	if (!code)
		return NULL;
	if (s->timed_out)
		snprintf(text, 80, "it took longer than --timeout");
	else if (s->signal)
		snprintf(text, 80, "signal %d (%s)", s->signal, strsignal(s->signal));
	else
		snprintf(text, 80, "exit code %d", code);
	return text;
}

int checks_judge(const struct checks *c, const struct supervised *s, char **argv,
		 int code)
{
	struct results *r = c->n_results ? results_new(argv[0]) : NULL;
	char text[80];
	int failed;

	if (r)
		results_add(r, "the command ends well", end_of(s, code, text), NULL, 0);
	failed = judge_rules(c, s->dir, r);
	write_results(c, r);
	results_free(r);
	return failed && !code ? EXIT_EXPECTED : code;
}
