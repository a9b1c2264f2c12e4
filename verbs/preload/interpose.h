/*
 * interpose.h - opening what lies behind the paths of the emulated devices; shared by the
 * files that take the place of libc's functions.
 */
#ifndef URXE_VERBS_PRELOAD_INTERPOSE_H
#define URXE_VERBS_PRELOAD_INTERPOSE_H

#include <alloca.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <sys/types.h>

#include "verbs/host/libc.h"
#include "verbs/host/paths.h"

/* Does @path lead to an emulated device, in a program that runs under urxe? */
static inline bool interpose_wants(const char *path)
{
	return paths_is_ours(path) && paths_dir();
}

/*
 * interpose_relative - may @path, relative to the directory @dirfd (AT_FDCWD: the current
 * one), lead to an emulated device?
 */
bool interpose_relative(int dirfd, const char *path);

/* interpose_absolute - such a path made absolute, in @buf, or @path itself */
const char *interpose_absolute(int dirfd, const char *path, char buf[PATH_MAX]);

/* Replace @path for the rest of the function. Others pay for no buffer on the stack. */
#define INTERPOSE_RELATIVE(dirfd, path)                                                  \
	do {                                                                             \
		if (interpose_relative(dirfd, path))                                     \
			(path) = interpose_absolute(dirfd, path, alloca(PATH_MAX));      \
	} while (0)

/* The third argument of open(2) and its kin, whose last named one is @flags */
#define INTERPOSE_MODE(flags, mode)                                                      \
	do {                                                                             \
		va_list ap_;                                                             \
		mode = 0;                                                                \
		if ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE) {               \
			va_start(ap_, flags);                                            \
			mode = va_arg(ap_, mode_t);                                      \
			va_end(ap_);                                                     \
		}                                                                        \
	} while (0)

#endif
