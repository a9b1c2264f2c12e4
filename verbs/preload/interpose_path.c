/*
 * interpose_path.c - the rest of what takes a path: extended attributes, file systems,
 * watches.
 *
 * Programs such as ls(1) ask for them beside stat(2); they are told of the files in the
 * generated tree.
 */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "verbs/host/tree.h"
#include "verbs/preload/interpose.h"

INTERPOSE ssize_t getxattr(const char *path, const char *name, void *value, size_t size)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(getxattr)(path, name, value, size) : -1;
}

INTERPOSE ssize_t lgetxattr(const char *path, const char *name, void *value, size_t size)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(lgetxattr)(path, name, value, size) : -1;
}

INTERPOSE ssize_t listxattr(const char *path, char *list, size_t size)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(listxattr)(path, list, size) : -1;
}

INTERPOSE ssize_t llistxattr(const char *path, char *list, size_t size)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(llistxattr)(path, list, size) : -1;
}

INTERPOSE int statfs(const char *path, struct statfs *st)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(statfs)(path, st) : -1;
}

INTERPOSE int statfs64(const char *path, struct statfs64 *st)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(statfs64)(path, st) : -1;
}

INTERPOSE int statvfs(const char *path, struct statvfs *st)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(statvfs)(path, st) : -1;
}

INTERPOSE int statvfs64(const char *path, struct statvfs64 *st)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(statvfs64)(path, st) : -1;
}

INTERPOSE int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(inotify_add_watch)(fd, path, mask) : -1;
}
