/*
 * profile.c - `urxe profile`: the devices that `urxe run --profile` can answer as, and a file for one's
 * own from what `ibv_devinfo -v` says of it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tools/tools.h"
#include "verbs/host/profile.h"

#define DEVINFO_MAX (4u << 20) /* bytes; a machine with many devices has some 100 KiB */

static void print_help(FILE *out)
{
	fputs("usage: urxe profile list\n"
	      "       urxe profile show NAME|FILE\n"
	      "       urxe profile from-devinfo FILE [DEVICE]\n"
	      "\n"
	      "Devices that urxe run --profile NAME|FILE answers as.\n"
	      "\n"
	      "  list          names\n"
	      "  show          all that a profile says, in the form of a file\n"
	      "  from-devinfo  write a profile to standard output, from what ibv_devinfo "
	      "-v\n"
	      "                says on a machine that has the device; - is standard "
	      "input\n",
	      out);
}

static int list(int argc, char **argv)
{
	const struct profile_known *k;

	if (argc > 1)
		return usage_error("unknown argument '%s' (see urxe help profile)",
				   argv[1]);
	for (size_t i = 0; (k = profile_known(i)); i++)
		printf("%-14s %s\n", k->name, k->what);
	return stdout_done(0);
}

static int show(int argc, char **argv)
{
	struct profile p;
	char err[400];

	if (argc != 2)
		return usage_error("profile show needs one name (see urxe help profile)");
	if (profile_load(argv[1], &p, err, sizeof(err)))
		return usage_error("%s", err);
	profile_print(&p, false, stdout);
	return stdout_done(0);
}

/* The text of a file, to be freed; NULL with errno */
static char *read_all(const char *path)
{
	bool in = !strcmp(path, "-");
	FILE *f = in ? stdin : fopen(path, "re");
	char *text = f ? malloc(DEVINFO_MAX + 1) : NULL;
	size_t n = text ? fread(text, 1, DEVINFO_MAX + 1, f) : 0;
	int err = f && text && ferror(f) ? errno : n > DEVINFO_MAX ? EFBIG : 0;

	if (f && !in)
		fclose(f);
	if (text && !err)
		text[n] = '\0';
	if (text && err) {
		free(text);
		text = NULL;
		errno = err;
	}
	return text;
}

static int from_devinfo(int argc, char **argv)
{
	struct profile p;
	char *text, err[240];
	int ret;

	if (argc < 2 || argc > 3)
		return usage_error(
		    "profile from-devinfo needs a file (see urxe help profile)");
	text = read_all(argv[1]);
	if (!text)
		return usage_error("%s: %s", argv[1], strerror(errno));
	fputs(
	    "# From ibv_devinfo -v, which does not tell max_inline_data, whether there\n"
	    "# is UC (qp_types), fault_model and fault_latency_us.\n",
	    stdout);
	ret = profile_from_devinfo(text, argv[2], &p, stdout, err, sizeof(err));
	free(text);
	if (ret)
		return usage_error("%s: %s", argv[1], err);
	profile_print(&p, false, stdout);
	return stdout_done(0);
}

static int profile_command(int argc, char **argv)
{
	if (argc > 1 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		print_help(stdout);
		return stdout_done(0);
	}
	if (argc > 1 && !strcmp(argv[1], "list"))
		return list(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "show"))
		return show(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "from-devinfo"))
		return from_devinfo(argc - 1, argv + 1);
	return usage_error(
	    "profile needs list, show or from-devinfo (see urxe help profile)");
}

const struct command command_profile = {
    .name = "profile",
    .summary = "show and make descriptions of devices to answer as",
    .run = profile_command,
    .help = print_help,
};
