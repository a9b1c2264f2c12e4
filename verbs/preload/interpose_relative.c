/*
 * interpose_relative.c - paths that depend on a directory, and the current directory.
 *
 * Below a directory of the generated tree the kernel finds by itself what is relative to
 * it. What it cannot know is that /sys/class, seen from /, has more than is there, which
 * files are devices, and which attributes change: so a relative path that may lead to one
 * of those is made absolute. The directory is asked for only if the path has one of a few
 * words in it, or the current directory is in the tree.
 */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "verbs/host/tree.h"
#include "verbs/preload/interpose.h"

char *__getcwd_chk(char *buf, size_t size, size_t room);

/*
 * Is the current directory in the tree? Programs rarely change it. It is a property of the process,
 * whether an engine runs or not.
 */
static _Atomic enum { CWD_UNKNOWN, CWD_ELSEWHERE, CWD_IN_TREE } cwd;

EARLY static bool is_or_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return !strncmp(path, dir, n) && (path[n] == '\0' || path[n] == '/');
}

/*
 * The path of the directory, as the program knows it: false if there is none. *@in_tree:
 * it is one of the tree, not of the rest of the session's directory.
 */
EARLY static bool dir_path(int dirfd, char buf[PATH_MAX], bool *in_tree)
{
	char link[32] = "/proc/self/cwd";
	ssize_t n;

	if (dirfd != AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/self/fd/%d", dirfd);
	n = REAL(readlink)(link, buf, PATH_MAX - 1);
	if (n <= 0 || buf[0] != '/')
		return false;
	buf[n] = '\0';
	*in_tree = paths_unmap(paths_dir(), buf);
	return !*in_tree || is_or_below(buf, "/sys") || is_or_below(buf, "/dev");
}

EARLY static bool cwd_in_tree(void)
{
	char buf[PATH_MAX];
	bool in_tree;

	if (cwd == CWD_UNKNOWN)
		cwd = dir_path(AT_FDCWD, buf, &in_tree) && in_tree ? CWD_IN_TREE
								   : CWD_ELSEWHERE;
	return cwd == CWD_IN_TREE;
}

EARLY bool interpose_relative(int dirfd, const char *path)
{
	int err = errno;
	bool may;

	if (!path || !path[0] || path[0] == '/' || !paths_dir())
		return false;
	may = strstr(path, "infiniband") || strstr(path, "uverbs") ||
	      strstr(path, "rdma_cm") || strstr(path, "urxe") ||
	      (dirfd == AT_FDCWD && cwd_in_tree());
	errno = err;
	return may;
}

/*
 * Append @path to the @n bytes of a directory's path. Its beginning may be "..": a path
 * that the kernel gave has no links in it. Behind a name, ".." may mean another directory
 * than the one before: false.
 */
EARLY static bool append(char buf[PATH_MAX], size_t n, const char *path)
{
	bool named = false;

	while (*(path += strspn(path, "/"))) {
		size_t len = strcspn(path, "/");

		if (len == 2 && path[0] == '.' && path[1] == '.') {
			if (named)
				return false;
			n = n > 1 ? (size_t)((char *)memrchr(buf, '/', n) - buf) : 0;
		} else if (len != 1 || path[0] != '.') {
			named = true;
			n -= n == 1; /* the root is its slash */
			if (n + len + 2 > PATH_MAX)
				return false;
			buf[n++] = '/';
			memcpy(buf + n, path, len);
			n += len;
		}
		path += len;
	}
	memcpy(buf + n, n ? "" : "/", n ? 1 : 2);
	return true;
}

EARLY const char *interpose_absolute(int dirfd, const char *path, char buf[PATH_MAX])
{
	int err = errno;
	bool in_tree, known = dir_path(dirfd, buf, &in_tree);

	errno = err;
	if (!known || !append(buf, strlen(buf), path))
		return path;
	return in_tree || paths_is_ours(buf) ? buf : path;
}

/* --- the current directory -------------------------------------------------------- */

INTERPOSE int chdir(const char *path)
{
	char buf[PATH_MAX];
	int ret;

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	ret = path ? REAL(chdir)(path) : -1;
	cwd = CWD_UNKNOWN;
	return ret;
}

INTERPOSE int fchdir(int fd)
{
	int ret = REAL(fchdir)(fd);

	cwd = CWD_UNKNOWN;
	return ret;
}

/* Where the program believes to be */
static char *seen(char *path)
{
	if (path && paths_dir())
		paths_unmap(paths_dir(), path);
	return path;
}

INTERPOSE char *getcwd(char *buf, size_t size)
{
	return seen(REAL(getcwd)(buf, size));
}

INTERPOSE char *__getcwd_chk(char *buf, size_t size, size_t room)
{
	return seen(REAL(__getcwd_chk)(buf, size, room));
}

INTERPOSE char *get_current_dir_name(void)
{
	return seen(REAL(get_current_dir_name)());
}
