/*
 * heap.c - see heap.h.
 *
 * Theory of operation
 *
 * Memory comes from the kernel in segments of 1 MiB, which begin at a multiple of 1 MiB:
 *
 *	| guard | struct segment | units ... | guard |
 *
 * The guards are pages without any access, so that whoever runs over the end of a mapping
 * beside a segment does not come into it. What describes the memory is in front of all of it and
 * not between the objects. Units of 4 KiB make spans. A span holds one large object, or small
 * ones of one size, its class; freed ones of them are chained. Free spans that meet become one.
 * What does not fit into a segment gets a mapping of its own, which has guards as well and
 * goes back to the kernel when it is freed. Segments are kept.
 *
 * From an object to its segment: the address is cut to 1 MiB and looked up in a table of two
 * levels. So memory that is not of this heap, which libc has allocated for the library, is told
 * apart without touching it.
 *
 * Lock: one for all. Requests and packets of the data path allocate nothing.
 */
#include "verbs/preload/heap.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/lock.h"

#define SEGMENT	     (1u << 20)
#define UNIT	     4096u
#define UNITS	     (SEGMENT / UNIT)
#define LARGEST_SPAN (UNITS / 2) /* what is larger has a mapping of its own */
#define SMALLEST     16u
#define LARGEST	     4096u /* of the classes */
#define CLASSES	     28u   /* in steps of 16 up to 128, then 4 in each doubling */
#define TABLE_BITS   14	   /* of an address of 48 bits, twice */
#define TABLE	     (1u << TABLE_BITS)

/* What a span is */
enum use {
	FREE,
	SMALL,
	LARGE,
};

/*
 * struct span - units in a row; in the place of its first unit
 * @next, @prev: of those of the class that have room
 * @freed:	objects that were given back, chained
 * @units:	how many
 * @used:	objects that are in use
 * @fresh:	objects that never were: those from here on
 * @use, @class: what it holds
 */
struct span {
	struct span *next, *prev;
	void **freed;
	uint16_t units, used, fresh;
	uint8_t use, class;
};

/*
 * struct segment - what one begins with, behind its guard
 * @own:	the size of the object that it is for, as it is a mapping of its own; or 0
 * @bytes:	of the mapping
 * @next:	of all with spans
 * @longest:	no free span has more units
 * @touched:	units from here on have never been used: they are zero
 * @head:	for each unit, the first one of its span
 */
struct segment {
	size_t own, bytes;
	struct segment *next;
	uint16_t longest, touched;
	uint8_t head[UNITS];
	struct span span[UNITS];
};

/*
 * @table:	segments by address
 * @room:	spans with room for another object, by class
 * @page:	size of pages; @first, @end: units between the guards
 */
static struct {
	struct lock lock;
	struct segment **table[TABLE];
	struct segment *segments;
	struct span *room[CLASSES];
	size_t page;
	uint16_t first, end;
} heap = {.lock = LOCK_INITIALIZER};

/* --- from the kernel -------------------------------------------------------------- */

static size_t round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

/* Behind the guard and the description */
static size_t first_byte(void)
{
	return round_up(heap.page + sizeof(struct segment), heap.page);
}

static struct segment *segment_at(char *base)
{
	return (struct segment *)(base + heap.page);
}

static char *base_of(const void *p)
{
	return (char *)((uintptr_t)p & ~(uintptr_t)(SEGMENT - 1));
}

/* The place of the segment at @base in the table; NULL: there is none, and no room for it */
static struct segment **place(const char *base, bool make)
{
	uintptr_t n = (uintptr_t)base / SEGMENT;
	struct segment ***level;

	if (n >> 2 * TABLE_BITS)
		return NULL;
	level = &heap.table[n >> TABLE_BITS];
	if (!*level && make) {
		void *p = mmap(NULL, TABLE * sizeof(**level), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		*level = p == MAP_FAILED ? NULL : p;
	}
	return *level ? &(*level)[n & (TABLE - 1)] : NULL;
}

static struct segment *segment_of(const void *p)
{
	struct segment **s = place(base_of(p), false);

