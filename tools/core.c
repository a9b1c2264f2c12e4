/*
 * core.c - see core.h.
 *
 * The parts of the segment's file that were mapped are put together again in a file of memory,
 * which the reader of traces reads as any other. Nothing in a core is believed: what lies beyond
 * its end, or makes no sense, is left out.
 *
 * Owns: the layout of core files (elf(5), the note NT_FILE).
 */
#include "tools/core.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_NOTES (64u << 20)
#define MAX_FILE  (64ull << 30)

/* struct core - @ph: its @n program headers; @notes: the first PT_NOTE, @notes_len bytes */
struct core {
	int fd;
	uint64_t size;
	Elf64_Phdr *ph;
	size_t n;
	char *notes;
	size_t notes_len;
};

/* struct files - the note NT_FILE: @count mappings of pages of @page bytes, and their names */
struct files {
	const char *at; /* start, end, offset in pages of each, 8 bytes each */
	uint64_t count, page;
	const char *name, *end;
};

static bool read_at(const struct core *c, uint64_t offset, void *buf, size_t len)
{
	return offset <= c->size && len <= c->size - offset &&
	       pread(c->fd, buf, len, (off_t)offset) == (ssize_t)len;
}

static int load(struct core *c)
{
	Elf64_Ehdr eh;
	struct stat st;

	if (fstat(c->fd, &st) || !S_ISREG(st.st_mode))
		return -EINVAL;
	c->size = (uint64_t)st.st_size;
	if (!read_at(c, 0, &eh, sizeof(eh)) || memcmp(eh.e_ident, ELFMAG, SELFMAG) ||
	    eh.e_ident[EI_CLASS] != ELFCLASS64 || eh.e_type != ET_CORE ||
	    eh.e_phentsize != sizeof(*c->ph) || !eh.e_phnum)
		return -EINVAL;
	c->n = eh.e_phnum;
	c->ph = calloc(c->n, sizeof(*c->ph));
	if (!c->ph || !read_at(c, eh.e_phoff, c->ph, c->n * sizeof(*c->ph)))
		return -EINVAL;
	for (size_t i = 0; i < c->n && !c->notes; i++) {
		if (c->ph[i].p_type != PT_NOTE || c->ph[i].p_filesz > MAX_NOTES)
			continue;
		c->notes_len = c->ph[i].p_filesz;
		c->notes = malloc(c->notes_len);
		if (!c->notes || !read_at(c, c->ph[i].p_offset, c->notes, c->notes_len))
			return -EINVAL;
	}
	return c->notes ? 0 : -EINVAL;
}

/* The content of the note of @type, *@len bytes; NULL: there is none */
static const char *find_note(const struct core *c, uint32_t type, size_t *len)
{
	size_t at = 0;
	Elf64_Nhdr nh;

	while (c->notes_len - at >= sizeof(nh)) {
		size_t name, desc;

		memcpy(&nh, c->notes + at, sizeof(nh));
		at += sizeof(nh);
		name = ((size_t)nh.n_namesz + 3) & ~(size_t)3;
		desc = ((size_t)nh.n_descsz + 3) & ~(size_t)3;
		if (name > c->notes_len - at || desc > c->notes_len - at - name)
			return NULL;
		if (nh.n_type == type) {
			*len = nh.n_descsz;
			return c->notes + at + name;
		}
		at += name + desc;
	}
	return NULL;
}

static bool find_files(const struct core *c, struct files *f)
{
	size_t len = 0;
	const char *d = find_note(c, NT_FILE, &len);

	if (!d || len < 16)
		return false;
	memcpy(&f->count, d, 8);
	memcpy(&f->page, d + 8, 8);
	if (!f->page || f->page > 1u << 30 || f->count > (len - 16) / 24)
		return false;
	f->at = d + 16;
	f->name = d + 16 + f->count * 24;
	f->end = d + len;
	return true;
}

/* Of mapping @i: 0: where it begins, 1: ends, 2: its place in the file, in pages */
static uint64_t mapping(const struct files *f, uint64_t i, unsigned int what)
{
	uint64_t v;

	memcpy(&v, f->at + 8 * (3 * i + what), sizeof(v));
	return v;
}

/* Bytes of the core that were at @start in the process; NULL: they were not written */
static const Elf64_Phdr *dumped(const struct core *c, uint64_t start)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->ph[i].p_type == PT_LOAD && c->ph[i].p_vaddr == start &&
		    c->ph[i].p_filesz)
			return &c->ph[i];
	return NULL;
}

/* The name of the file of a mapping whose content begins as a segment does; or NULL */
static const char *segment_name(const struct core *c, const struct files *f)
{
	const char *name = f->name;

	for (uint64_t i = 0; i < f->count && name < f->end; i++) {
		const Elf64_Phdr *ph = dumped(c, mapping(f, i, 0));
		char magic[8];

		if (!memchr(name, '\0', (size_t)(f->end - name)))
			return NULL;
		if (ph && !mapping(f, i, 2) &&
		    read_at(c, ph->p_offset, magic, sizeof(magic)) &&
		    !memcmp(magic, TRACE_MAGIC, sizeof(magic)))
			return name;
		name += strlen(name) + 1;
	}
	return NULL;
}

static void copy_part(const struct core *c, const Elf64_Phdr *ph, int to, uint64_t offset)
{
	char buf[65536];
	uint64_t done = 0;

	while (done < ph->p_filesz && offset + done < MAX_FILE) {
		uint64_t left = ph->p_filesz - done;
		size_t len = left < sizeof(buf) ? (size_t)left : sizeof(buf);

		if (!read_at(c, ph->p_offset + done, buf, len) ||
		    pwrite(to, buf, len, (off_t)(offset + done)) != (ssize_t)len)
			return;
		done += len;
	}
}

/* All of the mappings of the file @wanted, into @to */
static void copy_file(const struct core *c, const struct files *f, const char *wanted,
		      int to)
{
	const char *name = f->name;

	for (uint64_t i = 0; i < f->count && name < f->end; i++) {
		const Elf64_Phdr *ph = dumped(c, mapping(f, i, 0));

		if (!memchr(name, '\0', (size_t)(f->end - name)))
			return;
		if (ph && !strcmp(name, wanted) && mapping(f, i, 2) < MAX_FILE / f->page)
			copy_part(c, ph, to, mapping(f, i, 2) * f->page);
		name += strlen(name) + 1;
	}
}

static int open_parts(struct core *c, char *why, size_t size, struct trace_reader **out)
{
	const char *name;
	struct files f;
	int ret, fd;

	name = find_files(c, &f) ? segment_name(c, &f) : NULL;
	if (!name) {
		snprintf(why, size,
			 "is a core without urxe's record: bit 3 of coredump_filter, see "
			 "core(5), was not set, or no device was open");
		return -ENOENT;
	}
	fd = memfd_create("core", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	copy_file(c, &f, name, fd);
	/* the reader's as long as this command runs */
	ret = trace_open_fd(fd, 0, why, size, out);
	if (ret)
		close(fd);
	return ret;
}

int core_open(const char *path, char *why, size_t size, struct trace_reader **out)
{
	struct core c = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
	int ret;

	if (c.fd < 0)
		return -errno;
	ret = load(&c);
	if (!ret)
		ret = open_parts(&c, why, size, out);
	free(c.ph);
	free(c.notes);
	close(c.fd);
	return ret;
}
