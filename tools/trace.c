/*
 * trace.c - `urxe trace export` and `urxe report`: what is in trace files, for other tools and
 * for people.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export.h"
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
	fputs("usage: urxe report [--text] FILE...\n"
	      "\n"
	      "Shows what is in traces (urxe run --trace), all in one order of time: who "
	      "sent\n"
	      "what to whom and why, what was dropped, page faults, states; then a "
	      "summary.\n"
	      "\n"
	      "  --text       for a terminal or a log (and what is done without an "
	      "option)\n"
	      "  --errors     only what went wrong or cost time\n"
	      "  --help\n",
	      out);
}

/*
 * Open all of @names; how many, or an exit code below 0. Those that cannot be read are told,
 * and end it.
 */
static int open_all(char **names, int n, struct trace_reader **t)
{
	char why[TRACE_WHY_BYTES];

	if (!n)
		return -usage_error("no trace file given");
	if (n > MAX_FILES)
		return -usage_error("more than %d trace files", MAX_FILES);
	for (int i = 0; i < n; i++) {
		if (!trace_open(names[i], why, sizeof(why), &t[i]))
			continue;
		usage_error("%s: %s", names[i], why);
		while (i--)
			trace_close(t[i]);
		return -1;
	}
	return n;
}

static int finish(struct trace_reader **t, int n)
{
	int bad = fflush(stdout) || ferror(stdout);

	while (n--)
		trace_close(t[n]);
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
	struct trace_reader *t[MAX_FILES];
	int c, n, form = 0;

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
	n = open_all(argv + optind, argc - optind, t);
	if (n < 0)
		return -n;
	if (form == 'j')
		export_json(t, n, stdout);
	else if (form == 'f')
		export_perfetto(t, n, stdout);
	else
		export_pcapng(t, n, stdout);
	return finish(t, n);
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

static int report_command(int argc, char **argv)
{
	static const struct option lo[] = {
	    {.name = "text", .val = 't'},
	    {.name = "errors", .val = 'e'},
	    {.name = "help", .val = 'h'},
	    {0},
	};
	struct trace_reader *t[MAX_FILES];
	bool errors = false;
	int c, n;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "h", lo, NULL)) != -1) {
		if (c == 'h') {
			report_help(stdout);
			return 0;
		}
		if (c == '?')
			return usage_error("unknown option '%s' (see urxe help report)",
					   argv[optind - 1]);
		errors |= c == 'e';
	}
	n = open_all(argv + optind, argc - optind, t);
	if (n < 0)
		return -n;
	ladder_print(t, n, errors, stdout);
	return finish(t, n);
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
