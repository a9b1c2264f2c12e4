/*
 * supervise.c - being the parent of the program.
 *
 * Theory of operation
 *
 * To a shell, `urxe run CMD` must look like CMD. All signals that people send are blocked
 * here and taken one at a time from a signalfd(2) in the loop of libevent, whose own
 * signal events do not tell who sent one:
 *
 *   from kill(2)		passed on to the program
 *   from the terminal		dropped: the kernel has sent it to the whole process group
 *   program ended		its status is ours
 *   program stopped		by the terminal: this process stops, too, so that the
 *				shell gets its prompt back; SIGCONT continues both
 *
 * Programs below the program may die, too, without anybody being told. What they left to
 * be sent to their peers is will_watch.c's. While nothing happens nothing wakes up, but to look
 * what hangs if that is asked for (explain.c).
 *
 * Descendants that outlive the program come to this process (PR_SET_CHILD_SUBREAPER), so
 * that it can see at the end, at no cost, whether there are any. It does not wait for
 * them.
 */
#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/descendants.h"
#include "tools/explain.h"
#include "tools/tools.h"
#include "tools/will_watch.h"

#define LIBEVENT_FDS 8 /* epoll, two pairs for wake-ups, inotify, and some */

static const int passed_on[] = {SIGINT,	 SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
				SIGUSR2, SIGALRM, SIGTSTP, SIGCONT, SIGWINCH};

static void signal_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(set, passed_on[i]);
}

/* What this process got from its parent */
static struct sigaction xfsz;

void supervise_hold_xfsz(void)
{
	const struct sigaction ignore = {.sa_handler = SIG_IGN};

	sigaction(SIGXFSZ, &ignore, &xfsz);
}

/*
 * In the child of vfork(2), which has the parent's memory until it executes the program; the
 * errno of the failure goes to *@err.
 */
