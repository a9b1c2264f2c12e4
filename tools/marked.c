/*
 * marked.c - see marked.h.
 */
#include "tools/marked.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Has the process of this /proc entry the variable @want in its environment? */
static bool is_marked(int proc, const char *pid, const char *want)
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

void marked_each(const char *want, bool (*fn)(void *arg, pid_t pid), void *arg)
{
	DIR *proc = opendir("/proc");
	struct dirent *e;
	bool more = true;

	while (proc && more && (e = readdir(proc))) {
		pid_t pid = (pid_t)atoi(e->d_name);

		if (pid > 0 && pid != getpid() && is_marked(dirfd(proc), e->d_name, want))
			more = fn(arg, pid);
	}
	if (proc)
		closedir(proc);
}
