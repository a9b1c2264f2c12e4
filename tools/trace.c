/*
 * trace.c - `urxe trace`: its actions, and the one that gives what is in trace files to other
 * tools.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/control.h"
#include "tools/export.h"
#include "tools/inputs.h"
#include "tools/tools.h"
#include "trace/reader.h"

static void export_help(FILE *out)
{
	fputs(
	    "usage: urxe trace export --json|--perfetto|--pcapng FILE...\n"
	    "       urxe trace start [--size SIZE] PID FILE\n"
	    "       urxe trace stop PID\n"
	    "\n"
	    "start: from now on the running process PID records all that its devices do, "
	    "up "
	    "to SIZE\n"
	    "(16m). stop ends that and writes it to FILE; if the process ends before, "
	    "urxe "
	    "run writes\n"
	    "it.\n"
	    "\n"
	    "export: write what is in traces to standard output:\n"
	    "\n"
	    "  --json       all of it, one JSON value for each FILE (docs/trace.md)\n"
	    "  --perfetto   a time line for ui.perfetto.dev and chrome://tracing\n"
	    "  --pcapng     packets, with their reasons as comments, for Wireshark; an\n"
	    "               interface for each FILE. Headers only: payload is not "
	    "traced\n"
	    "  --help\n",
	    out);
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
			return option_error(c, argv, "trace");
		form = c;
	}
	if (!form)
		return usage_error("--json, --perfetto or --pcapng is missing");
	code = inputs_open(&in, argv + optind, argc - optind);
	if (code)
		return code;
	if (form == 'j')
		export_json(in.t, in.n, stdout);
	else if (form == 'f')
		export_perfetto(in.t, in.n, stdout);
	else
		export_pcapng(in.t, in.n, stdout);
	return inputs_close(&in, stdout_done(0));
}

/* struct action - `urxe trace NAME` */
static const struct action {
	const char *name;
	int (*run)(int argc, char **argv);
} actions[] = {
    {"export", export},
    {"start", control_start},
    {"stop", control_stop},
};

static int trace_command(int argc, char **argv)
{
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		export_help(stdout);
		return 0;
	}
	for (size_t i = 0; argc > 1 && i < sizeof(actions) / sizeof(actions[0]); i++)
		if (!strcmp(argv[1], actions[i].name))
			return actions[i].run(argc - 1, argv + 1);
	return usage_error(
	    "urxe trace: the action is 'export', 'start' or 'stop' (see urxe "
	    "help trace)");
}

const struct command command_trace = {
    .name = "trace",
    .summary = "export traces; begin and end them in running programs",
    .run = trace_command,
    .help = export_help,
};
