/*
 * pagetable.c - see pagetable.h.
 */
#include "odp/pagetable.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define INDEX_MASK (PT_LEAF_PAGES - 1)

int pt_init(struct pagetable *pt, uint64_t first, uint64_t count, bool sparse, bool slots)
{
	uint64_t leaves = (count + PT_LEAF_PAGES - 1) >> PT_LEAF_BITS;

	memset(pt, 0, sizeof(*pt));
	pt->first = first;
	pt->count = count;
	pt->leaf_size =
	    sizeof(struct pt_leaf) + (slots ? PT_LEAF_PAGES * sizeof(uint32_t) : 0);
	if (sparse)
		pt->root = calloc(1, sizeof(*pt->root));
	else
		pt->flat = calloc(leaves, pt->leaf_size);
	return pt->root || pt->flat ? 0 : -ENOMEM;
}

static void free_dir(struct pt_dir *dir, int level)
{
	for (unsigned int i = 0; i < PT_LEAF_PAGES; i++) {
		void *p = dir->entry[i];

		if (p && level > 1)
			free_dir(p, level - 1);
		else
			free(p);
	}
	free(dir);
}

void pt_fini(struct pagetable *pt)
{
	struct pt_leaf *leaf;

	free(pt->show);
	free(pt->flat);
	if (pt->root)
		free_dir(pt->root, PT_DIR_LEVELS);
	while ((leaf = pt->spare)) {
		pt->spare = leaf->next_free;
		free(leaf);
	}
}

/* --- showing ---------------------------------------------------------------------- */

/* The pages of character @cell */
static uint64_t cell_pages(const struct pagetable *pt, unsigned int cell)
{
	uint64_t before = (uint64_t)cell << pt->show->shift;
	uint64_t all = 1ull << pt->show->shift;

	return pt->count - before < all ? pt->count - before : all;
}

/* A capital letter if all of them are there */
static void draw(const struct pagetable *pt, unsigned int cell)
{
	const struct pt_show *show = pt->show;
	uint64_t there = show->has[cell].there;
	char c = show->has[cell].prefetched ? 'p' : show->has[cell].writable ? 'w' : 'r';

	if (!there)
		c = '.';
	else if (there == cell_pages(pt, cell))
		c = (char)(c - 'a' + 'A');
	__atomic_store_n(&show->mr->map[cell], c, __ATOMIC_RELAXED);
}

int pt_show_in(struct pagetable *pt, struct trace_mr *mr)
{
	unsigned int shift = 0, cells;
	struct pt_show *show;

	while ((pt->count - 1) >> shift >= TRACE_MAP_CELLS)
		shift++;
	cells = (unsigned int)((pt->count - 1) >> shift) + 1;
	show = calloc(1, sizeof(*show) + cells * sizeof(show->has[0]));
	if (!show)
		return -ENOMEM;
	show->mr = mr;
	show->shift = shift;
	pt->show = show;
	for (unsigned int i = 0; i < cells; i++)
		draw(pt, i);
	return 0;
}

/* The state of a page changes. */
static inline void show_change(struct pagetable *pt, uint64_t page, uint8_t from,
			       uint8_t to)
{
	struct pt_show *show = pt->show;
	unsigned int cell;

	if (!show)
		return;
	cell = (unsigned int)((page - pt->first) >> show->shift);
	show->has[cell].there += (uint64_t) !!to - !!from;
	show->has[cell].writable += (uint64_t) !!(to & PT_WRITE) - !!(from & PT_WRITE);
	show->has[cell].prefetched +=
	    (uint64_t) !!(to & PT_PREFETCHED) - !!(from & PT_PREFETCHED);
}

/* Some pages of the range have changed. @n > 0 */
static void show_range(struct pagetable *pt, uint64_t page, uint64_t n)
{
	struct pt_show *show = pt->show;
	uint64_t cell, last;

	if (!show)
		return;
	last = (page + n - 1 - pt->first) >> show->shift;
	for (cell = (page - pt->first) >> show->shift; cell <= last; cell++)
		draw(pt, (unsigned int)cell);
	atomic_store_explicit(&show->mr->cached, pt->live, memory_order_relaxed);
}

/* --- changes ---------------------------------------------------------------------- */

/* Up to where does the leaf of @page reach, at most @end? */
static uint64_t leaf_end(const struct pagetable *pt, uint64_t page, uint64_t end)
{
	uint64_t stop = page + PT_LEAF_PAGES - pt_index(pt, page);

	return stop < end ? stop : end;
}

