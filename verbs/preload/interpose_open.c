/*
 * interpose_open.c - open and its kin, directories, and the C library's functions that
 * open inside themselves.
 *
 * A path of the emulated devices is opened in the generated tree, as a device, or, where
 * its content may have changed since the tree was written, as a memfd with what it says
 * now. All other paths go to libc untouched.
 */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "net/filesize.h"
#include "verbs/host/reason.h"
#include "verbs/host/sysfs.h"
#include "verbs/host/tree.h"
#include "verbs/preload/interpose.h"
#include "verbs/ucma/ucma.h"
#include "verbs/uverbs/uverbs.h"

/* The C library exports these for fortified programs and declares them nowhere. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dirfd, const char *path, int flags);
int __openat64_2(int dirfd, const char *path, int flags);

/* --- attributes that change ------------------------------------------------------- */

static int live_device(void *arg, const char *name)
{
	struct engine *e = arg;

	for (unsigned int i = 0; i < engine_device_count(e); i++)
		if (strcmp(engine_device(e, i)->name, name) == 0)
			return (int)i;
	return -1;
}

static struct emu_hca *live_hca(void *arg, int dev)
{
	return engine_device(arg, (unsigned int)dev)->hca;
}

static bool live_gid(void *arg, int dev, unsigned int i, struct net_ip *ip)
{
	static const struct net_ip none;

	return emu_get_gid(live_hca(arg, dev), i, ip) == 0 && !net_ip_eq(ip, &none);
}

static bool live_v1(void *arg, int dev, unsigned int i)
{
	return emu_gid_is_v1(live_hca(arg, dev), i);
}

static bool live_port(void *arg, int dev, struct ibv_port_attr *attr)
{
	emu_query_port(live_hca(arg, dev), attr);
	return true;
}

static bool live_counter(void *arg, int dev, const char *name, uint64_t *value)
{
	const char *const *names;
	const uint64_t *v;
	size_t n = emu_hw_counters(live_hca(arg, dev), &names, &v);

	for (size_t i = 0; i < n; i++) {
		if (strcmp(names[i], name))
			continue;
		*value = v[i];
		return true;
	}
	return false;
}

static uint64_t live_cm(void *arg, int dev, unsigned int which, unsigned int msg)
{
	return engine_device(arg, (unsigned int)dev)->cm.n[which][msg];
}

static const char *live_ifname(void *arg, int dev)
{
	return engine_device(arg, (unsigned int)dev)->ifname;
}

/*
 * The present content of @path as a file: descriptor; -1 with errno; -2: nothing special
 */
static int open_dynamic(const char *path)
{
	struct engine *e = engine_running();
	const struct sysfs_live live = {
	    .device = live_device,
	    .gid = live_gid,
	    .v1 = live_v1,
	    .port = live_port,
	    .counter = live_counter,
	    .cm = live_cm,
	    .ifname = live_ifname,
	    .arg = e,
	};
	char text[128];
	int len, fd;

	if (!e)
		return -2;
	engine_enter(e);
	len = sysfs_dynamic(&live, path, text, sizeof(text));
	engine_leave(e);
	if (len == -ENOENT)
		return -2;
	if (len < 0) {
		errno = -len;
		return -1;
	}
	/* Where there are no memory files, what the tree had at the start must do. */
	if (!filesize_allowed((uint64_t)len))
		return -2;
	fd = memfd_create("urxe-sysfs", MFD_CLOEXEC);
	if (fd < 0 && (errno == EPERM || errno == ENOSYS))
		return -2;
	if (fd >= 0 &&
	    (REAL(write)(fd, text, (size_t)len) != len || lseek(fd, 0, SEEK_SET) < 0)) {
		REAL(close)(fd);
		errno = EIO;
		return -1;
	}
	return fd;
}

/* --- opening ---------------------------------------------------------------------- */

/* The engine says by itself why it does not start. */
static void tell_refusal(const char *path, int err)
{
	if (engine_running())
		fprintf(stderr, "urxe: cannot open %s: %s%s\n", path, strerror(err),
			err == EPERM ? " (memfd_create is denied)" : reason_hint(err));
}

static int open_node(const char *path, int node, const char *place, int flags)
{
	int fd;

	if (REAL(access)(place, F_OK))
		return -1;
	engine_start_cm_by(ucma_serve);
	/* It waits for nobody, and a thread that ended inside would leave half a device. */
	cancel_defer();
	if (node == PATHS_NODE_CM)
		fd = ucma_open(flags);
	else
		fd = uverbs_open((unsigned int)node, flags);
	if (fd < 0)
		tell_refusal(path, -fd);
	cancel_restore();
	if (fd >= 0)
		return fd;
	errno = -fd;
	return -1;
}

/* open(2) of such a path: descriptor, or -1 with errno */
static int interpose_open(const char *path, int flags, mode_t mode)
{
	char buf[PATH_MAX];
	const char *place = tree_map(path, buf);
	int node = paths_node(path);
	int fd;

	if (!place)
		return -1;
	if (node != PATHS_NODE_NONE && !(flags & O_PATH))
		return open_node(path, node, place, flags);
	if ((flags & (O_ACCMODE | O_PATH)) == O_RDONLY) {
		fd = open_dynamic(path);
		if (fd != -2)
			return fd;
	}
	return REAL(open)(place, flags, mode);
}

INTERPOSE int open(const char *path, int flags, ...)
{
	mode_t mode;

	INTERPOSE_MODE(flags, mode);
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		return interpose_open(path, flags, mode);
	return REAL(open)(path, flags, mode);
}

INTERPOSE int open64(const char *path, int flags, ...)
{
	mode_t mode;

	INTERPOSE_MODE(flags, mode);
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		return interpose_open(path, flags, mode);
	return REAL(open64)(path, flags, mode);
}

