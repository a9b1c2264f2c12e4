/*
 * process_table.c - the file that processes share; see process_table.h for how it works.
 */
#include "net/process_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/splitmix.h"
#include "net/file_lock.h"
#include "net/filesize.h"
#include "net/table_file.h"

#define REG_ENTRIES   4096	  /* power of two */
#define REG_WINDOW    64	  /* entries at which a key may be */
#define LOCK_REGISTRY TABLE_SLOTS /* bytes that are locked, behind those of the slots */
#define LOCK_USED     (TABLE_SLOTS + 1) /* read lock: the file is somebody's */

/*
 * struct slot - a process
 * @port:	UDP port; 0 while the slot is being taken or given back
 * @generation:	of the lease: tells what its former holder left behind
 * @pid:	for people who look
 * @emptied:	until when it had read all, in TABLE_EMPTIED_NS, modulo 2^32; 0: it does not tell
 */
struct slot {
	_Atomic uint32_t port;
	_Atomic uint32_t generation;
	_Atomic uint32_t pid;
	_Atomic uint32_t emptied;
};

/*
 * struct reg - one claim
 * @owner:	0: free; else generation << 32 | REG_EXCLUSIVE? | slot
 *
 * Written under LOCK_REGISTRY only. Readers take @owner before and after @key (acquire),
 * so that they never pair a key with another claim's owner.
 */
struct reg {
	_Atomic uint64_t key;
	_Atomic uint64_t owner;
};
#define REG_EXCLUSIVE 0x80000000u

struct shared {
	_Atomic uint32_t magic; /* TABLE_MAGIC; who maps a new table writes it */
	_Atomic uint32_t next;	/* where the search for a free slot begins */
	uint32_t reserved[14];
	struct slot slot[TABLE_SLOTS];
	struct reg reg[REG_ENTRIES];
};

/*
 * struct table
 * @fd:		its open file description holds the locks
 * @own:	slots of this process
 * @emptied:	what this process told last
 * @checked:	when a slot's lock was last looked at, and what was found
 */
struct table {
	int fd;
	struct shared *sh;
	unsigned int first;
	uint64_t emptied;
	bool own[TABLE_SLOTS];
	bool live[TABLE_SLOTS];
	uint64_t checked[TABLE_SLOTS];
};

static int lock_registry(struct table *t)
{
	return table_file_wait_lock(t->fd, F_WRLCK, LOCK_REGISTRY);
}

static void unlock_registry(struct table *t)
{
	lock_byte(t->fd, F_OFD_SETLK, F_UNLCK, LOCK_REGISTRY);
}

/*
 * Who finds the file empty gives it its size, all zeroes being a valid table. The pages
 * are reserved, so that a full tmpfs is an error here and not a SIGBUS later.
 */
static int size_file(struct table *t)
{
	size_t size = 0;
	int ret = table_file_check(t->fd, &size);

	if (ret || size == sizeof(struct shared))
		return ret;
	ret = lock_registry(t);
	if (ret)
		return ret;
	ret = table_file_check(t->fd, &size);
	if (!ret && size == 0 && !filesize_allowed(sizeof(struct shared)))
		ret = -EFBIG;
	else if (!ret && size == 0)
		ret = -posix_fallocate(t->fd, 0, sizeof(struct shared));
	else if (!ret && size != sizeof(struct shared))
		ret = -EPROTO;
	unlock_registry(t);
	return ret;
}

