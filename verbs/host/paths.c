/*
 * paths.c - which paths of the application lead to the emulated devices.
 *
 * Pure string work, except that the session directory is read from the environment once:
 * the functions are on the way of each open(2) and stat(2) of the program.
 */
#include "verbs/host/paths.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "verbs/host/libc.h"

#define NODE_DIR "/dev/infiniband"

/* Longest first where one is the beginning of another; a match ends at '/' or the end. */
static const char *const prefixes[] = {
    "/sys/class/infiniband_verbs",
    "/sys/class/infiniband_mad",
    "/sys/class/infiniband_cm",
    "/sys/class/infiniband_ucma",
    "/sys/class/infiniband",
    "/sys/class/misc/rdma_cm",
    PATHS_DEVICES,
    NODE_DIR,
};

static pthread_once_t dir_once = PTHREAD_ONCE_INIT;
static char dir_value[PATH_MAX];

EARLY static void read_dir(void)
{
	const char *d = getenv("URXE_DIR");
	size_t n = d ? strlen(d) : 0;

	while (n > 1 && d[n - 1] == '/')
		n--;
	if (!n || d[0] != '/' || n >= sizeof(dir_value))
		return;
	memcpy(dir_value, d, n);
}

EARLY const char *paths_dir(void)
{
	/* A sanitizer's runtime in the program starts before libc has the environment. */
	if (!environ)
		return NULL;
	pthread_once(&dir_once, read_dir);
	return dir_value[0] ? dir_value : NULL;
}

/* The length of @prefix if @path is it or below it, else 0 */
EARLY static size_t below(const char *path, const char *prefix)
{
	size_t n = strlen(prefix);

	if (strncmp(path, prefix, n))
		return 0;
	return path[n] == '\0' || path[n] == '/' ? n : 0;
}

EARLY bool paths_is_ours(const char *path)
{
	/* Nearly every path of a program fails here. */
	if (!path || path[0] != '/' || (path[1] != 's' && path[1] != 'd'))
		return false;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (below(path, prefixes[i]))
			return true;
	return false;
}

const char *paths_map(const char *dir, const char *path, char buf[PATH_MAX])
{
	if (!dir || !paths_is_ours(path))
		return path;
	if (snprintf(buf, PATH_MAX, "%s%s", dir, path) >= PATH_MAX) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	return buf;
}

bool paths_unmap(const char *dir, char *path)
{
	size_t n = dir ? below(path, dir) : 0;

	if (!n || !path[n])
		return false;
	memmove(path, path + n, strlen(path + n) + 1);
	return true;
}

int paths_node(const char *path)
{
	unsigned long n;
	char *end;

	if (!path || strncmp(path, NODE_DIR "/", sizeof(NODE_DIR)))
		return PATHS_NODE_NONE;
	path += sizeof(NODE_DIR);
	if (strcmp(path, "rdma_cm") == 0)
		return PATHS_NODE_CM;
	if (strncmp(path, "uverbs", 6) || path[6] < '0' || path[6] > '9')
		return PATHS_NODE_NONE;
	if (path[6] == '0' && path[7])
		return PATHS_NODE_NONE;
	n = strtoul(path + 6, &end, 10);
	return *end || n >= PATHS_UVERBS_MAX ? PATHS_NODE_NONE : (int)n;
}

dev_t paths_node_rdev(int node)
{
	if (node == PATHS_NODE_CM)
		return makedev(PATHS_MISC_MAJOR, PATHS_RDMA_CM_MINOR);
	if (node >= 0)
		return makedev(PATHS_UVERBS_MAJOR,
			       PATHS_UVERBS_MINOR + (unsigned int)node);
	return 0;
}
