/*
 * join_read.c - reports out of files; see join.h.
 *
 * The files come from other machines, of runs that may have been killed or had no room: what is no report
 * is told, and the others are taken.
 */
#include "tools/join.h"

#include <dirent.h>
#include <errno.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tools/tools.h"

#define FILE_MAX_BYTES (256u << 20) /* a report of 65,536 regions takes 60 MiB */
#define DEPTH	       16

#define NAME(member, name, unit, text) #name,
#define HW_NAME(id, name)	       name,
static const char *const counter_names[JOIN_N] = {
    TRACE_ODP_COUNTERS(NAME) TRACE_NET_COUNTERS(NAME) TRACE_HW_COUNTERS(HW_NAME)};
#undef NAME
#undef HW_NAME

const char *join_counter_name(size_t i)
{
	return counter_names[i];
}

/*
 * struct reader - of one run of join_read()
 * @seen:	device and inode of each file
 */
struct reader {
	struct join *j;
	struct {
		dev_t dev;
		ino_t ino;
	} * seen;
	size_t n_seen;
};

static void bad_file(struct reader *rd, const char *path, const char *why)
{
	usage_error("%s: %s", path, why);
	rd->j->unreadable++;
}

/* --- one report ------------------------------------------------------------------- */

static void printable(char *to, size_t size, const char *from)
{
	size_t n = 0;

	for (; from[n] && n + 1 < size; n++)
		to[n] = from[n] >= ' ' && from[n] < 0x7f ? from[n] : '?';
	to[n] = '\0';
}

static bool whole_number(json_object *v)
{
	return json_object_is_type(v, json_type_int) && json_object_get_int64(v) >= 0;
}

/* Counters from @first to @end that @from has; what it lacks is 0, as in reports of earlier versions */
static bool take_counters(json_object *from, struct join_report *r, size_t first,
			  size_t end)
{
	if (!json_object_is_type(from, json_type_object))
		return false;
	for (size_t i = first; i < end; i++) {
		json_object *v;
		uint64_t n;

		if (!json_object_object_get_ex(from, counter_names[i], &v))
			continue;
		if (!whole_number(v))
			return false;
		n = json_object_get_uint64(v);
		r->n[i] = n > UINT64_MAX - r->n[i] ? UINT64_MAX : r->n[i] + n;
	}
	return true;
}

static bool take_devices(json_object *list, struct join_report *r)
{
	if (!json_object_is_type(list, json_type_array))
		return false;
	for (size_t i = 0; i < json_object_array_length(list); i++)
		if (!take_counters(json_object_array_get_idx(list, i), r, JOIN_HW,
				   JOIN_N))
			return false;
	return true;
}

/* Who it was; false: it is no report */
static bool take_names(json_object *o, struct join_report *r)
{
	json_object *program, *pid, *host, *rank;

	if (!json_object_object_get_ex(o, "program", &program) ||
	    !json_object_is_type(program, json_type_string) ||
	    !json_object_object_get_ex(o, "pid", &pid) || !whole_number(pid))
		return false;
	printable(r->program, sizeof(r->program), json_object_get_string(program));
	r->pid = json_object_get_int64(pid);
	printable(r->host, sizeof(r->host), "?");
	if (json_object_object_get_ex(o, "host", &host) &&
	    json_object_is_type(host, json_type_string) &&
	    json_object_get_string_len(host) > 0)
		printable(r->host, sizeof(r->host), json_object_get_string(host));
	r->rank = JOIN_NO_RANK;
	if (json_object_object_get_ex(o, "rank", &rank) && whole_number(rank))
		r->rank = json_object_get_int64(rank);
	return true;
}

static bool take_report(json_object *o, struct join_report *r)
{
	return json_object_is_type(o, json_type_object) && take_names(o, r) &&
	       take_counters(json_object_object_get(o, "total"), r, JOIN_ODP, JOIN_NET) &&
	       take_counters(json_object_object_get(o, "network"), r, JOIN_NET,
			     JOIN_HW) &&
	       take_devices(json_object_object_get(o, "devices"), r);
}

/* --- files ------------------------------------------------------------------------ */

