/*
 * pcap.c - packets into a capture file; see pcap.h and pcap_internal.h.
 */
#include "net/pcap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/xfsz.h"
#include "net/file_lock.h"
#include "net/ip_header.h"
#include "net/pcap_internal.h"

#define MAGIC_NS       0xa1b23c4du
#define LINKTYPE_ETHER 1
#define SNAPLEN	       65535
#define ETH_HDR	       14
#define FRAME_HDR_MAX  (ETH_HDR + IP6_HDR_LEN + UDP_HDR_LEN)
#define BUF_BYTES      65536

/*
 * struct pcap - @used bytes of @buf are not in the file yet; @broken: it takes no more, @err says
 * why until somebody was told
 */
struct pcap {
	int fd;
	bool broken;
	int err;
	uint32_t used;
	uint8_t buf[BUF_BYTES];
};

static int write_all(int fd, const void *data, size_t len)
{
	struct xfsz x;
	ssize_t n;

	xfsz_hold(&x);
	/*
	 * O_APPEND: one write() is one piece in the file. A short one (a full disk, the
	 * limit of file sizes) ends it.
	 */
	do
		n = write(fd, data, len);
	while (n < 0 && errno == EINTR);
	/* what is left says why the rest could not be written */
	if (n >= 0 && n < (ssize_t)len &&
	    write(fd, (const uint8_t *)data + n, len - n) < 0)
		n = -1;
	xfsz_release(&x);
	if (n < 0)
		return -errno;
	return n == (ssize_t)len ? 0 : -EIO;
}

/*
 * Is the file a capture that pcap_packet() wrote? Its first packet tells: it has the
 * addresses of ether_header(), which no interface has. A capture of another program is
 * somebody's data.
 */
bool pcap_is_ours(int fd, off_t size)
{
	struct pcap_file h;
	struct pcap_record rec;
	uint8_t p[ETH_HDR + IP6_HDR_LEN];
	off_t at = sizeof(h) + sizeof(rec);
	bool v4;

	if (pread(fd, &h, sizeof(h), 0) != sizeof(h) || h.magic != MAGIC_NS ||
	    h.linktype != LINKTYPE_ETHER)
		return false;
	if (size == sizeof(h))
		return true;
	/* the shortest packet is longer than this */
	if (pread(fd, p, sizeof(p), at) != sizeof(p))
		return false;
	v4 = get_be16(p + 12) == 0x0800;
	return p[0] == 0x02 && !p[1] && p[6] == 0x02 && !p[7] &&
	       !memcmp(p + 2, p + ETH_HDR + (v4 ? 16 : 36), 4) &&
	       !memcmp(p + 8, p + ETH_HDR + (v4 ? 12 : 20), 4);
}

/* An empty file gets a header; who comes second finds it there */
static int begin_file(int fd)
{
	struct pcap_file h = {MAGIC_NS, 2, 4, 0, 0, SNAPLEN, LINKTYPE_ETHER};
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	/* a pipe or a terminal has no beginning to look at */
	if (!S_ISREG(st.st_mode) || st.st_size == 0)
		return write_all(fd, &h, sizeof(h));
	return pcap_is_ours(fd, st.st_size) ? 0 : -EEXIST;
}

int pcap_renew(const char *file)
{
	int fd = open(file, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	int ret = 0;

	if (fd < 0)
		return 0;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 &&
	    !lock_byte(fd, F_OFD_SETLK, F_WRLCK, PCAP_BYTE_IN_USE)) {
		ret = begin_file(fd);
		if (!ret && ftruncate(fd, 0) < 0)
			ret = -errno;
	}
	close(fd);
	return ret;
}

/*
 * The file, of which somebody writes packets from now on; -errno. When others were the last to do
 * so, it may just have been put in order, and another one stands there now.
 */
static int open_in_use(const char *file)
{
	struct stat st;
	int fd;

	for (;;) {
		fd = open(file, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
		if (fd < 0)
			return -errno;
		lock_byte(fd, F_OFD_SETLKW, F_RDLCK, PCAP_BYTE_IN_USE);
		if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_nlink)
			return fd;
		close(fd);
	}
}

