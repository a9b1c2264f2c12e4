/*
 * doctor.c - `urxe doctor`: what this machine offers, and what follows from it.
 *
 * Each check tries the real thing, as the library does, instead of reading versions.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <inttypes.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "net/path.h"
#include "tools/tools.h"
#include "verbs/host/netdev.h"
#include "verbs/host/options.h"

/* Newer than the headers that Debian 12 has */
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

enum verdict { OK, LIMITED, MISSING };

/* One line of the report; what it means for the user follows the colon. */
static bool all_there = true;

static __attribute__((format(printf, 3, 4))) void tell(enum verdict v, const char *what,
						       const char *fmt, ...)
{
	static const char *const words[] = {"ok", "limited", "MISSING"};
	va_list ap;

	if (v == MISSING)
		all_there = false;
	printf("%-8s %-22s ", words[v], what);
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

/* --- rdma-core -------------------------------------------------------------------- */

/*
 * The directory that the dynamic linker finds libibverbs in; its full name goes to @path.
 */
static bool find_libibverbs(char path[PATH_MAX])
{
	void *lib = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL);
	void *sym = lib ? dlsym(lib, "ibv_get_device_list") : NULL;
	Dl_info info;
	bool found = sym && dladdr(sym, &info) && realpath(info.dli_fname, path);

	if (lib)
		dlclose(lib);
	return found;
}

static void check_rdma_core(void)
{
	char path[PATH_MAX], pattern[PATH_MAX + 40];
	const char *version;
	glob_t g;

	if (!find_libibverbs(path)) {
		tell(MISSING, "libibverbs",
		     "no RDMA program can run; install libibverbs1");
		return;
	}
	/* libibverbs.so.1.14.44.0: the ABI, then the release of rdma-core */
	version = strstr(path, ".so.1.");
	version = version ? strchr(version + strlen(".so.1."), '.') : NULL;
	tell(OK, "libibverbs", "rdma-core %s (%s)", version ? version + 1 : "?", path);
	*strrchr(path, '/') = '\0';
	snprintf(pattern, sizeof(pattern), "%s/libibverbs/librxe-rdmav*.so", path);
	if (glob(pattern, 0, NULL, &g)) {
		tell(MISSING, "rxe provider",
		     "no device would show up; install ibverbs-providers");
		return;
	}
	tell(OK, "rxe provider", "%s", g.gl_pathv[0]);
	globfree(&g);
}

static void check_preload(void)
{
	char path[PATH_MAX];
	void *lib;

	if (preload_path(SESSION_LIBRARY, path)) {
		tell(MISSING, "liburxe.so",
		     "not found beside this program; build or install it");
		return;
	}
	lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!lib) {
		tell(MISSING, "liburxe.so", "%s", dlerror());
		return;
	}
	/* not closed: it may have left hooks behind */
	tell(OK, "liburxe.so", "%s", path);
}

static void check_ib_core(void)
{
	if (access("/sys/module/ib_core", F_OK))
		tell(OK, "kernel RDMA", "not loaded, and not needed");
	else
		tell(OK, "kernel RDMA",
		     "loaded; programs under urxe see only urxe's devices");
}

/* --- memory ----------------------------------------------------------------------- */

static void check_uffd(void)
{
	struct uffdio_api api = {
	    .api = UFFD_API,
	    .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMOVE |
			UFFD_FEATURE_EVENT_REMAP,
	};
	int fd =
	    (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);

	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0)
		tell(OK, "userfaultfd",
		     "the device learns at once of memory that is unmapped");
	else
		tell(LIMITED, "userfaultfd",
		     "%s: unmapping is seen through the program's libc calls only",
		     strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void check_populate(void)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	void *p =
	    mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p != MAP_FAILED && madvise(p, len, MADV_POPULATE_READ) == 0)
		tell(OK, "MADV_POPULATE",
		     "page faults are resolved by one call (Linux 5.14)");
	else
		tell(LIMITED, "MADV_POPULATE", "%s: pages are touched one by one, slower",
		     strerror(errno));
	if (p != MAP_FAILED)
		munmap(p, len);
}

