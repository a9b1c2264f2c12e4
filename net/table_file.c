/*
 * table_file.c - where the table of processes lies; see table_file.h for how it is found.
 */
#include "net/table_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "net/file_lock.h"
#include "net/filesize.h"

#define PREFIX	     "urxe2." /* the version of the layout, then the namespace */
#define RANDOM_LEN   6	      /* hexadecimal digits behind it */
#define MAKE_TRIES   100
#define NAME_LEN     64
#define LOCK_WAIT_US 500
#define LOCK_TRIES                                                                       \
	2000 /* a second of them: its holder only ever keeps it for microseconds */
#define LOCK_DIR_MS 200

static void pause_us(long us)
{
	const struct timespec t = {.tv_nsec = us * 1000};

	nanosleep(&t, NULL);
}

/* --- locks ------------------------------------------------------------------------ */

int table_file_wait_lock(int fd, short type, unsigned int byte)
{
	int ret, tries;

	for (tries = 0; tries < LOCK_TRIES; tries++) {
		ret = lock_byte(fd, F_OFD_SETLK, type, byte);
		if (ret != -EAGAIN && ret != -EACCES)
			return ret;
		pause_us(LOCK_WAIT_US);
	}
	return -EBUSY;
}

/* The descriptor that holds it. Without it, too, all goes on: see table_file.h */
static int lock_dir(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), ms;

	for (ms = 0; ms < LOCK_DIR_MS && flock(fd, LOCK_EX | LOCK_NB) < 0; ms++)
		pause_us(1000);
	return fd;
}

/* --- the place -------------------------------------------------------------------- */

/*
 * Where tables are when nobody chose: the same for all processes that see the same files.
 * They look for one in each place before they make one, in the first that has room.
 */
static const char *const usual_places[] = {"/dev/shm", "/tmp", "/var/tmp"};

/*
 * struct places
 * @dir:	where to look, in this order
 */
struct places {
	const char *const *dir;
	size_t n;
};

/* @dir, which lives as long as what is returned, or the usual ones */
static struct places places_of(const char *const *dir)
{
	if (*dir)
		return (struct places){dir, 1};
	return (struct places){usual_places,
			       sizeof(usual_places) / sizeof(usual_places[0])};
}

void table_file_where(const char *dir, char *text, size_t size)
{
	struct stat st;

	if (!dir)
		snprintf(text, size,
			 "table of processes in /dev/shm, /tmp or /var/tmp (--shm-dir)");
	else if (stat(dir, &st) < 0)
		snprintf(text, size, "table of processes in %s (--shm-dir)", dir);
	else
		snprintf(text, size,
			 "table of processes in %s, which is user %u's, mode %04o "
			 "(--shm-dir)",
			 dir, (unsigned int)st.st_uid, (unsigned int)st.st_mode & 07777);
}

/* The beginning of the names of this network namespace's tables. 0 or -errno */
static int own_prefix(char name[NAME_LEN])
{
	struct stat ns;

	if (stat("/proc/self/ns/net", &ns) < 0)
		return -errno;
	snprintf(name, NAME_LEN, PREFIX "%llu.", (unsigned long long)ns.st_ino);
	return 0;
}

/* --- one file --------------------------------------------------------------------- */

int table_file_check(int fd, size_t *size)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 077) ||
	    st.st_nlink != 1)
		return -EPERM;
	*size = (size_t)st.st_size;
	return 0;
}

/*
 * Whatever is opened here to be kept is opened by open(2): so the library knows it for its
 * own.
 */

