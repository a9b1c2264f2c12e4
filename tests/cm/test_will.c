/*
 * Description: what a process that is killed has left is sent to its peers, once, and
 * only when it is dead.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/icrc.h"
#include "net/rocev2.h"
#include "verbs/ucma/will.h"
#include "verbs/ucma/will_file.h"
#include "tests/check_main.h"

/* Addresses of this process, so that nobody else's switch is in the way; set by main() */
static uint8_t from_ip[4] = {127, 0, 0, 1}, to_ip[4] = {127, 0, 0, 2};

static char dir[] = "/tmp/urxe-will-XXXXXX";

static struct net_ip ip(const void *last4)
{
	struct net_ip a = {.b = {[10] = 0xff, [11] = 0xff}};

	memcpy(a.b + 12, last4, 4);
	return a;
}

static int peer_socket(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	memcpy(&a.sin_addr, to_ip, 4);
	ck_assert_int_eq(bind(s, (struct sockaddr *)&a, sizeof(a)), 0);
	return s;
}

/* A process that leaves @n messages, drops the first, and waits to be killed */
static pid_t testator(int n)
{
	int ready[2];
	pid_t pid;
	char c;

	ck_assert_int_eq(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		struct net_path path = {.src = ip(from_ip), .dst = ip(to_ip)};
		uint32_t entry[64] = {0};
		struct will *w;
		int i;

		if (will_open(dir, &w))
			_exit(1);
		for (i = 0; i < n; i++) {
			uint8_t mad[CM_MAD_LEN] = {[255] = (uint8_t)i};

			will_set(w, &entry[i], &path, mad);
		}
		will_drop(w, &entry[0]);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	close(ready[1]);
	ck_assert_int_eq(read(ready[0], &c, 1), 1);
	close(ready[0]);
	return pid;
}

static void bury(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static ssize_t receive(int s, uint8_t *buf, size_t size, struct net_path *path)
{
	struct pollfd p = {.fd = s, .events = POLLIN};
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	ssize_t n;

	if (poll(&p, 1, 200) <= 0)
		return -1;
	n = recvfrom(s, buf, size, 0, (struct sockaddr *)&from, &len);
	*path = (struct net_path){.src = ip(&from.sin_addr), .dst = ip(to_ip)};
	path->sport = ntohs(from.sin_port);
	return n;
}

START_TEST(the_dead_are_heard)
{
	int s = peer_socket(), i, seen[40] = {0};
	struct net_path path;
	uint8_t buf[512];
	pid_t pid = testator(40);
	ssize_t n;

	ck_assert_uint_eq(will_execute(dir), 0); /* he lives */
	ck_assert_int_eq(receive(s, buf, sizeof(buf), &path), -1);
	bury(pid);
	ck_assert_uint_eq(will_execute(dir), 1);
	while ((n = receive(s, buf, sizeof(buf), &path)) >= 0) {
		const uint8_t *mad;
		struct roce_hdr h;
		uint32_t len;

		ck_assert_int_eq(n, 12 + 8 + CM_MAD_LEN + 4);
		ck_assert_uint_eq(icrc_compute(&path, 0, buf, (uint32_t)n - 4),
				  icrc_load(buf + n - 4));
		ck_assert_int_eq(roce_parse(buf, (uint32_t)n - 4, &h, &mad, &len), 0);
		ck_assert_uint_eq(h.dqpn, ROCE_QPN_GSI);
		ck_assert_uint_eq(h.qkey, ROCE_QKEY_GSI);
		ck_assert_uint_eq(len, CM_MAD_LEN);
		ck_assert_mem_eq(path.src.b + 12, from_ip, 4);
		ck_assert_uint_lt(mad[255], 40);
		seen[mad[255]]++;
	}
	ck_assert_int_eq(seen[0], 0); /* dropped */
	for (i = 1; i < 40; i++)
		ck_assert_int_eq(seen[i], 2);
	ck_assert_uint_eq(will_execute(dir), 0); /* and that is all */
	close(s);
}
END_TEST

START_TEST(others_are_not_touched)
{
	pid_t a = testator(2), b = testator(2);

	bury(a);
	ck_assert_uint_eq(will_execute(dir), 1);
	bury(b);
	ck_assert_uint_eq(will_execute(dir), 1);
	ck_assert_uint_eq(will_execute("/nonexistent"), 0);
}
END_TEST

START_TEST(garbage_in_the_directory)
{
	char name[64];
	FILE *f;

	snprintf(name, sizeof(name), "%s/will.1", dir);
	f = fopen(name, "w");
	fwrite("will", 1, 4, f);
	fwrite(name, 1, sizeof(name), f);
	fclose(f);
	snprintf(name, sizeof(name), "%s/will.2", dir);
	ck_assert_int_eq(symlink("/etc/passwd", name), 0);
	ck_assert_uint_eq(will_execute(dir), 1);
	ck_assert_int_eq(unlink(name), 0); /* a link is no will */
}
END_TEST

/* Entry @i of what this process has left */
static struct will_entry entry_at(uint32_t i)
{
	struct will_entry e = {.valid = 0};
	char name[64];
	int f;

	snprintf(name, sizeof(name), "%s/" WILL_PREFIX "%d", dir, (int)getpid());
	f = open(name, O_RDONLY);
	ck_assert_int_ge(f, 0);
	ck_assert_int_ge(pread(f, &e, sizeof(e), (off_t)((i - 1) * sizeof(e))), 0);
	close(f);
	return e;
}

static void leave(struct will *w, uint32_t *entry, uint8_t mark)
{
	struct net_path path = {.src = ip(from_ip), .dst = ip(to_ip)};
	uint8_t mad[CM_MAD_LEN] = {[255] = mark};

	will_set(w, entry, &path, mad);
}

/* Connections come and go in any order: each has an entry, which is nobody else's. */
START_TEST(entries_are_taken_once_and_used_again)
{
	uint32_t entry[200] = {0}, most = 0;
	unsigned int seed = 1;
	char name[64];
	struct will *w;

	ck_assert_int_eq(will_open(dir, &w), 0);
	for (int turn = 0; turn < 2000; turn++) {
		int i = rand_r(&seed) % 200;

		if (entry[i]) {
			uint32_t was = entry[i];

			will_drop(w, &entry[i]);
			ck_assert_uint_eq(entry[i], 0);
			ck_assert_uint_ne(entry_at(was).valid, WILL_VALID);
		} else {
			leave(w, &entry[i], (uint8_t)i);
			ck_assert_uint_ne(entry[i], 0);
			most = most < entry[i] ? entry[i] : most;
		}
	}
	for (int i = 0; i < 200; i++) {
		leave(w, &entry[i], (uint8_t)i);
		most = most < entry[i] ? entry[i] : most;
	}
	/* all that is there is what it was, and the file did not grow for what was dropped */
	ck_assert_uint_eq(most, 200);
	for (int i = 0; i < 200; i++) {
		ck_assert_uint_eq(entry_at(entry[i]).valid, WILL_VALID);
		ck_assert_uint_eq(entry_at(entry[i]).mad[255], i);
	}
	will_abandon(w);
	snprintf(name, sizeof(name), "%s/" WILL_PREFIX "%d", dir, (int)getpid());
	ck_assert_int_eq(unlink(name), 0);
}
END_TEST

/* Who waits for the owner to close the file (inotify tells of a file that was open for writing) */
START_TEST(looking_at_the_living_is_not_noticed)
{
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	pid_t pid = testator(1);
	char events[4096];

	ck_assert_int_ge(inotify_add_watch(watch, dir, IN_CLOSE_WRITE), 0);
	ck_assert_uint_eq(will_execute(dir), 0);
	ck_assert_int_eq(read(watch, events, sizeof(events)), -1);
	bury(pid);
	ck_assert_int_gt(read(watch, events, sizeof(events)), 0);
	close(watch);
	ck_assert_uint_eq(will_execute(dir), 1);
}
END_TEST

/* The name of a will that is locked just before it is opened for writing, and by what */
static char taken[64];
static int taken_by = -1;

/* In the place of libc's: between the look and the opening another one may be faster. */
int openat(int at, const char *name, int flags, ...)
{
	struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
	mode_t mode = 0;
	va_list ap;

	if (flags & O_CREAT) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	if (*taken && !strcmp(name, taken) && (flags & O_ACCMODE) == O_RDWR) {
		*taken = '\0';
		taken_by = (int)syscall(SYS_openat, at, name, O_RDWR);
		ck_assert_int_eq(fcntl(taken_by, F_OFD_SETLK, &lock), 0);
	}
	return (int)syscall(SYS_openat, at, name, flags, mode);
}

START_TEST(one_executes_when_two_come_at_once)
{
	struct net_path path;
	int s = peer_socket();
	pid_t pid = testator(2);
	uint8_t buf[512];

	bury(pid);
	snprintf(taken, sizeof(taken), WILL_PREFIX "%d", (int)pid);
	ck_assert_uint_eq(will_execute(dir), 0);
	ck_assert_int_ge(taken_by, 0);
	ck_assert_int_eq(receive(s, buf, sizeof(buf), &path), -1);
	close(taken_by);
	ck_assert_uint_eq(will_execute(dir), 1);
	ck_assert_int_gt(receive(s, buf, sizeof(buf), &path), 0);
	close(s);
}
END_TEST

/* What looks like one inside and has another name belongs to somebody else. */
START_TEST(other_files_are_no_wills)
{
	static const char *const names[] = {"notes", "awill.1", ".will.1", "will"};
	struct will_entry e = {.valid = WILL_VALID};
	char name[64];

	e.path = (struct net_path){.src = ip(from_ip), .dst = ip(to_ip)};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		FILE *f;

		snprintf(name, sizeof(name), "%s/%s", dir, names[i]);
		f = fopen(name, "w");
		fwrite(&e, sizeof(e), 1, f);
		fclose(f);
	}
	ck_assert_uint_eq(will_execute(dir), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(name, sizeof(name), "%s/%s", dir, names[i]);
		ck_assert_int_eq(unlink(name), 0);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("will");
	TCase *t = tcase_create("will");
	int ret;

	if (!mkdtemp(dir))
		return 77;
	from_ip[1] = to_ip[1] = (uint8_t)(64 + (getpid() >> 8) % 128);
	from_ip[2] = to_ip[2] = (uint8_t)getpid();
	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_dead_are_heard);
	tcase_add_test(t, others_are_not_touched);
	tcase_add_test(t, garbage_in_the_directory);
	tcase_add_test(t, entries_are_taken_once_and_used_again);
	tcase_add_test(t, looking_at_the_living_is_not_noticed);
	tcase_add_test(t, one_executes_when_two_come_at_once);
	tcase_add_test(t, other_files_are_no_wills);
	suite_add_tcase(s, t);
	ret = check_main(s);
	rmdir(dir);
	return ret;
}
