/*
 * lane.c - a ring of packets between two processes; see lane.h for how it works.
 */
#include "net/lane.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/filesize.h"

#define MAGIC	   0x32656e616c786575ull
#define NAME	   "urxe-lane" /* of the file, in /proc */
#define LINE	   64
#define RING_START 4096 /* of the mapping: behind struct shared */
#define MAP_BYTES  (RING_START + LANE_BYTES)
#define AHEAD	   1024	       /* bytes that are fetched before they are needed */
#define EARLY	   (64u << 10) /* an empty ring begins anew behind so many bytes */
#define SEALS	   (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/*
 * struct shared - each line is written by one side only, but for @sleeping
 * @head:	written by the producer; @tail: by the consumer
 * @sleeping:	the consumer asks to be woken
 * @producer_left, @consumer_left: has closed the lane
 */
struct shared {
	uint64_t magic, nonce;
	_Alignas(LINE) _Atomic uint64_t head;
	_Atomic uint32_t producer_left;
	_Alignas(LINE) _Atomic uint64_t tail;
	_Atomic uint32_t attached;
	_Alignas(LINE) _Atomic uint32_t sleeping;
	_Atomic uint32_t consumer_left;
};

/* struct record - in front of a packet; @len 0: the rest of the ring is not used */
struct record {
	uint16_t len;
	uint8_t tclass, ttl;
	uint32_t flow;
};
_Static_assert(LANE_PACKET_MAX <= UINT16_MAX, "the length of a record holds it");

/*
 * struct lane - one side's view
 * @pos:	what this side writes or reads next
 * @limit:	producer: @pos must not get beyond; consumer: head as it was last seen
 * @published:	producer: what head says
 */
struct lane {
	struct shared *sh;
	uint8_t *ring;
	uint64_t pos, limit, published;
	bool consumer;
};

static uint32_t offset(const struct lane *l)
{
	return (uint32_t)l->pos & (LANE_BYTES - 1);
}

/*
 * Lines that the other core has now, and that are wanted next: of a record like the one of
 * @bytes before it
 */
static void fetch_ahead(const struct lane *l, uint32_t bytes, bool write)
{
	uint32_t at = offset(l), i;

	if (bytes > AHEAD)
		bytes = AHEAD;
	for (i = 0; i < bytes && at + i < LANE_BYTES; i += LINE) {
#ifdef __x86_64__
		if (write)
			__asm__ __volatile__("prefetchw %0" : : "m"(l->ring[at + i]));
		else
#endif
			__builtin_prefetch(l->ring + at + i);
	}
}

static uint32_t record_bytes(uint32_t len)
{
	return (uint32_t)((sizeof(struct record) + len + LINE - 1) & ~(LINE - 1ul));
}

/* --- life ------------------------------------------------------------------------- */

static int map(int fd, struct lane **out)
{
	struct lane *l = calloc(1, sizeof(*l));
	void *p;

	if (!l)
		return -ENOMEM;
	p = mmap(NULL, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED) {
		free(l);
		return -errno;
	}
	l->sh = p;
	l->ring = (uint8_t *)p + RING_START;
	*out = l;
	return 0;
}

/*
 * In another PID namespace the numbers are those of something else, which could be a
 * device or a pipe that notices an open(): so the name is read first.
 */