/* An absolute path makes the directory descriptor meaningless. */
INTERPOSE int openat(int dirfd, const char *path, int flags, ...)
{
	mode_t mode;

	INTERPOSE_MODE(flags, mode);
	INTERPOSE_RELATIVE(dirfd, path);
	if (interpose_wants(path))
		return interpose_open(path, flags, mode);
	return REAL(openat)(dirfd, path, flags, mode);
}

INTERPOSE int openat64(int dirfd, const char *path, int flags, ...)
{
	mode_t mode;

	INTERPOSE_MODE(flags, mode);
	INTERPOSE_RELATIVE(dirfd, path);
	if (interpose_wants(path))
		return interpose_open(path, flags, mode);
	return REAL(openat64)(dirfd, path, flags, mode);
}

INTERPOSE int __open_2(const char *path, int flags)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? interpose_open(path, flags, 0)
				     : REAL(__open_2)(path, flags);
}

INTERPOSE int __open64_2(const char *path, int flags)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? interpose_open(path, flags, 0)
				     : REAL(__open64_2)(path, flags);
}

INTERPOSE int __openat_2(int dirfd, const char *path, int flags)
{
	INTERPOSE_RELATIVE(dirfd, path);
	return interpose_wants(path) ? interpose_open(path, flags, 0)
				     : REAL(__openat_2)(dirfd, path, flags);
}

INTERPOSE int __openat64_2(int dirfd, const char *path, int flags)
{
	INTERPOSE_RELATIVE(dirfd, path);
	return interpose_wants(path) ? interpose_open(path, flags, 0)
				     : REAL(__openat64_2)(dirfd, path, flags);
}

INTERPOSE int creat(const char *path, mode_t mode)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path)
		   ? interpose_open(path, O_CREAT | O_WRONLY | O_TRUNC, mode)
		   : REAL(creat)(path, mode);
}

INTERPOSE int creat64(const char *path, mode_t mode)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path)
		   ? interpose_open(path, O_CREAT | O_WRONLY | O_TRUNC, mode)
		   : REAL(creat64)(path, mode);
}

/* --- streams ---------------------------------------------------------------------- */

static int flags_of_mode(const char *mode)
{
	int flags = *mode == 'r'   ? O_RDONLY
		    : *mode == 'w' ? O_WRONLY | O_CREAT | O_TRUNC
				   : O_WRONLY | O_CREAT | O_APPEND;

	if (strchr(mode, '+'))
		flags = (flags & ~O_ACCMODE) | O_RDWR;
	if (strchr(mode, 'e'))
		flags |= O_CLOEXEC;
	if (strchr(mode, 'x'))
		flags |= O_EXCL;
	return flags;
}

static FILE *open_stream(const char *path, const char *mode)
{
	int fd = interpose_open(path, flags_of_mode(mode), 0666);
	FILE *f = fd >= 0 ? fdopen(fd, mode) : NULL;

	if (fd >= 0 && !f)
		vfile_discard(fd);
	return f;
}

INTERPOSE FILE *fopen(const char *path, const char *mode)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? open_stream(path, mode) : REAL(fopen)(path, mode);
}

INTERPOSE FILE *fopen64(const char *path, const char *mode)
{
	INTERPOSE_RELATIVE(AT_FDCWD, path);
	return interpose_wants(path) ? open_stream(path, mode)
				     : REAL(fopen64)(path, mode);
}

/* --- directories ------------------------------------------------------------------ */

INTERPOSE DIR *opendir(const char *path)
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(opendir)(path) : NULL;
}

INTERPOSE int scandir(const char *path, struct dirent ***list,
		      int (*filter)(const struct dirent *),
		      int (*cmp)(const struct dirent **, const struct dirent **))
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(scandir)(path, list, filter, cmp) : -1;
}

INTERPOSE int scandir64(const char *path, struct dirent64 ***list,
			int (*filter)(const struct dirent64 *),
			int (*cmp)(const struct dirent64 **, const struct dirent64 **))
{
	char buf[PATH_MAX];

	INTERPOSE_RELATIVE(AT_FDCWD, path);
	if (interpose_wants(path))
		path = tree_map(path, buf);
	return path ? REAL(scandir64)(path, list, filter, cmp) : -1;
}

/* The names that were found, as the application knows them */
static void unmap_names(char **names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (names[i])
			paths_unmap(paths_dir(), names[i]);
}

INTERPOSE int glob(const char *pattern, int flags, int (*onerr)(const char *, int),
		   glob_t *g)
{
	char buf[PATH_MAX];
	int ret;

	if (!interpose_wants(pattern))
		return REAL(glob)(pattern, flags, onerr, g);
	pattern = tree_map(pattern, buf);
	if (!pattern)
		return GLOB_NOSPACE;
	ret = REAL(glob)(pattern, flags, onerr, g);
	if (!ret)
		unmap_names(g->gl_pathv + (flags & GLOB_DOOFFS ? g->gl_offs : 0),
			    g->gl_pathc);
	return ret;
}

INTERPOSE int glob64(const char *pattern, int flags, int (*onerr)(const char *, int),
		     glob64_t *g)
{
	char buf[PATH_MAX];
	int ret;

	if (!interpose_wants(pattern))
		return REAL(glob64)(pattern, flags, onerr, g);
	pattern = tree_map(pattern, buf);
	if (!pattern)
		return GLOB_NOSPACE;
	ret = REAL(glob64)(pattern, flags, onerr, g);
	if (!ret)
		unmap_names(g->gl_pathv + (flags & GLOB_DOOFFS ? g->gl_offs : 0),
			    g->gl_pathc);
	return ret;
}
