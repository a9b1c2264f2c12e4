/*
 * sim.c - the command `sim`: thousands of seeds of the simulator, or one in all detail.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "inject/rule.h"
#include "sim.h"

static enum sim_kind current_kind;
static uint64_t current_seed;

/* A crash must name its seed */
static void died(int sig)
{
	char text[100];
	int n = snprintf(text, sizeof(text),
			 "sim: died (signal %d) in: sim --kind %s --seed %llu\n", sig,
			 sim_kind_name(current_kind), (unsigned long long)current_seed);

	if (write(STDERR_FILENO, text, (size_t)n) < 0)
		_exit(1);
	signal(sig, SIG_DFL);
	raise(sig);
}

static void print_line(void *arg, const char *line)
{
	puts(line);
	fflush(stdout);
}

static void usage(FILE *to)
{
	fputs(
	    "usage: sim [--kind KIND] [--seeds N] [--start S] [--seed S] [--record DIR] "
	    "[--verbose] "
	    "[--keep-going] [--inject RULES]\n"
	    "  --kind KIND    only these scenarios (repeatable); without it all\n"
	    "  --seeds N      how many of each kind, 1000\n"
	    "  --start S      the first seed, 1\n"
	    "  --seed S       one scenario, with all its packets\n"
	    "  --record DIR   each host writes a trace there, see urxe help report\n"
	    "  --verbose      a line for each scenario\n"
	    "  --keep-going   do not stop at the first failure; print one line for each\n"
	    "  --inject RULES what goes wrong in each scenario, see urxe-inject(7); the "
	    "model knows "
	    "of no\n"
	    "                 failures but those that are repaired\n"
	    "kinds:",
	    to);
	for (int i = 0; i < SIM_KINDS; i++)
		fprintf(to, " %s", sim_kind_name((enum sim_kind)i));
	fputc('\n', to);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool number(const char *text, uint64_t *out)
{
	char *end;

	errno = 0;
	*out = strtoull(text, &end, 0);
	return *text && !*end && !errno;
}

static int one(enum sim_kind kind, uint64_t seed)
{
	struct sim_stats stats = {0};
	char why[512];

	current_kind = kind;
	current_seed = seed;
	if (sim_one(kind, seed, print_line, NULL, why, sizeof(why), &stats)) {
		printf("sim: kind %s seed %llu: passed\n", sim_kind_name(kind),
		       (unsigned long long)seed);
		return 0;
	}
	printf("sim: kind %s seed %llu: %s\n", sim_kind_name(kind),
	       (unsigned long long)seed, why);
	return 1;
}

/* Seeds of one kind; how many failed */
static uint64_t many(enum sim_kind kind, uint64_t start, uint64_t n, bool keep_going,
		     bool verbose)
{
	struct sim_stats stats = {0};
	uint64_t failed = 0;
	double t = seconds();
	char why[512];

	current_kind = kind;
	for (uint64_t s = start; s < start + n; s++) {
		struct sim_stats before = stats;

		current_seed = s;
		if (!keep_going) {
			if (!sim_many(kind, s, 1, &stats)) {
				failed++;
				break;
			}
		} else if (!sim_one(kind, s, NULL, NULL, why, sizeof(why), &stats)) {
			failed++;
			printf("sim: kind %s seed %llu: %s\n", sim_kind_name(kind),
			       (unsigned long long)s, why);
		}
		if (verbose)
			printf(
			    "%s %llu: %llu packets, %llu completions, %llu runs\n",
			    sim_kind_name(kind), (unsigned long long)s,
			    (unsigned long long)(stats.packets - before.packets),
			    (unsigned long long)(stats.completions - before.completions),
			    (unsigned long long)(stats.runs - before.runs));
	}
	t = seconds() - t;
	printf("%-8s %8llu scenarios, %llu judged, %llu failed, %.0f per second; %llu "
	       "packets, %llu "
	       "lost, "
	       "%llu completions, %llu faults\n",
	       sim_kind_name(kind), (unsigned long long)stats.scenarios,
	       (unsigned long long)stats.judged, (unsigned long long)failed,
	       (double)stats.scenarios / t, (unsigned long long)stats.packets,
	       (unsigned long long)stats.lost, (unsigned long long)stats.completions,
	       (unsigned long long)stats.faults);
	fflush(stdout);
	return failed;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
	    {"kind", required_argument, NULL, 'k'},
	    {"seeds", required_argument, NULL, 'n'},
	    {"start", required_argument, NULL, 's'},
	    {"seed", required_argument, NULL, 'S'},
	    {"record", required_argument, NULL, 'r'},
	    {"verbose", no_argument, NULL, 'v'},
	    {"keep-going", no_argument, NULL, 'g'},
	    {"inject", required_argument, NULL, 'i'},
	    {"help", no_argument, NULL, 'h'},
	    {0},
	};
	bool want[SIM_KINDS] = {false}, all = true, single = false, keep = false,
	     verbose = false;
	uint64_t n = 1000, start = 1, seed = 0, failed = 0;
	int c, kind;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		bool ok = true;

		switch (c) {
		case 'k':
			kind = sim_kind_by_name(optarg);
			ok = kind >= 0;
			all = false;
			if (ok)
				want[kind] = true;
			break;
		case 'n':
			ok = number(optarg, &n);
			break;
		case 's':
			ok = number(optarg, &start);
			break;
		case 'S':
			ok = single = number(optarg, &seed);
			break;
		case 'r':
			sim_record_dir = optarg;
			break;
		case 'i':
			ok = inject_parse(optarg, NULL, INJECT_MAX_RULES, NULL, 0) >= 0;
			sim_inject_rules = optarg;
			break;
		case 'v':
			verbose = true;
			break;
		case 'g':
			keep = true;
			break;
		case 'h':
			usage(stdout);
			return 0;
		default:
			usage(stderr);
			return 2;
		}
		if (!ok) {
			fprintf(stderr, "sim: bad value: %s\n", optarg);
			return 2;
		}
	}
	signal(SIGABRT, died);
	signal(SIGSEGV, died);
	signal(SIGBUS, died);
	signal(SIGFPE, died);
	signal(SIGALRM, died);
	for (int k = 0; k < SIM_KINDS; k++) {
		if (!all && !want[k])
			continue;
		if (single)
			failed += (uint64_t)one((enum sim_kind)k, seed);
		else
			failed += many((enum sim_kind)k, start, n, keep, verbose);
	}
	return failed ? 1 : 0;
}
