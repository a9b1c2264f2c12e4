/*
 * run.c - `urxe run`: start a program with the emulated devices.
 *
 * Reads the settings, makes the session directory and has the program started with the
 * preload library. What is done here is paid by every start, so it is little: the
 * generated sysfs tree is written by the first program that looks at it.
 */
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/pcap.h"
#include "net/process_table.h"
#include "tools/checked.h"
#include "tools/checks.h"
#include "tools/descendants.h"
#include "tools/injected.h"
#include "tools/control.h"
#include "tools/keep.h"
#include "tools/remote.h"
#include "tools/segments.h"
#include "tools/tools.h"
#include "verbs/host/options.h"
#include "verbs/host/report.h"
#include "verbs/host/tree.h"
#include "verbs/host/unopened.h"

#define MAX_OPTIONS 40
#define OPT_TABLE   256 /* getopt values of the table's rows begin here */
#define OPT_CHECKS  512 /* and those of checks.c here */

static void print_lines(FILE *out, const char *help)
{
	for (const char *p = help; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL)
		fprintf(out, "        %.*s\n", (int)strcspn(p, "\n"), p);
}

static void print_help(FILE *out)
{
	const struct option_desc *d;

	fputs(
	    "usage: urxe run [options] [--] COMMAND [argument...]\n"
	    "\n"
	    "Runs COMMAND so that it finds emulated RDMA devices, named rxe0, rxe1, ...\n"
	    "Most options have an environment variable, which holds for all runs.\n"
	    "\n",
	    out);
	for (size_t i = 0; (d = options_desc(i)); i++) {
		if (!d->name)
			continue;
		if (d->implied)
			fprintf(out, "  --%s[=%s]", d->name, d->arg);
		else
			fprintf(out, "  --%s %s", d->name, d->arg);
		fprintf(out, "   (%s)\n", d->env);
		print_lines(out, d->help);
	}
	for (const struct check_option *c = checks_option(0); c->name; c++) {
		fprintf(out, "  --%s %s\n", c->name, c->arg);
		print_lines(out, c->help);
	}
	fputs(
	    "  --help\n"
	    "\n"
	    "The exit code is that of COMMAND; 127 if it is not found, 126 if it cannot "
	    "be\n"
	    "executed, 125 if urxe itself fails, 124 if it took too long, 123 if what "
	    "was\n"
	    "expected did not come true, 2 if an option or variable is wrong.\n",
	    out);
}

/* --- settings --------------------------------------------------------------------- */

static void make_long_options(struct option *lo)
{
	const struct option_desc *d;
	size_t n = 0;

	for (size_t i = 0; (d = options_desc(i)) && n < MAX_OPTIONS - 2; i++) {
		if (!d->name)
			continue;
		lo[n++] = (struct option){.name = d->name,
					  .has_arg = d->implied ? optional_argument
								: required_argument,
					  .val = OPT_TABLE + (int)i};
	}
	for (size_t i = 0; checks_option(i)->name && n < MAX_OPTIONS - 2; i++)
		lo[n++] = (struct option){.name = checks_option(i)->name,
					  .has_arg = required_argument,
					  .val = OPT_CHECKS + (int)i};
	lo[n++] = (struct option){.name = "help", .val = 'h'};
	lo[n] = (struct option){0};
}

/* @given: bit n: row n was on the command line already */
static int set_option(struct options *o, int row, const char *value, uint32_t *given)
{
	const struct option_desc *d = options_desc((size_t)row);
	char err[200];

	/* The command line replaces what the environment says, and adds up by itself. */
	if (d->repeat && !(*given & 1u << row))
		options_clear(o, d->name);
	*given |= 1u << row;
	if (options_set(o, d->name, value ? value : d->implied, err, sizeof(err)))
		return usage_error("--%s: %s", d->name, err);
	return 0;
}

static int set_check(struct checks *c, size_t i, const char *value)
{
	char err[240];

	if (checks_set(c, i, value, err, sizeof(err)))
		return usage_error("--%s: %s", checks_option(i)->name, err);
	return 0;
}

