/*
 * interpose.h - opening what lies behind the paths of the emulated devices; shared by the
 * files that take the place of libc's functions.
 */
#ifndef URXE_VERBS_INTERPOSE_H
#define URXE_VERBS_INTERPOSE_H

#include <stdbool.h>
#include <sys/types.h>

#include "verbs/libc.h"
#include "verbs/paths.h"

/* Does @path lead to an emulated device, in a program that runs under urxe? */
static inline bool interpose_wants(const char *path)
{
	return paths_is_ours(path) && paths_dir();
}

/* open(2) of such a path: descriptor, or -1 with errno */
int interpose_open(const char *path, int flags, mode_t mode);

#endif
