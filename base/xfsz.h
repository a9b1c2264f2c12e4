/*
 * xfsz.h - writing to files whose size may be limited (RLIMIT_FSIZE, "ulimit -f").
 *
 * What exceeds the limit is EFBIG, and SIGXFSZ, which ends the program. Inside of a program
 * that only wanted a capture or a report it must not; so it is held back while the library writes.
 */
#ifndef URXE_BASE_XFSZ_H
#define URXE_BASE_XFSZ_H

#include <signal.h>
#include <stdbool.h>

/*
 * struct xfsz
 * @mask:	of the thread before
 * @waits:	a signal of the program's own waited already
 */
struct xfsz {
	sigset_t mask;
	bool waits;
};

/* From here on SIGXFSZ does not come to this thread ... */
void xfsz_hold(struct xfsz *x);
/* ... and never does for what it wrote meanwhile. errno stays */
void xfsz_release(const struct xfsz *x);

#endif
