/*
 * recorder.c - see recorder.h.
 *
 * Theory of operation
 *
 * A writer takes a number (next), which names its slot, marks the slot as being written by an
 * odd sequence, writes, and marks it as written. The mark is taken by compare-and-exchange
 * from an even, older sequence; if that fails, another writer is a whole turn of the ring
 * behind, or ahead, in the same slot: then this record is dropped and counted (lost), rather
 * than two mixed.
 *
 * The file is made with all of its room allocated, so that writing to it cannot fail later.
 * It is closed when it is mapped. Objects come in blocks; when all are used, the file is
 * opened again by its name, made longer, and the next block is mapped. Where any of this
 * cannot be done, the object is common memory, and a number in the header tells that there
 * are such.
 *
 * Locks: @lock is for making and freeing objects.
 */
#include "base/rank.h"
#include "trace/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/lock.h"

#define MAX_RINGS 8 /* each at least twice as large as the one before */

/*
 * struct recorder_inside
 * @path, @dev, @ino: the file
 * @piece:	what of it is mapped
 * @free:	objects that were given back
 * @fresh, @fresh_left: of the last block, those that were never used
 * @sink, @sink_kinds: who is told of what; @ring_kinds: what is recorded
 * @ring:	the rings, @n_rings of them: who has loaded one may still write to it
 * @abandoned:	a child of fork
 */
struct recorder_inside {
	struct lock lock;
	struct recorder_cfg cfg;
	char *path;
	dev_t dev;
	ino_t ino;
	struct recorder_piece piece[TRACE_BLOCKS + MAX_RINGS];
	struct recorder_ring ring[MAX_RINGS];
	unsigned int n_rings;
	unsigned int n_pieces, n_blocks;
	struct trace_object **free;
	size_t n_free, room_free;
	struct trace_object *fresh;
	size_t fresh_left;
	recorder_sink *sink;
	uint64_t sink_kinds, ring_kinds;
	bool abandoned;
};

/* --- the file --------------------------------------------------------------------- */

/* fallocate(2) beyond the limit of file sizes would end the program with SIGXFSZ */
static bool size_allowed(uint64_t size)
{
	struct rlimit r;

	return getrlimit(RLIMIT_FSIZE, &r) == 0 && size <= r.rlim_cur;
}

/* Make the file @size bytes long, the last @len of them with room on the disk */
static int allocate(int fd, uint64_t size, uint64_t len)
{
	if (!size_allowed(size))
		return -EFBIG;
	if (fallocate(fd, 0, (off_t)(size - len), (off_t)len) == 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	return ftruncate(fd, (off_t)size) ? -errno : 0;
}

/* Map @len bytes at @offset of @fd, or of nothing */
static int map_piece(struct recorder_inside *in, int fd, uint64_t offset, size_t len)
{
	struct recorder_piece *p = &in->piece[in->n_pieces];
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;

	p->addr = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd,
		       fd < 0 ? 0 : (off_t)offset);
	if (p->addr == MAP_FAILED)
		return -errno;
	p->offset = offset;
	p->len = len;
	in->n_pieces++;
	if (fd >= 0 && in->cfg.mapped)
		in->cfg.mapped(p->addr, len);
	return 0;
}

static int make_file(struct recorder_inside *in, size_t len)
{
	struct stat st;
	int fd, ret;

	if (!in->path)
		return map_piece(in, -1, 0, len);
	fd = open(in->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	ret = fstat(fd, &st) ? -errno : allocate(fd, len, len);
	in->dev = st.st_dev;
	in->ino = st.st_ino;
	if (!ret)
		ret = map_piece(in, fd, 0, len);
	if (ret)
		unlink(in->path);
	close(fd);
	return ret;
}

/* Make the file longer by @len bytes, which are mapped */
static int extend_file(struct recorder_inside *in, uint64_t size, size_t len)
{
	struct stat st;
	int fd, ret;

	if (!in->path)
		return map_piece(in, -1, size, len);
	fd = open(in->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || st.st_dev != in->dev || st.st_ino != in->ino)
		ret = -ESTALE;
	else
		ret = allocate(fd, size + len, len);
	if (!ret)
		ret = map_piece(in, fd, size, len);
	close(fd);
	return ret;
}

/* --- the header ------------------------------------------------------------------- */

/* Field 22 of /proc/self/stat; the second may hold anything, but ends at the last ')' */
static uint64_t start_time(void)
{
	char buf[1024], *p;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC), field = 2;
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return 0;
	buf[n] = '\0';
	for (p = strrchr(buf, ')'); p && field < 22; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p, NULL, 10) : 0;
}

