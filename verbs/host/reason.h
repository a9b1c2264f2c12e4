/*
 * reason.h - what a user can do about an error, to be said behind strerror(3).
 */
#ifndef URXE_VERBS_HOST_REASON_H
#define URXE_VERBS_HOST_REASON_H

#include <errno.h>

static inline const char *reason_hint(int err)
{
	switch (err) {
	case EMFILE:
		return " (the limit of descriptors, ulimit -n, is too small)";
	case EFBIG:
		return " (the limit of file sizes, ulimit -f, is too small)";
	default:
		return "";
	}
}

#endif
