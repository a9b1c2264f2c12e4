/*
 * ranges.h - which ranges of addresses overlap this one?
 *
 * A treap of intervals whose nodes live in their owners, so that inserting and removing
 * allocate nothing. Each node knows the greatest end below it. O(log n) expected, plus
 * the hits. No locking here.
 */
#ifndef URXE_ODP_RANGES_H
#define URXE_ODP_RANGES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * struct range_node - an interval
 * @first, @last:	inclusive, set by the owner before it inserts
 * @max:		greatest @last of the subtree
 * @prio:		heap order
 */
struct range_node {
	uint64_t first, last;
	struct range_node *left, *right;
	uint64_t max;
	uint64_t prio;
};

/* struct ranges - all zero when empty */
struct ranges {
	struct range_node *root;
	uint64_t rng;
};

void ranges_insert(struct ranges *r, struct range_node *n);
void ranges_remove(struct ranges *r, struct range_node *n);
/*
 * ranges_each - call @fn for each interval that overlaps [@first, @last], until it
 * returns true. Did it?
 */
bool ranges_each(const struct ranges *r, uint64_t first, uint64_t last,
		 bool (*fn)(struct range_node *n, void *arg), void *arg);

#endif
