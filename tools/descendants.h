/*
 * descendants.h - the processes below one of ours: children, their children, and those whose
 * parents are gone, which came to us (PR_SET_CHILD_SUBREAPER).
 */
#ifndef URXE_TOOLS_DESCENDANTS_H
#define URXE_TOOLS_DESCENDANTS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* struct descendant - @state: of proc(5); @cpu: time used, also by children that it has waited for, ns */
struct descendant {
	pid_t pid;
	char state, name[32];
	uint64_t cpu;
};

/* Those below @root that have not ended; how many, at most @max */
size_t descendants_of(pid_t root, struct descendant *list, size_t max);
/* How many threads of the process run, or would if there were a CPU for them */
size_t descendant_threads(pid_t pid);
/*
 * SIGKILL for all below this process, until there are none; children are reaped. The status of
 * @child, one of them, goes to *@status.
 */
void descendants_kill(pid_t child, int *status);

#endif
