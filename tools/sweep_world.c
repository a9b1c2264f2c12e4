/*
 * sweep_world.c - where runs of a sweep happen.
 *
 * Theory of operation
 *
 * A world is a process that makes runs one after the other, each in a child. It has what
 * programs meet each other by for itself: a network with lo only, a mount of /dev/shm, IPC
 * objects, a directory for temporary files, the table of processes. Where the kernel denies
 * that (no user namespaces), there is one world only, in the network of the sweep.
 *
 * Nothing may be left, whatever ends the sweep. A process beside it, the keeper, waits until
 * nobody has the other end of a pipe; then it kills whatever has the sweep in its environment,
 * and removes the sweep's directory. So a sweep that ends in order and one that is killed by
 * SIGKILL leave the same: nothing.
 *
 * The worlds die with the sweep, and runs with their world (PR_SET_PDEATHSIG).
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tools/marked.h"
#include "tools/descendants.h"
#include "tools/sweep.h"
#include "tools/tools.h"

#define MARK	   "URXE_SWEEP" /* variable of all processes below */
#define FNV_BASIS  0xcbf29ce484222325ull
#define FNV_PRIME  0x100000001b3ull
#define KILL_TURNS 200 /* of 10 ms each */

/* struct world - @fd: orders go there, outcomes come back */
struct world {
	pid_t pid;
	int fd;
	bool busy;
	struct sweep_learnt *learnt;
};

/*
 * struct sweep_worlds
 * @dir:	of the sweep; @keeper: pid, and the pipe that it waits for
 */
struct sweep_worlds {
	struct world world[SWEEP_MAX_JOBS];
	unsigned int n;
	char dir[64];
	pid_t keeper;
	int keeper_fd;
	struct options options;
	char **argv;
};

/* --- the end ---------------------------------------------------------------------- */

static bool kill_one(void *arg, pid_t pid)
{
	unsigned int *n = arg;

	*n += !kill(pid, SIGKILL);
	return true;
}

/* How many were there */
static unsigned int kill_marked(const char *want)
{
	unsigned int n = 0;

	marked_each(want, kill_one, &n);
	return n;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)!remove(path);
	return 0;
}

static void remove_tree(const char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* The keeper; does not return */
static void keep(const char *dir, int fd)
{
	const struct timespec pause = {.tv_nsec = 10000000};
	char want[100], byte;
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	setsid();
	prctl(PR_SET_NAME, "urxe-keeper");
	close_range(0, (unsigned int)fd - 1, 0);
	close_range((unsigned int)fd + 1, ~0u, 0);
	while (read(fd, &byte, 1) < 0 && errno == EINTR)
		;
	snprintf(want, sizeof(want), MARK "=%s", dir);
	for (int i = 0; i < KILL_TURNS && kill_marked(want); i++)
		nanosleep(&pause, NULL);
	remove_tree(dir);
	_exit(0);
}

static int start_keeper(struct sweep_worlds *w)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	w->keeper = fork();
	if (!w->keeper) {
		close(fds[1]);
		keep(w->dir, fds[0]);
	}
	close(fds[0]);
	w->keeper_fd = fds[1];
	return w->keeper < 0 ? -errno : 0;
}

/* --- apart from others ------------------------------------------------------------ */

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int ret = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text)
		      ? 0
		      : -errno;

	if (fd >= 0)
		close(fd);
	return ret;
}

/* The same user and group as outside */
static void map_user(uid_t uid, gid_t gid)
{
	char text[64];

	write_file("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "%d %d 1", (int)uid, (int)uid);
	write_file("/proc/self/uid_map", text);
	snprintf(text, sizeof(text), "%d %d 1", (int)gid, (int)gid);
	write_file("/proc/self/gid_map", text);
}

static int raise_lo(void)
{
	struct ifreq r = {.ifr_name = "lo"};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int ret = fd < 0 || ioctl(fd, SIOCGIFFLAGS, &r) ? -errno : 0;

	r.ifr_flags |= IFF_UP | IFF_RUNNING;
	if (!ret && ioctl(fd, SIOCSIFFLAGS, &r))
		ret = -errno;
	if (fd >= 0)
		close(fd);
	return ret;
}

/* A network, mounts and IPC of our own. 0 or -errno: denied */
static int go_apart(void)
{
	const int what = CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWIPC;
	uid_t uid = geteuid();
	gid_t gid = getegid();
	int ret;

	if (unshare(what)) {
		if (unshare(what | CLONE_NEWUSER))
			return -errno;
		map_user(uid, gid);
	}
	ret = raise_lo();
	/* a connection that was closed must not keep its port for the next run */
	write_file("/proc/sys/net/ipv4/tcp_max_tw_buckets", "0");
	return ret;
}

/* Files that vanish with the world; where that is denied the keeper removes them. */
static void mount_own(const char *place)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
		return;
	(void)!mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700");
	(void)!mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
}

