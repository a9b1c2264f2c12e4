/*
 * tools.h - the commands of the command line, and what they share.
 */
#ifndef URXE_TOOLS_TOOLS_H
#define URXE_TOOLS_TOOLS_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit codes: those of env(1), nice(1) and the shell */
enum {
	EXIT_USAGE = 2,		 /* an option, an argument or a variable is wrong */
	EXIT_EXPECTED = 123,	 /* the program did well, and a rule of --expect failed */
	EXIT_TIMEOUT = 124,	 /* --timeout: the command was killed */
	EXIT_SETUP = 125,	 /* urxe itself failed */
	EXIT_NOT_RUNNABLE = 126, /* the command was found and cannot be executed */
	EXIT_NOT_FOUND = 127,
};

/*
 * struct command - argv[0] is the command's name
 * @summary:	a line for help; NULL: it is not for people
 * @run:	returns the exit code
 * @help:	prints what `urxe help NAME` shows
 */
struct command {
	const char *name;
	const char *summary;
	int (*run)(int argc, char **argv);
	void (*help)(FILE *out);
};

struct options;

extern const struct command command_run, command_stat, command_why, command_trace,
    command_report, command_view, command_top, command_sweep, command_doctor,
    command_profile;

/* One line "urxe: ..." on stderr; returns EXIT_USAGE */
int usage_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * The same for an option of @command that getopt_long(3), whose options begin with ":", answered
 * with @c: ':', it lacks its value, or '?', there is none of that name
 */
int option_error(int c, char *const *argv, const char *command);

/* What was written to standard output is there: 0, or EXIT_SETUP with a line. @ret: -errno */
int stdout_done(int ret);

/*
 * struct session - the private directory of one run
 * @dir:	holds the generated sysfs tree and the sockets of `urxe stat`
 * @lock:	the directory itself, locked (flock) as long as somebody will remove it
 */
struct session {
	char dir[200]; /* the sockets' names must fit into sockaddr_un */
	int lock;
};

/* How often to look, where nothing tells it, whether a program died and left a will */
#define WILL_MS 1000

#define SESSION_PREFIX	"urxe-session."
#define SESSION_LIBRARY "liburxe.so"	   /* see preload_name() of run.c */
#define CHECK_LIBRARY	"liburxe-check.so" /* preloaded with --check */

/* session_check - is the open directory @dir, called @name, a session of its owner? */
bool session_check(int dir, const char *name);
/*
 * session_create - in the directory @place; NULL: in the first that has room for a run with
 * @n_devices devices. 0, or -errno with a line on stderr
 */
int session_create(struct session *s, const char *place, unsigned int n_devices);
/*
 * session_create_named - the session @dir of a run that was begun on another host. 0, or -errno: -EEXIST, it is
 * there, and whole
 */
int session_create_named(struct session *s, const char *dir);
/* session_remove - false: there is something in it that is not the session's; it stays */
bool session_remove(const struct session *s);
/* session_parents - directories that a session may be in, each once; NULL ends them */
#define SESSION_PARENTS 6
const char *const *session_parents(void);
/* session_room - bytes that this user may still write in a directory, by blocks and by inodes */
uint64_t session_room(const char *parent);
/*
 * session_linger - remove the directory when the last process that has it in its
 * environment is gone; does not block (a process of its own waits)
 */
void session_linger(const struct session *s);

/*
 * supervise_block - from now on signals wait for supervise(). To be called before there is
 * anything that would be left behind. @mask: what was blocked before
 */
void supervise_block(sigset_t *mask);

/* supervise_hold_xfsz - ignore SIGXFSZ, but for the program that supervise() starts */
void supervise_hold_xfsz(void);

/*
 * struct supervised - how a program is to be run, and how it ended
 * @dir:	the session's
 * @mask:	signals that the program finds blocked
 * @timeout:	ns that it may take, 0: for ever. Then it is killed with all below it, after
 *		@expired was called, if there is one
 * @explain:	seconds after which is said what hangs, 0: never
 * @tick:	asked each @tick_ms, if there is one, with @arg: true as if the time were out
 * @signal:	that ended it, or 0; @ran: it could be executed
 * @leftover:	descendants of it are still there
 * @timed_out:	it was killed
 */
struct supervised {
	const char *dir;
	sigset_t mask;
	uint64_t timeout;
	unsigned int explain;
	bool (*tick)(struct supervised *s);
	unsigned int tick_ms;
	void *arg;
	void (*expired)(const struct supervised *s);
	int signal;
	bool ran, leftover, timed_out;
};

/*
 * supervise - run @argv as the child of this process until it ends: signals go to it,
 * stops and exit status come from it. The exit code, EXIT_TIMEOUT if it was killed
 */
int supervise(char **argv, struct supervised *s);

/* run_devices - the list of devices of @o is settled: 0, or an exit code with a line on stderr */
int run_devices(struct options *o);
/*
 * run_once - run @argv once, without a word, in a session in the directory @place. @look is called
 * with it when the program has ended, and everything below it ends with the session. The exit
 * code of the program
 */
int run_once(struct options *o, char **argv, const char *place, struct supervised *s,
	     void (*look)(void *arg, const char *dir), void *arg);

/* warn_unless_preloadable - a line on stderr if @name will not see the devices */
void warn_unless_preloadable(const char *name);

/* preload_path - absolute path of SESSION_LIBRARY or CHECK_LIBRARY; 0 or -errno */
int preload_path(const char *name, char path[PATH_MAX]);

#endif
