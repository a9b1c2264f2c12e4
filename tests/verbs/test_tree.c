/*
 * Description: what a network interface tells about its device, and the tree that is made when the
 * first program looks: once, whole, and whoever looks at the same time.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/verbs/util.h"
#include "verbs/host/netdev.h"
#include "verbs/host/tree.h"

/* --- interfaces ------------------------------------------------------------------- */

START_TEST(the_mtu_leaves_room_for_headers)
{
	static const struct {
		unsigned int mtu;
		enum ibv_mtu ib;
	} c[] = {
	    {0, IBV_MTU_256},	     {79, IBV_MTU_256},	      {256, IBV_MTU_256},
	    {512 + 79, IBV_MTU_256}, {512 + 80, IBV_MTU_512}, {1024 + 79, IBV_MTU_512},
	    {1104, IBV_MTU_1024},    {1500, IBV_MTU_1024},    {2048 + 79, IBV_MTU_1024},
	    {2128, IBV_MTU_2048},    {4175, IBV_MTU_2048},    {4176, IBV_MTU_4096},
	    {9000, IBV_MTU_4096},    {65536, IBV_MTU_4096}};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		ck_assert_msg(netdev_ib_mtu(c[i].mtu) == c[i].ib, "%u", c[i].mtu);
}
END_TEST

START_TEST(a_guid_is_of_the_mac_or_of_the_name)
{
	struct netdev_info info = {.mac = {0x02, 0x11, 0x22, 0x33, 0x44, 0x55}};
	static const uint8_t want[8] = {0x00, 0x11, 0x22, 0xff, 0xfe, 0x33, 0x44, 0x55};
	uint64_t guid = netdev_guid_be("eth0", &info);

	ck_assert_mem_eq(&guid, want, sizeof(want));
	memset(&info, 0, sizeof(info));
	ck_assert_uint_ne(netdev_guid_be("lo", &info), netdev_guid_be("tun0", &info));
	ck_assert_uint_eq(netdev_guid_be("lo", &info), netdev_guid_be("lo", &info));
	ck_assert_uint_ne(netdev_guid_be("lo", &info), 0);
}
END_TEST

START_TEST(names_that_no_interface_can_have)
{
	struct netdev_info info;

	ck_assert_int_eq(netdev_read("a_name_of_15_by", &info), 0);
	ck_assert(!info.exists);
	ck_assert_int_eq(netdev_read("a_name_of_16_byt", &info), 0);
	ck_assert(!info.exists);
	ck_assert_int_eq(netdev_read("l", &info), 0);
	ck_assert(!info.exists);
	ck_assert_int_eq(netdev_read("", &info), 0);
	ck_assert(!info.exists);
}
END_TEST

static struct ifreq request_of(const char *name)
{
	struct ifreq req = {.ifr_flags = 0};

	snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", name);
	return req;
}

static int set(int s, const char *label, unsigned long what, uint32_t ip)
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(ip)};
	struct ifreq req = request_of(label);

	memcpy(&req.ifr_addr, &sin, sizeof(sin));
	return ioctl(s, what, &req);
}

static int set_up(int s, const char *name)
{
	struct ifreq req = request_of(name);

	req.ifr_flags = IFF_UP;
	return ioctl(s, SIOCSIFFLAGS, &req);
}

static int rename_to(int s, const char *from, const char *to)
{
	struct ifreq req = request_of(from);

	memcpy(req.ifr_newname, to, strlen(to) + 1);
	return ioctl(s, SIOCSIFNAME, &req);
}

static bool is_there(const char *name)
{
	struct netdev_info info;

	return !netdev_read(name, &info) && info.exists;
}

/* A name of 15 bytes is the longest: a longer one is no other name for it */
static bool long_names_are_right(int s)
{
	bool ok;

	if (rename_to(s, "lo", "if_of_15_bytes_"))
		return true;
	ok = is_there("if_of_15_bytes_") && !is_there("if_of_15_bytes_x") &&
	     !is_there("if_of_15_bytes");
	return !rename_to(s, "if_of_15_bytes_", "lo") && ok;
}

