/*
 * areas.c - see areas.h.
 */
#include "odp/areas.h"

#include <errno.h>
#include <stdlib.h>

static bool take_node(struct range_node *n, void *arg)
{
	*(struct range_node **)arg = n;
	return true;
}

static struct range_node *find(const struct areas *a, uintptr_t first, uintptr_t last)
{
	struct range_node *n = NULL;

	ranges_each(&a->tree, first, last, take_node, &n);
	return n;
}

static void insert(struct areas *a, struct range_node *n, uintptr_t first, uintptr_t last)
{
	n->first = first;
	n->last = last;
	n->left = n->right = NULL;
	ranges_insert(&a->tree, n);
	a->n++;
}

static void drop(struct areas *a, struct range_node *n)
{
	ranges_remove(&a->tree, n);
	a->n--;
}

void areas_fini(struct areas *a)
{
	struct range_node *n;

	while ((n = find(a, 0, UINTPTR_MAX))) {
		drop(a, n);
		free(n);
	}
}

int areas_add(struct areas *a, uintptr_t first, uintptr_t last)
{
	struct range_node *n, *fresh;

	if (areas_cover(a, first, last))
		return 0;
	fresh = malloc(sizeof(*n));
	if (!fresh)
		return -ENOMEM;
	while ((n = find(a, first, last))) {
		if (n->first < first)
			first = n->first;
		if (n->last > last)
			last = n->last;
		drop(a, n);
		free(n);
	}
	insert(a, fresh, first, last);
	return 0;
}

void areas_cut(struct areas *a, uintptr_t first, uintptr_t last)
{
	struct range_node *n;

	while ((n = find(a, first, last))) {
		uintptr_t low = n->first, high = n->last;
		struct range_node *more = NULL;

		drop(a, n);
		if (low < first && high > last)
			more = malloc(sizeof(*n));
		if (low < first)
			insert(a, n, low, first - 1);
		else if (high > last)
			insert(a, n, last + 1, high);
		else
			free(n);
		if (more)
			insert(a, more, last + 1, high);
	}
}

bool areas_cover(const struct areas *a, uintptr_t first, uintptr_t last)
{
	const struct range_node *n;

	while ((n = find(a, first, last)) && n->first <= first) {
		if (n->last >= last)
			return true;
		first = n->last + 1;
	}
	return false;
}

bool areas_find(const struct areas *a, uintptr_t first, uintptr_t last, struct span *out)
{
	const struct range_node *n = find(a, first, last);

	if (!n)
		return false;
	*out = (struct span){n->first, n->last};
	return true;
}