static void describe_process(struct trace_header *h)
{
	struct stat st;

	h->pid = (int32_t)getpid();
	h->uid = (uint32_t)geteuid();
	h->start = start_time();
	snprintf(h->program, sizeof(h->program), "%s", program_invocation_short_name);
	if (gethostname(h->host, sizeof(h->host)))
		h->host[0] = '\0';
	h->host[sizeof(h->host) - 1] = '\0';
	snprintf(h->rank, sizeof(h->rank), "%s", rank_text() ? rank_text() : "");
	if (stat("/proc/self/exe", &st) == 0) {
		h->exe_dev = st.st_dev;
		h->exe_ino = st.st_ino;
	}
}

static size_t ring_end(const struct recorder_cfg *cfg)
{
	return TRACE_HEADER_BYTES + (size_t)cfg->slots * sizeof(struct trace_slot);
}

static void fill_header(struct recorder *r, const struct recorder_cfg *cfg)
{
	struct trace_header *h = r->hdr;
	uint64_t magic;

	h->version = TRACE_VERSION;
	h->header_bytes = TRACE_HEADER_BYTES;
	h->slot_bytes = sizeof(struct trace_slot);
	h->object_bytes = sizeof(struct trace_object);
	h->ring_offset = TRACE_HEADER_BYTES;
	h->slots = cfg->slots;
	h->size = r->in->piece[0].len;
	h->mono = cfg->mono;
	h->real = cfg->real;
	h->full = cfg->full;
	h->kinds = ~(cfg->full ? 0 : trace_busy_kinds & ~cfg->also);
	if (cfg->elsewhere)
		snprintf(h->elsewhere, sizeof(h->elsewhere), "%s", cfg->elsewhere);
	describe_process(h);
	/* who reads this file knows it from now on */
	memcpy(&magic, TRACE_MAGIC, sizeof(magic));
	__atomic_store_n((uint64_t *)(void *)h->magic, magic, __ATOMIC_RELEASE);
}

/* --- life ------------------------------------------------------------------------- */

static bool in_segment(const struct recorder_inside *in, const void *p)
{
	for (unsigned int i = 0; i < in->n_pieces; i++)
		if ((uintptr_t)p - (uintptr_t)in->piece[i].addr < in->piece[i].len)
			return true;
	return false;
}

static void destroy(struct recorder *r)
{
	struct recorder_inside *in = r->in;

	for (size_t i = 0; i < in->n_free; i++)
		if (!in_segment(in, in->free[i]))
			free(in->free[i]);

	for (unsigned int i = 0; i < in->n_pieces; i++)
		munmap(in->piece[i].addr, in->piece[i].len);
	lock_fini(&in->lock);
	free(in->free);
	free(in->path);
	free(in);
	free(r);
}

int recorder_open(const struct recorder_cfg *cfg, struct recorder **out)
{
	/* blocks that come behind must begin with a page */
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t len = (ring_end(cfg) + page - 1) / page * page;
	struct recorder *r;
	int ret;

	if (!cfg->slots || cfg->slots & (cfg->slots - 1) || cfg->slots > TRACE_MAX_SLOTS)
		return -EINVAL;
	r = calloc(1, sizeof(*r));
	if (!r)
		return -ENOMEM;
	r->in = calloc(1, sizeof(*r->in));
	if (!r->in) {
		free(r);
		return -ENOMEM;
	}
	lock_init(&r->in->lock);
	r->in->cfg = *cfg;
	r->in->path = cfg->path ? strdup(cfg->path) : NULL;
	ret = cfg->path && !r->in->path ? -ENOMEM : make_file(r->in, len);
	if (ret) {
		destroy(r);
		return ret;
	}
	r->hdr = (struct trace_header *)r->in->piece[0].addr;
	r->in->ring[0] = (struct recorder_ring){
	    .slot = (struct trace_slot *)(r->in->piece[0].addr + TRACE_HEADER_BYTES),
	    .mask = cfg->slots - 1,
	};
	r->in->n_rings = 1;
	r->ring = &r->in->ring[0];
	fill_header(r, cfg);
	r->in->ring_kinds = cfg->elsewhere ? 0 : r->hdr->kinds;
	r->kinds = r->in->ring_kinds;
	*out = r;
	return 0;
}

