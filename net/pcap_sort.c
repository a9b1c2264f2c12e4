/*
 * pcap_sort.c - put the packets of a capture into the order of time.
 *
 * Each process keeps packets for a moment and appends them together, so those of several are
 * not in the order of their times. When nobody writes any more they are put in order: a new
 * file takes the place of the old one, so that a reader has either, and a full disk costs
 * nothing. A file that is in order is left alone, and so is one that is damaged.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/file_lock.h"
#include "net/pcap.h"
#include "net/pcap_internal.h"

#define RECORD_MAX (1u << 20)

/* struct place - a packet: when it came, and where it is in the file, with its header */
struct place {
	uint64_t when;
	off_t at;
	uint32_t len;
};

/* struct places - all of them; @ordered: they are in the order of time */
struct places {
	struct place *at;
	size_t n, room;
	bool ordered;
};

static int add_place(struct places *all, const struct place *p)
{
	struct place *more;
	size_t room;

	if (all->n == all->room) {
		room = all->room ? 2 * all->room : 1024;
		more = realloc(all->at, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		all->at = more;
		all->room = room;
	}
	if (all->n && p->when < all->at[all->n - 1].when)
		all->ordered = false;
	all->at[all->n++] = *p;
	return 0;
}

/* 0; -EINVAL: damaged; -ENOMEM */
static int find_places(FILE *f, off_t size, struct places *all)
{
	off_t at = sizeof(struct pcap_file);
	struct pcap_record r;
	int ret = 0;

	if (fseeko(f, at, SEEK_SET))
		return -errno;
	for (; !ret && at < size; at += (off_t)sizeof(r) + r.caplen) {
		struct place p = {.at = at};

		if (fread(&r, sizeof(r), 1, f) != 1 || r.caplen > RECORD_MAX ||
		    size - at < (off_t)sizeof(r) + r.caplen ||
		    fseeko(f, (off_t)r.caplen, SEEK_CUR))
			return -EINVAL;
		p.when = r.sec * 1000000000ull + r.nsec;
		p.len = (uint32_t)sizeof(r) + r.caplen;
		ret = add_place(all, &p);
	}
	return ret;
}

/* Those of one time stay as they are. */
static int by_time(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->when != y->when)
		return x->when < y->when ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static int copy(int from, off_t at, FILE *to, size_t len)
{
	char buf[4096];

	while (len) {
		size_t want = len < sizeof(buf) ? len : sizeof(buf);
		ssize_t n = pread(from, buf, want, at);

		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		if (fwrite(buf, 1, (size_t)n, to) != (size_t)n)
			return -errno;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

static int write_ordered(int from, const struct places *all, int fd)
{
	FILE *to = fdopen(fd, "w");
	int ret;

	if (!to) {
		ret = -errno;
		close(fd);
		return ret;
	}
	ret = copy(from, 0, to, sizeof(struct pcap_file));
	for (size_t i = 0; !ret && i < all->n; i++)
		ret = copy(from, all->at[i].at, to, all->at[i].len);
	if (fclose(to) && !ret)
		ret = -errno;
	return ret;
}

/* A file beside @path, with the rights of the old one, takes its place. */
static int replace(int from, const struct stat *st, const char *path,
		   const struct places *all)
{
	char name[PATH_MAX];
	int fd, ret;

	if (snprintf(name, sizeof(name), "%s.XXXXXX", path) >= (int)sizeof(name))
		return -ENAMETOOLONG;
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	ret = fchmod(fd, st->st_mode & 07777) ||
		      (st->st_uid != geteuid() && fchown(fd, st->st_uid, st->st_gid))
		  ? -errno
		  : 0;
	if (ret)
		close(fd);
	else
		ret = write_ordered(from, all, fd);
	if (!ret && rename(name, path))
		ret = -errno;
	if (ret)
		unlink(name);
	return ret;
}

static int sort_file(FILE *f, const char *path)
{
	struct places all = {.ordered = true};
	int fd = fileno(f), ret;
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
	    st.st_size <= (off_t)sizeof(struct pcap_file) ||
	    lock_byte(fd, F_OFD_SETLK, F_WRLCK, PCAP_BYTE_IN_USE) ||
	    !pcap_is_ours(fd, st.st_size))
		return 0;
	ret = find_places(f, st.st_size, &all);
	if (!ret && !all.ordered) {
		qsort(all.at, all.n, sizeof(*all.at), by_time);
		ret = replace(fd, &st, path, &all);
	}
	free(all.at);
	return ret == -EINVAL ? 0 : ret;
}

int pcap_sort(const char *file)
{
	/* a link stays one */
	char *path = realpath(file, NULL);
	int fd = path ? open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
	FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
	int ret = 0;

	if (f) {
		ret = sort_file(f, path);
		fclose(f);
	} else if (fd >= 0) {
		close(fd);
	}
	free(path);
	return ret;
}