/* Is there a chance to have several? In a child, which goes at once. */
static bool can_go_apart(void)
{
	pid_t pid = fork();
	int status = 1;

	if (!pid)
		_exit(go_apart() != 0);
	if (pid > 0)
		waitpid(pid, &status, 0);
	return pid > 0 && WIFEXITED(status) && !WEXITSTATUS(status);
}

/* --- a world ---------------------------------------------------------------------- */

static void take_output(struct sweep_output *o, int fd)
{
	char buf[16384];
	ssize_t n;

	while ((n = read(fd, buf, sizeof(buf))) > 0) {
		size_t len = (size_t)n, has = strlen(o->end), room = sizeof(o->end) - 1;
		const char *from = buf;

		o->len += len;
		for (size_t i = 0; i < len; i++) {
			o->hash = (o->hash ^ (unsigned char)buf[i]) * FNV_PRIME;
			if (!buf[i])
				buf[i] = ' ';
		}
		if (len > room) {
			from += len - room;
			len = room;
		}
		if (has + len > room) {
			memmove(o->end, o->end + (has + len - room), room - len);
			has = room - len;
		}
		memcpy(o->end + has, from, len);
		o->end[has + len] = '\0';
	}
}

/* Until the child has ended */
static void follow(pid_t pid, const int fds[2], struct sweep_outcome *out)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd p[3] = {{.fd = fds[0], .events = POLLIN},
			      {.fd = fds[1], .events = POLLIN},
			      {.fd = pidfd, .events = POLLIN}};

	while (!(p[2].revents & POLLIN)) {
		if (poll(p, 3, -1) < 0 && errno != EINTR)
			break;
		take_output(&out->out, fds[0]);
		take_output(&out->err, fds[1]);
		for (int i = 0; i < 2; i++)
			if (p[i].revents & POLLHUP)
				p[i].fd = -1;
	}
	waitpid(pid, NULL, 0);
	take_output(&out->out, fds[0]);
	take_output(&out->err, fds[1]);
	close(pidfd);
}

/* The child: becomes a run, and tells what came of it in memory that both have */
static void be_run(struct sweep_worlds *w, unsigned int i,
		   const struct sweep_order *order, const char *place, const int out[2],
		   const int err[2], struct sweep_outcome *shared)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(out[1], STDOUT_FILENO);
	dup2(err[1], STDERR_FILENO);
	sweep_run(order, &w->options, w->argv, place, shared, w->world[i].learnt);
	_exit(0);
}

static int make_run(struct sweep_worlds *w, unsigned int i,
		    const struct sweep_order *order, const char *place,
		    struct sweep_outcome *shared)
{
	int out[2], err[2], status;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	if (pipe2(err, O_CLOEXEC | O_NONBLOCK)) {
		close(out[0]);
		close(out[1]);
		return -EMFILE;
	}
	/* what the program writes may wait, what we read must not */
	fcntl(out[1], F_SETFL, 0);
	fcntl(err[1], F_SETFL, 0);
	memset(shared, 0, sizeof(*shared));
	shared->failed = true;
	shared->out.hash = shared->err.hash = FNV_BASIS;
	pid = fork();
	if (!pid)
		be_run(w, i, order, place, out, err, shared);
	close(out[1]);
	close(err[1]);
	if (pid > 0)
		follow(pid, (int[]){out[0], err[0]}, shared);
	descendants_kill(0, &status);
	close(out[0]);
	close(err[0]);
	return pid < 0 ? -errno : 0;
}

/* Files that runs have left */
static void clean(const char *place)
{
	char tmp[100];

	snprintf(tmp, sizeof(tmp), "%s/tmp", place);
	remove_tree(tmp);
	mkdir(tmp, 0700);
}

static void set_place(struct sweep_worlds *w, const char *place)
{
	char tmp[100];

	snprintf(tmp, sizeof(tmp), "%s/tmp", place);
	setenv("TMPDIR", tmp, 1);
	setenv(MARK, w->dir, 1);
	snprintf(w->options.shm_dir, sizeof(w->options.shm_dir), "%s/shm", place);
	mkdir(place, 0700);
}

