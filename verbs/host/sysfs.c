/*
 * sysfs.c - the generated tree: what /sys and /dev show of the emulated devices.
 *
 * Names and formats are those of the kernel's ib_core and rdma_rxe
 * (Documentation/ABI/stable/sysfs-class-infiniband). The devices live below
 * PATHS_DEVICES, the classes link to them, as in the kernel, so that programs that
 * resolve links end in a directory with vendor, numa_node and net/.
 */
#include "verbs/host/sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "verbs/host/netdev.h"
#include "verbs/host/paths.h"

#define UVERBS_ABI 6 /* IB_USER_VERBS_ABI_VERSION */
#define RXE_ABI	   2 /* RXE_UVERBS_ABI_VERSION */
#define UCMA_ABI   4 /* RDMA_USER_CM_ABI_VERSION */

#define CLASS_IB "/sys/class/infiniband/"

static const char *const hw_counters[] = {
    "ack_deferred",
    "completer_retry_err",
    "duplicate_request",
    "link_downed",
    "out_of_seq_request",
    "rcvd_bytes",
    "rcvd_pkts",
    "rcvd_rnr_err",
    "rcvd_seq_err",
    "rdma_recvs",
    "rdma_sends",
    "retry_exceeded_err",
    "retry_rnr_exceeded_err",
    "send_err",
    "send_rnr_err",
    "sent_bytes",
    "sent_pkts",
};

/*
 * struct tree - a tree being written
 * @fd:		its root
 * @err:	the first error, as -errno; what follows it is skipped
 * @path:	where it happened
 */
struct tree {
	int fd;
	int err;
	char path[PATH_MAX];
};

static void set_path(struct tree *t, const char *fmt, va_list ap)
{
	int n = vsnprintf(t->path, sizeof(t->path), fmt, ap);

	if (n < 0 || n >= (int)sizeof(t->path))
		t->err = -ENAMETOOLONG;
}

static void make_parents(struct tree *t)
{
	for (char *p = strchr(t->path, '/'); p && !t->err; p = strchr(p + 1, '/')) {
		*p = '\0';
		if (mkdirat(t->fd, t->path, 0755) && errno != EEXIST)
			t->err = -errno;
		*p = '/';
	}
}

/* A file with @text; parents are made. */
__attribute__((format(printf, 3, 4))) static void put(struct tree *t, const char *text,
						      const char *fmt, ...)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
	ssize_t len = (ssize_t)strlen(text);
	va_list ap;
	int fd;

	if (t->err)
		return;
	va_start(ap, fmt);
	set_path(t, fmt, ap);
	va_end(ap);
	/*
	 * Most files have siblings already: parents are made only when they are missing.
	 */
	fd = openat(t->fd, t->path, flags, 0644);
	if (fd < 0 && errno == ENOENT) {
		make_parents(t);
		if (t->err)
			return;
		fd = openat(t->fd, t->path, flags, 0644);
	}
	if (fd < 0 || write(fd, text, (size_t)len) != len)
		t->err = errno ? -errno : -EIO;
	if (fd >= 0)
		close(fd);
}

__attribute__((format(printf, 3, 4))) static void put_link(struct tree *t, const char *to,
							   const char *fmt, ...)
{
	va_list ap;

	if (t->err)
		return;
	va_start(ap, fmt);
	set_path(t, fmt, ap);
	va_end(ap);
	make_parents(t);
	if (!t->err && symlinkat(to, t->fd, t->path) && errno != EEXIST)
		t->err = -errno;
}

static void put_dir(struct tree *t, const char *path)
{
	if (t->err)
		return;
	strcpy(t->path, path);
	make_parents(t);
}

static void format_guid(uint64_t guid_be, char text[24])
{
	uint8_t b[8];

	memcpy(b, &guid_be, sizeof(b));
	snprintf(text, 24, "%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", b[0], b[1], b[2],
		 b[3], b[4], b[5], b[6], b[7]);
}

static int format_gid(const struct net_ip *ip, char *text, size_t size)
{
	int n = 0;

	for (int i = 0; i < 16; i += 2)
		n += snprintf(text + n, size - (size_t)n, "%02x%02x%c", ip->b[i],
			      ip->b[i + 1], i == 14 ? '\n' : ':');
	return n;
}

static const char *state_text(bool up)
{
	return up ? "4: ACTIVE\n" : "1: DOWN\n";
}

