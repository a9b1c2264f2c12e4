/*
 * session.c - the private directory of a run: where it is, its beginning and its end.
 *
 * It lies where the user may have directories of any name, and is removed by later runs
 * when this one was killed. So a session is recognised by what it cannot have by chance
 * (session_check()), and is removed file by file, by the names that a session's files
 * have.
 */
#include <dirent.h>
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject/points.h"
#include "tools/marked.h"
#include "tools/segments.h"
#include "tools/tools.h"
#include "tools/will_watch.h"
#include "verbs/host/tree.h"
#include "verbs/host/unopened.h"
#include "verbs/ucma/will.h"
#include "verbs/ucma/will_file.h"

#define LINGER_MAX 64 /* processes that are waited for at a time */
#define MARK	   ".session"
/* Until a session that another process makes is whole */
#define AWAIT_TRIES 200
#define AWAIT_MS    10
/* What a place should have room for: the tree of a device, and records of some processes */
#define DEVICE_BYTES (900u << 10)
#define RECORD_BYTES (8u << 20)

/* --- what proves that a directory is a session's ---------------------------------- */

/*
 * The text of the mark: a copy, or a directory that was given the name, has another name
 * or inode.
 */
static void mark_text(const char *name, const struct stat *st, char *text, size_t size)
{
	snprintf(text, size, "urxe session 1 %s %llu", name,
		 (unsigned long long)st->st_ino);
}

/*
 * The mark is a symbolic link that leads nowhere: it is there whole or not at all, keeps
 * its mode under any umask, and its text under any limit of file sizes.
 */
static int set_mark(int dir, const char *name)
{
	char text[128];
	struct stat st;

	if (fstat(dir, &st))
		return -errno;
	mark_text(name, &st, text, sizeof(text));
	return symlinkat(text, dir, MARK) ? -errno : 0;
}

static bool is_session_name(const char *name)
{
	return strlen(name) == strlen(SESSION_PREFIX "XXXXXX") &&
	       !strncmp(name, SESSION_PREFIX, strlen(SESSION_PREFIX));
}