static int map_file(struct table *t)
{
	unsigned int start = 0, zero = 0;
	void *p =
	    mmap(NULL, sizeof(*t->sh), PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	t->sh = p;
	atomic_store(&t->sh->magic, TABLE_MAGIC);
	/* Begin anywhere, so that tables of different users rarely use the same QPNs */
	if (getrandom(&start, sizeof(start), GRND_NONBLOCK) == sizeof(start))
		atomic_compare_exchange_strong(&t->sh->next, &zero, start % TABLE_SLOTS);
	return 0;
}

int table_open(const char *dir, struct table **out)
{
	struct table *t = calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return -ENOMEM;
	t->fd = table_file_open(dir, sizeof(struct shared), LOCK_USED);
	ret = t->fd < 0 ? t->fd : size_file(t);
	if (!ret)
		ret = map_file(t);
	if (ret)
		goto err;
	*out = t;
	return 0;
err:
	table_abandon(t);
	return ret;
}

void table_remove_stale(const char *dir)
{
	table_file_remove_stale(dir, LOCK_USED);
}

void *table_memory(const struct table *t, size_t *len)
{
	*len = sizeof(*t->sh);
	return t->sh;
}

void table_abandon(struct table *t)
{
	if (t->sh)
		munmap(t->sh, sizeof(*t->sh));
	if (t->fd >= 0)
		close(t->fd);
	free(t);
}

void table_close(struct table *t)
{
	unsigned int i;

	for (i = 0; i < TABLE_SLOTS; i++)
		if (t->own[i])
			atomic_store(&t->sh->slot[i].port, 0);
	table_abandon(t);
}

static void take_slot(struct table *t, unsigned int slot, uint16_t port)
{
	struct slot *s = &t->sh->slot[slot];

	atomic_store(&s->port, 0);
	atomic_fetch_add(&s->generation, 1);
	atomic_store(&s->pid, (uint32_t)getpid());
	atomic_store(&s->emptied, 0);
	atomic_store(&s->port, port);
	t->own[slot] = true;
	if (!t->first)
		t->first = slot;
}

int table_lease(struct table *t, uint16_t port)
{
	unsigned int start = atomic_load(&t->sh->next), i, slot;

	for (i = 0; i < TABLE_SLOTS - 1; i++) {
		slot = 1 + (start + i) % (TABLE_SLOTS - 1);
		/* a lock of one's own would not stop us */
		if (t->own[slot] || lock_byte(t->fd, F_OFD_SETLK, F_WRLCK, slot))
			continue;
		atomic_store(&t->sh->next, slot);
		take_slot(t, slot, port);
		return (int)slot;
	}
	return -EAGAIN;
}

bool table_is_own(const struct table *t, unsigned int slot)
{
	return slot < TABLE_SLOTS && t->own[slot];
}

static bool is_live(struct table *t, unsigned int slot, uint64_t now)
{
	if (t->own[slot])
		return true;
	if (!t->checked[slot] || now - t->checked[slot] >= TABLE_TRUST_NS) {
		t->live[slot] = lock_byte(t->fd, F_OFD_GETLK, F_WRLCK, slot) > 0;
		t->checked[slot] = now;
	}
	return t->live[slot];
}

uint16_t table_port(struct table *t, unsigned int slot, uint64_t now)
{
	uint16_t port;

	if (slot >= TABLE_SLOTS)
		return 0;
	port =
	    (uint16_t)atomic_load_explicit(&t->sh->slot[slot].port, memory_order_acquire);
	return port && is_live(t, slot, now) ? port : 0;
}

void table_emptied(struct table *t, uint64_t now)
{
	uint64_t tick = now / TABLE_EMPTIED_NS;
	unsigned int slot;

	if (tick == t->emptied)
		return;
	t->emptied = tick;
	for (slot = t->first; slot && slot < TABLE_SLOTS; slot++)
		if (t->own[slot])
			/* odd, so that it is not 0 */
			atomic_store_explicit(&t->sh->slot[slot].emptied,
					      (uint32_t)tick | 1, memory_order_relaxed);
}

uint64_t table_emptied_at(const struct table *t, unsigned int slot, uint64_t now)
{
	uint32_t low = atomic_load_explicit(&t->sh->slot[slot % TABLE_SLOTS].emptied,
					    memory_order_relaxed);
	uint64_t tick = now / TABLE_EMPTIED_NS;
	uint32_t ago = (uint32_t)tick - low;

	if (!low)
		return 0;
	/* its clock may be ahead by a tick */
	return ago > INT32_MAX ? now : (tick - ago) * TABLE_EMPTIED_NS;
}

int table_pid(struct table *t, unsigned int slot, uint64_t now)
{
	return table_port(t, slot, now)
		   ? (int)atomic_load_explicit(&t->sh->slot[slot].pid,
					       memory_order_relaxed)
		   : 0;
}

uint32_t table_generation(const struct table *t, unsigned int slot)
{
	return atomic_load_explicit(&t->sh->slot[slot % TABLE_SLOTS].generation,
				    memory_order_relaxed);
}

/* --- registry --------------------------------------------------------------------- */

static struct reg *reg_entry(const struct table *t, uint64_t key, unsigned int i)
{
	/* Fibonacci hashing: keys may be consecutive service ids */
	uint64_t h = key * SPLITMIX_STEP >> 32;

	return &t->sh->reg[(h + i) % REG_ENTRIES];
}

static uint64_t owner_of(const struct table *t, unsigned int slot, bool exclusive)
{
	return (uint64_t)atomic_load(&t->sh->slot[slot].generation) << 32 |
	       (exclusive ? REG_EXCLUSIVE : 0) | slot;
}

/* The slot behind an owner word if that is still the process that wrote it, else 0 */
static unsigned int live_owner(struct table *t, uint64_t owner, uint64_t now)
{
	unsigned int slot = owner & (TABLE_SLOTS - 1);

	if (!slot || owner >> 32 != atomic_load(&t->sh->slot[slot].generation) ||
	    !is_live(t, slot, now))
		return 0;
	return slot;
}

/*
 * Where to put the claim, or -errno. A claim is rare: it asks the kernel for each owner.
 */
static int claim_entry(struct table *t, uint64_t key, bool exclusive, struct reg **out)
{
	struct reg *free_entry = NULL, *r;
	unsigned int i;
	uint64_t owner;

	for (i = 0; i < REG_WINDOW; i++) {
		r = reg_entry(t, key, i);
		owner = atomic_load(&r->owner);
		if (owner && !table_is_own(t, owner & (TABLE_SLOTS - 1)))
			t->checked[owner & (TABLE_SLOTS - 1)] = 0;
		if (!live_owner(t, owner, 1)) {
			free_entry = free_entry ? free_entry : r;
			continue;
		}
		if (atomic_load(&r->key) == key && (exclusive || owner & REG_EXCLUSIVE))
			return -EADDRINUSE;
	}
	*out = free_entry;
	return free_entry ? 0 : -ENOSPC;
}

int table_claim(struct table *t, uint64_t key, bool exclusive)
{
	struct reg *r;
	int ret;

	if (!t->first)
		return -EINVAL;
	ret = lock_registry(t);
	if (ret)
		return ret;
	ret = claim_entry(t, key, exclusive, &r);
	if (!ret) {
		atomic_store(&r->owner, 0);
		atomic_store(&r->key, key);
		atomic_store(&r->owner, owner_of(t, t->first, exclusive));
	}
	unlock_registry(t);
	return ret;
}

int table_release(struct table *t, uint64_t key)
{
	uint64_t owner, mine;
	unsigned int i;
	struct reg *r;
	int ret;

	ret = lock_registry(t);
	if (ret)
		return ret;
	mine = owner_of(t, t->first, false);
	ret = -ENOENT;
	for (i = 0; ret && i < REG_WINDOW; i++) {
		r = reg_entry(t, key, i);
		owner = atomic_load(&r->owner);
		if ((owner & ~(uint64_t)REG_EXCLUSIVE) == mine &&
		    atomic_load(&r->key) == key) {
			atomic_store(&r->owner, 0);
			ret = 0;
		}
	}
	unlock_registry(t);
	return ret;
}

int table_find(struct table *t, uint64_t key, uint64_t now, unsigned int *slot)
{
	unsigned int i, found, best = 0;
	uint64_t owner;
	struct reg *r;

	for (i = 0; i < REG_WINDOW; i++) {
		r = reg_entry(t, key, i);
		owner = atomic_load(&r->owner);
		if (!owner || atomic_load(&r->key) != key ||
		    atomic_load(&r->owner) != owner)
			continue;
		found = live_owner(t, owner, now);
		if (found && (!best || table_is_own(t, found)))
			best = found;
	}
	*slot = best;
	return best ? 0 : -ENOENT;
}
