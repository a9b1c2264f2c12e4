/*
 * memory.c - what the program does to its memory: free(3) and realloc(3), which this library takes
 * the place of, and the calls that liburxe.so tells of.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "check/check.h"
#include "check/objects.h"
#include "verbs/host/libc.h"

#define KEPT 64

static struct {
	uint64_t addr, len;
} kept[KEPT];
static unsigned int n_kept;

bool check_kept_from_children(uint64_t addr, uint64_t len)
{
	for (unsigned int i = 0; i < n_kept && i < KEPT; i++)
		if (kept[i].addr <= addr && addr + len <= kept[i].addr + kept[i].len)
			return true;
	return false;
}

/* struct freed - memory that goes, and how */
struct freed {
	const char *how;
	uint64_t addr, len;
};

static bool in_use(struct check_use *u, void *arg)
{
	const struct freed *f = arg;
	const struct check_with with[] = {{f->how, check_stack()},
					  {"posted", u->request->posted}};
	char what[96];

	if (!check_is_active(u->request) || check_ignored(u->addr, u->len))
		return false;
	check_report(CHECK_FREED_IN_USE, with, 2,
		     "%" PRIu64 " bytes at 0x%" PRIx64 ", of which %s uses %" PRIu64
		     " at 0x%" PRIx64,
		     f->len, f->addr, check_request_name(u->request, what), u->len,
		     u->addr);
	return true;
}

static void freed(const char *how, uint64_t addr, uint64_t len)
{
	struct freed f = {how, addr, len};

	check_uses_in(addr, len, in_use, &f);
}

void check_memory(enum checker_change what, const void *addr, size_t len)
{
	if (!check_lock())
		return;
	if (what == CHECKER_DONTFORK) {
		kept[n_kept % KEPT].addr = (uintptr_t)addr;
		kept[n_kept++ % KEPT].len = len;
	} else {
		freed(what == CHECKER_DISCARD ? "discarded" : "unmapped", (uintptr_t)addr,
		      len);
		check_memory_changed(what, (uintptr_t)addr, len);
	}
	check_unlock();
}

/* --- the heap --------------------------------------------------------------------------- */

/* The lookup of a function frees what an error of an earlier lookup has left. */
static __thread bool looking_up __attribute__((tls_model("initial-exec")));

static void real_free(void *p)
{
	void (*next)(void *p);

	if (looking_up)
		return; /* a few bytes, once */
	looking_up = true;
	next = REAL(free);
	looking_up = false;
	next(p);
}

INTERPOSE void free(void *p)
{
	int err = errno;

	if (p && check_uses_any() && check_lock()) {
		freed("freed", (uintptr_t)p, malloc_usable_size(p));
		check_unlock();
	}
	errno = err;
	real_free(p);
}

INTERPOSE void *realloc(void *p, size_t size)
{
	uint64_t was = (uintptr_t)p;
	size_t had = p && check_uses_any() ? malloc_usable_size(p) : 0;
	void *now = REAL(realloc)(p, size);

	if (had && now && (uintptr_t)now != was && check_lock()) {
		freed("moved by realloc", was, had);
		check_unlock();
	}
	return now;
}
