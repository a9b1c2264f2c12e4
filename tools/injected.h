/*
 * injected.h - what the processes of a run tell of points and rules (inject/points.h).
 */
#ifndef URXE_TOOLS_INJECTED_H
#define URXE_TOOLS_INJECTED_H

#include "inject/points.h"

/* Call @fn for each process of the session @dir that had rules, in the order of their starts */
void injected_all(const char *dir, void (*fn)(void *arg, const struct points *p),
		  void *arg);
/* A line on stderr for each rule of @text that acted nowhere, if there was a process to obey */
void injected_warn(const char *dir, const char *text);

#endif
