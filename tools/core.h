/*
 * core.h - the segment in a core file.
 *
 * The kernel writes shared mappings of files into a core when bit 3 of the process's
 * coredump_filter is set (core(5)), and a note with the file and offset of each mapping.
 */
#ifndef URXE_TOOLS_CORE_H
#define URXE_TOOLS_CORE_H

#include "trace/reader.h"

/* core_open - 0, or -errno with one line in @why: it is no core, or has no segment */
int core_open(const char *path, char *why, size_t size, struct trace_reader **out);

#endif