/* Does not return */
static void be_world(struct sweep_worlds *w, unsigned int i, int fd, bool apart)
{
	struct sweep_outcome *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
					    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static struct sweep_order order;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	char place[80];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	setpgid(0, 0); /* an interrupt of the terminal is for the sweep */
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	dup2(null, STDIN_FILENO);
	snprintf(place, sizeof(place), "%s/%u", w->dir, i);
	set_place(w, place);
	if (apart && go_apart())
		_exit(1);
	if (apart)
		mount_own(place);
	mkdir(w->options.shm_dir, 0700);
	while (shared != MAP_FAILED && read(fd, &order, sizeof(order)) == sizeof(order)) {
		clean(place);
		if (make_run(w, i, &order, place, shared) ||
		    write(fd, shared, sizeof(*shared)) != sizeof(*shared))
			break;
	}
	_exit(1);
}

static int start_world(struct sweep_worlds *w, unsigned int i, bool apart)
{
	struct world *world = &w->world[i];
	int fds[2];

	world->learnt = mmap(NULL, sizeof(*world->learnt), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (world->learnt == MAP_FAILED)
		return -errno;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	world->pid = fork();
	if (!world->pid) {
		close(fds[0]);
		close(w->keeper_fd);
		be_world(w, i, fds[1], apart);
	}
	close(fds[1]);
	world->fd = fds[0];
	return world->pid < 0 ? -errno : 0;
}

/* --- all of them ------------------------------------------------------------------ */

/* In memory if there is such a directory: the trees of sessions are many small files. */
static int make_dir(struct sweep_worlds *w)
{
	strcpy(w->dir, "/tmp/urxe-sweep.XXXXXX");
	return mkdtemp(w->dir) ? 0 : -errno;
}

struct sweep_worlds *sweep_worlds_open(unsigned int jobs, const struct options *o,
				       char **argv, bool *apart)
{
	struct sweep_worlds *w = calloc(1, sizeof(*w));
	int ret = w ? make_dir(w) : -ENOMEM;

	if (!ret)
		ret = start_keeper(w);
	*apart = can_go_apart();
	if (!*apart)
		jobs = 1;
	if (w) {
		w->options = *o;
		w->argv = argv;
	}
	for (; !ret && w->n < jobs; w->n++)
		ret = start_world(w, w->n, *apart);
	if (!ret)
		return w;
	usage_error("cannot make a place for runs: %s", strerror(-ret));
	if (w)
		sweep_worlds_close(w);
	return NULL;
}

void sweep_worlds_close(struct sweep_worlds *w)
{
	for (unsigned int i = 0; i < w->n; i++) {
		if (w->world[i].pid > 0)
			kill(w->world[i].pid, SIGKILL);
		close(w->world[i].fd);
		waitpid(w->world[i].pid, NULL, 0);
		munmap(w->world[i].learnt, sizeof(*w->world[i].learnt));
	}
	close(w->keeper_fd);
	if (w->keeper > 0)
		waitpid(w->keeper, NULL, 0);
	free(w);
}

unsigned int sweep_worlds_count(const struct sweep_worlds *w)
{
	return w->n;
}

int sweep_worlds_start(struct sweep_worlds *w, unsigned int i,
		       const struct sweep_order *order)
{
	if (write(w->world[i].fd, order, sizeof(*order)) != sizeof(*order))
		return -EPIPE;
	w->world[i].busy = true;
	return 0;
}

int sweep_worlds_wait(struct sweep_worlds *w, int ms, struct sweep_outcome *out)
{
	struct pollfd p[SWEEP_MAX_JOBS];
	int n;

	for (unsigned int i = 0; i < w->n; i++)
		p[i] = (struct pollfd){.fd = w->world[i].busy ? w->world[i].fd : -1,
				       .events = POLLIN};
	n = poll(p, w->n, ms);
	if (n < 0)
		return errno == EINTR ? -2 : -3;
	for (unsigned int i = 0; n && i < w->n; i++) {
		if (!p[i].revents)
			continue;
		w->world[i].busy = false;
		return read(w->world[i].fd, out, sizeof(*out)) == sizeof(*out) ? (int)i
									       : -3;
	}
	return -1;
}

const struct sweep_learnt *sweep_worlds_learnt(const struct sweep_worlds *w,
					       unsigned int i)
{
	return w->world[i].learnt;
}
