/* will.c - leaving a will; see will.h. The other half is in will_execute.c. */
#include "verbs/engine/vfile.h"
#include "verbs/ucma/will.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/filesize.h"
#include "verbs/ucma/will_file.h"

/*
 * struct will
 * @fd:		the file, locked
 * @used:	entries in use, a byte each; @lowest: none below is free
 */
struct will {
	int fd;
	uint8_t *used;
	uint32_t room;
	uint32_t lowest;
};

/* The file gets its name when it is locked, so that nobody takes it for a dead man's. */
static int open_locked(const char *dir)
{
	struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
	char tmp[320], name[320];
	int fd, ret;

	snprintf(tmp, sizeof(tmp), "%s/.will.%d", dir, (int)getpid());
	snprintf(name, sizeof(name), "%s/" WILL_PREFIX "%d", dir, (int)getpid());
	fd = open(tmp, O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	/* `urxe run` must be able to open it, whatever the umask of the program */
	if (!fchmod(fd, 0600) && !fcntl(fd, F_OFD_SETLK, &lock) && !rename(tmp, name))
		return fd;
	ret = -errno;
	unlink(tmp);
	close(fd);
	return ret;
}

/*
 * Who watches wills begins when there is the first one. Opened for reading, too, so that this
 * neither waits for him nor ends in SIGPIPE; what nobody reads is gone with the close.
 */
static void ring_bell(const char *dir)
{
	char name[320];
	struct stat st;
	int fd;

	snprintf(name, sizeof(name), "%s/" WILL_BELL, dir);
	fd = open(name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!fstat(fd, &st) && S_ISFIFO(st.st_mode) && write(fd, "", 1) < 0)
		errno = 0; /* it is full of such bytes */
	close(fd);
}

int will_open(const char *dir, struct will **out)
{
	struct will *w = calloc(1, sizeof(*w));
	int ret;

	if (!w)
		return -ENOMEM;
	w->fd = open_locked(dir);
	if (w->fd < 0) {
		ret = w->fd;
		free(w);
		return ret;
	}
	/* It stays as long as the process, so it is worth a place outside of its limit. */
	w->fd = vfile_private_move(w->fd);
	ring_bell(dir);
	*out = w;
	return 0;
}

/* The number of a free entry, from 1; 0: out of memory */
static uint32_t take_entry(struct will *w)
{
	while (w->lowest < w->room && w->used[w->lowest])
		w->lowest++;
	if (w->lowest == w->room) {
		uint32_t room = w->room ? w->room * 2 : 64;
		uint8_t *used = realloc(w->used, room);

		if (!used)
			return 0;
		memset(used + w->room, 0, room - w->room);
		w->used = used;
		w->room = room;
	}
	w->used[w->lowest] = 1;
	return ++w->lowest;
}

static off_t offset_of(uint32_t entry)
{
	return (off_t)(entry - 1) * (off_t)sizeof(struct will_entry);
}

void will_set(struct will *w, uint32_t *entry, const struct net_path *path,
	      const uint8_t mad[CM_MAD_LEN])
{
	struct will_entry e = {.valid = WILL_VALID, .path = *path};

	if (!*entry)
		*entry = take_entry(w);
	if (!*entry)
		return;
	memcpy(e.mad, mad, CM_MAD_LEN);
	if (!filesize_allowed((uint64_t)offset_of(*entry) + sizeof(e)) ||
	    pwrite(w->fd, &e, sizeof(e), offset_of(*entry)) != sizeof(e))
		will_drop(w, entry);
}

void will_drop(struct will *w, uint32_t *entry)
{
	const uint32_t gone = 0;
	uint32_t i = *entry;

	if (!i)
		return;
	/*
	 * It cannot fail where the entry is; if it did, the peer would be told too much.
	 */
	if (pwrite(w->fd, &gone, sizeof(gone), offset_of(i)) < 0 &&
	    ftruncate(w->fd, 0) < 0)
		return;
	w->used[i - 1] = 0;
	if (i - 1 < w->lowest)
		w->lowest = i - 1;
	*entry = 0;
}

void will_abandon(struct will *w)
{
	close(w->fd);
}