/* @name opened if it is a table of ours of @size bytes, or begun; -1 if not */
static int open_table(const char *dir, const char *name, size_t size)
{
	char path[PATH_MAX];
	size_t len = 0;
	int fd;

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return -1;
	fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (fd >= 0 && (table_file_check(fd, &len) || (len && len != size))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static bool is_table_name(const char *name, const char *prefix)
{
	return !strncmp(name, prefix, strlen(prefix)) &&
	       strlen(name) == strlen(prefix) + RANDOM_LEN;
}

/* The first by name of the tables that there are, opened; -ENOENT: there is none */
static int find_table(const char *dir, const char *prefix, size_t size)
{
	char best[NAME_LEN] = "";
	int found = -ENOENT, fd;
	DIR *d = opendir(dir);
	struct dirent *e;

	if (!d)
		return -errno;
	while ((e = readdir(d))) {
		if (!is_table_name(e->d_name, prefix) ||
		    (best[0] && strcmp(e->d_name, best) > 0))
			continue;
		fd = open_table(dir, e->d_name, size);
		if (fd < 0)
			continue;
		if (found >= 0)
			close(found);
		found = fd;
		strcpy(best, e->d_name);
	}
	closedir(d);
	return found;
}

/* A name that nobody has; its end cannot be foretold. */
static int random_name(const char *dir, const char *prefix, char name[PATH_MAX])
{
	uint32_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		return -EIO;
	if (snprintf(name, PATH_MAX, "%s/%s%0*x", dir, prefix, RANDOM_LEN,
		     number & 0xffffff) >= PATH_MAX)
		return -ENAMETOOLONG;
	return 0;
}

/* All of its pages, so that a full tmpfs is an error here and not a SIGBUS later */
static int allocate(int fd, size_t size)
{
	return filesize_allowed(size) ? -posix_fallocate(fd, 0, (off_t)size) : -EFBIG;
}

static int make_table(const char *dir, const char *prefix, size_t size)
{
	char name[PATH_MAX];
	int ret, fd = -1;

	for (int i = 0; fd < 0 && i < MAKE_TRIES; i++) {
		ret = random_name(dir, prefix, name);
		if (ret)
			return ret;
		fd = open(name, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	if (fd < 0)
		return -errno;
	/* others of this user must be able to open it, whatever the umask is */
	ret = fchmod(fd, 0600) ? -EPERM : allocate(fd, size);
	if (!ret)
		return fd;
	close(fd);
	unlink(name);
	return ret;
}

/* In the first place that has one; -ENOENT: there is none */
static int find_anywhere(struct places places, const char *prefix, size_t size)
{
	int fd = -ENOENT;

	for (size_t i = 0; i < places.n && fd < 0; i++)
		fd = find_table(places.dir[i], prefix, size);
	return places.n > 1 && fd < 0 ? -ENOENT : fd;
}

/* In the first place that takes it; -errno of the last but those that are not there */
static int make_anywhere(struct places places, const char *prefix, size_t size)
{
	int fd = -ENOENT, ret = -ENOENT;

	for (size_t i = 0; i < places.n && fd < 0; i++) {
		/* who cannot look for a table there would make one for itself alone */
		fd = access(places.dir[i], R_OK | W_OK | X_OK)
			 ? -errno
			 : make_table(places.dir[i], prefix, size);
		if (fd != -ENOENT)
			ret = fd;
	}
	return ret;
}

/* The lock of the first place that there is */
static int lock_places(struct places places)
{
	int lock = -1;

	for (size_t i = 0; i < places.n && lock < 0; i++)
		if (access(places.dir[i], R_OK | X_OK) == 0)
			lock = lock_dir(places.dir[i]);
	return lock;
}

static int find_or_make(struct places places, const char *prefix, size_t size)
{
	int fd = find_anywhere(places, prefix, size);
	int lock;

	if (fd != -ENOENT)
		return fd;
	lock = lock_places(places);
	fd = find_anywhere(places, prefix, size);
	if (fd == -ENOENT)
		fd = make_anywhere(places, prefix, size);
	if (lock >= 0)
		close(lock);
	return fd;
}

int table_file_open(const char *dir, size_t size, unsigned int used)
{
	const struct places places = places_of(&dir);
	struct stat st = {0};
	char prefix[NAME_LEN];
	int fd, ret = own_prefix(prefix);

	if (ret)
		return ret;
	/* Keep it from being removed; once more if it just was */
	do {
		fd = find_or_make(places, prefix, size);
		if (fd < 0)
			return fd;
		ret = table_file_wait_lock(fd, F_RDLCK, used);
		if (!ret && fstat(fd, &st) < 0)
			ret = -errno;
		if (ret || !st.st_nlink)
			close(fd);
	} while (!ret && !st.st_nlink);
	return ret ? ret : fd;
}

/* --- removal ---------------------------------------------------------------------- */

/* Remove @name if nobody has it open, or will have: see table_file_open() */
static void remove_unused(int dir, const char *name, unsigned int used)
{
	struct flock any = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = used};
	int fd = openat(dir, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	uint32_t magic;
	size_t size = 0;

	if (fd < 0)
		return;
	/* linked still, now that only we may remove it: then @name is this file */
	if (!lock_byte(fd, F_OFD_SETLK, F_WRLCK, used) && !table_file_check(fd, &size) &&
	    pread(fd, &magic, sizeof(magic), 0) == sizeof(magic) &&
	    magic == TABLE_MAGIC && !fcntl(fd, F_OFD_GETLK, &any) &&
	    any.l_type == F_UNLCK)
		unlinkat(dir, name, 0);
	close(fd);
}

/* PREFIX, the number of a namespace that is not @own's, the random end */
static bool is_others_table(const char *name, const char *own)
{
	const char *number = name + strlen(PREFIX);
	size_t n;

	if (strncmp(name, PREFIX, strlen(PREFIX)) || !strncmp(name, own, strlen(own)))
		return false;
	n = strspn(number, "0123456789");
	return n && number[n] == '.' && strlen(number + n + 1) == RANDOM_LEN;
}

static void remove_stale_in(const char *dir, const char *own, unsigned int used)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (is_others_table(e->d_name, own))
			remove_unused(dirfd(d), e->d_name, used);
	if (d)
		closedir(d);
}

void table_file_remove_stale(const char *dir, unsigned int used)
{
	const struct places places = places_of(&dir);
	char own[NAME_LEN];

	for (size_t i = 0; !own_prefix(own) && i < places.n; i++)
		remove_stale_in(places.dir[i], own, used);
}
