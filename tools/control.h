/*
 * control.h - traces that are begun and ended while a program runs.
 */
#ifndef URXE_TOOLS_CONTROL_H
#define URXE_TOOLS_CONTROL_H

#include "trace/reader.h"

/* `urxe trace start ...` and `urxe trace stop ...`: exit codes */
int control_start(int argc, char **argv);
int control_stop(int argc, char **argv);

/* Copies that were asked for by `urxe trace start`, of processes of the session @dir that have ended */
void control_keep(const char *dir);

#define CONTROL_SIZE (16ull << 20) /* bytes, where nothing is said */
/* The argument of --size: bytes, with k, m or g. 0, or an exit code with a line on stderr */
int control_size(const char *s, uint64_t *size);
/*
 * control_watch - the process whose segment is @fd, with the header @i, records all kinds into a ring of
 * @bytes for the next two seconds, if it does not already for another reason. To be called again
 * and again; what is not renewed ends by itself, however its watcher has ended. 1: it was asked to
 * begin; 0, -errno
 */
int control_watch(int fd, const struct trace_info *i, uint64_t bytes);

#endif
