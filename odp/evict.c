/*
 * evict.c - see evict.h.
 */
#include "odp/evict.h"

#include <errno.h>
#include <stdlib.h>

#include "odp/odp.h"

int evict_init(struct evict *e, uint64_t max)
{
	*e = (struct evict){0};
	if (!max)
		return 0;
	if (max > ODP_MAX_BOUND)
		return -EINVAL;
	e->node = calloc(max + 1, sizeof(*e->node));
	if (!e->node)
		return -ENOMEM;
	e->max = (uint32_t)max;
	return 0;
}

void evict_fini(struct evict *e)
{
	free(e->node);
}

uint32_t evict_victim(const struct evict *e)
{
	return e->used == e->max ? e->oldest : 0;
}

static void link_newest(struct evict *e, uint32_t n)
{
	e->node[n].newer = 0;
	e->node[n].older = e->newest;
	if (e->newest)
		e->node[e->newest].newer = n;
	else
		e->oldest = n;
	e->newest = n;
}

static void unlink_node(struct evict *e, uint32_t n)
{
	struct evict_node *node = &e->node[n];

	if (node->newer)
		e->node[node->newer].older = node->older;
	else
		e->newest = node->older;
	if (node->older)
		e->node[node->older].newer = node->newer;
	else
		e->oldest = node->newer;
}

uint32_t evict_add(struct evict *e, struct odp_mr *mr, uint64_t page)
{
	uint32_t n = e->free;

	if (n)
		e->free = e->node[n].older;
	else
		n = ++e->made;
	e->node[n].mr = mr;
	e->node[n].page = page;
	link_newest(e, n);
	e->used++;
	return n;
}

void evict_remove(struct evict *e, uint32_t n)
{
	unlink_node(e, n);
	e->node[n].older = e->free;
	e->free = n;
	e->used--;
}

void evict_touch(struct evict *e, uint32_t n)
{
	if (e->newest == n)
		return;
	unlink_node(e, n);
	link_newest(e, n);
}