void recorder_end(struct recorder *r, enum trace_end end)
{
	atomic_store(&r->hdr->end, end);
}

void recorder_close(struct recorder *r)
{
	if (r)
		destroy(r);
}

const char *recorder_path(const struct recorder *r)
{
	return r->in->path;
}

/* In this order: who reads a slot again later knows what was written meanwhile */
static void copy_words(void *to, const void *from, size_t n)
{
	const uint64_t *f = from;
	uint64_t *t = to;

	for (size_t i = 0; i < n; i++)
		t[i] = __atomic_load_n(&f[i], __ATOMIC_ACQUIRE);
}

bool recorder_copy(const struct recorder *r, uint64_t offset, void *buf, size_t len)
{
	for (unsigned int i = 0; i < r->in->n_pieces; i++) {
		const struct recorder_piece *p = &r->in->piece[i];

		if (offset < p->offset || offset - p->offset > p->len ||
		    len > p->len - (offset - p->offset))
			continue;
		copy_words(buf, p->addr + (offset - p->offset), len / sizeof(uint64_t));
		return true;
	}
	return false;
}

/* --- records ---------------------------------------------------------------------- */

/* 0: not known yet */
static __thread uint32_t this_thread __attribute__((tls_model("initial-exec")));

static uint32_t thread_id(void)
{
	if (!this_thread)
		this_thread = (uint32_t)syscall(SYS_gettid);
	return this_thread;
}

