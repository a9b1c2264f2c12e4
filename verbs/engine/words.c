/*
 * words.c - lines for the user, on standard error.
 *
 * The program must not notice: it may have closed its standard error and have a file of its own
 * under the number, nobody may read the pipe, or it may be full. Then nothing is said; what there
 * is to say is in the recorder anyway. A signal of a broken pipe is taken away again.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "verbs/engine/engine_internal.h"
#include "verbs/engine/vfile.h"

static bool can_say(void)
{
	struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};

	return vfile_has_stderr() && fileno(stderr) == STDERR_FILENO &&
	       poll(&p, 1, 0) == 1 && !(p.revents & (POLLERR | POLLNVAL));
}

/* A pipe that lost its reader since raises a signal, which is not for the program. */
static void write_quietly(const char *line, size_t len)
{
	const struct timespec now = {0};
	sigset_t pipe, old, pending;

	sigemptyset(&pipe);
	sigaddset(&pipe, SIGPIPE);
	sigpending(&pending);
	pthread_sigmask(SIG_BLOCK, &pipe, &old);
	if (write(STDERR_FILENO, line, len) < 0 && errno == EPIPE &&
	    !sigismember(&pending, SIGPIPE))
		while (sigtimedwait(&pipe, NULL, &now) < 0 && errno == EINTR)
			;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void engine_say(const char *text)
{
	int err = errno, len;
	char line[512];

	len = snprintf(line, sizeof(line), "urxe: %s\n", text);
	if (len >= (int)sizeof(line)) {
		len = sizeof(line) - 1;
		line[len - 1] = '\n';
	}
	if (len > 0 && can_say())
		write_quietly(line, (size_t)len);
	errno = err;
}
