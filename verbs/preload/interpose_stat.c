/*
 * interpose_stat.c - what the program is told about files: stat and its kin, access,
 * links.
 *
 * Device nodes and their open descriptors are character devices of the numbers that sysfs
 * gives; the rest is told of the files in the generated tree.
 */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "verbs/engine/vfile.h"
#include "verbs/host/tree.h"
#include "verbs/preload/interpose.h"

#define NODE_MODE (S_IFCHR | 0666)

/*
 * Exported for programs of before glibc 2.33, or for fortified ones, and declared nowhere
 */
int __xstat(int ver, const char *path, struct stat *st);
int __lxstat(int ver, const char *path, struct stat *st);
int __fxstat(int ver, int fd, struct stat *st);
int __fxstatat(int ver, int dirfd, const char *path, struct stat *st, int flags);
int __xstat64(int ver, const char *path, struct stat64 *st);
int __lxstat64(int ver, const char *path, struct stat64 *st);
int __fxstat64(int ver, int fd, struct stat64 *st);
int __fxstatat64(int ver, int dirfd, const char *path, struct stat64 *st, int flags);
ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t room);
ssize_t __readlinkat_chk(int dirfd, const char *path, char *buf, size_t len, size_t room);
char *__realpath_chk(const char *path, char *resolved, size_t room);

/* On 64-bit systems both are one structure (bits/struct_stat.h). */
_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "64-bit only");

static dev_t rdev_of_fd(int fd)
{
	struct vfile *vf = vfile_get(fd);
	dev_t rdev = vf ? vf->rdev : 0;

	if (vf)
		vfile_put(vf);
	return rdev;
}

static void make_node(struct stat *st, dev_t rdev)
{
	st->st_mode = NODE_MODE;
	st->st_rdev = rdev;
	st->st_size = 0;
	st->st_blocks = 0;
}

/* Where to ask about @path, and the device number if it is a node. NULL with errno */
static const char *place_of(const char *path, char buf[PATH_MAX], dev_t *rdev)
{
	*rdev = paths_node_rdev(paths_node(path));
	return tree_map(path, buf);
}

static int stat_ours(const char *path, struct stat *st, int flags)
{
	char buf[PATH_MAX];
	dev_t rdev;
	int ret;

	path = place_of(path, buf, &rdev);
	if (!path)
		return -1;
	ret = REAL(fstatat)(AT_FDCWD, path, st, flags);
	if (!ret && rdev)
		make_node(st, rdev);
	return ret;
}

static int stat_fd(int fd, struct stat *st, dev_t rdev)
{
	int ret = REAL(fstatat)(fd, "", st, AT_EMPTY_PATH);

	if (!ret)
		make_node(st, rdev);
	return ret;
}

static bool is_fd_itself(const char *path, int flags)
{
	return flags & AT_EMPTY_PATH && path && !*path;
}

INTERPOSE int stat(const char *path, struct stat *st)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? stat_ours(path, st, 0) : REAL(stat)(path, st);
}

INTERPOSE int stat64(const char *path, struct stat64 *st)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? stat_ours(path, (struct stat *)st, 0)
				     : REAL(stat64)(path, st);
}

INTERPOSE int lstat(const char *path, struct stat *st)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? stat_ours(path, st, AT_SYMLINK_NOFOLLOW)
				     : REAL(lstat)(path, st);
}

INTERPOSE int lstat64(const char *path, struct stat64 *st)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path)
		   ? stat_ours(path, (struct stat *)st, AT_SYMLINK_NOFOLLOW)
		   : REAL(lstat64)(path, st);
}

INTERPOSE int fstat(int fd, struct stat *st)
{
	dev_t rdev = rdev_of_fd(fd);

	return rdev ? stat_fd(fd, st, rdev) : REAL(fstat)(fd, st);
}

INTERPOSE int fstat64(int fd, struct stat64 *st)
{
	dev_t rdev = rdev_of_fd(fd);

	return rdev ? stat_fd(fd, (struct stat *)st, rdev) : REAL(fstat64)(fd, st);
}

INTERPOSE int fstatat(int dirfd, const char *path, struct stat *st, int flags)
{
	dev_t rdev = is_fd_itself(path, flags) ? rdev_of_fd(dirfd) : 0;

	INTERPOSE_RELATIVE(dirfd, path);
	if (rdev)
		return stat_fd(dirfd, st, rdev);
	return interpose_wants(path) ? stat_ours(path, st, flags)
				     : REAL(fstatat)(dirfd, path, st, flags);
}

INTERPOSE int fstatat64(int dirfd, const char *path, struct stat64 *st, int flags)
{
	dev_t rdev = is_fd_itself(path, flags) ? rdev_of_fd(dirfd) : 0;

	INTERPOSE_RELATIVE(dirfd, path);
	if (rdev)
		return stat_fd(dirfd, (struct stat *)st, rdev);
	return interpose_wants(path) ? stat_ours(path, (struct stat *)st, flags)
				     : REAL(fstatat64)(dirfd, path, st, flags);
}

