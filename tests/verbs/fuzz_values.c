/* fuzz_values.c - random numbers, and what calls may name. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/verbs/fuzz_face.h"

struct shared shared;

uint64_t rnd(struct rng *r)
{
	r->s ^= r->s >> 12;
	r->s ^= r->s << 25;
	r->s ^= r->s >> 27;
	return r->s * 0x2545f4914f6cdd1dull;
}

uint32_t below(struct rng *r, uint32_t n)
{
	return (uint32_t)(rnd(r) >> 33) % n;
}

bool one_in(struct rng *r, uint32_t n)
{
	return below(r, n) == 0;
}

/* --- values ----------------------------------------------------------------------- */

uint32_t some_u32(struct rng *r)
{
	static const uint32_t edge[] = {
	    0, 16, 64, 4096, 65535, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};

	switch (below(r, 8)) {
	case 0:
		return edge[below(r, sizeof(edge) / sizeof(edge[0]))];
	case 1:
		return (uint32_t)rnd(r);
	case 2:
		return 1u << below(r, 32);
	default:
		return below(r, 24);
	}
}

uint8_t *some_ptr(struct rng *r)
{
	switch (below(r, 16)) {
	case 0:
		return NULL;
	case 1:
		return shared.nowhere + below(r, ARENA);
	case 2:
		return shared.read_only + below(r, 4096);
	case 3:
		return (uint8_t *)(uintptr_t)(~0ull - below(r, 64));
	case 4:
		return shared.arena + ARENA -
		       below(r, 64); /* runs into the hole behind it */
	default:
		return shared.arena + below(r, ARENA - 8192);
	}
}

uint64_t ptr_bits(struct rng *r)
{
	return (uintptr_t)some_ptr(r);
}

uint32_t some_key(struct rng *r)
{
	return one_in(r, 10)
		   ? some_u32(r)
		   : __atomic_load_n(&shared.keys[below(r, KEYS)], __ATOMIC_RELAXED);
}

int some_fd(struct rng *r)
{
	return __atomic_load_n(&shared.fds[below(r, FDS)], __ATOMIC_RELAXED);
}

void fill(struct rng *r, uint8_t *p, size_t len)
{
	for (size_t i = 0; i + 4 <= len; i += 4) {
		uint32_t v = some_u32(r);

		memcpy(p + i, &v, 4);
	}
}

void drop_fd(int slot)
{
	int fd = __atomic_exchange_n(&shared.fds[slot], -1, __ATOMIC_RELAXED);

	if (fd >= 0)
		close(fd);
}

void keep_fd(struct rng *r, int fd)
{
	int slot = (int)(CONTEXTS + below(r, FDS - CONTEXTS)), old;

	if (fd < 0)
		return;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	old = __atomic_exchange_n(&shared.fds[slot], fd, __ATOMIC_RELAXED);
	if (old >= 0)
		close(old);
}