	return s ? *s : NULL;
}

/* @bytes, of which the first and the last page are guards, at a multiple of SEGMENT */
static char *map_guarded(size_t bytes)
{
	char *p = mmap(NULL, bytes + SEGMENT, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	char *base;
	size_t before;

	if (p == MAP_FAILED)
		return NULL;
	base = base_of(p + SEGMENT - 1);
	before = (size_t)(base - p);
	if (before)
		munmap(p, before);
	munmap(base + bytes, SEGMENT - before);
	if (mmap(base + heap.page, bytes - 2 * heap.page, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
		return base;
	munmap(base, bytes);
	return NULL;
}

static struct segment *new_segment(size_t bytes)
{
	char *base = map_guarded(bytes);
	struct segment **known = base ? place(base, true) : NULL;

	if (!known) {
		if (base)
			munmap(base, bytes);
		return NULL;
	}
	*known = segment_at(base);
	(*known)->bytes = bytes;
	return *known;
}

/* --- spans ------------------------------------------------------------------------ */

/* Units from @at on are one span */
static struct span *make_span(struct segment *s, unsigned int at, unsigned int units,
			      enum use use)
{
	struct span *sp = &s->span[at];

	*sp = (struct span){.units = (uint16_t)units, .use = (uint8_t)use};
	memset(&s->head[at], (int)at, units);
	return sp;
}

static bool add_segment(void)
{
	struct segment *s = new_segment(SEGMENT);

	if (!s)
		return false;
	heap.first = (uint16_t)(round_up(first_byte(), UNIT) / UNIT);
	heap.end = (uint16_t)((SEGMENT - heap.page) / UNIT);
	s->longest = heap.end - heap.first;
	s->touched = heap.first;
	make_span(s, heap.first, s->longest, FREE);
	s->next = heap.segments;
	heap.segments = s;
	return true;
}

/* The first free span of the segment with @units; what is too much stays free */
static struct span *take_from(struct segment *s, unsigned int units, enum use use)
{
	unsigned int longest = 0, at;

	for (at = heap.first; at < heap.end; at += s->span[at].units) {
		unsigned int has = s->span[at].units;

		if (s->span[at].use != FREE)
			continue;
		if (has >= units) {
			if (has > units)
				make_span(s, at + units, has - units, FREE);
			return make_span(s, at, units, use);
		}
		longest = has > longest ? has : longest;
	}
	s->longest = (uint16_t)longest;
	return NULL;
}

static struct span *take_span(unsigned int units, enum use use)
{
	struct span *sp = NULL;

	for (struct segment *s = heap.segments; s && !sp; s = s->next)
		if (s->longest >= units)
			sp = take_from(s, units, use);
	if (!sp && add_segment())
		sp = take_from(heap.segments, units, use);
	return sp;
}

static void give_span(struct segment *s, struct span *sp)
{
	unsigned int at = (unsigned int)(sp - s->span), units = sp->units;

	if (at + units < heap.end && s->span[at + units].use == FREE)
		units += s->span[at + units].units;
	if (at > heap.first && s->span[s->head[at - 1]].use == FREE) {
		units += at - s->head[at - 1];
		at = s->head[at - 1];
	}
	make_span(s, at, units, FREE);
	if (units > s->longest)
		s->longest = (uint16_t)units;
}

static struct segment *segment_of_span(const struct span *sp)
{
	return segment_at(base_of(sp));
}

static char *bytes_of(const struct span *sp)
{
	return base_of(sp) + (size_t)(sp - segment_of_span(sp)->span) * UNIT;
}

/* --- objects ---------------------------------------------------------------------- */

static unsigned int class_of(size_t size)
{
	unsigned int shift;

	if (size <= 128)
		return size ? (unsigned int)((size - 1) / SMALLEST) : 0;
	/* 2^shift is a quarter of the largest power of two below */
	shift = 61u - (unsigned int)__builtin_clzl(size - 1);
	return 8 + (shift - 5) * 4 + (unsigned int)((size - 1) >> shift) - 4;
}

static size_t class_size(unsigned int class)
{
	if (class < 8)
		return (class + 1) * SMALLEST;
	return (size_t)(class % 4 + 5) << (class / 4 + 3);
}

/* At least eight objects in each */
static unsigned int class_units(unsigned int class)
{
	size_t size = class_size(class);

	return size <= 512 ? 1 : size <= 1024 ? 2 : size <= 2048 ? 4 : 8;
}

static unsigned int objects_in(const struct span *sp)
{
	return (unsigned int)(sp->units * UNIT / class_size(sp->class));
}

static void list_add(struct span *sp)
{
	struct span **first = &heap.room[sp->class];

	sp->prev = NULL;
	sp->next = *first;
	if (*first)
		(*first)->prev = sp;
	*first = sp;
}

static void list_del(struct span *sp)
{
	if (sp->next)
		sp->next->prev = sp->prev;
	if (sp->prev)
		sp->prev->next = sp->next;
	else
		heap.room[sp->class] = sp->next;
}

/* The units of @sp are written to from now on. True: they never were before */
static bool touch(struct span *sp)
{
	struct segment *s = segment_of_span(sp);
	unsigned int at = (unsigned int)(sp - s->span);
	bool fresh = at >= s->touched;

	if (at + sp->units > s->touched)
		s->touched = (uint16_t)(at + sp->units);
	return fresh;
}

static void *small(size_t size, bool zero)
{
	unsigned int class = class_of(size);
	struct span *sp = heap.room[class];
	void *p;

	if (!sp) {
		sp = take_span(class_units(class), SMALL);
		if (!sp)
			return NULL;
		sp->class = (uint8_t) class;
		touch(sp);
		list_add(sp);
	}
	p = sp->freed;
	if (p)
		sp->freed = *sp->freed;
	else
		p = bytes_of(sp) + sp->fresh++ * class_size(class);
	if (++sp->used == objects_in(sp))
		list_del(sp);
	return zero ? memset(p, 0, class_size(class)) : p;
}

static void *large(size_t size, bool zero)
{
	struct span *sp = take_span((unsigned int)(round_up(size, UNIT) / UNIT), LARGE);

	if (!sp)
		return NULL;
	return touch(sp) || !zero ? bytes_of(sp) : memset(bytes_of(sp), 0, size);
}

static void *own_mapping(size_t size)
{
	size_t bytes = first_byte() + round_up(size, heap.page) + heap.page;
	struct segment *s = size < PTRDIFF_MAX - 2 * SEGMENT ? new_segment(bytes) : NULL;

	if (!s)
		return NULL;
	s->own = round_up(size, heap.page);
	return base_of(s) + first_byte();
}

void *heap_alloc(size_t size, bool zero)
{
	void *p;

	lock_take(&heap.lock);
	if (!heap.page)
		heap.page = (size_t)sysconf(_SC_PAGESIZE);
	if (size <= LARGEST)
		p = small(size, zero);
	else if (size <= (size_t)LARGEST_SPAN * UNIT)
		p = large(size, zero);
	else
		p = own_mapping(size);
	lock_release(&heap.lock);
	if (!p)
		errno = ENOMEM;
	return p;
}

static struct span *span_of(struct segment *s, const void *p)
{
	return &s->span[s->head[(size_t)((const char *)p - base_of(p)) / UNIT]];
}

size_t heap_room(const void *p)
{
	struct segment *s;
	size_t room = 0;

	lock_take(&heap.lock);
	s = segment_of(p);
	if (s && s->own)
		room = s->own;
	else if (s)
		room = span_of(s, p)->use == SMALL ? class_size(span_of(s, p)->class)
						   : (size_t)span_of(s, p)->units * UNIT;
	lock_release(&heap.lock);
	return room;
}

static void free_small(struct segment *s, struct span *sp, void *p)
{
	if (sp->used == objects_in(sp))
		list_add(sp);
	*(void **)p = sp->freed;
	sp->freed = p;
	/* one that is empty stays if no other has room */
	if (--sp->used || (!sp->next && !sp->prev))
		return;
	list_del(sp);
	give_span(s, sp);
}

bool heap_free(void *p)
{
	struct segment *s;
	size_t bytes = 0;

	lock_take(&heap.lock);
	s = segment_of(p);
	if (s && s->own) {
		bytes = s->bytes;
		*place(base_of(p), false) = NULL;
	} else if (s) {
		struct span *sp = span_of(s, p);

		if (sp->use == SMALL)
			free_small(s, sp, p);
		else
			give_span(s, sp);
	}
	lock_release(&heap.lock);
	/* without the lock: where the range is watched, somebody must take note first */
	if (bytes)
		munmap(base_of(p), bytes);
	return s;
}

void heap_fork_prepare(void)
{
	lock_take(&heap.lock);
}

void heap_fork_done(void)
{
	lock_release(&heap.lock);
}
