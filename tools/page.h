/*
 * page.h - traces as one self-contained HTML page: the ladder, page maps, times, and what was
 * found. tools/page/ has its text, style and script.
 */
#ifndef URXE_TOOLS_PAGE_H
#define URXE_TOOLS_PAGE_H

struct trace_reader;

/*
 * page_file - write the page to @path, all of it or nothing; a file that is there already is
 * replaced if it is such a page. 0, or an exit code with a line on stderr
 */
int page_file(struct trace_reader **t, int n, const char *path);

#endif
