/*
 * keep.h - what a run that fails leaves behind (`urxe run --report-on-failure`): its report.
 */
#ifndef URXE_TOOLS_KEEP_H
#define URXE_TOOLS_KEEP_H

#include <limits.h>
#include <stdbool.h>

#include "verbs/host/options.h"

/*
 * struct keep - the traces of a run, until it is known whether they are wanted
 * @dir:	where the report will be; empty: none is asked for
 * @made:	this run made it, and removes it again if it stays empty
 * @traces:	a directory in it, of this run alone
 */
struct keep {
	char dir[256];
	bool made;
	char traces[256];
};

/* Have the run traced, if @o asks for it. 0, or an exit code with a line on stderr */
int keep_begin(struct keep *k, struct options *o);
/* Make the report if the command @name has @failed; the traces go */
void keep_end(const struct keep *k, const char *name, bool failed);

#endif
