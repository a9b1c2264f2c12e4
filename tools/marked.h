/*
 * marked.h - processes that are known by a variable in their environment, whoever started them.
 */
#ifndef URXE_TOOLS_MARKED_H
#define URXE_TOOLS_MARKED_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * marked_each - @fn for each process, but for this one, whose environment has @want, "NAME=VALUE";
 * false: no more of them
 */
void marked_each(const char *want, bool (*fn)(void *arg, pid_t pid), void *arg);

#endif
