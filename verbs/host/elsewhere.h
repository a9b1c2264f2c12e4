/*
 * elsewhere.h - a process of a run that was begun on another host: its session is not here.
 */
#ifndef URXE_VERBS_HOST_ELSEWHERE_H
#define URXE_VERBS_HOST_ELSEWHERE_H

#include <stdbool.h>

/*
 * elsewhere_session - have @dir, the session that the environment names, made on this host if it is not there.
 * false, and one line that says why, if that is not possible. Not to be called with locks held: it starts a program
 * and waits for it.
 */
bool elsewhere_session(const char *dir);

#endif
