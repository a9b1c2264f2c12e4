/*
 * ucma_table.c - handles of identifiers and multicast groups: small numbers shared by all
 * channels of the process, the lowest free one first, as in the kernel.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/ucma/ucma_internal.h"

#define TABLE_MIN 16

int ucma_table_add(struct ucma_table *t, void *obj, uint32_t *handle)
{
	uint32_t i = t->lowest;

	while (i < t->room && t->entry[i])
		i++;
	if (i == t->room) {
		uint32_t room = t->room ? t->room * 2 : TABLE_MIN;
		void **e = realloc(t->entry, room * sizeof(*e));

		if (!e)
			return -ENOMEM;
		memset(e + t->room, 0, (room - t->room) * sizeof(*e));
		t->entry = e;
		t->room = room;
	}
	t->entry[i] = obj;
	t->lowest = i + 1;
	*handle = i;
	return 0;
}

void *ucma_table_get(const struct ucma_table *t, uint32_t handle)
{
	return handle < t->room ? t->entry[handle] : NULL;
}

void ucma_table_del(struct ucma_table *t, uint32_t handle)
{
	t->entry[handle] = NULL;
	if (handle < t->lowest)
		t->lowest = handle;
}
