/*
 * stacks.c - call stacks, cheap enough for each post.
 *
 * Theory of operation
 *
 * Unwinding costs microseconds, and a program posts from few places. So a stack is kept by
 * where it was taken: the return address of the wrapper and the frame's address. With it is kept
 * where on the stack its return addresses were. A later stack with the same beginning is the same
 * if the same return addresses are in those places, which is a comparison of some words. Where
 * the return address is not found in its place (other machines keep it in a register),
 * nothing is kept for the next time.
 *
 * Stacks that are equal are one object, which is kept for ever.
 */
#include <stdlib.h>
#include <string.h>
#include <unwind.h>

#include "base/splitmix.h"
#include "check/check.h"

#define BUCKETS 1024
#define KEPT	64

/* struct taken - one that was unwound in this thread; @slot: where its addresses are */
struct taken {
	const void *frame, *pc;
	const struct check_stack *stack;
	void **slot[CHECK_FRAMES];
};

static struct check_stack *bucket[BUCKETS];
static __thread struct taken kept[KEPT] __attribute__((tls_model("initial-exec")));

/* struct walk - an unwinding; @whole: each address was found in its place */
struct walk {
	struct check_stack stack;
	void **slot[CHECK_FRAMES];
	bool whole;
};

static _Unwind_Reason_Code step(struct _Unwind_Context *ctx, void *arg)
{
	struct walk *w = arg;
	void *pc = (void *)_Unwind_GetIP(ctx);
	void **slot = (void **)_Unwind_GetCFA(ctx) - 1;

	if (!pc)
		return _URC_END_OF_STACK;
	if (w->stack.n == CHECK_FRAMES)
		return _URC_NORMAL_STOP;
	/* the first is this library's own */
	if (w->stack.n && *slot != pc)
		w->whole = false;
	w->slot[w->stack.n] = slot;
	w->stack.pc[w->stack.n++] = pc;
	return _URC_NO_REASON;
}

static uint64_t hash_of(const struct check_stack *s)
{
	uint64_t hash = s->n;

	/* not the first, which is where the checker took it */
	for (unsigned int i = 1; i < s->n; i++)
		hash = splitmix_mix(hash + SPLITMIX_STEP + (uintptr_t)s->pc[i]);
	return hash;
}

static const struct check_stack *one_of(const struct check_stack *s, uint64_t hash)
{
	struct check_stack **b = &bucket[hash % BUCKETS], *known = *b;

	while (known && known->hash != hash)
		known = known->next;
	if (known)
		return known;
	known = malloc(sizeof(*known));
	if (!known)
		return NULL;
	*known = *s;
	known->hash = hash;
	known->next = *b;
	*b = known;
	return known;
}

const struct check_stack *check_stack_at(void *pc)
{
	struct check_stack s = {.n = 1, .pc = {pc}};

	return one_of(&s, splitmix_mix((uintptr_t)pc));
}

static bool still_there(const struct taken *t)
{
	for (unsigned int i = 1; i < t->stack->n; i++)
		if (*t->slot[i] != t->stack->pc[i])
			return false;
	return true;
}

__attribute__((noinline)) const struct check_stack *check_stack(void)
{
	const void *frame = __builtin_frame_address(0), *pc = __builtin_return_address(0);
	struct taken *t =
	    &kept[((uintptr_t)frame / 16 ^ (uintptr_t)pc) * SPLITMIX_STEP >> 58];
	struct walk w = {.whole = true};

	if (t->stack && t->frame == frame && t->pc == pc && still_there(t))
		return t->stack;
	_Unwind_Backtrace(step, &w);
	t->stack = one_of(&w.stack, hash_of(&w.stack));
	if (!t->stack)
		return NULL;
	t->frame = w.whole && w.stack.n < CHECK_FRAMES ? frame : NULL;
	t->pc = pc;
	memcpy(t->slot, w.slot, sizeof(t->slot));
	return t->stack;
}
