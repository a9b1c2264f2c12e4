/*
 * callers.h - which places of the program call: `urxe run --trace-stacks`.
 *
 * A call stack is an object of the recorder, made when it is seen first; a record says which one a
 * thread had when it posted or registered memory, just before what came of that.
 */
#ifndef URXE_VERBS_ENGINE_CALLERS_H
#define URXE_VERBS_ENGINE_CALLERS_H

#include <stdint.h>

struct callers;
struct recorder;

/* NULL: no memory */
struct callers *callers_new(struct recorder *r);
void callers_free(struct callers *c);
/* The thread calls now; not by two threads at a time */
void callers_note(struct callers *c, uint64_t now);

#endif
