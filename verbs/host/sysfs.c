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

#include "net/filesize.h"
#include "verbs/host/netdev.h"
#include "verbs/host/options.h"
#include "verbs/host/paths.h"
#include "verbs/host/reason.h"

#define UVERBS_ABI 6 /* IB_USER_VERBS_ABI_VERSION */
#define RXE_ABI	   2 /* RXE_UVERBS_ABI_VERSION */
#define UCMA_ABI   4 /* RDMA_USER_CM_ABI_VERSION */

#define NOT_ON_PCI 0xffffu /* struct emu_limits */
#define PCI_DOMAIN 0x7572u /* "ur" */

#define CPUS_MAX      512 /* that are named; more are as near */
#define ATTRIBUTE_MAX 160 /* bytes of the longest file, see write_ib() */
#define DIR_MODE      0755
#define FILE_MODE     0444 /* of attributes */
#define SETTABLE_MODE 0644 /* of those that root may write: there it has no effect */

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
 * Port counters of IBTA 16.1.3.5 and which hw_counter each is, as the kernel has it for rxe; data is
 * counted in words of four bytes.
 */
static const struct port_counter {
	const char *name, *source;
	unsigned int unit;
} port_counters[] = {
    {"VL15_dropped", NULL, 0},
    {"excessive_buffer_overrun_errors", NULL, 0},
    {"link_downed", "link_downed", 1},
    {"link_error_recovery", NULL, 0},
    {"local_link_integrity_errors", NULL, 0},
    {"multicast_rcv_packets", NULL, 0},
    {"multicast_xmit_packets", NULL, 0},
    {"port_rcv_constraint_errors", NULL, 0},
    {"port_rcv_data", "rcvd_bytes", 4},
    {"port_rcv_errors", NULL, 0},
    {"port_rcv_packets", "rcvd_pkts", 1},
    {"port_rcv_remote_physical_errors", NULL, 0},
    {"port_rcv_switch_relay_errors", NULL, 0},
    {"port_xmit_constraint_errors", NULL, 0},
    {"port_xmit_data", "sent_bytes", 4},
    {"port_xmit_discards", NULL, 0},
    {"port_xmit_packets", "sent_pkts", 1},
    {"port_xmit_wait", NULL, 0},
    {"symbol_error", NULL, 0},
    {"unicast_rcv_packets", NULL, 0},
    {"unicast_xmit_packets", NULL, 0},
};

/* Messages of the connection manager, in the order of struct emu_cm_counters; LAP and APR, of
 * alternate paths, are never sent. */
static const char *const cm_counters[] = {
    "cm_tx_msgs",
    "cm_tx_retries",
    "cm_rx_msgs",
    "cm_rx_duplicates",
};
static const char *const cm_msgs[] = {
    "req",  "mra",	"rej",	    "rep", "rtu", "dreq",
    "drep", "sidr_req", "sidr_rep", "lap", "apr",
};
#define N_OF(array) (sizeof(array) / sizeof((array)[0]))

/* The list of devices that a tree is made for, kept in it for its removal */
#define LIST "sys/devices.urxe"

/* What is done with each entry that put() and its like name */
enum pass { MAKE, UNLINK_FILES, REMOVE_DIRS };

/*
 * struct tree - a tree being written or removed
 * @fd:		its root
 * @pass:	what is done now
 * @err:	the first error, as -errno; what follows it is skipped
 * @path:	where it happened
 * @modes:	the umask takes bits away that programs need; they are given back
 * @dir, @dirfd: the directory of the last entry, open while files are unlinked (-1: it is
 *		not there)
 */
struct tree {
	int fd;
	enum pass pass;
	int err;
	char path[PATH_MAX];
	bool modes;
	char dir[PATH_MAX];
	int dirfd;
};

static void set_path(struct tree *t, const char *fmt, va_list ap)
{
	int n = vsnprintf(t->path, sizeof(t->path), fmt, ap);

	if (n < 0 || n >= (int)sizeof(t->path))
		t->err = -ENAMETOOLONG;
}

static void make_dir(struct tree *t, const char *path)
{
	if (!mkdirat(t->fd, path, DIR_MODE)) {
		if (t->modes && fchmodat(t->fd, path, DIR_MODE, 0))
			t->err = -errno;
	} else if (errno != EEXIST) {
		t->err = -errno;
	}
}

