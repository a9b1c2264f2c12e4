/*
 * maps.c - see maps.h.
 */
#include "odp/maps.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

#include "odp/sys.h"

/* <linux/fs.h> of Linux 6.11 */
struct procmap_query {
	uint64_t size;
	uint64_t query_flags;
	uint64_t query_addr;
	uint64_t vma_start;
	uint64_t vma_end;
	uint64_t vma_flags;
	uint64_t vma_page_size;
	uint64_t vma_offset;
	uint64_t inode;
	uint32_t dev_major;
	uint32_t dev_minor;
	uint32_t vma_name_size;
	uint32_t build_id_size;
	uint64_t vma_name_addr;
	uint64_t build_id_addr;
};
#define QUERY		       _IOWR('f', 17, struct procmap_query)
#define QUERY_VMA_READABLE     0x01
#define QUERY_VMA_WRITABLE     0x02
#define QUERY_VMA_SHARED       0x08
#define QUERY_COVERING_OR_NEXT 0x10

int maps_open(struct maps *m)
{
	m->fd = sys_open("/proc/self/maps", O_RDONLY);
	m->query = true;
	return m->fd < 0 ? -errno : 0;
}

void maps_close(struct maps *m)
{
	sys_close(m->fd);
}

/*
 * struct text - a file of /proc read byte by byte
 * @off:	of the next read
 */
struct text {
	int fd;
	off_t off;
	char buf[1024];
	int pos, len;
};

static int text_get(struct text *t)
{
	if (t->pos == t->len) {
		ssize_t n = sys_pread(t->fd, t->buf, sizeof(t->buf), t->off);

		if (n <= 0)
			return -1;
		t->off += n;
		t->pos = 0;
		t->len = (int)n;
	}
	return (unsigned char)t->buf[t->pos++];
}

/* A hexadecimal number and the character that ends it, which is returned */
static int text_hex(struct text *t, uintptr_t *out)
{
	int c;

	*out = 0;
	for (;;) {
		c = text_get(t);
		if (c >= '0' && c <= '9')
			*out = *out << 4 | (unsigned int)(c - '0');
		else if (c >= 'a' && c <= 'f')
			*out = *out << 4 | (unsigned int)(c - 'a' + 10);
		else
			return c;
	}
}

/* The rest of a line, cut to fit; false at the end of the file */
static bool text_line(struct text *t, char *line, size_t size)
{
	size_t n = 0;
	int c;

	while ((c = text_get(t)) >= 0 && c != '\n')
		if (n + 1 < size)
			line[n++] = (char)c;
	line[n] = 0;
	return c >= 0;
}

/* A decimal number and the character that ends it, which is returned */
static int text_decimal(struct text *t, uint64_t *out)
{
	int c;

	*out = 0;
	while ((c = text_get(t)) >= '0' && c <= '9')
		*out = *out * 10 + (unsigned int)(c - '0');
	return c;
}

/* "rw-p 00000000 00:01 1234 name", behind the addresses. False: it ends early */
static bool text_vma(struct text *t, struct vma *vma)
{
	uintptr_t offset, major, minor;
	char perm[4];
	int c;

	for (int i = 0; i < 4; i++) {
		c = text_get(t);
		if (c < 0)
			return false;
		perm[i] = (char)c;
	}
	vma->readable = perm[0] == 'r';
	vma->writable = perm[1] == 'w';
	vma->shared = perm[3] == 's';
	if (text_get(t) != ' ' || text_hex(t, &offset) != ' ' ||
	    text_hex(t, &major) != ':' || text_hex(t, &minor) != ' ')
		return false;
	vma->dev = makedev((unsigned int)major, (unsigned int)minor);
	c = text_decimal(t, &vma->inode);
	return c == ' ' || c == '\n';
}

static bool find_text(int fd, uintptr_t addr, struct vma *vma)
{
	struct text t = {.fd = fd};
	char line[8];

	memset(vma, 0, sizeof(*vma));
	while (text_hex(&t, &vma->start) == '-' && text_hex(&t, &vma->end) == ' ') {
		if (vma->end > addr)
			return text_vma(&t, vma);
		if (!text_line(&t, line, sizeof(line)))
			return false;
	}
	return false;
}

bool maps_find(struct maps *m, uintptr_t addr, struct vma *vma)
{
	struct procmap_query q = {
	    .size = sizeof(q),
	    .query_flags = QUERY_COVERING_OR_NEXT,
	    .query_addr = addr,
	};

	if (m->query && !sys_ioctl(m->fd, QUERY, &q)) {
		vma->start = q.vma_start;
		vma->end = q.vma_end;
		vma->readable = q.vma_flags & QUERY_VMA_READABLE;
		vma->writable = q.vma_flags & QUERY_VMA_WRITABLE;
		vma->shared = q.vma_flags & QUERY_VMA_SHARED;
		vma->page_size = q.vma_page_size;
		vma->dev = makedev(q.dev_major, q.dev_minor);
		vma->inode = q.inode;
		return true;
	}
	if (m->query && errno == ENOENT)
		return false;
	m->query = false;
	return find_text(m->fd, addr, vma);
}

/* The mapping's KernelPageSize in /proc/self/smaps, which takes long; 0 if unknown */
size_t maps_page_size(uintptr_t addr)
{
	struct text t = {.fd = sys_open("/proc/self/smaps", O_RDONLY)};
	static const char key[] = "KernelPageSize:";
	uintptr_t start, end;
	bool inside = false;
	size_t size = 0;
	char line[80];
	int c;

	if (t.fd < 0)
		return 0;
	for (;;) {
		/*
		 * A mapping begins with an address, its properties with a capital letter.
		 */
		c = text_get(&t);
		if (c < 0)
			break;
		if (c < 'A' || c > 'Z') {
			t.pos--;
			text_hex(&t, &start);
			text_hex(&t, &end);
			inside = addr >= start && addr < end;
			if (start > addr)
				break;
		}
		if (!text_line(&t, line, sizeof(line)))
			break;
		if (!inside || c != key[0] || strncmp(line, key + 1, strlen(key + 1)))
			continue;
		for (char *p = line + strlen(key + 1); *p; p++)
			if (*p >= '0' && *p <= '9')
				size = size * 10 + (size_t)(*p - '0');
		size <<= 10;
		break;
	}
	sys_close(t.fd);
	return size;
}
