/*
 * stack.h - who called, in a form that is the same in every run.
 *
 * Only frames of the program count: not those of libc, libibverbs, librdmacm, the provider
 * or this library. So what is first in a stack is the call that the program wrote.
 */
#ifndef URXE_INJECT_STACK_H
#define URXE_INJECT_STACK_H

#include "inject/points.h"

/*
 * struct stack
 * @hash:	of modules and offsets, never 0; @n: of @addr, return addresses
 * @thread:	whose it is, by number; set by who asks
 */
struct stack {
	uint64_t hash;
	uint32_t n, thread;
	void *addr[POINTS_FRAMES];
};

/* stack_prepare - what the first use would load is loaded now, where that may take locks */
void stack_prepare(void);
void stack_take(struct stack *s);
/* The frames as offsets; modules are entered into @points, whose lock the caller has */
void stack_note(const struct stack *s, struct points *points, struct point *to);

#endif
