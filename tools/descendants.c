/*
 * descendants.c - see descendants.h.
 */
#include "tools/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_PROCESSES 4096
#define KILL_TRIES    2500 /* of 2 ms each */

/* struct entry - a process of the system */
struct entry {
	struct descendant d;
	pid_t parent;
};

/* /proc/PID/stat: pid (name) state ppid ... from field 14 on the CPU time, and that of children that have ended */
static int read_entry(int proc, const char *pid, struct entry *e)
{
	char path[40], buf[600], *name, *end;
	unsigned long own[2], waited[2]; /* user and system */
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.20s/stat", pid);
	fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return -ESRCH;
	buf[n] = '\0';
	name = strchr(buf, '(');
	end = strrchr(buf, ')');
	if (!name || !end ||
	    sscanf(end + 1, " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %lu %lu",
		   &e->d.state, &e->parent, &own[0], &own[1], &waited[0],
		   &waited[1]) != 6)
		return -EINVAL;
	e->d.pid = (pid_t)atoi(pid);
	snprintf(e->d.name, sizeof(e->d.name), "%.*s", (int)(end - name - 1), name + 1);
	e->d.cpu = (own[0] + own[1] + waited[0] + waited[1]) *
		   (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
	return 0;
}

static size_t read_all(struct entry *list, size_t max)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	size_t n = 0;

	while (proc && n < max && (e = readdir(proc)))
		if (*e->d_name >= '1' && *e->d_name <= '9' &&
		    !read_entry(dirfd(proc), e->d_name, &list[n]))
			n++;
	if (proc)
		closedir(proc);
	return n;
}

/* Is @pid below @root? By its parents, of which there are not more than processes */
static int is_below(const struct entry *list, size_t n, pid_t pid, pid_t root)
{
	for (size_t depth = 0; depth < n; depth++) {
		size_t i = 0;

		while (i < n && list[i].d.pid != pid)
			i++;
		if (i == n)
			return 0;
		pid = list[i].parent;
		if (pid == root)
			return 1;
	}
	return 0;
}

size_t descendants_of(pid_t root, struct descendant *list, size_t max)
{
	struct entry *all = calloc(MAX_PROCESSES, sizeof(*all));
	size_t n = all ? read_all(all, MAX_PROCESSES) : 0, found = 0;

	for (size_t i = 0; i < n && found < max; i++)
		if (all[i].d.state != 'Z' && all[i].d.state != 'X' &&
		    is_below(all, n, all[i].d.pid, root))
			list[found++] = all[i].d;
	free(all);
	return found;
}

/* The state of a thread, of /proc/PID/task/TID/stat */
static char thread_state(int tasks, const char *tid)
{
	char path[40], buf[400], *end;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.20s/stat", tid);
	fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	buf[n > 0 ? n : 0] = '\0';
	end = strrchr(buf, ')');
	return end && end[1] ? end[2] : '?';
}

size_t descendant_threads(pid_t pid)
{
	struct dirent *e;
	char path[40];
	size_t n = 0;
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	while (tasks && (e = readdir(tasks)))
		if (*e->d_name != '.') {
			char state = thread_state(dirfd(tasks), e->d_name);

			n += state == 'R' || state == 'D';
		}
	if (tasks)
		closedir(tasks);
	return n;
}

/* Children that have ended; the status of @child goes to *@status */
static void reap_all(pid_t child, int *status)
{
	pid_t pid;
	int st;

	while ((pid = waitpid(-1, &st, WNOHANG)) > 0)
		if (pid == child)
			*status = st;
}

void descendants_kill(pid_t child, int *status)
{
	const struct timespec pause = {.tv_nsec = 2000000};
	struct descendant list[64];
	size_t n = 1;

	for (int i = 0; i < KILL_TRIES && n; i++) {
		n = descendants_of(getpid(), list, 64);
		for (size_t k = 0; k < n; k++)
			kill(list[k].pid, SIGKILL);
		if (n)
			nanosleep(&pause, NULL);
		reap_all(child, status);
	}
}