bool session_check(int dir, const char *name)
{
	char want[128], is[128];
	struct stat st, mark;
	ssize_t n;

	if (!is_session_name(name) || fstat(dir, &st) || !S_ISDIR(st.st_mode) ||
	    (st.st_mode & 077) || fstatat(dir, MARK, &mark, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISLNK(mark.st_mode) || mark.st_uid != st.st_uid)
		return false;
	mark_text(name, &st, want, sizeof(want));
	n = readlinkat(dir, MARK, is, sizeof(is));
	return n == (ssize_t)strlen(want) && !memcmp(is, want, (size_t)n);
}

/* --- the beginning ---------------------------------------------------------------- */

/* A directory that somebody else owns is no place for ours unless it is sticky. */
static bool is_trusted(const char *parent)
{
	struct stat st;

	return stat(parent, &st) == 0 && S_ISDIR(st.st_mode) &&
	       (st.st_mode & S_ISVTX || (st.st_uid == geteuid() && !(st.st_mode & 022)));
}

/* The new, empty directory s->dir becomes a session, or goes */
static int furnish(struct session *s)
{
	char stat_dir[sizeof(s->dir) + 8];
	int ret = 0;

	/* The mark comes behind the lock: who sees it can tell whether we live. */
	snprintf(stat_dir, sizeof(stat_dir), "%s/stat", s->dir);
	s->lock = open(s->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->lock < 0 || flock(s->lock, LOCK_EX) || mkdir(stat_dir, 0700))
		ret = -errno;
	if (!ret)
		ret = set_mark(s->lock, strrchr(s->dir, '/') + 1);
	if (ret) {
		rmdir(stat_dir);
		rmdir(s->dir);
		if (s->lock >= 0)
			close(s->lock);
	}
	return ret;
}

static int make_in(struct session *s, const char *parent)
{
	int n = snprintf(s->dir, sizeof(s->dir), "%s/" SESSION_PREFIX "XXXXXX", parent);

	/* sockets below it need short names, LD_PRELOAD no colons or spaces */
	if (n > 80 || *parent != '/' || strpbrk(parent, ": "))
		return -EINVAL;
	if (!is_trusted(parent))
		return -EPERM;
	return mkdtemp(s->dir) ? furnish(s) : -errno;
}

/* Is this place one of those before it? */
static bool is_named_before(const char *const *parents, const char *place)
{
	for (; *parents; parents++)
		if (!strcmp(*parents, place))
			return true;
	return false;
}

/* Memory file systems first: the tree has some hundred files. */
const char *const *session_parents(void)
{
	static const char *parents[SESSION_PARENTS + 1];
	static char own[40];
	const char *all[SESSION_PARENTS] = {
	    getenv("XDG_RUNTIME_DIR"), "/dev/shm", own,
	    getenv("TMPDIR"),	       "/tmp",	   "/var/tmp"};
	size_t n = 0;

	snprintf(own, sizeof(own), "/run/user/%u", (unsigned int)geteuid());
	memset(parents, 0, sizeof(parents));
	for (size_t i = 0; i < SESSION_PARENTS; i++)
		if (all[i] && *all[i] && !is_named_before(parents, all[i]))
			parents[n++] = all[i];
	return parents;
}

uint64_t session_room(const char *parent)
{
	const uint64_t inode = 4096; /* each file takes a page at least */
	uint64_t bytes, files;
	struct statvfs st;

	if (statvfs(parent, &st))
		return 0;
	bytes = st.f_blocks ? (uint64_t)st.f_bavail * st.f_frsize : UINT64_MAX;
	files = st.f_files ? (uint64_t)st.f_favail * inode : UINT64_MAX;
	return bytes < files ? bytes : files;
}

/* The line behind "no place for the files of this run": what is wrong with each */
static void tell_no_place(const char *why)
{
	usage_error("there is no place for the files of this run: %s; set "
		    "XDG_RUNTIME_DIR or TMPDIR to a directory of your own with more",
		    why);
}

/* In the first place that has @room. Else -errno, and in @why a word on each */
static int make_where_room(struct session *s, uint64_t room, char *why, size_t size)
{
	int ret = -ENOENT;
	size_t n = 0;

	for (const char *const *p = session_parents(); *p; p++) {
		uint64_t has = session_room(*p);
		char text[80];

		if (access(*p, F_OK))
			continue;
		ret = has < room ? -ENOSPC : make_in(s, *p);
		if (!ret)
			return 0;
		if (has < room && access(*p, W_OK | X_OK) == 0)
			snprintf(text, sizeof(text), "has %" PRIu64 " of %" PRIu64 " KiB",
				 has >> 10, room >> 10);
		else
			snprintf(text, sizeof(text), "%s",
				 strerror(has < room ? errno : -ret));
		if (n < size)
			n += (size_t)snprintf(why + n, size - n, "%s%.100s %s",
					      n ? ", " : "", *p, text);
	}
	if (!n)
		snprintf(why, size, "neither /dev/shm nor /tmp is there");
	return ret;
}

/*
 * With room for what programs record beside the tree; if no place has that, they record
 * into memory of their own.
 */
static int make_somewhere(struct session *s, unsigned int n_devices)
{
	const uint64_t tree = (uint64_t)n_devices * DEVICE_BYTES;
	char why[600];
	int ret = make_where_room(s, tree + RECORD_BYTES, why, sizeof(why));

	if (ret)
		ret = make_where_room(s, tree, why, sizeof(why));
	if (ret)
		tell_no_place(why);
	return ret;
}

/* --- who is in it ----------------------------------------------------------------- */

/* struct users - pidfds of processes */
struct users {
	struct pollfd *fds;
	int n;
};

static bool add_user(void *arg, pid_t pid)
{
	struct users *u = arg;
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd >= 0)
		u->fds[u->n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	return u->n < LINGER_MAX;
}

/* pidfds of the processes of the session; how many */
static int find_users(const struct session *s, struct pollfd *fds)
{
	char want[sizeof(s->dir) + 16];
	struct users u = {.fds = fds};

	snprintf(want, sizeof(want), "URXE_DIR=%s", s->dir);
	marked_each(want, add_user, &u);
	return u.n;
}

static bool session_in_use(const struct session *s)
{
	struct pollfd fds[LINGER_MAX];
	int n = find_users(s, fds);

	for (int i = 0; i < n; i++)
		close(fds[i].fd);
	return n > 0;
}

/* --- the end ---------------------------------------------------------------------- */

static bool is_numbered(const char *name, const char *prefix)
{
	size_t n = strlen(prefix);

	return !strncmp(name, prefix, n) && name[n] &&
	       !name[n + strspn(name + n, "0123456789")];
}

/* The directory @name with what processes write there, in files that are called as numbers */
static void remove_numbered(int dir, const char *name)
{
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (is_numbered(e->d_name, "") || is_numbered(e->d_name, "."))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
	unlinkat(dir, name, AT_REMOVEDIR);
}

/*
 * Remove wills, also those that nobody executed. What else is there? Most sessions have
 * had no program that looked for a device.
 */
static void remove_wills(int dir, bool *others)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (is_numbered(e->d_name, WILL_PREFIX) ||
		    is_numbered(e->d_name, "check.") ||
		    is_numbered(e->d_name, UNOPENED_PREFIX) ||
		    is_numbered(e->d_name, "." WILL_PREFIX))
			unlinkat(dir, e->d_name, 0);
		else if (*e->d_name != '.' && strcmp(e->d_name, "stat") != 0 &&
			 strcmp(e->d_name, POINTS_DIR) != 0)
			*others = true;
	}
	if (d)
		closedir(d);
}

