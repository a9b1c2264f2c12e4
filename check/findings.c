/*
 * findings.c - what was found, once for each stack, written at once so that nothing is lost when
 * the program dies.
 *
 * Each process has a file of the session, with a line of JSON for each finding, and one
 * more when its count has doubled. `urxe run` reads it when the program has ended
 * (tools/checked.c): it finds the names of functions, leaves out what is suppressed, and
 * prints.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check/check.h"

#define LINE	(64u << 10)
#define IGNORED 64

static const char *const ids[CHECK_N_IDS] = {
#define X(name, id, class, severity, what, why) [CHECK_##name] = (id),
    CHECK_IDS(X)
#undef X
};

/* struct finding - @key: of its stack; @number: its place in the file */
struct finding {
	struct finding *next;
	enum check_id id;
	uint64_t key;
	unsigned int number;
	uint64_t count;
};

static struct finding *findings;
static unsigned int n_findings;
static bool expected[CHECK_N_IDS];
static struct {
	uint64_t addr, len;
} ignored[IGNORED];
static unsigned int n_ignored;

/* struct line - text that is being made; what does not fit is cut at the end */
struct line {
	size_t n;
	char text[LINE];
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *fmt,
						      ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(l->text + l->n, sizeof(l->text) - l->n, fmt, ap);
	va_end(ap);
	if (n > 0)
		l->n += (size_t)n;
	if (l->n >= sizeof(l->text))
		l->n = sizeof(l->text) - 1;
}

static void add_string(struct line *l, const char *s)
{
	add(l, "\"");
	for (; *s; s++)
		if (*s == '"' || *s == '\\')
			add(l, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			add(l, "\\u%04x", (unsigned int)(unsigned char)*s);
		else
			add(l, "%c", *s);
	add(l, "\"");
}

static struct link_map *map_of(void *pc)
{
	struct dl_find_object found;

	/* which takes no lock of the loader, unlike dladdr(3): another thread may have it */
	return _dl_find_object(pc, &found) ? NULL : found.dlfo_link_map;
}

const char *check_file_of(void *pc)
{
	struct link_map *map = map_of(pc);

	return map && *map->l_name ? map->l_name : NULL;
}

/* The file that an address is in, and which address it has there */
static void add_frame(struct line *l, void *pc)
{
	char exe[PATH_MAX] = "";
	const char *file = NULL;
	struct link_map *map = map_of(pc);

	if (map) {
		file = map->l_name;
		if (!*file && readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0)
			file = exe;
	}
	add(l, "{\"pc\":%llu,\"file\":",
	    (unsigned long long)((uintptr_t)pc - (map ? map->l_addr : 0)));
	add_string(l, file ? file : "");
	add(l, "}");
}

static void add_stack(struct line *l, const struct check_with *w)
{
	add(l, "{\"what\":");
	add_string(l, w->what);
	add(l, ",\"frames\":[");
	for (unsigned int i = 0; w->stack && i < w->stack->n; i++) {
		add(l, i ? "," : "");
		add_frame(l, w->stack->pc[i]);
	}
	add(l, "]}");
}

/* To the end of this process's file; without a session there is none */
static void write_line(struct line *l)
{
	const char *dir = getenv("URXE_DIR");
	char path[PATH_MAX];
	int fd;

	if (!dir || snprintf(path, sizeof(path), "%s/check.%d", dir, (int)getpid()) >=
			(int)sizeof(path))
		return;
	add(l, "\n");
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	if (write(fd, l->text, l->n) < 0)
		errno = 0; /* no room: it is lost */
	close(fd);
}

static void write_finding(const struct finding *f, const struct check_with *with,
			  unsigned int n, const char *text)
{
	struct line *l = calloc(1, sizeof(*l));

	if (!l)
		return;
	add(l, "{\"id\":\"%s\",\"number\":%u,\"expected\":%s,\"pid\":%d,\"program\":",
	    ids[f->id], f->number, expected[f->id] ? "true" : "false", (int)getpid());
	add_string(l, program_invocation_short_name);
	add(l, ",\"text\":");
	add_string(l, text);
	add(l, ",\"stacks\":[");
	for (unsigned int i = 0; i < n; i++) {
		add(l, i ? "," : "");
		add_stack(l, &with[i]);
	}
	add(l, "]}");
	write_line(l);
	free(l);
}

/* @exact: the process ends */
static void write_count(const struct finding *f, bool exact)
{
	struct line *l = calloc(1, sizeof(*l));

	if (!l)
		return;
	add(l, "{\"again\":%u,\"pid\":%d,\"count\":%llu,\"exact\":%s}", f->number,
	    (int)getpid(), (unsigned long long)f->count, exact ? "true" : "false");
	write_line(l);
	free(l);
}

static struct finding *find(enum check_id id, uint64_t key)
{
	struct finding *f = findings;

	while (f && (f->id != id || f->key != key))
		f = f->next;
	return f;
}

void check_report(enum check_id id, const struct check_with *with, unsigned int n,
		  const char *fmt, ...)
{
	uint64_t key = 0;
	struct finding *f;
	char text[512];
	int err = errno;
	va_list ap;

	if (!check_wants(id))
		return;
	for (unsigned int i = 0; i < n && !key; i++)
		key = with[i].stack ? with[i].stack->hash : 0;
	f = find(id, key);
	if (f) {
		f->count++;
		if (!(f->count & (f->count - 1)))
			write_count(f, false);
		errno = err;
		return;
	}
	f = calloc(1, sizeof(*f));
	if (!f)
		return;
	*f = (struct finding){findings, id, key, n_findings++, 1};
	findings = f;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	write_finding(f, with, n, text);
	errno = err;
}

void check_findings_at_exit(void)
{
	for (const struct finding *f = findings; f; f = f->next)
		write_count(f, true);
}

void check_forget_findings(void)
{
	findings = NULL;
	n_findings = 0;
}

bool check_expect(const char *id)
{
	for (unsigned int i = 0; i < CHECK_N_IDS; i++)
		if (!strcmp(ids[i], id)) {
			expected[i] = true;
			return true;
		}
	return false;
}

void check_ignore(uint64_t addr, uint64_t len)
{
	ignored[n_ignored % IGNORED].addr = addr;
	ignored[n_ignored++ % IGNORED].len = len;
}

bool check_ignored(uint64_t addr, uint64_t len)
{
	for (unsigned int i = 0; i < n_ignored && i < IGNORED; i++)
		if (ignored[i].addr < addr + len &&
		    addr < ignored[i].addr + ignored[i].len)
			return true;
	return false;
}