static const char *phys_state_text(bool up)
{
	return up ? "5: LinkUp\n" : "3: Disabled\n";
}

/*
 * The same content as @first, which exists: a link costs less than a file, and nearly all
 * entries of the GID table are empty.
 */
static void put_same(struct tree *t, const char *first, const char *dir, unsigned int i)
{
	if (t->err)
		return;
	snprintf(t->path, sizeof(t->path), "%s/%u", dir, i);
	if (linkat(t->fd, first, t->fd, t->path, 0))
		t->err = -errno;
}

/* The unused entries of one column of the GID table, from @i on */
static void write_unused_gids(struct tree *t, const char *port, const char *column,
			      const char *text, unsigned int i)
{
	char dir[200], first[220];

	if (i >= EMU_GID_TABLE_LEN)
		return;
	snprintf(dir, sizeof(dir), "%s/%s", port, column);
	snprintf(first, sizeof(first), "%s/%u", dir, i);
	put(t, text, "%s", first);
	while (++i < EMU_GID_TABLE_LEN)
		put_same(t, first, dir, i);
}

static void write_gids(struct tree *t, const char *port, const struct sysfs_device *d)
{
	static const struct net_ip none;
	char text[64], ndev[32];

	snprintf(ndev, sizeof(ndev), "%s\n", d->ifname);
	for (unsigned int i = 0; i < d->n_gids; i++) {
		format_gid(&d->gid[i], text, sizeof(text));
		put(t, text, "%s/gids/%u", port, i);
		put(t, "RoCE v2\n", "%s/gid_attrs/types/%u", port, i);
		put(t, ndev, "%s/gid_attrs/ndevs/%u", port, i);
	}
	format_gid(&none, text, sizeof(text));
	write_unused_gids(t, port, "gids", text, d->n_gids);
	write_unused_gids(t, port, "gid_attrs/types", "", d->n_gids);
	write_unused_gids(t, port, "gid_attrs/ndevs", "", d->n_gids);
}

static void write_port(struct tree *t, const char *port, const struct sysfs_device *d)
{
	put(t, state_text(d->up), "%s/state", port);
	put(t, phys_state_text(d->up), "%s/phys_state", port);
	put(t, "2.5 Gb/sec (1X)\n", "%s/rate", port);
	put(t, "0x0\n", "%s/lid", port);
	put(t, "0\n", "%s/lid_mask_count", port);
	put(t, "0x0\n", "%s/sm_lid", port);
	put(t, "0\n", "%s/sm_sl", port);
	put(t, "0x00010000\n", "%s/cap_mask", port); /* IB_PORT_CM_SUP */
	put(t, "Ethernet\n", "%s/link_layer", port);
	put(t, "0xffff\n", "%s/pkeys/0", port);
	write_gids(t, port, d);
	put(t, "10\n", "%s/hw_counters/lifespan", port); /* ms */
	for (size_t i = 0; i < sizeof(hw_counters) / sizeof(hw_counters[0]); i++)
		put(t, "0\n", "%s/hw_counters/%s", port, hw_counters[i]);
}

static void write_ib(struct tree *t, const char *base, const struct sysfs_device *d)
{
	char text[160], dir[128];

	snprintf(dir, sizeof(dir), "%s/infiniband/%s", base, d->name);
	put(t, "1: CA\n", "%s/node_type", dir);
	format_guid(d->guid_be, text);
	put(t, text, "%s/node_guid", dir);
	put(t, text, "%s/sys_image_guid", dir);
	put(t, "rxe\n", "%s/node_desc", dir);
	put(t, "0.0.0\n", "%s/fw_ver", dir);
	snprintf(text, sizeof(text), "%s\n", d->ifname);
	put(t, text, "%s/parent", dir);
	snprintf(text, sizeof(text), "../../../%s", d->name);
	put_link(t, text, "%s/device", dir);
	put_link(t, "../../../../../class/infiniband", "%s/subsystem", dir);
	snprintf(text, sizeof(text), "%s/ports/1", dir);
	write_port(t, text, d);
}

