/*
 * callstack.h - call stacks of a trace in words.
 */
#ifndef URXE_TOOLS_CALLSTACK_H
#define URXE_TOOLS_CALLSTACK_H

#include "trace/reader.h"

/* One frame: "function (file.c:12)", or what is known of it; @i counts from 0 */
void callstack_frame(const struct trace_reader *t, const struct trace_stack *s,
		     uint32_t i, char *buf, size_t size);
/* The stack with that number, NULL: none */
const struct trace_stack *callstack_find(const struct trace_reader *t, uint32_t id);

#endif
