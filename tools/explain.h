/*
 * explain.h - `urxe run --explain`: say on standard error what programs of the run wait for, when
 * they have done so for long, in the loop of whoever waits for them.
 */
#ifndef URXE_TOOLS_EXPLAIN_H
#define URXE_TOOLS_EXPLAIN_H

struct event_base;
struct explain;

/*
 * explain_start - look at the segments of the session @dir again and again while @base runs; what
 * has waited for @seconds is said, once. 0 seconds: nothing is done. NULL: out of memory
 */
struct explain *explain_start(struct event_base *base, const char *dir,
			      unsigned int seconds);
void explain_stop(struct explain *x);

#endif
