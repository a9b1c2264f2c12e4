/*
 * ranges.c - which memory is in use by requests.
 *
 * Theory of operation
 *
 * A use is entered under each granule of memory that it touches, in a hash table. Small uses
 * have small granules, large ones larger granules, so that each touches a few; a question
 * looks at the granules of each size that has uses. If that were more than there are uses,
 * all of them are looked at instead.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/splitmix.h"
#include "check/check.h"
#include "check/frames.h"

#define BUCKETS 16384u
#define SIZES	4

/* Granules are 2^shift bytes; a use of at most @max bytes takes the size */
static const struct {
	unsigned int shift;
	uint64_t max;
} sizes[SIZES] = {{12, 8u << 10}, {16, 256u << 10}, {20, 16u << 20}, {26, UINT64_MAX}};

/* struct check_piece - a use in the bucket of a granule; @of_use: the next of its use */
struct check_piece {
	struct check_use *use;
	uint64_t granule;
	struct check_piece *next, **back, *of_use;
};

static struct check_piece *bucket[BUCKETS];
static struct check_piece *unused;
static struct check_use *all;
/* Those that the HCA writes to, and those it only reads */
static unsigned int in_size[2][SIZES];
static atomic_uint n_uses;

static struct check_piece **place(bool writes, unsigned int size, uint64_t granule)
{
	return &bucket[splitmix_mix((granule * SIZES + size) * 2 + writes) % BUCKETS];
}

static unsigned int size_of(uint64_t len)
{
	unsigned int i = 0;

	while (len > sizes[i].max)
		i++;
	return i;
}

static struct check_piece *new_piece(void)
{
	struct check_piece *p = unused;

	if (!p)
		return malloc(sizeof(*p));
	unused = p->next;
	return p;
}

static void drop_pieces(struct check_use *u)
{
	struct check_piece *p;

	while ((p = u->piece)) {
		u->piece = p->of_use;
		*p->back = p->next;
		if (p->next)
			p->next->back = p->back;
		p->next = unused;
		unused = p;
	}
}

bool check_use_add(struct check_use *u)
{
	unsigned int size = size_of(u->len), shift = sizes[size].shift;

	u->piece = NULL;
	for (uint64_t g = u->addr >> shift; g <= (u->addr + u->len - 1) >> shift; g++) {
		struct check_piece *p = new_piece(), **b = place(u->writes, size, g);

		if (!p) {
			drop_pieces(u);
			return false;
		}
		*p = (struct check_piece){u, g, *b, b, u->piece};
		if (*b)
			(*b)->back = &p->next;
		*b = p;
		u->piece = p;
	}
	u->prev = NULL;
	u->next = all;
	if (all)
		all->prev = u;
	all = u;
	in_size[u->writes][size]++;
	check_frames_begin(u);
	atomic_fetch_add_explicit(&n_uses, 1, memory_order_relaxed);
	return true;
}

void check_use_del(struct check_use *u)
{
	if (!u->piece)
		return;
	check_frames_end(u);
	drop_pieces(u);
	if (u->next)
		u->next->prev = u->prev;
	if (u->prev)
		u->prev->next = u->next;
	else
		all = u->next;
	in_size[u->writes][size_of(u->len)]--;
	atomic_fetch_sub_explicit(&n_uses, 1, memory_order_relaxed);
}

void check_forget_uses(void)
{
	memset(bucket, 0, sizeof(bucket));
	memset(in_size, 0, sizeof(in_size));
	all = NULL;
	n_uses = 0;
	check_frames_forget();
}

bool check_uses_any(void)
{
	return atomic_load_explicit(&n_uses, memory_order_relaxed);
}

static bool overlaps(const struct check_use *u, uint64_t addr, uint64_t len)
{
	return u->addr < addr + len && addr < u->addr + u->len;
}

/* struct question - about @len bytes at @addr; @writes: uses of which kind */
struct question {
	uint64_t addr, len;
	bool (*fn)(struct check_use *u, void *arg);
	void *arg;
	bool writes;
};

static bool each_of_all(const struct question *q)
{
	for (struct check_use *u = all; u; u = u->next)
		if (u->writes == q->writes && overlaps(u, q->addr, q->len) &&
		    q->fn(u, q->arg))
			return true;
	return false;
}

static bool each_of_size(const struct question *q, unsigned int size)
{
	unsigned int shift = sizes[size].shift;

	for (uint64_t g = q->addr >> shift; g <= (q->addr + q->len - 1) >> shift; g++)
		for (struct check_piece *p = *place(q->writes, size, g); p; p = p->next)
			if (p->granule == g && p->use->writes == q->writes &&
			    overlaps(p->use, q->addr, q->len) &&
			    size_of(p->use->len) == size && q->fn(p->use, q->arg))
				return true;
	return false;
}

static bool each(const struct question *q)
{
	bool found = false;

	for (unsigned int i = 0; i < SIZES && !found; i++) {
		if (!in_size[q->writes][i])
			continue;
		if (q->len >> sizes[i].shift > n_uses)
			return each_of_all(q);
		found = each_of_size(q, i);
	}
	return found;
}

bool check_writes_in(uint64_t addr, uint64_t len,
		     bool (*fn)(struct check_use *u, void *arg), void *arg)
{
	return len && check_uses_any() &&
	       each(&(struct question){addr, len, fn, arg, true});
}

bool check_uses_in(uint64_t addr, uint64_t len,
		   bool (*fn)(struct check_use *u, void *arg), void *arg)
{
	return check_writes_in(addr, len, fn, arg) ||
	       (len && check_uses_any() &&
		each(&(struct question){addr, len, fn, arg, false}));
}
