/*
 * Description: the generated tree has what ib_core and rxe show, and attributes that
 * change are made anew.
 */
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/verbs/util.h"
#include "verbs/host/sysfs.h"

static char dir[] = "/tmp/urxe-sysfs-XXXXXX";

static void setup(void)
{
	static struct sysfs_device dev[2];
	char err[256];

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(sysfs_device_init(&dev[0], "rxe0", "lo"), 0);
	dev[1] = dev[0];
	strcpy(dev[1].name, "rxe1");
	dev[1].guid_be = 0x0807060504030201u; /* bytes 01 02 ... */
	dev[1].up = false;
	ck_assert_msg(sysfs_write_tree(dir, dev, 2, err, sizeof(err)) == 0, "%s", err);
}

static void teardown(void)
{
	char cmd[128];

	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	ck_assert_int_eq(system(cmd), 0);
}

static const char *get(const char *path)
{
	static char text[256];
	char full[512];
	ssize_t n;
	int f;

	snprintf(full, sizeof(full), "%s%s", dir, path);
	f = open(full, O_RDONLY);
	ck_assert_msg(f >= 0, "%s", path);
	n = read(f, text, sizeof(text) - 1);
	close(f);
	ck_assert_int_ge(n, 0);
	text[n] = '\0';
	return text;
}

#define IB "/sys/class/infiniband/"

START_TEST(files_have_what_the_kernel_has)
{
	static const struct {
		const char *path, *text;
	} c[] = {
	    {"/sys/class/infiniband_verbs/abi_version", "6\n"},
	    {"/sys/class/infiniband_verbs/uverbs0/ibdev", "rxe0\n"},
	    {"/sys/class/infiniband_verbs/uverbs1/ibdev", "rxe1\n"},
	    {"/sys/class/infiniband_verbs/uverbs1/dev", "231:193\n"},
	    {"/sys/class/infiniband_verbs/uverbs0/abi_version", "2\n"},
	    {"/sys/class/infiniband_verbs/uverbs0/device/numa_node", "-1\n"},
	    {IB "rxe0/device/class", "0x020000\n"},
	    {IB "rxe0/device/vendor", "0xffff\n"},
	    {IB "rxe0/device/subsystem_vendor", "0xffff\n"},
	    {IB "rxe0/node_type", "1: CA\n"},
	    {IB "rxe1/node_guid", "0102:0304:0506:0708\n"},
	    {IB "rxe1/sys_image_guid", "0102:0304:0506:0708\n"},
	    {IB "rxe0/parent", "lo\n"},
	    {IB "rxe0/device/net/lo/type", NULL},
	    {IB "rxe0/ports/1/state", "4: ACTIVE\n"},
	    {IB "rxe1/ports/1/state", "1: DOWN\n"},
	    {IB "rxe0/ports/1/link_layer", "Ethernet\n"},
	    {IB "rxe0/ports/1/gids/0", "0000:0000:0000:0000:0000:ffff:7f00:0001\n"},
	    {IB "rxe0/ports/1/gids/63", "0000:0000:0000:0000:0000:0000:0000:0000\n"},
	    {IB "rxe0/ports/1/gid_attrs/types/0", "RoCE v2\n"},
	    {IB "rxe0/ports/1/gid_attrs/ndevs/0", "lo\n"},
	    {IB "rxe0/ports/1/pkeys/0", "0xffff\n"},
	    {IB "rxe0/ports/1/hw_counters/sent_pkts", "0\n"},
	    {IB "rxe0/ports/1/counters/port_xmit_data", "0\n"},
	    {IB "rxe0/ports/1/counters/symbol_error", "0\n"},
	    {IB "rxe0/ports/1/rate", "2.5 Gb/sec (1X SDR)\n"},
	    {IB "rxe0/uevent", "NAME=rxe0\n"},
	    {IB "rxe0/ports/1/cm_tx_msgs/req", "0\n"},
	    {IB "rxe0/ports/1/cm_rx_duplicates/apr", "0\n"},
	    {IB "rxe0/subsystem/rxe0/parent", "lo\n"},
	    {"/sys/class/infiniband_verbs/uverbs1/subsystem/uverbs1/ibdev", "rxe1\n"},
	    {"/sys/class/misc/rdma_cm/subsystem/rdma_cm/abi_version", "4\n"},
	    {"/sys/class/infiniband_verbs/uverbs1/uevent",
	     "MAJOR=231\nMINOR=193\nDEVNAME=infiniband/uverbs1\nDEVMODE=0666\n"},
	    {"/sys/class/misc/rdma_cm/uevent",
	     "MAJOR=10\nMINOR=119\nDEVNAME=infiniband/rdma_cm\nDEVMODE=0666\n"},
	    {"/sys/class/misc/rdma_cm/abi_version", "4\n"},
	    {"/dev/infiniband/uverbs0", ""},
	    {"/dev/infiniband/rdma_cm", ""},
	};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		if (!c[i].text)
			get(c[i].path);
		else
			ck_assert_msg(!strcmp(get(c[i].path), c[i].text), "%s: %s",
				      c[i].path, get(c[i].path));
	}
}
END_TEST

