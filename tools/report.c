/*
 * report.c - `urxe report`: what is in trace files, for people, and for machines that look at
 * the results of tests.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "tools/export.h"
#include "tools/inputs.h"
#include "tools/page.h"
#include "tools/tools.h"

static void report_help(FILE *out)
{
	fputs(
	    "usage: urxe report [--text|--json|--junit] [--errors] FILE|DIR...\n"
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
	    "  --json       only what failed and what was slow, for programs\n"
	    "  --junit      the same as JUnit's results: a process is a test\n"
	    "  -o, --output PAGE.html\n"
	    "               one page for a browser, which needs no network: the ladder, "
	    "page\n"
	    "               maps of memory regions, and times\n"
	    "  --help\n",
	    out);
}

/* struct report - what `urxe report` is asked for; @form: 't', 'j', 'u', or 0 */
struct report {
	bool errors;
	int form;
	const char *page;
};

/* 0, or an exit code */
static int report_options(int argc, char **argv, struct report *r)
{
	static const struct option lo[] = {
	    {.name = "text", .val = 't'},
	    {.name = "json", .val = 'j'},
	    {.name = "junit", .val = 'u'},
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
			return option_error(c, argv, "report");
		r->errors |= c == 'e';
		if (c == 'o')
			r->page = optarg;
		else if (c != 'e')
			r->form = c;
	}
	if (r->page && (r->form || r->errors))
		return usage_error("--output is for the page, which has all; the others "
				   "go to standard output");
	return 0;
}

static int report_command(int argc, char **argv)
{
	struct report r = {0};
	struct inputs in;
	int code = report_options(argc, argv, &r);

	if (!code)
		code = inputs_open(&in, argv + optind, argc - optind);
	if (code)
		return code;
	if (r.page)
		return inputs_close(&in, page_file(in.t, in.n, r.page));
	if (r.form == 'j')
		code = report_json_findings(in.t, in.n, stdout);
	else if (r.form == 'u')
		code = report_junit(in.t, in.n, stdout);
	else
		code = ladder_print(in.t, in.n, r.errors, stdout);
	return inputs_close(&in, stdout_done(code));
}

const struct command command_report = {
    .name = "report",
    .summary = "show what urxe run --trace has recorded",
    .run = report_command,
    .help = report_help,
};
