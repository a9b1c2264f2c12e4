/*
 * doorbell.c - see doorbell.h.
 */
#include "verbs/preload/doorbell.h"

#include <errno.h>

#include "verbs/engine/engine.h"
#include "verbs/engine/vfile.h"

__thread struct doorbell doorbell;

int doorbell_ring(void)
{
	struct engine *e = engine_running();

	/* a copy of the process that has not gone through fork(3) has only copies of the queues */
	return e && vfile_is_home() ? engine_doorbell(e, doorbell.qpn) : -ENOENT;
}
