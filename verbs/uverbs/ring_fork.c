/*
 * ring_fork.c - a child of fork gets copies of its parent's rings.
 *
 * Theory of operation
 *
 * The provider library has the rings mapped shared, so a child would write into those of its
 * parent: a request that it posts is refused (its command fd is an orphan), but would stay in the
 * ring and be sent with the parent's next one, and what it polls would be taken from the parent.
 * So in the child these mappings are replaced by private ones of the same file, before fork(2)
 * returns. Where they are the kernel knows: /proc/self/maps is read, which a process without open
 * contexts does not do. Our own mappings are not in a child at all (MADV_DONTFORK).
 *
 * The handler runs where only system calls may be made. It takes no lock: the list of rings
 * changes by single stores.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "verbs/uverbs/ring_memory.h"

#define LINE_MAX_BYTES 4096 /* of /proc/self/maps; longer ones are not ours */

static struct lock lock = LOCK_INITIALIZER;
static struct ring_space *spaces;

/* struct mapping - a line of /proc/self/maps */
struct mapping {
	uintptr_t start, end;
	uint64_t offset, inode;
	int prot;
	bool shared;
};

/* The number at *@p in @base, and *@p behind it and the character that follows */
static uint64_t number(char **p, int base)
{
	uint64_t v = strtoull(*p, p, base);

	if (**p)
		(*p)++;
	return v;
}

/* start-end rwxp offset major:minor inode name, see proc(5) */
static struct mapping parse(char *p)
{
	struct mapping m = {0};

	m.start = number(&p, 16);
	m.end = number(&p, 16);
	if (strlen(p) < 5)
		return m;
	m.prot = (p[0] == 'r' ? PROT_READ : 0) | (p[1] == 'w' ? PROT_WRITE : 0);
	m.shared = p[3] == 's';
	p += 5;
	m.offset = number(&p, 16);
	number(&p, 16);
	number(&p, 16);
	m.inode = number(&p, 10);
	return m;
}

static void copy(char *line)
{
	struct mapping m = parse(line);
	struct ring_space *rs = spaces;

	while (m.shared && rs && rs->inode != m.inode)
		rs = rs->next;
	if (m.shared && rs)
		mmap((void *)m.start, m.end - m.start, m.prot, MAP_PRIVATE | MAP_FIXED,
		     rs->fd, (off_t)m.offset);
}

static void copy_all(int fd)
{
	char buf[2 * LINE_MAX_BYTES], *line, *end;
	size_t have = 0;
	ssize_t n;

	while ((n = read(fd, buf + have, sizeof(buf) - 1 - have)) > 0) {
		have += (size_t)n;
		buf[have] = 0;
		for (line = buf; (end = strchr(line, '\n')); line = end + 1) {
			*end = 0;
			if (strstr(line, RING_FILE_NAME))
				copy(line);
		}
		have -= (size_t)(line - buf);
		if (have == sizeof(buf) - 1)
			have = 0;
		memmove(buf, line, have);
	}
}

static void fork_child(void)
{
	int fd;

	lock_init(&lock); /* whoever held it is not here */
	if (!spaces)
		return;
	fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		copy_all(fd);
		close(fd);
	}
	spaces = NULL;
}

static void register_fork(void)
{
	pthread_atfork(NULL, NULL, fork_child);
}

void ring_fork_follow(struct ring_space *rs)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct stat st;

	pthread_once(&once, register_fork);
	if (fstat(rs->fd, &st))
		return;
	rs->inode = st.st_ino;
	lock_take(&lock);
	rs->next = spaces;
	spaces = rs;
	lock_release(&lock);
}

void ring_fork_forget(struct ring_space *rs)
{
	struct ring_space **p = &spaces;

	lock_take(&lock);
	while (*p && *p != rs)
		p = &(*p)->next;
	if (*p)
		*p = rs->next;
	lock_release(&lock);
}