void recorder_forked(struct recorder *r)
{
	struct recorder_inside *in = r->in;

	this_thread = 0;
	r->kinds = 0;
	in->abandoned = true;
	for (unsigned int i = 0; i < in->n_pieces; i++)
		if (mmap(in->piece[i].addr, in->piece[i].len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
			return;
}

void recorder_tell(struct recorder *r, uint64_t kinds, recorder_sink *sink)
{
	r->in->sink = sink;
	r->in->sink_kinds = kinds;
	r->kinds = r->in->ring_kinds | kinds;
}

static void put_in_ring(struct recorder *r, uint16_t device, uint64_t now,
			enum trace_kind kind, const uint64_t *payload)
{
	uint64_t n = atomic_fetch_add_explicit(&r->hdr->next, 1, memory_order_relaxed);
	/* acquire: the ring is there before its place is known */
	const struct recorder_ring *ring =
	    atomic_load_explicit(&r->ring, memory_order_acquire);
	struct trace_slot *s = &ring->slot[n & ring->mask];
	uint64_t seen = atomic_load_explicit(&s->seq, memory_order_relaxed);

	if ((seen & 1) || seen > 2 * n ||
	    !atomic_compare_exchange_strong_explicit(
		&s->seq, &seen, 2 * n + 1, memory_order_acquire, memory_order_relaxed)) {
		atomic_fetch_add_explicit(&r->hdr->lost, 1, memory_order_relaxed);
		return;
	}
	/* release: no word of the record before the odd sequence */
	atomic_store_explicit(&s->time, now, memory_order_release);
	atomic_store_explicit(&s->what,
			      (uint64_t)thread_id() << 32 | (uint64_t)device << 16 |
				  (uint64_t)kind,
			      memory_order_release);
	for (size_t i = 0; i < TRACE_PAYLOAD / 8; i++)
		atomic_store_explicit(&s->payload[i], payload[i], memory_order_release);
	atomic_store_explicit(&s->seq, 2 * n + 2, memory_order_release);
}

void recorder_put_of(struct recorder *r, uint16_t device, uint64_t now,
		     enum trace_kind kind, const uint64_t *payload)
{
	const struct recorder_inside *in = r->in;

	if (in->sink && in->sink_kinds >> kind & 1)
		in->sink(device, now, kind, payload);
	if (!in->sink || in->ring_kinds >> kind & 1)
		put_in_ring(r, device, now, kind, payload);
}

/* --- all kinds, for a while ------------------------------------------------------- */

/* What is in the old ring, to where it belongs in the new one; a record that is being written
   meanwhile is counted by readers as one that they could not read. */
static uint64_t move_records(const struct recorder *r, const struct recorder_ring *old,
			     const struct recorder_ring *new)
{
	uint64_t end = atomic_load(&r->hdr->next);
	uint64_t n = old->mask + 1, first = end > n ? end - n : 0;

	for (uint64_t i = first; i < end; i++) {
		const struct trace_slot *from = &old->slot[i & old->mask];
		struct trace_slot *to = &new->slot[i & new->mask];

		if (atomic_load_explicit(&from->seq, memory_order_acquire) != 2 * i + 2)
			continue;
		memcpy(to, from, sizeof(*to));
		if (atomic_load_explicit(&from->seq, memory_order_acquire) != 2 * i + 2)
			atomic_store(&to->seq, 0);
	}
	return first;
}

/* With the lock */
static int make_ring(struct recorder *r, uint64_t slots)
{
	struct recorder_inside *in = r->in;
	const struct recorder_piece *last = &in->piece[in->n_pieces - 1];
	struct recorder_ring *new = &in->ring[in->n_rings];
	uint64_t offset = last->offset + last->len;
	int ret;

	if (in->n_rings == MAX_RINGS)
		return -ENOSPC;
	ret = extend_file(in, offset, slots * sizeof(struct trace_slot));
	if (ret)
		return ret;
	new->slot = (struct trace_slot *)in->piece[in->n_pieces - 1].addr;
	new->mask = slots - 1;
	r->hdr->ring_first = move_records(r, &in->ring[in->n_rings - 1], new);
	in->n_rings++;
	atomic_store_explicit(&r->ring, new, memory_order_release);
	r->hdr->size = offset + slots * sizeof(struct trace_slot);
	r->hdr->ring_offset = offset;
	r->hdr->slots = slots;
	return 0;
}

static void record_kinds(struct recorder *r, uint64_t kinds)
{
	r->hdr->kinds = kinds;
	r->in->ring_kinds = kinds;
	r->kinds = kinds | r->in->sink_kinds;
}

/* A ring of at least @slots records */
static int enlarge(struct recorder *r, uint64_t slots)
{
	uint64_t n = r->ring->mask + 1;
	int ret = 0;

	/* whoever asked for it may have asked for anything */
	while (n < slots && n < TRACE_MAX_SLOTS)
		n *= 2;
	lock_take(&r->in->lock);
	if (n > r->ring->mask + 1)
		ret = make_ring(r, n);
	lock_release(&r->in->lock);
	return ret;
}

int recorder_start(struct recorder *r, uint64_t slots, uint64_t now)
{
	bool on = !(trace_busy_kinds & ~r->in->ring_kinds);
	int ret;

	if (r->in->abandoned || r->hdr->elsewhere[0])
		return -ENOTSUP;
	if (on && !r->hdr->lease)
		return -EALREADY;
	ret = enlarge(r, slots);
	if (ret)
		return ret;
	/* a lease that is over was of another trace */
	if (on || now > r->hdr->lease)
		r->hdr->lease = 0;
	if (on)
		return 0;
	r->hdr->full_from = now;
	r->hdr->full_until = 0;
	r->hdr->full = 1;
	record_kinds(r, ~0ull);
	return 0;
}

int recorder_stop(struct recorder *r, uint64_t now)
{
	if (!r->hdr->full || r->hdr->full_until)
		return -EALREADY;
	record_kinds(r, ~(trace_busy_kinds & ~r->in->cfg.also));
	r->hdr->full_until = now;
	r->hdr->lease = 0;
	return 0;
}

void recorder_expire(struct recorder *r, uint64_t now)
{
	uint64_t lease = r->hdr->lease;

	if (lease && now > lease)
		recorder_stop(r, now);
}

void recorder_obey(struct recorder *r, uint64_t now)
{
	uint32_t asked = atomic_load_explicit(&r->hdr->asked, memory_order_acquire);

	uint64_t lease = r->hdr->lease;

	if (asked & 1)
		r->hdr->refused = recorder_stop(r, now);
	else if (lease && now > lease) /* who wanted to watch is gone already */
		r->hdr->refused = -ETIME;
	else
		r->hdr->refused = recorder_start(r, r->hdr->ask_slots, now);
	atomic_store_explicit(&r->hdr->done, asked, memory_order_release);
}

/* --- a copy ----------------------------------------------------------------------- */

static int write_all(int fd, const char *p, size_t len, uint64_t offset)
{
	while (len) {
		ssize_t n = pwrite(fd, p, len, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		p += n;
		len -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

/* Only a trace is replaced. */
static bool may_replace(const char *path)
{
	char magic[sizeof(TRACE_MAGIC) - 1] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	bool may;

	if (fd < 0)
		return errno == ENOENT;
	may = read(fd, magic, sizeof(magic)) == (ssize_t)sizeof(magic) &&
	      !memcmp(magic, TRACE_MAGIC, sizeof(magic));
	close(fd);
	return may;
}

int recorder_save(struct recorder *r, const char *path)
{
	char tmp[PATH_MAX];
	int fd, ret = 0;

	if (!may_replace(path))
		return -EEXIST;
	if (snprintf(tmp, sizeof(tmp), "%s.XXXXXX", path) >= (int)sizeof(tmp))
		return -ENAMETOOLONG;
	fd = mkostemp(tmp, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	lock_take(&r->in->lock);
	for (unsigned int i = 0; i < r->in->n_pieces && !ret; i++)
		ret = write_all(fd, r->in->piece[i].addr, r->in->piece[i].len,
				r->in->piece[i].offset);
	lock_release(&r->in->lock);
	if (close(fd) && !ret)
		ret = -errno;
	if (!ret && rename(tmp, path))
		ret = -errno;
	if (ret)
		unlink(tmp);
	return ret;
}

/* --- objects ---------------------------------------------------------------------- */

/* With the lock: a new block. */
static bool add_block(struct recorder *r)
{
	struct recorder_inside *in = r->in;
	size_t n = (size_t)TRACE_FIRST_BLOCK << in->n_blocks;
	size_t len = n * sizeof(struct trace_object);
	struct trace_block *b = &r->hdr->block[in->n_blocks];
	uint64_t offset =
	    in->piece[in->n_pieces - 1].offset + in->piece[in->n_pieces - 1].len;

	if (in->n_blocks == TRACE_BLOCKS || extend_file(in, offset, len))
		return false;
	in->fresh = (struct trace_object *)in->piece[in->n_pieces - 1].addr;
	in->fresh_left = n;
	in->n_blocks++;
	b->offset = offset;
	r->hdr->size = offset + len;
	atomic_store_explicit(&b->count, n, memory_order_release);
	return true;
}

static struct trace_object *take_object(struct recorder *r)
{
	struct recorder_inside *in = r->in;

	if (in->n_free)
		return in->free[--in->n_free];
	if (!in->fresh_left && !add_block(r))
		return NULL;
	in->fresh_left--;
	return in->fresh++;
}

struct trace_object *recorder_object(struct recorder *r)
{
	struct trace_object *o = NULL;

	if (r && !r->in->abandoned) {
		lock_take(&r->in->lock);
		o = take_object(r);
		lock_release(&r->in->lock);
	}
	if (!o) {
		if (r)
			atomic_fetch_add(&r->hdr->unlisted, 1);
		return calloc(1, sizeof(*o));
	}
	memset(o, 0, sizeof(*o));
	o->serial = atomic_fetch_add(&r->hdr->serial, 1) + 1;
	return o;
}

/* With the lock. If there is no memory for its place, it is not used again. */
static void keep_free(struct recorder_inside *in, struct trace_object *o)
{
	if (in->n_free == in->room_free) {
		size_t room = in->room_free ? 2 * in->room_free : 64;
		struct trace_object **more = realloc(in->free, room * sizeof(*more));

		if (!more)
			return;
		in->free = more;
		in->room_free = room;
	}
	in->free[in->n_free++] = o;
}

/* What is known of the whole run from objects that go. With the lock */
static void keep_sums(struct trace_header *h, const struct trace_object *o)
{
	uint32_t kind = atomic_load_explicit(&o->kind, memory_order_relaxed);

	if (kind == TRACE_OBJ_CQ)
		h->completions += o->cq.produced;
	if (kind == TRACE_OBJ_QP && o->qp.sq.most > h->most)
		h->most = o->qp.sq.most;
}

void recorder_object_free(struct recorder *r, struct trace_object *o)
{
	if (!o)
		return;
	if (!r) {
		free(o);
		return;
	}
	if (r->in->abandoned) {
		recorder_object_ready(o, TRACE_OBJ_FREE);
		return;
	}
	lock_take(&r->in->lock);
	keep_sums(r->hdr, o);
	/* also one outside of the segment stays: somebody may still look whether it is gone */
	recorder_object_ready(o, TRACE_OBJ_FREE);
	keep_free(r->in, o);
	lock_release(&r->in->lock);
}
