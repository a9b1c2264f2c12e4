/*
 * own_stderr.c - what the library says on stderr.
 *
 * That may be a file, which has reached the limit of file sizes; a line that is lost then is
 * better than a program that is killed by it.
 */
#undef _FORTIFY_SOURCE
#include <stdarg.h>
#include <stdio.h>

#include "base/xfsz.h"
#include "verbs/preload/interpose.h"

int __wrap_fprintf(FILE *f, const char *fmt, ...);
size_t __wrap_fwrite(const void *p, size_t size, size_t n, FILE *f);

__attribute__((format(printf, 2, 3))) int __wrap_fprintf(FILE *f, const char *fmt, ...)
{
	struct xfsz x;
	va_list ap;
	int n;

	if (f == stderr)
		xfsz_hold(&x);
	va_start(ap, fmt);
	n = vfprintf(f, fmt, ap);
	va_end(ap);
	if (f == stderr)
		xfsz_release(&x);
	return n;
}

/* What the compiler makes of an fprintf(3) that has nothing to format */
size_t __wrap_fwrite(const void *p, size_t size, size_t n, FILE *f)
{
	struct xfsz x;

	if (f != stderr)
		return REAL(fwrite)(p, size, n, f);
	xfsz_hold(&x);
	n = REAL(fwrite)(p, size, n, f);
	xfsz_release(&x);
	return n;
}
