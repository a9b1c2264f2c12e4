/*
 * points.h - what a process tells of its points: which there are, and which rules acted.
 *
 * A file in the session's directory, one for each process that has rules: DIR/inject/K, where
 * K is the order in which the processes opened a device. The process writes to it as to its own
 * memory, so it is there after any death; whoever reads it copies and believes nothing.
 */
#ifndef URXE_INJECT_POINTS_H
#define URXE_INJECT_POINTS_H

#include <stdatomic.h>

#include "inject/rule.h"

#define POINTS_DIR     "inject" /* in the session's directory */
#define POINTS_MAGIC   "URXEpnt\n"
#define POINTS_VERSION 2
#define POINTS_MAX     2048
#define POINTS_MODULES 32
#define POINTS_FRAMES  8

/* struct point_frame - a return address: module by index, offset from where it is loaded */
struct point_frame {
	uint64_t offset;
	uint32_t module, unused;
};

/*
 * struct point - a place that was come to
 * @name:	of the call, packet, event or send request
 * @object:	the MR's name
 * @stack:	hash of @frame, 0: none
 * @thread:	that calls, by its order among those that do; 0: no call
 * @count:	how often; written last when the point is made
 */
struct point {
	uint32_t kind, n_frames;
	char name[INJECT_NAME], object[INJECT_NAME];
	uint64_t stack;
	uint32_t thread, unused;
	_Atomic uint64_t count;
	struct point_frame frame[POINTS_FRAMES];
};

/*
 * struct point_hit - what became of a rule
 * @count:	how often it acted; @time: the first time (ns, CLOCK_MONOTONIC)
 * @at:		where, the first time
 */
struct point_hit {
	_Atomic uint64_t count;
	uint64_t time;
	struct point at;
};

/*
 * struct points_who - the process
 * @size:	of struct points
 * @number:	order among all processes; @nth: among those with this program and arguments;
 *		@of_program: among those with this program
 * @args:	hash of the arguments; @rank: -1: none
 */
struct points_who {
	char magic[8];
	uint32_t version, size;
	int32_t pid;
	uint32_t number, nth, of_program, args;
	int32_t rank;
	char program[INJECT_NAME];
};

/* struct points - @lost: points for which there was no room */
struct points {
	struct points_who who;
	_Atomic uint32_t n_points, n_modules, lost;
	char module[POINTS_MODULES][256];
	struct point_hit hit[INJECT_MAX_RULES];
	struct point point[POINTS_MAX];
};

/* The file @fd made safe: texts end, numbers are within bounds. NULL: none. To be freed */
struct points *points_read(int fd);

#endif
