/*
 * frames.h - does a request use memory of a function that has returned? (frames.c) With the lock.
 */
#ifndef URXE_CHECK_FRAMES_H
#define URXE_CHECK_FRAMES_H

struct check_use;

/* When the library is loaded; in a child of fork */
void check_frames_start(void);
void check_frames_forget(void);
/* A use begins, it ends */
void check_frames_begin(struct check_use *u);
void check_frames_end(struct check_use *u);
/* This thread calls a verb; @caller: where the frames begin that are the caller's */
void check_frames_look(const void *caller);

#endif
