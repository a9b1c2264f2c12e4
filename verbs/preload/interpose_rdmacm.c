/*
 * interpose_rdmacm.c - rdma_destroy_id(3), so that others see when it waits.
 *
 * librdmacm waits there until the program has acknowledged all events that it has read of the
 * identifier; of acknowledges, and of this wait, the device hears nothing.
 */
#include <pthread.h>

#include "verbs/preload/interpose.h"
#include "verbs/preload/next_verb.h"
#include "verbs/ucma/ucma.h"

int rdma_destroy_id(void *id);
INTERPOSE int rdma_destroy_id(void *id)
{
	int (*next)(void *) = next_rdmacm("rdma_destroy_id", __builtin_return_address(0));
	int ret;

	if (!next)
		return -1;
	ucma_destroy_begins();
	pthread_cleanup_push(ucma_destroy_ends, NULL);
	ret = next(id);
	pthread_cleanup_pop(1);
	return ret;
}
