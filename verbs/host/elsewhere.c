/*
 * elsewhere.c - see elsewhere.h.
 *
 * A launcher that hands the environment on to other hosts (Slurm, MPICH) starts the program there with the
 * library, but without `urxe run`. What that would have made, and removes when the last process has ended,
 * makes `urxe session`, which is called here.
 *
 * The program must not notice: it gets no SIGCHLD, and its wait(2) does not find the process. So a child
 * without a signal is made, by the system call, since fork(3) has handlers of the program; it starts the
 * command as a child of its own and waits for it. In this child only system calls are made.
 */
#include "verbs/host/elsewhere.h"

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/lock.h"
#include "verbs/host/libc.h"

/* The environment without what would preload the library again, or take the command for a process of the run */
static char **command_environment(void)
{
	size_t n = 0, k = 0;
	char **env;

	while (environ[n])
		n++;
	env = calloc(n + 1, sizeof(*env));
	for (size_t i = 0; env && i < n; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", 11) &&
		    strncmp(environ[i], "URXE_DIR=", 9))
			env[k++] = environ[i];
	return env;
}

/* struct start - what the children do; @mask: of signals, as the program has it */
struct start {
	const char *command;
	char *const *argv;
	char *const *env;
	uint64_t mask;
};

/* Start the command and wait for it: its exit code, 127 if there is none */
EARLY static int start_and_wait(const struct start *s)
{
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	int status = 0;

	if (!pid) {
		syscall(SYS_rt_sigprocmask, SIG_SETMASK, &s->mask, NULL, sizeof(s->mask));
		syscall(SYS_execve, s->command, s->argv, s->env);
		syscall(SYS_exit_group, 127);
	}
	if (pid < 0 || syscall(SYS_wait4, pid, &status, 0, NULL) != pid)
		return 127;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

/* The command's exit code */
static int run_command(struct start *s)
{
	uint64_t all = ~0ull;
	int status = 0;
	long pid;

	cancel_defer();
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &s->mask, sizeof(all));
	pid = syscall(SYS_clone, 0, 0, 0, 0, 0);
	if (!pid)
		syscall(SYS_exit_group, start_and_wait(s));
	if (pid < 0 || syscall(SYS_wait4, pid, &status, __WALL, NULL) != pid)
		status = 127 << 8;
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &s->mask, NULL, sizeof(s->mask));
	cancel_restore();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 127;
}

bool elsewhere_session(const char *dir)
{
	const char *command = getenv("URXE_COMMAND");
	char *const argv[] = {"urxe", "session", (char *)dir, NULL};
	struct start s = {.command = command, .argv = argv};
	char **env;
	int code = 127;

	if (access(dir, F_OK) == 0 || errno != ENOENT)
		return true;
	env = command_environment();
	s.env = env;
	if (env && command)
		code = run_command(&s);
	free(env);
	/* other codes: it has said why */
	if (code == 127)
		fprintf(stderr,
			"urxe: there are no devices: the run was begun on another host, "
			"and %s is not here; start the program by urxe run\n",
			command ? command : "urxe");
	return !code;
}
