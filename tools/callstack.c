/*
 * callstack.c - see callstack.h.
 *
 * The files that the addresses are in are read now: if they have changed since, or are those of
 * another host, the names are wrong, or only a file and an address are known.
 */
#include "tools/callstack.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tools/symbols.h"

const struct trace_stack *callstack_find(const struct trace_reader *t, uint32_t id)
{
	const struct trace_object *o = trace_find(t, TRACE_OBJ_STACK, id);

	return o ? &o->stack : NULL;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* Symbols and sources come from files that anybody may have made. */
static void clean(char *s)
{
	for (; *s; s++)
		if (*s < 0x20 || *s > 0x7e)
			*s = '?';
}

void callstack_frame(const struct trace_reader *t, const struct trace_stack *s,
		     uint32_t i, char *buf, size_t size)
{
	const struct trace_object *m =
	    trace_find(t, TRACE_OBJ_MODULE, s->frame[i].module);
	const char *path = m ? m->module.path : "?";
	struct symbol sym;
	char *dot;

	/* a return address: the call is before it */
	symbols_outer(path, s->frame[i].addr - 1, &sym);
	dot = strchr(sym.function, '.'); /* the compiler's parts of functions */
	if (dot)
		*dot = '\0';
	if (sym.line)
		snprintf(buf, size, "%s (%s:%d)", sym.function, base_name(sym.source),
			 sym.line);
	else if (sym.function[0])
		snprintf(buf, size, "%s (%s)", sym.function, base_name(path));
	else
		snprintf(buf, size, "0x%" PRIx64 " (%s)", s->frame[i].addr,
			 base_name(path));
	clean(buf);
}