/*
 * All that a session has, by name. What somebody else put there stays, and with it the
 * directory, which without the mark is nobody's business any more.
 */
bool session_remove(const struct session *s)
{
	bool others = false;

	fchmod(s->lock, 0700); /* whatever the program has made of it */
	will_execute(s->dir);
	remove_wills(s->lock, &others);
	if (others) {
		tree_remove(s->lock);
		unlinkat(s->lock, SESSION_LIBRARY, 0);
		unlinkat(s->lock, CHECK_LIBRARY, 0);
	}
	remove_numbered(s->lock, "stat");
	remove_numbered(s->lock, POINTS_DIR);
	unlinkat(s->lock, WILL_BELL, 0);
	unlinkat(s->lock, MARK, 0);
	return rmdir(s->dir) == 0 || errno != ENOTEMPTY;
}

/*
 * The directory @name of @parent opened, if it is ours by its owner; -1 if not. One that a
 * program has closed to everybody is opened again, @mode is what it was.
 */
static int open_own(int parent, const char *name, mode_t *mode)
{
	int at = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char path[40];
	struct stat st;
	int fd = -1;

	if (at < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", at);
	if (fstat(at, &st) == 0 && st.st_uid == geteuid()) {
		*mode = st.st_mode & 07777;
		if ((*mode & 0700) == 0700 || chmod(path, *mode | 0700) == 0)
			fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	close(at);
	return fd;
}

/* Remove the session @name if it is proved to be one and nobody is in it any more. */
static void remove_if_stale(int parent, const char *path, const char *name)
{
	struct session s;
	mode_t mode = 0;

	if (snprintf(s.dir, sizeof(s.dir), "%s/%s", path, name) >= (int)sizeof(s.dir))
		return;
	s.lock = open_own(parent, name, &mode);
	if (s.lock < 0)
		return;
	if (session_check(s.lock, name) && flock(s.lock, LOCK_EX | LOCK_NB) == 0 &&
	    session_check(s.lock, name) && !session_in_use(&s))
		session_remove(&s);
	else if ((mode & 0700) != 0700)
		fchmod(s.lock, mode);
	close(s.lock);
}

/* What runs left behind that were killed by SIGKILL: nobody holds the lock. */
static void remove_stale(const char *parent)
{
	DIR *d = opendir(parent);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (is_session_name(e->d_name))
			remove_if_stale(dirfd(d), parent, e->d_name);
	if (d)
		closedir(d);
}

int session_create(struct session *s, const char *place, unsigned int n_devices)
{
	mode_t umask_was = umask(077);
	int ret = place ? make_in(s, place) : make_somewhere(s, n_devices);
	char parent[sizeof(s->dir)];

	if (!ret) {
		strcpy(parent, s->dir);
		*strrchr(parent, '/') = '\0';
		remove_stale(parent);
	}
	umask(umask_was);
	return ret;
}

/* Somebody else is making it: until it is whole. -EEXIST, or -EBUSY if that takes too long */
static int await(const char *dir)
{
	for (int i = 0; i < AWAIT_TRIES; i++) {
		int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		bool whole = fd >= 0 && session_check(fd, strrchr(dir, '/') + 1);

		if (fd >= 0)
			close(fd);
		if (whole)
			return -EEXIST;
		poll(NULL, 0, AWAIT_MS);
	}
	return -EBUSY;
}

int session_create_named(struct session *s, const char *dir)
{
	char parent[sizeof(s->dir)];
	int n = snprintf(s->dir, sizeof(s->dir), "%s", dir);
	char *name = strrchr(s->dir, '/');
	mode_t umask_was;
	int ret;

	if (n >= (int)sizeof(s->dir) || *dir != '/' || !is_session_name(name + 1))
		return -EINVAL;
	snprintf(parent, sizeof(parent), "%.*s", (int)(name - s->dir), dir);
	if (access(parent, F_OK))
		return -errno;
	if (!is_trusted(parent))
		return -EPERM;
	umask_was = umask(077);
	if (mkdir(s->dir, 0700) == 0)
		ret = furnish(s);
	else
		ret = errno == EEXIST ? await(s->dir) : -errno;
	if (!ret)
		remove_stale(parent);
	umask(umask_was);
	return ret;
}

/* --- descendants that outlive the program ----------------------------------------- */

static void on_end(evutil_socket_t fd, short what, void *arg)
{
	unsigned int *left = arg;

	(*left)--;
}

/* Until all have ended; @fds are closed */
static void wait_for(struct event_base *base, const struct pollfd *fds, int n)
{
	unsigned int left = 0;

	for (int i = 0; i < n; i++)
		left += !event_base_once(base, fds[i].fd, EV_READ, on_end, &left, NULL);
	while (left && event_base_loop(base, EVLOOP_ONCE) == 0)
		;
	for (int i = 0; i < n; i++)
		close(fds[i].fd);
}

static void linger(const struct session *s)
{
	struct event_base *base = event_base_new();
	struct will_watch *wills = base ? will_watch_start(base, s->dir) : NULL;
	const char *stats = getenv("URXE_STATS");
	struct pollfd fds[LINGER_MAX];
	int n;

	while (wills && (n = find_users(s, fds)) > 0)
		wait_for(base, fds, n);
	will_watch_stop(wills);
	/* what it says on stderr is for nobody; a file is for whoever reads it */
	segments_report(s->dir, stats && !strncmp(stats, "json:", 5) ? stats : "");
	session_remove(s);
}

void session_linger(const struct session *s)
{
	pid_t pid = fork();
	sigset_t none;

	if (pid)
		return;
	/* Nobody must wait for this process because of a pipe or a terminal. */
	unsetenv("URXE_DIR");
	setsid();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (chdir("/"))
		_exit(1);
	/* all but the lock */
	close_range(0, (unsigned int)s->lock - 1, 0);
	close_range((unsigned int)s->lock + 1, ~0u, 0);
	/* so that no file of ours takes their places */
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (open("/dev/null", O_RDWR) < 0)
			_exit(1);
	linger(s);
	_exit(0);
}