static int open_name(pid_t pid, int fd)
{
	static const char target[] = "/memfd:" NAME " (deleted)";
	char name[64], got[sizeof(target)];
	ssize_t n;

	snprintf(name, sizeof(name), "/proc/%d/fd/%d", (int)pid, fd);
	n = readlink(name, got, sizeof(got));
	if (n < 0)
		return -errno;
	if (n != sizeof(target) - 1 || memcmp(got, target, (size_t)n) != 0)
		return -EPROTO;
	/* not blocking, should it be a pipe or a terminal */
	fd = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

/* Opened as the consumer will do it: where that is denied, it is known at once. */
static int make_file(void)
{
	int fd, named;

	if (!filesize_allowed(MAP_BYTES))
		return -EFBIG;
	fd = memfd_create(NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	named = open_name(getpid(), fd);
	close(fd);
	return named;
}

int lane_create(uint64_t nonce, struct lane **out, int *pfd)
{
	int fd = make_file(), ret;

	if (fd < 0)
		return fd;
	if (ftruncate(fd, MAP_BYTES) < 0 || fcntl(fd, F_ADD_SEALS, SEALS) < 0)
		ret = -errno;
	else
		ret = map(fd, out);
	if (ret) {
		close(fd);
		return ret;
	}
	(*out)->limit = LANE_BYTES;
	(*out)->sh->nonce = nonce;
	(*out)->sh->magic = MAGIC;
	*pfd = fd;
	return 0;
}

/* The descriptor could be anything: look before it is mapped */
static int check_file(int fd)
{
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 ||
	    st.st_size != MAP_BYTES || st.st_uid != geteuid())
		return -EPROTO;
	return 0;
}

int lane_attach(pid_t pid, int pfd, uint64_t nonce, struct lane **out)
{
	int fd = open_name(pid, pfd), ret;

	if (fd < 0)
		return fd;
	ret = check_file(fd);
	if (!ret)
		ret = map(fd, out);
	close(fd);
	if (ret)
		return ret;
	if ((*out)->sh->magic != MAGIC || (*out)->sh->nonce != nonce ||
	    atomic_exchange(&(*out)->sh->attached, 1)) {
		lane_abandon(*out);
		return -EPROTO;
	}
	(*out)->consumer = true;
	return 0;
}

void lane_abandon(struct lane *l)
{
	munmap(l->sh, MAP_BYTES);
	free(l);
}

void lane_close(struct lane *l)
{
	_Atomic uint32_t *left =
	    l->consumer ? &l->sh->consumer_left : &l->sh->producer_left;

	atomic_store_explicit(left, 1, memory_order_release);
	lane_abandon(l);
}

bool lane_deserted(const struct lane *l)
{
	const _Atomic uint32_t *left =
	    l->consumer ? &l->sh->producer_left : &l->sh->consumer_left;

	return atomic_load_explicit(left, memory_order_acquire);
}

/* --- the producer ----------------------------------------------------------------- */

bool lane_attached(const struct lane *l)
{
	return atomic_load_explicit(&l->sh->attached, memory_order_acquire);
}

uint64_t lane_progress(const struct lane *l)
{
	return atomic_load_explicit(&l->sh->tail, memory_order_acquire);
}

bool lane_unread(const struct lane *l)
{
	return lane_progress(l) != l->published;
}

/* Up to the start of the ring */
static void skip(struct lane *l)
{
	uint32_t at = offset(l);

	*(struct record *)(l->ring + at) = (struct record){0};
	l->pos += LANE_BYTES - at;
}

static bool room(struct lane *l, uint64_t bytes)
{
	uint64_t tail;

	if (l->limit - l->pos >= bytes)
		return true;
	tail = lane_progress(l);
	/* what the other side wrote: believed as far as it makes sense */
	if (tail > l->published || l->pos - tail > LANE_BYTES)
		return false;
	l->limit = tail + LANE_BYTES;
	return l->limit - l->pos >= bytes;
}

uint8_t *lane_reserve(struct lane *l, uint32_t len)
{
	uint32_t bytes = record_bytes(len), at = offset(l);
	bool wraps = at + bytes > LANE_BYTES;

	if (len > LANE_PACKET_MAX)
		return NULL;
	if (at > EARLY && l->pos == l->published && lane_progress(l) == l->pos)
		wraps = true;
	if (!room(l, wraps ? LANE_BYTES - at + bytes : bytes))
		return NULL;
	if (wraps)
		skip(l);
	return l->ring + offset(l) + sizeof(struct record);
}

void lane_commit(struct lane *l, uint32_t len, uint8_t tclass, uint8_t ttl, uint32_t flow)
{
	*(struct record *)(l->ring + offset(l)) = (struct record){
	    .len = (uint16_t)len, .tclass = tclass, .ttl = ttl, .flow = flow};
	l->pos += record_bytes(len);
	fetch_ahead(l, record_bytes(len), true);
}

uint32_t lane_pending(const struct lane *l)
{
	return (uint32_t)(l->pos - l->published);
}

bool lane_publish(struct lane *l)
{
	if (l->pos == l->published)
		return false;
	l->published = l->pos;
	atomic_store_explicit(&l->sh->head, l->pos, memory_order_release);
	/* pairs with lane_arm(): one of both sees what the other wrote */
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&l->sh->sleeping, memory_order_relaxed) &&
	       atomic_exchange(&l->sh->sleeping, 0);
}

/* --- the consumer ----------------------------------------------------------------- */

bool lane_has(const struct lane *l)
{
	return atomic_load_explicit(&l->sh->head, memory_order_acquire) != l->pos;
}

static int look(struct lane *l)
{
	l->limit = atomic_load_explicit(&l->sh->head, memory_order_acquire);
	if (l->limit - l->pos > LANE_BYTES || (l->limit & (LINE - 1)))
		return -EPROTO;
	return l->limit != l->pos;
}

int lane_next(struct lane *l, struct lane_packet *pkt)
{
	struct record r;
	uint32_t bytes;
	int ret;

	do {
		ret = l->pos == l->limit ? look(l) : 1;
		if (ret <= 0)
			return ret;
		memcpy(&r, l->ring + offset(l), sizeof(r));
		/* the copy is what is judged: the compiler must not look again */
		__asm__ __volatile__("" ::: "memory");
		bytes = r.len ? record_bytes(r.len) : LANE_BYTES - offset(l);
		if (r.len > LANE_PACKET_MAX || bytes > l->limit - l->pos ||
		    bytes > LANE_BYTES - offset(l) || bytes == LANE_BYTES)
			return -EPROTO;
		pkt->data = l->ring + offset(l) + sizeof(r);
		l->pos += bytes;
	} while (!r.len);
	if (l->pos != l->limit)
		fetch_ahead(l, bytes, false);
	pkt->len = r.len;
	pkt->tclass = r.tclass;
	pkt->ttl = r.ttl;
	pkt->flow = r.flow;
	return 1;
}

void lane_consumed(struct lane *l)
{
	atomic_store_explicit(&l->sh->tail, l->pos, memory_order_release);
}

bool lane_arm(struct lane *l)
{
	/* armed already: the producer wakes for what it publishes after this look */
	if (!atomic_load_explicit(&l->sh->sleeping, memory_order_acquire)) {
		atomic_store_explicit(&l->sh->sleeping, 1, memory_order_relaxed);
		atomic_thread_fence(memory_order_seq_cst);
	}
	return !lane_has(l);
}