INTERPOSE int __xstat(int ver, const char *path, struct stat *st)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? stat_ours(path, st, 0)
				     : REAL(__xstat)(ver, path, st);
}

INTERPOSE int __xstat64(int ver, const char *path, struct stat64 *st)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? stat_ours(path, (struct stat *)st, 0)
				     : REAL(__xstat64)(ver, path, st);
}

INTERPOSE int __lxstat(int ver, const char *path, struct stat *st)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? stat_ours(path, st, AT_SYMLINK_NOFOLLOW)
				     : REAL(__lxstat)(ver, path, st);
}

INTERPOSE int __lxstat64(int ver, const char *path, struct stat64 *st)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path)
		   ? stat_ours(path, (struct stat *)st, AT_SYMLINK_NOFOLLOW)
		   : REAL(__lxstat64)(ver, path, st);
}

INTERPOSE int __fxstat(int ver, int fd, struct stat *st)
{
	dev_t rdev = rdev_of_fd(fd);

	return rdev ? stat_fd(fd, st, rdev) : REAL(__fxstat)(ver, fd, st);
}

INTERPOSE int __fxstat64(int ver, int fd, struct stat64 *st)
{
	dev_t rdev = rdev_of_fd(fd);

	return rdev ? stat_fd(fd, (struct stat *)st, rdev)
		    : REAL(__fxstat64)(ver, fd, st);
}

INTERPOSE int __fxstatat(int ver, int dirfd, const char *path, struct stat *st, int flags)
{
	INTERPOSE_RELATIVE(dirfd, path);
	return interpose_wants(path) ? stat_ours(path, st, flags)
				     : REAL(__fxstatat)(ver, dirfd, path, st, flags);
}

INTERPOSE int __fxstatat64(int ver, int dirfd, const char *path, struct stat64 *st,
			   int flags)
{
	INTERPOSE_RELATIVE(dirfd, path);
	return interpose_wants(path) ? stat_ours(path, (struct stat *)st, flags)
				     : REAL(__fxstatat64)(ver, dirfd, path, st, flags);
}

INTERPOSE int statx(int dirfd, const char *path, int flags, unsigned int mask,
		    struct statx *st)
{
	dev_t rdev = is_fd_itself(path, flags) ? rdev_of_fd(dirfd) : 0;
	char buf[PATH_MAX];
	int ret;

	INTERPOSE_RELATIVE(dirfd, path);
	if (!rdev && interpose_wants(path)) {
		path = place_of(path, buf, &rdev);
		if (!path)
			return -1;
	}
	ret = REAL(statx)(dirfd, path, flags, mask, st);
	if (ret || !rdev)
		return ret;
	st->stx_mode = NODE_MODE;
	st->stx_rdev_major = major(rdev);
	st->stx_rdev_minor = minor(rdev);
	st->stx_size = 0;
	st->stx_blocks = 0;
	return 0;
}

/* --- access ----------------------------------------------------------------------- */

INTERPOSE int access(const char *path, int mode)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(access)(path, mode) : -1;
}

INTERPOSE int faccessat(int dirfd, const char *path, int mode, int flags)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(dirfd, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(faccessat)(dirfd, path, mode, flags) : -1;
}

INTERPOSE int euidaccess(const char *path, int mode)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(euidaccess)(path, mode) : -1;
}

INTERPOSE int eaccess(const char *path, int mode)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(eaccess)(path, mode) : -1;
}

/* --- links ------------------------------------------------------------------------ */

/* Links of the tree are relative or lead out of it: their text needs no change. */
INTERPOSE ssize_t readlink(const char *path, char *out, size_t len)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(readlink)(path, out, len) : -1;
}

INTERPOSE ssize_t readlinkat(int dirfd, const char *path, char *out, size_t len)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(dirfd, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(readlinkat)(dirfd, path, out, len) : -1;
}

INTERPOSE ssize_t __readlink_chk(const char *path, char *out, size_t len, size_t room)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(__readlink_chk)(path, out, len, room) : -1;
}

INTERPOSE ssize_t __readlinkat_chk(int dirfd, const char *path, char *out, size_t len,
				   size_t room)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(dirfd, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(__readlinkat_chk)(dirfd, path, out, len, room) : -1;
}

static char *realpath_ours(const char *path, char *resolved)
{
	char buf[PATH_MAX];

	path = tree_map(path, buf);
	if (!path)
		return NULL;
	resolved = REAL(realpath)(path, resolved);
	if (resolved)
		paths_unmap(paths_dir(), resolved);
	return resolved;
}

INTERPOSE char *realpath(const char *path, char *resolved)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? realpath_ours(path, resolved)
				     : REAL(realpath)(path, resolved);
}

INTERPOSE char *__realpath_chk(const char *path, char *resolved, size_t room)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) && room >= PATH_MAX
		   ? realpath_ours(path, resolved)
		   : REAL(__realpath_chk)(path, resolved, room);
}

INTERPOSE char *canonicalize_file_name(const char *path)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? realpath_ours(path, NULL)
				     : REAL(canonicalize_file_name)(path);
}
