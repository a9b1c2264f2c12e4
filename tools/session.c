/*
 * session.c - the private directory of a run: where it is, its beginning and its end.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/tools.h"
#include "verbs/ucma/will.h"

#define NAME	      "urxe-XXXXXX"
#define STALE_SECONDS 60
#define LINGER_MAX    64 /* processes that are waited for at a time */

static int make_in(struct session *s, const char *parent)
{
	int n = snprintf(s->dir, sizeof(s->dir), "%s/" NAME, parent);

	/* sockets below it need short names, LD_PRELOAD no colons or spaces */
	if (n > 80 || *parent != '/' || strpbrk(parent, ": "))
		return -EINVAL;
	return mkdtemp(s->dir) ? 0 : -errno;
}

/* Memory file systems first: the tree has some hundred files. */
const char *const *session_parents(void)
{
	static const char *parents[SESSION_PARENTS] = {NULL, "/dev/shm", "/tmp"};

	parents[0] = getenv("XDG_RUNTIME_DIR");
	return parents;
}

static int make_somewhere(struct session *s)
{
	const char *const *parents = session_parents();
	int err = -ENOENT;

	for (size_t i = 0; i < SESSION_PARENTS; i++) {
		if (!parents[i])
			continue;
		err = make_in(s, parents[i]);
		if (!err)
			return 0;
	}
	usage_error("cannot make a directory in /tmp: %s", strerror(-err));
	return err;
}

/* Remove what is in the directory @fd, which is closed. */
static void empty(int fd)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		int sub;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (unlinkat(fd, e->d_name, 0) == 0 || errno != EISDIR)
			continue;
		sub = openat(fd, e->d_name,
			     O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (sub >= 0)
			empty(sub);
		unlinkat(fd, e->d_name, AT_REMOVEDIR);
	}
	if (d)
		closedir(d);
}

void session_remove(const struct session *s)
{
	will_execute(s->dir);
	empty(s->lock);
	rmdir(s->dir);
}

/*
 * What a run left behind that was killed by SIGKILL: nobody holds the lock. A directory
 * that is so new may not be locked yet.
 */
static void remove_stale(const char *parent)
{
	DIR *d = opendir(parent);
	time_t old = time(NULL) - STALE_SECONDS;
	struct session s;
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, "urxe-", 5) || strlen(e->d_name) != strlen(NAME))
			continue;
		if (snprintf(s.dir, sizeof(s.dir), "%s/%s", parent, e->d_name) >=
		    (int)sizeof(s.dir))
			continue;
		s.lock = open(s.dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (s.lock < 0)
			continue;
		if (fstat(s.lock, &st) == 0 && st.st_uid == geteuid() &&
		    st.st_mtime < old && flock(s.lock, LOCK_EX | LOCK_NB) == 0)
			session_remove(&s);
		else
			close(s.lock);
	}
	if (d)
		closedir(d);
}

int session_create(struct session *s)
{
	char path[sizeof(s->dir) + 8];
	int err = make_somewhere(s);

	if (err)
		return err;
	s->lock = open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%s/stat", s->dir);
	if (s->lock < 0 || flock(s->lock, LOCK_EX) || mkdir(path, 0700)) {
		err = -errno;
		usage_error("%s: %s", s->dir, strerror(errno));
		return err;
	}
	*strrchr(path, '/') = '\0';
	*strrchr(path, '/') = '\0';
	remove_stale(path);
	return 0;
}

/* --- descendants that outlive the program ----------------------------------------- */

/* Has the process of this /proc entry the variable @want in its environment? */
static bool has_variable(int proc, const char *pid, const char *want)
{
	char path[300], *line = NULL;
	size_t size = 0;
	bool found = false;
	FILE *f;
	int fd;

	snprintf(path, sizeof(path), "%s/environ", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	while (f && !found && getdelim(&line, &size, '\0', f) > 0)
		found = !strcmp(line, want);
	free(line);
	if (f)
		fclose(f);
	return found;
}

/* pidfds of the processes of the session; how many */
static int find_users(const char *want, struct pollfd *fds)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	int n = 0;

	while (proc && n < LINGER_MAX && (e = readdir(proc))) {
		pid_t pid = (pid_t)atoi(e->d_name);
		int fd;

		if (pid <= 0 || pid == getpid() ||
		    !has_variable(dirfd(proc), e->d_name, want))
			continue;
		fd = (int)syscall(SYS_pidfd_open, pid, 0);
		if (fd >= 0)
			fds[n++] = (struct pollfd){.fd = fd, .events = POLLIN};
	}
	if (proc)
		closedir(proc);
	return n;
}

static void linger(const struct session *s)
{
	struct pollfd fds[LINGER_MAX];
	char want[sizeof(s->dir) + 16];
	int n;

	snprintf(want, sizeof(want), "URXE_DIR=%s", s->dir);
	while ((n = find_users(want, fds)) > 0) {
		/* One at a time: a process that has ended stays readable. */
		for (int i = 0; i < n; i++) {
			while (poll(&fds[i], 1, WILL_MS) <= 0)
				will_execute(s->dir);
			close(fds[i].fd);
		}
	}
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
	linger(s);
	_exit(0);
}