/* Another interface, whose name begins alike, keeps its address for itself */
static bool beginnings_are_right(int s)
{
	struct netdev_info info;

	if (ioctl(s, SIOCBRADDBR, "lo2"))
		return true;
	if (set(s, "lo2", SIOCSIFADDR, 0x0a020001) || set_up(s, "lo2") ||
	    netdev_read("lo", &info))
		return false;
	for (unsigned int i = 0; i < info.n_ips; i++)
		if (info.ip[i].b[12] == 10 && info.ip[i].b[13] == 2)
			return false;
	return true;
}

/* In a network of its own: loopback that is down, then up, with addresses by aliases */
static int look_at_loopback(void)
{
	char names[2][IF_NAMESIZE];
	struct netdev_info info;
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	if (netdev_read("lo", &info) || !info.exists || info.up || !info.loopback)
		return 1;
	if (netdev_list(names, 2) || !long_names_are_right(s))
		return 2;
	if (set_up(s, "lo") || set(s, "lo", SIOCSIFADDR, 0x7f000001) ||
	    set(s, "lo:7", SIOCSIFADDR, 0x0a000001) ||
	    set(s, "lo:7", SIOCSIFNETMASK, 0xffff0000) ||
	    set(s, "lo:8", SIOCSIFADDR, 0x0a000001))
		return 77;
	if (netdev_read("lo", &info) || !info.up || info.ifindex != if_nametoindex("lo"))
		return 3;
	/* an alias is the interface's, one address in two nets is one, IPv4 comes before ::1 */
	if (info.n_ips < 2 || info.ip[0].b[12] != 127 || info.ip[1].b[12] != 10)
		return 4;
	for (unsigned int i = 0; i < info.n_ips; i++)
		for (unsigned int k = 0; k < i; k++)
			if (net_ip_eq(&info.ip[i], &info.ip[k]))
				return 5;
	if (is_there("l") || netdev_list(names, 2) != 1 || strcmp(names[0], "lo") != 0)
		return 6;
	if (netdev_list(names, 0))
		return 7;
	return beginnings_are_right(s) ? 0 : 8;
}

START_TEST(an_interface_is_as_it_is_now)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		bool alone =
		    !unshare(CLONE_NEWNET) || !unshare(CLONE_NEWUSER | CLONE_NEWNET);

		_exit(alone ? look_at_loopback() : 77);
	}
	waitpid(pid, &status, 0);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		fprintf(stderr, "no network of its own: skipped\n");
	else
		ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

/* --- the tree --------------------------------------------------------------------- */

static char dir[] = "/tmp/urxe-tree-XXXXXX";

static void make_dir(void)
{
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	chmod(dir, 0777);
	setenv("URXE_DIR", dir, 1);
	setenv("URXE_DEVICE", "rxe0=lo", 1);
}

static int exists(const char *name)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return access(path, F_OK) == 0;
}

/*
 * In the place of libc's. Who is killed before the last half is in place has made nothing: that half
 * is looked for.
 */
int rename(const char *from, const char *to)
{
	if (!strcmp(to + strlen(to) - 4, "/sys") && !exists("dev"))
		_exit(99);
	return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* How many entries there are whose names begin so */
static int count(const char *prefix)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	while ((e = readdir(d)))
		n += e->d_name[0] != '.' && !strncmp(e->d_name, prefix, strlen(prefix));
	closedir(d);
	return n;
}

/* What a program sees, as its exit code; what it says goes to @err */
static int look(int err)
{
	char buf[PATH_MAX], want[PATH_MAX];
	const char *path;

	dup2(err, STDERR_FILENO);
	errno = EXDEV;
	path = tree_map("/sys/class/infiniband/rxe0/node_type", buf);
	if (errno != EXDEV)
		return 1;
	snprintf(want, sizeof(want), "%s/sys/class/infiniband/rxe0/node_type", dir);
	if (!path || strcmp(path, want) != 0)
		return 2;
	return access(path, R_OK) ? 3 : 0;
}

static void remove_tree(void)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	tree_remove(fd);
	close(fd);
}

