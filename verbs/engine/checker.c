/* checker.c - see checker.h */
#include "verbs/engine/checker.h"

#include <stdatomic.h>

#include "verbs/host/libc.h"

static _Atomic(const struct checker *) checker;

EARLY const struct checker *checker_get(void)
{
	return atomic_load_explicit(&checker, memory_order_acquire);
}

void checker_attach(const struct checker *c)
{
	atomic_store_explicit(&checker, c, memory_order_release);
}