START_TEST(modes_are_those_of_the_kernel)
{
	static const struct {
		const char *path;
		mode_t mode;
	} m[] = {
	    {IB "rxe0/node_guid", 0444},
	    {IB "rxe0/node_desc", 0644},
	    {IB "rxe0/uevent", 0644},
	    {IB "rxe0/ports/1/gids/63", 0444},
	    {IB "rxe0/ports/1/hw_counters/sent_pkts", 0444},
	    {IB "rxe0/ports/1/hw_counters/lifespan", 0644},
	    {"/sys/class/infiniband_verbs/uverbs0/dev", 0444},
	    {"/sys/class/misc/rdma_cm/uevent", 0644},
	};
	char full[512];
	struct stat st;

	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++) {
		snprintf(full, sizeof(full), "%s%s", dir, m[i].path);
		ck_assert_int_eq(stat(full, &st), 0);
		ck_assert_msg((st.st_mode & 0777) == m[i].mode, "%s: %o", m[i].path,
			      st.st_mode);
	}
}
END_TEST

/*
 * The device's directory is its identity by the time it was made (libibverbs,
 * same_sysfs_dev())
 */
START_TEST(all_cpus_are_near)
{
	long n = sysconf(_SC_NPROCESSORS_CONF);
	char list[32];

	snprintf(list, sizeof(list), n > 1 ? "0-%ld\n" : "%ld\n", n > 512 ? 511 : n - 1);
	ck_assert_str_eq(get(IB "rxe0/device/local_cpulist"), list);
	if (n <= 32)
		ck_assert_uint_eq(strtoul(get(IB "rxe0/device/local_cpus"), NULL, 16),
				  (1ull << n) - 1);
	else
		ck_assert_ptr_nonnull(
		    strstr(get(IB "rxe0/device/local_cpus"), ",ffffffff\n"));
}
END_TEST

START_TEST(the_device_resolves)
{
	char full[512], real[PATH_MAX], want[512];

	snprintf(full, sizeof(full), "%s" IB "rxe0/device", dir);
	snprintf(want, sizeof(want), "%s/sys/devices/urxe/rxe0", dir);
	ck_assert_ptr_nonnull(realpath(full, real));
	ck_assert_str_eq(real, want);
}
END_TEST

/* The core's counters are those of the tree. */
START_TEST(counters_of_the_core)
{
	const char *const *names;
	const uint64_t *values;
	struct uverbs_context *ctx;
	char path[256];
	int async, fd = util_context(&async);
	size_t n;

	ctx = uverbs_lookup(fd);
	n = emu_hw_counters(ctx->hca, &names, &values);
	ck_assert_uint_gt(n, 10);
	for (size_t i = 0; i < n; i++) {
		snprintf(path, sizeof(path), IB "rxe0/ports/1/hw_counters/%s", names[i]);
		get(path);
	}
}
END_TEST

/* --- attributes that change ------------------------------------------------------- */

static int live_device(void *arg, const char *name)
{
	return strcmp(name, "rxe0") && strncmp(name, "rxe_of_", 7) ? -1 : 0;
}

static bool live_gid(void *arg, int dev, unsigned int i, struct net_ip *ip)
{
	*ip = (struct net_ip){{0xfe, 0x80, [15] = 7}};
	return i == 3 || i == 4;
}

static bool live_v1(void *arg, int dev, unsigned int i)
{
	return i == 4;
}

static bool live_port(void *arg, int dev, struct ibv_port_attr *attr)
{
	*attr = (struct ibv_port_attr){.state = IBV_PORT_DOWN};
	return true;
}

static bool live_counter(void *arg, int dev, const char *name, uint64_t *value)
{
	*value = UINT64_MAX;
	return !strcmp(name, "sent_pkts") || !strcmp(name, "sent_bytes");
}

