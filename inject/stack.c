/*
 * stack.c - see stack.h.
 *
 * Addresses differ from run to run, offsets in a file do not: the hash is made of the name of
 * the file and the offset of each frame.
 */
#include "inject/stack.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DEPTH	  48 /* frames looked through */
#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

/* Files whose frames are not the program's, by the beginning of their names */
static const char *const not_program[] = {"liburxe.so",	 "libibverbs.so", "librdmacm.so",
					  "librxe-",	 "libc.so",	  "libpthread",
					  "ld-linux",	 "libasan.so",	  "libtsan.so",
					  "libubsan.so", "liblsan.so",	  "libgcc_s.so"};

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool is_program(const char *file)
{
	const char *base = base_name(file);

	for (size_t i = 0; i < sizeof(not_program) / sizeof(not_program[0]); i++)
		if (!strncmp(base, not_program[i], strlen(not_program[i])))
			return false;
	return true;
}

static uint64_t mix(uint64_t hash, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * FNV_PRIME;
	return hash;
}

/* The file of an address and the offset in it; false: of none */
static bool locate(void *addr, Dl_info *info, uint64_t *offset)
{
	if (!dladdr(addr, info) || !info->dli_fname)
		return false;
	*offset = (uint64_t)((char *)addr - (char *)info->dli_fbase);
	return true;
}

void stack_prepare(void)
{
	struct stack s;

	stack_take(&s);
}

void stack_take(struct stack *s)
{
	void *all[DEPTH];
	int n = backtrace(all, DEPTH);

	s->hash = FNV_BASIS;
	s->n = s->thread = 0;
	for (int i = 0; i < n && s->n < POINTS_FRAMES; i++) {
		uint64_t offset;
		Dl_info info;

		if (!locate(all[i], &info, &offset) || !is_program(info.dli_fname))
			continue;
		s->hash = mix(s->hash, base_name(info.dli_fname),
			      strlen(base_name(info.dli_fname)));
		s->hash = mix(s->hash, &offset, sizeof(offset));
		s->addr[s->n++] = all[i];
	}
	s->hash += !s->hash;
}

/* ld.so knows the program by the name that it was started with. */
static void full_name(const char *file, char path[256])
{
	ssize_t n;

	snprintf(path, 256, "%s", file);
	if (*file == '/')
		return;
	n = readlink("/proc/self/exe", path, 255);
	if (n > 0)
		path[n] = '\0';
}

/* The index of a file; one beyond the last that there is room for: the last */
static uint32_t module_of(struct points *points, const char *file)
{
	uint32_t n = points->n_modules;
	char path[256];

	full_name(file, path);
	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(points->module[i], path))
			return i;
	if (n == POINTS_MODULES)
		return n - 1;
	strcpy(points->module[n], path);
	points->n_modules = n + 1;
	return n;
}

void stack_note(const struct stack *s, struct points *points, struct point *to)
{
	uint32_t n = 0;

	to->stack = s->hash;
	for (uint32_t i = 0; i < s->n; i++) {
		Dl_info info;

		if (!locate(s->addr[i], &info, &to->frame[n].offset))
			continue;
		to->frame[n++].module = module_of(points, info.dli_fname);
	}
	to->n_frames = n;
}
