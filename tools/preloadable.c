/*
 * preloadable.c - can the preload library get into a program?
 *
 * Into a statically linked one it cannot, since there is no dynamic linker, nor into one
 * that changes its user, since ld.so(8) then ignores LD_PRELOAD. Such a program would
 * merely find no devices; a line that says why saves a search.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/tools.h"

/* As execvp(3) finds it; false if there is none */
static bool find_program(const char *name, char path[PATH_MAX])
{
	const char *dirs = getenv("PATH");

	if (strchr(name, '/'))
		return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
	while (dirs && *dirs) {
		int n = (int)strcspn(dirs, ":");

		if (snprintf(path, PATH_MAX, "%.*s/%s", n, dirs, name) < PATH_MAX &&
		    access(path, X_OK) == 0)
			return true;
		dirs += n + (dirs[n] == ':');
	}
	return false;
}

/* A program of this machine's class that names no dynamic linker */
static bool is_static(int fd)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph;

	if (pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) || eh.e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh.e_phentsize != sizeof(ph))
		return false;
	for (int i = 0; i < eh.e_phnum; i++) {
		off_t at = (off_t)eh.e_phoff + i * (off_t)sizeof(ph);

		if (pread(fd, &ph, sizeof(ph), at) != sizeof(ph))
			return false;
		if (ph.p_type == PT_INTERP)
			return false;
	}
	return true;
}

static bool changes_user(const struct stat *st)
{
	return ((st->st_mode & S_ISUID) && st->st_uid != getuid()) ||
	       ((st->st_mode & S_ISGID) && st->st_gid != getgid());
}

void warn_unless_preloadable(const char *name)
{
	char path[PATH_MAX];
	struct stat st;
	int fd;

	if (!find_program(name, path))
		return;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && changes_user(&st))
		usage_error("%s changes its user: it will not see the devices", name);
	else if (is_static(fd))
		usage_error("%s is statically linked: it will not see the devices", name);
	close(fd);
}
