/*
 * outside.h - descriptors above the program's limit, which cost it none of its own.
 */
#ifndef URXE_BASE_OUTSIDE_H
#define URXE_BASE_OUTSIDE_H

/* What runs beside the program, on a stack that no sanitizer knows */
#define OUTSIDE_CODE __attribute__((no_sanitize("address", "thread", "undefined")))

/*
 * outside_run - call @fn in a child that has this process's memory and descriptors and a
 * higher limit; its result, or -errno (-EMFILE: the limit cannot be higher). @fn
 * is OUTSIDE_CODE, makes system calls only, and gives descriptors numbers from @lowest on.
 */
int outside_run(int (*fn)(void *arg, int lowest), void *arg);
/* outside_dup - a duplicate of @fd, close-on-exec; or -errno */
int outside_dup(int fd);

#endif
