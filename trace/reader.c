/*
 * reader.c - see reader.h.
 *
 * Files are read by pread(2), not mapped: one that is made shorter meanwhile gives a short
 * read and no signal. Each stretch of the ring is read twice, since a record is whole only if
 * its sequence was the same before and after.
 *
 * Owns struct trace_reader. Must not know: what records mean, where files are.
 */
#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace/recorder.h"

#define WINDOW	    1024u /* slots read at a time */
#define CHUNK	    256u  /* objects read at a time */
#define MAX_OBJECTS (1u << 21)

/* struct raw_slot - a slot as it was read */
struct raw_slot {
	uint64_t seq, time, what;
	uint64_t payload[TRACE_PAYLOAD / 8];
};

/*
 * struct trace_reader
 * @fd, @own_fd, @rec: where it is read from
 * @max:	objects that are kept at most
 * @ring:	where the ring is
 * @at:		number of the record that trace_next() looks at next
 * @win_first, @win_n: numbers of the slots in @win; @again: the same, read later
 */
struct trace_reader {
	int fd;
	bool own_fd;
	const struct recorder *rec;
	size_t max;
	uint64_t ring;
	struct trace_info info;
	struct trace_object *object;
	size_t n_objects, room_objects;
	uint64_t at, unreadable;
	uint64_t win_first, win_n;
	struct raw_slot win[WINDOW], again[WINDOW];
};

