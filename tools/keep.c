/*
 * keep.c - see keep.h.
 *
 * The run is traced into a directory that is made for it in that of the reports, so that it is
 * on the same disk, and that is removed at the end with the traces in it, and nothing else.
 */
#include "tools/keep.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/export.h"
#include "tools/inputs.h"
#include "tools/outfile.h"
#include "tools/page.h"
#include "tools/tools.h"

/* Room for records of each process, unless it is given: most runs do not fail. */
#define KEEP_SIZE (16u << 20)

int keep_begin(struct keep *k, struct options *o)
{
	memcpy(k->dir, o->report_on_failure, sizeof(k->dir));
	o->report_on_failure[0] = '\0'; /* it is this run's, not that of runs in it */
	if (!k->dir[0])
		return 0;
	if (o->trace[0])
		return usage_error("--trace and --report-on-failure exclude each other");
	k->made = mkdir(k->dir, 0777) == 0;
	if (!k->made && errno != EEXIST)
		return usage_error("--report-on-failure: %s: %s", k->dir,
				   strerror(errno));
	if (snprintf(k->traces, sizeof(k->traces), "%s/traces.XXXXXX", k->dir) >=
	    (int)sizeof(k->traces))
		return usage_error("--report-on-failure: the name is too long");
	if (!mkdtemp(k->traces))
		return usage_error("--report-on-failure: %s: %s", k->dir,
				   strerror(errno));
	memcpy(o->trace, k->traces, sizeof(o->trace));
	if (o->trace_size == OPTIONS_TRACE_SIZE)
		o->trace_size = KEEP_SIZE;
	return 0;
}

/* --- the report ------------------------------------------------------------------- */

/* 0 or -errno */
static int write_text(struct inputs *in, const char *path)
{
	struct outfile o;
	int ret = outfile_open(&o, path);

	return ret ? ret : outfile_close(&o, ladder_print(in->t, in->n, false, o.f));
}

/* A command's name as part of a file's */
static void file_name(const char *name, char buf[64])
{
	const char *slash = strrchr(name, '/');

	snprintf(buf, 64, "%s", slash ? slash + 1 : name);
	for (char *p = buf; *p; p++)
		if (*p <= ' ' || *p > '~' || *p == '/')
			*p = '_';
}

static void report(const struct keep *k, const char *name)
{
	char page[PATH_MAX], text[PATH_MAX], stem[64];
	char *traces = strdup(k->traces);
	struct inputs in;
	int ret;

	file_name(name, stem);
	snprintf(page, sizeof(page), "%s/%s.%d.html", k->dir, stem, (int)getpid());
	snprintf(text, sizeof(text), "%s/%s.%d.txt", k->dir, stem, (int)getpid());
	if (!traces || inputs_open(&in, &traces, 1)) {
		free(traces);
		return;
	}
	ret = write_text(&in, text);
	if (ret)
		usage_error("%s: %s", text, strerror(-ret));
	if (!inputs_close(&in, page_file(in.t, in.n, page)) && !ret)
		fprintf(stderr, "urxe: %s failed; what its devices did is in %s and %s\n",
			name, page, text);
	free(traces);
}

/* Is there a trace? A command may fail before it opens a device. */
static bool any_trace(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	bool any = false;

	while (d && !any && (e = readdir(d)))
		any = e->d_name[0] != '.';
	if (d)
		closedir(d);
	return any;
}

static void remove_traces(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_name[0] != '.' && strstr(e->d_name, ".trace") &&
		    unlinkat(dirfd(d), e->d_name, 0))
			usage_error("%s/%s: %s", dir, e->d_name, strerror(errno));
	if (d)
		closedir(d);
	if (rmdir(dir))
		usage_error("%s: %s", dir, strerror(errno));
}

void keep_end(const struct keep *k, const char *name, bool failed)
{
	if (!k->dir[0])
		return;
	if (failed && any_trace(k->traces))
		report(k, name);
	else if (failed)
		usage_error("%s failed and had no device open: there is no report", name);
	remove_traces(k->traces);
	if (k->made && rmdir(k->dir) && errno != ENOTEMPTY && errno != EEXIST)
		usage_error("%s: %s", k->dir, strerror(errno));
}
