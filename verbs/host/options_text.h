/*
 * options_text.h - from the text of a setting to its value and back: what is the same for many
 * of the settings of options.c.
 */
#ifndef URXE_VERBS_HOST_OPTIONS_TEXT_H
#define URXE_VERBS_HOST_OPTIONS_TEXT_H

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* A reason in @err, of one line; -EINVAL */
static inline __attribute__((format(printf, 3, 4))) int bad(char *err, size_t errlen,
							    const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(err, errlen, fmt, ap);
	va_end(ap);
	/* The value may hold anything; the message stays one line. */
	if (errlen)
		text_make_line(err);
	return -EINVAL;
}

static inline int take_text(char *dst, size_t size, const char *value, char *err,
			    size_t errlen)
{
	if (!*value)
		return bad(err, errlen, "is empty");
	if (strlen(value) >= size)
		return bad(err, errlen, "is longer than %zu bytes", size - 1);
	memcpy(dst, value, strlen(value) + 1);
	return 0;
}

static inline bool give_text(const char *src, char *buf, size_t len)
{
	snprintf(buf, len, "%s", src);
	return *src;
}

/* The program may change its directory before it opens the file. */
static inline bool give_path(const char *prefix, const char *path, char *buf, size_t len)
{
	char cwd[PATH_MAX];

	if (*path != '/' && getcwd(cwd, sizeof(cwd)))
		snprintf(buf, len, "%s%s/%s", prefix, cwd, path);
	else
		snprintf(buf, len, "%s%s", prefix, path);
	return true;
}

#endif
