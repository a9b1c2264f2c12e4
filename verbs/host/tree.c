/*
 * tree.c - the generated tree of a session: made when the first program looks.
 *
 * Theory of operation
 *
 * The first process that meets a path of ours while DIR/sys is not there writes the tree
 * into a directory of its own below DIR and renames its two halves into place, dev first.
 * Several may do so at once: a rename onto a directory with files in it fails, so the
 * first one wins, and what the others wrote stays unused until the session is removed. So
 * there is no lock that a killed process could keep.
 */
#include "verbs/host/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/host/elsewhere.h"
#include "verbs/host/netdev.h"
#include "verbs/host/paths.h"
#include "verbs/host/reason.h"
#include "verbs/host/sysfs.h"
#include "verbs/host/unopened.h"

#define NEW "new-XXXXXX"

int tree_devices(struct options *o)
{
	char names[OPTIONS_MAX_DEVICES][IF_NAMESIZE];
	int n;

	if (o->n_devices)
		return 0;
	n = netdev_list(names, OPTIONS_MAX_DEVICES);
	if (n < 0)
		return n;
	if (n > OPTIONS_MAX_DEVICES)
		n = OPTIONS_MAX_DEVICES;
	for (int i = 0; i < n; i++) {
		snprintf(o->device[i].name, sizeof(o->device[i].name), "rxe%d", i);
		memcpy(o->device[i].ifname, names[i], sizeof(o->device[i].ifname));
	}
	o->n_devices = (unsigned int)n;
	return 0;
}

/* 0, or -errno with a line in @err */
static int read_devices(struct options *o, struct sysfs_device *devs, struct profile *p,
			char *err, size_t errlen)
{
	int ret = options_from_env(o, err, errlen);

	if (!ret)
		ret = profile_load(o->profile, p, err, errlen);
	if (ret)
		return ret;
	ret = tree_devices(o);
	for (unsigned int i = 0; !ret && i < o->n_devices; i++)
		ret = sysfs_device_init(&devs[i], o->device[i].name, o->device[i].ifname);
	for (unsigned int i = 0; i < o->n_devices; i++)
		devs[i].profile = p;
	if (ret)
		snprintf(err, errlen, "cannot read the network interfaces: %s",
			 strerror(-ret));
	return ret;
}

static int put_in_place(const char *from, const char *dir, const char *half, char *err,
			size_t errlen)
{
	char old[PATH_MAX], new[PATH_MAX];

	if (snprintf(old, sizeof(old), "%s/%s", from, half) >= (int)sizeof(old) ||
	    snprintf(new, sizeof(new), "%s/%s", dir, half) >= (int)sizeof(new)) {
		snprintf(err, errlen, "%.300s: %s", dir, strerror(ENAMETOOLONG));
		return -ENAMETOOLONG;
	}
	if (rename(old, new) == 0 || errno == ENOTEMPTY || errno == EEXIST)
		return 0;
	snprintf(err, errlen, "%.300s: %s", new, strerror(errno));
	return -errno;
}

static int write_tree(const char *dir, const struct sysfs_device *devs, unsigned int n,
		      char *err, size_t errlen)
{
	char tmp[PATH_MAX];
	int ret;

	if (snprintf(tmp, sizeof(tmp), "%s/" NEW, dir) >= (int)sizeof(tmp) ||
	    !mkdtemp(tmp) || chmod(tmp, 0700)) { /* the umask may be anything */
		snprintf(err, errlen, "%.300s: %s%s", dir, strerror(errno),
			 reason_hint(errno));
		return -errno;
	}
	ret = sysfs_write_tree(tmp, devs, n, err, errlen);
	if (!ret)
		ret = put_in_place(tmp, dir, "dev", err, errlen);
	if (!ret)
		ret = put_in_place(tmp, dir, "sys", err, errlen);
	rmdir(tmp);
	return ret;
}

static bool is_there(const char *dir)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/sys", dir);
	return access(path, F_OK) == 0;
}

/* struct work - too much for the stack of a thread of the application */
struct work {
	struct options o;
	struct sysfs_device devs[OPTIONS_MAX_DEVICES];
	struct profile profile;
	char err[512];
};

static void make_tree(void)
{
	const char *dir = paths_dir();
	struct work *w;
	int ret;

	if (!elsewhere_session(dir))
		return;
	unopened_leave(dir, true);
	if (is_there(dir))
		return;
	w = calloc(1, sizeof(*w));
	if (!w) {
		fprintf(stderr, "urxe: cannot show the devices: %s\n", strerror(errno));
		return;
	}
	options_default(&w->o);
	ret = read_devices(&w->o, w->devs, &w->profile, w->err, sizeof(w->err));
	if (!ret)
		ret = write_tree(dir, w->devs, w->o.n_devices, w->err, sizeof(w->err));
	if (ret)
		fprintf(stderr, "urxe: %s\n", w->err);
	free(w);
}

const char *tree_map(const char *path, char buf[PATH_MAX])
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	const char *dir = paths_dir();
	int saved = errno;

	if (!dir || !paths_is_ours(path))
		return path;
	pthread_once(&once, make_tree);
	errno = saved;
	return paths_map(dir, path, buf);
}

/* --- removal ---------------------------------------------------------------------- */

static bool is_new(const char *name)
{
	return strlen(name) == strlen(NEW) && !strncmp(name, NEW, strcspn(NEW, "X"));
}

/* A tree that is not in place, or never came there */
static void remove_new(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0) {
		sysfs_remove_tree(fd);
		close(fd);
	}
	unlinkat(dir, name, AT_REMOVEDIR);
}

void tree_remove(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (is_new(e->d_name))
			remove_new(dir, e->d_name);
	if (d)
		closedir(d);
	if (faccessat(dir, "dev", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		sysfs_remove_tree(dir);
}