/* struct pm_scan_arg of linux/fs.h, Linux 6.7 */
struct scan_arg {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
#define SCAN_IOCTL	  _IOWR('f', 16, struct scan_arg)
#define SCAN_PAGE_PRESENT (1 << 3)

static void check_pagemap(void)
{
	size_t len = (size_t)sysconf(_SC_PAGESIZE);
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	uint64_t region[3];
	struct scan_arg arg = {
	    .size = sizeof(arg),
	    .start = (uint64_t)(uintptr_t)&len & ~(uint64_t)(len - 1),
	    .vec = (uint64_t)(uintptr_t)region,
	    .vec_len = 1,
	    .category_mask = SCAN_PAGE_PRESENT,
	    .return_mask = SCAN_PAGE_PRESENT,
	};

	arg.end = arg.start + len;
	if (fd < 0)
		tell(LIMITED, "pagemap", "%s: --odp-start snapshot begins cold",
		     strerror(errno));
	else if (ioctl(fd, SCAN_IOCTL, &arg) < 0)
		tell(OK, "pagemap",
		     "read page by page (no PAGEMAP_SCAN before Linux 6.7)");
	else
		tell(OK, "pagemap", "scanned by the kernel (PAGEMAP_SCAN)");
	if (fd >= 0)
		close(fd);
}

/* --- network ---------------------------------------------------------------------- */

static void check_uring(void)
{
	struct io_uring_params params = {0};
	int fd = (int)syscall(SYS_io_uring_setup, 4, &params);

	if (fd >= 0)
		tell(OK, "io_uring", "--backend uring can be used");
	else
		tell(LIMITED, "io_uring", "%s: --backend socket only", strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void check_offload(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int one = 1, size = 1024;

	if (fd >= 0 && !setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)) &&
	    !setsockopt(fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one)))
		tell(OK, "UDP_SEGMENT, UDP_GRO", "packets travel in batches");
	else
		tell(LIMITED, "UDP_SEGMENT, UDP_GRO", "%s: one packet per call, slower",
		     strerror(errno));
	if (fd >= 0)
		close(fd);
}

static socklen_t socket_address(const struct net_ip *ip, unsigned int ifindex,
				struct sockaddr_storage *ss, char text[INET6_ADDRSTRLEN])
{
	memset(ss, 0, sizeof(*ss));
	if (net_ip_is_v4(ip)) {
		struct sockaddr_in *in = (struct sockaddr_in *)ss;

		in->sin_family = AF_INET;
		in->sin_port = htons(ROCE_UDP_PORT);
		memcpy(&in->sin_addr, ip->b + 12, 4);
		inet_ntop(AF_INET, &in->sin_addr, text, INET6_ADDRSTRLEN);
		return sizeof(*in);
	}
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ss;

	in6->sin6_family = AF_INET6;
	in6->sin6_port = htons(ROCE_UDP_PORT);
	memcpy(&in6->sin6_addr, ip->b, 16);
	if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		in6->sin6_scope_id = ifindex;
	inet_ntop(AF_INET6, &in6->sin6_addr, text, INET6_ADDRSTRLEN);
	return sizeof(*in6);
}

/*
 * The user of the socket that has ROCE_UDP_PORT at @ss or at all addresses, or -1.
 * Format of /proc/net/udp: proc(5); addresses are words in host order.
 */
static long holder(const struct sockaddr_storage *ss)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)ss;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;
	const uint32_t *w = in6->sin6_addr.s6_addr32;
	bool v4 = ss->ss_family == AF_INET;
	char want[40], any[40], addr[40], line[512];
	unsigned int port;
	long uid, found = -1;
	FILE *f = fopen(v4 ? "/proc/net/udp" : "/proc/net/udp6", "re");

	snprintf(any, sizeof(any), "%0*d", v4 ? 8 : 32, 0);
	if (v4)
		snprintf(want, sizeof(want), "%08X", in->sin_addr.s_addr);
	else
		snprintf(want, sizeof(want), "%08X%08X%08X%08X", w[0], w[1], w[2], w[3]);
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, " %*d: %39[0-9A-F]:%x %*s %*s %*s %*s %*s %ld", addr,
			   &port, &uid) == 3 &&
		    port == ROCE_UDP_PORT && (!strcmp(addr, want) || !strcmp(addr, any)))
			found = uid;
	if (f)
		fclose(f);
	return found;
}

static void tell_taken(const char *name, const char *ifname, const char *text, long uid)
{
	if (uid < 0 || uid == (long)geteuid())
		tell(
		    LIMITED, name,
		    "%s, %s: UDP port %d is taken; fine if by another program under urxe",
		    ifname, text, ROCE_UDP_PORT);
	else
		tell(LIMITED, name,
		     "%s, %s: UDP port %d is taken by user %ld: nothing arrives from "
		     "other "
		     "hosts or users; this user's programs reach each other",
		     ifname, text, ROCE_UDP_PORT, uid);
}