struct pt_span pt_missing(const struct pagetable *pt, uint64_t page, uint64_t n,
			  uint8_t want)
{
	struct pt_span miss = {0};
	uint64_t end = page + n;

	while (page < end) {
		const struct pt_leaf *leaf = pt_leaf(pt, page);
		uint64_t stop = leaf_end(pt, page, end);
		unsigned int i = pt_index(pt, page);

		for (; page < stop; page++, i++) {
			if (leaf && (leaf->state[i] & want) == want)
				continue;
			if (!miss.n)
				miss.first = page;
			miss.n = page - miss.first + 1;
		}
	}
	return miss;
}

uint64_t pt_touch(struct pagetable *pt, uint64_t page, uint64_t n, uint8_t want)
{
	uint64_t end = page + n, fresh = 0;

	while (page < end) {
		struct pt_leaf *leaf = pt_leaf(pt, page);
		uint64_t stop = leaf_end(pt, page, end);
		unsigned int i = pt_index(pt, page);

		for (; page < stop; page++, i++) {
			uint8_t s = leaf ? leaf->state[i] : 0;

			if (!(s & PT_FRESH) || (s & want) != want)
				continue;
			atomic_store_explicit(&leaf->state[i], s & ~PT_FRESH,
					      memory_order_release);
			fresh++;
		}
	}
	return fresh;
}

/*
 * The entry that points to the leaf of @page. Missing directories are made if @make (then
 * NULL means no memory), else NULL means that there is none.
 */
static _Atomic(void *) *leaf_entry(struct pagetable *pt, uint64_t page, bool make)
{
	struct pt_dir *dir = pt->root;

	for (int level = PT_DIR_LEVELS; level > 1; level--) {
		_Atomic(void *) *e =
		    &dir->entry[page >> (PT_LEAF_BITS * level) & INDEX_MASK];
		void *next = atomic_load_explicit(e, memory_order_acquire);

		if (!next && make) {
			struct pt_dir *fresh = calloc(1, sizeof(*fresh));

			if (!fresh)
				return NULL;
			if (atomic_compare_exchange_strong(e, &next, fresh))
				next = fresh;
			else
				free(fresh);
		}
		if (!next)
			return NULL;
		dir = next;
	}
	return &dir->entry[page >> PT_LEAF_BITS & INDEX_MASK];
}

bool pt_ready(struct pagetable *pt, uint64_t page, uint64_t n)
{
	uint64_t end = page + n;

	if (pt->flat)
		return true;
	if (end > PT_SPARSE_PAGES || end < page)
		return false;
	for (; page < end; page = leaf_end(pt, page, end)) {
		_Atomic(void *) *e = leaf_entry(pt, page, false);
		struct pt_leaf *spare = pt->spare;

		if (!e)
			return false;
		if (atomic_load_explicit(e, memory_order_acquire))
			continue;
		if (!spare)
			return false;
		pt->spare = spare->next_free;
		atomic_store_explicit(e, spare, memory_order_release);
	}
	return true;
}

int pt_prepare(struct pagetable *pt, uint64_t page, uint64_t n)
{
	uint64_t end = page + n;

	if (pt->flat)
		return 0;
	if (end > PT_SPARSE_PAGES || end < page)
		return -EFAULT;
	for (; page < end; page = leaf_end(pt, page, end)) {
		_Atomic(void *) *e = leaf_entry(pt, page, true);
		struct pt_leaf *leaf;
		void *none = NULL;

		if (!e)
			return -ENOMEM;
		if (atomic_load_explicit(e, memory_order_acquire))
			continue;
		leaf = calloc(1, pt->leaf_size);
		if (!leaf)
			return -ENOMEM;
		if (!atomic_compare_exchange_strong(e, &none, leaf))
			free(leaf);
	}
	return 0;
}

uint64_t pt_publish(struct pagetable *pt, uint64_t page, uint64_t n, uint8_t rw,
		    uint8_t flags, pt_page_fn *fn, void *arg)
{
	uint64_t end = page + n, changed = 0;

	while (page < end) {
		struct pt_leaf *leaf = pt_leaf(pt, page);
		uint64_t stop = leaf_end(pt, page, end);
		unsigned int i = pt_index(pt, page);

		for (; page < stop; page++, i++) {
			uint8_t s = leaf->state[i], to = (s & ~PT_FRESH) | rw | flags;

			if ((s & rw) == rw)
				continue;
			atomic_store_explicit(&leaf->state[i], to, memory_order_release);
			show_change(pt, page, s, to);
			changed++;
			if (s)
				continue;
			leaf->live++;
			atomic_fetch_add_explicit(&pt->live, 1, memory_order_relaxed);
			if (fn)
				fn(arg, leaf, i, page);
		}
	}
	if (changed)
		show_range(pt, end - n, n);
	return changed;
}