int pcap_open(const char *file, struct pcap **out)
{
	struct pcap *pc = calloc(1, sizeof(*pc));
	int ret;

	if (!pc)
		return -ENOMEM;
	pc->fd = open_in_use(file);
	if (pc->fd < 0) {
		ret = pc->fd;
		free(pc);
		return ret;
	}
	lock_byte(pc->fd, F_OFD_SETLKW, F_WRLCK, PCAP_BYTE_HEADER);
	ret = begin_file(pc->fd);
	lock_byte(pc->fd, F_OFD_SETLK, F_UNLCK, PCAP_BYTE_HEADER);
	if (ret) {
		pcap_abandon(pc);
		return ret;
	}
	*out = pc;
	return 0;
}

bool pcap_flush(struct pcap *pc)
{
	uint32_t used = pc->used;

	pc->used = 0;
	if (!used || pc->broken)
		return used;
	pc->err = write_all(pc->fd, pc->buf, used);
	/* half a record would make all behind it unreadable */
	pc->broken = pc->err;
	return used;
}

int pcap_error(struct pcap *pc)
{
	int err = pc->err;

	pc->err = 0;
	return err;
}

void pcap_close(struct pcap *pc)
{
	pcap_flush(pc);
	pcap_abandon(pc);
}

void pcap_abandon(struct pcap *pc)
{
	close(pc->fd);
	free(pc);
}

/* --- frames ----------------------------------------------------------------------- */

/* Nobody's MAC addresses are known here: locally administered ones, made from the IP's */
static uint8_t *ether_header(uint8_t *p, const struct net_path *path, bool v4)
{
	p[0] = p[6] = 0x02;
	p[1] = p[7] = 0;
	memcpy(p + 2, path->dst.b + 12, 4);
	memcpy(p + 8, path->src.b + 12, 4);
	put_be16(p + 12, v4 ? 0x0800 : 0x86dd);
	return p + ETH_HDR;
}

static uint8_t *ip_header(uint8_t *p, const struct net_path *path, bool v4, uint16_t id,
			  uint32_t udp_len)
{
	uint8_t ttl = path->ttl ? path->ttl : NET_DEFAULT_TTL, *end;

	if (!v4)
		return ip6_header(p, path, path->tclass, ttl, path->flow, udp_len);
	end = ip4_header(p, path, path->tclass, ttl, id, udp_len);
	ip4_put_checksum(p);
	return end;
}

static uint8_t *udp_header(uint8_t *p, const struct net_path *path, bool v4,
			   const uint8_t *data, uint32_t len)
{
	uint32_t acc = IP_PROTO_UDP + UDP_HDR_LEN + len, from = v4 ? 12 : 0;
	uint16_t check;

	put_be16(p, path->sport);
	put_be16(p + 2, ROCE_UDP_PORT);
	put_be16(p + 4, (uint16_t)(UDP_HDR_LEN + len));
	put_be16(p + 6, 0);
	acc = ip_sum(acc, path->src.b + from, 16 - from);
	acc = ip_sum(acc, path->dst.b + from, 16 - from);
	check = ip_sum_fold(ip_sum(ip_sum(acc, p, UDP_HDR_LEN), data, len));
	put_be16(p + 6, check ? check : 0xffff); /* RFC 768: 0 means that there is none */
	return p + UDP_HDR_LEN;
}

void pcap_packet(struct pcap *pc, const struct net_path *path, uint16_t ip_id,
		 const uint8_t *data, uint32_t len)
{
	bool v4 = net_ip_is_v4(&path->dst);
	struct pcap_record rec;
	struct timespec ts;
	uint8_t *start, *p;

	if (len > SNAPLEN - FRAME_HDR_MAX - sizeof(rec))
		return;
	if (pc->used + sizeof(rec) + FRAME_HDR_MAX + len > sizeof(pc->buf))
		pcap_flush(pc);
	p = start = pc->buf + pc->used + sizeof(rec);
	p = ether_header(p, path, v4);
	p = ip_header(p, path, v4, ip_id, UDP_HDR_LEN + len);
	p = udp_header(p, path, v4, data, len);
	memcpy(p, data, len);
	p += len;
	clock_gettime(CLOCK_REALTIME, &ts);
	rec.sec = (uint32_t)ts.tv_sec;
	rec.nsec = (uint32_t)ts.tv_nsec;
	rec.caplen = rec.len = (uint32_t)(p - start);
	memcpy(start - sizeof(rec), &rec, sizeof(rec));
	pc->used += (uint32_t)sizeof(rec) + rec.len;
}
