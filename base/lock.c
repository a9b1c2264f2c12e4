/*
 * lock.c - what each thread knows of its locks, see lock.h.
 */
#include "base/lock.h"

__thread unsigned int cancel_deferred;
__thread int cancel_before;
