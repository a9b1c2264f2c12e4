/*
 * ring_memory.c - memory of queue rings, shared with the application through its command fd.
 *
 * Theory of operation
 *
 * The file grows in arenas, each mapped once. An arena hands out runs of whole pages,
 * first fit, from a list of free runs sorted by offset; neighbours join when freed. Freed
 * pages are punched out of the file at once, so that they read as zeros when used again
 * and a closed queue costs nothing. One mapping per arena, not per ring, keeps the
 * process below vm.max_map_count with tens of thousands of queues.
 *
 * The file is sealed against shrinking: nothing that the application does to it may make
 * our mapping fault. Calls are serialised by the engine lock.
 */
#include "verbs/uverbs/ring_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "net/filesize.h"
#include "verbs/engine/vfile.h"
#include "verbs/host/reason.h"

#define ARENA_MIN (1u << 20) /* bytes */
#define ARENA_MAX (64u << 20)

/* struct run - free bytes [@start, @start+@len) of an arena */
struct run {
	struct run *next;
	size_t start;
	size_t len;
};

/*
 * struct ring_arena - a part of the file
 * @offset:	where it begins in the file
 * @map:	our mapping of @len bytes
 * @free:	sorted by start, never adjacent
 */
struct ring_arena {
	struct ring_arena *next;
	uint64_t offset;
	uint8_t *map;
	size_t len;
	struct run *free;
};

static size_t page_round(size_t n)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return n > SIZE_MAX - page ? 0 : (n + page - 1) & ~(page - 1);
}

static uint8_t *take(struct ring_arena *a, size_t len, uint64_t *offset)
{
	for (struct run **p = &a->free; *p; p = &(*p)->next) {
		struct run *r = *p;
		size_t at = r->start;

		if (r->len < len)
			continue;
		r->start += len;
		r->len -= len;
		if (!r->len) {
			*p = r->next;
			free(r);
		}
		*offset = a->offset + at;
		return a->map + at;
	}
	return NULL;
}

/* The program gets ENOMEM, which does not say that there is memory enough. */
static void tell_refusal(struct ring_space *rs, int err)
{
	if (rs->told)
		return;
	rs->told = true;
	fprintf(stderr, "urxe: no memory for a queue: %s%s\n", strerror(err),
		reason_hint(err));
}

static struct ring_arena *add_arena(struct ring_space *rs, size_t need)
{
	size_t len = rs->size > ARENA_MAX ? ARENA_MAX : page_round((size_t)rs->size);
	struct ring_arena *a = calloc(1, sizeof(*a));
	struct run *r = calloc(1, sizeof(*r));

	if (len < ARENA_MIN)
		len = ARENA_MIN;
	if (len < need)
		len = need;
	errno = ENOMEM;
	if (a && r && !filesize_allowed(rs->size + len))
		errno = EFBIG;
	if (!a || !r || errno == EFBIG || ftruncate(rs->fd, (off_t)(rs->size + len)))
		goto fail;
	a->map =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, rs->fd, (off_t)rs->size);
	if (a->map == MAP_FAILED)
		goto fail;
	/* a child of fork must not drive these rings */
	madvise(a->map, len, MADV_DONTFORK);
	a->len = len;
	a->offset = rs->size;
	r->len = len;
	a->free = r;
	a->next = rs->arenas;
	rs->arenas = a;
	rs->size += len;
	return a;
fail:
	tell_refusal(rs, errno);
	free(a);
	free(r);
	return NULL;
}

static void *ring_alloc(struct engine_ring_owner *o, size_t bytes, uint64_t *offset)
{
	struct ring_space *rs = (struct ring_space *)o;
	size_t len = page_round(bytes);
	struct ring_arena *a;
	uint8_t *p = NULL;

	if (!len)
		return NULL;
	for (a = rs->arenas; a && !p; a = a->next)
		p = take(a, len, offset);
	if (p)
		return p;
	a = add_arena(rs, len);
	return a ? take(a, len, offset) : NULL;
}

/* Put [@start, @start+@len) back, joined with its neighbours. */
static void give(struct ring_arena *a, size_t start, size_t len)
{
	struct run **p = &a->free, *prev = NULL, *r;

	while (*p && (*p)->start < start) {
		prev = *p;
		p = &prev->next;
	}
	r = *p;
	if (prev && prev->start + prev->len == start) {
		prev->len += len;
		if (r && prev->start + prev->len == r->start) {
			prev->len += r->len;
			prev->next = r->next;
			free(r);
		}
		return;
	}
	if (r && start + len == r->start) {
		r->start = start;
		r->len += len;
		return;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return; /* lost until the context closes */
	r->start = start;
	r->len = len;
	r->next = *p;
	*p = r;
}

static void ring_free(struct engine_ring_owner *o, void *ring, size_t bytes,
		      uint64_t offset)
{
	struct ring_space *rs = (struct ring_space *)o;
	size_t len = page_round(bytes);

	for (struct ring_arena *a = rs->arenas; a; a = a->next) {
		if (offset < a->offset || offset >= a->offset + a->len)
			continue;
		/* zeros again, for us and for whoever still has it mapped */
		if (madvise(ring, len, MADV_REMOVE))
			for (size_t i = 0; i < len; i++)
				((uint8_t *)ring)[i] = 0;
		give(a, (size_t)(offset - a->offset), len);
		return;
	}
}

void *ring_space_at(struct ring_space *rs, uint64_t offset, size_t len)
{
	for (struct ring_arena *a = rs->arenas; a; a = a->next)
		if (offset >= a->offset && offset < a->offset + a->len &&
		    len <= a->offset + a->len - offset)
			return a->map + (offset - a->offset);
	return NULL;
}

int ring_space_open(struct ring_space *rs, int *fd)
{
	int ret;

	*rs = (struct ring_space){.owner = {.alloc = ring_alloc, .free = ring_free}};
	*fd = memfd_create(RING_FILE_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (*fd < 0)
		return -errno;
	if (fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK)) {
		ret = -errno;
		goto fail;
	}
	rs->fd = vfile_private_dup(*fd);
	if (rs->fd < 0) {
		ret = rs->fd;
		goto fail;
	}
	ring_fork_follow(rs);
	return 0;
fail:
	close(*fd);
	return ret;
}

void ring_space_close(struct ring_space *rs)
{
	ring_fork_forget(rs);
	while (rs->arenas) {
		struct ring_arena *a = rs->arenas;

		rs->arenas = a->next;
		while (a->free) {
			struct run *r = a->free;

			a->free = r->next;
			free(r);
		}
		munmap(a->map, a->len);
		free(a);
	}
	vfile_private_close(rs->fd);
}
