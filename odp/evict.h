/*
 * evict.h - the bound on cached pages: which page was used longest ago?
 *
 * An exact list in order of use, since reproducible runs are worth more here than speed
 * (it exists only when a bound is asked for). Nodes are numbered from 1; the page table
 * keeps the number of each page's node. All functions need the domain's lock.
 */
#ifndef URXE_ODP_EVICT_H
#define URXE_ODP_EVICT_H

#include <stdbool.h>
#include <stdint.h>

struct odp_mr;

/* struct evict_node - a cached page */
struct evict_node {
	struct odp_mr *mr;
	uint64_t page;
	uint32_t newer, older;
};

/*
 * struct evict
 * @node:	@max + 1 of them, 0 is no node; NULL without a bound
 * @made:	nodes that were ever in use
 * @free:	list of those that are not (by @older)
 */
struct evict {
	struct evict_node *node;
	uint32_t max, used, made, free;
	uint32_t newest, oldest;
};

/* 0 or -ENOMEM, -EINVAL (more than ODP_MAX_BOUND) */
int evict_init(struct evict *e, uint64_t max);
void evict_fini(struct evict *e);
static inline bool evict_on(const struct evict *e)
{
	return e->node;
}
/* The node that must go before another page can come; 0 if there is room */
uint32_t evict_victim(const struct evict *e);
/* There is room. The number of the node */
uint32_t evict_add(struct evict *e, struct odp_mr *mr, uint64_t page);
void evict_remove(struct evict *e, uint32_t n);
/* It was used just now. */
void evict_touch(struct evict *e, uint32_t n);

#endif
