/*
 * inputs.c - see inputs.h.
 */
#include "tools/inputs.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/tools.h"
#include "trace/reader.h"

int inputs_close(struct inputs *in, int code)
{
	while (in->n)
		trace_close(in->t[--in->n]);
	return code;
}

/* 0, or an exit code with a line on stderr */
static int open_file(struct inputs *in, const char *path)
{
	char why[TRACE_WHY_BYTES];

	if (in->n == INPUTS_MAX)
		return usage_error("more than %d trace files", INPUTS_MAX);
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

int inputs_open(struct inputs *in, char **names, int n)
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
	return code ? inputs_close(in, code) : 0;
}