static uint64_t live_cm(void *arg, int dev, unsigned int which, unsigned int msg)
{
	return which * 100 + msg;
}

static const char *live_ifname(void *arg, int dev)
{
	return "eth7";
}

START_TEST(files_follow_the_interface)
{
	static const struct sysfs_live live = {.device = live_device,
					       .gid = live_gid,
					       .v1 = live_v1,
					       .port = live_port,
					       .counter = live_counter,
					       .cm = live_cm,
					       .ifname = live_ifname};
	static const struct {
		const char *path, *text;
		int err;
	} c[] = {
	    {IB "rxe0/ports/1/gids/3", "fe80:0000:0000:0000:0000:0000:0000:0007\n", 0},
	    {IB "rxe0/ports/1/gids/0", "0000:0000:0000:0000:0000:0000:0000:0000\n", 0},
	    {IB "rxe0/ports/1/gid_attrs/types/3", "RoCE v2\n", 0},
	    {IB "rxe0/ports/1/gid_attrs/types/4", "IB/RoCE v1\n", 0},
	    {IB "rxe0/ports/1/gid_attrs/types/0", "", -EINVAL},
	    {IB "rxe0/ports/1/gid_attrs/ndevs/3", "eth7\n", 0},
	    {IB "rxe0/ports/1/gid_attrs/ndevs/63", "", -EINVAL},
	    {IB "rxe0/ports/1/state", "1: DOWN\n", 0},
	    {IB "rxe0/ports/1/phys_state", "3: Disabled\n", 0},
	    {IB "rxe0/ports/1/hw_counters/sent_pkts", "18446744073709551615\n", 0},
	    {"/sys/devices/urxe/rxe0/infiniband/rxe0/ports/1/state", "1: DOWN\n", 0},
	    {IB "rxe0/ports/1/hw_counters/nope", "", -ENOENT},
	    {IB "rxe0/ports/1/counters/port_xmit_packets", "18446744073709551615\n", 0},
	    {IB "rxe0/ports/1/counters/port_xmit_wait", "", -ENOENT},
	    {IB "rxe0/ports/1/counters/port_xmit_data", "4611686018427387903\n", 0},
	    {IB "rxe0/ports/1/counters/port_xmit", "", -ENOENT},
	    {IB "rxe0/ports/1/cm_tx/req", "", -ENOENT},
	    {IB "rxe0/ports/1/cm_tx_msgs/req", "0\n", 0},
	    {IB "rxe0/ports/1/cm_tx_retries/mra", "101\n", 0},
	    {IB "rxe0/ports/1/cm_rx_msgs/sidr_rep", "208\n", 0},
	    {IB "rxe0/ports/1/cm_rx_duplicates/apr", "310\n", 0},
	    {IB "rxe0/ports/1/cm_rx_duplicates/nope", "", -ENOENT},
	    {IB "rxe0/ports/1/cm_rx_dups/req", "", -ENOENT},
	    {IB "rxe0/ports/1/cm_tx_msgs", "", -ENOENT},
	    {IB "rxe0/ports/1/gids/64", "", -ENOENT},
	    {IB "rxe0/ports/1/gids/", "", -ENOENT},
	    {IB "rxe0/ports/1/gids/3x", "", -ENOENT},
	    {IB "rxe0/ports/1/gids", "", -ENOENT},
	    {IB "rxe0/ports/1/lid", "", -ENOENT},
	    {IB "rxe0/ports/2/state", "", -ENOENT},
	    {IB "rxe1/ports/1/state", "", -ENOENT},
	    {IB "averyveryverylongname/ports/1/state", "", -ENOENT},
	    {IB "rxe_of_15_bytes/ports/1/state", "1: DOWN\n", 0},
	    {IB "rxe_of_16_bytes_/ports/1/state", "", -ENOENT},
	    {IB, "", -ENOENT},
	    {"/dev/infiniband/uverbs0", "", -ENOENT},
	    {"/sys/devices/urxe/rxe0/vendor", "", -ENOENT},
	};
	char buf[128];

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		int n = sysfs_dynamic(&live, c[i].path, buf, sizeof(buf));

		ck_assert_msg(n == (c[i].err ? c[i].err : (int)strlen(c[i].text)),
			      "%s: %d", c[i].path, n);
		if (n > 0)
			ck_assert_str_eq(buf, c[i].text);
	}
}
END_TEST