static void check_port(const char *name, const char *ifname,
		       const struct netdev_info *info, const struct net_ip *ip)
{
	struct sockaddr_storage ss;
	char text[INET6_ADDRSTRLEN];
	socklen_t len = socket_address(ip, info->ifindex, &ss, text);
	int fd = socket(ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && bind(fd, (struct sockaddr *)&ss, len) == 0)
		tell(OK, name, "%s, %s: UDP port %d is free", ifname, text,
		     ROCE_UDP_PORT);
	else if (errno == EADDRINUSE)
		tell_taken(name, ifname, text, holder(&ss));
	else
		tell(LIMITED, name, "%s, %s: %s", ifname, text, strerror(errno));
	if (fd >= 0)
		close(fd);
}

static void check_devices(void)
{
	char names[OPTIONS_MAX_DEVICES][IF_NAMESIZE];
	int n = netdev_list(names, OPTIONS_MAX_DEVICES);

	if (n <= 0)
		tell(MISSING, "devices",
		     "no network interface is up: there will be none");
	for (int i = 0; i < n && i < OPTIONS_MAX_DEVICES; i++) {
		struct netdev_info info;
		char dev[16];

		snprintf(dev, sizeof(dev), "device rxe%d", i);
		if (netdev_read(names[i], &info))
			continue;
		for (unsigned int k = 0; k < info.n_ips; k++)
			check_port(dev, names[i], &info, &info.ip[k]);
	}
}

static void check_buffer(const char *what, const char *file)
{
	const uint64_t enough =
	    4u << 20; /* a window of 1 MiB, as the kernel accounts for it */
	FILE *f = fopen(file, "re");
	uint64_t value = 0;

	if (!f || fscanf(f, "%" SCNu64, &value) != 1)
		tell(LIMITED, what, "cannot read %s", file);
	else if (value >= enough)
		tell(OK, what, "%" PRIu64 " KiB", value >> 10);
	else
		tell(LIMITED, what,
		     "%" PRIu64
		     " KiB: bulk transfer is slower; sysctl -w net.core.%s=%" PRIu64,
		     value >> 10, what, enough);
	if (f)
		fclose(f);
}

static void check_shm(void)
{
	const uint64_t enough = 16u << 20;
	uint64_t room = session_room("/dev/shm");

	if (access("/dev/shm", R_OK | W_OK | X_OK) == 0 && room >= enough)
		tell(OK, "/dev/shm", "several processes can share an address");
	else if (access("/dev/shm", R_OK | W_OK | X_OK) == 0)
		tell(LIMITED, "/dev/shm",
		     "has %" PRIu64 " KiB: where that is too little, /tmp is used",
		     room >> 10);
	else if (access("/tmp", R_OK | W_OK | X_OK) == 0)
		tell(LIMITED, "/dev/shm",
		     "%s: processes find each other by a file in /tmp", strerror(errno));
	else
		tell(MISSING, "/dev/shm",
		     "%s: use --shm-dir with a directory you can write", strerror(errno));
}

/* --- the command ------------------------------------------------------------------ */

static void print_help(FILE *out)
{
	fputs("usage: urxe doctor\n"
	      "\n"
	      "Shows what this machine offers to emulated devices: one line for each "
	      "thing that\n"
	      "is ok, limited or missing, and what follows. The exit code is 1 if "
	      "something is\n"
	      "missing without which urxe cannot work.\n",
	      out);
}

static int doctor(int argc, char **argv)
{
	static const struct option lo[] = {{.name = "help", .val = 'h'}, {0}};
	struct utsname u;
	int c;

	opterr = 0;
	while ((c = getopt_long(argc, argv, "h", lo, NULL)) != -1) {
		if (c != 'h')
			return option_error(c, argv, "doctor");
		print_help(stdout);
		return 0;
	}
	if (optind < argc)
		return usage_error("doctor takes no argument '%s'", argv[optind]);
	if (!uname(&u))
		tell(OK, "kernel", "%s %s %s", u.sysname, u.release, u.machine);
	check_preload();
	check_rdma_core();
	check_ib_core();
	check_uffd();
	check_populate();
	check_pagemap();
	check_shm();
	check_devices();
	check_offload();
	check_uring();
	check_buffer("rmem_max", "/proc/sys/net/core/rmem_max");
	check_buffer("wmem_max", "/proc/sys/net/core/wmem_max");
	return all_there ? 0 : 1;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "show what this machine offers, and what follows",
    .run = doctor,
    .help = print_help,
};