static void write_uverbs(struct tree *t, const char *base, const struct sysfs_device *d,
			 unsigned int index)
{
	dev_t rdev = paths_node_rdev((int)index);
	char text[128], dir[128];

	snprintf(dir, sizeof(dir), "%s/infiniband_verbs/uverbs%u", base, index);
	snprintf(text, sizeof(text), "%s\n", d->name);
	put(t, text, "%s/ibdev", dir);
	snprintf(text, sizeof(text), "%u:%u\n", major(rdev), minor(rdev));
	put(t, text, "%s/dev", dir);
	snprintf(text, sizeof(text), "%d\n", RXE_ABI);
	put(t, text, "%s/abi_version", dir);
	snprintf(text, sizeof(text), "../../../%s", d->name);
	put_link(t, text, "%s/device", dir);
	put(t, "", "dev/infiniband/uverbs%u", index);
}

static void write_device(struct tree *t, const struct sysfs_device *d, unsigned int index)
{
	char base[64], text[64];

	snprintf(base, sizeof(base), "%s/%s", &PATHS_DEVICES[1], d->name);
	put(t, "0xffff\n", "%s/vendor", base);
	put(t, "0x0000\n", "%s/device", base);
	put(t, "-1\n", "%s/numa_node", base);
	snprintf(text, sizeof(text), "/sys/class/net/%s", d->ifname);
	put_link(t, text, "%s/net/%s", base, d->ifname);
	write_ib(t, base, d);
	write_uverbs(t, base, d, index);
}

static void link_device(struct tree *t, const struct sysfs_device *d, unsigned int index)
{
	char to[128];

	snprintf(to, sizeof(to), "../../devices/urxe/%s/infiniband/%s", d->name, d->name);
	put_link(t, to, "sys/class/infiniband/%s", d->name);
	snprintf(to, sizeof(to), "../../devices/urxe/%s/infiniband_verbs/uverbs%u",
		 d->name, index);
	put_link(t, to, "sys/class/infiniband_verbs/uverbs%u", index);
}

static void unlink_device(struct tree *t, const struct sysfs_device *d,
			  unsigned int index)
{
	snprintf(t->path, sizeof(t->path), "sys/class/infiniband/%s", d->name);
	unlinkat(t->fd, t->path, 0);
	snprintf(t->path, sizeof(t->path), "sys/class/infiniband_verbs/uverbs%u", index);
	unlinkat(t->fd, t->path, 0);
}

