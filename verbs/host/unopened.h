/*
 * unopened.h - word of a process that could have opened a device and did not.
 *
 * Libraries that choose a transport for their program (MPI, UCX) may take another and say nothing. A
 * process that has one leaves word at its end, and one that looks for devices through libibverbs when it
 * looks; `urxe run` says so if in the whole run nobody opened a device. No word is left by who looks
 * without libibverbs (ls, hwloc), nor by a program that is linked with it itself and so knows what it
 * does (ibv_devices).
 */
#ifndef URXE_VERBS_HOST_UNOPENED_H
#define URXE_VERBS_HOST_UNOPENED_H

#include <stdbool.h>
#include <stddef.h>

#define UNOPENED_PREFIX                                                                  \
	"looked." /* and a process id: a link to nowhere, with what find gives */

/* unopened_leave - this process @looks for devices, or ends; @dir is the session's, or NULL */
void unopened_leave(const char *dir, bool looks);
/* unopened_find - "PROGRAM could have, through LIBRARY", one line; false: none could */
bool unopened_find(int dir, char *text, size_t size);

#endif