static void make_parents(struct tree *t)
{
	for (char *p = strchr(t->path, '/'); p && !t->err; p = strchr(p + 1, '/')) {
		*p = '\0';
		make_dir(t, t->path);
		*p = '/';
	}
}

/* --- removal ---------------------------------------------------------------------- */

/*
 * The directory @path below the root, or -1. No link is followed on the way: where a
 * program has put one there, what is behind it is not ours.
 */
static int open_below(const struct tree *t, const char *path)
{
	int fd = openat(t->fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && *path) {
		char name[NAME_MAX + 1];
		size_t n = strcspn(path, "/");
		int next = -1;

		if (n < sizeof(name)) {
			memcpy(name, path, n);
			name[n] = '\0';
			next = openat(fd, name,
				      O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		}
		close(fd);
		fd = next;
		path += n + (path[n] == '/');
	}
	return fd;
}

/* Split t->path: its directory is t->dir from now on; true if that is another one. */
static bool enter_dir(struct tree *t, const char **name)
{
	char *slash = strrchr(t->path, '/');
	size_t n = slash ? (size_t)(slash - t->path) : 0;

	*name = slash ? slash + 1 : t->path;
	if (!strncmp(t->dir, t->path, n) && !t->dir[n])
		return false;
	memcpy(t->dir, t->path, n);
	t->dir[n] = '\0';
	return true;
}

static void leave_dir(struct tree *t)
{
	if (t->dirfd >= 0)
		close(t->dirfd);
	t->dirfd = -1;
	t->dir[0] = '\0';
}

static void unlink_file(struct tree *t)
{
	const char *name;

	if (enter_dir(t, &name)) {
		if (t->dirfd >= 0)
			close(t->dirfd);
		t->dirfd = open_below(t, t->dir);
	}
	if (t->dirfd >= 0)
		unlinkat(t->dirfd, name, 0);
}

/* The directory of t->path and all above it, as far as they are empty */
static void remove_dirs(struct tree *t)
{
	char path[PATH_MAX];
	const char *name;

	if (!enter_dir(t, &name))
		return;
	strcpy(path, t->dir);
	while (*path) {
		char *slash = strrchr(path, '/');
		int fd;

		if (slash)
			*slash = '\0';
		fd = open_below(t, slash ? path : "");
		if (fd >= 0) {
			unlinkat(fd, slash ? slash + 1 : path, AT_REMOVEDIR);
			close(fd);
		}
		if (!slash)
			break;
	}
}

/* True while a tree is removed: t->path has been dealt with. */
static bool removing(struct tree *t)
{
	if (t->pass == UNLINK_FILES)
		unlink_file(t);
	else if (t->pass == REMOVE_DIRS)
		remove_dirs(t);
	return t->pass != MAKE;
}

/* --- entries ---------------------------------------------------------------------- */

/* The file t->path with @text; parents are made. */
static void put_file(struct tree *t, const char *text, mode_t mode)
{
	const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
	ssize_t len = (ssize_t)strlen(text);
	int fd;

	if (t->err || removing(t))
		return;
	/*
	 * Most files have siblings already: parents are made only when they are missing.
	 */
	fd = openat(t->fd, t->path, flags, mode);
	if (fd < 0 && errno == ENOENT) {
		make_parents(t);
		if (t->err)
			return;
		fd = openat(t->fd, t->path, flags, mode);
	}
	if (fd < 0 || write(fd, text, (size_t)len) != len ||
	    (t->modes && fchmod(fd, mode)))
		t->err = errno ? -errno : -EIO;
	if (fd >= 0)
		close(fd);
}

#define PUT(name, mode)                                                                  \
	__attribute__((format(printf, 3, 4))) static void name(                          \
	    struct tree *t, const char *text, const char *fmt, ...)                      \
	{                                                                                \
		va_list ap;                                                              \
                                                                                         \
		if (t->err)                                                              \
			return;                                                          \
		va_start(ap, fmt);                                                       \
		set_path(t, fmt, ap);                                                    \
		va_end(ap);                                                              \
		put_file(t, text, mode);                                                 \
	}

PUT(put, FILE_MODE)
PUT(put_settable, SETTABLE_MODE)

__attribute__((format(printf, 3, 4))) static void put_link(struct tree *t, const char *to,
							   const char *fmt, ...)
{
	va_list ap;

	if (t->err)
		return;
	va_start(ap, fmt);
	set_path(t, fmt, ap);
	va_end(ap);
	if (t->err || removing(t))
		return;
	make_parents(t);
	if (!t->err && symlinkat(to, t->fd, t->path) && errno != EEXIST)
		t->err = -errno;
}

static void put_dir(struct tree *t, const char *path)
{
	if (t->err)
		return;
	strcpy(t->path, path);
	if (!removing(t))
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

/* gid_type_str of the kernel */
static const char *gid_type(bool v1)
{
	return v1 ? "IB/RoCE v1\n" : "RoCE v2\n";
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
	if (!removing(t) && linkat(t->fd, first, t->fd, t->path, 0))
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
	const struct emu_limits *l = d->profile ? &d->profile->limits : &EMU_LIMITS_RXE;
	unsigned int step = emu_limits_gid_step(l), n = d->n_gids * step;
	char text[64], ndev[32];

	if (n > EMU_GID_TABLE_LEN)
		n = EMU_GID_TABLE_LEN;
	snprintf(ndev, sizeof(ndev), "%s\n", d->ifname);
	for (unsigned int i = 0; i < n; i++) {
		format_gid(&d->gid[i / step], text, sizeof(text));
		put(t, text, "%s/gids/%u", port, i);
		put(t, gid_type(emu_limits_v1(l, i)), "%s/gid_attrs/types/%u", port, i);
		put(t, ndev, "%s/gid_attrs/ndevs/%u", port, i);
	}
	format_gid(&none, text, sizeof(text));
	write_unused_gids(t, port, "gids", text, n);
	write_unused_gids(t, port, "gid_attrs/types", "", n);
	write_unused_gids(t, port, "gid_attrs/ndevs", "", n);
}

static void write_port(struct tree *t, const char *port, const struct sysfs_device *d)
{
	char rate[40] = "2.5 Gb/sec (1X SDR)";

	if (d->profile)
		profile_rate(d->profile, rate, sizeof(rate) - 1);
	strcat(rate, "\n");
	put(t, state_text(d->up), "%s/state", port);
	put(t, phys_state_text(d->up), "%s/phys_state", port);
	put(t, rate, "%s/rate", port);
	put(t, "0x0\n", "%s/lid", port);
	put(t, "0\n", "%s/lid_mask_count", port);
	put(t, "0x0\n", "%s/sm_lid", port);
	put(t, "0\n", "%s/sm_sl", port);
	put(t, "0x00010000\n", "%s/cap_mask", port); /* IB_PORT_CM_SUP */
	put(t, "Ethernet\n", "%s/link_layer", port);
	put(t, "0xffff\n", "%s/pkeys/0", port);
	write_gids(t, port, d);
	put_settable(t, "10\n", "%s/hw_counters/lifespan", port); /* ms */
	for (size_t i = 0; i < sizeof(hw_counters) / sizeof(hw_counters[0]); i++)
		put(t, "0\n", "%s/hw_counters/%s", port, hw_counters[i]);
	for (size_t i = 0; i < N_OF(port_counters); i++)
		put(t, "0\n", "%s/counters/%s", port, port_counters[i].name);
	for (size_t i = 0; i < N_OF(cm_counters) * N_OF(cm_msgs); i++)
		put(t, "0\n", "%s/%s/%s", port, cm_counters[i / N_OF(cm_msgs)],
		    cm_msgs[i % N_OF(cm_msgs)]);
}

/* What udev is told of a device that has a node @name below /dev/infiniband */
static void put_node(struct tree *t, dev_t rdev, const char *name, const char *dir)
{
	char text[ATTRIBUTE_MAX];

	snprintf(text, sizeof(text), "%u:%u\n", major(rdev), minor(rdev));
	put(t, text, "%s/dev", dir);
	snprintf(text, sizeof(text),
		 "MAJOR=%u\nMINOR=%u\nDEVNAME=infiniband/%s\nDEVMODE=0666\n", major(rdev),
		 minor(rdev), name);
	put_settable(t, text, "%s/uevent", dir);
	put_settable(t, "", "dev/infiniband/%s", name);
}

/* A line that only some cards have; it goes with the tree in any case */
static void put_if(struct tree *t, const char *text, const char *dir, const char *name)
{
	char line[ATTRIBUTE_MAX];

	snprintf(line, sizeof(line), "%s\n", text);
	if (*text || t->pass != MAKE)
		put(t, line, "%s/%s", dir, name);
}

/* What is the profile's; rxe has an empty line for its firmware, and no other */
static void write_card(struct tree *t, const char *dir, const struct profile *p)
{
	char text[ATTRIBUTE_MAX] = "\n";

	if (p && strcmp(p->limits.fw_ver, EMU_FW_VER_RXE) != 0)
		snprintf(text, sizeof(text), "%s\n", p->limits.fw_ver);
	put(t, text, "%s/fw_ver", dir);
	put_if(t, p ? p->hca_type : "", dir, "hca_type");
	put_if(t, p ? p->board_id : "", dir, "board_id");
}

static void write_ib(struct tree *t, const char *base, const struct sysfs_device *d)
{
	char text[160], dir[128];

	snprintf(dir, sizeof(dir), "%s/infiniband/%s", base, d->name);
	put(t, "1: CA\n", "%s/node_type", dir);
	format_guid(d->guid_be, text);
	put(t, text, "%s/node_guid", dir);
	put(t, text, "%s/sys_image_guid", dir);
	put_settable(t, "rxe\n", "%s/node_desc", dir);
	write_card(t, dir, d->profile);
	snprintf(text, sizeof(text), "NAME=%s\n", d->name);
	put_settable(t, text, "%s/uevent", dir);
	snprintf(text, sizeof(text), "%s\n", d->ifname);
	put(t, text, "%s/parent", dir);
	snprintf(text, sizeof(text), "../../../%s", strrchr(base, '/') + 1);
	put_link(t, text, "%s/device", dir);
	put_link(t, "../../../../../class/infiniband", "%s/subsystem", dir);
	snprintf(text, sizeof(text), "%s/ports/1", dir);
	write_port(t, text, d);
}

static void write_uverbs(struct tree *t, const char *base, const struct sysfs_device *d,
			 unsigned int index)
{
	char text[128], dir[128], node[32];

	snprintf(node, sizeof(node), "uverbs%u", index);
	snprintf(dir, sizeof(dir), "%s/infiniband_verbs/%s", base, node);
	snprintf(text, sizeof(text), "%s\n", d->name);
	put(t, text, "%s/ibdev", dir);
	put_node(t, paths_node_rdev((int)index), node, dir);
	put_link(t, "../../../../../class/infiniband_verbs", "%s/subsystem", dir);
	snprintf(text, sizeof(text), "%d\n", RXE_ABI);
	put(t, text, "%s/abi_version", dir);
	snprintf(text, sizeof(text), "../../../%s", strrchr(base, '/') + 1);
	put_link(t, text, "%s/device", dir);
}

/*
 * All CPUs are as near as any other: the device is wherever its program runs. As the kernel writes
 * them: a list, and a mask in words of 32 bits, the highest first
 */
static void write_cpus(struct tree *t, const char *base)
{
	unsigned int n = (unsigned int)sysconf(_SC_NPROCESSORS_CONF);
	char text[ATTRIBUTE_MAX];
	size_t len = 0;

	n = !n ? 1 : n > CPUS_MAX ? CPUS_MAX : n;
	snprintf(text, sizeof(text), n > 1 ? "0-%u\n" : "%u\n", n - 1);
	put(t, text, "%s/local_cpulist", base);
	for (unsigned int word = (n + 31) / 32; word-- > 0;) {
		unsigned int bits = n - 32 * word < 32 ? n - 32 * word : 32;

		len +=
		    (size_t)snprintf(text + len, sizeof(text) - len, len ? ",%08x" : "%x",
				     bits == 32 ? ~0u : (1u << bits) - 1);
	}
	snprintf(text + len, sizeof(text) - len, "\n");
	put(t, text, "%s/local_cpus", base);
}

/*
 * The directory of the device: a card's is a PCI address, since programs take that from the end of its path. Its
 * domain is one that machines do not have.
 */
static void name_device(const struct sysfs_device *d, unsigned int index, char text[16])
{
	if (d->profile && d->profile->limits.pci_vendor != NOT_ON_PCI)
		snprintf(text, 16, "%04x:%02x:00.0", PCI_DOMAIN, (index + 1) & 0xff);
	else
		snprintf(text, 16, "%s", d->name);
}

static void write_device(struct tree *t, const struct sysfs_device *d, unsigned int index)
{
	char base[64], text[64], vendor[16], dir[16];

	name_device(d, index, dir);
	snprintf(base, sizeof(base), "%s/%s", &PATHS_DEVICES[1], dir);
	snprintf(vendor, sizeof(vendor), "0x%04x\n",
		 d->profile ? (unsigned int)d->profile->limits.pci_vendor : NOT_ON_PCI);
	put(t, vendor, "%s/vendor", base);
	snprintf(text, sizeof(text), "0x%04x\n",
		 d->profile ? (unsigned int)d->profile->limits.vendor_part_id : 0);
	put(t, text, "%s/device", base);
	put(t, text, "%s/subsystem_device", base);
	put(t, vendor, "%s/subsystem_vendor", base);
	put(t, "0x00\n", "%s/revision", base);
	put(t, "0x020000\n", "%s/class", base); /* an Ethernet controller */
	put(t, "-1\n", "%s/numa_node", base);
	write_cpus(t, base);
	snprintf(text, sizeof(text), "/sys/class/net/%s", d->ifname);
	put_link(t, text, "%s/net/%s", base, d->ifname);
	write_ib(t, base, d);
	write_uverbs(t, base, d, index);
}

static void link_device(struct tree *t, const struct sysfs_device *d, unsigned int index)
{
	char to[128], dir[16];

	name_device(d, index, dir);
	snprintf(to, sizeof(to), "../../devices/urxe/%s/infiniband/%s", dir, d->name);
	put_link(t, to, "sys/class/infiniband/%s", d->name);
	snprintf(to, sizeof(to), "../../devices/urxe/%s/infiniband_verbs/uverbs%u", dir,
		 index);
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
	if (t->err || t->pass != MAKE || n < 2 || !is_reversed(t))
		return;
	for (unsigned int i = 0; i < n; i++)
		unlink_device(t, &devs[i], i);
	for (unsigned int i = n; i-- > 0;)
		link_device(t, &devs[i], i);
}

static void write_cm(struct tree *t)
{
	static const char dir[] = "sys/class/misc/rdma_cm";
	char text[32];

	put_node(t, paths_node_rdev(PATHS_NODE_CM), "rdma_cm", dir);
	put_link(t, "../../../class/misc", "%s/subsystem", dir);
	snprintf(text, sizeof(text), "%d\n", UCMA_ABI);
	put(t, text, "%s/abi_version", dir);
}

static void write_list(struct tree *t, const struct sysfs_device *devs, unsigned int n)
{
	char text[OPTIONS_MAX_DEVICES * 33 + 1] = "";
	size_t len = 0;

	for (unsigned int i = 0; i < n; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s=%s",
					i ? "," : "", devs[i].name, devs[i].ifname);
	/* a link holds a short text by itself, whatever the limit of file sizes is */
	put_link(t, n ? text : "-", LIST);
}

/* All that a tree has; the same list makes and removes it. */
/* A tree is removed without its profile: the device may be a card as well. */
static void unmake_card(struct tree *t, const struct sysfs_device *d, unsigned int index)
{
	static const struct profile card = {.limits.pci_vendor = 0};
	struct sysfs_device as = *d;

	as.profile = &card;
	write_device(t, &as, index);
}

static void do_all(struct tree *t, const struct sysfs_device *devs, unsigned int n)
{
	char text[16];

	if (t->pass == MAKE)
		write_list(t, devs, n);
	snprintf(text, sizeof(text), "%d\n", UVERBS_ABI);
	put(t, text, "sys/class/infiniband_verbs/abi_version");
	for (unsigned int i = 0; i < n; i++) {
		write_device(t, &devs[i], i);
		if (t->pass != MAKE)
			unmake_card(t, &devs[i], i);
	}
	link_devices(t, devs, n);
	write_cm(t);
	/* empty classes, so that a scan of them finds nothing instead of the host's */
	put_dir(t, "sys/class/infiniband/");
	put_dir(t, "sys/class/infiniband_mad/");
	/* a removal that is broken off can be done again */
	if (t->pass != MAKE)
		write_list(t, devs, n);
}

/* Does the umask take away what programs need? */
static bool needs_modes(struct tree *t)
{
	struct stat st;

	make_dir(t, "sys");
	return !t->err && fstatat(t->fd, "sys", &st, 0) == 0 &&
	       (st.st_mode & DIR_MODE) != DIR_MODE;
}

int sysfs_write_tree(const char *dir, const struct sysfs_device *devs, unsigned int n,
		     char *err, size_t errlen)
{
	struct tree t = {.fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			 .dirfd = -1};

	if (t.fd < 0) {
		t.err = -errno;
		snprintf(err, errlen, "%s: %s", dir, strerror(errno));
		return t.err;
	}
	/* A write beyond the limit would end the program with SIGXFSZ. */
	if (!filesize_allowed(ATTRIBUTE_MAX)) {
		close(t.fd);
		snprintf(err, errlen, "cannot make the list of devices: %s%s",
			 strerror(EFBIG), reason_hint(EFBIG));
		return -EFBIG;
	}
	t.modes = needs_modes(&t);
	if (t.modes && fchmodat(t.fd, "sys", DIR_MODE, 0))
		t.err = -errno;
	do_all(&t, devs, n);
	close(t.fd);
	if (t.err)
		snprintf(err, errlen, "%s/%s: %s", dir, t.path, strerror(-t.err));
	return t.err;
}

/* The devices that the tree was made for; how many */
static unsigned int read_list(struct tree *t, struct sysfs_device *devs)
{
	static struct options o; /* large, and removal is no business of threads */
	char text[OPTIONS_MAX_DEVICES * 33 + 1], err[160];
	int fd = open_below(t, "sys");
	ssize_t len =
	    fd < 0 ? -1 : readlinkat(fd, strrchr(LIST, '/') + 1, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	options_default(&o);
	if (len <= 0)
		return 0;
	text[len] = '\0';
	/* What does not parse was not written by us. */
	if (options_set(&o, "device", text, err, sizeof(err)))
		return 0;
	for (unsigned int i = 0; i < o.n_devices; i++) {
		memcpy(devs[i].name, o.device[i].name, sizeof(devs[i].name));
		memcpy(devs[i].ifname, o.device[i].ifname, sizeof(devs[i].ifname));
	}
	return o.n_devices;
}

void sysfs_remove_tree(int root)
{
	static struct sysfs_device devs[OPTIONS_MAX_DEVICES];
	struct tree t = {.fd = root, .dirfd = -1};
	unsigned int n = read_list(&t, devs);

	for (t.pass = UNLINK_FILES; t.pass <= REMOVE_DIRS; t.pass++) {
		do_all(&t, devs, n);
		/* dev comes into place before sys with the list does */
		for (unsigned int i = n; i < OPTIONS_MAX_DEVICES; i++)
			put_settable(&t, "", "dev/infiniband/uverbs%u", i);
		leave_dir(&t);
	}
}

int sysfs_device_init(struct sysfs_device *d, const char *name, const char *ifname)
{
	struct netdev_info info;
	int ret = netdev_read(ifname, &info);

	if (ret)
		return ret;
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
			   ? snprintf(buf, size, "%s",
				      gid_type(live->v1(live->arg, dev, i)))
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

/* What is not counted stays the 0 that the tree has. */
static int port_counter(const struct sysfs_live *live, int dev, const char *name,
			char *buf, size_t size)
{
	const struct port_counter *c;
	uint64_t value;
	size_t i;

	for (i = 0; i < sizeof(port_counters) / sizeof(port_counters[0]); i++) {
		c = &port_counters[i];
		if (c->source && !strcmp(c->name, name) &&
		    live->counter(live->arg, dev, c->source, &value))
			return snprintf(buf, size, "%" PRIu64 "\n", value / c->unit);
	}
	return -ENOENT;
}

/* GROUP/MESSAGE */
static int cm_counter(const struct sysfs_live *live, int dev, const char *attr, char *buf,
		      size_t size)
{
	const char *slash = strchr(attr, '/');
	size_t n = slash ? (size_t)(slash - attr) : 0, i, k;

	for (i = 0; n && i < N_OF(cm_counters); i++) {
		if (strlen(cm_counters[i]) != n || strncmp(cm_counters[i], attr, n) != 0)
			continue;
		for (k = 0; k < N_OF(cm_msgs); k++)
			if (!strcmp(cm_msgs[k], slash + 1))
				return snprintf(buf, size, "%" PRIu64 "\n",
						live->cm(live->arg, dev, (unsigned int)i,
							 (unsigned int)k));
	}
	return -ENOENT;
}

int sysfs_dynamic(const struct sysfs_live *live, const char *path, char *buf, size_t size)
{
	static const char counters[] = "hw_counters/", of_port[] = "counters/";
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
	if (strncmp(attr, of_port, strlen(of_port)) == 0)
		return port_counter(live, dev, attr + strlen(of_port), buf, size);
	if (strncmp(attr, "cm_", 3) == 0)
		return cm_counter(live, dev, attr, buf, size);
	n = gid_attribute(live, dev, attr, buf, size);
	return n == -ENOENT ? port_state(live, dev, attr, buf, size) : n;
}
