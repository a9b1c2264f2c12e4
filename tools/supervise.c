/*
 * supervise.c - being the parent of the program.
 *
 * Theory of operation
 *
 * To a shell, `urxe run CMD` must look like CMD. All signals that people send are blocked
 * here and taken one at a time by sigtimedwait(2):
 *
 *   from kill(2)		passed on to the program
 *   from the terminal		dropped: the kernel has sent it to the whole process group
 *   program ended		its status is ours
 *   program stopped		by the terminal: this process stops, too, so that the
 *				shell gets its prompt back; SIGCONT continues both
 *
 * Programs below the program may die, too, without anybody being told. What they left to
 * be sent to their peers (verbs/ucma/will.h) is looked for now and then.
 *
 * Descendants that outlive the program come to this process (PR_SET_CHILD_SUBREAPER), so
 * that it can see at the end, at no cost, whether there are any. It does not wait for
 * them.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/tools.h"
#include "verbs/ucma/will.h"

static const int passed_on[] = {SIGINT,	 SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
				SIGUSR2, SIGALRM, SIGTSTP, SIGCONT, SIGWINCH};

static void signal_set(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < sizeof(passed_on) / sizeof(passed_on[0]); i++)
		sigaddset(set, passed_on[i]);
}

/* In the child; the errno of the failure goes through @report. */
static void start(char **argv, const sigset_t *mask, const struct sigaction *chld,
		  pid_t parent, int report)
{
	int err;

	/* Who kills urxe means the program. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_SETUP);
	sigaction(SIGCHLD, chld, NULL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	err = errno;
	if (write(report, &err, sizeof(err)) != sizeof(err))
		_exit(EXIT_SETUP);
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

static int wait_for(pid_t child, const sigset_t *set, const char *dir)
{
	const struct timespec will_time = {.tv_sec = WILL_MS / 1000};
	int status = 0;

	while (!reap(child, &status)) {
		siginfo_t info;
		int sig = sigtimedwait(set, &info, &will_time);

		if (sig < 0)
			will_execute(dir);
		if (sig > 0 && sig != SIGCHLD && info.si_code <= 0 &&
		    info.si_pid != child)
			kill(child, sig);
	}
	return status;
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

int supervise(char **argv, const char *dir, const sigset_t *mask, int *sig,
	      bool *leftover)
{
	const struct sigaction dfl = {.sa_handler = SIG_DFL};
	struct sigaction chld;
	sigset_t set;
	int fds[2], err = 0, status;
	pid_t child, self = getpid();
	ssize_t n;

	if (pipe2(fds, O_CLOEXEC)) {
		usage_error("pipe: %s", strerror(errno));
		return EXIT_SETUP;
	}
	signal_set(&set);
	sigaction(SIGCHLD, &dfl, &chld);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	child = fork();
	if (child < 0) {
		usage_error("fork: %s", strerror(errno));
		return EXIT_SETUP;
	}
	if (!child)
		start(argv, mask, &chld, self, fds[1]);
	close(fds[1]);
	do
		n = read(fds[0], &err, sizeof(err));
	while (n < 0 && errno == EINTR);
	close(fds[0]);
	status = wait_for(child, &set, dir);
	*leftover = any_left();
	if (n == sizeof(err))
		return start_failure(argv[0], err);
	if (WIFSIGNALED(status)) {
		*sig = WTERMSIG(status);
		return 128 + *sig;
	}
	return WEXITSTATUS(status);
}
