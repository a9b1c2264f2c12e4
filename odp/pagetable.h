/*
 * pagetable.h - the page-table cache of one MR: for each page, what the HCA may do with
 * it.
 *
 * Pure: it knows neither memory, nor faults, nor time. One byte per page, in leaves of
 * 512 pages. A flat table has all its leaves in one piece; a sparse one (implicit MRs,
 * very large ones) makes them on demand below four levels of directories, 9 bits each, as
 * the CPU's own page tables have it.
 *
 * Locking: one lock of the caller covers all changes. pt_hit() alone runs without it. A
 * leaf of a sparse table that became empty is taken out and used again elsewhere, never
 * freed before the table is; a lock-free reader that still looks at it notices by the
 * generation.
 */
#ifndef URXE_ODP_PAGETABLE_H
#define URXE_ODP_PAGETABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/format.h"

/*
 * State of a page. PT_WRITE never without PT_READ.
 * @PT_PREFETCHED: came by prefetch
 * @PT_FRESH: came by prefetch, and no access was there yet
 */
#define PT_READ	      1
#define PT_WRITE      2
#define PT_PREFETCHED 4
#define PT_FRESH      8

#define PT_LEAF_BITS  9
#define PT_LEAF_PAGES (1u << PT_LEAF_BITS)
#define PT_DIR_LEVELS 4
/* Pages that a sparse table can name: 57 bits of address with pages of 4 KiB */
#define PT_SPARSE_PAGES (1ull << (PT_LEAF_BITS * (PT_DIR_LEVELS + 1)))

/*
 * struct pt_leaf - 512 pages
 * @state:	eight-byte aligned, as it comes first
 * @live:	pages with a state other than 0
 * @next_free:	in pagetable.spare
 * @slot:	one per page, of the owner's eviction list; only in tables made with
 * @slots
 */
struct pt_leaf {
	_Atomic uint8_t state[PT_LEAF_PAGES];
	struct pt_leaf *next_free;
	uint32_t live;
	uint32_t slot[];
};

/*
 * struct pt_show - the table from outside: a character for each 2^@shift pages
 * @mr:		where that is
 * @has:	a character each: of its pages, those that are there at all, are writable, came by
 *		prefetch
 */
struct pt_show {
	struct trace_mr *mr;
	unsigned int shift;
	struct {
		uint64_t there, writable, prefetched;
	} has[];
};

struct pt_dir {
	_Atomic(void *) entry[PT_LEAF_PAGES];
};

/*
 * struct pagetable
 * @first, @count:	the pages covered
 * @leaf_size:		bytes of a leaf
 * @flat:		all leaves, or NULL for a sparse table
 * @root:		of a sparse table
 * @gen:		advances when a leaf is taken out
 * @live:		pages with a state other than 0
 * @spare:		leaves that were taken out
 * @show:		where the pages are shown to others, or NULL
 */
struct pagetable {
	uint64_t first, count;
	size_t leaf_size;
	char *flat;
	struct pt_dir *root;
	_Atomic uint64_t gen;
	_Atomic uint64_t live;
	struct pt_leaf *spare;
	struct pt_show *show;
};

/* 0 or -ENOMEM. @slots: with pt_leaf.slot */
int pt_init(struct pagetable *pt, uint64_t first, uint64_t count, bool sparse,
	    bool slots);
void pt_fini(struct pagetable *pt);
/* From now on the pages are shown in @mr. 0 or -ENOMEM; before the first page appears */
int pt_show_in(struct pagetable *pt, struct trace_mr *mr);

/* The leaf of @page, NULL if there is none. Lock-free, but see the generation. */
static inline struct pt_leaf *pt_leaf(const struct pagetable *pt, uint64_t page)
{
	void *p = pt->root;

	if (pt->flat)
		return (struct pt_leaf *)(pt->flat +
					  ((page - pt->first) >> PT_LEAF_BITS) *
					      pt->leaf_size);
	if (page >= PT_SPARSE_PAGES)
		return NULL;
	for (int level = PT_DIR_LEVELS; level > 0 && p; level--)
		p = atomic_load_explicit(
		    &((struct pt_dir *)p)
			 ->entry[page >> (PT_LEAF_BITS * level) & (PT_LEAF_PAGES - 1)],
		    memory_order_acquire);
	return p;
}

static inline unsigned int pt_index(const struct pagetable *pt, uint64_t page)
{
	return (pt->flat ? page - pt->first : page) & (PT_LEAF_PAGES - 1);
}

/*
 * pt_hit - may the HCA do @want (PT_READ, or both) with all of the pages, none of them
 * fresh? Lock-free. @n > 0, all pages inside the table.
 */
static inline bool pt_hit(const struct pagetable *pt, uint64_t page, uint64_t n,
			  uint8_t want)
{
	uint64_t gen = atomic_load_explicit(&pt->gen, memory_order_acquire);

	do {
		struct pt_leaf *leaf = pt_leaf(pt, page);
		unsigned int i = pt_index(pt, page);

		if (!leaf)
			return false;
		for (; n && i < PT_LEAF_PAGES; i++, page++, n--) {
			uint8_t s =
			    atomic_load_explicit(&leaf->state[i], memory_order_acquire);

			if ((s & (want | PT_FRESH)) != want)
				return false;
		}
	} while (n);
	return gen == atomic_load_explicit(&pt->gen, memory_order_relaxed);
}

/* Called for each page that appears or disappears */
typedef void pt_page_fn(void *arg, struct pt_leaf *leaf, unsigned int i, uint64_t page);

/* struct pt_span - some pages in a row; none if n is 0 */
struct pt_span {
	uint64_t first, n;
};

/* The smallest span that holds all pages of the range that lack @want */
struct pt_span pt_missing(const struct pagetable *pt, uint64_t page, uint64_t n,
			  uint8_t want);
/* An access to pages that have @want: they are not fresh any more. How many were? */
uint64_t pt_touch(struct pagetable *pt, uint64_t page, uint64_t n, uint8_t want);
/*
 * pt_ready - has each page of the range a leaf? Fills gaps from the spare ones. If false,
 * call pt_prepare() without the lock, and again.
 */
bool pt_ready(struct pagetable *pt, uint64_t page, uint64_t n);
/* Make the leaves of a range; without the lock. 0, -ENOMEM, -EFAULT (no such page) */
int pt_prepare(struct pagetable *pt, uint64_t page, uint64_t n);
/*
 * pt_publish - give the pages @rw (PT_READ, or both), and @flags to those that had less.
 * How many had? The leaves are there (pt_ready). @fn for pages that had nothing, or NULL.
 */
uint64_t pt_publish(struct pagetable *pt, uint64_t page, uint64_t n, uint8_t rw,
		    uint8_t flags, pt_page_fn *fn, void *arg);
/*
 * pt_clear - forget the pages; how many had a state? @keep: leave empty leaves where they
 * are. @fn for each that had, or NULL.
 */
uint64_t pt_clear(struct pagetable *pt, uint64_t page, uint64_t n, bool keep,
		  pt_page_fn *fn, void *arg);
/* State of one page */
uint8_t pt_state(const struct pagetable *pt, uint64_t page);

#endif
