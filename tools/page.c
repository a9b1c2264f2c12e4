/*
 * page.c - see page.h.
 */
#include "tools/page.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/findings.h"
#include "tools/outfile.h"
#include "tools/page_data.h"
#include "tools/timeline.h"
#include "tools/tools.h"

/* A block is an element, so that the browser's parser need not hold all of them as one text. */
static void write_block(void *arg, const char *base64, size_t n)
{
	FILE *out = arg;

	fputs("<script type=\"text/plain\" class=\"records\">", out);
	fwrite(base64, 1, n, out);
	fputs("</script>\n", out);
}

/* 0 or -errno */
static int write_page(struct trace_reader **t, int n, FILE *out)
{
	struct page_records *p = page_records_new();
	struct timeline *tl = timeline_open(t, n);
	struct findings *f = findings_new(t, n, tl);
	int ret = p && f && tl ? 0 : -ENOMEM;

	if (!ret) {
		fputs(page_head, out);
		ret = page_records_put(p, tl, f, write_block, out);
	}
	if (!ret) {
		fputs("<script type=\"application/json\" id=\"about\">", out);
		page_about(t, n, tl, f, p, out);
		fputs("</script>\n", out);
		fputs(page_tail, out);
	}
	timeline_close(tl);
	findings_free(f);
	page_records_free(p);
	return ret;
}

/* --- the file --------------------------------------------------------------------- */

/* What every page of ours begins with */
static const char mark[] = "<!doctype html>\n<!-- a report of urxe";

static bool is_ours(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char b[sizeof(mark) - 1];
	bool ours;

	if (fd < 0)
		return false;
	ours =
	    read(fd, b, sizeof(b)) == (ssize_t)sizeof(b) && !memcmp(b, mark, sizeof(b));
	close(fd);
	return ours;
}

int page_file(struct trace_reader **t, int n, const char *path)
{
	struct outfile o;
	struct stat st;
	int ret;

	if (!lstat(path, &st) && !is_ours(path))
		return usage_error("%s is there already and is no report of urxe: it is "
				   "left as it is",
				   path);
	ret = outfile_open(&o, path);
	if (!ret)
		ret = outfile_close(&o, write_page(t, n, o.f));
	if (!ret)
		return 0;
	usage_error("%s: %s", path, strerror(-ret));
	return EXIT_SETUP;
}
