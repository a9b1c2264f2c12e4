/*
 * injected.h - what the processes of a run tell of points and rules (inject/points.h).
 */
#ifndef URXE_TOOLS_INJECTED_H
#define URXE_TOOLS_INJECTED_H

#include "inject/points.h"

/* A line on stderr for each rule of @text that acted nowhere, if there was a process to obey */
void injected_warn(const char *dir, const char *text);

#endif