START_TEST(where_it_cannot_be_written)
{
	struct sysfs_device dev = {.name = "rxe0", .ifname = "lo"};
	char err[256] = "";

	ck_assert_int_eq(sysfs_write_tree("/nonexistent", &dev, 1, err, sizeof(err)),
			 -ENOENT);
	ck_assert_ptr_nonnull(strstr(err, "/nonexistent"));
	ck_assert_int_lt(sysfs_write_tree("/dev/null", &dev, 1, err, sizeof(err)), 0);
	ck_assert_int_eq(sysfs_device_init(&dev, "rxe0", "nosuchif0"), -ENODEV);
}
END_TEST

/* A tree written under umask @mask and removed by name; 0 if nothing is left of it */
static int left_after_removal(mode_t mask)
{
	static const struct profile card = {.limits.pci_vendor = 0x15b3};
	static struct sysfs_device dev[2];
	char root[] = "/tmp/urxe-sysfs-XXXXXX", err[256], path[300];
	int fd;

	ck_assert_ptr_nonnull(mkdtemp(root));
	ck_assert_int_eq(sysfs_device_init(&dev[0], "rxe0", "lo"), 0);
	dev[1] = dev[0];
	dev[0].profile = &card;
	strcpy(dev[1].name, "rxe.long_name15");
	strcpy(dev[1].ifname, "ifname_of_15byt");
	umask(mask);
	ck_assert_msg(sysfs_write_tree(root, dev, 2, err, sizeof(err)) == 0, "%s", err);
	umask(022);
	snprintf(path, sizeof(path), "%s" IB "rxe0/ports/1/gids/0", root);
	ck_assert_int_eq(access(path, R_OK), 0);
	fd = open(root, O_RDONLY | O_DIRECTORY);
	sysfs_remove_tree(fd);
	close(fd);
	return rmdir(root);
}

START_TEST(all_that_is_written_can_be_removed)
{
	ck_assert_int_eq(left_after_removal(022), 0);
}
END_TEST

/* Directories of it that a program has replaced by links lead to what is not ours. */
START_TEST(what_is_behind_a_link_is_not_removed)
{
	static const char *const dirs[] = {"sys/class/infiniband_verbs",
					   "dev/infiniband"};
	char root[] = "/tmp/urxe-sysfs-XXXXXX", mine[] = "/tmp/urxe-mine-XXXXXX";
	static struct sysfs_device dev;
	char err[256], path[100], away[100], cmd[200];
	int fd;

	ck_assert(mkdtemp(root) && mkdtemp(mine));
	ck_assert_int_eq(sysfs_device_init(&dev, "rxe0", "lo"), 0);
	ck_assert_int_eq(sysfs_write_tree(root, &dev, 1, err, sizeof(err)), 0);
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", root, dirs[i]);
		snprintf(away, sizeof(away), "%s/%d", mine, i);
		ck_assert_int_eq(rename(path, away), 0);
		ck_assert_int_eq(symlink(away, path), 0);
	}
	fd = open(root, O_RDONLY | O_DIRECTORY);
	sysfs_remove_tree(fd);
	close(fd);
	snprintf(path, sizeof(path), "%s/0/abi_version", mine);
	ck_assert_int_eq(access(path, F_OK), 0);
	snprintf(path, sizeof(path), "%s/1/uverbs0", mine);
	ck_assert_int_eq(access(path, F_OK), 0);
	snprintf(cmd, sizeof(cmd), "rm -rf %s %s", root, mine);
	ck_assert_int_eq(system(cmd), 0);
}
END_TEST

START_TEST(the_umask_closes_nothing)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit((geteuid() == 0 && setresuid(65534, 65534, 65534)) ||
		      left_after_removal(0777));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

static void add(TCase *tc)
{
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, files_have_what_the_kernel_has);
	tcase_add_test(tc, modes_are_those_of_the_kernel);
	tcase_add_test(tc, all_cpus_are_near);
	tcase_add_test(tc, the_device_resolves);
	tcase_add_test(tc, counters_of_the_core);
	tcase_add_test(tc, files_follow_the_interface);
	tcase_add_test(tc, all_that_is_written_can_be_removed);
	tcase_add_test(tc, what_is_behind_a_link_is_not_removed);
	tcase_add_test(tc, the_umask_closes_nothing);
	tcase_add_test(tc, where_it_cannot_be_written);
}

int main(void)
{
	return util_run("sysfs", add);
}
