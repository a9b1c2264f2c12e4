/*
 * inputs.h - the traces that arguments name: files, and directories with files NAME.trace.
 */
#ifndef URXE_TOOLS_INPUTS_H
#define URXE_TOOLS_INPUTS_H

struct trace_reader;

#define INPUTS_MAX 256 /* traces at a time */

struct inputs {
	struct trace_reader *t[INPUTS_MAX];
	int n;
};

/*
 * inputs_open - all of @names; 0, or an exit code with a line on stderr: those that cannot be
 * read are told, and end it
 */
int inputs_open(struct inputs *in, char **names, int n);
/* Close them; @code is returned */
int inputs_close(struct inputs *in, int code);

#endif
