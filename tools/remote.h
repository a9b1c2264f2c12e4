/*
 * remote.h - runs that reach other hosts; how: remote.c.
 */
#ifndef URXE_TOOLS_REMOTE_H
#define URXE_TOOLS_REMOTE_H

#include <stdbool.h>

struct command;

/*
 * remote_announce - tell launchers, by the environment, how to start what they start on other hosts. The
 * settings of the run are in the environment already.
 * @exe:	this program
 * @devices:	the user has chosen them, so that they hold for other hosts, too
 */
int remote_announce(const char *exe, bool devices);

extern const struct command command_remote, command_session;

#endif
