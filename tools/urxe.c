/*
 * urxe.c - the command line: chooses the command.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tools/remote.h"
#include "tools/tools.h"
#include "verbs/host/reason.h"

static const struct command *const commands[] = {
    &command_run,    &command_stat,    &command_why,	&command_sweep,
    &command_trace,  &command_report,  &command_view,	&command_top,
    &command_doctor, &command_profile, &command_remote, &command_session,
};
#define N_COMMANDS (sizeof(commands) / sizeof(commands[0]))

int usage_error(const char *fmt, ...)
{
	va_list ap;

	fputs("urxe: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	return EXIT_USAGE;
}

int option_error(int c, char *const *argv, const char *command)
{
	return usage_error(c == ':' ? "%s needs a value (see urxe help %s)"
				    : "unknown option '%s' (see urxe help %s)",
			   argv[optind - 1], command);
}

int stdout_done(int ret)
{
	if (!ret && (fflush(stdout) || ferror(stdout)))
		ret = errno ? -errno : -EIO;
	if (!ret)
		return 0;
	usage_error("standard output: %s%s", strerror(-ret), reason_hint(-ret));
	return EXIT_SETUP;
}

static const struct command *find(const char *name)
{
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static void print_help(FILE *out)
{
	fputs("urxe - run RDMA programs on an emulated network card, without hardware\n"
	      "\n"
	      "usage: urxe COMMAND [options]\n"
	      "\n",
	      out);
	for (size_t i = 0; i < N_COMMANDS; i++)
		if (commands[i]->summary)
			fprintf(out, "  urxe %-8s %s\n", commands[i]->name,
				commands[i]->summary);
	fputs("\n"
	      "  urxe help COMMAND   options of a command\n"
	      "  urxe --version\n"
	      "\n"
	      "Example, a server, which waits for its client, and the client:\n"
	      "\n"
	      "  urxe run --stats -- sh -c 'ibv_rc_pingpong -g 0 -o & sleep 1;\n"
	      "      ibv_rc_pingpong -g 0 -o 127.0.0.1'\n",
	      out);
}

static int help(int argc, char **argv)
{
	const struct command *c;

	if (argc < 2) {
		print_help(stdout);
		return 0;
	}
	c = find(argv[1]);
	if (!c)
		return usage_error("unknown command '%s' (see urxe --help)", argv[1]);
	c->help(stdout);
	return 0;
}

/*
 * Whoever starts us without stdin, stdout or stderr must not make our own files those.
 * The program does not inherit what takes their places.
 */
static void reserve_standard(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR | O_CLOEXEC) < 0)
			return;
}

static int command(int argc, char **argv)
{
	const struct command *c;
	const char *name = argc > 1 ? argv[1] : NULL;

	if (!name)
		return usage_error("no command given (see urxe --help)");
	if (!strcmp(name, "--help") || !strcmp(name, "-h") || !strcmp(name, "help"))
		return help(argc - 1, argv + 1);
	if (!strcmp(name, "--version") || !strcmp(name, "-V")) {
		printf("urxe %s\n", URXE_VERSION);
		return 0;
	}
	c = find(name);
	if (!c)
		return usage_error("unknown %s '%s' (see urxe --help)",
				   *name == '-' ? "option" : "command", name);
	return c->run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	int code;

	reserve_standard();
	/* what exceeds the limit of file sizes is an error, which can be told; `urxe run` lets its
	 * program have the signal as it was */
	supervise_hold_xfsz();
	code = command(argc, argv);
	return code ? code : stdout_done(0);
}