START_TEST(whoever_looks_finds_a_whole_tree)
{
	enum { LOOKERS = 8 };
	int err[2], go[2], status;
	pid_t pid[LOOKERS];

	ck_assert_int_eq(pipe(err), 0);
	ck_assert_int_eq(pipe(go), 0);
	for (int i = 0; i < LOOKERS; i++) {
		pid[i] = fork();
		if (!pid[i]) {
			struct pollfd p = {.fd = go[0], .events = POLLIN};

			close(go[1]);
			poll(&p, 1, -1); /* all at once, when it is closed */
			_exit(look(err[1]));
		}
	}
	close(go[1]);
	close(err[1]);
	for (int i = 0; i < LOOKERS; i++) {
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert_int_eq(status, 0);
	}
	/* who was late says nothing */
	ck_assert_int_eq(read(err[0], &status, 1), 0);
	ck_assert(exists("sys") && exists("dev"));
	remove_tree();
	ck_assert_int_eq(count("sys") + count("dev") + count("new-"), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

static int look_as_nobody(mode_t mask)
{
	int fd = open("/dev/null", O_WRONLY);

	if (!geteuid() && setresuid(65534, 65534, 65534))
		return 77;
	umask(mask);
	return look(fd);
}

START_TEST(the_umask_does_not_matter)
{
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(look_as_nobody(0777));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(count("new-"), 0);
	remove_tree();
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* Where half of it is there already, it was made by another: the rest is completed. */
START_TEST(a_tree_that_was_begun_is_completed)
{
	char path[200];
	pid_t pid;
	int status;

	snprintf(path, sizeof(path), "%s/dev", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/dev/infiniband", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	pid = fork();
	if (!pid)
		_exit(look(STDERR_FILENO));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert(exists("sys"));
	remove_tree();
	ck_assert_int_eq(count("sys") + count("dev"), 0);
	remove_tree();
	ck_assert_int_eq(count("new-"), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* One was killed when half of it was in place, which has no list of devices yet. */
START_TEST(half_a_tree_is_removed)
{
	static const char *const names[] = {"dev/infiniband/uverbs0",
					    "dev/infiniband/uverbs15",
					    "dev/infiniband/rdma_cm"};
	char path[200];

	snprintf(path, sizeof(path), "%s/dev", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/dev/infiniband", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		close(open(path, O_WRONLY | O_CREAT, 0644));
	}
	remove_tree();
	ck_assert_int_eq(count(""), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(what_others_have_put_there_stays)
{
	static const char *const others[] = {"new-thing", "new-things_of_mine",
					     "old-abcdef"};
	char path[200];

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, others[i]);
		ck_assert_int_eq(mkdir(path, 0755), 0);
	}
	snprintf(path, sizeof(path), "%s/new-abcdef", dir);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	remove_tree();
	ck_assert(!exists("new-abcdef")); /* of one that was killed */
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, others[i]);
		ck_assert_int_eq(rmdir(path), 0);
	}
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

START_TEST(other_paths_make_no_tree)
{
	char buf[PATH_MAX];

	ck_assert_str_eq(tree_map("/sys/class/net", buf), "/sys/class/net");
	ck_assert_int_eq(count(""), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tree");
	TCase *tc = tcase_create("interfaces"), *tree = tcase_create("tree");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, the_mtu_leaves_room_for_headers);
	tcase_add_test(tc, a_guid_is_of_the_mac_or_of_the_name);
	tcase_add_test(tc, names_that_no_interface_can_have);
	tcase_add_test(tc, an_interface_is_as_it_is_now);
	suite_add_tcase(s, tc);
	tcase_set_timeout(tree, 60);
	tcase_add_checked_fixture(tree, make_dir, NULL);
	tcase_add_test(tree, whoever_looks_finds_a_whole_tree);
	tcase_add_test(tree, the_umask_does_not_matter);
	tcase_add_test(tree, a_tree_that_was_begun_is_completed);
	tcase_add_test(tree, half_a_tree_is_removed);
	tcase_add_test(tree, what_others_have_put_there_stays);
	tcase_add_test(tree, other_paths_make_no_tree);
	suite_add_tcase(s, tree);
	return check_main(s);
}
