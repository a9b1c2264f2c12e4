/*
 * trace.c - `urxe trace export` and `urxe report`: what is in trace files, for other tools and
 * for people.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/export.h"
#include "tools/page.h"
#include "tools/tools.h"
#include "trace/reader.h"

#define MAX_FILES 256

static void export_help(FILE *out)
{
	fputs(
	    "usage: urxe trace export --json|--perfetto|--pcapng FILE...\n"
	    "\n"
	    "Writes what is in traces (urxe run --trace) to standard output:\n"
	    "\n"
	    "  --json       all of it, one JSON value for each FILE (docs/trace.md)\n"
	    "  --perfetto   a time line for ui.perfetto.dev and chrome://tracing\n"
	    "  --pcapng     packets, with their reasons as comments, for Wireshark; an\n"
	    "               interface for each FILE. Headers only: payload is not "
	    "traced\n"
	    "  --help\n",
	    out);
}

static void report_help(FILE *out)
{
	fputs(
	    "usage: urxe report [--text] [--errors] FILE|DIR...\n"
	    "       urxe report -o PAGE.html FILE|DIR...\n"
	    "\n"
	    "Shows what is in traces (urxe run --trace), all in one order of time: who "
	    "sent\n"
	    "what to whom and why, what was dropped, page faults, states; then what was "
	    "slow,\n"
	    "what failed, and a summary. Of a DIR, the files NAME.trace are taken. The "
	    "clocks\n"
	    "of several hosts are aligned by the packets between them.\n"
	    "\n"
	    "  --text       for a terminal or a log (and what is done without an "
	    "option)\n"
	    "  --errors     only what went wrong or cost time\n"
	    "  -o, --output PAGE.html\n"
	    "               one page for a browser, which needs no network: the ladder, "
	    "page\n"
	    "               maps of memory regions, and times\n"
	    "  --help\n",
	    out);
}

/* struct inputs - the traces that arguments name */
struct inputs {
	struct trace_reader *t[MAX_FILES];
	int n;
};

static int close_all(struct inputs *in, int code)
{
	while (in->n)
		trace_close(in->t[--in->n]);
	return code;
}

/* 0, or an exit code with a line on stderr */
static int open_file(struct inputs *in, const char *path)
{
	char why[TRACE_WHY_BYTES];

	if (in->n == MAX_FILES)
		return usage_error("more than %d trace files", MAX_FILES);
	if (!trace_open(path, why, sizeof(why), &in->t[in->n])) {
		in->n++;
		return 0;
	}
	usage_error("%s: %s", path, why);
	return 1;
}

static int is_trace_name(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 6 && !strcmp(e->d_name + n - 6, ".trace");
}

static int open_dir(struct inputs *in, const char *dir)
{
	struct dirent **e;
	int n = scandir(dir, &e, is_trace_name, alphasort), code = 0;

	if (n < 0) {
		usage_error("%s: %s", dir, strerror(errno));
		return 1;
	}
	if (!n) {
		usage_error("%s: no file NAME.trace is in this directory", dir);
		code = 1;
	}
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", dir, e[i]->d_name);
		if (!code)
			code = open_file(in, path);
		free(e[i]);
	}
	free(e);
	return code;
}

/*
 * Open all of @names: 0, or an exit code. Those that cannot be read are told, and end it.
 */
static int open_all(char **names, int n, struct inputs *in)
{
	struct stat st;
	int code = 0;

	in->n = 0;
	if (!n)
		return usage_error("no trace file given");
	for (int i = 0; i < n && !code; i++)
		code = !stat(names[i], &st) && S_ISDIR(st.st_mode)
			   ? open_dir(in, names[i])
			   : open_file(in, names[i]);
	return code ? close_all(in, code) : 0;
}

/* What was written to standard output is there, or the reason is told. */
static int finish(struct inputs *in, int ret)
{
	int bad = fflush(stdout) || ferror(stdout);

	close_all(in, 0);
	if (ret) {
		usage_error("%s", strerror(-ret));
		return EXIT_SETUP;
	}
	if (bad) {
		usage_error("standard output: %s", strerror(errno));
		return EXIT_SETUP;
	}
	return 0;
}

static int export(int argc, char **argv)
{
	static const struct option lo[] = {
	    {.name = "json", .val = 'j'},
	    {.name = "perfetto", .val = 'f'},
	    {.name = "pcapng", .val = 'p'},
	    {.name = "help", .val = 'h'},
	    {0},
	};
	int c, code, form = 0;
	struct inputs in;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "h", lo, NULL)) != -1) {
		if (c == 'h') {
			export_help(stdout);
			return 0;
		}
		if (c == '?')
			return usage_error("unknown option '%s' (see urxe help trace)",
					   argv[optind - 1]);
		form = c;
	}
	if (!form)
		return usage_error("--json, --perfetto or --pcapng is missing");
	code = open_all(argv + optind, argc - optind, &in);
	if (code)
		return code;
	if (form == 'j')
		export_json(in.t, in.n, stdout);
	else if (form == 'f')
		export_perfetto(in.t, in.n, stdout);
	else
		export_pcapng(in.t, in.n, stdout);
	return finish(&in, 0);
}

static int trace_command(int argc, char **argv)
{
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		export_help(stdout);
		return 0;
	}
	if (argc < 2 || strcmp(argv[1], "export"))
		return usage_error(
		    "urxe trace: the action is 'export' (see urxe help trace)");
	return export(argc - 1, argv + 1);
}

/* struct report - what `urxe report` is asked for */
struct report {
	bool errors;
	const char *page;
};

/* 0, or an exit code */
static int report_options(int argc, char **argv, struct report *r)
{
	static const struct option lo[] = {
	    {.name = "text", .val = 't'},
	    {.name = "errors", .val = 'e'},
	    {.name = "output", .val = 'o', .has_arg = required_argument},
	    {.name = "help", .val = 'h'},
	    {0},
	};
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, ":ho:", lo, NULL)) != -1) {
		if (c == 'h') {
			report_help(stdout);
			exit(0);
		}
		if (c == ':')
			return usage_error("%s needs a file name (see urxe help report)",
					   argv[optind - 1]);
		if (c == '?')
			return usage_error("unknown option '%s' (see urxe help report)",
					   argv[optind - 1]);
		r->errors |= c == 'e';
		if (c == 'o')
			r->page = optarg;
	}
	return 0;
}

static int report_command(int argc, char **argv)
{
	struct report r = {0};
	struct inputs in;
	int code = report_options(argc, argv, &r);

	if (!code)
		code = open_all(argv + optind, argc - optind, &in);
	if (code)
		return code;
	if (r.page)
		return close_all(&in, page_file(in.t, in.n, r.page));
	return finish(&in, ladder_print(in.t, in.n, r.errors, stdout));
}

const struct command command_trace = {
    .name = "trace",
    .summary = "export what urxe run --trace has recorded",
    .run = trace_command,
    .help = export_help,
};

const struct command command_report = {
    .name = "report",
    .summary = "show what urxe run --trace has recorded",
    .run = report_command,
    .help = report_help,
};