static void start(char **argv, const sigset_t *mask, const struct sigaction *chld,
		  pid_t parent, volatile int *err)
{
	/* Who kills urxe means the program. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_SETUP);
	sigaction(SIGCHLD, chld, NULL);
	sigaction(SIGXFSZ, &xfsz, NULL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	*err = errno;
	_exit(0);
}

static int start_failure(const char *name, int err)
{
	if (err == ENOENT && !strchr(name, '/'))
		usage_error("%s: command not found", name);
	else
		usage_error("%s: %s", name, strerror(err));
	return err == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUNNABLE;
}

/* Stop as the program did; returns when continued. */
static void stop_too(pid_t child)
{
	raise(SIGSTOP);
	kill(child, SIGCONT);
}

/* Look at what changed; true when @child is gone and *@status its status. */
static bool reap(pid_t child, int *status)
{
	int st;
	pid_t pid;

	while ((pid = waitpid(-1, &st, WNOHANG | WUNTRACED)) > 0) {
		if (pid != child)
			continue;
		if (!WIFSTOPPED(st)) {
			*status = st;
			return true;
		}
		/*
		 * A SIGSTOP is somebody's experiment with the program, not the
		 * terminal's.
		 */
		if (WSTOPSIG(st) != SIGSTOP)
			stop_too(child);
	}
	return false;
}

/*
 * struct loop - what waits for the program
 * @signals:	readable when one of the blocked signals is pending
 * @on_timeout, @on_tick: NULL: the program may take as long as it likes
 * @status:	of the program, when it has ended
 */
struct loop {
	struct event_base *base;
	int signals;
	struct event *on_signals, *on_timeout, *on_tick;
	struct supervised *s;
	struct will_watch *wills;
	struct explain *explain;
	pid_t child;
	int status;
};

static void take_signals(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;
	struct signalfd_siginfo info;

	while (read((int)fd, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo != SIGCHLD && info.ssi_code <= 0 &&
		    (pid_t)info.ssi_pid != l->child)
			kill(l->child, (int)info.ssi_signo);
	if (reap(l->child, &l->status))
		event_base_loopbreak(l->base);
}

/* All that the program has started ends with it. Its status comes as that of any other. */
static void out_of_time(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;

	l->s->timed_out = true;
	if (l->s->expired)
		l->s->expired(l->s);
	descendants_kill(l->child, &l->status);
	event_base_loopbreak(l->base);
}

static void look_on(evutil_socket_t fd, short what, void *arg)
{
	struct loop *l = arg;

	if (l->s->tick(l->s))
		out_of_time(fd, what, arg);
}

static void loop_end(struct loop *l)
{
	will_watch_stop(l->wills);
	explain_stop(l->explain);
	if (l->on_timeout)
		event_free(l->on_timeout);
	if (l->on_tick)
		event_free(l->on_tick);
	if (l->on_signals)
		event_free(l->on_signals);
	if (l->base)
		event_base_free(l->base);
	if (l->signals >= 0)
		close(l->signals);
}

/* Does the limit leave room for libevent's descriptors? Without them it ends the process. */
static bool has_room(int fd)
{
	struct rlimit r;
	int lowest = dup(fd);

	if (lowest < 0)
		return false;
	close(lowest);
	return getrlimit(RLIMIT_NOFILE, &r) ||
	       (rlim_t)lowest + LIBEVENT_FDS <= r.rlim_cur;
}

static bool set_timeout(struct loop *l)
{
	const struct timeval t = {.tv_sec = (time_t)(l->s->timeout / 1000000000u),
				  .tv_usec =
				      (suseconds_t)(l->s->timeout / 1000u % 1000000u)};

	if (!l->s->timeout)
		return true;
	l->on_timeout = evtimer_new(l->base, out_of_time, l);
	return l->on_timeout && !evtimer_add(l->on_timeout, &t);
}

static bool set_tick(struct loop *l)
{
	const struct timeval t = {.tv_sec = l->s->tick_ms / 1000,
				  .tv_usec = (suseconds_t)(l->s->tick_ms % 1000) * 1000};

	if (!l->s->tick)
		return true;
	l->on_tick = event_new(l->base, -1, EV_PERSIST, look_on, l);
	return l->on_tick && !event_add(l->on_tick, &t);
}

/* Before the program starts, so that nothing can fail afterwards. 0 or -errno */
static int loop_begin(struct loop *l, const sigset_t *set)
{
	l->signals = signalfd(-1, set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (l->signals < 0)
		return -errno;
	if (!has_room(l->signals))
		return -EMFILE;
	errno = ENOMEM; /* libevent does not always tell */
	l->base = event_base_new();
	if (l->base)
		l->on_signals =
		    event_new(l->base, l->signals, EV_READ | EV_PERSIST, take_signals, l);
	if (!l->on_signals || event_add(l->on_signals, NULL) || !set_timeout(l) ||
	    !set_tick(l))
		return -errno;
	l->wills = will_watch_start(l->base, l->s->dir);
	l->explain = explain_start(l->base, l->s->dir, l->s->explain);
	return l->wills && l->explain ? 0 : -ENOMEM;
}

/* Descendants that ended are reaped; is one still running? */
static bool any_left(void)
{
	pid_t pid;

	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
		;
	return pid == 0;
}

void supervise_block(sigset_t *mask)
{
	sigset_t set;

	signal_set(&set);
	sigprocmask(SIG_BLOCK, &set, mask);
}

/* The program as a child; the errno of a failed execution goes to *@err. -errno, or 0 */
static int start_program(struct loop *l, char **argv, const sigset_t *mask,
			 volatile int *err)
{
	const struct sigaction dfl = {.sa_handler = SIG_DFL};
	struct sigaction chld;
	pid_t self = getpid();

	sigaction(SIGCHLD, &dfl, &chld);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	l->child = vfork();
	if (!l->child)
		start(argv, mask, &chld, self, err);
	return l->child < 0 ? -errno : 0;
}

/* What the status of the program is to a shell */
static int exit_code(struct supervised *s, int status)
{
	if (s->timed_out)
		return EXIT_TIMEOUT;
	if (!WIFSIGNALED(status))
		return WEXITSTATUS(status);
	s->signal = WTERMSIG(status);
	return 128 + s->signal;
}

int supervise(char **argv, struct supervised *s)
{
	struct loop l = {.signals = -1, .s = s};
	volatile int err = 0; /* written by the child */
	sigset_t set;
	int ret;

	signal_set(&set);
	ret = loop_begin(&l, &set);
	if (!ret)
		ret = start_program(&l, argv, &s->mask, &err);
	if (ret) {
		usage_error("cannot start a program: %s", strerror(-ret));
		loop_end(&l);
		return EXIT_SETUP;
	}
	event_base_dispatch(l.base);
	loop_end(&l);
	s->leftover = any_left();
	if (err)
		return start_failure(argv[0], err);
	s->ran = true;
	return exit_code(s, l.status);
}
