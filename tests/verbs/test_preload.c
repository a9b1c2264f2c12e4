/*
 * Description: what a program with liburxe.so preloaded sees through libc: the devices by
 * all names of open, stat and their kin, descriptors that are followed, and, when it was
 * not started by urxe, nothing.
 *
 * The program runs itself again with the library (argv[1]) preloaded.
 */
#include <dirent.h>
#include <glob.h>
#include <linux/netlink.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "tests/verbs/util.h"
#include "verbs/host/sysfs.h"

#define NODE "/dev/infiniband/uverbs0"
#define IB   "/sys/class/infiniband"

int __xstat(int ver, const char *path, struct stat *st);
int __fxstat(int ver, int fd, struct stat *st);
int __open_2(const char *path, int flags);
ssize_t __read_chk(int fd, void *buf, size_t len, size_t room);

/* --- a raw client: the real write(2), which the library takes over ---------------- */

static int get_context(int fd)
{
	struct ib_uverbs_get_context_resp resp;
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_get_context cmd;
	} r = {{IB_USER_VERBS_CMD_GET_CONTEXT, 4, 2}, {(uintptr_t)&resp}};

	if (write(fd, &r, sizeof(r)) != sizeof(r))
		return -errno;
	return (int)resp.async_fd;
}

static int open_node(void)
{
	int fd = open(NODE, O_RDWR | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

/* --- under urxe ------------------------------------------------------------------- */

START_TEST(names_of_open)
{
	int fds[] = {
	    open(NODE, O_RDWR),
	    open64(NODE, O_RDWR),
	    openat(AT_FDCWD, NODE, O_RDWR),
	    openat64(5, NODE, O_RDWR),
	    __open_2(NODE, O_RDWR),
	};
	struct stat st;

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		ck_assert_int_ge(fds[i], 0);
		ck_assert_int_eq(fstat(fds[i], &st), 0);
		ck_assert(S_ISCHR(st.st_mode));
		ck_assert_uint_eq(st.st_rdev, makedev(231, 192));
		close(fds[i]);
	}
	ck_assert_int_eq(open("/dev/infiniband/uverbs9", O_RDWR), -1);
	ck_assert_int_eq(errno, ENOENT);
	ck_assert_int_eq(open("/dev/infiniband/umad0", O_RDWR), -1);
	ck_assert_int_eq(errno, ENOENT);
}
END_TEST

static void check_node(int err, const struct stat *st)
{
	ck_assert_int_eq(err, 0);
	ck_assert(S_ISCHR(st->st_mode));
	ck_assert_uint_eq(st->st_rdev, makedev(231, 192));
}

START_TEST(names_of_stat)
{
	int fd = open_node();
	struct stat64 st64;
	struct statx stx;
	struct stat st;

	check_node(stat(NODE, &st), &st);
	check_node(lstat(NODE, &st), &st);
	check_node(fstat(fd, &st), &st);
	check_node(fstatat(AT_FDCWD, NODE, &st, 0), &st);
	check_node(fstatat(fd, "", &st, AT_EMPTY_PATH), &st);
	check_node(stat64(NODE, &st64), (struct stat *)&st64);
	check_node(fstat64(fd, &st64), (struct stat *)&st64);
	check_node(__xstat(1, NODE, &st), &st);
	check_node(__fxstat(1, fd, &st), &st);
	ck_assert_int_eq(statx(AT_FDCWD, NODE, 0, STATX_ALL, &stx), 0);
	ck_assert(S_ISCHR(stx.stx_mode));
	ck_assert_uint_eq(stx.stx_rdev_major, 231);
	ck_assert_int_eq(statx(fd, "", AT_EMPTY_PATH, STATX_ALL, &stx), 0);
	ck_assert_uint_eq(stx.stx_rdev_minor, 192);
	ck_assert_int_eq(access(NODE, R_OK | W_OK), 0);
	ck_assert_int_eq(euidaccess(NODE, R_OK), 0);
	ck_assert_int_eq(faccessat(AT_FDCWD, NODE, R_OK, 0), 0);
	ck_assert_int_eq(access("/dev/infiniband/uverbs9", F_OK), -1);
	ck_assert_int_eq(lgetxattr(NODE, "user.none", NULL, 0), -1);
	ck_assert_int_ne(errno, ENOENT);
	/* others are as ever */
	ck_assert_int_eq(stat("/dev/null", &st), 0);
	ck_assert_uint_eq(st.st_rdev, makedev(1, 3));
	close(fd);
}
END_TEST

static int count_dir(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	ck_assert_ptr_nonnull(d);
	for (struct dirent *e = readdir(d); e; e = readdir(d))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

START_TEST(directories_and_links)
{
	struct dirent **list;
	char path[PATH_MAX];
	ssize_t n;
	glob_t g;

	ck_assert_int_eq(count_dir(IB), 1);
	ck_assert_int_eq(count_dir("/sys/class/infiniband_mad"), 0);
	ck_assert_int_eq(count_dir("/dev/infiniband"), 2);
	ck_assert_int_eq(scandir(IB, &list, NULL, alphasort), 3);
	ck_assert_ptr_nonnull(realpath(IB "/rxe0/device", path));
	ck_assert_str_eq(path, "/sys/devices/urxe/rxe0");
	ck_assert_str_eq(canonicalize_file_name(IB "/rxe0"),
			 "/sys/devices/urxe/rxe0/infiniband/rxe0");
	ck_assert_int_eq(access("/sys/devices/urxe/rxe0/vendor", R_OK), 0);
	n = readlink(IB "/rxe0", path, sizeof(path));
	ck_assert_int_gt(n, 0);
	ck_assert_int_eq(strncmp(path, "../../devices/urxe/", 19), 0);
	ck_assert_int_eq(glob(IB "/*/ports/*/state", 0, NULL, &g), 0);
	ck_assert_uint_eq(g.gl_pathc, 1);
	ck_assert_str_eq(g.gl_pathv[0], IB "/rxe0/ports/1/state");
	ck_assert_int_eq(chdir(IB "/rxe0/ports"), 0);
	ck_assert_int_eq(access("1/state", F_OK), 0);
}
END_TEST

static const char *line_of(const char *path)
{
	static char line[128];
	FILE *f = fopen(path, "r");

	ck_assert_msg(f != NULL, "%s", path);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	fclose(f);
	return line;
}

/* As seen from directories that are there on every machine */
START_TEST(relative_paths_lead_into_the_tree)
{
	static const struct {
		const char *dir, *rel;
	} node[] = {{"/", "dev/infiniband/uverbs0"},
		    {"/dev", "infiniband/uverbs0"},
		    {"/dev", "./infiniband/uverbs0"},
		    {"/dev/infiniband", "uverbs0"},
		    {"/sys/class", "../../dev/infiniband/uverbs0"},
		    {IB, "../../../dev/infiniband/uverbs0"}},
	  file[] = {{"/", "sys/class/infiniband/rxe0/node_type"},
		    {"/sys", "class/infiniband/rxe0/node_type"},
		    {"/sys/class", "infiniband/rxe0/node_type"},
		    {IB, "rxe0/node_type"},
		    {IB "/rxe0", "node_type"},
		    {IB, "../infiniband/rxe0/node_type"},
		    {IB, "../../class/infiniband/rxe0/node_type"}};
	char path[PATH_MAX], want[PATH_MAX];
	struct stat st;
	int dir, fd;

	for (size_t i = 0; i < sizeof(node) / sizeof(node[0]); i++) {
		dir = open(node[i].dir, O_RDONLY | O_DIRECTORY);
		check_node(fstatat(dir, node[i].rel, &st, 0), &st);
		fd = openat(dir, node[i].rel, O_RDWR);
		check_node(fstat(fd, &st), &st);
		close(fd);
		ck_assert_int_eq(fchdir(dir), 0);
		check_node(stat(node[i].rel, &st), &st);
		ck_assert_int_eq(chdir("/"), 0);
		ck_assert_int_eq(chdir(node[i].dir), 0);
		fd = open(node[i].rel, O_RDWR);
		check_node(fstat(fd, &st), &st);
		close(fd);
		close(dir);
	}
	for (size_t i = 0; i < sizeof(file) / sizeof(file[0]); i++) {
		ck_assert_int_eq(chdir(file[i].dir), 0);
		ck_assert_ptr_nonnull(realpath(file[i].dir, want));
		ck_assert_str_eq(getcwd(path, sizeof(path)), want);
		ck_assert_str_eq(line_of(file[i].rel), "1: CA\n");
		ck_assert_int_eq(access(file[i].rel, R_OK), 0);
	}
	/* a directory of the real machine, and one that is nowhere */
	ck_assert_int_eq(chdir(IB), 0);
	ck_assert_int_eq(access("../net/lo", F_OK), 0);
	ck_assert_int_eq(access("../infiniband/rxe7", F_OK), -1);
	ck_assert_int_eq(chdir(".."), 0);
	ck_assert_str_eq(getcwd(path, sizeof(path)), "/sys/class");
}
END_TEST

/* ... also for what has changed since the tree was written */
START_TEST(relative_attributes_are_made_anew)
{
	int node = open_node();

	ck_assert_int_eq(chdir(IB "/rxe0/ports/1"), 0);
	ck_assert_int_eq(open("gid_attrs/types/60", O_RDONLY), -1);
	ck_assert_int_eq(errno, EINVAL);
	ck_assert_str_eq(line_of("state"), "4: ACTIVE\n");
	close(node);
}
END_TEST

START_TEST(attributes_are_made_anew)
{
	char text[64];
	int fd, node;

	ck_assert_str_eq(line_of(IB "/rxe0/node_type"), "1: CA\n");
	node = open_node(); /* from here on the engine tells */
	ck_assert_str_eq(line_of(IB "/rxe0/ports/1/state"), "4: ACTIVE\n");
	ck_assert_str_eq(line_of(IB "/rxe0/ports/1/gids/0"),
			 "0000:0000:0000:0000:0000:ffff:7f00:0001\n");
	fd = open(IB "/rxe0/ports/1/hw_counters/sent_pkts", O_RDONLY);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(read(fd, text, sizeof(text)), 2);
	close(fd);
	ck_assert_int_eq(open(IB "/rxe0/ports/1/gid_attrs/types/60", O_RDONLY), -1);
	ck_assert_int_eq(errno, EINVAL);
	close(node);
}
END_TEST

START_TEST(duplicates_and_closing)
{
	int fd = open_node(), async = get_context(fd), a, b;
	struct ib_uverbs_async_event_desc ev;
	struct stat st;

	ck_assert_int_ge(async, 0);
	ck_assert_int_eq(fcntl(async, F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(read(async, &ev, sizeof(ev)), -1);
	ck_assert_int_eq(errno, EAGAIN);
	ck_assert_int_eq(__read_chk(async, &ev, sizeof(ev), sizeof(ev)), -1);
	a = dup(fd);
	b = fcntl(a, F_DUPFD_CLOEXEC, 100);
	ck_assert_int_ge(b, 100);
	close(fd);
	close(a);
	ck_assert_int_eq(get_context(b),
			 -EINVAL); /* the same context still: done already */
	ck_assert_int_eq(dup2(b, 50), 50);
	ck_assert_int_eq(dup3(b, 51, O_CLOEXEC), 51);
	check_node(fstat(51, &st), &st);
	ck_assert_int_eq(dup2(0, b), b);
	ck_assert_int_eq(dup2(0, 51), 51);
	ck_assert_int_eq(get_context(50), -EINVAL);
	ck_assert_int_eq(dup2(0, 50), 50);
	/* that was the last: the context is gone and its event file says so */
	ck_assert_int_eq(poll(&(struct pollfd){async, POLLIN, 0}, 1, 0), 1);
	ck_assert_int_eq(read(async, &ev, sizeof(ev)), -1);
	ck_assert_int_eq(errno, EIO);
	ck_assert_int_eq(fstat(50, &st), 0);
	ck_assert_uint_ne(st.st_rdev, makedev(231, 192));
}
END_TEST

/* A descriptor that was sent to oneself is the same device. */
START_TEST(through_a_socket)
{
	char control[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	int fd = open_node(), pair[2], copy;

	ck_assert_int_ge(get_context(fd), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	ck_assert_int_eq(sendmsg(pair[0], &msg, 0), 1);
	ck_assert_int_eq(recvmsg(pair[1], &msg, 0), 1);
	memcpy(&copy, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(copy));
	ck_assert_int_ne(copy, fd);
	close(fd);
	ck_assert_int_eq(get_context(copy), -EINVAL);
	close(copy);
}
END_TEST

START_TEST(closing_all_spares_the_library)
{
	int fd = open_node();

	ck_assert_int_ge(get_context(fd), 0);
	/* the library's own descriptors survive, so another device works */
	ck_assert_int_eq(close_range(3, ~0u, 0), 0);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	fd = open_node();
	ck_assert_int_ge(get_context(fd), 0);
	closefrom(3);
	ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
	fd = open_node();
	ck_assert_int_ge(get_context(fd), 0);
	for (int i = 3; i < 1024; i++)
		close(i);
	fd = open_node();
	ck_assert_int_ge(get_context(fd), 0);
}
END_TEST

/* A program without stdin, and one that closes what it does not know */
START_TEST(descriptors_of_the_library_are_its_own)
{
	bool before[1024];
	int fd, async;

	close(0);
	for (int i = 0; i < 1024; i++)
		before[i] = fcntl(i, F_GETFD) >= 0;
	fd = open_node();
	async = get_context(fd);
	ck_assert_int_eq(fd, 0);
	ck_assert_int_ge(async, 0);
	for (int i = 0; i < 1024; i++) {
		if (before[i] || i == fd || i == async || fcntl(i, F_GETFD) < 0)
			continue;
		/* a file that is only read, as of /proc? */
		for (int wait = 0; i < 128 && wait < 2000 && fcntl(i, F_GETFD) >= 0;
		     wait++)
			usleep(10000);
		if (fcntl(i, F_GETFD) < 0)
			continue;
		ck_assert_msg(i >= 128, "descriptor %d is in the program's way", i);
		ck_assert_int_eq(close(i), -1);
		ck_assert_int_eq(errno, EBADF);
		ck_assert_int_eq(dup2(1, i), -1);
		ck_assert_int_ge(fcntl(i, F_GETFD), 0);
	}
}
END_TEST

START_TEST(children_have_devices_of_their_own)
{
	int fd = open_node(), status;
	pid_t pid;

	ck_assert_int_ge(get_context(fd), 0);
	pid = fork();
	if (!pid) {
		/* the parent's is dead here, a new one works */
		int err = get_context(fd), mine;

		close(fd);
		mine = open(NODE, O_RDWR);
		_exit(err == -EIO && mine >= 0 && get_context(mine) >= 0 ? 0 : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	pid = vfork();
	if (!pid) {
		close(fd);
		_exit(0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(get_context(fd), -EINVAL);
}
END_TEST

static void *open_and_close(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
		int fd = open_node();

		close(get_context(fd));
		close(fd);
	}
	return NULL;
}

START_TEST(forks_beside_opens)
{
	bool stop = false;
	pthread_t t;
	int status;

	ck_assert_int_eq(pthread_create(&t, NULL, open_and_close, &stop), 0);
	for (int i = 0; i < 500; i++) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_int_eq(status, 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(t, NULL);
}
END_TEST

static void *last_thread(void *arg)
{
	usleep(100000);
	return NULL;
}

/* The library's threads are there, but not the program's: it ends. */
START_TEST(process_ends_with_the_last_thread_of_the_program)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		pthread_t t;

		alarm(20);
		if (get_context(open_node()) < 0 ||
		    pthread_create(&t, NULL, last_thread, NULL))
			_exit(1);
		pthread_exit(NULL);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

/* The time slice of a thread in ns, 0: the kernel's own. See sched_setattr(2). */
static uint64_t slice_of(pid_t tid)
{
	uint64_t attr[6] = {0};

	ck_assert_int_eq(syscall(SYS_sched_getattr, tid, attr, sizeof(attr), 0), 0);
	return attr[3];
}

static bool can_shorten_slice(void)
{
	uint64_t attr[6] = {sizeof(attr), [3] = 100000};

	return syscall(SYS_sched_setattr, 0, attr, 0) == 0 && slice_of(0) == 100000;
}

/* So that it gets its turn beside threads that never sleep */
START_TEST(helper_has_a_short_time_slice)
{
	int fd = open_node(), found = 0;
	char name[64], path[300];
	struct dirent *e;
	FILE *f;
	DIR *d;

	ck_assert_int_ge(get_context(fd), 0);
	if (!can_shorten_slice())
		return; /* Linux before 6.12 */
	d = opendir("/proc/self/task");
	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", e->d_name);
		f = fopen(path, "r");
		if (!f || !fgets(name, sizeof(name), f) || strcmp(name, "urxe\n"))
			name[0] = '\0';
		if (f)
			fclose(f);
		if (!name[0])
			continue;
		/* it does so when it first runs */
		for (int i = 0; i < 2000 && slice_of(atoi(e->d_name)) != 100000; i++)
			usleep(10000);
		ck_assert_uint_eq(slice_of(atoi(e->d_name)), 100000);
		found++;
	}
	closedir(d);
	ck_assert_int_eq(found, 1);
}
END_TEST

START_TEST(netlink_is_answered_and_not_by_the_host)
{
	struct {
		struct nlmsghdr h;
	} ask = {{.nlmsg_len = NLMSG_HDRLEN,
		  .nlmsg_type = 5 << 10 | 1, /* RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET */
		  .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
		  .nlmsg_seq = 9}};
	struct sockaddr_nl from = {.nl_pid = 1};
	_Alignas(8) char buf[8192];
	struct iovec iov = {buf, sizeof(buf)};
	struct msghdr msg = {.msg_name = &from,
			     .msg_namelen = sizeof(from),
			     .msg_iov = &iov,
			     .msg_iovlen = 1};
	int fd = socket(AF_NETLINK, SOCK_RAW, 20 /* NETLINK_RDMA */);
	void *volatile bad = (void *)16; /* the compiler must not look through it */
	const struct nlmsghdr *h = (void *)buf;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(send(fd, bad, sizeof(ask), 0), -1);
	ck_assert_int_eq(errno, EFAULT);
	ck_assert_int_eq(send(fd, &ask, 65537, 0), -1);
	ck_assert_int_eq(errno, EMSGSIZE);
	ck_assert_int_eq(sendto(fd, &ask, sizeof(ask), 0, NULL, 0), sizeof(ask));
	ck_assert_int_ge(recvmsg(fd, &msg, 0), NLMSG_HDRLEN);
	ck_assert_uint_eq(h->nlmsg_seq, 9);
	ck_assert_uint_eq(from.nl_pid, 0);
	ck_assert_ptr_nonnull(memmem(buf, h->nlmsg_len, "rxe0", 5));
	close(fd);
	/* another file with this number is none of ours */
	ck_assert_int_eq(dup2(STDOUT_FILENO, fd), fd);
	ck_assert_int_eq(send(fd, &ask, sizeof(ask), 0), -1);
	close(fd);
	fd = socket(AF_NETLINK, SOCK_RAW, 0);
	ck_assert_int_ge(fd, 0);
	close(fd);
}
END_TEST

static volatile sig_atomic_t caught;

static void on_signal(int sig)
{
	caught++;
}

static void on_segv(int sig, siginfo_t *si, void *uc)
{
	caught++;
	mprotect((void *)((uintptr_t)si->si_addr & ~4095ul), 4096,
		 PROT_READ | PROT_WRITE);
}

/* The program's handlers work as if the guard were not there. */
START_TEST(handlers_work_as_if_there_were_no_guard)
{
	struct sigaction sa = {.sa_sigaction = on_segv, .sa_flags = SA_SIGINFO}, old;
	volatile uint8_t *p =
	    mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = open_node();

	ck_assert_int_eq(sigaction(SIGSEGV, NULL, &old), 0);
	ck_assert_ptr_eq(old.sa_handler, SIG_DFL);
	ck_assert_int_eq(sigaction(SIGSEGV, &sa, NULL), 0);
	p[0] = 1;
	ck_assert_int_eq(caught, 1);
	ck_assert_ptr_eq((void *)signal(SIGSEGV, SIG_DFL), (void *)on_segv);
	ck_assert_ptr_eq(signal(SIGBUS, on_signal), SIG_DFL);
	raise(SIGBUS);
	ck_assert_int_eq(caught, 2);
	ck_assert_ptr_eq(signal(SIGUSR1, on_signal), SIG_DFL);
	raise(SIGUSR1);
	ck_assert_int_eq(caught, 3);
	/* bad pointers are errors, not signals */
	ck_assert_int_eq(write(fd, BAD_PTR, 64), -1);
	ck_assert_int_eq(errno, EFAULT);
	ck_assert_int_eq(caught, 3);
}
END_TEST

static void *wait_for_event(void *arg)
{
	struct ib_uverbs_async_event_desc ev;

	return read(*(int *)arg, &ev, sizeof(ev)) < 0 ? NULL : arg;
}

/* A thread that waits for an event can be cancelled, and leaves nothing behind. */
START_TEST(a_waiting_thread_can_be_cancelled)
{
	int fd = open_node(), async = get_context(fd);
	pthread_t t;
	void *res;

	ck_assert_int_ge(async, 0);
	pthread_create(&t, NULL, wait_for_event, &async);
	usleep(50000);
	pthread_cancel(t);
	pthread_join(t, &res);
	ck_assert_ptr_eq(res, PTHREAD_CANCELED);
	close(async);
	ck_assert_int_eq(fcntl(async, F_GETFD), -1);
	close(fd);
}
END_TEST

START_TEST(waits_may_be_interrupted)
{
	int fd = open_node(), async = get_context(fd);
	struct ib_uverbs_async_event_desc ev;
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGALRM, &sa, NULL);
	ualarm(50000, 50000); /* again, if the first one comes before the read */
	ck_assert_int_eq(read(async, &ev, sizeof(ev)), -1);
	ck_assert_int_eq(errno, EINTR);
	ualarm(0, 0);
	ck_assert_int_ge(caught, 1);
}
END_TEST

static void add_with(TCase *tc)
{
	tcase_add_test(tc, names_of_open);
	tcase_add_test(tc, names_of_stat);
	tcase_add_test(tc, directories_and_links);
	tcase_add_test(tc, relative_paths_lead_into_the_tree);
	tcase_add_test(tc, relative_attributes_are_made_anew);
	tcase_add_test(tc, attributes_are_made_anew);
	tcase_add_test(tc, duplicates_and_closing);
	tcase_add_test(tc, through_a_socket);
	tcase_add_test(tc, closing_all_spares_the_library);
	tcase_add_test(tc, descriptors_of_the_library_are_its_own);
	tcase_add_test(tc, children_have_devices_of_their_own);
	tcase_add_test(tc, forks_beside_opens);
	tcase_add_test(tc, process_ends_with_the_last_thread_of_the_program);
	tcase_add_test(tc, helper_has_a_short_time_slice);
	tcase_add_test(tc, netlink_is_answered_and_not_by_the_host);
	tcase_add_test(tc, handlers_work_as_if_there_were_no_guard);
	tcase_add_test(tc, a_waiting_thread_can_be_cancelled);
	tcase_add_test(tc, waits_may_be_interrupted);
}

/* --- preloaded, but not under urxe ------------------------------------------------ */

START_TEST(other_files_are_not_touched)
{
	struct stat st;
	int err;

	/* as this machine has it: with luck nothing, without luck real devices */
	err = stat("/sys/devices/urxe", &st);
	ck_assert_int_eq(err, -1);
	ck_assert_int_eq(errno, ENOENT);
	if (stat("/dev/infiniband", &st))
		ck_assert_int_eq(open(NODE, O_RDWR), -1);
	err = socket(AF_NETLINK, SOCK_RAW, NETLINK_RDMA);
	if (err < 0)
		ck_assert_int_eq(errno, EPROTONOSUPPORT);
	ck_assert_ptr_eq(signal(SIGSEGV, on_signal), SIG_DFL);
	raise(SIGSEGV);
	ck_assert_int_eq(caught, 1);
}
END_TEST

static void add_without(TCase *tc)
{
	tcase_add_test(tc, other_files_are_not_touched);
}

/* --- running itself --------------------------------------------------------------- */

static int run_self(const char *self, const char *library, const char *what)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		setenv("LD_PRELOAD", library, 1);
		execl(self, self, library, what, NULL);
		_exit(127);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status;
}

int main(int argc, char **argv)
{
	char dir[] = "/tmp/urxe-preload-XXXXXX", err[256], cmd[64];
	struct sysfs_device dev;
	int failed;

	if (argc == 3)
		return util_run("preload",
				strcmp(argv[2], "with") ? add_without : add_with);
	if (argc != 2 || !mkdtemp(dir) || sysfs_device_init(&dev, "rxe0", "lo") ||
	    sysfs_write_tree(dir, &dev, 1, err, sizeof(err)))
		return 99;
	unsetenv("URXE_DIR");
	failed = run_self("/proc/self/exe", argv[1], "without");
	setenv("URXE_DIR", dir, 1);
	setenv("URXE_DEVICE", "rxe0=lo", 1);
	failed |= run_self("/proc/self/exe", argv[1], "with");
	/* where there is no io_uring, sockets again */
	setenv("URXE_BACKEND", "uring", 1);
	failed |= run_self("/proc/self/exe", argv[1], "with");
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd) || failed;
}
