/*
 * areas.h - a set of addresses, kept as ranges that do not overlap; private to odp/.
 *
 * Adding, cutting and finding take O(log n) plus the ranges that they join or cut. No
 * locking here, and nothing of what the addresses mean.
 */
#ifndef URXE_ODP_AREAS_H
#define URXE_ODP_AREAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "odp/ranges.h"

/*
 * struct areas - all zero when empty
 * @tree:	their nodes, each allocated
 * @n:		how many ranges there are
 */
struct areas {
	struct ranges tree;
	size_t n;
};

/* struct span - addresses, both ends inclusive */
struct span {
	uintptr_t first, last;
};

void areas_fini(struct areas *a);
/* Add [@first, @last], as one range with what it overlaps. 0, or -ENOMEM with the set as it was */
int areas_add(struct areas *a, uintptr_t first, uintptr_t last);
/*
 * Take [@first, @last] out. Where that would make two ranges of one and there is no memory
 * for it, the higher part is lost.
 */
void areas_cut(struct areas *a, uintptr_t first, uintptr_t last);
/* Is all of [@first, @last] in the set? */
bool areas_cover(const struct areas *a, uintptr_t first, uintptr_t last);
/* The range that overlaps [@first, @last] first. False: none does */
bool areas_find(const struct areas *a, uintptr_t first, uintptr_t last, struct span *out);

#endif