/* 0 or -ENOMEM */
static int keep(struct join *j, const struct join_report *r, const char *path)
{
	if (j->n == j->room) {
		size_t room = j->room ? 2 * j->room : 64;
		struct join_report *more = realloc(j->r, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		j->r = more;
		j->room = room;
	}
	j->r[j->n] = *r;
	j->r[j->n].file = strdup(path);
	return j->r[j->n].file ? (j->n++, 0) : -ENOMEM;
}

static size_t skip_blanks(const char *text, size_t len)
{
	size_t n = 0;

	while (n < len && strchr(" \t\r\n", text[n]) && text[n])
		n++;
	return n;
}

/* One value of @text, of which @used bytes are taken: 1, 0 if it is no report, or -ENOMEM */
static int take_value(struct reader *rd, json_tokener *tok, const char *path,
		      const char *text, size_t len, size_t *used)
{
	struct join_report r = {0};
	json_object *o = json_tokener_parse_ex(tok, text, (int)len);
	bool ok =
	    json_tokener_get_error(tok) == json_tokener_success && take_report(o, &r);
	int ret = ok ? keep(rd->j, &r, path) : 0;

	*used = json_tokener_get_parse_end(tok);
	json_object_put(o);
	return ret ? ret : ok;
}

/* All reports of a file's text: 0 or -ENOMEM */
static int take_text(struct reader *rd, const char *path, const char *text, size_t len)
{
	json_tokener *tok = json_tokener_new_ex(DEPTH);
	size_t at = skip_blanks(text, len), used = 0;
	int ret = tok ? 1 : -ENOMEM;

	if (at == len)
		bad_file(rd, path, "it is empty");
	for (; ret == 1 && at < len; at += skip_blanks(text + at, len - at)) {
		json_tokener_reset(tok);
		ret = take_value(rd, tok, path, text + at, len - at, &used);
		at += used;
	}
	if (!ret)
		bad_file(rd, path,
			 "it is no report of urxe run --stats=json, or not all of one");
	if (tok)
		json_tokener_free(tok);
	return ret < 0 ? ret : 0;
}

/* What the stream has, ended by a 0; NULL with errno */
static char *read_all(FILE *f, size_t *len)
{
	char *text = NULL;
	FILE *mem = open_memstream(&text, len);
	char buf[65536];
	size_t n, total = 0;

	if (!mem)
		return NULL;
	while (total <= FILE_MAX_BYTES && (n = fread(buf, 1, sizeof(buf), f)) > 0) {
		total += n;
		if (fwrite(buf, 1, n, mem) != n)
			break;
	}
	errno = total > FILE_MAX_BYTES ? EFBIG : errno;
	if (fclose(mem) || ferror(f) || total > FILE_MAX_BYTES) {
		free(text);
		return NULL;
	}
	return text;
}

/* Was this file taken already? -ENOMEM, 0 or 1 */
static int seen_before(struct reader *rd, const struct stat *st)
{
	void *more;

	for (size_t i = 0; i < rd->n_seen; i++)
		if (rd->seen[i].dev == st->st_dev && rd->seen[i].ino == st->st_ino)
			return 1;
	more = realloc(rd->seen, (rd->n_seen + 1) * sizeof(*rd->seen));
	if (!more)
		return -ENOMEM;
	rd->seen = more;
	rd->seen[rd->n_seen].dev = st->st_dev;
	rd->seen[rd->n_seen++].ino = st->st_ino;
	return 0;
}

static int read_file(struct reader *rd, const char *path)
{
	FILE *f = fopen(path, "re");
	struct stat st;
	char *text = NULL;
	size_t len = 0;
	int ret;

	if (!f || fstat(fileno(f), &st)) {
		bad_file(rd, path, strerror(errno));
		return f ? fclose(f) : 0;
	}
	ret = seen_before(rd, &st);
	if (!ret) {
		errno = 0;
		text = read_all(f, &len);
		if (text)
			ret = take_text(rd, path, text, len);
		else
			bad_file(rd, path, strerror(errno ? errno : EIO));
	}
	free(text);
	fclose(f);
	return ret < 0 ? ret : 0;
}

static int is_json_name(const struct dirent *e)
{
	size_t n = strlen(e->d_name);

	return n > 5 && !strcmp(e->d_name + n - 5, ".json");
}

static int read_dir(struct reader *rd, const char *dir)
{
	struct dirent **e;
	int n = scandir(dir, &e, is_json_name, alphasort), ret = 0;

	if (n < 0) {
		bad_file(rd, dir, strerror(errno));
		return 0;
	}
	if (!n)
		bad_file(rd, dir, "no file NAME.json is in this directory");
	for (int i = 0; i < n; i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/%s", dir, e[i]->d_name);
		if (!ret)
			ret = read_file(rd, path);
		free(e[i]);
	}
	free(e);
	return ret;
}

static int by_rank(const void *x, const void *y)
{
	const struct join_report *a = x, *b = y;
	int hosts;

	if (a->rank != b->rank) /* those without a rank come last */
		return (uint64_t)a->rank < (uint64_t)b->rank ? -1 : 1;
	hosts = strcmp(a->host, b->host);
	if (hosts)
		return hosts;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

int join_read(struct join *j, char **names, int n)
{
	struct reader rd = {.j = j};
	struct stat st;
	int ret = 0;

	*j = (struct join){0};
	for (int i = 0; i < n && !ret; i++)
		ret = !stat(names[i], &st) && S_ISDIR(st.st_mode)
			  ? read_dir(&rd, names[i])
			  : read_file(&rd, names[i]);
	free(rd.seen);
	if (j->n)
		qsort(j->r, j->n, sizeof(*j->r), by_rank);
	if (!ret)
		return 0;
	usage_error("%s", strerror(-ret));
	return EXIT_SETUP;
}

void join_free(struct join *j)
{
	for (size_t i = 0; i < j->n; i++)
		free(j->r[i].file);
	free(j->r);
}
