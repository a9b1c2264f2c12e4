/*
 * reader.h - reads segments and trace files: those of running, stopped and dead processes.
 *
 * Nothing in a file is believed: sizes are checked against the file, texts are made
 * printable, records that were being written, or make no sense, are left out and counted.
 * Nothing is asked of the process that writes. A reader looks at one moment: what is written
 * later is seen after trace_reload().
 *
 *	struct trace_reader *t;
 *	struct trace_record r;
 *
 *	if (trace_open(path, why, sizeof(why), &t))
 *		...
 *	while (trace_next(t, &r))
 *		if (r.kind == TRACE_KIND_qp_state)
 *			use(&r.u.qp_state);
 *	trace_close(t);
 */
#ifndef URXE_TRACE_READER_H
#define URXE_TRACE_READER_H

#include <stddef.h>

#include "trace/format.h"
#include "trace/names.h"

struct recorder;
struct trace_reader;

#define TRACE_WHY_BYTES 160 /* room for a reason */

/*
 * trace_open - 0, or -errno with one line in @why: ENOENT..., EINVAL (no trace of urxe, or
 * damaged), EPROTONOSUPPORT (of another version)
 */
int trace_open(const char *path, char *why, size_t size, struct trace_reader **out);
/*
 * trace_open_fd - of a file that is open, which is not closed and must stay open as long as
 * the reader. At most @max objects are taken from it (0: as many as a segment can have).
 */
int trace_open_fd(int fd, size_t max, char *why, size_t size, struct trace_reader **out);
/* The segment of this process, or of a simulator */
int trace_open_recorder(const struct recorder *r, struct trace_reader **out);
void trace_close(struct trace_reader *t);
/* Look again: trace_next() goes on where it was. 0 or -errno */
int trace_reload(struct trace_reader *t);

/*
 * struct trace_info - what the header says, made safe
 * @first, @next: numbers of the oldest record that can be there, and of the one to come
 * @overwritten, @lost: records that are gone, and those that were never written
 * @unlisted:	objects that are not in the table
 */
struct trace_info {
	int32_t pid;
	uint32_t uid;
	uint64_t start;
	char program[64], host[64], rank[12], elsewhere[1024], keep[1024];
	uint64_t full_from, full_until;
	uint32_t asked, done;
	int32_t refused;
	uint64_t lease;
	uint64_t mono, real;
	uint64_t exe_dev, exe_ino;
	uint64_t kinds;
	uint32_t end;
	bool full, uffd;
	uint64_t uffd_events;
	uint64_t slots, first, next, overwritten, lost, unlisted;
	uint64_t gone[TRACE_N_ODP];
	uint64_t net[TRACE_N_NET];
	uint64_t left[TRACE_N_OBJECTS];
	uint64_t completions, most, abandoned;
};
const struct trace_info *trace_info(const struct trace_reader *t);

/* Objects in the order in which they were made; texts in them end and are printable */
size_t trace_object_count(const struct trace_reader *t);
const struct trace_object *trace_object(const struct trace_reader *t, size_t i);
/* The object of @kind with that id, the newest; NULL */
const struct trace_object *trace_find(const struct trace_reader *t,
				      enum trace_object_kind kind, uint32_t id);
/* Counters of all MRs that are and were */
void trace_odp_total(const struct trace_reader *t, uint64_t total[TRACE_N_ODP]);

/* struct trace_record - @number: its place in the order of writing; @u: by @kind */
struct trace_record {
	uint64_t number, time;
	uint32_t thread;
	uint16_t kind, device;
	union {
		uint64_t words[TRACE_PAYLOAD / 8];
		uint8_t bytes[TRACE_PAYLOAD];
#define X(name, fields, severity, text) struct trace_rec_##name name;
		TRACE_KINDS(X)
#undef X
	} u;
};
/* trace_next - the next record in the order of writing; false: there is none */
bool trace_next(struct trace_reader *t, struct trace_record *out);
/* Begin again; or with the last @n */
void trace_rewind(struct trace_reader *t);
void trace_last(struct trace_reader *t, uint64_t n);
/* Records that trace_next() has left out up to now, since they could not be read */
uint64_t trace_unreadable(const struct trace_reader *t);

/* struct trace_field_desc - a field of a kind, at @offset of the payload */
struct trace_field_desc {
	const char *name;
	enum trace_unit unit;
	uint8_t offset, size;
	bool is_signed;
};

/* struct trace_kind_desc - a kind, as kinds.h has it */
struct trace_kind_desc {
	const char *name, *text;
	enum trace_severity severity;
	const struct trace_field_desc *field;
	unsigned int n_fields;
};
/* NULL: there is no such kind */
const struct trace_kind_desc *trace_kind(unsigned int kind);
/* The value of a field that is a number (not TRACE_IP), sign-extended if it has a sign */
uint64_t trace_field(const struct trace_record *r, const struct trace_field_desc *f);
const struct trace_field_desc *trace_field_named(const struct trace_kind_desc *k,
						 const char *name);

#endif
