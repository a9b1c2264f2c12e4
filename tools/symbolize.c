/*
 * symbolize.c - function and line of a return address, by addr2line(1) of binutils, which every
 * compiler comes with. Without it, or without debugging information, file and offset.
 */
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/sweep.h"

extern char **environ;

/* What a program that is not position-independent adds to offsets: where it begins */
static uint64_t base_of(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t least = UINT64_MAX;
	Elf64_Ehdr h;
	Elf64_Phdr p;

	if (fd < 0 || pread(fd, &h, sizeof(h), 0) != sizeof(h) ||
	    memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_type != ET_EXEC)
		least = 0;
	for (unsigned int i = 0; least && i < h.e_phnum; i++)
		if (pread(fd, &p, sizeof(p), (off_t)(h.e_phoff + i * sizeof(p))) ==
			sizeof(p) &&
		    p.p_type == PT_LOAD && p.p_vaddr < least)
			least = p.p_vaddr;
	if (fd >= 0)
		close(fd);
	return least == UINT64_MAX ? 0 : least;
}

/* Two lines for each function that was inlined there, the innermost first: function, file:line */
static bool ask(const char *path, const char *address, char *buf, size_t size)
{
	char *argv[] = {"addr2line",	 "-i", "-f", "-C", "-e", (char *)path,
			(char *)address, NULL};
	posix_spawn_file_actions_t actions;
	size_t n = 0;
	ssize_t got;
	int fds[2], err;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return false;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY,
					 0);
	err = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	while (!err && n < size - 1 && (got = read(fds[0], buf + n, size - 1 - n)) > 0)
		n += (size_t)got;
	buf[n] = '\0';
	close(fds[0]);
	if (!err)
		waitpid(pid, NULL, 0);
	return n && buf[0] != '?';
}

/* Functions of verbs that headers have, which the program did not write */
static bool is_wrapper(const char *function)
{
	return !strcmp(function, "_start") || !strncmp(function, "ibv_", 4) ||
	       !strncmp(function, "rdma_", 5) || !strncmp(function, "__ibv_", 6) ||
	       !strncmp(function, "___ibv_", 7);
}

bool symbolize(const char *module, uint64_t offset, char *text, size_t size)
{
	const char *name = strrchr(module, '/') ? strrchr(module, '/') + 1 : module;
	char address[32], buf[2048], *function, *line, *slash, *save = NULL;

	/* the call is before the address to which it returns */
	snprintf(address, sizeof(address), "0x%" PRIx64, base_of(module) + offset - 1);
	if (!ask(module, address, buf, sizeof(buf))) {
		snprintf(text, size, "%.60s+0x%" PRIx64, name, offset);
		return true;
	}
	function = strtok_r(buf, "\n", &save);
	line = strtok_r(NULL, "\n", &save);
	while (function && line && is_wrapper(function)) {
		function = strtok_r(NULL, "\n", &save);
		line = strtok_r(NULL, "\n", &save);
	}
	if (!function || !line)
		return false;
	line[strcspn(line, " (")] = '\0';
	slash = strrchr(line, '/');
	if (*line == '?')
		snprintf(text, size, "%.100s() of %.60s", function, name);
	else
		snprintf(text, size, "%.100s() (%.100s)", function,
			 slash ? slash + 1 : line);
	return true;
}
