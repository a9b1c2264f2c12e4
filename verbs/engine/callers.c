/*
 * callers.c - see callers.h.
 *
 * Unwinding takes microseconds, which is why it is asked for. Programs call from few places, so
 * stacks are known again by their hash, and their modules by their path.
 */
#include "verbs/engine/callers.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "inject/stack.h"
#include "trace/recorder.h"

#define STACKS                                                                           \
	4096 /* that are told apart, a power of two; beyond them they have no number */
#define MODULES 64

_Static_assert((int)TRACE_FRAMES >= (int)POINTS_FRAMES, "a place for each frame");

/*
 * struct callers
 * @hash, @id:	of the stacks that are known, by their hash
 * @module:	paths of modules, by their number
 */
struct callers {
	struct recorder *rec;
	uint64_t hash[STACKS];
	uint32_t id[STACKS];
	uint32_t n_stacks, n_modules;
	char *module[MODULES];
};

struct callers *callers_new(struct recorder *r)
{
	struct callers *c = calloc(1, sizeof(*c));

	if (c) {
		c->rec = r;
		stack_prepare();
	}
	return c;
}

void callers_free(struct callers *c)
{
	if (!c)
		return;
	for (uint32_t i = 0; i < c->n_modules; i++)
		free(c->module[i]);
	free(c);
}

/* ld.so knows the program by the name that it was started with. */
static void path_of(const char *file, char *path, size_t size)
{
	ssize_t n = *file == '/' ? -1 : readlink("/proc/self/exe", path, size - 1);

	if (n > 0)
		path[n] = '\0';
	else
		snprintf(path, size, "%s", file);
}

/* The number of a module, from 1 on; 0: no room */
static uint32_t module_of(struct callers *c, const char *file)
{
	struct trace_object *o;
	char path[TRACE_PATH];

	path_of(file, path, sizeof(path));
	for (uint32_t i = 0; i < c->n_modules; i++)
		if (!strcmp(c->module[i], path))
			return i + 1;
	if (c->n_modules == MODULES || !(c->module[c->n_modules] = strdup(path)))
		return 0;
	o = recorder_object(c->rec);
	if (!o)
		return 0;
	o->id = ++c->n_modules;
	memcpy(o->module.path, path, sizeof(path));
	recorder_object_ready(o, TRACE_OBJ_MODULE);
	return o->id;
}

static void add_frame(struct callers *c, struct trace_stack *to, void *addr)
{
	struct link_map *map;
	Dl_info info;

	if (!dladdr1(addr, &info, (void **)&map, RTLD_DL_LINKMAP) || !info.dli_fname)
		return;
	to->frame[to->n].module = module_of(c, info.dli_fname);
	to->frame[to->n++].addr = (uint64_t)(uintptr_t)addr - map->l_addr;
}

/* The number of a stack, from 1 on; 0: there are too many */
static uint32_t id_of(struct callers *c, const struct stack *s)
{
	size_t at = s->hash & (STACKS - 1);
	struct trace_object *o;

	while (c->hash[at] && c->hash[at] != s->hash)
		at = (at + 1) & (STACKS - 1);
	if (c->hash[at])
		return c->id[at];
	if (c->n_stacks == STACKS / 2 || !(o = recorder_object(c->rec)))
		return 0;
	for (uint32_t i = 0; i < s->n; i++)
		add_frame(c, &o->stack, s->addr[i]);
	o->id = ++c->n_stacks;
	recorder_object_ready(o, TRACE_OBJ_STACK);
	c->hash[at] = s->hash;
	c->id[at] = o->id;
	return o->id;
}

void callers_note(struct callers *c, uint64_t now)
{
	struct stack s;

	if (!recorder_wants(c->rec, TRACE_KIND_called_from))
		return;
	stack_take(&s);
	TRACE(c->rec, now, called_from, .stack = id_of(c, &s));
}
