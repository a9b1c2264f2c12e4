/*
 * watch.h - does the program touch this memory? (watch.c) With the lock.
 */
#ifndef URXE_CHECK_WATCH_H
#define URXE_CHECK_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECK_HITS 16 /* that are told of one watch, at most */

/* struct check_hit - an access; @pc: behind the instruction; @at: CLOCK_MONOTONIC, ns */
struct check_hit {
	uint64_t pc, addr, at;
};

/*
 * Watch the first @width bytes of @len at @addr, and the last: 1, 2, 4 or 8. False: it cannot be done, or
 * not now; @at_once: without a pause.
 */
bool check_watch_begin(uint64_t addr, uint64_t len, unsigned int width, bool at_once);
/* No more; what the program has done there since */
unsigned int check_watch_end(struct check_hit hits[CHECK_HITS]);
/* In a child of fork */
void check_watch_forget(void);

#endif