static int refuse(int err, char *why, size_t size, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int refuse(int err, char *why, size_t size, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (why)
		vsnprintf(why, size, fmt, ap);
	va_end(ap);
	return -err;
}

/* --- the source ------------------------------------------------------------------- */

/* @len bytes at @offset; how many there were */
static size_t source_read(const struct trace_reader *t, uint64_t offset, void *buf,
			  size_t len)
{
	size_t done = 0;

	if (t->rec)
		return recorder_copy(t->rec, offset, buf, len) ? len : 0;
	while (done < len) {
		ssize_t n =
		    pread(t->fd, (char *)buf + done, len - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

/* Texts come from whoever could write to the file, and go to terminals. */
static void clean(char *s, size_t size)
{
	size_t i = 0;

	for (; i + 1 < size && s[i]; i++)
		if (s[i] < 0x20 || s[i] > 0x7e)
			s[i] = '?';
	memset(s + i, 0, size - i);
}

/* --- the header ------------------------------------------------------------------- */

static int check_header(const struct trace_header *h, char *why, size_t size)
{
	if (memcmp(h->magic, TRACE_MAGIC, sizeof(h->magic)))
		return refuse(EINVAL, why, size, "is no trace of urxe");
	if (h->version && h->version != TRACE_VERSION)
		return refuse(EPROTONOSUPPORT, why, size,
			      "is of version %u, this urxe reads version %u", h->version,
			      TRACE_VERSION);
	if (!h->version || h->header_bytes != TRACE_HEADER_BYTES ||
	    h->slot_bytes != sizeof(struct trace_slot) ||
	    h->object_bytes != sizeof(struct trace_object) || !h->slots ||
	    h->slots & (h->slots - 1) || h->slots > TRACE_MAX_SLOTS ||
	    h->ring_offset < TRACE_HEADER_BYTES || h->ring_offset > 1ull << 40)
		return refuse(EINVAL, why, size, "is a damaged trace");
	return 0;
}

static void take_info(struct trace_reader *t, const struct trace_header *h)
{
	struct trace_info *i = &t->info;

	*i = (struct trace_info){
	    .pid = h->pid,
	    .uid = h->uid,
	    .start = h->start,
	    .mono = h->mono,
	    .real = h->real,
	    .exe_dev = h->exe_dev,
	    .exe_ino = h->exe_ino,
	    .kinds = h->kinds,
	    .end = h->end,
	    .full = h->full,
	    .uffd = h->uffd,
	    .uffd_events = h->uffd_events,
	    .slots = h->slots,
	    .next = h->next,
	    .lost = h->lost,
	    .unlisted = h->unlisted,
	    .full_from = h->full_from,
	    .full_until = h->full_until,
	    .asked = h->asked,
	    .done = h->done,
	    .refused = h->refused,
	    .lease = h->lease,
	    .completions = h->completions,
	    .most = h->most,
	    .abandoned = h->abandoned,
	};
	memcpy(i->program, h->program, sizeof(i->program));
	memcpy(i->host, h->host, sizeof(i->host));
	memcpy(i->rank, h->rank, sizeof(i->rank));
	clean(i->rank, sizeof(i->rank));
	memcpy(i->elsewhere, h->elsewhere, sizeof(i->elsewhere));
	clean(i->program, sizeof(i->program));
	clean(i->host, sizeof(i->host));
	memcpy(i->keep, h->keep, sizeof(i->keep));
	i->elsewhere[sizeof(i->elsewhere) - 1] = '\0';
	i->keep[sizeof(i->keep) - 1] = '\0';
	i->overwritten = i->next > i->slots ? i->next - i->slots : 0;
	if (h->ring_first > i->overwritten && h->ring_first <= i->next)
		i->overwritten = h->ring_first;
	i->first = i->overwritten;
	for (size_t k = 0; k < TRACE_N_ODP; k++)
		i->gone[k] = h->gone[k];
	memcpy(i->net, h->net, sizeof(i->net));
	memcpy(i->left, h->left, sizeof(i->left));
}

/* --- objects ---------------------------------------------------------------------- */

static void clean_object(struct trace_object *o)
{
	clean(o->name, sizeof(o->name));
	if (o->kind == TRACE_OBJ_DEVICE)
		clean(o->dev.ifname, sizeof(o->dev.ifname));
	else if (o->kind == TRACE_OBJ_CM_ID)
		clean(o->cm.state, sizeof(o->cm.state));
	else if (o->kind == TRACE_OBJ_MODULE)
		clean(o->module.path, sizeof(o->module.path));
	else if (o->kind == TRACE_OBJ_STACK && o->stack.n > TRACE_FRAMES)
		o->stack.n = TRACE_FRAMES;
	else if (o->kind == TRACE_OBJ_NOTE)
		clean(o->note.text, sizeof(o->note.text));
	else if (o->kind == TRACE_OBJ_MR)
		for (size_t i = 0; i < TRACE_MAP_CELLS; i++)
			if (!o->mr.map[i] || !strchr(".rwpRWP", o->mr.map[i]))
				o->mr.map[i] = '\0';
}

/* Kept if it is one and there is room for it */
static int keep_object(struct trace_reader *t, const struct trace_object *o)
{
	struct trace_object *more;
	size_t room;

	if (o->kind == TRACE_OBJ_FREE || o->kind >= TRACE_N_OBJECTS ||
	    t->n_objects == t->max)
		return 0;
	if (t->n_objects == t->room_objects) {
		room = t->room_objects ? 2 * t->room_objects : CHUNK;
		more = realloc(t->object, room * sizeof(*more));
		if (!more)
			return -ENOMEM;
		t->object = more;
		t->room_objects = room;
	}
	memcpy(&t->object[t->n_objects], o, sizeof(*o));
	clean_object(&t->object[t->n_objects++]);
	return 0;
}

static int read_block(struct trace_reader *t, uint64_t offset, uint64_t count)
{
	struct trace_object buf[CHUNK];
	uint64_t at = 0;
	int ret = 0;

	while (at < count && !ret && t->n_objects < t->max) {
		size_t want = count - at < CHUNK ? count - at : CHUNK;
		size_t got =
		    source_read(t, offset + at * sizeof(*buf), buf, want * sizeof(*buf)) /
		    sizeof(*buf);

		for (size_t i = 0; i < got && !ret; i++)
			ret = keep_object(t, &buf[i]);
		if (got < want)
			break;
		at += got;
	}
	return ret;
}

static int by_serial(const void *a, const void *b)
{
	uint64_t x = ((const struct trace_object *)a)->serial;
	uint64_t y = ((const struct trace_object *)b)->serial;

	return x < y ? -1 : x > y;
}

static int read_objects(struct trace_reader *t, const struct trace_header *h)
{
	int ret = 0;

	t->n_objects = 0;
	for (unsigned int i = 0; i < TRACE_BLOCKS && !ret; i++) {
		const struct trace_block *b = &h->block[i];

		/* each block is as large as its place says */
		if (b->count != (uint64_t)TRACE_FIRST_BLOCK << i || b->offset > 1ull
										    << 40)
			break;
		ret = read_block(t, b->offset, b->count);
	}
	if (t->n_objects)
		qsort(t->object, t->n_objects, sizeof(*t->object), by_serial);
	return ret;
}

/* --- opening ---------------------------------------------------------------------- */

static int load(struct trace_reader *t, char *why, size_t size)
{
	union {
		struct trace_header h;
		char bytes[TRACE_HEADER_BYTES];
	} u;
	struct stat st;
	int ret;

	if (!t->rec && fstat(t->fd, &st))
		return refuse(errno, why, size, "%s", strerror(errno));
	if (!t->rec && !S_ISREG(st.st_mode))
		return refuse(EINVAL, why, size, "is no regular file");
	if (source_read(t, 0, &u, sizeof(u)) != sizeof(u))
		return refuse(EINVAL, why, size, "is no trace of urxe: it is too short");
	ret = check_header(&u.h, why, size);
	if (ret)
		return ret;
	take_info(t, &u.h);
	t->ring = u.h.ring_offset;
	ret = read_objects(t, &u.h);
	if (ret)
		return refuse(ENOMEM, why, size, "out of memory");
	return 0;
}

static int begin(struct trace_reader *t, char *why, size_t size,
		 struct trace_reader **out)
{
	int ret = load(t, why, size);

	if (ret) {
		trace_close(t);
		return ret;
	}
	trace_rewind(t);
	*out = t;
	return 0;
}

int trace_open_fd(int fd, size_t max, char *why, size_t size, struct trace_reader **out)
{
	struct trace_reader *t = calloc(1, sizeof(*t));

	if (!t)
		return refuse(ENOMEM, why, size, "out of memory");
	t->fd = fd;
	t->max = max ? max : MAX_OBJECTS;
	return begin(t, why, size, out);
}

int trace_open(const char *path, char *why, size_t size, struct trace_reader **out)
{
	/* a FIFO, or a terminal, is found out without waiting for it */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), ret;

	if (fd < 0)
		return refuse(errno, why, size, "%s", strerror(errno));
	ret = trace_open_fd(fd, 0, why, size, out);
	if (ret)
		close(fd);
	else
		(*out)->own_fd = true;
	return ret;
}

int trace_open_recorder(const struct recorder *r, struct trace_reader **out)
{
	struct trace_reader *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->fd = -1;
	t->rec = r;
	t->max = MAX_OBJECTS;
	return begin(t, NULL, 0, out);
}

int trace_reload(struct trace_reader *t)
{
	int ret = load(t, NULL, 0);

	t->win_n = 0;
	if (t->at > t->info.next) /* it counts upwards, but who knows */
		t->at = t->info.next;
	if (t->at < t->info.first) {
		t->unreadable += t->info.first - t->at;
		t->at = t->info.first;
	}
	return ret;
}

void trace_close(struct trace_reader *t)
{
	if (!t)
		return;
	if (t->own_fd)
		close(t->fd);
	free(t->object);
	free(t);
}

const struct trace_info *trace_info(const struct trace_reader *t)
{
	return &t->info;
}

size_t trace_object_count(const struct trace_reader *t)
{
	return t->n_objects;
}

const struct trace_object *trace_object(const struct trace_reader *t, size_t i)
{
	return i < t->n_objects ? &t->object[i] : NULL;
}

const struct trace_object *trace_find(const struct trace_reader *t,
				      enum trace_object_kind kind, uint32_t id)
{
	for (size_t i = t->n_objects; i-- > 0;)
		if (t->object[i].kind == kind && t->object[i].id == id)
			return &t->object[i];
	return NULL;
}

void trace_odp_total(const struct trace_reader *t, uint64_t total[TRACE_N_ODP])
{
	memcpy(total, t->info.gone, sizeof(t->info.gone));
	for (size_t i = 0; i < t->n_objects; i++) {
		const struct trace_object *o = &t->object[i];

		for (size_t k = 0; o->kind == TRACE_OBJ_MR && !o->gone && k < TRACE_N_ODP;
		     k++)
			total[k] += o->mr.counter[k];
	}
}

/* --- records ---------------------------------------------------------------------- */

void trace_rewind(struct trace_reader *t)
{
	t->at = t->info.first;
	t->unreadable = 0;
	t->win_n = 0;
}

void trace_last(struct trace_reader *t, uint64_t n)
{
	trace_rewind(t);
	if (t->info.next - t->info.first > n)
		t->at = t->info.next - n;
}

uint64_t trace_unreadable(const struct trace_reader *t)
{
	return t->unreadable;
}

/* Read the slots of the records from @t->at on, up to the end of the ring. */
static void fill_window(struct trace_reader *t)
{
	uint64_t index = t->at & (t->info.slots - 1), n = t->info.slots - index;
	uint64_t offset = t->ring + index * sizeof(struct raw_slot);
	size_t got;

	if (n > WINDOW)
		n = WINDOW;
	if (n > t->info.next - t->at)
		n = t->info.next - t->at;
	memset(t->win, 0, sizeof(t->win));
	memset(t->again, 0, sizeof(t->again));
	got = source_read(t, offset, t->win, n * sizeof(t->win[0]));
	if (source_read(t, offset, t->again, n * sizeof(t->win[0])) < got)
		memset(t->again, 0, sizeof(t->again));
	t->win_first = t->at;
	t->win_n = n;
	/* of what is behind the end of a file that was cut off, nothing is to be had */
	if (!got) {
		t->unreadable += t->info.next - t->at;
		t->at = t->info.next;
		t->win_n = 0;
	}
}

static bool decode(const struct trace_reader *t, uint64_t i, struct trace_record *out)
{
	const struct raw_slot *s = &t->win[i];

	if (s->seq != 2 * (t->win_first + i) + 2 || t->again[i].seq != s->seq)
		return false;
	out->number = t->win_first + i;
	out->time = s->time;
	out->kind = (uint16_t)s->what;
	out->device = (uint16_t)(s->what >> 16);
	out->thread = (uint32_t)(s->what >> 32);
	memcpy(&out->u, s->payload, sizeof(out->u));
	return out->kind > TRACE_KIND_none && out->kind < TRACE_N_KINDS;
}

bool trace_next(struct trace_reader *t, struct trace_record *out)
{
	while (t->at != t->info.next) {
		uint64_t i;

		if (!t->win_n || t->at - t->win_first >= t->win_n) {
			fill_window(t);
			continue;
		}
		i = t->at++ - t->win_first;
		if (decode(t, i, out))
			return true;
		t->unreadable++;
	}
	return false;
}

/* --- the table of kinds ----------------------------------------------------------- */

#define F(S, type, field, unit)                                                          \
	{#field, TRACE_##unit, (uint8_t)offsetof(S, field), sizeof(type),                \
	 _Generic(*(type *)0, int32_t                                                    \
		  : true, default                                                        \
		  : false)},
#define X(name, fields, severity, text)                                                  \
	static const struct trace_field_desc fields_of_##name[] = {                      \
	    TRACE_FIELDS_##fields(F, struct trace_rec_##name)};
TRACE_KINDS(X)
#undef X
#undef F

#define X(name, fields, severity, text)                                                  \
	{#name, text, TRACE_##severity, fields_of_##name,                                \
	 sizeof(fields_of_##name) / sizeof(fields_of_##name[0])},
static const struct trace_kind_desc kinds[] = {TRACE_KINDS(X)};
#undef X

const struct trace_kind_desc *trace_kind(unsigned int kind)
{
	return kind > TRACE_KIND_none && kind < TRACE_N_KINDS ? &kinds[kind] : NULL;
}

uint64_t trace_field(const struct trace_record *r, const struct trace_field_desc *f)
{
	const uint8_t *p = r->u.bytes + f->offset;
	uint64_t v = 0;
	int32_t s;

	if (f->is_signed) {
		memcpy(&s, p, sizeof(s));
		return (uint64_t)(int64_t)s;
	}
	if (f->size > sizeof(v))
		return 0;
		/* the lowest bytes, whichever order the machine has */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	memcpy(&v, p, f->size);
#else
	memcpy((uint8_t *)&v + sizeof(v) - f->size, p, f->size);
#endif
	return v;
}

const struct trace_field_desc *trace_field_named(const struct trace_kind_desc *k,
						 const char *name)
{
	for (unsigned int i = 0; i < k->n_fields; i++)
		if (!strcmp(k->field[i].name, name))
			return &k->field[i];
	return NULL;
}
