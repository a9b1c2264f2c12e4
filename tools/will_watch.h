/*
 * will_watch.h - execute wills (verbs/ucma/will.h) when those who left them die, in the
 * loop of whoever waits for the session's programs. Nothing wakes up meanwhile.
 */
#ifndef URXE_TOOLS_WILL_WATCH_H
#define URXE_TOOLS_WILL_WATCH_H

struct event_base;
struct will_watch;

/* will_watch_start - in the session directory @dir, while @base runs; NULL: out of memory */
struct will_watch *will_watch_start(struct event_base *base, const char *dir);
void will_watch_stop(struct will_watch *w);

#endif
