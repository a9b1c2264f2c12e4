/*
 * Description: what a process that is killed has left is sent to its peers, once, and
 * only when it is dead.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/icrc.h"
#include "net/rocev2.h"
#include "verbs/ucma/will.h"
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
	suite_add_tcase(s, t);
	ret = check_main(s);
	rmdir(dir);
	return ret;
}