/* Does readdir(3) give uverbs1 before uverbs0? */
static bool is_reversed(struct tree *t)
{
	int fd = openat(t->fd, "sys/class/infiniband_verbs",
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	bool reversed = false;
	struct dirent *e;

	while (d && (e = readdir(d)) && strcmp(e->d_name, "uverbs0"))
		reversed |= strcmp(e->d_name, "uverbs1") == 0;
	if (d)
		closedir(d);
	return reversed;
}

/*
 * Programs that name no device take the first of the list, and libibverbs lists devices
 * in the order of the directory. tmpfs has the newest entry first on some kernels, the
 * oldest on others.
 */
static void link_devices(struct tree *t, const struct sysfs_device *devs, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		link_device(t, &devs[i], i);
	if (t->err || n < 2 || !is_reversed(t))
		return;
	for (unsigned int i = 0; i < n; i++)
		unlink_device(t, &devs[i], i);
	for (unsigned int i = n; i-- > 0;)
		link_device(t, &devs[i], i);
}

static void write_cm(struct tree *t)
{
	dev_t rdev = paths_node_rdev(PATHS_NODE_CM);
	char text[32];

	snprintf(text, sizeof(text), "%u:%u\n", major(rdev), minor(rdev));
	put(t, text, "sys/class/misc/rdma_cm/dev");
	snprintf(text, sizeof(text), "%d\n", UCMA_ABI);
	put(t, text, "sys/class/misc/rdma_cm/abi_version");
	put(t, "", "dev/infiniband/rdma_cm");
}

int sysfs_write_tree(const char *dir, const struct sysfs_device *devs, unsigned int n,
		     char *err, size_t errlen)
{
	struct tree t = {.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
	char text[16];

	if (t.fd < 0) {
		t.err = -errno;
		snprintf(err, errlen, "%s: %s", dir, strerror(errno));
		return t.err;
	}
	snprintf(text, sizeof(text), "%d\n", UVERBS_ABI);
	put(&t, text, "sys/class/infiniband_verbs/abi_version");
	for (unsigned int i = 0; i < n; i++)
		write_device(&t, &devs[i], i);
	link_devices(&t, devs, n);
	write_cm(&t);
	/* empty classes, so that a scan of them finds nothing instead of the host's */
	put_dir(&t, "sys/class/infiniband/");
	put_dir(&t, "sys/class/infiniband_mad/");
	close(t.fd);
	if (t.err)
		snprintf(err, errlen, "%s/%s: %s", dir, t.path, strerror(-t.err));
	return t.err;
}

int sysfs_device_init(struct sysfs_device *d, const char *name, const char *ifname)
{
	struct netdev_info info;
	int err = netdev_read(ifname, &info);

	if (err)
		return err;
	if (!info.exists)
		return -ENODEV;
	memset(d, 0, sizeof(*d));
	snprintf(d->name, sizeof(d->name), "%s", name);
	snprintf(d->ifname, sizeof(d->ifname), "%s", ifname);
	d->guid_be = netdev_guid_be(ifname, &info);
	d->up = info.up;
	d->n_gids = info.n_ips;
	memcpy(d->gid, info.ip, sizeof(d->gid));
	return 0;
}

/* --- what changes while the program runs ------------------------------------------ */

/*
 * The part of @path behind ports/1/ of a device, whose name goes to @name; NULL when it
 * is something else.
 */
static const char *port_attribute(const char *path, char name[16])
{
	const char *p, *end;
	size_t n;

	if (strncmp(path, CLASS_IB, strlen(CLASS_IB)) == 0) {
		p = path + strlen(CLASS_IB);
	} else if (strncmp(path, PATHS_DEVICES "/", strlen(PATHS_DEVICES) + 1) == 0) {
		p = strstr(path, "/infiniband/");
		if (!p)
			return NULL;
		p += strlen("/infiniband/");
	} else {
		return NULL;
	}
	end = strchr(p, '/');
	n = end ? (size_t)(end - p) : 0;
	if (!n || n >= 16 || strncmp(end, "/ports/1/", 9))
		return NULL;
	memcpy(name, p, n);
	name[n] = '\0';
	return end + 9;
}

/* @attr is @prefix and a number below the length of the GID table */
static bool gid_index(const char *attr, const char *prefix, unsigned int *index)
{
	size_t n = strlen(prefix);
	unsigned long i;
	char *end;

	if (strncmp(attr, prefix, n) || attr[n] < '0' || attr[n] > '9')
		return false;
	i = strtoul(attr + n, &end, 10);
	*index = (unsigned int)i;
	return !*end && i < EMU_GID_TABLE_LEN;
}

static int gid_attribute(const struct sysfs_live *live, int dev, const char *attr,
			 char *buf, size_t size)
{
	struct net_ip ip = {0};
	unsigned int i;

	if (gid_index(attr, "gids/", &i)) {
		if (!live->gid(live->arg, dev, i, &ip))
			memset(&ip, 0, sizeof(ip));
		return format_gid(&ip, buf, size);
	}
	if (gid_index(attr, "gid_attrs/types/", &i))
		return live->gid(live->arg, dev, i, &ip)
			   ? snprintf(buf, size, "RoCE v2\n")
			   : -EINVAL;
	if (gid_index(attr, "gid_attrs/ndevs/", &i))
		return live->gid(live->arg, dev, i, &ip)
			   ? snprintf(buf, size, "%s\n", live->ifname(live->arg, dev))
			   : -EINVAL;
	return -ENOENT;
}

static int port_state(const struct sysfs_live *live, int dev, const char *attr, char *buf,
		      size_t size)
{
	struct ibv_port_attr port;
	bool up;

	if (strcmp(attr, "state") && strcmp(attr, "phys_state"))
		return -ENOENT;
	if (!live->port(live->arg, dev, &port))
		return -ENOENT;
	up = port.state == IBV_PORT_ACTIVE;
	return snprintf(buf, size, "%s",
			strcmp(attr, "state") ? phys_state_text(up) : state_text(up));
}

int sysfs_dynamic(const struct sysfs_live *live, const char *path, char *buf, size_t size)
{
	static const char counters[] = "hw_counters/";
	uint64_t value;
	const char *attr;
	char name[16];
	int dev, n;

	attr = port_attribute(path, name);
	if (!attr)
		return -ENOENT;
	dev = live->device(live->arg, name);
	if (dev < 0)
		return -ENOENT;
	if (strncmp(attr, counters, strlen(counters)) == 0)
		return live->counter(live->arg, dev, attr + strlen(counters), &value)
			   ? snprintf(buf, size, "%" PRIu64 "\n", value)
			   : -ENOENT;
	n = gid_attribute(live, dev, attr, buf, size);
	return n == -ENOENT ? port_state(live, dev, attr, buf, size) : n;
}
