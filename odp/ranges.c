/*
 * ranges.c - an intrusive interval treap; see ranges.h.
 *
 * Nodes are ordered by (first, address of the node), so that equal intervals have an
 * order too.
 */
#include "odp/ranges.h"

#include <stddef.h>

#include "base/splitmix.h"

static bool before(const struct range_node *a, const struct range_node *b)
{
	return a->first != b->first ? a->first < b->first : (uintptr_t)a < (uintptr_t)b;
}

static void update(struct range_node *n)
{
	n->max = n->last;
	if (n->left && n->left->max > n->max)
		n->max = n->left->max;
	if (n->right && n->right->max > n->max)
		n->max = n->right->max;
}

/* Split @t into the nodes before @key and the rest */
static void split(struct range_node *t, const struct range_node *key,
		  struct range_node **lo, struct range_node **hi)
{
	if (!t) {
		*lo = *hi = NULL;
		return;
	}
	if (before(t, key)) {
		split(t->right, key, &t->right, hi);
		*lo = t;
	} else {
		split(t->left, key, lo, &t->left);
		*hi = t;
	}
	update(t);
}

/* All of @lo is before all of @hi */
static struct range_node *merge(struct range_node *lo, struct range_node *hi)
{
	if (!lo || !hi)
		return lo ? lo : hi;
	if (lo->prio > hi->prio) {
		lo->right = merge(lo->right, hi);
		update(lo);
		return lo;
	}
	hi->left = merge(lo, hi->left);
	update(hi);
	return hi;
}

static struct range_node *insert(struct range_node *t, struct range_node *n)
{
	if (!t || n->prio > t->prio) {
		split(t, n, &n->left, &n->right);
		update(n);
		return n;
	}
	if (before(n, t))
		t->left = insert(t->left, n);
	else
		t->right = insert(t->right, n);
	update(t);
	return t;
}

static struct range_node *drop(struct range_node *t, struct range_node *n)
{
	if (t == n)
		return merge(n->left, n->right);
	if (before(n, t))
		t->left = drop(t->left, n);
	else
		t->right = drop(t->right, n);
	update(t);
	return t;
}

void ranges_insert(struct ranges *r, struct range_node *n)
{
	n->prio = splitmix_next(&r->rng);
	r->root = insert(r->root, n);
}

void ranges_remove(struct ranges *r, struct range_node *n)
{
	r->root = drop(r->root, n);
}

static bool each(struct range_node *t, uint64_t first, uint64_t last,
		 bool (*fn)(struct range_node *n, void *arg), void *arg)
{
	if (!t || t->max < first)
		return false;
	if (each(t->left, first, last, fn, arg))
		return true;
	if (t->first > last)
		return false;
	if (t->last >= first && fn(t, arg))
		return true;
	return each(t->right, first, last, fn, arg);
}

bool ranges_each(const struct ranges *r, uint64_t first, uint64_t last,
		 bool (*fn)(struct range_node *n, void *arg), void *arg)
{
	return each(r->root, first, last, fn, arg);
}
