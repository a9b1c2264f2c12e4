/*
 * preload.c - where the preload library is.
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
static const char *const places[] = {
    "%s/../verbs/liburxe.so", "%s/../" URXE_LIBDIR "/liburxe.so", "%s/../lib/liburxe.so",
    "%s/../lib64/liburxe.so", URXE_PREFIX "/" URXE_LIBDIR "/liburxe.so"};

int preload_path(char path[PATH_MAX])
{
	char exe[PATH_MAX], *slash, try[2 * PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (n < 0)
		return -errno;
	exe[n] = '\0';
	slash = strrchr(exe, '/');
	if (!slash)
		return -ENOENT;
	*slash = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		snprintf(try, sizeof(try), places[i], exe);
		if (realpath(try, path))
			return 0;
	}
	return -ENOENT;
}