/* A variable that does nothing is a misspelt one more often than somebody else's. */
static void warn_of_unknown_variable(void)
{
	const char *var = options_unknown_env(), *near;
	char name[64];

	if (!var)
		return;
	snprintf(name, sizeof(name), "%.*s", (int)strcspn(var, "="), var);
	near = options_nearest(name, true);
	usage_error("%s is no variable of urxe and changes nothing%s%s%s", name,
		    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int unknown_option(const char *given)
{
	const char *near = options_nearest(given + strspn(given, "-"), false);

	if (near)
		return usage_error("unknown option '%s'; did you mean --%s?", given,
				   near);
	return usage_error("unknown option '%s' (see urxe help run)", given);
}

/* Parse up to the command; 0, an exit code, or -1 when help was printed. */
static int parse(int argc, char **argv, struct options *o, struct checks *checks)
{
	struct option lo[MAX_OPTIONS];
	uint32_t given = 0;
	char err[200];
	int c, ret;

	options_default(o);
	if (options_from_env(o, err, sizeof(err)))
		return usage_error("%s", err);
	make_long_options(lo);
	opterr = 0;
	while ((c = getopt_long(argc, argv, "+:h", lo, NULL)) != -1) {
		switch (c) {
		case 'h':
			print_help(stdout);
			return -1;
		case ':':
			return usage_error(
			    "option '%s' needs a value (see urxe help run)",
			    argv[optind - 1]);
		case '?':
			if (optopt && optopt < OPT_TABLE)
				return usage_error(
				    "unknown option '-%c' (see urxe help run)", optopt);
			return unknown_option(argv[optind - 1]);
		default:
			ret = c < OPT_CHECKS
				  ? set_option(o, c - OPT_TABLE, optarg, &given)
				  : set_check(checks, (size_t)(c - OPT_CHECKS), optarg);
			if (ret)
				return ret;
		}
	}
	if (optind == argc)
		return usage_error("no command to run (see urxe help run)");
	return 0;
}

static bool has_device(const struct options *o, const char *name)
{
	for (unsigned int i = 0; i < o->n_devices; i++)
		if (!strcmp(o->device[i].name, name))
			return true;
	return false;
}

/*
 * Fix the list of devices now: all programs of the run must agree on it even if an
 * interface comes or goes meanwhile.
 */
int run_devices(struct options *o)
{
	bool chosen = o->n_devices;
	int ret = tree_devices(o);

	if (ret) {
		usage_error("cannot list the network interfaces: %s", strerror(-ret));
		return EXIT_SETUP;
	}
	for (unsigned int i = 0; chosen && i < o->n_devices; i++)
		if (!if_nametoindex(o->device[i].ifname))
			return usage_error(
			    "device %s: there is no network interface '%s'",
			    o->device[i].name, o->device[i].ifname);
	for (unsigned int i = 0; i < o->n_faults; i++)
		if ((o->faults[i].has_model || o->faults[i].has_latency ||
		     o->faults[i].start) &&
		    !has_device(o, o->faults[i].name))
			return usage_error("there is no device '%s', which an option "
					   "of on-demand paging names",
					   o->faults[i].name);
	return 0;
}

/* A capture is of one run, or of several that go on at the same time. */
static int renew_capture(const struct options *o)
{
	int ret = o->pcap[0] && !report_is_pattern(o->pcap) ? pcap_renew(o->pcap) : 0;

	if (ret == -EEXIST)
		return usage_error("--pcap: %s is there and is no capture of urxe",
				   o->pcap);
	return ret ? usage_error("--pcap: %s: %s", o->pcap, strerror(-ret)) : 0;
}

/* A trace is of one run: what an earlier one left under the name goes. */
static int renew_trace(const struct options *o)
{
	char why[TRACE_WHY_BYTES];
	struct trace_reader *t;
	struct stat st;

	if (!o->trace[0] || report_is_pattern(o->trace) || lstat(o->trace, &st))
		return 0;
	if (S_ISDIR(st.st_mode))
		return access(o->trace, W_OK | X_OK)
			   ? usage_error("--trace: %s: %s", o->trace, strerror(errno))
			   : 0;
	if (st.st_size && trace_open(o->trace, why, sizeof(why), &t))
		return usage_error("--trace: %s is there and %s", o->trace, why);
	if (st.st_size)
		trace_close(t);
	return unlink(o->trace)
		   ? usage_error("--trace: %s: %s", o->trace, strerror(errno))
		   : 0;
}

static int check_suppressions(const struct options *o)
{
	const char *path = o->check_suppressions;
	int err = *path ? checked_suppressions(path) : 0;

	return err ? usage_error("--check-suppressions: %s: %s", path, strerror(-err))
		   : 0;
}

/* --- the program's environment ---------------------------------------------------- */

static bool is_ours(const char *lib, size_t len)
{
	static const char *const names[] = {"liburxe.so", CHECK_LIBRARY};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(names[i]);

		if (len >= n && !strncmp(lib + len - n, names[i], n) &&
		    (len == n || lib[len - n - 1] == '/'))
			return true;
	}
	return false;
}

/*
 * Put @lib before what is preloaded already; another liburxe.so, of an outer run, gives
 * way. ld.so(8): the list is separated by colons or spaces.
 */
static int set_preload(const char *lib)
{
	const char *old = getenv("LD_PRELOAD");
	size_t len = strlen(lib);
	char *value, *p;
	int ret;

	value = malloc(len + (old ? strlen(old) : 0) + 2);
	if (!value)
		return -ENOMEM;
	p = stpcpy(value, lib);
	while (old && *old) {
		size_t n = strcspn(old, ": ");

		if (n && !is_ours(old, n)) {
			*p++ = ':';
			p = mempcpy(p, old, n);
		}
		old += n + (old[n] != '\0');
	}
	*p = '\0';
	ret = setenv("LD_PRELOAD", value, 1) ? -errno : 0;
	free(value);
	return ret;
}

/*
 * A program linked with a shared AddressSanitizer insists on coming first, for no need
 * here.
 */
static int permit_asan(void)
{
	const char *old = getenv("ASAN_OPTIONS");
	const char *add = "verify_asan_link_order=0";
	char *value;
	int ret;

	if (old && strstr(old, "verify_asan_link_order"))
		return 0;
	if (asprintf(&value, "%s%s%s", old ? old : "", old && *old ? ":" : "", add) < 0)
		return -ENOMEM;
	ret = setenv("ASAN_OPTIONS", value, 1) ? -errno : 0;
	free(value);
	return ret;
}

/* A path that LD_PRELOAD cannot hold gets a link without colons and spaces. */
static int preload_name(const struct session *s, const char *name, char path[PATH_MAX])
{
	char link[sizeof(s->dir) + 32];
	int ret = preload_path(name, path);

	if (ret || !strpbrk(path, ": "))
		return ret;
	snprintf(link, sizeof(link), "%s/%s", s->dir, name);
	if (symlink(path, link))
		return -errno;
	strcpy(path, link);
	return 0;
}

/* What is preloaded, separated by a colon; 0 or EXIT_SETUP */
static int choose_libraries(const struct options *o, const struct session *s,
			    char list[2 * PATH_MAX])
{
	const char *const names[] = {SESSION_LIBRARY, o->check[0] ? CHECK_LIBRARY : NULL};
	char lib[PATH_MAX], *p = list;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && names[i]; i++) {
		int ret = preload_name(s, names[i], lib);

		if (ret) {
			usage_error("%s: %s",
				    access("/proc/self", F_OK) ? "/proc" : names[i],
				    strerror(-ret));
			return EXIT_SETUP;
		}
		p += sprintf(p, "%s%s", i ? ":" : "", lib);
	}
	return 0;
}