/* All of its pages, eight at a time. How many had a state? */
static uint64_t clear_whole_leaf(struct pagetable *pt, struct pt_leaf *leaf)
{
	_Atomic uint64_t *eight = (_Atomic uint64_t *)leaf->state;
	uint32_t cleared = leaf->live;

	for (unsigned int i = 0; i < PT_LEAF_PAGES / 8; i++)
		atomic_store_explicit(&eight[i], 0, memory_order_release);
	leaf->live = 0;
	atomic_fetch_sub_explicit(&pt->live, cleared, memory_order_relaxed);
	return cleared;
}

static uint64_t clear_leaf(struct pagetable *pt, struct pt_leaf *leaf, uint64_t page,
			   uint64_t stop, pt_page_fn *fn, void *arg)
{
	unsigned int i = pt_index(pt, page);
	uint64_t cleared = 0;

	if (!leaf->live)
		return 0;
	if (stop - page == PT_LEAF_PAGES && !fn)
		return clear_whole_leaf(pt, leaf);
	for (; page < stop && leaf->live; page++, i++) {
		if (!leaf->state[i])
			continue;
		show_change(pt, page, leaf->state[i], 0);
		atomic_store_explicit(&leaf->state[i], 0, memory_order_release);
		leaf->live--;
		cleared++;
		if (fn)
			fn(arg, leaf, i, page);
	}
	atomic_fetch_sub_explicit(&pt->live, cleared, memory_order_relaxed);
	return cleared;
}

/* Take an empty leaf out; readers that look at it notice by the generation. */
static void retire(struct pagetable *pt, _Atomic(void *) *e, struct pt_leaf *leaf)
{
	atomic_fetch_add(&pt->gen, 1);
	atomic_store_explicit(e, NULL, memory_order_release);
	leaf->next_free = pt->spare;
	pt->spare = leaf;
}

/* struct clearing - arguments of pt_clear() on their way down */
struct clearing {
	struct pagetable *pt;
	uint64_t page, end;
	bool keep;
	pt_page_fn *fn;
	void *arg;
};

static uint64_t clear_dir(const struct clearing *c, struct pt_dir *dir, int level,
			  uint64_t base)
{
	uint64_t step = 1ull << (PT_LEAF_BITS * level), cleared = 0;
	uint64_t from = c->page > base ? (c->page - base) / step : 0;

	for (uint64_t i = from; i < PT_LEAF_PAGES && base + i * step < c->end; i++) {
		uint64_t start = base + i * step;
		uint64_t page = start > c->page ? start : c->page;
		uint64_t stop = start + step < c->end ? start + step : c->end;
		void *p = dir->entry[i];

		if (!p)
			continue;
		if (level > 1) {
			cleared += clear_dir(c, p, level - 1, start);
			continue;
		}
		cleared += clear_leaf(c->pt, p, page, stop, c->fn, c->arg);
		if (!c->keep && !((struct pt_leaf *)p)->live)
			retire(c->pt, &dir->entry[i], p);
	}
	return cleared;
}

uint64_t pt_clear(struct pagetable *pt, uint64_t page, uint64_t n, bool keep,
		  pt_page_fn *fn, void *arg)
{
	uint64_t last = pt->first + pt->count, end = page + n, cleared = 0;
	struct clearing c = {.pt = pt, .keep = keep, .fn = fn, .arg = arg};

	if (end < page || end > last)
		end = last;
	if (page < pt->first)
		page = pt->first;
	if (page >= end || (pt->flat && !pt->live))
		return 0;
	c.page = page;
	c.end = end;
	if (!pt->flat)
		cleared = clear_dir(&c, pt->root, PT_DIR_LEVELS, 0);
	while (pt->flat && page < end) {
		uint64_t stop = leaf_end(pt, page, end);

		cleared += clear_leaf(pt, pt_leaf(pt, page), page, stop, fn, arg);
		page = stop;
	}
	if (cleared)
		show_range(pt, c.page, end - c.page);
	return cleared;
}

uint8_t pt_state(const struct pagetable *pt, uint64_t page)
{
	const struct pt_leaf *leaf = pt_leaf(pt, page);

	return leaf ? leaf->state[pt_index(pt, page)] : 0;
}
