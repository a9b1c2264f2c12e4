/*
 * remote.c - runs that reach other hosts: `urxe run mpirun ...`, `urxe run srun ...`.
 *
 * A launcher starts its processes on other hosts in one of two ways. Either it starts a daemon of its own
 * there by ssh, which brings nothing of the environment along: Open MPI. It is told to put `urxe remote`
 * before that daemon, which is `urxe run` with the settings of this run. Or it hands the environment on to
 * each process: Slurm, MPICH. There the library is preloaded, and finds that its session is not on this host;
 * then it calls `urxe session`, which makes one by the same name (verbs/host/elsewhere.c).
 *
 * Neither command is for people, so help does not name them. The first run must be found by the same path on
 * all hosts, as the program.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/remote.h"
#include "tools/tools.h"

/* What a host has of its own */
static const char *const own_variables[] = {"URXE_DIR=", "URXE_COMMAND="};
#define DEVICES "URXE_DEVICE="

/* Launchers that split their setting at blanks, and have a shell read it */
static const struct {
	const char *variable, *daemon;
} agents[] = {
    {"OMPI_MCA_orte_launch_agent", "orted"}, /* Open MPI 4 */
    {"PRTE_MCA_prte_launch_agent", "prted"}, /* Open MPI 5 */
};

/* --- settings as one word --------------------------------------------------------- */

static bool is_handed_on(const char *variable, bool devices)
{
	if (strncmp(variable, "URXE_", 5))
		return false;
	for (size_t i = 0; i < sizeof(own_variables) / sizeof(own_variables[0]); i++)
		if (!strncmp(variable, own_variables[i], strlen(own_variables[i])))
			return false;
	return devices || strncmp(variable, DEVICES, strlen(DEVICES)) != 0;
}

/* Two digits for each byte of each variable and of the 0 behind it: no shell finds anything in it */
static char *encode(bool devices)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	putc('x', out); /* there may be no variable, but an argument there must be */
	for (char **v = environ; *v; v++)
		for (const char *p = *v; is_handed_on(*v, devices); p++) {
			fprintf(out, "%02x", (unsigned char)*p);
			if (!*p)
				break;
		}
	if (fclose(out)) {
		free(text);
		return NULL;
	}
	return text;
}

static int digit(char c)
{
	static const char digits[] = "0123456789abcdef";
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Set one variable "NAME=VALUE". 0 or -EINVAL */
static int set_one(char *text)
{
	char *value = strchr(text, '=');

	if (!value || !is_handed_on(text, true))
		return -EINVAL;
	*value++ = '\0';
	return setenv(text, value, 1) ? -errno : 0;
}

/* What encode() made is set in the environment, @word is overwritten. 0 or -EINVAL */
static int decode(char *word)
{
	char *begin = word, *to = word;

	if (*word++ != 'x')
		return -EINVAL;
	for (; *word; word += 2) {
		int high = digit(word[0]), low = high < 0 ? -1 : digit(word[1]);

		if (low < 0)
			return -EINVAL;
		*to = (char)(high << 4 | low);
		if (*to++)
			continue;
		if (set_one(begin))
			return -EINVAL;
		begin = to;
	}
	return to == begin ? 0 : -EINVAL;
}

/* --- the first host --------------------------------------------------------------- */

/* A path that neither a shell nor a launcher takes for more than one word */
static bool is_one_word(const char *path)
{
	return !path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789/._+-")];
}

int remote_announce(const char *exe, bool devices)
{
	char *word = is_one_word(exe) ? encode(devices) : NULL, *value;
	int ret = 0;

	for (size_t i = 0; word && !ret && i < sizeof(agents) / sizeof(agents[0]); i++) {
		if (asprintf(&value, "%s remote %s %s", exe, word, agents[i].daemon) <
		    0) {
			ret = -ENOMEM;
			break;
		}
		/* whoever has set it knows better */
		ret = setenv(agents[i].variable, value, 0) ? -errno : 0;
		free(value);
	}
	free(word);
	return ret;
}

/* --- the other hosts -------------------------------------------------------------- */

static void remote_help(FILE *out)
{
	fputs("usage: urxe remote SETTINGS COMMAND [argument...]\n"
	      "\n"
	      "How a launcher starts its daemon on another host for urxe run; SETTINGS "
	      "are those\n"
	      "of that run. Not for people.\n",
	      out);
}

static int remote(int argc, char **argv)
{
	char **args;
	int code;

	if (argc < 3 || decode(argv[1]))
		return usage_error("remote: what follows is not what urxe run has told a "
				   "launcher");
	args = calloc((size_t)argc + 1, sizeof(*args));
	if (!args)
		return EXIT_SETUP;
	args[0] = "run";
	args[1] = "--";
	memcpy(args + 2, argv + 2, ((size_t)argc - 2) * sizeof(*args));
	code = command_run.run(argc, args);
	free(args);
	return code;
}

static void session_help(FILE *out)
{
	fputs("usage: urxe session DIR\n"
	      "\n"
	      "Makes on this host the directory of a run that was begun on another one. "
	      "The\n"
	      "library calls it; not for people.\n",
	      out);
}

static int session_command(int argc, char **argv)
{
	struct session s;
	int ret;

	if (argc != 2)
		return usage_error("session: one directory is needed");
	ret = session_create_named(&s, argv[1]);
	if (ret == -EEXIST) /* another process of the run was earlier */
		return 0;
	if (ret) {
		usage_error(
		    "%s, the directory of this run, cannot be made on this host: %s",
		    argv[1], strerror(-ret));
		return EXIT_SETUP;
	}
	session_linger(&s);
	return 0;
}

const struct command command_remote = {
    .name = "remote",
    .run = remote,
    .help = remote_help,
};

const struct command command_session = {
    .name = "session",
    .run = session_command,
    .help = session_help,
};
