/* unopened.c - see unopened.h */
#include "verbs/host/unopened.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"

#define VERBS "libibverbs.so"

/* Libraries that choose for their program; the beginnings of their names */
static const char *const choosers[] = {"libmpi.so", "libmpich.so", "libucp.so",
				       "libfabric.so"};

/*
 * struct seen - of the objects that are loaded
 * @objects:	so many; the first is the program
 * @verbs, @chooser: names of the libraries, or empty
 * @linked:	the program itself asks for libibverbs
 */
struct seen {
	unsigned int objects;
	char verbs[32], chooser[32];
	bool linked;
};

static bool begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

static const ElfW(Dyn) * dynamic_of(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return (const ElfW(Dyn) *)(info->dlpi_addr +
						   info->dlpi_phdr[i].p_vaddr);
	return NULL;
}

/* Does the object name libibverbs among the libraries that it needs? */
static bool needs(const struct dl_phdr_info *info)
{
	const ElfW(Dyn) *dynamic = dynamic_of(info);
	const char *strings = NULL;

	for (const ElfW(Dyn) *d = dynamic; d && d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_STRTAB)
			strings = (const char *)d->d_un.d_ptr;
	/* glibc has made it an address; what is below the object is an offset */
	if (!strings || (ElfW(Addr))strings < info->dlpi_addr)
		return false;
	for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_NEEDED && begins(strings + d->d_un.d_val, VERBS))
			return true;
	return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;
	struct seen *s = arg;

	if (!s->objects++)
		s->linked = needs(info);
	if (begins(name, VERBS))
		snprintf(s->verbs, sizeof(s->verbs), "%s", name);
	for (size_t i = 0; i < sizeof(choosers) / sizeof(choosers[0]); i++)
		if (!*s->chooser && begins(name, choosers[i]))
			snprintf(s->chooser, sizeof(s->chooser), "%s", name);
	return 0;
}

void unopened_leave(const char *dir, bool looks)
{
	char path[PATH_MAX], text[128];
	struct seen s = {0};
	const char *through;

	if (!dir)
		return;
	dl_iterate_phdr(look, &s);
	through = *s.chooser ? s.chooser : looks && !s.linked ? s.verbs : "";
	if (!*through || snprintf(path, sizeof(path), "%s/" UNOPENED_PREFIX "%d", dir,
				  (int)getpid()) >= (int)sizeof(path))
		return;
	snprintf(text, sizeof(text), "%.60s could have, through %s",
		 program_invocation_short_name, through);
	/* a link holds a short text by itself; who cannot leave it is not missed */
	if (symlink(text, path))
		errno = 0;
}

bool unopened_find(int dir, char *text, size_t size)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;
	ssize_t n = -1;

	while (d && n <= 0 && (e = readdir(d)))
		if (!strncmp(e->d_name, UNOPENED_PREFIX, strlen(UNOPENED_PREFIX)))
			n = readlinkat(dirfd(d), e->d_name, text, size - 1);
	if (d)
		closedir(d);
	if (n <= 0)
		return false;
	text[n] = '\0';
	text_make_line(text);
	return true;
}
