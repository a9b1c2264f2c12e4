/*
 * segments.h - the segments of the processes of sessions: finding and opening them.
 *
 * They lie in directories that anybody may have made, and their content is what the
 * processes wrote: only regular files of the directory's owner are opened, and only he and
 * root see them. Nothing is asked of a process.
 */
#ifndef URXE_TOOLS_SEGMENTS_H
#define URXE_TOOLS_SEGMENTS_H

#include <stdbool.h>

#include "trace/reader.h"

/*
 * enum segment_life - of the process that writes it
 * SEGMENT_GONE: it is no more, or has replaced itself (execve(2))
 * SEGMENT_LIVES: it runs, or is stopped
 * SEGMENT_DEAD: it has ended and its parent has not looked yet
 */
enum segment_life {
	SEGMENT_GONE,
	SEGMENT_LIVES,
	SEGMENT_DEAD,
};

/*
 * struct segment - one of them, while it is looked at
 * @t:		its reader
 * @reported:	it has written its report, or somebody else has for it
 * @fd:		the file in the session directory
 * @trace_fd:	the file that @t reads: the same, or a full trace that is elsewhere
 */
struct segment {
	struct trace_reader *t;
	enum segment_life life;
	bool reported;
	int fd, trace_fd;
};

typedef void segment_fn(void *arg, const struct segment *s);

/* Does the process that a segment or trace is of still run? */
bool segment_process_lives(const struct trace_info *i);

/* All segments of all sessions that the user may see */
void segments_all(segment_fn *fn, void *arg);

/* All segments of the session @dir */
void segments_of(const char *dir, segment_fn *fn, void *arg);

/*
 * segments_report - write what --stats asked for (@spec) of the processes of @dir that died
 * without having written it themselves, once
 */
void segments_report(const char *dir, const char *spec);

#endif
