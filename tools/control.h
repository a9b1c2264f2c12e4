/*
 * control.h - traces that are begun and ended while a program runs.
 */
#ifndef URXE_TOOLS_CONTROL_H
#define URXE_TOOLS_CONTROL_H

/* `urxe trace start ...` and `urxe trace stop ...`: exit codes */
int control_start(int argc, char **argv);
int control_stop(int argc, char **argv);

/* Copies that were asked for by `urxe trace start`, of processes of the session @dir that have ended */
void control_keep(const char *dir);

#endif
