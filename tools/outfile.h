/*
 * outfile.h - a file that is there when all of it is: it is made beside its place and moved
 * there at the end.
 */
#ifndef URXE_TOOLS_OUTFILE_H
#define URXE_TOOLS_OUTFILE_H

#include <limits.h>
#include <stdio.h>

/* struct outfile - @f: to write to; @path: where it will be, @tmp: where it is */
struct outfile {
	FILE *f;
	const char *path;
	char tmp[PATH_MAX];
};

/* 0 or -errno; @path must stay */
int outfile_open(struct outfile *o, const char *path);
/* Move it to its place if @ret is 0, else forget it; @ret, or -errno of this */
int outfile_close(struct outfile *o, int ret);

#endif