static int prepare(struct options *o, const struct session *s)
{
	char lib[2 * PATH_MAX];
	int ret;

	ssize_t n = readlink("/proc/self/exe", o->command, sizeof(o->command) - 1);

	o->command[n < 0 ? 0 : n] = '\0';
	snprintf(o->dir, sizeof(o->dir), "%s", s->dir);
	if (choose_libraries(o, s, lib))
		return EXIT_SETUP;
	ret = options_to_env(o);
	if (!ret)
		ret = set_preload(lib);
	if (!ret)
		ret = permit_asan();
	if (ret) {
		usage_error("cannot set the environment: %s", strerror(-ret));
		return EXIT_SETUP;
	}
	return 0;
}

/* --- the run ---------------------------------------------------------------------- */

/* End as the program ended, so that a shell sees the same. */
static void die_by(int sig)
{
	const struct rlimit none = {0};
	sigset_t set;

	setrlimit(RLIMIT_CORE, &none); /* the program has dumped its own */
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* The settings are good for a run: files can be made, devices are there. 0 or an exit code */
static int settle(struct options *o, const struct checks *checks)
{
	int ret;

	warn_of_unknown_variable();
	o->completions = expect_wants_completions(checks->rule, checks->n);
	ret = run_devices(o);
	if (!ret)
		ret = renew_capture(o);
	if (!ret)
		ret = renew_trace(o);
	return ret ? ret : check_suppressions(o);
}

/* What several processes have written is put into the order of time. */
static void order_capture(const struct options *o)
{
	int ret = o->pcap[0] && !report_is_pattern(o->pcap) ? pcap_sort(o->pcap) : 0;

	if (ret)
		usage_error("--pcap: %s is not in the order of time: %s", o->pcap,
			    strerror(-ret));
}

static void is_there(void *arg, const struct segment *s)
{
	*(bool *)arg = true;
}

/* A library that chooses for its program may have taken something else. */
static void say_unopened(const struct session *s)
{
	bool opened = false;
	char who[160];

	if (!unopened_find(s->lock, who, sizeof(who)))
		return;
	segments_of(s->dir, is_there, &opened);
	if (!opened)
		usage_error("no program of this run opened a device; %s (what MPI and "
			    "the like must be told: docs/programs.md)",
			    who);
}

/* What is told of the run, and the end of its directory. The exit code */
static int conclude(const struct options *o, const struct checks *checks,
		    const struct keep *keep, const struct session *session,
		    const struct supervised *s, char **argv, int code)
{
	segments_report(session->dir, o->stats);
	injected_warn(session->dir, o->inject);
	order_capture(o);
	control_keep(session->dir);
	if (!s->leftover)
		say_unopened(session);
	if (s->ran)
		code = checks_judge(checks, s, argv, code);
	if (o->check[0] && checked_report(o) && o->check_exitcode)
		code = o->check_exitcode;
	keep_end(keep, argv[0], code);
	if (s->leftover)
		session_linger(session);
	else if (!session_remove(session))
		usage_error("%s has files that urxe did not make, and stays",
			    session->dir);
	return code;
}

int run_once(struct options *o, char **argv, const char *place, struct supervised *s,
	     void (*look)(void *arg, const char *dir), void *arg)
{
	struct session session;
	int ret, status;

	supervise_block(&s->mask);
	if (session_create(&session, place, 1))
		return EXIT_SETUP;
	s->dir = session.dir;
	ret = prepare(o, &session);
	if (!ret)
		ret = supervise(argv, s);
	look(arg, session.dir);
	if (s->leftover)
		descendants_kill(0, &status);
	session_remove(&session);
	return ret;
}

static int run(int argc, char **argv)
{
	static struct options o;
	static struct checks checks;
	struct supervised s = {.expired = checks_expired};
	struct keep keep = {0};
	struct session session;
	bool devices;
	int ret;

	ret = parse(argc, argv, &o, &checks);
	if (ret)
		return ret < 0 ? 0 : ret;
	devices = o.n_devices;
	ret = settle(&o, &checks);
	if (ret)
		return ret;
	supervise_block(&s.mask);
	ret = keep_begin(&keep, &o);
	if (ret)
		return ret;
	if (session_create(&session, NULL, o.n_devices)) {
		keep_end(&keep, argv[optind], false);
		return EXIT_SETUP;
	}
	s.dir = session.dir;
	s.timeout = checks.timeout;
	s.explain = o.explain;
	table_remove_stale(o.shm_dir[0] ? o.shm_dir : NULL);
	warn_unless_preloadable(argv[optind]);
	ret = prepare(&o, &session);
	if (!ret && remote_announce(o.command, devices))
		usage_error("launchers of other hosts could not be told: %s",
			    strerror(ENOMEM));
	if (!ret)
		ret = supervise(argv + optind, &s);
	ret = conclude(&o, &checks, &keep, &session, &s, argv + optind, ret);
	if (s.signal)
		die_by(s.signal);
	return ret;
}

const struct command command_run = {
    .name = "run",
    .summary = "run a program with emulated RDMA devices",
    .run = run,
    .help = print_help,
};
