/*
 * nldev_look.c - what there is to be told: the devices of this run, and the objects of the processes of
 * the user's runs.
 *
 * Each process shows its objects in a segment of its session's directory, as `urxe stat` reads them.
 * Looked at are this run and those beside it, so that a query from another terminal finds what runs. Only
 * directories and regular files of the same user are opened, and what is in them is the writers' word.
 * Counts on nothing that a process that died has left.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/reader.h"
#include "verbs/host/netdev.h"
#include "verbs/host/options.h"
#include "verbs/host/paths.h"
#include "verbs/host/sysfs.h"
#include "verbs/host/tree.h"
#include "verbs/netlink/nldev.h"

#define SESSION "urxe-session."

/* --- devices ---------------------------------------------------------------------- */

static int take_device(struct nldev_world *w, const struct options *o, unsigned int i,
		       const struct profile *p)
{
	struct nldev_device *d = &w->device[i];
	struct netdev_info info;
	int ret = netdev_read(o->device[i].ifname, &info);

	if (ret)
		return ret;
	memcpy(d->name, o->device[i].name, sizeof(d->name));
	memcpy(d->ifname, o->device[i].ifname, sizeof(d->ifname));
	if (strcmp(p->limits.fw_ver, EMU_FW_VER_RXE) != 0)
		memcpy(d->fw_ver, p->limits.fw_ver, sizeof(d->fw_ver));
	d->ifindex = info.ifindex;
	d->guid_be = netdev_guid_be(d->ifname, &info);
	d->up = info.exists && info.up;
	w->n_devices = i + 1;
	return 0;
}

static int take_devices(struct nldev_world *w)
{
	struct options *o = calloc(1, sizeof(*o));
	struct profile p;
	char err[400];
	int ret;

	if (!o)
		return -ENOMEM;
	options_default(o);
	ret = options_from_env(o, err, sizeof(err));
	if (!ret)
		ret = profile_load(o->profile, &p, err, sizeof(err));
	if (!ret)
		ret = tree_devices(o);
	for (unsigned int i = 0; !ret && i < o->n_devices && i < NLDEV_MAX_DEVICES; i++)
		ret = take_device(w, o, i, &p);
	free(o);
	return ret;
}

/* --- objects ---------------------------------------------------------------------- */

static bool add_object(struct nldev_world *w, int32_t pid, uint32_t device,
		       const struct trace_object *o)
{
	if (w->n_objects == w->room) {
		size_t room = 2 * w->room + 64;
		struct nldev_object *p = realloc(w->object, room * sizeof(*p));

		if (!p)
			return false;
		w->object = p;
		w->room = room;
	}
	w->object[w->n_objects].pid = pid;
	w->object[w->n_objects].device = device;
	memcpy(&w->object[w->n_objects++].o, o, sizeof(*o));
	return true;
}

/* Which of the devices here is the one that a process has under the index @of? */
static uint32_t device_of(const struct nldev_world *w, const struct trace_reader *t,
			  uint32_t of)
{
	const struct trace_object *d = trace_find(t, TRACE_OBJ_DEVICE, of);

	for (uint32_t i = 0; d && i < w->n_devices; i++)
		if (!strncmp(d->name, w->device[i].name, sizeof(w->device[i].name)) &&
		    !strncmp(d->dev.ifname, w->device[i].ifname, sizeof(d->dev.ifname)))
			return i;
	return UINT32_MAX;
}

static int take_process(struct nldev_world *w, const struct trace_reader *t)
{
	const struct trace_info *info = trace_info(t);

	if (info->end != TRACE_RUNNING || (kill(info->pid, 0) && errno == ESRCH))
		return 0;
	for (size_t i = 0; i < trace_object_count(t); i++) {
		const struct trace_object *o = trace_object(t, i);
		uint32_t device = o->gone ? UINT32_MAX : device_of(w, t, o->device);

		if (device == UINT32_MAX)
			continue;
		if (o->kind == TRACE_OBJ_DEVICE)
			for (size_t c = 0; c < TRACE_N_HW; c++)
				w->device[device].counter[c] += o->dev.counter[c];
		if (!add_object(w, info->pid, device, o))
			return -ENOMEM;
	}
	return 0;
}

/* --- segments --------------------------------------------------------------------- */

static int open_owned(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 &&
	    (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid())) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int take_segment(struct nldev_world *w, int dir, const char *name)
{
	int fd = open_owned(dir, name), ret = 0;
	char elsewhere[PATH_MAX] = "";
	struct trace_reader *t;

	if (fd < 0)
		return 0;
	if (!trace_open_fd(fd, 0, NULL, 0, &t)) {
		snprintf(elsewhere, sizeof(elsewhere), "%s", trace_info(t)->elsewhere);
		if (!*elsewhere)
			ret = take_process(w, t);
		trace_close(t);
	}
	close(fd);
	/* a full trace, which does not lead on */
	fd = *elsewhere ? open_owned(AT_FDCWD, elsewhere) : -1;
	if (fd >= 0 && !trace_open_fd(fd, 0, NULL, 0, &t)) {
		ret = take_process(w, t);
		trace_close(t);
	}
	if (fd >= 0)
		close(fd);
	return ret;
}

/* The processes of the session in the directory @name of @parent */
static int take_session(struct nldev_world *w, int parent, const char *name)
{
	int at = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct dirent *e;
	struct stat st;
	int fd = -1, ret = 0;
	DIR *d;

	if (at >= 0 && fstat(at, &st) == 0 && st.st_uid == geteuid())
		fd = openat(at, "stat", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (at >= 0)
		close(at);
	d = fd < 0 ? NULL : fdopendir(fd);
	while (!ret && d && (e = readdir(d)))
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9')
			ret = take_segment(w, dirfd(d), e->d_name);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	return ret;
}

static int take_sessions(struct nldev_world *w)
{
	char parent[PATH_MAX], *slash;
	struct dirent *e;
	int ret = 0;
	DIR *d;

	snprintf(parent, sizeof(parent), "%s", paths_dir() ? paths_dir() : "");
	slash = strrchr(parent, '/');
	if (!slash)
		return 0;
	*slash = '\0';
	/* where this run's directory is called otherwise, it is alone */
	if (strncmp(slash + 1, SESSION, strlen(SESSION)) != 0)
		return take_session(w, AT_FDCWD, paths_dir());
	d = opendir(*parent ? parent : "/");
	while (!ret && d && (e = readdir(d)))
		if (!strncmp(e->d_name, SESSION, strlen(SESSION)))
			ret = take_session(w, dirfd(d), e->d_name);
	if (d)
		closedir(d);
	return ret;
}

int nldev_look(struct nldev_world *w)
{
	int ret;

	memset(w, 0, sizeof(*w));
	ret = take_devices(w);
	return ret ? ret : take_sessions(w);
}

void nldev_forget(struct nldev_world *w)
{
	free(w->object);
	w->object = NULL;
	w->n_objects = w->room = 0;
}
