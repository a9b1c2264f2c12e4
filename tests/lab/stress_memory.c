/* stress_memory.c - the model of a slot, and what a worker does to its memory. */
#include <errno.h>
#include <sys/mman.h>

#include "stress.h"

struct span some_pages(struct worker *w)
{
	struct span s = {.first = (unsigned int)rnd(w, PAGES)};

	s.n = 1 + (unsigned int)rnd(w, PAGES - s.first < 8 ? PAGES - s.first : 8);
	return s;
}

char *at(const struct worker *w, unsigned int page)
{
	return w->slot + page * PAGE;
}

bool all(const struct worker *w, struct span s, enum state least)
{
	for (unsigned int i = s.first; i < s.first + s.n; i++)
		if (w->state[i] < least)
			return false;
	return true;
}

void fill(uint64_t *p, uint64_t value)
{
	for (unsigned int i = 0; i < PAGE / 8; i++)
		p[i] = value;
}

void verify(const struct worker *w, const uint64_t *p, uint64_t value, const char *what,
	    unsigned int page)
{
	for (unsigned int i = 0; i < PAGE / 8; i++)
		if (p[i] != value)
			fail(w, what, page, i);
}

void check_pages(const struct worker *w, struct span s)
{
	for (unsigned int i = s.first; i < s.first + s.n; i++)
		if (w->state[i] >= READ_ONLY)
			verify(w, (uint64_t *)at(w, i), w->value[i], "memory is wrong",
			       i);
}

/* --- what is done to memory ------------------------------------------------------- */

static void become(struct worker *w, struct span s, enum state state, bool zero)
{
	for (unsigned int i = s.first; i < s.first + s.n; i++) {
		w->state[i] = state;
		if (zero)
			w->value[i] = 0;
	}
}

void map(struct worker *w, struct span s)
{
	void *p = mmap(at(w, s.first), s.n * PAGE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (p == MAP_FAILED)
		fail(w, "mmap", errno, 0);
	become(w, s, MAPPED, true);
}

/*
 * The hole must stay ours, else other threads' stacks and heaps get there: so memory
 * without access takes its place in the same call. To the kernel it is an unmapping as
 * well.
 */
void unmap(struct worker *w, struct span s)
{
	if (mmap(at(w, s.first), s.n * PAGE, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		fail(w, "unmapping", errno, 0);
	become(w, s, UNMAPPED, true);
}

void protect(struct worker *w, struct span s)
{
	static const int prot[] = {
	    [NO_ACCESS] = PROT_NONE,
	    [READ_ONLY] = PROT_READ,
	    [MAPPED] = PROT_READ | PROT_WRITE,
	};
	enum state to = NO_ACCESS + (enum state)rnd(w, 3);

	if (!all(w, s, NO_ACCESS))
		return;
	if (mprotect(at(w, s.first), s.n * PAGE, prot[to]))
		fail(w, "mprotect", errno, 0);
	become(w, s, to, false);
}

void discard(struct worker *w, struct span s)
{
	if (!all(w, s, NO_ACCESS))
		return;
	if (madvise(at(w, s.first), s.n * PAGE, MADV_DONTNEED))
		fail(w, "madvise", errno, 0);
	for (unsigned int i = s.first; i < s.first + s.n; i++)
		w->value[i] = 0;
}

void move_in(struct worker *w, struct span s)
{
	uint64_t value = w->rng;
	uint64_t *p = mmap(NULL, s.n * PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		fail(w, "mmap", errno, 0);
	for (unsigned int i = 0; i < s.n; i++)
		fill(p + i * PAGE / 8, value);
	if (mremap(p, s.n * PAGE, s.n * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED,
		   at(w, s.first)) == MAP_FAILED)
		fail(w, "mremap", errno, 0);
	become(w, s, MAPPED, false);
	for (unsigned int i = s.first; i < s.first + s.n; i++)
		w->value[i] = value;
}

void store(struct worker *w, struct span s)
{
	for (unsigned int i = s.first; i < s.first + s.n; i++) {
		if (w->state[i] != MAPPED)
			continue;
		w->value[i] = w->rng + i;
		fill((uint64_t *)at(w, i), w->value[i]);
	}
}
