/*
 * slow.h - memory whose pages the test itself brings, by a userfaultfd of its own; and what
 * others do meanwhile.
 */
#ifndef URXE_TESTS_LAB_SLOW_H
#define URXE_TESTS_LAB_SLOW_H

#include "lab.h"

/*
 * Nobody has the pages of this range but the test; @protect: it can write-protect them, too.
 * False, and a line that says so: no userfaultfd here. One at a time
 */
bool slow_begin(void *mem, size_t pages, bool protect);
void slow_end(void);
/* Whoever waits for a page goes on without. */
void slow_give_up(void *mem, size_t pages);
/* Does somebody wait for a page, within @ms? */
bool slow_asked(int ms);
/* The page that somebody waits for */
uintptr_t slow_next(void);
/* Bring it: a copy of @from, or filled with 'x' */
void slow_give(uintptr_t addr, const void *from);
void slow_give_filled(uintptr_t addr);
/* Take it away without any call that is interposed; or let nobody write it. */
void slow_take(uintptr_t addr);
void slow_protect(uintptr_t addr, bool on);
/* All that others do, on another device: nothing of it may wait for such a page. */
void slow_others_go_on(struct lab *m);

#endif
