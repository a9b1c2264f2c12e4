/*
 * preload.c - where the preload libraries are.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/tools.h"

/*
 * In the build tree beside the directory of this program; installed below the same prefix,
 * which may have been moved, or packed for another distribution; at last where it was to
 * be installed.
 */
static const char *const places[] = {"%s/../verbs",	   "%s/../check",
				     "%s/../" URXE_LIBDIR, "%s/../lib",
				     "%s/../lib64",	   URXE_PREFIX "/" URXE_LIBDIR};

int preload_path(const char *name, char path[PATH_MAX])
{
	char exe[PATH_MAX], *slash, dir[2 * PATH_MAX], try[2 * PATH_MAX + 32];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		return -errno;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(dir, sizeof(dir), places[i], exe);
		snprintf(try, sizeof(try), "%s/%s", dir, name);
		if (realpath(try, path))
			return 0;
	}
	return -ENOENT;
}
